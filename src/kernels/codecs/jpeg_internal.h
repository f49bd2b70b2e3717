/* The coded bits of small JPEG images: what codec_jpeg_scan.c does for codec_jpeg_small.c.
 * Everything is of one image, on one thread. */
#ifndef DP_KERNELS_CODEC_JPEG_INTERNAL_H
#define DP_KERNELS_CODEC_JPEG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DP_JPEG_LENGTHS 16 /* of codes, in bits: 1 to 16 */
#define DP_JPEG_MOST_SYMBOLS 256
#define DP_JPEG_COEFFICIENTS 64 /* of a block */

/* From their order in files (zigzag) to rows and columns. */
extern const uint8_t dp_jpeg_natural_order[DP_JPEG_COEFFICIENTS];

/* ---- A Huffman code ---- */
#define DP_JPEG_PEEK_BITS 9
typedef struct dp_jpeg_code {
  /* As in the file: how many codes there are of each length, then what they mean. */
  uint8_t definition[DP_JPEG_LENGTHS + DP_JPEG_MOST_SYMBOLS];
  size_t length;                         /* of the definition; 0 before the first */
  uint16_t peek[1 << DP_JPEG_PEEK_BITS]; /* symbol << 8 | length; 0 for longer codes */
  uint32_t ends[DP_JPEG_LENGTHS + 1];    /* the first 16 bits behind codes of that length */
  int32_t places[DP_JPEG_LENGTHS + 1];   /* from a code of that length to its symbol */
} dp_jpeg_code;
/* Nothing is done when it is the same as the last. False for one that cannot be: the lengths do not
 * fit, or a symbol is above the largest. */
bool dp_jpeg_code_set(dp_jpeg_code *code, const uint8_t *definition, size_t length, int largest);

/* ---- The bits of a scan ---- */
typedef struct dp_jpeg_bits {
  const uint8_t *at, *end; /* bytes that are not in the window */
  uint64_t window;         /* the next bits, highest first */
  int count;               /* of bits in it; less than zero: more than there were */
} dp_jpeg_bits;
/* Whether all bits are read but those that fill the last byte, and the end marker comes next. */
bool dp_jpeg_bits_at_end(const dp_jpeg_bits *bits);

typedef struct dp_jpeg_channel {
  const dp_jpeg_code *first, *others; /* codes of a block's first coefficient, and of the rest */
  const int16_t *factors;             /* of the quantization, in the file's order */
  int32_t last_first;                 /* before its factor */
} dp_jpeg_channel;
/* Reads the coefficients of one block, times their factors, into zeros. Gives the place, in the
 * file's order, of the last one, or -1 when there is anything unusual: a code or a run that cannot
 * be, a product of more than 16 bits, too few bits. */
int dp_jpeg_read_block(dp_jpeg_bits *bits, dp_jpeg_channel *channel, int16_t *block);

#endif
