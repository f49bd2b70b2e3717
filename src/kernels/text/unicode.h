/* Code points in and out of UTF-8, and text in other encodings. */
#ifndef DP_KERNELS_UNICODE_INTERNAL_H
#define DP_KERNELS_UNICODE_INTERNAL_H

#include "kernels/text/string.h"

/* Takes one code point off the front. False for bytes that are no valid UTF-8: then the longest
 * prefix that cannot be completed (one byte at least) is taken off. `text` must not be empty. */
bool dp_utf8_next(dp_view *text, uint32_t *point_out);
/* Nothing for what is no code point. */
void dp_utf8_append(dp_text *text, uint32_t point);
/* Adds the text in upper or lower case, up to its first NUL: TensorFlow reads no further. */
void dp_utf8_change_case(dp_view input, bool is_upper, dp_text *text);
static inline bool dp_is_code_point(int64_t point) {
  return point >= 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
}

#endif
