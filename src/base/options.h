/* Options: one table says name, kind, default and help; the parser, `--help`, the man page and the
 * docs come from it. Forms: --name value, --name=value, --flag, --no-flag, -h/--help. A table ends
 * with a row whose name is NULL. The table and argv must outlive the parsed options. When an option
 * is given twice, the last one counts. */
#ifndef DP_BASE_OPTIONS_H
#define DP_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/status.h"

typedef enum dp_option_kind {
  DP_OPTION_FLAG,
  DP_OPTION_INT,
  DP_OPTION_STRING,
  DP_OPTION_DURATION, /* 200ms, 10s, 5m, 1h; stored as nanoseconds */
} dp_option_kind;

typedef struct dp_option {
  const char *name; /* without the dashes */
  dp_option_kind kind;
  const char *default_value; /* as it would be typed; NULL: unset (0, NULL, false) */
  const char *placeholder;   /* "PORT" in help; NULL for flags */
  const char *help;          /* one or two sentences */
  int64_t minimum, maximum;  /* INT, DURATION: checked unless both are 0 */
} dp_option;

typedef struct dp_options dp_options;

/* Parses argv[first..argc). Unknown names, bad values and missing values are INVALID_ARGUMENT; for
 * an unknown name that resembles one in the table, the message proposes that one. Everything after
 * a bare "--", and every argument that is not an option, goes to dp_options_rest. */
DP_MUST_USE dp_status *dp_options_parse(const dp_option *table, int argc, char **argv, int first,
                                        dp_options **options_out);
void dp_options_destroy(dp_options *options);

bool dp_options_is_set(const dp_options *options, const char *name); /* typed by the user */
bool dp_options_flag(const dp_options *options, const char *name);
int64_t dp_options_int(const dp_options *options, const char *name);
const char *dp_options_string(const dp_options *options, const char *name); /* or NULL */
bool dp_options_help_wanted(const dp_options *options);
char **dp_options_rest(const dp_options *options, int *count_out); /* borrowed */

/* Writes the table as aligned help text, wrapped to the width of the terminal. */
void dp_options_print_help(const dp_option *table, FILE *file);

#endif
