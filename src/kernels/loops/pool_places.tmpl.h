/* Poolings that remember where the largest elements are, and gradients that go back to pixels, for
 * one floating type. Included by pool_rows.tmpl.h, with its definitions.
 *
 * A place is the number of a pixel in its window, counted row by row; pixels outside of the image
 * count too. There is one byte per element: the place, or a bit for each marked place. */
#include "kernels/loops/pool_bytes.tmpl.h"

/* With AVX-512, vectors of places are bytes, chosen by masks; elsewhere they are as wide as the
 * elements. CHOOSE_LARGER requires `yes` to be a larger place than `no`, which holds for later
 * places. */
#if defined(__AVX512F__)
typedef __m128i place_set;
#define PLACE(number) _mm_set1_epi8((char)(number))
#define CHOOSE(mask, yes, no) _mm_mask_mov_epi8(no, mask, yes)
#define CHOOSE_LARGER CHOOSE
#define ADD_AT(places, place, sum, yes) ADD_IF(_mm_cmpeq_epi8_mask(places, place), sum, yes)
#define ADD_MARKED(marks, bit, sum, yes) ADD_IF(_mm_test_epi8_mask(marks, bit), sum, yes)
#define MARK(marks, mask, bit) _mm_or_si128(marks, _mm_maskz_mov_epi8(mask, bit))
#else
typedef integers place_set;
#define PLACE(number) ((integers){0} + (int)(number))
#define CHOOSE(mask, yes, no) (((integers)(mask) & ((yes) ^ (no))) ^ (no))
#if defined(__AVX2__)
#define CHOOSE_LARGER(mask, yes, no)                                                               \
  (integers) _mm256_max_epi16((__m256i)((integers)(mask) & (yes)), (__m256i)(no))
#elif defined(__SSE2__)
#define CHOOSE_LARGER(mask, yes, no)                                                               \
  (integers) _mm_max_epi16((__m128i)((integers)(mask) & (yes)), (__m128i)(no))
#else
#define CHOOSE_LARGER CHOOSE
#endif
#define ADD_AT(places, place, sum, yes) ((sum) + (vector)(((places) == (place)) & (integers)(yes)))
#define ADD_MARKED(marks, bit, sum, yes) ADD_AT((marks) & (bit), bit, sum, yes)
#define MARK(marks, mask, bit) ((marks) | ((integers)(mask) & (bit)))
#endif

INLINE place_set load_places(const uint8_t *from, const int64_t rest) {
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
  return widen_bytes(bytes);
#endif
}

INLINE void store_places(uint8_t *to, place_set places, const int64_t rest) {
#if defined(__AVX512F__)
  int64_t count = rest ? rest : LANES;
  if (count == 16)
    _mm_storeu_si128((__m128i *)to, places);
  else
    _mm_mask_storeu_epi8(to, (__mmask16)((1 << count) - 1), places);
#else
  uint64_t bytes = narrow_bytes(places);
  if (!rest)
    memcpy(to, &bytes, LANES);
  for (int64_t i = 0; i < rest; ++i)
    to[i] = (uint8_t)(bytes >> 8 * i);
#endif
}

/* ---- Largest elements and where they are ---- */
/* A NaN wins if it is the first element of the window; a later one is passed over. */
INLINE void place_vector(const int64_t count, const int64_t columns, const int64_t rest,
                         const dp_pooling_row *row, const M *const *rows, int64_t at, int64_t place,
                         M *to, uint8_t *places) {
  vector first = LOAD(rows[0] + at, rest), best = (T)-INFINITY - (vector){0};
  best = (vector)LARGER(first, best);
  place_set where = PLACE(place);
  DP_UNROLL
  for (int64_t y = 0; y < count; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x) {
    if (y + x == 0)
      continue;
    vector value = LOAD(rows[y] + at + x * row->channels, rest);
    where = CHOOSE_LARGER(GREATER(value, best), PLACE(place + y * row->size + x), where);
    best = (vector)LARGER(value, best);
  }
  if (to)
    STORE(to, (vector)LARGER(best, (T)row->lowest - (vector){0}), rest);
  store_places(places, CHOOSE(NOT_LESS(first, best), PLACE(place), where), rest);
}

