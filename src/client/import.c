/* TF_GraphImportGraphDef*: imports a GraphDef with the options of the C API.
 *
 * The message is rewritten first: nodes get their new names; inputs get the new names or the
 * outputs they are mapped to; nodes that read no imported node get the control inputs of the
 * options. Then the graph room reads the message like any other, with all its checks, and the
 * results are looked up. On error no node stays in the graph. The graph's lock is held throughout;
 * options and results belong to the caller, one thread at a time. */
#include "client/client_internal.h"

#include <string.h>

/* ---- Options ---- */

/* An output as the message names it, "name:index". An index of -1 is a control input. */
typedef struct source_name {
  char *name;
  int index;
} source_name;

typedef struct input_mapping {
  source_name source;
  TF_Output target;
} input_mapping;

struct TF_ImportGraphDefOptions {
  char *prefix;
  char *device;
  bool uniquify_names, uniquify_prefix;
  DP_ARRAY(input_mapping) mappings;
  DP_ARRAY(TF_Operation *) controls;
  DP_ARRAY(source_name) outputs;
  DP_ARRAY(char *) operations;
};

TF_ImportGraphDefOptions *TF_NewImportGraphDefOptions(void) {
  TF_ImportGraphDefOptions *options = DP_NEW(TF_ImportGraphDefOptions);
  options->prefix = dp_strdup("");
  options->device = dp_strdup("");
  return options;
}

void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions *options) {
  if (!options)
    return;
  for (size_t i = 0; i < options->mappings.count; i++)
    dp_free(options->mappings.items[i].source.name);
  for (size_t i = 0; i < options->outputs.count; i++)
    dp_free(options->outputs.items[i].name);
  for (size_t i = 0; i < options->operations.count; i++)
    dp_free(options->operations.items[i]);
  DP_ARRAY_FREE(&options->mappings);
  DP_ARRAY_FREE(&options->controls);
  DP_ARRAY_FREE(&options->outputs);
  DP_ARRAY_FREE(&options->operations);
  dp_free(options->prefix);
  dp_free(options->device);
  dp_free(options);
}

void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions *opts, const char *prefix) {
  dp_free(opts->prefix);
  opts->prefix = dp_strdup(prefix);
}

void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions *opts, const char *device) {
  dp_free(opts->device);
  opts->device = dp_strdup(device);
}

void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions *opts,
                                              unsigned char uniquify_names) {
  opts->uniquify_names = uniquify_names != 0;
}

void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions *opts,
                                               unsigned char uniquify_prefix) {
  opts->uniquify_prefix = uniquify_prefix != 0;
}

void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions *opts, const char *src_name,
                                             int src_index, TF_Output dst) {
  input_mapping mapping = {{dp_strdup(src_name), src_index}, dst};
  DP_ARRAY_PUSH(&opts->mappings, mapping);
}

void TF_ImportGraphDefOptionsRemapControlDependency(TF_ImportGraphDefOptions *opts,
                                                    const char *src_name, TF_Operation *dst) {
  TF_ImportGraphDefOptionsAddInputMapping(opts, src_name, -1, (TF_Output){dst, -1});
}

void TF_ImportGraphDefOptionsAddControlDependency(TF_ImportGraphDefOptions *opts,
                                                  TF_Operation *oper) {
  DP_ARRAY_PUSH(&opts->controls, oper);
}

void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions *opts, const char *oper_name,
                                             int index) {
  source_name output = {dp_strdup(oper_name), index};
  DP_ARRAY_PUSH(&opts->outputs, output);
}

int TF_ImportGraphDefOptionsNumReturnOutputs(const TF_ImportGraphDefOptions *opts) {
  return (int)opts->outputs.count;
}

void TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions *opts,
                                                const char *oper_name) {
  DP_ARRAY_PUSH(&opts->operations, dp_strdup(oper_name));
}

int TF_ImportGraphDefOptionsNumReturnOperations(const TF_ImportGraphDefOptions *opts) {
  return (int)opts->operations.count;
}

/* ---- Results ---- */

struct TF_ImportGraphDefResults {
  dp_arena *arena;
  TF_Output *outputs;
  int output_count;
  TF_Operation **operations;
  int operation_count;
  const char **missing_names;
  int *missing_indexes;
  int missing_count;
};

void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults *results, int *num_outputs,
                                           TF_Output **outputs) {
  *num_outputs = results->output_count;
  *outputs = results->outputs;
}

void TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults *results, int *num_opers,
                                              TF_Operation ***opers) {
  *num_opers = results->operation_count;
  *opers = results->operations;
}

