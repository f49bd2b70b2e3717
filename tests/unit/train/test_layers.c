/* Layers and losses against what TensorFlow 2.12 computes; initial values; mistakes. */
#include <downpour_train.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void check_floats(TF_Tensor *tensor, const float *expected, int count) {
  assert_non_null(tensor);
  assert_int_equal(TF_TensorElementCount(tensor), count);
  const float *actual = TF_TensorData(tensor);
  for (int i = 0; i < count; i++)
    if (!(fabsf(actual[i] - expected[i]) <= 2e-6f))
      fail_msg("element %d is %.9g, not %.9g", i, actual[i], expected[i]);
}

static void set_ramp(dp_training *training, TF_Operation *assign) {
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS((TF_Output){assign, 0})));
}

/* What makes element i of the variable i / divisor + offset. */
static TF_Operation *ramp(dp_model *model, const char *name, dp_dims shape, double divisor,
                          double offset) {
  float values[64];
  int64_t count = 1;
  for (int i = 0; i < shape.count; i++)
    count *= shape.items[i];
  assert_true(count <= 64);
  for (int64_t i = 0; i < count; i++)
    values[i] = (float)((double)i / divisor + offset);
  dp_scope *scope = dp_model_scope(model);
  return dp_assign(scope, dp_model_reference(model, name), dp_const_floats(scope, shape, values))
      .oper;
}

static void test_lstm(void **state) {
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  TF_Output inputs[] = {
      dp_const_floats(scope, DP_SHAPE(2, 3), (float[]){.1f, .2f, .3f, .4f, .5f, .6f}),
      dp_const_floats(scope, DP_SHAPE(2, 3), (float[]){-.1f, -.2f, -.3f, .7f, .8f, .9f}),
  };
  TF_Output last = dp_layer_lstm(model, "lstm", (dp_outputs){inputs, 2}, 3, 2);
  TF_Operation *kernel = ramp(model, "lstm/kernel", DP_SHAPE(5, 8), 40, -.5);
  TF_Operation *bias = ramp(model, "lstm/bias", DP_SHAPE(8), 10, 0);
  dp_training *training = dp_training_start(model);
  set_ramp(training, kernel);
  set_ramp(training, bias);
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(last)));
  const float expected[] = {0.137488097f, 0.204441369f, -0.0877562687f, -0.0450946726f};
  check_floats(dp_training_tensor(training, 0), expected, 4);
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

static void test_convolution(void **state) {
  float pixels[16];
  for (int i = 0; i < 16; i++)
    pixels[i] = (float)i / 16;
  dp_model *model = dp_model_create(NULL);
  TF_Output image = dp_const_floats(dp_model_scope(model), DP_SHAPE(1, 4, 4, 1), pixels);
  TF_Output pooled =
      dp_layer_max_pool(model, dp_layer_conv2d(model, "conv", image, 1, 2, 3, DP_RELU));
  TF_Operation *kernel = ramp(model, "conv/kernel", DP_SHAPE(3, 3, 1, 2), 18, -.5);
  TF_Operation *bias = ramp(model, "conv/bias", DP_SHAPE(2), -5, .1);
  dp_training *training = dp_training_start(model);
  set_ramp(training, kernel);
  set_ramp(training, bias);
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(pooled)));
  const float expected[] = {0.485416681f, 0.441666692f, 0.454166681f, 0.441666692f,
                            0.443749994f, 0.441666692f, 0.329166621f, 0.441666692f};
  check_floats(dp_training_tensor(training, 0), expected, 8);
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

static void test_losses(void **state) {
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  TF_Output logits = dp_const_floats(scope, DP_SHAPE(2, 3), (float[]){1, 2, 3, 3, 1, .5f});
  TF_Output labels = dp_const_int32s(scope, DP_SHAPE(2), (int32_t[]){2, 1});
  TF_Output loss = dp_loss_softmax(model, logits, labels);
  TF_Output accuracy = dp_metric_accuracy(model, logits, labels);
  TF_Output squared =
      dp_loss_squared(model, logits, dp_const_floats(scope, DP_SHAPE(3), (float[]){1, 1, 1}));
  dp_training *training = dp_training_start(model);
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(loss, accuracy, squared)));
  assert_true(fabs(dp_training_number(training, 0) - 1.30217) < 1e-5);
  assert_true(dp_training_number(training, 1) == 0.5);
  assert_true(fabs(dp_training_number(training, 2) - 9.25 / 6) < 1e-6);
  assert_true(isnan(dp_training_number(training, 3)));
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

static void test_dropout(void **state) {
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  TF_Output ones = dp_fill(scope, dp_const_vector(scope, DP_INTS(10000)), dp_const_float(scope, 1));
  TF_Output dropped = dp_layer_dropout(model, ones, 0.25, dp_const_bool(scope, false));
  TF_Output kept = dp_layer_dropout(model, ones, 0.25, dp_const_bool(scope, true));
  dp_training *training = dp_training_start(model);
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(dropped, kept)));
  const float *values = TF_TensorData(dp_training_tensor(training, 0));
  int zeros = 0;
  for (int i = 0; i < 10000; i++) {
    assert_true(values[i] == 0 || fabsf(values[i] - 4 / 3.0f) < 1e-6f);
    zeros += values[i] == 0;
  }
  assert_in_range(zeros, 2200, 2800); /* seven standard deviations around 2500 */
  assert_true(((float *)TF_TensorData(dp_training_tensor(training, 1)))[77] == 1);
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

static void test_initial_values(void **state) {
  float first[300];
  for (int round = 0; round < 2; round++) {
    dp_model *model = dp_model_create(NULL);
    dp_model_seed(model, 7);
    TF_Output values[] = {
        dp_model_variable(model, "uniform", DP_SHAPE(100), dp_init_uniform(2, 3)),
        dp_model_variable(model, "normal", DP_SHAPE(100), dp_init_normal(10, 0.5)),
        dp_model_variable(model, "truncated", DP_SHAPE(100), dp_init_truncated_normal(0, 1)),
        dp_model_variable(model, "glorot", DP_SHAPE(10, 20), dp_init_glorot()),
        dp_model_variable(model, "he", DP_SHAPE(10, 20), dp_init_he()),
        dp_model_variable(model, "number", DP_SHAPE(), dp_init_constant(42), .dtype = TF_INT32),
    };
    dp_training *training = dp_training_start(model);
    assert_string_equal(dp_training_message(training), "");
    assert_true(dp_training_fetch(training, DP_FEEDS(), ((dp_outputs){values, 6})));
    const double limits[][2] = {{2, 3}, {7, 13}, {-2, 2}, {-0.4473, 0.4473}, {-1.02, 1.02}};
    for (int k = 0; k < 5; k++) {
      TF_Tensor *tensor = dp_training_tensor(training, k);
      const float *numbers = TF_TensorData(tensor);
      for (int64_t i = 0; i < TF_TensorElementCount(tensor); i++)
        assert_true(numbers[i] >= limits[k][0] && numbers[i] <= limits[k][1]);
      assert_true(numbers[0] != numbers[1]);
      if (k == 0 && round == 0)
        memcpy(first, numbers, 100 * sizeof(float));
      else if (k == 0)
        assert_memory_equal(first, numbers, 100 * sizeof(float));
    }
    assert_true(dp_training_number(training, 5) == 42);
    assert_int_equal(dp_training_end(training), 0);
    dp_model_destroy(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lstm),           cmocka_unit_test(test_convolution),
      cmocka_unit_test(test_losses),         cmocka_unit_test(test_dropout),
      cmocka_unit_test(test_initial_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
