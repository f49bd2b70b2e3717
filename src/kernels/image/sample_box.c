/* SampleDistortedBoundingBox: a random crop of an image that covers enough of some box in it.
 *
 * Crops are tried until one fits, each with a random aspect ratio, size and place; when none does,
 * the crop is the whole image. The numbers that are drawn, and their order, are TensorFlow's. */
#include "kernels/shared/family.h"

#include <math.h>
#include "base/memory.h"
#include "kernels/shared/random.h"

typedef struct sample_state {
  dp_random_source source;
  float covered; /* of the op's first version; later ones have an input */
  float aspects[2], areas[2];
  int64_t attempts;
  bool takes_image, has_input;
} sample_state;

static dp_status *read_range(const dp_node *node, const char *name, const char *what,
                             float *range_out) {
  const dp_attr *list;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_FLOAT, &list));
  if (list->count != 2)
    return DP_INVALID("%s range field must specify 2 dimensions", what);
  for (int i = 0; i < 2; ++i)
    range_out[i] = list->numbers[i];
  if (!(range_out[0] > 0 && range_out[1] > 0))
    return DP_INVALID("%s range must be non-negative: [%g, %g]", what, (double)range_out[0],
                      (double)range_out[1]);
  return NULL;
}

static dp_status *check_covered(float covered) {
  if (!(covered >= 0))
    return DP_INVALID("Min object covered must be non-negative: %g", (double)covered);
  return NULL;
}

static dp_status *sample_create(const dp_kernel_setup *setup, void *memory) {
  sample_state *state = memory;
  const dp_node *node = setup->node;
  state->has_input = dp_node_attr(node, "min_object_covered") == NULL;
  if (!state->has_input) {
    DP_RETURN_IF_ERROR(dp_node_get_float(node, "min_object_covered", &state->covered));
    DP_RETURN_IF_ERROR(check_covered(state->covered));
  }
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "use_image_if_no_bounding_boxes", &state->takes_image));
  DP_RETURN_IF_ERROR(read_range(node, "aspect_ratio_range", "Aspect ratio", state->aspects));
  DP_RETURN_IF_ERROR(read_range(node, "area_range", "Area", state->areas));
  if (!(state->areas[0] <= 1 && state->areas[1] <= 1))
    return DP_INVALID("Area range must be less then or equal to 1.0: [%g, %g]",
                      (double)state->areas[0], (double)state->areas[1]);
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "max_attempts", &state->attempts));
  if (state->attempts <= 0)
    return DP_INVALID("Max attempts must be non-negative: %lld", (long long)state->attempts);
  return dp_random_source_init(&state->source, setup);
}

static void sample_destroy(void *memory) {
  dp_random_source_deinit(&((sample_state *)memory)->source);
}

/* ---- Rectangles ---- */
typedef struct rectangle {
  int32_t left, top, right, bottom;
} rectangle;

static float area_of(rectangle r) {
  return (float)((r.right - r.left) * (r.bottom - r.top));
}

static float shared_area(rectangle a, rectangle b) {
  rectangle both = {a.left > b.left ? a.left : b.left, a.top > b.top ? a.top : b.top,
                    a.right < b.right ? a.right : b.right,
                    a.bottom < b.bottom ? a.bottom : b.bottom};
  return both.left > both.right || both.top > both.bottom ? 0 : area_of(both);
}

/* Boxes of less than a pixel do not count. */
static bool covers_enough(rectangle crop, float covered, const rectangle *boxes, int64_t count) {
  if (area_of(crop) < 1)
    return false;
  for (int64_t i = 0; i < count; ++i) {
    float area = area_of(boxes[i]);
    if (area >= 1 && shared_area(crop, boxes[i]) / area >= covered)
      return true;
  }
  return false;
}

/* ---- One attempt ---- */
static int32_t width_of(int32_t height, float aspect) {
  return (int32_t)lrintf((float)height * aspect);
}

