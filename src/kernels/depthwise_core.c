/* Depthwise convolutions in all three directions; the contracts are in conv_internal.h. Channels
 * are made as many as the filter has outputs by repeating each in the frame, so that the loops only
 * ever multiply vectors element by element. */
#include <string.h>
#include "kernels/conv_internal.h"

#define CHUNK_BYTES 131072 /* of both operands in one pass of a filter's gradient */

static const dp_conv_fns *fns_of(const dp_conv *conv) {
  return &dp_conv_table()->fns[conv->dtype];
}

/* ---- Forward ---- */
typedef struct pixel_work {
  const dp_conv *conv;
  const dp_conv_fns *fns;
  size_t size;
  const char *from, *filter;
  char *to;
  int64_t counts[3];                      /* depth, height, width of the pixels to fill */
  int64_t from_strides[4], to_strides[4]; /* in elements; 0 is images */
  const int64_t *offsets;
  int64_t taps, channels;
  int64_t sum; /* outputs that are summed to one, for a gradient with a multiplier */
} pixel_work;

static void sum_neighbours(const pixel_work *work, const char *from, char *to) {
  int64_t count = work->channels / work->sum;
  for (int64_t c = 0; c < count; ++c) {
    if (work->conv->dtype == DP_DOUBLE) {
      double total = 0;
      for (int64_t i = 0; i < work->sum; ++i)
        total += ((const double *)from)[c * work->sum + i];
      ((double *)to)[c] = total;
    } else {
      float total = 0;
      for (int64_t i = 0; i < work->sum; ++i)
        total += ((const float *)from)[c * work->sum + i];
      ((float *)to)[c] = total;
    }
  }
}

/* Rows of pixels: [batch, depth, height]. */
static void fill_rows(void *arg, int64_t begin, int64_t end) {
  const pixel_work *work = arg;
  int64_t size = (int64_t)work->size;
  char *block = work->sum > 1 ? dp_malloc((size_t)work->channels * work->size) : NULL;
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % work->counts[1], z = i / work->counts[1] % work->counts[0];
    int64_t image = i / work->counts[1] / work->counts[0];
    const char *from = work->from + (image * work->from_strides[0] + z * work->from_strides[1] +
                                     y * work->from_strides[2]) *
                                        size;
    char *to =
        work->to +
        (image * work->to_strides[0] + z * work->to_strides[1] + y * work->to_strides[2]) * size;
    dp_conv_pixel_row pixels = {work->offsets,         work->taps,
                                work->channels,        block ? 1 : work->counts[2],
                                work->from_strides[3], work->to_strides[3]};
    if (!block)
      work->fns->pixels(&pixels, from, work->filter, to);
    for (int64_t x = 0; block && x < work->counts[2]; ++x) {
      work->fns->pixels(&pixels, from + x * work->from_strides[3] * size, work->filter, block);
      sum_neighbours(work, block, to + x * work->to_strides[3] * size);
    }
  }
  dp_free(block);
}

static void fill(dp_op_context *context, pixel_work *work) {
  dp_op_for(context, work->conv->batch * work->counts[0] * work->counts[1],
            work->counts[2] * (work->channels * work->taps / 8 + 20), fill_rows, work);
}

dp_status *dp_depthwise_forward(dp_op_context *context, const dp_conv *conv, const void *input,
                                const void *filter, void *output) {
  if (dp_conv_pixels(conv) == 0 || conv->out_channels == 0)
    return NULL;
  dp_frame frame;
  DP_RETURN_IF_ERROR(
      dp_frame_init_input(&frame, context, conv, input, conv->out_channels / conv->in_channels));
  int64_t strides[4];
  dp_frame_strides(&frame, strides);
  int64_t *offsets = dp_malloc((size_t)dp_conv_taps(conv) * sizeof(int64_t));
  dp_conv_tap_offsets(conv, &frame, offsets);
  pixel_work work = {.conv = conv,
                     .fns = fns_of(conv),
                     .size = dp_dtype_size(conv->dtype),
                     .from = frame.data,
                     .filter = filter,
                     .to = output,
                     .offsets = offsets,
                     .taps = dp_conv_taps(conv),
                     .channels = conv->out_channels,
                     .sum = 1};
  int64_t stride = conv->out_channels;
  for (int i = 2; i >= 0; --i) {
    work.counts[i] = conv->dims[i].out;
    work.from_strides[i + 1] = strides[i + 1] * conv->dims[i].stride;
    work.to_strides[i + 1] = stride;
    stride *= conv->dims[i].out;
  }
  work.from_strides[0] = strides[0];
  work.to_strides[0] = stride;
  fill(context, &work);
  dp_free(offsets);
  dp_frame_deinit(&frame);
  return NULL;
}

