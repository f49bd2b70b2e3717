/* The worker's life, its control calls and its local peer.
 *
 * Control calls go through one table from method to message types and handler. Most answer before
 * they return; those that wait for other tasks answer later. The local peer is the worker as its
 * own master sees it: the same table of functions that server/remote_worker.c fills for other
 * tasks. Destroying waits for the runs under way. Any thread may enter. */
#include "worker/worker.h"

#include "base/fault.h"
#include "base/philox.h"
#include "worker/worker_internal.h"

typedef dp_status *(*control_fn)(dp_worker *worker, const void *request, dp_arena *arena,
                                 void *response);
typedef void (*async_fn)(dp_worker *worker, const void *request, dp_cancel *cancel,
                         dp_worker_call_done_fn done, void *arg);

/* ---- Control calls ---- */

/* A device as GetStatus and ListDevices show it. */
static Tensorflow__DeviceAttributes *device_message(const dp_device *device, dp_arena *arena) {
  Tensorflow__DeviceAttributes *message =
      dp_wire_new(arena, &tensorflow__device_attributes__descriptor);
  message->name = dp_arena_strdup(arena, device->name);
  message->device_type = dp_arena_strdup(arena, device->type);
  message->memory_limit = device->memory_limit;
  message->incarnation = device->incarnation;
  message->locality = dp_wire_new(arena, &tensorflow__device_locality__descriptor);
  return message;
}

static dp_status *get_status(dp_worker *worker, const void *request, dp_arena *arena,
                             void *response) {
  Tensorflow__GetStatusResponse *status = response;
  status->n_device_attributes = worker->device_count;
  status->device_attributes =
      DP_ARENA_ARRAY(arena, Tensorflow__DeviceAttributes *, worker->device_count);
  for (size_t i = 0; i < worker->device_count; i++)
    status->device_attributes[i] = device_message(worker->devices[i], arena);
  return NULL;
}

static dp_status *create_session(dp_worker *worker, const void *request, dp_arena *arena,
                                 void *response) {
  const Tensorflow__CreateWorkerSessionRequest *create = request;
  if (!*create->session_handle)
    return DP_INVALID("Session must be non-empty.");
  worker_session *session;
  DP_RETURN_IF_ERROR(dp_worker_session_create(worker, create, &session));
  dp_worker_session_add(worker, session);
  return NULL;
}

static dp_status *delete_session(dp_worker *worker, const void *request, dp_arena *arena,
                                 void *response) {
  const Tensorflow__DeleteWorkerSessionRequest *deletion = request;
  dp_worker_session_remove(worker, deletion->session_handle);
  return NULL;
}

static dp_status *import_graph(const Tensorflow__GraphDef *message, dp_graph **graph_out) {
  if (!message)
    return DP_INVALID("RegisterGraph: graph_def is missing");
  dp_graph *graph = dp_graph_create(NULL);
  dp_status *status = dp_graph_import(graph, message);
  if (status)
    dp_graph_destroy(graph);
  else
    *graph_out = graph;
  return status;
}

static dp_status *register_graph(dp_worker *worker, const void *request, dp_arena *arena,
                                 void *response) {
  const Tensorflow__RegisterGraphRequest *message = request;
  Tensorflow__RegisterGraphResponse *registered = response;
  dp_worker_registration registration = {.session_handle = message->session_handle,
                                         .graph_options = message->graph_options,
                                         .config = message->config_proto,
                                         .debug = message->debug_options,
                                         .collective_graph_key = message->collective_graph_key};
  DP_RETURN_IF_ERROR(dp_fault("worker.register_graph"));
  worker_session *session = NULL;
  if (message->create_worker_session_called)
    DP_RETURN_IF_ERROR(dp_worker_session_find(worker, message->session_handle, &session));
  else
    DP_RETURN_IF_ERROR(dp_worker_session_imply(worker, message->session_handle, &session));
  char *handle = NULL;
  dp_graph *graph = NULL;
  dp_status *status = import_graph(message->graph_def, &graph);
  if (!status)
    status = dp_worker_graph_register_take(worker, session, graph, &registration, &handle);
  if (!status)
    registered->graph_handle = dp_arena_strdup(arena, handle);
  dp_free(handle);
  dp_worker_session_release(session);
  return status;
}

static dp_status *deregister_graph(dp_worker *worker, const void *request, dp_arena *arena,
                                   void *response) {
  const Tensorflow__DeregisterGraphRequest *deregistration = request;
  worker_session *session;
  DP_RETURN_IF_ERROR(dp_worker_session_find(worker, deregistration->session_handle, &session));
  dp_status *status = dp_worker_graph_remove(worker, session, deregistration->graph_handle);
  dp_worker_session_remove_if_unused(worker, session);
  dp_worker_session_release(session);
  return status;
}

