/* Snappy streams: a varint length, then literals and copies from what is already there. Old V1
 * checkpoints are packed so, and elements of datasets. No state, any thread. */
#ifndef DP_STORAGE_SNAPPY_H
#define DP_STORAGE_SNAPPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of what a Snappy stream holds; false when it is malformed. */
bool dp_snappy_length(const uint8_t *data, size_t length, uint64_t *length_out);
/* Unpacks into `to`, which has exactly that length; false when the stream is malformed. */
bool dp_snappy_unpack(const uint8_t *data, size_t length, uint8_t *to, size_t to_length);

/* The most that packing gives for `length` bytes. */
size_t dp_snappy_most(size_t length);
/* Packs into `to`, which has room for that; gives the stream's length. At most 4 GB less one. */
size_t dp_snappy_pack(const uint8_t *data, size_t length, uint8_t *to);

#endif
