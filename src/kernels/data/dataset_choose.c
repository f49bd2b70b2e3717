/* Datasets that pass on some elements: DirectedInterleave (a second dataset chooses), Unique,
 * Sampling (at random) and IgnoreErrors. Two more pass on all elements: AssertCardinality counts
 * them, Sleep waits before each. */
#include <stdio.h>
#include <time.h>
#include "base/log.h"
#include "base/map.h"
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/random.h"

/* ---- DirectedInterleave: the input is a dataset of numbers, the selector. Each number says which
 * of dataset->others gives the next element. ---- */
typedef struct directed_dataset {
  dp_dataset base; /* base.others are the datasets to choose from */
  bool stops_on_empty;
} directed_dataset;

typedef struct directed_iterator {
  dp_iterator base; /* base.others[i] is NULL once it has ended */
  size_t active;
} directed_iterator;

static dp_status *select_choice(dp_iterator *base, const dp_walk *walk, int64_t *choice_out,
                                bool *more_out) {
  size_t count = base->dataset->others.count;
  dp_tensor selected = {0};
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, &selected, more_out));
  if (!*more_out)
    return NULL;
  bool is_number = selected.dtype == DP_INT64 && selected.shape.elements == 1;
  *choice_out = is_number ? *(const int64_t *)selected.data : -1;
  dp_tensor_deinit(&selected);
  if (!is_number)
    return DP_INVALID("The selector input must be a dataset of scalar int64 elements.");
  if (*choice_out < 0 || (size_t)*choice_out >= count)
    return DP_INVALID("Selector index out of range: %lld >= %zu", (long long)*choice_out, count);
  return NULL;
}

static dp_status *directed_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                                bool *more_out) {
  directed_iterator *iterator = (directed_iterator *)base;
  directed_dataset *dataset = (directed_dataset *)base->dataset;
  while (iterator->active > 0) {
    int64_t choice;
    DP_RETURN_IF_ERROR(select_choice(base, walk, &choice, more_out));
    if (!*more_out) {
      iterator->active = 0;
      return NULL;
    }
    dp_iterator **chosen = &base->others[choice];
    if (!*chosen)
      continue;
    DP_RETURN_IF_ERROR(dp_iterator_next(*chosen, walk, element, more_out));
    if (*more_out)
      return NULL;
    dp_iterator_destroy(*chosen);
    *chosen = NULL;
    iterator->active = dataset->stops_on_empty ? 0 : iterator->active - 1;
  }
  *more_out = false;
  return NULL;
}

static const dp_iterator_ops directed_iterator_ops = {sizeof(directed_iterator), directed_next,
                                                      NULL};

static dp_iterator *directed_iterate(dp_dataset *dataset) {
  directed_iterator *iterator = dp_iterator_create(&directed_iterator_ops);
  iterator->active = dataset->others.count;
  dp_iterator_open_others(&iterator->base, dataset, 0);
  return &iterator->base;
}

static int64_t directed_cardinality(dp_dataset *dataset) {
  for (size_t i = 0; i < dataset->others.count; ++i)
    if (dp_dataset_cardinality(dataset->others.items[i]) == DP_CARDINALITY_INFINITE)
      return DP_CARDINALITY_INFINITE;
  return DP_CARDINALITY_UNKNOWN;
}

static const dp_dataset_ops directed_ops = {"DirectedInterleave", NULL, directed_cardinality,
                                            .iterate = directed_iterate};

static dp_status *add_choice(dp_dataset *dataset, dp_dataset *choice) {
  if (dataset->others.count == 0) {
    dp_dataset_set_components(dataset, choice->component_count, choice->dtypes, choice->shapes);
  } else {
    if (!dp_dataset_same_dtypes(dataset, choice))
      return DP_INVALID("All inputs must have the same output_dtypes. First input has types %s, "
                        "and input %zu has types %s",
                        dp_dataset_types_text(dataset), dataset->others.count,
                        dp_dataset_types_text(choice));
    for (int32_t i = 0; i < choice->component_count; ++i)
      dataset->shapes[i] = dp_dataset_common_shape(&dataset->shapes[i], &choice->shapes[i]);
  }
  dp_dataset_add_other(dataset, choice);
  return NULL;
}

static dp_status *directed_compute(dp_op_context *context, void *state) {
  dp_dataset *selector;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &selector));
  if (selector->component_count != 1 || selector->dtypes[0] != DP_INT64 ||
      selector->shapes[0].rank > 0)
    return DP_INVALID("The selector input must be a dataset of scalar int64 elements.");
  directed_dataset *dataset = dp_dataset_create(&directed_ops, sizeof(directed_dataset), selector);
  dp_status *status = NULL;
  if (dp_node_attr(context->node, "stop_on_empty_dataset"))
    status = dp_node_get_bool(context->node, "stop_on_empty_dataset", &dataset->stops_on_empty);
  for (int32_t i = 1; !status && i < context->input_count; ++i) {
    dp_dataset *choice;
    status = dp_dataset_input(context, i, &choice);
    if (!status)
      status = add_choice(&dataset->base, choice);
  }
  return dp_dataset_finish(context, &dataset->base, status);
}

