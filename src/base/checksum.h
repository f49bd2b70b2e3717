/* Checksums and fingerprints whose values other programs rely on: they are stored in TFRecord files
 * and checkpoints, and TensorFlow's ops return them. They must never change. For a hash that may
 * change between releases use dp_hash_bytes (base/map.h). All functions are pure and may be called
 * from any thread. */
#ifndef DP_BASE_CHECKSUM_H
#define DP_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C (Castagnoli), with the CPU's instruction where there is one. dp_crc32c_extend continues
 * from the checksum of the bytes before `data`; 0 is the checksum of no bytes. */
uint32_t dp_crc32c(const void *data, size_t length);
uint32_t dp_crc32c_extend(uint32_t crc, const void *data, size_t length);
/* crc of A followed by B, from crc(A), crc(B) and B's length. */
uint32_t dp_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);
/* The masked form that TFRecord and checkpoints store. */
uint32_t dp_crc32c_mask(uint32_t crc);
uint32_t dp_crc32c_unmask(uint32_t masked);

/* FarmHash's Fingerprint64, TensorFlow's stable 64-bit fingerprint; and TensorFlow's
 * FingerprintCat64, which joins two fingerprints into one. */
uint64_t dp_fingerprint64(const void *data, size_t length);
uint64_t dp_fingerprint_concat(uint64_t a, uint64_t b);
/* FarmHash's Fingerprint128. */
void dp_fingerprint128(const void *data, size_t length, uint64_t *low_out, uint64_t *high_out);
/* TensorFlow's Hash64 (its MurmurHash64A variant), for ops that expose it. */
uint64_t dp_hash64(const void *data, size_t length, uint64_t seed);

#endif
