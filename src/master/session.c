/* Sessions: creation over the workers, extension, closing.
 *
 * Creating one asks every worker that the session may use (device_filters narrow the choice) for
 * its devices, then opens a session on each. Both rounds run at once over all workers; the client
 * is answered when the last one has answered.
 *
 * Any thread. A session is on the master's list of live ones from its first to its last reference,
 * and in the table of open ones (table.c) from the answer to CreateSession until it is closed. */
#include <inttypes.h>
#include <stdio.h>
#include "base/log.h"
#include "base/philox.h"
#include "collective/collective.h"
#include "master/master_internal.h"
#include "wire/device_name.h"

/* ---- Life ---- */

static void enter_live(master_session *session) {
  dp_master *master = session->master;
  pthread_mutex_lock(&master->lock);
  master->live_sessions++;
  session->next_live = master->live;
  if (session->next_live)
    session->next_live->previous_live = session;
  master->live = session;
  pthread_mutex_unlock(&master->lock);
}

/* From now on no walk over the live sessions meets this one. */
static void leave_live(master_session *session) {
  dp_master *master = session->master;
  pthread_mutex_lock(&master->lock);
  if (session->previous_live)
    session->previous_live->next_live = session->next_live;
  else
    master->live = session->next_live;
  if (session->next_live)
    session->next_live->previous_live = session->previous_live;
  pthread_mutex_unlock(&master->lock);
}

static master_session *make_session(dp_master *master) {
  master_session *session = DP_NEW(master_session);
  dp_refcount_init(&session->references);
  session->master = master;
  session->task = dp_worker_task(master->worker);
  session->cluster = master->cluster_arg;
  char handle[20];
  snprintf(handle, sizeof(handle), "%016" PRIx64, dp_random_seed());
  session->handle = dp_strdup(handle);
  session->arena = dp_arena_create();
  session->life = dp_cancel_create(master->life, DP_FOREVER);
  pthread_mutex_init(&session->planning, NULL);
  pthread_mutex_init(&session->lock, NULL);
  session->graph = dp_graph_create(NULL);
  session->graph->refuse_internal_names = true;
  session->graph_version = 1;
  session->placements = dp_map_create();
  dp_plan_table_init(&session->plans);
  session->callables = dp_map_create();
  session->partials = dp_map_create();
  pthread_mutex_init(&session->watch_lock, NULL);
  session->next_step = dp_random_seed();
  atomic_store(&session->last_used, dp_clock_nanos());
  enter_live(session);
  return session;
}

/* With the planning lock held, or alone. */
static void forget_prepared(master_session *session) {
  if (session->prepared)
    dp_graph_destroy(session->prepared);
  session->prepared = NULL;
}

static void free_values(dp_map *map) {
  const char *key;
  void *value;
  for (size_t at = 0; dp_map_next(map, &at, &key, &value);)
    dp_free(value);
  dp_map_destroy(map);
}

static void destroy_session(master_session *session) {
  dp_master *master = session->master;
  leave_live(session);
  dp_master_partials_drop(session);
  dp_master_callables_drop(session);
  dp_master_plans_drop(session);
  dp_map_destroy(session->partials);
  dp_map_destroy(session->callables);
  dp_plan_table_deinit(&session->plans);
  free_values(session->placements);
  forget_prepared(session);
  dp_graph_destroy(session->graph);
  dp_master_workers_unuse(session);
  for (size_t i = 0; i < session->worker_count; i++)
    dp_free(session->workers[i].task);
  dp_free(session->workers);
  if (session->owns_cluster)
    master->cluster->close(session->cluster);
  dp_free(session->device_items);
  dp_cancel_release(session->life);
  pthread_mutex_destroy(&session->planning);
  pthread_mutex_destroy(&session->lock);
  pthread_mutex_destroy(&session->watch_lock);
  dp_arena_destroy(session->arena);
  dp_free(session->handle);
  dp_free(session->leader);
  dp_free(session);
  pthread_mutex_lock(&master->lock);
  master->live_sessions--;
  pthread_cond_broadcast(&master->ended);
  pthread_mutex_unlock(&master->lock);
}

