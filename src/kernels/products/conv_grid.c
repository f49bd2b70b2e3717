/* Computes the points of a grid as matrix products with scattered rows (loops/conv.h); the contract
 * is in conv_grid_internal.h.
 *
 * Points are sorted into regions for which the same taps are inside the source, so padding is
 * neither stored nor multiplied. The points of a region fill tiles of rows. Tiles are grouped into
 * blocks whose rows stay in the cache while panel after panel is multiplied; pairs of a block and a
 * group of panels are the items of work for threads. Several faces read the same images, so they
 * take turns with a few images at a time. The right operand is packed into panels once per call; if
 * all points are in one block, each part of a panel is packed just before it is used. */
#include "kernels/products/conv_grid_internal.h"

#include "base/thread.h"

#define BLOCK_TILES 32      /* tiles of rows that use a panel while it is in the cache */
#define MOST_TILES 160      /* the same, if all panels together do not fit into the cache */
#define SMALL_BYTES 524288  /* of all panels, if they fit */
#define BLOCK_BYTES 1048576 /* of a block's source, if they do not */
#define TURN_BYTES 524288   /* of the images that faces share in a turn */
#define CHUNK_BYTES 262144  /* of a panel in one pass */
#define MOST_RUNS 256       /* in one pass */
#define SPEED 50            /* multiplications and additions per nanosecond, roughly */

/* ---- Regions ---- */
/* Points [begin, end) of an axis, for which exactly the taps [first, last) are inside the
 * source. */
typedef struct span {
  int64_t begin, end, first, last;
} span;

struct dp_conv_region {
  const dp_conv_face *face;
  span spans[DP_WINDOW_DIMS];
  int64_t first_image, first_tile, points;
};
typedef dp_conv_region region;

static span span_at(const dp_conv_axis *axis, int64_t point) {
  int64_t at = point * axis->step, first = 0, last = axis->taps;
  while (first < last && at + axis->shifts[first] < 0)
    ++first;
  while (last > first && at + axis->shifts[last - 1] >= axis->bound)
    --last;
  return (span){point, point + 1, first, last};
}

