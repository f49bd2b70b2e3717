/* The subcommands of `downpour`. Each is one constant dp_command with a table of its options, from
 * which parsing, --help and the man pages are made. A command runs on the main thread. */
#ifndef DP_CLI_COMMAND_H
#define DP_CLI_COMMAND_H

#include "base/options.h"
#include "base/status.h"

/* Exit codes. */
enum { DP_EXIT_OK = 0, DP_EXIT_FAILURE = 1, DP_EXIT_USAGE = 2 };

typedef struct dp_command {
  const char *name;
  const char *arguments; /* after the name, in the usage line */
  const char *summary;   /* one line */
  const dp_option *options;
  int most_words; /* how many arguments that are not options it takes; -1: any number */
  /* Returns the exit code. */
  int (*run)(const dp_options *options);
} dp_command;

extern const dp_command dp_launch_command;
extern const dp_command dp_manual_command;
extern const dp_command dp_ops_command;
extern const dp_command dp_serve_command;
extern const dp_command dp_status_command;
extern const dp_command dp_stop_command;

/* The commands, in the order of `downpour help`; NULL after the last. */
const dp_command *dp_command_at(int i);
/* Writes "downpour: <message>" to standard error, releases `status` and returns `code`. */
int dp_command_fail(dp_status *status, int code);

#endif
