/* The hooks that a training has by its options. Each is a dp_hook like a user's own:
 *
 *   stop         ends the training at the last step
 *   metrics      fails on NaN, prints lines, writes progress records for `downpour launch`
 *   checkpoints  (chief) saves every so many steps or seconds, and at the end
 *   events       (chief) writes the graph, summaries and steps per second for TensorBoard
 *
 * They run on the training's own thread, which owns their state. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "storage/events.h"
#include "train/train_internal.h"

static void add_hook(dp_training *self, dp_hook hook) {
  DP_ARRAY_PUSH(&self->hooks, hook);
  if (hook.arg)
    DP_ARRAY_PUSH(&self->hook_states, hook.arg);
}

/* ---- The last step ---- */
/* A synchronous worker does not leave before its chief: see wait_for_the_end in training.c. */
static void stop_if_there(void *arg, dp_training *self) {
  bool there = self->step >= self->options.last_step;
  if (self->model->sync && !dp_train_is_chief(self))
    self->at_end = there;
  else if (there)
    self->stop = true;
}

static void stop_after_run(void *arg, dp_training *self, TF_Tensor *const *values, int count) {
  stop_if_there(arg, self);
}

/* ---- Metrics ---- */
typedef struct metrics_hook {
  TF_Output *outputs;
  double *numbers, *means; /* values of this step; moving means, for the display */
  int progress;            /* descriptor; -1: nobody listens */
  int64_t logged_step, written_nanos;
  double staleness; /* a moving mean */
} metrics_hook;

static void metrics_begin(void *arg, dp_training *self) {
  ((metrics_hook *)arg)->logged_step = self->step;
}

static dp_outputs metrics_before(void *arg, dp_training *self) {
  metrics_hook *hook = arg;
  return (dp_outputs){hook->outputs, self->options.metrics.count};
}

static void log_metrics(dp_training *self, metrics_hook *hook) {
  printf("step %" PRId64, self->step);
  for (int i = 0; i < self->options.metrics.count; i++)
    printf("%s %s %.6g", i ? "," : ":", self->metrics[i].name, hook->numbers[i]);
  printf("\n");
  fflush(stdout);
  hook->logged_step = self->step;
}

static void write_progress(dp_training *self, metrics_hook *hook) {
  dp_text record = {0};
  dp_text_printf(&record, "step=%" PRId64 " last=%" PRId64 " local=%" PRId64, self->step,
                 self->options.last_step, self->own_steps);
  for (int i = 0; i < self->options.metrics.count; i++)
    dp_text_printf(&record, " %s=%.6g", self->metrics[i].name, hook->means[i]);
  dp_text_printf(&record, " staleness=%.3g\n", hook->staleness);
  if (write(hook->progress, record.data, record.length) < 0 && errno != EAGAIN)
    hook->progress = -1; /* the reader has gone; one that is only slow (EAGAIN) misses a record */
  dp_text_deinit(&record);
  hook->written_nanos = dp_clock_nanos();
}

static void metrics_after(void *arg, dp_training *self, TF_Tensor *const *values, int count) {
  static const int64_t PROGRESS_NANOS = 100000000;
  metrics_hook *hook = arg;
  for (int i = 0; i < count; i++) {
    bool is_float = TF_TensorType(values[i]) == TF_FLOAT && TF_TensorElementCount(values[i]) == 1;
    hook->numbers[i] = is_float ? *(const float *)TF_TensorData(values[i]) : NAN;
    hook->means[i] += (self->own_steps == 1 ? 1 : 0.1) * (hook->numbers[i] - hook->means[i]);
    if (strcmp(self->metrics[i].name, "loss") == 0 && !isfinite(hook->numbers[i]))
      dp_training_fail(self, TF_INVALID_ARGUMENT,
                       "the loss is %g at step %" PRId64 "; a smaller learning rate may help",
                       hook->numbers[i], self->step);
  }
  hook->staleness += 0.1 * ((double)self->staleness - hook->staleness);
  if (self->options.log_steps > 0 && self->step - hook->logged_step >= self->options.log_steps)
    log_metrics(self, hook);
  bool last = self->options.last_step > 0 && self->step >= self->options.last_step;
  if (hook->progress >= 0 && (last || dp_clock_nanos() - hook->written_nanos >= PROGRESS_NANOS))
    write_progress(self, hook);
}

/* The descriptor of the pipe to `downpour launch`; -1: there is none. */
static int progress_descriptor(void) {
  const char *text = getenv("DOWNPOUR_PROGRESS_FD");
  struct stat information;
  int64_t number;
  if (!text || !dp_parse_int64(dp_view_of(text), &number) || number < 0 || number > INT32_MAX ||
      fstat((int)number, &information) != 0 || !S_ISFIFO(information.st_mode))
    return -1;
  fcntl((int)number, F_SETFL, O_NONBLOCK);
  return (int)number;
}

