/* CRC32C: the remainder of the bytes, taken as a polynomial over GF(2), by Castagnoli's polynomial;
 * bit-reversed, begun and ended with all ones.
 *
 * The CPU's instruction has a latency of three cycles, and one can start per cycle. Therefore the
 * data is cut into three strands, whose checksums are computed side by side and then joined. To
 * join them, a remainder is shifted over n bytes: multiplied by x^(8n), which four tables of 256
 * entries do for a fixed n. Combining two checksums is the same product for any n. Without the
 * instruction, eight tables take eight bytes per step. The tables are made once, on first use. */
#include "base/checksum.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/checksum_internal.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

static const uint32_t polynomial = 0x82F63B78; /* bit-reversed */

enum { LONG_STRAND = 4096, SHORT_STRAND = 256 };

typedef uint32_t shift_table[4][256];

static uint32_t byte_tables[8][256];
static uint32_t powers[3 + 64]; /* powers[k] = x^(2^k): enough for any count of bytes */
static shift_table long_shift, short_shift;
static uint32_t (*extend_best)(uint32_t crc, const unsigned char *data, size_t length);

/* a * b mod the polynomial; the highest bit is the coefficient of x^0. */
static uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
    if (a & bit)
      product ^= b;
    b = b & 1 ? b >> 1 ^ polynomial : b >> 1;
  }
  return product;
}

/* x^(8 * bytes): what a remainder is multiplied by when `bytes` zeros follow. */
static uint32_t power_of_bytes(uint64_t bytes) {
  uint32_t product = UINT32_C(1) << 31;
  for (int k = 3; bytes != 0; bytes >>= 1, k++)
    if (bytes & 1)
      product = multiply(powers[k], product);
  return product;
}

static void make_shift_table(shift_table table, uint64_t bytes) {
  uint32_t power = power_of_bytes(bytes);
  for (int position = 0; position < 4; position++)
    for (uint32_t value = 0; value < 256; value++)
      table[position][value] = multiply(power, value << (8 * position));
}

static inline uint32_t shift(shift_table table, uint32_t crc) {
  return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^
         table[3][crc >> 24];
}

static inline uint64_t load64(const unsigned char *at) {
  uint64_t value;
  memcpy(&value, at, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
}

/* ---- without the instruction ---- */

static uint32_t extend_by_tables(uint32_t crc, const unsigned char *data, size_t length) {
  for (; length >= 8; length -= 8, data += 8) {
    uint64_t word = load64(data) ^ crc;
    crc = byte_tables[7][word & 255] ^ byte_tables[6][word >> 8 & 255] ^
          byte_tables[5][word >> 16 & 255] ^ byte_tables[4][word >> 24 & 255] ^
          byte_tables[3][word >> 32 & 255] ^ byte_tables[2][word >> 40 & 255] ^
          byte_tables[1][word >> 48 & 255] ^ byte_tables[0][word >> 56];
  }
  for (; length > 0; length--, data++)
    crc = crc >> 8 ^ byte_tables[0][(crc ^ *data) & 255];
  return crc;
}

/* ---- with the instruction ---- */

#if defined(__x86_64__)
#define CRC_TARGET __attribute__((target("sse4.2")))
CRC_TARGET static inline uint32_t step8(uint32_t crc, uint64_t word) {
  return (uint32_t)__builtin_ia32_crc32di(crc, word);
}
CRC_TARGET static inline uint32_t step1(uint32_t crc, unsigned char byte) {
  return __builtin_ia32_crc32qi(crc, byte);
}
static bool has_instruction(void) {
  return __builtin_cpu_supports("sse4.2");
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define CRC_TARGET
static inline uint32_t step8(uint32_t crc, uint64_t word) {
  return __crc32cd(crc, word);
}
static inline uint32_t step1(uint32_t crc, unsigned char byte) {
  return __crc32cb(crc, byte);
}
static bool has_instruction(void) {
  return true;
}
#endif

#ifdef CRC_TARGET
/* Adds as many whole groups of three strands as `data` holds to *crc. Returns how many bytes that
 * was. */
CRC_TARGET static inline size_t extend_strands(uint32_t *crc, const unsigned char *data,
                                               size_t length, size_t strand, shift_table table) {
  size_t done = 0;
  for (; length - done >= 3 * strand; done += 3 * strand) {
    uint32_t first = *crc, second = 0, third = 0;
    const unsigned char *at = data + done;
    for (const unsigned char *end = at + strand; at < end; at += 8) {
      first = step8(first, load64(at));
      second = step8(second, load64(at + strand));
      third = step8(third, load64(at + 2 * strand));
    }
    *crc = shift(table, shift(table, first) ^ second) ^ third;
  }
  return done;
}

CRC_TARGET static uint32_t extend_by_instruction(uint32_t crc, const unsigned char *data,
                                                 size_t length) {
  size_t done = extend_strands(&crc, data, length, LONG_STRAND, long_shift);
  done += extend_strands(&crc, data + done, length - done, SHORT_STRAND, short_shift);
  for (; length - done >= 8; done += 8)
    crc = step8(crc, load64(data + done));
  for (; done < length; done++)
    crc = step1(crc, data[done]);
  return crc;
}
#endif

static void make_tables(void) {
  for (uint32_t value = 0; value < 256; value++) {
    uint32_t crc = value;
    for (int bit = 0; bit < 8; bit++)
      crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
    byte_tables[0][value] = crc;
  }
  for (int t = 1; t < 8; t++)
    for (int value = 0; value < 256; value++) {
      uint32_t before = byte_tables[t - 1][value];
      byte_tables[t][value] = before >> 8 ^ byte_tables[0][before & 255];
    }
  powers[0] = UINT32_C(1) << 30; /* x */
  for (int k = 1; k < 3 + 64; k++)
    powers[k] = multiply(powers[k - 1], powers[k - 1]);
  make_shift_table(long_shift, LONG_STRAND);
  make_shift_table(short_shift, SHORT_STRAND);
  extend_best = extend_by_tables;
#ifdef CRC_TARGET
  if (has_instruction())
    extend_best = extend_by_instruction;
#endif
}

static void prepare(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_tables);
}

uint32_t dp_crc32c_extend(uint32_t crc, const void *data, size_t length) {
  prepare();
  return ~extend_best(~crc, data, length);
}

uint32_t dp_crc32c_extend_portable(uint32_t crc, const void *data, size_t length) {
  prepare();
  return ~extend_by_tables(~crc, data, length);
}

uint32_t dp_crc32c(const void *data, size_t length) {
  return dp_crc32c_extend(0, data, length);
}

uint32_t dp_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
  prepare();
  return multiply(power_of_bytes(length_b), crc_a) ^ crc_b;
}

/* The CRC of data that holds its own CRC is a constant, so nested formats would check nothing.
 * Files therefore store the CRC rotated and with this number added. */
static const uint32_t mask_delta = 0xa282ead8;

uint32_t dp_crc32c_mask(uint32_t crc) {
  return (crc >> 15 | crc << 17) + mask_delta;
}

uint32_t dp_crc32c_unmask(uint32_t masked) {
  uint32_t turned = masked - mask_delta;
  return turned >> 17 | turned << 15;
}
