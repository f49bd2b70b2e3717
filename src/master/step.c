/* One step: RunGraph to every worker of a plan at once, the answers merged, the first error wins.
 *
 * The step's scope hangs below the session's life, so that closing the session ends it, and is
 * linked to the call's own scope, which the network triggers when the client goes away. The first
 * error triggers it too, so that no worker goes on for nothing. */
#include <stdatomic.h>
#include "base/philox.h"
#include "master/master_internal.h"

typedef struct running_step running_step;

typedef struct running_piece {
  running_step *step;
  const char *task;
  atomic_bool is_done;
} running_piece;

struct running_step {
  master_watch watch;
  step_plan *plan;
  int64_t step_id;
  dp_cancel *scope;
  dp_cancel *call_scope;
  dp_cancel_token call_token;
  worker_calls calls;
  bool stays; /* a partial run that goes on */
  size_t fetch_count;
  dp_tensor *fetches;
  const char **fetch_keys;
  dp_arena *arena;
  pthread_mutex_t metadata_lock;
  Tensorflow__RunMetadata *metadata;
  step_done_fn done;
  void *arg;
  running_piece *pieces;
};

int64_t dp_master_step_id(void) {
  return (int64_t)(dp_random_seed() & (((uint64_t)1 << 56) - 1)) | 1;
}

int64_t dp_master_step_deadline(const master_session *session,
                                const Tensorflow__RunOptions *options) {
  int64_t milliseconds = options ? options->timeout_in_ms : 0;
  if (milliseconds == 0)
    milliseconds = session->config->operation_timeout_in_ms;
  return dp_master_deadline(milliseconds);
}

int64_t dp_master_deadline(int64_t milliseconds) {
  int64_t early = milliseconds / 10;
  return dp_clock_deadline_ms(milliseconds - (early < 250 ? early : 250));
}

/* ---- Clean-up ---- */

static void ignore_answer(void *arg, dp_status *status, const void *response) {
  dp_status_release(status);
}

static void clean_up(running_step *step) {
  Tensorflow__CleanupGraphRequest request = TENSORFLOW__CLEANUP_GRAPH_REQUEST__INIT;
  request.step_id = step->step_id;
  for (size_t i = 0; i < step->plan->piece_count; i++) {
    dp_worker_peer *peer = step->plan->session->workers[step->plan->pieces[i].worker].peer;
    peer->ops->call(peer, DP_WORKER_CLEANUP_GRAPH, &request,
                    dp_clock_deadline_ms(CLEAN_UP_MILLISECONDS), NULL, ignore_answer, NULL);
  }
}

/* ---- The end ---- */

static void describe_step(void *arg, dp_text *text) {
  running_step *step = arg;
  dp_text_printf(text, "step %016llx of session %s waits for", (unsigned long long)step->step_id,
                 step->plan->session->handle);
  for (size_t i = 0; i < step->plan->piece_count; i++) {
    if (!atomic_load(&step->pieces[i].is_done))
      dp_text_printf(text, " %s", step->plan->session->workers[step->plan->pieces[i].worker].task);
  }
}

/* The step ran out of time before this piece, and perhaps others, had ended: says which. Consumes
 * `status`. */
