/* Colours: RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation, AdjustContrast, and DrawBoundingBoxes.
 * Pixels are computed in float (double in double); large images are split over the pool. */
#include <math.h>
#include <string.h>
#include "kernels/shared/family.h"
#include "kernels/shared/pixels.h"

#define REAL float
#define NAME(x) float_##x
#include "kernels/image/color.tmpl.h"
#undef REAL
#undef NAME
#define REAL double
#define NAME(x) double_##x
#include "kernels/image/color.tmpl.h"
#undef REAL
#undef NAME

#define BLOCK 256 /* pixels per block */

/* ---- RGBToHSV, HSVToRGB ---- */
typedef struct color_work {
  const dp_tensor *input;
  dp_tensor *output;
  bool back;
  float number; /* delta of the hue or scale of the saturation */
} color_work;

static void convert_pixels(void *arg, int64_t begin, int64_t end) {
  const color_work *work = arg;
  dp_dtype dtype = work->output->dtype;
  if (dtype == DP_DOUBLE) {
    double_convert((const double *)work->input->data + 3 * begin,
                   (double *)work->output->data + 3 * begin, end - begin, work->back);
    return;
  }
  float from[3 * BLOCK], to[3 * BLOCK];
  for (int64_t i = begin; i < end; i += BLOCK) {
    int64_t count = end - i < BLOCK ? end - i : BLOCK;
    dp_image_to_float(dtype, work->input->data, 3 * i, from, 3 * count);
    float_convert(from, to, count, work->back);
    dp_image_from_float(dtype, to, work->output->data, 3 * i, 3 * count);
  }
}

static dp_status *color_create(const dp_kernel_setup *setup, void *state) {
  *(bool *)state = dp_node_is(setup->node, "HSVToRGB");
  return NULL;
}

static dp_status *color_compute(dp_op_context *context, void *state) {
  color_work work = {.input = dp_op_input(context, 0), .back = *(const bool *)state};
  dp_shape shape = work.input->shape;
  if (shape.rank < 1)
    return DP_INVALID("input must be at least 1D%s", dp_shape_text(&shape));
  if (shape.dims[shape.rank - 1] != 3)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "input must have 3 channels but input only has %lld channels.",
                            (long long)shape.dims[shape.rank - 1]);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  dp_op_for(context, shape.elements / 3, 8, convert_pixels, &work);
  return NULL;
}

/* ---- AdjustHue, AdjustSaturation ---- */
static dp_status *check_adjust(dp_op_context *context, const char *name) {
  const dp_shape *shape = &dp_op_input(context, 0)->shape;
  const dp_shape *number = &dp_op_input(context, 1)->shape;
  if (shape->rank < 3)
    return DP_INVALID("input must be at least 3-D, got shape%s", dp_shape_text(shape));
  if (number->rank != 0)
    return DP_INVALID("%s must be scalar: %s", name, dp_shape_text(number));
  return NULL;
}

/* Turns the hue; the smallest and the largest channel value stay the same. */
static void turn_hue(const float *from, float *to, float delta) {
  float hsv[3];
  float_to_hsv(from, hsv);
  float least = float_least(from[0], float_least(from[1], from[2])), range = hsv[2] - least;
  float hue = hsv[0] + delta;
  float full[3] = {hue - floorf(hue), 1, 1}, rgb[3];
  float_to_rgb(full, rgb);
  for (int c = 0; c < 3; ++c)
    to[c] = least + rgb[c] * range;
}

static void adjust_hue(void *arg, int64_t begin, int64_t end) {
  const color_work *work = arg;
  float pixels[3 * BLOCK];
  dp_dtype dtype = work->output->dtype;
  for (int64_t i = begin; i < end; i += BLOCK) {
    int64_t count = end - i < BLOCK ? end - i : BLOCK;
    dp_image_to_float(dtype, work->input->data, 3 * i, pixels, 3 * count);
    for (int64_t p = 0; p < 3 * count; p += 3) {
      float pixel[3] = {pixels[p], pixels[p + 1], pixels[p + 2]};
      turn_hue(pixel, pixels + p, work->number);
    }
    dp_image_from_float(dtype, pixels, work->output->data, 3 * i, 3 * count);
  }
}

static void adjust_saturation(void *arg, int64_t begin, int64_t end) {
  const color_work *work = arg;
  float pixels[3 * BLOCK], hsv[3];
  dp_dtype dtype = work->output->dtype;
  for (int64_t i = begin; i < end; i += BLOCK) {
    int64_t count = end - i < BLOCK ? end - i : BLOCK;
    dp_image_to_float(dtype, work->input->data, 3 * i, pixels, 3 * count);
    for (int64_t p = 0; p < 3 * count; p += 3) {
      float_to_hsv(pixels + p, hsv);
      hsv[1] = float_unit(hsv[1] * work->number);
      float_to_rgb(hsv, pixels + p);
    }
    dp_image_from_float(dtype, pixels, work->output->data, 3 * i, 3 * count);
  }
}

