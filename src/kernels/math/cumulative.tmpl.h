/* A running sum, product or the like along one axis, for one type; cumulative.c includes it once
 * for each. `scan` says how rows follow each other; a row is `inner` elements. The includer defines
 * T, NAME, IDENTITY (the first value of an exclusive scan) and JOIN(a, b). */
static void NAME(const void *from, void *to, const scan *scan) {
  const T *x = from;
  T *result = to;
  int64_t inner = scan->inner;
  T *before = result + row_at(scan, 0) * inner;
  const T *first = x + row_at(scan, 0) * inner;
  for (int64_t j = 0; j < inner; ++j)
    before[j] = scan->exclusive ? (T)IDENTITY : first[j];
  for (int64_t i = 1; i < scan->n; ++i) {
    const T *next = x + row_at(scan, scan->exclusive ? i - 1 : i) * inner;
    T *here = result + row_at(scan, i) * inner;
    for (int64_t j = 0; j < inner; ++j)
      here[j] = JOIN(before[j], next[j]);
    before = here;
  }
}
#undef T
#undef NAME
#undef IDENTITY
#undef JOIN
