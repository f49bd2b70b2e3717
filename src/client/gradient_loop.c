/* Gradients through v1 while loops.
 *
 * A forward loop is undone by a backward loop, which runs as many iterations. The variables of the
 * backward loop are the gradients of the forward loop's variables. Its body is the gradient of the
 * forward body. Forward values that it reads are pushed to a stack in each forward iteration and
 * popped in the opposite order. Each loop has a counter, which makes both run equally often and
 * keeps the stacks in order: the next iteration waits until all pushes, or pops, of this iteration
 * are done. A value from a branch of a conditional is pushed only if the branch is taken, and
 * popped under the same condition. */
#include "client/gradient_engine_internal.h"

#include <stdlib.h>
#include <string.h>
#include "client/loop_internal.h"

/* ---- Finding loops ---- */

struct gradient_loops {
  DP_ARRAY(gradient_loop *) items;
};

static TF_Operation *reader_of(TF_Operation *operation, int output,
                               bool (*is_it)(const dp_node *node)) {
  for (size_t i = 0; i < operation->readers.count; i++) {
    const operation_edge *edge = &operation->readers.items[i];
    if (edge->output == output && is_it(edge->reader.oper->node))
      return edge->reader.oper;
  }
  return NULL;
}

static TF_Operation *source_of(const TF_Operation *operation, int input) {
  return operation->graph->operations[operation->node->inputs[input].node];
}

static void add_enter(gradient_loop *loop, TF_Operation *enter) {
  DP_ARRAY_PUSH(&loop->enters, enter);
  const dp_attr *constant = dp_node_attr(enter->node, "is_constant");
  TF_Operation *merge = reader_of(enter, 0, dp_node_is_merge);
  if ((constant && constant->boolean) || !merge) {
    DP_ARRAY_PUSH(&loop->constants, enter);
    return;
  }
  loop_variable variable = {.enter = enter, .merge = merge};
  variable.split = reader_of(merge, 0, dp_node_is_switch);
  for (int32_t i = 0; i < merge->node->input_count; i++)
    if (dp_node_is_next_iteration(source_of(merge, i)->node))
      variable.next = source_of(merge, i);
  if (variable.split) {
    variable.exit = reader_of(variable.split, 0, dp_node_is_exit);
    loop->condition = source_of(variable.split, 1);
  }
  DP_ARRAY_PUSH(&loop->variables, variable);
}

static gradient_loop *loop_of_frame(gradient_loops *loops, const dp_node *enter) {
  const char *frame = dp_node_attr(enter, "frame_name")->string.data;
  for (size_t i = 0; i < loops->items.count; i++)
    if (strcmp(loops->items.items[i]->frame, frame) == 0)
      return loops->items.items[i];
  gradient_loop *loop = DP_NEW(gradient_loop);
  loop->frame = frame;
  loop->parallel_iterations = dp_node_attr(enter, "parallel_iterations")->integer;
  DP_ARRAY_PUSH(&loops->items, loop);
  return loop;
}

static bool is_own_exit(const gradient_loop *loop, const TF_Operation *operation) {
  for (size_t i = 0; i < loop->variables.count; i++)
    if (loop->variables.items[i].exit == operation)
      return true;
  return false;
}

/* Marks everything that depends on the loop's Enters, up to its exits. */
static void fill_loop(gradient_loop *loop, TF_Graph *graph, int32_t node_count) {
  loop->node_count = node_count;
  loop->has = DP_NEW_ARRAY(bool, node_count + 1);
  DP_ARRAY(int32_t) todo = {0};
  for (size_t i = 0; i < loop->enters.count; i++) {
    loop->has[loop->enters.items[i]->node->id] = true;
    DP_ARRAY_PUSH(&todo, loop->enters.items[i]->node->id);
  }
  while (todo.count) {
    TF_Operation *operation = graph->operations[todo.items[--todo.count]];
    for (size_t i = 0; i < operation->readers.count && !is_own_exit(loop, operation); i++) {
      int32_t reader = operation->readers.items[i].reader.oper->node->id;
      if (reader >= node_count || loop->has[reader])
        continue;
      loop->has[reader] = true;
      DP_ARRAY_PUSH(&todo, reader);
    }
  }
  DP_ARRAY_FREE(&todo);
}

static int32_t size_of(const gradient_loop *loop) {
  int32_t count = 0;
  for (int32_t i = 0; i < loop->node_count; i++)
    count += loop->has[i];
  return count;
}

