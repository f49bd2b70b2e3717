/* Products of large matrices in tiles (loops/tiles.h), on the calling thread.
 *
 * The columns of c are cut into panels and its rows into tiles. A block of rows of a stays in the
 * second-level cache while it is multiplied with panel after panel of b. Panels of b are packed.
 * Packing costs as much as several tiles, mostly waiting for memory; so the tiles of one panel pack
 * the next panel between their steps, and the very first tile packs what it reads. If a has few
 * rows, b is not packed.
 *
 * If a is transposed, tiles are tall (loops/tiles_tall.c). They pack a while they read it for the
 * first panel, if the steps of k are far apart in memory and there are enough columns to gain by
 * it. All cuts are even, because a tile of one or two rows waits for its operands. */
#include <string.h>
#include "kernels/loops/move.h"
#include "kernels/loops/tiles.h"
#include "kernels/products/gemm.h"

/* What has to fit into the second-level cache: all rows of a if possible (WHOLE_BYTES; if k is not
 * cut, every panel is used once and leaves the cache, so that is more than BLOCK_BYTES), otherwise
 * a block of rows of a and several panels of b (PACKED_BYTES). With a packed a there are more
 * panels, because every further pass over the panels packs the rows again. */
#define WHOLE_BYTES (1088 << 10) /* of all rows of a, if k is not cut */
#define BLOCK_BYTES (640 << 10)
#define BLOCK_ROWS 132
#define PACKED_BYTES (768 << 10)
#define TRANSPOSED_ROWS 258
#define TRANSPOSED_PACKED_BYTES (1024 << 10)
#define BLOCK_DEPTH 512
#define LONG_DEPTH 1024 /* steps of k if b is not packed */
#define FEW_COLUMNS 192 /* too few to pay for packing a */
#define NEAR_BYTES 2048 /* up to this distance, steps of a transposed a need no packing */
#define FEW_ROWS 96     /* too few to pay for packing b */
#define BAD_STRIDE 2048 /* bytes: rows at a multiple of this share their sets of the cache */
#define SHARING_ROWS 48 /* fewer rows do not pack the next panel: too much to copy per tile */
#define SLAB 16         /* steps of k that are transposed together */
#define LINE_BYTES 64   /* of a cache line */

/* A whole cut into `count` parts; the first `extra` parts have base + 1, the others `base`. */
typedef struct cut {
  int64_t count, base, extra;
} cut;

static cut cut_evenly(int64_t total, int64_t most) {
  int64_t count = (total + most - 1) / most;
  return (cut){count, total / count, total % count};
}

static int64_t cut_at(const cut *cut, int64_t part) {
  return part * cut->base + (part < cut->extra ? part : cut->extra);
}

typedef struct tiles {
  const dp_gemm *g;
  const dp_tile_fns *fns;
  size_t size;
  bool is_in_place; /* b is not packed */
  bool keeps;       /* every panel of a block has its own place; otherwise two places alternate */
  char *packed, *a_packed; /* a_packed: NULL when a is not packed */
  int64_t first_k, depth;  /* steps of k of the current block of b */
  int64_t begin, end;      /* columns of that block */
  cut panels;              /* of that block, counted in vectors */
  int64_t first, last;     /* rows of the current block of a */
  cut rows;                /* tiles of that block */
} tiles;

/* One panel: columns [begin, end). */
typedef struct panel {
  int64_t index, begin, end;
  const char *raw; /* b at its first column */
  char *packed;
} panel;

static panel panel_at(const tiles *work, int64_t index) {
  const dp_gemm *g = work->g;
  int64_t lanes = work->fns->lanes, slot = work->keeps ? index : index & 1;
  panel panel = {.index = index, .begin = work->begin + cut_at(&work->panels, index) * lanes};
  panel.end = work->begin + cut_at(&work->panels, index + 1) * lanes;
  panel.end = panel.end < work->end ? panel.end : work->end;
  int64_t row = g->transpose_b ? 1 : g->b_stride, column = g->transpose_b ? g->b_stride : 1;
  panel.raw =
      (const char *)g->b + (size_t)(work->first_k * row + panel.begin * column) * work->size;
  panel.packed = work->packed + (size_t)(slot * work->depth * work->fns->panel) * work->size;
  return panel;
}

/* Whether tiles can pack the panel between their steps. */
static bool is_copied(const tiles *work, const panel *panel) {
  return !work->g->transpose_b &&
         (work->fns->copies_parts || panel->end - panel->begin == work->fns->panel);
}

