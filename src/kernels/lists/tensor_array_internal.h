/* Tensor arrays: tensors by index, each written once and (usually) read once, within one step.
 *
 * What a gradient needs is built in: a gradient array starts as zeros of the forward array's
 * shapes, and writes to an index that has a value add to it. An array has a lock of its own and any
 * thread may enter. Reads and writes share buffers; nothing is copied. */
#ifndef DP_KERNELS_TENSOR_ARRAY_INTERNAL_H
#define DP_KERNELS_TENSOR_ARRAY_INTERNAL_H

#include <pthread.h>
#include "kernels/shared/support.h"

/* One index. NULL in the array: never touched. */
typedef struct dp_tensor_array_entry {
  dp_tensor value; /* without buffer: only a shape, which stands for zeros */
  bool is_written;
  bool is_read;
  bool is_cleared;
  bool is_sum; /* value is memory of the array's own */
} dp_tensor_array_entry;

typedef struct dp_tensor_array_object {
  dp_resource resource;
  char *key;  /* name in the step's container */
  char *name; /* as messages have it: the key without its prefix */
  dp_dtype dtype;
  bool aggregates;  /* several writes to an index add up */
  bool is_gradient; /* reads of what nobody wrote are zeros */
  bool clears_after_read;
  bool has_identical_shapes;
  pthread_mutex_t lock; /* for all below */
  bool is_closed;
  bool is_dynamic;
  bool has_sums; /* no gradient of it can be taken any more */
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

/* RESOURCE_EXHAUSTED when there is no room for so many entries. */
DP_MUST_USE dp_status *dp_tensor_array_create(const dp_tensor_array_options *options,
                                              dp_tensor_array_object **array_out);
/* The gradient array of `forward`: same sizes and shapes (with `prepend` before each when not
 * NULL). The forward array no longer grows. */
DP_MUST_USE dp_status *dp_tensor_array_create_gradient(dp_tensor_array_object *forward,
                                                       const char *prefix, const char *name,
                                                       const dp_shape *prepend,
                                                       dp_tensor_array_object **array_out);

/* Each index in turn, under one lock: indices[i], or i when `indices` is NULL. Values are shared,
 * not taken. */
DP_MUST_USE dp_status *dp_tensor_array_write(dp_tensor_array_object *array, const int32_t *indices,
                                             const dp_tensor *values, int64_t count);
/* values_out[0..count): set on success. */
DP_MUST_USE dp_status *dp_tensor_array_read(dp_tensor_array_object *array, const int32_t *indices,
                                            dp_tensor *values_out, int64_t count);
/* INVALID_ARGUMENT when the array is closed. */
DP_MUST_USE dp_status *dp_tensor_array_size(dp_tensor_array_object *array, int64_t *size_out);
/* How many elements pack and concat take: of a gradient array, as many as unpack or split wrote to
 * the forward one. */
DP_MUST_USE dp_status *dp_tensor_array_pack_size(dp_tensor_array_object *array, int64_t *size_out);
DP_MUST_USE dp_status *dp_tensor_array_mark_size(dp_tensor_array_object *array, int64_t size);
/* What all elements' shapes must fit from now on. */
DP_MUST_USE dp_status *dp_tensor_array_merge_shape(dp_tensor_array_object *array,
                                                   const dp_partial_shape *shape);
void dp_tensor_array_close(dp_tensor_array_object *array);

#endif
