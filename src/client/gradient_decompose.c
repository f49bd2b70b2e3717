/* Gradients of matrix decompositions (eigenvalues, QR, singular values, square roots) and of least
 * squares. The formulas divide by differences of eigenvalues or singular values. Where two of them
 * are equal the gradient does not exist, and 1 / 0 counts as 0. In the comments ' is the adjoint.
 */
#include "client/gradient_internal.h"

/* a b, or the same with the adjoint of a, of b, or of both. */
static TF_Output product(dp_scope *s, TF_Output a, bool is_a_turned, TF_Output b,
                         bool is_b_turned) {
  return dp_batch_mat_mul_v2(s, a, b, .adj_x = is_a_turned, .adj_y = is_b_turned);
}

/* a b' */
static TF_Output outer(dp_scope *s, TF_Output a, TF_Output b) {
  return product(s, a, false, b, true);
}

/* a' b */
static TF_Output inner(dp_scope *s, TF_Output a, TF_Output b) {
  return product(s, a, true, b, false);
}

static TF_Output times(dp_scope *s, TF_Output a, TF_Output b) {
  return product(s, a, false, b, false);
}

/* Transposed without being conjugated. */
static TF_Output transposed(dp_scope *s, TF_Output matrix) {
  return conjugate(s, adjoint(s, matrix));
}

static bool is_complex(TF_Output value) {
  return type_of(value) == TF_COMPLEX64 || type_of(value) == TF_COMPLEX128;
}

/* A scalar: the size of dimension `axis`, which is negative. */
static TF_Output size_from_end(dp_scope *s, TF_Output value, int axis) {
  return dp_strided_slice(s, shape_of(s, value), dp_const_vector(s, DP_INTS(axis)),
                          dp_const_vector(s, DP_INTS(axis + 1)), dp_const_vector(s, DP_INTS(1)),
                          .shrink_axis_mask = 1, .end_mask = axis == -1);
}

/* Elements `from` to `to` - 1 of the last dimension; NULL: from the first, or to the last. */
static TF_Output columns(dp_scope *s, TF_Output value, const TF_Output *from, const TF_Output *to) {
  TF_Output zero = integer(s, 0);
  return dp_strided_slice(s, value, dp_pack(s, DP_OUTPUTS(zero, from ? *from : zero)),
                          dp_pack(s, DP_OUTPUTS(zero, to ? *to : zero)),
                          dp_const_vector(s, DP_INTS(1, 1)), .ellipsis_mask = 1,
                          .begin_mask = from ? 0 : 2, .end_mask = to ? 0 : 2);
}

static TF_Output identity(dp_scope *s, TF_Output size, TF_Output like) {
  return dp_diag(s, dp_fill(s, dp_expand_dims(s, size, integer(s, 0)), number_like(s, like, 1)));
}

/* 1 / x, and 0 for 0. */
static TF_Output safe_reciprocal(dp_scope *s, TF_Output x) {
  TF_Output square = dp_add(s, dp_mul(s, x, x), number_like(s, x, 1e-20));
  return dp_mul(s, x, dp_reciprocal(s, square));
}

/* 1 / (x_j - x_i) in row i and column j, and 0 on the diagonal. */
static TF_Output gaps(dp_scope *s, TF_Output x) {
  TF_Output row = dp_expand_dims(s, x, integer(s, -2)),
            column = dp_expand_dims(s, x, integer(s, -1));
  return dp_matrix_set_diag(s, safe_reciprocal(s, dp_sub(s, row, column)), dp_zeros_like(s, x));
}

/* ---- Eigenvalues: outputs e, v ---- */

static void self_adjoint_eigen(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output middle = dp_matrix_diag(s, dp_cast(s, above(g, 0), type_of(input(g, 0)))), v;
  if (bool_attr(g, "compute_v")) {
    v = output(g, 1);
    middle = dp_add(s, middle, dp_mul(s, gaps(s, output(g, 0)), inner(s, v, above(g, 1))));
  } else {
    v = dp_self_adjoint_eig_v2(s, input(g, 0), .compute_v = true).v;
  }
  TF_Output whole = times(s, v, outer(s, middle, v));
  TF_Output lower = dp_matrix_band_part(s, dp_add(s, whole, adjoint(s, whole)),
                                        dp_const_int64(s, -1), dp_const_int64(s, 0));
  TF_Output half = dp_mul(s, number_like(s, lower, 0.5), dp_matrix_diag_part(s, lower));
  GIVE(g, 0, dp_matrix_set_diag(s, lower, half));
}

