/* ParseExampleDataset in all its versions: parses batches of serialized examples. An element has
 * one component per feature, in the order of the features' names: a tensor for a dense feature, a
 * vector of three variants for a sparse one, a variant for a ragged one.
 *
 * A walk runs ahead on a thread of its own, by as many batches as the node wants parallel calls.
 * The examples of one batch are parsed on all threads of the device. Batches always come in order,
 * which is also allowed where the node asks for no order. */
#include <stdlib.h>
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/data/example_batch_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/ragged.h"
#include "kernels/shared/tensor_variant.h"

#define AUTOTUNE (-1)

typedef struct parse_dataset {
  dp_dataset base;
  dp_pool *pool; /* the device's threads; borrowed, they live as long as the process */
  dp_example_config config;
  char **keys;              /* owns what the config's keys point to */
  dp_partial_shape *shapes; /* of dense features */
  dp_tensor *defaults;      /* of dense features */
  int32_t *places;          /* the component of each feature */
  int64_t ahead;            /* batches to run ahead */
} parse_dataset;

/* ---- Elements ---- */
/* All strings of all components, as one vector. */
static dp_status *join_input(const dp_dataset *input, const dp_tensor *element,
                             dp_tensor *serialized_out) {
  int64_t total = 0, at = 0;
  for (int32_t i = 0; i < input->component_count; ++i) {
    if (element[i].dtype != DP_STRING)
      return DP_INVALID("Examples are parsed from strings, not from %s",
                        dp_dtype_name(element[i].dtype));
    total += element[i].shape.elements;
  }
  dp_shape shape = dp_shape_vector(total);
  if (input->component_count == 1) {
    *serialized_out = dp_tensor_reshaped(&element[0], &shape);
    return NULL;
  }
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_STRING, &shape, serialized_out));
  for (int32_t i = 0; i < input->component_count; ++i) {
    int64_t count = element[i].shape.elements;
    dp_tensor_copy_elements(DP_STRING, dp_tensor_strings(serialized_out) + at, element[i].data,
                            count);
    at += count;
  }
  return NULL;
}

static dp_status *box_sparse(const dp_tensor *indices, const dp_tensor *values,
                             const dp_tensor *sizes, dp_tensor *component) {
  const dp_tensor *parts[] = {indices, values, sizes};
  dp_shape three = dp_shape_vector(3);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_VARIANT, &three, component));
  for (int i = 0; i < 3; ++i)
    dp_tensor_variants(component)[i] = dp_tensor_variant_create(parts[i]);
  return NULL;
}

static dp_status *box_ragged(const dp_tensor *values, const dp_tensor *splits,
                             dp_tensor *component) {
  dp_shape scalar = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_VARIANT, &scalar, component));
  dp_ragged *ragged = dp_ragged_create(1);
  ragged->parts[0] = dp_tensor_copy(splits);
  ragged->parts[1] = dp_tensor_copy(values);
  dp_tensor_variants(component)[0] = dp_variant_create(&dp_ragged_ops, ragged);
  return NULL;
}

static dp_status *check_component(const dp_dataset *dataset, int32_t place, int32_t index,
                                  const dp_tensor *component) {
  if (component->dtype != dataset->dtypes[place])
    return DP_INVALID("Got wrong type for FastParseExample return value %d (expected %s, got %s).",
                      index, dp_dtype_name(dataset->dtypes[place]),
                      dp_dtype_name(component->dtype));
  if (!dp_partial_shape_accepts(&dataset->shapes[place], &component->shape))
    return DP_INVALID("Got wrong shape for FastParseExample return value %d (expected %s, got %s).",
                      index, dp_partial_shape_text(&dataset->shapes[place]),
                      dp_shape_text(&component->shape));
  return NULL;
}

/* Turns the outputs of dp_example_parse into the components of an element. */
static dp_status *box(const parse_dataset *dataset, dp_tensor *outputs, dp_tensor *element) {
  const dp_example_config *config = &dataset->config;
  int32_t ns = config->sparse_count, nd = config->dense_count;
  for (int32_t k = 0; k < config->count; ++k) {
    dp_tensor *component = &element[dataset->places[k]];
    const dp_tensor *output = &outputs[k < ns ? k : 2 * ns + k];
    int32_t first = 0;
    if (k < ns) {
      DP_RETURN_IF_ERROR(box_sparse(output, output + ns, output + 2 * ns, component));
    } else if (k < ns + nd) {
      *component = dp_tensor_copy(output);
      first = ns;
    } else {
      DP_RETURN_IF_ERROR(box_ragged(output, output + config->ragged_count, component));
      first = ns + nd;
    }
    DP_RETURN_IF_ERROR(check_component(&dataset->base, dataset->places[k], k - first, component));
  }
  return NULL;
}

