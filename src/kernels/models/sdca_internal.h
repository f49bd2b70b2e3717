/* Stochastic dual coordinate ascent for linear models: its loss functions and its examples. Every
 * example has a dual variable. A step moves it to the optimum of the dual objective with all other
 * dual variables fixed, and adjusts the weights accordingly. Nothing is kept between runs. */
#ifndef DP_KERNELS_MODELS_SDCA_INTERNAL_H
#define DP_KERNELS_MODELS_SDCA_INTERNAL_H

#include "kernels/shared/support.h"

/* ---- Losses (sdca_losses.c) ---- */
/* One example in a step: everything that the new dual depends on. */
typedef struct dp_sdca_point {
  double label, weight, dual;
  double prediction;
  double norm; /* squared norm * loss partitions / l2 */
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
/* NULL when there is no loss of that name. */
const dp_sdca_loss *dp_sdca_loss_find(dp_view name);
DP_MUST_USE dp_status *dp_sdca_convert_label(const dp_sdca_loss *loss, float *label);

/* ---- Examples and weights (sdca_examples.c) ---- */
typedef struct dp_sdca_counts {
  int64_t sparse, with_values, dense; /* groups of features */
} dp_sdca_counts;

/* A group of sparse features. Entry i has feature ids[i]. The entries of an example are
 * [begin[example], begin[example] + lengths[example]). */
typedef struct dp_sdca_sparse {
  int64_t *ids, *begin, *lengths;
  const float *values; /* NULL: all values are 1 */
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
  double *norms; /* squared norms of the examples */
} dp_sdca_batch;
/* Reads and checks the inputs, and sets the outputs with changes of weights to zero. */
DP_MUST_USE dp_status *dp_sdca_batch_init(dp_sdca_batch *batch, dp_op_context *context,
                                          const dp_sdca_counts *counts);
void dp_sdca_batch_deinit(dp_sdca_batch *batch);

#endif
