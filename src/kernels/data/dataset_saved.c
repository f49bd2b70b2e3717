/* Datasets in files: metadata, writing and reading (dataset_saved_internal.h). Files are written
 * and read on the thread that walks; a writer or an iterator has one user at a time, so there is no
 * lock. */
#include "kernels/data/dataset_saved_internal.h"

#include <stdio.h>
#include <time.h>
#include "base/log.h"
#include "base/philox.h"
#include "kernels/shared/io.h"
#include "wire/control.h"
#include "wire/snapshot.pb-c.h"
#include "wire/tensor_codec.h"

#define METADATA_NAME "snapshot.metadata"
#define METADATA_LIMIT ((uint64_t)1 << 20)
#define FORM_VERSION 2
typedef Tensorflow__Data__Experimental__SnapshotMetadataRecord metadata_message;

dp_status *dp_saved_compression(const dp_node *node, dp_compression *compression_out) {
  dp_view name;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "compression", &name));
  if (dp_view_equals(name, "AUTO")) {
    *compression_out = DP_COMPRESSION_SNAPPY;
  } else if (!dp_record_compression_parse(name, compression_out)) {
    DP_LOG(KERNELS, WARN, "Unsupported compression_type %.*s: taken for none", (int)name.length,
           name.data);
    *compression_out = DP_COMPRESSION_NONE;
  }
  return NULL;
}

dp_status *dp_saved_path(dp_op_context *context, int32_t slot, char **path_out) {
  const dp_tensor *path = dp_op_input(context, slot);
  if (path->shape.rank != 0)
    return DP_INVALID("path must be a scalar");
  return dp_io_path(path, 0, path_out);
}

/* <folder>/<name>; the caller frees it. */
static char *join(const char *folder, const char *name) {
  dp_text path = {0};
  dp_text_printf(&path, "%s%s%s", folder, *folder ? "/" : "", name);
  return dp_text_take(&path);
}

/* ---- Metadata ---- */
dp_status *dp_saved_metadata_read(const char *folder, dp_saved_metadata *metadata_out,
                                  bool *exists_out) {
  char *path = join(folder, METADATA_NAME), *data = NULL;
  size_t length = 0;
  metadata_message *message = NULL;
  dp_arena *arena = dp_arena_create();
  *exists_out = dp_path_exists(path);
  dp_status *status = *exists_out ? dp_file_read_whole(path, METADATA_LIMIT, &data, &length) : NULL;
  if (*exists_out && !status) {
    status =
        dp_wire_unpack_bytes(&tensorflow__data__experimental__snapshot_metadata_record__descriptor,
                             data, length, arena, &message);
    if (status) {
      dp_status_release(status);
      status = dp_status_create(DP_OUT_OF_RANGE, "Read less bytes than requested");
    } else {
      *metadata_out = (dp_saved_metadata){.run = dp_strdup(message->run_id),
                                          .version = message->version,
                                          .elements = message->num_elements,
                                          .is_complete = message->finalized};
    }
  }
  dp_arena_destroy(arena);
  dp_free(data);
  dp_free(path);
  return status;
}

void dp_saved_metadata_deinit(dp_saved_metadata *metadata) {
  dp_free(metadata->run);
  *metadata = (dp_saved_metadata){0};
}

static int64_t micros_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- Writing ---- */
typedef struct shard_file {
  int64_t shard;
  dp_file *file;
  dp_record_writer *records;
} shard_file;

struct dp_saved_writer {
  char *folder, *hash, *run_folder;
  char run[24];
  dp_dataset *dataset; /* retained */
  dp_compression compression;
  dp_status *failure; /* the first error of adding: the run stays incomplete */
  DP_ARRAY(shard_file) shards;
};

static dp_status *write_metadata(const dp_saved_writer *writer, int64_t elements,
                                 bool is_complete) {
  const dp_dataset *dataset = writer->dataset;
  metadata_message message = TENSORFLOW__DATA__EXPERIMENTAL__SNAPSHOT_METADATA_RECORD__INIT;
  dp_arena *arena = dp_arena_create();
  uint8_t *bytes;
  size_t length;
  message.graph_hash = writer->hash;
  message.run_id = (char *)writer->run;
  message.creation_timestamp = micros_now();
  message.version = FORM_VERSION;
  message.n_dtype = (size_t)dataset->component_count;
  message.dtype = DP_ARENA_ARRAY(arena, Tensorflow__DataType, dataset->component_count);
  for (int32_t i = 0; i < dataset->component_count; ++i)
    message.dtype[i] = (Tensorflow__DataType)dataset->dtypes[i];
  message.num_elements = elements;
  message.finalized = is_complete;
  char *path = join(writer->folder, METADATA_NAME);
  dp_status *status = dp_wire_pack_bytes(&message, arena, &bytes, &length);
  if (!status)
    status = dp_file_write_whole(path, bytes, length);
  dp_free(path);
  dp_arena_destroy(arena);
  return status;
}

