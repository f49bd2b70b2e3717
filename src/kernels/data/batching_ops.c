/* Batch and BatchFunction: they run the tensors of concurrent steps as one batch.
 *
 * BatchFunction calls its function once per batch and gives each step its rows of the results.
 * Batch gives the concatenated tensors to the last step of a batch, with an index that says whose
 * rows are where; the other steps get empty tensors. Unbatch (batching_unbatch.c) gives the rows
 * back to their steps. Nodes with one shared name share a batcher, which has the options of the
 * node that came first. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "base/philox.h"
#include "kernels/data/batching_internal.h"
#include "kernels/shared/pieces.h"

typedef struct batching_state {
  dp_resource_name name;
  char *queue;
  dp_batch_options options;
  bool has_function;
  int32_t input_count; /* in_tensors */
  char **input_names;
} batching_state;

/* ---- Attributes ---- */
/* An integer attribute that the op does not define; `fallback` when the node has none. */
static int64_t hidden_int(const dp_node *node, const char *name, int64_t fallback) {
  const dp_attr *attr = dp_node_attr(node, name);
  return attr && attr->kind == DP_ATTR_INT ? attr->integer : fallback;
}

static dp_status *read_allowed(const dp_node *node, batching_state *state) {
  dp_batch_options *options = &state->options;
  const dp_attr *list;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "allowed_batch_sizes", DP_ATTR_LIST_INT, &list));
  for (int32_t i = 0; i < list->count; ++i) {
    if (i > 0 && list->integers[i] <= list->integers[i - 1])
      return DP_INVALID("allowed_batch_sizes entries must be monotonically increasing");
    DP_ARRAY_PUSH(&options->allowed, list->integers[i]);
  }
  if (list->count == 0)
    return NULL;
  int64_t last = list->integers[list->count - 1];
  if (!options->splits && last != options->input_limit)
    return DP_INVALID("final entry in allowed_batch_sizes must equal max_batch_size%s",
                      state->has_function ? " when enable_large_batch_splitting is False" : "");
  if (options->splits)
    options->batch_limit = last;
  return NULL;
}

/* Where the number of threads is not given, or is to adapt, TensorFlow adapts the number of
 * concurrent batches while it runs. We keep the number that it starts with. */
static void choose_threads(const dp_node *node, batching_state *state) {
  const dp_attr *adaptive = dp_node_attr(node, "_enable_adaptive_scheduler");
  bool is_adaptive = adaptive && adaptive->kind == DP_ATTR_BOOL && adaptive->boolean;
  if (!is_adaptive && state->options.threads > 0)
    return;
  int64_t threads = hidden_int(node, "_initial_inflight_batches", 2);
  state->options.threads = threads > 0 ? threads : 1;
  state->options.splits = true;
}

static dp_status *read_options(const dp_node *node, batching_state *state) {
  dp_batch_options *options = &state->options;
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "num_batch_threads", &options->threads));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "max_batch_size", &options->input_limit));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "batch_timeout_micros", &options->timeout_micros));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "max_enqueued_batches", &options->queue_limit));
  options->batch_limit = options->input_limit;
  if (state->has_function)
    DP_RETURN_IF_ERROR(dp_node_get_bool(node, "enable_large_batch_splitting", &options->splits));
  DP_RETURN_IF_ERROR(read_allowed(node, state));
  if (state->has_function)
    choose_threads(node, state);
  if (!options->splits && options->queue_limit == 0)
    options->queue_limit = 1; /* only the open batch, as in TensorFlow */
  return NULL;
}

static void keep_input_names(const dp_kernel_setup *setup, batching_state *state) {
  state->input_names = DP_NEW_ARRAY(char *, (size_t)state->input_count + 1);
  for (int32_t i = 0; i < state->input_count; ++i) {
    dp_input input = setup->node->inputs[i];
    dp_text text = {0};
    dp_text_printf(&text, "%s", dp_node_client_name(dp_graph_node(setup->graph, input.node)));
    if (input.output > 0)
      dp_text_printf(&text, ":%d", input.output);
    state->input_names[i] = dp_text_take(&text);
  }
}

