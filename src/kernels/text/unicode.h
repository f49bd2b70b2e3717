/* UTF-8: code points from and to bytes, and changing the case of a text. No state; any thread. */
#ifndef DP_KERNELS_TEXT_UNICODE_H
#define DP_KERNELS_TEXT_UNICODE_H

#include <stdint.h>
#include "base/text.h"

/* Takes one code point off the front; `text` must not be empty. False for invalid UTF-8: then the
 * longest prefix that cannot be completed (at least one byte) is taken off. */
bool dp_utf8_next(dp_view *text, uint32_t *point_out);
/* Appends nothing if `point` is not a code point. */
void dp_utf8_append(dp_text *text, uint32_t point);
/* Appends the text in upper or lower case, up to its first NUL: TensorFlow reads no further. */
void dp_utf8_change_case(dp_view input, bool is_upper, dp_text *text);
/* Whether a byte continues a code point. */
static inline bool dp_utf8_is_trail(char byte) {
  return (signed char)byte < -0x40;
}
static inline bool dp_is_code_point(int64_t point) {
  return point >= 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
}

#endif
