/* Chooses who multiplies: our own loops or OpenBLAS, one thread or several. The contracts are in
 * gemm_internal.h. */
#include "kernels/gemm_internal.h"

#include <limits.h>
#include <string.h>
#include "base/thread.h"
#include "kernels/blas_internal.h"
#include "kernels/loops_conv_internal.h"
#include "kernels/loops_gemm_internal.h"
#include "kernels/loops_move_internal.h"
#include "kernels/loops_types_internal.h"

/* Our loops for small matrices do not pack the right operand, so they are faster than tiles when it
 * has up to SMALL_OPERAND elements, and with few rows when all that is read stays in the
 * second-level cache (in float, GFLOP/s: 114 against 108 at 784x64x128, 116 against 111 at
 * 64x128x784, but 92 against 102 at 1000x128x1024). They pass over rows and result once for every
 * few columns, so those must stay in the cache too (6272x64x128: 110 against 145). */
#define SMALL_OPERAND 65536
#define SMALL_OPERANDS 262144
#define FEW_ROWS 256
#define FEW_COLUMNS 32

static bool is_small(const dp_gemm *gemm) {
  if (gemm->n > FEW_COLUMNS && gemm->m * (gemm->n + gemm->k) > SMALL_OPERANDS)
    return false;
  return gemm->n * gemm->k <= SMALL_OPERAND ||
         (gemm->m <= FEW_ROWS && (gemm->m + gemm->n) * gemm->k <= SMALL_OPERANDS);
}

static bool fits_blas(const dp_gemm *gemm) {
  return gemm->m <= INT_MAX && gemm->n <= INT_MAX && gemm->k <= INT_MAX &&
         gemm->a_stride <= INT_MAX && gemm->b_stride <= INT_MAX && gemm->c_stride <= INT_MAX;
}

static int blas_operation(bool transpose, bool conjugate) {
  return !transpose ? DP_BLAS_AS_IS : conjugate ? DP_BLAS_ADJOINT : DP_BLAS_TRANSPOSED;
}

static bool run_blas(const dp_gemm *g) {
  bool conjugates_only = (g->conjugate_a && !g->transpose_a) || (g->conjugate_b && !g->transpose_b);
  const dp_blas *blas = conjugates_only || !fits_blas(g) ? NULL : dp_blas_table();
  if (!blas)
    return false;
  int ta = blas_operation(g->transpose_a, g->conjugate_a);
  int tb = blas_operation(g->transpose_b, g->conjugate_b);
  int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->a_stride, ldb = (int)g->b_stride;
  int ldc = (int)g->c_stride;
  double real_beta = g->accumulates ? 1 : 0;
  const float one_float[2] = {1, 0}, beta_float[2] = {(float)real_beta, 0};
  const double one_double[2] = {1, 0}, beta_double[2] = {real_beta, 0};
  switch (g->dtype) {
  case DP_FLOAT:
    blas->sgemm(DP_BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, g->a, lda, g->b, ldb, beta_float[0], g->c,
                ldc);
    return true;
  case DP_DOUBLE:
    blas->dgemm(DP_BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, g->a, lda, g->b, ldb, real_beta, g->c, ldc);
    return true;
  case DP_COMPLEX64:
    blas->cgemm(DP_BLAS_ROW_MAJOR, ta, tb, m, n, k, one_float, g->a, lda, g->b, ldb, beta_float,
                g->c, ldc);
    return true;
  case DP_COMPLEX128:
    blas->zgemm(DP_BLAS_ROW_MAJOR, ta, tb, m, n, k, one_double, g->a, lda, g->b, ldb, beta_double,
                g->c, ldc);
    return true;
  default:
    return false;
  }
}

/* ---- Our own loops ---- */
/* A dense copy with conjugated elements; `rows` and `columns` as stored. */
static void *conjugated(dp_dtype dtype, const void *from, int64_t rows, int64_t columns,
                        int64_t stride) {
  size_t size = dp_dtype_size(dtype);
  char *copy = dp_malloc((size_t)(rows * columns) * size);
  for (int64_t i = 0; i < rows; ++i) {
    memcpy(copy + i * columns * size, (const char *)from + i * stride * size, columns * size);
    for (int64_t j = 0; j < columns; ++j) {
      if (dtype == DP_COMPLEX64)
        ((float *)copy)[2 * (i * columns + j) + 1] *= -1;
      else
        ((double *)copy)[2 * (i * columns + j) + 1] *= -1;
    }
  }
  return copy;
}

