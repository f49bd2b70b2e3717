/* ImageProjectiveTransformV2 and V3: a projection of the plane gives, per output pixel, a position
 * in the input; the output is the nearest pixel or a mean of the four around it. Positions outside
 * are filled with a value, or moved inside by reflection, by repetition, or to the nearest edge. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/pixels.h"

typedef float (*place_fn)(float place, int64_t length);

typedef struct projective_state {
  bool is_bilinear;
  place_fn map;
} projective_state;

/* ---- Places outside ---- */
static float clamp_place(float place, int64_t length) {
  float last = (float)(length - 1);
  return place < 0 ? 0 : place > last ? last : place;
}

/* [abcd] goes on as [dcba|abcd|dcba]. */
static float reflect_place(float place, int64_t length) {
  int64_t period = 2 * length;
  if (length <= 1)
    return 0;
  if (place < 0) {
    place = (float)(period * (int64_t)(-place / (float)period)) + place;
    place = place < (float)-length ? place + (float)period : -place - 1;
  } else if (place > (float)(length - 1)) {
    place -= (float)(period * (int64_t)(place / (float)period));
    if (place >= (float)length)
      place = (float)period - place - 1;
  }
  return clamp_place(place, length);
}

/* As [abcd|abcd|abcd]. */
static float wrap_place(float place, int64_t length) {
  float inner = (float)(length - 1);
  if (length <= 1)
    return 0;
  if (place < 0)
    place += (float)(length * ((int64_t)(-place / inner) + 1));
  else if (place > inner)
    place -= (float)(length * (int64_t)(place / inner));
  return clamp_place(place, length);
}

static float keep_place(float place, int64_t length) {
  return place;
}

static dp_status *projective_create(const dp_kernel_setup *setup, void *memory) {
  static const struct {
    const char *name;
    place_fn map;
  } modes[] = {{"REFLECT", reflect_place},
               {"WRAP", wrap_place},
               {"CONSTANT", keep_place},
               {"NEAREST", clamp_place}};
  projective_state *state = memory;
  dp_view interpolation, mode;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "interpolation", &interpolation));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "fill_mode", &mode));
  state->is_bilinear = dp_view_equals(interpolation, "BILINEAR");
  if (!state->is_bilinear && !dp_view_equals(interpolation, "NEAREST"))
    return DP_INVALID("Invalid interpolation %.*s. Supported types: NEAREST, BILINEAR",
                      (int)interpolation.length, interpolation.data);
  for (int i = 0; i < 4; ++i)
    if (dp_view_equals(mode, modes[i].name))
      state->map = modes[i].map;
  if (!state->map)
    return DP_INVALID("Invalid mode %.*s. Supported types: REFLECT, WRAP, CONSTANT, NEAREST",
                      (int)mode.length, mode.data);
  return NULL;
}

/* ---- Pixels ---- */
typedef struct projective_call {
  const projective_state *state;
  dp_dtype dtype;
  const char *images;
  const float *floats; /* the images, for means */
  const float *transforms;
  int64_t transform_count;
  int64_t in_height, in_width, out_height, out_width, channels;
  float fill;
  const char *fill_pixel; /* of the dtype */
  char *out;
  bool has_memory;
} projective_call;

#define FAR_OUTSIDE 1e15f /* no pixel is there, and it still converts to an integer */

/* The input position of an output pixel; false when there is none. */
static bool find_place(const projective_call *call, int64_t image, int64_t row, int64_t column,
                       float *y_out, float *x_out) {
  const float *t = call->transforms + (call->transform_count == 1 ? 0 : 8 * image);
  float x = (float)column, y = (float)row, projection = t[6] * x + t[7] * y + 1;
  if (projection == 0)
    return false;
  *x_out = call->state->map((t[0] * x + t[1] * y + t[2]) / projection, call->in_width);
  *y_out = call->state->map((t[3] * x + t[4] * y + t[5]) / projection, call->in_height);
  return fabsf(*x_out) < FAR_OUTSIDE && fabsf(*y_out) < FAR_OUTSIDE;
}