/* `width` elements, from element `at` of the rows on. */
INLINE void place_run(const int64_t count, const int64_t columns, const dp_pooling_row *row,
                      const M *const *rows, int64_t at, int64_t width, int64_t place, M *to,
                      uint8_t *places) {
  int64_t c = 0;
  for (; c + LANES <= width; c += LANES)
    place_vector(count, columns, 0, row, rows, at + c, place, to ? to + c : NULL, places + c);
  if (c < width)
    place_vector(count, columns, width - c, row, rows, at + c, place, to ? to + c : NULL,
                 places + c);
}

static void row_places(const dp_pooling_row *given, const void *const *row_data, int64_t count,
                       int64_t place, void *to_data, uint8_t *places) {
  const dp_pooling_row row = *given;
  const M *const *rows = (const M *const *)row_data;
  const M *own_rows[3] = {rows[0], rows[count > 1], rows[count > 2 ? 2 : 0]};
  int64_t begin, end, next, first, last, channels = row.channels;
  find_whole(&row, &begin, &end);
  for (int64_t x = 0; x < row.out; x = next) {
    next = row.stride == 1 && x == begin && x < end ? end : x + 1;
    int64_t start = find_columns(&row, x, &first, &last);
    int64_t columns = last - first, at = first * channels, width = (next - x) * channels;
    int64_t own_place = place + first - start;
    M *to = to_data ? (M *)to_data + x * channels : NULL;
    uint8_t *own = places + x * channels;
    if (count == 2 && columns == 2)
      place_run(2, 2, &row, own_rows, at, width, own_place, to, own);
    else if (count == 3 && columns == 3)
      place_run(3, 3, &row, own_rows, at, width, own_place, to, own);
    else
      place_run(count, columns, &row, rows, at, width, own_place, to, own);
  }
}

/* ---- Largest elements and marks of all that are as large ---- */
INLINE void mark_vector(const int64_t count, const int64_t columns, const int64_t rest,
                        const dp_pooling_row *row, const M *const *rows, const int64_t *numbers,
                        int64_t at, int64_t skipped, M *to, uint8_t *marks) {
  vector best = (T)row->lowest - (vector){0};
  place_set found = PLACE(0);
  DP_UNROLL
  for (int64_t y = 0; y < count; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x)
    best = (vector)LARGER(LOAD(rows[y] + at + x * row->channels, rest), best);
  DP_UNROLL
  for (int64_t y = 0; y < count; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x)
    found = MARK(found, EQUAL(LOAD(rows[y] + at + x * row->channels, rest), best),
                 PLACE(1 << (numbers[y] + skipped + x)));
  STORE(to, best, rest);
  store_places(marks, found, rest);
}

/* `width` elements, from element `at` of the rows on. The first `skipped` columns of the windows
 * are outside of the image. */
INLINE void mark_run(const int64_t count, const int64_t columns, const dp_pooling_row *row,
                     const M *const *rows, const int64_t *numbers, int64_t at, int64_t width,
                     int64_t skipped, M *to, uint8_t *marks) {
  int64_t c = 0;
  for (; c + LANES <= width; c += LANES)
    mark_vector(count, columns, 0, row, rows, numbers, at + c, skipped, to + c, marks + c);
  if (c < width)
    mark_vector(count, columns, width - c, row, rows, numbers, at + c, skipped, to + c, marks + c);
}

