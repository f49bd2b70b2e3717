/* What a task is busy with, as lines for people: nodes that run or wait, values that are awaited
 * from other tasks or by them, resources and how full they are. Graphs, steps and resources are
 * retained under their locks and printed outside of them; a step's list of receives is printed with
 * that step's lock held. So looking never holds up other steps. */
#include <inttypes.h>
#include "wire/rendezvous_key.h"
#include "worker/worker_internal.h"

typedef DP_ARRAY(registered_graph *) graph_list;

/* Lines under a heading, which is printed only when there is a line. */
typedef struct section {
  dp_text *text;
  const char *heading;
  int64_t step_id;
} section;

/* "   8.2 s  step 00000000000000ab  ", the beginning of every line. */
static void begin_line(section *section, int64_t step_id, int64_t age_nanos) {
  if (section->heading)
    dp_text_printf(section->text, "\n%s\n", section->heading);
  section->heading = NULL;
  dp_text_printf(section->text, "  %7.1f s  step %016" PRIx64 "  ", (double)age_nanos / 1e9,
                 (uint64_t)step_id);
}

static void print_node(void *arg, int64_t step_id, const dp_node *node, int64_t age_nanos) {
  section *nodes = arg;
  begin_line(nodes, step_id, age_nanos);
  dp_text_printf(nodes->text, "%s (%s)\n", node->name, node->op->name);
}

/* "edge_3_weights  for /job:worker/replica:0/task:0", or "from" the source. */
static void print_key(dp_text *text, dp_view key_text, bool is_outgoing) {
  dp_rendezvous_key key;
  dp_status *status = dp_rendezvous_key_parse(key_text, &key);
  if (status) {
    dp_text_printf(text, "%.*s\n", (int)key_text.length, key_text.data);
    dp_status_release(status);
    return;
  }
  dp_device_name other = dp_device_name_task(is_outgoing ? &key.source : &key.destination);
  char task[DP_DEVICE_NAME_SIZE];
  dp_text_printf(text, "%.*s  %s %s\n", (int)key.edge_name.length, key.edge_name.data,
                 is_outgoing ? "from" : "for", dp_device_name_format(&other, task));
}

static void print_waiting(void *arg, dp_view key, int64_t waiting_nanos) {
  section *receives = arg;
  begin_line(receives, receives->step_id, waiting_nanos);
  print_key(receives->text, key, false);
}

static void print_outgoing(void *arg, int64_t step_id, const char *key, int64_t age_nanos) {
  section *receives = arg;
  begin_line(receives, step_id, age_nanos);
  print_key(receives->text, dp_view_of(key), true);
}

static void print_collective(void *arg, int64_t step_id, int64_t age_nanos, const char *line) {
  section *collectives = arg;
  begin_line(collectives, step_id, age_nanos);
  dp_text_printf(collectives->text, "%s\n", line);
}

static void print_resource(void *arg, const char *container, const char *name,
                           dp_resource *resource) {
  section *resources = arg;
  if (!resource->ops->describe)
    return;
  if (resources->heading)
    dp_text_printf(resources->text, "\n%s\n", resources->heading);
  resources->heading = NULL;
  dp_text_printf(resources->text, "  %s/%s: ", container, name);
  resource->ops->describe(resource, resources->text);
  dp_text_add_char(resources->text, '\n');
}

/* With the tables' lock held. */
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

void dp_worker_get_counts(dp_worker *worker, dp_worker_counts *counts_out) {
  const char *key;
  void *session;
  pthread_rwlock_rdlock(&worker->tables);
  *counts_out = (dp_worker_counts){.sessions = dp_map_count(worker->sessions),
                                   .sessions_ever = worker->sessions_ever};
  for (size_t at = 0; dp_map_next(worker->sessions, &at, &key, &session);)
    counts_out->graphs += dp_map_count(((worker_session *)session)->graphs);
  pthread_rwlock_unlock(&worker->tables);
  counts_out->steps = dp_worker_steps_count(worker);
}

void dp_worker_describe(dp_worker *worker, dp_text *text) {
  graph_list graphs = {0};
  step_list steps = {0};
  pthread_rwlock_rdlock(&worker->tables);
  list_graphs(worker, &graphs);
  pthread_rwlock_unlock(&worker->tables);
  dp_worker_steps_list(worker, &steps);
  section nodes = {.text = text, .heading = "nodes that run or wait"};
  for (size_t i = 0; i < graphs.count; i++) {
    for (size_t k = 0; k < graphs.items[i]->unit_count; k++)
      dp_executor_visit_running(graphs.items[i]->units[k].executor, print_node, &nodes);
    dp_worker_graph_release(graphs.items[i]);
  }
  section receives = {.text = text, .heading = "values that are waited for"};
  for (size_t i = 0; i < steps.count; i++) {
    receives.step_id = steps.items[i]->id;
    dp_rendezvous_visit_waiting(steps.items[i]->rendezvous, print_waiting, &receives);
    dp_worker_visit_receives(steps.items[i], print_outgoing, &receives);
    dp_worker_step_leave(worker, steps.items[i]);
  }
  section collectives = {.text = text, .heading = "collectives under way"};
  dp_collectives_visit(worker->collectives, print_collective, &collectives);
  section resources = {.text = text, .heading = "resources"};
  for (size_t i = 0; i < worker->device_count; i++)
    dp_resources_visit(worker->devices[i]->resources, print_resource, &resources);
  DP_ARRAY_FREE(&graphs);
  DP_ARRAY_FREE(&steps);
}
