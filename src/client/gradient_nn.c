/* Gradients of the ops of neural networks: activations, losses, bias, convolutions, pools, local
 * response normalization, fake quantization, resizing, LSTM cells. Where TensorFlow has an op that
 * computes the gradient (ReluGrad, Conv2DBackpropInput...), it is used. Batch normalization is in
 * gradient_norm.c. */
#include "client/gradient_internal.h"

#include <string.h>

/* ---- Activations ---- */

static void relu(gradient_call *g) {
  GIVE(g, 0, dp_relu_grad(g->scope, above(g, 0), output(g, 0)));
}

static void relu6(gradient_call *g) {
  GIVE(g, 0, dp_relu6_grad(g->scope, above(g, 0), output(g, 0)));
}

static void leaky_relu(gradient_call *g) {
  GIVE(g, 0,
       dp_leaky_relu_grad(g->scope, above(g, 0), input(g, 0), .alpha = float_attr(g, "alpha")));
}

static void elu(gradient_call *g) {
  GIVE(g, 0, dp_elu_grad(g->scope, above(g, 0), output(g, 0)));
}

static void selu(gradient_call *g) {
  GIVE(g, 0, dp_selu_grad(g->scope, above(g, 0), output(g, 0)));
}

static void softplus(gradient_call *g) {
  GIVE(g, 0, dp_softplus_grad(g->scope, above(g, 0), input(g, 0)));
}

static void softsign(gradient_call *g) {
  GIVE(g, 0, dp_softsign_grad(g->scope, above(g, 0), input(g, 0)));
}

static void relu_again(gradient_call *g) {
  GIVE(g, 0, dp_relu_grad(g->scope, above(g, 0), input(g, 1)));
}

static void relu6_again(gradient_call *g) {
  GIVE(g, 0, dp_relu6_grad(g->scope, above(g, 0), input(g, 1)));
}

static void leaky_relu_again(gradient_call *g) {
  GIVE(g, 0,
       dp_leaky_relu_grad(g->scope, above(g, 0), input(g, 1), .alpha = float_attr(g, "alpha")));
}

/* EluGrad(dy, y) = dy (y + 1) where y < 0. Its derivative for y is dy there, and 0 elsewhere. */
static void elu_again(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = input(g, 1), dy = input(g, 0), zero = dp_zeros_like(s, y);
  GIVE(g, 0, dp_elu_grad(s, above(g, 0), y));
  GIVE(g, 1, dp_select(s, dp_less(s, y, zero), dp_mul(s, above(g, 0), dy), zero));
}

static void selu_again(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = input(g, 1), dy = input(g, 0), zero = dp_zeros_like(s, y);
  GIVE(g, 0, dp_selu_grad(s, above(g, 0), y));
  GIVE(g, 1, dp_select(s, dp_less(s, y, zero), dp_mul(s, above(g, 0), dy), zero));
}

static TF_Output last_sum(dp_scope *s, TF_Output value) {
  return dp_sum(s, value, dp_const_vector(s, DP_INTS(-1)), .keep_dims = true);
}

/* (dy - sum(dy y)) y */
static void softmax(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output y = output(g, 0), dy = above(g, 0);
  GIVE(g, 0, dp_mul(s, dp_sub(s, dy, last_sum(s, dp_mul(s, dy, y))), y));
}

static void log_softmax(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), y = dp_exp(s, output(g, 0));
  GIVE(g, 0, dp_sub(s, dy, dp_mul(s, last_sum(s, dy), y)));
}

/* ---- Losses: output 1 of the forward op is already the gradient of the logits ---- */

static TF_Output each_row(dp_scope *s, TF_Output vector, TF_Output rows) {
  return dp_mul(s, dp_expand_dims(s, vector, integer(s, -1)), rows);
}

/* The gradient of the logits. If output 1 has a gradient (of the second order), it is added. */
static TF_Output logits(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output first = each_row(s, above(g, 0), output(g, 1));
  if (!dp_gradient_exists(&g->above[1]))
    return first;
  TF_Output softmax = dp_softmax(s, input(g, 0)), second = above(g, 1);
  TF_Output inner = last_sum(s, dp_mul(s, second, softmax));
  return dp_add(s, first, dp_mul(s, dp_sub(s, second, inner), softmax));
}

