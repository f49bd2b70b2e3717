/* A rope: bytes in pieces, each piece kept alive by a buffer. Messages travel as ropes, so that the
 * memory of a tensor is sent and received without a copy. Writers copy a few bytes into a growing
 * tail and add large memory by reference; readers walk the pieces without joining them. A rope has
 * one owner and is used by one thread at a time; its buffers may be shared. */
#ifndef DP_TENSOR_ROPE_H
#define DP_TENSOR_ROPE_H

#include "base/memory.h"
#include "base/text.h"
#include "tensor/buffer.h"

typedef struct dp_piece {
  dp_buffer *owner; /* retained */
  const uint8_t *data;
  size_t length;
} dp_piece;

typedef struct dp_rope {
  DP_ARRAY(dp_piece) pieces;
  size_t length; /* all pieces together */
  /* Where appended bytes go: a buffer that only this rope writes to. The bytes used so far are
   * `pieces`, which may have pieces of other buffers between them. */
  dp_buffer *tail; /* retained, or NULL */
  uint8_t *tail_free;
  size_t tail_room;
} dp_rope;

/* Zeroed memory is an empty rope. */
void dp_rope_deinit(dp_rope *rope);
/* Copies bytes to the tail. */
DP_MUST_USE dp_status *dp_rope_append(dp_rope *rope, const void *data, size_t length);
/* Adds `length` bytes in one piece for the caller to write. */
DP_MUST_USE dp_status *dp_rope_extend(dp_rope *rope, size_t length, uint8_t **data_out);
/* Adds memory by reference; consumes the reference to `owner`. Without an owner (NULL) the memory
 * must outlive the rope. */
void dp_rope_append_piece(dp_rope *rope, dp_buffer *owner, const void *data, size_t length);
/* Moves all of `from` behind `rope`; `from` is empty afterwards. */
void dp_rope_append_rope(dp_rope *rope, dp_rope *from);
/* Copies everything into `to` (rope->length bytes). */
void dp_rope_flatten(const dp_rope *rope, void *to);
/* One contiguous buffer with everything: the piece itself when there is only one. */
DP_MUST_USE dp_status *dp_rope_join(const dp_rope *rope, dp_buffer **buffer_out,
                                    const uint8_t **data_out);

/* Walks a rope (or a part of one). Does not own; the rope must outlive it unchanged. */
typedef struct dp_rope_reader {
  const dp_rope *rope;
  size_t piece;     /* index */
  size_t offset;    /* in that piece */
  size_t remaining; /* up to the end of this reader's part */
} dp_rope_reader;

dp_rope_reader dp_rope_read(const dp_rope *rope);
/* How many bytes from here are contiguous (at most `remaining`); *data_out points to them. */
size_t dp_rope_peek(const dp_rope_reader *reader, const uint8_t **data_out);
/* Both move the reader by `length` bytes. False, and the reader stays, when fewer remain. */
bool dp_rope_skip(dp_rope_reader *reader, size_t length);
bool dp_rope_copy_out(dp_rope_reader *reader, void *to, size_t length);
/* The next `length` bytes as a reader of their own; this reader moves past them. */
bool dp_rope_sub_reader(dp_rope_reader *reader, size_t length, dp_rope_reader *sub_out);
/* The next `length` bytes as a buffer reference: shared when they lie in one piece and the address
 * is a multiple of `alignment`, else copied. Moves past them. */
DP_MUST_USE dp_status *dp_rope_share(dp_rope_reader *reader, size_t length, size_t alignment,
                                     dp_buffer **buffer_out, const uint8_t **data_out);

#endif
