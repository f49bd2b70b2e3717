/* RunGraph: one step of a registered graph on this task.
 *
 * A graph_run is the step itself: a scope, a container for what dies with it, an executor for each
 * device. A run_call is one RunGraph message about it. Normally a run has one call: it sends
 * the feeds, waits for the executors and then takes the fetches from the rendezvous, where _Send
 * left them. A partial run has several calls: each feeds and fetches a part, the last one waits for
 * the executors too. The run goes when its executors are done and its last call is answered. */
#include <inttypes.h>
#include <stdio.h>
#include "base/fault.h"
#include "worker/worker_internal.h"

struct graph_run {
  dp_refcount references; /* executors together, and each call */
  dp_worker *worker;
  registered_graph *graph;
  step_entry *entry;
  dp_cancel *call_scope; /* of the RunGraph, when the run ends with it; else NULL */
  dp_cancel *cancel;
  stats_collector *stats;
  dp_tensor_store kept; /* what its nodes want to leave in the session */
  char container[40];
  dp_collective_step collective; /* when the graph has some */
  pthread_mutex_t lock;
  int32_t units_left;
  dp_status *status;        /* the first error of an executor */
  struct run_call *waiting; /* the call to tell when the executors are done */
  dp_step steps[];          /* one for each unit */
};

typedef struct run_call {
  graph_run *run;
  dp_worker_run_done_fn done;
  void *arg;
  dp_arena *arena;
  bool record_partition_graphs;
  bool is_last; /* answers with the executors' end */
  pthread_mutex_t lock;
  size_t outstanding; /* outputs not yet here, and 1 for the executors when it waits for them */
  dp_status *status;
  size_t key_count;
  dp_named_tensor *outputs; /* name is the key */
} run_call;

static void finish_call(run_call *call);

/* ---- The run ---- */

/* Peers that wait for chunks of the step need not wait any longer. Before the run is answered: then
 * the step may be forgotten. */
static void note_failure(graph_run *run, const dp_status *why) {
  step_entry *step = run->entry;
  pthread_mutex_t *lock = dp_worker_step_lock(run->worker, step);
  pthread_mutex_lock(lock);
  dp_status *failure = dp_status_create(DP_ABORTED, "The step has failed on %s: %s",
                                        run->worker->task, dp_status_message(why));
  dp_status_update(&step->failure, dp_status_retain(failure));
  dp_board *board = step->board ? dp_board_retain(step->board) : NULL;
  pthread_mutex_unlock(lock);
  if (board)
    dp_board_abort(board, dp_status_retain(failure));
  dp_status_release(failure);
  dp_board_release(board);
}

static void release_run(graph_run *run) {
  if (!dp_refcount_release(&run->references))
    return;
  dp_worker *worker = run->worker;
  for (size_t i = 0; i < run->graph->session->device_count; i++)
    dp_resources_clear_container(run->graph->session->devices[i]->resources, run->container);
  dp_stats_collector_destroy(run->stats);
  dp_tensor_store_deinit(&run->kept);
  dp_status_release(run->status);
  /* Nobody may be left who would send CleanupGraph. */
  if (run->call_scope && dp_cancel_is_triggered(run->call_scope))
    dp_worker_step_forget_run(worker, run->entry);
  dp_worker_step_leave(worker, run->entry);
  dp_worker_graph_release(run->graph);
  dp_cancel_release(run->cancel);
  dp_cancel_release(run->call_scope);
  pthread_mutex_destroy(&run->lock);
  dp_free(run);
  dp_worker_run_ended(worker);
}

void dp_worker_run_abandon(graph_run *run, dp_status *why) {
  dp_cancel_trigger(run->cancel, why);
  release_run(run);
}

