/* Convolutions forward and towards the input, as products of matrices with scattered rows
 * (loops_conv_internal.h); the contracts are in conv_internal.h. Both directions are the same: each
 * point of a result is a sum over taps, and a tap adds a constant shift to where a point reads.
 * Points are sorted into regions that have the same taps inside the source, so that padding is
 * neither stored nor multiplied; a region's points fill tiles of rows. The right operand is packed
 * into panels once a call. Tiles are taken panel by panel, in blocks whose rows stay in the cache;
 * blocks and groups of panels are what threads share. Where every window is one pixel and nothing
 * moves, it is a plain product. */
#include <string.h>
#include "base/thread.h"
#include "kernels/conv_internal.h"
#include "kernels/gemm_internal.h"

#define BLOCK_TILES 32     /* tiles of rows that share a panel while it is in the cache */
#define CHUNK_BYTES 262144 /* of a panel, in one pass */
#define MOST_RUNS 256      /* of one pass */
#define SPEED 50           /* multiplications and additions in a nanosecond, roughly */

static const dp_conv_fns *fns_of(const dp_conv *conv) {
  return &dp_conv_table()->fns[conv->dtype];
}

static int threads_of(const dp_op_context *context) {
  return context->step->pool ? dp_pool_threads(context->step->pool) : 1;
}

/* ---- Regions ---- */
/* One dimension: point t < count reads coordinate t * step + shifts[i] of the source through tap i,
 * where that is within [0, bound). Shifts grow. */
typedef struct axis {
  int64_t count, step, bound, taps;
  const int64_t *shifts;
} axis;

/* Points [begin, end) of an axis, all with the taps [first, last). */
typedef struct span {
  int64_t begin, end, first, last;
} span;

typedef struct region {
  span spans[DP_WINDOW_DIMS];
  int64_t first_tile, points;
} region;

static span span_at(const axis *axis, int64_t point) {
  int64_t at = point * axis->step, first = 0, last = axis->taps;
  while (first < last && at + axis->shifts[first] < 0)
    ++first;
  while (last > first && at + axis->shifts[last - 1] >= axis->bound)
    --last;
  return (span){point, point + 1, first, last};
}

/* All spans of an axis; at most one for each point, and for each change of a tap at either side. */
static int64_t find_spans(const axis *axis, span *spans) {
  int64_t count = 0;
  for (int64_t point = 0; point < axis->count; ++point) {
    span next = span_at(axis, point);
    span *last = spans + count - 1;
    if (count > 0 && last->first == next.first && last->last == next.last)
      last->end = next.end;
    else
      spans[count++] = next;
  }
  return count;
}

static int64_t most_spans(const axis *axis) {
  int64_t changes = 2 * axis->taps + 2;
  return axis->count < changes ? axis->count : changes;
}

/* ---- Tiles of points ---- */
typedef struct grid {
  const dp_conv_fns *fns;
  size_t size;
  int64_t batch;
  axis axes[DP_WINDOW_DIMS];
  const char *a; /* of coordinate 0, and the result of point 0 */
  char *c;
  int64_t a_strides[4], c_strides[4]; /* in elements, of images and coordinates or points */
  int64_t channels;                   /* rows of b for each tap */
  bool joins;    /* taps along the width are one run: they lie side by side in the source */
  const char *b; /* packed */
  int64_t b_step;
  int64_t columns;
  region *regions;
  int64_t region_count, tiles;
  int64_t blocks, groups, panels; /* groups: of panels */
  int64_t passes, chunk;          /* chunk: runs of one pass over a block */
  dp_finish finish;
  int64_t first_column; /* of all, in what `finish` sees */
} grid;

