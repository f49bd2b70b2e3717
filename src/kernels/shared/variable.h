/* For kernels that read and write variables: finding the variable behind an input (a reference or a
 * resource handle), element-wise arithmetic on rows, and work over rows chosen by indices. Updates
 * of the same row keep their order, whatever the number of threads. */
#ifndef DP_KERNELS_SHARED_VARIABLE_H
#define DP_KERNELS_SHARED_VARIABLE_H

#include "kernels/loops/binary.h"
#include "kernels/shared/support.h"

/* The variable behind input `slot`. A reference's variable is borrowed from the edge, a handle's is
 * retained; dp_variable_drop is right for both. A handle whose variable does not exist gives the
 * resource manager's NOT_FOUND. */
DP_MUST_USE dp_status *dp_variable_of_input(dp_op_context *context, int32_t slot,
                                            dp_variable **variable_out);
static inline void dp_variable_drop(const dp_op_context *context, int32_t slot,
                                    dp_variable *variable) {
  if (variable != dp_op_reference(context, slot))
    dp_resource_release(variable);
}
/* INVALID_ARGUMENT with TensorFlow's text, unless the variable holds `dtype`. */
DP_MUST_USE dp_status *dp_variable_expect_type(const dp_tensor *contents, dp_dtype dtype);
/* Call it last in a body: passes input 0's reference to output 0, if there is one. Resource ops
 * have no output. */
void dp_variable_output(dp_op_context *context);

/* ---- Arithmetic on rows ---- */
typedef enum dp_row_operation {
  DP_ROW_ASSIGN,
  DP_ROW_ADD,
  DP_ROW_SUB,
  DP_ROW_MUL,
  DP_ROW_DIV,
  DP_ROW_MIN,
  DP_ROW_MAX,
} dp_row_operation;

typedef struct dp_row_op {
  dp_row_operation operation;
  dp_dtype dtype;
  size_t size;     /* bytes per element */
  dp_binary_fn fn; /* NULL for assignments and bools */
} dp_row_op;

DP_MUST_USE dp_status *dp_row_op_init(dp_row_op *op, dp_row_operation operation, dp_dtype dtype);
/* to[i] = from[i] (operation) operand[i]; with `is_scalar`, operand[0] for all i. `to` may be
 * `from`. */
void dp_row_apply(const dp_row_op *op, const void *from, const void *operand, bool is_scalar,
                  void *to, int64_t count);

/* ---- Rows by index ---- */
/* The index at position `at` of an int32 or int64 tensor. */
static inline int64_t dp_index_at(const dp_tensor *indices, int64_t at) {
  return indices->dtype == DP_INT32 ? ((const int32_t *)indices->data)[at]
                                    : ((const int64_t *)indices->data)[at];
}
/* "indices[1,2]" for position `at`; in the thread's ring of text buffers. */
const char *dp_index_text(const dp_shape *shape, int64_t at);

/* Calls fn(arg, position, row) for every position of `indices`. Positions with the same row are
 * called in order on one thread. Different rows run on several threads if count * row_nanos makes
 * it worth it. */
typedef void (*dp_row_fn)(void *arg, int64_t position, int64_t row);
void dp_rows_for(dp_op_context *context, const dp_tensor *indices, int64_t row_nanos, dp_row_fn fn,
                 void *arg);

#endif
