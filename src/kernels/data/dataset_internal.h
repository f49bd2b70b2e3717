/* Datasets and iterators.
 *
 * A dataset is an immutable recipe: where elements come from and what is done to them; ops make one
 * from others and pass it on as a variant. An iterator is one walk through it. An element is a
 * tuple of tensors, as many as the dataset has components.
 *
 * Walking may wait: for files, for functions of the user's (map), for another thread (prefetch). So
 * no walk runs on a thread of the pools: whoever walks does it on a thread of dp_dataset_run, of
 * which there are as many as needed. An iterator has one walker at a time; all waits watch the
 * cancel scope of the walk. */
#ifndef DP_KERNELS_DATASET_INTERNAL_H
#define DP_KERNELS_DATASET_INTERNAL_H

#include <pthread.h>
#include "base/memory.h"
#include "kernels/shared/support.h"
#include "runtime/function.h"
#include "storage/stream.h"

typedef struct dp_dataset dp_dataset;
typedef struct dp_iterator dp_iterator;
typedef struct dp_dataset_origin dp_dataset_origin;

/* What a walk needs from outside. */
typedef struct dp_walk {
  dp_cancel *cancel; /* may be NULL */
} dp_walk;

/* Numbers that tell the state of generators of random numbers, one generator after the other. */
typedef struct dp_seed_list {
  DP_ARRAY(int64_t) numbers;
  size_t next; /* to be read */
} dp_seed_list;

typedef struct dp_iterator_ops {
  size_t size; /* of a struct that begins with dp_iterator */
  /* The next element into `element` (component_count unset tensors), or *more_out false. After an
   * error, and after the end, it may be asked again. */
  dp_status *(*next)(dp_iterator *iterator, const dp_walk *walk, dp_tensor *element,
                     bool *more_out);
  void (*destroy)(dp_iterator *iterator); /* what the kind added; may be NULL */
} dp_iterator_ops;

typedef struct dp_dataset_ops {
  const char *name;                /* "Range" */
  const dp_iterator_ops *iterator; /* of its walks; NULL when `iterate` makes them */
  /* Number of elements, or one of the below; may be NULL for unknown. */
  int64_t (*cardinality)(dp_dataset *dataset);
  void (*destroy)(dp_dataset *dataset); /* what the kind added; may be NULL */
  /* For kinds that draw at random: adds the state of the generator, and sets it to what was added
   * then (a list that is too short changes nothing). NULL for the rest. */
  void (*save_seeds)(dp_dataset *dataset, dp_seed_list *seeds);
  void (*load_seeds)(dp_dataset *dataset, dp_seed_list *seeds);
  /* A new iterator, at the beginning, for kinds whose iterators need more than zeros;
   * dp_dataset_iterate retains `dataset` in it. */
  dp_iterator *(*iterate)(dp_dataset *dataset);
} dp_dataset_ops;
#define DP_CARDINALITY_INFINITE (-1)
#define DP_CARDINALITY_UNKNOWN (-2)

struct dp_dataset {
  dp_refcount references;
  const dp_dataset_ops *ops;
  int32_t component_count;
  dp_dtype *dtypes;
  dp_partial_shape *shapes;
  dp_dataset *input;             /* retained; NULL for sources */
  DP_ARRAY(dp_dataset *) others; /* retained: what it reads beside its input */
  dp_dataset_origin *origin;     /* how it was made, or NULL: see dataset_graph.c */
  uint64_t number;               /* of all that were ever made; in messages */
  const char *label;             /* of its iterators in messages; NULL: named after the op */
};

struct dp_iterator {
  const dp_iterator_ops *ops;
  dp_dataset *dataset; /* retained */
  /* Over the dataset's input and over its others; owned; NULL before the first use, and for
   * datasets that have none. */
  dp_iterator *input, **others;
  const dp_iterator *parent; /* the one that walks this one; NULL for the first */
  int64_t place;             /* which of the parent's it is; -1: it has no number */
  const char *walker;        /* of the first one: what messages begin its path with, or NULL */
};

/* ---- Datasets ---- */
/* A zeroed dataset of `size` bytes (a struct that begins with dp_dataset) with the components of
 * `input`, which is retained; or without components when `input` is NULL. */
void *dp_dataset_create(const dp_dataset_ops *ops, size_t size, dp_dataset *input);
/* Adds to its others, and retains it. */
void dp_dataset_add_other(dp_dataset *dataset, dp_dataset *other);
dp_dataset *dp_dataset_retain(dp_dataset *dataset);
void dp_dataset_release(dp_dataset *dataset); /* accepts NULL */
/* Replaces the components by copies of these. */
void dp_dataset_set_components(dp_dataset *dataset, int32_t count, const dp_dtype *dtypes,
                               const dp_partial_shape *shapes);
