/* Thread pools and what goes with them.
 *
 * The process has separate pools for compute, for blocking I/O and for network events, so that one
 * kind of work never starves another. A function that runs on a pool must not wait for another one
 * of the same pool. dp_pool_for may be called there nevertheless, because the caller takes part in
 * the work. Idle threads sleep on a futex after a very short spin, so several servers on one host
 * do not fight for the cores.
 *
 * The threads of a pool, and lent threads, treat subnormal numbers as zeros, as TensorFlow's do:
 * arithmetic on values that decay towards zero would otherwise be a hundred times slower. */
#ifndef DP_BASE_THREAD_H
#define DP_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dp_pool dp_pool;
typedef void (*dp_task_fn)(void *arg);
typedef void (*dp_range_fn)(void *arg, int64_t begin, int64_t end);

/* `threads` <= 0 means one for each core this process may use. */
dp_pool *dp_pool_create(const char *name, int threads);
/* For a number that comes from a client: never more threads than cores. NULL when the system does
 * not give them; the caller then uses a pool that it has. */
dp_pool *dp_pool_create_within_cores(const char *name, int threads);
/* Runs what is queued, then joins the threads. Must not be called from a thread of the pool. */
void dp_pool_destroy(dp_pool *pool);
int dp_pool_threads(const dp_pool *pool);
bool dp_pool_is_current(const dp_pool *pool);

/* A thread that would only wait for the work it starts may lend itself: dp_thread_is_lent then
 * tells the callee that it may do the work in this thread, as if it were one of the pool's, which
 * saves the switch to another thread and back. Sets the flag of the calling thread and returns what
 * it was before. */
bool dp_thread_lend(bool lend);
bool dp_thread_is_lent(void);

/* Queues fn(arg); never blocks. A thread of the same pool queues it in its own queue, from which
 * the other threads steal; every other thread queues it in the queue that all share. Allocates only
 * when a queue grows. */
void dp_pool_run(dp_pool *pool, dp_task_fn fn, void *arg);

/* Calls fn over [0, count) in pieces of at least `grain`, on the pool and on the calling thread,
 * and returns when all is done. With one thread, one piece or a small count it is a plain call. */
void dp_pool_for(dp_pool *pool, int64_t count, int64_t grain, dp_range_fn fn, void *arg);
/* As dp_pool_for, but in pieces even when the pool has one thread. Each thread goes through its
 * share of the pieces from the first to the last, or, when `backwards`, from the last to the first.
 */
void dp_pool_walk(dp_pool *pool, int64_t count, int64_t grain, bool backwards, dp_range_fn fn,
                  void *arg);

/* The cores that this process may use (its affinity); at least 1. */
int dp_core_count(void);

#endif
