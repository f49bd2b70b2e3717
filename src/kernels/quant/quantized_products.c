/* Products and sums of quantized tensors: QuantizedMatMul, QuantizedConv2D, QuantizedMul,
 * QuantizedBiasAdd, QuantizedAdd. Results are 32-bit codes with a range of their own. Codes of
 * factors are widened to integers that are 0 where the value is 0; then the integer loops do the
 * work. */
#include "kernels/shared/family.h"

#include <math.h>
#include "kernels/products/conv.h"
#include "kernels/products/gemm.h"
#include "kernels/quant/quantized_internal.h"

typedef struct widen_call {
  const dp_tensor *from;
  int32_t *to;
  int32_t zero;
} widen_call;

static void widen_codes(void *arg, int64_t begin, int64_t end) {
  const widen_call *call = arg;
  for (int64_t i = begin; i < end; ++i)
    call->to[i] = (int32_t)((uint32_t)dp_quantized_load(call->from, i) - (uint32_t)call->zero);
}

/* A new int32 tensor: each code minus the code of zero. */
static dp_status *widen(dp_op_context *context, const dp_tensor *from, dp_quantized_range range,
                        dp_tensor *wide_out) {
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT32, &from->shape, wide_out));
  widen_call call = {.from = from,
                     .to = wide_out->data,
                     .zero = (int32_t)dp_quantized_code(from->dtype, 0, range)};
  dp_op_for(context, from->shape.elements, 1, widen_codes, &call);
  return NULL;
}

/* Two operands, widened, and the range of their products. */
typedef struct operands {
  dp_quantized_range ranges[2], result;
  dp_tensor wide[2];
} operands;

static void operands_deinit(operands *operands) {
  dp_tensor_deinit(&operands->wide[0]);
  dp_tensor_deinit(&operands->wide[1]);
}

/* Ranges of inputs 0 and 1 are inputs 2 to 5. */
static dp_status *read_ranges(dp_op_context *context, operands *operands) {
  DP_RETURN_IF_ERROR(dp_quantized_read_range(context, 2, &operands->ranges[0]));
  return dp_quantized_read_range(context, 4, &operands->ranges[1]);
}

static dp_status *widen_operands(dp_op_context *context, operands *operands) {
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  operands->result = dp_quantized_product_range(a->dtype, operands->ranges[0], b->dtype,
                                                operands->ranges[1], DP_QINT32);
  DP_RETURN_IF_ERROR(widen(context, a, operands->ranges[0], &operands->wide[0]));
  return widen(context, b, operands->ranges[1], &operands->wide[1]);
}

static dp_status *expect_wide_ranges(const operands *operands, const char *a, const char *b) {
  if (!(operands->ranges[0].high > operands->ranges[0].low))
    return DP_INVALID("max_%s must be larger than min_a.", a);
  if (!(operands->ranges[1].high > operands->ranges[1].low))
    return DP_INVALID("max_%s must be larger than min_b.", b);
  return NULL;
}

/* ---- QuantizedMatMul ---- */
typedef struct matmul_state {
  bool transpose_a, transpose_b;
} matmul_state;

static dp_status *matmul_create(const dp_kernel_setup *setup, void *memory) {
  matmul_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "transpose_a", &state->transpose_a));
  return dp_node_get_bool(setup->node, "transpose_b", &state->transpose_b);
}

static dp_status *plan_matmul(dp_op_context *context, const matmul_state *state, dp_gemm *gemm) {
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  if (a->shape.rank != 2)
    return DP_INVALID("In[0] is not a matrix");
  if (b->shape.rank != 2)
    return DP_INVALID("In[1] is not a matrix");
  int64_t k = a->shape.dims[!state->transpose_a];
  if (k != b->shape.dims[state->transpose_b])
    return DP_INVALID("Matrix size-incompatible: In[0]: %s, In[1]: %s", dp_shape_text(&a->shape),
                      dp_shape_text(&b->shape));
  *gemm = (dp_gemm){.dtype = DP_INT32,
                    .m = a->shape.dims[state->transpose_a],
                    .n = b->shape.dims[!state->transpose_b],
                    .k = k,
                    .a_stride = a->shape.dims[1],
                    .b_stride = b->shape.dims[1],
                    .transpose_a = state->transpose_a,
                    .transpose_b = state->transpose_b};
  gemm->c_stride = gemm->n;
  return NULL;
}

static dp_status *matmul(dp_op_context *context, void *memory) {
  operands operands = {0};
  dp_gemm gemm;
  dp_tensor *output;
  dp_shape shape;
  DP_RETURN_IF_ERROR(read_ranges(context, &operands));
  DP_RETURN_IF_ERROR(expect_wide_ranges(&operands, "a", "b"));
  DP_RETURN_IF_ERROR(plan_matmul(context, memory, &gemm));
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){gemm.m, gemm.n}, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_status *status = widen_operands(context, &operands);
  if (!status) {
    gemm.a = operands.wide[0].data;
    gemm.b = operands.wide[1].data;
    gemm.c = output->data;
    if (shape.elements)
      dp_gemm_run_split(context, &gemm);
    status = dp_quantized_write_range(context, 1, operands.result);
  }
  operands_deinit(&operands);
  return status;
}

