/* Worker sessions: what one master's session has on this task. A session made with
 * isolate_session_state gets devices of its own, with empty resources; all others share the task's,
 * which is how sessions share variables. */
#include "worker/worker_internal.h"

static void copy_devices(dp_worker *worker, worker_session *session, bool isolated) {
  session->device_count = worker->device_count;
  session->devices = DP_NEW_ARRAY(dp_device *, worker->device_count);
  session->kernels = DP_NEW_ARRAY(dp_kernel_cache *, worker->device_count);
  for (size_t i = 0; i < worker->device_count; i++) {
    dp_device *device = worker->devices[i];
    session->devices[i] = isolated ? dp_device_isolate(device) : dp_device_retain(device);
    session->kernels[i] = dp_kernel_cache_create();
  }
}

worker_session *dp_worker_session_create(dp_worker *worker, const char *handle, bool isolated) {
  worker_session *session = DP_NEW(worker_session);
  dp_refcount_init(&session->references);
  session->handle = dp_strdup(handle);
  session->graphs = dp_map_create();
  copy_devices(worker, session, isolated);
  return session;
}

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
  end_threads(session);
  for (size_t i = 0; i < session->device_count; i++) {
    dp_kernel_cache_release(session->kernels[i]);
    dp_device_release(session->devices[i]);
  }
  dp_free(session->devices);
  dp_free(session->kernels);
  dp_free(session->handle);
  dp_free(session);
}

dp_status *dp_worker_session_find(dp_worker *worker, const char *handle,
                                  worker_session **session_out) {
  pthread_mutex_lock(&worker->lock);
  worker_session *found = dp_map_get(worker->sessions, handle);
  if (found)
    dp_refcount_retain(&found->references);
  pthread_mutex_unlock(&worker->lock);
  if (!found)
    return dp_status_create(DP_ABORTED,
                            "Session handle is not found: %s. Possibly this worker (\"%s\") just "
                            "restarted.",
                            handle, worker->task);
  *session_out = found;
  return NULL;
}

worker_session *dp_worker_session_imply(dp_worker *worker, const char *handle) {
  pthread_mutex_lock(&worker->lock);
  worker_session *session = dp_map_get(worker->sessions, handle);
  if (!session) {
    session = dp_worker_session_create(worker, handle, false);
    session->is_implied = true;
    dp_map_put(worker->sessions, handle, session);
  }
  dp_refcount_retain(&session->references);
  pthread_mutex_unlock(&worker->lock);
  return session;
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
  pthread_mutex_lock(&worker->lock);
  worker_session *session = dp_map_remove(worker->sessions, handle);
  if (session) {
    graphs = session->graphs;
    session->graphs = dp_map_create();
  }
  pthread_mutex_unlock(&worker->lock);
  if (!session)
    return;
  drop_graphs(graphs);
  dp_worker_session_release(session);
}

void dp_worker_session_remove_if_unused(dp_worker *worker, worker_session *session) {
  pthread_mutex_lock(&worker->lock);
  bool is_unused = session->is_implied && dp_map_count(session->graphs) == 0;
  pthread_mutex_unlock(&worker->lock);
  if (is_unused)
    dp_worker_session_remove(worker, session->handle);
}
