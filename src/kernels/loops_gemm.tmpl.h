/* Products of matrices of one type. The includer defines T, SUFFIX, LANES (elements of a vector),
 * MADD(sum, a, b) over vectors, and TILE_ROWS. A tile of TILE_ROWS x 2 vectors of c stays in
 * registers while k runs. Where b is transposed, or its last columns do not fill a panel, a panel
 * of PANEL_K rows is packed on the stack first. */
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(LANES * sizeof(T))));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
#define VECTOR DP_PASTE(vector, SUFFIX) /* in registers */
#define MEMORY DP_PASTE(memory, SUFFIX) /* anywhere in an array */
#define PANEL (2 * LANES)

/* `rows` x `vectors` vectors of c; both are constants where this is inlined. */
static inline __attribute__((always_inline)) void
DP_PASTE(tile, SUFFIX)(const int rows, const int vectors, const T *a, int64_t a_row,
                       int64_t a_column, const T *b, int64_t b_row, T *c, int64_t c_row, int64_t k,
                       bool accumulates) {
  VECTOR sum[TILE_ROWS][8];
  DP_UNROLL
  for (int i = 0; i < rows; ++i)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    sum[i][v] = (VECTOR){0};
  for (int64_t p = 0; p < k; ++p) {
    VECTOR row[8];
    DP_UNROLL
    for (int v = 0; v < vectors; ++v)
      row[v] = *(const MEMORY *)(b + p * b_row + v * LANES);
    DP_UNROLL
    for (int i = 0; i < rows; ++i) {
      VECTOR factor = a[i * a_row + p * a_column] - (VECTOR){0};
      DP_UNROLL
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = MADD(sum[i][v], factor, row[v]);
    }
  }
  DP_UNROLL
  for (int i = 0; i < rows; ++i)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v) {
    MEMORY *to = (MEMORY *)(c + i * c_row + v * LANES);
    if (accumulates)
      sum[i][v] += *to;
    *to = sum[i][v];
  }
}

/* Rows [0, m) of one panel of PANEL columns. */
static void DP_PASTE(panel, SUFFIX)(const T *a, const T *b, int64_t b_row, T *c, int64_t c_row,
                                    int64_t m, int64_t k, const dp_gemm_sizes *sizes,
                                    bool accumulates) {
  int64_t i = 0, row = sizes->a_row, column = sizes->a_column;
  for (; i + TILE_ROWS <= m; i += TILE_ROWS)
    DP_PASTE(tile, SUFFIX)
  (TILE_ROWS, 2, a + i * row, row, column, b, b_row, c + i * c_row, c_row, k, accumulates);
  for (; i + 2 <= m; i += 2)
    DP_PASTE(tile, SUFFIX)
  (2, 2, a + i * row, row, column, b, b_row, c + i * c_row, c_row, k, accumulates);
  for (; i < m; ++i)
    DP_PASTE(tile, SUFFIX)
  (1, 2, a + i * row, row, column, b, b_row, c + i * c_row, c_row, k, accumulates);
}

/* A panel of `width` columns of b, rows [0, k), zero beyond. */
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

/* Columns [j, j + width) and rows [p, p + k) of b, through a packed panel. */
static void DP_PASTE(packed_panel, SUFFIX)(const T *a, const T *b, T *c, int64_t k, int64_t width,
                                           const dp_gemm_sizes *sizes, bool accumulates) {
  T packed[PANEL_K * PANEL] __attribute__((aligned(64)));
  DP_PASTE(pack, SUFFIX)(b, sizes, k, width, packed);
  if (width == PANEL) {
    DP_PASTE(panel, SUFFIX)
    (a, packed, PANEL, c, sizes->c_row, sizes->m, k, sizes, accumulates);
    return;
  }
  T edge[TILE_ROWS * 4 * PANEL] __attribute__((aligned(64)));
  for (int64_t i = 0; i < sizes->m; i += TILE_ROWS * 4) {
    int64_t rows = sizes->m - i < TILE_ROWS * 4 ? sizes->m - i : TILE_ROWS * 4;
    DP_PASTE(panel, SUFFIX)
    (a + i * sizes->a_row, packed, PANEL, edge, PANEL, rows, k, sizes, false);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < width; ++j) {
        T *to = c + (i + r) * sizes->c_row + j;
        *to = accumulates ? (T)(*to + edge[r * PANEL + j]) : edge[r * PANEL + j];
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

/* One row of a, b as it is: eight vectors of columns at a time. */
static int64_t DP_PASTE(wide_row, SUFFIX)(const T *a, const T *b, T *c,
                                          const dp_gemm_sizes *sizes) {
  int64_t j = 0;
  for (; j + 8 * LANES <= sizes->n; j += 8 * LANES)
    DP_PASTE(tile, SUFFIX)
  (1, 8, a, 0, sizes->a_column, b + j, sizes->b_row, c + j, 0, sizes->k, sizes->accumulates);
  return j;
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
    start = DP_PASTE(wide_row, SUFFIX)(a, b, c, sizes);
  for (int64_t p = 0; p < sizes->k || p == 0; p += PANEL_K) {
    int64_t k = sizes->k - p < PANEL_K ? sizes->k - p : PANEL_K;
    bool accumulates = sizes->accumulates || p > 0;
    const T *left = a + p * sizes->a_column;
    for (int64_t j = start; j < sizes->n; j += PANEL) {
      int64_t width = sizes->n - j < PANEL ? sizes->n - j : PANEL;
      const T *right = sizes->b_transposed ? b + j * sizes->b_row + p : b + p * sizes->b_row + j;
      if (sizes->b_transposed || width < PANEL)
        DP_PASTE(packed_panel, SUFFIX)(left, right, c + j, k, width, sizes, accumulates);
      else
        DP_PASTE(panel, SUFFIX)
      (left, right, sizes->b_row, c + j, sizes->c_row, sizes->m, k, sizes, accumulates);
    }
  }
}

#undef VECTOR
#undef MEMORY
#undef PANEL