/* The part of M in dA = V'^-1 M V' that the gradient of the eigenvectors adds. Eigenvectors have
 * length 1, so the part of their gradient that would change the length is taken out. */
static TF_Output vector_part(gradient_call *g, TF_Output v) {
  dp_scope *s = g->scope;
  TF_Output along = inner(s, v, above(g, 1));
  TF_Output length =
      dp_cast(s, dp_real(s, along, .tout = type_of(along) == TF_COMPLEX128 ? TF_DOUBLE : TF_FLOAT),
              type_of(along));
  TF_Output lengths = dp_matrix_diag(s, dp_matrix_diag_part(s, length));
  TF_Output rest = dp_sub(s, along, times(s, inner(s, v, v), lengths));
  return dp_mul(s, dp_conj(s, gaps(s, output(g, 0))), rest);
}

static void eigen(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output middle = dp_matrix_diag(s, above(g, 0)), v;
  if (bool_attr(g, "compute_v")) {
    v = output(g, 1);
    middle = dp_add(s, middle, vector_part(g, v));
  } else {
    v = dp_eig(s, input(g, 0), type_attr(g, "Tout"), .compute_v = true).v;
  }
  TF_Output da = dp_matrix_solve(s, adjoint(s, v), outer(s, middle, v));
  GIVE(g, 0, dp_cast(s, da, type_of(input(g, 0))));
}

/* ---- Q R ---- */

/* x (r^-1)' of an upper triangle r. */
static TF_Output solved_right(dp_scope *s, TF_Output x, TF_Output r) {
  return adjoint(s, dp_matrix_triangular_solve(s, r, adjoint(s, x), .lower = false));
}

static TF_Output minus_adjoint(dp_scope *s, TF_Output x) {
  return dp_sub(s, x, adjoint(s, x));
}

/* The gradient of a matrix with at least as many rows as columns. */
static TF_Output qr_deep(dp_scope *s, TF_Output q, TF_Output r, TF_Output dq, TF_Output dr) {
  TF_Output qdq = inner(s, q, dq), rdr = outer(s, r, dr);
  TF_Output lower = dp_matrix_band_part(s, dp_add(s, minus_adjoint(s, qdq), minus_adjoint(s, rdr)),
                                        dp_const_int64(s, -1), dp_const_int64(s, 0));
  TF_Output along = times(s, q, dp_add(s, dr, solved_right(s, lower, r)));
  TF_Output across = solved_right(s, dp_sub(s, dq, times(s, q, qdq)), r);
  TF_Output da = dp_add(s, along, across);
  if (!is_complex(q))
    return da;
  /* The diagonal of r is real: the part that would make it complex is taken out. */
  TF_Output turn = dp_matrix_diag_part(s, dp_sub(s, rdr, adjoint(s, qdq)));
  TF_Output half = dp_mul(s, number_like(s, turn, 0.5), dp_sub(s, turn, dp_conj(s, turn)));
  TF_Output back = dp_matrix_diag(s, dp_conj(s, half));
  return dp_add(s, da, solved_right(s, times(s, q, back), r));
}

/* R = (U V) with a square U, so A = (Q U, Q V). V is empty unless A has more columns than rows. */
static void qr(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output q = output(g, 0), dr = above(g, 1), rank = size_from_end(s, q, -1);
  TF_Output dv = columns(s, dr, &rank, NULL);
  TF_Output dq = dp_add(s, above(g, 0), outer(s, columns(s, input(g, 0), &rank, NULL), dv));
  TF_Output dx =
      qr_deep(s, q, columns(s, output(g, 1), NULL, &rank), dq, columns(s, dr, NULL, &rank));
  GIVE(g, 0, dp_concat_v2(s, DP_OUTPUTS(dx, times(s, q, dv)), integer(s, -1)));
}

/* ---- Singular values: outputs s, u, v ---- */

typedef struct singular {
  dp_scope *scope;
  TF_Output values, u, v, d_values, du, dv; /* of a matrix with no more rows than columns */
  int64_t rows, columns;
  bool is_full;
} singular;

/* The columns of V that belong to singular values; a full V has more. */
static TF_Output thin(const singular *d, TF_Output v) {
  TF_Output rows = integer(d->scope, (int32_t)d->rows);
  return columns(d->scope, v, NULL, &rows);
}

/* The part of the gradient in the space of V's columns:
 * U (dS + (F U'dU + its adjoint) S + S (F V'dV + its adjoint)) V' */