static void row_marks(const dp_pooling_row *given, const void *const *row_data, int64_t count,
                      const int64_t *given_numbers, void *to_data, uint8_t *marks) {
  const dp_pooling_row row = *given;
  const M *rows[DP_POOLING_MOST_MARKS];
  int64_t numbers[DP_POOLING_MOST_MARKS], begin, end, next, first, last, channels = row.channels;
  memcpy(rows, row_data, (size_t)count * sizeof *rows);
  memcpy(numbers, given_numbers, (size_t)count * sizeof *numbers);
  find_whole(&row, &begin, &end);
  for (int64_t x = 0; x < row.out; x = next) {
    next = row.stride == 1 && x == begin && x < end ? end : x + 1;
    int64_t start = find_columns(&row, x, &first, &last);
    int64_t at = first * channels, width = (next - x) * channels;
    M *to = (M *)to_data + x * channels;
    if (count == 4 && last - first == 2)
      mark_run(4, 2, &row, rows, numbers, at, width, first - start, to, marks + x * channels);
    else
      mark_run(count, last - first, &row, rows, numbers, at, width, first - start, to,
               marks + x * channels);
  }
}

/* ---- From windows back to pixels ---- */
/* Adds to `sum` what the window at element `at` of a source gives to one of its pixels. The pixel
 * has the place numbers[number] (for marks: that place's bit) and the element `value`. */
INLINE vector give(const returning kind, const dp_pooling_source *source, int64_t at,
                   const int64_t rest, const place_set *numbers, int64_t number, vector value,
                   vector sum) {
  if (kind == TO_ALL)
    return sum + load_work((const T *)source->gradient + at, rest);
  vector gradient = LOAD((const M *)source->gradient + at, rest);
  if (kind == TO_EQUALS)
    return (vector)ADD_IF(EQUAL(value, LOAD((const M *)source->largest + at, rest)), sum, gradient);
  place_set places = load_places(source->places + at, rest);
  if (kind == TO_MARKS)
    return (vector)ADD_MARKED(places, numbers[number], sum, gradient);
  return (vector)ADD_AT(places, numbers[number], sum, gradient);
}

/* Sums for `pixels` neighbouring pixels, `wide` vectors of channels each. The window at element
 * `at` of the sources contains these pixels, and so do the `before` windows before it. The first
 * pixel is column `first_place` of that window. numbers[y * size + i] is the place of column i in
 * the windows of source y. */
INLINE void return_vectors(const returning kind, const int64_t size, const int64_t pixels,
                           const int64_t wide, const int64_t rest, const dp_pooling_row *row,
                           const dp_pooling_source *sources, const int64_t count,
                           const place_set *numbers, int64_t at, int64_t first_place,
                           const int64_t before, const M *from, M *to) {
  int64_t channels = row->channels, stride = pixels == 2 ? 2 : row->stride;
  vector sum[4] = {0}, value[4] = {0};
  if (kind == TO_EQUALS)
    DP_UNROLL
  for (int64_t i = 0; i < pixels * wide; ++i)
    value[i] = LOAD(from + i / wide * channels + i % wide * LANES, rest);
  for (int64_t y = 0; y < count; ++y)
    for (int64_t j = before; j >= 0; --j) {
      int64_t place = first_place + j * stride;
      DP_UNROLL
      for (int64_t i = 0; i < pixels * wide; ++i) {
        int64_t window = at - j * channels + i % wide * LANES, pixel = place + i / wide;
        if (pixels == 1 || pixel < size)
          sum[i] =
              give(kind, sources + y, window, rest, numbers, y * size + pixel, value[i], sum[i]);
      }
    }
  DP_UNROLL
  for (int64_t i = 0; i < pixels * wide; ++i)
    STORE(to + i / wide * channels + i % wide * LANES, sum[i], rest);
}

/* `width` elements: of one pixel, or of several pixels that are in the same number of windows
 * each. */
