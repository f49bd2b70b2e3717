/* The walk that adds the nodes of gradients to a graph.
 *
 * It visits the nodes between xs and ys: those that depend on an x and on which a y depends. It
 * starts at the ys. A node is ready when all nodes between that read it are done. Then the
 * gradients that arrived at each output are summed, and the function of the node's op
 * (gradient_internal.h) makes the gradients of its inputs. A while loop counts as one node, whose
 * outputs are its exits (gradient_loop.c). The graph's lock is held from start to end, so that a
 * failure can remove all new nodes. */
#include "client/gradient_engine_internal.h"

#include <string.h>

/* ---- Tables ---- */

/* NULL when the op is in no table. */
static const gradient_row *find_row(const char *op) {
  static const gradient_row *const tables[] = {
      dp_gradient_math,        dp_gradient_array,  dp_gradient_nn,           dp_gradient_reduce,
      dp_gradient_flow,        dp_gradient_matrix, dp_gradient_none,         dp_gradient_function,
      dp_gradient_tensor_list, dp_gradient_einsum, dp_gradient_tensor_array, dp_gradient_norm,
      dp_gradient_signal,      dp_gradient_sparse, dp_gradient_special,      dp_gradient_csr,
      dp_gradient_ragged,      dp_gradient_image,  dp_gradient_decompose,    dp_gradient_banded};
  for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
    for (const gradient_row *row = tables[i]; row->op; row++)
      if (strcmp(row->op, op) == 0)
        return row;
  return NULL;
}

dp_gradient_kind dp_gradient_kind_of(const char *op) {
  const gradient_row *row = find_row(op);
  return !row ? DP_GRADIENT_MISSING : row->compute ? DP_GRADIENT_YES : DP_GRADIENT_NONE;
}

/* ---- Values ---- */

const char *dp_gradient_source(const gradient_engine *engine) {
  while (engine->outer)
    engine = engine->outer;
  return engine->source;
}

TF_Output dp_gradient_dense(dp_scope *scope, const dp_gradient *gradient) {
  if (!dp_gradient_exists(gradient) || !dp_gradient_is_sparse(gradient))
    return gradient->values;
  TF_Output rows =
      dp_strided_slice(scope, gradient->dense_shape, dp_const_vector(scope, DP_INTS(0)),
                       dp_const_vector(scope, DP_INTS(1)), dp_const_vector(scope, DP_INTS(1)),
                       .shrink_axis_mask = 1);
  return dp_unsorted_segment_sum(scope, gradient->values, gradient->indices, rows);
}

TF_Output dp_gradient_above(gradient_call *g, int index) {
  if (dp_gradient_exists(&g->above[index]))
    return dp_gradient_dense(g->scope, &g->above[index]);
  return dp_zeros_like(g->scope, output(g, index));
}

/* Gradients flow through values of these types only. */
bool dp_gradient_is_trainable(TF_Output value) {
  switch (dp_dtype_base((int)TF_OperationOutputType(value))) {
  case DP_FLOAT:
  case DP_DOUBLE:
  case DP_HALF:
  case DP_BFLOAT16:
  case DP_COMPLEX64:
  case DP_COMPLEX128:
  case DP_RESOURCE:
  case DP_VARIANT:
    return true;
  default:
    return false;
  }
}

/* ---- What lies between ---- */

/* The number under which a node is marked and counted. A loop has one number for all its nodes: the
 * number of its condition. */
static int32_t unit_of(const gradient_engine *engine, int32_t id) {
  const gradient_loop *loop = engine->loop_of[id];
  return loop ? loop->condition->node->id : id;
}

/* Whether the walk of this engine may visit a node. */
static bool is_in_reach(const gradient_engine *engine, const dp_node *node) {
  if (node->id >= engine->node_count)
    return false;
  if (!engine->loop)
    return true;
  /* The body ends where the next iteration, or what follows the loop, begins. */
  bool is_end =
      !engine->loop_of[node->id] && (dp_node_is_exit(node) || dp_node_is_next_iteration(node));
  return !is_end && dp_gradient_loop_has(engine->loop, node->id);
}

