/* TF_NewWhile, TF_FinishWhile, TF_AbortWhile: a v1 loop from two graphs, the condition and the
 * body, that the caller fills. Their inputs are placeholders. TF_FinishWhile copies both graphs
 * into the caller's graph, in between the pieces of a loop (loop.c), and the loop's variables
 * replace the placeholders. It holds the lock of the caller's graph and on error removes what it
 * added. The parameters belong to one thread; finishing or aborting frees them. */
#include <stdio.h>
#include <string.h>

#include "client/loop_internal.h"

enum { PARALLEL_ITERATIONS = 10 };

/* ---- Parameters ---- */

static TF_WhileParams none(void) {
  return (TF_WhileParams){.ninputs = 0};
}

static void free_params(const TF_WhileParams *params) {
  if (params->cond_graph)
    dp_free(params->cond_graph->parent_inputs);
  TF_DeleteGraph(params->cond_graph);
  TF_DeleteGraph(params->body_graph);
  dp_free((void *)params->cond_inputs);
  dp_free((void *)params->body_inputs);
  dp_free(params->body_outputs);
}

/* Adds one placeholder per value of `like`, of the same type. */
static dp_status *add_inputs(TF_Graph *graph, const char *name, const TF_Output *like, int count,
                             TF_Output *inputs) {
  dp_scope *scope = dp_scope_create(graph);
  for (int i = 0; i < count; i++) {
    char text[32];
    snprintf(text, sizeof(text), "%s%d", name, i);
    inputs[i] = dp_placeholder(scope, (TF_DataType)dp_dtype_base(TF_OperationOutputType(like[i])),
                               .name = text);
  }
  dp_status *status = dp_status_retain(scope->root->status);
  dp_scope_destroy(scope);
  return status;
}

TF_WhileParams TF_NewWhile(TF_Graph *g, TF_Output *inputs, int ninputs, TF_Status *status) {
  if (ninputs <= 0) {
    dp_client_set_status(status, DP_INVALID("TF_NewWhile() must be passed at least one input"));
    return none();
  }
  TF_Graph *condition = TF_NewGraph(), *body = TF_NewGraph();
  condition->parent = g;
  condition->parent_inputs = dp_memdup(inputs, sizeof(*inputs) * (size_t)ninputs);
  TF_Output *condition_inputs = DP_NEW_ARRAY(TF_Output, ninputs);
  TF_Output *body_inputs = DP_NEW_ARRAY(TF_Output, ninputs);
  TF_Output *body_outputs = DP_NEW_ARRAY(TF_Output, ninputs);
  TF_WhileParams params = {.ninputs = ninputs,
                           .cond_graph = condition,
                           .cond_inputs = condition_inputs,
                           .cond_output = {NULL, -1},
                           .body_graph = body,
                           .body_inputs = body_inputs,
                           .body_outputs = body_outputs};
  for (int i = 0; i < ninputs; i++)
    body_outputs[i].index = -1;
  dp_status *result = add_inputs(condition, "cond_input", inputs, ninputs, condition_inputs);
  if (!result)
    result = add_inputs(body, "body_input", inputs, ninputs, body_inputs);
  dp_client_set_status(status, result);
  if (!result)
    return params;
  free_params(&params);
  return none();
}

void TF_AbortWhile(const TF_WhileParams *params) {
  free_params(params);
}

/* ---- Copies ---- */

typedef struct graph_copy {
  TF_Graph *from;
  const TF_Output *inputs; /* placeholders of `from` */
  const TF_Output *values; /* what the copy reads in their place */
  int input_count;
  const TF_Output *outputs; /* of `from` */
  TF_Output *copies;        /* the same outputs in the copy */
  int output_count;
} graph_copy;

static bool is_input(const graph_copy *copy, const char *name) {
  for (int i = 0; i < copy->input_count; i++)
    if (strcmp(copy->inputs[i].oper->node->name, name) == 0)
      return true;
  return false;
}

/* The graph without its placeholders. */
static dp_status *export_body(const graph_copy *copy, TF_Buffer *buffer) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__GraphDef *message = dp_graph_export(copy->from->graph, arena, true);
  size_t kept = 0;
  for (size_t i = 0; i < message->n_node; i++)
    if (!is_input(copy, message->node[i]->name))
      message->node[kept++] = message->node[i];
  message->n_node = kept;
  dp_status *status = dp_client_pack(message, buffer);
  dp_arena_destroy(arena);
  return status;
}

