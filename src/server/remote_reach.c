/* Waiting for a task, and why it is not there. Fail-fast calls, repeated after short pauses, tell
 * the reason each time (DNS, refused, somebody else at the address), which one long wait would keep
 * to itself. Each attempt skips the pause that gRPC makes after a failed connection, so that a task
 * that starts late is found at once. Attempts are made on network threads and on the timer's. */
#include "base/memory.h"
#include "base/timer.h"
#include "server/remote_internal.h"
#include "server/services_internal.h"
#include "wire/control.h"
#include "wire/methods.h"

static const int64_t pause_nanos = INT64_C(200000000);
static const int64_t longest_nanos = INT64_C(1800000000000); /* for who has no deadline */

typedef struct reaching {
  remote_worker *worker;
  int64_t begin;
  int64_t deadline;
  dp_cancel *cancel;
  dp_rpc_done_fn done;
  void *arg;
} reaching;

/* ---- Reasons ---- */

/* What gRPC says last says it best: "...: connect failed: Connection refused". */
static void print_reason(const dp_status *error, dp_text *text) {
  /* A stopped process: its system takes the connection, and nobody speaks on it. */
  if (dp_rpc_is_silence(error) || dp_status_code(error) == DP_DEADLINE_EXCEEDED) {
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
  bool is_down = state.link == DP_RPC_BROKEN || state.gone;
  dp_status_release(state.last_error);
  dp_status_release(state.gone);
  return is_down;
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
  if (link.gone && reason.length == 0)
    dp_text_add(&reason, "does not answer");
  bool is_gone = link.gone != NULL;
  dp_status_release(link.last_error);
  dp_status_release(link.gone);
  *state_out = (dp_remote_state){.address = dp_rpc_channel_target(worker->channel),
                                 .link = link.link,
                                 .since_nanos = link.since_nanos,
                                 .live_calls = link.live_calls,
                                 .incarnation = incarnation,
                                 .seen_nanos = link.seen_nanos,
                                 .silent_nanos = link.silent_nanos,
                                 .is_gone = is_gone,
                                 .gone_nanos = link.gone_nanos,
                                 .reason = dp_text_take(&reason)};
}

void dp_remote_worker_describe(dp_worker_peer *peer, dp_text *text) {
  dp_remote_state state;
  dp_remote_worker_get_state(peer, &state);
  dp_text_printf(text, "%s: ", state.address);
  if (state.is_gone)
    dp_text_printf(text, "gone for %.1f s, ", (double)state.gone_nanos / 1e9);
  if (*state.reason)
    dp_text_add(text, state.reason);
  else if (state.link == DP_RPC_CONNECTED)
    dp_text_add(text, "connected, does not answer");
  else
    dp_text_add(text, dp_rpc_link_name(state.link));
  dp_free(state.reason);
}

/* ---- Attempts ---- */

/* Consumes `status`. */
static void finish(reaching *reach, dp_status *status, dp_rope *response) {
  dp_rpc_done_fn done = reach->done;
  void *arg = reach->arg;
  dp_rpc_channel_unwatch(reach->worker->channel);
  dp_cancel_release(reach->cancel);
  dp_remote_worker_release(reach->worker);
  dp_free(reach);
  done(arg, status, response);
}

/* Who waits for a task that is gone waits for as long again, because it may be starting anew. */
static bool waited_in_vain(const reaching *reach, int64_t now) {
  dp_remote_state state;
  dp_remote_worker_get_state(&reach->worker->peer, &state);
  dp_free(state.reason);
  return state.is_gone && now - reach->begin >= dp_liveness_gone_nanos(reach->worker->liveness);
}

static dp_status *say_late(reaching *reach) {
  dp_remote_state state;
  dp_remote_worker_get_state(&reach->worker->peer, &state);
  dp_free(state.reason);
  if (state.is_gone)
    return dp_remote_say_gone(reach->worker, state.silent_nanos);
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
  int64_t now = dp_clock_nanos();
  if (now < reach->deadline && !waited_in_vain(reach, now))
    attempt(reach);
  else
    finish(reach, say_late(reach), &nothing);
}

static void attempt_done(void *arg, dp_status *status, dp_rope *response) {
  reaching *reach = arg;
  dp_code code = dp_status_code(status);
  bool is_cancelled = dp_cancel_is_triggered(reach->cancel);
  int64_t now = dp_clock_nanos();
  if (!status && dp_remote_note_answer(reach->worker, response)) {
    finish(reach, NULL, response);
  } else if (is_cancelled ||
             (code != DP_OK && code != DP_UNAVAILABLE && code != DP_DEADLINE_EXCEEDED)) {
    finish(reach, is_cancelled && !status ? dp_cancel_status(reach->cancel) : status, response);
  } else if (now >= reach->deadline || waited_in_vain(reach, now)) {
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
  int64_t now = dp_clock_nanos();
  dp_rpc_channel_watch(worker->channel);
  *reach = (reaching){.worker = dp_remote_worker_retain(worker),
                      .begin = now,
                      .deadline = deadline < now + longest_nanos ? deadline : now + longest_nanos,
                      .cancel = dp_cancel_retain(cancel),
                      .done = done,
                      .arg = arg};
  attempt(reach);
}
