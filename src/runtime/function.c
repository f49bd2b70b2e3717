/* The function runtime: library functions, compiled once for a device and run within a step.
 *
 * An instance is made in two moves. dp_function_get writes the body as a graph and prunes it: that
 * needs no kernels, so functions may call each other and themselves. The first call compiles the
 * body into an executor, under the instance's own lock. Instances live as long as the runtime.
 *
 * The runtimes of a task's devices hang together: the first one owns those made for the others, and
 * a reference to any is one to it. */
#include "runtime/function.h"

#include <pthread.h>
#include "base/map.h"
#include "base/memory.h"

struct dp_function_runtime {
  dp_refcount references;     /* of the first runtime; unused in the others */
  dp_function_runtime *first; /* itself, or the one that owns it */
  dp_library *library;
  dp_device *device;
  dp_function_rewrite_fn rewrite;
  void *rewrite_arg;
  dp_arena *rewrite_owner; /* of the first */
  pthread_mutex_t lock;
  dp_map *instances; /* canonical text -> dp_function_instance */
  /* Of the first: the task's devices, and their runtimes where there are any, under the lock. */
  dp_device **devices;
  dp_function_runtime **runtimes;
  size_t device_count;
};

struct dp_function_instance {
  dp_function_runtime *runtime; /* borrowed: it owns us */
  char *name;
  int32_t argument_count, result_count;
  dp_dtype *argument_types;
  pthread_mutex_t lock;
  dp_graph *graph;       /* until compiled */
  dp_executor *executor; /* afterwards */
  dp_status *failure;    /* of compiling; stays */
};

dp_function_runtime *dp_function_runtime_create(dp_library *library, dp_device *device) {
  dp_function_runtime *runtime = DP_NEW(dp_function_runtime);
  dp_refcount_init(&runtime->references);
  runtime->first = runtime;
  runtime->library = dp_library_retain(library);
  runtime->device = dp_device_retain(device);
  pthread_mutex_init(&runtime->lock, NULL);
  runtime->instances = dp_map_create();
  return runtime;
}

dp_function_runtime *dp_function_runtime_retain(dp_function_runtime *runtime) {
  dp_refcount_retain(&runtime->first->references);
  return runtime;
}

static void destroy_instance(dp_function_instance *instance) {
  if (instance->graph)
    dp_graph_destroy(instance->graph);
  if (instance->executor)
    dp_executor_release(instance->executor);
  dp_status_release(instance->failure);
  pthread_mutex_destroy(&instance->lock);
  dp_free(instance->argument_types);
  dp_free(instance->name);
  dp_free(instance);
}

static void destroy_runtime(dp_function_runtime *runtime) {
  const char *key;
  void *instance;
  for (size_t at = 0; dp_map_next(runtime->instances, &at, &key, &instance);)
    destroy_instance(instance);
  dp_map_destroy(runtime->instances);
  for (size_t i = 0; i < runtime->device_count; i++) {
    if (runtime->runtimes[i] && runtime->runtimes[i] != runtime)
      destroy_runtime(runtime->runtimes[i]);
    dp_device_release(runtime->devices[i]);
  }
  dp_free(runtime->devices);
  dp_free(runtime->runtimes);
  dp_arena_destroy(runtime->rewrite_owner);
  pthread_mutex_destroy(&runtime->lock);
  dp_library_release(runtime->library);
  dp_device_release(runtime->device);
  dp_free(runtime);
}

void dp_function_runtime_release(dp_function_runtime *runtime) {
  if (runtime && dp_refcount_release(&runtime->first->references))
    destroy_runtime(runtime->first);
}

/* ---- The devices of the task ---- */
void dp_function_runtime_set_devices(dp_function_runtime *runtime, dp_device *const *devices,
                                     size_t count) {
  runtime->devices = DP_NEW_ARRAY(dp_device *, count);
  runtime->runtimes = DP_NEW_ARRAY(dp_function_runtime *, count);
  runtime->device_count = count;
  for (size_t i = 0; i < count; i++) {
    runtime->devices[i] = dp_device_retain(devices[i]);
    runtime->runtimes[i] = devices[i] == runtime->device ? runtime : NULL;
  }
}

dp_device *dp_function_runtime_device(const dp_function_runtime *runtime, size_t index) {
  const dp_function_runtime *first = runtime->first;
  if (first->device_count == 0)
    return index == 0 ? first->device : NULL;
  return index < first->device_count ? first->devices[index] : NULL;
}