/* The largest height whose width is inside the image. */
static int32_t largest_height(int32_t width, int32_t height, float area, float aspect) {
  int32_t largest = (int32_t)lrintf(sqrtf(area / aspect));
  if (width_of(largest, aspect) > width) {
    largest = (int32_t)((width + 0.5 - (double)0.0000001f) / (double)aspect);
    if (width_of(largest, aspect) > width)
      --largest;
  }
  return largest < height ? largest : height;
}

static bool draw_crop(const sample_state *state, int32_t width, int32_t height, float aspect,
                      dp_random_words *words, rectangle *crop) {
  if (aspect <= 0 || width <= 0 || height <= 0 || state->areas[0] > state->areas[1])
    return false;
  float least = state->areas[0] * (float)width * (float)height;
  float most = state->areas[1] * (float)width * (float)height;
  int32_t tall = (int32_t)lrintf(sqrtf(least / aspect));
  int32_t tallest = largest_height(width, height, most, aspect);
  if (tall >= tallest)
    tall = tallest;
  else
    tall += (int32_t)dp_random_below(words, (uint32_t)(tallest - tall) + 1);
  int32_t wide = width_of(tall, aspect);
  float area = (float)(wide * tall);
  if (area < least) { /* rounding may be to blame: one pixel more, then one less */
    wide = width_of(++tall, aspect);
    area = (float)(wide * tall);
  }
  if (area > most) {
    wide = width_of(--tall, aspect);
    area = (float)(wide * tall);
  }
  if (area < least || area > most || wide > width || tall > height || wide <= 0 || tall <= 0)
    return false;
  int32_t top = tall < height ? (int32_t)dp_random_below(words, (uint32_t)(height - tall)) : 0;
  int32_t left = wide < width ? (int32_t)dp_random_below(words, (uint32_t)(width - wide)) : 0;
  *crop = (rectangle){left, top, left + wide, top + tall};
  return true;
}

static rectangle find_crop(const sample_state *state, rectangle image, float covered,
                           const rectangle *boxes, int64_t count, const dp_philox *generator) {
  dp_random_words words = dp_random_words_of(generator);
  for (int64_t i = 0; i < state->attempts; ++i) {
    rectangle crop;
    float aspect =
        dp_philox_float(dp_random_word(&words)) * (state->aspects[1] - state->aspects[0]) +
        state->aspects[0];
    if (draw_crop(state, image.right, image.bottom, aspect, &words, &crop) &&
        covers_enough(crop, covered, boxes, count))
      return crop;
  }
  return image;
}

/* ---- The op ---- */
static dp_status *read_image(const dp_tensor *size, rectangle *image_out) {
  if (size->shape.rank != 1)
    return DP_INVALID("image_size must be 1-dimensional%s", dp_shape_text(&size->shape));
  if (size->shape.dims[0] != 3)
    return DP_INVALID("image_size must contain 3 elements%s", dp_shape_text(&size->shape));
  int64_t height = dp_tensor_int_at(size, 0), width = dp_tensor_int_at(size, 1);
  if (height < 0 || height >= INT32_MAX)
    return DP_INVALID("image height cannot be >= int32 max");
  if (width < 0 || width >= INT32_MAX)
    return DP_INVALID("image width cannot be >= int32 max");
  *image_out = (rectangle){0, 0, (int32_t)width, (int32_t)height};
  return NULL;
}

static dp_status *read_boxes(const dp_tensor *tensor, rectangle image, rectangle *boxes) {
  const float *values = tensor->data;
  for (int64_t i = 0; i < tensor->shape.elements; i += 4) {
    for (int k = 0; k < 4; ++k)
      if (!(values[i + k] >= 0 && values[i + k] <= 1))
        return DP_INVALID("All bounding box coordinates must be in [0.0, 1.0]: %g",
                          (double)values[i + k]);
    float width = (float)image.right, height = (float)image.bottom;
    boxes[i / 4] = (rectangle){(int32_t)(values[i + 1] * width), (int32_t)(values[i] * height),
                               (int32_t)(values[i + 3] * width), (int32_t)(values[i + 2] * height)};
  }
  return NULL;
}

