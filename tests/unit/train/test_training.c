/* Trainings in one process: checkpoints and their files, restarts, hooks, queues, placement. */
#include <downpour_train.h>
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/launch_internal.h"

static char folder[64];

static int make_folder(void **state) {
  strcpy(folder, "/tmp/downpour-train-XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command);
}

static size_t count_files(const char *pattern) {
  char path[128];
  glob_t found = {0};
  snprintf(path, sizeof(path), "%s/%s", folder, pattern);
  size_t count = glob(path, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
  globfree(&found);
  return count;
}

/* w goes down by 1 a step, from 10. */
static dp_model *count_down(TF_Output *w_out) {
  dp_model *model = dp_model_create(NULL);
  *w_out = dp_model_variable(model, "w", DP_SHAPE(), dp_init_constant(10));
  dp_model_minimize(model, dp_sgd(1), *w_out);
  dp_model_summary_scalar(model, "w", *w_out);
  return model;
}

static void test_checkpoints(void **state) {
  for (int round = 0; round < 2; round++) {
    TF_Output w;
    dp_model *model = count_down(&w);
    dp_training *training = dp_training_start(
        model, .checkpoint_dir = folder, .last_step = 4 + 3 * round, .save_steps = 1, .keep = 2);
    assert_int_equal(dp_training_step(training), round == 0 ? 0 : 4);
    while (!dp_training_should_stop(training))
      dp_training_run(training, DP_FEEDS(), DP_OUTPUTS());
    assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(w)));
    assert_true(dp_training_number(training, 0) == 6 - 3 * round);
    assert_int_equal(dp_training_end(training), 0);
    dp_model_destroy(model);
    assert_int_equal(count_files("model.ckpt-*.index"), 2);
    assert_int_equal(count_files("model.ckpt-*.meta"), 2);
    assert_int_equal(count_files("events.out.tfevents.*"), 1 + round);
  }
  assert_int_equal(count_files("model.ckpt-7.index"), 1);
  assert_int_equal(count_files("*temp*"), 0);
}

/* A table written in three parts is read in two, in one, in four. */
static void test_table_in_other_parts(void **state) {
  static const int parts[] = {3, 2, 1, 4};
  float first[14];
  for (int round = 0; round < 4; round++) {
    dp_model *model = dp_model_create(NULL);
    dp_scope *scope = dp_model_scope(model);
    dp_table *table = dp_model_table(model, "rows", 7, 2, parts[round], dp_init_uniform(-1, 1));
    TF_Output ids = dp_const_int64s(scope, DP_SHAPE(7), (int64_t[]){0, 1, 2, 3, 4, 5, 6});
    TF_Output all = dp_table_lookup(table, ids);
    dp_training *training = dp_training_start(model, .checkpoint_dir = folder);
    assert_string_equal(dp_training_message(training), "");
    assert_true(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(all)));
    const float *rows = TF_TensorData(dp_training_tensor(training, 0));
    if (round == 0)
      memcpy(first, rows, sizeof(first));
    assert_memory_equal(first, rows, sizeof(first));
    assert_int_equal(dp_training_end(training), 0);
    dp_model_destroy(model);
  }
}

static void test_row_that_there_is_not(void **state) {
  dp_model *model = dp_model_create(NULL);
  dp_table *table = dp_model_table(model, "rows", 7, 2, 3, dp_init_constant(0));
  TF_Output row = dp_table_lookup(table, dp_const_int32(dp_model_scope(model), 7));
  dp_training *training = dp_training_start(model);
  assert_false(dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(row)));
  assert_int_equal(dp_training_end(training), 1);
  dp_model_destroy(model);
}

/* Nothing to do: the checkpoint is at the last step already. */
static void test_finished_already(void **state) {
  for (int round = 0; round < 2; round++) {
    TF_Output w;
    dp_model *model = count_down(&w);
    dp_training *training = dp_training_start(model, .checkpoint_dir = folder, .last_step = 2);
    int runs = 0;
    for (; !dp_training_should_stop(training); runs++)
      dp_training_run(training, DP_FEEDS(), DP_OUTPUTS());
    assert_int_equal(runs, round == 0 ? 2 : 0);
    assert_int_equal(dp_training_end(training), 0);
    dp_model_destroy(model);
  }
}

