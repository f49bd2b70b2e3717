/* One reduction over one type. The includer defines T and:
 *
 *   NAME(function)        the full name of a function
 *   IDENTITY              the result of an empty reduction
 *   LOAD(x)               what is done to an element first
 *   COMBINE(a, b)         one step of the reduction
 *   WIDE                  the type in which partial results of long rows are joined
 *
 * If the includer also defines VECTOR, there are LOAD_VECTOR(x) and COMBINE_VECTOR(a, b) for
 * vectors of T (type NAME(vector)). COMBINE_NUMBERS(a, b) is a faster COMBINE_VECTOR for vectors
 * for which ANY_NAN(x) is false. */

#ifdef VECTOR
#define LANES ((int64_t)(DP_VECTOR_BYTES / sizeof(T)))
typedef T NAME(vector) __attribute__((vector_size(DP_VECTOR_BYTES)));
typedef T NAME(unaligned)
    __attribute__((vector_size(DP_VECTOR_BYTES), aligned(sizeof(T)), may_alias));

static inline NAME(vector) NAME(load)(const T *from) {
  NAME(vector) x = *(const NAME(unaligned) *)from;
  return LOAD_VECTOR(x);
}

/* Combines all lanes of a vector, by halves. */
static inline T NAME(across)(NAME(vector) x) {
#ifdef COMBINE_NUMBERS
  if (__builtin_expect(ANY_NAN(x), 0))
    return NAN;
#else
#define COMBINE_NUMBERS COMBINE_VECTOR
#endif
#if DP_VECTOR_BYTES >= 64
  x = COMBINE_NUMBERS(x, (NAME(vector))SWAP_HALVES((words)x));
#endif
#if DP_VECTOR_BYTES >= 32
  x = COMBINE_NUMBERS(x, (NAME(vector))SWAP_PAIRS((words)x));
#endif
  x = COMBINE_NUMBERS(x, (NAME(vector))SWAP_WORDS((words)x));
  if (sizeof(T) <= 4)
    x = COMBINE_NUMBERS(x, (NAME(vector))TURN_WORD((words)x, 32));
  if (sizeof(T) <= 2)
    x = COMBINE_NUMBERS(x, (NAME(vector))TURN_WORD((words)x, 16));
  if (sizeof(T) == 1)
    x = COMBINE_NUMBERS(x, (NAME(vector))TURN_WORD((words)x, 8));
  return x[0];
}

/* Reduces x[0, n) to one vector; n is a positive multiple of LANES. Four accumulators, so that a
 * step does not wait for the one before it. */
static inline NAME(vector) NAME(vectors)(const T *x, int64_t n) {
  NAME(vector) a = NAME(load)(x);
  int64_t i = LANES;
  if (n >= 4 * LANES) {
    NAME(vector) b = NAME(load)(x + LANES), c = NAME(load)(x + 2 * LANES);
    NAME(vector) d = NAME(load)(x + 3 * LANES);
    for (i = 4 * LANES; i + 4 * LANES <= n; i += 4 * LANES) {
      a = COMBINE_VECTOR(a, NAME(load)(x + i));
      b = COMBINE_VECTOR(b, NAME(load)(x + i + LANES));
      c = COMBINE_VECTOR(c, NAME(load)(x + i + 2 * LANES));
      d = COMBINE_VECTOR(d, NAME(load)(x + i + 3 * LANES));
    }
    a = COMBINE_VECTOR(a, b);
    c = COMBINE_VECTOR(c, d);
    a = COMBINE_VECTOR(a, c);
  }
  for (; i < n; i += LANES)
    a = COMBINE_VECTOR(a, NAME(load)(x + i));
  return a;
}

/* A vector whose last `count` lanes (fewer than LANES) are the elements before `end`; the other
 * lanes are identities. The whole vector before `end` must be readable. */
static inline NAME(vector) NAME(last)(const T *end, int64_t count) {
  words mask = *(const unaligned_words *)(edge + count * (int64_t)sizeof(T));
  NAME(vector) x = NAME(load)(end - LANES), none = (NAME(vector)){} + (T)IDENTITY;
  return (NAME(vector))((mask & (words)x) | (~mask & (words)none));
}

/* Reduces n > 0 rows of `width` vectors of columns in registers. Groups of 256 rows are reduced
 * separately and then joined. */
