/* Pruning: from the client's whole graph to what one signature needs.
 *
 * A walk against the edges starts at fetches and targets and stops at fed outputs. What it has seen
 * is copied, in the order of the original, after one _Recv (or _Arg) per needed feed; the _Send (or
 * _Retval) of the fetches come last. A node with a fed output may still be needed for another
 * output or for a control edge. Only a fed Placeholder hands its control edges to the _Recv, since
 * it could not run itself. A connection is a feed whose value is another output of the graph: its
 * readers read that output. Names, attributes and errors are TensorFlow's. One thread per graph. */
#include <string.h>

#include "planner/planner_internal.h"

typedef struct endpoint {
  const char *text; /* as the client wrote it */
  const dp_node *node;
  int32_t output;
  int32_t next;     /* feeds: another feed of the same node, or -1 */
  dp_input source;  /* feeds: the output that is connected to this one; node -1 for true feeds */
  int32_t twin;     /* feeds: id of its _Recv in the new graph, or -1 */
  bool is_needed;   /* feeds */
  bool is_repeated; /* fetches: an earlier one has the same text */
} endpoint;

typedef struct pruner {
  const dp_graph *graph;
  const dp_planner_signature *signature;
  const dp_planner_device *client;
  bool as_function;
  dp_arena *arena;
  endpoint *feeds; /* the signature's, then its connections */
  endpoint *fetches;
  int32_t *fed;   /* by id: index of its first feed, or -1 */
  int32_t *twins; /* by id: id in the new graph; -1 unseen, -2 needed */
  int32_t *stack;
  int32_t depth;
  dp_graph *pruned;
} pruner;

enum { UNSEEN = -1, NEEDED = -2 };

/* ---- What the client asks for ---- */

static dp_status *find_feed(pruner *p, size_t index, const char *text) {
  endpoint *feed = &p->feeds[index];
  feed->text = text;
  feed->twin = -1;
  feed->source.node = -1;
  feed->node =
      dp_graph_find(p->graph, dp_planner_parse_tensor(p->arena, feed->text, &feed->output));
  if (!feed->node)
    return dp_status_create(DP_NOT_FOUND, "FeedInputs: unable to find feed output %s", feed->text);
  if (feed->output < 0 || feed->output >= feed->node->output_count)
    return DP_INVALID("FeedInputs: %s should have output index < %d", feed->text,
                      feed->node->output_count);
  feed->next = p->fed[feed->node->id];
  p->fed[feed->node->id] = (int32_t)index;
  return NULL;
}

static dp_status *find_connection(pruner *p, size_t index) {
  const dp_planner_connection *connection = &p->signature->connections[index];
  size_t place = p->signature->feed_count + index;
  DP_RETURN_IF_ERROR(find_feed(p, place, connection->to));
  endpoint *feed = &p->feeds[place];
  int32_t output;
  const dp_node *from =
      dp_graph_find(p->graph, dp_planner_parse_tensor(p->arena, connection->from, &output));
  if (!from)
    return DP_INVALID("Tensor connection: unknown node: %s", connection->from);
  if (output < 0 || output >= from->output_count)
    return DP_INVALID("Tensor connection: unknown edge: %s (%s has %d outputs)", connection->from,
                      from->name, from->output_count);
  dp_dtype type = dp_dtype_base(from->output_types[output]);
  dp_dtype wanted = dp_dtype_base(feed->node->output_types[feed->output]);
  if (type != wanted)
    return DP_INVALID("Tensor connection: %s is of type %s, and %s of %s", connection->from,
                      dp_dtype_name(type), connection->to, dp_dtype_name(wanted));
  feed->source = (dp_input){from->id, output};
  return NULL;
}

