/* Tensor arrays: tensors by index, each written once and (usually) read once, within one step.
 *
 * Gradients are built in: a gradient array starts as zeros with the forward array's shapes, and a
 * write to an index that has a value adds to it. Each array has its own lock; any thread may enter.
 * Reads and writes share buffers; nothing is copied. */
#ifndef DP_KERNELS_LISTS_TENSOR_ARRAY_INTERNAL_H
#define DP_KERNELS_LISTS_TENSOR_ARRAY_INTERNAL_H

#include <pthread.h>
#include "kernels/shared/support.h"

/* One index. A NULL entry was never touched. */
typedef struct dp_tensor_array_entry {
  dp_tensor value; /* without a buffer: only a shape, which stands for zeros */
  bool is_written;
  bool is_read;
  bool is_cleared;
  bool is_sum; /* the array owns the value's memory and may add to it */
} dp_tensor_array_entry;

typedef struct dp_tensor_array_object {
  dp_resource resource;
  char *key;  /* name in the step's container */
  char *name; /* for messages: the key without its prefix */
  dp_dtype dtype;
  bool aggregates;  /* several writes to an index add up */
  bool is_gradient; /* an index that was never written reads as zeros */
  bool clears_after_read;
  bool has_identical_shapes;
  pthread_mutex_t lock; /* for the fields below */
  bool is_closed;
  bool is_dynamic;
  bool has_sums; /* its gradient can no longer be taken */
  int64_t marked_size;
  dp_partial_shape element_shape;
  dp_tensor_array_entry **entries;
  int64_t size, capacity;
} dp_tensor_array_object;

extern const dp_resource_ops dp_tensor_array_ops;

typedef struct dp_tensor_array_options {
  const char *prefix, *name;
  dp_dtype dtype;
  int64_t size;
  const dp_partial_shape *element_shape;
  bool has_identical_shapes, is_dynamic, clears_after_read;
} dp_tensor_array_options;

/* RESOURCE_EXHAUSTED when there are too many entries. */
DP_MUST_USE dp_status *dp_tensor_array_create(const dp_tensor_array_options *options,
                                              dp_tensor_array_object **array_out);
/* The gradient array of `forward`, with the same size and shapes; if `prepend` is not NULL, it is
 * put before each shape. The forward array can no longer grow. */
DP_MUST_USE dp_status *dp_tensor_array_create_gradient(dp_tensor_array_object *forward,
                                                       const char *prefix, const char *name,
                                                       const dp_shape *prepend,
                                                       dp_tensor_array_object **array_out);

/* Writes values[i] to indices[i], or to i when `indices` is NULL, under one lock. The array shares
 * the values' buffers; the caller keeps its tensors. */
DP_MUST_USE dp_status *dp_tensor_array_write(dp_tensor_array_object *array, const int32_t *indices,
                                             const dp_tensor *values, int64_t count);
/* Sets values_out[0..count) on success. */
DP_MUST_USE dp_status *dp_tensor_array_read(dp_tensor_array_object *array, const int32_t *indices,
                                            dp_tensor *values_out, int64_t count);
/* INVALID_ARGUMENT when the array is closed. */
DP_MUST_USE dp_status *dp_tensor_array_size(dp_tensor_array_object *array, int64_t *size_out);
/* The number of elements that pack and concat take. For a gradient array it is the number that
 * unpack or split wrote to the forward array. */
DP_MUST_USE dp_status *dp_tensor_array_pack_size(dp_tensor_array_object *array, int64_t *size_out);
DP_MUST_USE dp_status *dp_tensor_array_mark_size(dp_tensor_array_object *array, int64_t size);
/* Adds a shape that all elements must fit from now on. */
DP_MUST_USE dp_status *dp_tensor_array_merge_shape(dp_tensor_array_object *array,
                                                   const dp_partial_shape *shape);
void dp_tensor_array_close(dp_tensor_array_object *array);

#endif
