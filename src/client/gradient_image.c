/* Gradients of image ops: patches, warps, scaling, dilation, fractional pools, RGB to HSV. The
 * gradients of resizing and cropping are in gradient_nn.c. */
#include "client/gradient_internal.h"

/* ---- Patches: (batch, places..., channels) to (batch, places..., window x channels) ---- */

static TF_Output sizes(dp_scope *s, TF_Output value) {
  return dp_shape(s, value, .out_type = TF_INT64);
}

static TF_Output size_at(dp_scope *s, TF_Output shape, int index) {
  return dp_gather(s, shape, integer(s, index));
}

/* The dimensions between the first and the last. */
static TF_Output places(dp_scope *s, TF_Output shape) {
  return dp_strided_slice(s, shape, dp_const_vector(s, DP_INTS(1)), dp_const_vector(s, DP_INTS(-1)),
                          dp_const_vector(s, DP_INTS(1)));
}

/* One image of one channel whose elements are numbered 1, 2, ...; count_out is how many there are.
 */
static TF_Output numbered(dp_scope *s, TF_Output shape, TF_Output *count_out) {
  TF_Output one = dp_const_int64(s, 1), ones = dp_cast(s, dp_const_vector(s, DP_INTS(1)), TF_INT64);
  TF_Output inner = places(s, shape);
  *count_out = dp_prod(s, inner, integer(s, 0));
  TF_Output numbers = dp_range(s, one, dp_add(s, *count_out, one), one);
  return dp_reshape(s, numbers, dp_concat_v2(s, DP_OUTPUTS(ones, inner, ones), integer(s, 0)));
}

/* `sources` are the patches of the numbered image: each element says from where it was read, and 0
 * is padding. The gradient of an element is added at the place it was read from. Padding gets the
 * id -1, which segment sums ignore. */
static TF_Output put_back(gradient_call *g, TF_Output sources, TF_Output count) {
  dp_scope *s = g->scope;
  TF_Output shape = sizes(s, input(g, 0)), turn = dp_const_vector(s, DP_INTS(1, 0, 2));
  TF_Output ids =
      dp_sub(s, dp_reshape(s, sources, dp_const_vector(s, DP_INTS(-1))), dp_const_int64(s, 1));
  int last = (int)ints_attr(g, "ksizes").count - 1;
  TF_Output flat =
      dp_pack(s, DP_OUTPUTS(size_at(s, shape, 0), dp_size(s, ids, .out_type = TF_INT64),
                            size_at(s, shape, last)));
  TF_Output rows = dp_transpose(s, dp_reshape(s, above(g, 0), flat), turn);
  TF_Output sums = dp_unsorted_segment_sum(s, rows, ids, count);
  return dp_reshape(s, dp_transpose(s, sums, turn), shape);
}

static void image_patches(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output count, numbers = numbered(s, sizes(s, input(g, 0)), &count);
  TF_Output sources =
      dp_extract_image_patches(s, numbers, ints_attr(g, "ksizes"), ints_attr(g, "strides"),
                               ints_attr(g, "rates"), string_attr(g, "padding"));
  GIVE(g, 0, put_back(g, sources, count));
}

static void volume_patches(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output count, numbers = numbered(s, sizes(s, input(g, 0)), &count);
  TF_Output sources = dp_extract_volume_patches(s, numbers, ints_attr(g, "ksizes"),
                                                ints_attr(g, "strides"), string_attr(g, "padding"));
  GIVE(g, 0, put_back(g, sources, count));
}

/* ---- Warps ---- */

/* A transform is the first 8 numbers of a 3 x 3 matrix, whose last number is 1. */
static TF_Output inverse_transforms(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output rows = dp_reshape(s, input(g, 1), dp_const_vector(s, DP_INTS(-1, 8)));
  TF_Output border =
      dp_reshape(s, dp_const_vector(s, DP_INTS(0, 0, 0, 1)), dp_const_vector(s, DP_INTS(2, 2)));
  TF_Output whole = dp_pad_v2(s, rows, border, number_like(s, rows, 1));
  TF_Output inverse =
      dp_matrix_inverse(s, dp_reshape(s, whole, dp_const_vector(s, DP_INTS(-1, 3, 3))));
  TF_Output flat = dp_reshape(s, inverse, dp_const_vector(s, DP_INTS(-1, 9)));
  dp_output_list parts = dp_split_v(
      s, flat, dp_cast(s, dp_const_vector(s, DP_INTS(8, 1)), TF_INT64), integer(s, 1), 2);
  return dp_div(s, dp_output_at(parts, 0), dp_output_at(parts, 1));
}