/* ---- Towards the input ---- */
typedef struct input_gradient {
  pixel_work pixels;
  const dp_conv *conv;
  const char *filter;
  char *result;
  char *taps; /* the filter's taps of a phase */
  int64_t *offsets;
  int64_t strides[4], before[DP_WINDOW_DIMS];
} input_gradient;

static void run_phase(dp_op_context *context, input_gradient *work, const dp_phase *p) {
  const dp_conv *conv = work->conv;
  size_t size = dp_dtype_size(conv->dtype), tap_bytes = (size_t)conv->out_channels * size;
  int64_t count = 0;
  for (int64_t z = 0; z < p[0].tap_count; ++z)
    for (int64_t y = 0; y < p[1].tap_count; ++y)
      for (int64_t x = 0; x < p[2].tap_count; ++x) {
        int64_t tap =
            (p[0].taps[z] * conv->dims[1].size + p[1].taps[y]) * conv->dims[2].size + p[2].taps[x];
        memcpy(work->taps + (size_t)count * tap_bytes, work->filter + (size_t)tap * tap_bytes,
               tap_bytes);
        work->offsets[count++] = (p[0].shifts[z] + work->before[0]) * work->strides[1] +
                                 (p[1].shifts[y] + work->before[1]) * work->strides[2] +
                                 (p[2].shifts[x] + work->before[2]) * work->strides[3];
      }
  pixel_work *pixels = &work->pixels;
  pixels->taps = count;
  int64_t stride = conv->in_channels, start = 0;
  for (int i = 2; i >= 0; --i) {
    pixels->counts[i] = p[i].count;
    pixels->from_strides[i + 1] = work->strides[i + 1];
    pixels->to_strides[i + 1] = stride * conv->dims[i].stride;
    start += p[i].residue * stride;
    stride *= conv->dims[i].in;
  }
  pixels->from_strides[0] = work->strides[0];
  pixels->to_strides[0] = stride;
  pixels->to = work->result + (size_t)start * size;
  fill(context, pixels);
}

static void run_phases(dp_op_context *context, input_gradient *work) {
  const dp_window *dims = work->conv->dims;
  int64_t height = dp_phase_count(&dims[1]), width = dp_phase_count(&dims[2]);
  int64_t total = dp_phase_count(&dims[0]) * height * width;
  for (int64_t i = 0; i < total; ++i) {
    int64_t residues[] = {i / width / height, i / width % height, i % width};
    dp_phase phases[DP_WINDOW_DIMS];
    for (int d = 0; d < DP_WINDOW_DIMS; ++d)
      dp_phase_init(&phases[d], &dims[d], residues[d]);
    run_phase(context, work, phases);
    for (int d = 0; d < DP_WINDOW_DIMS; ++d)
      dp_phase_deinit(&phases[d]);
  }
}

dp_status *dp_depthwise_input_gradient(dp_op_context *context, const dp_conv *conv,
                                       const void *filter, const void *gradient, void *result) {
  size_t size = dp_dtype_size(conv->dtype);
  int64_t elements =
      conv->batch * conv->dims[0].in * conv->dims[1].in * conv->dims[2].in * conv->in_channels;
  if (elements == 0)
    return NULL;
  if (dp_conv_pixels(conv) == 0) {
    memset(result, 0, (size_t)elements * size);
    return NULL;
  }
  dp_frame frame;
  input_gradient work = {.conv = conv, .filter = filter, .result = result};
  DP_RETURN_IF_ERROR(dp_frame_init_gradient(&frame, context, conv, gradient, work.before));
  dp_frame_strides(&frame, work.strides);
  int64_t taps = dp_conv_taps(conv);
  work.offsets = dp_malloc((size_t)taps * sizeof(int64_t));
  work.taps = dp_malloc((size_t)(taps * conv->out_channels) * size);
  work.pixels = (pixel_work){.conv = conv,
                             .fns = fns_of(conv),
                             .size = size,
                             .from = frame.data,
                             .filter = work.taps,
                             .offsets = work.offsets,
                             .channels = conv->out_channels,
                             .sum = conv->out_channels / conv->in_channels};
  run_phases(context, &work);
  dp_free(work.offsets);
  dp_free(work.taps);
  dp_frame_deinit(&frame);
  return NULL;
}

