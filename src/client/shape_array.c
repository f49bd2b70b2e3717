/* Shape rules of ops that make, reshape, join, split and select tensors, and of diagonals. What a
 * rule is: shape_internal.h. */
#include "client/shape_internal.h"

/* ---- New tensors ---- */

static dp_status *of_tensor(shape_call *call) {
  const dp_shape *shape = &dp_node_attr(call->node, "value")->tensor->shape;
  call->outputs[0].rank = shape->rank;
  for (int i = 0; i < shape->rank; i++)
    call->outputs[0].dims[i] = shape->dims[i];
  return NULL;
}

static dp_status *of_attr(shape_call *call) {
  const dp_attr *attr = dp_node_attr(call->node, "shape");
  if (attr && attr->kind == DP_ATTR_SHAPE)
    call->outputs[0] = *attr->shape;
  return NULL;
}

/* The values of the first input are the shape of the output. */
static dp_status *of_input(shape_call *call) {
  return input_as_shape(call, 0, &call->outputs[0]);
}

static dp_status *of_second_input(shape_call *call) {
  return input_as_shape(call, 1, &call->outputs[0]);
}

static dp_status *fill(shape_call *call) {
  dp_partial_shape value;
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 0, &value));
  return of_input(call);
}

static dp_status *broadcast_to(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), to, both;
  DP_RETURN_IF_ERROR(input_as_shape(call, 1, &to));
  call->outputs[0] = to;
  if (from.rank < 0 || to.rank < 0)
    return NULL;
  if (from.rank > to.rank)
    return DP_INVALID("Shape must be at most rank %d but is rank %d", to.rank, from.rank);
  return broadcast_shapes(&from, &to, &both);
}

/* The number of steps from start to limit. */
static dp_status *range(shape_call *call) {
  dp_partial_shape any;
  known_value values[3];
  call->outputs[0] = vector_shape(-1);
  for (int i = 0; i < 3; i++)
    DP_RETURN_IF_ERROR(input_of_rank(call, i, 0, &any));
  for (int i = 0; i < 3; i++)
    if (!constant_input(call, i, &values[i]))
      return NULL;
  int64_t start = values[0].items[0], limit = values[1].items[0], delta = values[2].items[0];
  if (delta == 0)
    return DP_INVALID("Requires delta != 0");
  if (delta > 0 ? start > limit : start < limit)
    return DP_INVALID("Requires start %s limit when delta %s 0: %lld/%lld",
                      delta > 0 ? "<=" : ">=", delta > 0 ? ">" : "<", (long long)start,
                      (long long)limit);
  int64_t span = delta > 0 ? limit - start : start - limit, step = delta > 0 ? delta : -delta;
  call->outputs[0] = vector_shape((span + step - 1) / step);
  return NULL;
}

static dp_status *one_hot(shape_call *call) {
  dp_partial_shape indices = input_shape(call, 0), any;
  int64_t axis = shape_integer(call, "axis", -1), depth = -1;
  for (int i = 1; i < 4; i++)
    DP_RETURN_IF_ERROR(input_of_rank(call, i, 0, &any));
  if (axis < -1)
    return DP_INVALID("axis must be >= -1");
  if (input_number(call, 1, &depth) && depth < 0)
    return DP_INVALID("Dimension size, given by scalar input 1, must be non-negative but is %lld",
                      (long long)depth);
  if (indices.rank < 0)
    return NULL;
  int at = axis == -1 ? indices.rank : (int)axis;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&indices, at));
  dp_partial_shape before = part_of_shape(&indices, 0, at), middle = vector_shape(depth);
  dp_partial_shape behind = part_of_shape(&indices, at, indices.rank);
  DP_RETURN_IF_ERROR(join_shapes(&before, &middle, &middle));
  return join_shapes(&middle, &behind, &call->outputs[0]);
}

/* ---- About shapes ---- */

static dp_status *shape_vectors(shape_call *call) {
  for (int i = 0; i < call->node->output_count; i++)
    call->outputs[i] = vector_shape(input_shape(call, i).rank);
  return NULL;
}

/* The indices of elements that are not zero: one row per element. */
static dp_status *where(shape_call *call) {
  call->outputs[0] = matrix_shape(-1, input_shape(call, 0).rank);
  return NULL;
}

/* ---- Another shape ---- */

