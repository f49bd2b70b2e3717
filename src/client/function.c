/* TF_Function: a FunctionDef outside of any graph. It is made from a part of a graph or from bytes,
 * and can be copied into the libraries of graphs. Its arena owns the message. A TF_Function belongs
 * to one thread at a time; making one from a graph takes the graph's lock. */
#include "client/client_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct TF_Function {
  dp_arena *arena;
  Tensorflow__FunctionDef *message;
};

static TF_Function *make(dp_arena *arena, Tensorflow__FunctionDef *message) {
  TF_Function *function = DP_NEW(TF_Function);
  function->arena = arena;
  function->message = message;
  return function;
}

void TF_DeleteFunction(TF_Function *func) {
  if (!func)
    return;
  dp_arena_destroy(func->arena);
  dp_free(func);
}

const char *TF_FunctionName(TF_Function *func) {
  return func->message->signature->name;
}

void TF_FunctionToFunctionDef(TF_Function *func, TF_Buffer *output_func_def, TF_Status *status) {
  dp_client_set_status(status, dp_client_pack(func->message, output_func_def));
}

static dp_status *read_function(const void *proto, size_t length, dp_arena *arena,
                                Tensorflow__FunctionDef **message_out) {
  dp_status *status = dp_wire_unpack_bytes(&tensorflow__function_def__descriptor, proto, length,
                                           arena, message_out);
  bool is_bad = status || !(*message_out)->signature;
  dp_status_release(status);
  return is_bad ? DP_INVALID("Invalid FunctionDef given to TF_FunctionImportFunctionDef") : NULL;
}

TF_Function *TF_FunctionImportFunctionDef(const void *proto, size_t proto_len, TF_Status *status) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__FunctionDef *message;
  dp_status *result = read_function(proto, proto_len, arena, &message);
  dp_client_set_status(status, result);
  if (!result)
    return make(arena, message);
  dp_arena_destroy(arena);
  return NULL;
}

/* ---- Attributes ---- */

static Tensorflow__FunctionDef__AttrEntry *find_attr(const TF_Function *func, const char *name) {
  for (size_t i = 0; i < func->message->n_attr; i++)
    if (strcmp(func->message->attr[i]->key, name) == 0)
      return func->message->attr[i];
  return NULL;
}

static Tensorflow__FunctionDef__AttrEntry *add_attr(TF_Function *func, const char *name) {
  Tensorflow__FunctionDef *message = func->message;
  Tensorflow__FunctionDef__AttrEntry **entries =
      DP_ARENA_ARRAY(func->arena, Tensorflow__FunctionDef__AttrEntry *, message->n_attr + 1);
  if (message->n_attr)
    memcpy(entries, message->attr, sizeof(*entries) * message->n_attr);
  Tensorflow__FunctionDef__AttrEntry *entry =
      dp_wire_new(func->arena, &tensorflow__function_def__attr_entry__descriptor);
  entry->key = dp_arena_strdup(func->arena, name);
  entries[message->n_attr++] = entry;
  message->attr = entries;
  return entry;
}

void TF_FunctionSetAttrValueProto(TF_Function *func, const char *attr_name, const void *proto,
                                  size_t proto_len, TF_Status *status) {
  Tensorflow__AttrValue *value;
  dp_status *result = dp_wire_unpack_bytes(&tensorflow__attr_value__descriptor, proto, proto_len,
                                           func->arena, &value);
  dp_client_set_status(
      status, result
                  ? DP_INVALID("Unparseable AttrValue proto passed to TF_FunctionSetAttrValueProto")
                  : NULL);
  dp_status_release(result);
  if (result)
    return;
  Tensorflow__FunctionDef__AttrEntry *entry = find_attr(func, attr_name);
  if (!entry)
    entry = add_attr(func, attr_name);
  entry->value = value;
}

void TF_FunctionGetAttrValueProto(TF_Function *func, const char *attr_name,
                                  TF_Buffer *output_attr_value, TF_Status *status) {
  const Tensorflow__FunctionDef__AttrEntry *entry = find_attr(func, attr_name);
  dp_client_set_status(status, entry ? dp_client_pack(entry->value, output_attr_value)
                                     : DP_INVALID("Function '%s' has no attr named '%s'.",
                                                  TF_FunctionName(func), attr_name));
}

