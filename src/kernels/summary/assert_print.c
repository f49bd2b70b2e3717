/* Assert, Print, PrintV2 and Abort: ops that report something to a person. Each line is printed by
 * one write, so that lines of several threads do not mix. */
#include "kernels/shared/family.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/log.h"
#include "base/memory.h"
#include "storage/file.h"

static void print_data(const dp_op_context *context, int32_t first, int64_t entries,
                       const char *separator, dp_text *text) {
  for (int32_t i = first; i < context->input_count; ++i) {
    dp_text_printf(text, "%s[", i > first ? separator : "");
    dp_tensor_summarize(dp_op_input(context, i), entries, text);
    dp_text_add_char(text, ']');
  }
}

static void write_text(FILE *file, const dp_text *text) {
  fwrite(dp_text_string(text), 1, text->length, file);
  fflush(file);
}

/* ---- Assert ---- */
static dp_status *create_assert(const dp_kernel_setup *setup, void *state) {
  return dp_node_get_int(setup->node, "summarize", state);
}

static dp_status *check_condition(dp_op_context *context, void *state) {
  const dp_tensor *condition = dp_op_input(context, 0);
  if (condition->shape.rank != 0)
    return DP_INVALID("In[0] should be a scalar: %s", dp_shape_text(&condition->shape));
  if (*(const bool *)condition->data)
    return NULL;
  dp_text text = {0};
  print_data(context, 1, *(int64_t *)state, " ", &text);
  dp_status *status = DP_INVALID("assertion failed: %s", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

/* ---- Print ---- */
typedef struct print_state {
  char *message;
  int64_t first_n; /* negative: always */
  int64_t summarize;
  atomic_int_fast64_t count;
} print_state;

static dp_status *create_print(const dp_kernel_setup *setup, void *raw) {
  print_state *state = raw;
  dp_view message;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "message", &message));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "first_n", &state->first_n));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "summarize", &state->summarize));
  state->message = dp_strndup(message.data, message.length);
  return NULL;
}

static void destroy_print(void *state) {
  dp_free(((print_state *)state)->message);
}

static dp_status *print(dp_op_context *context, void *raw) {
  print_state *state = raw;
  if (state->first_n < 0 || atomic_fetch_add(&state->count, 1) < state->first_n) {
    dp_text text = {0};
    dp_text_add(&text, state->message);
    print_data(context, 1, state->summarize, "", &text);
    dp_text_add_char(&text, '\n');
    write_text(stderr, &text);
    dp_text_deinit(&text);
  }
  context->outputs[0].tensor = dp_tensor_take(&context->inputs[0].tensor);
  return NULL;
}

/* ---- PrintV2 ---- */
typedef enum print_stream {
  STREAM_STDOUT,
  STREAM_STDERR,
  STREAM_INFO,
  STREAM_WARN,
  STREAM_ERROR,
  STREAM_FILE,
} print_stream;

static const char *const stream_names[] = {"stdout", "stderr", "log(info)", "log(warning)",
                                           "log(error)"};

typedef struct print_v2_state {
  print_stream stream;
  char *end;
  char *path; /* for STREAM_FILE */
} print_v2_state;

static dp_status *create_print_v2(const dp_kernel_setup *setup, void *raw) {
  print_v2_state *state = raw;
  dp_view stream, end;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "output_stream", &stream));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "end", &end));
  state->end = dp_strndup(end.data, end.length);
  dp_view path = stream;
  if (dp_view_consume(&path, "file://")) {
    state->stream = STREAM_FILE;
    state->path = dp_strndup(path.data, path.length);
    return NULL;
  }
  for (size_t i = 0; i < sizeof(stream_names) / sizeof(stream_names[0]); ++i)
    if (dp_view_equals(stream, stream_names[i])) {
      state->stream = (print_stream)i;
      return NULL;
    }
  return DP_INVALID("Unknown output stream: %.*s, Valid streams are: stdout stderr log(info) "
                    "log(warning) log(error)",
                    (int)stream.length, stream.data);
}

static void destroy_print_v2(void *raw) {
  print_v2_state *state = raw;
  dp_free(state->end);
  dp_free(state->path);
}

static dp_status *append_to_file(const char *path, const dp_text *text) {
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_open(path, DP_FILE_APPEND, &file));
  dp_status *status = dp_file_append(file, dp_text_string(text), text->length);
  if (status) {
    dp_file_discard(file);
    return status;
  }
  return dp_file_close(file);
}

static dp_status *print_v2(dp_op_context *context, void *raw) {
  const print_v2_state *state = raw;
  const dp_tensor *input = dp_op_input(context, 0);
  if (input->shape.rank != 0)
    return DP_INVALID("Input is expected to be scalar, but got %s", dp_shape_text(&input->shape));
  dp_view view = dp_tstring_view(dp_tensor_strings(input));
  dp_text text = {0};
  dp_status *status = NULL;
  dp_text_append(&text, view.data, view.length);
  if (state->stream == STREAM_FILE) {
    dp_text_add(&text, state->end);
    status = append_to_file(state->path, &text);
  } else if (state->stream <= STREAM_STDERR) {
    dp_text_add(&text, state->end);
    write_text(state->stream == STREAM_STDOUT ? stdout : stderr, &text);
  } else if (state->stream == STREAM_INFO) {
    DP_LOG(KERNELS, INFO, "%s", dp_text_string(&text));
  } else if (state->stream == STREAM_WARN) {
    DP_LOG(KERNELS, WARN, "%s", dp_text_string(&text));
  } else {
    DP_LOG(KERNELS, ERROR, "%s", dp_text_string(&text));
  }
  dp_text_deinit(&text);
  return status;
}

/* ---- Abort: ends the process because the graph says so ---- */
static dp_status *abort_process(dp_op_context *context, void *state) {
  dp_view message;
  bool exit_quietly;
  DP_RETURN_IF_ERROR(dp_node_get_string(context->node, "error_msg", &message));
  DP_RETURN_IF_ERROR(dp_node_get_bool(context->node, "exit_without_error", &exit_quietly));
  if (exit_quietly) {
    DP_LOG(KERNELS, WARN, "Exiting the process: %.*s", (int)message.length, message.data);
    exit(0);
  }
  DP_LOG(KERNELS, ERROR, "Abort_op intentional failure; %.*s", (int)message.length, message.data);
  abort();
}

/* clang-format off */
static const dp_kernel rows[] = {
    {.op = "Assert", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(int64_t),
     .create = create_assert, .compute = check_condition},
    {.op = "Print", .state_size = sizeof(print_state), .create = create_print, .compute = print,
     .destroy = destroy_print},
    {.op = "PrintV2", .state_size = sizeof(print_v2_state), .create = create_print_v2,
     .compute = print_v2, .destroy = destroy_print_v2},
    {.op = "Abort", .compute = abort_process},
};
/* clang-format on */

DP_KERNEL_FAMILY(assert_print, rows);
