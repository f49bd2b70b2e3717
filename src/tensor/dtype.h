/* Data types, numbered as TensorFlow numbers them on the wire and in its C API. One table gives the
 * enum, the names and the sizes. A plain `int` in an interface may also be a reference type (see
 * DP_REF_OFFSET); a dp_dtype never is one. All data is constant: any thread may call. */
#ifndef DP_TENSOR_DTYPE_H
#define DP_TENSOR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"

/* X(name, number, text, bytes per element in memory). The elements of strings, resources and
 * variants are objects: see tensor/tensor.h. Types of 4 and 2 bits take one byte per element. */
#define DP_DTYPE_TABLE(X)                                                                          \
  X(FLOAT, 1, "float", 4)                                                                          \
  X(DOUBLE, 2, "double", 8)                                                                        \
  X(INT32, 3, "int32", 4)                                                                          \
  X(UINT8, 4, "uint8", 1)                                                                          \
  X(INT16, 5, "int16", 2)                                                                          \
  X(INT8, 6, "int8", 1)                                                                            \
  X(STRING, 7, "string", 24)                                                                       \
  X(COMPLEX64, 8, "complex64", 8)                                                                  \
  X(INT64, 9, "int64", 8)                                                                          \
  X(BOOL, 10, "bool", 1)                                                                           \
  X(QINT8, 11, "qint8", 1)                                                                         \
  X(QUINT8, 12, "quint8", 1)                                                                       \
  X(QINT32, 13, "qint32", 4)                                                                       \
  X(BFLOAT16, 14, "bfloat16", 2)                                                                   \
  X(QINT16, 15, "qint16", 2)                                                                       \
  X(QUINT16, 16, "quint16", 2)                                                                     \
  X(UINT16, 17, "uint16", 2)                                                                       \
  X(COMPLEX128, 18, "complex128", 16)                                                              \
  X(HALF, 19, "half", 2)                                                                           \
  X(RESOURCE, 20, "resource", 8)                                                                   \
  X(VARIANT, 21, "variant", 8)                                                                     \
  X(UINT32, 22, "uint32", 4)                                                                       \
  X(UINT64, 23, "uint64", 8)                                                                       \
  X(FLOAT8_E5M2, 24, "float8_e5m2", 1)                                                             \
  X(FLOAT8_E4M3FN, 25, "float8_e4m3fn", 1)                                                         \
  X(FLOAT8_E4M3FNUZ, 26, "float8_e4m3fnuz", 1)                                                     \
  X(FLOAT8_E4M3B11FNUZ, 27, "float8_e4m3b11fnuz", 1)                                               \
  X(FLOAT8_E5M2FNUZ, 28, "float8_e5m2fnuz", 1)                                                     \
  X(INT4, 29, "int4", 1)                                                                           \
  X(UINT4, 30, "uint4", 1)                                                                         \
  X(INT2, 31, "int2", 1)                                                                           \
  X(UINT2, 32, "uint2", 1)

typedef enum dp_dtype {
  DP_INVALID_DTYPE = 0,
#define DP_DTYPE_ENUM(name, number, text, size) DP_##name = number,
  DP_DTYPE_TABLE(DP_DTYPE_ENUM)
#undef DP_DTYPE_ENUM
      DP_DTYPE_END = 33,
} dp_dtype;

/* A reference type on the wire is its base type plus 100. */
#define DP_REF_OFFSET 100
static inline bool dp_dtype_is_ref(int number) {
  return number > DP_REF_OFFSET;
}
static inline dp_dtype dp_dtype_base(int number) {
  return (dp_dtype)(number > DP_REF_OFFSET ? number - DP_REF_OFFSET : number);
}

/* A set of data types as bits. */
typedef uint64_t dp_dtype_set;
#define DP_DTYPE_BIT(dtype) ((dp_dtype_set)1 << (dtype))

/* True for the numbers of the table (not for references). */
bool dp_dtype_is_valid(int number);
/* "float", "int32_ref"; "unknown dtype" for other numbers. Static text. */
const char *dp_dtype_name(int number);
/* Reads "float", "float32", "int32_ref", "DT_FLOAT" and the like. The result may be a reference
 * type; it is DP_INVALID_DTYPE for a text that names no type. */
int dp_dtype_parse(dp_view text);
/* Bytes per element in memory; 0 for invalid numbers. */
extern const uint8_t dp_dtype_sizes[DP_DTYPE_END];
static inline size_t dp_dtype_size(dp_dtype dtype) {
  return (unsigned)dtype < DP_DTYPE_END ? dp_dtype_sizes[dtype] : 0;
}
/* False for strings, resources and variants, whose elements own something. */
static inline bool dp_dtype_is_plain(dp_dtype dtype) {
  const dp_dtype_set owning =
      DP_DTYPE_BIT(DP_STRING) | DP_DTYPE_BIT(DP_RESOURCE) | DP_DTYPE_BIT(DP_VARIANT);
  return (unsigned)dtype - 1 < DP_DTYPE_END - 1 && !(owning >> dtype & 1);
}
bool dp_dtype_is_integer(dp_dtype dtype); /* signed and unsigned, not quantized */
bool dp_dtype_is_complex(dp_dtype dtype);

/* 16-bit floats, as bits; conversions round to nearest even. */
float dp_half_to_float(uint16_t bits);
uint16_t dp_half_from_float(float value);
static inline float dp_bfloat16_to_float(uint16_t bits) {
  union {
    uint32_t bits;
    float value;
  } pun = {(uint32_t)bits << 16};
  return pun.value;
}
uint16_t dp_bfloat16_from_float(float value);
float dp_float8_to_float(dp_dtype dtype, uint8_t bits);
uint8_t dp_float8_from_float(dp_dtype dtype, float value);

#endif
