/* The LSTM layer, unrolled: one copy of the cell per input, all with the same kernel and bias. The
 * four gates are parts of one product, in TensorFlow's order: input, candidate, forget, output. So
 * a kernel from a checkpoint of TensorFlow's BasicLSTMCell fits. */
#include "train/train_internal.h"

typedef struct lstm_state {
  TF_Output cell, output;
} lstm_state;

static lstm_state step(dp_scope *scope, TF_Output x, TF_Output kernel, TF_Output bias,
                       lstm_state before) {
  TF_Output one = dp_const_int32(scope, 1);
  TF_Output joined = dp_concat_v2(scope, DP_OUTPUTS(x, before.output), one);
  TF_Output sums = dp_bias_add(scope, dp_mat_mul(scope, joined, kernel), bias);
  dp_output_list gates = dp_split(scope, one, sums, 4);
  TF_Output input = dp_sigmoid(scope, dp_output_at(gates, 0));
  TF_Output candidate = dp_tanh(scope, dp_output_at(gates, 1));
  TF_Output forget =
      dp_sigmoid(scope, dp_add_v2(scope, dp_output_at(gates, 2), dp_const_float(scope, 1)));
  TF_Output kept = dp_mul(scope, forget, before.cell);
  lstm_state after;
  after.cell = dp_add_v2(scope, kept, dp_mul(scope, input, candidate));
  after.output =
      dp_mul(scope, dp_sigmoid(scope, dp_output_at(gates, 3)), dp_tanh(scope, after.cell));
  return after;
}

TF_Output dp_layer_lstm(dp_model *model, const char *name, dp_outputs inputs, int64_t input_size,
                        int64_t units) {
  dp_text text = {0};
  dp_text_printf(&text, "%s/kernel", name);
  TF_Output kernel = dp_model_variable(model, dp_text_string(&text),
                                       DP_SHAPE(input_size + units, 4 * units), dp_init_glorot());
  dp_text_clear(&text);
  dp_text_printf(&text, "%s/bias", name);
  TF_Output bias =
      dp_model_variable(model, dp_text_string(&text), DP_SHAPE(4 * units), dp_init_constant(0));
  dp_text_deinit(&text);
  dp_scope *scope = dp_scope_named(model->worker, name);
  if (inputs.count == 0)
    dp_scope_fail(scope, TF_INVALID_ARGUMENT, "the LSTM %s has no inputs", name);
  if (!dp_scope_ok(scope))
    return (TF_Output){0};
  /* The first state: zeros [batch, units]; the batch is that of the first input. */
  TF_Output zero = dp_const_vector(scope, DP_INTS(0)), one = dp_const_vector(scope, DP_INTS(1));
  TF_Output batch = dp_slice(scope, dp_shape(scope, inputs.items[0]), zero, one);
  TF_Output shape = dp_concat_v2(scope, DP_OUTPUTS(batch, dp_const_vector(scope, DP_INTS(units))),
                                 dp_const_int32(scope, 0));
  TF_Output nothing = dp_fill(scope, shape, dp_const_float(scope, 0));
  lstm_state state = {nothing, nothing};
  for (int i = 0; i < inputs.count; i++)
    state = step(scope, inputs.items[i], kernel, bias, state);
  return state.output;
}
