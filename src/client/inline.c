/* Inlining: copies a function's body into a graph. The body is instantiated, written as a GraphDef,
 * and imported with its arguments mapped to outputs of the graph. The copy runs besides the
 * original call, so a body with operations that must not run twice is refused. */
#include "client/inline_internal.h"

#include <ctype.h>
#include <string.h>

/* Reading state is harmless; changing it, or drawing random numbers, is not. */
static bool may_run_twice(const dp_node *node) {
  static const char *const readers[] = {
      "ReadVariableOp", "ResourceGather",  "ResourceGatherNd",        "VarHandleOp", "_Arg",
      "_Retval",        "PartitionedCall", "StatefulPartitionedCall", "If",          "While"};
  for (size_t i = 0; i < sizeof(readers) / sizeof(*readers); i++)
    if (dp_node_is(node, readers[i]))
      return true;
  return !node->op->is_stateful;
}

static dp_status *check_body(const dp_func *function, const dp_graph *body) {
  for (int32_t i = 0; i < body->node_count; i++)
    if (body->nodes[i] && !may_run_twice(body->nodes[i]))
      return dp_status_create(DP_UNIMPLEMENTED,
                              "No gradient through the function '%s': its operation '%s' (%s) "
                              "has effects, and would run twice",
                              function->name, body->nodes[i]->name, body->nodes[i]->op->name);
  return NULL;
}

static void drop_ends(Tensorflow__GraphDef *message) {
  size_t kept = 0;
  for (size_t i = 0; i < message->n_node; i++)
    if (strcmp(message->node[i]->op, "_Arg") != 0 && strcmp(message->node[i]->op, "_Retval") != 0)
      message->node[kept++] = message->node[i];
  message->n_node = kept;
}

static dp_status *import(dp_scope *scope, const dp_function_body *body, dp_outputs inputs,
                         TF_Operation *control, TF_Output *results) {
  TF_Status status = {0};
  dp_arena *arena = dp_arena_create();
  TF_Buffer *buffer = TF_NewBuffer();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, scope->prefix);
  if (control)
    TF_ImportGraphDefOptionsAddControlDependency(options, control);
  for (int32_t i = 0; i < body->argument_count; i++)
    TF_ImportGraphDefOptionsAddInputMapping(options, body->arguments[i]->name, 0, inputs.items[i]);
  for (int32_t i = 0; i < body->result_count; i++) {
    const dp_input *from = &body->results[i]->inputs[0];
    TF_ImportGraphDefOptionsAddReturnOutput(options, body->graph->nodes[from->node]->name,
                                            from->output);
  }
  Tensorflow__GraphDef *message = dp_graph_export_given(body->graph, arena, false);
  drop_ends(message);
  status.status = dp_client_pack(message, buffer);
  if (!status.status)
    TF_GraphImportGraphDefWithReturnOutputs(dp_scope_graph(scope), buffer, options, results,
                                            body->result_count, &status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  dp_arena_destroy(arena);
  return status.status;
}

/* A scope named after the function. Characters that a node's name must not have, as in "<lambda>",
 * become '_'. */
static dp_scope *scope_of(dp_scope *scope, const char *function) {
  char *name = dp_strdup(function);
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("_./-", *c))
      *c = '_';
  dp_scope *named = dp_scope_named(scope, name);
  dp_free(name);
  return named;
}

void dp_client_inline(dp_scope *scope, const dp_func *function, dp_outputs inputs,
                      TF_Operation *control, TF_Output *results) {
  if (!dp_scope_ok(scope))
    return;
  dp_function_body body;
  dp_status *status =
      dp_function_instantiate(dp_scope_graph(scope)->graph->library, function, &body);
  if (status) {
    dp_scope_note(scope, status);
    return;
  }
  status = body.argument_count == inputs.count
               ? check_body(function, body.graph)
               : DP_INVALID("The function '%s' takes %d arguments, not %d", function->name,
                            body.argument_count, inputs.count);
  if (!status)
    status = import(scope_of(scope, function->name), &body, inputs, control, results);
  dp_graph_destroy(body.graph);
  if (status)
    dp_scope_note(scope, status);
}
