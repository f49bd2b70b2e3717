/* Makes a graph from a function's body, with the attributes of one call in place of "$T" and the
 * like.
 *
 * Nodes come in the order: arguments (_Arg), the nodes of the body, results (_Retval). The
 * attributes of all nodes are read first, because the meaning of an input "node:out" depends on how
 * many values the outputs of `node` have. Then inputs are resolved and checked as in any graph. The
 * library is only read, so any number of threads may instantiate functions. The caller owns the
 * graph. */
#include <string.h>

#include "graph/graph_internal.h"

typedef struct instantiation {
  dp_graph *graph;
  dp_library *library;
  const dp_function *function;
  const dp_attr *bound; /* the call's attributes, sorted by name */
  int32_t bound_count;
  dp_body_index *index;
  int32_t first_node;  /* id of the body's first own node */
  int64_t values_left; /* how many more inputs and outputs there may be */
  dp_function_body body;
} instantiation;

/* ---- Attributes of the call ---- */

/* Collects the call's attributes and the defaults of the signature. Every attribute that the
 * signature declares must have a value. */
static dp_status *bind_attrs(instantiation *in, const dp_func *call) {
  const dp_op *signature = &in->function->signature;
  size_t most = (size_t)call->attr_count + (size_t)signature->attr_count;
  dp_attr *attrs = DP_ARENA_ARRAY(in->graph->arena, dp_attr, most);
  int32_t count = 0;
  for (int32_t i = 0; i < signature->attr_count; i++)
    if (signature->attrs[i].has_default) {
      attrs[count] = signature->attrs[i].default_value;
      attrs[count++].name = signature->attrs[i].name;
    }
  for (int32_t i = 0; i < call->attr_count; i++)
    attrs[count++] = dp_attr_copy(in->graph, &call->attrs[i]);
  count = dp_attr_sort(attrs, count);
  for (int32_t i = 0; i < signature->attr_count; i++) {
    const dp_op_attr *wanted = &signature->attrs[i];
    dp_attr *given = (dp_attr *)dp_attr_find(attrs, count, wanted->name);
    if (!given) {
      dp_text summary = {0};
      dp_op_print(signature, &summary);
      dp_status *status = dp_status_create(DP_NOT_FOUND, "Attr %s is not found from %s",
                                           wanted->name, dp_text_string(&summary));
      dp_text_deinit(&summary);
      return status;
    }
    dp_status *status = dp_attr_check_kind(given, wanted->kind);
    if (status)
      return dp_status_append(status, "\n\tfor attr '%s'", wanted->name);
  }
  in->bound = attrs;
  in->bound_count = count;
  return NULL;
}

static dp_status *substitute(instantiation *in, dp_attr *attr);

static dp_status *substitute_func(instantiation *in, const dp_func *func) {
  for (int32_t i = 0; i < func->attr_count; i++)
    DP_RETURN_IF_ERROR(substitute(in, (dp_attr *)&func->attrs[i]));
  return NULL;
}

/* Replaces placeholders in *attr, which is our own copy, by the call's values. */
static dp_status *substitute(instantiation *in, dp_attr *attr) {
  if (attr->kind == DP_ATTR_FUNC)
    return substitute_func(in, attr->func);
  if (attr->kind == DP_ATTR_LIST_FUNC)
    for (int32_t i = 0; i < attr->count; i++)
      DP_RETURN_IF_ERROR(substitute_func(in, &attr->funcs[i]));
  if (attr->kind != DP_ATTR_PLACEHOLDER)
    return NULL;
  const dp_attr *value = dp_attr_find(in->bound, in->bound_count, attr->placeholder);
  if (!value)
    return DP_INVALID("Failed to bind all placeholders in $%s", attr->placeholder);
  const char *name = attr->name;
  *attr = *value;
  attr->name = name;
  return NULL;
}

/* ---- Nodes ---- */