static dp_status *adjust(dp_op_context *context, const char *name, dp_range_fn fn) {
  DP_RETURN_IF_ERROR(check_adjust(context, name));
  color_work work = {.input = dp_op_input(context, 0)};
  dp_shape shape = work.input->shape;
  if (shape.dims[shape.rank - 1] != 3)
    return DP_INVALID("input must have 3 channels but instead has %lld channels.",
                      (long long)shape.dims[shape.rank - 1]);
  work.number = *(const float *)dp_op_input(context, 1)->data;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  dp_op_for(context, shape.elements / 3, 12, fn, &work);
  return NULL;
}

static dp_status *hue_compute(dp_op_context *context, void *state) {
  return adjust(context, "delta", adjust_hue);
}
static dp_status *saturation_compute(dp_op_context *context, void *state) {
  return adjust(context, "scale", adjust_saturation);
}

/* ---- AdjustContrast ---- */
typedef struct contrast_work {
  const dp_tensor *input;
  dp_tensor *output;
  int64_t pixels, channels;
  float factor, low, high;
  bool clamps;
} contrast_work;

/* Whole images: distances from each channel's mean, times the factor. */
static void adjust_contrast(void *arg, int64_t begin, int64_t end) {
  const contrast_work *work = arg;
  for (int64_t image = begin; image < end; ++image)
    for (int64_t c = 0; c < work->channels; ++c) {
      int64_t first = image * work->pixels * work->channels + c;
      double sum = 0;
      for (int64_t i = 0; i < work->pixels; ++i) {
        float value;
        dp_image_to_float(work->input->dtype, work->input->data, first + i * work->channels, &value,
                          1);
        sum += value;
      }
      float mean = (float)(sum / (double)work->pixels), *to = work->output->data;
      for (int64_t i = 0; i < work->pixels; ++i) {
        float value;
        int64_t at = first + i * work->channels;
        dp_image_to_float(work->input->dtype, work->input->data, at, &value, 1);
        value = mean + (value - mean) * work->factor;
        if (work->clamps)
          value = float_most(work->low, float_least(work->high, value));
        if (work->output->dtype == DP_FLOAT)
          to[at] = value;
        else
          dp_image_from_float(work->output->dtype, &value, work->output->data, at, 1);
      }
    }
}

static dp_status *contrast_compute(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(check_adjust(context, "contrast_factor"));
  contrast_work work = {.input = dp_op_input(context, 0)};
  work.factor = *(const float *)dp_op_input(context, 1)->data;
  work.clamps = context->input_count > 2;
  for (int32_t i = 2; i < context->input_count; ++i) {
    const dp_tensor *limit = dp_op_input(context, i);
    if (limit->shape.rank != 0)
      return DP_INVALID("%s must be scalar: %s", i == 2 ? "min_value" : "max_value",
                        dp_shape_text(&limit->shape));
    *(i == 2 ? &work.low : &work.high) = *(const float *)limit->data;
  }
  dp_shape shape = work.input->shape;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  if (shape.elements == 0)
    return NULL;
  work.channels = shape.dims[shape.rank - 1];
  work.pixels = shape.dims[shape.rank - 3] * shape.dims[shape.rank - 2];
  int64_t size = work.pixels * work.channels;
  dp_op_for(context, shape.elements / size, size * 4, adjust_contrast, &work);
  return NULL;
}

/* ---- DrawBoundingBoxes ---- */
static const float default_colors[10][4] = {
    {1, 1, 0, 1},       {0, 0, 1, 1},    {1, 0, 0, 1},    {0, 1, 0, 1}, {0.5f, 0, 0.5f, 1},
    {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1}, {0, 1, 1, 1}, {1, 0, 1, 1},
};

typedef struct canvas {
  dp_tensor *image;
  int64_t height, width, depth, base; /* base: first element of this image */
} canvas;

static void draw_pixel(const canvas *canvas, int64_t y, int64_t x, const float *color) {
  dp_image_from_float(canvas->image->dtype, color, canvas->image->data,
                      canvas->base + (y * canvas->width + x) * canvas->depth, canvas->depth);
}