/* b as [k, n], because the loops would turn it an element at a time. NULL when that is as well. */
static dp_buffer *turned_operand(const dp_gemm *g) {
  size_t size = dp_dtype_size(g->dtype);
  if (!g->transpose_b || g->m < 4 || g->conjugate_b || (size != 4 && size != 8))
    return NULL;
  dp_buffer *turned;
  dp_status *status = dp_buffer_create((size_t)(g->n * g->k) * size, &turned);
  if (status) {
    dp_status_release(status);
    return NULL;
  }
  dp_move_table()->transpose[size == 4 ? 2 : 3](turned->data, g->n, g->b, g->b_stride, g->k, g->n);
  return turned;
}

static void run_loops(const dp_gemm *gemm) {
  dp_gemm g = *gemm;
  void *a_copy = NULL, *b_copy = NULL;
  if (g.conjugate_a) {
    int64_t rows = g.transpose_a ? g.k : g.m, columns = g.transpose_a ? g.m : g.k;
    g.a = a_copy = conjugated(g.dtype, g.a, rows, columns, g.a_stride);
    g.a_stride = columns;
  }
  if (g.conjugate_b) {
    int64_t rows = g.transpose_b ? g.n : g.k, columns = g.transpose_b ? g.k : g.n;
    g.b = b_copy = conjugated(g.dtype, g.b, rows, columns, g.b_stride);
    g.b_stride = columns;
  }
  dp_buffer *turned = turned_operand(&g);
  if (turned) {
    g.b = turned->data;
    g.b_stride = g.n;
    g.transpose_b = false;
  }
  dp_gemm_sizes sizes = {.m = g.m,
                         .n = g.n,
                         .k = g.k,
                         .a_row = g.transpose_a ? 1 : g.a_stride,
                         .a_column = g.transpose_a ? g.a_stride : 1,
                         .b_row = g.b_stride,
                         .c_row = g.c_stride,
                         .b_transposed = g.transpose_b,
                         .accumulates = g.accumulates};
  dp_gemm_table()->fn[g.dtype](g.a, g.b, g.c, &sizes);
  dp_buffer_release(turned);
  dp_free(a_copy);
  dp_free(b_copy);
}

/* ---- Tiles ----
 * The loops of convolutions multiply packed panels with rows that lie anywhere. Where a column of
 * a has at most BLOCK_BYTES, its rows stay in the second-level cache together with one panel of b,
 * of BLOCK_DEPTH rows. Else BLOCK_PANELS panels stay there, and a few rows meet all of them. The
 * first tile of rows packs a panel on the way where that can be. Rows of a transposed a lie across
 * its memory and are packed too, unless too few panels would gain by it. */
#define BLOCK_DEPTH 512
#define BLOCK_PANELS 8
#define BLOCK_BYTES 3072
#define BLOCK_TILES 16 /* of a transposed a with more rows */
#define FEW_PANELS 3
#define FEW_TILES 16
#define RUNS 8

typedef struct tiles {
  const dp_gemm *g;
  const dp_conv_fns *fns;
  size_t size;
  bool is_in_place;          /* b is not packed */
  char *packed, *a_packed;   /* a_packed: NULL when a is not */
  int64_t depth, first_k;    /* of the block of b */
  int64_t begin, end;        /* columns of the block */
  int64_t rows, first, last; /* of blocks of rows, and the one at hand */
} tiles;

static void pack_panel(const tiles *work, int64_t column, int64_t width, char *to) {
  const dp_gemm *g = work->g;
  size_t size = work->size, full = (size_t)work->fns->panel * size;
  if (width < work->fns->panel)
    memset(to, 0, (size_t)work->depth * full);
  if (g->transpose_b) {
    const char *from = (const char *)g->b + (size_t)(column * g->b_stride + work->first_k) * size;
    dp_move_table()->transpose[size == 4 ? 2 : 3](to, work->fns->panel, from, g->b_stride,
                                                  work->depth, width);
    return;
  }
  const char *from = (const char *)g->b + (size_t)(work->first_k * g->b_stride + column) * size;
  for (int64_t p = 0; p < work->depth; ++p)
    memcpy(to + (size_t)p * full, from + (size_t)(p * g->b_stride) * size, (size_t)width * size);
}

