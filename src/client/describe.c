/* TF_OperationDescription: describes a new operation, then adds it to the graph.
 *
 * As in TensorFlow, the types and counts of inputs set the attributes that stand for them (T,
 * N...). An attribute that gets two different values is an error. Errors are collected and reported
 * by TF_FinishOperation. Values live in the description's arena; the graph copies what it keeps. A
 * description belongs to one thread at a time; finishing it takes the graph's lock. */
#include "client/client_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "wire/shape_message.h"

struct TF_OperationDescription {
  TF_Graph *graph;
  dp_arena *arena;
  const dp_op *op; /* NULL: there is none of that name */
  const char *op_type;
  const char *name;
  const char *device;
  DP_ARRAY(dp_input) inputs;
  DP_ARRAY(int32_t) controls;
  DP_ARRAY(dp_attr) attrs;
  DP_ARRAY(const char *) colocation;
  DP_ARRAY(dp_tensor *) tensors; /* of attributes; released at the end */
  DP_ARRAY(dp_graph *) values;   /* hold attributes that came as messages */
  int32_t args_given;            /* declared inputs that have been given */
  dp_text errors, input_errors;  /* lines */
  int error_count;
};

/* ---- Life ---- */

TF_OperationDescription *TF_NewOperation(TF_Graph *graph, const char *op_type,
                                         const char *oper_name) {
  dp_arena *arena = dp_arena_create();
  TF_OperationDescription *desc = DP_ARENA_NEW(arena, TF_OperationDescription);
  desc->graph = graph;
  desc->arena = arena;
  desc->op_type = dp_arena_strdup(arena, op_type);
  desc->name = dp_arena_strdup(arena, oper_name);
  desc->op = dp_library_find_op(graph->graph->library, op_type);
  return desc;
}

void dp_client_description_destroy(TF_OperationDescription *desc) {
  if (!desc)
    return;
  for (size_t i = 0; i < desc->tensors.count; i++)
    dp_tensor_deinit(desc->tensors.items[i]);
  for (size_t i = 0; i < desc->values.count; i++)
    dp_graph_destroy(desc->values.items[i]);
  DP_ARRAY_FREE(&desc->inputs);
  DP_ARRAY_FREE(&desc->controls);
  DP_ARRAY_FREE(&desc->attrs);
  DP_ARRAY_FREE(&desc->colocation);
  DP_ARRAY_FREE(&desc->tensors);
  DP_ARRAY_FREE(&desc->values);
  dp_text_deinit(&desc->errors);
  dp_text_deinit(&desc->input_errors);
  dp_arena_destroy(desc->arena);
}

static void DP_PRINTF(2, 3) add_error(TF_OperationDescription *desc, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *line = NULL;
  if (vasprintf(&line, format, arguments) >= 0) {
    if (desc->error_count++)
      dp_text_add_char(&desc->errors, '\n');
    dp_text_add(&desc->errors, line);
    free(line);
  }
  va_end(arguments);
}

/* ---- Attributes ---- */

const dp_attr *dp_client_description_attr(const TF_OperationDescription *desc, const char *name) {
  for (size_t i = 0; i < desc->attrs.count; i++)
    if (strcmp(desc->attrs.items[i].name, name) == 0)
      return &desc->attrs.items[i];
  return NULL;
}

static void set_attr(TF_OperationDescription *desc, const char *name, dp_attr attr) {
  const dp_attr *found = dp_client_description_attr(desc, name);
  if (!found) {
    attr.name = dp_arena_strdup(desc->arena, name);
    DP_ARRAY_PUSH(&desc->attrs, attr);
    return;
  }
  if (dp_attr_equal(found, &attr))
    return;
  dp_text first = {0}, second = {0};
  dp_attr_print(found, &first);
  dp_attr_print(&attr, &second);
  add_error(desc, "Inconsistent values for attr '%s' %s vs. %s", name, dp_text_string(&first),
            dp_text_string(&second));
  dp_text_deinit(&first);
  dp_text_deinit(&second);
}

static int32_t list_count(int count) {
  return count > 0 ? count : 0;
}

static void *copy(TF_OperationDescription *desc, const void *items, size_t size, int32_t count) {
  void *to = dp_arena_allocate(desc->arena, size * (size_t)count);
  return count ? memcpy(to, items, size * (size_t)count) : to;
}

