/* The life of a call on the server.
 *
 *   requested  gRPC fills an object that waited for it; another one is put in its place
 *   received   the body is here: a rope is laid over it, the handler runs in this thread
 *   answered   by the handler's owner, from any thread: one batch with body and status
 *   closed     the answer was delivered, or the client cancelled, vanished or ran out of time; in
 *              the latter cases the call's scope is triggered
 *   sent       gRPC has let go of the reply's bytes
 *
 * `closed` comes in any order with the others. The object lives until `closed` and `sent` have both
 * been seen. */
#include "rpc/server_internal.h"

#include <grpc/support/alloc.h>
#include <grpc/support/string_util.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/memory.h"
#include "rpc/network.h"
#include "rpc/slices_internal.h"

/* What a status message may take: as it is, and percent-encoded, as it travels. Clients give up on
 * headers over 8 KiB and then show nothing of the error. */
enum { LONGEST_MESSAGE = 3072, LONGEST_ENCODED = 6144 };

const char *dp_rpc_short_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

static void destroy_call(dp_rpc_call *call) {
  if (call->grpc != NULL)
    grpc_call_unref(call->grpc);
  if (call->body != NULL)
    grpc_byte_buffer_destroy(call->body);
  grpc_call_details_destroy(&call->details);
  grpc_metadata_array_destroy(&call->metadata);
  dp_rope_deinit(&call->request);
  dp_cancel_release(call->cancel);
  gpr_free(call->path);
  dp_free(call->peer);
  dp_free(call);
}

static void link_call(dp_rpc_call *call) {
  dp_rpc_server *server = call->server;
  pthread_mutex_lock(&server->mutex);
  call->next = server->calls;
  if (call->next != NULL)
    call->next->previous = call;
  server->calls = call;
  server->live_count++;
  pthread_mutex_unlock(&server->mutex);
}

static void unlink_call(dp_rpc_call *call) {
  dp_rpc_server *server = call->server;
  pthread_mutex_lock(&server->mutex);
  if (call->previous != NULL)
    call->previous->next = call->next;
  else
    server->calls = call->next;
  if (call->next != NULL)
    call->next->previous = call->previous;
  pthread_mutex_unlock(&server->mutex);
}

static void release_call(dp_rpc_call *call) {
  if (atomic_fetch_sub(&call->references, 1) != 1)
    return;
  dp_rpc_server *server = call->server;
  unlink_call(call);
  destroy_call(call);
  pthread_mutex_lock(&server->mutex);
  if (--server->live_count == 0)
    pthread_cond_broadcast(&server->changed); /* the server's end may wait for this */
  pthread_mutex_unlock(&server->mutex);
}

/* ---- Answering --------------------------------------------------------------------------------*/

static void answer(dp_rpc_call *call, grpc_byte_buffer *body, grpc_status_code code,
                   grpc_slice *details) {
  if (atomic_exchange(&call->answered, true)) {
    DP_LOG(RPC, ERROR, "%s was answered twice", call->path);
    abort();
  }
  dp_rope_deinit(&call->request);
  call->body = body;
  grpc_op ops[3] = {0};
  size_t count = 0;
  ops[count++].op = GRPC_OP_SEND_INITIAL_METADATA;
  if (body != NULL) {
    ops[count].op = GRPC_OP_SEND_MESSAGE;
    ops[count++].data.send_message.send_message = body;
  }
  ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
  ops[count].data.send_status_from_server.status = code;
  ops[count++].data.send_status_from_server.status_details = details;
  dp_rpc_start_batch(call->grpc, ops, count, &call->sent);
}

static void on_sent(dp_rpc_event *event, bool ok) {
  release_call(DP_RPC_EVENT_OWNER(event, dp_rpc_call, sent));
}

void dp_rpc_call_reply(dp_rpc_call *call, dp_rope *body) {
  size_t length = body->length;
  grpc_byte_buffer *packed = NULL;
  dp_status *status = dp_fault("rpc.reply");
  if (status == NULL)
    status = dp_rpc_pack(body, &packed);
  if (status != NULL) {
    dp_rope_deinit(body);
    dp_rpc_call_fail(call, status);
    return;
  }
  atomic_fetch_add_explicit(&call->server->response_bytes, length, memory_order_relaxed);
  answer(call, packed, GRPC_STATUS_OK, NULL);
}

