/* The ops of tensor arrays, in three versions that differ only in the form of the handle
 * (shared/handle.h). The step's container and the handle hold the array. Flow values are floats
 * that order the ops of an array; they are passed on and never read. */
#include "kernels/shared/family.h"

#include <stdatomic.h>
#include <stdio.h>
#include "base/memory.h"
#include "kernels/lists/tensor_array_internal.h"
#include "kernels/shared/handle.h"
#include "kernels/shared/pieces.h"

#define ARRAY_PREFIX "_tensor_arrays"
#define GRADIENT_PREFIX "_tensor_array_grads"

/* ---- Making ---- */
typedef struct array_state {
  char *name;
  dp_dtype dtype;
  dp_partial_shape element_shape;
  bool is_dynamic, clears_after_read, has_identical_shapes;
} array_state;

static dp_status *array_create(const dp_kernel_setup *setup, void *memory) {
  array_state *state = memory;
  const dp_node *node = setup->node;
  const dp_partial_shape *shape;
  dp_view name;
  DP_RETURN_IF_ERROR(dp_node_get_type(node, "dtype", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_shape(node, "element_shape", &shape));
  state->element_shape = *shape;
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "dynamic_size", &state->is_dynamic));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "clear_after_read", &state->clears_after_read));
  if (dp_node_attr(node, "identical_element_shapes"))
    DP_RETURN_IF_ERROR(
        dp_node_get_bool(node, "identical_element_shapes", &state->has_identical_shapes));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "tensor_array_name", &name));
  state->name = name.length ? dp_strndup(name.data, name.length) : dp_strdup(node->name);
  return NULL;
}

static void array_destroy(void *memory) {
  dp_free(((array_state *)memory)->name);
}

/* Outputs the handle, and the first flow value if the op has one. Consumes the reference. */
static dp_status *output_array(dp_op_context *context, dp_tensor_array_object *array,
                               const char *prefix) {
  bool is_resource = dp_op_output_type(context, 0) == DP_RESOURCE;
  dp_status *status = dp_handle_output(context, 0, &array->resource,
                                       is_resource ? context->step->container : prefix,
                                       is_resource ? array->key : array->name, true);
  dp_resource_release(array);
  if (!status && context->output_count == 2)
    status = dp_tensor_scalar_float(0, &context->outputs[1].tensor);
  return status;
}

static dp_status *array_compute(dp_op_context *context, void *memory) {
  static atomic_uint_fast64_t counter;
  const array_state *state = memory;
  const dp_tensor *size = dp_op_input(context, 0);
  if (size->shape.rank != 0)
    return DP_INVALID("TensorArray size must be scalar, but had shape: %s",
                      dp_shape_text(&size->shape));
  dp_text name = {0};
  dp_text_printf(&name, "%s_%llu", state->name, (unsigned long long)atomic_fetch_add(&counter, 1));
  dp_tensor_array_options options = {.prefix = ARRAY_PREFIX,
                                     .name = dp_text_string(&name),
                                     .dtype = state->dtype,
                                     .size = dp_tensor_int_at(size, 0),
                                     .element_shape = &state->element_shape,
                                     .has_identical_shapes = state->has_identical_shapes,
                                     .is_dynamic = state->is_dynamic,
                                     .clears_after_read = state->clears_after_read};
  dp_tensor_array_object *array;
  dp_status *status = options.size < 0 ? DP_INVALID("Size should be >= 0.")
                                       : dp_tensor_array_create(&options, &array);
  dp_text_deinit(&name);
  DP_RETURN_IF_ERROR(status);
  status = dp_resources_add(context->device->resources, context->step->container, array->key,
                            dp_resource_retain(array));
  if (status) {
    dp_resource_release(array);
    return status;
  }
  return output_array(context, array, ARRAY_PREFIX);
}

/* ---- Gradient arrays ---- */
static dp_status *gradient_create(const dp_kernel_setup *setup, void *memory) {
  dp_view source;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "source", &source));
  *(char **)memory = dp_strndup(source.data, source.length);
  return NULL;
}

