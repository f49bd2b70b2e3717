/* Simple datasets over the elements of others: Take, Skip, Repeat, Shard, Concatenate and Zip. Also
 * the ops that pass every element on and exist only to tell TensorFlow's optimizer something. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

/* A number or two, whose meaning depends on the kind. */
typedef struct count_dataset {
  dp_dataset base;
  int64_t count, index;
} count_dataset;

typedef struct count_iterator {
  dp_iterator base;
  int64_t position;
  bool is_past;
} count_iterator;

static int64_t count_of(const dp_iterator *iterator) {
  return ((const count_dataset *)iterator->dataset)->count;
}

/* ---- Take ---- */
static dp_status *take_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  count_iterator *iterator = (count_iterator *)base;
  int64_t count = count_of(base);
  if (iterator->is_past || (count >= 0 && iterator->position >= count))
    return NULL;
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
  ++iterator->position;
  iterator->is_past = !*more_out;
  return NULL;
}

static const dp_iterator_ops take_iterator_ops = {sizeof(count_iterator), take_next, NULL};

static int64_t take_cardinality(dp_dataset *dataset) {
  int64_t input = dp_dataset_cardinality(dataset->input), count = ((count_dataset *)dataset)->count;
  if (input == DP_CARDINALITY_UNKNOWN)
    return input;
  if (input == DP_CARDINALITY_INFINITE)
    return count < 0 ? input : count;
  return count < 0 || input < count ? input : count;
}

static const dp_dataset_ops take_ops = {"Take", &take_iterator_ops, take_cardinality, NULL};

/* ---- Skip ---- */
static dp_status *skip_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  count_iterator *iterator = (count_iterator *)base;
  int64_t count = count_of(base);
  if (count < 0) /* skips everything */
    return NULL;
  while (iterator->position < count) {
    DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
    if (!*more_out)
      return NULL;
    dp_element_clear(element, base->dataset->component_count);
    ++iterator->position;
  }
  return dp_iterator_next_input(base, walk, element, more_out);
}

static const dp_iterator_ops skip_iterator_ops = {sizeof(count_iterator), skip_next, NULL};

static int64_t skip_cardinality(dp_dataset *dataset) {
  int64_t input = dp_dataset_cardinality(dataset->input), count = ((count_dataset *)dataset)->count;
  if (input < 0)
    return input;
  return count < 0 || input < count ? 0 : input - count;
}

static const dp_dataset_ops skip_ops = {"Skip", &skip_iterator_ops, skip_cardinality, NULL};

/* ---- Repeat ---- */
static dp_status *repeat_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  count_iterator *iterator = (count_iterator *)base;
  int64_t count = count_of(base);
  while (count < 0 || iterator->position < count) {
    bool is_first = !base->input;
    if (is_first)
      base->input = dp_iterator_over(base, base->dataset->input, iterator->position);
    DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
    if (*more_out)
      return NULL;
    dp_iterator_destroy(base->input);
    base->input = NULL;
    ++iterator->position;
    if (is_first && count < 0) /* an empty input repeated without end */
      return NULL;
  }
  return NULL;
}

static const dp_iterator_ops repeat_iterator_ops = {sizeof(count_iterator), repeat_next, NULL};

static int64_t repeat_cardinality(dp_dataset *dataset) {
  return dp_cardinality_repeat(dp_dataset_cardinality(dataset->input),
                               ((count_dataset *)dataset)->count);
}

static const dp_dataset_ops repeat_ops = {"Repeat", &repeat_iterator_ops, repeat_cardinality, NULL};

/* ---- Shard ---- */
static dp_status *shard_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  count_iterator *iterator = (count_iterator *)base;
  const count_dataset *dataset = (const count_dataset *)base->dataset;
  for (;;) {
    DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
    if (!*more_out || iterator->position++ % dataset->count == dataset->index)
      return NULL;
    dp_element_clear(element, base->dataset->component_count);
  }
}

static const dp_iterator_ops shard_iterator_ops = {sizeof(count_iterator), shard_next, NULL};

static int64_t shard_cardinality(dp_dataset *dataset) {
  int64_t input = dp_dataset_cardinality(dataset->input);
  const count_dataset *shard = (const count_dataset *)dataset;
  return input < 0 ? input : input / shard->count + (shard->index < input % shard->count);
}

static const dp_dataset_ops shard_ops = {"Shard", &shard_iterator_ops, shard_cardinality, NULL};

/* ---- Concatenate ---- */
typedef struct pair_iterator {
  dp_iterator base;
  bool first_ended;
} pair_iterator;

