/* LSTM cells: LSTMBlockCell for one step, BlockLSTM for a whole sequence, and their gradients.
 *
 * The sums of all gates for a step are [x h_prev] w + b, in four blocks: input, cell, forget,
 * output gate (BlockLSTMV2: input, forget, cell, output). The product with x does not depend on the
 * step before, so it is made for the whole sequence at once; a step adds only the product with
 * h_prev. In the same way the gradient computes only h_prev's part per step, and all other products
 * at the end. A single step is a sequence of one. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/nn/rnn_internal.h"

typedef struct lstm_state {
  float forget_bias, clip;
  bool has_peepholes, has_sequence;
  bool forgets_second; /* the order of the blocks is V2's */
} lstm_state;

static dp_status *lstm_create(const dp_kernel_setup *setup, void *memory) {
  lstm_state *state = memory;
  const dp_node *node = setup->node;
  const char *op = node->op->name;
  state->has_sequence = strncmp(op, "Block", 5) == 0;
  state->forgets_second = strstr(op, "V2") != NULL;
  if (dp_node_attr(node, "forget_bias"))
    DP_RETURN_IF_ERROR(dp_node_get_float(node, "forget_bias", &state->forget_bias));
  if (dp_node_attr(node, "cell_clip"))
    DP_RETURN_IF_ERROR(dp_node_get_float(node, "cell_clip", &state->clip));
  if (!(state->clip > 0))
    state->clip = INFINITY;
  return dp_node_get_bool(node, "use_peephole", &state->has_peepholes);
}

enum { OUT_I, OUT_CS, OUT_F, OUT_O, OUT_CI, OUT_CO, OUT_H, OUT_COUNT };

typedef struct lstm_call {
  dp_rnn rnn;
  const lstm_state *state;
  int32_t first; /* slot of x */
  int64_t time, steps, batch, input, cell;
  const float *x, *cs_prev, *h_prev, *w, *b;
  dp_lstm_peepholes peepholes;
  dp_shape peephole_shapes[3];
  const float *given[OUT_COUNT]; /* gradient: the outputs of the forward op */
  const float *cs_grad, *h_grad;
  float *out[8];
  float *gates; /* [steps, batch, 4 cell]: the sums, or the derivatives with respect to them */
  float *back_cs, *back_h; /* gradient: what comes back from the following step */
  int64_t step;
} lstm_call;

/* ---- Operands ---- */
static dp_status *read_steps(lstm_call *call) {
  const dp_tensor *x = dp_op_input(call->rnn.context, call->first);
  const dp_tensor *cs = dp_op_input(call->rnn.context, call->first + 1);
  int rank = call->state->has_sequence ? 3 : 2;
  if (x->shape.rank != rank)
    return rank == 3 ? DP_INVALID("x must be 3D")
                     : DP_INVALID("x must be rank %d but is rank %d", rank, x->shape.rank);
  if (cs->shape.rank != 2)
    return DP_INVALID("cs_prev must be rank 2 but is rank %d", cs->shape.rank);
  call->time = call->steps = 1;
  call->batch = x->shape.dims[rank - 2];
  call->input = x->shape.dims[rank - 1];
  call->cell = cs->shape.dims[1];
  if (!call->state->has_sequence)
    return NULL;
  call->time = x->shape.dims[0];
  const dp_tensor *most = dp_op_input(call->rnn.context, 0);
  if (most->shape.rank != 0)
    return DP_INVALID("`seq_len_max_tensor` must be rank 0 but is rank %d", most->shape.rank);
  call->steps = dp_tensor_int_at(most, 0);
  if (call->steps < 0 || call->steps > call->time)
    return DP_INVALID("seq_len_max must be between 0 and %lld but is %lld", (long long)call->time,
                      (long long)call->steps);
  return NULL;
}

/* Peepholes that are not used may have any size. */
static dp_status *read_peepholes(lstm_call *call) {
  const float **targets[3] = {&call->peepholes.i, &call->peepholes.f, &call->peepholes.o};
  for (int i = 0; i < 3; ++i) {
    int32_t slot = call->first + 4 + i;
    const dp_tensor *tensor = dp_op_input(call->rnn.context, slot);
    if (tensor->shape.rank != 1)
      return DP_INVALID("Weights of peepholes must be rank 1 but are rank %d", tensor->shape.rank);
    call->peephole_shapes[i] = tensor->shape;
    if (call->state->has_peepholes || call->state->has_sequence)
      DP_RETURN_IF_ERROR(dp_rnn_input(&call->rnn, slot, 1, (int64_t[]){call->cell},
                                      DP_RNN_BIAS("cell_size"), targets[i]));
  }
  if (!call->state->has_peepholes)
    call->peepholes = (dp_lstm_peepholes){NULL};
  return NULL;
}

