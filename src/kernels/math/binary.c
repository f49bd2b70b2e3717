/* Element-wise ops with two inputs, broadcast against each other as in NumPy.
 *
 * create picks the loop for dtype and instruction set. compute has a short path for equal shapes
 * and scalars, which nearly every step takes, and a plan (shared/broadcast.h) for the rest. The
 * result reuses the memory of an operand that has its shape and no other user. Large results are
 * split over the pool by rows or elements. */
#include "kernels/shared/family.h"

#include <stdatomic.h>
#include <string.h>
#include "kernels/math/elementwise_internal.h"
#include "kernels/math/special_internal.h"
#include "kernels/shared/support.h"

typedef struct binary_state {
  dp_binary_fn fn;
  /* For 16-bit floats, where TensorFlow rounds more than once; else NULL. */
  dp_unary_fn first; /* runs on the first operand, and its result is rounded */
  dp_unary_fn then;  /* runs on the rounded result */
  dp_dtype from, to;
  bool is_swapped;       /* the operands are exchanged: Greater is Less */
  bool is_gradient;      /* no broadcasting */
  bool answers_mismatch; /* Equal, NotEqual with incompatible_shape_error=false */
  bool mismatch_answer;
  int64_t cost; /* per element, in picoseconds */
} binary_state;

typedef struct binary_name {
  const char *op;
  dp_binary_op loop;
  bool is_swapped;
  bool is_gradient;
} binary_name;

static const binary_name names[] = {
    {"Add", DP_BINARY_add},
    {"AddV2", DP_BINARY_add},
    {"Sub", DP_BINARY_sub},
    {"Mul", DP_BINARY_mul},
    {"MulNoNan", DP_BINARY_mul_no_nan},
    {"Div", DP_BINARY_div},
    {"RealDiv", DP_BINARY_div},
    {"TruncateDiv", DP_BINARY_truncate_div},
    {"FloorDiv", DP_BINARY_floor_div},
    {"DivNoNan", DP_BINARY_div_no_nan},
    {"Xdivy", DP_BINARY_xdivy},
    {"Xlogy", DP_BINARY_xlogy},
    {"Xlog1py", DP_BINARY_xlog1py},
    {"Mod", DP_BINARY_truncate_mod},
    {"TruncateMod", DP_BINARY_truncate_mod},
    {"FloorMod", DP_BINARY_floor_mod},
    {"Pow", DP_BINARY_pow},
    {"Maximum", DP_BINARY_maximum},
    {"Minimum", DP_BINARY_minimum},
    {"SquaredDifference", DP_BINARY_squared_difference},
    {"Atan2", DP_BINARY_atan2},
    {"NextAfter", DP_BINARY_next_after},
    {"Equal", DP_BINARY_equal},
    {"NotEqual", DP_BINARY_not_equal},
    {"Less", DP_BINARY_less},
    {"LessEqual", DP_BINARY_less_equal},
    {"Greater", DP_BINARY_less, .is_swapped = true},
    {"GreaterEqual", DP_BINARY_less_equal, .is_swapped = true},
    {"LogicalAnd", DP_BINARY_logical_and},
    {"LogicalOr", DP_BINARY_logical_or},
    {"BitwiseAnd", DP_BINARY_bitwise_and},
    {"BitwiseOr", DP_BINARY_bitwise_or},
    {"BitwiseXor", DP_BINARY_bitwise_xor},
    {"LeftShift", DP_BINARY_left_shift},
    {"RightShift", DP_BINARY_right_shift},
    {"Complex", DP_BINARY_make_complex},
    {"InvGrad", DP_BINARY_reciprocal_grad, .is_gradient = true},
    {"ReciprocalGrad", DP_BINARY_reciprocal_grad, .is_gradient = true},
    {"SqrtGrad", DP_BINARY_sqrt_grad, .is_gradient = true},
    {"RsqrtGrad", DP_BINARY_rsqrt_grad, .is_gradient = true},
    {"TanhGrad", DP_BINARY_tanh_grad, .is_gradient = true},
    {"SigmoidGrad", DP_BINARY_sigmoid_grad, .is_gradient = true},
};
static const int64_t costs[DP_BINARY_COUNT] = {
#define COST(symbol, cost) cost,
    DP_BINARY_LOOPS(COST)
#undef COST
};

