/* SaveDataset, SaveDatasetV2 and LoadDataset: datasets in files (dataset_saved_internal.h).
 * SaveDataset writes all elements in one step. SaveDatasetV2 is a dataset that writes the elements
 * that pass through it. */
#include <unistd.h>
#include "kernels/data/dataset_saved_internal.h"
#include "kernels/shared/family.h"

/* What SaveDataset and SaveDatasetV2 share. */
typedef struct save_settings {
  char *path;
  dp_compression compression;
  dp_captured shard;
  bool has_shards; /* a function chooses the shard; else there is one shard */
} save_settings;

static void settings_deinit(save_settings *settings) {
  dp_captured_deinit(&settings->shard);
  dp_free(settings->path);
}

static dp_status *settings_init(save_settings *settings, dp_op_context *context) {
  DP_RETURN_IF_ERROR(dp_saved_path(context, 1, &settings->path));
  DP_RETURN_IF_ERROR(dp_saved_compression(context->node, &settings->compression));
  DP_RETURN_IF_ERROR(dp_node_get_bool(context->node, "use_shard_func", &settings->has_shards));
  return dp_captured_init(&settings->shard, context, "shard_func", "shard_func_other_args");
}

static dp_status *write_element(const save_settings *settings, dp_saved_writer *writer,
                                const dp_walk *walk, int32_t count, const dp_tensor *element,
                                int64_t shard) {
  if (settings->has_shards)
    DP_RETURN_IF_ERROR(dp_saved_shard(&settings->shard, walk, element, count, &shard));
  return dp_saved_writer_add(writer, shard, element);
}

/* ---- SaveDataset ---- */
static dp_status *write_all(const save_settings *settings, dp_saved_writer *writer,
                            dp_dataset *dataset, const dp_walk *walk) {
  dp_iterator *iterator = dp_dataset_iterate(dataset, "Save::Root");
  dp_tensor *element = dp_element_create(dataset->component_count);
  dp_status *status = NULL;
  int64_t count = 0;
  for (bool more = true; !status && more;) {
    dp_element_clear(element, dataset->component_count);
    status = dp_iterator_next(iterator, walk, element, &more);
    if (!status && more) {
      ++count;
      status = write_element(settings, writer, walk, dataset->component_count, element, 0);
    }
  }
  dp_element_destroy(element, dataset->component_count);
  dp_iterator_destroy(iterator);
  return status ? status : dp_saved_writer_finish(writer, count);
}

static dp_status *save(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  save_settings settings = {0};
  dp_saved_writer *writer = NULL;
  dp_walk walk = {context->step->cancel};
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  dp_status *status = settings_init(&settings, context);
  if (!status)
    status = dp_saved_writer_create(settings.path, "", dataset, settings.compression, &writer);
  if (!status)
    status = write_all(&settings, writer, dataset, &walk);
  dp_saved_writer_destroy(writer);
  settings_deinit(&settings);
  return status;
}

static void save_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, save);
}

/* ---- SaveDatasetV2 ---- */
typedef struct save_dataset {
  dp_dataset base;
  save_settings settings;
} save_dataset;

typedef struct save_iterator {
  dp_iterator base;
  dp_saved_writer *writer;
  bool has_ended;
} save_iterator;

static dp_status *save_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  save_iterator *iterator = (save_iterator *)base;
  const save_dataset *dataset = (save_dataset *)base->dataset;
  const save_settings *settings = &dataset->settings;
  *more_out = false;
  if (iterator->has_ended)
    return NULL;
  if (!iterator->writer)
    DP_RETURN_IF_ERROR(dp_saved_writer_create(settings->path, "", base->dataset,
                                              settings->compression, &iterator->writer));
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
  if (!*more_out) {
    iterator->has_ended = true;
    return dp_saved_writer_finish(iterator->writer, dp_dataset_cardinality(base->dataset));
  }
  /* TensorFlow numbers its shard 1 here when there are two or more processors. */
  int64_t shard = sysconf(_SC_NPROCESSORS_ONLN) > 1;
  dp_status *status = write_element(settings, iterator->writer, walk, dataset->base.component_count,
                                    element, shard);
  if (status)
    dp_element_clear(element, dataset->base.component_count);
  return status;
}

