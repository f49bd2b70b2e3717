/* Candidate samplers for sampled losses: draw classes from a distribution over [0, range), and
 * compute the expected counts of the drawn and of the true classes; also ComputeAccidentalHits.
 *
 * Distributions: uniform, log-uniform (Zipf's law), unigrams learned from the true classes seen so
 * far, given unigrams, and all classes. Draws equal TensorFlow's. A sampler that learns keeps its
 * weights in a tree of sums behind a lock; the others never change. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/models/alias_internal.h"
#include "kernels/shared/family.h"
#include "storage/file.h"

typedef struct sampler sampler;
typedef struct sampler_kind {
  const char *op;
  int64_t (*draw)(const sampler *sampler, dp_random_words *words);
  float (*probability)(const sampler *sampler, int64_t value);
  dp_status *(*init)(sampler *sampler, const dp_node *node);
} sampler_kind;

struct sampler {
  dp_random_source source;
  const sampler_kind *kind;
  int64_t range, drawn, true_count;
  bool is_unique;
  double log_range;
  /* Given unigrams. */
  float *weights;
  dp_alias alias;
  float total;
  /* Learned unigrams: a heap of sums, whose leaves start at index `leaves`. */
  bool learns;
  pthread_mutex_t lock;
  int32_t *sums;
  int64_t leaves;
};

/* ---- Uniform and log-uniform ---- */
static int64_t draw_uniform(const sampler *sampler, dp_random_words *words) {
  return (int64_t)dp_random_below64(words, (uint64_t)sampler->range);
}

static float uniform_probability(const sampler *sampler, int64_t value) {
  return (float)(1.0 / (double)sampler->range);
}

static int64_t draw_log_uniform(const sampler *sampler, dp_random_words *words) {
  int64_t value = (int64_t)exp(dp_random_double(words) * sampler->log_range) - 1;
  return value % sampler->range;
}

static float log_uniform_probability(const sampler *sampler, int64_t value) {
  return (float)(log(((double)value + 2.0) / ((double)value + 1.0)) / sampler->log_range);
}

/* ---- Learned unigrams ---- */
static dp_status *init_learned(sampler *sampler, const dp_node *node) {
  if (sampler->range >= INT32_MAX)
    return DP_INVALID("range_max must be less than %d, got %lld", INT32_MAX,
                      (long long)sampler->range);
  sampler->leaves = 1;
  while (sampler->leaves < sampler->range)
    sampler->leaves *= 2;
  sampler->sums = dp_try_malloc((size_t)sampler->leaves * 2 * sizeof(int32_t));
  if (!sampler->sums)
    return dp_status_out_of_memory();
  for (int64_t i = 0; i < sampler->leaves; ++i)
    sampler->sums[sampler->leaves + i] = i < sampler->range;
  for (int64_t i = sampler->leaves - 1; i > 0; --i)
    sampler->sums[i] = sampler->sums[2 * i] + sampler->sums[2 * i + 1];
  pthread_mutex_init(&sampler->lock, NULL);
  sampler->learns = true;
  return NULL;
}

static int64_t draw_learned(const sampler *sampler, dp_random_words *words) {
  int32_t position = (int32_t)dp_random_below(words, (uint32_t)sampler->sums[1]);
  int64_t at = 1;
  while (at < sampler->leaves) {
    at *= 2;
    if (position >= sampler->sums[at])
      position -= sampler->sums[at++];
  }
  return at - sampler->leaves;
}

static float learned_probability(const sampler *sampler, int64_t value) {
  return (float)sampler->sums[sampler->leaves + value] / (float)sampler->sums[1];
}

static void learn(sampler *sampler, const int64_t *values, int64_t count) {
  int64_t room = INT32_MAX - sampler->sums[1];
  for (int64_t i = 0; i < count && i < room; ++i)
    for (int64_t at = sampler->leaves + values[i]; at > 0; at /= 2)
      sampler->sums[at]++;
}

/* ---- Given unigrams ---- */
typedef struct weight_list {
  float *weights;
  int64_t count, capacity;
  int64_t word, shards, shard;
  float total, distortion;
} weight_list;

static void add_weight(weight_list *list, float weight) {
  if (list->count < list->capacity)
    list->weights[list->count] = weight;
  ++list->count;
}

static void add_unigram(weight_list *list, float weight) {
  if (list->word++ % list->shards != list->shard)
    return;
  float distorted = powf(weight, list->distortion);
  list->total += distorted;
  add_weight(list, distorted);
}

