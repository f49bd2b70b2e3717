/* Partial runs: one step whose feeds and fetches come in several calls.
 *
 * Setup plans the whole signature and takes the step's id. Each call is a run (run.c) that enters
 * with both: it feeds and fetches a part. What was fed or fetched once may not be again, and a
 * fetch must not depend on a feed that has not come. The call that completes both lists is the last
 * one and waits for the executors. A call that fails ends the partial run.
 *
 * The session's table and each call under way hold a reference; the partial run's lock guards what
 * has been fed and fetched. */
#include <inttypes.h>
#include <stdio.h>
#include "master/master_internal.h"

struct partial_run {
  dp_refcount references;
  char handle[48];
  step_plan *plan;
  int64_t step_id;
  pthread_mutex_t lock;
  bool *fed, *fetched;
  size_t left; /* feeds and fetches that have not come */
};

void dp_master_partial_unref(partial_run *partial) {
  if (!partial || !dp_refcount_release(&partial->references))
    return;
  dp_master_plan_release(partial->plan);
  pthread_mutex_destroy(&partial->lock);
  dp_free(partial->fed);
  dp_free(partial->fetched);
  dp_free(partial);
}

void dp_master_partials_drop(master_session *session) {
  pthread_mutex_lock(&session->lock);
  dp_map *partials = session->partials;
  session->partials = dp_map_create();
  pthread_mutex_unlock(&session->lock);
  const char *key;
  void *partial;
  for (size_t at = 0; dp_map_next(partials, &at, &key, &partial);)
    dp_master_partial_unref(partial);
  dp_map_destroy(partials);
}

/* ---- Setup ---- */

typedef struct partial_setup {
  master_session *session;
  dp_master_call_done_fn done;
  void *arg;
} partial_setup;

static partial_run *make_partial(master_session *session, step_plan *plan) {
  partial_run *partial = DP_NEW(partial_run);
  dp_refcount_init(&partial->references);
  partial->plan = plan;
  partial->step_id = dp_master_step_id(session);
  pthread_mutex_init(&partial->lock, NULL);
  const dp_planner_signature *names = &plan->signature.names;
  partial->fed = DP_NEW_ARRAY(bool, names->feed_count + 1);
  partial->fetched = DP_NEW_ARRAY(bool, names->fetch_count + 1);
  partial->left = names->feed_count + names->fetch_count;
  pthread_mutex_lock(&session->lock);
  snprintf(partial->handle, sizeof(partial->handle), "partial_%" PRId64 "_%016" PRIx64,
           session->next_partial++, (uint64_t)partial->step_id);
  dp_map_put(session->partials, partial->handle, partial);
  pthread_mutex_unlock(&session->lock);
  return partial;
}

static void setup_planned(void *arg, dp_status *status, step_plan *plan) {
  partial_setup *setup = arg;
  if (status) {
    setup->done(setup->arg, status, NULL);
  } else {
    partial_run *partial = make_partial(setup->session, plan);
    Tensorflow__PartialRunSetupResponse response = TENSORFLOW__PARTIAL_RUN_SETUP_RESPONSE__INIT;
    response.partial_run_handle = partial->handle;
    setup->done(setup->arg, NULL, &response);
  }
  dp_master_session_release(setup->session);
  dp_free(setup);
}

void dp_master_partial_setup(master_session *session,
                             const Tensorflow__PartialRunSetupRequest *request, dp_cancel *cancel,
                             dp_master_call_done_fn done, void *arg) {
  partial_setup *setup = DP_NEW(partial_setup);
  dp_refcount_retain(&session->references);
  *setup = (partial_setup){session, done, arg};
  step_signature signature = {.names = {(const char *const *)request->feed, request->n_feed,
                                        (const char *const *)request->fetch, request->n_fetch,
                                        (const char *const *)request->target, request->n_target},
                              .is_partial = true};
  signature.hash = dp_master_signature_hash(&signature);
  dp_master_plan_get(session, &signature, cancel, dp_master_step_deadline(session, NULL),
                     setup_planned, setup);
}

/* ---- Checking a call ---- */

static size_t find_name(const char *const *names, size_t count, const char *name) {
  size_t at = 0;
  while (at < count && strcmp(names[at], name) != 0)
    at++;
  return at;
}

static dp_status *claim_feeds(partial_run *partial, const dp_run_step_request *request,
                              step_run *run) {
  const dp_planner_signature *names = &partial->plan->signature.names;
  for (size_t i = 0; i < request->feed_count; i++) {
    const char *name = request->feeds[i].name;
    size_t at = find_name(names->feeds, names->feed_count, name);
    if (at == names->feed_count)
      return DP_INVALID("The feed %s had not been specified in partial_run_setup.", name);
    if (partial->fed[at])
      return DP_INVALID("The feed %s has already been fed.", name);
    partial->fed[at] = true;
    run->sends[i].name = partial->plan->feed_keys[at];
    run->sends[i].tensor = dp_tensor_copy(&request->feeds[i].tensor);
  }
  return NULL;
}

static dp_status *claim_fetches(partial_run *partial, const dp_run_step_request *request,
                                step_run *run) {
  const dp_planner_signature *names = &partial->plan->signature.names;
  const char **keys = DP_ARENA_ARRAY(run->arena, const char *, request->fetch_count + 1);
  for (size_t i = 0; i < request->fetch_count; i++) {
    const char *name = request->fetches[i];
    size_t at = find_name(names->fetches, names->fetch_count, name);
    if (at == names->fetch_count)
      return DP_INVALID("The fetch %s had not been specified in partial_run_setup.", name);
    if (partial->fetched[at])
      return DP_INVALID("The fetch %s has already been fetched.", name);
    partial->fetched[at] = true;
    run->fetched[i].name = names->fetches[at];
    keys[i] = partial->plan->fetch_keys[at];
  }
  run->fetch_keys = run->recv_keys = keys;
  run->recv_key_count = request->fetch_count;
  return NULL;
}