static void mark_readers(gradient_engine *engine, TF_Operation *operation) {
  for (size_t i = 0; i < operation->readers.count; i++) {
    const operation_edge *edge = &operation->readers.items[i];
    const dp_node *reader = edge->reader.oper->node;
    if (edge->output < 0 || !is_in_reach(engine, reader) ||
        !dp_gradient_is_trainable((TF_Output){operation, edge->output}))
      continue;
    int32_t unit = unit_of(engine, reader->id);
    if (engine->is_reached[unit])
      continue;
    engine->is_reached[unit] = true;
    DP_ARRAY_PUSH(&engine->ready, unit);
  }
}

static void mark_reached(gradient_engine *engine) {
  for (int i = 0; i < engine->xs.count; i++) {
    int32_t unit = unit_of(engine, engine->xs.items[i].oper->node->id);
    if (!engine->is_reached[unit])
      DP_ARRAY_PUSH(&engine->ready, unit);
    engine->is_reached[unit] = true;
  }
  while (engine->ready.count) {
    int32_t id = engine->ready.items[--engine->ready.count];
    const gradient_loop *loop = engine->loop_of[id];
    if (!loop)
      mark_readers(engine, engine->graph->operations[id]);
    for (size_t i = 0; loop && i < loop->variables.count; i++)
      if (loop->variables.items[i].exit)
        mark_readers(engine, loop->variables.items[i].exit);
  }
}

/* The units whose outputs a unit reads, one entry per edge. The caller frees them. */
static int32_t *sources_of(const gradient_engine *engine, int32_t unit, int32_t *count_out) {
  const gradient_loop *loop = engine->loop_of[unit];
  const dp_node *node = engine->graph->graph->nodes[unit];
  int32_t count = loop ? (int32_t)loop->enters.count : node->input_count;
  int32_t *sources = DP_NEW_ARRAY(int32_t, count + 1);
  for (int32_t i = 0; i < count; i++)
    sources[i] =
        unit_of(engine, loop ? loop->enters.items[i]->node->inputs[0].node : node->inputs[i].node);
  *count_out = count;
  return sources;
}

/* Also counts, in `pending`, how many inputs of units between read each unit between. */
static void mark_between(gradient_engine *engine, dp_outputs ys) {
  for (int i = 0; i < ys.count; i++) {
    int32_t unit = unit_of(engine, ys.items[i].oper->node->id);
    if (!engine->is_reached[unit] || engine->is_between[unit])
      continue;
    engine->is_between[unit] = true;
    DP_ARRAY_PUSH(&engine->ready, unit);
  }
  while (engine->ready.count) {
    int32_t count,
        *sources = sources_of(engine, engine->ready.items[--engine->ready.count], &count);
    for (int32_t i = 0; i < count; i++) {
      if (!engine->is_reached[sources[i]])
        continue;
      engine->pending[sources[i]]++;
      if (engine->is_between[sources[i]])
        continue;
      engine->is_between[sources[i]] = true;
      DP_ARRAY_PUSH(&engine->ready, sources[i]);
    }
    dp_free(sources);
  }
}

/* ---- Sums ---- */

void dp_gradient_arrive(gradient_engine *engine, TF_Output at, dp_gradient gradient) {
  const dp_node *node = at.oper->node;
  gradient_list **lists = &engine->lists[node->id];
  if (!*lists)
    *lists = DP_NEW_ARRAY(gradient_list, node->output_count);
  DP_ARRAY_PUSH(&(*lists)[at.index], gradient);
}

static bool are_all_sparse(const gradient_list *list) {
  for (size_t i = 0; i < list->count; i++)
    if (!dp_gradient_is_sparse(&list->items[i]))
      return false;
  return true;
}