static void make_regions(grid *work) {
  int64_t sizes[DP_WINDOW_DIMS], offsets[DP_WINDOW_DIMS], total = 0;
  for (int d = 0; d < DP_WINDOW_DIMS; ++d) {
    offsets[d] = total;
    total += most_spans(&work->axes[d]);
  }
  span *spans = dp_malloc((size_t)total * sizeof *spans);
  for (int d = 0; d < DP_WINDOW_DIMS; ++d)
    sizes[d] = find_spans(&work->axes[d], spans + offsets[d]);
  work->region_count = sizes[0] * sizes[1] * sizes[2];
  work->regions = dp_malloc((size_t)work->region_count * sizeof *work->regions);
  work->tiles = 0;
  for (int64_t i = 0; i < work->region_count; ++i) {
    const int64_t index[] = {i / sizes[2] / sizes[1], i / sizes[2] % sizes[1], i % sizes[2]};
    region *r = &work->regions[i];
    r->first_tile = work->tiles;
    r->points = work->batch;
    for (int d = 0; d < DP_WINDOW_DIMS; ++d) {
      r->spans[d] = spans[offsets[d] + index[d]];
      r->points *= r->spans[d].end - r->spans[d].begin;
    }
    work->tiles += (r->points + work->fns->tile_rows - 1) / work->fns->tile_rows;
  }
  dp_free(spans);
}

/* The tiles of one region in a block. */
typedef struct stretch {
  const region *region;
  int64_t row, count; /* rows of the block; a region's last tile may leave some empty */
} stretch;

static void find_rows(const grid *work, const stretch *stretch, int64_t first, const void **a_rows,
                      char **c_rows) {
  const span *spans = stretch->region->spans;
  int64_t at[4], rest = first;
  for (int d = 2; d >= 0; --d) {
    int64_t count = spans[d].end - spans[d].begin;
    at[d + 1] = spans[d].begin + rest % count;
    rest /= count;
  }
  at[0] = rest;
  for (int64_t r = stretch->row; r < stretch->row + stretch->count; ++r) {
    int64_t a = at[0] * work->a_strides[0], c = at[0] * work->c_strides[0];
    for (int d = 0; d < DP_WINDOW_DIMS; ++d) {
      a += at[d + 1] * work->axes[d].step * work->a_strides[d + 1];
      c += at[d + 1] * work->c_strides[d + 1];
    }
    a_rows[r] = work->a + a * (int64_t)work->size;
    c_rows[r] = work->c + c * (int64_t)work->size;
    int d = 2;
    for (; d >= 0 && ++at[d + 1] == spans[d].end; --d)
      at[d + 1] = spans[d].begin;
    at[0] += d < 0;
  }
}

/* The stretches of tiles [first, last); returns their number. */
static int64_t find_stretches(const grid *work, int64_t first, int64_t last, stretch *stretches,
                              const void **a_rows, char **c_rows) {
  int64_t low = 0, high = work->region_count - 1, tile_rows = work->fns->tile_rows, count = 0;
  while (low < high) { /* the last region that starts at or before `first` */
    int64_t middle = (low + high + 1) / 2;
    if (work->regions[middle].first_tile <= first)
      low = middle;
    else
      high = middle - 1;
  }
  for (int64_t i = low; i < work->region_count && work->regions[i].first_tile < last; ++i) {
    const region *region = &work->regions[i];
    int64_t begin = region->first_tile < first ? first : region->first_tile;
    int64_t point = (begin - region->first_tile) * tile_rows;
    int64_t rest = region->points - point, room = (last - begin) * tile_rows;
    stretches[count] = (stretch){region, (begin - first) * tile_rows, rest < room ? rest : room};
    find_rows(work, &stretches[count++], point, a_rows, c_rows);
  }
  return count;
}

