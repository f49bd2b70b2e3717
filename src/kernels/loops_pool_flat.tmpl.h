/* Poolings of flat images of one floating type, a row of pixels at a time. Included by
 * loops_pool.tmpl.h, with its definitions and with LARGER(a, b), IF_LARGER(a, b, yes, no), the
 * masks GREATER(a, b), EQUAL(a, b) and NOT_LESS(a, b), ADD_IF(mask, sum, yes) and
 * ZERO_IF(mask, value) over vectors.
 *
 * Channels are taken a vector at a time, so that a window's result stays in a register; what is
 * left of them is a vector that is loaded and stored in part. The sizes of the common windows are
 * constants where the bodies are inlined. */
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(VECTOR_BYTES)));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
#define VECTOR DP_PASTE(vector, SUFFIX)
#define MEMORY DP_PASTE(memory, SUFFIX)
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(T)))
#define INLINE static inline __attribute__((always_inline))

/* `rest` is how many lanes there are when they are not all there, else 0, a constant. */
INLINE VECTOR DP_PASTE(load, SUFFIX)(const T *from, const int64_t rest) {
  if (!rest)
    return (VECTOR) * (const MEMORY *)from;
#ifdef LOAD_PART
  return (VECTOR)LOAD_PART(from, rest);
#else
  VECTOR value = {0};
  for (int64_t i = 0; i < rest; ++i)
    value[i] = from[i];
  return value;
#endif
}

INLINE void DP_PASTE(store, SUFFIX)(T *to, VECTOR value, const int64_t rest) {
  if (!rest) {
    *(MEMORY *)to = value;
    return;
  }
#ifdef LOAD_PART
  STORE_PART(to, value, rest);
#else
  for (int64_t i = 0; i < rest; ++i)
    to[i] = value[i];
#endif
}
#define LOAD DP_PASTE(load, SUFFIX)
#define STORE DP_PASTE(store, SUFFIX)

/* ---- From windows to a pixel of the output ---- */
INLINE VECTOR DP_PASTE(pool_vector, SUFFIX)(const pooling kind, const int64_t rows,
                                            const int64_t columns, const int64_t rest,
                                            const dp_pooling_row *row, const T *from,
                                            const T *other, T factor) {
  VECTOR best = {0}, result = {0};
  if (kind == LARGEST)
    best = (T)row->lowest - (VECTOR){0};
  if (kind == PICK) {
    best = LOAD(from, rest);
    result = LOAD(other, rest);
  }
  DP_UNROLL
  for (int64_t y = 0; y < rows; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x) {
    if (kind == PICK && y + x == 0)
      continue;
    int64_t at = y * row->row_step + x * row->channels;
    VECTOR value = LOAD(from + at, rest);
    if (kind == AVERAGE)
      best += value;
    if (kind == PICK)
      result = (VECTOR)IF_LARGER(value, best, LOAD(other + at, rest), result);
    if (kind != AVERAGE)
      best = (VECTOR)LARGER(value, best);
  }
  return kind == LARGEST ? best : kind == AVERAGE ? best * factor : result;
}

INLINE void DP_PASTE(pool_pixel, SUFFIX)(const pooling kind, const int64_t rows,
                                         const int64_t columns, const dp_pooling_row *row,
                                         const T *from, const T *other, T factor, T *to) {
  int64_t c = 0, rest;
  for (; c + LANES <= row->channels; c += LANES)
    STORE(to + c,
          DP_PASTE(pool_vector, SUFFIX)(kind, rows, columns, 0, row, from + c, other + c, factor),
          0);
  rest = row->channels - c;
  if (rest > 0)
    STORE(
        to + c,
        DP_PASTE(pool_vector, SUFFIX)(kind, rows, columns, rest, row, from + c, other + c, factor),
        rest);
}

INLINE void DP_PASTE(pool_row, SUFFIX)(const pooling kind, const dp_pooling_row *row, const T *from,
                                       const T *other, T *to) {
  int64_t channels = row->channels, rows = row->rows;
  T whole = (T)1 / (T)(rows * row->size);
  for (int64_t x = 0; x < row->out; ++x) {
    int64_t start = x * row->stride - row->before, first = start < 0 ? 0 : start;
    int64_t last = start + row->size < row->in ? start + row->size : row->in;
    int64_t columns = last - first, at = first * channels;
    T factor = columns == row->size ? whole : (T)1 / (T)(rows * columns);
    if (rows == 2 && columns == 2)
      DP_PASTE(pool_pixel, SUFFIX)
    (kind, 2, 2, row, from + at, other + at, factor, to + x * channels);
    else if (rows == 3 && columns == 3) DP_PASTE(pool_pixel, SUFFIX)(
        kind, 3, 3, row, from + at, other + at, factor, to + x * channels);
    else DP_PASTE(pool_pixel, SUFFIX)(kind, rows, columns, row, from + at, other + at, factor,
                                      to + x * channels);
  }
}

