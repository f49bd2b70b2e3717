/* Huffman codes of small JPEG images, and the coefficients that they encode. Codes of up to
 * DP_JPEG_PEEK_BITS bits are found in a table that is indexed by the next bits; longer codes, which
 * are rare, are found by comparing with the limits of each length. The contracts are in
 * jpeg_internal.h. */
#include "kernels/codecs/jpeg_internal.h"
#include <string.h>

const uint8_t dp_jpeg_natural_order[DP_JPEG_COEFFICIENTS] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/* ---- Codes ---- */
static void peek_put(dp_jpeg_code *code, uint32_t bits, int length, uint8_t symbol) {
  uint32_t step = 1u << (DP_JPEG_PEEK_BITS - length);
  uint16_t *to = code->peek + bits * step;
  for (uint32_t i = 0; i < step; ++i)
    to[i] = (uint16_t)(symbol << 8 | length);
}

static bool code_make(dp_jpeg_code *code, int largest) {
  const uint8_t *symbols = code->definition + DP_JPEG_LENGTHS;
  uint32_t bits = 0;
  int32_t place = 0;
  memset(code->peek, 0, sizeof code->peek);
  for (int length = 1; length <= DP_JPEG_LENGTHS; ++length, bits <<= 1) {
    code->places[length] = place - (int32_t)bits;
    for (int i = code->definition[length - 1]; i > 0; --i, ++bits, ++place) {
      if (symbols[place] > largest || bits + 1 >= 1u << length) /* all ones are no code */
        return false;
      if (length <= DP_JPEG_PEEK_BITS)
        peek_put(code, bits, length, symbols[place]);
    }
    code->ends[length] = bits << (DP_JPEG_LENGTHS - length);
  }
  return true;
}

bool dp_jpeg_code_set(dp_jpeg_code *code, const uint8_t *definition, size_t length, int largest) {
  if (code->length == length && memcmp(code->definition, definition, length) == 0)
    return true;
  memcpy(code->definition, definition, length);
  bool is_good = code_make(code, largest);
  code->length = is_good ? length : 0;
  return is_good;
}

/* ---- Bits ---- */
static inline bool has_marker_byte(uint64_t bytes) {
  const uint64_t ones = 0x0101010101010101;
  return ((~bytes - ones) & bytes & (ones << 7)) != 0;
}

/* Byte by byte: 0xff followed by 0 is a byte of data; 0xff followed by anything else is a marker,
 * which ends the data. */
static bool fill_carefully(dp_jpeg_bits *bits) {
  if (bits->count < 0)
    return false;
  while (bits->count <= 56 && bits->at < bits->end) {
    uint8_t byte = *bits->at;
    if (byte == 0xff && (bits->end - bits->at < 2 || bits->at[1] != 0))
      break;
    bits->at += byte == 0xff ? 2 : 1;
    bits->window |= (uint64_t)byte << (56 - bits->count);
    bits->count += 8;
  }
  return true;
}

/* Fills the window with enough bits for one code and the number after it, or with all that are left
 * and zeros. The window may contain correct bits beyond `count`; they will be added again later. */
static inline bool fill(dp_jpeg_bits *bits) {
  if (bits->count >= 32)
    return true;
  if (bits->count < 0 || bits->end - bits->at < 8)
    return fill_carefully(bits);
  uint64_t bytes;
  memcpy(&bytes, bits->at, sizeof bytes);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  bytes = __builtin_bswap64(bytes);
#endif
  if (has_marker_byte(bytes))
    return fill_carefully(bits);
  int taken = (63 - bits->count) / 8;
  bits->window |= bytes >> bits->count;
  bits->at += taken;
  bits->count += 8 * taken;
  return true;
}

static inline void skip(dp_jpeg_bits *bits, int count) {
  bits->window <<= count;
  bits->count -= count;
}

bool dp_jpeg_bits_at_end(const dp_jpeg_bits *bits) {
  return bits->count >= 0 && bits->count < 8 && bits->end - bits->at >= 2 && bits->at[0] == 0xff &&
         bits->at[1] == 0xd9;
}

/* ---- Coefficients ---- */
/* The entry for a long code, in the form of `peek`; 0 for none. */
static __attribute__((noinline)) uint32_t find_long(const dp_jpeg_code *code, uint64_t window) {
  uint32_t bits = (uint32_t)(window >> (64 - DP_JPEG_LENGTHS));
  for (int length = DP_JPEG_PEEK_BITS + 1; length <= DP_JPEG_LENGTHS; ++length)
    if (bits < code->ends[length]) {
      int32_t place = (int32_t)(bits >> (DP_JPEG_LENGTHS - length)) + code->places[length];
      return (uint32_t)code->definition[DP_JPEG_LENGTHS + place] << 8 | (uint32_t)length;
    }
  return 0;
}

static inline uint32_t next_symbol(const dp_jpeg_code *code, dp_jpeg_bits *bits) {
  uint32_t found = code->peek[bits->window >> (64 - DP_JPEG_PEEK_BITS)];
  if (__builtin_expect(found == 0, 0))
    found = find_long(code, bits->window);
  skip(bits, found & 0xff);
  return found;
}

/* A number of 1 to 15 bits; those that begin with a zero bit are negative. */
static inline int32_t next_number(dp_jpeg_bits *bits, int size) {
  int32_t number = (int32_t)(bits->window >> (64 - size));
  int32_t is_negative = (int32_t)(bits->window >> 63) - 1;
  skip(bits, size);
  return number + (is_negative & (1 - (1 << size)));
}

static inline bool is_short(int32_t value) {
  return value == (int16_t)value;
}

static bool read_first(dp_jpeg_bits *bits, dp_jpeg_channel *channel, int16_t *block) {
  if (!fill(bits))
    return false;
  uint32_t found = next_symbol(channel->first, bits);
  int size = (int)(found >> 8);
  if (found == 0)
    return false;
  int32_t value = channel->last_first + (size > 0 ? next_number(bits, size) : 0);
  if (!is_short(value) || !is_short(value * channel->factors[0]))
    return false;
  channel->last_first = value;
  block[0] = (int16_t)(value * channel->factors[0]);
  return true;
}

static int read_others(dp_jpeg_bits *bits, const dp_jpeg_channel *channel, int16_t *block) {
  int last = 0;
  for (int at = 1; at < DP_JPEG_COEFFICIENTS; ++at) {
    if (!fill(bits))
      return -1;
    uint32_t found = next_symbol(channel->others, bits);
    int run = (int)(found >> 12), size = (int)(found >> 8 & 15);
    if (found == 0)
      return -1;
    if (size == 0 && run == 0)
      break;
    at += run;
    if (at >= DP_JPEG_COEFFICIENTS || (size == 0 && run != 15))
      return -1;
    if (size == 0)
      continue;
    int32_t product = next_number(bits, size) * channel->factors[at];
    if (!is_short(product))
      return -1;
    block[dp_jpeg_natural_order[at]] = (int16_t)product;
    last = at;
  }
  return last;
}

int dp_jpeg_read_block(dp_jpeg_bits *bits, dp_jpeg_channel *channel, int16_t *block) {
  dp_jpeg_bits own = *bits;
  if (!read_first(&own, channel, block))
    return -1;
  int last = read_others(&own, channel, block);
  *bits = own;
  return own.count < 0 ? -1 : last;
}