static dp_status *fill_open_size(dp_partial_shape *to, int open, int64_t total, int64_t rest) {
  if (rest == 0 || total % rest)
    return DP_INVALID("Dimension size must be evenly divisible by %lld but is %lld",
                      (long long)rest, (long long)total);
  to->dims[open] = total / rest;
  return NULL;
}

/* The product of the known sizes of a shape, and how many are unknown. */
typedef struct size_count {
  int64_t product;
  int missing, last_missing;
} size_count;

static size_count count_sizes(const dp_partial_shape *shape) {
  size_count count = {.product = 1};
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dims[i] < 0)
      count.missing++, count.last_missing = i;
    else
      count.product = product_or_unknown(count.product, shape->dims[i]);
  }
  return count;
}

static dp_status *reshape(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), to;
  DP_RETURN_IF_ERROR(input_as_shape(call, 1, &to));
  call->outputs[0] = to;
  if (from.rank < 0 || to.rank < 0)
    return NULL;
  size_count had = count_sizes(&from), wanted = count_sizes(&to);
  bool is_wrong = !had.missing && (wanted.missing ? wanted.product == 0 && had.product != 0
                                                  : wanted.product != had.product);
  if (is_wrong)
    return DP_INVALID("Cannot reshape a tensor with %lld elements to shape %s (%lld elements)",
                      (long long)had.product, dp_partial_shape_text(&to),
                      (long long)wanted.product);
  if (had.missing == 0 && wanted.missing == 1 && wanted.product > 0)
    return fill_open_size(&call->outputs[0], wanted.last_missing, had.product, wanted.product);
  if (had.missing == 1 && wanted.missing == 0 && had.product > 0)
    return fill_open_size(&from, had.last_missing, wanted.product, had.product);
  return NULL;
}

static dp_status *expand_dims(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), result;
  int64_t axis;
  if (from.rank < 0)
    return NULL;
  if (!input_number(call, 1, &axis)) {
    call->outputs[0] = shape_of_rank(from.rank + 1);
    return NULL;
  }
  if (axis < -1 - from.rank || axis > from.rank)
    return DP_INVALID("dim %lld not in the interval [%d, %d].", (long long)axis, -1 - from.rank,
                      from.rank);
  int at = (int)(axis < 0 ? axis + from.rank + 1 : axis);
  dp_partial_shape before = part_of_shape(&from, 0, at), one = vector_shape(1);
  dp_partial_shape behind = part_of_shape(&from, at, from.rank);
  DP_RETURN_IF_ERROR(join_shapes(&before, &one, &result));
  return join_shapes(&result, &behind, &call->outputs[0]);
}

/* Which dimensions `squeeze_dims` names. */
static dp_status *squeezed_axes(shape_call *call, int rank, bool *is_named) {
  const dp_attr *dims = dp_node_attr(call->node, "squeeze_dims");
  for (size_t i = 0; dims && i < dims->count; i++) {
    int64_t axis = dims->integers[i];
    if (axis < -rank || axis >= rank)
      return DP_INVALID("squeeze_dims[%d] not in [%d,%d).", (int)i, -rank, rank);
    is_named[axis < 0 ? axis + rank : axis] = true;
  }
  return NULL;
}

static dp_status *squeeze(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), result = shape_of_rank(0);
  const dp_attr *dims = dp_node_attr(call->node, "squeeze_dims");
  bool is_named[DP_MAX_RANK] = {false}, has_names = dims && dims->count;
  if (from.rank < 0)
    return NULL;
  DP_RETURN_IF_ERROR(squeezed_axes(call, from.rank, is_named));
  for (int i = 0; i < from.rank; i++) {
    if (!has_names && from.dims[i] < 0)
      return NULL; /* it may be 1 */
    if (is_named[i] && from.dims[i] >= 0 && from.dims[i] != 1)
      return DP_INVALID("Can not squeeze dim[%d], expected a dimension of 1, got %lld", i,
                        (long long)from.dims[i]);
    if (has_names ? !is_named[i] : from.dims[i] != 1)
      result.dims[result.rank++] = from.dims[i];
  }
  call->outputs[0] = result;
  return NULL;
}

