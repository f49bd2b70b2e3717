/* Fractional pooling: FractionalAvgPool, FractionalMaxPool and their gradients.
 *
 * Rows and columns are divided into cells of k or k + 1 pixels at random borders. The op returns
 * the borders as two sequences, which its gradient takes as inputs. With `overlapping`, a cell
 * shares its last pixels with the next cell. With `deterministic`, the op keeps the borders of its
 * first run. */
#include "kernels/shared/family.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/shared/random.h"

typedef struct span {
  int64_t begin, end;
} span;

typedef struct fraction_call {
  const void *in, *out; /* in gradients, `out` is the gradient of the output */
  void *back;
  double *sums;
  const int64_t *rows, *columns; /* borders: one more than cells */
  int64_t in_rows, in_columns, out_rows, out_columns, depth;
  int64_t in_image; /* elements per image */
  bool overlaps;
  void (*run)(const struct fraction_call *call, int64_t index);
} fraction_call;

static span span_of(const int64_t *borders, int64_t index, int64_t limit, bool overlaps) {
  int64_t end = borders[index + 1] + overlaps;
  return (span){borders[index], end < limit ? end : limit};
}
static span row_span(const fraction_call *call, int64_t index) {
  return span_of(call->rows, index, call->in_rows, call->overlaps);
}
static span column_span(const fraction_call *call, int64_t index) {
  return span_of(call->columns, index, call->in_columns, call->overlaps);
}

#define NAMED(name) name##_float
#define ELEMENT float
#define LOWEST -FLT_MAX
#include "kernels/nn/pool_fractional.tmpl.h"
#undef NAMED
#undef ELEMENT
#undef LOWEST
#define NAMED(name) name##_double
#define ELEMENT double
#define LOWEST -DBL_MAX
#include "kernels/nn/pool_fractional.tmpl.h"
#undef NAMED
#undef ELEMENT
#undef LOWEST
#define NAMED(name) name##_int32
#define ELEMENT int32_t
#define LOWEST INT32_MIN
#include "kernels/nn/pool_fractional.tmpl.h"
#undef NAMED
#undef ELEMENT
#undef LOWEST
#define NAMED(name) name##_int64
#define ELEMENT int64_t
#define LOWEST INT64_MIN
#include "kernels/nn/pool_fractional.tmpl.h"
#undef NAMED
#undef ELEMENT
#undef LOWEST

typedef void (*run_fn)(const fraction_call *call, int64_t index);
typedef struct type_fns {
  run_fn average_row, maximum_row, average_back, maximum_back;
} type_fns;
#define FNS(type)                                                                                  \
  { average_row_##type, maximum_row_##type, average_back_##type, maximum_back_##type }
static const type_fns fns_of[DP_DTYPE_END] = {[DP_FLOAT] = FNS(float),
                                              [DP_DOUBLE] = FNS(double),
                                              [DP_INT32] = FNS(int32),
                                              [DP_INT64] = FNS(int64)};

static void run_range(void *arg, int64_t begin, int64_t end) {
  const fraction_call *call = arg;
  for (int64_t i = begin; i < end; ++i)
    call->run(call, i);
}

/* ---- Borders ---- */
typedef struct fraction_state {
  dp_random_source source;
  float ratios[4];
  bool is_pseudo_random, overlaps, is_deterministic, is_average;
  pthread_mutex_t lock;
  bool has_lock;
  int64_t *kept[2]; /* borders of rows and columns, when deterministic */
  int64_t kept_counts[2];
} fraction_state;

static dp_status *fraction_create(const dp_kernel_setup *setup, void *memory) {
  fraction_state *state = memory;
  const dp_node *node = setup->node;
  const dp_attr *ratios;
  state->is_average = strstr(node->op->name, "Avg") != NULL;
  state->has_lock = true;
  pthread_mutex_init(&state->lock, NULL);
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "pooling_ratio", DP_ATTR_LIST_FLOAT, &ratios));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "pseudo_random", &state->is_pseudo_random));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "overlapping", &state->overlaps));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "deterministic", &state->is_deterministic));
  int64_t seeds[2];
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "seed", &seeds[0]));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "seed2", &seeds[1]));
  if (!state->is_deterministic && (seeds[0] != 0 || seeds[1] != 0))
    return DP_INVALID("Both seed and seed2 should be 0 if deterministic is false.");
  if (ratios->count != 4)
    return DP_INVALID("pooling_ratio field must specify 4 dimensions");
  for (int i = 0; i < 4; ++i) {
    state->ratios[i] = ratios->numbers[i];
    if (!(state->ratios[i] >= 1))
      return DP_INVALID("pooling_ratio cannot be smaller than 1, got: %g",
                        (double)state->ratios[i]);
  }
  if (state->ratios[0] != 1 || state->ratios[3] != 1)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Fractional %s pooling is not yet supported on the "
                            "batch nor channel dimension.",
                            dp_node_is(setup->node, "FractionalMaxPool") ? "max" : "average");
  return dp_random_source_init(&state->source, setup);
}