/* The rows of c from `row` on, at a column; beyond the last, the last. */
static void find_rows(const tiles *work, int64_t row, int64_t column, void **rows) {
  const dp_gemm *g = work->g;
  for (int i = 0; i < work->fns->tile_rows; ++i) {
    int64_t at = row + i < g->m ? row + i : g->m - 1;
    rows[i] = (char *)g->c + (size_t)(at * g->c_stride + column) * work->size;
  }
}

/* The rows of a that a tile reads. */
typedef struct strip {
  int64_t row, step;
  int rows;
  bool is_packed;
  const void *a[DP_CONV_MAX_TILE];
} strip;

static strip strip_at(const tiles *work, int64_t row) {
  const dp_gemm *g = work->g;
  int tile = work->fns->tile_rows;
  strip strip = {.row = row, .step = g->transpose_a ? g->a_stride : 1};
  strip.rows = g->m - row < tile ? (int)(g->m - row) : tile;
  strip.is_packed = work->a_packed && strip.rows == tile;
  int64_t a_row = g->transpose_a ? 1 : g->a_stride;
  const char *from =
      (const char *)g->a + (size_t)(row * a_row + work->first_k * strip.step) * work->size;
  if (strip.is_packed) {
    from = work->a_packed + (size_t)((row - work->first) * work->depth) * work->size;
    strip.step = tile;
  }
  for (int i = 0; i < strip.rows; ++i)
    strip.a[i] = from + (size_t)(i * a_row) * work->size;
  return strip;
}

/* Where the lines of c are that come after a tile: below, or at the top of the next panel. */
static void find_next(const tiles *work, int64_t row, int64_t column, void **rows) {
  bool is_below = row + work->fns->tile_rows < work->last;
  bool is_beside = column + work->fns->panel < work->end;
  if (is_below)
    find_rows(work, row + work->fns->tile_rows, column, rows);
  else
    find_rows(work, is_beside ? work->first : work->last,
              is_beside ? column + work->fns->panel : work->begin, rows);
}

/* In several runs, where that can be: between them a tile asks for lines of c. */
static void run_tile(const tiles *work, const strip *strip, int64_t column, const char *panel,
                     int64_t b_step, char *packed) {
  int64_t offsets[RUNS], count = work->depth % RUNS == 0 ? RUNS : 1, length = work->depth / count;
  for (int64_t r = 0; r < count; ++r)
    offsets[r] = r * length * strip->step;
  int64_t width = work->end - column;
  void *c_rows[DP_CONV_MAX_TILE], *ahead[DP_CONV_MAX_TILE];
  find_rows(work, strip->row, column, c_rows);
  find_next(work, strip->row, column, ahead);
  dp_conv_runs runs = {.offsets = offsets,
                       .count = count,
                       .length = length,
                       .step = strip->step,
                       .b_step = b_step,
                       .packed = packed,
                       .a_is_packed = strip->is_packed,
                       .ahead = ahead};
  work->fns->tile(strip->a, strip->rows, &runs, panel, c_rows,
                  width < work->fns->panel ? width : work->fns->panel,
                  work->g->accumulates || work->first_k > 0);
}

/* The block's rows of one panel, which the first rows of all pack. */
static void run_panel(const tiles *work, int64_t column) {
  const dp_gemm *g = work->g;
  int64_t tile = work->fns->tile_rows, full = work->fns->panel, width = work->end - column;
  char *panel = work->packed;
  if (work->last - work->first < g->m) /* another block of rows will ask for it */
    panel += (size_t)((column - work->begin) * work->depth) * work->size;
  char *from = (char *)g->b + (size_t)(work->first_k * g->b_stride + column) * work->size;
  bool is_raw = work->first == 0 && !work->is_in_place;
  if (is_raw && (g->transpose_b || (width < full && width % work->fns->lanes != 0))) {
    pack_panel(work, column, width < full ? width : full, panel);
    is_raw = false;
  }
  for (int64_t row = work->first; row < work->last; row += tile) {
    strip strip = strip_at(work, row);
    if (work->is_in_place || is_raw) /* fewer rows than a tile are all there are */
      run_tile(work, &strip, column, from, g->b_stride, work->is_in_place ? NULL : panel);
    else
      run_tile(work, &strip, column, panel, full, NULL);
    is_raw = false;
  }
}