static dp_status *transpose(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), order_shape = input_shape(call, 1);
  known_value order;
  bool is_constant = constant_input(call, 1, &order);
  DP_RETURN_IF_ERROR(expect_rank(&order_shape, 1));
  int64_t rank = order_shape.dims[0];
  if (from.rank >= 0 && rank >= 0 && rank != from.rank)
    return DP_INVALID("Dimension must be %d but is %lld", from.rank, (long long)rank);
  if (from.rank < 0 && rank < 0)
    return NULL;
  call->outputs[0] = shape_of_rank(from.rank >= 0 ? from.rank : (int)rank);
  if (!is_constant)
    return NULL;
  for (int i = 0; i < order.count && i < DP_MAX_RANK; i++) {
    int64_t axis = order.items[i];
    if (axis < -order.count || axis >= order.count)
      return DP_INVALID("perm dim %lld is out of range of input rank %d", (long long)axis,
                        order.count);
    if (from.rank >= 0)
      call->outputs[0].dims[i] = from.dims[axis < 0 ? axis + order.count : axis];
  }
  return NULL;
}

static dp_status *tile(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), copies;
  DP_RETURN_IF_ERROR(input_as_shape(call, 1, &copies));
  if (from.rank < 0 && copies.rank < 0)
    return NULL;
  if (from.rank >= 0 && copies.rank >= 0 && from.rank != copies.rank)
    return DP_INVALID("Shape must be rank %d but is rank %d", from.rank, copies.rank);
  from = from.rank < 0 ? shape_of_rank(copies.rank) : from;
  copies = copies.rank < 0 ? shape_of_rank(from.rank) : copies;
  for (int i = 0; i < from.rank; i++)
    from.dims[i] = product_or_unknown(from.dims[i], copies.dims[i]);
  call->outputs[0] = from;
  return NULL;
}

/* ---- Joining and splitting ---- */

/* One more part at the end of `whole`, along the axis. */
static dp_status *join_part(dp_partial_shape *whole, const dp_partial_shape *part, int axis) {
  int64_t size =
      whole->dims[axis] < 0 || part->dims[axis] < 0 ? -1 : whole->dims[axis] + part->dims[axis];
  dp_partial_shape head = part_of_shape(whole, 0, axis), more = part_of_shape(part, 0, axis);
  DP_RETURN_IF_ERROR(merge_shapes(&head, &more, &head));
  dp_partial_shape tail = part_of_shape(whole, axis + 1, whole->rank);
  more = part_of_shape(part, axis + 1, part->rank);
  DP_RETURN_IF_ERROR(merge_shapes(&tail, &more, &tail));
  dp_partial_shape middle = vector_shape(size);
  DP_RETURN_IF_ERROR(join_shapes(&head, &middle, whole));
  return join_shapes(whole, &tail, whole);
}

/* Joins `count` inputs from `first` on, along the axis that input `axis_input` holds. */
static dp_status *join(shape_call *call, int first, int count, int axis_input) {
  dp_partial_shape axis_shape, whole = dp_partial_shape_unknown();
  int64_t axis;
  int at;
  DP_RETURN_IF_ERROR(input_of_rank(call, axis_input, 0, &axis_shape));
  for (int i = 0; i < count && whole.rank < 0; i++)
    whole = input_shape(call, first + i);
  if (whole.rank < 0)
    return NULL;
  int rank = whole.rank;
  call->outputs[0] = shape_of_rank(rank);
  for (int i = 0; i < count; i++) {
    dp_partial_shape part = input_shape(call, first + i);
    DP_RETURN_IF_ERROR(expect_rank(&part, rank));
  }
  if (!input_number(call, axis_input, &axis))
    return NULL;
  DP_RETURN_IF_ERROR(expect_axis(axis, rank, &at));
  DP_RETURN_IF_ERROR(input_of_rank(call, first, rank, &whole));
  for (int i = 1; i < count; i++) {
    dp_partial_shape part;
    DP_RETURN_IF_ERROR(input_of_rank(call, first + i, rank, &part));
    DP_RETURN_IF_ERROR(join_part(&whole, &part, at));
  }
  call->outputs[0] = whole;
  return NULL;
}

static dp_status *concat(shape_call *call) {
  return join(call, 1, call->node->input_count - 1, 0);
}

static dp_status *concat_v2(shape_call *call) {
  return join(call, 0, call->node->input_count - 1, call->node->input_count - 1);
}

static dp_status *concat_offset(shape_call *call) {
  for (int i = 0; i < call->node->output_count; i++)
    call->outputs[i] = input_shape(call, i + 1);
  return NULL;
}

