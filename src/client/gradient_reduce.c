/* Gradients of reductions over axes, of running sums and products, and of reductions by segment.
 * The gradient of a maximum or minimum is divided equally among the elements that are equal to it.
 */
#include "client/gradient_internal.h"

/* ---- Reductions over axes ---- */

/* The shape of the input with 1 for the reduced dimensions. */
static TF_Output kept_shape(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = shape_of(s, input(g, 0)), rank = dp_rank(s, input(g, 0));
  TF_Output axes = dp_cast(s, input(g, 1), TF_INT32);
  /* A negative axis counts from the end. A scalar stands for one axis. */
  TF_Output positive =
      dp_reshape(s, dp_floor_mod(s, dp_add(s, axes, rank), rank), dp_const_vector(s, DP_INTS(-1)));
  TF_Output all = dp_range(s, integer(s, 0), rank, integer(s, 1));
  TF_Output ones = dp_ones_like(s, positive);
  return dp_dynamic_stitch(s, DP_OUTPUTS(all, positive), DP_OUTPUTS(shape, ones));
}

static TF_Output spread(gradient_call *g, TF_Output value) {
  dp_scope *s = g->scope;
  return dp_broadcast_to(s, dp_reshape(s, value, kept_shape(g)), shape_of(s, input(g, 0)));
}

static void sum(gradient_call *g) {
  GIVE(g, 0, spread(g, above(g, 0)));
}

/* How many elements of the input went into each element of the output. */
static TF_Output group_size(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output all = dp_size(s, input(g, 0)), some = dp_size(s, output(g, 0));
  return dp_floor_div(s, all, dp_maximum(s, some, integer(s, 1)));
}

static void mean(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output count = dp_cast(s, group_size(g), type_of(input(g, 0)));
  GIVE(g, 0, dp_real_div(s, spread(g, above(g, 0)), count));
}

/* Max and Min: equal shares for all elements that are the extreme. */
static void extreme(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = kept_shape(g), y = dp_reshape(s, output(g, 0), shape);
  TF_Output dy = dp_reshape(s, above(g, 0), shape);
  TF_Output is_it = dp_cast(s, dp_equal(s, y, input(g, 0)), type_of(input(g, 0)));
  TF_Output count = dp_reshape(s, dp_sum(s, is_it, input(g, 1)), shape);
  GIVE(g, 0, dp_mul(s, dp_div(s, is_it, count), dy));
}

/* The derivative for an element is the product of all others: of those before it times those behind
 * it. For that the reduced axes are moved to the front and made one. */
static void product(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), shape = shape_of(s, x), rank = dp_rank(s, x);
  TF_Output dy = spread(g, above(g, 0)), zero = integer(s, 0), one = integer(s, 1);
  TF_Output axes =
      dp_reshape(s, dp_cast(s, input(g, 1), TF_INT32), dp_const_vector(s, DP_INTS(-1)));
  TF_Output reduced = dp_floor_mod(s, dp_add(s, axes, rank), rank);
  TF_Output all = dp_range(s, zero, rank, one);
  TF_Output others = dp_list_diff(s, all, reduced).out;
  TF_Output order = dp_concat_v2(s, DP_OUTPUTS(reduced, others), zero);
  TF_Output first = dp_prod(s, dp_gather_v2(s, shape, reduced, zero), zero);
  TF_Output rest = dp_prod(s, dp_gather_v2(s, shape, others, zero), zero);
  TF_Output turned = dp_transpose(s, x, order), turned_shape = shape_of(s, turned);
  TF_Output flat = dp_reshape(s, turned, dp_pack(s, DP_OUTPUTS(first, rest)));
  TF_Output before = dp_cumprod(s, flat, zero, .exclusive = true);
  TF_Output behind = dp_cumprod(s, flat, zero, .exclusive = true, .reverse = true);
  TF_Output factor = dp_mul(s, conjugate(s, before), conjugate(s, behind));
  TF_Output back =
      dp_transpose(s, dp_reshape(s, factor, turned_shape), dp_invert_permutation(s, order));
  GIVE(g, 0, dp_reshape(s, dp_mul(s, dy, back), shape));
}

static void l2_loss(gradient_call *g) {
  GIVE(g, 0, dp_mul(g->scope, input(g, 0), above(g, 0)));
}

static void euclidean_norm(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = kept_shape(g), y = dp_reshape(s, output(g, 0), shape);
  GIVE(g, 0, dp_mul(s, input(g, 0), dp_div(s, dp_reshape(s, above(g, 0), shape), y)));
}

/* ---- Running sums ---- */

static TF_Output running(gradient_call *g, TF_Output value) {
  return dp_cumsum(g->scope, value, input(g, 1), .exclusive = bool_attr(g, "exclusive"),
                   .reverse = !bool_attr(g, "reverse"));
}

static void running_sum(gradient_call *g) {
  GIVE(g, 0, running(g, above(g, 0)));
}

static void running_product(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0);
  TF_Output product = dp_cumprod(s, x, input(g, 1), .exclusive = bool_attr(g, "exclusive"),
                                 .reverse = bool_attr(g, "reverse"));
  GIVE(g, 0, dp_div(s, running(g, dp_mul(s, product, above(g, 0))), x));
}

