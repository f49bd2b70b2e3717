/* Gradients of compressed sparse matrices (CSR). The gradient of such a matrix is a CSR matrix with
 * values at the same places. Other elements get no gradient. A product with a dense matrix computes
 * only these values; a product of two sparse matrices is computed whole and then pruned. */
#include "client/gradient_internal.h"

typedef dp_csr_sparse_matrix_to_sparse_tensor_outputs sparse_parts;

static sparse_parts parts_of(dp_scope *s, TF_Output matrix, TF_DataType type) {
  return dp_csr_sparse_matrix_to_sparse_tensor(s, matrix, type);
}

/* ---- To and from other forms ---- */

static void from_dense(gradient_call *g) {
  GIVE(g, 0, dp_csr_sparse_matrix_to_dense(g->scope, above(g, 0), type_attr(g, "T")));
}

static void to_dense(gradient_call *g) {
  dp_scope *s = g->scope;
  sparse_parts old = parts_of(s, input(g, 0), type_attr(g, "type"));
  TF_Output values = dp_gather_nd(s, above(g, 0), old.indices);
  GIVE(g, 0, dp_sparse_tensor_to_csr_sparse_matrix(s, old.indices, values, old.dense_shape));
}

static void from_sparse(gradient_call *g) {
  GIVE(g, 1, parts_of(g->scope, above(g, 0), type_attr(g, "T")).values);
}

/* to_sparse(matrix): indices, values, shape */
static void to_sparse(gradient_call *g) {
  GIVE(g, 0,
       dp_sparse_tensor_to_csr_sparse_matrix(g->scope, output(g, 0), above(g, 1), output(g, 2)));
}

static void transpose(gradient_call *g) {
  GIVE(g, 0,
       dp_sparse_matrix_transpose(g->scope, above(g, 0), type_attr(g, "type"),
                                  .conjugate = bool_attr(g, "conjugate")));
}

/* ---- Products ---- */

/* How an operand enters a product. */
enum { PLAIN = 0, TURNED = 1, CONJUGATED = 2, ADJOINT = TURNED | CONJUGATED };

static int form_of(gradient_call *g, bool is_a) {
  if (bool_attr(g, is_a ? "adjoint_a" : "adjoint_b"))
    return ADJOINT;
  return bool_attr(g, is_a ? "transpose_a" : "transpose_b") ? TURNED : PLAIN;
}

static bool is_complex(TF_DataType type) {
  return type == TF_COMPLEX64 || type == TF_COMPLEX128;
}

typedef struct operand {
  TF_Output matrix;
  int form;
} operand;

/* The operand's matrix. The product op can transpose, or transpose and conjugate; an operand that
 * is conjugated only is conjugated here. */
static TF_Output ready(dp_scope *s, operand x, TF_DataType type) {
  return x.form == CONJUGATED && is_complex(type) ? dp_conj(s, x.matrix) : x.matrix;
}

static TF_Output multiply(dp_scope *s, operand a, operand b, TF_DataType type) {
  return dp_sparse_matrix_sparse_mat_mul(
      s, ready(s, a, type), ready(s, b, type), type, .transpose_a = a.form == TURNED,
      .adjoint_a = a.form == ADJOINT, .transpose_b = b.form == TURNED,
      .adjoint_b = b.form == ADJOINT);
}

/* The places of the values as numbers in the flat matrix, ascending. */
static TF_Output flat_places(dp_scope *s, const sparse_parts *parts) {
  TF_Output flat = dp_cast(s, dp_const_vector(s, DP_INTS(-1)), TF_INT64);
  TF_Output places = dp_sparse_reshape(s, parts->indices, parts->dense_shape, flat).output_indices;
  return dp_reshape(s, places, dp_const_vector(s, DP_INTS(1, -1)));
}

/* The values of `matrix` at the places of `pattern`; 0 where `matrix` has no value. Each place is
 * looked up among the matrix's places, to which one place behind all others is appended, so that
 * the lookup always finds something. */
static TF_Output pruned(dp_scope *s, TF_Output matrix, TF_Output pattern, TF_DataType type) {
  sparse_parts all = parts_of(s, matrix, type), kept = parts_of(s, pattern, type);
  TF_Output last = dp_const_int64(s, INT64_MAX), ones = dp_const_vector(s, DP_INTS(1, 1));
  TF_Output flat = dp_const_vector(s, DP_INTS(-1));
  TF_Output zero = dp_reshape(s, number_like(s, all.values, 0), flat);
  TF_Output values = dp_concat_v2(s, DP_OUTPUTS(all.values, zero), integer(s, 0));
  TF_Output have =
      dp_concat_v2(s, DP_OUTPUTS(flat_places(s, &all), dp_reshape(s, last, ones)), integer(s, 1));
  TF_Output wanted = flat_places(s, &kept);
  TF_Output found = dp_reshape(s, dp_lower_bound(s, have, wanted), flat);
  TF_Output is_there =
      dp_equal(s, dp_gather(s, dp_reshape(s, have, flat), found), dp_reshape(s, wanted, flat));
  TF_Output chosen = dp_gather(s, values, found);
  TF_Output result = dp_select(s, is_there, chosen, dp_zeros_like(s, chosen));
  return dp_sparse_tensor_to_csr_sparse_matrix(s, kept.indices, result, kept.dense_shape);
}

