/* Body of the moving loops for one size. The includer defines UNIT (an unsigned or vector type,
 * aligned to a byte), NAME(x) and TILE, the number of elements on a side of a transposed square. */

/* For many rows of a few elements: column by column, in blocks that stay in the cache. */
static void NAME(strided_narrow)(UNIT *to, const UNIT *from, const dp_move_span *span) {
  int64_t to_outer = span->to_outer, from_outer = span->from_outer;
  for (int64_t begin = 0; begin < span->outer; begin += 1024) {
    int64_t count = span->outer - begin < 1024 ? span->outer - begin : 1024;
    for (int64_t j = 0; j < span->inner; ++j) {
      UNIT *column = to + begin * to_outer + j * span->to_inner;
      const UNIT *source = from + begin * from_outer + j * span->from_inner;
      if (from_outer == 1) {
        DP_INDEPENDENT
        for (int64_t i = 0; i < count; ++i)
          column[i * to_outer] = source[i];
      } else {
        DP_INDEPENDENT
        for (int64_t i = 0; i < count; ++i)
          column[i * to_outer] = source[i * from_outer];
      }
    }
  }
}

/* Reads four elements, each from a cache line of its own, before they are written in one store. */
static void NAME(collect)(UNIT *to, const UNIT *from, int64_t count, int64_t stride) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4, from += 4 * stride) {
    UNIT a = from[0], b = from[stride], c = from[2 * stride], d = from[3 * stride];
    to[i] = a;
    to[i + 1] = b;
    to[i + 2] = c;
    to[i + 3] = d;
  }
  for (; i < count; ++i, from += stride)
    to[i] = *from;
}

static void NAME(strided)(void *to_memory, const void *from_memory, const dp_move_span *span) {
  UNIT *to = to_memory;
  const UNIT *from = from_memory;
  if (span->inner < 8 && span->outer > 8) {
    NAME(strided_narrow)(to, from, span);
    return;
  }
  int64_t to_inner = span->to_inner, from_inner = span->from_inner, inner = span->inner;
  for (int64_t i = 0; i < span->outer; ++i) {
    if (to_inner == 1 && from_inner == 0) {
      UNIT value = from[0];
      DP_INDEPENDENT
      for (int64_t j = 0; j < inner; ++j)
        to[j] = value;
    } else if (to_inner == 1 && from_inner == -1) {
      const UNIT *last = from - (inner - 1);
      DP_INDEPENDENT
      for (int64_t j = 0; j < inner; ++j)
        to[j] = last[inner - 1 - j];
    } else if (to_inner == 1 && from_inner == 2) {
      DP_INDEPENDENT
      for (int64_t j = 0; j < inner; ++j)
        to[j] = from[2 * j];
    } else if (to_inner == 1) {
      NAME(collect)(to, from, inner, from_inner);
    } else {
      DP_INDEPENDENT
      for (int64_t j = 0; j < inner; ++j)
        to[j * to_inner] = from[j * from_inner];
    }
    to += span->to_outer;
    from += span->from_outer;
  }
}

static void NAME(fill)(void *to_memory, const void *value_memory, int64_t count) {
  UNIT *to = to_memory;
  UNIT value = *(const UNIT *)value_memory;
  for (int64_t i = 0; i < count; ++i)
    to[i] = value;
}

/* Transposes a square of constant size, which compilers unroll. It goes through a small buffer, so
 * that source and target are touched in whole lines. */
static inline void NAME(transpose_tile)(UNIT *restrict to, int64_t to_stride,
                                        const UNIT *restrict from, int64_t from_stride) {
#ifdef TRANSPOSE_VECTORS
  TRANSPOSE_VECTORS(to, to_stride, from, from_stride);
#else
  for (int r = 0; r < TILE; ++r)
    for (int c = 0; c < TILE; ++c)
      to[r * to_stride + c] = from[c * from_stride + r];
#endif
}

/* Transposes a square whose sides are a cache line long. Without enough registers it goes through
 * copies on the stack, so that every line of source and target is touched once: strides that are
 * powers of two put all lines into one set of the cache. */
#define LINE ((int64_t)(64 / sizeof(UNIT)))
static void NAME(transpose_lines)(UNIT *to, int64_t to_stride, const UNIT *from,
                                  int64_t from_stride) {
#ifdef TRANSPOSE_LINES
  TRANSPOSE_LINES(to, to_stride, from, from_stride);
#else
  UNIT in[LINE * LINE], out[LINE * LINE];
  for (int64_t c = 0; c < LINE; ++c)
    memcpy(in + c * LINE, from + c * from_stride, 64);
  for (int64_t r = 0; r < LINE; r += TILE)
    for (int64_t c = 0; c < LINE; c += TILE)
      NAME(transpose_tile)(out + r * LINE + c, LINE, in + c * LINE + r, LINE);
  for (int64_t r = 0; r < LINE; ++r)
    memcpy(to + r * to_stride, out + r * LINE, 64);
#endif
}

static void NAME(transpose)(void *to_memory, int64_t to_stride, const void *from_memory,
                            int64_t from_stride, int64_t rows, int64_t columns) {
  UNIT *to = to_memory;
  const UNIT *from = from_memory;
  int64_t whole_rows = rows - rows % TILE, whole_columns = columns - columns % TILE;
  if (rows % LINE == 0 && columns % LINE == 0) {
    for (int64_t r = 0; r < rows; r += LINE)
      for (int64_t c = 0; c < columns; c += LINE)
        NAME(transpose_lines)
    (to + r * to_stride + c, to_stride, from + c * from_stride + r, from_stride);
    return;
  }
  for (int64_t r = 0; r < whole_rows; r += TILE) {
    for (int64_t c = 0; c < whole_columns; c += TILE)
      NAME(transpose_tile)
    (to + r * to_stride + c, to_stride, from + c * from_stride + r, from_stride);
    for (int64_t c = whole_columns; c < columns; ++c)
      for (int64_t i = r; i < r + TILE; ++i)
        to[i * to_stride + c] = from[c * from_stride + i];
  }
  for (int64_t r = whole_rows; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[r * to_stride + c] = from[c * from_stride + r];
}
#undef LINE
