/* Adds one node in a scope: what every generated constructor is made of. It fills a description of
 * the C API (describe.c) and adds the scope's name prefix, device and control inputs. Errors go to
 * the scope instead of a TF_Status. One thread at a time per scope. */
#include "client/construct_internal.h"

#include <string.h>
#include "client/scope_internal.h"
#include "wire/device_name.h"

dp_construction dp_construct(dp_scope *scope, const char *op_type, const void *options) {
  const dp_options_head *head = options;
  dp_construction node = {.scope = scope, .op_type = op_type, .name = op_type};
  if (head && head->options_size < sizeof(*head))
    dp_scope_note(scope, DP_INVALID("%s%s: a struct of options without its size; make it with "
                                    "DP_OPTIONS",
                                    scope->prefix, op_type));
  else if (head && head->name)
    node.name = head->name;
  if (!dp_scope_ok(scope))
    return node;
  const char *full = dp_arena_printf(scope->root->arena, "%s%s", scope->prefix, node.name);
  node.description = TF_NewOperation(scope->root->graph, op_type, full);
  return node;
}

/* Destroys the description. The scope keeps the error if it is its first. */
static void fail(dp_construction *node, dp_status *status) {
  dp_scope_note(node->scope, status);
  dp_client_description_destroy(node->description);
  node->description = NULL;
}

/* ---- Inputs ---- */

static bool check_input(dp_construction *node, const char *arg, TF_Output input) {
  if (!node->description)
    return false;
  if (!input.oper)
    fail(node, DP_INVALID("%s%s (%s): input '%s' is missing", node->scope->prefix, node->name,
                          node->op_type, arg));
  return input.oper;
}

void dp_construct_input(dp_construction *node, const char *arg, TF_Output input) {
  if (check_input(node, arg, input))
    TF_AddInput(node->description, input);
}

void dp_construct_inputs(dp_construction *node, const char *arg, dp_outputs inputs) {
  for (int i = 0; i < inputs.count; i++)
    if (!check_input(node, arg, inputs.items[i]))
      return;
  if (node->description)
    TF_AddInputList(node->description, inputs.items, inputs.count);
}

/* ---- Attributes ---- */

void dp_construct_int(dp_construction *node, const char *attr, int64_t value) {
  if (node->description)
    TF_SetAttrInt(node->description, attr, value);
}

void dp_construct_float(dp_construction *node, const char *attr, float value) {
  if (node->description)
    TF_SetAttrFloat(node->description, attr, value);
}

void dp_construct_bool(dp_construction *node, const char *attr, bool value) {
  if (node->description)
    TF_SetAttrBool(node->description, attr, value);
}

void dp_construct_type(dp_construction *node, const char *attr, TF_DataType value) {
  if (node->description && value)
    TF_SetAttrType(node->description, attr, value);
}

void dp_construct_string(dp_construction *node, const char *attr, const char *value) {
  if (node->description && value)
    TF_SetAttrString(node->description, attr, value, strlen(value));
}

void dp_construct_func(dp_construction *node, const char *attr, const char *value) {
  if (node->description && value)
    TF_SetAttrFuncName(node->description, attr, value, strlen(value));
}

void dp_construct_shape(dp_construction *node, const char *attr, dp_dims value) {
  if (node->description && value.items)
    TF_SetAttrShape(node->description, attr, value.items, value.count);
}

void dp_construct_tensor(dp_construction *node, const char *attr, TF_Tensor *value) {
  if (value)
    dp_construct_tensors(node, attr, (dp_tensors){&value, -1});
}

/* A count of -1 stands for a single tensor. */
void dp_construct_tensors(dp_construction *node, const char *attr, dp_tensors value) {
  if (!node->description || !value.items)
    return;
  TF_Status status = {0};
  if (value.count < 0)
    TF_SetAttrTensor(node->description, attr, value.items[0], &status);
  else
    TF_SetAttrTensorList(node->description, attr, value.items, value.count, &status);
  if (status.status)
    fail(node, status.status);
}

void dp_construct_ints(dp_construction *node, const char *attr, dp_ints value) {
  if (node->description && value.items)
    TF_SetAttrIntList(node->description, attr, value.items, value.count);
}

