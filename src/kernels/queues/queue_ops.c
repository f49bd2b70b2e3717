/* The ops of queues. A queue is a resource of its device, under a container and a name. A queue
 * without a shared name belongs to its node and is destroyed with the node's kernel. Reference
 * handles (first form) and resource handles (second form) lead to the same queues. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/queues/queue_internal.h"
#include "kernels/shared/handle.h"

/* ---- Making ---- */
typedef struct queue_make_state {
  dp_resource_name name;
  dp_resources *resources;
  const char *op;
  dp_queue_options options; /* owns its arrays */
} queue_make_state;

static dp_queue_kind kind_of(const dp_node *node) {
  if (strncmp(node->op->name, "Padding", 7) == 0)
    return DP_QUEUE_PADDING;
  if (strncmp(node->op->name, "Random", 6) == 0)
    return DP_QUEUE_SHUFFLE;
  return strncmp(node->op->name, "Priority", 8) == 0 ? DP_QUEUE_PRIORITY : DP_QUEUE_FIFO;
}

static dp_status *refuse_shapes(const dp_attr *types, const dp_attr *shapes) {
  dp_text text = {0};
  dp_text_printf(&text, "Different number of component types.  Types: ");
  for (int32_t i = 0; i < types->count; ++i)
    dp_text_printf(&text, "%s%s", i ? ", " : "", dp_dtype_name((dp_dtype)types->types[i]));
  dp_text_printf(&text, ", Shapes: [");
  for (int32_t i = 0; i < shapes->count; ++i)
    dp_text_printf(&text, "%s%s", i ? "," : "", dp_partial_shape_text(&shapes->shapes[i]));
  dp_status *status = DP_INVALID("%s]", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

/* Component 0 of a priority queue is the priority, which the attributes do not mention. */
static dp_status *read_components(const dp_node *node, dp_queue_options *options) {
  const dp_attr *types, *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "component_types", DP_ATTR_LIST_TYPE, &types));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "shapes", DP_ATTR_LIST_SHAPE, &shapes));
  int32_t extra = options->kind == DP_QUEUE_PRIORITY;
  options->dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)(types->count + extra + 1));
  options->shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)(shapes->count + extra + 1));
  options->component_count = types->count + extra;
  options->dtypes[0] = DP_INT64;
  for (int32_t i = 0; i < types->count; ++i)
    options->dtypes[i + extra] = (dp_dtype)types->types[i];
  options->shape_count = shapes->count + extra;
  for (int32_t i = 0; i < shapes->count; ++i) {
    const dp_partial_shape *shape = &shapes->shapes[i];
    if (options->kind == DP_QUEUE_PADDING && shape->rank < 0)
      return DP_INVALID("shape %s must have known rank.", dp_partial_shape_text(shape));
    if (options->kind != DP_QUEUE_PADDING && !dp_partial_shape_is_known(shape))
      return DP_INVALID("Attr shapes of a queue must be fully defined, but shape %d is %s", i,
                        dp_partial_shape_text(shape));
    options->shapes[i + extra] = *shape;
  }
  if (options->shape_count != 0 && options->shape_count != options->component_count)
    return refuse_shapes(types, shapes);
  return NULL;
}

static dp_status *read_shuffle(const dp_node *node, dp_queue_options *options) {
  int64_t seed, seed2;
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "min_after_dequeue", &options->min_after_dequeue));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "seed", &seed));
  DP_RETURN_IF_ERROR(dp_node_get_int(node, "seed2", &seed2));
  options->seed = (uint64_t)seed;
  options->seed2 = (uint64_t)seed2;
  if (options->min_after_dequeue < 0)
    return DP_INVALID("min_after_dequeue %lld must be >= 0", (long long)options->min_after_dequeue);
  if (options->min_after_dequeue >= options->capacity)
    return DP_INVALID("min_after_dequeue %lld must be < capacity %lld",
                      (long long)options->min_after_dequeue, (long long)options->capacity);
  return NULL;
}

static dp_status *make_create(const dp_kernel_setup *setup, void *memory) {
  queue_make_state *state = memory;
  dp_queue_options *options = &state->options;
  options->kind = kind_of(setup->node);
  state->op = setup->node->op->name;
  state->resources = dp_resources_retain(setup->device->resources);
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "capacity", &options->capacity));
  if (options->capacity < 0)
    options->capacity = DP_QUEUE_UNBOUNDED;
  DP_RETURN_IF_ERROR(read_components(setup->node, options));
  if (options->kind == DP_QUEUE_SHUFFLE)
    DP_RETURN_IF_ERROR(read_shuffle(setup->node, options));
  return dp_resource_name_init(&state->name, setup, false);
}