static dp_status *enter_node(instantiation *in, dp_node *node) {
  dp_graph *graph = in->graph;
  if (!dp_name_is_valid(node->name, true))
    return DP_INVALID("Node '%s': Node name contains invalid characters", node->name);
  size_t length = strlen(node->name);
  uint32_t hash = dp_name_hash(node->name, length);
  if (dp_names_find(graph, node->name, length, hash) >= 0)
    return DP_INVALID("Node '%s' is not unique", node->name);
  dp_graph_reserve(graph, graph->node_count + 1);
  node->id = graph->node_count++;
  graph->nodes[node->id] = node;
  dp_names_insert(graph, node, hash);
  return NULL;
}

/* Adds an _Arg or _Retval node with the attributes T and index, and those in `given`. */
static dp_status *add_end(instantiation *in, const char *op, const char *name, int32_t type,
                          int32_t index, dp_input *input, const dp_attr *given, int32_t given_count,
                          dp_node **node_out) {
  dp_node *node = DP_ARENA_NEW(in->graph->arena, dp_node);
  node->name = name;
  node->op = dp_op_find(op);
  node->device = "";
  node->inputs = input;
  node->input_count = input != NULL;
  dp_attr *attrs = dp_malloc(sizeof(*attrs) * ((size_t)given_count + 2));
  if (given_count)
    memcpy(attrs, given, sizeof(*attrs) * (size_t)given_count);
  attrs[given_count] = (dp_attr){.name = "T", .kind = DP_ATTR_TYPE, .type = type};
  attrs[given_count + 1] = (dp_attr){.name = "index", .kind = DP_ATTR_INT, .integer = index};
  int32_t count = dp_attr_sort(attrs, given_count + 2);
  dp_status *status = dp_node_complete(in->graph->arena, node, attrs, count, NULL);
  dp_free(attrs);
  DP_RETURN_IF_ERROR(status);
  DP_RETURN_IF_ERROR(enter_node(in, node));
  *node_out = node;
  return NULL;
}

static const char *numbered(instantiation *in, const char *name, const char *suffix, int32_t number,
                            int32_t count) {
  if (count > 1)
    return dp_arena_printf(in->graph->arena, "%s%s_%d", name, suffix, number);
  return dp_arena_printf(in->graph->arena, "%s%s", name, suffix);
}

/* ---- Arguments ---- */

/* The attributes that the function's definition has for its argument number `index`. */
static dp_status *argument_attrs(instantiation *in, uint32_t index, dp_attr **attrs_out,
                                 int32_t *count_out) {
  const Tensorflow__FunctionDef *definition = in->function->definition;
  const Tensorflow__FunctionDef__ArgAttrEntry *found =
      dp_find_numbered_entry(definition->n_arg_attr, definition->arg_attr, index);
  const Tensorflow__FunctionDef__ResourceArgUniqueIdEntry *unique = dp_find_numbered_entry(
      definition->n_resource_arg_unique_id, definition->resource_arg_unique_id, index);
  size_t given = found && found->value ? found->value->n_attr : 0;
  dp_attr *attrs = DP_ARENA_ARRAY(in->graph->arena, dp_attr, given + 1);
  dp_attr_store store = {in->graph->arena, &in->graph->tensors};
  for (size_t i = 0; i < given; i++) {
    attrs[i].name = dp_arena_strdup(in->graph->arena, found->value->attr[i]->key);
    DP_RETURN_IF_ERROR(dp_attr_from_message(&store, found->value->attr[i]->value, &attrs[i]));
  }
  if (unique)
    attrs[given] =
        (dp_attr){.name = "_resource_arg_unique_id", .kind = DP_ATTR_INT, .integer = unique->value};
  *attrs_out = attrs;
  *count_out = (int32_t)given + (unique != NULL);
  return NULL;
}