/* Packs steps [from, to) of k of a panel. */
static void pack_steps(const tiles *work, const panel *panel, int64_t from, int64_t to) {
  const dp_gemm *g = work->g;
  size_t size = work->size, full = (size_t)work->fns->panel * size;
  int64_t width = panel->end - panel->begin;
  char *packed = panel->packed + (size_t)from * full;
  if (width % work->fns->lanes != 0)
    memset(packed, 0, (size_t)(to - from) * full);
  if (g->transpose_b) {
    dp_move_table()->transpose[size == 4 ? 2 : 3](
        packed, work->fns->panel, panel->raw + (size_t)from * size, g->b_stride, to - from, width);
    return;
  }
  for (int64_t p = from; p < to; ++p, packed += full)
    memcpy(packed, panel->raw + (size_t)(p * g->b_stride) * size, (size_t)width * size);
}

/* ---- Errands ---- */
/* The pace of an errand of `units` rows or lines that must be done within `tiles` tiles. */
static int64_t pace_of(const tiles *work, int64_t units, int64_t tiles) {
  int64_t line = LINE_BYTES / (int64_t)work->size,
          times = tiles * ((work->depth + line - 1) / line);
  return (units * DP_TILE_PACE + times - 1) / times;
}

static int64_t lines_of(const tiles *work, int64_t elements) {
  return (elements * (int64_t)work->size + LINE_BYTES - 1) / LINE_BYTES;
}

static dp_tile_errand copy_panel(const tiles *work, const panel *panel, int64_t tiles) {
  return (dp_tile_errand){.from = panel->raw,
                          .stride = work->g->b_stride,
                          .rows = work->depth,
                          .width = panel->end - panel->begin,
                          .to = panel->packed,
                          .pace = pace_of(work, work->depth, tiles)};
}

/* Steps [from, to) of k, which are transposed after a tile. */
typedef struct slabs {
  int64_t from, to;
} slabs;

static slabs slabs_of(const tiles *work, int64_t part, int64_t parts) {
  int64_t count = (work->depth + SLAB - 1) / SLAB;
  int64_t from = part * count / parts * SLAB, to = (part + 1) * count / parts * SLAB;
  return (slabs){from, to < work->depth ? to : work->depth};
}

static dp_tile_errand ask_for_slabs(const tiles *work, const panel *panel, slabs slabs) {
  int64_t rows = slabs.to > slabs.from ? panel->end - panel->begin : 0;
  int64_t width = slabs.to - slabs.from;
  return (dp_tile_errand){.from = panel->raw + (size_t)slabs.from * work->size,
                          .stride = work->g->b_stride,
                          .rows = rows,
                          .width = width,
                          .pace = pace_of(work, rows * lines_of(work, width), 1)};
}

/* Prefetches the next block of a transposed a, which will be packed. */
static dp_tile_errand ask_for_block(const tiles *work, int64_t tiles) {
  const dp_gemm *g = work->g;
  int64_t rest = g->m - work->last, block = work->last - work->first;
  int64_t width = rest < block ? rest : block;
  return (dp_tile_errand){.from = (const char *)g->a +
                                  (size_t)(work->first_k * g->a_stride + work->last) * work->size,
                          .stride = g->a_stride,
                          .rows = rest > 0 ? work->depth : 0,
                          .width = width,
                          .pace = pace_of(work, work->depth * lines_of(work, width), tiles)};
}

/* ---- Tiles ---- */
/* Whether a panel reads packed rows of a. The tiles of the first panel pack them. */
static bool has_packed_rows(const tiles *work, const panel *panel) {
  return work->a_packed && panel->index > 0;
}

/* The fields that all tiles of a panel share. */
static dp_tile tile_of(const tiles *work, const panel *panel) {
  const dp_gemm *g = work->g;
  dp_tile tile = {.a_row = g->transpose_a ? 1 : g->a_stride,
                  .a_step = g->transpose_a ? g->a_stride : 1,
                  .b = work->is_in_place ? panel->raw : panel->packed,
                  .b_step = work->is_in_place ? g->b_stride : work->fns->panel,
                  .c_row = g->c_stride,
                  .depth = work->depth,
                  .accumulates = g->accumulates || work->first_k > 0};
  if (has_packed_rows(work, panel))
    tile.a_step = work->fns->rows;
  return tile;
}