/* ---- Functions of a graph ---- */

void TF_GraphCopyFunction(TF_Graph *g, const TF_Function *func, const TF_Function *grad,
                          TF_Status *status) {
  if (!func) {
    dp_client_set_status(status,
                         DP_INVALID("'func' argument to TF_GraphCopyFunction cannot be null"));
    return;
  }
  Tensorflow__FunctionDef *functions[] = {func->message, grad ? grad->message : NULL};
  Tensorflow__GradientDef gradient = TENSORFLOW__GRADIENT_DEF__INIT, *gradients = &gradient;
  Tensorflow__FunctionDefLibrary library = TENSORFLOW__FUNCTION_DEF_LIBRARY__INIT;
  library.function = functions;
  library.n_function = grad ? 2 : 1;
  if (grad) {
    gradient.function_name = func->message->signature->name;
    gradient.gradient_func = grad->message->signature->name;
    library.gradient = &gradients;
    library.n_gradient = 1;
  }
  pthread_mutex_lock(&g->lock);
  dp_client_set_status(status, dp_library_add(g->graph->library, &library));
  pthread_mutex_unlock(&g->lock);
}

int TF_GraphNumFunctions(TF_Graph *graph) {
  dp_arena *arena = dp_arena_create();
  int count = (int)dp_library_export(graph->graph->library, arena)->n_function;
  dp_arena_destroy(arena);
  return count;
}

int TF_GraphGetFunctions(TF_Graph *g, TF_Function **funcs, int max_func, TF_Status *status) {
  dp_arena *arena = dp_arena_create();
  const Tensorflow__FunctionDefLibrary *library = dp_library_export(g->graph->library, arena);
  int count = 0;
  dp_client_set_status(status, NULL);
  for (size_t i = 0; i < library->n_function && count < max_func; i++) {
    TF_Buffer *bytes = TF_NewBuffer();
    dp_client_set_status(status, dp_client_pack(library->function[i], bytes));
    if (TF_GetCode(status) == TF_OK)
      funcs[count++] = TF_FunctionImportFunctionDef(bytes->data, bytes->length, status);
    TF_DeleteBuffer(bytes);
  }
  dp_arena_destroy(arena);
  return count;
}

/* ---- From a graph to a function ---- */

typedef struct converter {
  TF_Graph *graph;
  dp_arena *arena;
  const char *name;
  const TF_Output *inputs;
  int input_count;
  bool *is_body;      /* by node */
  char **node_names;  /* by node: its name in the function */
  char **input_names; /* by input */
  dp_map *taken;
  Tensorflow__FunctionDef *message;
} converter;

/* `wanted`, with a number appended if it is taken. */
static char *take_name(converter *in, const char *wanted) {
  const char *name = wanted;
  for (int number = 0; dp_map_get(in->taken, name); number++)
    name = dp_arena_printf(in->arena, "%s_%d", wanted, number);
  dp_map_put(in->taken, name, in);
  return (char *)name;
}

/* Lower case, '_' for what is neither letter nor digit, and a letter first. */
static char *argument_name(converter *in, const char *name) {
  char *plain = dp_arena_strdup(in->arena, name);
  for (char *at = plain; *at; at++)
    *at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '_';
  while (*plain && !isalpha((unsigned char)*plain))
    plain++;
  return take_name(in, *plain ? plain : "unknown");
}

static int find_input(const converter *in, int32_t node, int32_t output) {
  for (int i = 0; i < in->input_count; i++)
    if (in->inputs[i].oper->node->id == node && in->inputs[i].index == output)
      return i;
  return -1;
}

/* How the function's body refers to an output: by the name of an argument, or as
 * "node:output:number". NULL: the output is neither an input nor in the body. */
