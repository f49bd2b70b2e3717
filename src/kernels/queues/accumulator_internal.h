/* Conditional accumulators: gradients of several workers, added up until somebody takes the sum or
 * mean of as many as he wants. What synchronous replicas meet at.
 *
 * A gradient that was computed for an older step than the accumulator's is dropped. Taking waits,
 * in the order of asking, until enough gradients are there; it starts the count anew and moves the
 * accumulator's step on by one. Any thread may enter. */
#ifndef DP_KERNELS_ACCUMULATOR_INTERNAL_H
#define DP_KERNELS_ACCUMULATOR_INTERNAL_H

#include "kernels/shared/combine.h"
#include "kernels/shared/waiting.h"

/* Rows by index, in rising order, each once unless the first gradient had some twice. */
typedef struct dp_sparse_sum {
  int64_t *indices;
  int32_t *counts; /* gradients that had the row */
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
  pthread_mutex_t lock; /* for all below */
  int64_t step;
  int64_t count;   /* gradients since the last taking */
  dp_tensor value; /* their sum, in memory of our own; rows when sparse */
  dp_sparse_sum rows;
  dp_waiters takers;
} dp_accumulator;

extern const dp_resource_ops dp_accumulator_ops; /* "N10tensorflow26ConditionalAccumulatorBaseE" */

DP_MUST_USE dp_status *dp_accumulator_create(const char *name, dp_dtype dtype,
                                             const dp_partial_shape *shape, bool is_sparse,
                                             bool takes_mean, dp_accumulator **accumulator_out);
/* Adds a gradient of `step`, or drops it. */
DP_MUST_USE dp_status *dp_accumulator_add(dp_accumulator *accumulator, int64_t step,
                                          const dp_tensor *gradient);
/* A sparse one; `shape` (dense shape) may be NULL. */
DP_MUST_USE dp_status *dp_accumulator_add_rows(dp_accumulator *accumulator, int64_t step,
                                               const dp_tensor *indices, const dp_tensor *values,
                                               const dp_tensor *shape);

/* Exactly one call; the value, and for sparse ones indices and dense shape too, are the callee's to
 * take. */
typedef void (*dp_accumulator_done_fn)(void *arg, dp_status *status, dp_tensor *value,
                                       dp_tensor *indices, dp_tensor *shape);
/* The accumulator must be held until `done`. */
void dp_accumulator_take(dp_accumulator *accumulator, int64_t wanted, dp_cancel *cancel,
                         dp_accumulator_done_fn done, void *arg);
void dp_accumulator_set_step(dp_accumulator *accumulator, int64_t step);
int64_t dp_accumulator_count(dp_accumulator *accumulator);

/* ---- accumulator_sparse.c, with the lock held ---- */
DP_MUST_USE dp_status *dp_sparse_sum_check(const dp_accumulator *accumulator,
                                           const dp_tensor *indices, const dp_tensor *values,
                                           const dp_tensor *shape);
/* Adds rows to the value and `rows` (or starts with them when the count is 0). */
DP_MUST_USE dp_status *dp_sparse_sum_add(dp_accumulator *accumulator, const dp_tensor *indices,
                                         const dp_tensor *values);
void dp_sparse_sum_deinit(dp_sparse_sum *sum);
/* Without the lock: indices and dense shape as tensors. */
DP_MUST_USE dp_status *dp_sparse_sum_tensors(const dp_sparse_sum *sum, const dp_tensor *value,
                                             const dp_partial_shape *declared,
                                             dp_tensor *indices_out, dp_tensor *shape_out);

#endif