static dp_view copy_view(TF_OperationDescription *desc, const void *data, size_t length) {
  return (dp_view){dp_arena_strndup(desc->arena, length ? data : "", length), length};
}

void TF_SetAttrString(TF_OperationDescription *desc, const char *attr_name, const void *value,
                      size_t length) {
  set_attr(desc, attr_name,
           (dp_attr){.kind = DP_ATTR_STRING, .string = copy_view(desc, value, length)});
}

void TF_SetAttrStringList(TF_OperationDescription *desc, const char *attr_name,
                          const void *const *values, const size_t *lengths, int num_values) {
  int32_t count = list_count(num_values);
  dp_view *strings = DP_ARENA_ARRAY(desc->arena, dp_view, count);
  for (int32_t i = 0; i < count; i++)
    strings[i] = copy_view(desc, values[i], lengths[i]);
  if (strcmp(attr_name, "_class") == 0) {
    desc->colocation.count = 0;
    for (int32_t i = 0; i < count; i++)
      DP_ARRAY_PUSH(&desc->colocation, strings[i].data);
    return;
  }
  set_attr(desc, attr_name,
           (dp_attr){.kind = DP_ATTR_LIST_STRING, .count = count, .strings = strings});
}

void TF_SetAttrInt(TF_OperationDescription *desc, const char *attr_name, int64_t value) {
  set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_INT, .integer = value});
}

void TF_SetAttrIntList(TF_OperationDescription *desc, const char *attr_name, const int64_t *values,
                       int num_values) {
  int32_t count = list_count(num_values);
  set_attr(desc, attr_name,
           (dp_attr){.kind = DP_ATTR_LIST_INT,
                     .count = count,
                     .integers = copy(desc, values, sizeof(*values), count)});
}

void TF_SetAttrFloat(TF_OperationDescription *desc, const char *attr_name, float value) {
  set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_FLOAT, .number = value});
}

void TF_SetAttrFloatList(TF_OperationDescription *desc, const char *attr_name, const float *values,
                         int num_values) {
  int32_t count = list_count(num_values);
  set_attr(desc, attr_name,
           (dp_attr){.kind = DP_ATTR_LIST_FLOAT,
                     .count = count,
                     .numbers = copy(desc, values, sizeof(*values), count)});
}

void TF_SetAttrBool(TF_OperationDescription *desc, const char *attr_name, unsigned char value) {
  set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_BOOL, .boolean = value != 0});
}

void TF_SetAttrBoolList(TF_OperationDescription *desc, const char *attr_name,
                        const unsigned char *values, int num_values) {
  int32_t count = list_count(num_values);
  bool *booleans = DP_ARENA_ARRAY(desc->arena, bool, count);
  for (int32_t i = 0; i < count; i++)
    booleans[i] = values[i] != 0;
  set_attr(desc, attr_name,
           (dp_attr){.kind = DP_ATTR_LIST_BOOL, .count = count, .booleans = booleans});
}

void TF_SetAttrType(TF_OperationDescription *desc, const char *attr_name, TF_DataType value) {
  set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_TYPE, .type = (int32_t)value});
}

void TF_SetAttrTypeList(TF_OperationDescription *desc, const char *attr_name,
                        const TF_DataType *values, int num_values) {
  int32_t count = list_count(num_values);
  int32_t *types = DP_ARENA_ARRAY(desc->arena, int32_t, count);
  for (int32_t i = 0; i < count; i++)
    types[i] = (int32_t)values[i];
  set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_LIST_TYPE, .count = count, .types = types});
}

void TF_SetAttrPlaceholder(TF_OperationDescription *desc, const char *attr_name,
                           const char *placeholder) {
  set_attr(desc, attr_name,
           (dp_attr){.kind = DP_ATTR_PLACEHOLDER,
                     .placeholder = dp_arena_strdup(desc->arena, placeholder)});
}

void TF_SetAttrFuncName(TF_OperationDescription *desc, const char *attr_name, const char *value,
                        size_t length) {
  dp_func *func = DP_ARENA_NEW(desc->arena, dp_func);
  func->name = dp_arena_strndup(desc->arena, value, length);
  set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_FUNC, .func = func});
}

