/* Between the files of the tensor codec only: what tensor_decode.c knows after one look over a
 * TensorProto, and the parts that fill tensors of objects. */
#ifndef DP_WIRE_TENSOR_INTERNAL_H
#define DP_WIRE_TENSOR_INTERNAL_H

#include "wire/field_internal.h"
#include "wire/tensor_codec.h"

enum {
  TENSOR_DTYPE = 1,
  TENSOR_SHAPE = 2,
  TENSOR_CONTENT = 4,
  TENSOR_FLOAT = 5,
  TENSOR_DOUBLE = 6,
  TENSOR_INT = 7,
  TENSOR_STRING = 8,
  TENSOR_SCOMPLEX = 9,
  TENSOR_INT64 = 10,
  TENSOR_BOOL = 11,
  TENSOR_DCOMPLEX = 12,
  TENSOR_HALF = 13,
  TENSOR_RESOURCE = 14,
  TENSOR_VARIANT = 15,
  TENSOR_UINT32 = 16,
  TENSOR_UINT64 = 17,
  TENSOR_FLOAT8 = 18,
};

/* What a few bytes may grow to by repeating the last value. */
#define DP_WIRE_MAX_EXPANSION ((uint64_t)2 << 30)

typedef struct dp_tensor_scan {
  dp_rope_reader all; /* the whole message, for a second look */
  int64_t dtype;
  dp_shape shape;
  dp_rope_reader content; /* remaining 0 when there is none */
  dp_rope_reader float8;
  int depth;
} dp_tensor_scan;

/* The *_val field in which TensorFlow keeps values of that dtype; 0 if none. */
uint32_t dp_wire_value_field(dp_dtype dtype);

DP_MUST_USE dp_status *dp_wire_decode_tensor_at(dp_rope_reader *reader, int depth,
                                                dp_tensor *tensor_out);
/* Appends a NamedTensorProto as field `number` of the message that is being written; without a tag
 * and length when `number` is 0. */
DP_MUST_USE dp_status *dp_wire_encode_named_tensor(uint32_t number, dp_view name,
                                                   const dp_tensor *tensor, dp_rope *rope);
/* These fill a fresh tensor of n > 0 elements. */
DP_MUST_USE dp_status *dp_wire_fill_strings(const dp_tensor_scan *scan, dp_tensor *tensor);
DP_MUST_USE dp_status *dp_wire_fill_handles(const dp_tensor_scan *scan, dp_tensor *tensor);
DP_MUST_USE dp_status *dp_wire_fill_variants(const dp_tensor_scan *scan, dp_tensor *tensor);

#endif
