/* Window and SlidingWindow: windows of consecutive elements. Window gives each window as one
 * dataset per component; SlidingWindow gives it as a batch. Also the dataset of elements in memory,
 * which windows and groups (dataset_group.c) consist of. */
#include <stdio.h>
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

/* ---- Elements in memory: the datasets inside windows and groups ---- */
typedef struct memory_dataset {
  dp_dataset base;
  dp_tensor *tensors; /* component_count of each element */
  int64_t count;
} memory_dataset;

typedef struct memory_iterator {
  dp_iterator base;
  int64_t next;
} memory_iterator;

static dp_status *memory_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  memory_iterator *iterator = (memory_iterator *)base;
  memory_dataset *dataset = (memory_dataset *)base->dataset;
  int32_t components = base->dataset->component_count;
  if (iterator->next >= dataset->count)
    return NULL;
  for (int32_t i = 0; i < components; ++i)
    element[i] = dp_tensor_copy(&dataset->tensors[iterator->next * components + i]);
  ++iterator->next;
  *more_out = true;
  return NULL;
}

static const dp_iterator_ops memory_iterator_ops = {sizeof(memory_iterator), memory_next, NULL};

static int64_t memory_cardinality(dp_dataset *dataset) {
  return ((memory_dataset *)dataset)->count;
}

static void memory_destroy(dp_dataset *base) {
  memory_dataset *dataset = (memory_dataset *)base;
  for (int64_t i = 0; i < dataset->count; ++i)
    dp_element_clear(dataset->tensors + i * base->component_count, base->component_count);
  dp_free(dataset->tensors);
}

static const dp_dataset_ops memory_ops = {"Window", &memory_iterator_ops, memory_cardinality,
                                          memory_destroy};

dp_dataset *dp_dataset_of_elements(int32_t components, const dp_dtype *dtypes,
                                   const dp_partial_shape *shapes, dp_tensor *tensors,
                                   int64_t count) {
  memory_dataset *dataset = dp_dataset_create(&memory_ops, sizeof(memory_dataset), NULL);
  dp_dataset_set_components(&dataset->base, components, dtypes, shapes);
  dataset->tensors = tensors;
  dataset->count = count;
  return &dataset->base;
}

/* ---- Window: each element is one dataset per component, or stacked ---- */
typedef struct window_dataset {
  dp_dataset base;
  int64_t size, shift, stride;
  bool drop_remainder;
  bool is_stacked; /* SlidingWindow */
} window_dataset;

typedef struct window_iterator {
  dp_iterator base;
  dp_element_list buffer; /* elements that later windows need too */
  bool ended;
} window_iterator;

/* Component `index` of the chosen elements. */
static dp_status *window_component(dp_dataset *input, const dp_element_list *buffer, int64_t count,
                                   int64_t stride, int32_t index, dp_tensor *tensor_out) {
  dp_tensor *tensors = DP_NEW_ARRAY(dp_tensor, (size_t)count + 1);
  for (int64_t i = 0; i < count; ++i)
    tensors[i] = dp_tensor_copy(&buffer->items[i * stride][index]);
  dp_dataset *dataset =
      dp_dataset_of_elements(1, &input->dtypes[index], &input->shapes[index], tensors, count);
  return dp_dataset_to_tensor(dataset, tensor_out);
}

/* The chosen elements, as a dataset for each component or stacked. */
static dp_status *window_element(dp_iterator *base, int64_t count, dp_tensor *element) {
  const window_dataset *dataset = (const window_dataset *)base->dataset;
  const dp_element_list *buffer = &((window_iterator *)base)->buffer;
  dp_dataset *input = base->dataset->input;
  if (dataset->is_stacked) {
    dp_tensor **chosen = DP_NEW_ARRAY(dp_tensor *, (size_t)count);
    for (int64_t i = 0; i < count; ++i)
      chosen[i] = buffer->items[i * dataset->stride];
    dp_status *status = dp_elements_stack(input, chosen, count, element);
    dp_free(chosen);
    return status;
  }
  for (int32_t i = 0; i < input->component_count; ++i)
    DP_RETURN_IF_ERROR(window_component(input, buffer, count, dataset->stride, i, &element[i]));
  return NULL;
}

/* Drops elements that no later window needs, and skips those between two windows. */
static dp_status *window_advance(dp_iterator *base, const dp_walk *walk) {
  window_iterator *iterator = (window_iterator *)base;
  window_dataset *dataset = (window_dataset *)base->dataset;
  int32_t components = base->dataset->input->component_count;
  int64_t dropped = 0;
  while (dropped < dataset->shift && (size_t)dropped < iterator->buffer.count)
    dp_element_destroy(iterator->buffer.items[dropped++], components);
  iterator->buffer.count -= (size_t)dropped;
  if (iterator->buffer.count > 0)
    memmove(iterator->buffer.items, iterator->buffer.items + dropped,
            iterator->buffer.count * sizeof(dp_tensor *));
  dp_tensor *element = dp_element_create(components);
  dp_status *status = NULL;
  for (; dropped < dataset->shift && !iterator->ended && !status; ++dropped) {
    bool more;
    status = dp_iterator_next_input(base, walk, element, &more);
    iterator->ended = !status && !more;
    dp_element_clear(element, components);
  }
  dp_free(element);
  return status;
}

