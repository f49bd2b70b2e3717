/* Conversions between number types; compiled once for each instruction set. Conversion of a float
 * that the integer type cannot hold gives what the machine's instruction gives, as in TensorFlow.
 */
#include "kernels/loops/cast.h"

#include "kernels/loops/types.h"

#define S uint8_t
#define FROM from_uint8
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S uint16_t
#define FROM from_uint16
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S uint32_t
#define FROM from_uint32
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S uint64_t
#define FROM from_uint64
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S int8_t
#define FROM from_int8
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S int16_t
#define FROM from_int16
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S int32_t
#define FROM from_int32
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S int64_t
#define FROM from_int64
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S float
#define FROM from_float
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S double
#define FROM from_double
#define REAL(x) (x)
#include "kernels/loops/cast.tmpl.h"

#define S dp_complex64
#define FROM from_complex64
#define REAL(x) (__real__(x))
#include "kernels/loops/cast.tmpl.h"

#define S dp_complex128
#define FROM from_complex128
#define REAL(x) (__real__(x))
#include "kernels/loops/cast.tmpl.h"

/* ---- The table ---- */
#define ROW(from)                                                                                  \
  {                                                                                                \
    [DP_INT8] = from_##from##_int8, [DP_INT16] = from_##from##_int16,                              \
    [DP_INT32] = from_##from##_int32, [DP_INT64] = from_##from##_int64,                            \
    [DP_UINT8] = from_##from##_uint8, [DP_UINT16] = from_##from##_uint16,                          \
    [DP_UINT32] = from_##from##_uint32, [DP_UINT64] = from_##from##_uint64,                        \
    [DP_FLOAT] = from_##from##_float, [DP_DOUBLE] = from_##from##_double,                          \
    [DP_COMPLEX64] = from_##from##_complex64, [DP_COMPLEX128] = from_##from##_complex128,          \
    [DP_BOOL] = from_##from##_boolean                                                              \
  }

const dp_cast_loops DP_ISA_SYMBOL(dp_cast_table) = {.fn = {
                                                        [DP_INT8] = ROW(int8),
                                                        [DP_INT16] = ROW(int16),
                                                        [DP_INT32] = ROW(int32),
                                                        [DP_INT64] = ROW(int64),
                                                        [DP_UINT8] = ROW(uint8),
                                                        [DP_UINT16] = ROW(uint16),
                                                        [DP_UINT32] = ROW(uint32),
                                                        [DP_UINT64] = ROW(uint64),
                                                        [DP_FLOAT] = ROW(float),
                                                        [DP_DOUBLE] = ROW(double),
                                                        [DP_COMPLEX64] = ROW(complex64),
                                                        [DP_COMPLEX128] = ROW(complex128),
                                                        [DP_BOOL] = ROW(uint8),
                                                    }};
