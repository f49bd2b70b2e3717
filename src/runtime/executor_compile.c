/* Compiles a graph: every node becomes an item with its kernel, its edges sorted by output, its
 * place among the counters and values of its frame. Done once, in the thread that creates the
 * executor; afterwards only an item's cost and label change. */
#include "runtime/executor_internal.h"

#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "runtime/kernel_cache_internal.h"

typedef struct compiler {
  dp_executor *executor;
  const dp_executor_options *options;
  dp_fanout fanout;
  dp_frame_search search;
  int32_t *item_of; /* by node id */
} compiler;

static bool is_transfer(const dp_node *node) {
  const char *op = node->op->name;
  return op[0] == '_' && (!strcmp(op, "_Send") || !strcmp(op, "_Recv") ||
                          !strcmp(op, "_HostSend") || !strcmp(op, "_HostRecv"));
}

static bool is_receive(const dp_node *node) {
  return dp_node_is(node, "_Recv") || dp_node_is(node, "_HostRecv");
}

/* Whether an input is a reference, or a reading of one that has not been made yet. */
static bool comes_from_reference(const dp_graph *graph, dp_input input) {
  for (;;) {
    const dp_node *source = dp_graph_node(graph, input.node);
    if (dp_dtype_is_ref(source->output_types[input.output]))
      return true;
    if (!dp_node_is(source, "Identity"))
      return false;
    input = source->inputs[0];
  }
}

static unsigned flags_of(const dp_graph *graph, const dp_node *node, const dp_kernel *kernel) {
  unsigned flags = 0;
  if (dp_node_is_merge(node))
    flags |= DP_ITEM_MERGE;
  else if (is_transfer(node) || (kernel->flags & DP_KERNEL_DEAD_INPUTS))
    flags |= DP_ITEM_RUNS_DEAD;
  if (dp_node_is(node, "ControlTrigger"))
    flags |= DP_ITEM_CONTROL_TRIGGER;
  if (dp_node_is_switch(node) || is_receive(node))
    flags |= DP_ITEM_MAY_OMIT;
  if (node->op->allows_uninitialized_input)
    flags |= DP_ITEM_ALLOWS_UNINITIALIZED;
  if (kernel->flags & DP_KERNEL_CHEAP)
    flags |= DP_ITEM_CHEAP;
  if (kernel->compute_async || (kernel->flags & DP_KERNEL_BLOCKING))
    flags |= DP_ITEM_DETACHED;
  for (int32_t i = 0; i < node->input_count; ++i) {
    if (comes_from_reference(graph, node->inputs[i]) || dp_dtype_is_ref(node->input_types[i]))
      flags |= DP_ITEM_REFERENCES;
  }
  if ((flags & DP_ITEM_REFERENCES) && dp_node_is(node, "Identity"))
    flags |= DP_ITEM_READS;
  return flags;
}

static dp_status *set_kind(compiler *compiler, dp_item *item) {
  dp_frame_plan *frames = compiler->executor->frames;
  const dp_node *node = item->node;
  if (dp_node_is_enter(node)) {
    item->kind = DP_ITEM_ENTER;
    bool is_constant = false;
    DP_RETURN_IF_ERROR(dp_node_get_bool(node, "is_constant", &is_constant));
    item->child_frame = compiler->search.child_of[node->id];
    frames[item->child_frame].enter_count++;
    if (is_constant) {
      frames[item->child_frame].constant_count++;
      item->flags |= DP_ITEM_CONSTANT;
    }
  } else if (dp_node_is_exit(node)) {
    item->kind = DP_ITEM_EXIT;
    item->exit_index = frames[item->frame].exit_count++;
  } else if (dp_node_is_next_iteration(node)) {
    item->kind = DP_ITEM_NEXT_ITERATION;
    frames[item->frame].next_count++;
  }
  return NULL;
}

static dp_status *make_kernel(compiler *compiler, dp_item *item) {
  const dp_executor_options *options = compiler->options;
  dp_kernel_setup setup = {.graph = compiler->executor->graph,
                           .node = item->node,
                           .device = options->device,
                           .functions = options->functions,
                           .session_handle = options->session_handle ? options->session_handle : "",
                           .router = options->router};
  dp_status *status = dp_kernel_cache_get(options->kernels, &setup, &item->instance);
  if (!status) {
    item->kernel = item->instance->kernel;
    item->state = item->instance->state;
    return NULL;
  }
  return strstr(dp_status_message(status), "{{node ")
             ? status
             : dp_status_append(status, "\n\t [[{{node %s}}]]", dp_node_client_name(item->node));
}

static dp_status *make_item(compiler *compiler, const dp_node *node, dp_item *item) {
  dp_executor *executor = compiler->executor;
  item->node = node;
  item->frame = compiler->search.frame_of[node->id];
  atomic_init(&item->cost, UINT32_MAX);
  DP_RETURN_IF_ERROR(make_kernel(compiler, item));
  item->flags = (uint16_t)flags_of(executor->graph, node, item->kernel);
  if ((item->kernel->flags & DP_KERNEL_NOTHING) &&
      (node->output_count == 0 || dp_value_is_set(item->state)))
    item->flags |= DP_ITEM_NOTHING;
  dp_frame_plan *plan = &executor->frames[item->frame];
  item->input_count = node->input_count;
  item->output_count = node->output_count;
  item->counter = plan->counter_count++;
  item->first_input = plan->value_count;
  plan->value_count += node->input_count;
  if (node->output_count > executor->max_outputs)
    executor->max_outputs = node->output_count;
  return set_kind(compiler, item);
}