static dp_status *parse(const parse_dataset *dataset, const dp_tensor *input, dp_tensor *element) {
  dp_tensor serialized;
  DP_RETURN_IF_ERROR(join_input(dataset->base.input, input, &serialized));
  int32_t count = dp_example_output_count(&dataset->config);
  dp_tensor *outputs = dp_element_create(count);
  dp_status *status = dp_example_parse(&dataset->config, &serialized, NULL, dataset->pool, outputs);
  if (!status)
    status = box(dataset, outputs, element);
  dp_element_destroy(outputs, count);
  dp_tensor_deinit(&serialized);
  return status;
}

static dp_status *parse_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  int32_t count = base->dataset->input->component_count;
  dp_tensor *input = dp_element_create(count);
  dp_status *status = dp_iterator_next_input(base, walk, input, more_out);
  if (!status && *more_out)
    status = parse((const parse_dataset *)base->dataset, input, element);
  dp_element_destroy(input, count);
  return status;
}

static const dp_iterator_ops parse_iterator_ops = {sizeof(dp_iterator), parse_next, NULL};

static dp_iterator *parse_iterate(dp_dataset *base) {
  dp_iterator *iterator = dp_iterator_create(&parse_iterator_ops);
  iterator->dataset = dp_dataset_retain(base);
  return dp_iterator_prefetch(iterator, ((parse_dataset *)base)->ahead);
}

static void parse_destroy(dp_dataset *base) {
  parse_dataset *dataset = (parse_dataset *)base;
  for (int32_t k = 0; dataset->keys && k < dataset->config.count; ++k)
    dp_free(dataset->keys[k]);
  dp_free(dataset->keys);
  dp_free(dataset->places);
  dp_free(dataset->shapes);
  dp_element_destroy(dataset->defaults, dataset->config.dense_count);
  dp_example_config_deinit(&dataset->config);
}

static const dp_dataset_ops parse_ops = {"ParseExample", NULL, dp_dataset_input_cardinality,
                                         parse_destroy, .iterate = parse_iterate};

/* ---- Reading the node ---- */
typedef struct feature_lists {
  const dp_attr *keys[3],
      *types[3]; /* sparse, dense, ragged; NULL where the op has no such attribute */
  const dp_attr *splits;
  int32_t counts[3];
} feature_lists;

static dp_status *read_lists(const dp_node *node, feature_lists *lists) {
  static const char *const keys[] = {"sparse_keys", "dense_keys", "ragged_keys"};
  static const char *const types[] = {"sparse_types", "Tdense", "ragged_value_types"};
  int kinds = dp_node_attr(node, "ragged_keys") ? 3 : 2;
  for (int i = 0; i < kinds; ++i) {
    DP_RETURN_IF_ERROR(dp_node_get_list(node, keys[i], DP_ATTR_LIST_STRING, &lists->keys[i]));
    DP_RETURN_IF_ERROR(dp_node_get_list(node, types[i], DP_ATTR_LIST_TYPE, &lists->types[i]));
    lists->counts[i] = lists->keys[i]->count;
  }
  if (kinds == 3)
    DP_RETURN_IF_ERROR(
        dp_node_get_list(node, "ragged_split_types", DP_ATTR_LIST_TYPE, &lists->splits));
  if (lists->types[1]->count != lists->counts[1])
    return DP_INVALID("Expected len(dense_defaults) == len(dense_keys) but got: %d vs. %d",
                      lists->types[1]->count, lists->counts[1]);
  for (int i = 0; i < kinds; ++i)
    if (lists->types[i]->count != lists->counts[i])
      return DP_INVALID("len(%s) != len(%s): %d vs. %d", keys[i], types[i], lists->counts[i],
                        lists->types[i]->count);
  if (lists->splits && lists->splits->count != lists->counts[2])
    return DP_INVALID("len(ragged_keys) != len(ragged_split_types): %d vs. %d", lists->counts[2],
                      lists->splits->count);
  return NULL;
}

