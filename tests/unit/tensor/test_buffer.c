/* The buffer pool: size classes, reuse, limits, counts, trimming, release functions, and buffers
 * that one thread creates and another releases. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tensor/buffer_internal.h"

#define MIB ((size_t)1 << 20)

static dp_buffer *create(size_t size) {
  dp_buffer *buffer = NULL;
  assert_null(dp_buffer_create(size, &buffer));
  assert_non_null(buffer);
  assert_int_equal(buffer->size, size);
  assert_int_equal((uintptr_t)buffer->data % DP_BUFFER_ALIGNMENT, 0);
  return buffer;
}

static dp_buffer_statistics statistics(void) {
  dp_buffer_statistics result;
  dp_buffer_get_statistics(&result);
  return result;
}

static void test_classes(void **state) {
  size_t before = 0;
  for (int size_class = 0; size_class < DP_SIZE_CLASSES; size_class++) {
    size_t capacity = dp_class_capacity(size_class);
    assert_true(capacity > before);
    assert_int_equal(capacity % 64, 0);
    assert_int_equal(dp_size_class(capacity), size_class);
    assert_int_equal(dp_size_class(before + 1), size_class);
    /* At most a quarter is wasted beyond the smallest classes. */
    assert_true(capacity <= 256 || capacity - before <= before / 4);
    before = capacity;
  }
  assert_int_equal(before, DP_SIZE_LIMIT);
  assert_int_equal(dp_class_capacity(DP_SMALL_CLASSES - 1), DP_SMALL_LIMIT);
  assert_int_equal(dp_size_class(0), 0);
}

static void test_sizes(void **state) {
  static const size_t sizes[] = {0,     1,      63,       64,  65,      1000,    65535,   65536,
                                 65537, 200000, MIB - 64, MIB, MIB + 1, 5 * MIB, 33 * MIB};
  dp_buffer *buffers[sizeof sizes / sizeof sizes[0]];
  size_t count = sizeof sizes / sizeof sizes[0];
  uint64_t before = statistics().live_bytes, sum = 0;
  for (int round = 0; round < 3; round++) {
    sum = 0;
    for (size_t i = 0; i < count; i++) {
      buffers[i] = create(sizes[i]);
      memset(buffers[i]->data, (int)i, sizes[i]);
      sum += sizes[i];
    }
    assert_int_equal(statistics().live_bytes, before + sum);
    assert_true(statistics().peak_bytes >= before + sum);
    for (size_t i = 0; i < count; i++) {
      const uint8_t *bytes = buffers[i]->data;
      assert_true(sizes[i] == 0 || (bytes[0] == i && bytes[sizes[i] - 1] == i));
      assert_true(dp_buffer_is_unique(buffers[i]));
      dp_buffer_retain(buffers[i]);
      assert_false(dp_buffer_is_unique(buffers[i]));
      dp_buffer_release(buffers[i]);
      dp_buffer_release(buffers[i]);
    }
    assert_int_equal(statistics().live_bytes, before);
  }
}

static void test_reuse(void **state) {
  if (!DP_POOL_KEEPS_BLOCKS)
    skip();
  static const size_t sizes[] = {8, 5000, 65536, 300000, 8 * MIB};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    dp_buffer_release(create(sizes[i]));
    uint64_t before = statistics().allocations;
    for (int round = 0; round < 100; round++) {
      dp_buffer *a = create(sizes[i]);
      dp_buffer_release(a);
    }
    assert_int_equal(statistics().allocations, before);
  }
}

/* A large request takes a block that is a little larger, but not much larger. */
static void test_neighbours(void **state) {
  if (!DP_POOL_KEEPS_BLOCKS)
    skip();
  dp_buffer_trim(0);
  dp_buffer_release(create(8 * MIB));
  uint64_t before = statistics().allocations;
  dp_buffer *buffer = create(8 * MIB - MIB);
  assert_int_equal(buffer->size_class, dp_size_class(8 * MIB));
  assert_int_equal(statistics().allocations, before);
  dp_buffer_release(buffer);
  buffer = create(3 * MIB);
  assert_int_equal(statistics().allocations, before + 1);
  dp_buffer_release(buffer);
}

