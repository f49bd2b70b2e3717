/* C types of the dtypes as the templates name them, and arithmetic of complex numbers as plain
 * formulas: C's own operators call slow library functions to get infinities right. */
#ifndef DP_KERNELS_LOOPS_TYPES_H
#define DP_KERNELS_LOOPS_TYPES_H

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef float _Complex dp_complex64;
typedef double _Complex dp_complex128;

#define DP_PASTE_(a, b) a##_##b
#define DP_PASTE(a, b) DP_PASTE_(a, b)

static inline dp_complex64 dp_complex64_of(float real, float imaginary) {
  dp_complex64 value;
  __real__ value = real;
  __imag__ value = imaginary;
  return value;
}
static inline dp_complex128 dp_complex128_of(double real, double imaginary) {
  dp_complex128 value;
  __real__ value = real;
  __imag__ value = imaginary;
  return value;
}
static inline dp_complex64 dp_complex64_multiply(dp_complex64 a, dp_complex64 b) {
  return dp_complex64_of(__real__ a * __real__ b - __imag__ a * __imag__ b,
                         __real__ a * __imag__ b + __imag__ a * __real__ b);
}
static inline dp_complex128 dp_complex128_multiply(dp_complex128 a, dp_complex128 b) {
  return dp_complex128_of(__real__ a * __real__ b - __imag__ a * __imag__ b,
                          __real__ a * __imag__ b + __imag__ a * __real__ b);
}

#endif
