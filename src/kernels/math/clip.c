/* ClipByValue: limits each element to two bounds, which are scalars or have the input's shape. One
 * pass (loops/clip.h). 16-bit floats are widened in blocks on the stack; real and imaginary parts
 * of complex numbers are clipped separately. */
#include "kernels/shared/family.h"

#include "kernels/loops/clip.h"
#include "kernels/shared/support.h"

typedef struct clip_state {
  dp_clip_fn fn;
  dp_dtype dtype;
} clip_state;

static dp_status *clip_create(const dp_kernel_setup *setup, void *memory) {
  clip_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  dp_dtype type = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  state->fn = dp_clip_table()->fn[type];
  return NULL;
}

typedef struct clip_work {
  const clip_state *state;
  dp_clip_span whole;
} clip_work;

static void clip_direct(void *arg, int64_t begin, int64_t end) {
  const clip_work *work = arg;
  int64_t offset = begin * (int64_t)dp_dtype_size(work->state->dtype);
  dp_clip_span span = work->whole;
  span.x = (const char *)span.x + offset;
  span.low = (const char *)span.low + (span.low_moves ? offset : 0);
  span.high = (const char *)span.high + (span.high_moves ? offset : 0);
  span.to = (char *)span.to + offset;
  span.count = end - begin;
  work->state->fn(&span);
}

static void clip_widened(void *arg, int64_t begin, int64_t end) {
  const clip_work *work = arg;
  dp_dtype dtype = work->state->dtype;
  dp_clip_span span = work->whole;
  const uint16_t *from = span.x, *lows = span.low, *highs = span.high;
  uint16_t *to = span.to;
  float x[DP_KERNEL_BLOCK], low[DP_KERNEL_BLOCK], high[DP_KERNEL_BLOCK];
  span.x = span.to = x;
  span.low = low;
  span.high = high;
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    span.count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(dtype, from + i, x, span.count);
    dp_kernel_widen(dtype, lows + (span.low_moves ? i : 0), low, span.low_moves ? span.count : 1);
    dp_kernel_widen(dtype, highs + (span.high_moves ? i : 0), high,
                    span.high_moves ? span.count : 1);
    work->state->fn(&span);
    dp_kernel_narrow(dtype, x, to + i, span.count);
  }
}

/* Complex numbers: real and imaginary parts are clipped separately. */
#define CLIP_PARTS(type)                                                                           \
  static void clip_##type##_parts(void *arg, int64_t begin, int64_t end) {                         \
    const dp_clip_span *span = &((const clip_work *)arg)->whole;                                   \
    const type *x = span->x, *low = span->low, *high = span->high;                                 \
    type *to = span->to;                                                                           \
    for (int64_t i = 2 * begin; i < 2 * end; ++i) {                                                \
      type least = low[span->low_moves ? i : i % 2], most = high[span->high_moves ? i : i % 2];    \
      type middle = x[i] < most ? x[i] : most;                                                     \
      to[i] = middle > least ? middle : least;                                                     \
    }                                                                                              \
  }
CLIP_PARTS(float)
CLIP_PARTS(double)

static dp_range_fn clip_body(dp_dtype dtype) {
  if (dtype == DP_COMPLEX64)
    return clip_float_parts;
  if (dtype == DP_COMPLEX128)
    return clip_double_parts;
  return dp_kernel_is_short_float(dtype) ? clip_widened : clip_direct;
}

static dp_status *clip_compute(dp_op_context *context, void *memory) {
  const clip_state *state = memory;
  const dp_tensor *x = dp_op_input(context, 0);
  const dp_tensor *low = dp_op_input(context, 1), *high = dp_op_input(context, 2);
  for (int32_t i = 1; i < 3; ++i) {
    const dp_tensor *bound = dp_op_input(context, i);
    if (bound->shape.rank != 0 && !dp_shape_equal(&bound->shape, &x->shape))
      return DP_INVALID("clip_value_min and clip_value_max must be either of the same shape as "
                        "input, or a scalar. input shape: %sclip_value_min shape: %s"
                        "clip_value_max shape: %s",
                        dp_shape_text(&x->shape), dp_shape_text(&low->shape),
                        dp_shape_text(&high->shape));
  }
  clip_work work = {.state = state,
                    .whole = {.x = x->data,
                              .low = low->data,
                              .high = high->data,
                              .low_moves = low->shape.rank > 0,
                              .high_moves = high->shape.rank > 0}};
  dp_shape shape = x->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  work.whole.to = output->data;
  dp_kernel_for(context, shape.elements, 250, clip_body(state->dtype), &work);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "ClipByValue",
     .types = {{"T", DP_SET_NUMBERS}},
     .state_size = sizeof(clip_state),
     .create = clip_create,
     .compute = clip_compute},
};
DP_KERNEL_FAMILY(clip, rows);
