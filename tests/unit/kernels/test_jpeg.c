/* What JPEG files that are damaged come to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "kernels/codec_internal.h"

static uint8_t *allocate_nothing(void *arg, const dp_image_size *size) {
  return NULL;
}

/* In the middle of a marker: the library asks for the rest again and again. */
static void test_cut_markers(void **unused) {
  static const char head[] = "\xff\xd8\xff\xff\xff";
  dp_jpeg_options options = {.ratio = 1, .recover_truncated = true, .acceptable_fraction = 1.0f};
  for (size_t length = 1; length < sizeof head; ++length) {
    dp_status *status = dp_jpeg_decode((dp_view){head, length}, &options, allocate_nothing, NULL);
    assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
    dp_status_release(status);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cut_markers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
