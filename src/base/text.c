/* Views, the string builder and numbers. Numbers are read and written in the "C" locale whatever
 * the program around us has set: formats and wire texts do not follow the user's comma. */
#include "base/text.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"

bool dp_view_equal(dp_view a, dp_view b) {
  return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

bool dp_view_equals(dp_view view, const char *text) {
  return dp_view_equal(view, dp_view_of(text));
}

bool dp_view_starts_with(dp_view view, const char *prefix) {
  size_t length = strlen(prefix);
  return view.length >= length && (length == 0 || memcmp(view.data, prefix, length) == 0);
}

bool dp_view_consume(dp_view *view, const char *prefix) {
  if (!dp_view_starts_with(*view, prefix))
    return false;
  size_t length = strlen(prefix);
  view->data += length;
  view->length -= length;
  return true;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool dp_view_consume_uint64(dp_view *view, uint64_t *value_out) {
  uint64_t value = 0;
  size_t at = 0;
  for (; at < view->length && is_digit(view->data[at]); at++) {
    if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
        __builtin_add_overflow(value, (uint64_t)(view->data[at] - '0'), &value))
      return false;
  }
  if (at == 0)
    return false;
  view->data += at;
  view->length -= at;
  *value_out = value;
  return true;
}

/* Takes `sign` off the front if it is there. */
static bool consume_sign(dp_view *view, char sign) {
  if (view->length == 0 || view->data[0] != sign)
    return false;
  view->data++;
  view->length--;
  return true;
}

bool dp_parse_uint64(dp_view text, uint64_t *value_out) {
  uint64_t value;
  consume_sign(&text, '+');
  if (!dp_view_consume_uint64(&text, &value) || text.length > 0)
    return false;
  *value_out = value;
  return true;
}

bool dp_parse_int64(dp_view text, int64_t *value_out) {
  uint64_t magnitude;
  bool negative = consume_sign(&text, '-');
  if (!negative)
    consume_sign(&text, '+');
  if (!dp_view_consume_uint64(&text, &magnitude) || text.length > 0 ||
      magnitude > (uint64_t)INT64_MAX + negative)
    return false;
  *value_out = (int64_t)(negative ? 0 - magnitude : magnitude);
  return true;
}

static locale_t c_locale;

static void make_locale(void) {
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t get_locale(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_locale);
  return c_locale;
}

/* strtod also accepts spaces, hexadecimal and "nan(...)". Only what passes this test is given to
 * strtod. */
static bool looks_decimal(dp_view text) {
  if (!consume_sign(&text, '-'))
    consume_sign(&text, '+');
  if (text.length == 0)
    return false;
  if (is_digit(text.data[0]) || text.data[0] == '.') {
    for (size_t i = 0; i < text.length; i++) {
      if (!is_digit(text.data[i]) && strchr(".eE+-", text.data[i]) == NULL)
        return false;
      if (text.data[i] == '\0')
        return false;
    }
    return true;
  }
  return (text.length == 3 && strncasecmp(text.data, "inf", 3) == 0) ||
         (text.length == 3 && strncasecmp(text.data, "nan", 3) == 0) ||
         (text.length == 8 && strncasecmp(text.data, "infinity", 8) == 0);
}

/* Reads the usual form, [sign] digits [. digits] with at most 19 digits, as mantissa / 10^places.
 * False for any other form. */
static bool read_plain(dp_view text, bool *negative_out, uint64_t *mantissa_out, int *places_out) {
  size_t i = 0, digits = 0, point = 0;
  *negative_out = text.length > 0 && text.data[0] == '-';
  i += *negative_out || (text.length > 0 && text.data[0] == '+');
  uint64_t mantissa = 0;
  bool has_point = false;
  for (; i < text.length; i++) {
    char c = text.data[i];
    if (is_digit(c)) {
      mantissa = mantissa * 10 + (uint64_t)(c - '0');
      digits++;
      point += has_point;
    } else if (c == '.' && !has_point) {
      has_point = true;
    } else {
      return false;
    }
  }
  *mantissa_out = mantissa;
  *places_out = (int)point;
  return digits > 0 && digits <= 19;
}

/* The fast way. When mantissa and power of ten are both exact doubles, their quotient is rounded
 * only once and is therefore the nearest double. */
static bool parse_plain_double(dp_view text, double *value_out) {
  static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10};
  bool negative;
  uint64_t mantissa;
  int places;
  if (!read_plain(text, &negative, &mantissa, &places) || mantissa >> 53 || places > 10)
    return false;
  double value = (double)mantissa / powers[places];
  *value_out = negative ? -value : value;
  return true;
}