static void test_trim(void **state) {
  dp_buffer *buffers[40];
  for (int i = 0; i < 40; i++)
    buffers[i] = create(i < 20 ? 2 * MIB : 3000);
  for (int i = 0; i < 40; i++)
    dp_buffer_release(buffers[i]);
  dp_buffer_trim(10 * MIB);
  assert_true(statistics().pooled_bytes <= 10 * MIB);
  if (DP_POOL_KEEPS_BLOCKS)
    assert_true(statistics().pooled_bytes > 5 * MIB);
  dp_buffer_trim(0);
  assert_int_equal(statistics().pooled_bytes, 0);
}

/* An idle process gives its free memory back; memory that is in use, or was a moment ago, stays. */
static void test_settle(void **state) {
  dp_buffer *used = create(4 * MIB);
  dp_buffer_release(create(8 * MIB));
  dp_buffer_settle();
  if (DP_POOL_KEEPS_BLOCKS)
    assert_true(statistics().pooled_bytes >= 8 * MIB);
  dp_buffer_settle();
  assert_int_equal(statistics().pooled_bytes, 0);
  memset(used->data, 1, 4 * MIB);
  dp_buffer_release(used);
}

static void expect_exhausted(dp_status *status, const char *part) {
  assert_non_null(status);
  assert_int_equal(dp_status_code(status), DP_RESOURCE_EXHAUSTED);
  if (!strstr(dp_status_message(status), part))
    fail_msg("\"%s\" is not in \"%s\"", part, dp_status_message(status));
  dp_status_release(status);
}

static void test_limit(void **state) {
  dp_buffer *none = NULL;
  dp_buffer_reset_peak();
  uint64_t base = statistics().live_bytes;
  dp_buffer_set_limit(base + 4 * MIB);
  dp_buffer *three = create(3 * MIB);
  expect_exhausted(dp_buffer_create(2 * MIB, &none), "2097152 bytes");
  assert_null(none);
  assert_int_equal(statistics().peak_bytes, base + 3 * MIB); /* a refusal does not count */
  dp_buffer *one = create(MIB);
  expect_exhausted(dp_buffer_create(100000, &none), "100000");
  dp_buffer_release(one);
  dp_buffer_release(three);
  /* The limit holds for small buffers too, and no bytes stay counted when they are released. */
  dp_buffer **small = calloc(5000, sizeof *small);
  int made = 0;
  dp_status *status = NULL;
  while (made < 5000 && !(status = dp_buffer_create(1024, &small[made])))
    made++;
  assert_in_range(made, 4096, 4096 + 17);
  expect_exhausted(status, "1024 bytes");
  for (int i = 0; i < made; i++)
    dp_buffer_release(small[i]);
  free(small);
  assert_int_equal(statistics().live_bytes, base);
  dp_buffer_release(create(4 * MIB));
  dp_buffer_set_limit(0);
  dp_buffer_release(create(5 * MIB));
}

static void test_impossible(void **state) {
  dp_buffer *none = NULL;
  uint64_t base = statistics().live_bytes;
  expect_exhausted(dp_buffer_create(SIZE_MAX, &none), "18446744073709551615 bytes");
  expect_exhausted(dp_buffer_create(DP_SIZE_LIMIT + 1, &none), "bytes");
  assert_null(none);
#if DP_POOL_KEEPS_BLOCKS
  /* On a system that overcommits memory this may succeed. */
  dp_status *status = dp_buffer_create(DP_SIZE_LIMIT, &none);
  if (status)
    expect_exhausted(status, "no memory");
  else
    dp_buffer_release(none);
#endif
  assert_int_equal(statistics().live_bytes, base);
}

typedef struct release_record {
  int calls;
  void *data;
  size_t size;
} release_record;

static void record_release(void *arg, void *data, size_t size) {
  release_record *record = arg;
  record->calls++;
  record->data = data;
  record->size = size;
}

