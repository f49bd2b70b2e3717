/* Convolutions as products of matrices with scattered rows (loops_conv_internal.h); the contracts
 * are in conv_internal.h. The right operand is packed into panels once a call, then tiles of rows
 * are taken panel by panel, in blocks whose rows stay in the cache; blocks and groups of panels are
 * what threads share. Where every window is one pixel and nothing moves, it is a plain product. */
#include <string.h>
#include "base/thread.h"
#include "kernels/conv_internal.h"
#include "kernels/gemm_internal.h"
#include "kernels/loops_move_internal.h"

#define BLOCK_TILES 32 /* tiles of rows that share a panel while it is in the cache */
#define CHUNK_BYTES                                                                                \
  262144         /* of a panel, or of both operands of a filter's gradient, in one pass            \
                  */
#define SPEED 50 /* multiplications and additions in a nanosecond, roughly */

static const dp_conv_fns *fns_of(const dp_conv *conv) {
  return &dp_conv_table()->fns[conv->dtype];
}

static int threads_of(const dp_op_context *context) {
  return context->step->pool ? dp_pool_threads(context->step->pool) : 1;
}

static bool is_plain(const dp_conv *conv) {
  bool plain = conv->groups == 1;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i) {
    const dp_window *w = &conv->dims[i];
    plain = plain && w->size == 1 && w->stride == 1 && w->before == 0 && w->out == w->in;
  }
  return plain;
}

/* ---- Packing the right operand ---- */
/* Row r, column j is at from[r * row + j * column], and one of the two strides is 1. Rows may also
 * come in `taps` groups of `tap_rows`, group t at tap_offsets[t]. */
typedef struct packing {
  const char *from;
  char *to;
  size_t size;
  int64_t rows, columns, row, column;
  const int64_t *tap_offsets; /* NULL: one group */
  int64_t tap_rows;
  int64_t panel;
  int64_t piece; /* rows of one task */
} packing;

static void pack_rows(const packing *work, int64_t first, int64_t count, const char *from,
                      int64_t panel) {
  int64_t width = work->columns - panel * work->panel;
  width = width < work->panel ? width : work->panel;
  size_t size = work->size, full = (size_t)work->panel * size;
  char *to = work->to + (size_t)(panel * work->rows + first) * full;
  from += (size_t)(panel * work->panel * work->column) * size;
  if (width < work->panel)
    memset(to, 0, (size_t)count * full);
  if (work->column == 1) {
    for (int64_t r = 0; r < count; ++r)
      memcpy(to + (size_t)r * full, from + (size_t)(r * work->row) * size, (size_t)width * size);
    return;
  }
  /* Columns lie in rows of the source, side by side (row is 1). */
  dp_move_table()->transpose[size == 4 ? 2 : 3](to, work->panel, from, work->column, count, width);
}

/* A piece in all panels, while its rows are in the cache; with taps, a piece is a tap. */
static void pack_pieces(void *arg, int64_t begin, int64_t end) {
  const packing *work = arg;
  int64_t panels = (work->columns + work->panel - 1) / work->panel;
  for (int64_t piece = begin; piece < end; ++piece) {
    int64_t first = piece * work->piece, count = work->rows - first;
    count = count < work->piece ? count : work->piece;
    int64_t offset = work->tap_offsets ? work->tap_offsets[piece] : first * work->row;
    for (int64_t panel = 0; panel < panels; ++panel)
      pack_rows(work, first, count, work->from + offset * (int64_t)work->size, panel);
  }
}

static dp_status *pack(dp_op_context *context, packing *work, dp_buffer **buffer_out) {
  int64_t panels = (work->columns + work->panel - 1) / work->panel;
  size_t bytes = (size_t)(panels * work->rows * work->panel) * work->size;
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, buffer_out));
  work->to = (*buffer_out)->data;
  work->piece = work->tap_offsets ? work->tap_rows : 64;
  int64_t pieces = (work->rows + work->piece - 1) / work->piece;
  dp_op_for(context, pieces, panels * work->piece * work->panel * (int64_t)work->size / 8,
            pack_pieces, work);
  return NULL;
}