/* The smallest loop around it. */
static const gradient_loop *find_parent(const gradient_loops *loops, const gradient_loop *loop) {
  const gradient_loop *parent = NULL;
  for (size_t i = 0; i < loops->items.count; i++) {
    const gradient_loop *other = loops->items.items[i];
    if (other != loop && dp_gradient_loop_has(other, loop->enters.items[0]->node->id) &&
        (!parent || size_of(other) < size_of(parent)))
      parent = other;
  }
  return parent;
}

gradient_loops *dp_gradient_loops_find(TF_Graph *graph, int32_t node_count) {
  gradient_loops *loops = DP_NEW(gradient_loops);
  for (int32_t i = 0; i < node_count; i++)
    if (graph->operations[i] && dp_node_is_enter(graph->operations[i]->node))
      add_enter(loop_of_frame(loops, graph->operations[i]->node), graph->operations[i]);
  for (size_t i = 0; i < loops->items.count; i++)
    fill_loop(loops->items.items[i], graph, node_count);
  for (size_t i = 0; i < loops->items.count; i++)
    loops->items.items[i]->parent = find_parent(loops, loops->items.items[i]);
  return loops;
}

void dp_gradient_loops_destroy(gradient_loops *loops) {
  for (size_t i = 0; i < loops->items.count; i++) {
    gradient_loop *loop = loops->items.items[i];
    DP_ARRAY_FREE(&loop->enters);
    DP_ARRAY_FREE(&loop->variables);
    DP_ARRAY_FREE(&loop->constants);
    dp_free(loop->has);
    dp_free(loop);
  }
  DP_ARRAY_FREE(&loops->items);
  dp_free(loops);
}

void dp_gradient_loops_enter(gradient_engine *engine, gradient_loops *loops) {
  engine->loops = loops;
  for (size_t i = 0; i < loops->items.count; i++) {
    gradient_loop *loop = loops->items.items[i];
    for (int32_t id = 0; loop->parent == engine->loop && id < loop->node_count; id++)
      if (loop->has[id] && loop->condition)
        engine->loop_of[id] = loop;
  }
}

/* ---- The two loops and their stacks ---- */

typedef struct loop_undo {
  gradient_engine *outer; /* the engine that met the loop */
  gradient_engine *body;  /* the engine that walks the loop's body */
  gradient_loop *loop;
  dp_scope *forward_outside, *forward; /* outside and inside of the forward loop */
  dp_scope *outside, *backward;        /* outside and inside of the backward loop */
  loop_frame back;
  TF_Operation *forward_pivot; /* runs at the start of each forward iteration */
  TF_Operation *forward_sync;  /* runs after all pushes of a forward iteration */
  TF_Operation *pivot, *sync;  /* the same in the backward loop; `sync` waits for all pops */
  TF_Output backward_condition;
  dp_map *values; /* "node:output" -> TF_Output* in the arena */
} loop_undo;

static TF_Output stacked(loop_undo *undo, TF_Output value);

/* A value from beside the forward loop, for use beside the backward loop. Inside of an outer loop
 * the two are in different loops, and the value goes over a stack. */
static TF_Output carry_back(loop_undo *undo, TF_Output value) {
  return undo->outer->undo ? stacked(undo->outer->undo, value) : value;
}

/* Counts the iterations, in the loop's own frame. */
static TF_Output count_forward(loop_undo *undo) {
  loop_frame frame = {undo->forward_outside, undo->loop->frame, undo->loop->parallel_iterations};
  loop_value count = dp_loop_enter(&frame, integer(frame.scope, 0));
  dp_loop_split(&frame, &count, (TF_Output){undo->loop->condition, 0});
  undo->forward_pivot = dp_identity(frame.scope, count.before).oper;
  undo->forward = dp_loop_scope(frame.scope, undo->forward_pivot);
  undo->forward_sync = dp_control_trigger(undo->forward);
  TF_Output next =
      dp_add(undo->forward, ((TF_Output){undo->forward_pivot, 0}), integer(undo->forward, 1));
  dp_loop_close(&frame, &count, next);
  if (dp_scope_ok(undo->outside))
    dp_client_add_control(next.oper, undo->forward_sync);
  return count.after;
}

