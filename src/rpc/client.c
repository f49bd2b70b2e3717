/* Channels and the threads that serve them.
 *
 * gRPC connects, resolves names and pauses between attempts by itself; a watch that is always
 * pending tells each change of a link, for the log and for status pages. The watch also ends the
 * channel: when the last user has let go and the last question has ended, the link is closed, gRPC
 * reports that as a change, and the watch destroys the object. So a client knows that it may end
 * when its list of channels is empty. */
#include "rpc/client_internal.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"

static const int64_t report_interval = INT64_C(10000000000);

/* ---- The client -------------------------------------------------------------------------------*/

dp_status *dp_rpc_client_create(int network_threads, dp_rpc_client **client_out) {
  dp_rpc_client *client = DP_NEW(dp_rpc_client);
  dp_rpc_engine_init(&client->engine, "dp-rpc-client", network_threads);
  pthread_mutex_init(&client->mutex, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&client->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  dp_status *status = dp_rpc_engine_start(&client->engine);
  if (status != NULL) {
    dp_rpc_client_destroy(client);
    return status;
  }
  *client_out = client;
  return NULL;
}

static void wait_for_channels(dp_rpc_client *client) {
  pthread_mutex_lock(&client->mutex);
  while (client->channels != NULL) {
    int64_t until = dp_clock_nanos() + report_interval;
    struct timespec time = {until / 1000000000, until % 1000000000};
    if (pthread_cond_timedwait(&client->changed, &client->mutex, &time) == ETIMEDOUT)
      for (dp_rpc_channel *at = client->channels; at != NULL; at = at->next)
        DP_LOG(RPC, WARN, "the end of the client waits for its channel to %s (%llu calls live)",
               at->target, (unsigned long long)atomic_load(&at->live_count));
  }
  pthread_mutex_unlock(&client->mutex);
}

void dp_rpc_client_destroy(dp_rpc_client *client) {
  if (client == NULL)
    return;
  wait_for_channels(client);
  dp_rpc_pulse_stop(client);
  dp_rpc_engine_deinit(&client->engine);
  pthread_cond_destroy(&client->changed);
  pthread_mutex_destroy(&client->mutex);
  dp_free(client);
}

static void link_channel(dp_rpc_channel *channel) {
  dp_rpc_client *client = channel->client;
  pthread_mutex_lock(&client->mutex);
  channel->next = client->channels;
  if (channel->next != NULL)
    channel->next->previous = channel;
  client->channels = channel;
  pthread_mutex_unlock(&client->mutex);
}

static void unlink_channel(dp_rpc_channel *channel) {
  dp_rpc_client *client = channel->client;
  pthread_mutex_lock(&client->mutex);
  if (channel->previous != NULL)
    channel->previous->next = channel->next;
  else
    client->channels = channel->next;
  if (channel->next != NULL)
    channel->next->previous = channel->previous;
  pthread_cond_broadcast(&client->changed);
  pthread_mutex_unlock(&client->mutex);
}

/* ---- A channel --------------------------------------------------------------------------------*/

/* Reconnecting: 0.1 s after the first failure, at most 2 s later on; an attempt that hears nothing
 * ends after 2 s (gRPC calls that the minimum backoff), and names may be asked for as often; a name
 * server that is silent for 5 s is taken for dead. No
 * retries by gRPC: who calls decides that. No proxy: http_proxy is not meant for cluster traffic.
 *
 * Keepalive finds connections that died while a call waited. TensorFlow's servers end connections
 * on which more than one ping comes in 5 minutes, so it is slow; what is fast is the pulse. But
 * with keepalive gRPC also tells the system how long sent bytes may stay unacknowledged
 * (TCP_USER_TIMEOUT), which ends a connection over a cut link on which a question was asked. That
 * is twice the pulse's time, so that calls end by the pulse, which knows what to say. */
enum { KEEPALIVE_MS = 310000, KEEPALIVE_TIMEOUT_MS = 20000 };

static grpc_channel *make_grpc_channel(const char *target, const dp_rpc_pulse *pulse) {
  int unanswered_ms = pulse != NULL ? (int)(pulse->gone_nanos / 500000) : KEEPALIVE_TIMEOUT_MS;
  grpc_arg args[] = {
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = -1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, {.integer = -1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_METADATA_SIZE, {.integer = 256 << 10}},
      {GRPC_ARG_INTEGER, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, {.integer = 100}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, {.integer = 2000}},
      {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, {.integer = 2000}},
      {GRPC_ARG_INTEGER, GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, {.integer = 1000}},
      {GRPC_ARG_INTEGER, GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, {.integer = 5000}},
      {GRPC_ARG_INTEGER, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, {.integer = 1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, {.integer = 1}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_RETRIES, {.integer = 0}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_HTTP_PROXY, {.integer = 0}},
      {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_CHANNELZ, {.integer = 0}},
      {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIME_MS, {.integer = KEEPALIVE_MS}},
      {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, {.integer = unanswered_ms}},
  };
  grpc_channel_args all = {sizeof(args) / sizeof(args[0]), args};
  dp_text address = {0};
  dp_text_printf(&address, "dns:///%s", target);
  grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
  grpc_channel *channel = grpc_channel_create(dp_text_string(&address), credentials, &all);
  grpc_channel_credentials_release(credentials);
  dp_text_deinit(&address);
  return channel;
}

static void watch(dp_rpc_channel *channel, grpc_connectivity_state from) {
  grpc_channel_watch_connectivity_state(channel->grpc, from, gpr_inf_future(GPR_CLOCK_MONOTONIC),
                                        channel->client->engine.queue,
                                        dp_rpc_event_hand_over(&channel->state_changed));
}

static void destroy_channel(dp_rpc_channel *channel) {
  unlink_channel(channel);
  pthread_mutex_destroy(&channel->mutex);
  dp_status_release(channel->last_error);
  dp_status_release(channel->gone);
  dp_cancel_release(channel->questions);
  dp_free(channel->target);
  dp_free(channel);
}

static void log_change(const dp_rpc_channel *channel, grpc_connectivity_state from,
                       grpc_connectivity_state to) {
  if (to == GRPC_CHANNEL_READY)
    DP_LOG(RPC, DEBUG, "connected to %s", channel->target);
  else if (from == GRPC_CHANNEL_READY)
    DP_LOG(RPC, DEBUG, "lost the connection to %s", channel->target);
  else if (to == GRPC_CHANNEL_TRANSIENT_FAILURE)
    DP_LOG(RPC, DEBUG, "cannot connect to %s", channel->target);
}

static void on_state_changed(dp_rpc_event *event, bool ok) {
  dp_rpc_channel *channel = DP_RPC_EVENT_OWNER(event, dp_rpc_channel, state_changed);
  pthread_mutex_lock(&channel->mutex);
  if (channel->closed) {
    pthread_mutex_unlock(&channel->mutex);
    destroy_channel(channel);
    return;
  }
  grpc_connectivity_state before = channel->state;
  channel->state = grpc_channel_check_connectivity_state(channel->grpc, 0);
  if (channel->state != before)
    channel->since = dp_clock_nanos();
  log_change(channel, before, channel->state);
  watch(channel, channel->state);
  pthread_mutex_unlock(&channel->mutex);
}

dp_rpc_channel *dp_rpc_channel_create(dp_rpc_client *client, const char *target,
                                      const dp_rpc_pulse *pulse) {
  dp_rpc_channel *channel = DP_NEW(dp_rpc_channel);
  channel->client = client;
  dp_refcount_init(&channel->users);
  dp_refcount_init(&channel->holders);
  channel->target = dp_strdup(target);
  channel->grpc = make_grpc_channel(target, pulse);
  if (pulse != NULL) {
    channel->pulse = *pulse;
    channel->questions = dp_cancel_create(NULL, DP_FOREVER);
    dp_rpc_pulse_start(client, pulse->gone_nanos);
  }
  channel->state_changed.fn = on_state_changed;
  pthread_mutex_init(&channel->mutex, NULL);
  channel->state = GRPC_CHANNEL_IDLE;
  channel->since = dp_clock_nanos();
  link_channel(channel);
  watch(channel, GRPC_CHANNEL_IDLE);
  return channel;
}

dp_rpc_channel *dp_rpc_channel_retain(dp_rpc_channel *channel) {
  if (channel != NULL)
    dp_refcount_retain(&channel->users);
  return channel;
}

void dp_rpc_channel_release(dp_rpc_channel *channel) {
  if (channel == NULL || !dp_refcount_release(&channel->users))
    return;
  if (channel->questions != NULL)
    dp_cancel_trigger(channel->questions, dp_status_create(DP_CANCELLED, "the link is closed"));
  dp_rpc_channel_drop(channel);
}

void dp_rpc_channel_drop(dp_rpc_channel *channel) {
  if (!dp_refcount_release(&channel->holders))
    return;
  if (channel->pulse.released != NULL)
    channel->pulse.released(channel->pulse.arg);
  pthread_mutex_lock(&channel->mutex);
  channel->closed = true;
  grpc_channel *grpc = channel->grpc;
  pthread_mutex_unlock(&channel->mutex);
  grpc_channel_destroy(grpc); /* the watch does the rest */
}

const char *dp_rpc_channel_target(const dp_rpc_channel *channel) {
  return channel->target;
}

void dp_rpc_channel_watch(dp_rpc_channel *channel) {
  atomic_fetch_add(&channel->watches, 1);
}

void dp_rpc_channel_unwatch(dp_rpc_channel *channel) {
  atomic_fetch_sub(&channel->watches, 1);
}

void dp_rpc_channel_connect(dp_rpc_channel *channel) {
  grpc_channel_reset_connect_backoff(channel->grpc);
  grpc_channel_check_connectivity_state(channel->grpc, 1);
}

/* ---- State ------------------------------------------------------------------------------------*/

void dp_rpc_channel_note_error(dp_rpc_channel *channel, const dp_status *status) {
  pthread_mutex_lock(&channel->mutex);
  dp_status *old = channel->last_error;
  channel->last_error = dp_status_retain(status);
  channel->last_error_time = dp_clock_nanos();
  pthread_mutex_unlock(&channel->mutex);
  dp_status_release(old);
}

bool dp_rpc_is_silence(const dp_status *status) {
  return strstr(dp_status_message(status), "before receiving SETTINGS frame") != NULL;
}

static dp_rpc_link link_of(grpc_connectivity_state state) {
  switch (state) {
  case GRPC_CHANNEL_READY:
    return DP_RPC_CONNECTED;
  case GRPC_CHANNEL_CONNECTING:
    return DP_RPC_CONNECTING;
  case GRPC_CHANNEL_TRANSIENT_FAILURE:
  case GRPC_CHANNEL_SHUTDOWN:
    return DP_RPC_BROKEN;
  case GRPC_CHANNEL_IDLE:
    break;
  }
  return DP_RPC_IDLE;
}

void dp_rpc_channel_get_state(dp_rpc_channel *channel, dp_rpc_channel_state *state_out) {
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&channel->mutex);
  *state_out = (dp_rpc_channel_state){
      .link = link_of(channel->state),
      .since_nanos = channel->since,
      .calls = atomic_load_explicit(&channel->call_count, memory_order_relaxed),
      .live_calls = atomic_load_explicit(&channel->live_count, memory_order_relaxed),
      .last_error = dp_status_retain(channel->last_error),
      .last_error_nanos = channel->last_error_time,
      .seen_nanos = atomic_load_explicit(&channel->seen, memory_order_relaxed),
      .silent_nanos = dp_rpc_pulse_silence(channel, now),
      .gone = dp_status_retain(channel->gone),
      .gone_nanos = channel->gone_since != 0 ? now - channel->gone_since : 0,
  };
  pthread_mutex_unlock(&channel->mutex);
}

const char *dp_rpc_link_name(dp_rpc_link link) {
  static const char *const names[] = {"idle", "connecting", "connected", "broken"};
  return names[link];
}