/* The sum of sparse gradients: the slices of all of them, concatenated. */
static dp_gradient join_slices(dp_scope *scope, const gradient_list *list) {
  TF_Output *values = DP_NEW_ARRAY(TF_Output, list->count);
  TF_Output *indices = DP_NEW_ARRAY(TF_Output, list->count);
  TF_DataType type = TF_INT32;
  for (size_t i = 0; i < list->count; i++)
    if (type_of(list->items[i].indices) == TF_INT64)
      type = TF_INT64;
  for (size_t i = 0; i < list->count; i++) {
    TF_Output index = list->items[i].indices;
    values[i] = list->items[i].values;
    indices[i] = type_of(index) == type ? index : dp_cast(scope, index, type);
  }
  TF_Output axis = dp_const_int32(scope, 0);
  dp_gradient joined = {
      .values = dp_concat_v2(scope, ((dp_outputs){values, (int)list->count}), axis),
      .indices = dp_concat_v2(scope, ((dp_outputs){indices, (int)list->count}), axis),
      .dense_shape = list->items[0].dense_shape};
  dp_free(values);
  dp_free(indices);
  return joined;
}

static dp_gradient add_up(dp_scope *scope, const gradient_list *list) {
  if (!list->count)
    return (dp_gradient){0};
  if (list->count == 1)
    return list->items[0];
  if (are_all_sparse(list))
    return join_slices(scope, list);
  TF_Output *terms = DP_NEW_ARRAY(TF_Output, list->count);
  for (size_t i = 0; i < list->count; i++)
    terms[i] = dp_gradient_dense(scope, &list->items[i]);
  dp_gradient sum = {.values = dp_add_n(scope, ((dp_outputs){terms, (int)list->count}))};
  dp_free(terms);
  return sum;
}

bool dp_gradient_sum(gradient_engine *engine, TF_Operation *operation, dp_gradient *sums) {
  gradient_list *lists = engine->lists[operation->node->id];
  bool is_any = false;
  for (int32_t i = 0; lists && i < operation->node->output_count; i++) {
    sums[i] = add_up(engine->scope, &lists[i]);
    is_any |= dp_gradient_exists(&sums[i]);
    if (lists[i].count)
      lists[i].items[0] = sums[i];
    lists[i].count = lists[i].count != 0;
  }
  return is_any;
}

/* ---- One node ---- */

static TF_Output input_of(const TF_Operation *operation, int32_t index) {
  const dp_input *edge = &operation->node->inputs[index];
  return (TF_Output){operation->graph->operations[edge->node], edge->output};
}

bool dp_gradient_is_wanted(const gradient_engine *engine, TF_Output value) {
  return engine->is_between[unit_of(engine, value.oper->node->id)] &&
         dp_gradient_is_trainable(value);
}

static void differentiate(gradient_engine *engine, TF_Operation *operation,
                          const dp_gradient *sums) {
  const dp_node *node = operation->node;
  bool *wanted = DP_NEW_ARRAY(bool, node->input_count + 1);
  bool is_any = false;
  for (int32_t i = 0; i < node->input_count; i++)
    is_any |= wanted[i] = dp_gradient_is_wanted(engine, input_of(operation, i));
  const gradient_row *row = NULL;
  if (is_any)
    row = node->op->is_function ? &dp_gradient_direct_call : find_row(node->op->name);
  if (is_any && !row)
    dp_scope_fail(engine->scope, TF_NOT_FOUND,
                  "No gradient defined for op: %s (of the operation '%s')", node->op->name,
                  node->name);
  if (row && row->compute) {
    dp_arena *arena = engine->scope->root->arena;
    dp_gradient *below = DP_NEW_ARRAY(dp_gradient, node->input_count + 1);
    gradient_call call = {
        .engine = engine,
        .scope = dp_scope_named(engine->scope, dp_arena_printf(arena, "%s_grad", node->name)),
        .operation = operation,
        .above = sums,
        .below = below,
        .wanted = wanted};
    row->compute(&call);
    for (int32_t i = 0; i < node->input_count; i++)
      if (wanted[i] && dp_gradient_exists(&below[i]))
        dp_gradient_arrive(engine, input_of(operation, i), below[i]);
    dp_free(below);
  }
  dp_free(wanted);
}

static void do_node(gradient_engine *engine, int32_t id) {
  TF_Operation *operation = engine->graph->operations[id];
  dp_gradient *sums = DP_NEW_ARRAY(dp_gradient, operation->node->output_count + 1);
  if (dp_gradient_sum(engine, operation, sums) && dp_scope_ok(engine->scope))
    differentiate(engine, operation, sums);
  dp_free(sums);
}

