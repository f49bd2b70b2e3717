/* Choosing between elements of type T: to[i] = condition[i] ? a[i] : b[i]. A stride of 0 repeats
 * one element (a scalar operand); `to` may be `a` or `b`. The includer defines T and SUFFIX. */
static void DP_PASTE(select, SUFFIX)(const uint8_t *condition, const void *a_data,
                                     const void *b_data, void *to_data, int64_t count,
                                     int64_t condition_stride, int64_t a_stride, int64_t b_stride) {
  const T *a = a_data, *b = b_data;
  T *to = to_data;
  if (!condition_stride) {
    const T *from = *condition ? a : b;
    int64_t stride = *condition ? a_stride : b_stride;
    T one = *from;
    if (from == to)
      return;
    if (stride)
      memcpy(to, from, (size_t)count * sizeof(T));
    else
      for (int64_t i = 0; i < count; ++i)
        to[i] = one;
  } else if (a_stride && b_stride) {
    DP_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) {
      T x = a[i], y = b[i];
      to[i] = condition[i] ? x : y;
    }
  } else if (a_stride) {
    T y = *b;
    DP_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) {
      T x = a[i];
      to[i] = condition[i] ? x : y;
    }
  } else if (b_stride) {
    T x = *a;
    DP_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) {
      T y = b[i];
      to[i] = condition[i] ? x : y;
    }
  } else {
    T x = *a, y = *b;
    DP_INDEPENDENT
    for (int64_t i = 0; i < count; ++i)
      to[i] = condition[i] ? x : y;
  }
}
#undef T
#undef SUFFIX
