/* Datasets and iterators.
 *
 * A dataset is an immutable recipe: where elements come from and what is done to them. Ops make a
 * dataset from other datasets and pass it on as a variant. An iterator is one walk through a
 * dataset. An element is a tuple of tensors, one per component of the dataset.
 *
 * A walk may block: for files, for functions of the user (map), for another thread (prefetch). So a
 * walk never runs on a thread of the pools, but on a thread of dp_dataset_run, which starts as many
 * threads as are needed. Only one thread at a time may use an iterator. All waits watch the cancel
 * scope of the walk.
 *
 * Ownership: a dataset retains the datasets it reads; an iterator retains its dataset and owns the
 * iterators below it. */
#ifndef DP_KERNELS_DATA_DATASET_INTERNAL_H
#define DP_KERNELS_DATA_DATASET_INTERNAL_H

#include <pthread.h>
#include "base/memory.h"
#include "kernels/shared/support.h"
#include "runtime/function.h"
#include "storage/stream.h"

typedef struct dp_dataset dp_dataset;
typedef struct dp_iterator dp_iterator;
typedef struct dp_dataset_origin dp_dataset_origin;

/* What one call on an iterator gets from its caller. */
typedef struct dp_walk {
  dp_cancel *cancel; /* may be NULL */
} dp_walk;

/* The state of random generators as numbers, one generator after the other; see save_seeds. */
typedef struct dp_seed_list {
  DP_ARRAY(int64_t) numbers;
  size_t next; /* the next number to read */
} dp_seed_list;

typedef struct dp_iterator_ops {
  size_t size; /* sizeof a struct that begins with dp_iterator */
  /* Puts the next element into `element` (component_count unset tensors), or sets *more_out to
   * false. May be called again after an error and after the end. */
  dp_status *(*next)(dp_iterator *iterator, const dp_walk *walk, dp_tensor *element,
                     bool *more_out);
  void (*destroy)(dp_iterator *iterator); /* frees what the kind added; may be NULL */
} dp_iterator_ops;

typedef struct dp_dataset_ops {
  const char *name;                /* "Range" */
  const dp_iterator_ops *iterator; /* its iterators; NULL when `iterate` makes them */
  /* The number of elements, or one of the constants below. NULL: always unknown. */
  int64_t (*cardinality)(dp_dataset *dataset);
  void (*destroy)(dp_dataset *dataset); /* frees what the kind added; may be NULL */
  /* For kinds that draw at random, else NULL. save_seeds appends the state of the generator to the
   * list; load_seeds reads the same numbers back and sets the generator. A list that is too short
   * changes nothing. */
  void (*save_seeds)(dp_dataset *dataset, dp_seed_list *seeds);
  void (*load_seeds)(dp_dataset *dataset, dp_seed_list *seeds);
  /* Makes a new iterator at the beginning, for kinds whose iterators must not start as zeros.
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
  DP_ARRAY(dp_dataset *) others; /* retained: the datasets that it reads besides `input` */
  dp_dataset_origin *origin;     /* how it was made (dataset_graph.c), or NULL */
  uint64_t number;               /* counts all datasets of the process; for error messages */
  const char *label;             /* names its iterators in error messages; NULL: the op's name */
};

struct dp_iterator {
  const dp_iterator_ops *ops;
  dp_dataset *dataset; /* retained */
  /* The iterators over dataset->input and dataset->others, owned. NULL before the first use, and
   * for datasets that have none. */
  dp_iterator *input, **others;
  const dp_iterator *parent; /* the iterator that calls this one; NULL for the outermost */
  int64_t place;             /* its number within the parent, for error messages; -1: none */
  const char
      *walker; /* outermost iterator only: the beginning of its path in error messages, or NULL */
};

/* ---- Datasets ---- */
/* A zeroed dataset of `size` bytes (a struct that begins with dp_dataset). It has the components of
 * `input`, which it retains; no components when `input` is NULL. */
void *dp_dataset_create(const dp_dataset_ops *ops, size_t size, dp_dataset *input);
/* Appends to dataset->others, and retains `other`. */
void dp_dataset_add_other(dp_dataset *dataset, dp_dataset *other);
dp_dataset *dp_dataset_retain(dp_dataset *dataset);
void dp_dataset_release(dp_dataset *dataset); /* accepts NULL */
/* Replaces the components by copies of these. */
void dp_dataset_set_components(dp_dataset *dataset, int32_t count, const dp_dtype *dtypes,
                               const dp_partial_shape *shapes);
