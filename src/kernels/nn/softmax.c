/* Softmax, LogSoftmax and the two cross entropies (dense and sparse labels). Rows are split over
 * the pool; 16-bit floats are widened to float, one block of rows at a time. */
#include "kernels/shared/family.h"

#include "kernels/loops/softmax.h"
#include "kernels/shared/support.h"
#include "kernels/shared/widen.h"

typedef struct softmax_state {
  const dp_softmax_fns *fns;
  dp_dtype dtype;
  bool is_log;
} softmax_state;

static dp_status *softmax_create(const dp_kernel_setup *setup, void *memory) {
  softmax_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  const dp_softmax_loops *loops = dp_softmax_table();
  state->fns = state->dtype == DP_DOUBLE ? &loops->double_fns : &loops->float_fns;
  state->is_log = dp_node_is(setup->node, "LogSoftmax");
  return NULL;
}

static int64_t row_cost(const softmax_state *state, int64_t classes) {
  return classes * (state->dtype == DP_DOUBLE ? 10 : 2) + 10;
}

/* ---- Softmax ---- */
typedef struct softmax_work {
  const softmax_state *state;
  const void *from;
  void *to;
  int64_t classes;
} softmax_work;

static void run_rows(void *arg, int64_t begin, int64_t end) {
  const softmax_work *work = arg;
  dp_dtype type = dp_kernel_work_type(work->state->dtype);
  int64_t offset = begin * work->classes * (int64_t)dp_dtype_size(type);
  const dp_softmax_fns *fns = work->state->fns;
  (work->state->is_log ? fns->log_softmax : fns->softmax)(
      (const char *)work->from + offset, (char *)work->to + offset, end - begin, work->classes);
}

static dp_status *softmax_compute(dp_op_context *context, void *memory) {
  const softmax_state *state = memory;
  const dp_tensor *logits = dp_op_input(context, 0);
  dp_shape shape = logits->shape;
  if (shape.rank < 1)
    return DP_INVALID("logits must have >= 1 dimension, got %s", dp_shape_text(&shape));
  softmax_work work = {state, logits->data, NULL, shape.dims[shape.rank - 1]};
  dp_tensor *output;
  if (!dp_kernel_is_short_float(state->dtype)) {
    DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
    work.to = output->data;
    if (shape.elements > 0)
      dp_op_for(context, shape.elements / work.classes, row_cost(state, work.classes), run_rows,
                &work);
    return NULL;
  }
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  dp_buffer *buffer;
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(context, logits, DP_FLOAT, &work.from, &buffer));
  work.to = buffer->data;
  dp_op_for(context, shape.elements / work.classes, row_cost(state, work.classes), run_rows, &work);
  dp_kernel_narrow_tensor(context, buffer->data, output);
  dp_buffer_release(buffer);
  return NULL;
}

/* ---- Cross entropies ---- */
/* Operands and results in the type of the loops. A buffer is NULL where the tensor has that type
 * itself. */
typedef struct entropy_work {
  const softmax_state *state;
  dp_softmax_rows logits, labels;
  const int64_t *indices; /* instead of labels */
  void *loss, *gradient;
  int64_t rows, classes;
  dp_buffer *logits_buffer, *labels_buffer, *index_buffer, *loss_buffer, *gradient_buffer;
} entropy_work;

static void run_entropy(void *arg, int64_t begin, int64_t end) {
  const entropy_work *work = arg;
  int64_t size = (int64_t)dp_dtype_size(dp_kernel_work_type(work->state->dtype));
  void *loss = (char *)work->loss + begin * size;
  void *gradient = (char *)work->gradient + begin * work->classes * size;
  dp_softmax_rows logits = work->logits, labels = work->labels;
  logits.data = (const char *)logits.data + begin * logits.row * size;
  if (work->indices) {
    work->state->fns->sparse_cross_entropy(logits.data, work->indices + begin, loss, gradient,
                                           end - begin, work->classes);
    return;
  }
  labels.data = (const char *)labels.data + begin * labels.row * size;
  work->state->fns->cross_entropy(&logits, &labels, loss, gradient, end - begin, work->classes);
}

/* Memory for a result: the output's own, or a buffer of floats. */
static dp_status *result_memory(const softmax_state *state, dp_tensor *output, void **data_out,
                                dp_buffer **buffer_out) {
  *data_out = output->data;
  if (!dp_kernel_is_short_float(state->dtype))
    return NULL;
  size_t bytes = (size_t)dp_tensor_elements(output) * sizeof(float);
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, buffer_out));
  *data_out = (*buffer_out)->data;
  return NULL;
}

static dp_status *run_all(dp_op_context *context, entropy_work *work, dp_tensor *loss,
                          dp_tensor *gradient) {
  const softmax_state *state = work->state;
  DP_RETURN_IF_ERROR(result_memory(state, loss, &work->loss, &work->loss_buffer));
  DP_RETURN_IF_ERROR(result_memory(state, gradient, &work->gradient, &work->gradient_buffer));
  dp_op_for(context, work->rows, 2 * row_cost(state, work->classes), run_entropy, work);
  if (dp_kernel_is_short_float(state->dtype)) {
    dp_kernel_narrow_tensor(context, work->loss, loss);
    dp_kernel_narrow_tensor(context, work->gradient, gradient);
  }
  return NULL;
}

static void release_buffers(entropy_work *work) {
  dp_buffer_release(work->logits_buffer);
  dp_buffer_release(work->labels_buffer);
  dp_buffer_release(work->index_buffer);
  dp_buffer_release(work->loss_buffer);
  dp_buffer_release(work->gradient_buffer);
}

