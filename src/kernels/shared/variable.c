/* For the kernels that read and write variables (variable.h). Arithmetic on rows uses the binary
 * loops; 16-bit floats are widened block by block. Rows by index are divided by a hash of the row
 * number, so that one thread does all updates of a row, in order. */
#include "kernels/shared/variable.h"

#include <stdio.h>
#include <string.h>

dp_status *dp_variable_of_input(dp_op_context *context, int32_t slot, dp_variable **variable_out) {
  dp_variable *reference = dp_op_reference(context, slot);
  if (reference) {
    *variable_out = reference;
    return NULL;
  }
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_op_resource(context, slot, &dp_variable_ops, &resource));
  *variable_out = (dp_variable *)resource;
  return NULL;
}

dp_status *dp_variable_expect_type(const dp_tensor *contents, dp_dtype dtype) {
  if (contents->dtype != dtype)
    return DP_INVALID("Trying to update variable with wrong dtype. Expected %s got %s",
                      dp_dtype_name(contents->dtype), dp_dtype_name(dtype));
  return NULL;
}

void dp_variable_output(dp_op_context *context) {
  if (context->output_count > 0 && context->inputs[0].reference)
    dp_op_pass_reference(context, 0, 0);
}

/* ---- Arithmetic on rows ---- */
static dp_binary_op loop_of(dp_row_operation operation, dp_dtype dtype) {
  switch (operation) {
  case DP_ROW_ADD:
    return DP_BINARY_add;
  case DP_ROW_SUB:
    return DP_BINARY_sub;
  case DP_ROW_MUL:
    return DP_BINARY_mul;
  case DP_ROW_DIV:
    return dp_dtype_is_integer(dtype) ? DP_BINARY_truncate_div : DP_BINARY_div;
  case DP_ROW_MIN:
    return DP_BINARY_minimum;
  default:
    return DP_BINARY_maximum;
  }
}

dp_status *dp_row_op_init(dp_row_op *op, dp_row_operation operation, dp_dtype dtype) {
  *op = (dp_row_op){operation, dtype, dp_dtype_size(dtype), NULL};
  if (operation == DP_ROW_ASSIGN || dtype == DP_BOOL)
    return NULL;
  dp_dtype loop_type = dp_kernel_is_short_float(dtype) ? DP_FLOAT : dtype;
  op->fn = dp_binary_table()->fn[loop_of(operation, loop_type)][loop_type];
  if (!op->fn)
    return dp_status_create(DP_UNIMPLEMENTED, "no such update of a variable of type %s",
                            dp_dtype_name(dtype));
  return NULL;
}

/* Sums of bools saturate, differences do not: 1 + 1 is true, 0 - 1 is true, 1 - 1 is false. */
static void apply_bools(const dp_row_op *op, const uint8_t *from, const uint8_t *operand,
                        int64_t step, uint8_t *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint8_t other = operand[i * step];
    to[i] = op->operation == DP_ROW_ADD ? from[i] | other : (from[i] != 0) != (other != 0);
  }
}

static void assign_row(const dp_row_op *op, const char *operand, bool is_scalar, char *to,
                       int64_t count) {
  if (!is_scalar) {
    dp_tensor_copy_elements(op->dtype, to, operand, count);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    dp_tensor_copy_elements(op->dtype, to + i * op->size, operand, 1);
}

static void apply_short(const dp_row_op *op, const uint16_t *from, const uint16_t *operand,
                        bool is_scalar, uint16_t *to, int64_t count) {
  float left[DP_KERNEL_BLOCK], right[DP_KERNEL_BLOCK];
  for (int64_t i = 0; i < count; i += DP_KERNEL_BLOCK) {
    int64_t part = count - i < DP_KERNEL_BLOCK ? count - i : DP_KERNEL_BLOCK;
    dp_kernel_widen(op->dtype, from + i, left, part);
    dp_kernel_widen(op->dtype, is_scalar ? operand : operand + i, right, is_scalar ? 1 : part);
    dp_binary_span span = {.inner = part, .outer = 1, .a_inner = 1, .b_inner = !is_scalar};
    op->fn(left, right, left, &span);
    dp_kernel_narrow(op->dtype, left, to + i, part);
  }
}

void dp_row_apply(const dp_row_op *op, const void *from, const void *operand, bool is_scalar,
                  void *to, int64_t count) {
  if (op->operation == DP_ROW_ASSIGN) {
    assign_row(op, operand, is_scalar, to, count);
  } else if (op->dtype == DP_BOOL) {
    apply_bools(op, from, operand, !is_scalar, to, count);
  } else if (dp_kernel_is_short_float(op->dtype)) {
    apply_short(op, from, operand, is_scalar, to, count);
  } else {
    dp_binary_span span = {.inner = count, .outer = 1, .a_inner = 1, .b_inner = !is_scalar};
    op->fn(from, operand, to, &span);
  }
}

/* ---- Rows by index ---- */
const char *dp_index_text(const dp_shape *shape, int64_t at) {
  char *text = dp_shape_text_buffer();
  int length = snprintf(text, DP_SHAPE_TEXT_LENGTH, "indices");
  int64_t inner = shape->elements;
  for (int i = 0; i < shape->rank; ++i) {
    inner /= shape->dims[i] ? shape->dims[i] : 1;
    length += snprintf(text + length, DP_SHAPE_TEXT_LENGTH - (size_t)length, "%s%lld",
                       i ? "," : "[", (long long)(at / inner));
    at %= inner;
  }
  if (shape->rank)
    snprintf(text + length, DP_SHAPE_TEXT_LENGTH - (size_t)length, "]");
  return text;
}

typedef struct rows_work {
  const dp_tensor *indices;
  int64_t count, shares;
  dp_row_fn fn;
  void *arg;
} rows_work;

/* Each share owns the rows whose numbers hash to it. It walks all indices in order and skips the
 * rows of other shares. */
static void run_shares(void *arg, int64_t begin, int64_t end) {
  const rows_work *work = arg;
  for (int64_t i = 0; i < work->count; ++i) {
    int64_t row = dp_index_at(work->indices, i);
    uint64_t mixed = (uint64_t)row * 0x9E3779B97F4A7C15u >> 32;
    int64_t share = (int64_t)(mixed * (uint64_t)work->shares >> 32);
    if (share >= begin && share < end)
      work->fn(work->arg, i, row);
  }
}

void dp_rows_for(dp_op_context *context, const dp_tensor *indices, int64_t row_nanos, dp_row_fn fn,
                 void *arg) {
  int64_t count = dp_tensor_elements(indices);
  dp_pool *pool = context->step->pool;
  int threads = pool ? dp_pool_threads(pool) : 1;
  const int64_t worthwhile = 50000;
  if (threads < 2 || count < 2 || count * row_nanos < worthwhile) {
    for (int64_t i = 0; i < count; ++i)
      fn(arg, i, dp_index_at(indices, i));
    return;
  }
  rows_work work = {indices, count, threads, fn, arg};
  dp_pool_for(pool, threads, 1, run_shares, &work);
}