dp_status *dp_saved_writer_create(const char *folder, const char *hash, const dp_dataset *dataset,
                                  dp_compression compression, dp_saved_writer **writer_out) {
  dp_saved_writer *writer = DP_NEW(dp_saved_writer);
  snprintf(writer->run, sizeof writer->run, "%llu", (unsigned long long)dp_random_seed());
  writer->folder = dp_strdup(folder);
  writer->hash = dp_strdup(hash);
  writer->run_folder = join(folder, writer->run);
  writer->dataset = dp_dataset_retain((dp_dataset *)dataset);
  writer->compression = compression;
  dp_status *status = dp_path_make_folders(writer->run_folder);
  if (!status)
    status = write_metadata(writer, 0, false);
  if (status)
    dp_saved_writer_destroy(writer);
  else
    *writer_out = writer;
  return status;
}

static dp_status *open_shard(const dp_saved_writer *writer, int64_t number, shard_file *shard_out) {
  shard_file shard = {.shard = number};
  dp_text path = {0};
  dp_text_printf(&path, "%s/%08llu.shard", writer->run_folder, (unsigned long long)number);
  dp_status *status = dp_path_make_folders(path.data);
  dp_text_printf(&path, "/%08d.snapshot", 0);
  if (!status)
    status = dp_file_open(path.data, DP_FILE_CREATE, &shard.file);
  dp_text_deinit(&path);
  if (!status)
    status = dp_record_writer_create(shard.file, writer->compression, &shard.records);
  if (!status)
    *shard_out = shard;
  else
    dp_file_discard(shard.file);
  return status;
}

static dp_status *find_shard(dp_saved_writer *writer, int64_t number,
                             dp_record_writer **records_out) {
  shard_file shard;
  for (size_t i = 0; i < writer->shards.count; ++i)
    if (writer->shards.items[i].shard == number) {
      *records_out = writer->shards.items[i].records;
      return NULL;
    }
  DP_RETURN_IF_ERROR(open_shard(writer, number, &shard));
  DP_ARRAY_PUSH(&writer->shards, shard);
  *records_out = shard.records;
  return NULL;
}

static dp_status *write_component(dp_record_writer *records, const dp_tensor *tensor) {
  dp_rope rope = {0};
  dp_buffer *buffer = NULL;
  const uint8_t *bytes = NULL;
  dp_status *status = dp_wire_encode_tensor(tensor, &rope);
  if (!status)
    status = dp_rope_join(&rope, &buffer, &bytes);
  if (!status)
    status = dp_record_writer_add(records, bytes, rope.length);
  dp_buffer_release(buffer);
  dp_rope_deinit(&rope);
  return status;
}

dp_status *dp_saved_writer_add(dp_saved_writer *writer, int64_t shard, const dp_tensor *element) {
  dp_record_writer *records = NULL;
  if (!writer->failure)
    writer->failure = find_shard(writer, shard, &records);
  for (int32_t i = 0; i < writer->dataset->component_count && !writer->failure; ++i)
    writer->failure = write_component(records, &element[i]);
  return dp_status_retain(writer->failure);
}

/* Closes all files; returns the first error. */
static dp_status *close_shards(dp_saved_writer *writer) {
  dp_status *first = NULL;
  for (size_t i = 0; i < writer->shards.count; ++i) {
    dp_status *statuses[2];
    statuses[0] = dp_record_writer_finish(writer->shards.items[i].records);
    statuses[1] = dp_file_close(writer->shards.items[i].file);
    for (int k = 0; k < 2; ++k)
      if (first)
        dp_status_release(statuses[k]);
      else
        first = statuses[k];
  }
  DP_ARRAY_FREE(&writer->shards);
  return first;
}

