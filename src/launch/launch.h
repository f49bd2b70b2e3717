/* A cluster on this machine: one program, started once per task, each with its own TF_CONFIG.
 *
 * All tasks run the same program, parameter servers too. TF_CONFIG tells a task which one it is and
 * where the others are, on free ports of the loopback. Worker 0 is the chief: when it ends, the
 * others get some time to finish, then they are ended. What tasks print appears line by line with
 * the task's name in front. Tasks may write progress records ("step=120 last=900 loss=0.3\n") to
 * the descriptor that DOWNPOUR_PROGRESS_FD names; they become a display below the output.
 *
 * dp_launch_run takes the calling thread and its signals; call it before other threads exist. */
#ifndef DP_LAUNCH_LAUNCH_H
#define DP_LAUNCH_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

typedef struct dp_launch_options {
  int ps, workers;     /* how many tasks; at least one worker */
  char **program;      /* name and arguments, ended by NULL */
  int restarts;        /* how often a task that fails is started again; 0: its failure ends all */
  int64_t grace_nanos; /* how long tasks may take to end by themselves; on SIGTERM at most 10 s */
  bool color;          /* names in colour */
  bool panel;          /* the display stays at the bottom of a terminal; else a line at times */
  bool quiet; /* no output of parameter servers; of the launcher's own lines only failures */
} dp_launch_options;

/* Returns when all tasks have ended. The exit code is the chief's, or that of the task whose
 * failure ended the job; 128 + N after signal N. After an error no task runs. */
DP_MUST_USE dp_status *dp_launch_run(const dp_launch_options *options, int *exit_code_out);

#endif
