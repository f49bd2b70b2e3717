/* Joining and splitting tensors: Concat, ConcatOffset, Pack, Split, Unpack and their versions.
 * Along dimension 0, a part of Split is a view of the whole (no copy) if it has the alignment of a
 * new buffer, so that loops over it are as fast. A part of Unpack along dimension 0 is always a
 * view. */
#include <stdatomic.h>
#include "kernels/shared/family.h"
#include "kernels/shared/move.h"

/* ---- Concat ---- */
/* Which inputs are values, and which is the axis. */
typedef struct concat_arguments {
  int32_t axis_slot, first, count;
  const char *axis_name;
} concat_arguments;

static dp_status *concat_shape(const dp_op_context *context, const concat_arguments *arguments,
                               int *axis_out, dp_shape *shape_out) {
  const dp_tensor *axis_tensor = dp_op_input(context, arguments->axis_slot);
  const dp_shape *first = &dp_op_input(context, arguments->first)->shape;
  if (axis_tensor->shape.rank != 0 && dp_tensor_elements(axis_tensor) != 1)
    return DP_INVALID("%s tensor should be a scalar integer, but got shape %s",
                      arguments->axis_name, dp_shape_text(&axis_tensor->shape));
  int64_t wanted = dp_tensor_int_at(axis_tensor, 0), total = 0;
  int axis = 0;
  if (first->rank == 0)
    return DP_INVALID("ConcatOp : Can't concatenate scalars (use tf.stack instead)");
  if (!dp_kernel_normalize_axis(wanted, first->rank, &axis))
    return DP_INVALID("ConcatOp : Expected concatenating dimensions in the range [%d, %d), but got "
                      "%lld",
                      -first->rank, first->rank, (long long)wanted);
  for (int32_t i = 0; i < arguments->count; ++i) {
    const dp_shape *shape = &dp_op_input(context, arguments->first + i)->shape;
    if (shape->rank != first->rank)
      return DP_INVALID("ConcatOp : Ranks of all input tensors should match: shape[0] = %s vs. "
                        "shape[%d] = %s",
                        dp_shape_text(first), i, dp_shape_text(shape));
    for (int d = 0; d < first->rank; ++d)
      if (d != axis && shape->dims[d] != first->dims[d])
        return DP_INVALID("ConcatOp : Dimension %d in both shapes must be equal: shape[0] = %s vs. "
                          "shape[%d] = %s",
                          d, dp_shape_text(first), i, dp_shape_text(shape));
    total += shape->dims[axis];
  }
  *axis_out = axis;
  *shape_out = dp_shape_with(first, axis, total);
  return NULL;
}

/* Room for one pointer or size per input or output: on the stack up to FEW_PARTS. */
#define FEW_PARTS 64
#define SHORT_RUN 32 /* bytes; shorter rows are copied as strided elements */

static void move_parts(dp_op_context *context, dp_tensor *output, const dp_move_part *parts,
                       int32_t count, int64_t rows) {
  int64_t size = dp_dtype_size(output->dtype), row = dp_tensor_elements(output) / rows;
  char *to = output->data;
  for (int32_t i = 0; i < count; to += parts[i++].bytes) {
    int64_t inner = parts[i].bytes / size;
    dp_move move;
    dp_move_init(&move, output->dtype);
    dp_move_add(&move, rows, inner, row);
    dp_move_add(&move, inner, 1, 1);
    dp_move_run(context, &move, to, parts[i].from);
  }
}

/* Copies `count` inputs into the rows of the output. Row r of an input is what is at index r of the
 * dimensions before `axis`. */
