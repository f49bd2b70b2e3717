/* Debug nodes: what TensorFlow's debugger adds to the graph of a device so that a client sees the
 * values that it watches.
 *
 *   x ──> reader        becomes        x ──> __copy_x_0 ──> reader
 *                                                └──> __dbg_x:0_0_DebugIdentity ┄┄> reader
 *
 * The dotted line is a control edge: the value is written before a reader runs. Two kinds of
 * readers stay joined to x: those that read a reference, and those of Enter and NextIteration. The
 * latter get no control edge either, since a Merge that waited for one would wait for ever. Names,
 * attributes and messages are TensorFlow's. One thread per graph. */
#include <string.h>
#include <strings.h>

#include "planner/planner_internal.h"
#include "runtime/kernel.h"

/* ---- What is watched ---- */

typedef struct tensor_watch {
  char **ops;
  size_t op_count;
  char **urls;
  size_t url_count;
  bool tolerates_failures;
} tensor_watch;

typedef struct debug_inserter {
  dp_graph *graph;
  const char *device;
  const char *device_type;
  dp_arena *arena;
  dp_map *watches;       /* "node:slot" -> tensor_watch */
  tensor_watch defaults; /* for the tensors without a watch of their own */
  dp_fanout fanout;      /* before anything was added */
} debug_inserter;

static void append_texts(dp_arena *arena, char ***to, size_t *count, char *const *more,
                         size_t more_count) {
  char **all = DP_ARENA_ARRAY(arena, char *, *count + more_count + 1);
  for (size_t i = 0; i < *count + more_count; i++)
    all[i] = i < *count ? (*to)[i] : more[i - *count];
  *to = all;
  *count += more_count;
}

static dp_status *add_default(debug_inserter *in, const Tensorflow__DebugTensorWatch *watch) {
  if (watch->output_slot != -1)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "output_slot is expected to be -1 for wildcard node name (\"*\"), but "
                            "got %d",
                            watch->output_slot);
  tensor_watch *all = &in->defaults;
  append_texts(in->arena, &all->ops, &all->op_count, watch->debug_ops, watch->n_debug_ops);
  append_texts(in->arena, &all->urls, &all->url_count, watch->debug_urls, watch->n_debug_urls);
  return NULL;
}

static dp_status *add_watch(debug_inserter *in, const Tensorflow__DebugTensorWatch *watch) {
  if (watch->n_debug_ops == 0 || watch->n_debug_urls == 0)
    return NULL;
  if (strcmp(watch->node_name, "*") == 0)
    return add_default(in, watch);
  if (watch->output_slot < 0)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "A negative output_slot in DebugTensorWatch is valid only for the "
                            "wildcard node name (\"*\"), but got node name %s",
                            watch->node_name);
  tensor_watch *one = DP_ARENA_NEW(in->arena, tensor_watch);
  *one = (tensor_watch){.ops = watch->debug_ops,
                        .op_count = watch->n_debug_ops,
                        .urls = watch->debug_urls,
                        .url_count = watch->n_debug_urls,
                        .tolerates_failures = watch->tolerate_debug_op_creation_failures};
  dp_map_put(in->watches, dp_arena_printf(in->arena, "%s:%d", watch->node_name, watch->output_slot),
             one);
  return NULL;
}

/* ---- Names of debug ops with attributes: "DebugNumericSummary(lower_bound=-1;upper_bound=1)" ----
 */

typedef struct debug_attribute {
  dp_view key, value;
  bool is_used;
} debug_attribute;
typedef struct debug_op {
  const char *name;
  debug_attribute *attributes;
  size_t count;
} debug_op;

static dp_view trim(dp_view text) {
  while (text.length > 0 && strchr(" \t\n\v\f\r", text.data[0])) {
    text.data++;
    text.length--;
  }
  while (text.length > 0 && strchr(" \t\n\v\f\r", text.data[text.length - 1]))
    text.length--;
  return text;
}

static dp_status *add_attribute(const char *text, dp_view part, debug_op *op) {
  const char *equals = memchr(part.data, '=', part.length);
  dp_view key = {part.data, equals ? (size_t)(equals - part.data) : 0};
  dp_view value = {part.data + key.length + 1, equals ? part.length - key.length - 1 : 0};
  if (key.length == 0 || value.length == 0)
    return DP_INVALID("Malformed attributes in debug op name \"%s\"", text);
  for (size_t i = 0; i < op->count; i++)
    if (dp_view_equal(op->attributes[i].key, key))
      return DP_INVALID("Duplicate attribute name \"%.*s\" found in the debug op: \"%s\"",
                        (int)key.length, key.data, text);
  op->attributes[op->count++] = (debug_attribute){.key = key, .value = value};
  return NULL;
}

