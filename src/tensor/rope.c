/* Ropes: appending by copy into a growing tail, by reference into pieces; reading across pieces.
 *
 * Tail buffers start at 4 KiB and double up to 64 KiB. A rope that alternates between small bytes
 * and references keeps filling the same tail buffer. Only the rope writes to it, behind what it has
 * used, so bytes that others hold by reference never change. A rope and its readers belong to one
 * thread at a time. */
#include "tensor/rope.h"

#define FIRST_TAIL ((size_t)4 << 10)
#define LARGEST_TAIL ((size_t)64 << 10)

void dp_rope_deinit(dp_rope *rope) {
  for (size_t i = 0; i < rope->pieces.count; i++)
    dp_buffer_release(rope->pieces.items[i].owner);
  DP_ARRAY_FREE(&rope->pieces);
  dp_buffer_release(rope->tail);
  *rope = (dp_rope){.length = 0};
}

/* ---- Writing ----------------------------------------------------------------------------------
 */

/* The size of the next tail: about the rope's length so far, between FIRST_TAIL and LARGEST_TAIL,
 * but at least `least`. */
static size_t tail_size(const dp_rope *rope, size_t least) {
  size_t size = FIRST_TAIL;
  while (size < LARGEST_TAIL && size < rope->length)
    size *= 2;
  return size < least ? least : size;
}

static dp_status *check_growth(const dp_rope *rope, size_t length) {
  if (length <= SIZE_MAX - rope->length)
    return NULL;
  return dp_status_create(DP_RESOURCE_EXHAUSTED,
                          "A message of %zu bytes cannot grow by %zu more bytes", rope->length,
                          length);
}

static void set_tail(dp_rope *rope, dp_buffer *buffer) {
  dp_buffer_release(rope->tail);
  rope->tail = buffer;
  rope->tail_free = buffer->data;
  rope->tail_room = buffer->size;
}

/* Makes the next `length` bytes of the tail part of the rope. The caller has checked that the tail
 * has room. */
static uint8_t *use_tail(dp_rope *rope, size_t length) {
  uint8_t *data = rope->tail_free;
  dp_piece *last = rope->pieces.count > 0 ? &rope->pieces.items[rope->pieces.count - 1] : NULL;
  if (last && last->owner == rope->tail && last->data + last->length == data) {
    last->length += length;
  } else {
    dp_piece piece = {.owner = dp_buffer_retain(rope->tail), .data = data, .length = length};
    DP_ARRAY_PUSH(&rope->pieces, piece);
  }
  rope->tail_free += length;
  rope->tail_room -= length;
  rope->length += length;
  return data;
}

dp_status *dp_rope_extend(dp_rope *rope, size_t length, uint8_t **data_out) {
  DP_RETURN_IF_ERROR(check_growth(rope, length));
  if (!rope->tail || length > rope->tail_room) {
    dp_buffer *buffer;
    DP_RETURN_IF_ERROR(dp_buffer_create(tail_size(rope, length), &buffer));
    set_tail(rope, buffer);
  }
  *data_out = length > 0 ? use_tail(rope, length) : rope->tail_free;
  return NULL;
}

dp_status *dp_rope_append(dp_rope *rope, const void *data, size_t length) {
  const uint8_t *from = data;
  if (length <= rope->tail_room) {
    if (length > 0)
      memcpy(use_tail(rope, length), from, length);
    return NULL;
  }
  DP_RETURN_IF_ERROR(check_growth(rope, length));
  /* Bytes that fit go into this tail, the rest into the next. The next tail is created first, so
   * that a failure leaves the rope as it was. */
  size_t first = rope->tail_room;
  size_t rest = length - first;
  dp_buffer *buffer;
  DP_RETURN_IF_ERROR(dp_buffer_create(tail_size(rope, rest), &buffer));
  if (first > 0)
    memcpy(use_tail(rope, first), from, first);
  set_tail(rope, buffer);
  memcpy(use_tail(rope, rest), from + first, rest);
  return NULL;
}

void dp_rope_append_piece(dp_rope *rope, dp_buffer *owner, const void *data, size_t length) {
  if (length == 0) {
    dp_buffer_release(owner);
    return;
  }
  dp_piece piece = {.owner = owner, .data = data, .length = length};
  DP_ARRAY_PUSH(&rope->pieces, piece);
  rope->length += length;
}