/* ---- Edges ---- */
static void add_edge(compiler *compiler, const dp_fanout_edge *from, dp_edge *edge) {
  const dp_item *reader = &compiler->executor->items[compiler->item_of[from->node]];
  *edge = (dp_edge){.item = compiler->item_of[from->node],
                    .counter = reader->counter,
                    .slot = from->input < 0 ? -1 : reader->first_input + from->input,
                    .output = from->output < 0 ? 0 : (uint32_t)from->output,
                    .is_merge = (reader->flags & DP_ITEM_MERGE) != 0};
}

static int compare_edges(const void *a, const void *b) {
  const dp_edge *left = a, *right = b;
  if (left->output != right->output)
    return left->output < right->output ? -1 : 1;
  return left->slot < right->slot ? -1 : left->slot > right->slot;
}

static dp_edge *add_edges(compiler *compiler, dp_item *item, dp_edge *next) {
  const dp_fanout *fanout = &compiler->fanout;
  int32_t begin = fanout->first[item->node->id], end = fanout->first[item->node->id + 1];
  dp_edge *first = next;
  item->edges = first;
  for (int32_t i = begin; i < end; ++i)
    if (fanout->edges[i].input >= 0)
      add_edge(compiler, &fanout->edges[i], next++);
  item->data_edges = (int32_t)(next - first);
  qsort(first, (size_t)item->data_edges, sizeof(dp_edge), compare_edges);
  for (int32_t i = 0; i < item->data_edges; ++i)
    first[i].is_last = i + 1 == item->data_edges || first[i + 1].output != first[i].output;
  for (int32_t i = begin; i < end; ++i)
    if (fanout->edges[i].input < 0)
      add_edge(compiler, &fanout->edges[i], next++);
  item->control_edges = (int32_t)(next - first) - item->data_edges;
  return next;
}

static void make_edges(compiler *compiler) {
  dp_executor *executor = compiler->executor;
  size_t total = (size_t)compiler->fanout.first[executor->graph->node_count];
  executor->edges = DP_NEW_ARRAY(dp_edge, total + 1);
  dp_edge *next = executor->edges;
  for (int32_t i = 0; i < executor->item_count; ++i)
    next = add_edges(compiler, &executor->items[i], next);
}

/* ---- Where things start ---- */
static void fill_counters(dp_executor *executor) {
  for (int32_t i = 0; i < executor->frame_count; ++i)
    executor->frames[i].counters =
        DP_NEW_ARRAY(uint64_t, (size_t)executor->frames[i].counter_count + 1);
  for (int32_t i = 0; i < executor->item_count; ++i) {
    const dp_item *item = &executor->items[i];
    int64_t inputs = (item->flags & DP_ITEM_MERGE) ? 1 : item->input_count;
    executor->frames[item->frame].counters[item->counter] =
        (uint64_t)(inputs + item->node->control_count);
  }
}

static void find_roots(dp_executor *executor) {
  executor->roots = DP_NEW_ARRAY(int32_t, (size_t)executor->item_count + 1);
  for (int pass = 0; pass < 2; ++pass)
    for (int32_t i = 0; i < executor->item_count; ++i) {
      const dp_item *item = &executor->items[i];
      bool waits = (item->flags & DP_ITEM_DETACHED) != 0;
      if (item->input_count == 0 && item->node->control_count == 0 && waits == (pass == 0))
        executor->roots[executor->root_count++] = i;
    }
}

static dp_status *compile(compiler *compiler) {
  dp_executor *executor = compiler->executor;
  dp_graph *graph = executor->graph;
  dp_status *status = dp_executor_find_frames(graph, &compiler->fanout, &compiler->search);
  executor->frames = compiler->search.frames.items;
  executor->frame_count = (int32_t)compiler->search.frames.count;
  DP_RETURN_IF_ERROR(status);
  executor->items = DP_NEW_ARRAY(dp_item, (size_t)graph->node_count + 1);
  for (int32_t id = 0; id < graph->node_count; ++id) {
    const dp_node *node = dp_graph_node(graph, id);
    if (!node)
      continue;
    compiler->item_of[id] = executor->item_count;
    DP_RETURN_IF_ERROR(make_item(compiler, node, &executor->items[executor->item_count++]));
  }
  make_edges(compiler);
  fill_counters(executor);
  find_roots(executor);
  return NULL;
}

dp_status *dp_executor_compile(dp_executor *executor, const dp_executor_options *options) {
  compiler compiler = {.executor = executor, .options = options};
  dp_fanout_init(&compiler.fanout, executor->graph);
  compiler.item_of = DP_NEW_ARRAY(int32_t, (size_t)executor->graph->node_count + 1);
  dp_status *status = compile(&compiler);
  dp_fanout_deinit(&compiler.fanout);
  dp_free(compiler.search.frame_of);
  dp_free(compiler.search.child_of);
  dp_free(compiler.item_of);
  return status;
}
