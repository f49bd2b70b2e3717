/* Examples in memory: what the readers of the formats (examples_image.c, examples_text.c) fill in
 * and examples.c makes batches of. The user's program owns them; one thread at a time. */
#ifndef DP_TRAIN_EXAMPLES_INTERNAL_H
#define DP_TRAIN_EXAMPLES_INTERNAL_H

#include "train/train_internal.h"

enum { EXAMPLE_DIMS = 4 };

struct dp_examples {
  int64_t count;
  TF_DataType y_dtype;        /* int32 or float; x is of floats or strings */
  int64_t dims[EXAMPLE_DIMS]; /* of one x */
  int dim_count;
  int64_t row; /* elements of one x */
  /* x: one of these three is there. */
  float *numbers;
  uint8_t *bytes; /* 0 to 255 mean 0 to 1; a quarter of the memory of floats */
  dp_text *strings;
  void *y;       /* 4 bytes each */
  uint64_t seed; /* 0: in order */
  int64_t *order, at;
};

/* Returns the examples; or, with an error, destroys them, sets `status` and returns NULL. Consumes
 * `examples` and `error`. */
dp_examples *dp_train_examples_finish(dp_examples *examples, dp_status *error, TF_Status *status);

#endif