/* Copies into the scope. Operations that read no other operation of the copy run after `control`.
 */
static void copy_into(dp_scope *scope, const graph_copy *copy, TF_Operation *control) {
  if (!dp_scope_ok(scope))
    return;
  TF_Status status = {0};
  TF_Buffer *buffer = TF_NewBuffer();
  TF_ImportGraphDefOptions *options = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(options, scope->prefix);
  TF_ImportGraphDefOptionsAddControlDependency(options, control);
  for (int i = 0; i < copy->input_count; i++)
    TF_ImportGraphDefOptionsAddInputMapping(options, copy->inputs[i].oper->node->name, 0,
                                            copy->values[i]);
  for (int i = 0; i < copy->output_count; i++)
    TF_ImportGraphDefOptionsAddReturnOutput(options, copy->outputs[i].oper->node->name,
                                            copy->outputs[i].index);
  status.status = export_body(copy, buffer);
  if (!status.status)
    TF_GraphImportGraphDefWithReturnOutputs(dp_scope_graph(scope), buffer, options, copy->copies,
                                            copy->output_count, &status);
  TF_DeleteImportGraphDefOptions(options);
  TF_DeleteBuffer(buffer);
  if (status.status)
    dp_scope_note(scope, status.status);
}

/* ---- The loop ---- */

static dp_status *check(const TF_WhileParams *params) {
  if (!params->cond_output.oper)
    return DP_INVALID("TF_WhileParams `cond_output` field isn't set");
  for (int i = 0; i < params->ninputs; i++)
    if (!params->body_outputs[i].oper)
      return DP_INVALID("TF_WhileParams `body_outputs[%d]` field isn't set", i);
  if (!params->name)
    return DP_INVALID("TF_WhileParams `name` field is null");
  return NULL;
}

static void build(const TF_WhileParams *params, dp_scope *scope, TF_Output *outputs) {
  int count = params->ninputs;
  loop_value *values = DP_NEW_ARRAY(loop_value, count);
  TF_Output *inputs = DP_NEW_ARRAY(TF_Output, count), condition;
  loop_frame frame = {scope, params->name, PARALLEL_ITERATIONS};
  for (int i = 0; i < count; i++) {
    values[i] = dp_loop_enter(&frame, params->cond_graph->parent_inputs[i]);
    inputs[i] = values[i].merged;
  }
  graph_copy test = {params->cond_graph,   params->cond_inputs, inputs, count,
                     &params->cond_output, &condition,          1};
  copy_into(dp_scope_named(scope, "cond"), &test, inputs[0].oper);
  TF_Output decided = dp_scope_ok(scope) ? dp_loop_cond(scope, condition) : (TF_Output){0};
  for (int i = 0; i < count; i++) {
    dp_loop_split(&frame, &values[i], decided);
    inputs[i] = dp_identity(scope, values[i].before);
  }
  graph_copy body = {
      params->body_graph, params->body_inputs, inputs, count, params->body_outputs, outputs, count};
  copy_into(dp_scope_named(scope, "body"), &body, inputs[0].oper);
  for (int i = 0; i < count && dp_scope_ok(scope); i++) {
    dp_loop_close(&frame, &values[i], outputs[i]);
    outputs[i] = values[i].after;
  }
  dp_free(values);
  dp_free(inputs);
}

static dp_status *finish(const TF_WhileParams *params, TF_Output *outputs) {
  DP_RETURN_IF_ERROR(check(params));
  TF_Graph *graph = params->cond_graph->parent;
  dp_scope *scope = dp_scope_create(graph);
  pthread_mutex_lock(&graph->lock);
  int32_t first = graph->graph->node_count;
  build(params, dp_scope_named(scope, params->name), outputs);
  if (!dp_scope_ok(scope))
    dp_client_graph_remove(graph, first);
  pthread_mutex_unlock(&graph->lock);
  dp_status *status = dp_status_retain(scope->root->status);
  dp_scope_destroy(scope);
  return status;
}

void TF_FinishWhile(const TF_WhileParams *params, TF_Status *status, TF_Output *outputs) {
  if (!params->cond_graph || !params->body_graph || !params->cond_graph->parent) {
    dp_client_set_status(
        status, DP_INVALID("TF_WhileParams must be created by successful TF_NewWhile() call"));
    return;
  }
  dp_client_set_status(status, finish(params, outputs));
  free_params(params);
}
