/* The command `downpour`: finds the subcommand in a table, parses its options, runs it. Mistakes in
 * the command line are one line on standard error and exit code 2; failures are one line and 1. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static int print_version(const dp_options *options);
static int print_help(const dp_options *options);

static const dp_option no_options[] = {{0}};

static const dp_command version_command = {"version",  "", "Say which version this is.",
                                           no_options, 0,  print_version};
static const dp_command help_command = {"help",     "[COMMAND]", "Explain a command, or list them.",
                                        no_options, 1,           print_help};
static const dp_command *const commands[] = {
    &dp_serve_command, &dp_launch_command, &dp_status_command, &dp_stop_command,
    &dp_ops_command,   &dp_manual_command, &version_command,   &help_command};
enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

const dp_command *dp_command_at(int i) {
  return i < COMMAND_COUNT ? commands[i] : NULL;
}

int dp_command_fail(dp_status *status, int code) {
  fprintf(stderr, "downpour: %s\n", dp_status_message(status));
  dp_status_release(status);
  return code;
}

static const dp_command *find_command(const char *name) {
  for (int i = 0; i < COMMAND_COUNT; i++)
    if (strcmp(commands[i]->name, name) == 0)
      return commands[i];
  return NULL;
}

static dp_status *unknown_command(const char *name) {
  return DP_INVALID("there is no command \"%s\"; `downpour help` lists them", name);
}

static void list_commands(FILE *file) {
  fprintf(file, "usage: downpour COMMAND [OPTIONS]\n\n");
  for (int i = 0; i < COMMAND_COUNT; i++)
    fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
  fprintf(file, "\n`downpour help COMMAND` explains one.\n");
}

static void explain_command(const dp_command *command) {
  printf("usage: downpour %s %s\n\n%s\n", command->name, command->arguments, command->summary);
  if (command->options[0].name != NULL) {
    printf("\n");
    dp_options_print_help(command->options, stdout);
  }
}

static int print_version(const dp_options *options) {
  printf("downpour %s\n", DP_VERSION);
  return DP_EXIT_OK;
}

static int print_help(const dp_options *options) {
  int count;
  char **rest = dp_options_rest(options, &count);
  if (count == 0) {
    list_commands(stdout);
    return DP_EXIT_OK;
  }
  const dp_command *command = find_command(rest[0]);
  if (command == NULL)
    return dp_command_fail(unknown_command(rest[0]), DP_EXIT_USAGE);
  explain_command(command);
  return DP_EXIT_OK;
}

static int run_command(const dp_command *command, int argc, char **argv) {
  dp_options *options;
  dp_status *status = dp_options_parse(command->options, argc, argv, 2, &options);
  if (status != NULL)
    return dp_command_fail(dp_status_annotate(status, "%s", command->name), DP_EXIT_USAGE);
  int rest_count;
  char **rest = dp_options_rest(options, &rest_count);
  int code;
  if (dp_options_help_wanted(options)) {
    explain_command(command);
    code = DP_EXIT_OK;
  } else if (command->most_words >= 0 && rest_count > command->most_words) {
    code = dp_command_fail(
        DP_INVALID("%s: \"%s\" is not an option", command->name, rest[rest_count - 1]),
        DP_EXIT_USAGE);
  } else {
    code = command->run(options);
  }
  dp_options_destroy(options);
  return code;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    list_commands(stderr);
    return DP_EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    name = "help";
  else if (strcmp(name, "--version") == 0)
    name = "version";
  const dp_command *command = find_command(name);
  if (command == NULL)
    return dp_command_fail(unknown_command(name), DP_EXIT_USAGE);
  return run_command(command, argc, argv);
}
