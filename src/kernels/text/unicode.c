/* Decodes and encodes UTF-8, one code point at a time (unicode.h). Overlong forms, surrogates and
 * numbers above 0x10ffff are invalid. */
#include "kernels/text/unicode.h"

/* The length of a sequence that starts with byte `lead`, and the range of its second byte, which
 * excludes overlong forms, surrogates and numbers that are too large. 0 if no sequence starts
 * so. */
static int sequence(uint8_t lead, uint8_t *low, uint8_t *high) {
  *low = 0x80;
  *high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf)
    return 2;
  if (lead >= 0xe0 && lead <= 0xef) {
    *low = lead == 0xe0 ? 0xa0 : 0x80;
    *high = lead == 0xed ? 0x9f : 0xbf;
    return 3;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    *low = lead == 0xf0 ? 0x90 : 0x80;
    *high = lead == 0xf4 ? 0x8f : 0xbf;
    return 4;
  }
  return 0;
}

static void advance(dp_view *text, size_t count) {
  text->data += count;
  text->length -= count;
}

bool dp_utf8_next(dp_view *text, uint32_t *point_out) {
  const uint8_t *bytes = (const uint8_t *)text->data;
  uint8_t low, high;
  if (bytes[0] < 0x80) {
    *point_out = bytes[0];
    advance(text, 1);
    return true;
  }
  int length = sequence(bytes[0], &low, &high);
  uint32_t point = bytes[0] & (0x7fu >> length);
  int have = 1;
  for (; have < length && (size_t)have < text->length; ++have) {
    if (bytes[have] < low || bytes[have] > high)
      break;
    point = point << 6 | (bytes[have] & 0x3f);
    low = 0x80;
    high = 0xbf;
  }
  advance(text, (size_t)have);
  *point_out = point;
  return length > 0 && have == length;
}

void dp_utf8_append(dp_text *text, uint32_t point) {
  char bytes[4];
  size_t count = 0;
  if (!dp_is_code_point(point))
    return;
  if (point < 0x80) {
    bytes[count++] = (char)point;
  } else if (point < 0x800) {
    bytes[count++] = (char)(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    bytes[count++] = (char)(0xe0 | point >> 12);
    bytes[count++] = (char)(0x80 | (point >> 6 & 0x3f));
  } else {
    bytes[count++] = (char)(0xf0 | point >> 18);
    bytes[count++] = (char)(0x80 | (point >> 12 & 0x3f));
    bytes[count++] = (char)(0x80 | (point >> 6 & 0x3f));
  }
  if (point >= 0x80)
    bytes[count++] = (char)(0x80 | (point & 0x3f));
  dp_text_append(text, bytes, count);
}
