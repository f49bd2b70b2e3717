/* The gradient of a convolution towards its filter (contract in conv.h). Row (tap, channel) of the
 * result is a sum over output pixels: the input element that the tap sees, times the pixel's row of
 * gradients. A run is one row of an output image.
 *
 * With enough channels, a tile stays within one tap, and pixels for which the tap sees padding are
 * skipped. With few channels, a tile has rows of several taps; then the input is copied into a
 * frame of zeros. */
#include <string.h>
#include "base/thread.h"
#include "kernels/products/conv.h"
#include "kernels/products/gemm.h"

#define CHUNK_BYTES 524288 /* bytes of both operands in one pass */
#define BLOCK_BYTES 786432 /* bytes of the result, which stays in the cache over all passes */
#define MOST_RUNS 256      /* in one pass */
#define SPEED 50           /* multiplications and additions per nanosecond, roughly */
#define FEW_TILES 4        /* of channels */

typedef struct filter_gradient {
  const dp_conv *conv;
  const dp_conv_fns *fns;
  size_t size;
  bool is_framed;
  const char *a; /* input of the current group */
  int64_t strides[4];
  char *c;
  const int64_t *taps; /* offset of the pixel that each tap sees from output pixel 0 */
  int64_t in, out;     /* channels per group */
  int64_t run_count;
  int64_t chunk; /* runs per pass */
  const char *b; /* packed: [panels][all pixels] */
  int64_t b_step;
  int64_t sets, set_rows, set_tiles; /* a set is the rows with the same runs: of one tap, or all */
  int64_t units, parts;              /* units are tiles; parts of the units go to the threads */
} filter_gradient;

/* The output coordinates [begin, end) for which a tap is inside the input. */
typedef struct range {
  int64_t begin, end;
} range;

static int64_t divide_up(int64_t a, int64_t b) {
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}

static range inside(const filter_gradient *work, int axis, int64_t tap) {
  const dp_window *w = &work->conv->dims[axis];
  if (work->is_framed)
    return (range){0, w->out};
  int64_t shift = tap * w->dilation - w->before;
  int64_t begin = divide_up(-shift, w->stride), end = divide_up(w->in - shift, w->stride);
  begin = begin < 0 ? 0 : begin < w->out ? begin : w->out;
  end = end > w->out ? w->out : end;
  return (range){begin, end < begin ? begin : end};
}

/* Where tap 0 starts to read for output row `run`. */
static int64_t run_offset(const filter_gradient *work, int64_t run) {
  const dp_window *d = work->conv->dims;
  int64_t row = run % d[1].out, slice = run / d[1].out % d[0].out;
  return run / d[1].out / d[0].out * work->strides[0] + slice * d[0].stride * work->strides[1] +
         row * d[1].stride * work->strides[2];
}

/* The runs of a set that are among [first, first + work->chunk). */
static dp_conv_runs find_runs(const filter_gradient *work, int64_t set, int64_t first,
                              int64_t *offsets, int64_t *b_offsets) {
  const dp_window *d = work->conv->dims;
  range x = inside(work, 2, set % d[2].size), y = inside(work, 1, set / d[2].size % d[1].size);
  range z = inside(work, 0, set / d[2].size / d[1].size);
  int64_t last = first + work->chunk < work->run_count ? first + work->chunk : work->run_count;
  int64_t count = 0;
  for (int64_t run = first; run < last; ++run) {
    int64_t row = run % d[1].out, slice = run / d[1].out % d[0].out;
    if (row < y.begin || row >= y.end || slice < z.begin || slice >= z.end)
      continue;
    offsets[count] = run_offset(work, run) + x.begin * d[2].stride * work->strides[3];
    b_offsets[count++] = (run * d[2].out + x.begin) * work->b_step;
  }
  return (dp_conv_runs){.offsets = offsets,
                        .count = count,
                        .length = x.end - x.begin,
                        .step = d[2].stride * work->strides[3],
                        .b_step = work->b_step,
                        .b_offsets = b_offsets,
                        .is_side_by_side = !work->is_framed};
}

/* All tiles but the last are full. Tiles of neighbouring rows are cut evenly instead: their sizes
 * differ by at most one. */
static int64_t first_row(const filter_gradient *work, int64_t tile) {
  int64_t full = tile * work->fns->tile_rows;
  if (!work->is_framed)
    return tile * work->set_rows / work->set_tiles;
  return full < work->set_rows ? full : work->set_rows;
}

