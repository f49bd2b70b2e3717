/* The equation of an Einsum, parsed: einsum_equation.c parses the text once, when the kernel is
 * created; einsum.c uses the result in every step. Nothing is written after creation, so any thread
 * may read it. */
#ifndef DP_KERNELS_LINALG_EINSUM_INTERNAL_H
#define DP_KERNELS_LINALG_EINSUM_INTERNAL_H

#include "kernels/shared/support.h"

typedef struct subscript {
  int count, ellipsis; /* number of labels; position of the ellipsis among them, -1: none */
  char labels[DP_MAX_RANK + 1];
} subscript;

typedef struct einsum_state {
  dp_dtype dtype, work;
  int input_count;
  subscript inputs[2], output;
} einsum_state;

/* Reads the equation into inputs and output. input_count is set before: it is what the node has. */
DP_MUST_USE dp_status *dp_einsum_read(dp_view equation, einsum_state *state);

#endif
