/* Largest elements of flat images with their places, and gradients that go back to those places,
 * for one floating type. Included by loops_pool_flat.tmpl.h, with its definitions; for AVX-512 with
 * MASK, the type of masks.
 *
 * A place is the number of the pixel in its window, row by row; what is outside of the image counts
 * too. There is one byte for each element. */
#define INTEGERS DP_PASTE(mask, SUFFIX)

/* Places are bytes where masks choose among bytes, and as wide as the elements elsewhere.
 * CHOOSE_LARGER is for a place that is larger than the other, which is the case of later ones. */
#if defined(__AVX512F__)
#define PLACES __m128i
#define PLACE(number) _mm_set1_epi8((char)(number))
#define CHOOSE(mask, yes, no) _mm_mask_mov_epi8(no, mask, yes)
#define CHOOSE_LARGER CHOOSE
#define ADD_AT(places, place, sum, yes) ADD_IF((MASK)_mm_cmpeq_epi8_mask(places, place), sum, yes)
#else
#define PLACES INTEGERS
#define PLACE(number) ((INTEGERS){0} + (int)(number))
#define CHOOSE(mask, yes, no) (((INTEGERS)(mask) & ((yes) ^ (no))) ^ (no))
#if defined(__AVX2__)
#define CHOOSE_LARGER(mask, yes, no)                                                               \
  (INTEGERS) _mm256_max_epi16((__m256i)((INTEGERS)(mask) & (yes)), (__m256i)(no))
#elif defined(__SSE2__)
#define CHOOSE_LARGER(mask, yes, no)                                                               \
  (INTEGERS) _mm_max_epi16((__m128i)((INTEGERS)(mask) & (yes)), (__m128i)(no))
#else
#define CHOOSE_LARGER CHOOSE
#endif
#define ADD_AT(places, place, sum, yes) ((sum) + (VECTOR)(((places) == (place)) & (INTEGERS)(yes)))
#endif

INLINE PLACES DP_PASTE(load_places, SUFFIX)(const uint8_t *from, const int64_t rest) {
#if defined(__AVX512F__)
  int64_t count = rest ? rest : LANES;
  return count == 16 ? _mm_loadu_si128((const __m128i *)from)
                     : _mm_maskz_loadu_epi8((__mmask16)((1 << count) - 1), from);
#else
  uint64_t bytes = 0;
  if (!rest)
    memcpy(&bytes, from, LANES);
  for (int64_t i = 0; i < rest; ++i)
    bytes |= (uint64_t)from[i] << 8 * i;
  return DP_PASTE(widen, SUFFIX)(bytes);
#endif
}

INLINE void DP_PASTE(store_places, SUFFIX)(uint8_t *to, PLACES places, const int64_t rest) {
#if defined(__AVX512F__)
  int64_t count = rest ? rest : LANES;
  if (count == 16)
    _mm_storeu_si128((__m128i *)to, places);
  else
    _mm_mask_storeu_epi8(to, (__mmask16)((1 << count) - 1), places);
#else
  uint64_t bytes = DP_PASTE(narrow, SUFFIX)(places);
  if (!rest)
    memcpy(to, &bytes, LANES);
  for (int64_t i = 0; i < rest; ++i)
    to[i] = (uint8_t)(bytes >> 8 * i);
#endif
}
#define LOAD_PLACES DP_PASTE(load_places, SUFFIX)
#define STORE_PLACES DP_PASTE(store_places, SUFFIX)

/* ---- Largest elements and where they are ---- */
/* What is not a number is at the largest's place when it comes first, and passed over else. */
INLINE void DP_PASTE(place_vector, SUFFIX)(const int64_t rows, const int64_t columns,
                                           const int64_t rest, const dp_pooling_row *row,
                                           const T *from, int64_t place, T *to, uint8_t *places) {
  VECTOR first = LOAD(from, rest), best = LEAST - (VECTOR){0};
  best = (VECTOR)LARGER(first, best);
  PLACES where = PLACE(place);
  DP_UNROLL
  for (int64_t y = 0; y < rows; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x) {
    if (y + x == 0)
      continue;
    VECTOR value = LOAD(from + y * row->row_step + x * row->channels, rest);
    where = CHOOSE_LARGER(GREATER(value, best), PLACE(place + y * row->size + x), where);
    best = (VECTOR)LARGER(value, best);
  }
  STORE(to, (VECTOR)LARGER(best, (T)row->lowest - (VECTOR){0}), rest);
  STORE_PLACES(places, CHOOSE(NOT_LESS(first, best), PLACE(place), where), rest);
}

