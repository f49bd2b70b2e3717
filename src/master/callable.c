/* Callables: a signature with its options under a number, so that later calls carry only tensors.
 *
 * The first run of a callable finds its plan as a step does; once the plan is ready the callable
 * keeps it, and later runs look nothing up. A plan that failed is not kept: the next run tries
 * again. A graph that grows changes nothing for a callable, as in TensorFlow.
 *
 * The session's table and each run under way hold a reference. The session's lock guards the table
 * and every callable's plan; the rest never changes. */
#include "master/master_internal.h"

struct callable {
  dp_refcount references;
  dp_arena *arena;
  Tensorflow__CallableOptions *options;
  step_signature signature; /* borrows from the options */
  step_plan *plan;          /* retained; NULL until it is ready. Guarded by the session's lock */
};

void dp_master_callable_unref(callable *made) {
  if (!made || !dp_refcount_release(&made->references))
    return;
  dp_master_plan_release(made->plan);
  dp_arena_destroy(made->arena);
  dp_free(made);
}

/* ---- Making and releasing ---- */

static const dp_planner_connection *read_connections(const Tensorflow__CallableOptions *options,
                                                     dp_arena *arena) {
  dp_planner_connection *connections =
      DP_ARENA_ARRAY(arena, dp_planner_connection, options->n_tensor_connection + 1);
  for (size_t i = 0; i < options->n_tensor_connection; i++)
    connections[i] = (dp_planner_connection){.from = options->tensor_connection[i]->from_tensor,
                                             .to = options->tensor_connection[i]->to_tensor};
  return connections;
}

static void read_signature(callable *made, bool is_debugged) {
  const Tensorflow__CallableOptions *options = made->options;
  made->signature = (step_signature){
      .names = {(const char *const *)options->feed, options->n_feed,
                (const char *const *)options->fetch, options->n_fetch,
                (const char *const *)options->target, options->n_target,
                read_connections(options, made->arena), options->n_tensor_connection},
      .debug = is_debugged ? options->run_options->debug_options : NULL,
      .is_callable = true};
  made->signature.hash = dp_master_signature_hash(&made->signature);
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
    dp_master_callable_unref(made);
    return status;
  }
  read_signature(made, debug != NULL);
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
  dp_master_callable_unref(removed);
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
    dp_master_callable_unref(dropped);
  dp_map_destroy(callables);
}

/* ---- Running ---- */

void dp_master_callable_keep_plan(callable *made, master_session *session, step_plan *plan) {
  pthread_mutex_lock(&session->lock);
  if (!made->plan) {
    dp_refcount_retain(&plan->references);
    made->plan = plan;
  }
  pthread_mutex_unlock(&session->lock);
}

/* Both are retained; *plan_out is NULL when the callable has none yet. */
static dp_status *find_callable(master_session *session, int64_t handle, callable **callable_out,
                                step_plan **plan_out) {
  pthread_mutex_lock(&session->lock);
  callable *found = dp_map_get_n(session->callables, &handle, sizeof(handle));
  if (found) {
    dp_refcount_retain(&found->references);
    *callable_out = found;
    *plan_out = found->plan;
    if (found->plan)
      dp_refcount_retain(&found->plan->references);
  }
  pthread_mutex_unlock(&session->lock);
  return found ? NULL : no_callable(handle);
}

static void answer_callable(step_run *run, dp_status *status) {
  dp_run_callable_response response = {.fetch_count = run->fetch_count, .metadata = run->metadata};
  response.fetches = DP_ARENA_ARRAY(run->arena, dp_tensor, run->fetch_count + 1);
  for (size_t i = 0; i < run->fetch_count; i++)
    response.fetches[i] = dp_tensor_take(&run->fetched[i].tensor);
  run->done.callable(run->arg, status, status ? NULL : &response);
  for (size_t i = 0; i < run->fetch_count; i++)
    dp_tensor_deinit(&response.fetches[i]);
}

static dp_status *check_feeds(const callable *made, const dp_run_callable_request *request) {
  if (request->feed_count == made->options->n_feed)
    return NULL;
  return DP_INVALID("Expected %zu feed tensors, but got %zu", made->options->n_feed,
                    request->feed_count);
}

void dp_master_run_callable(dp_master *master, const dp_run_callable_request *request,
                            dp_cancel *cancel, dp_master_callable_done_fn done, void *arg) {
  master_session *session = NULL;
  callable *made = NULL;
  step_plan *plan = NULL;
  dp_status *status = dp_master_session_find(master, request->session_handle, &session);
  if (!status)
    status = find_callable(session, request->handle, &made, &plan);
  if (!status)
    status = check_feeds(made, request);
  if (status) {
    dp_master_plan_release(plan);
    dp_master_callable_unref(made);
    dp_master_session_release(session);
    done(arg, status, NULL);
    return;
  }
  step_run *run = dp_master_run_create(session, made->options->run_options, cancel);
  run->answer = answer_callable;
  run->done.callable = done;
  run->arg = arg;
  run->callable = made;
  dp_master_run_reserve(run, request->feed_count, made->options->n_fetch);
  for (size_t i = 0; i < request->feed_count; i++)
    run->sends[i].tensor = dp_tensor_copy(&request->feeds[i]);
  if (plan)
    dp_master_run_planned(run, plan);
  else
    dp_master_run_find_plan(run, &made->signature);
}
