/* Checks a node against its op: attributes are complete, of the right kind and within range; there
 * are as many inputs as the attributes ask for, with the right dtypes. Import, dp_graph_add and
 * function bodies all use these checks, so every node in a graph has passed them. Messages are
 * TensorFlow's. All memory is the caller's; any thread may call. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "graph/graph_internal.h"

/* Up to four equal types need no memory: shared_types[type] is a constant array of them. */
enum { shared_length = 4, type_numbers = DP_REF_OFFSET + DP_DTYPE_END };
#define FOUR(n)                                                                                    \
  { n, n, n, n }
#define FOUR_OF(name, number, text, size)                                                          \
  [number] = FOUR(number), [number + DP_REF_OFFSET] = FOUR(number + DP_REF_OFFSET),
static const int32_t shared_types[type_numbers][shared_length] = {DP_DTYPE_TABLE(FOUR_OF)};

/* ---- One attribute ---- */

static dp_status *check_type(int32_t type, const char *contains) {
  if (type == DP_INVALID_DTYPE)
    return DP_INVALID("AttrValue %s invalid DataType", contains);
  if (dp_dtype_is_ref(type) && dp_dtype_is_valid((int)dp_dtype_base(type)))
    return DP_INVALID("AttrValue must not have reference type value of %s", dp_dtype_name(type));
  if (!dp_dtype_is_valid(type))
    return DP_INVALID("AttrValue has invalid DataType enum: %d", type);
  return NULL;
}

dp_status *dp_attr_check_kind(dp_attr *attr, dp_attr_kind kind) {
  if (attr->kind == DP_ATTR_PLACEHOLDER)
    return DP_INVALID("AttrValue had value with unexpected type 'placeholder'");
  if ((kind & DP_ATTR_LIST) && (attr->kind == DP_ATTR_LIST || attr->kind == DP_ATTR_NONE)) {
    attr->kind = kind;
    attr->count = 0;
  }
  if (attr->kind == DP_ATTR_NONE || attr->kind == DP_ATTR_LIST)
    return DP_INVALID("AttrValue missing value with expected type '%s'", dp_attr_kind_name(kind));
  if (attr->kind != kind)
    return DP_INVALID("AttrValue had value with type '%s' when '%s' expected",
                      dp_attr_kind_name(attr->kind), dp_attr_kind_name(kind));
  if (kind == DP_ATTR_TYPE)
    return check_type(attr->type, "has");
  if (kind == DP_ATTR_LIST_TYPE)
    for (int32_t i = 0; i < attr->count; i++)
      DP_RETURN_IF_ERROR(check_type(attr->types[i], "contains"));
  return NULL;
}

static dp_status *check_minimum(const dp_attr *attr, const dp_op_attr *definition) {
  if (definition->kind == DP_ATTR_INT && attr->integer < definition->minimum)
    return DP_INVALID("Value for attr '%s' of %" PRId64 " must be at least minimum %" PRId64,
                      definition->name, attr->integer, definition->minimum);
  if ((definition->kind & DP_ATTR_LIST) && attr->count < definition->minimum)
    return DP_INVALID("Length for attr '%s' of %d must be at least minimum %" PRId64,
                      definition->name, attr->count, definition->minimum);
  return NULL;
}

static dp_status *check_allowed_type(int32_t type, const dp_op_attr *definition) {
  if (definition->allowed_types & DP_DTYPE_BIT(type))
    return NULL;
  dp_text list = {0};
  for (int32_t i = 0; i < definition->allowed_type_count; i++)
    dp_text_printf(&list, "%s%s", i ? ", " : "", dp_dtype_name(definition->allowed_type_list[i]));
  dp_status *status =
      DP_INVALID("Value for attr '%s' of %s is not in the list of allowed values: %s",
                 definition->name, dp_dtype_name(type), dp_text_string(&list));
  dp_text_deinit(&list);
  return status;
}

static dp_status *check_allowed_string(dp_view value, const dp_op_attr *definition) {
  for (int32_t i = 0; i < definition->allowed_string_count; i++)
    if (dp_view_equals(value, definition->allowed_strings[i]))
      return NULL;
  dp_text list = {0};
  for (int32_t i = 0; i < definition->allowed_string_count; i++)
    dp_text_printf(&list, "%s\"%s\"", i ? ", " : "", definition->allowed_strings[i]);
  dp_status *status = DP_INVALID(
      "Value for attr '%s' of \"%.*s\" is not in the list of allowed values: %s", definition->name,
      (int)(value.length < 1024 ? value.length : 1024), value.data, dp_text_string(&list));
  dp_text_deinit(&list);
  return status;
}

