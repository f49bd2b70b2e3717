/* What a remote worker hears of the task behind it: who answers, and when it is gone, back or
 * started anew. It keeps that for status pages and error texts, and tells the liveness.
 *
 * Answers come on any thread. What the channel's pulse calls comes on the pulse's own thread and
 * only hands on. The worker's lock guards who answered last. */
#include "base/memory.h"
#include "server/liveness_internal.h"
#include "server/remote_internal.h"
#include "server/services_internal.h"
#include "wire/control.h"
#include "wire/methods.h"

/* ---- Answers ---- */

/* Keeps who answers; true when it is the task that was meant. *restarted_out is its incarnation
 * when that is another one than before, else 0. */
static bool note_status(remote_worker *worker, const Tensorflow__GetStatusResponse *status,
                        uint64_t *restarted_out) {
  const Tensorflow__DeviceAttributes *first =
      status->n_device_attributes > 0 ? status->device_attributes[0] : NULL;
  size_t length = strlen(worker->task);
  bool is_meant = worker->answers_to_any_name || !first ||
                  (strncmp(first->name, worker->task, length) == 0 && first->name[length] == '/');
  const char *end = is_meant ? NULL : strstr(first->name, "/device:");
  pthread_mutex_lock(&worker->lock);
  if (first && is_meant) {
    if (worker->incarnation != 0 && worker->incarnation != first->incarnation)
      *restarted_out = first->incarnation;
    worker->incarnation = first->incarnation;
  }
  dp_free(worker->other_task);
  worker->other_task = NULL;
  if (!is_meant)
    worker->other_task =
        dp_strndup(first->name, end ? (size_t)(end - first->name) : strlen(first->name));
  pthread_mutex_unlock(&worker->lock);
  return is_meant;
}

static dp_status *say_restarted(const remote_worker *worker) {
  return dp_status_create(DP_UNAVAILABLE, "%s (%s) has restarted and lost what it had",
                          worker->task, dp_rpc_channel_target(worker->channel));
}

bool dp_remote_note_answer(remote_worker *worker, const dp_rope *response) {
  dp_arena *arena = dp_arena_create();
  void *message = NULL;
  uint64_t restarted = 0;
  dp_status *status =
      dp_wire_unpack(dp_worker_response_type(DP_WORKER_GET_STATUS), response, arena, &message);
  bool is_meant = status ? true : note_status(worker, message, &restarted);
  dp_status_release(status);
  dp_arena_destroy(arena);
  if (restarted)
    dp_liveness_tell(worker->liveness, DP_PEER_RESTARTED, worker, restarted, say_restarted(worker));
  return is_meant;
}

/* ---- The pulse ---- */

static void answered(void *arg, const dp_rope *response) {
  dp_remote_note_answer(arg, response);
}

dp_status *dp_remote_say_gone(remote_worker *worker, int64_t silent_nanos) {
  dp_remote_state state;
  dp_remote_worker_get_state(&worker->peer, &state);
  dp_text text = {0};
  dp_text_printf(&text, "%s (%s) is gone: silent for %.1f s", worker->task, state.address,
                 (double)silent_nanos / 1e9);
  if (state.link == DP_RPC_CONNECTED)
    dp_text_add(&text, " (connected, does not answer)");
  else if (*state.reason)
    dp_text_printf(&text, " (%s)", state.reason);
  dp_liveness_name_others(worker->liveness, worker, &text);
  dp_status *status = dp_status_create(DP_UNAVAILABLE, "%s", dp_text_string(&text));
  dp_text_deinit(&text);
  dp_free(state.reason);
  return status;
}

static dp_status *gone(void *arg, int64_t silent_nanos) {
  remote_worker *worker = arg;
  dp_status *status = dp_remote_say_gone(worker, silent_nanos);
  dp_liveness_tell(worker->liveness, DP_PEER_GONE, worker, 0, dp_status_retain(status));
  return status;
}

static void back(void *arg, int64_t silent_nanos) {
  remote_worker *worker = arg;
  dp_liveness_tell(worker->liveness, DP_PEER_BACK, worker, 0,
                   dp_status_create(DP_UNAVAILABLE, "%s (%s) is back after %.1f s", worker->task,
                                    dp_rpc_channel_target(worker->channel),
                                    (double)silent_nanos / 1e9));
}

/* The last that is heard of the worker. */
static void released(void *arg) {
  remote_worker *worker = arg;
  dp_liveness_remove(worker->liveness, worker);
  dp_cancel_release(worker->life);
  pthread_mutex_destroy(&worker->lock);
  dp_free(worker->other_task);
  dp_free(worker->task);
  dp_free(worker);
}

dp_rpc_pulse dp_remote_pulse(remote_worker *worker) {
  return (dp_rpc_pulse){.path = dp_worker_method_path(DP_WORKER_GET_STATUS),
                        .gone_nanos = dp_liveness_gone_nanos(worker->liveness),
                        .answered = answered,
                        .gone = gone,
                        .back = back,
                        .released = released,
                        .arg = worker};
}