static void join_rows(dp_op_context *context, dp_tensor *output, int32_t first, int32_t count,
                      int axis) {
  int64_t rows = dp_shape_product(&output->shape, 0, axis), size = dp_dtype_size(output->dtype);
  dp_move_part few[FEW_PARTS], *parts = count > FEW_PARTS ? DP_NEW_ARRAY(dp_move_part, count) : few;
  bool has_runs = dp_dtype_is_plain(output->dtype) || rows == 0;
  int32_t used = 0;
  for (int32_t i = 0; i < count; ++i) {
    const dp_tensor *value = dp_op_input(context, first + i);
    if (dp_tensor_elements(value) == 0)
      continue;
    parts[used] = (dp_move_part){value->data, dp_tensor_elements(value) / rows * size};
    has_runs &= rows == 1 || parts[used].bytes >= SHORT_RUN;
    ++used;
  }
  if (has_runs)
    dp_move_join(context, output->data, parts, used, rows);
  else
    move_parts(context, output, parts, used, rows);
  if (parts != few)
    dp_free(parts);
}

static dp_status *concat(dp_op_context *context, const concat_arguments *arguments) {
  dp_shape shape = {0};
  int axis = 0;
  DP_RETURN_IF_ERROR(concat_shape(context, arguments, &axis, &shape));
  if (arguments->count == 1) {
    dp_op_pass(context, arguments->first, 0);
    return NULL;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  join_rows(context, output, arguments->first, arguments->count, axis);
  return NULL;
}

static dp_status *concat_v1(dp_op_context *context, void *state) {
  concat_arguments arguments = {0, 1, context->input_count - 1, "concat_dim"};
  return concat(context, &arguments);
}

static dp_status *concat_v2(dp_op_context *context, void *state) {
  concat_arguments arguments = {context->input_count - 1, 0, context->input_count - 1, "axis"};
  return concat(context, &arguments);
}

/* TensorFlow replaces this op by updates in place; here it is a concatenation along dimension 0. */
static dp_status *concat_parallel(dp_op_context *context, void *state) {
  const dp_shape *first = &dp_op_input(context, 0)->shape;
  for (int32_t i = 0; i < context->input_count; ++i) {
    const dp_shape *shape = &dp_op_input(context, i)->shape;
    if (shape->rank < 1 || shape->dims[0] != 1 || !dp_shape_equal(shape, first))
      return DP_INVALID("Size of first dimension must be 1 and all shapes alike, but input %d has "
                        "shape %s",
                        i, dp_shape_text(shape));
  }
  dp_shape shape = dp_shape_with(first, 0, context->input_count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  size_t bytes = (size_t)first->elements * dp_dtype_size(output->dtype);
  for (int32_t i = 0; i < context->input_count; ++i)
    dp_move_elements(output->dtype, dp_dtype_size(output->dtype), (char *)output->data + i * bytes,
                     dp_op_input(context, i)->data, first->elements);
  return NULL;
}

static void print_sizes(const dp_tensor *sizes, dp_text *text) {
  for (int64_t i = 0; i < dp_tensor_elements(sizes); ++i)
    dp_text_printf(text, "%s%lld", i ? " " : "", (long long)dp_tensor_int_at(sizes, i));
}

static dp_status *shapes_differ(int axis, int32_t i, const dp_tensor *input,
                                const dp_tensor *first) {
  dp_text shape = {0}, first_shape = {0};
  print_sizes(input, &shape);
  print_sizes(first, &first_shape);
  dp_status *status = DP_INVALID("All dimensions except %d must match. Input %d has shape [%s] and "
                                 "doesn't match input 0 with shape [%s].",
                                 axis, i, dp_text_string(&shape), dp_text_string(&first_shape));
  dp_text_deinit(&shape);
  dp_text_deinit(&first_shape);
  return status;
}

static dp_status *offset_output(dp_op_context *context, int32_t i, int axis, int64_t *offset) {
  const dp_tensor *first = dp_op_input(context, 1), *input = dp_op_input(context, 1 + i);
  int64_t rank = dp_tensor_elements(first);
  if (dp_tensor_elements(input) != rank)
    return DP_INVALID("input %d should contain %lld elements, but got %lld", i, (long long)rank,
                      (long long)dp_tensor_elements(input));
  dp_shape shape = dp_shape_vector(rank);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, i, &shape, &output));
  for (int64_t j = 0; j < rank; ++j) {
    int64_t size = dp_tensor_int_at(input, j), value = 0;
    if (j == axis) {
      value = *offset;
      *offset += size;
    } else if (size != dp_tensor_int_at(first, j)) {
      return shapes_differ(axis, i, input, first);
    }
    dp_tensor_set_int(output, j, value);
  }
  return NULL;
}