static graph_run *make_run(dp_worker *worker, registered_graph *graph,
                           const dp_run_graph_request *request, dp_cancel *cancel) {
  graph_run *run = dp_calloc(1, sizeof(graph_run) + graph->unit_count * sizeof(dp_step));
  dp_refcount_init(&run->references);
  run->worker = worker;
  run->graph = graph;
  run->entry = dp_worker_step_enter(worker, request->step_id, graph->session);
  bool outlives_call = request->is_partial || !cancel;
  run->call_scope = outlives_call ? NULL : dp_cancel_retain(cancel);
  run->cancel = dp_cancel_create(outlives_call ? worker->life : cancel, DP_FOREVER);
  dp_worker_step_set_scope(run->entry, run->cancel);
  if (request->exec_opts &&
      (request->exec_opts->record_timeline || request->exec_opts->record_costs))
    run->stats = dp_stats_collector_create();
  dp_tensor_store_init(&run->kept, graph->session->state);
  snprintf(run->container, sizeof(run->container), DP_STEP_CONTAINER_PREFIX "%" PRId64,
           request->step_id);
  pthread_mutex_init(&run->lock, NULL);
  run->units_left = (int32_t)graph->unit_count;
  if (graph->has_collectives)
    dp_worker_collective_step_init(worker, graph, run->entry, &run->collective);
  dp_refcount_retain(&worker->running);
  return run;
}

static void tell_call(run_call *call, dp_status *status) {
  pthread_mutex_lock(&call->lock);
  dp_status_update(&call->status, status);
  bool is_last = --call->outstanding == 0;
  pthread_mutex_unlock(&call->lock);
  if (is_last)
    finish_call(call);
}

static void start_outputs(run_call *call);

/* All executors are done. An ordinary call now takes its outputs; a partial one may have them. */
static void finish_units(graph_run *run) {
  pthread_mutex_lock(&run->lock);
  run_call *call = run->waiting;
  run->waiting = NULL;
  dp_status *status = dp_status_retain(run->status);
  pthread_mutex_unlock(&run->lock);
  if (status)
    note_failure(run, status);
  if (call) {
    if (!call->is_last || status)
      tell_call(call, status);
    else
      start_outputs(call);
  }
  dp_status_release(call ? NULL : status);
  release_run(run);
}

static void unit_done(void *arg, dp_status *status) {
  graph_run *run = arg;
  pthread_mutex_lock(&run->lock);
  dp_status_update(&run->status, status);
  bool is_last = --run->units_left == 0;
  pthread_mutex_unlock(&run->lock);
  if (is_last)
    finish_units(run);
}

static void start_units(graph_run *run) {
  registered_graph *graph = run->graph;
  size_t count = graph->unit_count;
  for (size_t i = 0; i < count; i++) {
    run->steps[i] = (dp_step){.id = run->entry->id,
                              .session_handle = graph->session->handle,
                              .rendezvous = run->entry->rendezvous,
                              .cancel = run->cancel,
                              .pool = graph->session->threads ? graph->session->threads
                                                              : graph->units[i].device->compute,
                              .functions = graph->units[i].functions,
                              .session_state = graph->session->state,
                              .tensor_store = &run->kept,
                              .stats = run->stats ? dp_stats_collector_sink(run->stats) : NULL,
                              .container = run->container,
                              .collective = graph->has_collectives ? &run->collective : NULL};
  }
  if (count == 0)
    finish_units(run);
  /* A lent thread goes into the last one only, or the others would wait for their start. */
  bool is_lent = dp_thread_lend(false);
  for (size_t i = 0; i < count; i++) {
    if (i == count - 1)
      dp_thread_lend(is_lent);
    dp_executor_run(graph->units[i].executor, &run->steps[i], unit_done, run);
  }
  dp_thread_lend(is_lent);
}

/* ---- The call ---- */

