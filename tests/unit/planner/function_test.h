/* Functions for tests, written as graphs: _Arg and _Retval nodes say what goes in and out, a name
 * that begins with "must" what has to run. Turned into a FunctionDef and added to a library. */
#ifndef DP_TESTS_PLANNER_FUNCTION_TEST_H
#define DP_TESTS_PLANNER_FUNCTION_TEST_H

#include "planner_test.h"

/* "x" for an argument, "node:output_name:index" for others. */
static inline char *body_reference(const dp_graph *graph, dp_input input, dp_arena *arena) {
  const dp_node *node = graph->nodes[input.node];
  if (dp_node_is(node, "_Arg"))
    return (char *)node->name;
  for (int32_t i = 0; i < node->op->output_count; i++) {
    int32_t begin, end;
    assert_ok(dp_node_output_range(node, node->op->outputs[i].name, &begin, &end));
    if (input.output >= begin && input.output < end)
      return dp_arena_printf(arena, "%s:%s:%d", node->name, node->op->outputs[i].name,
                             input.output - begin);
  }
  fail_msg("no output %d of %s", input.output, node->name);
  return NULL;
}

static inline Tensorflow__OpDef__ArgDef *body_end(const dp_node *node, dp_arena *arena) {
  Tensorflow__OpDef__ArgDef *made = dp_wire_new(arena, &tensorflow__op_def__arg_def__descriptor);
  made->name = (char *)node->name;
  made->type = (Tensorflow__DataType)dp_node_attr(node, "T")->type;
  return made;
}

static inline void add_result(Tensorflow__FunctionDef *made, const dp_graph *graph,
                              const dp_node *node, dp_arena *arena) {
  made->signature->output_arg[made->signature->n_output_arg++] = body_end(node, arena);
  Tensorflow__FunctionDef__RetEntry *entry =
      dp_wire_new(arena, &tensorflow__function_def__ret_entry__descriptor);
  entry->key = (char *)node->name;
  entry->value = body_reference(graph, node->inputs[0], arena);
  made->ret[made->n_ret++] = entry;
}

static inline void add_control_result(Tensorflow__FunctionDef *made, const dp_node *node,
                                      dp_arena *arena) {
  made->signature->control_output[made->signature->n_control_output++] = (char *)node->name;
  Tensorflow__FunctionDef__ControlRetEntry *entry =
      dp_wire_new(arena, &tensorflow__function_def__control_ret_entry__descriptor);
  entry->key = entry->value = (char *)node->name;
  made->control_ret[made->n_control_ret++] = entry;
}

static inline Tensorflow__FunctionDef *make_function(const char *name, const dp_graph *graph,
                                                     dp_arena *arena) {
  Tensorflow__FunctionDef *made = dp_wire_new(arena, &tensorflow__function_def__descriptor);
  made->signature = dp_wire_new(arena, &tensorflow__op_def__descriptor);
  made->signature->name = (char *)name;
  made->signature->input_arg = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__ArgDef *, 16);
  made->signature->output_arg = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__ArgDef *, 16);
  made->signature->control_output = DP_ARENA_ARRAY(arena, char *, 16);
  made->ret = DP_ARENA_ARRAY(arena, Tensorflow__FunctionDef__RetEntry *, 16);
  made->control_ret = DP_ARENA_ARRAY(arena, Tensorflow__FunctionDef__ControlRetEntry *, 16);
  made->node_def = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, graph->node_count);
  for (int32_t id = 0; id < graph->node_count; id++) {
    const dp_node *node = graph->nodes[id];
    if (strncmp(node->name, "must", 4) == 0)
      add_control_result(made, node, arena);
    if (dp_node_is(node, "_Arg")) {
      made->signature->input_arg[made->signature->n_input_arg++] = body_end(node, arena);
    } else if (dp_node_is(node, "_Retval")) {
      add_result(made, graph, node, arena);
    } else {
      Tensorflow__NodeDef *def = dp_node_export(graph, node, arena);
      for (int32_t i = 0; i < node->input_count; i++)
        def->input[i] = body_reference(graph, node->inputs[i], arena);
      made->node_def[made->n_node_def++] = def;
      made->signature->is_stateful |= node->op->is_stateful;
    }
  }
  return made;
}

/* The body may call functions that the library has already. */
static inline void add_function(dp_library *library, const char *name, const char *body) {
  dp_arena *arena = dp_arena_create();
  dp_graph *graph = dp_graph_create(library);
  add_lines(graph, body);
  Tensorflow__FunctionDefLibrary message = TENSORFLOW__FUNCTION_DEF_LIBRARY__INIT;
  Tensorflow__FunctionDef *function = make_function(name, graph, arena);
  message.n_function = 1;
  message.function = &function;
  assert_ok(dp_library_add(library, &message));
  dp_graph_destroy(graph);
  dp_arena_destroy(arena);
}

#endif
