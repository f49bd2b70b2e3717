/* Shapes, as plain values. dp_shape is fully known and belongs to a tensor. dp_partial_shape may
 * lack its rank or some sizes and belongs to attributes and shape inference. Shapes from outside go
 * through the _make functions, which check them; all other functions trust their arguments. */
#ifndef DP_TENSOR_SHAPE_H
#define DP_TENSOR_SHAPE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/text.h"

/* TensorFlow's own limit is 254, but none of its kernels takes more than 12 dimensions. The _make
 * functions check ours. */
#define DP_MAX_RANK 16

typedef struct dp_shape {
  int32_t rank;
  int64_t elements; /* product of dims; 1 for a scalar */
  int64_t dims[DP_MAX_RANK];
} dp_shape;

/* For dims that are known to be valid (not negative, no overflow):
 * dp_shape_of(2, (int64_t[]){3, 4}). */
dp_shape dp_shape_of(int rank, const int64_t *dims);
static inline dp_shape dp_shape_scalar(void) {
  return (dp_shape){.rank = 0, .elements = 1};
}
static inline dp_shape dp_shape_vector(int64_t count) {
  return (dp_shape){.rank = 1, .elements = count, .dims = {count}};
}
static inline dp_shape dp_shape_matrix(int64_t rows, int64_t columns) {
  return (dp_shape){.rank = 2, .elements = rows * columns, .dims = {rows, columns}};
}
/* For dims from outside: rank, sign and overflow are checked; the message names the dimension. */
DP_MUST_USE dp_status *dp_shape_make(int64_t rank, const int64_t *dims, dp_shape *shape_out);
bool dp_shape_equal(const dp_shape *a, const dp_shape *b);
/* A copy with one dimension changed, inserted or removed; elements are counted again. The caller
 * makes sure that the result is a valid shape. */
dp_shape dp_shape_with(const dp_shape *shape, int axis, int64_t size);
dp_shape dp_shape_insert(const dp_shape *shape, int axis, int64_t size);
dp_shape dp_shape_remove(const dp_shape *shape, int axis);
/* Product of dims[begin..end). */
int64_t dp_shape_product(const dp_shape *shape, int begin, int end);
/* Adds "[2,3]" as TensorFlow's messages print it. */
void dp_shape_print(const dp_shape *shape, dp_text *text);
/* As dp_shape_print, for error messages: the text is in one of a few buffers that the thread uses
 * in turn, so it is valid until the same thread has asked for several more. */
const char *dp_shape_text(const dp_shape *shape);
/* The next of those buffers, for other texts of that kind. Each dimension takes at most 20 digits
 * and a comma. */
#define DP_SHAPE_TEXT_LENGTH (DP_MAX_RANK * 21 + 16)
char *dp_shape_text_buffer(void);

/* NumPy broadcasting of two shapes; false when the shapes are not compatible. */
bool dp_shape_broadcast(const dp_shape *a, const dp_shape *b, dp_shape *result_out);

/* A shape that may be partly unknown: rank -1 is an unknown rank, dim -1 an unknown size. */
typedef struct dp_partial_shape {
  int32_t rank;
  int64_t dims[DP_MAX_RANK];
} dp_partial_shape;

DP_MUST_USE dp_status *dp_partial_shape_make(int64_t rank, const int64_t *dims,
                                             dp_partial_shape *shape_out);
static inline dp_partial_shape dp_partial_shape_unknown(void) {
  return (dp_partial_shape){.rank = -1};
}
bool dp_partial_shape_is_known(const dp_partial_shape *shape);
/* Whether `shape` has the known rank and the known sizes of `partial`. */
bool dp_partial_shape_accepts(const dp_partial_shape *partial, const dp_shape *shape);
bool dp_partial_shape_merge(const dp_partial_shape *a, const dp_partial_shape *b,
                            dp_partial_shape *merged_out);
/* Adds "<unknown>", "[?,3]"; like TensorFlow's. */
void dp_partial_shape_print(const dp_partial_shape *shape, dp_text *text);
const char *dp_partial_shape_text(const dp_partial_shape *shape);

#endif
