/* Finds the best element of one type in one direction. The includer defines:
 *
 *   T, V               the type in memory; the type that is compared
 *   NAME(function)     the full name of a function
 *   VALUE(x)           the V of an element
 *   IS_BETTER(a, b)    strictly better
 *   GIVES_WAY(a, b)    a is a NaN and b is not
 *   WORST              no value is worse
 *   BETTER_OF(a, b), BEST_OF(v)    optional, for vectors of 16 floats: the better of each lane (b
 *                                  where a is a NaN), the best lane */

/* When the best value is WORST, no comparison was ever won, so `at` is not set: finds the first
 * element that equals WORST, behind NaNs perhaps. */
static inline int64_t NAME(settle)(const T *x, int64_t n, int64_t stride, int64_t at, V best) {
  if (best == WORST)
    for (at = 0; at < n && VALUE(x[at * stride]) != best;)
      ++at;
  return at < n ? at : 0;
}

/* For few elements: one after the other, without branches. Value and index are updated separately,
 * so the next comparison does not wait for the index. */
static inline int64_t NAME(short_row)(const T *x, int64_t n, int64_t stride) {
  int64_t at = 0;
  V best = WORST;
  for (int64_t i = 0; i < n; ++i) {
    V value = VALUE(x[i * stride]);
    at = IS_BETTER(value, best) ? i : at;
    best = IS_BETTER(value, best) ? value : best;
  }
  return NAME(settle)(x, n, stride, at, best);
}

#ifdef BEST_OF
/* Finds the best value of a row first, then the first position that holds it. */
static void NAME(short_rows)(const T *x, int64_t *best_out, int64_t outer, int64_t n) {
  for (int64_t row = 0; row < outer; ++row, x += n) {
    __m512 best = _mm512_set1_ps(WORST);
    int64_t at = 0;
    for (int64_t i = 0; i < n; i += 16) {
      __mmask16 there = n - i < 16 ? (__mmask16)((1 << (n - i)) - 1) : (__mmask16)-1;
      best = BETTER_OF(_mm512_mask_loadu_ps(best, there, x + i), best);
    }
    best = _mm512_set1_ps(BEST_OF(best));
    for (int64_t i = 0; i < n; i += 16) {
      __mmask16 there = n - i < 16 ? (__mmask16)((1 << (n - i)) - 1) : (__mmask16)-1;
      __m512 values = _mm512_maskz_loadu_ps(there, x + i);
      unsigned equal = _mm512_mask_cmp_ps_mask(there, values, best, _CMP_EQ_OQ);
      if (equal) {
        at = i + __builtin_ctz(equal);
        break;
      }
    }
    best_out[row] = at; /* 0: NaNs only */
  }
}
#else
/* Two rows are compared in turns, so that neither chain of dependent comparisons stalls the
 * other. */
static void NAME(short_rows)(const T *x, int64_t *best_out, int64_t outer, int64_t n) {
  int64_t row = 0;
  for (; row + 2 <= outer; row += 2, x += 2 * n) {
    const T *y = x + n;
    int64_t x_at = 0, y_at = 0;
    V x_best = WORST, y_best = WORST;
    for (int64_t i = 0; i < n; ++i) {
      V value = VALUE(x[i]), other = VALUE(y[i]);
      x_at = IS_BETTER(value, x_best) ? i : x_at;
      x_best = IS_BETTER(value, x_best) ? value : x_best;
      y_at = IS_BETTER(other, y_best) ? i : y_at;
      y_best = IS_BETTER(other, y_best) ? other : y_best;
    }
    best_out[row] = NAME(settle)(x, n, 1, x_at, x_best);
    best_out[row + 1] = NAME(settle)(y, n, 1, y_at, y_best);
  }
  if (row < outer)
    best_out[row] = NAME(short_row)(x, n, 1);
}
#endif

#define LANES ((int64_t)(256 / sizeof(V)))
/* The best value first, LANES at a time, then the place where it is. */
static int64_t NAME(row)(const T *x, int64_t n) {
  V lanes[256 / sizeof(V)], best = WORST;
  int64_t whole = n / LANES * LANES;
  for (int64_t j = 0; j < LANES; ++j)
    lanes[j] = WORST;
  for (int64_t i = 0; i < whole; i += LANES) {
    for (int64_t j = 0; j < LANES; ++j) {
      V value = VALUE(x[i + j]);
      lanes[j] = IS_BETTER(value, lanes[j]) ? value : lanes[j];
    }
  }
  for (int64_t j = 0; j < LANES; ++j)
    best = IS_BETTER(lanes[j], best) ? lanes[j] : best;
  for (int64_t i = whole; i < n; ++i) {
    V value = VALUE(x[i]);
    best = IS_BETTER(value, best) ? value : best;
  }
  for (int64_t i = 0; i < n; i += LANES) {
    int64_t end = n - i < LANES ? n : i + LANES;
    int found = 0;
    for (int64_t j = i; j < end; ++j)
      found |= VALUE(x[j]) == best;
    for (int64_t j = i; found && j < end; ++j)
      if (VALUE(x[j]) == best)
        return j;
  }
  return 0; /* NaNs only */
}

/* A block of at most COLUMNS columns, fewer than 2^31 rows. */
static void NAME(block)(const T *x, int64_t *best_out, int64_t n, int64_t inner, int64_t stride) {
  V values[COLUMNS];
  int32_t at[COLUMNS];
  for (int64_t j = 0; j < inner; ++j) {
    values[j] = VALUE(x[j]);
    at[j] = 0;
  }
  for (int64_t i = 1; i < n; ++i) {
    const T *row = x + i * stride;
    for (int64_t j = 0; j < inner; ++j) {
      V value = values[j], other = VALUE(row[j]);
      bool wins = IS_BETTER(other, value) | GIVES_WAY(value, other);
      values[j] = wins ? other : value;
      at[j] = wins ? (int32_t)i : at[j];
    }
  }
  for (int64_t j = 0; j < inner; ++j)
    best_out[j] = at[j];
}

static void NAME(find)(const void *data, int64_t *best_out, int64_t outer, int64_t n,
                       int64_t inner) {
  const T *x = data;
  if (inner == 1 && n < 2 * LANES) {
    NAME(short_rows)(x, best_out, outer, n);
    return;
  }
  for (int64_t i = 0; i < outer; ++i, x += n * inner, best_out += inner) {
    if (inner == 1) {
      best_out[0] = NAME(row)(x, n);
    } else if (n > INT32_MAX) {
      for (int64_t j = 0; j < inner; ++j)
        best_out[j] = NAME(short_row)(x + j, n, inner);
    } else {
      for (int64_t j = 0; j < inner; j += COLUMNS)
        NAME(block)(x + j, best_out + j, n, inner - j < COLUMNS ? inner - j : COLUMNS, inner);
    }
  }
}
#undef LANES
#undef NAME
#undef WORST
