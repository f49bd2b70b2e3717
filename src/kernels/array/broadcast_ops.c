/* BroadcastTo, BroadcastArgs (the shape that two shapes broadcast to) and BroadcastGradientArgs
 * (the axes over which a gradient of a broadcast op is summed). */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/shared/broadcast.h"
#include "kernels/shared/move.h"

/* ---- BroadcastTo ---- */
/* Copies each element to all its places: missing dimensions and those of size 1 have stride 0 in
 * the input. */
static void spread(dp_op_context *context, const dp_tensor *input, dp_tensor *output) {
  int64_t from[DP_MAX_RANK], to[DP_MAX_RANK];
  dp_move_strides(&input->shape, from);
  dp_move_strides(&output->shape, to);
  int missing = output->shape.rank - input->shape.rank;
  dp_move move;
  dp_move_init(&move, input->dtype);
  for (int i = 0; i < output->shape.rank; ++i) {
    bool repeats = i < missing || input->shape.dims[i - missing] == 1;
    dp_move_add(&move, output->shape.dims[i], repeats ? 0 : from[i - missing], to[i]);
  }
  dp_move_run(context, &move, output->data, input->data);
}

static dp_status *broadcast_to_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0), *target = dp_op_input(context, 1);
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_kernel_make_shape(target, &shape));
  if (dp_shape_equal(&shape, &input->shape)) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  if (input->shape.rank > shape.rank)
    return DP_INVALID("Rank of input (%d) must be no greater than rank of output shape (%d).",
                      input->shape.rank, shape.rank);
  dp_broadcast plan;
  bool fits = dp_broadcast_plan((const dp_shape *[]){&input->shape, &shape}, 2, &plan);
  if (!fits || !dp_shape_equal(&plan.shape, &shape))
    return DP_INVALID("Incompatible shapes: %s vs. %s", dp_shape_text(&input->shape),
                      dp_shape_text(&shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  spread(context, input, output);
  return NULL;
}

/* ---- Shapes as vectors ---- */
static dp_status *output_vector(dp_op_context *context, int32_t slot, const int64_t *values,
                                int64_t count) {
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, slot, &shape, &output));
  for (int64_t i = 0; i < count; ++i) {
    dp_tensor_set_int(output, i, values[i]);
  }
  return NULL;
}

typedef struct shape_pair {
  int64_t a[DP_MAX_RANK], b[DP_MAX_RANK]; /* padded with 1 in front, to the same rank */
  int64_t rank;
  bool are_equal;
} shape_pair;

static void pad_front(int64_t *dims, int64_t count, int64_t rank) {
  memmove(dims + rank - count, dims, sizeof(int64_t) * (size_t)count);
  for (int64_t i = 0; i < rank - count; ++i)
    dims[i] = 1;
}

static dp_status *read_pair(const dp_op_context *context, shape_pair *pair) {
  int64_t a_rank, b_rank;
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  if (a->shape.rank != 1 || b->shape.rank != 1)
    return DP_INVALID("In[%d] must be a vector.%s", a->shape.rank != 1 ? 0 : 1,
                      dp_shape_text(a->shape.rank != 1 ? &a->shape : &b->shape));
  DP_RETURN_IF_ERROR(dp_kernel_read_ints(a, "s0", DP_MAX_RANK, pair->a, &a_rank));
  DP_RETURN_IF_ERROR(dp_kernel_read_ints(b, "s1", DP_MAX_RANK, pair->b, &b_rank));
  pair->are_equal =
      a_rank == b_rank && memcmp(pair->a, pair->b, sizeof(int64_t) * (size_t)a_rank) == 0;
  pair->rank = a_rank > b_rank ? a_rank : b_rank;
  pad_front(pair->a, a_rank, pair->rank);
  pad_front(pair->b, b_rank, pair->rank);
  for (int64_t i = 0; i < pair->rank; ++i) {
    if (pair->a[i] == pair->b[i] || pair->a[i] == 1 || pair->b[i] == 1)
      continue;
    dp_shape left = dp_shape_of((int)a_rank, pair->a + pair->rank - a_rank);
    dp_shape right = dp_shape_of((int)b_rank, pair->b + pair->rank - b_rank);
    return DP_INVALID("Incompatible shapes: %s vs. %s", dp_shape_text(&left),
                      dp_shape_text(&right));
  }
  return NULL;
}

static dp_status *broadcast_args_compute(dp_op_context *context, void *memory) {
  shape_pair pair;
  DP_RETURN_IF_ERROR(read_pair(context, &pair));
  int64_t dims[DP_MAX_RANK];
  for (int64_t i = 0; i < pair.rank; ++i)
    dims[i] = pair.a[i] == 1 ? pair.b[i] : pair.a[i];
  return output_vector(context, 0, dims, pair.rank);
}

/* The axes over which the gradient of each operand is summed. A dimension that is 1 in both
 * operands counts for both, unless the shapes are equal. */
static dp_status *gradient_args_compute(dp_op_context *context, void *memory) {
  shape_pair pair;
  DP_RETURN_IF_ERROR(read_pair(context, &pair));
  int64_t a_axes[DP_MAX_RANK], b_axes[DP_MAX_RANK], a_count = 0, b_count = 0;
  for (int64_t i = 0; i < pair.rank && !pair.are_equal; ++i) {
    if (pair.a[i] == 1)
      a_axes[a_count++] = i;
    if (pair.b[i] == 1)
      b_axes[b_count++] = i;
  }
  DP_RETURN_IF_ERROR(output_vector(context, 0, a_axes, a_count));
  return output_vector(context, 1, b_axes, b_count);
}

static const dp_kernel rows[] = {
    {.op = "BroadcastTo", .types = {{"Tidx", DP_SET_INDEX}}, .compute = broadcast_to_compute},
    {.op = "BroadcastArgs",
     .types = {{"T", DP_SET_INDEX}},
     .flags = DP_KERNEL_CHEAP,
     .compute = broadcast_args_compute},
    {.op = "BroadcastGradientArgs",
     .types = {{"T", DP_SET_INDEX}},
     .flags = DP_KERNEL_CHEAP,
     .compute = gradient_args_compute},
};
DP_KERNEL_FAMILY(broadcast_ops, rows);