/* The runs of a region that belong to a pass. Passes are the same taps for all regions. */
static dp_conv_runs find_runs(const grid *work, const region *region, int64_t pass,
                              int64_t *offsets, int64_t *b_offsets) {
  const span *z = &region->spans[0], *y = &region->spans[1], *x = &region->spans[2];
  const axis *axes = work->axes;
  int64_t width = x->last - x->first, steps = work->joins ? (width > 0 ? 1 : 0) : width;
  int64_t per_row = work->joins ? 1 : axes[2].taps, count = 0;
  for (int64_t i = z->first; i < z->last; ++i)
    for (int64_t j = y->first; j < y->last; ++j)
      for (int64_t k = x->first; k < x->first + steps; ++k) {
        int64_t row = i * axes[1].taps + j, run = row * per_row + (work->joins ? 0 : k);
        if (run / work->chunk != pass)
          continue;
        offsets[count] = axes[0].shifts[i] * work->a_strides[1] +
                         axes[1].shifts[j] * work->a_strides[2] +
                         axes[2].shifts[k] * work->a_strides[3];
        b_offsets[count++] = (row * axes[2].taps + k) * work->channels * work->b_step;
      }
  return (dp_conv_runs){.offsets = offsets,
                        .count = count,
                        .length = work->joins ? width * work->channels : work->channels,
                        .step = 1,
                        .b_step = work->b_step,
                        .b_offsets = b_offsets};
}

/* One pass over one panel. */
static void run_stretch(const grid *work, const stretch *stretch, const dp_conv_runs *runs,
                        int64_t panel, bool accumulates, const void **a_rows, char **c_rows) {
  int tile = work->fns->tile_rows;
  int64_t width = work->columns - panel * work->fns->panel;
  width = width < work->fns->panel ? width : work->fns->panel;
  size_t offset = (size_t)(panel * work->fns->panel) * work->size;
  int64_t depth = work->axes[0].taps * work->axes[1].taps * work->axes[2].taps * work->channels;
  const char *b = work->b + (size_t)depth * offset;
  for (int64_t r = stretch->row; r < stretch->row + stretch->count; r += tile) {
    int64_t rest = stretch->row + stretch->count - r;
    int rows = rest < tile ? (int)rest : tile;
    void *to[DP_CONV_MAX_TILE];
    for (int i = 0; i < rows; ++i)
      to[i] = c_rows[r + i] + offset;
    work->fns->tile(a_rows + r, rows, runs, b, to, width, accumulates);
  }
}

/* Rows that follow each other without a gap are finished together. */
static void finish_stretch(const grid *work, const stretch *stretch, char **c_rows, int64_t begin,
                           int64_t end) {
  int64_t stride = work->c_strides[3], last = stretch->row + stretch->count;
  end = end < work->columns ? end : work->columns;
  for (int64_t r = stretch->row, next; r < last; r = next) {
    for (next = r + 1; next < last; ++next)
      if (c_rows[next] != c_rows[next - 1] + stride * (int64_t)work->size)
        break;
    work->finish.fn(work->finish.arg, c_rows[r] + (size_t)begin * work->size, stride, next - r,
                    work->first_column + begin, end - begin);
  }
}

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  const grid *work = arg;
  const void *a_rows[BLOCK_TILES * DP_CONV_MAX_TILE];
  char *c_rows[BLOCK_TILES * DP_CONV_MAX_TILE];
  stretch stretches[BLOCK_TILES];
  int64_t offsets[MOST_RUNS], b_offsets[MOST_RUNS];
  for (int64_t i = begin; i < end; ++i) {
    int64_t first = i / work->groups * BLOCK_TILES, group = i % work->groups;
    int64_t last = first + BLOCK_TILES < work->tiles ? first + BLOCK_TILES : work->tiles;
    int64_t count = find_stretches(work, first, last, stretches, a_rows, c_rows);
    int64_t start = group * work->panels / work->groups;
    int64_t stop = (group + 1) * work->panels / work->groups;
    for (int64_t pass = 0; pass < work->passes; ++pass)
      for (int64_t panel = start; panel < stop; ++panel)
        for (int64_t s = 0; s < count; ++s) {
          dp_conv_runs runs = find_runs(work, stretches[s].region, pass, offsets, b_offsets);
          if (runs.count > 0 || pass == 0) /* the first pass also clears */
            run_stretch(work, &stretches[s], &runs, panel, pass > 0, a_rows, c_rows);
        }
    for (int64_t s = 0; work->finish.fn && s < count; ++s)
      finish_stretch(work, &stretches[s], c_rows, start * work->fns->panel,
                     stop * work->fns->panel);
  }
}

