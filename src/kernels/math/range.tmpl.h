/* Range for one type. The includer defines T, NAME, SIZE(start, limit, delta) and, for integers,
 * LOOP (one of the sequence loops). Floats are added step by step, as in TensorFlow. */
static dp_status *NAME(dp_op_context *context, const void *start_data, const void *limit_data,
                       const void *delta_data) {
  T start = *(const T *)start_data, limit = *(const T *)limit_data, delta = *(const T *)delta_data;
  if (delta == 0)
    return DP_INVALID("Requires delta != 0: 0");
  if (delta > 0 ? start > limit : start < limit)
    return range_error(delta > 0, (double)start, (double)limit);
  double exact = SIZE(start, limit, delta);
  if (!(exact <= 9.2e18))
    return DP_INVALID("Requires ((limit - start) / delta) <= 9223372036854775807");
  dp_shape shape = dp_shape_vector((int64_t)exact);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
#ifdef LOOP
  dp_sequence_table()->LOOP(output->data, start, delta, 0, shape.elements);
#else
  T *to = output->data, value = start;
  for (int64_t i = 0; i < shape.elements; ++i) {
    to[i] = value;
    value += delta;
  }
#endif
  return NULL;
}
#undef T
#undef NAME
#undef SIZE
#undef LOOP
