/* Pad and PadV2 (with a constant), MirrorPad (with mirrored elements), and the gradients
 * MirrorPadGrad and TileGrad, which sum the copies of each element. */
#include "kernels/shared/combine.h"
#include "kernels/shared/family.h"

typedef struct paddings {
  int64_t before[DP_MAX_RANK], after[DP_MAX_RANK];
  bool is_empty; /* no padding anywhere */
} paddings;

/* The wording of an op's errors: the first letter of the sentence, and the text between two
 * numbers. */
typedef struct padding_words {
  const char *paddings, *between;
} padding_words;
static const padding_words plain_words = {"Paddings", " "};
static const padding_words mirror_words = {"paddings", " "};
static const padding_words gradient_words = {"Paddings", ", "};

static dp_status *read_paddings(const dp_tensor *tensor, const dp_shape *input,
                                const padding_words *words, paddings *paddings_out) {
  if (tensor->shape.rank != 2 || tensor->shape.dims[1] != 2)
    return DP_INVALID("paddings must be a matrix with 2 columns: %s",
                      dp_shape_text(&tensor->shape));
  if (tensor->shape.dims[0] != input->rank)
    return DP_INVALID("The first dimension of paddings must be the rank of inputs%s %s",
                      dp_shape_text(&tensor->shape), dp_shape_text(input));
  paddings_out->is_empty = true;
  for (int i = 0; i < input->rank; ++i) {
    int64_t before = dp_tensor_int_at(tensor, 2 * i), after = dp_tensor_int_at(tensor, 2 * i + 1);
    if (before < 0 || after < 0)
      return DP_INVALID("%s must be non-negative: %lld%s%lld", words->paddings, (long long)before,
                        words->between, (long long)after);
    if (before > INT64_MAX / 4 || after > INT64_MAX / 4)
      return DP_INVALID("Paddings are too large: %lld %lld", (long long)before, (long long)after);
    paddings_out->before[i] = before;
    paddings_out->after[i] = after;
    paddings_out->is_empty &= before == 0 && after == 0;
  }
  return NULL;
}

static dp_status *padded_shape(const dp_shape *input, const paddings *paddings,
                               dp_shape *shape_out) {
  int64_t dims[DP_MAX_RANK];
  for (int i = 0; i < input->rank; ++i)
    dims[i] = input->dims[i] + paddings->before[i] + paddings->after[i];
  return dp_shape_make(input->rank, dims, shape_out);
}

/* ---- Constant ---- */
/* Fills the padding, one dimension after the other from the outermost, each only over the part that
 * no earlier dimension has filled. */
static void fill_border(dp_op_context *context, dp_tensor *output, const dp_shape *input,
                        const paddings *paddings, const void *value) {
  const dp_shape *shape = &output->shape;
  int64_t strides[DP_MAX_RANK], size = (int64_t)dp_dtype_size(output->dtype), inside = 0;
  dp_move_strides(shape, strides);
  for (int axis = 0; axis < shape->rank; ++axis) {
    for (int side = 0; side < 2; ++side) {
      int64_t count = side ? paddings->after[axis] : paddings->before[axis];
      int64_t offset =
          inside + (side ? (paddings->before[axis] + input->dims[axis]) * strides[axis] : 0);
      dp_move move;
      dp_move_init(&move, output->dtype);
      for (int i = 0; i < axis; ++i)
        dp_move_add(&move, input->dims[i], 0, strides[i]);
      dp_move_add(&move, count * strides[axis], 0, 1);
      if (count > 0)
        dp_move_run(context, &move, (char *)output->data + offset * size, value);
    }
    inside += paddings->before[axis] * strides[axis];
  }
}

