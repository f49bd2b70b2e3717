/* Tiles of one type. The includer defines T, SUFFIX, BITS (of an element), MADD(sum, a, b) over
 * vectors, and the macros that tiles_types.tmpl.h requires. */
#define LANES (VECTOR_BYTES / (BITS / 8))
#define PANEL (TILE_VECTORS * LANES)
#define LINE (64 / (BITS / 8)) /* elements of a cache line, and steps between errands */
#define AHEAD 3      /* rows of distance between prefetch and copy, for each row per errand */
#define MOST_AHEAD 8 /* the largest such distance, and the one of steps of k */
#define SOON (TILE_ROWS + 1) /* c is prefetched when this many lines of steps are left */
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(VECTOR_BYTES)));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
#define VECTOR DP_PASTE(vector, SUFFIX)
#define MEMORY DP_PASTE(memory, SUFFIX)

/* Loads the vector at `from`; with masks, only the elements before from + left. */
static inline __attribute__((always_inline)) VECTOR DP_PASTE(load, SUFFIX)(const T *from,
                                                                           int64_t left) {
#if HAS_MASKS
  uint32_t mask = left >= LANES ? ~(uint32_t)0 : left <= 0 ? 0 : ((uint32_t)1 << left) - 1;
  return (VECTOR)JOIN(_mm512_maskz_loadu_epi, BITS)(mask, from);
#else
  (void)left;
  return *(const MEMORY *)from;
#endif
}

static inline __attribute__((always_inline)) void DP_PASTE(store, SUFFIX)(T *to, VECTOR value,
                                                                          int64_t left) {
#if HAS_MASKS
  uint32_t mask = left >= LANES ? ~(uint32_t)0 : ((uint32_t)1 << left) - 1;
  JOIN(_mm512_mask_storeu_epi, BITS)(to, mask, (__m512i)value);
#else
  (void)left;
  *(MEMORY *)to = value;
#endif
}

static inline __attribute__((always_inline)) void DP_PASTE(copy, SUFFIX)(dp_tile_errand *errand,
                                                                         int64_t count) {
  const int64_t stride = errand->stride, width = errand->width;
  const int64_t distance = (AHEAD * count < MOST_AHEAD ? AHEAD * count : MOST_AHEAD) * stride;
  for (; count > 0 && errand->rows > 0; --count, --errand->rows) {
    const T *from = errand->from, *later = from + distance;
    T *to = errand->to;
    DP_UNROLL
    for (int j = 0; j < PANEL; j += LINE)
      __builtin_prefetch(later + j);
    DP_UNROLL
    for (int v = 0; v < TILE_VECTORS; ++v)
      *(MEMORY *)(to + v * LANES) = DP_PASTE(load, SUFFIX)(from + v * LANES, width - v * LANES);
    errand->from = from + stride;
    errand->to = to + PANEL;
  }
}

static inline __attribute__((always_inline)) void DP_PASTE(ask, SUFFIX)(dp_tile_errand *errand,
                                                                        int64_t count) {
  for (; count > 0 && errand->rows > 0; --count) {
    __builtin_prefetch((const T *)errand->from + errand->at, 0, 2);
    errand->at += LINE;
    if (errand->at >= errand->width) {
      errand->at = 0;
      errand->from = (const T *)errand->from + errand->stride;
      --errand->rows;
    }
  }
}

static inline __attribute__((always_inline)) void DP_PASTE(advance,
                                                           SUFFIX)(dp_tile_errand *errand) {
  errand->due += errand->pace;
  if (errand->to)
    DP_PASTE(copy, SUFFIX)(errand, errand->due / DP_TILE_PACE);
  else
    DP_PASTE(ask, SUFFIX)(errand, errand->due / DP_TILE_PACE);
  errand->due %= DP_TILE_PACE;
}

/* `width` columns of c. `rows`, `vectors` and `copies` are constants where this is inlined. It
 * calls nothing, so that everything stays in registers. Prefetches and the errand run between
 * groups of LINE steps. */
