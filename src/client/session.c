/* TF_Session: a graph, and a master that runs it.
 *
 * The master's session is made by the first call that needs it, with the graph as it is then; a run
 * after the graph has grown sends the new nodes first. Runs of several threads go to the master at
 * the same time; only the sending of nodes is one after the other. */
#include "client/client_internal.h"

#include <downpour.h>
#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "client/options.h"
#include "client/session.h"

/* ---- Options ---- */

struct TF_SessionOptions {
  char *target;
  void *config; /* a valid ConfigProto, as bytes */
  size_t config_length;
};

TF_SessionOptions *TF_NewSessionOptions(void) {
  TF_SessionOptions *options = DP_NEW(TF_SessionOptions);
  options->target = dp_strdup("");
  return options;
}

void TF_DeleteSessionOptions(TF_SessionOptions *options) {
  if (!options)
    return;
  dp_free(options->target);
  dp_free(options->config);
  dp_free(options);
}

void TF_SetTarget(TF_SessionOptions *options, const char *target) {
  dp_free(options->target);
  options->target = dp_strdup(target);
}

void TF_SetConfig(TF_SessionOptions *options, const void *proto, size_t proto_len,
                  TF_Status *status) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__ConfigProto *config;
  dp_status *result =
      dp_wire_unpack_bytes(&tensorflow__config_proto__descriptor, proto, proto_len, arena, &config);
  if (!result) {
    dp_free(options->config);
    options->config = dp_memdup(proto, proto_len);
    options->config_length = proto_len;
  }
  dp_client_set_status(status, result ? DP_INVALID("Unparseable ConfigProto") : NULL);
  dp_status_release(result);
  dp_arena_destroy(arena);
}

/* What is named goes over what the options' ConfigProto had; the result is in `arena`. */
static dp_status *configure(const TF_SessionOptions *session,
                            const dp_session_configure_options *given, dp_arena *arena,
                            uint8_t **data_out, size_t *size_out) {
  dp_session_configure_options options = DP_OPTIONS(dp_session_configure);
  DP_RETURN_IF_ERROR(
      dp_client_options_read("dp_session_configure", given, &options, sizeof(options)));
  if (!(options.timeout_seconds >= 0 && options.timeout_seconds < 1e12))
    return DP_INVALID("a session cannot have a time limit of %g seconds", options.timeout_seconds);
  Tensorflow__ConfigProto *config;
  DP_RETURN_IF_ERROR(dp_wire_unpack_bytes(&tensorflow__config_proto__descriptor, session->config,
                                          session->config_length, arena, &config));
  if (options.timeout_seconds > 0)
    config->operation_timeout_in_ms = (int64_t)ceil(options.timeout_seconds * 1000);
  if (options.device_filters.count > 0) {
    config->n_device_filters = (size_t)options.device_filters.count;
    config->device_filters = (char **)options.device_filters.items; /* read only */
  }
  config->allow_soft_placement |= options.allow_soft_placement;
  config->log_device_placement |= options.log_device_placement;
  return dp_wire_pack_bytes(config, arena, data_out, size_out);
}

void dp_session_configure_with_options(TF_SessionOptions *session, TF_Status *status,
                                       const dp_session_configure_options *options) {
  dp_arena *arena = dp_arena_create();
  uint8_t *data;
  size_t size;
  dp_status *result = configure(session, options, arena, &data, &size);
  dp_client_set_status(status, result);
  if (!result)
    TF_SetConfig(session, data, size, status);
  dp_arena_destroy(arena);
}

/* ---- Life ---- */

/* Sessions of this process: what TF_Reset of the local target resets. */
static pthread_mutex_t local_lock = PTHREAD_MUTEX_INITIALIZER;
static TF_Session *local_sessions;

struct TF_Session {
  TF_Session *next_local; /* guarded by local_lock */
  TF_Graph *graph;        /* retained */
  client_link *link;
  dp_arena *arena;
  char *target;
  Tensorflow__ConfigProto *config;
  pthread_mutex_t lock; /* guards what follows */
  char *handle;         /* NULL: the master has none yet */
  int64_t version;
  int32_t nodes_sent;
  bool is_closed;
};

