/* Bodies of the loops over indices for one type. The includer defines INDEX, UNSIGNED (the unsigned
 * type of the same size), LARGEST (INDEX's largest value) and NAME(x). */

/* As unsigned numbers, negative indices are above every limit. */
static bool NAME(in_range)(const void *memory, int64_t count, int64_t limit) {
  const UNSIGNED *indices = memory;
  UNSIGNED most = limit > LARGEST ? LARGEST + (UNSIGNED)1 : (UNSIGNED)limit, bad = 0;
  for (int64_t i = 0; i < count; ++i)
    bad |= indices[i] >= most;
  return bad == 0;
}

static dp_index_order NAME(order)(const void *memory, int64_t count) {
  const INDEX *indices = memory;
  UNSIGNED falls = 0, stays = 0;
  for (int64_t i = 1; i < count; ++i) {
    falls |= indices[i] < indices[i - 1];
    stays |= indices[i] == indices[i - 1];
  }
  return falls ? DP_INDEX_UNSORTED : stays ? DP_INDEX_REPEATS : DP_INDEX_INCREASES;
}

#define SCATTER_UNITS(unit)                                                                        \
  for (int64_t i = 0; i < count; ++i)                                                              \
  ((unit *)to)[indices[i]] = ((const unit *)from)[i]

/* Rows of the target are prefetched, because the hardware cannot predict their order. */
#define ROWS_AHEAD 8
static void NAME(scatter)(void *to, const void *from, const void *memory, int64_t count,
                          int64_t bytes) {
  const INDEX *indices = memory;
  if (bytes == 4) {
    SCATTER_UNITS(unit4);
    return;
  }
  if (bytes == 8) {
    SCATTER_UNITS(unit8);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (i + ROWS_AHEAD < count)
      for (int64_t k = 0; k < bytes && k < 256; k += 64)
        __builtin_prefetch((char *)to + indices[i + ROWS_AHEAD] * bytes + k, 1);
    copy_row((char *)to + indices[i] * bytes, (const char *)from + i * bytes, bytes);
  }
}

/* Checking that a place is still unused costs nothing: the read fetches the cache line that the
 * write needs anyway. */
#define INVERTED_AT_ONCE 4
static inline __attribute__((always_inline)) bool
NAME(invert_some)(UNSIGNED *to, const UNSIGNED *indices, int64_t first, const int64_t few,
                  UNSIGNED most) {
  UNSIGNED own[INVERTED_AT_ONCE], used = 0;
  bool beyond = false;
  for (int64_t k = 0; k < few; ++k) {
    own[k] = indices[first + k];
    beyond |= own[k] >= most;
  }
  if (beyond)
    return false;
  for (int64_t k = 0; k < few; ++k) {
    used |= ~to[own[k]];
    to[own[k]] = (UNSIGNED)(first + k);
  }
  return used == 0;
}

static bool NAME(invert)(void *to, const void *indices, int64_t count) {
  int64_t i = 0;
  for (; i + INVERTED_AT_ONCE <= count; i += INVERTED_AT_ONCE)
    if (!NAME(invert_some)(to, indices, i, INVERTED_AT_ONCE, (UNSIGNED)count))
      return false;
  for (; i < count; ++i)
    if (!NAME(invert_some)(to, indices, i, 1, (UNSIGNED)count))
      return false;
  return true;
}
#undef INVERTED_AT_ONCE

#define MULTIPLY(type)                                                                             \
  static void NAME(multiply_##type)(const dp_index_product *product) {                             \
    const INDEX *indices = product->indices;                                                       \
    const type *values = product->values, *b = product->b;                                         \
    int64_t columns = product->columns, begin = product->begin, end = product->end;                \
    for (int64_t i = 0; i < product->entries; ++i) {                                               \
      type *to = (type *)product->to + indices[2 * i + product->row_column] * columns;             \
      const type *row = b + indices[2 * i + !product->row_column] * columns;                       \
      type value = values[i];                                                                      \
      DP_INDEPENDENT                                                                               \
      for (int64_t j = begin; j < end; ++j)                                                        \
        to[j] += value * row[j];                                                                   \
    }                                                                                              \
  }
MULTIPLY(float)
MULTIPLY(double)

#undef MULTIPLY
#undef SCATTER_UNITS
#undef ROWS_AHEAD
#undef INDEX
#undef UNSIGNED
#undef LARGEST
#undef NAME
