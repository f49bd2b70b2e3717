/* Combines runs through the binary loops (loops/binary.h). Assignments and strings have no loop;
 * 16-bit floats are widened block by block on the stack. */
#include "kernels/shared/combine.h"

dp_status *dp_combine_init(dp_combine *combine, dp_combine_kind kind, dp_dtype dtype) {
  static const dp_binary_op loops[] = {DP_BINARY_add, DP_BINARY_add, DP_BINARY_sub,
                                       DP_BINARY_minimum, DP_BINARY_maximum};
  combine->kind = kind;
  combine->dtype = dtype;
  combine->size = dp_dtype_size(dtype);
  combine->fn = NULL;
  if (kind == DP_COMBINE_ASSIGN || (dtype == DP_STRING && kind == DP_COMBINE_ADD))
    return NULL;
  if (dtype == DP_BOOL && kind == DP_COMBINE_ADD)
    combine->fn = dp_binary_table()->fn[DP_BINARY_logical_or][DP_BOOL];
  else
    combine->fn =
        dp_binary_table()->fn[loops[kind]][dp_kernel_is_short_float(dtype) ? DP_FLOAT : dtype];
  if (!combine->fn)
    return dp_status_create(DP_UNIMPLEMENTED, "%s cannot be combined", dp_dtype_name(dtype));
  return NULL;
}

static void combine_short(const dp_combine *combine, uint16_t *to, const uint16_t *from,
                          int64_t count) {
  float a[DP_KERNEL_BLOCK], b[DP_KERNEL_BLOCK];
  for (int64_t i = 0; i < count; i += DP_KERNEL_BLOCK) {
    int64_t left = count - i, block = left < DP_KERNEL_BLOCK ? left : DP_KERNEL_BLOCK;
    dp_binary_span span = {.inner = block, .outer = 1, .a_inner = 1, .b_inner = 1};
    dp_kernel_widen(combine->dtype, to + i, a, block);
    dp_kernel_widen(combine->dtype, from + i, b, block);
    combine->fn(a, b, a, &span);
    dp_kernel_narrow(combine->dtype, a, to + i, block);
  }
}

static dp_status *append_strings(dp_tstring *to, const dp_tstring *from, int64_t count) {
  dp_text text = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < count && !status; ++i) {
    dp_text_clear(&text);
    dp_text_append(&text, dp_tstring_data(to + i), dp_tstring_size(to + i));
    dp_text_append(&text, dp_tstring_data(from + i), dp_tstring_size(from + i));
    status = dp_tstring_assign(to + i, dp_text_string(&text), text.length);
  }
  dp_text_deinit(&text);
  return status;
}

dp_status *dp_combine_run(const dp_combine *combine, void *to, const void *from, int64_t count) {
  if (combine->kind == DP_COMBINE_ASSIGN) {
    dp_move_elements(combine->dtype, combine->size, to, from, count);
  } else if (combine->dtype == DP_STRING) {
    return append_strings(to, from, count);
  } else if (dp_kernel_is_short_float(combine->dtype)) {
    combine_short(combine, to, from, count);
  } else {
    dp_binary_span span = {.inner = count, .outer = 1, .a_inner = 1, .b_inner = 1};
    combine->fn(to, from, to, &span);
  }
  return NULL;
}
