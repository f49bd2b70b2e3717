/* BiasAdd and its gradient in both layouts, and L2Loss. A tensor is seen as [outer, channels,
 * inner], with inner = 1 when channels come last; the loops are those of binary ops and
 * reductions. */
#include "kernels/shared/family.h"

#include "kernels/loops/binary.h"
#include "kernels/loops/reduce.h"
#include "kernels/shared/support.h"
#include "kernels/shared/widen.h"

typedef struct bias_state {
  dp_dtype dtype, work;
  dp_binary_fn add;
  dp_reduce_fns sum, square_sum;
  bool channels_first;
} bias_state;

static dp_status *bias_create(const dp_kernel_setup *setup, void *memory) {
  bias_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  state->work = dp_kernel_work_type(state->dtype);
  state->add = dp_binary_table()->fn[DP_BINARY_add][state->work];
  state->sum = dp_reduce_table()->fn[DP_REDUCE_sum][state->work];
  state->square_sum = dp_reduce_table()->fn[DP_REDUCE_square_sum][state->work];
  if (dp_node_attr(setup->node, "data_format")) {
    dp_view format;
    DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "data_format", &format));
    state->channels_first = dp_view_equals(format, "NCHW");
  }
  return NULL;
}

/* [outer, channels, inner] of a shape in the layout. */
typedef struct bias_sizes {
  int64_t outer, channels, inner;
} bias_sizes;

static bias_sizes sizes_of(const bias_state *state, const dp_shape *shape) {
  if (state->channels_first)
    return (bias_sizes){shape->dims[0], shape->dims[1], dp_shape_product(shape, 2, shape->rank)};
  int last = shape->rank - 1;
  return (bias_sizes){dp_shape_product(shape, 0, last), shape->dims[last], 1};
}

/* ---- BiasAdd ---- */
typedef struct bias_work {
  const bias_state *state;
  bias_sizes sizes;
  const void *values, *bias;
  void *to;
} bias_work;

/* A unit of work is a row of channels when inner is 1, else a row of inner elements of one
 * channel. */
static void add_direct(void *arg, int64_t begin, int64_t end) {
  const bias_work *work = arg;
  size_t size = dp_dtype_size(work->state->work);
  int64_t channels = work->sizes.channels, inner = work->sizes.inner;
  if (!work->state->channels_first) {
    dp_binary_span span = {channels, end - begin, 1, 1, channels, 0};
    work->state->add((const char *)work->values + begin * channels * size, work->bias,
                     (char *)work->to + begin * channels * size, &span);
    return;
  }
  while (begin < end) {
    int64_t channel = begin % channels, count = channels - channel;
    count = count < end - begin ? count : end - begin;
    dp_binary_span span = {inner, count, 1, 0, inner, 1};
    work->state->add((const char *)work->values + begin * inner * size,
                     (const char *)work->bias + channel * size,
                     (char *)work->to + begin * inner * size, &span);
    begin += count;
  }
}

static void run_add(dp_op_context *context, const bias_work *work) {
  int64_t size = (int64_t)dp_dtype_size(work->state->work);
  bool first = work->state->channels_first;
  int64_t count = first ? work->sizes.outer * work->sizes.channels : work->sizes.outer;
  int64_t length = first ? work->sizes.inner : work->sizes.channels;
  dp_op_for(context, count, length * size / 16 + 3, add_direct, (void *)work);
}

static dp_status *bias_compute(dp_op_context *context, void *memory) {
  const bias_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *bias = dp_op_input(context, 1);
  dp_shape shape = input->shape;
  if (shape.rank < 2)
    return DP_INVALID("Input tensor must be at least 2D: %s", dp_shape_text(&shape));
  if (bias->shape.rank != 1)
    return DP_INVALID("Biases must be 1D: %s", dp_shape_text(&bias->shape));
  bias_work work = {.state = state, .sizes = sizes_of(state, &shape)};
  if (bias->shape.dims[0] != work.sizes.channels)
    return DP_INVALID("Must provide as many biases as the last dimension of the input tensor: %s "
                      "vs. %s",
                      dp_shape_text(&bias->shape), dp_shape_text(&shape));
  dp_tensor *output;
  work.values = input->data;
  work.bias = bias->data;
  bool is_short = state->work != state->dtype;
  DP_RETURN_IF_ERROR(is_short ? dp_op_allocate(context, 0, &shape, &output)
                              : dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  work.to = output->data;
  if (shape.elements == 0)
    return NULL;
  if (!is_short) {
    run_add(context, &work);
    return NULL;
  }
  dp_buffer *values = NULL, *biases = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done,
                   dp_kernel_widen_tensor(context, input, DP_FLOAT, &work.values, &values));
  DP_GOTO_IF_ERROR(status, done,
                   dp_kernel_widen_tensor(context, bias, DP_FLOAT, &work.bias, &biases));
  work.to = values->data;
  run_add(context, &work);
  dp_kernel_narrow_tensor(context, work.to, output);
done:
  dp_buffer_release(values);
  dp_buffer_release(biases);
  return status;
}

/* ---- BiasAddGrad ---- */
#define PIECE 131072 /* elements per task */

typedef struct bias_gradient_work {
  const bias_state *state;
  bias_sizes sizes;
  const char *from;
  char *partial; /* [pieces, channels] */
  int64_t piece; /* rows per task, or images when channels come first */
} bias_gradient_work;

