/* The command line: one pass over argv against the table, then help from the same table. Values are
 * checked and converted while parsing, so the getters cannot fail; asking for a name that is not in
 * the table, or for another kind, is a mistake in the program and asserts. Used at start, by one
 * thread. */
#include "base/options.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/memory.h"
#include "base/text.h"

typedef struct option_value {
  bool set;
  bool flag;
  int64_t number;
  const char *text;
} option_value;

struct dp_options {
  const dp_option *table;
  option_value *values; /* one for each row */
  bool help_wanted;
  DP_ARRAY(char *) rest;
};

static int find_option(const dp_option *table, dp_view name) {
  for (int i = 0; table[i].name != NULL; i++)
    if (dp_view_equals(name, table[i].name))
      return i;
  return -1;
}

/* ---- values ---- */

static const struct {
  const char *name;
  int64_t nanos;
} duration_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", INT64_C(60) * 1000000000},
    {"h", INT64_C(3600) * 1000000000},
};

/* "<digits><unit>" as a whole. A bare 0 needs no unit. */
static bool parse_duration(const char *text, int64_t *nanos_out) {
  dp_view rest = dp_view_of(text);
  uint64_t count;
  if (!dp_view_consume_uint64(&rest, &count) || count > INT64_MAX)
    return false;
  if (count == 0 && rest.length == 0) {
    *nanos_out = 0;
    return true;
  }
  for (size_t i = 0; i < sizeof duration_units / sizeof *duration_units; i++)
    if (dp_view_equals(rest, duration_units[i].name))
      return !__builtin_mul_overflow((int64_t)count, duration_units[i].nanos, nanos_out);
  return false;
}

static dp_status *check_range(const dp_option *option, const char *text, int64_t value) {
  if ((option->minimum == 0 && option->maximum == 0) ||
      (value >= option->minimum && value <= option->maximum))
    return NULL;
  const char *measure = option->kind == DP_OPTION_DURATION ? " nanoseconds" : "";
  return DP_INVALID("--%s %s is out of range: from %" PRId64 " to %" PRId64 "%s", option->name,
                    text, option->minimum, option->maximum, measure);
}

static dp_status *parse_value(const dp_option *option, const char *text, option_value *value) {
  value->text = text;
  switch (option->kind) {
  case DP_OPTION_FLAG:
    value->flag = strcmp(text, "true") == 0;
    return NULL;
  case DP_OPTION_STRING:
    return NULL;
  case DP_OPTION_INT:
    if (!dp_parse_int64(dp_view_of(text), &value->number))
      return DP_INVALID("--%s wants a whole number, not '%s'", option->name, text);
    break;
  case DP_OPTION_DURATION:
    if (!parse_duration(text, &value->number))
      return DP_INVALID("--%s wants a duration such as 200ms, 10s, 5m or 1h, not '%s'",
                        option->name, text);
    break;
  }
  return check_range(option, text, value->number);
}

/* ---- names ---- */

enum { LONGEST_NAME = 64 };

/* How many letters of `a` must be inserted, removed, replaced or swapped with their neighbour to
 * make `b`. */
static int edit_distance(dp_view a, dp_view b) {
  if (a.length > LONGEST_NAME || b.length > LONGEST_NAME)
    return LONGEST_NAME;
  int rows[3][LONGEST_NAME + 1];
  for (size_t j = 0; j <= b.length; j++)
    rows[0][j] = (int)j;
  for (size_t i = 1; i <= a.length; i++) {
    int *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
    now[0] = (int)i;
    for (size_t j = 1; j <= b.length; j++) {
      int best = before[j - 1] + (a.data[i - 1] != b.data[j - 1]);
      best = before[j] + 1 < best ? before[j] + 1 : best;
      best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
      if (i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1])
        best = earlier[j - 2] + 1 < best ? earlier[j - 2] + 1 : best;
      now[j] = best;
    }
  }
  return rows[a.length % 3][b.length];
}

