/* Convolutions of work types (float, double, int32) in all three directions, for the ops of conv.c
 * and depthwise.c, and for whoever fuses them.
 *
 * Images are [batch, depth, height, width, channels], dense; filters are [depth, height, width,
 * in channels / groups, out channels]. A gradient towards the input is computed as one convolution
 * for each residue of the input's coordinates modulo the strides. Where padding cannot be left out,
 * the input is copied into a larger frame of zeros, so that the loops never test for an edge. */
#ifndef DP_KERNELS_CONV_INTERNAL_H
#define DP_KERNELS_CONV_INTERNAL_H

#include "kernels/products/gemm.h"
#include "kernels/loops/conv.h"
#include "kernels/shared/window.h"

typedef struct dp_conv {
  dp_dtype dtype;
  int64_t batch, in_channels, out_channels, groups;
  dp_window dims[DP_WINDOW_DIMS];
  dp_finish finish; /* of dp_conv_forward */
} dp_conv;

/* What the nodes of Conv2D and Conv3D say, and what follows for an input and a filter. */
typedef struct dp_conv_state {
  dp_window_attrs attrs;
  dp_dtype dtype, work;
} dp_conv_state;
DP_MUST_USE dp_status *dp_conv_create(const dp_kernel_setup *setup, void *state);
DP_MUST_USE dp_status *dp_conv_plan(const dp_conv_state *state, const dp_shape *input,
                                    const dp_shape *filter, dp_conv *conv_out,
                                    dp_shape *output_out);
/* One direction into output 0, whatever the dtype: 16-bit floats are widened and narrowed. */
typedef dp_status *(*dp_conv_direction_fn)(dp_op_context *context, const dp_conv *conv,
                                           const void *first, const void *second, void *result);
DP_MUST_USE dp_status *dp_conv_run(dp_op_context *context, const dp_conv_state *state,
                                   const dp_conv *conv, dp_conv_direction_fn direction,
                                   const dp_tensor *first, const dp_tensor *second,
                                   const dp_shape *shape);

DP_MUST_USE dp_status *dp_conv_forward(dp_op_context *context, const dp_conv *conv,
                                       const void *input, const void *filter, void *output);
DP_MUST_USE dp_status *dp_conv_input_gradient(dp_op_context *context, const dp_conv *conv,
                                              const void *filter, const void *gradient,
                                              void *result);
DP_MUST_USE dp_status *dp_conv_filter_gradient(dp_op_context *context, const dp_conv *conv,
                                               const void *input, const void *gradient,
                                               void *result);
/* Whether an input has so few channels that its gradient goes another way: conv_narrow.c. */
bool dp_conv_is_narrow(const dp_conv *conv);
DP_MUST_USE dp_status *dp_conv_narrow_input_gradient(dp_op_context *context, const dp_conv *conv,
                                                     const void *filter, const void *gradient,
                                                     void *result);
/* Depthwise: in channel c gives out channels [c * multiplier, (c + 1) * multiplier); the filter is
 * [height, width, in channels, multiplier], out_channels = in_channels * multiplier. */
DP_MUST_USE dp_status *dp_depthwise_forward(dp_op_context *context, const dp_conv *conv,
                                            const void *input, const void *filter, void *output);
DP_MUST_USE dp_status *dp_depthwise_input_gradient(dp_op_context *context, const dp_conv *conv,
                                                   const void *filter, const void *gradient,
                                                   void *result);
DP_MUST_USE dp_status *dp_depthwise_filter_gradient(dp_op_context *context, const dp_conv *conv,
                                                    const void *input, const void *gradient,
                                                    void *result);

/* ---- Common ground ---- */
/* Whether it is a plain product of matrices: every window is one pixel, and nothing moves. */
bool dp_conv_is_plain(const dp_conv *conv);
/* The right operand of a product, to be packed into panels. Row r, column j is at
 * from[r * row + j * column], and one of the two strides is 1. Rows may also come in groups of
 * `tap_rows`, group t at tap_offsets[t]. */
typedef struct dp_conv_packing {
  const char *from;
  char *to;     /* the result: [panels][rows][panel] */
  int64_t step; /* of the result: elements between rows */
  size_t size;
  int64_t rows, columns, row, column;
  const int64_t *tap_offsets; /* NULL: one group */
  int64_t tap_rows;
  int64_t panel, lanes; /* of dp_conv_fns */
  int64_t piece;        /* rows of one task */
} dp_conv_packing;
/* Whether the operand is one panel as it is, so that there is nothing to pack. */
bool dp_conv_is_panel(const dp_conv_packing *work);
/* Rows [first, first + count) of a panel, to `to`; where rows come in groups, whole ones. */
void dp_conv_pack_part(const dp_conv_packing *work, int64_t panel, int64_t first, int64_t count,
                       char *to);
/* The buffer is NULL when the operand is one panel as it is. */
DP_MUST_USE dp_status *dp_conv_pack(dp_op_context *context, dp_conv_packing *work,
                                    dp_buffer **buffer_out);
/* Images in a frame: [batch, dims, channels] with strides in elements. */
typedef struct dp_frame {
  const char *data;
  dp_buffer *buffer; /* NULL when it is the images' own memory */
  int64_t dims[DP_WINDOW_DIMS];
  int64_t channels;
} dp_frame;
/* The input of a convolution with its padding; what no window reaches is cut off. No copy when
 * nothing changes. */
DP_MUST_USE dp_status *dp_frame_init_input(dp_frame *frame, dp_op_context *context,
                                           const dp_conv *conv, const void *input);
void dp_frame_deinit(dp_frame *frame);
/* Elements between neighbours in dimension 0 (images), 1, 2, 3. */
void dp_frame_strides(const dp_frame *frame, int64_t strides[4]);
/* Offsets of the filter's taps in a frame, in the filter's order: one each. */
void dp_conv_tap_offsets(const dp_conv *conv, const dp_frame *frame, int64_t *offsets_out);
int64_t dp_conv_taps(const dp_conv *conv);
int64_t dp_conv_pixels(const dp_conv *conv); /* of all output images */

/* One dimension of one residue class of the input's coordinates, r + stride * t for t < count: the
 * taps that reach them, and for each the output's coordinate less t. In an order of growing
 * coordinate. */
typedef struct dp_phase {
  int64_t residue, count, tap_count;
  int64_t *taps, *shifts; /* tap_count each; taps is what to free */
} dp_phase;
/* Residues that occur at all. */
static inline int64_t dp_phase_count(const dp_window *window) {
  return window->stride < window->in ? window->stride : window->in;
}
void dp_phase_init(dp_phase *phase, const dp_window *window, int64_t residue);
void dp_phase_deinit(dp_phase *phase);

#endif
