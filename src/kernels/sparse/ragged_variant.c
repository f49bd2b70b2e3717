/* RaggedTensorToVariant puts a ragged tensor into one variant, or each row into a variant of its
 * own (map_fn and datasets take single rows). RaggedTensorFromVariant joins variants of any shape
 * again. RaggedTensorToVariantGradient returns the gradient of the values as one tensor. Splits
 * come from users and are checked before they are used. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/shared/ragged.h"

/* ---- RaggedTensorToVariant ---- */
static dp_status *to_variant_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "batched_input", memory);
}

static dp_status *whole(dp_op_context *context) {
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &scalar, &output));
  dp_ragged *ragged = dp_ragged_create(context->input_count - 1);
  for (int32_t i = 0; i < context->input_count; ++i)
    ragged->parts[i] = dp_tensor_copy(dp_op_input(context, i));
  dp_tensor_variants(output)[0] = dp_variant_create(&dp_ragged_ops, ragged);
  return NULL;
}

static dp_status *check_levels(const dp_op_context *context) {
  int32_t levels = context->input_count - 1;
  const dp_tensor *values = dp_op_input(context, levels);
  if (values->shape.rank < 1 && levels > 0)
    return DP_INVALID("Requires flat_values to have rank>=1 when nested_row_splits is not empty, "
                      "but is 0.");
  for (int32_t level = 0; level < levels; ++level) {
    const dp_tensor *below = dp_op_input(context, level + 1);
    int64_t rows = below == values ? values->shape.dims[0] : below->shape.elements - 1;
    DP_RETURN_IF_ERROR(dp_ragged_check_splits(dp_op_input(context, level), rows));
  }
  return NULL;
}

/* Rows [begin, end) of a level as splits of their own, which start at 0. */
static dp_status *cut_splits(const dp_tensor *splits, int64_t begin, int64_t end,
                             dp_tensor *part_out) {
  dp_shape shape = dp_shape_vector(end - begin + 1);
  DP_RETURN_IF_ERROR(dp_tensor_create(splits->dtype, &shape, part_out));
  int64_t first = dp_tensor_int_at(splits, begin);
  for (int64_t i = begin; i <= end; ++i)
    dp_tensor_set_int(part_out, i - begin, dp_tensor_int_at(splits, i) - first);
  return NULL;
}

static dp_status *cut_row(const dp_op_context *context, int64_t row, dp_ragged *ragged) {
  int32_t levels = context->input_count - 1;
  int64_t begin = row, end = row + 1;
  for (int32_t level = 0; level < levels; ++level) {
    const dp_tensor *splits = dp_op_input(context, level);
    if (level > 0)
      DP_RETURN_IF_ERROR(cut_splits(splits, begin, end, &ragged->parts[level - 1]));
    begin = dp_tensor_int_at(splits, begin);
    end = dp_tensor_int_at(splits, end);
  }
  const dp_tensor *values = dp_op_input(context, levels);
  dp_shape shape =
      levels ? dp_shape_with(&values->shape, 0, end - begin) : dp_shape_remove(&values->shape, 0);
  return dp_pieces_cut(values, begin, end, &shape, dp_ragged_values(ragged));
}

static dp_status *to_variant(dp_op_context *context, void *memory) {
  DP_RETURN_IF_ERROR(check_levels(context));
  if (!*(bool *)memory)
    return whole(context);
  const dp_tensor *first = dp_op_input(context, 0);
  if (first->shape.rank < 1)
    return DP_INVALID("Can't unbatch rank-0 tensor.");
  int32_t levels = context->input_count - 1;
  dp_shape shape = dp_shape_vector(first->shape.dims[0] - (levels > 0));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  for (int64_t row = 0; row < shape.elements; ++row) {
    dp_ragged *ragged = dp_ragged_create(levels ? levels - 1 : 0);
    dp_tensor_variants(output)[row] = dp_variant_create(&dp_ragged_ops, ragged);
    DP_RETURN_IF_ERROR(cut_row(context, row, ragged));
  }
  return NULL;
}

/* ---- RaggedTensorFromVariant ---- */
typedef struct from_state {
  int64_t input_rank, output_rank; /* ragged ranks; input_rank -1: inferred */
  dp_dtype values, splits;
} from_state;

static dp_status *from_variant_create(const dp_kernel_setup *setup, void *memory) {
  from_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "input_ragged_rank", &state->input_rank));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "output_ragged_rank", &state->output_rank));
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "Tvalues", &state->values));
  return dp_node_get_type(setup->node, "Tsplits", &state->splits);
}

