/* Thread pools and what goes with them.
 *
 * The process has separate pools for compute, for blocking I/O and for network events, so that one
 * kind of work never starves another. A task must not wait for another task of its own pool;
 * dp_pool_for is the exception that is safe, because the caller works along. Idle threads sleep on
 * a futex after a very short spin: several tasks on one host do not fight for the cores.
 *
 * A pool's threads, and lent ones, take subnormal numbers for zeros, as TensorFlow's do: arithmetic
 * that passes through them on its way to zero would be a hundred times slower. */
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
/* Runs what is queued, then joins the threads. Not callable from one of its own threads. */
void dp_pool_destroy(dp_pool *pool);
int dp_pool_threads(const dp_pool *pool);
bool dp_pool_is_current(const dp_pool *pool);

/* A thread that will only wait for what it starts may lend itself: runs then go on in it as if it
 * were their pool's, which saves the way to another thread and back. Returns what held before. */
bool dp_thread_lend(bool lend);
bool dp_thread_is_lent(void);

/* Queues fn(arg); never blocks. From a thread of the same pool it goes to that thread's own queue
 * first (others steal from it). No allocation on the warm path. */
void dp_pool_run(dp_pool *pool, dp_task_fn fn, void *arg);

/* Calls fn over [0, count) in pieces of at least `grain`, on the pool and on the calling thread,
 * and returns when all is done. With one thread, one piece or a small count it is a plain call. */
void dp_pool_for(dp_pool *pool, int64_t count, int64_t grain, dp_range_fn fn, void *arg);
/* The same in pieces also with one thread: from its first to its last, or the other way round. */
void dp_pool_walk(dp_pool *pool, int64_t count, int64_t grain, bool backwards, dp_range_fn fn,
                  void *arg);

int dp_core_count(void);

#endif
