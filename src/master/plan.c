/* Plans: what a signature becomes, made once. The first step of a signature finds no plan, puts one
 * there as "building" and hands the work to the blocking pool; steps that come meanwhile wait in
 * line. Building runs the planner and registers each piece with its worker. A plan that failed
 * answers those who waited and is forgotten, so that the next step tries again.
 *
 * The session's table, the builder, callables and runs hold references; with the last one the
 * workers are told to forget the pieces. The session's lock guards state and waiters; pieces and
 * keys are written by the builder alone and do not change once the plan is ready. */
#include "master/master_internal.h"
#include "wire/rendezvous_key.h"

struct plan_waiter {
  plan_waiter *next;
  step_plan *plan;  /* borrowed: the builder holds it as long as there are waiters */
  dp_cancel *scope; /* ends the wait early */
  dp_cancel_token token;
  plan_done_fn done;
  void *arg;
};

/* ---- Life ---- */

static const char **copy_names(dp_arena *arena, const char *const *names, size_t count) {
  const char **copies = DP_ARENA_ARRAY(arena, const char *, count + 1);
  for (size_t i = 0; i < count; i++)
    copies[i] = dp_arena_strdup(arena, names[i]);
  return copies;
}

static const dp_planner_connection *copy_connections(dp_arena *arena,
                                                     const dp_planner_signature *names) {
  dp_planner_connection *copies =
      DP_ARENA_ARRAY(arena, dp_planner_connection, names->connection_count + 1);
  for (size_t i = 0; i < names->connection_count; i++)
    copies[i] = (dp_planner_connection){.from = dp_arena_strdup(arena, names->connections[i].from),
                                        .to = dp_arena_strdup(arena, names->connections[i].to)};
  return copies;
}

static step_plan *make_plan(master_session *session, const step_signature *signature) {
  step_plan *plan = DP_NEW(step_plan);
  dp_refcount_init(&plan->references);
  plan->session = session;
  plan->arena = dp_arena_create();
  const dp_planner_signature *names = &signature->names;
  plan->signature = *signature;
  plan->signature.names.feeds = copy_names(plan->arena, names->feeds, names->feed_count);
  plan->signature.names.fetches = copy_names(plan->arena, names->fetches, names->fetch_count);
  plan->signature.names.targets = copy_names(plan->arena, names->targets, names->target_count);
  plan->signature.names.connections = copy_connections(plan->arena, names);
  plan->collective_key = signature->collective_key;
  if (signature->debug)
    plan->signature.debug = dp_master_debug_copy(signature->debug, plan->arena);
  return plan;
}

/* Workers forget the pieces. */
static void deregister(step_plan *plan) {
  for (size_t i = 0; i < plan->piece_count; i++) {
    if (!plan->pieces[i].graph_handle)
      continue;
    Tensorflow__DeregisterGraphRequest request = TENSORFLOW__DEREGISTER_GRAPH_REQUEST__INIT;
    request.session_handle = plan->session->handle;
    request.create_worker_session_called = true;
    request.graph_handle = plan->pieces[i].graph_handle;
    dp_master_tell_worker(&plan->session->workers[plan->pieces[i].worker],
                          DP_WORKER_DEREGISTER_GRAPH, &request);
  }
}

void dp_master_plan_release(step_plan *plan) {
  if (!plan || !dp_refcount_release(&plan->references))
    return;
  deregister(plan);
  for (size_t i = 0; i < plan->piece_count; i++)
    dp_free(plan->pieces[i].graph_handle);
  dp_free(plan->pieces);
  dp_status_release(plan->failure);
  dp_arena_destroy(plan->arena);
  dp_free(plan);
}

void dp_master_plans_drop(master_session *session) {
  for (;;) {
    pthread_mutex_lock(&session->lock);
    step_plan *plan = dp_plan_table_take(&session->plans);
    pthread_mutex_unlock(&session->lock);
    if (!plan)
      return;
    dp_master_plan_release(plan);
  }
}

/* ---- The end of building ---- */

/* A failed plan leaves the table, unless the session was closed meanwhile. */
static void forget_plan(master_session *session, step_plan *plan) {
  pthread_mutex_lock(&session->lock);
  bool was_there = dp_plan_table_remove(&session->plans, plan);
  pthread_mutex_unlock(&session->lock);
  if (was_there)
    dp_master_plan_release(plan);
}

