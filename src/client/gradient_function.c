/* Gradients of function calls, and of functional conditionals (If, Case) and loops (While).
 *
 * A called function for which the library names a gradient function calls that. All else is
 * differentiated on a copy: the functions are inlined into the graph as v1 control flow, which
 * reads the same inputs, and the gradients of the copy are taken. So the forward pass is computed a
 * second time for the gradient. That is right only for functions without side effects; functions
 * with side effects are refused (inline.c). */
#include "client/gradient_internal.h"
#include "client/inline_internal.h"
#include "client/loop_internal.h"

/* An Identity of each input from `first` on. They are the xs of the copy: its gradients end there.
 */
static TF_Output *copy_inputs(gradient_call *g, int first) {
  int count = input_count(g) - first;
  TF_Output *copies = DP_NEW_ARRAY(TF_Output, count + 1);
  for (int i = 0; i < count; i++)
    copies[i] = dp_identity(g->scope, input(g, first + i));
  return copies;
}

/* ---- Calls ---- */

/* Inlines the gradient function that the library names. It takes the function's arguments and the
 * gradients of its results. */
static void call_given(gradient_call *g, const dp_func *gradient) {
  int count = input_count(g), results = output_count(g);
  TF_Output *inputs = DP_NEW_ARRAY(TF_Output, count + results + 1);
  TF_Output *outputs = DP_NEW_ARRAY(TF_Output, count + 1);
  for (int i = 0; i < count; i++)
    inputs[i] = input(g, i);
  for (int i = 0; i < results; i++)
    inputs[count + i] = above(g, i);
  dp_client_inline(g->scope, gradient, (dp_outputs){inputs, count + results},
                   g->scope->source_control, outputs);
  for (int i = 0; i < count; i++)
    GIVE(g, i, outputs[i]);
  dp_free(inputs);
  dp_free(outputs);
}

static void call_function(gradient_call *g, const dp_func *function) {
  const dp_function *definition =
      dp_library_find(g->operation->graph->graph->library, function->name);
  if (definition && definition->gradient) {
    dp_func gradient = {definition->gradient, function->attr_count, function->attrs};
    call_given(g, &gradient);
    return;
  }
  TF_Output *inputs = copy_inputs(g, 0);
  TF_Output *outputs = DP_NEW_ARRAY(TF_Output, output_count(g) + 1);
  dp_client_inline(g->scope, function, (dp_outputs){inputs, input_count(g)},
                   g->scope->source_control, outputs);
  give_from_copy(g, 0, (dp_outputs){inputs, input_count(g)},
                 (dp_outputs){outputs, output_count(g)});
  dp_free(inputs);
  dp_free(outputs);
}

static void call(gradient_call *g) {
  call_function(g, attribute(g, "f")->func);
}

/* A node whose op is a function. */
static void direct_call(gradient_call *g) {
  const dp_node *node = g->operation->node;
  call_function(g, &(dp_func){node->op->name, node->attr_count, node->attrs});
}
const gradient_row dp_gradient_direct_call = {"", direct_call};

/* ---- Conditionals ---- */

static TF_Output as_truth(gradient_call *g, TF_Output condition) {
  return type_of(condition) == TF_BOOL
             ? condition
             : dp_not_equal(g->scope, condition, number_like(g->scope, condition, 0));
}

static void branch(gradient_call *g, const char *attr, int side, TF_Output condition,
                   const TF_Output *inputs, int count, TF_Output *outputs) {
  dp_scope *s = g->scope;
  TF_Output *own = DP_NEW_ARRAY(TF_Output, count + 1);
  for (int i = 0; i < count; i++) {
    dp_switch_outputs ways = dp_switch(s, inputs[i], condition);
    own[i] = side ? ways.output_true : ways.output_false;
  }
  dp_switch_outputs ways = dp_switch(s, condition, condition);
  TF_Output pivot = dp_identity(s, side ? ways.output_true : ways.output_false);
  dp_client_inline(s, attribute(g, attr)->func, (dp_outputs){own, count}, pivot.oper, outputs);
  dp_free(own);
}

static void conditional(gradient_call *g) {
  int count = input_count(g) - 1, results = output_count(g);
  TF_Output condition = as_truth(g, input(g, 0)), *inputs = copy_inputs(g, 1);
  TF_Output *outputs = DP_NEW_ARRAY(TF_Output, 3 * results + 1);
  branch(g, "else_branch", 0, condition, inputs, count, outputs + results);
  branch(g, "then_branch", 1, condition, inputs, count, outputs + 2 * results);
  for (int i = 0; i < results && dp_scope_ok(g->scope); i++)
    outputs[i] =
        dp_merge(g->scope, DP_OUTPUTS(outputs[results + i], outputs[2 * results + i])).output;
  give_from_copy(g, 1, (dp_outputs){inputs, count}, (dp_outputs){outputs, results});
  dp_free(inputs);
  dp_free(outputs);
}