static void make_destroy(void *memory) {
  queue_make_state *state = memory;
  if (state->name.is_private)
    dp_status_release(dp_resources_remove(state->resources, state->name.container, state->name.name,
                                          dp_queue_ops.type_name));
  dp_resources_release(state->resources);
  dp_resource_name_deinit(&state->name);
  dp_queue_options_deinit(&state->options);
}

static dp_status *make_queue(void *arg, dp_resource **resource_out) {
  const queue_make_state *state = arg;
  dp_queue_options options = state->options;
  size_t types = (size_t)options.component_count + 1, shapes = (size_t)options.shape_count + 1;
  options.dtypes = dp_memdup(options.dtypes, sizeof(dp_dtype) * types);
  options.shapes = dp_memdup(options.shapes, sizeof(dp_partial_shape) * shapes);
  dp_queue *queue;
  DP_RETURN_IF_ERROR(dp_queue_create(state->name.name, &options, &queue));
  *resource_out = &queue->resource;
  return NULL;
}

/* ---- Checks that a shared queue has the attributes of this node ---- */
static void print_types(const dp_queue_options *options, dp_text *text) {
  for (int32_t i = 0; i < options->component_count; ++i)
    dp_text_printf(text, "%s%s", i ? ", " : "", dp_dtype_name(options->dtypes[i]));
}

static void print_shapes(const dp_queue_options *options, dp_text *text) {
  dp_text_add_char(text, '[');
  for (int32_t i = 0; i < options->shape_count; ++i)
    dp_text_printf(text, "%s%s", i ? ", " : "", dp_partial_shape_text(&options->shapes[i]));
  dp_text_add_char(text, ']');
}

static dp_status *differs(const dp_queue *queue, const dp_queue_options *wanted, const char *what,
                          void (*print)(const dp_queue_options *, dp_text *)) {
  dp_text has = {0}, asked = {0};
  print(&queue->options, &has);
  print(wanted, &asked);
  dp_status *status =
      DP_INVALID("Shared queue '%s' has component %s %s but requested component "
                 "%s were %s",
                 queue->name, what, dp_text_string(&has), what, dp_text_string(&asked));
  dp_text_deinit(&has);
  dp_text_deinit(&asked);
  return status;
}

static bool same_shapes(const dp_queue_options *a, const dp_queue_options *b) {
  if (a->shape_count != b->shape_count)
    return false;
  for (int32_t i = 0; i < a->shape_count; ++i) {
    dp_partial_shape merged;
    if (a->shapes[i].rank != b->shapes[i].rank ||
        !dp_partial_shape_merge(&a->shapes[i], &b->shapes[i], &merged))
      return false;
  }
  return true;
}

static dp_status *check_queue(const dp_queue *queue, const queue_make_state *state) {
  const dp_queue_options *has = &queue->options, *wanted = &state->options;
  if (has->kind != wanted->kind)
    return DP_INVALID("Expected %s, found %s", dp_queue_kind_name(has->kind), state->op);
  if (has->capacity != wanted->capacity)
    return DP_INVALID("Shared queue '%s' has capacity %lld but requested capacity was %lld",
                      queue->name, (long long)has->capacity, (long long)wanted->capacity);
  if (has->kind == DP_QUEUE_SHUFFLE && has->min_after_dequeue != wanted->min_after_dequeue)
    return DP_INVALID("Shared queue '%s' has min_after_dequeue %lld but requested "
                      "min_after_dequeue was %lld.",
                      queue->name, (long long)has->min_after_dequeue,
                      (long long)wanted->min_after_dequeue);
  if (has->kind == DP_QUEUE_SHUFFLE && (wanted->seed || wanted->seed2) &&
      (has->seed != wanted->seed || has->seed2 != wanted->seed2))
    return DP_INVALID("Shared queue '%s' has random seeds (%lld, %lld) but requested seeds are "
                      "(%lld, %lld).",
                      queue->name, (long long)has->seed, (long long)has->seed2,
                      (long long)wanted->seed, (long long)wanted->seed2);
  if (has->component_count != wanted->component_count ||
      memcmp(has->dtypes, wanted->dtypes, sizeof(dp_dtype) * (size_t)has->component_count) != 0)
    return differs(queue, wanted, "types", print_types);
  return same_shapes(has, wanted) ? NULL : differs(queue, wanted, "shapes", print_shapes);
}