static void do_unit(gradient_engine *engine, int32_t unit) {
  if (engine->loop_of[unit])
    dp_gradient_loop_undo(engine, engine->loop_of[unit]);
  else
    do_node(engine, unit);
  int32_t count, *sources = sources_of(engine, unit, &count);
  for (int32_t i = 0; i < count; i++)
    if (engine->is_between[sources[i]] && --engine->pending[sources[i]] == 0)
      DP_ARRAY_PUSH(&engine->ready, sources[i]);
  dp_free(sources);
}

/* ---- All ---- */

static void start(gradient_engine *engine, dp_outputs ys, const TF_Output *dxs) {
  for (int i = 0; i < ys.count; i++) {
    TF_Output seed =
        dxs && dxs[i].oper ? dxs[i] : dp_ones_like(engine->scope, ys.items[i], .name = "grad_ys");
    dp_gradient_arrive(engine, ys.items[i], (dp_gradient){.values = seed});
  }
  for (int32_t id = 0; id < engine->node_count; id++)
    if (engine->is_between[id] && !engine->pending[id])
      DP_ARRAY_PUSH(&engine->ready, id);
}

void dp_gradient_walk(gradient_engine *engine, dp_outputs ys, const TF_Output *dxs,
                      dp_gradient *gradients_out) {
  mark_reached(engine);
  mark_between(engine, ys);
  start(engine, ys, dxs);
  while (engine->ready.count && dp_scope_ok(engine->scope))
    do_unit(engine, engine->ready.items[--engine->ready.count]);
  for (int i = 0; i < engine->xs.count; i++) {
    TF_Output x = engine->xs.items[i];
    const gradient_list *lists = engine->lists[x.oper->node->id];
    gradients_out[i] = lists && lists[x.index].count ? lists[x.index].items[0] : (dp_gradient){0};
  }
}

void dp_gradient_engine_init(gradient_engine *engine, dp_scope *scope, dp_outputs xs,
                             gradient_engine *outer, gradient_loop *loop) {
  TF_Graph *graph = dp_scope_graph(scope);
  int32_t count = outer ? outer->node_count : graph->graph->node_count;
  *engine = (gradient_engine){.scope = scope,
                              .graph = graph,
                              .node_count = count,
                              .xs = xs,
                              .outer = outer,
                              .loop = loop,
                              .loop_of = DP_NEW_ARRAY(gradient_loop *, count + 1),
                              .is_reached = DP_NEW_ARRAY(bool, count + 1),
                              .is_between = DP_NEW_ARRAY(bool, count + 1),
                              .pending = DP_NEW_ARRAY(int32_t, count + 1),
                              .lists = DP_NEW_ARRAY(gradient_list *, count + 1)};
}

void dp_gradient_engine_deinit(gradient_engine *engine) {
  for (int32_t id = 0; id < engine->node_count; id++) {
    gradient_list *lists = engine->lists[id];
    for (int32_t i = 0; lists && i < engine->graph->graph->nodes[id]->output_count; i++)
      DP_ARRAY_FREE(&lists[i]);
    dp_free(lists);
  }
  dp_free(engine->is_reached);
  dp_free(engine->is_between);
  dp_free(engine->pending);
  dp_free(engine->lists);
  dp_free(engine->loop_of);
  DP_ARRAY_FREE(&engine->ready);
}

static bool check_outputs(dp_scope *scope, const char *what, dp_outputs outputs) {
  for (int i = 0; i < outputs.count && dp_scope_ok(scope); i++) {
    TF_Output output = outputs.items[i];
    if (!output.oper || output.oper->graph != dp_scope_graph(scope) || output.index < 0 ||
        output.index >= output.oper->node->output_count)
      dp_scope_fail(scope, TF_INVALID_ARGUMENT, "%s %d of the gradients is no output of the graph",
                    what, i);
  }
  return dp_scope_ok(scope);
}

