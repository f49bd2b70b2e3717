/* _FusedElementwise: a tree of element-wise ops in one pass over the data.
 *
 * When all inputs are scalars or have one shape, each op runs its usual loop on a block that fits
 * the first-level cache, so that only the inputs and the result touch memory. Results equal those
 * of the single ops bit for bit. With other shapes, the ops run one by one over the whole data,
 * with broadcasting. An error names the node that the op came from. The planner makes these nodes
 * and documents their attributes. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/math/elementwise_internal.h"
#include "kernels/shared/support.h"

/* The larger of two subtrees runs first, so a tree of n ops needs at most log2(n) + 1 blocks. */
enum { MOST_OPS = 32, MOST_INPUTS = MOST_OPS + 1, MOST_BLOCKS = 6, BLOCK_BYTES = 8192 };
/* Picoseconds per element: the part of an op's cost that is memory traffic, which fusing saves; and
 * the least cost that remains. */
enum { MEMORY_COST = 200, LEAST_COST = 50 };

typedef struct fused_op {
  dp_elementwise_loop loop;
  int32_t operands[2]; /* i >= 0: input i; -1 - k: the result of op k */
  bool is_binary;
  int32_t block; /* the block of its result; unused in the last op */
  double alpha;
} fused_op;

typedef struct fused_state {
  dp_dtype dtype;
  int32_t count, input_count;
  int64_t cost;
  fused_op ops[MOST_OPS];
} fused_state;

/* ---- The program ---- */

static dp_status *find_loop(const char *name, dp_dtype dtype, fused_op *op) {
  if (!dp_unary_find_loop(name, dtype, &op->loop) &&
      !dp_activation_find_loop(name, dtype, &op->loop) &&
      !dp_binary_find_loop(name, dtype, &op->loop))
    return dp_status_create(DP_UNIMPLEMENTED, "Fusion is not implemented: %s", name);
  op->is_binary = op->loop.binary || op->loop.activation_grad;
  return NULL;
}

/* Checks that each result is read exactly once, by a later op, and the last by none. Gives every
 * result but the last a block that is free while it is needed. */
static dp_status *assign_blocks(fused_state *state) {
  bool is_taken[MOST_BLOCKS] = {false}, is_read[MOST_OPS] = {false};
  for (int32_t i = 0; i < state->count; i++) {
    fused_op *op = &state->ops[i];
    for (int k = 0; k <= op->is_binary; k++) {
      int32_t from = op->operands[k];
      if (from >= state->input_count || from < -i || (from < 0 && is_read[-1 - from]))
        return DP_INVALID("Fused op %d reads %d, which is not there", i, from);
      if (from < 0) {
        is_read[-1 - from] = true;
        is_taken[state->ops[-1 - from].block] = false;
      }
    }
    if (i == state->count - 1)
      break;
    while (op->block < MOST_BLOCKS && is_taken[op->block])
      op->block++;
    if (op->block == MOST_BLOCKS)
      return DP_INVALID("Fused ops need more than %d blocks", MOST_BLOCKS);
    is_taken[op->block] = true;
  }
  for (int32_t i = 0; i < state->count - 1; i++)
    if (!is_read[i])
      return DP_INVALID("The result of fused op %d is not read", i);
  return NULL;
}

static dp_status *fused_create(const dp_kernel_setup *setup, void *memory) {
  fused_state *state = memory;
  const dp_node *node = setup->node;
  const dp_attr *ops, *operands, *names, *alphas;
  DP_RETURN_IF_ERROR(dp_node_get_type(node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "fused_ops", DP_ATTR_LIST_STRING, &ops));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "operands", DP_ATTR_LIST_INT, &operands));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "node_names", DP_ATTR_LIST_STRING, &names));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "alphas", DP_ATTR_LIST_FLOAT, &alphas));
  if (ops->count < 1 || ops->count > MOST_OPS || operands->count != 2 * ops->count ||
      names->count != ops->count || alphas->count != ops->count || node->input_count > MOST_INPUTS)
    return DP_INVALID("A fused node has 1 to %d ops with two operands, a name and a slope each",
                      MOST_OPS);
  state->count = ops->count;
  state->cost = MEMORY_COST;
  state->input_count = node->input_count;
  for (int32_t i = 0; i < state->count; i++) {
    fused_op *op = &state->ops[i];
    char name[64] = "";
    if (ops->strings[i].length < sizeof(name))
      memcpy(name, ops->strings[i].data, ops->strings[i].length);
    DP_RETURN_IF_ERROR(find_loop(name, state->dtype, op));
    for (int k = 0; k < 2; k++) {
      int64_t from = operands->integers[2 * i + k];
      op->operands[k] = from < -MOST_OPS || from > MOST_INPUTS ? MOST_INPUTS : (int32_t)from;
    }
    op->alpha = alphas->numbers[i];
    int64_t cost = op->loop.cost - MEMORY_COST;
    state->cost += cost > LEAST_COST ? cost : LEAST_COST;
  }
  return assign_blocks(state);
}

