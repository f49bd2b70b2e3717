/* Decides how a product is computed: by our loops for small matrices, by tiles (gemm_tiles.c) or by
 * OpenBLAS, and on one thread or several. The thresholds below were measured. The contracts are in
 * gemm.h. */
#include "kernels/products/gemm.h"

#include <limits.h>
#include <string.h>
#include "base/thread.h"
#include "kernels/loops/gemm.h"
#include "kernels/loops/move.h"
#include "kernels/loops/types.h"
#include "kernels/products/blas.h"

/* The loops for small matrices do not pack b. They are faster than tiles in two cases: if b has at
 * most SMALL_OPERAND elements; and with few rows if all operands stay in the second-level cache.
 * GFLOP/s in float, loops against tiles:
 *
 *   784x64x128     114 : 108        1000x128x1024    92 : 102
 *   64x128x784     116 : 111        6272x64x128     110 : 145
 *
 * The loops pass over a and c once per few columns, so a and c must stay in the cache too (last
 * case). */
#define SMALL_OPERAND 65536
#define SMALL_OPERANDS 262144
#define FEW_ROWS 256
#define FEW_COLUMNS 32
/* Tiles of few rows do not pack b either, and keep their sums longer (64x128x784: 2 % faster). */
#define LEAST_TILED_ROWS 12
#define FEW_TILED_ROWS 96
#define DEEP 512

static bool is_small(const dp_gemm *gemm) {
  if (gemm->k >= DEEP && gemm->m >= LEAST_TILED_ROWS && gemm->m <= FEW_TILED_ROWS &&
      !gemm->transpose_b)
    return false;
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
/* A dense copy with conjugated elements; `rows` and `columns` are those of the stored matrix. */
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

static void run_plain(const dp_gemm *g) {
  dp_gemm_sizes sizes = {.m = g->m,
                         .n = g->n,
                         .k = g->k,
                         .a_row = g->transpose_a ? 1 : g->a_stride,
                         .a_column = g->transpose_a ? g->a_stride : 1,
                         .b_row = g->b_stride,
                         .c_row = g->c_stride,
                         .b_transposed = g->transpose_b,
                         .accumulates = g->accumulates};
  dp_gemm_table()->fn[g->dtype](g->a, g->b, g->c, &sizes);
}

/* Multiplies with a transposed b: the plain loops would transpose it element by element. Transposes
 * some columns at once, few enough to stay in the cache, then multiplies with them. False when the
 * plain loops are as good, or when there is no memory. */
#define TURNED_BYTES (16 << 10)
#define TURNED_STEP 32 /* columns */
static bool run_turned(const dp_gemm *g) {
  int64_t size = (int64_t)dp_dtype_size(g->dtype);
  if (!g->transpose_b || g->m < 4 || g->k == 0 || (size != 4 && size != 8))
    return false;
  int64_t width = TURNED_BYTES / (g->k * size) / TURNED_STEP * TURNED_STEP;
  width = width < TURNED_STEP ? TURNED_STEP : width;
  dp_buffer *turned;
  dp_status *status = dp_buffer_create((size_t)(width * g->k * size), &turned);
  if (status) {
    dp_status_release(status);
    return false;
  }
  for (int64_t j = 0; j < g->n; j += width) {
    dp_gemm part = *g;
    part.n = g->n - j < width ? g->n - j : width;
    part.b = turned->data;
    part.b_stride = part.n;
    part.transpose_b = false;
    part.c = (char *)g->c + j * size;
    dp_move_table()->transpose[size == 4 ? 2 : 3](turned->data, part.n,
                                                  (const char *)g->b + j * g->b_stride * size,
                                                  g->b_stride, g->k, part.n);
    run_plain(&part);
  }
  dp_buffer_release(turned);
  return true;
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
  if (!run_turned(&g))
    run_plain(&g);
  dp_free(a_copy);
  dp_free(b_copy);
}

/* If c is a column (n = 1), computes c' = b' a', whose result is a row. The column must be
 * contiguous in b and in c. */
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
  /* A single row is bound by memory, and the loops read b once, without packing it. */
  bool is_simple = is_real && (gemm->m == 1 || is_small(gemm));
  if (gemm->k == 0 || is_simple || (!dp_gemm_run_tiles(gemm) && !run_blas(gemm)))
    run_loops(gemm);
}

/* ---- Several threads ---- */
int64_t dp_gemm_cost(const dp_gemm *gemm) {
  double operations = 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k;
  double speed = gemm->dtype == DP_FLOAT                                       ? 60
                 : gemm->dtype == DP_DOUBLE                                    ? 30
                 : gemm->dtype == DP_COMPLEX64 || gemm->dtype == DP_COMPLEX128 ? 8
                                                                               : 5;
  /* A product in which b is read only once is bound by memory. */
  double reading = (double)gemm->n * (double)gemm->k * (double)dp_dtype_size(gemm->dtype) / 10;
  double nanoseconds = operations / speed > reading ? operations / speed : reading;
  return nanoseconds > 1e15 ? (int64_t)1e15 : (int64_t)nanoseconds + 50;
}