static void test_bad_checkpoint_state(void **state) {
  char path[128];
  snprintf(path, sizeof(path), "%s/checkpoint", folder);
  FILE *file = fopen(path, "w");
  fputs("model_checkpoint_path: nothing quoted", file);
  fclose(file);
  TF_Output w;
  dp_model *model = count_down(&w);
  dp_training *training = dp_training_start(model, .checkpoint_dir = folder);
  assert_true(dp_training_should_stop(training));
  assert_int_equal(dp_training_end(training), 1);
  dp_model_destroy(model);
}

/* ---- Hooks ---- */
typedef struct watched {
  int made, before, after, ended;
  TF_Output output;
  float last;
} watched;

static void watch_made(void *arg, dp_training *training) {
  ((watched *)arg)->made++;
}
static dp_outputs watch_before(void *arg, dp_training *training) {
  watched *seen = arg;
  seen->before++;
  return (dp_outputs){&seen->output, 1};
}
static void watch_after(void *arg, dp_training *training, TF_Tensor *const *values, int count) {
  watched *seen = arg;
  assert_int_equal(count, 1);
  seen->last = *(float *)TF_TensorData(values[0]);
  if (++seen->after == 3)
    dp_training_request_stop(training);
}
static void watch_end(void *arg, dp_training *training) {
  ((watched *)arg)->ended++;
}

static void test_hooks(void **state) {
  TF_Output w;
  dp_model *model = count_down(&w);
  watched seen = {.output = w};
  dp_hook hook = {&seen, watch_made, watch_before, watch_after, watch_end};
  dp_training *training = dp_training_start(model, .hooks = &hook, .hook_count = 1);
  while (!dp_training_should_stop(training))
    dp_training_run(training, DP_FEEDS(), DP_OUTPUTS(w));
  assert_true(seen.last == dp_training_number(training, 0));
  assert_int_equal(dp_training_own_steps(training), 3);
  assert_int_equal(dp_training_end(training), 0);
  assert_int_equal(seen.made, 1);
  assert_int_equal(seen.before, 3);
  assert_int_equal(seen.ended, 1);
  dp_model_destroy(model);
}

static void test_loss_that_is_no_number(void **state) {
  TF_Output w;
  dp_model *model = count_down(&w);
  TF_Output loss = dp_log(dp_model_scope(model), dp_neg(dp_model_scope(model), w));
  dp_training *training = dp_training_start(model, .metrics = DP_METRICS({"loss", loss}));
  assert_false(dp_training_run(training, DP_FEEDS(), DP_OUTPUTS()));
  assert_true(strstr(dp_training_message(training), "nan at step 1") != NULL);
  assert_int_equal(dp_training_end(training), 1);
  dp_model_destroy(model);
}

/* ---- Queues ---- */
static void test_queue_runner(void **state) {
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  TF_Output count = dp_model_variable(model, "count", DP_SHAPE(), dp_init_constant(0));
  TF_Output queue = dp_fifo_queue_v2(scope, DP_TYPES(TF_FLOAT), .capacity = 2);
  TF_Output next =
      dp_count_up_to(scope, dp_model_reference(model, "global_step"), 5, .name = "next");
  TF_Operation *enqueue =
      dp_queue_enqueue_v2(scope, queue, DP_OUTPUTS(dp_cast(scope, next, TF_FLOAT)));
  dp_model_queue_runner(model, enqueue, dp_queue_close_v2(scope, queue),
                        dp_queue_close_v2(scope, queue, .cancel_pending_enqueues = true));
  TF_Output taken = dp_output_at(dp_queue_dequeue_v2(scope, queue, DP_TYPES(TF_FLOAT)), 0);
  dp_training *training = dp_training_start(model);
  float sum = 0;
  while (dp_training_run(training, DP_FEEDS(), DP_OUTPUTS(taken, count)))
    sum += (float)dp_training_number(training, 0);
  assert_true(sum == 0 + 1 + 2 + 3 + 4);
  assert_true(dp_training_should_stop(training));
  assert_int_equal(dp_training_end(training), 0);
  dp_model_destroy(model);
}

