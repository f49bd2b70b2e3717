/* TF_Buffer: bytes that pass between a program and the library, mostly serialized messages. Bytes
 * that the library allocates come from malloc and carry its own deallocator; bytes that the program
 * put into a buffer stay the program's. A buffer belongs to one thread at a time. */
#include <stdlib.h>
#include <string.h>

#include "client/client_internal.h"

static void free_data(void *data, size_t length) {
  free(data);
}

TF_Buffer *TF_NewBuffer(void) {
  return DP_NEW(TF_Buffer);
}

TF_Buffer *TF_NewBufferFromString(const void *proto, size_t proto_len) {
  void *copy = dp_try_malloc(proto_len ? proto_len : 1);
  if (!copy)
    return NULL;
  if (proto_len)
    memcpy(copy, proto, proto_len);
  TF_Buffer *buffer = TF_NewBuffer();
  *buffer = (TF_Buffer){copy, proto_len, free_data};
  return buffer;
}

void TF_DeleteBuffer(TF_Buffer *buffer) {
  if (!buffer)
    return;
  if (buffer->data_deallocator)
    buffer->data_deallocator((void *)buffer->data, buffer->length);
  dp_free(buffer);
}

TF_Buffer TF_GetBuffer(TF_Buffer *buffer) {
  return *buffer;
}

dp_status *dp_client_pack(const void *message, TF_Buffer *buffer) {
  if (buffer->data)
    return DP_INVALID("Passing non-empty TF_Buffer is invalid.");
  dp_rope rope = {0};
  dp_status *status = dp_wire_pack(message, &rope);
  void *data = status ? NULL : dp_try_malloc(rope.length ? rope.length : 1);
  if (data) {
    dp_rope_flatten(&rope, data);
    *buffer = (TF_Buffer){data, rope.length, free_data};
  } else if (!status) {
    status = dp_status_create(DP_RESOURCE_EXHAUSTED,
                              "Failed to allocate memory to serialize a message of size %zu",
                              rope.length);
  }
  dp_rope_deinit(&rope);
  return status;
}
