/* The life of a call on the client: one batch does all of it (request, answer, status), and its
 * completion is the only event. The call's cancel scope, if it has one, makes gRPC end the batch
 * early; the scope's callback is taken back, or waited for, before the call is destroyed.
 *
 * From its start to its completion a call is on its channel's list, so that all of them can be
 * ended when the other side is gone. Questions (pulse.c) are calls too, but on no list. */
#include "rpc/client_internal.h"

#include <grpc/support/alloc.h>
#include <string.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/fault.h"
#include "base/memory.h"
#include "rpc/network.h"
#include "rpc/slices_internal.h"

struct client_call {
  dp_rpc_event completed;
  dp_rpc_channel *channel;
  grpc_call *grpc;
  grpc_byte_buffer *request, *response;
  grpc_metadata_array initial_metadata, trailing_metadata;
  grpc_status_code code;
  grpc_slice details;
  dp_cancel *cancel;
  dp_cancel_token token;
  dp_rpc_done_fn done;
  void *arg;
  bool is_question;
  client_call *next, *previous; /* in the channel's list; guarded by its mutex, as is `failure` */
  dp_status *failure;           /* what dp_rpc_channel_fail_calls ended it with; else NULL */
  char path[];
};

static void destroy_call(client_call *call) {
  if (call->grpc != NULL)
    grpc_call_unref(call->grpc);
  if (call->request != NULL)
    grpc_byte_buffer_destroy(call->request);
  if (call->response != NULL)
    grpc_byte_buffer_destroy(call->response);
  grpc_metadata_array_destroy(&call->initial_metadata);
  grpc_metadata_array_destroy(&call->trailing_metadata);
  grpc_slice_unref(call->details);
  dp_cancel_release(call->cancel);
  dp_status_release(call->failure);
  if (call->is_question)
    dp_rpc_channel_drop(call->channel);
  else
    dp_rpc_channel_release(call->channel);
  dp_free(call);
}

/* Everything is given back before `done` runs: it may be what lets the owner end. */
static void finish(client_call *call, dp_status *status, dp_rope *response) {
  dp_rpc_done_fn done = call->done;
  void *arg = call->arg;
  if (!call->is_question)
    atomic_fetch_sub_explicit(&call->channel->live_count, 1, memory_order_relaxed);
  destroy_call(call);
  done(arg, status, response);
  dp_rope_deinit(response);
}

/* ---- The list of live calls -------------------------------------------------------------------*/

static void link_call(client_call *call) {
  dp_rpc_channel *channel = call->channel;
  if (call->is_question)
    return;
  pthread_mutex_lock(&channel->mutex);
  call->next = channel->live;
  if (call->next != NULL)
    call->next->previous = call;
  channel->live = call;
  pthread_mutex_unlock(&channel->mutex);
}

/* From now on nobody else touches the call. */
static void unlink_call(client_call *call) {
  dp_rpc_channel *channel = call->channel;
  if (call->is_question)
    return;
  pthread_mutex_lock(&channel->mutex);
  if (call->previous != NULL)
    call->previous->next = call->next;
  else
    channel->live = call->next;
  if (call->next != NULL)
    call->next->previous = call->previous;
  pthread_mutex_unlock(&channel->mutex);
}

void dp_rpc_channel_fail_calls(dp_rpc_channel *channel, const dp_status *why) {
  DP_ARRAY(grpc_call *) failed = {0};
  pthread_mutex_lock(&channel->mutex);
  for (client_call *call = channel->live; call != NULL; call = call->next) {
    if (call->failure != NULL)
      continue; /* its end is on the way */
    call->failure = dp_status_retain(why);
    grpc_call_ref(call->grpc);
    DP_ARRAY_PUSH(&failed, call->grpc);
  }
  pthread_mutex_unlock(&channel->mutex);
  for (size_t i = 0; i < failed.count; i++) {
    grpc_call_cancel_with_status(failed.items[i], (grpc_status_code)dp_status_code(why),
                                 "the other side is gone", NULL);
    grpc_call_unref(failed.items[i]);
  }
  DP_ARRAY_FREE(&failed);
}

