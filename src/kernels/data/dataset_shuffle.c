/* Shuffle, ShuffleAndRepeat and Random.
 *
 * Shuffling keeps a buffer of elements and draws from it at random, in exactly the order that
 * TensorFlow draws with the same seeds. The buffer may hold elements of several epochs; those of
 * the oldest epoch go first. When every iteration must differ, a generator of seeds gives each
 * iterator seeds of its own. The generator belongs to the dataset, or is a resource that several
 * datasets share. */
#include <string.h>
#include "base/philox.h"
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

#define MAX_EPOCHS 3

/* Philox, one 32-bit number at a time. */
typedef struct source {
  dp_philox philox;
  uint32_t words[4];
  int used;
} source;

static void source_init(source *source, uint64_t seed, uint64_t seed2) {
  source->philox = dp_philox_seed(seed, seed2);
  source->used = 4;
}

static uint32_t source_next(source *source) {
  if (source->used == 4) {
    dp_philox_next(&source->philox, source->words);
    source->used = 0;
  }
  return source->words[source->used++];
}

/* ---- Generators of seeds ---- */
typedef struct seed_generator {
  dp_resource resource;
  pthread_mutex_t lock;
  uint64_t seed, seed2;
  bool is_fixed; /* gives the same seeds each time */
  source source;
} seed_generator;

static void generator_destroy(dp_resource *resource) {
  pthread_mutex_destroy(&((seed_generator *)resource)->lock);
  dp_free(resource);
}

static const dp_resource_ops generator_ops = {"N10tensorflow4data13SeedGeneratorE",
                                              generator_destroy, NULL};

static seed_generator *generator_create(int64_t seed, int64_t seed2, bool is_fixed) {
  seed_generator *generator = DP_NEW(seed_generator);
  dp_resource_init(&generator->resource, &generator_ops);
  pthread_mutex_init(&generator->lock, NULL);
  if (seed == 0 && seed2 == 0) {
    seed = (int64_t)dp_random_seed();
    seed2 = (int64_t)dp_random_seed();
  }
  generator->seed = (uint64_t)seed;
  generator->seed2 = (uint64_t)seed2;
  generator->is_fixed = is_fixed;
  source_init(&generator->source, generator->seed, generator->seed2);
  return generator;
}

static void generator_next(seed_generator *generator, uint64_t *seed_out, uint64_t *seed2_out) {
  pthread_mutex_lock(&generator->lock);
  *seed_out = generator->is_fixed ? generator->seed : source_next(&generator->source);
  *seed2_out = generator->is_fixed ? generator->seed2 : source_next(&generator->source);
  pthread_mutex_unlock(&generator->lock);
}

/* The whole state of a generator as numbers: seeds, counter, key, the words that Philox has made
 * and how many of them are used. */
#define SEED_NUMBERS 14
static void generator_save(seed_generator *generator, dp_seed_list *list) {
  pthread_mutex_lock(&generator->lock);
  const source *source = &generator->source;
  int64_t numbers[SEED_NUMBERS] = {(int64_t)generator->seed, (int64_t)generator->seed2,
                                   generator->is_fixed, source->used};
  for (int i = 0; i < 4; ++i) {
    numbers[4 + i] = source->philox.counter[i];
    numbers[8 + i] = source->words[i];
  }
  numbers[12] = source->philox.key[0];
  numbers[13] = source->philox.key[1];
  pthread_mutex_unlock(&generator->lock);
  for (int i = 0; i < SEED_NUMBERS; ++i)
    DP_ARRAY_PUSH(&list->numbers, numbers[i]);
}

static void generator_load(seed_generator *generator, dp_seed_list *list) {
  if (list->numbers.count - list->next < SEED_NUMBERS)
    return;
  const int64_t *numbers = list->numbers.items + list->next;
  list->next += SEED_NUMBERS;
  pthread_mutex_lock(&generator->lock);
  source *source = &generator->source;
  generator->seed = (uint64_t)numbers[0];
  generator->seed2 = (uint64_t)numbers[1];
  generator->is_fixed = numbers[2] != 0;
  source->used = numbers[3] >= 0 && numbers[3] < 4 ? (int)numbers[3] : 4;
  for (int i = 0; i < 4; ++i) {
    source->philox.counter[i] = (uint32_t)numbers[4 + i];
    source->words[i] = (uint32_t)numbers[8 + i];
  }
  source->philox.key[0] = (uint32_t)numbers[12];
  source->philox.key[1] = (uint32_t)numbers[13];
  pthread_mutex_unlock(&generator->lock);
}

