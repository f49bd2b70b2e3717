/* CheckpointState as text: "name: value" fields, strings in quotes with C escapes. It is written as
 * TensorFlow's Saver writes it. It is read with the freedom that protobuf's text format allows:
 * several fields per line, comments, either kind of quotes, adjacent strings. No state, any thread.
 */
#include "storage/checkpoint_state.h"

#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "storage/file.h"
#include "wire/control.h"

#define MAX_STATE_SIZE ((uint64_t)64 << 20)

typedef struct parser {
  const char *at, *end;
  int line;
  dp_arena *arena;
} parser;

static dp_status *wrong(const parser *parser, const char *what) {
  return DP_INVALID("checkpoint state, line %d: %s", parser->line, what);
}

static void skip_space(parser *parser) {
  while (parser->at < parser->end) {
    char c = *parser->at;
    if (c == '#') {
      while (parser->at < parser->end && *parser->at != '\n')
        ++parser->at;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ';') {
      parser->line += c == '\n';
      ++parser->at;
    } else {
      return;
    }
  }
}

static dp_view read_word(parser *parser, const char *more) {
  const char *start = parser->at;
  while (parser->at < parser->end) {
    char c = *parser->at;
    bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '_' || (c && strchr(more, c));
    if (!is_word)
      break;
    ++parser->at;
  }
  return (dp_view){start, (size_t)(parser->at - start)};
}

