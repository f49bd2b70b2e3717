/* The examples and weights of SdcaOptimizer (contract in sdca_internal.h). The inputs are, in
 * order:
 *
 *   examples of every sparse group; features of every group; values of the groups that have some
 *   dense features
 *   weights and labels of the examples
 *   features with weights, of every sparse group; these weights, of every group
 *   dense weights
 *   the state of the examples */
#include <string.h>
#include "base/map.h"
#include "base/memory.h"
#include "kernels/models/sdca_internal.h"

static const dp_tensor *input_at(const dp_op_context *context, int64_t slot) {
  return dp_op_input(context, (int32_t)slot);
}

/* Allocates the output with the changes of a group's weights. */
static dp_status *make_deltas(dp_op_context *context, int64_t output, const dp_tensor *weights,
                              float **deltas_out) {
  dp_tensor *deltas;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, (int32_t)output, &weights->shape, &deltas));
  memset(deltas->data, 0, dp_tensor_bytes(deltas));
  *deltas_out = deltas->data;
  return NULL;
}

/* ---- Sparse groups ---- */
/* Maps a feature to 1 + the index of its weight; of equal features the last counts. */
static dp_map *index_weights(const dp_tensor *features) {
  dp_map *places = dp_map_create();
  const int64_t *values = features->data;
  for (int64_t i = 0; i < features->shape.elements; ++i)
    dp_map_put_n(places, &values[i], sizeof values[i], (void *)(uintptr_t)(i + 1));
  return places;
}

/* Entries are sorted by example; entries out of order belong to no example. */
static void find_examples(dp_sdca_sparse *group, const dp_tensor *examples, int64_t count) {
  const int64_t *values = examples->data;
  int64_t at = 0;
  for (int64_t example = 0; example < count; ++example) {
    group->begin[example] = at;
    while (at < examples->shape.elements && values[at] == example)
      ++at;
    group->lengths[example] = at - group->begin[example];
  }
}

static dp_status *find_features(dp_sdca_sparse *group, const dp_sdca_batch *batch,
                                const dp_tensor *features, const dp_map *places) {
  const int64_t *values = features->data;
  for (int64_t example = 0; example < batch->examples; ++example)
    for (int64_t i = 0; i < group->lengths[example]; ++i) {
      int64_t at = group->begin[example] + i;
      uintptr_t place = (uintptr_t)dp_map_get_n(places, &values[at], sizeof values[at]);
      if (place == 0)
        return DP_INVALID("Found sparse feature indices out of valid range: %lld",
                          (long long)values[at]);
      group->ids[at] = (int64_t)place - 1;
    }
  return NULL;
}

static dp_status *check_sparse(const dp_tensor *examples, const dp_tensor *features,
                               const dp_tensor *values, const dp_tensor *indices,
                               const dp_tensor *weights) {
  long long entries = examples->shape.elements;
  if (features->shape.elements != entries)
    return DP_INVALID("Found mismatched example_indices and feature_indices: %lld vs %lld", entries,
                      (long long)features->shape.elements);
  if (values && values->shape.elements != entries)
    return DP_INVALID("Found %lld values of sparse features but %lld indices",
                      (long long)values->shape.elements, entries);
  if (indices->shape.elements != weights->shape.elements)
    return DP_INVALID("Found %lld sparse weights for %lld sparse indices",
                      (long long)weights->shape.elements, (long long)indices->shape.elements);
  return NULL;
}

static dp_status *read_sparse(dp_sdca_batch *batch, dp_op_context *context, int64_t which) {
  const dp_sdca_counts *counts = &batch->counts;
  dp_sdca_sparse *group = &batch->sparse[which];
  int64_t later = 2 * counts->sparse + counts->with_values + counts->dense + 2;
  const dp_tensor *examples = input_at(context, which);
  const dp_tensor *features = input_at(context, counts->sparse + which);
  const dp_tensor *values =
      which < counts->with_values ? input_at(context, 2 * counts->sparse + which) : NULL;
  const dp_tensor *indices = input_at(context, later + which);
  const dp_tensor *weights = input_at(context, later + counts->sparse + which);
  DP_RETURN_IF_ERROR(check_sparse(examples, features, values, indices, weights));
  DP_RETURN_IF_ERROR(make_deltas(context, 1 + which, weights, &group->deltas));
  group->values = values ? values->data : NULL;
  group->weights = weights->data;
  group->ids = DP_NEW_ARRAY(int64_t, (size_t)examples->shape.elements + 1);
  group->begin = DP_NEW_ARRAY(int64_t, (size_t)batch->examples + 1);
  group->lengths = DP_NEW_ARRAY(int64_t, (size_t)batch->examples + 1);
  find_examples(group, examples, batch->examples);
  dp_map *places = index_weights(indices);
  dp_status *status = find_features(group, batch, features, places);
  dp_map_destroy(places);
  return status;
}

