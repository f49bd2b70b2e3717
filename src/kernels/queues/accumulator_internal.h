/* Conditional accumulators: they add up the gradients of several workers, until somebody takes the
 * sum or the mean of a given number of them. Synchronous replicas meet here.
 *
 * A gradient that was computed for an older step than the accumulator's is dropped. Takers wait, in
 * the order of their calls, until there are enough gradients; no thread blocks. Taking resets the
 * count and increments the accumulator's step. Any thread may enter. */
#ifndef DP_KERNELS_QUEUES_ACCUMULATOR_INTERNAL_H
#define DP_KERNELS_QUEUES_ACCUMULATOR_INTERNAL_H

#include "kernels/shared/combine.h"
#include "kernels/shared/waiting.h"

/* Rows by index, ascending. Each index comes once, unless the first gradient had some twice. */
typedef struct dp_sparse_sum {
  int64_t *indices;
  int32_t *counts; /* per row: the number of gradients that had it */
  int64_t count;
} dp_sparse_sum;

typedef struct dp_accumulator {
  dp_resource resource;
  char *name;
  dp_dtype dtype;
  dp_partial_shape shape;
  bool is_sparse;
  bool takes_mean; /* else the sum */
  dp_combine add;
  pthread_mutex_t lock; /* guards all fields below */
  int64_t step;
  int64_t count;   /* gradients added since the last taking */
  dp_tensor value; /* their sum, in memory that is not shared; only the rows when sparse */
  dp_sparse_sum rows;
  dp_waiters takers;
} dp_accumulator;

extern const dp_resource_ops dp_accumulator_ops; /* "N10tensorflow26ConditionalAccumulatorBaseE" */

DP_MUST_USE dp_status *dp_accumulator_create(const char *name, dp_dtype dtype,
                                             const dp_partial_shape *shape, bool is_sparse,
                                             bool takes_mean, dp_accumulator **accumulator_out);
/* Adds a gradient that was computed for `step`; drops it when it is too old. */
DP_MUST_USE dp_status *dp_accumulator_add(dp_accumulator *accumulator, int64_t step,
                                          const dp_tensor *gradient);
/* Adds a sparse gradient. `shape`, the dense shape, may be NULL. */
DP_MUST_USE dp_status *dp_accumulator_add_rows(dp_accumulator *accumulator, int64_t step,
                                               const dp_tensor *indices, const dp_tensor *values,
                                               const dp_tensor *shape);

/* Called exactly once. The callee may take the value and, for sparse sums, indices and dense
 * shape. */
typedef void (*dp_accumulator_done_fn)(void *arg, dp_status *status, dp_tensor *value,
                                       dp_tensor *indices, dp_tensor *shape);
/* The caller must hold a reference to the accumulator until `done`. */
void dp_accumulator_take(dp_accumulator *accumulator, int64_t wanted, dp_cancel *cancel,
                         dp_accumulator_done_fn done, void *arg);
void dp_accumulator_set_step(dp_accumulator *accumulator, int64_t step);
int64_t dp_accumulator_count(dp_accumulator *accumulator);

/* ---- accumulator_sparse.c, with the lock held ---- */
DP_MUST_USE dp_status *dp_sparse_sum_check(const dp_accumulator *accumulator,
                                           const dp_tensor *indices, const dp_tensor *values,
                                           const dp_tensor *shape);
/* Adds rows to accumulator->value and ->rows; starts with them when the count is 0. */
DP_MUST_USE dp_status *dp_sparse_sum_add(dp_accumulator *accumulator, const dp_tensor *indices,
                                         const dp_tensor *values);
void dp_sparse_sum_deinit(dp_sparse_sum *sum);
/* Without the lock held: indices and dense shape as tensors. */
DP_MUST_USE dp_status *dp_sparse_sum_tensors(const dp_sparse_sum *sum, const dp_tensor *value,
                                             const dp_partial_shape *declared,
                                             dp_tensor *indices_out, dp_tensor *shape_out);

#endif
