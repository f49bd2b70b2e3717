/* Resizing of images: bilinear, bicubic, area and nearest neighbour, with gradients.
 *
 * The first three are separable: a row of the result is a weighted sum of rows of the image, and a
 * pixel is a weighted sum of pixels in that row. Indices and weights (the taps) are computed once
 * per dimension. So one loop serves all three methods, and the gradients use the same taps in
 * reverse. Rows are split over the pool. */
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/combine.h"
#include "kernels/shared/family.h"
#include "kernels/shared/pixels.h"

typedef enum method { BILINEAR, BICUBIC, AREA, NEAREST } method;

typedef struct resize_state {
  method method;
  bool align_corners, half_pixel_centers;
  dp_combine add; /* for the gradient of nearest */
} resize_state;

static dp_status *resize_create(const dp_kernel_setup *setup, void *memory) {
  resize_state *state = memory;
  const char *op = setup->node->op->name + strlen("Resize");
  state->method = strncmp(op, "Bilinear", 8) == 0  ? BILINEAR
                  : strncmp(op, "Bicubic", 7) == 0 ? BICUBIC
                  : strncmp(op, "Area", 4) == 0    ? AREA
                                                   : NEAREST;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "align_corners", &state->align_corners));
  if (state->method != AREA)
    DP_RETURN_IF_ERROR(
        dp_node_get_bool(setup->node, "half_pixel_centers", &state->half_pixel_centers));
  if (dp_node_is(setup->node, "ResizeNearestNeighborGrad")) {
    dp_dtype dtype;
    DP_RETURN_IF_ERROR(dp_kernel_type(setup, "T", &dtype));
    return dp_combine_init(&state->add, DP_COMBINE_ADD, dtype);
  }
  return NULL;
}

/* ---- Taps ---- */
typedef struct taps {
  int64_t *first; /* the first tap of each position of the result, plus the end */
  int64_t *index;
  float *weight;
} taps;

static void taps_deinit(taps *taps) {
  dp_free(taps->first);
  dp_free(taps->index);
  dp_free(taps->weight);
}

static int64_t bound(int64_t value, int64_t limit) {
  return value < 0 ? 0 : value >= limit ? limit - 1 : value;
}

static float place_of(const resize_state *state, int64_t place, float scale) {
  return state->half_pixel_centers ? ((float)place + 0.5f) * scale - 0.5f : (float)place * scale;
}

static void bilinear_taps(const resize_state *state, int64_t place, int64_t size, float scale,
                          taps *taps, int64_t at) {
  float in = place_of(state, place, scale), floor = floorf(in);
  int64_t upper = (int64_t)ceilf(in);
  taps->index[at] = bound((int64_t)floor, size);
  taps->index[at + 1] = bound(upper, size);
  taps->weight[at + 1] = in - floor;
  taps->weight[at] = 1.0f - taps->weight[at + 1];
}

