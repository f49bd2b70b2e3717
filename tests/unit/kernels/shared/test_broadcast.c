/* Broadcasting plans against the plain definition, over random shapes of up to three operands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernels/shared/broadcast.h"

static uint64_t seed = 7;
static int pick(int limit) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((seed >> 33) % (uint64_t)limit);
}

/* Offset of the operand's element for element `index` of the result, by the definition. */
static int64_t plain_offset(const dp_shape *result, const dp_shape *operand, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = result->rank - 1; i >= 0; --i) {
    int64_t at = index % result->dims[i];
    int own = i - (result->rank - operand->rank);
    index /= result->dims[i];
    if (own < 0)
      continue;
    offset += operand->dims[own] == 1 ? 0 : at * stride;
    stride *= operand->dims[own];
  }
  return offset;
}

static void check_plan(const dp_broadcast *plan, const dp_shape *const *shapes) {
  dp_broadcast_span span = dp_broadcast_span_of(plan);
  int64_t index = 0;
  for (int64_t block = 0; index < plan->shape.elements; ++block) {
    int64_t offsets[DP_BROADCAST_MAX];
    dp_broadcast_offsets(plan, block, offsets);
    for (int64_t row = 0; row < span.outer; ++row)
      for (int64_t i = 0; i < span.inner; ++i, ++index)
        for (int k = 0; k < plan->operand_count; ++k)
          assert_int_equal(offsets[k] + row * span.outer_stride[k] + i * span.inner_stride[k],
                           plain_offset(&plan->shape, shapes[k], index));
  }
  assert_int_equal(index, plan->shape.elements);
  for (int k = 0; k < plan->operand_count; ++k)
    assert_true(span.inner_stride[k] == 0 || span.inner_stride[k] == 1);
}

static void test_plans(void **state) {
  for (int round = 0; round < 5000; ++round) {
    int64_t full[5];
    int rank = pick(6), count = 2 + pick(2);
    for (int i = 0; i < rank; ++i)
      full[i] = 1 + pick(4);
    dp_shape shapes[3];
    const dp_shape *pointers[3] = {&shapes[0], &shapes[1], &shapes[2]};
    for (int k = 0; k < count; ++k) {
      int64_t dims[5];
      int own = pick(rank + 1);
      for (int i = 0; i < own; ++i)
        dims[i] = pick(3) == 0 ? 1 : full[rank - own + i];
      shapes[k] = dp_shape_of(own, dims);
    }
    dp_broadcast plan;
    assert_true(dp_broadcast_plan(pointers, count, &plan));
    check_plan(&plan, pointers);
  }
}

static void test_joined_dimensions(void **state) {
  dp_shape a = dp_shape_of(4, (int64_t[]){2, 3, 4, 5}), b = dp_shape_of(2, (int64_t[]){4, 5});
  dp_broadcast plan;
  assert_true(dp_broadcast_plan((const dp_shape *[]){&a, &a}, 2, &plan));
  assert_int_equal(plan.rank, 1);
  assert_true(dp_broadcast_plan((const dp_shape *[]){&a, &b}, 2, &plan));
  assert_int_equal(plan.rank, 2);
  dp_shape c = dp_shape_of(1, (int64_t[]){3});
  assert_false(dp_broadcast_plan((const dp_shape *[]){&a, &c}, 2, &plan));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plans),
      cmocka_unit_test(test_joined_dimensions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