static void fraction_destroy(void *memory) {
  fraction_state *state = memory;
  dp_free(state->kept[0]);
  dp_free(state->kept[1]);
  if (state->has_lock)
    pthread_mutex_destroy(&state->lock);
  dp_random_source_deinit(&state->source);
}

/* Evenly spread borders with one random shift; cell sizes differ by at most one. */
static dp_status *draw_shift(dp_op_context *context, fraction_state *state, int64_t in, int64_t out,
                             int64_t *borders) {
  dp_philox generator;
  DP_RETURN_IF_ERROR(dp_random_source_take(context, &state->source, 1, &generator));
  dp_random_words words = dp_random_words_of(&generator);
  double step = (double)in / (double)out;
  int64_t least = in / out;
  double left = (double)(least + 2) / step - 1;
  double right = (double)(in + 1 - least) / step - (double)(out - 1);
  double shift = dp_random_double(&words) * fmin(left, right);
  for (int64_t i = 1; i < out; ++i)
    borders[i] = (int64_t)ceil(step * ((double)i + shift)) - 1;
  borders[0] = 0;
  borders[out] = in;
  return NULL;
}

/* Cell sizes in random order: borders[i + 1] holds the size of cell i until the sizes are
 * summed. */
static dp_status *draw_sizes(dp_op_context *context, fraction_state *state, int64_t in, int64_t out,
                             int64_t *borders) {
  dp_philox generator;
  DP_RETURN_IF_ERROR(
      dp_random_source_take(context, &state->source, (uint64_t)(out + 3) / 4, &generator));
  dp_random_words words = dp_random_words_of(&generator);
  int64_t *sizes = borders + 1;
  for (int64_t i = 0; i < out; ++i)
    sizes[i] = in / out + (i < in % out);
  for (int64_t i = 0; i + 1 < out; ++i) {
    int64_t other = i + dp_random_word(&words) % (uint32_t)(out - i), held = sizes[i];
    sizes[i] = sizes[other];
    sizes[other] = held;
  }
  borders[0] = 0;
  for (int64_t i = 0; i < out; ++i)
    borders[i + 1] += borders[i];
  return NULL;
}

static dp_status *draw_borders(dp_op_context *context, fraction_state *state, int axis, int64_t in,
                               int64_t out, int64_t *borders) {
  if (state->kept[axis]) {
    if (state->kept_counts[axis] != out + 1 || state->kept[axis][out] != in)
      return DP_INVALID("A deterministic fractional pooling needs inputs of one size");
    memcpy(borders, state->kept[axis], (size_t)(out + 1) * sizeof *borders);
    return NULL;
  }
  DP_RETURN_IF_ERROR(
      (state->is_pseudo_random ? draw_shift : draw_sizes)(context, state, in, out, borders));
  if (state->is_deterministic) {
    state->kept[axis] = dp_memdup(borders, (size_t)(out + 1) * sizeof *borders);
    state->kept_counts[axis] = out + 1;
  }
  return NULL;
}

/* ---- Forward ---- */
static dp_status *plan_output(const fraction_state *state, const dp_tensor *value,
                              dp_shape *shape_out) {
  if (value->shape.rank != 4)
    return DP_INVALID("tensor_in must be 4-dimensional");
  int64_t dims[4];
  for (int i = 0; i < 4; ++i) {
    dims[i] = (int64_t)floorf((float)value->shape.dims[i] / state->ratios[i]);
    if (dims[i] <= 0)
      return DP_INVALID("Pooling ratio is higher than input dimension size for dimension %d. Input "
                        "dim size: %lld pooling ratio: %g",
                        i, (long long)value->shape.dims[i], (double)state->ratios[i]);
  }
  return dp_shape_make(4, dims, shape_out);
}

