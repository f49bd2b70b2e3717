/* Shapes: checks of dims from outside, arithmetic, printing, broadcasting, partial shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tensor/shape.h"

#define DIMS(...)                                                                                  \
  (int64_t[]) {                                                                                    \
    __VA_ARGS__                                                                                    \
  }

static void expect_error(dp_status *status, const char *part) {
  assert_non_null(status);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  if (!strstr(dp_status_message(status), part))
    fail_msg("\"%s\" is not in \"%s\"", part, dp_status_message(status));
  dp_status_release(status);
}

static void test_make(void **state) {
  dp_shape shape;
  assert_null(dp_shape_make(3, DIMS(2, 0, 5), &shape));
  assert_int_equal(shape.elements, 0);
  assert_null(dp_shape_make(0, NULL, &shape));
  assert_int_equal(shape.elements, 1);
  assert_null(dp_shape_make(2, DIMS(INT64_MAX, 1), &shape));
  assert_int_equal(shape.elements, INT64_MAX);
  expect_error(dp_shape_make(2, DIMS(2, -3), &shape), "Dimension 1 of shape [2,-3] must be >= 0");
  expect_error(dp_shape_make(2, DIMS(1LL << 62, 2), &shape), "at dimension 1");
  expect_error(dp_shape_make(3, DIMS(1LL << 40, 1LL << 40, 0), &shape), "overflow");
  expect_error(dp_shape_make(-1, NULL, &shape), "negative number of dimensions");
  expect_error(dp_shape_make(INT64_MAX, NULL, &shape), "more than the limit");
  int64_t many[DP_MAX_RANK + 1];
  for (int i = 0; i <= DP_MAX_RANK; i++)
    many[i] = 1;
  assert_null(dp_shape_make(DP_MAX_RANK, many, &shape));
  expect_error(dp_shape_make(DP_MAX_RANK + 1, many, &shape), "17 dimensions");
  assert_int_equal(shape.rank, DP_MAX_RANK); /* untouched by the failure */
  for (int i = 0; i < DP_MAX_RANK; i++)
    many[i] = INT64_MIN;
  expect_error(dp_shape_make(DP_MAX_RANK, many, &shape), "Dimension 0");
}

static void test_arithmetic(void **state) {
  dp_shape shape = dp_shape_of(3, DIMS(2, 3, 4));
  assert_int_equal(shape.elements, 24);
  dp_shape changed = dp_shape_with(&shape, 1, 5);
  assert_string_equal(dp_shape_text(&changed), "[2,5,4]");
  assert_int_equal(changed.elements, 40);
  changed = dp_shape_insert(&shape, 0, 7);
  assert_string_equal(dp_shape_text(&changed), "[7,2,3,4]");
  changed = dp_shape_insert(&shape, 3, 7);
  assert_string_equal(dp_shape_text(&changed), "[2,3,4,7]");
  assert_int_equal(changed.elements, 168);
  changed = dp_shape_remove(&shape, 0);
  assert_string_equal(dp_shape_text(&changed), "[3,4]");
  assert_int_equal(changed.elements, 12);
  changed = dp_shape_of(2, DIMS(0, 3));
  changed = dp_shape_remove(&changed, 0);
  assert_int_equal(changed.elements, 3);
  assert_int_equal(dp_shape_product(&shape, 1, 3), 12);
  assert_int_equal(dp_shape_product(&shape, 3, 3), 1);
  dp_shape same = dp_shape_of(3, DIMS(2, 3, 4));
  assert_true(dp_shape_equal(&shape, &same));
  same.dims[5] = 9; /* behind the rank */
  assert_true(dp_shape_equal(&shape, &same));
  assert_false(dp_shape_equal(&shape, &changed));
}

static void test_text(void **state) {
  dp_shape scalar = dp_shape_scalar(), vector = dp_shape_vector(5), matrix = dp_shape_matrix(1, 2);
  const char *a = dp_shape_text(&scalar), *b = dp_shape_text(&vector), *c = dp_shape_text(&matrix);
  assert_string_equal(a, "[]");
  assert_string_equal(b, "[5]");
  assert_string_equal(c, "[1,2]");
  dp_text text = {0};
  dp_shape_print(&matrix, &text);
  assert_string_equal(dp_text_string(&text), "[1,2]");
  dp_text_deinit(&text);
}

