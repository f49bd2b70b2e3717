/* ScaleAndTranslate and its gradient: resampling with one of eight filters.
 *
 * The filter is separable: each row and each column of the output has a span of inputs with
 * weights. First an output row is the weighted sum of input rows; then each of its pixels is the
 * weighted sum of a span of columns. The gradient uses reversed spans: for each input, the outputs
 * that used it. Output rows are split over the pool. */
#include "kernels/shared/family.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/pixels.h"

/* ---- Filters: of a distance x >= 0 ---- */
typedef struct filter {
  const char *name;
  float radius;
  float (*weight)(float x, float radius);
} filter;

static float lanczos(float x, float radius) {
  const float pi = 3.14159265359f;
  if (x > radius)
    return 0;
  if (x <= 1e-3f)
    return 1;
  return radius * sinf(pi * x) * sinf(pi * x / radius) / (pi * pi * x * x);
}

static float gaussian(float x, float radius) {
  float sigma = radius / 3;
  return x >= radius ? 0 : (float)exp((double)(-x * x) / (2.0 * (double)sigma * (double)sigma));
}

static float box(float x, float radius) {
  return x < 0.5f ? 1 : x == 0.5f ? 0.5f : 0;
}

static float triangle(float x, float radius) {
  return x < 1 ? 1 - x : 0;
}

static float keys_cubic(float x, float radius) {
  if (x >= 2)
    return 0;
  return x >= 1 ? ((-0.5f * x + 2.5f) * x - 4) * x + 2 : (1.5f * x - 2.5f) * x * x + 1;
}

static float mitchell_cubic(float x, float radius) {
  if (x >= 2)
    return 0;
  return x >= 1 ? ((-7 / 18.0f * x + 2) * x - 10 / 3.0f) * x + 16 / 9.0f
                : (7 / 6.0f * x - 2) * x * x + 8 / 9.0f;
}

static const filter filters[] = {
    {"lanczos1", 1, lanczos},
    {"lanczos3", 3, lanczos},
    {"lanczos5", 5, lanczos},
    {"gaussian", 1.5f, gaussian},
    {"box", 1, box},
    {"triangle", 1, triangle},
    {"keyscubic", 2, keys_cubic},
    {"mitchellcubic", 2, mitchell_cubic},
};

typedef struct scale_state {
  const filter *filter;
  bool antialias;
} scale_state;

static dp_status *scale_create(const dp_kernel_setup *setup, void *memory) {
  scale_state *state = memory;
  dp_view name;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "antialias", &state->antialias));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "kernel_type", &name));
  for (size_t i = 0; i < sizeof filters / sizeof filters[0]; ++i)
    if (dp_view_equals(name, filters[i].name))
      state->filter = &filters[i];
  if (!state->filter)
    return DP_INVALID("Unrecognized kernel type: %.*s", (int)name.length, name.data);
  return NULL;
}

/* ---- Spans ---- */
typedef struct spans {
  int64_t count, size; /* number of outputs; most inputs per span */
  int64_t *starts;
  float *weights; /* [count, size] */
} spans;

static dp_status *spans_init(spans *s, int64_t count, int64_t size) {
  s->count = count;
  s->size = size;
  s->starts = dp_try_malloc((size_t)(count + 1) * sizeof *s->starts);
  s->weights = dp_image_scratch(count * size);
  if (!s->starts || !s->weights)
    return dp_status_out_of_memory();
  memset(s->starts, 0, (size_t)count * sizeof *s->starts);
  memset(s->weights, 0, (size_t)(count * size) * sizeof *s->weights);
  return NULL;
}

static void spans_deinit(spans *s) {
  dp_free(s->starts);
  dp_free(s->weights);
}

static int64_t clamp(float value, int64_t limit) {
  return value < 0 ? 0 : value > (float)(limit - 1) ? limit - 1 : (int64_t)value;
}

/* Weights of the inputs around `place`, summing up to 1. */
static void fill_span(const filter *f, float place, float kernel_scale, int64_t in, int64_t size,
                      int64_t *start_out, float *weights) {
  float reach = f->radius * kernel_scale, total = 0;
  int64_t begin = clamp(ceilf(place - reach - 0.5f), in);
  int64_t end = clamp(floorf(place + reach - 0.5f), in) + 1;
  if (end - begin > size)
    end = begin + size;
  *start_out = begin;
  for (int64_t i = begin; i < end; ++i) {
    weights[i - begin] = f->weight(fabsf(((float)i + 0.5f - place) / kernel_scale), f->radius);
    total += weights[i - begin];
  }
  float factor = fabsf(total) >= 1000 * FLT_MIN ? 1 / total : 0;
  for (int64_t i = 0; i < end - begin; ++i)
    weights[i] *= factor;
}