/* ---- Dense groups ---- */
static dp_status *read_dense(dp_sdca_batch *batch, dp_op_context *context, int64_t which) {
  const dp_sdca_counts *counts = &batch->counts;
  int64_t first = 2 * counts->sparse + counts->with_values;
  const dp_tensor *rows = input_at(context, first + which);
  const dp_tensor *weights =
      input_at(context, first + counts->dense + 2 + 2 * counts->sparse + which);
  DP_RETURN_IF_ERROR(
      make_deltas(context, 1 + counts->sparse + which, weights, &batch->dense[which].deltas));
  if (rows->shape.dims[1] < 1 || rows->shape.dims[1] > weights->shape.elements)
    return DP_INVALID("More dense features than we have parameters for: %lld",
                      (long long)rows->shape.dims[1]);
  if (rows->shape.dims[0] < batch->examples)
    return DP_INVALID("Dense features at index %lld have %lld rows for %lld examples",
                      (long long)which, (long long)rows->shape.dims[0], (long long)batch->examples);
  batch->dense[which].rows = rows->data;
  batch->dense[which].width = rows->shape.dims[1];
  batch->dense[which].weights = weights->data;
  return NULL;
}

/* ---- The whole batch ---- */
static dp_status *read_examples(dp_sdca_batch *batch, const dp_op_context *context) {
  int64_t first = 2 * batch->counts.sparse + batch->counts.with_values;
  const dp_tensor *weights = input_at(context, first + batch->counts.dense);
  const dp_tensor *labels = input_at(context, first + batch->counts.dense + 1);
  batch->examples = weights->shape.elements;
  batch->weights = weights->data;
  batch->labels = labels->data;
  if (batch->examples >= INT32_MAX)
    return DP_INVALID("Too many examples in a mini-batch: %lld > %d", (long long)batch->examples,
                      INT32_MAX);
  if (labels->shape.elements != batch->examples)
    return DP_INVALID("Expected %lld example labels but got %lld", (long long)batch->examples,
                      (long long)labels->shape.elements);
  for (int64_t i = 0; i < batch->counts.dense; ++i) {
    int rank = input_at(context, first + i)->shape.rank;
    if (rank != 2)
      return DP_INVALID("Dense features at index %lld must be rank 2 but is rank %d", (long long)i,
                        rank);
  }
  return NULL;
}

/* seen[weight] is 1 + the last example that used the weight. */
static dp_status *add_sparse_norms(dp_sdca_batch *batch, const dp_sdca_sparse *group,
                                   int64_t *seen) {
  for (int64_t example = 0; example < batch->examples; ++example)
    for (int64_t i = 0; i < group->lengths[example]; ++i) {
      int64_t at = group->begin[example] + i;
      double value = group->values ? (double)group->values[at] : 1;
      if (seen[group->ids[at]] == example + 1)
        return DP_INVALID("Duplicate index in sparse vector.");
      seen[group->ids[at]] = example + 1;
      batch->norms[example] += value * value;
    }
  return NULL;
}

static dp_status *find_norms(dp_sdca_batch *batch, const dp_op_context *context) {
  batch->norms = DP_NEW_ARRAY(double, (size_t)batch->examples + 1);
  int64_t later = 2 * batch->counts.sparse + batch->counts.with_values + batch->counts.dense + 2;
  for (int64_t i = 0; i < batch->counts.sparse; ++i) {
    int64_t count = input_at(context, later + i)->shape.elements;
    int64_t *seen = DP_NEW_ARRAY(int64_t, (size_t)count + 1);
    dp_status *status = add_sparse_norms(batch, &batch->sparse[i], seen);
    dp_free(seen);
    DP_RETURN_IF_ERROR(status);
  }
  for (int64_t i = 0; i < batch->counts.dense; ++i)
    for (int64_t example = 0; example < batch->examples; ++example) {
      const float *row = batch->dense[i].rows + example * batch->dense[i].width;
      for (int64_t j = 0; j < batch->dense[i].width; ++j)
        batch->norms[example] += (double)(row[j] * row[j]);
    }
  return NULL;
}

dp_status *dp_sdca_batch_init(dp_sdca_batch *batch, dp_op_context *context,
                              const dp_sdca_counts *counts) {
  *batch = (dp_sdca_batch){.counts = *counts,
                           .sparse = DP_NEW_ARRAY(dp_sdca_sparse, (size_t)counts->sparse + 1),
                           .dense = DP_NEW_ARRAY(dp_sdca_dense, (size_t)counts->dense + 1)};
  DP_RETURN_IF_ERROR(read_examples(batch, context));
  for (int64_t i = 0; i < counts->sparse; ++i)
    DP_RETURN_IF_ERROR(read_sparse(batch, context, i));
  for (int64_t i = 0; i < counts->dense; ++i)
    DP_RETURN_IF_ERROR(read_dense(batch, context, i));
  return find_norms(batch, context);
}

void dp_sdca_batch_deinit(dp_sdca_batch *batch) {
  for (int64_t i = 0; i < batch->counts.sparse; ++i) {
    dp_free(batch->sparse[i].ids);
    dp_free(batch->sparse[i].begin);
    dp_free(batch->sparse[i].lengths);
  }
  dp_free(batch->sparse);
  dp_free(batch->dense);
  dp_free(batch->norms);
}
