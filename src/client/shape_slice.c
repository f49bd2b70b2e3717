/* Shape rules of ops that take parts of tensors (slice, gather), put parts into them (scatter), or
 * pad them. What a rule is: shape_internal.h. */
#include "client/shape_internal.h"

/* ---- Slices ---- */

static dp_status *slice_known(shape_call *call, const dp_partial_shape *from,
                              const known_value *begin, const known_value *size) {
  dp_partial_shape result = shape_of_rank(from->rank);
  for (int i = 0; i < from->rank; i++) {
    int64_t wanted = size->is_known[i] ? size->items[i] : -1, first = begin->items[i];
    bool is_rest = size->is_known[i] && wanted == -1;
    if (!is_rest)
      result.dims[i] = wanted;
    else if (begin->is_known[i] && from->dims[i] >= 0) {
      if (from->dims[i] < first)
        return DP_INVALID("Negative dimension size caused by subtracting %lld from %lld",
                          (long long)first, (long long)from->dims[i]);
      result.dims[i] = from->dims[i] - first;
    } else if (begin->is_known[i] && first == 0)
      result.dims[i] = from->dims[i];
  }
  call->outputs[0] = result;
  return NULL;
}

/* slice(x, begin, size); a size of -1 takes everything from `begin` on */
static dp_status *slice(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), begin_shape, size_shape, both;
  known_value begin, size;
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 1, &begin_shape));
  DP_RETURN_IF_ERROR(input_of_rank(call, 2, 1, &size_shape));
  DP_RETURN_IF_ERROR(merge_shapes(&begin_shape, &size_shape, &both));
  if (both.dims[0] >= 0 && both.dims[0] <= DP_MAX_RANK)
    DP_RETURN_IF_ERROR(expect_rank(&from, (int)both.dims[0]));
  if (from.rank < 0)
    return NULL;
  call->outputs[0] = shape_of_rank(from.rank);
  if (!input_value(call, 2, &size))
    return NULL;
  if (!input_value(call, 1, &begin)) {
    begin = (known_value){.rank = 1, .count = size.count};
  }
  return slice_known(call, &from, &begin, &size);
}

/* One dimension of a strided slice, after the masks were applied. */
typedef struct slice_spec {
  int64_t begin, end, stride;
  bool has_begin, has_end; /* given, and known */
  bool is_begin_masked, is_end_masked, is_shrunk, is_new;
} slice_spec;

typedef struct slice_call {
  slice_spec specs[2 * DP_MAX_RANK + MOST_VALUES];
  int count;
} slice_call;

static bool bit(int64_t mask, int index) {
  return index < 63 && (mask >> index & 1);
}

static slice_spec whole_dimension(void) {
  return (slice_spec){.stride = 1, .is_begin_masked = true, .is_end_masked = true};
}

/* The spec that item `i` of begin, end and strides gives. */
static slice_spec spec_at(shape_call *call, const known_value *values, const bool *is_there,
                          int i) {
  slice_spec spec = {.stride = values[2].items[i]};
  spec.has_begin = is_there[0] && values[0].is_known[i];
  spec.has_end = is_there[1] && values[1].is_known[i];
  spec.begin = values[0].items[i];
  spec.end = values[1].items[i];
  spec.is_begin_masked = bit(shape_integer(call, "begin_mask", 0), i);
  spec.is_end_masked = bit(shape_integer(call, "end_mask", 0), i);
  spec.is_shrunk = bit(shape_integer(call, "shrink_axis_mask", 0), i);
  return spec;
}

/* Makes one spec per dimension: "..." stands for as many whole dimensions as are missing. Without
 * it the missing dimensions are at the end. */
static dp_status *expand_specs(shape_call *call, const known_value *values, const bool *is_there,
                               int rank, slice_call *out) {
  int64_t dots = shape_integer(call, "ellipsis_mask", 0), fresh;
  fresh = shape_integer(call, "new_axis_mask", 0);
  int count = values[2].count, used = 0, at_dots = -1;
  for (int i = 0; i < count; i++) {
    if (bit(dots, i) && at_dots >= 0)
      return DP_INVALID("Multiple ellipses in slice spec not allowed");
    if (bit(dots, i))
      at_dots = i;
    else if (!bit(fresh, i))
      used++;
  }
  if (used > rank)
    return DP_INVALID("Index out of range using input dim %d; input has only %d dims", rank, rank);
  for (int i = 0; i <= count; i++) {
    if (i == (at_dots >= 0 ? at_dots : count))
      for (int k = 0; k < rank - used; k++)
        out->specs[out->count++] = whole_dimension();
    if (i < count && !bit(dots, i) && bit(fresh, i))
      out->specs[out->count++] = (slice_spec){.is_new = true};
    else if (i < count && !bit(dots, i))
      out->specs[out->count++] = spec_at(call, values, is_there, i);
  }
  return NULL;
}