static TF_Output image_size(gradient_call *g) {
  dp_scope *s = g->scope;
  return dp_strided_slice(s, shape_of(s, input(g, 0)), dp_const_vector(s, DP_INTS(1)),
                          dp_const_vector(s, DP_INTS(3)), dp_const_vector(s, DP_INTS(1)));
}

static void warp_v2(gradient_call *g) {
  GIVE(g, 0,
       dp_image_projective_transform_v2(g->scope, above(g, 0), inverse_transforms(g), image_size(g),
                                        string_attr(g, "interpolation"),
                                        .fill_mode = string_attr(g, "fill_mode")));
}

static void warp_v3(gradient_call *g) {
  dp_scope *s = g->scope;
  GIVE(g, 0,
       dp_image_projective_transform_v3(
           s, above(g, 0), inverse_transforms(g), image_size(g), dp_const_number(s, TF_FLOAT, 0),
           string_attr(g, "interpolation"), .fill_mode = string_attr(g, "fill_mode")));
}

/* scale_and_translate(images, size, scale, translation) */
static void scale_and_translate(gradient_call *g) {
  GIVE(g, 0,
       dp_scale_and_translate_grad(g->scope, above(g, 0), input(g, 0), input(g, 2), input(g, 3),
                                   .kernel_type = string_attr(g, "kernel_type"),
                                   .antialias = bool_attr(g, "antialias")));
}

/* ---- Windows ---- */

static void dilation(gradient_call *g) {
  dp_ints strides = ints_attr(g, "strides"), rates = ints_attr(g, "rates");
  const char *padding = string_attr(g, "padding");
  GIVE(g, 0,
       dp_dilation2d_backprop_input(g->scope, input(g, 0), input(g, 1), above(g, 0), strides, rates,
                                    padding));
  GIVE(g, 1,
       dp_dilation2d_backprop_filter(g->scope, input(g, 0), input(g, 1), above(g, 0), strides,
                                     rates, padding));
}

/* Outputs: the pooled values, where windows begin in rows, where windows begin in columns. */
static void fractional_max(gradient_call *g) {
  GIVE(g, 0,
       dp_fractional_max_pool_grad(g->scope, input(g, 0), output(g, 0), above(g, 0), output(g, 1),
                                   output(g, 2), .overlapping = bool_attr(g, "overlapping")));
}

static void fractional_average(gradient_call *g) {
  GIVE(g, 0,
       dp_fractional_avg_pool_grad(g->scope, sizes(g->scope, input(g, 0)), above(g, 0),
                                   output(g, 1), output(g, 2),
                                   .overlapping = bool_attr(g, "overlapping")));
}

/* ---- Colours ---- */

/* What the derivatives of hue, saturation and value share. `big` is 1 for the largest channel and 0
 * for the others, `small` the same for the smallest. Of equal channels the first is the largest and
 * the last is the smallest, as in the forward op. */
typedef struct colours {
  dp_scope *scope;
  TF_Output channel[3], big[3], small[3], positive[3];
  TF_Output saturation, value;
} colours;

static TF_Output channel(dp_scope *s, TF_Output image, int index) {
  return dp_strided_slice(
      s, image, dp_const_vector(s, DP_INTS(0, index)), dp_const_vector(s, DP_INTS(0, index + 1)),
      dp_const_vector(s, DP_INTS(1, 1)), .ellipsis_mask = 1, .shrink_axis_mask = 2);
}

static TF_Output times(const colours *c, TF_Output a, TF_Output b) {
  return dp_mul(c->scope, a, b);
}

static TF_Output minus(const colours *c, TF_Output a, TF_Output b) {
  return dp_sub(c->scope, a, b);
}

/* a / b, and 0 where b is 0. */
static TF_Output over(const colours *c, TF_Output a, TF_Output b) {
  return dp_div_no_nan(c->scope, a, b);
}

static TF_Output both(const colours *c, TF_Output a, TF_Output b) {
  return dp_cast(c->scope, dp_logical_and(c->scope, a, b), type_of(c->channel[0]));
}

