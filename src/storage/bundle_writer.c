/* Writes V2 checkpoints (bundle.h).
 *
 * dp_bundle_writer_add retains the tensor and gives it an offset; dp_bundle_writer_finish writes.
 * The data file is cut into blocks of 2 MiB. A block is a list of pieces of tensors. A thread
 * copies the pieces into a buffer, computes the checksum of each while it is in the cache, and
 * writes the block. The checksum of a tensor is combined from those of its pieces. Large files
 * bypass the page cache: after gigabytes of writes through it, this process or another one would
 * wait until it drains. For that the last block is padded, and the file truncated at the end. */
#include <pthread.h>
#include <string.h>
#include "base/checksum.h"
#include "base/map.h"
#include "storage/bundle_internal.h"
#include "wire/control.h"
#include "wire/shape_message.h"

#define BLOCK_SIZE ((uint64_t)2 << 20)
#define DIRECT_SIZE ((uint64_t)8 << 20) /* smaller files go through the page cache */

/* One tensor in the data file. */
typedef struct item {
  Tensorflow__BundleEntryProto *entry;
  dp_tensor tensor; /* keeps the bytes alive; unset for strings */
  dp_text encoded;  /* of strings and variants */
  const uint8_t *data;
  uint64_t offset, size;
  bool has_crc;
} item;

struct dp_bundle_writer {
  char *prefix;
  dp_pool *pool;
  dp_arena *arena; /* messages and keys */
  dp_map *keys;    /* key to entry */
  DP_ARRAY(dp_bundle_item) index;
  DP_ARRAY(item) items; /* by offset */
  uint64_t size;
};

dp_status *dp_bundle_writer_create(const char *prefix, dp_pool *pool,
                                   dp_bundle_writer **writer_out) {
  DP_RETURN_IF_ERROR(dp_bundle_make_folder(prefix));
  dp_bundle_writer *writer = DP_NEW(dp_bundle_writer);
  writer->prefix = dp_strdup(prefix);
  writer->pool = pool;
  writer->arena = dp_arena_create();
  writer->keys = dp_map_create();
  *writer_out = writer;
  return NULL;
}

void dp_bundle_writer_destroy(dp_bundle_writer *writer) {
  if (!writer)
    return;
  for (size_t i = 0; i < writer->items.count; ++i) {
    dp_tensor_deinit(&writer->items.items[i].tensor);
    dp_text_deinit(&writer->items.items[i].encoded);
  }
  DP_ARRAY_FREE(&writer->items);
  DP_ARRAY_FREE(&writer->index);
  dp_map_destroy(writer->keys);
  dp_arena_destroy(writer->arena);
  dp_free(writer->prefix);
  dp_free(writer);
}

/* ---- Adding tensors ---- */
static Tensorflow__BundleEntryProto *add_entry(dp_bundle_writer *writer, dp_view key,
                                               dp_dtype dtype, const dp_shape *shape) {
  Tensorflow__BundleEntryProto *entry =
      dp_wire_new(writer->arena, &tensorflow__bundle_entry_proto__descriptor);
  entry->dtype = (Tensorflow__DataType)dtype;
  entry->shape = dp_wire_shape_message(shape, writer->arena);
  dp_view copy = {dp_arena_strndup(writer->arena, key.data, key.length), key.length};
  dp_map_put_n(writer->keys, key.data, key.length, entry);
  DP_ARRAY_PUSH(&writer->index, ((dp_bundle_item){copy, entry}));
  return entry;
}

dp_status *dp_bundle_writer_add(dp_bundle_writer *writer, dp_view name, const dp_tensor *tensor) {
  if (name.length == 0)
    return DP_INVALID("a tensor in a checkpoint needs a name");
  if (dp_map_get_n(writer->keys, name.data, name.length))
    return DP_INVALID("Adding duplicate key: %.*s", (int)name.length, name.data);
  item item = {.offset = writer->size};
  uint32_t crc = 0;
  if (dp_dtype_is_plain(tensor->dtype)) {
    item.tensor = dp_tensor_copy(tensor);
    item.data = tensor->data;
    item.size = dp_tensor_bytes(tensor);
  } else {
    dp_status *status = dp_bundle_encode_objects(tensor, &item.encoded, &crc);
    if (status) {
      dp_text_deinit(&item.encoded);
      return dp_status_annotate(status, "%.*s", (int)name.length, name.data);
    }
    item.data = (const uint8_t *)item.encoded.data;
    item.size = item.encoded.length;
    item.has_crc = true;
  }
  item.entry = add_entry(writer, name, tensor->dtype, &tensor->shape);
  item.entry->offset = (int64_t)item.offset;
  item.entry->size = (int64_t)item.size;
  item.entry->crc32c = item.has_crc ? dp_crc32c_mask(crc) : 0;
  DP_ARRAY_PUSH(&writer->items, item);
  writer->size += item.size;
  return NULL;
}

