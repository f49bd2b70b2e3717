/* Training: one step after the other, with hooks around each. When a task is lost (UNAVAILABLE, or
 * ABORTED by one that came back empty) the session is opened again, which waits for the task and
 * restores the variables, and the step is done once more. Any other error sticks and ends it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
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
TF_Code dp_train_session_run(dp_training *self, dp_feeds feeds, dp_outputs fetches,
                             TF_Tensor **values, TF_Operation *target, TF_Status *status) {
  TF_Output *to = DP_NEW_ARRAY(TF_Output, feeds.count + 1);
  TF_Tensor **fed = DP_NEW_ARRAY(TF_Tensor *, feeds.count + 1);
  for (int i = 0; i < feeds.count; i++) {
    to[i] = feeds.items[i].to;
    fed[i] = feeds.items[i].value;
  }
  const TF_Operation *targets[] = {target};
  TF_SessionRun(self->session, NULL, to, fed, feeds.count, fetches.items, values, fetches.count,
                targets, target ? 1 : 0, NULL, status);
  dp_free(to);
  dp_free(fed);
  return TF_GetCode(status);
}

static void forget_fetched(dp_training *self) {
  for (size_t i = 0; i < self->fetched.count; i++)
    TF_DeleteTensor(self->fetched.items[i]);
  self->fetched.count = 0;
}

/* What a run fetches: the caller's, the step, and what each hook wants. */
typedef struct run_plan {
  DP_ARRAY(TF_Output) outputs;
  int *hook_counts;
} run_plan;

static void plan_run(dp_training *self, dp_outputs fetches, run_plan *plan) {
  *plan = (run_plan){.hook_counts = DP_NEW_ARRAY(int, self->hooks.count + 1)};
  for (int i = 0; i < fetches.count; i++)
    DP_ARRAY_PUSH(&plan->outputs, fetches.items[i]);
  if (self->model->update)
    DP_ARRAY_PUSH(&plan->outputs, self->model->step_after);
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

static void count_step(dp_training *self, TF_Tensor *step_after) {
  int64_t step = *(const int64_t *)TF_TensorData(step_after);
  self->staleness = self->own_steps > 0 && step > self->step ? step - self->step - 1 : 0;
  self->step = step;
  self->own_steps++;
}

/* Deals out what a run fetched. */
static void finish_run(dp_training *self, const run_plan *plan, TF_Tensor **values, int own) {
  int at = own;
  forget_fetched(self);
  for (int i = 0; i < own; i++)
    DP_ARRAY_PUSH(&self->fetched, values[i]);
  if (self->model->update)
    count_step(self, values[at++]);
  for (size_t i = 0; i < self->hooks.count; i++) {
    const dp_hook *hook = &self->hooks.items[i];
    if (hook->after_run && dp_train_ok(self))
      hook->after_run(hook->arg, self, values + at, plan->hook_counts[i]);
    at += plan->hook_counts[i];
  }
  for (int i = own; i < at; i++)
    TF_DeleteTensor(values[i]);
}

/* What is to be done about an error: true, the step is to be tried again. */
static bool handle_error(dp_training *self, TF_Status *status) {
  if (self->runners)
    dp_train_runners_failed(self->runners, status);
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

bool dp_training_run(dp_training *training, dp_feeds feeds, dp_outputs fetches) {
  bool again = true, done = false;
  TF_Status *status = TF_NewStatus();
  while (again && !done && dp_train_ok(training) && !training->stop) {
    if (!training->session && !dp_train_open_session(training))
      break;
    run_plan plan;
    plan_run(training, fetches, &plan);
    TF_Tensor **values = DP_NEW_ARRAY(TF_Tensor *, plan.outputs.count + 1);
    dp_outputs outputs = {plan.outputs.items, (int)plan.outputs.count};
    done = dp_train_session_run(training, feeds, outputs, values, training->model->update,
                                status) == TF_OK;
    if (done)
      finish_run(training, &plan, values, fetches.count);
    else
      again = handle_error(training, status);
    free_plan(&plan);
    dp_free(values);
  }
  TF_DeleteStatus(status);
  return done && dp_train_ok(training);
}

bool dp_training_fetch(dp_training *training, dp_feeds feeds, dp_outputs fetches) {
  if (!dp_train_ok(training) || (!training->session && !dp_train_open_session(training)))
    return false;
  TF_Tensor **values = DP_NEW_ARRAY(TF_Tensor *, fetches.count + 1);
  dp_train_session_run(training, feeds, fetches, values, NULL, training->status);
  forget_fetched(training);
  for (int i = 0; i < fetches.count && dp_train_ok(training); i++)
    DP_ARRAY_PUSH(&training->fetched, values[i]);
  dp_free(values);
  return dp_train_ok(training);
}

/* ---- What the last run gave ---- */
TF_Tensor *dp_training_tensor(const dp_training *training, int i) {
  return i >= 0 && (size_t)i < training->fetched.count ? training->fetched.items[i] : NULL;
}

double dp_training_number(const dp_training *training, int i) {
  TF_Tensor *tensor = dp_training_tensor(training, i);
  if (!tensor || TF_TensorElementCount(tensor) == 0)
    return NAN;
  const void *data = TF_TensorData(tensor);
  switch (TF_TensorType(tensor)) {
  case TF_FLOAT:
    return *(const float *)data;
  case TF_DOUBLE:
    return *(const double *)data;
  case TF_INT32:
    return *(const int32_t *)data;
  case TF_INT64:
    return (double)*(const int64_t *)data;
  case TF_BOOL:
  case TF_UINT8:
    return *(const uint8_t *)data;
  default:
    return NAN;
  }
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

dp_training *dp_training_new(dp_model *model, dp_training_options options) {
  dp_training *self = DP_NEW(dp_training);
  self->model = model;
  self->options = options;
  self->status = TF_NewStatus();
  copy_metrics(self);
  if (dp_scope_ok(model->root))
    dp_train_prepare_graph(self);
  if (!dp_scope_ok(model->root))
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
  dp_train_hooks_destroy(training);
  dp_train_checkpoints_close(&training->checkpoints);
  forget_fetched(training);
  DP_ARRAY_FREE(&training->fetched);
  TF_DeleteStatus(training->status);
  dp_free(training->metrics);
  dp_free(training);
  return code;
}
