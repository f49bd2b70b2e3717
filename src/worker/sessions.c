/* Worker sessions: what one master's session has on this task. A session made with
 * isolate_session_state gets devices of its own, with empty resources; all others share the task's,
 * which is how sessions share variables. A session whose client brought a cluster along lives under
 * the name that this cluster gives the task, and finds its peers in it. */
#include "base/log.h"
#include "wire/device_name.h"
#include "worker/worker_internal.h"

/* ---- Making ---- */

/* "/job:a/replica:0/task:0/device:CPU:0" under another task's name. */
static dp_status *rename_device(const char *name, const char *task, dp_text *text) {
  dp_device_name parsed;
  DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(name), &parsed));
  dp_text_printf(text, "%s/device:%s:%d", task, parsed.type, parsed.id);
  return NULL;
}

static dp_status *copy_devices(dp_worker *worker, worker_session *session, bool isolated) {
  session->devices = DP_NEW_ARRAY(dp_device *, worker->device_count);
  session->kernels = DP_NEW_ARRAY(dp_kernel_cache *, worker->device_count);
  bool as_they_are = !isolated && !session->own_peers;
  for (size_t i = 0; i < worker->device_count; i++) {
    dp_device *device = worker->devices[i];
    dp_text name = {0};
    DP_RETURN_IF_ERROR(rename_device(device->name, session->task, &name));
    session->devices[i] = as_they_are ? dp_device_retain(device)
                                      : dp_device_derive(device, dp_text_string(&name), isolated);
    session->kernels[i] = dp_kernel_cache_create();
    session->device_count = i + 1;
    dp_text_deinit(&name);
  }
  return NULL;
}

/* Without a cluster of the client's: the task's own name and peers. */
static dp_status *settle_place(dp_worker *worker, worker_session *session,
                               const Tensorflow__ServerDef *place) {
  dp_text task = {0};
  if (place && place->cluster && place->cluster->n_job > 0)
    dp_text_printf(&task, "/job:%s/replica:0/task:%d", place->job_name, place->task_index);
  else
    dp_text_add(&task, worker->task);
  session->task = dp_text_take(&task);
  dp_text_printf(&task, "%s/", session->task);
  session->task_prefix = dp_text_take(&task);
  session->peers = worker->peers_arg;
  if (!place || !place->cluster || place->cluster->n_job == 0)
    return NULL;
  if (!worker->peers || !worker->peers->open)
    return dp_status_create(DP_UNIMPLEMENTED, "%s has no network to reach a client's cluster",
                            worker->task);
  DP_RETURN_IF_ERROR(worker->peers->open(worker->peers_arg, place->cluster, &session->own_peers));
  session->peers = session->own_peers;
  return NULL;
}

dp_status *dp_worker_session_create(dp_worker *worker,
                                    const Tensorflow__CreateWorkerSessionRequest *request,
                                    worker_session **session_out) {
  worker_session *session = DP_NEW(worker_session);
  dp_refcount_init(&session->references);
  session->worker = worker;
  session->handle = dp_strdup(request->session_handle);
  session->master_task = dp_strdup(request->master_task);
  session->master_incarnation = (uint64_t)request->master_incarnation;
  session->state = dp_session_state_create();
  session->graphs = dp_map_create();
  dp_status *status = settle_place(worker, session, request->server_def);
  if (!status)
    status = copy_devices(worker, session, request->isolate_session_state);
  if (status) {
    dp_worker_session_release(session);
    return status;
  }
  *session_out = session;
  return NULL;
}

/* ---- Ending ---- */

static void destroy_pool(void *pool) {
  dp_pool_destroy(pool);
}

/* The last step of a session may end, and with it the session, on a thread of the session's own
 * pool, which cannot wait for itself. */
static void end_threads(worker_session *session) {
  if (session->threads && dp_pool_is_current(session->threads))
    dp_pool_run(session->devices[0]->blocking, destroy_pool, session->threads);
  else if (session->threads)
    dp_pool_destroy(session->threads);
}

void dp_worker_session_release(worker_session *session) {
  if (!session || !dp_refcount_release(&session->references))
    return;
  dp_map_destroy(session->graphs);
  dp_session_state_destroy(session->state);
  end_threads(session);
  for (size_t i = 0; i < session->device_count; i++) {
    dp_kernel_cache_destroy(session->kernels[i]);
    dp_device_release(session->devices[i]);
  }
  dp_free(session->devices);
  dp_free(session->kernels);
  if (session->own_peers)
    session->worker->peers->close(session->own_peers);
  dp_free(session->task);
  dp_free(session->task_prefix);
  dp_free(session->master_task);
  dp_free(session->handle);
  dp_free(session);
}

/* ---- The table ---- */