static dp_status *make_compute(dp_op_context *context, void *memory) {
  queue_make_state *state = memory;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, state->name.container,
                                                 state->name.name, &dp_queue_ops, make_queue, state,
                                                 &resource));
  dp_status *status = check_queue((dp_queue *)resource, state);
  if (!status)
    status = dp_handle_output(context, 0, resource, state->name.container, state->name.name, false);
  dp_resource_release(resource);
  return status;
}

/* A reference handle for a queue with a resource handle. */
static dp_status *fake_compute(dp_op_context *context, void *memory) {
  const dp_resource_handle *handle = dp_tensor_handles(dp_op_input(context, 0))[0];
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_op_resource(context, 0, &dp_queue_ops, &resource));
  dp_status *status =
      dp_handle_output(context, 0, resource, handle->container, handle->name, false);
  dp_resource_release(resource);
  return status;
}

/* ---- Using: one object per run, from the node's start to its end ---- */
typedef struct queue_run {
  dp_op_context *context;
  dp_queue *queue; /* retained */
} queue_run;

static void on_done(void *arg, dp_status *status, dp_tensor *tuple) {
  queue_run *run = arg;
  dp_op_context *context = run->context;
  for (int32_t i = 0; tuple && i < context->output_count; ++i)
    dp_op_set_output(context, i, &tuple[i]);
  dp_queue *queue = run->queue;
  dp_free(run);
  dp_op_done(context, status);
  dp_resource_release(queue);
}

static dp_status *get_queue(dp_op_context *context, dp_queue **queue_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_handle_input(context, 0, &dp_queue_ops, DP_HANDLE_RULE, &resource));
  *queue_out = (dp_queue *)resource;
  return NULL;
}

static queue_run *start_run(dp_op_context *context, dp_queue *queue) {
  queue_run *run = DP_NEW(queue_run);
  run->context = context;
  run->queue = queue;
  return run;
}

static void refuse(dp_op_context *context, dp_queue *queue, dp_status *status) {
  dp_resource_release(queue);
  dp_op_done(context, status);
}

static dp_status *access_create(const dp_kernel_setup *setup, void *memory) {
  int64_t timeout;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "timeout_ms", &timeout));
  return timeout == -1 ? NULL : DP_INVALID("Timeout not supported yet.");
}

/* Checks the dtypes against the queue's components; the error prints both signatures as TensorFlow
 * does. */
static dp_status *check_signature(const dp_op_context *context, const dp_queue *queue,
                                  const int32_t *types, int32_t count, bool is_input) {
  const dp_queue_options *options = &queue->options;
  bool fits = count == options->component_count;
  for (int32_t i = 0; fits && i < count; ++i)
    fits = dp_dtype_base(types[i]) == options->dtypes[i];
  if (fits)
    return NULL;
  dp_text have = {0}, expected = {0};
  for (int32_t i = 0; i < count; ++i)
    dp_text_printf(&have, "%s%s", i ? ", " : "", dp_dtype_name(types[i]));
  for (int32_t i = 0; i < options->component_count; ++i)
    dp_text_printf(&expected, "%s%s", i ? ", " : "", dp_dtype_name(options->dtypes[i]));
  const char *handle = dp_dtype_name(context->node->input_types[0]);
  dp_status *status =
      is_input ? DP_INVALID("Signature mismatch, have: %s, %s-> expected: %s, %s->", handle,
                            dp_text_string(&have), handle, dp_text_string(&expected))
               : DP_INVALID("Signature mismatch, have: %s->%s expected: %s->%s", handle,
                            dp_text_string(&have), handle, dp_text_string(&expected));
  dp_text_deinit(&have);
  dp_text_deinit(&expected);
  return status;
}

static void enqueue(dp_op_context *context, bool many) {
  dp_queue *queue;
  dp_status *status = get_queue(context, &queue);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  int32_t count = context->input_count - 1;
  status = check_signature(context, queue, context->node->input_types + 1, count, true);
  dp_tensor *tuple = dp_pieces_create(count);
  for (int32_t i = 0; i < count; ++i)
    tuple[i] = dp_tensor_take(&context->inputs[i + 1].tensor);
  if (!status)
    status = dp_queue_check(queue, tuple, count, many);
  if (status)
    refuse(context, queue, status);
  else
    dp_queue_enqueue(queue, tuple, many, context->step->cancel, on_done, start_run(context, queue));
  dp_pieces_destroy(tuple, count);
}

static void enqueue_compute(dp_op_context *context, void *memory) {
  enqueue(context, false);
}

static void enqueue_many_compute(dp_op_context *context, void *memory) {
  enqueue(context, true);
}

