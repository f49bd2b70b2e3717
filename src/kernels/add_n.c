/* Sums of many tensors (AddN, AccumulateNV2) and ClipByValue: several loops of two inputs run over
 * pieces that stay in the cache. */
#include "kernels/families_internal.h"

#include "kernels/loops_binary_internal.h"
#include "kernels/support_internal.h"
#include "kernels/variant_math_internal.h"

/* ---- AddN ---- */
typedef struct add_state {
  dp_binary_fn add; /* NULL for variants */
  dp_dtype dtype;
} add_state;

static dp_status *add_create(const dp_kernel_setup *setup, void *memory) {
  add_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  dp_dtype type = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  state->add = dp_binary_table()->fn[DP_BINARY_add][type];
  return NULL;
}

typedef struct add_work {
  const add_state *state;
  const dp_value *inputs;
  int32_t input_count;
  char *to;
} add_work;

static void add_direct(void *arg, int64_t begin, int64_t end) {
  const add_work *work = arg;
  size_t size = dp_dtype_size(work->state->dtype);
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    int64_t count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    dp_binary_span span = {count, 1, 1, 1, 0, 0};
    char *to = work->to + i * size;
    const char *sum = (const char *)work->inputs[0].tensor.data + i * size;
    for (int32_t k = 1; k < work->input_count; ++k) {
      work->state->add(sum, (const char *)work->inputs[k].tensor.data + i * size, to, &span);
      sum = to;
    }
  }
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
  for (int32_t i = 1; i < context->input_count; ++i) {
    const dp_tensor *input = dp_op_input(context, i);
    if (!dp_shape_equal(&first->shape, &input->shape))
      return DP_INVALID("Inputs to operation %s of type %s must have the same size and shape.  "
                        "Input 0: %s != input %d: %s",
                        context->node->name, context->node->op->name, dp_shape_text(&first->shape),
                        i, dp_shape_text(&input->shape));
  }
  /* Only the first input's memory may hold the growing sum. */
  dp_shape shape = first->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  add_work work = {state, context->inputs, context->input_count, output->data};
  dp_kernel_for(context, shape.elements, 150 * context->input_count,
                dp_kernel_is_short_float(state->dtype) ? add_widened : add_direct, &work);
  return NULL;
}

/* ---- ClipByValue ---- */
typedef struct clip_state {
  dp_binary_fn maximum, minimum;
  dp_dtype dtype;
} clip_state;

static dp_status *clip_create(const dp_kernel_setup *setup, void *memory) {
  clip_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  dp_dtype type = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  state->maximum = dp_binary_table()->fn[DP_BINARY_maximum][type];
  state->minimum = dp_binary_table()->fn[DP_BINARY_minimum][type];
  return NULL;
}

typedef struct clip_work {
  const clip_state *state;
  const char *x, *low, *high;
  char *to;
  int64_t low_stride, high_stride; /* 0 for scalars */
} clip_work;

static void clip_direct(void *arg, int64_t begin, int64_t end) {
  const clip_work *work = arg;
  size_t size = dp_dtype_size(work->state->dtype);
  /* The result may be the memory of the high bound: the middle has a place of its own. */
  double space[DP_KERNEL_BLOCK];
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    int64_t count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    dp_binary_span low = {count, 1, 1, work->low_stride, 0, 0};
    dp_binary_span high = {count, 1, 1, work->high_stride, 0, 0};
    work->state->minimum(work->x + i * size, work->high + i * work->high_stride * size, space,
                         &high);
    work->state->maximum(space, work->low + i * work->low_stride * size, work->to + i * size, &low);
  }
}

static void clip_widened(void *arg, int64_t begin, int64_t end) {
  const clip_work *work = arg;
  dp_dtype dtype = work->state->dtype;
  float x[DP_KERNEL_BLOCK], low[DP_KERNEL_BLOCK], high[DP_KERNEL_BLOCK];
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    int64_t count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(dtype, (const uint16_t *)work->x + i, x, count);
    dp_kernel_widen(dtype, (const uint16_t *)work->low + i * work->low_stride, low,
                    work->low_stride ? count : 1);
    dp_kernel_widen(dtype, (const uint16_t *)work->high + i * work->high_stride, high,
                    work->high_stride ? count : 1);
    work->state->minimum(x, high, x, &(dp_binary_span){count, 1, 1, work->high_stride, 0, 0});
    work->state->maximum(x, low, x, &(dp_binary_span){count, 1, 1, work->low_stride, 0, 0});
    dp_kernel_narrow(dtype, x, (uint16_t *)work->to + i, count);
  }
}

/* Complex numbers: real and imaginary parts each between those of the bounds. */
#define CLIP_PARTS(type)                                                                           \
  static void clip_##type##_parts(void *arg, int64_t begin, int64_t end) {                         \
    const clip_work *work = arg;                                                                   \
    const type *x = (const type *)work->x, *low = (const type *)work->low;                         \
    const type *high = (const type *)work->high;                                                   \
    type *to = (type *)work->to;                                                                   \
    for (int64_t i = 2 * begin; i < 2 * end; ++i) {                                                \
      type least = low[work->low_stride ? i : i % 2], most = high[work->high_stride ? i : i % 2];  \
      type middle = x[i] < most ? x[i] : most;                                                     \
      to[i] = middle > least ? middle : least;                                                     \
    }                                                                                              \
  }
CLIP_PARTS(float)
CLIP_PARTS(double)

static dp_range_fn clip_body(dp_dtype dtype) {
  if (dtype == DP_COMPLEX64)
    return clip_float_parts;
  if (dtype == DP_COMPLEX128)
    return clip_double_parts;
  return dp_kernel_is_short_float(dtype) ? clip_widened : clip_direct;
}

static dp_status *clip_compute(dp_op_context *context, void *memory) {
  const clip_state *state = memory;
  const dp_tensor *x = dp_op_input(context, 0);
  const dp_tensor *low = dp_op_input(context, 1), *high = dp_op_input(context, 2);
  for (int32_t i = 1; i < 3; ++i) {
    const dp_tensor *bound = dp_op_input(context, i);
    if (bound->shape.rank != 0 && !dp_shape_equal(&bound->shape, &x->shape))
      return DP_INVALID("clip_value_min and clip_value_max must be either of the same shape as "
                        "input, or a scalar. input shape: %s clip_value_min shape: %s "
                        "clip_value_max shape: %s",
                        dp_shape_text(&x->shape), dp_shape_text(&low->shape),
                        dp_shape_text(&high->shape));
  }
  clip_work work = {
      state, x->data, low->data, high->data, NULL, low->shape.rank > 0, high->shape.rank > 0};
  dp_shape shape = x->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  work.to = output->data;
  dp_kernel_for(context, shape.elements, 500, clip_body(state->dtype), &work);
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
    {.op = "ClipByValue",
     .types = {{"T", DP_SET_NUMBERS}},
     .state_size = sizeof(clip_state),
     .create = clip_create,
     .compute = clip_compute},
};
DP_KERNEL_FAMILY(add_n, rows);
