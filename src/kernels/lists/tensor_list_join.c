/* Ops between lists and whole tensors: stack, gather and concat make one tensor of a list's
 * elements; from tensor, split and scatter make a list of a tensor's rows. Unset elements count as
 * zeros. */
#include "kernels/shared/family.h"

#include "kernels/lists/tensor_list_internal.h"

/* ---- Elements as pieces ---- */
/* Sets `pieces` to the elements indices[i] (all elements when NULL), which share their buffers. An
 * unset element becomes zeros of `shape`. */
static dp_status *collect(const dp_list *list, const int32_t *indices, int64_t count,
                          const dp_shape *shape, dp_tensor *pieces) {
  dp_tensor zeros = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < count && !status; ++i) {
    const dp_tensor *tensor = dp_list_at(list, indices ? indices[i] : i);
    if (!tensor && !dp_tensor_is_set(&zeros))
      status = dp_tensor_create_zero(list->dtype, shape, &zeros);
    if (!status)
      pieces[i] = dp_tensor_copy(tensor ? tensor : &zeros);
  }
  dp_tensor_deinit(&zeros);
  return status;
}

/* If the list has no complete element shape, merges the shapes of its elements into *shape. */
static dp_status *merge_elements(const dp_list *list, const int32_t *indices, int64_t count,
                                 dp_partial_shape *shape) {
  if (dp_partial_shape_is_known(&list->element_shape))
    return NULL;
  for (int64_t i = 0; i < count; ++i) {
    const dp_tensor *tensor = dp_list_at(list, indices ? indices[i] : i);
    if (!tensor)
      continue;
    dp_partial_shape other = dp_pieces_partial(&tensor->shape);
    DP_RETURN_IF_ERROR(dp_pieces_merge_shapes(shape, &other, shape));
  }
  return NULL;
}