#define CUBIC_TABLE 1024
/* The cubic at a distance of x from 0 to 1, and of 1 + x. */
static float cubic_near(float x, double a) {
  return (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}
static float cubic_far(float x, double a) {
  x += 1.0f;
  return (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}

static void bicubic_taps(const resize_state *state, int64_t place, int64_t size, float scale,
                         taps *taps, int64_t at) {
  double a = state->half_pixel_centers ? -0.5 : -0.75;
  float in = place_of(state, place, scale);
  int64_t base = (int64_t)floorf(in);
  int64_t step = lrintf((in - (float)base) * CUBIC_TABLE); /* weights have this resolution */
  float x = (float)step / CUBIC_TABLE, rest = (float)(CUBIC_TABLE - step) / CUBIC_TABLE;
  float weights[4] = {cubic_far(x, a), cubic_near(x, a), cubic_near(rest, a), cubic_far(rest, a)};
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    int64_t index = base - 1 + i;
    taps->index[at + i] = bound(index, size);
    /* With half pixels, positions outside the image have no weight. */
    if (state->half_pixel_centers && taps->index[at + i] != index)
      weights[i] = 0;
    sum += weights[i];
  }
  bool normalizes = state->half_pixel_centers && fabsf(sum) >= 1000.0f * FLT_MIN;
  for (int i = 0; i < 4; ++i)
    taps->weight[at + i] = normalizes ? weights[i] * (1.0f / sum) : weights[i];
}

static int64_t area_taps(int64_t place, int64_t size, float scale, taps *taps, int64_t at) {
  float begin = (float)place * scale, end = (float)(place + 1) * scale;
  int64_t first = (int64_t)floorf(begin), last = (int64_t)ceilf(end), count = 0;
  for (int64_t i = first; i < last; ++i, ++count) {
    if (!taps->index)
      continue;
    float part = (float)i < begin ? ((float)(i + 1) > end ? scale : (float)(i + 1) - begin)
                                  : ((float)(i + 1) > end ? end - (float)i : 1.0f);
    taps->index[at + count] = bound(i, size);
    taps->weight[at + count] = part / scale;
  }
  return count;
}

static dp_status *taps_init(taps *taps, const resize_state *state, int64_t from, int64_t to) {
  float scale = dp_image_scale(from, to, state->align_corners);
  *taps = (struct taps){0};
  taps->first = dp_try_malloc((size_t)(to + 1) * sizeof(int64_t));
  if (!taps->first)
    return dp_status_out_of_memory();
  int64_t total = 0;
  for (int64_t i = 0; i < to; ++i) {
    taps->first[i] = total;
    total += state->method == BILINEAR  ? 2
             : state->method == BICUBIC ? 4
                                        : area_taps(i, from, scale, taps, 0);
  }
  taps->first[to] = total;
  int64_t *index = dp_try_malloc((size_t)(total + 1) * sizeof(int64_t));
  taps->weight = dp_try_malloc((size_t)(total + 1) * sizeof(float));
  taps->index = index;
  if (!taps->weight || !index) {
    taps_deinit(taps);
    return dp_status_out_of_memory();
  }
  for (int64_t i = 0; i < to; ++i) {
    if (state->method == BILINEAR)
      bilinear_taps(state, i, from, scale, taps, taps->first[i]);
    else if (state->method == BICUBIC)
      bicubic_taps(state, i, from, scale, taps, taps->first[i]);
    else
      area_taps(i, from, scale, taps, taps->first[i]);
  }
  return NULL;
}

/* ---- Sizes ---- */
typedef dp_image_sizes sizes;

static dp_status *check_centers(const resize_state *state) {
  if (state->half_pixel_centers && state->align_corners)
    return DP_INVALID("If half_pixel_centers is True, align_corners must be False.");
  return NULL;
}

static dp_status *read_sizes(dp_op_context *context, const resize_state *state, sizes *sizes) {
  DP_RETURN_IF_ERROR(check_centers(state));
  return dp_image_read_sizes(context, sizes);
}

static dp_status *output_image(dp_op_context *context, const sizes *sizes, int64_t height,
                               int64_t width, dp_tensor **output_out) {
  int64_t dims[4] = {sizes->batch, height, width, sizes->channels};
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, &shape));
  return dp_op_allocate(context, 0, &shape, output_out);
}

/* ---- Sums of taps ---- */
typedef struct resize_work {
  const resize_state *state;
  const dp_tensor *image;
  dp_tensor *output;
  sizes sizes;
  taps rows, columns;
  float *sums; /* gradients: the result in float */
  atomic_bool failed;
} resize_work;

/* Row `y` of the result before it is resized in width: a weighted sum of rows of the image. */
static void sum_rows(const resize_work *work, int64_t image, int64_t y, float *sum, float *row) {
  int64_t width = work->sizes.width * work->sizes.channels;
  int64_t begin = work->rows.first[y], end = work->rows.first[y + 1];
  for (int64_t tap = begin; tap < end; ++tap) {
    float weight = work->rows.weight[tap];
    dp_image_to_float(work->image->dtype, work->image->data,
                      (image * work->sizes.height + work->rows.index[tap]) * width, row, width);
    if (tap == begin)
      for (int64_t i = 0; i < width; ++i)
        sum[i] = row[i] * weight;
    else
      for (int64_t i = 0; i < width; ++i)
        sum[i] += row[i] * weight;
  }
}