void dp_master_session_release(master_session *session) {
  if (session && dp_refcount_release(&session->references))
    destroy_session(session);
}

dp_status *dp_master_session_find(dp_master *master, const char *handle,
                                  master_session **session_out) {
  master_session *found = dp_session_table_find(&master->sessions, handle);
  if (!found)
    return dp_status_create(DP_ABORTED, "Session %s is not found.", handle);
  atomic_store_explicit(&found->last_used, dp_clock_nanos(), memory_order_relaxed);
  atomic_store_explicit(&found->lost_since, 0, memory_order_relaxed);
  *session_out = found;
  return NULL;
}

void dp_master_session_note_loss(master_session *session, const dp_cancel *cancel) {
  dp_status *why = dp_cancel_status(cancel);
  if (dp_status_code(why) == DP_CANCELLED)
    atomic_store(&session->lost_since, dp_clock_nanos());
  dp_status_release(why);
}

/* ---- Closing ---- */

static void ignore_answer(void *arg, dp_status *status, const void *response) {
  dp_status_release(status);
}

void dp_master_tell_worker(const session_worker *worker, dp_worker_method method,
                           const void *request) {
  worker->peer->ops->call(worker->peer, method, request,
                          dp_clock_deadline_ms(CLEAN_UP_MILLISECONDS), NULL, ignore_answer, NULL);
}

static void delete_worker_sessions(master_session *session) {
  Tensorflow__DeleteWorkerSessionRequest request = TENSORFLOW__DELETE_WORKER_SESSION_REQUEST__INIT;
  request.session_handle = session->handle;
  for (size_t i = 0; i < session->worker_count; i++)
    dp_master_tell_worker(&session->workers[i], DP_WORKER_DELETE_WORKER_SESSION, &request);
}

void dp_master_session_close(master_session *session) {
  if (!dp_session_table_remove(&session->master->sessions, session))
    return;
  pthread_mutex_lock(&session->lock);
  session->closed = true;
  pthread_mutex_unlock(&session->lock);
  dp_cancel_trigger(session->life, dp_status_create(DP_CANCELLED, "Session was closed."));
  dp_master_partials_drop(session);
  dp_master_callables_drop(session);
  dp_master_plans_drop(session);
  delete_worker_sessions(session);
  dp_master_session_release(session);
}

/* ---- Creating ---- */

typedef struct creation {
  master_session *session;
  master_watch watch;
  worker_calls calls;
  dp_cancel *scope;
  int64_t deadline;
  dp_master_call_done_fn done;
  void *arg;
} creation;

typedef struct worker_creation {
  creation *all;
  session_worker *worker;
} worker_creation;

void dp_master_name_worker(const session_worker *worker, dp_text *text) {
  dp_text_printf(text, ": %s", worker->task);
  if (!worker->peer->ops->describe)
    return;
  dp_text_add(text, " (");
  worker->peer->ops->describe(worker->peer, text);
  dp_text_add_char(text, ')');
}

/* Names the workers that have not told their devices yet, in TensorFlow's words. */
static void describe_creation(void *arg, dp_text *text) {
  creation *all = arg;
  master_session *session = all->session;
  dp_text_add(text, "CreateSession still waiting for response from worker");
  for (size_t i = 0; i < session->worker_count; i++) {
    session_worker *worker = &session->workers[i];
    if (atomic_load(&worker->has_answered))
      continue;
    dp_master_name_worker(worker, text);
  }
}

static void finish_creation(creation *all, dp_status *status) {
  master_session *session = all->session;
  if (!status)
    status = dp_cancel_status(all->scope); /* nobody would ever learn the handle */
  dp_master_watch_end(session, &all->watch);
  if (status) {
    status = dp_master_status_for_client(session, status);
    delete_worker_sessions(session);
    dp_master_session_release(session);
    all->done(all->arg, status, NULL);
  } else {
    dp_session_table_add_take(&session->master->sessions, session);
    Tensorflow__CreateSessionResponse response = TENSORFLOW__CREATE_SESSION_RESPONSE__INIT;
    response.session_handle = session->handle;
    response.graph_version = session->graph_version;
    all->done(all->arg, NULL, &response);
  }
  dp_cancel_release(all->scope);
  dp_free(all);
}

