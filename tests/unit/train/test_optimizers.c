/* Optimizers, schedules, averages and clipping against what TensorFlow 2.12 computes. */
#include <downpour_train.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct golden {
  const char *name;
  dp_optimizer optimizer;
  float dense[6], sparse[6]; /* w after three steps */
} golden;

/* A variable w = [[1, 2], [3, 4], [5, 6]]. */
static dp_model *make_model(TF_Output *w_out, TF_Operation **set_out) {
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  *w_out = dp_model_variable(model, "w", DP_SHAPE(3, 2), dp_init_constant(0));
  TF_Output start = dp_const_floats(scope, DP_SHAPE(3, 2), (float[]){1, 2, 3, 4, 5, 6});
  *set_out = dp_assign(scope, dp_model_reference(model, "w"), start).oper;
  return model;
}

static dp_variable_gradient make_gradient(dp_model *model, bool sparse) {
  dp_scope *scope = dp_model_scope(model);
  dp_variable_gradient gradient = {.variable = "w"};
  if (sparse) {
    gradient.values =
        dp_const_floats(scope, DP_SHAPE(3, 2), (float[]){.1f, .2f, .3f, .4f, .5f, .6f});
    gradient.indices = dp_const_int32s(scope, DP_SHAPE(3), (int32_t[]){0, 2, 0});
  } else {
    gradient.values =
        dp_const_floats(scope, DP_SHAPE(3, 2), (float[]){.1f, -.2f, .3f, .4f, -.5f, .6f});
  }
  return gradient;
}

static void check_floats(TF_Tensor *tensor, const float *expected, int count) {
  assert_non_null(tensor);
  assert_int_equal(TF_TensorElementCount(tensor), count);
  const float *actual = TF_TensorData(tensor);
  for (int i = 0; i < count; i++) {
    if (fabsf(actual[i] - expected[i]) <= 2e-6f * fmaxf(1, fabsf(expected[i])))
      continue;
    fail_msg("element %d is %.9g, not %.9g", i, actual[i], expected[i]);
  }
}

static void check_optimizer(dp_optimizer optimizer, bool sparse, const float *expected) {
  TF_Output w;
  TF_Operation *set;
  dp_model *model = make_model(&w, &set);
  dp_variable_gradient gradient = make_gradient(model, sparse);
  dp_model_apply(model, optimizer, &gradient, 1);
  dp_training *training = dp_training_start(model);
  assert_string_equal(dp_training_message(training), "");
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS((TF_Output){set, 0})));
  for (int i = 0; i < 3; i++)
    assert_true(dp_training_run(training, DP_FEEDS(), DP_OUTPUTS()));
  assert_int_equal(dp_training_step(training), 3);
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(w)));
  check_floats(dp_training_tensor(training, 0), expected, 6);
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

static void test_optimizers(void **state) {
  const golden rows[] = {
      {"sgd",
       dp_sgd(0.1),
       {0.970000029f, 2.05999994f, 2.91000009f, 3.88000011f, 5.15000057f, 5.82000017f},
       {0.819999993f, 1.76000023f, 3, 4, 4.90999937f, 5.88000011f}},
      {"momentum",
       dp_momentum(0.1, 0.9),
       {0.943899989f, 2.11220002f, 2.83170009f, 3.77559996f, 5.28049994f, 5.66340017f},
       {0.663399935f, 1.55120003f, 3, 4, 4.83169985f, 5.77559996f}},
      {"nesterov",
       dp_nesterov(0.1, 0.9),
       {0.919510007f, 2.16097999f, 2.75853014f, 3.67804003f, 5.40244961f, 5.51706028f},
       {0.517059982f, 1.35608006f, 3, 4, 4.75853014f, 5.67804003f}},
      {"adagrad",
       dp_adagrad(0.1),
       {0.913246334f, 2.14323282f, 2.82516074f, 3.80730963f, 5.20329809f, 5.79004145f},
       {0.790041447f, 1.78261352f, 3, 4, 4.82516098f, 5.80730963f}},
      {"adadelta",
       dp_adadelta(0.1),
       {0.99986434f, 2.0001359f, 2.9998641f, 3.9998641f, 5.0001359f, 5.9998641f},
       {0.99986434f, 1.99986434f, 3, 4, 4.9998641f, 5.9998641f}},
      {"adam",
       dp_adam(0.1),
       {0.700001776f, 2.29999852f, 2.70000124f, 3.70000124f, 5.29999876f, 5.70000124f},
       {0.700001121f, 1.70000112f, 3, 4, 4.70000124f, 5.70000124f}},
      {"rmsprop",
       dp_rmsprop(0.1),
       {0.966676414f, 2.06640601f, 2.90098429f, 3.86905837f, 5.16199827f, 5.80796862f},
       {0.807968736f, 1.75142169f, 3, 4, 4.90098381f, 5.86905861f}},
      {"ftrl",
       dp_ftrl(0.1),
       {-0.0402162522f, 0.452924371f, 0.648732185f, 1.3266151f, 2.53068566f, 2.99252701f},
       {0.32378903f, 1.04739892f, 3, 4, 1.19777966f, 2.08626795f}},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    print_message("%s\n", rows[i].name);
    check_optimizer(rows[i].optimizer, false, rows[i].dense);
    check_optimizer(rows[i].optimizer, true, rows[i].sparse);
  }
}