static dp_status *pad_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  paddings paddings;
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(
      read_paddings(dp_op_input(context, 1), &input->shape, &plain_words, &paddings));
  DP_RETURN_IF_ERROR(padded_shape(&input->shape, &paddings, &shape));
  static const uint64_t zero[4];
  const void *value = zero; /* also means an empty string, an unset handle */
  if (context->input_count == 3) {
    const dp_tensor *constant = dp_op_input(context, 2);
    if (constant->shape.rank != 0)
      return DP_INVALID("constant_values must be a scalar. Found: %s",
                        dp_shape_text(&constant->shape));
    value = constant->data;
  }
  if (paddings.is_empty) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (input->shape.elements == 0) {
    dp_move_fill(context, output->dtype, output->data, value, shape.elements);
    return NULL;
  }
  fill_border(context, output, &input->shape, &paddings, value);
  int64_t from[DP_MAX_RANK], to[DP_MAX_RANK], offset = 0;
  dp_move_strides(&input->shape, from);
  dp_move_strides(&shape, to);
  dp_move move;
  dp_move_init(&move, output->dtype);
  for (int i = 0; i < shape.rank; ++i) {
    offset += paddings.before[i] * to[i];
    dp_move_add(&move, input->shape.dims[i], from[i], to[i]);
  }
  dp_move_run(context, &move, (char *)output->data + offset * (int64_t)dp_dtype_size(output->dtype),
              input->data);
  return NULL;
}

/* ---- Mirror ---- */
typedef struct mirror_state {
  int64_t offset; /* 1: the border itself is not repeated (REFLECT) */
  dp_combine combine;
} mirror_state;

static dp_status *mirror_create(const dp_kernel_setup *setup, void *memory) {
  mirror_state *state = memory;
  dp_view mode;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "mode", &mode));
  if (!dp_view_equals(mode, "REFLECT") && !dp_view_equals(mode, "SYMMETRIC"))
    return DP_INVALID("mode must be either REFLECT or SYMMETRIC.");
  state->offset = dp_view_equals(mode, "REFLECT");
  if (!dp_node_is(setup->node, "MirrorPadGrad"))
    return NULL;
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_kernel_type(setup, "T", &dtype));
  return dp_combine_init(&state->combine, DP_COMBINE_ADD, dtype);
}

static dp_status *check_mirror(const mirror_state *state, const paddings *paddings, int i,
                               int64_t size, const char *what) {
  int64_t before = paddings->before[i], after = paddings->after[i];
  if (state->offset == 0 && (before > size || after > size))
    return DP_INVALID("paddings must be no greater than the %sdimension size: %lld, %lld greater "
                      "than %lld",
                      what, (long long)before, (long long)after, (long long)size);
  if (state->offset == 1 && (before >= size || after >= size))
    return DP_INVALID("paddings must be less than the %sdimension size: %lld, %lld not less than "
                      "%lld",
                      what, (long long)before, (long long)after, (long long)size);
  return NULL;
}

/* Which of `size` elements is at position `index` of the padded dimension. */
static int64_t mirrored(int64_t index, int64_t before, int64_t size, int64_t offset) {
  index -= before;
  if (index < 0)
    return -index - 1 + offset;
  return index < size ? index : 2 * size - 1 - offset - index;
}

typedef struct mirror_axis {
  const char *from;
  char *to;
  const dp_combine *combine; /* NULL: copy */
  dp_dtype dtype;
  int64_t size, padded, before, offset;
  int64_t row_elements;
  size_t row_bytes;
} mirror_axis;

static inline void reverse_words(uint32_t *to, const uint32_t *last, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = last[-i];
}

/* Copies `count` rows in reverse order. */
static void copy_backwards(const mirror_axis *axis, char *to, const char *last, int64_t count) {
  if (axis->row_bytes == sizeof(uint32_t)) {
    reverse_words((uint32_t *)to, (const uint32_t *)last, count);
    return;
  }
  size_t size = dp_dtype_size(axis->dtype);
  for (int64_t i = 0; i < count; ++i)
    dp_move_elements(axis->dtype, size, to + (size_t)i * axis->row_bytes,
                     last - (size_t)i * axis->row_bytes, axis->row_elements);
}

/* Rows [begin, end) of the padded side of one outer index: mirrored rows before, the middle,
 * mirrored rows after. */
static void spread_part(const mirror_axis *axis, const char *from, char *to, int64_t begin,
                        int64_t end) {
  size_t row = axis->row_bytes;
  int64_t middle = axis->before, behind = axis->before + axis->size;
  int64_t stop = end < middle ? end : middle;
  if (begin < stop) {
    int64_t source = mirrored(begin, axis->before, axis->size, axis->offset);
    copy_backwards(axis, to, from + (size_t)source * row, stop - begin);
    to += (size_t)(stop - begin) * row;
    begin = stop;
  }
  stop = end < behind ? end : behind;
  if (begin < stop) {
    dp_move_elements(axis->dtype, dp_dtype_size(axis->dtype), to,
                     from + (size_t)(begin - middle) * row, (stop - begin) * axis->row_elements);
    to += (size_t)(stop - begin) * row;
    begin = stop;
  }
  if (begin < end) {
    int64_t source = mirrored(begin, axis->before, axis->size, axis->offset);
    copy_backwards(axis, to, from + (size_t)source * row, end - begin);
  }
}

