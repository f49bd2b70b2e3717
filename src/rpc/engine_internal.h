/* What server and client share: the gRPC library itself and an engine, which is one completion
 * queue with the threads that serve it. Each operation that is handed to gRPC carries a pointer to
 * a dp_rpc_event as its tag; when it completes, one of the engine's threads calls the event's
 * function, with no lock held. Events are embedded in what they belong to. */
#ifndef DP_RPC_ENGINE_INTERNAL_H
#define DP_RPC_ENGINE_INTERNAL_H

#include <grpc/grpc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

typedef struct dp_rpc_event dp_rpc_event;
struct dp_rpc_event {
  void (*fn)(dp_rpc_event *event, bool ok);
  atomic_int handed_over;
};
/* To be called before gRPC gets the event. What the thread has written until here is seen by the
 * one that runs the event's function; gRPC orders that too, but no tool can look into it. */
static inline void *dp_rpc_event_hand_over(dp_rpc_event *event) {
  atomic_store_explicit(&event->handed_over, 1, memory_order_release);
  return event;
}
/* The object of `type` whose `member` is `event`. */
#define DP_RPC_EVENT_OWNER(event, type, member)                                                    \
  ((type *)(void *)((char *)(event)-offsetof(type, member)))

typedef struct dp_rpc_engine {
  grpc_completion_queue *queue;
  const char *name;   /* of the threads; static, at most 15 characters */
  int wanted_pollers; /* so many threads wait for events */
  int most_threads;   /* one more than that, unless the engine has a single thread */
  int thread_count;   /* running */
  pthread_t *threads;
  pthread_mutex_t mutex; /* protects what follows */
  pthread_cond_t changed;
  int pollers;
  bool ended; /* the queue has no more events */
} dp_rpc_engine;

/* Takes a reference to the library; no threads yet. 0 threads: 1, or 2 on machines of 8 cores. */
void dp_rpc_engine_init(dp_rpc_engine *engine, const char *name, int threads);
/* One thread and none that stands by: for functions that never take long. */
void dp_rpc_engine_init_single(dp_rpc_engine *engine, const char *name);
/* RESOURCE_EXHAUSTED when not one thread could be started. */
DP_MUST_USE dp_status *dp_rpc_engine_start(dp_rpc_engine *engine);
/* Waits for one event and calls its function; false when the queue has ended. The threads do
 * nothing else; without threads the owner may. */
bool dp_rpc_engine_step(dp_rpc_engine *engine);
/* Calls the function of an event that gRPC handed out. */
void dp_rpc_engine_dispatch(const grpc_event *completed);
/* Serves what is still under way, then ends the threads. Nothing new may be started. */
void dp_rpc_engine_deinit(dp_rpc_engine *engine);

/* Starts operations; an error would be a mistake of ours and ends the process. */
void dp_rpc_start_batch(grpc_call *call, const grpc_op *ops, size_t count, dp_rpc_event *event);

/* Monotonic nanoseconds and gRPC's times. */
gpr_timespec dp_rpc_time_of(int64_t deadline_nanos);
int64_t dp_rpc_nanos_of(gpr_timespec time);

#endif
