/* Which other sides are alive: the thread that asks the other side of each of a client's channels,
 * and ends the calls to those that are gone.
 *
 * One thread per client does all of it: it waits for answers in a queue of its own and looks at
 * every channel once per period (a quarter of the time after which silence means gone, at most
 * 2.5 s). In gRPC whoever waits in a queue also drives the connections, so questions and answers
 * get through while all other network threads are busy.
 *
 *   never seen --answer--> alive --silent for gone_nanos--> gone --answer--> alive
 *
 * Silence counts from the last sign of life, or from when somebody began to need the other side.
 * A side that was never seen and cannot be reached (refused, unknown name) is waited for: tasks
 * start in any order. One that takes a connection and says nothing becomes gone. A gone side is
 * asked until it answers.
 *
 * Invariants:
 *
 * 1. A call on a channel with a pulse ends: by its answer, its deadline, its scope, its connection,
 *    or at most gone_nanos and two periods after the other side's last sign of life.
 * 2. A side that answers within gone_nanos is not gone, whatever its load. Several questions are
 *    under way at a time, so that a slow answer counts as well.
 * 3. Our own sleep makes no side gone: when a look comes late by more than a period (this process
 *    was stopped or got no core), that time is taken off the silence of every side.
 * 4. A call fails because its side is gone at most once (client_call.c).
 * 5. No lock is held while calls are ended or the owner is told. */
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "rpc/client_internal.h"

static const int64_t longest_period = INT64_C(2500000000);

/* ---- Answers ----------------------------------------------------------------------------------*/

static bool is_from_the_link(const dp_status *status) {
  dp_code code = dp_status_code(status);
  return code == DP_UNAVAILABLE || code == DP_DEADLINE_EXCEEDED || code == DP_CANCELLED;
}

/* Also an error is a sign of life, unless it is the link's. */
static void answered(void *arg, dp_status *status, dp_rope *response) {
  dp_rpc_channel *channel = arg;
  if (status == NULL && channel->pulse.answered != NULL)
    channel->pulse.answered(channel->pulse.arg, response);
  pthread_mutex_lock(&channel->mutex);
  if (status == NULL || !is_from_the_link(status))
    atomic_store_explicit(&channel->seen, dp_clock_nanos(), memory_order_relaxed);
  else if (dp_status_code(status) == DP_UNAVAILABLE)
    channel->takes_connections = dp_rpc_is_silence(status);
  pthread_mutex_unlock(&channel->mutex);
  dp_status_release(status);
  dp_rpc_channel_drop(channel);
}

static void ask(dp_rpc_channel *channel, int64_t now) {
  dp_refcount_retain(&channel->holders); /* the answer's */
  dp_rpc_channel_ask(channel, now + channel->pulse.gone_nanos, answered, channel);
}

/* ---- Judging ----------------------------------------------------------------------------------*/

int64_t dp_rpc_pulse_silence(const dp_rpc_channel *channel, int64_t now) {
  if (channel->asked_since == 0)
    return 0;
  int64_t seen = atomic_load_explicit(&channel->seen, memory_order_relaxed);
  int64_t since = seen > channel->asked_since ? seen : channel->asked_since;
  return now > since ? now - since : 0;
}

typedef enum verdict { UNNEEDED, FINE, DIES, IS_GONE, RETURNS } verdict;

/* With the mutex held: forgives the time in which this process slept. */
static void forgive(dp_rpc_channel *channel, int64_t slept) {
  if (atomic_load(&channel->seen) != 0)
    atomic_fetch_add(&channel->seen, slept);
  if (channel->asked_since != 0)
    channel->asked_since += slept;
  if (channel->gone_since != 0)
    channel->gone_since += slept;
}

/* With the mutex held. */
static verdict judge(dp_rpc_channel *channel, int64_t now) {
  bool was_gone = channel->gone_since != 0;
  int64_t seen = atomic_load(&channel->seen);
  if (!was_gone && atomic_load(&channel->watches) == 0 && atomic_load(&channel->live_count) == 0) {
    channel->asked_since = 0;
    return UNNEEDED;
  }
  if (channel->asked_since == 0)
    channel->asked_since = now;
  if (was_gone)
    return seen > channel->gone_since ? RETURNS : IS_GONE;
  bool may_be_gone =
      seen != 0 || channel->takes_connections || channel->state == GRPC_CHANNEL_READY;
  bool is_silent = dp_rpc_pulse_silence(channel, now) >= channel->pulse.gone_nanos;
  return is_silent && may_be_gone ? DIES : FINE;
}

static void die(dp_rpc_channel *channel, int64_t now, int64_t silence) {
  dp_status *why = channel->pulse.gone(channel->pulse.arg, silence);
  pthread_mutex_lock(&channel->mutex);
  channel->gone = why;
  channel->gone_since = now;
  pthread_mutex_unlock(&channel->mutex);
}

