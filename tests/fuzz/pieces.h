/* Cuts a fuzzer's input into a rope of pieces, as gRPC delivers a message. */
#ifndef DP_TESTS_FUZZ_PIECES_H
#define DP_TESTS_FUZZ_PIECES_H

#include <stdlib.h>
#include <string.h>
#include "tensor/rope.h"

/* Adds pieces of at most `piece` bytes, each in memory of its own. */
static inline void cut(const uint8_t *data, size_t length, size_t piece, dp_rope *rope) {
  for (size_t at = 0; at < length; at += piece) {
    size_t here = length - at < piece ? length - at : piece;
    dp_buffer *buffer = NULL;
    if (dp_buffer_create(here, &buffer))
      abort();
    memcpy(buffer->data, data + at, here);
    dp_rope_append_piece(rope, buffer, buffer->data, here);
  }
}

#endif