static TF_Output svd_along(const singular *d) {
  dp_scope *s = d->scope;
  TF_Output v = thin(d, d->v), dv = thin(d, d->dv), scale = dp_matrix_diag(s, d->values);
  TF_Output f = gaps(s, dp_square(s, d->values));
  TF_Output fu = dp_mul(s, f, inner(s, d->u, d->du)), fv = dp_mul(s, f, inner(s, v, dv));
  TF_Output left = times(s, dp_add(s, fu, adjoint(s, fu)), scale);
  TF_Output right = times(s, scale, dp_add(s, fv, adjoint(s, fv)));
  TF_Output middle = dp_add(s, dp_matrix_diag(s, d->d_values), dp_add(s, left, right));
  if (is_complex(v)) {
    TF_Output turn = dp_matrix_diag_part(s, inner(s, v, dv));
    TF_Output half = dp_mul(s, number_like(s, turn, 0.5), dp_sub(s, dp_conj(s, turn), turn));
    middle = dp_add(s, middle, dp_matrix_diag(s, dp_mul(s, safe_reciprocal(s, d->values), half)));
  }
  return times(s, d->u, outer(s, middle, v));
}

/* The part outside of that space, if there are more columns than rows: U S^-1 (dV' - dV'V V') */
static TF_Output svd_across(const singular *d) {
  dp_scope *s = d->scope;
  TF_Output v = thin(d, d->v), dv = thin(d, d->dv), rows = integer(s, (int32_t)d->rows);
  TF_Output rest = dp_sub(s, adjoint(s, dv), outer(s, inner(s, dv, v), v));
  if (d->is_full) {
    TF_Output v2 = columns(s, d->v, &rows, NULL), dv2 = columns(s, d->dv, &rows, NULL);
    rest = dp_sub(s, rest, outer(s, inner(s, v, dv2), v2));
  }
  TF_Output scale = dp_matrix_diag(s, safe_reciprocal(s, d->values));
  return times(s, times(s, d->u, scale), rest);
}

static bool svd_is_known(gradient_call *g, const singular *d) {
  if (d->rows < 0 || d->columns < 0) {
    dp_scope_fail(g->scope, TF_UNIMPLEMENTED,
                  "SVD gradient has not been implemented for input with unknown inner matrix "
                  "shape.");
    return false;
  }
  if (d->is_full && d->columns - d->rows > 1) {
    dp_scope_fail(g->scope, TF_UNIMPLEMENTED,
                  "svd gradient is not implemented for abs(m - n) > 1 when full_matrices is True.");
    return false;
  }
  return true;
}

static void svd_values(gradient_call *g) {
  dp_scope *s = g->scope;
  dp_svd_outputs d = dp_svd(s, input(g, 0), .compute_uv = true);
  TF_Output middle = dp_matrix_diag(s, dp_cast(s, above(g, 0), type_of(input(g, 0))));
  GIVE(g, 0, times(s, d.u, outer(s, middle, d.v)));
}

static void svd(gradient_call *g) {
  if (!bool_attr(g, "compute_uv")) {
    svd_values(g);
    return;
  }
  dp_scope *s = g->scope;
  dp_partial_shape shape = known_shape(g, 0);
  int64_t rows = shape.rank < 2 ? -1 : shape.dims[shape.rank - 2];
  int64_t wide = shape.rank < 2 ? -1 : shape.dims[shape.rank - 1];
  bool is_turned = rows > wide;
  TF_DataType type = type_of(input(g, 0));
  singular d = {.scope = s,
                .values = dp_cast(s, output(g, 0), type),
                .d_values = dp_cast(s, above(g, 0), type),
                .u = output(g, is_turned ? 2 : 1),
                .v = output(g, is_turned ? 1 : 2),
                .du = above(g, is_turned ? 2 : 1),
                .dv = above(g, is_turned ? 1 : 2),
                .rows = is_turned ? wide : rows,
                .columns = is_turned ? rows : wide,
                .is_full = bool_attr(g, "full_matrices")};
  if (!svd_is_known(g, &d))
    return;
  TF_Output da = svd_along(&d);
  if (d.rows != d.columns)
    da = dp_add(s, da, svd_across(&d));
  GIVE(g, 0, is_turned ? adjoint(s, da) : da);
}

/* ---- Square roots ---- */

/* (..., i, j) and (..., k, l) to (..., ik, jl), a matrix of `shape`. */
static TF_Output kronecker(dp_scope *s, TF_Output a, TF_Output b, TF_Output shape) {
  TF_Output wide_a = dp_expand_dims(s, dp_expand_dims(s, a, integer(s, -1)), integer(s, -3));
  TF_Output wide_b = dp_expand_dims(s, dp_expand_dims(s, b, integer(s, -2)), integer(s, -4));
  return dp_reshape(s, dp_mul(s, wide_a, wide_b), shape);
}

