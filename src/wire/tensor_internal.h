/* For the files of the tensor codec only: the result of tensor_decode.c's first pass over a
 * TensorProto, and the functions of tensor_objects.c that fill tensors of strings, handles and
 * variants. */
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

/* The most bytes that a tensor may have whatever the size of its message (the last value is
 * repeated). A larger tensor must have at least one byte in the message per 64 bytes of memory. */
#define DP_WIRE_MAX_EXPANSION ((uint64_t)2 << 30)

typedef struct dp_tensor_scan {
  dp_rope_reader all; /* the whole message, for the second pass */
  int64_t dtype;
  dp_shape shape;
  dp_rope_reader content; /* remaining 0 when there is none */
  dp_rope_reader float8;
  int depth;
} dp_tensor_scan;

/* The number of the *_val field that holds values of that dtype; 0 if there is none. */
uint32_t dp_wire_value_field(dp_dtype dtype);

DP_MUST_USE dp_status *dp_wire_decode_tensor_at(dp_rope_reader *reader, int depth,
                                                dp_tensor *tensor_out);
/* Appends a NamedTensorProto as field `number` of the message that is being written; without a tag
 * and length when `number` is 0. */
DP_MUST_USE dp_status *dp_wire_encode_named_tensor(uint32_t number, dp_view name,
                                                   const dp_tensor *tensor, dp_rope *rope);
/* These fill a new tensor that has at least one element. */
DP_MUST_USE dp_status *dp_wire_fill_strings(const dp_tensor_scan *scan, dp_tensor *tensor);
DP_MUST_USE dp_status *dp_wire_fill_handles(const dp_tensor_scan *scan, dp_tensor *tensor);
DP_MUST_USE dp_status *dp_wire_fill_variants(const dp_tensor_scan *scan, dp_tensor *tensor);

#endif