static void test_schedules(void **state) {
  static const int64_t steps[] = {0, 5, 15, 30};
  static const float expected[4][6] = {
      {0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 1.0f},
      {0.07071068f, 0.1f, 0.060625f, 0.08681981f, 0.08f, 1.0f},
      {0.03535534f, 0.05f, 0.015625f, 0.023180196f, 0.057142857f, 0.5f},
      {0.0125f, 0.0125f, 0.01f, 0.010000001f, 0.04f, 0.25f},
  };
  dp_model *model = dp_model_create(NULL);
  TF_Output rates[] = {
      dp_schedule_exponential(model, 0.1, 10, 0.5, false),
      dp_schedule_exponential(model, 0.1, 10, 0.5, true),
      dp_schedule_polynomial(model, 0.1, 20, 0.01, 2),
      dp_schedule_cosine(model, 0.1, 20, 0.1),
      dp_schedule_inverse_time(model, 0.1, 10, 0.5, false),
      dp_schedule_piecewise(model, DP_INTS(5, 15), DP_FLOATS(1, 0.5f, 0.25f)),
  };
  TF_Output step = dp_model_global_step(model);
  dp_training *training = dp_training_start(model);
  for (int i = 0; i < 4; i++) {
    TF_Tensor *value = TF_AllocateTensor(TF_INT64, NULL, 0, sizeof(int64_t));
    *(int64_t *)TF_TensorData(value) = steps[i];
    assert_true(dp_training_fetch(training, DP_FEEDS({step, value}), ((dp_outputs){rates, 6})));
    for (int k = 0; k < 6; k++)
      assert_true(fabs(dp_training_number(training, k) - expected[i][k]) < 1e-6);
    TF_DeleteTensor(value);
  }
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

static void test_moving_average(void **state) {
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  dp_model_variable(model, "w", DP_SHAPE(2), dp_init_constant(1));
  dp_variable_gradient gradient = {.variable = "w",
                                   .values = dp_const_floats(scope, DP_SHAPE(2), (float[]){1, -2})};
  dp_model_apply(model, dp_sgd(0.1), &gradient, 1, .average_decay = 0.9);
  TF_Output average = dp_model_average(model, "w");
  dp_training *training = dp_training_start(model);
  for (int i = 0; i < 3; i++)
    dp_training_run(training, DP_FEEDS(), DP_OUTPUTS());
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(average)));
  check_floats(dp_training_tensor(training, 0), (float[]){0.73f, 1.54f}, 2);
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

static void test_clipping(void **state) {
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  dp_variable_gradient gradients[] = {
      {.values = dp_const_floats(scope, DP_SHAPE(2), (float[]){3, 4})},
      {.values = dp_const_floats(scope, DP_SHAPE(1), (float[]){12})},
  };
  TF_Output norm = dp_clip_gradients_by_norm(model, gradients, 2, 6.5);
  TF_Output first = gradients[0].values, second = gradients[1].values;
  dp_clip_gradients(model, gradients, 2, 1.75);
  dp_training *training = dp_training_start(model);
  assert_true(dp_training_fetch(training, DP_FEEDS(),
                                DP_OUTPUTS(norm, first, second, gradients[0].values)));
  assert_true(fabs(dp_training_number(training, 0) - 13) < 1e-5);
  check_floats(dp_training_tensor(training, 1), (float[]){1.5f, 2}, 2);
  check_floats(dp_training_tensor(training, 2), (float[]){6}, 1);
  check_floats(dp_training_tensor(training, 3), (float[]){1.5f, 1.75f}, 2);
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

/* Gradients of rows stay rows all the way from a table to the optimizer. */
static void test_table(void **state) {
  for (int parts = 1; parts <= 4; parts++) {
    dp_model *model = dp_model_create(NULL);
    dp_scope *scope = dp_model_scope(model);
    dp_table *table = dp_model_table(model, "rows", 7, 2, parts, dp_init_constant(1));
    TF_Output ids = dp_const_int32s(scope, DP_SHAPE(2, 2), (int32_t[]){6, 1, 1, 3});
    TF_Output found = dp_table_lookup(table, ids);
    TF_Output loss = dp_sum(scope, found, dp_const_vector(scope, DP_INTS(0, 1, 2)));
    TF_Output all = dp_table_lookup(
        table, dp_const_int32s(scope, DP_SHAPE(7), (int32_t[]){0, 1, 2, 3, 4, 5, 6}));
    dp_model_minimize(model, dp_sgd(0.5), loss);
    dp_training *training = dp_training_start(model);
    assert_string_equal(dp_training_message(training), "");
    assert_true(dp_training_run(training, DP_FEEDS(), DP_OUTPUTS()));
    assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(all, found)));
    const float expected[] = {1, 1, 0, 0, 1, 1, .5f, .5f, 1, 1, 1, 1, .5f, .5f};
    check_floats(dp_training_tensor(training, 0), expected, 14);
    assert_int_equal(TF_NumDims(dp_training_tensor(training, 1)), 3);
    assert_int_equal(dp_training_end(training), 0);
    dp_model_destroy(model);
  }
}