static dp_status *concat_offset(dp_op_context *context, void *state) {
  const dp_tensor *axis_tensor = dp_op_input(context, 0);
  if (dp_tensor_elements(axis_tensor) != 1)
    return DP_INVALID("Concat dim tensor should be a scalar integer, but got shape %s",
                      dp_shape_text(&axis_tensor->shape));
  for (int32_t i = 1; i < context->input_count; ++i) {
    const dp_shape *shape = &dp_op_input(context, i)->shape;
    if (shape->rank != 1)
      return DP_INVALID("input %d should be a vector, but got shape %s", i, dp_shape_text(shape));
  }
  int64_t wanted = dp_tensor_int_at(axis_tensor, 0);
  int64_t rank = dp_tensor_elements(dp_op_input(context, 1)), offset = 0;
  int axis;
  if (!dp_kernel_normalize_axis(wanted, (int)rank, &axis))
    return DP_INVALID("Concat dim is out of range: %lld vs. %lld", (long long)wanted,
                      (long long)rank);
  for (int32_t i = 0; i < context->output_count; ++i)
    DP_RETURN_IF_ERROR(offset_output(context, i, axis, &offset));
  return NULL;
}

/* ---- Pack ---- */
static dp_status *axis_create(const dp_kernel_setup *setup, void *state) {
  return dp_node_get_int(setup->node, "axis", state);
}