/* ---- QuantizedConv2D ---- */
static dp_status *conv_create(const dp_kernel_setup *setup, void *memory) {
  dp_conv_state *state = memory;
  state->dtype = state->work = DP_INT32;
  DP_RETURN_IF_ERROR(dp_window_read(setup->node, 4, &state->attrs));
  const dp_window_values *strides = &state->attrs.strides, *dilations = &state->attrs.dilations;
  if (strides->spatial[1] != strides->spatial[2])
    return DP_INVALID("Current implementation only supports equal length strides in the row and "
                      "column dimensions.");
  if (strides->batch != 1 || strides->depth != 1)
    return DP_INVALID("Current implementation does not yet support strides in the batch and depth "
                      "dimensions.");
  if (dilations->batch != 1 || dilations->depth != 1 || dilations->spatial[1] != 1 ||
      dilations->spatial[2] != 1)
    return DP_INVALID("Current implementation only supports dilations of 1.");
  return NULL;
}

static dp_status *conv(dp_op_context *context, void *memory) {
  const dp_conv_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *filter = dp_op_input(context, 1);
  operands operands = {0};
  dp_conv plan;
  dp_shape shape;
  DP_RETURN_IF_ERROR(read_ranges(context, &operands));
  if (input->shape.rank == 4 && filter->shape.rank == 4 &&
      input->shape.dims[3] != filter->shape.dims[2])
    return DP_INVALID("input and filter must have the same depth: %lld vs %lld",
                      (long long)input->shape.dims[3], (long long)filter->shape.dims[2]);
  DP_RETURN_IF_ERROR(dp_conv_plan(state, &input->shape, &filter->shape, &plan, &shape));
  dp_status *status = widen_operands(context, &operands);
  if (!status)
    status = dp_conv_run(context, state, &plan, dp_conv_forward, &operands.wide[0],
                         &operands.wide[1], &shape);
  if (!status)
    status = dp_quantized_write_range(context, 1, operands.result);
  operands_deinit(&operands);
  return status;
}

/* ---- QuantizedMul ---- */
static dp_status *multiply(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *x = dp_op_input(context, 0), *y = dp_op_input(context, 1);
  operands operands = {0};
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(read_ranges(context, &operands));
  if (!dp_shape_broadcast(&x->shape, &y->shape, &shape))
    return DP_INVALID("Incompatible shapes: %s vs. %s", dp_shape_text(&x->shape),
                      dp_shape_text(&y->shape));
  DP_RETURN_IF_ERROR(expect_wide_ranges(&operands, "x", "x"));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_status *status = widen_operands(context, &operands);
  for (int64_t i = 0; !status && i < shape.elements; ++i) {
    uint32_t a = ((uint32_t *)operands.wide[0].data)[dp_quantized_source(&shape, &x->shape, i)];
    uint32_t b = ((uint32_t *)operands.wide[1].data)[dp_quantized_source(&shape, &y->shape, i)];
    ((uint32_t *)output->data)[i] = a * b;
  }
  if (!status)
    status = dp_quantized_write_range(context, 1, operands.result);
  operands_deinit(&operands);
  return status;
}

/* ---- QuantizedBiasAdd ---- */
/* A range symmetric about zero: `additions` times the larger magnitude of both ranges. */
static dp_quantized_range sum_range(dp_quantized_range a, dp_quantized_range b, int additions) {
  float largest = fmaxf(fmaxf(a.high, -a.low), fmaxf(b.high, -b.low)) * (float)additions;
  return (dp_quantized_range){-largest, largest};
}

static dp_status *check_bias(const dp_tensor *input, const dp_tensor *bias) {
  if (input->shape.rank < 2)
    return DP_INVALID("Input tensor must be at least 2D: %s", dp_shape_text(&input->shape));
  if (bias->shape.rank != 1)
    return DP_INVALID("Biases must be 1D: %s", dp_shape_text(&bias->shape));
  if (bias->shape.dims[0] != input->shape.dims[input->shape.rank - 1])
    return DP_INVALID("Must provide as many biases as the last dimension of the input tensor: %s "
                      "vs. %s",
                      dp_shape_text(&bias->shape), dp_shape_text(&input->shape));
  if (bias->shape.elements == 0)
    return DP_INVALID("Must provide at least 1 bias");
  return NULL;
}

static dp_status *bias_add(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *input = dp_op_input(context, 0), *bias = dp_op_input(context, 1);
  operands operands = {0};
  dp_tensor *output;
  DP_RETURN_IF_ERROR(read_ranges(context, &operands));
  DP_RETURN_IF_ERROR(check_bias(input, bias));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  dp_quantized_range sum = sum_range(operands.ranges[0], operands.ranges[1], 1 << 17);
  dp_quantized_map first = dp_quantized_map_make(input->dtype, operands.ranges[0], DP_QINT32, sum);
  dp_quantized_map second = dp_quantized_map_make(bias->dtype, operands.ranges[1], DP_QINT32, sum);
  uint32_t zero = (uint32_t)dp_quantized_clamped(DP_QINT32, 0, sum);
  int64_t width = bias->shape.elements;
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    int32_t a = dp_quantized_map_code(&first, dp_quantized_load(input, i));
    int32_t b = dp_quantized_map_code(&second, dp_quantized_load(bias, i % width));
    ((uint32_t *)output->data)[i] = (uint32_t)a + (uint32_t)b + zero;
  }
  return dp_quantized_write_range(context, 1, sum);
}

