/* Gradients of ops that move values and compute nothing: reshape, tile, slice, pad, join, split,
 * gather, scatter, diagonals, blocks. Where rows are gathered along the first dimension the
 * gradient is sparse, so that a large table gets no dense gradient. */
#include "client/gradient_internal.h"

/* ---- Another shape, the same values ---- */

static void reshaped(gradient_call *g) {
  GIVE(g, 0, dp_reshape(g->scope, above(g, 0), shape_of(g->scope, input(g, 0))));
}

static void transpose(gradient_call *g) {
  GIVE(g, 0, dp_transpose(g->scope, above(g, 0), dp_invert_permutation(g->scope, input(g, 1))));
}

static void conjugate_transpose(gradient_call *g) {
  TF_Output back = dp_invert_permutation(g->scope, input(g, 1));
  GIVE(g, 0, dp_conjugate_transpose(g->scope, above(g, 0), back));
}

static void broadcast_to(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = shape_of(s, input(g, 0)), wide = shape_of(s, output(g, 0));
  TF_Output axes = dp_broadcast_gradient_args(s, wide, shape).r1;
  GIVE(g, 0, dp_reshape(s, dp_sum(s, above(g, 0), axes), shape));
}

/* Sums over the copies: dimension d becomes (copies, d). */
static void tile(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = shape_of(s, input(g, 0)), copies = dp_cast(s, input(g, 1), TF_INT32);
  TF_Output pairs = dp_reshape(
      s, dp_transpose(s, dp_pack(s, DP_OUTPUTS(copies, shape)), dp_const_vector(s, DP_INTS(1, 0))),
      dp_const_vector(s, DP_INTS(-1)));
  TF_Output axes = dp_range(s, integer(s, 0), dp_size(s, pairs), integer(s, 2));
  GIVE(g, 0, dp_sum(s, dp_reshape(s, above(g, 0), pairs), axes));
}

static void reverse_v2(gradient_call *g) {
  GIVE(g, 0, dp_reverse_v2(g->scope, above(g, 0), input(g, 1)));
}

static void reverse(gradient_call *g) {
  GIVE(g, 0, dp_reverse(g->scope, above(g, 0), input(g, 1)));
}

static void reverse_sequence(gradient_call *g) {
  GIVE(g, 0,
       dp_reverse_sequence(g->scope, above(g, 0), input(g, 1), int_attr(g, "seq_dim"),
                           .batch_dim = int_attr(g, "batch_dim")));
}

/* ---- Parts ---- */

static TF_Output column(dp_scope *s, TF_Output vector) {
  return dp_expand_dims(s, vector, integer(s, -1));
}

static void slice(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output begin = dp_cast(s, input(g, 1), TF_INT32), whole = shape_of(s, input(g, 0));
  TF_Output behind = dp_sub(s, dp_sub(s, whole, shape_of(s, output(g, 0))), begin);
  TF_Output paddings =
      dp_concat_v2(s, DP_OUTPUTS(column(s, begin), column(s, behind)), integer(s, 1));
  GIVE(g, 0, dp_pad(s, above(g, 0), paddings));
}

#define MASKS(g)                                                                                   \
  .begin_mask = int_attr(g, "begin_mask"), .end_mask = int_attr(g, "end_mask"),                    \
  .ellipsis_mask = int_attr(g, "ellipsis_mask"), .new_axis_mask = int_attr(g, "new_axis_mask"),    \
  .shrink_axis_mask = int_attr(g, "shrink_axis_mask")

static void strided_slice(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = dp_shape(s, input(g, 0), .out_type = type_of(input(g, 1)));
  GIVE(g, 0,
       dp_strided_slice_grad(s, shape, input(g, 1), input(g, 2), input(g, 3), above(g, 0),
                             MASKS(g)));
}

static void strided_slice_again(gradient_call *g) {
  GIVE(g, 4,
       dp_strided_slice(g->scope, above(g, 0), input(g, 1), input(g, 2), input(g, 3), MASKS(g)));
}