/* The components that a node declares in its attributes output_types and output_shapes. */
typedef struct dp_components {
  int32_t count;
  dp_dtype *dtypes;
  dp_partial_shape *shapes;
} dp_components;
DP_MUST_USE dp_status *dp_components_read(const dp_node *node, dp_components *components_out);
void dp_components_deinit(dp_components *components);
DP_MUST_USE dp_status *dp_dataset_components_from_node(dp_dataset *dataset, const dp_node *node);
int64_t dp_dataset_cardinality(dp_dataset *dataset);
/* The cardinality of the dataset's input, for kinds that give one element per element. */
int64_t dp_dataset_input_cardinality(dp_dataset *dataset);
/* The cardinality of an input that is walked `count` times; negative: without end. Unknown when it
 * does not fit. */
int64_t dp_cardinality_repeat(int64_t input, int64_t count);
/* "int64, float": the dtypes of all components, for error messages. The text is in the ring of
 * dp_shape_text. */
const char *dp_dataset_types_text(const dp_dataset *dataset);
bool dp_dataset_same_dtypes(const dp_dataset *a, const dp_dataset *b);
/* The shape with the dimensions that are equal in both; the others are unknown. */
dp_partial_shape dp_dataset_common_shape(const dp_partial_shape *a, const dp_partial_shape *b);

/* ---- Between ops ---- */
/* The dataset in input `slot`, borrowed. */
DP_MUST_USE dp_status *dp_dataset_input(dp_op_context *context, int32_t slot,
                                        dp_dataset **dataset_out);
/* The dataset in a variant tensor, borrowed. */
DP_MUST_USE dp_status *dp_dataset_of_tensor(const dp_tensor *tensor, dp_dataset **dataset_out);
/* Writes the dataset to an output as a variant. Consumes `dataset`. */
DP_MUST_USE dp_status *dp_dataset_output(dp_op_context *context, int32_t output,
                                         dp_dataset *dataset);
/* Writes the dataset to output 0, or returns `status` when that is an error. Consumes both. */
DP_MUST_USE dp_status *dp_dataset_finish(dp_op_context *context, dp_dataset *dataset,
                                         dp_status *status);
DP_MUST_USE dp_status *dp_dataset_to_tensor(dp_dataset *dataset, dp_tensor *tensor_out);
/* A scalar number in input `slot`. The error for a wrong rank is "<name> must be a scalar". */
DP_MUST_USE dp_status *dp_dataset_scalar(dp_op_context *context, int32_t slot, const char *name,
                                         int64_t *value_out);
DP_MUST_USE dp_status *dp_dataset_bool(dp_op_context *context, int32_t slot, const char *name,
                                       bool *value_out);
/* The compression of a file of records. An unknown name means none, with a warning in the log. */
DP_MUST_USE dp_status *dp_dataset_record_compression(dp_op_context *context, int32_t slot,
                                                     dp_compression *compression_out);

/* Stores in the dataset how the context's node made it (dataset_graph.c); forget frees that. */
void dp_dataset_remember(dp_dataset *dataset, const dp_op_context *context);
void dp_dataset_forget(dp_dataset *dataset);
/* The node that made the dataset; NULL when no node did. */
const dp_node *dp_dataset_node(const dp_dataset *dataset);
/* The graph that makes the dataset; the caller destroys it. *node_out is the dataset's node in
 * it. */
DP_MUST_USE dp_status *dp_dataset_to_graph(const dp_dataset *dataset, dp_graph **graph_out,
                                           dp_node **node_out);
/* A hash that is equal for pipelines that are written alike; see dataset_hash.c. */
DP_MUST_USE dp_status *dp_dataset_hash(const dp_dataset *dataset, uint64_t *hash_out);
/* Saves and loads the generators of this dataset and of all its inputs. Datasets that functions
 * make for each element are not included. */
void dp_dataset_save_seeds(dp_dataset *dataset, dp_seed_list *seeds);
void dp_dataset_load_seeds(dp_dataset *dataset, dp_seed_list *seeds);

/* ---- Iterators ---- */
/* A zeroed iterator of ops->size bytes. */
void *dp_iterator_create(const dp_iterator_ops *ops);
/* An outermost iterator. `walker` begins its path in error messages; iterator ops pass DP_WALKER.
 * With NULL, messages do not say where in the pipeline a function failed. */
