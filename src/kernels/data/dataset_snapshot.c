/* SnapshotDatasetV2 (Dataset.snapshot). The first walk that reaches the end leaves all elements in
 * files (dataset_saved_internal.h); later walks read the files instead of the input.
 *
 *   <path>/<hash of the input>/     a folder per pipeline; the hash is ours, not TensorFlow's
 *
 * A walk decides whether to read or write when it takes its first element. It never reads a run
 * that is incomplete, however old: it writes a run of its own. The run that is finished last
 * counts. */
#include <stdio.h>
#include <string.h>
#include "kernels/data/dataset_saved_internal.h"
#include "kernels/shared/family.h"

typedef struct snapshot_dataset {
  dp_dataset base;
  char hash[24];
  char *read_folder, *write_folder; /* equal, except for prefixes that the node may give */
  dp_compression compression;
  dp_captured reader, shard;
} snapshot_dataset;

typedef struct snapshot_iterator {
  dp_iterator base;
  dp_iterator *read;       /* NULL while writing */
  dp_saved_writer *writer; /* NULL while reading */
  bool has_ended;          /* writing only */
} snapshot_iterator;

/* ---- Walking ---- */
static dp_status *begin_reading(snapshot_iterator *iterator, const snapshot_dataset *dataset,
                                const dp_saved_metadata *metadata, const dp_walk *walk) {
  return dp_saved_iterate(dataset->read_folder, metadata, &dataset->base, dataset->compression,
                          &dataset->reader, walk, &iterator->read);
}

static dp_status *begin_writing(snapshot_iterator *iterator, const snapshot_dataset *dataset) {
  return dp_saved_writer_create(dataset->write_folder, dataset->hash, &dataset->base,
                                dataset->compression, &iterator->writer);
}

/* Replaces OUT_OF_RANGE, which would be taken for the end of the dataset. */
static dp_status *read_metadata(const snapshot_dataset *dataset, dp_saved_metadata *metadata_out,
                                bool *exists_out) {
  dp_status *status = dp_saved_metadata_read(dataset->read_folder, metadata_out, exists_out);
  if (dp_status_code(status) != DP_OUT_OF_RANGE)
    return status;
  dp_status_release(status);
  return dp_status_create(DP_INTERNAL, "The metadata of the snapshot in %s is damaged",
                          dataset->read_folder);
}

static dp_status *begin(snapshot_iterator *iterator, const dp_walk *walk) {
  const snapshot_dataset *dataset = (snapshot_dataset *)iterator->base.dataset;
  dp_saved_metadata metadata = {0};
  bool exists;
  DP_RETURN_IF_ERROR(read_metadata(dataset, &metadata, &exists));
  dp_status *status = exists && metadata.is_complete
                          ? begin_reading(iterator, dataset, &metadata, walk)
                          : begin_writing(iterator, dataset);
  dp_saved_metadata_deinit(&metadata);
  return status;
}

static dp_status *write_element(snapshot_iterator *iterator, const dp_walk *walk,
                                const dp_tensor *element) {
  const snapshot_dataset *dataset = (snapshot_dataset *)iterator->base.dataset;
  int64_t shard;
  DP_RETURN_IF_ERROR(
      dp_saved_shard(&dataset->shard, walk, element, dataset->base.component_count, &shard));
  return dp_saved_writer_add(iterator->writer, shard, element);
}

/* An element is not written when the input or the shard function fails for it. A reader that goes
 * on after the error gets the rest. */
static dp_status *pass_on(snapshot_iterator *iterator, const dp_walk *walk, dp_tensor *element,
                          bool *more_out) {
  dp_iterator *base = &iterator->base;
  *more_out = false;
  if (iterator->has_ended)
    return NULL;
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
  if (!*more_out) {
    iterator->has_ended = true;
    return dp_saved_writer_finish(iterator->writer, 0);
  }
  dp_status *status = write_element(iterator, walk, element);
  if (status)
    dp_element_clear(element, base->dataset->component_count);
  return status;
}

static dp_status *snapshot_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                                bool *more_out) {
  snapshot_iterator *iterator = (snapshot_iterator *)base;
  if (!iterator->read && !iterator->writer)
    DP_RETURN_IF_ERROR(begin(iterator, walk));
  if (iterator->read)
    return dp_iterator_next(iterator->read, walk, element, more_out);
  return pass_on(iterator, walk, element, more_out);
}

