/* Philox against the vectors that its authors published and, bit by bit, against what TensorFlow's
 * kernels gave (philox_golden.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/philox.h"
#include "philox_golden.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

typedef struct known_answer {
  uint32_t counter[4], key[2], words[4];
} known_answer;

static const known_answer known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void the_published_vectors_hold(void **state) {
  (void)state;
  for (int i = 0; i < COUNT_OF(known_answers); i++) {
    dp_philox generator;
    memcpy(generator.counter, known_answers[i].counter, sizeof(generator.counter));
    memcpy(generator.key, known_answers[i].key, sizeof(generator.key));
    uint32_t words[4];
    dp_philox_next(&generator, words);
    assert_memory_equal(words, known_answers[i].words, sizeof(words));
  }
}

static dp_philox start(void) {
  return dp_philox_seed(golden_seed, golden_seed2);
}

static dp_philox start_near_a_carry(void) {
  dp_philox generator = dp_philox_seed(golden_key, golden_counter[1]);
  generator.counter[0] = (uint32_t)golden_counter[0];
  generator.counter[1] = (uint32_t)(golden_counter[0] >> 32);
  return generator;
}

static void words_are_tensorflows(void **state) {
  (void)state;
  dp_philox generator = start_near_a_carry();
  uint32_t words[COUNT_OF(golden_words)];
  for (int i = 0; i < COUNT_OF(words); i += 4)
    dp_philox_next(&generator, words + i);
  assert_memory_equal(words, golden_words, sizeof(words));
  generator = start_near_a_carry();
  dp_philox_fill(&generator, words, COUNT_OF(words) / 4);
  assert_memory_equal(words, golden_words, sizeof(words));
}

/* A stream has the same words in whatever pieces it is made, also across carries of the counter. */
static void fill_and_skip_agree_with_next(void **state) {
  (void)state;
  enum { GROUPS = 1000 };
  static uint32_t one_by_one[GROUPS * 4], filled[GROUPS * 4];
  static const uint32_t starts[][4] = {{0, 0, 0, 0},
                                       {0xffffff00, 0, 5, 6},
                                       {0xfffffff0, 0xffffffff, 7, 8},
                                       {0xfffffe17, 0xffffffff, 0xffffffff, 0xffffffff}};
  for (int s = 0; s < COUNT_OF(starts); s++) {
    dp_philox first = {.key = {11, 12}};
    memcpy(first.counter, starts[s], sizeof(first.counter));
    dp_philox generator = first;
    for (int i = 0; i < GROUPS; i++)
      dp_philox_next(&generator, one_by_one + i * 4);
    dp_philox cut = first;
    for (int at = 0, size = 0; at < GROUPS; at += size) {
      size = at * 7 % 90 + 1 < GROUPS - at ? at * 7 % 90 + 1 : GROUPS - at;
      dp_philox_fill(&cut, filled + at * 4, size);
    }
    assert_memory_equal(one_by_one, filled, sizeof(filled));
    assert_memory_equal(&cut, &generator, sizeof(cut));
    dp_philox skipped = first;
    dp_philox_skip(&skipped, GROUPS);
    assert_memory_equal(&skipped, &generator, sizeof(skipped));
    enum { SPACING = 27, SPACED = GROUPS / SPACING };
    dp_philox spaced = first;
    dp_philox_fill_spaced(&spaced, SPACING, filled, SPACED);
    for (int i = 0; i < SPACED; i++)
      assert_memory_equal(filled + i * 4, one_by_one + i * SPACING * 4, 4 * sizeof(uint32_t));
    skipped = first;
    dp_philox_skip(&skipped, SPACED * SPACING);
    assert_memory_equal(&skipped, &spaced, sizeof(skipped));
  }
}

static void uniform_numbers_are_tensorflows(void **state) {
  (void)state;
  uint32_t words[128];
  dp_philox generator = start();
  dp_philox_fill(&generator, words, 32);
  for (int i = 0; i < COUNT_OF(golden_floats); i++) {
    float value = dp_philox_float(words[i]);
    assert_memory_equal(&value, &golden_floats[i], sizeof(value));
  }
  for (int i = 0; i < COUNT_OF(golden_doubles); i++) {
    double value = dp_philox_double(words[2 * i], words[2 * i + 1]);
    assert_memory_equal(&value, &golden_doubles[i], sizeof(value));
  }
  for (int i = 0; i < COUNT_OF(golden_halves); i++)
    assert_int_equal(dp_philox_half_bits((uint16_t)words[i]), golden_halves[i]);
}

