/* Checksums and fingerprints whose values other programs rely on. */
#ifndef DP_BASE_CHECKSUM_H
#define DP_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C (Castagnoli) by hardware where there is some; extend starts from an earlier value, 0 to
 * begin. */
uint32_t dp_crc32c(const void *data, size_t length);
uint32_t dp_crc32c_extend(uint32_t crc, const void *data, size_t length);
/* crc of A followed by B, from crc(A), crc(B) and B's length. */
uint32_t dp_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);
/* The masked form that TFRecord and checkpoints store. */
uint32_t dp_crc32c_mask(uint32_t crc);
uint32_t dp_crc32c_unmask(uint32_t masked);

/* FarmHash's Fingerprint64, TensorFlow's stable 64-bit fingerprint, and how it joins two. */
uint64_t dp_fingerprint64(const void *data, size_t length);
uint64_t dp_fingerprint_concat(uint64_t a, uint64_t b);
/* FarmHash's Fingerprint128. */
void dp_fingerprint128(const void *data, size_t length, uint64_t *low_out, uint64_t *high_out);
/* TensorFlow's Hash64 (its MurmurHash64A variant), for ops that expose it. */
uint64_t dp_hash64(const void *data, size_t length, uint64_t seed);

#endif
