/* V2 checkpoints ("tensor bundles"), equal to TensorFlow's to the byte.
 *
 *   <prefix>.index                 a table (table.h): "" to BundleHeaderProto, then each tensor's
 * name to BundleEntryProto: dtype, shape, shard, offset, size, CRC32C. A partitioned tensor has an
 * entry that lists its slices, and one for each slice under an encoded key.
 *   <prefix>.data-00000-of-00001   the tensors' bytes, one behind the other
 *
 * A writer only notes tensors (it retains them) and writes all at the end: blocks of the data file
 * are filled, summed and written by several threads, past the system's cache when the file is
 * large. Both files appear whole under their names, the index last, so a crash leaves the old
 * checkpoint or the new one. Readers verify every checksum: DATA_LOSS says which tensor is damaged.
 * Writers and readers have one user at a time; the pools they are given do the parallel work. */
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
/* Makes the folder of the prefix (not its parents) when it is not there. `pool` may be NULL. */
DP_MUST_USE dp_status *dp_bundle_writer_create(const char *prefix, dp_pool *pool,
                                               dp_bundle_writer **writer_out);
/* INVALID_ARGUMENT for a name that is there already. */
DP_MUST_USE dp_status *dp_bundle_writer_add(dp_bundle_writer *writer, dp_view name,
                                            const dp_tensor *tensor);
/* `tensor` is the slice of a tensor of shape `whole`. */
DP_MUST_USE dp_status *dp_bundle_writer_add_slice(dp_bundle_writer *writer, dp_view name,
                                                  const dp_shape *whole, const dp_slice *slice,
                                                  const dp_tensor *tensor);
/* Writes everything. Once. */
DP_MUST_USE dp_status *dp_bundle_writer_finish(dp_bundle_writer *writer);
void dp_bundle_writer_destroy(dp_bundle_writer *writer);

/* Makes one checkpoint of several: the data files are renamed, the indices joined; slices of one
 * tensor come together. The old indices are removed. With `allow_missing`, prefixes without an
 * index are passed over. */
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

/* Walks the names in order (slices' own entries are passed over):
 *   for (dp_bundle_reader_first(reader); dp_bundle_reader_name(reader, &name);
 *        dp_bundle_reader_next(reader)) */
DP_MUST_USE dp_status *dp_bundle_reader_first(dp_bundle_reader *reader);
DP_MUST_USE dp_status *dp_bundle_reader_next(dp_bundle_reader *reader);
bool dp_bundle_reader_name(dp_bundle_reader *reader, dp_view *name_out);

#endif