static void run_block(tiles *work) {
  const dp_gemm *g = work->g;
  for (work->first = 0; work->first < g->m; work->first = work->last) {
    work->last = g->m - work->first < work->rows ? g->m : work->first + work->rows;
    if (work->a_packed)
      work->fns->pack_columns((const char *)g->a +
                                  (size_t)(work->first_k * g->a_stride + work->first) * work->size,
                              g->a_stride, work->depth,
                              (work->last - work->first) / work->fns->tile_rows, work->a_packed);
    for (int64_t column = work->begin; column < work->end; column += work->fns->panel)
      run_panel(work, column);
  }
}

/* Few rows do not pay for packing; rows of b that are 4 KiB apart would fall on each other. */
static bool reads_in_place(const dp_gemm *g, const dp_conv_fns *fns) {
  return !g->transpose_b && g->m <= FEW_TILES * fns->tile_rows && g->n % fns->lanes == 0 &&
         g->b_stride * (int64_t)dp_dtype_size(g->dtype) % 2048 != 0;
}

/* False when there are no such loops for the type, or no memory. */
static bool run_tiles(const dp_gemm *g) {
  tiles work = {.g = g, .fns = &dp_conv_table()->fns[g->dtype], .size = dp_dtype_size(g->dtype)};
  if (!work.fns->tile)
    return false;
  int64_t tile = work.fns->tile_rows, panel = work.fns->panel, columns = BLOCK_PANELS * panel;
  bool packs_a = g->transpose_a && g->n > FEW_PANELS * panel;
  work.rows = g->m * (int64_t)work.size <= BLOCK_BYTES ? g->m : packs_a ? BLOCK_TILES * tile : tile;
  int64_t depth = g->k < BLOCK_DEPTH ? g->k : BLOCK_DEPTH;
  int64_t b_count = depth * (work.rows == g->m ? panel : columns);
  int64_t a_count = packs_a ? depth * work.rows : 0;
  dp_buffer *packed;
  dp_status *status = dp_buffer_create((size_t)(b_count + a_count) * work.size, &packed);
  if (status) {
    dp_status_release(status);
    return false;
  }
  work.packed = packed->data;
  work.a_packed = a_count > 0 ? work.packed + (size_t)b_count * work.size : NULL;
  work.is_in_place = reads_in_place(g, work.fns);
  for (work.begin = 0; work.begin < g->n; work.begin += columns) {
    work.end = g->n - work.begin < columns ? g->n : work.begin + columns;
    for (work.first_k = 0; work.first_k < g->k; work.first_k += BLOCK_DEPTH) {
      work.depth = g->k - work.first_k < BLOCK_DEPTH ? g->k - work.first_k : BLOCK_DEPTH;
      run_block(&work);
    }
  }
  dp_buffer_release(packed);
  return true;
}

/* A column: c' = b' a', which is one row. b's column must be contiguous, and c's. */
static bool turn_column(const dp_gemm *g, dp_gemm *turned_out) {
  bool b_contiguous = g->transpose_b || g->b_stride == 1 || g->k == 1;
  if (g->n != 1 || g->m == 1 || !b_contiguous || (g->c_stride != 1 && g->m != 1))
    return false;
  *turned_out = (dp_gemm){.dtype = g->dtype,
                          .m = 1,
                          .n = g->m,
                          .k = g->k,
                          .a = g->b,
                          .b = g->a,
                          .c = g->c,
                          .a_stride = g->k,
                          .b_stride = g->a_stride,
                          .c_stride = g->m,
                          .transpose_b = !g->transpose_a,
                          .conjugate_a = g->conjugate_b,
                          .conjugate_b = g->conjugate_a,
                          .accumulates = g->accumulates};
  return true;
}

