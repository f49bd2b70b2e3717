/* Helpers that build messages, for the tests of this folder: node("x", "Neg", "a b:1 ^c",
 * type("T", DP_FLOAT), NULL). Everything lives in `arena`, which set_up creates and tear_down
 * destroys. */
#ifndef DP_TESTS_GRAPH_TEST_H
#define DP_TESTS_GRAPH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/graph_internal.h"

typedef Tensorflow__NodeDef__AttrEntry *entry;

static dp_arena *arena;

__attribute__((unused)) static int set_up(void **state) {
  arena = dp_arena_create();
  return 0;
}
__attribute__((unused)) static int tear_down(void **state) {
  dp_arena_destroy(arena);
  return 0;
}

/* ---- Attribute values ---- */
__attribute__((unused)) static entry attr(const char *key, const dp_attr *value) {
  entry made = dp_wire_new(arena, &tensorflow__node_def__attr_entry__descriptor);
  made->key = dp_arena_strdup(arena, key);
  made->value = dp_attr_to_message(value, arena);
  return made;
}
__attribute__((unused)) static entry type(const char *key, int32_t value) {
  return attr(key, &(dp_attr){.kind = DP_ATTR_TYPE, .type = value});
}
__attribute__((unused)) static entry integer(const char *key, int64_t value) {
  return attr(key, &(dp_attr){.kind = DP_ATTR_INT, .integer = value});
}
__attribute__((unused)) static entry string(const char *key, const char *value) {
  return attr(key, &(dp_attr){.kind = DP_ATTR_STRING, .string = dp_view_of(value)});
}
__attribute__((unused)) static entry boolean(const char *key, bool value) {
  return attr(key, &(dp_attr){.kind = DP_ATTR_BOOL, .boolean = value});
}
__attribute__((unused)) static entry placeholder(const char *key, const char *name) {
  return attr(key,
              &(dp_attr){.kind = DP_ATTR_PLACEHOLDER, .placeholder = dp_arena_strdup(arena, name)});
}
__attribute__((unused)) static entry integers(const char *key, int32_t count,
                                              const int64_t *values) {
  dp_attr list = {.kind = DP_ATTR_LIST_INT, .count = count};
  list.integers =
      memcpy(dp_arena_allocate(arena, 8 * (size_t)count + 1), values, 8 * (size_t)count);
  return attr(key, &list);
}

/* ---- Nodes ---- */
__attribute__((unused)) static Tensorflow__NodeDef *node(const char *name, const char *op,
                                                         const char *inputs, ...) {
  Tensorflow__NodeDef *made = dp_wire_new(arena, &tensorflow__node_def__descriptor);
  made->name = dp_arena_strdup(arena, name);
  made->op = dp_arena_strdup(arena, op);
  made->input = DP_ARENA_ARRAY(arena, char *, strlen(inputs) + 1);
  char *rest = dp_arena_strdup(arena, inputs), *token;
  while ((token = strsep(&rest, " ")) != NULL)
    if (*inputs)
      made->input[made->n_input++] = token;
  made->attr = DP_ARENA_ARRAY(arena, entry, 32);
  va_list list;
  va_start(list, inputs);
  for (entry next; (next = va_arg(list, entry)) != NULL;)
    made->attr[made->n_attr++] = next;
  va_end(list);
  return made;
}

__attribute__((unused)) static Tensorflow__NodeDef *placeholder_node(const char *name,
                                                                     dp_dtype dtype) {
  return node(name, "Placeholder", "", type("dtype", dtype), NULL);
}
__attribute__((unused)) static Tensorflow__NodeDef *neg(const char *name, const char *input) {
  return node(name, "Neg", input, type("T", DP_FLOAT), NULL);
}

/* ---- Graphs: graph(node, node, ..., NULL) ---- */
__attribute__((unused)) static Tensorflow__GraphDef *graph(Tensorflow__NodeDef *first, ...) {
  Tensorflow__GraphDef *made = dp_wire_new(arena, &tensorflow__graph_def__descriptor);
  made->node = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, 64);
  va_list list;
  va_start(list, first);
  for (; first; first = va_arg(list, Tensorflow__NodeDef *))
    made->node[made->n_node++] = first;
  va_end(list);
  return made;
}

__attribute__((unused)) static void assert_ok(dp_status *status) {
  if (status)
    fail_msg("%s: %s", dp_code_name(dp_status_code(status)), dp_status_message(status));
}

/* Consumes the status; the message must contain `part`. */
__attribute__((unused)) static void assert_error(dp_status *status, dp_code code,
                                                 const char *part) {
  assert_non_null(status);
  if (dp_status_code(status) != code || !strstr(dp_status_message(status), part))
    fail_msg("expected %s with \"%s\", got %s: %s", dp_code_name(code), part,
             dp_code_name(dp_status_code(status)), dp_status_message(status));
  dp_status_release(status);
}

/* What a function prints; in the arena. */
#define PRINTED(call)                                                                              \
  ({                                                                                               \
    dp_text printed_ = {0};                                                                        \
    dp_text *text = &printed_;                                                                     \
    call;                                                                                          \
    char *copy_ = dp_arena_strdup(arena, dp_text_string(text));                                    \
    dp_text_deinit(text);                                                                          \
    copy_;                                                                                         \
  })

#endif
