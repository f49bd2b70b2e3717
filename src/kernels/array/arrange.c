/* Ops that put elements in another order: Transpose, Reverse, ReverseSequence, Roll, Tile and
 * InvertPermutation. All but the last are strided moves (shared/move.h). */
#include "kernels/loops/index.h"
#include "kernels/shared/family.h"
#include "kernels/shared/move.h"

/* ---- Transpose ---- */
static dp_status *missing_axis(int axis, const int *order, int rank) {
  dp_text axes = {0};
  for (int i = 0; i < rank; ++i)
    dp_text_printf(&axes, "%s%d", i ? "," : "", order[i]);
  dp_status *status = DP_INVALID("%d is missing from {%s}.", axis, dp_text_string(&axes));
  dp_text_deinit(&axes);
  return status;
}

static dp_status *read_permutation(const dp_tensor *tensor, int rank, int *order_out) {
  if (tensor->shape.rank != 1)
    return DP_INVALID("perm must be rank 1, got shape %s", dp_shape_text(&tensor->shape));
  int64_t count = dp_tensor_elements(tensor);
  if (count != rank)
    return DP_INVALID("transpose expects a vector of size %d. But input(1) is a vector of size "
                      "%lld",
                      rank, (long long)count);
  uint32_t seen = 0;
  for (int i = 0; i < rank; ++i) {
    int64_t value = dp_tensor_int_at(tensor, i);
    if (value < 0)
      value += rank;
    if (value < 0 || value >= rank)
      return DP_INVALID("%lld is out of range [0 .. %d)", (long long)value, rank);
    seen |= 1u << value;
    order_out[i] = (int)value;
  }
  for (int i = 0; i < rank; ++i)
    if (!(seen >> i & 1))
      return missing_axis(i, order_out, rank);
  return NULL;
}

static void conjugate(void *arg, int64_t begin, int64_t end) {
  const dp_tensor *tensor = arg;
  if (tensor->dtype == DP_COMPLEX64) {
    float *values = tensor->data;
    for (int64_t i = begin; i < end; ++i)
      values[2 * i + 1] = -values[2 * i + 1];
  } else {
    double *values = tensor->data;
    for (int64_t i = begin; i < end; ++i)
      values[2 * i + 1] = -values[2 * i + 1];
  }
}

/* Whether only dimensions of size 1 move, so that every element keeps its place. */
static bool keeps_order(const dp_shape *shape, const int *order) {
  int last = -1;
  for (int i = 0; i < shape->rank; ++i) {
    if (shape->dims[order[i]] == 1)
      continue;
    if (order[i] < last)
      return false;
    last = order[i];
  }
  return true;
}

static dp_status *transpose(dp_op_context *context, bool conjugates) {
  const dp_tensor *input = dp_op_input(context, 0);
  int order[DP_MAX_RANK];
  DP_RETURN_IF_ERROR(read_permutation(dp_op_input(context, 1), input->shape.rank, order));
  dp_shape shape = input->shape;
  for (int i = 0; i < shape.rank; ++i)
    shape.dims[i] = input->shape.dims[order[i]];
  conjugates &= dp_dtype_is_complex(input->dtype);
  if (keeps_order(&input->shape, order) && !conjugates) {
    dp_tensor same = dp_tensor_reshaped(input, &shape);
    dp_op_set_output(context, 0, &same);
    return NULL;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  int64_t from[DP_MAX_RANK], to[DP_MAX_RANK];
  dp_move_strides(&input->shape, from);
  dp_move_strides(&shape, to);
  dp_move move;
  dp_move_init(&move, input->dtype);
  for (int i = 0; i < shape.rank; ++i)
    dp_move_add(&move, shape.dims[i], from[order[i]], to[i]);
  dp_move_run(context, &move, output->data, input->data);
  if (conjugates)
    dp_kernel_for(context, shape.elements, 500, conjugate, output);
  return NULL;
}

static dp_status *transpose_compute(dp_op_context *context, void *state) {
  return transpose(context, false);
}
static dp_status *conjugate_compute(dp_op_context *context, void *state) {
  return transpose(context, true);
}

/* The error for values that are no permutation: names the first value that is out of bounds or
 * repeated. `seen` has room for all values and is all -1. */
static dp_status *not_a_permutation(const dp_tensor *input, dp_tensor *seen) {
  int64_t count = dp_tensor_elements(input);
  size_t size = dp_dtype_size(input->dtype);
  static const int64_t mark = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = dp_tensor_int_at(input, i);
    if (value < 0 || value >= count)
      return DP_INVALID("%lld is not between 0 and %lld", (long long)value, (long long)count);
    if (dp_tensor_int_at(seen, value) != -1)
      return DP_INVALID("%lld is duplicated in the input.", (long long)value);
    memcpy((char *)seen->data + (size_t)value * size, &mark, size);
  }
  return dp_status_create(DP_INTERNAL, "a permutation was taken for none");
}