/* update(tensor, begin, end, strides, value), where the value may have been broadcast */
static void strided_slice_update(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy = dp_strided_slice(s, above(g, 0), input(g, 1), input(g, 2), input(g, 3), MASKS(g));
  broadcast_pair pair = broadcast_of(s, input(g, 4), dy);
  GIVE(g, 0,
       dp_tensor_strided_slice_update(s, above(g, 0), input(g, 1), input(g, 2), input(g, 3),
                                      dp_zeros_like(s, dy), MASKS(g)));
  GIVE(g, 4, unbroadcast(s, &pair, 0, dy));
}

/* The part that was not padding. */
static TF_Output inside(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output paddings = input(g, 1), rank = dp_rank(s, input(g, 0));
  TF_Output size = dp_pack(s, DP_OUTPUTS(rank, integer(s, 1)));
  TF_Output first = dp_slice(s, paddings, dp_const_vector(s, DP_INTS(0, 0)), size);
  TF_Output begin = dp_reshape(s, first, dp_const_vector(s, DP_INTS(-1)));
  TF_Output shape = dp_shape(s, input(g, 0), .out_type = type_of(begin));
  return dp_slice(s, above(g, 0), begin, shape);
}

static void pad(gradient_call *g) {
  GIVE(g, 0, inside(g));
}

static void mirror_pad(gradient_call *g) {
  GIVE(g, 0, dp_mirror_pad_grad(g->scope, above(g, 0), input(g, 1), string_attr(g, "mode")));
}

static void mirror_pad_again(gradient_call *g) {
  GIVE(g, 0, dp_mirror_pad(g->scope, above(g, 0), input(g, 1), string_attr(g, "mode")));
}

/* ---- Joining and splitting ---- */

/* Inputs first .. first + count of the op were joined along `axis`. */
static void join(gradient_call *g, int first, int count, TF_Output axis) {
  dp_scope *s = g->scope;
  if (count == 1) {
    GIVE(g, first, above(g, 0));
    return;
  }
  TF_Output *parts = DP_NEW_ARRAY(TF_Output, count);
  for (int i = 0; i < count; i++)
    parts[i] = input(g, first + i);
  dp_output_list shapes = dp_shape_n(s, ((dp_outputs){parts, count}));
  for (int i = 0; i < count; i++)
    parts[i] = dp_output_at(shapes, i);
  TF_Output place = dp_floor_mod(s, axis, dp_rank(s, input(g, first)));
  dp_output_list offsets = dp_concat_offset(s, place, ((dp_outputs){parts, count}));
  for (int i = 0; i < count; i++)
    GIVE(g, first + i, dp_slice(s, above(g, 0), dp_output_at(offsets, i), parts[i]));
  dp_free(parts);
}

static void concat(gradient_call *g) {
  join(g, 1, input_count(g) - 1, input(g, 0));
}

static void concat_v2(gradient_call *g) {
  TF_Output axis = dp_cast(g->scope, input(g, input_count(g) - 1), TF_INT32);
  join(g, 0, input_count(g) - 1, axis);
}

/* The gradients of all outputs, with zeros for outputs that have none. */
static dp_outputs all_above(gradient_call *g, TF_Output *room) {
  for (int i = 0; i < output_count(g); i++)
    room[i] = above(g, i);
  return (dp_outputs){room, output_count(g)};
}

static void split(gradient_call *g) {
  TF_Output *room = DP_NEW_ARRAY(TF_Output, output_count(g));
  GIVE(g, 1, dp_concat_v2(g->scope, all_above(g, room), input(g, 0)));
  dp_free(room);
}

static void split_v(gradient_call *g) {
  TF_Output *room = DP_NEW_ARRAY(TF_Output, output_count(g));
  GIVE(g, 0, dp_concat_v2(g->scope, all_above(g, room), input(g, 2)));
  dp_free(room);
}

static void pack(gradient_call *g) {
  int64_t count = int_attr(g, "N");
  dp_output_list parts = dp_unpack(g->scope, above(g, 0), count, .axis = int_attr(g, "axis"));
  for (int i = 0; i < count; i++)
    GIVE(g, i, dp_output_at(parts, i));
}

static void unpack(gradient_call *g) {
  TF_Output *room = DP_NEW_ARRAY(TF_Output, output_count(g));
  GIVE(g, 0, dp_pack(g->scope, all_above(g, room), .axis = int_attr(g, "axis")));
  dp_free(room);
}

