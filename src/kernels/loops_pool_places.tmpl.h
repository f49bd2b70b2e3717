/* Largest elements with their places, and gradients that go back to pixels, for one floating type.
 * Included by loops_pool_flat.tmpl.h, with its definitions; for AVX-512 with MASK, the type of
 * masks.
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
INLINE void DP_PASTE(place_vector, SUFFIX)(const int64_t count, const int64_t columns,
                                           const int64_t rest, const dp_pooling_row *row,
                                           const M *const *rows, int64_t at, int64_t place, M *to,
                                           uint8_t *places) {
  VECTOR first = LOAD(rows[0] + at, rest), best = LEAST - (VECTOR){0};
  best = (VECTOR)LARGER(first, best);
  PLACES where = PLACE(place);
  DP_UNROLL
  for (int64_t y = 0; y < count; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x) {
    if (y + x == 0)
      continue;
    VECTOR value = LOAD(rows[y] + at + x * row->channels, rest);
    where = CHOOSE_LARGER(GREATER(value, best), PLACE(place + y * row->size + x), where);
    best = (VECTOR)LARGER(value, best);
  }
  if (to)
    STORE(to, (VECTOR)LARGER(best, (T)row->lowest - (VECTOR){0}), rest);
  STORE_PLACES(places, CHOOSE(NOT_LESS(first, best), PLACE(place), where), rest);
}

/* `width` elements from element `at` of the rows on. */
INLINE void DP_PASTE(place_run, SUFFIX)(const int64_t count, const int64_t columns,
                                        const dp_pooling_row *row, const M *const *rows, int64_t at,
                                        int64_t width, int64_t place, M *to, uint8_t *places) {
  int64_t c = 0;
  for (; c + LANES <= width; c += LANES)
    DP_PASTE(place_vector, SUFFIX)
  (count, columns, 0, row, rows, at + c, place, to ? to + c : NULL, places + c);
  if (c < width)
    DP_PASTE(place_vector, SUFFIX)
  (count, columns, width - c, row, rows, at + c, place, to ? to + c : NULL, places + c);
}

static void DP_PASTE(row_places, SUFFIX)(const dp_pooling_row *given, const void *const *row_data,
                                         int64_t count, int64_t place, void *to_data,
                                         uint8_t *places) {
  const dp_pooling_row row = *given;
  const M *const *rows = (const M *const *)row_data;
  const M *own_rows[3] = {rows[0], rows[count > 1], rows[count > 2 ? 2 : 0]};
  int64_t begin, end, next, first, last, channels = row.channels;
  DP_PASTE(find_whole, SUFFIX)(&row, &begin, &end);
  for (int64_t x = 0; x < row.out; x = next) {
    next = row.stride == 1 && x == begin && x < end ? end : x + 1;
    int64_t start = DP_PASTE(find_columns, SUFFIX)(&row, x, &first, &last);
    int64_t columns = last - first, at = first * channels, width = (next - x) * channels;
    int64_t own_place = place + first - start;
    M *to = to_data ? (M *)to_data + x * channels : NULL;
    uint8_t *own = places + x * channels;
    if (count == 2 && columns == 2)
      DP_PASTE(place_run, SUFFIX)(2, 2, &row, own_rows, at, width, own_place, to, own);
    else if (count == 3 && columns == 3)
      DP_PASTE(place_run, SUFFIX)(3, 3, &row, own_rows, at, width, own_place, to, own);
    else
      DP_PASTE(place_run, SUFFIX)(count, columns, &row, rows, at, width, own_place, to, own);
  }
}

/* ---- From windows back to pixels ---- */
/* Adds what the window at element `at` of a source gives to its pixel that is numbers[number] as a
 * place and has `value`. */
INLINE VECTOR DP_PASTE(give, SUFFIX)(const returning kind, const dp_pooling_source *source,
                                     int64_t at, const int64_t rest, const PLACES *numbers,
                                     int64_t number, VECTOR value, VECTOR sum) {
  if (kind == TO_ALL)
    return sum + LOAD_WORK((const T *)source->gradient + at, rest);
  VECTOR gradient = LOAD((const M *)source->gradient + at, rest);
  if (kind == TO_EQUALS)
    return (VECTOR)ADD_IF(EQUAL(value, LOAD((const M *)source->largest + at, rest)), sum, gradient);
  return (VECTOR)ADD_AT(LOAD_PLACES(source->places + at, rest), numbers[number], sum, gradient);
}

/* `wide` vectors of each of `pixels` pixels that are next to each other and `channels` apart, whose
 * first is pixel `first_place` of the window at element `at` of the sources: it has them, and so
 * have the `before` windows before it. numbers[y * size + i] is the place of pixel i of a window of
 * source y. */
