/* Operands and products of recurrent cells; the contracts are in rnn_internal.h. Each call has its
 * own dp_rnn, so there is no shared state. */
#include "kernels/nn/rnn_internal.h"

#include <string.h>
#include "kernels/products/gemm.h"
#include "kernels/shared/widen.h"

void dp_rnn_deinit(dp_rnn *rnn) {
  for (int i = 0; i < rnn->buffer_count; ++i)
    dp_buffer_release(rnn->buffers[i]);
}

static dp_status *check_shape(const dp_rnn *rnn, int32_t slot, const dp_tensor *tensor, int rank,
                              const int64_t *dims, const char *const *words) {
  const char *name = rnn->context->node->op->inputs[slot].name;
  bool is_state = strstr(name, "_prev") != NULL;
  if (tensor->shape.rank != rank)
    return DP_INVALID("Input %d must be rank %d but is rank %d", slot, rank, tensor->shape.rank);
  for (int i = 0; i < rank; ++i) {
    if (tensor->shape.dims[i] != dims[i] && words)
      return DP_INVALID("%s.%s(%d) != %s: %lld vs. %lld", name, is_state ? "dims" : "dim_size", i,
                        words[i], (long long)tensor->shape.dims[i], (long long)dims[i]);
    if (tensor->shape.dims[i] != dims[i])
      return DP_INVALID("Input %d of %s has shape %s; its dimension %d must be %lld", slot,
                        rnn->context->node->op->name, dp_shape_text(&tensor->shape), i,
                        (long long)dims[i]);
  }
  return NULL;
}

dp_status *dp_rnn_input(dp_rnn *rnn, int32_t slot, int rank, const int64_t *dims,
                        const char *const *words, const float **data_out) {
  const dp_tensor *tensor = dp_op_input(rnn->context, slot);
  DP_RETURN_IF_ERROR(check_shape(rnn, slot, tensor, rank, dims, words));
  const void *data;
  dp_buffer *buffer;
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(rnn->context, tensor, DP_FLOAT, &data, &buffer));
  rnn->buffers[rnn->buffer_count++] = buffer;
  *data_out = data;
  return NULL;
}

dp_status *dp_rnn_scratch(dp_rnn *rnn, int64_t count, float **data_out) {
  dp_buffer *buffer;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)count * sizeof(float), &buffer));
  rnn->buffers[rnn->buffer_count++] = buffer;
  *data_out = buffer->data;
  return NULL;
}

dp_status *dp_rnn_output(dp_rnn *rnn, int32_t slot, const dp_shape *shape, float **data_out) {
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(rnn->context, slot, shape, &output));
  *data_out = output->data;
  if (output->dtype == DP_FLOAT)
    return NULL;
  DP_RETURN_IF_ERROR(dp_rnn_scratch(rnn, shape->elements, data_out));
  rnn->outputs[rnn->output_count].from = *data_out;
  rnn->outputs[rnn->output_count++].to = output;
  return NULL;
}

void dp_rnn_finish(dp_rnn *rnn) {
  for (int i = 0; i < rnn->output_count; ++i)
    dp_kernel_narrow_tensor(rnn->context, rnn->outputs[i].from, rnn->outputs[i].to);
}

void dp_rnn_multiply(dp_rnn *rnn, const float *from, const float *weights, int64_t rows,
                     int64_t depth, int64_t columns, bool transposed, bool accumulates, float *to) {
  dp_gemm gemm = {.dtype = DP_FLOAT,
                  .m = rows,
                  .n = columns,
                  .k = depth,
                  .a = from,
                  .b = weights,
                  .c = to,
                  .a_stride = depth,
                  .b_stride = transposed ? depth : columns,
                  .c_stride = columns,
                  .transpose_b = transposed,
                  .accumulates = accumulates};
  dp_gemm_run_split(rnn->context, &gemm);
}

void dp_rnn_multiply_transposed(dp_rnn *rnn, const float *from, const float *right, int64_t rows,
                                int64_t depth, int64_t columns, bool accumulates, float *to) {
  dp_gemm gemm = {.dtype = DP_FLOAT,
                  .m = depth,
                  .n = columns,
                  .k = rows,
                  .a = from,
                  .b = right,
                  .c = to,
                  .a_stride = depth,
                  .b_stride = columns,
                  .c_stride = columns,
                  .transpose_a = true,
                  .accumulates = accumulates};
  dp_gemm_run_split(rnn->context, &gemm);
}

void dp_rnn_fill_rows(const float *row, int64_t rows, int64_t columns, float *to) {
  for (int64_t r = 0; r < rows; ++r)
    memcpy(to + r * columns, row, (size_t)columns * sizeof *row);
}