static void store_int(dp_tensor *tensor, int64_t index, int64_t value) {
  size_t size = dp_dtype_size(tensor->dtype);
  char *to = (char *)tensor->data + (size_t)index * size;
  switch (size) {
  case 1:
    *(int8_t *)to = (int8_t)value;
    return;
  case 2:
    *(int16_t *)to = (int16_t)value;
    return;
  case 4:
    *(int32_t *)to = (int32_t)value;
    return;
  default:
    *(int64_t *)to = value;
  }
}

static dp_status *write_crop(dp_op_context *context, rectangle image, rectangle crop) {
  dp_shape vector = dp_shape_vector(3), one = dp_shape_of(3, (int64_t[]){1, 1, 4});
  dp_tensor *begin, *size, *box;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &vector, &begin));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &vector, &size));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &one, &box));
  int64_t begins[3] = {crop.top, crop.left, 0};
  int64_t sizes[3] = {crop.bottom - crop.top, crop.right - crop.left, -1};
  for (int i = 0; i < 3; ++i) {
    store_int(begin, i, begins[i]);
    store_int(size, i, sizes[i]);
  }
  float *values = box->data, width = (float)image.right, height = (float)image.bottom;
  values[0] = (float)crop.top / height;
  values[1] = (float)crop.left / width;
  values[2] = (float)crop.bottom / height;
  values[3] = (float)crop.right / width;
  return NULL;
}

static dp_status *sample(dp_op_context *context, sample_state *state, rectangle image,
                         float covered, rectangle *boxes) {
  const dp_tensor *given = dp_op_input(context, 1);
  int64_t count = given->shape.elements / 4;
  DP_RETURN_IF_ERROR(read_boxes(given, image, boxes));
  if (count == 0) {
    if (!state->takes_image)
      return DP_INVALID("No bounding boxes provided as input. One must enable "
                        "use_image_if_no_bounding_boxes if you wish to not provide any bounding "
                        "boxes.");
    boxes[count++] = image;
  }
  dp_philox generator;
  DP_RETURN_IF_ERROR(
      dp_random_source_take(context, &state->source, (uint64_t)state->attempts, &generator));
  return write_crop(context, image, find_crop(state, image, covered, boxes, count, &generator));
}

static dp_status *sample_compute(dp_op_context *context, void *memory) {
  sample_state *state = memory;
  const dp_tensor *boxes = dp_op_input(context, 1);
  rectangle image;
  float covered = state->covered;
  DP_RETURN_IF_ERROR(read_image(dp_op_input(context, 0), &image));
  if (boxes->shape.rank != 3)
    return DP_INVALID("input boxes must be 3-dimensional [batch, num_boxes, coords]: %s",
                      dp_shape_text(&boxes->shape));
  if (boxes->shape.dims[2] != 4)
    return DP_INVALID("bounding boxes must have shape [4] or [*, 4], got %s",
                      dp_shape_text(&boxes->shape));
  if (state->has_input) {
    const dp_tensor *least = dp_op_input(context, 2);
    if (least->shape.rank != 0)
      return DP_INVALID("min_object_covered must be 0-D, got shape %s",
                        dp_shape_text(&least->shape));
    covered = *(const float *)least->data;
    DP_RETURN_IF_ERROR(check_covered(covered));
  }
  DP_RETURN_IF_ERROR(dp_random_source_check(context, &state->source));
  rectangle *list = dp_try_malloc((size_t)(boxes->shape.elements / 4 + 1) * sizeof *list);
  if (!list)
    return dp_status_out_of_memory();
  dp_status *status = sample(context, state, image, covered, list);
  dp_free(list);
  return status;
}

#define ROW(name)                                                                                  \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_INTEGERS}}, .state_size = sizeof(sample_state),             \
    .create = sample_create, .compute = sample_compute, .destroy = sample_destroy                  \
  }
static const dp_kernel rows[] = {
    ROW("SampleDistortedBoundingBox"),
    ROW("SampleDistortedBoundingBoxV2"),
    ROW("StatelessSampleDistortedBoundingBox"),
};
DP_KERNEL_FAMILY(image_sample_box, rows);
