/* One reduction over one type. The includer defines T, NAME(function) (the function's full name),
 * IDENTITY, LOAD(x) (what is done to an element first), COMBINE(a, b), and WIDE, in which the
 * partial results of long rows are joined. VECTOR says that COMBINE_VECTOR(a, b) and LOAD_VECTOR(x)
 * exist for vectors of T (type NAME_VECTOR). */

#ifdef VECTOR
#define LANES ((int64_t)(DP_VECTOR_BYTES / sizeof(T)))
typedef T NAME(vector) __attribute__((vector_size(DP_VECTOR_BYTES)));
typedef T NAME(unaligned)
    __attribute__((vector_size(DP_VECTOR_BYTES), aligned(sizeof(T)), may_alias));

static inline NAME(vector) NAME(load)(const T *from) {
  NAME(vector) x = *(const NAME(unaligned) *)from;
  return LOAD_VECTOR(x);
}

/* All lanes of a vector, by halves. */
static inline T NAME(across)(NAME(vector) x) {
#if DP_VECTOR_BYTES >= 64
  x = COMBINE_VECTOR(x, (NAME(vector))SWAP_HALVES((words)x));
#endif
#if DP_VECTOR_BYTES >= 32
  x = COMBINE_VECTOR(x, (NAME(vector))SWAP_PAIRS((words)x));
#endif
  x = COMBINE_VECTOR(x, (NAME(vector))SWAP_WORDS((words)x));
  if (sizeof(T) <= 4)
    x = COMBINE_VECTOR(x, (NAME(vector))TURN_WORD((words)x, 32));
  if (sizeof(T) <= 2)
    x = COMBINE_VECTOR(x, (NAME(vector))TURN_WORD((words)x, 16));
  if (sizeof(T) == 1)
    x = COMBINE_VECTOR(x, (NAME(vector))TURN_WORD((words)x, 8));
  return x[0];
}

/* Whole vectors of x[0, n), n a multiple of 4 * LANES and not 0. */
static inline T NAME(chunk)(const T *x, int64_t n) {
  NAME(vector) a = NAME(load)(x), b = NAME(load)(x + LANES);
  NAME(vector) c = NAME(load)(x + 2 * LANES), d = NAME(load)(x + 3 * LANES);
  for (int64_t i = 4 * LANES; i < n; i += 4 * LANES) {
    a = COMBINE_VECTOR(a, NAME(load)(x + i));
    b = COMBINE_VECTOR(b, NAME(load)(x + i + LANES));
    c = COMBINE_VECTOR(c, NAME(load)(x + i + 2 * LANES));
    d = COMBINE_VECTOR(d, NAME(load)(x + i + 3 * LANES));
  }
  a = COMBINE_VECTOR(a, b);
  c = COMBINE_VECTOR(c, d);
  return NAME(across)(COMBINE_VECTOR(a, c));
}

/* The same for n from LANES up to 4 * LANES, in one vector; what does not fill it is left. */
static inline T NAME(short_chunk)(const T *x, int64_t n) {
  NAME(vector) a = NAME(load)(x);
  for (int64_t i = LANES; i + LANES <= n; i += LANES)
    a = COMBINE_VECTOR(a, NAME(load)(x + i));
  return NAME(across)(a);
}
#endif

static T NAME(row)(const T *x, int64_t n) {
  WIDE total = IDENTITY;
  int64_t i = 0;
#ifdef VECTOR
  while (n - i >= 4 * LANES) {
    int64_t left = (n - i) / (4 * LANES) * (4 * LANES), count = left < 4096 ? left : 4096;
    total = COMBINE(total, (WIDE)NAME(chunk)(x + i, count));
    i += count;
  }
  if (n - i >= LANES) {
    total = COMBINE(total, (WIDE)NAME(short_chunk)(x + i, n - i));
    i += (n - i) / LANES * LANES;
  }
#endif
  for (; i < n; ++i)
    total = COMBINE(total, (WIDE)LOAD(x[i]));
  return (T)total;
}

