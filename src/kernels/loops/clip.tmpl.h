/* ClipByValue over one real type. The includer defines T and SUFFIX, and HAS_NAN for floating
 * types. It may define VECTORS, a function that clips the leading elements between two bounds and
 * returns how many it did. All of them are undefined at the end. */

#ifdef HAS_NAN
#define IS_NAN(x) ((x) != (x))
#else
#define IS_NAN(x) false
#endif

static inline T DP_PASTE(between, SUFFIX)(T x, T low, T high) {
  T middle = high < x || IS_NAN(high) ? high : x;
  return middle < low || IS_NAN(low) ? low : middle;
}

static void DP_PASTE(clip, SUFFIX)(const dp_clip_span *span) {
  const T *x = span->x, *low = span->low, *high = span->high;
  T *to = span->to;
  int64_t count = span->count;
  if (span->low_moves && span->high_moves) {
    DP_INDEPENDENT
    for (int64_t i = 0; i < count; ++i)
      to[i] = DP_PASTE(between, SUFFIX)(x[i], low[i], high[i]);
  } else if (span->low_moves) {
    T most = *high;
    DP_INDEPENDENT
    for (int64_t i = 0; i < count; ++i)
      to[i] = DP_PASTE(between, SUFFIX)(x[i], low[i], most);
  } else if (span->high_moves) {
    T least = *low;
    DP_INDEPENDENT
    for (int64_t i = 0; i < count; ++i)
      to[i] = DP_PASTE(between, SUFFIX)(x[i], least, high[i]);
  } else {
    T least = *low, most = *high;
    int64_t i = 0;
#ifdef VECTORS
    if (!IS_NAN(least) && !IS_NAN(most))
      i = VECTORS(x, to, count, least, most);
#endif
    DP_INDEPENDENT
    for (; i < count; ++i)
      to[i] = DP_PASTE(between, SUFFIX)(x[i], least, most);
  }
}

#undef T
#undef SUFFIX
#undef HAS_NAN
#undef IS_NAN
#undef VECTORS
