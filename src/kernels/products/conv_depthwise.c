/* Depthwise convolutions in all three directions (contracts in conv.h). The input's channels are
 * repeated until there are as many as the filter has outputs, so that the loops only multiply
 * vectors element by element. Nothing is padded: rows outside of the images are skipped here,
 * pixels outside of a row are skipped by the loops. */
#include <string.h>
#include "kernels/loops/depthwise.h"
#include "kernels/products/conv.h"

static const dp_depthwise_fns *fns_of(const dp_conv *conv) {
  return &dp_depthwise_table()->fns[conv->dtype];
}

/* ---- Repeating the channels ---- */
typedef struct repeat_work {
  const char *from;
  char *to;
  int64_t repeats;
  size_t size;
} repeat_work;

static void repeat_values(void *arg, int64_t begin, int64_t end) {
  const repeat_work *work = arg;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t r = 0; r < work->repeats; ++r)
      memcpy(work->to + (size_t)(i * work->repeats + r) * work->size,
             work->from + (size_t)i * work->size, work->size);
}

/* Gives the input itself when nothing has to be repeated. Otherwise the result is in *buffer_out,
 * which the caller releases. */
static dp_status *repeat_channels(dp_op_context *context, const dp_conv *conv, const void *input,
                                  dp_buffer **buffer_out, const void **input_out) {
  int64_t repeats = conv->out_channels / conv->in_channels;
  *buffer_out = NULL;
  *input_out = input;
  if (repeats == 1)
    return NULL;
  dp_shape shape;
  const int64_t dims[] = {conv->batch, conv->dims[1].in, conv->dims[2].in, conv->out_channels};
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, &shape));
  size_t size = dp_dtype_size(conv->dtype);
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)shape.elements * size, buffer_out));
  repeat_work work = {input, (*buffer_out)->data, repeats, size};
  dp_op_for(context, shape.elements / repeats, repeats, repeat_values, &work);
  *input_out = (*buffer_out)->data;
  return NULL;
}

/* ---- Images from images: forward, and towards the input ---- */
/* Pixels of a row of the result: to_first, to_first + to_stride, ... They share the same taps. The
 * filter is [rows of the filter, taps, channels]. */
typedef struct line_work {
  dp_depthwise_line line;
  const char *filter;
  int64_t to_first, to_stride;
} line_work;

/* Rows of the result that share the same taps. For row number i among them, tap t reads row i *
 * stride + shifts[t] of the images; it is row taps[t] of the filter. */
typedef struct row_work {
  int64_t tap_count, stride;
  const int64_t *taps, *shifts;
} row_work;

typedef struct pixel_work {
  const dp_depthwise_fns *fns;
  size_t size;
  const char *from;
  int64_t from_height, from_width;
  char *to;
  int64_t to_height, to_width;
  int64_t channels, sum; /* `sum` neighbouring channels are added up to one channel of the result */
  bool is_double;
  const row_work *rows; /* row y is number y / row_phases of rows[y % row_phases] */
  const line_work *lines;
  int64_t row_phases, line_phases, most_taps;
} pixel_work;

static void sum_neighbours(const pixel_work *work, const char *from, int64_t pixels, char *to,
                           int64_t to_step) {
  int64_t channels = work->channels / work->sum;
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < channels; ++c) {
      int64_t first = p * work->channels + c * work->sum;
      double total = 0;
      float narrow = 0;
      for (int64_t i = 0; i < work->sum; ++i)
        if (work->is_double)
          total += ((const double *)from)[first + i];
        else
          narrow += ((const float *)from)[first + i];
      if (work->is_double)
        ((double *)to)[p * to_step + c] = total;
      else
        ((float *)to)[p * to_step + c] = narrow;
    }
}

/* Items of work are rows of the result, [batch, height]. */
static void fill_rows(void *arg, int64_t begin, int64_t end) {
  const pixel_work *work = arg;
  size_t from_row = (size_t)(work->from_width * work->channels) * work->size;
  int64_t to_channels = work->channels / work->sum;
  const void **rows = dp_malloc(2 * (size_t)work->most_taps * sizeof *rows);
  const void **filters = rows + work->most_taps;
  char *block =
      work->sum > 1 ? dp_malloc((size_t)(work->to_width * work->channels) * work->size) : NULL;
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = i % work->to_height, image = i / work->to_height;
    const row_work *own = &work->rows[y % work->row_phases];
    for (int64_t l = 0; l < work->line_phases; ++l) {
      const line_work *it = &work->lines[l];
      int64_t count = 0;
      for (int64_t t = 0; t < own->tap_count; ++t) {
        int64_t row = y / work->row_phases * own->stride + own->shifts[t];
        if (row < 0 || row >= work->from_height)
          continue;
        rows[count] = work->from + (size_t)(image * work->from_height + row) * from_row;
        filters[count++] =
            it->filter + (size_t)(own->taps[t] * it->line.taps * work->channels) * work->size;
      }
      char *to =
          work->to + (size_t)((i * work->to_width + it->to_first) * to_channels) * work->size;
      work->fns->pixels(&it->line, rows, filters, count, block ? block : to,
                        block ? work->channels : it->to_stride * to_channels);
      if (block)
        sum_neighbours(work, block, it->line.count, to, it->to_stride * to_channels);
    }
  }
  dp_free(block);
  dp_free(rows);
}

