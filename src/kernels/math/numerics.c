/* CheckNumerics, CheckNumericsV2, Cross, ApproximateEqual, and equality and addition of strings:
 * element-wise ops without a vector loop. */
#include "kernels/shared/family.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include "kernels/shared/broadcast.h"
#include "kernels/shared/support.h"

/* ---- CheckNumerics ---- */
/* A number is not finite when all bits of its exponent are set. Then, with the sign cleared, adding
 * 1 to the lowest bit of the exponent carries into the sign bit. */
#define BLOCK 64 /* a constant size, so that compilers vectorize the loop */
#define DEFINE_HAS_BAD(bits)                                                                       \
  typedef uint##bits##_t __attribute__((may_alias)) word##bits;                                    \
  static bool has_bad##bits(const void *memory, int64_t count, uint##bits##_t one) {               \
    const uint##bits##_t sign = (uint##bits##_t)((uint##bits##_t)1 << (bits - 1));                 \
    const word##bits *data = memory;                                                               \
    uint##bits##_t seen = 0;                                                                       \
    int64_t i = 0;                                                                                 \
    for (; i + BLOCK <= count; i += BLOCK)                                                         \
      for (int64_t k = 0; k < BLOCK; ++k)                                                          \
        seen |= (uint##bits##_t)((data[i + k] & (sign - 1)) + one);                                \
    for (; i < count; ++i)                                                                         \
      seen |= (uint##bits##_t)((data[i] & (sign - 1)) + one);                                      \
    return seen & sign;                                                                            \
  }
DEFINE_HAS_BAD(16)
DEFINE_HAS_BAD(32)
DEFINE_HAS_BAD(64)

typedef struct check_work {
  const dp_tensor *tensor;
  _Atomic bool has_bad;
} check_work;

static void check_range(void *arg, int64_t begin, int64_t end) {
  check_work *work = arg;
  dp_dtype dtype = work->tensor->dtype;
  const void *data = (const char *)work->tensor->data + (size_t)begin * dp_dtype_size(dtype);
  int64_t count = end - begin;
  if (dtype == DP_FLOAT    ? has_bad32(data, count, UINT32_C(1) << 23)
      : dtype == DP_DOUBLE ? has_bad64(data, count, UINT64_C(1) << 52)
                           : has_bad16(data, count, dtype == DP_HALF ? 1 << 10 : 1 << 7))
    atomic_store_explicit(&work->has_bad, true, memory_order_relaxed);
}

enum { HAS_POSITIVE_INFINITY = 1, HAS_NEGATIVE_INFINITY = 2, HAS_NAN = 4 };

static int classify(double value) {
  return isnan(value) ? HAS_NAN : value > 0 ? HAS_POSITIVE_INFINITY : HAS_NEGATIVE_INFINITY;
}

static int find_float(const float *data, int64_t count) {
  int found = 0;
  for (int64_t i = 0; i < count; ++i)
    if (!isfinite(data[i]))
      found |= classify((double)data[i]);
  return found;
}

static int find_double(const double *data, int64_t count) {
  int found = 0;
  for (int64_t i = 0; i < count; ++i)
    if (!isfinite(data[i]))
      found |= classify(data[i]);
  return found;
}

static int find_short(dp_dtype dtype, const uint16_t *data, int64_t count) {
  float block[DP_KERNEL_BLOCK];
  int found = 0;
  for (int64_t i = 0; i < count; i += DP_KERNEL_BLOCK) {
    int64_t part = count - i < DP_KERNEL_BLOCK ? count - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(dtype, data + i, block, part);
    found |= find_float(block, part);
  }
  return found;
}

/* Which values (NaN, infinities) are not finite. Slow; only for the error message. */
static int find_bad(const dp_tensor *tensor) {
  int64_t count = tensor->shape.elements;
  if (tensor->dtype == DP_FLOAT)
    return find_float(tensor->data, count);
  if (tensor->dtype == DP_DOUBLE)
    return find_double(tensor->data, count);
  return find_short(tensor->dtype, tensor->data, count);
}

typedef struct check_state {
  dp_view message;
  bool tells_sign;
} check_state;

static dp_status *check_create(const dp_kernel_setup *setup, void *memory) {
  check_state *state = memory;
  state->tells_sign = dp_node_is(setup->node, "CheckNumericsV2");
  return dp_node_get_string(setup->node, "message", &state->message);
}

static dp_status *check_compute(dp_op_context *context, void *memory) {
  static const char *const unsigned_texts[8] = {"",    "Inf",         "Inf",         "Inf",
                                                "NaN", "Inf and NaN", "Inf and NaN", "Inf and NaN"};
  static const char *const signed_texts[8] = {
      "",    "+Inf",         "-Inf",         "-Inf and +Inf",
      "NaN", "+Inf and NaN", "-Inf and NaN", "-Inf, +Inf, and NaN"};
  const check_state *state = memory;
  check_work work = {.tensor = dp_op_input(context, 0)};
  dp_kernel_for(context, work.tensor->shape.elements, 100, check_range, &work);
  if (work.has_bad) {
    int found = find_bad(work.tensor);
    return DP_INVALID("%.*s : Tensor had %s values", (int)state->message.length,
                      state->message.data,
                      (state->tells_sign ? signed_texts : unsigned_texts)[found]);
  }
  dp_op_pass(context, 0, 0);
  return NULL;
}

/* ---- Cross ---- */
#define CROSS(name, type, wide)                                                                    \
  static void cross_##name(const void *a_data, const void *b_data, void *to_data, int64_t count) { \
    const type *a = a_data, *b = b_data;                                                           \
    type *to = to_data;                                                                            \
    for (int64_t i = 0; i < count; i += 3) {                                                       \
      wide x0 = (wide)a[i], x1 = (wide)a[i + 1], x2 = (wide)a[i + 2];                              \
      wide y0 = (wide)b[i], y1 = (wide)b[i + 1], y2 = (wide)b[i + 2];                              \
      to[i] = (type)(x1 * y2 - x2 * y1);                                                           \
      to[i + 1] = (type)(x2 * y0 - x0 * y2);                                                       \
      to[i + 2] = (type)(x0 * y1 - x1 * y0);                                                       \
    }                                                                                              \
  }
