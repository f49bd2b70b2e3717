/* Makes a dp_op from an OpDef message: the signature of a function in a graph's library. Signatures
 * come from clients, so every name that they refer to and every number is checked. All memory is in
 * the caller's store. No state, any thread. */
#include <string.h>
#include <unistd.h>

#include "graph/graph_internal.h"
#include "graph/op_internal.h"

dp_status *dp_op_unknown(const char *name) {
  char host[256] = "localhost";
  if (gethostname(host, sizeof(host) - 1) != 0)
    strcpy(host, "localhost");
  return dp_status_create(DP_NOT_FOUND,
                          "Op type not registered '%s' in binary running on %s. Make sure the Op "
                          "and Kernel are registered in the binary running in this process.",
                          name, host);
}

/* ---- Attributes ---- */

static dp_status *read_allowed(const dp_attr_store *store, const Tensorflow__AttrValue *message,
                               dp_op_attr *attr) {
  dp_attr_kind element = attr->kind & ~DP_ATTR_LIST;
  dp_attr list = {0};
  DP_RETURN_IF_ERROR(dp_attr_from_message(store, message, &list));
  DP_RETURN_IF_ERROR(dp_attr_check_kind(&list, DP_ATTR_LIST | element));
  if (element == DP_ATTR_TYPE) {
    dp_dtype *types = DP_ARENA_ARRAY(store->arena, dp_dtype, list.count);
    for (int32_t i = 0; i < list.count; i++) {
      dp_dtype type = (dp_dtype)list.types[i];
      if (attr->allowed_types & DP_DTYPE_BIT(type))
        continue;
      types[attr->allowed_type_count++] = type;
      attr->allowed_types |= DP_DTYPE_BIT(type);
    }
    attr->allowed_type_list = types;
    return NULL;
  }
  if (element != DP_ATTR_STRING)
    return DP_INVALID("Support for allowed_values not implemented for type %s",
                      dp_attr_kind_name(attr->kind));
  const char **strings = DP_ARENA_ARRAY(store->arena, const char *, list.count);
  for (int32_t i = 0; i < list.count; i++)
    strings[i] = list.strings[i].data;
  attr->allowed_string_count = list.count;
  attr->allowed_strings = strings;
  return NULL;
}

static dp_status *read_attr(const dp_attr_store *store, const Tensorflow__OpDef__AttrDef *message,
                            dp_op_attr *attr) {
  attr->name = dp_arena_strdup(store->arena, message->name);
  attr->kind = dp_attr_kind_parse(dp_view_of(message->type));
  if (attr->kind == DP_ATTR_NONE)
    return DP_INVALID("Unrecognized type '%s' in attr '%s'", message->type, message->name);
  attr->has_minimum = message->has_minimum;
  attr->minimum = message->minimum;
  if (message->allowed_values &&
      message->allowed_values->value_case != TENSORFLOW__ATTR_VALUE__VALUE__NOT_SET)
    DP_RETURN_IF_ERROR(read_allowed(store, message->allowed_values, attr));
  attr->has_default = message->default_value != NULL;
  if (!attr->has_default)
    return NULL;
  DP_RETURN_IF_ERROR(dp_attr_from_message(store, message->default_value, &attr->default_value));
  return dp_attr_check(&attr->default_value, attr);
}

static dp_status *read_attrs(const dp_attr_store *store, const Tensorflow__OpDef *message,
                             dp_op *op) {
  dp_op_attr *attrs = DP_ARENA_ARRAY(store->arena, dp_op_attr, message->n_attr);
  for (size_t i = 0; i < message->n_attr; i++)
    DP_RETURN_IF_ERROR(read_attr(store, message->attr[i], &attrs[i]));
  op->attr_count = (int32_t)message->n_attr;
  op->attrs = attrs;
  dp_op_sort_attrs(op, store->arena);
  for (int32_t i = 1; i < op->attr_count; i++)
    if (strcmp(attrs[op->attr_order[i - 1]].name, attrs[op->attr_order[i]].name) == 0)
      return DP_INVALID("Duplicate name: %s", attrs[op->attr_order[i]].name);
  return NULL;
}

/* ---- Arguments ---- */

