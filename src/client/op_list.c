/* TF_GetAllOpList and TF_GraphGetOpDef: op definitions as OpDef messages. TF_LoadLibrary is here
 * too; it always fails, because custom ops cannot be loaded. Any thread may call; buffers belong to
 * the caller. */
#include "client/client_internal.h"

#include <string.h>
#include "wire/op.pb-c.h"

/* ---- One op ---- */

static const char *attr_name(const dp_op *op, int index) {
  return index >= 0 ? op->attrs[index].name : "";
}

static Tensorflow__OpDef__ArgDef *write_arg(const dp_op *op, const dp_op_arg *arg,
                                            dp_arena *arena) {
  Tensorflow__OpDef__ArgDef *message = dp_wire_new(arena, &tensorflow__op_def__arg_def__descriptor);
  message->name = (char *)arg->name;
  message->type_list_attr = (char *)attr_name(op, arg->type_list_attr);
  message->type_attr = (char *)attr_name(op, arg->type_attr);
  message->number_attr = (char *)attr_name(op, arg->number_attr);
  if (arg->type_list_attr < 0 && arg->type_attr < 0)
    message->type = (Tensorflow__DataType)arg->dtype;
  message->is_ref = arg->is_ref;
  return message;
}

/* The graph room writes attribute values only as parts of nodes, so a NoOp node carries all
 * defaults of the op, as attributes "_0", "_1"... */
static const Tensorflow__NodeDef *write_defaults(const dp_op *op, dp_graph *scratch,
                                                 dp_arena *arena) {
  dp_attr *attrs = DP_ARENA_ARRAY(arena, dp_attr, op->attr_count + 1);
  int32_t count = 0;
  for (int32_t i = 0; i < op->attr_count; i++) {
    if (!op->attrs[i].has_default)
      continue;
    attrs[count] = op->attrs[i].default_value;
    attrs[count++].name = dp_arena_printf(arena, "_%d", i);
  }
  dp_node *node = NULL;
  dp_node_builder builder = {
      .name = "defaults", .op = dp_op_find("NoOp"), .attrs = attrs, .attr_count = count};
  dp_status *status = dp_graph_add(scratch, &builder, &node);
  dp_status_release(status);
  return status ? NULL : dp_node_export(scratch, node, arena);
}

static Tensorflow__AttrValue *write_allowed(const dp_op_attr *attr, dp_arena *arena) {
  if (!attr->allowed_type_count && !attr->allowed_string_count)
    return NULL;
  Tensorflow__AttrValue *value = dp_wire_new(arena, &tensorflow__attr_value__descriptor);
  Tensorflow__AttrValue__ListValue *list =
      dp_wire_new(arena, &tensorflow__attr_value__list_value__descriptor);
  value->value_case = TENSORFLOW__ATTR_VALUE__VALUE_LIST;
  value->list = list;
  list->type = DP_ARENA_ARRAY(arena, Tensorflow__DataType, attr->allowed_type_count + 1);
  for (int32_t i = 0; i < attr->allowed_type_count; i++)
    list->type[list->n_type++] = (Tensorflow__DataType)attr->allowed_type_list[i];
  list->s = DP_ARENA_ARRAY(arena, ProtobufCBinaryData, attr->allowed_string_count + 1);
  for (int32_t i = 0; i < attr->allowed_string_count; i++) {
    const char *text = attr->allowed_strings[i];
    list->s[list->n_s++] = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
  }
  return value;
}

static void write_attrs(const dp_op *op, const Tensorflow__NodeDef *defaults,
                        Tensorflow__OpDef *message, dp_arena *arena) {
  message->attr = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__AttrDef *, op->attr_count + 1);
  for (int32_t i = 0; i < op->attr_count; i++) {
    const dp_op_attr *attr = &op->attrs[i];
    Tensorflow__OpDef__AttrDef *to = dp_wire_new(arena, &tensorflow__op_def__attr_def__descriptor);
    to->name = (char *)attr->name;
    to->type = (char *)dp_attr_kind_name(attr->kind);
    to->has_minimum = attr->has_minimum;
    to->minimum = attr->minimum;
    to->allowed_values = write_allowed(attr, arena);
    if (attr->has_default && defaults)
      to->default_value =
          (Tensorflow__AttrValue *)dp_wire_node_attr(defaults, dp_arena_printf(arena, "_%d", i));
    message->attr[message->n_attr++] = to;
  }
}

