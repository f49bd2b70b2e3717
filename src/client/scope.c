/* dp_scope: where new operations go, and how they are named, placed and ordered. A scope does not
 * change once it is made. An inner scope is a copy of the outer one with one setting changed. All
 * scopes of a root live in the root's arena until dp_scope_destroy, and share the first error. One
 * thread at a time per root; the graph's lock is taken to find unique names. */
#include <string.h>

#include "client/scope_internal.h"
#include "wire/device_name.h"

/* ---- Life ---- */

dp_scope *dp_scope_create(TF_Graph *graph) {
  dp_arena *arena = dp_arena_create();
  scope_root *root = DP_ARENA_NEW(arena, scope_root);
  root->graph = graph;
  root->arena = arena;
  dp_scope *scope = DP_ARENA_NEW(arena, dp_scope);
  scope->root = root;
  scope->prefix = scope->device = "";
  return scope;
}

void dp_scope_destroy(dp_scope *scope) {
  if (!scope)
    return;
  dp_status_release(scope->root->status);
  dp_arena_destroy(scope->root->arena); /* with the scopes and the root */
}

TF_Graph *dp_scope_graph(const dp_scope *scope) {
  return scope->root->graph;
}

/* ---- Errors ---- */

bool dp_scope_ok(const dp_scope *scope) {
  return !scope->root->status;
}

TF_Code dp_scope_code(const dp_scope *scope) {
  return (TF_Code)dp_status_code(scope->root->status);
}

const char *dp_scope_message(const dp_scope *scope) {
  return dp_status_message(scope->root->status);
}

void dp_scope_note(dp_scope *scope, dp_status *status) {
  if (scope->root->status)
    dp_status_release(status);
  else
    scope->root->status = status;
}

void dp_scope_fail(dp_scope *scope, TF_Code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  dp_scope_note(scope, dp_status_create_v((dp_code)code, format, arguments));
  va_end(arguments);
}

/* ---- Scopes within ---- */

static dp_scope *copy(dp_scope *scope) {
  dp_scope *inner = DP_ARENA_NEW(scope->root->arena, dp_scope);
  *inner = *scope;
  return inner;
}

dp_scope *dp_scope_named(dp_scope *scope, const char *name) {
  dp_scope *inner = copy(scope);
  dp_arena *arena = scope->root->arena;
  size_t length = strlen(name);
  if (length && name[length - 1] == '/') {
    inner->prefix = dp_arena_strdup(arena, name);
    return inner;
  }
  const char *wanted = dp_arena_printf(arena, "%s%s", scope->prefix, name);
  pthread_mutex_lock(&scope->root->graph->lock);
  inner->prefix =
      dp_arena_printf(arena, "%s/", dp_client_graph_unique_name(scope->root->graph, wanted, arena));
  pthread_mutex_unlock(&scope->root->graph->lock);
  return inner;
}

dp_scope *dp_scope_on(dp_scope *scope, const char *device) {
  dp_device_name outer, named;
  dp_scope *inner = copy(scope);
  dp_status *status = dp_device_name_parse(dp_view_of(scope->device), &outer);
  if (!status)
    status = dp_device_name_parse(dp_view_of(device), &named);
  if (status) {
    dp_scope_note(scope, status);
    return inner;
  }
  dp_device_name_override(&outer, &named);
  char text[DP_DEVICE_NAME_SIZE];
  inner->device = dp_arena_strdup(scope->root->arena, dp_device_name_format(&outer, text));
  return inner;
}

dp_scope *dp_scope_after(dp_scope *scope, TF_Operation *const *operations, int count) {
  dp_scope *inner = copy(scope);
  inner->controls = NULL;
  inner->control_count = 0;
  if (count <= 0)
    return inner;
  inner->controls =
      DP_ARENA_ARRAY(scope->root->arena, TF_Operation *, count + scope->control_count);
  for (int i = 0; i < scope->control_count; i++)
    inner->controls[inner->control_count++] = scope->controls[i];
  for (int i = 0; i < count; i++)
    if (operations[i]) /* what a failed constructor gave */
      inner->controls[inner->control_count++] = operations[i];
  return inner;
}

dp_scope *dp_scope_beside(dp_scope *scope, TF_Operation *operation) {
  dp_scope *inner = copy(scope);
  inner->beside = operation;
  return inner;
}

dp_scope *dp_scope_placed(dp_scope *scope, dp_device_fn choose, void *arg) {
  dp_scope *inner = copy(scope);
  scope_chooser *chooser = DP_ARENA_NEW(scope->root->arena, scope_chooser);
  *chooser = (scope_chooser){choose, arg, scope->chooser};
  inner->chooser = chooser;
  return inner;
}
