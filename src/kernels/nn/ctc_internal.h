/* What the ops of connectionist temporal classification (ctc.c, ctc_beam.c) share: the check of the
 * inputs, and the sparse output of decoded sequences. */
#ifndef DP_KERNELS_NN_CTC_INTERNAL_H
#define DP_KERNELS_NN_CTC_INTERNAL_H

#include "runtime/kernel.h"

/* Checks inputs [time, batch, classes] and sequence lengths [batch]. Lengths that do not fit are an
 * error with `code`. */
DP_MUST_USE dp_status *dp_ctc_check(const dp_tensor *inputs, const dp_tensor *lengths,
                                    dp_code code);
/* Element `at` of float or double inputs. */
static inline double dp_ctc_input(const dp_tensor *inputs, int64_t at) {
  return inputs->dtype == DP_FLOAT ? ((const float *)inputs->data)[at]
                                   : ((const double *)inputs->data)[at];
}
static inline void dp_ctc_store(dp_tensor *output, int64_t at, double value) {
  if (output->dtype == DP_FLOAT)
    ((float *)output->data)[at] = (float)value;
  else
    ((double *)output->data)[at] = value;
}

/* A decoded sequence of classes. */
typedef struct dp_ctc_path {
  const int64_t *labels;
  int64_t count;
} dp_ctc_path;
/* Writes a sparse matrix with one row per path; path i is paths[i * step]. Indices, values and
 * shape go to the outputs `slot`, slot + stride and slot + 2 * stride. */
DP_MUST_USE dp_status *dp_ctc_output(dp_op_context *context, int32_t slot, int32_t stride,
                                     const dp_ctc_path *paths, int64_t count, int64_t step);

#endif
