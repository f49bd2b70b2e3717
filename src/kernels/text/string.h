/* For kernels of strings: a function applied to every element, numbers in text as TensorFlow parses
 * them, and its keyed hash. No state; any thread. */
#ifndef DP_KERNELS_TEXT_STRING_H
#define DP_KERNELS_TEXT_STRING_H

#include "kernels/shared/support.h"

/* Element `index` of a string tensor. */
static inline dp_view dp_string_at(const dp_tensor *tensor, int64_t index) {
  return dp_tstring_view(&dp_tensor_strings(tensor)[index]);
}

/* Writes the result for one string to `text`, which is empty before. Called on several threads at
 * once. */
typedef dp_status *(*dp_string_fn)(const void *state, dp_view input, dp_text *text);
/* Sets output 0 to input 0 with every string replaced; many elements are split over the step's
 * pool. */
DP_MUST_USE dp_status *dp_string_map(dp_op_context *context, dp_string_fn fn, const void *state);

/* ---- Numbers ---- */
dp_view dp_string_trim(dp_view text); /* removes ASCII white space at both ends */
/* Parses a number of dtype int32, int64, uint32, uint64, float or double; white space around it is
 * allowed. `number_out` points to a variable of that type. False when it is not such a number. */
bool dp_string_to_number(dp_view text, dp_dtype dtype, void *number_out);

/* TensorFlow's keyed hash of strings: SipHash-2-4. */
uint64_t dp_string_strong_hash(const uint64_t key[2], dp_view text);

#endif
