/* Depthwise convolutions of one type. The includer defines T, SUFFIX and MADD. The sums of a few
 * pixels stay in registers over all taps; for the filter's gradient, the sums of a few taps stay
 * there over all pixels. Where the filter's width and the stride are constants, a pixel is loaded
 * once for all the taps that meet it. */
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(VECTOR_BYTES)));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
#define VECTOR DP_PASTE(vector, SUFFIX)
#define MEMORY DP_PASTE(memory, SUFFIX)
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(T)))
#define INLINE static inline __attribute__((always_inline))
#define AT_ONCE 6 /* pixels */

/* ---- Pixels ---- */
/* Adds one row of the filter to the sums of `pixels` pixels. `a` points to the first tap of the
 * first pixel. All arguments but the addresses and `channels` are constants where this is
 * inlined. */
INLINE void DP_PASTE(add_shared, SUFFIX)(const int vectors, const int pixels, const int taps,
                                         const int stride, const T *a, const T *filter,
                                         int64_t channels, VECTOR sum[AT_ONCE][VECTORS]) {
  VECTOR factor[3][VECTORS];
  DP_UNROLL
  for (int t = 0; t < taps; ++t, filter += channels)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    factor[t][v] = *(const MEMORY *)(filter + v * LANES);
  DP_UNROLL
  for (int x = 0; x < (pixels - 1) * stride + taps; ++x, a += channels)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v) {
    VECTOR value = *(const MEMORY *)(a + v * LANES);
    DP_UNROLL
    for (int t = 0; t < taps; ++t)
      if (x >= t && (x - t) % stride == 0 && (x - t) / stride < pixels)
        sum[(x - t) / stride][v] = MADD(sum[(x - t) / stride][v], value, factor[t][v]);
  }
}

/* The same for a filter of any width, spacing and stride. */
INLINE void DP_PASTE(add_any, SUFFIX)(const int vectors, const int pixels, int64_t taps,
                                      int64_t spacing, int64_t stride, const T *a, const T *filter,
                                      int64_t channels, VECTOR sum[AT_ONCE][VECTORS]) {
  for (int64_t t = 0; t < taps; ++t) {
    const T *from = a + t * spacing * channels;
    VECTOR factor[VECTORS];
    DP_UNROLL
    for (int v = 0; v < vectors; ++v)
      factor[v] = *(const MEMORY *)(filter + t * channels + v * LANES);
    DP_UNROLL
    for (int p = 0; p < pixels; ++p)
      DP_UNROLL
    for (int v = 0; v < vectors; ++v)
      sum[p][v] =
          MADD(sum[p][v], *(const MEMORY *)(from + p * stride * channels + v * LANES), factor[v]);
  }
}

INLINE void DP_PASTE(store_sums, SUFFIX)(const int vectors, const int pixels,
                                         VECTOR sum[AT_ONCE][VECTORS], T *to, int64_t to_step) {
  DP_UNROLL
  for (int p = 0; p < pixels; ++p)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    *(MEMORY *)(to + p * to_step + v * LANES) = sum[p][v];
}

/* Step p; some of its taps may be outside. */
INLINE void DP_PASTE(edge_pixel, SUFFIX)(const int vectors, const dp_depthwise_line *line,
                                         const T *const *a, const T *const *filters, int64_t rows,
                                         int64_t o, int64_t p, T *to) {
  int64_t start = p * line->stride + line->shift, first = 0, end = line->taps;
  while (first < end && start + first * line->spacing < 0)
    ++first;
  while (first < end && start + (end - 1) * line->spacing >= line->width)
    --end;
  VECTOR sum[AT_ONCE][VECTORS] = {0};
  for (int64_t r = 0; r < rows; ++r)
    DP_PASTE(add_any, SUFFIX)
  (vectors, 1, end - first, line->spacing, line->stride,
   a[r] + (start + first * line->spacing) * line->channels + o,
   filters[r] + first * line->channels + o, line->channels, sum);
  DP_PASTE(store_sums, SUFFIX)(vectors, 1, sum, to, 0);
}