dp_function_runtime *dp_function_runtime_on(dp_function_runtime *runtime, size_t index) {
  dp_function_runtime *first = runtime->first;
  if (first->device_count == 0)
    return first;
  pthread_mutex_lock(&first->lock);
  dp_function_runtime **slot = &first->runtimes[index];
  if (!*slot) {
    *slot = dp_function_runtime_create(first->library, first->devices[index]);
    (*slot)->first = first;
    (*slot)->rewrite = first->rewrite;
    (*slot)->rewrite_arg = first->rewrite_arg;
  }
  dp_function_runtime *found = *slot;
  pthread_mutex_unlock(&first->lock);
  return found;
}

void dp_function_runtime_clear_container(dp_function_runtime *runtime, const char *container) {
  dp_function_runtime *first = runtime->first;
  dp_resources_clear_container(first->device->resources, container);
  for (size_t i = 0; i < first->device_count; i++) {
    pthread_mutex_lock(&first->lock);
    bool was_used = first->runtimes[i] && first->runtimes[i] != first;
    pthread_mutex_unlock(&first->lock);
    if (was_used)
      dp_resources_clear_container(first->devices[i]->resources, container);
  }
}

dp_library *dp_function_runtime_library(dp_function_runtime *runtime) {
  return runtime->library;
}

void dp_function_runtime_set_rewrite(dp_function_runtime *runtime, dp_function_rewrite_fn rewrite,
                                     void *arg, dp_arena *owner) {
  runtime->rewrite = rewrite;
  runtime->rewrite_arg = arg;
  runtime->rewrite_owner = owner;
}

/* ---- Making an instance ---- */

/* Removes what neither a result, a control result nor an effect needs. */
static void prune_body(const dp_function_body *body) {
  dp_graph *graph = body->graph;
  int32_t *stack = DP_NEW_ARRAY(int32_t, (size_t)graph->node_count + 1);
  bool *needed = DP_NEW_ARRAY(bool, (size_t)graph->node_count + 1);
  int32_t depth = 0;
#define NEED(id)                                                                                   \
  do {                                                                                             \
    if (!needed[id]) {                                                                             \
      needed[id] = true;                                                                           \
      stack[depth++] = (id);                                                                       \
    }                                                                                              \
  } while (0)
  for (int32_t i = 0; i < graph->node_count; i++) {
    const dp_node *node = graph->nodes[i];
    if (node && (node->op->is_stateful || dp_node_is(node, "_Retval") || dp_node_is(node, "_Arg")))
      NEED(i);
  }
  for (int32_t i = 0; i < body->control_result_count; i++)
    NEED(body->control_results[i]->id);
  while (depth > 0) {
    const dp_node *node = graph->nodes[stack[--depth]];
    for (int32_t i = 0; i < node->input_count; i++)
      NEED(node->inputs[i].node);
    for (int32_t i = 0; i < node->control_count; i++)
      NEED(node->controls[i]);
  }
#undef NEED
  for (int32_t i = 0; i < graph->node_count; i++) {
    if (graph->nodes[i] && !needed[i])
      dp_graph_remove(graph, graph->nodes[i]);
  }
  dp_free(stack);
  dp_free(needed);
}

static dp_function_instance *make_instance(dp_function_runtime *runtime, const char *name,
                                           const dp_function_body *body) {
  dp_function_instance *instance = DP_NEW(dp_function_instance);
  instance->runtime = runtime;
  instance->name = dp_strdup(name);
  instance->argument_count = body->argument_count;
  instance->result_count = body->result_count;
  instance->argument_types = DP_NEW_ARRAY(dp_dtype, (size_t)body->argument_count + 1);
  for (int32_t i = 0; i < body->argument_count; i++)
    instance->argument_types[i] = dp_dtype_base(body->arguments[i]->output_types[0]);
  pthread_mutex_init(&instance->lock, NULL);
  instance->graph = body->graph;
  return instance;
}

static void print_key(const dp_func *function, dp_text *key) {
  dp_text_add(key, function->name);
  for (int32_t i = 0; i < function->attr_count; i++) {
    dp_text_printf(key, "\n%s=", function->attrs[i].name);
    dp_attr_print(&function->attrs[i], key);
  }
}

/* With the runtime's lock held. */
static dp_status *instantiate(dp_function_runtime *runtime, const dp_func *function,
                              const char *key, dp_function_instance **instance_out) {
  dp_function_body body;
  DP_RETURN_IF_ERROR(dp_function_instantiate(runtime->library, function, &body));
  prune_body(&body);
  dp_function_instance *instance = make_instance(runtime, function->name, &body);
  dp_map_put(runtime->instances, key, instance);
  *instance_out = instance;
  return NULL;
}

dp_status *dp_function_get(dp_function_runtime *runtime, const dp_func *function,
                           dp_function_instance **instance_out) {
  dp_text key = {0};
  print_key(function, &key);
  pthread_mutex_lock(&runtime->lock);
  dp_status *status = NULL;
  dp_function_instance *found = dp_map_get(runtime->instances, dp_text_string(&key));
  if (found)
    *instance_out = found;
  else
    status = instantiate(runtime, function, dp_text_string(&key), instance_out);
  pthread_mutex_unlock(&runtime->lock);
  dp_text_deinit(&key);
  return status;
}