/* ---- In blocks ---- */

typedef struct fused_work {
  const fused_state *state;
  const char *inputs[MOST_INPUTS];
  bool moves[MOST_INPUTS];     /* inputs that are not scalars */
  bool result_moves[MOST_OPS]; /* results that are not scalars */
  char *to;
} fused_work;

static void run_loop(const fused_op *op, const void *a, const void *b, void *to,
                     const dp_binary_span *span) {
  if (op->loop.unary)
    op->loop.unary(a, to, span->inner);
  else if (op->loop.activation)
    op->loop.activation(a, to, span->inner, op->alpha);
  else if (op->loop.binary)
    op->loop.binary(a, b, to, span);
  else
    op->loop.activation_grad(a, b, to, span->inner, op->alpha);
}

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  const fused_work *work = arg;
  const fused_state *state = work->state;
  size_t size = dp_dtype_size(state->dtype);
  int64_t length = BLOCK_BYTES / (int64_t)size;
  _Alignas(DP_BUFFER_ALIGNMENT) char blocks[MOST_BLOCKS][BLOCK_BYTES];
  for (int64_t at = begin; at < end; at += length) {
    int64_t count = end - at < length ? end - at : length;
    for (int32_t i = 0; i < state->count; i++) {
      const fused_op *op = &state->ops[i];
      const void *from[2];
      bool moves[2];
      for (int k = 0; k < 2; k++) {
        int32_t operand = op->operands[op->is_binary ? k : 0];
        moves[k] = operand < 0 ? work->result_moves[-1 - operand] : work->moves[operand];
        from[k] = operand < 0 ? blocks[state->ops[-1 - operand].block]
                              : work->inputs[operand] + (moves[k] ? (size_t)at * size : 0);
      }
      dp_binary_span span = {work->result_moves[i] ? count : 1, 1, moves[0], moves[1], 0, 0};
      char *to = i == state->count - 1 ? work->to + (size_t)at * size : blocks[op->block];
      run_loop(op, from[0], from[1], to, &span);
    }
  }
}

/* False when the shapes need broadcasting, or are an error. */
static bool plan_blocks(const dp_op_context *context, fused_work *work, dp_shape *shape_out) {
  const fused_state *state = work->state;
  const dp_shape *shape = NULL;
  for (int32_t i = 0; i < state->input_count; i++) {
    const dp_tensor *input = dp_op_input(context, i);
    work->inputs[i] = input->data;
    work->moves[i] = input->shape.rank > 0;
    if (work->moves[i] && shape && !dp_shape_equal(shape, &input->shape))
      return false;
    if (work->moves[i])
      shape = &input->shape;
  }
  for (int32_t i = 0; i < state->count; i++) {
    bool moves[2];
    for (int k = 0; k < 2; k++) {
      int32_t operand = state->ops[i].operands[state->ops[i].is_binary ? k : 0];
      moves[k] = operand < 0 ? work->result_moves[-1 - operand] : work->moves[operand];
    }
    if (state->ops[i].loop.is_gradient && moves[0] != moves[1])
      return false;
    work->result_moves[i] = moves[0] || moves[1];
  }
  *shape_out = shape ? *shape : dp_op_input(context, 0)->shape;
  return true;
}

static dp_status *compute_blocks(dp_op_context *context, fused_work *work, const dp_shape *shape) {
  int32_t slots[MOST_INPUTS], slot_count = 0;
  for (int32_t i = 0; i < work->state->input_count; i++)
    if (work->moves[i] || shape->rank == 0)
      slots[slot_count++] = i;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward_any(context, slots, slot_count, 0, shape, &output));
  work->to = output->data;
  dp_kernel_for(context, shape->elements, work->state->cost, run_blocks, work);
  return NULL;
}

/* ---- Op by op ---- */