static int64_t clip(int64_t at, int64_t size, bool is_back) {
  int64_t from_front = at < 0 ? at + size : at, low = is_back ? -1 : 0;
  int64_t high = is_back ? size - 1 : size;
  return from_front < low ? low : from_front > high ? high : from_front;
}

/* How many elements the slice takes of a dimension; -1: unknown. */
static int64_t taken(const slice_spec *spec, int64_t size) {
  bool is_back = spec->stride < 0;
  bool is_known = (spec->is_begin_masked || spec->has_begin) &&
                  (spec->is_end_masked || spec->has_end) && size >= 0;
  if (!is_known)
    return -1;
  int64_t begin =
      spec->is_begin_masked ? (is_back ? size - 1 : 0) : clip(spec->begin, size, is_back);
  int64_t end = spec->is_end_masked ? (is_back ? -1 : size) : clip(spec->end, size, is_back);
  int64_t span = end - begin;
  if (span == 0 || (span < 0) != is_back)
    return 0;
  return span / spec->stride + (span % spec->stride != 0);
}

static dp_status *check_index(const slice_spec *spec, int64_t size, int dimension) {
  if (spec->stride <= 0)
    return DP_INVALID("only stride 1 allowed on non-range indexing.");
  if (!spec->has_begin || size < 0 || spec->is_begin_masked)
    return NULL;
  int64_t at = spec->begin < 0 ? spec->begin + size : spec->begin;
  if (at < 0 || at >= size)
    return DP_INVALID("slice index %lld of dimension %d out of bounds.", (long long)spec->begin,
                      dimension);
  return NULL;
}

static dp_status *apply_specs(const slice_call *specs, const dp_partial_shape *from,
                              dp_partial_shape *shape_out) {
  dp_partial_shape result = shape_of_rank(0);
  int dimension = 0;
  for (int i = 0; i < specs->count; i++) {
    const slice_spec *spec = &specs->specs[i];
    if (result.rank == DP_MAX_RANK)
      return DP_INVALID("The slice has more than %d dimensions", DP_MAX_RANK);
    if (spec->is_new) {
      result.dims[result.rank++] = 1;
      continue;
    }
    int64_t size = from->dims[dimension];
    if (spec->stride == 0)
      return DP_INVALID("strides[%d] must be non-zero", dimension);
    if (spec->is_shrunk)
      DP_RETURN_IF_ERROR(check_index(spec, size, dimension));
    else
      result.dims[result.rank++] = taken(spec, size);
    dimension++;
  }
  *shape_out = result;
  return NULL;
}

/* strided(x, begin, end, strides). All strides must be known; begin and end may be unknown. */
static dp_status *strided_slice(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), any;
  known_value values[3] = {{0}};
  bool is_there[3];
  for (int i = 0; i < 3; i++) {
    DP_RETURN_IF_ERROR(input_of_rank(call, 1 + i, 1, &any));
    is_there[i] = input_value(call, 1 + i, &values[i]);
  }
  if (from.rank < 0 || !is_there[2] || !constant_input(call, 3, &values[2]))
    return NULL;
  if (from.rank == 0)
    return DP_INVALID("Attempting to slice scalar input.");
  for (int i = 0; i < 2; i++)
    if (is_there[i] && values[i].count != values[2].count)
      return DP_INVALID("Dimensions must be equal, but are %d and %d", values[i].count,
                        values[2].count);
  slice_call specs = {.count = 0};
  DP_RETURN_IF_ERROR(expand_specs(call, values, is_there, from.rank, &specs));
  return apply_specs(&specs, &from, &call->outputs[0]);
}

static dp_status *of_first_input(shape_call *call) {
  return input_as_shape(call, 0, &call->outputs[0]);
}

/* ---- Gathering ---- */

