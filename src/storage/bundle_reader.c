/* Reads V2 checkpoints (bundle.h).
 *
 * A read of many tensors is planned first: the entries of each tensor in the index are found, and
 * large ones are cut into pieces of 4 MiB. Then several threads read the pieces straight into the
 * tensors' memory and compute their checksums, which are combined and compared. A stored slice that
 * is only a part of the wanted one is read into a temporary tensor and copied. Offsets and sizes
 * from the index are checked against the size of the data file before memory is taken. */
#include <pthread.h>
#include <string.h>
#include "base/checksum.h"
#include "storage/bundle_internal.h"
#include "wire/shape_message.h"

#define PIECE_SIZE ((uint64_t)4 << 20)
#define MAX_SLICES 16384 /* of one tensor: more than any job has tasks */

typedef struct shard {
  dp_file *file;
  uint64_t size;
} shard;

struct dp_bundle_reader {
  char *prefix;
  dp_arena *arena; /* of the header */
  dp_file *file;
  dp_table_reader *table;
  int32_t shard_count;
  bool is_swapped; /* the files have the other byte order */
  shard *shards;   /* opened when first used */
};

/* One stored tensor (or stored slice) that is to be read. */
typedef struct load {
  dp_tensor tensor;
  dp_file *file;
  uint64_t offset, size;
  uint32_t crc; /* as stored, unmasked */
  int32_t shard;
  size_t first_piece;
  size_t request; /* index of the request that it is for */
  /* When it is only a part of what was asked for: */
  bool is_part;
  dp_slice stored, wanted;
  dp_shape whole;
} load;

typedef struct piece {
  load *load;
  uint64_t begin, length;
  uint32_t crc;
} piece;

typedef struct plan {
  dp_bundle_reader *reader;
  dp_arena *arena;
  DP_ARRAY(load) loads;
  DP_ARRAY(piece) pieces;
  pthread_mutex_t mutex;
  dp_status *status;
} plan;

/* ---- Opening ---- */
dp_status *dp_bundle_reader_open(const char *prefix, dp_bundle_reader **reader_out) {
  dp_bundle_reader *reader = DP_NEW(dp_bundle_reader);
  reader->arena = dp_arena_create();
  Tensorflow__BundleHeaderProto *header;
  dp_status *status =
      dp_bundle_open_index(prefix, reader->arena, &reader->file, &reader->table, &header);
  if (status) {
    dp_arena_destroy(reader->arena);
    dp_free(reader);
    return status;
  }
  reader->prefix = dp_strdup(prefix);
  reader->shard_count = header->num_shards;
  bool is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  reader->is_swapped =
      (header->endianness == TENSORFLOW__BUNDLE_HEADER_PROTO__ENDIANNESS__LITTLE) != is_little;
  reader->shards = DP_NEW_ARRAY(shard, (size_t)reader->shard_count + 1);
  *reader_out = reader;
  return NULL;
}

void dp_bundle_reader_destroy(dp_bundle_reader *reader) {
  if (!reader)
    return;
  for (int32_t i = 0; i < reader->shard_count; ++i)
    dp_file_discard(reader->shards[i].file);
  dp_free(reader->shards);
  dp_table_reader_destroy(reader->table);
  dp_file_discard(reader->file);
  dp_arena_destroy(reader->arena);
  dp_free(reader->prefix);
  dp_free(reader);
}

static dp_status *open_shard(dp_bundle_reader *reader, int32_t id, shard **shard_out) {
  if (id >= reader->shard_count)
    return dp_status_create(DP_DATA_LOSS, "an entry of %s is in shard %d of %d", reader->prefix, id,
                            reader->shard_count);
  shard *shard = &reader->shards[id];
  if (!shard->file) {
    char *path = dp_bundle_data_path(reader->prefix, id, reader->shard_count);
    dp_status *status = dp_file_open(path, DP_FILE_READ, &shard->file);
    dp_free(path);
    DP_RETURN_IF_ERROR(status);
    DP_RETURN_IF_ERROR(dp_file_size(shard->file, &shard->size));
  }
  *shard_out = shard;
  return NULL;
}

/* ---- The index ---- */
static dp_status *find_entry(dp_bundle_reader *reader, dp_view key, dp_arena *arena,
                             Tensorflow__BundleEntryProto **entry_out) {
  DP_RETURN_IF_ERROR(dp_table_reader_seek(reader->table, key));
  if (key.length == 0 || !dp_table_reader_is_valid(reader->table) ||
      !dp_view_equal(dp_table_reader_key(reader->table), key))
    return dp_status_create(DP_NOT_FOUND, "Key %.*s not found in checkpoint", (int)key.length,
                            key.data);
  return dp_bundle_parse_entry(key, dp_table_reader_value(reader->table), arena, entry_out);
}

