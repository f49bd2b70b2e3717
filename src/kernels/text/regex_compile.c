/* From tree to program. The program is written from its end: each tree is given the instruction
 * that follows it. Lists of trees lean to the left, so a loop over `a` and recursion into `b` keep
 * the stack as deep as the nesting of groups. The size of the program is bounded, since patterns
 * come from clients. */
#include "kernels/text/regex_tree_internal.h"

typedef dp_regex_node node;

static int32_t emit(dp_regex *regex, dp_regex_op op, int32_t next, int32_t other, int32_t set) {
  if (regex->program.count >= DP_REGEX_MAX_PROGRAM)
    return -1;
  DP_ARRAY_PUSH(&regex->program, ((dp_regex_instruction){op, next, other, set}));
  return (int32_t)regex->program.count - 1;
}

static int32_t write_tree(dp_regex *regex, const node *tree, int32_t next);

static int32_t write_split(dp_regex *regex, int32_t body, int32_t next, bool is_lazy) {
  return body < 0 ? -1
                  : emit(regex, DP_REGEX_SPLIT, is_lazy ? next : body, is_lazy ? body : next, 0);
}

/* One or more times: the body, then a split that goes back to it. */
static int32_t write_loop(dp_regex *regex, const node *tree, int32_t next) {
  int32_t split = emit(regex, DP_REGEX_SPLIT, 0, 0, 0);
  int32_t body = split < 0 ? -1 : write_tree(regex, tree->a, split);
  if (body < 0)
    return -1;
  regex->program.items[split].next = tree->is_lazy ? next : body;
  regex->program.items[split].other = tree->is_lazy ? body : next;
  return body;
}

/* Zero or more times is one or more times behind a split of its own. A single split would not keep
 * the order of priorities where the body can match the empty text. */
static int32_t write_repeat(dp_regex *regex, const node *tree, int32_t next) {
  int32_t copies = tree->minimum;
  if (tree->maximum < 0) {
    int32_t loop = write_loop(regex, tree, next);
    if (copies == 0)
      return write_split(regex, loop, next, tree->is_lazy);
    next = loop;
    --copies;
  } else {
    int32_t end = next;
    for (int32_t i = tree->minimum; i < tree->maximum && next >= 0; ++i)
      next = write_split(regex, write_tree(regex, tree->a, next), end, tree->is_lazy);
  }
  for (int32_t i = 0; i < copies && next >= 0; ++i)
    next = write_tree(regex, tree->a, next);
  return next;
}

static int32_t write_group(dp_regex *regex, const node *tree, int32_t next) {
  if (tree->index < 0)
    return write_tree(regex, tree->a, next);
  int32_t close = emit(regex, DP_REGEX_SAVE, next, 0, 2 * tree->index + 1);
  int32_t body = close < 0 ? -1 : write_tree(regex, tree->a, close);
  return body < 0 ? -1 : emit(regex, DP_REGEX_SAVE, body, 0, 2 * tree->index);
}

/* Written from the last alternative to the first; each has priority over those after it. */
static int32_t write_alternatives(dp_regex *regex, const node *tree, int32_t next) {
  int32_t rest = write_tree(regex, tree->b, next);
  for (tree = tree->a; rest >= 0; tree = tree->a) {
    bool is_list = tree->kind == ALTERNATE;
    int32_t one = write_tree(regex, is_list ? tree->b : tree, next);
    rest = one < 0 ? -1 : emit(regex, DP_REGEX_SPLIT, one, rest, 0);
    if (!is_list)
      break;
  }
  return rest;
}

static int32_t write_tree(dp_regex *regex, const node *tree, int32_t next) {
  for (; next >= 0; tree = tree->a) {
    switch (tree->kind) {
    case EMPTY:
      return next;
    case SET:
      return emit(regex, DP_REGEX_SET, next, 0, tree->index);
    case ASSERTION:
      return emit(regex, DP_REGEX_ASSERT, next, 0, tree->index);
    case CONCAT:
      next = write_tree(regex, tree->b, next);
      break;
    case ALTERNATE:
      return write_alternatives(regex, tree, next);
    case REPEAT:
      return write_repeat(regex, tree, next);
    default:
      return write_group(regex, tree, next);
    }
  }
  return next;
}

/* ---- Compiling ---- */
void dp_regex_destroy(dp_regex *regex) {
  if (!regex)
    return;
  for (size_t i = 0; i < regex->sets.count; ++i)
    DP_ARRAY_FREE(&regex->sets.items[i]);
  DP_ARRAY_FREE(&regex->sets);
  DP_ARRAY_FREE(&regex->program);
  dp_free(regex->whole);
  dp_free(regex->first);
  dp_free(regex);
}

dp_status *dp_regex_compile(dp_view pattern, dp_regex **regex_out) {
  dp_regex *regex = DP_NEW(dp_regex);
  dp_arena *arena = dp_arena_create();
  const node *tree;
  dp_status *status = dp_regex_parse(pattern, regex, arena, &tree);
  if (!status) {
    regex->start = write_tree(regex, tree, emit(regex, DP_REGEX_MATCH, 0, 0, 0));
    if (regex->start < 0)
      status = DP_INVALID("pattern too large - compile failed");
  }
  dp_arena_destroy(arena);
  if (status) {
    dp_regex_destroy(regex);
    return status;
  }
  regex->whole = dp_regex_table_create(regex, true);
  regex->first = dp_regex_table_create(regex, false);
  *regex_out = regex;
  return NULL;
}