static dp_status *gather(shape_call *call) {
  dp_partial_shape params = input_shape(call, 0), indices = input_shape(call, 1), tail;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&params, 1));
  if (params.rank < 0)
    return NULL;
  tail = part_of_shape(&params, 1, params.rank);
  return join_shapes(&indices, &tail, &call->outputs[0]);
}

/* gather(params, indices, axis); the batch dimensions are those of params */
static dp_status *gather_v2(shape_call *call) {
  dp_partial_shape params = input_shape(call, 0), indices = input_shape(call, 1), axis_shape, head;
  int64_t axis, batch = shape_integer(call, "batch_dims", 0);
  int at = 0;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&params, 1));
  DP_RETURN_IF_ERROR(input_of_rank(call, 2, 0, &axis_shape));
  bool has_axis = input_number(call, 2, &axis);
  if (params.rank >= 0 && has_axis)
    DP_RETURN_IF_ERROR(expect_axis(axis, params.rank, &at));
  if (params.rank < 0 || indices.rank < 0)
    return NULL;
  if (batch < -indices.rank || batch > indices.rank)
    return DP_INVALID("batch_dims must be in [%d, %d], but is %lld", -indices.rank, indices.rank,
                      (long long)batch);
  batch += batch < 0 ? indices.rank : 0;
  if (!has_axis) {
    call->outputs[0] = shape_of_rank((int)(params.rank + indices.rank - 1 - batch));
    return NULL;
  }
  if (batch > at)
    return DP_INVALID("batch_dims (%lld) must be less than or equal to axis (%d)", (long long)batch,
                      at);
  head = part_of_shape(&params, 0, at);
  dp_partial_shape middle = part_of_shape(&indices, (int)batch, indices.rank);
  dp_partial_shape tail = part_of_shape(&params, at + 1, params.rank);
  DP_RETURN_IF_ERROR(join_shapes(&head, &middle, &head));
  return join_shapes(&head, &tail, &call->outputs[0]);
}

static dp_status *gather_nd(shape_call *call) {
  dp_partial_shape params = input_shape(call, 0), indices = input_shape(call, 1);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&indices, 1));
  if (indices.rank < 0 || params.rank < 0)
    return NULL;
  int64_t depth = indices.dims[indices.rank - 1];
  if (depth < 0)
    return NULL;
  if (depth > params.rank)
    return DP_INVALID("indices.shape[-1] must be <= params.rank, but saw indices shape: %s and "
                      "params shape: %s",
                      dp_partial_shape_text(&indices), dp_partial_shape_text(&params));
  dp_partial_shape head = part_of_shape(&indices, 0, indices.rank - 1);
  dp_partial_shape tail = part_of_shape(&params, (int)depth, params.rank);
  return join_shapes(&head, &tail, &call->outputs[0]);
}

static dp_status *scatter_nd(shape_call *call) {
  return input_as_shape(call, 2, &call->outputs[0]);
}

/* top_k(x, k), or with k as an attribute. Outputs: values and indices. */
static dp_status *top_k(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0);
  int64_t k = shape_integer(call, "k", -1);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&from, 1));
  if (call->node->input_count > 1 && !input_number(call, 1, &k))
    k = -1;
  if (from.rank < 0)
    return NULL;
  int64_t width = from.dims[from.rank - 1];
  if (width >= 0 && k > width)
    return DP_INVALID("input must have last dimension >= k = %lld but is %lld", (long long)k,
                      (long long)width);
  from.dims[from.rank - 1] = k;
  call->outputs[0] = call->outputs[1] = from;
  return NULL;
}

/* ---- Padding ---- */

/* The paddings, if they are a constant matrix with a row of two per dimension; else NULL. */
static const dp_tensor *constant_matrix(shape_call *call, int index) {
  const dp_node *node = shape_source(call, index).oper->node;
  const dp_attr *attr = dp_node_is(node, "Const") ? dp_node_attr(node, "value") : NULL;
  bool is_matrix = attr && attr->kind == DP_ATTR_TENSOR && attr->tensor->shape.rank == 2 &&
                   (attr->tensor->dtype == DP_INT32 || attr->tensor->dtype == DP_INT64);
  return is_matrix ? attr->tensor : NULL;
}

static int64_t integer_at(const dp_tensor *tensor, int64_t index) {
  return tensor->dtype == DP_INT32 ? ((const int32_t *)tensor->data)[index]
                                   : ((const int64_t *)tensor->data)[index];
}