static char *output_reference(const converter *in, int32_t id, int32_t output) {
  int argument = find_input(in, id, output);
  if (argument >= 0)
    return in->input_names[argument];
  const dp_node *node = in->graph->graph->nodes[id];
  for (int32_t i = 0; in->is_body[id] && i < node->op->output_count; i++) {
    int32_t begin = 0, end = 0;
    dp_status_release(dp_node_output_range(node, node->op->outputs[i].name, &begin, &end));
    if (output >= begin && output < end)
      return dp_arena_printf(in->arena, "%s:%s:%d", in->node_names[id], node->op->outputs[i].name,
                             output - begin);
  }
  return NULL;
}

static dp_status *check_value(const converter *in, TF_Output value) {
  const dp_node *node = value.oper ? value.oper->node : NULL;
  if (!node || value.oper->graph != in->graph || value.index < 0 ||
      value.index >= node->output_count)
    return DP_INVALID("A value given for function '%s' is no output of its graph", in->name);
  if (dp_dtype_is_ref(node->output_types[value.index]))
    return DP_INVALID("Output %d of node '%s' has a reference type %s", value.index, node->name,
                      dp_dtype_name(node->output_types[value.index]));
  return NULL;
}

/* ---- What belongs to the body ---- */

static dp_status *choose_body(converter *in, int count, const TF_Operation *const *operations) {
  for (int i = 0; i < count; i++)
    in->is_body[operations[i]->node->id] = true;
  if (count >= 0)
    return NULL;
  for (int32_t id = 0; id < in->graph->graph->node_count; id++)
    in->is_body[id] = in->graph->graph->nodes[id] != NULL;
  for (int i = 0; i < in->input_count; i++) {
    const dp_node *node = in->inputs[i].oper->node;
    if (node->output_count != 1)
      return DP_INVALID("When `num_opers` is set to -1, nodes referenced in `inputs` must have a "
                        "single output. Node %s has %d outputs. Encountered while creating "
                        "function '%s'",
                        node->name, node->output_count, in->name);
    in->is_body[node->id] = false;
  }
  return NULL;
}

static dp_status *name_inputs(converter *in, Tensorflow__OpDef *signature) {
  signature->input_arg =
      DP_ARENA_ARRAY(in->arena, Tensorflow__OpDef__ArgDef *, in->input_count + 1);
  for (int i = 0; i < in->input_count; i++) {
    DP_RETURN_IF_ERROR(check_value(in, in->inputs[i]));
    const dp_node *node = in->inputs[i].oper->node;
    if (find_input(in, node->id, in->inputs[i].index) != i)
      return DP_INVALID("TF_Output %s:%d appears more than once in the input list", node->name,
                        in->inputs[i].index);
    in->input_names[i] = argument_name(in, node->name);
    Tensorflow__OpDef__ArgDef *argument =
        dp_wire_new(in->arena, &tensorflow__op_def__arg_def__descriptor);
    argument->name = in->input_names[i];
    argument->type = node->output_types[in->inputs[i].index];
    signature->input_arg[signature->n_input_arg++] = argument;
  }
  return NULL;
}

/* ---- Nodes ---- */

static dp_status *convert_inputs(const converter *in, const dp_node *node,
                                 Tensorflow__NodeDef *message) {
  message->input = DP_ARENA_ARRAY(in->arena, char *, node->input_count + node->control_count + 1);
  message->n_input = 0;
  for (int32_t i = 0; i < node->input_count; i++) {
    const dp_node *source = in->graph->graph->nodes[node->inputs[i].node];
    char *reference = output_reference(in, source->id, node->inputs[i].output);
    if (!reference)
      return DP_INVALID("Input %d, '%s:%d', of node '%s' in function '%s' is not available. You "
                        "might need to include it in inputs or include its source node in the body",
                        i, source->name, node->inputs[i].output, node->name, in->name);
    message->input[message->n_input++] = reference;
  }
  for (int32_t i = 0; i < node->control_count; i++) {
    const dp_node *source = in->graph->graph->nodes[node->controls[i]];
    if (!in->is_body[source->id])
      return DP_INVALID("The source of control edge %s -> %s is not in the body. Encountered while "
                        "creating function '%s'",
                        source->name, node->name, in->name);
    message->input[message->n_input++] =
        dp_arena_printf(in->arena, "^%s", in->node_names[source->id]);
  }
  return NULL;
}