static void test_release_functions(void **state) {
  release_record record = {0};
  char memory[100];
  dp_buffer *wrapped = dp_buffer_wrap(memory, sizeof memory, record_release, &record);
  assert_ptr_equal(wrapped->data, memory);
  dp_buffer_retain(wrapped);
  dp_buffer_release(wrapped);
  assert_int_equal(record.calls, 0);
  dp_buffer_release(wrapped);
  assert_int_equal(record.calls, 1);
  assert_ptr_equal(record.data, memory);
  assert_int_equal(record.size, sizeof memory);
  dp_buffer_release(dp_buffer_wrap(memory, 1, NULL, NULL));
  dp_buffer_release(NULL);
  assert_null(dp_buffer_retain(NULL));
  dp_buffer *owning;
  assert_null(dp_buffer_create_owning(77, record_release, &record, &owning));
  void *data = owning->data;
  dp_buffer_release(owning);
  assert_int_equal(record.calls, 2);
  assert_ptr_equal(record.data, data);
  assert_int_equal(record.size, 77);
  /* The memory comes back without the function. */
  dp_buffer_release(create(77));
  assert_int_equal(record.calls, 2);
}

/* ---- Threads ----------------------------------------------------------------------------------
 */

#define SLOTS 64
#define THREADS 4
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define ROUNDS 20000
#else
#define ROUNDS 200000
#endif

static _Atomic(dp_buffer *) slots[SLOTS];

/* Puts a marked buffer in a slot and releases what another thread may have put there. */
static void *exchange_buffers(void *arg) {
  uint32_t random = (uint32_t)(uintptr_t)arg * 2654435761u + 1;
  for (int i = 0; i < ROUNDS; i++) {
    random = random * 1664525 + 1013904223;
    size_t size = (random >> 8) % (random % 97 == 0 ? 3 * MIB : random % 7 == 0 ? 70000 : 600);
    dp_buffer *buffer = NULL;
    dp_status *status = dp_buffer_create(size, &buffer);
    if (status)
      abort();
    uint8_t *bytes = buffer->data;
    if (size > 0)
      bytes[0] = bytes[size - 1] = (uint8_t)size;
    dp_buffer *old = atomic_exchange(&slots[random >> 26], buffer);
    if (old && old->size > 0) {
      const uint8_t *old_bytes = old->data;
      if (old_bytes[0] != (uint8_t)old->size || old_bytes[old->size - 1] != (uint8_t)old->size)
        abort();
    }
    dp_buffer_release(old);
    if (i % 5000 == 0)
      dp_buffer_trim(MIB);
    if (i % 1000 == 0)
      (void)statistics();
  }
  return NULL;
}

static void test_threads(void **state) {
  uint64_t live = statistics().live_bytes, requests = statistics().requests;
  for (int round = 0; round < 2; round++) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, exchange_buffers, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
  }
  for (int i = 0; i < SLOTS; i++)
    dp_buffer_release(atomic_exchange(&slots[i], NULL));
  assert_int_equal(statistics().live_bytes, live);
  assert_int_equal(statistics().requests, requests + 2 * THREADS * ROUNDS);
  dp_buffer_trim(0);
  assert_int_equal(statistics().pooled_bytes, 0);
}

static pthread_key_t late_key;

static void use_buffers_late(void *arg) {
  dp_buffer_release(arg);
  dp_buffer *buffer = NULL;
  dp_status *status = dp_buffer_create(100, &buffer);
  if (status)
    abort();
  dp_buffer_release(buffer);
}

static void *end_with_buffers(void *arg) {
  dp_buffer *buffer = NULL;
  dp_status *status = dp_buffer_create(100, &buffer);
  if (status)
    abort();
  pthread_setspecific(late_key, buffer);
  return NULL;
}

/* A thread may create and release buffers in functions that run at its end, after its cache is
 * gone.
 */
static void test_thread_end(void **state) {
  assert_int_equal(pthread_key_create(&late_key, use_buffers_late), 0);
  uint64_t live = statistics().live_bytes;
  for (int i = 0; i < 50; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_with_buffers, NULL), 0);
    pthread_join(thread, NULL);
  }
  assert_int_equal(statistics().live_bytes, live);
  pthread_key_delete(late_key);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_reuse),
      cmocka_unit_test(test_neighbours),
      cmocka_unit_test(test_trim),
      cmocka_unit_test(test_settle),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_impossible),
      cmocka_unit_test(test_release_functions),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_thread_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