/* ---- The dataset ---- */
typedef struct shuffle_dataset {
  dp_dataset base;
  int64_t size, count;       /* size of the buffer; repetitions, -1: without end */
  seed_generator *generator; /* retained */
} shuffle_dataset;

typedef struct epoch {
  int64_t begin, end; /* positions; position % size is a slot of the buffer */
} epoch;

typedef struct shuffle_iterator {
  dp_iterator base;
  source source;
  dp_tensor **buffer; /* grows up to `size` slots */
  int64_t capacity;
  int64_t elements, epochs_done;
  epoch epochs[MAX_EPOCHS + 2];
  int epoch_count;
  bool input_ended, has_data;
} shuffle_iterator;

static shuffle_dataset *dataset_of(const shuffle_iterator *iterator) {
  return (shuffle_dataset *)iterator->base.dataset;
}

/* The slot of a position. The buffer grows as it fills, so that a huge size costs no memory by
 * itself. Before it has `size` slots, no position has wrapped. */
static dp_tensor **slot_of(shuffle_iterator *iterator, int64_t position) {
  int64_t size = dataset_of(iterator)->size, index = position % size;
  if (index >= iterator->capacity) {
    int64_t capacity = iterator->capacity ? iterator->capacity * 2 : 64;
    while (capacity <= index)
      capacity *= 2;
    if (capacity > size)
      capacity = size;
    iterator->buffer = dp_realloc(iterator->buffer, (size_t)capacity * sizeof(dp_tensor *));
    memset(iterator->buffer + iterator->capacity, 0,
           (size_t)(capacity - iterator->capacity) * sizeof(dp_tensor *));
    iterator->capacity = capacity;
  }
  return &iterator->buffer[index];
}

/* The next element of the input; starts the next epoch when one ends. */
static dp_status *next_element(shuffle_iterator *iterator, const dp_walk *walk, dp_tensor *element,
                               bool *more_out) {
  dp_iterator *base = &iterator->base;
  int64_t count = dataset_of(iterator)->count;
  *more_out = false;
  while (count == -1 || iterator->epochs_done < count) {
    DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
    if (*more_out) {
      iterator->has_data = true;
      return NULL;
    }
    if (!iterator->has_data && count == -1)
      return NULL; /* an empty input that repeats without end */
    ++iterator->epochs_done;
    dp_iterator_destroy(base->input);
    base->input = NULL;
    int64_t end = iterator->epochs[iterator->epoch_count - 1].end;
    iterator->epochs[iterator->epoch_count++] = (epoch){end, end};
    if (iterator->epoch_count > MAX_EPOCHS)
      return NULL;
  }
  return NULL;
}

static dp_status *fill(shuffle_iterator *iterator, const dp_walk *walk) {
  shuffle_dataset *dataset = dataset_of(iterator);
  while (!iterator->input_ended && iterator->elements < dataset->size &&
         iterator->epoch_count <= MAX_EPOCHS) {
    dp_tensor *element = dp_element_create(dataset->base.component_count);
    bool more;
    dp_status *status = next_element(iterator, walk, element, &more);
    if (status || !more) {
      dp_free(element);
      DP_RETURN_IF_ERROR(status);
      if (iterator->epoch_count <= MAX_EPOCHS)
        iterator->input_ended = true;
      break;
    }
    epoch *last = &iterator->epochs[iterator->epoch_count - 1];
    *slot_of(iterator, last->end++) = element;
    ++iterator->elements;
  }
  return NULL;
}