/* Puts all branches of a Case into the graph. Branch i runs if the first input is i; the last
 * branch runs for every other number. Each branch takes all inputs, the number too, from a Switch
 * behind the branch before it; an Identity of the number keeps its operations in the branch.
 * `inputs` are overwritten; `outputs` gets the results of each branch. */
static void case_branches(gradient_call *g, TF_Output *inputs, int count, TF_Output *outputs) {
  dp_scope *s = g->scope;
  const dp_attr *branches = attribute(g, "branches");
  int last = branches->count - 1, results = output_count(g);
  TF_Output *room = DP_NEW_ARRAY(TF_Output, count);
  for (int i = 0; i <= last && dp_scope_ok(s); i++) {
    TF_Output *own = i < last ? room : inputs;
    TF_Output is_mine = dp_equal(s, inputs[0], integer(s, i));
    for (int k = 0; k < count && i < last; k++) {
      dp_switch_outputs ways = dp_switch(s, inputs[k], is_mine);
      own[k] = ways.output_true;
      inputs[k] = ways.output_false;
    }
    TF_Output pivot = dp_identity(s, own[0]);
    dp_client_inline(s, &branches->funcs[i], (dp_outputs){own + 1, count - 1}, pivot.oper,
                     outputs + i * results);
  }
  dp_free(room);
}

static void cases(gradient_call *g) {
  int count = input_count(g), results = output_count(g), ways = attribute(g, "branches")->count;
  TF_Output *inputs = copy_inputs(g, 0), *left = DP_NEW_ARRAY(TF_Output, count);
  TF_Output *outputs = DP_NEW_ARRAY(TF_Output, ways * results + 1);
  TF_Output *merged = DP_NEW_ARRAY(TF_Output, results + 1), *from = DP_NEW_ARRAY(TF_Output, ways);
  for (int i = 0; i < count; i++)
    left[i] = inputs[i];
  case_branches(g, left, count, outputs);
  for (int i = 0; i < results && dp_scope_ok(g->scope); i++) {
    for (int k = 0; k < ways; k++)
      from[k] = outputs[k * results + i];
    merged[i] = dp_merge(g->scope, ((dp_outputs){from, ways})).output;
  }
  give_from_copy(g, 1, (dp_outputs){inputs + 1, count - 1}, (dp_outputs){merged, results});
  dp_free(inputs);
  dp_free(left);
  dp_free(outputs);
  dp_free(merged);
  dp_free(from);
}

/* ---- Loops ---- */

static void loop(gradient_call *g) {
  dp_scope *s = g->scope;
  int count = input_count(g);
  TF_Output *inputs = copy_inputs(g, 0), *inside = DP_NEW_ARRAY(TF_Output, count + 1);
  TF_Output *outputs = DP_NEW_ARRAY(TF_Output, count + 1), condition = {0};
  loop_value *values = DP_NEW_ARRAY(loop_value, count + 1);
  const dp_attr *parallel = attribute(g, "parallel_iterations");
  loop_frame frame = {s, s->prefix, parallel ? parallel->integer : 10};
  for (int i = 0; i < count; i++) {
    values[i] = dp_loop_enter(&frame, inputs[i]);
    inside[i] = values[i].merged;
  }
  dp_client_inline(s, attribute(g, "cond")->func, (dp_outputs){inside, count}, inside[0].oper,
                   &condition);
  if (dp_scope_ok(s))
    condition = dp_loop_cond(s, as_truth(g, condition));
  for (int i = 0; i < count; i++) {
    dp_loop_split(&frame, &values[i], condition);
    inside[i] = dp_identity(s, values[i].before);
  }
  dp_client_inline(s, attribute(g, "body")->func, (dp_outputs){inside, count}, inside[0].oper,
                   outputs);
  for (int i = 0; i < count && dp_scope_ok(s); i++) {
    dp_loop_close(&frame, &values[i], outputs[i]);
    outputs[i] = values[i].after;
  }
  give_from_copy(g, 0, (dp_outputs){inputs, input_count(g)},
                 (dp_outputs){outputs, output_count(g)});
  dp_free(inputs);
  dp_free(inside);
  dp_free(outputs);
  dp_free(values);
}

const gradient_row dp_gradient_function[] = {
    {"Case", cases},
    {"If", conditional},
    {"PartitionedCall", call},
    {"StatefulPartitionedCall", call},
    {"StatelessCase", cases},
    {"StatelessIf", conditional},
    {"StatelessWhile", loop},
    {"While", loop},
    {NULL, NULL},
};