static inline __attribute__((always_inline)) void
DP_PASTE(tiles_of, SUFFIX)(const int rows, const int vectors, const enum copies copies,
                           dp_tile *tile, int64_t width) {
  const int64_t step = tile->a_step, a_row = IS_TALL ? 1 : tile->a_row;
  const int64_t b_step = tile->b_step, c_row = tile->c_row;
  const bool copies_a = copies == COPIES_A || (copies == COPIES_B && tile->a_copy);
  const bool copies_b = copies == COPIES_B;
  const T *a = tile->a;
  T *c = tile->c, *a_copy = tile->a_copy, *b_copy = tile->b_copy;
  dp_tile_errand errand = tile->errand;
  for (int64_t count = tile->count; count > 0; --count, a += tile->a_tile) {
    VECTOR sum[TILE_ROWS][TILE_VECTORS];
    const T *row[TILE_ROWS], *b = tile->b;
    DP_UNROLL
    for (int i = 0; i < rows; ++i) {
      row[i] = a + i * a_row;
      DP_UNROLL
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = (VECTOR){0};
    }
    const T *soon = c;
    for (int64_t at = 0, left = tile->depth; left > 0; left -= LINE) {
      if (!IS_TALL && step == 1) {
        DP_UNROLL
        for (int i = 0; i < rows; ++i)
          __builtin_prefetch(row[i] + at + LINE);
      }
      if (left <= SOON * LINE && soon < c + rows * c_row) {
        DP_UNROLL
        for (int v = 0; v < vectors * VECTOR_BYTES; v += 64)
          __builtin_prefetch((const char *)soon + v, 1);
        soon += c_row;
      }
      if (errand.rows > 0)
        DP_PASTE(advance, SUFFIX)(&errand);
      for (const int64_t last = at + (left < LINE ? left : LINE) * step; at != last; at += step) {
        VECTOR right[TILE_VECTORS];
        DP_UNROLL
        for (int v = 0; v < vectors; ++v)
          right[v] = copies_b && v == vectors - 1
                         ? DP_PASTE(load, SUFFIX)(b + v * LANES, width - v * LANES)
                         : (VECTOR) * (const MEMORY *)(b + v * LANES);
        DP_UNROLL
        for (int v = 0; copies_b && v < vectors; ++v) {
          *(MEMORY *)(b_copy + v * LANES) = right[v];
          __builtin_prefetch(b + MOST_AHEAD * b_step + v * LANES);
        }
        if (copies_a) {
          memcpy(a_copy, row[0] + at, (size_t)rows * sizeof(T));
          a_copy += TILE_ROWS;
        }
        if (IS_TALL || copies_a) {
          __builtin_prefetch(row[0] + at + MOST_AHEAD * step);
          __builtin_prefetch(row[rows - 1] + at + MOST_AHEAD * step);
        }
        b_copy += copies_b ? PANEL : 0;
        b += b_step;
        DP_UNROLL
        for (int i = 0; i < rows; ++i) {
          VECTOR factor = row[i][at] - (VECTOR){0};
          DP_UNROLL
          for (int v = 0; v < vectors; ++v)
            sum[i][v] = MADD(sum[i][v], factor, right[v]);
        }
      }
    }
    DP_UNROLL
    for (int i = 0; i < rows; ++i, c += c_row)
      DP_UNROLL
    for (int v = 0; v < vectors; ++v) {
      T *to = c + v * LANES;
      const int64_t left = v == vectors - 1 ? width - v * LANES : LANES;
      if (tile->accumulates)
        sum[i][v] += DP_PASTE(load, SUFFIX)(to, left);
      DP_PASTE(store, SUFFIX)(to, sum[i][v], left);
    }
  }
  tile->errand = errand;
}

#define TILE_NAME(name, rows, vectors) DP_PASTE(name##_##rows##x##vectors, SUFFIX)
#define DEFINE_TILE(name, rows, vectors, copies)                                                   \
  static void TILE_NAME(name, rows, vectors)(dp_tile * tile, int64_t width) {                      \
    DP_PASTE(tiles_of, SUFFIX)(rows, vectors, copies, tile, width);                                \
  }
#if TILE_VECTORS == 4
#define DEFINE_TILES(name, rows, copies)                                                           \
  DEFINE_TILE(name, rows, 1, copies)                                                               \
  DEFINE_TILE(name, rows, 2, copies)                                                               \
  DEFINE_TILE(name, rows, 3, copies)                                                               \
  DEFINE_TILE(name, rows, 4, copies)