static void NAME(rows)(const void *from, void *to, int64_t outer, int64_t n) {
  const T *x = from;
  T *result = to;
  for (int64_t i = 0; i < outer; ++i)
    result[i] = NAME(row)(x + i * n, n);
}

/* Up to four rows in one pass, in their order. */
static void NAME(few_rows)(const T *restrict x, T *restrict result, int64_t n, int64_t inner,
                           int64_t stride) {
  const T *a = x, *b = a + stride, *c = b + stride, *d = c + stride;
#define FIRST COMBINE(IDENTITY, LOAD(a[j]))
#define SECOND COMBINE(FIRST, LOAD(b[j]))
#define THIRD COMBINE(SECOND, LOAD(c[j]))
  if (n == 1)
    for (int64_t j = 0; j < inner; ++j)
      result[j] = FIRST;
  else if (n == 2)
    for (int64_t j = 0; j < inner; ++j)
      result[j] = SECOND;
  else if (n == 3)
    for (int64_t j = 0; j < inner; ++j)
      result[j] = THIRD;
  else
    for (int64_t j = 0; j < inner; ++j)
      result[j] = COMBINE(THIRD, LOAD(d[j]));
#undef FIRST
#undef SECOND
#undef THIRD
}

#define COLUMNS 1024
/* A block of at most COLUMNS columns. Groups of 256 rows are reduced apart and then joined. */
static void NAME(block)(const T *x, T *result, int64_t n, int64_t inner, int64_t stride) {
  if (n >= 1 && n <= 4) {
    NAME(few_rows)(x, result, n, inner, stride);
    return;
  }
  for (int64_t j = 0; j < inner; ++j)
    result[j] = IDENTITY;
  for (int64_t begin = 0; begin < n; begin += 256) {
    int64_t end = n - begin < 256 ? n : begin + 256, row = begin + 1;
    T group[COLUMNS];
    for (int64_t j = 0; j < inner; ++j)
      group[j] = LOAD(x[begin * stride + j]);
    for (; row + 4 <= end; row += 4) {
      const T *a = x + row * stride, *b = a + stride, *c = b + stride, *d = c + stride;
      for (int64_t j = 0; j < inner; ++j) {
        T first = COMBINE(LOAD(a[j]), LOAD(b[j])), second = COMBINE(LOAD(c[j]), LOAD(d[j]));
        T four = COMBINE(first, second);
        group[j] = COMBINE(group[j], four);
      }
    }
    for (; row < end; ++row)
      for (int64_t j = 0; j < inner; ++j)
        group[j] = COMBINE(group[j], LOAD(x[row * stride + j]));
    for (int64_t j = 0; j < inner; ++j)
      result[j] = COMBINE(result[j], group[j]);
  }
}

static void NAME(columns)(const void *from, void *to, int64_t n, int64_t inner, int64_t stride) {
  const T *x = from;
  T *result = to;
  if (inner <= 0)
    return;
  int64_t times = inner < 64 && stride == inner ? 256 / inner : 1;
  if (times > 1 && n >= 4 * times) {
    /* Short rows: several are read as one long row; what comes out is reduced once more. */
    T wide[512], rest[64];
    int64_t length = inner * times, whole = n / times;
    NAME(block)(x, wide, whole, length, length);
    NAME(block)(x + whole * length, rest, n - whole * times, inner, inner);
    for (int64_t j = 0; j < inner; ++j) {
      T value = wide[j];
      for (int64_t i = 1; i < times; ++i)
        value = COMBINE(value, wide[i * inner + j]);
      result[j] = COMBINE(value, rest[j]);
    }
    return;
  }
  for (int64_t j = 0; j < inner; j += COLUMNS)
    NAME(block)(x + j, result + j, n, inner - j < COLUMNS ? inner - j : COLUMNS, stride);
}

#undef COLUMNS
#undef LANES
#undef NAME
#undef IDENTITY
#undef LOAD
#undef LOAD_VECTOR
#undef COMBINE
#undef COMBINE_VECTOR