static dp_status *count_values(instantiation *in, const dp_op_arg *arg, const char *what,
                               int32_t *count_out) {
  enum { most_values = 1 << 20 };
  DP_RETURN_IF_ERROR(
      dp_arg_count(&in->function->signature, arg, in->bound, in->bound_count, count_out));
  if (*count_out < 1)
    return dp_status_create(DP_INTERNAL, "Expected a list of at least one dtype for %s '%s'", what,
                            arg->name);
  if (*count_out > most_values)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "Function '%s' has too many values for %s '%s'",
                            in->function->signature.name, what, arg->name);
  return NULL;
}

typedef DP_ARRAY(dp_node *) node_array;

static dp_status *add_argument(instantiation *in, int32_t number, node_array *arguments) {
  const dp_op *signature = &in->function->signature;
  const dp_op_arg *arg = &signature->inputs[number];
  int32_t count;
  DP_RETURN_IF_ERROR(count_values(in, arg, "argument", &count));
  if (!dp_body_index_add_argument(in->index, arg->name, (int32_t)arguments->count, count))
    return DP_INVALID("Duplicated arg name: %s", arg->name);
  dp_attr *attrs = NULL;
  int32_t attr_count = 0;
  DP_RETURN_IF_ERROR(argument_attrs(in, (uint32_t)number, &attrs, &attr_count));
  in->values_left -= (int64_t)count * (attr_count + 2);
  if (in->values_left < 0)
    return dp_status_create(DP_RESOURCE_EXHAUSTED, "Function '%s' has too many arguments",
                            signature->name);
  for (int32_t i = 0; i < count; i++) {
    int32_t type = dp_arg_type(signature, arg, in->bound, in->bound_count, i);
    dp_node *node;
    DP_RETURN_IF_ERROR(add_end(in, "_Arg", numbered(in, arg->name, "", i, count), type,
                               (int32_t)arguments->count, NULL, attrs, attr_count, &node));
    DP_ARRAY_PUSH(arguments, node);
  }
  return NULL;
}

/* ---- The body's own nodes ---- */

static dp_status *add_node(instantiation *in, const Tensorflow__NodeDef *def) {
  dp_arena *arena = in->graph->arena;
  dp_node *node = DP_ARENA_NEW(arena, dp_node);
  node->name = dp_arena_strdup(arena, def->name);
  node->device = *def->device ? dp_arena_strdup(arena, def->device) : "";
  node->op = dp_library_find_op(in->library, def->op);
  if (!node->op)
    return dp_op_unknown(def->op);
  if (def->n_attr > INT16_MAX)
    return DP_INVALID("Node '%s' has too many attributes: %zu", def->name, def->n_attr);
  dp_attr_store store = {arena, &in->graph->tensors};
  dp_attr *attrs = DP_ARENA_ARRAY(arena, dp_attr, def->n_attr);
  for (size_t i = 0; i < def->n_attr; i++) {
    attrs[i].name = dp_arena_strdup(arena, def->attr[i]->key);
    DP_RETURN_IF_ERROR(dp_attr_from_message(&store, def->attr[i]->value, &attrs[i]));
    DP_RETURN_IF_ERROR(substitute(in, &attrs[i]));
  }
  node->input_count = -1;
  DP_RETURN_IF_ERROR(dp_node_complete(arena, node, attrs, dp_attr_sort(attrs, (int32_t)def->n_attr),
                                      &in->values_left));
  return enter_node(in, node);
}

/* Resolves the data inputs. Each reference stands for one value or for several. *used_out is how
 * many references were resolved. */
static dp_status *resolve_inputs(instantiation *in, const Tensorflow__NodeDef *def, dp_node *node,
                                 size_t *used_out) {
  node->inputs = DP_ARENA_ARRAY(in->graph->arena, dp_input, node->input_count);
  int32_t slot = 0;
  size_t used = 0;
  for (; slot < node->input_count; used++) {
    if (used >= def->n_input)
      return DP_INVALID("Attempt to access beyond input size: %zu >= %zu", used, def->n_input);
    dp_body_value value;
    if (!dp_body_index_find(in->index, def->input[used], &value))
      return DP_INVALID("input %s is not found: {{node %s}}", def->input[used], def->name);
    if (value.count > node->input_count - slot)
      return DP_INVALID("Input %s too long for {{node %s}}", def->input[used], def->name);
    for (int32_t i = 0; i < value.count; i++, slot++) {
      dp_input input = {.node = value.node + (value.is_argument ? i : 0),
                        .output = value.output + (value.is_argument ? 0 : i)};
      node->inputs[slot] = input;
      DP_RETURN_IF_ERROR(
          dp_node_check_input(node, slot, in->graph->nodes[input.node], input.output));
    }
  }
  *used_out = used;
  return NULL;
}

