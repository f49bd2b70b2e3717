/* While: a frame named after the node.
 *
 *   Enter -> Merge -> Switch -> body -> NextIteration -> (Merge)
 *              |         |`-> Exit
 *              `-> condition -> LoopCond -> (all Switches)
 *
 * A resource that the body returns unchanged is a constant of the loop: it enters once. Readers
 * after the loop read the While's input directly, so that the resource never leaves its device. */
#include "planner/lower_internal.h"

/* One variable of the loop. */
typedef struct loop_variable {
  bool is_constant;
  dp_node *enter, *merge, *fork;
} loop_variable;

typedef struct while_lowering {
  lowerer *l;
  dp_node *node;
  const dp_func *condition, *body;
  loop_variable *variables;
  int32_t count;
  int32_t first; /* a variable that is not constant */
  dp_node *loop_condition, *body_call;
} while_lowering;

/* Whether result `index` of the body is its argument `index`, directly or through Identity. */
static bool hands_on(const dp_function_body *body, int32_t index) {
  const dp_node *node = body->results[index];
  do {
    node = body->graph->nodes[node->inputs[0].node];
  } while (dp_node_is(node, "Identity") && node->control_count == 0);
  return node == body->arguments[index];
}

static dp_status *find_constants(while_lowering *w) {
  bool has_resources = false;
  for (int32_t i = 0; i < w->count; i++)
    has_resources |= w->node->input_types[i] == DP_RESOURCE;
  if (!has_resources)
    return NULL;
  dp_function_body body;
  DP_RETURN_IF_ERROR(dp_function_instantiate(w->l->graph->library, w->body, &body));
  int32_t changing = 0;
  for (int32_t i = 0; i < w->count; i++) {
    w->variables[i].is_constant = w->node->input_types[i] == DP_RESOURCE && i < body.result_count &&
                                  i < body.argument_count && hands_on(&body, i);
    changing += !w->variables[i].is_constant;
  }
  /* A loop needs a variable that changes: its Merge starts the iterations. */
  if (changing == 0)
    w->variables[0].is_constant = false;
  dp_graph_destroy(body.graph);
  return NULL;
}

static dp_status *add(while_lowering *w, const char *op, const char *part, const dp_input *inputs,
                      int32_t input_count, const dp_attr *attrs, int32_t attr_count,
                      dp_node **node_out) {
  lower_node wanted = {.op = op,
                       .name = lower_name(w->l, w->node->name, part),
                       .inputs = inputs,
                       .input_count = input_count,
                       .attrs = attrs,
                       .attr_count = attr_count};
  return lower_add(w->l, w->node, &wanted, node_out);
}

static dp_status *add_enters(while_lowering *w) {
  int64_t parallel;
  DP_RETURN_IF_ERROR(dp_node_get_int(w->node, "parallel_iterations", &parallel));
  dp_node *start = NULL;
  if (w->node->control_count) {
    DP_RETURN_IF_ERROR(add(w, "NoOp", "LoopControlInputs", NULL, 0, NULL, 0, &start));
    dp_rewrite_take_controls(&w->l->rewrite, start, w->node);
  }
  for (int32_t i = 0; i < w->count; i++) {
    dp_attr attrs[] = {attr_type("T", w->node->input_types[i]),
                       attr_string("frame_name", w->node->name),
                       attr_int("parallel_iterations", parallel),
                       attr_bool("is_constant", w->variables[i].is_constant)};
    DP_RETURN_IF_ERROR(
        add(w, "Enter", "enter", &w->node->inputs[i], 1, attrs, 4, &w->variables[i].enter));
    if (start)
      dp_node_add_control(w->l->graph, w->variables[i].enter, start->id);
  }
  return NULL;
}

static dp_status *add_merges(while_lowering *w) {
  for (int32_t i = 0; i < w->count; i++) {
    loop_variable *variable = &w->variables[i];
    if (variable->is_constant)
      continue;
    dp_input inputs[] = {{variable->enter->id, 0}, {variable->enter->id, 0}};
    dp_attr attrs[] = {attr_type("T", w->node->input_types[i]), attr_int("N", 2)};
    DP_RETURN_IF_ERROR(add(w, "Merge", "merge", inputs, 2, attrs, 2, &variable->merge));
  }
  return NULL;
}

/* A call of the condition or the body. It waits for `control`, so that nodes without inputs run in
 * the loop's frame. */
static dp_status *add_call(while_lowering *w, const dp_func *function, const char *part,
                           const dp_input *inputs, const dp_node *control, dp_node **call_out) {
  lower_node wanted = {.function = function,
                       .name = lower_name(w->l, w->node->name, part),
                       .inputs = inputs,
                       .input_count = w->count};
  DP_RETURN_IF_ERROR(lower_add(w->l, w->node, &wanted, call_out));
  lower_row_of(w->l, (*call_out)->id)->must_inline = true;
  dp_node_add_control(w->l->graph, *call_out, control->id);
  return NULL;
}

