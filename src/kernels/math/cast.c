/* Cast and Bitcast.
 *
 * A cast has at most three steps, block by block: 16-bit and 8-bit floats are widened to float
 * (4-bit integers already have a byte each, quantized ones are plain integers), a loop converts
 * between C types, and small floats are rounded. With Truncate, the bits that the result cannot
 * hold are cleared first, so that nothing is rounded up. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/loops/cast.h"
#include "kernels/shared/support.h"

#define SET_FLOAT8                                                                                 \
  (DP_SET(FLOAT8_E5M2) | DP_SET(FLOAT8_E4M3FN) | DP_SET(FLOAT8_E4M3FNUZ) |                         \
   DP_SET(FLOAT8_E4M3B11FNUZ) | DP_SET(FLOAT8_E5M2FNUZ))
#define SET_SMALL_INTEGERS (DP_SET(INT4) | DP_SET(UINT4) | DP_SET(INT2) | DP_SET(UINT2))

typedef struct cast_state {
  dp_cast_fn fn; /* NULL: the bytes are copied */
  dp_dtype from, to;
  dp_dtype wide_from, wide_to; /* the C types of the loop */
  uint64_t cleared;            /* low bits of the source that Truncate clears */
} cast_state;

static bool is_float8(dp_dtype dtype) {
  return SET_FLOAT8 >> dtype & 1;
}

/* The C type that stands for a dtype in the loops. */
static dp_dtype wide_type(dp_dtype dtype) {
  if (dp_kernel_is_short_float(dtype) || is_float8(dtype))
    return DP_FLOAT;
  switch (dtype) {
  case DP_INT4:
  case DP_INT2:
  case DP_QINT8:
    return DP_INT8;
  case DP_UINT4:
  case DP_UINT2:
  case DP_QUINT8:
    return DP_UINT8;
  case DP_QINT16:
    return DP_INT16;
  case DP_QUINT16:
    return DP_UINT16;
  case DP_QINT32:
    return DP_INT32;
  default:
    return dtype;
  }
}

static int mantissa_bits(dp_dtype dtype) {
  return dtype == DP_DOUBLE ? 52 : dtype == DP_FLOAT ? 23 : dtype == DP_HALF ? 10 : 7;
}

static dp_status *cast_create(const dp_kernel_setup *setup, void *memory) {
  cast_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "SrcT", &state->from));
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "DstT", &state->to));
  state->wide_from = wide_type(state->from);
  state->wide_to = wide_type(state->to);
  if (state->from == state->to)
    return NULL;
  state->fn = dp_cast_table()->fn[state->wide_from][state->wide_to];
  if (!state->fn)
    return dp_status_create(DP_UNIMPLEMENTED, "Cast %s to %s is not supported",
                            dp_dtype_name(state->from), dp_dtype_name(state->to));
  bool truncates = false;
  if (dp_node_attr(setup->node, "Truncate"))
    DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "Truncate", &truncates));
  /* TensorFlow rounds from double to bfloat16 even with Truncate. */
  bool narrows = (state->from == DP_DOUBLE && (state->to == DP_FLOAT || state->to == DP_HALF)) ||
                 (state->from == DP_FLOAT && dp_kernel_is_short_float(state->to));
  if (truncates && narrows)
    state->cleared = ((uint64_t)1 << (mantissa_bits(state->from) - mantissa_bits(state->to))) - 1;
  return NULL;
}

/* ---- Blocks ---- */
typedef union cast_block {
  char bytes[DP_KERNEL_BLOCK * 16];
  float floats[DP_KERNEL_BLOCK];
  uint32_t words[DP_KERNEL_BLOCK];
  uint64_t longs[DP_KERNEL_BLOCK];
} cast_block;

/* The block's source as an array of the wide type: in place, or in `space`. */
static const void *load_block(const cast_state *state, const char *from, int64_t count,
                              cast_block *space) {
  if (dp_kernel_is_short_float(state->from)) {
    dp_kernel_widen(state->from, (const uint16_t *)from, space->floats, count);
    return space;
  }
  if (is_float8(state->from)) {
    for (int64_t i = 0; i < count; ++i)
      space->floats[i] = dp_float8_to_float(state->from, (uint8_t)from[i]);
    return space;
  }
  if (!state->cleared)
    return from;
  memcpy(space, from, (size_t)count * dp_dtype_size(state->from));
  for (int64_t i = 0; i < count; ++i) {
    if (state->from == DP_FLOAT)
      space->words[i] &= ~(uint32_t)state->cleared;
    else
      space->longs[i] &= ~state->cleared;
  }
  return space;
}

