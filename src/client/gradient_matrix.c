/* Gradients of matrix products, solutions, inverses, determinants and Cholesky factors. In the
 * comments ' is the adjoint. Decompositions are in gradient_decompose.c. */
#include "client/gradient_internal.h"

static TF_Output multiply(dp_scope *s, TF_Output a, bool is_a_turned, TF_Output b,
                          bool is_b_turned) {
  return dp_mat_mul(s, a, b, .transpose_a = is_a_turned, .transpose_b = is_b_turned);
}

/* With op(a) op(b) = y: d op(a) = dy op(b)', d op(b) = op(a)' dy. Where op transposes, da or db is
 * transposed too. */
static void mat_mul(gradient_call *g) {
  dp_scope *s = g->scope;
  bool ta = bool_attr(g, "transpose_a"), tb = bool_attr(g, "transpose_b");
  TF_Output dy = above(g, 0);
  if (ta)
    GIVE(g, 0, multiply(s, conjugate(s, input(g, 1)), tb, dy, true));
  else
    GIVE(g, 0, multiply(s, dy, false, conjugate(s, input(g, 1)), !tb));
  if (tb)
    GIVE(g, 1, multiply(s, dy, true, conjugate(s, input(g, 0)), ta));
  else
    GIVE(g, 1, multiply(s, conjugate(s, input(g, 0)), !ta, dy, false));
}

static TF_Output multiply_all(dp_scope *s, TF_Output a, bool is_a_turned, TF_Output b,
                              bool is_b_turned) {
  return dp_batch_mat_mul_v2(s, a, b, .adj_x = is_a_turned, .adj_y = is_b_turned);
}

static TF_Output batch_a(gradient_call *g) {
  bool ta = bool_attr(g, "adj_x"), tb = bool_attr(g, "adj_y");
  return ta ? multiply_all(g->scope, input(g, 1), tb, above(g, 0), true)
            : multiply_all(g->scope, above(g, 0), false, input(g, 1), !tb);
}

static TF_Output batch_b(gradient_call *g) {
  bool ta = bool_attr(g, "adj_x"), tb = bool_attr(g, "adj_y");
  return tb ? multiply_all(g->scope, above(g, 0), true, input(g, 0), ta)
            : multiply_all(g->scope, input(g, 0), !ta, above(g, 0), false);
}

static void batch_mat_mul(gradient_call *g) {
  GIVE(g, 0, batch_a(g));
  GIVE(g, 1, batch_b(g));
}

/* All dimensions but the last two. */
static TF_Output batch_shape(dp_scope *s, TF_Output value) {
  return dp_strided_slice(s, shape_of(s, value), dp_const_vector(s, DP_INTS(0)),
                          dp_const_vector(s, DP_INTS(-2)), dp_const_vector(s, DP_INTS(1)));
}

/* The same with batch dimensions that are broadcast. */
static void batch_mat_mul_broadcast(gradient_call *g) {
  dp_scope *s = g->scope;
  dp_broadcast_gradient_args_outputs axes =
      dp_broadcast_gradient_args(s, batch_shape(s, input(g, 0)), batch_shape(s, input(g, 1)));
  GIVE(g, 0, dp_reshape(s, dp_sum(s, batch_a(g), axes.r0), shape_of(s, input(g, 0))));
  GIVE(g, 1, dp_reshape(s, dp_sum(s, batch_b(g), axes.r1), shape_of(s, input(g, 1))));
}

/* With y = A^-1: -y' dy y'. With y = (A^-1)': -y dy' y. */
static void inverse(gradient_call *g) {
  dp_scope *s = g->scope;
  bool is_turned = bool_attr(g, "adjoint");
  TF_Output y = output(g, 0);
  TF_Output right = multiply_all(s, above(g, 0), is_turned, y, !is_turned);
  GIVE(g, 0, dp_neg(s, multiply_all(s, y, !is_turned, right, false)));
}