/* ---- Rows of pixels ---- */
typedef struct grid {
  const dp_conv_fns *fns;
  size_t size;
  int64_t counts[4]; /* images, depth, height, width */
  const char *a;     /* of pixel 0 */
  char *c;
  int64_t a_strides[4], c_strides[4]; /* in elements */
  dp_conv_runs runs;
  const char *b; /* packed */
  int64_t columns;
  int64_t block, blocks, groups, panels; /* rows of a block; blocks; groups of panels; panels */
  int64_t chunk;                         /* runs of one pass over a block */
  dp_finish finish;
  int64_t first_column; /* of all, in what `finish` sees */
} grid;

static void find_rows(const grid *work, int64_t first, int64_t count, const void **a_rows,
                      char **c_rows) {
  int64_t at[4], rest = first;
  for (int i = 3; i >= 0; --i) {
    at[i] = rest % work->counts[i];
    rest /= work->counts[i];
  }
  for (int64_t r = 0; r < count; ++r) {
    int64_t a = 0, c = 0;
    for (int i = 0; i < 4; ++i) {
      a += at[i] * work->a_strides[i];
      c += at[i] * work->c_strides[i];
    }
    a_rows[r] = work->a + a * (int64_t)work->size;
    c_rows[r] = work->c + c * (int64_t)work->size;
    for (int i = 3; i >= 0 && ++at[i] == work->counts[i]; --i)
      at[i] = 0;
  }
}

/* Runs [first, first + work->chunk) of one panel. */
static void run_panel(const grid *work, int64_t panel, int64_t first, int64_t count,
                      const void **a_rows, char **c_rows) {
  int tile = work->fns->tile_rows;
  int64_t width = work->columns - panel * work->fns->panel;
  width = width < work->fns->panel ? width : work->fns->panel;
  size_t offset = (size_t)(panel * work->fns->panel) * work->size;
  dp_conv_runs runs = work->runs;
  const char *b = work->b + (size_t)(runs.count * runs.length) * offset +
                  (size_t)(first * runs.length * work->fns->panel) * work->size;
  runs.offsets += first;
  runs.count = runs.count - first < work->chunk ? runs.count - first : work->chunk;
  for (int64_t r = 0; r < count; r += tile) {
    int rows = count - r < tile ? (int)(count - r) : tile;
    void *to[DP_CONV_MAX_TILE];
    for (int i = 0; i < rows; ++i)
      to[i] = c_rows[r + i] + offset;
    work->fns->tile(a_rows + r, rows, &runs, b, to, width, first > 0);
  }
}

/* Rows of a forward convolution follow each other without a gap. */
static void finish_rows(const grid *work, int64_t count, char **c_rows, int64_t begin,
                        int64_t end) {
  end = end < work->columns ? end : work->columns;
  work->finish.fn(work->finish.arg, c_rows[0] + (size_t)begin * work->size, work->c_strides[3],
                  count, work->first_column + begin, end - begin);
}

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  const grid *work = arg;
  const void *a_rows[BLOCK_TILES * DP_CONV_MAX_TILE];
  char *c_rows[BLOCK_TILES * DP_CONV_MAX_TILE];
  int64_t pixels = work->counts[0] * work->counts[1] * work->counts[2] * work->counts[3];
  for (int64_t i = begin; i < end; ++i) {
    int64_t first = i / work->groups * work->block, group = i % work->groups;
    int64_t count = pixels - first < work->block ? pixels - first : work->block;
    find_rows(work, first, count, a_rows, c_rows);
    int64_t start = group * work->panels / work->groups;
    int64_t last = (group + 1) * work->panels / work->groups;
    for (int64_t run = 0; run < work->runs.count; run += work->chunk)
      for (int64_t panel = start; panel < last; ++panel)
        run_panel(work, panel, run, count, a_rows, c_rows);
    if (work->finish.fn)
      finish_rows(work, count, c_rows, start * work->fns->panel, last * work->fns->panel);
  }
}