/* ---- Gathering ---- */

/* The sparse gradient of a tensor of `shape`, from which rows were gathered along dimension 0. */
static dp_gradient rows(gradient_call *g, TF_Output shape, TF_Output indices) {
  dp_scope *s = g->scope;
  TF_Output count = dp_reshape(s, dp_size(s, indices), dp_const_vector(s, DP_INTS(1)));
  TF_Output row =
      dp_strided_slice(s, shape, dp_const_vector(s, DP_INTS(1)), dp_const_vector(s, DP_INTS(0)),
                       dp_const_vector(s, DP_INTS(1)), .end_mask = 1);
  TF_Output all = dp_concat_v2(s, DP_OUTPUTS(count, row), integer(s, 0));
  return (dp_gradient){.values = dp_reshape(s, above(g, 0), all),
                       .indices = dp_reshape(s, indices, dp_const_vector(s, DP_INTS(-1))),
                       .dense_shape = shape};
}

static void gather(gradient_call *g) {
  if (g->wanted[0])
    g->below[0] = rows(g, shape_of(g->scope, input(g, 0)), input(g, 1));
}

static void resource_gather(gradient_call *g) {
  if (g->wanted[0])
    g->below[0] = rows(g, dp_variable_shape(g->scope, input(g, 0)), input(g, 1));
}

static bool is_zero_constant(TF_Output value) {
  const dp_node *node = value.oper->node;
  const dp_attr *attr = dp_node_is(node, "Const") ? dp_node_attr(node, "value") : NULL;
  if (!attr || dp_tensor_elements(attr->tensor) != 1)
    return false;
  return attr->tensor->dtype == DP_INT32 ? *(const int32_t *)attr->tensor->data == 0
                                         : *(const int64_t *)attr->tensor->data == 0;
}

/* The product of sizes begin..end of a shape. */
static TF_Output product_of(dp_scope *s, TF_Output shape, TF_Output begin, TF_Output end) {
  TF_Output one = dp_const_vector(s, DP_INTS(1));
  TF_Output part =
      dp_strided_slice(s, shape, dp_reshape(s, begin, one), dp_reshape(s, end, one), one);
  return dp_prod(s, part, integer(s, 0));
}

/* Gathering along any axis, with any number of batch dimensions. The gathered tensor is seen as
 * (batch, outer, axis, inner). The gradient is rearranged as rows (batch x index, outer x inner),
 * and the rows of one (batch, axis) are summed. */
static TF_Output gather_along(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = shape_of(s, input(g, 0)), rank = dp_size(s, shape), zero = integer(s, 0);
  TF_Output chosen = shape_of(s, input(g, 1)), depth = dp_size(s, chosen), one = integer(s, 1);
  TF_Output axis = dp_floor_mod(s, dp_cast(s, input(g, 2), TF_INT32), rank);
  const dp_attr *attr = attribute(g, "batch_dims");
  int32_t batch_dims = attr ? (int32_t)attr->integer : 0;
  TF_Output first = integer(s, batch_dims);
  if (batch_dims < 0)
    first = dp_add(s, first, depth);
  TF_Output batch = product_of(s, shape, zero, first), outer = product_of(s, shape, first, axis);
  TF_Output size = dp_gather(s, shape, axis), count = product_of(s, chosen, first, depth);
  TF_Output inner = product_of(s, shape, dp_add(s, axis, one), rank);
  TF_Output swap = dp_const_vector(s, DP_INTS(0, 2, 1, 3)), width = dp_mul(s, outer, inner);
  TF_Output values = dp_reshape(s, above(g, 0), dp_pack(s, DP_OUTPUTS(batch, outer, count, inner)));
  TF_Output rows = dp_reshape(s, dp_transpose(s, values, swap),
                              dp_pack(s, DP_OUTPUTS(dp_mul(s, batch, count), width)));
  TF_Output starts = dp_range(s, zero, batch, one);
  TF_Output offsets =
      dp_cast(s, dp_expand_dims(s, dp_mul(s, starts, size), one), type_of(input(g, 1)));
  TF_Output indices =
      dp_add(s, dp_reshape(s, input(g, 1), dp_pack(s, DP_OUTPUTS(batch, count))), offsets);
  TF_Output sums = dp_unsorted_segment_sum(
      s, rows, dp_reshape(s, indices, dp_const_vector(s, DP_INTS(-1))), dp_mul(s, batch, size));
  TF_Output parts = dp_reshape(s, sums, dp_pack(s, DP_OUTPUTS(batch, size, outer, inner)));
  return dp_reshape(s, dp_transpose(s, parts, swap), shape);
}