static void save_iterator_destroy(dp_iterator *base) {
  dp_saved_writer_destroy(((save_iterator *)base)->writer);
}

static const dp_iterator_ops save_iterator_ops = {sizeof(save_iterator), save_next,
                                                  save_iterator_destroy};

static void save_dataset_destroy(dp_dataset *base) {
  settings_deinit(&((save_dataset *)base)->settings);
}

static const dp_dataset_ops save_ops = {"SaveV2", &save_iterator_ops, dp_dataset_input_cardinality,
                                        save_dataset_destroy};

static dp_status *save_v2_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  save_dataset *dataset = dp_dataset_create(&save_ops, sizeof(save_dataset), input);
  dp_status *status = settings_init(&dataset->settings, context);
  return dp_dataset_finish(context, &dataset->base, status);
}

/* ---- LoadDataset ---- */
typedef struct load_dataset {
  dp_dataset base;
  char *path;
  dp_compression compression;
  dp_captured reader;
  dp_saved_metadata metadata;
} load_dataset;

typedef struct load_iterator {
  dp_iterator base;
  dp_iterator *read; /* the dataset that the function returned; NULL before the first element */
} load_iterator;

static dp_status *load_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  load_iterator *iterator = (load_iterator *)base;
  const load_dataset *dataset = (load_dataset *)base->dataset;
  if (!iterator->read)
    DP_RETURN_IF_ERROR(dp_saved_iterate(dataset->path, &dataset->metadata, &dataset->base,
                                        dataset->compression, &dataset->reader, walk,
                                        &iterator->read));
  return dp_iterator_next(iterator->read, walk, element, more_out);
}

static void load_iterator_destroy(dp_iterator *base) {
  dp_iterator_destroy(((load_iterator *)base)->read);
}

static const dp_iterator_ops load_iterator_ops = {sizeof(load_iterator), load_next,
                                                  load_iterator_destroy};

static int64_t load_cardinality(dp_dataset *dataset) {
  return ((load_dataset *)dataset)->metadata.elements;
}

static void load_dataset_destroy(dp_dataset *base) {
  load_dataset *dataset = (load_dataset *)base;
  dp_captured_deinit(&dataset->reader);
  dp_saved_metadata_deinit(&dataset->metadata);
  dp_free(dataset->path);
}

static const dp_dataset_ops load_ops = {"Load", &load_iterator_ops, load_cardinality,
                                        load_dataset_destroy};

static dp_status *load_init(load_dataset *dataset, dp_op_context *context) {
  bool exists;
  DP_RETURN_IF_ERROR(dp_saved_path(context, 0, &dataset->path));
  DP_RETURN_IF_ERROR(dp_saved_compression(context->node, &dataset->compression));
  DP_RETURN_IF_ERROR(
      dp_captured_init(&dataset->reader, context, "reader_func", "reader_func_other_args"));
  DP_RETURN_IF_ERROR(dp_dataset_components_from_node(&dataset->base, context->node));
  DP_RETURN_IF_ERROR(dp_saved_metadata_read(dataset->path, &dataset->metadata, &exists));
  if (!exists)
    return dp_status_create(DP_NOT_FOUND, "Could not find metadata file [%s]", dataset->path);
  return NULL;
}

static dp_status *load_compute(dp_op_context *context, void *state) {
  load_dataset *dataset = dp_dataset_create(&load_ops, sizeof(load_dataset), NULL);
  dp_status *status = load_init(dataset, context);
  return dp_dataset_finish(context, &dataset->base, status);
}

static const dp_kernel rows[] = {
    {.op = "SaveDataset", .compute_async = save_compute},
    {.op = "SaveDatasetV2", .compute = save_v2_compute},
    {.op = "LoadDataset", .compute = load_compute},
};
DP_KERNEL_FAMILY(dataset_save, rows);
