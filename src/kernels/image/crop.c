/* CropAndResize and its gradients: boxes of images, each resized to one size. Positions outside the
 * image get the extrapolation value. Boxes are split over the pool. The gradient of the image is
 * summed on one thread, because boxes may overlap. */
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/family.h"
#include "kernels/shared/pixels.h"

typedef struct crop_state {
  bool is_nearest;
  float extrapolation;
} crop_state;

static dp_status *crop_create(const dp_kernel_setup *setup, void *memory) {
  crop_state *state = memory;
  dp_view method;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "method", &method));
  state->is_nearest = dp_view_equals(method, "nearest");
  if (!state->is_nearest && !dp_view_equals(method, "bilinear"))
    return DP_INVALID("method must be 'bilinear' or 'nearest'%.*s", (int)method.length,
                      method.data);
  if (dp_node_is(setup->node, "CropAndResize"))
    return dp_node_get_float(setup->node, "extrapolation_value", &state->extrapolation);
  return NULL;
}

/* What the op and its two gradients share: images, boxes and the crops' size. */
typedef struct crop_work {
  const crop_state *state;
  const dp_tensor *image; /* NULL for the image's gradient */
  const float *boxes;
  const int32_t *image_of_box;
  int64_t batch, height, width, depth;
  int64_t count, crop_height, crop_width;
  const float *gradients;
  float *to;
  float *pixels; /* of all images, as floats */
} crop_work;

static dp_status *read_boxes(const dp_tensor *boxes, const dp_tensor *indices, crop_work *work) {
  if (boxes->shape.rank != 2)
    return DP_INVALID("boxes must be 2-D%s", dp_shape_text(&boxes->shape));
  if (boxes->shape.dims[1] != 4)
    return DP_INVALID("boxes must have 4 columns");
  if (indices->shape.rank != 1)
    return DP_INVALID("box_index must be 1-D%s", dp_shape_text(&indices->shape));
  if (dp_tensor_elements(indices) != boxes->shape.dims[0])
    return DP_INVALID("box_index has incompatible shape");
  work->boxes = boxes->data;
  work->image_of_box = indices->data;
  work->count = boxes->shape.dims[0];
  return NULL;
}

static dp_status *check_box_images(const crop_work *work) {
  for (int64_t i = 0; i < work->count; ++i)
    if (work->image_of_box[i] < 0 || work->image_of_box[i] >= work->batch)
      return dp_status_create(DP_OUT_OF_RANGE, "box_index has values outside [0, batch_size)");
  return NULL;
}

static dp_status *read_image(const dp_tensor *image, crop_work *work) {
  if (image->shape.rank != 4)
    return DP_INVALID("input image must be 4-D%s", dp_shape_text(&image->shape));
  work->image = image;
  work->batch = image->shape.dims[0];
  work->height = image->shape.dims[1];
  work->width = image->shape.dims[2];
  work->depth = image->shape.dims[3];
  if (work->height <= 0 || work->width <= 0)
    return DP_INVALID("image dimensions must be positive");
  return NULL;
}

/* All images as floats: themselves when they are, else a copy that the caller frees. */
static dp_status *float_pixels(crop_work *work) {
  if (work->image->dtype == DP_FLOAT) {
    work->pixels = work->image->data;
    return NULL;
  }
  int64_t count = dp_tensor_elements(work->image);
  work->pixels = dp_image_scratch(count);
  if (!work->pixels)
    return dp_status_out_of_memory();
  dp_image_to_float(work->image->dtype, work->image->data, 0, work->pixels, count);
  return NULL;
}

static void free_pixels(crop_work *work) {
  if (work->image->dtype != DP_FLOAT)
    dp_free(work->pixels);
}

/* One coordinate of one pixel of a crop. */
typedef struct sample {
  bool inside;
  int64_t low, high, nearest;
  float part; /* weight of `high` */
} sample;

