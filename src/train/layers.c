/* Layers and losses: variables and the ops around them, enough for perceptrons and convolutional
 * networks. Variables are named as tf.layers names them (kernel, bias), so that checkpoints fit.
 * The ops run on this worker, the variables are where the model places them. Errors stick to the
 * model's scope. */
#include "train/train_internal.h"

static TF_Output variable_of(dp_model *model, const char *layer, const char *name, dp_dims shape,
                             dp_initializer initializer) {
  dp_text text = {0};
  dp_text_printf(&text, "%s/%s", layer, name);
  TF_Output value = dp_model_variable(model, dp_text_string(&text), shape, initializer);
  dp_text_deinit(&text);
  return value;
}

static TF_Output activate(dp_scope *scope, TF_Output x, dp_activation activation) {
  switch (activation) {
  case DP_RELU:
    return dp_relu(scope, x);
  case DP_TANH:
    return dp_tanh(scope, x);
  case DP_SIGMOID:
    return dp_sigmoid(scope, x);
  case DP_LINEAR:
    break;
  }
  return x;
}

TF_Output dp_layer_dense(dp_model *model, const char *name, TF_Output x, int64_t inputs,
                         int64_t outputs, dp_activation activation) {
  TF_Output kernel =
      variable_of(model, name, "kernel", DP_SHAPE(inputs, outputs), dp_init_glorot());
  TF_Output bias = variable_of(model, name, "bias", DP_SHAPE(outputs), dp_init_constant(0));
  dp_scope *scope = dp_scope_named(model->worker, name);
  TF_Output sum = dp_bias_add(scope, dp_mat_mul(scope, x, kernel), bias);
  return activate(scope, sum, activation);
}

TF_Output dp_layer_conv2d(dp_model *model, const char *name, TF_Output x, int64_t inputs,
                          int64_t outputs, int64_t size, dp_activation activation) {
  TF_Output kernel =
      variable_of(model, name, "kernel", DP_SHAPE(size, size, inputs, outputs), dp_init_glorot());
  TF_Output bias = variable_of(model, name, "bias", DP_SHAPE(outputs), dp_init_constant(0));
  dp_scope *scope = dp_scope_named(model->worker, name);
  TF_Output sums = dp_conv2d(scope, x, kernel, DP_INTS(1, 1, 1, 1), "SAME");
  return activate(scope, dp_bias_add(scope, sums, bias), activation);
}

TF_Output dp_layer_max_pool(dp_model *model, TF_Output x) {
  return dp_max_pool(model->worker, x, DP_INTS(1, 2, 2, 1), DP_INTS(1, 2, 2, 1), "SAME");
}

TF_Output dp_layer_reshape(dp_model *model, TF_Output x, dp_dims shape) {
  return dp_reshape(model->worker, x,
                    dp_const_vector(model->worker, ((dp_ints){shape.items, shape.count})));
}

TF_Output dp_layer_dropout(dp_model *model, TF_Output x, double probability, TF_Output keep_all) {
  dp_scope *scope = dp_scope_named(model->worker, "dropout");
  if (probability < 0 || probability >= 1)
    dp_scope_fail(scope, TF_INVALID_ARGUMENT, "dropout of %g: give a probability in [0, 1)",
                  probability);
  TF_Output one = dp_const_float(scope, 1);
  TF_Output chance = dp_random_uniform(scope, dp_shape(scope, x), TF_FLOAT);
  TF_Output all = dp_cast(scope, keep_all, TF_FLOAT);
  TF_Output kept =
      dp_floor(scope, dp_add_v2(scope, chance, dp_const_float(scope, (float)(1 - probability))));
  TF_Output dropped =
      dp_mul(scope, dp_mul(scope, x, kept), dp_const_float(scope, (float)(1 / (1 - probability))));
  return dp_add_v2(scope, dp_mul(scope, x, all), dp_mul(scope, dropped, dp_sub(scope, one, all)));
}

/* ---- Losses ---- */
/* The mean of all elements, whatever the rank is. */
static TF_Output mean_of(dp_scope *scope, TF_Output x) {
  TF_Output zero = dp_const_int32(scope, 0), one = dp_const_int32(scope, 1);
  return dp_mean(scope, x, dp_range(scope, zero, dp_rank(scope, x), one));
}

TF_Output dp_loss_softmax(dp_model *model, TF_Output logits, TF_Output labels) {
  dp_scope *scope = dp_scope_named(model->worker, "loss");
  TF_Output each = dp_sparse_softmax_cross_entropy_with_logits(scope, logits, labels).loss;
  return dp_mean(scope, each, dp_const_int32(scope, 0));
}

TF_Output dp_loss_squared(dp_model *model, TF_Output x, TF_Output y) {
  dp_scope *scope = dp_scope_named(model->worker, "loss");
  return mean_of(scope, dp_squared_difference(scope, x, y));
}

TF_Output dp_metric_accuracy(dp_model *model, TF_Output logits, TF_Output labels) {
  dp_scope *scope = dp_scope_named(model->worker, "accuracy");
  TF_Output best = dp_arg_max(scope, logits, dp_const_int32(scope, 1));
  TF_Output right = dp_equal(scope, best, dp_cast(scope, labels, TF_INT64));
  return dp_mean(scope, dp_cast(scope, right, TF_FLOAT), dp_const_int32(scope, 0));
}