static colours colours_of(gradient_call *g) {
  dp_scope *s = g->scope;
  colours c = {.scope = s};
  for (int i = 0; i < 3; i++) {
    c.channel[i] = channel(s, input(g, 0), i);
    TF_Output is_positive = dp_greater(s, c.channel[i], number_like(s, c.channel[i], 0));
    c.positive[i] = dp_cast(s, is_positive, type_of(c.channel[i]));
  }
  TF_Output r = c.channel[0], green = c.channel[1], b = c.channel[2];
  c.saturation = channel(s, output(g, 0), 1);
  c.value = channel(s, output(g, 0), 2);
  c.big[0] = both(&c, dp_greater_equal(s, r, b), dp_greater_equal(s, r, green));
  c.big[1] = both(&c, dp_greater(s, green, r), dp_greater_equal(s, green, b));
  c.big[2] = both(&c, dp_greater(s, b, r), dp_greater(s, b, green));
  c.small[0] = both(&c, dp_less(s, r, b), dp_less(s, r, green));
  c.small[1] = both(&c, dp_less_equal(s, green, r), dp_less(s, green, b));
  c.small[2] = both(&c, dp_less_equal(s, b, r), dp_less_equal(s, b, green));
  return c;
}

/* The derivative of the saturation, (max - min) / max, for channel i. */
static TF_Output saturation_slope(const colours *c, int i) {
  dp_scope *s = c->scope;
  int next = (i + 1) % 3, last = (i + 2) % 3;
  TF_Output least = dp_add(s, times(c, c->small[next], c->channel[next]),
                           times(c, c->small[last], c->channel[last]));
  TF_Output most =
      dp_add(s, times(c, c->big[next], c->channel[next]), times(c, c->big[last], c->channel[last]));
  TF_Output as_big = times(c, c->big[i], over(c, least, dp_square(s, c->channel[i])));
  return times(c, c->positive[i], minus(c, as_big, over(c, c->small[i], most)));
}

/* The derivative of the hue for channel i where channel k is the largest. The hue is then the
 * difference of the other two channels over (max - min), in sixths. `sign` is 1 if k comes before i
 * in the cycle red, green, blue. */
static TF_Output hue_slope_below(const colours *c, int i, int k, double sign) {
  dp_scope *s = c->scope;
  int other = 3 - i - k, next = (i + 1) % 3, last = (i + 2) % 3;
  TF_Output gap = minus(c, c->channel[last], c->channel[next]);
  TF_Output far = dp_square(s, minus(c, c->channel[k], c->channel[i]));
  TF_Output near = minus(c, c->channel[k], c->channel[other]);
  TF_Output as_smallest = times(c, c->small[i], over(c, gap, far));
  TF_Output as_middle = over(c, times(c, c->small[other], number_like(s, near, sign)), near);
  return times(c, times(c, c->positive[k], c->big[k]), dp_add(s, as_smallest, as_middle));
}

static TF_Output hue_slope(const colours *c, int i) {
  dp_scope *s = c->scope;
  int next = (i + 1) % 3, last = (i + 2) % 3;
  TF_Output gap = minus(c, c->channel[last], c->channel[next]);
  TF_Output range = dp_square(s, times(c, c->saturation, c->value));
  TF_Output as_biggest = times(c, times(c, c->positive[i], c->big[i]), over(c, gap, range));
  TF_Output others = dp_add(s, hue_slope_below(c, i, next, -1), hue_slope_below(c, i, last, 1));
  return times(c, dp_add(s, as_biggest, others), number_like(s, gap, 1.0 / 6));
}

static void to_hsv(gradient_call *g) {
  dp_scope *s = g->scope;
  colours c = colours_of(g);
  TF_Output above_hue = channel(s, above(g, 0), 0), above_saturation = channel(s, above(g, 0), 1);
  TF_Output above_value = channel(s, above(g, 0), 2), slopes[3];
  for (int i = 0; i < 3; i++) {
    TF_Output colour = dp_add(s, times(&c, above_hue, hue_slope(&c, i)),
                              times(&c, above_saturation, saturation_slope(&c, i)));
    slopes[i] = dp_add(s, colour, times(&c, above_value, c.big[i]));
  }
  GIVE(g, 0, dp_pack(s, ((dp_outputs){slopes, 3}), .axis = -1));
}

const gradient_row dp_gradient_image[] = {
    {"Dilation2D", dilation},
    {"ExtractImagePatches", image_patches},
    {"ExtractVolumePatches", volume_patches},
    {"FractionalAvgPool", fractional_average},
    {"FractionalMaxPool", fractional_max},
    {"ImageProjectiveTransformV2", warp_v2},
    {"ImageProjectiveTransformV3", warp_v3},
    {"RGBToHSV", to_hsv},
    {"ScaleAndTranslate", scale_and_translate},
    {NULL, NULL},
};