static sample sample_at(float begin, float end, int64_t place, int64_t crop, int64_t size) {
  float in = crop > 1 ? begin * (float)(size - 1) +
                            (float)place * ((end - begin) * (float)(size - 1) / (float)(crop - 1))
                      : (float)(0.5 * (begin + end) * (double)(size - 1));
  sample sample = {.inside = in >= 0 && in <= (float)(size - 1)};
  if (sample.inside) {
    sample.low = (int64_t)floorf(in);
    sample.high = (int64_t)ceilf(in);
    sample.nearest = (int64_t)roundf(in);
    sample.part = in - (float)sample.low;
  }
  return sample;
}

static sample row_sample(const crop_work *work, int64_t box, int64_t y) {
  const float *at = work->boxes + 4 * box;
  return sample_at(at[0], at[2], y, work->crop_height, work->height);
}
static sample column_sample(const crop_work *work, int64_t box, int64_t x) {
  const float *at = work->boxes + 4 * box;
  return sample_at(at[1], at[3], x, work->crop_width, work->width);
}

/* ---- Cropping ---- */
static void crop_pixel(const crop_work *work, const float *image, const sample *y, const sample *x,
                       float *to) {
  int64_t depth = work->depth, row = work->width * depth;
  if (!y->inside || !x->inside) {
    for (int64_t d = 0; d < depth; ++d)
      to[d] = work->state->extrapolation;
  } else if (work->state->is_nearest) {
    memcpy(to, image + y->nearest * row + x->nearest * depth, (size_t)depth * sizeof *to);
  } else {
    const float *top = image + y->low * row, *bottom = image + y->high * row;
    int64_t left = x->low * depth, right = x->high * depth;
    for (int64_t d = 0; d < depth; ++d) {
      float above = top[left + d] + (top[right + d] - top[left + d]) * x->part;
      float below = bottom[left + d] + (bottom[right + d] - bottom[left + d]) * x->part;
      to[d] = above + (below - above) * y->part;
    }
  }
}

static void crop_boxes(void *arg, int64_t begin, int64_t end) {
  const crop_work *work = arg;
  for (int64_t box = begin; box < end; ++box) {
    const float *image =
        work->pixels + work->image_of_box[box] * work->height * work->width * work->depth;
    float *to = work->to + box * work->crop_height * work->crop_width * work->depth;
    for (int64_t y = 0; y < work->crop_height; ++y) {
      sample row = row_sample(work, box, y);
      for (int64_t x = 0; x < work->crop_width; ++x, to += work->depth) {
        sample column = column_sample(work, box, x);
        crop_pixel(work, image, &row, &column, to);
      }
    }
  }
}

static dp_status *crop_compute(dp_op_context *context, void *state) {
  crop_work work = {.state = state};
  const dp_tensor *size = dp_op_input(context, 3);
  DP_RETURN_IF_ERROR(read_image(dp_op_input(context, 0), &work));
  DP_RETURN_IF_ERROR(read_boxes(dp_op_input(context, 1), dp_op_input(context, 2), &work));
  if (size->shape.rank != 1)
    return DP_INVALID("crop_size must be 1-D%s", dp_shape_text(&size->shape));
  if (dp_tensor_elements(size) != 2)
    return DP_INVALID("crop_size must have two elements%s", dp_shape_text(&size->shape));
  work.crop_height = dp_tensor_int_at(size, 0);
  work.crop_width = dp_tensor_int_at(size, 1);
  if (work.crop_height <= 0 || work.crop_width <= 0)
    return DP_INVALID("crop dimensions must be positive");
  dp_shape shape = {0};
  int64_t dims[4] = {work.count, work.crop_height, work.crop_width, work.depth};
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, &shape));
  DP_RETURN_IF_ERROR(check_box_images(&work));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  DP_RETURN_IF_ERROR(float_pixels(&work));
  work.to = output->data;
  dp_op_for(context, work.count, shape.elements / work.count * 2, crop_boxes, &work);
  free_pixels(&work);
  return NULL;
}