static dp_status *unknown_option(const dp_option *table, dp_view name) {
  bool negated = dp_view_starts_with(name, "no-");
  dp_view positive = {name.data + (negated ? 3 : 0), name.length - (negated ? 3 : 0)};
  int closest = -1;
  int least = name.length < 4 ? 2 : 3; /* proposed: at most one edit for a short name, else two */
  for (int i = 0; table[i].name != NULL; i++) {
    bool flag = table[i].kind == DP_OPTION_FLAG;
    dp_view known = dp_view_of(table[i].name);
    int distance = edit_distance(negated && flag ? positive : name, known);
    if (distance > 0 && name.length >= 3 && known.length > name.length &&
        memcmp(known.data, name.data, name.length) == 0)
      distance = 1; /* the user typed the beginning of the name */
    if (distance < least) {
      least = distance;
      closest = i;
    }
  }
  if (closest < 0)
    return DP_INVALID("unknown option --%.*s (--help lists all)", (int)name.length, name.data);
  bool say_no = negated && table[closest].kind == DP_OPTION_FLAG;
  return DP_INVALID("unknown option --%.*s; did you mean --%s%s?", (int)name.length, name.data,
                    say_no ? "no-" : "", table[closest].name);
}

/* ---- argv ---- */

typedef struct cursor {
  int argc, at;
  char **argv;
} cursor;

static dp_status *take_flag(dp_options *options, int index, bool value, const char *given) {
  const dp_option *option = &options->table[index];
  if (given != NULL)
    return DP_INVALID("--%s takes no value: use --%s or --no-%s", option->name, option->name,
                      option->name);
  options->values[index].set = true;
  options->values[index].flag = value;
  return NULL;
}

/* One "--name..." at the cursor, which moves on if the value is the next argument. */
static dp_status *take_option(dp_options *options, cursor *arguments) {
  const char *argument = arguments->argv[arguments->at] + 2;
  dp_view name = {argument, strcspn(argument, "=")};
  const char *given = argument[name.length] == '=' ? argument + name.length + 1 : NULL;
  int index = find_option(options->table, name);
  if (index >= 0 && options->table[index].kind == DP_OPTION_FLAG)
    return take_flag(options, index, true, given);
  if (index < 0 && dp_view_equals(name, "help")) {
    options->help_wanted = true;
    return NULL;
  }
  dp_view positive = name;
  if (index < 0 && dp_view_consume(&positive, "no-")) {
    index = find_option(options->table, positive);
    if (index >= 0 && options->table[index].kind == DP_OPTION_FLAG)
      return take_flag(options, index, false, given);
    index = -1;
  }
  if (index < 0)
    return unknown_option(options->table, name);
  const dp_option *option = &options->table[index];
  if (given == NULL) {
    bool more = arguments->at + 1 < arguments->argc;
    if (!more || strncmp(arguments->argv[arguments->at + 1], "--", 2) == 0)
      return DP_INVALID("--%s wants a value: --%s %s", option->name, option->name,
                        option->placeholder != NULL ? option->placeholder : "VALUE");
    given = arguments->argv[++arguments->at];
  }
  options->values[index].set = true;
  return parse_value(option, given, &options->values[index]);
}

static bool is_rest(const char *argument) {
  return argument[0] != '-' || argument[1] == '\0' || (argument[1] >= '0' && argument[1] <= '9');
}

static dp_status *take_arguments(dp_options *options, cursor *arguments) {
  bool only_rest = false;
  for (; arguments->at < arguments->argc; arguments->at++) {
    char *argument = arguments->argv[arguments->at];
    if (only_rest || is_rest(argument))
      DP_ARRAY_PUSH(&options->rest, argument);
    else if (strcmp(argument, "--") == 0)
      only_rest = true;
    else if (strcmp(argument, "-h") == 0)
      options->help_wanted = true;
    else if (argument[1] == '-')
      DP_RETURN_IF_ERROR(take_option(options, arguments));
    else
      return DP_INVALID("unknown option %s; options have long names, as in --help", argument);
  }
  return NULL;
}

dp_status *dp_options_parse(const dp_option *table, int argc, char **argv, int first,
                            dp_options **options_out) {
  size_t count = 0;
  while (table[count].name != NULL)
    count++;
  dp_options *options = DP_NEW(dp_options);
  options->table = table;
  options->values = DP_NEW_ARRAY(option_value, count);
  dp_status *status = NULL;
  for (size_t i = 0; i < count && status == NULL; i++)
    if (table[i].default_value != NULL)
      status = parse_value(&table[i], table[i].default_value, &options->values[i]);
  cursor arguments = {argc, first, argv};
  if (status == NULL)
    status = take_arguments(options, &arguments);
  if (status != NULL)
    dp_options_destroy(options);
  else
    *options_out = options;
  return status;
}