/* The components of elements as a node declares them, in its lists output_types and output_shapes.
 */
typedef struct dp_components {
  int32_t count;
  dp_dtype *dtypes;
  dp_partial_shape *shapes;
} dp_components;
DP_MUST_USE dp_status *dp_components_read(const dp_node *node, dp_components *components_out);
void dp_components_deinit(dp_components *components);
DP_MUST_USE dp_status *dp_dataset_components_from_node(dp_dataset *dataset, const dp_node *node);
int64_t dp_dataset_cardinality(dp_dataset *dataset);
/* Of the dataset's input, for kinds that pass on as many. */
int64_t dp_dataset_input_cardinality(dp_dataset *dataset);
/* Of an input that is walked `count` times, or for ever when that is negative; unknown when it does
 * not fit. */
int64_t dp_cardinality_repeat(int64_t input, int64_t count);
/* "int64, float": the dtypes of all components, for messages; in the ring of dp_shape_text. */
const char *dp_dataset_types_text(const dp_dataset *dataset);
bool dp_dataset_same_dtypes(const dp_dataset *a, const dp_dataset *b);
/* What both shapes have in common. */
dp_partial_shape dp_dataset_common_shape(const dp_partial_shape *a, const dp_partial_shape *b);

/* ---- Between ops ---- */
/* The dataset in input `slot`, borrowed. */
DP_MUST_USE dp_status *dp_dataset_input(dp_op_context *context, int32_t slot,
                                        dp_dataset **dataset_out);
/* The dataset in a variant tensor, borrowed. */
DP_MUST_USE dp_status *dp_dataset_of_tensor(const dp_tensor *tensor, dp_dataset **dataset_out);
/* Consumes `dataset`. */
DP_MUST_USE dp_status *dp_dataset_output(dp_op_context *context, int32_t output,
                                         dp_dataset *dataset);
/* Output 0, or the error that making the dataset ended with. Consumes both. */
DP_MUST_USE dp_status *dp_dataset_finish(dp_op_context *context, dp_dataset *dataset,
                                         dp_status *status);
DP_MUST_USE dp_status *dp_dataset_to_tensor(dp_dataset *dataset, dp_tensor *tensor_out);
/* A scalar input: "<name> must be a scalar". */
DP_MUST_USE dp_status *dp_dataset_scalar(dp_op_context *context, int32_t slot, const char *name,
                                         int64_t *value_out);
DP_MUST_USE dp_status *dp_dataset_bool(dp_op_context *context, int32_t slot, const char *name,
                                       bool *value_out);
/* How a file of records is compressed; names that nobody knows mean not at all, with a warning. */
DP_MUST_USE dp_status *dp_dataset_record_compression(dp_op_context *context, int32_t slot,
                                                     dp_compression *compression_out);

/* Keeps what the context's node made the dataset from, and drops it. */
void dp_dataset_remember(dp_dataset *dataset, const dp_op_context *context);
void dp_dataset_forget(dp_dataset *dataset);
/* The node that made the dataset; NULL when it was made by hand. */
const dp_node *dp_dataset_node(const dp_dataset *dataset);
/* The graph that makes the dataset; the caller destroys it. `node_out` is the dataset's in it. */
DP_MUST_USE dp_status *dp_dataset_to_graph(const dp_dataset *dataset, dp_graph **graph_out,
                                           dp_node **node_out);
/* A number that pipelines share which are written alike; see dataset_hash.c. */
DP_MUST_USE dp_status *dp_dataset_hash(const dp_dataset *dataset, uint64_t *hash_out);
/* The generators of this dataset and of all its inputs; those that functions make for each element
 * are not among them. */
void dp_dataset_save_seeds(dp_dataset *dataset, dp_seed_list *seeds);
void dp_dataset_load_seeds(dp_dataset *dataset, dp_seed_list *seeds);

/* ---- Iterators ---- */
/* A zeroed iterator. */
void *dp_iterator_create(const dp_iterator_ops *ops);
/* One that no other walks; `walker` is what messages call it, DP_WALKER for those of iterator ops.
 * With NULL they do not say where in the pipeline a function failed. */
dp_iterator *dp_dataset_iterate(dp_dataset *dataset, const char *walker);
#define DP_WALKER "Iterator::Root"
/* One that `parent` walks, as its number `place`, or -1. */
dp_iterator *dp_iterator_over(const dp_iterator *parent, dp_dataset *dataset, int64_t place);
/* An error of the user's function in this iterator (NULL: none), with the dataset's name and the
 * path to the iterator before it. Consumes and gives a status. */
