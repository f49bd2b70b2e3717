/* Ops on tensor lists that make, change or read single elements. The list itself is in
 * tensor_list.c; ops that join or cut whole tensors are in tensor_list_join.c. */
#include "kernels/shared/family.h"

#include "kernels/lists/tensor_list_internal.h"

static dp_status *dtype_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_type(setup->node, "element_dtype", memory);
}

static dp_status *read_scalar(const dp_op_context *context, int32_t slot, const char *name,
                              int64_t *value_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.elements != 1)
    return DP_INVALID("%s expected to be a scalar but got shape: %s", name,
                      dp_shape_text(&tensor->shape));
  *value_out = dp_tensor_int_at(tensor, 0);
  return NULL;
}

/* ---- Making ---- */
static dp_status *empty_compute(dp_op_context *context, void *memory) {
  const dp_tensor *limit = dp_op_input(context, 1);
  dp_partial_shape shape;
  if (limit->shape.rank != 0)
    return DP_INVALID("max_num_elements expected to be a scalar but got shape: %s",
                      dp_shape_text(&limit->shape));
  DP_RETURN_IF_ERROR(dp_list_read_shape(dp_op_input(context, 0), &shape));
  dp_list *list = dp_list_create(*(dp_dtype *)memory, &shape);
  list->limit = dp_tensor_int_at(limit, 0);
  return dp_list_output(context, list);
}

static dp_status *reserve_compute(dp_op_context *context, void *memory) {
  dp_partial_shape shape;
  int64_t size;
  DP_RETURN_IF_ERROR(dp_list_read_shape(dp_op_input(context, 0), &shape));
  DP_RETURN_IF_ERROR(read_scalar(context, 1, "num_elements", &size));
  if (size < 0)
    return DP_INVALID("The num_elements to reserve must be a non negative number, but got %lld",
                      (long long)size);
  dp_list *list = dp_list_create(*(dp_dtype *)memory, &shape);
  dp_status *status = dp_list_resize(list, size);
  if (status) {
    dp_list_destroy(list);
    return status;
  }
  return dp_list_output(context, list);
}

/* ---- Both ends ---- */
static dp_status *push_compute(dp_op_context *context, void *memory) {
  dp_dtype dtype = *(dp_dtype *)memory;
  const dp_tensor *tensor = dp_op_input(context, 1);
  const dp_list *list;
  if (tensor->dtype != dtype)
    return DP_INVALID("Invalid data types; list elements %s but tried to append %s",
                      dp_dtype_name(dtype), dp_dtype_name(tensor->dtype));
  DP_RETURN_IF_ERROR(dp_list_input(context, 0, &list));
  if (!dp_partial_shape_accepts(&list->element_shape, &tensor->shape))
    return DP_INVALID("Tried to append a tensor with incompatible shape to a list. Op element "
                      "shape: %s list shape: %s",
                      dp_shape_text(&tensor->shape), dp_partial_shape_text(&list->element_shape));
  DP_RETURN_IF_ERROR(dp_list_input_of(context, 0, dtype, &list));
  if (list->limit != -1 && dp_list_size(list) >= list->limit)
    return DP_INVALID("Tried to push item into a full list list size: %lld max_num_elements: %lld",
                      (long long)dp_list_size(list), (long long)list->limit);
  dp_list *output;
  DP_RETURN_IF_ERROR(dp_list_forward(context, &output));
  dp_list_push(output, &context->inputs[1].tensor);
  return NULL;
}

static dp_status *make_zeros(dp_op_context *context, int32_t output, dp_dtype dtype,
                             const dp_shape *shape) {
  return dp_tensor_create_zero(dtype, shape, &context->outputs[output].tensor);
}