/* A line is a weight, or ends with a comma and the weight. */
static dp_status *read_vocabulary(weight_list *list, const char *path) {
  char *text;
  size_t length;
  DP_RETURN_IF_ERROR(dp_file_read_whole(path, UINT64_C(4) << 30, &text, &length));
  dp_status *status = NULL;
  for (char *line = text, *limit = text + length; line < limit && !status;) {
    char *end = memchr(line, '\n', (size_t)(limit - line));
    end = end ? end : limit;
    dp_view view = {line, (size_t)(end - line)};
    const char *comma = memrchr(view.data, ',', view.length);
    const char *number = comma ? comma + 1 : line;
    char digits[64] = {0}, *stop = digits;
    size_t size = (size_t)(end - number);
    if (size > 0 && size < sizeof digits)
      memcpy(digits, number, size);
    float weight = strtof(digits, &stop);
    while (*stop == ' ' || *stop == '\r')
      ++stop;
    if (view.length && (stop == digits || *stop))
      status = DP_INVALID("Wrong vocabulary format at line: %.*s",
                          (int)(view.length > 200 ? 200 : view.length), view.data);
    else if (view.length)
      add_unigram(list, weight);
    line = end + 1;
  }
  dp_free(text);
  return status;
}

static dp_status *read_unigrams(weight_list *list, const dp_node *node) {
  dp_view path;
  const dp_attr *unigrams;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "vocab_file", &path));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "unigrams", DP_ATTR_LIST_FLOAT, &unigrams));
  if (!path.length && !unigrams->count)
    return DP_INVALID("Must provide either vocab_file or unigrams.");
  if (path.length && unigrams->count)
    return DP_INVALID("Must only provide one of vocab_file and unigrams.");
  for (int32_t i = 0; i < unigrams->count; ++i)
    add_unigram(list, unigrams->numbers[i]);
  if (!path.length)
    return NULL;
  char *name = dp_strndup(path.data, path.length);
  dp_status *status = read_vocabulary(list, name);
  dp_free(name);
  return status;
}

static dp_status *init_fixed(sampler *sampler, const dp_node *node) {
  int64_t reserved;
  weight_list list = {.capacity = sampler->range};
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "distortion", &list.distortion));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "num_reserved_ids", &reserved));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "num_shards", &list.shards));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "shard", &list.shard));
  if (list.shards < 1)
    return DP_INVALID("num_shards must be positive, got %lld", (long long)list.shards);
  if (sampler->range > INT32_MAX)
    return DP_INVALID("range_max %lld is too large", (long long)sampler->range);
  list.weights = sampler->weights = dp_try_malloc((size_t)sampler->range * sizeof(float));
  if (!sampler->weights)
    return dp_status_out_of_memory();
  for (int64_t i = 0; i < reserved && list.count <= list.capacity; ++i)
    if (i % list.shards == list.shard)
      add_weight(&list, 0);
  list.word = list.count;
  DP_RETURN_IF_ERROR(read_unigrams(&list, node));
  if (list.count != sampler->range)
    return DP_INVALID("range is %lld while weights size is %lld", (long long)sampler->range,
                      (long long)list.count);
  sampler->total = list.total;
  return dp_alias_init(&sampler->alias, sampler->weights, (int32_t)sampler->range);
}

static int64_t draw_fixed(const sampler *sampler, dp_random_words *words) {
  return dp_alias_draw(&sampler->alias, words);
}

static float fixed_probability(const sampler *sampler, int64_t value) {
  return value < 0 || value >= sampler->range ? 0 : sampler->weights[value] / sampler->total;
}

/* ---- Making a sampler ---- */
static const sampler_kind sampler_kinds[] = {
    {"UniformCandidateSampler", draw_uniform, uniform_probability, NULL},
    {"LogUniformCandidateSampler", draw_log_uniform, log_uniform_probability, NULL},
    {"LearnedUnigramCandidateSampler", draw_learned, learned_probability, init_learned},
    {"ThreadUnsafeUnigramCandidateSampler", draw_learned, learned_probability, init_learned},
    {"FixedUnigramCandidateSampler", draw_fixed, fixed_probability, init_fixed},
    {"AllCandidateSampler", NULL, NULL, NULL},
};

static dp_status *sampler_create(const dp_kernel_setup *setup, void *memory) {
  sampler *sampler = memory;
  const dp_node *node = setup->node;
  for (size_t i = 0; i < sizeof sampler_kinds / sizeof sampler_kinds[0]; ++i)
    if (dp_node_is(node, sampler_kinds[i].op))
      sampler->kind = &sampler_kinds[i];
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "num_sampled", &sampler->drawn));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "num_true", &sampler->true_count));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "unique", &sampler->is_unique));
  DP_RETURN_IF_ERROR(dp_random_source_init(&sampler->source, setup));
  sampler->range = sampler->drawn;
  if (dp_node_attr(node, "range_max"))
    DP_RETURN_IF_ERROR(dp_node_get_int(node, "range_max", &sampler->range));
  if (sampler->range < 1)
    return DP_INVALID("range must be positive, got %lld", (long long)sampler->range);
  sampler->log_range = log1p((double)sampler->range);
  return sampler->kind->init ? sampler->kind->init(sampler, node) : NULL;
}