static dp_status *resolve_node(instantiation *in, const Tensorflow__NodeDef *def, dp_node *node) {
  size_t used = 0;
  DP_RETURN_IF_ERROR(resolve_inputs(in, def, node, &used));
  node->controls = DP_ARENA_ARRAY(in->graph->arena, int32_t, def->n_input - used);
  for (size_t i = used; i < def->n_input; i++) {
    const char *input = def->input[i];
    if (*input != '^')
      return DP_INVALID("Expected input[%zu] == '%s' to be a control input.", i, input);
    int32_t id = dp_body_index_find_node(in->index, input + 1);
    if (id < 0)
      return DP_INVALID("input[%zu] == '%s', is not found.", i, input);
    node->controls[i - used] = id;
  }
  node->control_count = dp_controls_sort(node->controls, (int32_t)(def->n_input - used));
  return NULL;
}

/* ---- Results ---- */

static dp_status *check_result_types(instantiation *in, const dp_op_arg *arg,
                                     const dp_body_value *value, int32_t count) {
  for (int32_t i = 0; i < value->count && value->count == count; i++) {
    const dp_node *source = in->graph->nodes[value->node + (value->is_argument ? i : 0)];
    int32_t have = source->output_types[value->output + (value->is_argument ? 0 : i)];
    int32_t want = dp_arg_type(&in->function->signature, arg, in->bound, in->bound_count, i);
    if ((int32_t)dp_dtype_base(have) != want)
      return DP_INVALID("Invalid ret types %s : %s vs. %s", arg->name, dp_dtype_name(want),
                        dp_dtype_name(have));
  }
  if (value->count != count)
    return DP_INVALID("Invalid ret types %s : %d values vs. %d", arg->name, count, value->count);
  return NULL;
}

static dp_status *add_result(instantiation *in, const dp_op_arg *arg, node_array *results) {
  const Tensorflow__FunctionDef *definition = in->function->definition;
  const Tensorflow__FunctionDef__RetEntry *found =
      dp_find_entry(definition->n_ret, definition->ret, arg->name);
  if (!found)
    return DP_INVALID("Return %s missing.", arg->name);
  const char *reference = found->value;
  int32_t count;
  DP_RETURN_IF_ERROR(count_values(in, arg, "result", &count));
  dp_body_value value;
  if (!dp_body_index_find(in->index, reference, &value))
    return DP_INVALID("Return %s -> %s is not found.", arg->name, reference);
  DP_RETURN_IF_ERROR(check_result_types(in, arg, &value, count));
  for (int32_t i = 0; i < count; i++) {
    dp_input *input = DP_ARENA_NEW(in->graph->arena, dp_input);
    *input = (dp_input){.node = value.node + (value.is_argument ? i : 0),
                        .output = value.output + (value.is_argument ? 0 : i)};
    int32_t type = dp_arg_type(&in->function->signature, arg, in->bound, in->bound_count, i);
    dp_node *node;
    DP_RETURN_IF_ERROR(add_end(in, "_Retval", numbered(in, arg->name, "_RetVal", i, count), type,
                               (int32_t)results->count, input, NULL, 0, &node));
    DP_ARRAY_PUSH(results, node);
  }
  return NULL;
}