static dp_status *pop_compute(dp_op_context *context, void *memory) {
  dp_dtype dtype = *(dp_dtype *)memory;
  const dp_list *list;
  DP_RETURN_IF_ERROR(dp_list_input_of(context, 0, dtype, &list));
  if (dp_list_size(list) == 0)
    return DP_INVALID("Trying to pop from an empty list.");
  const dp_tensor *last = dp_list_at(list, dp_list_size(list) - 1);
  if (last) {
    context->outputs[1].tensor = dp_tensor_copy(last);
  } else {
    dp_partial_shape partial;
    DP_RETURN_IF_ERROR(dp_list_element_shape(context, list, 1, &partial));
    if (!dp_partial_shape_is_known(&partial))
      return DP_INVALID("Trying to read an uninitialized tensor but element_shape is not fully "
                        "defined.%s",
                        dp_partial_shape_text(&partial));
    dp_shape shape;
    DP_RETURN_IF_ERROR(dp_shape_make(partial.rank, partial.dims, &shape));
    DP_RETURN_IF_ERROR(make_zeros(context, 1, dtype, &shape));
  }
  dp_list *output;
  DP_RETURN_IF_ERROR(dp_list_forward(context, &output));
  return dp_list_resize(output, dp_list_size(output) - 1);
}

/* ---- One element ---- */
/* The shape of an unset element: merged from the op's, the list's and all other elements'
 * shapes. */
static dp_status *infer_shape(dp_op_context *context, const dp_list *list, dp_shape *shape_out) {
  dp_partial_shape shape;
  DP_RETURN_IF_ERROR(dp_list_element_shape(context, list, 2, &shape));
  for (int64_t i = 0; i < dp_list_size(list) && !dp_partial_shape_is_known(&shape); ++i)
    if (dp_list_at(list, i)) {
      dp_partial_shape other = dp_pieces_partial(&dp_list_at(list, i)->shape);
      DP_RETURN_IF_ERROR(dp_pieces_merge_shapes(&shape, &other, &shape));
    }
  if (!dp_partial_shape_is_known(&shape))
    return DP_INVALID("Trying to read an uninitialized tensor but element_shape is not fully "
                      "defined: %s and no list element is set.",
                      dp_partial_shape_text(&shape));
  return dp_shape_make(shape.rank, shape.dims, shape_out);
}

static dp_status *get_compute(dp_op_context *context, void *memory) {
  dp_dtype dtype = *(dp_dtype *)memory;
  const dp_list *list;
  int64_t index;
  DP_RETURN_IF_ERROR(dp_list_input_of(context, 0, dtype, &list));
  DP_RETURN_IF_ERROR(read_scalar(context, 1, "index", &index));
  if (index < 0 || index >= dp_list_size(list))
    return DP_INVALID("Trying to access element %lld in a list with %lld elements.",
                      (long long)index, (long long)dp_list_size(list));
  const dp_tensor *tensor = dp_list_at(list, index);
  if (tensor) {
    context->outputs[0].tensor = dp_tensor_copy(tensor);
    return NULL;
  }
  dp_shape shape;
  DP_RETURN_IF_ERROR(infer_shape(context, list, &shape));
  return make_zeros(context, 0, dtype, &shape);
}

typedef struct set_state {
  dp_dtype dtype;
  bool resizes;
} set_state;

static dp_status *set_create(const dp_kernel_setup *setup, void *memory) {
  set_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "element_dtype", &state->dtype));
  if (!dp_node_attr(setup->node, "resize_if_index_out_of_bounds"))
    return NULL;
  return dp_node_get_bool(setup->node, "resize_if_index_out_of_bounds", &state->resizes);
}

static dp_status *set_compute(dp_op_context *context, void *memory) {
  const set_state *state = memory;
  const dp_tensor *value = dp_op_input(context, 2);
  const dp_list *list;
  int64_t index;
  DP_RETURN_IF_ERROR(dp_list_input_of(context, 0, state->dtype, &list));
  DP_RETURN_IF_ERROR(read_scalar(context, 1, "index", &index));
  if (!state->resizes && (index < 0 || index >= dp_list_size(list)))
    return DP_INVALID("Trying to modify element %lld in a list with %lld elements.",
                      (long long)index, (long long)dp_list_size(list));
  if (index < 0)
    return DP_INVALID("Trying to modify element %lld in a list with %lld elements.",
                      (long long)index, (long long)dp_list_size(list));
  if (!dp_partial_shape_accepts(&list->element_shape, &value->shape))
    return DP_INVALID("Tried to set a tensor with incompatible shape at a list index. Item element "
                      "shape: %s list shape: %s",
                      dp_shape_text(&value->shape), dp_partial_shape_text(&list->element_shape));
  dp_list *output;
  DP_RETURN_IF_ERROR(dp_list_forward(context, &output));
  if (index >= dp_list_size(output))
    DP_RETURN_IF_ERROR(dp_list_resize(output, index + 1));
  dp_list_set(output, index, &context->inputs[2].tensor);
  return NULL;
}

