/* QuantizedResizeBilinear: codes are blended as they are, because a range changes nothing about it.
 * Weights are fixed-point numbers of 7 bits for bytes and of 30 bits for 32-bit codes, cut off
 * where TensorFlow cuts them off, and wide codes have the precision of floats, as there; floats are
 * blended as floats. Rows are shared out over the pool. */
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/quant/quantized_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/pixels.h"

typedef struct resize_state {
  bool align_corners, half_pixel_centers;
} resize_state;

/* The two neighbours of a place of the result, and how much of the second there is in it. */
typedef struct blend {
  int64_t lower, upper;
  float share;
  int32_t fixed;
} blend;

typedef struct resize_call {
  const dp_tensor *from;
  dp_tensor *to;
  dp_image_sizes sizes;
  int bits;
  blend *rows, *columns;
} resize_call;

static dp_status *create(const dp_kernel_setup *setup, void *memory) {
  resize_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "align_corners", &state->align_corners));
  return dp_node_get_bool(setup->node, "half_pixel_centers", &state->half_pixel_centers);
}

static blend *make_blends(const resize_state *state, int64_t from, int64_t to, int bits) {
  float scale = dp_image_scale(from, to, state->align_corners);
  blend *blends = dp_try_malloc((size_t)to * sizeof(blend));
  for (int64_t i = 0; blends && i < to; ++i) {
    float place = state->half_pixel_centers ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
    float floor = floorf(place);
    int64_t lower = floor > 0 ? (int64_t)floor : 0, upper = (int64_t)ceilf(place);
    blend *blend = &blends[i];
    blend->upper = upper < from ? upper : from - 1;
    blend->lower = lower < blend->upper ? lower : blend->upper;
    blend->share = place - floor;
    blend->fixed = (int32_t)(blend->share * (float)(1 << bits));
  }
  return blends;
}

static int32_t blend_codes(const int64_t codes[4], const blend *row, const blend *column,
                           int bits) {
  int64_t one = INT64_C(1) << bits;
  int64_t top = codes[0] * one + (codes[1] - codes[0]) * column->fixed;
  int64_t bottom = codes[2] * one + (codes[3] - codes[2]) * column->fixed;
  int64_t code = top + (bottom - top) / one * row->fixed;
  return (int32_t)((code + one / 2) / one);
}

static float blend_floats(const float values[4], const blend *row, const blend *column) {
  float top = values[0] + (values[1] - values[0]) * column->share;
  float bottom = values[2] + (values[3] - values[2]) * column->share;
  return top + (bottom - top) * row->share;
}

static void blend_one(const resize_call *call, const int64_t places[4], int64_t to,
                      const blend *row, const blend *column) {
  if (call->from->dtype == DP_FLOAT) {
    float values[4];
    for (int i = 0; i < 4; ++i)
      values[i] = ((const float *)call->from->data)[places[i]];
    ((float *)call->to->data)[to] = blend_floats(values, row, column);
    return;
  }
  int64_t codes[4];
  for (int i = 0; i < 4; ++i)
    codes[i] = (int64_t)(float)dp_quantized_load(call->from, places[i]);
  dp_quantized_store(call->to, to, blend_codes(codes, row, column, call->bits));
}

static void blend_rows(void *arg, int64_t begin, int64_t end) {
  const resize_call *call = arg;
  const dp_image_sizes *sizes = &call->sizes;
  int64_t channels = sizes->channels, width = sizes->width * channels;
  for (int64_t y = begin; y < end; ++y) {
    const blend *row = &call->rows[y % sizes->to_height];
    int64_t image = y / sizes->to_height * sizes->height;
    int64_t upper = (image + row->lower) * width, lower = (image + row->upper) * width;
    for (int64_t x = 0; x < sizes->to_width; ++x) {
      const blend *column = &call->columns[x];
      int64_t left = column->lower * channels, right = column->upper * channels;
      for (int64_t c = 0; c < channels; ++c)
        blend_one(
            call,
            (int64_t[]){upper + left + c, upper + right + c, lower + left + c, lower + right + c},
            (y * sizes->to_width + x) * channels + c, row, column);
    }
  }
}

static dp_status *resize(dp_op_context *context, const resize_state *state, resize_call *call) {
  const dp_image_sizes *sizes = &call->sizes;
  if (sizes->to_height == sizes->height && sizes->to_width == sizes->width) {
    memcpy(call->to->data, call->from->data, dp_tensor_bytes(call->from));
    return NULL;
  }
  call->bits = call->from->dtype == DP_QUINT8 ? 7 : 30;
  call->rows = make_blends(state, sizes->height, sizes->to_height, call->bits);
  call->columns = make_blends(state, sizes->width, sizes->to_width, call->bits);
  bool fits = call->rows && call->columns;
  if (fits)
    dp_op_for(context, sizes->batch * sizes->to_height, 10 * sizes->to_width * sizes->channels,
              blend_rows, call);
  dp_free(call->rows);
  dp_free(call->columns);
  return fits ? NULL : dp_status_out_of_memory();
}

static dp_status *compute(dp_op_context *context, void *memory) {
  resize_call call = {.from = dp_op_input(context, 0)};
  dp_shape shape = {0};
  for (int32_t i = 2; i <= 3; ++i)
    if (dp_op_input(context, i)->shape.rank != 0)
      return DP_INVALID("%s must be a scalar", i == 2 ? "min" : "max");
  DP_RETURN_IF_ERROR(dp_image_read_sizes(context, &call.sizes));
  const dp_image_sizes *sizes = &call.sizes;
  int64_t dims[4] = {sizes->batch, sizes->to_height, sizes->to_width, sizes->channels};
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &call.to));
  if (shape.elements > 0)
    DP_RETURN_IF_ERROR(resize(context, memory, &call));
  dp_op_pass(context, 2, 1);
  dp_op_pass(context, 3, 2);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "QuantizedResizeBilinear",
     .types = {{"T", DP_SET(QUINT8) | DP_SET(QINT32) | DP_SET(FLOAT)}},
     .state_size = sizeof(resize_state),
     .create = create,
     .compute = compute},
};
DP_KERNEL_FAMILY(quantized_resize, rows);