static run_call *make_call(graph_run *run, const dp_run_graph_request *request,
                           dp_worker_run_done_fn done, void *arg) {
  run_call *call = DP_NEW(run_call);
  dp_refcount_retain(&run->references);
  call->run = run;
  call->done = done;
  call->arg = arg;
  call->arena = dp_arena_create();
  call->record_partition_graphs = request->exec_opts && request->exec_opts->record_partition_graphs;
  pthread_mutex_init(&call->lock, NULL);
  call->key_count = request->recv_key_count;
  call->outputs = DP_ARENA_ARRAY(call->arena, dp_named_tensor, request->recv_key_count + 1);
  for (size_t i = 0; i < request->recv_key_count; i++)
    call->outputs[i].name = dp_arena_strdup(call->arena, request->recv_keys[i]);
  return call;
}

typedef struct output_slot {
  run_call *call;
  dp_named_tensor *output;
} output_slot;

static void output_received(void *arg, dp_status *status, dp_tensor *value, bool is_dead) {
  output_slot *slot = arg;
  run_call *call = slot->call;
  if (!status && is_dead)
    status = DP_INVALID("The tensor returned for %s was not valid.", slot->output->name);
  if (!status)
    slot->output->tensor = dp_tensor_take(value);
  dp_free(slot);
  tell_call(call, status);
}

/* Asks the rendezvous for all outputs. After the executors' end what is not there will never come:
 * the scope ends the wait. */
static void start_outputs(run_call *call) {
  graph_run *run = call->run;
  bool executors_are_done = call->is_last;
  pthread_mutex_lock(&call->lock);
  call->outstanding += call->key_count;
  pthread_mutex_unlock(&call->lock);
  for (size_t i = 0; i < call->key_count; i++) {
    output_slot *slot = DP_NEW(output_slot);
    *slot = (output_slot){call, &call->outputs[i]};
    dp_rendezvous_receive(run->entry->rendezvous, dp_view_of(call->outputs[i].name), run->cancel,
                          output_received, slot);
  }
  if (executors_are_done) {
    pthread_mutex_lock(&call->lock);
    bool something_is_missing = call->outstanding > 1;
    pthread_mutex_unlock(&call->lock);
    if (something_is_missing)
      dp_cancel_trigger(run->cancel, dp_status_create(DP_INVALID_ARGUMENT,
                                                      "a fetched tensor was never produced"));
  }
  tell_call(call, NULL);
}

/* A handle of a tensor that the session keeps may be fed in that tensor's place. */
static dp_status *find_fed(const worker_session *session, const dp_tensor *fed,
                           dp_tensor *value_out) {
  const dp_resource_handle *handle = NULL;
  if (fed->dtype == DP_RESOURCE && fed->shape.elements == 1)
    handle = dp_tensor_handles(fed)[0];
  if (handle && strcmp(handle->container, DP_TENSOR_HANDLE_CONTAINER) == 0)
    return dp_session_state_find(session->state, dp_view_of(handle->name), value_out);
  *value_out = dp_tensor_copy(fed);
  return NULL;
}

static dp_status *send_feeds(graph_run *run, const dp_run_graph_request *request) {
  for (size_t i = 0; i < request->send_count; i++) {
    dp_tensor value;
    DP_RETURN_IF_ERROR(find_fed(run->graph->session, &request->sends[i].tensor, &value));
    DP_RETURN_IF_ERROR(dp_rendezvous_send(run->entry->rendezvous,
                                          dp_view_of(request->sends[i].name), &value, false));
  }
  return NULL;
}

static void add_partition_graphs(run_call *call, dp_run_graph_response *response) {
  const registered_graph *graph = call->run->graph;
  response->partition_graphs =
      DP_ARENA_ARRAY(call->arena, Tensorflow__GraphDef *, graph->unit_count);
  response->partition_graph_count = graph->unit_count;
  for (size_t i = 0; i < graph->unit_count; i++)
    response->partition_graphs[i] =
        dp_graph_export(dp_executor_graph(graph->units[i].executor), call->arena, true);
}

static void save_kept(graph_run *run) {
  for (size_t i = 0; i < run->graph->unit_count; i++)
    dp_tensor_store_save(&run->kept, dp_executor_graph(run->graph->units[i].executor));
}