void dp_gemm_run(const dp_gemm *gemm) {
  if (gemm->m <= 0 || gemm->n <= 0)
    return;
  dp_gemm turned;
  if (turn_column(gemm, &turned))
    gemm = &turned;
  bool is_real = gemm->dtype == DP_FLOAT || gemm->dtype == DP_DOUBLE;
  /* One row is bound by memory; our loops read b once, without packing it. */
  bool is_simple = is_real && (gemm->m == 1 || is_small(gemm));
  if (gemm->k == 0 || is_simple || (!run_tiles(gemm) && !run_blas(gemm)))
    run_loops(gemm);
}

/* ---- Several threads ---- */
int64_t dp_gemm_cost(const dp_gemm *gemm) {
  double operations = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k;
  double speed = gemm->dtype == DP_FLOAT                                       ? 60
                 : gemm->dtype == DP_DOUBLE                                    ? 30
                 : gemm->dtype == DP_COMPLEX64 || gemm->dtype == DP_COMPLEX128 ? 8
                                                                               : 5;
  /* Rows that are read once are bound by memory. */
  double reading = (double)gemm->n * (double)gemm->k * (double)dp_dtype_size(gemm->dtype) / 10;
  double nanoseconds = operations / speed > reading ? operations / speed : reading;
  return nanoseconds > 1e15 ? (int64_t)1e15 : (int64_t)nanoseconds + 50;
}

#define LARGE_PIECE 512 /* rows or columns */
#define ROW_PIECE 256   /* columns of a single row */

typedef struct split {
  const dp_gemm *gemm;
  bool by_rows;
  int64_t piece; /* rows or columns of c */
} split;

static void run_pieces(void *arg, int64_t begin, int64_t end) {
  const split *work = arg;
  dp_gemm part = *work->gemm;
  size_t size = dp_dtype_size(part.dtype);
  int64_t total = work->by_rows ? part.m : part.n;
  int64_t first = begin * work->piece, last = end * work->piece;
  last = last < total ? last : total;
  if (work->by_rows) {
    part.a = (const char *)part.a + first * (part.transpose_a ? 1 : part.a_stride) * size;
    part.c = (char *)part.c + first * part.c_stride * size;
    part.m = last - first;
  } else {
    part.b = (const char *)part.b + first * (part.transpose_b ? part.b_stride : 1) * size;
    part.c = (char *)part.c + first * size;
    part.n = last - first;
  }
  dp_gemm_run(&part);
  if (part.finish.fn)
    part.finish.fn(part.finish.arg, part.c, part.c_stride, part.m, work->by_rows ? 0 : first,
                   part.n);
}

void dp_gemm_run_split(dp_op_context *context, const dp_gemm *gemm) {
  dp_gemm turned;
  if (!gemm->finish.fn && turn_column(gemm, &turned))
    gemm = &turned;
  int64_t cost = dp_gemm_cost(gemm);
  int threads = context->step->pool ? dp_pool_threads(context->step->pool) : 1;
  if (gemm->m == 1 && gemm->n > ROW_PIECE) { /* b is all there is to read: to and fro */
    split row = {.gemm = gemm, .piece = ROW_PIECE};
    int64_t count = (gemm->n + ROW_PIECE - 1) / ROW_PIECE;
    dp_op_for(context, count, cost / count + 1, run_pieces, &row);
    return;
  }
  if (threads == 1 || cost < 60 * 1000 || gemm->m * gemm->n < 64) {
    split whole = {.gemm = gemm, .by_rows = true, .piece = gemm->m};
    run_pieces(&whole, 0, 1);
    return;
  }
  /* Few large pieces: every one packs its operands anew. Twice as many as threads when they stay
   * large, so that a thread that is late costs half of its share. */
  split work = {.gemm = gemm, .by_rows = gemm->m >= gemm->n};
  int64_t total = work.by_rows ? gemm->m : gemm->n;
  int64_t pieces = total >= LARGE_PIECE * 2 * threads ? 2 * threads : threads;
  work.piece = (total + pieces - 1) / pieces;
  work.piece = (work.piece + 15) / 16 * 16;
  pieces = (total + work.piece - 1) / work.piece;
  dp_op_for(context, pieces, cost / pieces + 1, run_pieces, &work);
}
