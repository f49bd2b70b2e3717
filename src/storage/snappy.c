/* Unpacking of Snappy streams: a varint length, then literals and copies from what is already
 * there. Only old V1 checkpoints have them. No state. */
#include <string.h>
#include "storage/table_internal.h"

bool dp_snappy_length(const uint8_t *data, size_t length, uint64_t *length_out) {
  return dp_get_varint(data, data + length, length_out) != NULL && *length_out <= UINT32_MAX;
}

/* One element's tag: how long it is and, for a copy, how far back. NULL when bytes are missing. */
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