/* ---- The whole ---- */
static dp_status *length_compute(dp_op_context *context, void *memory) {
  const dp_list *list;
  DP_RETURN_IF_ERROR(dp_list_input(context, 0, &list));
  return dp_op_output_int32(context, 0, (int32_t)dp_list_size(list));
}

static dp_status *element_shape_compute(dp_op_context *context, void *memory) {
  const dp_list *list;
  DP_RETURN_IF_ERROR(dp_list_input(context, 0, &list));
  const dp_partial_shape *shape = &list->element_shape;
  dp_shape output_shape = shape->rank < 0 ? dp_shape_scalar() : dp_shape_vector(shape->rank);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &output_shape, &output));
  for (int64_t i = 0; i < output_shape.elements; ++i) {
    int64_t size = shape->rank < 0 ? -1 : shape->dims[i];
    dp_tensor_set_int(output, i, size);
  }
  return NULL;
}

static dp_status *resize_compute(dp_op_context *context, void *memory) {
  const dp_list *list;
  int64_t size;
  DP_RETURN_IF_ERROR(dp_list_input(context, 0, &list));
  DP_RETURN_IF_ERROR(read_scalar(context, 1, "size", &size));
  if (size < 0)
    return DP_INVALID("TensorListSlice expects size to be non-negative. Got: %lld",
                      (long long)size);
  dp_list *output;
  DP_RETURN_IF_ERROR(dp_list_forward(context, &output));
  return dp_list_resize(output, size);
}

static bool same_partial(const dp_partial_shape *a, const dp_partial_shape *b) {
  if (a->rank != b->rank)
    return false;
  for (int32_t i = 0; i < a->rank; ++i)
    if (a->dims[i] != b->dims[i])
      return false;
  return true;
}

static dp_status *check_concat(const dp_list *list, dp_dtype dtype, const char *name,
                               int64_t index) {
  if (!list)
    return DP_INVALID("%s is not a TensorList at index %lld.", name, (long long)index);
  if (list->dtype != dtype)
    return DP_INVALID("%s[%lld].dtype != element_dtype.  Saw: %s vs. %s", name, (long long)index,
                      dp_dtype_name(list->dtype), dp_dtype_name(dtype));
  return NULL;
}

static dp_status *concat_pair(const dp_tensor *a, const dp_tensor *b, int64_t index, dp_dtype dtype,
                              dp_list **list_out) {
  const dp_list *first = dp_list_of_element(a, index), *second = dp_list_of_element(b, index);
  DP_RETURN_IF_ERROR(check_concat(first, dtype, "input_a", index));
  DP_RETURN_IF_ERROR(check_concat(second, dtype, "input_b", index));
  if (!same_partial(&first->element_shape, &second->element_shape))
    return DP_INVALID("input_a and input_b TensorList element shapes are not identical at index "
                      "%lld.  Saw %s vs. %s",
                      (long long)index, dp_partial_shape_text(&first->element_shape),
                      dp_partial_shape_text(&second->element_shape));
  dp_list *joined = dp_list_copy(first);
  for (int64_t i = 0; i < dp_list_size(second); ++i) {
    dp_list_item *item = second->items.items[i];
    if (item)
      dp_refcount_retain(&item->references);
    DP_ARRAY_PUSH(&joined->items, item);
  }
  *list_out = joined;
  return NULL;
}