static void worker_session_created(void *arg, dp_status *status, const void *response) {
  creation *all = arg;
  if (worker_calls_count(&all->calls, status))
    finish_creation(all, worker_calls_deinit(&all->calls));
}

/* With a cluster of the client's, each worker is told who it is in it. Such sessions share nothing
 * unless that is asked for: the workers may serve other clusters at the same time. */
static void add_place(const master_session *session, const char *task,
                      Tensorflow__CreateWorkerSessionRequest *request, Tensorflow__ServerDef *place,
                      dp_device_name *name) {
  const Tensorflow__ConfigProto *config = session->config;
  request->isolate_session_state = config->isolate_session_state;
  if (!session->owns_cluster)
    return;
  /* The name was checked when the session's workers were chosen. */
  dp_status_release(dp_device_name_parse(dp_view_of(task), name));
  place->cluster = config->cluster_def;
  place->protocol = "grpc";
  place->job_name = name->job;
  place->task_index = name->task;
  request->server_def = place;
  request->isolate_session_state = !(
      config->experimental && config->experimental->share_session_state_in_clusterspec_propagation);
}

static void create_worker_sessions(creation *all) {
  master_session *session = all->session;
  Tensorflow__CreateWorkerSessionRequest request = TENSORFLOW__CREATE_WORKER_SESSION_REQUEST__INIT;
  Tensorflow__ServerDef place = TENSORFLOW__SERVER_DEF__INIT;
  dp_device_name name;
  request.session_handle = session->handle;
  request.master_task = (char *)session->task;
  request.master_incarnation = (int64_t)dp_worker_device(session->master->worker, 0)->incarnation;
  worker_calls_init(&all->calls, session->worker_count);
  size_t count = session->worker_count;
  for (size_t i = 0; i < count; i++) {
    dp_worker_peer *peer = session->workers[i].peer;
    add_place(session, session->workers[i].task, &request, &place, &name);
    peer->ops->call(peer, DP_WORKER_CREATE_WORKER_SESSION, &request, all->deadline, all->scope,
                    worker_session_created, all);
  }
}

/* In a cluster that the client described, devices have the names that it gives their tasks. */
static dp_status *rename_devices(master_session *session, const session_worker *worker) {
  for (size_t i = 0; session->owns_cluster && i < worker->status->n_device_attributes; i++) {
    Tensorflow__DeviceAttributes *device = worker->status->device_attributes[i];
    dp_device_name name;
    DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(device->name), &name));
    device->name =
        dp_arena_printf(session->arena, "%s/device:%s:%d", worker->task, name.type, name.id);
  }
  return NULL;
}

/* All devices of all workers in one list; the client's is the first CPU of the master's own task.
 */
static dp_status *collect_devices(master_session *session) {
  size_t count = 0;
  for (size_t i = 0; i < session->worker_count; i++)
    count += session->workers[i].status->n_device_attributes;
  session->device_items = DP_NEW_ARRAY(dp_planner_device, count + 1);
  const char *client = dp_arena_printf(session->arena, "%s/device:CPU:0", session->task);
  dp_worker_peer *local = dp_worker_local_peer(session->master->worker);
  bool has_client = false;
  size_t at = 0;
  for (size_t i = 0; i < session->worker_count; i++) {
    DP_RETURN_IF_ERROR(rename_devices(session, &session->workers[i]));
    const Tensorflow__GetStatusResponse *status = session->workers[i].status;
    for (size_t k = 0; k < status->n_device_attributes; k++, at++) {
      const Tensorflow__DeviceAttributes *device = status->device_attributes[k];
      /* Which kernels another task has is known to that task alone. */
      session->device_items[at] =
          (dp_planner_device){.name = device->name,
                              .type = device->device_type,
                              .incarnation = device->incarnation,
                              .is_foreign = session->workers[i].peer != local};
      if (strcmp(device->name, client) == 0) {
        session->devices.client = at;
        has_client = true;
      }
    }
  }
  session->devices.items = session->device_items;
  session->devices.count = count;
  if (!has_client)
    return DP_INVALID("device_filters leave out %s, the task that the client talks to",
                      session->task);
  return NULL;
}