static void run_grid(dp_op_context *context, grid *work) {
  const axis *axes = work->axes;
  work->blocks = (work->tiles + BLOCK_TILES - 1) / BLOCK_TILES;
  work->panels = (work->columns + work->fns->panel - 1) / work->fns->panel;
  if (work->blocks == 0 || work->panels == 0)
    return;
  int64_t wanted = 4 * threads_of(context) / work->blocks;
  work->groups = wanted < 1 ? 1 : wanted < work->panels ? wanted : work->panels;
  int64_t runs = axes[0].taps * axes[1].taps * (work->joins ? 1 : axes[2].taps);
  int64_t depth = axes[0].taps * axes[1].taps * axes[2].taps * work->channels;
  int64_t run_bytes = depth / runs * work->fns->panel * (int64_t)work->size;
  work->chunk = run_bytes > 0 && run_bytes < CHUNK_BYTES ? CHUNK_BYTES / run_bytes : 1;
  work->chunk = work->chunk < MOST_RUNS ? work->chunk : MOST_RUNS;
  work->passes = (runs + work->chunk - 1) / work->chunk;
  int64_t block = BLOCK_TILES * work->fns->tile_rows;
  dp_op_for(context, work->blocks * work->groups,
            block * depth * work->fns->panel * 2 / SPEED * work->panels / work->groups + 100,
            run_blocks, work);
}

/* Group after group, each with its own filters: `b` says how to pack those of the first. Groups
 * are `a_group`, `b_group` and `c_group` elements apart. */
static dp_status *run_groups(dp_op_context *context, grid *work, const dp_conv_packing *b,
                             int64_t groups, int64_t a_group, int64_t b_group, int64_t c_group) {
  make_regions(work);
  dp_status *status = NULL;
  for (int64_t group = 0; group < groups && !status; ++group) {
    dp_conv_packing packing = *b;
    packing.from += (size_t)(group * b_group) * work->size;
    dp_buffer *packed;
    status = dp_conv_pack(context, &packing, &packed);
    if (status)
      break;
    work->b = packing.to;
    work->b_step = packing.step;
    run_grid(context, work);
    dp_buffer_release(packed);
    work->a += (size_t)a_group * work->size;
    work->c += (size_t)c_group * work->size;
    work->first_column += work->columns;
  }
  dp_free(work->regions);
  return status;
}

/* ---- Forward ---- */
static dp_status *run_forward(dp_op_context *context, const dp_conv *conv, const void *input,
                              const void *filter, void *output, int64_t *shifts) {
  int64_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
  grid work = {.fns = fns_of(conv),
               .size = dp_dtype_size(conv->dtype),
               .batch = conv->batch,
               .a = input,
               .c = output,
               .channels = in,
               .joins =
                   conv->groups == 1 && (conv->dims[2].size == 1 || conv->dims[2].dilation == 1),
               .columns = out,
               .finish = conv->finish};
  int64_t a_stride = conv->in_channels, c_stride = conv->out_channels;
  for (int d = 2; d >= 0; --d) {
    const dp_window *window = &conv->dims[d];
    for (int64_t tap = 0; tap < window->size; ++tap)
      shifts[tap] = tap * window->dilation - window->before;
    work.axes[d] = (axis){window->out, window->stride, window->in, window->size, shifts};
    shifts += window->size;
    work.a_strides[d + 1] = a_stride;
    work.c_strides[d + 1] = c_stride;
    a_stride *= window->in;
    c_stride *= window->out;
  }
  work.a_strides[0] = a_stride;
  work.c_strides[0] = c_stride;
  dp_conv_packing packing = {.from = filter,
                             .size = work.size,
                             .rows = dp_conv_taps(conv) * in,
                             .columns = out,
                             .row = conv->out_channels,
                             .column = 1,
                             .panel = work.fns->panel,
                             .lanes = work.fns->lanes};
  return run_groups(context, &work, &packing, conv->groups, in, out, out);
}

