/* Batches of examples to sparse, dense and ragged tensors: what the ops and the datasets that parse
 * examples share.
 *
 * A config says which features are wanted, sparse ones first, then dense, then ragged ones; it is
 * read by any number of threads at once. Parsing makes two passes over the batch, each on many
 * threads: the first finds, checks and counts the features that are wanted, the second writes them
 * to where the counts put them. */
#ifndef DP_KERNELS_EXAMPLE_BATCH_INTERNAL_H
#define DP_KERNELS_EXAMPLE_BATCH_INTERNAL_H

#include "base/map.h"
#include "base/thread.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

typedef enum dp_example_kind {
  DP_EXAMPLE_SPARSE,
  DP_EXAMPLE_DENSE,
  DP_EXAMPLE_RAGGED
} dp_example_kind;

/* A feature that is asked for. */
typedef struct dp_example_feature {
  dp_view key; /* borrowed */
  dp_example_kind kind;
  dp_dtype dtype;
  dp_dtype splits; /* RAGGED: dtype of its row splits */
  /* DENSE */
  const dp_partial_shape *shape; /* its first dimension may be unknown: then rows are padded */
  bool is_padded;
  int64_t stride; /* values in a row of the first dimension; of all when it is not padded */
  const dp_tensor *fallback;
} dp_example_feature;

typedef struct dp_example_config {
  int32_t sparse_count, dense_count, ragged_count, count;
  dp_example_feature *features;
  dp_map *by_key; /* to features */
} dp_example_config;

/* Features with their kinds alone. */
void dp_example_config_init(dp_example_config *config, int32_t sparse_count, int32_t dense_count,
                            int32_t ragged_count);
void dp_example_config_deinit(dp_example_config *config);
/* Names feature k; of two with one name the last is found. */
void dp_example_set_key(dp_example_config *config, int32_t k, dp_view key);
/* The shape of dense feature `index` (all but its first dimension known) and what stands in for
 * values that are missing; both are borrowed. */
DP_MUST_USE dp_status *dp_example_set_dense(dp_example_config *config, int32_t index,
                                            const dp_partial_shape *shape,
                                            const dp_tensor *fallback);
/* The dense shapes of a node, checked: as many as `count`. */
DP_MUST_USE dp_status *dp_example_read_shapes(const dp_node *node, int32_t count,
                                              dp_partial_shape **shapes_out);

/* How many tensors a batch gives. */
static inline int32_t dp_example_output_count(const dp_example_config *config) {
  return 3 * config->sparse_count + config->dense_count + 2 * config->ragged_count;
}
/* Parses a vector of examples, or a scalar, whose outputs lack the dimension of the batch. `names`
 * are for messages and may be NULL; `pool` may be NULL. Into `outputs`, unset tensors: indices,
 * values and shapes of the sparse features, the dense ones, values and row splits of the ragged
 * ones. The caller clears them, after an error too. */
DP_MUST_USE dp_status *dp_example_parse(const dp_example_config *config,
                                        const dp_tensor *serialized, const dp_tensor *names,
                                        dp_pool *pool, dp_tensor *outputs);

#endif