static void cross_entropy(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0, logits(g));
  GIVE(g, 1, each_row(s, above(g, 0), dp_neg(s, dp_log_softmax(s, input(g, 0)))));
}

static void sparse_cross_entropy(gradient_call *g) {
  GIVE(g, 0, logits(g));
}

/* ---- Bias ---- */

static void bias_add(gradient_call *g) {
  GIVE(g, 0, above(g, 0));
  GIVE(g, 1, dp_bias_add_grad(g->scope, above(g, 0), .data_format = string_attr(g, "data_format")));
}

/* BiasAddV1 has no attribute data_format: the bias belongs to the last dimension. */
static void bias_add_v1(gradient_call *g) {
  GIVE(g, 0, above(g, 0));
  GIVE(g, 1, dp_bias_add_grad(g->scope, above(g, 0)));
}

static void bias_add_again(gradient_call *g) {
  dp_scope *s = g->scope;
  const char *format = string_attr(g, "data_format");
  TF_Output zeros = dp_zeros_like(s, input(g, 0));
  GIVE(g, 0, dp_bias_add(s, zeros, above(g, 0), .data_format = format));
}

/* ---- Convolutions ---- */

static dp_ints strides(gradient_call *g) {
  return ints_attr(g, "strides");
}

static const char *padding(gradient_call *g) {
  return string_attr(g, "padding");
}

#define CONV_OPTIONS(g)                                                                            \
  .dilations = ints_attr(g, "dilations"), .data_format = string_attr(g, "data_format"),            \
  .explicit_paddings = ints_attr(g, "explicit_paddings")
#define CONV3_OPTIONS(g)                                                                           \
  .dilations = ints_attr(g, "dilations"), .data_format = string_attr(g, "data_format")

static void conv2d(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), w = input(g, 1), dy = above(g, 0);
  GIVE(g, 0,
       dp_conv2d_backprop_input(s, shape_of(s, x), w, dy, strides(g), padding(g), CONV_OPTIONS(g)));
  GIVE(
      g, 1,
      dp_conv2d_backprop_filter(s, x, shape_of(s, w), dy, strides(g), padding(g), CONV_OPTIONS(g)));
}

/* Inputs: sizes, filter, gradient. */
static void conv2d_input(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output w = input(g, 1), dy = input(g, 2), x = above(g, 0);
  GIVE(
      g, 1,
      dp_conv2d_backprop_filter(s, x, shape_of(s, w), dy, strides(g), padding(g), CONV_OPTIONS(g)));
  GIVE(g, 2, dp_conv2d(s, x, w, strides(g), padding(g), CONV_OPTIONS(g)));
}

/* Inputs: values, sizes, gradient. */
static void conv2d_filter(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), dy = input(g, 2), w = above(g, 0);
  GIVE(g, 0,
       dp_conv2d_backprop_input(s, shape_of(s, x), w, dy, strides(g), padding(g), CONV_OPTIONS(g)));
  GIVE(g, 2, dp_conv2d(s, x, w, strides(g), padding(g), CONV_OPTIONS(g)));
}

static void conv3d(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), w = input(g, 1), dy = above(g, 0);
  GIVE(g, 0,
       dp_conv3d_backprop_input_v2(s, shape_of(s, x), w, dy, strides(g), padding(g),
                                   CONV3_OPTIONS(g)));
  GIVE(g, 1,
       dp_conv3d_backprop_filter_v2(s, x, shape_of(s, w), dy, strides(g), padding(g),
                                    CONV3_OPTIONS(g)));
}

/* Inputs: sizes, filter, gradient. */
static void conv3d_input(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output w = input(g, 1), dy = input(g, 2), x = above(g, 0);
  GIVE(g, 1,
       dp_conv3d_backprop_filter_v2(s, x, shape_of(s, w), dy, strides(g), padding(g),
                                    CONV3_OPTIONS(g)));
  GIVE(g, 2, dp_conv3d(s, x, w, strides(g), padding(g), CONV3_OPTIONS(g)));
}