static void sampler_destroy(void *memory) {
  sampler *sampler = memory;
  dp_random_source_deinit(&sampler->source);
  if (sampler->learns)
    pthread_mutex_destroy(&sampler->lock);
  dp_free(sampler->sums);
  dp_free(sampler->weights);
  dp_alias_deinit(&sampler->alias);
}

/* ---- Drawing ---- */
/* A set of classes by open addressing; -1 is a free slot. */
typedef struct class_set {
  int64_t *slots;
  uint64_t mask;
} class_set;

static dp_status *class_set_init(class_set *set, int64_t count) {
  uint64_t size = 16;
  while (size < (uint64_t)count * 2)
    size *= 2;
  set->mask = size - 1;
  set->slots = dp_try_malloc(size * sizeof(int64_t));
  if (!set->slots)
    return dp_status_out_of_memory();
  memset(set->slots, 0xff, size * sizeof(int64_t));
  return NULL;
}

/* The slot that holds a value, or the free slot where it belongs. */
static uint64_t class_set_find(const class_set *set, int64_t value) {
  uint64_t at = (uint64_t)value * 0x9E3779B97F4A7C15u >> 20 & set->mask;
  while (set->slots[at] != -1 && set->slots[at] != value)
    at = (at + 1) & set->mask;
  return at;
}

static dp_status *draw_unique(const sampler *sampler, dp_random_words *words, int64_t *to,
                              int64_t *tries_out) {
  class_set used;
  DP_RETURN_IF_ERROR(class_set_init(&used, sampler->drawn));
  int64_t picked = 0, tries = 0;
  while (picked < sampler->drawn && tries < INT32_MAX) {
    int64_t value = sampler->kind->draw(sampler, words);
    ++tries;
    uint64_t slot = class_set_find(&used, value);
    if (used.slots[slot] == value)
      continue;
    used.slots[slot] = value;
    to[picked++] = value;
  }
  dp_free(used.slots);
  *tries_out = tries;
  return picked == sampler->drawn
             ? NULL
             : dp_status_create(DP_INTERNAL, "could not draw %lld different classes",
                                (long long)sampler->drawn);
}

/* The expected number of times that a class of probability p is drawn. If draws are repeated until
 * all are different: the probability that the class is among them. */
static float expected_count(float p, int64_t drawn, int64_t tries) {
  if (tries == drawn)
    return p * (float)drawn;
  return -expm1f((float)tries * log1pf(-p));
}

static dp_status *draw_all(sampler *sampler, dp_random_words *words, const dp_tensor *classes,
                           dp_tensor *const *outputs) {
  int64_t *candidates = outputs[0]->data, tries = sampler->drawn;
  float *true_counts = outputs[1]->data, *counts = outputs[2]->data;
  const int64_t *values = classes->data;
  int64_t true_total = classes->shape.elements;
  if (!sampler->kind->draw) {
    for (int64_t i = 0; i < sampler->drawn; ++i) {
      candidates[i] = i;
      counts[i] = 1;
    }
    for (int64_t i = 0; i < true_total; ++i)
      true_counts[i] = 1;
    return NULL;
  }
  if (sampler->is_unique)
    DP_RETURN_IF_ERROR(draw_unique(sampler, words, candidates, &tries));
  else
    for (int64_t i = 0; i < sampler->drawn; ++i)
      candidates[i] = sampler->kind->draw(sampler, words);
  for (int64_t i = 0; i < sampler->drawn; ++i)
    counts[i] =
        expected_count(sampler->kind->probability(sampler, candidates[i]), sampler->drawn, tries);
  for (int64_t i = 0; i < true_total; ++i)
    true_counts[i] =
        expected_count(sampler->kind->probability(sampler, values[i]), sampler->drawn, tries);
  return NULL;
}

static dp_status *check_classes(const sampler *sampler, const dp_tensor *classes) {
  if (classes->shape.rank != 2)
    return DP_INVALID("true_classes must be a matrix");
  if (classes->shape.dims[1] != sampler->true_count)
    return DP_INVALID("true_classes must have num_true columns, expected: %lld was: %lld",
                      (long long)classes->shape.dims[1], (long long)sampler->true_count);
  if (sampler->is_unique && sampler->drawn > sampler->range)
    return DP_INVALID("Sampler's range is too small.");
  const int64_t *values = classes->data;
  for (int64_t i = 0; sampler->learns && i < classes->shape.elements; ++i)
    if (values[i] < 0 || values[i] >= sampler->range)
      return DP_INVALID("`true_candidate` out of range [0, %lld), received %lld",
                        (long long)sampler->range, (long long)values[i]);
  return NULL;
}