static bool is_inside(const projective_call *call, int64_t y, int64_t x) {
  return y >= 0 && y < call->in_height && x >= 0 && x < call->in_width;
}

static void nearest_row(const projective_call *call, int64_t row) {
  int64_t image = row / call->out_height;
  size_t bytes = (size_t)call->channels * dp_dtype_size(call->dtype);
  char *to = call->out + (size_t)(row * call->out_width) * bytes;
  for (int64_t column = 0; column < call->out_width; ++column, to += bytes) {
    float y, x;
    const char *from = call->fill_pixel;
    if (find_place(call, image, row % call->out_height, column, &y, &x) &&
        is_inside(call, (int64_t)roundf(y), (int64_t)roundf(x))) {
      int64_t at = (image * call->in_height + (int64_t)roundf(y)) * call->in_width;
      from = call->images + (size_t)(at + (int64_t)roundf(x)) * bytes;
    }
    memcpy(to, from, bytes);
  }
}

/* A pixel as floats, or NULL when it is outside. */
static const float *float_pixel(const projective_call *call, int64_t image, int64_t y, int64_t x) {
  if (!is_inside(call, y, x))
    return NULL;
  return call->floats + ((image * call->in_height + y) * call->in_width + x) * call->channels;
}

static void mix_pixel(const projective_call *call, int64_t image, float y, float x, float *to) {
  float top = floorf(y), left = floorf(x);
  int64_t row = (int64_t)top, column = (int64_t)left;
  const float *pixels[4] = {
      float_pixel(call, image, row, column), float_pixel(call, image, row, column + 1),
      float_pixel(call, image, row + 1, column), float_pixel(call, image, row + 1, column + 1)};
  float right_part = x - left, left_part = left + 1 - x, low_part = y - top,
        high_part = top + 1 - y;
  for (int64_t c = 0; c < call->channels; ++c) {
    float values[4];
    for (int i = 0; i < 4; ++i)
      values[i] = pixels[i] ? pixels[i][c] : call->fill;
    float high = left_part * values[0] + right_part * values[1];
    float low = left_part * values[2] + right_part * values[3];
    to[c] = high_part * high + low_part * low;
  }
}

static void bilinear_row(const projective_call *call, int64_t row, float *line) {
  int64_t image = row / call->out_height, length = call->out_width * call->channels;
  for (int64_t column = 0; column < call->out_width; ++column) {
    float y, x, *to = line + column * call->channels;
    if (find_place(call, image, row % call->out_height, column, &y, &x)) {
      mix_pixel(call, image, y, x, to);
      continue;
    }
    for (int64_t c = 0; c < call->channels; ++c)
      to[c] = call->fill;
  }
  dp_image_from_float(call->dtype, line, call->out, row * length, length);
}

static void row_range(void *arg, int64_t begin, int64_t end) {
  projective_call *call = arg;
  float *line = dp_image_scratch(call->out_width * call->channels);
  if (!line)
    call->has_memory = false;
  for (int64_t row = begin; row < end && line; ++row) {
    if (call->state->is_bilinear)
      bilinear_row(call, row, line);
    else
      nearest_row(call, row);
  }
  dp_free(line);
}

/* ---- The ops ---- */
static dp_status *check_inputs(dp_op_context *context) {
  const dp_shape *images = &dp_op_input(context, 0)->shape;
  const dp_shape *transforms = &dp_op_input(context, 1)->shape;
  const dp_shape *size = &dp_op_input(context, 2)->shape;
  if (images->rank != 4)
    return DP_INVALID("Input images must have rank 4");
  if (transforms->rank != 2 ||
      (transforms->dims[0] != images->dims[0] && transforms->dims[0] != 1) ||
      transforms->dims[1] != 8)
    return DP_INVALID("Input transform should be num_images x 8 or 1 x 8");
  if (size->rank != 1)
    return DP_INVALID("output shape must be 1-dimensional%s", dp_shape_text(size));
  if (size->elements != 2)
    return DP_INVALID("output shape must have two elements%s", dp_shape_text(size));
  if (context->input_count > 3 && dp_op_input(context, 3)->shape.rank != 0)
    return DP_INVALID("fill_value must be a scalar%s",
                      dp_shape_text(&dp_op_input(context, 3)->shape));
  return NULL;
}

