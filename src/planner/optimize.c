/* Optimizing a placed graph: a table of passes, run in order, again and again while one of them
 * changes something (MOST_ROUNDS at most). The client's configuration turns passes off, read as
 * TensorFlow reads it: common subexpressions and constant folding follow the level of
 * OptimizerOptions, the other passes have a switch each in RewriterConfig. The default is on.
 *
 * The master runs dp_planner_optimize, which uses nothing but TensorFlow's own ops, so that any
 * worker can run the result. Fusing into ops that only some workers have is for the worker that
 * will run them: dp_planner_fuse. */
#include <string.h>

#include "planner/optimize_internal.h"

/* ---- What nodes are ---- */

/* Switch, Merge, Enter, Exit, NextIteration, LoopCond and so on. */
static bool is_control_flow(const dp_node *node) {
  return dp_node_is_switch(node) || dp_node_is_merge(node) || dp_node_is_enter(node) ||
         dp_node_is_exit(node) || dp_node_is_next_iteration(node) || dp_node_is(node, "LoopCond") ||
         dp_node_is(node, "ControlTrigger");
}

static bool has_function(const dp_node *node) {
  for (int32_t i = 0; i < node->attr_count; i++)
    if ((node->attrs[i].kind & ~DP_ATTR_LIST) == DP_ATTR_FUNC)
      return true;
  return false;
}

bool node_is_pure(const dp_node *node) {
  if (node->op->is_stateful || node->op->is_function || node->output_count == 0 ||
      is_control_flow(node) || strncmp(node->op->name, "Placeholder", 11) == 0 ||
      has_function(node))
    return false;
  for (int32_t i = 0; i < node->input_count; i++)
    if (dp_dtype_is_ref(node->input_types[i]) || node->input_types[i] == DP_RESOURCE)
      return false;
  for (int32_t i = 0; i < node->output_count; i++)
    if (dp_dtype_is_ref(node->output_types[i]) || node->output_types[i] == DP_RESOURCE)
      return false;
  return true;
}

const dp_tensor *input_constant(const dp_graph *graph, dp_input input) {
  const dp_node *node = graph->nodes[input.node];
  if (!node_is_const(node))
    return NULL;
  const dp_attr *value = dp_node_attr(node, "value");
  return value && value->kind == DP_ATTR_TENSOR ? value->tensor : NULL;
}

bool node_same_device(const dp_node *a, const dp_node *b) {
  const char *x = a->assigned_device, *y = b->assigned_device;
  return x == y || (x && y && strcmp(x, y) == 0);
}

void optimizer_refresh(dp_graph_optimizer *o, dp_node *node) {
  for (int32_t i = 0; i < node->input_count; i++)
    node->inputs[i] = dp_rewrite_input(&o->rewrite, node->inputs[i]);
  for (int32_t i = 0; i < node->control_count; i++)
    node->controls[i] = dp_rewrite_control(&o->rewrite, node->controls[i]);
  node->control_count = dp_planner_sort_ids(node->controls, node->control_count);
}

dp_status *optimizer_add(dp_graph_optimizer *o, const dp_node *near, const char *op,
                         const char *name, const dp_input *inputs, int32_t input_count,
                         const dp_attr *attrs, int32_t attr_count, dp_node **node_out) {
  const char *free_name = dp_graph_unique_name(o->graph, name);
  DP_RETURN_IF_ERROR(dp_planner_add(o->graph, op, free_name, near->device, inputs, input_count,
                                    attrs, attr_count, node_out));
  (*node_out)->assigned_device = near->assigned_device;
  (*node_out)->original_name = dp_node_client_name(near);
  return NULL;
}

/* ---- Which passes ---- */

typedef struct optimize_switches {
  bool is_level_1, folds, finds_duplicates; /* OptimizerOptions */
  const Tensorflow__RewriterConfig *rewriter;
  bool is_rewriting;
} optimize_switches;

static bool is_on(Tensorflow__RewriterConfig__Toggle toggle) {
  return toggle != TENSORFLOW__REWRITER_CONFIG__TOGGLE__OFF;
}

static bool wants_fold(const optimize_switches *s) {
  return s->is_level_1 || s->folds ||
         (s->is_rewriting && (!s->rewriter || is_on(s->rewriter->constant_folding)));
}
static bool wants_duplicates(const optimize_switches *s) {
  return s->is_level_1 || s->finds_duplicates ||
         (s->is_rewriting && (!s->rewriter || (is_on(s->rewriter->common_subgraph_elimination) &&
                                               is_on(s->rewriter->arithmetic_optimization))));
}
static bool wants_arithmetic(const optimize_switches *s) {
  return s->is_rewriting && (!s->rewriter || is_on(s->rewriter->arithmetic_optimization));
}
static bool wants_branches(const optimize_switches *s) {
  return s->is_rewriting && (!s->rewriter || is_on(s->rewriter->loop_optimization));
}
static bool wants_dependencies(const optimize_switches *s) {
  return s->is_rewriting && (!s->rewriter || is_on(s->rewriter->dependency_optimization));
}
static bool wants_remapping(const optimize_switches *s) {
  return s->is_rewriting && (!s->rewriter || is_on(s->rewriter->remapping));
}