void TF_ImportGraphDefResultsMissingUnusedInputMappings(TF_ImportGraphDefResults *results,
                                                        int *num_missing_unused_input_mappings,
                                                        const char ***src_names,
                                                        int **src_indexes) {
  *num_missing_unused_input_mappings = results->missing_count;
  *src_names = results->missing_names;
  *src_indexes = results->missing_indexes;
}

void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults *results) {
  if (results)
    dp_arena_destroy(results->arena); /* holds the results too */
}

/* ---- Names ---- */

typedef struct importer {
  TF_Graph *graph;
  const TF_ImportGraphDefOptions *options;
  dp_arena *arena;
  Tensorflow__GraphDef *message;
  const char *prefix; /* with its '/', or "" */
  dp_map *names;      /* the message's name -> the new one */
  dp_map *taken;      /* names of the graph, their scopes, and new names; NULL: not needed */
  bool *used;         /* by mapping: whether an input used it */
} importer;

static const char *new_name(const importer *in, const char *name) {
  return dp_map_get(in->names, name);
}

/* Every name of the graph, and every scope it is in. */
static void note_taken_names(importer *in) {
  in->taken = dp_map_create();
  const dp_graph *graph = in->graph->graph;
  for (int32_t i = 0; i < graph->node_count; i++) {
    if (!graph->nodes[i])
      continue;
    const char *name = graph->nodes[i]->name;
    for (const char *at = strchr(name, '/'); at; at = strchr(at + 1, '/'))
      dp_map_put_n(in->taken, name, (size_t)(at - name), in);
    dp_map_put(in->taken, name, in);
  }
}

static const char *unused_name(const importer *in, const char *name) {
  const char *candidate = name;
  for (int number = 1; dp_map_get(in->taken, candidate); number++)
    candidate = dp_arena_printf(in->arena, "%s_%d", name, number);
  return candidate;
}

static void choose_prefix(importer *in) {
  const char *prefix = in->options->prefix;
  size_t length = strlen(prefix);
  if (length && prefix[length - 1] == '/')
    length--;
  const char *bare = dp_arena_strndup(in->arena, prefix, length);
  if (length && in->options->uniquify_prefix)
    bare = unused_name(in, bare);
  in->prefix = *bare ? dp_arena_printf(in->arena, "%s/", bare) : "";
}

static dp_status *choose_names(importer *in) {
  const TF_ImportGraphDefOptions *options = in->options;
  if (options->uniquify_names || options->uniquify_prefix)
    note_taken_names(in);
  choose_prefix(in);
  bool with_numbers = options->uniquify_names && (!*in->prefix || !options->uniquify_prefix);
  for (size_t i = 0; i < in->message->n_node; i++) {
    const char *old = in->message->node[i]->name;
    const char *name = dp_arena_printf(in->arena, "%s%s", in->prefix, old);
    if (with_numbers)
      name = unused_name(in, name);
    else if (dp_graph_find(in->graph->graph, name))
      return DP_INVALID("Node name '%s' already exists in the Graph", name);
    if (dp_map_put(in->names, old, (void *)name))
      return DP_INVALID("Node '%s' is not unique", old);
    if (with_numbers)
      dp_map_put(in->taken, name, in);
  }
  return NULL;
}

/* ---- Inputs ---- */

/* "^name", "name:3", "name": the node's name and the index, -1 for a control input. */
static source_name split_input(const importer *in, const char *input) {
  if (*input == '^')
    return (source_name){(char *)input + 1, -1};
  const char *colon = strrchr(input, ':');
  int64_t index;
  if (!colon || !dp_parse_int64(dp_view_of(colon + 1), &index) || index < 0 || index > INT32_MAX)
    return (source_name){(char *)input, 0};
  return (source_name){dp_arena_strndup(in->arena, input, (size_t)(colon - input)), (int)index};
}

static const input_mapping *find_mapping(const importer *in, source_name source) {
  for (size_t i = 0; i < in->options->mappings.count; i++) {
    const input_mapping *mapping = &in->options->mappings.items[i];
    if (mapping->source.index != source.index || strcmp(mapping->source.name, source.name) != 0)
      continue;
    in->used[i] = true;
    return mapping;
  }
  return NULL;
}

/* *is_outside_out: the input is mapped to an output that the graph had before. */
static dp_status *rename_input(const importer *in, const char *node, char **input,
                               bool *is_outside_out) {
  source_name source = split_input(in, *input);
  const input_mapping *mapping = find_mapping(in, source);
  const char *name = mapping ? mapping->target.oper->node->name : new_name(in, source.name);
  int index = mapping ? mapping->target.index : source.index;
  if (!name)
    return DP_INVALID("Node '%s': Unknown input node '%s'", node, *input);
  *is_outside_out = mapping != NULL;
  *input = source.index < 0 ? dp_arena_printf(in->arena, "^%s", name)
                            : dp_arena_printf(in->arena, "%s:%d", name, index);
  return NULL;
}

