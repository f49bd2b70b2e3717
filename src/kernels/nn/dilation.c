/* Grey dilation of images and its gradients. Dilation2D gives, per window, the largest sum of a
 * pixel and the filter's value at that place; padding is ignored. A gradient goes to the first
 * place that has the largest sum. 16-bit floats are widened, but sums are rounded before they are
 * compared, so that sums that are equal in 16 bits stay equal. */
#include "kernels/shared/family.h"

#include <float.h>
#include <string.h>
#include "kernels/isa/isa.h"
#include "kernels/shared/widen.h"
#include "kernels/shared/window.h"

#define CHANNELS 64 /* channels that a gradient handles together */

typedef struct dilation_call {
  const void *in, *filter, *out; /* in gradients, `out` is the gradient of the output */
  void *back;
  dp_window rows, columns; /* dilated: `size` counts taps */
  int64_t depth, in_image;
  bool is_filter; /* the gradient of the filter, else of the input */
  void (*row)(const struct dilation_call *call, int64_t index);
  void (*pixel)(const struct dilation_call *call, int64_t image, int64_t y, int64_t x);
} dilation_call;

/* A position of the filter that is inside the image. */
typedef struct tap {
  int64_t number; /* position in the filter; -1: none left */
  int64_t pixel;  /* offset in elements from the beginning of the image */
} tap;

static void seek_tap(const dilation_call *call, int64_t top, int64_t left, tap *t) {
  const dp_window *rows = &call->rows, *columns = &call->columns;
  int64_t count = rows->size * columns->size;
  for (; t->number < count; ++t->number) {
    int64_t y = top + t->number / columns->size * rows->dilation;
    int64_t x = left + t->number % columns->size * columns->dilation;
    if (y >= 0 && y < rows->in && x >= 0 && x < columns->in) {
      t->pixel = (y * columns->in + x) * call->depth;
      return;
    }
  }
  t->number = -1;
}

static tap first_tap(const dilation_call *call, int64_t top, int64_t left) {
  tap t = {0};
  seek_tap(call, top, left, &t);
  return t;
}

static void next_tap(const dilation_call *call, int64_t top, int64_t left, tap *t) {
  ++t->number;
  seek_tap(call, top, left, t);
}

/* The pixel that gets the gradient of a window without a value: its first pixel, or -1. */
static int64_t default_pixel(const dilation_call *call, int64_t top, int64_t left) {
  int64_t y = top < 0 ? 0 : top, x = left < 0 ? 0 : left;
  return y < call->rows.in && x < call->columns.in ? (y * call->columns.in + x) * call->depth : -1;
}

static inline float round_half(float value) {
  return dp_half_to_float(dp_half_from_float(value));
}
static inline float round_bfloat16(float value) {
  return dp_bfloat16_to_float(dp_bfloat16_from_float(value));
}

/* clang-format off */
#define ROUND(x) (x)
#define ELEMENT float
#define LOWEST -FLT_MAX
#define NAMED(name) name##_float
#include "kernels/nn/dilation.tmpl.h"
#undef NAMED
#undef ROUND
#define NAMED(name) name##_half
#define ROUND(x) round_half(x)
#include "kernels/nn/dilation.tmpl.h"
#undef NAMED
#undef ROUND
#define NAMED(name) name##_bfloat16
#define ROUND(x) round_bfloat16(x)
#include "kernels/nn/dilation.tmpl.h"
#undef NAMED
#undef ROUND
#undef ELEMENT
#undef LOWEST
#define ROUND(x) (x)
#define ELEMENT double
#define LOWEST -DBL_MAX
#define NAMED(name) name##_double
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef LOWEST
#undef NAMED
#define ELEMENT int8_t
#define LOWEST INT8_MIN
#define NAMED(name) name##_int8
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef LOWEST
#undef NAMED
#define ELEMENT int16_t
#define LOWEST INT16_MIN
#define NAMED(name) name##_int16
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef LOWEST
#undef NAMED
#define ELEMENT int32_t
#define LOWEST INT32_MIN
#define NAMED(name) name##_int32
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef LOWEST
#undef NAMED
#define ELEMENT int64_t
#define LOWEST INT64_MIN
#define NAMED(name) name##_int64
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef LOWEST
#undef NAMED
#define LOWEST 0
#define ELEMENT uint8_t
#define NAMED(name) name##_uint8
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef NAMED
#define ELEMENT uint16_t
#define NAMED(name) name##_uint16
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef NAMED
#define ELEMENT uint32_t
#define NAMED(name) name##_uint32
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef NAMED
#define ELEMENT uint64_t
#define NAMED(name) name##_uint64
#include "kernels/nn/dilation.tmpl.h"
#undef ELEMENT
#undef NAMED
#undef LOWEST
#undef ROUND