static dp_status *find_control_results(instantiation *in) {
  const Tensorflow__FunctionDef *definition = in->function->definition;
  dp_node **nodes = DP_ARENA_ARRAY(in->graph->arena, dp_node *, definition->n_control_ret);
  for (size_t i = 0; i < definition->n_control_ret; i++) {
    const char *name = definition->control_ret[i]->value;
    int32_t id = dp_body_index_find_node(in->index, name);
    if (id < 0)
      return DP_INVALID("Control return %s -> %s is not found.", definition->control_ret[i]->key,
                        name);
    nodes[i] = in->graph->nodes[id];
  }
  in->body.control_results = nodes;
  in->body.control_result_count = (int32_t)definition->n_control_ret;
  return NULL;
}

/* ---- All of it ---- */

static dp_node **keep_nodes(instantiation *in, const node_array *nodes) {
  dp_node **copy = DP_ARENA_ARRAY(in->graph->arena, dp_node *, nodes->count);
  if (nodes->count)
    memcpy(copy, nodes->items, nodes->count * sizeof(*copy));
  return copy;
}

static dp_status *add_arguments(instantiation *in) {
  node_array arguments = {0};
  dp_status *status = NULL;
  for (int32_t i = 0; i < in->function->signature.input_count && !status; i++) {
    status = add_argument(in, i, &arguments);
    if (status)
      status =
          dp_status_append(status, "\n\tIn argument %s", in->function->signature.inputs[i].name);
  }
  in->body.arguments = keep_nodes(in, &arguments);
  in->body.argument_count = (int32_t)arguments.count;
  DP_ARRAY_FREE(&arguments);
  return status;
}

static dp_status *add_nodes(instantiation *in) {
  const Tensorflow__FunctionDef *definition = in->function->definition;
  in->first_node = in->graph->node_count;
  for (size_t i = 0; i < definition->n_node_def; i++) {
    dp_status *status = add_node(in, definition->node_def[i]);
    if (status)
      return dp_status_append(status, "\n\tIn {{node %s}}", definition->node_def[i]->name);
  }
  for (size_t i = 0; i < definition->n_node_def; i++) {
    dp_status *status =
        resolve_node(in, definition->node_def[i], in->graph->nodes[in->first_node + (int32_t)i]);
    if (status)
      return dp_status_append(status, "\n\tIn {{node %s}}", definition->node_def[i]->name);
  }
  int32_t cyclic = dp_graph_count_cyclic(in->graph, 0);
  return cyclic ? DP_INVALID("%d nodes in a cycle", cyclic) : NULL;
}

static dp_status *add_results(instantiation *in) {
  node_array results = {0};
  dp_status *status = NULL;
  for (int32_t i = 0; i < in->function->signature.output_count && !status; i++) {
    status = add_result(in, &in->function->signature.outputs[i], &results);
    if (status)
      status = dp_status_append(status, "\n\tIn function output %s",
                                in->function->signature.outputs[i].name);
  }
  in->body.results = keep_nodes(in, &results);
  in->body.result_count = (int32_t)results.count;
  DP_ARRAY_FREE(&results);
  return status ? status : find_control_results(in);
}

static dp_status *write_body(instantiation *in, const dp_func *call) {
  DP_RETURN_IF_ERROR(bind_attrs(in, call));
  DP_RETURN_IF_ERROR(add_arguments(in));
  DP_RETURN_IF_ERROR(add_nodes(in));
  return add_results(in);
}

dp_status *dp_function_instantiate(dp_library *library, const dp_func *function,
                                   dp_function_body *body_out) {
  instantiation in = {.library = library, .function = dp_library_find(library, function->name)};
  if (!in.function)
    return dp_status_create(DP_NOT_FOUND, "Function %s is not defined.", function->name);
  in.graph = dp_graph_create(library);
  in.graph->producer = DP_GRAPH_VERSION;
  in.index = dp_body_index_create(in.graph);
  in.values_left = DP_GRAPH_MOST_VALUES;
  dp_status *status = write_body(&in, function);
  dp_body_index_destroy(in.index);
  if (status) {
    dp_graph_destroy(in.graph);
    return status;
  }
  in.body.graph = in.graph;
  *body_out = in.body;
  return NULL;
}
