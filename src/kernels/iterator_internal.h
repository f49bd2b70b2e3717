/* Iterators as resources: what the ops on iterators share. */
#ifndef DP_KERNELS_ITERATOR_INTERNAL_H
#define DP_KERNELS_ITERATOR_INTERNAL_H

#include "kernels/dataset_internal.h"

/* A named walk. Steps take elements one at a time under the lock; a new walk (MakeIterator)
 * replaces the old one. */
typedef struct dp_iterator_resource {
  dp_resource resource;
  dp_device *device;       /* borrowed: it holds the resource */
  pthread_mutex_t lock;    /* over the walk: held while an element is taken */
  dp_iterator *iterator;   /* NULL until initialized */
  int32_t component_count; /* as declared */
  dp_dtype *dtypes;
  dp_partial_shape *shapes;
  /* How the walk can be walked again (see iterator_checkpoint.c), under the lock. */
  int64_t position;   /* elements that were taken, those that failed too */
  dp_seed_list seeds; /* of the dataset's generators when the walk began */
} dp_iterator_resource;

extern const dp_resource_ops dp_iterator_resource_ops; /* "N10tensorflow4data16IteratorResourceE" */

/* Components from the node's output_types and output_shapes. */
DP_MUST_USE dp_status *dp_iterator_resource_create(const dp_node *node, dp_device *device,
                                                   dp_iterator_resource **resource_out);
/* Begins a walk through `dataset`, whose components must fit. */
DP_MUST_USE dp_status *dp_iterator_resource_start(dp_iterator_resource *resource,
                                                  dp_dataset *dataset);
/* Begins the walk anew with these seeds, which it takes, and goes on to a position; waits.
 * FAILED_PRECONDITION when no walk has begun. */
DP_MUST_USE dp_status *dp_iterator_resource_resume(dp_iterator_resource *resource,
                                                   const dp_walk *walk, int64_t position,
                                                   dp_seed_list *seeds);
/* The next element; waits. component_count tensors, the caller's on success with *more_out. */
DP_MUST_USE dp_status *dp_iterator_resource_next(dp_iterator_resource *resource,
                                                 const dp_walk *walk, dp_tensor *element,
                                                 bool *more_out);
/* Whether declared components fit others; worded as TensorFlow. */
DP_MUST_USE dp_status *dp_components_check(int32_t expected_count, const dp_dtype *expected_dtypes,
                                           const dp_partial_shape *expected_shapes, int32_t count,
                                           const dp_dtype *dtypes, const dp_partial_shape *shapes);

/* An optional: a variant that holds an element or nothing. Consumes the tensors of `element`; NULL
 * for nothing. */
DP_MUST_USE dp_status *dp_optional_create(dp_tensor *element, int32_t count, dp_tensor *tensor_out);

/* Runs `work` on a thread of the datasets, where it may wait, and ends the run with what it
 * returns. */
typedef dp_status *(*dp_waiting_fn)(dp_op_context *context, void *state);
void dp_dataset_compute(dp_op_context *context, void *state, dp_waiting_fn work);

#endif