static dp_status *window_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  window_iterator *iterator = (window_iterator *)base;
  window_dataset *dataset = (window_dataset *)base->dataset;
  int64_t span = (dataset->size - 1) * dataset->stride + 1;
  if (!iterator->ended)
    DP_RETURN_IF_ERROR(dp_iterator_gather(base, walk, span, &iterator->buffer, &iterator->ended));
  int64_t there = (int64_t)iterator->buffer.count;
  if (there == 0 || (there < span && dataset->drop_remainder))
    return NULL;
  int64_t count = there < span ? (there - 1) / dataset->stride + 1 : dataset->size;
  dp_status *status = window_element(base, count, element);
  dp_status *after = window_advance(base, walk);
  *more_out = !status;
  if (status)
    dp_status_release(after);
  return status ? status : after;
}

static void window_iterator_destroy(dp_iterator *base) {
  dp_element_list_clear(&((window_iterator *)base)->buffer, base->dataset->input->component_count);
}

static const dp_iterator_ops window_iterator_ops = {sizeof(window_iterator), window_next,
                                                    window_iterator_destroy};

static int64_t window_cardinality(dp_dataset *base) {
  window_dataset *dataset = (window_dataset *)base;
  int64_t input = dp_dataset_cardinality(base->input);
  if (input < 0)
    return input;
  if (dataset->drop_remainder && dataset->is_stacked) /* TensorFlow's answer, though wrong */
    return input / dataset->shift;
  if (dataset->drop_remainder) {
    int64_t rest = input - ((dataset->size - 1) * dataset->stride + 1);
    return rest < 0 ? 0 : rest / dataset->shift + 1;
  }
  return input / dataset->shift + (input % dataset->shift != 0);
}

static const dp_dataset_ops window_ops = {"Window", &window_iterator_ops, window_cardinality, NULL};

/* TensorFlow's messages call the stride `stride_name`. */
static dp_status *make_window(dp_op_context *context, const char *prefix, const char *stride_name,
                              window_dataset **dataset_out) {
  dp_dataset *input;
  int64_t values[3];
  static const char *const names[] = {"size", "shift", "stride"};
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  for (int32_t i = 0; i < 3; ++i) {
    char name[24];
    snprintf(name, sizeof name, "%s%s", prefix, names[i]);
    DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1 + i, name, &values[i]));
    if (values[i] <= 0)
      return DP_INVALID("%s must be greater than zero.", i == 0   ? "Window size"
                                                         : i == 1 ? "Window shift"
                                                                  : stride_name);
  }
  if (values[0] - 1 > (INT64_MAX - 1) / values[2])
    return DP_INVALID("Window size times stride must be less than 2^63.");
  window_dataset *dataset = dp_dataset_create(&window_ops, sizeof(window_dataset), input);
  dataset->size = values[0];
  dataset->shift = values[1];
  dataset->stride = values[2];
  *dataset_out = dataset;
  return NULL;
}

static dp_status *window_compute(dp_op_context *context, void *state) {
  window_dataset *dataset;
  bool drop;
  DP_RETURN_IF_ERROR(dp_dataset_bool(context, 4, "drop_remainder", &drop));
  DP_RETURN_IF_ERROR(make_window(context, "", "Window stride", &dataset));
  dataset->drop_remainder = drop;
  for (int32_t i = 0; i < dataset->base.component_count; ++i) {
    dataset->base.dtypes[i] = DP_VARIANT;
    dataset->base.shapes[i] = (dp_partial_shape){.rank = 0};
  }
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *sliding_compute(dp_op_context *context, void *state) {
  window_dataset *dataset;
  bool drop = true;
  if (dp_node_attr(context->node, "drop_remainder"))
    DP_RETURN_IF_ERROR(dp_node_get_bool(context->node, "drop_remainder", &drop));
  DP_RETURN_IF_ERROR(make_window(context, "window_", "window_stride", &dataset));
  dataset->drop_remainder = drop;
  dataset->is_stacked = true;
  dataset->base.label = "Slide";
  for (int32_t i = 0; i < dataset->base.component_count; ++i)
    dp_dataset_add_dimension(&dataset->base.shapes[i], -1);
  return dp_dataset_output(context, 0, &dataset->base);
}

static const dp_kernel rows[] = {
    {.op = "WindowDataset", .flags = DP_KERNEL_CHEAP, .compute = window_compute},
    {.op = "SlidingWindowDataset", .flags = DP_KERNEL_CHEAP, .compute = sliding_compute},
    {.op = "ExperimentalSlidingWindowDataset",
     .flags = DP_KERNEL_CHEAP,
     .compute = sliding_compute},
};
DP_KERNEL_FAMILY(dataset_window, rows);