static const char *broadcast(dp_shape a, dp_shape b) {
  dp_shape result, swapped;
  bool fits = dp_shape_broadcast(&a, &b, &result);
  assert_int_equal(dp_shape_broadcast(&b, &a, &swapped), fits);
  if (!fits)
    return "no";
  assert_true(dp_shape_equal(&result, &swapped));
  assert_int_equal(result.elements, dp_shape_product(&result, 0, result.rank));
  return dp_shape_text(&result);
}

static void test_broadcast(void **state) {
  dp_shape matrix = dp_shape_matrix(3, 4);
  assert_string_equal(broadcast(matrix, dp_shape_scalar()), "[3,4]");
  assert_string_equal(broadcast(matrix, dp_shape_vector(4)), "[3,4]");
  assert_string_equal(broadcast(matrix, dp_shape_vector(1)), "[3,4]");
  assert_string_equal(broadcast(matrix, dp_shape_vector(3)), "no");
  assert_string_equal(broadcast(matrix, dp_shape_of(3, DIMS(2, 1, 1))), "[2,3,4]");
  assert_string_equal(broadcast(matrix, dp_shape_matrix(0, 4)), "no");
  assert_string_equal(broadcast(dp_shape_vector(1), dp_shape_vector(0)), "[0]");
  assert_string_equal(broadcast(dp_shape_matrix(1LL << 40, 1), dp_shape_vector(1LL << 40)), "no");
}

static dp_partial_shape partial(int rank, const int64_t *dims) {
  dp_partial_shape shape;
  assert_null(dp_partial_shape_make(rank, dims, &shape));
  return shape;
}

static void test_partial(void **state) {
  dp_partial_shape unknown = dp_partial_shape_unknown(), merged;
  dp_partial_shape some = partial(2, DIMS(-1, 3)), full = partial(2, DIMS(2, 3));
  assert_string_equal(dp_partial_shape_text(&unknown), "<unknown>");
  assert_string_equal(dp_partial_shape_text(&some), "[?,3]");
  assert_false(dp_partial_shape_is_known(&unknown));
  assert_false(dp_partial_shape_is_known(&some));
  assert_true(dp_partial_shape_is_known(&full));
  dp_shape shape = dp_shape_matrix(2, 3), other = dp_shape_matrix(2, 4);
  assert_true(dp_partial_shape_accepts(&unknown, &shape));
  assert_true(dp_partial_shape_accepts(&some, &shape));
  assert_false(dp_partial_shape_accepts(&some, &other));
  shape = dp_shape_vector(3);
  assert_false(dp_partial_shape_accepts(&some, &shape));
  assert_true(dp_partial_shape_merge(&unknown, &some, &merged));
  assert_string_equal(dp_partial_shape_text(&merged), "[?,3]");
  dp_partial_shape left = partial(2, DIMS(7, -1));
  assert_true(dp_partial_shape_merge(&some, &left, &merged));
  assert_string_equal(dp_partial_shape_text(&merged), "[7,3]");
  assert_false(dp_partial_shape_merge(&full, &left, &merged));
  dp_partial_shape vector = partial(1, DIMS(3));
  assert_false(dp_partial_shape_merge(&full, &vector, &merged));
  dp_text text = {0};
  dp_partial_shape_print(&left, &text);
  assert_string_equal(dp_text_string(&text), "[7,?]");
  dp_text_deinit(&text);
}

static void test_partial_make(void **state) {
  dp_partial_shape shape;
  expect_error(dp_partial_shape_make(2, DIMS(2, -2), &shape), "must be >= -1");
  expect_error(dp_partial_shape_make(17, NULL, &shape), "more than the limit");
  expect_error(dp_partial_shape_make(-2, NULL, &shape), "negative");
  expect_error(dp_partial_shape_make(3, DIMS(1LL << 62, -1, 4), &shape), "overflow");
  assert_null(dp_partial_shape_make(-1, NULL, &shape));
  assert_int_equal(shape.rank, -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_make),    cmocka_unit_test(test_arithmetic),
      cmocka_unit_test(test_text),    cmocka_unit_test(test_broadcast),
      cmocka_unit_test(test_partial), cmocka_unit_test(test_partial_make),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