INLINE void DP_PASTE(return_vectors, SUFFIX)(const returning kind, const int64_t size,
                                             const int64_t pixels, const int64_t wide,
                                             const int64_t rest, const dp_pooling_row *row,
                                             const dp_pooling_source *sources, const int64_t count,
                                             const PLACES *numbers, int64_t at, int64_t first_place,
                                             const int64_t before, const M *from, M *to) {
  int64_t channels = row->channels, stride = pixels == 2 ? 2 : row->stride;
  VECTOR sum[4] = {0}, value[4] = {0};
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
          sum[i] = DP_PASTE(give, SUFFIX)(kind, sources + y, window, rest, numbers,
                                          y * size + pixel, value[i], sum[i]);
      }
    }
  DP_UNROLL
  for (int64_t i = 0; i < pixels * wide; ++i)
    STORE(to + i / wide * channels + i % wide * LANES, sum[i], rest);
}

/* `width` elements of one pixel, or of pixels that are in as many windows each. */
INLINE void DP_PASTE(return_run,
                     SUFFIX)(const returning kind, const int64_t size, const dp_pooling_row *row,
                             const dp_pooling_source *sources, const int64_t count,
                             const PLACES *numbers, int64_t at, int64_t first_place,
                             const int64_t before, int64_t width, const M *from, M *to) {
  int64_t c = 0;
  for (; c + 4 * LANES <= width; c += 4 * LANES)
    DP_PASTE(return_vectors, SUFFIX)
  (kind, size, 1, 4, 0, row, sources, count, numbers, at + c, first_place, before, from + c,
   to + c);
  for (; c + LANES <= width; c += LANES)
    DP_PASTE(return_vectors, SUFFIX)
  (kind, size, 1, 1, 0, row, sources, count, numbers, at + c, first_place, before, from + c,
   to + c);
  if (c < width)
    DP_PASTE(return_vectors, SUFFIX)
  (kind, size, 1, 1, width - c, row, sources, count, numbers, at + c, first_place, before, from + c,
   to + c);
}

/* Pixels [begin, end), whatever windows they are in; none of those is before `window`. */
INLINE void DP_PASTE(return_pixels, SUFFIX)(const returning kind, const dp_pooling_row *row,
                                            const dp_pooling_source *sources, int64_t count,
                                            const PLACES *numbers, int64_t begin, int64_t end,
                                            int64_t window, const M *from, M *to) {
  int64_t channels = row->channels, first = window, last = window;
  for (int64_t x = begin + row->before; x < end + row->before; ++x) {
    while (first * row->stride + row->size <= x)
      ++first;
    while (last + 1 < row->out && (last + 1) * row->stride <= x)
      ++last;
    int64_t pixel = (x - row->before) * channels;
    DP_PASTE(return_run, SUFFIX)
    (kind, row->size, row, sources, first <= last ? count : 0, numbers, last * channels,
     x - last * row->stride, last - first, channels, from + pixel, to + pixel);
  }
}

/* The two pixels from each window's first to the next one's, `wide` vectors at channel c, for
 * windows [begin, end) that are two apart. */
INLINE void DP_PASTE(return_pairs, SUFFIX)(const returning kind, const int64_t size,
                                           const int64_t wide, const int64_t rest,
                                           const dp_pooling_row *row,
                                           const dp_pooling_source *sources, const int64_t count,
                                           const PLACES *numbers, int64_t begin, int64_t end,
                                           int64_t c, const M *from, M *to) {
  int64_t channels = row->channels, pixel = (begin * 2 - row->before) * channels + c;
  for (int64_t x = begin; x < end; ++x, pixel += 2 * channels)
    DP_PASTE(return_vectors, SUFFIX)
  (kind, size, 2, wide, rest, row, sources, count, numbers, x * channels + c, 0, (size - 1) / 2,
   from + pixel, to + pixel);
}

/* The pixels from each window's first to the next one's, for windows [begin, end) that have all of
 * these inside, as the windows before them that share them do. A few windows are taken with all
 * their channels at a time, so that memory is read and written from end to end. */
