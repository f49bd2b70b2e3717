/* Attribute values from and to protocol messages. Reading copies everything into the store, so the
 * message may be freed afterwards. A function may be an attribute of a function, and so on: the
 * recursion is bounded because wire/control.h refuses more than 100 messages inside each other.
 * No state, any thread. */
#include <string.h>

#include "graph/graph_internal.h"
#include "wire/shape_message.h"
#include "wire/tensor_codec.h"

typedef Tensorflow__AttrValue attr_message;
typedef Tensorflow__AttrValue__ListValue list_message;

/* ---- Reading ---- */

static dp_view read_bytes(const dp_attr_store *store, ProtobufCBinaryData bytes) {
  return (dp_view){
      dp_arena_strndup(store->arena, bytes.len ? (const char *)bytes.data : "", bytes.len),
      bytes.len};
}

static dp_status *read_tensor(const dp_attr_store *store, ProtobufCBinaryData bytes,
                              dp_tensor *tensor) {
  DP_RETURN_IF_ERROR(dp_wire_decode_tensor_bytes(bytes.data, bytes.len, tensor));
  DP_ARRAY_PUSH(store->tensors, tensor);
  return NULL;
}

static dp_status *read_func(const dp_attr_store *store, const Tensorflow__NameAttrList *message,
                            dp_func *func) {
  if (message->n_attr > INT32_MAX / 2)
    return DP_INVALID("Function '%s' has too many attributes", message->name);
  dp_attr *attrs = DP_ARENA_ARRAY(store->arena, dp_attr, message->n_attr);
  for (size_t i = 0; i < message->n_attr; i++) {
    DP_RETURN_IF_ERROR(dp_attr_from_message(store, message->attr[i]->value, &attrs[i]));
    attrs[i].name = dp_arena_strdup(store->arena, message->attr[i]->key);
  }
  *func = (dp_func){.name = dp_arena_strdup(store->arena, message->name),
                    .attr_count = dp_attr_sort(attrs, (int32_t)message->n_attr),
                    .attrs = attrs};
  return NULL;
}

static dp_status *read_shapes(const dp_attr_store *store, const list_message *list, dp_attr *attr) {
  dp_partial_shape *shapes = DP_ARENA_ARRAY(store->arena, dp_partial_shape, list->n_shape);
  attr->shapes = shapes;
  for (size_t i = 0; i < list->n_shape; i++)
    DP_RETURN_IF_ERROR(dp_wire_partial_shape(list->shape[i], &shapes[i]));
  return NULL;
}

static dp_status *read_tensors(const dp_attr_store *store, const list_message *list,
                               dp_attr *attr) {
  dp_tensor *tensors = DP_ARENA_ARRAY(store->arena, dp_tensor, list->n_tensor);
  attr->tensors = tensors;
  for (size_t i = 0; i < list->n_tensor; i++)
    DP_RETURN_IF_ERROR(read_tensor(store, list->tensor[i], &tensors[i]));
  return NULL;
}

static dp_status *read_funcs(const dp_attr_store *store, const list_message *list, dp_attr *attr) {
  dp_func *funcs = DP_ARENA_ARRAY(store->arena, dp_func, list->n_func);
  attr->funcs = funcs;
  for (size_t i = 0; i < list->n_func; i++)
    DP_RETURN_IF_ERROR(read_func(store, list->func[i], &funcs[i]));
  return NULL;
}

static void read_strings(const dp_attr_store *store, const list_message *list, dp_attr *attr) {
  dp_view *strings = DP_ARENA_ARRAY(store->arena, dp_view, list->n_s);
  for (size_t i = 0; i < list->n_s; i++)
    strings[i] = read_bytes(store, list->s[i]);
  attr->strings = strings;
}

static void read_numbers(const dp_attr_store *store, const list_message *list, dp_attr *attr) {
  dp_arena *arena = store->arena;
  if (attr->kind == DP_ATTR_LIST_INT) {
    size_t size = list->n_i * sizeof(int64_t);
    attr->integers = memcpy(dp_arena_allocate(arena, size), list->i, size);
  } else if (attr->kind == DP_ATTR_LIST_FLOAT) {
    size_t size = list->n_f * sizeof(float);
    attr->numbers = memcpy(dp_arena_allocate(arena, size), list->f, size);
  } else if (attr->kind == DP_ATTR_LIST_BOOL) {
    bool *booleans = DP_ARENA_ARRAY(arena, bool, list->n_b);
    for (size_t i = 0; i < list->n_b; i++)
      booleans[i] = list->b[i] != 0;
    attr->booleans = booleans;
  } else {
    int32_t *types = DP_ARENA_ARRAY(arena, int32_t, list->n_type);
    for (size_t i = 0; i < list->n_type; i++)
      types[i] = (int32_t)list->type[i];
    attr->types = types;
  }
}

