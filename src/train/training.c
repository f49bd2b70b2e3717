/* Training: one step after the other, with hooks around each. When a task is lost, the session is
 * opened again, which waits for the task and gives the variables their values if they were lost too
 * (prepare.c), and the step is run again. Lost means UNAVAILABLE, or ABORTED from a task that came
 * back without its state. OUT_OF_RANGE ends the training: there is no more input, or the chief has
 * ended. Any other error sticks and ends it too.
 *
 * A training has one thread, the caller's, and borrows the model; runners.c has threads of its own.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "client/options.h"
#include "client/values.h"
#include "train/train_internal.h"

/* ---- Errors ---- */
bool dp_train_ok(const dp_training *self) {
  return TF_GetCode(self->status) == TF_OK;
}

void dp_train_note(dp_training *self, dp_status *status) {
  if (status && dp_train_ok(self))
    TF_SetStatus(self->status, (TF_Code)dp_status_code(status), dp_status_message(status));
  dp_status_release(status);
}

void dp_training_fail(dp_training *training, TF_Code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  dp_train_note(training, dp_status_create_v((dp_code)code, format, arguments));
  va_end(arguments);
}

const char *dp_training_message(const dp_training *training) {
  return TF_Message(training->status);
}

bool dp_train_is_loss(TF_Code code) {
  return code == TF_UNAVAILABLE || code == TF_ABORTED;
}

/* ---- Runs ---- */
/* RunOptions with a time limit. A deadline that has passed is a limit of 1 ms. */
static TF_Buffer *limit_until(int64_t deadline) {
  int64_t left = (deadline - dp_clock_nanos()) / 1000000;
  dp_text options = {0};
  dp_text_add_char(&options, 0x10); /* timeout_in_ms */
  dp_text_add_varint(&options, (uint64_t)(left > 0 ? left : 1));
  TF_Buffer *buffer = TF_NewBufferFromString(options.data, options.length);
  dp_text_deinit(&options);
  return buffer;
}

TF_Code dp_train_run(dp_training *self, const train_run *run, TF_Tensor **values,
                     TF_Status *status) {
  TF_Output *to = DP_NEW_ARRAY(TF_Output, run->feeds.count + 1);
  TF_Tensor **fed = DP_NEW_ARRAY(TF_Tensor *, run->feeds.count + 1);
  for (int i = 0; i < run->feeds.count; i++) {
    to[i] = run->feeds.items[i].to;
    fed[i] = run->feeds.items[i].value;
  }
  const TF_Operation *targets[] = {run->target};
  TF_Buffer *options = run->deadline ? limit_until(run->deadline) : NULL;
  TF_SessionRun(self->session, options, to, fed, run->feeds.count, run->fetches.items, values,
                run->fetches.count, targets, run->target ? 1 : 0, NULL, status);
  if (options)
    TF_DeleteBuffer(options);
  dp_free(to);
  dp_free(fed);
  if (TF_GetCode(status) != TF_OK && self->runners)
    dp_train_runners_failed(self->runners, status);
  return TF_GetCode(status);
}

static void forget_fetched(dp_training *self) {
  for (size_t i = 0; i < self->fetched.count; i++)
    TF_DeleteTensor(self->fetched.items[i]);
  self->fetched.count = 0;
}

/* All that a run fetches: the caller's outputs, the global step, and what each hook wants. */
typedef struct run_plan {
  DP_ARRAY(TF_Output) outputs;
  int *hook_counts;
  TF_Operation *target;
  bool updates; /* the run ends with an update, and the step after it is fetched */
} run_plan;

/* What the run does beside fetching. Synchronous: a worker that has more gradients to add before
 * the update only adds one. */
static void plan_update(dp_training *self, run_plan *plan) {
  dp_model *model = self->model;
  plan->updates = model->update && (!model->sync || self->pushes + 1 >= model->sync->own_pushes);
  plan->target = plan->updates || !model->update ? model->update : model->sync->push;
  if (plan->updates)
    DP_ARRAY_PUSH(&plan->outputs, model->step_after);
  if (plan->updates && model->sync)
    DP_ARRAY_PUSH(&plan->outputs, model->sync->stamp_after);
}

static void plan_run(dp_training *self, dp_outputs fetches, run_plan *plan) {
  *plan = (run_plan){.hook_counts = DP_NEW_ARRAY(int, self->hooks.count + 1)};
  for (int i = 0; i < fetches.count; i++)
    DP_ARRAY_PUSH(&plan->outputs, fetches.items[i]);
  plan_update(self, plan);
  for (size_t i = 0; i < self->hooks.count; i++) {
    const dp_hook *hook = &self->hooks.items[i];
    dp_outputs wanted = hook->before_run ? hook->before_run(hook->arg, self) : (dp_outputs){0};
    plan->hook_counts[i] = wanted.count;
    for (int k = 0; k < wanted.count; k++)
      DP_ARRAY_PUSH(&plan->outputs, wanted.items[k]);
  }
}