/* `pixels` pixels from step p on, with all taps inside. `taps` 0 means: the line's number of taps
 * and spacing. */
INLINE void DP_PASTE(inner_pixels, SUFFIX)(const int vectors, const int pixels, const int taps,
                                           const int stride, const dp_depthwise_line *line,
                                           const T *const *a, const T *const *filters, int64_t rows,
                                           int64_t o, int64_t p, T *to, int64_t to_step) {
  VECTOR sum[AT_ONCE][VECTORS] = {0};
  int64_t at = (p * line->stride + line->shift) * line->channels + o;
  for (int64_t r = 0; r < rows; ++r) {
    if (taps)
      DP_PASTE(add_shared, SUFFIX)
    (vectors, pixels, taps, stride, a[r] + at, filters[r] + o, line->channels, sum);
    else DP_PASTE(add_any, SUFFIX)(vectors, pixels, line->taps, line->spacing, line->stride,
                                   a[r] + at, filters[r] + o, line->channels, sum);
  }
  DP_PASTE(store_sums, SUFFIX)(vectors, pixels, sum, to + p * to_step, to_step);
}

/* `vectors` vectors of channels of a row of pixels. Inner pixels are done in pairs at the end; with
 * an odd number, one of them is computed twice. */
INLINE void DP_PASTE(pixels_of, SUFFIX)(const int vectors, const int taps, const int stride,
                                        const dp_depthwise_line *line, const T *const *a,
                                        const T *const *filters, int64_t rows, int64_t o, T *to,
                                        int64_t to_step) {
  steps inner = inner_steps(line, 0, line->taps);
  if (inner.end - inner.first < 2)
    inner.end = inner.first;
  int64_t p = 0;
  for (; p < inner.first; ++p)
    DP_PASTE(edge_pixel, SUFFIX)(vectors, line, a, filters, rows, o, p, to + p * to_step);
  for (; p + AT_ONCE <= inner.end; p += AT_ONCE)
    DP_PASTE(inner_pixels, SUFFIX)
  (vectors, AT_ONCE, taps, stride, line, a, filters, rows, o, p, to, to_step);
  for (; p < inner.end; p += 2)
    DP_PASTE(inner_pixels, SUFFIX)
  (vectors, 2, taps, stride, line, a, filters, rows, o, p + 2 <= inner.end ? p : inner.end - 2, to,
   to_step);
  for (p = inner.end; p < line->count; ++p)
    DP_PASTE(edge_pixel, SUFFIX)(vectors, line, a, filters, rows, o, p, to + p * to_step);
}

/* The last channels, from `o` on, which do not fill a vector. */
static void DP_PASTE(rest_pixels, SUFFIX)(const dp_depthwise_line *line, const T *const *a,
                                          const T *const *filters, int64_t rows, int64_t o, T *to,
                                          int64_t to_step) {
  int64_t channels = line->channels, count = channels - o;
  for (int64_t p = 0; p < line->count; ++p) {
    T sum[LANES] = {0};
    for (int64_t t = 0; t < line->taps; ++t) {
      int64_t x = p * line->stride + line->shift + t * line->spacing;
      for (int64_t r = 0; x >= 0 && x < line->width && r < rows; ++r) {
        const T *value = a[r] + x * channels + o, *factor = filters[r] + t * channels + o;
        for (int64_t c = 0; c < count; ++c)
          sum[c] += value[c] * factor[c];
      }
    }
    for (int64_t c = 0; c < count; ++c)
      to[p * to_step + c] = sum[c];
  }
}

