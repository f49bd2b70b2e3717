/* Thread pools.
 *
 * Work comes in two shapes. Tasks are {fn, arg} in rings: one ring per thread, from which its owner
 * takes the newest and thieves the oldest, and one shared ring for tasks from outside the pool.
 * Loops (dp_pool_for) live on the caller's stack; a loop is in the pool's list until its pieces are
 * all taken, so nothing stale is ever listed. A loop has a number of seats for helpers.
 *
 * Nobody misses work, by one rule: a thread that adds work looks at `searching` and `sleeping`
 * after adding it; a thread that goes to sleep announces it and then looks for work once more. All
 * of these accesses are sequentially consistent, so at least one of the two threads sees the other.
 * A thread that searches is expected to find new work, so at most one thread is woken at a time;
 * when it finds work it wakes the next one. A loop wakes all its helpers at once.
 *
 * A loop is cut into shares, one per thread that may take part, and a share into pieces. Each
 * thread begins with a share of its own, the caller always with the first, and then takes pieces
 * that are left in other shares. So a loop over the same data as the loop before finds it in the
 * same caches. */
#include "base/thread.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/subnormal_internal.h"

enum {
  CACHE_LINE = 64,
  FIRST_RING = 64,     /* tasks a ring holds before it grows; a power of two */
  SEARCH_ROUNDS = 30,  /* looks at all queues before sleeping: a microsecond or two */
  FINISH_ROUNDS = 200, /* looks at the count of a loop's helpers before sleeping */
  FAIRNESS = 61,       /* every 61st search takes the oldest task, not the newest */
  PIECES_EACH = 8,     /* pieces of a loop per thread that may take part */
  MOST_SHARES = 32,    /* with more threads than that, several begin in the same share */
  MOVE_MILLIS = 10,    /* least time between two moves of a thread to another core */
};

typedef struct task {
  dp_task_fn fn;
  void *arg;
} task;

typedef struct ring {
  pthread_mutex_t mutex;
  task *tasks;
  size_t capacity; /* a power of two */
  size_t head;     /* oldest; head and tail only grow, masked on use */
  size_t tail;     /* one behind the newest */
  atomic_size_t size;
} __attribute__((aligned(CACHE_LINE))) ring;

typedef struct share {
  atomic_llong taken; /* pieces taken; grows beyond the share's pieces once it is empty */
} __attribute__((aligned(CACHE_LINE))) share;

typedef struct loop {
  struct loop *next; /* in the pool's list; under loops_mutex */
  struct loop **link;
  dp_range_fn fn;
  void *arg;
  int64_t count, piece, pieces;
  int share_count;
  int core; /* on which the caller runs */
  bool walks_back;
  int joined;         /* helpers so far; under loops_mutex */
  int seats;          /* helpers that may still join; 0 once closed; under loops_mutex */
  atomic_int helpers; /* inside right now; the caller's futex */
  share shares[MOST_SHARES];
} loop;

typedef struct worker {
  ring queue;
  dp_pool *pool;
  pthread_t thread;
  unsigned index;
  unsigned ticks;
  uint32_t random;
  bool searching;
  int64_t moved_nanos; /* when it last left a core */
} worker;

struct dp_pool {
  ring shared;
  atomic_int searching __attribute__((aligned(CACHE_LINE)));
  atomic_int sleeping;
  atomic_int tokens; /* wake-ups not yet taken; the sleepers' futex */
  atomic_bool stopping;
  atomic_int seats; /* sum over all listed loops */
  pthread_mutex_t loops_mutex;
  loop *loops;
  int threads;
  worker *workers;
};

static _Thread_local worker *current_worker __attribute__((tls_model("initial-exec")));
static _Thread_local bool is_lent __attribute__((tls_model("initial-exec")));

/* ---- futex ---- */