/* ---- Unique ---- */
typedef struct unique_iterator {
  dp_iterator base;
  dp_map *seen; /* keys (write_key) of the elements so far */
  dp_text key;
} unique_iterator;

static void append_number(dp_text *text, int64_t number) {
  dp_text_append(text, (const char *)&number, sizeof number);
}

/* Bytes that are equal only for equal tensors: the shape, then the contents. */
static void write_key(dp_text *key, const dp_tensor *tensor) {
  key->length = 0;
  append_number(key, tensor->shape.rank);
  for (int i = 0; i < tensor->shape.rank; ++i)
    append_number(key, tensor->shape.dims[i]);
  if (tensor->dtype != DP_STRING) {
    dp_text_append(key, tensor->data,
                   (size_t)tensor->shape.elements * dp_dtype_size(tensor->dtype));
    return;
  }
  for (int64_t i = 0; i < tensor->shape.elements; ++i) {
    dp_view view = dp_tstring_view((const dp_tstring *)tensor->data + i);
    append_number(key, (int64_t)view.length);
    dp_text_append(key, view.data, view.length);
  }
}

static dp_status *unique_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  unique_iterator *iterator = (unique_iterator *)base;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
    if (!*more_out)
      return NULL;
    write_key(&iterator->key, &element[0]);
    if (!dp_map_put_n(iterator->seen, iterator->key.data, iterator->key.length, iterator))
      return NULL;
    dp_element_clear(element, 1);
  }
}

static void unique_iterator_destroy(dp_iterator *base) {
  dp_map_destroy(((unique_iterator *)base)->seen);
  dp_text_deinit(&((unique_iterator *)base)->key);
}

static const dp_iterator_ops unique_iterator_ops = {sizeof(unique_iterator), unique_next,
                                                    unique_iterator_destroy};

static dp_iterator *unique_iterate(dp_dataset *dataset) {
  unique_iterator *iterator = dp_iterator_create(&unique_iterator_ops);
  iterator->seen = dp_map_create();
  return &iterator->base;
}

static const dp_dataset_ops unique_ops = {"Unique", NULL, .iterate = unique_iterate};

static dp_status *unique_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  if (input->component_count != 1)
    return DP_INVALID("UniqueDataset only supports inputs with a single component.");
  dp_dtype dtype = input->dtypes[0];
  if (dtype != DP_INT32 && dtype != DP_INT64 && dtype != DP_STRING)
    return DP_INVALID("UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or "
                      "`tf.string` component.");
  return dp_dataset_output(context, 0, dp_dataset_create(&unique_ops, sizeof(dp_dataset), input));
}

/* ---- Sampling: keeps each element with the same probability ---- */
typedef struct sampling_dataset {
  dp_dataset base;
  float rate;
  uint64_t seed, seed2;
} sampling_dataset;

typedef struct sampling_iterator {
  dp_iterator base;
  dp_random_words words;
} sampling_iterator;

static dp_status *sampling_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                                bool *more_out) {
  sampling_iterator *iterator = (sampling_iterator *)base;
  float rate = ((sampling_dataset *)base->dataset)->rate;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
    if (!*more_out || dp_philox_float(dp_random_word(&iterator->words)) < rate)
      return NULL;
    dp_element_clear(element, base->dataset->component_count);
  }
}

static const dp_iterator_ops sampling_iterator_ops = {sizeof(sampling_iterator), sampling_next,
                                                      NULL};

static dp_iterator *sampling_iterate(dp_dataset *base) {
  sampling_dataset *dataset = (sampling_dataset *)base;
  sampling_iterator *iterator = dp_iterator_create(&sampling_iterator_ops);
  dp_philox generator = dp_philox_seed(dataset->seed, dataset->seed2);
  iterator->words = dp_random_words_of(&generator);
  return &iterator->base;
}

static const dp_dataset_ops sampling_ops = {"Sampling", NULL, .iterate = sampling_iterate};

static dp_status *sampling_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t seed, seed2;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  const dp_tensor *rate = dp_op_input(context, 1);
  if (rate->shape.rank != 0)
    return DP_INVALID("rate must be a scalar");
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 2, "seed", &seed));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 3, "seed2", &seed2));
  bool is_random = seed == 0 && seed2 == 0;
  sampling_dataset *dataset = dp_dataset_create(&sampling_ops, sizeof(sampling_dataset), input);
  dataset->rate = *(const float *)rate->data;
  dataset->seed = is_random ? dp_random_seed() : (uint64_t)seed;
  dataset->seed2 = is_random ? dp_random_seed() : (uint64_t)seed2;
  return dp_dataset_output(context, 0, &dataset->base);
}

/* ---- IgnoreErrors ---- */
typedef struct ignoring_dataset {
  dp_dataset base;
  bool warns;
} ignoring_dataset;

typedef struct ignoring_iterator {
  dp_iterator base;
  bool ended;
} ignoring_iterator;

