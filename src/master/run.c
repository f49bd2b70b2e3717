/* One run, from the client's call to its answer. RunStep, RunCallable and the calls of a partial
 * run all go through this file; they differ in where a run enters and in the form of the answer.
 *
 *   find the plan       plan.c; a callable and a partial run may have it already
 *   tell the debugger   debug.c; only when it watches the step
 *   take a step id      sequence.c
 *   RunGraph            step.c; on all tasks at once
 *   answer              here, callable.c, partial.c
 *   clean up            here
 *
 * Each phase starts the next one, in whichever thread it ended; a run is in one phase at a time and
 * nobody else changes it. An error in any phase goes straight to the answer. The run owns its
 * arena, its tensors and references to session and plan until the clean-up is sent. */
#include "base/fault.h"
#include "master/master_internal.h"

/* ---- Life ---- */

step_run *dp_master_run_create(master_session *session, const Tensorflow__RunOptions *options,
                               dp_cancel *cancel) {
  dp_arena *arena = dp_arena_create();
  step_run *run = DP_ARENA_NEW(arena, step_run);
  run->arena = arena;
  run->session = session;
  run->call_scope = cancel ? dp_cancel_retain(cancel) : NULL;
  run->deadline = dp_master_step_deadline(session, options);
  tensorflow__executor_opts__init(&run->executor_options);
  if (options) {
    run->executor_options.record_timeline =
        options->trace_level == TENSORFLOW__RUN_OPTIONS__TRACE_LEVEL__FULL_TRACE;
    run->executor_options.record_partition_graphs = options->output_partition_graphs;
    run->executor_options.report_tensor_allocations_upon_oom =
        options->report_tensor_allocations_upon_oom;
    run->wants_metadata = options->trace_level || options->output_partition_graphs;
  }
  return run;
}

void dp_master_run_reserve(step_run *run, size_t feeds, size_t fetches) {
  run->sends = DP_ARENA_ARRAY(run->arena, dp_named_tensor, feeds + 1);
  run->send_count = feeds;
  run->fetched = DP_ARENA_ARRAY(run->arena, dp_named_tensor, fetches + 1);
  run->fetch_count = fetches;
}

static void destroy_run(step_run *run) {
  for (size_t i = 0; i < run->send_count; i++)
    dp_tensor_deinit(&run->sends[i].tensor);
  for (size_t i = 0; i < run->fetch_count; i++)
    dp_tensor_deinit(&run->fetched[i].tensor);
  dp_master_plan_release(run->plan);
  dp_master_callable_unref(run->callable);
  dp_master_partial_unref(run->partial);
  dp_cancel_release(run->call_scope);
  dp_master_session_release(run->session);
  dp_arena_destroy(run->arena);
}

/* ---- The last phases: answer, clean up ---- */

static void clean_up(const step_run *run) {
  Tensorflow__CleanupGraphRequest request = TENSORFLOW__CLEANUP_GRAPH_REQUEST__INIT;
  request.step_id = run->step_id;
  for (size_t i = 0; i < run->plan->piece_count; i++)
    dp_master_tell_worker(&run->session->workers[run->plan->pieces[i].worker],
                          DP_WORKER_CLEANUP_GRAPH, &request);
}

/* Whether the step is over. An error ends a partial run, also one that its earlier calls started.
 */
static bool is_over(const step_run *run, const dp_status *status) {
  if (run->is_partial)
    return status || run->is_last_partial;
  return run->has_started;
}

/* Workers hear of the end after the client: the answer does not wait for that. The exception is a
 * step with collectives that failed. Its id may be given again, and a late clean-up would end the
 * step that has it then. */
void dp_master_run_finish(step_run *run, dp_status *status) {
  bool must_clean = is_over(run, status);
  bool id_comes_back = status && run->has_begun && run->plan->collective_key != 0;
  if (must_clean && id_comes_back)
    clean_up(run);
  if (run->has_begun)
    dp_master_step_retire(run->plan, status);
  if (status)
    dp_master_session_note_loss(run->session, run->call_scope);
  status = dp_master_status_for_client(run->session, status);
  run->answer(run, status);
  if (must_clean && !id_comes_back)
    clean_up(run);
  destroy_run(run);
}

/* ---- The middle phases ---- */