static void sum_columns(const resize_work *work, const float *row, float *to) {
  int64_t channels = work->sizes.channels;
  for (int64_t x = 0; x < work->sizes.to_width; ++x, to += channels) {
    for (int64_t c = 0; c < channels; ++c)
      to[c] = 0;
    for (int64_t tap = work->columns.first[x]; tap < work->columns.first[x + 1]; ++tap) {
      const float *from = row + work->columns.index[tap] * channels;
      float weight = work->columns.weight[tap];
      for (int64_t c = 0; c < channels; ++c)
        to[c] += from[c] * weight;
    }
  }
}

static void resize_rows(void *arg, int64_t begin, int64_t end) {
  resize_work *work = arg;
  int64_t width = work->sizes.width * work->sizes.channels;
  float *scratch = dp_image_scratch(2 * width);
  if (!scratch) {
    atomic_store(&work->failed, true);
    return;
  }
  for (int64_t i = begin; i < end; ++i) {
    sum_rows(work, i / work->sizes.to_height, i % work->sizes.to_height, scratch, scratch + width);
    sum_columns(work, scratch,
                (float *)work->output->data + i * work->sizes.to_width * work->sizes.channels);
  }
  dp_free(scratch);
}

static void convert_image(void *arg, int64_t begin, int64_t end) {
  resize_work *work = arg;
  dp_image_to_float(work->image->dtype, work->image->data, begin,
                    (float *)work->output->data + begin, end - begin);
}

static dp_status *make_taps(resize_work *work) {
  const sizes *sizes = &work->sizes;
  DP_RETURN_IF_ERROR(taps_init(&work->rows, work->state, sizes->height, sizes->to_height));
  dp_status *status = taps_init(&work->columns, work->state, sizes->width, sizes->to_width);
  if (status)
    taps_deinit(&work->rows);
  return status;
}

static dp_status *resize_compute(dp_op_context *context, void *state) {
  resize_work work = {.state = state, .image = dp_op_input(context, 0)};
  DP_RETURN_IF_ERROR(read_sizes(context, state, &work.sizes));
  const sizes *sizes = &work.sizes;
  DP_RETURN_IF_ERROR(output_image(context, sizes, sizes->to_height, sizes->to_width, &work.output));
  if (work.output->shape.elements == 0)
    return NULL;
  if (work.state->method == BILINEAR && sizes->height == sizes->to_height &&
      sizes->width == sizes->to_width) {
    dp_kernel_for(context, work.output->shape.elements, 500, convert_image, &work);
    return NULL;
  }
  DP_RETURN_IF_ERROR(make_taps(&work));
  dp_op_for(context, sizes->batch * sizes->to_height,
            2 * (sizes->width + sizes->to_width) * sizes->channels, resize_rows, &work);
  taps_deinit(&work.rows);
  taps_deinit(&work.columns);
  return atomic_load(&work.failed) ? dp_status_out_of_memory() : NULL;
}

/* ---- Gradients of sums ---- */
/* Whole images: rows of one add to each other's pixels. */
static void spread_images(void *arg, int64_t begin, int64_t end) {
  resize_work *work = arg;
  const sizes *sizes = &work->sizes;
  int64_t channels = sizes->channels, area = sizes->height * sizes->width * channels;
  for (int64_t image = begin; image < end; ++image) {
    float *sums = work->sums + image * area;
    const float *from =
        (const float *)work->image->data + image * sizes->to_height * sizes->to_width * channels;
    memset(sums, 0, (size_t)area * sizeof *sums);
    for (int64_t y = 0; y < sizes->to_height; ++y)
      for (int64_t row = work->rows.first[y]; row < work->rows.first[y + 1]; ++row) {
        float *line = sums + work->rows.index[row] * sizes->width * channels;
        for (int64_t x = 0; x < sizes->to_width; ++x)
          for (int64_t tap = work->columns.first[x]; tap < work->columns.first[x + 1]; ++tap) {
            float weight = work->rows.weight[row] * work->columns.weight[tap];
            float *to = line + work->columns.index[tap] * channels;
            const float *at = from + (y * sizes->to_width + x) * channels;
            for (int64_t c = 0; c < channels; ++c)
              to[c] += at[c] * weight;
          }
      }
  }
}