static dp_status *ignoring_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                                bool *more_out) {
  ignoring_iterator *iterator = (ignoring_iterator *)base;
  if (iterator->ended)
    return NULL;
  for (;;) {
    dp_status *status = dp_iterator_next_input(base, walk, element, more_out);
    if (!status)
      break;
    if (dp_status_code(status) == DP_CANCELLED || dp_cancel_is_triggered(walk->cancel))
      return status;
    if (((ignoring_dataset *)base->dataset)->warns)
      DP_LOG(KERNELS, WARN, "an error in a dataset is ignored: %s", dp_status_message(status));
    dp_status_release(status);
  }
  iterator->ended = !*more_out;
  return NULL;
}

static const dp_iterator_ops ignoring_iterator_ops = {sizeof(ignoring_iterator), ignoring_next,
                                                      NULL};

static const dp_dataset_ops ignoring_ops = {"IgnoreErrors", &ignoring_iterator_ops, NULL, NULL};

static dp_status *ignoring_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  bool warns;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(dp_node_get_bool(context->node, "log_warning", &warns));
  ignoring_dataset *dataset = dp_dataset_create(&ignoring_ops, sizeof(ignoring_dataset), input);
  dataset->warns = warns;
  return dp_dataset_output(context, 0, &dataset->base);
}

/* ---- AssertCardinality and Sleep ---- */
typedef struct watching_dataset {
  dp_dataset base;
  int64_t number; /* the expected number of elements, or microseconds of sleep per element */
} watching_dataset;

typedef struct watching_iterator {
  dp_iterator base;
  int64_t passed;
} watching_iterator;

static int64_t watching_number(const dp_dataset *dataset) {
  return ((const watching_dataset *)dataset)->number;
}

/* The error text: "but contained only 1 element" and the like. */
static dp_status *wrong_count(int64_t expected, const char *relation, int64_t passed) {
  char text[40] = "an infinite number of elements";
  if (expected != DP_CARDINALITY_INFINITE)
    snprintf(text, sizeof text, "%lld element%s", (long long)expected, expected == 1 ? "" : "s");
  return dp_status_create(DP_FAILED_PRECONDITION,
                          "Input dataset was expected to contain %s but contained %s %lld "
                          "element%s.",
                          text, relation, (long long)passed, passed == 1 ? "" : "s");
}

static dp_status *assert_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  watching_iterator *iterator = (watching_iterator *)base;
  int64_t expected = watching_number(base->dataset);
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
  iterator->passed += *more_out;
  if (!*more_out && iterator->passed != expected)
    return wrong_count(expected, "only", iterator->passed);
  if (expected != DP_CARDINALITY_INFINITE && iterator->passed > expected)
    return wrong_count(expected, "at least", iterator->passed);
  return NULL;
}

static const dp_iterator_ops assert_iterator_ops = {sizeof(watching_iterator), assert_next, NULL};

static int64_t assert_cardinality(dp_dataset *dataset) {
  return watching_number(dataset);
}

static const dp_dataset_ops assert_ops = {"AssertCardinality", &assert_iterator_ops,
                                          assert_cardinality, NULL};

static dp_status *assert_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t count;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "cardinality", &count));
  watching_dataset *dataset = dp_dataset_create(&assert_ops, sizeof(watching_dataset), input);
  dataset->number = count;
  return dp_dataset_output(context, 0, &dataset->base);
}

#define NAP_MICROS 20000 /* a cancelled sleep ends within this time */

static dp_status *sleep_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  for (int64_t left = watching_number(base->dataset); left > 0; left -= NAP_MICROS) {
    int64_t micros = left < NAP_MICROS ? left : NAP_MICROS;
    nanosleep(&(struct timespec){.tv_nsec = (long)micros * 1000}, NULL);
    DP_RETURN_IF_ERROR(dp_cancel_status(walk->cancel));
  }
  return dp_iterator_next_input(base, walk, element, more_out);
}

static const dp_iterator_ops sleep_iterator_ops = {sizeof(dp_iterator), sleep_next, NULL};

static const dp_dataset_ops sleep_ops = {"Sleep", &sleep_iterator_ops, dp_dataset_input_cardinality,
                                         NULL};

static dp_status *sleep_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t micros;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "sleep_microseconds", &micros));
  if (micros < 0)
    return DP_INVALID("`sleep_microseconds` must be >= 0");
  watching_dataset *dataset = dp_dataset_create(&sleep_ops, sizeof(watching_dataset), input);
  dataset->number = micros;
  return dp_dataset_output(context, 0, &dataset->base);
}

#define ROW(name, body)                                                                            \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
static const dp_kernel rows[] = {
    ROW("DirectedInterleaveDataset", directed_compute),
    ROW("ExperimentalDirectedInterleaveDataset", directed_compute),
    ROW("UniqueDataset", unique_compute),
    ROW("ExperimentalUniqueDataset", unique_compute),
    ROW("SamplingDataset", sampling_compute),
    ROW("IgnoreErrorsDataset", ignoring_compute),
    ROW("ExperimentalIgnoreErrorsDataset", ignoring_compute),
    ROW("AssertCardinalityDataset", assert_compute),
    ROW("SleepDataset", sleep_compute),
    ROW("ExperimentalSleepDataset", sleep_compute),
};
DP_KERNEL_FAMILY(dataset_choose, rows);
