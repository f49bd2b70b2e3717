/* V1 checkpoints: one table (table.h) per shard. The value of the key "" is a SavedTensorSlices
 * message that lists the tensors and their slices. The value of a slice's encoded key is a
 * SavedTensorSlices message with the values as a TensorProto. Old versions of TensorFlow write this
 * format, and the ops Save and SaveSlices still do. A reader or writer has one user at a time. */
#ifndef DP_STORAGE_LEGACY_H
#define DP_STORAGE_LEGACY_H

#include "storage/slice.h"
#include "tensor/tensor.h"

/* ---- Writing ---- */
typedef struct dp_legacy_writer dp_legacy_writer;
dp_legacy_writer *dp_legacy_writer_create(const char *path);
void dp_legacy_writer_destroy(dp_legacy_writer *writer);
/* Encodes the values in this call, so `tensor` is not kept. UNIMPLEMENTED for dtypes that the
 * format does not have. */
DP_MUST_USE dp_status *dp_legacy_writer_add(dp_legacy_writer *writer, dp_view name,
                                            const dp_shape *whole, const dp_slice *slice,
                                            const dp_tensor *tensor);
/* Writes the file, which appears when it is complete. To be called at most once. */
DP_MUST_USE dp_status *dp_legacy_writer_finish(dp_legacy_writer *writer);

/* ---- Reading ---- */
typedef struct dp_legacy_reader dp_legacy_reader;
/* Opens a checkpoint, or takes a reader that was given back. All files that match the pattern are
 * the shards of one checkpoint. */
DP_MUST_USE dp_status *dp_legacy_reader_take(const char *pattern, dp_legacy_reader **reader_out);
/* Consumes the reader: it is kept open for some seconds for the next dp_legacy_reader_take. */
void dp_legacy_reader_give(dp_legacy_reader *reader);
/* False when there is no such tensor. */
bool dp_legacy_reader_find(dp_legacy_reader *reader, dp_view name, dp_dtype *dtype_out,
                           dp_shape *shape_out);
/* Reads a slice of a tensor that dp_legacy_reader_find finds. INVALID_ARGUMENT when the stored
 * slices do not cover it. */
DP_MUST_USE dp_status *dp_legacy_reader_read(dp_legacy_reader *reader, dp_view name,
                                             const dp_slice *slice, dp_tensor *tensor_out);

#endif