/* Adds the slice to the entry of the whole tensor, which lists the slices. */
static dp_status *note_slice(dp_bundle_writer *writer, dp_view name, const dp_shape *whole,
                             const dp_slice *slice, dp_dtype dtype) {
  Tensorflow__BundleEntryProto *entry = dp_map_get_n(writer->keys, name.data, name.length);
  if (!entry) {
    entry = add_entry(writer, name, dtype, whole);
  } else {
    dp_shape known;
    DP_RETURN_IF_ERROR(dp_wire_shape(entry->shape, &known));
    if (entry->n_slices == 0)
      return DP_INVALID("Adding duplicate key: %.*s", (int)name.length, name.data);
    if ((dp_dtype)entry->dtype != dtype || !dp_shape_equal(&known, whole))
      return DP_INVALID("slices of %.*s differ in the dtype or shape of the whole",
                        (int)name.length, name.data);
  }
  size_t count = entry->n_slices;
  if ((count & (count - 1)) == 0) { /* room for the next power of two */
    Tensorflow__TensorSliceProto **slices =
        DP_ARENA_ARRAY(writer->arena, Tensorflow__TensorSliceProto *, count ? 2 * count : 1);
    if (count > 0)
      memcpy(slices, entry->slices, count * sizeof *slices);
    entry->slices = slices;
  }
  entry->slices[entry->n_slices++] = dp_bundle_slice_message(slice, writer->arena);
  return NULL;
}

dp_status *dp_bundle_writer_add_slice(dp_bundle_writer *writer, dp_view name, const dp_shape *whole,
                                      const dp_slice *slice, const dp_tensor *tensor) {
  dp_shape part;
  DP_RETURN_IF_ERROR(dp_slice_shape(slice, whole, &part));
  if (dp_slice_is_full(slice) || dp_shape_equal(&part, whole))
    return dp_bundle_writer_add(writer, name, tensor);
  if (name.length == 0)
    return DP_INVALID("a tensor in a checkpoint needs a name");
  DP_RETURN_IF_ERROR(note_slice(writer, name, whole, slice, tensor->dtype));
  dp_text key = {0};
  dp_slice_encode_key(name, slice, &key);
  dp_status *status = dp_bundle_writer_add(writer, (dp_view){key.data, key.length}, tensor);
  dp_text_deinit(&key);
  return status;
}

/* ---- Writing the data file ---- */
typedef struct block_piece {
  item *item;
  uint64_t begin, length; /* within the item */
  uint32_t crc;
} block_piece;

typedef struct data_job {
  dp_file *file;
  uint64_t size;
  bool is_direct;
  block_piece *pieces;
  size_t *first_piece; /* of each block; one more at the end */
  size_t block_count;
  pthread_mutex_t mutex;
  dp_status *status; /* the first error */
} data_job;

static void make_pieces(data_job *job, item *items, size_t item_count) {
  job->block_count = (size_t)((job->size + BLOCK_SIZE - 1) / BLOCK_SIZE);
  job->pieces = DP_NEW_ARRAY(block_piece, item_count + job->block_count + 1);
  job->first_piece = DP_NEW_ARRAY(size_t, job->block_count + 1);
  size_t count = 0, block = 0;
  for (size_t i = 0; i < item_count; ++i) {
    for (uint64_t begin = 0; begin < items[i].size;) {
      uint64_t at = items[i].offset + begin;
      while (block < at / BLOCK_SIZE + 1)
        job->first_piece[block++] = count;
      uint64_t length = (at / BLOCK_SIZE + 1) * BLOCK_SIZE - at;
      if (length > items[i].size - begin)
        length = items[i].size - begin;
      job->pieces[count++] = (block_piece){&items[i], begin, length, 0};
      begin += length;
    }
  }
  while (block <= job->block_count)
    job->first_piece[block++] = count;
}

static uint8_t *align_for_direct(uint8_t *data) {
  uintptr_t mask = DP_FILE_DIRECT_ALIGNMENT - 1;
  return data + (-(uintptr_t)data & mask);
}

static void sum_piece(block_piece *piece, const uint8_t *data) {
  if (!piece->item->has_crc)
    piece->crc = dp_crc32c(data, (size_t)piece->length);
}

