/* Iterators as resources: what the ops on iterators share. */
#ifndef DP_KERNELS_ITERATOR_INTERNAL_H
#define DP_KERNELS_ITERATOR_INTERNAL_H

#include "kernels/data/dataset_internal.h"

/* ---- Kinds of iterators, and handles to them (iterator_handle.c) ---- */
/* Whether a dataset's components fit; worded as TensorFlow. */
DP_MUST_USE dp_status *dp_components_check(const dp_components *components,
                                           const dp_dataset *dataset);

/* What the resource of every kind begins with. */
typedef struct dp_iterator_base {
  dp_resource resource;
  dp_components components;
} dp_iterator_base;

typedef struct dp_iterator_kind {
  const dp_resource_ops *ops;
  const char *anonymous_name;
  dp_status *(*create)(const dp_node *node, dp_iterator_base **resource_out);
} dp_iterator_kind;

/* The state of a node that makes an iterator under a name. One without a shared name is its
 * session's own. */
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
/* Finds or makes what the handle names; retained. */
DP_MUST_USE dp_status *dp_iterator_handle_find(dp_op_context *context, dp_iterator_handle *handle,
                                               dp_iterator_base **resource_out);
/* The same, and the handle into output 0. */
DP_MUST_USE dp_status *dp_iterator_handle_compute(dp_op_context *context, void *handle);
DP_MUST_USE dp_status *dp_iterator_handle_output(dp_op_context *context,
                                                 const dp_iterator_handle *handle);
/* A new iterator without a name, which its handles hold, into output 0; a deleter into output 1. */
DP_MUST_USE dp_status *dp_iterator_anonymous(dp_op_context *context, const dp_iterator_kind *kind);
/* Handles as text. */
DP_MUST_USE dp_status *dp_iterator_to_text(dp_op_context *context, const dp_iterator_kind *kind);
DP_MUST_USE dp_status *dp_iterator_from_text(dp_op_context *context, const dp_iterator_kind *kind);
/* An element into the outputs, whose types must fit; what is taken is unset in it. */
DP_MUST_USE dp_status *dp_iterator_output_element(dp_op_context *context, dp_tensor *element,
                                                  int32_t count);
/* Ends a walk, which waits for its calls and may make one more: so on a thread of its own, whatever
 * the caller is in the middle of. Accepts NULL. */
void dp_iterator_end(dp_iterator *iterator);

/* ---- One walk ---- */
/* A named walk. Steps take elements one at a time under the lock; a new walk (MakeIterator)
 * replaces the old one. */
typedef struct dp_iterator_resource {
  dp_iterator_base base;
  pthread_mutex_t lock;  /* over the walk: held while an element is taken */
  dp_iterator *iterator; /* NULL until initialized */
  /* How the walk can be walked again (see iterator_checkpoint.c), under the lock. */
  int64_t position;   /* elements that were taken, those that failed too */
  dp_seed_list seeds; /* of the dataset's generators when the walk began */
} dp_iterator_resource;

extern const dp_resource_ops dp_iterator_resource_ops; /* "N10tensorflow4data16IteratorResourceE" */
extern const dp_iterator_kind dp_iterator_one_walk;
/* Begins a walk through `dataset`, whose components must fit. */
DP_MUST_USE dp_status *dp_iterator_resource_start(dp_iterator_resource *resource,
                                                  dp_dataset *dataset);
/* Begins the walk anew with these seeds, which it takes, and goes on to a position; waits.
 * FAILED_PRECONDITION when no walk has begun. */
DP_MUST_USE dp_status *dp_iterator_resource_resume(dp_iterator_resource *resource,
                                                   const dp_walk *walk, int64_t position,
                                                   dp_seed_list *seeds);
/* The next element; waits. As many tensors as components, the caller's on success with *more_out.
 */
DP_MUST_USE dp_status *dp_iterator_resource_next(dp_iterator_resource *resource,
                                                 const dp_walk *walk, dp_tensor *element,
                                                 bool *more_out);
/* An optional: a variant that holds an element or nothing. Consumes the tensors of `element`; NULL
 * for nothing. */
DP_MUST_USE dp_status *dp_optional_create(dp_tensor *element, int32_t count, dp_tensor *tensor_out);

/* Runs `work` on a thread of the datasets, where it may wait, and ends the run with what it
 * returns. */
typedef dp_status *(*dp_waiting_fn)(dp_op_context *context, void *state);
void dp_dataset_compute(dp_op_context *context, void *state, dp_waiting_fn work);

#endif
