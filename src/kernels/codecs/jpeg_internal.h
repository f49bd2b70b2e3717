/* The entropy-coded bits of small JPEG images: implemented by jpeg_scan.c, used by jpeg_small.c.
 * All objects belong to one coder and are used by one thread at a time. No function allocates. */
#ifndef DP_KERNELS_CODECS_JPEG_INTERNAL_H
#define DP_KERNELS_CODECS_JPEG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DP_JPEG_LENGTHS 16 /* codes have 1 to 16 bits */
#define DP_JPEG_MOST_SYMBOLS 256
#define DP_JPEG_COEFFICIENTS 64 /* per block */

/* From the order of coefficients in files (zigzag) to row * 8 + column. */
extern const uint8_t dp_jpeg_natural_order[DP_JPEG_COEFFICIENTS];

/* ---- A Huffman code ---- */
#define DP_JPEG_PEEK_BITS 9
typedef struct dp_jpeg_code {
  /* As in the file: the number of codes of each length, then their symbols. */
  uint8_t definition[DP_JPEG_LENGTHS + DP_JPEG_MOST_SYMBOLS];
  size_t length;                         /* bytes of the definition; 0 if none is set */
  uint16_t peek[1 << DP_JPEG_PEEK_BITS]; /* symbol << 8 | length; 0 for longer codes */
  uint32_t ends[DP_JPEG_LENGTHS + 1];    /* the first 16-bit value above all codes of that length */
  int32_t places[DP_JPEG_LENGTHS + 1];   /* add to a code of that length: the index of its symbol */
} dp_jpeg_code;
/* Sets the definition; does nothing when it is the same as before. False for an invalid one: the
 * lengths do not fit, or a symbol is above `largest`. */
bool dp_jpeg_code_set(dp_jpeg_code *code, const uint8_t *definition, size_t length, int largest);

/* ---- The bits of a scan ---- */
typedef struct dp_jpeg_bits {
  const uint8_t *at, *end; /* bytes that are not in the window yet */
  uint64_t window;         /* the next bits, from the highest on */
  int count;               /* valid bits; negative: more were used than there are */
} dp_jpeg_bits;
/* Whether only the padding of the last byte is left, and the end marker comes next. */
bool dp_jpeg_bits_at_end(const dp_jpeg_bits *bits);

typedef struct dp_jpeg_channel {
  const dp_jpeg_code *first, *others; /* codes of a block's first coefficient, and of the rest */
  const int16_t *factors;             /* quantization table, in the file's order */
  int32_t last_first; /* first coefficient of the block before, without its factor */
} dp_jpeg_channel;
/* Reads the coefficients of one block and stores them, times their factors, in `block`, which must
 * be zero before. Returns the position, in the file's order, of the last coefficient. Returns -1
 * for anything unusual: an invalid code or run, a product of more than 16 bits, too few bits. */
int dp_jpeg_read_block(dp_jpeg_bits *bits, dp_jpeg_channel *channel, int16_t *block);

#endif