static void come_back(dp_rpc_channel *channel, int64_t now) {
  pthread_mutex_lock(&channel->mutex);
  dp_status *why = channel->gone;
  int64_t since = channel->gone_since;
  channel->gone = NULL;
  channel->gone_since = 0;
  pthread_mutex_unlock(&channel->mutex);
  dp_status_release(why);
  if (channel->pulse.back != NULL)
    channel->pulse.back(channel->pulse.arg, now - since + channel->pulse.gone_nanos);
}

/* Calls that came while the other side was being declared gone, or since, end here as well. */
static void fail_calls(dp_rpc_channel *channel) {
  pthread_mutex_lock(&channel->mutex);
  dp_status *why = dp_status_retain(channel->gone);
  pthread_mutex_unlock(&channel->mutex);
  dp_rpc_channel_fail_calls(channel, why);
  dp_status_release(why);
}

static void look_at(dp_rpc_channel *channel, int64_t now, int64_t slept) {
  pthread_mutex_lock(&channel->mutex);
  if (slept > 0)
    forgive(channel, slept);
  verdict found = judge(channel, now);
  int64_t silence = dp_rpc_pulse_silence(channel, now);
  bool is_broken = channel->state == GRPC_CHANNEL_TRANSIENT_FAILURE;
  pthread_mutex_unlock(&channel->mutex);
  if (found == UNNEEDED)
    return;
  if (found == DIES)
    die(channel, now, silence);
  if (found == DIES || found == IS_GONE)
    fail_calls(channel);
  if (found == RETURNS)
    come_back(channel, now);
  if (is_broken)
    dp_rpc_channel_connect(channel); /* not after gRPC's pause, but now */
  ask(channel, now);
}

/* ---- The thread -------------------------------------------------------------------------------*/

static void look_at_all(dp_rpc_client *client, int64_t now, int64_t slept) {
  DP_ARRAY(dp_rpc_channel *) channels = {0};
  pthread_mutex_lock(&client->mutex);
  for (dp_rpc_channel *at = client->channels; at != NULL; at = at->next) {
    if (at->pulse.path != NULL && !dp_cancel_is_triggered(at->questions) &&
        dp_refcount_try_retain(&at->holders))
      DP_ARRAY_PUSH(&channels, at);
  }
  pthread_mutex_unlock(&client->mutex);
  for (size_t i = 0; i < channels.count; i++) {
    look_at(channels.items[i], now, slept);
    dp_rpc_channel_drop(channels.items[i]);
  }
  DP_ARRAY_FREE(&channels);
}

static int64_t period_of(dp_rpc_client *client) {
  pthread_mutex_lock(&client->mutex);
  int64_t period = client->pulse_period;
  pthread_mutex_unlock(&client->mutex);
  return period;
}

static void *beat(void *arg) {
  dp_rpc_client *client = arg;
  int64_t next = dp_clock_nanos() + period_of(client);
  for (;;) {
    grpc_event event = grpc_completion_queue_next(client->pulse_queue, dp_rpc_time_of(next), NULL);
    if (event.type == GRPC_QUEUE_SHUTDOWN)
      return NULL;
    if (event.type == GRPC_OP_COMPLETE)
      dp_rpc_engine_dispatch(&event);
    int64_t now = dp_clock_nanos();
    if (now < next)
      continue;
    int64_t period = period_of(client), late = now - next;
    look_at_all(client, now, late > period ? late : 0);
    next = now + period;
  }
}

void dp_rpc_pulse_start(dp_rpc_client *client, int64_t gone_nanos) {
  int64_t period = gone_nanos / 4 < longest_period ? gone_nanos / 4 + 1 : longest_period;
  pthread_mutex_lock(&client->mutex);
  bool is_first = client->pulse_period == 0;
  if (is_first || period < client->pulse_period)
    client->pulse_period = period;
  if (is_first)
    client->pulse_queue = grpc_completion_queue_create_for_next(NULL);
  pthread_mutex_unlock(&client->mutex);
  if (!is_first)
    return;
  int error = pthread_create(&client->pulse_thread, NULL, beat, client);
  client->has_pulse_thread = error == 0;
  if (error == 0)
    pthread_setname_np(client->pulse_thread, "dp-pulse");
  else
    DP_LOG(RPC, ERROR, "no thread watches over other tasks: %s", strerror(error));
}

void dp_rpc_pulse_stop(dp_rpc_client *client) {
  if (client->pulse_queue == NULL)
    return;
  grpc_completion_queue_shutdown(client->pulse_queue);
  if (client->has_pulse_thread)
    pthread_join(client->pulse_thread, NULL);
  else
    beat(client);
  grpc_completion_queue_destroy(client->pulse_queue);
}