static dp_status *concatenate_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                                   bool *more_out) {
  pair_iterator *iterator = (pair_iterator *)base;
  if (!base->input)
    base->input = dp_iterator_over(base, base->dataset->input, 0);
  if (!iterator->first_ended) {
    DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
    if (*more_out)
      return NULL;
    iterator->first_ended = true;
  }
  if (!base->others)
    dp_iterator_open_others(base, base->dataset, 1);
  return dp_iterator_next(base->others[0], walk, element, more_out);
}

static const dp_iterator_ops concatenate_iterator_ops = {sizeof(pair_iterator), concatenate_next,
                                                         NULL};

static int64_t concatenate_cardinality(dp_dataset *dataset) {
  int64_t first = dp_dataset_cardinality(dataset->input);
  int64_t second = dp_dataset_cardinality(dataset->others.items[0]), sum;
  if (first == DP_CARDINALITY_INFINITE || second == DP_CARDINALITY_INFINITE)
    return DP_CARDINALITY_INFINITE;
  bool is_known = first >= 0 && second >= 0 && !__builtin_add_overflow(first, second, &sum);
  return is_known ? sum : DP_CARDINALITY_UNKNOWN;
}

static const dp_dataset_ops concatenate_ops = {"Concatenate", &concatenate_iterator_ops,
                                               concatenate_cardinality, NULL};

static dp_status *concatenate_compute(dp_op_context *context, void *state) {
  dp_dataset *first, *second;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &first));
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 1, &second));
  if (!dp_dataset_same_dtypes(first, second))
    return DP_INVALID("input dataset and dataset to concatenate have different output_types");
  dp_dataset *dataset = dp_dataset_create(&concatenate_ops, sizeof(dp_dataset), first);
  dp_dataset_add_other(dataset, second);
  for (int32_t i = 0; i < first->component_count; ++i)
    dataset->shapes[i] = dp_dataset_common_shape(&first->shapes[i], &second->shapes[i]);
  return dp_dataset_output(context, 0, dataset);
}

/* ---- Zip: base.others are all its datasets ---- */
static dp_status *zip_next(dp_iterator *iterator, const dp_walk *walk, dp_tensor *element,
                           bool *more_out) {
  const dp_dataset *dataset = iterator->dataset;
  int32_t at = 0;
  for (size_t i = 0; i < dataset->others.count; ++i) {
    DP_RETURN_IF_ERROR(dp_iterator_next(iterator->others[i], walk, element + at, more_out));
    if (!*more_out)
      return NULL; /* the first that ends, ends the whole */
    at += dataset->others.items[i]->component_count;
  }
  return NULL;
}

static const dp_iterator_ops zip_iterator_ops = {sizeof(dp_iterator), zip_next, NULL};

static dp_iterator *zip_iterate(dp_dataset *dataset) {
  dp_iterator *iterator = dp_iterator_create(&zip_iterator_ops);
  dp_iterator_open_others(iterator, dataset, 0);
  return iterator;
}

static int64_t zip_cardinality(dp_dataset *dataset) {
  int64_t least = DP_CARDINALITY_INFINITE;
  for (size_t i = 0; i < dataset->others.count; ++i) {
    int64_t count = dp_dataset_cardinality(dataset->others.items[i]);
    if (count == DP_CARDINALITY_UNKNOWN)
      return count;
    if (count >= 0 && (least < 0 || count < least))
      least = count;
  }
  return least;
}

static const dp_dataset_ops zip_ops = {"Zip", NULL, zip_cardinality, .iterate = zip_iterate};

static dp_status *zip_compute(dp_op_context *context, void *state) {
  dp_dataset *dataset = dp_dataset_create(&zip_ops, sizeof(dp_dataset), NULL);
  int32_t total = 0;
  for (int32_t i = 0; i < context->input_count; ++i) {
    dp_dataset *input;
    dp_status *status = dp_dataset_input(context, i, &input);
    if (status) {
      dp_dataset_release(dataset);
      return status;
    }
    dp_dataset_add_other(dataset, input);
    total += input->component_count;
  }
  dp_dtype *dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)total + 1);
  dp_partial_shape *shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)total + 1);
  int32_t at = 0;
  for (size_t i = 0; i < dataset->others.count; ++i) {
    const dp_dataset *input = dataset->others.items[i];
    memcpy(dtypes + at, input->dtypes, (size_t)input->component_count * sizeof *dtypes);
    memcpy(shapes + at, input->shapes, (size_t)input->component_count * sizeof *shapes);
    at += input->component_count;
  }
  dp_dataset_set_components(dataset, total, dtypes, shapes);
  dp_free(dtypes);
  dp_free(shapes);
  return dp_dataset_output(context, 0, dataset);
}

