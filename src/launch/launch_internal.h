/* What the files of the launcher share. The launcher has one thread; the struct `launch` owns
 * tasks, streams and ports.
 *
 *   launch.c    starts the tasks; waits for signals, output and ends; restarts and stops tasks
 *   task.c      one task: its address, its TF_CONFIG, its process
 *   port.c      ports that stay free while a task is away
 *   output.c    turns the bytes of many streams into whole lines with a name in front
 *   progress.c  turns progress records into a display */
#ifndef DP_LAUNCH_LAUNCH_INTERNAL_H
#define DP_LAUNCH_LAUNCH_INTERNAL_H

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

/* What a task wrote about its progress last; all 0 before. */
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
  int color;            /* ANSI colour, 1 to 6 */
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
  int panel_lines; /* lines of the panel that are on the terminal now */
  int64_t shown_nanos;
  int64_t began_nanos, ended_nanos; /* times of the first record and of the last step; 0: not yet */
  double began_step, shown_step;
} launch;

/* ---- port.c ---- */
/* Finds a free port and returns a descriptor. While that is open, nobody else is given the port. -1
 * and errno when there is no free port. */
int dp_launch_hold_port(int *port_out);

/* ---- task.c ---- */
/* Gives each task a port, which is the task's until the launcher ends. */
DP_MUST_USE dp_status *dp_launch_choose_addresses(launch *self);
/* Starts the process and opens its streams. An error when the program cannot be run at all. */
DP_MUST_USE dp_status *dp_launch_start(launch *self, launch_task *task);
/* Sends a signal to the task's whole process group. */
void dp_launch_signal(const launch_task *task, int number);

/* ---- output.c ---- */
/* Reads what a stream has ready. False at the end of the stream. */
bool dp_launch_read(launch *self, launch_task *task, int stream);
/* Shows the last line, if it had no newline, and closes the stream. */
void dp_launch_close(launch *self, launch_task *task, int stream);
/* Prints a line of the launcher's own on standard error. */
void dp_launch_say(launch *self, const char *format, ...) DP_PRINTF(2, 3);

/* ---- progress.c ---- */
/* Takes one record; changes `line`. */
void dp_launch_progress_line(launch *self, launch_task *task, char *line);
/* Draws the panel again, or writes a plain line, when it is time or `now`. */
void dp_launch_progress_show(launch *self, bool now);
/* Takes the panel off the terminal, so that lines can be written; the next show draws it again. */
void dp_launch_progress_hide(launch *self);

#endif