/* Consumes `status`. */
static void answer_waiter(plan_waiter *waiter, dp_status *status, step_plan *plan) {
  dp_cancel_release(waiter->scope);
  waiter->done(waiter->arg, status, plan);
  dp_free(waiter);
}

/* Consumes `status` and the builder's references to plan and session. */
static void finish_building(step_plan *plan, dp_status *status) {
  master_session *session = plan->session;
  pthread_mutex_lock(&session->lock);
  plan->state = status ? PLAN_FAILED : PLAN_READY;
  plan->failure = status;
  plan_waiter *waiters = plan->waiters;
  plan->waiters = NULL; /* from now on give_up finds none of them */
  pthread_mutex_unlock(&session->lock);
  if (status)
    forget_plan(session, plan);
  while (waiters) {
    plan_waiter *waiter = waiters;
    waiters = waiter->next;
    dp_cancel_deregister(waiter->scope, waiter->token);
    if (!status)
      dp_refcount_retain(&plan->references);
    answer_waiter(waiter, dp_status_retain(status), status ? NULL : plan);
  }
  dp_master_plan_release(plan);
  dp_master_session_release(session);
}

/* ---- Registering ---- */

typedef struct registration {
  master_watch watch;
  step_plan *plan;
  worker_calls calls;
} registration;

typedef struct piece_registration {
  registration *all;
  plan_piece *piece;
} piece_registration;

static void print_unregistered(const step_plan *plan, dp_text *text) {
  if (!atomic_load(&plan->has_pieces))
    return;
  for (size_t i = 0; i < plan->piece_count; i++) {
    if (!atomic_load(&plan->pieces[i].is_registered))
      dp_master_name_worker(&plan->session->workers[plan->pieces[i].worker], text);
  }
}

static void describe_registration(void *arg, dp_text *text) {
  const registration *all = arg;
  dp_text_printf(text, "session %s waits until its graph is registered",
                 all->plan->session->handle);
  print_unregistered(all->plan, text);
}

static void count_registration(registration *all, dp_status *status) {
  if (!worker_calls_count(&all->calls, status))
    return;
  dp_master_watch_end(all->plan->session, &all->watch);
  dp_status *first = worker_calls_deinit(&all->calls);
  step_plan *plan = all->plan;
  dp_free(all);
  finish_building(plan, first);
}

static void piece_registered(void *arg, dp_status *status, const char *graph_handle) {
  piece_registration *one = arg;
  registration *all = one->all;
  if (!status) {
    one->piece->graph_handle = dp_strdup(graph_handle);
    atomic_store(&one->piece->is_registered, true);
  }
  dp_free(one);
  count_registration(all, status);
}

/* Consumes `graph`. */
static void register_piece(registration *all, size_t index, dp_graph *graph) {
  master_session *session = all->plan->session;
  dp_worker_registration registration = {.session_handle = session->handle,
                                         .graph_options = session->config->graph_options,
                                         .config = session->config,
                                         .debug = all->plan->signature.debug,
                                         .collective_graph_key = all->plan->collective_key};
  piece_registration *one = DP_NEW(piece_registration);
  *one = (piece_registration){all, &all->plan->pieces[index]};
  dp_worker_peer *peer = session->workers[all->plan->pieces[index].worker].peer;
  peer->ops->register_graph_take(peer, graph, &registration, DP_FOREVER, session->life,
                                 piece_registered, one);
}

static dp_status *find_worker(const master_session *session, const char *task, size_t *worker_out) {
  for (size_t i = 0; i < session->worker_count; i++) {
    if (strcmp(session->workers[i].task, task) == 0) {
      *worker_out = i;
      return NULL;
    }
  }
  return dp_status_create(DP_INTERNAL,
                          "the plan has a piece for %s, which this session does not use", task);
}