static dp_status *parse_attributes(const char *text, dp_view rest, dp_arena *arena, debug_op *op) {
  op->attributes = DP_ARENA_ARRAY(arena, debug_attribute, rest.length + 1);
  while (rest.length > 0) {
    const char *semicolon = memchr(rest.data, ';', rest.length);
    size_t length = semicolon ? (size_t)(semicolon - rest.data) : rest.length;
    dp_view part = trim((dp_view){rest.data, length});
    if (part.length > 0)
      DP_RETURN_IF_ERROR(add_attribute(text, part, op));
    size_t taken = length + (semicolon ? 1 : 0);
    rest = (dp_view){rest.data + taken, rest.length - taken};
  }
  return NULL;
}

static dp_status *parse_debug_op(const char *text, dp_arena *arena, debug_op *op_out) {
  *op_out = (debug_op){.name = text};
  const char *open = strchr(text, '('), *close = strchr(text, ')');
  if (!open && !close)
    return NULL;
  if (!open || open == text || !close || close[1] || close < open)
    return DP_INVALID("Malformed debug op name \"%s\"", text);
  op_out->name = dp_arena_strndup(arena, text, (size_t)(open - text));
  return parse_attributes(text, (dp_view){open + 1, (size_t)(close - open - 1)}, arena, op_out);
}

static bool parse_bool(dp_view text, bool *value_out) {
  static const char *const words[] = {"false", "f", "0", "true", "t", "1"};
  for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
    if (strlen(words[i]) == text.length && strncasecmp(words[i], text.data, text.length) == 0) {
      *value_out = i >= 3;
      return true;
    }
  }
  return false;
}

/* ---- Copies ---- */

/* "<op>;<url>;<gated>" for each op and URL. */
static dp_status *print_specs(const debug_inserter *in, const tensor_watch *watch, dp_attr *attr) {
  dp_view *specs = DP_ARENA_ARRAY(in->arena, dp_view, watch->op_count * watch->url_count + 1);
  int32_t count = 0;
  for (size_t i = 0; i < watch->op_count; i++) {
    debug_op op;
    bool is_gated = false;
    DP_RETURN_IF_ERROR(parse_debug_op(watch->ops[i], in->arena, &op));
    for (size_t k = 0; k < op.count; k++)
      if (dp_view_equals(op.attributes[k].key, "gated_grpc") &&
          !parse_bool(op.attributes[k].value, &is_gated))
        return DP_INVALID("Invalid string for bool value: %.*s", (int)op.attributes[k].value.length,
                          op.attributes[k].value.data);
    for (size_t k = 0; k < watch->url_count; k++)
      specs[count++] = dp_view_of(
          dp_arena_printf(in->arena, "%s;%s;%d", op.name, watch->urls[k], (int)is_gated));
  }
  *attr = (dp_attr){
      .name = "debug_ops_spec", .kind = DP_ATTR_LIST_STRING, .count = count, .strings = specs};
  return NULL;
}

static dp_status *add_copy(debug_inserter *in, const dp_node *node, int32_t slot,
                           const tensor_watch *watch, dp_node **copy_out) {
  dp_dtype type = dp_dtype_base(node->output_types[slot]);
  dp_attr attrs[] = {attr_type("T", type), {.name = NULL}};
  DP_RETURN_IF_ERROR(print_specs(in, watch, &attrs[1]));
  const char *name = dp_arena_printf(in->arena, "__copy_%s_%d", node->name, slot);
  const char *op = type == DP_STRING || type == DP_RESOURCE ? "CopyHost" : "Copy";
  dp_input input = {node->id, slot};
  return dp_planner_add(in->graph, op, name, "", &input, 1, attrs, 2, copy_out);
}

/* ---- Debug ops ---- */

static dp_status *bad_value(const char *kind, const char *name, const dp_node *node,
                            dp_view value) {
  return DP_INVALID("Invalid value string for %s-type attribute %sof debug node %s: \"%.*s\"", kind,
                    name, node->name, (int)value.length, value.data);
}

static dp_status *set_attribute(dp_graph *graph, dp_node *node, const dp_op_attr *definition,
                                dp_view value) {
  dp_attr attr = {.name = definition->name, .kind = definition->kind};
  switch (definition->kind) {
  case DP_ATTR_STRING:
    attr.string = value;
    break;
  case DP_ATTR_FLOAT:
    if (!dp_parse_float(trim(value), &attr.number))
      return bad_value("float", definition->name, node, value);
    break;
  case DP_ATTR_INT:
    if (!dp_parse_int64(trim(value), &attr.integer))
      return bad_value("int", definition->name, node, value);
    break;
  case DP_ATTR_BOOL:
    if (!parse_bool(value, &attr.boolean))
      return bad_value("bool", definition->name, node, value);
    break;
  default:
    return DP_INVALID("Unsupported type of custom attribute for debug ops: %s",
                      dp_attr_kind_name(definition->kind));
  }
  dp_node_set_attr(graph, node, &attr);
  return NULL;
}

