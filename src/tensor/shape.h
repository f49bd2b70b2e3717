/* Shapes: known ones as small values, partial ones for attributes and inference. */
#ifndef DP_TENSOR_SHAPE_H
#define DP_TENSOR_SHAPE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"
#include "base/text.h"

/* TensorFlow's own limit is 254, but no kernel of its own goes beyond 12; ours is checked wherever
 * a shape comes in. */
#define DP_MAX_RANK 16

typedef struct dp_shape {
  int32_t rank;
  int64_t elements; /* product of dims; 1 for a scalar */
  int64_t dims[DP_MAX_RANK];
} dp_shape;

/* For code that knows its dims are sane: counts elements. dp_shape_of(2, (int64_t[]){3, 4}). */
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
/* Copy with one dimension changed, inserted or removed; elements are counted again. The caller
 * knows that the result is sane. */
dp_shape dp_shape_with(const dp_shape *shape, int axis, int64_t size);
dp_shape dp_shape_insert(const dp_shape *shape, int axis, int64_t size);
dp_shape dp_shape_remove(const dp_shape *shape, int axis);
/* Product of dims[begin..end). */
int64_t dp_shape_product(const dp_shape *shape, int begin, int end);
/* Adds "[2,3]" as TensorFlow's messages print it. */
void dp_shape_print(const dp_shape *shape, dp_text *text);
/* The same into the thread's ring of four buffers, for error messages. */
const char *dp_shape_text(const dp_shape *shape);
/* The next buffer of that ring, for texts alike. Each dimension takes at most 20 digits and a
 * comma.
 */
#define DP_SHAPE_TEXT_LENGTH (DP_MAX_RANK * 21 + 16)
char *dp_shape_text_buffer(void);

/* NumPy broadcasting of two shapes; false when they do not fit. */
bool dp_shape_broadcast(const dp_shape *a, const dp_shape *b, dp_shape *result_out);

/* A shape that may be unknown in part: rank -1 is unknown rank, dim -1 is unknown size. */
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
/* Whether a known shape fits the partial one. */
bool dp_partial_shape_accepts(const dp_partial_shape *partial, const dp_shape *shape);
bool dp_partial_shape_merge(const dp_partial_shape *a, const dp_partial_shape *b,
                            dp_partial_shape *merged_out);
/* Adds "<unknown>", "[?,3]"; like TensorFlow's. */
void dp_partial_shape_print(const dp_partial_shape *shape, dp_text *text);
const char *dp_partial_shape_text(const dp_partial_shape *shape);

#endif
