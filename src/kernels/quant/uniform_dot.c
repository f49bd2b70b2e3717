/* Products of uniformly quantized matrices: UniformQuantizedDot, whose result is quantized too, and
 * UniformQuantizedDotHybrid, which quantizes a float matrix row by row, with the range of each row.
 * Codes minus their zero points are integers; the integer loops multiply them. */
#include <string.h>
#include "base/memory.h"
#include "kernels/products/gemm.h"
#include "kernels/quant/uniform_internal.h"
#include "kernels/shared/family.h"

typedef struct dot_state {
  dp_uniform_limits limits;
} dot_state;

/* 1 or -1. */
static dp_status *check_axis(const dp_node *node, const char *name) {
  int64_t axis;
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, name, &axis));
  if (axis != 1 && axis != -1)
    return DP_INVALID("%s Attr must be 1 (per-channel) or -1 (per-tensor).", name);
  return NULL;
}

static dp_status *dot_create(const dp_kernel_setup *setup, void *memory) {
  dot_state *state = memory;
  int64_t axis;
  DP_RETURN_IF_ERROR(dp_uniform_limits_read(setup->node, "output_", &state->limits));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(setup->node, "lhs_quantization_axis", &axis));
  if (axis != -1)
    return DP_INVALID("lhs_quantization_axis Attr must be -1 (per-tensor).");
  DP_RETURN_IF_ERROR(check_axis(setup->node, "rhs_quantization_axis"));
  return check_axis(setup->node, "output_quantization_axis");
}

static dp_status *hybrid_create(const dp_kernel_setup *setup, void *memory) {
  (void)memory;
  return check_axis(setup->node, "rhs_quantization_axis");
}

static dp_status *check_shapes(const dp_shape *lhs, const dp_shape *rhs) {
  if (lhs->rank != 2)
    return DP_INVALID("lhs rank must be 2, but given lhs shape %s", dp_shape_text(lhs));
  if (rhs->rank != 2)
    return DP_INVALID("rhs rank must be 2, but given rhs shape %s", dp_shape_text(rhs));
  if (lhs->dims[1] != rhs->dims[0])
    return DP_INVALID("lhs.dim_size(1) and rhs.dim_size(0) must be equal, but given lhs shape %s "
                      "and rhs shape %s",
                      dp_shape_text(lhs), dp_shape_text(rhs));
  return NULL;
}

/* Scales decide by their rank whether they are those of columns; the attributes do not. */
static dp_uniform columns_at(const dp_op_context *context, int32_t slot) {
  return dp_uniform_input(context, slot, dp_op_input(context, slot)->shape.rank == 0 ? -1 : 1);
}

/* The matrices' product into `product`, 32-bit integers of the shape of the result. */
static void multiply(dp_op_context *context, const dp_tensor *lhs, const dp_tensor *rhs,
                     void *product) {
  dp_gemm gemm = {.dtype = DP_INT32,
                  .m = lhs->shape.dims[0],
                  .n = rhs->shape.dims[1],
                  .k = lhs->shape.dims[1],
                  .a = lhs->data,
                  .b = rhs->data,
                  .c = product,
                  .a_stride = lhs->shape.dims[1],
                  .b_stride = rhs->shape.dims[1],
                  .c_stride = rhs->shape.dims[1]};
  if (gemm.m > 0 && gemm.n > 0)
    dp_gemm_run_split(context, &gemm);
}

static dp_status *allocate_product(dp_op_context *context, const dp_tensor *lhs,
                                   const dp_tensor *rhs, dp_tensor **output_out) {
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){lhs->shape.dims[0], rhs->shape.dims[1]}, &shape));
  return dp_op_allocate(context, 0, &shape, output_out);
}

/* ---- UniformQuantizedDot ---- */
typedef struct dot_call {
  const dp_tensor *lhs, *rhs;
  dp_uniform lhs_uniform, rhs_uniform, output;
  dp_tensor wide[2];
} dot_call;

static dp_status *check_dot(const dot_call *call) {
  if (!dp_uniform_is_positive(&call->lhs_uniform))
    return DP_INVALID("lhs scales elements must be all positive.");
  if (!dp_uniform_is_positive(&call->rhs_uniform))
    return DP_INVALID("rhs scales elements must be all positive.");
  if (!dp_uniform_is_positive(&call->output))
    return DP_INVALID("output scales elements must be all positive.");
  DP_RETURN_IF_ERROR(check_shapes(&call->lhs->shape, &call->rhs->shape));
  const dp_shape *scales = &call->lhs_uniform.scales->shape;
  const dp_shape *zeros = &call->lhs_uniform.zeros->shape;
  if (!dp_shape_equal(scales, zeros) || scales->rank != 0)
    return DP_INVALID("lhs scales/zero_points must be all scalar tensors. Given: %s%s",
                      dp_shape_text(scales), dp_shape_text(zeros));
  DP_RETURN_IF_ERROR(dp_uniform_check(&call->rhs_uniform, &call->rhs->shape));
  DP_RETURN_IF_ERROR(dp_uniform_check(&call->output, &call->rhs->shape));
  if (call->rhs_uniform.axis < 0 && call->output.axis >= 0)
    return DP_INVALID("If rhs is per-tensor quantized, output must be also per-tensor quantized. "
                      "Given rhs scales and zero_points of shape %s but given output scales and "
                      "zero_points of shape %s",
                      dp_shape_text(&call->rhs_uniform.scales->shape),
                      dp_shape_text(&call->output.scales->shape));
  return NULL;
}

