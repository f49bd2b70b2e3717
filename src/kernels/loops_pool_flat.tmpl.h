/* Poolings of flat images of one floating type, a row of pixels at a time. Included by
 * loops_pool.tmpl.h, with its definitions and with LARGER(a, b), IF_LARGER(a, b, yes, no) and
 * ADD_IF_EQUAL(sum, a, b, yes) over vectors.
 *
 * Channels are taken a vector at a time, so that a window's result stays in a register; what is
 * left of them is a vector that is loaded and stored in part. The sizes of the common windows are
 * constants where the bodies are inlined. Places within windows are numbers of the type itself, so
 * that they are compared and kept as the values are. */
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
/* `left`, unless NULL, has the first column of the window, and gets the last. */
INLINE VECTOR DP_PASTE(pool_vector, SUFFIX)(const pooling kind, const int64_t rows,
                                            const int64_t columns, const int64_t rest,
                                            const dp_pooling_row *row, const T *from,
                                            const T *other, T first, T factor, VECTOR *left) {
  VECTOR best = {0}, result = {0};
  if (kind == LARGEST)
    best = LEAST - (VECTOR){0};
  else if (kind != AVERAGE)
    best = left ? left[0] : LOAD(from, rest);
  if (kind == PICK)
    result = LOAD(other, rest);
  DP_UNROLL
  for (int64_t y = 0; y < rows; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x) {
    if (kind != LARGEST && kind != AVERAGE && y + x == 0)
      continue;
    int64_t at = y * row->row_step + x * row->channels;
    VECTOR value = left && x == 0 ? left[y] : LOAD(from + at, rest);
    if (left && x == columns - 1)
      left[y] = value;
    if (kind == AVERAGE)
      best += value;
    if (kind == PLACE) {
      VECTOR place = (T)(y * row->size + x) - (VECTOR){0};
      result = (VECTOR)IF_LARGER(value, best, place, result);
    } else if (kind == PICK) {
      VECTOR picked = LOAD(other + at, rest);
      result = (VECTOR)IF_LARGER(value, best, picked, result);
    }
    if (kind != AVERAGE)
      best = (VECTOR)LARGER(value, best);
  }
  return kind == LARGEST   ? best
         : kind == AVERAGE ? best * factor
         : kind == PLACE   ? result + first
                           : result;
}

INLINE void DP_PASTE(pool_pixel, SUFFIX)(const pooling kind, const int64_t rows,
                                         const int64_t columns, const dp_pooling_row *row,
                                         const T *from, const T *other, T first, T factor, T *to) {
  int64_t c = 0, rest;
  for (; c + LANES <= row->channels; c += LANES)
    STORE(to + c,
          DP_PASTE(pool_vector, SUFFIX)(kind, rows, columns, 0, row, from + c, other + c, first,
                                        factor, NULL),
          0);
  rest = row->channels - c;
  if (rest > 0)
    STORE(to + c,
          DP_PASTE(pool_vector, SUFFIX)(kind, rows, columns, rest, row, from + c, other + c, first,
                                        factor, NULL),
          rest);
}

/* Windows [begin, end), from the first pixel and to the first place of the row. */
INLINE void DP_PASTE(pool_span, SUFFIX)(const pooling kind, int64_t begin, int64_t end,
                                        const dp_pooling_row *row, const T *from, const T *other,
                                        T *to) {
  int64_t channels = row->channels, rows = row->rows;
  T whole = (T)1 / (T)(rows * row->size);
  for (int64_t x = begin; x < end; ++x) {
    int64_t start = x * row->stride - row->before, first = start < 0 ? 0 : start;
    int64_t last = start + row->size < row->in ? start + row->size : row->in;
    int64_t columns = last - first, at = first * channels;
    T place = (T)(row->first_row * row->size + first - start);
    T factor = columns == row->size ? whole : (T)1 / (T)(rows * columns);
    if (rows == 2 && columns == 2)
      DP_PASTE(pool_pixel, SUFFIX)
    (kind, 2, 2, row, from + at, other + at, place, factor, to + x * channels);
    else if (rows == 3 && columns == 3) DP_PASTE(pool_pixel, SUFFIX)(
        kind, 3, 3, row, from + at, other + at, place, factor, to + x * channels);
    else DP_PASTE(pool_pixel, SUFFIX)(kind, rows, columns, row, from + at, other + at, place,
                                      factor, to + x * channels);
  }
}