static dp_status *read_operands(lstm_call *call) {
  DP_RETURN_IF_ERROR(read_steps(call));
  dp_rnn *rnn = &call->rnn;
  int32_t first = call->first;
  int64_t batch = call->batch, cell = call->cell, rows = call->input + cell;
  int64_t x_dims[3] = {call->time, batch, call->input};
  int rank = call->state->has_sequence ? 3 : 2;
  DP_RETURN_IF_ERROR(dp_rnn_input(rnn, first, rank, x_dims + 3 - rank, NULL, &call->x));
  DP_RETURN_IF_ERROR(
      dp_rnn_input(rnn, first + 1, 2, (int64_t[]){batch, cell}, DP_RNN_STATE, &call->cs_prev));
  DP_RETURN_IF_ERROR(
      dp_rnn_input(rnn, first + 2, 2, (int64_t[]){batch, cell}, DP_RNN_STATE, &call->h_prev));
  DP_RETURN_IF_ERROR(dp_rnn_input(rnn, first + 3, 2, (int64_t[]){rows, 4 * cell},
                                  DP_RNN_WEIGHTS("cell_size * 4"), &call->w));
  DP_RETURN_IF_ERROR(read_peepholes(call));
  DP_RETURN_IF_ERROR(dp_rnn_input(rnn, first + 7, 1, (int64_t[]){4 * cell},
                                  DP_RNN_BIAS("cell_size * 4"), &call->b));
  if (!call->state->has_sequence && batch * cell == 0)
    return DP_INVALID("cs_prev_tensor is empty, has shape: (%lld,%lld).", (long long)batch,
                      (long long)cell);
  return NULL;
}

/* The blocks of one row of gates. */
static void place_gates(const lstm_call *call, float *row, float **i, float **c, float **f,
                        float **o) {
  int64_t cell = call->cell;
  *i = row;
  *c = row + (call->state->forgets_second ? 2 : 1) * cell;
  *f = row + (call->state->forgets_second ? 1 : 2) * cell;
  *o = row + 3 * cell;
}

static const float *before(const lstm_call *call, const float *first, const float *sequence) {
  return call->step == 0 ? first : sequence + (call->step - 1) * call->batch * call->cell;
}

/* ---- Forward ---- */
static void forward_rows(void *arg, int64_t begin, int64_t end) {
  const lstm_call *call = arg;
  const float *cs_prev = before(call, call->cs_prev, call->out[OUT_CS]);
  for (int64_t b = begin; b < end; ++b) {
    int64_t at = (call->step * call->batch + b) * call->cell;
    dp_lstm_forward cell = {.size = call->cell,
                            .forget_bias = call->state->forget_bias,
                            .clip = call->state->clip,
                            .peepholes = call->peepholes,
                            .cs_prev = cs_prev + b * call->cell};
    float **const targets[OUT_COUNT] = {&cell.i,  &cell.cs, &cell.f, &cell.o,
                                        &cell.ci, &cell.co, &cell.h};
    for (int i = 0; i < OUT_COUNT; ++i)
      *targets[i] = call->out[i] + at;
    place_gates(call, call->gates + 4 * at, &cell.gate_i, &cell.gate_c, &cell.gate_f, &cell.gate_o);
    dp_cell_table()->lstm_forward(&cell);
  }
}

static void run_forward(lstm_call *call) {
  dp_rnn *rnn = &call->rnn;
  int64_t batch = call->batch, cell = call->cell, rows = call->steps * batch;
  dp_rnn_fill_rows(call->b, rows, 4 * cell, call->gates);
  dp_rnn_multiply(rnn, call->x, call->w, rows, call->input, 4 * cell, false, true, call->gates);
  for (call->step = 0; call->step < call->steps; ++call->step) {
    dp_rnn_multiply(rnn, before(call, call->h_prev, call->out[OUT_H]),
                    call->w + call->input * 4 * cell, batch, cell, 4 * cell, false, true,
                    call->gates + call->step * batch * 4 * cell);
    dp_op_for(rnn->context, batch, cell * 8, forward_rows, call);
  }
}

static dp_status *forward(lstm_call *call) {
  DP_RETURN_IF_ERROR(read_operands(call));
  int64_t used = call->steps * call->batch * call->cell;
  dp_shape shape = call->state->has_sequence
                       ? dp_shape_of(3, (int64_t[]){call->time, call->batch, call->cell})
                       : dp_shape_matrix(call->batch, call->cell);
  for (int i = 0; i < OUT_COUNT; ++i) {
    DP_RETURN_IF_ERROR(dp_rnn_output(&call->rnn, i, &shape, &call->out[i]));
    memset(call->out[i] + used, 0, (size_t)(shape.elements - used) * sizeof(float));
  }
  DP_RETURN_IF_ERROR(dp_rnn_scratch(&call->rnn, 4 * used, &call->gates));
  run_forward(call);
  dp_rnn_finish(&call->rnn);
  return NULL;
}

