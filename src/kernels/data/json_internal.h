/* A reader of JSON that is not trusted, in place and from front to back. There is no tree: the
 * caller takes each value where its message wants it. It is as lenient as protobuf's reader: it
 * allows single quotes, bare words as names and a comma after the last member. Functions return
 * false when the text does not match; the cursor is then at or behind the mismatch. */
#ifndef DP_KERNELS_DATA_JSON_INTERNAL_H
#define DP_KERNELS_DATA_JSON_INTERNAL_H

#include "base/text.h"

typedef struct dp_json {
  const char *at, *end;
} dp_json;

/* Takes the character `c`, after white space. */
bool dp_json_take(dp_json *json, char c);
/* Takes the word `null`, after white space. */
bool dp_json_take_null(dp_json *json);
/* Whether a string is next. */
bool dp_json_is_string(dp_json *json);
/* Appends the contents of a string as UTF-8. */
bool dp_json_string(dp_json *json, dp_text *text);
/* Takes the name of a member and the colon after it. */
bool dp_json_name(dp_json *json, dp_text *text);
/* Takes the digits of a number. */
bool dp_json_number(dp_json *json, dp_view *digits_out);
/* Call it after the opening bracket with is_first, and after each member. Takes the comma between
 * two members, or `close`, and then *more_out is false. */
bool dp_json_next(dp_json *json, char close, bool is_first, bool *more_out);
/* Whether nothing but white space is left. */
bool dp_json_at_end(dp_json *json);

#endif
