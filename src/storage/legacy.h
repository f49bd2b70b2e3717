/* V1 checkpoints: one table (table.h) a shard. "" leads to a SavedTensorSlices message that lists
 * the tensors and their slices; each slice's encoded key to one that holds its values as a
 * TensorProto. Written by old TensorFlows, and by the ops Save and SaveSlices today.
 * Readers and writers have one user at a time. */
#ifndef DP_STORAGE_LEGACY_H
#define DP_STORAGE_LEGACY_H

#include "storage/slice.h"
#include "tensor/tensor.h"

/* ---- Writing ---- */
typedef struct dp_legacy_writer dp_legacy_writer;
dp_legacy_writer *dp_legacy_writer_create(const char *path);
void dp_legacy_writer_destroy(dp_legacy_writer *writer);
/* Encodes at once. UNIMPLEMENTED for dtypes that the format does not have. */
DP_MUST_USE dp_status *dp_legacy_writer_add(dp_legacy_writer *writer, dp_view name,
                                            const dp_shape *whole, const dp_slice *slice,
                                            const dp_tensor *tensor);
/* Writes the file, atomically. Once. */
DP_MUST_USE dp_status *dp_legacy_writer_finish(dp_legacy_writer *writer);

/* ---- Reading ---- */
typedef struct dp_legacy_reader dp_legacy_reader;
/* All files that match the pattern are the shards of one checkpoint. */
DP_MUST_USE dp_status *dp_legacy_reader_take(const char *pattern, dp_legacy_reader **reader_out);
/* For whoever takes it next. */
void dp_legacy_reader_give(dp_legacy_reader *reader);
/* False when there is no such tensor. */
bool dp_legacy_reader_find(dp_legacy_reader *reader, dp_view name, dp_dtype *dtype_out,
                           dp_shape *shape_out);
/* The slice of a tensor that is there; INVALID_ARGUMENT when the stored slices do not cover it. */
DP_MUST_USE dp_status *dp_legacy_reader_read(dp_legacy_reader *reader, dp_view name,
                                             const dp_slice *slice, dp_tensor *tensor_out);

#endif