static dp_status *pack(shape_call *call) {
  int count = call->node->input_count;
  dp_partial_shape part, result;
  DP_RETURN_IF_ERROR(merge_inputs(call, &part));
  if (part.rank < 0)
    return NULL;
  int64_t axis = shape_integer(call, "axis", 0);
  if (axis < -part.rank - 1 || axis > part.rank)
    return DP_INVALID("Invalid axis: %lld; must be in [%d,%d)", (long long)axis, -part.rank - 1,
                      part.rank + 1);
  int at = (int)(axis < 0 ? axis + part.rank + 1 : axis);
  dp_partial_shape before = part_of_shape(&part, 0, at), middle = vector_shape(count);
  dp_partial_shape behind = part_of_shape(&part, at, part.rank);
  DP_RETURN_IF_ERROR(join_shapes(&before, &middle, &result));
  return join_shapes(&result, &behind, &call->outputs[0]);
}

static void give_all(shape_call *call, const dp_partial_shape *shape) {
  for (int i = 0; i < call->node->output_count; i++)
    call->outputs[i] = *shape;
}

static dp_status *unpack(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0);
  int64_t axis = shape_integer(call, "axis", 0);
  if (from.rank < 0)
    return NULL;
  if (axis < -from.rank || axis >= from.rank)
    return DP_INVALID("Invalid axis: %lld; must be in [%d,%d)", (long long)axis, -from.rank,
                      from.rank);
  int at = (int)(axis < 0 ? axis + from.rank : axis), count = call->node->output_count;
  if (from.dims[at] >= 0 && from.dims[at] != count)
    return DP_INVALID("Dimension must be %d but is %lld", count, (long long)from.dims[at]);
  dp_partial_shape head = part_of_shape(&from, 0, at);
  dp_partial_shape tail = part_of_shape(&from, at + 1, from.rank);
  DP_RETURN_IF_ERROR(join_shapes(&head, &tail, &head));
  give_all(call, &head);
  return NULL;
}

static dp_status *split_axis(int64_t axis, int rank, int *axis_out) {
  if (axis < -rank || axis >= rank)
    return DP_INVALID("Dimension size, given by scalar input %lld must be in range [-%d, %d)",
                      (long long)axis, rank, rank);
  return expect_axis(axis, rank, axis_out);
}

/* split(axis, value) into equal parts */
static dp_status *split(shape_call *call) {
  dp_partial_shape from = input_shape(call, 1), axis_shape;
  int64_t axis;
  int count = call->node->output_count, at;
  DP_RETURN_IF_ERROR(input_of_rank(call, 0, 0, &axis_shape));
  if (!input_number(call, 0, &axis)) {
    dp_partial_shape open = from.rank < 0 ? from : shape_of_rank(from.rank);
    give_all(call, &open);
    return NULL;
  }
  if (from.rank < 0)
    return NULL;
  DP_RETURN_IF_ERROR(split_axis(axis, from.rank, &at));
  if (from.dims[at] >= 0 && from.dims[at] % count)
    return DP_INVALID("Dimension size must be evenly divisible by %d but is %lld\n\tNumber of ways "
                      "to split should evenly divide the split dimension",
                      count, (long long)from.dims[at]);
  from.dims[at] = from.dims[at] < 0 ? -1 : from.dims[at] / count;
  give_all(call, &from);
  return NULL;
}

/* One size may be -1, which stands for the rest of `whole`. */
static dp_status *open_split(known_value *sizes, int64_t whole) {
  int64_t total = 0;
  int open = -1;
  for (int i = 0; i < sizes->count; i++) {
    if (sizes->items[i] == -1 && open >= 0)
      return DP_INVALID("size_splits can only have one -1");
    if (sizes->items[i] == -1)
      open = i;
    else
      total += sizes->items[i];
  }
  if (whole < 0)
    return NULL;
  if (open < 0 && total != whole)
    return DP_INVALID("can't split axis of size %lld into pieces of size %s", (long long)whole,
                      "that do not add up to it");
  if (open >= 0)
    sizes->items[open] = whole - total;
  return NULL;
}

/* split(value, sizes, axis) */
static dp_status *split_v(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0);
  known_value sizes;
  int64_t axis;
  int at;
  bool has_sizes = constant_input(call, 1, &sizes);
  if (from.rank < 0)
    return NULL;
  if (!input_number(call, 2, &axis)) {
    dp_partial_shape open = shape_of_rank(from.rank);
    give_all(call, &open);
    return NULL;
  }
  DP_RETURN_IF_ERROR(split_axis(axis, from.rank, &at));
  if (has_sizes && sizes.count != call->node->output_count)
    return DP_INVALID("Length of size_splits should be equal to num_outputs");
  if (has_sizes)
    DP_RETURN_IF_ERROR(open_split(&sizes, from.dims[at]));
  for (int i = 0; i < call->node->output_count; i++) {
    call->outputs[i] = from;
    call->outputs[i].dims[at] = has_sizes ? sizes.items[i] : -1;
  }
  return NULL;
}

