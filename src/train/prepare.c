/* Sessions that are ready to train: the variables have their values. The chief gives them, from the
 * newest checkpoint or from the initializers; the other workers wait until it has. A task that is
 * away is waited for, up to the training's recovery_seconds, and named in the log meanwhile.
 *
 * A session sees the parameter servers and its own worker only (device filters), so that it never
 * waits for a worker that it does not need. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/train_internal.h"

static const int64_t POLL_NANOS = 100000000, REPORT_NANOS = 10000000000;
static const double PATIENCE_SECONDS = 600;

static bool is_chief(const dp_training *self) {
  return !self->model->job || dp_job_is_chief(self->model->job);
}

TF_Tensor *dp_train_string(const char *text) {
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof(TF_TString));
  TF_StringInit(TF_TensorData(tensor));
  TF_StringCopy(TF_TensorData(tensor), text, strlen(text));
  return tensor;
}

/* ---- The graph ---- */
static TF_Operation *initialize_all(dp_model *model, bool local, const char *name) {
  DP_ARRAY(TF_Operation *) operations = {0};
  for (size_t i = 0; i < model->variables.count; i++)
    if (model->variables.items[i]->local == local)
      DP_ARRAY_PUSH(&operations, model->variables.items[i]->initialize);
  TF_Operation *all = dp_train_group(model->worker, operations.items, (int)operations.count, name);
  DP_ARRAY_FREE(&operations);
  return all;
}

/* Whether each variable has a value. */
static TF_Output ask_initialized(dp_model *model) {
  DP_ARRAY(TF_Output) answers = {0};
  for (size_t i = 0; i < model->variables.count; i++) {
    const train_variable *variable = model->variables.items[i];
    if (variable->local)
      continue;
    dp_scope *there = dp_scope_named(dp_train_on(model, variable->device), "ready");
    DP_ARRAY_PUSH(&answers, dp_is_variable_initialized(there, variable->reference));
  }
  dp_outputs list = {answers.items, (int)answers.count};
  TF_Output all = dp_pack(model->worker, list);
  DP_ARRAY_FREE(&answers);
  return all;
}

void dp_train_prepare_graph(dp_training *self) {
  dp_model *model = self->model;
  self->initialize = initialize_all(model, false, "initialize");
  self->initialize_local = initialize_all(model, true, "initialize_local");
  self->initialized = ask_initialized(model);
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

static void make_session(dp_training *self, TF_Status *status) {
  const dp_job *job = self->model->job;
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
  if (TF_GetCode(status) == TF_OK)
    self->session = TF_NewSession(self->model->graph, options, status);
  TF_DeleteSessionOptions(options);
}

static void run_operation(dp_training *self, TF_Operation *operation, TF_Status *status) {
  if (operation && TF_GetCode(status) == TF_OK)
    dp_train_session_run(self, DP_FEEDS(), DP_OUTPUTS(), NULL, operation, status);
}

static void restore(dp_training *self, const char *prefix, TF_Status *status) {
  TF_Tensor *path = dp_train_string(prefix);
  DP_LOG(TRAIN, INFO, "restoring %s", prefix);
  dp_train_session_run(self, DP_FEEDS({self->saver.prefix, path}), DP_OUTPUTS(), NULL,
                       self->saver.restore, status);
  TF_StringDealloc(TF_TensorData(path));
  TF_DeleteTensor(path);
}

/* The chief's part. */
static bool give_values(dp_training *self, TF_Status *status) {
  const char *newest = dp_train_checkpoints_newest(&self->checkpoints);
  if (newest)
    restore(self, newest, status);
  else
    run_operation(self, self->initialize, status);
  if (self->model->sync)
    run_operation(self, self->model->sync->chief_prepare, status);
  return TF_GetCode(status) == TF_OK;
}

/* The others': false when a value is missing or it could not be found out. */
static bool have_values(dp_training *self, TF_Status *status) {
  TF_Tensor *answer = NULL;
  if (dp_train_session_run(self, DP_FEEDS(), DP_OUTPUTS(self->initialized), &answer, NULL,
                           status) != TF_OK)
    return false;
  bool all = true;
  for (int64_t i = 0; i < TF_TensorElementCount(answer); i++)
    all = all && ((const uint8_t *)TF_TensorData(answer))[i];
  TF_DeleteTensor(answer);
  return all;
}

/* One try; true when the session is ready. */
static bool try_open(dp_training *self, TF_Status *status) {
  TF_SetStatus(status, TF_OK, "");
  if (!self->session)
    make_session(self, status);
  if (TF_GetCode(status) != TF_OK ||
      !(is_chief(self) ? give_values(self, status) : have_values(self, status)))
    return false;
  run_operation(self, self->initialize_local, status);
  if (self->model->sync)
    run_operation(self, self->model->sync->local_prepare, status);
  return TF_GetCode(status) == TF_OK;
}

static void read_step(dp_training *self) {
  TF_Tensor *step = NULL;
  if (dp_train_session_run(self, DP_FEEDS(), DP_OUTPUTS(self->model->global_step->value), &step,
                           NULL, self->status) == TF_OK) {
    self->step = *(const int64_t *)TF_TensorData(step);
    TF_DeleteTensor(step);
  }
}

static void begin(dp_training *self) {
  read_step(self);
  if (dp_train_ok(self))
    self->runners = dp_train_runners_start(self);
  for (size_t i = 0; i < self->hooks.count && dp_train_ok(self); i++)
    if (self->hooks.items[i].session_made)
      self->hooks.items[i].session_made(self->hooks.items[i].arg, self);
}

bool dp_train_open_session(dp_training *self) {
  double patience =
      self->options.recovery_seconds > 0 ? self->options.recovery_seconds : PATIENCE_SECONDS;
  int64_t now = dp_clock_nanos(), deadline = now + (int64_t)(patience * 1e9);
  int64_t report = now + REPORT_NANOS;
  TF_Status *status = TF_NewStatus();
  bool ready;
  while (!(ready = try_open(self, status))) {
    TF_Code code = TF_GetCode(status);
    now = dp_clock_nanos();
    if (code != TF_OK && !dp_train_is_loss(code)) {
      TF_SetStatus(self->status, code, TF_Message(status));
      break;
    }
    const char *why =
        code == TF_OK ? "the chief has not given the variables their values" : TF_Message(status);
    if (now >= deadline) {
      dp_training_fail(self, TF_DEADLINE_EXCEEDED, "waited %.0f seconds: %s", patience, why);
      break;
    }
    if (now >= report) {
      DP_LOG(TRAIN, WARN, "still waiting: %s", why);
      report = now + REPORT_NANOS;
    }
    if (code != TF_OK)
      dp_train_close_session(self, false);
    dp_clock_sleep(POLL_NANOS);
  }
  TF_DeleteStatus(status);
  if (ready)
    begin(self);
  return ready && dp_train_ok(self);
}

void dp_train_close_session(dp_training *self, bool end) {
  if (!self->session)
    return;
  TF_Status *ignored = TF_NewStatus();
  train_runners *runners = self->runners;
  self->runners = NULL;
  if (runners)
    dp_train_runners_stop(self, runners, end);
  TF_CloseSession(self->session, ignored);
  dp_train_runners_join(runners);
  TF_DeleteSession(self->session, ignored);
  self->session = NULL;
  TF_DeleteStatus(ignored);
}