/* Items are rows of the padded side: (outer, index). */
static void spread_rows(void *arg, int64_t begin, int64_t end) {
  const mirror_axis *axis = arg;
  int64_t outer = begin / axis->padded, index = begin % axis->padded;
  for (int64_t i = begin; i < end; ++outer, index = 0) {
    int64_t stop = end - i < axis->padded - index ? index + end - i : axis->padded;
    spread_part(axis, axis->from + (size_t)(outer * axis->size) * axis->row_bytes,
                axis->to + (size_t)i * axis->row_bytes, index, stop);
    i += stop - index;
  }
}

/* Items are outer indices: each adds the padded rows to the rows they mirror. */
static void fold_rows(void *arg, int64_t begin, int64_t end) {
  const mirror_axis *axis = arg;
  for (int64_t o = begin; o < end; ++o) {
    char *to = axis->to + (size_t)(o * axis->size) * axis->row_bytes;
    const char *from = axis->from + (size_t)(o * axis->padded) * axis->row_bytes;
    memcpy(to, from + (size_t)axis->before * axis->row_bytes, (size_t)axis->size * axis->row_bytes);
    for (int64_t i = 0; i < axis->padded; ++i) {
      if (i >= axis->before && i < axis->before + axis->size)
        continue;
      int64_t target = mirrored(i, axis->before, axis->size, axis->offset);
      dp_status_release(dp_combine_run(axis->combine, to + (size_t)target * axis->row_bytes,
                                       from + (size_t)i * axis->row_bytes, axis->row_elements));
    }
  }
}

/* Changes `current` to a tensor whose dimension `i` has `size`. Called for one dimension after the
 * other, from the innermost. */
static dp_status *mirror_dimension(dp_op_context *context, dp_tensor *current, int i, int64_t size,
                                   int64_t before, const mirror_state *state, bool folds) {
  dp_shape shape = dp_shape_with(&current->shape, i, size);
  dp_tensor next;
  DP_RETURN_IF_ERROR(dp_tensor_create(current->dtype, &shape, &next));
  int64_t inner = dp_shape_product(&shape, i + 1, shape.rank);
  int64_t outer = dp_shape_product(&shape, 0, i);
  mirror_axis axis = {
      .from = current->data,
      .to = next.data,
      .combine = &state->combine,
      .dtype = current->dtype,
      .size = folds ? size : current->shape.dims[i],
      .padded = folds ? current->shape.dims[i] : size,
      .before = before,
      .offset = state->offset,
      .row_elements = inner,
      .row_bytes = (size_t)inner * dp_dtype_size(current->dtype),
  };
  if (folds)
    dp_op_for(context, outer, axis.padded * (inner / 4 + 10), fold_rows, &axis);
  else
    dp_op_for(context, outer * size, inner / 4 + 1, spread_rows, &axis);
  dp_tensor_deinit(current);
  *current = dp_tensor_take(&next);
  return NULL;
}

static dp_status *mirror(dp_op_context *context, const mirror_state *state, bool folds) {
  const dp_tensor *input = dp_op_input(context, 0);
  paddings paddings;
  DP_RETURN_IF_ERROR(read_paddings(dp_op_input(context, 1), &input->shape,
                                   folds ? &gradient_words : &mirror_words, &paddings));
  dp_shape shape = input->shape;
  int64_t dims[DP_MAX_RANK];
  for (int i = 0; i < shape.rank; ++i) {
    int64_t added = paddings.before[i] + paddings.after[i];
    int64_t small = folds ? shape.dims[i] - added : shape.dims[i];
    if (folds && small <= 0)
      return DP_INVALID("Total paddings must be less than the input dimension size: %lld was not "
                        "less than %lld",
                        (long long)added, (long long)shape.dims[i]);
    DP_RETURN_IF_ERROR(check_mirror(state, &paddings, i, small, folds ? "output " : ""));
    dims[i] = folds ? small : small + added;
  }
  dp_shape result = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(shape.rank, dims, &result));
  dp_tensor current = dp_tensor_copy(input);
  for (int i = shape.rank - 1; i >= 0; --i) {
    if (dims[i] == shape.dims[i])
      continue;
    dp_status *status =
        mirror_dimension(context, &current, i, dims[i], paddings.before[i], state, folds);
    if (status) {
      dp_tensor_deinit(&current);
      return status;
    }
  }
  dp_op_set_output(context, 0, &current);
  return NULL;
}