dp_status *dp_saved_writer_finish(dp_saved_writer *writer, int64_t elements) {
  if (writer->failure)
    return dp_status_retain(writer->failure);
  DP_RETURN_IF_ERROR(close_shards(writer));
  return write_metadata(writer, elements, true);
}

void dp_saved_writer_destroy(dp_saved_writer *writer) {
  if (!writer)
    return;
  dp_status_release(close_shards(writer));
  dp_status_release(writer->failure);
  dp_dataset_release(writer->dataset);
  dp_free(writer->folder);
  dp_free(writer->hash);
  dp_free(writer->run_folder);
  dp_free(writer);
}

dp_status *dp_saved_shard(const dp_captured *function, const dp_walk *walk,
                          const dp_tensor *element, int32_t count, int64_t *shard_out) {
  dp_tensor *results;
  int32_t result_count;
  DP_RETURN_IF_ERROR(
      dp_captured_call_wait(function, walk, element, count, &results, &result_count));
  dp_status *status = NULL;
  if (result_count != 1 || results[0].dtype != DP_INT64 || dp_tensor_elements(&results[0]) != 1)
    status = DP_INVALID("`shard_func` must return a scalar int64.");
  else
    *shard_out = ((const int64_t *)results[0].data)[0];
  dp_element_destroy(results, result_count);
  return status;
}

/* ---- Reading: the files of one shard, one after the other ---- */
typedef struct shard_dataset {
  dp_dataset base;
  char *folder;
  dp_compression compression;
} shard_dataset;

typedef struct shard_iterator {
  dp_iterator base;
  dp_record_reader *records; /* the reader of the file before next_file */
  int64_t next_file;
  bool has_ended;
  dp_status *failure; /* the first error of reading: every later call returns it */
} shard_iterator;

/* The first file must exist; the first later file that does not exist is the end. */
static dp_status *open_next_file(shard_iterator *iterator) {
  const shard_dataset *dataset = (shard_dataset *)iterator->base.dataset;
  dp_text path = {0};
  dp_text_printf(&path, "%s/%08lld.snapshot", dataset->folder, (long long)iterator->next_file);
  dp_record_reader_close(iterator->records);
  iterator->records = NULL;
  iterator->has_ended = iterator->next_file > 0 && !dp_path_exists(path.data);
  ++iterator->next_file;
  dp_status *status = iterator->has_ended
                          ? NULL
                          : dp_record_reader_open(path.data, dataset->compression, DP_STREAM_BUFFER,
                                                  &iterator->records);
  dp_text_deinit(&path);
  return status;
}

static dp_status *check_component(const dp_dataset *dataset, int32_t index,
                                  const dp_tensor *tensor) {
  if (tensor->dtype != dataset->dtypes[index])
    return dp_status_create(DP_DATA_LOSS, "Component %d of a saved element is of type %s, not %s",
                            index, dp_dtype_name(tensor->dtype),
                            dp_dtype_name(dataset->dtypes[index]));
  return NULL;
}

static dp_status *read_component(shard_iterator *iterator, int32_t index, dp_tensor *tensor,
                                 bool *more_out) {
  dp_tstring record = {0};
  dp_status *status = dp_record_reader_next(iterator->records, &record, more_out);
  if (!status && *more_out)
    status =
        dp_wire_decode_tensor_bytes(dp_tstring_data(&record), dp_tstring_size(&record), tensor);
  dp_tstring_deinit(&record);
  if (!status && *more_out)
    status = check_component(iterator->base.dataset, index, tensor);
  return status;
}

static dp_status *read_element(shard_iterator *iterator, dp_tensor *element, bool *more_out) {
  int32_t count = iterator->base.dataset->component_count;
  dp_status *status = NULL;
  *more_out = true;
  for (int32_t i = 0; i < count && *more_out && !status; ++i) {
    status = read_component(iterator, i, &element[i], more_out);
    if (!status && !*more_out && i > 0)
      status = dp_status_create(DP_DATA_LOSS, "%s ends with %d of %d components of an element",
                                ((shard_dataset *)iterator->base.dataset)->folder, i, count);
  }
  if (status || !*more_out)
    dp_element_clear(element, count);
  return status;
}