static dp_status *set_attributes(dp_graph *graph, dp_node *node, const debug_op *op) {
  for (int32_t i = 0; i < node->op->attr_count; i++) {
    const dp_op_attr *definition = &node->op->attrs[i];
    for (size_t k = 0; k < op->count; k++) {
      if (!dp_view_equals(op->attributes[k].key, definition->name))
        continue;
      DP_RETURN_IF_ERROR(set_attribute(graph, node, definition, op->attributes[k].value));
      op->attributes[k].is_used = true;
    }
  }
  dp_text unknown = {0};
  size_t count = 0;
  for (size_t k = 0; k < op->count; k++)
    if (!op->attributes[k].is_used)
      dp_text_printf(&unknown, "%s%.*s", count++ ? ", " : "", (int)op->attributes[k].key.length,
                     op->attributes[k].key.data);
  dp_status *status = count == 0
                          ? NULL
                          : DP_INVALID("%zu attribute key(s) were not valid for debug node %s: %s",
                                       count, node->name, dp_text_string(&unknown));
  dp_text_deinit(&unknown);
  return status;
}

/* Fills in the dtype of the input, and which tensor of which device goes to which URLs: as far as
 * the op has such attributes. Returns how many. */
static int32_t fill_attrs(const debug_inserter *in, const dp_op *op, dp_dtype type,
                          const char *tensor_name, const tensor_watch *watch, dp_attr *attrs) {
  dp_view *urls = DP_ARENA_ARRAY(in->arena, dp_view, watch->url_count + 1);
  for (size_t i = 0; i < watch->url_count; i++)
    urls[i] = dp_view_of(watch->urls[i]);
  const dp_attr wanted[] = {attr_string("device_name", in->device),
                            attr_string("tensor_name", tensor_name),
                            {.name = "debug_urls",
                             .kind = DP_ATTR_LIST_STRING,
                             .count = (int32_t)watch->url_count,
                             .strings = urls}};
  int32_t count = 0;
  if (op->inputs[0].type_attr >= 0)
    attrs[count++] = attr_type(op->attrs[op->inputs[0].type_attr].name, type);
  for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
    if (dp_op_attr_index(op, wanted[i].name) >= 0)
      attrs[count++] = wanted[i];
  return count;
}

/* Whether the op takes just one input, of this dtype. */
static bool takes_one(const dp_op *op, dp_dtype type) {
  return op && op->input_count == 1 && !op->inputs[0].is_ref && op->inputs[0].number_attr < 0 &&
         op->inputs[0].type_list_attr < 0 &&
         (op->inputs[0].type_attr >= 0 || op->inputs[0].dtype == type);
}

static dp_status *add_debug_node(debug_inserter *in, const dp_node *copy, const char *tensor_name,
                                 const tensor_watch *watch, size_t index, dp_node **node_out) {
  debug_op op;
  DP_RETURN_IF_ERROR(parse_debug_op(watch->ops[index], in->arena, &op));
  const dp_op *definition = dp_op_find(op.name);
  dp_dtype type = (dp_dtype)copy->output_types[0];
  if (!takes_one(definition, type))
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "Failed to create node definition for debug op %s on watched tensor %s",
                            op.name, tensor_name);
  dp_attr attrs[4];
  dp_input input = {copy->id, 0};
  const char *name = dp_arena_printf(in->arena, "__dbg_%s_%zu_%s", tensor_name, index, op.name);
  int32_t count = fill_attrs(in, definition, type, tensor_name, watch, attrs);
  dp_node_builder builder = {.name = name,
                             .op = definition,
                             .inputs = &input,
                             .input_count = 1,
                             .attrs = attrs,
                             .attr_count = count,
                             .allows_any_name = true};
  dp_node *node;
  dp_status *status = dp_graph_add(in->graph, &builder, &node);
  if (status) {
    dp_status_release(status);
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "Failed to create debug node %s on watched tensor %s", op.name,
                            tensor_name);
  }
  const dp_kernel *kernel;
  status = dp_kernel_find(node, in->device_type, &kernel);
  if (status) {
    dp_status_release(status);
    status = dp_status_create(DP_FAILED_PRECONDITION,
                              "Failed to find kernel definition for debug op %s on watched tensor "
                              "%s",
                              op.name, tensor_name);
  } else {
    status = set_attributes(in->graph, node, &op);
  }
  if (status)
    dp_graph_remove(in->graph, node);
  else
    *node_out = node;
  return status;
}