/* Sets where the rows of the block's tile `index` are in a and in c, and where they are packed
 * to. */
static void place_rows(const tiles *work, const panel *panel, dp_tile *tile, int64_t index,
                       int64_t rows) {
  const dp_gemm *g = work->g;
  int64_t packed = work->depth * work->fns->rows, row = work->first + cut_at(&work->rows, index);
  char *place = work->a_packed ? work->a_packed + (size_t)(index * packed) * work->size : NULL;
  bool is_packed = has_packed_rows(work, panel);
  int64_t at = row * tile->a_row + work->first_k * tile->a_step;
  tile->a = is_packed ? place : (const char *)g->a + (size_t)at * work->size;
  tile->a_tile = is_packed ? packed : rows * tile->a_row;
  tile->a_copy = is_packed ? NULL : place;
  tile->c = (char *)g->c + (size_t)(row * g->c_stride + panel->begin) * work->size;
}

/* Tiles [from, to) of the block's rows. */
static void run_tiles(const tiles *work, const panel *panel, dp_tile *tile, int64_t from,
                      int64_t to) {
  while (from < to) {
    bool is_tall = from < work->rows.extra;
    int64_t end = is_tall && work->rows.extra < to ? work->rows.extra : to;
    int64_t rows = work->rows.base + is_tall;
    place_rows(work, panel, tile, from, rows);
    tile->count = end - from;
    work->fns->run(tile, (int)rows, panel->end - panel->begin);
    from = end;
  }
}

/* Packs a transposed panel in parts: each tile prefetches a part, which is transposed after it. */
static void run_turning(const tiles *work, const panel *panel_now, const panel *next, dp_tile *tile,
                        int64_t from) {
  int64_t count = work->rows.count;
  for (int64_t t = from; t < count; ++t) {
    slabs slabs = slabs_of(work, t - from, count - from);
    tile->errand = ask_for_slabs(work, next, slabs);
    run_tiles(work, panel_now, tile, t, t + 1);
    if (slabs.to > slabs.from)
      pack_steps(work, next, slabs.from, slabs.to);
  }
}

/* What the tiles of a panel pack besides multiplying. */
typedef struct duties {
  panel now, next;
  bool is_raw;     /* the first tile packs this panel while it reads it */
  bool packs_next; /* the other tiles pack the next panel */
} duties;

static duties duties_of(const tiles *work, int64_t index) {
  duties duties = {.now = panel_at(work, index)};
  bool packs = work->first == 0 && !work->is_in_place, is_last = index + 1 == work->panels.count;
  bool shares = work->last - work->first >= SHARING_ROWS;
  if (packs && (index == 0 || !shares)) {
    duties.is_raw = work->rows.count > 1 && is_copied(work, &duties.now);
    if (!duties.is_raw)
      pack_steps(work, &duties.now, 0, work->depth);
  }
  if (!packs || is_last || !shares)
    return duties;
  duties.next = panel_at(work, index + 1);
  duties.packs_next = work->g->transpose_b || is_copied(work, &duties.next);
  if (!duties.packs_next)
    pack_steps(work, &duties.next, 0, work->depth);
  return duties;
}

/* Multiplies the block's rows with one panel. For the first block of rows, its tiles pack the next
 * panel between their steps. */
static void run_panel(const tiles *work, int64_t index) {
  duties duties = duties_of(work, index);
  int64_t first = 0, count = work->rows.count;
  dp_tile tile = tile_of(work, &duties.now);
  if (duties.is_raw) {
    dp_tile raw = tile;
    raw.b = duties.now.raw;
    raw.b_step = work->g->b_stride;
    raw.b_copy = duties.now.packed;
    run_tiles(work, &duties.now, &raw, 0, 1);
    first = 1;
  }
  if (duties.packs_next && work->g->transpose_b) {
    run_turning(work, &duties.now, &duties.next, &tile, first);
    return;
  }
  if (duties.packs_next)
    tile.errand = copy_panel(work, &duties.next, count - first);
  else if (work->a_packed && index == work->panels.count - 1)
    tile.errand = ask_for_block(work, count - first);
  run_tiles(work, &duties.now, &tile, first, count);
}