static dp_status *cleanup_graph(dp_worker *worker, const void *request, dp_arena *arena,
                                void *response) {
  dp_worker_step_forget(worker, ((const Tensorflow__CleanupGraphRequest *)request)->step_id);
  return NULL;
}

static dp_status *cleanup_all(dp_worker *worker, const void *request, dp_arena *arena,
                              void *response) {
  const Tensorflow__CleanupAllRequest *cleanup = request;
  for (size_t i = 0; i < worker->device_count; i++) {
    dp_resources *resources = worker->devices[i]->resources;
    if (cleanup->n_container == 0)
      dp_resources_clear_container(resources, "");
    for (size_t k = 0; k < cleanup->n_container; k++)
      dp_resources_clear_container(resources, cleanup->container[k]);
  }
  return NULL;
}

/* Calls whose answer is empty: there is nothing to switch on or to acknowledge here. */
static dp_status *answer_empty(dp_worker *worker, const void *request, dp_arena *arena,
                               void *response) {
  return NULL;
}

typedef struct control_method {
  const ProtobufCMessageDescriptor *request;
  const ProtobufCMessageDescriptor *response;
  control_fn handle; /* answers at once */
  async_fn start;    /* or later; both NULL: not a control call */
} control_method;

#define METHOD(name, function)                                                                     \
  {                                                                                                \
    &tensorflow__##name##_request__descriptor, &tensorflow__##name##_response__descriptor,         \
        function, NULL                                                                             \
  }
#define ASYNC(name, function)                                                                      \
  {                                                                                                \
    &tensorflow__##name##_request__descriptor, &tensorflow__##name##_response__descriptor, NULL,   \
        function                                                                                   \
  }

static const control_method methods[DP_WORKER_METHOD_COUNT] = {
    [DP_WORKER_GET_STATUS] = METHOD(get_status, get_status),
    [DP_WORKER_CREATE_WORKER_SESSION] = METHOD(create_worker_session, create_session),
    [DP_WORKER_DELETE_WORKER_SESSION] = METHOD(delete_worker_session, delete_session),
    [DP_WORKER_REGISTER_GRAPH] = METHOD(register_graph, register_graph),
    [DP_WORKER_DEREGISTER_GRAPH] = METHOD(deregister_graph, deregister_graph),
    [DP_WORKER_CLEANUP_GRAPH] = METHOD(cleanup_graph, cleanup_graph),
    [DP_WORKER_CLEANUP_ALL] = METHOD(cleanup_all, cleanup_all),
    [DP_WORKER_MARK_RECV_FINISHED] = METHOD(mark_recv_finished, answer_empty),
    [DP_WORKER_LOGGING] = METHOD(logging, answer_empty),
    [DP_WORKER_TRACING] = METHOD(tracing, answer_empty),
    [DP_WORKER_RECV_BUF] = METHOD(recv_buf, NULL),
    [DP_WORKER_GET_STEP_SEQUENCE] = ASYNC(get_step_sequence, dp_worker_get_step_sequence),
    [DP_WORKER_COMPLETE_GROUP] = ASYNC(complete_group, dp_worker_complete_group),
    [DP_WORKER_COMPLETE_INSTANCE] = ASYNC(complete_instance, dp_worker_complete_instance),
};

const ProtobufCMessageDescriptor *dp_worker_request_type(dp_worker_method method) {
  return methods[method].request;
}

const ProtobufCMessageDescriptor *dp_worker_response_type(dp_worker_method method) {
  return methods[method].response;
}

void dp_worker_call(dp_worker *worker, dp_worker_method method, const void *request,
                    dp_cancel *cancel, dp_worker_call_done_fn done, void *arg) {
  const control_method *entry = &methods[method];
  if (entry->start) {
    entry->start(worker, request, cancel, done, arg);
    return;
  }
  if (!entry->handle) {
    done(arg,
         dp_status_create(DP_UNIMPLEMENTED, "%s is no control call", dp_worker_method_path(method)),
         NULL);
    return;
  }
  dp_arena *arena = dp_arena_create();
  void *response = dp_wire_new(arena, entry->response);
  dp_status *status = entry->handle(worker, request, arena, response);
  done(arg, status, status ? NULL : response);
  dp_arena_destroy(arena);
}

/* ---- The local peer ---- */

static void local_call(dp_worker_peer *peer, dp_worker_method method, const void *request,
                       int64_t deadline, dp_cancel *cancel, dp_worker_call_done_fn done,
                       void *arg) {
  dp_worker_call((dp_worker *)peer, method, request, cancel, done, arg);
}

/* The master's piece is compiled as it is: written to a GraphDef and read again it would come out
 * the same. It shares the function library with the master's graph. */