typedef struct whole_work {
  const fused_op *op;
  size_t size;
  const char *a, *b;
  char *to;
} whole_work;

static void run_whole(void *arg, int64_t begin, int64_t end) {
  const whole_work *work = arg;
  size_t offset = (size_t)begin * work->size;
  dp_binary_span span = {end - begin, 1, 1, 1, 0, 0};
  run_loop(work->op, work->a + offset, work->b + offset, work->to + offset, &span);
}

/* Reuses a former result of that shape that nobody reads again, or makes a new tensor. */
static dp_status *make_result(dp_tensor *const *former, dp_dtype dtype, const dp_shape *shape,
                              dp_tensor *result_out) {
  for (int k = 0; k < 2; k++) {
    if (former[k] && dp_shape_equal(&former[k]->shape, shape)) {
      *result_out = dp_tensor_copy(former[k]);
      return NULL;
    }
  }
  return dp_tensor_create(dtype, shape, result_out);
}

static dp_status *run_op(dp_op_context *context, const fused_state *state, int32_t index,
                         dp_tensor *results) {
  const fused_op *op = &state->ops[index];
  const dp_tensor *from[2];
  dp_tensor *former[2] = {NULL, NULL};
  for (int k = 0; k < 2; k++) {
    int32_t operand = op->operands[op->is_binary ? k : 0];
    from[k] = operand < 0 ? &results[-1 - operand] : dp_op_input(context, operand);
    if (operand < 0)
      former[k] = &results[-1 - operand];
  }
  const dp_tensor *a = from[0], *b = from[1];
  const dp_shape *shapes[] = {&a->shape, &b->shape};
  bool is_equal = dp_shape_equal(shapes[0], shapes[1]);
  if (op->loop.is_gradient && !is_equal) {
    const dp_attr *ops = dp_node_attr(context->node, "fused_ops");
    const dp_attr *names = dp_node_attr(context->node, "node_names");
    return DP_INVALID("Inputs to operation %.*s of type %.*s must have the same size and shape.  "
                      "Input 0: %s != input 1: %s",
                      (int)names->strings[index].length, names->strings[index].data,
                      (int)ops->strings[index].length, ops->strings[index].data,
                      dp_shape_text(shapes[0]), dp_shape_text(shapes[1]));
  }
  dp_broadcast plan = {.shape = a->shape};
  if (!is_equal && !dp_broadcast_plan(shapes, 2, &plan))
    return DP_INVALID("Incompatible shapes: %s vs. %s", dp_shape_text(shapes[0]),
                      dp_shape_text(shapes[1]));
  DP_RETURN_IF_ERROR(make_result(former, state->dtype, &plan.shape, &results[index]));
  whole_work work = {op, dp_dtype_size(state->dtype), a->data, b->data, results[index].data};
  if (is_equal)
    dp_kernel_for(context, plan.shape.elements, op->loop.cost, run_whole, &work);
  else if (plan.shape.elements > 0)
    dp_binary_run_broadcast(context, &op->loop, state->dtype, &plan, a->data, b->data, work.to);
  for (int k = 0; k <= op->is_binary; k++)
    if (former[k])
      dp_tensor_deinit(former[k]);
  return NULL;
}

static dp_status *compute_apart(dp_op_context *context, const fused_state *state) {
  dp_tensor results[MOST_OPS] = {{0}};
  dp_status *status = NULL;
  for (int32_t i = 0; i < state->count && !status; i++) {
    status = run_op(context, state, i, results);
    if (status) {
      dp_view name = dp_node_attr(context->node, "node_names")->strings[i];
      status = dp_status_append(status, "\n\t [[{{node %.*s}}]]", (int)name.length, name.data);
    }
  }
  if (!status)
    dp_op_set_output(context, 0, &results[state->count - 1]);
  for (int32_t i = 0; i < state->count; i++)
    dp_tensor_deinit(&results[i]);
  return status;
}

static dp_status *fused_compute(dp_op_context *context, void *memory) {
  const fused_state *state = memory;
  fused_work work;
  dp_shape shape;
  work.state = state;
  return plan_blocks(context, &work, &shape) ? compute_blocks(context, &work, &shape)
                                             : compute_apart(context, state);
}

static const dp_kernel rows[] = {
    {.op = "_FusedElementwise",
     .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}},
     .state_size = sizeof(fused_state),
     .create = fused_create,
     .compute = fused_compute},
};
DP_KERNEL_FAMILY(fused_elementwise, rows);
