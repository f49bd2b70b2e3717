/* Status: sharing, annotation, the first real error wins, and names of codes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/status.h"

static void ok_is_null(void **state) {
  (void)state;
  assert_int_equal(dp_status_code(NULL), DP_OK);
  assert_string_equal(dp_status_message(NULL), "");
  assert_null(dp_status_retain(NULL));
  dp_status_release(NULL);
  assert_null(dp_status_annotate(NULL, "x"));
  assert_null(dp_status_append(NULL, "x"));
}

static void an_error_has_code_and_message(void **state) {
  (void)state;
  dp_status *status = dp_status_create(DP_NOT_FOUND, "node %s, output %d", "a/b", 3);
  dp_status *shared = dp_status_retain(status);
  assert_ptr_equal(shared, status);
  dp_status_release(status);
  assert_int_equal(dp_status_code(shared), DP_NOT_FOUND);
  assert_string_equal(dp_status_message(shared), "node a/b, output 3");
  dp_status_release(shared);
  status = dp_status_create(DP_ABORTED, "%s", "");
  assert_string_equal(dp_status_message(status), "");
  dp_status_release(status);
}

static void text_goes_before_and_behind(void **state) {
  (void)state;
  dp_status *status = DP_INVALID("bad shape");
  dp_status *other = dp_status_retain(status);
  status = dp_status_annotate(status, "node %d", 7);
  status = dp_status_append(status, " [%s]", "more");
  assert_string_equal(dp_status_message(status), "node 7: bad shape [more]");
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  assert_string_equal(dp_status_message(other), "bad shape"); /* others do not see it */
  dp_status_release(status);
  dp_status_release(other);
}

static void out_of_memory_is_immortal(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++)
    dp_status_release(dp_status_out_of_memory());
  dp_status *status = dp_status_retain(dp_status_out_of_memory());
  assert_int_equal(dp_status_code(status), DP_RESOURCE_EXHAUSTED);
  status = dp_status_annotate(status, "tensor %d", 1);
  assert_string_equal(dp_status_message(status), "tensor 1: out of memory");
  dp_status_release(status);
}

static void the_first_real_error_wins(void **state) {
  (void)state;
  dp_status *slot = NULL;
  dp_status_update(&slot, NULL);
  assert_null(slot);
  dp_status_update(&slot, dp_status_create(DP_CANCELLED, "one"));
  dp_status_update(&slot, dp_status_create(DP_CANCELLED, "two"));
  assert_string_equal(dp_status_message(slot), "one");
  dp_status_update(&slot, dp_status_create(DP_INTERNAL, "three"));
  assert_string_equal(dp_status_message(slot), "three");
  dp_status_update(&slot, dp_status_create(DP_ABORTED, "four"));
  dp_status_update(&slot, NULL);
  assert_string_equal(dp_status_message(slot), "three");
  dp_status_release(slot);
}

static void codes_have_names(void **state) {
  (void)state;
  assert_string_equal(dp_code_name(DP_OK), "OK");
  assert_string_equal(dp_code_name(DP_UNAUTHENTICATED), "UNAUTHENTICATED");
  assert_string_equal(dp_code_name(DP_DATA_LOSS), "DATA_LOSS");
  assert_string_equal(dp_code_name((dp_code)17), "UNKNOWN");
  assert_string_equal(dp_code_name((dp_code)-1), "UNKNOWN");
}

static dp_status *returns_early(bool fail) {
  DP_RETURN_IF_ERROR(fail ? DP_INVALID("early") : NULL);
  return dp_status_create(DP_ABORTED, "late");
}

static void macros_pass_errors_on(void **state) {
  (void)state;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, failed, returns_early(true));
  fail();
failed:
  assert_string_equal(dp_status_message(status), "early");
  dp_status_release(status);
  status = returns_early(false);
  assert_string_equal(dp_status_message(status), "late");
  dp_status_release(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ok_is_null),
      cmocka_unit_test(an_error_has_code_and_message),
      cmocka_unit_test(text_goes_before_and_behind),
      cmocka_unit_test(out_of_memory_is_immortal),
      cmocka_unit_test(the_first_real_error_wins),
      cmocka_unit_test(codes_have_names),
      cmocka_unit_test(macros_pass_errors_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
