/* The five 8-bit float types. One row describes each: how many bits of mantissa, which bias, what
 * a number above the largest finite one becomes.
 *
 * A value that is too large becomes infinity where the format has one and NaN elsewhere; nothing
 * saturates. That, and the bits chosen for a NaN, follow the ml_dtypes library, which TensorFlow
 * uses. "fnuz" formats have one NaN, at the place of minus zero, and no minus zero. No state. */
#include <math.h>
#include "tensor/dtype.h"

typedef struct format {
  int mantissa_bits;
  int bias;
  uint8_t largest;  /* finite, without the sign */
  uint8_t overflow; /* what a positive value beyond `largest` becomes */
  uint8_t nan;      /* a positive NaN */
  bool has_infinity;
  bool has_one_zero; /* fnuz: 0x80 is the NaN, of either sign */
} format;

static const format formats[] = {
    [DP_FLOAT8_E5M2 - DP_FLOAT8_E5M2] = {2, 15, 0x7b, 0x7c, 0x7e, true, false},
    [DP_FLOAT8_E4M3FN - DP_FLOAT8_E5M2] = {3, 7, 0x7e, 0x7f, 0x7f, false, false},
    [DP_FLOAT8_E4M3FNUZ - DP_FLOAT8_E5M2] = {3, 8, 0x7f, 0x80, 0x80, false, true},
    [DP_FLOAT8_E4M3B11FNUZ - DP_FLOAT8_E5M2] = {3, 11, 0x7f, 0x80, 0x80, false, true},
    [DP_FLOAT8_E5M2FNUZ - DP_FLOAT8_E5M2] = {2, 16, 0x7f, 0x80, 0x80, false, true},
};

static const format *find_format(dp_dtype dtype) {
  if (dtype < DP_FLOAT8_E5M2 || dtype > DP_FLOAT8_E5M2FNUZ)
    return NULL;
  return &formats[dtype - DP_FLOAT8_E5M2];
}

static float nan_of_sign(bool negative) {
  return negative ? -NAN : NAN;
}

float dp_float8_to_float(dp_dtype dtype, uint8_t bits) {
  const format *format = find_format(dtype);
  if (!format)
    return nan_of_sign(false);
  bool negative = (bits & 0x80) != 0;
  int magnitude = bits & 0x7f;
  if (format->has_one_zero && bits == 0x80)
    return nan_of_sign(true);
  if (magnitude > format->largest) {
    if (format->has_infinity && magnitude == format->overflow)
      return negative ? -INFINITY : INFINITY;
    return nan_of_sign(negative);
  }
  int exponent = magnitude >> format->mantissa_bits;
  int mantissa = magnitude & ((1 << format->mantissa_bits) - 1);
  if (exponent != 0)
    mantissa |= 1 << format->mantissa_bits;
  else
    exponent = 1;
  float value = ldexpf((float)mantissa, exponent - format->bias - format->mantissa_bits);
  return negative ? -value : value;
}

/* The bits without sign of a finite magnitude; beyond `largest` when it is too large. */
static uint32_t round_magnitude(const format *format, uint32_t float_bits) {
  int exponent = (int)(float_bits >> 23) - 127;
  uint32_t significand = (float_bits & 0x7fffff) | 0x800000;
  int shift = 23 - format->mantissa_bits;
  int below_normal = 1 - format->bias - exponent;
  if (below_normal > 0)
    shift += below_normal;
  if (shift > 24)
    return 0; /* less than half of the smallest; a float's denormals are here too */
  uint32_t rounded = (significand + (1u << (shift - 1)) - 1 + (significand >> shift & 1)) >> shift;
  if (below_normal > 0)
    return rounded;
  return ((uint32_t)(exponent + format->bias - 1) << format->mantissa_bits) + rounded;
}

uint8_t dp_float8_from_float(dp_dtype dtype, float value) {
  const format *format = find_format(dtype);
  if (!format)
    return 0;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint8_t sign = (uint8_t)(bits >> 24 & 0x80);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000)
    return format->nan | sign;
  uint32_t magnitude = bits == 0x7f800000 ? 0x100 : round_magnitude(format, bits);
  if (magnitude > format->largest)
    return format->overflow | sign;
  if (magnitude == 0 && format->has_one_zero)
    return 0;
  return (uint8_t)magnitude | sign;
}
