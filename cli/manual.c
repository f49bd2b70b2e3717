/* `downpour manual`: the man page of a command, made from the same tables as --help. The build
 * writes one for each command with it. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static const dp_option no_options[] = {{0}};

/* Text in roff: a dash is a minus, a line never begins with a dot or an apostrophe. */
static void print_text(const char *text) {
  for (const char *at = text; *at; at++) {
    if (*at == '-')
      fputs("\\-", stdout);
    else if (*at == '\\')
      fputs("\\e", stdout);
    else
      putchar(*at);
  }
}

static void print_option(const dp_option *option) {
  printf(".TP\n.B \\-\\-");
  print_text(option->name);
  if (option->placeholder)
    printf(" \\fI%s\\fR", option->placeholder);
  printf("\n");
  print_text(option->help);
  if (option->default_value) {
    printf(" Default: ");
    print_text(option->default_value);
    printf(".");
  }
  printf("\n");
}

static void print_command(const dp_command *command) {
  printf(".TH DOWNPOUR\\-");
  for (const char *at = command->name; *at; at++)
    putchar(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
  printf(" 1 \"\" \"downpour %s\"\n.SH NAME\ndownpour\\-%s \\- ", DP_VERSION, command->name);
  print_text(command->summary);
  printf("\n.SH SYNOPSIS\n.B downpour %s\n", command->name);
  print_text(command->arguments);
  printf("\n");
  if (command->options[0].name) {
    printf(".SH OPTIONS\n");
    for (const dp_option *option = command->options; option->name; option++)
      print_option(option);
  }
  printf(".SH EXIT STATUS\n0 when all went well, 1 after a failure, 2 for a mistake in the command "
         "line; either is explained in one line on standard error.\n");
  printf(".SH SEE ALSO\n.BR downpour (1)\n");
}

static void print_all(void) {
  printf(".TH DOWNPOUR 1 \"\" \"downpour %s\"\n", DP_VERSION);
  printf(".SH NAME\ndownpour \\- distributed TensorFlow in C\n");
  printf(".SH SYNOPSIS\n.B downpour\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n");
  for (int i = 0; dp_command_at(i); i++) {
    printf(".TP\n.B %s\n", dp_command_at(i)->name);
    print_text(dp_command_at(i)->summary);
    printf("\n");
  }
  printf(".SH SEE ALSO\n.BR downpour\\-serve (1),\n.BR downpour\\-launch (1),\n"
         ".BR downpour\\-status (1),\n.BR downpour\\-stop (1),\n.BR downpour\\-ops (1)\n");
}

static int print_manual(const dp_options *options) {
  int count;
  char **rest = dp_options_rest(options, &count);
  const dp_command *command = NULL;
  for (int i = 0; count > 0 && dp_command_at(i); i++)
    if (strcmp(dp_command_at(i)->name, rest[0]) == 0)
      command = dp_command_at(i);
  if (count > 0 && !command)
    return dp_command_fail(
        DP_INVALID("there is no command \"%s\"; `downpour help` lists them", rest[0]),
        DP_EXIT_USAGE);
  if (command)
    print_command(command);
  else
    print_all();
  return DP_EXIT_OK;
}

const dp_command dp_manual_command = {
    .name = "manual",
    .arguments = "[COMMAND]",
    .summary = "Print the man page of a command, or of all.",
    .options = no_options,
    .most_words = 1,
    .run = print_manual,
};
