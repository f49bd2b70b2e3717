/* TF_OperationGetAttr*: reads the attributes of an operation. Any thread may call; no lock is
 * taken, because a node does not change once it is in the graph. Values are copied into the
 * caller's memory. */
#include "client/client_internal.h"

#include <string.h>
#include "wire/shape_message.h"
#include "wire/tensor_codec.h"

static dp_status *find(TF_Operation *oper, const char *name, const dp_attr **attr_out) {
  const dp_attr *attr = dp_node_attr(oper->node, name);
  if (!attr)
    return DP_INVALID("Operation '%s' has no attr named '%s'.", oper->node->name, name);
  *attr_out = attr;
  return NULL;
}

static dp_status *find_list(TF_Operation *oper, const char *name, const dp_attr **attr_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(find(oper, name, &attr));
  if (!(attr->kind & DP_ATTR_LIST))
    return DP_INVALID("Value for '%s' is not a list.", name);
  *attr_out = attr;
  return NULL;
}

/* How many items of a list to copy: none when they are of another kind. */
static int items(const dp_attr *attr, dp_attr_kind kind, int most) {
  if (attr->kind != kind || most <= 0)
    return 0;
  return attr->count < most ? attr->count : most;
}

/* ---- Metadata ---- */

static TF_AttrType type_of(dp_attr_kind kind) {
  switch ((int)kind & ~DP_ATTR_LIST) {
  case DP_ATTR_INT:
    return TF_ATTR_INT;
  case DP_ATTR_FLOAT:
    return TF_ATTR_FLOAT;
  case DP_ATTR_BOOL:
    return TF_ATTR_BOOL;
  case DP_ATTR_TYPE:
    return TF_ATTR_TYPE;
  case DP_ATTR_SHAPE:
    return TF_ATTR_SHAPE;
  case DP_ATTR_TENSOR:
    return TF_ATTR_TENSOR;
  case DP_ATTR_FUNC:
    return TF_ATTR_FUNC;
  case DP_ATTR_PLACEHOLDER:
    return TF_ATTR_PLACEHOLDER;
  default:
    return TF_ATTR_STRING;
  }
}

static int64_t size_of(const dp_attr *attr) {
  int64_t size = 0;
  switch ((int)attr->kind) {
  case DP_ATTR_STRING:
    return (int64_t)attr->string.length;
  case DP_ATTR_SHAPE:
    return attr->shape->rank;
  case DP_ATTR_LIST_STRING:
    for (int32_t i = 0; i < attr->count; i++)
      size += (int64_t)attr->strings[i].length;
    return attr->count ? size : -1;
  case DP_ATTR_LIST_SHAPE:
    for (int32_t i = 0; i < attr->count; i++)
      size += attr->shapes[i].rank > 0 ? attr->shapes[i].rank : 0;
    return attr->count ? size : -1;
  default:
    return -1;
  }
}

TF_AttrMetadata TF_OperationGetAttrMetadata(TF_Operation *oper, const char *attr_name,
                                            TF_Status *status) {
  TF_AttrMetadata metadata = {0};
  const dp_attr *attr = NULL;
  dp_status *result = find(oper, attr_name, &attr);
  if (attr && attr->kind == DP_ATTR_NONE)
    result = DP_INVALID("Attribute '%s' has no value set", attr_name);
  dp_client_set_status(status, result);
  if (result)
    return metadata;
  metadata.is_list = (attr->kind & DP_ATTR_LIST) != 0;
  metadata.list_size = metadata.is_list ? attr->count : -1;
  metadata.type = type_of(attr->kind);
  metadata.total_size = size_of(attr);
  return metadata;
}

/* ---- Strings ---- */

void TF_OperationGetAttrString(TF_Operation *oper, const char *attr_name, void *value,
                               size_t max_length, TF_Status *status) {
  const dp_attr *attr = NULL;
  dp_status *result = find(oper, attr_name, &attr);
  if (attr && attr->kind != DP_ATTR_STRING)
    result = DP_INVALID("Attribute '%s' is not a string", attr_name);
  dp_client_set_status(status, result);
  if (result)
    return;
  size_t length = attr->string.length < max_length ? attr->string.length : max_length;
  if (length)
    memcpy(value, attr->string.data, length);
}

static dp_status *copy_strings(TF_Operation *oper, const char *name, void **values, size_t *lengths,
                               int most, char *storage, size_t room) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(find_list(oper, name, &attr));
  int count = items(attr, DP_ATTR_LIST_STRING, most);
  for (int i = 0; i < count; i++) {
    size_t length = attr->strings[i].length;
    values[i] = storage;
    lengths[i] = length;
    if (length > room)
      return DP_INVALID("Not enough storage to hold the requested list of strings");
    if (length)
      memcpy(storage, attr->strings[i].data, length);
    storage += length;
    room -= length;
  }
  return NULL;
}

