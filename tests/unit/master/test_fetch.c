/* Fetched tensors find their places, in whichever order a worker answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "master/master_internal.h"

enum { MOST = 8 };

typedef struct answer_case {
  const char *keys[MOST];     /* that were asked for; NULL ends them */
  const char *received[MOST]; /* keys of the answer: tensor i has the value i */
  int64_t expected[MOST];     /* values, by position in `keys` */
} answer_case;

static size_t count_of(const char *const *names) {
  size_t count = 0;
  while (count < MOST && names[count])
    count++;
  return count;
}

static dp_status *take(const answer_case *one, dp_named_tensor *fetched) {
  dp_named_tensor recvs[MOST] = {{0}};
  dp_run_graph_response response = {.recvs = recvs, .recv_count = count_of(one->received)};
  for (size_t i = 0; i < response.recv_count; i++) {
    recvs[i].name = one->received[i];
    assert_null(dp_tensor_scalar_int64((int64_t)i, &recvs[i].tensor));
  }
  size_t count = count_of(one->keys);
  for (size_t i = 0; i < count; i++)
    fetched[i].name = one->keys[i];
  dp_status *status = dp_master_fetches_take(one->keys, fetched, count, &response);
  for (size_t i = 0; i < response.recv_count; i++)
    dp_tensor_deinit(&recvs[i].tensor);
  return status;
}

static void drop(dp_named_tensor *fetched) {
  for (size_t i = 0; i < MOST; i++)
    dp_tensor_deinit(&fetched[i].tensor);
}

static void check(const answer_case *one) {
  dp_named_tensor fetched[MOST] = {{0}};
  assert_null(take(one, fetched));
  for (size_t i = 0; i < count_of(one->keys); i++)
    assert_int_equal(dp_tensor_int_at(&fetched[i].tensor, 0), one->expected[i]);
  drop(fetched);
}

static void answers_in_order(void **state) {
  check(&(answer_case){{"a", "b", "c"}, {"a", "b", "c"}, {0, 1, 2}});
  check(&(answer_case){{NULL}, {NULL}, {0}});
}

static void answers_in_another_order(void **state) {
  check(&(answer_case){{"a", "b", "c"}, {"c", "b", "a"}, {2, 1, 0}});
  check(&(answer_case){{"a", "b", "c"}, {"b", "c", "a"}, {2, 0, 1}});
  check(&(answer_case){{"a", "b"}, {"x", "b", "y", "a"}, {3, 1}});
}

static void keys_that_stand_there_twice(void **state) {
  check(&(answer_case){{"a", "a", "b"}, {"a", "b"}, {0, 0, 1}});
  check(&(answer_case){{"b", "a", "a"}, {"a", "b"}, {1, 0, 0}});
  check(&(answer_case){{"a", "b", "a"}, {"a", "b", "a"}, {0, 1, 2}});
}

static void a_missing_tensor_is_an_error_that_names_it(void **state) {
  dp_named_tensor fetched[MOST] = {{0}};
  dp_status *status = take(&(answer_case){{"a", "b"}, {"b"}, {0}}, fetched);
  assert_int_equal(dp_status_code(status), DP_INTERNAL);
  assert_non_null(strstr(dp_status_message(status), "fetch a"));
  dp_status_release(status);
  drop(fetched);
}

/* As a peer's bytes may have it. */
static void a_tensor_without_a_value_is_missing(void **state) {
  const char *const keys[] = {"a"};
  dp_named_tensor fetched[1] = {{.name = "a"}}, recvs[2] = {{.name = "b"}, {.name = "a"}};
  dp_run_graph_response response = {.recvs = recvs, .recv_count = 2};
  dp_status *status = dp_master_fetches_take(keys, fetched, 1, &response);
  assert_int_equal(dp_status_code(status), DP_INTERNAL);
  dp_status_release(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_in_order),
      cmocka_unit_test(answers_in_another_order),
      cmocka_unit_test(keys_that_stand_there_twice),
      cmocka_unit_test(a_missing_tensor_is_an_error_that_names_it),
      cmocka_unit_test(a_tensor_without_a_value_is_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