/* ---- Towards the filter ---- */
typedef struct filter_gradient {
  const dp_conv *conv;
  const dp_conv_fns *fns;
  size_t size;
  const char *from, *gradient;
  char *result;
  const int64_t *taps, *runs;
  int64_t run_count, step, chunk;
  int64_t piece, pieces; /* of channels */
} filter_gradient;

/* Tasks are pieces of the channels of groups of taps. */
static void run_taps(void *arg, int64_t begin, int64_t end) {
  const filter_gradient *work = arg;
  int64_t channels = work->conv->out_channels, length = work->conv->dims[2].out;
  int64_t size = (int64_t)work->size, taps = dp_conv_taps(work->conv);
  for (int64_t first = 0; first < work->run_count; first += work->chunk) {
    int64_t count = work->run_count - first < work->chunk ? work->run_count - first : work->chunk;
    dp_conv_runs runs = {work->runs + first, count, length, work->step};
    const char *gradient = work->gradient + first * length * channels * size;
    for (int64_t i = begin; i < end; ++i) {
      int64_t tap = i / work->pieces * DP_CONV_PRODUCT_TAPS, o = i % work->pieces * work->piece;
      int64_t width = channels - o < work->piece ? channels - o : work->piece;
      int at_once =
          taps - tap < DP_CONV_PRODUCT_TAPS ? (int)(taps - tap) : (int)DP_CONV_PRODUCT_TAPS;
      work->fns->products(work->from + o * size, work->taps + tap, at_once, &runs,
                          gradient + o * size, channels, width,
                          work->result + (tap * channels + o) * size);
    }
  }
}

dp_status *dp_depthwise_filter_gradient(dp_op_context *context, const dp_conv *conv,
                                        const void *input, const void *gradient, void *result) {
  size_t size = dp_dtype_size(conv->dtype);
  int64_t taps = dp_conv_taps(conv), rows = conv->batch * conv->dims[0].out * conv->dims[1].out;
  memset(result, 0, (size_t)(taps * conv->out_channels) * size);
  if (dp_conv_pixels(conv) == 0 || conv->out_channels == 0)
    return NULL;
  dp_frame frame;
  DP_RETURN_IF_ERROR(
      dp_frame_init_input(&frame, context, conv, input, conv->out_channels / conv->in_channels));
  int64_t strides[4], index = 0;
  dp_frame_strides(&frame, strides);
  int64_t *offsets = dp_malloc((size_t)(taps + rows) * sizeof(int64_t));
  dp_conv_tap_offsets(conv, &frame, offsets);
  const dp_window *d = conv->dims;
  for (int64_t n = 0; n < conv->batch; ++n)
    for (int64_t z = 0; z < d[0].out; ++z)
      for (int64_t y = 0; y < d[1].out; ++y)
        offsets[taps + index++] =
            n * strides[0] + z * d[0].stride * strides[1] + y * d[1].stride * strides[2];
  filter_gradient work = {.conv = conv,
                          .fns = fns_of(conv),
                          .size = size,
                          .from = frame.data,
                          .gradient = gradient,
                          .result = result,
                          .taps = offsets,
                          .runs = offsets + taps,
                          .run_count = rows,
                          .step = d[2].stride * strides[3]};
  int64_t run_bytes = d[2].out * (work.step + conv->out_channels) * (int64_t)size;
  work.chunk = run_bytes > 0 && CHUNK_BYTES > run_bytes ? CHUNK_BYTES / run_bytes : 1;
  work.piece = 2 * 64 / (int64_t)size; /* what fills the registers */
  work.pieces = (conv->out_channels + work.piece - 1) / work.piece;
  int64_t groups = (taps + DP_CONV_PRODUCT_TAPS - 1) / DP_CONV_PRODUCT_TAPS;
  dp_op_for(context, groups * work.pieces, dp_conv_pixels(conv) * work.piece / 4 + 50, run_taps,
            &work);
  dp_free(offsets);
  dp_frame_deinit(&frame);
  return NULL;
}