static dp_status *add_condition(while_lowering *w) {
  dp_input *inputs = DP_ARENA_ARRAY(w->l->arena, dp_input, w->count);
  for (int32_t i = 0; i < w->count; i++)
    inputs[i] = (dp_input){
        w->variables[i].is_constant ? w->variables[i].enter->id : w->variables[i].merge->id, 0};
  dp_node *call;
  DP_RETURN_IF_ERROR(
      add_call(w, w->condition, "cond", inputs, w->variables[w->first].merge, &call));
  if (call->output_count != 1 || call->output_types[0] != DP_BOOL)
    return DP_INVALID("Node '%s': the condition '%s' must have one output, of type bool",
                      w->node->name, w->condition->name);
  dp_input value = {call->id, 0};
  return add(w, "LoopCond", "LoopCond", &value, 1, NULL, 0, &w->loop_condition);
}

static dp_status *add_body(while_lowering *w) {
  dp_input *inputs = DP_ARENA_ARRAY(w->l->arena, dp_input, w->count);
  for (int32_t i = 0; i < w->count; i++) {
    loop_variable *variable = &w->variables[i];
    inputs[i] = (dp_input){variable->enter->id, 0};
    if (variable->is_constant)
      continue;
    dp_input forked[] = {{variable->merge->id, 0}, {w->loop_condition->id, 0}};
    dp_attr attr = attr_type("T", w->node->input_types[i]);
    dp_input value = dp_rewrite_input(&w->l->rewrite, w->node->inputs[i]);
    const char *part =
        dp_arena_printf(w->l->arena, "%s_switch", w->l->graph->nodes[value.node]->name);
    DP_RETURN_IF_ERROR(add(w, "Switch", part, forked, 2, &attr, 1, &variable->fork));
    inputs[i] = (dp_input){variable->fork->id, 1};
  }
  dp_attr attr = attr_type("T", w->node->input_types[w->first]);
  dp_node *control;
  DP_RETURN_IF_ERROR(
      add(w, "Identity", "loop_body_control", &inputs[w->first], 1, &attr, 1, &control));
  DP_RETURN_IF_ERROR(add_call(w, w->body, "body", inputs, control, &w->body_call));
  if (w->body_call->output_count != w->count)
    return DP_INVALID("Node '%s': the body '%s' must have %d outputs, not %d", w->node->name,
                      w->body->name, w->count, w->body_call->output_count);
  return NULL;
}

static dp_status *close_loop(while_lowering *w) {
  for (int32_t i = 0; i < w->count; i++) {
    if (w->variables[i].is_constant)
      continue;
    dp_input value = {w->body_call->id, i};
    dp_attr attr = attr_type("T", w->node->input_types[i]);
    dp_node *next;
    DP_RETURN_IF_ERROR(add(w, "NextIteration", "next_iteration", &value, 1, &attr, 1, &next));
    dp_node_add_control(w->l->graph, next, w->body_call->id);
    dp_node_set_input(w->variables[i].merge, 1, (dp_input){next->id, 0});
  }
  return NULL;
}

static dp_status *add_exits(while_lowering *w, dp_input *outputs, dp_node **done_out) {
  DP_RETURN_IF_ERROR(add(w, "NoOp", "LoopExecuted", NULL, 0, NULL, 0, done_out));
  int32_t *exits = DP_ARENA_ARRAY(w->l->arena, int32_t, w->count);
  size_t exit_count = 0;
  for (int32_t i = 0; i < w->count; i++) {
    outputs[i] = dp_rewrite_input(&w->l->rewrite, w->node->inputs[i]);
    if (w->variables[i].is_constant)
      continue;
    dp_input value = {w->variables[i].fork->id, 0};
    dp_attr attr = attr_type("T", w->node->input_types[i]);
    dp_node *leave;
    DP_RETURN_IF_ERROR(add(w, "Exit", "exit", &value, 1, &attr, 1, &leave));
    exits[exit_count++] = leave->id;
    outputs[i] = (dp_input){leave->id, 0};
  }
  dp_planner_add_controls(w->l->graph, *done_out, exits, exit_count);
  return NULL;
}

dp_status *lower_while(lowerer *l, dp_node *node) {
  if (node->input_count == 0)
    return NULL;
  while_lowering w = {.l = l,
                      .node = node,
                      .count = node->input_count,
                      .variables = DP_ARENA_ARRAY(l->arena, loop_variable, node->input_count)};
  DP_RETURN_IF_ERROR(dp_node_get_func(node, "cond", &w.condition));
  DP_RETURN_IF_ERROR(dp_node_get_func(node, "body", &w.body));
  DP_RETURN_IF_ERROR(find_constants(&w));
  while (w.variables[w.first].is_constant)
    w.first++;
  dp_input *outputs = DP_ARENA_ARRAY(l->arena, dp_input, node->input_count);
  dp_node *done;
  DP_RETURN_IF_ERROR(add_enters(&w));
  DP_RETURN_IF_ERROR(add_merges(&w));
  DP_RETURN_IF_ERROR(add_condition(&w));
  DP_RETURN_IF_ERROR(add_body(&w));
  DP_RETURN_IF_ERROR(add_exits(&w, outputs, &done));
  DP_RETURN_IF_ERROR(close_loop(&w));
  return lower_replace(l, node, outputs, done->id);
}