/* The index of attribute `name`, which must be of `kind`; -1 for "". */
static dp_status *find_attr(const dp_op *op, const char *name, dp_attr_kind kind, const char *arg,
                            int16_t *index_out) {
  *index_out = -1;
  if (!*name)
    return NULL;
  int index = dp_op_attr_index(op, name);
  if (index < 0)
    return DP_INVALID("No attr with name '%s' for argument '%s'", name, arg);
  if (op->attrs[index].kind != kind)
    return DP_INVALID("Attr '%s' used for argument '%s' has type %s != %s", name, arg,
                      dp_attr_kind_name(op->attrs[index].kind), dp_attr_kind_name(kind));
  *index_out = (int16_t)index;
  return NULL;
}

static dp_status *read_arg(const dp_attr_store *store, const dp_op *op,
                           const Tensorflow__OpDef__ArgDef *message, dp_op_arg *arg) {
  const char *name = message->name;
  arg->name = dp_arena_strdup(store->arena, name);
  arg->is_ref = message->is_ref;
  arg->dtype = (dp_dtype)message->type;
  DP_RETURN_IF_ERROR(find_attr(op, message->type_attr, DP_ATTR_TYPE, name, &arg->type_attr));
  DP_RETURN_IF_ERROR(find_attr(op, message->number_attr, DP_ATTR_INT, name, &arg->number_attr));
  DP_RETURN_IF_ERROR(
      find_attr(op, message->type_list_attr, DP_ATTR_LIST_TYPE, name, &arg->type_list_attr));
  int ways = (message->type != 0) + (arg->type_attr >= 0) + (arg->type_list_attr >= 0);
  if (ways == 0)
    return DP_INVALID("Missing type for argument '%s'", name);
  if (ways > 1)
    return DP_INVALID(
        "Exactly one of type, type_attr, type_list_attr must be set for argument '%s'", name);
  if (arg->number_attr >= 0 && arg->type_list_attr >= 0)
    return DP_INVALID("Can't have both number_attr and type_list_attr for argument '%s'", name);
  if (message->type != 0 && !dp_dtype_is_valid((int)message->type))
    return DP_INVALID("Illegal use of type '%s' for argument '%s'",
                      dp_dtype_name((int)message->type), name);
  return NULL;
}

static dp_status *read_args(const dp_attr_store *store, const dp_op *op, size_t count,
                            Tensorflow__OpDef__ArgDef *const *messages,
                            const dp_op_arg **args_out) {
  dp_op_arg *args = DP_ARENA_ARRAY(store->arena, dp_op_arg, count);
  *args_out = args;
  for (size_t i = 0; i < count; i++)
    DP_RETURN_IF_ERROR(read_arg(store, op, messages[i], &args[i]));
  return NULL;
}

static void read_flags(const dp_attr_store *store, const Tensorflow__OpDef *message, dp_op *op) {
  op->is_commutative = message->is_commutative;
  op->is_aggregate = message->is_aggregate;
  op->is_stateful = message->is_stateful;
  op->allows_uninitialized_input = message->allows_uninitialized_input;
  const char **controls = DP_ARENA_ARRAY(store->arena, const char *, message->n_control_output);
  for (size_t i = 0; i < message->n_control_output; i++)
    controls[i] = dp_arena_strdup(store->arena, message->control_output[i]);
  op->control_outputs = controls;
  op->control_output_count = (int32_t)message->n_control_output;
}

dp_status *dp_op_from_message(const dp_attr_store *store, const Tensorflow__OpDef *message,
                              dp_op *op_out) {
  dp_op op = {.name = dp_arena_strdup(store->arena, message->name)};
  if (message->n_attr > INT16_MAX || message->n_input_arg > INT32_MAX / 2 ||
      message->n_output_arg > INT32_MAX / 2 || message->n_control_output > INT32_MAX / 2)
    return DP_INVALID("Too many attributes or arguments");
  DP_RETURN_IF_ERROR(read_attrs(store, message, &op));
  op.input_count = (int32_t)message->n_input_arg;
  op.output_count = (int32_t)message->n_output_arg;
  DP_RETURN_IF_ERROR(read_args(store, &op, message->n_input_arg, message->input_arg, &op.inputs));
  DP_RETURN_IF_ERROR(
      read_args(store, &op, message->n_output_arg, message->output_arg, &op.outputs));
  read_flags(store, message, &op);
  *op_out = op;
  return NULL;
}