INLINE void DP_PASTE(place_pixel, SUFFIX)(const int64_t rows, const int64_t columns,
                                          const dp_pooling_row *row, const T *from, int64_t place,
                                          T *to, uint8_t *places) {
  int64_t c = 0;
  for (; c + LANES <= row->channels; c += LANES)
    DP_PASTE(place_vector, SUFFIX)(rows, columns, 0, row, from + c, place, to + c, places + c);
  if (c < row->channels)
    DP_PASTE(place_vector, SUFFIX)
  (rows, columns, row->channels - c, row, from + c, place, to + c, places + c);
}

static void DP_PASTE(row_places, SUFFIX)(const dp_pooling_row *given, const void *from_data,
                                         void *to_data, uint8_t *places) {
  const dp_pooling_row row = *given;
  const T *from = from_data;
  T *to = to_data;
  for (int64_t x = 0; x < row.out; ++x, to += row.channels, places += row.channels) {
    int64_t start = x * row.stride - row.before, first = start < 0 ? 0 : start;
    int64_t last = start + row.size < row.in ? start + row.size : row.in;
    int64_t columns = last - first, place = row.above * row.size + first - start;
    const T *window = from + first * row.channels;
    if (row.rows == 2 && columns == 2)
      DP_PASTE(place_pixel, SUFFIX)(2, 2, &row, window, place, to, places);
    else if (row.rows == 3 && columns == 3)
      DP_PASTE(place_pixel, SUFFIX)(3, 3, &row, window, place, to, places);
    else
      DP_PASTE(place_pixel, SUFFIX)(row.rows, columns, &row, window, place, to, places);
  }
}

/* ---- Back to those places ---- */
/* One vector of the pixel at `x` behind the first padding, in windows [first, last]. */
INLINE VECTOR DP_PASTE(return_vector, SUFFIX)(const int64_t rest, const dp_pooling_row *row,
                                              const dp_pooling_source *sources, int64_t count,
                                              int64_t x, int64_t first, int64_t last, int64_t c) {
  VECTOR sum = {0};
  for (int64_t y = 0; y < count; ++y)
    for (int64_t window = first; window <= last; ++window) {
      int64_t at = window * row->channels + c;
      PLACES where = LOAD_PLACES(sources[y].places + at, rest);
      VECTOR gradient = LOAD((const T *)sources[y].gradient + at, rest);
      int64_t place = sources[y].place + x - window * row->stride;
      sum = (VECTOR)ADD_AT(where, PLACE(place), sum, gradient);
    }
  return sum;
}

/* Pixels [begin, end), whatever windows they are in. */
INLINE void DP_PASTE(return_pixels, SUFFIX)(const dp_pooling_row *row,
                                            const dp_pooling_source *sources, int64_t count,
                                            int64_t begin, int64_t end, T *to) {
  for (int64_t x = begin + row->before; x < end + row->before; ++x) {
    int64_t first = x < row->size ? 0 : (x - row->size) / row->stride + 1, last = x / row->stride;
    last = last < row->out ? last : row->out - 1;
    T *pixel = to + (x - row->before) * row->channels;
    int64_t c = 0;
    for (; c + LANES <= row->channels; c += LANES)
      STORE(pixel + c, DP_PASTE(return_vector, SUFFIX)(0, row, sources, count, x, first, last, c),
            0);
    int64_t rest = row->channels - c;
    if (rest)
      STORE(pixel + c,
            DP_PASTE(return_vector, SUFFIX)(rest, row, sources, count, x, first, last, c), rest);
  }
}

/* One vector of the `stride` pixels from a window's first to the next one's; the pointers are to
 * the window, in each of the `count` rows of windows over the pixels. The first pixel may be the
 * last one of the window before. */