INLINE void return_run(const returning kind, const int64_t size, const dp_pooling_row *row,
                       const dp_pooling_source *sources, const int64_t count,
                       const place_set *numbers, int64_t at, int64_t first_place,
                       const int64_t before, int64_t width, const M *from, M *to) {
  int64_t c = 0;
  for (; c + 4 * LANES <= width; c += 4 * LANES)
    return_vectors(kind, size, 1, 4, 0, row, sources, count, numbers, at + c, first_place, before,
                   from + c, to + c);
  for (; c + LANES <= width; c += LANES)
    return_vectors(kind, size, 1, 1, 0, row, sources, count, numbers, at + c, first_place, before,
                   from + c, to + c);
  if (c < width)
    return_vectors(kind, size, 1, 1, width - c, row, sources, count, numbers, at + c, first_place,
                   before, from + c, to + c);
}

/* Pixels [begin, end), each with all windows that contain it. No such window is before `window`. */
INLINE void return_pixels(const returning kind, const dp_pooling_row *row,
                          const dp_pooling_source *sources, int64_t count, const place_set *numbers,
                          int64_t begin, int64_t end, int64_t window, const M *from, M *to) {
  int64_t channels = row->channels, first = window, last = window;
  for (int64_t x = begin + row->before; x < end + row->before; ++x) {
    while (first * row->stride + row->size <= x)
      ++first;
    while (last + 1 < row->out && (last + 1) * row->stride <= x)
      ++last;
    int64_t pixel = (x - row->before) * channels;
    return_run(kind, row->size, row, sources, first <= last ? count : 0, numbers, last * channels,
               x - last * row->stride, last - first, channels, from + pixel, to + pixel);
  }
}

/* return_pixels, not inlined: the loops over whole windows need all registers. */
static __attribute__((noinline)) void return_edge(const returning kind, const dp_pooling_row *row,
                                                  const dp_pooling_source *sources, int64_t count,
                                                  const place_set *numbers, int64_t begin,
                                                  int64_t end, int64_t window, const M *from,
                                                  M *to) {
  if (kind == TO_ALL)
    return_pixels(TO_ALL, row, sources, count, numbers, begin, end, window, from, to);
  else if (kind == TO_PLACES)
    return_pixels(TO_PLACES, row, sources, count, numbers, begin, end, window, from, to);
  else if (kind == TO_MARKS)
    return_pixels(TO_MARKS, row, sources, count, numbers, begin, end, window, from, to);
  else
    return_pixels(TO_EQUALS, row, sources, count, numbers, begin, end, window, from, to);
}

/* For windows [begin, end) with stride 2: the two pixels from the start of each window to the start
 * of the next one; `wide` vectors from channel c on. */
INLINE void return_pairs(const returning kind, const int64_t size, const int64_t wide,
                         const int64_t rest, const dp_pooling_row *row,
                         const dp_pooling_source *sources, const int64_t count,
                         const place_set *numbers, int64_t begin, int64_t end, int64_t c,
                         const M *from, M *to) {
  int64_t channels = row->channels, pixel = (begin * 2 - row->before) * channels + c;
  for (int64_t x = begin; x < end; ++x, pixel += 2 * channels)
    return_vectors(kind, size, 2, wide, rest, row, sources, count, numbers, x * channels + c, 0,
                   (size - 1) / 2, from + pixel, to + pixel);
}

/* For windows [begin, end): the pixels from the start of each window to the start of the next one.
 * These pixels, and all windows that contain them, must be inside the image. With stride 2, a few
 * windows are taken with all their channels at a time, so that memory is read and written in
 * order. */
INLINE void return_whole(const returning kind, const int64_t size, const dp_pooling_row *row,
                         const dp_pooling_source *sources, const int64_t count,
                         const place_set *numbers, int64_t begin, int64_t end, const M *from,
                         M *to) {
  int64_t channels = row->channels, pixel = (begin - row->before) * channels;
  if (row->stride == 1) {
    return_run(kind, size, row, sources, count, numbers, begin * channels, 0, size - 1,
               (end - begin) * channels, from + pixel, to + pixel);
    return;
  }
  for (int64_t x = begin, next; x < end; x = next) {
    int64_t c = 0;
    next = x + WINDOWS_AT_ONCE < end ? x + WINDOWS_AT_ONCE : end;
    for (; c + 2 * LANES <= channels; c += 2 * LANES)
      return_pairs(kind, size, 2, 0, row, sources, count, numbers, x, next, c, from, to);
    for (; c + LANES <= channels; c += LANES)
      return_pairs(kind, size, 1, 0, row, sources, count, numbers, x, next, c, from, to);
    if (c < channels)
      return_pairs(kind, size, 1, channels - c, row, sources, count, numbers, x, next, c, from, to);
  }
}