void dp_construct_floats(dp_construction *node, const char *attr, dp_floats value) {
  if (node->description && value.items)
    TF_SetAttrFloatList(node->description, attr, value.items, value.count);
}

void dp_construct_bools(dp_construction *node, const char *attr, dp_bools value) {
  _Static_assert(sizeof(bool) == sizeof(unsigned char), "the C API's booleans");
  if (node->description && value.items)
    TF_SetAttrBoolList(node->description, attr, (const unsigned char *)value.items, value.count);
}

void dp_construct_types(dp_construction *node, const char *attr, dp_types value) {
  if (node->description && value.items)
    TF_SetAttrTypeList(node->description, attr, value.items, value.count);
}

void dp_construct_strings(dp_construction *node, const char *attr, dp_strings value) {
  if (!node->description || !value.items)
    return;
  size_t *lengths = DP_NEW_ARRAY(size_t, value.count + 1);
  for (int i = 0; i < value.count; i++)
    lengths[i] = strlen(value.items[i]);
  TF_SetAttrStringList(node->description, attr, (const void *const *)value.items, lengths,
                       value.count);
  dp_free(lengths);
}

void dp_construct_shapes(dp_construction *node, const char *attr, dp_shapes value) {
  if (!node->description || !value.items)
    return;
  const int64_t **dims = DP_NEW_ARRAY(const int64_t *, value.count + 1);
  int *ranks = DP_NEW_ARRAY(int, value.count + 1);
  for (int i = 0; i < value.count; i++) {
    dims[i] = value.items[i].items;
    ranks[i] = value.items[i].count;
  }
  TF_SetAttrShapeList(node->description, attr, dims, ranks, value.count);
  dp_free(dims);
  dp_free(ranks);
}

void dp_construct_funcs(dp_construction *node, const char *attr, dp_strings value) {
  if (node->description && value.items)
    dp_client_set_functions(node->description, attr, value.items, value.count);
}

/* ---- Options ---- */

typedef struct option_place {
  size_t size, alignment;
} option_place;

static option_place place_of(char kind) {
  switch (kind) {
  case 'b':
    return (option_place){sizeof(bool), _Alignof(bool)};
  case 'f':
  case 't':
    return (option_place){sizeof(float), _Alignof(float)};
  case 'i':
  case 'n':
  case 's':
  case 'v':
    return (option_place){sizeof(int64_t), _Alignof(int64_t)};
  default:
    return (option_place){sizeof(dp_ints), _Alignof(dp_ints)};
  }
}

static void set_scalar(dp_construction *node, char kind, const char *attr, const void *value) {
  switch (kind) {
  case 'b':
    return dp_construct_bool(node, attr, *(const bool *)value);
  case 'f':
    return dp_construct_float(node, attr, *(const float *)value);
  case 'i':
    return dp_construct_int(node, attr, *(const int64_t *)value);
  case 'n':
    return dp_construct_func(node, attr, *(const char *const *)value);
  case 's':
    return dp_construct_string(node, attr, *(const char *const *)value);
  case 't':
    return dp_construct_type(node, attr, *(const TF_DataType *)value);
  default:
    return dp_construct_tensor(node, attr, *(TF_Tensor *const *)value);
  }
}

static void set_option(dp_construction *node, char kind, const char *attr, const void *value) {
  switch (kind) {
  case 'B':
    return dp_construct_bools(node, attr, *(const dp_bools *)value);
  case 'D':
    return dp_construct_shapes(node, attr, *(const dp_shapes *)value);
  case 'F':
    return dp_construct_floats(node, attr, *(const dp_floats *)value);
  case 'I':
    return dp_construct_ints(node, attr, *(const dp_ints *)value);
  case 'N':
    return dp_construct_funcs(node, attr, *(const dp_strings *)value);
  case 'S':
    return dp_construct_strings(node, attr, *(const dp_strings *)value);
  case 'T':
    return dp_construct_types(node, attr, *(const dp_types *)value);
  case 'V':
    return dp_construct_tensors(node, attr, *(const dp_tensors *)value);
  case 'd':
    return dp_construct_shape(node, attr, *(const dp_dims *)value);
  default:
    return set_scalar(node, kind, attr, value);
  }
}