/* Sums of rows [begin * piece, end * piece): one row of results per piece. */
static void sum_pieces(void *arg, int64_t begin, int64_t end) {
  const bias_gradient_work *work = arg;
  size_t size = dp_dtype_size(work->state->work);
  int64_t channels = work->sizes.channels;
  for (int64_t i = begin; i < end; ++i) {
    int64_t first = i * work->piece, count = work->sizes.outer - first;
    count = count < work->piece ? count : work->piece;
    work->state->sum.columns(work->from + first * channels * size,
                             work->partial + i * channels * size, count, channels, channels);
  }
}

/* One sum per image and channel. */
static void sum_planes(void *arg, int64_t begin, int64_t end) {
  const bias_gradient_work *work = arg;
  size_t size = dp_dtype_size(work->state->work);
  work->state->sum.rows(work->from + begin * work->sizes.inner * size, work->partial + begin * size,
                        end - begin, work->sizes.inner);
}

static dp_status *run_gradient(dp_op_context *context, bias_gradient_work *work, void *to) {
  size_t size = dp_dtype_size(work->state->work);
  bias_sizes sizes = work->sizes;
  int64_t pieces = sizes.outer;
  if (!work->state->channels_first) {
    work->piece = PIECE / (sizes.channels > 0 ? sizes.channels : 1);
    work->piece = work->piece < 8 ? 8 : work->piece;
    pieces = (sizes.outer + work->piece - 1) / work->piece;
  }
  dp_buffer *partial = NULL;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)(pieces * sizes.channels) * size, &partial));
  work->partial = partial->data;
  if (work->state->channels_first)
    dp_op_for(context, pieces * sizes.channels, sizes.inner * (int64_t)size / 16 + 3, sum_planes,
              work);
  else
    dp_op_for(context, pieces, work->piece * sizes.channels * (int64_t)size / 16 + 3, sum_pieces,
              work);
  work->state->sum.columns(partial->data, to, pieces, sizes.channels, sizes.channels);
  dp_buffer_release(partial);
  return NULL;
}

static dp_status *bias_gradient_compute(dp_op_context *context, void *memory) {
  const bias_state *state = memory;
  const dp_tensor *gradient = dp_op_input(context, 0);
  if (gradient->shape.rank < 2)
    return DP_INVALID("Input tensor must be at least 2D: %s", dp_shape_text(&gradient->shape));
  bias_gradient_work work = {.state = state, .sizes = sizes_of(state, &gradient->shape)};
  dp_shape shape = dp_shape_vector(work.sizes.channels);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  const void *from;
  dp_buffer *widened;
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(context, gradient, state->work, &from, &widened));
  work.from = from;
  dp_buffer *sums = NULL;
  dp_status *status = NULL;
  bool is_short = state->work != state->dtype;
  if (is_short)
    DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)shape.elements * sizeof(float), &sums));
  DP_GOTO_IF_ERROR(status, done,
                   run_gradient(context, &work, is_short ? sums->data : output->data));
  if (is_short)
    dp_kernel_narrow_tensor(context, sums->data, output);
done:
  dp_buffer_release(widened);
  dp_buffer_release(sums);
  return status;
}

/* ---- L2Loss: half the sum of the squares ---- */
typedef struct square_work {
  const bias_state *state;
  const char *from;
  char *partial;
  int64_t count;
} square_work;

static void sum_squares(void *arg, int64_t begin, int64_t end) {
  const square_work *work = arg;
  size_t size = dp_dtype_size(work->state->work);
  for (int64_t i = begin; i < end; ++i) {
    int64_t first = i * PIECE, count = work->count - first < PIECE ? work->count - first : PIECE;
    work->state->square_sum.rows(work->from + first * size, work->partial + i * size, 1, count);
  }
}

static dp_status *l2_loss_compute(dp_op_context *context, void *memory) {
  const bias_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  square_work work = {.state = state, .count = dp_tensor_elements(input)};
  dp_shape shape = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  const void *from;
  dp_buffer *widened, *partial = NULL;
  dp_status *status;
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(context, input, state->work, &from, &widened));
  work.from = from;
  int64_t pieces = (work.count + PIECE - 1) / PIECE;
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)(pieces + 1) * sizeof(double), &partial));
  work.partial = partial->data;
  dp_op_for(context, pieces, PIECE / 4, sum_squares, &work);
  if (state->work == DP_DOUBLE) {
    state->sum.rows(partial->data, output->data, 1, pieces);
    *(double *)output->data *= 0.5;
  } else {
    float total;
    state->sum.rows(partial->data, &total, 1, pieces);
    total *= 0.5f;
    if (state->dtype == DP_FLOAT)
      *(float *)output->data = total;
    else
      dp_kernel_narrow(state->dtype, &total, output->data, 1);
  }
done:
  dp_buffer_release(widened);
  dp_buffer_release(partial);
  return status;
}

#define ROW(name, set, run)                                                                        \
  {                                                                                                \
    .op = name, .types = {{"T", set}}, .state_size = sizeof(bias_state), .create = bias_create,    \
    .compute = run                                                                                 \
  }
static const dp_kernel rows[] = {
    ROW("BiasAdd", DP_SET_NUMBERS, bias_compute),
    ROW("BiasAddV1", DP_SET_NUMBERS, bias_compute),
    ROW("BiasAddGrad", DP_SET_NUMBERS, bias_gradient_compute),
    ROW("L2Loss", DP_SET_FLOATS, l2_loss_compute),
};
DP_KERNEL_FAMILY(bias, rows);
