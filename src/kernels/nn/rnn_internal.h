/* What the recurrent cells share: operands as floats for every dtype, and products with parts of a
 * weight matrix.
 *
 * Inputs are read one by one; 16-bit floats are widened into buffers of the call. Outputs are
 * written as floats and narrowed by dp_rnn_finish. dp_rnn_deinit frees the buffers. */
#ifndef DP_KERNELS_NN_RNN_INTERNAL_H
#define DP_KERNELS_NN_RNN_INTERNAL_H

#include "kernels/loops/cell.h"
#include "kernels/shared/support.h"

#define DP_RNN_OPERANDS 32

typedef struct dp_rnn {
  dp_op_context *context;
  dp_buffer *buffers[DP_RNN_OPERANDS];
  int buffer_count;
  struct {
    const float *from;
    dp_tensor *to;
  } outputs[8];
  int output_count;
} dp_rnn;

void dp_rnn_deinit(dp_rnn *rnn);
/* Input `slot`, which must have exactly these dims. `words` name the dims in error messages; may be
 * NULL. */
DP_MUST_USE dp_status *dp_rnn_input(dp_rnn *rnn, int32_t slot, int rank, const int64_t *dims,
                                    const char *const *words, const float **data_out);
/* TensorFlow's names for the dims of states, weights and biases. */
#define DP_RNN_STATE ((const char *const[]){"batch_size", "cell_size"})
#define DP_RNN_WEIGHTS(columns) ((const char *const[]){"input_size + cell_size", columns})
#define DP_RNN_BIAS(size) ((const char *const[]){size})
/* Allocates output `slot`. Its contents are undefined. */
DP_MUST_USE dp_status *dp_rnn_output(dp_rnn *rnn, int32_t slot, const dp_shape *shape,
                                     float **data_out);
DP_MUST_USE dp_status *dp_rnn_scratch(dp_rnn *rnn, int64_t count, float **data_out);
/* Narrows the outputs that were written. */
void dp_rnn_finish(dp_rnn *rnn);

/* to[rows, columns] (+)= from[rows, depth] weights[depth, columns]. With `transposed`, weights are
 * [columns, depth]. All are dense. */
void dp_rnn_multiply(dp_rnn *rnn, const float *from, const float *weights, int64_t rows,
                     int64_t depth, int64_t columns, bool transposed, bool accumulates, float *to);
/* to[depth, columns] (+)= from[rows, depth]^T right[rows, columns]. */
void dp_rnn_multiply_transposed(dp_rnn *rnn, const float *from, const float *right, int64_t rows,
                                int64_t depth, int64_t columns, bool accumulates, float *to);
/* Copies `row` to every row of to[rows, columns]. */
void dp_rnn_fill_rows(const float *row, int64_t rows, int64_t columns, float *to);

#endif
