/* Fills the table of binary.h: element-wise loops with two inputs. The bodies are in
 * binary*.tmpl.h, which are included once per type; the table at the end says which op has a loop
 * for which type. Compiled once for each instruction set. */
#include "kernels/loops/binary.h"

#include <string.h>
#include "kernels/loops/binary.tmpl.h"
#include "kernels/loops/stream_internal.h"
#include "kernels/loops/types.h"
#include "kernels/loops/vector_math_internal.h"

/* ---- Reals ---- */
#define T float
#define SUFFIX float
#define CALL(name) name##f
#define FAST(name) dp_##name
#include "kernels/loops/binary_float.tmpl.h"
BINARY(make_complex, dp_complex64, dp_complex64_of(x, y))

/* The remainder of two floats by a division in double. The quotient must have at most 28 bits: then
 * its product with the divisor and the difference are exact, and the quotient is not rounded up to
 * an integer. Sets `wrong` for larger quotients and for infinite divisors. */
static inline float rest_of_float(float x, float y, int32_t *wrong) {
  float a = dp_abs_float(x), b = dp_abs_float(y);
  int32_t is_outside = (a < 0x1p28f * b ? 0 : 1) | (b < INFINITY ? 0 : 1);
  *wrong |= is_outside;
  /* Operands outside that range become 0 / 1. Masks do it, since compilers turn ?: into a
   * branch. */
  uint32_t kept = (uint32_t)is_outside - 1, one = dp_float_bits(1.0f) & ~kept;
  double dividend = (double)dp_bits_float(dp_float_bits(x) & kept);
  double divisor = (double)dp_bits_float((dp_float_bits(y) & kept) | one);
  double rest = (double)x - (double)(int32_t)(dividend / divisor) * (double)y;
  return dp_with_sign((float)rest, x);
}
#define FLAG int32_t
FALLIBLE(truncate_mod_inside, float, rest_of_float(x, y, &wrong))
FALLIBLE(floor_mod_inside, float, floor_rest_of_float(rest_of_float(x, y, &wrong), y))
#undef FLAG

/* Runs `inside`, the fast loop, block by block, and `any`, the exact loop, for a block where
 * `inside` fails. A block's result is kept aside until then, because it may overwrite an
 * operand. */
static bool run_in_blocks(dp_binary_fn inside, dp_binary_fn any, const float *a, const float *b,
                          float *to, const dp_binary_span *span) {
  float block[256];
  const int64_t size = sizeof block / sizeof block[0];
  for (int64_t row = 0; row < span->outer; ++row) {
    for (int64_t i = 0; i < span->inner; i += size) {
      int64_t count = span->inner - i < size ? span->inner - i : size;
      dp_binary_span part = {count, 1, span->a_inner, span->b_inner, 0, 0};
      const float *x = a + i * span->a_inner, *y = b + i * span->b_inner;
      if (inside(x, y, block, &part))
        memcpy(to + i, block, (size_t)count * sizeof *to);
      else
        any(x, y, to + i, &part);
    }
    a += span->a_outer;
    b += span->b_outer;
    to += span->inner;
  }
  return true;
}
static bool truncate_mod_float(const void *a, const void *b, void *to, const dp_binary_span *span) {
  return run_in_blocks(truncate_mod_inside_float, truncate_mod_any_float, a, b, to, span);
}
static bool floor_mod_float(const void *a, const void *b, void *to, const dp_binary_span *span) {
  return run_in_blocks(floor_mod_inside_float, floor_mod_any_float, a, b, to, span);
}
#undef T
#undef SUFFIX
#undef CALL
#undef FAST

#define T double
#define SUFFIX double
#define CALL(name) name
#define FAST(name) name
#include "kernels/loops/binary_float.tmpl.h"
BINARY(make_complex, dp_complex128, dp_complex128_of(x, y))
#define truncate_mod_double truncate_mod_any_double
#define floor_mod_double floor_mod_any_double
#undef T
#undef SUFFIX
#undef CALL
#undef FAST

/* ---- Complex ---- */
#define T dp_complex64
#define SUFFIX complex64
#define OF dp_complex64_of
#define MULTIPLY dp_complex64_multiply
#define CALL(name) name##f
#include "kernels/loops/binary_complex.tmpl.h"
#undef T
#undef SUFFIX
#undef OF
#undef MULTIPLY
#undef CALL

#define T dp_complex128
#define SUFFIX complex128
#define OF dp_complex128_of
#define MULTIPLY dp_complex128_multiply
#define CALL(name) name
#include "kernels/loops/binary_complex.tmpl.h"
#undef T
#undef SUFFIX
#undef OF
#undef MULTIPLY
#undef CALL

/* ---- Integers ---- */
#define T int8_t
#define U uint8_t
#define SUFFIX int8
#define REAL float
#define IS_SIGNED
#include "kernels/loops/binary_int.tmpl.h"
#define T int16_t
#define U uint16_t
#define SUFFIX int16
#define REAL float
#define IS_SIGNED
#include "kernels/loops/binary_int.tmpl.h"
#define T int32_t
#define U uint32_t
#define SUFFIX int32
#define REAL double
#define IS_SIGNED
#include "kernels/loops/binary_int.tmpl.h"
#define T int64_t
#define U uint64_t
#define SUFFIX int64
#define IS_SIGNED
#include "kernels/loops/binary_int.tmpl.h"
#define T uint8_t
#define U uint8_t
#define SUFFIX uint8
#define REAL float
#include "kernels/loops/binary_int.tmpl.h"
#define T uint16_t
#define U uint16_t
#define SUFFIX uint16
#define REAL float
#include "kernels/loops/binary_int.tmpl.h"
#define T uint32_t
#define U uint32_t
#define SUFFIX uint32
#include "kernels/loops/binary_int.tmpl.h"
#define T uint64_t
#define U uint64_t
#define SUFFIX uint64
#include "kernels/loops/binary_int.tmpl.h"