dp_status *dp_conv_forward(dp_op_context *context, const dp_conv *conv, const void *input,
                           const void *filter, void *output) {
  int64_t pixels = dp_conv_pixels(conv);
  if (pixels == 0 || conv->out_channels == 0)
    return NULL;
  if (dp_conv_is_plain(conv)) {
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
  int64_t taps = conv->dims[0].size + conv->dims[1].size + conv->dims[2].size;
  int64_t *shifts = dp_malloc((size_t)taps * sizeof *shifts);
  dp_status *status = run_forward(context, conv, input, filter, output, shifts);
  dp_free(shifts);
  return status;
}

/* ---- Towards the input ---- */
typedef struct input_gradient {
  const dp_conv *conv;
  const char *filter, *gradient;
  char *result;
  int64_t *taps; /* offsets in the filter */
} input_gradient;

static void find_taps(const input_gradient *work, const dp_phase *p) {
  const dp_conv *conv = work->conv;
  int64_t tap_size = conv->in_channels / conv->groups * conv->out_channels, count = 0;
  for (int64_t z = 0; z < p[0].tap_count; ++z)
    for (int64_t y = 0; y < p[1].tap_count; ++y)
      for (int64_t x = 0; x < p[2].tap_count; ++x)
        work->taps[count++] =
            ((p[0].taps[z] * conv->dims[1].size + p[1].taps[y]) * conv->dims[2].size +
             p[2].taps[x]) *
            tap_size;
}

static dp_status *run_phase(dp_op_context *context, const input_gradient *work,
                            const dp_phase *phases) {
  const dp_conv *conv = work->conv;
  int64_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
  const dp_phase *wide = &phases[2];
  grid grid = {.fns = fns_of(conv),
               .size = dp_dtype_size(conv->dtype),
               .batch = conv->batch,
               .a = work->gradient,
               .channels = out,
               .joins = conv->groups == 1 &&
                        wide->shifts[wide->tap_count - 1] - wide->shifts[0] == wide->tap_count - 1,
               .columns = in};
  int64_t a_stride = conv->out_channels, c_stride = conv->in_channels, start = 0, taps = 1;
  for (int d = 2; d >= 0; --d) {
    const dp_window *window = &conv->dims[d];
    const dp_phase *phase = &phases[d];
    grid.axes[d] = (axis){phase->count, 1, window->out, phase->tap_count, phase->shifts};
    grid.a_strides[d + 1] = a_stride;
    grid.c_strides[d + 1] = c_stride * window->stride;
    start += phase->residue * c_stride;
    taps *= phase->tap_count;
    a_stride *= window->out;
    c_stride *= window->in;
  }
  grid.a_strides[0] = a_stride;
  grid.c_strides[0] = c_stride;
  grid.c = work->result + (size_t)start * grid.size;
  find_taps(work, phases);
  dp_conv_packing packing = {.from = work->filter,
                             .size = grid.size,
                             .rows = taps * out,
                             .columns = in,
                             .row = 1,
                             .column = conv->out_channels,
                             .tap_offsets = work->taps,
                             .tap_rows = out,
                             .panel = grid.fns->panel,
                             .lanes = grid.fns->lanes};
  return run_groups(context, &grid, &packing, conv->groups, out, out, in);
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
  if (dp_conv_is_plain(conv)) {
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
  int64_t *taps = dp_malloc((size_t)dp_conv_taps(conv) * sizeof *taps);
  input_gradient work = {conv, filter, gradient, result, taps};
  dp_status *status = run_phases(context, &work);
  dp_free(taps);
  return status;
}
