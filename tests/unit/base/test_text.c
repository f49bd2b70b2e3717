/* Text: views, the string builder, reading and writing of numbers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static void views_compare_and_consume(void **state) {
  (void)state;
  dp_view view = dp_view_of("/job:ps/task:12x");
  assert_true(dp_view_starts_with(view, "/job:"));
  assert_false(dp_view_starts_with(dp_view_of("/j"), "/job:"));
  assert_true(dp_view_consume(&view, "/job:ps/task:"));
  assert_false(dp_view_consume(&view, "zzz"));
  uint64_t number = 0;
  assert_true(dp_view_consume_uint64(&view, &number));
  assert_int_equal(number, 12);
  assert_true(dp_view_equals(view, "x"));
  assert_false(dp_view_consume_uint64(&view, &number));
  assert_true(dp_view_equal((dp_view){NULL, 0}, dp_view_of("")));
  assert_false(dp_view_equal(dp_view_of("a"), dp_view_of("b")));
  dp_view large = dp_view_of("18446744073709551616");
  assert_false(dp_view_consume_uint64(&large, &number));
  assert_int_equal(large.length, 20);
  large = dp_view_of("18446744073709551615,");
  assert_true(dp_view_consume_uint64(&large, &number));
  assert_true(number == UINT64_MAX && large.length == 1);
}

static void whole_numbers_parse(void **state) {
  (void)state;
  int64_t value = 99;
  assert_true(dp_parse_int64(dp_view_of("-9223372036854775808"), &value));
  assert_true(value == INT64_MIN);
  assert_true(dp_parse_int64(dp_view_of("9223372036854775807"), &value));
  assert_true(value == INT64_MAX);
  assert_true(dp_parse_int64(dp_view_of("+7"), &value));
  assert_true(value == 7);
  static const char *const bad[] = {"",
                                    "-",
                                    "+",
                                    " 1",
                                    "1 ",
                                    "0x1",
                                    "1.0",
                                    "--1",
                                    "+-1",
                                    "9223372036854775808",
                                    "-9223372036854775809"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    assert_false(dp_parse_int64(dp_view_of(bad[i]), &value));
  assert_true(value == 7);
  uint64_t large;
  assert_true(dp_parse_uint64(dp_view_of("18446744073709551615"), &large));
  assert_false(dp_parse_uint64(dp_view_of("-1"), &large));
  assert_false(dp_parse_uint64((dp_view){"12", 0}, &large));
}

static void real_numbers_parse(void **state) {
  (void)state;
  double value;
  assert_true(dp_parse_double(dp_view_of("-1.5e-3"), &value));
  assert_true(value == -1.5e-3);
  assert_true(dp_parse_double(dp_view_of(".5"), &value) && value == 0.5);
  assert_true(dp_parse_double(dp_view_of("-inf"), &value) && isinf(value) && value < 0);
  assert_true(dp_parse_double(dp_view_of("Infinity"), &value) && isinf(value));
  assert_true(dp_parse_double(dp_view_of("nan"), &value) && isnan(value));
  assert_true(dp_parse_double((dp_view){"12345", 2}, &value) && value == 12);
  char many[400];
  memset(many, '9', sizeof(many));
  assert_true(dp_parse_double((dp_view){many, 300}, &value) && fabs(value / 1e300 - 1) < 1e-15);
  static const char *const bad[] = {"",       " 1", "1 ",    "0x10", "1e", "1,5",
                                    "nan(1)", "i",  "1.2.3", "-",    "e5", "infinit"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    assert_false(dp_parse_double(dp_view_of(bad[i]), &value));
  assert_false(dp_parse_double((dp_view){"1\0002", 3}, &value));
}

static void builders_build(void **state) {
  (void)state;
  dp_text text = {0};
  assert_string_equal(dp_text_string(&text), "");
  dp_text_append(&text, NULL, 0);
  assert_string_equal(text.data, "");
  dp_text_add(&text, "ab");
  dp_text_add_char(&text, 'c');
  dp_text_printf(&text, "-%d-%s", 5, "x");
  assert_string_equal(dp_text_string(&text), "abc-5-x");
  for (int i = 0; i < 1000; i++)
    dp_text_printf(&text, "%0*d", i % 90, i);
  assert_int_equal(strlen(text.data), text.length);
  dp_text_clear(&text);
  assert_string_equal(dp_text_string(&text), "");
  dp_text_printf(&text, "%500d", 1);
  assert_int_equal(text.length, 500);
  char *taken = dp_text_take(&text);
  assert_int_equal(strlen(taken), 500);
  assert_null(text.data);
  dp_free(taken);
  taken = dp_text_take(&text);
  assert_string_equal(taken, "");
  dp_free(taken);
  dp_text_add_escaped(&text, "a\n\r\t\"'\\\0\x7f\xc3z", 11);
  assert_string_equal(dp_text_string(&text), "a\\n\\r\\t\\\"\\'\\\\\\000\\177\\303z");
  dp_text_deinit(&text);
}

static void check_double(double value, const char *expected) {
  dp_text text = {0};
  dp_text_add_double(&text, value);
  assert_string_equal(dp_text_string(&text), expected);
  dp_text_deinit(&text);
}

static void numbers_print_short(void **state) {
  (void)state;
  check_double(0.1, "0.1");
  check_double(0.0, "0");
  check_double(-0.0, "-0");
  check_double(100000, "100000");
  check_double(1e20, "1e+20");
  check_double(1.0 / 3, "0.3333333333333333");
  check_double(DBL_MAX, "1.7976931348623157e+308");
  check_double(5e-324, "5e-324");
  check_double(INFINITY, "inf");
  check_double(-INFINITY, "-inf");
  check_double(NAN, "nan");
  check_double(-NAN, "nan");
}

static void numbers_read_back(void **state) {
  (void)state;
  uint64_t seed = 88172645463325252u;
  dp_text text = {0};
  for (int i = 0; i < 20000; i++) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    double value, again;
    memcpy(&value, &seed, 8);
    if (isnan(value))
      continue;
    dp_text_clear(&text);
    dp_text_add_double(&text, value);
    assert_true(dp_parse_double((dp_view){text.data, text.length}, &again));
    assert_memory_equal(&value, &again, 8);
  }
  dp_text_deinit(&text);
}

static void the_locale_does_not_matter(void **state) {
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
  for (size_t i = 0; i < 3; i++)
    if (setlocale(LC_ALL, names[i]) != NULL)
      break;
  check_double(1.5, "1.5");
  double value;
  assert_true(dp_parse_double(dp_view_of("1.5"), &value) && value == 1.5);
  setlocale(LC_ALL, "C");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(views_compare_and_consume),  cmocka_unit_test(whole_numbers_parse),
      cmocka_unit_test(real_numbers_parse),         cmocka_unit_test(builders_build),
      cmocka_unit_test(numbers_print_short),        cmocka_unit_test(numbers_read_back),
      cmocka_unit_test(the_locale_does_not_matter),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