static void wrap_small_integers(dp_dtype dtype, uint8_t *values, int64_t count) {
  int bits = dtype == DP_INT4 || dtype == DP_UINT4 ? 4 : 2;
  bool is_signed = dtype == DP_INT4 || dtype == DP_INT2;
  for (int64_t i = 0; i < count; ++i) {
    uint8_t low = values[i] & ((1u << bits) - 1);
    bool negative = is_signed && (low >> (bits - 1));
    values[i] = negative ? (uint8_t)(low | (0xffu << bits)) : low;
  }
}

static void store_block(const cast_state *state, const cast_block *space, char *to, int64_t count) {
  if (dp_kernel_is_short_float(state->to))
    dp_kernel_narrow(state->to, space->floats, (uint16_t *)to, count);
  else
    for (int64_t i = 0; i < count; ++i)
      to[i] = (char)dp_float8_from_float(state->to, space->floats[i]);
}

typedef struct cast_work {
  const cast_state *state;
  const char *from;
  char *to;
} cast_work;

static void run_cast(void *arg, int64_t begin, int64_t end) {
  const cast_work *work = arg;
  const cast_state *state = work->state;
  size_t from_size = dp_dtype_size(state->from), to_size = dp_dtype_size(state->to);
  bool stores = dp_kernel_is_short_float(state->to) || is_float8(state->to);
  cast_block loaded, converted;
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    int64_t count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    char *to = work->to + i * to_size;
    const void *from = load_block(state, work->from + i * from_size, count, &loaded);
    state->fn(from, stores ? converted.bytes : to, count);
    if (stores)
      store_block(state, &converted, to, count);
    else if (SET_SMALL_INTEGERS >> state->to & 1)
      wrap_small_integers(state->to, (uint8_t *)to, count);
  }
}

static dp_status *cast_compute(dp_op_context *context, void *memory) {
  const cast_state *state = memory;
  if (!state->fn) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  const dp_tensor *input = dp_op_input(context, 0);
  cast_work work = {state, input->data, NULL};
  dp_shape shape = input->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  work.to = output->data;
  dp_kernel_for(context, shape.elements, 500, run_cast, &work);
  return NULL;
}

/* ---- Bitcast ---- */
static dp_status *bitcast_shape(const dp_tensor *input, dp_dtype dtype, dp_shape *shape) {
  size_t from = dp_dtype_size(input->dtype), to = dp_dtype_size(dtype);
  *shape = input->shape;
  if (from == to)
    return NULL;
  if (from > to) {
    if (shape->rank == DP_MAX_RANK)
      return DP_INVALID("Bitcast of a tensor of %d dimensions would add one more", shape->rank);
    *shape = dp_shape_insert(shape, shape->rank, (int64_t)(from / to));
    return NULL;
  }
  int last = shape->rank - 1;
  if (last < 0 || shape->dims[last] != (int64_t)(to / from))
    return DP_INVALID("Cannot bitcast from %d to %d: a last dimension of %zu %s is one %s, but the "
                      "shape is %s",
                      (int)input->dtype, (int)dtype, to / from, dp_dtype_name(input->dtype),
                      dp_dtype_name(dtype), dp_shape_text(&input->shape));
  *shape = dp_shape_remove(shape, last);
  return NULL;
}

static dp_status *bitcast_create(const dp_kernel_setup *setup, void *memory) {
  dp_dtype from, to;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &from));
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "type", &to));
  size_t a = dp_dtype_size(from), b = dp_dtype_size(to);
  if (!a || !b || (a % b && b % a))
    return DP_INVALID("Cannot bitcast between %s and %s", dp_dtype_name(from), dp_dtype_name(to));
  return NULL;
}

static dp_status *bitcast_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_dtype to = dp_op_output_type(context, 0);
  dp_shape shape;
  DP_RETURN_IF_ERROR(bitcast_shape(input, to, &shape));
  dp_tensor result = dp_tensor_copy(input);
  result.dtype = to;
  result.shape = shape;
  dp_op_set_output(context, 0, &result);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "Cast", /* for every pair of types: creating it refuses those that have no loop */
     .state_size = sizeof(cast_state),
     .create = cast_create,
     .compute = cast_compute},
    {.op = "Bitcast",
     .flags = DP_KERNEL_CHEAP,
     .create = bitcast_create,
     .compute = bitcast_compute},
};
DP_KERNEL_FAMILY(cast, rows);
