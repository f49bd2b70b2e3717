/* The master's life and its control calls: one table from method to message types and handler.
 * Steps do not come through here (run.c, callable.c).
 *
 * Any thread. A handler borrows its request for the call; a session that it finds is retained until
 * it has answered. */
#include "master/master.h"

#include "master/master_internal.h"

/* ---- Control calls ---- */

typedef struct control_call {
  dp_master *master;
  dp_cancel *cancel;
  dp_master_call_done_fn done;
  void *arg;
} control_call;

typedef void (*control_fn)(const control_call *call, const void *request);

static void create_session(const control_call *call, const void *request) {
  dp_master_create_session(call->master, request, call->cancel, call->done, call->arg);
}

static void extend_session(const control_call *call, const void *request) {
  const Tensorflow__ExtendSessionRequest *extension = request;
  Tensorflow__ExtendSessionResponse response = TENSORFLOW__EXTEND_SESSION_RESPONSE__INIT;
  master_session *session = NULL;
  dp_status *status = dp_master_session_find(call->master, extension->session_handle, &session);
  if (!status)
    status = dp_master_session_extend(session, extension, &response.new_graph_version);
  dp_master_session_release(session);
  call->done(call->arg, status, status ? NULL : &response);
}

static void partial_run_setup(const control_call *call, const void *request) {
  const Tensorflow__PartialRunSetupRequest *setup = request;
  master_session *session = NULL;
  dp_status *status = dp_master_session_find(call->master, setup->session_handle, &session);
  if (status)
    call->done(call->arg, status, NULL);
  else
    dp_master_partial_setup(session, setup, call->cancel, call->done, call->arg);
  dp_master_session_release(session);
}

static void close_session(const control_call *call, const void *request) {
  const Tensorflow__CloseSessionRequest *closing = request;
  Tensorflow__CloseSessionResponse response = TENSORFLOW__CLOSE_SESSION_RESPONSE__INIT;
  master_session *session = NULL;
  dp_status *status = dp_master_session_find(call->master, closing->session_handle, &session);
  if (!status)
    dp_master_session_close(session);
  dp_master_session_release(session);
  call->done(call->arg, status, status ? NULL : &response);
}

static void list_devices(const control_call *call, const void *request) {
  const Tensorflow__ListDevicesRequest *listing = request;
  master_session *session = NULL;
  dp_status *status = dp_master_session_find(call->master, listing->session_handle, &session);
  if (status) {
    call->done(call->arg, status, NULL);
    return;
  }
  dp_arena *arena = dp_arena_create();
  Tensorflow__ListDevicesResponse response = TENSORFLOW__LIST_DEVICES_RESPONSE__INIT;
  size_t most = session->devices.count;
  response.local_device = DP_ARENA_ARRAY(arena, Tensorflow__DeviceAttributes *, most + 1);
  response.remote_device = DP_ARENA_ARRAY(arena, Tensorflow__DeviceAttributes *, most + 1);
  dp_worker_peer *local = dp_worker_local_peer(call->master->worker);
  /* In a cluster of the client's, only the device that feeds come from counts as local. */
  const char *client = session->devices.items[session->devices.client].name;
  for (size_t i = 0; i < session->worker_count; i++) {
    const session_worker *worker = &session->workers[i];
    for (size_t k = 0; k < worker->status->n_device_attributes; k++) {
      bool is_local = session->owns_cluster
                          ? strcmp(worker->status->device_attributes[k]->name, client) == 0
                          : worker->peer == local;
      if (is_local)
        response.local_device[response.n_local_device++] = worker->status->device_attributes[k];
      else
        response.remote_device[response.n_remote_device++] = worker->status->device_attributes[k];
    }
  }
  call->done(call->arg, NULL, &response);
  dp_arena_destroy(arena);
  dp_master_session_release(session);
}

static void make_callable(const control_call *call, const void *request) {
  const Tensorflow__MakeCallableRequest *making = request;
  Tensorflow__MakeCallableResponse response = TENSORFLOW__MAKE_CALLABLE_RESPONSE__INIT;
  master_session *session = NULL;
  dp_status *status = dp_master_session_find(call->master, making->session_handle, &session);
  if (!status)
    status = dp_master_callable_make(session, making->options, &response.handle);
  dp_master_session_release(session);
  call->done(call->arg, status, status ? NULL : &response);
}

static void release_callable(const control_call *call, const void *request) {
  const Tensorflow__ReleaseCallableRequest *release = request;
  Tensorflow__ReleaseCallableResponse response = TENSORFLOW__RELEASE_CALLABLE_RESPONSE__INIT;
  master_session *session = NULL;
  dp_status *status = dp_master_session_find(call->master, release->session_handle, &session);
  if (!status)
    status = dp_master_callable_release(session, release->handle);
  dp_master_session_release(session);
  call->done(call->arg, status, status ? NULL : &response);
}

/* ---- Reset: close every session, then clear containers everywhere ---- */

static void close_all_sessions(dp_master *master) {
  master_session *session;
  while ((session = dp_session_table_pick(&master->sessions, NULL, NULL))) {
    dp_master_session_close(session);
    dp_master_session_release(session);
  }
}

typedef struct reset_call {
  worker_calls calls;
  dp_master_call_done_fn done;
  void *arg;
} reset_call;

static void worker_reset(void *arg, dp_status *status, const void *response) {
  reset_call *reset = arg;
  if (!worker_calls_count(&reset->calls, status))
    return;
  Tensorflow__ResetResponse answer = TENSORFLOW__RESET_RESPONSE__INIT;
  status = worker_calls_deinit(&reset->calls);
  reset->done(reset->arg, status, status ? NULL : &answer);
  dp_free(reset);
}

