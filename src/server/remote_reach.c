/* Is a task there, and if not, why? Fail-fast calls, repeated after short pauses, tell the reason
 * each time (DNS, refused, somebody else at the address), which one long wait would keep to itself.
 * Each attempt skips the pause that gRPC makes after a failed connection, so that a task that
 * starts late is found at once. Attempts are made on network threads and on the timer's. */
#include "base/memory.h"
#include "base/timer.h"
#include "server/remote_internal.h"
#include "server/services_internal.h"
#include "wire/control.h"
#include "wire/methods.h"

static const int64_t pause_nanos = INT64_C(200000000);

typedef struct reaching {
  remote_worker *worker;
  int64_t deadline;
  dp_cancel *cancel;
  dp_rpc_done_fn done;
  void *arg;
} reaching;

/* ---- Reasons ---- */

/* What gRPC says last says it best: "...: connect failed: Connection refused". */
static void print_reason(const dp_status *error, dp_text *text) {
  if (dp_status_code(error) == DP_DEADLINE_EXCEEDED) {
    dp_text_add(text, "does not answer");
    return;
  }
  const char *message = dp_status_message(error);
  const char *last = message;
  for (const char *at = message; (at = strstr(at, ": ")); last = at)
    at += 2;
  if (strstr(message, "DNS"))
    dp_text_add(text, "DNS: ");
  dp_text_add(text, last);
}

bool dp_remote_is_down(remote_worker *worker) {
  dp_rpc_channel_state state;
  dp_rpc_channel_get_state(worker->channel, &state);
  dp_status_release(state.last_error);
  return state.link == DP_RPC_BROKEN;
}

void dp_remote_worker_get_state(dp_worker_peer *peer, dp_remote_state *state_out) {
  remote_worker *worker = (remote_worker *)peer;
  dp_rpc_channel_state link;
  dp_rpc_channel_get_state(worker->channel, &link);
  dp_text reason = {0};
  pthread_mutex_lock(&worker->lock);
  uint64_t incarnation = worker->incarnation;
  if (link.link == DP_RPC_CONNECTED && worker->other_task)
    dp_text_printf(&reason, "%s answers there", worker->other_task);
  pthread_mutex_unlock(&worker->lock);
  if (link.link != DP_RPC_CONNECTED && link.last_error)
    print_reason(link.last_error, &reason);
  dp_status_release(link.last_error);
  *state_out = (dp_remote_state){.address = dp_rpc_channel_target(worker->channel),
                                 .link = link.link,
                                 .since_nanos = link.since_nanos,
                                 .live_calls = link.live_calls,
                                 .incarnation = incarnation,
                                 .reason = dp_text_take(&reason)};
}

void dp_remote_worker_describe(dp_worker_peer *peer, dp_text *text) {
  dp_remote_state state;
  dp_remote_worker_get_state(peer, &state);
  dp_text_printf(text, "%s: ", state.address);
  if (*state.reason)
    dp_text_add(text, state.reason);
  else if (state.link == DP_RPC_CONNECTED)
    dp_text_add(text, "connected, does not answer");
  else
    dp_text_add(text, dp_rpc_link_name(state.link));
  dp_free(state.reason);
}

/* ---- What it says about itself ---- */

/* Keeps who answers; true when it is the task that was meant. */
static bool note_answer(remote_worker *worker, const Tensorflow__GetStatusResponse *status) {
  const Tensorflow__DeviceAttributes *first =
      status->n_device_attributes > 0 ? status->device_attributes[0] : NULL;
  size_t length = strlen(worker->task);
  bool is_meant = worker->answers_to_any_name || !first ||
                  (strncmp(first->name, worker->task, length) == 0 && first->name[length] == '/');
  const char *end = is_meant ? NULL : strstr(first->name, "/device:");
  pthread_mutex_lock(&worker->lock);
  if (first && is_meant)
    worker->incarnation = first->incarnation;
  dp_free(worker->other_task);
  worker->other_task = NULL;
  if (!is_meant)
    worker->other_task =
        dp_strndup(first->name, end ? (size_t)(end - first->name) : strlen(first->name));
  pthread_mutex_unlock(&worker->lock);
  return is_meant;
}

static bool is_meant_task(remote_worker *worker, const dp_rope *response) {
  dp_arena *arena = dp_arena_create();
  void *message = NULL;
  dp_status *status =
      dp_wire_unpack(dp_worker_response_type(DP_WORKER_GET_STATUS), response, arena, &message);
  /* Who asked reads the answer again and sees what is wrong with it. */
  bool is_meant = status ? true : note_answer(worker, message);
  dp_status_release(status);
  dp_arena_destroy(arena);
  return is_meant;
}

/* ---- Attempts ---- */

/* Consumes `status`. */
static void finish(reaching *reach, dp_status *status, dp_rope *response) {
  dp_rpc_done_fn done = reach->done;
  void *arg = reach->arg;
  dp_cancel_release(reach->cancel);
  dp_remote_worker_release(reach->worker);
  dp_free(reach);
  done(arg, status, response);
}

static dp_status *say_late(reaching *reach) {
  dp_text why = {0};
  dp_remote_worker_describe(&reach->worker->peer, &why);
  dp_status *status = dp_status_create(DP_DEADLINE_EXCEEDED, "no answer from %s (%s)",
                                       reach->worker->task, dp_text_string(&why));
  dp_text_deinit(&why);
  return status;
}

static void attempt(reaching *reach);

/* A call without time would fail for that alone, and hide the reason of the one before. */
static void attempt_again(void *arg) {
  reaching *reach = arg;
  dp_rope nothing = {0};
  if (dp_clock_nanos() < reach->deadline)
    attempt(reach);
  else
    finish(reach, say_late(reach), &nothing);
}

static void attempt_done(void *arg, dp_status *status, dp_rope *response) {
  reaching *reach = arg;
  dp_code code = dp_status_code(status);
  bool is_cancelled = dp_cancel_is_triggered(reach->cancel);
  int64_t now = dp_clock_nanos();
  if (!status && is_meant_task(reach->worker, response)) {
    finish(reach, NULL, response);
  } else if (is_cancelled ||
             (code != DP_OK && code != DP_UNAVAILABLE && code != DP_DEADLINE_EXCEEDED)) {
    finish(reach, is_cancelled && !status ? dp_cancel_status(reach->cancel) : status, response);
  } else if (now >= reach->deadline) {
    dp_status_release(status);
    finish(reach, say_late(reach), response);
  } else {
    dp_status_release(status);
    int64_t next = now + pause_nanos;
    dp_timer_start(next < reach->deadline ? next : reach->deadline, attempt_again, reach);
  }
}

static void attempt(reaching *reach) {
  if (dp_remote_is_down(reach->worker))
    dp_rpc_channel_connect(reach->worker->channel);
  dp_rope request = {0}; /* GetStatusRequest without fields is empty */
  dp_rpc_channel_call(reach->worker->channel, dp_worker_method_path(DP_WORKER_GET_STATUS), &request,
                      reach->deadline, reach->cancel, DP_RPC_FAIL_FAST, attempt_done, reach);
}

void dp_remote_reach(remote_worker *worker, int64_t deadline, dp_cancel *cancel,
                     dp_rpc_done_fn done, void *arg) {
  reaching *reach = DP_NEW(reaching);
  *reach = (reaching){.worker = dp_remote_worker_retain(worker),
                      .deadline = deadline,
                      .cancel = dp_cancel_retain(cancel),
                      .done = done,
                      .arg = arg};
  attempt(reach);
}