static dp_status *mirror_compute(dp_op_context *context, void *state) {
  return mirror(context, state, false);
}
static dp_status *mirror_gradient_compute(dp_op_context *context, void *state) {
  return mirror(context, state, true);
}

/* ---- TileGrad: sums the copies of each dimension ---- */
static dp_status *tile_create(const dp_kernel_setup *setup, void *state) {
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_kernel_type(setup, "T", &dtype));
  return dp_combine_init(state, DP_COMBINE_ADD, dtype);
}

static dp_status *sum_copies(dp_op_context *context, const dp_combine *combine, dp_tensor *current,
                             int i, int64_t copies) {
  int64_t size = current->shape.dims[i] / copies;
  dp_shape shape = dp_shape_with(&current->shape, i, size);
  dp_tensor next;
  DP_RETURN_IF_ERROR(dp_tensor_create(current->dtype, &shape, &next));
  int64_t outer = dp_shape_product(&shape, 0, i);
  int64_t elements = dp_shape_product(&shape, i, shape.rank);
  size_t bytes = (size_t)elements * combine->size;
  for (int64_t o = 0; o < outer && elements > 0; ++o) {
    char *to = (char *)next.data + (size_t)o * bytes;
    const char *from = (const char *)current->data + (size_t)(o * copies) * bytes;
    memcpy(to, from, bytes);
    for (int64_t copy = 1; copy < copies; ++copy)
      dp_status_release(dp_combine_run(combine, to, from + (size_t)copy * bytes, elements));
  }
  dp_tensor_deinit(current);
  *current = dp_tensor_take(&next);
  return NULL;
}

static dp_status *tile_gradient_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0), *multiples = dp_op_input(context, 1);
  int rank = input->shape.rank;
  if (multiples->shape.rank != 1)
    return DP_INVALID("Expected multiples to be 1-D, but got shape %s",
                      dp_shape_text(&multiples->shape));
  if (dp_tensor_elements(multiples) != rank)
    return DP_INVALID("Expected multiples argument to be a vector of length %d but got length %lld",
                      rank, (long long)dp_tensor_elements(multiples));
  for (int i = 0; i < rank; ++i) {
    int64_t times = dp_tensor_int_at(multiples, i);
    if (times <= 0)
      return DP_INVALID("Expected multiples[%d] > 0, but got %lld", i, (long long)times);
    if (input->shape.dims[i] % times != 0)
      return DP_INVALID("Expected input_dim[%d] to be divisible by multiples[%d], but %lld %% %lld "
                        "!= 0",
                        i, i, (long long)input->shape.dims[i], (long long)times);
  }
  dp_tensor current = dp_tensor_copy(input);
  for (int i = 0; i < rank; ++i) {
    int64_t times = dp_tensor_int_at(multiples, i);
    dp_status *status = times > 1 ? sum_copies(context, state, &current, i, times) : NULL;
    if (status) {
      dp_tensor_deinit(&current);
      return status;
    }
  }
  dp_op_set_output(context, 0, &current);
  return NULL;
}

#define PADDING .types = {{"Tpaddings", DP_SET_INDEX}}
static const dp_kernel rows[] = {
    {.op = "Pad", PADDING, .compute = pad_compute},
    {.op = "PadV2", PADDING, .compute = pad_compute},
    {.op = "MirrorPad",
     PADDING,
     .state_size = sizeof(mirror_state),
     .create = mirror_create,
     .compute = mirror_compute},
    {.op = "MirrorPadGrad",
     PADDING,
     .state_size = sizeof(mirror_state),
     .create = mirror_create,
     .compute = mirror_gradient_compute},
    {.op = "TileGrad",
     .types = {{"Tmultiples", DP_SET_INDEX}, {"T", DP_SET_NUMBERS}},
     .state_size = sizeof(dp_combine),
     .create = tile_create,
     .compute = tile_gradient_compute},
};
DP_KERNEL_FAMILY(array_pad, rows);