static dp_status *assign_pieces(step_plan *plan, const dp_partitions *partitions) {
  plan->pieces = DP_NEW_ARRAY(plan_piece, partitions->count + 1);
  plan->piece_count = partitions->count;
  plan->client_piece = SIZE_MAX;
  const char *client_task = plan->session->task;
  for (size_t i = 0; i < partitions->count; i++) {
    DP_RETURN_IF_ERROR(
        find_worker(plan->session, partitions->items[i].location, &plan->pieces[i].worker));
    dp_master_worker_use(&plan->session->workers[plan->pieces[i].worker]);
    if (strcmp(partitions->items[i].location, client_task) == 0)
      plan->client_piece = i;
  }
  atomic_store(&plan->has_pieces, true);
  return NULL;
}

/* Consumes the caller's hold on the plan. */
static void register_all(step_plan *plan, dp_partitions *partitions) {
  registration *all = DP_NEW(registration);
  all->plan = plan;
  worker_calls_init(&all->calls, partitions->count + 1);
  dp_master_watch_begin(plan->session, &all->watch, NULL, describe_registration, all);
  for (size_t i = 0; i < partitions->count; i++) {
    register_piece(all, i, partitions->items[i].graph);
    partitions->items[i].graph = NULL;
  }
  count_registration(all, NULL);
}

/* ---- Planning ---- */

static const char **make_keys(step_plan *plan, const char *const *names, size_t count) {
  const dp_planner_devices *devices = &plan->session->devices;
  const dp_planner_device *client = &devices->items[devices->client];
  const char **keys = DP_ARENA_ARRAY(plan->arena, const char *, count + 1);
  dp_text key = {0};
  for (size_t i = 0; i < count; i++) {
    dp_text_clear(&key);
    dp_rendezvous_key_print(&key, client->name, client->incarnation, client->name, names[i], 0, 0);
    keys[i] = dp_arena_strdup(plan->arena, dp_text_string(&key));
  }
  dp_text_deinit(&key);
  return keys;
}

/* A client may fetch a tensor twice; the worker is asked for it once. */
static void choose_recv_keys(step_plan *plan) {
  size_t count = plan->signature.names.fetch_count;
  plan->recv_keys = DP_ARENA_ARRAY(plan->arena, const char *, count + 1);
  dp_map *seen = dp_map_create();
  for (size_t i = 0; i < count; i++)
    if (!dp_map_put(seen, plan->fetch_keys[i], plan))
      plan->recv_keys[plan->recv_key_count++] = plan->fetch_keys[i];
  dp_map_destroy(seen);
}

static uint64_t device_incarnation(void *arg, const char *device) {
  const master_session *session = arg;
  for (size_t i = 0; i < session->devices.count; i++) {
    if (strcmp(session->devices.items[i].name, device) == 0)
      return session->devices.items[i].incarnation;
  }
  return 0;
}

/* With the planning lock held. */
static dp_status *make_partitions(step_plan *plan, dp_partitions *partitions_out) {
  master_session *session = plan->session;
  dp_planner_place_options place = {
      .allow_soft_placement = session->config->allow_soft_placement,
      .log_placement = session->config->log_device_placement,
      .remembered = session->placements,
  };
  if (!session->prepared)
    DP_RETURN_IF_ERROR(
        dp_planner_prepare(session->graph, &session->devices, &place, &session->prepared));
  dp_graph *graph = NULL;
  dp_status *status =
      dp_planner_prune(session->prepared, &plan->signature.names, &session->devices, false, &graph);
  if (!status)
    status = dp_planner_place(graph, &session->devices, &place);
  if (!status && !plan->signature.debug) /* what is watched must be there */
    status = dp_planner_optimize(graph, session->config->graph_options);
  if (!status && plan->collective_key == 0)
    plan->collective_key = dp_planner_collective_key(graph);
  if (!status)
    status = dp_planner_partition(graph, DP_PARTITION_BY_TASK, device_incarnation, session,
                                  partitions_out);
  if (graph)
    dp_graph_destroy(graph);
  return status;
}

static void build_plan(void *arg) {
  step_plan *plan = arg;
  const dp_planner_signature *names = &plan->signature.names;
  plan->feed_keys = make_keys(plan, names->feeds, names->feed_count);
  plan->fetch_keys = make_keys(plan, names->fetches, names->fetch_count);
  choose_recv_keys(plan);
  dp_partitions partitions = {0};
  pthread_mutex_lock(&plan->session->planning);
  dp_status *status = make_partitions(plan, &partitions);
  pthread_mutex_unlock(&plan->session->planning);
  if (!status)
    status = assign_pieces(plan, &partitions);
  if (!status && plan->signature.debug)
    status = dp_master_debug_first(plan);
  if (status)
    finish_building(plan, status);
  else
    register_all(plan, &partitions);
  dp_partitions_deinit(&partitions);
}

