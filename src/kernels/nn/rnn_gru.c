/* GRUBlockCell and its gradient: one step of gated recurrent units.
 *
 *   [r u] = sigmoid([x h_prev] w_ru + b_ru)
 *   c = tanh([x (r h_prev)] w_c + b_c)
 *   h = u h_prev + (1 - u) c
 *
 * The rows of a weight matrix are first those of the input x, then those of the state. Two
 * products, one with each part, avoid a copy of [x h_prev]. */
#include "kernels/shared/family.h"

#include "kernels/nn/rnn_internal.h"

/* Sizes, the inputs that forward and gradient share, and scratch. */
typedef struct gru_call {
  dp_rnn rnn;
  int64_t batch, input, cell;
  const float *x, *h_prev, *w_ru, *w_c, *b_ru, *b_c;
  const float *r, *u, *c, *d_h; /* gradient only */
  float *out[4];
  float *sums, *hr;
} gru_call;

static dp_status *read_operands(gru_call *call) {
  const dp_tensor *x = dp_op_input(call->rnn.context, 0), *h = dp_op_input(call->rnn.context, 1);
  if (x->shape.rank != 2 || h->shape.rank != 2)
    return DP_INVALID("Rank of x and h_prev must be 2, got %d and %d", x->shape.rank,
                      h->shape.rank);
  dp_rnn *rnn = &call->rnn;
  int64_t batch = x->shape.dims[0], input = x->shape.dims[1], cell = h->shape.dims[1];
  call->batch = batch;
  call->input = input;
  call->cell = cell;
  DP_RETURN_IF_ERROR(dp_rnn_input(rnn, 0, 2, (int64_t[]){batch, input}, NULL, &call->x));
  DP_RETURN_IF_ERROR(
      dp_rnn_input(rnn, 1, 2, (int64_t[]){batch, cell}, DP_RNN_STATE, &call->h_prev));
  DP_RETURN_IF_ERROR(dp_rnn_input(rnn, 2, 2, (int64_t[]){input + cell, 2 * cell},
                                  DP_RNN_WEIGHTS("cell_size * 2"), &call->w_ru));
  DP_RETURN_IF_ERROR(dp_rnn_input(rnn, 3, 2, (int64_t[]){input + cell, cell},
                                  DP_RNN_WEIGHTS("cell_size"), &call->w_c));
  DP_RETURN_IF_ERROR(
      dp_rnn_input(rnn, 4, 1, (int64_t[]){2 * cell}, DP_RNN_BIAS("cell_size * 2"), &call->b_ru));
  return dp_rnn_input(rnn, 5, 1, (int64_t[]){cell}, DP_RNN_BIAS("cell_size"), &call->b_c);
}

static void forward_gates(void *arg, int64_t begin, int64_t end) {
  const gru_call *call = arg;
  for (int64_t b = begin; b < end; ++b) {
    int64_t at = b * call->cell;
    const float *sums = call->sums + 2 * at;
    dp_cell_table()->gru_gates(sums, sums + call->cell, call->h_prev + at, call->cell,
                               call->out[0] + at, call->out[1] + at, call->hr + at);
  }
}

static void forward_state(void *arg, int64_t begin, int64_t end) {
  const gru_call *call = arg;
  for (int64_t b = begin; b < end; ++b) {
    int64_t at = b * call->cell;
    dp_cell_table()->gru_state(call->out[2] + at, call->out[1] + at, call->h_prev + at, call->cell,
                               call->out[3] + at);
  }
}

static void run_forward(gru_call *call) {
  dp_rnn *rnn = &call->rnn;
  int64_t batch = call->batch, input = call->input, cell = call->cell;
  float *c = call->out[2];
  dp_rnn_fill_rows(call->b_ru, batch, 2 * cell, call->sums);
  dp_rnn_multiply(rnn, call->x, call->w_ru, batch, input, 2 * cell, false, true, call->sums);
  dp_rnn_multiply(rnn, call->h_prev, call->w_ru + input * 2 * cell, batch, cell, 2 * cell, false,
                  true, call->sums);
  dp_op_for(rnn->context, batch, cell * 4, forward_gates, call);
  dp_rnn_fill_rows(call->b_c, batch, cell, c);
  dp_rnn_multiply(rnn, call->x, call->w_c, batch, input, cell, false, true, c);
  dp_rnn_multiply(rnn, call->hr, call->w_c + input * cell, batch, cell, cell, false, true, c);
  dp_op_for(rnn->context, batch, cell * 2, forward_state, call);
}