static dp_status *make_spans(const scale_state *state, int64_t out, int64_t in, float scale,
                             float translation, spans *s) {
  const filter *f = state->filter;
  float inverse = (float)(1.0 / (double)scale), shift = -inverse * translation;
  float kernel_scale = state->antialias && inverse > 1 ? inverse : 1;
  float width = 2 * ceilf(f->radius * kernel_scale) + 1;
  DP_RETURN_IF_ERROR(spans_init(s, out, width < (float)in ? (int64_t)width : in));
  for (int64_t x = 0; x < out; ++x) {
    float place = ((float)x + 0.5f) * inverse + shift;
    if (place >= 0 && place <= (float)in)
      fill_span(f, place, kernel_scale, in, s->size, &s->starts[x], s->weights + x * s->size);
  }
  return NULL;
}

/* For each of `in` inputs the outputs that use it. */
static dp_status *turn_spans(const spans *s, int64_t in, spans *turned) {
  int64_t *ends = dp_try_malloc((size_t)(in + 1) * sizeof *ends), widest = 0;
  int64_t *starts = dp_try_malloc((size_t)(in + 1) * sizeof *starts);
  dp_status *status = ends && starts ? NULL : dp_status_out_of_memory();
  if (!status)
    memset(ends, 0, (size_t)in * sizeof *ends);
  for (int pass = 0; pass < 2 && !status; ++pass) {
    for (int64_t x = 0; x < s->count; ++x)
      for (int64_t j = 0; j < s->size && s->starts[x] + j < in; ++j) {
        int64_t i = s->starts[x] + j;
        float weight = s->weights[x * s->size + j];
        if (weight == 0)
          continue;
        if (pass == 1) {
          turned->weights[i * widest + x - starts[i]] += weight;
          continue;
        }
        starts[i] = ends[i] == 0 ? x : starts[i];
        ends[i] = x + 1;
        widest = ends[i] - starts[i] > widest ? ends[i] - starts[i] : widest;
      }
    if (pass == 0)
      status = spans_init(turned, in, widest);
    for (int64_t i = 0; i < in && !status; ++i)
      turned->starts[i] = ends[i] ? starts[i] : 0;
  }
  dp_free(ends);
  dp_free(starts);
  return status;
}

/* ---- Gathering ---- */
typedef struct scale_call {
  spans rows, columns;
  dp_dtype dtype;
  const void *in; /* [batch, in_height, in_width, channels] */
  int64_t in_height, in_width, channels;
  float *out;
  bool has_memory;
} scale_call;

static void gather_rows(const scale_call *call, int64_t image, int64_t y, float *line, float *sum) {
  int64_t length = call->in_width * call->channels, start = call->rows.starts[y];
  memset(sum, 0, (size_t)length * sizeof *sum);
  for (int64_t i = 0; i < call->rows.size && start + i < call->in_height; ++i) {
    float weight = call->rows.weights[y * call->rows.size + i];
    if (weight == 0)
      continue;
    dp_image_to_float(call->dtype, call->in, (image * call->in_height + start + i) * length, line,
                      length);
    for (int64_t k = 0; k < length; ++k)
      sum[k] += weight * line[k];
  }
}

static void gather_columns(const scale_call *call, const float *line, float *to) {
  const spans *columns = &call->columns;
  int64_t channels = call->channels;
  memset(to, 0, (size_t)(columns->count * channels) * sizeof *to);
  for (int64_t x = 0; x < columns->count; ++x, to += channels) {
    int64_t start = columns->starts[x];
    for (int64_t i = 0; i < columns->size && start + i < call->in_width; ++i) {
      float weight = columns->weights[x * columns->size + i];
      for (int64_t c = 0; c < channels; ++c)
        to[c] += weight * line[(start + i) * channels + c];
    }
  }
}

static void gather_range(void *arg, int64_t begin, int64_t end) {
  scale_call *call = arg;
  int64_t length = call->in_width * call->channels;
  float *lines = dp_image_scratch(2 * length);
  if (!lines) {
    call->has_memory = false;
    return;
  }
  for (int64_t row = begin; row < end; ++row) {
    gather_rows(call, row / call->rows.count, row % call->rows.count, lines, lines + length);
    gather_columns(call, lines + length, call->out + row * call->columns.count * call->channels);
  }
  dp_free(lines);
}

static dp_status *gather(dp_op_context *context, scale_call *call, const dp_tensor *in,
                         dp_tensor *output) {
  const int64_t *dims = in->shape.dims;
  call->dtype = in->dtype;
  call->in = in->data;
  call->in_height = dims[1];
  call->in_width = dims[2];
  call->channels = dims[3];
  call->out = output->data;
  call->has_memory = true;
  int64_t cost = dims[3] * (dims[2] * call->rows.size + call->columns.count * call->columns.size);
  dp_op_for(context, dims[0] * call->rows.count, cost + 1, gather_range, call);
  return call->has_memory ? NULL : dp_status_out_of_memory();
}