static dp_status *forward_compute(dp_op_context *context, void *memory) {
  const lstm_state *state = memory;
  lstm_call call = {.rnn.context = context, .state = state, .first = state->has_sequence};
  dp_status *status = forward(&call);
  dp_rnn_deinit(&call.rnn);
  return status;
}

/* ---- Backward ---- */
static void backward_rows(void *arg, int64_t begin, int64_t end) {
  const lstm_call *call = arg;
  const float *cs_prev = before(call, call->cs_prev, call->given[OUT_CS]);
  for (int64_t b = begin; b < end; ++b) {
    int64_t row = b * call->cell, at = call->step * call->batch * call->cell + row;
    dp_lstm_backward cell = {.size = call->cell,
                             .peepholes = call->peepholes,
                             .cs_prev = cs_prev + row,
                             .i = call->given[OUT_I] + at,
                             .f = call->given[OUT_F] + at,
                             .o = call->given[OUT_O] + at,
                             .ci = call->given[OUT_CI] + at,
                             .co = call->given[OUT_CO] + at,
                             .cs_grad = call->back_cs + row,
                             .h_grad = call->back_h + row,
                             .cs_prev_grad = call->back_cs + row};
    place_gates(call, call->gates + 4 * at, &cell.gate_i, &cell.gate_c, &cell.gate_f, &cell.gate_o);
    dp_cell_table()->lstm_backward(&cell);
  }
}

static void add(const float *from, int64_t count, float *to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] += from[i];
}

/* Adds what one row of one step contributes to the gradients of the peepholes. */
static void add_peepholes(const lstm_call *call, int64_t b, float *const *to) {
  int64_t at = (call->step * call->batch + b) * call->cell;
  const float *cs_prev = before(call, call->cs_prev, call->given[OUT_CS]) + b * call->cell;
  const float *cs = call->given[OUT_CS] + at;
  float *i, *c, *f, *o;
  place_gates(call, call->gates + 4 * at, &i, &c, &f, &o);
  for (int64_t j = 0; j < call->cell; ++j) {
    to[0][j] += i[j] * cs_prev[j];
    to[1][j] += f[j] * cs_prev[j];
    to[2][j] += o[j] * cs[j];
  }
}

/* One step; its incoming gradients are in back_cs and back_h. */
static void backward_step(lstm_call *call, float *const *peephole_grads) {
  dp_op_for(call->rnn.context, call->batch, call->cell * 4, backward_rows, call);
  for (int64_t b = 0; b < call->batch && call->peepholes.i; ++b)
    add_peepholes(call, b, peephole_grads);
}

/* The gradient of a sequence; outputs: x, cs_prev, h_prev, w, three peepholes, b. */
static void run_sequence(lstm_call *call) {
  dp_rnn *rnn = &call->rnn;
  int64_t batch = call->batch, cell = call->cell, size = batch * cell;
  const float *w_h = call->w + call->input * 4 * cell;
  for (call->step = call->steps - 1; call->step >= 0; --call->step) {
    add(call->cs_grad + call->step * size, size, call->back_cs);
    add(call->h_grad + call->step * size, size, call->back_h);
    backward_step(call, call->out + 4);
    dp_rnn_multiply(rnn, call->gates + call->step * 4 * size, w_h, batch, 4 * cell, cell, true,
                    false, call->back_h);
  }
}

static void run_weights(lstm_call *call) {
  dp_rnn *rnn = &call->rnn;
  int64_t batch = call->batch, cell = call->cell, rows = call->steps * batch;
  float *w_grad = call->out[3], *h_grad = w_grad + call->input * 4 * cell;
  if (rows == 0)
    return;
  dp_rnn_multiply(rnn, call->gates, call->w, rows, 4 * cell, call->input, true, false,
                  call->out[0]);
  dp_rnn_multiply_transposed(rnn, call->x, call->gates, rows, call->input, 4 * cell, false, w_grad);
  dp_rnn_multiply_transposed(rnn, call->h_prev, call->gates, batch, cell, 4 * cell, false, h_grad);
  dp_rnn_multiply_transposed(rnn, call->given[OUT_H], call->gates + batch * 4 * cell, rows - batch,
                             cell, 4 * cell, true, h_grad);
  for (int64_t r = 0; r < rows; ++r)
    add(call->gates + r * 4 * cell, 4 * cell, call->out[7]);
}