static dp_status *find_fetch(pruner *p, size_t index) {
  endpoint *fetch = &p->fetches[index];
  fetch->text = p->signature->fetches[index];
  fetch->node =
      dp_graph_find(p->graph, dp_planner_parse_tensor(p->arena, fetch->text, &fetch->output));
  if (!fetch->node)
    return dp_status_create(DP_NOT_FOUND, "FetchOutputs node %s: not found", fetch->text);
  if (fetch->node->output_count == 0)
    return DP_INVALID("Tried to fetch data for '%s', which produces no output.  To run to a node "
                      "but not fetch any data, pass '%s' as an argument to the "
                      "'target_node_names' argument of the Session::Run API.",
                      fetch->text, fetch->text);
  if (fetch->output < 0 || fetch->output >= fetch->node->output_count)
    return DP_INVALID("FetchOutputs %s: output index too large, must be < %d", fetch->text,
                      fetch->node->output_count);
  return NULL;
}

static dp_status *check_endpoints(pruner *p, dp_map *texts) {
  const dp_planner_signature *signature = p->signature;
  for (size_t i = 0; i < signature->feed_count; i++)
    if (dp_map_put(texts, signature->feeds[i], p))
      return DP_INVALID("Endpoint \"%s\" fed more than once.", signature->feeds[i]);
  for (size_t i = 0; i < signature->connection_count; i++)
    if (dp_map_put(texts, signature->connections[i].to, p))
      return DP_INVALID("Endpoint \"%s\" fed more than once.", signature->connections[i].to);
  for (size_t i = 0; i < signature->fetch_count; i++) {
    if (dp_map_get(texts, signature->fetches[i]) == p)
      return DP_INVALID("%s is both fed and fetched.", signature->fetches[i]);
    p->fetches[i].is_repeated = dp_map_put(texts, signature->fetches[i], texts) != NULL;
  }
  return NULL;
}

static dp_status *find_endpoints(pruner *p) {
  const dp_planner_signature *signature = p->signature;
  if (signature->fetch_count == 0 && signature->target_count == 0)
    return DP_INVALID("Must specify at least one target to fetch or execute.");
  dp_map *texts = dp_map_create();
  dp_status *status = check_endpoints(p, texts);
  dp_map_destroy(texts);
  for (size_t i = 0; i < signature->feed_count && !status; i++)
    status = find_feed(p, i, signature->feeds[i]);
  for (size_t i = 0; i < signature->connection_count && !status; i++)
    status = find_connection(p, i);
  for (size_t i = 0; i < signature->fetch_count && !status; i++)
    status = find_fetch(p, i);
  return status;
}

/* ---- The walk ---- */

/* The feed that replaces this output, or NULL. */
static endpoint *feed_of(pruner *p, int32_t node, int32_t output) {
  for (int32_t i = p->fed[node]; i >= 0; i = p->feeds[i].next)
    if (p->feeds[i].output == output)
      return &p->feeds[i];
  return NULL;
}

/* The feed that takes over the node's control edges, or NULL. */
static endpoint *feed_for_control(pruner *p, int32_t node) {
  if (p->fed[node] < 0)
    return NULL;
  const dp_node *source = p->graph->nodes[node];
  if (!dp_node_is(source, "Placeholder") && !dp_node_is(source, "PlaceholderV2"))
    return NULL;
  return &p->feeds[p->fed[node]];
}

static void need(pruner *p, int32_t id) {
  if (p->twins[id] != UNSEEN)
    return;
  p->twins[id] = NEEDED;
  p->stack[p->depth++] = id;
}

static dp_status *need_targets(pruner *p) {
  dp_text missing = {0};
  for (size_t i = 0; i < p->signature->target_count; i++) {
    int32_t output;
    const char *text = p->signature->targets[i];
    const dp_node *node = dp_graph_find(p->graph, dp_planner_parse_tensor(p->arena, text, &output));
    if (node)
      need(p, node->id);
    else
      dp_text_printf(&missing, "%s ", text);
  }
  dp_status *status = NULL;
  if (missing.length)
    status = dp_status_create(DP_NOT_FOUND, "PruneForTargets: Some target nodes not found: %s",
                              missing.data);
  dp_text_deinit(&missing);
  return status;
}

