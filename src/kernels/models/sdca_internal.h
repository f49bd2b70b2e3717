/* Stochastic dual coordinate ascent for linear models: what its op's loss functions and examples
 * are. An example has a dual variable; a step moves it to where the dual objective is best with all
 * others as they are, and the weights follow. Nothing here keeps anything between runs. */
#ifndef DP_KERNELS_SDCA_INTERNAL_H
#define DP_KERNELS_SDCA_INTERNAL_H

#include "kernels/shared/support.h"

/* ---- Losses (sdca_losses.c) ---- */
/* One example in a step: what the new dual depends on. */
typedef struct dp_sdca_point {
  double label, weight, dual;
  double prediction;
  double norm; /* squared, times loss partitions, divided by l2 */
} dp_sdca_point;

typedef struct dp_sdca_loss {
  const char *name;
  double (*update)(const dp_sdca_point *point); /* the new dual */
  double (*dual)(double dual, double label);    /* losses for a weight of 1 */
  double (*primal)(double prediction, double label);
  double (*derivative)(double prediction, double label);
  double smoothness;
  bool is_binary; /* labels are 0 and 1, and become -1 and 1 */
  bool is_count;  /* labels are not negative */
} dp_sdca_loss;
/* NULL: no such loss. */
const dp_sdca_loss *dp_sdca_loss_find(dp_view name);
DP_MUST_USE dp_status *dp_sdca_convert_label(const dp_sdca_loss *loss, float *label);

/* ---- Examples and weights (sdca_examples.c) ---- */
typedef struct dp_sdca_counts {
  int64_t sparse, with_values, dense; /* groups of features */
} dp_sdca_counts;

/* A group of sparse features: entry i is feature ids[i] of an example. Entries of an example are
 * [begin[example], begin[example] + lengths[example]). */
typedef struct dp_sdca_sparse {
  int64_t *ids, *begin, *lengths;
  const float *values; /* NULL: all 1 */
  const float *weights;
  float *deltas;
} dp_sdca_sparse;

typedef struct dp_sdca_dense {
  const float *rows;
  int64_t width;
  const float *weights;
  float *deltas;
} dp_sdca_dense;

typedef struct dp_sdca_batch {
  dp_sdca_counts counts;
  int64_t examples;
  const float *weights, *labels;
  dp_sdca_sparse *sparse;
  dp_sdca_dense *dense;
  double *norms; /* squared, of examples */
} dp_sdca_batch;
/* Reads and checks the inputs, and sets the outputs of changes to zeros. */
DP_MUST_USE dp_status *dp_sdca_batch_init(dp_sdca_batch *batch, dp_op_context *context,
                                          const dp_sdca_counts *counts);
void dp_sdca_batch_deinit(dp_sdca_batch *batch);

#endif
