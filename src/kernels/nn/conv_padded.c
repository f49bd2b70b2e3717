/* FusedPadConv2D and FusedResizeAndPadConv2D: a convolution of an image whose edges are extended by
 * mirroring; the second op resizes the image bilinearly before that. The larger image is made
 * first, then convolved as in Conv2D. One difference: for a batch, TensorFlow convolves the first
 * image again and again; we convolve each image. */
#include "kernels/shared/family.h"

#include <math.h>
#include "kernels/products/conv.h"

typedef struct padded_state {
  dp_conv_state conv;
  bool resizes, align_corners;
  int64_t offset; /* 1: the edge itself is not repeated (REFLECT) */
} padded_state;

static dp_status *padded_create(const dp_kernel_setup *setup, void *memory) {
  padded_state *state = memory;
  dp_view mode;
  DP_RETURN_IF_ERROR(dp_conv_create(setup, &state->conv));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "mode", &mode));
  state->offset = mode.length > 0 && mode.data[0] == 'R';
  state->resizes = dp_node_is(setup->node, "FusedResizeAndPadConv2D");
  if (!state->resizes)
    return NULL;
  return dp_node_get_bool(setup->node, "resize_align_corners", &state->align_corners);
}

/* ---- One dimension of the larger image ---- */
/* For each position: the two source positions, and the weight of the second. */
typedef struct side {
  int64_t count;
  dp_buffer *buffer;
  int64_t *low, *high;
  float *share;
} side;

static void side_deinit(side *side) {
  dp_buffer_release(side->buffer);
}

static float scale_of(const padded_state *state, int64_t from, int64_t to) {
  if (state->align_corners && to > 1)
    return (float)(from - 1) / (float)(to - 1);
  return (float)from / (float)to;
}

/* The source of position `at` in a row of `size` that is mirrored, with `before` positions in
 * front. */
static int64_t mirrored(const padded_state *state, int64_t at, int64_t before, int64_t size) {
  at -= before;
  if (at < 0)
    return -at - 1 + state->offset;
  return at < size ? at : 2 * size - 1 - state->offset - at;
}

static dp_status *side_init(side *side, const padded_state *state, int64_t from, int64_t to,
                            int64_t before, int64_t after) {
  side->count = before + to + after;
  size_t count = (size_t)side->count;
  DP_RETURN_IF_ERROR(
      dp_buffer_create(count * (2 * sizeof(int64_t) + sizeof(float)), &side->buffer));
  side->low = side->buffer->data;
  side->high = side->low + count;
  side->share = (float *)(side->high + count);
  float scale = scale_of(state, from, to);
  for (int64_t i = 0; i < side->count; ++i) {
    float place = (float)mirrored(state, i, before, to) * scale;
    int64_t low = (int64_t)floorf(place);
    low = low < from ? low : from - 1;
    side->low[i] = low;
    side->high[i] = low + 1 < from ? low + 1 : from - 1;
    side->share[i] = place - floorf(place);
  }
  return NULL;
}

/* ---- The larger image ---- */
typedef struct enlarge_call {
  const dp_tensor *from;
  dp_tensor *to;
  const side *rows, *columns;
} enlarge_call;

#define BLEND(type, read, write)                                                                   \
  for (int64_t i = 0; i < channels; ++i) {                                                         \
    type a = read(corners[0], i), b = read(corners[1], i);                                         \
    type c = read(corners[2], i), d = read(corners[3], i);                                         \
    type top = a + (b - a) * (type)x, bottom = c + (d - c) * (type)x;                              \
    write(to, i, top + (bottom - top) * (type)y);                                                  \
  }