/* ---- Gradient of the image ---- */
static void spread_pixel(const crop_work *work, float *image, const sample *y, const sample *x,
                         const float *gradient) {
  int64_t depth = work->depth, row = work->width * depth;
  if (!y->inside || !x->inside)
    return;
  if (work->state->is_nearest) {
    float *to = image + y->nearest * row + x->nearest * depth;
    for (int64_t d = 0; d < depth; ++d)
      to[d] += gradient[d];
    return;
  }
  float *top = image + y->low * row, *bottom = image + y->high * row;
  int64_t left = x->low * depth, right = x->high * depth;
  for (int64_t d = 0; d < depth; ++d) {
    float above = (1 - y->part) * gradient[d], below = y->part * gradient[d];
    top[left + d] += (1 - x->part) * above;
    top[right + d] += x->part * above;
    bottom[left + d] += (1 - x->part) * below;
    bottom[right + d] += x->part * below;
  }
}

static dp_status *read_gradients(const dp_tensor *gradients, crop_work *work) {
  if (gradients->shape.rank != 4)
    return DP_INVALID("grads image must be 4-D%s", dp_shape_text(&gradients->shape));
  work->gradients = gradients->data;
  work->crop_height = gradients->shape.dims[1];
  work->crop_width = gradients->shape.dims[2];
  if (work->crop_height <= 0 || work->crop_width <= 0)
    return DP_INVALID("grads dimensions must be positive");
  return NULL;
}

static dp_status *read_image_size(const dp_tensor *size, crop_work *work) {
  if (size->shape.rank != 1)
    return DP_INVALID("image_size must be 1-D%s", dp_shape_text(&size->shape));
  if (dp_tensor_elements(size) != 4)
    return DP_INVALID("image_size must have 4 elements%s", dp_shape_text(&size->shape));
  work->batch = dp_tensor_int_at(size, 0);
  work->height = dp_tensor_int_at(size, 1);
  work->width = dp_tensor_int_at(size, 2);
  work->depth = dp_tensor_int_at(size, 3);
  if (work->height <= 0 || work->width <= 0)
    return DP_INVALID("image dimensions must be positive");
  return NULL;
}

static void spread_boxes(const crop_work *work) {
  const float *gradient = work->gradients;
  for (int64_t box = 0; box < work->count; ++box) {
    float *image = work->to + work->image_of_box[box] * work->height * work->width * work->depth;
    for (int64_t y = 0; y < work->crop_height; ++y) {
      sample row = row_sample(work, box, y);
      for (int64_t x = 0; x < work->crop_width; ++x, gradient += work->depth) {
        sample column = column_sample(work, box, x);
        spread_pixel(work, image, &row, &column, gradient);
      }
    }
  }
}

static dp_status *image_gradient_compute(dp_op_context *context, void *state) {
  crop_work work = {.state = state};
  const dp_tensor *gradients = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(read_gradients(gradients, &work));
  DP_RETURN_IF_ERROR(read_boxes(dp_op_input(context, 1), dp_op_input(context, 2), &work));
  if (gradients->shape.dims[0] != work.count)
    return DP_INVALID("boxes and grads have incompatible shape");
  DP_RETURN_IF_ERROR(read_image_size(dp_op_input(context, 3), &work));
  if (gradients->shape.dims[3] != work.depth)
    return DP_INVALID("image_size and grads are incompatible");
  DP_RETURN_IF_ERROR(check_box_images(&work));
  dp_shape shape = {0};
  int64_t dims[4] = {work.batch, work.height, work.width, work.depth};
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  bool direct = output->dtype == DP_FLOAT;
  work.to = direct ? output->data : dp_image_scratch(shape.elements);
  if (!work.to)
    return dp_status_out_of_memory();
  memset(work.to, 0, (size_t)shape.elements * sizeof(float));
  spread_boxes(&work);
  if (!direct) {
    dp_image_from_float(output->dtype, work.to, output->data, 0, shape.elements);
    dp_free(work.to);
  }
  return NULL;
}