static void need_feed(pruner *p, endpoint *feed) {
  feed->is_needed = true;
  if (feed->source.node >= 0)
    need(p, feed->source.node);
}

static void walk(pruner *p) {
  while (p->depth > 0) {
    const dp_node *node = p->graph->nodes[p->stack[--p->depth]];
    for (int32_t i = 0; i < node->input_count; i++) {
      endpoint *feed = feed_of(p, node->inputs[i].node, node->inputs[i].output);
      if (feed)
        need_feed(p, feed);
      else
        need(p, node->inputs[i].node);
    }
    for (int32_t i = 0; i < node->control_count; i++) {
      endpoint *feed = feed_for_control(p, node->controls[i]);
      if (feed)
        need_feed(p, feed);
      else
        need(p, node->controls[i]);
    }
  }
}

/* ---- The new graph ---- */

static const char *endpoint_name(pruner *p, const char *prefix, const endpoint *end, size_t index) {
  const char *name =
      p->as_function
          ? dp_arena_printf(p->arena, "%s%s_%d_%zu", prefix, end->node->name, end->output, index)
          : dp_arena_printf(p->arena, "%s%s_%d", prefix, end->node->name, end->output);
  return dp_graph_unique_name(p->pruned, name);
}

static dp_status *add_call_end(pruner *p, const char *op, const char *name, const endpoint *end,
                               size_t index, const dp_input *value, dp_node **node_out) {
  dp_attr attrs[] = {
      attr_type("T", dp_dtype_base(end->node->output_types[end->output])),
      attr_int("index", (int64_t)index),
  };
  dp_node *node;
  DP_RETURN_IF_ERROR(
      dp_planner_add(p->pruned, op, name, NULL, value, value ? 1 : 0, attrs, 2, &node));
  node->assigned_device = dp_arena_strdup(p->pruned->arena, p->client->name);
  *node_out = node;
  return NULL;
}

static dp_transfer client_transfer(const pruner *p, const endpoint *end) {
  return (dp_transfer){.tensor_name = end->text,
                       .send_device = p->client->name,
                       .send_incarnation = p->client->incarnation,
                       .recv_device = p->client->name,
                       .client_terminated = true};
}

static dp_status *add_feeds(pruner *p) {
  for (size_t i = 0; i < p->signature->feed_count; i++) {
    endpoint *feed = &p->feeds[i];
    /* An argument keeps its number even when nobody reads it. */
    if (!feed->is_needed && !p->as_function)
      continue;
    dp_node *node;
    if (p->as_function) {
      DP_RETURN_IF_ERROR(
          add_call_end(p, "_Arg", endpoint_name(p, "_arg_", feed, i), feed, i, NULL, &node));
    } else {
      dp_transfer transfer = client_transfer(p, feed);
      dp_dtype type = dp_dtype_base(feed->node->output_types[feed->output]);
      DP_RETURN_IF_ERROR(dp_planner_add_recv(p->pruned, endpoint_name(p, "_recv_", feed, i),
                                             &transfer, type, &node));
    }
    feed->twin = node->id;
  }
  return NULL;
}

static dp_status *add_fetches(pruner *p) {
  for (size_t i = 0; i < p->signature->fetch_count; i++) {
    const endpoint *fetch = &p->fetches[i];
    dp_input value = {p->twins[fetch->node->id], fetch->output};
    dp_node *node;
    if (p->as_function) {
      DP_RETURN_IF_ERROR(add_call_end(p, "_Retval", endpoint_name(p, "_retval_", fetch, i), fetch,
                                      i, &value, &node));
    } else if (!fetch->is_repeated) {
      dp_transfer transfer = client_transfer(p, fetch);
      DP_RETURN_IF_ERROR(dp_planner_add_send(p->pruned, endpoint_name(p, "_send_", fetch, i),
                                             &transfer, value, &node));
    }
  }
  return NULL;
}