static void run_grid(dp_op_context *context, grid *work) {
  int64_t pixels = work->counts[0] * work->counts[1] * work->counts[2] * work->counts[3];
  if (pixels == 0 || work->columns == 0)
    return;
  work->block = BLOCK_TILES * work->fns->tile_rows;
  work->blocks = (pixels + work->block - 1) / work->block;
  work->panels = (work->columns + work->fns->panel - 1) / work->fns->panel;
  int64_t wanted = 4 * threads_of(context) / work->blocks;
  work->groups = wanted < 1 ? 1 : wanted < work->panels ? wanted : work->panels;
  int64_t depth = work->runs.count * work->runs.length;
  int64_t run_bytes = work->runs.length * work->fns->panel * (int64_t)work->size;
  work->chunk = run_bytes < CHUNK_BYTES ? CHUNK_BYTES / run_bytes : 1;
  dp_op_for(context, work->blocks * work->groups,
            work->block * depth * work->fns->panel * 2 / SPEED * work->panels / work->groups + 100,
            run_blocks, work);
}

/* ---- Forward ---- */
/* Runs over the taps: along the width in one piece when the frame has them side by side. */
static dp_conv_runs tap_runs(const dp_conv *conv, int64_t *offsets) {
  int64_t channels = conv->in_channels / conv->groups, width = conv->dims[2].size;
  dp_conv_runs runs = {offsets, dp_conv_taps(conv), channels, 1, fns_of(conv)->panel};
  if (conv->groups > 1 || (width > 1 && conv->dims[2].dilation > 1))
    return runs;
  runs.count /= width;
  runs.length *= width;
  for (int64_t i = 0; i < runs.count; ++i)
    offsets[i] = offsets[i * width];
  return runs;
}

static dp_status *run_forward(dp_op_context *context, const dp_conv *conv, const dp_frame *frame,
                              const void *filter, void *output, int64_t *offsets) {
  size_t size = dp_dtype_size(conv->dtype);
  int64_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
  grid work = {.fns = fns_of(conv), .size = size, .counts = {conv->batch}, .columns = out};
  int64_t strides[4];
  dp_frame_strides(frame, strides);
  work.a_strides[0] = strides[0];
  work.c_strides[3] = conv->out_channels;
  for (int i = 0; i < DP_WINDOW_DIMS; ++i) {
    work.counts[i + 1] = conv->dims[i].out;
    work.a_strides[i + 1] = strides[i + 1] * conv->dims[i].stride;
  }
  for (int i = 2; i >= 0; --i)
    work.c_strides[i] = work.c_strides[i + 1] * work.counts[i + 1];
  dp_conv_tap_offsets(conv, frame, offsets);
  work.runs = tap_runs(conv, offsets);
  for (int64_t group = 0; group < conv->groups; ++group) {
    packing packing = {.from = (const char *)filter + (size_t)(group * out) * size,
                       .size = size,
                       .rows = dp_conv_taps(conv) * in,
                       .columns = out,
                       .row = conv->out_channels,
                       .column = 1,
                       .panel = work.fns->panel};
    dp_buffer *packed;
    DP_RETURN_IF_ERROR(pack(context, &packing, &packed));
    work.b = packed->data;
    work.a = frame->data + (size_t)(group * in) * size;
    work.c = (char *)output + (size_t)(group * out) * size;
    work.finish = conv->finish;
    work.first_column = group * out;
    run_grid(context, &work);
    dp_buffer_release(packed);
  }
  return NULL;
}

dp_status *dp_conv_forward(dp_op_context *context, const dp_conv *conv, const void *input,
                           const void *filter, void *output) {
  int64_t pixels = dp_conv_pixels(conv);
  if (pixels == 0 || conv->out_channels == 0)
    return NULL;
  if (is_plain(conv)) {
    dp_gemm gemm = {.dtype = conv->dtype,
                    .m = pixels,
                    .n = conv->out_channels,
                    .k = conv->in_channels,
                    .a = input,
                    .b = filter,
                    .c = output,
                    .a_stride = conv->in_channels,
                    .b_stride = conv->out_channels,
                    .c_stride = conv->out_channels,
                    .finish = conv->finish};
    dp_gemm_run_split(context, &gemm);
    return NULL;
  }
  dp_frame frame;
  DP_RETURN_IF_ERROR(dp_frame_init_input(&frame, context, conv, input, 1));
  int64_t *offsets = dp_malloc((size_t)dp_conv_taps(conv) * sizeof(int64_t));
  dp_status *status = run_forward(context, conv, &frame, filter, output, offsets);
  dp_free(offsets);
  dp_frame_deinit(&frame);
  return status;
}