/* The strides with which a [rows, classes] result reads an operand of rank 0 to 2 that is
 * broadcast. */
static void set_strides(dp_softmax_rows *rows, const dp_shape *shape) {
  int64_t columns = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
  int64_t count = shape->rank > 1 ? shape->dims[0] : 1;
  rows->column = columns > 1 ? 1 : 0;
  rows->row = count > 1 ? columns : 0;
}

static dp_status *entropy_compute(dp_op_context *context, void *memory) {
  entropy_work work = {.state = memory};
  const dp_tensor *logits = dp_op_input(context, 0), *labels = dp_op_input(context, 1);
  dp_shape shape;
  if (!dp_shape_broadcast(&logits->shape, &labels->shape, &shape))
    return DP_INVALID("logits and labels must be broadcastable: logits_size=%s labels_size=%s",
                      dp_shape_text(&logits->shape), dp_shape_text(&labels->shape));
  if (shape.rank != 2)
    return DP_INVALID(
        "logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional");
  work.rows = shape.dims[0];
  work.classes = shape.dims[1];
  set_strides(&work.logits, &logits->shape);
  set_strides(&work.labels, &labels->shape);
  if (work.classes == 1)
    work.logits.column = work.labels.column = 1;
  dp_dtype type = dp_kernel_work_type(work.state->dtype);
  dp_shape loss_shape = dp_shape_vector(work.rows);
  dp_tensor *loss, *gradient;
  dp_status *status = NULL;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &loss_shape, &loss));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &gradient));
  if (work.rows == 0)
    return NULL;
  DP_GOTO_IF_ERROR(
      status, done,
      dp_kernel_widen_tensor(context, logits, type, &work.logits.data, &work.logits_buffer));
  DP_GOTO_IF_ERROR(
      status, done,
      dp_kernel_widen_tensor(context, labels, type, &work.labels.data, &work.labels_buffer));
  status = run_all(context, &work, loss, gradient);
done:
  release_buffers(&work);
  return status;
}

static dp_status *check_sparse(const dp_tensor *logits, const dp_tensor *labels) {
  if (logits->shape.rank != 2)
    return DP_INVALID("logits must be 2-D, but got shape %s", dp_shape_text(&logits->shape));
  if (labels->shape.rank != 1)
    return DP_INVALID("labels must be 1-D, but got shape %s", dp_shape_text(&labels->shape));
  if (logits->shape.dims[0] != labels->shape.dims[0])
    return DP_INVALID("logits and labels must have the same first dimension, got logits shape %s "
                      "and labels shape %s",
                      dp_shape_text(&logits->shape), dp_shape_text(&labels->shape));
  if (logits->shape.dims[1] <= 0)
    return DP_INVALID("Must have at least one class, but got logits shape %s",
                      dp_shape_text(&logits->shape));
  return NULL;
}

/* Labels as 64-bit integers, all within [0, classes). */
static dp_status *read_labels(const dp_tensor *labels, int64_t classes, entropy_work *work) {
  int64_t count = dp_tensor_elements(labels), least = 0, most = 0;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)count * sizeof(int64_t), &work->index_buffer));
  int64_t *indices = work->index_buffer->data;
  for (int64_t i = 0; i < count; ++i) {
    indices[i] = dp_tensor_int_at(labels, i);
    least = indices[i] < least ? indices[i] : least;
    most = indices[i] > most ? indices[i] : most;
  }
  work->indices = indices;
  if (least >= 0 && most < classes)
    return NULL;
  dp_text text = {0};
  dp_tensor_summarize(labels, count, &text);
  dp_status *status =
      DP_INVALID("Received a label value of %lld which is outside the valid range of [0, %lld).  "
                 "Label values: %s",
                 (long long)(least < 0 ? least : most), (long long)classes, dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

static dp_status *sparse_entropy_compute(dp_op_context *context, void *memory) {
  entropy_work work = {.state = memory};
  const dp_tensor *logits = dp_op_input(context, 0), *labels = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_sparse(logits, labels));
  work.rows = logits->shape.dims[0];
  work.classes = logits->shape.dims[1];
  work.logits.row = work.classes;
  dp_dtype type = dp_kernel_work_type(work.state->dtype);
  dp_shape loss_shape = labels->shape, shape = logits->shape;
  dp_tensor *loss, *gradient;
  dp_status *status = NULL;
  DP_GOTO_IF_ERROR(status, done, read_labels(labels, work.classes, &work));
  DP_GOTO_IF_ERROR(
      status, done,
      dp_kernel_widen_tensor(context, logits, type, &work.logits.data, &work.logits_buffer));
  DP_GOTO_IF_ERROR(status, done, dp_op_allocate(context, 0, &loss_shape, &loss));
  DP_GOTO_IF_ERROR(status, done, dp_op_allocate_or_forward(context, 0, 1, &shape, &gradient));
  status = run_all(context, &work, loss, gradient);
done:
  release_buffers(&work);
  return status;
}

#define ROW(name, run)                                                                             \
  {                                                                                                \
    .op = name, .types = {{"T", DP_SET_FLOATS}}, .state_size = sizeof(softmax_state),              \
    .create = softmax_create, .compute = run                                                       \
  }
static const dp_kernel rows[] = {
    ROW("Softmax", softmax_compute),
    ROW("LogSoftmax", softmax_compute),
    ROW("SoftmaxCrossEntropyWithLogits", entropy_compute),
    ROW("SparseSoftmaxCrossEntropyWithLogits", sparse_entropy_compute),
};
DP_KERNEL_FAMILY(softmax, rows);