/* ---- Choosing ---- */

static dp_status *select_v2(shape_call *call) {
  dp_partial_shape condition = input_shape(call, 0), a = input_shape(call, 1), values;
  dp_partial_shape b = input_shape(call, 2);
  DP_RETURN_IF_ERROR(broadcast_shapes(&a, &b, &values));
  return broadcast_shapes(&condition, &values, &call->outputs[0]);
}

/* The condition is a scalar, a vector with one element per row, or has the shape of the values. */
static dp_status *select_v1(shape_call *call) {
  dp_partial_shape condition = input_shape(call, 0), a = input_shape(call, 1), merged;
  dp_partial_shape b = input_shape(call, 2);
  DP_RETURN_IF_ERROR(merge_shapes(&a, &b, &merged));
  call->outputs[0] = merged;
  if (condition.rank <= 0 || merged.rank < 0)
    return NULL;
  if (condition.rank == 1 && merged.rank >= 1) {
    dp_partial_shape rows = vector_shape(merged.dims[0]), both;
    return merge_shapes(&condition, &rows, &both);
  }
  return merge_shapes(&merged, &condition, &call->outputs[0]);
}

/* ---- Diagonals ---- */

static dp_status *matrix_diag(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), last;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&from, 1));
  if (from.rank < 0)
    return NULL;
  last = vector_shape(from.dims[from.rank - 1]);
  return join_shapes(&from, &last, &call->outputs[0]);
}

static dp_status *matrix_diag_part(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&from, 2));
  if (from.rank < 0)
    return NULL;
  int64_t rows = from.dims[from.rank - 2], columns = from.dims[from.rank - 1];
  call->outputs[0] = part_of_shape(&from, 0, from.rank - 1);
  call->outputs[0].dims[from.rank - 2] = rows < 0 || columns < 0 ? -1
                                         : rows < columns        ? rows
                                                                 : columns;
  return NULL;
}

static dp_status *matrix_band_part(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&from, 2));
  call->outputs[0] = from;
  return NULL;
}

static dp_status *diag(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&from, 1));
  return join_shapes(&from, &from, &call->outputs[0]);
}

static dp_status *invert_permutation(shape_call *call) {
  return input_of_rank(call, 0, 1, &call->outputs[0]);
}

const shape_row dp_shape_rows_array[] = {
    {"BroadcastTo", broadcast_to},
    {"Concat", concat},
    {"ConcatOffset", concat_offset},
    {"ConcatV2", concat_v2},
    {"ConjugateTranspose", transpose},
    {"Const", of_tensor},
    {"Diag", diag},
    {"Empty", of_input},
    {"ExpandDims", expand_dims},
    {"Fill", fill},
    {"InvertPermutation", invert_permutation},
    {"MatrixBandPart", matrix_band_part},
    {"MatrixDiag", matrix_diag},
    {"MatrixDiagPart", matrix_diag_part},
    {"MatrixSetDiag", rule_same},
    {"OneHot", one_hot},
    {"Pack", pack},
    {"Placeholder", of_attr},
    {"PlaceholderWithDefault", of_attr},
    {"RandomStandardNormal", of_input},
    {"RandomUniform", of_input},
    {"RandomUniformInt", of_input},
    {"Range", range},
    {"Rank", rule_scalar},
    {"Reshape", reshape},
    {"Select", select_v1},
    {"SelectV2", select_v2},
    {"Shape", shape_vectors},
    {"ShapeN", shape_vectors},
    {"Size", rule_scalar},
    {"SparseToDense", of_second_input},
    {"Split", split},
    {"SplitV", split_v},
    {"Squeeze", squeeze},
    {"StatelessRandomNormal", of_input},
    {"StatelessRandomUniform", of_input},
    {"StatelessTruncatedNormal", of_input},
    {"Tile", tile},
    {"Transpose", transpose},
    {"TruncatedNormal", of_input},
    {"Unpack", unpack},
    {"Where", where},
    {NULL, NULL},
};