static dp_status *write_block(data_job *job, size_t block, uint8_t *buffer) {
  block_piece *first = &job->pieces[job->first_piece[block]];
  block_piece *end = &job->pieces[job->first_piece[block + 1]];
  uint64_t offset = (uint64_t)block * BLOCK_SIZE;
  if (!job->is_direct && end == first + 1) { /* one piece, no alignment needed: without a copy */
    sum_piece(first, first->item->data + first->begin);
    return dp_file_write(job->file, offset, first->item->data + first->begin,
                         (size_t)first->length);
  }
  size_t filled = 0;
  for (block_piece *piece = first; piece < end; ++piece) {
    memcpy(buffer + filled, piece->item->data + piece->begin, (size_t)piece->length);
    sum_piece(piece, buffer + filled);
    filled += (size_t)piece->length;
  }
  if (job->is_direct && filled % DP_FILE_DIRECT_ALIGNMENT != 0) {
    size_t padded = (filled / DP_FILE_DIRECT_ALIGNMENT + 1) * DP_FILE_DIRECT_ALIGNMENT;
    memset(buffer + filled, 0, padded - filled);
    filled = padded;
  }
  return dp_file_write(job->file, offset, buffer, filled);
}

/* The buffer comes from the pool of tensor buffers: with memory fresh from the system a save takes
 * a quarter longer. It is large enough for a huge page, which goes to the disk in one piece: from
 * small pages a save runs at two thirds of the speed. */
static void write_blocks(void *arg, int64_t begin, int64_t end) {
  data_job *job = arg;
  size_t size = (size_t)(job->size < BLOCK_SIZE ? job->size : BLOCK_SIZE);
  dp_buffer *memory = NULL;
  dp_status *status = dp_buffer_create(size + 2 * DP_FILE_DIRECT_ALIGNMENT, &memory);
  uint8_t *buffer = status ? NULL : align_for_direct(memory->data);
  for (int64_t i = begin; i < end && !status; ++i)
    status = write_block(job, (size_t)i, buffer);
  dp_buffer_release(memory);
  if (status) {
    pthread_mutex_lock(&job->mutex);
    dp_status_update(&job->status, status);
    pthread_mutex_unlock(&job->mutex);
  }
}

/* Computes the checksum of each tensor from those of its pieces. */
static void combine_sums(const data_job *job, item *items, size_t item_count) {
  size_t at = 0;
  for (size_t i = 0; i < item_count; ++i) {
    uint32_t crc = 0;
    for (uint64_t done = 0; done < items[i].size; ++at) {
      const block_piece *piece = &job->pieces[at];
      crc = done == 0 ? piece->crc : dp_crc32c_combine(crc, piece->crc, piece->length);
      done += piece->length;
    }
    if (!items[i].has_crc)
      items[i].entry->crc32c = dp_crc32c_mask(crc);
  }
}

static dp_status *write_data(dp_bundle_writer *writer, dp_file *file) {
  data_job job = {.file = file, .size = writer->size, .mutex = PTHREAD_MUTEX_INITIALIZER};
  make_pieces(&job, writer->items.items, writer->items.count);
  if (writer->size >= DIRECT_SIZE) {
    dp_file_reserve(file, writer->size);
    job.is_direct = dp_file_set_direct(file);
  }
  if (writer->pool)
    dp_pool_for(writer->pool, (int64_t)job.block_count, 1, write_blocks, &job);
  else
    write_blocks(&job, 0, (int64_t)job.block_count);
  if (!job.status && writer->size >= DIRECT_SIZE)
    job.status = dp_file_resize(file, writer->size);
  if (!job.status)
    combine_sums(&job, writer->items.items, writer->items.count);
  dp_free(job.pieces);
  dp_free(job.first_piece);
  pthread_mutex_destroy(&job.mutex);
  return job.status;
}

dp_status *dp_bundle_writer_finish(dp_bundle_writer *writer) {
  char *path = dp_bundle_data_path(writer->prefix, 0, 1);
  dp_file *file;
  dp_status *status = dp_file_create_atomic(path, &file);
  dp_free(path);
  DP_RETURN_IF_ERROR(status);
  status = write_data(writer, file);
  if (status) {
    dp_file_abandon(file);
    return status;
  }
  DP_RETURN_IF_ERROR(dp_file_commit(file));
  Tensorflow__VersionDef version = TENSORFLOW__VERSION_DEF__INIT;
  version.producer = DP_BUNDLE_VERSION;
  Tensorflow__BundleHeaderProto header = TENSORFLOW__BUNDLE_HEADER_PROTO__INIT;
  header.num_shards = 1;
  header.version = &version;
  path = dp_bundle_index_path(writer->prefix);
  status = dp_bundle_write_index(path, &header, writer->index.items, writer->index.count);
  dp_free(path);
  return status;
}
