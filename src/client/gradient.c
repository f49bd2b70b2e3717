/* The walk that turns a graph into the graph of its gradients.
 *
 * What lies between the xs and the ys is walked from the ys down. A node is ready when everything
 * that reads it (and lies between) has been done: what arrived at its outputs is summed, its op's
 * function makes what goes to its inputs. The graph's lock is held from begin to end, so that a
 * failure can take all new nodes back. */
#include "client/gradient_internal.h"

#include <string.h>
#include "client/scope_internal.h"

/* What has arrived at one output so far. */
typedef DP_ARRAY(dp_gradient) gradient_list;

struct gradient_engine {
  dp_scope *scope;
  TF_Graph *graph;
  int32_t node_count; /* of the forward graph: new nodes have higher numbers */
  dp_outputs xs;
  bool *is_reached;      /* by node: the xs reach it */
  bool *is_between;      /* ... and it reaches the ys */
  int32_t *pending;      /* readers that are still to be done */
  gradient_list **lists; /* by node and output; NULL: nothing arrived */
  DP_ARRAY(int32_t) ready;
};

/* ---- Tables ---- */

const gradient_row *dp_gradient_find(const char *op) {
  static const gradient_row *const tables[] = {
      dp_gradient_math, dp_gradient_array,  dp_gradient_nn,  dp_gradient_reduce,
      dp_gradient_flow, dp_gradient_matrix, dp_gradient_none};
  for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
    for (const gradient_row *row = tables[i]; row->op; row++)
      if (strcmp(row->op, op) == 0)
        return row;
  return NULL;
}

/* ---- Values ---- */