static dp_status *read_list(const dp_attr_store *store, const list_message *list, dp_attr *attr) {
  attr->kind = DP_ATTR_LIST;
  if (!list)
    return NULL;
  const struct {
    dp_attr_kind kind;
    size_t count;
  } fields[] = {
      {DP_ATTR_LIST_STRING, list->n_s},      {DP_ATTR_LIST_INT, list->n_i},
      {DP_ATTR_LIST_FLOAT, list->n_f},       {DP_ATTR_LIST_BOOL, list->n_b},
      {DP_ATTR_LIST_TYPE, list->n_type},     {DP_ATTR_LIST_SHAPE, list->n_shape},
      {DP_ATTR_LIST_TENSOR, list->n_tensor}, {DP_ATTR_LIST_FUNC, list->n_func},
  };
  for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
    if (fields[i].count == 0)
      continue;
    if (attr->kind != DP_ATTR_LIST)
      return DP_INVALID("AttrValue had value with type '%s' when '%s' expected",
                        dp_attr_kind_name(fields[i].kind), dp_attr_kind_name(attr->kind));
    if (fields[i].count > INT32_MAX)
      return DP_INVALID("AttrValue has a list of %zu items", fields[i].count);
    attr->kind = fields[i].kind;
    attr->count = (int32_t)fields[i].count;
  }
  switch ((int)attr->kind) {
  case DP_ATTR_LIST:
    return NULL;
  case DP_ATTR_LIST_STRING:
    read_strings(store, list, attr);
    return NULL;
  case DP_ATTR_LIST_SHAPE:
    return read_shapes(store, list, attr);
  case DP_ATTR_LIST_TENSOR:
    return read_tensors(store, list, attr);
  case DP_ATTR_LIST_FUNC:
    return read_funcs(store, list, attr);
  default:
    read_numbers(store, list, attr);
    return NULL;
  }
}

static dp_status *read_value(const dp_attr_store *store, const attr_message *message,
                             dp_attr *attr) {
  switch (message->value_case) {
  case TENSORFLOW__ATTR_VALUE__VALUE_S:
    attr->kind = DP_ATTR_STRING;
    attr->string = read_bytes(store, message->s);
    return NULL;
  case TENSORFLOW__ATTR_VALUE__VALUE_I:
    attr->kind = DP_ATTR_INT;
    attr->integer = message->i;
    return NULL;
  case TENSORFLOW__ATTR_VALUE__VALUE_F:
    attr->kind = DP_ATTR_FLOAT;
    attr->number = message->f;
    return NULL;
  case TENSORFLOW__ATTR_VALUE__VALUE_B:
    attr->kind = DP_ATTR_BOOL;
    attr->boolean = message->b != 0;
    return NULL;
  case TENSORFLOW__ATTR_VALUE__VALUE_TYPE:
    attr->kind = DP_ATTR_TYPE;
    attr->type = (int32_t)message->type;
    return NULL;
  case TENSORFLOW__ATTR_VALUE__VALUE_SHAPE: {
    dp_partial_shape *shape = dp_arena_allocate(store->arena, sizeof(*shape));
    attr->kind = DP_ATTR_SHAPE;
    attr->shape = shape;
    return dp_wire_partial_shape(message->shape, shape);
  }
  case TENSORFLOW__ATTR_VALUE__VALUE_TENSOR: {
    dp_tensor *tensor = DP_ARENA_NEW(store->arena, dp_tensor);
    attr->kind = DP_ATTR_TENSOR;
    attr->tensor = tensor;
    return read_tensor(store, message->tensor, tensor);
  }
  case TENSORFLOW__ATTR_VALUE__VALUE_FUNC: {
    dp_func *func = DP_ARENA_NEW(store->arena, dp_func);
    attr->kind = DP_ATTR_FUNC;
    attr->func = func;
    return read_func(store, message->func, func);
  }
  case TENSORFLOW__ATTR_VALUE__VALUE_PLACEHOLDER:
    attr->kind = DP_ATTR_PLACEHOLDER;
    attr->placeholder = dp_arena_strdup(store->arena, message->placeholder);
    return NULL;
  case TENSORFLOW__ATTR_VALUE__VALUE_LIST:
    return read_list(store, message->list, attr);
  default:
    return NULL;
  }
}

dp_status *dp_attr_from_message(const dp_attr_store *store, const Tensorflow__AttrValue *message,
                                dp_attr *attr_out) {
  dp_attr attr = {.kind = DP_ATTR_NONE};
  if (message)
    DP_RETURN_IF_ERROR(read_value(store, message, &attr));
  attr.name = attr_out->name;
  *attr_out = attr;
  return NULL;
}

/* ---- Writing ---- */

static ProtobufCBinaryData write_bytes(dp_view view) {
  return (ProtobufCBinaryData){.len = view.length, .data = (uint8_t *)view.data};
}

/* A tensor that was read from a message can be written to one. The only failure is a lack of
 * memory; the field stays empty then. */
static ProtobufCBinaryData write_tensor(const dp_tensor *tensor, dp_arena *arena) {
  dp_rope rope = {0};
  ProtobufCBinaryData bytes = {0};
  dp_status *status = dp_wire_encode_tensor(tensor, &rope);
  if (!status) {
    bytes.len = rope.length;
    bytes.data = dp_arena_allocate(arena, rope.length);
    dp_rope_flatten(&rope, bytes.data);
  }
  dp_status_release(status);
  dp_rope_deinit(&rope);
  return bytes;
}

