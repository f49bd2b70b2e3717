/* Inner loops of recurrent cells, one table for each instruction set. A call computes one row of a
 * batch: `size` units, all in float. The four gates of an LSTM are four blocks of one row; the
 * caller passes a pointer to each block. */
#ifndef DP_KERNELS_LOOPS_CELL_H
#define DP_KERNELS_LOOPS_CELL_H

#include <stdint.h>
#include "kernels/isa/isa.h"

/* Weights from the cell's state to its gates ("peepholes"); NULL for none. */
typedef struct dp_lstm_peepholes {
  const float *i, *f, *o;
} dp_lstm_peepholes;

typedef struct dp_lstm_forward {
  int64_t size;
  float forget_bias, clip; /* clip may be infinite */
  dp_lstm_peepholes peepholes;
  float *gate_i, *gate_c, *gate_f, *gate_o; /* in: the matrix products; overwritten */
  const float *cs_prev;
  float *i, *cs, *f, *o, *ci, *co, *h;
} dp_lstm_forward;

typedef struct dp_lstm_backward {
  int64_t size;
  dp_lstm_peepholes peepholes;
  const float *cs_prev, *i, *f, *o, *ci, *co;
  const float *cs_grad, *h_grad;
  float *gate_i, *gate_c, *gate_f, *gate_o; /* out: derivatives by the gates' sums */
  float *cs_prev_grad;                      /* may be cs_grad */
} dp_lstm_backward;

typedef struct dp_cell_loops {
  void (*lstm_forward)(const dp_lstm_forward *cell);
  void (*lstm_backward)(const dp_lstm_backward *cell);
  /* r = sigmoid(sums_r), u = sigmoid(sums_u), hr = h_prev * r. */
  void (*gru_gates)(const float *sums_r, const float *sums_u, const float *h_prev, int64_t size,
                    float *r, float *u, float *hr);
  /* c = tanh(c), h = u * h_prev + (1 - u) * c. */
  void (*gru_state)(float *c, const float *u, const float *h_prev, int64_t size, float *h);
  /* Derivatives with respect to the sums of c and of u, before their tanh and sigmoid. */
  void (*gru_back_state)(const float *d_h, const float *u, const float *c, const float *h_prev,
                         int64_t size, float *d_c, float *d_u);
  /* d_r: the derivative with respect to the sums of r. d_h_prev: the part of h_prev's derivative
   * that does not go through a matrix product. */
  void (*gru_back_gates)(const float *d_hr, const float *d_h, const float *r, const float *u,
                         const float *h_prev, int64_t size, float *d_r, float *d_h_prev);
} dp_cell_loops;
DP_ISA_TABLE(dp_cell_loops, dp_cell_table)

#endif
