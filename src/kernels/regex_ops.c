/* RegexReplace and RegexFullMatch, with the pattern as an input or as an attribute. */
#include "kernels/families_internal.h"

#include <pthread.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/regex_internal.h"

static dp_status *compile(dp_view pattern, dp_regex **regex_out) {
  dp_status *status = dp_regex_compile(pattern, regex_out);
  if (status)
    return dp_status_annotate(status, "Invalid pattern: %.*s, error", (int)pattern.length,
                              pattern.data);
  return NULL;
}

/* What both kinds of kernel keep: patterns that come as inputs are nearly always the same. */
typedef struct regex_state {
  bool replaces_all;
  bool is_static;
  dp_regex *regex;
  char *rewrite;
  size_t rewrite_length;
} regex_state;

static dp_status *regex_create(const dp_kernel_setup *setup, void *memory) {
  regex_state *state = memory;
  const dp_node *node = setup->node;
  dp_view text;
  state->is_static = strncmp(node->op->name, "Static", 6) == 0;
  if (dp_node_attr(node, "replace_global"))
    DP_RETURN_IF_ERROR(dp_node_get_bool(node, "replace_global", &state->replaces_all));
  if (!state->is_static)
    return NULL;
  if (dp_node_attr(node, "rewrite")) {
    DP_RETURN_IF_ERROR(dp_node_get_string(node, "rewrite", &text));
    state->rewrite = dp_strndup(text.data, text.length);
    state->rewrite_length = text.length;
  }
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "pattern", &text));
  return compile(text, &state->regex);
}

static void regex_destroy(void *memory) {
  regex_state *state = memory;
  dp_regex_destroy(state->regex);
  dp_free(state->rewrite);
}

/* The pattern of this run; *made_out is to be destroyed afterwards. */
static dp_status *find_regex(dp_op_context *context, const regex_state *state,
                             const dp_regex **regex_out, dp_regex **made_out) {
  *made_out = NULL;
  *regex_out = state->regex;
  if (state->is_static)
    return NULL;
  const dp_tensor *pattern = dp_op_input(context, 1);
  if (pattern->shape.rank != 0)
    return DP_INVALID("Pattern must be scalar, but received %s", dp_shape_text(&pattern->shape));
  DP_RETURN_IF_ERROR(compile(dp_string_at(pattern, 0), made_out));
  *regex_out = *made_out;
  return NULL;
}

/* ---- Replacing ---- */
typedef struct replacement {
  const dp_regex *regex;
  dp_view rewrite;
  bool all;
} replacement;

static dp_status *replace(const void *memory, dp_view input, dp_text *text) {
  const replacement *work = memory;
  dp_regex_replace(work->regex, input, work->rewrite, work->all, text);
  return NULL;
}

static dp_status *replace_compute(dp_op_context *context, void *memory) {
  const regex_state *state = memory;
  replacement work = {NULL, {state->rewrite, state->rewrite_length}, state->replaces_all};
  if (!state->is_static) {
    const dp_tensor *rewrite = dp_op_input(context, 2);
    if (rewrite->shape.rank != 0)
      return DP_INVALID("Rewrite must be scalar, but received %s", dp_shape_text(&rewrite->shape));
    work.rewrite = dp_string_at(rewrite, 0);
  }
  dp_regex *made;
  DP_RETURN_IF_ERROR(find_regex(context, state, &work.regex, &made));
  dp_status *status = dp_string_map(context, replace, &work);
  dp_regex_destroy(made);
  return status;
}

/* ---- Matching ---- */
typedef struct match_work {
  const dp_regex *regex;
  const dp_tensor *input;
  bool *to;
} match_work;

static void match_range(void *arg, int64_t begin, int64_t end) {
  const match_work *work = arg;
  for (int64_t i = begin; i < end; ++i)
    work->to[i] = dp_regex_find(work->regex, dp_string_at(work->input, i), 0, true, NULL);
}

static dp_status *match_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0);
  match_work work = {.input = input};
  dp_regex *made;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(find_regex(context, memory, &work.regex, &made));
  dp_status *status = dp_op_allocate(context, 0, &input->shape, &output);
  if (!status) {
    work.to = output->data;
    dp_op_for(context, input->shape.elements, 1000, match_range, &work);
  }
  dp_regex_destroy(made);
  return status;
}

/* clang-format off */
#define ROW(name, body)                                                                            \
  {.op = name, .state_size = sizeof(regex_state), .create = regex_create, .compute = body,         \
   .destroy = regex_destroy}

static const dp_kernel rows[] = {
    ROW("RegexReplace", replace_compute), ROW("StaticRegexReplace", replace_compute),
    ROW("RegexFullMatch", match_compute), ROW("StaticRegexFullMatch", match_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(regex, rows);