typedef struct optimize_pass {
  const char *name;
  bool (*is_wanted)(const optimize_switches *switches);
  dp_optimize_fn run;
} optimize_pass;

static const optimize_pass general_passes[] = {
    {"constant folding", wants_fold, dp_optimize_fold},
    {"dead branches", wants_branches, dp_optimize_branches},
    {"arithmetic", wants_arithmetic, dp_optimize_arithmetic},
    {"common subexpressions", wants_duplicates, dp_optimize_duplicates},
    {"dependencies", wants_dependencies, dp_optimize_dependencies},
    {"replicating constants", wants_fold, dp_optimize_replicate},
    {"grouping control edges", wants_dependencies, dp_optimize_group},
};
static const optimize_pass local_passes[] = {
    {"fusing", wants_remapping, dp_optimize_fuse},
    {"fusing element-wise ops", wants_remapping, dp_optimize_elementwise},
};

static optimize_switches read_switches(const Tensorflow__GraphOptions *options) {
  optimize_switches s = {.is_level_1 = true, .is_rewriting = true};
  if (!options)
    return s;
  const Tensorflow__OptimizerOptions *level = options->optimizer_options;
  if (level) {
    s.is_level_1 = level->opt_level != TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L0;
    s.folds = level->do_constant_folding;
    s.finds_duplicates = level->do_common_subexpression_elimination;
  }
  s.rewriter = options->rewrite_options;
  s.is_rewriting = !s.rewriter || !s.rewriter->disable_meta_optimizer;
  return s;
}

/* ---- Running them ---- */

static dp_status *run_passes(dp_graph_optimizer *o, const optimize_switches *switches,
                             const optimize_pass *passes, size_t count) {
  enum { MOST_ROUNDS = 6 };
  for (int round = 0, changes = 1; round < MOST_ROUNDS && changes; round++) {
    changes = 0;
    for (size_t i = 0; i < count; i++) {
      if (!passes[i].is_wanted(switches))
        continue;
      o->changes = 0;
      dp_status *status = passes[i].run(o);
      if (status)
        return dp_status_annotate(status, "optimizing (%s)", passes[i].name);
      dp_rewrite_apply(&o->rewrite);
      changes += o->changes;
    }
  }
  return NULL;
}

static dp_status *optimize(dp_graph *graph, const Tensorflow__GraphOptions *options,
                           const optimize_pass *passes, size_t count) {
  optimize_switches switches = read_switches(options);
  bool is_wanted = false;
  for (size_t i = 0; i < count; i++)
    is_wanted |= passes[i].is_wanted(&switches);
  if (!is_wanted || graph->node_count == 0)
    return NULL;
  dp_graph_optimizer o = {.graph = graph, .id_count = graph->node_count};
  dp_rewrite_init(&o.rewrite, graph);
  o.arena = o.rewrite.arena;
  o.is_end = DP_ARENA_ARRAY(o.arena, bool, graph->node_count);
  int32_t *ends = DP_ARENA_ARRAY(o.arena, int32_t, graph->node_count);
  int32_t end_count = dp_graph_find_ends(graph, ends);
  for (int32_t i = 0; i < end_count; i++)
    o.is_end[ends[i]] = true;
  /* Arguments of a function stay, even when no node reads them. */
  for (int32_t id = 0; id < o.id_count; id++)
    if (graph->nodes[id] && !o.is_end[id] && dp_node_is(graph->nodes[id], "_Arg")) {
      o.is_end[id] = true;
      ends[end_count++] = id;
    }
  dp_status *status = run_passes(&o, &switches, passes, count);
  if (!status)
    dp_rewrite_drop_unread(&o.rewrite, ends, end_count);
  dp_rewrite_deinit(&o.rewrite);
  return status;
}

dp_status *dp_planner_optimize(dp_graph *graph, const Tensorflow__GraphOptions *options) {
  return optimize(graph, options, general_passes, sizeof(general_passes) / sizeof(*general_passes));
}

dp_status *dp_planner_fuse(dp_graph *graph, const Tensorflow__GraphOptions *options) {
  DP_RETURN_IF_ERROR(
      optimize(graph, options, local_passes, sizeof(local_passes) / sizeof(*local_passes)));
  dp_planner_pair_pools(graph);
  return NULL;
}

dp_status *dp_planner_rewrite_body(void *arg, dp_graph *graph) {
  DP_RETURN_IF_ERROR(dp_planner_lower(graph));
  DP_RETURN_IF_ERROR(dp_planner_optimize(graph, arg));
  return dp_planner_fuse(graph, arg);
}
