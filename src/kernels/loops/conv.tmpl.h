/* The tile of a convolution for one type. The includer defines T, SUFFIX, LANES, MADD, TILE_ROWS
 * and TILE_VECTORS. The sums of a tile, TILE_ROWS rows of TILE_VECTORS vectors, stay in registers
 * over all runs. So do the addresses of its rows, which limits the number of rows. */
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(LANES * sizeof(T))));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));
#define VECTOR DP_PASTE(vector, SUFFIX)
#define MEMORY DP_PASTE(memory, SUFFIX)
#define PANEL (TILE_VECTORS * LANES)

/* Computes a tile of whole vectors. It calls nothing, so that everything stays in registers.
 * `rows`, `vectors` and `reading` are constants where this is inlined. Each run prefetches the
 * lines of a few rows of c and a share of runs->next, so that these requests do not hold up the
 * operands. Steps are unrolled, so that the processor predicts the ends of short runs. */
static inline __attribute__((always_inline)) void
DP_PASTE(tile_of, SUFFIX)(const int rows, const int vectors, const reading reading,
                          const T *const *a_rows, const dp_conv_runs *runs, const T *b,
                          T *const *c_rows, bool accumulates) {
  VECTOR sum[TILE_ROWS][TILE_VECTORS];
  const T *row[TILE_ROWS];
  DP_UNROLL
  for (int i = 0; i < rows; ++i)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v)
    sum[i][v] = (VECTOR){0};
  const int64_t length = runs->length, b_step = runs->b_step;
  const int64_t step = reading == READS_RUNS ? 1 : runs->step;
  const int few = runs->count > 0 && runs->count < rows ? (int)runs->count : rows;
  const int share = (rows + few - 1) / few;
  const int64_t lines =
      runs->next_lines > 0 && runs->count > 0 ? runs->next_lines / runs->count + 1 : 0;
  for (int64_t r = 0, asked = 0, line = 0; r < runs->count; ++r) {
    for (int64_t last = asked + share; asked < last && asked < rows; ++asked)
      DP_UNROLL
    for (int v = 0; v < vectors; ++v)
      __builtin_prefetch(c_rows[asked] + v * LANES, 1);
    for (int64_t last = line + lines; line < last; ++line)
      __builtin_prefetch((const char *)runs->next + line * 64, 0, 2);
    const T *side = a_rows[0] + runs->offsets[r];
    DP_UNROLL
    for (int i = 0; i < rows; ++i)
      row[i] = a_rows[i] + runs->offsets[r];
    const T *factors = b + (runs->b_offsets ? runs->b_offsets[r] : r * length * b_step);
    _Pragma("GCC unroll 4") for (int64_t p = 0; p < length; ++p) {
      VECTOR right[TILE_VECTORS];
      DP_UNROLL
      for (int v = 0; v < vectors; ++v)
        right[v] = *(const MEMORY *)(factors + v * LANES);
      factors += b_step;
      DP_UNROLL
      for (int i = 0; i < rows; ++i) {
        VECTOR factor = (reading == READS_SIDE ? side[i] : row[i][p * step]) - (VECTOR){0};
        DP_UNROLL
        for (int v = 0; v < vectors; ++v)
          sum[i][v] = MADD(sum[i][v], factor, right[v]);
      }
      side += step;
    }
  }
  DP_UNROLL
  for (int i = 0; i < rows; ++i)
    DP_UNROLL
  for (int v = 0; v < vectors; ++v) {
    MEMORY *to = (MEMORY *)(c_rows[i] + v * LANES);
    *to = accumulates ? sum[i][v] + *to : sum[i][v];
  }
}

#define TILE_NAME(name, vectors) DP_PASTE(name##_##vectors, SUFFIX)
#define DEFINE_TILE(name, rows, vectors, reading)                                                  \
  static void TILE_NAME(name, vectors)(const T *const *a, const dp_conv_runs *runs, const T *b,    \
                                       T *const *c, bool accumulates) {                            \
    DP_PASTE(tile_of, SUFFIX)(rows, vectors, reading, a, runs, b, c, accumulates);                 \
  }
#if TILE_VECTORS == 4
#define DEFINE_TILES(name, rows, reading)                                                          \
  DEFINE_TILE(name, rows, 1, reading)                                                              \
  DEFINE_TILE(name, rows, 2, reading)                                                              \
  DEFINE_TILE(name, rows, 3, reading)                                                              \
  DEFINE_TILE(name, rows, 4, reading)
#define TILE_NAMES(name)                                                                           \
  { TILE_NAME(name, 1), TILE_NAME(name, 2), TILE_NAME(name, 3), TILE_NAME(name, 4) }