static dp_status *scale_columns(const dot_call *call, const dp_uniform_limits *limits,
                                dp_tensor *output) {
  int64_t width = output->shape.dims[1];
  int32_t *codes = output->data;
  for (int64_t column = 0; column < width; ++column) {
    dp_uniform_factor factor;
    DP_RETURN_IF_ERROR(
        dp_uniform_factor_make((double)dp_uniform_scale(&call->lhs_uniform, 0) *
                                   (double)dp_uniform_scale(&call->rhs_uniform, column) /
                                   (double)dp_uniform_scale(&call->output, column),
                               &factor));
    int32_t zero = dp_uniform_zero(&call->output, column);
    for (int64_t i = column; i < output->shape.elements; i += width)
      codes[i] =
          dp_uniform_limit(limits, dp_uniform_plus(dp_uniform_multiply(codes[i], factor), zero));
  }
  return NULL;
}

static dp_status *dot(dp_op_context *context, void *memory) {
  const dot_state *state = memory;
  dot_call call = {.lhs = dp_op_input(context, 0),
                   .rhs = dp_op_input(context, 1),
                   .lhs_uniform = dp_uniform_input(context, 2, -1),
                   .rhs_uniform = columns_at(context, 4),
                   .output = columns_at(context, 6)};
  dp_tensor *output;
  DP_RETURN_IF_ERROR(check_dot(&call));
  DP_RETURN_IF_ERROR(allocate_product(context, call.lhs, call.rhs, &output));
  dp_status *status = dp_uniform_center(call.lhs, &call.lhs_uniform, &call.wide[0]);
  if (!status)
    status = dp_uniform_center(call.rhs, &call.rhs_uniform, &call.wide[1]);
  if (!status) {
    multiply(context, &call.wide[0], &call.wide[1], output->data);
    status = scale_columns(&call, &state->limits, output);
  }
  dp_tensor_deinit(&call.wide[0]);
  dp_tensor_deinit(&call.wide[1]);
  return status;
}

/* ---- UniformQuantizedDotHybrid ---- */
static dp_status *hybrid_product(dp_op_context *context, const dp_uniform *uniform,
                                 dp_tensor wide[2], float *scales, dp_tensor *output) {
  DP_RETURN_IF_ERROR(dp_uniform_center_floats(dp_op_input(context, 0), 0, &wide[0], scales));
  DP_RETURN_IF_ERROR(dp_uniform_center(dp_op_input(context, 1), uniform, &wide[1]));
  float *values = output->data;
  int64_t width = output->shape.dims[1];
  multiply(context, &wide[0], &wide[1], output->data);
  for (int64_t i = 0; i < output->shape.elements; ++i) {
    int32_t sum; /* where the value will be */
    memcpy(&sum, &values[i], sizeof sum);
    values[i] = (float)sum * scales[i / width] * dp_uniform_scale(uniform, i % width);
  }
  return NULL;
}

static dp_status *hybrid(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *lhs = dp_op_input(context, 0), *rhs = dp_op_input(context, 1);
  dp_uniform uniform = columns_at(context, 2);
  dp_tensor *output, wide[2] = {{0}};
  DP_RETURN_IF_ERROR(check_shapes(&lhs->shape, &rhs->shape));
  DP_RETURN_IF_ERROR(dp_uniform_check(&uniform, &rhs->shape));
  if (!dp_uniform_is_positive(&uniform))
    return DP_INVALID("rhs scales elements must be all positive.");
  DP_RETURN_IF_ERROR(allocate_product(context, lhs, rhs, &output));
  float *scales = dp_try_malloc((size_t)(lhs->shape.dims[0] + 1) * sizeof(float));
  if (!scales)
    return dp_status_out_of_memory();
  dp_status *status = hybrid_product(context, &uniform, wide, scales, output);
  dp_tensor_deinit(&wide[0]);
  dp_tensor_deinit(&wide[1]);
  dp_free(scales);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "UniformQuantizedDot",
     .types = {{"Tin", DP_SET(QINT8)}, {"Tout", DP_SET(QINT32)}},
     .state_size = sizeof(dot_state),
     .create = dot_create,
     .compute = dot},
    {.op = "UniformQuantizedDotHybrid",
     .types = {{"Tlhs", DP_SET(FLOAT)}, {"Trhs", DP_SET(QINT8)}, {"Tout", DP_SET(FLOAT)}},
     .create = hybrid_create,
     .compute = hybrid},
};
DP_KERNEL_FAMILY(uniform_dot, rows);
