/* Snappy streams: a varint length, then literals and copies of bytes that came before. The blocks
 * of old V1 checkpoints, TFRecord files and elements of datasets may be packed in this way. No
 * state, any thread. */
#ifndef DP_STORAGE_SNAPPY_H
#define DP_STORAGE_SNAPPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The unpacked length of a Snappy stream, as its head says; false when the head is malformed. */
bool dp_snappy_length(const uint8_t *data, size_t length, uint64_t *length_out);
/* Unpacks to `to`, whose to_length must be the unpacked length; false when the stream is malformed.
 */
bool dp_snappy_unpack(const uint8_t *data, size_t length, uint8_t *to, size_t to_length);

/* The most bytes that packing `length` bytes can give. */
size_t dp_snappy_most(size_t length);
/* Packs to `to`, which has room for dp_snappy_most(length) bytes, and returns the length of the
 * stream. `length` must be less than 2^32. */
size_t dp_snappy_pack(const uint8_t *data, size_t length, uint8_t *to);

#endif
