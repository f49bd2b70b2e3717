/* Opening a session that is ready to train: all variables have their values. The chief asks whether
 * every parameter server kept its values, and gives them to all if one did not, from the newest
 * checkpoint or from the initializers. The other workers wait until all have them. README.md has
 * the states. A task that does not answer is waited for; recovery_seconds bounds all of it, and
 * every ten seconds the log says who is waited for.
 *
 * A session sees only the parameter servers and its own worker (device filters), so that it never
 * waits for a worker that it does not need. The training's own thread opens and closes sessions. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "client/session.h"
#include "train/train_internal.h"

static const int64_t POLL_NANOS = 100000000, REPORT_NANOS = 10000000000;
static const int64_t FAREWELL_NANOS = 5000000000;
static const double PATIENCE_SECONDS = 600;

bool dp_train_is_chief(const dp_training *self) {
  return !self->model->job || dp_job_is_chief(self->model->job);
}

/* ---- The graph ---- */
static TF_Operation *initialize_all(dp_model *model, bool local, const char *name) {
  DP_ARRAY(TF_Operation *) operations = {0};
  for (size_t i = 0; i < model->variables.count; i++)
    if (model->variables.items[i]->local == local && !model->variables.items[i]->passing)
      DP_ARRAY_PUSH(&operations, model->variables.items[i]->initialize);
  TF_Operation *all = dp_train_group(model->worker, operations.items, (int)operations.count, name);
  DP_ARRAY_FREE(&operations);
  return all;
}

void dp_train_prepare_graph(dp_training *self) {
  dp_model *model = self->model;
  self->initialize = initialize_all(model, false, "initialize");
  self->initialize_local = initialize_all(model, true, "initialize_local");
  dp_train_marks_make(model, &self->marks);
  if (self->options.checkpoint_dir)
    dp_train_saver_make(model, &self->saver);
  dp_outputs summaries = {model->summaries.items, (int)model->summaries.count};
  if (summaries.count > 0)
    self->summary = dp_merge_summary(model->worker, summaries);
}

/* ---- Sessions ---- */
/* ConfigProto.device_filters, field 4. */
static void add_filter(dp_text *config, const char *device) {
  dp_text_add_char(config, 0x22);
  dp_text_add_char(config, (char)strlen(device));
  dp_text_add(config, device);
}

static TF_SessionOptions *session_options(const dp_job *job, TF_Status *status) {
  TF_SessionOptions *options = TF_NewSessionOptions();
  if (job && dp_job_target(job)[0]) {
    dp_text config = {0};
    TF_SetTarget(options, dp_job_target(job));
    if (dp_job_ps_count(job) > 0)
      add_filter(&config, "/job:ps");
    add_filter(&config, dp_job_device(job));
    TF_SetConfig(options, config.data, config.length, status);
    dp_text_deinit(&config);
  }
  return options;
}

static void make_session(dp_training *self, int64_t deadline, TF_Status *status) {
  TF_SessionOptions *options = session_options(self->model->job, status);
  if (TF_GetCode(status) == TF_OK)
    self->session = TF_NewSession(self->model->graph, options, status);
  TF_DeleteSessionOptions(options);
  if (!self->session)
    return;
  dp_status *made = dp_client_session_open(self->session, deadline);
  if (made)
    TF_SetStatus(status, (TF_Code)dp_status_code(made), dp_status_message(made));
  dp_status_release(made);
}

static void run_operation(dp_training *self, TF_Operation *operation, int64_t deadline,
                          TF_Status *status) {
  if (operation && TF_GetCode(status) == TF_OK)
    dp_train_run(self, &(train_run){.target = operation, .deadline = deadline}, NULL, status);
}

static void restore(dp_training *self, const char *prefix, int64_t deadline, TF_Status *status) {
  TF_Tensor *path = dp_tensor_of_string(prefix);
  DP_LOG(TRAIN, INFO, "restoring %s", prefix);
  train_run run = {.feeds = DP_FEEDS({self->saver.prefix, path}),
                   .target = self->saver.restore,
                   .deadline = deadline};
  dp_train_run(self, &run, NULL, status);
  TF_DeleteTensor(path);
}

/* The chief: a server has lost its values, so all get them anew. The marks are 0 meanwhile. */
static void give_values(dp_training *self, int64_t deadline, TF_Status *status) {
  const char *newest = dp_train_checkpoints_newest(&self->checkpoints);
  if (self->own_steps > 0)
    DP_LOG(TRAIN, WARN, "a parameter server has lost its variables: all are %s %s",
           newest ? "restored from" : "initialized again", newest ? newest : "");
  dp_train_marks_set(self, 0, deadline, status);
  if (TF_GetCode(status) == TF_OK && newest)
    restore(self, newest, deadline, status);
  else
    run_operation(self, self->initialize, deadline, status);
  self->mark = dp_clock_wall_nanos();
  if (TF_GetCode(status) == TF_OK)
    dp_train_marks_set(self, self->mark, deadline, status);
}

/* True when the values are there. False, and the status OK: the chief has yet to give them. */
static bool ensure_values(dp_training *self, int64_t deadline, TF_Status *status) {
  bool chief = dp_train_is_chief(self);
  bool kept = dp_train_marks_kept(self, chief, deadline, status);
  self->gave_values = !kept && chief && TF_GetCode(status) == TF_OK;
  if (self->gave_values)
    give_values(self, deadline, status);
  return (kept || self->gave_values) && TF_GetCode(status) == TF_OK;
}

