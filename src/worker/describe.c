/* What a task is busy with, as lines for people: nodes that run or wait, receives that have no
 * value yet, resources and how full they are. Everything is copied or retained under the lock and
 * printed outside of it, so that looking never holds up working. */
#include <inttypes.h>
#include "worker/worker_internal.h"

static double seconds(int64_t nanos) {
  return (double)nanos / 1e9;
}

static void print_node(void *arg, int64_t step_id, const dp_node *node, int64_t age_nanos) {
  dp_text_printf(arg, "step %016" PRIx64 ": %s (%s) has been running for %.3f s\n",
                 (uint64_t)step_id, node->name, node->op->name, seconds(age_nanos));
}

typedef DP_ARRAY(registered_graph *) graph_list;
typedef DP_ARRAY(step_entry *) step_list;

/* With the worker's lock held. */
static void list_graphs(dp_worker *worker, graph_list *graphs) {
  const char *key;
  void *session, *graph;
  for (size_t at = 0; dp_map_next(worker->sessions, &at, &key, &session);) {
    for (size_t in = 0; dp_map_next(((worker_session *)session)->graphs, &in, &key, &graph);) {
      dp_refcount_retain(&((registered_graph *)graph)->references);
      DP_ARRAY_PUSH(graphs, graph);
    }
  }
}

/* With the worker's lock held; each counts as used until dp_worker_step_leave. */
static void list_steps(dp_worker *worker, step_list *steps) {
  const char *key;
  void *step;
  for (size_t at = 0; dp_map_next(worker->steps, &at, &key, &step);) {
    ((step_entry *)step)->users++;
    DP_ARRAY_PUSH(steps, step);
  }
}

typedef struct waiting_printer {
  dp_text *text;
  int64_t step_id;
} waiting_printer;

static void print_waiting(void *arg, dp_view key, int64_t waiting_nanos) {
  waiting_printer *printer = arg;
  dp_text_printf(printer->text, "step %016" PRIx64 ": %.*s has been awaited for %.3f s\n",
                 (uint64_t)printer->step_id, (int)key.length, key.data, seconds(waiting_nanos));
}

static void print_resource(void *arg, const char *container, const char *name,
                           dp_resource *resource) {
  dp_text *text = arg;
  if (!resource->ops->describe)
    return;
  dp_text_printf(text, "resource %s/%s: ", container, name);
  resource->ops->describe(resource, text);
  dp_text_add_char(text, '\n');
}

void dp_worker_describe(dp_worker *worker, dp_text *text) {
  graph_list graphs = {0};
  step_list steps = {0};
  pthread_mutex_lock(&worker->lock);
  dp_text_printf(text, "task %s: %zu sessions, %d steps running\n", worker->task,
                 dp_map_count(worker->sessions), worker->running);
  list_graphs(worker, &graphs);
  list_steps(worker, &steps);
  pthread_mutex_unlock(&worker->lock);
  for (size_t i = 0; i < graphs.count; i++) {
    for (size_t k = 0; k < graphs.items[i]->unit_count; k++)
      dp_executor_visit_running(graphs.items[i]->units[k].executor, print_node, text);
    dp_worker_graph_release(graphs.items[i]);
  }
  for (size_t i = 0; i < steps.count; i++) {
    waiting_printer printer = {text, steps.items[i]->id};
    dp_rendezvous_visit_waiting(steps.items[i]->rendezvous, print_waiting, &printer);
    dp_worker_step_leave(worker, steps.items[i]);
  }
  for (size_t i = 0; i < worker->device_count; i++)
    dp_resources_visit(worker->devices[i]->resources, print_resource, text);
  DP_ARRAY_FREE(&graphs);
  DP_ARRAY_FREE(&steps);
}
