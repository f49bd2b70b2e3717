/* The middle of a run: RunGraph to every task of the plan at once, the answers merged. The first
 * error wins and is what the client sees.
 *
 * The step's scope hangs below the session's life, so that closing the session ends it, and is
 * linked to the call's own scope, which the network triggers when the client goes away. The first
 * error triggers it too, so that no worker goes on for nothing. Answers come in any thread; the
 * lock of the calls guards what they merge. Whoever counts the last one finishes the run. */
#include <stdatomic.h>
#include "master/master_internal.h"

/* ---- Deadlines and ids ---- */

/* The seed is random, steps count on from it, and the bits are mixed: ids of one session differ,
 * and those of two masters that share a worker meet no more often than random numbers do. The 8
 * highest bits stay free, and no id is 0. */
int64_t dp_master_step_id(master_session *session) {
  uint64_t id = atomic_fetch_add_explicit(&session->next_step, 1, memory_order_relaxed);
  id = (id ^ id >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  id = (id ^ id >> 27) * UINT64_C(0x94D049BB133111EB);
  id ^= id >> 31;
  return (int64_t)(id & (((uint64_t)1 << 56) - 1)) | 1;
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

/* ---- The end ---- */

static const char *task_of(const run_piece *piece) {
  const step_run *run = piece->run;
  return run->session->workers[run->plan->pieces[piece - run->pieces].worker].task;
}

static void describe_step(void *arg, dp_text *text) {
  step_run *run = arg;
  dp_text_printf(text, "step %016llx of session %s waits for", (unsigned long long)run->step_id,
                 run->session->handle);
  for (size_t i = 0; i < run->plan->piece_count; i++)
    if (!atomic_load(&run->pieces[i].is_done))
      dp_text_printf(text, " %s", task_of(&run->pieces[i]));
}

/* The step ran out of time before this piece, and perhaps others, had ended: says which. Consumes
 * `status`. */
static dp_status *say_late(step_run *run, dp_status *status) {
  dp_text text = {0};
  describe_step(run, &text);
  status = dp_status_append(status, ": %s", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

static void end_step(step_run *run) {
  dp_master_watch_end(run->session, &run->watch);
  if (run->is_linked)
    dp_cancel_deregister(run->call_scope, run->call_token);
  dp_cancel_release(run->scope);
  dp_master_run_finish(run, worker_calls_deinit(&run->calls));
}

/* ---- Answers ---- */

/* Adds a worker's statistics and partitions to the metadata, in memory of the run's arena. */
static dp_status *merge_metadata(step_run *run, const dp_run_graph_response *response) {
  Tensorflow__RunMetadata *metadata = run->metadata;
  if (response->step_stats) {
    Tensorflow__StepStats *copy;
    DP_RETURN_IF_ERROR(dp_wire_copy(response->step_stats, run->arena, &copy));
    Tensorflow__StepStats *all = metadata->step_stats;
    size_t count = all->n_dev_stats + copy->n_dev_stats;
    Tensorflow__DeviceStepStats **merged =
        DP_ARENA_ARRAY(run->arena, Tensorflow__DeviceStepStats *, count + 1);
    for (size_t i = 0; i < count; i++)
      merged[i] = i < all->n_dev_stats ? all->dev_stats[i] : copy->dev_stats[i - all->n_dev_stats];
    all->dev_stats = merged;
    all->n_dev_stats = count;
  }
  size_t count = metadata->n_partition_graphs + response->partition_graph_count;
  Tensorflow__GraphDef **graphs = DP_ARENA_ARRAY(run->arena, Tensorflow__GraphDef *, count + 1);
  for (size_t i = 0; i < metadata->n_partition_graphs; i++)
    graphs[i] = metadata->partition_graphs[i];
  for (size_t i = 0; i < response->partition_graph_count; i++)
    DP_RETURN_IF_ERROR(dp_wire_copy(response->partition_graphs[i], run->arena,
                                    &graphs[metadata->n_partition_graphs + i]));
  metadata->partition_graphs = graphs;
  metadata->n_partition_graphs = count;
  return NULL;
}

/* Only the client's own piece has fetches, so nobody else touches them. */
static dp_status *take_response(run_piece *piece, dp_run_graph_response *response) {
  step_run *run = piece->run;
  if ((size_t)(piece - run->pieces) == run->plan->client_piece)
    DP_RETURN_IF_ERROR(
        dp_master_fetches_take(run->fetch_keys, run->fetched, run->fetch_count, response));
  if (!run->metadata)
    return NULL;
  pthread_mutex_lock(&run->calls.lock);
  dp_status *status = merge_metadata(run, response);
  pthread_mutex_unlock(&run->calls.lock);
  return status;
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

/* Whether the status is what ended the step's scope, and not something that happened to the piece.
 */
static bool is_from_scope(const step_run *run, const dp_status *status) {
  dp_status *why = status ? dp_cancel_status(run->scope) : NULL;
  bool is_same = why == status;
  dp_status_release(why);
  return status && is_same;
}

static void piece_done(void *arg, dp_status *status, dp_run_graph_response *response) {
  run_piece *piece = arg;
  step_run *run = piece->run;
  if (dp_status_code(status) == DP_DEADLINE_EXCEEDED && dp_cancel_is_triggered(run->scope))
    status = say_late(run, status);
  else if (!is_from_scope(run, status))
    status = name_task(status, task_of(piece));
  atomic_store(&piece->is_done, true);
  if (!status)
    status = take_response(piece, response);
  if (status)
    dp_cancel_trigger(run->scope, dp_status_retain(status));
  if (worker_calls_count(&run->calls, status))
    end_step(run);
}

/* ---- The start ---- */

static void call_cancelled(void *arg, const dp_status *why) {
  dp_cancel_trigger(arg, dp_status_retain(why));
}

static void link_scopes(step_run *run) {
  run->scope = dp_cancel_create(run->session->life, run->deadline);
  if (!run->call_scope)
    return;
  run->is_linked =
      dp_cancel_register(run->call_scope, call_cancelled, run->scope, &run->call_token);
  if (!run->is_linked)
    dp_cancel_trigger(run->scope, dp_cancel_status(run->call_scope));
}

static void prepare_step(step_run *run) {
  size_t pieces = run->plan->piece_count;
  run->has_started = true;
  run->pieces = DP_ARENA_ARRAY(run->arena, run_piece, pieces + 1);
  for (size_t i = 0; i < pieces; i++)
    run->pieces[i].run = run;
  if (run->wants_metadata) {
    run->metadata = dp_wire_new(run->arena, &tensorflow__run_metadata__descriptor);
    run->metadata->step_stats = dp_wire_new(run->arena, &tensorflow__step_stats__descriptor);
  }
  link_scopes(run);
  worker_calls_init(&run->calls, pieces + 1); /* and one for the start */
  dp_master_watch_begin(run->session, &run->watch, run->scope, describe_step, run);
}

static void run_piece_graph(step_run *run, size_t index) {
  const step_plan *plan = run->plan;
  bool is_client = index == plan->client_piece;
  dp_run_graph_request request = {
      .session_handle = run->session->handle,
      .create_worker_session_called = true,
      .graph_handle = plan->pieces[index].graph_handle,
      .step_id = run->step_id,
      .exec_opts = &run->executor_options,
      .sends = is_client ? run->sends : NULL,
      .send_count = is_client ? run->send_count : 0,
      .recv_keys = is_client ? run->recv_keys : NULL,
      .recv_key_count = is_client ? run->recv_key_count : 0,
      .is_partial = run->is_partial,
      .is_last_partial_run = run->is_last_partial,
  };
  dp_worker_peer *peer = run->session->workers[plan->pieces[index].worker].peer;
  peer->ops->run_graph(peer, &request, run->scope, piece_done, &run->pieces[index]);
}

/* A thread that is lent (base/thread.h) may stay in the client's piece until it has ended: that
 * piece is started last, or the others, from which it receives, would wait for their start. */
static void start_pieces(step_run *run) {
  size_t client_piece = run->plan->client_piece;
  bool is_lent = dp_thread_lend(false);
  for (size_t i = 0; i < run->plan->piece_count; i++) {
    if (i != client_piece)
      run_piece_graph(run, i);
  }
  dp_thread_lend(is_lent);
  if (client_piece < run->plan->piece_count)
    run_piece_graph(run, client_piece);
}

void dp_master_step_start(step_run *run) {
  prepare_step(run);
  start_pieces(run);
  if (worker_calls_count(&run->calls, NULL))
    end_step(run);
}
