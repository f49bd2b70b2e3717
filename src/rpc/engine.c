/* The engine: a completion queue and its threads. All threads of one engine serve one queue, so a
 * handler that takes long delays nobody as long as another thread is free. gRPC's own talk goes to
 * our log at debug level: whatever matters also arrives as a status, and is reported once by
 * whoever receives that. */
#include "rpc/engine_internal.h"

#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "rpc/network.h"

static void write_log(gpr_log_func_args *line) {
  DP_LOG(RPC, DEBUG, "grpc %s:%d: %s", line->file, line->line, line->message);
}

static void set_up_log(void) {
  if (getenv("GRPC_VERBOSITY") == NULL && getenv("GRPC_TRACE") == NULL)
    gpr_set_log_function(write_log);
}

/* The engine for which the calling thread waits in the queue; NULL after it has yielded, and on all
 * other threads. */
static _Thread_local dp_rpc_engine *polled;

void dp_rpc_engine_init(dp_rpc_engine *engine, const char *name, int threads) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, set_up_log);
  grpc_init();
  engine->queue = grpc_completion_queue_create_for_next(NULL);
  engine->name = name;
  engine->wanted_pollers = threads > 0 ? threads : dp_core_count() >= 8 ? 2 : 1;
  engine->most_threads = engine->wanted_pollers + 1;
  engine->thread_count = 0;
  engine->threads = DP_NEW_ARRAY(pthread_t, (size_t)engine->most_threads);
  pthread_mutex_init(&engine->mutex, NULL);
  pthread_cond_init(&engine->changed, NULL);
  engine->pollers = 0;
  engine->ended = false;
}

void dp_rpc_engine_init_single(dp_rpc_engine *engine, const char *name) {
  dp_rpc_engine_init(engine, name, 1);
  engine->most_threads = 1;
}

void dp_rpc_engine_dispatch(const grpc_event *completed) {
  dp_rpc_event *event = completed->tag;
  (void)atomic_load_explicit(&event->handed_over, memory_order_acquire);
  event->fn(event, completed->success != 0);
}

bool dp_rpc_engine_step(dp_rpc_engine *engine) {
  grpc_event completed =
      grpc_completion_queue_next(engine->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  if (completed.type == GRPC_QUEUE_SHUTDOWN)
    return false;
  if (completed.type == GRPC_OP_COMPLETE)
    dp_rpc_engine_dispatch(&completed);
  return true;
}

void dp_rpc_yield(void) {
  dp_rpc_engine *engine = polled;
  if (engine == NULL)
    return;
  polled = NULL;
  pthread_mutex_lock(&engine->mutex);
  engine->pollers--;
  pthread_cond_signal(&engine->changed);
  pthread_mutex_unlock(&engine->mutex);
}

/* Becomes one of those who wait for events; false at the end. */
static bool take_over(dp_rpc_engine *engine) {
  pthread_mutex_lock(&engine->mutex);
  while (engine->pollers >= engine->wanted_pollers && !engine->ended)
    pthread_cond_wait(&engine->changed, &engine->mutex);
  bool live = !engine->ended;
  if (live)
    engine->pollers++;
  pthread_mutex_unlock(&engine->mutex);
  return live;
}

static void *serve(void *arg) {
  dp_rpc_engine *engine = arg;
  while (take_over(engine)) {
    bool live = true;
    polled = engine;
    while (live && polled != NULL)
      live = dp_rpc_engine_step(engine);
    polled = NULL;
    if (live)
      continue;
    pthread_mutex_lock(&engine->mutex);
    engine->ended = true;
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->mutex);
  }
  return NULL;
}

dp_status *dp_rpc_engine_start(dp_rpc_engine *engine) {
  while (engine->thread_count < engine->most_threads) {
    pthread_t *thread = &engine->threads[engine->thread_count];
    int error = pthread_create(thread, NULL, serve, engine);
    if (error != 0 && engine->thread_count == 0)
      return dp_status_create(DP_RESOURCE_EXHAUSTED, "cannot start a network thread: %s",
                              strerror(error));
    if (error != 0) {
      DP_LOG(RPC, WARN, "only %d of %d network threads could be started: %s", engine->thread_count,
             engine->most_threads, strerror(error));
      return NULL;
    }
    pthread_setname_np(*thread, engine->name);
    engine->thread_count++;
  }
  return NULL;
}

void dp_rpc_engine_deinit(dp_rpc_engine *engine) {
  grpc_completion_queue_shutdown(engine->queue);
  if (engine->thread_count == 0)
    serve(engine);
  for (int i = 0; i < engine->thread_count; i++)
    pthread_join(engine->threads[i], NULL);
  grpc_completion_queue_destroy(engine->queue);
  dp_free(engine->threads);
  pthread_cond_destroy(&engine->changed);
  pthread_mutex_destroy(&engine->mutex);
  grpc_shutdown();
}

void dp_rpc_start_batch(grpc_call *call, const grpc_op *ops, size_t count, dp_rpc_event *event) {
  grpc_call_error error =
      grpc_call_start_batch(call, ops, count, dp_rpc_event_hand_over(event), NULL);
  if (__builtin_expect(error != GRPC_CALL_OK, 0)) {
    DP_LOG(RPC, ERROR, "gRPC refused operations: %s", grpc_call_error_to_string(error));
    abort();
  }
}

gpr_timespec dp_rpc_time_of(int64_t deadline_nanos) {
  if (deadline_nanos == DP_FOREVER)
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  int64_t left = deadline_nanos - dp_clock_nanos();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(left > 0 ? left : 0, GPR_TIMESPAN));
}

int64_t dp_rpc_nanos_of(gpr_timespec time) {
  gpr_timespec now = gpr_now(time.clock_type);
  if (gpr_time_cmp(time, gpr_inf_future(time.clock_type)) == 0)
    return DP_FOREVER;
  gpr_timespec left = gpr_time_sub(time, now);
  int64_t seconds = left.tv_sec, nanos;
  if (__builtin_mul_overflow(seconds, INT64_C(1000000000), &nanos) ||
      __builtin_add_overflow(nanos, left.tv_nsec, &nanos) ||
      __builtin_add_overflow(nanos, dp_clock_nanos(), &nanos))
    return DP_FOREVER;
  return nanos;
}