/* Rows are copied: nothing that is stored can be a part of them, then. */
static void DP_PASTE(row_largest, SUFFIX)(const dp_pooling_row *row, const void *from, void *to) {
  const dp_pooling_row own = *row;
  DP_PASTE(pool_row, SUFFIX)(LARGEST, &own, from, from, to);
}
static void DP_PASTE(row_average, SUFFIX)(const dp_pooling_row *row, const void *from, void *to) {
  const dp_pooling_row own = *row;
  DP_PASTE(pool_row, SUFFIX)(AVERAGE, &own, from, from, to);
}
static void DP_PASTE(row_picks, SUFFIX)(const dp_pooling_row *row, const void *from,
                                        const void *other, void *to) {
  const dp_pooling_row own = *row;
  DP_PASTE(pool_row, SUFFIX)(PICK, &own, from, other, to);
}

/* ---- From pixels of the output to the windows they came from ---- */
static void DP_PASTE(row_shares, SUFFIX)(const dp_pooling_row *row, const void *gradient_data,
                                         void *to_data) {
  const T *gradient = gradient_data;
  T *to = to_data;
  for (int64_t x = 0; x < row->out; ++x, gradient += row->channels, to += row->channels) {
    int64_t start = x * row->stride - row->before, first = start < 0 ? 0 : start;
    int64_t last = start + row->size < row->in ? start + row->size : row->in;
    T factor = (T)(1.0 / (double)(row->rows * (last - first)));
    DP_INDEPENDENT
    for (int64_t c = 0; c < row->channels; ++c)
      to[c] = gradient[c] * factor;
  }
}

/* ---- The gradients of maxima ----
 * A window's gradient goes to the first pixel that has its largest element: it is added to each
 * pixel that has it and is zero for those behind. What is not a number is the largest in the first
 * place and nowhere else: no other is larger than it, and it is larger than no other. */
INLINE VECTOR DP_PASTE(give, SUFFIX)(const bool is_first, VECTOR value, VECTOR best, VECTOR sum,
                                     VECTOR *left) {
  VECTOR before = *left;
  if (is_first) {
    *left = (VECTOR)ZERO_IF(NOT_LESS(value, best), before);
    return (VECTOR)ADD_IF(NOT_LESS(value, best), sum, before);
  }
  *left = (VECTOR)ZERO_IF(EQUAL(value, best), before);
  return (VECTOR)ADD_IF(EQUAL(value, best), sum, before);
}

/* Adds what window x gives, whatever part of it is inside. */
INLINE void DP_PASTE(spread_vector, SUFFIX)(const dp_pooling_row *row, int64_t x, int64_t c,
                                            const int64_t rest, const T *from, const T *gradient,
                                            void *const *to) {
  int64_t start = x * row->stride - row->before, first = start < 0 ? 0 : start;
  int64_t last = start + row->size < row->in ? start + row->size : row->in;
  VECTOR best = LEAST - (VECTOR){0}, left = LOAD(gradient + x * row->channels + c, rest);
  for (int64_t y = 0; y < row->rows; ++y)
    for (int64_t i = first; i < last; ++i)
      best = (VECTOR)LARGER(LOAD(from + y * row->row_step + i * row->channels + c, rest), best);
  for (int64_t y = 0; y < row->rows; ++y)
    for (int64_t i = first; i < last; ++i) {
      int64_t at = i * row->channels + c;
      VECTOR value = LOAD(from + y * row->row_step + at, rest), sum = LOAD((T *)to[y] + at, rest);
      bool is_first = y == 0 && i == first;
      STORE((T *)to[y] + at, DP_PASTE(give, SUFFIX)(is_first, value, best, sum, &left), rest);
    }
}

INLINE void DP_PASTE(spread_windows, SUFFIX)(const dp_pooling_row *row, int64_t begin, int64_t end,
                                             const T *from, const T *gradient, void *const *to) {
  for (int64_t x = begin; x < end; ++x) {
    int64_t c = 0;
    for (; c + LANES <= row->channels; c += LANES)
      DP_PASTE(spread_vector, SUFFIX)(row, x, c, 0, from, gradient, to);
    if (c < row->channels)
      DP_PASTE(spread_vector, SUFFIX)(row, x, c, row->channels - c, from, gradient, to);
  }
}

