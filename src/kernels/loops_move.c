/* Moves elements with strides, in transposed squares, or one value many times; compiled once for
 * each instruction set. */
#include "kernels/loops_move_internal.h"

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
/* Interleave the low and the high halves of two vectors. Interleaving vectors i and i + n/2 of a
 * square of n vectors, log2(n) times, transposes it. */
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

#define UNIT unit1
#define NAME(x) x##1
#define TILE 16
#define TRANSPOSE_VECTORS square1
#include "kernels/loops_move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE
#undef TRANSPOSE_VECTORS

#define UNIT unit2
#define NAME(x) x##2
#define TILE 8
#define TRANSPOSE_VECTORS square2
#include "kernels/loops_move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE
#undef TRANSPOSE_VECTORS

#define UNIT unit4
#define NAME(x) x##4
#define TILE 4
#define TRANSPOSE_VECTORS square4
#include "kernels/loops_move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE
#undef TRANSPOSE_VECTORS

#define UNIT unit8
#define NAME(x) x##8
#define TILE 2
#define TRANSPOSE_VECTORS square8
#include "kernels/loops_move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE
#undef TRANSPOSE_VECTORS

#define UNIT unit16
#define NAME(x) x##16
#define TILE 4
#include "kernels/loops_move.tmpl.h"
#undef UNIT
#undef NAME
#undef TILE

/* ---- Rows by index ---- */
typedef uint64_t unit32 __attribute__((vector_size(32), aligned(1), may_alias));

/* The end of a row overlaps what comes before it: no loop over single bytes. */
#define COPY_PARTS(unit)                                                                           \
  do {                                                                                             \
    const int64_t size = (int64_t)sizeof(unit);                                                    \
    for (int64_t i = 0; i + size < bytes; i += size)                                               \
      *(unit *)(to + i) = *(const unit *)(from + i);                                               \
    *(unit *)(to + bytes - size) = *(const unit *)(from + bytes - size);                           \
  } while (0)

static inline void copy_row(char *to, const char *from, int64_t bytes) {
  if (bytes >= 512)
    memcpy(to, from, (size_t)bytes);
  else if (bytes >= 32)
    COPY_PARTS(unit32);
  else if (bytes >= 8)
    COPY_PARTS(unit8);
  else if (bytes >= 4)
    COPY_PARTS(unit4);
  else
    for (int64_t i = 0; i < bytes; ++i)
      to[i] = from[i];
}

/* Rows to come are asked for early: their order is anybody's guess. */
#define ROWS_AHEAD 8
/* Negative indices are beyond any limit when they are taken as unsigned. */
#define DEFINE_INDEXED(suffix, index, largest)                                                     \
  static bool in_range_##suffix(const void *memory, int64_t count, int64_t limit) {                \
    const u##index *indices = memory;                                                              \
    u##index most = limit > largest ? largest + (u##index)1 : (u##index)limit;                     \
    u##index bad = 0;                                                                              \
    for (int64_t i = 0; i < count; ++i)                                                            \
      bad |= indices[i] >= most;                                                                   \
    return bad == 0;                                                                               \
  }                                                                                                \
  static void scatter_##suffix(void *to, const void *from, const void *memory, int64_t count,      \
                               int64_t bytes) {                                                    \
    const index *indices = memory;                                                                 \
    for (int64_t i = 0; i < count; ++i) {                                                          \
      if (i + ROWS_AHEAD < count)                                                                  \
        for (int64_t k = 0; k < bytes && k < 256; k += 64)                                         \
          __builtin_prefetch((char *)to + indices[i + ROWS_AHEAD] * bytes + k, 1);                 \
      copy_row((char *)to + indices[i] * bytes, (const char *)from + i * bytes, bytes);            \
    }                                                                                              \
  }
DEFINE_INDEXED(int32, int32_t, INT32_MAX)
DEFINE_INDEXED(int64, int64_t, INT64_MAX)

const dp_move_loops DP_ISA_SYMBOL(dp_move_table) = {
    {strided1, strided2, strided4, strided8, strided16},
    {transpose1, transpose2, transpose4, transpose8, transpose16},
    {fill1, fill2, fill4, fill8, fill16},
    {in_range_int32, in_range_int64},
    {scatter_int32, scatter_int64},
};
