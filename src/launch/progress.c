/* The progress display: a bar with the time left, and a line per task.
 *
 * A record is a line of words name=value. Three names have a meaning: step (of the job), last (the
 * last step of the job) and local (steps that this task has done). All others are metrics, shown as
 * they come. On a terminal the display stays at the bottom and output scrolls above it; else a line
 * is printed every few seconds. Steps per second are measured here, from the local steps.
 *
 * A task's step goes back only when the job was restored from a checkpoint. Then what the other
 * tasks reported before is void, and the display goes on from the lower step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/launch_internal.h"

static const int64_t PANEL_NANOS = 200000000, PLAIN_NANOS = 5000000000, RATE_NANOS = 1000000000;

/* ---- Records ---- */
static void take_metric(launch_progress *progress, const char *name, double value) {
  int at = 0;
  while (at < progress->metric_count && strcmp(progress->metrics[at].name, name) != 0)
    at++;
  if (at == METRICS)
    return;
  if (at == progress->metric_count)
    snprintf(progress->metrics[progress->metric_count++].name, NAME_SIZE, "%s", name);
  progress->metrics[at].value = value;
}

static void measure_rate(launch_progress *progress) {
  int64_t now = dp_clock_nanos();
  if (progress->rate_nanos == 0 || progress->own_steps < progress->rate_steps) {
    progress->rate_nanos = now;
    progress->rate_steps = progress->own_steps;
  } else if (now - progress->rate_nanos >= RATE_NANOS) {
    double rate =
        (progress->own_steps - progress->rate_steps) * 1e9 / (double)(now - progress->rate_nanos);
    progress->rate = progress->rate == 0 ? rate : 0.5 * progress->rate + 0.5 * rate;
    progress->rate_nanos = now;
    progress->rate_steps = progress->own_steps;
  }
}

/* The largest step that a task has reported, and the last step of the job; 0 when not known. */
static void job_step(const launch *self, double *step_out, double *last_out) {
  *step_out = *last_out = 0;
  for (int i = 0; i < self->task_count; i++) {
    *step_out = fmax(*step_out, self->tasks[i].progress.step);
    *last_out = fmax(*last_out, self->tasks[i].progress.last_step);
  }
}

/* The job was restored: it is at `step` again, whatever was reported before. */
static void go_back(launch *self, double step) {
  for (int i = 0; i < self->task_count; i++)
    self->tasks[i].progress.step = fmin(self->tasks[i].progress.step, step);
  self->began_step = fmin(self->began_step, step);
  self->ended_nanos = 0;
}

static void take_step(launch *self, launch_progress *progress, double step) {
  if (step < progress->step)
    go_back(self, step);
  progress->step = step;
}

void dp_launch_progress_line(launch *self, launch_task *task, char *line) {
  launch_progress *progress = &task->progress;
  char *rest = line;
  for (char *word; (word = strtok_r(rest, " ", &rest));) {
    char *equals = strchr(word, '=');
    double value;
    if (!equals || !dp_parse_double(dp_view_of(equals + 1), &value))
      continue;
    *equals = '\0';
    if (strcmp(word, "step") == 0)
      take_step(self, progress, value);
    else if (strcmp(word, "last") == 0)
      progress->last_step = value;
    else if (strcmp(word, "local") == 0)
      progress->own_steps = value;
    else
      take_metric(progress, word, value);
    progress->known = true;
  }
  measure_rate(progress);
  if (self->ended_nanos == 0 && progress->last_step > 0 && progress->step >= progress->last_step)
    self->ended_nanos = dp_clock_nanos();
  if (self->began_nanos == 0 && progress->known) {
    double last;
    job_step(self, &self->began_step, &last);
    self->began_nanos = dp_clock_nanos();
  }
}

/* ---- Text ---- */
static void add_metric(dp_text *text, const launch_metric *metric) {
  double size = fabs(metric->value);
  if (strcmp(metric->name, "accuracy") == 0)
    dp_text_printf(text, "%s %5.1f %%", metric->name, 100 * metric->value);
  else if (strcmp(metric->name, "staleness") == 0)
    dp_text_printf(text, "%s %3.1f", metric->name, metric->value);
  else if (size == 0 || (size >= 1e-3 && size < 1e5))
    dp_text_printf(text, "%s %7.*f", metric->name, size < 10 ? 4 : 1, metric->value);
  else
    dp_text_printf(text, "%s %7.3g", metric->name, metric->value);
}

/* "0:42 left"; "in 1:20" when the job is done; nothing in the first second, or without a step. */
static void add_time_left(const launch *self, double step, double last, dp_text *text) {
  int64_t now = self->ended_nanos ? self->ended_nanos : dp_clock_nanos();
  double seconds = (double)(now - self->began_nanos) / 1e9, done = step - self->began_step;
  if (done <= 0 || seconds < 1 || last <= 0)
    return;
  long left = lround(seconds / done * fmax(last - step, 0)), took = lround(seconds);
  if (step < last)
    dp_text_printf(text, "  %ld:%02ld left", left / 60, left % 60);
  else
    dp_text_printf(text, "  in %ld:%02ld", took / 60, took % 60);
}

