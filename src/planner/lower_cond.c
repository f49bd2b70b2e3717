/* If and Case. Every input goes through a Switch by the predicate (Case: a _SwitchN by the index).
 * Each branch becomes a call, whose nodes run only when its inputs are alive. Every output is the
 * Merge of the branches' outputs.
 *
 * A control edge from the If becomes one from the node branch_executed: a Merge of the branches'
 * pivots that waits for the calls. So a branch without results still has its effects before readers
 * go on. */
#include "planner/lower_internal.h"

typedef struct branching {
  lowerer *l;
  dp_node *node;
  const dp_func *const *branches;
  int32_t count;
  bool by_predicate;
  dp_input selector;
  dp_node **pivots;
  dp_node **calls;
  dp_input *arguments; /* count rows of input_count - 1 */
  dp_node *done;
} branching;

static dp_status *add_switch(branching *b, const char *part, const char *device, dp_input value,
                             int32_t type, dp_node **node_out) {
  dp_attr attrs[] = {attr_type("T", dp_dtype_base(type)), attr_int("num_outs", b->count)};
  dp_input inputs[] = {value, b->selector};
  lower_node wanted = {.op = b->by_predicate ? "Switch" : "_SwitchN",
                       .name = lower_name(b->l, b->node->name, part),
                       .device = device,
                       .inputs = inputs,
                       .input_count = 2,
                       .attrs = attrs,
                       .attr_count = b->by_predicate ? 1 : 2};
  return lower_add(b->l, b->node, &wanted, node_out);
}

static dp_status *add_pivots(branching *b) {
  static const char *const names[] = {"pivot_f", "pivot_t"};
  dp_node *fork;
  int32_t type = b->node->input_types[0];
  const char *part = b->by_predicate ? "switch_pred" : "branch_index";
  DP_RETURN_IF_ERROR(add_switch(b, part, NULL, b->selector, type, &fork));
  dp_rewrite_take_controls(&b->l->rewrite, fork, b->node);
  for (int32_t i = 0; i < b->count; i++) {
    dp_input side = {fork->id, i};
    dp_attr attr = attr_type("T", dp_dtype_base(type));
    const char *name = b->by_predicate ? names[i] : dp_arena_printf(b->l->arena, "pivot_%d", i);
    lower_node wanted = {.op = "Identity",
                         .name = lower_name(b->l, b->node->name, name),
                         .inputs = &side,
                         .input_count = 1,
                         .attrs = &attr,
                         .attr_count = 1};
    DP_RETURN_IF_ERROR(lower_add(b->l, b->node, &wanted, &b->pivots[i]));
  }
  return NULL;
}

static dp_status *add_arguments(branching *b) {
  int32_t width = b->node->input_count - 1;
  for (int32_t i = 0; i < width; i++) {
    dp_input value = dp_rewrite_input(&b->l->rewrite, b->node->inputs[i + 1]);
    const dp_node *source = b->l->graph->nodes[value.node];
    dp_node *fork;
    DP_RETURN_IF_ERROR(
        add_switch(b, source->name, source->device, value, b->node->input_types[i + 1], &fork));
    for (int32_t k = 0; k < b->count; k++)
      b->arguments[k * width + i] = (dp_input){fork->id, k};
  }
  return NULL;
}

static dp_status *add_calls(branching *b) {
  static const char *const names[] = {"else", "then"};
  int32_t width = b->node->input_count - 1;
  for (int32_t i = 0; i < b->count; i++) {
    const char *name = b->by_predicate ? names[i] : dp_arena_printf(b->l->arena, "branch%d", i);
    lower_node wanted = {.function = b->branches[i],
                         .name = lower_name(b->l, b->node->name, name),
                         .inputs = b->arguments + i * width,
                         .input_count = width};
    DP_RETURN_IF_ERROR(lower_add(b->l, b->node, &wanted, &b->calls[i]));
    if (b->calls[i]->output_count != b->node->output_count)
      return DP_INVALID("Node '%s' has %d outputs, but its branch '%s' has %d", b->node->name,
                        b->node->output_count, b->branches[i]->name, b->calls[i]->output_count);
    lower_row_of(b->l, b->calls[i]->id)->must_inline = true;
    dp_node_add_control(b->l->graph, b->calls[i], b->pivots[i]->id);
  }
  return NULL;
}

static dp_status *add_merge(branching *b, const char *part, const dp_input *inputs, int32_t type,
                            dp_node **node_out) {
  dp_attr attrs[] = {attr_type("T", dp_dtype_base(type)), attr_int("N", b->count)};
  lower_node wanted = {.op = "Merge",
                       .name = lower_name(b->l, b->node->name, part),
                       .inputs = inputs,
                       .input_count = b->count,
                       .attrs = attrs,
                       .attr_count = 2};
  return lower_add(b->l, b->node, &wanted, node_out);
}

static dp_status *add_outputs(branching *b, dp_input *outputs) {
  dp_input *sides = DP_ARENA_ARRAY(b->l->arena, dp_input, b->count);
  for (int32_t i = 0; i < b->node->output_count; i++) {
    for (int32_t k = 0; k < b->count; k++)
      sides[k] = (dp_input){b->calls[k]->id, i};
    dp_node *merge;
    DP_RETURN_IF_ERROR(add_merge(b, b->by_predicate ? "output" : "merge", sides,
                                 b->node->output_types[i], &merge));
    outputs[i] = (dp_input){merge->id, 0};
  }
  for (int32_t k = 0; k < b->count; k++)
    sides[k] = (dp_input){b->pivots[k]->id, 0};
  DP_RETURN_IF_ERROR(add_merge(b, "branch_executed", sides, b->node->input_types[0], &b->done));
  for (int32_t k = 0; k < b->count; k++)
    dp_node_add_control(b->l->graph, b->done, b->calls[k]->id);
  return NULL;
}

/* A predicate may also be a number (true unless 0) or a string (true unless empty). Such an If is
 * not lowered: its kernel calls the branches. */
static bool can_lower(const branching *b) {
  return dp_dtype_base(b->node->input_types[0]) == (b->by_predicate ? DP_BOOL : DP_INT32);
}

dp_status *lower_branches(lowerer *l, dp_node *node, const dp_func *const *branches,
                          int32_t branch_count, bool by_predicate) {
  branching b = {.l = l,
                 .node = node,
                 .branches = branches,
                 .count = branch_count,
                 .by_predicate = by_predicate,
                 .selector = node->inputs[0],
                 .pivots = DP_ARENA_ARRAY(l->arena, dp_node *, branch_count),
                 .calls = DP_ARENA_ARRAY(l->arena, dp_node *, branch_count),
                 .arguments = DP_ARENA_ARRAY(l->arena, dp_input,
                                             (size_t)branch_count * (size_t)node->input_count)};
  if (!can_lower(&b))
    return NULL;
  dp_input *outputs = DP_ARENA_ARRAY(l->arena, dp_input, node->output_count + 1);
  DP_RETURN_IF_ERROR(add_pivots(&b));
  DP_RETURN_IF_ERROR(add_arguments(&b));
  DP_RETURN_IF_ERROR(add_calls(&b));
  DP_RETURN_IF_ERROR(add_outputs(&b, outputs));
  return lower_replace(l, node, outputs, b.done->id);
}