CROSS(float, float, float)
CROSS(double, double, double)
CROSS(uint8, uint8_t, uint64_t)
CROSS(uint16, uint16_t, uint64_t)
CROSS(uint32, uint32_t, uint64_t)
CROSS(uint64, uint64_t, uint64_t)
#undef CROSS

static void cross_short(dp_dtype dtype, const uint16_t *a, const uint16_t *b, uint16_t *to,
                        int64_t count) {
  for (int64_t i = 0; i < count; i += 3) {
    float x[3], y[3], z[3];
    dp_kernel_widen(dtype, a + i, x, 3);
    dp_kernel_widen(dtype, b + i, y, 3);
    cross_float(x, y, z, 3);
    dp_kernel_narrow(dtype, z, to + i, 3);
  }
}

static dp_status *cross_compute(dp_op_context *context, void *memory) {
  static void (*const fns[DP_DTYPE_END])(const void *, const void *, void *, int64_t) = {
      [DP_FLOAT] = cross_float,   [DP_DOUBLE] = cross_double, [DP_INT8] = cross_uint8,
      [DP_INT16] = cross_uint16,  [DP_INT32] = cross_uint32,  [DP_INT64] = cross_uint64,
      [DP_UINT8] = cross_uint8,   [DP_UINT16] = cross_uint16, [DP_UINT32] = cross_uint32,
      [DP_UINT64] = cross_uint64,
  };
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  if (!dp_shape_equal(&a->shape, &b->shape))
    return DP_INVALID("Both inputs must be of same shape: %s vs. %s", dp_shape_text(&a->shape),
                      dp_shape_text(&b->shape));
  if (a->shape.rank < 1)
    return DP_INVALID("Input must be at least 1D: %s", dp_shape_text(&a->shape));
  if (a->shape.dims[a->shape.rank - 1] != 3)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "Cross-products are only defined for 3-element vectors.");
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &a->shape, &output));
  if (fns[a->dtype])
    fns[a->dtype](a->data, b->data, output->data, a->shape.elements);
  else
    cross_short(a->dtype, a->data, b->data, output->data, a->shape.elements);
  return NULL;
}

/* ---- ApproximateEqual ---- */
typedef struct approximate_state {
  float tolerance;
} approximate_state;

static dp_status *approximate_create(const dp_kernel_setup *setup, void *memory) {
  approximate_state *state = memory;
  return dp_node_get_float(setup->node, "tolerance", &state->tolerance);
}

static dp_status *approximate_compute(dp_op_context *context, void *memory) {
  const approximate_state *state = memory;
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  if (!dp_shape_equal(&a->shape, &b->shape))
    return DP_INVALID("x and y must be of the same shape. x shape: %s. y shape: %s",
                      dp_shape_text(&a->shape), dp_shape_text(&b->shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &a->shape, &output));
  bool *to = output->data;
  for (int64_t i = 0; i < a->shape.elements; ++i) {
    if (a->dtype == DP_FLOAT)
      to[i] = fabsf(((float *)a->data)[i] - ((float *)b->data)[i]) < state->tolerance;
    else
      to[i] = fabs(((double *)a->data)[i] - ((double *)b->data)[i]) < (double)state->tolerance;
  }
  return NULL;
}

