/* What the string kernels share: a body for each element, numbers in text as TensorFlow reads them,
 * steps through UTF-8. */
#ifndef DP_KERNELS_STRING_INTERNAL_H
#define DP_KERNELS_STRING_INTERNAL_H

#include "kernels/shared/support.h"

/* Element `index` of a string tensor. */
static inline dp_view dp_string_at(const dp_tensor *tensor, int64_t index) {
  return dp_tstring_view(&dp_tensor_strings(tensor)[index]);
}

/* Writes what becomes of one string into `text`, which is empty. */
typedef dp_status *(*dp_string_fn)(const void *state, dp_view input, dp_text *text);
/* Output 0 is input 0 with every string replaced, by several threads when there are many. */
DP_MUST_USE dp_status *dp_string_map(dp_op_context *context, dp_string_fn fn, const void *state);

/* ---- Numbers ---- */
dp_view dp_string_trim(dp_view text); /* white space of ASCII at both ends */
/* White space around it is fine. False when it is no number of that dtype (int32, int64, uint32,
 * uint64, float, double); `number_out` points to one. */
bool dp_string_to_number(dp_view text, dp_dtype dtype, void *number_out);

/* TensorFlow's keyed hash of strings: SipHash-2-4. */
uint64_t dp_string_strong_hash(const uint64_t key[2], dp_view text);

/* ---- UTF-8 ---- */
static inline bool dp_utf8_is_trail(char byte) {
  return (signed char)byte < -0x40;
}

#endif