#define DEFINE_PIXELS(name, vectors, taps, stride)                                                 \
  static void DP_PASTE(name, SUFFIX)(const dp_depthwise_line *given, const T *const *a,            \
                                     const T *const *filters, int64_t rows, int64_t o, T *to,      \
                                     int64_t to_step) {                                            \
    const dp_depthwise_line line = *given;                                                         \
    DP_PASTE(pixels_of, SUFFIX)                                                                    \
    (vectors, taps, stride, &line, a, filters, rows, o, to, to_step);                              \
  }
DEFINE_PIXELS(three_dense, VECTORS, 3, 1)
DEFINE_PIXELS(three_apart, VECTORS, 3, 2)
DEFINE_PIXELS(two_dense, VECTORS, 2, 1)
DEFINE_PIXELS(any_many, VECTORS, 0, 0)
DEFINE_PIXELS(any_one, 1, 0, 0)
#undef DEFINE_PIXELS

static void DP_PASTE(pixels, SUFFIX)(const dp_depthwise_line *line, const void *const *a_rows,
                                     const void *const *filter_rows, int64_t rows, void *to_data,
                                     int64_t to_step) {
  const T *const *a = (const T *const *)a_rows, *const *filters = (const T *const *)filter_rows;
  bool is_close = line->spacing == 1;
  void (*many)(const dp_depthwise_line *, const T *const *, const T *const *, int64_t, int64_t, T *,
               int64_t) =
      is_close && line->taps == 3 && line->stride == 1   ? DP_PASTE(three_dense, SUFFIX)
      : is_close && line->taps == 3 && line->stride == 2 ? DP_PASTE(three_apart, SUFFIX)
      : is_close && line->taps == 2 && line->stride == 1 ? DP_PASTE(two_dense, SUFFIX)
                                                         : DP_PASTE(any_many, SUFFIX);
  T *to = to_data;
  int64_t o = 0;
  for (; o + VECTORS * LANES <= line->channels; o += VECTORS * LANES)
    many(line, a, filters, rows, o, to + o, to_step);
  for (; o + LANES <= line->channels; o += LANES)
    DP_PASTE(any_one, SUFFIX)(line, a, filters, rows, o, to + o, to_step);
  if (o < line->channels)
    DP_PASTE(rest_pixels, SUFFIX)(line, a, filters, rows, o, to + o, to_step);
}

/* ---- Products ---- */
/* Sums of `taps` taps over the steps [first, end), whose taps are all inside, for `vectors` vectors
 * of channels. `a` points to the first tap of step 0. When the taps are close together, the pixels
 * under them move through registers. */
INLINE void DP_PASTE(products_over, SUFFIX)(const int vectors, const int taps, const int stride,
                                            int64_t step, int64_t channels, steps range, const T *a,
                                            const T *b, T *to) {
  VECTOR sum[3][VECTORS], under[3][VECTORS];
  if (range.first >= range.end)
    return;
  a += range.first * step;
  b += range.first * channels;
  DP_UNROLL
  for (int t = 0; t < taps; ++t)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v) {
    sum[t][v] = *(const MEMORY *)(to + t * channels + v * LANES);
    if (t >= stride)
      under[t][v] = *(const MEMORY *)(a + (t - stride) * channels + v * LANES);
  }
  for (int64_t p = range.first; p < range.end; ++p, a += step, b += channels) {
    DP_UNROLL
    for (int v = 0; v < vectors; ++v) {
      VECTOR right = *(const MEMORY *)(b + v * LANES);
      DP_UNROLL
      for (int t = 0; t < taps; ++t) {
        under[t][v] = t + stride < taps ? under[t + stride][v]
                                        : (VECTOR) * (const MEMORY *)(a + t * channels + v * LANES);
        sum[t][v] = MADD(sum[t][v], under[t][v], right);
      }
    }
  }
  DP_UNROLL
  for (int t = 0; t < taps; ++t)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    *(MEMORY *)(to + t * channels + v * LANES) = sum[t][v];
}