/* ---- Strings ---- */
typedef struct string_work {
  const dp_tstring *a, *b;
  dp_broadcast plan;
  dp_broadcast_span span;
} string_work;

/* The operands of element `index` of the result. */
static void string_operands(const string_work *work, int64_t index, const dp_tstring **a,
                            const dp_tstring **b) {
  const dp_broadcast_span *span = &work->span;
  int64_t offsets[DP_BROADCAST_MAX], rest = index % (span->inner * span->outer);
  int64_t row = rest / span->inner, column = rest % span->inner;
  dp_broadcast_offsets(&work->plan, index / (span->inner * span->outer), offsets);
  *a = work->a + offsets[0] + row * span->outer_stride[0] + column * span->inner_stride[0];
  *b = work->b + offsets[1] + row * span->outer_stride[1] + column * span->inner_stride[1];
}

static bool start_strings(const dp_op_context *context, string_work *work) {
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  work->a = dp_tensor_strings(a);
  work->b = dp_tensor_strings(b);
  if (!dp_broadcast_plan((const dp_shape *[]){&a->shape, &b->shape}, 2, &work->plan))
    return false;
  work->span = dp_broadcast_span_of(&work->plan);
  return true;
}

static dp_status *incompatible(const dp_op_context *context) {
  return DP_INVALID("Incompatible shapes: %s vs. %s",
                    dp_shape_text(&dp_op_input(context, 0)->shape),
                    dp_shape_text(&dp_op_input(context, 1)->shape));
}

static dp_status *compare_strings(dp_op_context *context, void *memory) {
  bool wants_equal = dp_node_is(context->node, "Equal");
  string_work work;
  if (!start_strings(context, &work)) {
    const dp_attr *strict = dp_node_attr(context->node, "incompatible_shape_error");
    if (strict && strict->kind == DP_ATTR_BOOL && !strict->boolean)
      return dp_op_output_bool(context, 0, !wants_equal);
    return incompatible(context);
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &work.plan.shape, &output));
  for (int64_t i = 0; i < work.plan.shape.elements; ++i) {
    const dp_tstring *a, *b;
    string_operands(&work, i, &a, &b);
    bool equal = dp_view_equal(dp_tstring_view(a), dp_tstring_view(b));
    ((bool *)output->data)[i] = equal == wants_equal;
  }
  return NULL;
}

static dp_status *join_strings(dp_op_context *context, void *memory) {
  string_work work;
  if (!start_strings(context, &work))
    return incompatible(context);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &work.plan.shape, &output));
  for (int64_t i = 0; i < work.plan.shape.elements; ++i) {
    const dp_tstring *a, *b;
    string_operands(&work, i, &a, &b);
    dp_view left = dp_tstring_view(a), right = dp_tstring_view(b);
    char *to;
    DP_RETURN_IF_ERROR(
        dp_tstring_resize(&dp_tensor_strings(output)[i], left.length + right.length, &to));
    if (left.length)
      memcpy(to, left.data, left.length);
    if (right.length)
      memcpy(to + left.length, right.data, right.length);
  }
  return NULL;
}

#define CHECK(name)                                                                                \
  {                                                                                                \
    .op = #name, .types = {{"T", DP_SET_FLOATS}}, .state_size = sizeof(check_state),               \
    .create = check_create, .compute = check_compute                                               \
  }
static const dp_kernel rows[] = {
    CHECK(CheckNumerics),
    CHECK(CheckNumericsV2),
    {.op = "Cross", .types = {{"T", DP_SET_REALS}}, .compute = cross_compute},
    {.op = "ApproximateEqual",
     .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}},
     .state_size = sizeof(approximate_state),
     .create = approximate_create,
     .compute = approximate_compute},
    {.op = "Equal", .types = {{"T", DP_SET(STRING)}}, .compute = compare_strings},
    {.op = "NotEqual", .types = {{"T", DP_SET(STRING)}}, .compute = compare_strings},
    {.op = "Add", .types = {{"T", DP_SET(STRING)}}, .compute = join_strings},
    {.op = "AddV2", .types = {{"T", DP_SET(STRING)}}, .compute = join_strings},
};
DP_KERNEL_FAMILY(numerics, rows);
