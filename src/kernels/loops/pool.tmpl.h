/* Poolings of one type, pixel by pixel. The includer defines T, SUFFIX and LEAST; IS_FLOAT for
 * types that have averages. */
static void DP_PASTE(fill_least, SUFFIX)(void *to_data, int64_t count) {
  T *to = to_data;
  for (int64_t i = 0; i < count; ++i)
    to[i] = LEAST;
}

static inline __attribute__((always_inline)) void DP_PASTE(largest_of, SUFFIX)(T *to, const T *from,
                                                                               int64_t count) {
  DP_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    to[i] = from[i] > to[i] ? from[i] : to[i];
}

static void DP_PASTE(take_largest, SUFFIX)(void *to_data, const void *from_data, int64_t pixels,
                                           int64_t channels, int64_t step) {
  T *to = to_data;
  const T *from = from_data;
  if (step == channels) {
    DP_PASTE(largest_of, SUFFIX)(to, from, pixels * channels);
    return;
  }
  for (int64_t p = 0; p < pixels; ++p)
    DP_PASTE(largest_of, SUFFIX)(to + p * channels, from + p * step, channels);
}

static void DP_PASTE(take_place, SUFFIX)(void *best_data, int32_t *where, const void *from_data,
                                         int64_t channels, int32_t index) {
  T *best = best_data;
  const T *from = from_data;
  DP_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    bool takes = (from[c] > best[c]) | (where[c] < 0);
    best[c] = takes ? from[c] : best[c];
    where[c] = takes ? index : where[c];
  }
}

static void DP_PASTE(scatter, SUFFIX)(void *to_data, const int32_t *where, const void *from_data,
                                      int64_t channels, int64_t stride) {
  T *to = to_data;
  const T *from = from_data;
  for (int64_t c = 0; c < channels; ++c)
    to[where[c] * stride + c] += from[c];
}

static void DP_PASTE(gather, SUFFIX)(void *to_data, const int32_t *where, const void *from_data,
                                     int64_t channels, int64_t stride) {
  T *to = to_data;
  const T *from = from_data;
  for (int64_t c = 0; c < channels; ++c)
    to[c] = from[where[c] * stride + c];
}

static void DP_PASTE(add_at, SUFFIX)(void *to_data, const int64_t *at, const void *from_data,
                                     int64_t count) {
  T *to = to_data;
  const T *from = from_data;
  for (int64_t i = 0; i < count; ++i)
    to[at[i]] += from[i];
}

#ifdef IS_FLOAT
static void DP_PASTE(add_scaled, SUFFIX)(void *to_data, const void *from_data, int64_t channels,
                                         double factor) {
  T *to = to_data;
  const T *from = from_data, by = (T)factor;
  DP_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c)
    to[c] += from[c] * by;
}
#endif

#undef T
#undef SUFFIX
#undef LEAST
