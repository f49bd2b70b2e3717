/* AddN and AccumulateNV2: sums of many tensors. The first pass adds three inputs, each later pass
 * adds two more to the sum. Passes run over pieces that fit the cache, so memory is read once. */
#include "kernels/shared/family.h"

#include "kernels/loops/binary.h"
#include "kernels/shared/support.h"
#include "kernels/shared/variant_math.h"

/* ---- AddN ---- */
typedef struct add_state {
  dp_binary_fn add; /* NULL for variants */
  dp_add_three_fn add_three;
  dp_dtype dtype;
} add_state;

static dp_status *add_create(const dp_kernel_setup *setup, void *memory) {
  add_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  dp_dtype type = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  state->add = dp_binary_table()->fn[DP_BINARY_add][type];
  state->add_three = dp_binary_table()->add_three[type];
  return NULL;
}

typedef struct add_work {
  const add_state *state;
  const dp_value *inputs;
  int32_t input_count;
  char *to;
} add_work;

/* Elements [begin, end) of all inputs. */
static void add_block(const add_work *work, int64_t begin, int64_t end) {
  const add_state *state = work->state;
  size_t size = dp_dtype_size(state->dtype);
  int64_t count = end - begin;
  char *to = work->to + begin * size;
  const char *sum = (const char *)work->inputs[0].tensor.data + begin * size;
  for (int32_t k = 1; k < work->input_count; k += 2, sum = to) {
    const char *next = (const char *)work->inputs[k].tensor.data + begin * size;
    if (k + 1 < work->input_count) {
      state->add_three(sum, next, (const char *)work->inputs[k + 1].tensor.data + begin * size, to,
                       count);
    } else {
      dp_binary_span span = {count, 1, 1, 1, 0, 0};
      state->add(sum, next, to, &span);
    }
  }
}

static void add_direct(void *arg, int64_t begin, int64_t end) {
  const add_work *work = arg;
  int64_t block = work->input_count <= 3 ? end - begin : DP_KERNEL_BLOCK;
  for (int64_t i = begin; i < end; i += block)
    add_block(work, i, end - i < block ? end : i + block);
}

static void add_widened(void *arg, int64_t begin, int64_t end) {
  const add_work *work = arg;
  dp_dtype dtype = work->state->dtype;
  float sum[DP_KERNEL_BLOCK], term[DP_KERNEL_BLOCK];
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    int64_t count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    dp_binary_span span = {count, 1, 1, 1, 0, 0};
    dp_kernel_widen(dtype, (const uint16_t *)work->inputs[0].tensor.data + i, sum, count);
    for (int32_t k = 1; k < work->input_count; ++k) {
      dp_kernel_widen(dtype, (const uint16_t *)work->inputs[k].tensor.data + i, term, count);
      work->state->add(sum, term, sum, &span);
    }
    dp_kernel_narrow(dtype, sum, (uint16_t *)work->to + i, count);
  }
}

static dp_status *add_variants(dp_op_context *context) {
  dp_tensor sum = dp_tensor_copy(dp_op_input(context, 0));
  for (int32_t i = 1; i < context->input_count; ++i) {
    dp_tensor next;
    dp_status *status = dp_tensor_add_or_copy(&sum, dp_op_input(context, i), &next);
    dp_tensor_deinit(&sum);
    if (status)
      return status;
    sum = next;
  }
  dp_op_set_output(context, 0, &sum);
  return NULL;
}

static dp_status *add_compute(dp_op_context *context, void *memory) {
  const add_state *state = memory;
  if (!state->add)
    return add_variants(context);
  const dp_tensor *first = dp_op_input(context, 0);
  if (context->input_count == 1) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  for (int32_t i = 1; i < context->input_count; ++i)
    DP_RETURN_IF_ERROR(dp_kernel_expect_same_size(context, i));
  /* Only the memory of input 0 may be reused: the sum grows in it while other inputs are still
   * read. */
  dp_shape shape = first->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  add_work work = {state, context->inputs, context->input_count, output->data};
  dp_kernel_for(context, shape.elements, 150 * context->input_count,
                dp_kernel_is_short_float(state->dtype) ? add_widened : add_direct, &work);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "AddN",
     .types = {{"T", DP_SET_NUMBERS | DP_SET(VARIANT)}},
     .state_size = sizeof(add_state),
     .create = add_create,
     .compute = add_compute},
    {.op = "AccumulateNV2",
     .types = {{"T", DP_SET_NUMBERS}},
     .state_size = sizeof(add_state),
     .create = add_create,
     .compute = add_compute},
};
DP_KERNEL_FAMILY(add_n, rows);