static dp_status *concat_lists_compute(dp_op_context *context, void *memory) {
  const dp_tensor *a = dp_op_input(context, 0), *b = dp_op_input(context, 1);
  if (!dp_shape_equal(&a->shape, &b->shape))
    return DP_INVALID("Incompatible input TensorList tensor shapes: %s vs. %s",
                      dp_shape_text(&a->shape), dp_shape_text(&b->shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &a->shape, &output));
  for (int64_t i = 0; i < a->shape.elements; ++i) {
    dp_list *joined;
    DP_RETURN_IF_ERROR(concat_pair(a, b, i, *(dp_dtype *)memory, &joined));
    dp_tensor_variants(output)[i] = dp_variant_create(&dp_list_ops, joined);
  }
  return NULL;
}

/* ---- A batch of lists ---- */
static dp_status *check_batch(const dp_tensor *lists, const dp_tensor *input, dp_dtype dtype) {
  if (input->dtype != dtype)
    return DP_INVALID("Invalid data types; list elements %s but tried to append %s",
                      dp_dtype_name(dtype), dp_dtype_name(input->dtype));
  if (input->shape.rank == 0)
    return DP_INVALID("Expected tensor to be at least a vector, but saw shape: %s",
                      dp_shape_text(&input->shape));
  if (lists->shape.rank != 1)
    return DP_INVALID("Expected input_handles to be a vector, but saw shape: %s",
                      dp_shape_text(&lists->shape));
  if (input->shape.dims[0] != lists->shape.elements)
    return DP_INVALID("Expected tensor.shape[0] == input_handles.size, but saw %lld vs. %lld",
                      (long long)input->shape.dims[0], (long long)lists->shape.elements);
  return NULL;
}

static dp_status *push_batch_compute(dp_op_context *context, void *memory) {
  const dp_tensor *lists = dp_op_input(context, 0), *input = dp_op_input(context, 1);
  dp_dtype dtype = *(dp_dtype *)memory;
  DP_RETURN_IF_ERROR(check_batch(lists, input, dtype));
  dp_shape shape = dp_shape_remove(&input->shape, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &lists->shape, &output));
  for (int64_t i = 0; i < lists->shape.elements; ++i) {
    const dp_list *list = dp_list_of_element(lists, i);
    if (!list)
      return DP_INVALID("Input handle at index %lld is not a list.", (long long)i);
    if (!dp_partial_shape_accepts(&list->element_shape, &shape))
      return DP_INVALID("Tried to append a tensor with incompatible shape to a list at index %lld. "
                        "Op element shape: %s list shape: %s",
                        (long long)i, dp_shape_text(&shape),
                        dp_partial_shape_text(&list->element_shape));
    if (list->dtype != dtype)
      return DP_INVALID("Invalid data type at index %lld; op elements %s but list elements %s",
                        (long long)i, dp_dtype_name(dtype), dp_dtype_name(list->dtype));
    dp_tensor piece;
    DP_RETURN_IF_ERROR(dp_pieces_cut(input, i, i + 1, &shape, &piece));
    dp_list *longer = dp_list_copy(list);
    dp_list_push(longer, &piece);
    dp_tensor_variants(output)[i] = dp_variant_create(&dp_list_ops, longer);
  }
  return NULL;
}

/* clang-format off */
#define TYPED(name, body)                                                                          \
  {.op = name, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(dp_dtype), .create = dtype_create,   \
   .compute = body}
#define CHEAP(name, body) {.op = name, .flags = DP_KERNEL_CHEAP, .compute = body}

static const dp_kernel rows[] = {
    TYPED("EmptyTensorList", empty_compute),
    TYPED("TensorListReserve", reserve_compute),
    TYPED("TensorListPushBack", push_compute),
    TYPED("TensorListPopBack", pop_compute),
    TYPED("TensorListGetItem", get_compute),
    {.op = "TensorListSetItem", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(set_state),
     .create = set_create, .compute = set_compute},
    CHEAP("TensorListLength", length_compute),
    CHEAP("TensorListElementShape", element_shape_compute),
    CHEAP("TensorListResize", resize_compute),
    TYPED("TensorListConcatLists", concat_lists_compute),
    TYPED("TensorListPushBackBatch", push_batch_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(tensor_list, rows);