/* The same update from one worker's accumulators as without them. */
static void test_sync_alone(void **state) {
  TF_Output w;
  TF_Operation *set;
  for (int sparse = 0; sparse < 2; sparse++) {
    dp_model *model = make_model(&w, &set);
    dp_variable_gradient gradient = make_gradient(model, sparse);
    dp_model_apply(model, dp_sgd(0.1), &gradient, 1, .sync = true);
    dp_training *training = dp_training_start(model);
    assert_string_equal(dp_training_message(training), "");
    assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS((TF_Output){set, 0})));
    for (int i = 0; i < 3; i++)
      assert_true(dp_training_run(training, DP_FEEDS(), DP_OUTPUTS()));
    assert_int_equal(dp_training_step(training), 3);
    assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(w)));
    const float dense[] = {.97f, 2.06f, 2.91f, 3.88f, 5.15f, 5.82f};
    const float rows[] = {.82f, 1.76f, 3, 4, 4.91f, 5.88f};
    check_floats(dp_training_tensor(training, 0), sparse ? rows : dense, 6);
    assert_int_equal(dp_training_end(training), 0);
    dp_model_destroy(model);
  }
}

/* An update needs two gradients, and one worker gives both: every second run is an update. */
static void test_sync_of_more_replicas(void **state) {
  TF_Output w;
  TF_Operation *set;
  dp_model *model = make_model(&w, &set);
  dp_variable_gradient gradient = make_gradient(model, false);
  dp_model_apply(model, dp_sgd(0.1), &gradient, 1, .sync = true, .replicas = 2);
  dp_training *training = dp_training_start(model);
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS((TF_Output){set, 0})));
  const int steps[] = {0, 1, 1, 2};
  for (int i = 0; i < 4; i++) {
    assert_true(dp_training_run(training, DP_FEEDS(), DP_OUTPUTS()));
    assert_int_equal(dp_training_step(training), steps[i]);
  }
  assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(w)));
  const float expected[] = {.98f, 2.04f, 2.94f, 3.92f, 5.1f, 5.88f};
  check_floats(dp_training_tensor(training, 0), expected, 6);
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

static void test_mistakes(void **state) {
  dp_model *model = dp_model_create(NULL);
  dp_model_variable(model, "w", DP_SHAPE(2), dp_init_constant(1));
  dp_model_variable(model, "w", DP_SHAPE(2), dp_init_constant(1));
  dp_training *training = dp_training_start(model);
  assert_string_equal(dp_training_message(training), "there is a variable w already");
  assert_true(dp_training_should_stop(training));
  assert_false(dp_training_run(training, DP_FEEDS(), DP_OUTPUTS()));
  assert_int_equal(dp_training_end(training), 1);
  dp_model_destroy(model);

  model = dp_model_create(NULL);
  TF_Output loss = dp_const_float(dp_model_scope(model), 1);
  dp_model_variable(model, "w", DP_SHAPE(2), dp_init_constant(1));
  dp_model_minimize(model, dp_sgd(1), loss);
  assert_true(strstr(dp_scope_message(dp_model_scope(model)), "depends on none") != NULL);
  dp_model_destroy(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_optimizers),
      cmocka_unit_test(test_schedules),
      cmocka_unit_test(test_moving_average),
      cmocka_unit_test(test_clipping),
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_sync_alone),
      cmocka_unit_test(test_sync_of_more_replicas),
      cmocka_unit_test(test_mistakes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