void dp_construct_options(dp_construction *node, const char *fields, const void *options) {
  size_t at = sizeof(dp_options_head);
  while (options && node->description && *fields) {
    char attr[DP_CONSTRUCT_ATTR_SIZE], kind = *fields;
    const char *name = fields + 2;
    size_t length = strcspn(name, " ");
    option_place place = place_of(kind);
    at = (at + place.alignment - 1) / place.alignment * place.alignment;
    if (at + place.size > ((const dp_options_head *)options)->options_size)
      return;
    memcpy(attr, name, length);
    attr[length] = '\0';
    set_option(node, kind, attr, (const char *)options + at);
    at += place.size;
    fields = name + length + (name[length] == ' ');
  }
}

/* ---- The end ---- */

static dp_new_operation describe(const dp_construction *node) {
  const dp_scope *scope = node->scope;
  const dp_attr *dtype = dp_client_description_attr(node->description, "dtype");
  const dp_attr *shape = dp_client_description_attr(node->description, "shape");
  return (dp_new_operation){
      .op_type = node->op_type,
      .name = dp_arena_printf(scope->root->arena, "%s%s", scope->prefix, node->name),
      .device = scope->device,
      .dtype = dtype && dtype->kind == DP_ATTR_TYPE ? (TF_DataType)dtype->type : 0,
      .shape = shape && shape->kind == DP_ATTR_SHAPE
                   ? (dp_dims){shape->shape->dims, shape->shape->rank}
                   : DP_ANY_SHAPE};
}

/* Each part of the device name (job, task, device...) is what the scope's own device says; where
 * that is silent, what the innermost choosing function says, then the next outer one. */
static dp_status *choose_device(const dp_construction *node, dp_device_name *device_out) {
  DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(node->scope->device), device_out));
  if (!node->scope->chooser)
    return NULL;
  dp_new_operation operation = describe(node);
  for (const scope_chooser *at = node->scope->chooser; at; at = at->outer) {
    const char *chosen = at->choose(at->arg, &operation);
    if (!chosen)
      continue;
    dp_device_name merged;
    DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(chosen), &merged));
    dp_device_name_override(&merged, device_out);
    *device_out = merged;
  }
  return NULL;
}

static dp_status *apply_scope(const dp_construction *node) {
  const dp_scope *scope = node->scope;
  for (int i = 0; i < scope->control_count; i++)
    TF_AddControlInput(node->description, scope->controls[i]);
  if (scope->source_control && !dp_client_description_has_inputs(node->description))
    TF_AddControlInput(node->description, scope->source_control);
  if (scope->beside)
    TF_ColocateWith(node->description, scope->beside);
  dp_device_name device;
  DP_RETURN_IF_ERROR(choose_device(node, &device));
  char text[DP_DEVICE_NAME_SIZE];
  if (!dp_device_name_is_empty(&device))
    TF_SetDevice(node->description, dp_device_name_format(&device, text));
  return NULL;
}

TF_Operation *dp_construct_finish(dp_construction *node) {
  if (!node->description)
    return NULL;
  dp_status *status = apply_scope(node);
  if (status) {
    fail(node, dp_status_annotate(status, "%s%s", node->scope->prefix, node->name));
    return NULL;
  }
  TF_Status result = {0};
  TF_Operation *operation = dp_client_finish_unique(node->description, &result);
  node->description = NULL;
  if (result.status)
    dp_scope_note(node->scope, result.status);
  return operation;
}

TF_Output dp_construct_output(TF_Operation *operation, const char *arg) {
  return dp_output_at(dp_construct_list(operation, arg), 0);
}

dp_output_list dp_construct_list(TF_Operation *operation, const char *arg) {
  int32_t begin = 0, end = 0;
  if (operation) /* the generator knows that there is one of that name */
    dp_status_release(dp_node_output_range(operation->node, arg, &begin, &end));
  return (dp_output_list){operation, begin, end - begin};
}
