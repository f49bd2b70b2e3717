/* Allocation, growable arrays, reference counts and arenas. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/refcount.h"

/* Under a sanitizer too, a request for too much memory must return NULL and not end the program. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
  return "allocator_may_return_null=1";
}

static void nothing_is_still_something(void **state) {
  (void)state;
  void *none = dp_malloc(0);
  assert_non_null(none);
  none = dp_realloc(none, 0);
  dp_free(none);
  dp_free(dp_calloc(0, 8));
  dp_free(dp_memdup(NULL, 0));
  char *copy = dp_strndup("hello", 3);
  assert_string_equal(copy, "hel");
  dp_free(copy);
  copy = dp_strdup("");
  assert_string_equal(copy, "");
  dp_free(copy);
  size_t product = 5;
  assert_false(dp_multiply_size(SIZE_MAX / 2, 3, &product));
  assert_int_equal(product, 5);
  assert_true(dp_multiply_size(6, 7, &product));
  assert_int_equal(product, 42);
  assert_null(dp_try_malloc(PTRDIFF_MAX));
}

static void arrays_grow(void **state) {
  (void)state;
  DP_ARRAY(int) numbers = {0};
  for (int i = 0; i < 1000; i++)
    DP_ARRAY_PUSH(&numbers, i * i);
  assert_int_equal(numbers.count, 1000);
  for (int i = 0; i < 1000; i++)
    assert_int_equal(numbers.items[i], i * i);
  DP_ARRAY_RESERVE(&numbers, 5000);
  assert_true(numbers.capacity >= 5000);
  DP_ARRAY_FREE(&numbers);
  assert_null(numbers.items);
}

static void *retain_and_release(void *arg) {
  dp_refcount *count = arg;
  for (int i = 0; i < 10000; i++) {
    dp_refcount_retain(count);
    if (dp_refcount_release(count))
      return (void *)1;
  }
  return NULL;
}

static void the_last_reference_is_known(void **state) {
  (void)state;
  dp_refcount count;
  dp_refcount_init(&count);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    pthread_create(&threads[i], NULL, retain_and_release, &count);
  for (int i = 0; i < 2; i++) {
    void *last;
    pthread_join(threads[i], &last);
    assert_null(last);
  }
  assert_true(dp_refcount_is_one(&count));
  dp_refcount_retain(&count);
  assert_false(dp_refcount_is_one(&count));
  assert_false(dp_refcount_release(&count));
  assert_true(dp_refcount_release(&count));
}

static void arena_pieces_do_not_overlap(void **state) {
  (void)state;
  dp_arena *arena = dp_arena_create();
  unsigned char *pieces[3000];
  size_t sizes[3000];
  for (int round = 0; round < 3; round++) {
    unsigned seed = 1;
    for (int i = 0; i < 3000; i++) {
      seed = seed * 1664525u + 1013904223u;
      sizes[i] = i % 500 == 499 ? 2000000 : (seed >> 16) % 900;
      pieces[i] =
          i % 2 ? dp_arena_allocate(arena, sizes[i]) : dp_arena_allocate_zero(arena, sizes[i]);
      assert_int_equal((uintptr_t)pieces[i] % 16, 0);
      if (i % 2 == 0 && sizes[i] > 0)
        assert_true(pieces[i][0] == 0 && pieces[i][sizes[i] - 1] == 0);
      memset(pieces[i], i & 255, sizes[i]);
    }
    for (int i = 0; i < 3000; i++)
      for (size_t j = 0; j < sizes[i]; j += 97)
        assert_int_equal(pieces[i][j], i & 255);
    dp_arena_reset(arena);
  }
  dp_arena_destroy(arena);
}

static void a_warm_arena_asks_for_nothing(void **state) {
  (void)state;
  dp_arena *arena = dp_arena_create();
  size_t warm = 0;
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 2000; i++)
      dp_arena_allocate(arena, 100 + (size_t)i % 50);
    dp_arena_allocate(arena, 3000000);
    for (int i = 0; i < 100; i++)
      dp_arena_allocate(arena, 5000);
    if (round == 1)
      warm = dp_arena_bytes(arena);
    dp_arena_reset(arena);
  }
  assert_int_equal(dp_arena_bytes(arena), warm);
  dp_arena_destroy(arena);
  dp_arena_destroy(NULL);
}

static void arenas_copy_text(void **state) {
  (void)state;
  dp_arena *arena = dp_arena_create();
  assert_string_equal(dp_arena_strdup(arena, "abc"), "abc");
  assert_string_equal(dp_arena_strndup(arena, "abc", 2), "ab");
  assert_string_equal(dp_arena_strndup(arena, NULL, 0), "");
  assert_string_equal(dp_arena_printf(arena, "%s:%d", "node", 12), "node:12");
  char *longer = dp_arena_printf(arena, "%5000d", 7);
  assert_int_equal(strlen(longer), 5000);
  int *numbers = DP_ARENA_ARRAY(arena, int, 10);
  assert_int_equal(numbers[9], 0);
  dp_arena_destroy(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_still_something),
      cmocka_unit_test(arrays_grow),
      cmocka_unit_test(the_last_reference_is_known),
      cmocka_unit_test(arena_pieces_do_not_overlap),
      cmocka_unit_test(a_warm_arena_asks_for_nothing),
      cmocka_unit_test(arenas_copy_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