static void gather_v2(gradient_call *g) {
  const dp_input *axis = &g->operation->node->inputs[2];
  if (is_zero_constant((TF_Output){g->operation->graph->operations[axis->node], 0}))
    gather(g);
  else
    GIVE(g, 0, gather_along(g));
}

static void gather_nd(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = dp_shape(s, input(g, 0), .out_type = type_of(input(g, 1)));
  GIVE(g, 0, dp_scatter_nd(s, input(g, 1), above(g, 0), shape));
}

static void scatter_nd(gradient_call *g) {
  GIVE(g, 1, dp_gather_nd(g->scope, above(g, 0), input(g, 0)));
}

static void tensor_scatter_update(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_tensor_scatter_update(s, above(g, 0), input(g, 1), dp_zeros_like(s, input(g, 2))));
  GIVE(g, 2, dp_gather_nd(s, above(g, 0), input(g, 1)));
}

static void tensor_scatter_add(gradient_call *g) {
  GIVE(g, 0, above(g, 0));
  GIVE(g, 2, dp_gather_nd(g->scope, above(g, 0), input(g, 1)));
}

static void tensor_scatter_sub(gradient_call *g) {
  GIVE(g, 0, above(g, 0));
  GIVE(g, 2, dp_neg(g->scope, dp_gather_nd(g->scope, above(g, 0), input(g, 1))));
}

/* The gradient is divided equally among the elements that are equal to the result: the tensor's
 * own and those of the updates. */
static void tensor_scatter_extreme(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), at = input(g, 1), y = output(g, 0), dy = above(g, 0);
  TF_Output is_x = dp_cast(s, dp_equal(s, x, y), type_of(dy));
  TF_Output is_update = dp_cast(s, dp_equal(s, input(g, 2), dp_gather_nd(s, y, at)), type_of(dy));
  TF_Output updates = dp_scatter_nd(s, at, is_update, dp_shape(s, x, .out_type = type_of(at)));
  TF_Output share = dp_div(s, dy, dp_add(s, is_x, updates));
  GIVE(g, 0, dp_mul(s, share, is_x));
  GIVE(g, 2, dp_mul(s, dp_gather_nd(s, share, at), is_update));
}

static void resource_gather_nd(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output shape = dp_variable_shape(s, input(g, 0), .out_type = type_of(input(g, 1)));
  GIVE(g, 0, dp_scatter_nd(s, input(g, 1), above(g, 0), shape));
}

static void dynamic_partition(gradient_call *g) {
  dp_scope *s = g->scope;
  int count = output_count(g);
  TF_Output *room = DP_NEW_ARRAY(TF_Output, count), *parts = DP_NEW_ARRAY(TF_Output, count);
  TF_Output zero = integer(s, 0), one = integer(s, 1), partitions = input(g, 1);
  TF_Output shape = shape_of(s, partitions);
  TF_Output numbers = dp_reshape(s, dp_range(s, zero, dp_size(s, partitions), one), shape);
  dp_output_list places = dp_dynamic_partition(s, numbers, partitions, count);
  for (int i = 0; i < count; i++)
    parts[i] = dp_output_at(places, i);
  TF_Output joined = dp_dynamic_stitch(s, ((dp_outputs){parts, count}), all_above(g, room));
  GIVE(g, 0, dp_reshape(s, joined, shape_of(s, input(g, 0))));
  dp_free(room);
  dp_free(parts);
}

static void dynamic_stitch(gradient_call *g) {
  int half = input_count(g) / 2;
  for (int i = 0; i < half; i++)
    GIVE(g, half + i, dp_gather(g->scope, above(g, 0), input(g, i)));
}