static dp_status *check_allowed(const dp_attr *attr, const dp_op_attr *definition) {
  if (definition->allowed_types) {
    if (attr->kind == DP_ATTR_TYPE)
      return check_allowed_type(attr->type, definition);
    for (int32_t i = 0; i < attr->count; i++)
      DP_RETURN_IF_ERROR(check_allowed_type(attr->types[i], definition));
  } else if (definition->allowed_string_count) {
    if (attr->kind == DP_ATTR_STRING)
      return check_allowed_string(attr->string, definition);
    for (int32_t i = 0; i < attr->count; i++)
      DP_RETURN_IF_ERROR(check_allowed_string(attr->strings[i], definition));
  }
  return NULL;
}

dp_status *dp_attr_check(dp_attr *attr, const dp_op_attr *definition) {
  dp_status *status = dp_attr_check_kind(attr, definition->kind);
  if (status)
    return dp_status_append(status, "\n\t for attr '%s'", definition->name);
  if (definition->has_minimum)
    DP_RETURN_IF_ERROR(check_minimum(attr, definition));
  return check_allowed(attr, definition);
}

/* ---- Messages ---- */

dp_status *dp_node_attach(dp_status *status, const char *name) {
  return dp_status_append(status, "\n\t [[{{node %s}}]]", name);
}

/* "<what> <op summary>; NodeDef: {{node name}}<after>" */
static dp_status *node_error(const dp_node *node, const char *what, const char *after) {
  dp_text summary = {0};
  dp_op_print(node->op, &summary);
  dp_status *status = DP_INVALID("%s %s; NodeDef: {{node %s}}%s", what, dp_text_string(&summary),
                                 node->name, after);
  dp_text_deinit(&summary);
  return status;
}

/* A graph of a newer TensorFlow may have attributes that our table does not know. They are kept, as
 * TensorFlow keeps them; this logs one of them at most once per minute. */
static void note_unknown_attr(const dp_node *node, const char *name) {
  static _Atomic int64_t silent_until;
  int64_t now = dp_clock_nanos();
  int64_t until = atomic_load_explicit(&silent_until, memory_order_relaxed);
  if (now < until ||
      !atomic_compare_exchange_strong(&silent_until, &until, now + INT64_C(60000000000)))
    return;
  DP_LOG(GRAPH, WARN,
         "node '%s' has the attribute '%s', which the op %s of this release does not know; it is "
         "ignored (a newer client, probably)",
         node->name, name, node->op->name);
}

static dp_status *missing_attrs(const dp_node *node, const dp_attr *given, int32_t count) {
  dp_text names = {0};
  int32_t missing = 0;
  for (int32_t i = 0; i < node->op->attr_count; i++) {
    const dp_op_attr *attr = &node->op->attrs[i];
    if (!attr->has_default && !dp_attr_find(given, count, attr->name))
      dp_text_printf(&names, "%s%s", missing++ ? "', '" : "", attr->name);
  }
  dp_text what = {0};
  dp_text_printf(&what, "NodeDef missing attr%s '%s' from", missing == 1 ? "" : "s",
                 dp_text_string(&names));
  dp_status *status = node_error(node, dp_text_string(&what), "");
  dp_text_deinit(&what);
  dp_text_deinit(&names);
  return status;
}

static dp_status *wrong_attr(const dp_node *node, dp_status *status) {
  dp_text summary = {0};
  dp_op_print(node->op, &summary);
  status = dp_status_append(status, "\n\t; NodeDef: {{node %s}}; %s", node->name,
                            dp_text_string(&summary));
  dp_text_deinit(&summary);
  return status;
}

/* ---- Arguments ---- */

dp_status *dp_arg_count(const dp_op *op, const dp_op_arg *arg, const dp_attr *attrs,
                        int32_t attr_count, int32_t *count_out) {
  int16_t index = arg->type_list_attr >= 0 ? arg->type_list_attr : arg->number_attr;
  *count_out = 1;
  if (index < 0)
    return NULL;
  const dp_attr *attr = dp_attr_find(attrs, attr_count, op->attrs[index].name);
  if (!attr)
    return DP_INVALID("No attr named '%s' for argument '%s'", op->attrs[index].name, arg->name);
  if (arg->type_list_attr >= 0) {
    *count_out = attr->count;
    return NULL;
  }
  if (attr->integer < 0)
    return DP_INVALID("Value for number_attr() %" PRId64 " < 0", attr->integer);
  if (attr->integer > INT32_MAX)
    return DP_INVALID("Attr %s has value %" PRId64 " out of range for an int32", attr->name,
                      attr->integer);
  *count_out = (int32_t)attr->integer;
  return NULL;
}