/* How much of `message` goes out: all, or what is left when "..." must fit behind it. Characters of
 * several bytes are not cut apart. */
static size_t cut_message(const char *message, size_t length) {
  size_t encoded = 0, fits = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned char byte = (unsigned char)message[i];
    bool starts_character = (byte & 0xc0) != 0x80;
    if (starts_character && i <= LONGEST_MESSAGE - 3 && encoded <= LONGEST_ENCODED - 3)
      fits = i;
    encoded += byte >= 0x20 && byte < 0x7f && byte != '%' ? 1 : 3;
  }
  return length <= LONGEST_MESSAGE && encoded <= LONGEST_ENCODED ? length : fits;
}

void dp_rpc_call_fail(dp_rpc_call *call, dp_status *status) {
  atomic_fetch_add_explicit(&call->server->failure_count, 1, memory_order_relaxed);
  const char *message = dp_status_message(status);
  size_t length = strlen(message), kept = cut_message(message, length);
  DP_LOG(RPC, DEBUG, "%s fails: %s: %s", call->path, dp_code_name(dp_status_code(status)), message);
  grpc_slice details;
  if (kept == length) {
    details = grpc_slice_from_copied_buffer(message, length);
  } else {
    details = grpc_slice_malloc(kept + 3);
    memcpy(GRPC_SLICE_START_PTR(details), message, kept);
    memcpy(GRPC_SLICE_START_PTR(details) + kept, "...", 3);
  }
  answer(call, NULL, (grpc_status_code)dp_status_code(status), &details);
  grpc_slice_unref(details);
  dp_status_release(status);
}

/* ---- Arriving ---------------------------------------------------------------------------------*/

static void on_closed(dp_rpc_event *event, bool ok) {
  dp_rpc_call *call = DP_RPC_EVENT_OWNER(event, dp_rpc_call, closed);
  if (call->cancelled && !atomic_load(&call->answered)) {
    bool late = call->deadline != DP_FOREVER && dp_clock_nanos() >= call->deadline;
    DP_LOG(RPC, DEBUG, "%s %s", call->path, late ? "ran out of time" : "was cancelled");
    dp_cancel_trigger(
        call->cancel,
        late ? dp_status_create(DP_DEADLINE_EXCEEDED, "the deadline of %s passed", call->path)
             : dp_status_create(DP_CANCELLED, "the client cancelled %s or went away", call->path));
  }
  release_call(call);
}

static dp_status *take_body(dp_rpc_call *call) {
  grpc_byte_buffer *body = call->body;
  call->body = NULL;
  if (body == NULL)
    return DP_INVALID("%s came without a message", call->path);
  DP_RETURN_IF_ERROR(dp_rpc_unpack(body, &call->request));
  atomic_fetch_add_explicit(&call->server->request_bytes, call->request.length,
                            memory_order_relaxed);
  bool may_be_delayed = __atomic_load_n(&dp_fault_armed, __ATOMIC_RELAXED) != 0;
  if (call->request.length >= DP_RPC_LARGE_BYTES || may_be_delayed)
    dp_rpc_yield();
  DP_RETURN_IF_ERROR(dp_fault("rpc.receive"));
  return dp_cancel_status(call->cancel);
}

static void on_received(dp_rpc_event *event, bool ok) {
  dp_rpc_call *call = DP_RPC_EVENT_OWNER(event, dp_rpc_call, received);
  dp_rpc_server *server = call->server;
  dp_status *status = take_body(call);
  if (status != NULL) {
    dp_rpc_call_fail(call, status);
    return;
  }
  DP_LOG(RPC, DEBUG, "%s, %zu bytes", call->path, call->request.length);
  if (!server->handler(server->handler_arg, call))
    dp_rpc_call_fail(
        call, dp_status_create(DP_UNIMPLEMENTED, "this server has no method %s", call->path));
}