/* ---- Placement ---- */
static int free_port(void) {
  int port = 0;
  assert_true(dp_launch_hold_port(&port) >= 0); /* held until the program ends */
  return port;
}

static dp_job *start_worker(void) {
  char config[256];
  snprintf(config, sizeof(config),
           "{\"cluster\": {\"ps\": [\"localhost:1\", \"localhost:2\"], \"worker\": "
           "[\"localhost:3\", \"localhost:%d\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
           free_port());
  setenv("TF_CONFIG", config, 1);
  TF_Status *status = TF_NewStatus();
  dp_job *job = dp_job_start(status);
  unsetenv("TF_CONFIG");
  assert_string_equal(TF_Message(status), "");
  TF_DeleteStatus(status);
  return job;
}

static int always_second(void *arg, const dp_new_operation *variable, int64_t bytes, int ps_count) {
  assert_int_equal(ps_count, 2);
  *(int64_t *)arg += bytes;
  return 1;
}

static const char *device_of(TF_Output value) {
  return TF_OperationDevice(value.oper);
}

static void test_placement(void **state) {
  dp_job *job = start_worker();
  assert_false(dp_job_is_ps(job));
  assert_false(dp_job_is_chief(job));
  assert_int_equal(dp_job_worker(job), 1);
  assert_int_equal(dp_job_worker_count(job), 2);
  assert_string_equal(dp_job_device(job), "/job:worker/task:1");
  dp_model *model = dp_model_create(job); /* the global step is on server 0 */
  TF_Output a = dp_model_variable(model, "a", DP_SHAPE(100), dp_init_constant(0));
  TF_Output b = dp_model_variable(model, "b", DP_SHAPE(1), dp_init_constant(0));
  dp_model_place_by_bytes(model); /* 12 bytes on 0, 400 on 1 */
  TF_Output c = dp_model_variable(model, "c", DP_SHAPE(50), dp_init_constant(0));
  TF_Output d = dp_model_variable(model, "d", DP_SHAPE(50), dp_init_constant(0));
  TF_Output e = dp_model_variable(model, "e", DP_SHAPE(1), dp_init_constant(0));
  int64_t bytes = 0;
  dp_model_place(model, always_second, &bytes);
  TF_Output f = dp_model_variable(model, "f", DP_SHAPE(2, 3), dp_init_constant(0));
  TF_Output sum = dp_add_v2(dp_model_scope(model), a, b);
  TF_Output own = dp_model_variable(model, "own", DP_SHAPE(), dp_init_constant(0), .local = true);
  assert_string_equal(dp_scope_message(dp_model_scope(model)), "");
  assert_string_equal(device_of(dp_model_global_step(model)), "/job:ps/task:0");
  assert_string_equal(device_of(a), "/job:ps/task:1");
  assert_string_equal(device_of(b), "/job:ps/task:0");
  assert_string_equal(device_of(c), "/job:ps/task:0");
  assert_string_equal(device_of(d), "/job:ps/task:0");
  assert_string_equal(device_of(e), "/job:ps/task:1");
  assert_string_equal(device_of(f), "/job:ps/task:1");
  assert_int_equal(bytes, 24);
  assert_string_equal(device_of(sum), "/job:worker/task:1");
  assert_string_equal(device_of(own), "/job:worker/task:1");
  dp_model_destroy(model);
  dp_job_end(job); /* the servers are not there, which is not waited for */
}

static void test_bad_config(void **state) {
  TF_Status *status = TF_NewStatus();
  setenv("TF_CONFIG", "{\"cluster\": {\"ps\": [\"x\"]}}", 1);
  assert_null(dp_job_start(status));
  assert_int_equal(TF_GetCode(status), TF_INVALID_ARGUMENT);
  unsetenv("TF_CONFIG");
  TF_DeleteStatus(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_checkpoints, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_table_in_other_parts, make_folder, remove_folder),
      cmocka_unit_test(test_row_that_there_is_not),
      cmocka_unit_test_setup_teardown(test_finished_already, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_bad_checkpoint_state, make_folder, remove_folder),
      cmocka_unit_test(test_hooks),
      cmocka_unit_test(test_loss_that_is_no_number),
      cmocka_unit_test(test_queue_runner),
      cmocka_unit_test(test_placement),
      cmocka_unit_test(test_bad_config),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
