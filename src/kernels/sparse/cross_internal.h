/* Crosses of features: for each row of a batch all combinations of one feature of every column. How
 * a column moves from row to row is each op's own; what is done with the features of a row is here.
 * Both passes, the one that counts and the one that writes, begin with a rewind. */
#ifndef DP_KERNELS_CROSS_INTERNAL_H
#define DP_KERNELS_CROSS_INTERNAL_H

#include "base/text.h"
#include "tensor/tensor.h"

/* A column, and the features of the current row: [start, start + count) of its values. */
typedef struct dp_cross_column {
  const dp_tensor *values;
  const dp_tensor *splits; /* of a ragged column, else NULL */
  const int64_t *rows;     /* of a sparse column: coordinates, the row first; else NULL */
  int64_t row_count, row_stride;
  int64_t start, count;
  int64_t chosen; /* which feature the current combination takes */
} dp_cross_column;

typedef struct dp_cross {
  dp_cross_column *columns;
  int32_t column_count;
  int64_t batch;
} dp_cross;

void dp_cross_rewind(dp_cross *cross);
/* Combinations of the current row; false when there are more than a number can say. */
bool dp_cross_count(const dp_cross *cross, int64_t *count_out);
/* The last column's feature changes fastest; after the last combination comes the first. */
void dp_cross_next(dp_cross *cross);
/* The features of the current combination as text; `scratch` is used again and again. */
DP_MUST_USE dp_status *dp_cross_join(const dp_cross *cross, dp_view separator, dp_text *scratch,
                                     dp_tstring *string);

#endif