/* Tries once to open a session, whose creation may take `limit`; true when it is ready. */
static bool try_open(dp_training *self, int64_t limit, int64_t deadline, TF_Status *status) {
  int64_t soon = dp_clock_nanos() + limit;
  TF_SetStatus(status, TF_OK, "");
  if (!self->session)
    make_session(self, soon < deadline ? soon : deadline, status);
  if (TF_GetCode(status) != TF_OK || !ensure_values(self, deadline, status))
    return false;
  if (self->model->sync && dp_train_is_chief(self))
    dp_train_sync_set_up(self, deadline, status);
  run_operation(self, self->initialize_local, deadline, status);
  if (self->model->sync && TF_GetCode(status) == TF_OK)
    dp_train_sync_join(self, deadline, status);
  return TF_GetCode(status) == TF_OK;
}

/* The step, and what follows from it. False when a task was lost already. */
static bool begin(dp_training *self, int64_t deadline, TF_Status *status) {
  TF_Tensor *step = NULL;
  train_run read = {.fetches = DP_OUTPUTS(self->model->global_step->value), .deadline = deadline};
  if (dp_train_run(self, &read, &step, status) != TF_OK)
    return false;
  self->step = *(const int64_t *)TF_TensorData(step);
  self->at_end = false;
  TF_DeleteTensor(step);
  self->runners = dp_train_runners_start(self);
  for (size_t i = 0; i < self->hooks.count && dp_train_ok(self); i++)
    if (self->hooks.items[i].session_made)
      self->hooks.items[i].session_made(self->hooks.items[i].arg, self);
  return true;
}

/* Who is waited for, after an attempt that failed or found no values. */
static void say_why(const dp_training *self, TF_Status *status, dp_text *why) {
  const dp_job *job = self->model->job;
  dp_text_clear(why);
  if (TF_GetCode(status) != TF_OK || !job)
    dp_text_add(why, TF_Message(status));
  else
    dp_text_printf(why, "the chief, worker 0 at %s, has not given the variables their values",
                   dp_train_job_address(job, 0));
}

/* What an attempt that failed means: true when another one follows. `why` is what is waited for. */
static bool may_try_again(dp_training *self, const char *why, double patience, int64_t deadline,
                          TF_Status *status) {
  TF_Code code = TF_GetCode(status);
  bool late = dp_clock_nanos() >= deadline;
  if (code == TF_CANCELLED && self->model->sync)
    self->stop = true; /* the token queues are closed: the training was ended before */
  else if (code != TF_OK && code != TF_DEADLINE_EXCEEDED && !dp_train_is_loss(code))
    TF_SetStatus(self->status, code, TF_Message(status));
  else if (late)
    dp_training_fail(self, TF_DEADLINE_EXCEEDED, "waited %.0f seconds: %s", patience, why);
  else
    return true;
  return false;
}

/* An attempt ends after `limit`, so that there is time to say who is waited for; the next one may
 * take twice as long, for graphs that need it. */
bool dp_train_open_session(dp_training *self) {
  double patience =
      self->options.recovery_seconds > 0 ? self->options.recovery_seconds : PATIENCE_SECONDS;
  int64_t now = dp_clock_nanos(), deadline = now + (int64_t)(patience * 1e9);
  int64_t report = now + REPORT_NANOS, limit = REPORT_NANOS;
  TF_Status *status = TF_NewStatus();
  dp_text why = {0};
  bool ready;
  while (!(ready = try_open(self, limit, deadline, status) && begin(self, deadline, status))) {
    say_why(self, status, &why);
    if (!may_try_again(self, dp_text_string(&why), patience, deadline, status))
      break;
    now = dp_clock_nanos();
    if (now >= report) {
      DP_LOG(TRAIN, WARN, "still waiting, %.0f s of %.0f s are left: %s",
             (double)(deadline - now) / 1e9, patience, dp_text_string(&why));
      report = now + REPORT_NANOS;
      limit *= 2;
    }
    if (TF_GetCode(status) != TF_OK)
      dp_train_close_session(self, false);
    dp_clock_sleep(POLL_NANOS);
  }
  dp_text_deinit(&why);
  TF_DeleteStatus(status);
  return ready && dp_train_ok(self);
}

/* So that the next training on these servers, if they stay, begins anew. */
static void mark_end(dp_training *self, TF_Status *ignored) {
  if (dp_train_is_chief(self) && dp_train_ok(self) && self->mark > 0)
    dp_train_marks_set(self, -self->mark, dp_clock_nanos() + FAREWELL_NANOS, ignored);
}

void dp_train_close_session(dp_training *self, bool end) {
  self->lost = false;
  if (!self->session)
    return;
  TF_Status *ignored = TF_NewStatus();
  train_runners *runners = self->runners;
  if (end)
    mark_end(self, ignored);
  self->runners = NULL;
  if (runners)
    dp_train_runners_stop(self, runners, end);
  TF_CloseSession(self->session, ignored);
  dp_train_runners_join(runners);
  TF_DeleteSession(self->session, ignored);
  self->session = NULL;
  TF_DeleteStatus(ignored);
}