static void gradient_destroy(void *memory) {
  dp_free(*(char **)memory);
}

typedef struct gradient_request {
  dp_tensor_array_object *forward;
  const char *name;
  const dp_shape *prepend;
} gradient_request;

static dp_status *make_gradient(void *arg, dp_resource **resource_out) {
  const gradient_request *request = arg;
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(dp_tensor_array_create_gradient(request->forward, GRADIENT_PREFIX,
                                                     request->name, request->prepend, &array));
  *resource_out = &array->resource;
  return NULL;
}

static dp_status *get_array(dp_op_context *context, dp_tensor_array_object **array_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_handle_step_input(
      context, 0, &dp_tensor_array_ops, "Tensor array handle must be 2-element vector", &resource));
  *array_out = (dp_tensor_array_object *)resource;
  return NULL;
}

static dp_status *find_gradient(dp_op_context *context, dp_tensor_array_object *forward,
                                const char *source, dp_tensor_array_object **array_out) {
  dp_shape prepend;
  bool has_prefix = context->input_count > 2;
  if (strncmp(forward->key, ARRAY_PREFIX, strlen(ARRAY_PREFIX)) != 0 ||
      strncmp(forward->key, GRADIENT_PREFIX, strlen(GRADIENT_PREFIX)) == 0)
    return DP_INVALID("Wrong input container. %s", forward->key);
  if (has_prefix)
    DP_RETURN_IF_ERROR(dp_kernel_read_shape(dp_op_input(context, 2), "shape_to_prepend", &prepend));
  dp_text name = {0}, key = {0};
  dp_text_printf(&name, "%s@%s", forward->name, source);
  dp_text_printf(&key, GRADIENT_PREFIX "%s", dp_text_string(&name));
  gradient_request request = {forward, dp_text_string(&name), has_prefix ? &prepend : NULL};
  dp_resource *resource;
  dp_status *status = dp_resources_find_or_create(
      context->device->resources, context->step->container, dp_text_string(&key),
      &dp_tensor_array_ops, make_gradient, &request, &resource);
  dp_text_deinit(&name);
  dp_text_deinit(&key);
  if (!status)
    *array_out = (dp_tensor_array_object *)resource;
  return status;
}

static dp_status *gradient_compute(dp_op_context *context, void *memory) {
  dp_tensor_array_object *forward, *array;
  DP_RETURN_IF_ERROR(get_array(context, &forward));
  dp_status *status = find_gradient(context, forward, *(char **)memory, &array);
  dp_resource_release(forward);
  return status ? status : output_array(context, array, GRADIENT_PREFIX);
}

/* ---- Finding the array, and what it must hold ---- */
static dp_status *get_array_to_write(dp_op_context *context, dp_dtype dtype,
                                     dp_tensor_array_object **array_out) {
  DP_RETURN_IF_ERROR(get_array(context, array_out));
  dp_dtype held = (*array_out)->dtype;
  if (held == dtype)
    return NULL;
  dp_resource_release(*array_out);
  return DP_INVALID("TensorArray dtype is %s but Op is trying to write dtype %s.",
                    dp_dtype_name(held), dp_dtype_name(dtype));
}

static dp_status *get_array_to_read(dp_op_context *context, dp_tensor_array_object **array_out) {
  DP_RETURN_IF_ERROR(get_array(context, array_out));
  dp_dtype held = (*array_out)->dtype, wanted = dp_op_output_type(context, 0);
  if (held == wanted)
    return NULL;
  dp_resource_release(*array_out);
  return DP_INVALID("TensorArray dtype is %s but Op requested dtype %s.", dp_dtype_name(held),
                    dp_dtype_name(wanted));
}

static void pass_flow(dp_op_context *context) {
  int32_t last = context->input_count - 1;
  context->outputs[0].tensor = dp_tensor_take(&context->inputs[last].tensor);
}

static dp_status *read_index(const dp_op_context *context, int32_t *index_out) {
  const dp_tensor *index = dp_op_input(context, 1);
  if (index->shape.rank != 0)
    return DP_INVALID("TensorArray index must be scalar, but had shape: %s",
                      dp_shape_text(&index->shape));
  *index_out = *(const int32_t *)index->data;
  return NULL;
}