/* ---- The end ----------------------------------------------------------------------------------*/

/* gRPC's status as ours. What the link itself reports is given the target's name. */
static dp_status *status_of(const client_call *call) {
  if (call->code == GRPC_STATUS_OK)
    return NULL;
  if (call->failure != NULL && (int)dp_status_code(call->failure) == (int)call->code)
    return dp_status_retain(call->failure);
  if (call->cancel != NULL) {
    dp_status *why = dp_cancel_status(call->cancel);
    if (why != NULL && (int)dp_status_code(why) == (int)call->code)
      return why;
    dp_status_release(why);
  }
  dp_code code = (int)call->code > 0 && (int)call->code <= DP_UNAUTHENTICATED ? (dp_code)call->code
                                                                              : DP_UNKNOWN;
  dp_status *status = dp_status_create(code, "%.*s", (int)GRPC_SLICE_LENGTH(call->details),
                                       (const char *)GRPC_SLICE_START_PTR(call->details));
  if (code == DP_DEADLINE_EXCEEDED)
    status = dp_status_annotate(status, "%s to %s", call->path, call->channel->target);
  if (code == DP_UNAVAILABLE && strstr(dp_status_message(status), call->channel->target) == NULL)
    status = dp_status_annotate(status, "%s", call->channel->target);
  if (code == DP_UNAVAILABLE || code == DP_DEADLINE_EXCEEDED)
    dp_rpc_channel_note_error(call->channel, status);
  return status;
}

static void on_completed(dp_rpc_event *event, bool ok) {
  client_call *call = DP_RPC_EVENT_OWNER(event, client_call, completed);
  unlink_call(call);
  if (call->cancel != NULL)
    dp_cancel_deregister(call->cancel, call->token);
  if (call->code == GRPC_STATUS_OK && call->channel->pulse.path != NULL)
    atomic_store_explicit(&call->channel->seen, dp_clock_nanos(), memory_order_relaxed);
  dp_status *status = status_of(call);
  dp_rope response = {0};
  grpc_byte_buffer *body = call->response;
  call->response = NULL;
  if (status == NULL && body == NULL)
    status = dp_status_create(DP_INTERNAL, "%s answered %s without a message",
                              call->channel->target, call->path);
  else if (status == NULL)
    status = dp_rpc_unpack(body, &response);
  else if (body != NULL)
    grpc_byte_buffer_destroy(body);
  if (status != NULL)
    dp_rope_deinit(&response);
  else if (response.length >= DP_RPC_LARGE_BYTES)
    dp_rpc_yield();
  finish(call, status, &response);
}

/* ---- The beginning ----------------------------------------------------------------------------*/

static void on_cancel(void *arg, const dp_status *why) {
  client_call *call = arg;
  grpc_call_cancel_with_status(call->grpc, (grpc_status_code)dp_status_code(why),
                               dp_status_message(why), NULL);
}

static void start(client_call *call, dp_rpc_flags flags) {
  grpc_op ops[6] = {0};
  ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
  if (flags & DP_RPC_WAIT_FOR_READY)
    ops[0].flags =
        GRPC_INITIAL_METADATA_WAIT_FOR_READY | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
  ops[1].op = GRPC_OP_SEND_MESSAGE;
  ops[1].data.send_message.send_message = call->request;
  ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
  ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
  ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial_metadata;
  ops[4].op = GRPC_OP_RECV_MESSAGE;
  ops[4].data.recv_message.recv_message = &call->response;
  ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
  ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing_metadata;
  ops[5].data.recv_status_on_client.status = &call->code;
  ops[5].data.recv_status_on_client.status_details = &call->details;
  dp_rpc_start_batch(call->grpc, ops, 6, &call->completed);
}

