/* Datasets that sort elements into groups by a key, which a function of the user computes.
 * GroupByWindow turns a group into a dataset when the group is full, and at the end of the input.
 * GroupByReducer folds each group into a state. Groups that are left at the end come out in the
 * order of their keys. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

/* ---- Groups, sorted by key ---- */
typedef struct group {
  int64_t key;
  int64_t window;           /* number of elements at which the group is full */
  dp_element_list elements; /* GroupByWindow */
  dp_tensor *state;         /* GroupByReducer */
  int32_t state_count;
} group;

typedef DP_ARRAY(group) group_list;

static void groups_clear(group_list *groups, int32_t components) {
  for (size_t i = 0; i < groups->count; ++i) {
    dp_element_list_clear(&groups->items[i].elements, components);
    dp_element_destroy(groups->items[i].state, groups->items[i].state_count);
  }
  DP_ARRAY_FREE(groups);
}

/* The position of the key, or the position to insert it. */
static size_t groups_find(const group_list *groups, int64_t key, bool *found_out) {
  size_t low = 0, high = groups->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (groups->items[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  *found_out = low < groups->count && groups->items[low].key == key;
  return low;
}

static group *groups_insert(group_list *groups, size_t at, int64_t key) {
  DP_ARRAY_PUSH(groups, ((group){0}));
  memmove(groups->items + at + 1, groups->items + at,
          (groups->count - 1 - at) * sizeof *groups->items);
  groups->items[at] = (group){.key = key};
  return &groups->items[at];
}

/* ---- What GroupByWindow and GroupByReducer share ---- */
enum { KEY, REDUCE, WINDOW_SIZE, INIT = WINDOW_SIZE, FINALIZE, FUNCTIONS };

typedef struct group_dataset {
  dp_dataset base;
  dp_captured functions[FUNCTIONS];
} group_dataset;

typedef struct group_iterator {
  dp_iterator base;
  group_list groups;
  bool input_ended;
  /* GroupByWindow: the iterator over the group that was flushed last; how many were flushed */
  dp_iterator *current;
  int64_t flushed;
  /* GroupByReducer: the next group to give */
  size_t next;
} group_iterator;

static dp_status *call(const dp_iterator *base, int function, const dp_walk *walk,
                       const dp_tensor *arguments, int32_t count, dp_tensor **results_out,
                       int32_t *result_count_out) {
  const group_dataset *dataset = (const group_dataset *)base->dataset;
  return dp_captured_call_wait(&dataset->functions[function], walk, arguments, count, results_out,
                               result_count_out);
}

/* Calls a function whose result is one number; `name` is its attribute. */
static dp_status *call_for_number(const dp_iterator *base, int function, const char *name,
                                  const dp_walk *walk, const dp_tensor *arguments, int32_t count,
                                  int64_t *number_out) {
  dp_tensor *results;
  int32_t result_count;
  dp_status *status = NULL;
  DP_RETURN_IF_ERROR(call(base, function, walk, arguments, count, &results, &result_count));
  if (result_count != 1 || results[0].dtype != DP_INT64 || results[0].shape.elements != 1)
    status = DP_INVALID("`%s` must return a scalar int64.", name);
  else
    *number_out = *(const int64_t *)results[0].data;
  dp_element_destroy(results, result_count);
  return status;
}

static dp_status *number_tensor(int64_t number, dp_tensor *tensor_out) {
  dp_shape shape = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, tensor_out));
  *(int64_t *)tensor_out->data = number;
  return NULL;
}

static void group_iterator_destroy(dp_iterator *base) {
  group_iterator *iterator = (group_iterator *)base;
  groups_clear(&iterator->groups, base->dataset->input->component_count);
  dp_iterator_destroy(iterator->current);
}

static void group_destroy(dp_dataset *base) {
  for (int i = 0; i < FUNCTIONS; ++i)
    dp_captured_deinit(&((group_dataset *)base)->functions[i]);
}

static int64_t window_cardinality(dp_dataset *base) {
  int64_t input = dp_dataset_cardinality(base->input);
  return input == DP_CARDINALITY_INFINITE ? input : DP_CARDINALITY_UNKNOWN;
}

/* ---- GroupByWindow ---- */
/* Finds or adds the group of a key. A group that was flushed stays in the list without elements, so
 * that its window size is asked for only once. */
static dp_status *window_group(group_iterator *iterator, const dp_walk *walk, int64_t key,
                               group **group_out) {
  bool found;
  size_t at = groups_find(&iterator->groups, key, &found);
  if (!found) {
    dp_tensor argument = {0};
    int64_t size = 0;
    DP_RETURN_IF_ERROR(number_tensor(key, &argument));
    dp_status *status = call_for_number(&iterator->base, WINDOW_SIZE, "window_size_func", walk,
                                        &argument, 1, &size);
    dp_tensor_deinit(&argument);
    DP_RETURN_IF_ERROR(status);
    if (size <= 0)
      return DP_INVALID("Window size must be greater than zero, but got %lld.", (long long)size);
    groups_insert(&iterator->groups, at, key)->window = size;
  }
  *group_out = &iterator->groups.items[at];
  return NULL;
}

