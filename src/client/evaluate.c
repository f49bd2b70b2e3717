/* TF_TryEvaluateConstant: the value of an output that depends on constants alone. If everything it
 * depends on gives the same in every step, a session in this process runs the output once. Any
 * thread may call. */
#include "client/client_internal.h"

/* Whether a node gives the same outputs for the same inputs in every step. Control flow and calls
 * of functions are taken for impure. */
static bool is_pure(const dp_node *node) {
  return !node->op->is_stateful && !node->op->is_function && !dp_node_is(node, "Placeholder") &&
         !dp_node_is(node, "PlaceholderWithDefault") && !dp_node_is_switch(node) &&
         !dp_node_is_merge(node) && !dp_node_is_enter(node) && !dp_node_is_exit(node) &&
         !dp_node_is_next_iteration(node);
}

/* Whether the node and everything that it depends on are pure. With the graph's lock held. */
static bool is_constant(TF_Graph *graph, int32_t id) {
  bool *seen = DP_NEW_ARRAY(bool, graph->graph->node_count + 1);
  DP_ARRAY(int32_t) todo = {0};
  bool is_pure_so_far = true;
  DP_ARRAY_PUSH(&todo, id);
  while (todo.count && is_pure_so_far) {
    const dp_node *node = graph->graph->nodes[todo.items[--todo.count]];
    if (seen[node->id])
      continue;
    seen[node->id] = true;
    is_pure_so_far = is_pure(node);
    for (int32_t i = 0; i < node->input_count; i++)
      DP_ARRAY_PUSH(&todo, node->inputs[i].node);
    for (int32_t i = 0; i < node->control_count; i++)
      DP_ARRAY_PUSH(&todo, node->controls[i]);
  }
  DP_ARRAY_FREE(&todo);
  dp_free(seen);
  return is_pure_so_far;
}

unsigned char TF_TryEvaluateConstant(TF_Graph *graph, TF_Output output, TF_Tensor **result,
                                     TF_Status *status) {
  *result = NULL;
  dp_client_set_status(status, NULL);
  pthread_mutex_lock(&graph->lock);
  bool is_possible = is_constant(graph, output.oper->node->id);
  pthread_mutex_unlock(&graph->lock);
  if (!is_possible)
    return 0;
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_NewSession(graph, options, status);
  TF_DeleteSessionOptions(options);
  if (!session)
    return 0;
  TF_SessionRun(session, NULL, NULL, NULL, 0, &output, result, 1, NULL, 0, NULL, status);
  TF_Status ignored = {0};
  TF_DeleteSession(session, &ignored);
  dp_status_release(ignored.status);
  return TF_GetCode(status) == TF_OK;
}