/* box: top, left, bottom, right from 0 to 1. Edges outside of the image are not drawn. */
static void draw_box(const canvas *canvas, const float *box, const float *color) {
  float below = (float)(canvas->height - 1), beside = (float)(canvas->width - 1);
  int64_t top = (int64_t)(box[0] * below), bottom = (int64_t)(box[2] * below);
  int64_t left = (int64_t)(box[1] * beside), right = (int64_t)(box[3] * beside);
  if (top > bottom || left > right || top >= canvas->height || bottom < 0 ||
      left >= canvas->width || right < 0)
    return;
  int64_t first_row = top > 0 ? top : 0, first_column = left > 0 ? left : 0;
  int64_t last_row = bottom < canvas->height ? bottom : canvas->height - 1;
  int64_t last_column = right < canvas->width ? right : canvas->width - 1;
  for (int64_t x = first_column; x <= last_column; ++x) {
    if (top >= 0)
      draw_pixel(canvas, top, x, color);
    if (bottom < canvas->height)
      draw_pixel(canvas, bottom, x, color);
  }
  for (int64_t y = first_row; y <= last_row; ++y) {
    if (left >= 0)
      draw_pixel(canvas, y, left, color);
    if (right < canvas->width)
      draw_pixel(canvas, y, right, color);
  }
}

static dp_status *check_draw(dp_op_context *context) {
  const dp_shape *images = &dp_op_input(context, 0)->shape;
  const dp_shape *boxes = &dp_op_input(context, 1)->shape;
  if (images->rank != 4)
    return DP_INVALID("The rank of the images should be 4");
  if (boxes->rank != 3)
    return DP_INVALID("The rank of the boxes tensor should be 3");
  if (images->dims[0] != boxes->dims[0])
    return DP_INVALID("The batch sizes should be the same");
  int64_t depth = images->dims[3];
  if (depth != 4 && depth != 1 && depth != 3)
    return DP_INVALID("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)");
  if (boxes->dims[2] != 4)
    return DP_INVALID("The size of the third dimension of the box must be 4. Received: %lld",
                      (long long)boxes->dims[2]);
  if (context->input_count > 2) {
    const dp_shape *colors = &dp_op_input(context, 2)->shape;
    if (colors->rank != 2)
      return DP_INVALID("colors must be a 2-D matrix%s", dp_shape_text(colors));
    if (colors->dims[1] < depth)
      return DP_INVALID("colors must have equal or more channels than the image provided: %s",
                        dp_shape_text(colors));
  }
  return NULL;
}

static dp_status *draw_compute(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(check_draw(context));
  const dp_tensor *images = dp_op_input(context, 0), *boxes = dp_op_input(context, 1);
  const dp_tensor *colors = context->input_count > 2 ? dp_op_input(context, 2) : NULL;
  dp_shape shape = images->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  memcpy(output->data, images->data, dp_tensor_bytes(images));
  canvas canvas = {output, shape.dims[1], shape.dims[2], shape.dims[3], 0};
  int64_t count = boxes->shape.dims[1], area = canvas.height * canvas.width * canvas.depth;
  bool given = colors && colors->shape.elements > 0;
  if (area == 0)
    return NULL;
  for (int64_t i = 0; i < shape.dims[0] * count; ++i) {
    float box[4], color[4] = {0};
    canvas.base = i / count * area;
    dp_image_to_float(boxes->dtype, boxes->data, 4 * i, box, 4);
    if (given) {
      int64_t row = i % count % colors->shape.dims[0], width = colors->shape.dims[1];
      memcpy(color, (const float *)colors->data + row * width,
             (size_t)(width < 4 ? width : 4) * sizeof(float));
    } else {
      memcpy(color, default_colors[i % count % 10], sizeof color);
      if (canvas.depth == 1)
        color[0] = 1;
    }
    draw_box(&canvas, box, color);
  }
  return NULL;
}

#define COLOR(name)                                                                                \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_FLOATS}}, .state_size = sizeof(bool),                       \
    .create = color_create, .compute = color_compute                                               \
  }
#define SHORT_OR_FLOAT                                                                             \
  { "T", DP_SET(FLOAT) | DP_SET(HALF) }
static const dp_kernel rows[] = {
    COLOR("RGBToHSV"),
    COLOR("HSVToRGB"),
    {.op = "AdjustHue", .types = {SHORT_OR_FLOAT}, .compute = hue_compute},
    {.op = "AdjustSaturation", .types = {SHORT_OR_FLOAT}, .compute = saturation_compute},
    {.op = "AdjustContrastv2", .types = {SHORT_OR_FLOAT}, .compute = contrast_compute},
    {.op = "AdjustContrast", .compute = contrast_compute},
    {.op = "DrawBoundingBoxes", .types = {SHORT_OR_FLOAT}, .compute = draw_compute},
    {.op = "DrawBoundingBoxesV2", .types = {SHORT_OR_FLOAT}, .compute = draw_compute},
};
DP_KERNEL_FAMILY(image_color, rows);
