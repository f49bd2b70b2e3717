/* Poolings of one type. The includer defines T, SUFFIX and LEAST; IS_FLOAT for types that have
 * averages, with MASK, the integer of their size, and LARGER(a, b) over vectors: a > b ? a : b. */
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

static inline __attribute__((always_inline)) void DP_PASTE(sum_of, SUFFIX)(T *to, const T *from,
                                                                           int64_t count) {
  DP_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    to[i] += from[i];
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

static void DP_PASTE(add, SUFFIX)(void *to_data, const void *from_data, int64_t pixels,
                                  int64_t channels, int64_t step) {
  T *to = to_data;
  const T *from = from_data;
  if (step == channels) {
    DP_PASTE(sum_of, SUFFIX)(to, from, pixels * channels);
    return;
  }
  for (int64_t p = 0; p < pixels; ++p)
    DP_PASTE(sum_of, SUFFIX)(to + p * channels, from + p * step, channels);
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

static void DP_PASTE(add_equal, SUFFIX)(void *to_data, const void *in_data, const void *out_data,
                                        const void *gradient_data, int64_t channels) {
  T *to = to_data;
  const T *in = in_data, *out = out_data, *gradient = gradient_data;
  DP_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c)
    to[c] += in[c] == out[c] ? gradient[c] : 0;
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

#ifdef IS_FLOAT
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(VECTOR_BYTES)));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
typedef MASK DP_PASTE(places, SUFFIX) __attribute__((vector_size(VECTOR_BYTES)));
#define VECTOR DP_PASTE(vector, SUFFIX)
#define MEMORY DP_PASTE(memory, SUFFIX)
#define PLACES DP_PASTE(places, SUFFIX)
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(T)))
#define FOR_VIEW                                                                                   \
  for (int64_t y = 0; y < view->rows; ++y)                                                         \
    for (int64_t x = 0; x < view->columns; ++x)
#define VIEW_OFFSET (y * view->row_step + x * view->column_step)

static void DP_PASTE(view_largest, SUFFIX)(void *to_data, const void *from_data,
                                           const dp_pooling_view *view, int64_t channels) {
  T *to = to_data;
  const T *from = from_data;
  int64_t c = 0;
  for (; c + LANES <= channels; c += LANES) {
    VECTOR best = LEAST - (VECTOR){0};
    FOR_VIEW {
      VECTOR value = *(const MEMORY *)(from + c + VIEW_OFFSET);
      best = (VECTOR)LARGER(value, best);
    }
    *(MEMORY *)(to + c) = best;
  }
  for (; c < channels; ++c) {
    T best = LEAST;
    FOR_VIEW {
      T value = from[c + VIEW_OFFSET];
      best = value > best ? value : best;
    }
    to[c] = best;
  }
}

static void DP_PASTE(view_average, SUFFIX)(void *to_data, const void *from_data,
                                           const dp_pooling_view *view, int64_t channels,
                                           double factor) {
  T *to = to_data;
  const T *from = from_data, by = (T)factor;
  int64_t c = 0;
  for (; c + LANES <= channels; c += LANES) {
    VECTOR sum = {0};
    FOR_VIEW sum += *(const MEMORY *)(from + c + VIEW_OFFSET);
    *(MEMORY *)(to + c) = sum * by;
  }
  for (; c < channels; ++c) {
    T sum = 0;
    FOR_VIEW sum += from[c + VIEW_OFFSET];
    to[c] = sum * by;
  }
}

/* The first place that holds the largest element; what is larger than a NaN is nothing. */
static void DP_PASTE(view_scatter, SUFFIX)(void *to_data, const void *from_data,
                                           const void *gradient_data, const dp_pooling_view *view,
                                           int64_t channels) {
  T *to = to_data;
  const T *from = from_data, *gradient = gradient_data;
  int64_t c = 0;
  for (; c + LANES <= channels; c += LANES) {
    VECTOR best = *(const MEMORY *)(from + c);
    PLACES where = {0}, place = {0};
    FOR_VIEW {
      VECTOR value = *(const MEMORY *)(from + c + VIEW_OFFSET);
      PLACES takes = value > best;
      best = (VECTOR)((takes & (PLACES)value) | (~takes & (PLACES)best));
      where = (takes & place) | (~takes & where);
      place += 1;
    }
    PLACES given = (PLACES) * (const MEMORY *)(gradient + c);
    place = (PLACES){0};
    FOR_VIEW {
      MEMORY *at = (MEMORY *)(to + c + VIEW_OFFSET);
      VECTOR share = (VECTOR)(given & (where == place));
      if (!view->is_alone)
        share += *at;
      *at = share;
      place += 1;
    }
  }
  for (; c < channels; ++c) {
    T best = from[c];
    int64_t where = 0;
    FOR_VIEW {
      bool takes = from[c + VIEW_OFFSET] > best;
      best = takes ? from[c + VIEW_OFFSET] : best;
      where = takes ? VIEW_OFFSET : where;
    }
    FOR_VIEW {
      T share = VIEW_OFFSET == where ? gradient[c] : 0;
      to[c + VIEW_OFFSET] = view->is_alone ? share : to[c + VIEW_OFFSET] + share;
    }
  }
}

static void DP_PASTE(view_spread, SUFFIX)(void *to_data, const void *gradient_data,
                                          const dp_pooling_view *view, int64_t channels,
                                          double factor) {
  T *to = to_data;
  const T *gradient = gradient_data, by = (T)factor;
  int64_t c = 0;
  for (; c + LANES <= channels; c += LANES) {
    VECTOR share = *(const MEMORY *)(gradient + c) * by;
    FOR_VIEW {
      MEMORY *at = (MEMORY *)(to + c + VIEW_OFFSET);
      VECTOR before = {0};
      if (!view->is_alone)
        before = *at;
      *at = before + share;
    }
  }
  for (; c < channels; ++c)
    FOR_VIEW to[c + VIEW_OFFSET] = (view->is_alone ? 0 : to[c + VIEW_OFFSET]) + gradient[c] * by;
}
#undef VECTOR
#undef MEMORY
#undef PLACES
#undef LANES
#undef FOR_VIEW
#undef VIEW_OFFSET

static void DP_PASTE(add_scaled, SUFFIX)(void *to_data, const void *from_data, int64_t channels,
                                         double factor) {
  T *to = to_data;
  const T *from = from_data, by = (T)factor;
  DP_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c)
    to[c] += from[c] * by;
}

static void DP_PASTE(scale, SUFFIX)(void *data, int64_t count, double factor) {
  T *values = data;
  const T by = (T)factor;
  for (int64_t i = 0; i < count; ++i)
    values[i] *= by;
}
#endif

#undef T
#undef SUFFIX
#undef LEAST
#undef MASK
#undef LARGER
