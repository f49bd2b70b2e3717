/* The master's calls: one table for control messages, RunStep on its own. */
#include "master/master.h"

#include "base/fault.h"
#include "base/log.h"
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
    dp_master_session_close(call->master, session);
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
  for (;;) {
    pthread_mutex_lock(&master->lock);
    size_t at = 0;
    const char *handle;
    void *value = NULL;
    master_session *session = NULL;
    if (dp_map_next(master->sessions, &at, &handle, &value)) {
      session = value;
      dp_refcount_retain(&session->references);
    }
    pthread_mutex_unlock(&master->lock);
    if (!session)
      return;
    dp_master_session_close(master, session);
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

/* ---- RunStep ---- */

typedef struct step_call {
  master_session *session;
  step_plan *plan;
  dp_cancel *cancel;
  int64_t deadline;
  dp_arena *arena;
  step_feed *feeds;
  size_t feed_count;
  Tensorflow__RunOptions *options;       /* a copy */
  const Tensorflow__DebugOptions *debug; /* of them, when it watches something; else NULL */
  bool has_begun;                        /* with an id that must be retired */
  dp_master_step_done_fn done;
  void *arg;
} step_call;

/* Consumes `status` and the tensors of the response that the caller leaves there. */
static void finish_step_call(step_call *call, dp_status *status, dp_run_step_response *response) {
  if (call->has_begun)
    dp_master_step_retire(call->plan, status);
  if (status)
    dp_master_session_note_loss(call->session, call->cancel);
  call->done(call->arg, status, response);
  for (size_t i = 0; response && i < response->tensor_count; i++)
    dp_tensor_deinit(&response->tensors[i].tensor);
  for (size_t i = 0; i < call->feed_count; i++)
    dp_tensor_deinit(&call->feeds[i].tensor);
  dp_master_plan_release(call->plan);
  if (call->cancel)
    dp_cancel_release(call->cancel);
  dp_master_session_release(call->session);
  dp_arena_destroy(call->arena);
}

static void step_done(void *arg, dp_status *status, step_result *result) {
  step_call *call = arg;
  if (status) {
    finish_step_call(call, status, NULL);
    return;
  }
  const char *const *names = call->plan->signature.names.fetches;
  dp_run_step_response response = {.tensor_count = result->fetch_count,
                                   .metadata = result->metadata};
  response.tensors = DP_ARENA_ARRAY(call->arena, dp_named_tensor, result->fetch_count + 1);
  for (size_t i = 0; i < result->fetch_count; i++)
    response.tensors[i] = (dp_named_tensor){names[i], dp_tensor_take(&result->fetches[i])};
  finish_step_call(call, NULL, &response);
}

static void id_known(void *arg, dp_status *status, int64_t step_id) {
  step_call *call = arg;
  step_plan *plan = call->plan;
  if (status) {
    finish_step_call(call, status, NULL);
    return;
  }
  call->has_begun = true;
  size_t fetch_count = plan->signature.names.fetch_count;
  size_t *fetches = DP_ARENA_ARRAY(call->arena, size_t, fetch_count + 1);
  for (size_t i = 0; i < fetch_count; i++)
    fetches[i] = i;
  step_order order = {.plan = plan,
                      .step_id = step_id,
                      .feeds = call->feeds,
                      .feed_count = call->feed_count,
                      .fetches = fetches,
                      .fetch_count = fetch_count,
                      .options = call->options};
  dp_master_step_run(&order, call->cancel, call->deadline, step_done, call);
}

static void begin_step(step_call *call) {
  dp_master_step_begin(call->plan, call->cancel, call->deadline, id_known, call);
}

/* On the blocking pool. */
static void tell_debugger(void *arg) {
  step_call *call = arg;
  dp_status *status = dp_master_debug_next(call->plan, call->options);
  if (status)
    finish_step_call(call, status, NULL);
  else
    begin_step(call);
}

static void plan_ready(void *arg, dp_status *status, step_plan *plan) {
  step_call *call = arg;
  if (status) {
    finish_step_call(call, status, NULL);
    return;
  }
  call->plan = plan;
  if (call->debug)
    dp_pool_run(call->session->master->blocking, tell_debugger, call);
  else
    begin_step(call);
}

static dp_status *make_step_call(master_session *session, const dp_run_step_request *request,
                                 dp_cancel *cancel, step_call **call_out) {
  const Tensorflow__DebugOptions *debug;
  DP_RETURN_IF_ERROR(dp_master_debug_read(request->options, &debug));
  dp_arena *arena = dp_arena_create();
  step_call *call = DP_ARENA_NEW(arena, step_call);
  call->arena = arena;
  if (request->options) {
    dp_status *status = dp_wire_copy(request->options, arena, &call->options);
    if (status) {
      dp_arena_destroy(arena);
      return status;
    }
  }
  if (debug)
    call->debug = call->options->debug_options;
  call->session = session;
  call->deadline = dp_master_step_deadline(session, call->options);
  call->cancel = cancel ? dp_cancel_retain(cancel) : NULL;
  call->feed_count = request->feed_count;
  call->feeds = DP_ARENA_ARRAY(arena, step_feed, request->feed_count + 1);
  for (size_t i = 0; i < request->feed_count; i++)
    call->feeds[i] = (step_feed){i, dp_tensor_copy(&request->feeds[i].tensor)};
  *call_out = call;
  return NULL;
}

static int64_t given_key(const Tensorflow__RunOptions *options) {
  return options && options->experimental ? options->experimental->collective_graph_key : 0;
}

/* Consumes the reference to `session`. */
static void run_whole(master_session *session, const dp_run_step_request *request,
                      dp_cancel *cancel, dp_master_step_done_fn done, void *arg) {
  step_call *call;
  dp_status *status = make_step_call(session, request, cancel, &call);
  if (status) {
    dp_master_session_release(session);
    done(arg, status, NULL);
    return;
  }
  call->done = done;
  call->arg = arg;
  const char **feeds = DP_ARENA_ARRAY(call->arena, const char *, request->feed_count + 1);
  for (size_t i = 0; i < request->feed_count; i++)
    feeds[i] = request->feeds[i].name;
  step_signature signature = {.names = {feeds, request->feed_count, request->fetches,
                                        request->fetch_count, request->targets,
                                        request->target_count},
                              .collective_key = given_key(call->options),
                              .debug = call->debug};
  dp_master_plan_get(session, &signature, cancel, call->deadline, plan_ready, call);
}

void dp_master_run_step(dp_master *master, const dp_run_step_request *request, dp_cancel *cancel,
                        dp_master_step_done_fn done, void *arg) {
  master_session *session = NULL;
  dp_status *status = dp_fault("master.run_step");
  if (!status)
    status = dp_master_session_find(master, request->session_handle, &session);
  if (status) {
    done(arg, status, NULL);
    return;
  }
  if (*request->partial_run_handle) {
    dp_master_partial_run(session, request, cancel, done, arg);
    dp_master_session_release(session);
  } else {
    run_whole(session, request, cancel, done, arg);
  }
}

/* ---- Sessions that nobody uses any more ---- */

static void collect_unused(void *arg);

/* With the lock held, or before anybody else has the master. */
static void plan_collection(dp_master *master) {
  int64_t idle = master->session_idle_nanos, lost = master->session_lost_nanos;
  int64_t shorter = idle > 0 && (lost <= 0 || idle < lost) ? idle : lost;
  master->collector = dp_timer_start(dp_clock_nanos() + shorter / 4 + 1, collect_unused, master);
}

/* With the lock held. One reference is the table's; a step under way holds another. */
static bool is_unused(const dp_master *master, const master_session *session, int64_t now) {
  bool is_idle =
      master->session_idle_nanos > 0 && now - session->last_used > master->session_idle_nanos;
  bool is_lost = master->session_lost_nanos > 0 && session->lost_since > 0 &&
                 now - session->lost_since > master->session_lost_nanos;
  return (is_idle || is_lost) && dp_refcount_is_one(&session->references);
}

static master_session *find_unused(dp_master *master) {
  int64_t now = dp_clock_nanos();
  master_session *unused = NULL;
  pthread_mutex_lock(&master->lock);
  const char *handle;
  void *value;
  for (size_t at = 0; !unused && dp_map_next(master->sessions, &at, &handle, &value);) {
    if (is_unused(master, value, now))
      unused = value;
  }
  if (unused)
    dp_refcount_retain(&unused->references);
  pthread_mutex_unlock(&master->lock);
  return unused;
}

static void close_unused(void *arg) {
  dp_master *master = arg;
  master_session *unused;
  while ((unused = find_unused(master))) {
    DP_LOG(MASTER, WARN, "session %s: its client has been %s for %.0f s: closing it",
           unused->handle, unused->lost_since ? "gone" : "silent",
           (double)(dp_clock_nanos() - unused->last_used) / 1e9);
    dp_master_session_close(master, unused);
    dp_master_session_release(unused);
  }
  pthread_mutex_lock(&master->lock);
  master->is_collecting = false;
  if (master->is_stopping)
    pthread_cond_broadcast(&master->ended);
  else
    plan_collection(master);
  pthread_mutex_unlock(&master->lock);
}

static void collect_unused(void *arg) {
  dp_master *master = arg;
  pthread_mutex_lock(&master->lock);
  bool starts = !master->is_stopping;
  master->is_collecting = starts;
  pthread_mutex_unlock(&master->lock);
  if (starts)
    dp_pool_run(master->blocking, close_unused, master);
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
  pthread_mutex_init(&master->lock, NULL);
  pthread_cond_init(&master->ended, NULL);
  master->sessions = dp_map_create();
  dp_master_watch_start(master);
  if (master->session_idle_nanos > 0 || master->session_lost_nanos > 0)
    plan_collection(master);
  return master;
}

void dp_master_destroy(dp_master *master) {
  if (!master)
    return;
  pthread_mutex_lock(&master->lock);
  master->is_stopping = true;
  dp_timer collector = master->collector;
  pthread_mutex_unlock(&master->lock);
  if (collector)
    dp_timer_cancel(collector);
  dp_cancel_trigger(master->life, dp_status_create(DP_CANCELLED, "the server is stopping"));
  close_all_sessions(master);
  pthread_mutex_lock(&master->lock);
  while (master->live_sessions > 0 || master->is_collecting)
    pthread_cond_wait(&master->ended, &master->lock);
  pthread_mutex_unlock(&master->lock);
  dp_master_watch_stop(master);
  dp_cancel_release(master->life);
  pthread_cond_destroy(&master->ended);
  pthread_mutex_destroy(&master->lock);
  dp_map_destroy(master->sessions);
  dp_free(master);
}

size_t dp_master_session_count(dp_master *master) {
  pthread_mutex_lock(&master->lock);
  size_t count = dp_map_count(master->sessions);
  pthread_mutex_unlock(&master->lock);
  return count;
}

void dp_master_describe(dp_master *master, dp_text *text) {
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&master->lock);
  if (dp_map_count(master->sessions) > 0)
    dp_text_add(text, "\nsessions of clients\n");
  const char *handle;
  void *value;
  for (size_t at = 0; dp_map_next(master->sessions, &at, &handle, &value);) {
    master_session *session = value;
    pthread_mutex_lock(&session->lock);
    size_t plans = dp_map_count(session->plans);
    pthread_mutex_unlock(&session->lock);
    dp_text_printf(text, "  %s  %zu tasks, %zu signatures, %s %.1f s ago\n", handle,
                   session->worker_count, plans, session->lost_since ? "lost" : "used",
                   (double)(now - session->last_used) / 1e9);
  }
  pthread_mutex_unlock(&master->lock);
  dp_text waits = {0};
  dp_master_watch_print(master, 1000, &waits);
  if (waits.length > 0)
    dp_text_printf(text, "\nwho waits for whom\n%s", dp_text_string(&waits));
  dp_text_deinit(&waits);
}