/* Calls return_whole with the size as a constant for the common sizes with stride 2. */
INLINE void return_sized(const returning kind, const dp_pooling_row *row,
                         const dp_pooling_source *sources, int64_t count, const place_set *numbers,
                         int64_t begin, int64_t end, const M *from, M *to) {
  const dp_pooling_source own[2] = {sources[0], sources[count > 1]};
  bool is_two_apart = row->stride == 2 && (kind == TO_PLACES || kind == TO_EQUALS);
  if (row->stride == 2 && row->size == 2 && count == 1)
    return_whole(kind, 2, row, own, 1, numbers, begin, end, from, to);
  else if (is_two_apart && row->size == 3 && count == 1)
    return_whole(kind, 3, row, own, 1, numbers, begin, end, from, to);
  else if (is_two_apart && row->size == 3 && count == 2)
    return_whole(kind, 3, row, own, 2, numbers, begin, end, from, to);
  else if (is_two_apart && row->size == 5)
    return_whole(kind, 5, row, sources, count, numbers, begin, end, from, to);
  else
    return_whole(kind, row->size, row, sources, count, numbers, begin, end, from, to);
}

INLINE void return_row(const returning kind, const dp_pooling_row *given,
                       const dp_pooling_source *sources, int64_t count, const M *from, M *to) {
  const dp_pooling_row row = *given;
  place_set places[DP_POOLING_MOST_PLACES], *numbers = NULL;
  if (kind == TO_PLACES || kind == TO_MARKS)
    numbers = places;
  for (int64_t y = 0; numbers && y < count; ++y)
    for (int64_t i = 0; i < row.size; ++i) {
      int64_t place = sources[y].place + i;
      numbers[y * row.size + i] = PLACE(kind == TO_MARKS ? 1 << place : place);
    }
  int64_t shift = row.stride - 1, shared = 0, begin = 0, end = 0;
  if (shift <= 1 && count > 0) {
    shared = (row.size - 1) >> shift;
    begin = (row.before + shift) >> shift;
    end = (row.in + row.before) >> shift;
  }
  begin = begin < shared ? shared : begin;
  end = end < row.out ? end : row.out;
  bool has_whole = begin < end;
  int64_t first = has_whole ? (begin << shift) - row.before : row.in;
  int64_t last = has_whole ? (end << shift) - row.before : row.in;
  return_edge(kind, given, sources, count, numbers, 0, first, 0, from, to);
  if (has_whole)
    return_sized(kind, &row, sources, count, numbers, begin, end, from, to);
  return_edge(kind, given, sources, count, numbers, last, row.in, end - 1 - shared, from, to);
}

static void return_shares(const dp_pooling_row *row, const void *shares, void *to) {
  const dp_pooling_source source = {.gradient = shares};
  return_row(TO_ALL, row, &source, 1, to, to);
}
static void return_to_places(const dp_pooling_row *row, const dp_pooling_source *sources,
                             int64_t count, void *to) {
  return_row(TO_PLACES, row, sources, count, to, to);
}
static void return_to_marks(const dp_pooling_row *row, const dp_pooling_source *sources,
                            int64_t count, void *to) {
  return_row(TO_MARKS, row, sources, count, to, to);
}
static void return_to_equals(const dp_pooling_row *row, const dp_pooling_source *sources,
                             int64_t count, const void *from, void *to) {
  return_row(TO_EQUALS, row, sources, count, from, to);
}
