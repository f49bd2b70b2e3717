/* Index of the largest (smallest) element over one type. The includer defines T, SUFFIX and
 * VALUE(x), the comparable value of an element. The first of equal elements wins; a NaN never does.
 */
static void DP_PASTE(find, SUFFIX)(const void *data, int64_t *best, int64_t n, int64_t inner,
                                   bool smallest) {
  const T *x = data;
  for (int64_t j = 0; j < inner; ++j) {
    int64_t at = 0;
    V value = VALUE(x[j]);
    for (int64_t i = 1; i < n; ++i) {
      V other = VALUE(x[i * inner + j]);
      bool better = smallest ? other < value : other > value;
      /* A NaN at the start gives way to anything. */
      if (better || (IS_NAN(value) && !IS_NAN(other))) {
        value = other;
        at = i;
      }
    }
    best[j] = at;
  }
}
#undef T
#undef V
#undef SUFFIX
#undef VALUE