int32_t dp_arg_type(const dp_op *op, const dp_op_arg *arg, const dp_attr *attrs, int32_t attr_count,
                    int32_t index) {
  if (arg->type_list_attr >= 0)
    return dp_attr_find(attrs, attr_count, op->attrs[arg->type_list_attr].name)->types[index];
  if (arg->type_attr >= 0)
    return dp_attr_find(attrs, attr_count, op->attrs[arg->type_attr].name)->type;
  return (int32_t)arg->dtype;
}

static dp_status *count_args(const dp_node *node, const dp_op_arg *args, int32_t arg_count,
                             int64_t *total_out) {
  int64_t total = 0;
  for (int32_t i = 0; i < arg_count; i++) {
    int32_t count;
    DP_RETURN_IF_ERROR(dp_arg_count(node->op, &args[i], node->attrs, node->attr_count, &count));
    total += count;
  }
  *total_out = total;
  return NULL;
}

/* Writes the types of all values of an argument list. Returns whether all types are equal. */
static bool write_types(const dp_node *node, const dp_op_arg *args, int32_t arg_count,
                        int32_t *types) {
  int64_t at = 0;
  bool uniform = true;
  for (int32_t i = 0; i < arg_count; i++) {
    int32_t count = 1;
    dp_status_release(dp_arg_count(node->op, &args[i], node->attrs, node->attr_count, &count));
    const dp_attr *list = NULL;
    int32_t type = 0;
    if (args[i].type_list_attr >= 0)
      list = dp_node_attr(node, node->op->attrs[args[i].type_list_attr].name);
    else
      type = dp_arg_type(node->op, &args[i], node->attrs, node->attr_count, 0);
    for (int32_t j = 0; j < count; j++, at++) {
      types[at] = (list ? list->types[j] : type) + (args[i].is_ref ? DP_REF_OFFSET : 0);
      uniform &= types[at] == types[0];
    }
  }
  return uniform;
}

/* The types of the `total` values of an argument list: a shared constant array or a new one. */
static const int32_t *list_types(dp_arena *arena, const dp_node *node, const dp_op_arg *args,
                                 int32_t arg_count, int64_t total) {
  if (total == 0)
    return shared_types[0];
  size_t size = sizeof(int32_t) * (size_t)total;
  if (total <= shared_length) {
    int32_t few[shared_length];
    if (write_types(node, args, arg_count, few))
      return shared_types[few[0]];
    return memcpy(dp_arena_allocate(arena, size), few, size);
  }
  int32_t *types = dp_arena_allocate(arena, size);
  write_types(node, args, arg_count, types);
  return types;
}

static dp_status *wrong_input_count(const dp_node *node) {
  enum { most_shown = 64 };
  dp_text what = {0};
  dp_text_add(&what, "NodeDef expected inputs '");
  int64_t shown = 0;
  for (int32_t i = 0; i < node->op->input_count && shown < most_shown; i++) {
    const dp_op_arg *arg = &node->op->inputs[i];
    int32_t count = 0;
    dp_status_release(dp_arg_count(node->op, arg, node->attrs, node->attr_count, &count));
    for (int32_t j = 0; j < count && shown < most_shown; j++, shown++) {
      int32_t type = dp_arg_type(node->op, arg, node->attrs, node->attr_count, j);
      dp_text_printf(&what, "%s%s", shown ? ", " : "",
                     dp_dtype_name(type + (arg->is_ref ? DP_REF_OFFSET : 0)));
    }
  }
  dp_text_printf(&what, "%s' do not match %d inputs specified;", shown < most_shown ? "" : ", ...",
                 node->input_count);
  dp_status *status = node_error(node, dp_text_string(&what), "");
  dp_text_deinit(&what);
  return status;
}

/* ---- The whole node ---- */

/* Merges the given attributes with those that the op declares, both sorted by name, into
 * node->attrs. */