static dp_status *invert_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  if (input->shape.rank != 1)
    return DP_INVALID("invert_permutation expects a 1D vector.");
  int64_t count = dp_tensor_elements(input);
  dp_shape shape = input->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  const dp_index_loops *loops = dp_index_loops_of(input->dtype == DP_INT32);
  memset(output->data, 0xff, dp_tensor_bytes(output));
  if (loops->invert(output->data, input->data, count))
    return NULL;
  memset(output->data, 0xff, dp_tensor_bytes(output));
  return not_a_permutation(input, output);
}

/* ---- Reverse ---- */
static dp_status *reverse(dp_op_context *context, uint32_t axes) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_shape shape = input->shape;
  bool changes = false;
  for (int i = 0; i < shape.rank; ++i)
    changes |= (axes >> i & 1) && shape.dims[i] > 1;
  if (!changes) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t strides[DP_MAX_RANK], offset = 0;
  dp_move_strides(&shape, strides);
  dp_move move;
  dp_move_init(&move, input->dtype);
  for (int i = 0; i < shape.rank; ++i) {
    bool reversed = axes >> i & 1;
    offset += reversed ? strides[i] * (shape.dims[i] - 1) : 0;
    dp_move_add(&move, shape.dims[i], reversed ? -strides[i] : strides[i], strides[i]);
  }
  dp_move_run(context, &move, output->data,
              (const char *)input->data + offset * (int64_t)dp_dtype_size(input->dtype));
  return NULL;
}

static dp_status *reverse_v1_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0), *flags = dp_op_input(context, 1);
  if (flags->shape.rank != 1 && input->shape.rank != 0)
    return DP_INVALID("'dims' must be 1-dimension, not %d", flags->shape.rank);
  if (dp_tensor_elements(flags) != input->shape.rank)
    return DP_INVALID("'dims' must have the same number of values as 'input' has dimensions. "
                      "'input' has %d'dims' has %lld values",
                      input->shape.rank, (long long)dp_tensor_elements(flags));
  uint32_t axes = 0;
  for (int i = 0; i < input->shape.rank; ++i)
    axes |= ((const bool *)flags->data)[i] ? 1u << i : 0;
  return reverse(context, axes);
}

static dp_status *reverse_v2_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0), *list = dp_op_input(context, 1);
  if (input->shape.rank == 0 || input->shape.elements == 0) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  if (list->shape.rank != 1)
    return DP_INVALID("'dims' must be 1-dimension, not %d", list->shape.rank);
  uint32_t axes = 0;
  for (int64_t i = 0; i < dp_tensor_elements(list); ++i) {
    int64_t value = dp_tensor_int_at(list, i);
    int axis;
    if (!dp_kernel_normalize_axis(value, input->shape.rank, &axis))
      return DP_INVALID("'axis'[%lld] = %lld is out of valid range [0, %d", (long long)i,
                        (long long)value, input->shape.rank - 1);
    if (axes >> axis & 1)
      return DP_INVALID("axis %d specified more than once.", axis);
    axes |= 1u << axis;
  }
  return reverse(context, axes);
}

/* ---- ReverseSequence ---- */
typedef struct sequence_state {
  int64_t batch_axis, sequence_axis;
} sequence_state;

static dp_status *sequence_create(const dp_kernel_setup *setup, void *memory) {
  sequence_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "batch_dim", &state->batch_axis));
  return dp_node_get_int(setup->node, "seq_dim", &state->sequence_axis);
}