/* Inputs: values, sizes, gradient. */
static void conv3d_filter(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), dy = input(g, 2), w = above(g, 0);
  GIVE(g, 0,
       dp_conv3d_backprop_input_v2(s, shape_of(s, x), w, dy, strides(g), padding(g),
                                   CONV3_OPTIONS(g)));
  GIVE(g, 2, dp_conv3d(s, x, w, strides(g), padding(g), CONV3_OPTIONS(g)));
}

static void depthwise(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), w = input(g, 1), dy = above(g, 0);
  GIVE(g, 0,
       dp_depthwise_conv2d_native_backprop_input(s, shape_of(s, x), w, dy, strides(g), padding(g),
                                                 CONV_OPTIONS(g)));
  GIVE(g, 1,
       dp_depthwise_conv2d_native_backprop_filter(s, x, shape_of(s, w), dy, strides(g), padding(g),
                                                  CONV_OPTIONS(g)));
}

/* Inputs: sizes, filter, gradient. */
static void depthwise_input(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output w = input(g, 1), dy = input(g, 2), x = above(g, 0);
  GIVE(g, 1,
       dp_depthwise_conv2d_native_backprop_filter(s, x, shape_of(s, w), dy, strides(g), padding(g),
                                                  CONV_OPTIONS(g)));
  GIVE(g, 2, dp_depthwise_conv2d_native(s, x, w, strides(g), padding(g), CONV_OPTIONS(g)));
}

/* Inputs: values, sizes, gradient. */
static void depthwise_filter(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output x = input(g, 0), dy = input(g, 2), w = above(g, 0);
  GIVE(g, 0,
       dp_depthwise_conv2d_native_backprop_input(s, shape_of(s, x), w, dy, strides(g), padding(g),
                                                 CONV_OPTIONS(g)));
  GIVE(g, 2, dp_depthwise_conv2d_native(s, x, w, strides(g), padding(g), CONV_OPTIONS(g)));
}

/* SoftplusGrad(dy, x) = dy / (1 + exp(-x)) */
static void softplus_again(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy = input(g, 0), x = input(g, 1), above0 = above(g, 0);
  TF_Output both =
      dp_add(s, dp_exp(s, dp_neg(s, x)), dp_add(s, number_like(s, x, 2), dp_exp(s, x)));
  GIVE(g, 0, dp_softplus_grad(s, above0, x));
  GIVE(g, 1, dp_div(s, dp_mul(s, dy, above0), both));
}

/* ---- Pools ---- */

static dp_ints size(gradient_call *g) {
  return ints_attr(g, "ksize");
}

static void max_pool(gradient_call *g) {
  GIVE(g, 0,
       dp_max_pool_grad(g->scope, input(g, 0), output(g, 0), above(g, 0), size(g), strides(g),
                        padding(g), .explicit_paddings = ints_attr(g, "explicit_paddings"),
                        .data_format = string_attr(g, "data_format")));
}

static void max_pool_v2(gradient_call *g) {
  GIVE(g, 0,
       dp_max_pool_grad_v2(g->scope, input(g, 0), output(g, 0), above(g, 0), input(g, 1),
                           input(g, 2), string_attr(g, "padding"),
                           .data_format = string_attr(g, "data_format")));
}

static void max_pool_again(gradient_call *g) {
  GIVE(g, 2,
       dp_max_pool_grad_grad(g->scope, input(g, 0), input(g, 1), above(g, 0), size(g), strides(g),
                             padding(g), .data_format = string_attr(g, "data_format")));
}

static void max_pool_third(gradient_call *g) {
  GIVE(g, 2,
       dp_max_pool_grad(g->scope, input(g, 0), input(g, 1), above(g, 0), size(g), strides(g),
                        padding(g), .data_format = string_attr(g, "data_format")));
}

static void average_pool(gradient_call *g) {
  GIVE(g, 0,
       dp_avg_pool_grad(g->scope, shape_of(g->scope, input(g, 0)), above(g, 0), size(g), strides(g),
                        padding(g), .data_format = string_attr(g, "data_format")));
}

static void average_pool_again(gradient_call *g) {
  GIVE(g, 1,
       dp_avg_pool(g->scope, above(g, 0), size(g), strides(g), padding(g),
                   .data_format = string_attr(g, "data_format")));
}