static void reseed(shuffle_iterator *iterator) {
  uint64_t seed, seed2;
  generator_next(dataset_of(iterator)->generator, &seed, &seed2);
  source_init(&iterator->source, seed, seed2);
}

static dp_status *shuffle_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                               bool *more_out) {
  shuffle_iterator *iterator = (shuffle_iterator *)base;
  DP_RETURN_IF_ERROR(fill(iterator, walk));
  if (iterator->elements == 0)
    return NULL;
  while (iterator->epochs[0].begin == iterator->epochs[0].end) {
    --iterator->epoch_count;
    memmove(iterator->epochs, iterator->epochs + 1,
            (size_t)iterator->epoch_count * sizeof *iterator->epochs);
    reseed(iterator); /* each epoch has seeds of its own */
  }
  epoch *oldest = &iterator->epochs[0];
  int64_t offset = source_next(&iterator->source) % (oldest->end - oldest->begin);
  dp_tensor **drawn = slot_of(iterator, oldest->begin + offset);
  dp_tensor **head = slot_of(iterator, oldest->begin);
  dp_tensor *chosen = *drawn;
  *drawn = *head;
  *head = NULL;
  ++oldest->begin;
  --iterator->elements;
  for (int32_t i = 0; i < base->dataset->component_count; ++i)
    element[i] = dp_tensor_take(&chosen[i]);
  dp_free(chosen);
  *more_out = true;
  return NULL;
}

static void shuffle_iterator_destroy(dp_iterator *base) {
  shuffle_iterator *iterator = (shuffle_iterator *)base;
  for (int64_t i = 0; i < iterator->capacity; ++i)
    dp_element_destroy(iterator->buffer[i], base->dataset->component_count);
  dp_free(iterator->buffer);
}

static const dp_iterator_ops shuffle_iterator_ops = {sizeof(shuffle_iterator), shuffle_next,
                                                     shuffle_iterator_destroy};

static dp_iterator *shuffle_iterate(dp_dataset *base) {
  shuffle_iterator *iterator = dp_iterator_create(&shuffle_iterator_ops);
  uint64_t seed, seed2;
  generator_next(((shuffle_dataset *)base)->generator, &seed, &seed2);
  source_init(&iterator->source, seed, seed2);
  iterator->epoch_count = 1;
  return &iterator->base;
}

static int64_t shuffle_cardinality(dp_dataset *base) {
  return dp_cardinality_repeat(dp_dataset_cardinality(base->input),
                               ((shuffle_dataset *)base)->count);
}

static void shuffle_destroy(dp_dataset *base) {
  dp_resource_release(((shuffle_dataset *)base)->generator);
}

static void shuffle_save(dp_dataset *base, dp_seed_list *seeds) {
  generator_save(((shuffle_dataset *)base)->generator, seeds);
}

static void shuffle_load(dp_dataset *base, dp_seed_list *seeds) {
  generator_load(((shuffle_dataset *)base)->generator, seeds);
}

static const dp_dataset_ops shuffle_ops = {
    "Shuffle",    NULL,         shuffle_cardinality,       shuffle_destroy,
    shuffle_save, shuffle_load, .iterate = shuffle_iterate};

/* ---- Kernels ---- */
/* The size of the buffer. A size that stands for "unknown" means that all elements fit. */
static dp_status *read_size(dp_op_context *context, int64_t *size_out) {
  int64_t size;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "buffer_size", &size));
  if (size <= 0 && size != DP_CARDINALITY_UNKNOWN)
    return DP_INVALID("buffer_size must be greater than zero or UNKNOWN_CARDINALITY");
  *size_out = size == DP_CARDINALITY_UNKNOWN ? INT64_MAX : size;
  return NULL;
}