#define TILE_NAMES(name, rows)                                                                     \
  {                                                                                                \
    TILE_NAME(name, rows, 1), TILE_NAME(name, rows, 2), TILE_NAME(name, rows, 3),                  \
        TILE_NAME(name, rows, 4)                                                                   \
  }
#else
#define DEFINE_TILES(name, rows, copies)                                                           \
  DEFINE_TILE(name, rows, 1, copies)                                                               \
  DEFINE_TILE(name, rows, 2, copies)
#define TILE_NAMES(name, rows)                                                                     \
  { TILE_NAME(name, rows, 1), TILE_NAME(name, rows, 2) }
#endif
#define DEFINE_PLAIN_TILES(rows) DEFINE_TILES(tile, rows, COPIES_NOTHING)
#define DEFINE_COPYING_TILES(rows)                                                                 \
  DEFINE_TILES(tile, rows, COPIES_NOTHING)                                                         \
  DEFINE_TILES(a_copying, rows, COPIES_A)                                                          \
  DEFINE_TILES(b_copying, rows, COPIES_B)
FEW_ROWS(DEFINE_PLAIN_TILES)
MANY_ROWS(DEFINE_COPYING_TILES)

typedef void (*DP_PASTE(tile_fn, SUFFIX))(dp_tile *tile, int64_t width);
#define PLAIN_TILES(rows) [rows - 1] = TILE_NAMES(tile, rows),
#define A_COPYING_TILES(rows) [rows - 1] = TILE_NAMES(a_copying, rows),
#define B_COPYING_TILES(rows) [rows - 1] = TILE_NAMES(b_copying, rows),
static const DP_PASTE(tile_fn, SUFFIX) DP_PASTE(tiles, SUFFIX)[][TILE_ROWS][TILE_VECTORS] = {
    [COPIES_NOTHING] = {FEW_ROWS(PLAIN_TILES) MANY_ROWS(PLAIN_TILES)},
    [COPIES_A] = {MANY_ROWS(A_COPYING_TILES)},
    [COPIES_B] = {MANY_ROWS(B_COPYING_TILES)},
};
#undef TILE_NAME
#undef DEFINE_TILE
#undef DEFINE_TILES
#undef DEFINE_PLAIN_TILES
#undef DEFINE_COPYING_TILES
#undef TILE_NAMES
#undef PLAIN_TILES
#undef A_COPYING_TILES
#undef B_COPYING_TILES

/* One tile whose columns do not fill their vectors: it is computed in a whole tile on the stack. */
static void DP_PASTE(run_edge, SUFFIX)(DP_PASTE(tile_fn, SUFFIX) fn, dp_tile *tile, int rows,
                                       int64_t width) {
  T edge[TILE_ROWS * PANEL] __attribute__((aligned(64)));
  dp_tile whole = *tile;
  whole.count = 1;
  whole.c = edge;
  whole.c_row = PANEL;
  for (int i = 0; tile->accumulates && i < rows; ++i)
    memcpy(edge + i * PANEL, (T *)tile->c + i * tile->c_row, (size_t)width * sizeof(T));
  fn(&whole, width);
  for (int i = 0; i < rows; ++i)
    memcpy((T *)tile->c + i * tile->c_row, edge + i * PANEL, (size_t)width * sizeof(T));
  tile->errand = whole.errand;
}

static void DP_PASTE(run, SUFFIX)(dp_tile *tile, int rows, int64_t width) {
  int64_t vectors = (width + LANES - 1) / LANES;
  enum copies copies = tile->b_copy ? COPIES_B : tile->a_copy ? COPIES_A : COPIES_NOTHING;
  DP_PASTE(tile_fn, SUFFIX) fn = DP_PASTE(tiles, SUFFIX)[copies][rows - 1][vectors - 1];
  if (HAS_MASKS || width == vectors * LANES) {
    fn(tile, width);
    return;
  }
  for (; tile->count > 0; --tile->count) {
    DP_PASTE(run_edge, SUFFIX)(fn, tile, rows, width);
    tile->a = (const T *)tile->a + tile->a_tile;
    tile->a_copy = tile->a_copy ? (T *)tile->a_copy + tile->depth * TILE_ROWS : NULL;
    tile->c = (T *)tile->c + rows * tile->c_row;
  }
}

#undef LANES
#undef PANEL
#undef LINE
#undef AHEAD
#undef MOST_AHEAD
#undef SOON
#undef VECTOR
#undef MEMORY