void TF_OperationGetAttrStringList(TF_Operation *oper, const char *attr_name, void **values,
                                   size_t *lengths, int max_values, void *storage,
                                   size_t storage_size, TF_Status *status) {
  dp_client_set_status(
      status, copy_strings(oper, attr_name, values, lengths, max_values, storage, storage_size));
}

/* ---- Numbers and types ---- */

void TF_OperationGetAttrInt(TF_Operation *oper, const char *attr_name, int64_t *value,
                            TF_Status *status) {
  dp_client_set_status(status, dp_node_get_int(oper->node, attr_name, value));
}

void TF_OperationGetAttrIntList(TF_Operation *oper, const char *attr_name, int64_t *values,
                                int max_values, TF_Status *status) {
  const dp_attr *attr = NULL;
  dp_client_set_status(status, find_list(oper, attr_name, &attr));
  int count = attr ? items(attr, DP_ATTR_LIST_INT, max_values) : 0;
  for (int i = 0; i < count; i++)
    values[i] = attr->integers[i];
}

void TF_OperationGetAttrFloat(TF_Operation *oper, const char *attr_name, float *value,
                              TF_Status *status) {
  dp_client_set_status(status, dp_node_get_float(oper->node, attr_name, value));
}

void TF_OperationGetAttrFloatList(TF_Operation *oper, const char *attr_name, float *values,
                                  int max_values, TF_Status *status) {
  const dp_attr *attr = NULL;
  dp_client_set_status(status, find_list(oper, attr_name, &attr));
  int count = attr ? items(attr, DP_ATTR_LIST_FLOAT, max_values) : 0;
  for (int i = 0; i < count; i++)
    values[i] = attr->numbers[i];
}

void TF_OperationGetAttrBool(TF_Operation *oper, const char *attr_name, unsigned char *value,
                             TF_Status *status) {
  bool boolean = false;
  dp_client_set_status(status, dp_node_get_bool(oper->node, attr_name, &boolean));
  if (TF_GetCode(status) == TF_OK)
    *value = boolean;
}

void TF_OperationGetAttrBoolList(TF_Operation *oper, const char *attr_name, unsigned char *values,
                                 int max_values, TF_Status *status) {
  const dp_attr *attr = NULL;
  dp_client_set_status(status, find_list(oper, attr_name, &attr));
  int count = attr ? items(attr, DP_ATTR_LIST_BOOL, max_values) : 0;
  for (int i = 0; i < count; i++)
    values[i] = attr->booleans[i];
}

void TF_OperationGetAttrType(TF_Operation *oper, const char *attr_name, TF_DataType *value,
                             TF_Status *status) {
  dp_dtype dtype = DP_INVALID_DTYPE;
  dp_client_set_status(status, dp_node_get_type(oper->node, attr_name, &dtype));
  if (TF_GetCode(status) == TF_OK)
    *value = (TF_DataType)dtype;
}

void TF_OperationGetAttrTypeList(TF_Operation *oper, const char *attr_name, TF_DataType *values,
                                 int max_values, TF_Status *status) {
  const dp_attr *attr = NULL;
  dp_client_set_status(status, find_list(oper, attr_name, &attr));
  int count = attr ? items(attr, DP_ATTR_LIST_TYPE, max_values) : 0;
  for (int i = 0; i < count; i++)
    values[i] = (TF_DataType)attr->types[i];
}

/* ---- Shapes ---- */

void TF_OperationGetAttrShape(TF_Operation *oper, const char *attr_name, int64_t *value,
                              int num_dims, TF_Status *status) {
  const dp_partial_shape *shape = NULL;
  dp_client_set_status(status, dp_node_get_shape(oper->node, attr_name, &shape));
  for (int i = 0; shape && i < shape->rank && i < num_dims; i++)
    value[i] = shape->dims[i];
}

static dp_status *copy_shapes(TF_Operation *oper, const char *name, int64_t **dims, int *ranks,
                              int most, int64_t *storage, int room) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(dp_node_get_list(oper->node, name, DP_ATTR_LIST_SHAPE, &attr));
  int count = items(attr, DP_ATTR_LIST_SHAPE, most);
  for (int i = 0; i < count; i++) {
    const dp_partial_shape *shape = &attr->shapes[i];
    ranks[i] = shape->rank;
    dims[i] = storage;
    if (shape->rank > room)
      return DP_INVALID("Not enough storage to hold the requested list of shapes");
    for (int k = 0; k < shape->rank; k++, room--)
      *storage++ = shape->dims[k];
  }
  return NULL;
}

void TF_OperationGetAttrShapeList(TF_Operation *oper, const char *attr_name, int64_t **dims,
                                  int *num_dims, int num_shapes, int64_t *storage, int storage_size,
                                  TF_Status *status) {
  dp_client_set_status(
      status, copy_shapes(oper, attr_name, dims, num_dims, num_shapes, storage, storage_size));
}