static dp_status *stack_elements(dp_op_context *context, const dp_list *list,
                                 const int32_t *indices, int64_t count,
                                 const dp_partial_shape *partial) {
  dp_shape element, shape;
  DP_RETURN_IF_ERROR(dp_shape_make(partial->rank, partial->dims, &element));
  DP_RETURN_IF_ERROR(dp_pieces_shape(count, &element, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  dp_tensor *pieces = dp_pieces_create(count);
  dp_status *status = collect(list, indices, count, &element, pieces);
  for (int64_t i = 0; i < count && !status; ++i)
    if (!dp_shape_equal(&pieces[i].shape, &element))
      status = DP_INVALID("Element %lld of the list has shape %s, but its elements should have %s",
                          (long long)i, dp_shape_text(&pieces[i].shape), dp_shape_text(&element));
  if (!status)
    dp_pieces_join(context, pieces, count, output);
  dp_pieces_destroy(pieces, count);
  return status;
}

/* ---- Stack and gather ---- */
typedef struct list_stack_state {
  dp_dtype dtype;
  int64_t count; /* -1: any */
} list_stack_state;

static dp_status *stack_create(const dp_kernel_setup *setup, void *memory) {
  list_stack_state *state = memory;
  state->count = -1;
  if (dp_node_attr(setup->node, "num_elements"))
    DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_elements", &state->count));
  return dp_node_get_type(setup->node, "element_dtype", &state->dtype);
}

static dp_status *stack_compute(dp_op_context *context, void *memory) {
  const list_stack_state *state = memory;
  const dp_list *list;
  dp_partial_shape shape;
  DP_RETURN_IF_ERROR(dp_list_input_of(context, 0, state->dtype, &list));
  int64_t count = dp_list_size(list);
  if (state->count != -1 && count != state->count)
    return DP_INVALID("Operation expected a list with %lld elements but got a list with %lld "
                      "elements.",
                      (long long)state->count, (long long)count);
  DP_RETURN_IF_ERROR(dp_list_element_shape(context, list, 1, &shape));
  if (count == 0 && !dp_partial_shape_is_known(&shape))
    return DP_INVALID("Tried to stack elements of an empty list with non-fully-defined "
                      "element_shape: %s",
                      dp_partial_shape_text(&shape));
  DP_RETURN_IF_ERROR(merge_elements(list, NULL, count, &shape));
  if (!dp_partial_shape_is_known(&shape))
    return DP_INVALID("Tried to stack list which only contains uninitialized tensors and has a "
                      "non-fully-defined element_shape: %s",
                      dp_partial_shape_text(&shape));
  return stack_elements(context, list, NULL, count, &shape);
}

static dp_status *check_indices(const dp_tensor *indices, const dp_list *list) {
  for (int64_t i = 0; i < indices->shape.elements; ++i) {
    int32_t index = ((const int32_t *)indices->data)[i];
    if (index < 0 || index >= dp_list_size(list))
      return DP_INVALID("Trying to gather element %d in a list with %lld elements.", index,
                        (long long)dp_list_size(list));
  }
  return NULL;
}

static dp_status *gather_compute(dp_op_context *context, void *memory) {
  const list_stack_state *state = memory;
  const dp_list *list;
  const dp_tensor *indices = dp_op_input(context, 1);
  int64_t count = indices->shape.elements;
  dp_partial_shape shape;
  DP_RETURN_IF_ERROR(dp_list_input_of(context, 0, state->dtype, &list));
  DP_RETURN_IF_ERROR(dp_list_element_shape(context, list, 2, &shape));
  if (count == 0 && !dp_partial_shape_is_known(&shape))
    return DP_INVALID("Tried to gather 0-elements from a list with non-fully-defined shape: %s",
                      dp_partial_shape_text(&shape));
  DP_RETURN_IF_ERROR(check_indices(indices, list));
  DP_RETURN_IF_ERROR(merge_elements(list, indices->data, count, &shape));
  if (!dp_partial_shape_is_known(&shape))
    return DP_INVALID("Tried to gather uninitialized tensors from a list with non-fully-defined "
                      "element_shape: %s",
                      dp_partial_shape_text(&shape));
  return stack_elements(context, list, indices->data, count, &shape);
}

/* ---- Concat ---- */
typedef struct concat_state {
  dp_dtype dtype;
  dp_partial_shape rest; /* shape of an element without its first dimension */
} concat_state;

static dp_partial_shape without_first(const dp_partial_shape *shape) {
  dp_partial_shape rest = {.rank = shape->rank < 0 ? -1 : shape->rank - 1};
  for (int32_t i = 0; i < rest.rank; ++i)
    rest.dims[i] = shape->dims[i + 1];
  return rest;
}

static dp_status *concat_create(const dp_kernel_setup *setup, void *memory) {
  concat_state *state = memory;
  state->rest = dp_partial_shape_unknown();
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "element_dtype", &state->dtype));
  if (!dp_node_attr(setup->node, "element_shape"))
    return NULL;
  const dp_partial_shape *shape;
  DP_RETURN_IF_ERROR(dp_node_get_shape(setup->node, "element_shape", &shape));
  if (shape->rank == 0)
    return DP_INVALID("Concat requires elements to be at least vectors, found scalars instead.");
  state->rest = without_first(shape);
  return NULL;
}

/* What a concat learns from the elements. */
typedef struct concat_plan {
  dp_partial_shape rest;
  int64_t first; /* size of dimension 0 if all elements agree, else -1 */
} concat_plan;

static dp_status *look_at_elements(const dp_list *list, concat_plan *plan) {
  int64_t given = plan->first;
  bool differ = false;
  for (int64_t i = 0; i < dp_list_size(list); ++i) {
    const dp_tensor *tensor = dp_list_at(list, i);
    if (!tensor)
      continue;
    if (tensor->shape.rank == 0)
      return DP_INVALID("Concat saw a scalar shape at index %lld but requires at least vectors.",
                        (long long)i);
    dp_shape rest = dp_shape_remove(&tensor->shape, 0);
    dp_partial_shape partial = dp_pieces_partial(&rest);
    DP_RETURN_IF_ERROR(dp_pieces_merge_shapes(&plan->rest, &partial, &plan->rest));
    int64_t size = tensor->shape.dims[0];
    if (given != -1 && given != size)
      return DP_INVALID("First entry of element_shape input does not match the first dim of list "
                        "element at index: %lld Expected: %lld Actual: %lld",
                        (long long)i, (long long)given, (long long)size);
    if (plan->first == -1 && !differ)
      plan->first = size;
    else if (plan->first != size)
      differ = true;
    if (differ)
      plan->first = given;
  }
  return NULL;
}