/* Makes the counter of the backward loop, which runs `count` times. */
static void count_back(loop_undo *undo, TF_Output count) {
  loop_value left = dp_loop_enter(&undo->back, count);
  dp_scope *test = dp_loop_scope(undo->outside, left.merged.oper);
  TF_Output is_left = dp_greater(test, left.merged, integer(test, 0));
  undo->backward_condition = dp_loop_cond(undo->outside, is_left);
  dp_loop_split(&undo->back, &left, undo->backward_condition);
  undo->pivot = dp_identity(undo->outside, left.before).oper;
  undo->backward = dp_loop_scope(undo->outside, undo->pivot);
  undo->sync = dp_control_trigger(undo->backward);
  TF_Output next =
      dp_sub(undo->backward, ((TF_Output){undo->pivot, 0}), integer(undo->backward, 1));
  dp_loop_close(&undo->back, &left, next);
  if (!dp_scope_ok(undo->outside))
    return;
  dp_client_add_control(next.oper, undo->sync);
  if (undo->outer->undo) /* the outer loop's next iteration comes after all pops of this loop */
    dp_client_add_control(undo->outer->undo->sync, left.after.oper);
}

/* ---- Branches: which Switch decides whether a value exists ---- */

static bool is_branch(const TF_Operation *operation) {
  return dp_node_is_switch(operation->node) &&
         !dp_node_is(source_of(operation, 1)->node, "LoopCond");
}

static bool is_own_enter(const gradient_loop *loop, const TF_Operation *operation) {
  return dp_node_is_enter(operation->node) &&
         strcmp(dp_node_attr(operation->node, "frame_name")->string.data, loop->frame) == 0;
}

/* Walks back from a value, inside of the loop, to the Switch of the branch in which it is computed;
 * `output_out` is the branch. The walk passes over whole conditionals, whose Merge it meets before
 * their Switch (`depth` counts those it is in), and over inner loops. NULL: the value is computed
 * in every iteration. */
static TF_Operation *find_branch(const gradient_loop *loop, TF_Output value, int depth, bool *seen,
                                 int *output_out) {
  TF_Operation *operation = value.oper;
  const dp_node *node = operation->node;
  bool is_loops_merge = dp_node_is_merge(node) && dp_node_is_enter(source_of(operation, 0)->node);
  if (!dp_gradient_loop_has(loop, node->id) || is_own_enter(loop, operation) || seen[node->id] ||
      (is_loops_merge && is_own_enter(loop, source_of(operation, 0))))
    return NULL;
  if (is_branch(operation) && !depth) {
    *output_out = value.index;
    return operation;
  }
  depth += (dp_node_is_merge(node) && !is_loops_merge) - is_branch(operation);
  seen[node->id] = true;
  int32_t followed = dp_node_is_switch(node) || is_loops_merge ? 1 : node->input_count;
  TF_Operation *found = NULL;
  for (int32_t i = 0; i < followed && !found; i++)
    found = find_branch(
        loop,
        (TF_Output){operation->graph->operations[node->inputs[i].node], node->inputs[i].output},
        depth, seen, output_out);
  for (int32_t i = 0; i < node->control_count && !found; i++)
    found = find_branch(loop, (TF_Output){operation->graph->operations[node->controls[i]], 0},
                        depth, seen, output_out);
  return found;
}

/* The handle of a stack, available only if the branch that pushed `value` was taken. */
static TF_Output guard(loop_undo *undo, TF_Output value, TF_Output handle) {
  bool *seen = DP_NEW_ARRAY(bool, undo->loop->node_count + 1);
  int output = 0;
  TF_Operation *branch = find_branch(undo->loop, value, 0, seen, &output);
  dp_free(seen);
  if (!branch)
    return handle;
  const dp_input *edge = &branch->node->inputs[1];
  TF_Output condition = dp_gradient_forward(
      undo->body, (TF_Output){branch->graph->operations[edge->node], edge->output});
  dp_switch_outputs ways = dp_switch(undo->backward, handle, condition);
  return output ? ways.output_true : ways.output_false;
}

/* ---- Values of the forward pass ---- */

/* Enters a value from outside of all loops into the forward or the backward body, loop by loop. */
static TF_Output enter_all(loop_undo *undo, TF_Output value, bool is_back) {
  if (undo->outer->undo)
    value = enter_all(undo->outer->undo, value, is_back);
  loop_frame frame = {is_back ? undo->backward : undo->forward,
                      is_back ? undo->back.name : undo->loop->frame,
                      undo->loop->parallel_iterations};
  return dp_loop_constant(&frame, value);
}

/* Pushes a value of the forward body in each iteration, and gives the popped value in the backward
 * body. Nested loops need only one stack, because the counters keep their iterations in order. */