static void reset_workers(const control_call *call, const void *request) {
  const Tensorflow__ResetRequest *resetting = request;
  dp_master *master = call->master;
  close_all_sessions(master);
  const char *const *tasks;
  size_t count = master->cluster->tasks(master->cluster_arg, &tasks);
  Tensorflow__CleanupAllRequest cleanup = TENSORFLOW__CLEANUP_ALL_REQUEST__INIT;
  cleanup.n_container = resetting->n_container;
  cleanup.container = resetting->container;
  reset_call *reset = DP_NEW(reset_call);
  reset->done = call->done;
  reset->arg = call->arg;
  worker_calls_init(&reset->calls, count + 1);
  for (size_t i = 0; i < count; i++) {
    dp_worker_peer *peer = NULL;
    dp_status *status = NULL;
    if (strcmp(tasks[i], dp_worker_task(master->worker)) == 0)
      peer = dp_worker_local_peer(master->worker);
    else
      status = master->cluster->find(master->cluster_arg, tasks[i], &peer);
    if (status)
      worker_reset(reset, status, NULL);
    else
      peer->ops->call(peer, DP_WORKER_CLEANUP_ALL, &cleanup, DP_FOREVER, call->cancel, worker_reset,
                      reset);
  }
  worker_reset(reset, NULL, NULL);
}

/* ---- The table ---- */

typedef struct control_method {
  const ProtobufCMessageDescriptor *request;
  const ProtobufCMessageDescriptor *response;
  control_fn handle;
} control_method;

#define METHOD(name, function)                                                                     \
  {                                                                                                \
    &tensorflow__##name##_request__descriptor, &tensorflow__##name##_response__descriptor,         \
        function                                                                                   \
  }

static const control_method methods[DP_MASTER_METHOD_COUNT] = {
    [DP_MASTER_CREATE_SESSION] = METHOD(create_session, create_session),
    [DP_MASTER_EXTEND_SESSION] = METHOD(extend_session, extend_session),
    [DP_MASTER_PARTIAL_RUN_SETUP] = METHOD(partial_run_setup, partial_run_setup),
    [DP_MASTER_CLOSE_SESSION] = METHOD(close_session, close_session),
    [DP_MASTER_LIST_DEVICES] = METHOD(list_devices, list_devices),
    [DP_MASTER_RESET] = METHOD(reset, reset_workers),
    [DP_MASTER_MAKE_CALLABLE] = METHOD(make_callable, make_callable),
    [DP_MASTER_RELEASE_CALLABLE] = METHOD(release_callable, release_callable),
};

const ProtobufCMessageDescriptor *dp_master_request_type(dp_master_method method) {
  return methods[method].request;
}

const ProtobufCMessageDescriptor *dp_master_response_type(dp_master_method method) {
  return methods[method].response;
}

void dp_master_call(dp_master *master, dp_master_method method, const void *request,
                    dp_cancel *cancel, dp_master_call_done_fn done, void *arg) {
  control_call call = {master, cancel, done, arg};
  methods[method].handle(&call, request);
}

/* ---- Life ---- */

dp_master *dp_master_create(const dp_master_options *options) {
  dp_master *master = DP_NEW(dp_master);
  master->worker = options->worker;
  master->cluster = options->cluster;
  master->cluster_arg = options->cluster_arg;
  master->blocking = options->blocking;
  master->session_idle_nanos = options->session_idle_nanos;
  master->session_lost_nanos = options->session_lost_nanos;
  master->life = dp_cancel_create(NULL, DP_FOREVER);
  dp_session_table_init(&master->sessions);
  pthread_mutex_init(&master->lock, NULL);
  pthread_cond_init(&master->ended, NULL);
  dp_master_watch_start(master);
  dp_master_collect_start(master);
  return master;
}

void dp_master_destroy(dp_master *master) {
  if (!master)
    return;
  dp_master_collect_stop(master);
  dp_cancel_trigger(master->life, dp_status_create(DP_CANCELLED, "the server is stopping"));
  close_all_sessions(master);
  pthread_mutex_lock(&master->lock);
  while (master->live_sessions > 0 || master->is_collecting)
    pthread_cond_wait(&master->ended, &master->lock);
  pthread_mutex_unlock(&master->lock);
  dp_master_watch_stop(master);
  dp_cancel_release(master->life);
  dp_session_table_deinit(&master->sessions);
  pthread_cond_destroy(&master->ended);
  pthread_mutex_destroy(&master->lock);
  dp_free(master);
}

size_t dp_master_session_count(dp_master *master) {
  return dp_session_table_count(&master->sessions);
}

/* ---- Looking at it ---- */

typedef struct session_lines {
  dp_text *text;
  int64_t now;
  bool has_any;
} session_lines;

static void print_session(void *arg, master_session *session) {
  session_lines *lines = arg;
  if (!lines->has_any)
    dp_text_add(lines->text, "\nsessions of clients\n");
  lines->has_any = true;
  pthread_mutex_lock(&session->lock);
  size_t plans = session->plans.count;
  pthread_mutex_unlock(&session->lock);
  dp_text_printf(lines->text, "  %s  %zu tasks, %zu signatures, %s %.1f s ago\n", session->handle,
                 session->worker_count, plans, atomic_load(&session->lost_since) ? "lost" : "used",
                 (double)(lines->now - atomic_load(&session->last_used)) / 1e9);
}

void dp_master_describe(dp_master *master, dp_text *text) {
  session_lines lines = {.text = text, .now = dp_clock_nanos()};
  dp_session_table_visit(&master->sessions, print_session, &lines);
  dp_text waits = {0};
  dp_master_watch_print(master, 1000, &waits);
  if (waits.length > 0)
    dp_text_printf(text, "\nwho waits for whom\n%s", dp_text_string(&waits));
  dp_text_deinit(&waits);
}