static dp_status *open_link(const char *target, const Tensorflow__ConfigProto *config,
                            client_link **link_out) {
  dp_view view = dp_view_of(target);
  if (!view.length || dp_view_equals(view, "local"))
    return dp_client_link_local(config, link_out);
  if (dp_view_consume(&view, "grpc://") && view.length) {
    *link_out = dp_client_link_door(view.data);
    return *link_out ? NULL : dp_client_link_remote(view.data, link_out);
  }
  return dp_status_create(DP_NOT_FOUND,
                          "No session factory registered for the given session options: {target: "
                          "\"%s\" config: } Registered factories are {DIRECT_SESSION, "
                          "GRPC_SESSION}.",
                          target);
}

static bool is_local(const char *target) {
  return !*target || strcmp(target, "local") == 0;
}

static void enlist(TF_Session *session) {
  pthread_mutex_lock(&local_lock);
  session->next_local = local_sessions;
  local_sessions = session;
  pthread_mutex_unlock(&local_lock);
}

static void delist(TF_Session *session) {
  pthread_mutex_lock(&local_lock);
  TF_Session **at = &local_sessions;
  while (*at && *at != session)
    at = &(*at)->next_local;
  if (*at)
    *at = session->next_local;
  pthread_mutex_unlock(&local_lock);
}

static void destroy(TF_Session *session) {
  delist(session);
  if (session->link)
    session->link->ops->destroy(session->link);
  dp_client_graph_release(session->graph);
  pthread_mutex_destroy(&session->lock);
  dp_free(session->handle);
  dp_free(session->target);
  dp_arena_destroy(session->arena);
  dp_free(session);
}

TF_Session *TF_NewSession(TF_Graph *graph, const TF_SessionOptions *opts, TF_Status *status) {
  TF_Session *session = DP_NEW(TF_Session);
  dp_refcount_retain(&graph->references);
  session->graph = graph;
  session->arena = dp_arena_create();
  session->target = dp_strdup(opts->target);
  pthread_mutex_init(&session->lock, NULL);
  dp_status *result = dp_wire_unpack_bytes(&tensorflow__config_proto__descriptor, opts->config,
                                           opts->config_length, session->arena, &session->config);
  if (!result)
    result = open_link(opts->target, session->config, &session->link);
  dp_client_set_status(status, result);
  if (!result && is_local(opts->target))
    enlist(session);
  if (!result)
    return session;
  destroy(session);
  return NULL;
}

/* ---- The graph on the other side ---- */

static int64_t control_deadline(const TF_Session *session) {
  int64_t millis = session->config->operation_timeout_in_ms;
  return millis > 0 ? dp_clock_nanos() + millis * 1000000 : DP_FOREVER;
}

static dp_status *control(TF_Session *session, dp_master_method method, const void *request,
                          dp_arena *arena, void *response_out) {
  return session->link->ops->call(session->link, method, request, control_deadline(session), arena,
                                  response_out);
}

/* The nodes that the master does not know yet; NULL when there are none. */
static Tensorflow__GraphDef *take_news(TF_Session *session, dp_arena *arena, int32_t *nodes_out) {
  TF_Graph *graph = session->graph;
  pthread_mutex_lock(&graph->lock);
  *nodes_out = graph->graph->node_count;
  Tensorflow__GraphDef *news = !session->handle || *nodes_out > session->nodes_sent
                                   ? dp_client_graph_export(graph, session->nodes_sent, arena)
                                   : NULL;
  pthread_mutex_unlock(&graph->lock);
  return news;
}

static dp_status *create(TF_Session *session, Tensorflow__GraphDef *graph, int64_t deadline,
                         dp_arena *arena) {
  Tensorflow__CreateSessionRequest request = TENSORFLOW__CREATE_SESSION_REQUEST__INIT;
  Tensorflow__CreateSessionResponse *response;
  request.graph_def = graph;
  request.config = session->config;
  request.target = session->target;
  DP_RETURN_IF_ERROR(session->link->ops->call(session->link, DP_MASTER_CREATE_SESSION, &request,
                                              deadline, arena, &response));
  session->handle = dp_strdup(response->session_handle);
  session->version = response->graph_version;
  return NULL;
}