static dp_status *find_input_rank(const from_state *state, int32_t rank, int32_t *input_rank_out) {
  int64_t input_rank = state->input_rank;
  if (input_rank == -1) {
    input_rank = state->output_rank ? state->output_rank - rank : 0;
    if (input_rank < 0)
      return DP_INVALID("Inferred input_ragged_rank (output_ragged_rank - encoded_variant.dims()) "
                        "must be >= 0, found output_ragged_rank: %lld, encoded_variant.dims(): %d, "
                        "inferred input_ragged_rank: %lld",
                        (long long)state->output_rank, rank, (long long)input_rank);
  }
  bool is_dense = state->output_rank == 0 && input_rank == 0;
  if (!is_dense && state->output_rank != rank + input_rank)
    return DP_INVALID("output_ragged_rank must be equal to input_ragged_rank + "
                      "encoded_ragged.dims(); output_ragged_rank: %lld, input_ragged_rank: %lld, "
                      "encoded_variant.dims(): %d.",
                      (long long)state->output_rank, (long long)input_rank, rank);
  *input_rank_out = (int32_t)input_rank;
  return NULL;
}

static dp_status *check_part(const from_state *state, const dp_ragged *ragged, int64_t index) {
  const dp_tensor *values = dp_ragged_values(ragged);
  if (values->dtype != state->values)
    return DP_INVALID("Expected values Tensor dtype: %s, found: %s", dp_dtype_name(state->values),
                      dp_dtype_name(values->dtype));
  if (values->shape.rank < 1 && state->output_rank != 0)
    return DP_INVALID("Ragged values must have rank >= 1; encoded scalar element at index %lld has "
                      "values Tensor of shape %s",
                      (long long)index, dp_shape_text(&values->shape));
  for (int32_t i = 0; i < ragged->ragged_rank; ++i) {
    const dp_tensor *splits = &ragged->parts[i];
    if (splits->dtype != state->splits)
      return DP_INVALID("Expected row_splits Tensor dtype: %s, found: %s",
                        dp_dtype_name(state->splits), dp_dtype_name(splits->dtype));
    if (splits->shape.rank != 1 || splits->shape.elements < 1)
      return DP_INVALID("Ragged splits must have rank 1; encoded scalar element at index %lld has "
                        "splits Tensor of shape %s",
                        (long long)index, dp_shape_text(&splits->shape));
  }
  return NULL;
}

static dp_status *check_parts(const from_state *state, const dp_tensor *encoded,
                              int32_t input_rank) {
  for (int64_t i = 0; i < encoded->shape.elements; ++i) {
    const dp_ragged *ragged = dp_ragged_of_element(encoded, i);
    const dp_variant *variant = dp_tensor_variants(encoded)[i];
    if (!ragged)
      return DP_INVALID("Input Variant element at index %lld doesn't hold a RaggedTensorVariant: "
                        "%s",
                        (long long)i, variant ? variant->ops->type_name : "<unset>");
    if (ragged->ragged_rank != input_rank)
      return DP_INVALID("Encoded input RaggedTensorVariant has ragged_rank=%d.  Expected "
                        "ragged_rank=%d.",
                        ragged->ragged_rank, input_rank);
    DP_RETURN_IF_ERROR(check_part(state, ragged, i));
  }
  return NULL;
}

/* The variants' own dimensions but the last: rows of equal length. */
static dp_status *stack_even(dp_op_context *context, const dp_shape *encoded, int axis) {
  dp_shape shape = dp_shape_vector(encoded->dims[axis] + 1);
  dp_tensor *splits;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, axis, &shape, &splits));
  for (int64_t i = 0; i < shape.elements; ++i)
    dp_tensor_set_int(splits, i, i * encoded->dims[axis + 1]);
  return NULL;
}

/* The last dimension: each variant is a row; its length is its own number of rows. */
static dp_status *stack_rows(dp_op_context *context, const dp_tensor *encoded) {
  dp_shape shape = dp_shape_vector(encoded->shape.elements + 1);
  dp_tensor *splits;
  int64_t end = 0;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, encoded->shape.rank - 1, &shape, &splits));
  dp_tensor_set_int(splits, 0, 0);
  for (int64_t i = 0; i < encoded->shape.elements; ++i) {
    const dp_ragged *ragged = dp_ragged_of_element(encoded, i);
    end += ragged->parts[0].shape.dims[0] - (ragged->ragged_rank > 0);
    dp_tensor_set_int(splits, i + 1, end);
  }
  return NULL;
}