/* Taps [tap, tap + taps). Steps in which some of these taps are outside are done tap by tap. */
INLINE void DP_PASTE(products_of, SUFFIX)(const int vectors, const int taps, const int stride,
                                          const dp_depthwise_line *line, int64_t tap, const T *a,
                                          const T *b, T *to) {
  int64_t channels = line->channels, step = line->stride * channels;
  steps inner = inner_steps(line, tap, taps);
  a += (line->shift + tap * line->spacing) * channels;
  to += tap * channels;
  DP_PASTE(products_over, SUFFIX)(vectors, taps, stride, step, channels, inner, a, b, to);
  for (int t = 0; taps > 1 && t < taps; ++t) {
    steps own = inner_steps(line, tap + t, 1);
    const T *at = a + t * line->spacing * channels;
    DP_PASTE(products_over, SUFFIX)
    (vectors, 1, 1, step, channels, (steps){own.first, inner.first}, at, b, to + t * channels);
    DP_PASTE(products_over, SUFFIX)
    (vectors, 1, 1, step, channels, (steps){inner.end, own.end}, at, b, to + t * channels);
  }
}

#define DEFINE_PRODUCTS(name, vectors, taps, stride)                                               \
  static void DP_PASTE(name, SUFFIX)(const dp_depthwise_line *given, int64_t tap, const T *a,      \
                                     const T *b, T *to) {                                          \
    const dp_depthwise_line line = *given;                                                         \
    DP_PASTE(products_of, SUFFIX)(vectors, taps, stride, &line, tap, a, b, to);                    \
  }
DEFINE_PRODUCTS(three_dense_products, VECTORS, 3, 1)
DEFINE_PRODUCTS(three_apart_products, VECTORS, 3, 2)
DEFINE_PRODUCTS(many_products, VECTORS, 1, 1)
DEFINE_PRODUCTS(one_products, 1, 1, 1)
#undef DEFINE_PRODUCTS

static void DP_PASTE(channel_products, SUFFIX)(const dp_depthwise_line *line, int64_t tap,
                                               const T *a, const T *b, T *to) {
  steps inner = inner_steps(line, tap, 1);
  T sum = to[tap * line->channels];
  a += (line->shift + tap * line->spacing) * line->channels;
  for (int64_t p = inner.first; p < inner.end; ++p)
    sum += a[p * line->stride * line->channels] * b[p * line->channels];
  to[tap * line->channels] = sum;
}

static void DP_PASTE(products, SUFFIX)(const dp_depthwise_line *line, const void *a_data,
                                       const void *b_data, void *to_data) {
  const T *a = a_data, *b = b_data;
  T *to = to_data;
  int64_t t = 0, channels = line->channels;
  bool is_dense = line->spacing == 1 && line->stride == 1;
  bool is_apart = line->spacing == 1 && line->stride == 2;
  for (; (is_dense || is_apart) && t + 3 <= line->taps; t += 3)
    for (int64_t o = 0; o + VECTORS * LANES <= channels; o += VECTORS * LANES)
      (is_dense ? DP_PASTE(three_dense_products, SUFFIX)
                : DP_PASTE(three_apart_products, SUFFIX))(line, t, a + o, b + o, to + o);
  for (; t < line->taps; ++t)
    for (int64_t o = 0; o + VECTORS * LANES <= channels; o += VECTORS * LANES)
      DP_PASTE(many_products, SUFFIX)(line, t, a + o, b + o, to + o);
  for (t = 0; t < line->taps; ++t) {
    int64_t o = channels - channels % (VECTORS * LANES);
    for (; o + LANES <= channels; o += LANES)
      DP_PASTE(one_products, SUFFIX)(line, t, a + o, b + o, to + o);
    for (; o < channels; ++o)
      DP_PASTE(channel_products, SUFFIX)(line, t, a + o, b + o, to + o);
  }
}

#undef VECTOR
#undef MEMORY
#undef LANES
#undef INLINE
#undef AT_ONCE