bool dp_bundle_reader_has(dp_bundle_reader *reader, dp_view name) {
  dp_status *status = dp_table_reader_seek(reader->table, name);
  bool is_there = !status && dp_table_reader_is_valid(reader->table) &&
                  dp_view_equal(dp_table_reader_key(reader->table), name);
  dp_status_release(status);
  return is_there;
}

dp_status *dp_bundle_reader_describe(dp_bundle_reader *reader, dp_view name, dp_dtype *dtype_out,
                                     dp_shape *shape_out) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__BundleEntryProto *entry;
  dp_status *status = find_entry(reader, name, arena, &entry);
  if (!status)
    status = dp_wire_shape(entry->shape, shape_out);
  if (!status)
    *dtype_out = (dp_dtype)entry->dtype;
  dp_arena_destroy(arena);
  return status;
}

dp_status *dp_bundle_reader_first(dp_bundle_reader *reader) {
  DP_RETURN_IF_ERROR(dp_table_reader_seek(reader->table, (dp_view){"", 0}));
  return dp_bundle_reader_next(reader);
}

dp_status *dp_bundle_reader_next(dp_bundle_reader *reader) {
  do
    DP_RETURN_IF_ERROR(dp_table_reader_next(reader->table));
  while (dp_table_reader_is_valid(reader->table) && dp_table_reader_key(reader->table).length > 0 &&
         dp_table_reader_key(reader->table).data[0] == '\0'); /* the entry of a single slice */
  return NULL;
}

bool dp_bundle_reader_name(dp_bundle_reader *reader, dp_view *name_out) {
  if (!dp_table_reader_is_valid(reader->table))
    return false;
  *name_out = dp_table_reader_key(reader->table);
  return true;
}

/* ---- Planning ---- */
/* Adds one stored tensor. Its memory is taken only after a check that the file has its bytes. */
static dp_status *plan_load(plan *plan, dp_view key, const Tensorflow__BundleEntryProto *entry,
                            load **load_out) {
  load load = {.offset = (uint64_t)entry->offset,
               .size = (uint64_t)entry->size,
               .crc = dp_crc32c_unmask(entry->crc32c),
               .shard = entry->shard_id};
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_wire_shape(entry->shape, &shape));
  dp_dtype dtype = (dp_dtype)entry->dtype;
  size_t bytes = 0;
  bool is_plain = dp_dtype_is_plain(dtype);
  bool fits = dp_multiply_size((size_t)shape.elements, dp_dtype_size(dtype), &bytes);
  if (is_plain && (!fits || bytes != load.size))
    return dp_status_create(DP_DATA_LOSS,
                            "Invalid size in bundle entry: key %.*s; stored size %lld; expected "
                            "size %lld",
                            (int)key.length, key.data, (long long)load.size,
                            fits ? (long long)bytes : -1LL);
  /* Each string takes at least one byte, each variant more. */
  if (!is_plain && (!fits || (shape.elements > 0 && load.size < (uint64_t)shape.elements)))
    return dp_status_create(DP_DATA_LOSS,
                            "Invalid size in bundle entry: key %.*s; stored size %lld; expected "
                            "size is at least %lld",
                            (int)key.length, key.data, (long long)load.size,
                            (long long)shape.elements);
  shard *shard;
  DP_RETURN_IF_ERROR(open_shard(plan->reader, entry->shard_id, &shard));
  if (load.offset > shard->size || load.size > shard->size - load.offset)
    return dp_status_create(DP_OUT_OF_RANGE, "Read less bytes than requested");
  load.file = shard->file;
  DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &shape, &load.tensor));
  DP_ARRAY_PUSH(&plan->loads, load);
  *load_out = &plan->loads.items[plan->loads.count - 1];
  return NULL;
}

static dp_status *stored_slices(plan *plan, const Tensorflow__BundleEntryProto *entry, int rank,
                                dp_slice **slices_out, size_t *count_out) {
  if (entry->n_slices > MAX_SLICES)
    return dp_status_create(DP_DATA_LOSS, "a tensor with %zu slices", entry->n_slices);
  size_t count = entry->n_slices ? entry->n_slices : 1;
  dp_slice *slices = DP_ARENA_ARRAY(plan->arena, dp_slice, count);
  slices[0] = dp_slice_full(rank);
  for (size_t i = 0; i < entry->n_slices; ++i)
    DP_RETURN_IF_ERROR(dp_bundle_slice_from_message(entry->slices[i], &slices[i]));
  *slices_out = slices;
  *count_out = count;
  return NULL;
}

static bool any_overlap(const dp_slice *stored, const size_t *chosen, size_t count) {
  dp_slice both;
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j)
      if (dp_slice_intersect(&stored[chosen[i]], &stored[chosen[j]], &both))
        return true;
  return false;
}