static void add_metrics_hook(dp_training *self) {
  metrics_hook *hook = DP_NEW(metrics_hook);
  int count = self->options.metrics.count;
  hook->outputs = DP_NEW_ARRAY(TF_Output, count + 1);
  hook->numbers = DP_NEW_ARRAY(double, count + 1);
  hook->means = DP_NEW_ARRAY(double, count + 1);
  for (int i = 0; i < count; i++)
    hook->outputs[i] = self->metrics[i].value;
  hook->progress = progress_descriptor();
  DP_ARRAY_PUSH(&self->hook_states, hook->outputs);
  DP_ARRAY_PUSH(&self->hook_states, hook->numbers);
  DP_ARRAY_PUSH(&self->hook_states, hook->means);
  add_hook(self, (dp_hook){hook, metrics_begin, metrics_before, metrics_after, NULL});
}

/* ---- Checkpoints ---- */
typedef struct save_hook {
  int64_t saved_step, saved_nanos; /* -1: no step is known to be saved */
} save_hook;

/* After a loss the training recovers before its next step. True when the step is saved. */
static bool save(dp_training *self, save_hook *hook) {
  char *prefix = dp_train_checkpoints_prefix(&self->checkpoints, self->step);
  TF_Tensor *path = dp_tensor_of_string(prefix);
  TF_Status *status = TF_NewStatus();
  train_run run = {.feeds = DP_FEEDS({self->saver.prefix, path}), .target = self->saver.save};
  bool saved = dp_train_run(self, &run, NULL, status) == TF_OK;
  if (saved) {
    dp_train_note(self, dp_train_checkpoints_add(&self->checkpoints, prefix, self->model->graph));
    hook->saved_step = self->step;
  } else if (dp_train_is_loss(TF_GetCode(status))) {
    DP_LOG(TRAIN, WARN, "no checkpoint at step %" PRId64 ": %s", self->step, TF_Message(status));
    self->lost = true;
  } else {
    dp_training_fail(self, TF_GetCode(status), "saving %s: %s", prefix, TF_Message(status));
  }
  hook->saved_nanos = dp_clock_nanos();
  TF_DeleteStatus(status);
  TF_DeleteTensor(path);
  dp_free(prefix);
  return saved;
}

static void save_first(void *arg, dp_training *self) {
  save_hook *hook = arg;
  hook->saved_nanos = dp_clock_nanos();
  if (self->gave_values)
    hook->saved_step = self->step;
  if (!dp_train_checkpoints_newest(&self->checkpoints))
    save(self, hook);
}

/* The last step is saved at once. A loss may still take it back, and then there is more to do. */
static void save_after_run(void *arg, dp_training *self, TF_Tensor *const *values, int count) {
  save_hook *hook = arg;
  double seconds = self->options.save_seconds;
  if (seconds == 0 && self->options.save_steps == 0)
    seconds = 600;
  bool last = self->options.last_step > 0 && self->step >= self->options.last_step;
  bool by_steps =
      self->options.save_steps > 0 && self->step - hook->saved_step >= self->options.save_steps;
  bool by_time = seconds > 0 && (double)(dp_clock_nanos() - hook->saved_nanos) >= seconds * 1e9;
  if ((last || by_steps || by_time) && !save(self, hook) && last)
    self->stop = false;
}

static void save_last(void *arg, dp_training *self) {
  save_hook *hook = arg;
  while (dp_train_ok(self) && self->step != hook->saved_step && !save(self, hook) &&
         dp_train_ok(self)) {
    dp_train_close_session(self, false);
    dp_train_open_session(self);
  }
}

/* ---- Summaries ---- */
typedef struct summary_hook {
  dp_events_writer *writer;
  bool due, graph_written;
  int64_t written_step, written_nanos;
} summary_hook;

/* An Event with one field of bytes: 4, a graph, or 5, a summary. */
static dp_status *write_event(summary_hook *hook, int64_t step, int field, const void *data,
                              size_t length) {
  dp_text event = {0};
  double now = (double)dp_clock_wall_nanos() / 1e9;
  dp_text_add_char(&event, 0x09);
  dp_text_append(&event, &now, sizeof(now));
  dp_text_add_char(&event, 0x10);
  dp_text_add_varint(&event, (uint64_t)step);
  dp_text_add_char(&event, (char)(field << 3 | 2));
  dp_text_add_varint(&event, length);
  dp_text_append(&event, data, length);
  dp_status *status = dp_events_writer_add_bytes(hook->writer, event.data, event.length);
  dp_text_deinit(&event);
  return status;
}