static dp_status *plan_concat(dp_op_context *context, const dp_list *list,
                              const concat_state *state, concat_plan *plan) {
  *plan = (concat_plan){state->rest, -1};
  if (context->input_count > 1) {
    dp_partial_shape shape;
    DP_RETURN_IF_ERROR(dp_list_element_shape(context, list, 1, &shape));
    if (shape.rank == 0)
      return DP_INVALID("Concat requires elements to be at least vectors, found scalars instead.");
    plan->first = shape.rank < 0 ? -1 : shape.dims[0];
    plan->rest = without_first(&shape);
  }
  if (dp_list_size(list) == 0 && !dp_partial_shape_is_known(&plan->rest))
    return DP_INVALID("All except the first dimension must be fully defined when concating an "
                      "empty tensor list. element_shape: %s",
                      dp_partial_shape_text(&plan->rest));
  DP_RETURN_IF_ERROR(look_at_elements(list, plan));
  if (!dp_partial_shape_is_known(&plan->rest))
    return DP_INVALID("Trying to concat list with only uninitialized tensors but "
                      "element_shape_except_first_dim is not fully defined: %s",
                      dp_partial_shape_text(&plan->rest));
  return NULL;
}

/* The number of rows of an unset element. */
static dp_status *unset_length(dp_op_context *context, const concat_plan *plan, int64_t index,
                               int64_t *length_out) {
  const dp_tensor *given = context->input_count > 2 ? dp_op_input(context, 2) : NULL;
  if ((!given || index >= given->shape.elements) && plan->first != -1) {
    *length_out = plan->first;
    return NULL;
  }
  if (!given)
    return DP_INVALID("Concating lists with uninitialized tensors is not supported in this version "
                      "of TensorListConcat. Consider updating your GraphDef to run the newer "
                      "version.");
  if (index >= given->shape.elements)
    return DP_INVALID("List contains uninitialized tensor at index %lld but leading_dims has only "
                      "%lld elements.",
                      (long long)index, (long long)given->shape.elements);
  *length_out = ((const int64_t *)given->data)[index];
  return *length_out < 0 ? DP_INVALID("leading_dims must not be negative") : NULL;
}

/* Collects the tensors to join, and their lengths. */
static dp_status *collect_concat(dp_op_context *context, const dp_list *list,
                                 const concat_plan *plan, const dp_shape *rest, int64_t *lengths,
                                 dp_tensor *pieces, int64_t *total_out) {
  int64_t total = 0;
  for (int64_t i = 0; i < dp_list_size(list); ++i) {
    const dp_tensor *tensor = dp_list_at(list, i);
    if (tensor) {
      lengths[i] = tensor->shape.dims[0];
      pieces[i] = dp_tensor_copy(tensor);
    } else {
      dp_shape shape;
      DP_RETURN_IF_ERROR(unset_length(context, plan, i, &lengths[i]));
      DP_RETURN_IF_ERROR(dp_pieces_shape(lengths[i], rest, &shape));
      DP_RETURN_IF_ERROR(dp_tensor_create_zero(list->dtype, &shape, &pieces[i]));
    }
    if (__builtin_add_overflow(total, lengths[i], &total))
      return DP_INVALID("the elements of the list have too many rows");
  }
  *total_out = total;
  return NULL;
}

static dp_status *concat_compute(dp_op_context *context, void *memory) {
  const concat_state *state = memory;
  const dp_list *list;
  concat_plan plan;
  DP_RETURN_IF_ERROR(dp_list_input_of(context, 0, state->dtype, &list));
  DP_RETURN_IF_ERROR(plan_concat(context, list, state, &plan));
  int64_t count = dp_list_size(list), total = 0;
  dp_shape rest, shape = dp_shape_vector(count);
  DP_RETURN_IF_ERROR(dp_shape_make(plan.rest.rank, plan.rest.dims, &rest));
  dp_tensor *lengths;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &lengths));
  dp_tensor *pieces = dp_pieces_create(count);
  dp_status *status = collect_concat(context, list, &plan, &rest, lengths->data, pieces, &total);
  if (!status)
    status = dp_pieces_shape(total, &rest, &shape);
  if (!status)
    status = dp_pieces_output(context, 0, &shape, pieces, count);
  dp_pieces_destroy(pieces, count);
  return status;
}

/* ---- Lists of rows ---- */
static dp_status *check_rows(const dp_tensor *tensor, const dp_partial_shape *element_shape) {
  if (tensor->shape.rank == 0)
    return DP_INVALID("Tensor must be at least a vector, but saw shape: %s",
                      dp_shape_text(&tensor->shape));
  dp_shape row = dp_shape_remove(&tensor->shape, 0);
  if (!dp_partial_shape_accepts(element_shape, &row))
    return DP_INVALID("Specified a list with shape %s from a tensor with shape %s",
                      dp_partial_shape_text(element_shape), dp_shape_text(&row));
  return NULL;
}

