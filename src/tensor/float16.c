/* Half and bfloat16: exact conversions to and from float, rounding to nearest even.
 *
 * A NaN of a half keeps its sign and upper payload and becomes quiet, as the hardware does it; a
 * NaN that becomes a bfloat16 is the canonical one with its sign, as in TensorFlow. One element at
 * a time in plain C; arrays are converted by the kernels' loops. No state; any thread. */
#include "tensor/dtype.h"

#include <string.h>

static uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float dp_half_to_float(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) {
    uint32_t quiet = mantissa ? 0x400000 : 0;
    return float_of_bits(sign | 0x7f800000 | quiet | mantissa << 13);
  }
  if (exponent != 0)
    return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0)
    return float_of_bits(sign);
  /* Denormal: move the highest set bit to where a float has its implicit one. */
  int shift = __builtin_clz(mantissa) - 21;
  return float_of_bits(sign | (uint32_t)(113 - shift) << 23 | ((mantissa << shift) & 0x3ff) << 13);
}

uint16_t dp_half_from_float(float value) {
  uint32_t bits = bits_of_float(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
  if (magnitude >= 0x477ff000) /* 65520 and up round to infinity */
    return (uint16_t)(sign | 0x7c00);
  if (magnitude >= 0x38800000) { /* normal: 2^-14 and up; a carry runs into the exponent */
    uint32_t rounded = magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | rounded >> 13);
  }
  if (magnitude <= 0x33000000) /* 2^-25 and below: a tie goes to even, which is zero */
    return (uint16_t)sign;
  uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
  uint32_t shift = 126 - (magnitude >> 23);
  uint32_t half_way = 1u << (shift - 1);
  uint32_t rounded = (significand + half_way - 1 + ((significand >> shift) & 1)) >> shift;
  return (uint16_t)(sign | rounded);
}

uint16_t dp_bfloat16_from_float(float value) {
  uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return (uint16_t)((bits >> 16 & 0x8000) | 0x7fc0);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