/* ---- QuantizedAdd ---- */
/* An operand in codes of the sum: the code of 0 and a step; or one code for all elements. */
typedef struct addend {
  const dp_tensor *tensor;
  int64_t zero;
  int32_t step;
} addend;

static addend make_addend(const dp_tensor *tensor, dp_quantized_range range, dp_quantized_range sum,
                          bool is_single) {
  dp_dtype dtype = tensor->dtype;
  addend addend = {.tensor = tensor};
  if (is_single) {
    float value = dp_quantized_value(dtype, dp_quantized_load(tensor, 0), range);
    addend.zero = dp_quantized_clamped(DP_QINT32, value, sum);
    return addend;
  }
  addend.zero = dp_quantized_code(DP_QINT32, dp_quantized_value(dtype, 0, range), sum);
  int64_t one = dp_quantized_code(DP_QINT32, dp_quantized_value(dtype, 1, range), sum);
  addend.step = (int32_t)(uint32_t)((uint64_t)one - (uint64_t)addend.zero);
  return addend;
}

static uint32_t addend_at(const addend *addend, int64_t at) {
  int64_t code = addend->zero + (int64_t)dp_quantized_load(addend->tensor, at) * addend->step;
  return (uint32_t)(code < INT32_MIN ? INT32_MIN : code > INT32_MAX ? INT32_MAX : code);
}

static dp_status *check_add(const dp_op_context *context) {
  static const char *const names[] = {"min_x", "max_x", "min_y", "max_y"};
  for (int32_t i = 0; i < 4; ++i)
    if (dp_op_input(context, 2 + i)->shape.rank != 0)
      return DP_INVALID("`%s` must be rank 0 but is rank %d", names[i],
                        dp_op_input(context, 2 + i)->shape.rank);
  return NULL;
}

/* Adds operands of any shapes that broadcast; TensorFlow supports only some of them. */
static dp_status *add(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *x = dp_op_input(context, 0), *y = dp_op_input(context, 1);
  operands operands = {0};
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(check_add(context));
  DP_RETURN_IF_ERROR(read_ranges(context, &operands));
  if (!dp_shape_broadcast(&x->shape, &y->shape, &shape))
    return DP_INVALID("Incompatible shapes: %s vs. %s", dp_shape_text(&x->shape),
                      dp_shape_text(&y->shape));
  for (int i = 0; i < 2; ++i)
    if (!(operands.ranges[i].high > operands.ranges[i].low))
      return DP_INVALID("max_%c must be larger than min_%c.", "xy"[i], "xy"[i]);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_quantized_range sum = sum_range(operands.ranges[0], operands.ranges[1], 1 << 14);
  bool x_is_single = x->shape.elements == 1;
  addend a = make_addend(x, operands.ranges[0], sum, x_is_single);
  addend b = make_addend(y, operands.ranges[1], sum, !x_is_single && y->shape.elements == 1);
  for (int64_t i = 0; i < shape.elements; ++i)
    ((uint32_t *)output->data)[i] = addend_at(&a, dp_quantized_source(&shape, &x->shape, i)) +
                                    addend_at(&b, dp_quantized_source(&shape, &y->shape, i));
  return dp_quantized_write_range(context, 1, sum);
}

#define NARROW DP_SET(QUINT8)
static const dp_kernel rows[] = {
    {.op = "QuantizedMatMul",
     .types = {{"T1", NARROW}, {"T2", NARROW}, {"Toutput", DP_SET(QINT32)}},
     .state_size = sizeof(matmul_state),
     .create = matmul_create,
     .compute = matmul},
    {.op = "QuantizedConv2D",
     .types = {{"Tinput", NARROW}, {"Tfilter", NARROW}, {"out_type", DP_SET(QINT32)}},
     .state_size = sizeof(dp_conv_state),
     .create = conv_create,
     .compute = conv},
    {.op = "QuantizedMul",
     .types = {{"T1", NARROW}, {"T2", NARROW}, {"Toutput", DP_SET(QINT32)}},
     .compute = multiply},
    {.op = "QuantizedBiasAdd",
     .types = {{"T1", NARROW}, {"T2", NARROW}, {"out_type", DP_SET(QINT32)}},
     .compute = bias_add},
    {.op = "QuantizedBiasAdd",
     .types = {{"T1", DP_SET(QINT8)}, {"T2", DP_SET(QINT8)}, {"out_type", DP_SET(QINT32)}},
     .compute = bias_add},
    {.op = "QuantizedAdd",
     .types = {{"T1", NARROW}, {"T2", NARROW}, {"Toutput", DP_SET(QINT32)}},
     .compute = add},
};
DP_KERNEL_FAMILY(quantized_products, rows);
