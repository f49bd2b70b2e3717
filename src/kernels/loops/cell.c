/* Fills the table of cell.h: the gates and states of LSTM and GRU cells, forward and backward. The
 * matrix products are done before; here is only arithmetic per unit, with the branch-free functions
 * of vector_math_internal.h. Compiled once for each instruction set. */
#include "kernels/loops/cell.h"

#include "kernels/loops/vector_math_internal.h"

static void add_products(const float *a, const float *b, int64_t size, float *sums) {
  DP_INDEPENDENT
  for (int64_t j = 0; j < size; ++j)
    sums[j] += a[j] * b[j];
}

static void lstm_forward(const dp_lstm_forward *cell) {
  const dp_lstm_forward c = *cell;
  if (c.peepholes.i) {
    add_products(c.cs_prev, c.peepholes.i, c.size, c.gate_i);
    add_products(c.cs_prev, c.peepholes.f, c.size, c.gate_f);
  }
  DP_INDEPENDENT
  for (int64_t j = 0; j < c.size; ++j) {
    float i = dp_sigmoid(c.gate_i[j]), ci = dp_tanh(c.gate_c[j]);
    float f = dp_sigmoid(c.gate_f[j] + c.forget_bias);
    float cs = i * ci + f * c.cs_prev[j];
    cs = cs > c.clip ? c.clip : cs < -c.clip ? -c.clip : cs;
    c.i[j] = i;
    c.ci[j] = ci;
    c.f[j] = f;
    c.cs[j] = cs;
    c.co[j] = dp_tanh(cs);
  }
  if (c.peepholes.o)
    add_products(c.cs, c.peepholes.o, c.size, c.gate_o);
  DP_INDEPENDENT
  for (int64_t j = 0; j < c.size; ++j) {
    float o = dp_sigmoid(c.gate_o[j]);
    c.o[j] = o;
    c.h[j] = o * c.co[j];
  }
}

static void lstm_backward(const dp_lstm_backward *cell) {
  const dp_lstm_backward c = *cell;
  const float *peephole_o = c.peepholes.o;
  DP_INDEPENDENT
  for (int64_t j = 0; j < c.size; ++j) {
    float d_o = c.o[j] * (1 - c.o[j]) * c.h_grad[j] * c.co[j];
    float d_cs = (1 - c.co[j] * c.co[j]) * c.h_grad[j] * c.o[j] + c.cs_grad[j];
    if (peephole_o)
      d_cs += d_o * peephole_o[j];
    c.gate_o[j] = d_o;
    c.gate_c[j] = (1 - c.ci[j] * c.ci[j]) * d_cs * c.i[j];
    c.gate_f[j] = c.f[j] * (1 - c.f[j]) * d_cs * c.cs_prev[j];
    c.gate_i[j] = c.i[j] * (1 - c.i[j]) * d_cs * c.ci[j];
    c.cs_prev_grad[j] = d_cs * c.f[j];
  }
  if (c.peepholes.i) {
    add_products(c.gate_i, c.peepholes.i, c.size, c.cs_prev_grad);
    add_products(c.gate_f, c.peepholes.f, c.size, c.cs_prev_grad);
  }
}

static void gru_gates(const float *sums_r, const float *sums_u, const float *h_prev, int64_t size,
                      float *r, float *u, float *hr) {
  DP_INDEPENDENT
  for (int64_t j = 0; j < size; ++j) {
    float gate = dp_sigmoid(sums_r[j]);
    r[j] = gate;
    u[j] = dp_sigmoid(sums_u[j]);
    hr[j] = h_prev[j] * gate;
  }
}

static void gru_state(float *c, const float *u, const float *h_prev, int64_t size, float *h) {
  DP_INDEPENDENT
  for (int64_t j = 0; j < size; ++j) {
    float state = dp_tanh(c[j]);
    c[j] = state;
    h[j] = u[j] * (h_prev[j] - state) + state;
  }
}

static void gru_back_state(const float *d_h, const float *u, const float *c, const float *h_prev,
                           int64_t size, float *d_c, float *d_u) {
  DP_INDEPENDENT
  for (int64_t j = 0; j < size; ++j) {
    d_c[j] = d_h[j] * (1 - u[j]) * (1 - c[j] * c[j]);
    d_u[j] = d_h[j] * (h_prev[j] - c[j]) * u[j] * (1 - u[j]);
  }
}

static void gru_back_gates(const float *d_hr, const float *d_h, const float *r, const float *u,
                           const float *h_prev, int64_t size, float *d_r, float *d_h_prev) {
  DP_INDEPENDENT
  for (int64_t j = 0; j < size; ++j) {
    d_r[j] = d_hr[j] * h_prev[j] * r[j] * (1 - r[j]);
    d_h_prev[j] = d_hr[j] * r[j] + d_h[j] * u[j];
  }
}

const dp_cell_loops DP_ISA_SYMBOL(dp_cell_table) = {
    .lstm_forward = lstm_forward,
    .lstm_backward = lstm_backward,
    .gru_gates = gru_gates,
    .gru_state = gru_state,
    .gru_back_state = gru_back_state,
    .gru_back_gates = gru_back_gates,
};