int32_t dp_function_argument_count(const dp_function_instance *instance) {
  return instance->argument_count;
}

/* ---- Calling ---- */

/* A function's body runs on one task: a receive from another one would wait for ever. */
static dp_status *refuse_remote(void *arg, const dp_rendezvous_key *key, bool is_sender,
                                dp_edge_route *route_out) {
  const dp_device *device = arg;
  dp_device_name own;
  dp_status *status = dp_device_name_parse(dp_view_of(device->name), &own);
  bool is_near = status || is_sender || dp_device_name_same_task(&own, &key->source);
  dp_status_release(status);
  if (!is_near)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "a function on %s receives from %.*s: only the graph itself may cross "
                            "tasks",
                            device->name, (int)key->source_text.length, key->source_text.data);
  *route_out = (dp_edge_route){0};
  return NULL;
}

/* With the instance's lock held. */
static dp_status *compile(dp_function_instance *instance) {
  dp_function_runtime *runtime = instance->runtime;
  dp_graph *graph = instance->graph;
  instance->graph = NULL;
  if (runtime->rewrite) {
    dp_status *status = runtime->rewrite(runtime->rewrite_arg, graph);
    if (status) {
      dp_graph_destroy(graph);
      return status;
    }
  }
  dp_edge_router router = {refuse_remote, runtime->device};
  dp_executor_options options = {
      .device = runtime->device, .functions = runtime, .router = &router};
  return dp_executor_create(graph, &options, &instance->executor);
}

static dp_status *ensure_compiled(dp_function_instance *instance) {
  pthread_mutex_lock(&instance->lock);
  if (!instance->executor && !instance->failure)
    instance->failure = compile(instance);
  dp_status *status = dp_status_retain(instance->failure);
  pthread_mutex_unlock(&instance->lock);
  return status;
}

typedef struct function_call {
  dp_step step;
  dp_call_frame frame;
  dp_function_done_fn done;
  void *arg;
  dp_tensor results[];
} function_call;

static void finish_call(void *arg, dp_status *status) {
  function_call *call = arg;
  call->done(call->arg, status, call->results, call->frame.result_count);
  for (int32_t i = 0; i < call->frame.result_count; i++)
    dp_tensor_deinit(&call->results[i]);
  dp_free(call);
}

static dp_status *check_arguments(const dp_function_instance *instance, const dp_tensor *arguments,
                                  int32_t argument_count) {
  if (argument_count != instance->argument_count)
    return DP_INVALID("Function %s takes %d arguments but was called with %d", instance->name,
                      instance->argument_count, argument_count);
  for (int32_t i = 0; i < argument_count; i++) {
    if (arguments[i].dtype != instance->argument_types[i])
      return DP_INVALID("Function %s: argument %d is %s but should be %s", instance->name, i,
                        dp_dtype_name(arguments[i].dtype),
                        dp_dtype_name(instance->argument_types[i]));
  }
  return NULL;
}

/* A call runs on the stack of its caller, so the stack bounds how deep calls may go. */
static dp_status *check_depth(const dp_function_instance *instance, int32_t depth) {
  enum { MOST_CALLS = 500 };
  if (depth <= MOST_CALLS)
    return NULL;
  return dp_status_create(DP_RESOURCE_EXHAUSTED,
                          "Function %s: calls are nested more than %d deep; does it call itself "
                          "without an end?",
                          instance->name, MOST_CALLS);
}

void dp_function_call(dp_function_instance *instance, dp_step *step, dp_tensor *arguments,
                      int32_t argument_count, dp_function_done_fn done, void *arg) {
  int32_t depth = step->frame ? step->frame->depth + 1 : 1;
  dp_status *status = check_arguments(instance, arguments, argument_count);
  if (!status)
    status = check_depth(instance, depth);
  if (!status)
    status = ensure_compiled(instance);
  if (status) {
    done(arg, status, NULL, 0);
    return;
  }
  size_t result_bytes = (size_t)instance->result_count * sizeof(dp_tensor);
  function_call *call = dp_calloc(1, sizeof(function_call) + result_bytes);
  call->step = *step;
  call->step.frame = &call->frame;
  call->step.functions = instance->runtime;
  call->frame = (dp_call_frame){.argument_count = argument_count,
                                .result_count = instance->result_count,
                                .arguments = arguments,
                                .results = call->results,
                                .is_function = true,
                                .depth = depth};
  call->done = done;
  call->arg = arg;
  dp_executor_run(instance->executor, &call->step, finish_call, call);
}
