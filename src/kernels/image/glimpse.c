/* ExtractGlimpse: a window of each image of a batch, at a place of its own; what lies outside the
 * image is noise (uniform between the image's extremes, or normal with each channel's moments) or
 * zero. As in TensorFlow the noise takes no seed. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/shared/random.h"

typedef enum noise_kind { NOISE_UNIFORM, NOISE_NORMAL, NOISE_ZERO } noise_kind;

typedef struct glimpse_state {
  bool is_normalized, is_centered, is_second;
  noise_kind noise;
} glimpse_state;

static dp_status *glimpse_create(const dp_kernel_setup *setup, void *memory) {
  glimpse_state *state = memory;
  const dp_node *node = setup->node;
  bool is_uniform;
  dp_view noise;
  state->is_second = strstr(node->op->name, "V2") != NULL;
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "normalized", &state->is_normalized));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "centered", &state->is_centered));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "uniform_noise", &is_uniform));
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "noise", &noise));
  if (is_uniform && noise.length > 0 && !dp_view_equals(noise, "uniform"))
    return DP_INVALID("The uniform_noise and noise could not be specified at the same time");
  if (noise.length == 0)
    state->noise = is_uniform ? NOISE_UNIFORM : NOISE_NORMAL;
  else if (dp_view_equals(noise, "uniform"))
    state->noise = NOISE_UNIFORM;
  else if (dp_view_equals(noise, "gaussian"))
    state->noise = NOISE_NORMAL;
  else if (dp_view_equals(noise, "zero"))
    state->noise = NOISE_ZERO;
  else
    return DP_INVALID("The noise could only be uniform, gaussian, or zero, got%.*s",
                      (int)noise.length, noise.data);
  return NULL;
}

typedef struct glimpse_call {
  const glimpse_state *state;
  const float *in, *offsets;
  float *out;
  int64_t in_height, in_width, height, width, depth;
} glimpse_call;

/* ---- Noise ---- */
static void fill_uniform(const glimpse_call *call, const float *image, dp_random_words *words,
                         float *to) {
  int64_t count = call->in_height * call->in_width * call->depth;
  float least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    least = fminf(least, image[i]);
    most = fmaxf(most, image[i]);
  }
  for (int64_t i = 0; i < call->height * call->width * call->depth; ++i)
    to[i] = least + dp_philox_float(dp_random_word(words)) * (most - least);
}

static void fill_normal_channel(const glimpse_call *call, const float *image, int64_t channel,
                                dp_random_pairs *pairs, float *to) {
  int64_t count = call->in_height * call->in_width, depth = call->depth;
  double sum = 0, squares = 0;
  float least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    float value = image[i * depth + channel];
    sum += (double)value;
    least = fminf(least, value);
    most = fmaxf(most, value);
  }
  double mean = sum / (double)count;
  for (int64_t i = 0; i < count; ++i)
    squares +=
        ((double)image[i * depth + channel] - mean) * ((double)image[i * depth + channel] - mean);
  double deviation = sqrt(squares / (double)count);
  for (int64_t i = 0; i < call->height * call->width; ++i)
    to[i * depth + channel] =
        fmaxf(fminf((float)(mean + dp_random_pair_normal(pairs) * deviation), most), least);
}

static void fill_noise(const glimpse_call *call, const float *image, float *to) {
  dp_philox generator = dp_random_from_seeds(dp_random_seed(), dp_random_seed());
  dp_random_words words = dp_random_words_of(&generator);
  dp_random_pairs pairs = {.generator = generator};
  if (call->state->noise == NOISE_ZERO)
    memset(to, 0, (size_t)(call->height * call->width * call->depth) * sizeof *to);
  else if (call->state->noise == NOISE_UNIFORM)
    fill_uniform(call, image, &words, to);
  else
    for (int64_t c = 0; c < call->depth; ++c)
      fill_normal_channel(call, image, c, &pairs, to);
}