INLINE VECTOR DP_PASTE(largest_down, SUFFIX)(const int64_t size, const VECTOR *column) {
  VECTOR best = LEAST - (VECTOR){0};
  DP_UNROLL
  for (int64_t y = 0; y < size; ++y)
    best = (VECTOR)LARGER(column[y], best);
  return best;
}

/* The same for windows [begin, end) that are whole, of `size` x `size` pixels and two apart: the
 * column that the next one has too stays in registers. Rows are added to only where the row of
 * windows above has been, in the first of three. */
INLINE void DP_PASTE(spread_whole, SUFFIX)(const int64_t size, const int64_t rest,
                                           const dp_pooling_row *row, int64_t begin, int64_t end,
                                           const T *from, const T *gradient, void *const *to) {
  const int64_t shared = size - 2;
  int64_t channels = row->channels, at = (begin * 2 - row->before) * channels;
  VECTOR value[3][3] = {0}, sum[3][3] = {0}, down[3] = {0}; /* by columns */
  DP_UNROLL
  for (int64_t y = 0; shared && y < size; ++y) {
    value[2][y] = LOAD(from + y * row->row_step + at, rest);
    sum[2][y] = LOAD((T *)to[y] + at, rest);
  }
  down[2] = DP_PASTE(largest_down, SUFFIX)(size, value[2]);
  for (int64_t x = begin; x < end; ++x, at += 2 * channels) {
    VECTOR left = LOAD(gradient + x * channels, rest), best = LEAST - (VECTOR){0};
    DP_UNROLL
    for (int64_t i = 0; i < size; ++i) {
      DP_UNROLL
      for (int64_t y = 0; y < size; ++y) {
        bool is_shared = i < shared, is_added_to = y < shared;
        value[i][y] =
            is_shared ? value[2][y] : LOAD(from + y * row->row_step + at + i * channels, rest);
        sum[i][y] = is_shared     ? sum[2][y]
                    : is_added_to ? LOAD((T *)to[y] + at + i * channels, rest)
                                  : (VECTOR){0};
      }
      down[i] = i < shared ? down[2] : DP_PASTE(largest_down, SUFFIX)(size, value[i]);
      best = (VECTOR)LARGER(down[i], best);
    }
    DP_UNROLL
    for (int64_t y = 0; y < size; ++y) {
      DP_UNROLL
      for (int64_t i = 0; i < size; ++i)
        sum[i][y] = DP_PASTE(give, SUFFIX)(y == 0 && i == 0, value[i][y], best, sum[i][y], &left);
      STORE((T *)to[y] + at, sum[0][y], rest);
      STORE((T *)to[y] + at + channels, sum[1][y], rest);
    }
  }
  DP_UNROLL
  for (int64_t y = 0; shared && y < size; ++y)
    STORE((T *)to[y] + at, sum[2][y], rest);
}

/* A few windows with all their channels at a time: memory is read and written from end to end. */
INLINE void DP_PASTE(spread_all_whole, SUFFIX)(const int64_t size, const dp_pooling_row *row,
                                               int64_t begin, int64_t end, const T *from,
                                               const T *gradient, void *const *to) {
  for (int64_t x = begin, next; x < end; x = next) {
    next = x + WINDOWS_AT_ONCE < end ? x + WINDOWS_AT_ONCE : end;
    for (int64_t c = 0; c < row->channels; c += LANES) {
      void *columns[3];
      for (int64_t y = 0; y < size; ++y)
        columns[y] = (T *)to[y] + c;
      if (c + LANES <= row->channels)
        DP_PASTE(spread_whole, SUFFIX)(size, 0, row, x, next, from + c, gradient + c, columns);
      else
        DP_PASTE(spread_whole, SUFFIX)
      (size, row->channels - c, row, x, next, from + c, gradient + c, columns);
    }
  }
}