#else
#define DEFINE_TILES(name, rows, reading)                                                          \
  DEFINE_TILE(name, rows, 1, reading)                                                              \
  DEFINE_TILE(name, rows, 2, reading)
#define TILE_NAMES(name)                                                                           \
  { TILE_NAME(name, 1), TILE_NAME(name, 2) }
#endif
DEFINE_TILES(dense, TILE_ROWS, READS_RUNS)
DEFINE_TILES(sparse, TILE_ROWS, READS_STEPS)
DEFINE_TILES(side, TILE_ROWS, READS_SIDE)
DEFINE_TILES(low_side, TILE_ROWS - 1, READS_SIDE)
DEFINE_TILES(four, 4, READS_STEPS)
DEFINE_TILES(two, 2, READS_STEPS)
DEFINE_TILES(one, 1, READS_STEPS)

typedef void (*DP_PASTE(tile_fn, SUFFIX))(const T *const *a, const dp_conv_runs *runs, const T *b,
                                          T *const *c, bool accumulates);
/* Indexed by the number of vectors less one. */
static const DP_PASTE(tile_fn, SUFFIX) DP_PASTE(dense_tiles, SUFFIX)[] = TILE_NAMES(dense);
static const DP_PASTE(tile_fn, SUFFIX) DP_PASTE(sparse_tiles, SUFFIX)[] = TILE_NAMES(sparse);
static const DP_PASTE(tile_fn, SUFFIX) DP_PASTE(side_tiles, SUFFIX)[] = TILE_NAMES(side);
static const DP_PASTE(tile_fn, SUFFIX) DP_PASTE(low_side_tiles, SUFFIX)[] = TILE_NAMES(low_side);
static const DP_PASTE(tile_fn, SUFFIX) DP_PASTE(fours, SUFFIX)[] = TILE_NAMES(four);
static const DP_PASTE(tile_fn, SUFFIX) DP_PASTE(twos, SUFFIX)[] = TILE_NAMES(two);
static const DP_PASTE(tile_fn, SUFFIX) DP_PASTE(ones, SUFFIX)[] = TILE_NAMES(one);
#undef TILE_NAME
#undef DEFINE_TILE
#undef DEFINE_TILES
#undef TILE_NAMES

static void DP_PASTE(whole_tile, SUFFIX)(const T *const *a, int rows, const dp_conv_runs *runs,
                                         const T *b, T *const *c, int vectors, bool accumulates) {
  int i = 0, index = vectors - 1;
  if (rows == TILE_ROWS) {
    const DP_PASTE(tile_fn, SUFFIX) *tiles = runs->is_side_by_side ? DP_PASTE(side_tiles, SUFFIX)
                                             : runs->step == 1     ? DP_PASTE(dense_tiles, SUFFIX)
                                                                   : DP_PASTE(sparse_tiles, SUFFIX);
    tiles[index](a, runs, b, c, accumulates);
    return;
  }
  if (runs->is_side_by_side && rows == TILE_ROWS - 1) {
    DP_PASTE(low_side_tiles, SUFFIX)[index](a, runs, b, c, accumulates);
    return;
  }
  for (; i + 4 <= rows; i += 4)
    DP_PASTE(fours, SUFFIX)[index](a + i, runs, b, c + i, accumulates);
  for (; i + 2 <= rows; i += 2)
    DP_PASTE(twos, SUFFIX)[index](a + i, runs, b, c + i, accumulates);
  if (i < rows)
    DP_PASTE(ones, SUFFIX)[index](a + i, runs, b, c + i, accumulates);
}

/* A width that does not fill its vectors is computed in a whole tile on the stack. */
static void DP_PASTE(tile, SUFFIX)(const void *const *a_rows, int rows, const dp_conv_runs *runs,
                                   const void *b, void *const *c_rows, int64_t width,
                                   bool accumulates) {
  const T *const *a = (const T *const *)a_rows;
  T *const *c = (T *const *)c_rows;
  int vectors = (int)(width + LANES - 1) / LANES;
  if (width == vectors * LANES) {
    DP_PASTE(whole_tile, SUFFIX)(a, rows, runs, b, c, vectors, accumulates);
    return;
  }
  T edges[TILE_ROWS][PANEL] __attribute__((aligned(64)));
  T *edge_rows[TILE_ROWS];
  for (int i = 0; i < TILE_ROWS; ++i)
    edge_rows[i] = edges[i];
  for (int i = 0; accumulates && i < rows; ++i)
    memcpy(edges[i], c[i], (size_t)width * sizeof(T));
  DP_PASTE(whole_tile, SUFFIX)(a, rows, runs, b, edge_rows, vectors, accumulates);
  for (int i = 0; i < rows; ++i)
    memcpy(c[i], edges[i], (size_t)width * sizeof(T));
}

#undef VECTOR
#undef MEMORY
#undef PANEL