static const struct {
  void (*row)(const dilation_call *call, int64_t index);
  void (*pixel)(const dilation_call *call, int64_t image, int64_t y, int64_t x);
} fns_of[DP_DTYPE_END] = {
    [DP_FLOAT] = {forward_row_float, back_pixel_float},
    [DP_HALF] = {forward_row_half, back_pixel_half},
    [DP_BFLOAT16] = {forward_row_bfloat16, back_pixel_bfloat16},
    [DP_DOUBLE] = {forward_row_double, back_pixel_double},
    [DP_INT8] = {forward_row_int8, back_pixel_int8},
    [DP_INT16] = {forward_row_int16, back_pixel_int16},
    [DP_INT32] = {forward_row_int32, back_pixel_int32},
    [DP_INT64] = {forward_row_int64, back_pixel_int64},
    [DP_UINT8] = {forward_row_uint8, back_pixel_uint8},
    [DP_UINT16] = {forward_row_uint16, back_pixel_uint16},
    [DP_UINT32] = {forward_row_uint32, back_pixel_uint32},
    [DP_UINT64] = {forward_row_uint64, back_pixel_uint64},
};
/* clang-format on */

/* ---- Attributes and shapes ---- */
static dp_status *dilation_create(const dp_kernel_setup *setup, void *memory) {
  dp_window_attrs *attrs = memory;
  const dp_attr *rates;
  DP_RETURN_IF_ERROR(dp_window_read(setup->node, 4, attrs));
  if (attrs->strides.batch != 1 || attrs->strides.depth != 1)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Stride is only supported across spatial dimensions.");
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "rates", DP_ATTR_LIST_INT, &rates));
  if (rates->count != 4)
    return DP_INVALID("Input stride (atrous rate) field must specify 4 dimensions");
  attrs->dilations = dp_window_order(attrs, rates->integers);
  if (attrs->dilations.batch != 1 || attrs->dilations.depth != 1)
    return dp_status_create(DP_UNIMPLEMENTED, "Rate is only supported across spatial dimensions.");
  return NULL;
}

static dp_status *plan(dp_op_context *context, const dp_window_attrs *attrs, dilation_call *call,
                       dp_shape *shape_out) {
  const dp_shape *in = &dp_op_input(context, 0)->shape, *filter = &dp_op_input(context, 1)->shape;
  if (in->rank != 4)
    return DP_INVALID("input must be 4-dimensional%s", dp_shape_text(in));
  if (filter->rank != 3)
    return DP_INVALID("filter must be 3-dimensional: %s", dp_shape_text(filter));
  if (in->dims[3] != filter->dims[2])
    return DP_INVALID("input and filter must have the same depth: %lld vs %lld",
                      (long long)in->dims[3], (long long)filter->dims[2]);
  DP_RETURN_IF_ERROR(dp_window_plan(attrs, 1, in->dims[1], filter->dims[0], &call->rows));
  DP_RETURN_IF_ERROR(dp_window_plan(attrs, 2, in->dims[2], filter->dims[1], &call->columns));
  call->depth = in->dims[3];
  call->in_image = in->dims[1] * in->dims[2] * in->dims[3];
  int64_t dims[4] = {in->dims[0], call->rows.out, call->columns.out, call->depth};
  return dp_shape_make(4, dims, shape_out);
}

