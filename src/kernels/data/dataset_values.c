/* Datasets as values: ListDataset (elements are tensors of the graph), WrapDatasetVariant (a
 * dataset in a second variant), ChooseFastestDataset (one of several equal datasets),
 * GetElementAtIndex; and handles of thread pools, which hold nothing, because we choose the
 * threads. */
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/handle.h"

/* ---- ListDataset ---- */
static dp_status *list_compute(dp_op_context *context, void *state) {
  const dp_attr *types, *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(context->node, "output_types", DP_ATTR_LIST_TYPE, &types));
  DP_RETURN_IF_ERROR(dp_node_get_list(context->node, "output_shapes", DP_ATTR_LIST_SHAPE, &shapes));
  int32_t components = shapes->count;
  if (types->count != components || context->input_count % components != 0)
    return DP_INVALID("%d tensors are no list of elements with %d components of %d types",
                      context->input_count, components, types->count);
  dp_dtype *dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)components);
  for (int32_t i = 0; i < components; ++i)
    dtypes[i] = (dp_dtype)types->types[i];
  dp_tensor *tensors = dp_element_create(context->input_count);
  for (int32_t i = 0; i < context->input_count; ++i)
    tensors[i] = dp_tensor_copy(dp_op_input(context, i));
  dp_dataset *dataset = dp_dataset_of_elements(components, dtypes, shapes->shapes, tensors,
                                               context->input_count / components);
  dp_free(dtypes);
  return dp_dataset_output(context, 0, dataset);
}

/* ---- Variants in variants ---- */
static void wrapped_destroy(void *object) {
  dp_dataset_release(object);
}

static const dp_variant_ops wrapped_variant = {
    .type_name = "tensorflow::WrappedDatasetVariantWrapper",
    .destroy = wrapped_destroy,
};

static dp_status *wrap_compute(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  dp_tensor *output;
  dp_shape scalar = dp_shape_scalar();
  if (dp_op_input(context, 0)->shape.rank != 0)
    return DP_INVALID("Dataset tensor must be a scalar of dtype DT_VARIANT.");
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &scalar, &output));
  dp_tensor_variants(output)[0] = dp_variant_create(&wrapped_variant, dp_dataset_retain(dataset));
  return NULL;
}

static dp_status *unwrap_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  dp_variant *variant = input->shape.rank == 0 ? dp_tensor_variants(input)[0] : NULL;
  if (!variant || variant->ops != &wrapped_variant)
    return DP_INVALID("Tensor must be a WrappedDataset variant object.");
  return dp_dataset_output(context, 0, dp_dataset_retain(variant->object));
}

/* ---- ChooseFastestDataset: all inputs give the same elements, so the first is taken ---- */
typedef struct same_dataset {
  dp_dataset base;
  int64_t cardinality;
} same_dataset;

static dp_status *same_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  if (!base->input)
    base->input = dp_iterator_over(base, base->dataset->input, 0);
  return dp_iterator_next_input(base, walk, element, more_out);
}

static const dp_iterator_ops same_iterator_ops = {sizeof(dp_iterator), same_next, NULL};

static int64_t same_cardinality(dp_dataset *dataset) {
  return ((same_dataset *)dataset)->cardinality;
}

static const dp_dataset_ops same_ops = {"ChooseFastest", &same_iterator_ops, same_cardinality,
                                        NULL};

/* Refuses an input that cannot be equal to the others. Adds what it knows of shapes and
 * cardinality. */
static dp_status *join_same(same_dataset *dataset, dp_dataset *input, int32_t index) {
  dp_dataset *base = &dataset->base;
  if (!dp_dataset_same_dtypes(base, input))
    return DP_INVALID("All inputs to ChooseFastestDataset must have the same output types. Input "
                      "%d has output types: %s. Expected: %s.",
                      index, dp_dataset_types_text(input), dp_dataset_types_text(base));
  for (int32_t j = 0; j < base->component_count; ++j) {
    dp_partial_shape merged;
    if (!dp_partial_shape_merge(&base->shapes[j], &input->shapes[j], &merged))
      return DP_INVALID("All inputs to ChooseFastestDataset must have compatible output shapes. "
                        "Component %d of input %d has shape: %s. Expected to be compatible with "
                        "shape: %s.",
                        j, index, dp_partial_shape_text(&input->shapes[j]),
                        dp_partial_shape_text(&base->shapes[j]));
    base->shapes[j] = merged;
  }
  int64_t cardinality = dp_dataset_cardinality(input);
  if (dataset->cardinality == DP_CARDINALITY_UNKNOWN)
    dataset->cardinality = cardinality;
  else if (cardinality != dataset->cardinality && cardinality != DP_CARDINALITY_UNKNOWN)
    return DP_INVALID("All inputs to ChooseFastestDataset must have compatible cardinalities. "
                      "Input %d has cardinality: %lld, while all prior inputs have cardinality: "
                      "%lld.",
                      index, (long long)cardinality, (long long)dataset->cardinality);
  return NULL;
}

