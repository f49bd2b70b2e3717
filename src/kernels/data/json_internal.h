/* JSON of a stranger, read in place from front to back: no tree is made, each value is taken where
 * the reader of the message wants it. As lenient as protobuf's reader: single quotes, bare words as
 * names, a comma behind the last member. Functions return false at what they cannot take; the
 * cursor then stands at or behind the place. */
#ifndef DP_KERNELS_JSON_INTERNAL_H
#define DP_KERNELS_JSON_INTERNAL_H

#include "base/text.h"

typedef struct dp_json {
  const char *at, *end;
} dp_json;

/* Takes `c`, after white space. */
bool dp_json_take(dp_json *json, char c);
/* Takes the word `null`, after white space. */
bool dp_json_take_null(dp_json *json);
/* Whether a string is next. */
bool dp_json_is_string(dp_json *json);
/* Adds the contents of a string, as UTF-8. */
bool dp_json_string(dp_json *json, dp_text *text);
/* The name of a member and the colon behind it. */
bool dp_json_name(dp_json *json, dp_text *text);
/* The digits of a number. */
bool dp_json_number(dp_json *json, dp_view *digits_out);
/* Between members: takes the comma, or `close` and then *more_out is false. To be called first
 * behind the opening bracket, with is_first. */
bool dp_json_next(dp_json *json, char close, bool is_first, bool *more_out);
/* Whether nothing but white space is left. */
bool dp_json_at_end(dp_json *json);

#endif