/* ---- The ops ---- */
static dp_status *read_pair(const dp_tensor *tensor, float *values_out) {
  if (tensor->shape.rank != 1)
    return DP_INVALID("t must be 1-dimensional%s", dp_shape_text(&tensor->shape));
  if (tensor->shape.elements != 2)
    return DP_INVALID("t must have two elements%s", dp_shape_text(&tensor->shape));
  memcpy(values_out, tensor->data, 2 * sizeof(float));
  return NULL;
}

static dp_status *read_placement(dp_op_context *context, float *scales, float *translations) {
  DP_RETURN_IF_ERROR(read_pair(dp_op_input(context, 2), scales));
  if (!(scales[0] > 0 && scales[1] > 0))
    return DP_INVALID("Scale must be greater than zero.");
  return read_pair(dp_op_input(context, 3), translations);
}

static dp_status *plan_output(const dp_tensor *images, const dp_tensor *size, dp_shape *shape_out) {
  if (images->shape.rank != 4)
    return DP_INVALID("input must be 4-dimensional%s", dp_shape_text(&images->shape));
  if (size->shape.rank != 1)
    return DP_INVALID("output_shape_t must be 1-dimensional%s", dp_shape_text(&size->shape));
  if (size->shape.elements != 2)
    return DP_INVALID("output_shape_t must have two elements%s", dp_shape_text(&size->shape));
  int64_t dims[4] = {images->shape.dims[0], dp_tensor_int_at(size, 0), dp_tensor_int_at(size, 1),
                     images->shape.dims[3]};
  if (dims[1] <= 0 || dims[2] <= 0)
    return DP_INVALID("output dimensions must be positive");
  if (dims[3] <= 0)
    return DP_INVALID("image must have at least one channel");
  if (images->shape.dims[1] <= 0 || images->shape.dims[2] <= 0)
    return DP_INVALID("input image must be of non-zero size");
  return dp_shape_make(4, dims, shape_out);
}

static dp_status *scale_compute(dp_op_context *context, void *memory) {
  const dp_tensor *images = dp_op_input(context, 0);
  const int64_t *in = images->shape.dims;
  float scales[2], translations[2];
  dp_shape shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(plan_output(images, dp_op_input(context, 1), &shape));
  DP_RETURN_IF_ERROR(read_placement(context, scales, translations));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  scale_call call = {0};
  dp_status *status =
      make_spans(memory, shape.dims[1], in[1], scales[0], translations[0], &call.rows);
  if (!status)
    status = make_spans(memory, shape.dims[2], in[2], scales[1], translations[1], &call.columns);
  if (!status)
    status = gather(context, &call, images, output);
  spans_deinit(&call.rows);
  spans_deinit(&call.columns);
  return status;
}

static dp_status *make_turned(const scale_state *state, int64_t out, int64_t in, float scale,
                              float translation, spans *turned) {
  spans forward = {0};
  dp_status *status = make_spans(state, out, in, scale, translation, &forward);
  if (!status)
    status = turn_spans(&forward, in, turned);
  spans_deinit(&forward);
  return status;
}

static dp_status *grad_compute(dp_op_context *context, void *memory) {
  const dp_tensor *grads = dp_op_input(context, 0), *original = dp_op_input(context, 1);
  const int64_t *in = original->shape.dims, *out = grads->shape.dims;
  float scales[2], translations[2];
  if (grads->shape.rank != 4)
    return DP_INVALID("input_grad must be 4-dimensional%s", dp_shape_text(&grads->shape));
  if (original->shape.rank != 4)
    return DP_INVALID("original_image must be 4-dimensional%s", dp_shape_text(&original->shape));
  DP_RETURN_IF_ERROR(read_placement(context, scales, translations));
  dp_shape shape = dp_shape_of(4, (int64_t[]){out[0], in[1], in[2], out[3]});
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  scale_call call = {0};
  dp_status *status = make_turned(memory, out[1], in[1], scales[0], translations[0], &call.rows);
  if (!status)
    status = make_turned(memory, out[2], in[2], scales[1], translations[1], &call.columns);
  if (!status)
    status = gather(context, &call, grads, output);
  spans_deinit(&call.rows);
  spans_deinit(&call.columns);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "ScaleAndTranslate",
     .types = {{"T", DP_SET_REALS}},
     .state_size = sizeof(scale_state),
     .create = scale_create,
     .compute = scale_compute},
    {.op = "ScaleAndTranslateGrad",
     .types = {{"T", DP_SET(FLOAT)}},
     .state_size = sizeof(scale_state),
     .create = scale_create,
     .compute = grad_compute},
};
DP_KERNEL_FAMILY(image_scale, rows);