/* For 16-bit floats, a quotient is rounded before its fraction is dropped, and a logarithm before
 * it is multiplied. x log y is a product of log y with x, which is 0 where x is. */
static void split_short(binary_state *state, dp_binary_op loop) {
  const dp_binary_loops *loops = dp_binary_table();
  const dp_unary_loops *steps = dp_unary_table();
  if (loop == DP_BINARY_floor_div || loop == DP_BINARY_truncate_div) {
    state->fn = loops->fn[DP_BINARY_div][DP_FLOAT];
    dp_unary_op drop = loop == DP_BINARY_floor_div ? DP_UNARY_floor : DP_UNARY_trunc;
    state->then = steps->fn[drop][DP_FLOAT];
  }
  if (loop == DP_BINARY_xlogy || loop == DP_BINARY_xlog1py) {
    state->fn = loops->fn[DP_BINARY_mul_no_nan][DP_FLOAT];
    state->first = steps->fn[loop == DP_BINARY_xlogy ? DP_UNARY_log : DP_UNARY_log1p][DP_FLOAT];
    state->is_swapped = true;
  }
}

static dp_status *binary_create(const dp_kernel_setup *setup, void *memory) {
  binary_state *state = memory;
  const dp_node *node = setup->node;
  state->from = dp_dtype_base(node->input_types[0]);
  state->to = dp_dtype_base(node->output_types[0]);
  dp_dtype type = dp_kernel_is_short_float(state->from) ? DP_FLOAT : state->from;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (!dp_node_is(node, names[i].op))
      continue;
    state->fn = dp_binary_table()->fn[names[i].loop][type];
    state->is_swapped = names[i].is_swapped;
    state->is_gradient = names[i].is_gradient;
    state->cost = costs[names[i].loop] * (int64_t)dp_dtype_size(type) / 4 + 1;
    if (dp_kernel_is_short_float(state->from))
      split_short(state, names[i].loop);
  }
  if (!state->fn) {
    state->fn = dp_special_binary_loop(node->op->name, type);
    state->cost = 200000;
  }
  if (!state->fn)
    return dp_status_create(DP_UNIMPLEMENTED, "%s has no loop for %s", node->op->name,
                            dp_dtype_name(state->from));
  const dp_attr *strict = dp_node_attr(node, "incompatible_shape_error");
  state->answers_mismatch = strict && strict->kind == DP_ATTR_BOOL && !strict->boolean;
  state->mismatch_answer = dp_node_is(node, "NotEqual");
  return NULL;
}

/* ---- One span: a dense block of the result ---- */
typedef struct binary_work {
  const binary_state *state;
  const char *a, *b;
  char *to;
  dp_binary_span span;
  const dp_broadcast *plan; /* for results of more than one span */
  atomic_bool failed;
} binary_work;

static void run_rounded(dp_unary_fn fn, dp_dtype dtype, float *block, int64_t count) {
  uint16_t rounded[DP_KERNEL_BLOCK];
  fn(block, block, count);
  dp_kernel_narrow(dtype, block, rounded, count);
  dp_kernel_widen(dtype, rounded, block, count);
}

/* The row [begin, end) of operands that are 16-bit floats, widened block by block. */
static bool run_row_widened(const binary_state *state, const uint16_t *a, const uint16_t *b,
                            char *to, const dp_binary_span *span) {
  float a_block[DP_KERNEL_BLOCK], b_block[DP_KERNEL_BLOCK], to_block[DP_KERNEL_BLOCK];
  bool narrows = dp_kernel_is_short_float(state->to), fine = true;
  size_t to_size = dp_dtype_size(state->to);
  for (int64_t i = 0; i < span->inner; i += DP_KERNEL_BLOCK) {
    int64_t left = span->inner - i, count = left < DP_KERNEL_BLOCK ? left : DP_KERNEL_BLOCK;
    dp_binary_span block = {count, 1, span->a_inner, span->b_inner, 0, 0};
    dp_kernel_widen(state->from, a + i * span->a_inner, a_block, span->a_inner ? count : 1);
    dp_kernel_widen(state->from, b + i * span->b_inner, b_block, span->b_inner ? count : 1);
    if (state->first)
      run_rounded(state->first, state->from, a_block, span->a_inner ? count : 1);
    fine &= state->fn(a_block, b_block, narrows ? (void *)to_block : to + i * to_size, &block);
    if (narrows)
      dp_kernel_narrow(state->to, to_block, (uint16_t *)to + i, count);
    if (state->then) {
      dp_kernel_widen(state->to, (const uint16_t *)to + i, to_block, count);
      state->then(to_block, to_block, count);
      dp_kernel_narrow(state->to, to_block, (uint16_t *)to + i, count);
    }
  }
  return fine;
}