/* Adds the stored slices that must be read for a slice: the one that is equal, or all that overlap.
 */
static dp_status *plan_slices(plan *plan, size_t request_index, dp_bundle_request *request,
                              const Tensorflow__BundleEntryProto *entry, const dp_slice *wanted) {
  dp_shape whole, shape;
  dp_slice *stored;
  size_t stored_count, count;
  DP_RETURN_IF_ERROR(dp_wire_shape(entry->shape, &whole));
  DP_RETURN_IF_ERROR(dp_slice_shape(wanted, &whole, &shape));
  DP_RETURN_IF_ERROR(stored_slices(plan, entry, whole.rank, &stored, &stored_count));
  size_t *chosen = DP_ARENA_ARRAY(plan->arena, size_t, stored_count);
  if (!dp_slices_cover(&whole, stored, stored_count, wanted, chosen, &count)) {
    dp_text text = {0};
    dp_slice_print(wanted, &text);
    dp_status *status =
        DP_INVALID("Does not have sufficient slices for partitioned tensor %.*s to restore in "
                   "slice_spec: %s",
                   (int)request->name.length, request->name.data, dp_text_string(&text));
    dp_text_deinit(&text);
    return status;
  }
  if (any_overlap(stored, chosen, count))
    return dp_status_create(DP_INTERNAL, "Overlapping slices of tensor %.*s",
                            (int)request->name.length, request->name.data);
  bool is_alone = count == 1 && dp_slice_equal(&stored[chosen[0]], wanted);
  if (!is_alone && !dp_dtype_is_plain((dp_dtype)entry->dtype))
    return DP_INVALID("Dtype %s not supported.", dp_dtype_name((int)entry->dtype));
  for (size_t i = 0; i < count; ++i) {
    const dp_slice *slice = &stored[chosen[i]];
    const Tensorflow__BundleEntryProto *part = entry;
    dp_text key = {0};
    dp_status *status = NULL;
    if (entry->n_slices > 0) {
      Tensorflow__BundleEntryProto *found = NULL;
      dp_slice_encode_key(request->name, slice, &key);
      status = find_entry(plan->reader, (dp_view){key.data, key.length}, plan->arena, &found);
      part = found;
    }
    load *load = NULL;
    dp_shape expected;
    if (!status)
      status = dp_slice_shape(slice, &whole, &expected);
    if (!status)
      status = plan_load(plan, request->name, part, &load);
    dp_text_deinit(&key);
    DP_RETURN_IF_ERROR(status);
    load->request = request_index;
    if (!dp_shape_equal(&load->tensor.shape, &expected) ||
        load->tensor.dtype != (dp_dtype)entry->dtype)
      return dp_status_create(DP_DATA_LOSS, "a stored slice of %.*s has another shape or dtype",
                              (int)request->name.length, request->name.data);
    load->is_part = !is_alone;
    load->stored = *slice;
    load->wanted = *wanted;
    load->whole = whole;
  }
  if (!is_alone)
    return dp_tensor_create((dp_dtype)entry->dtype, &shape, &request->tensor);
  return NULL;
}

static dp_status *plan_request(plan *plan, dp_bundle_request *requests, size_t index) {
  dp_bundle_request *request = &requests[index];
  Tensorflow__BundleEntryProto *entry;
  DP_RETURN_IF_ERROR(find_entry(plan->reader, request->name, plan->arena, &entry));
  if (request->slice || entry->n_slices > 0) {
    dp_shape whole;
    DP_RETURN_IF_ERROR(dp_wire_shape(entry->shape, &whole));
    dp_slice full = dp_slice_full(whole.rank);
    return plan_slices(plan, index, request, entry, request->slice ? request->slice : &full);
  }
  load *load;
  DP_RETURN_IF_ERROR(plan_load(plan, request->name, entry, &load));
  load->request = index;
  return NULL;
}

static void plan_pieces(plan *plan) {
  for (size_t i = 0; i < plan->loads.count; ++i) {
    load *load = &plan->loads.items[i];
    load->first_piece = plan->pieces.count;
    bool is_plain = dp_dtype_is_plain(load->tensor.dtype);
    for (uint64_t begin = 0; begin < load->size;) {
      uint64_t length = load->size - begin;
      if (is_plain && length > PIECE_SIZE)
        length = PIECE_SIZE;
      DP_ARRAY_PUSH(&plan->pieces, ((piece){load, begin, length, 0}));
      begin += length;
    }
  }
}

/* ---- Reading ---- */
static dp_status *read_objects(plan *plan, piece *piece) {
  load *load = piece->load;
  uint8_t *bytes = dp_try_malloc((size_t)load->size + 1);
  if (!bytes)
    return dp_status_out_of_memory();
  dp_status *status = dp_file_read_exact(load->file, load->offset, bytes, (size_t)load->size);
  if (!status)
    status = dp_bundle_decode_objects(bytes, (size_t)load->size, plan->reader->is_swapped,
                                      &load->tensor, &piece->crc);
  dp_free(bytes);
  return status;
}