static TF_Output stacked(loop_undo *undo, TF_Output value) {
  TF_DataType type = type_of(value);
  const loop_undo *first = undo;
  while (first->outer->undo)
    first = first->outer->undo;
  TF_Output stack = dp_stack_v2(first->outside, integer(first->outside, -1), type);
  dp_scope *pushing = dp_scope_after(undo->forward, &undo->forward_pivot, 1);
  TF_Output push = dp_stack_push_v2(pushing, enter_all(undo, stack, false), value);
  dp_scope *popping = dp_scope_after(undo->backward, &undo->pivot, 1);
  TF_Output pop = dp_stack_pop_v2(popping, guard(undo, value, enter_all(undo, stack, true)), type);
  if (dp_scope_ok(undo->outside)) {
    dp_client_add_control(undo->forward_sync, push.oper);
    dp_client_add_control(undo->sync, pop.oper);
  }
  return pop;
}

static TF_Output copy_constant(dp_scope *scope, const dp_node *node) {
  TF_Tensor *tensor = dp_client_tensor(dp_tensor_copy(dp_node_attr(node, "value")->tensor));
  TF_Output copy = dp_const_tensor(scope, tensor);
  TF_DeleteTensor(tensor);
  return copy;
}

static TF_Output bring(loop_undo *undo, TF_Output value) {
  const dp_node *node = value.oper->node;
  loop_frame back = {undo->backward, undo->back.name, undo->back.parallel_iterations};
  if (!dp_gradient_loop_has(undo->loop, node->id))
    return dp_loop_constant(&back, dp_gradient_forward(undo->outer, value));
  for (size_t i = 0; i < undo->loop->constants.count; i++)
    if (undo->loop->constants.items[i] == value.oper)
      return dp_loop_constant(
          &back, dp_gradient_forward(
                     undo->outer, (TF_Output){source_of(value.oper, 0), node->inputs[0].output}));
  if (dp_node_is(node, "Const"))
    return copy_constant(undo->backward, node);
  return stacked(undo, value);
}

TF_Output dp_gradient_forward(gradient_engine *engine, TF_Output value) {
  if (!engine->undo || !dp_scope_ok(engine->scope))
    return value;
  dp_arena *arena = engine->scope->root->arena;
  const char *key = dp_arena_printf(arena, "%d:%d", value.oper->node->id, value.index);
  TF_Output *known = dp_map_get(engine->undo->values, key);
  if (known)
    return *known;
  known = DP_ARENA_NEW(arena, TF_Output);
  *known = bring(engine->undo, value);
  dp_map_put(engine->undo->values, key, known);
  return *known;
}

/* ---- Undoing a loop ---- */

/* The gradient of a variable's final value; zeros of its shape if none arrived. */
static TF_Output final_gradient(loop_undo *undo, loop_variable *variable) {
  dp_gradient sum = {0};
  if (variable->exit && dp_gradient_sum(undo->outer, variable->exit, &sum))
    return dp_gradient_dense(undo->outside, &sum);
  if (variable->exit)
    return dp_zeros_like(undo->outside,
                         dp_gradient_forward(undo->outer, ((TF_Output){variable->exit, 0})));
  TF_Output last = dp_exit(undo->forward_outside, ((TF_Output){variable->split, 0}));
  return dp_zeros_like(undo->outside, carry_back(undo, last));
}

/* Closes the backward loop's variables and gives the gradients of the initial values. */
static void give_variables(loop_undo *undo, dp_gradient *below, loop_value *values, int count) {
  int at = 0;
  for (size_t i = 0; i < undo->loop->variables.count && at < count; i++) {
    const loop_variable *variable = &undo->loop->variables.items[i];
    TF_Output start = {source_of(variable->enter, 0), variable->enter->node->inputs[0].output};
    if (!variable->split || !variable->next || !dp_gradient_is_trainable(start))
      continue;
    TF_Output next = dp_gradient_exists(&below[at])
                         ? dp_gradient_dense(undo->backward, &below[at])
                         : dp_zeros_like(undo->backward, values[at].before);
    dp_loop_close(&undo->back, &values[at], next);
    if (dp_gradient_is_wanted(undo->outer, start))
      dp_gradient_arrive(undo->outer, start, (dp_gradient){.values = values[at].after});
    at++;
  }
}