static dp_status *sampler_compute(dp_op_context *context, void *memory) {
  sampler *sampler = memory;
  const dp_tensor *classes = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(check_classes(sampler, classes));
  dp_shape drawn = dp_shape_vector(sampler->drawn);
  dp_tensor *outputs[3];
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &drawn, &outputs[0]));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &classes->shape, &outputs[1]));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &drawn, &outputs[2]));
  dp_philox generator;
  DP_RETURN_IF_ERROR(dp_random_source_take(context, &sampler->source,
                                           (uint64_t)sampler->drawn * 2048 / 4, &generator));
  dp_random_words words = dp_random_words_of(&generator);
  if (!sampler->learns)
    return draw_all(sampler, &words, classes, outputs);
  pthread_mutex_lock(&sampler->lock);
  dp_status *status = draw_all(sampler, &words, classes, outputs);
  if (!status)
    learn(sampler, classes->data, classes->shape.elements);
  pthread_mutex_unlock(&sampler->lock);
  return status;
}

/* ---- Hits ---- */
typedef struct hit_list {
  DP_ARRAY(int32_t) rows;
  DP_ARRAY(int64_t) places;
} hit_list;

/* If several candidates are equal, the last one counts. */
static dp_status *find_hits(const dp_tensor *classes, const dp_tensor *candidates, hit_list *hits) {
  const int64_t *drawn = candidates->data, *values = classes->data;
  int64_t count = candidates->shape.elements, width = classes->shape.dims[1];
  class_set set;
  DP_RETURN_IF_ERROR(class_set_init(&set, count));
  int64_t *places = dp_try_malloc((size_t)(set.mask + 1) * sizeof(int64_t));
  if (!places) {
    dp_free(set.slots);
    return dp_status_out_of_memory();
  }
  for (int64_t i = 0; i < count; ++i) {
    uint64_t slot = class_set_find(&set, drawn[i]);
    set.slots[slot] = drawn[i];
    places[slot] = i;
  }
  for (int64_t i = 0; i < classes->shape.elements; ++i) {
    uint64_t slot = class_set_find(&set, values[i]);
    if (set.slots[slot] != values[i] || values[i] == -1)
      continue;
    DP_ARRAY_PUSH(&hits->rows, (int32_t)(i / width));
    DP_ARRAY_PUSH(&hits->places, places[slot]);
  }
  dp_free(places);
  dp_free(set.slots);
  return NULL;
}

static dp_status *output_hits(dp_op_context *context, const hit_list *hits) {
  dp_shape shape = dp_shape_vector((int64_t)hits->rows.count);
  dp_tensor *indices, *ids, *weights;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &ids));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &shape, &weights));
  for (size_t i = 0; i < hits->rows.count; ++i) {
    ((int32_t *)indices->data)[i] = hits->rows.items[i];
    ((int64_t *)ids->data)[i] = hits->places.items[i];
    ((float *)weights->data)[i] = -FLT_MAX;
  }
  return NULL;
}

static dp_status *hits_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_int(setup->node, "num_true", memory);
}

static dp_status *hits_compute(dp_op_context *context, void *memory) {
  const dp_tensor *classes = dp_op_input(context, 0), *candidates = dp_op_input(context, 1);
  if (classes->shape.rank != 2 || classes->shape.dims[1] != *(const int64_t *)memory)
    return DP_INVALID("true_candidates must be a batch_size * num_true matrix");
  if (candidates->shape.rank != 1)
    return DP_INVALID("sampled_candidates must be a vector, which is typically an output from "
                      "CandidateSampler");
  hit_list hits = {0};
  dp_status *status = find_hits(classes, candidates, &hits);
  if (!status)
    status = output_hits(context, &hits);
  DP_ARRAY_FREE(&hits.rows);
  DP_ARRAY_FREE(&hits.places);
  return status;
}

/* clang-format off */
#define SAMPLER(name)                                                                              \
  {.op = name, .state_size = sizeof(sampler), .create = sampler_create,                            \
   .compute = sampler_compute, .destroy = sampler_destroy}

static const dp_kernel rows[] = {
    SAMPLER("UniformCandidateSampler"),
    SAMPLER("LogUniformCandidateSampler"),
    SAMPLER("LearnedUnigramCandidateSampler"),
    SAMPLER("ThreadUnsafeUnigramCandidateSampler"),
    SAMPLER("FixedUnigramCandidateSampler"),
    SAMPLER("AllCandidateSampler"),
    {.op = "ComputeAccidentalHits", .state_size = sizeof(int64_t), .create = hits_create,
     .compute = hits_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(candidate_samplers, rows);
