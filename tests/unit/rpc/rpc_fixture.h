/* What the tests of rpc share: a server with a few methods on a free loopback port, a client with a
 * channel to it, and ropes with contents that can be checked.
 *
 *   /test/Echo    answers with the request itself
 *   /test/Later   the same from another thread, after 20 ms
 *   /test/Slow    yields, then works for 300 ms on the network thread before it echoes
 *   /test/Hold    is not answered before its scope is triggered, then fails with the scope's status
 *   /test/Alive   echoes; while `silent` is set, it is kept like Keep
 *   /test/Block   holds its network thread until `blocked` is 0 again
 *   /test/Keep    is not answered until release_kept()
 *   /test/Fail    fails with INVALID_ARGUMENT and the request's bytes as message */
#ifndef DP_TESTS_RPC_FIXTURE_H
#define DP_TESTS_RPC_FIXTURE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "rpc/client.h"
#include "rpc/network.h"
#include "rpc/server.h"

#define MILLISECOND INT64_C(1000000)
#define SECOND INT64_C(1000000000)

typedef struct fixture {
  dp_rpc_server *server;
  dp_rpc_client *client;
  dp_rpc_channel *channel;
  dp_pool *pool;
  pthread_mutex_t mutex;
  dp_rpc_call *kept[64];
  int kept_count;
  atomic_int held;      /* calls of Hold and Slow that have arrived */
  atomic_int cancelled; /* of them, those whose scope was triggered */
  atomic_int cancel_code;
  atomic_int silent, blocked;
  atomic_int finished; /* client calls that are over */
  atomic_int codes[17];
} fixture;

static inline void assert_ok(dp_status *status) {
  if (status != NULL)
    fail_msg("%s: %s", dp_code_name(dp_status_code(status)), dp_status_message(status));
}

static inline void assert_code(dp_status *status, dp_code code) {
  if (dp_status_code(status) != code)
    fail_msg("expected %s, got %s: %s", dp_code_name(code), dp_code_name(dp_status_code(status)),
             dp_status_message(status));
  dp_status_release(status);
}

static inline int64_t seconds_from_now(double seconds) {
  return dp_clock_nanos() + (int64_t)(seconds * 1e9);
}

/* ---- Ropes ------------------------------------------------------------------------------------*/

static inline dp_rope text_rope(const char *text) {
  dp_rope rope = {0};
  assert_ok(dp_rope_append(&rope, text, strlen(text)));
  return rope;
}

/* `length` bytes that depend on their place and on `seed`; large ones by reference, in pieces. */
static inline dp_rope patterned_rope(size_t length, uint32_t seed) {
  dp_rope rope = {0};
  for (size_t at = 0, piece = 100; at < length; piece = piece * 7 + 13) {
    size_t size = piece < length - at ? piece : length - at;
    dp_buffer *buffer;
    assert_ok(dp_buffer_create(size, &buffer));
    for (size_t i = 0; i < size; i++)
      ((uint8_t *)buffer->data)[i] = (uint8_t)((at + i) * 31 + ((at + i) >> 8) + seed);
    dp_rope_append_piece(&rope, buffer, buffer->data, size);
    at += size;
  }
  return rope;
}

static inline bool has_pattern(const dp_rope *rope, size_t length, uint32_t seed) {
  if (rope->length != length)
    return false;
  size_t at = 0;
  for (size_t p = 0; p < rope->pieces.count; p++)
    for (size_t i = 0; i < rope->pieces.items[p].length; i++, at++)
      if (rope->pieces.items[p].data[i] != (uint8_t)(at * 31 + (at >> 8) + seed))
        return false;
  return at == length;
}

static inline char *rope_text(const dp_rope *rope) {
  char *text = dp_malloc(rope->length + 1);
  dp_rope_flatten(rope, text);
  text[rope->length] = '\0';
  return text;
}

/* ---- The server's methods ---------------------------------------------------------------------*/

static inline void echo(void *arg) {
  dp_rope body = {0};
  dp_rope_append_rope(&body, dp_rpc_call_request(arg));
  dp_rpc_call_reply(arg, &body);
}

static inline void echo_later(void *arg) {
  dp_clock_sleep(20 * MILLISECOND);
  echo(arg);
}

typedef struct held_call {
  fixture *test;
  dp_rpc_call *call;
} held_call;

static inline void on_held_cancel(void *arg, const dp_status *why) {
  held_call *held = arg;
  atomic_store(&held->test->cancel_code, (int)dp_status_code(why));
  atomic_fetch_add(&held->test->cancelled, 1);
  dp_rpc_call_fail(held->call, dp_status_retain(why));
  dp_free(held);
}

static inline void hold(fixture *test, dp_rpc_call *call) {
  held_call *held = DP_NEW(held_call);
  *held = (held_call){test, call};
  atomic_fetch_add(&test->held, 1);
  dp_cancel_token token;
  if (!dp_cancel_register(dp_rpc_call_cancel(call), on_held_cancel, held, &token)) {
    dp_rpc_call_fail(call, dp_cancel_status(dp_rpc_call_cancel(call)));
    dp_free(held);
  }
}