static dp_status *check_gradient(const resize_state *state, const dp_shape *gradient,
                                 const dp_shape *image, sizes *sizes) {
  DP_RETURN_IF_ERROR(check_centers(state));
  if (gradient->rank != 4)
    return DP_INVALID("input_grad must be 4-dimensional%s", dp_shape_text(gradient));
  if (image->rank != 4)
    return DP_INVALID("original_image must be 4-dimensional%s", dp_shape_text(image));
  if (gradient->dims[1] <= 0 || gradient->dims[2] <= 0)
    return DP_INVALID("resized dimensions must be positive");
  if (image->dims[1] <= 0 || image->dims[2] <= 0)
    return DP_INVALID("original dimensions must be positive");
  *sizes = (dp_image_sizes){gradient->dims[0], image->dims[1],    image->dims[2],
                            gradient->dims[3], gradient->dims[1], gradient->dims[2]};
  return NULL;
}

static dp_status *gradient_compute(dp_op_context *context, void *state) {
  resize_work work = {.state = state, .image = dp_op_input(context, 0)};
  DP_RETURN_IF_ERROR(
      check_gradient(state, &work.image->shape, &dp_op_input(context, 1)->shape, &work.sizes));
  const sizes *sizes = &work.sizes;
  DP_RETURN_IF_ERROR(output_image(context, sizes, sizes->height, sizes->width, &work.output));
  int64_t elements = work.output->shape.elements;
  if (elements == 0)
    return NULL;
  bool direct = work.output->dtype == DP_FLOAT;
  work.sums = direct ? work.output->data : dp_image_scratch(elements);
  if (!work.sums)
    return dp_status_out_of_memory();
  dp_status *status = make_taps(&work);
  if (!status) {
    dp_op_for(context, sizes->batch, elements / sizes->batch * 4, spread_images, &work);
    taps_deinit(&work.rows);
    taps_deinit(&work.columns);
  }
  if (!direct) {
    dp_image_from_float(work.output->dtype, work.sums, work.output->data, 0, elements);
    dp_free(work.sums);
  }
  return status;
}

/* ---- Nearest neighbour ---- */
static int64_t nearest(const resize_state *state, int64_t place, float scale, int64_t size) {
  float in = state->half_pixel_centers ? ((float)place + 0.5f) * scale : (float)place * scale;
  return bound((int64_t)(state->align_corners ? roundf(in) : floorf(in)), size);
}

typedef struct nearest_work {
  const resize_state *state;
  const char *from;
  char *to;
  sizes sizes;
  const int64_t *columns;
  float scale;
  size_t pixel;
} nearest_work;

static void nearest_rows(void *arg, int64_t begin, int64_t end) {
  const nearest_work *work = arg;
  const sizes *sizes = &work->sizes;
  size_t pixel = work->pixel;
  for (int64_t i = begin; i < end; ++i) {
    int64_t y = nearest(work->state, i % sizes->to_height, work->scale, sizes->height);
    const char *row =
        work->from + (size_t)((i / sizes->to_height * sizes->height + y) * sizes->width) * pixel;
    char *to = work->to + (size_t)(i * sizes->to_width) * pixel;
    for (int64_t x = 0; x < sizes->to_width; ++x, to += pixel)
      memcpy(to, row + (size_t)work->columns[x] * pixel, pixel);
  }
}

static int64_t *nearest_columns(const resize_state *state, int64_t from, int64_t to) {
  int64_t *columns = dp_try_malloc((size_t)(to + 1) * sizeof *columns);
  float scale = dp_image_scale(from, to, state->align_corners);
  for (int64_t x = 0; columns && x < to; ++x)
    columns[x] = nearest(state, x, scale, from);
  return columns;
}