static void free_plan(run_plan *plan) {
  DP_ARRAY_FREE(&plan->outputs);
  dp_free(plan->hook_counts);
}

static void count_step(dp_training *self, int64_t before) {
  self->staleness = self->own_steps > 0 && self->step > before ? self->step - before - 1 : 0;
  self->own_steps++;
}

/* Takes the step that a run fetched, and for a synchronous one the stamp. A token that was put
 * before this worker's stamp is passed over: the worker waits for the next. */
static TF_Code take_step(dp_training *self, const run_plan *plan, TF_Tensor **values, int at,
                         TF_Status *status) {
  self->pushes = plan->updates ? 0 : self->pushes + 1;
  if (!plan->updates)
    return TF_OK;
  self->step = *(const int64_t *)TF_TensorData(values[at]);
  if (!self->model->sync)
    return TF_OK;
  int64_t stamp = *(const int64_t *)TF_TensorData(values[at + 1]);
  if (stamp <= self->stamp)
    return dp_train_sync_wait(self, status);
  self->stamp = stamp;
  return TF_OK;
}

static void free_values(const run_plan *plan, TF_Tensor **values) {
  for (size_t i = 0; i < plan->outputs.count; i++)
    if (values[i])
      TF_DeleteTensor(values[i]);
}

/* Gives each hook and the caller the values that they asked for; the caller's are kept. */
static void finish_run(dp_training *self, const run_plan *plan, TF_Tensor **values, int own) {
  int at = own + plan->updates + (plan->updates && self->model->sync);
  forget_fetched(self);
  for (int i = 0; i < own; i++) {
    DP_ARRAY_PUSH(&self->fetched, values[i]);
    values[i] = NULL;
  }
  for (size_t i = 0; i < self->hooks.count; i++) {
    const dp_hook *hook = &self->hooks.items[i];
    if (hook->after_run && dp_train_ok(self))
      hook->after_run(hook->arg, self, values + at, plan->hook_counts[i]);
    at += plan->hook_counts[i];
  }
}

/* After a failed run: true when the step is to be tried again. */
static bool handle_error(dp_training *self, TF_Status *status) {
  TF_Code code = TF_GetCode(status);
  if (dp_train_is_loss(code)) {
    DP_LOG(TRAIN, WARN, "a task was lost at step %lld: %s", (long long)self->step,
           TF_Message(status));
    dp_train_close_session(self, false);
    return true;
  }
  if (code == TF_OUT_OF_RANGE)
    self->stop = true; /* no more input, or the chief has ended */
  else
    TF_SetStatus(self->status, code, TF_Message(status));
  return false;
}

/* One run of the session with all that belongs to it. */
static bool run_once(dp_training *self, dp_feeds feeds, dp_outputs fetches, TF_Status *status) {
  run_plan plan;
  plan_run(self, fetches, &plan);
  TF_Tensor **values = DP_NEW_ARRAY(TF_Tensor *, plan.outputs.count + 1);
  train_run run = {.feeds = feeds,
                   .fetches = {plan.outputs.items, (int)plan.outputs.count},
                   .target = plan.target};
  int64_t before = self->step;
  bool done = dp_train_run(self, &run, values, status) == TF_OK &&
              take_step(self, &plan, values, fetches.count, status) == TF_OK;
  if (done) {
    if (self->model->update)
      count_step(self, before);
    finish_run(self, &plan, values, fetches.count);
  }
  free_values(&plan, values);
  free_plan(&plan);
  dp_free(values);
  return done;
}

/* Synchronous, not the chief, the last step is done: the chief saves, and then it closes the
 * queues, which ends this training too. If it must go back instead, so does this worker. */
static bool wait_for_the_end(dp_training *self, TF_Status *status) {
  if (dp_train_sync_wait(self, status) != TF_OK)
    return false;
  self->at_end = self->step >= self->options.last_step;
  return true;
}

bool dp_training_run(dp_training *training, dp_feeds feeds, dp_outputs fetches) {
  bool again = true, done = false;
  TF_Status *status = TF_NewStatus();
  while (again && !done && dp_train_ok(training) && !training->stop) {
    if (training->lost)
      dp_train_close_session(training, false);
    if (!training->session && !dp_train_open_session(training))
      break;
    if (training->stop || training->lost) /* the last step was done before; a hook met a loss */
      continue;
    bool ended = training->at_end;
    bool worked =
        ended ? wait_for_the_end(training, status) : run_once(training, feeds, fetches, status);
    done = worked && !ended;
    if (!worked)
      again = handle_error(training, status);
  }
  TF_DeleteStatus(status);
  return done && dp_train_ok(training);
}