static dp_status *set_keys(parse_dataset *dataset, const feature_lists *lists) {
  dp_example_config *config = &dataset->config;
  dataset->keys = DP_NEW_ARRAY(char *, (size_t)config->count + 1);
  int32_t k = 0;
  for (int kind = 0; kind < 3; ++kind)
    for (int32_t i = 0; i < lists->counts[kind]; ++i, ++k) {
      dp_view key = lists->keys[kind]->strings[i];
      if (dp_map_get_n(config->by_key, key.data, key.length))
        return DP_INVALID("Duplicate key not allowed: %.*s", (int)key.length, key.data);
      dataset->keys[k] = dp_strndup(key.data, key.length);
      dp_example_set_key(config, k, (dp_view){dataset->keys[k], key.length});
      config->features[k].dtype = (dp_dtype)lists->types[kind]->types[i];
      if (kind == 2)
        config->features[k].splits = (dp_dtype)lists->splits->types[i];
    }
  return NULL;
}

static dp_status *set_dense(parse_dataset *dataset, dp_op_context *context) {
  dp_example_config *config = &dataset->config;
  DP_RETURN_IF_ERROR(dp_example_read_shapes(context->node, config->dense_count, &dataset->shapes));
  dataset->defaults = dp_element_create(config->dense_count);
  for (int32_t i = 0; i < config->dense_count; ++i) {
    dataset->defaults[i] = dp_tensor_copy(dp_op_input(context, 2 + i));
    DP_RETURN_IF_ERROR(dp_example_set_dense(config, i, &dataset->shapes[i], &dataset->defaults[i]));
  }
  return NULL;
}

static int compare_features(const void *left, const void *right) {
  dp_view a = (*(const dp_example_feature *const *)left)->key;
  dp_view b = (*(const dp_example_feature *const *)right)->key;
  int order = memcmp(a.data, b.data, a.length < b.length ? a.length : b.length);
  return order ? order : a.length < b.length ? -1 : a.length > b.length;
}

static dp_status *set_places(parse_dataset *dataset) {
  const dp_example_config *config = &dataset->config;
  if (dataset->base.component_count != config->count)
    return DP_INVALID("A dataset of %d features has %d components", config->count,
                      dataset->base.component_count);
  size_t count = (size_t)config->count;
  const dp_example_feature **sorted = DP_NEW_ARRAY(const dp_example_feature *, count + 1);
  for (size_t k = 0; k < count; ++k)
    sorted[k] = &config->features[k];
  qsort(sorted, count, sizeof *sorted, compare_features);
  dataset->places = DP_NEW_ARRAY(int32_t, count + 1);
  for (size_t i = 0; i < count; ++i)
    dataset->places[sorted[i] - config->features] = (int32_t)i;
  dp_free(sorted);
  return NULL;
}

/* Either setting keeps the order; another value is refused as TensorFlow does. */
static dp_status *check_order(const dp_node *node) {
  dp_view order;
  if (!dp_node_attr(node, "deterministic"))
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "deterministic", &order));
  if (dp_view_equals(order, "true") || dp_view_equals(order, "false") ||
      dp_view_equals(order, "default"))
    return NULL;
  return DP_INVALID("Unrecognized determinism policy: %.*s", (int)order.length, order.data);
}

static dp_status *set_up(parse_dataset *dataset, dp_op_context *context) {
  feature_lists lists = {0};
  DP_RETURN_IF_ERROR(read_lists(context->node, &lists));
  dp_example_config_init(&dataset->config, lists.counts[0], lists.counts[1], lists.counts[2]);
  DP_RETURN_IF_ERROR(set_dense(dataset, context));
  DP_RETURN_IF_ERROR(set_keys(dataset, &lists));
  DP_RETURN_IF_ERROR(dp_dataset_components_from_node(&dataset->base, context->node));
  return set_places(dataset);
}

static dp_status *parse_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t calls;
  DP_RETURN_IF_ERROR(check_order(context->node));
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "num_parallel_calls", &calls));
  if (calls <= 0 && calls != AUTOTUNE)
    return DP_INVALID("num_parallel_calls must be greater than zero.");
  parse_dataset *dataset = dp_dataset_create(&parse_ops, sizeof(parse_dataset), input);
  dataset->pool = context->device->compute;
  dataset->ahead = calls == AUTOTUNE ? dp_core_count() : calls;
  dp_status *status = set_up(dataset, context);
  return dp_dataset_finish(context, &dataset->base, status);
}

#define ROW(name)                                                                                  \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = parse_compute }
static const dp_kernel rows[] = {
    ROW("ParseExampleDataset"),
    ROW("ParseExampleDatasetV2"),
    ROW("ExperimentalParseExampleDataset"),
};
DP_KERNEL_FAMILY(dataset_parse, rows);
