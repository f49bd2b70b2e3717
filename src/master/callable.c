/* Callables: a signature with its options under a number, so that later calls carry only tensors.
 */
#include "master/master_internal.h"

typedef struct callable {
  dp_refcount references;
  dp_arena *arena;
  Tensorflow__CallableOptions *options;
  dp_planner_connection *connections;    /* of the options */
  const Tensorflow__DebugOptions *debug; /* of them, when it watches something; else NULL */
} callable;

static void release_callable(callable *made) {
  if (!made || !dp_refcount_release(&made->references))
    return;
  dp_arena_destroy(made->arena);
  dp_free(made);
}

dp_status *dp_master_callable_make(master_session *session,
                                   const Tensorflow__CallableOptions *options,
                                   int64_t *handle_out) {
  if (!options)
    return DP_INVALID("MakeCallable: options are missing");
  const Tensorflow__DebugOptions *debug;
  DP_RETURN_IF_ERROR(dp_master_debug_read(options->run_options, &debug));
  callable *made = DP_NEW(callable);
  dp_refcount_init(&made->references);
  made->arena = dp_arena_create();
  dp_status *status = dp_wire_copy(options, made->arena, &made->options);
  if (status) {
    release_callable(made);
    return status;
  }
  if (debug)
    made->debug = made->options->run_options->debug_options;
  made->connections =
      DP_ARENA_ARRAY(made->arena, dp_planner_connection, options->n_tensor_connection + 1);
  for (size_t i = 0; i < options->n_tensor_connection; i++)
    made->connections[i] =
        (dp_planner_connection){.from = made->options->tensor_connection[i]->from_tensor,
                                .to = made->options->tensor_connection[i]->to_tensor};
  pthread_mutex_lock(&session->lock);
  int64_t handle = session->next_callable++;
  dp_map_put_n(session->callables, &handle, sizeof(handle), made);
  pthread_mutex_unlock(&session->lock);
  *handle_out = handle;
  return NULL;
}

static dp_status *no_callable(int64_t handle) {
  return DP_INVALID("No such callable handle: %lld", (long long)handle);
}

dp_status *dp_master_callable_release(master_session *session, int64_t handle) {
  pthread_mutex_lock(&session->lock);
  callable *removed = dp_map_remove_n(session->callables, &handle, sizeof(handle));
  pthread_mutex_unlock(&session->lock);
  if (!removed)
    return no_callable(handle);
  release_callable(removed);
  return NULL;
}

void dp_master_callables_drop(master_session *session) {
  pthread_mutex_lock(&session->lock);
  dp_map *callables = session->callables;
  session->callables = dp_map_create();
  pthread_mutex_unlock(&session->lock);
  const char *key;
  void *dropped;
  for (size_t at = 0; dp_map_next(callables, &at, &key, &dropped);)
    release_callable(dropped);
  dp_map_destroy(callables);
}

/* ---- Running ---- */

typedef struct callable_run {
  master_session *session;
  callable *callable;
  step_plan *plan;
  dp_cancel *cancel;
  int64_t deadline;
  step_feed *feeds;
  size_t feed_count;
  bool has_begun; /* with an id that must be retired */
  dp_master_callable_done_fn done;
  void *arg;
} callable_run;

/* Consumes `status`. */
static void finish_run(callable_run *run, dp_status *status, dp_run_callable_response *response) {
  if (run->has_begun)
    dp_master_step_retire(run->plan, status);
  if (status)
    dp_master_session_note_loss(run->session, run->cancel);
  run->done(run->arg, status, response);
  for (size_t i = 0; i < run->feed_count; i++)
    dp_tensor_deinit(&run->feeds[i].tensor);
  dp_free(run->feeds);
  dp_master_plan_release(run->plan);
  if (run->cancel)
    dp_cancel_release(run->cancel);
  release_callable(run->callable);
  dp_master_session_release(run->session);
  dp_free(run);
}