bool dp_parse_float(dp_view text, float *value_out) {
  static const float powers[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f, 1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
  bool negative;
  uint64_t mantissa;
  int places;
  if (read_plain(text, &negative, &mantissa, &places) && !(mantissa >> 24) && places <= 10) {
    float value = (float)mantissa / powers[places];
    *value_out = negative ? -value : value;
    return true;
  }
  double value;
  if (!dp_parse_double(text, &value))
    return false;
  char small[64];
  if (text.length < sizeof small && isfinite(value)) { /* not by way of double: rounded twice */
    memcpy(small, text.data, text.length);
    small[text.length] = '\0';
    *value_out = strtof_l(small, NULL, get_locale());
  } else {
    *value_out = (float)value;
  }
  return true;
}

bool dp_parse_double(dp_view text, double *value_out) {
  if (parse_plain_double(text, value_out))
    return true;
  if (!looks_decimal(text))
    return false;
  char small[128];
  char *copy = text.length < sizeof(small) ? small : dp_try_malloc(text.length + 1);
  if (copy == NULL)
    return false;
  memcpy(copy, text.data, text.length);
  copy[text.length] = '\0';
  char *end;
  double value = strtod_l(copy, &end, get_locale());
  bool whole = end == copy + text.length;
  if (copy != small)
    dp_free(copy);
  if (whole)
    *value_out = value;
  return whole;
}

/* Makes room for `more` bytes and the NUL behind them. */
static void reserve(dp_text *text, size_t more) {
  size_t wanted;
  if (__builtin_add_overflow(text->length, more, &wanted) || wanted == SIZE_MAX)
    wanted = SIZE_MAX - 1; /* cannot be had: dp_realloc says so */
  if (wanted < text->capacity)
    return;
  size_t grown = text->capacity < 32 ? 64 : text->capacity + text->capacity / 2;
  text->capacity = grown > wanted ? grown : wanted + 1;
  text->data = dp_realloc(text->data, text->capacity);
}

void dp_text_append(dp_text *text, const void *data, size_t length) {
  reserve(text, length);
  if (length > 0)
    memcpy(text->data + text->length, data, length);
  text->length += length;
  text->data[text->length] = '\0';
}

void dp_text_add(dp_text *text, const char *string) {
  dp_text_append(text, string, strlen(string));
}

void dp_text_add_char(dp_text *text, char c) {
  dp_text_append(text, &c, 1);
}

void dp_text_printf(dp_text *text, const char *format, ...) {
  va_list arguments, copy;
  va_start(arguments, format);
  va_copy(copy, arguments);
  reserve(text, 0);
  int length = vsnprintf(text->data + text->length, text->capacity - text->length, format, copy);
  va_end(copy);
  if (length < 0) {
    text->data[text->length] = '\0';
  } else {
    if ((size_t)length >= text->capacity - text->length) {
      reserve(text, (size_t)length);
      vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    }
    text->length += (size_t)length;
  }
  va_end(arguments);
}

const char *dp_text_string(const dp_text *text) {
  return text->data != NULL ? text->data : "";
}

char *dp_text_take(dp_text *text) {
  char *data = text->data != NULL ? text->data : dp_strdup("");
  *text = (dp_text){0};
  return data;
}

void dp_text_clear(dp_text *text) {
  text->length = 0;
  if (text->data != NULL)
    text->data[0] = '\0';
}

void dp_text_deinit(dp_text *text) {
  dp_free(text->data);
  *text = (dp_text){0};
}

static void add_escaped_char(dp_text *text, unsigned char c) {
  switch (c) {
  case '\n':
    dp_text_add(text, "\\n");
    break;
  case '\r':
    dp_text_add(text, "\\r");
    break;
  case '\t':
    dp_text_add(text, "\\t");
    break;
  case '"':
  case '\'':
  case '\\':
    dp_text_add_char(text, '\\');
    dp_text_add_char(text, (char)c);
    break;
  default:
    if (c >= 0x20 && c < 0x7f)
      dp_text_add_char(text, (char)c);
    else
      dp_text_printf(text, "\\%03o", c);
  }
}

void dp_text_add_escaped(dp_text *text, const void *data, size_t length) {
  const unsigned char *bytes = data;
  reserve(text, length);
  text->data[text->length] = '\0';
  for (size_t i = 0; i < length; i++)
    add_escaped_char(text, bytes[i]);
}

/* Adds "nan", "inf" or "-inf" and returns true; false, nothing added, for a finite number. */
static bool add_special(dp_text *text, double value) {
  if (isnan(value))
    dp_text_add(text, "nan");
  else if (isinf(value))
    dp_text_add(text, value > 0 ? "inf" : "-inf");
  else
    return false;
  return true;
}

/* If a normal double has a decimal form of at most DBL_DIG digits, %.*g with that precision prints
 * it, without trailing zeros; so the search starts there. A subnormal number has fewer digits of
 * precision, so for it the search starts with 1. */
void dp_text_add_double(dp_text *text, double value) {
  if (add_special(text, value))
    return;
  char digits[40];
  locale_t before = uselocale(get_locale());
  bool tiny = value != 0 && fabs(value) < DBL_MIN;
  for (int precision = tiny ? 1 : DBL_DIG; precision <= 17; precision++) {
    snprintf(digits, sizeof(digits), "%.*g", precision, value);
    if (precision == 17 || strtod(digits, NULL) == value)
      break;
  }
  uselocale(before);
  dp_text_add(text, digits);
}

void dp_text_add_varint(dp_text *text, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    dp_text_add_char(text, (char)(value | 0x80));
  dp_text_add_char(text, (char)value);
}
