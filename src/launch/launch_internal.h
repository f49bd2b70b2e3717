/* What the files of the launcher share. One thread; the launcher owns everything.
 *
 *   launch.c           starts the tasks, waits for signals, ends and output; restarts, stops
 *   launch_task.c      one task: its TF_CONFIG, its process
 *   launch_output.c    bytes of many streams to whole lines with a name in front
 *   launch_progress.c  progress records to a display */
#ifndef DP_CLUSTER_LAUNCH_INTERNAL_H
#define DP_CLUSTER_LAUNCH_INTERNAL_H

#include <stdio.h>
#include <sys/types.h>
#include "base/memory.h"
#include "base/text.h"
#include "launch/launch.h"

enum { STREAM_OUTPUT, STREAM_ERRORS, STREAM_PROGRESS, STREAM_COUNT };
enum { NAME_SIZE = 24, METRICS = 8 };

typedef struct launch_stream {
  int descriptor; /* -1: closed */
  dp_text line;   /* what came since the last newline */
} launch_stream;

typedef struct launch_metric {
  char name[NAME_SIZE];
  double value;
} launch_metric;

/* What a task said of its progress last; all 0 before. */
typedef struct launch_progress {
  bool known;
  double step, last_step, own_steps;
  launch_metric metrics[METRICS];
  int metric_count;
  int64_t rate_nanos; /* when rate_steps was read */
  double rate_steps, rate;
} launch_progress;

typedef struct launch_task {
  const char *job;
  int index;
  char name[NAME_SIZE]; /* "worker 0" */
  int color;            /* of ANSI's palette */
  bool is_chief;
  int port_holder; /* descriptor that keeps its port; -1: none */
  pid_t pid;       /* 0: not running */
  int restarts;
  int64_t start_again_nanos; /* when it is to be started again; 0: it is not */
  bool muted;                /* its output is not shown */
  launch_stream streams[STREAM_COUNT];
  launch_progress progress;
} launch_task;

typedef struct launch {
  const dp_launch_options *options;
  launch_task *tasks;
  int task_count;
  int name_width;
  char **addresses; /* by task */
  /* the display */
  int panel_lines; /* that stand on the terminal now */
  int64_t shown_nanos;
  int64_t began_nanos, ended_nanos; /* first progress; the last step; 0: not yet */
  double began_step, shown_step;
} launch;

/* ---- launch_port.c ---- */
/* A free port that nobody is given while the descriptor that is returned is open; -1: there is
 * none, with errno. */
int dp_launch_hold_port(int *port_out);

/* ---- launch_task.c ---- */
/* A port for each task, its own until the launcher ends. */
DP_MUST_USE dp_status *dp_launch_choose_addresses(launch *self);
/* Starts the process and opens its streams. An error when the program cannot be run at all. */
DP_MUST_USE dp_status *dp_launch_start(launch *self, launch_task *task);
/* To the task's whole process group. */
void dp_launch_signal(const launch_task *task, int number);

/* ---- launch_output.c ---- */
/* Takes what a stream has ready. False at its end. */
bool dp_launch_read(launch *self, launch_task *task, int stream);
/* Shows what is left without a newline and closes. */
void dp_launch_close(launch *self, launch_task *task, int stream);
/* A line of the launcher's own, on standard error. */
void dp_launch_say(launch *self, const char *format, ...) DP_PRINTF(2, 3);

/* ---- launch_progress.c ---- */
void dp_launch_progress_line(launch *self, launch_task *task, char *line);
/* Draws the panel again when it is time, or writes a plain line. */
void dp_launch_progress_show(launch *self, bool now);
/* Takes the panel off the terminal, so that lines can be written; it comes back with show. */
void dp_launch_progress_hide(launch *self);

#endif