static void worker_status_known(void *arg, dp_status *status, const void *response) {
  worker_creation *one = arg;
  creation *all = one->all;
  atomic_store(&one->worker->has_answered, true);
  if (!status) {
    pthread_mutex_lock(&all->calls.lock);
    status = dp_wire_copy(response, all->session->arena, &one->worker->status);
    pthread_mutex_unlock(&all->calls.lock);
  }
  dp_free(one);
  if (!worker_calls_count(&all->calls, status))
    return;
  status = worker_calls_deinit(&all->calls);
  if (!status)
    status = collect_devices(all->session);
  if (status)
    finish_creation(all, status);
  else
    create_worker_sessions(all);
}

static void ask_workers(creation *all) {
  master_session *session = all->session;
  size_t count = session->worker_count;
  worker_calls_init(&all->calls, count);
  Tensorflow__GetStatusRequest request = TENSORFLOW__GET_STATUS_REQUEST__INIT;
  for (size_t i = 0; i < count; i++) {
    worker_creation *one = DP_NEW(worker_creation);
    *one = (worker_creation){all, &session->workers[i]};
    dp_worker_peer *peer = session->workers[i].peer;
    peer->ops->call(peer, DP_WORKER_GET_STATUS, &request, all->deadline, all->scope,
                    worker_status_known, one);
  }
}

/* Without filters every task counts; with some, those that one of them matches, and our own. */
static dp_status *is_wanted(const Tensorflow__ConfigProto *config, const char *task,
                            bool *wanted_out) {
  *wanted_out = config->n_device_filters == 0;
  dp_device_name task_name;
  DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(task), &task_name));
  for (size_t i = 0; i < config->n_device_filters; i++) {
    dp_device_name filter;
    DP_RETURN_IF_ERROR(dp_status_annotate(
        dp_device_name_parse(dp_view_of(config->device_filters[i]), &filter), "device_filters"));
    dp_device_name filter_task = dp_device_name_task(&filter);
    *wanted_out |= dp_device_name_accepts(&filter_task, &task_name);
  }
  return NULL;
}

static dp_status *choose_workers(master_session *session) {
  dp_master *master = session->master;
  const char *const *tasks;
  size_t count = master->cluster->tasks(session->cluster, &tasks);
  session->workers = DP_NEW_ARRAY(session_worker, count + 1);
  for (size_t i = 0; i < count; i++) {
    bool is_own = strcmp(tasks[i], session->task) == 0;
    bool wanted;
    DP_RETURN_IF_ERROR(is_wanted(session->config, tasks[i], &wanted));
    if (!wanted && !is_own)
      continue;
    session_worker *worker = &session->workers[session->worker_count];
    if (is_own)
      worker->peer = dp_worker_local_peer(master->worker);
    else
      DP_RETURN_IF_ERROR(master->cluster->find(session->cluster, tasks[i], &worker->peer));
    worker->task = dp_strdup(tasks[i]);
    session->worker_count++;
  }
  return NULL;
}

/* Who this task is in a cluster that the client described: the one at the address that the client
 * talks to. */