static void max_pool3d(gradient_call *g) {
  GIVE(g, 0,
       dp_max_pool3d_grad(g->scope, input(g, 0), output(g, 0), above(g, 0), size(g), strides(g),
                          padding(g), .data_format = string_attr(g, "data_format")));
}

static void average_pool3d(gradient_call *g) {
  GIVE(g, 0,
       dp_avg_pool3d_grad(g->scope, shape_of(g->scope, input(g, 0)), above(g, 0), size(g),
                          strides(g), padding(g), .data_format = string_attr(g, "data_format")));
}

static void max_pool_v2_again(gradient_call *g) {
  GIVE(g, 2,
       dp_max_pool_grad_grad_v2(g->scope, input(g, 0), input(g, 1), above(g, 0), input(g, 3),
                                input(g, 4), padding(g),
                                .data_format = string_attr(g, "data_format")));
}

static void max_pool_with_argmax(gradient_call *g) {
  GIVE(g, 0,
       dp_max_pool_grad_with_argmax(
           g->scope, input(g, 0), above(g, 0), output(g, 1), size(g), strides(g), padding(g),
           .include_batch_in_index = bool_attr(g, "include_batch_in_index")));
}

static void max_pool3d_again(gradient_call *g) {
  GIVE(g, 2,
       dp_max_pool3d_grad_grad(g->scope, input(g, 0), input(g, 1), above(g, 0), size(g), strides(g),
                               padding(g), .data_format = string_attr(g, "data_format")));
}

static void max_pool3d_third(gradient_call *g) {
  GIVE(g, 2,
       dp_max_pool3d_grad(g->scope, input(g, 0), input(g, 1), above(g, 0), size(g), strides(g),
                          padding(g), .data_format = string_attr(g, "data_format")));
}

static void average_pool3d_again(gradient_call *g) {
  GIVE(g, 1,
       dp_avg_pool3d(g->scope, above(g, 0), size(g), strides(g), padding(g),
                     .data_format = string_attr(g, "data_format")));
}

/* Output 1 of the forward op is already the gradient of each loss. The labels have none. */
static void temporal_loss(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output factors =
      dp_expand_dims(s, dp_expand_dims(s, above(g, 0), integer(s, 0)), integer(s, -1));
  GIVE(g, 0, dp_mul(s, output(g, 1), factors));
}

/* ---- Normalization ---- */

static void local_response(gradient_call *g) {
  GIVE(g, 0,
       dp_lrn_grad(g->scope, above(g, 0), input(g, 0), output(g, 0),
                   .depth_radius = int_attr(g, "depth_radius"), .bias = float_attr(g, "bias"),
                   .alpha = float_attr(g, "alpha"), .beta = float_attr(g, "beta")));
}

/* ---- Quantization: the gradient passes where the input lies inside of the range ---- */

#define QUANT_OPTIONS(g)                                                                           \
  .num_bits = int_attr(g, "num_bits"), .narrow_range = bool_attr(g, "narrow_range")

static void fake_quant_args(gradient_call *g) {
  GIVE(g, 0,
       dp_fake_quant_with_min_max_args_gradient(g->scope, above(g, 0), input(g, 0),
                                                .min = float_attr(g, "min"),
                                                .max = float_attr(g, "max"), QUANT_OPTIONS(g)));
}

static void fake_quant_vars(gradient_call *g) {
  dp_fake_quant_with_min_max_vars_gradient_outputs d = dp_fake_quant_with_min_max_vars_gradient(
      g->scope, above(g, 0), input(g, 0), input(g, 1), input(g, 2), QUANT_OPTIONS(g));
  GIVE(g, 0, d.backprops_wrt_input);
  GIVE(g, 1, d.backprop_wrt_min);
  GIVE(g, 2, d.backprop_wrt_max);
}

static void fake_quant_channels(gradient_call *g) {
  dp_fake_quant_with_min_max_vars_per_channel_gradient_outputs d =
      dp_fake_quant_with_min_max_vars_per_channel_gradient(
          g->scope, above(g, 0), input(g, 0), input(g, 1), input(g, 2), QUANT_OPTIONS(g));
  GIVE(g, 0, d.backprops_wrt_input);
  GIVE(g, 1, d.backprop_wrt_min);
  GIVE(g, 2, d.backprop_wrt_max);
}