dp_iterator *dp_dataset_iterate(dp_dataset *dataset, const char *walker);
#define DP_WALKER "Iterator::Root"
/* An iterator that `parent` calls; `place` is its number within the parent, or -1. */
dp_iterator *dp_iterator_over(const dp_iterator *parent, dp_dataset *dataset, int64_t place);
/* Puts the dataset's name and the path to the iterator before an error of a user's function.
 * Consumes `status`, which may be NULL, and returns the new one. */
dp_status *dp_iterator_blame(const dp_iterator *iterator, dp_status *status);
void dp_iterator_destroy(dp_iterator *iterator); /* accepts NULL */
/* Takes the next element. When it succeeds with *more_out, the caller owns the tensors of
 * `element`; else they are unset. */
DP_MUST_USE dp_status *dp_iterator_next(dp_iterator *iterator, const dp_walk *walk,
                                        dp_tensor *element, bool *more_out);
/* Makes the iterators over dataset->others, with the places `first`, `first` + 1 and so on.
 * `dataset` is or will be the iterator's dataset. */
void dp_iterator_open_others(dp_iterator *iterator, dp_dataset *dataset, int64_t first);
/* Takes the next element of the iterator's input, whose iterator is made at the first call. */
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
/* Runs fn(arg) on a thread that may block. */
void dp_dataset_run(dp_task_fn fn, void *arg);
/* Waits on `changed` for at most 50 ms, then returns the cancel scope's status. The caller checks
 * its condition again in a loop. */
DP_MUST_USE dp_status *dp_dataset_wait(pthread_cond_t *changed, pthread_mutex_t *mutex,
                                       const dp_walk *walk);

/* Runs `work` on a thread of dp_dataset_run, where it may block, and ends the node with its
 * result. */
typedef dp_status *(*dp_waiting_fn)(dp_op_context *context, void *state);
void dp_dataset_compute(dp_op_context *context, void *state, dp_waiting_fn work);

/* ---- Functions of the user ---- */
typedef struct dp_captured {
  dp_function_runtime *functions; /* retained */
  dp_function_instance *instance;
  dp_device *device; /* retained */
  dp_tensor *captures;
  int32_t capture_count;
} dp_captured;

/* The function in attribute `attr`. Its captured arguments, which follow the element in a call, are
 * the inputs named `arguments`. */
DP_MUST_USE dp_status *dp_captured_init(dp_captured *captured, dp_op_context *context,
                                        const char *attr, const char *arguments);
/* Makes `copy_out` a copy that retains the same things. `captured` may be empty. */
void dp_captured_copy(const dp_captured *captured, dp_captured *copy_out);
void dp_captured_deinit(dp_captured *captured);
/* Calls the function with `element` (borrowed), then the captured arguments. `done` as for
 * dp_function_call. `cancel` may be NULL. */
void dp_captured_call(const dp_captured *captured, dp_cancel *cancel, const dp_tensor *element,
                      int32_t count, dp_function_done_fn done, void *arg);
/* Calls the function and blocks until it ends. *results_out has *result_count_out tensors; the
 * caller frees them (dp_element_destroy). Not from a thread of the pools. */
DP_MUST_USE dp_status *dp_captured_call_wait(const dp_captured *captured, const dp_walk *walk,
                                             const dp_tensor *element, int32_t count,
                                             dp_tensor **results_out, int32_t *result_count_out);

/* ---- Datasets and iterators for kernels that build on other kinds ---- */
/* An iterator that reads `iterator` ahead, on a thread of its own, by up to `buffer` elements.
 * Consumes `iterator`. */
dp_iterator *dp_iterator_prefetch(dp_iterator *iterator, int64_t buffer);
/* Stacks `count` elements into one: each component gets a new first dimension of size `count`. */
DP_MUST_USE dp_status *dp_elements_stack(dp_dataset *dataset, dp_tensor *const *elements,
                                         int64_t count, dp_tensor *element_out);
/* Puts a new first dimension of this size in front. */
void dp_dataset_add_dimension(dp_partial_shape *shape, int64_t size);
/* A dataset of `count` elements in memory. `tensors` holds count * components tensors, element by
 * element; the dataset takes them. */
dp_dataset *dp_dataset_of_elements(int32_t components, const dp_dtype *dtypes,
                                   const dp_partial_shape *shapes, dp_tensor *tensors,
                                   int64_t count);
/* A dataset of batches of `input`, which it retains. */
dp_dataset *dp_dataset_batch(dp_dataset *input, int64_t size, bool drop_remainder);

#endif
