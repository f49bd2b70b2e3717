/* The gradient towards an input of few channels, as in the first layer of a model, whose images
 * have one or three. Rows of a tile would leave nearly all lanes empty. Instead, one matrix product
 * gives for every output pixel what it adds to each place of its window, and these are then added
 * to the result at the places of the windows. An image is one item of parallel work, because
 * windows overlap only within an image. */
#include <string.h>
#include "kernels/products/conv.h"

#define MOST_CHANNELS 7

typedef struct narrow_work {
  const dp_conv *conv;
  const char *filter, *gradient;
  char *result;
  size_t size;
  _Atomic bool failed;
} narrow_work;

#define DEFINE_ADD(type)                                                                           \
  static void add_##type(type *to, const type *from, int64_t count) {                              \
    for (int64_t i = 0; i < count; ++i)                                                            \
      to[i] += from[i];                                                                            \
  }
DEFINE_ADD(float)
DEFINE_ADD(double)
DEFINE_ADD(uint32_t)
#undef DEFINE_ADD

static void add_run(dp_dtype dtype, void *to, const void *from, int64_t count) {
  if (dtype == DP_FLOAT)
    add_float(to, from, count);
  else if (dtype == DP_DOUBLE)
    add_double(to, from, count);
  else
    add_uint32_t(to, from, count);
}

/* Adds a row of the window of output column `x`; without dilation its taps are adjacent in the
 * image. */
static void add_window_row(const narrow_work *work, char *row, const char *from, int64_t x) {
  const dp_window *w = &work->conv->dims[2];
  int64_t channels = work->conv->in_channels, first = x * w->stride - w->before;
  if (w->dilation == 1) {
    int64_t skipped = first < 0 ? -first : 0;
    int64_t taps = first + w->size > w->in ? w->in - first : w->size;
    if (taps > skipped)
      add_run(work->conv->dtype, row + (size_t)((first + skipped) * channels) * work->size,
              from + (size_t)(skipped * channels) * work->size, (taps - skipped) * channels);
    return;
  }
  for (int64_t tap = 0; tap < w->size; ++tap) {
    int64_t at = first + tap * w->dilation;
    if (at >= 0 && at < w->in)
      add_run(work->conv->dtype, row + (size_t)(at * channels) * work->size,
              from + (size_t)(tap * channels) * work->size, channels);
  }
}

/* Adds all rows of the window of one output pixel. */
static void add_window(const narrow_work *work, char *image, const char *from, int64_t z, int64_t y,
                       int64_t x) {
  const dp_window *d = work->conv->dims;
  size_t tap_row = (size_t)(d[2].size * work->conv->in_channels) * work->size;
  for (int64_t tz = 0; tz < d[0].size; ++tz)
    for (int64_t ty = 0; ty < d[1].size; ++ty, from += tap_row) {
      int64_t at_z = z * d[0].stride - d[0].before + tz * d[0].dilation;
      int64_t at_y = y * d[1].stride - d[1].before + ty * d[1].dilation;
      if (at_z < 0 || at_z >= d[0].in || at_y < 0 || at_y >= d[1].in)
        continue;
      int64_t row = (at_z * d[1].in + at_y) * d[2].in * work->conv->in_channels;
      add_window_row(work, image + (size_t)row * work->size, from, x);
    }
}

static void run_image(const narrow_work *work, int64_t image, dp_buffer *columns) {
  const dp_conv *conv = work->conv;
  const dp_window *d = conv->dims;
  int64_t pixels = d[0].out * d[1].out * d[2].out, width = dp_conv_taps(conv) * conv->in_channels;
  dp_gemm gemm = {.dtype = conv->dtype,
                  .m = pixels,
                  .n = width,
                  .k = conv->out_channels,
                  .a = work->gradient + (size_t)(image * pixels * conv->out_channels) * work->size,
                  .b = work->filter,
                  .c = columns->data,
                  .a_stride = conv->out_channels,
                  .b_stride = conv->out_channels,
                  .c_stride = width,
                  .transpose_b = true};
  dp_gemm_run(&gemm);
  size_t bytes = (size_t)(d[0].in * d[1].in * d[2].in * conv->in_channels) * work->size;
  char *to = work->result + (size_t)image * bytes;
  memset(to, 0, bytes);
  const char *from = columns->data;
  for (int64_t z = 0; z < d[0].out; ++z)
    for (int64_t y = 0; y < d[1].out; ++y)
      for (int64_t x = 0; x < d[2].out; ++x, from += (size_t)width * work->size)
        add_window(work, to, from, z, y, x);
}

static void run_images(void *arg, int64_t begin, int64_t end) {
  narrow_work *work = arg;
  const dp_window *d = work->conv->dims;
  int64_t count =
      d[0].out * d[1].out * d[2].out * dp_conv_taps(work->conv) * work->conv->in_channels;
  dp_buffer *columns;
  dp_status *status = dp_buffer_create((size_t)count * work->size, &columns);
  if (status) {
    dp_status_release(status);
    work->failed = true;
    return;
  }
  for (int64_t image = begin; image < end; ++image)
    run_image(work, image, columns);
  dp_buffer_release(columns);
}

bool dp_conv_is_narrow(const dp_conv *conv) {
  return conv->groups == 1 && conv->in_channels <= MOST_CHANNELS;
}

dp_status *dp_conv_narrow_input_gradient(dp_op_context *context, const dp_conv *conv,
                                         const void *filter, const void *gradient, void *result) {
  narrow_work work = {
      .conv = conv,
      .filter = filter,
      .gradient = gradient,
      .result = result,
      .size = dp_dtype_size(conv->dtype),
  };
  int64_t products = dp_conv_pixels(conv) / conv->batch * dp_conv_taps(conv) * conv->in_channels;
  dp_op_for(context, conv->batch, products * (conv->out_channels + 16) / 32 + 100, run_images,
            &work);
  return work.failed ? dp_status_out_of_memory() : NULL;
}
