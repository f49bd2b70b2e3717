/* Element-wise ops with one input. create picks the loop for dtype and instruction set. compute
 * reuses the input's memory when it has no other user, and splits large arrays over the pool. Half
 * and bfloat16 are widened to float in blocks on the stack. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/math/elementwise_internal.h"
#include "kernels/math/special_internal.h"
#include "kernels/shared/support.h"

typedef struct unary_state {
  dp_unary_fn fn;
  dp_dtype from, to;
  int64_t cost; /* per element, in picoseconds */
} unary_state;

typedef struct unary_name {
  const char *op;
  dp_unary_op loop;
} unary_name;

static const unary_name names[] = {
#define NAME(symbol, op, cost) {#op, DP_UNARY_##symbol},
    DP_UNARY_OPS(NAME)
#undef NAME
        {"Inv", DP_UNARY_reciprocal},
};
static const int64_t costs[DP_UNARY_COUNT] = {
#define COST(symbol, op, cost) cost,
    DP_UNARY_OPS(COST)
#undef COST
};

bool dp_unary_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    dp_unary_fn fn = dp_unary_table()->fn[names[i].loop][dtype];
    if (!fn || strcmp(op, names[i].op) != 0)
      continue;
    int64_t cost = costs[names[i].loop] * (int64_t)dp_dtype_size(dtype) / 4 + 1;
    *loop_out = (dp_elementwise_loop){.unary = fn, .cost = cost};
    return true;
  }
  return false;
}

static dp_status *unary_create(const dp_kernel_setup *setup, void *memory) {
  unary_state *state = memory;
  const dp_node *node = setup->node;
  state->from = dp_dtype_base(node->input_types[0]);
  state->to = dp_dtype_base(node->output_types[0]);
  dp_dtype type = dp_kernel_is_short_float(state->from) ? DP_FLOAT : state->from;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (dp_node_is(node, names[i].op)) {
      state->fn = dp_unary_table()->fn[names[i].loop][type];
      state->cost = costs[names[i].loop] * (int64_t)dp_dtype_size(type) / 4 + 1;
    }
  }
  if (!state->fn) {
    state->fn = dp_special_unary_loop(node->op->name, type);
    state->cost = 100000;
  }
  if (!state->fn)
    return dp_status_create(DP_UNIMPLEMENTED, "%s has no loop for %s", node->op->name,
                            dp_dtype_name(state->from));
  return NULL;
}

typedef struct unary_work {
  const unary_state *state;
  const char *from;
  char *to;
} unary_work;

static void run_direct(void *arg, int64_t begin, int64_t end) {
  const unary_work *work = arg;
  size_t from_size = dp_dtype_size(work->state->from), to_size = dp_dtype_size(work->state->to);
  work->state->fn(work->from + begin * from_size, work->to + begin * to_size, end - begin);
}

static void run_widened(void *arg, int64_t begin, int64_t end) {
  const unary_work *work = arg;
  const unary_state *state = work->state;
  const uint16_t *from = (const uint16_t *)work->from;
  bool narrows = dp_kernel_is_short_float(state->to);
  float block[DP_KERNEL_BLOCK];
  for (int64_t i = begin; i < end; i += DP_KERNEL_BLOCK) {
    int64_t count = end - i < DP_KERNEL_BLOCK ? end - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(state->from, from + i, block, count);
    state->fn(block, narrows ? (void *)block : work->to + i * dp_dtype_size(state->to), count);
    if (narrows)
      dp_kernel_narrow(state->to, block, (uint16_t *)work->to + i, count);
  }
}

static dp_status *unary_compute(dp_op_context *context, void *memory) {
  const unary_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  const void *from = input->data;
  dp_shape shape = input->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  unary_work work = {state, from, output->data};
  dp_kernel_for(context, shape.elements, state->cost,
                dp_kernel_is_short_float(state->from) ? run_widened : run_direct, &work);
  return NULL;
}

static dp_status *pass_compute(dp_op_context *context, void *memory) {
  dp_op_pass(context, 0, 0);
  return NULL;
}

#define UNARY(name, set)                                                                           \
  {                                                                                                \
    .op = #name, .types = {{"T", set}}, .state_size = sizeof(unary_state), .create = unary_create, \
    .compute = unary_compute                                                                       \
  }
#define SET_FLOATS_COMPLEX (DP_SET_FLOATS | DP_SET_COMPLEX)
#define SET_SIGNED_FLOATS (DP_SET_FLOATS | DP_SET_SIGNED)
#define SET_LARGE (DP_SET(FLOAT) | DP_SET(DOUBLE))
#define SET_BUT_BFLOAT16 (SET_LARGE | DP_SET(HALF))

