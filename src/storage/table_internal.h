/* Constants of the table format, and the numbers in it: varints and little-endian fixed-size
 * numbers. Other files of this room use the numbers too. */
#ifndef DP_STORAGE_TABLE_INTERNAL_H
#define DP_STORAGE_TABLE_INTERNAL_H

#include "storage/table.h"

#define DP_TABLE_MAGIC 0xdb4775248b80fb57ull
#define DP_TABLE_FOOTER_SIZE 48
#define DP_TABLE_TRAILER_SIZE 5
#define DP_TABLE_BLOCK_SIZE 262144
#define DP_TABLE_RESTART_INTERVAL 16
enum { DP_TABLE_PLAIN = 0, DP_TABLE_SNAPPY = 1 };

/* Varints, as tables, checkpoints and protocol buffers have them. */
static inline size_t dp_put_varint(uint8_t *to, uint64_t value) {
  size_t length = 0;
  while (value >= 0x80) {
    to[length++] = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  to[length++] = (uint8_t)value;
  return length;
}
/* Returns the address behind the varint, or NULL when it is malformed. */
static inline const uint8_t *dp_get_varint(const uint8_t *at, const uint8_t *end,
                                           uint64_t *value_out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && at < end; shift += 7) {
    uint8_t byte = *at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value_out = value;
      return at;
    }
  }
  return NULL;
}
static inline void dp_put_fixed32(uint8_t *to, uint32_t value) {
  for (int i = 0; i < 4; ++i)
    to[i] = (uint8_t)(value >> (8 * i));
}
static inline uint32_t dp_get_fixed32(const uint8_t *from) {
  return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
         (uint32_t)from[3] << 24;
}
static inline void dp_put_fixed64(uint8_t *to, uint64_t value) {
  dp_put_fixed32(to, (uint32_t)value);
  dp_put_fixed32(to + 4, (uint32_t)(value >> 32));
}
static inline uint64_t dp_get_fixed64(const uint8_t *from) {
  return (uint64_t)dp_get_fixed32(from) | (uint64_t)dp_get_fixed32(from + 4) << 32;
}

#endif