void dp_client_set_functions(TF_OperationDescription *desc, const char *attr_name,
                             const char *const *names, int count) {
  dp_func *funcs = DP_ARENA_ARRAY(desc->arena, dp_func, count);
  for (int i = 0; i < count; i++)
    funcs[i].name = dp_arena_strdup(desc->arena, names[i]);
  set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_LIST_FUNC, .count = count, .funcs = funcs});
}

/* ---- Shapes and tensors as attributes ---- */

/* False, with the error noted in the description, if the shape is not valid. */
static bool make_shape(TF_OperationDescription *desc, const char *attr_name, const int64_t *dims,
                       int rank, dp_partial_shape *shape) {
  if (rank < 0) {
    *shape = dp_partial_shape_unknown();
    return true;
  }
  dp_status *status = dp_partial_shape_make(rank, dims, shape);
  if (status)
    add_error(desc, "attr '%s': %s", attr_name, dp_status_message(status));
  dp_status_release(status);
  return !status;
}

void TF_SetAttrShape(TF_OperationDescription *desc, const char *attr_name, const int64_t *dims,
                     int num_dims) {
  dp_partial_shape *shape = DP_ARENA_NEW(desc->arena, dp_partial_shape);
  if (make_shape(desc, attr_name, dims, num_dims, shape))
    set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_SHAPE, .shape = shape});
}

void TF_SetAttrShapeList(TF_OperationDescription *desc, const char *attr_name,
                         const int64_t *const *dims, const int *num_dims, int num_shapes) {
  int32_t count = list_count(num_shapes);
  dp_partial_shape *shapes = DP_ARENA_ARRAY(desc->arena, dp_partial_shape, count);
  for (int32_t i = 0; i < count; i++)
    if (!make_shape(desc, attr_name, dims[i], num_dims[i], &shapes[i]))
      return;
  set_attr(desc, attr_name,
           (dp_attr){.kind = DP_ATTR_LIST_SHAPE, .count = count, .shapes = shapes});
}

static dp_status *read_shape(TF_OperationDescription *desc, const void *proto, size_t proto_len,
                             dp_partial_shape *shape) {
  Tensorflow__TensorShapeProto *message;
  dp_status *status = dp_wire_unpack_bytes(&tensorflow__tensor_shape_proto__descriptor, proto,
                                           proto_len, desc->arena, &message);
  if (status) {
    dp_status_release(status);
    return DP_INVALID("Unparseable TensorShapeProto");
  }
  return dp_wire_partial_shape(message, shape);
}

void TF_SetAttrTensorShapeProto(TF_OperationDescription *desc, const char *attr_name,
                                const void *proto, size_t proto_len, TF_Status *status) {
  dp_partial_shape *shape = DP_ARENA_NEW(desc->arena, dp_partial_shape);
  dp_client_set_status(status, read_shape(desc, proto, proto_len, shape));
  if (TF_GetCode(status) == TF_OK)
    set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_SHAPE, .shape = shape});
}

void TF_SetAttrTensorShapeProtoList(TF_OperationDescription *desc, const char *attr_name,
                                    const void *const *protos, const size_t *proto_lens,
                                    int num_shapes, TF_Status *status) {
  int32_t count = list_count(num_shapes);
  dp_partial_shape *shapes = DP_ARENA_ARRAY(desc->arena, dp_partial_shape, count);
  dp_client_set_status(status, NULL);
  for (int32_t i = 0; i < count && TF_GetCode(status) == TF_OK; i++)
    dp_client_set_status(status, read_shape(desc, protos[i], proto_lens[i], &shapes[i]));
  if (TF_GetCode(status) == TF_OK)
    set_attr(desc, attr_name,
             (dp_attr){.kind = DP_ATTR_LIST_SHAPE, .count = count, .shapes = shapes});
}

/* The attribute gets copies, because the caller may write to its tensors afterwards. */
static dp_status *clone_tensors(TF_OperationDescription *desc, TF_Tensor *const *values,
                                int32_t count, dp_tensor **tensors_out) {
  dp_tensor *tensors = DP_ARENA_ARRAY(desc->arena, dp_tensor, count);
  for (int32_t i = 0; i < count; i++) {
    DP_RETURN_IF_ERROR(dp_tensor_clone(&values[i]->tensor, &tensors[i]));
    DP_ARRAY_PUSH(&desc->tensors, &tensors[i]);
  }
  *tensors_out = tensors;
  return NULL;
}