/* From outside a loop only its exits can be seen. */
static bool is_outside_loops(gradient_engine *engine, dp_outputs outputs) {
  for (int i = 0; i < outputs.count; i++) {
    const dp_node *node = outputs.items[i].oper->node;
    if (engine->loop_of[node->id] && !dp_node_is_exit(node))
      dp_scope_fail(engine->scope, TF_INVALID_ARGUMENT,
                    "Cannot compute gradients of or for '%s', which is inside a while loop",
                    node->name);
  }
  return dp_scope_ok(engine->scope);
}

void dp_gradients(dp_scope *scope, dp_outputs ys, dp_outputs xs, const TF_Output *dxs,
                  dp_gradient *gradients_out) {
  memset(gradients_out, 0, sizeof(*gradients_out) * (size_t)xs.count);
  if (!check_outputs(scope, "y", ys) || !check_outputs(scope, "x", xs))
    return;
  TF_Graph *graph = dp_scope_graph(scope);
  gradient_engine engine;
  pthread_mutex_lock(&graph->lock);
  dp_gradient_engine_init(&engine, scope, xs, NULL, NULL);
  engine.source = dp_arena_printf(scope->root->arena, "gradients_%d", engine.node_count);
  gradient_loops *loops = dp_gradient_loops_find(graph, engine.node_count);
  dp_gradient_loops_enter(&engine, loops);
  if (is_outside_loops(&engine, ys) && is_outside_loops(&engine, xs))
    dp_gradient_walk(&engine, ys, dxs, gradients_out);
  if (!dp_scope_ok(scope)) {
    dp_client_graph_remove(graph, engine.node_count);
    memset(gradients_out, 0, sizeof(*gradients_out) * (size_t)xs.count);
  }
  dp_gradient_engine_deinit(&engine);
  dp_gradient_loops_destroy(loops);
  pthread_mutex_unlock(&graph->lock);
}

/* ---- TensorFlow's C API ---- */

static dp_status *add_gradients(dp_scope *scope, dp_outputs ys, dp_outputs xs, const TF_Output *dxs,
                                TF_Output *dys) {
  dp_gradient *gradients = DP_NEW_ARRAY(dp_gradient, xs.count + 1);
  dp_gradients(scope, ys, xs, dxs, gradients);
  for (int i = 0; i < xs.count; i++)
    dys[i] = dp_gradient_dense(scope, &gradients[i]);
  dp_free(gradients);
  return dp_status_retain(scope->root->status);
}

/* The name of a node that is called `prefix`, or that is in a scope of that name; NULL: none. */
static const char *find_scope(const TF_Graph *graph, const char *prefix) {
  size_t length = strlen(prefix);
  for (int32_t i = 0; i < graph->operation_count; i++) {
    const char *name = graph->operations[i] ? graph->operations[i]->node->name : "";
    if (strncmp(name, prefix, length) == 0 && (!name[length] || name[length] == '/'))
      return name;
  }
  return NULL;
}

void TF_AddGradientsWithPrefix(TF_Graph *g, const char *prefix, TF_Output *y, int ny, TF_Output *x,
                               int nx, TF_Output *dx, TF_Status *status, TF_Output *dy) {
  dp_scope *root = dp_scope_create(g);
  dp_status *result = NULL;
  pthread_mutex_lock(&g->lock);
  const char *taken = prefix ? find_scope(g, prefix) : NULL;
  if (taken)
    result = DP_INVALID("prefix [%s] conflicts with existing node in the graph named [%s]", prefix,
                        taken);
  if (!result)
    result = add_gradients(dp_scope_named(root, prefix ? prefix : "gradients"), (dp_outputs){y, ny},
                           (dp_outputs){x, nx}, dx, dy);
  pthread_mutex_unlock(&g->lock);
  dp_scope_destroy(root);
  dp_client_set_status(status, result);
}

void TF_AddGradients(TF_Graph *g, TF_Output *y, int ny, TF_Output *x, int nx, TF_Output *dx,
                     TF_Status *status, TF_Output *dy) {
  TF_AddGradientsWithPrefix(g, NULL, y, ny, x, nx, dx, status, dy);
}