dp_status *dp_worker_session_find(dp_worker *worker, const char *handle,
                                  worker_session **session_out) {
  pthread_rwlock_rdlock(&worker->tables);
  worker_session *found = dp_map_get(worker->sessions, handle);
  if (found)
    dp_refcount_retain(&found->references);
  pthread_rwlock_unlock(&worker->tables);
  if (!found)
    return dp_status_create(DP_ABORTED,
                            "Session handle is not found: %s. Possibly this worker (\"%s\") just "
                            "restarted.",
                            handle, worker->task);
  *session_out = found;
  return NULL;
}

dp_status *dp_worker_session_imply(dp_worker *worker, const char *handle,
                                   worker_session **session_out) {
  Tensorflow__CreateWorkerSessionRequest request = TENSORFLOW__CREATE_WORKER_SESSION_REQUEST__INIT;
  request.session_handle = (char *)handle;
  worker_session *made;
  DP_RETURN_IF_ERROR(dp_worker_session_create(worker, &request, &made));
  made->is_implied = true;
  pthread_rwlock_wrlock(&worker->tables);
  worker_session *session = dp_map_get(worker->sessions, handle);
  if (!session) {
    dp_map_put(worker->sessions, handle, made);
    worker->sessions_ever++;
    session = made;
    made = NULL;
  }
  dp_refcount_retain(&session->references);
  pthread_rwlock_unlock(&worker->tables);
  dp_worker_session_release(made);
  *session_out = session;
  return NULL;
}

/* A graph holds its session and the session its graphs: this is where the circle is cut. */
static void drop_graphs(dp_map *graphs) {
  const char *key;
  void *graph;
  for (size_t at = 0; dp_map_next(graphs, &at, &key, &graph);)
    dp_worker_graph_release(graph);
  dp_map_destroy(graphs);
}

void dp_worker_session_remove(dp_worker *worker, const char *handle) {
  dp_map *graphs = NULL;
  pthread_rwlock_wrlock(&worker->tables);
  worker_session *session = dp_map_remove(worker->sessions, handle);
  if (session) {
    graphs = session->graphs;
    session->graphs = dp_map_create();
  }
  pthread_rwlock_unlock(&worker->tables);
  if (!session)
    return;
  dp_worker_steps_clear(worker, session);
  drop_graphs(graphs);
  dp_worker_session_release(session);
}

/* With the tables' lock held: a session of that master, but not of its incarnation `living` (0:
 * none). */
static worker_session *find_orphan(dp_worker *worker, const char *master_task, uint64_t living) {
  const char *handle;
  void *value;
  for (size_t at = 0; *master_task && dp_map_next(worker->sessions, &at, &handle, &value);) {
    worker_session *session = value;
    if (strcmp(session->master_task, master_task) == 0 &&
        (living == 0 || session->master_incarnation != living))
      return session;
  }
  return NULL;
}

static bool remove_orphans(dp_worker *worker, const char *master_task, uint64_t living) {
  for (bool found = false;; found = true) {
    pthread_rwlock_rdlock(&worker->tables);
    worker_session *orphan = find_orphan(worker, master_task, living);
    char *handle = orphan ? dp_strdup(orphan->handle) : NULL;
    pthread_rwlock_unlock(&worker->tables);
    if (!handle)
      return found;
    DP_LOG(WORKER, INFO, "session %s goes: its master %s has %s", handle, master_task,
           living ? "restarted" : "gone");
    dp_worker_session_remove(worker, handle);
    dp_free(handle);
  }
}

bool dp_worker_has_master(dp_worker *worker, const char *master_task) {
  pthread_rwlock_rdlock(&worker->tables);
  bool has_one = find_orphan(worker, master_task, 0) != NULL;
  pthread_rwlock_unlock(&worker->tables);
  return has_one;
}

bool dp_worker_forget_master(dp_worker *worker, const char *master_task) {
  return remove_orphans(worker, master_task, 0);
}

void dp_worker_session_add(dp_worker *worker, worker_session *session) {
  if (session->master_incarnation != 0)
    remove_orphans(worker, session->master_task, session->master_incarnation);
  pthread_rwlock_wrlock(&worker->tables);
  bool exists = dp_map_get(worker->sessions, session->handle) != NULL;
  if (!exists)
    dp_map_put(worker->sessions, session->handle, session);
  worker->sessions_ever++;
  pthread_rwlock_unlock(&worker->tables);
  if (exists)
    dp_worker_session_release(session);
}

void dp_worker_session_remove_if_unused(dp_worker *worker, worker_session *session) {
  pthread_rwlock_rdlock(&worker->tables);
  bool is_unused = session->is_implied && dp_map_count(session->graphs) == 0;
  pthread_rwlock_unlock(&worker->tables);
  if (is_unused)
    dp_worker_session_remove(worker, session->handle);
}