static dp_status *write_scalar(summary_hook *hook, int64_t step, const char *tag, double number) {
  dp_text value = {0}, summary = {0};
  float single = (float)number;
  dp_text_add_char(&value, 0x0A);
  dp_text_add_varint(&value, strlen(tag));
  dp_text_add(&value, tag);
  dp_text_add_char(&value, 0x15);
  dp_text_append(&value, &single, sizeof(single));
  dp_text_add_char(&summary, 0x0A);
  dp_text_add_varint(&summary, value.length);
  dp_text_append(&summary, value.data, value.length);
  dp_status *status = write_event(hook, step, 5, summary.data, summary.length);
  dp_text_deinit(&value);
  dp_text_deinit(&summary);
  return status;
}

static void write_graph(void *arg, dp_training *self) {
  summary_hook *hook = arg;
  hook->written_step = self->step;
  hook->written_nanos = dp_clock_nanos();
  if (hook->graph_written)
    return;
  TF_Buffer *graph = TF_NewBuffer();
  TF_GraphToGraphDef(self->model->graph, graph, self->status);
  if (dp_train_ok(self))
    dp_train_note(self, write_event(hook, self->step, 4, graph->data, graph->length));
  TF_DeleteBuffer(graph);
  hook->graph_written = true;
}

static dp_outputs summary_before(void *arg, dp_training *self) {
  summary_hook *hook = arg;
  int64_t every = self->options.summary_steps > 0 ? self->options.summary_steps : 100;
  hook->due = self->step - hook->written_step >= every || self->own_steps == 0;
  return (dp_outputs){&self->summary, hook->due && self->summary.oper ? 1 : 0};
}

static void summary_after(void *arg, dp_training *self, TF_Tensor *const *values, int count) {
  summary_hook *hook = arg;
  if (!hook->due)
    return;
  int64_t now = dp_clock_nanos(), steps = self->step - hook->written_step;
  double seconds = (double)(now - hook->written_nanos) / 1e9;
  if (steps > 0 && seconds > 0)
    dp_train_note(self, write_scalar(hook, self->step, "global_step/sec", (double)steps / seconds));
  if (count == 1) {
    const TF_TString *summary = TF_TensorData(values[0]);
    dp_train_note(self, write_event(hook, self->step, 5, TF_StringGetDataPointer(summary),
                                    TF_StringGetSize(summary)));
  }
  dp_train_note(self, dp_events_writer_flush(hook->writer));
  hook->written_step = self->step;
  hook->written_nanos = now;
}

static void add_summary_hook(dp_training *self) {
  static atomic_int files; /* a file for each training, also within one second */
  summary_hook *hook = DP_NEW(summary_hook);
  dp_text prefix = {0}, suffix = {0};
  dp_text_printf(&prefix, "%s/events", self->options.checkpoint_dir);
  dp_text_printf(&suffix, ".%d.%d", (int)getpid(), atomic_fetch_add(&files, 1));
  dp_train_note(self, dp_events_writer_create(dp_text_string(&prefix), dp_text_string(&suffix),
                                              &hook->writer));
  dp_text_deinit(&prefix);
  dp_text_deinit(&suffix);
  add_hook(self, (dp_hook){hook, write_graph, summary_before, summary_after, NULL});
}

/* ---- All of them ---- */
void dp_train_hooks_make(dp_training *self) {
  bool chief = dp_train_is_chief(self);
  if (self->options.last_step > 0)
    add_hook(self, (dp_hook){NULL, stop_if_there, NULL, stop_after_run, NULL});
  add_metrics_hook(self);
  if (chief && self->options.checkpoint_dir) {
    save_hook *saving = DP_NEW(save_hook);
    saving->saved_step = -1;
    add_hook(self, (dp_hook){saving, save_first, NULL, save_after_run, save_last});
    add_summary_hook(self);
  }
  for (int i = 0; i < self->options.hook_count; i++)
    DP_ARRAY_PUSH(&self->hooks, self->options.hooks[i]);
}

void dp_train_hooks_destroy(dp_training *self) {
  for (size_t i = 0; i < self->hooks.count; i++) {
    if (self->hooks.items[i].session_made != write_graph)
      continue;
    summary_hook *hook = self->hooks.items[i].arg;
    if (hook->writer)
      dp_status_release(dp_events_writer_destroy(hook->writer));
  }
  for (size_t i = 0; i < self->hook_states.count; i++)
    dp_free(self->hook_states.items[i]);
  DP_ARRAY_FREE(&self->hook_states);
  DP_ARRAY_FREE(&self->hooks);
}