void dp_options_destroy(dp_options *options) {
  if (options == NULL)
    return;
  DP_ARRAY_FREE(&options->rest);
  dp_free(options->values);
  dp_free(options);
}

/* ---- getters ---- */

static const option_value *value_of(const dp_options *options, const char *name, unsigned kinds) {
  int index = find_option(options->table, dp_view_of(name));
  assert(index >= 0 && (kinds >> options->table[index].kind & 1));
  (void)kinds;
  return &options->values[index];
}

bool dp_options_is_set(const dp_options *options, const char *name) {
  return value_of(options, name, ~0u)->set;
}

bool dp_options_flag(const dp_options *options, const char *name) {
  return value_of(options, name, 1u << DP_OPTION_FLAG)->flag;
}

int64_t dp_options_int(const dp_options *options, const char *name) {
  return value_of(options, name, 1u << DP_OPTION_INT | 1u << DP_OPTION_DURATION)->number;
}

const char *dp_options_string(const dp_options *options, const char *name) {
  return value_of(options, name, 1u << DP_OPTION_STRING)->text;
}

bool dp_options_help_wanted(const dp_options *options) {
  return options->help_wanted;
}

char **dp_options_rest(const dp_options *options, int *count_out) {
  *count_out = (int)options->rest.count;
  return options->rest.items;
}

/* ---- help ---- */

enum { NARROWEST = 40, WIDEST = 100, PLAIN_WIDTH = 80, WIDEST_LABEL = 28 };

static int width_of(FILE *file) {
  struct winsize size;
  int width = PLAIN_WIDTH;
  if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    width = size.ws_col;
  return width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : width;
}

static void add_label(dp_text *label, const dp_option *option) {
  bool negate = option->kind == DP_OPTION_FLAG && option->default_value != NULL &&
                strcmp(option->default_value, "true") == 0;
  dp_text_printf(label, "  --%s%s", negate ? "no-" : "", option->name);
  if (option->kind != DP_OPTION_FLAG)
    dp_text_printf(label, " %s", option->placeholder != NULL ? option->placeholder : "VALUE");
}

static void print_row(FILE *file, const char *label, const char *help, int column, int width) {
  int at = fprintf(file, "%s", label);
  if (at + 2 > column) {
    fputc('\n', file);
    at = 0;
  }
  bool fresh = true; /* no help text on this line yet */
  for (const char *word = help + strspn(help, " "); *word != '\0';) {
    int length = (int)strcspn(word, " ");
    if (!fresh && at + 1 + length > width) {
      fputc('\n', file);
      at = 0;
      fresh = true;
    }
    at += fprintf(file, "%*s%.*s", fresh ? column - at : 1, "", length, word);
    fresh = false;
    word += length;
    word += strspn(word, " ");
  }
  fputc('\n', file);
}

void dp_options_print_help(const dp_option *table, FILE *file) {
  int width = width_of(file);
  size_t widest = strlen("  -h, --help");
  dp_text label = {0}, help = {0};
  for (const dp_option *option = table; option->name != NULL; option++) {
    dp_text_clear(&label);
    add_label(&label, option);
    if (label.length > widest && label.length <= WIDEST_LABEL)
      widest = label.length;
  }
  int column = (int)widest + 2;
  for (const dp_option *option = table; option->name != NULL; option++) {
    dp_text_clear(&label);
    dp_text_clear(&help);
    add_label(&label, option);
    dp_text_add(&help, option->help != NULL ? option->help : "");
    if (option->kind != DP_OPTION_FLAG && option->default_value != NULL)
      dp_text_printf(&help, " (default: %s)", option->default_value);
    print_row(file, dp_text_string(&label), dp_text_string(&help), column, width);
  }
  print_row(file, "  -h, --help", "Show this help and exit.", column, width);
  dp_text_deinit(&label);
  dp_text_deinit(&help);
}