static dp_status *check_sequences(const sequence_state *state, const dp_shape *shape,
                                  const dp_tensor *lengths) {
  if (lengths->shape.rank != 1)
    return DP_INVALID("seq_lens input must be 1-dim, not %d", lengths->shape.rank);
  if (state->batch_axis == state->sequence_axis)
    return DP_INVALID("batch_dim == seq_dim == %lld", (long long)state->sequence_axis);
  if (state->sequence_axis < 0 || state->sequence_axis >= shape->rank)
    return DP_INVALID("seq_dim must be < input rank ( %lld vs. %d)",
                      (long long)state->sequence_axis, shape->rank);
  if (state->batch_axis < 0 || state->batch_axis >= shape->rank)
    return DP_INVALID("batch_dim must be < input rank ( %lld vs. %d)", (long long)state->batch_axis,
                      shape->rank);
  if (dp_tensor_elements(lengths) != shape->dims[state->batch_axis])
    return DP_INVALID("Length of seq_lengths != input.dims(%lld), (%lld vs. %lld)",
                      (long long)state->batch_axis, (long long)dp_tensor_elements(lengths),
                      (long long)shape->dims[state->batch_axis]);
  for (int64_t i = 0; i < dp_tensor_elements(lengths); ++i) {
    int64_t length = dp_tensor_int_at(lengths, i);
    if (length < 0)
      return DP_INVALID("seq_lens(%lld) < 0", (long long)i);
    if (length > shape->dims[state->sequence_axis])
      return DP_INVALID("seq_lens(%lld) > input.dims(%lld)", (long long)i,
                        (long long)state->sequence_axis);
  }
  return NULL;
}

static dp_status *sequence_compute(dp_op_context *context, void *memory) {
  const sequence_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *lengths = dp_op_input(context, 1);
  dp_shape shape = input->shape;
  DP_RETURN_IF_ERROR(check_sequences(state, &shape, lengths));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t strides[DP_MAX_RANK], size = (int64_t)dp_dtype_size(input->dtype);
  dp_move_strides(&shape, strides);
  int64_t step = strides[state->sequence_axis], dim = shape.dims[state->sequence_axis];
  for (int64_t i = 0; i < shape.dims[state->batch_axis]; ++i) {
    int64_t length = dp_tensor_int_at(lengths, i), offset = i * strides[state->batch_axis];
    for (int part = 0; part < 2; ++part) { /* the reversed part, then the rest */
      int64_t count = part == 0 ? length : dim - length;
      if (count == 0)
        continue;
      dp_move move;
      dp_move_init(&move, input->dtype);
      for (int d = 0; d < shape.rank; ++d) {
        if (d == state->sequence_axis)
          dp_move_add(&move, count, part == 0 ? -step : step, step);
        else if (d != state->batch_axis)
          dp_move_add(&move, shape.dims[d], strides[d], strides[d]);
      }
      int64_t to = offset + (part == 0 ? 0 : length * step);
      int64_t from = offset + (part == 0 ? (length - 1) * step : length * step);
      dp_move_run(context, &move, (char *)output->data + to * size,
                  (const char *)input->data + from * size);
    }
  }
  return NULL;
}

/* ---- Roll ---- */
static dp_status *read_shifts(dp_op_context *context, int64_t *shifts) {
  const dp_tensor *input = dp_op_input(context, 0), *shift = dp_op_input(context, 1);
  const dp_tensor *axes = dp_op_input(context, 2);
  if (input->shape.rank < 1)
    return DP_INVALID("input must be 1-D or higher");
  if (shift->shape.rank > 1)
    return DP_INVALID("shift must be a scalar or a 1-D vector. Found: %s",
                      dp_shape_text(&shift->shape));
  if (axes->shape.rank > 1)
    return DP_INVALID("axis must be a scalar or a 1-D vector. Found: %s",
                      dp_shape_text(&axes->shape));
  if (!dp_shape_equal(&shift->shape, &axes->shape))
    return DP_INVALID("shift and axis must have the same size");
  for (int64_t i = 0; i < dp_tensor_elements(axes); ++i) {
    int axis;
    if (!dp_kernel_normalize_axis(dp_tensor_int_at(axes, i), input->shape.rank, &axis))
      return DP_INVALID("axis %lld is out of range", (long long)dp_tensor_int_at(axes, i));
    int64_t dim = input->shape.dims[axis] > 0 ? input->shape.dims[axis] : 1;
    int64_t sum = (shifts[axis] + dp_tensor_int_at(shift, i) % dim) % dim;
    shifts[axis] = sum < 0 ? sum + dim : sum;
  }
  return NULL;
}