/* With y = log of the running sum of exp(x), dx is exp(x) times the running sum, from the other
 * end, of dy exp(-y). That may overflow, so it is computed as a logarithm, for positive dy only;
 * the caller adds up the parts for dy and -dy. */
static TF_Output running_log_part(gradient_call *g, TF_Output dy) {
  dp_scope *s = g->scope;
  double lowest = type_of(dy) == TF_DOUBLE ? -1.7976931348623157e308 : -3.4028234663852886e38;
  TF_Output is_in = dp_greater(s, dy, number_like(s, dy, 0));
  TF_Output log = dp_select_v2(s, is_in, dp_log(s, dy), number_like(s, dy, lowest));
  TF_Output sum = dp_cumulative_logsumexp(s, dp_sub(s, log, output(g, 0)), input(g, 1),
                                          .exclusive = bool_attr(g, "exclusive"),
                                          .reverse = !bool_attr(g, "reverse"));
  return dp_exp(s, dp_add(s, sum, input(g, 0)));
}

static void running_log_sum(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output negative = running_log_part(g, dp_neg(s, above(g, 0)));
  GIVE(g, 0, dp_sub(s, running_log_part(g, above(g, 0)), negative));
}

/* Equal shares for all elements of the row that are equal to the chosen one. */
static void nth_element(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output end = integer(s, -1), dy = dp_expand_dims(s, above(g, 0), end);
  TF_Output is_it =
      dp_cast(s, dp_equal(s, dp_expand_dims(s, output(g, 0), end), input(g, 0)), type_of(dy));
  TF_Output count = dp_sum(s, is_it, end, .keep_dims = true);
  GIVE(g, 0, dp_mul(s, dp_div(s, is_it, count), dy));
}

/* ---- Segments ---- */

static void segment_sum(gradient_call *g) {
  GIVE(g, 0, dp_gather(g->scope, above(g, 0), input(g, 1)));
}

static void segment_mean(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output ids = input(g, 1), rank = dp_rank(s, input(g, 0));
  TF_Output tail =
      dp_fill(s, dp_expand_dims(s, dp_sub(s, rank, integer(s, 1)), integer(s, 0)), integer(s, 1));
  TF_Output shape = dp_concat_v2(s, DP_OUTPUTS(shape_of(s, ids), tail), integer(s, 0));
  TF_Output ones = dp_fill(s, shape, number_like(s, above(g, 0), 1));
  TF_Output scaled = dp_div(s, above(g, 0), dp_segment_sum(s, ones, ids));
  GIVE(g, 0, dp_gather(s, scaled, ids));
}

/* Equal shares for all rows that are the extreme of their segment. */
static void segment_extreme(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), ids = input(g, 1), dy = above(g, 0);
  TF_Output is_it = dp_equal(s, x, dp_gather(s, output(g, 0), ids));
  TF_Output count = dp_segment_sum(s, dp_cast(s, is_it, type_of(dy)), ids);
  TF_Output share = dp_gather(s, dp_div(s, dy, count), ids);
  GIVE(g, 0, dp_select(s, is_it, share, dp_zeros_like(s, share)));
}

/* For each id the row of `value` with that number; zeros for a negative id, which is no segment. */
static TF_Output gather_segments(gradient_call *g, TF_Output value, TF_Output ids) {
  dp_scope *s = g->scope;
  TF_Output zero = number_like(s, ids, 0);
  TF_Output rows = dp_gather(s, value, dp_maximum(s, ids, zero));
  TF_Output is_in = dp_greater_equal(s, ids, zero);
  /* ids may have fewer dimensions than the rows. */
  TF_Output missing = dp_sub(s, dp_rank(s, rows), dp_rank(s, ids));
  TF_Output tail = dp_fill(s, dp_expand_dims(s, missing, integer(s, 0)), integer(s, 1));
  TF_Output shape = dp_concat_v2(s, DP_OUTPUTS(shape_of(s, is_in), tail), integer(s, 0));
  return dp_select_v2(s, dp_reshape(s, is_in, shape), rows, number_like(s, value, 0));
}

static void unsorted_sum(gradient_call *g) {
  GIVE(g, 0, gather_segments(g, above(g, 0), input(g, 1)));
}

static void unsorted_extreme(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), ids = input(g, 1), dy = above(g, 0), zero = number_like(s, ids, 0);
  TF_Output best = gather_segments(g, output(g, 0), ids);
  TF_Output has_segment = dp_greater_equal(s, ids, zero);
  TF_Output missing = dp_sub(s, dp_rank(s, best), dp_rank(s, ids));
  TF_Output tail = dp_fill(s, dp_expand_dims(s, missing, integer(s, 0)), integer(s, 1));
  TF_Output shape = dp_concat_v2(s, DP_OUTPUTS(shape_of(s, ids), tail), integer(s, 0));
  TF_Output is_in = dp_logical_and(s, dp_equal(s, x, best), dp_reshape(s, has_segment, shape));
  TF_Output count = dp_unsorted_segment_sum(s, dp_cast(s, is_in, type_of(dy)), ids, input(g, 2));
  TF_Output share = gather_segments(g, dp_div(s, dy, count), ids);
  GIVE(g, 0, dp_select(s, is_in, share, dp_zeros_like(s, share)));
}

