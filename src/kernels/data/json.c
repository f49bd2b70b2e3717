/* The JSON reader; the contracts are in json_internal.h. It is a cursor over borrowed bytes: no
 * allocation but for the caller's texts. */
#include "kernels/data/json_internal.h"

static void skip_space(dp_json *json) {
  while (json->at < json->end &&
         (*json->at == ' ' || *json->at == '\t' || *json->at == '\n' || *json->at == '\r'))
    ++json->at;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_word(char c) {
  return c == '_' || is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool dp_json_at_end(dp_json *json) {
  skip_space(json);
  return json->at == json->end;
}

bool dp_json_take(dp_json *json, char c) {
  skip_space(json);
  if (json->at == json->end || *json->at != c)
    return false;
  ++json->at;
  return true;
}

bool dp_json_take_null(dp_json *json) {
  skip_space(json);
  dp_view rest = {json->at, (size_t)(json->end - json->at)};
  if (!dp_view_starts_with(rest, "null"))
    return false;
  json->at += 4;
  return true;
}

bool dp_json_next(dp_json *json, char close, bool is_first, bool *more_out) {
  bool separated = is_first || dp_json_take(json, ',');
  *more_out = !dp_json_take(json, close);
  return separated || !*more_out;
}

/* ---- Strings ---- */
bool dp_json_is_string(dp_json *json) {
  skip_space(json);
  return json->at < json->end && (*json->at == '"' || *json->at == '\'');
}

static bool take_hex(dp_json *json, uint32_t *unit_out) {
  uint32_t unit = 0;
  if (json->end - json->at < 4)
    return false;
  for (int i = 0; i < 4; ++i) {
    char c = *json->at++, small = (char)(c | 0x20);
    if (is_digit(c))
      unit = unit * 16 + (uint32_t)(c - '0');
    else if (small >= 'a' && small <= 'f')
      unit = unit * 16 + (uint32_t)(small - 'a' + 10);
    else
      return false;
  }
  *unit_out = unit;
  return true;
}

static void add_utf8(dp_text *text, uint32_t point) {
  if (point < 0x80) {
    dp_text_add_char(text, (char)point);
    return;
  }
  int trails = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  static const uint8_t leads[4] = {0, 0xC0, 0xE0, 0xF0};
  dp_text_add_char(text, (char)(leads[trails] | point >> (6 * trails)));
  while (trails-- > 0)
    dp_text_add_char(text, (char)(0x80 | (point >> (6 * trails) & 63)));
}

/* After "\u": a UTF-16 unit, or a surrogate pair. */
static bool take_unicode(dp_json *json, dp_text *text) {
  uint32_t unit, low;
  if (!take_hex(json, &unit))
    return false;
  if (unit >= 0xD800 && unit < 0xDC00) {
    if (json->end - json->at < 6 || json->at[0] != '\\' || json->at[1] != 'u')
      return false;
    json->at += 2;
    if (!take_hex(json, &low) || low < 0xDC00 || low > 0xDFFF)
      return false;
    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  } else if (unit >= 0xDC00 && unit < 0xE000) {
    return false;
  }
  add_utf8(text, unit);
  return true;
}

static bool take_escape(dp_json *json, dp_text *text) {
  static const char from[] = "\"'\\/bfnrt", to[] = "\"'\\/\b\f\n\r\t";
  if (json->at == json->end)
    return false;
  char c = *json->at++;
  if (c == 'u')
    return take_unicode(json, text);
  const char *found = c ? strchr(from, c) : NULL;
  if (found)
    dp_text_add_char(text, to[found - from]);
  return found != NULL;
}

bool dp_json_string(dp_json *json, dp_text *text) {
  if (!dp_json_is_string(json))
    return false;
  char quote = *json->at++;
  while (json->at < json->end) {
    const char *from = json->at;
    while (json->at < json->end && *json->at != quote && *json->at != '\\' &&
           (uint8_t)*json->at >= ' ')
      ++json->at;
    dp_text_append(text, from, (size_t)(json->at - from));
    if (json->at == json->end || (uint8_t)*json->at < ' ')
      return false;
    if (*json->at++ == quote)
      return true;
    if (!take_escape(json, text))
      return false;
  }
  return false;
}

bool dp_json_name(dp_json *json, dp_text *text) {
  if (dp_json_is_string(json))
    return dp_json_string(json, text) && dp_json_take(json, ':');
  const char *from = json->at;
  while (json->at < json->end && is_word(*json->at))
    ++json->at;
  dp_text_append(text, from, (size_t)(json->at - from));
  return json->at > from && !is_digit(*from) && dp_json_take(json, ':');
}

/* ---- Numbers ---- */
static bool take_digits(dp_json *json) {
  const char *from = json->at;
  while (json->at < json->end && is_digit(*json->at))
    ++json->at;
  return json->at > from;
}

static bool take_one_of(dp_json *json, char a, char b) {
  bool there = json->at < json->end && (*json->at == a || *json->at == b);
  json->at += there;
  return there;
}

bool dp_json_number(dp_json *json, dp_view *digits_out) {
  skip_space(json);
  const char *from = json->at;
  take_one_of(json, '-', '-');
  const char *whole = json->at;
  if (!take_digits(json) || (*whole == '0' && json->at - whole > 1))
    return false;
  if (take_one_of(json, '.', '.') && !take_digits(json))
    return false;
  if (take_one_of(json, 'e', 'E')) {
    take_one_of(json, '+', '-');
    if (!take_digits(json))
      return false;
  }
  *digits_out = (dp_view){from, (size_t)(json->at - from)};
  return true;
}