static inline bool handle(void *arg, dp_rpc_call *call) {
  fixture *test = arg;
  const char *path = dp_rpc_call_path(call);
  if (strcmp(path, "/test/Echo") == 0) {
    echo(call);
  } else if (strcmp(path, "/test/Later") == 0) {
    dp_pool_run(test->pool, echo_later, call);
  } else if (strcmp(path, "/test/Slow") == 0) {
    atomic_fetch_add(&test->held, 1);
    dp_rpc_yield();
    dp_clock_sleep(300 * MILLISECOND);
    echo(call);
  } else if (strcmp(path, "/test/Hold") == 0) {
    hold(test, call);
  } else if (strcmp(path, "/test/Alive") == 0 && !atomic_load(&test->silent)) {
    echo(call);
  } else if (strcmp(path, "/test/Block") == 0) {
    atomic_fetch_add(&test->held, 1);
    dp_rpc_yield();
    while (atomic_load(&test->blocked))
      dp_clock_sleep(MILLISECOND);
    echo(call);
  } else if (strcmp(path, "/test/Keep") == 0 || strcmp(path, "/test/Alive") == 0) {
    pthread_mutex_lock(&test->mutex);
    test->kept[test->kept_count++] = call;
    pthread_mutex_unlock(&test->mutex);
  } else if (strcmp(path, "/test/Fail") == 0) {
    char *message = rope_text(dp_rpc_call_request(call));
    dp_rpc_call_fail(call, DP_INVALID("%s", message));
    dp_free(message);
  } else {
    return false;
  }
  return true;
}

/* Answers all calls of Keep and returns how many there were. */
static inline int release_kept(fixture *test) {
  pthread_mutex_lock(&test->mutex);
  int count = test->kept_count;
  for (int i = 0; i < count; i++)
    echo(test->kept[i]);
  test->kept_count = 0;
  pthread_mutex_unlock(&test->mutex);
  return count;
}

static inline int kept_count(fixture *test) {
  pthread_mutex_lock(&test->mutex);
  int count = test->kept_count;
  pthread_mutex_unlock(&test->mutex);
  return count;
}

/* ---- Set-up -----------------------------------------------------------------------------------*/

/* A started server on `port`, or on a free one for 0. */
static inline dp_rpc_server *start_server(fixture *test, int port) {
  char address[32];
  snprintf(address, sizeof(address), "127.0.0.1:%d", port);
  const char *addresses[] = {address};
  dp_rpc_server_options options = {
      .addresses = addresses, .address_count = 1, .urgent_path = "/test/Alive"};
  dp_rpc_server *server;
  assert_ok(dp_rpc_server_create(&options, handle, test, &server));
  assert_ok(dp_rpc_server_start(server));
  return server;
}

static inline dp_rpc_channel *channel_to(dp_rpc_client *client, int port) {
  char target[32];
  snprintf(target, sizeof(target), "127.0.0.1:%d", port);
  return dp_rpc_channel_create(client, target, NULL);
}

static inline int set_up(void **state) {
  fixture *test = DP_NEW(fixture);
  pthread_mutex_init(&test->mutex, NULL);
  test->pool = dp_pool_create("test", 4);
  test->server = start_server(test, 0);
  assert_ok(dp_rpc_client_create(0, &test->client));
  test->channel = channel_to(test->client, dp_rpc_server_port(test->server));
  *state = test;
  return 0;
}

static inline int tear_down(void **state) {
  fixture *test = *state;
  dp_rpc_channel_release(test->channel);
  dp_rpc_client_destroy(test->client);
  dp_rpc_server_destroy(test->server);
  dp_pool_destroy(test->pool);
  pthread_mutex_destroy(&test->mutex);
  dp_free(test);
  return 0;
}

/* ---- Calls ------------------------------------------------------------------------------------*/

static inline dp_status *call_with(fixture *test, const char *path, dp_rope request, double seconds,
                                   dp_rope *response_out) {
  return dp_rpc_channel_call_and_wait(test->channel, path, &request, seconds_from_now(seconds),
                                      NULL, DP_RPC_FAIL_FAST, response_out);
}

/* Counts the end of a call in the fixture. */
static inline void count_done(void *arg, dp_status *status, dp_rope *response) {
  fixture *test = arg;
  atomic_fetch_add(&test->codes[dp_status_code(status)], 1);
  atomic_fetch_add(&test->finished, 1);
  dp_status_release(status);
}

/* Waits for a number to come up; false after 20 seconds. */
static inline bool wait_for(atomic_int *number, int wanted) {
  int64_t end = dp_clock_nanos() + 20 * SECOND;
  while (atomic_load(number) < wanted)
    if (dp_clock_nanos() > end)
      return false;
    else
      dp_clock_sleep(MILLISECOND);
  return true;
}

#endif