static bool run_span(const binary_state *state, const char *a, const char *b, char *to,
                     const dp_binary_span *span) {
  if (!dp_kernel_is_short_float(state->from))
    return state->fn(a, b, to, span);
  bool fine = true;
  for (int64_t row = 0; row < span->outer; ++row)
    fine &= run_row_widened(state, (const uint16_t *)a + row * span->a_outer,
                            (const uint16_t *)b + row * span->b_outer,
                            to + row * span->inner * dp_dtype_size(state->to), span);
  return fine;
}

/* Elements [begin, end) of a result that is one row. */
static void run_elements(void *arg, int64_t begin, int64_t end) {
  binary_work *work = arg;
  size_t size = dp_dtype_size(work->state->from);
  dp_binary_span span = work->span;
  span.inner = end - begin;
  if (!run_span(work->state, work->a + begin * span.a_inner * size,
                work->b + begin * span.b_inner * size,
                work->to + begin * dp_dtype_size(work->state->to), &span))
    atomic_store_explicit(&work->failed, true, memory_order_relaxed);
}

/* Rows [begin, end), counted over all spans. */
static void run_rows(void *arg, int64_t begin, int64_t end) {
  binary_work *work = arg;
  size_t size = dp_dtype_size(work->state->from), to_size = dp_dtype_size(work->state->to);
  int64_t rows_of_span = work->span.outer;
  while (begin < end) {
    int64_t index = begin / rows_of_span, row = begin % rows_of_span, offsets[2] = {0, 0};
    dp_binary_span span = work->span;
    span.outer = rows_of_span - row < end - begin ? rows_of_span - row : end - begin;
    if (work->plan)
      dp_broadcast_offsets(work->plan, index, offsets);
    const char *a = work->a + (offsets[0] + row * span.a_outer) * size;
    const char *b = work->b + (offsets[1] + row * span.b_outer) * size;
    if (!run_span(work->state, a, b, work->to + begin * span.inner * to_size, &span))
      atomic_store_explicit(&work->failed, true, memory_order_relaxed);
    begin += span.outer;
  }
}

/* ---- Short rows ---- */
#define TILE_BYTES 4096
/* Writes a short row that repeats (such as a bias of a few classes) several times into `tile`, so
 * that the loops run over long rows. Only for results of one span. */
static void lengthen_rows(binary_work *work, char *tile) {
  dp_binary_span *span = &work->span;
  size_t size = dp_dtype_size(work->state->from);
  bool repeats_b = span->b_outer == 0 && span->b_inner && span->a_outer == span->inner;
  bool repeats_a = span->a_outer == 0 && span->a_inner && span->b_outer == span->inner;
  int64_t times = TILE_BYTES / ((int64_t)size * span->inner);
  if (span->inner > 32 || !span->a_inner || !span->b_inner || !(repeats_a || repeats_b) ||
      times < 2 || span->outer < times || span->outer % times)
    return;
  const char **row = repeats_b ? &work->b : &work->a;
  for (int64_t i = 0; i < times; ++i)
    memcpy(tile + i * span->inner * size, *row, (size_t)span->inner * size);
  *row = tile;
  span->inner *= times;
  span->outer /= times;
  *(repeats_b ? &span->a_outer : &span->b_outer) = span->inner;
}

/* ---- Compute ---- */
static dp_status *shape_error(const dp_tensor *a, const dp_tensor *b) {
  return DP_INVALID("Incompatible shapes: %s vs. %s", dp_shape_text(&a->shape),
                    dp_shape_text(&b->shape));
}

static dp_status *loop_error(const dp_op_context *context) {
  if (dp_node_is(context->node, "Pow"))
    return DP_INVALID("Integers to negative integer powers are not allowed");
  if (dp_node_is(context->node, "TruncateDiv") || dp_node_is(context->node, "TruncateMod"))
    return dp_status_create(DP_INTERNAL, "Unexpected error in binary operator "
                                         "(only integer div and mod should have errors)");
  return DP_INVALID("Integer division by zero");
}

