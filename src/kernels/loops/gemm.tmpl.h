/* Products of matrices of one type. The includer defines T, SUFFIX, BITS (of an element), LANES
 * (elements of a vector), MADD(sum, a, b) over vectors, TILE_ROWS and HAS_MASKS.
 *
 * A tile of TILE_ROWS x 2 vectors of c stays in registers while k runs. A panel of PANEL_K rows of
 * b is packed on the stack first if b is transposed, or if the last columns do not fill a panel and
 * the instruction set has no masks. */
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(LANES * sizeof(T))));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
#define VECTOR DP_PASTE(vector, SUFFIX) /* in registers */
#define MEMORY DP_PASTE(memory, SUFFIX) /* anywhere in an array */
#define PANEL (2 * LANES)

/* Loads a vector; with `is_part`, only the elements in the mask. Without masks there are no partial
 * vectors. */
static inline __attribute__((always_inline)) VECTOR
DP_PASTE(load, SUFFIX)(const T *from, const bool is_part, uint64_t mask) {
#if HAS_MASKS
  if (is_part)
    return (VECTOR)JOIN(_mm512_maskz_loadu_epi, BITS)(mask, from);
#endif
  return *(const MEMORY *)from;
}

static inline __attribute__((always_inline)) void
DP_PASTE(store, SUFFIX)(T *to, VECTOR value, const bool is_part, uint64_t mask) {
#if HAS_MASKS
  if (is_part) {
    JOIN(_mm512_mask_storeu_epi, BITS)(to, mask, (__m512i)value);
    return;
  }
#endif
  *(MEMORY *)to = value;
}

/* What is the same for all tiles of a panel. */
typedef struct DP_PASTE(panel, SUFFIX) {
  const T *b;
  int64_t a_row, a_column, b_row, c_row, k;
  uint64_t mask; /* of the last vector's columns */
  bool accumulates;
} DP_PASTE(panel, SUFFIX);
#define PANEL_TYPE DP_PASTE(panel, SUFFIX)

/* `rows` x `vectors` vectors of c. `rows`, `vectors` and `is_part` (the last vector is partial) are
 * constants where this is inlined; so is `a_row` if it is 1. Steps are unrolled, so that the
 * processor predicts the ends of short sums. */
static inline __attribute__((always_inline)) void
DP_PASTE(tile, SUFFIX)(const int rows, const int vectors, const bool is_part, const int64_t a_row,
                       const T *a, const PANEL_TYPE *panel, T *c) {
  VECTOR sum[TILE_ROWS][8];
  const T *b = panel->b;
  const int64_t c_row = panel->c_row;
  DP_UNROLL
  for (int i = 0; i < rows; ++i)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    sum[i][v] = (VECTOR){0};
  _Pragma("GCC unroll 4") for (int64_t p = 0; p < panel->k;
                               ++p, a += panel->a_column, b += panel->b_row) {
    VECTOR row[8];
    DP_UNROLL
    for (int v = 0; v < vectors; ++v)
      row[v] = DP_PASTE(load, SUFFIX)(b + v * LANES, is_part && v == vectors - 1, panel->mask);
    DP_UNROLL
    for (int i = 0; i < rows; ++i) {
      VECTOR factor = a[i * a_row] - (VECTOR){0};
      DP_UNROLL
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = MADD(sum[i][v], factor, row[v]);
    }
  }
  DP_UNROLL
  for (int i = 0; i < rows; ++i)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v) {
    T *to = c + i * c_row + v * LANES;
    const bool is_last = is_part && v == vectors - 1;
    if (panel->accumulates)
      sum[i][v] += DP_PASTE(load, SUFFIX)(to, is_last, panel->mask);
    DP_PASTE(store, SUFFIX)(to, sum[i][v], is_last, panel->mask);
  }
}

/* Rows [0, m) of one panel. */
static inline __attribute__((always_inline)) void
DP_PASTE(rows_of, SUFFIX)(const int vectors, const bool is_part, const int64_t a_row, const T *a,
                          int64_t m, const PANEL_TYPE *panel, T *c) {
  int64_t i = 0, c_row = panel->c_row;
  for (; i + TILE_ROWS <= m; i += TILE_ROWS)
    DP_PASTE(tile, SUFFIX)(TILE_ROWS, vectors, is_part, a_row, a + i * a_row, panel, c + i * c_row);
  for (; i + 4 <= m; i += 4)
    DP_PASTE(tile, SUFFIX)(4, vectors, is_part, a_row, a + i * a_row, panel, c + i * c_row);
  if (i + 2 <= m) {
    DP_PASTE(tile, SUFFIX)(2, vectors, is_part, a_row, a + i * a_row, panel, c + i * c_row);
    i += 2;
  }
  if (i < m)
    DP_PASTE(tile, SUFFIX)(1, vectors, is_part, a_row, a + i * a_row, panel, c + i * c_row);
}