static void step_done(void *arg, dp_status *status, step_result *result) {
  dp_run_callable_response response = {0};
  if (!status)
    response = (dp_run_callable_response){.fetches = result->fetches,
                                          .fetch_count = result->fetch_count,
                                          .metadata = result->metadata};
  finish_run(arg, status, status ? NULL : &response);
}

static void id_known(void *arg, dp_status *status, int64_t step_id) {
  callable_run *run = arg;
  step_plan *plan = run->plan;
  if (status) {
    finish_run(run, status, NULL);
    return;
  }
  run->has_begun = true;
  size_t fetch_count = plan->signature.names.fetch_count;
  size_t *fetches = DP_NEW_ARRAY(size_t, fetch_count + 1);
  for (size_t i = 0; i < fetch_count; i++)
    fetches[i] = i;
  const Tensorflow__RunOptions *options = run->callable->options->run_options;
  step_order order = {.plan = plan,
                      .step_id = step_id,
                      .feeds = run->feeds,
                      .feed_count = run->feed_count,
                      .fetches = fetches,
                      .fetch_count = fetch_count,
                      .options = options};
  dp_master_step_run(&order, run->cancel, run->deadline, step_done, run);
  dp_free(fetches);
}

static void plan_ready(void *arg, dp_status *status, step_plan *plan) {
  callable_run *run = arg;
  if (status) {
    finish_run(run, status, NULL);
    return;
  }
  run->plan = plan;
  dp_master_step_begin(plan, run->cancel, run->deadline, id_known, run);
}

static callable *find_callable(master_session *session, int64_t handle) {
  pthread_mutex_lock(&session->lock);
  callable *found = dp_map_get_n(session->callables, &handle, sizeof(handle));
  if (found)
    dp_refcount_retain(&found->references);
  pthread_mutex_unlock(&session->lock);
  return found;
}

static callable_run *make_run(master_session *session, callable *callable,
                              const dp_run_callable_request *request, dp_cancel *cancel,
                              dp_master_callable_done_fn done, void *arg) {
  callable_run *run = DP_NEW(callable_run);
  run->session = session;
  run->callable = callable;
  run->cancel = cancel ? dp_cancel_retain(cancel) : NULL;
  run->deadline = dp_master_step_deadline(session, callable->options->run_options);
  run->feed_count = request->feed_count;
  run->feeds = DP_NEW_ARRAY(step_feed, request->feed_count + 1);
  for (size_t i = 0; i < request->feed_count; i++)
    run->feeds[i] = (step_feed){i, dp_tensor_copy(&request->feeds[i])};
  run->done = done;
  run->arg = arg;
  return run;
}

void dp_master_run_callable(dp_master *master, const dp_run_callable_request *request,
                            dp_cancel *cancel, dp_master_callable_done_fn done, void *arg) {
  master_session *session = NULL;
  dp_status *status = dp_master_session_find(master, request->session_handle, &session);
  if (status) {
    done(arg, status, NULL);
    return;
  }
  callable *callable = find_callable(session, request->handle);
  if (!callable) {
    dp_master_session_release(session);
    done(arg, no_callable(request->handle), NULL);
    return;
  }
  const Tensorflow__CallableOptions *options = callable->options;
  callable_run *run = make_run(session, callable, request, cancel, done, arg);
  if (request->feed_count != options->n_feed) {
    finish_run(
        run,
        DP_INVALID("Expected %zu feed tensors, but got %zu", options->n_feed, request->feed_count),
        NULL);
    return;
  }
  step_signature signature = {.names = {(const char *const *)options->feed, options->n_feed,
                                        (const char *const *)options->fetch, options->n_fetch,
                                        (const char *const *)options->target, options->n_target,
                                        callable->connections, options->n_tensor_connection},
                              .debug = callable->debug,
                              .is_callable = true};
  dp_master_plan_get(session, &signature, cancel, run->deadline, plan_ready, run);
}