INLINE void DP_PASTE(return_cell, SUFFIX)(const int64_t size, const int64_t stride,
                                          const int64_t count, const int64_t rest, int64_t channels,
                                          const T *const *gradient, const uint8_t *const *places,
                                          const int64_t *place, T *to) {
  VECTOR own[2], before[2] = {0};
  PLACES where[2], where_before[2] = {PLACE(0), PLACE(0)};
  DP_UNROLL
  for (int64_t y = 0; y < count; ++y) {
    own[y] = LOAD(gradient[y], rest);
    where[y] = LOAD_PLACES(places[y], rest);
    if (size > stride) {
      before[y] = LOAD(gradient[y] - channels, rest);
      where_before[y] = LOAD_PLACES(places[y] - channels, rest);
    }
  }
  DP_UNROLL
  for (int64_t x = 0; x < stride; ++x) {
    VECTOR sum = {0};
    DP_UNROLL
    for (int64_t y = 0; y < count; ++y) {
      if (size > stride && x == 0)
        sum = (VECTOR)ADD_AT(where_before[y], PLACE(place[y] + stride), sum, before[y]);
      if (x < size)
        sum = (VECTOR)ADD_AT(where[y], PLACE(place[y] + x), sum, own[y]);
    }
    STORE(to + x * channels, sum, rest);
  }
}

/* The cells of windows [begin, end); `to` is where the first begins. */
INLINE void DP_PASTE(return_cells, SUFFIX)(const int64_t size, const int64_t stride,
                                           const int64_t count, int64_t channels,
                                           const dp_pooling_source *sources, int64_t begin,
                                           int64_t end, T *to) {
  int64_t place[2] = {sources[0].place, sources[count - 1].place};
  const T *gradient[2] = {sources[0].gradient, sources[count - 1].gradient};
  const uint8_t *places[2] = {sources[0].places, sources[count - 1].places};
  for (int64_t window = begin; window < end; ++window, to += stride * channels)
    for (int64_t c = 0; c < channels; c += LANES) {
      int64_t at = window * channels + c;
      const T *from[2] = {gradient[0] + at, gradient[1] + at};
      const uint8_t *where[2] = {places[0] + at, places[1] + at};
      if (c + LANES <= channels)
        DP_PASTE(return_cell, SUFFIX)(size, stride, count, 0, channels, from, where, place, to + c);
      else
        DP_PASTE(return_cell, SUFFIX)
      (size, stride, count, channels - c, channels, from, where, place, to + c);
    }
}

static void DP_PASTE(row_return, SUFFIX)(const dp_pooling_row *given,
                                         const dp_pooling_source *sources, int64_t count,
                                         void *to_data) {
  const dp_pooling_row row = *given;
  int64_t channels = row.channels, size = row.size, stride = row.stride;
  T *to = to_data;
  /* Cells that lie inside, and whose windows do. */
  int64_t begin = (row.before + stride - 1) / stride, end = (row.in + row.before) / stride;
  begin = size > stride && begin == 0 ? 1 : begin;
  end = end < row.out ? end : row.out;
  if (size > stride + 1 || count < 1 || count > 2 || begin >= end) {
    DP_PASTE(return_pixels, SUFFIX)(&row, sources, count, 0, row.in, to);
    return;
  }
  int64_t first = begin * stride - row.before, last = end * stride - row.before;
  T *cells = to + first * channels;
  DP_PASTE(return_pixels, SUFFIX)(&row, sources, count, 0, first, to);
  if (size == 2 && stride == 2 && count == 1)
    DP_PASTE(return_cells, SUFFIX)(2, 2, 1, channels, sources, begin, end, cells);
  else if (size == 3 && stride == 2 && count == 1)
    DP_PASTE(return_cells, SUFFIX)(3, 2, 1, channels, sources, begin, end, cells);
  else if (size == 3 && stride == 2)
    DP_PASTE(return_cells, SUFFIX)(3, 2, 2, channels, sources, begin, end, cells);
  else if (count == 1)
    DP_PASTE(return_cells, SUFFIX)(size, stride, 1, channels, sources, begin, end, cells);
  else
    DP_PASTE(return_cells, SUFFIX)(size, stride, 2, channels, sources, begin, end, cells);
  DP_PASTE(return_pixels, SUFFIX)(&row, sources, count, last, row.in, to);
}
#undef INTEGERS
#undef PLACES
#undef PLACE
#undef CHOOSE
#undef CHOOSE_LARGER
#undef ADD_AT
#undef MASK
#undef LOAD_PLACES
#undef STORE_PLACES