static Tensorflow__NameAttrList *write_func(const dp_func *func, dp_arena *arena) {
  Tensorflow__NameAttrList *message = dp_wire_new(arena, &tensorflow__name_attr_list__descriptor);
  message->name = (char *)func->name;
  message->n_attr = (size_t)func->attr_count;
  message->attr = DP_ARENA_ARRAY(arena, Tensorflow__NameAttrList__AttrEntry *, func->attr_count);
  for (int32_t i = 0; i < func->attr_count; i++) {
    message->attr[i] = dp_wire_new(arena, &tensorflow__name_attr_list__attr_entry__descriptor);
    message->attr[i]->key = (char *)func->attrs[i].name;
    message->attr[i]->value = dp_attr_to_message(&func->attrs[i], arena);
  }
  return message;
}

static void write_number_list(const dp_attr *attr, list_message *list, dp_arena *arena) {
  size_t count = (size_t)attr->count;
  switch ((int)attr->kind) {
  case DP_ATTR_LIST_INT:
    list->n_i = count;
    list->i = (int64_t *)attr->integers;
    break;
  case DP_ATTR_LIST_FLOAT:
    list->n_f = count;
    list->f = (float *)attr->numbers;
    break;
  case DP_ATTR_LIST_BOOL:
    list->n_b = count;
    list->b = DP_ARENA_ARRAY(arena, protobuf_c_boolean, count);
    for (size_t i = 0; i < count; i++)
      list->b[i] = attr->booleans[i];
    break;
  case DP_ATTR_LIST_TYPE:
    list->n_type = count;
    list->type = DP_ARENA_ARRAY(arena, Tensorflow__DataType, count);
    for (size_t i = 0; i < count; i++)
      list->type[i] = (Tensorflow__DataType)attr->types[i];
    break;
  }
}

static list_message *write_list(const dp_attr *attr, dp_arena *arena) {
  list_message *list = dp_wire_new(arena, &tensorflow__attr_value__list_value__descriptor);
  size_t count = (size_t)attr->count;
  switch ((int)attr->kind) {
  case DP_ATTR_LIST_STRING:
    list->n_s = count;
    list->s = DP_ARENA_ARRAY(arena, ProtobufCBinaryData, count);
    for (size_t i = 0; i < count; i++)
      list->s[i] = write_bytes(attr->strings[i]);
    break;
  case DP_ATTR_LIST_SHAPE:
    list->n_shape = count;
    list->shape = DP_ARENA_ARRAY(arena, Tensorflow__TensorShapeProto *, count);
    for (size_t i = 0; i < count; i++)
      list->shape[i] = dp_wire_partial_shape_message(&attr->shapes[i], arena);
    break;
  case DP_ATTR_LIST_TENSOR:
    list->n_tensor = count;
    list->tensor = DP_ARENA_ARRAY(arena, ProtobufCBinaryData, count);
    for (size_t i = 0; i < count; i++)
      list->tensor[i] = write_tensor(&attr->tensors[i], arena);
    break;
  case DP_ATTR_LIST_FUNC:
    list->n_func = count;
    list->func = DP_ARENA_ARRAY(arena, Tensorflow__NameAttrList *, count);
    for (size_t i = 0; i < count; i++)
      list->func[i] = write_func(&attr->funcs[i], arena);
    break;
  default:
    write_number_list(attr, list, arena);
  }
  return list;
}

Tensorflow__AttrValue *dp_attr_to_message(const dp_attr *attr, dp_arena *arena) {
  attr_message *message = dp_wire_new(arena, &tensorflow__attr_value__descriptor);
  if (attr->kind & DP_ATTR_LIST) {
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_LIST;
    message->list = write_list(attr, arena);
    return message;
  }
  switch ((int)attr->kind) {
  case DP_ATTR_STRING:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_S;
    message->s = write_bytes(attr->string);
    break;
  case DP_ATTR_INT:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_I;
    message->i = attr->integer;
    break;
  case DP_ATTR_FLOAT:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_F;
    message->f = attr->number;
    break;
  case DP_ATTR_BOOL:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_B;
    message->b = attr->boolean;
    break;
  case DP_ATTR_TYPE:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_TYPE;
    message->type = (Tensorflow__DataType)attr->type;
    break;
  case DP_ATTR_SHAPE:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_SHAPE;
    message->shape = dp_wire_partial_shape_message(attr->shape, arena);
    break;
  case DP_ATTR_TENSOR:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_TENSOR;
    message->tensor = write_tensor(attr->tensor, arena);
    break;
  case DP_ATTR_FUNC:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_FUNC;
    message->func = write_func(attr->func, arena);
    break;
  case DP_ATTR_PLACEHOLDER:
    message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_PLACEHOLDER;
    message->placeholder = (char *)attr->placeholder;
    break;
  }
  return message;
}