static void fill(dp_op_context *context, const dp_conv *conv, pixel_work *work) {
  work->fns = fns_of(conv);
  work->size = dp_dtype_size(conv->dtype);
  work->is_double = conv->dtype == DP_DOUBLE;
  work->channels = conv->out_channels;
  work->most_taps = conv->dims[1].size;
  int64_t taps = dp_conv_taps(conv) / work->row_phases / work->line_phases + 1;
  dp_op_for(context, conv->batch * work->to_height,
            work->to_width * (work->channels * taps / 16 + 5), fill_rows, work);
}

dp_status *dp_depthwise_forward(dp_op_context *context, const dp_conv *conv, const void *input,
                                const void *filter, void *output) {
  const dp_window *height = &conv->dims[1], *width = &conv->dims[2];
  if (dp_conv_pixels(conv) == 0 || conv->out_channels == 0)
    return NULL;
  dp_buffer *buffer;
  const void *images;
  DP_RETURN_IF_ERROR(repeat_channels(context, conv, input, &buffer, &images));
  int64_t *taps = dp_malloc(2 * (size_t)height->size * sizeof *taps), *shifts = taps + height->size;
  for (int64_t t = 0; t < height->size; ++t) {
    taps[t] = t;
    shifts[t] = t * height->dilation - height->before;
  }
  row_work rows = {height->size, height->stride, taps, shifts};
  line_work lines = {.line = {.channels = conv->out_channels,
                              .width = width->in,
                              .taps = width->size,
                              .shift = -width->before,
                              .spacing = width->dilation,
                              .stride = width->stride,
                              .count = width->out},
                     .filter = filter,
                     .to_stride = 1};
  pixel_work work = {.from = images,
                     .from_height = height->in,
                     .from_width = width->in,
                     .to = output,
                     .to_height = height->out,
                     .to_width = width->out,
                     .sum = 1,
                     .rows = &rows,
                     .lines = &lines,
                     .row_phases = 1,
                     .line_phases = 1};
  fill(context, conv, &work);
  dp_free(taps);
  dp_buffer_release(buffer);
  return NULL;
}

/* Packs the taps of a phase of the columns, for all rows of the filter; the caller frees them. */
static char *pack_taps(const dp_conv *conv, const dp_phase *phase, const char *filter) {
  size_t bytes = (size_t)conv->out_channels * dp_dtype_size(conv->dtype);
  int64_t rows = conv->dims[1].size, width = conv->dims[2].size;
  char *taps = dp_malloc((size_t)(rows * phase->tap_count) * bytes + 1), *to = taps;
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t t = 0; t < phase->tap_count; ++t, to += bytes)
      memcpy(to, filter + (size_t)(y * width + phase->taps[t]) * bytes, bytes);
  return taps;
}

/* The line for one residue of the input's columns; the caller frees its filter. */
static line_work gradient_line(const dp_conv *conv, int64_t residue, const char *filter) {
  const dp_window *width = &conv->dims[2];
  dp_phase phase;
  dp_phase_init(&phase, width, residue);
  line_work work = {.line = {.channels = conv->out_channels,
                             .width = width->out,
                             .taps = phase.tap_count,
                             .shift = phase.tap_count > 0 ? phase.shifts[0] : 0,
                             .spacing = phase.tap_count > 1 ? phase.shifts[1] - phase.shifts[0] : 1,
                             .stride = 1,
                             .count = phase.count},
                    .filter = pack_taps(conv, &phase, filter),
                    .to_first = residue,
                    .to_stride = width->stride};
  dp_phase_deinit(&phase);
  return work;
}

static void run_phases(dp_op_context *context, const dp_conv *conv, const void *filter,
                       pixel_work *work) {
  dp_phase *phases = dp_malloc((size_t)work->row_phases * sizeof *phases);
  row_work *rows = dp_malloc((size_t)work->row_phases * sizeof *rows);
  line_work *lines = dp_malloc((size_t)work->line_phases * sizeof *lines);
  for (int64_t i = 0; i < work->row_phases; ++i) {
    dp_phase_init(&phases[i], &conv->dims[1], i);
    rows[i] = (row_work){phases[i].tap_count, 1, phases[i].taps, phases[i].shifts};
  }
  for (int64_t i = 0; i < work->line_phases; ++i)
    lines[i] = gradient_line(conv, i, filter);
  work->rows = rows;
  work->lines = lines;
  fill(context, conv, work);
  for (int64_t i = 0; i < work->row_phases; ++i)
    dp_phase_deinit(&phases[i]);
  for (int64_t i = 0; i < work->line_phases; ++i)
    dp_free((char *)lines[i].filter);
  dp_free(phases);
  dp_free(rows);
  dp_free(lines);
}