static dp_status *say_late(running_step *step, dp_status *status) {
  dp_text text = {0};
  describe_step(step, &text);
  status = dp_status_append(status, ": %s", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

static void finish_step(running_step *step) {
  dp_master_watch_end(step->plan->session->master, &step->watch);
  if (step->call_scope) {
    dp_cancel_deregister(step->call_scope, step->call_token);
    dp_cancel_release(step->call_scope);
  }
  dp_status *status = worker_calls_deinit(&step->calls);
  if (!step->stays || status)
    clean_up(step);
  step_result result = {step->fetches, step->fetch_count, step->metadata};
  step->done(step->arg, status, status ? NULL : &result);
  for (size_t i = 0; i < step->fetch_count; i++)
    dp_tensor_deinit(&step->fetches[i]);
  pthread_mutex_destroy(&step->metadata_lock);
  dp_cancel_release(step->scope);
  dp_arena_destroy(step->arena);
}

/* ---- Answers ---- */

static dp_status *take_fetches(running_step *step, dp_run_graph_response *response) {
  for (size_t i = 0; i < response->recv_count; i++) {
    for (size_t k = 0; k < step->fetch_count; k++) {
      if (strcmp(step->fetch_keys[k], response->recvs[i].name) != 0 ||
          dp_tensor_is_set(&step->fetches[k]))
        continue;
      step->fetches[k] = dp_tensor_copy(&response->recvs[i].tensor);
    }
  }
  return NULL;
}

/* Adds a worker's statistics and partitions to the metadata, in memory of the step's arena. */
static dp_status *merge_metadata(running_step *step, const dp_run_graph_response *response) {
  Tensorflow__RunMetadata *metadata = step->metadata;
  if (response->step_stats) {
    Tensorflow__StepStats *copy;
    DP_RETURN_IF_ERROR(dp_wire_copy(response->step_stats, step->arena, &copy));
    Tensorflow__StepStats *all = metadata->step_stats;
    size_t count = all->n_dev_stats + copy->n_dev_stats;
    Tensorflow__DeviceStepStats **merged =
        DP_ARENA_ARRAY(step->arena, Tensorflow__DeviceStepStats *, count + 1);
    for (size_t i = 0; i < count; i++)
      merged[i] = i < all->n_dev_stats ? all->dev_stats[i] : copy->dev_stats[i - all->n_dev_stats];
    all->dev_stats = merged;
    all->n_dev_stats = count;
  }
  size_t count = metadata->n_partition_graphs + response->partition_graph_count;
  Tensorflow__GraphDef **graphs = DP_ARENA_ARRAY(step->arena, Tensorflow__GraphDef *, count + 1);
  for (size_t i = 0; i < metadata->n_partition_graphs; i++)
    graphs[i] = metadata->partition_graphs[i];
  for (size_t i = 0; i < response->partition_graph_count; i++)
    DP_RETURN_IF_ERROR(dp_wire_copy(response->partition_graphs[i], step->arena,
                                    &graphs[metadata->n_partition_graphs + i]));
  metadata->partition_graphs = graphs;
  metadata->n_partition_graphs = count;
  return NULL;
}

/* As TensorFlow words it. Consumes `status`. */
static dp_status *name_task(dp_status *status, const char *task) {
  if (!status)
    return NULL;
  dp_status *named =
      dp_status_create(dp_status_code(status), "From %s:\n%s", task, dp_status_message(status));
  dp_status_release(status);
  return named;
}

static void piece_done(void *arg, dp_status *status, dp_run_graph_response *response) {
  running_piece *piece = arg;
  running_step *step = piece->step;
  if (dp_status_code(status) == DP_DEADLINE_EXCEEDED && dp_cancel_is_triggered(step->scope))
    status = say_late(step, status);
  else
    status = name_task(status, piece->task);
  atomic_store(&piece->is_done, true);
  if (!status) {
    pthread_mutex_lock(&step->metadata_lock);
    status = take_fetches(step, response);
    if (!status && step->metadata)
      status = merge_metadata(step, response);
    pthread_mutex_unlock(&step->metadata_lock);
  }
  if (status)
    dp_cancel_trigger(step->scope, dp_status_retain(status));
  if (worker_calls_count(&step->calls, status))
    finish_step(step);
}

/* ---- The start ---- */

static void call_cancelled(void *arg, const dp_status *why) {
  dp_cancel_trigger(arg, dp_status_retain(why));
}

static void link_scopes(running_step *step, dp_cancel *cancel) {
  if (!cancel)
    return;
  if (dp_cancel_register(cancel, call_cancelled, step->scope, &step->call_token))
    step->call_scope = dp_cancel_retain(cancel);
  else
    dp_cancel_trigger(step->scope, dp_cancel_status(cancel));
}

static Tensorflow__ExecutorOpts executor_options(const Tensorflow__RunOptions *options) {
  Tensorflow__ExecutorOpts wanted = TENSORFLOW__EXECUTOR_OPTS__INIT;
  if (options) {
    wanted.record_timeline =
        options->trace_level == TENSORFLOW__RUN_OPTIONS__TRACE_LEVEL__FULL_TRACE;
    wanted.record_partition_graphs = options->output_partition_graphs;
    wanted.report_tensor_allocations_upon_oom = options->report_tensor_allocations_upon_oom;
  }
  return wanted;
}

static running_step *make_step(const step_order *order, dp_cancel *cancel, int64_t deadline,
                               step_done_fn done, void *arg) {
  dp_arena *arena = dp_arena_create();
  running_step *step = DP_ARENA_NEW(arena, running_step);
  step->arena = arena;
  step->plan = order->plan;
  step->step_id = order->step_id;
  step->scope = dp_cancel_create(order->plan->session->life, deadline);
  link_scopes(step, cancel);
  worker_calls_init(&step->calls, order->plan->piece_count + 1); /* and one for the start */
  pthread_mutex_init(&step->metadata_lock, NULL);
  step->stays = order->is_partial && !order->is_last_partial;
  step->fetch_count = order->fetch_count;
  step->fetches = DP_ARENA_ARRAY(arena, dp_tensor, order->fetch_count + 1);
  step->fetch_keys = DP_ARENA_ARRAY(arena, const char *, order->fetch_count + 1);
  for (size_t i = 0; i < order->fetch_count; i++)
    step->fetch_keys[i] = order->plan->fetch_keys[order->fetches[i]];
  const Tensorflow__RunOptions *options = order->options;
  if (options && (options->trace_level || options->output_partition_graphs)) {
    step->metadata = dp_wire_new(arena, &tensorflow__run_metadata__descriptor);
    step->metadata->step_stats = dp_wire_new(arena, &tensorflow__step_stats__descriptor);
  }
  step->done = done;
  step->arg = arg;
  step->pieces = DP_ARENA_ARRAY(arena, running_piece, order->plan->piece_count + 1);
  dp_master_watch_begin(order->plan->session->master, &step->watch, describe_step, step);
  return step;
}

static void add_feeds(const step_order *order, dp_arena *arena, dp_run_graph_request *request) {
  request->sends = DP_ARENA_ARRAY(arena, dp_named_tensor, order->feed_count + 1);
  request->send_count = order->feed_count;
  for (size_t i = 0; i < order->feed_count; i++)
    request->sends[i] =
        (dp_named_tensor){order->plan->feed_keys[order->feeds[i].index], order->feeds[i].tensor};
}

void dp_master_step_run(const step_order *order, dp_cancel *cancel, int64_t deadline,
                        step_done_fn done, void *arg) {
  running_step *step = make_step(order, cancel, deadline, done, arg);
  step_plan *plan = order->plan;
  master_session *session = plan->session;
  Tensorflow__ExecutorOpts options = executor_options(order->options);
  dp_run_graph_request with_client = {0};
  add_feeds(order, step->arena, &with_client);
  for (size_t i = 0; i < plan->piece_count; i++) {
    bool is_client = i == plan->client_piece;
    dp_run_graph_request request = {
        .session_handle = session->handle,
        .create_worker_session_called = true,
        .graph_handle = plan->pieces[i].graph_handle,
        .step_id = order->step_id,
        .exec_opts = &options,
        .sends = is_client ? with_client.sends : NULL,
        .send_count = is_client ? with_client.send_count : 0,
        .recv_keys = is_client ? step->fetch_keys : NULL,
        .recv_key_count = is_client ? step->fetch_count : 0,
        .is_partial = order->is_partial,
        .is_last_partial_run = order->is_last_partial,
    };
    const session_worker *worker = &session->workers[plan->pieces[i].worker];
    step->pieces[i].step = step;
    step->pieces[i].task = worker->task;
    worker->peer->ops->run_graph(worker->peer, &request, step->scope, piece_done, &step->pieces[i]);
  }
  if (worker_calls_count(&step->calls, NULL))
    finish_step(step);
}
