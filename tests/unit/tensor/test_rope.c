/* Ropes: random writers and readers, compared with a flat array of the same bytes; and which bytes
 * are shared and which are copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "tensor/rope.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define RANDOM_ROPES 100
#else
#define RANDOM_ROPES 600
#endif

static uint64_t random_state = 88172645463325252u;

static size_t random_below(size_t limit) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (size_t)(random_state >> 11) % limit;
}

static uint64_t live_bytes(void) {
  dp_buffer_statistics statistics;
  dp_buffer_get_statistics(&statistics);
  return statistics.live_bytes;
}

/* What the rope should hold. */
typedef struct model {
  uint8_t *bytes;
  size_t length;
} model;

static uint8_t *model_extend(model *model, size_t length) {
  model->bytes = realloc(model->bytes, model->length + length + 1);
  uint8_t *added = model->bytes + model->length;
  for (size_t i = 0; i < length; i++)
    added[i] = (uint8_t)random_below(256);
  model->length += length;
  return added;
}

static size_t random_length(void) {
  static const size_t limits[] = {2, 20, 300, 5000, 70000};
  return random_below(limits[random_below(random_below(8) == 0 ? 5 : 4)]);
}

static void add_by_reference(dp_rope *rope, const uint8_t *bytes, size_t length) {
  dp_buffer *buffer;
  size_t before = random_below(10);
  assert_null(dp_buffer_create(length + before + 3, &buffer));
  memcpy((uint8_t *)buffer->data + before, bytes, length);
  dp_rope_append_piece(rope, buffer, (uint8_t *)buffer->data + before, length);
}

static void grow_randomly(dp_rope *rope, model *model, int steps, int depth) {
  for (int i = 0; i < steps; i++) {
    size_t length = random_length();
    int kind = (int)random_below(depth > 0 ? 4 : 3);
    uint8_t *to;
    if (kind == 3) {
      dp_rope inner = {0};
      grow_randomly(&inner, model, (int)random_below(4), depth - 1);
      dp_rope_append_rope(rope, &inner);
      assert_int_equal(inner.length, 0);
      assert_null(inner.pieces.items);
      continue;
    }
    uint8_t *bytes = model_extend(model, length);
    if (kind == 0) {
      assert_null(dp_rope_append(rope, bytes, length));
    } else if (kind == 1) {
      assert_null(dp_rope_extend(rope, length, &to));
      memcpy(to, bytes, length);
    } else {
      add_by_reference(rope, bytes, length);
    }
  }
}

static void check_share(dp_rope_reader *reader, const uint8_t *expected, size_t length) {
  size_t alignment = (size_t)1 << random_below(7);
  dp_buffer *buffer;
  const uint8_t *data;
  assert_null(dp_rope_share(reader, length, alignment, &buffer, &data));
  assert_int_equal((uintptr_t)data % alignment, 0);
  assert_true(data >= (uint8_t *)buffer->data &&
              data + length <= (uint8_t *)buffer->data + buffer->size);
  assert_true(length == 0 || memcmp(data, expected, length) == 0);
  dp_buffer_release(buffer);
}

static void check_reader(dp_rope_reader reader, const uint8_t *expected, int depth) {
  size_t position = 0, total = reader.remaining;
  uint8_t *copy = malloc(total + 1);
  while (reader.remaining > 0) {
    assert_int_equal(position + reader.remaining, total);
    const uint8_t *data;
    size_t here = dp_rope_peek(&reader, &data);
    assert_true(here > 0 && here <= reader.remaining);
    assert_memory_equal(data, expected + position, here);
    dp_rope_reader same = reader;
    assert_false(dp_rope_skip(&reader, reader.remaining + 1));
    assert_false(dp_rope_copy_out(&reader, copy, SIZE_MAX));
    assert_memory_equal(&same, &reader, sizeof same);
    size_t length = random_length();
    if (length > reader.remaining)
      length = reader.remaining;
    dp_rope_reader sub;
    switch (random_below(depth > 0 ? 4 : 3)) {
    case 0:
      assert_true(dp_rope_skip(&reader, length));
      break;
    case 1:
      assert_true(dp_rope_copy_out(&reader, copy, length));
      assert_true(length == 0 || memcmp(copy, expected + position, length) == 0);
      break;
    case 2:
      check_share(&reader, expected + position, length);
      break;
    default:
      assert_true(dp_rope_sub_reader(&reader, length, &sub));
      assert_int_equal(sub.remaining, length);
      check_reader(sub, expected + position, depth - 1);
    }
    position += length;
  }
  const uint8_t *data;
  assert_int_equal(dp_rope_peek(&reader, &data), 0);
  free(copy);
}

