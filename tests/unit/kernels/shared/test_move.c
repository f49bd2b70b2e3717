/* The moving engine against a plain nest of loops: random dimensions, strides and dtypes, on every
 * instruction set of the machine, with and without a pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "kernels/isa/isa.h"
#include "kernels/shared/move.h"

typedef struct fixture {
  dp_step step;
  dp_op_context context;
} fixture;

static uint64_t random_state = 88172645463325252u;
static uint32_t random_below(uint32_t limit) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)(random_state >> 33) % limit;
}

/* What dp_move_run must do. */
static void move_plainly(const dp_move *move, int32_t depth, size_t size, char *to,
                         const char *from) {
  if (depth == move->rank) {
    memcpy(to, from, size);
    return;
  }
  for (int64_t i = 0; i < move->dims[depth]; ++i)
    move_plainly(move, depth + 1, size, to + i * move->to[depth] * (int64_t)size,
                 from + i * move->from[depth] * (int64_t)size);
}

/* A dense target whose dimensions are walked in a random order, a source with gaps, reversed and
 * repeated dimensions. Gives the elements that both sides need and the source's first one. */
static void make_move(dp_move *move, dp_dtype dtype, int64_t largest, int64_t *to_count,
                      int64_t *from_count, int64_t *from_first) {
  int rank = 1 + (int)random_below(4), order[4] = {0, 1, 2, 3};
  int64_t dims[4], to[4], from[4], stride = 1;
  for (int i = rank - 1; i > 0; --i) {
    int j = (int)random_below((uint32_t)i + 1), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
  for (int i = 0; i < rank; ++i)
    dims[i] = 1 + random_below((uint32_t)largest);
  for (int i = rank - 1; i >= 0; --i) {
    to[i] = stride;
    stride *= dims[i];
  }
  *to_count = stride;
  int64_t extent = 1;
  *from_first = 0;
  for (int i = rank - 1; i >= 0; --i) {
    int d = order[i];
    int64_t step = random_below(8) == 0 ? 0 : extent * (1 + (random_below(4) == 0));
    from[d] = step;
    extent += (dims[d] - 1) * step + (step == 0 ? 0 : step - 1);
    if (random_below(4) == 0) {
      *from_first += (dims[d] - 1) * step;
      from[d] = -step;
    }
  }
  *from_count = extent;
  dp_move_init(move, dtype);
  for (int i = 0; i < rank; ++i)
    dp_move_add(move, dims[i], from[i], to[i]);
}

static void check_move(fixture *fixture, dp_dtype dtype, int64_t largest) {
  dp_move move;
  int64_t to_count, from_count, first;
  make_move(&move, dtype, largest, &to_count, &from_count, &first);
  size_t size = dp_dtype_size(dtype);
  char *from = malloc((size_t)from_count * size), *to = malloc((size_t)to_count * size);
  char *want = malloc((size_t)to_count * size);
  for (size_t i = 0; i < (size_t)from_count * size; ++i)
    from[i] = (char)random_below(256);
  move_plainly(&move, 0, size, want, from + first * (int64_t)size);
  memset(to, 0x55, (size_t)to_count * size);
  dp_move_run(&fixture->context, &move, to, from + first * (int64_t)size);
  assert_memory_equal(to, want, (size_t)to_count * size);
  free(from);
  free(to);
  free(want);
}

#define MOST_PARTS 5

static void check_join(fixture *fixture, int64_t rows, uint32_t largest) {
  int64_t count = 1 + random_below(MOST_PARTS), row = 0;
  dp_move_part parts[MOST_PARTS];
  char *memory[MOST_PARTS];
  for (int64_t i = 0; i < count; ++i) {
    parts[i].bytes = 1 + random_below(largest);
    parts[i].from = memory[i] = malloc((size_t)(rows * parts[i].bytes));
    for (int64_t j = 0; j < rows * parts[i].bytes; ++j)
      memory[i][j] = (char)random_below(256);
    row += parts[i].bytes;
  }
  char *to = malloc((size_t)(row * rows + 1)), *want = malloc((size_t)(row * rows + 1)), *at = want;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < count; at += parts[i++].bytes)
      memcpy(at, parts[i].from + r * parts[i].bytes, (size_t)parts[i].bytes);
  to[row * rows] = want[row * rows] = 0x55;
  dp_move_join(&fixture->context, to, parts, count, rows);
  assert_memory_equal(to, want, (size_t)(row * rows + 1));
  for (int64_t i = 0; i < count; ++i)
    free(memory[i]);
  free(to);
  free(want);
}