/* Adds the control inputs of the options. Nodes that read another imported node do not need them:
 * that node waits for them. */
static void add_controls(const importer *in, Tensorflow__NodeDef *node) {
  size_t count = in->options->controls.count;
  char **inputs = DP_ARENA_ARRAY(in->arena, char *, node->n_input + count);
  if (node->n_input)
    memcpy(inputs, node->input, sizeof(*inputs) * node->n_input);
  for (size_t i = 0; i < count; i++)
    inputs[node->n_input++] =
        dp_arena_printf(in->arena, "^%s", in->options->controls.items[i]->node->name);
  node->input = inputs;
}

/* "loc:@name" in the attribute _class. */
static void rename_colocation(const importer *in, Tensorflow__NodeDef *node) {
  static const char prefix[] = "loc:@";
  const Tensorflow__AttrValue *value = dp_wire_node_attr(node, "_class");
  if (!value || value->value_case != TENSORFLOW__ATTR_VALUE__VALUE_LIST || !value->list)
    return;
  for (size_t i = 0; i < value->list->n_s; i++) {
    ProtobufCBinaryData *text = &value->list->s[i];
    size_t length = sizeof(prefix) - 1;
    if (text->len < length || memcmp(text->data, prefix, length) != 0)
      continue;
    const char *old = dp_arena_strndup(in->arena, (char *)text->data + length, text->len - length);
    const char *name = new_name(in, old);
    if (!name)
      continue;
    text->data = (uint8_t *)dp_arena_printf(in->arena, "%s%s", prefix, name);
    text->len = strlen((char *)text->data);
  }
}

static dp_status *rewrite_node(const importer *in, Tensorflow__NodeDef *node) {
  bool reads_imported = false;
  for (size_t i = 0; i < node->n_input; i++) {
    bool is_outside = false;
    DP_RETURN_IF_ERROR(rename_input(in, node->name, &node->input[i], &is_outside));
    reads_imported |= !is_outside;
  }
  if (!reads_imported && in->options->controls.count)
    add_controls(in, node);
  rename_colocation(in, node);
  if (!*node->device)
    node->device = in->options->device;
  node->name = (char *)new_name(in, node->name);
  return NULL;
}

/* ---- The graph ---- */

static dp_status *check_returns(const importer *in) {
  const TF_ImportGraphDefOptions *options = in->options;
  for (size_t i = 0; i < options->outputs.count; i++) {
    source_name output = options->outputs.items[i];
    if (!find_mapping(in, output) && !new_name(in, output.name))
      return DP_INVALID("Requested return tensor '%s:%d' not found in graph def", output.name,
                        output.index);
  }
  for (size_t i = 0; i < options->operations.count; i++)
    if (!new_name(in, options->operations.items[i]))
      return DP_INVALID("Requested return node '%s' not found in graph def",
                        options->operations.items[i]);
  return NULL;
}

/* A graph with nodes of two versions gets the lower version, so that old nodes keep their meaning.
 */
static dp_status *add_to_graph(importer *in) {
  dp_graph *graph = in->graph->graph;
  int32_t producer = in->message->versions ? in->message->versions->producer : 0;
  bool is_empty = graph->node_count == 0;
  int32_t before = graph->producer;
  if (!is_empty)
    graph->producer = producer;
  dp_status *status = dp_graph_import(graph, in->message);
  if (status || (!is_empty && before < producer))
    graph->producer = before;
  else
    graph->producer = producer;
  return status;
}

static TF_Operation *imported(const importer *in, const char *name) {
  const dp_node *node = dp_graph_find(in->graph->graph, new_name(in, name));
  return in->graph->operations[node->id];
}

static dp_status *find_outputs(const importer *in, TF_ImportGraphDefResults *results) {
  size_t count = in->options->outputs.count;
  results->outputs = DP_ARENA_ARRAY(results->arena, TF_Output, count + 1);
  for (size_t i = 0; i < count; i++) {
    source_name output = in->options->outputs.items[i];
    const input_mapping *mapping = find_mapping(in, output);
    TF_Output found =
        mapping ? mapping->target : (TF_Output){imported(in, output.name), output.index};
    if (found.index < 0 || found.index >= found.oper->node->output_count)
      return DP_INVALID("Invalid return output %d of node '%s', which has %d output(s)",
                        output.index, output.name, found.oper->node->output_count);
    results->outputs[results->output_count++] = found;
  }
  return NULL;
}

