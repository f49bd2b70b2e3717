/* Relu and the other activations (Relu6, Elu, Selu, LeakyRelu, Softplus, Softsign) with their
 * gradients. create picks the loop for dtype and instruction set; 16-bit floats are widened to
 * float in blocks on the stack. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/math/elementwise_internal.h"
#include "kernels/shared/support.h"

typedef struct activation_state {
  dp_activation_fn fn;
  dp_activation_grad_fn grad;
  dp_dtype dtype;
  double alpha;
  int64_t cost; /* per element, in picoseconds */
} activation_state;

typedef struct activation_name {
  const char *op;
  dp_activation_loop loop;
  int64_t cost;
} activation_name;

static const activation_name names[] = {
#define NAME(symbol, op, cost) {#op, DP_ACTIVATION_##symbol, cost},
    DP_ACTIVATIONS(NAME)
#undef NAME
};

/* Whether `op` is `name`, or its gradient. */
static bool is_named(const char *op, const char *name, bool *is_gradient_out) {
  size_t length = strlen(name);
  if (strncmp(op, name, length) != 0)
    return false;
  *is_gradient_out = strcmp(op + length, "Grad") == 0;
  return op[length] == '\0' || *is_gradient_out;
}

bool dp_activation_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out) {
  const dp_activation_loops *loops = dp_activation_table();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    bool is_gradient;
    if (!is_named(op, names[i].op, &is_gradient))
      continue;
    *loop_out = (dp_elementwise_loop){
        .activation = is_gradient ? NULL : loops->fn[names[i].loop][dtype],
        .activation_grad = is_gradient ? loops->grad[names[i].loop][dtype] : NULL,
        .is_gradient = is_gradient,
        .cost = names[i].cost * (int64_t)dp_dtype_size(dtype) / 4 + 1};
    return true;
  }
  return false;
}

static void round_short(dp_dtype dtype, float *value) {
  uint16_t rounded;
  dp_kernel_narrow(dtype, value, &rounded, 1);
  dp_kernel_widen(dtype, &rounded, value, 1);
}

static dp_status *activation_create(const dp_kernel_setup *setup, void *memory) {
  activation_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  dp_dtype type = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  const dp_activation_loops *loops = dp_activation_table();
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    bool is_gradient;
    if (!is_named(setup->node->op->name, names[i].op, &is_gradient))
      continue;
    state->fn = loops->fn[names[i].loop][type];
    state->grad = loops->grad[names[i].loop][type];
    state->cost = names[i].cost * (int64_t)dp_dtype_size(type) / 4 + 1;
    if (names[i].loop == DP_ACTIVATION_leaky_relu) {
      float alpha;
      DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "alpha", &alpha));
      if (type != state->dtype) /* TensorFlow multiplies 16-bit floats with a slope of their type */
        round_short(state->dtype, &alpha);
      state->alpha = alpha;
    }
  }
  return NULL;
}

typedef struct activation_work {
  const activation_state *state;
  const char *gradient, *feature;
  char *to;
} activation_work;

static void run_forward(void *arg, int64_t begin, int64_t end) {
  const activation_work *work = arg;
  const activation_state *state = work->state;
  size_t size = dp_dtype_size(state->dtype);
  state->fn(work->feature + begin * size, work->to + begin * size, end - begin, state->alpha);
}

static void run_forward_widened(void *arg, int64_t begin, int64_t end) {
  const activation_work *work = arg;
  const activation_state *state = work->state;
  float block[DP_KERNEL_BLOCK];
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    int64_t count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(state->dtype, (const uint16_t *)work->feature + i, block, count);
    state->fn(block, block, count, state->alpha);
    dp_kernel_narrow(state->dtype, block, (uint16_t *)work->to + i, count);
  }
}

static void run_gradient(void *arg, int64_t begin, int64_t end) {
  const activation_work *work = arg;
  const activation_state *state = work->state;
  size_t size = dp_dtype_size(state->dtype);
  state->grad(work->gradient + begin * size, work->feature + begin * size, work->to + begin * size,
              end - begin, state->alpha);
}

static void run_gradient_widened(void *arg, int64_t begin, int64_t end) {
  const activation_work *work = arg;
  const activation_state *state = work->state;
  float gradient[DP_KERNEL_BLOCK], feature[DP_KERNEL_BLOCK];
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    int64_t count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(state->dtype, (const uint16_t *)work->gradient + i, gradient, count);
    dp_kernel_widen(state->dtype, (const uint16_t *)work->feature + i, feature, count);
    state->grad(gradient, feature, gradient, count, state->alpha);
    dp_kernel_narrow(state->dtype, gradient, (uint16_t *)work->to + i, count);
  }
}

static dp_status *forward_compute(dp_op_context *context, void *memory) {
  const activation_state *state = memory;
  const dp_tensor *features = dp_op_input(context, 0);
  activation_work work = {.state = state, .feature = features->data};
  dp_shape shape = features->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  work.to = output->data;
  dp_kernel_for(context, shape.elements, state->cost,
                dp_kernel_is_short_float(state->dtype) ? run_forward_widened : run_forward, &work);
  return NULL;
}

static dp_status *gradient_compute(dp_op_context *context, void *memory) {
  const activation_state *state = memory;
  const dp_tensor *gradients = dp_op_input(context, 0), *features = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(dp_kernel_expect_same_size(context, 1));
  activation_work work = {state, gradients->data, features->data, NULL};
  dp_shape shape = gradients->shape;
  dp_tensor *output;
  const int32_t slots[] = {0, 1};
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward_any(context, slots, 2, 0, &shape, &output));
  work.to = output->data;
  dp_kernel_for(context, shape.elements, state->cost + 100,
                dp_kernel_is_short_float(state->dtype) ? run_gradient_widened : run_gradient,
                &work);
  return NULL;
}

#define ROW(name, set, run)                                                                        \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(activation_state),                     \
    .create = activation_create, .compute = run                                                    \
  }
#define ROWS(name, set) ROW(#name, set, forward_compute), ROW(#name "Grad", set, gradient_compute)

static const dp_kernel rows[] = {
    ROWS(Relu, DP_SET_REALS),      ROWS(Relu6, DP_SET_REALS), ROWS(LeakyRelu, DP_SET_REALS),
    ROWS(Elu, DP_SET_FLOATS),      ROWS(Selu, DP_SET_FLOATS), ROWS(Softplus, DP_SET_FLOATS),
    ROWS(Softsign, DP_SET_FLOATS),
};
DP_KERNEL_FAMILY(activation, rows);