static const char *panel_start(const filter_gradient *work, int64_t panel) {
  return work->b + (size_t)(panel * dp_conv_pixels(work->conv) * work->fns->panel) * work->size;
}

static void run_tile(const filter_gradient *work, const dp_conv_runs *runs, int64_t set,
                     int64_t tile, int64_t panel, bool accumulates) {
  int64_t row = first_row(work, tile);
  int rows = (int)(first_row(work, tile + 1) - row);
  row += set * work->set_rows;
  const void *a_rows[DP_CONV_MAX_TILE];
  void *c_rows[DP_CONV_MAX_TILE];
  for (int i = 0; i < rows; ++i) {
    int64_t tap = (row + i) / work->in, channel = (row + i) % work->in;
    a_rows[i] = work->a + (work->taps[tap] + channel) * (int64_t)work->size;
    c_rows[i] =
        work->c +
        (size_t)((row + i) * work->conv->out_channels + panel * work->fns->panel) * work->size;
  }
  int64_t width = work->out - panel * work->fns->panel;
  width = width < work->fns->panel ? width : work->fns->panel;
  work->fns->tile(a_rows, rows, runs, panel_start(work, panel), c_rows, width, accumulates);
}

/* Prefetches part `index` of `count` parts of the operands of the pass that starts at run `first`:
 * first the input, then the gradient. */
static void ask_for_pass(const filter_gradient *work, int64_t first, int64_t panel, int64_t index,
                         int64_t count, dp_conv_runs *runs) {
  runs->next_lines = 0;
  if (first >= work->run_count || work->conv->groups > 1)
    return;
  int64_t last = first + work->chunk < work->run_count ? first + work->chunk : work->run_count;
  int64_t a = run_offset(work, first), width = work->conv->dims[2].out, size = (int64_t)work->size;
  int64_t a_lines = (run_offset(work, last - 1) + work->strides[2] - a) * size / 64;
  int64_t b_lines = (last - first) * width * work->b_step * size / 64;
  int64_t begin = index * (a_lines + b_lines) / count;
  int64_t end = (index + 1) * (a_lines + b_lines) / count;
  bool is_a = begin < a_lines;
  runs->next = is_a ? work->a + a * size + begin * 64
                    : panel_start(work, panel) + first * width * work->b_step * size +
                          (begin - a_lines) * 64;
  runs->next_lines = (is_a && end > a_lines ? a_lines : end) - begin;
}

/* Units [begin, end): a unit is a tile; units are ordered by panel, then set, then tile. */
static void run_block(const filter_gradient *work, int64_t begin, int64_t end) {
  int64_t offsets[MOST_RUNS], b_offsets[MOST_RUNS];
  for (int64_t first = 0; first < work->run_count; first += work->chunk) {
    dp_conv_runs runs;
    int64_t known = -1;
    for (int64_t unit = begin; unit < end; ++unit) {
      int64_t tile = unit % work->set_tiles, set = unit / work->set_tiles % work->sets;
      if (set != known)
        runs = find_runs(work, set, first, offsets, b_offsets);
      known = set;
      int64_t panel = unit / work->set_tiles / work->sets;
      ask_for_pass(work, first + work->chunk, panel, unit - begin, end - begin, &runs);
      if (runs.count > 0 || first == 0) /* the first pass also clears c */
        run_tile(work, &runs, set, tile, panel, first > 0);
    }
  }
}

/* Every part reads all operands, so there are no more parts than threads. */
static void run_parts(void *arg, int64_t begin, int64_t end) {
  const filter_gradient *work = arg;
  int64_t unit = begin * work->units / work->parts, last = end * work->units / work->parts;
  int64_t tile_bytes = work->fns->tile_rows * work->fns->panel * (int64_t)work->size;
  for (int64_t block = BLOCK_BYTES / tile_bytes; unit < last; unit += block)
    run_block(work, unit, last - unit < block ? last : unit + block);
}

