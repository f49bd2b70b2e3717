/* Parsing of Example messages: values of every kind, packed and not packed, maps, and malformed
 * bytes of every kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels/data/example_internal.h"

#define BYTES(text) ((dp_view){text, sizeof(text) - 1})

static void test_values(void **unused) {
  dp_feature feature;
  int64_t ints[3] = {0};
  float floats[2] = {0};
  dp_tstring strings[2] = {{.raw = {0}}};
  assert_true(dp_feature_parse(BYTES("\x1a\x05\x0a\x03\x01\xac\x02"), &feature));
  assert_int_equal(feature.dtype, DP_INT64);
  assert_int_equal(feature.count, 2);
  assert_null(dp_feature_copy(&feature, ints));
  assert_true(ints[0] == 1 && ints[1] == 300);
  /* Numbers alone, and behind them packed ones. */
  assert_true(dp_feature_parse(BYTES("\x1a\x07\x08\x05\x0a\x01\x06\x08\x07"), &feature));
  assert_int_equal(feature.count, 3);
  assert_null(dp_feature_copy(&feature, ints));
  assert_true(ints[0] == 5 && ints[1] == 6 && ints[2] == 7);
  assert_true(
      dp_feature_parse(BYTES("\x12\x0b\x0a\x04\x00\x00\x80\x3f\x0d\x00\x00\x00\x40"), &feature));
  assert_int_equal(feature.dtype, DP_FLOAT);
  assert_int_equal(feature.count, 2);
  assert_null(dp_feature_copy(&feature, floats));
  assert_true(floats[0] == 1 && floats[1] == 2);
  assert_true(dp_feature_parse(BYTES("\x0a\x06\x0a\x02hi\x0a\x00"), &feature));
  assert_int_equal(feature.dtype, DP_STRING);
  assert_int_equal(feature.count, 2);
  assert_null(dp_feature_copy(&feature, strings));
  assert_true(dp_view_equals(dp_tstring_view(&strings[0]), "hi"));
  assert_int_equal(dp_tstring_size(&strings[1]), 0);
  /* No kind; an empty list; the last of two kinds. */
  assert_true(dp_feature_parse(BYTES(""), &feature));
  assert_int_equal(feature.dtype, 0);
  assert_true(dp_feature_parse(BYTES("\x12\x00"), &feature));
  assert_true(feature.dtype == DP_FLOAT && feature.count == 0);
  assert_true(dp_feature_parse(BYTES("\x12\x00\x1a\x02\x08\x05"), &feature));
  assert_true(feature.dtype == DP_INT64 && feature.count == 1);
}

static void test_damage(void **unused) {
  static const dp_view damaged[] = {
      BYTES("\x1a\x05\x0a\x03\x01\xac"), /* cut off */
      BYTES("\x1a\x04\x0a\x02\x01\xac"), /* a number without an end */
      BYTES("\x1a\x0d\x0a\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* too long a number */
      BYTES("\x12\x05\x0a\x03\x00\x00\x00"), /* three quarters of a float */
      BYTES("\x12\x02\x08\x01"),             /* a varint for a float */
      BYTES("\x0a\x02\x08\x01"),             /* and for a string */
      BYTES("\x0a"),
      BYTES("\x1a\xff\xff\xff\xff\x0f"),
      BYTES("\x18\x01"),
      BYTES("\x0b"),
      BYTES("\x02\x00\x00"),
  };
  dp_feature feature;
  for (size_t i = 0; i < sizeof(damaged) / sizeof(*damaged); ++i)
    assert_false(dp_feature_parse(damaged[i], &feature));
}

static void test_maps(void **unused) {
  dp_feature_entries entries = {0};
  /* Two maps with an entry each, an unknown field and a group between them. */
  dp_view message =
      BYTES("\x0a\x07\x0a\x05\x0a\x01"
            "a\x12\x00\x18\x05\x23\x08\x01\x24\x0a\x09\x0a\x07\x12\x02\x1a\x00\x0a\x01"
            "b");
  assert_true(dp_feature_entries_parse(message, 1, &entries));
  assert_int_equal(entries.count, 2);
  assert_true(dp_view_equals(entries.items[0].key, "a"));
  assert_int_equal(entries.items[0].value.length, 0);
  assert_true(dp_view_equals(entries.items[1].key, "b"));
  assert_int_equal(entries.items[1].value.length, 2);
  for (size_t length = 1; length < message.length; ++length) {
    dp_feature_entries some = {0};
    bool fits = dp_feature_entries_parse((dp_view){message.data, length}, 1, &some);
    assert_int_equal(fits, length == 9 || length == 11 || length == 15);
    DP_ARRAY_FREE(&some);
  }
  DP_ARRAY_FREE(&entries);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_damage),
      cmocka_unit_test(test_maps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