static void answer_call(run_call *call) {
  save_kept(call->run);
  dp_run_graph_response response = {.recvs = call->outputs, .recv_count = call->key_count};
  if (call->run->stats && call->is_last)
    response.step_stats = dp_stats_collector_message(call->run->stats, call->arena);
  if (call->record_partition_graphs)
    add_partition_graphs(call, &response);
  call->done(call->arg, NULL, &response);
}

static void finish_call(run_call *call) {
  dp_status *status = call->status;
  if (status)
    call->done(call->arg, status, NULL);
  else
    answer_call(call);
  for (size_t i = 0; i < call->key_count; i++)
    dp_tensor_deinit(&call->outputs[i].tensor);
  pthread_mutex_destroy(&call->lock);
  graph_run *run = call->run;
  dp_arena_destroy(call->arena);
  dp_free(call);
  release_run(run);
}

/* Consumes `status`; the executors may still be under way and are told to stop. */
static void fail_call(run_call *call, dp_status *status) {
  dp_cancel_trigger(call->run->cancel, dp_status_retain(status));
  call->outstanding = 1;
  tell_call(call, status);
}

/* ---- The two kinds ---- */

static void run_whole(graph_run *run, const dp_run_graph_request *request,
                      dp_worker_run_done_fn done, void *arg) {
  run_call *call = make_call(run, request, done, arg);
  call->is_last = true;
  call->outstanding = 1;
  dp_status *status = send_feeds(run, request);
  if (status) {
    fail_call(call, status);
    release_run(run);
    return;
  }
  run->waiting = call;
  start_units(run);
}

/* The first call of a partial run finds no run in the step's entry and starts one. */
static graph_run *join_partial(dp_worker *worker, registered_graph *graph,
                               const dp_run_graph_request *request, bool *is_first_out) {
  graph_run *made = make_run(worker, graph, request, NULL);
  pthread_mutex_t *lock = dp_worker_step_lock(worker, made->entry);
  pthread_mutex_lock(lock);
  graph_run *run = made->entry->partial;
  *is_first_out = run == NULL;
  if (!run) {
    run = made->entry->partial = made;
    dp_refcount_retain(&run->references); /* the entry's */
  }
  dp_refcount_retain(&run->references);
  pthread_mutex_unlock(lock);
  if (run != made)
    release_run(made);
  return run;
}

static void run_part(graph_run *run, bool is_first, const dp_run_graph_request *request,
                     dp_worker_run_done_fn done, void *arg) {
  run_call *call = make_call(run, request, done, arg);
  release_run(run); /* the call holds it now */
  call->outstanding = 1;
  dp_status *status = send_feeds(run, request);
  if (is_first)
    start_units(run);
  if (status) {
    fail_call(call, status);
    return;
  }
  if (request->is_last_partial_run) {
    pthread_mutex_lock(&run->lock);
    bool executors_run = run->units_left > 0;
    if (executors_run) {
      call->outstanding++;
      run->waiting = call;
    }
    pthread_mutex_unlock(&run->lock);
  }
  start_outputs(call);
}

void dp_worker_run_graph(dp_worker *worker, const dp_run_graph_request *request, dp_cancel *cancel,
                         dp_worker_run_done_fn done, void *arg) {
  worker_session *session = NULL;
  registered_graph *graph = NULL;
  dp_status *status = dp_fault("worker.run_graph");
  if (!status)
    status = dp_worker_session_find(worker, request->session_handle, &session);
  if (!status)
    status = dp_worker_graph_find(worker, session, request->graph_handle, &graph);
  dp_worker_session_release(session);
  if (status) {
    done(arg, status, NULL);
    return;
  }
  if (!request->is_partial) {
    run_whole(make_run(worker, graph, request, cancel), request, done, arg);
    return;
  }
  bool is_first;
  graph_run *run = join_partial(worker, graph, request, &is_first);
  run_part(run, is_first, request, done, arg);
}