dp_status *dp_depthwise_input_gradient(dp_op_context *context, const dp_conv *conv,
                                       const void *filter, const void *gradient, void *result) {
  const dp_window *height = &conv->dims[1], *width = &conv->dims[2];
  int64_t elements = conv->batch * height->in * width->in * conv->in_channels;
  if (elements == 0)
    return NULL;
  if (dp_conv_pixels(conv) == 0) {
    memset(result, 0, (size_t)elements * dp_dtype_size(conv->dtype));
    return NULL;
  }
  pixel_work work = {.from = gradient,
                     .from_height = height->out,
                     .from_width = width->out,
                     .to = result,
                     .to_height = height->in,
                     .to_width = width->in,
                     .sum = conv->out_channels / conv->in_channels,
                     .row_phases = dp_phase_count(height),
                     .line_phases = dp_phase_count(width)};
  run_phases(context, conv, filter, &work);
  return NULL;
}

/* ---- Towards the filter ---- */
/* The rows of the gradient are divided among several sums. Their number depends on the sizes only,
 * so the result does not depend on the number of threads. */
#define MOST_SHARES 16
#define SHARE_PRODUCTS 200000

typedef struct depthwise_filter_gradient {
  const dp_conv *conv;
  const char *from, *gradient;
  char *sums; /* [shares, taps, channels] */
  int64_t shares;
} depthwise_filter_gradient;

static void run_shares(void *arg, int64_t begin, int64_t end) {
  const depthwise_filter_gradient *work = arg;
  const dp_conv *conv = work->conv;
  const dp_depthwise_fns *fns = fns_of(conv);
  const dp_window *height = &conv->dims[1], *width = &conv->dims[2];
  size_t tap_row = (size_t)(width->size * conv->out_channels) * dp_dtype_size(conv->dtype);
  size_t pixel = (size_t)conv->out_channels * dp_dtype_size(conv->dtype);
  dp_depthwise_line line = {.channels = conv->out_channels,
                            .width = width->in,
                            .taps = width->size,
                            .shift = -width->before,
                            .spacing = width->dilation,
                            .stride = width->stride,
                            .count = width->out};
  int64_t rows = conv->batch * height->out;
  for (int64_t share = begin; share < end; ++share) {
    char *sums = work->sums + (size_t)(share * height->size) * tap_row;
    memset(sums, 0, (size_t)height->size * tap_row);
    for (int64_t i = rows * share / work->shares; i < rows * (share + 1) / work->shares; ++i) {
      int64_t y = i % height->out * height->stride - height->before, image = i / height->out;
      const char *gradient = work->gradient + (size_t)(i * width->out) * pixel;
      for (int64_t t = 0; t < height->size; ++t) {
        int64_t row = y + t * height->dilation;
        if (row >= 0 && row < height->in)
          fns->products(&line,
                        work->from + (size_t)((image * height->in + row) * width->in) * pixel,
                        gradient, sums + (size_t)t * tap_row);
      }
    }
  }
}

static void add_shares(const depthwise_filter_gradient *work, void *result, int64_t count) {
  bool is_double = work->conv->dtype == DP_DOUBLE;
  for (int64_t share = 0; share < work->shares; ++share)
    for (int64_t i = 0; i < count; ++i)
      if (is_double)
        ((double *)result)[i] += ((const double *)work->sums)[share * count + i];
      else
        ((float *)result)[i] += ((const float *)work->sums)[share * count + i];
}

dp_status *dp_depthwise_filter_gradient(dp_op_context *context, const dp_conv *conv,
                                        const void *input, const void *gradient, void *result) {
  size_t size = dp_dtype_size(conv->dtype);
  int64_t count = dp_conv_taps(conv) * conv->out_channels;
  int64_t products = dp_conv_pixels(conv) * count;
  memset(result, 0, (size_t)count * size);
  if (products == 0)
    return NULL;
  int64_t shares = products / SHARE_PRODUCTS + 1;
  dp_buffer *images_buffer, *sums;
  const void *images;
  DP_RETURN_IF_ERROR(repeat_channels(context, conv, input, &images_buffer, &images));
  depthwise_filter_gradient work = {.conv = conv,
                                    .from = images,
                                    .gradient = gradient,
                                    .shares = shares < MOST_SHARES ? shares : MOST_SHARES};
  dp_status *status = dp_buffer_create((size_t)(work.shares * count) * size, &sums);
  if (!status) {
    work.sums = sums->data;
    dp_op_for(context, work.shares, products / work.shares / 16, run_shares, &work);
    add_shares(&work, result, count);
    dp_buffer_release(sums);
  }
  dp_buffer_release(images_buffer);
  return status;
}