/* ---- One element ---- */
static dp_status *write_compute(dp_op_context *context, void *memory) {
  const dp_tensor *value = dp_op_input(context, 2);
  int32_t index;
  DP_RETURN_IF_ERROR(read_index(context, &index));
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(get_array_to_write(context, value->dtype, &array));
  dp_status *status = dp_tensor_array_write(array, &index, value, 1);
  dp_resource_release(array);
  if (!status)
    pass_flow(context);
  return status;
}

static dp_status *read_compute(dp_op_context *context, void *memory) {
  int32_t index;
  DP_RETURN_IF_ERROR(read_index(context, &index));
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(get_array_to_read(context, &array));
  dp_status *status = dp_tensor_array_read(array, &index, &context->outputs[0].tensor, 1);
  dp_resource_release(array);
  return status;
}

/* ---- Gather, Pack, Concat ---- */
static dp_status *shape_create(const dp_kernel_setup *setup, void *memory) {
  const dp_partial_shape *shape;
  const char *name =
      dp_node_attr(setup->node, "element_shape") ? "element_shape" : "element_shape_except0";
  DP_RETURN_IF_ERROR(dp_node_get_shape(setup->node, name, &shape));
  *(dp_partial_shape *)memory = *shape;
  return NULL;
}

static dp_status *output_empty(dp_op_context *context, const dp_partial_shape *shape,
                               const char *what, const char *verb) {
  if (!dp_partial_shape_is_known(shape))
    return dp_status_create(DP_UNIMPLEMENTED,
                            "TensorArray has size zero, but %s %s is not fully defined. Currently "
                            "only static shapes are supported when %s zero-size TensorArrays.",
                            what, dp_partial_shape_text(shape), verb);
  int64_t dims[DP_MAX_RANK + 1] = {0};
  memcpy(dims + 1, shape->dims, sizeof(int64_t) * (size_t)shape->rank);
  dp_shape empty;
  DP_RETURN_IF_ERROR(dp_shape_make(shape->rank + 1, dims, &empty));
  dp_tensor *output;
  return dp_op_allocate(context, 0, &empty, &output);
}

static dp_status *check_same_shapes(const dp_tensor *values, int64_t count,
                                    const dp_partial_shape *wanted) {
  if (!dp_partial_shape_accepts(wanted, &values[0].shape))
    return DP_INVALID("TensorArray was passed element_shape %s which does not match the Tensor at "
                      "index 0: %s",
                      dp_partial_shape_text(wanted), dp_shape_text(&values[0].shape));
  for (int64_t i = 1; i < count; ++i)
    if (!dp_shape_equal(&values[0].shape, &values[i].shape))
      return DP_INVALID("TensorArray has inconsistent shapes.  Index 0 has shape: %s but index "
                        "%lld has shape: %s",
                        dp_shape_text(&values[0].shape), (long long)i,
                        dp_shape_text(&values[i].shape));
  return NULL;
}

static dp_status *stack_values(dp_op_context *context, const dp_tensor *values, int64_t count,
                               const dp_partial_shape *wanted) {
  DP_RETURN_IF_ERROR(check_same_shapes(values, count, wanted));
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_pieces_shape(count, &values[0].shape, &shape));
  return dp_pieces_output(context, 0, &shape, values, count);
}

static dp_status *gather_from(dp_op_context *context, dp_tensor_array_object *array,
                              const dp_partial_shape *wanted) {
  DP_RETURN_IF_ERROR(dp_tensor_array_merge_shape(array, wanted));
  const int32_t *indices = NULL;
  int64_t count;
  if (context->input_count == 3) {
    const dp_tensor *input = dp_op_input(context, 1);
    if (input->shape.rank != 1)
      return DP_INVALID("Expected indices to be a vector, but received shape: %s",
                        dp_shape_text(&input->shape));
    indices = input->data;
    count = input->shape.elements;
  } else {
    DP_RETURN_IF_ERROR(dp_tensor_array_pack_size(array, &count));
  }
  if (count <= 0)
    return output_empty(context, wanted, "element shape", "packing");
  dp_tensor *values = dp_pieces_create(count);
  dp_status *status = dp_tensor_array_read(array, indices, values, count);
  if (!status)
    status = stack_values(context, values, count, wanted);
  dp_pieces_destroy(values, count);
  return status;
}