static dp_status *pack_shape(const dp_partial_shape *shape, TF_Buffer *buffer) {
  dp_arena *arena = dp_arena_create();
  dp_status *status = dp_client_pack(dp_wire_partial_shape_message(shape, arena), buffer);
  dp_arena_destroy(arena);
  return status;
}

void TF_OperationGetAttrTensorShapeProto(TF_Operation *oper, const char *attr_name,
                                         TF_Buffer *value, TF_Status *status) {
  const dp_attr *attr = NULL;
  dp_status *result = find(oper, attr_name, &attr);
  if (attr && attr->kind != DP_ATTR_SHAPE)
    result = DP_INVALID("Value for '%s' is not a shape.", attr_name);
  dp_client_set_status(status, result ? result : pack_shape(attr->shape, value));
}

void TF_OperationGetAttrTensorShapeProtoList(TF_Operation *oper, const char *attr_name,
                                             TF_Buffer **values, int max_values,
                                             TF_Status *status) {
  const dp_attr *attr = NULL;
  dp_status *result = find_list(oper, attr_name, &attr);
  int count = attr ? items(attr, DP_ATTR_LIST_SHAPE, max_values) : 0;
  int made = 0;
  while (made < count && !result) {
    values[made] = TF_NewBuffer();
    result = pack_shape(&attr->shapes[made], values[made]);
    made++;
  }
  while (result && made > 0)
    TF_DeleteBuffer(values[--made]);
  dp_client_set_status(status, result);
}

/* ---- Tensors ---- */

/* The caller may write to the tensor, so it gets a copy. */
static dp_status *copy_tensor(const dp_tensor *tensor, TF_Tensor **tensor_out) {
  dp_tensor clone;
  DP_RETURN_IF_ERROR(dp_tensor_clone(tensor, &clone));
  *tensor_out = dp_client_tensor(clone);
  return NULL;
}

void TF_OperationGetAttrTensor(TF_Operation *oper, const char *attr_name, TF_Tensor **value,
                               TF_Status *status) {
  const dp_tensor *tensor = NULL;
  *value = NULL;
  dp_status *result = dp_node_get_tensor(oper->node, attr_name, &tensor);
  dp_client_set_status(status, result ? result : copy_tensor(tensor, value));
}

void TF_OperationGetAttrTensorList(TF_Operation *oper, const char *attr_name, TF_Tensor **values,
                                   int max_values, TF_Status *status) {
  const dp_attr *attr = NULL;
  dp_status *result = dp_node_get_list(oper->node, attr_name, DP_ATTR_LIST_TENSOR, &attr);
  int count = attr ? items(attr, DP_ATTR_LIST_TENSOR, max_values) : 0;
  for (int i = 0; i < count && !result; i++)
    result = copy_tensor(&attr->tensors[i], &values[i]);
  dp_client_set_status(status, result);
}

void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to, TF_Status *status) {
  dp_tensor tensor;
  dp_status *result = dp_wire_decode_tensor_bytes(from->data, from->length, &tensor);
  if (!result) {
    dp_tensor_deinit(&to->tensor);
    to->tensor = tensor;
    to->byte_size = dp_tensor_bytes(&tensor);
  }
  dp_client_set_status(status, result);
}

/* ---- Messages and names ---- */

void TF_OperationGetAttrValueProto(TF_Operation *oper, const char *attr_name,
                                   TF_Buffer *output_attr_value, TF_Status *status) {
  const dp_attr *attr;
  dp_arena *arena = dp_arena_create();
  dp_status *result = find(oper, attr_name, &attr);
  if (!result) {
    pthread_mutex_lock(&oper->graph->lock);
    const Tensorflow__NodeDef *node = dp_node_export(oper->graph->graph, oper->node, arena);
    pthread_mutex_unlock(&oper->graph->lock);
    result = dp_client_pack(dp_wire_node_attr(node, attr_name), output_attr_value);
  }
  dp_client_set_status(status, result);
  dp_arena_destroy(arena);
}

int TF_OperationGetNumAttrs(TF_Operation *oper) {
  return oper->node->attr_count;
}

static dp_status *find_name(TF_Operation *oper, int i, const char **name_out) {
  if (i < 0 || i >= oper->node->attr_count)
    return dp_status_create(DP_OUT_OF_RANGE, "Operation only has %d attributes, can't get the %dth",
                            oper->node->attr_count, i);
  *name_out = oper->node->attrs[i].name;
  return NULL;
}

int TF_OperationGetAttrNameLength(TF_Operation *oper, int i) {
  const char *name = "";
  dp_status_release(find_name(oper, i, &name));
  return (int)strlen(name);
}

void TF_OperationGetAttrName(TF_Operation *oper, int i, char *output, TF_Status *status) {
  const char *name = "";
  dp_client_set_status(status, find_name(oper, i, &name));
  memcpy(output, name, strlen(name));
}
