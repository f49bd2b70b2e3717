/* `downpour launch`: a cluster on this machine; a program is started once per task. Only options
 * are read here; launch/launch.h does the rest. It takes the main thread and its signals. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "launch/launch.h"

static const dp_option options_table[] = {
    {"ps", DP_OPTION_INT, "1", "N", "How many parameter servers.", 0, 256},
    {"workers", DP_OPTION_INT, "2", "N", "How many workers; worker 0 is the chief.", 1, 256},
    {"restart", DP_OPTION_FLAG, NULL, NULL,
     "Start a task that fails again, a second later. Without this, the first failure ends all."},
    {"restart-limit", DP_OPTION_INT, "10", "N", "How often a task is started again at most.", 1,
     1000000},
    {"grace", DP_OPTION_DURATION, "45s", "TIME",
     "How long the other workers may go on when the chief has ended (a worker of TensorFlow that "
     "came too early looks for its variables every 30 s), and how long tasks may take to end on "
     "SIGTERM, ten seconds at most. Parameter servers that are left alone get two seconds.",
     0, INT64_C(86400000000000)},
    {"color", DP_OPTION_STRING, "auto", "WHEN",
     "Names of tasks in colour: auto (on a terminal, unless NO_COLOR is set), always or never."},
    {"panel", DP_OPTION_STRING, "auto", "WHEN",
     "A display of the tasks' progress at the bottom: auto (on a terminal), always or never, which "
     "writes a line every few seconds instead."},
    {"quiet", DP_OPTION_FLAG, NULL, NULL,
     "Show neither the output of the parameter servers nor the launcher's own lines, failures "
     "excepted."},
    {0},
};

static dp_status *decide(const dp_options *options, const char *name, bool automatic, bool *out) {
  const char *when = dp_options_string(options, name);
  if (strcmp(when, "auto") == 0)
    *out = automatic;
  else if (strcmp(when, "always") == 0 || strcmp(when, "never") == 0)
    *out = when[0] == 'a';
  else
    return DP_INVALID("launch: --%s %s: give auto, always or never", name, when);
  return NULL;
}

static dp_status *read_options(const dp_options *options, dp_launch_options *launch) {
  const char *no_color = getenv("NO_COLOR");
  bool terminal = isatty(STDOUT_FILENO);
  if (!launch->program[0])
    return DP_INVALID("launch: which program? As in: downpour launch --ps 1 --workers 2 -- "
                      "./train --steps 100");
  DP_RETURN_IF_ERROR(
      decide(options, "color", terminal && !(no_color && no_color[0]), &launch->color));
  return decide(options, "panel", terminal, &launch->panel);
}

static int launch_cluster(const dp_options *options) {
  int count, code = DP_EXIT_FAILURE;
  char **rest = dp_options_rest(options, &count);
  char **program = DP_NEW_ARRAY(char *, count + 1);
  if (count > 0)
    memcpy(program, rest, (size_t)count * sizeof(char *));
  dp_launch_options launch = {
      .ps = (int)dp_options_int(options, "ps"),
      .workers = (int)dp_options_int(options, "workers"),
      .program = program,
      .restarts =
          dp_options_flag(options, "restart") ? (int)dp_options_int(options, "restart-limit") : 0,
      .grace_nanos = dp_options_int(options, "grace"),
      .quiet = dp_options_flag(options, "quiet"),
  };
  dp_status *status = read_options(options, &launch);
  if (!status)
    status = dp_launch_run(&launch, &code);
  dp_free(program);
  if (!status)
    return code;
  return dp_command_fail(status, dp_status_code(status) == DP_INVALID_ARGUMENT ? DP_EXIT_USAGE
                                                                               : DP_EXIT_FAILURE);
}

const dp_command dp_launch_command = {
    .name = "launch",
    .arguments = "[--ps N] [--workers N] -- PROGRAM [ARGUMENTS]",
    .summary =
        "Run a program as a cluster on this machine, once per task, each with its TF_CONFIG.",
    .options = options_table,
    .most_words = -1,
    .run = launch_cluster,
};