/* Reads the outputs of the forward op and the incoming gradients, which follow the inputs of the
 * forward op. */
static dp_status *read_given(lstm_call *call, int count) {
  dp_rnn *rnn = &call->rnn;
  int64_t dims[3] = {call->time, call->batch, call->cell};
  int rank = call->state->has_sequence ? 3 : 2;
  int32_t slot = call->first + 8;
  for (int i = 0; i < count; ++i)
    DP_RETURN_IF_ERROR(dp_rnn_input(rnn, slot++, rank, dims + 3 - rank, NULL, &call->given[i]));
  DP_RETURN_IF_ERROR(dp_rnn_input(rnn, slot++, rank, dims + 3 - rank, NULL, &call->cs_grad));
  return dp_rnn_input(rnn, slot, rank, dims + 3 - rank, NULL, &call->h_grad);
}

static dp_status *zero_output(lstm_call *call, int32_t slot, const dp_shape *shape) {
  DP_RETURN_IF_ERROR(dp_rnn_output(&call->rnn, slot, shape, &call->out[slot]));
  memset(call->out[slot], 0, (size_t)shape->elements * sizeof(float));
  return NULL;
}

static dp_status *sequence_grad(lstm_call *call) {
  DP_RETURN_IF_ERROR(read_operands(call));
  DP_RETURN_IF_ERROR(read_given(call, OUT_COUNT));
  if (call->cell == 0)
    return DP_INVALID("w matrix columns must be a positive multiple of 4, but got 0");
  int64_t cell = call->cell;
  const dp_shape state = dp_shape_matrix(call->batch, cell);
  const dp_shape shapes[8] = {dp_shape_of(3, (int64_t[]){call->time, call->batch, call->input}),
                              state,
                              state,
                              dp_shape_matrix(call->input + cell, 4 * cell),
                              dp_shape_vector(cell),
                              dp_shape_vector(cell),
                              dp_shape_vector(cell),
                              dp_shape_vector(4 * cell)};
  for (int i = 0; i < 8; ++i)
    DP_RETURN_IF_ERROR(zero_output(call, i, &shapes[i]));
  DP_RETURN_IF_ERROR(dp_rnn_scratch(&call->rnn, 4 * call->steps * state.elements, &call->gates));
  call->back_cs = call->out[1];
  call->back_h = call->out[2];
  run_sequence(call);
  run_weights(call);
  dp_rnn_finish(&call->rnn);
  return NULL;
}

/* The gradient of one step leaves the products to the graph; outputs: cs_prev, gates, three
 * peepholes. */
static dp_status *step_grad(lstm_call *call) {
  DP_RETURN_IF_ERROR(read_operands(call));
  DP_RETURN_IF_ERROR(read_given(call, OUT_COUNT - 1));
  dp_shape state = dp_shape_matrix(call->batch, call->cell);
  dp_shape gates = dp_shape_matrix(call->batch, 4 * call->cell);
  DP_RETURN_IF_ERROR(dp_rnn_output(&call->rnn, 0, &state, &call->back_cs));
  DP_RETURN_IF_ERROR(dp_rnn_output(&call->rnn, 1, &gates, &call->gates));
  for (int i = 0; i < 3; ++i)
    DP_RETURN_IF_ERROR(zero_output(call, 2 + i, &call->peephole_shapes[i]));
  DP_RETURN_IF_ERROR(dp_rnn_scratch(&call->rnn, state.elements, &call->back_h));
  memcpy(call->back_cs, call->cs_grad, (size_t)state.elements * sizeof(float));
  memcpy(call->back_h, call->h_grad, (size_t)state.elements * sizeof(float));
  backward_step(call, call->out + 2);
  dp_rnn_finish(&call->rnn);
  return NULL;
}

static dp_status *backward_compute(dp_op_context *context, void *memory) {
  const lstm_state *state = memory;
  lstm_call call = {.rnn.context = context, .state = state, .first = state->has_sequence};
  dp_status *status = state->has_sequence ? sequence_grad(&call) : step_grad(&call);
  dp_rnn_deinit(&call.rnn);
  return status;
}

#define ROW(name, body)                                                                            \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET(HALF) | DP_SET(FLOAT)}}, .state_size = sizeof(lstm_state),  \
    .create = lstm_create, .compute = body                                                         \
  }
static const dp_kernel rows[] = {
    ROW("LSTMBlockCell", forward_compute),  ROW("BlockLSTM", forward_compute),
    ROW("BlockLSTMV2", forward_compute),    ROW("LSTMBlockCellGrad", backward_compute),
    ROW("BlockLSTMGrad", backward_compute), ROW("BlockLSTMGradV2", backward_compute),
};
DP_KERNEL_FAMILY(rnn_lstm, rows);