static dp_status *create(const dp_kernel_setup *setup, void *memory) {
  batching_state *state = memory;
  int32_t begin;
  dp_view queue;
  state->has_function = dp_node_is(setup->node, "BatchFunction");
  DP_RETURN_IF_ERROR(dp_node_input_range(setup->node, "in_tensors", &begin, &state->input_count));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "batching_queue", &queue));
  state->queue = dp_strndup(queue.data, queue.length);
  DP_RETURN_IF_ERROR(read_options(setup->node, state));
  keep_input_names(setup, state);
  return dp_resource_name_init(&state->name, setup, true);
}

static void destroy(void *memory) {
  batching_state *state = memory;
  for (int32_t i = 0; state->input_names && i < state->input_count; ++i)
    dp_free(state->input_names[i]);
  dp_free(state->input_names);
  dp_free(state->queue);
  DP_ARRAY_FREE(&state->options.allowed);
  dp_resource_name_deinit(&state->name);
}

/* ---- Runs ---- */
static dp_status *join_inputs(const dp_batch *batch, dp_tensor *joined, int32_t count) {
  for (int64_t i = 0; i < batch->slot_count; ++i)
    if (batch->slots[i].input_count != count)
      return DP_INVALID("Batching inputs must have equal number of edges");
  for (int32_t i = 0; i < count; ++i)
    DP_RETURN_IF_ERROR(dp_batch_join_input(batch, i, &joined[i]));
  return NULL;
}

static void end_function(void *arg, dp_status *status, dp_tensor *results, int32_t count) {
  dp_batch *batch = arg;
  if (!status && count != batch->output_count)
    status = dp_status_create(DP_INTERNAL, "Wrong number of batched output tensors");
  for (int32_t i = 0; !status && i < count; ++i)
    status = dp_batch_cut_output(batch, i, &results[i]);
  dp_batch_end(batch, status);
}

static void run_function(dp_batch *batch) {
  int32_t count = batch->slots[batch->slot_count - 1].input_count;
  dp_tensor *arguments = dp_pieces_create(count);
  dp_status *status = join_inputs(batch, arguments, count);
  if (status)
    dp_batch_end(batch, status);
  else
    dp_captured_call(&batch->function, batch->cancel, arguments, count, end_function, batch);
  dp_pieces_destroy(arguments, count);
}

/* One row (id, begin, end) per call. */
static dp_status *make_index(const dp_batch *batch, dp_tensor *index_out) {
  dp_shape shape = dp_shape_matrix(batch->slot_count, 3);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, index_out));
  int64_t *entry = index_out->data, begin = 0;
  for (int64_t i = 0; i < batch->slot_count; ++i, entry += 3) {
    entry[0] = batch->slots[i].id;
    entry[1] = begin;
    entry[2] = begin += batch->slots[i].rows;
  }
  return NULL;
}

/* The outputs of a call that does not get the batch: tensors without rows, and its id. */
static dp_status *output_empty(dp_batch_slot *slot) {
  int32_t count = slot->input_count;
  for (int32_t i = 0; i < count; ++i) {
    dp_shape shape = dp_shape_with(&slot->inputs[i].shape, 0, 0);
    DP_RETURN_IF_ERROR(dp_tensor_create(slot->inputs[i].dtype, &shape, &slot->outputs[i]));
  }
  dp_shape shape = dp_shape_matrix(0, 3);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &shape, &slot->outputs[count]));
  return dp_tensor_scalar_int64(slot->id, &slot->outputs[count + 1]);
}

static dp_status *output_batch(dp_batch *batch) {
  int32_t count = batch->output_count - 2;
  batch->carried = dp_pieces_create(batch->output_count);
  DP_RETURN_IF_ERROR(join_inputs(batch, batch->carried, count));
  DP_RETURN_IF_ERROR(make_index(batch, &batch->carried[count]));
  for (int64_t i = 0; i < batch->slot_count; ++i)
    DP_RETURN_IF_ERROR(output_empty(&batch->slots[i]));
  return NULL;
}

static void run_batch(dp_batch *batch) {
  dp_batch_end(batch, output_batch(batch));
}

/* ---- The node ---- */
static dp_status *make_batcher(void *arg, dp_resource **resource_out) {
  const batching_state *state = arg;
  if (state->options.threads <= 0)
    return DP_INVALID("num_batch_threads must be positive; was %lld",
                      (long long)state->options.threads);
  dp_batcher *batcher =
      state->has_function
          ? dp_batcher_create(&dp_function_batcher_ops, &state->options, run_function)
          : dp_batcher_create(&dp_batcher_ops, &state->options, run_batch);
  *resource_out = &batcher->resource;
  return NULL;
}