static void snapshot_iterator_destroy(dp_iterator *base) {
  snapshot_iterator *iterator = (snapshot_iterator *)base;
  dp_iterator_destroy(iterator->read);
  dp_saved_writer_destroy(iterator->writer);
}

static const dp_iterator_ops snapshot_iterator_ops = {sizeof(snapshot_iterator), snapshot_next,
                                                      snapshot_iterator_destroy};

/* ---- The dataset ---- */
static void snapshot_dataset_destroy(dp_dataset *base) {
  snapshot_dataset *dataset = (snapshot_dataset *)base;
  dp_captured_deinit(&dataset->reader);
  dp_captured_deinit(&dataset->shard);
  dp_free(dataset->read_folder);
  dp_free(dataset->write_folder);
}

static const dp_dataset_ops snapshot_ops = {"SnapshotV2", &snapshot_iterator_ops,
                                            dp_dataset_input_cardinality, snapshot_dataset_destroy};

/* One slash between two parts, unless one of them is empty. */
static void add_part(dp_text *path, const char *part, size_t length) {
  if (!length)
    return;
  if (path->length) {
    if (path->data[path->length - 1] != '/')
      dp_text_add_char(path, '/');
    if (*part == '/') {
      ++part;
      --length;
    }
  }
  dp_text_printf(path, "%.*s", (int)length, part);
}

/* <prefix>/<path>/<hash>; the prefix is the node's attribute. */
static dp_status *make_folder(const snapshot_dataset *dataset, const dp_node *node,
                              const char *attribute, const char *path, char **folder_out) {
  dp_view prefix;
  dp_text folder = {0};
  DP_RETURN_IF_ERROR(dp_node_get_string(node, attribute, &prefix));
  add_part(&folder, prefix.data, prefix.length);
  add_part(&folder, path, strlen(path));
  add_part(&folder, dataset->hash, strlen(dataset->hash));
  *folder_out = dp_text_take(&folder);
  return NULL;
}

/* The hash that the node gives, if hash_valid is set, so that a rewritten pipeline can keep its
 * snapshots; else our own. */
static dp_status *find_hash(snapshot_dataset *dataset, const dp_node *node) {
  bool is_given;
  int64_t given;
  uint64_t hash;
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "hash_valid", &is_given));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "hash", &given));
  if (is_given)
    hash = (uint64_t)given;
  else
    DP_RETURN_IF_ERROR(dp_dataset_hash(dataset->base.input, &hash));
  snprintf(dataset->hash, sizeof dataset->hash, "%llu", (unsigned long long)hash);
  return NULL;
}

static dp_status *snapshot_init(snapshot_dataset *dataset, dp_op_context *context) {
  const dp_node *node = context->node;
  char *path;
  DP_RETURN_IF_ERROR(dp_saved_compression(node, &dataset->compression));
  DP_RETURN_IF_ERROR(
      dp_captured_init(&dataset->reader, context, "reader_func", "reader_func_other_args"));
  DP_RETURN_IF_ERROR(
      dp_captured_init(&dataset->shard, context, "shard_func", "shard_func_other_args"));
  DP_RETURN_IF_ERROR(dp_saved_path(context, 1, &path));
  dp_status *status = find_hash(dataset, node);
  if (!status)
    status = make_folder(dataset, node, "reader_prefix", path, &dataset->read_folder);
  if (!status)
    status = make_folder(dataset, node, "writer_prefix", path, &dataset->write_folder);
  dp_free(path);
  return status;
}

static dp_status *snapshot_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  snapshot_dataset *dataset = dp_dataset_create(&snapshot_ops, sizeof(snapshot_dataset), input);
  dataset->base.label = "SnapshotWriter::WriterIterator";
  dp_status *status = snapshot_init(dataset, context);
  return dp_dataset_finish(context, &dataset->base, status);
}

static const dp_kernel rows[] = {
    {.op = "SnapshotDatasetV2", .compute = snapshot_compute},
};
DP_KERNEL_FAMILY(dataset_snapshot, rows);