static dp_status *extend(TF_Session *session, Tensorflow__GraphDef *graph, dp_arena *arena) {
  Tensorflow__ExtendSessionRequest request = TENSORFLOW__EXTEND_SESSION_REQUEST__INIT;
  Tensorflow__ExtendSessionResponse *response;
  request.session_handle = session->handle;
  request.graph_def = graph;
  request.current_graph_version = session->version;
  DP_RETURN_IF_ERROR(control(session, DP_MASTER_EXTEND_SESSION, &request, arena, &response));
  session->version = response->new_graph_version;
  return NULL;
}

/* Makes the master's session (until the deadline) and graph what they should be; copies the handle.
 */
static dp_status *prepare_until(TF_Session *session, int64_t deadline, dp_arena *arena,
                                char **handle_out) {
  int32_t nodes = 0;
  dp_status *status = NULL;
  pthread_mutex_lock(&session->lock);
  if (session->is_closed)
    status = dp_status_create(DP_CANCELLED, "Session has been closed.");
  Tensorflow__GraphDef *news = status ? NULL : take_news(session, arena, &nodes);
  if (news)
    status =
        session->handle ? extend(session, news, arena) : create(session, news, deadline, arena);
  if (news && !status)
    session->nodes_sent = nodes;
  if (!status)
    *handle_out = dp_arena_strdup(arena, session->handle);
  pthread_mutex_unlock(&session->lock);
  return status;
}

static dp_status *prepare(TF_Session *session, dp_arena *arena, char **handle_out) {
  return prepare_until(session, control_deadline(session), arena, handle_out);
}

dp_status *dp_client_session_open(TF_Session *session, int64_t deadline) {
  char *handle;
  dp_arena *arena = dp_arena_create();
  dp_status *status = prepare_until(session, deadline, arena, &handle);
  dp_arena_destroy(arena);
  return status;
}

/* ---- The end ---- */

static dp_status *close_session(TF_Session *session) {
  pthread_mutex_lock(&session->lock);
  char *handle = session->is_closed ? NULL : session->handle;
  if (handle)
    session->handle = NULL;
  session->is_closed = true;
  pthread_mutex_unlock(&session->lock);
  if (!handle)
    return NULL;
  dp_arena *arena = dp_arena_create();
  Tensorflow__CloseSessionRequest request = TENSORFLOW__CLOSE_SESSION_REQUEST__INIT;
  request.session_handle = handle;
  dp_status *status = control(session, DP_MASTER_CLOSE_SESSION, &request, arena, NULL);
  dp_arena_destroy(arena);
  dp_free(handle);
  return status;
}

void TF_CloseSession(TF_Session *session, TF_Status *status) {
  dp_client_set_status(status, close_session(session));
}

void TF_DeleteSession(TF_Session *session, TF_Status *status) {
  dp_client_set_status(status, NULL);
  if (!session)
    return;
  /* A server that cannot be reached any more is no reason to keep the session. */
  dp_status_release(close_session(session));
  destroy(session);
}

/* ---- Resetting ---- */

static dp_status *reset(client_link *link, const char **containers, int count) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__ResetRequest request = TENSORFLOW__RESET_REQUEST__INIT;
  request.container = (char **)containers;
  request.n_container = (size_t)(count > 0 ? count : 0);
  dp_status *status = link->ops->call(link, DP_MASTER_RESET, &request, DP_FOREVER, arena, NULL);
  dp_arena_destroy(arena);
  return status;
}