static bool is_missing(const importer *in, source_name source) {
  if (!new_name(in, source.name))
    return true;
  return source.index >= imported(in, source.name)->node->output_count;
}

static void find_missing(const importer *in, TF_ImportGraphDefResults *results) {
  size_t count = in->options->mappings.count;
  results->missing_names = DP_ARENA_ARRAY(results->arena, const char *, count + 1);
  results->missing_indexes = DP_ARENA_ARRAY(results->arena, int, count + 1);
  for (size_t i = 0; i < count; i++) {
    source_name source = in->options->mappings.items[i].source;
    if (in->used[i] || !is_missing(in, source))
      continue;
    results->missing_names[results->missing_count] = dp_arena_strdup(results->arena, source.name);
    results->missing_indexes[results->missing_count++] = source.index;
  }
}

static dp_status *fill_results(const importer *in, TF_ImportGraphDefResults *results) {
  DP_RETURN_IF_ERROR(find_outputs(in, results));
  size_t count = in->options->operations.count;
  results->operations = DP_ARENA_ARRAY(results->arena, TF_Operation *, count + 1);
  for (size_t i = 0; i < count; i++)
    results->operations[results->operation_count++] =
        imported(in, in->options->operations.items[i]);
  find_missing(in, results);
  return NULL;
}

static dp_status *import(importer *in, const TF_Buffer *graph_def,
                         TF_ImportGraphDefResults *results) {
  dp_status *status = dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, graph_def->data,
                                           graph_def->length, in->arena, &in->message);
  if (status) {
    dp_status_release(status);
    return DP_INVALID("Invalid GraphDef");
  }
  DP_RETURN_IF_ERROR(choose_names(in));
  for (size_t i = 0; i < in->message->n_node; i++)
    DP_RETURN_IF_ERROR(rewrite_node(in, in->message->node[i]));
  DP_RETURN_IF_ERROR(check_returns(in));
  int32_t first = in->graph->graph->node_count;
  DP_RETURN_IF_ERROR(add_to_graph(in));
  dp_client_graph_index(in->graph);
  status = dp_client_infer_shapes(in->graph, first);
  if (!status)
    status = fill_results(in, results);
  if (status)
    dp_client_graph_remove(in->graph, first);
  return status;
}

TF_ImportGraphDefResults *TF_GraphImportGraphDefWithResults(TF_Graph *graph,
                                                            const TF_Buffer *graph_def,
                                                            const TF_ImportGraphDefOptions *options,
                                                            TF_Status *status) {
  dp_arena *arena = dp_arena_create();
  TF_ImportGraphDefResults *results = DP_ARENA_NEW(arena, TF_ImportGraphDefResults);
  results->arena = arena;
  importer in = {.graph = graph,
                 .options = options,
                 .arena = dp_arena_create(),
                 .names = dp_map_create(),
                 .used = DP_NEW_ARRAY(bool, options->mappings.count + 1)};
  pthread_mutex_lock(&graph->lock);
  dp_status *result = import(&in, graph_def, results);
  pthread_mutex_unlock(&graph->lock);
  dp_free(in.used);
  dp_map_destroy(in.names);
  if (in.taken)
    dp_map_destroy(in.taken);
  dp_arena_destroy(in.arena);
  dp_client_set_status(status, result);
  if (!result)
    return results;
  TF_DeleteImportGraphDefResults(results);
  return NULL;
}

void TF_GraphImportGraphDefWithReturnOutputs(TF_Graph *graph, const TF_Buffer *graph_def,
                                             const TF_ImportGraphDefOptions *options,
                                             TF_Output *return_outputs, int num_return_outputs,
                                             TF_Status *status) {
  if (num_return_outputs != (int)options->outputs.count) {
    dp_client_set_status(status, DP_INVALID("Expected 'num_return_outputs' to be %zu, got %d",
                                            options->outputs.count, num_return_outputs));
    return;
  }
  if (num_return_outputs > 0 && !return_outputs) {
    dp_client_set_status(status, DP_INVALID("'return_outputs' must be preallocated to length %d",
                                            num_return_outputs));
    return;
  }
  TF_ImportGraphDefResults *results =
      TF_GraphImportGraphDefWithResults(graph, graph_def, options, status);
  for (int i = 0; results && i < num_return_outputs; i++)
    return_outputs[i] = results->outputs[i];
  TF_DeleteImportGraphDefResults(results);
}

void TF_GraphImportGraphDef(TF_Graph *graph, const TF_Buffer *graph_def,
                            const TF_ImportGraphDefOptions *options, TF_Status *status) {
  TF_DeleteImportGraphDefResults(
      TF_GraphImportGraphDefWithResults(graph, graph_def, options, status));
}