/* Where the readers of a fed output find its value in the new graph. */
static dp_input fed_value(const pruner *p, const endpoint *feed) {
  if (feed->source.node < 0)
    return (dp_input){feed->twin, 0};
  return (dp_input){p->twins[feed->source.node], feed->source.output};
}

static void copy_nodes(pruner *p) {
  for (int32_t id = 0; id < p->graph->node_count; id++)
    if (p->twins[id] == NEEDED) {
      const dp_node *node = p->graph->nodes[id];
      p->twins[id] = dp_graph_clone_node(p->pruned, node, node->name)->id;
    }
  for (int32_t id = 0; id < p->graph->node_count; id++) {
    if (p->twins[id] < 0)
      continue;
    const dp_node *node = p->graph->nodes[id];
    dp_node *twin = p->pruned->nodes[p->twins[id]];
    for (int32_t i = 0; i < node->input_count; i++) {
      const endpoint *feed = feed_of(p, node->inputs[i].node, node->inputs[i].output);
      twin->inputs[i] = feed ? fed_value(p, feed)
                             : (dp_input){p->twins[node->inputs[i].node], node->inputs[i].output};
    }
    for (int32_t i = 0; i < node->control_count; i++) {
      const endpoint *feed = feed_for_control(p, node->controls[i]);
      twin->controls[i] = feed ? fed_value(p, feed).node : p->twins[node->controls[i]];
    }
    twin->control_count = dp_planner_sort_ids(twin->controls, node->control_count);
  }
}

/* The graph had no cycle; a connection may close one. */
static dp_status *check_connections(const pruner *p) {
  if (p->signature->connection_count == 0)
    return NULL;
  int32_t *order = dp_malloc(sizeof(int32_t) * ((size_t)p->pruned->node_count + 1));
  int32_t count = dp_graph_order(p->pruned, order);
  dp_free(order);
  return count == p->pruned->node_count ? NULL
                                        : DP_INVALID("Tensor connection would create a cycle.");
}

static dp_status *prune(pruner *p) {
  DP_RETURN_IF_ERROR(find_endpoints(p));
  for (size_t i = 0; i < p->signature->fetch_count; i++)
    need(p, p->fetches[i].node->id);
  DP_RETURN_IF_ERROR(need_targets(p));
  walk(p);
  DP_RETURN_IF_ERROR(add_feeds(p));
  copy_nodes(p);
  DP_RETURN_IF_ERROR(add_fetches(p));
  return check_connections(p);
}

dp_status *dp_planner_prune(const dp_graph *graph, const dp_planner_signature *signature,
                            const dp_planner_devices *devices, bool as_function,
                            dp_graph **pruned_out) {
  dp_arena *arena = dp_arena_create();
  pruner p = {.graph = graph,
              .signature = signature,
              .client = &devices->items[devices->client],
              .as_function = as_function,
              .arena = arena,
              .feeds = DP_ARENA_ARRAY(arena, endpoint,
                                      signature->feed_count + signature->connection_count + 1),
              .fetches = DP_ARENA_ARRAY(arena, endpoint, signature->fetch_count + 1)};
  size_t count = (size_t)graph->node_count + 1;
  p.fed = dp_malloc(sizeof(int32_t) * count * 3);
  p.twins = p.fed + count;
  p.stack = p.twins + count;
  memset(p.fed, 0xff, sizeof(int32_t) * count * 2); /* -1 */
  p.pruned = dp_graph_create(graph->library);
  p.pruned->producer = graph->producer;
  p.pruned->min_consumer = graph->min_consumer;
  dp_status *status = prune(&p);
  if (status)
    dp_graph_destroy(p.pruned);
  else
    *pruned_out = p.pruned;
  dp_free(p.fed);
  dp_arena_destroy(arena);
  return status;
}