/* QuantizeAndDequantize up to V3, and the gradient op of V4, pass the whole gradient on. */
static void quantize(gradient_call *g) {
  GIVE(g, 0, above(g, 0));
}

static void quantize_v4(gradient_call *g) {
  dp_quantize_and_dequantize_v4_grad_outputs d = dp_quantize_and_dequantize_v4_grad(
      g->scope, above(g, 0), input(g, 0), input(g, 1), input(g, 2), .axis = int_attr(g, "axis"));
  GIVE(g, 0, d.input_backprop);
  GIVE(g, 1, d.input_min_backprop);
  GIVE(g, 2, d.input_max_backprop);
}

/* ---- Images ---- */

static void resize_bilinear(gradient_call *g) {
  GIVE(g, 0,
       dp_resize_bilinear_grad(g->scope, above(g, 0), input(g, 0),
                               .align_corners = bool_attr(g, "align_corners"),
                               .half_pixel_centers = bool_attr(g, "half_pixel_centers")));
}

static void resize_nearest(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output size = dp_strided_slice(s, shape_of(s, input(g, 0)), dp_const_vector(s, DP_INTS(1)),
                                    dp_const_vector(s, DP_INTS(3)), dp_const_vector(s, DP_INTS(1)));
  GIVE(g, 0,
       dp_resize_nearest_neighbor_grad(s, above(g, 0), size,
                                       .align_corners = bool_attr(g, "align_corners"),
                                       .half_pixel_centers = bool_attr(g, "half_pixel_centers")));
}

static void resize_bicubic(gradient_call *g) {
  GIVE(g, 0,
       dp_resize_bicubic_grad(g->scope, above(g, 0), input(g, 0),
                              .align_corners = bool_attr(g, "align_corners"),
                              .half_pixel_centers = bool_attr(g, "half_pixel_centers")));
}

/* crop(image, boxes, which, size) */
static void crop_and_resize(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output image = input(g, 0);
  GIVE(g, 0,
       dp_crop_and_resize_grad_image(s, above(g, 0), input(g, 1), input(g, 2), shape_of(s, image),
                                     type_of(image), .method = string_attr(g, "method")));
  GIVE(g, 1, dp_crop_and_resize_grad_boxes(s, above(g, 0), image, input(g, 1), input(g, 2)));
}

/* ---- Recurrent cells ---- */

/* lstm(length, x, cs, h, w, wci, wcf, wco, b): i, cs, f, o, ci, co, h. Only the gradients of cs and
 * h are used. `lstm_grad` is the constructor of the gradient op of that version. */
#define GIVE_LSTM(g, lstm_grad)                                                                    \
  do {                                                                                             \
    __auto_type d =                                                                                \
        lstm_grad((g)->scope, input(g, 0), input(g, 1), input(g, 2), input(g, 3), input(g, 4),     \
                  input(g, 5), input(g, 6), input(g, 7), input(g, 8), output(g, 0), output(g, 1),  \
                  output(g, 2), output(g, 3), output(g, 4), output(g, 5), output(g, 6),            \
                  above(g, 1), above(g, 6), bool_attr(g, "use_peephole"));                         \
    GIVE(g, 1, d.x_grad);                                                                          \
    GIVE(g, 2, d.cs_prev_grad);                                                                    \
    GIVE(g, 3, d.h_prev_grad);                                                                     \
    GIVE(g, 4, d.w_grad);                                                                          \
    GIVE(g, 5, d.wci_grad);                                                                        \
    GIVE(g, 6, d.wcf_grad);                                                                        \
    GIVE(g, 7, d.wco_grad);                                                                        \
    GIVE(g, 8, d.b_grad);                                                                          \
  } while (0)

static void block_lstm(gradient_call *g) {
  GIVE_LSTM(g, dp_block_lstm_grad);
}

static void block_lstm_v2(gradient_call *g) {
  GIVE_LSTM(g, dp_block_lstm_grad_v2);
}

/* ---- Isotonic regression ---- */

/* The forward op replaces each segment of a row by its mean, so the gradient of a segment is the
 * mean of its gradients. Segment k of row i gets the id k + i * (length of a row). */
