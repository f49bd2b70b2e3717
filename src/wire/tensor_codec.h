/* TensorProto: the only code that reads and writes tensors on the wire.
 *
 * Decoding accepts what TensorFlow's Tensor::FromProto accepts: tensor_content or the typed *_val
 * fields, packed or not, with the last value repeated when there are fewer than elements and zeros
 * when there are none. Every size is checked against the bytes that are really there before memory
 * is taken. Large contents that lie in one aligned piece are not copied: the tensor shares the
 * rope's buffer (and then is not unique, so nobody writes to it).
 * Encoding writes plain dtypes as tensor_content, large ones by reference to the tensor's buffer,
 * and strings, handles and variants as *_val fields, which every reader understands.
 * No state, any thread. */
#ifndef DP_WIRE_TENSOR_CODEC_H
#define DP_WIRE_TENSOR_CODEC_H

#include "base/status.h"
#include "tensor/rope.h"
#include "tensor/tensor.h"

/* Contents of at least this many bytes are shared when read... */
#define DP_WIRE_SHARE_BYTES 1024
/* ...and sent by reference. */
#define DP_WIRE_REFERENCE_BYTES 512
/* Tensors inside variants inside tensors. */
#define DP_WIRE_MAX_TENSOR_DEPTH 16

/* All remaining bytes of `reader` are one TensorProto. INVALID_ARGUMENT says what is wrong with it;
 * RESOURCE_EXHAUSTED when the memory cannot be had. */
DP_MUST_USE dp_status *dp_wire_decode_tensor(dp_rope_reader *reader, dp_tensor *tensor_out);
/* From bytes that the tensor must not keep (an attribute's): always copies. */
DP_MUST_USE dp_status *dp_wire_decode_tensor_bytes(const void *data, size_t length,
                                                   dp_tensor *tensor_out);

/* Appends a TensorProto. The rope retains the buffer of a large tensor. An unset tensor is written
 * as an empty float vector, which is what TensorFlow sends for a dead one. */
DP_MUST_USE dp_status *dp_wire_encode_tensor(const dp_tensor *tensor, dp_rope *rope);
/* Appends it as field `number` of the message that is being written: tag, length, TensorProto. */
DP_MUST_USE dp_status *dp_wire_encode_tensor_field(uint32_t number, const dp_tensor *tensor,
                                                   dp_rope *rope);
/* The same for the debugger's files, as TensorFlow writes them: handles and variants are encoded in
 * tensor_content, too, variants that cannot be sent by the name of their type only. A tensor that
 * has a dtype and a shape and no buffer (of a variable without value) has neither contents nor
 * values. */
DP_MUST_USE dp_status *dp_wire_encode_tensor_content_field(uint32_t number, const dp_tensor *tensor,
                                                           dp_rope *rope);

/* ResourceHandleProto, for whoever keeps handles elsewhere than in tensors. */
DP_MUST_USE dp_status *dp_wire_decode_handle(dp_rope_reader *reader,
                                             dp_resource_handle **handle_out);
DP_MUST_USE dp_status *dp_wire_encode_handle(const dp_resource_handle *handle, dp_rope *rope);

#endif