static dp_status *merge_attrs(dp_arena *arena, dp_node *node, dp_attr *given, int32_t given_count) {
  const dp_op *op = node->op;
  dp_attr *attrs =
      dp_arena_allocate(arena, sizeof(dp_attr) * ((size_t)given_count + (size_t)op->attr_count));
  int32_t count = 0, at = 0;
  bool complete = true;
  for (int32_t i = 0; i <= op->attr_count; i++) {
    const dp_op_attr *definition = i < op->attr_count ? &op->attrs[op->attr_order[i]] : NULL;
    int order = -1;
    while (at < given_count &&
           (!definition || (order = strcmp(given[at].name, definition->name)) < 0)) {
      if (given[at].name[0] != '_') /* such attributes are private: no op declares them */
        note_unknown_attr(node, given[at].name);
      attrs[count++] = given[at++];
      order = -1;
    }
    if (!definition)
      break;
    if (at < given_count && order == 0) {
      dp_status *status = dp_attr_check(&given[at], definition);
      if (status)
        return wrong_attr(node, status);
      given[at].name = definition->name;
      attrs[count++] = given[at++];
    } else if (definition->has_default) {
      attrs[count] = definition->default_value;
      attrs[count].is_filled = true;
      attrs[count++].name = definition->name;
    } else {
      complete = false;
    }
  }
  if (!complete)
    return missing_attrs(node, given, given_count);
  node->attrs = attrs;
  node->attr_count = count;
  return NULL;
}

dp_status *dp_node_complete(dp_arena *arena, dp_node *node, dp_attr *given, int32_t given_count,
                            int64_t *values_left) {
  enum { most_values = 1 << 20 };
  DP_RETURN_IF_ERROR(merge_attrs(arena, node, given, given_count));
  const dp_op *op = node->op;
  int64_t inputs, outputs;
  dp_status *status = count_args(node, op->inputs, op->input_count, &inputs);
  if (!status)
    status = count_args(node, op->outputs, op->output_count, &outputs);
  if (status)
    return dp_node_attach(status, node->name);
  bool is_open = node->input_count < 0;
  if (is_open && inputs <= most_values)
    node->input_count = (int32_t)inputs;
  if (inputs != node->input_count)
    return wrong_input_count(node);
  int64_t values = outputs + (is_open ? inputs : 0);
  if (outputs > most_values || (values_left && values > *values_left))
    return dp_status_create(DP_RESOURCE_EXHAUSTED,
                            "Node '%s' would have %" PRId64 " inputs and %" PRId64
                            " outputs, which is too many",
                            node->name, inputs, outputs);
  if (values_left)
    *values_left -= values;
  node->output_count = (int32_t)outputs;
  node->input_types = list_types(arena, node, op->inputs, op->input_count, inputs);
  node->output_types = list_types(arena, node, op->outputs, op->output_count, outputs);
  return NULL;
}

dp_status *dp_node_check_input(const dp_node *node, int32_t slot, const dp_node *source,
                               int32_t output) {
  if (output < 0 || output >= source->output_count) {
    static const char *const branching[] = {"If", "StatelessIf", "While", "StatelessWhile"};
    const char *hint = "";
    for (size_t i = 0; i < sizeof(branching) / sizeof(*branching); i++)
      if (dp_node_is(source, branching[i]))
        hint = " Try using tf.compat.v1.experimental.output_all_intermediates(True).";
    return DP_INVALID(
        "Node '%s': Connecting to invalid output %d of source node %s which has %d outputs.%s",
        node->name, output, source->name, source->output_count, hint);
  }
  int32_t have = source->output_types[output], want = node->input_types[slot];
  if (have == want || have - DP_REF_OFFSET == want)
    return NULL;
  return DP_INVALID("Input %d of node %s was passed %s from %s:%d incompatible with expected %s.",
                    slot, node->name, dp_dtype_name(have), source->name, output,
                    dp_dtype_name(want));
}

static int compare_ids(const void *a, const void *b) {
  int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;
  return (left > right) - (left < right);
}

int32_t dp_controls_sort(int32_t *controls, int32_t count) {
  bool sorted = true;
  for (int32_t i = 1; i < count; i++)
    sorted &= controls[i - 1] < controls[i];
  if (sorted)
    return count;
  qsort(controls, (size_t)count, sizeof(*controls), compare_ids);
  int32_t kept = 0;
  for (int32_t i = 0; i < count; i++)
    if (kept == 0 || controls[kept - 1] != controls[i])
      controls[kept++] = controls[i];
  return kept;
}