static dp_status *register_piece(dp_worker *worker, dp_graph *graph,
                                 const dp_worker_registration *registration, char **handle_out) {
  worker_session *session = NULL;
  dp_status *status = dp_fault("worker.register_graph");
  if (!status)
    status = dp_worker_session_find(worker, registration->session_handle, &session);
  if (status) {
    dp_graph_destroy(graph);
    return status;
  }
  status = dp_worker_graph_register_take(worker, session, graph, registration, handle_out);
  dp_worker_session_release(session);
  return status;
}

static void local_register_graph(dp_worker_peer *peer, dp_graph *graph,
                                 const dp_worker_registration *registration, int64_t deadline,
                                 dp_cancel *cancel, dp_worker_register_done_fn done, void *arg) {
  char *handle = NULL;
  dp_status *status = register_piece((dp_worker *)peer, graph, registration, &handle);
  done(arg, status, handle);
  dp_free(handle);
}

static void local_run_graph(dp_worker_peer *peer, const dp_run_graph_request *request,
                            dp_cancel *cancel, dp_worker_run_done_fn done, void *arg) {
  dp_worker_run_graph((dp_worker *)peer, request, cancel, done, arg);
}

static void local_receive(dp_worker_peer *peer, const dp_recv_tensor_request *request,
                          dp_cancel *cancel, dp_worker_receive_done_fn done, void *arg) {
  dp_worker_receive_tensor((dp_worker *)peer, request, cancel, done, arg);
}

/* Only a foreign leader would have us ask ourselves: chunks of this task are on its own boards. */
static void local_receive_buffer(dp_worker_peer *peer, const Tensorflow__RecvBufRequest *request,
                                 void *to, dp_cancel *cancel, dp_worker_buffer_done_fn done,
                                 void *arg) {
  dp_tensor nothing = {0};
  done(arg, dp_status_create(DP_INTERNAL, "%s asks itself for a chunk", request->dst_device),
       &nothing);
}

static const dp_worker_peer_ops local_ops = {.call = local_call,
                                             .register_graph_take = local_register_graph,
                                             .run_graph = local_run_graph,
                                             .receive_tensor = local_receive,
                                             .receive_buffer = local_receive_buffer};

dp_worker_peer *dp_worker_local_peer(dp_worker *worker) {
  return &worker->local;
}

/* ---- Life ---- */

dp_worker *dp_worker_create(const dp_worker_options *options) {
  dp_worker *worker = DP_NEW(dp_worker);
  worker->local.ops = &local_ops;
  worker->task = dp_strdup(options->task);
  worker->device_count = options->device_count;
  worker->devices = DP_NEW_ARRAY(dp_device *, options->device_count);
  for (size_t i = 0; i < options->device_count; i++)
    worker->devices[i] = dp_device_retain(options->devices[i]);
  worker->compute = options->compute;
  worker->blocking = options->blocking;
  worker->peers = options->peers;
  worker->peers_arg = options->peers_arg;
  pthread_rwlock_init(&worker->tables, NULL);
  dp_refcount_init(&worker->running);
  dp_event_init(&worker->idle);
  worker->life = dp_cancel_create(NULL, DP_FOREVER);
  worker->sessions = dp_map_create();
  dp_worker_steps_init(worker);
  atomic_init(&worker->next_request, dp_random_seed());
  worker->collectives = dp_collectives_create();
  return worker;
}

static void destroy_sessions(dp_worker *worker) {
  for (;;) {
    size_t at = 0;
    const char *handle;
    void *session;
    if (!dp_map_next(worker->sessions, &at, &handle, &session))
      break;
    dp_worker_session_remove(worker, handle);
  }
  dp_map_destroy(worker->sessions);
}

void dp_worker_run_ended(dp_worker *worker) {
  if (dp_refcount_release(&worker->running))
    dp_event_notify(&worker->idle);
}

void dp_worker_destroy(dp_worker *worker) {
  if (!worker)
    return;
  dp_cancel_trigger(worker->life, dp_status_create(DP_CANCELLED, "the server is stopping"));
  dp_worker_steps_clear(worker, NULL);
  dp_worker_run_ended(worker); /* the worker's own unit */
  dp_event_wait(&worker->idle);
  destroy_sessions(worker);
  dp_worker_steps_deinit(worker);
  dp_collectives_destroy(worker->collectives);
  for (size_t i = 0; i < worker->device_count; i++) {
    dp_resources_clear(worker->devices[i]->resources);
    dp_device_release(worker->devices[i]);
  }
  dp_free(worker->devices);
  dp_cancel_release(worker->life);
  pthread_rwlock_destroy(&worker->tables);
  dp_event_deinit(&worker->idle);
  dp_free(worker->task);
  dp_free(worker);
}

const char *dp_worker_task(const dp_worker *worker) {
  return worker->task;
}

dp_collectives *dp_worker_collectives(dp_worker *worker) {
  return worker->collectives;
}

dp_device *dp_worker_device(const dp_worker *worker, size_t index) {
  return worker->devices[index];
}