dp_status *dp_iterator_blame(const dp_iterator *iterator, dp_status *status);
void dp_iterator_destroy(dp_iterator *iterator); /* accepts NULL */
/* On success with *more_out, the caller owns the tensors of `element`; else they are unset. */
DP_MUST_USE dp_status *dp_iterator_next(dp_iterator *iterator, const dp_walk *walk,
                                        dp_tensor *element, bool *more_out);
/* Makes the iterators over the others of `dataset`, which is or will be the iterator's; their
 * places are numbered from `first` on. */
void dp_iterator_open_others(dp_iterator *iterator, dp_dataset *dataset, int64_t first);
/* The same on the iterator's input, which is made first if need be. */
DP_MUST_USE dp_status *dp_iterator_next_input(dp_iterator *iterator, const dp_walk *walk,
                                              dp_tensor *element, bool *more_out);

/* ---- Elements ---- */
dp_tensor *dp_element_create(int32_t count); /* unset tensors */
void dp_element_clear(dp_tensor *element, int32_t count);
void dp_element_destroy(dp_tensor *element, int32_t count); /* clears and frees; accepts NULL */

typedef DP_ARRAY(dp_tensor *) dp_element_list;
void dp_element_list_clear(dp_element_list *list, int32_t components);
/* Takes elements of the iterator's input until the list has `size`, or the input ends. */
DP_MUST_USE dp_status *dp_iterator_gather(dp_iterator *iterator, const dp_walk *walk, int64_t size,
                                          dp_element_list *list, bool *ended_out);

/* ---- Threads ---- */
/* Runs fn(arg) on a thread of its own, soon. */
void dp_dataset_run(dp_task_fn fn, void *arg);
/* Waits on `changed` a while, or less: the caller looks again at what it waits for, and at the
 * cancel scope, whose reason this returns. */
DP_MUST_USE dp_status *dp_dataset_wait(pthread_cond_t *changed, pthread_mutex_t *mutex,
                                       const dp_walk *walk);

/* ---- Functions of the user's ---- */
typedef struct dp_captured {
  dp_function_runtime *functions; /* retained */
  dp_function_instance *instance;
  dp_device *device; /* retained */
  dp_tensor *captures;
  int32_t capture_count;
} dp_captured;

/* The function in attribute `attr` with the inputs [begin, end) of the context bound behind its
 * other arguments. */
DP_MUST_USE dp_status *dp_captured_init(dp_captured *captured, dp_op_context *context,
                                        const char *attr, const char *arguments);
/* `copy_out` holds what `captured` holds; both may be empty. */
void dp_captured_copy(const dp_captured *captured, dp_captured *copy_out);
void dp_captured_deinit(dp_captured *captured);
/* Calls it with `element` (left to the caller) before the captured ones; `done` as for
 * dp_function_call. `cancel` may be NULL. */
void dp_captured_call(const dp_captured *captured, dp_cancel *cancel, const dp_tensor *element,
                      int32_t count, dp_function_done_fn done, void *arg);
/* Calls and waits. *results_out has result_count tensors and is the caller's
 * (dp_element_destroy). Not from within a kernel. */
DP_MUST_USE dp_status *dp_captured_call_wait(const dp_captured *captured, const dp_walk *walk,
                                             const dp_tensor *element, int32_t count,
                                             dp_tensor **results_out, int32_t *result_count_out);

/* ---- Made by hand, for kernels that build on other kinds ---- */
/* `iterator` as the input of a walker of its own that runs ahead by `buffer` elements; consumes the
 * iterator. */
dp_iterator *dp_iterator_prefetch(dp_iterator *iterator, int64_t buffer);
/* Stacks `count` elements to one with a dimension more in each component. */
DP_MUST_USE dp_status *dp_elements_stack(dp_dataset *dataset, dp_tensor *const *elements,
                                         int64_t count, dp_tensor *element_out);
/* A dimension more in front. */
void dp_dataset_add_dimension(dp_partial_shape *shape, int64_t size);
/* A dataset of `count` elements in memory: `tensors` has count * components of them, which it
 * takes. */
dp_dataset *dp_dataset_of_elements(int32_t components, const dp_dtype *dtypes,
                                   const dp_partial_shape *shapes, dp_tensor *tensors,
                                   int64_t count);
/* Batches of `input`; consumes nothing. */
dp_dataset *dp_dataset_batch(dp_dataset *input, int64_t size, bool drop_remainder);

#endif
