/* Parsing batches of Examples to sparse, dense and ragged tensors. The parsing ops (example_ops.c)
 * and the parsing datasets (dataset_parse.c) share this.
 *
 * A config lists the wanted features: first the sparse, then the dense, then the ragged ones. Any
 * number of threads may read it at once. Parsing makes two passes over the batch, each on many
 * threads. The first pass finds, checks and counts the wanted features; the second writes their
 * values to the places that the counts give. */
#ifndef DP_KERNELS_DATA_EXAMPLE_BATCH_INTERNAL_H
#define DP_KERNELS_DATA_EXAMPLE_BATCH_INTERNAL_H

#include "base/map.h"
#include "base/thread.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

typedef enum dp_example_kind {
  DP_EXAMPLE_SPARSE,
  DP_EXAMPLE_DENSE,
  DP_EXAMPLE_RAGGED
} dp_example_kind;

/* A wanted feature. */
typedef struct dp_example_feature {
  dp_view key; /* borrowed */
  dp_example_kind kind;
  dp_dtype dtype;
  dp_dtype splits; /* RAGGED: dtype of the row splits */
  /* DENSE: */
  const dp_partial_shape *shape; /* when its first dimension is unknown, rows are padded */
  bool is_padded;
  int64_t stride; /* values per row of the first dimension when padded, else values in all */
  const dp_tensor *fallback;
} dp_example_feature;

typedef struct dp_example_config {
  int32_t sparse_count, dense_count, ragged_count, count;
  dp_example_feature *features;
  dp_map *by_key; /* from key to feature */
} dp_example_config;

/* Makes the features with their kinds; nothing else is set. */
void dp_example_config_init(dp_example_config *config, int32_t sparse_count, int32_t dense_count,
                            int32_t ragged_count);
void dp_example_config_deinit(dp_example_config *config);
/* Sets the key of feature k. When two features have one key, lookups find the later. */
void dp_example_set_key(dp_example_config *config, int32_t k, dp_view key);
/* Sets the shape of dense feature `index` (all dimensions but the first must be known) and the
 * default for missing values. Both are borrowed. */
DP_MUST_USE dp_status *dp_example_set_dense(dp_example_config *config, int32_t index,
                                            const dp_partial_shape *shape,
                                            const dp_tensor *fallback);
/* Reads and checks attribute dense_shapes, which must have `count` shapes. */
DP_MUST_USE dp_status *dp_example_read_shapes(const dp_node *node, int32_t count,
                                              dp_partial_shape **shapes_out);

/* The number of tensors that dp_example_parse gives. */
static inline int32_t dp_example_output_count(const dp_example_config *config) {
  return 3 * config->sparse_count + config->dense_count + 2 * config->ragged_count;
}
/* Parses a vector of Examples, or a scalar, for which the outputs have no batch dimension. `names`
 * are for error messages and may be NULL; `pool` may be NULL.
 *
 * `outputs` are unset tensors, in this order: indices, then values, then shapes of the sparse
 * features; the dense features; values, then row splits of the ragged features. The caller clears
 * them, also after an error. */
DP_MUST_USE dp_status *dp_example_parse(const dp_example_config *config,
                                        const dp_tensor *serialized, const dp_tensor *names,
                                        dp_pool *pool, dp_tensor *outputs);

#endif