void TF_Reset(const TF_SessionOptions *opt, const char **containers, int ncontainers,
              TF_Status *status) {
  dp_status *result = NULL;
  if (is_local(opt->target)) {
    pthread_mutex_lock(&local_lock);
    for (TF_Session *at = local_sessions; at; at = at->next_local)
      dp_status_update(&result, reset(at->link, containers, ncontainers));
    pthread_mutex_unlock(&local_lock);
  } else {
    client_link *link = NULL;
    result = open_link(opt->target, NULL, &link);
    if (!result)
      result = reset(link, containers, ncontainers);
    if (link)
      link->ops->destroy(link);
  }
  dp_client_set_status(status, result);
}

/* ---- Names ---- */

static char **output_names(const TF_Output *outputs, int count, dp_arena *arena) {
  char **names = DP_ARENA_ARRAY(arena, char *, count + 1);
  for (int i = 0; i < count; i++)
    names[i] = dp_client_output_name(outputs[i], arena);
  return names;
}

static char **target_names(const TF_Operation *const *targets, int count, dp_arena *arena) {
  char **names = DP_ARENA_ARRAY(arena, char *, count + 1);
  for (int i = 0; i < count; i++)
    names[i] = (char *)targets[i]->node->name;
  return names;
}

/* Keeps the first of equal names; returns how many are left. */
static size_t unique_names(char *const *names, int count, const char **unique) {
  dp_map *seen = dp_map_create();
  size_t kept = 0;
  for (int i = 0; i < count; i++) {
    if (dp_map_get(seen, names[i]))
      continue;
    dp_map_put(seen, names[i], (void *)names[i]);
    unique[kept++] = names[i];
  }
  dp_map_destroy(seen);
  return kept;
}

/* ---- A step ---- */

typedef struct step {
  const char *partial_handle;
  const TF_Buffer *run_options;
  const TF_Output *inputs;
  TF_Tensor *const *input_values;
  int input_count;
  const TF_Output *outputs;
  TF_Tensor **output_values;
  int output_count;
  const TF_Operation *const *targets;
  int target_count;
  TF_Buffer *run_metadata;
} step;

static dp_status *fill_feeds(const step *step, dp_arena *arena, dp_run_step_request *request) {
  char **names = output_names(step->inputs, step->input_count, arena);
  request->feeds = DP_ARENA_ARRAY(arena, dp_named_tensor, step->input_count + 1);
  for (int i = 0; i < step->input_count; i++) {
    if (!step->input_values[i])
      return DP_INVALID("The tensor for %s is NULL", names[i]);
    request->feeds[i] = (dp_named_tensor){names[i], step->input_values[i]->tensor}; /* borrowed */
  }
  request->feed_count = (size_t)step->input_count;
  return NULL;
}

static dp_status *fill_options(const step *step, dp_arena *arena, dp_run_step_request *request) {
  if (step->run_metadata && step->run_metadata->data)
    return DP_INVALID("Passing non-empty run_metadata is invalid.");
  if (!step->run_options)
    return NULL;
  dp_status *status =
      dp_wire_unpack_bytes(&tensorflow__run_options__descriptor, step->run_options->data,
                           step->run_options->length, arena, &request->options);
  dp_status_release(status);
  return status ? DP_INVALID("Unparseable RunOptions proto") : NULL;
}

static int64_t step_deadline(const TF_Session *session, const dp_run_step_request *request) {
  int64_t millis = request->options && request->options->timeout_in_ms > 0
                       ? request->options->timeout_in_ms
                       : session->config->operation_timeout_in_ms;
  return millis > 0 ? dp_clock_nanos() + millis * 1000000 : DP_FOREVER;
}

/* Moves or, for an output that was asked for twice, shares what came back. */
static dp_status *take_outputs(const step *step, char *const *names,
                               dp_run_step_response *response) {
  dp_map *by_name = dp_map_create();
  dp_status *status = NULL;
  for (size_t i = 0; i < response->tensor_count; i++)
    dp_map_put(by_name, response->tensors[i].name, &response->tensors[i].tensor);
  for (int i = 0; i < step->output_count && !status; i++) {
    const dp_tensor *tensor = dp_map_get(by_name, names[i]);
    if (tensor && dp_tensor_is_set(tensor))
      step->output_values[i] = dp_client_tensor(dp_tensor_copy(tensor));
    else
      status = dp_status_create(DP_INTERNAL, "The master returned no tensor for %s", names[i]);
  }
  dp_map_destroy(by_name);
  return status;
}

