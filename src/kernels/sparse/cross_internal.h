/* Crosses of features: per row of a batch, all combinations of one feature of every column. Each op
 * moves its columns from row to row; this file handles the features of one row. There are two
 * passes, one that counts and one that writes; each begins with a rewind. */
#ifndef DP_KERNELS_SPARSE_CROSS_INTERNAL_H
#define DP_KERNELS_SPARSE_CROSS_INTERNAL_H

#include "base/text.h"
#include "tensor/tensor.h"

/* A column, and the features of the current row: [start, start + count) of its values. */
typedef struct dp_cross_column {
  const dp_tensor *values;
  const dp_tensor *splits; /* ragged columns; else NULL */
  const int64_t *rows;     /* sparse columns: coordinates, the row first; else NULL */
  int64_t row_count, row_stride;
  int64_t start, count;
  int64_t chosen; /* the feature in the current combination */
} dp_cross_column;

typedef struct dp_cross {
  dp_cross_column *columns;
  int32_t column_count;
  int64_t batch;
} dp_cross;

void dp_cross_rewind(dp_cross *cross);
/* The number of combinations of the current row; false when it overflows. */
bool dp_cross_count(const dp_cross *cross, int64_t *count_out);
/* Moves to the next combination; the last column changes fastest. The last combination is followed
 * by the first. */
void dp_cross_next(dp_cross *cross);
/* The features of the current combination as text. `scratch` is reused between calls. */
DP_MUST_USE dp_status *dp_cross_join(const dp_cross *cross, dp_view separator, dp_text *scratch,
                                     dp_tstring *string);

#endif