/* Consumes `generator`. */
static dp_status *make_shuffled(dp_op_context *context, int64_t count, seed_generator *generator,
                                const char *label) {
  dp_dataset *input;
  int64_t size;
  dp_status *status = dp_dataset_input(context, 0, &input);
  if (!status)
    status = read_size(context, &size);
  if (!status && count <= 0 && count != -1)
    status = DP_INVALID("count must be greater than zero or equal to -1.");
  if (status) {
    dp_resource_release(generator);
    return status;
  }
  shuffle_dataset *dataset = dp_dataset_create(&shuffle_ops, sizeof(shuffle_dataset), input);
  dataset->size = size;
  dataset->count = count;
  dataset->generator = generator;
  dataset->base.label = label;
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *own_generator(dp_op_context *context, seed_generator **generator_out) {
  int64_t seed, seed2;
  bool reshuffles;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 2, "seed", &seed));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 3, "seed2", &seed2));
  DP_RETURN_IF_ERROR(dp_node_get_bool(context->node, "reshuffle_each_iteration", &reshuffles));
  *generator_out = generator_create(seed, seed2, !reshuffles);
  return NULL;
}

/* The generator behind a handle. Where the handle has no object, a new one: with the node's seeds
 * in V3, with random seeds in V2. */
static dp_status *shared_generator(dp_op_context *context, int32_t slot,
                                   seed_generator **generator_out) {
  dp_status *status = dp_op_resource(context, slot, &generator_ops, (dp_resource **)generator_out);
  if (dp_status_code(status) != DP_NOT_FOUND)
    return status;
  dp_status_release(status);
  if (context->input_count >= 5)
    return own_generator(context, generator_out);
  *generator_out = generator_create(0, 0, false);
  return NULL;
}

static dp_status *shuffle_compute(dp_op_context *context, void *state) {
  seed_generator *generator;
  DP_RETURN_IF_ERROR(own_generator(context, &generator));
  return make_shuffled(context, 1, generator, "Shuffle");
}

static dp_status *shuffle_v2_compute(dp_op_context *context, void *state) {
  seed_generator *generator;
  int64_t size;
  DP_RETURN_IF_ERROR(read_size(context, &size)); /* its error comes before that of a bad handle */
  DP_RETURN_IF_ERROR(shared_generator(context, 2, &generator));
  return make_shuffled(context, 1, generator, "Shuffle");
}

static dp_status *shuffle_v3_compute(dp_op_context *context, void *state) {
  seed_generator *generator;
  DP_RETURN_IF_ERROR(shared_generator(context, 4, &generator));
  return make_shuffled(context, 1, generator, "Shuffle");
}

static dp_status *repeat_compute(dp_op_context *context, void *state) {
  seed_generator *generator;
  int64_t count;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 4, "count", &count));
  DP_RETURN_IF_ERROR(own_generator(context, &generator));
  return make_shuffled(context, count, generator, "ShuffleAndRepeat");
}

static dp_status *repeat_v2_compute(dp_op_context *context, void *state) {
  seed_generator *generator;
  int64_t count;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 4, "count", &count));
  DP_RETURN_IF_ERROR(shared_generator(context, 5, &generator));
  return make_shuffled(context, count, generator, "ShuffleAndRepeat");
}

/* ---- Random: 32-bit numbers without end ---- */
typedef struct random_dataset {
  dp_dataset base;
  seed_generator *generator; /* retained */
} random_dataset;

typedef struct random_iterator {
  dp_iterator base;
  source source;
} random_iterator;

static dp_status *random_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  dp_shape shape = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, &element[0]));
  *(int64_t *)element[0].data = source_next(&((random_iterator *)base)->source);
  *more_out = true;
  return NULL;
}

static const dp_iterator_ops random_iterator_ops = {sizeof(random_iterator), random_next, NULL};

static dp_iterator *random_iterate(dp_dataset *base) {
  random_iterator *iterator = dp_iterator_create(&random_iterator_ops);
  uint64_t seed, seed2;
  generator_next(((random_dataset *)base)->generator, &seed, &seed2);
  source_init(&iterator->source, seed, seed2);
  return &iterator->base;
}

static int64_t random_cardinality(dp_dataset *base) {
  return DP_CARDINALITY_INFINITE;
}

static void random_destroy(dp_dataset *base) {
  dp_resource_release(((random_dataset *)base)->generator);
}

static void random_save(dp_dataset *base, dp_seed_list *seeds) {
  generator_save(((random_dataset *)base)->generator, seeds);
}