/* Row i of the tensor goes to element indices[i] (or i), which must exist. */
static dp_status *scatter_rows(const dp_tensor *tensor, const int32_t *indices, dp_list *list) {
  dp_shape row = dp_shape_remove(&tensor->shape, 0);
  for (int64_t i = 0; i < tensor->shape.dims[0]; ++i) {
    dp_tensor piece;
    DP_RETURN_IF_ERROR(dp_pieces_cut(tensor, i, i + 1, &row, &piece));
    dp_list_set(list, indices ? indices[i] : i, &piece);
  }
  return NULL;
}

static dp_status *output_or_destroy(dp_op_context *context, dp_list *list, dp_status *status) {
  if (!status)
    return dp_list_output(context, list);
  dp_list_destroy(list);
  return status;
}

static dp_status *from_tensor_compute(dp_op_context *context, void *memory) {
  const dp_tensor *tensor = dp_op_input(context, 0);
  dp_partial_shape shape;
  DP_RETURN_IF_ERROR(dp_list_read_shape(dp_op_input(context, 1), &shape));
  DP_RETURN_IF_ERROR(check_rows(tensor, &shape));
  dp_list *list = dp_list_create(tensor->dtype, &shape);
  dp_status *status = dp_list_resize(list, tensor->shape.dims[0]);
  if (!status)
    status = scatter_rows(tensor, NULL, list);
  return output_or_destroy(context, list, status);
}

/* The size of a list that has room for all indices, at least `least`. */
static dp_status *size_for(const dp_tensor *indices, int64_t limit, int64_t least,
                           int64_t *size_out) {
  int64_t size = least;
  for (int64_t i = 0; i < indices->shape.elements; ++i) {
    int32_t index = ((const int32_t *)indices->data)[i];
    if (index < 0)
      return DP_INVALID("Indices in TensorListScatter must all be non-negative.");
    if (limit != -1 && index >= limit)
      return DP_INVALID("TensorListScatter: Trying to scatter at index %d in list with size %lld",
                        index, (long long)limit);
    size = index + 1 > size ? index + 1 : size;
  }
  *size_out = size;
  return NULL;
}

static dp_status *scatter_compute(dp_op_context *context, void *memory) {
  const dp_tensor *tensor = dp_op_input(context, 0), *indices = dp_op_input(context, 1);
  dp_partial_shape shape;
  int64_t limit = -1, size;
  DP_RETURN_IF_ERROR(dp_list_read_shape(dp_op_input(context, 2), &shape));
  if (context->input_count > 3)
    DP_RETURN_IF_ERROR(dp_tensor_to_int64(dp_op_input(context, 3), &limit));
  if (limit < -1)
    return DP_INVALID("TensorListScatter expects num_elements >= -1, found: %lld",
                      (long long)limit);
  DP_RETURN_IF_ERROR(check_rows(tensor, &shape));
  if (indices->shape.elements != tensor->shape.dims[0])
    return DP_INVALID("Invalid number of rows in input tensor. Expected: %lld Actual: %lld",
                      (long long)indices->shape.elements, (long long)tensor->shape.dims[0]);
  DP_RETURN_IF_ERROR(size_for(indices, limit, limit < 0 ? 0 : limit, &size));
  dp_list *list = dp_list_create(tensor->dtype, &shape);
  dp_status *status = dp_list_resize(list, size);
  if (!status)
    status = scatter_rows(tensor, indices->data, list);
  return output_or_destroy(context, list, status);
}

