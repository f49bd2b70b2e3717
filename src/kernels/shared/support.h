/* What every family of kernels needs: reading small integer tensors (axes, shapes, sizes), axes
 * that may be negative, checks whose messages are worded as TensorFlow's, and conversion of 16-bit
 * floats in blocks. Everything here may be called from any thread and keeps nothing. */
#ifndef DP_KERNELS_SHARED_SUPPORT_H
#define DP_KERNELS_SHARED_SUPPORT_H

#include "kernels/loops/convert.h"
#include "runtime/kernel.h"

/* ---- Small integer tensors ---- */
/* All elements of an integer tensor of any shape. INVALID_ARGUMENT, naming the input, when there
 * are more than `capacity`. */
DP_MUST_USE dp_status *dp_kernel_read_ints(const dp_tensor *tensor, const char *name,
                                           int64_t capacity, int64_t *values_out,
                                           int64_t *count_out);
/* Reads a scalar (rank 0). */
DP_MUST_USE dp_status *dp_kernel_read_int(const dp_tensor *tensor, const char *name,
                                          int64_t *value_out);
/* "3, 0": elements [begin, begin + count) for an error message, at most DP_MAX_RANK of them. The
 * text is in the ring of buffers of dp_shape_text. */
const char *dp_kernel_ints_text(const dp_tensor *ints, int64_t begin, int64_t count);
/* Reads a vector of sizes as a shape; rank, sign and overflow are checked. */
DP_MUST_USE dp_status *dp_kernel_read_shape(const dp_tensor *tensor, const char *name,
                                            dp_shape *shape_out);
/* The same with the error text of most ops: "shape must be a vector of {int32,int64}". */
DP_MUST_USE dp_status *dp_kernel_make_shape(const dp_tensor *sizes, dp_shape *shape_out);

/* ---- Axes ---- */
/* Maps -rank <= axis < rank to 0 <= axis < rank; false when outside. */
static inline bool dp_kernel_normalize_axis(int64_t axis, int rank, int *axis_out) {
  if (axis < -rank || axis >= rank)
    return false;
  *axis_out = (int)(axis < 0 ? axis + rank : axis);
  return true;
}
/* Reads reduction axes as a set of bits. TensorFlow's errors for an axis out of range or given
 * twice. */
DP_MUST_USE dp_status *dp_kernel_read_axes(const dp_tensor *axes, int rank, uint32_t *bits_out);

/* ---- Checks ---- */
/* INVALID_ARGUMENT unless inputs 0 and `slot` of an element-wise op have the same shape. */
DP_MUST_USE dp_status *dp_kernel_expect_same_size(const dp_op_context *context, int32_t slot);

/* The dtype in attribute `attr`, usually "T"; for create. */
DP_MUST_USE dp_status *dp_kernel_type(const dp_kernel_setup *setup, const char *attr,
                                      dp_dtype *dtype_out);
/* An integer attribute that must fit into 32 bits. */
DP_MUST_USE dp_status *dp_kernel_get_int32(const dp_node *node, const char *attr,
                                           int64_t *value_out);

/* ---- 16-bit floats ---- */
/* Kernels without loops for half and bfloat16 convert blocks of this many floats on the stack. */
#define DP_KERNEL_BLOCK 1024
static inline bool dp_kernel_is_short_float(dp_dtype dtype) {
  return dtype == DP_HALF || dtype == DP_BFLOAT16;
}
/* `dtype` is half or bfloat16. */
void dp_kernel_widen(dp_dtype dtype, const uint16_t *from, float *to, int64_t count);
void dp_kernel_narrow(dp_dtype dtype, const float *from, uint16_t *to, int64_t count);

/* ---- Work on many threads ---- */
/* As dp_op_for, for items that take less than a nanosecond: `picoseconds` is a guess for one item.
 * Ranges start at multiples of 1024. Small totals run as one call on the calling thread. */
void dp_kernel_for(dp_op_context *context, int64_t count, int64_t picoseconds, dp_range_fn fn,
                   void *arg);

#endif