/* ---- Finding ---- */

/* Takes the waiter out of the plan's list and retains plan and session, which the builder has held
 * for it so far; false when it is not there any more. */
static bool leave_plan(plan_waiter *waiter) {
  step_plan *plan = waiter->plan;
  master_session *session = plan->session;
  pthread_mutex_lock(&session->lock);
  plan_waiter **at = &plan->waiters;
  while (*at && *at != waiter)
    at = &(*at)->next;
  bool is_there = *at != NULL;
  if (is_there) {
    *at = waiter->next;
    dp_refcount_retain(&plan->references);
    dp_refcount_retain(&session->references);
  }
  pthread_mutex_unlock(&session->lock);
  return is_there;
}

/* The scope of a waiter has ended. The builder waits for this function's end before it goes on with
 * the waiter, so that plan and session are alive when it begins. */
static void give_up(void *arg, const dp_status *why) {
  plan_waiter *waiter = arg;
  if (!leave_plan(waiter))
    return;
  step_plan *plan = waiter->plan;
  master_session *session = plan->session;
  dp_status *status = dp_status_retain(why);
  if (dp_status_code(why) == DP_DEADLINE_EXCEEDED) {
    dp_text text = {0};
    print_unregistered(plan, &text);
    status = dp_status_append(status, ": the step's graph is not registered yet%s",
                              dp_text_string(&text));
    dp_text_deinit(&text);
  }
  answer_waiter(waiter, status, NULL);
  dp_master_plan_release(plan);
  dp_master_session_release(session);
}

static plan_waiter *make_waiter(dp_cancel *cancel, int64_t deadline, plan_done_fn done, void *arg) {
  plan_waiter *waiter = DP_NEW(plan_waiter);
  waiter->scope = dp_cancel_create(cancel, deadline);
  waiter->done = done;
  waiter->arg = arg;
  return waiter;
}

/* With the session's lock held. The plan, made if there is none; *is_new_out when it must be built.
 */
static step_plan *find_or_make(master_session *session, const step_signature *signature,
                               bool *is_new_out) {
  step_plan *plan = dp_plan_table_find(&session->plans, signature);
  *is_new_out = !plan;
  if (!plan) {
    plan = make_plan(session, signature);
    dp_plan_table_add(&session->plans, plan);
    dp_refcount_retain(&plan->references); /* the builder's */
    dp_refcount_retain(&session->references);
  }
  return plan;
}

/* With the session's lock held. False when the wait is over before it began. */
static bool join_waiters(step_plan *plan, plan_waiter *waiter) {
  waiter->plan = plan;
  if (!dp_cancel_register(waiter->scope, give_up, waiter, &waiter->token))
    return false;
  waiter->next = plan->waiters;
  plan->waiters = waiter;
  return true;
}

void dp_master_plan_get(master_session *session, const step_signature *signature, dp_cancel *cancel,
                        int64_t deadline, plan_done_fn done, void *arg) {
  pthread_mutex_lock(&session->lock);
  if (session->closed) {
    pthread_mutex_unlock(&session->lock);
    done(arg, dp_status_create(DP_FAILED_PRECONDITION, "Session is closed."), NULL);
    return;
  }
  bool is_new;
  step_plan *plan = find_or_make(session, signature, &is_new);
  if (plan->state == PLAN_READY) {
    dp_refcount_retain(&plan->references);
    pthread_mutex_unlock(&session->lock);
    done(arg, NULL, plan);
    return;
  }
  plan_waiter *waiter = make_waiter(cancel, deadline, done, arg);
  bool waits = join_waiters(plan, waiter);
  pthread_mutex_unlock(&session->lock);
  if (is_new)
    dp_pool_run(session->master->blocking, build_plan, plan);
  if (!waits)
    answer_waiter(waiter, dp_cancel_status(waiter->scope), NULL);
}
