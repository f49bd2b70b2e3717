/* RegexReplace and RegexFullMatch, with the pattern as an input or as an attribute (StaticRegex*).
 * A kernel keeps the last compiled pattern; runs on several threads share it by reference count. */
#include "kernels/shared/family.h"

#include <pthread.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/text/regex.h"
#include "kernels/text/string.h"

static dp_status *compile(dp_view pattern, dp_regex **regex_out) {
  dp_status *status = dp_regex_compile(pattern, regex_out);
  if (status)
    return dp_status_annotate(status, "Invalid pattern: %.*s, error", (int)pattern.length,
                              pattern.data);
  return NULL;
}

/* A compiled pattern, shared by the runs that use it. */
typedef struct kept_regex {
  dp_refcount references;
  dp_regex *regex;
  size_t length;
  char pattern[];
} kept_regex;

static void release_kept(kept_regex *kept) {
  if (!kept || !dp_refcount_release(&kept->references))
    return;
  dp_regex_destroy(kept->regex);
  dp_free(kept);
}

/* The state of all kernels here. A pattern that is an input is nearly always the same, so the last
 * compiled one is kept. */
typedef struct regex_state {
  bool replaces_all;
  bool is_static;
  kept_regex *last; /* from an attribute: never changes; from an input: guarded by the mutex */
  pthread_mutex_t mutex;
  char *rewrite;
  size_t rewrite_length;
} regex_state;

static dp_status *make_kept(dp_view pattern, kept_regex **kept_out) {
  dp_regex *regex;
  DP_RETURN_IF_ERROR(compile(pattern, &regex));
  kept_regex *kept = dp_malloc(sizeof *kept + pattern.length);
  dp_refcount_init(&kept->references);
  kept->regex = regex;
  kept->length = pattern.length;
  if (pattern.length)
    memcpy(kept->pattern, pattern.data, pattern.length);
  *kept_out = kept;
  return NULL;
}

static dp_status *regex_create(const dp_kernel_setup *setup, void *memory) {
  regex_state *state = memory;
  const dp_node *node = setup->node;
  dp_view text;
  pthread_mutex_init(&state->mutex, NULL);
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
  return make_kept(text, &state->last);
}

static void regex_destroy(void *memory) {
  regex_state *state = memory;
  release_kept(state->last);
  pthread_mutex_destroy(&state->mutex);
  dp_free(state->rewrite);
}

static kept_regex *retain_last(regex_state *state) {
  if (state->last)
    dp_refcount_retain(&state->last->references);
  return state->last;
}

/* The pattern of this run, retained. */
static dp_status *find_regex(dp_op_context *context, regex_state *state, kept_regex **kept_out) {
  if (state->is_static) {
    *kept_out = retain_last(state);
    return NULL;
  }
  const dp_tensor *input = dp_op_input(context, 1);
  if (input->shape.rank != 0)
    return DP_INVALID("Pattern must be scalar, but received %s", dp_shape_text(&input->shape));
  dp_view pattern = dp_string_at(input, 0);
  pthread_mutex_lock(&state->mutex);
  kept_regex *kept = retain_last(state);
  pthread_mutex_unlock(&state->mutex);
  if (kept && dp_view_equal((dp_view){kept->pattern, kept->length}, pattern)) {
    *kept_out = kept;
    return NULL;
  }
  release_kept(kept);
  DP_RETURN_IF_ERROR(make_kept(pattern, &kept));
  pthread_mutex_lock(&state->mutex);
  kept_regex *before = state->last;
  state->last = kept;
  *kept_out = retain_last(state);
  pthread_mutex_unlock(&state->mutex);
  release_kept(before);
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
  regex_state *state = memory;
  replacement work = {NULL, {state->rewrite, state->rewrite_length}, state->replaces_all};
  if (!state->is_static) {
    const dp_tensor *rewrite = dp_op_input(context, 2);
    if (rewrite->shape.rank != 0)
      return DP_INVALID("Rewrite must be scalar, but received %s", dp_shape_text(&rewrite->shape));
    work.rewrite = dp_string_at(rewrite, 0);
  }
  kept_regex *kept = NULL;
  DP_RETURN_IF_ERROR(find_regex(context, state, &kept));
  work.regex = kept->regex;
  dp_status *status = dp_string_map(context, replace, &work);
  release_kept(kept);
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
  kept_regex *kept = NULL;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(find_regex(context, memory, &kept));
  work.regex = kept->regex;
  dp_status *status = dp_op_allocate(context, 0, &input->shape, &output);
  if (!status) {
    work.to = output->data;
    dp_op_for(context, input->shape.elements, 100, match_range, &work);
  }
  release_kept(kept);
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
