/* Registered graphs: a master's piece for this task, cut once more by device and compiled.
 *
 * Compiling is done once, on the thread that registers; steps only look the result up. A graph is
 * reference-counted: its session's table holds one reference and every run another, so that
 * deregistering does not pull it from under a step. The tables are guarded by the worker's `tables`
 * lock, which a step takes shared. */
#include <inttypes.h>
#include <stdio.h>
#include "planner/planner.h"
#include "storage/debug_dump.h"
#include "worker/worker_internal.h"

static void destroy_units(registered_graph *graph) {
  for (size_t i = 0; i < graph->unit_count; i++) {
    if (graph->units[i].executor)
      dp_executor_release(graph->units[i].executor);
    dp_function_runtime_release(graph->units[i].functions);
  }
  dp_free(graph->units);
}

void dp_worker_graph_release(registered_graph *graph) {
  if (!graph || !dp_refcount_release(&graph->references))
    return;
  destroy_units(graph);
  dp_worker_session_release(graph->session);
  dp_arena_destroy(graph->arena);
  dp_free(graph->handle);
  dp_free(graph);
}

/* ---- Registering ---- */

static size_t find_device(const worker_session *session, const char *name) {
  size_t at = 0;
  while (at < session->device_count && strcmp(session->devices[at]->name, name) != 0)
    at++;
  return at;
}

static uint64_t device_incarnation(void *arg, const char *device) {
  const worker_session *session = arg;
  size_t at = find_device(session, device);
  return at < session->device_count ? session->devices[at]->incarnation : 0;
}

/* The master has placed every node; what has no device goes to the first. */
static dp_status *check_devices(dp_graph *graph, const worker_session *session) {
  for (int32_t i = 0; i < graph->node_count; i++) {
    dp_node *node = graph->nodes[i];
    if (!node)
      continue;
    const char *device = *node->device ? node->device : session->devices[0]->name;
    if (find_device(session, device) == session->device_count)
      return DP_INVALID("node %s is for device %s, which is not one of this task's", node->name,
                        device);
    node->assigned_device = device;
  }
  return NULL;
}

/* The functions may outlive the graph, in datasets: they have the options for themselves. */
static dp_status *make_functions(const registered_graph *whole, dp_library *library,
                                 graph_unit *unit) {
  worker_session *session = whole->session;
  Tensorflow__GraphOptions *options = NULL;
  dp_arena *arena = dp_arena_create();
  dp_status *status = whole->options ? dp_wire_copy(whole->options, arena, &options) : NULL;
  if (status) {
    dp_arena_destroy(arena);
    return status;
  }
  unit->functions = dp_function_runtime_create(library, unit->device);
  dp_function_runtime_set_rewrite(unit->functions, dp_planner_rewrite_body, options, arena);
  dp_function_runtime_set_devices(unit->functions, session->devices, session->device_count);
  return NULL;
}

/* Adds the debug nodes, and tells the debugger what the graph is like. */
static dp_status *add_debug_nodes(dp_graph *graph, const Tensorflow__DebugOptions *debug,
                                  const dp_device *device) {
  DP_RETURN_IF_ERROR(dp_planner_add_debug_nodes(graph, debug, device->name, device->type));
  dp_arena *arena = dp_arena_create();
  dp_status *status = dp_debug_dump_graph(device->name, dp_graph_export(graph, arena, true),
                                          dp_debug_urls_of(debug, arena));
  dp_arena_destroy(arena);
  return status;
}

static dp_status *rewrite_unit(const registered_graph *whole, dp_graph *graph,
                               const Tensorflow__DebugOptions *debug, const dp_device *device) {
  bool is_watched = debug && debug->n_debug_tensor_watch_opts > 0;
  return is_watched ? add_debug_nodes(graph, debug, device)
                    : dp_planner_fuse(graph, whole->options);
}

static dp_status *compile_unit(registered_graph *whole, dp_partition *partition,
                               const Tensorflow__DebugOptions *debug, graph_unit *unit) {
  worker_session *session = whole->session;
  size_t at = find_device(session, partition->location);
  unit->device = session->devices[at];
  DP_RETURN_IF_ERROR(rewrite_unit(whole, partition->graph, debug, unit->device));
  DP_RETURN_IF_ERROR(make_functions(whole, partition->graph->library, unit));
  dp_graph *graph = partition->graph;
  partition->graph = NULL;
  dp_edge_router router = {dp_worker_edge_resolve, session};
  dp_executor_options options = {.device = unit->device,
                                 .kernels = session->kernels[at],
                                 .functions = unit->functions,
                                 .session_handle = session->handle,
                                 .router = &router};
  return dp_executor_create(graph, &options, &unit->executor);
}

