/* Data types: names both ways, sizes, classes, and the conversions of small floats against
 * checksums that ml_dtypes and NumPy gave (tests/conformance/golden/make_float_golden.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <zlib.h>
#include <cmocka.h>
#include "tensor/dtype.h"

#define GRID_HIGH 65536
#define GRID_LOW 6
#define GRID (GRID_HIGH * GRID_LOW)

static const struct {
  int dtype;
  uint32_t to_float;
  uint32_t from_float;
} golden[] = {
#include "../../conformance/golden/float_golden.inc"
};

static float *make_grid(void) {
  static const uint32_t low[GRID_LOW] = {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff};
  uint32_t *bits = malloc(GRID * sizeof *bits);
  for (uint32_t high = 0; high < GRID_HIGH; high++)
    for (int i = 0; i < GRID_LOW; i++)
      bits[high * GRID_LOW + i] = high << 16 | low[i];
  return (float *)bits;
}

static float to_float(int dtype, uint32_t bits) {
  if (dtype == DP_HALF)
    return dp_half_to_float((uint16_t)bits);
  if (dtype == DP_BFLOAT16)
    return dp_bfloat16_to_float((uint16_t)bits);
  return dp_float8_to_float((dp_dtype)dtype, (uint8_t)bits);
}

static uint32_t canonical(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return isnan(value) ? (bits & 0x80000000) | 0x7fc00000 : bits;
}

static void test_to_float(void **state) {
  for (size_t g = 0; g < sizeof golden / sizeof golden[0]; g++) {
    uint32_t count = dp_dtype_size(golden[g].dtype) == 1 ? 256 : 65536;
    uint32_t *values = malloc(count * sizeof *values);
    for (uint32_t i = 0; i < count; i++)
      values[i] = canonical(to_float(golden[g].dtype, i));
    assert_int_equal(crc32(0, (const Bytef *)values, count * sizeof *values), golden[g].to_float);
    free(values);
  }
}

static void test_from_float(void **state) {
  float *grid = make_grid();
  uint8_t *bytes = malloc(GRID);
  uint16_t *words = malloc(GRID * sizeof *words);
  for (size_t g = 0; g < sizeof golden / sizeof golden[0]; g++) {
    int dtype = golden[g].dtype;
    size_t size = dp_dtype_size(dtype);
    for (size_t i = 0; i < GRID; i++) {
      if (size == 1)
        bytes[i] = dp_float8_from_float(dtype, grid[i]);
      else if (dtype == DP_BFLOAT16)
        words[i] = dp_bfloat16_from_float(grid[i]);
      else
        words[i] = isnan(grid[i]) ? (dp_half_from_float(grid[i]) & 0x8000) | 0x7e00
                                  : dp_half_from_float(grid[i]);
    }
    const Bytef *data = size == 1 ? bytes : (const Bytef *)words;
    assert_int_equal(crc32(0, data, (uInt)(GRID * size)), golden[g].from_float);
  }
  free(words);
  free(bytes);
  free(grid);
}

static void test_half_round_trip(void **state) {
  for (uint32_t i = 0; i < 65536; i++) {
    float value = dp_half_to_float((uint16_t)i);
    if (!isnan(value))
      assert_int_equal(dp_half_from_float(value), i);
  }
  assert_int_equal(dp_half_from_float(65519.99f), 0x7bff);
  assert_int_equal(dp_half_from_float(65520.0f), 0x7c00);
  assert_int_equal(dp_half_from_float(0x1p-25f), 0);
  assert_int_equal(dp_half_from_float(0x1.000002p-25f), 1);
}

static void test_names(void **state) {
  assert_string_equal(dp_dtype_name(DP_FLOAT), "float");
  assert_string_equal(dp_dtype_name(DP_INT32 + DP_REF_OFFSET), "int32_ref");
  assert_string_equal(dp_dtype_name(DP_FLOAT8_E4M3B11FNUZ), "float8_e4m3b11fnuz");
  assert_string_equal(dp_dtype_name(0), "INVALID");
  int wrong[] = {-1, 33, 99, 133, 1000, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_string_equal(dp_dtype_name(wrong[i]), "unknown dtype");
  for (int number = 1; number < DP_DTYPE_END; number++) {
    assert_true(dp_dtype_is_valid(number));
    assert_int_equal(dp_dtype_parse(dp_view_of(dp_dtype_name(number))), number);
    int reference = number + DP_REF_OFFSET;
    assert_int_equal(dp_dtype_parse(dp_view_of(dp_dtype_name(reference))), reference);
    assert_false(dp_dtype_is_valid(reference));
    assert_true(dp_dtype_is_ref(reference));
    assert_int_equal(dp_dtype_base(reference), number);
    assert_true(dp_dtype_size(number) > 0);
  }
}

static void test_parse(void **state) {
  assert_int_equal(dp_dtype_parse(dp_view_of("float32")), DP_FLOAT);
  assert_int_equal(dp_dtype_parse(dp_view_of("float64_ref")), DP_DOUBLE + DP_REF_OFFSET);
  assert_int_equal(dp_dtype_parse(dp_view_of("float16")), DP_HALF);
  assert_int_equal(dp_dtype_parse(dp_view_of("DT_COMPLEX64")), DP_COMPLEX64);
  assert_int_equal(dp_dtype_parse(dp_view_of("DT_STRING_REF")), DP_STRING + DP_REF_OFFSET);
  const char *wrong[] = {"", "_ref", "flo", "floats", "DT_", "INVALID", "DT_INVALID", "DT_float"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_int_equal(dp_dtype_parse(dp_view_of(wrong[i])), DP_INVALID_DTYPE);
  assert_int_equal(dp_dtype_parse((dp_view){NULL, 0}), DP_INVALID_DTYPE);
}

static void test_classes(void **state) {
  int classes = 0;
  for (int number = -5; number < 140; number++) {
    dp_dtype dtype = (dp_dtype)number;
    int sum = dp_dtype_is_integer(dtype) + dp_dtype_is_complex(dtype);
    assert_true(sum <= 1);
    classes += sum;
    if (!dp_dtype_is_valid(number))
      assert_true(sum == 0 && dp_dtype_size(dtype) == 0 && !dp_dtype_is_plain(dtype));
  }
  assert_int_equal(classes, 12 + 2);
  assert_false(dp_dtype_is_plain(DP_STRING));
  assert_false(dp_dtype_is_plain(DP_RESOURCE));
  assert_false(dp_dtype_is_plain(DP_VARIANT));
  assert_true(dp_dtype_is_plain(DP_BOOL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_to_float),        cmocka_unit_test(test_from_float),
      cmocka_unit_test(test_half_round_trip), cmocka_unit_test(test_names),
      cmocka_unit_test(test_parse),           cmocka_unit_test(test_classes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