/* Moves the group's elements to a dataset, in a tensor. The group is empty afterwards. */
static dp_status *take_elements(group *group, const dp_dataset *like, dp_tensor *tensor_out) {
  int64_t count = (int64_t)group->elements.count, components = like->component_count;
  dp_tensor *tensors = DP_NEW_ARRAY(dp_tensor, (size_t)(count * components) + 1);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < components; ++j)
      tensors[i * components + j] = dp_tensor_take(&group->elements.items[i][j]);
  dp_element_list_clear(&group->elements, (int32_t)components);
  return dp_dataset_to_tensor(
      dp_dataset_of_elements((int32_t)components, like->dtypes, like->shapes, tensors, count),
      tensor_out);
}

/* Calls the function that makes a dataset of the group; its iterator becomes the current one. */
static dp_status *flush(group_iterator *iterator, const dp_walk *walk, group *group) {
  dp_iterator *base = &iterator->base;
  dp_tensor arguments[2] = {{0}}, *results = NULL;
  int32_t count = 0;
  dp_dataset *inner = NULL;
  dp_status *status = number_tensor(group->key, &arguments[0]);
  if (!status)
    status = take_elements(group, base->dataset->input, &arguments[1]);
  if (!status)
    status = call(base, REDUCE, walk, arguments, 2, &results, &count);
  dp_element_clear(arguments, 2);
  if (!status && (count != 1 || results[0].dtype != DP_VARIANT || results[0].shape.rank != 0))
    status = DP_INVALID("`reduce_func` must return a single scalar of dtype DT_VARIANT.");
  if (!status)
    status = dp_dataset_of_tensor(&results[0], &inner);
  if (!status && inner->component_count != base->dataset->component_count)
    status = DP_INVALID("`reduce_func` gave a dataset of %d components instead of %d",
                        inner->component_count, base->dataset->component_count);
  if (!status)
    iterator->current = dp_iterator_over(base, inner, iterator->flushed++);
  dp_element_destroy(results, count);
  return status;
}

/* Takes one element of the input into its group. Flushes the group if it is full now. */
static dp_status *sort_element(group_iterator *iterator, const dp_walk *walk) {
  dp_iterator *base = &iterator->base;
  int32_t components = base->dataset->input->component_count;
  dp_tensor *element = dp_element_create(components);
  group *group = NULL;
  int64_t key = 0;
  bool more;
  dp_status *status = dp_iterator_next_input(base, walk, element, &more);
  if (!status && more) {
    status = call_for_number(base, KEY, "key_func", walk, element, components, &key);
    if (!status)
      status = window_group(iterator, walk, key, &group);
  }
  if (!group) {
    iterator->input_ended = !status;
    dp_element_destroy(element, components);
    return status;
  }
  DP_ARRAY_PUSH(&group->elements, element);
  return (int64_t)group->elements.count == group->window ? flush(iterator, walk, group) : NULL;
}

/* Flushes the first group that has elements. */
static dp_status *flush_rest(group_iterator *iterator, const dp_walk *walk) {
  for (size_t i = 0; i < iterator->groups.count; ++i)
    if (iterator->groups.items[i].elements.count > 0)
      return flush(iterator, walk, &iterator->groups.items[i]);
  return NULL;
}

static dp_status *window_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  group_iterator *iterator = (group_iterator *)base;
  do {
    if (iterator->current) {
      DP_RETURN_IF_ERROR(dp_iterator_next(iterator->current, walk, element, more_out));
      if (*more_out)
        return NULL;
      dp_iterator_destroy(iterator->current);
      iterator->current = NULL;
    }
    while (!iterator->input_ended && !iterator->current)
      DP_RETURN_IF_ERROR(sort_element(iterator, walk));
    if (!iterator->current)
      DP_RETURN_IF_ERROR(flush_rest(iterator, walk));
  } while (iterator->current);
  return NULL;
}

static const dp_iterator_ops window_iterator_ops = {sizeof(group_iterator), window_next,
                                                    group_iterator_destroy};

static const dp_dataset_ops window_ops = {"GroupByWindow", &window_iterator_ops, window_cardinality,
                                          group_destroy};

/* ---- GroupByReducer ---- */
/* Finds the group of a key; a new group gets its state from the init function. */
static dp_status *reducer_group(group_iterator *iterator, const dp_walk *walk, int64_t key,
                                group **group_out) {
  bool found;
  size_t at = groups_find(&iterator->groups, key, &found);
  if (!found) {
    dp_tensor argument = {0}, *state;
    int32_t count;
    DP_RETURN_IF_ERROR(number_tensor(key, &argument));
    dp_status *status = call(&iterator->base, INIT, walk, &argument, 1, &state, &count);
    dp_tensor_deinit(&argument);
    DP_RETURN_IF_ERROR(status);
    group *group = groups_insert(&iterator->groups, at, key);
    group->state = state;
    group->state_count = count;
  }
  *group_out = &iterator->groups.items[at];
  return NULL;
}