/* Each rolled axis consists of two pieces, so n rolled axes are 2^n moves. */
static dp_status *roll_compute(dp_op_context *context, void *state) {
  int64_t shifts[DP_MAX_RANK] = {0}, strides[DP_MAX_RANK];
  DP_RETURN_IF_ERROR(read_shifts(context, shifts));
  const dp_tensor *input = dp_op_input(context, 0);
  dp_shape shape = input->shape;
  int rolled[DP_MAX_RANK], count = 0;
  for (int i = 0; i < shape.rank; ++i)
    if (shifts[i] != 0)
      rolled[count++] = i;
  if (count == 0) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  dp_move_strides(&shape, strides);
  int64_t size = (int64_t)dp_dtype_size(input->dtype);
  for (uint32_t choice = 0; choice < 1u << count; ++choice) {
    int64_t dims[DP_MAX_RANK], from = 0, to = 0;
    memcpy(dims, shape.dims, sizeof dims);
    for (int r = 0; r < count; ++r) {
      int d = rolled[r];
      if (choice >> r & 1) { /* the end moves to the front */
        dims[d] = shifts[d];
        from += (shape.dims[d] - shifts[d]) * strides[d];
      } else {
        dims[d] = shape.dims[d] - shifts[d];
        to += shifts[d] * strides[d];
      }
    }
    dp_move move;
    dp_move_init(&move, input->dtype);
    for (int d = 0; d < shape.rank; ++d)
      dp_move_add(&move, dims[d], strides[d], strides[d]);
    dp_move_run(context, &move, (char *)output->data + to * size,
                (const char *)input->data + from * size);
  }
  return NULL;
}

/* ---- Tile ---- */
static dp_status *tile_shape(const dp_tensor *input, const dp_tensor *multiples, dp_shape *shape) {
  int rank = input->shape.rank;
  if (multiples->shape.rank != 1)
    return DP_INVALID("Expected multiples to be 1-D, but got shape %s",
                      dp_shape_text(&multiples->shape));
  if (dp_tensor_elements(multiples) != rank)
    return DP_INVALID("Expected multiples argument to be a vector of length %d but got length %lld",
                      rank, (long long)dp_tensor_elements(multiples));
  int64_t dims[DP_MAX_RANK];
  for (int i = 0; i < rank; ++i) {
    int64_t times = dp_tensor_int_at(multiples, i);
    if (times < 0)
      return DP_INVALID("Expected multiples[%d] >= 0, but got %lld", i, (long long)times);
    if (__builtin_mul_overflow(times, input->shape.dims[i], &dims[i]))
      return DP_INVALID("multiples[%d] = %lld overflows the output's shape", i, (long long)times);
  }
  return dp_shape_make(rank, dims, shape);
}

static dp_status *tile_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0), *multiples = dp_op_input(context, 1);
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(tile_shape(input, multiples, &shape));
  if (dp_shape_equal(&shape, &input->shape)) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t from[DP_MAX_RANK], to[DP_MAX_RANK];
  dp_move_strides(&input->shape, from);
  dp_move_strides(&shape, to);
  dp_move move;
  dp_move_init(&move, input->dtype);
  for (int i = 0; i < shape.rank; ++i) {
    dp_move_add(&move, shape.dims[i] / input->shape.dims[i], 0, to[i] * input->shape.dims[i]);
    dp_move_add(&move, input->shape.dims[i], from[i], to[i]);
  }
  dp_move_run(context, &move, output->data, input->data);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "Transpose", .types = {{"Tperm", DP_SET_INDEX}}, .compute = transpose_compute},
    {.op = "ConjugateTranspose", .types = {{"Tperm", DP_SET_INDEX}}, .compute = conjugate_compute},
    {.op = "InvertPermutation", .types = {{"T", DP_SET_INDEX}}, .compute = invert_compute},
    {.op = "Reverse", .compute = reverse_v1_compute},
    {.op = "ReverseV2", .types = {{"Tidx", DP_SET_INDEX}}, .compute = reverse_v2_compute},
    {.op = "ReverseSequence",
     .types = {{"Tlen", DP_SET_INDEX}},
     .state_size = sizeof(sequence_state),
     .create = sequence_create,
     .compute = sequence_compute},
    {.op = "Roll",
     .types = {{"Tshift", DP_SET_INDEX}, {"Taxis", DP_SET_INDEX}},
     .compute = roll_compute},
    {.op = "Tile", .types = {{"Tmultiples", DP_SET_INDEX}}, .compute = tile_compute},
};
DP_KERNEL_FAMILY(array_arrange, rows);