/* Walks back from a fetch; a fed output ends the walk, a feed that has not come is an error. */
typedef struct fetch_check {
  const dp_graph *graph;
  const dp_planner_signature *names;
  const partial_run *partial;
  dp_input *feeds; /* the fed outputs as nodes */
  bool *seen;
  int32_t *stack;
  int32_t depth;
} fetch_check;

static dp_status *visit_output(fetch_check *check, int32_t node, int32_t output,
                               const char *fetch) {
  for (size_t i = 0; i < check->names->feed_count; i++) {
    if (check->feeds[i].node != node || check->feeds[i].output != output)
      continue;
    if (check->partial->fed[i])
      return NULL;
    return DP_INVALID("Fetch %s can't be computed from the feeds that have been fed so far.",
                      fetch);
  }
  if (!check->seen[node]) {
    check->seen[node] = true;
    check->stack[check->depth++] = node;
  }
  return NULL;
}

static dp_status *check_fetch(fetch_check *check, const char *fetch) {
  dp_node *node;
  int32_t output;
  DP_RETURN_IF_ERROR(dp_graph_find_output(check->graph, fetch, &node, &output));
  DP_RETURN_IF_ERROR(visit_output(check, node->id, output, fetch));
  while (check->depth > 0) {
    const dp_node *at = check->graph->nodes[check->stack[--check->depth]];
    for (int32_t i = 0; i < at->input_count; i++)
      DP_RETURN_IF_ERROR(visit_output(check, at->inputs[i].node, at->inputs[i].output, fetch));
    for (int32_t i = 0; i < at->control_count; i++)
      DP_RETURN_IF_ERROR(visit_output(check, at->controls[i], -1, fetch));
  }
  return NULL;
}

static dp_status *check_fetches(master_session *session, partial_run *partial,
                                const dp_run_step_request *request) {
  pthread_mutex_lock(&session->planning);
  size_t nodes = (size_t)session->graph->node_count;
  const dp_planner_signature *names = &partial->plan->signature.names;
  fetch_check check = {.graph = session->graph,
                       .names = names,
                       .partial = partial,
                       .feeds = DP_NEW_ARRAY(dp_input, names->feed_count + 1),
                       .seen = DP_NEW_ARRAY(bool, nodes + 1),
                       .stack = DP_NEW_ARRAY(int32_t, nodes + 1)};
  dp_status *status = NULL;
  for (size_t i = 0; i < names->feed_count && !status; i++) {
    dp_node *node = NULL;
    status = dp_graph_find_output(session->graph, names->feeds[i], &node, &check.feeds[i].output);
    check.feeds[i].node = node ? node->id : -1;
  }
  for (size_t i = 0; i < request->fetch_count && !status; i++)
    status = check_fetch(&check, request->fetches[i]);
  dp_free(check.feeds);
  dp_free(check.seen);
  dp_free(check.stack);
  pthread_mutex_unlock(&session->planning);
  return status;
}

/* ---- A call ---- */

static void forget_partial(master_session *session, partial_run *partial) {
  pthread_mutex_lock(&session->lock);
  bool was_there = dp_map_get(session->partials, partial->handle) == partial;
  if (was_there)
    dp_map_remove(session->partials, partial->handle);
  pthread_mutex_unlock(&session->lock);
  if (was_there)
    dp_master_partial_unref(partial);
}

static void answer_part(step_run *run, dp_status *status) {
  if (status || run->is_last_partial)
    forget_partial(run->session, run->partial);
  dp_run_step_response response = {
      .tensors = run->fetched, .tensor_count = run->fetch_count, .metadata = run->metadata};
  run->done.step(run->arg, status, status ? NULL : &response);
}

static dp_status *claim(step_run *run, const dp_run_step_request *request) {
  partial_run *partial = run->partial;
  pthread_mutex_lock(&partial->lock);
  dp_status *status = claim_feeds(partial, request, run);
  if (!status)
    status = claim_fetches(partial, request, run);
  if (!status)
    status = check_fetches(run->session, partial, request);
  if (!status) {
    partial->left -= request->feed_count + request->fetch_count;
    run->is_last_partial = partial->left == 0;
  }
  pthread_mutex_unlock(&partial->lock);
  return status;
}

static partial_run *find_partial(master_session *session, const char *handle) {
  pthread_mutex_lock(&session->lock);
  partial_run *partial = dp_map_get(session->partials, handle);
  if (partial)
    dp_refcount_retain(&partial->references);
  pthread_mutex_unlock(&session->lock);
  return partial;
}

void dp_master_partial_run(master_session *session, const dp_run_step_request *request,
                           dp_cancel *cancel, dp_master_step_done_fn done, void *arg) {
  partial_run *partial = find_partial(session, request->partial_run_handle);
  if (!partial) {
    dp_master_session_release(session);
    done(arg, DP_INVALID("Must run PartialRunSetup before performing partial runs"), NULL);
    return;
  }
  step_run *run = dp_master_run_create(session, request->options, cancel);
  run->answer = answer_part;
  run->done.step = done;
  run->arg = arg;
  run->partial = partial;
  run->is_partial = true;
  run->plan = partial->plan;
  dp_refcount_retain(&run->plan->references);
  run->step_id = partial->step_id;
  dp_master_run_reserve(run, request->feed_count, request->fetch_count);
  dp_status *status = claim(run, request);
  if (status)
    dp_master_run_finish(run, status);
  else
    dp_master_step_start(run);
}