/* Each chosen element gets the gradient of its value. `places` are its numbers in the flat input.
 */
static void top_k(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), shape = shape_of(s, x), zero = integer(s, 0), one = integer(s, 1);
  TF_Output minus = dp_const_vector(s, DP_INTS(-1));
  TF_Output chosen = dp_cast(s, output(g, 1), TF_INT32);
  TF_Output width = dp_gather(s, shape, dp_sub(s, dp_size(s, shape), one));
  TF_Output k = dp_gather(s, shape_of(s, chosen), dp_sub(s, dp_size(s, shape), one));
  TF_Output flat = dp_reshape(s, chosen, dp_pack(s, DP_OUTPUTS(integer(s, -1), k)));
  TF_Output lines = dp_gather(s, shape_of(s, flat), zero);
  TF_Output starts = dp_range(s, zero, dp_mul(s, lines, width), width);
  TF_Output places = dp_add(s, flat, dp_expand_dims(s, starts, integer(s, -1)));
  TF_Output index = dp_expand_dims(s, dp_reshape(s, places, minus), integer(s, -1));
  TF_Output all = dp_scatter_nd(s, index, dp_reshape(s, above(g, 0), minus),
                                dp_reshape(s, dp_size(s, x), dp_const_vector(s, DP_INTS(1))));
  GIVE(g, 0, dp_reshape(s, all, shape));
}

/* ---- Diagonals and blocks ---- */

static void diag(gradient_call *g) {
  GIVE(g, 0, dp_diag_part(g->scope, above(g, 0)));
}

static void diag_part(gradient_call *g) {
  GIVE(g, 0, dp_diag(g->scope, above(g, 0)));
}

static void matrix_diag(gradient_call *g) {
  GIVE(g, 0, dp_matrix_diag_part(g->scope, above(g, 0)));
}

static void matrix_diag_part(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, dp_matrix_set_diag(s, dp_zeros_like(s, input(g, 0)), above(g, 0)));
}

static void matrix_set_diag(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output none = dp_zeros_like(s, input(g, 1));
  GIVE(g, 0, dp_matrix_set_diag(s, above(g, 0), none));
  GIVE(g, 1, dp_matrix_diag_part(s, above(g, 0)));
}

static void matrix_band_part(gradient_call *g) {
  GIVE(g, 0, dp_matrix_band_part(g->scope, above(g, 0), input(g, 1), input(g, 2)));
}

/* The V2 ops have no attribute `align`: their short diagonals are aligned to the left. */
static const char *alignment(gradient_call *g) {
  const char *align = string_attr(g, "align");
  return align ? align : "LEFT_LEFT";
}

/* V2 and V3: (diagonal, k, rows, columns, padding value) */
static void matrix_diag_v3(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0,
       dp_matrix_diag_part_v3(s, above(g, 0), input(g, 1), number_like(s, above(g, 0), 0),
                              .align = alignment(g)));
}

static void matrix_diag_part_v3(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output zeros = dp_zeros_like(s, input(g, 0));
  GIVE(g, 0, dp_matrix_set_diag_v3(s, zeros, above(g, 0), input(g, 1), .align = alignment(g)));
}

static void matrix_set_diag_v3(gradient_call *g) {
  dp_scope *s = g->scope;
  const char *align = alignment(g);
  TF_Output none = dp_zeros_like(s, input(g, 1));
  GIVE(g, 0, dp_matrix_set_diag_v3(s, above(g, 0), none, input(g, 2), .align = align));
  GIVE(g, 1,
       dp_matrix_diag_part_v3(s, above(g, 0), input(g, 2), number_like(s, above(g, 0), 0),
                              .align = align));
}

static void space_to_batch(gradient_call *g) {
  GIVE(g, 0, dp_batch_to_space_nd(g->scope, above(g, 0), input(g, 1), input(g, 2)));
}

static void batch_to_space(gradient_call *g) {
  GIVE(g, 0, dp_space_to_batch_nd(g->scope, above(g, 0), input(g, 1), input(g, 2)));
}

