/* From the coefficients of small JPEG images to pixels; one table for each instruction set.
 *
 * The results equal those of libjpeg-turbo's vector code for x86-64 bit for bit, also where 16-bit
 * numbers overflow. On other architectures the table is empty. */
#ifndef DP_KERNELS_LOOPS_JPEG_H
#define DP_KERNELS_LOOPS_JPEG_H

#include <stddef.h>
#include <stdint.h>
#include "kernels/isa/isa.h"

/* Readable bytes before and behind each row of samples: the loops read beyond its ends. */
#define DP_JPEG_MARGIN ((size_t)16)

/* Computes the samples of a block of 8 x 8 coefficients, which are already multiplied by the
 * quantization table. */
typedef void (*dp_jpeg_inverse_fn)(const int16_t *coefficients, uint8_t *to, size_t stride);

/* The samples of one row of pixels; `near` and `far` hold one row for each of the two chroma
 * channels. Only `mixed` reads `far` and `biases`: it interpolates 3 * near + far between rows,
 * does the same between columns, and adds `biases` (for even and odd pixels) before it divides by
 * 16. The caller repeats the first and the last sample of a row beyond its ends. */
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