static void run_block(tiles *work, const cut *blocks) {
  for (int64_t i = 0; i < blocks->count; ++i) {
    work->first = cut_at(blocks, i);
    work->last = cut_at(blocks, i + 1);
    work->rows = cut_evenly(work->last - work->first, work->fns->rows);
    for (int64_t p = 0; p < work->panels.count; ++p)
      run_panel(work, p);
  }
}

static bool reads_in_place(const dp_gemm *g, const dp_tile_fns *fns) {
  if (g->transpose_b || g->n % fns->lanes != 0)
    return false;
  return g->m <= 2 * fns->rows ||
         (g->m <= FEW_ROWS && g->b_stride * (int64_t)dp_dtype_size(g->dtype) % BAD_STRIDE != 0);
}

/* How the whole product is cut. */
typedef struct plan {
  cut depths, blocks; /* depths: cuts of k; blocks: cuts of the rows */
  int64_t columns;    /* columns of a block of b */
  bool packs_a;
} plan;

static plan plan_of(const tiles *work) {
  const dp_gemm *g = work->g;
  int64_t size = (int64_t)work->size, full = work->fns->panel;
  plan plan = {.packs_a = g->transpose_a && g->m > 2 * work->fns->rows && g->n > FEW_COLUMNS &&
                          g->a_stride * size > NEAR_BYTES};
  plan.depths = cut_evenly(g->k, work->is_in_place ? LONG_DEPTH : BLOCK_DEPTH);
  int64_t deepest = plan.depths.base + (plan.depths.extra > 0 ? 1 : 0);
  int64_t most_bytes = plan.depths.count == 1 ? WHOLE_BYTES : BLOCK_BYTES;
  bool is_whole = g->m * deepest * size <= most_bytes;
  int64_t most = plan.packs_a ? TRANSPOSED_ROWS : BLOCK_ROWS;
  int64_t bytes = plan.packs_a ? TRANSPOSED_PACKED_BYTES : PACKED_BYTES;
  plan.blocks = cut_evenly(g->m, is_whole ? g->m : most);
  plan.columns = bytes / (deepest * size) / full * full;
  plan.columns = plan.columns < full ? full : plan.columns;
  if (plan.blocks.count == 1 && plan.depths.count == 1)
    plan.columns = g->n;
  return plan;
}

static void run_plan(tiles *work, const plan *plan) {
  const dp_gemm *g = work->g;
  for (work->begin = 0; work->begin < g->n; work->begin = work->end) {
    int64_t lanes = work->fns->lanes;
    work->end = g->n - work->begin < plan->columns ? g->n : work->begin + plan->columns;
    work->panels =
        cut_evenly((work->end - work->begin + lanes - 1) / lanes, work->fns->panel / lanes);
    for (int64_t d = 0; d < plan->depths.count; ++d) {
      work->first_k = cut_at(&plan->depths, d);
      work->depth = cut_at(&plan->depths, d + 1) - work->first_k;
      run_block(work, &plan->blocks);
    }
  }
}

static const dp_tile_fns *fns_of(const dp_gemm *g) {
  const dp_tile_fns *tall = &dp_tall_tile_table()->fns[g->dtype];
  return g->transpose_a && tall->run ? tall : &dp_tile_table()->fns[g->dtype];
}

bool dp_gemm_run_tiles(const dp_gemm *g) {
  tiles work = {.g = g, .fns = fns_of(g), .size = dp_dtype_size(g->dtype)};
  if (!work.fns->run || g->k < 1)
    return false;
  work.is_in_place = reads_in_place(g, work.fns);
  plan plan = plan_of(&work);
  work.keeps = plan.blocks.count > 1;
  int64_t deepest = plan.depths.base + (plan.depths.extra > 0 ? 1 : 0), full = work.fns->panel;
  int64_t columns = plan.columns < g->n ? plan.columns : (g->n + full - 1) / full * full;
  int64_t b_count = work.is_in_place ? 0 : deepest * (work.keeps ? columns : 2 * full);
  int64_t rows = plan.blocks.base + 1 + work.fns->rows;
  int64_t a_count = plan.packs_a ? rows * deepest : 0;
  dp_buffer *packed;
  dp_status *status = dp_buffer_create((size_t)(b_count + a_count) * work.size, &packed);
  if (status) {
    dp_status_release(status);
    return false;
  }
  work.packed = packed->data;
  work.a_packed = plan.packs_a ? work.packed + (size_t)b_count * work.size : NULL;
  run_plan(&work, &plan);
  dp_buffer_release(packed);
  return true;
}