#define READ_FLOAT(p, i) ((const float *)(p))[i]
#define READ_DOUBLE(p, i) ((const double *)(p))[i]
#define READ_HALF(p, i) dp_half_to_float(((const uint16_t *)(p))[i])
#define READ_BFLOAT16(p, i) dp_bfloat16_to_float(((const uint16_t *)(p))[i])
#define WRITE_FLOAT(p, i, v) ((float *)(p))[i] = (v)
#define WRITE_DOUBLE(p, i, v) ((double *)(p))[i] = (v)
#define WRITE_HALF(p, i, v) ((uint16_t *)(p))[i] = dp_half_from_float(v)
#define WRITE_BFLOAT16(p, i, v) ((uint16_t *)(p))[i] = dp_bfloat16_from_float(v)

/* A pixel between four corners: top left, top right, bottom left, bottom right. */
static void blend(dp_dtype dtype, const void *const corners[4], float x, float y, void *to,
                  int64_t channels) {
  switch (dtype) {
  case DP_FLOAT:
    BLEND(float, READ_FLOAT, WRITE_FLOAT)
    break;
  case DP_DOUBLE:
    BLEND(double, READ_DOUBLE, WRITE_DOUBLE)
    break;
  case DP_HALF:
    BLEND(float, READ_HALF, WRITE_HALF)
    break;
  default:
    BLEND(float, READ_BFLOAT16, WRITE_BFLOAT16)
  }
}

/* Rows [begin, end), counted over all images. */
static void enlarge_rows(void *arg, int64_t begin, int64_t end) {
  const enlarge_call *call = arg;
  const int64_t *dims = call->from->shape.dims;
  const side *columns = call->columns;
  size_t pixel = (size_t)dims[3] * dp_dtype_size(call->from->dtype);
  size_t line = (size_t)dims[2] * pixel;
  char *to = (char *)call->to->data + (size_t)(begin * columns->count) * pixel;
  for (int64_t at = begin; at < end; ++at) {
    int64_t image = at / call->rows->count, y = at % call->rows->count;
    const char *top =
        (const char *)call->from->data + (size_t)(image * dims[1] + call->rows->low[y]) * line;
    const char *bottom = top + (size_t)(call->rows->high[y] - call->rows->low[y]) * line;
    for (int64_t x = 0; x < columns->count; ++x, to += pixel) {
      size_t left = (size_t)columns->low[x] * pixel, right = (size_t)columns->high[x] * pixel;
      const void *corners[4] = {top + left, top + right, bottom + left, bottom + right};
      blend(call->from->dtype, corners, columns->share[x], call->rows->share[y], to, dims[3]);
    }
  }
}

/* ---- Checks ---- */
static dp_status *read_size(const padded_state *state, dp_op_context *context, int64_t *size) {
  const dp_tensor *input = dp_op_input(context, 0);
  size[0] = input->shape.dims[1];
  size[1] = input->shape.dims[2];
  if (!state->resizes)
    return NULL;
  const dp_tensor *wanted = dp_op_input(context, 1);
  if (wanted->shape.rank != 1)
    return DP_INVALID("shape_t must be 1-dimensional%s", dp_shape_text(&wanted->shape));
  if (wanted->shape.elements != 2)
    return DP_INVALID("shape_t must have two elements%s", dp_shape_text(&wanted->shape));
  size[0] = dp_tensor_int_at(wanted, 0);
  size[1] = dp_tensor_int_at(wanted, 1);
  if (size[0] <= 0 || size[1] <= 0)
    return DP_INVALID("output dimensions must be positive");
  return NULL;
}

static dp_status *check_padding(const padded_state *state, int64_t before, int64_t after,
                                int64_t size) {
  if (before < 0 || after < 0)
    return DP_INVALID("paddings must be non-negative: %lld %lld", (long long)before,
                      (long long)after);
  if (!state->offset && (before > size || after > size))
    return DP_INVALID("paddings must be no greater than the dimension size: %lld, %lld greater "
                      "than %lld",
                      (long long)before, (long long)after, (long long)size);
  if (state->offset && (before >= size || after >= size))
    return DP_INVALID("paddings must be less than the dimension size: %lld, %lld not less than "
                      "%lld",
                      (long long)before, (long long)after, (long long)size);
  return NULL;
}