/* The first `width` columns of a panel; all of them where there are no masks. */
static void DP_PASTE(panel_rows, SUFFIX)(const T *a, int64_t m, PANEL_TYPE *panel, int64_t width,
                                         T *c) {
#if HAS_MASKS
  int64_t last = width > LANES ? width - LANES : width;
  panel->mask = ((uint64_t)1 << last) - 1;
  if (width < LANES)
    DP_PASTE(rows_of, SUFFIX)(1, true, panel->a_row, a, m, panel, c);
  else if (width == LANES)
    DP_PASTE(rows_of, SUFFIX)(1, false, panel->a_row, a, m, panel, c);
  else if (width < PANEL)
    DP_PASTE(rows_of, SUFFIX)(2, true, panel->a_row, a, m, panel, c);
  else
#endif
      if (panel->a_row == 1)
    DP_PASTE(rows_of, SUFFIX)(2, false, 1, a, m, panel, c);
  else
    DP_PASTE(rows_of, SUFFIX)(2, false, panel->a_row, a, m, panel, c);
}

/* Packs `width` columns of rows [0, k) of b into a panel, with zeros in the other columns. */
static void DP_PASTE(pack, SUFFIX)(const T *b, const dp_gemm_sizes *sizes, int64_t k, int64_t width,
                                   T *packed) {
  if (sizes->b_transposed) {
    if (width < PANEL)
      memset(packed, 0, (size_t)k * PANEL * sizeof(T));
    for (int64_t j = 0; j < width; ++j)
      for (int64_t p = 0; p < k; ++p)
        packed[p * PANEL + j] = b[j * sizes->b_row + p];
    return;
  }
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < PANEL; ++j)
      packed[p * PANEL + j] = j < width ? b[p * sizes->b_row + j] : 0;
}

/* Packs `width` columns of b and multiplies with that panel. */
static void DP_PASTE(packed_panel, SUFFIX)(const T *a, PANEL_TYPE *panel, T *c, int64_t width,
                                           const dp_gemm_sizes *sizes) {
  T packed[PANEL_K * PANEL] __attribute__((aligned(64)));
  DP_PASTE(pack, SUFFIX)(panel->b, sizes, panel->k, width, packed);
  panel->b = packed;
  panel->b_row = PANEL;
  if (HAS_MASKS || width == PANEL) {
    DP_PASTE(panel_rows, SUFFIX)(a, sizes->m, panel, width, c);
    return;
  }
  PANEL_TYPE whole = *panel;
  whole.c_row = PANEL;
  whole.accumulates = false;
  T edge[TILE_ROWS * 4 * PANEL] __attribute__((aligned(64)));
  for (int64_t i = 0; i < sizes->m; i += TILE_ROWS * 4) {
    int64_t rows = sizes->m - i < TILE_ROWS * 4 ? sizes->m - i : TILE_ROWS * 4;
    DP_PASTE(panel_rows, SUFFIX)(a + i * sizes->a_row, rows, &whole, PANEL, edge);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) {
        T *to = c + (i + r) * sizes->c_row + j;
        *to = panel->accumulates ? (T)(*to + edge[r * PANEL + j]) : edge[r * PANEL + j];
      }
  }
}

/* One row of a against every row of a transposed b: dot products. */
static void DP_PASTE(dots, SUFFIX)(const T *a, const T *b, T *c, const dp_gemm_sizes *sizes) {
  int64_t whole = sizes->k / PANEL * PANEL;
  for (int64_t j = 0; j < sizes->n; ++j) {
    const T *row = b + j * sizes->b_row;
    VECTOR first = {0}, second = {0};
    for (int64_t p = 0; p < whole; p += PANEL) {
      first = MADD(first, *(const MEMORY *)(a + p), *(const MEMORY *)(row + p));
      second = MADD(second, *(const MEMORY *)(a + p + LANES), *(const MEMORY *)(row + p + LANES));
    }
    first += second;
    T sum = 0;
    for (int lane = 0; lane < LANES; ++lane)
      sum += first[lane];
    for (int64_t p = whole; p < sizes->k; ++p)
      sum += a[p] * row[p];
    c[j] = sizes->accumulates ? (T)(c[j] + sum) : sum;
  }
}

/* One row of a times an untransposed b: eight vectors of columns at a time. Returns the number of
 * columns done. */