/* ---- Towards the input ---- */
typedef struct input_gradient {
  const dp_conv *conv;
  dp_frame frame;
  int64_t before[DP_WINDOW_DIMS], strides[4];
  const char *filter;
  char *result;
  int64_t *runs, *taps; /* offsets in the frame and in the filter */
} input_gradient;

/* Offsets of the taps of a phase: in the frame (joined along the width where they lie side by side)
 * and in the filter. */
static dp_conv_runs phase_runs(const input_gradient *work, const dp_phase *p) {
  const dp_conv *conv = work->conv;
  int64_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
  int64_t tap_size = in * conv->out_channels, count = 0;
  bool joins = conv->groups == 1 && p[2].tap_count > 0 &&
               p[2].shifts[p[2].tap_count - 1] - p[2].shifts[0] == p[2].tap_count - 1;
  int64_t run = 0;
  for (int64_t z = 0; z < p[0].tap_count; ++z)
    for (int64_t y = 0; y < p[1].tap_count; ++y)
      for (int64_t x = 0; x < p[2].tap_count; ++x) {
        int64_t tap =
            (p[0].taps[z] * conv->dims[1].size + p[1].taps[y]) * conv->dims[2].size + p[2].taps[x];
        work->taps[count++] = tap * tap_size;
        if (x == 0 || !joins)
          work->runs[run++] = (p[0].shifts[z] + work->before[0]) * work->strides[1] +
                              (p[1].shifts[y] + work->before[1]) * work->strides[2] +
                              (p[2].shifts[x] + work->before[2]) * work->strides[3];
      }
  return (dp_conv_runs){work->runs, run, joins ? out * p[2].tap_count : out, 1,
                        fns_of(conv)->panel};
}

static dp_status *run_phase(dp_op_context *context, const input_gradient *work,
                            const dp_phase *phases) {
  const dp_conv *conv = work->conv;
  size_t size = dp_dtype_size(conv->dtype);
  int64_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
  grid grid = {.fns = fns_of(conv), .size = size, .counts = {conv->batch}, .columns = in};
  grid.runs = phase_runs(work, phases);
  int64_t stride = conv->in_channels, start = 0;
  for (int i = 2; i >= 0; --i) {
    grid.counts[i + 1] = phases[i].count;
    grid.a_strides[i + 1] = work->strides[i + 1];
    grid.c_strides[i + 1] = stride * conv->dims[i].stride;
    start += phases[i].residue * stride;
    stride *= conv->dims[i].in;
  }
  grid.a_strides[0] = work->strides[0];
  grid.c_strides[0] = stride;
  for (int64_t group = 0; group < conv->groups; ++group) {
    packing packing = {.from = work->filter + (size_t)(group * out) * size,
                       .size = size,
                       .rows =
                           phases[0].tap_count * phases[1].tap_count * phases[2].tap_count * out,
                       .columns = in,
                       .row = 1,
                       .column = conv->out_channels,
                       .tap_offsets = work->taps,
                       .tap_rows = out,
                       .panel = grid.fns->panel};
    dp_buffer *packed;
    DP_RETURN_IF_ERROR(pack(context, &packing, &packed));
    grid.b = packed->data;
    grid.a = work->frame.data + (size_t)(group * out) * size;
    grid.c = work->result + (size_t)(start + group * in) * size;
    run_grid(context, &grid);
    dp_buffer_release(packed);
  }
  return NULL;
}

/* Whether some input coordinate is reached by no tap at all, so that its gradient is zero. */
static bool has_gaps(const dp_conv *conv) {
  for (int i = 0; i < DP_WINDOW_DIMS; ++i) {
    for (int64_t residue = 0; residue < dp_phase_count(&conv->dims[i]); ++residue) {
      dp_phase phase;
      dp_phase_init(&phase, &conv->dims[i], residue);
      bool is_empty = phase.tap_count == 0;
      dp_phase_deinit(&phase);
      if (is_empty)
        return true;
    }
  }
  return false;
}