static dp_status *shard_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  shard_iterator *iterator = (shard_iterator *)base;
  *more_out = false;
  while (!iterator->has_ended && !*more_out && !iterator->failure) {
    if (iterator->records)
      iterator->failure = read_element(iterator, element, more_out);
    if (!*more_out && !iterator->failure)
      iterator->failure = open_next_file(iterator);
  }
  return dp_status_retain(iterator->failure);
}

static void shard_iterator_destroy(dp_iterator *base) {
  shard_iterator *iterator = (shard_iterator *)base;
  dp_record_reader_close(iterator->records);
  dp_status_release(iterator->failure);
}

static const dp_iterator_ops shard_iterator_ops = {sizeof(shard_iterator), shard_next,
                                                   shard_iterator_destroy};

static void shard_dataset_destroy(dp_dataset *base) {
  dp_free(((shard_dataset *)base)->folder);
}

static const dp_dataset_ops shard_ops = {"SnapshotDatasetReader", &shard_iterator_ops, NULL,
                                         shard_dataset_destroy};

static dp_dataset *dataset_of_shard(const char *folder, const dp_dataset *like,
                                    dp_compression compression) {
  shard_dataset *dataset = dp_dataset_create(&shard_ops, sizeof(shard_dataset), NULL);
  dp_dataset_set_components(&dataset->base, like->component_count, like->dtypes, like->shapes);
  dataset->folder = dp_strdup(folder);
  dataset->compression = compression;
  return &dataset->base;
}

/* ---- Reading: all shards ---- */
/* A dataset whose elements are the datasets of the shards, as a tensor. */
static dp_status *nest_shards(const dp_name_list *folders, const dp_dataset *like,
                              dp_compression compression, dp_tensor *tensor_out) {
  dp_dtype variant = DP_VARIANT;
  dp_partial_shape shape = {.rank = 1, .dims = {1}};
  dp_tensor *elements = dp_element_create((int32_t)folders->count);
  dp_status *status = NULL;
  for (size_t i = 0; i < folders->count && !status; ++i)
    status =
        dp_dataset_to_tensor(dataset_of_shard(folders->items[i], like, compression), &elements[i]);
  if (status) {
    dp_element_destroy(elements, (int32_t)folders->count);
    return status;
  }
  dp_dataset *nested =
      dp_dataset_of_elements(1, &variant, &shape, elements, (int64_t)folders->count);
  return dp_dataset_to_tensor(nested, tensor_out);
}

static dp_status *find_shards(const char *folder, const char *run, dp_name_list *folders) {
  dp_text pattern = {0};
  dp_text_printf(&pattern, "%s%s%s/*.shard", folder, *folder ? "/" : "", run);
  dp_status *status = dp_path_match(pattern.data, folders);
  dp_text_deinit(&pattern);
  return status;
}

/* An iterator over the result of the function, which must be a dataset. */
static dp_status *iterate_result(dp_tensor *results, int32_t count, const dp_dataset *like,
                                 dp_iterator **iterator_out) {
  dp_dataset *dataset;
  if (count != 1)
    return DP_INVALID("reader_func returns more than one argument.");
  DP_RETURN_IF_ERROR(dp_dataset_of_tensor(&results[0], &dataset));
  if (dataset->component_count != like->component_count)
    return DP_INVALID("Number of components does not match: expected %d types but got %d.",
                      like->component_count, dataset->component_count);
  *iterator_out = dp_dataset_iterate(dataset, NULL);
  return NULL;
}

dp_status *dp_saved_iterate(const char *folder, const dp_saved_metadata *metadata,
                            const dp_dataset *like, dp_compression compression,
                            const dp_captured *function, const dp_walk *walk,
                            dp_iterator **iterator_out) {
  if (metadata->version != FORM_VERSION)
    return DP_INVALID("Snapshot reader version: %lld is not supported.",
                      (long long)metadata->version);
  dp_name_list folders = {0};
  dp_tensor nested = {0}, *results;
  int32_t count;
  dp_status *status = find_shards(folder, metadata->run, &folders);
  if (!status)
    status = nest_shards(&folders, like, compression, &nested);
  dp_name_list_deinit(&folders);
  DP_RETURN_IF_ERROR(status);
  status = dp_captured_call_wait(function, walk, &nested, 1, &results, &count);
  dp_tensor_deinit(&nested);
  DP_RETURN_IF_ERROR(status);
  status = iterate_result(results, count, like, iterator_out);
  dp_element_destroy(results, count);
  return status;
}