static void futex_wait(atomic_int *word, int expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_int *word, int count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/* ---- rings ---- */

static void mutex_init(pthread_mutex_t *mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
  pthread_mutex_init(mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

static void ring_init(ring *queue) {
  mutex_init(&queue->mutex);
  queue->capacity = FIRST_RING;
  queue->tasks = DP_NEW_ARRAY(task, FIRST_RING);
  queue->head = queue->tail = 0;
  atomic_init(&queue->size, 0);
}

static void ring_deinit(ring *queue) {
  pthread_mutex_destroy(&queue->mutex);
  dp_free(queue->tasks);
}

static void ring_grow(ring *queue) {
  task *larger = DP_NEW_ARRAY(task, queue->capacity * 2);
  size_t count = queue->tail - queue->head;
  for (size_t i = 0; i < count; i++)
    larger[i] = queue->tasks[(queue->head + i) & (queue->capacity - 1)];
  dp_free(queue->tasks);
  queue->tasks = larger;
  queue->capacity *= 2;
  queue->head = 0;
  queue->tail = count;
}

static void ring_push(ring *queue, task added) {
  pthread_mutex_lock(&queue->mutex);
  if (queue->tail - queue->head == queue->capacity)
    ring_grow(queue);
  queue->tasks[queue->tail++ & (queue->capacity - 1)] = added;
  atomic_store(&queue->size, queue->tail - queue->head);
  pthread_mutex_unlock(&queue->mutex);
}

static bool ring_pop(ring *queue, bool newest, task *task_out) {
  if (atomic_load_explicit(&queue->size, memory_order_relaxed) == 0)
    return false;
  pthread_mutex_lock(&queue->mutex);
  bool found = queue->tail != queue->head;
  if (found) {
    size_t at = newest ? --queue->tail : queue->head++;
    *task_out = queue->tasks[at & (queue->capacity - 1)];
    atomic_store_explicit(&queue->size, queue->tail - queue->head, memory_order_relaxed);
  }
  pthread_mutex_unlock(&queue->mutex);
  return found;
}

/* ---- waking and sleeping ---- */

/* Turns up to `wanted` sleepers into searchers. */
static void wake(dp_pool *pool, int wanted) {
  int sleeping = atomic_load(&pool->sleeping);
  int count;
  do {
    count = sleeping < wanted ? sleeping : wanted;
    if (count <= 0)
      return;
  } while (!atomic_compare_exchange_weak(&pool->sleeping, &sleeping, sleeping - count));
  atomic_fetch_add(&pool->searching, count);
  atomic_fetch_add(&pool->tokens, count);
  futex_wake(&pool->tokens, count);
}

static void work_was_added(dp_pool *pool) {
  if (atomic_load(&pool->searching) == 0)
    wake(pool, 1);
}

static bool has_work(dp_pool *pool) {
  if (atomic_load(&pool->seats) > 0 || atomic_load(&pool->shared.size) > 0)
    return true;
  for (int i = 0; i < pool->threads; i++)
    if (atomic_load(&pool->workers[i].queue.size) > 0)
      return true;
  return false;
}

/* This worker found something to do. If no other worker searches and there is more work, it wakes
 * one. */
static void stop_searching(worker *self) {
  if (!self->searching)
    return;
  self->searching = false;
  if (atomic_fetch_sub(&self->pool->searching, 1) == 1 && has_work(self->pool))
    wake(self->pool, 1);
}

static void take_token(dp_pool *pool) {
  for (;;) {
    int tokens = atomic_load(&pool->tokens);
    if (tokens == 0)
      futex_wait(&pool->tokens, 0);
    else if (atomic_compare_exchange_weak(&pool->tokens, &tokens, tokens - 1))
      return;
  }
}

/* Takes back one announcement of sleep; false when wakers have claimed all of them, in which case
 * a token is on its way. */
static bool retract_sleep(dp_pool *pool) {
  int sleeping = atomic_load(&pool->sleeping);
  while (sleeping > 0)
    if (atomic_compare_exchange_weak(&pool->sleeping, &sleeping, sleeping - 1))
      return true;
  return false;
}

/* Sleeps until there may be work. The worker counts as searching on entry and on return. */
static void sleep_until_work(worker *self) {
  dp_pool *pool = self->pool;
  atomic_fetch_sub(&pool->searching, 1);
  atomic_fetch_add(&pool->sleeping, 1);
  if ((has_work(pool) || atomic_load(&pool->stopping)) && retract_sleep(pool)) {
    atomic_fetch_add(&pool->searching, 1);
    return;
  }
  take_token(pool); /* whoever gave it has counted us as searching */
}

/* ---- loops ---- */

static void run_piece(const loop *work, int64_t index) {
  int64_t begin = index * work->piece;
  int64_t end = work->count - begin > work->piece ? begin + work->piece : work->count;
  work->fn(work->arg, begin, end);
}

static void run_share(loop *work, int number) {
  int64_t first = work->pieces * number / work->share_count;
  int64_t last = work->pieces * (number + 1) / work->share_count - 1;
  for (;;) {
    int64_t taken = atomic_fetch_add_explicit(&work->shares[number].taken, 1, memory_order_relaxed);
    if (taken > last - first)
      return;
    run_piece(work, work->walks_back ? last - taken : first + taken);
  }
}

static void run_pieces(loop *work, int own) {
  for (int i = 0; i < work->share_count; i++)
    run_share(work, (own + i) % work->share_count);
}

static void open_loop(dp_pool *pool, loop *work) {
  pthread_mutex_lock(&pool->loops_mutex);
  work->next = pool->loops;
  work->link = &pool->loops;
  if (work->next != NULL)
    work->next->link = &work->next;
  pool->loops = work;
  atomic_fetch_add(&pool->seats, work->seats);
  pthread_mutex_unlock(&pool->loops_mutex);
}

/* Takes the loop off the list: no helper joins after this. May be called more than once. */
static void close_loop(dp_pool *pool, loop *work) {
  pthread_mutex_lock(&pool->loops_mutex);
  if (work->link != NULL) {
    *work->link = work->next;
    if (work->next != NULL)
      work->next->link = work->link;
    work->link = NULL;
    atomic_fetch_sub(&pool->seats, work->seats);
    work->seats = 0;
  }
  pthread_mutex_unlock(&pool->loops_mutex);
}

/* Takes a seat in a listed loop; NULL when there is none. *share_out is the share to begin with. */
static loop *join_loop(dp_pool *pool, int *share_out) {
  if (atomic_load(&pool->seats) == 0)
    return NULL;
  pthread_mutex_lock(&pool->loops_mutex);
  loop *work = pool->loops;
  while (work != NULL && work->seats == 0)
    work = work->next;
  if (work != NULL) {
    work->seats--;
    *share_out = ++work->joined % work->share_count;
    atomic_fetch_sub(&pool->seats, 1);
    atomic_fetch_add(&work->helpers, 1);
  }
  pthread_mutex_unlock(&pool->loops_mutex);
  return work;
}

/* Moves the calling thread off `core`. A thread that is woken on the core of its waker takes turns
 * with it, even when other cores are free, and the kernel leaves it there as long as its runs are
 * short. Excluding the core for a moment is enough: from then on the thread is woken on the core
 * where it ran last. */
static void leave_core(worker *self, int core) {
  int64_t now = dp_clock_nanos();
  cpu_set_t allowed, others;
  if (now - self->moved_nanos < MOVE_MILLIS * INT64_C(1000000) || core < 0 || core >= CPU_SETSIZE ||
      sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return;
  self->moved_nanos = now;
  others = allowed;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof(others), &others) == 0)
    sched_setaffinity(0, sizeof(allowed), &allowed);
}

static bool help_a_loop(worker *self) {
  int own = 0;
  loop *work = join_loop(self->pool, &own);
  if (work == NULL)
    return false;
  stop_searching(self);
  if (sched_getcpu() == work->core)
    leave_core(self, work->core);
  run_pieces(work, own);
  close_loop(self->pool, work);
  /* After the subtraction the caller may return, and its frame with `work` may be gone. The wake-up
   * only uses the address, and every futex wait copes with a stray wake-up. */
  if (atomic_fetch_sub(&work->helpers, 1) == 1)
    futex_wake(&work->helpers, 1);
  return true;
}

static void wait_for_helpers(loop *work) {
  for (int round = 0; atomic_load(&work->helpers) > 0; round++) {
    int helpers = atomic_load(&work->helpers);
    if (round < FINISH_ROUNDS)
      pause_briefly();
    else if (helpers > 0)
      futex_wait(&work->helpers, helpers);
  }
}

void dp_pool_for(dp_pool *pool, int64_t count, int64_t grain, dp_range_fn fn, void *arg) {
  if (pool->threads > 1)
    dp_pool_walk(pool, count, grain, false, fn, arg);
  else if (count > 0)
    fn(arg, 0, count);
}

void dp_pool_walk(dp_pool *pool, int64_t count, int64_t grain, bool backwards, dp_range_fn fn,
                  void *arg) {
  if (count <= 0)
    return;
  int64_t fair = count / ((int64_t)pool->threads * PIECES_EACH);
  int64_t piece = grain > fair ? grain : fair;
  if (piece < 1)
    piece = 1;
  if (piece >= count) {
    fn(arg, 0, count);
    return;
  }
  loop work;
  work.fn = fn, work.arg = arg, work.count = count, work.piece = piece;
  work.pieces = count / piece + (count % piece != 0);
  work.walks_back = backwards;
  int members = work.pieces < pool->threads ? (int)work.pieces : pool->threads;
  work.share_count = members < MOST_SHARES ? members : MOST_SHARES;
  for (int i = 0; i < work.share_count; i++)
    atomic_init(&work.shares[i].taken, 0);
  if (members == 1) {
    run_pieces(&work, 0);
    return;
  }
  work.core = sched_getcpu();
  work.joined = 0;
  work.seats = members - 1;
  atomic_init(&work.helpers, 0);
  open_loop(pool, &work);
  wake(pool, members - 1 - atomic_load(&pool->searching));
  run_pieces(&work, 0);
  close_loop(pool, &work);
  wait_for_helpers(&work);
}

/* ---- workers ---- */

static bool steal(worker *self, task *task_out) {
  dp_pool *pool = self->pool;
  self->random = self->random * 1664525u + 1013904223u;
  unsigned start = (self->random >> 8) % (unsigned)pool->threads;
  for (int i = 0; i < pool->threads; i++) {
    unsigned victim = (start + (unsigned)i) % (unsigned)pool->threads;
    if (victim != self->index && ring_pop(&pool->workers[victim].queue, false, task_out))
      return true;
  }
  return false;
}

static bool find_task(worker *self, task *task_out) {
  dp_pool *pool = self->pool;
  if (++self->ticks % FAIRNESS == 0 &&
      (ring_pop(&pool->shared, false, task_out) || ring_pop(&self->queue, false, task_out)))
    return true;
  return ring_pop(&self->queue, true, task_out) || ring_pop(&pool->shared, false, task_out) ||
         steal(self, task_out);
}

static bool do_some_work(worker *self) {
  task found;
  if (help_a_loop(self))
    return true;
  if (!find_task(self, &found))
    return false;
  stop_searching(self);
  found.fn(found.arg);
  return true;
}

static bool search(worker *self) {
  if (!self->searching) {
    self->searching = true;
    atomic_fetch_add(&self->pool->searching, 1);
  }
  for (int round = 0; round < SEARCH_ROUNDS; round++) {
    if (do_some_work(self))
      return true;
    pause_briefly();
  }
  return false;
}

/* ---- threads ---- */

static void *worker_main(void *arg) {
  worker *self = arg;
  dp_pool *pool = self->pool;
  current_worker = self;
  dp_set_float_mode(dp_float_mode() | DP_FLUSH_BITS);
  for (;;) {
    if (do_some_work(self) || search(self))
      continue;
    if (atomic_load(&pool->stopping) && !has_work(pool))
      return NULL;
    sleep_until_work(self);
  }
}

static bool start_worker(dp_pool *pool, const char *name, int index) {
  worker *self = &pool->workers[index];
  if (pthread_create(&self->thread, NULL, worker_main, self) != 0)
    return false;
  char label[16];
  snprintf(label, sizeof(label), "%.10s/%u", name, (unsigned)index % 10000);
  pthread_setname_np(self->thread, label);
  return true;
}

/* Zeroed and aligned to a cache line. `size` must be a multiple of the line, as the size of a
 * struct with that alignment is. */
static void *allocate_aligned(size_t size) {
  void *memory = aligned_alloc(CACHE_LINE, size);
  if (memory == NULL) {
    DP_LOG(BASE, ERROR, "no memory for a thread pool (%zu bytes)", size);
    abort();
  }
  return memset(memory, 0, size);
}

static dp_pool *make_pool(int threads) {
  dp_pool *pool = allocate_aligned(sizeof(dp_pool));
  pool->threads = threads;
  pool->workers = allocate_aligned(sizeof(worker) * (size_t)pool->threads);
  ring_init(&pool->shared);
  atomic_init(&pool->searching, 0);
  atomic_init(&pool->sleeping, 0);
  atomic_init(&pool->tokens, 0);
  atomic_init(&pool->stopping, false);
  atomic_init(&pool->seats, 0);
  mutex_init(&pool->loops_mutex);
  pool->loops = NULL;
  for (int i = 0; i < pool->threads; i++) {
    worker *self = &pool->workers[i];
    ring_init(&self->queue);
    self->pool = pool;
    self->index = (unsigned)i;
    self->random = (uint32_t)i * 2654435761u + 1;
  }
  return pool;
}

/* How many threads could be started. They block all signals: handlers run in the program's own
 * threads. */
static int start_workers(dp_pool *pool, const char *name) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int started = 0;
  while (started < pool->threads && start_worker(pool, name, started))
    started++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

/* Joins the first `started` threads. */
static void end_pool(dp_pool *pool, int started) {
  atomic_store(&pool->stopping, true);
  wake(pool, INT_MAX);
  for (int i = 0; i < started; i++)
    pthread_join(pool->workers[i].thread, NULL);
  for (int i = 0; i < pool->threads; i++)
    ring_deinit(&pool->workers[i].queue);
  ring_deinit(&pool->shared);
  pthread_mutex_destroy(&pool->loops_mutex);
  free(pool->workers);
  free(pool);
}

dp_pool *dp_pool_create(const char *name, int threads) {
  dp_pool *pool = make_pool(threads > 0 ? threads : dp_core_count());
  int started = start_workers(pool, name);
  if (started < pool->threads) {
    DP_LOG(BASE, ERROR, "cannot start thread %d of pool %s", started, name);
    abort();
  }
  return pool;
}

dp_pool *dp_pool_create_within_cores(const char *name, int threads) {
  int cores = dp_core_count();
  dp_pool *pool = make_pool(threads > 0 && threads < cores ? threads : cores);
  int started = start_workers(pool, name);
  if (started < pool->threads) {
    DP_LOG(BASE, WARN, "cannot start thread %d of pool %s", started, name);
    end_pool(pool, started);
    return NULL;
  }
  return pool;
}

void dp_pool_destroy(dp_pool *pool) {
  if (pool == NULL)
    return;
  assert(!dp_pool_is_current(pool));
  end_pool(pool, pool->threads);
}

int dp_pool_threads(const dp_pool *pool) {
  return pool->threads;
}

bool dp_pool_is_current(const dp_pool *pool) {
  return current_worker != NULL && current_worker->pool == pool;
}

bool dp_thread_lend(bool lend) {
  static _Thread_local unsigned long own_mode;
  bool before = is_lent;
  is_lent = lend;
  if (lend && !before) {
    own_mode = dp_float_mode();
    dp_set_float_mode(own_mode | DP_FLUSH_BITS);
  } else if (before && !lend) {
    dp_set_float_mode(own_mode);
  }
  return before;
}

bool dp_thread_is_lent(void) {
  return is_lent;
}

void dp_pool_run(dp_pool *pool, dp_task_fn fn, void *arg) {
  ring *queue = dp_pool_is_current(pool) ? &current_worker->queue : &pool->shared;
  ring_push(queue, (task){fn, arg});
  work_was_added(pool);
}

int dp_core_count(void) {
  enum { MOST_CORES = 8192 };
  cpu_set_t *set = CPU_ALLOC(MOST_CORES);
  size_t size = CPU_ALLOC_SIZE(MOST_CORES);
  int count = 0;
  if (set != NULL && sched_getaffinity(0, size, set) == 0)
    count = CPU_COUNT_S(size, set);
  CPU_FREE(set);
  return count > 0 ? count : 1;
}