/* ---- Windows ---- */
/* Where the window begins in the image; it may be outside. */
static int64_t place_window(const glimpse_state *state, float offset, int64_t in, int64_t size) {
  float place = offset * (state->is_normalized ? (float)in : 1);
  if (!state->is_second) {
    if (state->is_centered)
      place = place / 2 + (float)in / 2;
    place -= (float)size / 2;
  } else if (state->is_centered && state->is_normalized) {
    place = place / 2 + (float)in / 2 - (float)size / 2;
  } else if (state->is_centered) {
    place += (float)in / 2;
  }
  float limit = 4 * (float)INT32_MAX;
  return (int64_t)(place > limit ? limit : place > -limit ? place : -limit);
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void glimpse_range(void *arg, int64_t begin, int64_t end) {
  const glimpse_call *call = arg;
  for (int64_t b = begin; b < end; ++b) {
    const float *image = call->in + b * call->in_height * call->in_width * call->depth;
    float *to = call->out + b * call->height * call->width * call->depth;
    int64_t top = place_window(call->state, call->offsets[2 * b], call->in_height, call->height);
    int64_t left = place_window(call->state, call->offsets[2 * b + 1], call->in_width, call->width);
    int64_t first_row = top < 0 ? -top : 0, last_row = least(call->height, call->in_height - top);
    int64_t first = left < 0 ? -left : 0, last = least(call->width, call->in_width - left);
    if (first_row > 0 || first > 0 || last_row < call->height || last < call->width)
      fill_noise(call, image, to);
    for (int64_t y = first_row; y < last_row && first < last; ++y)
      memcpy(to + (y * call->width + first) * call->depth,
             image + ((top + y) * call->in_width + left + first) * call->depth,
             (size_t)((last - first) * call->depth) * sizeof *to);
  }
}

static dp_status *glimpse_compute(dp_op_context *context, void *memory) {
  const dp_tensor *input = dp_op_input(context, 0), *size = dp_op_input(context, 1);
  const dp_tensor *offsets = dp_op_input(context, 2);
  if (input->shape.rank != 4)
    return DP_INVALID("input must be 4-dimensional (batch_size, height, width, depth)%s",
                      dp_shape_text(&input->shape));
  if (size->shape.rank != 1 || size->shape.dims[0] != 2)
    return DP_INVALID("input must be a vector of size 2 (height, width)%s",
                      dp_shape_text(&size->shape));
  if (offsets->shape.rank != 2)
    return DP_INVALID("input must be a matrix%s", dp_shape_text(&offsets->shape));
  if (offsets->shape.dims[0] != input->shape.dims[0])
    return DP_INVALID("first dimension should be batch%s", dp_shape_text(&offsets->shape));
  if (offsets->shape.dims[1] != 2)
    return DP_INVALID("second dimension should be of size 2 (y,x)%s",
                      dp_shape_text(&offsets->shape));
  const int64_t *in = input->shape.dims;
  int64_t dims[4] = {in[0], dp_tensor_int_at(size, 0), dp_tensor_int_at(size, 1), in[3]};
  dp_shape shape;
  dp_tensor *output;
  for (int i = 1; i < 3; ++i)
    if (dims[i] < 0)
      return DP_INVALID("Expected a non-negative size, got %lld", (long long)dims[i]);
  DP_RETURN_IF_ERROR(dp_shape_make(4, dims, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  glimpse_call call = {.state = memory,
                       .in = input->data,
                       .offsets = offsets->data,
                       .out = output->data,
                       .in_height = in[1],
                       .in_width = in[2],
                       .height = dims[1],
                       .width = dims[2],
                       .depth = in[3]};
  if (shape.elements > 0)
    dp_op_for(context, dims[0], dims[1] * dims[2] * dims[3], glimpse_range, &call);
  return NULL;
}

#define ROW(name)                                                                                  \
  {                                                                                                \
    .op = name, .state_size = sizeof(glimpse_state), .create = glimpse_create,                     \
    .compute = glimpse_compute                                                                     \
  }
static const dp_kernel rows[] = {
    ROW("ExtractGlimpse"),
    ROW("ExtractGlimpseV2"),
};
DP_KERNEL_FAMILY(image_glimpse, rows);