static dp_status *gather_compute(dp_op_context *context, void *memory) {
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(get_array_to_read(context, &array));
  dp_status *status = gather_from(context, array, memory);
  dp_resource_release(array);
  return status;
}

/* The length of each piece, and the shape of the whole. */
static dp_status *measure_concat(const dp_tensor *values, int64_t count,
                                 const dp_partial_shape *wanted, int64_t *lengths,
                                 dp_shape *shape_out) {
  dp_shape first = {0};
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) {
    const dp_shape *shape = &values[i].shape;
    if (shape->rank == 0)
      return DP_INVALID("Concat saw a scalar shape at index %lld but requires at least vectors.  "
                        "Did you mean to call pack?",
                        (long long)i);
    dp_shape rest = dp_shape_remove(shape, 0);
    if (i == 0)
      first = rest;
    if (i == 0 && !dp_partial_shape_accepts(wanted, &rest))
      return DP_INVALID("TensorArray was passed element_shape_except0 %s but index 0 has "
                        "(excepting dimension 0) shape: %s which does not match.",
                        dp_partial_shape_text(wanted), dp_shape_text(&rest));
    if (!dp_shape_equal(&first, &rest))
      return DP_INVALID("TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) "
                        "shape: %s but index %lld has (excepting dimension 0) shape: %s",
                        dp_shape_text(&first), (long long)i, dp_shape_text(&rest));
    lengths[i] = shape->dims[0];
    total += shape->dims[0];
  }
  return dp_pieces_shape(total, &first, shape_out);
}

static dp_status *concat_values(dp_op_context *context, const dp_tensor *values, int64_t count,
                                const dp_partial_shape *wanted) {
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *lengths;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &lengths));
  DP_RETURN_IF_ERROR(measure_concat(values, count, wanted, lengths->data, &shape));
  return dp_pieces_output(context, 0, &shape, values, count);
}

static dp_status *concat_from(dp_op_context *context, dp_tensor_array_object *array,
                              const dp_partial_shape *wanted) {
  int64_t count;
  DP_RETURN_IF_ERROR(dp_tensor_array_pack_size(array, &count));
  if (count <= 0) {
    dp_shape none = dp_shape_vector(0);
    dp_tensor *lengths;
    DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &none, &lengths));
    return output_empty(context, wanted, "element_shape_except0", "concatenating");
  }
  dp_tensor *values = dp_pieces_create(count);
  dp_status *status = dp_tensor_array_read(array, NULL, values, count);
  if (!status)
    status = concat_values(context, values, count, wanted);
  dp_pieces_destroy(values, count);
  return status;
}

static dp_status *concat_compute(dp_op_context *context, void *memory) {
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(get_array_to_read(context, &array));
  dp_status *status = concat_from(context, array, memory);
  dp_resource_release(array);
  return status;
}

/* ---- Scatter, Unpack, Split ---- */
static dp_status *check_scatter(dp_op_context *context, dp_tensor_array_object *array,
                                const dp_tensor *value, const dp_tensor *indices) {
  int64_t size, count = value->shape.dims[0], highest = count - 1;
  DP_RETURN_IF_ERROR(dp_tensor_array_size(array, &size));
  if (indices) {
    if (indices->shape.rank != 1)
      return DP_INVALID("Expected indices to be a vector, but received shape: %s",
                        dp_shape_text(&indices->shape));
    if (indices->shape.elements != count)
      return DP_INVALID("Expected len(indices) == values.shape[0], but saw: %lld vs. %lld",
                        (long long)indices->shape.elements, (long long)count);
    highest = -1;
    for (int64_t i = 0; i < count; ++i) {
      int32_t index = ((const int32_t *)indices->data)[i];
      highest = index > highest ? index : highest;
    }
  }
  pthread_mutex_lock(&array->lock);
  bool is_dynamic = array->is_dynamic;
  pthread_mutex_unlock(&array->lock);
  if (is_dynamic && size < highest + 1)
    size = highest + 1;
  if (indices && highest >= size)
    return DP_INVALID("Max scatter index must be < array size (%lld vs. %lld)", (long long)highest,
                      (long long)size);
  if (!indices && count != size)
    return DP_INVALID("Input value must have first dimension equal to the array size (%lld vs. "
                      "%lld)",
                      (long long)count, (long long)size);
  return indices ? NULL : dp_tensor_array_mark_size(array, size);
}