static void test_random(void **state) {
  uint64_t live = live_bytes();
  for (int i = 0; i < RANDOM_ROPES; i++) {
    dp_rope rope = {0};
    model model = {0};
    grow_randomly(&rope, &model, (int)random_below(25), 2);
    assert_int_equal(rope.length, model.length);
    uint8_t *flat = malloc(model.length + 1);
    dp_rope_flatten(&rope, flat);
    assert_true(model.length == 0 || memcmp(flat, model.bytes, model.length) == 0);
    dp_buffer *joined;
    const uint8_t *data;
    assert_null(dp_rope_join(&rope, &joined, &data));
    assert_true(model.length == 0 || memcmp(data, model.bytes, model.length) == 0);
    dp_buffer_release(joined);
    for (int k = 0; k < 3; k++)
      check_reader(dp_rope_read(&rope), model.bytes, 2);
    dp_rope_deinit(&rope);
    free(flat);
    free(model.bytes);
  }
  assert_int_equal(live_bytes(), live);
}

static void test_sharing(void **state) {
  dp_rope rope = {0};
  dp_buffer *buffer, *shared, *copied;
  const uint8_t *data;
  assert_null(dp_buffer_create(1000, &buffer));
  memset(buffer->data, 7, 1000);
  assert_null(dp_rope_append(&rope, "head", 4));
  dp_rope_append_piece(&rope, dp_buffer_retain(buffer), buffer->data, 1000);
  assert_null(dp_rope_append(&rope, "tail", 4));
  assert_int_equal(rope.pieces.count, 3);
  /* Small bytes before and after the piece are in one tail buffer. */
  assert_ptr_equal(rope.pieces.items[0].owner, rope.pieces.items[2].owner);
  dp_rope_reader reader = dp_rope_read(&rope);
  assert_true(dp_rope_skip(&reader, 4));
  assert_null(dp_rope_share(&reader, 500, 64, &shared, &data));
  assert_ptr_equal(shared, buffer);
  assert_ptr_equal(data, buffer->data);
  dp_buffer_release(shared);
  assert_null(dp_rope_share(&reader, 100, 64, &copied, &data)); /* at 500: not aligned */
  assert_ptr_not_equal(copied, buffer);
  dp_buffer_release(copied);
  assert_null(dp_rope_share(&reader, 402, 1, &copied, &data)); /* over the end of the piece */
  assert_int_equal(data[399], 7);
  assert_memory_equal(data + 400, "ta", 2);
  dp_buffer_release(copied);
  dp_status *status = dp_rope_share(&reader, 3, 1, &copied, &data);
  assert_int_equal(dp_status_code(status), DP_OUT_OF_RANGE);
  dp_status_release(status);
  assert_int_equal(reader.remaining, 2);
  dp_rope_deinit(&rope);
  assert_true(dp_buffer_is_unique(buffer));
  dp_buffer_release(buffer);
}

/* Bytes that were shared from the tail stay as they are while the rope grows. */
static void test_growth_after_share(void **state) {
  dp_rope rope = {0};
  dp_buffer *shared;
  const uint8_t *data;
  assert_null(dp_rope_append(&rope, "first", 5));
  assert_null(dp_rope_join(&rope, &shared, &data));
  for (int i = 0; i < 3000; i++)
    assert_null(dp_rope_append(&rope, "xyz", 3));
  assert_memory_equal(data, "first", 5);
  assert_int_equal(rope.length, 9005);
  assert_in_range(rope.pieces.count, 2, 3);
  dp_buffer_release(shared);
  dp_rope_deinit(&rope);
}

static void test_edges(void **state) {
  dp_rope rope = {0}, other = {0};
  dp_buffer *buffer;
  const uint8_t *data;
  uint8_t *room;
  dp_rope_deinit(&rope);
  dp_rope_reader reader = dp_rope_read(&rope);
  assert_int_equal(dp_rope_peek(&reader, &data), 0);
  assert_true(dp_rope_skip(&reader, 0));
  assert_false(dp_rope_skip(&reader, 1));
  assert_null(dp_rope_join(&rope, &buffer, &data));
  assert_int_equal(buffer->size, 0);
  dp_buffer_release(buffer);
  assert_null(dp_rope_append(&rope, NULL, 0));
  assert_null(dp_rope_extend(&rope, 0, &room));
  dp_rope_append_piece(&rope, NULL, NULL, 0);
  assert_int_equal(rope.pieces.count, 0);
  dp_rope_append_piece(&rope, NULL, "static", 6); /* has no owner, so sharing it makes a copy */
  assert_null(dp_rope_join(&rope, &buffer, &data));
  assert_memory_equal(data, "static", 6);
  dp_buffer_release(buffer);
  dp_status *status = dp_rope_extend(&rope, SIZE_MAX, &room);
  assert_int_equal(dp_status_code(status), DP_RESOURCE_EXHAUSTED);
  dp_status_release(status);
  status = dp_rope_append(&rope, "", (size_t)1 << 50);
  assert_int_equal(dp_status_code(status), DP_RESOURCE_EXHAUSTED);
  dp_status_release(status);
  assert_int_equal(rope.length, 6);
  dp_rope_append_rope(&rope, &other);
  assert_int_equal(rope.length, 6);
  dp_rope_append_rope(&other, &rope);
  assert_int_equal(other.length, 6);
  assert_int_equal(rope.length, 0);
  dp_rope_deinit(&other);
  dp_rope_deinit(&rope);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_sharing),
      cmocka_unit_test(test_growth_after_share),
      cmocka_unit_test(test_edges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