/* ---- Gradient of the boxes ---- */
/* Sums of d(crop)/dy and d(crop)/dx times the gradient, over the channels of one place. */
static void slope_at(const crop_work *work, const float *image, const sample *y, const sample *x,
                     const float *gradient, float *dy, float *dx) {
  int64_t depth = work->depth, row = work->width * depth;
  const float *top = image + y->low * row, *bottom = image + y->high * row;
  int64_t left = x->low * depth, right = x->high * depth;
  *dy = *dx = 0;
  for (int64_t d = 0; d < depth; ++d) {
    *dy += gradient[d] * ((1 - x->part) * (bottom[left + d] - top[left + d]) +
                          x->part * (bottom[right + d] - top[right + d]));
    *dx += gradient[d] * ((1 - y->part) * (top[right + d] - top[left + d]) +
                          y->part * (bottom[right + d] - bottom[left + d]));
  }
}

/* How much the beginning and the end of a box move the position: shares that add up to size - 1. */
static float end_share(int64_t place, int64_t crop, int64_t size) {
  return crop > 1 ? (float)place * ((float)(size - 1) / (float)(crop - 1))
                  : 0.5f * (float)(size - 1);
}

static void slope_boxes(void *arg, int64_t begin, int64_t end) {
  const crop_work *work = arg;
  for (int64_t box = begin; box < end; ++box) {
    const float *image =
        work->pixels + work->image_of_box[box] * work->height * work->width * work->depth;
    const float *gradient =
        work->gradients + box * work->crop_height * work->crop_width * work->depth;
    float *to = work->to + 4 * box;
    for (int64_t y = 0; y < work->crop_height; ++y) {
      sample row = row_sample(work, box, y);
      float y_share = end_share(y, work->crop_height, work->height);
      for (int64_t x = 0; x < work->crop_width; ++x, gradient += work->depth) {
        sample column = column_sample(work, box, x);
        if (!row.inside || !column.inside)
          continue;
        float dy, dx, x_share = end_share(x, work->crop_width, work->width);
        slope_at(work, image, &row, &column, gradient, &dy, &dx);
        to[0] += dy * ((float)(work->height - 1) - y_share);
        to[1] += dx * ((float)(work->width - 1) - x_share);
        to[2] += dy * y_share;
        to[3] += dx * x_share;
      }
    }
  }
}

static dp_status *box_gradient_compute(dp_op_context *context, void *state) {
  crop_work work = {.state = state};
  const dp_tensor *gradients = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(read_gradients(gradients, &work));
  DP_RETURN_IF_ERROR(read_image(dp_op_input(context, 1), &work));
  if (gradients->shape.dims[3] != work.depth)
    return DP_INVALID("image, grads depth differ");
  DP_RETURN_IF_ERROR(read_boxes(dp_op_input(context, 2), dp_op_input(context, 3), &work));
  if (gradients->shape.dims[0] != work.count)
    return DP_INVALID("boxes and grads have incompatible shape");
  DP_RETURN_IF_ERROR(check_box_images(&work));
  dp_shape shape = dp_shape_matrix(work.count, 4);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  if (work.count == 0 || work.depth == 0)
    return NULL;
  DP_RETURN_IF_ERROR(float_pixels(&work));
  work.to = output->data;
  dp_op_for(context, work.count, gradients->shape.elements / work.count * 4, slope_boxes, &work);
  free_pixels(&work);
  return NULL;
}

#define CROP(name, set, body)                                                                      \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(crop_state), .create = crop_create,    \
    .compute = body                                                                                \
  }
static const dp_kernel rows[] = {
    CROP("CropAndResize", DP_SET_REALS, crop_compute),
    CROP("CropAndResizeGradImage", DP_SET_FLOATS, image_gradient_compute),
    CROP("CropAndResizeGradBoxes", DP_SET_REALS, box_gradient_compute),
};
DP_KERNEL_FAMILY(image_crop, rows);