static client_call *create_call(dp_rpc_channel *channel, const char *path, bool is_question,
                                dp_rpc_done_fn done, void *arg) {
  size_t length = strlen(path) + 1;
  client_call *call = dp_calloc(1, sizeof(*call) + length);
  memcpy(call->path, path, length);
  call->completed.fn = on_completed;
  call->is_question = is_question;
  call->channel = channel;
  dp_refcount_retain(is_question ? &channel->holders : &channel->users);
  call->details = grpc_empty_slice();
  call->done = done;
  call->arg = arg;
  grpc_metadata_array_init(&call->initial_metadata);
  grpc_metadata_array_init(&call->trailing_metadata);
  if (is_question)
    return call;
  atomic_fetch_add_explicit(&channel->call_count, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&channel->live_count, 1, memory_order_relaxed);
  return call;
}

/* Makes gRPC's call and ties it to its scope. */
static dp_status *prepare(client_call *call, dp_rope *request, int64_t deadline_nanos,
                          dp_cancel *cancel) {
  if (!call->is_question)
    DP_RETURN_IF_ERROR(dp_fault("rpc.call"));
  DP_RETURN_IF_ERROR(dp_rpc_pack(request, &call->request));
  const dp_rpc_client *client = call->channel->client;
  grpc_slice path = grpc_slice_from_copied_string(call->path);
  call->grpc =
      grpc_channel_create_call(call->channel->grpc, NULL, GRPC_PROPAGATE_DEFAULTS,
                               call->is_question ? client->pulse_queue : client->engine.queue, path,
                               NULL, dp_rpc_time_of(deadline_nanos), NULL);
  grpc_slice_unref(path);
  if (cancel == NULL)
    return NULL;
  call->cancel = dp_cancel_retain(cancel);
  return dp_cancel_register(cancel, on_cancel, call, &call->token) ? NULL
                                                                   : dp_cancel_status(cancel);
}

static void begin(client_call *call, dp_rope *request, int64_t deadline_nanos, dp_cancel *cancel,
                  dp_rpc_flags flags) {
  dp_status *status = prepare(call, request, deadline_nanos, cancel);
  if (status != NULL) {
    dp_rope_deinit(request);
    dp_rope none = {0};
    finish(call, status, &none);
    return;
  }
  link_call(call);
  start(call, flags);
}

void dp_rpc_channel_call(dp_rpc_channel *channel, const char *path, dp_rope *request,
                         int64_t deadline_nanos, dp_cancel *cancel, dp_rpc_flags flags,
                         dp_rpc_done_fn done, void *arg) {
  begin(create_call(channel, path, false, done, arg), request, deadline_nanos, cancel, flags);
}

void dp_rpc_channel_ask(dp_rpc_channel *channel, int64_t deadline_nanos, dp_rpc_done_fn done,
                        void *arg) {
  dp_rope nothing = {0};
  begin(create_call(channel, channel->pulse.path, true, done, arg), &nothing, deadline_nanos,
        channel->questions, DP_RPC_FAIL_FAST);
}

/* ---- Waiting ----------------------------------------------------------------------------------*/

typedef struct waiter {
  dp_event over;
  dp_status *status;
  dp_rope *response;
} waiter;

static void wake(void *arg, dp_status *status, dp_rope *response) {
  waiter *waiting = arg;
  waiting->status = status;
  dp_rope_append_rope(waiting->response, response);
  dp_event_notify(&waiting->over);
}

dp_status *dp_rpc_channel_call_and_wait(dp_rpc_channel *channel, const char *path, dp_rope *request,
                                        int64_t deadline_nanos, dp_cancel *cancel,
                                        dp_rpc_flags flags, dp_rope *response_out) {
  waiter waiting = {.response = response_out};
  dp_event_init(&waiting.over);
  dp_rpc_channel_call(channel, path, request, deadline_nanos, cancel, flags, wake, &waiting);
  dp_event_wait(&waiting.over);
  dp_event_deinit(&waiting.over);
  return waiting.status;
}