static dp_status *run_phases(dp_op_context *context, const input_gradient *work) {
  const dp_window *dims = work->conv->dims;
  dp_status *status = NULL;
  int64_t height = dp_phase_count(&dims[1]), width = dp_phase_count(&dims[2]);
  int64_t total = dp_phase_count(&dims[0]) * height * width;
  for (int64_t i = 0; i < total && !status; ++i) {
    int64_t residues[] = {i / width / height, i / width % height, i % width};
    dp_phase phases[DP_WINDOW_DIMS];
    bool is_empty = false;
    for (int d = 0; d < DP_WINDOW_DIMS; ++d) {
      dp_phase_init(&phases[d], &dims[d], residues[d]);
      is_empty = is_empty || phases[d].tap_count == 0 || phases[d].count == 0;
    }
    if (!is_empty)
      status = run_phase(context, work, phases);
    for (int d = 0; d < DP_WINDOW_DIMS; ++d)
      dp_phase_deinit(&phases[d]);
  }
  return status;
}

dp_status *dp_conv_input_gradient(dp_op_context *context, const dp_conv *conv, const void *filter,
                                  const void *gradient, void *result) {
  size_t size = dp_dtype_size(conv->dtype);
  int64_t pixels = conv->batch * conv->dims[0].in * conv->dims[1].in * conv->dims[2].in;
  if (pixels == 0 || conv->in_channels == 0)
    return NULL;
  if (is_plain(conv)) {
    dp_gemm gemm = {.dtype = conv->dtype,
                    .m = pixels,
                    .n = conv->in_channels,
                    .k = conv->out_channels,
                    .a = gradient,
                    .b = filter,
                    .c = result,
                    .a_stride = conv->out_channels,
                    .b_stride = conv->out_channels,
                    .c_stride = conv->in_channels,
                    .transpose_b = true};
    dp_gemm_run_split(context, &gemm);
    return NULL;
  }
  if (dp_conv_pixels(conv) == 0 || conv->out_channels == 0 || has_gaps(conv))
    memset(result, 0, (size_t)(pixels * conv->in_channels) * size);
  if (dp_conv_pixels(conv) == 0 || conv->out_channels == 0)
    return NULL;
  if (dp_conv_is_narrow(conv))
    return dp_conv_narrow_input_gradient(context, conv, filter, gradient, result);
  input_gradient work = {.conv = conv, .filter = filter, .result = result};
  DP_RETURN_IF_ERROR(dp_frame_init_gradient(&work.frame, context, conv, gradient, work.before));
  dp_frame_strides(&work.frame, work.strides);
  work.runs = dp_malloc(2 * (size_t)dp_conv_taps(conv) * sizeof(int64_t));
  work.taps = work.runs + dp_conv_taps(conv);
  dp_status *status = run_phases(context, &work);
  dp_free(work.runs);
  dp_frame_deinit(&work.frame);
  return status;
}

/* ---- Towards the filter ---- */
/* Row (tap, channel) of the result is a sum over pixels; a run is one row of an output image. */
typedef struct filter_gradient {
  const dp_conv *conv;
  const dp_conv_fns *fns;
  size_t size;
  const char *a; /* of the group, in the frame */
  char *c;
  const int64_t *taps, *runs;
  int64_t in, out; /* channels of a group */
  int64_t run_count, run_length, step;
  int64_t chunk; /* runs of one pass */
  const char *b; /* packed: [panels][all pixels] */
  int64_t tiles;
} filter_gradient;

static void run_unit(const filter_gradient *work, int64_t unit, int64_t first, int64_t count) {
  int tile = work->fns->tile_rows;
  int64_t panel = unit / work->tiles, row = unit % work->tiles * tile;
  int64_t all = dp_conv_taps(work->conv) * work->in;
  int rows = all - row < tile ? (int)(all - row) : tile;
  const void *a_rows[DP_CONV_MAX_TILE];
  void *c_rows[DP_CONV_MAX_TILE];
  for (int i = 0; i < rows; ++i) {
    int64_t tap = (row + i) / work->in, channel = (row + i) % work->in;
    a_rows[i] = work->a + (size_t)(work->taps[tap] + channel) * work->size;
    c_rows[i] =
        work->c +
        (size_t)((row + i) * work->conv->out_channels + panel * work->fns->panel) * work->size;
  }
  int64_t width = work->out - panel * work->fns->panel;
  width = width < work->fns->panel ? width : work->fns->panel;
  dp_conv_runs runs = {work->runs + first, count, work->run_length, work->step, work->fns->panel};
  const char *b =
      work->b + (size_t)((panel * work->run_count + first) * work->run_length * work->fns->panel) *
                    work->size;
  work->fns->tile(a_rows, rows, &runs, b, c_rows, width, first > 0);
}