/* ---- The whole ---- */

/* Puts the copy between a node and its readers, who then wait for the debug nodes. */
static void rewire(debug_inserter *in, const dp_node *node, int32_t slot, const dp_node *copy,
                   const int32_t *debug_nodes, size_t count) {
  if (dp_node_is_enter(node) || dp_node_is_next_iteration(node))
    return;
  bool is_reference = dp_dtype_is_ref(node->output_types[slot]);
  for (int32_t i = in->fanout.first[node->id]; i < in->fanout.first[node->id + 1]; i++) {
    const dp_fanout_edge *edge = &in->fanout.edges[i];
    if (edge->output != slot)
      continue;
    dp_node *reader = in->graph->nodes[edge->node];
    if (!is_reference)
      dp_node_set_input(reader, edge->input, (dp_input){copy->id, 0});
    dp_planner_add_controls(in->graph, reader, debug_nodes, count);
  }
}

static dp_status *add_nodes(debug_inserter *in, const dp_node *node, int32_t slot,
                            const char *tensor_name, const tensor_watch *watch) {
  dp_node *copy, *made;
  dp_status *failure = add_copy(in, node, slot, watch, &copy);
  if (failure)
    return dp_status_annotate(failure, "Failed to create Copy/CopyHost node for tensor %s, due to",
                              tensor_name);
  int32_t *ids = DP_ARENA_ARRAY(in->arena, int32_t, watch->op_count + 1);
  size_t count = 0;
  for (size_t i = 0; i < watch->op_count; i++) {
    failure = add_debug_node(in, copy, tensor_name, watch, i, &made);
    if (!failure)
      ids[count++] = made->id;
    else if (!watch->tolerates_failures)
      return dp_status_annotate(failure, "Failed to create debug node %s for tensor %s, due to",
                                watch->ops[i], tensor_name);
    else
      dp_status_release(failure);
  }
  rewire(in, node, slot, copy, ids, count);
  return NULL;
}

/* The same message with the code FAILED_PRECONDITION, as TensorFlow answers. Consumes `status`. */
static dp_status *as_precondition(dp_status *status) {
  if (!status)
    return NULL;
  dp_status *failed = dp_status_create(DP_FAILED_PRECONDITION, "%s", dp_status_message(status));
  dp_status_release(status);
  return failed;
}

static dp_status *watch_all(debug_inserter *in) {
  int32_t node_count = in->graph->node_count; /* nodes that are added below are not watched */
  for (int32_t id = 0; id < node_count; id++) {
    const dp_node *node = in->graph->nodes[id];
    for (int32_t slot = 0; node && slot < node->output_count; slot++) {
      const char *name = dp_arena_printf(in->arena, "%s:%d", node->name, slot);
      const tensor_watch *watch = dp_map_get(in->watches, name);
      if (watch || in->defaults.op_count > 0)
        DP_RETURN_IF_ERROR(add_nodes(in, node, slot, name, watch ? watch : &in->defaults));
    }
  }
  return NULL;
}

/* Iterations of a loop run one after the other, so that a watched node writes its values in order.
 */
static void run_iterations_in_turn(dp_graph *graph) {
  dp_attr one = attr_int("parallel_iterations", 1);
  for (int32_t id = 0; id < graph->node_count; id++)
    if (graph->nodes[id] && dp_node_is_enter(graph->nodes[id]))
      dp_node_set_attr(graph, graph->nodes[id], &one);
}

dp_status *dp_planner_add_debug_nodes(dp_graph *graph, const Tensorflow__DebugOptions *options,
                                      const char *device, const char *device_type) {
  run_iterations_in_turn(graph);
  debug_inserter in = {.graph = graph,
                       .device = device,
                       .device_type = device_type,
                       .arena = dp_arena_create(),
                       .watches = dp_map_create()};
  dp_status *status = NULL;
  for (size_t i = 0; i < options->n_debug_tensor_watch_opts && !status; i++)
    status = add_watch(&in, options->debug_tensor_watch_opts[i]);
  /* As in TensorFlow: without a watch by name, the watch for all nodes is ignored. */
  if (!status && dp_map_count(in.watches) > 0) {
    dp_fanout_init(&in.fanout, graph);
    status = as_precondition(watch_all(&in));
    dp_fanout_deinit(&in.fanout);
  }
  dp_map_destroy(in.watches);
  dp_arena_destroy(in.arena);
  return status;
}
