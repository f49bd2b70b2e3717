/* Writes every built-in op as TensorFlow's OpList message to standard output, for
 * test_graph_ops.py to compare with genuine TensorFlow's own list. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/graph_internal.h"
#include "wire/op.pb-c.h"

static Tensorflow__OpDef__ArgDef **arg_messages(const dp_op *op, const dp_op_arg *args,
                                                int32_t count, dp_arena *arena) {
  Tensorflow__OpDef__ArgDef **messages = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__ArgDef *, count);
  for (int32_t i = 0; i < count; i++) {
    messages[i] = dp_wire_new(arena, &tensorflow__op_def__arg_def__descriptor);
    messages[i]->name = (char *)args[i].name;
    messages[i]->is_ref = args[i].is_ref;
    if (args[i].type_attr >= 0)
      messages[i]->type_attr = (char *)op->attrs[args[i].type_attr].name;
    else if (args[i].type_list_attr >= 0)
      messages[i]->type_list_attr = (char *)op->attrs[args[i].type_list_attr].name;
    else
      messages[i]->type = (Tensorflow__DataType)args[i].dtype;
    if (args[i].number_attr >= 0)
      messages[i]->number_attr = (char *)op->attrs[args[i].number_attr].name;
  }
  return messages;
}

static Tensorflow__AttrValue *allowed_message(const dp_op_attr *attr, dp_arena *arena) {
  if (!attr->allowed_type_count && !attr->allowed_string_count)
    return NULL;
  dp_attr list = {.kind = DP_ATTR_LIST_TYPE, .count = attr->allowed_type_count};
  if (attr->allowed_type_count) {
    int32_t *types = DP_ARENA_ARRAY(arena, int32_t, list.count);
    for (int32_t i = 0; i < list.count; i++)
      types[i] = (int32_t)attr->allowed_type_list[i];
    list.types = types;
  } else {
    list.kind = DP_ATTR_LIST_STRING;
    list.count = attr->allowed_string_count;
    dp_view *strings = DP_ARENA_ARRAY(arena, dp_view, list.count);
    for (int32_t i = 0; i < list.count; i++)
      strings[i] = dp_view_of(attr->allowed_strings[i]);
    list.strings = strings;
  }
  return dp_attr_to_message(&list, arena);
}

static Tensorflow__OpDef__AttrDef *attr_message(const dp_op_attr *attr, dp_arena *arena) {
  Tensorflow__OpDef__AttrDef *message =
      dp_wire_new(arena, &tensorflow__op_def__attr_def__descriptor);
  message->name = (char *)attr->name;
  message->type = (char *)dp_attr_kind_name(attr->kind);
  message->has_minimum = attr->has_minimum;
  message->minimum = attr->minimum;
  message->allowed_values = allowed_message(attr, arena);
  if (attr->has_default)
    message->default_value = dp_attr_to_message(&attr->default_value, arena);
  return message;
}

static Tensorflow__OpDef *op_message(const dp_op *op, dp_arena *arena) {
  Tensorflow__OpDef *message = dp_wire_new(arena, &tensorflow__op_def__descriptor);
  message->name = (char *)op->name;
  message->n_input_arg = (size_t)op->input_count;
  message->input_arg = arg_messages(op, op->inputs, op->input_count, arena);
  message->n_output_arg = (size_t)op->output_count;
  message->output_arg = arg_messages(op, op->outputs, op->output_count, arena);
  message->n_attr = (size_t)op->attr_count;
  message->attr = DP_ARENA_ARRAY(arena, Tensorflow__OpDef__AttrDef *, op->attr_count);
  for (int32_t i = 0; i < op->attr_count; i++)
    message->attr[i] = attr_message(&op->attrs[i], arena);
  message->is_stateful = op->is_stateful;
  message->is_commutative = op->is_commutative;
  message->is_aggregate = op->is_aggregate;
  message->allows_uninitialized_input = op->allows_uninitialized_input;
  return message;
}

int main(void) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__OpList *list = dp_wire_new(arena, &tensorflow__op_list__descriptor);
  list->n_op = dp_op_count();
  list->op = DP_ARENA_ARRAY(arena, Tensorflow__OpDef *, list->n_op);
  for (size_t i = 0; i < list->n_op; i++)
    list->op[i] = op_message(dp_op_at(i), arena);
  uint8_t *bytes;
  size_t length;
  dp_status *status = dp_wire_pack_bytes(list, arena, &bytes, &length);
  if (status || fwrite(bytes, 1, length, stdout) != length) {
    fprintf(stderr, "%s\n", dp_status_message(status));
    return EXIT_FAILURE;
  }
  dp_arena_destroy(arena);
  return EXIT_SUCCESS;
}
