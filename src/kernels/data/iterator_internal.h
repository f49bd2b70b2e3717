/* Iterators as resources: what the files iterator*.c share. A resource holds a walk through a
 * dataset, so that each step can take the next element from it. Functions that block say so; call
 * those on a thread of dp_dataset_run only. */
#ifndef DP_KERNELS_DATA_ITERATOR_INTERNAL_H
#define DP_KERNELS_DATA_ITERATOR_INTERNAL_H

#include "kernels/data/dataset_internal.h"

/* ---- Kinds of iterators, and handles to them (iterator_handle.c) ---- */
/* Checks that a dataset has these components; the error texts are TensorFlow's. */
DP_MUST_USE dp_status *dp_components_check(const dp_components *components,
                                           const dp_dataset *dataset);

/* The first member of the resource of every kind of iterator. */
typedef struct dp_iterator_base {
  dp_resource resource;
  dp_components components;
} dp_iterator_base;

typedef struct dp_iterator_kind {
  const dp_resource_ops *ops;
  const char *anonymous_name;
  dp_status *(*create)(const dp_node *node, dp_iterator_base **resource_out);
} dp_iterator_kind;

/* The state of a node that makes an iterator under a name. Without a shared name, the iterator
 * belongs to the session. */
typedef struct dp_iterator_handle {
  const dp_iterator_kind *kind;
  dp_resource_name name;
  const dp_node *node;
  dp_resources *resources;
} dp_iterator_handle;
DP_MUST_USE dp_status *dp_iterator_handle_init(dp_iterator_handle *handle,
                                               const dp_kernel_setup *setup,
                                               const dp_iterator_kind *kind);
void dp_iterator_handle_deinit(void *handle);
/* Finds or makes the iterator that the handle names. The caller releases it. */
DP_MUST_USE dp_status *dp_iterator_handle_find(dp_op_context *context, dp_iterator_handle *handle,
                                               dp_iterator_base **resource_out);
/* Finds or makes it, and writes the handle to output 0. */
DP_MUST_USE dp_status *dp_iterator_handle_compute(dp_op_context *context, void *handle);
DP_MUST_USE dp_status *dp_iterator_handle_output(dp_op_context *context,
                                                 const dp_iterator_handle *handle);
/* Makes an iterator without a name and writes its handle to output 0; the handles own it. Output 1,
 * if there is one, is a deleter. */
DP_MUST_USE dp_status *dp_iterator_anonymous(dp_op_context *context, const dp_iterator_kind *kind);
/* Handles to and from text (a serialized ResourceHandleProto). */
DP_MUST_USE dp_status *dp_iterator_to_text(dp_op_context *context, const dp_iterator_kind *kind);
DP_MUST_USE dp_status *dp_iterator_from_text(dp_op_context *context, const dp_iterator_kind *kind);
/* Moves an element to the outputs, whose dtypes must fit. Tensors that were moved are unset in
 * `element`. */
DP_MUST_USE dp_status *dp_iterator_output_element(dp_op_context *context, dp_tensor *element,
                                                  int32_t count);
/* Destroys an iterator on a thread of its own, because that waits for running calls of functions
 * and may make one more. So it may be called anywhere. Accepts NULL. */
void dp_iterator_end(dp_iterator *iterator);

/* ---- One walk ---- */
/* An iterator resource. Steps take elements one at a time under the lock; MakeIterator replaces the
 * walk by a new one. */
typedef struct dp_iterator_resource {
  dp_iterator_base base;
  pthread_mutex_t lock;  /* guards the walk; held while an element is taken */
  dp_iterator *iterator; /* NULL until initialized */
  /* What a checkpoint needs to repeat the walk (iterator_checkpoint.c), under the lock: */
  int64_t position;   /* elements taken, including those that failed */
  dp_seed_list seeds; /* the dataset's generators as they were when the walk began */
} dp_iterator_resource;

extern const dp_resource_ops dp_iterator_resource_ops; /* "N10tensorflow4data16IteratorResourceE" */
extern const dp_iterator_kind dp_iterator_one_walk;
/* Begins a walk through `dataset`. Its components must fit the resource's. */
DP_MUST_USE dp_status *dp_iterator_resource_start(dp_iterator_resource *resource,
                                                  dp_dataset *dataset);
/* Begins the walk anew with these seeds, which it consumes, and skips to `position`. Blocks.
 * FAILED_PRECONDITION when no walk has begun. */
DP_MUST_USE dp_status *dp_iterator_resource_resume(dp_iterator_resource *resource,
                                                   const dp_walk *walk, int64_t position,
                                                   dp_seed_list *seeds);
/* Takes the next element: one tensor per component, the caller's when *more_out is true. Blocks. */
DP_MUST_USE dp_status *dp_iterator_resource_next(dp_iterator_resource *resource,
                                                 const dp_walk *walk, dp_tensor *element,
                                                 bool *more_out);

#endif