static dp_status *run_group(dp_op_context *context, filter_gradient *work, const char *gradient) {
  const dp_conv *conv = work->conv;
  int64_t pixels = dp_conv_pixels(conv);
  dp_conv_packing packing = {.from = gradient,
                             .size = work->size,
                             .rows = pixels,
                             .columns = work->out,
                             .row = conv->out_channels,
                             .column = 1,
                             .panel = work->fns->panel,
                             .lanes = work->fns->lanes};
  dp_buffer *packed;
  DP_RETURN_IF_ERROR(dp_conv_pack(context, &packing, &packed));
  work->b = packing.to;
  work->b_step = packing.step;
  int64_t panels = (work->out + work->fns->panel - 1) / work->fns->panel;
  int64_t cost = pixels * work->fns->tile_rows * work->fns->panel * 2 / SPEED + 50;
  work->units = work->sets * work->set_tiles * panels;
  work->parts = context->step->pool ? dp_pool_threads(context->step->pool) : 1;
  work->parts = work->parts < work->units ? work->parts : work->units;
  dp_op_for(context, work->parts, cost * work->units / work->parts, run_parts, work);
  dp_buffer_release(packed);
  return NULL;
}

static dp_status *run_groups(dp_op_context *context, filter_gradient *work,
                             const dp_conv_frame *frame, const char *gradient, char *result,
                             int64_t *taps) {
  const dp_conv *conv = work->conv;
  const dp_window *d = conv->dims;
  dp_conv_frame_strides(frame, work->strides);
  dp_conv_tap_offsets(conv, frame, taps);
  int64_t count = dp_conv_taps(conv);
  for (int64_t i = 0; !work->is_framed && i < count; ++i)
    for (int axis = 0; axis < DP_WINDOW_DIMS; ++axis)
      taps[i] -= d[axis].before * work->strides[axis + 1];
  work->taps = taps;
  work->sets = work->is_framed ? 1 : count;
  work->set_rows = count * work->in / work->sets;
  work->set_tiles = (work->set_rows + work->fns->tile_rows - 1) / work->fns->tile_rows;
  work->run_count = conv->batch * d[0].out * d[1].out;
  int64_t step = d[2].stride * work->strides[3] * d[1].stride;
  int64_t run_bytes = d[2].out * (step + conv->out_channels) * (int64_t)work->size;
  work->chunk = CHUNK_BYTES / (run_bytes > 0 ? run_bytes : 1);
  work->chunk = work->chunk < 1 ? 1 : work->chunk < MOST_RUNS ? work->chunk : MOST_RUNS;
  for (int64_t group = 0; group < conv->groups; ++group) {
    work->a = frame->data + (size_t)(group * work->in) * work->size;
    size_t offset = (size_t)(group * work->out) * work->size;
    work->c = result + offset;
    DP_RETURN_IF_ERROR(run_group(context, work, gradient + offset));
  }
  return NULL;
}

dp_status *dp_conv_filter_gradient(dp_op_context *context, const dp_conv *conv, const void *input,
                                   const void *gradient, void *result) {
  int64_t pixels = dp_conv_pixels(conv), taps = dp_conv_taps(conv);
  int64_t in = conv->in_channels / conv->groups;
  if (pixels == 0 || in == 0 || conv->out_channels == 0) {
    memset(result, 0, (size_t)(taps * in * conv->out_channels) * dp_dtype_size(conv->dtype));
    return NULL;
  }
  if (dp_conv_is_plain(conv)) {
    dp_gemm gemm = {.dtype = conv->dtype,
                    .m = conv->in_channels,
                    .n = conv->out_channels,
                    .k = pixels,
                    .a = input,
                    .b = gradient,
                    .c = result,
                    .a_stride = conv->in_channels,
                    .b_stride = conv->out_channels,
                    .c_stride = conv->out_channels,
                    .transpose_a = true};
    dp_gemm_run_split(context, &gemm);
    return NULL;
  }
  filter_gradient work = {.conv = conv,
                          .fns = &dp_conv_table()->fns[conv->dtype],
                          .size = dp_dtype_size(conv->dtype),
                          .in = in,
                          .out = conv->out_channels / conv->groups};
  work.is_framed = in < FEW_TILES * work.fns->tile_rows;
  dp_conv_frame frame = {.data = input, .channels = conv->in_channels};
  for (int axis = 0; axis < DP_WINDOW_DIMS; ++axis)
    frame.dims[axis] = conv->dims[axis].in;
  if (work.is_framed)
    DP_RETURN_IF_ERROR(dp_conv_frame_init_input(&frame, context, conv, input));
  int64_t *offsets = dp_malloc((size_t)taps * sizeof *offsets);
  dp_status *status = run_groups(context, &work, &frame, gradient, result, offsets);
  dp_free(offsets);
  dp_conv_frame_deinit(&frame);
  return status;
}