/* The shape of `value` with other sizes in the last two dimensions. */
static TF_Output reshaped(dp_scope *s, TF_Output value, TF_Output rows, TF_Output columns) {
  TF_Output batch =
      dp_strided_slice(s, shape_of(s, value), dp_const_vector(s, DP_INTS(0)),
                       dp_const_vector(s, DP_INTS(-2)), dp_const_vector(s, DP_INTS(1)));
  TF_Output matrix = dp_pack(s, DP_OUTPUTS(rows, columns));
  return dp_concat_v2(s, DP_OUTPUTS(batch, matrix), integer(s, 0));
}

/* With Y Y = A, the gradient X of A solves Y' X + X Y' = dY, which is one linear system. */
static void square_root(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = output(g, 0), size = size_from_end(s, y, -1), all = dp_mul(s, size, size);
  TF_Output eye = identity(s, size, y), shape = reshaped(s, y, all, all);
  TF_Output system =
      dp_add(s, kronecker(s, eye, transposed(s, y), shape), kronecker(s, y, eye, shape));
  TF_Output right = dp_reshape(s, transposed(s, above(g, 0)), reshaped(s, y, all, integer(s, 1)));
  TF_Output solved = dp_reshape(s, dp_matrix_solve(s, system, right), shape_of(s, y));
  GIVE(g, 0, transposed(s, solved));
}

/* ---- Least squares: (A, B, l2) ---- */

typedef struct squares {
  dp_scope *scope;
  TF_Output a, b, x, dx, l2;
  TF_Output da, db;
} squares;

/* (M + l2 I)^-1 B of a symmetric M. */
static TF_Output solve_symmetric(const squares *q, TF_Output m, TF_Output b) {
  dp_scope *s = q->scope;
  TF_Output eye = identity(s, size_from_end(s, m, -1), m);
  TF_Output root = dp_cholesky(s, dp_add(s, m, dp_mul(s, q->l2, eye)));
  TF_Output half = dp_matrix_triangular_solve(s, root, b, .lower = true);
  return dp_matrix_triangular_solve(s, root, half, .lower = true, .adjoint = true);
}

/* X = (A'A + l2 I)^-1 A' B */
static void many_rows(squares *q) {
  dp_scope *s = q->scope;
  TF_Output z = solve_symmetric(q, inner(s, q->a, q->a), q->dx);
  TF_Output xz = outer(s, q->x, z), both = dp_add(s, xz, transposed(s, xz));
  q->da = dp_sub(s, outer(s, q->b, z), times(s, q->a, both));
  q->db = times(s, q->a, z);
}

/* X = A' (A A' + l2 I)^-1 B */
static void few_rows(squares *q) {
  dp_scope *s = q->scope;
  TF_Output gram = outer(s, q->a, q->a);
  q->db = solve_symmetric(q, gram, times(s, q->a, q->dx));
  TF_Output z = solve_symmetric(q, gram, q->b);
  TF_Output rest = dp_sub(s, q->dx, inner(s, q->a, q->db));
  q->da = dp_sub(s, outer(s, z, rest), times(s, q->db, inner(s, z, q->a)));
}

static void least_squares(gradient_call *g) {
  dp_scope *s = g->scope;
  if (!bool_attr(g, "fast")) {
    dp_scope_fail(s, TF_INVALID_ARGUMENT, "Gradient not defined for fast=False");
    return;
  }
  squares q = {.scope = s,
               .a = input(g, 0),
               .b = input(g, 1),
               .x = output(g, 0),
               .dx = above(g, 0),
               .l2 = dp_cast(s, input(g, 2), type_of(input(g, 0)))};
  dp_partial_shape shape = known_shape(g, 0);
  int64_t rows = shape.rank < 2 ? -1 : shape.dims[shape.rank - 2];
  int64_t wide = shape.rank < 2 ? -1 : shape.dims[shape.rank - 1];
  if (rows < 0 || wide < 0)
    dp_scope_fail(s, TF_UNIMPLEMENTED,
                  "The gradient of MatrixSolveLs needs the inner shape of the matrix");
  else if (rows >= wide)
    many_rows(&q);
  else
    few_rows(&q);
  GIVE(g, 0, q.da);
  GIVE(g, 1, q.db);
}

const gradient_row dp_gradient_decompose[] = {
    {"Eig", eigen}, {"MatrixSolveLs", least_squares},         {"MatrixSquareRoot", square_root},
    {"Qr", qr},     {"SelfAdjointEigV2", self_adjoint_eigen}, {"Svd", svd},
    {NULL, NULL},
};