static void solve(gradient_call *g) {
  dp_scope *s = g->scope;
  bool is_turned = bool_attr(g, "adjoint");
  TF_Output x = output(g, 0);
  TF_Output db = dp_matrix_solve(s, input(g, 0), above(g, 0), .adjoint = !is_turned);
  GIVE(g, 0,
       dp_neg(s, is_turned ? multiply_all(s, x, false, db, true)
                           : multiply_all(s, db, false, x, true)));
  GIVE(g, 1, db);
}

static void triangular_solve(gradient_call *g) {
  dp_scope *s = g->scope;
  bool is_turned = bool_attr(g, "adjoint"), is_lower = bool_attr(g, "lower");
  TF_Output x = output(g, 0);
  TF_Output db = dp_matrix_triangular_solve(s, input(g, 0), above(g, 0), .lower = is_lower,
                                            .adjoint = !is_turned);
  TF_Output da = dp_neg(s, is_turned ? multiply_all(s, x, false, db, true)
                                     : multiply_all(s, db, false, x, true));
  TF_Output none = dp_const_int64(s, 0), all = dp_const_int64(s, -1);
  GIVE(g, 0,
       is_lower ? dp_matrix_band_part(s, da, all, none) : dp_matrix_band_part(s, da, none, all));
  GIVE(g, 1, db);
}

/* (A^-1)' of each matrix of a batch, times one number per matrix. */
static TF_Output scaled_inverse(gradient_call *g, TF_Output factors) {
  dp_scope *s = g->scope;
  TF_Output turned = dp_matrix_inverse(s, input(g, 0), .adjoint = true);
  TF_Output ones = dp_const_vector(s, DP_INTS(1, 1));
  TF_Output shape = dp_concat_v2(s, DP_OUTPUTS(shape_of(s, factors), ones), integer(s, 0));
  return dp_mul(s, dp_reshape(s, factors, shape), turned);
}

static void determinant(gradient_call *g) {
  GIVE(g, 0, scaled_inverse(g, dp_mul(g->scope, above(g, 0), output(g, 0))));
}

/* Outputs: the sign, through which no gradient goes, and the logarithm. */
static void log_determinant(gradient_call *g) {
  GIVE(g, 0, scaled_inverse(g, above(g, 1)));
}

static void cross(gradient_call *g) {
  GIVE(g, 0, dp_cross(g->scope, input(g, 1), above(g, 0)));
  GIVE(g, 1, dp_cross(g->scope, above(g, 0), input(g, 0)));
}

/* With L L' = A: the lower half of L^-1' phi(L' dL) L^-1, made symmetric; phi halves the
 * diagonal. */
static void cholesky(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output l = output(g, 0), dl = above(g, 0);
  TF_Output none = dp_const_int64(s, 0), all = dp_const_int64(s, -1);
  TF_Output rows = dp_strided_slice(s, shape_of(s, l), dp_const_vector(s, DP_INTS(-1)),
                                    dp_const_vector(s, DP_INTS(0)), dp_const_vector(s, DP_INTS(1)),
                                    .shrink_axis_mask = 1, .end_mask = 1);
  TF_Output identity =
      dp_diag(s, dp_fill(s, dp_expand_dims(s, rows, integer(s, 0)), number_like(s, l, 1)));
  TF_Output eye = dp_broadcast_to(s, identity, shape_of(s, l));
  TF_Output inverse = dp_matrix_triangular_solve(s, l, eye, .lower = true);
  TF_Output middle = multiply_all(s, l, true, dl, false);
  TF_Output diagonal = dp_matrix_diag_part(s, middle);
  TF_Output halved = dp_matrix_set_diag(s, middle, dp_mul(s, number_like(s, l, 0.5), diagonal));
  TF_Output lower = dp_matrix_band_part(s, halved, all, none);
  TF_Output da =
      multiply_all(s, multiply_all(s, inverse, true, lower, false), false, inverse, false);
  TF_Output both = dp_add(s, da, adjoint(s, da));
  GIVE(g, 0, dp_mul(s, number_like(s, l, 0.5), both));
}