/* state = reduce(state, element) */
static dp_status *reduce(const group_iterator *iterator, const dp_walk *walk, group *group,
                         const dp_tensor *element, int32_t components) {
  int32_t states = group->state_count, count;
  dp_tensor *arguments = dp_element_create(states + components), *results;
  memcpy(arguments, group->state, (size_t)states * sizeof(dp_tensor));
  memcpy(arguments + states, element, (size_t)components * sizeof(dp_tensor));
  dp_status *status =
      call(&iterator->base, REDUCE, walk, arguments, states + components, &results, &count);
  dp_free(arguments); /* the tensors in it are borrowed */
  DP_RETURN_IF_ERROR(status);
  dp_element_destroy(group->state, states);
  group->state = results;
  group->state_count = count;
  return NULL;
}

static dp_status *fold_element(group_iterator *iterator, const dp_walk *walk) {
  dp_iterator *base = &iterator->base;
  int32_t components = base->dataset->input->component_count;
  dp_tensor *element = dp_element_create(components);
  group *group;
  int64_t key = 0;
  bool more;
  dp_status *status = dp_iterator_next_input(base, walk, element, &more);
  if (!status && !more)
    iterator->input_ended = true;
  if (!status && more) {
    status = call_for_number(base, KEY, "key_func", walk, element, components, &key);
    if (!status)
      status = reducer_group(iterator, walk, key, &group);
    if (!status)
      status = reduce(iterator, walk, group, element, components);
  }
  dp_element_destroy(element, components);
  return status;
}

static dp_status *reducer_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                               bool *more_out) {
  group_iterator *iterator = (group_iterator *)base;
  while (!iterator->input_ended)
    DP_RETURN_IF_ERROR(fold_element(iterator, walk));
  if (iterator->next == iterator->groups.count)
    return NULL;
  const group *group = &iterator->groups.items[iterator->next++];
  dp_tensor *results;
  int32_t count, components = base->dataset->component_count;
  DP_RETURN_IF_ERROR(
      call(base, FINALIZE, walk, group->state, group->state_count, &results, &count));
  dp_status *status =
      count == components
          ? NULL
          : DP_INVALID("`finalize_func` gave %d results for %d components", count, components);
  for (int32_t i = 0; !status && i < count; ++i)
    element[i] = dp_tensor_take(&results[i]);
  *more_out = !status;
  dp_element_destroy(results, count);
  return status;
}

static const dp_iterator_ops reducer_iterator_ops = {sizeof(group_iterator), reducer_next,
                                                     group_iterator_destroy};

static const dp_dataset_ops reducer_ops = {"GroupByReducer", &reducer_iterator_ops, NULL,
                                           group_destroy};

/* ---- Kernels ---- */
typedef struct group_function {
  const char *attr, *arguments;
} group_function;

static dp_status *make_groups(dp_op_context *context, const dp_dataset_ops *ops,
                              const group_function functions[FUNCTIONS]) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  group_dataset *dataset = dp_dataset_create(ops, sizeof(group_dataset), input);
  dp_status *status = dp_dataset_components_from_node(&dataset->base, context->node);
  for (int i = 0; !status && i < FUNCTIONS; ++i)
    if (functions[i].attr)
      status = dp_captured_init(&dataset->functions[i], context, functions[i].attr,
                                functions[i].arguments);
  return dp_dataset_finish(context, &dataset->base, status);
}

static dp_status *window_compute(dp_op_context *context, void *state) {
  static const group_function functions[FUNCTIONS] = {
      [KEY] = {"key_func", "key_func_other_arguments"},
      [REDUCE] = {"reduce_func", "reduce_func_other_arguments"},
      [WINDOW_SIZE] = {"window_size_func", "window_size_func_other_arguments"},
  };
  return make_groups(context, &window_ops, functions);
}

static dp_status *reducer_compute(dp_op_context *context, void *state) {
  static const group_function functions[FUNCTIONS] = {
      [KEY] = {"key_func", "key_func_other_arguments"},
      [REDUCE] = {"reduce_func", "reduce_func_other_arguments"},
      [INIT] = {"init_func", "init_func_other_arguments"},
      [FINALIZE] = {"finalize_func", "finalize_func_other_arguments"},
  };
  return make_groups(context, &reducer_ops, functions);
}

#define ROW(name, body)                                                                            \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
static const dp_kernel rows[] = {
    ROW("GroupByWindowDataset", window_compute),
    ROW("ExperimentalGroupByWindowDataset", window_compute),
    ROW("GroupByReducerDataset", reducer_compute),
    ROW("ExperimentalGroupByReducerDataset", reducer_compute),
};
DP_KERNEL_FAMILY(dataset_group, rows);