void dp_rope_append_rope(dp_rope *rope, dp_rope *from) {
  if (rope->pieces.count == 0 && rope->tail_room <= from->tail_room) {
    dp_rope_deinit(rope);
    *rope = *from;
    *from = (dp_rope){.length = 0};
    return;
  }
  DP_ARRAY_RESERVE(&rope->pieces, rope->pieces.count + from->pieces.count);
  for (size_t i = 0; i < from->pieces.count; i++)
    rope->pieces.items[rope->pieces.count++] = from->pieces.items[i];
  rope->length += from->length;
  from->pieces.count = 0; /* the references have moved */
  if (from->tail_room > rope->tail_room) {
    dp_buffer_release(rope->tail);
    rope->tail = from->tail;
    rope->tail_free = from->tail_free;
    rope->tail_room = from->tail_room;
    from->tail = NULL;
  }
  dp_rope_deinit(from);
}

/* ---- The whole ----------------------------------------------------------------------------------
 */

void dp_rope_flatten(const dp_rope *rope, void *to) {
  uint8_t *next = to;
  for (size_t i = 0; i < rope->pieces.count; i++) {
    const dp_piece *piece = &rope->pieces.items[i];
    if (piece->length > 0)
      memcpy(next, piece->data, piece->length);
    next += piece->length;
  }
}

dp_status *dp_rope_join(const dp_rope *rope, dp_buffer **buffer_out, const uint8_t **data_out) {
  dp_rope_reader reader = dp_rope_read(rope);
  return dp_rope_share(&reader, rope->length, 1, buffer_out, data_out);
}

/* ---- Reading ------------------------------------------------------------------------------------
 */

dp_rope_reader dp_rope_read(const dp_rope *rope) {
  return (dp_rope_reader){.rope = rope, .piece = 0, .offset = 0, .remaining = rope->length};
}

/* Steps over the end of a piece (and over empty ones) so that the reader stands on a byte. */
static void settle(dp_rope_reader *reader) {
  while (reader->piece < reader->rope->pieces.count &&
         reader->offset >= reader->rope->pieces.items[reader->piece].length) {
    reader->offset = 0;
    reader->piece++;
  }
}

/* How many of the next `wanted` bytes are in one piece; *data_out points to them. 0 only at the
 * end. */
static size_t contiguous(const dp_rope_reader *settled, size_t wanted, const uint8_t **data_out) {
  if (wanted == 0 || settled->piece >= settled->rope->pieces.count)
    return 0;
  const dp_piece *piece = &settled->rope->pieces.items[settled->piece];
  size_t here = piece->length - settled->offset;
  *data_out = piece->data + settled->offset;
  return here < wanted ? here : wanted;
}

size_t dp_rope_peek(const dp_rope_reader *reader, const uint8_t **data_out) {
  dp_rope_reader settled = *reader;
  settle(&settled);
  *data_out = NULL;
  return contiguous(&settled, settled.remaining, data_out);
}

/* Moves over `length` <= remaining bytes, copying them to `to` unless it is NULL. */
static void advance(dp_rope_reader *reader, uint8_t *to, size_t length) {
  while (length > 0) {
    settle(reader);
    const uint8_t *data;
    size_t step = contiguous(reader, length, &data);
    if (step == 0)
      return; /* the rope changed under its reader */
    if (to) {
      memcpy(to, data, step);
      to += step;
    }
    reader->offset += step;
    reader->remaining -= step;
    length -= step;
  }
}

bool dp_rope_skip(dp_rope_reader *reader, size_t length) {
  if (length > reader->remaining)
    return false;
  advance(reader, NULL, length);
  return true;
}

bool dp_rope_copy_out(dp_rope_reader *reader, void *to, size_t length) {
  if (length > reader->remaining)
    return false;
  advance(reader, to, length);
  return true;
}

bool dp_rope_sub_reader(dp_rope_reader *reader, size_t length, dp_rope_reader *sub_out) {
  if (length > reader->remaining)
    return false;
  dp_rope_reader sub = *reader;
  sub.remaining = length;
  advance(reader, NULL, length);
  *sub_out = sub;
  return true;
}

dp_status *dp_rope_share(dp_rope_reader *reader, size_t length, size_t alignment,
                         dp_buffer **buffer_out, const uint8_t **data_out) {
  if (length > reader->remaining)
    return dp_status_create(DP_OUT_OF_RANGE, "%zu bytes were asked for, but only %zu are left",
                            length, reader->remaining);
  settle(reader);
  const uint8_t *data = NULL;
  bool is_whole = length > 0 && contiguous(reader, length, &data) == length;
  dp_buffer *owner = is_whole ? reader->rope->pieces.items[reader->piece].owner : NULL;
  if (owner && (alignment <= 1 || (uintptr_t)data % alignment == 0)) {
    *buffer_out = dp_buffer_retain(owner);
    *data_out = data;
    advance(reader, NULL, length);
    return NULL;
  }
  dp_buffer *copy;
  DP_RETURN_IF_ERROR(dp_buffer_create(length, &copy));
  advance(reader, copy->data, length);
  *buffer_out = copy;
  *data_out = copy->data;
  return NULL;
}