/* The splits of level `level` of all variants, concatenated. */
static dp_status *stack_splits(dp_op_context *context, const dp_tensor *encoded, int32_t level) {
  dp_tensor *splits;
  int64_t count = 1, at = 1, last = 0;
  for (int64_t i = 0; i < encoded->shape.elements; ++i)
    count += dp_ragged_of_element(encoded, i)->parts[level].shape.elements - 1;
  dp_shape shape = dp_shape_vector(count);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, encoded->shape.rank + level, &shape, &splits));
  dp_tensor_set_int(splits, 0, 0);
  for (int64_t i = 0; i < encoded->shape.elements; ++i) {
    const dp_tensor *part = &dp_ragged_of_element(encoded, i)->parts[level];
    for (int64_t j = 1; j < part->shape.elements; ++j)
      dp_tensor_set_int(splits, at++,
                        (int64_t)((uint64_t)last + (uint64_t)dp_tensor_int_at(part, j)));
    last = dp_tensor_int_at(splits, at - 1);
  }
  return NULL;
}

static dp_status *check_inner(const dp_shape *first, const dp_shape *other, int64_t index) {
  if (first->rank != other->rank)
    return DP_INVALID("Rank of values must match for all components; values shape at index 0: %s, "
                      "values shape at index %lld: %s",
                      dp_shape_text(first), (long long)index, dp_shape_text(other));
  dp_shape inner = dp_shape_remove(first, 0), other_inner = dp_shape_remove(other, 0);
  if (!dp_shape_equal(&inner, &other_inner))
    return DP_INVALID("All flat_values must have compatible shapes.  Shape at index 0: %s.  Shape "
                      "at index %lld: %s.  If you are using tf.map_fn, then you may need to "
                      "specify an explicit fn_output_signature with appropriate ragged_rank, "
                      "and/or convert output tensors to RaggedTensors.",
                      dp_shape_text(&inner), (long long)index, dp_shape_text(&other_inner));
  return NULL;
}

/* Without variants, nothing gives the inner shape of the values. */
static dp_status *stack_values(dp_op_context *context, const dp_tensor *encoded) {
  int64_t count = encoded->shape.elements, total = 0;
  dp_tensor *pieces = dp_pieces_create(count);
  dp_shape shape = dp_shape_vector(0);
  dp_status *status = NULL;
  for (int64_t i = 0; i < count && !status; ++i) {
    pieces[i] = dp_tensor_copy(dp_ragged_values(dp_ragged_of_element(encoded, i)));
    status = check_inner(&pieces[0].shape, &pieces[i].shape, i);
    total += pieces[i].shape.dims[0];
  }
  if (!status && count)
    shape = dp_shape_with(&pieces[0].shape, 0, total);
  if (!status)
    status = dp_pieces_output(context, context->output_count - 1, &shape, pieces, count);
  dp_pieces_destroy(pieces, count);
  return status;
}

/* Values without splits, concatenated along a new first dimension. */
static dp_status *stack_dense(dp_op_context *context, const dp_tensor *encoded) {
  int64_t count = encoded->shape.elements;
  dp_tensor *pieces = dp_pieces_create(count);
  dp_shape shape = dp_shape_vector(0);
  dp_status *status = NULL;
  for (int64_t i = 0; i < count && !status; ++i) {
    pieces[i] = dp_tensor_copy(dp_ragged_values(dp_ragged_of_element(encoded, i)));
    if (!dp_shape_equal(&pieces[i].shape, &pieces[0].shape))
      status = DP_INVALID("All flat_values must have compatible shapes.  Shape at index 0: %s.  "
                          "Shape at index %lld: %s",
                          dp_shape_text(&pieces[0].shape), (long long)i,
                          dp_shape_text(&pieces[i].shape));
  }
  if (!status && count)
    status = dp_pieces_shape(count, &pieces[0].shape, &shape);
  if (!status)
    status = dp_pieces_output(context, 0, &shape, pieces, count);
  dp_pieces_destroy(pieces, count);
  return status;
}

