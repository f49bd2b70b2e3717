/* CRC32C against RFC 3720's vectors and its plain form; fingerprints and hashes against what
 * TensorFlow's ops gave (hash_golden.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/checksum_internal.h"
#include "hash_golden.h"

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void the_standard_vectors_hold(void **state) {
  (void)state;
  unsigned char data[32] = {0};
  assert_int_equal(dp_crc32c("", 0), 0);
  assert_int_equal(dp_crc32c("123456789", 9), 0xe3069283);
  assert_int_equal(dp_crc32c(data, 32), 0x8a9136aa);
  memset(data, 0xff, 32);
  assert_int_equal(dp_crc32c(data, 32), 0x62a8ab43);
  for (int i = 0; i < 32; i++)
    data[i] = (unsigned char)i;
  assert_int_equal(dp_crc32c(data, 32), 0x46dd794e);
  for (int i = 0; i < 32; i++)
    data[i] = (unsigned char)(31 - i);
  assert_int_equal(dp_crc32c(data, 32), 0x113fdb5c);
}

enum { SIZE = 40000 };

static unsigned char *make_noise(void) {
  unsigned char *noise = malloc(SIZE);
  unsigned seed = 3;
  for (int i = 0; i < SIZE; i++) {
    seed = seed * 1664525u + 1013904223u;
    noise[i] = (unsigned char)(seed >> 24);
  }
  return noise;
}

static void check_length(const unsigned char *data, size_t length) {
  uint32_t whole = dp_crc32c(data, length);
  assert_int_equal(dp_crc32c_extend_portable(0, data, length), whole);
  size_t cuts[] = {0, 1, length / 3, length / 2, length};
  for (int i = 0; i < COUNT_OF(cuts); i++) {
    size_t cut = cuts[i] < length ? cuts[i] : length;
    uint32_t first = dp_crc32c(data, cut), second = dp_crc32c(data + cut, length - cut);
    assert_int_equal(dp_crc32c_extend(first, data + cut, length - cut), whole);
    assert_int_equal(dp_crc32c_combine(first, second, length - cut), whole);
  }
}

static void both_forms_agree_at_every_length(void **state) {
  (void)state;
  unsigned char *noise = make_noise();
  for (size_t length = 0; length < 1700; length++)
    check_length(noise + length % 9, length);
  static const size_t around[] = {3 * 4096, 6 * 4096, 3 * 4096 + 3 * 256, 9 * 4096};
  for (int i = 0; i < COUNT_OF(around); i++)
    for (size_t length = around[i] - 9; length <= around[i] + 9; length++)
      check_length(noise + i, length);
  free(noise);
}

/* Lengths larger than any memory: combining in one step or in two must give the same. */
static void combining_is_associative_for_huge_lengths(void **state) {
  (void)state;
  uint64_t huge = UINT64_C(1) << 62, more = UINT64_C(0x123456789abcdef);
  uint32_t a = 0x12345678, b = 0x9abcdef0, c = 0x0badcafe;
  uint32_t left = dp_crc32c_combine(dp_crc32c_combine(a, b, huge), c, more);
  uint32_t right = dp_crc32c_combine(a, dp_crc32c_combine(b, c, more), huge + more);
  assert_int_equal(left, right);
}

static void masks_come_off(void **state) {
  (void)state;
  uint32_t crc = dp_crc32c("foo", 3);
  assert_int_not_equal(crc, dp_crc32c_mask(crc));
  assert_int_equal(dp_crc32c_unmask(dp_crc32c_mask(crc)), crc);
  assert_int_equal(dp_crc32c_mask(0), 0xa282ead8);
  assert_int_equal(dp_crc32c_unmask(0xa282ead8), 0);
  /* A TFRecord's length field: eight bytes of 0 have the masked checksum 29 03 98 07. */
  unsigned char zeros[8] = {0};
  assert_int_equal(dp_crc32c_mask(dp_crc32c(zeros, 8)), 0x07980329);
}