static dp_status *scatter_to(dp_op_context *context, dp_tensor_array_object *array,
                             const dp_tensor *value, const dp_tensor *indices) {
  if (value->shape.rank == 0)
    return DP_INVALID("Input value for unpack must be at least a vector but received shape: %s",
                      dp_shape_text(&value->shape));
  DP_RETURN_IF_ERROR(check_scatter(context, array, value, indices));
  int64_t count = value->shape.dims[0];
  dp_shape shape = dp_shape_remove(&value->shape, 0);
  dp_tensor *rows = dp_pieces_create(count);
  dp_status *status = NULL;
  for (int64_t i = 0; i < count && !status; ++i)
    status = dp_pieces_cut(value, i, i + 1, &shape, &rows[i]);
  if (!status)
    status = dp_tensor_array_write(array, indices ? indices->data : NULL, rows, count);
  dp_pieces_destroy(rows, count);
  return status;
}

static dp_status *scatter_compute(dp_op_context *context, void *memory) {
  bool has_indices = context->input_count == 4;
  const dp_tensor *value = dp_op_input(context, has_indices ? 2 : 1);
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(get_array_to_write(context, value->dtype, &array));
  dp_status *status =
      scatter_to(context, array, value, has_indices ? dp_op_input(context, 1) : NULL);
  dp_resource_release(array);
  if (!status)
    pass_flow(context);
  return status;
}

static dp_status *check_split(dp_tensor_array_object *array, const dp_tensor *value,
                              const dp_tensor *lengths) {
  if (lengths->shape.rank != 1)
    return DP_INVALID("Expected lengths to be a vector, received shape: %s",
                      dp_shape_text(&lengths->shape));
  int64_t total = 0, size, count = lengths->shape.elements;
  for (int64_t i = 0; i < count; ++i) {
    int64_t length = ((const int64_t *)lengths->data)[i];
    if (length < 0)
      return DP_INVALID("Expected lengths to be non-negative, received: %lld", (long long)length);
    if (__builtin_add_overflow(total, length, &total))
      return DP_INVALID("The sum of lengths is too large");
  }
  if (value->shape.rank == 0)
    return DP_INVALID("Expected value to be at least a vector, but received shape: %s",
                      dp_shape_text(&value->shape));
  if (total != value->shape.dims[0])
    return DP_INVALID("Expected sum of lengths to be equal to values.shape[0], but sum of lengths "
                      "is %lld and value's shape is: %s",
                      (long long)total, dp_shape_text(&value->shape));
  DP_RETURN_IF_ERROR(dp_tensor_array_size(array, &size));
  pthread_mutex_lock(&array->lock);
  if (array->is_dynamic && size < count)
    size = count;
  pthread_mutex_unlock(&array->lock);
  if (size != count)
    return DP_INVALID("TensorArray's size is not equal to the size of lengths (%lld vs. %lld), and "
                      "the TensorArray is not marked as dynamically resizeable",
                      (long long)size, (long long)count);
  return dp_tensor_array_mark_size(array, size);
}