static dp_status *fastest_compute(dp_op_context *context, void *state) {
  dp_dataset *first, *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &first));
  same_dataset *dataset = dp_dataset_create(&same_ops, sizeof(same_dataset), first);
  dataset->cardinality = dp_dataset_cardinality(first);
  dp_status *status = dp_dataset_components_from_node(&dataset->base, context->node);
  if (!status && dataset->base.component_count != first->component_count)
    status = DP_INVALID("Input 0 of ChooseFastestDataset has %d components, not %d",
                        first->component_count, dataset->base.component_count);
  for (int32_t i = 1; i < context->input_count && !status; ++i) {
    status = dp_dataset_input(context, i, &input);
    if (!status)
      status = join_same(dataset, input, i);
  }
  return dp_dataset_finish(context, &dataset->base, status);
}

/* ---- GetElementAtIndex ---- */
static dp_status *check_index(dp_dataset *dataset, int64_t index) {
  int64_t cardinality = dp_dataset_cardinality(dataset);
  if (!dataset->ops->cardinality) /* this kind never knows its cardinality */
    return dp_status_create(DP_UNIMPLEMENTED, "Random access is not implemented for dataset %s",
                            dataset->ops->name);
  if (cardinality < 0)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "Dataset of type %s has %s cardinality, which does not support random "
                            "access.",
                            dataset->ops->name,
                            cardinality == DP_CARDINALITY_INFINITE ? "infinite" : "unknown");
  if (index < 0 || index >= cardinality)
    return dp_status_create(DP_OUT_OF_RANGE, "Index out of range [0, %lld):%lld",
                            (long long)cardinality, (long long)index);
  return NULL;
}

static dp_status *set_components(dp_op_context *context, const dp_dataset *dataset,
                                 dp_tensor *element) {
  for (int32_t i = 0; i < dataset->component_count; ++i)
    dp_op_set_output(context, i, &element[i]);
  return NULL;
}

/* Walks from the beginning to the element, which works for every dataset. */
static dp_status *at_index(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  int64_t index;
  bool more = true;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "index", &index));
  DP_RETURN_IF_ERROR(check_index(dataset, index));
  if (dataset->component_count != context->output_count)
    return DP_INVALID("Number of components does not match: expected %d types but got %d.",
                      context->output_count, dataset->component_count);
  dp_iterator *iterator = dp_dataset_iterate(dataset, NULL);
  dp_tensor *element = dp_element_create(dataset->component_count);
  dp_walk walk = {context->step->cancel};
  dp_status *status = NULL;
  for (int64_t i = 0; i <= index && more && !status; ++i) {
    dp_element_clear(element, dataset->component_count);
    status = dp_iterator_next(iterator, &walk, element, &more);
  }
  if (!status)
    status = more ? set_components(context, dataset, element)
                  : dp_status_create(DP_OUT_OF_RANGE, "End of sequence");
  dp_element_destroy(element, dataset->component_count);
  dp_iterator_destroy(iterator);
  return status;
}

static void at_index_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, at_index);
}

/* ---- Thread pools ---- */
static void pool_destroy(dp_resource *resource) {
  dp_free(resource);
}

static const dp_resource_ops pool_ops = {
    "N10tensorflow4data12experimental12_GLOBAL__N_118ThreadPoolResourceE", pool_destroy, NULL};

typedef struct pool_state {
  dp_resource_name name;
  dp_resources *resources;
} pool_state;

static dp_status *pool_create(const dp_kernel_setup *setup, void *memory) {
  pool_state *state = memory;
  int64_t threads;
  state->resources = dp_resources_retain(setup->device->resources);
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_threads", &threads));
  if (threads < 0)
    return DP_INVALID("`num_threads` must be >= 0");
  return dp_resource_name_init(&state->name, setup, false);
}

static void pool_deinit(void *memory) {
  pool_state *state = memory;
  if (state->name.is_private)
    dp_status_release(dp_resources_remove(state->resources, state->name.container, state->name.name,
                                          pool_ops.type_name));
  dp_resources_release(state->resources);
  dp_resource_name_deinit(&state->name);
}

static dp_status *make_pool(void *arg, dp_resource **resource_out) {
  dp_resource *resource = DP_NEW(dp_resource);
  dp_resource_init(resource, &pool_ops);
  *resource_out = resource;
  return NULL;
}

static dp_status *pool_compute(dp_op_context *context, void *state) {
  const dp_resource_name *name = &((pool_state *)state)->name;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, name->container,
                                                 name->name, &pool_ops, make_pool, NULL,
                                                 &resource));
  dp_status *status = dp_handle_output(context, 0, resource, name->container, name->name, false);
  dp_resource_release(resource);
  return status;
}

#define CHEAP(name, body)                                                                          \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
#define POOL(name)                                                                                 \
  {                                                                                                \
    .op = name, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(pool_state), .create = pool_create, \
    .compute = pool_compute, .destroy = pool_deinit                                                \
  }
static const dp_kernel rows[] = {
    CHEAP("ListDataset", list_compute),
    CHEAP("WrapDatasetVariant", wrap_compute),
    CHEAP("UnwrapDatasetVariant", unwrap_compute),
    CHEAP("ChooseFastestDataset", fastest_compute),
    CHEAP("ExperimentalChooseFastestDataset", fastest_compute),
    {.op = "GetElementAtIndex", .compute_async = at_index_compute},
    POOL("ThreadPoolHandle"),
    POOL("ExperimentalThreadPoolHandle"),
};
DP_KERNEL_FAMILY(dataset_values, rows);