/* ---- Running ---- */
static void row_range(void *arg, int64_t begin, int64_t end) {
  const dilation_call *call = arg;
  for (int64_t i = begin; i < end; ++i)
    call->row(call, i);
}

static void image_range(void *arg, int64_t begin, int64_t end) {
  const dilation_call *call = arg;
  for (int64_t image = begin; image < end; ++image)
    for (int64_t y = 0; y < call->rows.out; ++y)
      for (int64_t x = 0; x < call->columns.out; ++x)
        call->pixel(call, image, y, x);
}

static int64_t cost_of_row(const dilation_call *call) {
  return call->columns.out * call->depth * call->rows.size * call->columns.size + 1;
}

/* Runs `body` on operands in the work type and narrows the result into the op's output. */
typedef void (*body_fn)(dp_op_context *context, dilation_call *call, void *data, int64_t images);
static dp_status *run(dp_op_context *context, dilation_call *call, dp_tensor *result,
                      body_fn body) {
  dp_dtype work = dp_kernel_work_type(result->dtype);
  const void **const targets[3] = {&call->in, &call->filter, &call->out};
  dp_buffer *buffers[4] = {NULL};
  dp_status *status = NULL;
  void *data = result->data;
  call->row = fns_of[result->dtype].row;
  call->pixel = fns_of[result->dtype].pixel;
  for (int32_t i = 0; i < context->input_count; ++i)
    DP_GOTO_IF_ERROR(
        status, done,
        dp_kernel_widen_tensor(context, dp_op_input(context, i), work, targets[i], &buffers[i]));
  if (result->dtype != work) {
    DP_GOTO_IF_ERROR(status, done,
                     dp_buffer_create((size_t)result->shape.elements * sizeof(float), &buffers[3]));
    data = memset(buffers[3]->data, 0, (size_t)result->shape.elements * sizeof(float));
  }
  body(context, call, data, dp_op_input(context, 0)->shape.dims[0]);
  if (result->dtype != work)
    dp_kernel_narrow_tensor(context, data, result);
done:
  for (int i = 0; i < 4; ++i)
    dp_buffer_release(buffers[i]);
  return status;
}

static void forward(dp_op_context *context, dilation_call *call, void *data, int64_t images) {
  call->out = data;
  dp_op_for(context, images * call->rows.out, cost_of_row(call), row_range, call);
}

static dp_status *forward_compute(dp_op_context *context, void *memory) {
  dilation_call call = {0};
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(plan(context, memory, &call, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  return shape.elements == 0 ? NULL : run(context, &call, output, forward);
}

/* The filter's gradient is one sum over all images, so it runs on one thread. */
static void backward(dp_op_context *context, dilation_call *call, void *data, int64_t images) {
  call->back = data;
  if (call->is_filter)
    image_range(call, 0, images);
  else
    dp_op_for(context, images, cost_of_row(call) * call->rows.out, image_range, call);
}

static dp_status *run_back(dp_op_context *context, const dp_window_attrs *attrs, bool is_filter) {
  const dp_tensor *back = dp_op_input(context, 2), *like = dp_op_input(context, is_filter);
  dilation_call call = {.is_filter = is_filter};
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(plan(context, attrs, &call, &shape));
  if (!dp_shape_equal(&shape, &back->shape))
    return DP_INVALID("out_backprop has incompatible size.");
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &like->shape, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  return like->shape.elements == 0 ? NULL : run(context, &call, output, backward);
}

static dp_status *input_compute(dp_op_context *context, void *memory) {
  return run_back(context, memory, false);
}
static dp_status *filter_compute(dp_op_context *context, void *memory) {
  return run_back(context, memory, true);
}

#define ROW(name, body)                                                                            \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_REALS}}, .state_size = sizeof(dp_window_attrs),             \
    .create = dilation_create, .compute = body                                                     \
  }
static const dp_kernel rows[] = {
    ROW("Dilation2D", forward_compute),
    ROW("Dilation2DBackpropInput", input_compute),
    ROW("Dilation2DBackpropFilter", filter_compute),
};
DP_KERNEL_FAMILY(dilation, rows);
