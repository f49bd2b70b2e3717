/* V2 checkpoints ("tensor bundles"), equal to TensorFlow's to the byte.
 *
 *   <prefix>.index                 a table (table.h). The key "" has the BundleHeaderProto; the
 * name of a tensor has its BundleEntryProto: dtype, shape, shard, offset, size, CRC32C. The entry
 * of a partitioned tensor lists its slices; each slice has an entry too, under an encoded key.
 *   <prefix>.data-00000-of-00001   the bytes of the tensors, one after the other
 *
 * Adding to a writer only retains the tensor; dp_bundle_writer_finish writes everything. Several
 * threads fill, checksum and write blocks of the data file; a large file bypasses the page cache.
 * Each file appears under its name only when it is complete, the index last, so that a crash of the
 * process leaves the old checkpoint or the new one. Readers verify every checksum: DATA_LOSS says
 * which tensor is damaged. A writer or reader has one user at a time; the pool that the caller
 * passes does the parallel work. */
#ifndef DP_STORAGE_BUNDLE_H
#define DP_STORAGE_BUNDLE_H

#include "base/thread.h"
#include "storage/slice.h"
#include "tensor/tensor.h"

/* "<prefix>.index" and "<prefix>.data-00000-of-00003"; malloc'd. */
char *dp_bundle_index_path(const char *prefix);
char *dp_bundle_data_path(const char *prefix, int shard, int shard_count);

/* ---- Writing ---- */
typedef struct dp_bundle_writer dp_bundle_writer;
/* Makes the folder of the prefix (not its parents) when it does not exist. `pool` may be NULL. */
DP_MUST_USE dp_status *dp_bundle_writer_create(const char *prefix, dp_pool *pool,
                                               dp_bundle_writer **writer_out);
/* INVALID_ARGUMENT for a name that was added before. */
DP_MUST_USE dp_status *dp_bundle_writer_add(dp_bundle_writer *writer, dp_view name,
                                            const dp_tensor *tensor);
/* Adds `tensor`, which is the given slice of a tensor of shape `whole`. */
DP_MUST_USE dp_status *dp_bundle_writer_add_slice(dp_bundle_writer *writer, dp_view name,
                                                  const dp_shape *whole, const dp_slice *slice,
                                                  const dp_tensor *tensor);
/* Writes everything. To be called at most once. */
DP_MUST_USE dp_status *dp_bundle_writer_finish(dp_bundle_writer *writer);
void dp_bundle_writer_destroy(dp_bundle_writer *writer);

/* Makes one checkpoint of several: renames their data files and writes one index; slices of one
 * tensor are joined under one entry. The old indices are removed. With `allow_missing`, prefixes
 * without an index are skipped. */
DP_MUST_USE dp_status *dp_bundle_merge(const char *const *prefixes, size_t count,
                                       const char *merged_prefix, bool allow_missing);

/* ---- Reading ---- */
typedef struct dp_bundle_reader dp_bundle_reader;
DP_MUST_USE dp_status *dp_bundle_reader_open(const char *prefix, dp_bundle_reader **reader_out);
void dp_bundle_reader_destroy(dp_bundle_reader *reader);

bool dp_bundle_reader_has(dp_bundle_reader *reader, dp_view name);
/* Dtype and shape of the whole tensor. NOT_FOUND: "Key <name> not found in checkpoint". */
DP_MUST_USE dp_status *dp_bundle_reader_describe(dp_bundle_reader *reader, dp_view name,
                                                 dp_dtype *dtype_out, dp_shape *shape_out);

typedef struct dp_bundle_request {
  dp_view name;
  const dp_slice *slice; /* NULL: the whole tensor */
  dp_tensor tensor;      /* the result */
} dp_bundle_request;
/* Reads several tensors, large ones in parallel pieces on `pool` (may be NULL). On failure no
 * request has a result. */
DP_MUST_USE dp_status *dp_bundle_reader_read(dp_bundle_reader *reader, dp_bundle_request *requests,
                                             size_t count, dp_pool *pool);

/* Walks the names of tensors in order (the entries of single slices are skipped):
 *   for (dp_bundle_reader_first(reader); dp_bundle_reader_name(reader, &name);
 *        dp_bundle_reader_next(reader)) */
DP_MUST_USE dp_status *dp_bundle_reader_first(dp_bundle_reader *reader);
DP_MUST_USE dp_status *dp_bundle_reader_next(dp_bundle_reader *reader);
bool dp_bundle_reader_name(dp_bundle_reader *reader, dp_view *name_out);

#endif
