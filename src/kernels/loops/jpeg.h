/* From the coefficients of small JPEG images to pixels; one table for each instruction set.
 * Everything is bit for bit what libjpeg-turbo's vector code for x86-64 makes, also where numbers
 * of 16 bits overflow: only there the table is filled. */
#ifndef DP_KERNELS_LOOPS_JPEG_INTERNAL_H
#define DP_KERNELS_LOOPS_JPEG_INTERNAL_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/isa/isa.h"

/* What rows of samples have before and behind them: loops read that far. */
#define DP_JPEG_MARGIN ((size_t)16)

/* The samples of a block of 8 x 8 coefficients, multiplied by the quantization's already. */
typedef void (*dp_jpeg_inverse_fn)(const int16_t *coefficients, uint8_t *to, size_t stride);

/* Samples of one row of pixels. Where chroma is half as wide, `far` are the rows of chroma that are
 * mixed in with a quarter, next to the nearer ones; `biases` round even and odd pixels, in
 * sixteenths. Samples before the first and behind the last repeat these. */
typedef struct dp_jpeg_row {
  const uint8_t *luma, *near[2], *far[2];
  int16_t biases[2];
  size_t width;
} dp_jpeg_row;
typedef void (*dp_jpeg_colour_fn)(const dp_jpeg_row *row, uint8_t *to);

typedef struct dp_jpeg_loops {
  dp_jpeg_inverse_fn inverse[2]; /* fast, accurate; NULL where there are none */
  dp_jpeg_colour_fn gray;        /* luma three times */
  dp_jpeg_colour_fn full;        /* chroma for every pixel */
  dp_jpeg_colour_fn twice;       /* chroma for two pixels, repeated */
  dp_jpeg_colour_fn mixed;       /* chroma for two pixels, mixed with its neighbours */
} dp_jpeg_loops;
DP_ISA_TABLE(dp_jpeg_loops, dp_jpeg_table)

#endif
