/* Fuzzes the decoder of TensorProto. The first byte says into which pieces the rest is cut. A
 * tensor that is accepted must be the same after encoding and decoding. A sanitizer sees reads
 * outside of the message. */
#include <stdlib.h>
#include <string.h>
#include "pieces.h"
#include "wire/tensor_codec.h"

static void check_again(const dp_tensor *tensor) {
  dp_rope rope = {0};
  dp_tensor again;
  if (dp_wire_encode_tensor(tensor, &rope))
    abort();
  dp_rope_reader reader = dp_rope_read(&rope);
  if (dp_wire_decode_tensor(&reader, &again))
    abort();
  if (again.dtype != tensor->dtype || !dp_shape_equal(&again.shape, &tensor->shape))
    abort();
  size_t bytes = dp_tensor_bytes(tensor);
  if (dp_dtype_is_plain(tensor->dtype) && bytes && memcmp(again.data, tensor->data, bytes))
    abort();
  dp_tensor_deinit(&again);
  dp_rope_deinit(&rope);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  dp_buffer_set_limit((uint64_t)256 << 20);
  dp_rope rope = {0};
  cut(data + 1, size - 1, data[0] ? data[0] : 4096, &rope);
  dp_rope_reader reader = dp_rope_read(&rope);
  dp_tensor tensor;
  dp_status *status = dp_wire_decode_tensor(&reader, &tensor);
  if (!status) {
    if (dp_tensor_bytes(&tensor) < 1 << 20)
      check_again(&tensor);
    dp_tensor_deinit(&tensor);
  }
  dp_status_release(status);
  dp_rope_deinit(&rope);
  return 0;
}