static dp_status *split_to(dp_tensor_array_object *array, const dp_tensor *value,
                           const dp_tensor *lengths) {
  DP_RETURN_IF_ERROR(check_split(array, value, lengths));
  int64_t count = lengths->shape.elements, at = 0;
  dp_tensor *pieces = dp_pieces_create(count);
  dp_status *status = NULL;
  for (int64_t i = 0; i < count && !status; ++i) {
    int64_t length = ((const int64_t *)lengths->data)[i];
    dp_shape shape = dp_shape_with(&value->shape, 0, length);
    status = dp_pieces_cut(value, at, at + length, &shape, &pieces[i]);
    at += length;
  }
  if (!status)
    status = dp_tensor_array_write(array, NULL, pieces, count);
  dp_pieces_destroy(pieces, count);
  return status;
}

static dp_status *split_compute(dp_op_context *context, void *memory) {
  const dp_tensor *value = dp_op_input(context, 1);
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(get_array_to_write(context, value->dtype, &array));
  dp_status *status = split_to(array, value, dp_op_input(context, 2));
  dp_resource_release(array);
  if (!status)
    pass_flow(context);
  return status;
}

/* ---- Size and end ---- */
static dp_status *size_compute(dp_op_context *context, void *memory) {
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(get_array(context, &array));
  int64_t size;
  dp_status *status = dp_tensor_array_size(array, &size);
  dp_resource_release(array);
  return status ? status : dp_op_output_int32(context, 0, (int32_t)size);
}

static dp_status *close_compute(dp_op_context *context, void *memory) {
  dp_tensor_array_object *array;
  DP_RETURN_IF_ERROR(get_array(context, &array));
  dp_tensor_array_close(array);
  dp_resource_release(array);
  return NULL;
}

/* clang-format off */
#define MAKE(name)                                                                                 \
  {.op = name, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(array_state),                        \
   .create = array_create, .compute = array_compute, .destroy = array_destroy}
#define GRADIENT(name)                                                                             \
  {.op = name, .state_size = sizeof(char *), .create = gradient_create,                            \
   .compute = gradient_compute, .destroy = gradient_destroy}
#define JOIN(name, body)                                                                           \
  {.op = name, .state_size = sizeof(dp_partial_shape), .create = shape_create, .compute = body}
#define EACH(name, body) {.op = name, .compute = body}
#define CHEAP(name, body) {.op = name, .flags = DP_KERNEL_CHEAP, .compute = body}

static const dp_kernel rows[] = {
    MAKE("TensorArray"), MAKE("TensorArrayV2"), MAKE("TensorArrayV3"),
    GRADIENT("TensorArrayGrad"), GRADIENT("TensorArrayGradV2"), GRADIENT("TensorArrayGradV3"),
    GRADIENT("TensorArrayGradWithShape"),
    EACH("TensorArrayWrite", write_compute), EACH("TensorArrayWriteV2", write_compute),
    EACH("TensorArrayWriteV3", write_compute),
    CHEAP("TensorArrayRead", read_compute), CHEAP("TensorArrayReadV2", read_compute),
    CHEAP("TensorArrayReadV3", read_compute),
    JOIN("TensorArrayPack", gather_compute), JOIN("TensorArrayGather", gather_compute),
    JOIN("TensorArrayGatherV2", gather_compute), JOIN("TensorArrayGatherV3", gather_compute),
    JOIN("TensorArrayConcat", concat_compute), JOIN("TensorArrayConcatV2", concat_compute),
    JOIN("TensorArrayConcatV3", concat_compute),
    EACH("TensorArrayUnpack", scatter_compute), EACH("TensorArrayScatter", scatter_compute),
    EACH("TensorArrayScatterV2", scatter_compute), EACH("TensorArrayScatterV3", scatter_compute),
    EACH("TensorArraySplit", split_compute), EACH("TensorArraySplitV2", split_compute),
    EACH("TensorArraySplitV3", split_compute),
    CHEAP("TensorArraySize", size_compute), CHEAP("TensorArraySizeV2", size_compute),
    CHEAP("TensorArraySizeV3", size_compute),
    CHEAP("TensorArrayClose", close_compute), CHEAP("TensorArrayCloseV2", close_compute),
    CHEAP("TensorArrayCloseV3", close_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(tensor_array, rows);