static void add_bar(double part, int width, bool color, dp_text *text) {
  static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int filled = (int)floor(part * width * 8 + 0.5);
  dp_text_add(text, color ? "\033[32m" : "");
  for (int i = 0; i < width; i++, filled -= 8)
    dp_text_add(text, filled >= 8 ? "█" : filled > 0 ? eighths[filled] : "░");
  dp_text_add(text, color ? "\033[0m" : "");
}

static void add_headline(const launch *self, bool bar, dp_text *text) {
  double step, last;
  job_step(self, &step, &last);
  if (last > 0) {
    step = fmin(step, last); /* workers may run a few steps more than asked */
    double part = step / last;
    if (bar) {
      add_bar(part, 30, self->options->color, text);
      dp_text_add(text, "  ");
    }
    dp_text_printf(text, "step %.0f of %.0f  %3.0f %%", step, last, floor(100 * part));
    add_time_left(self, step, last, text);
  } else {
    dp_text_printf(text, "step %.0f", step);
  }
}

static void add_task(const launch *self, const launch_task *task, dp_text *text) {
  const launch_progress *progress = &task->progress;
  dp_text_printf(text, "%-*s ", self->name_width, task->name);
  if (task->pid)
    dp_text_printf(text, "%7.1f steps/s", progress->rate);
  else
    dp_text_printf(text, "%15s", task->start_again_nanos ? "comes back" : "ended");
  for (int i = 0; i < progress->metric_count; i++) {
    dp_text_add(text, "   ");
    add_metric(text, &progress->metrics[i]);
  }
}

/* ---- The display ---- */
void dp_launch_progress_hide(launch *self) {
  if (self->panel_lines == 0)
    return;
  printf("\033[%dA\r\033[J", self->panel_lines);
  fflush(stdout); /* before anything goes to standard error */
  self->panel_lines = 0;
}

/* Cuts a line to the terminal's width, counting characters, not bytes nor colours. */
static void print_cut(const char *line, int width) {
  bool escape = false;
  for (int column = 0; *line; line++) {
    if (*line == '\033')
      escape = true;
    else if (!escape && ((unsigned char)*line & 0xC0) != 0x80 && ++column > width)
      break;
    if (escape && *line == 'm')
      escape = false;
    putchar(*line);
  }
  printf("\033[0m\n");
}

static void draw_panel(launch *self) {
  struct winsize size;
  int width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  dp_text text = {0};
  dp_launch_progress_hide(self);
  add_headline(self, true, &text);
  print_cut(dp_text_string(&text), width);
  self->panel_lines = 1;
  for (int i = 0; i < self->task_count; i++) {
    if (!self->tasks[i].progress.known)
      continue;
    dp_text_clear(&text);
    add_task(self, &self->tasks[i], &text);
    print_cut(dp_text_string(&text), width);
    self->panel_lines++;
  }
  fflush(stdout);
  dp_text_deinit(&text);
}

/* The metric's mean over the tasks that have it. */
static void add_mean(const launch *self, const char *name, dp_text *text) {
  launch_metric mean = {0};
  int count = 0;
  for (int i = 0; i < self->task_count; i++) {
    const launch_progress *progress = &self->tasks[i].progress;
    for (int k = 0; k < progress->metric_count; k++) {
      if (strcmp(progress->metrics[k].name, name) != 0)
        continue;
      mean.value += progress->metrics[k].value;
      count++;
    }
  }
  mean.value /= count;
  snprintf(mean.name, sizeof(mean.name), "%s", name);
  dp_text_add(text, "  ");
  add_metric(text, &mean);
}

/* "step 540 of 1000   54 %  0:31 left  181 steps/s (61 + 60 + 60)  loss 0.14". The rate is the sum
 * over tasks, with each task's in brackets; a metric is the mean over tasks. */
static void print_plain(launch *self) {
  dp_text text = {0}, each = {0};
  const launch_progress *first = NULL;
  double rate = 0;
  for (int i = 0; i < self->task_count; i++) {
    const launch_progress *progress = &self->tasks[i].progress;
    if (!progress->known)
      continue;
    double own = self->tasks[i].pid ? progress->rate : 0;
    dp_text_printf(&each, "%s%.0f", first ? " + " : "", own);
    rate += own;
    first = first ? first : progress;
  }
  add_headline(self, false, &text);
  dp_text_printf(&text, "  %.0f steps/s (%s)", rate, dp_text_string(&each));
  for (int i = 0; i < first->metric_count; i++)
    add_mean(self, first->metrics[i].name, &text);
  printf("%-*s | %s\n", self->name_width, "progress", dp_text_string(&text));
  fflush(stdout);
  dp_text_deinit(&text);
  dp_text_deinit(&each);
}

void dp_launch_progress_show(launch *self, bool now) {
  int64_t time = dp_clock_nanos();
  if (self->began_nanos == 0)
    return;
  if (self->options->panel) {
    if (now || self->panel_lines == 0 || time - self->shown_nanos >= PANEL_NANOS) {
      draw_panel(self);
      self->shown_nanos = time;
    }
    return;
  }
  double step, last;
  job_step(self, &step, &last);
  if (step == self->shown_step || (!now && time - self->shown_nanos < PLAIN_NANOS))
    return;
  print_plain(self);
  self->shown_nanos = time;
  self->shown_step = step;
}