INLINE void DP_PASTE(return_whole, SUFFIX)(const returning kind, const int64_t size,
                                           const dp_pooling_row *row,
                                           const dp_pooling_source *sources, const int64_t count,
                                           const PLACES *numbers, int64_t begin, int64_t end,
                                           const M *from, M *to) {
  int64_t channels = row->channels, pixel = (begin - row->before) * channels;
  if (row->stride == 1) {
    DP_PASTE(return_run, SUFFIX)
    (kind, size, row, sources, count, numbers, begin * channels, 0, size - 1,
     (end - begin) * channels, from + pixel, to + pixel);
    return;
  }
  for (int64_t x = begin, next; x < end; x = next) {
    int64_t c = 0;
    next = x + WINDOWS_AT_ONCE < end ? x + WINDOWS_AT_ONCE : end;
    for (; c + 2 * LANES <= channels; c += 2 * LANES)
      DP_PASTE(return_pairs, SUFFIX)
    (kind, size, 2, 0, row, sources, count, numbers, x, next, c, from, to);
    for (; c + LANES <= channels; c += LANES)
      DP_PASTE(return_pairs, SUFFIX)
    (kind, size, 1, 0, row, sources, count, numbers, x, next, c, from, to);
    if (c < channels)
      DP_PASTE(return_pairs, SUFFIX)
    (kind, size, 1, channels - c, row, sources, count, numbers, x, next, c, from, to);
  }
}

/* The common sizes two apart as constants. */
INLINE void DP_PASTE(return_sized, SUFFIX)(const returning kind, const dp_pooling_row *row,
                                           const dp_pooling_source *sources, int64_t count,
                                           const PLACES *numbers, int64_t begin, int64_t end,
                                           const M *from, M *to) {
  const dp_pooling_source own[2] = {sources[0], sources[count > 1]};
  bool is_two_apart = kind != TO_ALL && row->stride == 2;
  if (is_two_apart && row->size == 2 && count == 1)
    DP_PASTE(return_whole, SUFFIX)(kind, 2, row, own, 1, numbers, begin, end, from, to);
  else if (is_two_apart && row->size == 3 && count == 1)
    DP_PASTE(return_whole, SUFFIX)(kind, 3, row, own, 1, numbers, begin, end, from, to);
  else if (is_two_apart && row->size == 3 && count == 2)
    DP_PASTE(return_whole, SUFFIX)(kind, 3, row, own, 2, numbers, begin, end, from, to);
  else if (is_two_apart && row->size == 5)
    DP_PASTE(return_whole, SUFFIX)(kind, 5, row, sources, count, numbers, begin, end, from, to);
  else
    DP_PASTE(return_whole, SUFFIX)
  (kind, row->size, row, sources, count, numbers, begin, end, from, to);
}

INLINE void DP_PASTE(return_row, SUFFIX)(const returning kind, const dp_pooling_row *given,
                                         const dp_pooling_source *sources, int64_t count,
                                         const M *from, M *to) {
  const dp_pooling_row row = *given;
  PLACES numbers[DP_POOLING_MOST_PLACES];
  for (int64_t y = 0; kind == TO_PLACES && y < count; ++y)
    for (int64_t i = 0; i < row.size; ++i)
      numbers[y * row.size + i] = PLACE(sources[y].place + i);
  int64_t shift = row.stride - 1, shared = 0, begin = 0, end = 0;
  if (shift <= 1 && count > 0) {
    shared = (row.size - 1) >> shift;
    begin = (row.before + shift) >> shift;
    end = (row.in + row.before) >> shift;
  }
  begin = begin < shared ? shared : begin;
  end = end < row.out ? end : row.out;
  if (begin >= end) {
    DP_PASTE(return_pixels, SUFFIX)(kind, &row, sources, count, numbers, 0, row.in, 0, from, to);
    return;
  }
  int64_t first = (begin << shift) - row.before, last = (end << shift) - row.before;
  DP_PASTE(return_pixels, SUFFIX)(kind, &row, sources, count, numbers, 0, first, 0, from, to);
  DP_PASTE(return_sized, SUFFIX)(kind, &row, sources, count, numbers, begin, end, from, to);
  DP_PASTE(return_pixels, SUFFIX)
  (kind, &row, sources, count, numbers, last, row.in, end - 1 - shared, from, to);
}

static void DP_PASTE(return_shares, SUFFIX)(const dp_pooling_row *row, const void *shares,
                                            void *to) {
  const dp_pooling_source source = {.gradient = shares};
  DP_PASTE(return_row, SUFFIX)(TO_ALL, row, &source, 1, to, to);
}
static void DP_PASTE(return_to_places, SUFFIX)(const dp_pooling_row *row,
                                               const dp_pooling_source *sources, int64_t count,
                                               void *to) {
  DP_PASTE(return_row, SUFFIX)(TO_PLACES, row, sources, count, to, to);
}
static void DP_PASTE(return_to_equals, SUFFIX)(const dp_pooling_row *row,
                                               const dp_pooling_source *sources, int64_t count,
                                               const void *from, void *to) {
  DP_PASTE(return_row, SUFFIX)(TO_EQUALS, row, sources, count, from, to);
}
#undef INTEGERS
#undef PLACES
#undef PLACE
#undef CHOOSE
#undef CHOOSE_LARGER
#undef ADD_AT
#undef LOAD_PLACES
#undef STORE_PLACES