static dp_status *find_batcher(dp_op_context *context, batching_state *state,
                               dp_batcher **batcher_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(
      context->device->resources, state->name.container, state->name.name,
      state->has_function ? &dp_function_batcher_ops : &dp_batcher_ops, make_batcher, state,
      &resource));
  *batcher_out = (dp_batcher *)resource;
  return NULL;
}

static dp_status *bad_inputs(const dp_op_context *context, const batching_state *state,
                             const char *what) {
  dp_text text = {0};
  for (int32_t i = 0; i < state->input_count; ++i)
    dp_text_printf(&text, " - %s has shape %s\n", state->input_names[i],
                   dp_shape_text(&dp_op_input(context, i)->shape));
  char *shapes = dp_text_take(&text);
  dp_status *status = DP_INVALID("%s\nBelow are the input tensors: \n%s", what, shapes);
  dp_free(shapes);
  return status;
}

static dp_status *check_inputs(const dp_op_context *context, const batching_state *state) {
  for (int32_t i = 0; i < state->input_count; ++i) {
    const dp_shape *shape = &dp_op_input(context, i)->shape;
    if (shape->rank == 0)
      return bad_inputs(context, state, "Batching input tensors must have at least one dimension.");
    if (shape->dims[0] != dp_op_input(context, 0)->shape.dims[0])
      return bad_inputs(context, state,
                        "Batching input tensors supplied in a given op invocation must have equal "
                        "0th-dimension size.");
  }
  return NULL;
}

static dp_status *check_function(const dp_op_context *context, const batching_state *state,
                                 const dp_function_instance *instance) {
  for (int32_t i = 0; i < state->input_count; ++i)
    if (dp_op_input(context, i)->dtype == DP_RESOURCE)
      return DP_INVALID("BatchFunction cannot take resource inputs but input %d is a resource.", i);
  int32_t count = dp_function_argument_count(instance);
  if (count != context->input_count)
    return DP_INVALID("Function takes %d argument(s) but %d argument(s) were passed", count,
                      context->input_count);
  return NULL;
}

static dp_status *output_nothing(dp_op_context *context) {
  dp_shape shape = dp_shape_vector(0);
  dp_tensor *output;
  for (int32_t i = 0; i < context->output_count; ++i)
    DP_RETURN_IF_ERROR(dp_op_allocate(context, i, &shape, &output));
  return NULL;
}

/* Checks the inputs. Sets *batcher_out, which the caller releases, unless there is an error or the
 * call has no rows; in the latter case the outputs are written. */
static dp_status *begin(dp_op_context *context, batching_state *state, dp_captured *function,
                        dp_batcher **batcher_out) {
  if (state->has_function) {
    DP_RETURN_IF_ERROR(dp_captured_init(function, context, "f", "captured_tensors"));
    DP_RETURN_IF_ERROR(check_function(context, state, function->instance));
  }
  dp_batcher *batcher;
  DP_RETURN_IF_ERROR(find_batcher(context, state, &batcher));
  dp_status *status = check_inputs(context, state);
  if (!status && dp_op_input(context, 0)->shape.dims[0] > 0) {
    *batcher_out = batcher;
    return NULL;
  }
  dp_resource_release(batcher);
  return status ? status : output_nothing(context);
}

static void compute(dp_op_context *context, void *memory) {
  batching_state *state = memory;
  dp_captured function = {0};
  dp_batcher *batcher = NULL;
  dp_status *status = begin(context, state, &function, &batcher);
  if (!batcher) {
    dp_captured_deinit(&function);
    dp_op_done(context, status);
    return;
  }
  dp_batch_call *call =
      dp_batch_call_create(context, state->input_count, dp_op_input(context, 0)->shape.dims[0]);
  call->id = (int64_t)dp_random_seed();
  call->function = function;
  dp_batcher_start(batcher, state->queue, call);
}

static const dp_kernel rows[] = {
    {.op = "Batch",
     .state_size = sizeof(batching_state),
     .create = create,
     .compute_async = compute,
     .destroy = destroy},
    {.op = "BatchFunction",
     .state_size = sizeof(batching_state),
     .create = create,
     .compute_async = compute,
     .destroy = destroy},
};
DP_KERNEL_FAMILY(batching, rows);
