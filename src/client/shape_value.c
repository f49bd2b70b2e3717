/* Values of small integer tensors that are known before a step: constants, sizes taken from shapes,
 * and what is computed from both by slicing, packing and simple arithmetic. Shape rules ask for
 * them, for example for the target of a Reshape. Items are known one by one: the shape of a tensor
 * with one unknown size has one unknown item. With the graph's lock held. */
#include "client/shape_internal.h"

#include <string.h>

/* Nodes that are visited at most for one value. Without a limit a node that is read on many paths
 * would be visited once per path. */
enum { MOST_STEPS = 200 };

typedef struct value_walk {
  int steps;
} value_walk;

static bool value_at(TF_Output output, value_walk *walk, known_value *value);

static bool value_of_input(const dp_node *node, TF_Graph *graph, int index, value_walk *walk,
                           known_value *value) {
  const dp_input *edge = &node->inputs[index];
  return value_at((TF_Output){graph->operations[edge->node], edge->output}, walk, value);
}

static void add(known_value *value, int64_t item, bool is_known) {
  value->items[value->count] = item;
  value->is_known[value->count++] = is_known;
}

static bool of_constant(const dp_node *node, known_value *value) {
  const dp_attr *attr = dp_node_attr(node, "value");
  const dp_tensor *tensor = attr && attr->kind == DP_ATTR_TENSOR ? attr->tensor : NULL;
  if (!tensor || (tensor->dtype != DP_INT32 && tensor->dtype != DP_INT64) ||
      tensor->shape.rank > 1 || dp_tensor_elements(tensor) > MOST_VALUES)
    return false;
  value->rank = tensor->shape.rank;
  for (int64_t i = 0; i < dp_tensor_elements(tensor); i++)
    add(value,
        tensor->dtype == DP_INT32 ? ((const int32_t *)tensor->data)[i]
                                  : ((const int64_t *)tensor->data)[i],
        true);
  return true;
}

static bool of_shape(dp_partial_shape shape, known_value *value) {
  if (shape.rank < 0)
    return false;
  value->rank = 1;
  for (int i = 0; i < shape.rank; i++)
    add(value, shape.dims[i], shape.dims[i] >= 0);
  return true;
}

static bool of_number(int64_t number, known_value *value) {
  value->rank = 0;
  add(value, number, number >= 0);
  return true;
}

/* Pack of scalars and ConcatV2 of vectors: the items of the first `count` inputs, each of which has
 * this rank. */
static bool of_parts(const dp_node *node, TF_Graph *graph, int count, int rank, value_walk *walk,
                     known_value *value) {
  value->rank = 1;
  for (int i = 0; i < count; i++) {
    known_value part;
    if (!value_of_input(node, graph, i, walk, &part) || part.rank != rank ||
        value->count + part.count > MOST_VALUES)
      return false;
    for (int k = 0; k < part.count; k++)
      add(value, part.items[k], part.is_known[k]);
  }
  return true;
}

static bool number_of_input(const dp_node *node, TF_Graph *graph, int index, value_walk *walk,
                            int64_t *number) {
  known_value value;
  if (!value_of_input(node, graph, index, walk, &value) || value.count != 1 || !value.is_known[0])
    return false;
  *number = value.items[0];
  return true;
}

static int64_t clip(int64_t at, int64_t low, int64_t high) {
  return at < low ? low : at > high ? high : at;
}

/* x[begin:end:stride] or x[begin], of a vector. */
static bool of_slice(const dp_node *node, TF_Graph *graph, value_walk *walk, known_value *value) {
  known_value from;
  int64_t begin, end, stride, masks[5];
  static const char *const names[] = {"begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask",
                                      "ellipsis_mask"};
  for (int i = 0; i < 5; i++) {
    const dp_attr *attr = dp_node_attr(node, names[i]);
    masks[i] = attr ? attr->integer : 0;
  }
  if (masks[3] || masks[4] || !value_of_input(node, graph, 0, walk, &from) || from.rank != 1 ||
      !number_of_input(node, graph, 1, walk, &begin) ||
      !number_of_input(node, graph, 2, walk, &end) ||
      !number_of_input(node, graph, 3, walk, &stride) || stride == 0)
    return false;
  bool is_back = stride < 0;
  begin = begin < 0 ? begin + from.count : begin;
  end = end < 0 ? end + from.count : end;
  if (masks[2]) {
    if (begin < 0 || begin >= from.count)
      return false;
    value->rank = 0;
    add(value, from.items[begin], from.is_known[begin]);
    return true;
  }
  int64_t low = is_back ? -1 : 0, high = is_back ? from.count - 1 : from.count;
  begin = masks[0] ? (is_back ? high : low) : clip(begin, low, high);
  end = masks[1] ? (is_back ? low : high) : clip(end, low, high);
  value->rank = 1;
  for (int64_t i = begin; is_back ? i > end : i < end; i += stride)
    add(value, from.items[i], from.is_known[i]);
  return true;
}

static bool of_range(const dp_node *node, TF_Graph *graph, value_walk *walk, known_value *value) {
  int64_t start, limit, delta;
  if (!number_of_input(node, graph, 0, walk, &start) ||
      !number_of_input(node, graph, 1, walk, &limit) ||
      !number_of_input(node, graph, 2, walk, &delta) || delta == 0)
    return false;
  value->rank = 1;
  for (int64_t i = start; delta > 0 ? i < limit : i > limit; i += delta) {
    if (value->count == MOST_VALUES)
      return false;
    add(value, i, true);
  }
  return true;
}

static bool is_arithmetic(const dp_node *node) {
  return dp_node_is(node, "Add") || dp_node_is(node, "AddV2") || dp_node_is(node, "Sub") ||
         dp_node_is(node, "Mul") || dp_node_is(node, "FloorDiv") || dp_node_is(node, "Maximum") ||
         dp_node_is(node, "Minimum");
}

