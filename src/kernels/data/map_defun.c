/* MapDefun: calls a function for every row of its arguments and stacks the results. A limited
 * number of calls runs at a time, so that a long batch does not hold the arguments of all calls at
 * once. It blocks on a thread of dp_dataset_run. The first error ends the run. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/pieces.h"

#define MOST_CALLS 64

typedef struct map_run {
  dp_op_context *context;
  dp_captured function;
  int32_t argument_count;
  int64_t size; /* rows */
  const dp_attr *shapes;
  pthread_mutex_t lock; /* guards the fields below */
  pthread_cond_t changed;
  int in_flight;
  dp_status *status; /* the first error */
} map_run;

/* Lives from the start of a call to its end. */
typedef struct row_call {
  map_run *run;
  int64_t row;
} row_call;

/* ---- Results ---- */
/* Allocates the output at the first result, which gives its shape. Under the lock. */
static dp_status *make_output(map_run *run, int32_t index, const dp_tensor *result) {
  dp_tensor *output = &run->context->outputs[index].tensor;
  const dp_partial_shape *expected = &run->shapes->shapes[index];
  dp_shape shape;
  if (result->dtype != dp_op_output_type(run->context, index))
    return DP_INVALID("Mismatch in function return type and expected output type for output: %d",
                      index);
  if (!output->buffer && dp_partial_shape_accepts(expected, &result->shape)) {
    DP_RETURN_IF_ERROR(dp_pieces_shape(run->size, &result->shape, &shape));
    return dp_tensor_create(result->dtype, &shape, output);
  }
  if (output->buffer) {
    shape = dp_shape_remove(&output->shape, 0);
    if (dp_shape_equal(&shape, &result->shape))
      return NULL;
  }
  return DP_INVALID("Mismatch in function retval shape, %s, and expected output shape, %s.",
                    dp_shape_text(&result->shape),
                    output->buffer ? dp_shape_text(&shape) : dp_partial_shape_text(expected));
}

static dp_status *store_row(map_run *run, int64_t row, const dp_tensor *results, int32_t count) {
  if (count != run->context->output_count)
    return DP_INVALID("Mismatch in number of function outputs.");
  for (int32_t i = 0; i < count; ++i) {
    pthread_mutex_lock(&run->lock);
    dp_status *status = make_output(run, i, &results[i]);
    pthread_mutex_unlock(&run->lock);
    DP_RETURN_IF_ERROR(status);
    size_t offset = (size_t)(row * results[i].shape.elements) * dp_dtype_size(results[i].dtype);
    dp_tensor_copy_elements(results[i].dtype, (char *)run->context->outputs[i].tensor.data + offset,
                            results[i].data, results[i].shape.elements);
  }
  return NULL;
}

static void end_row(void *arg, dp_status *status, dp_tensor *results, int32_t count) {
  row_call *call = arg;
  map_run *run = call->run;
  if (!status)
    status = store_row(run, call->row, results, count);
  dp_free(call);
  pthread_mutex_lock(&run->lock);
  --run->in_flight;
  if (run->status)
    dp_status_release(status);
  else
    run->status = status;
  pthread_cond_broadcast(&run->changed);
  pthread_mutex_unlock(&run->lock);
}

/* ---- Calls ---- */
static dp_status *call_row(map_run *run, int64_t row) {
  dp_tensor *arguments = dp_element_create(run->argument_count);
  dp_status *status = NULL;
  for (int32_t i = 0; i < run->argument_count && !status; ++i) {
    const dp_tensor *tensor = dp_op_input(run->context, i);
    dp_shape shape = dp_shape_remove(&tensor->shape, 0);
    status = dp_pieces_cut(tensor, row, row + 1, &shape, &arguments[i]);
  }
  if (!status) {
    row_call *call = DP_NEW(row_call);
    *call = (row_call){run, row};
    pthread_mutex_lock(&run->lock);
    ++run->in_flight;
    pthread_mutex_unlock(&run->lock);
    dp_captured_call(&run->function, run->context->step->cancel, arguments, run->argument_count,
                     end_row, call);
  }
  dp_element_destroy(arguments, run->argument_count);
  return status;
}

/* Waits until fewer than `most` calls run. False when one has failed. */
static bool wait_for_calls(map_run *run, int most) {
  pthread_mutex_lock(&run->lock);
  while (run->in_flight >= most)
    pthread_cond_wait(&run->changed, &run->lock);
  bool is_fine = !run->status;
  pthread_mutex_unlock(&run->lock);
  return is_fine;
}

static dp_status *call_rows(map_run *run) {
  dp_status *status = NULL;
  for (int64_t row = 0; row < run->size && !status && wait_for_calls(run, MOST_CALLS); ++row)
    status = call_row(run, row);
  wait_for_calls(run, 1);
  if (!status)
    return run->status;
  dp_status_release(run->status);
  return status;
}

/* Without rows, only the node's attributes give the shapes. */
static dp_status *output_nothing(map_run *run) {
  for (int32_t i = 0; i < run->context->output_count; ++i) {
    const dp_partial_shape *partial = &run->shapes->shapes[i];
    dp_shape inner, shape;
    dp_tensor *output;
    if (!dp_partial_shape_is_known(partial))
      return dp_status_create(DP_INTERNAL, "Missing %d-th output from {{node %s}}", i,
                              run->context->node->name);
    DP_RETURN_IF_ERROR(dp_shape_make(partial->rank, partial->dims, &inner));
    DP_RETURN_IF_ERROR(dp_pieces_shape(0, &inner, &shape));
    DP_RETURN_IF_ERROR(dp_op_allocate(run->context, i, &shape, &output));
  }
  return NULL;
}

static dp_status *check_arguments(map_run *run) {
  for (int32_t i = 0; i < run->argument_count; ++i) {
    const dp_shape *shape = &dp_op_input(run->context, i)->shape;
    if (shape->rank == 0)
      return DP_INVALID("All inputs must have rank at least 1. Input %d has a rank of 0.", i);
    if (i == 0)
      run->size = shape->dims[0];
    if (shape->dims[0] != run->size)
      return DP_INVALID("All inputs must have the same dimension 0. Input %d has leading dimension "
                        "%lld, while all previous inputs have leading dimension %lld",
                        i, (long long)shape->dims[0], (long long)run->size);
  }
  return NULL;
}

static dp_status *map_rows(dp_op_context *context, void *state) {
  map_run run = {.context = context};
  int32_t begin;
  DP_RETURN_IF_ERROR(
      dp_node_get_list(context->node, "output_shapes", DP_ATTR_LIST_SHAPE, &run.shapes));
  if (run.shapes->count != context->output_count)
    return DP_INVALID("Length of output_shapes and output_types must match.");
  DP_RETURN_IF_ERROR(dp_node_input_range(context->node, "arguments", &begin, &run.argument_count));
  DP_RETURN_IF_ERROR(check_arguments(&run));
  DP_RETURN_IF_ERROR(dp_captured_init(&run.function, context, "f", "captured_inputs"));
  pthread_mutex_init(&run.lock, NULL);
  pthread_cond_init(&run.changed, NULL);
  dp_status *status = run.size > 0 ? call_rows(&run) : output_nothing(&run);
  pthread_cond_destroy(&run.changed);
  pthread_mutex_destroy(&run.lock);
  dp_captured_deinit(&run.function);
  return status;
}

static void map_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, map_rows);
}

static const dp_kernel rows[] = {
    {.op = "MapDefun", .compute_async = map_compute},
};
DP_KERNEL_FAMILY(map_defun, rows);