/* All spans of an axis: at most one per point, and at most one per tap that enters or leaves. */
static int64_t find_spans(const dp_conv_axis *axis, span *spans) {
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

static int64_t most_spans(const dp_conv_axis *axis) {
  int64_t changes = 2 * axis->taps + 2;
  return axis->count < changes ? axis->count : changes;
}

/* The spans of the three axes of a face; the caller frees them. */
static span *face_spans(const dp_conv_face *face, int64_t sizes[DP_WINDOW_DIMS],
                        span *starts[DP_WINDOW_DIMS]) {
  int64_t total = 0;
  for (int d = 0; d < DP_WINDOW_DIMS; ++d)
    total += most_spans(&face->axes[d]);
  span *spans = dp_malloc((size_t)total * sizeof *spans), *next = spans;
  for (int d = 0; d < DP_WINDOW_DIMS; ++d) {
    starts[d] = next;
    sizes[d] = find_spans(&face->axes[d], next);
    next += most_spans(&face->axes[d]);
  }
  return spans;
}

/* Appends the regions of one image of a face; `regions` NULL: only counts them. */
static int64_t add_face(const dp_conv_face *face, region *regions) {
  int64_t sizes[DP_WINDOW_DIMS];
  span *starts[DP_WINDOW_DIMS], *spans = face_spans(face, sizes, starts);
  int64_t count = sizes[0] * sizes[1] * sizes[2];
  for (int64_t i = 0; regions && i < count; ++i) {
    const int64_t index[] = {i / sizes[2] / sizes[1], i / sizes[2] % sizes[1], i % sizes[2]};
    regions[i] = (region){.face = face, .points = 1};
    for (int d = 0; d < DP_WINDOW_DIMS; ++d) {
      regions[i].spans[d] = starts[d][index[d]];
      regions[i].points *= regions[i].spans[d].end - regions[i].spans[d].begin;
    }
  }
  dp_free(spans);
  return count;
}

/* All faces of the first images, of the next ones, and so on. */
static void make_regions(dp_conv_grid *work) {
  int64_t each = 0, bytes = work->a_strides[0] * (int64_t)work->size, images = work->batch;
  if (work->face_count > 1 && bytes > 0 && images > TURN_BYTES / bytes)
    images = bytes < TURN_BYTES ? TURN_BYTES / bytes : 1;
  for (int64_t i = 0; i < work->face_count; ++i)
    each += add_face(&work->faces[i], NULL);
  work->region_count = (work->batch + images - 1) / images * each;
  work->regions = dp_malloc((size_t)work->region_count * sizeof *work->regions);
  int64_t count = 0;
  for (int64_t i = 0; i < work->face_count; ++i)
    count += add_face(&work->faces[i], work->regions + count);
  work->tiles = 0;
  for (int64_t i = work->region_count - 1; i >= 0; --i) { /* the first ones are copied */
    region *r = &work->regions[i];
    *r = work->regions[i % each];
    r->first_image = i / each * images;
    r->points *= work->batch - r->first_image < images ? work->batch - r->first_image : images;
  }
  for (int64_t i = 0; i < work->region_count; ++i) {
    work->regions[i].first_tile = work->tiles;
    work->tiles += (work->regions[i].points + work->fns->tile_rows - 1) / work->fns->tile_rows;
  }
}

/* ---- Tiles ---- */
/* The tiles of one region in a block. */
typedef struct stretch {
  const region *region;
  int64_t row, count; /* rows in the block; the last tile of a region may be partly empty */
} stretch;

/* Finds the rows of a and c of a stretch. Points of one image row are equally far apart, so the
 * addresses are computed row by row. */
static void find_rows(const dp_conv_grid *work, const stretch *stretch, int64_t first,
                      const void **a_rows, char **c_rows) {
  const dp_conv_axis *axes = stretch->region->face->axes;
  const span *z = &stretch->region->spans[0], *y = &stretch->region->spans[1], *x = y + 1;
  int64_t width = x->end - x->begin, height = y->end - y->begin, depth = z->end - z->begin;
  int64_t skipped = first % width, row = first / width, size = (int64_t)work->size;
  int64_t a_step = axes[2].step * work->a_strides[3] * size, c_step = work->c_strides[3] * size;
  for (int64_t r = stretch->row, last = r + stretch->count; r < last; skipped = 0, ++row) {
    int64_t image = stretch->region->first_image + row / height / depth;
    int64_t at_z = z->begin + row / height % depth, at_y = y->begin + row % height;
    const char *a = work->a + (x->begin + skipped) * a_step +
                    (image * work->a_strides[0] + at_z * axes[0].step * work->a_strides[1] +
                     at_y * axes[1].step * work->a_strides[2]) *
                        size;
    char *c = work->c + (x->begin + skipped) * c_step +
              (stretch->region->face->start + image * work->c_strides[0] +
               at_z * work->c_strides[1] + at_y * work->c_strides[2]) *
                  size;
    for (int64_t end = last - r < width - skipped ? last : r + width - skipped; r < end; ++r) {
      a_rows[r] = a;
      c_rows[r] = c;
      a += a_step;
      c += c_step;
    }
  }
}

/* The stretches of tiles [first, last); returns their number. */
static int64_t find_stretches(const dp_conv_grid *work, int64_t first, int64_t last,
                              stretch *stretches, const void **a_rows, char **c_rows) {
  int64_t low = 0, high = work->region_count - 1, tile_rows = work->fns->tile_rows, count = 0;
  while (low < high) { /* finds the last region that starts at or before `first` */
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

/* The runs of a region that belong to a pass. A pass covers the same taps in all regions of a
 * face. */
static dp_conv_runs find_runs(const dp_conv_grid *work, const region *region, int64_t pass,
                              int64_t *offsets, int64_t *b_offsets) {
  const span *z = &region->spans[0], *y = &region->spans[1], *x = &region->spans[2];
  const dp_conv_face *face = region->face;
  const dp_conv_axis *axes = face->axes;
  int64_t width = x->last - x->first, steps = face->joins ? (width > 0 ? 1 : 0) : width;
  int64_t per_row = face->joins ? 1 : axes[2].taps, count = 0;
  for (int64_t i = z->first; i < z->last; ++i)
    for (int64_t j = y->first; j < y->last; ++j)
      for (int64_t k = x->first; k < x->first + steps; ++k) {
        int64_t row = i * axes[1].taps + j, run = row * per_row + (face->joins ? 0 : k);
        if (run / face->chunk != pass)
          continue;
        offsets[count] = axes[0].shifts[i] * work->a_strides[1] +
                         axes[1].shifts[j] * work->a_strides[2] +
                         axes[2].shifts[k] * work->a_strides[3];
        b_offsets[count++] =
            (face->b_first + (row * axes[2].taps + k) * work->channels) * work->packing.step;
      }
  return (dp_conv_runs){.offsets = offsets,
                        .count = count,
                        .length = face->joins ? width * work->channels : work->channels,
                        .step = 1,
                        .b_step = work->packing.step,
                        .b_offsets = b_offsets};
}

/* One pass over one panel, which starts at `b`. */
static void run_stretch(const dp_conv_grid *work, const stretch *stretch, const dp_conv_runs *runs,
                        const char *b, int64_t panel, bool accumulates, const void **a_rows,
                        char **c_rows) {
  int tile = work->fns->tile_rows;
  int64_t width = work->columns - panel * work->fns->panel;
  width = width < work->fns->panel ? width : work->fns->panel;
  size_t offset = (size_t)(panel * work->fns->panel) * work->size;
  for (int64_t r = stretch->row; r < stretch->row + stretch->count; r += tile) {
    int64_t rest = stretch->row + stretch->count - r;
    int rows = rest < tile ? (int)rest : tile;
    void *moved[DP_CONV_MAX_TILE];
    for (int i = 0; offset > 0 && i < rows; ++i)
      moved[i] = c_rows[r + i] + offset;
    work->fns->tile(a_rows + r, rows, runs, b, offset > 0 ? moved : (void **)c_rows + r, width,
                    accumulates);
  }
}

/* Rows that follow each other without a gap are finished together. */
static void finish_stretch(const dp_conv_grid *work, const stretch *stretch, char **c_rows,
                           int64_t begin, int64_t end) {
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

/* ---- Blocks ---- */
/* The rows of b that one run of a face needs. */
static int64_t run_rows(const dp_conv_grid *work, const dp_conv_face *face) {
  return (face->joins ? face->axes[2].taps : 1) * work->channels;
}

/* The rows of b that one pass needs; for grids of one face. */
static int64_t pass_rows(const dp_conv_grid *work, int64_t pass) {
  int64_t rows = work->faces->chunk * run_rows(work, work->faces);
  int64_t rest = work->packing.rows - pass * rows;
  return rest < rows ? rest : rows;
}

/* The start of a panel. With packs_late, packs the rows that the pass needs into `scratch`
 * first. */
static const char *panel_start(const dp_conv_grid *work, int64_t panel, int64_t pass,
                               char *scratch) {
  const dp_conv_packing *packing = &work->packing;
  if (!work->packs_late)
    return packing->to + (size_t)(panel * packing->rows * work->fns->panel) * work->size;
  int64_t first = pass * pass_rows(work, 0);
  dp_conv_pack_part(packing, panel, first, pass_rows(work, pass), scratch);
  return scratch - (size_t)(first * packing->step) * work->size;
}

static void run_block(const dp_conv_grid *work, int64_t block, int64_t group, char *scratch) {
  const void *a_rows[MOST_TILES * DP_CONV_MAX_TILE];
  char *c_rows[MOST_TILES * DP_CONV_MAX_TILE];
  stretch stretches[MOST_TILES];
  int64_t offsets[MOST_RUNS], b_offsets[MOST_RUNS];
  int64_t count =
      find_stretches(work, block * work->tiles / work->blocks,
                     (block + 1) * work->tiles / work->blocks, stretches, a_rows, c_rows);
  int64_t start = group * work->panels / work->groups;
  int64_t stop = (group + 1) * work->panels / work->groups;
  for (int64_t pass = 0; pass < work->passes; ++pass)
    for (int64_t panel = start; panel < stop; ++panel) {
      const char *b = panel_start(work, panel, pass, scratch);
      for (int64_t s = 0; s < count; ++s) {
        dp_conv_runs runs = find_runs(work, stretches[s].region, pass, offsets, b_offsets);
        if (runs.count > 0 || pass == 0) /* the first pass also clears c */
          run_stretch(work, &stretches[s], &runs, b, panel, pass > 0, a_rows, c_rows);
      }
    }
  for (int64_t s = 0; work->finish.fn && s < count; ++s)
    finish_stretch(work, &stretches[s], c_rows, start * work->fns->panel, stop * work->fns->panel);
}

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  dp_conv_grid *work = arg;
  dp_buffer *scratch = NULL;
  if (work->packs_late) {
    size_t bytes = (size_t)(pass_rows(work, 0) * work->fns->panel) * work->size;
    dp_status *status = dp_buffer_create(bytes, &scratch);
    if (status) {
      dp_status_release(status);
      work->failed = true;
      return;
    }
  }
  for (int64_t i = begin; i < end; ++i)
    run_block(work, i / work->groups, i % work->groups, scratch ? scratch->data : NULL);
  dp_buffer_release(scratch);
}

/* Decides how many runs of a face a pass takes, and the number of passes. */
static void plan_passes(dp_conv_grid *work) {
  work->passes = 0;
  for (int64_t i = 0; i < work->face_count; ++i) {
    dp_conv_face *face = &work->faces[i];
    int64_t taps = dp_conv_face_taps(face), runs = face->joins ? taps / face->axes[2].taps : taps;
    int64_t run_bytes = run_rows(work, face) * work->fns->panel * (int64_t)work->size;
    face->chunk = run_bytes > 0 && run_bytes < CHUNK_BYTES ? CHUNK_BYTES / run_bytes : 1;
    face->chunk = face->chunk < MOST_RUNS ? face->chunk : MOST_RUNS;
    int64_t passes = (runs + face->chunk - 1) / face->chunk;
    work->passes = passes > work->passes ? passes : work->passes;
  }
}

/* Decides the size of blocks. Blocks are large if panels do not stay in the cache, since every
 * block reads all panels again; but there must be work for all threads. */
static void plan_blocks(dp_conv_grid *work, int64_t rows, int threads) {
  int64_t size = (int64_t)work->size, most = BLOCK_TILES;
  work->panels = (work->columns + work->fns->panel - 1) / work->fns->panel;
  if (work->tiles == 0 || work->panels == 0)
    return;
  if (rows * work->columns * size > SMALL_BYTES) {
    int64_t tile_bytes = work->batch * work->a_strides[0] * size / work->tiles + 1;
    int64_t wanted = BLOCK_BYTES / tile_bytes;
    most = wanted < BLOCK_TILES ? BLOCK_TILES : wanted < MOST_TILES ? wanted : MOST_TILES;
  }
  bool is_even = work->panels % threads == 0 || work->panels >= 4 * threads;
  if (work->tiles <= most && !is_even)
    most = BLOCK_TILES;
  work->blocks = (work->tiles + most - 1) / most;
  int64_t wanted = 4 * threads / work->blocks;
  work->groups = wanted < 1 ? 1 : wanted < work->panels ? wanted : work->panels;
  work->packs_late = work->blocks == 1 && work->face_count == 1;
}

static dp_status *run_group(dp_op_context *context, dp_conv_grid *work) {
  dp_buffer *packed = NULL;
  if (!work->packs_late || dp_conv_is_panel(&work->packing)) {
    work->packs_late = false;
    DP_RETURN_IF_ERROR(dp_conv_pack(context, &work->packing, &packed));
  } else {
    work->packing.step = work->packing.panel;
  }
  int64_t points = work->tiles / work->blocks * work->fns->tile_rows;
  int64_t columns = work->panels * work->fns->panel / work->groups;
  int64_t depth = work->packing.rows / work->face_count;
  dp_op_for(context, work->blocks * work->groups, points * depth * columns * 2 / SPEED + 100,
            run_blocks, work);
  dp_buffer_release(packed);
  return work->failed ? dp_status_out_of_memory() : NULL;
}

dp_status *dp_conv_grid_run(dp_op_context *context, dp_conv_grid *work, const dp_conv_packing *b,
                            int64_t groups, int64_t a_group, int64_t b_group, int64_t c_group) {
  make_regions(work);
  plan_passes(work);
  plan_blocks(work, b->rows, context->step->pool ? dp_pool_threads(context->step->pool) : 1);
  dp_status *status = NULL;
  for (int64_t group = 0; work->tiles > 0 && group < groups && !status; ++group) {
    work->packing = *b;
    work->packing.from += (size_t)(group * b_group) * work->size;
    status = run_group(context, work);
    work->a += (size_t)a_group * work->size;
    work->c += (size_t)c_group * work->size;
    work->first_column += work->columns;
  }
  dp_free(work->regions);
  return status;
}
