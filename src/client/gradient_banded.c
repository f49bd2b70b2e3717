/* Gradients of products and solutions with tridiagonal and banded triangular matrices. Such a
 * matrix is stored as its diagonals, so that its gradient is one number per stored element too. */
#include "client/gradient_internal.h"

/* Elements begin to end - 1 of dimension `axis`, which is -1 or -2. An end of 0 means the
 * dimension's end. */
static TF_Output part(dp_scope *s, TF_Output value, int axis, int begin, int end) {
  if (axis == -1)
    return dp_strided_slice(s, value, dp_const_vector(s, DP_INTS(0, begin)),
                            dp_const_vector(s, DP_INTS(0, end)), dp_const_vector(s, DP_INTS(1, 1)),
                            .ellipsis_mask = 1, .end_mask = end ? 0 : 2);
  return dp_strided_slice(s, value, dp_const_vector(s, DP_INTS(0, begin, 0)),
                          dp_const_vector(s, DP_INTS(0, end, 0)),
                          dp_const_vector(s, DP_INTS(1, 1, 1)), .ellipsis_mask = 1, .begin_mask = 4,
                          .end_mask = end ? 4 : 6);
}

/* Shifts along `axis` by one place, towards the first or the last; a zero fills the free place. */
static TF_Output shifted(dp_scope *s, TF_Output value, int axis, bool to_first) {
  TF_Output zero = dp_zeros_like(s, part(s, value, axis, 0, 1)), place = integer(s, axis);
  return to_first ? dp_concat_v2(s, DP_OUTPUTS(part(s, value, axis, 1, 0), zero), place)
                  : dp_concat_v2(s, DP_OUTPUTS(zero, part(s, value, axis, 0, -1)), place);
}

static TF_Output row(dp_scope *s, TF_Output value, int index) {
  return dp_gather_v2(s, value, integer(s, index), integer(s, -2));
}

static TF_Output last_sum(dp_scope *s, TF_Output value) {
  return dp_sum(s, value, integer(s, -1));
}

/* multiply(super, main, sub, right): the diagonals are (..., 1, rows). */
static void multiply(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), right = conjugate(s, input(g, 3)), below = integer(s, -2);
  TF_Output next = shifted(s, right, -2, true), previous = shifted(s, right, -2, false);
  GIVE(g, 0, dp_expand_dims(s, last_sum(s, dp_mul(s, next, dy)), below));
  GIVE(g, 1, dp_expand_dims(s, last_sum(s, dp_mul(s, right, dy)), below));
  GIVE(g, 2, dp_expand_dims(s, last_sum(s, dp_mul(s, previous, dy)), below));
  TF_Output upper = shifted(s, dp_mul(s, adjoint(s, input(g, 0)), dy), -2, false);
  TF_Output lower = shifted(s, dp_mul(s, adjoint(s, input(g, 2)), dy), -2, true);
  TF_Output middle = dp_mul(s, adjoint(s, input(g, 1)), dy);
  GIVE(g, 3, dp_add(s, dp_add(s, upper, middle), lower));
}

/* solve(diagonals, right). The rows of `diagonals` are the upper, the main and the lower one. */
static void solve(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output diagonals = input(g, 0), x = output(g, 0), below = integer(s, -1);
  TF_Output turned =
      dp_pack(s,
              DP_OUTPUTS(shifted(s, row(s, diagonals, 2), -1, true), row(s, diagonals, 1),
                         shifted(s, row(s, diagonals, 0), -1, false)),
              .axis = -2);
  TF_Output right = dp_tridiagonal_solve(s, turned, above(g, 0),
                                         .partial_pivoting = bool_attr(g, "partial_pivoting"),
                                         .perturb_singular = bool_attr(g, "perturb_singular"));
  TF_Output rows[] = {dp_mul(s, right, shifted(s, x, -2, true)), dp_mul(s, right, x),
                      dp_mul(s, right, shifted(s, x, -2, false))};
  TF_Output all = dp_sum(s, dp_pack(s, ((dp_outputs){rows, 3}), .axis = -3), below);
  GIVE(g, 0, dp_neg(s, all));
  GIVE(g, 1, right);
}

/* All dimensions but the last two. */
static TF_Output batch_shape(dp_scope *s, TF_Output value) {
  return dp_strided_slice(s, shape_of(s, value), dp_const_vector(s, DP_INTS(0)),
                          dp_const_vector(s, DP_INTS(-2)), dp_const_vector(s, DP_INTS(1)));
}

/* `count` diagonals of a matrix: the main one and those below it, or those above it. */
static TF_Output bands(dp_scope *s, TF_Output matrix, TF_Output count, bool is_lower) {
  TF_Output far = dp_sub(s, count, integer(s, 1)), zero = integer(s, 0);
  TF_Output range =
      is_lower ? dp_pack(s, DP_OUTPUTS(dp_neg(s, far), zero)) : dp_pack(s, DP_OUTPUTS(zero, far));
  return dp_matrix_diag_part_v3(s, matrix, range, number_like(s, matrix, 0), .align = "LEFT_RIGHT");
}

/* solve(bands, right). The batch dimensions of the two are broadcast. */
static void triangular_solve(gradient_call *g) {
  dp_scope *s = g->scope;
  bool is_turned = bool_attr(g, "adjoint"), is_lower = bool_attr(g, "lower");
  TF_Output a = input(g, 0), b = input(g, 1), x = output(g, 0);
  TF_Output db =
      dp_banded_triangular_solve(s, a, above(g, 0), .lower = is_lower, .adjoint = !is_turned);
  TF_Output da = dp_batch_mat_mul_v2(s, is_turned ? x : db, is_turned ? db : x, .adj_y = true);
  TF_Output count = dp_gather(s, shape_of(s, a), dp_sub(s, dp_rank(s, a), integer(s, 2)));
  dp_broadcast_gradient_args_outputs axes =
      dp_broadcast_gradient_args(s, batch_shape(s, a), batch_shape(s, b));
  TF_Output parts = dp_neg(s, bands(s, da, count, is_lower));
  GIVE(g, 0, dp_reshape(s, dp_sum(s, parts, axes.r0), shape_of(s, a)));
  GIVE(g, 1, dp_reshape(s, dp_sum(s, db, axes.r1), shape_of(s, b)));
}

const gradient_row dp_gradient_banded[] = {
    {"BandedTriangularSolve", triangular_solve},
    {"TridiagonalMatMul", multiply},
    {"TridiagonalSolve", solve},
    {NULL, NULL},
};