/* ---- Kernels ---- */
static dp_status *make_counted(dp_op_context *context, const dp_dataset_ops *ops,
                               const char *label) {
  dp_dataset *input;
  int64_t count;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "count", &count));
  count_dataset *dataset = dp_dataset_create(ops, sizeof(count_dataset), input);
  dataset->count = count;
  dataset->base.label = ops == &repeat_ops && count < 0 ? "ForeverRepeat" : label;
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *take_compute(dp_op_context *context, void *state) {
  return make_counted(context, &take_ops, "FiniteTake");
}

static dp_status *skip_compute(dp_op_context *context, void *state) {
  return make_counted(context, &skip_ops, "FiniteSkip");
}

static dp_status *repeat_compute(dp_op_context *context, void *state) {
  return make_counted(context, &repeat_ops, "FiniteRepeat");
}

static dp_status *shard_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t count, index;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "num_shards", &count));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 2, "index", &index));
  if (count <= 0)
    return DP_INVALID("Number of shards must be greater than zero (currently num_shards = %lld).",
                      (long long)count);
  if (index < 0 || index >= count)
    return DP_INVALID("Index must be between 0 and %lld (currently index = %lld).",
                      (long long)count - 1, (long long)index);
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  count_dataset *dataset = dp_dataset_create(&shard_ops, sizeof(count_dataset), input);
  dataset->count = count;
  dataset->index = index;
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *pass_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  dp_op_pass(context, 0, 0);
  return NULL;
}

/* Passes elements on. The number of threads is checked and ignored: we choose it. */
static dp_status *threads_compute(dp_op_context *context, void *state) {
  int64_t count;
  const char *name = context->node->op->inputs[1].name;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, name, &count));
  if (count < 0)
    return DP_INVALID("`%s` must be >= 0", name);
  return pass_compute(context, state);
}

/* Passes elements on. The tag for statistics is checked and ignored. */
static dp_status *tagged_compute(dp_op_context *context, void *state) {
  if (dp_op_input(context, 1)->shape.rank != 0)
    return DP_INVALID("tag must be a scalar");
  return pass_compute(context, state);
}

/* Passes elements on. The name of an optimizer's rewrite is checked and ignored. */
static dp_status *rewrite_compute(dp_op_context *context, void *state) {
  if (dp_op_input(context, 1)->shape.rank != 0)
    return DP_INVALID("rewrite_name must be a scalar");
  return pass_compute(context, state);
}

#define TAGGED(name)                                                                               \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = tagged_compute }
#define THREADS(name)                                                                              \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = threads_compute }
#define PASS(name)                                                                                 \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = pass_compute }
static const dp_kernel rows[] = {
    {.op = "TakeDataset", .flags = DP_KERNEL_CHEAP, .compute = take_compute},
    {.op = "SkipDataset", .flags = DP_KERNEL_CHEAP, .compute = skip_compute},
    {.op = "RepeatDataset", .flags = DP_KERNEL_CHEAP, .compute = repeat_compute},
    {.op = "ShardDataset", .flags = DP_KERNEL_CHEAP, .compute = shard_compute},
    {.op = "ConcatenateDataset", .flags = DP_KERNEL_CHEAP, .compute = concatenate_compute},
    {.op = "ZipDataset", .flags = DP_KERNEL_CHEAP, .compute = zip_compute},
    PASS("OptimizeDataset"),
    PASS("OptimizeDatasetV2"),
    PASS("ModelDataset"),
    PASS("OptionsDataset"),
    PASS("FinalizeDataset"),
    PASS("NonSerializableDataset"),
    PASS("ExperimentalNonSerializableDataset"),
    PASS("AssertNextDataset"),
    PASS("ExperimentalAssertNextDataset"),
    TAGGED("LatencyStatsDataset"),
    TAGGED("ExperimentalLatencyStatsDataset"),
    TAGGED("BytesProducedStatsDataset"),
    TAGGED("ExperimentalBytesProducedStatsDataset"),
    PASS("SetStatsAggregatorDataset"),
    PASS("ExperimentalSetStatsAggregatorDataset"),
    {.op = "RewriteDataset", .flags = DP_KERNEL_CHEAP, .compute = rewrite_compute},
    THREADS("MaxIntraOpParallelismDataset"),
    THREADS("ExperimentalMaxIntraOpParallelismDataset"),
    THREADS("PrivateThreadPoolDataset"),
    THREADS("ExperimentalPrivateThreadPoolDataset"),
    PASS("ThreadPoolDataset"),
    PASS("ExperimentalThreadPoolDataset"),
};
DP_KERNEL_FAMILY(dataset_simple, rows);