/* The derivative of a segment's product for one element is the product of the others. It is
 * computed by division. An element that is the only zero gets the product of the rest; in a segment
 * with two zeros all derivatives are 0. `sum` and `product` reduce by segment, `rows` takes a value
 * per segment back to the rows. */
typedef struct segment_calls {
  TF_Output (*sum)(gradient_call *g, TF_Output value);
  TF_Output (*product)(gradient_call *g, TF_Output value);
  TF_Output (*rows)(gradient_call *g, TF_Output value);
} segment_calls;

static void give_segment_product(gradient_call *g, const segment_calls *calls) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), dy = above(g, 0), one = number_like(s, x, 1);
  TF_Output is_zero = dp_equal(s, x, number_like(s, x, 0));
  TF_Output zeros = calls->sum(g, dp_cast(s, is_zero, TF_INT32));
  dy = dp_select_v2(s, dp_greater(s, zeros, integer(s, 1)), number_like(s, dy, 0), dy);
  TF_Output filled = dp_select_v2(s, is_zero, one, x);
  TF_Output others = calls->rows(g, calls->product(g, filled));
  TF_Output divided = dp_div(s, calls->rows(g, output(g, 0)), filled);
  GIVE(g, 0, dp_mul(s, calls->rows(g, dy), dp_select_v2(s, is_zero, others, divided)));
}

static TF_Output sorted_sum(gradient_call *g, TF_Output value) {
  return dp_segment_sum(g->scope, value, input(g, 1));
}

static TF_Output sorted_product(gradient_call *g, TF_Output value) {
  return dp_segment_prod(g->scope, value, input(g, 1));
}

static TF_Output sorted_rows(gradient_call *g, TF_Output value) {
  return dp_gather(g->scope, value, input(g, 1));
}

static void segment_product(gradient_call *g) {
  static const segment_calls calls = {sorted_sum, sorted_product, sorted_rows};
  give_segment_product(g, &calls);
}

static TF_Output loose_sum(gradient_call *g, TF_Output value) {
  return dp_unsorted_segment_sum(g->scope, value, input(g, 1), input(g, 2));
}

static TF_Output loose_product(gradient_call *g, TF_Output value) {
  return dp_unsorted_segment_prod(g->scope, value, input(g, 1), input(g, 2));
}

static TF_Output loose_rows(gradient_call *g, TF_Output value) {
  return gather_segments(g, value, input(g, 1));
}

static void unsorted_product(gradient_call *g) {
  static const segment_calls calls = {loose_sum, loose_product, loose_rows};
  give_segment_product(g, &calls);
}

static TF_Output row_count(gradient_call *g) {
  dp_scope *s = g->scope;
  return dp_strided_slice(s, shape_of(s, input(g, 0)), dp_const_vector(s, DP_INTS(0)),
                          dp_const_vector(s, DP_INTS(1)), dp_const_vector(s, DP_INTS(1)),
                          .shrink_axis_mask = 1);
}

static void sparse_sum(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output rows = dp_gather(s, above(g, 0), input(g, 2));
  GIVE(g, 0, dp_unsorted_segment_sum(s, rows, input(g, 1), row_count(g)));
}

static void sparse_mean(gradient_call *g) {
  GIVE(g, 0,
       dp_sparse_segment_mean_grad(g->scope, above(g, 0), input(g, 1), input(g, 2), row_count(g)));
}

static void sparse_root(gradient_call *g) {
  GIVE(
      g, 0,
      dp_sparse_segment_sqrt_n_grad(g->scope, above(g, 0), input(g, 1), input(g, 2), row_count(g)));
}

const gradient_row dp_gradient_reduce[] = {
    {"Cumprod", running_product},
    {"Cumsum", running_sum},
    {"CumulativeLogsumexp", running_log_sum},
    {"EuclideanNorm", euclidean_norm},
    {"L2Loss", l2_loss},
    {"Max", extreme},
    {"Mean", mean},
    {"Min", extreme},
    {"NthElement", nth_element},
    {"Prod", product},
    {"SegmentMax", segment_extreme},
    {"SegmentMean", segment_mean},
    {"SegmentMin", segment_extreme},
    {"SegmentProd", segment_product},
    {"SegmentSum", segment_sum},
    {"SparseSegmentMean", sparse_mean},
    {"SparseSegmentMeanWithNumSegments", sparse_mean},
    {"SparseSegmentSqrtN", sparse_root},
    {"SparseSegmentSqrtNWithNumSegments", sparse_root},
    {"SparseSegmentSum", sparse_sum},
    {"SparseSegmentSumWithNumSegments", sparse_sum},
    {"Sum", sum},
    {"UnsortedSegmentMax", unsorted_extreme},
    {"UnsortedSegmentMin", unsorted_extreme},
    {"UnsortedSegmentProd", unsorted_product},
    {"UnsortedSegmentSum", unsorted_sum},
    {NULL, NULL},
};