static dp_status *find_own_task(master_session *session, const char *target) {
  dp_view address = dp_view_of(target);
  dp_view_consume(&address, "grpc://");
  const Tensorflow__ClusterDef *cluster = session->config->cluster_def;
  const char *own = NULL;
  for (size_t i = 0; i < cluster->n_job; i++) {
    const Tensorflow__JobDef *job = cluster->job[i];
    for (size_t k = 0; k < job->n_tasks; k++) {
      if (!dp_view_equals(address, job->tasks[k]->value))
        continue;
      if (own)
        return DP_INVALID("Found multiple matching tasks that correspond to to the master. Master "
                          "target: '%s'.",
                          target);
      own = dp_arena_printf(session->arena, "/job:%s/replica:0/task:%d", job->name,
                            job->tasks[k]->key);
    }
  }
  if (!own)
    return DP_INVALID("The master (current machine) is not included in the provided cluster_def: "
                      "no task is at %s.",
                      target);
  if (strcmp(own, dp_worker_task(session->master->worker)) == 0)
    return DP_INVALID("The ClusterSpec names the job and task index to be the same names that were "
                      "provided when the server booted. This is currently not allowed. Task: %s",
                      own);
  session->task = own;
  return NULL;
}

static dp_status *settle_cluster(master_session *session, const char *target) {
  dp_master *master = session->master;
  if (!session->config->cluster_def || session->config->cluster_def->n_job == 0)
    return NULL;
  if (!master->cluster->open)
    return dp_status_create(DP_UNIMPLEMENTED, "a session without a server has no cluster_def");
  DP_RETURN_IF_ERROR(find_own_task(session, target));
  DP_RETURN_IF_ERROR(
      master->cluster->open(master->cluster_arg, session->config->cluster_def, &session->cluster));
  session->owns_cluster = true;
  return NULL;
}

static void settle_leader(master_session *session) {
  const Tensorflow__ConfigProto__Experimental *options = session->config->experimental;
  const char *const *tasks;
  size_t count = session->master->cluster->tasks(session->cluster, &tasks);
  session->leader =
      dp_collective_leader(options ? options->collective_group_leader : NULL, tasks, count);
}

static dp_status *prepare_session(master_session *session,
                                  const Tensorflow__CreateSessionRequest *request) {
  if (request->config)
    DP_RETURN_IF_ERROR(dp_wire_copy(request->config, session->arena, &session->config));
  else
    session->config = dp_wire_new(session->arena, &tensorflow__config_proto__descriptor);
  if (session->config->n_session_inter_op_thread_pool > 1)
    return DP_INVALID("of session thread pool options a session takes one, not %zu",
                      session->config->n_session_inter_op_thread_pool);
  if (request->graph_def)
    DP_RETURN_IF_ERROR(dp_graph_import(session->graph, request->graph_def));
  DP_RETURN_IF_ERROR(settle_cluster(session, request->target));
  settle_leader(session);
  return choose_workers(session);
}

void dp_master_create_session(dp_master *master, const Tensorflow__CreateSessionRequest *request,
                              dp_cancel *cancel, dp_master_call_done_fn done, void *arg) {
  master_session *session = make_session(master);
  dp_status *status = prepare_session(session, request);
  if (status) {
    dp_master_session_release(session);
    done(arg, status, NULL);
    return;
  }
  creation *all = DP_NEW(creation);
  all->session = session;
  all->scope = dp_cancel_create(cancel, DP_FOREVER);
  all->deadline = dp_master_deadline(session->config->operation_timeout_in_ms);
  all->done = done;
  all->arg = arg;
  dp_master_watch_begin(session, &all->watch, NULL, describe_creation, all);
  DP_LOG(MASTER, INFO, "Start master session %s", session->handle);
  ask_workers(all);
}

/* ---- Extending ---- */

dp_status *dp_master_session_extend(master_session *session,
                                    const Tensorflow__ExtendSessionRequest *request,
                                    int64_t *version_out) {
  pthread_mutex_lock(&session->planning);
  dp_status *status = NULL;
  if (request->current_graph_version != session->graph_version)
    status = dp_status_create(DP_ABORTED,
                              "Session %s: the graph is at version %lld, the extension is for "
                              "version %lld",
                              session->handle, (long long)session->graph_version,
                              (long long)request->current_graph_version);
  else if (request->graph_def)
    status = dp_graph_import(session->graph, request->graph_def);
  if (!status) {
    *version_out = ++session->graph_version;
    forget_prepared(session);
  }
  pthread_mutex_unlock(&session->planning);
  return status;
}
