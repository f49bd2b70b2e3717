/* Strings: all lengths around the limits between small and large strings, the fixed layout, views,
 * aliasing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tensor/tensor.h"

static char *pattern(size_t length) {
  char *data = malloc(length + 1);
  for (size_t i = 0; i < length; i++)
    data[i] = (char)(i * 7 + length);
  data[length] = 0;
  return data;
}

static void expect_equal(const dp_tstring *string, const char *data, size_t length) {
  dp_view view = dp_tstring_view(string);
  assert_int_equal(view.length, length);
  if (length)
    assert_memory_equal(view.data, data, length);
}

/* Every step from one length to another, by assign and by resize. */
static void test_lengths(void **state) {
  static const size_t lengths[] = {0, 1, 21, 22, 23, 24, 31, 32, 47, 48, 100, 5000};
  size_t count = sizeof lengths / sizeof lengths[0];
  for (size_t a = 0; a < count; a++) {
    for (size_t b = 0; b < count; b++) {
      dp_tstring string = {.raw = {0}};
      char *first = pattern(lengths[a]), *second = pattern(lengths[b]), *data;
      assert_null(dp_tstring_assign(&string, first, lengths[a]));
      expect_equal(&string, first, lengths[a]);
      assert_int_equal(dp_tstring_data(&string)[lengths[a]], 0);
      assert_null(dp_tstring_resize(&string, lengths[b], &data));
      assert_ptr_equal(data, dp_tstring_data(&string));
      assert_int_equal(dp_tstring_size(&string), lengths[b]);
      size_t kept = lengths[a] < lengths[b] ? lengths[a] : lengths[b];
      assert_true(kept == 0 || memcmp(data, first, kept) == 0);
      assert_null(dp_tstring_assign(&string, second, lengths[b]));
      expect_equal(&string, second, lengths[b]);
      assert_int_equal(dp_tstring_data(&string)[lengths[b]], 0);
      dp_tstring_deinit(&string);
      free(first);
      free(second);
    }
  }
}

/* The bytes that a program compiled against TensorFlow's own header would read. */
static void test_layout(void **state) {
  dp_tstring string = {.raw = {0}};
  const uint8_t *bytes = (const uint8_t *)&string;
  assert_null(dp_tstring_assign(&string, "abc", 3));
  assert_int_equal(bytes[0], 3 << 2);
  assert_memory_equal(bytes + 1, "abc", 4);
  assert_null(dp_tstring_assign(&string, "01234567890123456789012", 23));
  uint64_t words[3];
  memcpy(words, &string, sizeof words);
  assert_int_equal(words[0], 23 << 2 | 1);
  assert_int_equal(words[1], 31);
  assert_string_equal((const char *)(uintptr_t)words[2], "01234567890123456789012");
  free((void *)(uintptr_t)words[2]); /* as TF_TString_Dealloc does */
  memset(&string, 0, sizeof string);
  static const char text[] = "somewhere else";
  dp_tstring_assign_view(&string, text, 9);
  memcpy(words, &string, sizeof words);
  assert_int_equal(words[0], 9 << 2 | 3);
  assert_ptr_equal((const char *)(uintptr_t)words[1], text);
  struct {
    dp_tstring string;
    char data[8];
  } record = {.data = "offset!"};
  uint32_t halves[3] = {7 << 2 | 2, offsetof(__typeof__(record), data), 1};
  memcpy(&record.string, halves, sizeof halves);
  expect_equal(&record.string, "offset!", 7);
  assert_null(dp_tstring_assign(&record.string, record.data, 3));
  expect_equal(&record.string, "off", 3);
}

static void test_aliasing(void **state) {
  dp_tstring string = {.raw = {0}};
  char *data = pattern(60), *room;
  assert_null(dp_tstring_assign(&string, data, 60));
  assert_null(dp_tstring_assign(&string, dp_tstring_data(&string) + 10, 50));
  expect_equal(&string, data + 10, 50);
  assert_null(dp_tstring_assign(&string, dp_tstring_data(&string) + 5, 20));
  expect_equal(&string, data + 15, 20);
  assert_null(dp_tstring_assign(&string, dp_tstring_data(&string) + 1, 10));
  expect_equal(&string, data + 16, 10);
  dp_tstring_assign_view(&string, data, 60);
  assert_ptr_equal(dp_tstring_data(&string), data);
  assert_null(dp_tstring_resize(&string, 40, &room));
  assert_ptr_not_equal(room, data);
  expect_equal(&string, data, 40);
  dp_tstring_assign_view(&string, data, 3); /* ends the large one */
  expect_equal(&string, data, 3);
  dp_tstring_deinit(&string);
  assert_int_equal(dp_tstring_size(&string), 0);
  free(data);
}

static void test_too_long(void **state) {
  dp_tstring string = {.raw = {0}};
  char *data;
  assert_null(dp_tstring_assign(&string, "kept", 4));
  size_t sizes[] = {SIZE_MAX, SIZE_MAX / 4, (size_t)1 << 60, ((size_t)1 << 60) - 1};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
    if (sizes[i] < (size_t)1 << 60)
      continue; /* a sanitizer would end the program instead of returning NULL */
#endif
    dp_status *status = dp_tstring_resize(&string, sizes[i], &data);
    assert_int_equal(dp_status_code(status), DP_RESOURCE_EXHAUSTED);
    dp_status_release(status);
    expect_equal(&string, "kept", 4);
  }
  dp_tstring_deinit(&string);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_layout),
      cmocka_unit_test(test_aliasing),
      cmocka_unit_test(test_too_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