static void id_known(void *arg, dp_status *status, int64_t step_id) {
  step_run *run = arg;
  if (status) {
    dp_master_run_finish(run, status);
    return;
  }
  run->has_begun = true;
  run->step_id = step_id;
  dp_master_step_start(run);
}

static void take_id(step_run *run) {
  dp_master_step_begin(run->plan, run->call_scope, run->deadline, id_known, run);
}

/* On the blocking pool: files may be waited for. */
static void tell_debugger(void *arg) {
  step_run *run = arg;
  dp_status *status = dp_master_debug_next(run->plan, run->debug);
  if (status)
    dp_master_run_finish(run, status);
  else
    take_id(run);
}

/* A whole run feeds and fetches everything that the plan has, in the plan's order. */
static void name_tensors(step_run *run) {
  const step_plan *plan = run->plan;
  for (size_t i = 0; i < run->send_count; i++)
    run->sends[i].name = plan->feed_keys[i];
  for (size_t i = 0; i < run->fetch_count; i++)
    run->fetched[i].name = plan->signature.names.fetches[i];
  run->fetch_keys = plan->fetch_keys;
  run->recv_keys = plan->recv_keys;
  run->recv_key_count = plan->recv_key_count;
}

void dp_master_run_planned(step_run *run, step_plan *plan) {
  run->plan = plan;
  name_tensors(run);
  if (run->debug)
    dp_pool_run(run->session->master->blocking, tell_debugger, run);
  else
    take_id(run);
}

/* ---- The first phase ---- */

static void plan_known(void *arg, dp_status *status, step_plan *plan) {
  step_run *run = arg;
  if (status) {
    dp_master_run_finish(run, status);
    return;
  }
  if (run->callable)
    dp_master_callable_keep_plan(run->callable, run->session, plan);
  dp_master_run_planned(run, plan);
}

void dp_master_run_find_plan(step_run *run, const step_signature *signature) {
  dp_master_plan_get(run->session, signature, run->call_scope, run->deadline, plan_known, run);
}

/* ---- RunStep ---- */

static void answer_step(step_run *run, dp_status *status) {
  dp_run_step_response response = {
      .tensors = run->fetched, .tensor_count = run->fetch_count, .metadata = run->metadata};
  run->done.step(run->arg, status, status ? NULL : &response);
}

static int64_t given_key(const Tensorflow__RunOptions *options) {
  return options && options->experimental ? options->experimental->collective_graph_key : 0;
}

/* Consumes the reference to `session`. */
static void run_whole(master_session *session, const dp_run_step_request *request,
                      dp_cancel *cancel, dp_master_step_done_fn done, void *arg) {
  step_run *run = dp_master_run_create(session, request->options, cancel);
  run->answer = answer_step;
  run->done.step = done;
  run->arg = arg;
  const Tensorflow__DebugOptions *debug;
  dp_status *status = dp_master_debug_read(request->options, &debug);
  if (status) {
    dp_master_run_finish(run, status);
    return;
  }
  if (debug)
    run->debug = dp_master_debug_copy(debug, run->arena);
  dp_master_run_reserve(run, request->feed_count, request->fetch_count);
  const char **feeds = DP_ARENA_ARRAY(run->arena, const char *, request->feed_count + 1);
  for (size_t i = 0; i < request->feed_count; i++) {
    feeds[i] = request->feeds[i].name;
    run->sends[i].tensor = dp_tensor_copy(&request->feeds[i].tensor);
  }
  step_signature signature = {.names = {feeds, request->feed_count, request->fetches,
                                        request->fetch_count, request->targets,
                                        request->target_count},
                              .collective_key = given_key(request->options),
                              .debug = run->debug};
  signature.hash = dp_master_signature_hash(&signature);
  dp_master_run_find_plan(run, &signature);
}

void dp_master_run_step(dp_master *master, const dp_run_step_request *request, dp_cancel *cancel,
                        dp_master_step_done_fn done, void *arg) {
  master_session *session = NULL;
  dp_status *status = dp_fault("master.run_step");
  if (!status)
    status = dp_master_session_find(master, request->session_handle, &session);
  if (status)
    done(arg, status, NULL);
  else if (*request->partial_run_handle)
    dp_master_partial_run(session, request, cancel, done, arg);
  else
    run_whole(session, request, cancel, done, arg);
}
