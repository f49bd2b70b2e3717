/* Datasets in files, as Dataset.save and Dataset.snapshot write them. TensorFlow reads ours, and we
 * read TensorFlow's.
 *
 *   <folder>/snapshot.metadata                       which run counts, and whether it is whole
 *   <folder>/<run>/<shard>.shard/<file>.snapshot     records, each one TensorProto: the components
 *                                                    of an element follow each other
 *
 * Each run writes a folder of its own, so that nobody reads what another run is writing. */
#ifndef DP_KERNELS_DATA_DATASET_SAVED_INTERNAL_H
#define DP_KERNELS_DATA_DATASET_SAVED_INTERNAL_H

#include "kernels/data/dataset_internal.h"
#include "storage/record.h"

/* The compression that attribute `compression` names. "AUTO" is Snappy. An unknown name means no
 * compression, with a warning in the log. */
DP_MUST_USE dp_status *dp_saved_compression(const dp_node *node, dp_compression *compression_out);
/* The path in input `slot`; the caller frees it. The error for a wrong rank is "path must be a
 * scalar". */
DP_MUST_USE dp_status *dp_saved_path(dp_op_context *context, int32_t slot, char **path_out);

/* ---- Metadata ---- */
typedef struct dp_saved_metadata {
  char *run;
  int64_t version, elements;
  bool is_complete;
} dp_saved_metadata;
/* Reads <folder>/snapshot.metadata. *exists_out is false, and *metadata_out untouched, when there
 * is none. */
DP_MUST_USE dp_status *dp_saved_metadata_read(const char *folder, dp_saved_metadata *metadata_out,
                                              bool *exists_out);
void dp_saved_metadata_deinit(dp_saved_metadata *metadata);

/* ---- Writing ---- */
typedef struct dp_saved_writer dp_saved_writer;
/* Begins a run: makes its folder and writes metadata that names it as incomplete. `hash` names the
 * dataset in the metadata; "" for none. */
DP_MUST_USE dp_status *dp_saved_writer_create(const char *folder, const char *hash,
                                              const dp_dataset *dataset, dp_compression compression,
                                              dp_saved_writer **writer_out);
/* Writes an element to a shard. After an error the run stays incomplete: every later add and finish
 * gives that error again. */
DP_MUST_USE dp_status *dp_saved_writer_add(dp_saved_writer *writer, int64_t shard,
                                           const dp_tensor *element);
/* Closes all files and marks the run as complete in the metadata, with the number of elements. */
DP_MUST_USE dp_status *dp_saved_writer_finish(dp_saved_writer *writer, int64_t elements);
void dp_saved_writer_destroy(dp_saved_writer *writer); /* accepts NULL */
/* Calls `function` with the element; the result is the number of its shard. */
DP_MUST_USE dp_status *dp_saved_shard(const dp_captured *function, const dp_walk *walk,
                                      const dp_tensor *element, int32_t count, int64_t *shard_out);

/* ---- Reading ---- */
/* An iterator over the run that the metadata names. `function` gets a dataset of one dataset per
 * shard and returns the dataset to walk. All have the components of `like`. */
DP_MUST_USE dp_status *dp_saved_iterate(const char *folder, const dp_saved_metadata *metadata,
                                        const dp_dataset *like, dp_compression compression,
                                        const dp_captured *function, const dp_walk *walk,
                                        dp_iterator **iterator_out);

#endif