static dp_status *return_metadata(const step *step, const dp_run_step_response *response) {
  if (!step->run_metadata)
    return NULL;
  Tensorflow__RunMetadata empty = TENSORFLOW__RUN_METADATA__INIT;
  return dp_client_pack(response->metadata ? response->metadata : &empty, step->run_metadata);
}

static dp_status *run_in(TF_Session *session, const step *step, dp_arena *arena) {
  dp_run_step_request request = {.partial_run_handle =
                                     step->partial_handle ? step->partial_handle : ""};
  char *handle;
  DP_RETURN_IF_ERROR(fill_options(step, arena, &request));
  DP_RETURN_IF_ERROR(fill_feeds(step, arena, &request));
  DP_RETURN_IF_ERROR(prepare(session, arena, &handle));
  char **names = output_names(step->outputs, step->output_count, arena);
  request.session_handle = handle;
  request.fetches = DP_ARENA_ARRAY(arena, const char *, step->output_count + 1);
  request.fetch_count = unique_names(names, step->output_count, request.fetches);
  request.targets = (const char **)target_names(step->targets, step->target_count, arena);
  request.target_count = (size_t)step->target_count;
  dp_run_step_response response = {0};
  DP_RETURN_IF_ERROR(session->link->ops->run(session->link, &request,
                                             step_deadline(session, &request), arena, &response));
  dp_status *status = take_outputs(step, names, &response);
  if (!status)
    status = return_metadata(step, &response);
  dp_run_step_response_deinit(&response);
  return status;
}

static dp_status *run(TF_Session *session, const step *step) {
  for (int i = 0; i < step->output_count; i++)
    step->output_values[i] = NULL;
  dp_arena *arena = dp_arena_create();
  dp_status *status = run_in(session, step, arena);
  dp_arena_destroy(arena);
  for (int i = 0; status && i < step->output_count; i++) {
    TF_DeleteTensor(step->output_values[i]);
    step->output_values[i] = NULL;
  }
  return status;
}

void TF_SessionRun(TF_Session *session, const TF_Buffer *run_options, const TF_Output *inputs,
                   TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
                   TF_Tensor **output_values, int noutputs, const TF_Operation *const *target_opers,
                   int ntargets, TF_Buffer *run_metadata, TF_Status *status) {
  step step = {.run_options = run_options,
               .inputs = inputs,
               .input_values = input_values,
               .input_count = ninputs,
               .outputs = outputs,
               .output_values = output_values,
               .output_count = noutputs,
               .targets = target_opers,
               .target_count = ntargets,
               .run_metadata = run_metadata};
  dp_client_set_status(status, run(session, &step));
}

/* ---- A step in parts ---- */

static dp_status *set_up(TF_Session *session, Tensorflow__PartialRunSetupRequest *request,
                         dp_arena *arena, const char **handle) {
  Tensorflow__PartialRunSetupResponse *response;
  DP_RETURN_IF_ERROR(prepare(session, arena, &request->session_handle));
  DP_RETURN_IF_ERROR(control(session, DP_MASTER_PARTIAL_RUN_SETUP, request, arena, &response));
  *handle = dp_strdup(response->partial_run_handle);
  return NULL;
}

void TF_SessionPRunSetup(TF_Session *session, const TF_Output *inputs, int ninputs,
                         const TF_Output *outputs, int noutputs,
                         const TF_Operation *const *target_opers, int ntargets, const char **handle,
                         TF_Status *status) {
  *handle = NULL;
  dp_arena *arena = dp_arena_create();
  Tensorflow__PartialRunSetupRequest request = TENSORFLOW__PARTIAL_RUN_SETUP_REQUEST__INIT;
  request.feed = output_names(inputs, ninputs, arena);
  request.n_feed = (size_t)ninputs;
  request.fetch = output_names(outputs, noutputs, arena);
  request.n_fetch = (size_t)noutputs;
  request.target = target_names(target_opers, ntargets, arena);
  request.n_target = (size_t)ntargets;
  dp_client_set_status(status, set_up(session, &request, arena, handle));
  dp_arena_destroy(arena);
}