/* A factor of SparseMatMul, which skips the zeros of factors that are marked sparse. */
typedef struct skipping {
  TF_Output matrix;
  bool is_turned, is_sparse;
} skipping;

static TF_Output multiply_skipping(dp_scope *s, skipping a, skipping b, TF_DataType type) {
  TF_Output product = dp_sparse_mat_mul(s, a.matrix, b.matrix, .transpose_a = a.is_turned,
                                        .transpose_b = b.is_turned, .a_is_sparse = a.is_sparse,
                                        .b_is_sparse = b.is_sparse);
  return type == TF_FLOAT ? product : dp_cast(s, product, type);
}

/* As mat_mul; a factor may be bfloat16 where the product is float. */
static void skipping_mat_mul(gradient_call *g) {
  dp_scope *s = g->scope;
  skipping a = {input(g, 0), bool_attr(g, "transpose_a"), bool_attr(g, "a_is_sparse")};
  skipping b = {input(g, 1), bool_attr(g, "transpose_b"), bool_attr(g, "b_is_sparse")};
  skipping dy_a = {above(g, 0), a.is_turned, false}, dy_b = {above(g, 0), b.is_turned, false};
  skipping to_a = {b.matrix, b.is_turned == a.is_turned, b.is_sparse};
  skipping to_b = {a.matrix, a.is_turned == b.is_turned, a.is_sparse};
  GIVE(g, 0,
       a.is_turned ? multiply_skipping(s, to_a, dy_a, type_of(a.matrix))
                   : multiply_skipping(s, dy_a, to_a, type_of(a.matrix)));
  GIVE(g, 1,
       b.is_turned ? multiply_skipping(s, dy_b, to_b, type_of(b.matrix))
                   : multiply_skipping(s, to_b, dy_b, type_of(b.matrix)));
}

/* product(indices, values, shape, b): the values and b have gradients. */
static void sparse_dense(gradient_call *g) {
  dp_scope *s = g->scope;
  bool ta = bool_attr(g, "adjoint_a"), tb = bool_attr(g, "adjoint_b");
  TF_Output indices = input(g, 0), values = input(g, 1), shape = input(g, 2), b = input(g, 3);
  TF_Output dy = above(g, 0);
  TF_Output db = dp_sparse_tensor_dense_mat_mul(s, indices, values, shape, dy, .adjoint_a = !ta);
  GIVE(g, 3, tb ? adjoint(s, db) : db);
  dp_output_list columns = dp_unpack(s, indices, 2, .axis = 1);
  TF_Output row = dp_output_at(columns, ta ? 1 : 0), column = dp_output_at(columns, ta ? 0 : 1);
  TF_Output parts_a = dp_gather(s, dy, row);
  TF_Output parts_b = dp_gather(s, tb ? adjoint(s, b) : b, column);
  GIVE(g, 1, dp_sum(s, dp_mul(s, parts_a, conjugate(s, parts_b)), integer(s, 1)));
}

const gradient_row dp_gradient_matrix[] = {
    {"BatchMatMul", batch_mat_mul},
    {"BatchMatMulV2", batch_mat_mul_broadcast},
    {"BatchMatMulV3", batch_mat_mul_broadcast},
    {"Cholesky", cholesky},
    {"Cross", cross},
    {"LogMatrixDeterminant", log_determinant},
    {"MatMul", mat_mul},
    {"MatrixDeterminant", determinant},
    {"MatrixInverse", inverse},
    {"MatrixSolve", solve},
    {"MatrixTriangularSolve", triangular_solve},
    {"SparseMatMul", skipping_mat_mul},
    {"SparseTensorDenseMatMul", sparse_dense},
    {NULL, NULL},
};