static dp_status *convert_nodes(converter *in) {
  const dp_graph *graph = in->graph->graph;
  Tensorflow__FunctionDef *message = in->message;
  message->node_def = DP_ARENA_ARRAY(in->arena, Tensorflow__NodeDef *, graph->node_count + 1);
  for (int32_t id = 0; id < graph->node_count; id++)
    if (in->is_body[id])
      in->node_names[id] = take_name(in, graph->nodes[id]->name);
  for (int32_t id = 0; id < graph->node_count; id++) {
    if (!in->is_body[id])
      continue;
    Tensorflow__NodeDef *node = dp_node_export(graph, graph->nodes[id], in->arena);
    node->name = in->node_names[id];
    DP_RETURN_IF_ERROR(convert_inputs(in, graph->nodes[id], node));
    message->node_def[message->n_node_def++] = node;
    message->signature->is_stateful |= graph->nodes[id]->op->is_stateful;
  }
  return NULL;
}

/* ---- Outputs ---- */

static dp_status *add_output(converter *in, TF_Output output, char *name) {
  Tensorflow__OpDef *signature = in->message->signature;
  Tensorflow__OpDef__ArgDef *argument =
      dp_wire_new(in->arena, &tensorflow__op_def__arg_def__descriptor);
  Tensorflow__FunctionDef__RetEntry *entry =
      dp_wire_new(in->arena, &tensorflow__function_def__ret_entry__descriptor);
  argument->name = entry->key = name;
  argument->type = output.oper->node->output_types[output.index];
  entry->value = output_reference(in, output.oper->node->id, output.index);
  if (!entry->value)
    return DP_INVALID("TF_Output %s:%d is neither in the function body nor among function inputs. "
                      "Encountered while creating function '%s'",
                      output.oper->node->name, output.index, in->name);
  signature->output_arg[signature->n_output_arg++] = argument;
  in->message->ret[in->message->n_ret++] = entry;
  return NULL;
}

static dp_status *convert_outputs(converter *in, const TF_Output *outputs, int count,
                                  const char *const *names) {
  dp_map *seen = dp_map_create();
  dp_status *status = NULL;
  in->message->signature->output_arg =
      DP_ARENA_ARRAY(in->arena, Tensorflow__OpDef__ArgDef *, count + 1);
  in->message->ret = DP_ARENA_ARRAY(in->arena, Tensorflow__FunctionDef__RetEntry *, count + 1);
  for (int i = 0; i < count && !status; i++) {
    status = check_value(in, outputs[i]);
    if (!status && names && dp_map_put(seen, names[i], in))
      status = DP_INVALID("Cannot have duplicate output names. Name '%s' appears more than once in "
                          "'output_names' array.",
                          names[i]);
    if (!status)
      status = add_output(in, outputs[i],
                          names ? dp_arena_strdup(in->arena, names[i])
                                : argument_name(in, outputs[i].oper->node->name));
  }
  dp_map_destroy(seen);
  return status;
}

static dp_status *convert_controls(converter *in, const TF_Operation *const *operations, int count,
                                   const char *const *names) {
  Tensorflow__OpDef *signature = in->message->signature;
  signature->control_output = DP_ARENA_ARRAY(in->arena, char *, count + 1);
  in->message->control_ret =
      DP_ARENA_ARRAY(in->arena, Tensorflow__FunctionDef__ControlRetEntry *, count + 1);
  for (int i = 0; i < count; i++) {
    const dp_node *node = operations[i]->node;
    if (!in->is_body[node->id])
      return DP_INVALID("Control output '%s' is not in the body of function '%s'", node->name,
                        in->name);
    Tensorflow__FunctionDef__ControlRetEntry *entry =
        dp_wire_new(in->arena, &tensorflow__function_def__control_ret_entry__descriptor);
    entry->key = dp_arena_strdup(in->arena, names ? names[i] : node->name);
    entry->value = in->node_names[node->id];
    for (size_t k = 0; k < signature->n_control_output; k++)
      if (strcmp(signature->control_output[k], entry->key) == 0)
        return DP_INVALID("Repeated control output name: %s", entry->key);
    signature->control_output[signature->n_control_output++] = entry->key;
    in->message->control_ret[in->message->n_control_ret++] = entry;
  }
  return NULL;
}

