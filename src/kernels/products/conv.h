/* Convolutions of work types (float, double, int32) in all three directions, for the ops of
 * nn/conv.c and nn/depthwise.c, and for ops that fuse them.
 *
 * Images are dense [batch, depth, height, width, channels]. Filters are [depth, height, width, in
 * channels / groups, out channels]. The input gradient is computed as one convolution per residue
 * of the input's coordinates modulo the strides. Where padding cannot be skipped, the input is
 * copied into a larger frame of zeros, so that the loops never test for an edge. */
#ifndef DP_KERNELS_PRODUCTS_CONV_H
#define DP_KERNELS_PRODUCTS_CONV_H

#include "kernels/loops/conv.h"
#include "kernels/products/gemm.h"
#include "kernels/shared/window.h"

typedef struct dp_conv {
  dp_dtype dtype;
  int64_t batch, in_channels, out_channels, groups;
  dp_window dims[DP_WINDOW_DIMS];
  dp_finish finish; /* used by dp_conv_forward only */
} dp_conv;

/* The attributes of a Conv2D or Conv3D node. dp_conv_plan combines them with the shapes of an input
 * and a filter to a dp_conv and the output's shape. */
typedef struct dp_conv_state {
  dp_window_attrs attrs;
  dp_dtype dtype, work;
} dp_conv_state;
DP_MUST_USE dp_status *dp_conv_create(const dp_kernel_setup *setup, void *state);
DP_MUST_USE dp_status *dp_conv_plan(const dp_conv_state *state, const dp_shape *input,
                                    const dp_shape *filter, dp_conv *conv_out,
                                    dp_shape *output_out);
/* Runs one direction and sets output 0. 16-bit floats are widened before and narrowed after. */
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
/* Whether the input has so few channels that its gradient is computed by conv_narrow.c. */
bool dp_conv_is_narrow(const dp_conv *conv);
DP_MUST_USE dp_status *dp_conv_narrow_input_gradient(dp_op_context *context, const dp_conv *conv,
                                                     const void *filter, const void *gradient,
                                                     void *result);
/* Depthwise: input channel c gives the output channels [c * multiplier, (c + 1) * multiplier). The
 * filter is [height, width, in channels, multiplier]; out_channels = in_channels * multiplier. */
DP_MUST_USE dp_status *dp_depthwise_forward(dp_op_context *context, const dp_conv *conv,
                                            const void *input, const void *filter, void *output);
DP_MUST_USE dp_status *dp_depthwise_input_gradient(dp_op_context *context, const dp_conv *conv,
                                                   const void *filter, const void *gradient,
                                                   void *result);
DP_MUST_USE dp_status *dp_depthwise_filter_gradient(dp_op_context *context, const dp_conv *conv,
                                                    const void *input, const void *gradient,
                                                    void *result);

/* ---- Shared by the directions ---- */
/* Whether the convolution is a plain matrix product: windows of one pixel, strides of 1, no
 * padding. */
bool dp_conv_is_plain(const dp_conv *conv);
/* The right operand of a product, to be packed into panels. Row r, column j is at from[r * row + j
 * * column]; one of the two strides is 1. Rows may also come in groups of `tap_rows`; then group t
 * starts at tap_offsets[t]. */
typedef struct dp_conv_packing {
  const char *from;
  char *to;     /* the result: [panels][rows][panel] */
  int64_t step; /* elements between rows of the result */
  size_t size;
  int64_t rows, columns, row, column;
  const int64_t *tap_offsets; /* NULL: one group */
  int64_t tap_rows;
  int64_t panel, lanes; /* as in dp_conv_fns */
  int64_t piece;        /* rows per item of parallel work */
} dp_conv_packing;
/* Whether the operand already has the form of one panel, so that nothing has to be packed. */
bool dp_conv_is_panel(const dp_conv_packing *work);
/* Packs rows [first, first + count) of a panel to `to`. Rows in groups are packed in whole
 * groups. */
void dp_conv_pack_part(const dp_conv_packing *work, int64_t panel, int64_t first, int64_t count,
                       char *to);
/* Packs the operand on the step's pool. The buffer is NULL when the operand is a panel already. */
DP_MUST_USE dp_status *dp_conv_pack(dp_op_context *context, dp_conv_packing *work,
                                    dp_buffer **buffer_out);
/* Images with a border of zeros: dense [batch, dims, channels]. */
typedef struct dp_conv_frame {
  const char *data;
  dp_buffer *buffer; /* NULL when `data` is the memory of the images */
  int64_t dims[DP_WINDOW_DIMS];
  int64_t channels;
} dp_conv_frame;
/* The input of a convolution with its padding, without the pixels that no window reaches. No copy
 * is made when nothing changes. */
DP_MUST_USE dp_status *dp_conv_frame_init_input(dp_conv_frame *frame, dp_op_context *context,
                                                const dp_conv *conv, const void *input);
void dp_conv_frame_deinit(dp_conv_frame *frame);
/* The distance in elements between neighbours of dimension 0 (images), 1, 2 and 3. */
void dp_conv_frame_strides(const dp_conv_frame *frame, int64_t strides[4]);
/* The offset of each tap of the filter in a frame, in the filter's order. */
void dp_conv_tap_offsets(const dp_conv *conv, const dp_conv_frame *frame, int64_t *offsets_out);
int64_t dp_conv_taps(const dp_conv *conv);
int64_t dp_conv_pixels(const dp_conv *conv); /* of all output images */

/* One dimension of one residue class: the input coordinates residue + stride * t, for t < count.
 * Tap taps[i] connects coordinate t of the class with output coordinate t + shifts[i]. Shifts
 * increase. */
typedef struct dp_phase {
  int64_t residue, count, tap_count;
  int64_t *taps, *shifts; /* tap_count entries each; one allocation, owned by `taps` */
} dp_phase;
/* The number of residue classes that contain a coordinate. */
static inline int64_t dp_phase_count(const dp_window *window) {
  return window->stride < window->in ? window->stride : window->in;
}
void dp_phase_init(dp_phase *phase, const dp_window *window, int64_t residue);
void dp_phase_deinit(dp_phase *phase);

#endif
