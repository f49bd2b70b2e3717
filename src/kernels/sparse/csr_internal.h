/* Sparse matrices in compressed rows (CSR), or batches of them, as variant values. Entry i of row r
 * of matrix b is at this index of columns and values:
 *
 *   batch_pointers[b] + row_pointers[b * (rows + 1) + r] + i
 *
 * The contents have been checked: pointers ascend and stay in bounds, columns are in bounds, and
 * all counts fit 32 bits, as in TensorFlow. A matrix is immutable once it is in a tensor. */
#ifndef DP_KERNELS_SPARSE_CSR_INTERNAL_H
#define DP_KERNELS_SPARSE_CSR_INTERNAL_H

#include "kernels/shared/support.h"
#include "kernels/sparse/csr.h"

typedef enum dp_csr_part {
  DP_CSR_SHAPE,   /* int64: [batch,] rows, columns */
  DP_CSR_BATCHES, /* int32: one more than matrices */
  DP_CSR_ROWS,    /* int32: one more than rows, for each matrix */
  DP_CSR_COLUMNS, /* int32: one for each entry */
  DP_CSR_VALUES,
  DP_CSR_PARTS,
} dp_csr_part;

typedef struct dp_csr {
  int32_t rank; /* 2, or 3 for a batch */
  int64_t batch, rows, columns;
  dp_tensor parts[DP_CSR_PARTS];
} dp_csr;

/* A matrix with room for `count` entries; all pointers are 0. `dims` has `rank` sizes, which are
 * checked. */
DP_MUST_USE dp_status *dp_csr_create(dp_dtype dtype, int32_t rank, const int64_t *dims,
                                     int64_t count, dp_csr **csr_out);
void dp_csr_destroy(dp_csr *csr);
/* The transposed matrix, with conjugated values if wanted. */
DP_MUST_USE dp_status *dp_csr_transpose(const dp_csr *csr, bool conjugates, dp_csr **csr_out);

static inline dp_dtype dp_csr_dtype(const dp_csr *csr) {
  return csr->parts[DP_CSR_VALUES].dtype;
}
static inline int32_t *dp_csr_batches(const dp_csr *csr) {
  return csr->parts[DP_CSR_BATCHES].data;
}
/* The row pointers of matrix `index`. */
static inline int32_t *dp_csr_rows(const dp_csr *csr, int64_t index) {
  return (int32_t *)csr->parts[DP_CSR_ROWS].data + index * (csr->rows + 1);
}
static inline int32_t *dp_csr_columns(const dp_csr *csr, int64_t index) {
  return (int32_t *)csr->parts[DP_CSR_COLUMNS].data + dp_csr_batches(csr)[index];
}
static inline void *dp_csr_values(const dp_csr *csr, int64_t index) {
  const dp_tensor *values = &csr->parts[DP_CSR_VALUES];
  return (char *)values->data + (size_t)dp_csr_batches(csr)[index] * dp_dtype_size(values->dtype);
}
static inline int64_t dp_csr_count(const dp_csr *csr) {
  return csr->parts[DP_CSR_VALUES].shape.elements;
}

/* ---- In kernels ---- */
/* The matrix in scalar input `slot`, borrowed; it must hold `dtype` (any: DP_INVALID_DTYPE). */
DP_MUST_USE dp_status *dp_csr_input(const dp_op_context *context, int32_t slot, dp_dtype dtype,
                                    const dp_csr **csr_out);
/* Sets output 0; consumes `csr`, also on failure. */
DP_MUST_USE dp_status *dp_csr_output(dp_op_context *context, dp_csr *csr);

#endif
