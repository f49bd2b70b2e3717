/* Fills the table of move.h: strided copies, transposes of squares, filling, joining of rows. The
 * bodies are in move.tmpl.h, which is included once per element size; here are the squares that are
 * transposed in registers. Compiled once for each instruction set. */
#include "kernels/loops/move.h"

#include <string.h>

typedef uint8_t unit1;
typedef uint16_t unit2 __attribute__((aligned(1), may_alias));
typedef uint32_t unit4 __attribute__((aligned(1), may_alias));
typedef uint64_t unit8 __attribute__((aligned(1), may_alias));
typedef uint64_t unit16 __attribute__((vector_size(16), aligned(1), may_alias));

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint8_t bytes16_any __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t shorts8 __attribute__((vector_size(16)));
typedef uint16_t shorts8_any __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef uint32_t words4_any __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t longs2 __attribute__((vector_size(16)));
typedef uint64_t longs2_any __attribute__((vector_size(16), aligned(1), may_alias));

#if defined(__clang__)
#define SHUFFLE(a, b, mask_type, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, mask_type, ...) __builtin_shuffle(a, b, (mask_type){__VA_ARGS__})
#endif
/* LOWn and HIGHn interleave the low and the high halves of two vectors of n elements. A square of n
 * vectors is transposed by interleaving vectors i and i + n/2, log2(n) times. */