static dp_status *forward_compute(dp_op_context *context, void *memory) {
  fraction_state *state = memory;
  const dp_tensor *value = dp_op_input(context, 0);
  const int64_t *in = value->shape.dims;
  dp_shape shape;
  dp_tensor *output, *borders[2];
  DP_RETURN_IF_ERROR(plan_output(state, value, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  pthread_mutex_lock(&state->lock);
  dp_status *status = NULL;
  for (int axis = 0; axis < 2 && !status; ++axis) {
    dp_shape vector = dp_shape_vector(shape.dims[1 + axis] + 1);
    status = dp_op_allocate(context, 1 + axis, &vector, &borders[axis]);
    if (!status)
      status = draw_borders(context, state, axis, in[1 + axis], shape.dims[1 + axis],
                            borders[axis]->data);
  }
  pthread_mutex_unlock(&state->lock);
  DP_RETURN_IF_ERROR(status);
  const type_fns *fns = &fns_of[value->dtype];
  fraction_call call = {.in = value->data,
                        .out = output->data,
                        .rows = borders[0]->data,
                        .columns = borders[1]->data,
                        .in_rows = in[1],
                        .in_columns = in[2],
                        .out_rows = shape.dims[1],
                        .out_columns = shape.dims[2],
                        .depth = in[3],
                        .in_image = in[1] * in[2] * in[3],
                        .overlaps = state->overlaps,
                        .run = state->is_average ? fns->average_row : fns->maximum_row};
  dp_op_for(context, shape.dims[0] * shape.dims[1], 4 * in[2] * in[3], run_range, &call);
  return NULL;
}

/* ---- Gradients ---- */
static dp_status *check_borders(const dp_tensor *borders, const char *what, int64_t in,
                                int64_t out) {
  const int64_t *values = borders->data;
  if (borders->shape.rank != 1 || borders->shape.dims[0] != out + 1)
    return DP_INVALID("%s must be a vector of %lld elements, got shape %s", what,
                      (long long)(out + 1), dp_shape_text(&borders->shape));
  for (int64_t i = 0; i <= out; ++i)
    if (values[i] < 0 || values[i] > in || (i > 0 && values[i] < values[i - 1]))
      return DP_INVALID("Element %lld of %s is %lld: out of range or order", (long long)i, what,
                        (long long)values[i]);
  return NULL;
}

/* Fills the call from the shapes of the input and of the output's gradient. The borders are inputs
 * `first` and `first` + 1. */
static dp_status *plan_back(dp_op_context *context, const dp_shape *in, const dp_tensor *back,
                            int32_t first, fraction_call *call) {
  const int64_t *out = back->shape.dims;
  if (in->rank != 4 || back->shape.rank != 4)
    return DP_INVALID("%s must be 4-dimensional", in->rank != 4 ? "tensor_in" : "out_backprop");
  if (in->dims[0] != out[0] || in->dims[3] != out[3])
    return DP_INVALID("Batch and depth of out_backprop must be those of the input: %s vs. %s",
                      dp_shape_text(&back->shape), dp_shape_text(in));
  const dp_tensor *rows = dp_op_input(context, first), *columns = dp_op_input(context, first + 1);
  DP_RETURN_IF_ERROR(check_borders(rows, "row_pooling_sequence", in->dims[1], out[1]));
  DP_RETURN_IF_ERROR(check_borders(columns, "col_pooling_sequence", in->dims[2], out[2]));
  call->rows = rows->data;
  call->columns = columns->data;
  call->in_rows = in->dims[1];
  call->in_columns = in->dims[2];
  call->out_rows = out[1];
  call->out_columns = out[2];
  call->depth = in->dims[3];
  call->in_image = in->dims[1] * in->dims[2] * in->dims[3];
  call->out = back->data;
  return NULL;
}

static dp_status *back_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "overlapping", memory);
}

static dp_status *average_back_compute(dp_op_context *context, void *memory) {
  const dp_tensor *sizes = dp_op_input(context, 0), *back = dp_op_input(context, 1);
  if (sizes->shape.rank != 1 || sizes->shape.elements != 4)
    return DP_INVALID("original input tensor shape must be1-dimensional and 4 elements");
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(sizes, "orig_input_tensor_shape", &shape));
  fraction_call call = {.overlaps = *(bool *)memory, .run = fns_of[back->dtype].average_back};
  DP_RETURN_IF_ERROR(plan_back(context, &shape, back, 2, &call));
  dp_tensor *output;
  dp_buffer *sums;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)shape.elements * sizeof(double), &sums));
  memset(sums->data, 0, (size_t)shape.elements * sizeof(double));
  call.sums = sums->data;
  call.back = output->data;
  dp_op_for(context, shape.dims[0], 4 * call.in_image, run_range, &call);
  dp_buffer_release(sums);
  return NULL;
}

static dp_status *maximum_back_compute(dp_op_context *context, void *memory) {
  const dp_tensor *in = dp_op_input(context, 0), *out = dp_op_input(context, 1);
  const dp_tensor *back = dp_op_input(context, 2);
  if (!dp_shape_equal(&out->shape, &back->shape))
    return DP_INVALID("tensor_out_dup is not the same as tensor_out");
  fraction_call call = {
      .in = in->data, .overlaps = *(bool *)memory, .run = fns_of[in->dtype].maximum_back};
  DP_RETURN_IF_ERROR(plan_back(context, &in->shape, back, 3, &call));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &in->shape, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  call.back = output->data;
  dp_op_for(context, in->shape.dims[0], 4 * call.in_image, run_range, &call);
  return NULL;
}

#define SET_FRACTIONAL (DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET_INDEX)
#define FORWARD(name)                                                                              \
  {                                                                                                \
    .op = name, .types = {{"T", SET_FRACTIONAL}}, .state_size = sizeof(fraction_state),            \
    .create = fraction_create, .compute = forward_compute, .destroy = fraction_destroy             \
  }
#define BACK(name, body)                                                                           \
  {                                                                                                \
    .op = name, .types = {{"T", SET_FRACTIONAL}}, .state_size = sizeof(bool),                      \
    .create = back_create, .compute = body                                                         \
  }
static const dp_kernel rows[] = {
    FORWARD("FractionalAvgPool"),
    FORWARD("FractionalMaxPool"),
    BACK("FractionalAvgPoolGrad", average_back_compute),
    BACK("FractionalMaxPoolGrad", maximum_back_compute),
};
DP_KERNEL_FAMILY(pool_fractional, rows);