static void isotonic(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output dy = above(g, 0), segments = output(g, 1), shape = shape_of(s, segments);
  TF_Output minus = dp_const_vector(s, DP_INTS(-1)), zero = integer(s, 0);
  TF_Output width = dp_gather(s, shape, dp_sub(s, dp_size(s, shape), integer(s, 1)));
  TF_Output rows = dp_reshape(s, segments, dp_pack(s, DP_OUTPUTS(integer(s, -1), width)));
  TF_Output count = dp_size(s, segments);
  TF_Output firsts = dp_expand_dims(s, dp_range(s, zero, count, width), integer(s, 1));
  TF_Output ids = dp_reshape(s, dp_add(s, rows, firsts), minus), flat = dp_reshape(s, dy, minus);
  TF_Output sums = dp_unsorted_segment_sum(s, flat, ids, count);
  TF_Output sizes = dp_unsorted_segment_sum(s, dp_ones_like(s, flat), ids, count);
  TF_Output means = dp_gather(s, dp_div_no_nan(s, sums, sizes), ids);
  GIVE(g, 0, dp_cast(s, dp_reshape(s, means, shape), type_of(input(g, 0))));
}

const gradient_row dp_gradient_nn[] = {
    {"AvgPool", average_pool},
    {"AvgPool3D", average_pool3d},
    {"AvgPool3DGrad", average_pool3d_again},
    {"AvgPoolGrad", average_pool_again},
    {"BiasAdd", bias_add},
    {"BiasAddGrad", bias_add_again},
    {"BiasAddV1", bias_add_v1},
    {"BlockLSTM", block_lstm},
    {"BlockLSTMV2", block_lstm_v2},
    {"CTCLoss", temporal_loss},
    {"Conv2D", conv2d},
    {"Conv2DBackpropFilter", conv2d_filter},
    {"Conv2DBackpropInput", conv2d_input},
    {"Conv3D", conv3d},
    {"Conv3DBackpropFilterV2", conv3d_filter},
    {"Conv3DBackpropInputV2", conv3d_input},
    {"CropAndResize", crop_and_resize},
    {"DepthwiseConv2dNative", depthwise},
    {"DepthwiseConv2dNativeBackpropFilter", depthwise_filter},
    {"DepthwiseConv2dNativeBackpropInput", depthwise_input},
    {"Elu", elu},
    {"EluGrad", elu_again},
    {"FakeQuantWithMinMaxArgs", fake_quant_args},
    {"FakeQuantWithMinMaxVars", fake_quant_vars},
    {"FakeQuantWithMinMaxVarsPerChannel", fake_quant_channels},
    {"IsotonicRegression", isotonic},
    {"LRN", local_response},
    {"LeakyRelu", leaky_relu},
    {"LeakyReluGrad", leaky_relu_again},
    {"LogSoftmax", log_softmax},
    {"MaxPool", max_pool},
    {"MaxPool3D", max_pool3d},
    {"MaxPool3DGrad", max_pool3d_again},
    {"MaxPool3DGradGrad", max_pool3d_third},
    {"MaxPoolGrad", max_pool_again},
    {"MaxPoolGradGrad", max_pool_third},
    {"MaxPoolGradV2", max_pool_v2_again},
    {"MaxPoolV2", max_pool_v2},
    {"MaxPoolWithArgmax", max_pool_with_argmax},
    {"QuantizeAndDequantize", quantize},
    {"QuantizeAndDequantizeV2", quantize},
    {"QuantizeAndDequantizeV3", quantize},
    {"QuantizeAndDequantizeV4", quantize_v4},
    {"QuantizeAndDequantizeV4Grad", quantize},
    {"Relu", relu},
    {"Relu6", relu6},
    {"Relu6Grad", relu6_again},
    {"ReluGrad", relu_again},
    {"ResizeBicubic", resize_bicubic},
    {"ResizeBilinear", resize_bilinear},
    {"ResizeNearestNeighbor", resize_nearest},
    {"Selu", selu},
    {"SeluGrad", selu_again},
    {"Softmax", softmax},
    {"SoftmaxCrossEntropyWithLogits", cross_entropy},
    {"Softplus", softplus},
    {"SoftplusGrad", softplus_again},
    {"Softsign", softsign},
    {"SparseSoftmaxCrossEntropyWithLogits", sparse_cross_entropy},
    {NULL, NULL},
};