static void run_units(void *arg, int64_t begin, int64_t end) {
  const filter_gradient *work = arg;
  for (int64_t first = 0; first < work->run_count; first += work->chunk) {
    int64_t count = work->run_count - first < work->chunk ? work->run_count - first : work->chunk;
    for (int64_t unit = begin; unit < end; ++unit)
      run_unit(work, unit, first, count);
  }
}

static dp_status *run_filter_group(dp_op_context *context, filter_gradient *work,
                                   const dp_frame *frame, const char *gradient, char *result,
                                   int64_t group) {
  const dp_conv *conv = work->conv;
  packing packing = {.from = gradient + (size_t)(group * work->out) * work->size,
                     .size = work->size,
                     .rows = dp_conv_pixels(conv),
                     .columns = work->out,
                     .row = conv->out_channels,
                     .column = 1,
                     .panel = work->fns->panel};
  dp_buffer *packed;
  DP_RETURN_IF_ERROR(pack(context, &packing, &packed));
  work->b = packed->data;
  work->a = frame->data + (size_t)(group * work->in) * work->size;
  work->c = result + (size_t)(group * work->out) * work->size;
  int64_t rows = dp_conv_taps(conv) * work->in;
  work->tiles = (rows + work->fns->tile_rows - 1) / work->fns->tile_rows;
  int64_t panels = (work->out + work->fns->panel - 1) / work->fns->panel;
  int64_t cost = dp_conv_pixels(conv) * work->fns->tile_rows * work->fns->panel * 2 / SPEED + 50;
  dp_op_for(context, work->tiles * panels, cost, run_units, work);
  dp_buffer_release(packed);
  return NULL;
}

static dp_status *run_filter_gradient(dp_op_context *context, const dp_conv *conv,
                                      const dp_frame *frame, const void *gradient, void *result,
                                      int64_t *taps, int64_t *runs) {
  int64_t strides[4], index = 0;
  dp_frame_strides(frame, strides);
  dp_conv_tap_offsets(conv, frame, taps);
  const dp_window *d = conv->dims;
  for (int64_t n = 0; n < conv->batch; ++n)
    for (int64_t z = 0; z < d[0].out; ++z)
      for (int64_t y = 0; y < d[1].out; ++y)
        runs[index++] =
            n * strides[0] + z * d[0].stride * strides[1] + y * d[1].stride * strides[2];
  filter_gradient work = {.conv = conv,
                          .fns = fns_of(conv),
                          .size = dp_dtype_size(conv->dtype),
                          .taps = taps,
                          .runs = runs,
                          .in = conv->in_channels / conv->groups,
                          .out = conv->out_channels / conv->groups,
                          .run_count = index,
                          .run_length = d[2].out,
                          .step = d[2].stride * strides[3]};
  int64_t run_bytes =
      work.run_length * (work.step * d[1].stride + conv->out_channels) * (int64_t)work.size;
  work.chunk = CHUNK_BYTES / (run_bytes > 0 ? run_bytes : 1);
  work.chunk = work.chunk < 1 ? 1 : work.chunk;
  for (int64_t group = 0; group < conv->groups; ++group)
    DP_RETURN_IF_ERROR(run_filter_group(context, &work, frame, gradient, result, group));
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
  if (is_plain(conv)) {
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
  dp_frame frame;
  DP_RETURN_IF_ERROR(dp_frame_init_input(&frame, context, conv, input, 1));
  int64_t rows = conv->batch * conv->dims[0].out * conv->dims[1].out;
  int64_t *offsets = dp_malloc((size_t)(taps + rows) * sizeof(int64_t));
  dp_status *status =
      run_filter_gradient(context, conv, &frame, gradient, result, offsets, offsets + taps);
  dp_free(offsets);
  dp_frame_deinit(&frame);
  return status;
}