bool dp_training_fetch(dp_training *training, dp_feeds feeds, dp_outputs fetches) {
  bool done = false;
  TF_Status *status = TF_NewStatus();
  TF_Tensor **values = DP_NEW_ARRAY(TF_Tensor *, fetches.count + 1);
  train_run run = {.feeds = feeds, .fetches = fetches};
  while (!done && dp_train_ok(training)) {
    if (!training->session && !dp_train_open_session(training))
      break;
    done = dp_train_run(training, &run, values, status) == TF_OK;
    if (done)
      break;
    if (!handle_error(training, status)) {
      TF_SetStatus(training->status, TF_GetCode(status), TF_Message(status));
      break;
    }
  }
  forget_fetched(training);
  for (int i = 0; i < fetches.count && done; i++)
    DP_ARRAY_PUSH(&training->fetched, values[i]);
  dp_free(values);
  TF_DeleteStatus(status);
  return done;
}

/* ---- What the last run gave ---- */
TF_Tensor *dp_training_tensor(const dp_training *training, int i) {
  return i >= 0 && (size_t)i < training->fetched.count ? training->fetched.items[i] : NULL;
}

double dp_training_number(const dp_training *training, int i) {
  TF_Tensor *tensor = dp_training_tensor(training, i);
  double number = NAN;
  if (tensor && TF_TensorElementCount(tensor) > 0)
    dp_status_release(dp_client_tensor_numbers(tensor, &number, 1));
  return number;
}

int64_t dp_training_step(const dp_training *training) {
  return training->step;
}

int64_t dp_training_own_steps(const dp_training *training) {
  return training->own_steps;
}

int64_t dp_training_staleness(const dp_training *training) {
  return training->staleness;
}

bool dp_training_should_stop(const dp_training *training) {
  return training->stop || !dp_train_ok(training);
}

void dp_training_request_stop(dp_training *training) {
  training->stop = true;
}

/* ---- Life ---- */
static void copy_metrics(dp_training *self) {
  int count = self->options.metrics.count;
  if (count > 0)
    self->metrics = dp_memdup(self->options.metrics.items, (size_t)count * sizeof(dp_metric));
  self->options.metrics.items = self->metrics;
}

dp_training *dp_training_start_with_options(dp_model *model,
                                            const dp_training_start_options *given) {
  dp_training *self = DP_NEW(dp_training);
  dp_training_start_options options = DP_OPTIONS(dp_training_start);
  self->model = model;
  self->status = TF_NewStatus();
  dp_train_note(self,
                dp_client_options_read("dp_training_start", given, &options, sizeof(options)));
  self->options = options;
  copy_metrics(self);
  if (dp_scope_ok(model->root))
    dp_train_prepare_graph(self);
  if (!dp_scope_ok(model->root) && dp_train_ok(self))
    TF_SetStatus(self->status, dp_scope_code(model->root), dp_scope_message(model->root));
  if (dp_train_ok(self) && options.checkpoint_dir)
    dp_train_note(
        self, dp_train_checkpoints_open(&self->checkpoints, options.checkpoint_dir, options.keep));
  if (dp_train_ok(self))
    dp_train_hooks_make(self);
  if (dp_train_ok(self))
    dp_train_open_session(self);
  return self;
}

/* One line, though the message may have several. */
static void print_error(const char *message) {
  fputs("training failed: ", stderr);
  for (const char *at = message; *at; at++)
    if (*at == '\n')
      fputc(' ', stderr);
    else if (*at != '\t')
      fputc(*at, stderr);
  fputc('\n', stderr);
}

int dp_training_end(dp_training *training) {
  for (size_t i = 0; i < training->hooks.count && dp_train_ok(training) && training->session; i++)
    if (training->hooks.items[i].end)
      training->hooks.items[i].end(training->hooks.items[i].arg, training);
  dp_train_close_session(training, true);
  int code = dp_train_ok(training) ? 0 : 1;
  if (code != 0)
    print_error(TF_Message(training->status));
  if (code != 0 && training->model->job)
    dp_train_job_failed(training->model->job);
  dp_train_hooks_destroy(training);
  dp_train_checkpoints_close(&training->checkpoints);
  forget_fetched(training);
  DP_ARRAY_FREE(&training->fetched);
  TF_DeleteStatus(training->status);
  dp_free(training->metrics);
  dp_free(training);
  return code;
}