__attribute__((always_inline)) static inline void NAME(strip)(const T *x, T *result, int64_t n,
                                                              int64_t stride, const int width) {
  NAME(vector) total[4], group[4];
  for (int64_t begin = 0; begin < n; begin += 256) {
    int64_t end = n - begin < 256 ? n : begin + 256, row = begin + 1;
    for (int k = 0; k < width; ++k)
      group[k] = NAME(load)(x + begin * stride + k * LANES);
    for (; row + 4 <= end; row += 4) {
      const T *a = x + row * stride, *b = a + stride, *c = b + stride, *d = c + stride;
      for (int k = 0; k < width; ++k) {
        NAME(vector) first = COMBINE_VECTOR(NAME(load)(a + k * LANES), NAME(load)(b + k * LANES));
        NAME(vector) second = COMBINE_VECTOR(NAME(load)(c + k * LANES), NAME(load)(d + k * LANES));
        NAME(vector) four = COMBINE_VECTOR(first, second);
        group[k] = COMBINE_VECTOR(group[k], four);
      }
    }
    for (; row < end; ++row)
      for (int k = 0; k < width; ++k)
        group[k] = COMBINE_VECTOR(group[k], NAME(load)(x + row * stride + k * LANES));
    for (int k = 0; k < width; ++k)
      total[k] = begin ? COMBINE_VECTOR(total[k], group[k]) : group[k];
  }
  for (int k = 0; k < width; ++k)
    *(NAME(unaligned) *)(result + k * LANES) = total[k];
}

/* For at least LANES columns. The last strip may compute some columns of the strip before it
 * again. */
static void NAME(strips)(const T *x, T *result, int64_t n, int64_t inner, int64_t stride) {
  int64_t j = 0;
  for (; j + 4 * LANES <= inner; j += 4 * LANES)
    NAME(strip)(x + j, result + j, n, stride, 4);
  for (; j + 2 * LANES <= inner; j += 2 * LANES)
    NAME(strip)(x + j, result + j, n, stride, 2);
  for (; j < inner; j += LANES) {
    int64_t first = j + LANES <= inner ? j : inner - LANES;
    NAME(strip)(x + first, result + first, n, stride, 1);
  }
}
#endif

static T NAME(row)(const T *x, int64_t n) {
  WIDE total = IDENTITY;
  int64_t i = 0;
#ifdef VECTOR
  for (; n - i >= 8192; i += 4096)
    total = COMBINE(total, (WIDE)NAME(across)(NAME(vectors)(x + i, 4096)));
  if (n - i >= LANES) {
    int64_t whole = (n - i) / LANES * LANES;
    NAME(vector) last = NAME(vectors)(x + i, whole);
    if (i + whole < n)
      last = COMBINE_VECTOR(last, NAME(last)(x + n, n - i - whole));
    return (T)COMBINE(total, (WIDE)NAME(across)(last));
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

/* One to four rows in one pass, combined in their order. */
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

#define STRIP_ELEMENTS (16384 / (int64_t)sizeof(T))
#define COLUMNS 1024
/* A block of at most COLUMNS columns. Groups of 256 rows are reduced separately and then joined. */
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

static void NAME(some_columns)(const T *x, T *result, int64_t n, int64_t inner, int64_t stride) {
#ifdef VECTOR
  /* Strips jump from row to row. That is cheap if rows are short and adjacent, or all is in the
   * cache. */
  bool is_near = (inner <= 4 * LANES && stride == inner) || n * stride <= STRIP_ELEMENTS;
  if (n > 0 && inner >= LANES && is_near) {
    NAME(strips)(x, result, n, inner, stride);
    return;
  }
#endif
  int64_t times = inner < 64 && stride == inner ? 256 / inner : 1;
  if (times > 1 && n >= 4 * times) {
    /* Short rows: several are read as one long row, whose result is reduced once more. */
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

static void NAME(columns)(const void *from, void *to, int64_t n, int64_t inner, int64_t stride) {
  if (inner > 0)
    NAME(some_columns)(from, to, n, inner, stride);
}

#undef STRIP_ELEMENTS
#undef COLUMNS
#undef LANES
#undef NAME
#undef IDENTITY
#undef LOAD
#undef LOAD_VECTOR
#undef COMBINE
#undef COMBINE_VECTOR
#undef COMBINE_NUMBERS
