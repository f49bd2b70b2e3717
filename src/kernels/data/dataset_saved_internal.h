/* Datasets in files, as Dataset.save and Dataset.snapshot write them; TensorFlow reads ours, and we
 * read its.
 *
 *   <folder>/snapshot.metadata                       which run counts, and whether it is whole
 *   <folder>/<run>/<shard>.shard/<file>.snapshot     records, each a TensorProto: one element's
 *                                                    components follow each other
 *
 * Each run writes a folder of its own, so that nobody reads what another is writing. */
#ifndef DP_KERNELS_DATASET_SAVED_INTERNAL_H
#define DP_KERNELS_DATASET_SAVED_INTERNAL_H

#include "kernels/data/dataset_internal.h"
#include "storage/record.h"

/* The compression that a node's attribute names; names that nobody knows mean none, with a warning.
 * "AUTO" is what suits best. */
DP_MUST_USE dp_status *dp_saved_compression(const dp_node *node, dp_compression *compression_out);
/* The path in input `slot`, "path must be a scalar"; malloc'd. */
DP_MUST_USE dp_status *dp_saved_path(dp_op_context *context, int32_t slot, char **path_out);

/* ---- What the folder says ---- */
typedef struct dp_saved_metadata {
  char *run;
  int64_t version, elements;
  bool is_complete;
} dp_saved_metadata;
/* *exists_out is false, and nothing is set, when there is none. */
DP_MUST_USE dp_status *dp_saved_metadata_read(const char *folder, dp_saved_metadata *metadata_out,
                                              bool *exists_out);
void dp_saved_metadata_deinit(dp_saved_metadata *metadata);

/* ---- Writing ---- */
typedef struct dp_saved_writer dp_saved_writer;
/* Begins a run: makes its folder and says so. `hash` names the dataset in the metadata ("": not).
 */
DP_MUST_USE dp_status *dp_saved_writer_create(const char *folder, const char *hash,
                                              const dp_dataset *dataset, dp_compression compression,
                                              dp_saved_writer **writer_out);
/* After an error the run stays incomplete: adding and finishing give the same error again. */
DP_MUST_USE dp_status *dp_saved_writer_add(dp_saved_writer *writer, int64_t shard,
                                           const dp_tensor *element);
/* Closes all files and says that the run is whole, with so many elements. */
DP_MUST_USE dp_status *dp_saved_writer_finish(dp_saved_writer *writer, int64_t elements);
void dp_saved_writer_destroy(dp_saved_writer *writer); /* accepts NULL */
/* The number that the function gives for an element. */
DP_MUST_USE dp_status *dp_saved_shard(const dp_captured *function, const dp_walk *walk,
                                      const dp_tensor *element, int32_t count, int64_t *shard_out);

/* ---- Reading ---- */
/* A walk over the run that the metadata names: `function` makes one dataset of those of the shards,
 * which have the components of `like`. */
DP_MUST_USE dp_status *dp_saved_iterate(const char *folder, const dp_saved_metadata *metadata,
                                        const dp_dataset *like, dp_compression compression,
                                        const dp_captured *function, const dp_walk *walk,
                                        dp_iterator **iterator_out);

#endif
