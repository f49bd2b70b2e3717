/* TensorProto: the only code that reads and writes tensors on the wire.
 *
 * Decoding accepts what TensorFlow's Tensor::FromProto accepts: tensor_content, or the typed *_val
 * fields, packed or not. When there are fewer values than elements, the last value is repeated;
 * when there are none, the elements are zeros. The size of tensor_content must match the shape
 * before memory is taken. Repeated values may expand to DP_WIRE_MAX_EXPANSION (tensor_internal.h);
 * beyond that the size is bounded by the message's. Large contents in one aligned piece are not
 * copied: the tensor shares the rope's buffer.
 *
 * Encoding writes plain dtypes as tensor_content, large ones by reference to the tensor's buffer,
 * and strings, handles and variants as *_val fields, which every reader understands.
 * No state, any thread. */
#ifndef DP_WIRE_TENSOR_CODEC_H
#define DP_WIRE_TENSOR_CODEC_H

#include "base/status.h"
#include "tensor/rope.h"
#include "tensor/tensor.h"

/* Decoded contents of at least this many bytes share the rope's buffer. */
#define DP_WIRE_SHARE_BYTES 1024
/* Contents of at least this many bytes are written by reference. */
#define DP_WIRE_REFERENCE_BYTES 512
/* How deeply tensors may be nested: a variant may hold tensors, which may hold variants. */
#define DP_WIRE_MAX_TENSOR_DEPTH 16

/* Reads all remaining bytes of `reader` as one TensorProto. INVALID_ARGUMENT says what is wrong
 * with it; RESOURCE_EXHAUSTED when there is no memory or the tensor would be far larger than the
 * message.
 */
DP_MUST_USE dp_status *dp_wire_decode_tensor(dp_rope_reader *reader, dp_tensor *tensor_out);
/* Reads a TensorProto from memory that the tensor must not share (an attribute's): always copies.
 */
DP_MUST_USE dp_status *dp_wire_decode_tensor_bytes(const void *data, size_t length,
                                                   dp_tensor *tensor_out);

/* Appends a TensorProto. The rope retains the buffer of a large tensor. An unset tensor is written
 * as an empty float vector, which is what TensorFlow sends for a dead tensor. */
DP_MUST_USE dp_status *dp_wire_encode_tensor(const dp_tensor *tensor, dp_rope *rope);
/* Appends a TensorProto as field `number` of the message that is being written: tag, length,
 * TensorProto. */
DP_MUST_USE dp_status *dp_wire_encode_tensor_field(uint32_t number, const dp_tensor *tensor,
                                                   dp_rope *rope);
/* As dp_wire_encode_tensor_field, but in the form of TensorFlow's debugger files: handles and
 * variants are in tensor_content too. Of a variant that cannot be sent only the name of its type is
 * written. A tensor with dtype and shape but without memory (a variable without a value) is written
 * without contents and values. */
DP_MUST_USE dp_status *dp_wire_encode_tensor_content_field(uint32_t number, const dp_tensor *tensor,
                                                           dp_rope *rope);

/* A ResourceHandleProto that is not in a tensor. */
DP_MUST_USE dp_status *dp_wire_decode_handle(dp_rope_reader *reader,
                                             dp_resource_handle **handle_out);
DP_MUST_USE dp_status *dp_wire_encode_handle(const dp_resource_handle *handle, dp_rope *rope);

#endif