static dp_status *read_paddings(const padded_state *state, const dp_tensor *paddings,
                                const dp_shape *shape, int64_t pairs[4][2]) {
  if (paddings->shape.rank != 2 || paddings->shape.dims[1] != 2)
    return DP_INVALID("paddings must be a matrix with 2 columns: %s",
                      dp_shape_text(&paddings->shape));
  if (paddings->shape.dims[0] != 4)
    return DP_INVALID("The first dimension of paddings must be the rank of inputs: 4 %s %s",
                      dp_shape_text(&paddings->shape), dp_shape_text(shape));
  for (int i = 0; i < 4; ++i) {
    pairs[i][0] = dp_tensor_int_at(paddings, 2 * i);
    pairs[i][1] = dp_tensor_int_at(paddings, 2 * i + 1);
    DP_RETURN_IF_ERROR(check_padding(state, pairs[i][0], pairs[i][1], shape->dims[i]));
  }
  if (pairs[0][0] || pairs[0][1])
    return DP_INVALID("Fused mirror padding only support spatial padding, not batches");
  if (pairs[3][0] || pairs[3][1])
    return DP_INVALID("Fused mirror padding only support spatial padding, not channels");
  return NULL;
}

/* ---- The op ---- */
static dp_status *convolve(dp_op_context *context, const padded_state *state, const side *rows,
                           const side *columns) {
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_tensor *filter = dp_op_input(context, context->input_count - 1);
  int64_t dims[4] = {input->shape.dims[0], rows->count, columns->count, input->shape.dims[3]};
  dp_shape shape, output;
  dp_conv conv;
  dp_tensor image;
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, &shape));
  if (filter->shape.rank == 4 && filter->shape.dims[2] != dims[3])
    return DP_INVALID("input and filter must have the same depth: %lld vs %lld", (long long)dims[3],
                      (long long)filter->shape.dims[2]);
  DP_RETURN_IF_ERROR(dp_conv_plan(&state->conv, &shape, &filter->shape, &conv, &output));
  DP_RETURN_IF_ERROR(dp_tensor_create(input->dtype, &shape, &image));
  enlarge_call call = {.from = input, .to = &image, .rows = rows, .columns = columns};
  dp_op_for(context, dims[0] * dims[1], dims[2] * dims[3] * 4, enlarge_rows, &call);
  dp_status *status =
      dp_conv_run(context, &state->conv, &conv, dp_conv_forward, &image, filter, &output);
  dp_tensor_deinit(&image);
  return status;
}

static dp_status *padded_compute(dp_op_context *context, void *memory) {
  const padded_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t size[2], pairs[4][2];
  if (input->shape.rank != 4)
    return DP_INVALID("input must be 4-dimensional%s", dp_shape_text(&input->shape));
  if (input->shape.elements == 0)
    return DP_INVALID("Input tensor can't be empty");
  DP_RETURN_IF_ERROR(read_size(state, context, size));
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(
      4, (int64_t[]){input->shape.dims[0], size[0], size[1], input->shape.dims[3]}, &shape));
  DP_RETURN_IF_ERROR(
      read_paddings(state, dp_op_input(context, context->input_count - 2), &shape, pairs));
  side rows = {0}, columns = {0};
  dp_status *status =
      side_init(&rows, state, input->shape.dims[1], size[0], pairs[1][0], pairs[1][1]);
  if (!status)
    status = side_init(&columns, state, input->shape.dims[2], size[1], pairs[2][0], pairs[2][1]);
  if (!status)
    status = convolve(context, state, &rows, &columns);
  side_deinit(&rows);
  side_deinit(&columns);
  return status;
}

#define PADDED(name, set)                                                                          \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(padded_state),                         \
    .create = padded_create, .compute = padded_compute                                             \
  }
static const dp_kernel rows[] = {
    PADDED("FusedPadConv2D", DP_SET_FLOATS),
    PADDED("FusedResizeAndPadConv2D", DP_SET(HALF) | DP_SET(FLOAT) | DP_SET(DOUBLE)),
};
DP_KERNEL_FAMILY(conv_padded, rows);