static bool compute(const dp_node *node, int64_t a, int64_t b, int64_t *result) {
  if (dp_node_is(node, "Sub"))
    return !__builtin_sub_overflow(a, b, result);
  if (dp_node_is(node, "Mul"))
    return !__builtin_mul_overflow(a, b, result);
  if (dp_node_is(node, "Maximum") || dp_node_is(node, "Minimum")) {
    *result = (a > b) == dp_node_is(node, "Maximum") ? a : b;
    return true;
  }
  if (!dp_node_is(node, "FloorDiv"))
    return !__builtin_add_overflow(a, b, result);
  if (b == 0 || (b == -1 && a == INT64_MIN))
    return false;
  *result = a / b - (a % b != 0 && (a < 0) != (b < 0));
  return true;
}

static bool of_arithmetic(const dp_node *node, TF_Graph *graph, value_walk *walk,
                          known_value *value) {
  known_value a, b;
  if (!value_of_input(node, graph, 0, walk, &a) || !value_of_input(node, graph, 1, walk, &b) ||
      (a.count != b.count && a.count != 1 && b.count != 1))
    return false;
  int count = a.count == 1 ? b.count : a.count;
  value->rank = a.rank > b.rank ? a.rank : b.rank;
  for (int i = 0; i < count; i++) {
    int p = a.count == 1 ? 0 : i, q = b.count == 1 ? 0 : i;
    int64_t result = -1;
    bool is_known =
        a.is_known[p] && b.is_known[q] && compute(node, a.items[p], b.items[q], &result);
    add(value, result, is_known);
  }
  return true;
}

/* Whether a Cast, an Identity or the like keeps integers as they are. */
static bool keeps_integers(const dp_node *node) {
  if (dp_node_is(node, "Identity") || dp_node_is(node, "StopGradient"))
    return true;
  const dp_attr *to = dp_node_is(node, "Cast") ? dp_node_attr(node, "DstT") : NULL;
  return to && (to->type == DP_INT32 || to->type == DP_INT64);
}

static bool value_at(TF_Output output, value_walk *walk, known_value *value) {
  const dp_node *node = output.oper->node;
  TF_Graph *graph = output.oper->graph;
  memset(value, 0, sizeof(*value));
  if (++walk->steps > MOST_STEPS)
    return false;
  if (dp_node_is(node, "Const"))
    return of_constant(node, value);
  if (keeps_integers(node))
    return value_of_input(node, graph, 0, walk, value);
  const dp_input *edge = node->input_count ? &node->inputs[0] : NULL;
  TF_Output first = edge ? (TF_Output){graph->operations[edge->node], edge->output} : output;
  if (dp_node_is(node, "Shape"))
    return of_shape(dp_client_shape(first), value);
  if (dp_node_is(node, "Rank"))
    return of_number(dp_client_shape(first).rank, value);
  if (dp_node_is(node, "Size")) {
    dp_partial_shape shape = dp_client_shape(first);
    return of_number(shape_elements(&shape), value);
  }
  if (dp_node_is(node, "Pack"))
    return of_parts(node, graph, node->input_count, 0, walk, value);
  if (dp_node_is(node, "ConcatV2"))
    return of_parts(node, graph, node->input_count - 1, 1, walk, value);
  if (dp_node_is(node, "StridedSlice"))
    return of_slice(node, graph, walk, value);
  if (dp_node_is(node, "Range"))
    return of_range(node, graph, walk, value);
  return is_arithmetic(node) && of_arithmetic(node, graph, walk, value);
}

/* ---- What rules ask ---- */

bool input_value(const shape_call *call, int index, known_value *value_out) {
  return value_at(shape_source(call, index), &(value_walk){0}, value_out);
}

bool constant_input(const shape_call *call, int index, known_value *value_out) {
  if (!input_value(call, index, value_out))
    return false;
  for (int i = 0; i < value_out->count; i++)
    if (!value_out->is_known[i])
      return false;
  return true;
}

bool input_number(const shape_call *call, int index, int64_t *number_out) {
  known_value value;
  if (!constant_input(call, index, &value) || value.count != 1)
    return false;
  *number_out = value.items[0];
  return true;
}

dp_status *input_as_shape(const shape_call *call, int index, dp_partial_shape *shape_out) {
  dp_partial_shape sizes = input_shape(call, index);
  known_value value;
  *shape_out = dp_partial_shape_unknown();
  if (sizes.rank > 1)
    return DP_INVALID("Shape must be rank 1 but is rank %d", sizes.rank);
  if (!input_value(call, index, &value)) {
    if (sizes.rank == 0)
      return DP_INVALID("Shape must be rank 1 but is rank 0");
    if (sizes.rank == 1 && sizes.dims[0] >= 0 && sizes.dims[0] <= DP_MAX_RANK)
      *shape_out = shape_of_rank((int)sizes.dims[0]);
    return NULL;
  }
  /* A scalar -1 is an unknown shape. */
  if (value.rank == 0 && value.is_known[0] && value.items[0] != -1)
    return DP_INVALID("Shape must be rank 1 but is rank 0");
  if (value.rank == 0 || value.count > DP_MAX_RANK)
    return NULL;
  dp_partial_shape shape = shape_of_rank(value.count);
  for (int i = 0; i < value.count; i++) {
    if (value.is_known[i] && value.items[i] < -1)
      return DP_INVALID("Dimension %lld must be >= 0", (long long)value.items[i]);
    shape.dims[i] = value.is_known[i] ? value.items[i] : -1;
  }
  *shape_out = shape;
  return NULL;
}