/* The gradient of a loop constant is the sum over all iterations. */
static void give_constant(loop_undo *undo, TF_Operation *enter, const dp_gradient *below) {
  TF_Output value = {source_of(enter, 0), enter->node->inputs[0].output};
  if (!dp_gradient_exists(below) || !dp_gradient_is_wanted(undo->outer, value))
    return;
  TF_Output part = dp_gradient_dense(undo->backward, below);
  TF_Output outside = dp_gradient_forward(undo->outer, value);
  TF_Output zeros = type_of(value) == TF_RESOURCE
                        ? dp_fill(undo->outside, dp_variable_shape(undo->outside, outside),
                                  number_like(undo->outside, part, 0))
                        : dp_zeros_like(undo->outside, outside);
  loop_value sum = dp_loop_enter(&undo->back, zeros);
  dp_loop_split(&undo->back, &sum, undo->backward_condition);
  dp_loop_close(&undo->back, &sum, dp_add(undo->backward, sum.before, part));
  dp_gradient_arrive(undo->outer, value, (dp_gradient){.values = sum.after});
}

static void undo_body(loop_undo *undo) {
  gradient_loop *loop = undo->loop;
  size_t most = loop->variables.count + loop->constants.count + 1;
  TF_Output *xs = DP_NEW_ARRAY(TF_Output, most), *ys = DP_NEW_ARRAY(TF_Output, most);
  TF_Output *dys = DP_NEW_ARRAY(TF_Output, most);
  loop_value *values = DP_NEW_ARRAY(loop_value, most);
  dp_gradient *below = DP_NEW_ARRAY(dp_gradient, most);
  int count = 0;
  for (size_t i = 0; i < loop->variables.count; i++) {
    loop_variable *variable = &loop->variables.items[i];
    TF_Output start = {source_of(variable->enter, 0), variable->enter->node->inputs[0].output};
    if (!variable->split || !variable->next || !dp_gradient_is_trainable(start))
      continue;
    values[count] = dp_loop_enter(&undo->back, final_gradient(undo, variable));
    dp_loop_split(&undo->back, &values[count], undo->backward_condition);
    xs[count] = (TF_Output){variable->split, 1};
    ys[count] = (TF_Output){source_of(variable->next, 0), variable->next->node->inputs[0].output};
    dys[count] = values[count].before;
    count++;
  }
  for (size_t i = 0; i < loop->constants.count; i++)
    xs[count + (int)i] = (TF_Output){loop->constants.items[i], 0};
  gradient_engine body;
  dp_gradient_engine_init(&body, undo->backward,
                          (dp_outputs){xs, count + (int)loop->constants.count}, undo->outer, loop);
  body.undo = undo;
  undo->body = &body;
  dp_gradient_loops_enter(&body, undo->outer->loops);
  if (dp_scope_ok(undo->outside))
    dp_gradient_walk(&body, (dp_outputs){ys, count}, dys, below);
  if (dp_scope_ok(undo->outside))
    give_variables(undo, below, values, count);
  for (size_t i = 0; dp_scope_ok(undo->outside) && i < loop->constants.count; i++)
    give_constant(undo, loop->constants.items[i], &below[count + (int)i]);
  dp_gradient_engine_deinit(&body);
  dp_free(xs);
  dp_free(ys);
  dp_free(dys);
  dp_free(values);
  dp_free(below);
}

static bool is_any_wanted(const gradient_engine *engine, const gradient_loop *loop) {
  for (size_t i = 0; i < loop->enters.count; i++)
    if (dp_gradient_is_wanted(engine, (TF_Output){source_of(loop->enters.items[i], 0),
                                                  loop->enters.items[i]->node->inputs[0].output}))
      return true;
  return false;
}

void dp_gradient_loop_undo(gradient_engine *engine, gradient_loop *loop) {
  bool is_any = false;
  for (size_t i = 0; i < loop->variables.count; i++) {
    dp_gradient sum = {0};
    TF_Operation *exit = loop->variables.items[i].exit;
    is_any |= exit && dp_gradient_sum(engine, exit, &sum);
  }
  if (!is_any || !is_any_wanted(engine, loop) || !dp_scope_ok(engine->scope))
    return;
  dp_arena *arena = engine->scope->root->arena;
  loop_undo undo = {.outer = engine, .loop = loop, .values = dp_map_create()};
  undo.outside = dp_scope_named(engine->scope, dp_arena_printf(arena, "%s_grad", loop->frame));
  undo.forward_outside = undo.outside;
  if (engine->undo) { /* an inner loop: its counter runs in the forward body of the outer loop */
    undo.forward_outside = dp_scope_named(undo.outside, "forward");
    undo.forward_outside->source_control = engine->undo->forward_pivot;
  }
  undo.back = (loop_frame){undo.outside, dp_arena_printf(arena, "%sback", undo.outside->prefix),
                           loop->parallel_iterations};
  count_back(&undo, carry_back(&undo, count_forward(&undo)));
  if (dp_scope_ok(engine->scope))
    undo_body(&undo);
  dp_map_destroy(undo.values);
}