static dp_status *read_piece(plan *plan, piece *piece) {
  load *load = piece->load;
  if (!dp_dtype_is_plain(load->tensor.dtype))
    return read_objects(plan, piece);
  uint8_t *to = (uint8_t *)load->tensor.data + piece->begin;
  DP_RETURN_IF_ERROR(
      dp_file_read_exact(load->file, load->offset + piece->begin, to, (size_t)piece->length));
  piece->crc = dp_crc32c(to, (size_t)piece->length);
  return NULL;
}

static void read_pieces(void *arg, int64_t begin, int64_t end) {
  plan *plan = arg;
  for (int64_t i = begin; i < end; ++i) {
    dp_status *status = read_piece(plan, &plan->pieces.items[i]);
    if (!status)
      continue;
    pthread_mutex_lock(&plan->mutex);
    dp_status_update(&plan->status, status);
    pthread_mutex_unlock(&plan->mutex);
    return;
  }
}

static dp_status *check_sum(const plan *plan, const load *load) {
  uint32_t crc = 0;
  size_t at = load->first_piece;
  for (uint64_t done = 0; done < load->size; ++at) {
    const piece *piece = &plan->pieces.items[at];
    crc = done == 0 ? piece->crc : dp_crc32c_combine(crc, piece->crc, piece->length);
    done += piece->length;
  }
  if (crc != load->crc)
    return dp_status_create(DP_DATA_LOSS,
                            "TensorBundle at %s shard %d (%llu bytes): Checksum does not match: "
                            "stored %08u vs. calculated on the restored bytes %u",
                            plan->reader->prefix, load->shard, (unsigned long long)load->size,
                            load->crc, crc);
  return NULL;
}

/* Swaps the bytes of each element; of a complex number, those of each part. */
static void swap_bytes(dp_tensor *tensor) {
  size_t size = dp_dtype_size(tensor->dtype), count = (size_t)dp_tensor_elements(tensor);
  if (dp_dtype_is_complex(tensor->dtype)) {
    size /= 2;
    count *= 2;
  }
  uint8_t *bytes = tensor->data;
  for (size_t i = 0; size > 1 && i < count; ++i) {
    for (size_t low = 0, high = size - 1; low < high; ++low, --high) {
      uint8_t kept = bytes[i * size + low];
      bytes[i * size + low] = bytes[i * size + high];
      bytes[i * size + high] = kept;
    }
  }
}

/* Verifies the checksums of all loads and moves or copies the tensors to their requests. */
static dp_status *deliver(plan *plan, dp_bundle_request *requests) {
  for (size_t i = 0; i < plan->loads.count; ++i) {
    load *load = &plan->loads.items[i];
    DP_RETURN_IF_ERROR(check_sum(plan, load));
    if (plan->reader->is_swapped && dp_dtype_is_plain(load->tensor.dtype))
      swap_bytes(&load->tensor);
    dp_tensor *to = &requests[load->request].tensor;
    if (load->is_part)
      dp_slice_copy(load->tensor.dtype, &load->whole, &load->stored, load->tensor.data,
                    &load->wanted, to->data);
    else
      *to = dp_tensor_take(&load->tensor);
  }
  return NULL;
}

dp_status *dp_bundle_reader_read(dp_bundle_reader *reader, dp_bundle_request *requests,
                                 size_t count, dp_pool *pool) {
  plan plan = {.reader = reader, .arena = dp_arena_create(), .mutex = PTHREAD_MUTEX_INITIALIZER};
  for (size_t i = 0; i < count; ++i)
    requests[i].tensor = (dp_tensor){0};
  for (size_t i = 0; i < count && !plan.status; ++i)
    plan.status = plan_request(&plan, requests, i);
  if (!plan.status) {
    plan_pieces(&plan);
    if (pool)
      dp_pool_for(pool, (int64_t)plan.pieces.count, 1, read_pieces, &plan);
    else
      read_pieces(&plan, 0, (int64_t)plan.pieces.count);
  }
  if (!plan.status)
    plan.status = deliver(&plan, requests);
  for (size_t i = 0; i < plan.loads.count; ++i)
    dp_tensor_deinit(&plan.loads.items[i].tensor);
  for (size_t i = 0; i < count && plan.status; ++i)
    dp_tensor_deinit(&requests[i].tensor);
  DP_ARRAY_FREE(&plan.loads);
  DP_ARRAY_FREE(&plan.pieces);
  dp_arena_destroy(plan.arena);
  pthread_mutex_destroy(&plan.mutex);
  return plan.status;
}
