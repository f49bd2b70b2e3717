/* The tile of a convolution for one type. The includer defines T, SUFFIX, LANES, MADD and TILE_ROWS
 * as for loops_gemm.tmpl.h. A tile of TILE_ROWS rows and two vectors stays in registers over all
 * runs. */
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(LANES * sizeof(T))));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
#define VECTOR DP_PASTE(vector, SUFFIX)
#define MEMORY DP_PASTE(memory, SUFFIX)
#define PANEL (2 * LANES)

static inline __attribute__((always_inline)) void
DP_PASTE(tile_of, SUFFIX)(const int rows, const bool is_dense, const T *const *a_rows,
                          const dp_conv_runs *runs, const T *b, T *const *c_rows, int64_t width,
                          bool accumulates) {
  VECTOR sum[TILE_ROWS][2];
  const T *row[TILE_ROWS];
  DP_UNROLL
  for (int i = 0; i < rows; ++i)
    sum[i][0] = sum[i][1] = (VECTOR){0};
  const int64_t step = is_dense ? 1 : runs->step, length = runs->length;
  for (int64_t r = 0; r < runs->count; ++r) {
    DP_UNROLL
    for (int i = 0; i < rows; ++i)
      row[i] = a_rows[i] + runs->offsets[r];
    for (int64_t p = 0; p < length; ++p) {
      VECTOR left = *(const MEMORY *)b, right = *(const MEMORY *)(b + LANES);
      b += PANEL;
      DP_UNROLL
      for (int i = 0; i < rows; ++i) {
        VECTOR factor = row[i][p * step] - (VECTOR){0};
        sum[i][0] = MADD(sum[i][0], factor, left);
        sum[i][1] = MADD(sum[i][1], factor, right);
      }
    }
  }
  if (width == PANEL) {
    DP_UNROLL
    for (int i = 0; i < rows; ++i) {
      MEMORY *to = (MEMORY *)c_rows[i];
      if (accumulates) {
        sum[i][0] += to[0];
        sum[i][1] += to[1];
      }
      to[0] = sum[i][0];
      to[1] = sum[i][1];
    }
    return;
  }
  DP_UNROLL
  for (int i = 0; i < rows; ++i) {
    T edge[PANEL];
    *(MEMORY *)edge = sum[i][0];
    *(MEMORY *)(edge + LANES) = sum[i][1];
    for (int64_t j = 0; j < width; ++j)
      c_rows[i][j] = accumulates ? (T)(c_rows[i][j] + edge[j]) : edge[j];
  }
}

static void DP_PASTE(tile, SUFFIX)(const void *const *a_rows, int rows, const dp_conv_runs *runs,
                                   const void *b, void *const *c_rows, int64_t width,
                                   bool accumulates) {
  const T *const *a = (const T *const *)a_rows;
  T *const *c = (T *const *)c_rows;
  if (rows == TILE_ROWS) {
    if (runs->step == 1)
      DP_PASTE(tile_of, SUFFIX)(TILE_ROWS, true, a, runs, b, c, width, accumulates);
    else
      DP_PASTE(tile_of, SUFFIX)(TILE_ROWS, false, a, runs, b, c, width, accumulates);
    return;
  }
  int i = 0;
  for (; i + 2 <= rows; i += 2)
    DP_PASTE(tile_of, SUFFIX)(2, false, a + i, runs, b, c + i, width, accumulates);
  if (i < rows)
    DP_PASTE(tile_of, SUFFIX)(1, false, a + i, runs, b, c + i, width, accumulates);
}

/* `vectors` vectors of channels of one pixel. */
static inline __attribute__((always_inline)) void
DP_PASTE(pixel_part, SUFFIX)(const int vectors, const T *a, const int64_t *offsets, int64_t taps,
                             const T *filter, int64_t channels, T *to) {
  VECTOR sum[4];
  DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    sum[v] = (VECTOR){0};
  for (int64_t t = 0; t < taps; ++t) {
    const T *from = a + offsets[t], *factor = filter + t * channels;
    DP_UNROLL
    for (int v = 0; v < vectors; ++v)
      sum[v] =
          MADD(sum[v], *(const MEMORY *)(from + v * LANES), *(const MEMORY *)(factor + v * LANES));
  }
  DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    *(MEMORY *)(to + v * LANES) = sum[v];
}

static void DP_PASTE(pixel, SUFFIX)(const void *a_data, const int64_t *offsets, int64_t taps,
                                    const void *filter_data, int64_t channels, void *to_data) {
  const T *a = a_data, *filter = filter_data;
  T *to = to_data;
  int64_t o = 0;
  for (; o + 4 * LANES <= channels; o += 4 * LANES)
    DP_PASTE(pixel_part, SUFFIX)(4, a + o, offsets, taps, filter + o, channels, to + o);
  for (; o + LANES <= channels; o += LANES)
    DP_PASTE(pixel_part, SUFFIX)(1, a + o, offsets, taps, filter + o, channels, to + o);
  for (; o < channels; ++o) {
    T sum = 0;
    for (int64_t t = 0; t < taps; ++t)
      sum += a[offsets[t] + o] * filter[t * channels + o];
    to[o] = sum;
  }
}

static inline __attribute__((always_inline)) void
DP_PASTE(products_part, SUFFIX)(const int vectors, const T *a, const dp_conv_runs *runs, const T *b,
                                int64_t channels, T *to) {
  VECTOR sum[4];
  DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    sum[v] = *(const MEMORY *)(to + v * LANES);
  for (int64_t r = 0; r < runs->count; ++r) {
    const T *from = a + runs->offsets[r];
    for (int64_t p = 0; p < runs->length; ++p, from += runs->step, b += channels)
      DP_UNROLL
    for (int v = 0; v < vectors; ++v)
      sum[v] = MADD(sum[v], *(const MEMORY *)(from + v * LANES), *(const MEMORY *)(b + v * LANES));
  }
  DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    *(MEMORY *)(to + v * LANES) = sum[v];
}

static void DP_PASTE(products, SUFFIX)(const void *a_data, const dp_conv_runs *runs,
                                       const void *b_data, int64_t channels, void *to_data) {
  const T *a = a_data, *b = b_data;
  T *to = to_data;
  int64_t o = 0;
  for (; o + 4 * LANES <= channels; o += 4 * LANES)
    DP_PASTE(products_part, SUFFIX)(4, a + o, runs, b + o, channels, to + o);
  for (; o + LANES <= channels; o += LANES)
    DP_PASTE(products_part, SUFFIX)(1, a + o, runs, b + o, channels, to + o);
  for (; o < channels; ++o) {
    T sum = to[o];
    for (int64_t r = 0; r < runs->count; ++r)
      for (int64_t p = 0; p < runs->length; ++p)
        sum += a[runs->offsets[r] + p * runs->step + o] * b[(r * runs->length + p) * channels + o];
    to[o] = sum;
  }
}

#undef VECTOR
#undef MEMORY
#undef PANEL