static dp_status *compile_units(registered_graph *graph, dp_partitions *partitions,
                                const Tensorflow__DebugOptions *debug) {
  graph->units = DP_NEW_ARRAY(graph_unit, partitions->count);
  for (size_t i = 0; i < partitions->count; i++) {
    graph->unit_count = i + 1;
    DP_RETURN_IF_ERROR(compile_unit(graph, &partitions->items[i], debug, &graph->units[i]));
  }
  return NULL;
}

static dp_status *build(worker_session *session, dp_graph *whole,
                        const Tensorflow__DebugOptions *debug, registered_graph *graph) {
  dp_partitions partitions = {0};
  DP_RETURN_IF_ERROR(check_devices(whole, session));
  DP_RETURN_IF_ERROR(dp_planner_partition(whole, DP_PARTITION_BY_DEVICE, device_incarnation,
                                          session, &partitions));
  dp_status *status = compile_units(graph, &partitions, debug);
  dp_partitions_deinit(&partitions);
  return status;
}

/* use_per_session_threads and session_inter_op_thread_pool: the first graph that a session
 * registers brings its wishes along. A number below 1 means the default, as in TensorFlow; a large
 * one gives a thread per core. Without threads of its own the session uses the device's. */
static void make_session_threads(dp_worker *worker, worker_session *session,
                                 const Tensorflow__ConfigProto *config) {
  if (!config || (!config->use_per_session_threads && config->n_session_inter_op_thread_pool == 0))
    return;
  int count = config->n_session_inter_op_thread_pool > 0
                  ? config->session_inter_op_thread_pool[0]->num_threads
                  : config->inter_op_parallelism_threads;
  dp_pool *threads = dp_pool_create_within_cores("session", count);
  if (!threads)
    return;
  pthread_rwlock_wrlock(&worker->tables);
  bool is_first = !session->threads;
  if (is_first)
    session->threads = threads;
  pthread_rwlock_unlock(&worker->tables);
  if (!is_first)
    dp_pool_destroy(threads);
}

dp_status *dp_worker_graph_register_take(dp_worker *worker, worker_session *session,
                                         dp_graph *whole,
                                         const dp_worker_registration *registration,
                                         char **handle_out) {
  make_session_threads(worker, session, registration->config);
  registered_graph *graph = DP_NEW(registered_graph);
  dp_refcount_init(&graph->references);
  dp_refcount_retain(&session->references);
  graph->session = session;
  graph->arena = dp_arena_create();
  dp_status *status = NULL;
  if (registration->graph_options)
    status = dp_wire_copy(registration->graph_options, graph->arena, &graph->options);
  dp_worker_graph_read_collectives(graph, registration);
  if (!status)
    status = build(session, whole, registration->debug, graph);
  dp_graph_destroy(whole);
  if (status) {
    dp_worker_graph_release(graph);
    return status;
  }
  char handle[32];
  pthread_rwlock_wrlock(&worker->tables);
  snprintf(handle, sizeof(handle), "%016" PRIx64, ++worker->next_graph);
  graph->handle = dp_strdup(handle);
  dp_map_put(session->graphs, handle, graph);
  pthread_rwlock_unlock(&worker->tables);
  *handle_out = dp_strdup(handle);
  return NULL;
}

/* ---- Finding and removing ---- */

dp_status *dp_worker_graph_find(dp_worker *worker, worker_session *session, const char *handle,
                                registered_graph **graph_out) {
  pthread_rwlock_rdlock(&worker->tables);
  registered_graph *found = dp_map_get(session->graphs, handle);
  if (found)
    dp_refcount_retain(&found->references);
  pthread_rwlock_unlock(&worker->tables);
  if (!found)
    return dp_status_create(DP_ABORTED,
                            "Graph handle is not found: %s. Possibly, this worker just "
                            "restarted.",
                            handle);
  *graph_out = found;
  return NULL;
}

dp_status *dp_worker_graph_remove(dp_worker *worker, worker_session *session, const char *handle) {
  pthread_rwlock_wrlock(&worker->tables);
  registered_graph *removed = dp_map_remove(session->graphs, handle);
  pthread_rwlock_unlock(&worker->tables);
  if (!removed)
    return dp_status_create(DP_ABORTED,
                            "Graph handle is not found: %s. Possibly, this worker just "
                            "restarted.",
                            handle);
  dp_worker_graph_release(removed);
  return NULL;
}
