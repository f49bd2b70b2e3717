/* Gradients of sparse tensors, which are indices, values and shape. The values have gradients, and
 * so have dense operands and default values; indices and shapes have none. */
#include "client/gradient_internal.h"

static void reorder(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output count = dp_size(s, input(g, 1));
  TF_Output places = dp_range(s, integer(s, 0), count, integer(s, 1));
  TF_Output moved = dp_sparse_reorder(s, input(g, 0), places, input(g, 2)).output_values;
  GIVE(g, 1, dp_gather(s, above(g, 1), dp_invert_permutation(s, moved)));
}

/* add(a: 0..2, b: 3..5, threshold) */
static void add(gradient_call *g) {
  dp_sparse_add_grad_outputs parts =
      dp_sparse_add_grad(g->scope, above(g, 1), input(g, 0), input(g, 3), output(g, 0));
  GIVE(g, 1, parts.a_val_grad);
  GIVE(g, 4, parts.b_val_grad);
}

static void add_dense(gradient_call *g) {
  GIVE(g, 1, dp_gather_nd(g->scope, above(g, 0), input(g, 0)));
  GIVE(g, 3, above(g, 0));
}

static void slice(gradient_call *g) {
  GIVE(g, 1, dp_sparse_slice_grad(g->scope, above(g, 1), input(g, 0), input(g, 3), output(g, 0)));
}

static void fill_empty_rows(gradient_call *g) {
  dp_sparse_fill_empty_rows_grad_outputs parts =
      dp_sparse_fill_empty_rows_grad(g->scope, output(g, 3), above(g, 1));
  GIVE(g, 1, parts.d_values);
  GIVE(g, 3, parts.d_default_value);
}

/* For each value of the sparse tensor, its index in a tensor of the shape `kept`: of the same rank,
 * with some sizes reduced to 1. */
static TF_Output places_in(gradient_call *g, TF_Output kept) {
  dp_scope *s = g->scope;
  return dp_floor_div(s, input(g, 0), dp_floor_div(s, input(g, 2), kept));
}

/* reduce(indices, values, shape, axes) */
static void reduce_sum(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output rank = dp_size(s, input(g, 2)), axes = dp_cast(s, input(g, 3), TF_INT32);
  TF_Output positive = dp_reshape(s, dp_floor_mod(s, axes, rank), dp_const_vector(s, DP_INTS(-1)));
  TF_Output all = dp_range(s, integer(s, 0), rank, integer(s, 1));
  TF_Output ones = dp_cast(s, dp_ones_like(s, positive), TF_INT64);
  TF_Output kept = dp_dynamic_stitch(s, DP_OUTPUTS(all, positive), DP_OUTPUTS(input(g, 2), ones));
  GIVE(g, 1, dp_gather_nd(s, dp_reshape(s, above(g, 0), kept), places_in(g, kept)));
}

/* ---- Sparse with dense, where the dense side is broadcast: (indices, values, shape, dense) ----
 */

/* The shape of the dense side, with ones in front to make its rank that of the sparse side. */
static TF_Output long_shape(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = dp_shape(s, input(g, 3), .out_type = TF_INT64);
  TF_Output missing = dp_sub(s, dp_size(s, input(g, 2)), dp_size(s, shape));
  TF_Output ones = dp_fill(s, dp_expand_dims(s, missing, integer(s, 0)), dp_const_int64(s, 1));
  return dp_concat_v2(s, DP_OUTPUTS(ones, shape), integer(s, 0));
}

typedef struct dense_side {
  TF_Output shape, places, values;
} dense_side;

static dense_side dense_side_of(gradient_call *g) {
  dp_scope *s = g->scope;
  dense_side side = {.shape = long_shape(g)};
  side.places = places_in(g, side.shape);
  side.values = dp_gather_nd(s, dp_reshape(s, input(g, 3), side.shape), side.places);
  return side;
}

static TF_Output scattered(gradient_call *g, const dense_side *side, TF_Output values) {
  dp_scope *s = g->scope;
  TF_Output sums = dp_scatter_nd(s, side->places, values, side->shape);
  return dp_reshape(s, sums, shape_of(s, input(g, 3)));
}

static void times_dense(gradient_call *g) {
  dp_scope *s = g->scope;
  dense_side side = dense_side_of(g);
  GIVE(g, 1, dp_mul(s, above(g, 0), side.values));
  GIVE(g, 3, scattered(g, &side, dp_mul(s, above(g, 0), input(g, 1))));
}

static void over_dense(gradient_call *g) {
  dp_scope *s = g->scope;
  dense_side side = dense_side_of(g);
  TF_Output slope = dp_div(s, dp_neg(s, input(g, 1)), dp_square(s, side.values));
  GIVE(g, 1, dp_div(s, above(g, 0), side.values));
  GIVE(g, 3, scattered(g, &side, dp_mul(s, above(g, 0), slope)));
}

/* As the dense softmax, over the values that each row has: (dy - sum(dy y)) y */
static void softmax(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output at = input(g, 0), shape = input(g, 2), y = output(g, 0), dy = above(g, 0);
  TF_Output sums = dp_sparse_reduce_sum(s, at, dp_mul(s, dy, y), shape,
                                        dp_const_vector(s, DP_INTS(-1)), .keep_dims = true);
  TF_Output rest = dp_sparse_dense_cwise_add(s, at, dy, shape, dp_neg(s, sums));
  GIVE(g, 1, dp_mul(s, rest, y));
}

/* ---- To dense, from ragged ---- */

/* to_dense(indices, shape, values, default) */
static void to_dense(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), values = dp_gather_nd(s, dy, input(g, 0));
  TF_Output minus = dp_const_vector(s, DP_INTS(-1)), zero = integer(s, 0);
  TF_Output all = dp_sum(s, dp_reshape(s, dy, minus), zero);
  GIVE(g, 2, values);
  GIVE(g, 3, dp_sub(s, all, dp_sum(s, dp_reshape(s, values, minus), zero)));
}

/* from_ragged(splits..., values): indices, values, shape */
static void from_ragged(gradient_call *g) {
  int last = input_count(g) - 1;
  GIVE(g, last, dp_reshape(g->scope, above(g, 1), shape_of(g->scope, input(g, last))));
}

const gradient_row dp_gradient_sparse[] = {
    {"RaggedTensorToSparse", from_ragged},
    {"SparseAdd", add},
    {"SparseDenseCwiseDiv", over_dense},
    {"SparseDenseCwiseMul", times_dense},
    {"SparseFillEmptyRows", fill_empty_rows},
    {"SparseReduceSum", reduce_sum},
    {"SparseReorder", reorder},
    {"SparseSlice", slice},
    {"SparseSoftmax", softmax},
    {"SparseTensorDenseAdd", add_dense},
    {"SparseToDense", to_dense},
    {NULL, NULL},
};