static void edges_of_the_conversions(void **state) {
  (void)state;
  assert_true(dp_philox_float(0) == 0 && dp_philox_float(0xff800000) == 0);
  assert_true(dp_philox_float(0x7fffff) == 1 - 0x1p-23f);
  assert_true(dp_philox_double(0, 0) == 0);
  assert_true(dp_philox_double(0xffffffff, 0xffffffff) == 1 - 0x1p-52);
  assert_int_equal(dp_philox_half_bits(0), 0);
  assert_int_equal(dp_philox_half_bits(1), 5 << 10);
  assert_int_equal(dp_philox_half_bits(0x200), 0x3800); /* one half */
  float a, b;
  dp_philox_box_muller_float(0, 0, &a, &b);
  assert_true(a == 0 && fabsf(b - 5.6777f) < 1e-3f);
}

static void normal_numbers_are_tensorflows(void **state) {
  (void)state;
  uint32_t words[512];
  dp_philox generator = start();
  dp_philox_fill(&generator, words, 128);
  for (int i = 0; i < COUNT_OF(golden_normals); i += 2) {
    float pair[2];
    dp_philox_box_muller_float(words[i], words[i + 1], &pair[0], &pair[1]);
    assert_memory_equal(pair, &golden_normals[i], sizeof(pair));
  }
  for (int i = 0; i < COUNT_OF(golden_normal_doubles); i += 2) {
    double pair[2];
    const uint32_t *four = words + 2 * i;
    dp_philox_box_muller_double(four[0], four[1], four[2], four[3], &pair[0], &pair[1]);
    assert_memory_equal(pair, &golden_normal_doubles[i], sizeof(pair));
  }
}

static void a_long_stream_is_tensorflows(void **state) {
  (void)state;
  enum { COUNT = 40000 };
  uint32_t *words = malloc(COUNT * sizeof(uint32_t));
  float *normals = malloc(COUNT * sizeof(float));
  dp_philox generator = start();
  dp_philox_fill(&generator, words, COUNT / 4);
  for (int i = 0; i < COUNT; i += 2)
    dp_philox_box_muller_float(words[i], words[i + 1], &normals[i], &normals[i + 1]);
  assert_true(dp_fingerprint64(normals, COUNT * sizeof(float)) == golden_normals_fingerprint);
  free(words);
  free(normals);
}

static void truncated_numbers_are_tensorflows(void **state) {
  (void)state;
  for (int group = 0; group < COUNT_OF(golden_truncated) / 4; group++) {
    dp_philox generator = start();
    dp_philox_skip(&generator, (uint64_t)group * 256);
    float kept[6];
    int count = 0;
    while (count < 4) {
      uint32_t words[4];
      dp_philox_next(&generator, words);
      for (int half = 0; half < 4 && count < 4; half += 2) {
        float pair[2];
        dp_philox_box_muller_float(words[half], words[half + 1], &pair[0], &pair[1]);
        for (int i = 0; i < 2; i++)
          if (fabsf(pair[i]) < 2)
            kept[count++] = pair[i];
      }
    }
    assert_memory_equal(kept, &golden_truncated[group * 4], 4 * sizeof(float));
  }
}

static void seeds_differ(void **state) {
  (void)state;
  assert_true(dp_random_seed() != dp_random_seed());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_published_vectors_hold),
      cmocka_unit_test(words_are_tensorflows),
      cmocka_unit_test(fill_and_skip_agree_with_next),
      cmocka_unit_test(uniform_numbers_are_tensorflows),
      cmocka_unit_test(edges_of_the_conversions),
      cmocka_unit_test(normal_numbers_are_tensorflows),
      cmocka_unit_test(a_long_stream_is_tensorflows),
      cmocka_unit_test(truncated_numbers_are_tensorflows),
      cmocka_unit_test(seeds_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