static dp_status *scatter_existing_compute(dp_op_context *context, void *memory) {
  const dp_tensor *tensor = dp_op_input(context, 1), *indices = dp_op_input(context, 2);
  const dp_list *list;
  DP_RETURN_IF_ERROR(dp_list_input(context, 0, &list));
  if (tensor->dtype != list->dtype)
    return DP_INVALID("Invalid data types; input tensor type: %s list element_type: %s",
                      dp_dtype_name(tensor->dtype), dp_dtype_name(list->dtype));
  if (tensor->shape.rank == 0)
    return DP_INVALID("Tensor must be at least a vector, but saw shape: %s",
                      dp_shape_text(&tensor->shape));
  if (indices->shape.rank != 1)
    return DP_INVALID("Expected indices to be a vector, but received shape: %s",
                      dp_shape_text(&indices->shape));
  if (indices->shape.elements != tensor->shape.dims[0])
    return DP_INVALID("Expected len(indices) == tensor.shape[0], but saw: %lld vs. %lld",
                      (long long)indices->shape.elements, (long long)tensor->shape.dims[0]);
  int64_t size;
  DP_RETURN_IF_ERROR(size_for(indices, -1, dp_list_size(list), &size));
  dp_list *output;
  DP_RETURN_IF_ERROR(dp_list_forward(context, &output));
  DP_RETURN_IF_ERROR(dp_list_resize(output, size));
  return scatter_rows(tensor, indices->data, output);
}

/* ---- Split ---- */
static dp_status *check_split(const dp_tensor *tensor, const dp_partial_shape *shape,
                              const dp_tensor *lengths) {
  if (shape->rank == 0)
    return DP_INVALID("TensorListSplit requires element_shape to be at least of rank 1, but saw: "
                      "%s",
                      dp_partial_shape_text(shape));
  if (tensor->shape.rank == 0)
    return DP_INVALID("Tensor must be at least a vector, but saw shape: %s",
                      dp_shape_text(&tensor->shape));
  dp_partial_shape rest = without_first(shape);
  dp_shape row = dp_shape_remove(&tensor->shape, 0);
  if (!dp_partial_shape_accepts(&rest, &row))
    return DP_INVALID("tensor shape %s is not compatible with element_shape %s",
                      dp_shape_text(&tensor->shape), dp_partial_shape_text(shape));
  if (lengths->shape.rank != 1)
    return DP_INVALID("Expected lengths to be a vector, received shape: %s",
                      dp_shape_text(&lengths->shape));
  return NULL;
}

static dp_status *split_rows(const dp_tensor *tensor, const dp_tensor *lengths, dp_list *list) {
  int64_t rows = tensor->shape.dims[0], at = 0;
  for (int64_t i = 0; i < lengths->shape.elements; ++i) {
    int64_t length = ((const int64_t *)lengths->data)[i];
    if (length < 0)
      return DP_INVALID("Invalid value in lengths: %lld", (long long)length);
    if (length > rows - at)
      return DP_INVALID("Attempting to slice [%lld, %lld] from tensor with length %lld",
                        (long long)at, (long long)(at + length), (long long)rows);
    dp_shape shape = dp_shape_with(&tensor->shape, 0, length);
    dp_tensor piece;
    DP_RETURN_IF_ERROR(dp_pieces_cut(tensor, at, at + length, &shape, &piece));
    dp_list_push(list, &piece);
    at += length;
  }
  if (at != rows)
    return DP_INVALID("Unused values in tensor. Length of tensor: %lld Values used: %lld",
                      (long long)rows, (long long)at);
  return NULL;
}

static dp_status *split_compute(dp_op_context *context, void *memory) {
  const dp_tensor *tensor = dp_op_input(context, 0), *lengths = dp_op_input(context, 2);
  dp_partial_shape shape;
  DP_RETURN_IF_ERROR(dp_list_read_shape(dp_op_input(context, 1), &shape));
  DP_RETURN_IF_ERROR(check_split(tensor, &shape, lengths));
  dp_list *list = dp_list_create(tensor->dtype, &shape);
  return output_or_destroy(context, list, split_rows(tensor, lengths, list));
}

/* clang-format off */
#define JOIN(name, body)                                                                           \
  {.op = name, .state_size = sizeof(list_stack_state), .create = stack_create, .compute = body}
#define CONCAT(name)                                                                               \
  {.op = name, .state_size = sizeof(concat_state), .create = concat_create,                        \
   .compute = concat_compute}

static const dp_kernel rows[] = {
    JOIN("TensorListStack", stack_compute),
    JOIN("TensorListGather", gather_compute),
    CONCAT("TensorListConcat"), CONCAT("TensorListConcatV2"),
    {.op = "TensorListFromTensor", .compute = from_tensor_compute},
    {.op = "TensorListScatter", .compute = scatter_compute},
    {.op = "TensorListScatterV2", .compute = scatter_compute},
    {.op = "TensorListScatterIntoExistingList", .compute = scatter_existing_compute},
    {.op = "TensorListSplit", .compute = split_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(tensor_list_join, rows);