void TF_SessionPRun(TF_Session *session, const char *handle, const TF_Output *inputs,
                    TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
                    TF_Tensor **output_values, int noutputs,
                    const TF_Operation *const *target_opers, int ntargets, TF_Status *status) {
  step step = {.partial_handle = handle,
               .inputs = inputs,
               .input_values = input_values,
               .input_count = ninputs,
               .outputs = outputs,
               .output_values = output_values,
               .output_count = noutputs,
               .targets = target_opers,
               .target_count = ntargets};
  dp_client_set_status(status, run(session, &step));
}

void TF_DeletePRunHandle(const char *handle) {
  dp_free((void *)handle);
}

/* ---- Devices ---- */

struct TF_DeviceList {
  dp_arena *arena;
  const Tensorflow__DeviceAttributes **devices;
  int count;
};

static dp_status *list_devices(TF_Session *session, TF_DeviceList *list) {
  Tensorflow__ListDevicesRequest request = TENSORFLOW__LIST_DEVICES_REQUEST__INIT;
  Tensorflow__ListDevicesResponse *response;
  DP_RETURN_IF_ERROR(prepare(session, list->arena, &request.session_handle));
  DP_RETURN_IF_ERROR(control(session, DP_MASTER_LIST_DEVICES, &request, list->arena, &response));
  size_t count = response->n_local_device + response->n_remote_device;
  list->devices = DP_ARENA_ARRAY(list->arena, const Tensorflow__DeviceAttributes *, count + 1);
  for (size_t i = 0; i < response->n_local_device; i++)
    list->devices[list->count++] = response->local_device[i];
  for (size_t i = 0; i < response->n_remote_device; i++)
    list->devices[list->count++] = response->remote_device[i];
  return NULL;
}

TF_DeviceList *TF_SessionListDevices(TF_Session *session, TF_Status *status) {
  TF_DeviceList *list = DP_NEW(TF_DeviceList);
  list->arena = dp_arena_create();
  dp_client_set_status(status, list_devices(session, list));
  if (TF_GetCode(status) == TF_OK)
    return list;
  TF_DeleteDeviceList(list);
  return NULL;
}

void TF_DeleteDeviceList(TF_DeviceList *list) {
  if (!list)
    return;
  dp_arena_destroy(list->arena);
  dp_free(list);
}

int TF_DeviceListCount(const TF_DeviceList *list) {
  return list->count;
}

static const Tensorflow__DeviceAttributes *device_at(const TF_DeviceList *list, int index,
                                                     TF_Status *status) {
  bool exists = list && index >= 0 && index < list->count;
  dp_client_set_status(
      status, exists ? NULL : DP_INVALID("%s", list ? "index out of bounds" : "list is null!"));
  return exists ? list->devices[index] : NULL;
}

const char *TF_DeviceListName(const TF_DeviceList *list, int index, TF_Status *status) {
  const Tensorflow__DeviceAttributes *device = device_at(list, index, status);
  return device ? device->name : NULL;
}

const char *TF_DeviceListType(const TF_DeviceList *list, int index, TF_Status *status) {
  const Tensorflow__DeviceAttributes *device = device_at(list, index, status);
  return device ? device->device_type : NULL;
}

int64_t TF_DeviceListMemoryBytes(const TF_DeviceList *list, int index, TF_Status *status) {
  const Tensorflow__DeviceAttributes *device = device_at(list, index, status);
  return device ? device->memory_limit : -1;
}

uint64_t TF_DeviceListIncarnation(const TF_DeviceList *list, int index, TF_Status *status) {
  const Tensorflow__DeviceAttributes *device = device_at(list, index, status);
  return device ? (uint64_t)device->incarnation : 0;
}