/* In `arena`; borrows from the op and from `scratch`, which must be an empty graph. */
static Tensorflow__OpDef *write_op(const dp_op *op, dp_graph *scratch, dp_arena *arena) {
  Tensorflow__OpDef *message = dp_wire_new(arena, &tensorflow__op_def__descriptor);
  message->name = (char *)op->name;
  message->input_arg = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__ArgDef *, op->input_count + 1);
  for (int32_t i = 0; i < op->input_count; i++)
    message->input_arg[message->n_input_arg++] = write_arg(op, &op->inputs[i], arena);
  message->output_arg = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__ArgDef *, op->output_count + 1);
  for (int32_t i = 0; i < op->output_count; i++)
    message->output_arg[message->n_output_arg++] = write_arg(op, &op->outputs[i], arena);
  message->n_control_output = (size_t)op->control_output_count;
  message->control_output = (char **)op->control_outputs;
  write_attrs(op, write_defaults(op, scratch, arena), message, arena);
  message->is_commutative = op->is_commutative;
  message->is_aggregate = op->is_aggregate;
  message->is_stateful = op->is_stateful;
  message->allows_uninitialized_input = op->allows_uninitialized_input;
  return message;
}

void TF_GraphGetOpDef(TF_Graph *graph, const char *op_name, TF_Buffer *output_op_def,
                      TF_Status *status) {
  const dp_op *op = dp_library_find_op(graph->graph->library, op_name);
  if (!op) {
    dp_client_set_status(
        status,
        dp_status_create(DP_NOT_FOUND, "Op type not registered '%s' in this library", op_name));
    return;
  }
  dp_arena *arena = dp_arena_create();
  dp_graph *scratch = dp_graph_create(NULL);
  dp_client_set_status(status, dp_client_pack(write_op(op, scratch, arena), output_op_def));
  dp_graph_destroy(scratch);
  dp_arena_destroy(arena);
}

/* ---- All ops ---- */

TF_Buffer *TF_GetAllOpList(void) {
  dp_arena *arena = dp_arena_create();
  dp_graph **scratch = DP_ARENA_ARRAY(arena, dp_graph *, dp_op_count());
  Tensorflow__OpList *list = dp_wire_new(arena, &tensorflow__op_list__descriptor);
  list->op = DP_ARENA_ARRAY(arena, Tensorflow__OpDef *, dp_op_count());
  for (size_t i = 0; i < dp_op_count(); i++) {
    scratch[i] = dp_graph_create(NULL);
    list->op[list->n_op++] = write_op(dp_op_at(i), scratch[i], arena);
  }
  TF_Buffer *buffer = TF_NewBuffer();
  dp_status *status = dp_client_pack(list, buffer);
  for (size_t i = 0; i < dp_op_count(); i++)
    dp_graph_destroy(scratch[i]);
  dp_arena_destroy(arena);
  if (status) {
    dp_status_release(status);
    TF_DeleteBuffer(buffer);
    return NULL;
  }
  return buffer;
}

/* ---- Libraries of ops ---- */

TF_Library *TF_LoadLibrary(const char *library_filename, TF_Status *status) {
  dp_client_set_status(status, dp_status_create(DP_UNIMPLEMENTED, "%s: custom ops cannot be loaded",
                                                library_filename));
  return NULL;
}

TF_Buffer TF_GetOpList(TF_Library *lib_handle) {
  return (TF_Buffer){0};
}

void TF_DeleteLibraryHandle(TF_Library *lib_handle) {}