static dp_status *pad(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), paddings;
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 2, &paddings));
  if (paddings.dims[1] >= 0 && paddings.dims[1] != 2)
    return DP_INVALID("Dimension must be 2 but is %lld", (long long)paddings.dims[1]);
  if (paddings.dims[0] >= 0 && paddings.dims[0] <= DP_MAX_RANK) {
    int rank = (int)paddings.dims[0];
    if (from.rank >= 0 && from.rank != rank)
      return DP_INVALID("Shape must be rank %d but is rank %d", rank, from.rank);
    from = from.rank < 0 ? shape_of_rank(rank) : from;
  }
  if (from.rank < 0)
    return NULL;
  const dp_tensor *sizes = constant_matrix(call, 1);
  call->outputs[0] = shape_of_rank(from.rank);
  for (int i = 0; sizes && i < from.rank; i++) {
    int64_t before = integer_at(sizes, 2 * i), behind = integer_at(sizes, 2 * i + 1);
    if (before < 0 || behind < 0)
      return DP_INVALID("Paddings must be non-negative");
    call->outputs[0].dims[i] = from.dims[i] < 0 ? -1 : from.dims[i] + before + behind;
  }
  return NULL;
}

static dp_status *reverse_v2(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), axes;
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 1, &axes));
  call->outputs[0] = from;
  return NULL;
}

static dp_status *reverse_sequence(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), lengths;
  int64_t batch = shape_integer(call, "batch_dim", 0), along = shape_integer(call, "seq_dim", 0);
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 1, &lengths));
  call->outputs[0] = from;
  if (from.rank < 0)
    return NULL;
  if (batch >= from.rank)
    return DP_INVALID("batch_dim must be < input rank: %lld vs. %d", (long long)batch, from.rank);
  if (along >= from.rank)
    return DP_INVALID("seq_dim must be < input rank: %lld vs. %d", (long long)along, from.rank);
  return merge_dims(from.dims[batch], lengths.dims[0], &call->outputs[0].dims[batch]);
}

static dp_status *depth_and_space(shape_call *call, bool is_to_depth) {
  dp_partial_shape from;
  int64_t block = shape_integer(call, "block_size", 1);
  const char *format = shape_text(call, "data_format");
  DP_RETURN_IF_ERROR(input_of_rank(call, 0, 4, &from));
  if (format[0] != 'N' || format[3] != 'C' || block < 1)
    return NULL; /* other layouts are rare enough to stay unknown */
  int64_t area = block * block;
  for (int i = 1; i < 4; i++) {
    int64_t divisor = i == 3 ? (is_to_depth ? 1 : area) : (is_to_depth ? block : 1);
    int64_t factor = i == 3 ? (is_to_depth ? area : 1) : (is_to_depth ? 1 : block);
    if (from.dims[i] >= 0 && from.dims[i] % divisor)
      return DP_INVALID("Dimension size must be evenly divisible by %lld but is %lld",
                        (long long)divisor, (long long)from.dims[i]);
    from.dims[i] = from.dims[i] < 0 ? -1 : from.dims[i] / divisor * factor;
  }
  call->outputs[0] = from;
  return NULL;
}

static dp_status *space_to_depth(shape_call *call) {
  return depth_and_space(call, true);
}

static dp_status *depth_to_space(shape_call *call) {
  return depth_and_space(call, false);
}

const shape_row dp_shape_rows_slice[] = {
    {"DepthToSpace", depth_to_space},
    {"Gather", gather},
    {"GatherNd", gather_nd},
    {"GatherV2", gather_v2},
    {"MirrorPad", pad},
    {"Pad", pad},
    {"PadV2", pad},
    {"ReverseSequence", reverse_sequence},
    {"ReverseV2", reverse_v2},
    {"Roll", rule_same},
    {"ScatterNd", scatter_nd},
    {"Slice", slice},
    {"SpaceToDepth", space_to_depth},
    {"StridedSlice", strided_slice},
    {"StridedSliceGrad", of_first_input},
    {"TensorScatterAdd", rule_same},
    {"TensorScatterSub", rule_same},
    {"TensorScatterUpdate", rule_same},
    {"TopK", top_k},
    {"TopKV2", top_k},
    {NULL, NULL},
};