static void check_joins(fixture *fixture) {
  for (int i = 0; i < 200; ++i)
    check_join(fixture, 1 + random_below(20), 150);
  for (int i = 0; i < 4; ++i) {
    check_join(fixture, 9000, 80);
    check_join(fixture, 200, 5000);
    check_join(fixture, 1 + random_below(3), 300000);
  }
}

static void check_all(fixture *fixture) {
  static const dp_dtype dtypes[] = {DP_UINT8, DP_INT16, DP_FLOAT, DP_DOUBLE, DP_COMPLEX128};
  for (int isa = 0; isa < DP_ISA_COUNT; ++isa) {
    if (!dp_isa_select((dp_isa)isa))
      continue;
    for (int i = 0; i < 400; ++i)
      for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; ++d)
        check_move(fixture, dtypes[d], i % 10 == 0 ? 40 : 12);
    check_joins(fixture);
  }
  dp_isa_select(dp_isa_best());
}

static void test_moves_alone(void **state) {
  fixture fixture = {0};
  fixture.context.step = &fixture.step;
  check_all(&fixture);
}

static void test_moves_on_a_pool(void **state) {
  fixture fixture = {0};
  fixture.context.step = &fixture.step;
  fixture.step.pool = dp_pool_create("test", 3);
  check_all(&fixture);
  dp_pool_destroy(fixture.step.pool);
}

static void test_strings(void **state) {
  fixture fixture = {0};
  fixture.context.step = &fixture.step;
  dp_shape shape = dp_shape_matrix(3, 4), turned = dp_shape_matrix(4, 3);
  dp_tensor from, to;
  assert_null(dp_tensor_create(DP_STRING, &shape, &from));
  assert_null(dp_tensor_create(DP_STRING, &turned, &to));
  for (int i = 0; i < 12; ++i) {
    char text[64];
    int length = snprintf(text, sizeof text, "string number %d, too long to stay inside", i);
    assert_null(dp_tstring_assign(&dp_tensor_strings(&from)[i], text, (size_t)length));
  }
  dp_move move;
  dp_move_init(&move, DP_STRING);
  dp_move_add(&move, 4, 1, 3);
  dp_move_add(&move, 3, 4, 1);
  dp_move_run(&fixture.context, &move, to.data, from.data);
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 3; ++column)
      assert_true(dp_view_equal(dp_tstring_view(&dp_tensor_strings(&to)[row * 3 + column]),
                                dp_tstring_view(&dp_tensor_strings(&from)[column * 4 + row])));
  dp_tensor_deinit(&from);
  dp_tensor_deinit(&to);
}

static void test_fill(void **state) {
  fixture fixture = {0};
  fixture.context.step = &fixture.step;
  for (int64_t count = 0; count < 100; ++count) {
    double values[101], value = 3.5;
    memset(values, 0x11, sizeof values);
    dp_move_fill(&fixture.context, DP_DOUBLE, values, &value, count);
    for (int64_t i = 0; i < count; ++i)
      assert_true(values[i] == 3.5);
    assert_true(count == 101 || values[count] != 3.5);
    dp_move_fill(&fixture.context, DP_DOUBLE, values, NULL, count);
    for (int64_t i = 0; i < count; ++i)
      assert_true(values[i] == 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_moves_alone),
      cmocka_unit_test(test_moves_on_a_pool),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_fill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