static dp_status *forward(gru_call *call) {
  DP_RETURN_IF_ERROR(read_operands(call));
  dp_shape shape = dp_shape_matrix(call->batch, call->cell);
  for (int i = 0; i < 4; ++i)
    DP_RETURN_IF_ERROR(dp_rnn_output(&call->rnn, i, &shape, &call->out[i]));
  DP_RETURN_IF_ERROR(dp_rnn_scratch(&call->rnn, 2 * shape.elements, &call->sums));
  DP_RETURN_IF_ERROR(dp_rnn_scratch(&call->rnn, shape.elements, &call->hr));
  run_forward(call);
  return NULL;
}

static dp_status *forward_compute(dp_op_context *context, void *memory) {
  gru_call call = {.rnn.context = context};
  dp_status *status = forward(&call);
  dp_rnn_deinit(&call.rnn);
  return status;
}

/* ---- Gradient: outputs are the gradients of x, h_prev, the sum of c, the sums of r and u ---- */
static void back_state(void *arg, int64_t begin, int64_t end) {
  const gru_call *call = arg;
  for (int64_t b = begin; b < end; ++b) {
    int64_t at = b * call->cell;
    dp_cell_table()->gru_back_state(call->d_h + at, call->u + at, call->c + at, call->h_prev + at,
                                    call->cell, call->out[2] + at,
                                    call->out[3] + 2 * at + call->cell);
  }
}

static void back_gates(void *arg, int64_t begin, int64_t end) {
  const gru_call *call = arg;
  for (int64_t b = begin; b < end; ++b) {
    int64_t at = b * call->cell;
    dp_cell_table()->gru_back_gates(call->hr + at, call->d_h + at, call->r + at, call->u + at,
                                    call->h_prev + at, call->cell, call->out[3] + 2 * at,
                                    call->out[1] + at);
  }
}

static void run_backward(gru_call *call) {
  dp_rnn *rnn = &call->rnn;
  int64_t batch = call->batch, input = call->input, cell = call->cell;
  float *d_x = call->out[0], *d_c = call->out[2], *d_ru = call->out[3];
  dp_op_for(rnn->context, batch, cell, back_state, call);
  dp_rnn_multiply(rnn, d_c, call->w_c, batch, cell, input, true, false, d_x);
  dp_rnn_multiply(rnn, d_c, call->w_c + input * cell, batch, cell, cell, true, false, call->hr);
  dp_op_for(rnn->context, batch, cell, back_gates, call);
  dp_rnn_multiply(rnn, d_ru, call->w_ru, batch, 2 * cell, input, true, true, d_x);
  dp_rnn_multiply(rnn, d_ru, call->w_ru + input * 2 * cell, batch, 2 * cell, cell, true, true,
                  call->out[1]);
}

static dp_status *backward(gru_call *call) {
  DP_RETURN_IF_ERROR(read_operands(call));
  dp_rnn *rnn = &call->rnn;
  const float **inputs[4] = {&call->r, &call->u, &call->c, &call->d_h};
  for (int i = 0; i < 4; ++i)
    DP_RETURN_IF_ERROR(
        dp_rnn_input(rnn, 6 + i, 2, (int64_t[]){call->batch, call->cell}, NULL, inputs[i]));
  int64_t columns[4] = {call->input, call->cell, call->cell, 2 * call->cell};
  for (int i = 0; i < 4; ++i) {
    dp_shape shape = dp_shape_matrix(call->batch, columns[i]);
    DP_RETURN_IF_ERROR(dp_rnn_output(rnn, i, &shape, &call->out[i]));
  }
  DP_RETURN_IF_ERROR(dp_rnn_scratch(rnn, call->batch * call->cell, &call->hr));
  run_backward(call);
  return NULL;
}

static dp_status *backward_compute(dp_op_context *context, void *memory) {
  gru_call call = {.rnn.context = context};
  dp_status *status = backward(&call);
  dp_rnn_deinit(&call.rnn);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "GRUBlockCell", .types = {{"T", DP_SET(FLOAT)}}, .compute = forward_compute},
    {.op = "GRUBlockCellGrad", .types = {{"T", DP_SET(FLOAT)}}, .compute = backward_compute},
};
DP_KERNEL_FAMILY(rnn_gru, rows);