static void DP_PASTE(row_spread, SUFFIX)(const dp_pooling_row *given, const void *from,
                                         const void *gradient, void *const *to, int64_t fresh) {
  const dp_pooling_row row = *given;
  int64_t channels = row.channels, begin = (row.before + 1) / 2;
  int64_t end = (row.in + row.before - row.size) / 2 + 1, shared = row.size - 2;
  end = end < row.out ? end : row.out;
  bool has_whole = row.stride == 2 && (row.size == 2 || row.size == 3) && row.rows == row.size &&
                   fresh >= 2 && row.in + row.before >= row.size && begin < end;
  begin = has_whole ? begin : 0;
  end = has_whole ? end : 0;
  /* Whole windows write their pixels, but for those they share with others. */
  int64_t first = has_whole ? begin * 2 - row.before + shared : row.in;
  int64_t last = has_whole ? end * 2 - row.before : row.in;
  for (int64_t y = row.rows - fresh; y < row.rows; ++y) {
    bool is_written = has_whole && y >= shared;
    T *pixels = to[y];
    memset(pixels, 0, (size_t)((is_written ? first : row.in) * channels) * sizeof(T));
    if (is_written)
      memset(pixels + last * channels, 0, (size_t)((row.in - last) * channels) * sizeof(T));
  }
  DP_PASTE(spread_windows, SUFFIX)(&row, 0, begin, from, gradient, to);
  if (has_whole && row.size == 3)
    DP_PASTE(spread_all_whole, SUFFIX)(3, &row, begin, end, from, gradient, to);
  else if (has_whole)
    DP_PASTE(spread_all_whole, SUFFIX)(2, &row, begin, end, from, gradient, to);
  DP_PASTE(spread_windows, SUFFIX)(&row, end, row.out, from, gradient, to);
}

/* ---- The gradients of averages ---- */
/* Cells [begin, end) of a row, one vector of the channels at `c`. Cell w has the pixels from window
 * w's first to the next window's: the windows that have one of them are w and those before it. */
INLINE void DP_PASTE(gather_cells, SUFFIX)(int64_t begin, int64_t end, const int64_t rest,
                                           const dp_pooling_row *row, const void *const *shares,
                                           int64_t count, int64_t c, T *to) {
  int64_t channels = row->channels;
  for (int64_t x = begin * row->stride; x < end * row->stride; ++x) {
    int64_t pixel = x - row->before, last = x / row->stride;
    int64_t first = x < row->size ? 0 : (x - row->size) / row->stride + 1;
    last = last < row->out ? last : row->out - 1;
    if (pixel < 0 || pixel >= row->in)
      continue;
    VECTOR sum = {0};
    for (int64_t y = 0; y < count; ++y)
      for (int64_t window = last; window >= first; --window)
        sum += LOAD((const T *)shares[y] + window * channels + c, rest);
    STORE(to + pixel * channels + c, sum, rest);
  }
}

/* One vector of the channels of all pixels of the row; `is_pair`: those of one row of windows of
 * two pixels, two apart. */
INLINE void DP_PASTE(gather_column, SUFFIX)(const bool is_pair, const int64_t rest,
                                            const dp_pooling_row *row, const void *const *shares,
                                            int64_t count, int64_t c, T *to) {
  int64_t channels = row->channels;
  int64_t cells = (row->in + row->before + row->stride - 1) / row->stride;
  int64_t begin = is_pair ? (row->before + 1) / 2 : 0;
  int64_t end = is_pair ? (row->in + row->before) / 2 : 0;
  end = end < row->out ? end : row->out;
  begin = begin < end ? begin : end;
  DP_PASTE(gather_cells, SUFFIX)(0, begin, rest, row, shares, count, c, to);
  for (int64_t window = begin; window < end; ++window) {
    VECTOR share = LOAD((const T *)shares[0] + window * channels + c, rest);
    T *cell = to + (window * 2 - row->before) * channels + c;
    STORE(cell, share, rest);
    STORE(cell + channels, share, rest);
  }
  DP_PASTE(gather_cells, SUFFIX)(end, cells, rest, row, shares, count, c, to);
}

INLINE void DP_PASTE(gather_row, SUFFIX)(const bool is_pair, const dp_pooling_row *row,
                                         const void *const *shares, int64_t count, T *to) {
  int64_t c = 0, rest;
  for (; c + LANES <= row->channels; c += LANES)
    DP_PASTE(gather_column, SUFFIX)(is_pair, 0, row, shares, count, c, to);
  rest = row->channels - c;
  if (rest > 0)
    DP_PASTE(gather_column, SUFFIX)(is_pair, rest, row, shares, count, c, to);
}

static void DP_PASTE(row_gather, SUFFIX)(const dp_pooling_row *row, const void *const *shares,
                                         int64_t count, void *to) {
  const dp_pooling_row own = *row;
  const void *only = count == 1 ? shares[0] : NULL;
  if (only && row->size == 2 && row->stride == 2)
    DP_PASTE(gather_row, SUFFIX)(true, &own, &only, 1, to);
  else
    DP_PASTE(gather_row, SUFFIX)(false, &own, shares, count, to);
}

#include "kernels/loops_pool_places.tmpl.h"

#undef VECTOR
#undef MEMORY
#undef LANES
#undef INLINE
#undef LOAD
#undef STORE