static void on_requested(dp_rpc_event *event, bool ok) {
  dp_rpc_call *call = DP_RPC_EVENT_OWNER(event, dp_rpc_call, requested);
  if (!ok) { /* the server is stopping */
    destroy_call(call);
    return;
  }
  dp_rpc_call_request_next(call->server, call->is_urgent);
  atomic_fetch_add_explicit(&call->server->call_count, 1, memory_order_relaxed);
  call->path = call->is_urgent ? gpr_strdup(call->server->urgent_path)
                               : grpc_slice_to_c_string(call->details.method);
  call->arrival = dp_clock_nanos();
  call->deadline =
      dp_rpc_nanos_of(call->is_urgent ? call->urgent_deadline : call->details.deadline);
  call->cancel = dp_cancel_create(NULL, DP_FOREVER); /* gRPC watches the deadline */
  atomic_init(&call->references, 2);
  link_call(call);

  grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
  close.data.recv_close_on_server.cancelled = &call->cancelled;
  grpc_op receive = {.op = GRPC_OP_RECV_MESSAGE};
  receive.data.recv_message.recv_message = &call->body;
  dp_rpc_start_batch(call->grpc, &close, 1, &call->closed);
  dp_rpc_start_batch(call->grpc, &receive, 1, &call->received);
}

static grpc_call_error request_call(dp_rpc_call *call) {
  dp_rpc_server *server = call->server;
  void *tag = dp_rpc_event_hand_over(&call->requested);
  if (call->is_urgent)
    return grpc_server_request_registered_call(server->grpc, server->urgent_method, &call->grpc,
                                               &call->urgent_deadline, &call->metadata, NULL,
                                               server->urgent.queue, server->urgent.queue, tag);
  return grpc_server_request_call(server->grpc, &call->grpc, &call->details, &call->metadata,
                                  server->engine.queue, server->engine.queue, tag);
}

void dp_rpc_call_request_next(dp_rpc_server *server, bool is_urgent) {
  if (atomic_load(&server->stopping))
    return;
  dp_rpc_call *call = DP_NEW(dp_rpc_call);
  call->server = server;
  call->is_urgent = is_urgent;
  call->requested.fn = on_requested;
  call->received.fn = on_received;
  call->closed.fn = on_closed;
  call->sent.fn = on_sent;
  grpc_call_details_init(&call->details);
  grpc_metadata_array_init(&call->metadata);
  grpc_call_error error = request_call(call);
  if (error != GRPC_CALL_OK) {
    DP_LOG(RPC, ERROR, "gRPC refused to take calls: %s", grpc_call_error_to_string(error));
    destroy_call(call);
  }
}

/* ---- Asking about a call ----------------------------------------------------------------------*/

const char *dp_rpc_call_path(const dp_rpc_call *call) {
  return call->path;
}

dp_rope *dp_rpc_call_request(dp_rpc_call *call) {
  return &call->request;
}

int64_t dp_rpc_call_deadline(const dp_rpc_call *call) {
  return call->deadline;
}

dp_cancel *dp_rpc_call_cancel(const dp_rpc_call *call) {
  return call->cancel;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

/* "ipv4:10.0.0.7:4242" and "ipv6:%5B::1%5D:4242" without the scheme and the escapes. */
static char *plain_address(const char *uri) {
  for (const char *scheme = "ipv4:\0ipv6:\0"; *scheme != '\0'; scheme += strlen(scheme) + 1)
    if (strncmp(uri, scheme, strlen(scheme)) == 0) {
      uri += strlen(scheme);
      break;
    }
  char *address = dp_strdup(uri), *to = address;
  for (const char *from = uri; *from != '\0'; from++) {
    if (from[0] == '%' && hex_digit(from[1]) >= 0 && hex_digit(from[2]) >= 0) {
      *to++ = (char)(hex_digit(from[1]) << 4 | hex_digit(from[2]));
      from += 2;
    } else {
      *to++ = *from;
    }
  }
  *to = '\0';
  return address;
}

char *dp_rpc_peer_of(grpc_call *call) {
  char *uri = grpc_call_get_peer(call);
  char *address = plain_address(uri);
  gpr_free(uri);
  return address;
}

const char *dp_rpc_call_peer(dp_rpc_call *call) {
  if (call->peer == NULL)
    call->peer = dp_rpc_peer_of(call->grpc);
  return call->peer;
}
