/* OnesLike and ZerosLike: a tensor of ones or zeros with the shape and dtype of the input. Variants
 * get zeros of their own kind. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/shared/move.h"
#include "kernels/shared/variant_math.h"

/* The bytes of the number 1. */
static void one_of(dp_dtype dtype, uint8_t bytes[16]) {
  memset(bytes, 0, 16);
  if (dtype == DP_FLOAT || dtype == DP_COMPLEX64)
    memcpy(bytes, &(float){1}, 4);
  else if (dtype == DP_DOUBLE || dtype == DP_COMPLEX128)
    memcpy(bytes, &(double){1}, 8);
  else if (dtype == DP_HALF)
    memcpy(bytes, &(uint16_t){0x3c00}, 2);
  else if (dtype == DP_BFLOAT16)
    memcpy(bytes, &(uint16_t){0x3f80}, 2);
  else
    bytes[0] = 1; /* integers and bool, little-endian */
}

static dp_status *ones_compute(dp_op_context *context, void *memory) {
  dp_shape shape = dp_op_input(context, 0)->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  uint8_t one[16];
  one_of(output->dtype, one);
  dp_move_fill(context, output->dtype, output->data, one, shape.elements);
  return NULL;
}

static dp_status *zeros_compute(dp_op_context *context, void *memory) {
  dp_shape shape = dp_op_input(context, 0)->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  dp_move_fill(context, output->dtype, output->data, NULL, shape.elements);
  return NULL;
}

/* New strings are empty already. */
static dp_status *empty_strings_compute(dp_op_context *context, void *memory) {
  dp_shape shape = dp_op_input(context, 0)->shape;
  dp_tensor *output;
  return dp_op_allocate(context, 0, &shape, &output);
}

static dp_status *zero_variants_compute(dp_op_context *context, void *memory) {
  dp_tensor zeros;
  DP_RETURN_IF_ERROR(dp_tensor_zeros_like(dp_op_input(context, 0), &zeros));
  dp_op_set_output(context, 0, &zeros);
  return NULL;
}

#define SET_PLAIN (DP_SET_NUMBERS | DP_SET(BOOL))
static const dp_kernel rows[] = {
    {.op = "OnesLike", .types = {{"T", SET_PLAIN}}, .compute = ones_compute},
    {.op = "ZerosLike", .types = {{"T", SET_PLAIN | DP_SET_QUANTIZED}}, .compute = zeros_compute},
    {.op = "ZerosLike", .types = {{"T", DP_SET(STRING)}}, .compute = empty_strings_compute},
    {.op = "ZerosLike", .types = {{"T", DP_SET(VARIANT)}}, .compute = zero_variants_compute},
};
DP_KERNEL_FAMILY(like, rows);