#define LOW2(a, b) SHUFFLE(a, b, longs2, 0, 2)
#define HIGH2(a, b) SHUFFLE(a, b, longs2, 1, 3)
#define LOW4(a, b) SHUFFLE(a, b, words4, 0, 4, 1, 5)
#define HIGH4(a, b) SHUFFLE(a, b, words4, 2, 6, 3, 7)
#define LOW8(a, b) SHUFFLE(a, b, shorts8, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH8(a, b) SHUFFLE(a, b, shorts8, 4, 12, 5, 13, 6, 14, 7, 15)
#define LOW16(a, b) SHUFFLE(a, b, bytes16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH16(a, b)                                                                               \
  SHUFFLE(a, b, bytes16, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

#define DEFINE_SQUARE(name, unit, vector, vector_any, count, low, high)                            \
  static inline void name(unit *to, int64_t to_stride, const unit *from, int64_t from_stride) {    \
    vector a[count], b[count];                                                                     \
    for (int i = 0; i < count; ++i)                                                                \
      a[i] = *(const vector_any *)(from + i * from_stride);                                        \
    for (int step = 1; step < count; step *= 2) {                                                  \
      for (int i = 0; i < count / 2; ++i) {                                                        \
        b[2 * i] = low(a[i], a[i + count / 2]);                                                    \
        b[2 * i + 1] = high(a[i], a[i + count / 2]);                                               \
      }                                                                                            \
      for (int i = 0; i < count; ++i)                                                              \
        a[i] = b[i];                                                                               \
    }                                                                                              \
    for (int i = 0; i < count; ++i)                                                                \
      *(vector_any *)(to + i * to_stride) = a[i];                                                  \
  }
DEFINE_SQUARE(square1, unit1, bytes16, bytes16_any, 16, LOW16, HIGH16)
DEFINE_SQUARE(square2, unit2, shorts8, shorts8_any, 8, LOW8, HIGH8)
DEFINE_SQUARE(square4, unit4, words4, words4_any, 4, LOW4, HIGH4)
DEFINE_SQUARE(square8, unit8, longs2, longs2_any, 2, LOW2, HIGH2)

/* Where a vector is as long as a cache line, a square of whole lines is transposed in registers. */
#ifdef __AVX512F__
#include <immintrin.h>
typedef uint64_t longs8 __attribute__((vector_size(64)));
typedef uint64_t longs8_any __attribute__((vector_size(64), aligned(1), may_alias));
#define LOW_LONGS(a, b) SHUFFLE(a, b, longs8, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_LONGS(a, b) SHUFFLE(a, b, longs8, 4, 12, 5, 13, 6, 14, 7, 15)
DEFINE_SQUARE(lines8, unit8, longs8, longs8_any, 8, LOW_LONGS, HIGH_LONGS)

/* Four words from each of the rows i, i + 4, i + 8 and i + 12. Reading quarters of rows from memory
 * is cheaper than shuffling across whole registers. */
static inline __m512 four_rows(const unit4 *from, int64_t from_stride) {
  __m512 rows = _mm512_castps128_ps512(_mm_loadu_ps((const float *)from));
  rows = _mm512_insertf32x4(rows, _mm_loadu_ps((const float *)(from + 4 * from_stride)), 1);
  rows = _mm512_insertf32x4(rows, _mm_loadu_ps((const float *)(from + 8 * from_stride)), 2);
  return _mm512_insertf32x4(rows, _mm_loadu_ps((const float *)(from + 12 * from_stride)), 3);
}

/* `rows` are rows 0 to 3 of four 4 x 4 squares that lie side by side: stores their columns. */
static inline void store_columns(unit4 *to, int64_t to_stride, const __m512 *rows) {
  __m512d low = _mm512_castps_pd(_mm512_unpacklo_ps(rows[0], rows[1]));
  __m512d high = _mm512_castps_pd(_mm512_unpackhi_ps(rows[0], rows[1]));
  __m512d next_low = _mm512_castps_pd(_mm512_unpacklo_ps(rows[2], rows[3]));
  __m512d next_high = _mm512_castps_pd(_mm512_unpackhi_ps(rows[2], rows[3]));
  _mm512_storeu_pd(to, _mm512_unpacklo_pd(low, next_low));
  _mm512_storeu_pd(to + to_stride, _mm512_unpackhi_pd(low, next_low));
  _mm512_storeu_pd(to + 2 * to_stride, _mm512_unpacklo_pd(high, next_high));
  _mm512_storeu_pd(to + 3 * to_stride, _mm512_unpackhi_pd(high, next_high));
}

/* All four quarters of a line are read before the next line: with strides that are powers of two,
 * all lines share one set of the cache and push each other out. */
static inline void lines4(unit4 *to, int64_t to_stride, const unit4 *from, int64_t from_stride) {
  __m512 rows[4][4]; /* [quarter of the line][row] */
  _Pragma("GCC unroll 4") for (int i = 0; i < 4; ++i)
      _Pragma("GCC unroll 4") for (int quarter = 0; quarter < 4; ++quarter) rows[quarter][i] =
          four_rows(from + i * from_stride + 4 * quarter, from_stride);
  _Pragma("GCC unroll 4") for (int quarter = 0; quarter < 4; ++quarter)
      store_columns(to + 4 * quarter * to_stride, to_stride, rows[quarter]);
}
#endif

#define UNIT unit1
#define NAME(x) x##1
#define TILE 16
#define TRANSPOSE_VECTORS square1
#include "kernels/loops/move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE
#undef TRANSPOSE_VECTORS

#define UNIT unit2
#define NAME(x) x##2
#define TILE 8
#define TRANSPOSE_VECTORS square2
#include "kernels/loops/move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE
#undef TRANSPOSE_VECTORS

#define UNIT unit4
#define NAME(x) x##4
#define TILE 4
#define TRANSPOSE_VECTORS square4
#ifdef __AVX512F__
#define TRANSPOSE_LINES lines4
#endif
#include "kernels/loops/move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE
#undef TRANSPOSE_VECTORS
#undef TRANSPOSE_LINES

#define UNIT unit8
#define NAME(x) x##8
#define TILE 2
#define TRANSPOSE_VECTORS square8
#ifdef __AVX512F__
#define TRANSPOSE_LINES lines8
#endif
#include "kernels/loops/move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE
#undef TRANSPOSE_VECTORS
#undef TRANSPOSE_LINES

#define UNIT unit16
#define NAME(x) x##16
#define TILE 4
#include "kernels/loops/move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE

/* ---- Joining ---- */
#ifdef __AVX512F__
typedef uint64_t wide __attribute__((vector_size(64), aligned(1), may_alias));
#else
typedef uint64_t wide __attribute__((vector_size(32), aligned(1), may_alias));
#endif
#define LONG_RUN 1024 /* bytes from which a call of memcpy pays */

/* The last unit ends at the run's end and overlaps the unit before it, so no loop over single bytes
 * is needed. */
#define COPY_UNITS(unit)                                                                           \
  do {                                                                                             \
    const int64_t size = (int64_t)sizeof(unit);                                                    \
    for (int64_t i = 0; i + size < bytes; i += size)                                               \
      *(unit *)(to + i) = *(const unit *)(from + i);                                               \
    *(unit *)(to + bytes - size) = *(const unit *)(from + bytes - size);                           \
  } while (0)

static inline void copy_run(char *to, const char *from, int64_t bytes) {
  if (bytes >= LONG_RUN)
    memcpy(to, from, (size_t)bytes);
  else if (bytes >= (int64_t)sizeof(wide))
    COPY_UNITS(wide);
  else if (bytes >= (int64_t)sizeof(unit16))
    COPY_UNITS(unit16);
  else if (bytes >= (int64_t)sizeof(unit4))
    COPY_UNITS(unit4);
  else
    memcpy(to, from, (size_t)bytes);
}

static void join(char *to, const dp_move_part *parts, int64_t count, int64_t begin, int64_t end) {
  int64_t row = 0;
  for (int64_t i = 0; i < count; ++i)
    row += parts[i].bytes;
  to += begin * row;
  for (int64_t r = begin; r < end; ++r)
    for (int64_t i = 0; i < count; to += parts[i].bytes, ++i)
      copy_run(to, parts[i].from + r * parts[i].bytes, parts[i].bytes);
}

const dp_move_loops DP_ISA_SYMBOL(dp_move_table) = {
    {strided1, strided2, strided4, strided8, strided16},
    {transpose1, transpose2, transpose4, transpose8, transpose16},
    {fill1, fill2, fill4, fill8, fill16},
    join,
};