static void space_to_batch_v1(gradient_call *g) {
  GIVE(g, 0, dp_batch_to_space(g->scope, above(g, 0), input(g, 1), int_attr(g, "block_size")));
}

static void batch_to_space_v1(gradient_call *g) {
  GIVE(g, 0, dp_space_to_batch(g->scope, above(g, 0), input(g, 1), int_attr(g, "block_size")));
}

static void space_to_depth(gradient_call *g) {
  GIVE(g, 0,
       dp_depth_to_space(g->scope, above(g, 0), int_attr(g, "block_size"),
                         .data_format = string_attr(g, "data_format")));
}

static void depth_to_space(gradient_call *g) {
  GIVE(g, 0,
       dp_space_to_depth(g->scope, above(g, 0), int_attr(g, "block_size"),
                         .data_format = string_attr(g, "data_format")));
}

static void fill(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output all = dp_range(s, integer(s, 0), dp_rank(s, above(g, 0)), integer(s, 1));
  GIVE(g, 1, dp_sum(s, above(g, 0), all));
}

static void roll(gradient_call *g) {
  GIVE(g, 0, dp_roll(g->scope, above(g, 0), dp_neg(g->scope, input(g, 1)), input(g, 2)));
}

const gradient_row dp_gradient_array[] = {
    {"BatchToSpace", batch_to_space_v1},
    {"BatchToSpaceND", batch_to_space},
    {"BroadcastTo", broadcast_to},
    {"Concat", concat},
    {"ConcatV2", concat_v2},
    {"ConjugateTranspose", conjugate_transpose},
    {"DepthToSpace", depth_to_space},
    {"Diag", diag},
    {"DiagPart", diag_part},
    {"DynamicPartition", dynamic_partition},
    {"DynamicStitch", dynamic_stitch},
    {"ExpandDims", reshaped},
    {"Fill", fill},
    {"Gather", gather},
    {"GatherNd", gather_nd},
    {"GatherV2", gather_v2},
    {"MatrixBandPart", matrix_band_part},
    {"MatrixDiag", matrix_diag},
    {"MatrixDiagPart", matrix_diag_part},
    {"MatrixDiagPartV2", matrix_diag_part_v3},
    {"MatrixDiagPartV3", matrix_diag_part_v3},
    {"MatrixDiagV2", matrix_diag_v3},
    {"MatrixDiagV3", matrix_diag_v3},
    {"MatrixSetDiag", matrix_set_diag},
    {"MatrixSetDiagV2", matrix_set_diag_v3},
    {"MatrixSetDiagV3", matrix_set_diag_v3},
    {"MirrorPad", mirror_pad},
    {"MirrorPadGrad", mirror_pad_again},
    {"Pack", pack},
    {"Pad", pad},
    {"PadV2", pad},
    {"ParallelDynamicStitch", dynamic_stitch},
    {"Reshape", reshaped},
    {"ResourceGather", resource_gather},
    {"ResourceGatherNd", resource_gather_nd},
    {"Reverse", reverse},
    {"ReverseSequence", reverse_sequence},
    {"ReverseV2", reverse_v2},
    {"Roll", roll},
    {"ScatterNd", scatter_nd},
    {"ScatterNdNonAliasingAdd", tensor_scatter_add},
    {"Slice", slice},
    {"SpaceToBatch", space_to_batch_v1},
    {"SpaceToBatchND", space_to_batch},
    {"SpaceToDepth", space_to_depth},
    {"Split", split},
    {"SplitV", split_v},
    {"Squeeze", reshaped},
    {"StridedSlice", strided_slice},
    {"StridedSliceGrad", strided_slice_again},
    {"TensorScatterAdd", tensor_scatter_add},
    {"TensorScatterMax", tensor_scatter_extreme},
    {"TensorScatterMin", tensor_scatter_extreme},
    {"TensorScatterSub", tensor_scatter_sub},
    {"TensorScatterUpdate", tensor_scatter_update},
    {"TensorStridedSliceUpdate", strided_slice_update},
    {"Tile", tile},
    {"TopK", top_k},
    {"TopKV2", top_k},
    {"Transpose", transpose},
    {"Unpack", unpack},
    {NULL, NULL},
};