TF_Output dp_gradient_forward(gradient_engine *engine, TF_Output value) {
  (void)engine;
  return value;
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
static bool is_trainable(TF_Output value) {
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

static void mark_readers(gradient_engine *engine, TF_Operation *operation) {
  for (size_t i = 0; i < operation->readers.count; i++) {
    const operation_edge *edge = &operation->readers.items[i];
    int32_t reader = edge->reader.oper->node->id;
    if (edge->output < 0 || reader >= engine->node_count || engine->is_reached[reader] ||
        !is_trainable((TF_Output){operation, edge->output}))
      continue;
    engine->is_reached[reader] = true;
    DP_ARRAY_PUSH(&engine->ready, reader);
  }
}

static void mark_reached(gradient_engine *engine) {
  for (int i = 0; i < engine->xs.count; i++) {
    int32_t id = engine->xs.items[i].oper->node->id;
    if (!engine->is_reached[id])
      DP_ARRAY_PUSH(&engine->ready, id);
    engine->is_reached[id] = true;
  }
  while (engine->ready.count)
    mark_readers(engine, engine->graph->operations[engine->ready.items[--engine->ready.count]]);
}

/* Also counts, for each node between, how many inputs of such nodes read it. */
static void mark_between(gradient_engine *engine, dp_outputs ys) {
  for (int i = 0; i < ys.count; i++) {
    int32_t id = ys.items[i].oper->node->id;
    if (!engine->is_reached[id] || engine->is_between[id])
      continue;
    engine->is_between[id] = true;
    DP_ARRAY_PUSH(&engine->ready, id);
  }
  while (engine->ready.count) {
    const dp_node *node = engine->graph->graph->nodes[engine->ready.items[--engine->ready.count]];
    for (int32_t i = 0; i < node->input_count; i++) {
      int32_t source = node->inputs[i].node;
      if (!engine->is_reached[source])
        continue;
      engine->pending[source]++;
      if (engine->is_between[source])
        continue;
      engine->is_between[source] = true;
      DP_ARRAY_PUSH(&engine->ready, source);
    }
  }
}

/* ---- Sums ---- */

static void arrive(gradient_engine *engine, TF_Output at, dp_gradient gradient) {
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

/* Slices of slices: all of them, one behind the other. */
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

/* Sums what arrived at each output, and keeps the sums. */
static bool sum_outputs(gradient_engine *engine, TF_Operation *operation, dp_gradient *sums) {
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

/* Whether a gradient for that input leads to one of the xs. */
static bool is_wanted(const gradient_engine *engine, TF_Output value) {
  return engine->is_between[value.oper->node->id] && is_trainable(value);
}

static void differentiate(gradient_engine *engine, TF_Operation *operation,
                          const dp_gradient *sums) {
  const dp_node *node = operation->node;
  bool *wanted = DP_NEW_ARRAY(bool, node->input_count + 1);
  bool is_any = false;
  for (int32_t i = 0; i < node->input_count; i++)
    is_any |= wanted[i] = is_wanted(engine, input_of(operation, i));
  const gradient_row *row = is_any ? dp_gradient_find(node->op->name) : NULL;
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
        arrive(engine, input_of(operation, i), below[i]);
    dp_free(below);
  }
  dp_free(wanted);
}

static void do_node(gradient_engine *engine, int32_t id) {
  TF_Operation *operation = engine->graph->operations[id];
  const dp_node *node = operation->node;
  dp_gradient *sums = DP_NEW_ARRAY(dp_gradient, node->output_count + 1);
  if (sum_outputs(engine, operation, sums) && dp_scope_ok(engine->scope))
    differentiate(engine, operation, sums);
  dp_free(sums);
  for (int32_t i = 0; i < node->input_count; i++) {
    int32_t source = node->inputs[i].node;
    if (engine->is_between[source] && --engine->pending[source] == 0)
      DP_ARRAY_PUSH(&engine->ready, source);
  }
}

/* ---- All ---- */

static void start(gradient_engine *engine, dp_outputs ys, const TF_Output *dxs) {
  for (int i = 0; i < ys.count; i++) {
    TF_Output seed =
        dxs && dxs[i].oper ? dxs[i] : dp_ones_like(engine->scope, ys.items[i], .name = "grad_ys");
    arrive(engine, ys.items[i], (dp_gradient){.values = seed});
  }
  for (int32_t id = 0; id < engine->node_count; id++)
    if (engine->is_between[id] && !engine->pending[id])
      DP_ARRAY_PUSH(&engine->ready, id);
}

static void walk(gradient_engine *engine, dp_outputs ys, const TF_Output *dxs,
                 dp_gradient *gradients_out) {
  mark_reached(engine);
  mark_between(engine, ys);
  start(engine, ys, dxs);
  while (engine->ready.count && dp_scope_ok(engine->scope))
    do_node(engine, engine->ready.items[--engine->ready.count]);
  for (int i = 0; i < engine->xs.count; i++) {
    TF_Output x = engine->xs.items[i];
    const gradient_list *lists = engine->lists[x.oper->node->id];
    gradients_out[i] = lists && lists[x.index].count ? lists[x.index].items[0] : (dp_gradient){0};
  }
}

static void engine_init(gradient_engine *engine, dp_scope *scope, dp_outputs xs) {
  TF_Graph *graph = dp_scope_graph(scope);
  int32_t count = graph->graph->node_count;
  *engine = (gradient_engine){.scope = scope,
                              .graph = graph,
                              .node_count = count,
                              .xs = xs,
                              .is_reached = DP_NEW_ARRAY(bool, count + 1),
                              .is_between = DP_NEW_ARRAY(bool, count + 1),
                              .pending = DP_NEW_ARRAY(int32_t, count + 1),
                              .lists = DP_NEW_ARRAY(gradient_list *, count + 1)};
}

static void engine_deinit(gradient_engine *engine) {
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

void dp_gradients(dp_scope *scope, dp_outputs ys, dp_outputs xs, const TF_Output *dxs,
                  dp_gradient *gradients_out) {
  memset(gradients_out, 0, sizeof(*gradients_out) * (size_t)xs.count);
  if (!check_outputs(scope, "y", ys) || !check_outputs(scope, "x", xs))
    return;
  TF_Graph *graph = dp_scope_graph(scope);
  gradient_engine engine;
  pthread_mutex_lock(&graph->lock);
  engine_init(&engine, scope, xs);
  walk(&engine, ys, dxs, gradients_out);
  if (!dp_scope_ok(scope)) {
    dp_client_graph_remove(graph, engine.node_count);
    memset(gradients_out, 0, sizeof(*gradients_out) * (size_t)xs.count);
  }
  engine_deinit(&engine);
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

/* A node of that name, or in a scope of that name; NULL: there is none. */
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
