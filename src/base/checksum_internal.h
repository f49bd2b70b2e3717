/* The form of CRC32C that needs no special instruction. It is declared for the unit tests, which
 * compare it with the form that uses the CPU's instruction. */
#ifndef DP_BASE_CHECKSUM_INTERNAL_H
#define DP_BASE_CHECKSUM_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

uint32_t dp_crc32c_extend_portable(uint32_t crc, const void *data, size_t length);

#endif
