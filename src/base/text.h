/* Text: views of bytes (dp_view, which borrows), a growing string (dp_text, which owns its memory),
 * and reading and writing of numbers whatever the locale. No locks: a dp_text has one user at a
 * time. */
#ifndef DP_BASE_TEXT_H
#define DP_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/status.h"

/* Bytes that somebody else owns; not necessarily ended by a NUL. */
typedef struct dp_view {
  const char *data;
  size_t length;
} dp_view;

static inline dp_view dp_view_of(const char *text) {
  return (dp_view){text, strlen(text)};
}
bool dp_view_equal(dp_view a, dp_view b);
bool dp_view_equals(dp_view view, const char *text);
bool dp_view_starts_with(dp_view view, const char *prefix);
/* Removes `prefix` from the front of *view; false (view untouched) when *view does not start with
 * it. */
bool dp_view_consume(dp_view *view, const char *prefix);
/* Removes one or more decimal digits from the front; false (view untouched) when there is none, or
 * on overflow. */
bool dp_view_consume_uint64(dp_view *view, uint64_t *value_out);

/* Whole-string conversions: sign, digits, nothing else (no spaces, no trailing text). */
bool dp_parse_int64(dp_view text, int64_t *value_out);
bool dp_parse_uint64(dp_view text, uint64_t *value_out);
/* Decimal or scientific, inf and nan; independent of the locale. */
bool dp_parse_double(dp_view text, double *value_out);
/* The nearest float, rounded once. */
bool dp_parse_float(dp_view text, float *value_out);

/* A growing string. Zero-initialize; dp_text_deinit when done. data is always NUL-ended once
 * something was added; dp_text_string never returns NULL. */
typedef struct dp_text {
  char *data;
  size_t length;
  size_t capacity;
} dp_text;

void dp_text_append(dp_text *text, const void *data, size_t length);
void dp_text_add(dp_text *text, const char *string);
void dp_text_add_char(dp_text *text, char c);
void dp_text_printf(dp_text *text, const char *format, ...) DP_PRINTF(2, 3);
const char *dp_text_string(const dp_text *text);
/* Hands the malloc'd string over (never NULL) and empties the builder. */
char *dp_text_take(dp_text *text);
void dp_text_clear(dp_text *text);
void dp_text_deinit(dp_text *text);
/* Adds bytes in C escapes: printable ASCII as it is, \n \r \t \" \' \\, else \ooo. */
void dp_text_add_escaped(dp_text *text, const void *data, size_t length);
/* The shortest decimal that reads back as the same double ("0.1", "1e+20", "inf"). */
void dp_text_add_double(dp_text *text, double value);
/* Adds a number as protobuf's varint: seven bits per byte, the lowest bits first. */
void dp_text_add_varint(dp_text *text, uint64_t value);

#endif