void TF_SetAttrTensor(TF_OperationDescription *desc, const char *attr_name, TF_Tensor *value,
                      TF_Status *status) {
  dp_tensor *tensor = NULL;
  dp_client_set_status(status, clone_tensors(desc, &value, 1, &tensor));
  if (tensor)
    set_attr(desc, attr_name, (dp_attr){.kind = DP_ATTR_TENSOR, .tensor = tensor});
}

void TF_SetAttrTensorList(TF_OperationDescription *desc, const char *attr_name,
                          TF_Tensor *const *values, int num_values, TF_Status *status) {
  dp_tensor *tensors = NULL;
  int32_t count = list_count(num_values);
  dp_client_set_status(status, clone_tensors(desc, values, count, &tensors));
  if (tensors)
    set_attr(desc, attr_name,
             (dp_attr){.kind = DP_ATTR_LIST_TENSOR, .count = count, .tensors = tensors});
}

/* The graph room reads attribute values only as parts of nodes, so a NoOp node carries this one. */
static dp_status *read_value(TF_OperationDescription *desc, const void *proto, size_t proto_len,
                             dp_attr *attr_out) {
  Tensorflow__AttrValue *value;
  dp_status *status = dp_wire_unpack_bytes(&tensorflow__attr_value__descriptor, proto, proto_len,
                                           desc->arena, &value);
  if (status) {
    dp_status_release(status);
    return DP_INVALID("Unparseable AttrValue proto");
  }
  Tensorflow__NodeDef__AttrEntry entry = TENSORFLOW__NODE_DEF__ATTR_ENTRY__INIT;
  entry.key = "_value";
  entry.value = value;
  Tensorflow__NodeDef__AttrEntry *entries = &entry;
  Tensorflow__NodeDef node = TENSORFLOW__NODE_DEF__INIT;
  node.name = "value";
  node.op = "NoOp";
  node.attr = &entries;
  node.n_attr = 1;
  Tensorflow__NodeDef *nodes = &node;
  Tensorflow__GraphDef message = TENSORFLOW__GRAPH_DEF__INIT;
  message.node = &nodes;
  message.n_node = 1;
  dp_graph *graph = dp_graph_create(NULL);
  status = dp_graph_import(graph, &message);
  const dp_attr *attr = status ? NULL : dp_node_attr(dp_graph_find(graph, "value"), "_value");
  if (!attr) {
    dp_graph_destroy(graph);
    return status ? status : DP_INVALID("AttrValue proto has no value");
  }
  DP_ARRAY_PUSH(&desc->values, graph);
  *attr_out = *attr;
  return NULL;
}

void TF_SetAttrValueProto(TF_OperationDescription *desc, const char *attr_name, const void *proto,
                          size_t proto_len, TF_Status *status) {
  dp_attr attr = {0};
  dp_client_set_status(status, read_value(desc, proto, proto_len, &attr));
  if (TF_GetCode(status) != TF_OK)
    return;
  if (strcmp(attr_name, "_class") == 0 && attr.kind == DP_ATTR_LIST_STRING) {
    desc->colocation.count = 0;
    for (int32_t i = 0; i < attr.count; i++)
      DP_ARRAY_PUSH(&desc->colocation,
                    dp_arena_strndup(desc->arena, attr.strings[i].data, attr.strings[i].length));
    return;
  }
  set_attr(desc, attr_name, attr);
}

/* ---- Device, control inputs, colocation ---- */

void TF_SetDevice(TF_OperationDescription *desc, const char *device) {
  desc->device = dp_arena_strdup(desc->arena, device);
}

void TF_AddControlInput(TF_OperationDescription *desc, TF_Operation *input) {
  DP_ARRAY_PUSH(&desc->controls, input->node->id);
}

