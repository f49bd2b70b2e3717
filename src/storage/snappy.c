/* Snappy streams (snappy.h). Packing works on blocks of 64 KiB, so that the distance of a copy fits
 * in two bytes. It looks for four bytes that occurred before in the block; a small table says where
 * each hash of four bytes was seen last. No state, any thread. */
#include "storage/snappy.h"

#include <string.h>
#include "storage/table_internal.h"

bool dp_snappy_length(const uint8_t *data, size_t length, uint64_t *length_out) {
  return dp_get_varint(data, data + length, length_out) != NULL && *length_out <= UINT32_MAX;
}

/* Reads the tag of an element: its length and, for a copy, the distance to its source. NULL when
 * bytes are missing. */
static const uint8_t *read_element(const uint8_t *at, const uint8_t *end, size_t *length_out,
                                   size_t *distance_out) {
  uint8_t tag = *at++;
  size_t extra = 0, size = tag >> 2;
  switch (tag & 3) {
  case 0: /* literal: up to 60 in the tag, else 1 to 4 bytes of length */
    if (size >= 60) {
      extra = size - 59;
      if ((size_t)(end - at) < extra)
        return NULL;
      size = 0;
      for (size_t i = 0; i < extra; ++i)
        size |= (size_t)at[i] << (8 * i);
    }
    *length_out = size + 1;
    *distance_out = 0;
    return at + extra;
  case 1:
    if (at == end)
      return NULL;
    *length_out = 4 + (size & 7);
    *distance_out = (size_t)(tag >> 5) << 8 | at[0];
    return at + 1;
  default:
    extra = (tag & 3) == 2 ? 2 : 4;
    if ((size_t)(end - at) < extra)
      return NULL;
    *length_out = size + 1;
    *distance_out = extra == 2 ? (size_t)at[0] | (size_t)at[1] << 8 : dp_get_fixed32(at);
    return at + extra;
  }
}

bool dp_snappy_unpack(const uint8_t *data, size_t length, uint8_t *to, size_t to_length) {
  uint64_t announced;
  const uint8_t *end = data + length;
  const uint8_t *at = dp_get_varint(data, end, &announced);
  if (!at || announced != to_length)
    return false;
  size_t done = 0;
  while (at < end) {
    bool is_literal = (*at & 3) == 0;
    size_t count, distance;
    if (!(at = read_element(at, end, &count, &distance)) || count > to_length - done)
      return false;
    if (is_literal) {
      if ((size_t)(end - at) < count)
        return false;
      memcpy(to + done, at, count);
      at += count;
    } else {
      if (distance == 0 || distance > done)
        return false;
      for (size_t i = 0; i < count; ++i) /* may overlap: repeats */
        to[done + i] = to[done + i - distance];
    }
    done += count;
  }
  return done == to_length;
}

/* ---- Packing ---- */
#define BLOCK ((size_t)1 << 16)
#define HASH_BITS 12

size_t dp_snappy_most(size_t length) {
  return 32 + length + length / 6;
}

static uint8_t *put_literal(uint8_t *to, const uint8_t *data, size_t length) {
  if (length == 0)
    return to;
  size_t size = length - 1;
  if (size < 60) {
    *to++ = (uint8_t)(size << 2);
  } else {
    int extra = size < 1 << 8 ? 1 : size < 1 << 16 ? 2 : size < 1 << 24 ? 3 : 4;
    *to++ = (uint8_t)((59 + extra) << 2);
    for (int i = 0; i < extra; ++i)
      *to++ = (uint8_t)(size >> (8 * i));
  }
  memcpy(to, data, length);
  return to + length;
}

/* One copy element copies at most 64 bytes, so a longer copy takes several. */
static uint8_t *put_copy(uint8_t *to, size_t distance, size_t length) {
  while (length > 0) {
    size_t count = length < 64 ? length : 64;
    *to++ = (uint8_t)((count - 1) << 2 | 2);
    *to++ = (uint8_t)distance;
    *to++ = (uint8_t)(distance >> 8);
    length -= count;
  }
  return to;
}

static uint32_t hash_four(const uint8_t *at) {
  return dp_get_fixed32(at) * 0x1e35a7bdu >> (32 - HASH_BITS);
}

static uint8_t *pack_block(const uint8_t *data, size_t length, uint8_t *to) {
  uint16_t seen[1 << HASH_BITS] = {0}; /* where each hash was last; 0 may be nowhere */
  size_t done = 0, at = 1;
  while (at + 4 <= length) {
    uint32_t hash = hash_four(data + at);
    size_t before = seen[hash], count = 4;
    seen[hash] = (uint16_t)at;
    if (memcmp(data + before, data + at, 4) != 0) {
      at += 1 + ((at - done) >> 5); /* the longer nothing is found, the larger the steps */
      continue;
    }
    while (at + count < length && data[before + count] == data[at + count])
      ++count;
    to = put_literal(to, data + done, at - done);
    to = put_copy(to, at - before, count);
    done = at += count;
  }
  return put_literal(to, data + done, length - done);
}

size_t dp_snappy_pack(const uint8_t *data, size_t length, uint8_t *to) {
  uint8_t *end = to + dp_put_varint(to, length);
  for (size_t at = 0; at < length; at += BLOCK)
    end = pack_block(data + at, length - at < BLOCK ? length - at : BLOCK, end);
  return (size_t)(end - to);
}