INLINE void DP_PASTE(pool_row, SUFFIX)(const pooling kind, const dp_pooling_row *row, const T *from,
                                       const T *other, T *to) {
  DP_PASTE(pool_span, SUFFIX)(kind, 0, row->out, row, from, other, to);
}

/* Places in whole windows of 3 x 3 that are two pixels apart, whose last column is the next one's
 * first. */
INLINE void DP_PASTE(places_of_three, SUFFIX)(int64_t begin, int64_t end, const int64_t rest,
                                              const dp_pooling_row *row, const T *from, T *to) {
  int64_t channels = row->channels;
  VECTOR left[3];
  from += (begin * 2 - row->before) * channels;
  DP_UNROLL
  for (int y = 0; y < 3; ++y)
    left[y] = LOAD(from + y * row->row_step, rest);
  for (int64_t x = begin; x < end; ++x, from += 2 * channels)
    STORE(to + x * channels,
          DP_PASTE(pool_vector, SUFFIX)(PLACE, 3, 3, rest, row, from, from, (T)(row->first_row * 3),
                                        0, left),
          rest);
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
static void DP_PASTE(row_places, SUFFIX)(const dp_pooling_row *row, const void *from, void *to) {
  const dp_pooling_row own = *row;
  int64_t begin = (own.before + 1) / 2, end = (own.in + own.before - 3) / 2 + 1, c = 0;
  if (own.rows != 3 || own.size != 3 || own.stride != 2 || begin >= end) {
    DP_PASTE(pool_row, SUFFIX)(PLACE, &own, from, from, to);
    return;
  }
  DP_PASTE(pool_span, SUFFIX)(PLACE, 0, begin, &own, from, from, to);
  for (; c + LANES <= own.channels; c += LANES)
    DP_PASTE(places_of_three, SUFFIX)(begin, end, 0, &own, (const T *)from + c, (T *)to + c);
  if (c < own.channels)
    DP_PASTE(places_of_three, SUFFIX)
  (begin, end, own.channels - c, &own, (const T *)from + c, (T *)to + c);
  DP_PASTE(pool_span, SUFFIX)(PLACE, end, own.out, &own, from, from, to);
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

/* A vector of the channels of a window whose pixels no other has. */
INLINE void DP_PASTE(scatter_vector, SUFFIX)(const int64_t rows, const int64_t columns,
                                             const int64_t rest, const dp_pooling_row *row,
                                             const T *from, const T *gradient, T *to) {
  VECTOR place =
      DP_PASTE(pool_vector, SUFFIX)(PLACE, rows, columns, rest, row, from, from, 0, 0, NULL);
  VECTOR share = LOAD(gradient, rest);
  DP_UNROLL
  for (int64_t y = 0; y < rows; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x) {
    VECTOR number = (T)(y * row->size + x) - (VECTOR){0}, none = {0};
    STORE(to + y * row->row_step + x * row->channels,
          (VECTOR)ADD_IF_EQUAL(none, place, number, share), rest);
  }
}

INLINE void DP_PASTE(scatter_pixel, SUFFIX)(const int64_t rows, const int64_t columns,
                                            const dp_pooling_row *row, const T *from,
                                            const T *gradient, T *to) {
  int64_t c = 0, rest;
  for (; c + LANES <= row->channels; c += LANES)
    DP_PASTE(scatter_vector, SUFFIX)(rows, columns, 0, row, from + c, gradient + c, to + c);
  rest = row->channels - c;
  if (rest > 0)
    DP_PASTE(scatter_vector, SUFFIX)(rows, columns, rest, row, from + c, gradient + c, to + c);
}

static void DP_PASTE(row_scatter, SUFFIX)(const dp_pooling_row *given, const void *from_data,
                                          const void *gradient_data, void *to_data) {
  const dp_pooling_row row = *given;
  const T *from = from_data, *gradient = gradient_data;
  T *to = to_data;
  for (int64_t x = 0; x < row.out; ++x, gradient += row.channels) {
    int64_t start = x * row.stride - row.before, first = start < 0 ? 0 : start;
    int64_t last = start + row.size < row.in ? start + row.size : row.in;
    int64_t at = first * row.channels;
    if (row.rows == 2 && last - first == 2)
      DP_PASTE(scatter_pixel, SUFFIX)(2, 2, &row, from + at, gradient, to + at);
    else
      DP_PASTE(scatter_pixel, SUFFIX)
    (row.rows, last - first, &row, from + at, gradient, to + at);
  }
}

INLINE VECTOR DP_PASTE(add_share, SUFFIX)(const bool has_places, VECTOR sum, VECTOR share,
                                          VECTOR place, T number) {
  VECTOR wanted = number - (VECTOR){0};
  return has_places ? (VECTOR)ADD_IF_EQUAL(sum, place, wanted, share) : sum + share;
}

/* Cells [begin, end) of a row, one vector of the channels at `c`. Cell w has the pixels from window
 * w's first to the next window's: the windows that have one of them are w and those before it. Any
 * of them may be missing at the ends of a row. */
INLINE void DP_PASTE(gather_edge, SUFFIX)(const bool has_places, int64_t begin, int64_t end,
                                          const int64_t rest, const dp_pooling_row *row,
                                          const dp_pooling_cover *covers, int64_t rows, int64_t c,
                                          T *to) {
  int64_t channels = row->channels;
  for (int64_t x = begin * row->stride; x < end * row->stride; ++x) {
    int64_t pixel = x - row->before, last = x / row->stride;
    int64_t first = x < row->size ? 0 : (x - row->size) / row->stride + 1;
    last = last < row->out ? last : row->out - 1;
    if (pixel < 0 || pixel >= row->in)
      continue;
    VECTOR sum = {0}, place = {0};
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t window = last; window >= first; --window) {
        int64_t at = window * channels + c;
        if (has_places)
          place = LOAD((const T *)covers[y].places + at, rest);
        sum = DP_PASTE(add_share, SUFFIX)(has_places, sum,
                                          LOAD((const T *)covers[y].shares + at, rest), place,
                                          (T)(covers[y].place + x - window * row->stride));
      }
    STORE(to + pixel * channels + c, sum, rest);
  }
}

/* The same where nothing is missing: what a window gives stays in registers for the cells after
 * it. `rows`, `size` and `stride` are constants where this is inlined. */
INLINE void DP_PASTE(gather_inner, SUFFIX)(const bool has_places, const int64_t rows,
                                           const int64_t size, const int64_t stride, int64_t begin,
                                           int64_t end, const int64_t rest,
                                           const dp_pooling_row *row,
                                           const dp_pooling_cover *covers, int64_t c, T *to) {
  const int64_t most = (size - 1) / stride + 1; /* windows that a pixel can be in */
  int64_t channels = row->channels;
  VECTOR share[2][2] = {0}, place[2][2] = {0};
  for (int64_t window = begin - most + 1; window < end; ++window) {
    DP_UNROLL
    for (int64_t y = 0; y < rows; ++y) {
      share[y][1] = share[y][0];
      place[y][1] = place[y][0];
      share[y][0] = LOAD((const T *)covers[y].shares + window * channels + c, rest);
      if (has_places)
        place[y][0] = LOAD((const T *)covers[y].places + window * channels + c, rest);
    }
    if (window < begin)
      continue;
    T *cell = to + (window * stride - row->before) * channels + c;
    DP_UNROLL
    for (int64_t dx = 0; dx < stride; ++dx) {
      VECTOR sum = {0};
      DP_UNROLL
      for (int64_t y = 0; y < rows; ++y)
        DP_UNROLL
      for (int64_t back = 0; back < (size - dx + stride - 1) / stride; ++back)
        sum = DP_PASTE(add_share, SUFFIX)(has_places, sum, share[y][back], place[y][back],
                                          (T)(covers[y].place + dx + back * stride));
      STORE(cell + dx * channels, sum, rest);
    }
  }
}

/* One vector of the channels of all pixels of the row; `size` 0: of any windows. */
INLINE void DP_PASTE(gather_column, SUFFIX)(const bool has_places, const int64_t rows,
                                            const int64_t size, const int64_t stride,
                                            const int64_t rest, const dp_pooling_row *row,
                                            const dp_pooling_cover *covers, int64_t c, T *to) {
  int64_t cells = (row->in + row->before + row->stride - 1) / row->stride;
  if (!size) {
    DP_PASTE(gather_edge, SUFFIX)(has_places, 0, cells, rest, row, covers, rows, c, to);
    return;
  }
  int64_t begin = (row->before + size - 1) / stride, end = (row->in + row->before) / stride;
  end = end < row->out ? end : row->out;
  begin = begin < end ? begin : end;
  DP_PASTE(gather_edge, SUFFIX)(has_places, 0, begin, rest, row, covers, rows, c, to);
  DP_PASTE(gather_inner, SUFFIX)
  (has_places, rows, size, stride, begin, end, rest, row, covers, c, to);
  DP_PASTE(gather_edge, SUFFIX)(has_places, end, cells, rest, row, covers, rows, c, to);
}

INLINE void DP_PASTE(gather_row, SUFFIX)(const bool has_places, const int64_t rows,
                                         const int64_t size, const int64_t stride,
                                         const dp_pooling_row *row, const dp_pooling_cover *covers,
                                         T *to) {
  int64_t c = 0, rest;
  for (; c + LANES <= row->channels; c += LANES)
    DP_PASTE(gather_column, SUFFIX)(has_places, rows, size, stride, 0, row, covers, c, to);
  rest = row->channels - c;
  if (rest > 0)
    DP_PASTE(gather_column, SUFFIX)(has_places, rows, size, stride, rest, row, covers, c, to);
}

static void DP_PASTE(row_gather, SUFFIX)(const dp_pooling_row *row, const dp_pooling_cover *covers,
                                         int64_t count, void *to) {
  const dp_pooling_row own = *row;
  const dp_pooling_cover none = {0},
                         two[2] = {count > 0 ? covers[0] : none, count > 1 ? covers[1] : none};
  bool has_places = two[0].places, is_two = row->size == 2 && row->stride == 2;
  bool is_three = row->size == 3 && row->stride == 2;
  if (has_places && count == 1 && is_two)
    DP_PASTE(gather_row, SUFFIX)(true, 1, 2, 2, &own, two, to);
  else if (has_places && count == 1 && is_three)
    DP_PASTE(gather_row, SUFFIX)(true, 1, 3, 2, &own, two, to);
  else if (has_places && count == 2 && is_three)
    DP_PASTE(gather_row, SUFFIX)(true, 2, 3, 2, &own, two, to);
  else if (has_places)
    DP_PASTE(gather_row, SUFFIX)(true, count, 0, 0, &own, covers, to);
  else if (count == 1 && is_two)
    DP_PASTE(gather_row, SUFFIX)(false, 1, 2, 2, &own, two, to);
  else
    DP_PASTE(gather_row, SUFFIX)(false, count, 0, 0, &own, covers, to);
}
#undef VECTOR
#undef MEMORY
#undef LANES
#undef INLINE
#undef LOAD
#undef STORE