static dp_status *from_variant(dp_op_context *context, void *memory) {
  const from_state *state = memory;
  const dp_tensor *encoded = dp_op_input(context, 0);
  int32_t rank = encoded->shape.rank, input_rank;
  DP_RETURN_IF_ERROR(find_input_rank(state, rank, &input_rank));
  DP_RETURN_IF_ERROR(check_parts(state, encoded, input_rank));
  if (rank == 0) {
    const dp_ragged *ragged = dp_ragged_of_element(encoded, 0);
    for (int32_t i = 0; i <= input_rank; ++i)
      context->outputs[i].tensor = dp_tensor_copy(&ragged->parts[i]);
    return NULL;
  }
  if (state->output_rank == 0)
    return stack_dense(context, encoded);
  for (int axis = 0; axis < rank - 1; ++axis)
    DP_RETURN_IF_ERROR(stack_even(context, &encoded->shape, axis));
  DP_RETURN_IF_ERROR(stack_rows(context, encoded));
  for (int32_t level = 0; level < input_rank; ++level)
    DP_RETURN_IF_ERROR(stack_splits(context, encoded, level));
  return stack_values(context, encoded);
}

/* ---- RaggedTensorToVariantGradient ----
 * TensorFlow's gradient function hands only the outer row splits over, so a row of rows that
 * nothing reached gets as many zeros as it has rows, not values, and what follows it moves forward.
 */
/* What reached row `index`, or zeros for a row that nothing reached. */
static dp_status *gradient_piece(dp_op_context *context, int64_t index, const dp_shape *shape,
                                 dp_tensor *piece_out) {
  const dp_ragged *ragged = dp_ragged_of_element(dp_op_input(context, 0), index);
  dp_dtype dtype = dp_op_output_type(context, 0);
  if (ragged && dp_ragged_values(ragged)->dtype == dtype) {
    *piece_out = dp_tensor_copy(dp_ragged_values(ragged));
    return NULL;
  }
  if (ragged)
    return DP_INVALID("Expected values Tensor dtype: %s, found: %s", dp_dtype_name(dtype),
                      dp_dtype_name(dp_ragged_values(ragged)->dtype));
  const dp_tensor *splits = dp_op_input(context, 1);
  if (index + 1 >= splits->shape.elements || shape->rank < 1)
    return DP_INVALID("row_splits and dense_values_shape do not tell the size of row %lld",
                      (long long)index);
  dp_shape zeros = *shape;
  if (__builtin_sub_overflow(dp_tensor_int_at(splits, index + 1), dp_tensor_int_at(splits, index),
                             &zeros.dims[0]))
    return DP_INVALID("Ragged splits must be sorted");
  DP_RETURN_IF_ERROR(dp_shape_make(zeros.rank, zeros.dims, &zeros));
  return dp_tensor_create_zero(dtype, &zeros, piece_out);
}

static dp_status *join_gradient(dp_op_context *context, dp_tensor *pieces, int64_t count,
                                const dp_shape *shape) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) {
    DP_RETURN_IF_ERROR(gradient_piece(context, i, shape, &pieces[i]));
    total += pieces[i].shape.elements;
  }
  if (count == 1) {
    dp_op_set_output(context, 0, &pieces[0]);
    return NULL;
  }
  if (total > shape->elements)
    return DP_INVALID("The gradients have %lld elements, but dense_values_shape is %s",
                      (long long)total, dp_shape_text(shape));
  dp_tensor *output = &context->outputs[0].tensor;
  DP_RETURN_IF_ERROR(dp_tensor_create_zero(dp_op_output_type(context, 0), shape, output));
  dp_pieces_join(context, pieces, count, output);
  return NULL;
}

static dp_status *to_variant_gradient(dp_op_context *context, void *memory) {
  (void)memory;
  int64_t count = dp_op_input(context, 0)->shape.elements;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(dp_op_input(context, 2), "dense_values_shape", &shape));
  dp_tensor *pieces = dp_pieces_create(count);
  dp_status *status = join_gradient(context, pieces, count, &shape);
  dp_pieces_destroy(pieces, count);
  return status;
}

#define VALUES                                                                                     \
  {"Tvalues", DP_SET_NUMBERS | DP_SET(BOOL) | DP_SET(STRING) | DP_SET_QUANTIZED}, {                \
    "Tsplits", DP_SET_INDEX                                                                        \
  }
static const dp_kernel rows[] = {
    {.op = "RaggedTensorToVariant",
     .types = {VALUES},
     .state_size = sizeof(bool),
     .create = to_variant_create,
     .compute = to_variant},
    {.op = "RaggedTensorFromVariant",
     .types = {VALUES},
     .state_size = sizeof(from_state),
     .create = from_variant_create,
     .compute = from_variant},
    {.op = "RaggedTensorToVariantGradient", .types = {VALUES}, .compute = to_variant_gradient},
};
DP_KERNEL_FAMILY(ragged_variant, rows);