/* ---- Booleans ---- */
#define T uint8_t
#define SUFFIX boolean
BINARY(logical_and, uint8_t, (x != 0) & (y != 0))
BINARY(logical_or, uint8_t, (x | y) != 0)
BINARY(equal, uint8_t, (x != 0) == (y != 0))
BINARY(not_equal, uint8_t, (x != 0) != (y != 0))
#undef T
#undef SUFFIX

/* ---- The table ---- */
#define REALS(name) [DP_FLOAT] = name##_float, [DP_DOUBLE] = name##_double
#define COMPLEX(name) [DP_COMPLEX64] = name##_complex64, [DP_COMPLEX128] = name##_complex128
#define INTEGERS(name)                                                                             \
  [DP_INT8] = name##_int8, [DP_INT16] = name##_int16, [DP_INT32] = name##_int32,                   \
  [DP_INT64] = name##_int64, [DP_UINT8] = name##_uint8, [DP_UINT16] = name##_uint16,               \
  [DP_UINT32] = name##_uint32, [DP_UINT64] = name##_uint64
#define ALIKE(name)                                                                                \
  [DP_INT8] = name##_uint8, [DP_INT16] = name##_uint16, [DP_INT32] = name##_uint32,                \
  [DP_INT64] = name##_uint64, [DP_UINT8] = name##_uint8, [DP_UINT16] = name##_uint16,              \
  [DP_UINT32] = name##_uint32, [DP_UINT64] = name##_uint64
#define QUANTIZED(name)                                                                            \
  [DP_QINT8] = name##_uint8, [DP_QUINT8] = name##_uint8, [DP_QINT16] = name##_uint16,              \
  [DP_QUINT16] = name##_uint16, [DP_QINT32] = name##_uint32
#define ROW(name, ...) [DP_BINARY_##name] = {__VA_ARGS__}
#define ALL(name) ROW(name, REALS(name), COMPLEX(name), INTEGERS(name))
#define REALS_AND_COMPLEX(name) ROW(name, REALS(name), COMPLEX(name))
#define REALS_AND_INTEGERS(name) ROW(name, REALS(name), INTEGERS(name))

const dp_binary_loops DP_ISA_SYMBOL(dp_binary_table) = {
    .fn =
        {
            ROW(add, REALS(add), COMPLEX(add), ALIKE(add)),
            ROW(sub, REALS(sub), COMPLEX(sub), ALIKE(sub)),
            ROW(mul, REALS(mul), COMPLEX(mul), ALIKE(mul)),
            ALL(div),
            ALL(pow),
            ROW(squared_difference, REALS(squared_difference), COMPLEX(squared_difference),
                ALIKE(squared_difference)),
            REALS_AND_COMPLEX(mul_no_nan),
            REALS_AND_COMPLEX(div_no_nan),
            REALS_AND_COMPLEX(xdivy),
            REALS_AND_COMPLEX(xlogy),
            REALS_AND_COMPLEX(xlog1py),
            REALS_AND_COMPLEX(reciprocal_grad),
            REALS_AND_COMPLEX(sqrt_grad),
            REALS_AND_COMPLEX(rsqrt_grad),
            REALS_AND_COMPLEX(tanh_grad),
            REALS_AND_COMPLEX(sigmoid_grad),
            REALS_AND_INTEGERS(floor_div),
            REALS_AND_INTEGERS(truncate_mod),
            REALS_AND_INTEGERS(floor_mod),
            REALS_AND_INTEGERS(maximum),
            REALS_AND_INTEGERS(minimum),
            REALS_AND_INTEGERS(less),
            REALS_AND_INTEGERS(less_equal),
            ROW(truncate_div, REALS(truncate_div), INTEGERS(div)),
            ROW(atan2, REALS(atan2)),
            ROW(next_after, REALS(next_after)),
            ROW(make_complex, REALS(make_complex)),
            ROW(equal, REALS(equal), COMPLEX(equal), ALIKE(equal),
                QUANTIZED(equal), [DP_BOOL] = equal_boolean),
            ROW(not_equal, REALS(not_equal), COMPLEX(not_equal), ALIKE(not_equal),
                QUANTIZED(not_equal), [DP_BOOL] = not_equal_boolean),
            ROW(logical_and, [DP_BOOL] = logical_and_boolean),
            ROW(logical_or, [DP_BOOL] = logical_or_boolean),
            ROW(bitwise_and, ALIKE(bitwise_and)),
            ROW(bitwise_or, ALIKE(bitwise_or)),
            ROW(bitwise_xor, ALIKE(bitwise_xor)),
            ROW(left_shift, INTEGERS(left_shift)),
            ROW(right_shift, INTEGERS(right_shift)),
        },
    .add_three = {REALS(add_three), COMPLEX(add_three), ALIKE(add_three)},
};
