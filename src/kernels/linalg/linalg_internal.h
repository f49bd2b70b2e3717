/* Linear algebra on batches of matrices, with LAPACK.
 *
 * A kernel names its LAPACK routines without the letter of the type ("potrf"); they are looked up
 * when the kernel is created. All arguments of LAPACK are pointers, so one call serves all four
 * types. Tensors hold row-major matrices, which LAPACK takes for their transposes; each kernel says
 * how it deals with that. A batch is split over the pool by matrices. */
#ifndef DP_KERNELS_LINALG_LINALG_INTERNAL_H
#define DP_KERNELS_LINALG_LINALG_INTERNAL_H

#include "kernels/shared/support.h"

#define DP_LINALG_SET (DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_COMPLEX)
#define DP_LINALG_ROUTINES 4

/* Cast to the routine's real signature before the call. */
typedef void (*dp_linalg_routine)(void);

typedef struct dp_linalg_state {
  dp_dtype dtype; /* dtype of the computation: float for half tensors, which kernels widen */
  bool flags[3];  /* meaning depends on the op: adjoint, lower, full_matrices... */
  dp_linalg_routine routines[DP_LINALG_ROUTINES];
} dp_linalg_state;

/* Reads "T" and finds the routines. For complex types, "or" at the start of a name becomes "un",
 * and "sy" becomes "he". UNIMPLEMENTED when the library is missing. */
DP_MUST_USE dp_status *dp_linalg_init(dp_linalg_state *state, const dp_kernel_setup *setup,
                                      const char *const *routines, int count);

/* ---- Batches ---- */
/* One matrix of each operand: input and output pointers, in the order of the op. */
typedef struct dp_linalg_batch dp_linalg_batch;
typedef dp_status *(*dp_linalg_matrix_fn)(const dp_linalg_batch *batch, const void *const *inputs,
                                          void *const *outputs);
struct dp_linalg_batch {
  const dp_linalg_state *state;
  dp_linalg_matrix_fn run;
  int64_t count;   /* matrices */
  int64_t cost;    /* per matrix, in nanoseconds */
  int64_t m, n, k; /* meaning depends on the op: usually rows, columns, right-hand sides */
  int input_count, output_count;
  const void *inputs[4];
  size_t input_bytes[4]; /* per matrix */
  void *outputs[3];
  size_t output_bytes[3];
  const void *extra; /* for the op */
};
/* Adds an operand with batch->count matrices, one after the other. */
void dp_linalg_add_input(dp_linalg_batch *batch, const dp_tensor *tensor);
void dp_linalg_add_output(dp_linalg_batch *batch, dp_tensor *tensor);
/* Runs all matrices; returns the first error. */
DP_MUST_USE dp_status *dp_linalg_run(dp_op_context *context, dp_linalg_batch *batch);

/* ---- Shapes ---- */
DP_MUST_USE dp_status *dp_linalg_expect_matrices(const dp_tensor *tensor, int32_t slot);
DP_MUST_USE dp_status *dp_linalg_expect_square(const dp_tensor *tensor, int32_t slot);
/* Checks that two inputs have the same leading dimensions and number of rows. */
DP_MUST_USE dp_status *dp_linalg_expect_pair(const dp_op_context *context, bool square);
static inline int64_t dp_linalg_rows(const dp_shape *shape) {
  return shape->dims[shape->rank - 2];
}
static inline int64_t dp_linalg_columns(const dp_shape *shape) {
  return shape->dims[shape->rank - 1];
}
/* The leading dimensions, followed by `count` more. */
dp_shape dp_linalg_shape(const dp_shape *shape, int count, int64_t first, int64_t second);
int64_t dp_linalg_batches(const dp_shape *shape);

/* ---- Elements ---- */
/* to[columns, rows] = from[rows, columns]^T; conjugated if wanted. */
void dp_linalg_transpose(dp_dtype dtype, const void *from, int64_t rows, int64_t columns,
                         bool conjugates, void *to);
void dp_linalg_set_identity(dp_dtype dtype, void *matrix, int64_t n);
/* Sets element `index` to a real value; returns the real part of one. */
void dp_linalg_set(dp_dtype dtype, void *values, int64_t index, double value);
static inline dp_dtype dp_linalg_real(dp_dtype dtype) {
  return dtype == DP_COMPLEX64 ? DP_FLOAT : dtype == DP_COMPLEX128 ? DP_DOUBLE : dtype;
}

/* The matrix of an operand's batch that belongs to matrix `index` of the broadcast batch
 * `result`. */
int64_t dp_linalg_operand(const dp_shape *operand, const dp_shape *result, int64_t index);

#endif