/* Images as floats and a pixel of the fill value, in memory of the call. */
static dp_status *prepare(dp_op_context *context, projective_call *call, float **floats_out,
                          char **fill_out) {
  const dp_tensor *images = dp_op_input(context, 0);
  int64_t elements = images->shape.elements;
  float *fill = dp_image_scratch(call->channels);
  *fill_out = dp_try_malloc((size_t)(call->channels + 1) * dp_dtype_size(call->dtype));
  if (call->state->is_bilinear && call->dtype != DP_FLOAT)
    *floats_out = dp_image_scratch(elements);
  bool good =
      fill && *fill_out && (*floats_out || call->dtype == DP_FLOAT || !call->state->is_bilinear);
  for (int64_t c = 0; c < call->channels && good; ++c)
    fill[c] = call->fill;
  if (good) {
    dp_image_from_float(call->dtype, fill, *fill_out, 0, call->channels);
    call->fill_pixel = *fill_out;
    call->floats = images->data;
  }
  if (good && call->channels > 0) /* what the dtype makes of it */
    dp_image_to_float(call->dtype, *fill_out, 0, &call->fill, 1);
  if (good && *floats_out) {
    dp_image_to_float(call->dtype, images->data, 0, *floats_out, elements);
    call->floats = *floats_out;
  }
  dp_free(fill);
  return good ? NULL : dp_status_out_of_memory();
}

static dp_status *projective_compute(dp_op_context *context, void *memory) {
  DP_RETURN_IF_ERROR(check_inputs(context));
  const dp_tensor *images = dp_op_input(context, 0), *size = dp_op_input(context, 2);
  int64_t dims[4] = {images->shape.dims[0], dp_tensor_int_at(size, 0), dp_tensor_int_at(size, 1),
                     images->shape.dims[3]};
  if (dims[1] <= 0 || dims[2] <= 0)
    return DP_INVALID("output dimensions must be positive");
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  projective_call call = {.state = memory,
                          .dtype = images->dtype,
                          .images = images->data,
                          .transforms = dp_op_input(context, 1)->data,
                          .transform_count = dp_op_input(context, 1)->shape.dims[0],
                          .in_height = images->shape.dims[1],
                          .in_width = images->shape.dims[2],
                          .out_height = dims[1],
                          .out_width = dims[2],
                          .channels = dims[3],
                          .out = output->data,
                          .has_memory = true};
  if (context->input_count > 3)
    call.fill = *(const float *)dp_op_input(context, 3)->data;
  float *floats = NULL;
  char *fill = NULL;
  dp_status *status = prepare(context, &call, &floats, &fill);
  if (!status)
    dp_op_for(context, dims[0] * dims[1], dims[2] * (15 + 4 * dims[3]), row_range, &call);
  if (!call.has_memory)
    status = dp_status_out_of_memory();
  dp_free(floats);
  dp_free(fill);
  return status;
}

#define ROW(name)                                                                                  \
  {                                                                                                \
    .op = name, .types = {{"dtype", DP_SET_FLOATS | DP_SET(UINT8) | DP_SET_INDEX}},                \
    .state_size = sizeof(projective_state), .create = projective_create,                           \
    .compute = projective_compute                                                                  \
  }
static const dp_kernel rows[] = {
    ROW("ImageProjectiveTransformV2"),
    ROW("ImageProjectiveTransformV3"),
};
DP_KERNEL_FAMILY(image_projective, rows);