static void make_pattern(unsigned char data[1000]) {
  unsigned x = 7;
  for (int i = 0; i < 1000; i++, x = (5 * x + 1) % 256)
    data[i] = (unsigned char)x;
}

static void fingerprints_are_tensorflows(void **state) {
  (void)state;
  unsigned char data[1000];
  make_pattern(data);
  const uint64_t buckets = INT64_MAX;
  for (int i = 0; i < COUNT_OF(golden_lengths); i++) {
    assert_true(dp_fingerprint64(data, golden_lengths[i]) == golden_fingerprints[i]);
    uint64_t hash = dp_hash64(data, golden_lengths[i], 0xDECAFCAFFE);
    assert_true(hash % buckets == golden_hashes[i]);
  }
  for (int i = 0; i < COUNT_OF(golden_joined); i++) {
    uint64_t joined = dp_fingerprint_concat(golden_join_first[i], golden_join_second[i]);
    assert_true(joined % buckets == golden_joined[i]);
  }
}

/* Expected values are those of TensorFlow's op SdcaFprint. */
static void long_fingerprints_are_tensorflows(void **state) {
  (void)state;
  static const struct {
    size_t length;
    uint64_t low, high;
  } golden[] = {
      {0, UINT64_C(0x3df09dfc64c09a2b), UINT64_C(0x3cb540c392e51e29)},
      {3, UINT64_C(0xb235020e02950a9e), UINT64_C(0x0393e651c74583ba)},
      {7, UINT64_C(0x06196d993b9b26af), UINT64_C(0xb93e5f3e0ab4d8a1)},
      {12, UINT64_C(0x53deb5fe5ef6b4d9), UINT64_C(0x7c5b5ab53f171767)},
      {16, UINT64_C(0xcdf15d1f5e1a2d63), UINT64_C(0xfaedcb4deb5d77f2)},
      {20, UINT64_C(0xb47c0f725354d861), UINT64_C(0x5c0894da8fe38fb4)},
      {31, UINT64_C(0x71ec260c048b5b60), UINT64_C(0xfe41442ff65ace25)},
      {32, UINT64_C(0x1c9712fd952e0482), UINT64_C(0xc3e7a4e226afc95d)},
      {33, UINT64_C(0x3923a1e14f5332d0), UINT64_C(0x5817e14ba2977cc2)},
      {60, UINT64_C(0x425e1c1d96faefc5), UINT64_C(0x566ae386d75c7204)},
      {100, UINT64_C(0x457e38508998f554), UINT64_C(0xbfb23c899af8eec5)},
      {143, UINT64_C(0x9877e952342ca41a), UINT64_C(0xa780cab3c2087ef3)},
      {144, UINT64_C(0xb100eeae227edf9f), UINT64_C(0x0daa177297e0edb9)},
      {145, UINT64_C(0x86eda3cc32e0a10c), UINT64_C(0x512fb736f9d3dd8f)},
      {200, UINT64_C(0x14ec876865007c96), UINT64_C(0x7600f0549b2a6188)},
      {400, UINT64_C(0x3d8e06e28ee8ce42), UINT64_C(0x75e0dcf1e4f40361)},
      {1000, UINT64_C(0x96056fe574da2311), UINT64_C(0x8cd622a2f0c790f8)},
  };
  unsigned char data[1000];
  make_pattern(data);
  for (int i = 0; i < COUNT_OF(golden); i++) {
    uint64_t low, high;
    dp_fingerprint128(data, golden[i].length, &low, &high);
    assert_true(low == golden[i].low && high == golden[i].high);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_standard_vectors_hold),
      cmocka_unit_test(both_forms_agree_at_every_length),
      cmocka_unit_test(combining_is_associative_for_huge_lengths),
      cmocka_unit_test(masks_come_off),
      cmocka_unit_test(fingerprints_are_tensorflows),
      cmocka_unit_test(long_fingerprints_are_tensorflows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