/* With C = op(A) op(B): d op(A) = dC op(B)', d op(B) = op(A)' dC. If op transposes, dA is the
 * transposed product: both factors are transposed and change places. */
static void sparse_product(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_DataType type = type_attr(g, "type");
  int a = form_of(g, true), b = form_of(g, false);
  operand dy_a = {above(g, 0), a}, other_b = {input(g, 1), b ^ ADJOINT ^ a};
  operand dy_b = {above(g, 0), b}, other_a = {input(g, 0), a ^ ADJOINT ^ b};
  GIVE(g, 0,
       pruned(s, a ? multiply(s, other_b, dy_a, type) : multiply(s, dy_a, other_b, type),
              input(g, 0), type));
  GIVE(g, 1,
       pruned(s, b ? multiply(s, dy_b, other_a, type) : multiply(s, other_a, dy_b, type),
              input(g, 1), type));
}

/* ---- Sparse times dense, P = op(A) op(B); the output may be P transposed or conjugated ---- */

static TF_Output turned(dp_scope *s, TF_Output matrix, int form) {
  if (!(form & TURNED))
    return form & CONJUGATED ? conjugate(s, matrix) : matrix;
  TF_Output result = adjoint(s, matrix);
  return form & CONJUGATED ? result : conjugate(s, result);
}

/* The index of each value without its column, or without its row. */
static TF_Output places(dp_scope *s, TF_Output indices, bool is_row) {
  TF_Output begin = dp_const_vector(s, DP_INTS(0, 0)), by_one = dp_const_vector(s, DP_INTS(1, 1));
  TF_Output rows = dp_strided_slice(s, indices, begin, dp_const_vector(s, DP_INTS(0, -1)), by_one,
                                    .begin_mask = 3, .end_mask = 1);
  if (is_row)
    return rows;
  TF_Output batch = dp_strided_slice(s, indices, begin, dp_const_vector(s, DP_INTS(0, -2)), by_one,
                                     .begin_mask = 3, .end_mask = 1);
  TF_Output columns = dp_strided_slice(s, indices, dp_const_vector(s, DP_INTS(0, -1)), begin,
                                       by_one, .begin_mask = 1, .end_mask = 3);
  return dp_concat_v2(s, DP_OUTPUTS(batch, columns), integer(s, 1));
}

/* dP op(B)', only where A has values: each value is the dot product of two gathered rows. */
static TF_Output sparse_side(gradient_call *g, TF_Output dp) {
  dp_scope *s = g->scope;
  int a = form_of(g, true), b = form_of(g, false);
  sparse_parts old = parts_of(s, input(g, 0), type_attr(g, "T"));
  TF_Output left = dp_gather_nd(s, dp, places(s, old.indices, !a));
  TF_Output right =
      dp_gather_nd(s, turned(s, input(g, 1), b ^ CONJUGATED), places(s, old.indices, !!a));
  TF_Output values = dp_sum(s, dp_mul(s, left, right), integer(s, -1));
  return dp_sparse_tensor_to_csr_sparse_matrix(
      s, old.indices, a & CONJUGATED ? conjugate(s, values) : values, old.dense_shape);
}

/* op(A)' dP, transposed and conjugated as op(B) is. */
static TF_Output dense_side(gradient_call *g, TF_Output dy, bool is_turned) {
  dp_scope *s = g->scope;
  int b = form_of(g, false);
  operand a = {input(g, 0), form_of(g, true) ^ ADJOINT};
  return dp_sparse_matrix_mat_mul(s, ready(s, a, type_attr(g, "T")), dy,
                                  .transpose_a = a.form == TURNED, .adjoint_a = a.form == ADJOINT,
                                  .transpose_b = is_turned, .transpose_output = b & TURNED,
                                  .conjugate_output = (b & CONJUGATED) != 0);
}

static void product(gradient_call *g) {
  dp_scope *s = g->scope;
  bool is_turned = bool_attr(g, "transpose_output");
  TF_Output dy = above(g, 0);
  if (bool_attr(g, "conjugate_output"))
    dy = conjugate(s, dy);
  GIVE(g, 0, sparse_side(g, turned(s, dy, is_turned ? TURNED : PLAIN)));
  GIVE(g, 1, dense_side(g, dy, is_turned));
}

const gradient_row dp_gradient_csr[] = {
    {"CSRSparseMatrixToDense", to_dense},           {"CSRSparseMatrixToSparseTensor", to_sparse},
    {"DenseToCSRSparseMatrix", from_dense},         {"SparseMatrixMatMul", product},
    {"SparseMatrixSparseMatMul", sparse_product},   {"SparseMatrixTranspose", transpose},
    {"SparseTensorToCSRSparseMatrix", from_sparse}, {NULL, NULL},
};
