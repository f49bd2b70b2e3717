/* QuantizedMaxPool and QuantizedAvgPool: pooling of codes; the range stays the same. An average is
 * the sum of the codes divided, as integers, by the number of pixels inside the image. */
#include "kernels/shared/family.h"

#include "kernels/quant/quantized_internal.h"
#include "kernels/shared/window.h"

typedef struct pool_state {
  dp_window_attrs attrs;
  bool is_average;
} pool_state;

static dp_status *pool_create(const dp_kernel_setup *setup, void *memory) {
  pool_state *state = memory;
  state->is_average = dp_node_is(setup->node, "QuantizedAvgPool");
  DP_RETURN_IF_ERROR(dp_window_read(setup->node, 4, &state->attrs));
  const dp_window_values *sizes = &state->attrs.sizes, *strides = &state->attrs.strides;
  if (sizes->batch != 1 || strides->batch != 1)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Pooling is not yet supported on the batch dimension.");
  if (sizes->depth != 1 || strides->depth != 1)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Non-spatial pooling is not yet supported. Volunteers? :)");
  return NULL;
}

typedef struct pool_call {
  const pool_state *state;
  const dp_tensor *from;
  dp_tensor *to;
  dp_window height, width;
} pool_call;

/* One pixel of the result, for one channel. */
static int64_t pool_window(const pool_call *call, int64_t image, int64_t y, int64_t x,
                           int64_t channel) {
  const int64_t *dims = call->from->shape.dims;
  int64_t sum = 0, count = 0, most = dp_quantized_lowest(call->from->dtype);
  for (int64_t i = dp_window_first(&call->height, y); i < dp_window_last(&call->height, y); ++i) {
    for (int64_t j = dp_window_first(&call->width, x); j < dp_window_last(&call->width, x); ++j) {
      int64_t at = ((image * dims[1] + i) * dims[2] + j) * dims[3] + channel;
      int64_t code = dp_quantized_load(call->from, at);
      sum += code;
      most = code > most ? code : most;
      ++count;
    }
  }
  return !call->state->is_average ? most : count ? sum / count : 0;
}

/* Rows [begin, end) of all images of the result. */
static void pool_rows(void *arg, int64_t begin, int64_t end) {
  const pool_call *call = arg;
  int64_t channels = call->from->shape.dims[3];
  int64_t at = begin * call->width.out * channels;
  for (int64_t row = begin; row < end; ++row) {
    int64_t image = row / call->height.out, y = row % call->height.out;
    for (int64_t x = 0; x < call->width.out; ++x)
      for (int64_t channel = 0; channel < channels; ++channel)
        dp_quantized_store(call->to, at++, pool_window(call, image, y, x, channel));
  }
}

static dp_status *pool_compute(dp_op_context *context, void *memory) {
  const pool_state *state = memory;
  pool_call call = {.state = state, .from = dp_op_input(context, 0)};
  const dp_shape *in = &call.from->shape;
  const int64_t *sizes = state->attrs.sizes.spatial;
  dp_quantized_range range;
  dp_shape shape;
  if (in->rank != 4)
    return DP_INVALID("tensor_in must be 4-dimensional");
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 1, &range));
  DP_RETURN_IF_ERROR(dp_window_plan(&state->attrs, 1, in->dims[1], sizes[1], &call.height));
  DP_RETURN_IF_ERROR(dp_window_plan(&state->attrs, 2, in->dims[2], sizes[2], &call.width));
  DP_RETURN_IF_ERROR(dp_shape_make(
      4, (int64_t[]){in->dims[0], call.height.out, call.width.out, in->dims[3]}, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &call.to));
  dp_op_for(context, in->dims[0] * call.height.out,
            call.width.out * in->dims[3] * sizes[1] * sizes[2] * 2, pool_rows, &call);
  return dp_quantized_write_range(context, 1, range);
}

#define POOL(name)                                                                                 \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET(QUINT8) | DP_SET(QINT8)}},                                  \
    .state_size = sizeof(pool_state), .create = pool_create, .compute = pool_compute               \
  }
static const dp_kernel rows[] = {POOL("QuantizedMaxPool"), POOL("QuantizedAvgPool")};
DP_KERNEL_FAMILY(quantized_pool, rows);