#define LARGE_PIECE 512 /* rows or columns that make a piece large */
#define ROW_PIECE 256   /* columns per piece of a single row */

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

/* ---- One row ---- */
#define STRIP_BYTES (512 << 10)
#define MOST_STRIPS 16

/* b is cut into `count` strips of `depth` rows. The first strip's sums go to c, those of strip i >
 * 0 to row i - 1 of `sums`. */
typedef struct strips {
  const dp_gemm *gemm;
  int64_t count, depth;
  char *sums;
} strips;

static void run_strips(void *arg, int64_t begin, int64_t end) {
  const strips *work = arg;
  size_t size = dp_dtype_size(work->gemm->dtype);
  for (int64_t i = begin; i < end; ++i) {
    dp_gemm part = *work->gemm;
    int64_t first = i * work->depth, rest = part.k - first;
    part.a = (const char *)part.a + (size_t)(first * (part.transpose_a ? part.a_stride : 1)) * size;
    part.b = (const char *)part.b + (size_t)(first * part.b_stride) * size;
    part.k = rest < work->depth ? rest : work->depth;
    if (i > 0) {
      part.c = work->sums + (size_t)((i - 1) * part.n) * size;
      part.accumulates = false;
    }
    dp_gemm_run(&part);
  }
}

/* Adds the sums of all strips but the first to c, in order. */
static void add_strips(const strips *work) {
  static const float floats[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  static const double doubles[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const dp_gemm *g = work->gemm;
  dp_gemm sum = {.dtype = g->dtype,
                 .m = 1,
                 .n = g->n,
                 .k = work->count - 1,
                 .a = g->dtype == DP_FLOAT ? (const void *)floats : doubles,
                 .b = work->sums,
                 .c = g->c,
                 .a_stride = work->count - 1,
                 .b_stride = g->n,
                 .c_stride = g->c_stride,
                 .accumulates = true};
  dp_gemm_run(&sum);
}

/* One row times a matrix that is larger than the cache is bound by reading the matrix. It is read
 * in the order of its memory, in alternating directions (dp_op_for), so that what was read last is
 * still in the cache when the next product begins. The number of strips does not depend on the
 * number of threads, so neither does the result. False when it is not such a product, or there is
 * no memory. */
static bool run_row(dp_op_context *context, const dp_gemm *gemm) {
  int64_t size = (int64_t)dp_dtype_size(gemm->dtype), bytes = gemm->n * gemm->k * size;
  bool is_real = gemm->dtype == DP_FLOAT || gemm->dtype == DP_DOUBLE;
  if (gemm->m != 1 || gemm->transpose_b || !is_real || bytes < 2 * STRIP_BYTES ||
      gemm->n * size > STRIP_BYTES / MOST_STRIPS)
    return false;
  int64_t count = bytes / STRIP_BYTES < MOST_STRIPS ? bytes / STRIP_BYTES : MOST_STRIPS;
  strips work = {.gemm = gemm, .depth = (gemm->k + count - 1) / count};
  work.count = (gemm->k + work.depth - 1) / work.depth;
  dp_buffer *sums;
  dp_status *status = dp_buffer_create((size_t)(work.count * gemm->n * size), &sums);
  if (status) {
    dp_status_release(status);
    return false;
  }
  work.sums = sums->data;
  dp_op_for(context, work.count, dp_gemm_cost(gemm) / work.count + 1, run_strips, &work);
  if (work.count > 1)
    add_strips(&work);
  if (gemm->finish.fn)
    gemm->finish.fn(gemm->finish.arg, gemm->c, gemm->c_stride, 1, 0, gemm->n);
  dp_buffer_release(sums);
  return true;
}

void dp_gemm_run_split(dp_op_context *context, const dp_gemm *gemm) {
  dp_gemm turned;
  if (!gemm->finish.fn && turn_column(gemm, &turned))
    gemm = &turned;
  if (run_row(context, gemm))
    return;
  int64_t cost = dp_gemm_cost(gemm);
  int threads = context->step->pool ? dp_pool_threads(context->step->pool) : 1;
  if (gemm->m == 1 && gemm->n > ROW_PIECE) { /* pieces, in alternating directions */
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
  /* Few large pieces, because every piece packs its operands again. Twice as many pieces as threads
   * if they are still large: then a late thread costs half as much. */
  split work = {.gemm = gemm, .by_rows = gemm->m >= gemm->n};
  int64_t total = work.by_rows ? gemm->m : gemm->n;
  int64_t pieces = total >= LARGE_PIECE * 2 * threads ? 2 * threads : threads;
  work.piece = (total + pieces - 1) / pieces;
  work.piece = (work.piece + 15) / 16 * 16;
  pieces = (total + work.piece - 1) / work.piece;
  dp_op_for(context, pieces, cost / pieces + 1, run_pieces, &work);
}