static dp_status *nearest_compute(dp_op_context *context, void *state) {
  nearest_work work = {.state = state, .from = dp_op_input(context, 0)->data};
  DP_RETURN_IF_ERROR(read_sizes(context, state, &work.sizes));
  const sizes *sizes = &work.sizes;
  if (sizes->height >= 1 << 24 || sizes->width >= 1 << 24)
    return DP_INVALID("nearest neighbor requires max height & width of 2^24");
  dp_tensor *output;
  DP_RETURN_IF_ERROR(output_image(context, sizes, sizes->to_height, sizes->to_width, &output));
  if (output->shape.elements == 0)
    return NULL;
  int64_t *columns = nearest_columns(state, sizes->width, sizes->to_width);
  if (!columns)
    return dp_status_out_of_memory();
  work.to = output->data;
  work.columns = columns;
  work.scale = dp_image_scale(sizes->height, sizes->to_height, work.state->align_corners);
  work.pixel = (size_t)sizes->channels * dp_dtype_size(output->dtype);
  dp_op_for(context, sizes->batch * sizes->to_height,
            sizes->to_width * ((int64_t)work.pixel / 8 + 2), nearest_rows, &work);
  dp_free(columns);
  return NULL;
}

static dp_status *nearest_gradient_compute(dp_op_context *context, void *memory) {
  const resize_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  sizes sizes = {0};
  if (input->shape.rank != 4)
    return DP_INVALID("input must be 4-dimensional%s", dp_shape_text(&input->shape));
  DP_RETURN_IF_ERROR(dp_image_read_size(dp_op_input(context, 1), &sizes.height, &sizes.width));
  if (sizes.height <= 0 || sizes.width <= 0)
    return DP_INVALID("shape_t's elements must be positive");
  sizes.batch = input->shape.dims[0];
  sizes.channels = input->shape.dims[3];
  sizes.to_height = input->shape.dims[1];
  sizes.to_width = input->shape.dims[2];
  dp_tensor *output;
  DP_RETURN_IF_ERROR(output_image(context, &sizes, sizes.height, sizes.width, &output));
  if (output->shape.elements == 0)
    return NULL;
  int64_t *columns = nearest_columns(state, sizes.width, sizes.to_width);
  if (!columns)
    return dp_status_out_of_memory();
  memset(output->data, 0, dp_tensor_bytes(output));
  float scale = dp_image_scale(sizes.height, sizes.to_height, state->align_corners);
  size_t pixel = (size_t)sizes.channels * state->add.size;
  const char *from = input->data;
  for (int64_t b = 0; b < sizes.batch; ++b)
    for (int64_t y = 0; y < sizes.to_height; ++y) {
      char *row =
          (char *)output->data +
          (size_t)((b * sizes.height + nearest(state, y, scale, sizes.height)) * sizes.width) *
              pixel;
      for (int64_t x = 0; x < sizes.to_width; ++x, from += pixel)
        dp_status_release(
            dp_combine_run(&state->add, row + (size_t)columns[x] * pixel, from, sizes.channels));
    }
  dp_free(columns);
  return NULL;
}

#define RESIZE(name, set, body)                                                                    \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(resize_state),                         \
    .create = resize_create, .compute = body                                                       \
  }
static const dp_kernel rows[] = {
    RESIZE("ResizeBilinear", DP_SET_REALS, resize_compute),
    RESIZE("ResizeBicubic", DP_SET_REALS, resize_compute),
    RESIZE("ResizeArea", DP_SET_REALS, resize_compute),
    RESIZE("ResizeNearestNeighbor", DP_SET_REALS, nearest_compute),
    RESIZE("ResizeBilinearGrad", DP_SET_FLOATS, gradient_compute),
    RESIZE("ResizeBicubicGrad", DP_SET_FLOATS, gradient_compute),
    RESIZE("ResizeNearestNeighborGrad", DP_SET_REALS, nearest_gradient_compute),
};
DP_KERNEL_FAMILY(image_resize, rows);