/* ---- All ---- */

/* Appends a hash of the contents to the name, so that equal functions have equal names. */
static void append_hash(converter *in) {
  size_t size = protobuf_c_message_get_packed_size(&in->message->base);
  uint8_t *bytes = dp_malloc(size + 1);
  protobuf_c_message_pack(&in->message->base, bytes);
  in->message->signature->name = dp_arena_printf(in->arena, "%s_%llx", in->name,
                                                 (unsigned long long)dp_hash_bytes(bytes, size));
  dp_free(bytes);
}

TF_Function *TF_GraphToFunctionWithControlOutputs(
    const TF_Graph *fn_body, const char *fn_name, unsigned char append_hash_to_fn_name,
    int num_opers, const TF_Operation *const *opers, int ninputs, const TF_Output *inputs,
    int noutputs, const TF_Output *outputs, const char *const *output_names, int ncontrol_outputs,
    const TF_Operation *const *control_outputs, const char *const *control_output_names,
    const TF_FunctionOptions *opts, const char *description, TF_Status *status) {
  TF_Graph *graph = (TF_Graph *)fn_body;
  dp_arena *arena = dp_arena_create();
  pthread_mutex_lock(&graph->lock);
  int32_t nodes = graph->graph->node_count;
  converter in = {.graph = graph,
                  .arena = arena,
                  .name = fn_name,
                  .inputs = inputs,
                  .input_count = ninputs,
                  .is_body = DP_ARENA_ARRAY(arena, bool, nodes + 1),
                  .node_names = DP_ARENA_ARRAY(arena, char *, nodes + 1),
                  .input_names = DP_ARENA_ARRAY(arena, char *, ninputs + 1),
                  .taken = dp_map_create(),
                  .message = dp_wire_new(arena, &tensorflow__function_def__descriptor)};
  in.message->signature = dp_wire_new(arena, &tensorflow__op_def__descriptor);
  in.message->signature->name = dp_arena_strdup(arena, fn_name);
  if (description)
    in.message->signature->description = dp_arena_strdup(arena, description);
  dp_status *result = name_inputs(&in, in.message->signature);
  if (!result)
    result = choose_body(&in, num_opers, opers);
  if (!result)
    result = convert_nodes(&in);
  if (!result)
    result = convert_outputs(&in, outputs, noutputs, output_names);
  if (!result)
    result = convert_controls(&in, control_outputs, ncontrol_outputs, control_output_names);
  if (!result && append_hash_to_fn_name)
    append_hash(&in);
  /* The message borrows from the graph; the function is read from its bytes and borrows nothing. */
  TF_Function *function = NULL;
  TF_Buffer *bytes = TF_NewBuffer();
  if (!result)
    result = dp_client_pack(in.message, bytes);
  pthread_mutex_unlock(&graph->lock);
  dp_client_set_status(status, result);
  if (!result)
    function = TF_FunctionImportFunctionDef(bytes->data, bytes->length, status);
  TF_DeleteBuffer(bytes);
  dp_map_destroy(in.taken);
  dp_arena_destroy(arena);
  return function;
}

TF_Function *TF_GraphToFunction(const TF_Graph *fn_body, const char *fn_name,
                                unsigned char append_hash_to_fn_name, int num_opers,
                                const TF_Operation *const *opers, int ninputs,
                                const TF_Output *inputs, int noutputs, const TF_Output *outputs,
                                const char *const *output_names, const TF_FunctionOptions *opts,
                                const char *description, TF_Status *status) {
  return TF_GraphToFunctionWithControlOutputs(
      fn_body, fn_name, append_hash_to_fn_name, num_opers, opers, ninputs, inputs, noutputs,
      outputs, output_names, 0, NULL, NULL, opts, description, status);
}