static dp_status *allocate(dp_op_context *context, const dp_shape *shape, binary_work *work) {
  dp_tensor *output;
  DP_RETURN_IF_ERROR(
      dp_op_allocate_or_forward_any(context, (const int32_t[]){0, 1}, 2, 0, shape, &output));
  work->to = output->data;
  return NULL;
}

/* Equal shapes, or one scalar. */
static dp_status *compute_flat(dp_op_context *context, binary_work *work, const dp_shape *shape,
                               bool a_moves, bool b_moves) {
  dp_shape copy = *shape;
  DP_RETURN_IF_ERROR(allocate(context, &copy, work));
  work->span = (dp_binary_span){copy.elements, 1, a_moves, b_moves, 0, 0};
  dp_kernel_for(context, copy.elements, work->state->cost, run_elements, work);
  return work->failed ? loop_error(context) : NULL;
}

/* For results that have elements. */
static void run_plan(dp_op_context *context, binary_work *work, const dp_broadcast *plan) {
  dp_broadcast_span span = dp_broadcast_span_of(plan);
  work->span = (dp_binary_span){span.inner,           span.outer,           span.inner_stride[0],
                                span.inner_stride[1], span.outer_stride[0], span.outer_stride[1]};
  char tile[TILE_BYTES];
  if (plan->rank > 2)
    work->plan = plan;
  else
    lengthen_rows(work, tile);
  int64_t rows = plan->shape.elements / work->span.inner, cost = work->state->cost;
  if (rows == 1)
    dp_kernel_for(context, work->span.inner, cost, run_elements, work);
  else
    dp_op_for(context, rows, work->span.inner * cost / 1000 + 5, run_rows, work);
}

static dp_status *compute_broadcast(dp_op_context *context, binary_work *work, const dp_tensor *a,
                                    const dp_tensor *b) {
  dp_broadcast plan;
  if (!dp_broadcast_plan((const dp_shape *[]){&a->shape, &b->shape}, 2, &plan)) {
    if (work->state->answers_mismatch)
      return dp_op_output_bool(context, 0, work->state->mismatch_answer);
    return work->state->is_swapped ? shape_error(b, a) : shape_error(a, b);
  }
  DP_RETURN_IF_ERROR(allocate(context, &plan.shape, work));
  if (plan.shape.elements > 0)
    run_plan(context, work, &plan);
  return work->failed ? loop_error(context) : NULL;
}
static dp_status *binary_compute(dp_op_context *context, void *memory) {
  const binary_state *state = memory;
  const dp_tensor *a = dp_op_input(context, state->is_swapped);
  const dp_tensor *b = dp_op_input(context, !state->is_swapped);
  binary_work work = {.state = state, .a = a->data, .b = b->data};
  if (dp_shape_equal(&a->shape, &b->shape))
    return compute_flat(context, &work, &a->shape, true, true);
  if (state->is_gradient)
    return DP_INVALID("The two arguments to a cwise op must have same number of elements, got %lld "
                      "and %lld",
                      (long long)a->shape.elements, (long long)b->shape.elements);
  if (b->shape.rank == 0)
    return compute_flat(context, &work, &a->shape, true, false);
  if (a->shape.rank == 0)
    return compute_flat(context, &work, &b->shape, false, true);
  return compute_broadcast(context, &work, a, b);
}

/* ---- For fused nodes ---- */
bool dp_binary_find_loop(const char *op, dp_dtype dtype, dp_elementwise_loop *loop_out) {
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    dp_binary_fn fn = dp_binary_table()->fn[names[i].loop][dtype];
    if (!fn || names[i].is_swapped || strcmp(op, names[i].op) != 0)
      continue;
    int64_t cost = costs[names[i].loop] * (int64_t)dp_dtype_size(dtype) / 4 + 1;
    *loop_out =
        (dp_elementwise_loop){.binary = fn, .is_gradient = names[i].is_gradient, .cost = cost};
    return true;
  }
  return false;
}