static dp_status *pack_compute(dp_op_context *context, void *state) {
  const dp_shape *first = &dp_op_input(context, 0)->shape;
  int64_t wanted = *(const int64_t *)state;
  int32_t count = context->input_count;
  for (int32_t i = 1; i < count; ++i)
    if (!dp_shape_equal(first, &dp_op_input(context, i)->shape))
      return DP_INVALID("Shapes of all inputs must match: values[0].shape = %s != values[%d].shape "
                        "= %s",
                        dp_shape_text(first), i, dp_shape_text(&dp_op_input(context, i)->shape));
  int axis, rank = first->rank + 1;
  if (!dp_kernel_normalize_axis(wanted, rank, &axis))
    return DP_INVALID("axis = %lld not in [%d, %d)", (long long)wanted, -rank, rank);
  if (rank > DP_MAX_RANK)
    return DP_INVALID("a tensor has at most %d dimensions", DP_MAX_RANK);
  dp_shape shape = dp_shape_insert(first, axis, count);
  if (count == 1) {
    dp_tensor same = dp_tensor_reshaped(dp_op_input(context, 0), &shape);
    dp_op_set_output(context, 0, &same);
    return NULL;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  join_rows(context, output, 0, count, axis);
  return NULL;
}

/* ---- Split ---- */
/* Whether parts of `bytes` each, from the start of the data, have the alignment of buffers. */
static bool is_aligned(const dp_tensor *tensor, size_t bytes) {
  return (uintptr_t)tensor->data % DP_BUFFER_ALIGNMENT == 0 && bytes % DP_BUFFER_ALIGNMENT == 0;
}

static bool are_parts_aligned(const dp_tensor *input, const int64_t *sizes, int32_t count) {
  size_t row = dp_shape_product(&input->shape, 1, input->shape.rank) * dp_dtype_size(input->dtype);
  if (!dp_dtype_is_plain(input->dtype))
    return true;
  for (int32_t i = 0; i + 1 < count; ++i)
    if (!is_aligned(input, (size_t)sizes[i] * row))
      return false;
  return true;
}

static dp_status *split(dp_op_context *context, const dp_tensor *input, int axis,
                        const int64_t *sizes) {
  int32_t count = context->output_count;
  if (axis == 0 && are_parts_aligned(input, sizes, count)) {
    int64_t begin = 0;
    for (int32_t i = 0; i < count; begin += sizes[i], ++i) {
      dp_tensor part = dp_tensor_slice(input, begin, begin + sizes[i]);
      dp_op_set_output(context, i, &part);
    }
    return NULL;
  }
  int64_t outer = dp_shape_product(&input->shape, 0, axis);
  int64_t row = dp_shape_product(&input->shape, axis, input->shape.rank);
  int64_t below = dp_shape_product(&input->shape, axis + 1, input->shape.rank);
  const char *from = input->data;
  for (int32_t i = 0; i < count; ++i) {
    dp_shape shape = dp_shape_with(&input->shape, axis, sizes[i]);
    dp_tensor *output;
    DP_RETURN_IF_ERROR(dp_op_allocate(context, i, &shape, &output));
    int64_t inner = sizes[i] * below;
    dp_move move;
    dp_move_init(&move, input->dtype);
    dp_move_add(&move, outer, row, inner);
    dp_move_add(&move, inner, 1, 1);
    dp_move_run(context, &move, output->data, from);
    from += inner * (int64_t)dp_dtype_size(input->dtype);
  }
  return NULL;
}

static dp_status *split_axis(const dp_tensor *axis_tensor, const dp_tensor *input, int *axis_out) {
  int64_t wanted = dp_tensor_int_at(axis_tensor, 0);
  int rank = input->shape.rank;
  if (!dp_kernel_normalize_axis(wanted, rank, axis_out))
    return DP_INVALID("-input rank(-%d) <= split_dim < input rank (%d), but got %lld", rank, rank,
                      (long long)wanted);
  return NULL;
}

static dp_status *split_even(dp_op_context *context, void *state) {
  const dp_tensor *axis_tensor = dp_op_input(context, 0), *input = dp_op_input(context, 1);
  if (axis_tensor->shape.rank != 0)
    return DP_INVALID("split_dim must be a scalar but has rank %d", axis_tensor->shape.rank);
  int axis;
  DP_RETURN_IF_ERROR(split_axis(axis_tensor, input, &axis));
  int32_t count = context->output_count;
  int64_t size = input->shape.dims[axis];
  if (size % count != 0)
    return DP_INVALID("Number of ways to split should evenly divide the split dimension, but got "
                      "split_dim %d (size = %lld) and num_split %d",
                      axis, (long long)size, count);
  if (count == 1) {
    dp_op_pass(context, 1, 0);
    return NULL;
  }
  int64_t few[FEW_PARTS], *sizes = count > FEW_PARTS ? DP_NEW_ARRAY(int64_t, count) : few;
  for (int32_t i = 0; i < count; ++i)
    sizes[i] = size / count;
  dp_status *status = split(context, input, axis, sizes);
  if (sizes != few)
    dp_free(sizes);
  return status;
}

static dp_status *read_split_sizes(const dp_tensor *tensor, int32_t count, int64_t size,
                                   int64_t *sizes) {
  int32_t unknown = -1;
  int64_t known = 0;
  for (int32_t i = 0; i < count; ++i) {
    sizes[i] = dp_tensor_int_at(tensor, i);
    if (sizes[i] == -1) {
      if (unknown >= 0)
        return DP_INVALID("There can only be one -1 in the input.");
      unknown = i;
    } else {
      known += sizes[i];
    }
  }
  if (unknown < 0 ? known != size : known > size)
    return DP_INVALID("Determined shape must either match input shape along split_dim exactly if "
                      "fully specified, or be less than the size of the input along split_dim if "
                      "not fully specified.  Got: %lld",
                      (long long)known);
  if (unknown >= 0)
    sizes[unknown] = size - known;
  for (int32_t i = 0; i < count; ++i)
    if (sizes[i] < 0 || sizes[i] > size)
      return DP_INVALID("Split size at index %d must be >= 0. Got: %lld", i, (long long)sizes[i]);
  return NULL;
}

static dp_status *split_sizes(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0), *sizes_tensor = dp_op_input(context, 1);
  const dp_tensor *axis_tensor = dp_op_input(context, 2);
  int32_t count = context->output_count;
  if (dp_tensor_elements(axis_tensor) != 1)
    return DP_INVALID("split_dim_tensor must have exactly one element.");
  if (sizes_tensor->shape.rank != 1 || dp_tensor_elements(sizes_tensor) != count)
    return DP_INVALID("size of the split_tensor must be 1-D and have the same elements as outputs "
                      "got %d -D and %lld elements",
                      sizes_tensor->shape.rank, (long long)dp_tensor_elements(sizes_tensor));
  int axis;
  DP_RETURN_IF_ERROR(split_axis(axis_tensor, input, &axis));
  int64_t size = input->shape.dims[axis];
  if (count == 1) {
    int64_t only = dp_tensor_int_at(sizes_tensor, 0);
    if (only != size)
      return DP_INVALID("If there is only one output, it must have the same size as the input. "
                        "Input size: %lld output size: %lld",
                        (long long)size, (long long)only);
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  int64_t few[FEW_PARTS], *sizes = count > FEW_PARTS ? DP_NEW_ARRAY(int64_t, count) : few;
  dp_status *status = read_split_sizes(sizes_tensor, count, size, sizes);
  if (!status)
    status = split(context, input, axis, sizes);
  if (sizes != few)
    dp_free(sizes);
  return status;
}

/* ---- Unpack ---- */
/* Along dimension 0 the parts share the input's memory, aligned or not: a part is one row, and
 * there may be thousands. One atomic addition counts all their references. */
static void share_rows(dp_op_context *context, const dp_tensor *input) {
  int32_t count = context->output_count, rank = input->shape.rank - 1;
  if (count == 0)
    return;
  int64_t elements = dp_tensor_elements(input) / count;
  size_t bytes = (size_t)elements * dp_dtype_size(input->dtype);
  if (input->buffer)
    atomic_fetch_add_explicit(&input->buffer->references.count, count, memory_order_relaxed);
  for (int32_t i = 0; i < count; ++i) {
    dp_tensor *part = &context->outputs[i].tensor;
    part->dtype = input->dtype;
    part->buffer = input->buffer;
    part->data = (char *)input->data + (size_t)i * bytes;
    part->shape.rank = rank;
    part->shape.elements = elements;
    for (int32_t axis = 0; axis < rank; ++axis)
      part->shape.dims[axis] = input->shape.dims[axis + 1];
  }
}

static dp_status *unpack_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t wanted = *(const int64_t *)state;
  int axis, rank = input->shape.rank;
  int32_t count = context->output_count;
  if (!dp_kernel_normalize_axis(wanted, rank, &axis))
    return DP_INVALID("axis = %lld not in [%d, %d)", (long long)wanted, -rank, rank);
  if (input->shape.dims[axis] != count)
    return DP_INVALID("Input shape axis %d must equal %d, got shape %s", axis, count,
                      dp_shape_text(&input->shape));
  if (axis == 0) {
    share_rows(context, input);
    return NULL;
  }
  dp_shape shape = dp_shape_remove(&input->shape, axis);
  int64_t outer = dp_shape_product(&shape, 0, axis);
  int64_t inner = dp_shape_product(&shape, axis, shape.rank);
  size_t bytes = (size_t)inner * dp_dtype_size(input->dtype);
  for (int32_t i = 0; i < count; ++i) {
    dp_tensor *output;
    DP_RETURN_IF_ERROR(dp_op_allocate(context, i, &shape, &output));
    dp_move move;
    dp_move_init(&move, input->dtype);
    dp_move_add(&move, outer, inner * count, inner);
    dp_move_add(&move, inner, 1, 1);
    dp_move_run(context, &move, output->data, (const char *)input->data + (size_t)i * bytes);
  }
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "Concat", .compute = concat_v1},
    {.op = "ConcatV2", .compute = concat_v2},
    {.op = "ParallelConcat", .compute = concat_parallel},
    {.op = "ConcatOffset", .flags = DP_KERNEL_CHEAP, .compute = concat_offset},
    {.op = "Pack", .state_size = sizeof(int64_t), .create = axis_create, .compute = pack_compute},
    {.op = "Split", .compute = split_even},
    {.op = "SplitV", .compute = split_sizes},
    {.op = "Unpack",
     .state_size = sizeof(int64_t),
     .create = axis_create,
     .compute = unpack_compute},
};
DP_KERNEL_FAMILY(array_join, rows);
