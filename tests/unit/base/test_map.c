/* The map against a plain array, under a random mixture of puts and removes; and its hash. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"

static void an_empty_map_answers(void **state) {
  (void)state;
  dp_map *map = dp_map_create();
  assert_null(dp_map_get(map, "a"));
  assert_null(dp_map_remove(map, "a"));
  size_t at = 0;
  assert_false(dp_map_next(map, &at, NULL, NULL));
  assert_int_equal(dp_map_count(map), 0);
  dp_map_destroy(map);
  dp_map_destroy(NULL);
}

static void keys_are_bytes(void **state) {
  (void)state;
  dp_map *map = dp_map_create();
  int one, two, three;
  assert_null(dp_map_put_n(map, "a\0b", 3, &one));
  assert_null(dp_map_put_n(map, "a\0c", 3, &two));
  assert_null(dp_map_put(map, "", &three));
  assert_ptr_equal(dp_map_get_n(map, "a\0b", 3), &one);
  assert_ptr_equal(dp_map_get_n(map, "a\0c", 3), &two);
  assert_null(dp_map_get(map, "a"));
  assert_ptr_equal(dp_map_get_n(map, NULL, 0), &three);
  assert_ptr_equal(dp_map_put(map, "", &one), &three);
  assert_int_equal(dp_map_count(map), 3);
  assert_ptr_equal(dp_map_remove_n(map, "a\0b", 3), &one);
  assert_null(dp_map_remove_n(map, "a\0b", 3));
  dp_map_destroy(map);
}

enum { KEYS = 500 };
static int values[KEYS][2];

static void check_all(dp_map *map, int **expected) {
  size_t count = 0;
  for (int k = 0; k < KEYS; k++) {
    char key[32];
    snprintf(key, sizeof(key), "layer%d/weights", k);
    assert_ptr_equal(dp_map_get(map, key), expected[k]);
    count += expected[k] != NULL;
  }
  assert_int_equal(dp_map_count(map), count);
  const char *key;
  void *value;
  for (size_t at = 0; dp_map_next(map, &at, &key, &value); count--) {
    int k;
    assert_int_equal(sscanf(key, "layer%d/weights", &k), 1);
    assert_ptr_equal(value, expected[k]);
  }
  assert_int_equal(count, 0);
}

static void a_map_behaves_as_an_array(void **state) {
  (void)state;
  dp_map *map = dp_map_create();
  int *expected[KEYS] = {0};
  unsigned seed = 7;
  for (int i = 0; i < 40000; i++) {
    seed = seed * 1664525u + 1013904223u;
    int k = (int)(seed >> 8) % KEYS;
    char key[32];
    snprintf(key, sizeof(key), "layer%d/weights", k);
    void *before;
    if (seed >> 31) {
      int *value = &values[k][i & 1];
      before = dp_map_put(map, key, value);
      assert_ptr_equal(before, expected[k]);
      expected[k] = value;
    } else {
      before = dp_map_remove(map, key);
      assert_ptr_equal(before, expected[k]);
      expected[k] = NULL;
    }
    if (i % 4000 == 0)
      check_all(map, expected);
  }
  check_all(map, expected);
  dp_map_reserve(map, 10000);
  check_all(map, expected);
  dp_map_destroy(map);
}

/* Flipping one bit of the input should flip about half of the bits of the output. */
static void the_hash_mixes(void **state) {
  (void)state;
  for (size_t length = 1; length <= 70; length++) {
    unsigned char data[70];
    for (size_t i = 0; i < length; i++)
      data[i] = (unsigned char)(i * 37);
    uint64_t base = dp_hash_bytes(data, length);
    int turned = 0;
    for (size_t bit = 0; bit < length * 8; bit++) {
      data[bit / 8] ^= (unsigned char)(1 << bit % 8);
      uint64_t hash = dp_hash_bytes(data, length);
      assert_true(hash != base);
      turned += __builtin_popcountll(hash ^ base);
      data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    int average = turned / (int)(length * 8);
    assert_in_range(average, 24, 40);
  }
  assert_true(dp_hash_bytes("", 0) != dp_hash_bytes("\0", 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_map_answers),
      cmocka_unit_test(keys_are_bytes),
      cmocka_unit_test(a_map_behaves_as_an_array),
      cmocka_unit_test(the_hash_mixes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