static void dequeue_compute(dp_op_context *context, void *memory) {
  dp_queue *queue;
  dp_status *status = get_queue(context, &queue);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  status =
      check_signature(context, queue, context->node->output_types, context->output_count, false);
  if (status)
    refuse(context, queue, status);
  else
    dp_queue_dequeue(queue, context->step->cancel, on_done, start_run(context, queue));
}

static void dequeue_batch(dp_op_context *context, bool allow_fewer) {
  dp_queue *queue;
  dp_status *status = get_queue(context, &queue);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  const dp_tensor *count = dp_op_input(context, 1);
  int64_t wanted = count->shape.elements > 0 ? dp_tensor_int_at(count, 0) : -1;
  if (wanted < 0)
    status = DP_INVALID("%s requested %lld < 0 elements",
                        allow_fewer ? "DequeueUpToOp" : "DequeueManyOp", (long long)wanted);
  if (!status)
    status =
        check_signature(context, queue, context->node->output_types, context->output_count, false);
  if (status)
    refuse(context, queue, status);
  else
    dp_queue_dequeue_many(queue, wanted, allow_fewer, context->step->cancel, on_done,
                          start_run(context, queue));
}

static void dequeue_many_compute(dp_op_context *context, void *memory) {
  dequeue_batch(context, false);
}

static void dequeue_up_to_compute(dp_op_context *context, void *memory) {
  dequeue_batch(context, true);
}

/* ---- Closing and questions ---- */
static dp_status *close_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "cancel_pending_enqueues", memory);
}

static void close_compute(dp_op_context *context, void *memory) {
  dp_queue *queue;
  dp_status *status = get_queue(context, &queue);
  if (status)
    dp_op_done(context, status);
  else
    dp_queue_close(queue, *(bool *)memory, on_done, start_run(context, queue));
}

static dp_status *size_compute(dp_op_context *context, void *memory) {
  dp_queue *queue;
  DP_RETURN_IF_ERROR(get_queue(context, &queue));
  int64_t size = dp_queue_size(queue);
  dp_resource_release(queue);
  return dp_op_output_int32(context, 0, (int32_t)size);
}

static dp_status *is_closed_compute(dp_op_context *context, void *memory) {
  dp_queue *queue;
  DP_RETURN_IF_ERROR(get_queue(context, &queue));
  bool is_closed = dp_queue_is_closed(queue);
  dp_resource_release(queue);
  return dp_op_output_bool(context, 0, is_closed);
}

/* clang-format off */
#define MAKE(name)                                                                                 \
  {.op = name, .flags = DP_KERNEL_CHEAP, .state_size = sizeof(queue_make_state),                         \
   .create = make_create, .compute = make_compute, .destroy = make_destroy}
#define ACCESS(name, body) {.op = name, .create = access_create, .compute_async = body}
#define CLOSE(name)                                                                                \
  {.op = name, .state_size = sizeof(bool), .create = close_create, .compute_async = close_compute}
#define ASK(name, body) {.op = name, .flags = DP_KERNEL_CHEAP, .compute = body}

static const dp_kernel rows[] = {
    MAKE("FIFOQueue"), MAKE("FIFOQueueV2"),
    MAKE("PaddingFIFOQueue"), MAKE("PaddingFIFOQueueV2"),
    MAKE("RandomShuffleQueue"), MAKE("RandomShuffleQueueV2"),
    MAKE("PriorityQueue"), MAKE("PriorityQueueV2"),
    ASK("FakeQueue", fake_compute),
    ACCESS("QueueEnqueue", enqueue_compute), ACCESS("QueueEnqueueV2", enqueue_compute),
    ACCESS("QueueEnqueueMany", enqueue_many_compute),
    ACCESS("QueueEnqueueManyV2", enqueue_many_compute),
    ACCESS("QueueDequeue", dequeue_compute), ACCESS("QueueDequeueV2", dequeue_compute),
    ACCESS("QueueDequeueMany", dequeue_many_compute),
    ACCESS("QueueDequeueManyV2", dequeue_many_compute),
    ACCESS("QueueDequeueUpTo", dequeue_up_to_compute),
    ACCESS("QueueDequeueUpToV2", dequeue_up_to_compute),
    CLOSE("QueueClose"), CLOSE("QueueCloseV2"),
    ASK("QueueSize", size_compute), ASK("QueueSizeV2", size_compute),
    ASK("QueueIsClosed", is_closed_compute), ASK("QueueIsClosedV2", is_closed_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(queue, rows);