static const dp_kernel rows[] = {
    UNARY(Abs, SET_SIGNED_FLOATS),
    UNARY(Neg, SET_SIGNED_FLOATS | DP_SET_COMPLEX),
    UNARY(Sign, SET_SIGNED_FLOATS | DP_SET_COMPLEX),
    UNARY(Reciprocal, SET_FLOATS_COMPLEX),
    UNARY(Inv, SET_FLOATS_COMPLEX),
    UNARY(Square, DP_SET_NUMBERS),
    UNARY(Sqrt, SET_FLOATS_COMPLEX),
    UNARY(Rsqrt, SET_FLOATS_COMPLEX),
    UNARY(Exp, SET_FLOATS_COMPLEX),
    UNARY(Expm1, SET_FLOATS_COMPLEX),
    UNARY(Log, SET_FLOATS_COMPLEX),
    UNARY(Log1p, SET_FLOATS_COMPLEX),
    UNARY(Sin, SET_FLOATS_COMPLEX),
    UNARY(Cos, SET_FLOATS_COMPLEX),
    UNARY(Tan, SET_FLOATS_COMPLEX),
    UNARY(Asin, SET_FLOATS_COMPLEX),
    UNARY(Acos, SET_FLOATS_COMPLEX),
    UNARY(Atan, SET_FLOATS_COMPLEX),
    UNARY(Sinh, SET_FLOATS_COMPLEX),
    UNARY(Cosh, SET_FLOATS_COMPLEX),
    UNARY(Tanh, SET_FLOATS_COMPLEX),
    UNARY(Asinh, SET_FLOATS_COMPLEX),
    UNARY(Acosh, SET_FLOATS_COMPLEX),
    UNARY(Atanh, SET_FLOATS_COMPLEX),
    UNARY(Sigmoid, SET_FLOATS_COMPLEX),
    UNARY(Erf, DP_SET_FLOATS),
    UNARY(Erfc, DP_SET_FLOATS),
    UNARY(Ceil, DP_SET_FLOATS),
    UNARY(Floor, DP_SET_FLOATS),
    UNARY(Rint, SET_LARGE),
    UNARY(Round, DP_SET_FLOATS | DP_SET_INDEX),
    UNARY(IsNan, DP_SET_FLOATS),
    UNARY(IsInf, DP_SET_FLOATS),
    UNARY(IsFinite, DP_SET_FLOATS),
    {.op = "LogicalNot",
     .state_size = sizeof(unary_state),
     .create = unary_create,
     .compute = unary_compute},
    UNARY(Invert, DP_SET_INTEGERS),
    UNARY(PopulationCount, DP_SET_INTEGERS),
    UNARY(Conj, DP_SET_COMPLEX),
    {.op = "Conj", .types = {{"T", DP_SET(VARIANT)}}, .compute = pass_compute},
    UNARY(Real, DP_SET_COMPLEX),
    UNARY(Imag, DP_SET_COMPLEX),
    UNARY(Angle, DP_SET_COMPLEX),
    UNARY(ComplexAbs, DP_SET_COMPLEX),
    UNARY(Lgamma, SET_BUT_BFLOAT16),
    UNARY(Digamma, SET_BUT_BFLOAT16),
    UNARY(Erfinv, SET_LARGE),
    UNARY(Ndtri, SET_LARGE),
    UNARY(Dawsn, SET_LARGE),
    UNARY(Expint, SET_LARGE),
    UNARY(FresnelCos, SET_LARGE),
    UNARY(FresnelSin, SET_LARGE),
    UNARY(Spence, SET_LARGE),
    UNARY(BesselI0, SET_BUT_BFLOAT16),
    UNARY(BesselI1, SET_BUT_BFLOAT16),
    UNARY(BesselI0e, SET_BUT_BFLOAT16),
    UNARY(BesselI1e, SET_BUT_BFLOAT16),
    UNARY(BesselK0, SET_BUT_BFLOAT16),
    UNARY(BesselK1, SET_BUT_BFLOAT16),
    UNARY(BesselK0e, SET_BUT_BFLOAT16),
    UNARY(BesselK1e, SET_BUT_BFLOAT16),
    UNARY(BesselJ0, SET_BUT_BFLOAT16),
    UNARY(BesselJ1, SET_BUT_BFLOAT16),
    UNARY(BesselY0, SET_BUT_BFLOAT16),
    UNARY(BesselY1, SET_BUT_BFLOAT16),
};
DP_KERNEL_FAMILY(unary, rows);