static int64_t DP_PASTE(wide_row, SUFFIX)(const T *a, const T *b, T *c,
                                          const dp_gemm_sizes *sizes) {
  int64_t j = 0;
  for (; j + 8 * LANES <= sizes->n; j += 8 * LANES) {
    PANEL_TYPE panel = {b + j,    0, sizes->a_column,   sizes->b_row, 0,
                        sizes->k, 0, sizes->accumulates};
    DP_PASTE(tile, SUFFIX)(1, 8, false, 0, a, &panel, c + j);
  }
  return j;
}

/* Adds `count` rows of b, each times its element of a, to the columns [first, last) of c. */
static inline __attribute__((always_inline)) void
DP_PASTE(add_rows, SUFFIX)(const int count, const T *a, const T *b, T *c, int64_t first,
                           int64_t last, bool adds, const dp_gemm_sizes *sizes) {
  VECTOR factor[STREAMS];
  DP_UNROLL
  for (int i = 0; i < count; ++i)
    factor[i] = a[i * sizes->a_column] - (VECTOR){0};
  for (int64_t j = first; j < last; j += LANES) {
    VECTOR sum = {0};
    if (adds)
      sum = *(const MEMORY *)(c + j);
    DP_UNROLL
    for (int i = 0; i < count; ++i)
      sum = MADD(sum, factor[i], *(const MEMORY *)(b + i * sizes->b_row + j));
    *(MEMORY *)(c + j) = sum;
  }
}

/* As wide_row, for many columns: b is read in the order of its memory, STREAMS rows at a time, and
 * the sums of STRETCH columns stay in the first-level cache. */
static int64_t DP_PASTE(stream_row, SUFFIX)(const T *a, const T *b, T *c,
                                            const dp_gemm_sizes *sizes) {
  const int64_t whole = sizes->n / LANES * LANES, step = sizes->a_column, b_row = sizes->b_row;
  for (int64_t first = 0; first < whole; first += STRETCH) {
    const int64_t last = whole - first < STRETCH ? whole : first + STRETCH;
    int64_t p = 0;
    for (; p + STREAMS <= sizes->k; p += STREAMS)
      DP_PASTE(add_rows, SUFFIX)
    (STREAMS, a + p * step, b + p * b_row, c, first, last, sizes->accumulates || p > 0, sizes);
    for (; p < sizes->k; ++p)
      DP_PASTE(add_rows, SUFFIX)
    (1, a + p * step, b + p * b_row, c, first, last, sizes->accumulates || p > 0, sizes);
  }
  return whole;
}

static void DP_PASTE(gemm, SUFFIX)(const void *a_data, const void *b_data, void *c_data,
                                   const dp_gemm_sizes *sizes) {
  const T *a = a_data, *b = b_data;
  T *c = c_data;
  if (sizes->b_transposed && sizes->m < 4 && (sizes->a_column == 1 || sizes->k == 1)) {
    for (int64_t i = 0; i < sizes->m; ++i)
      DP_PASTE(dots, SUFFIX)(a + i * sizes->a_row, b, c + i * sizes->c_row, sizes);
    return;
  }
  int64_t start = 0;
  if (sizes->m == 1 && !sizes->b_transposed)
    start = sizes->n < WIDE || sizes->k == 0 ? DP_PASTE(wide_row, SUFFIX)(a, b, c, sizes)
                                             : DP_PASTE(stream_row, SUFFIX)(a, b, c, sizes);
  for (int64_t p = 0; p < sizes->k || p == 0; p += PANEL_K) {
    int64_t k = sizes->k - p < PANEL_K ? sizes->k - p : PANEL_K;
    const T *left = a + p * sizes->a_column;
    for (int64_t j = start; j < sizes->n; j += PANEL) {
      int64_t width = sizes->n - j < PANEL ? sizes->n - j : PANEL;
      PANEL_TYPE panel = {.b = sizes->b_transposed ? b + j * sizes->b_row + p
                                                   : b + p * sizes->b_row + j,
                          .a_row = sizes->a_row,
                          .a_column = sizes->a_column,
                          .b_row = sizes->b_row,
                          .c_row = sizes->c_row,
                          .k = k,
                          .accumulates = sizes->accumulates || p > 0};
      if (sizes->b_transposed || (!HAS_MASKS && width < PANEL))
        DP_PASTE(packed_panel, SUFFIX)(left, &panel, c + j, width, sizes);
      else
        DP_PASTE(panel_rows, SUFFIX)(left, sizes->m, &panel, width, c + j);
    }
  }
}

#undef VECTOR
#undef MEMORY
#undef PANEL
#undef PANEL_TYPE