static int hex_value(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* Reads one escape; the parser is behind its backslash. */
static dp_status *read_escape(parser *parser, dp_text *text) {
  if (parser->at == parser->end)
    return wrong(parser, "a string ends in a backslash");
  char c = *parser->at++;
  static const char names[] = "nrtabfv\\'\"?", values[] = "\n\r\t\a\b\f\v\\'\"?";
  const char *simple = c ? strchr(names, c) : NULL;
  if (simple) {
    dp_text_add_char(text, values[simple - names]);
    return NULL;
  }
  int value = 0, digits = 0;
  if (c == 'x' || c == 'X') {
    for (; digits < 2 && parser->at < parser->end && hex_value(*parser->at) >= 0; ++digits)
      value = value * 16 + hex_value(*parser->at++);
  } else if (c >= '0' && c <= '7') {
    --parser->at;
    for (; digits < 3 && parser->at < parser->end && *parser->at >= '0' && *parser->at <= '7';
         ++digits)
      value = value * 8 + (*parser->at++ - '0');
  }
  if (digits == 0 || value > 255 || value == 0)
    return wrong(parser, "an escape that is not understood");
  dp_text_add_char(text, (char)value);
  return NULL;
}

static dp_status *read_string(parser *parser, char **string_out) {
  dp_text text = {0};
  dp_status *status = NULL;
  bool has_any = false;
  while (!status && parser->at < parser->end && (*parser->at == '"' || *parser->at == '\'')) {
    char quote = *parser->at++;
    has_any = true;
    for (;;) {
      if (parser->at == parser->end || *parser->at == '\n' || *parser->at == '\0') {
        status = wrong(parser, "a string without its end");
        break;
      }
      char c = *parser->at++;
      if (c == quote)
        break;
      if (c != '\\')
        dp_text_add_char(&text, c);
      else if ((status = read_escape(parser, &text)))
        break;
    }
    skip_space(parser);
  }
  if (!status && !has_any)
    status = wrong(parser, "a string in quotes is expected");
  if (!status)
    *string_out = dp_arena_strndup(parser->arena, dp_text_string(&text), text.length);
  dp_text_deinit(&text);
  return status;
}

static dp_status *read_number(parser *parser, double *value_out) {
  dp_view word = read_word(parser, "+-.");
  if (word.length > 1 && (word.data[word.length - 1] == 'f' || word.data[word.length - 1] == 'F') &&
      word.data[word.length - 2] >= '0' && word.data[word.length - 2] <= '9')
    --word.length;
  if (!dp_parse_double(word, value_out))
    return wrong(parser, "a number is expected");
  return NULL;
}

/* ---- Fields ---- */
typedef struct lists {
  DP_ARRAY(char *) paths;
  DP_ARRAY(double) times;
} lists;

/* One value, or several in [ ]. */
static dp_status *read_values(parser *parser, lists *lists, bool is_path) {
  bool is_list = parser->at < parser->end && *parser->at == '[';
  if (is_list) {
    ++parser->at;
    skip_space(parser);
  }
  while (!is_list || (parser->at < parser->end && *parser->at != ']')) {
    char *path;
    double time;
    if (is_path) {
      DP_RETURN_IF_ERROR(read_string(parser, &path));
      DP_ARRAY_PUSH(&lists->paths, path);
    } else {
      DP_RETURN_IF_ERROR(read_number(parser, &time));
      DP_ARRAY_PUSH(&lists->times, time);
    }
    skip_space(parser);
    if (!is_list)
      return NULL;
  }
  if (parser->at == parser->end)
    return wrong(parser, "a list without its end");
  ++parser->at;
  return NULL;
}

static dp_status *read_field(parser *parser, Tensorflow__CheckpointState *state, lists *lists) {
  dp_view name = read_word(parser, "");
  if (name.length == 0)
    return wrong(parser, "the name of a field is expected");
  skip_space(parser);
  if (parser->at == parser->end || *parser->at++ != ':')
    return wrong(parser, "a colon is expected");
  skip_space(parser);
  if (dp_view_equals(name, "model_checkpoint_path"))
    return read_string(parser, &state->model_checkpoint_path);
  if (dp_view_equals(name, "last_preserved_timestamp"))
    return read_number(parser, &state->last_preserved_timestamp);
  if (dp_view_equals(name, "all_model_checkpoint_paths"))
    return read_values(parser, lists, true);
  if (dp_view_equals(name, "all_model_checkpoint_timestamps"))
    return read_values(parser, lists, false);
  return DP_INVALID("checkpoint state, line %d: CheckpointState has no field named \"%.*s\"",
                    parser->line, (int)name.length, name.data);
}

dp_status *dp_checkpoint_state_parse(const char *text, size_t length, dp_arena *arena,
                                     Tensorflow__CheckpointState **state_out) {
  parser parser = {text, text + length, 1, arena};
  lists lists = {0};
  Tensorflow__CheckpointState *state =
      dp_wire_new(arena, &tensorflow__checkpoint_state__descriptor);
  dp_status *status = NULL;
  skip_space(&parser);
  while (parser.at < parser.end && !status) {
    status = read_field(&parser, state, &lists);
    skip_space(&parser);
  }
  if (!status) {
    state->n_all_model_checkpoint_paths = lists.paths.count;
    state->all_model_checkpoint_paths = DP_ARENA_ARRAY(arena, char *, lists.paths.count + 1);
    state->n_all_model_checkpoint_timestamps = lists.times.count;
    state->all_model_checkpoint_timestamps = DP_ARENA_ARRAY(arena, double, lists.times.count + 1);
    if (lists.paths.count > 0)
      memcpy(state->all_model_checkpoint_paths, lists.paths.items,
             lists.paths.count * sizeof(char *));
    if (lists.times.count > 0)
      memcpy(state->all_model_checkpoint_timestamps, lists.times.items,
             lists.times.count * sizeof(double));
    *state_out = state;
  }
  DP_ARRAY_FREE(&lists.paths);
  DP_ARRAY_FREE(&lists.times);
  return status;
}

dp_status *dp_checkpoint_state_read(const char *path, dp_arena *arena,
                                    Tensorflow__CheckpointState **state_out) {
  char *text;
  size_t length;
  DP_RETURN_IF_ERROR(dp_file_read_whole(path, MAX_STATE_SIZE, &text, &length));
  dp_status *status = dp_checkpoint_state_parse(text, length, arena, state_out);
  dp_free(text);
  return dp_status_annotate(status, "%s", path);
}

static void add_string(dp_text *text, const char *name, const char *value) {
  dp_text_printf(text, "%s: \"", name);
  dp_text_add_escaped(text, value, strlen(value));
  dp_text_add(text, "\"\n");
}

static void add_number(dp_text *text, const char *name, double value) {
  dp_text_printf(text, "%s: ", name);
  size_t start = text->length;
  dp_text_add_double(text, value);
  if (!strpbrk(dp_text_string(text) + start, ".einf"))
    dp_text_add(text, ".0"); /* as Python prints a float */
  dp_text_add(text, "\n");
}

dp_status *dp_checkpoint_state_write(const char *path, const Tensorflow__CheckpointState *state) {
  dp_text text = {0};
  if (state->model_checkpoint_path[0])
    add_string(&text, "model_checkpoint_path", state->model_checkpoint_path);
  for (size_t i = 0; i < state->n_all_model_checkpoint_paths; ++i)
    add_string(&text, "all_model_checkpoint_paths", state->all_model_checkpoint_paths[i]);
  for (size_t i = 0; i < state->n_all_model_checkpoint_timestamps; ++i)
    add_number(&text, "all_model_checkpoint_timestamps", state->all_model_checkpoint_timestamps[i]);
  if (state->last_preserved_timestamp != 0)
    add_number(&text, "last_preserved_timestamp", state->last_preserved_timestamp);
  dp_status *status = dp_file_write_whole(path, dp_text_string(&text), text.length);
  dp_text_deinit(&text);
  return status;
}