static void random_load(dp_dataset *base, dp_seed_list *seeds) {
  generator_load(((random_dataset *)base)->generator, seeds);
}

static const dp_dataset_ops random_ops = {
    "Random",    NULL,        random_cardinality,       random_destroy,
    random_save, random_load, .iterate = random_iterate};

/* The generator behind the handle in V2; a new one where there is no handle or no object. */
static dp_status *random_generator(dp_op_context *context, seed_generator **generator_out) {
  int64_t seed, seed2;
  bool rerandomizes = false;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 0, "seed", &seed));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "seed2", &seed2));
  if (context->input_count > 2) {
    dp_status *status = dp_op_resource(context, 2, &generator_ops, (dp_resource **)generator_out);
    if (dp_status_code(status) != DP_NOT_FOUND)
      return status;
    dp_status_release(status);
    DP_RETURN_IF_ERROR(
        dp_node_get_bool(context->node, "rerandomize_each_iteration", &rerandomizes));
  }
  *generator_out = generator_create(seed, seed2, !rerandomizes);
  return NULL;
}

static dp_status *random_compute(dp_op_context *context, void *state) {
  seed_generator *generator;
  DP_RETURN_IF_ERROR(random_generator(context, &generator));
  random_dataset *dataset = dp_dataset_create(&random_ops, sizeof(random_dataset), NULL);
  dp_dataset_set_components(&dataset->base, 1, &(dp_dtype){DP_INT64}, &(dp_partial_shape){0});
  dataset->generator = generator;
  return dp_dataset_output(context, 0, &dataset->base);
}

/* ---- Handles that own their object ---- */
static void release_object(void *object) {
  dp_resource_release(object);
}

static dp_status *output_owner(dp_op_context *context, dp_resource *resource) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor *output;
  dp_status *status = dp_op_allocate(context, 0, &shape, &output);
  if (status) {
    dp_resource_release(resource);
    return status;
  }
  dp_resource_handle *handle =
      dp_resource_make_handle(context->device->name, "", resource->ops->type_name, resource->ops);
  handle->object = resource;
  handle->object_release = release_object;
  dp_tensor_handles(output)[0] = handle;
  dp_tensor *deleter;
  return context->output_count > 1 ? dp_op_allocate(context, 1, &shape, &deleter) : NULL;
}

static dp_status *generator_compute(dp_op_context *context, void *state) {
  int64_t seed, seed2;
  bool reshuffles = true;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 0, "seed", &seed));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "seed2", &seed2));
  if (context->input_count > 2)
    DP_RETURN_IF_ERROR(dp_dataset_bool(context, 2, "reshuffle", &reshuffles));
  return output_owner(context, &generator_create(seed, seed2, !reshuffles)->resource);
}

static dp_status *dummy_compute(dp_op_context *context, void *state) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_tensor_handles(output)[0] =
      dp_resource_make_handle(context->device->name, "", "dummy", &generator_ops);
  return NULL;
}

static dp_status *delete_compute(dp_op_context *context, void *state) {
  return NULL; /* the object is destroyed with its last handle */
}

#define ROW(name, body)                                                                            \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
static const dp_kernel rows[] = {
    ROW("ShuffleDataset", shuffle_compute),
    ROW("ShuffleDatasetV2", shuffle_v2_compute),
    ROW("ShuffleDatasetV3", shuffle_v3_compute),
    ROW("ShuffleAndRepeatDataset", repeat_compute),
    ROW("ShuffleAndRepeatDatasetV2", repeat_v2_compute),
    ROW("RandomDataset", random_compute),
    ROW("RandomDatasetV2", random_compute),
    ROW("ExperimentalRandomDataset", random_compute),
    ROW("AnonymousRandomSeedGenerator", generator_compute),
    ROW("AnonymousSeedGenerator", generator_compute),
    ROW("DummySeedGenerator", dummy_compute),
    ROW("DeleteRandomSeedGenerator", delete_compute),
    ROW("DeleteSeedGenerator", delete_compute),
};
DP_KERNEL_FAMILY(dataset_shuffle, rows);