void TF_ColocateWith(TF_OperationDescription *desc, TF_Operation *op) {
  DP_ARRAY_PUSH(&desc->colocation, dp_arena_printf(desc->arena, "loc:@%s", op->node->name));
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void set_colocation(TF_OperationDescription *desc) {
  size_t count = desc->colocation.count;
  if (!count)
    return;
  qsort(desc->colocation.items, count, sizeof(const char *), compare_names);
  dp_view *strings = DP_ARENA_ARRAY(desc->arena, dp_view, count);
  int32_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (i == 0 || strcmp(desc->colocation.items[i - 1], desc->colocation.items[i]) != 0)
      strings[kept++] = dp_view_of(desc->colocation.items[i]);
  set_attr(desc, "_class",
           (dp_attr){.kind = DP_ATTR_LIST_STRING, .count = kept, .strings = strings});
}

/* ---- Inputs ---- */

/* The next declared input, or NULL when there is none left. */
static const dp_op_arg *next_arg(TF_OperationDescription *desc) {
  if (!desc->op)
    return NULL;
  if (desc->args_given >= desc->op->input_count) {
    add_error(desc, "More Input() calls than the %d input_args", desc->op->input_count);
    return NULL;
  }
  return &desc->op->inputs[desc->args_given++];
}

bool dp_client_description_has_inputs(const TF_OperationDescription *desc) {
  return desc->inputs.count || desc->controls.count;
}

/* The type of a value. 0, with the error noted: it is no output of the description's graph. */
static int32_t type_of(TF_OperationDescription *desc, TF_Output input) {
  const dp_node *node = input.oper ? input.oper->node : NULL;
  if (node && input.oper->graph == desc->graph && input.index >= 0 &&
      input.index < node->output_count)
    return node->output_types[input.index];
  if (desc->input_errors.length)
    dp_text_add_char(&desc->input_errors, '\n');
  if (!node)
    dp_text_printf(&desc->input_errors, "Attempt to add nullptr Node to node with type %s",
                   desc->op_type);
  else if (input.oper->graph != desc->graph)
    dp_text_printf(&desc->input_errors, "Attempt to add %s of another graph to node with type %s",
                   node->name, desc->op_type);
  else
    dp_text_printf(&desc->input_errors,
                   "Attempt to add output %d of %s not in range [0, %d) to node with type %s. "
                   "Node: {{node %s}}",
                   input.index, node->name, node->output_count, desc->op_type, node->name);
  return 0;
}

static void verify_type(TF_OperationDescription *desc, const dp_op_arg *arg, int32_t expected,
                        int32_t type) {
  if (arg->is_ref)
    expected += DP_REF_OFFSET;
  if (type != expected && !(dp_dtype_is_ref(type) && (int32_t)dp_dtype_base(type) == expected))
    add_error(desc, "Input '%s' passed %s expected %s", arg->name, dp_dtype_name(type),
              dp_dtype_name(expected));
}

static void verify_ref(TF_OperationDescription *desc, const dp_op_arg *arg, int32_t type) {
  if (arg->is_ref && !dp_dtype_is_ref(type))
    add_error(desc, "Input '%s' passed %s expected ref type", arg->name, dp_dtype_name(type));
}

static void push_input(TF_OperationDescription *desc, TF_Output input) {
  dp_input edge = {input.oper->node->id, input.index};
  DP_ARRAY_PUSH(&desc->inputs, edge);
}

static void set_type(TF_OperationDescription *desc, int attr, int32_t type) {
  set_attr(desc, desc->op->attrs[attr].name,
           (dp_attr){.kind = DP_ATTR_TYPE, .type = (int32_t)dp_dtype_base(type)});
}

void TF_AddInput(TF_OperationDescription *desc, TF_Output input) {
  int32_t type = type_of(desc, input);
  const dp_op_arg *arg = type ? next_arg(desc) : NULL;
  if (!arg)
    return;
  push_input(desc, input);
  if (arg->number_attr >= 0 || arg->type_list_attr >= 0) {
    add_error(desc, "Single tensor passed to '%s', expected list", arg->name);
  } else if (arg->type_attr < 0) {
    verify_type(desc, arg, arg->dtype, type);
  } else {
    verify_ref(desc, arg, type);
    set_type(desc, arg->type_attr, type);
  }
}

/* A declared input that stands for N values of one type. */
static void add_repeated(TF_OperationDescription *desc, const dp_op_arg *arg, const int32_t *types,
                         int32_t count) {
  set_attr(desc, desc->op->attrs[arg->number_attr].name,
           (dp_attr){.kind = DP_ATTR_INT, .integer = count});
  if (arg->type_attr >= 0 && count)
    set_type(desc, arg->type_attr, types[0]);
  for (int32_t i = 0; i < count; i++)
    verify_type(desc, arg, arg->type_attr < 0 ? (int32_t)arg->dtype : dp_dtype_base(types[0]),
                types[i]);
}

void TF_AddInputList(TF_OperationDescription *desc, const TF_Output *inputs, int num_inputs) {
  int32_t count = list_count(num_inputs);
  int32_t *types = DP_ARENA_ARRAY(desc->arena, int32_t, count);
  bool is_whole = true;
  for (int32_t i = 0; i < count; i++)
    is_whole &= (types[i] = type_of(desc, inputs[i])) != 0;
  const dp_op_arg *arg = is_whole ? next_arg(desc) : NULL;
  if (!arg)
    return;
  for (int32_t i = 0; i < count; i++)
    push_input(desc, inputs[i]);
  if (arg->number_attr >= 0) {
    add_repeated(desc, arg, types, count);
  } else if (arg->type_list_attr >= 0) {
    for (int32_t i = 0; i < count; i++) {
      verify_ref(desc, arg, types[i]);
      types[i] = (int32_t)dp_dtype_base(types[i]);
    }
    set_attr(desc, desc->op->attrs[arg->type_list_attr].name,
             (dp_attr){.kind = DP_ATTR_LIST_TYPE, .count = count, .types = types});
  } else {
    add_error(desc, "List provided to input '%s' when single Tensor expected", arg->name);
  }
}

/* ---- The end ---- */

static dp_status *check_description(TF_OperationDescription *desc) {
  if (dp_graph_find(desc->graph->graph, desc->name))
    return DP_INVALID("Duplicate node name in graph: '%s'", desc->name);
  if (desc->input_errors.length)
    return DP_INVALID("%s", dp_text_string(&desc->input_errors));
  if (!desc->op)
    return DP_INVALID("Op type not registered '%s' in this library while building NodeDef '%s'",
                      desc->op_type, desc->name);
  if (desc->args_given < desc->op->input_count)
    add_error(desc, "%d inputs specified of %d inputs in Op", desc->args_given,
              desc->op->input_count);
  if (!desc->error_count)
    return NULL;
  dp_text op = {0};
  dp_op_print(desc->op, &op);
  dp_status *status =
      desc->error_count == 1
          ? DP_INVALID("%s while building NodeDef '%s' using %s", dp_text_string(&desc->errors),
                       desc->name, dp_text_string(&op))
          : DP_INVALID("%d errors while building NodeDef '%s' using %s:\n%s", desc->error_count,
                       desc->name, dp_text_string(&op), dp_text_string(&desc->errors));
  dp_text_deinit(&op);
  return status;
}

static dp_status *add_node(TF_OperationDescription *desc, dp_node **node_out) {
  set_colocation(desc);
  DP_RETURN_IF_ERROR(check_description(desc));
  dp_node_builder builder = {.name = desc->name,
                             .op = desc->op,
                             .device = desc->device,
                             .inputs = desc->inputs.items,
                             .input_count = (int32_t)desc->inputs.count,
                             .controls = desc->controls.items,
                             .control_count = (int32_t)desc->controls.count,
                             .attrs = desc->attrs.items,
                             .attr_count = (int32_t)desc->attrs.count};
  return dp_graph_add(desc->graph->graph, &builder, node_out);
}

static TF_Operation *finish(TF_OperationDescription *desc, bool is_renamed, TF_Status *status) {
  TF_Graph *graph = desc->graph;
  TF_Operation *operation = NULL;
  dp_node *node = NULL;
  pthread_mutex_lock(&graph->lock);
  if (is_renamed)
    desc->name = dp_client_graph_unique_name(graph, desc->name, desc->arena);
  dp_status *result = add_node(desc, &node);
  if (!result) {
    dp_client_graph_index(graph);
    result = dp_client_infer_shapes(graph, node->id);
    if (result)
      dp_client_graph_remove(graph, node->id);
    else
      operation = graph->operations[node->id];
  }
  pthread_mutex_unlock(&graph->lock);
  dp_client_description_destroy(desc);
  dp_client_set_status(status, result);
  return operation;
}

TF_Operation *TF_FinishOperation(TF_OperationDescription *desc, TF_Status *status) {
  return finish(desc, false, status);
}

TF_Operation *dp_client_finish_unique(TF_OperationDescription *desc, TF_Status *status) {
  return finish(desc, true, status);
}