void dp_binary_run_broadcast(dp_op_context *context, const dp_elementwise_loop *loop,
                             dp_dtype dtype, const dp_broadcast *plan, const void *a, const void *b,
                             void *to) {
  binary_state state = {.fn = loop->binary, .from = dtype, .to = dtype, .cost = loop->cost};
  binary_work work = {.state = &state, .a = a, .b = b, .to = to};
  run_plan(context, &work, plan);
}

#define BINARY(name, set)                                                                          \
  {                                                                                                \
    .op = #name, .types = {{"T", set}}, .state_size = sizeof(binary_state),                        \
    .create = binary_create, .compute = binary_compute                                             \
  }
#define UNTYPED(name)                                                                              \
  {                                                                                                \
    .op = #name, .state_size = sizeof(binary_state), .create = binary_create,                      \
    .compute = binary_compute                                                                      \
  }
#define SET_FLOATS_COMPLEX (DP_SET_FLOATS | DP_SET_COMPLEX)
#define SET_LARGE (DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_INDEX)
#define SET_REAL (DP_SET(FLOAT) | DP_SET(DOUBLE))
#define SET_ADD (SET_FLOATS_COMPLEX | DP_SET_SIGNED | DP_SET(UINT8))
#define SET_EQUAL (DP_SET_NUMBERS | DP_SET_QUANTIZED | DP_SET(BOOL))

static const dp_kernel rows[] = {
    BINARY(Add, SET_ADD),
    BINARY(AddV2, DP_SET_NUMBERS),
    BINARY(Sub, DP_SET_NUMBERS),
    BINARY(Mul, DP_SET_NUMBERS),
    BINARY(MulNoNan, SET_FLOATS_COMPLEX),
    BINARY(Div, DP_SET_NUMBERS),
    BINARY(RealDiv, SET_FLOATS_COMPLEX),
    BINARY(TruncateDiv, DP_SET_REALS),
    BINARY(FloorDiv, DP_SET_REALS),
    BINARY(DivNoNan, SET_FLOATS_COMPLEX),
    BINARY(Xdivy, SET_FLOATS_COMPLEX),
    BINARY(Xlogy, SET_FLOATS_COMPLEX),
    BINARY(Xlog1py, SET_FLOATS_COMPLEX),
    BINARY(Mod, SET_LARGE),
    BINARY(TruncateMod, SET_LARGE),
    BINARY(FloorMod, DP_SET_REALS),
    BINARY(Pow, SET_FLOATS_COMPLEX | DP_SET_SIGNED),
    BINARY(Maximum, DP_SET_REALS),
    BINARY(Minimum, DP_SET_REALS),
    BINARY(SquaredDifference, SET_FLOATS_COMPLEX | DP_SET_INDEX),
    BINARY(Atan2, DP_SET_FLOATS),
    BINARY(NextAfter, SET_REAL),
    BINARY(Equal, SET_EQUAL),
    BINARY(NotEqual, SET_EQUAL),
    BINARY(Less, DP_SET_REALS),
    BINARY(LessEqual, DP_SET_REALS),
    BINARY(Greater, DP_SET_REALS),
    BINARY(GreaterEqual, DP_SET_REALS),
    UNTYPED(LogicalAnd),
    UNTYPED(LogicalOr),
    BINARY(BitwiseAnd, DP_SET_INTEGERS),
    BINARY(BitwiseOr, DP_SET_INTEGERS),
    BINARY(BitwiseXor, DP_SET_INTEGERS),
    BINARY(LeftShift, DP_SET_INTEGERS),
    BINARY(RightShift, DP_SET_INTEGERS),
    BINARY(Complex, SET_REAL),
    BINARY(InvGrad, SET_FLOATS_COMPLEX),
    BINARY(ReciprocalGrad, SET_FLOATS_COMPLEX),
    BINARY(SqrtGrad, SET_FLOATS_COMPLEX),
    BINARY(RsqrtGrad, SET_FLOATS_COMPLEX),
    BINARY(TanhGrad, SET_FLOATS_COMPLEX),
    BINARY(SigmoidGrad, SET_FLOATS_COMPLEX),
    BINARY(Igamma, SET_REAL),
    BINARY(Igammac, SET_REAL),
    BINARY(IgammaGradA, SET_REAL),
    BINARY(Zeta, SET_REAL),
    BINARY(Polygamma, SET_REAL),
};
DP_KERNEL_FAMILY(binary, rows);
