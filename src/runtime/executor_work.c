/* Which thread runs which node.
 *
 * A worker is one thread's turn at a run: it has a ring of cheap ready nodes, which it runs itself
 * in order, and one of dear ones. Of several dear ones it keeps one and shares the others: they go
 * to the run's surplus, and as many helpers as are useful are started on the step's pool; every
 * worker looks there when it has nothing left. A thread that is not the pool's own (a caller's, a
 * network thread) runs no dear nodes, and after FOREIGN_BUDGET cheap ones sends its worker to the
 * pool, unless it has lent itself.
 *
 * A thread never nests workers: what becomes runnable inside a kernel or a callback (a function
 * call's run, a receive that ends in another run) is deferred and follows when the current worker
 * is through, so that the stack stays flat however runs start each other. When the current worker
 * still has much to do, deferred ones go to their pool instead. */
#include "runtime/executor_internal.h"

#include "base/memory.h"

#define FOREIGN_BUDGET 64
#define BUSY_NODES 16    /* so many cheap nodes waiting are worth another thread */
#define MOST_PATIENCE 32 /* dear nodes wait for so many cheap ones */

static _Thread_local struct {
  bool is_working;
  dp_worker *current;
  dp_worker *first_deferred, *last_deferred;
} thread __attribute__((tls_model("initial-exec")));

/* ---- Rings ---- */
void dp_ready_ring_grow(dp_ready_ring *ring) {
  uint32_t capacity = ring->capacity ? ring->capacity * 2 : 64;
  dp_ready *items = DP_NEW_ARRAY(dp_ready, capacity);
  for (uint32_t i = 0; i < ring->count; ++i)
    items[i] = ring->items[(ring->first + i) & (ring->capacity - 1)];
  dp_free(ring->items);
  *ring = (dp_ready_ring){items, 0, ring->count, capacity};
}

/* The pointers are loaded one by one: often they were stored just now, one by one, and a wider load
 * has to wait until both stores have reached the cache. */
static inline bool ring_pop(dp_ready_ring *ring, dp_ready *ready_out) {
  if (ring->count == 0)
    return false;
  dp_ready *first = &ring->items[ring->first];
  ready_out->item = __atomic_load_n(&first->item, __ATOMIC_RELAXED);
  ready_out->iteration = __atomic_load_n(&first->iteration, __ATOMIC_RELAXED);
  ready_out->scheduled = __atomic_load_n(&first->scheduled, __ATOMIC_RELAXED);
  ready_out->is_dead = first->is_dead;
  ring->first = (ring->first + 1) & (ring->capacity - 1);
  ring->count--;
  return true;
}

/* ---- Workers ---- */
static dp_worker *create_worker(dp_run *run) {
  dp_worker *worker = DP_NEW(dp_worker);
  worker->run = run;
  worker->outputs = DP_NEW_ARRAY(dp_value, (size_t)run->executor->max_outputs + 1);
  worker->next_all = run->all_workers;
  run->all_workers = worker;
  return worker;
}

static dp_worker *take_locked(dp_run *run) {
  dp_worker *worker = run->free_workers;
  if (!worker)
    return create_worker(run);
  run->free_workers = worker->next;
  worker->next = NULL;
  return worker;
}

dp_worker *dp_executor_worker_take(dp_run *run) {
  pthread_mutex_lock(&run->mutex);
  dp_worker *worker = take_locked(run);
  pthread_mutex_unlock(&run->mutex);
  return worker;
}

void dp_executor_worker_destroy(dp_worker *worker) {
  dp_free(worker->cheap.items);
  dp_free(worker->dear.items);
  dp_free(worker->outputs);
  dp_free(worker);
}

dp_worker *dp_executor_worker_current(const dp_run *run) {
  return thread.current && thread.current->run == run ? thread.current : NULL;
}

bool dp_executor_worker_is_idle(const dp_worker *worker) {
  return worker->cheap.count == 0 && worker->dear.count == 0 && !thread.first_deferred;
}

static void give_back(dp_worker *worker) {
  dp_run *run = worker->run;
  pthread_mutex_lock(&run->mutex);
  worker->next = run->free_workers;
  run->free_workers = worker;
  pthread_mutex_unlock(&run->mutex);
  if (atomic_fetch_sub(&run->active, 1) == 1)
    dp_run_end(run);
}

/* ---- Sharing ---- */
static void enter_task(void *arg) {
  dp_executor_worker_enter(arg);
}

/* Moves all but `keep` dear nodes to the surplus and starts helpers for them. */
static void share(dp_worker *worker, uint32_t keep, int most_helpers) {
  dp_run *run = worker->run;
  dp_worker *started = NULL;
  if (!run->shared)
    run->shared = true;
  pthread_mutex_lock(&run->mutex);
  int moved = 0;
  for (dp_ready ready; worker->dear.count > keep && ring_pop(&worker->dear, &ready); ++moved)
    *dp_ready_ring_add(&run->surplus) = ready;
  atomic_store_explicit(&run->surplus_count, (int)run->surplus.count, memory_order_relaxed);
  for (; moved > 0 && run->helpers < most_helpers; --moved) {
    dp_worker *helper = take_locked(run);
    helper->is_helper = true;
    helper->next = started;
    started = helper;
    run->helpers++;
    atomic_fetch_add(&run->active, 1);
  }
  pthread_mutex_unlock(&run->mutex);
  dp_pool *pool = run->step->pool;
  while (started) {
    dp_worker *helper = started;
    started = helper->next;
    helper->next = NULL;
    dp_pool_run(pool, enter_task, helper);
  }
}

/* A helper that finds nothing stops being one in the same breath, so that whoever shares next knows
 * to start another. */
static bool take_surplus(dp_worker *worker, dp_ready *ready_out) {
  dp_run *run = worker->run;
  if (!worker->is_helper && atomic_load_explicit(&run->surplus_count, memory_order_relaxed) == 0)
    return false;
  pthread_mutex_lock(&run->mutex);
  bool found = ring_pop(&run->surplus, ready_out);
  atomic_store_explicit(&run->surplus_count, (int)run->surplus.count, memory_order_relaxed);
  if (!found && worker->is_helper) {
    worker->is_helper = false;
    run->helpers--;
  }
  pthread_mutex_unlock(&run->mutex);
  return found;
}

/* ---- Deferred workers ---- */
static void defer(dp_worker *worker) {
  worker->next = NULL;
  if (thread.last_deferred)
    thread.last_deferred->next = worker;
  else
    thread.first_deferred = worker;
  thread.last_deferred = worker;
}

static dp_worker *take_deferred(void) {
  dp_worker *worker = thread.first_deferred;
  if (!worker)
    return NULL;
  thread.first_deferred = worker->next;
  if (!thread.first_deferred)
    thread.last_deferred = NULL;
  worker->next = NULL;
  return worker;
}

static void send_deferred_away(void) {
  dp_worker *stays = NULL;
  for (dp_worker *worker; (worker = take_deferred());) {
    dp_pool *pool = worker->run->step->pool;
    if (pool) {
      dp_pool_run(pool, enter_task, worker);
    } else {
      worker->next = stays;
      stays = worker;
    }
  }
  while (stays) {
    dp_worker *worker = stays;
    stays = worker->next;
    defer(worker);
  }
}

/* ---- The loop ---- */
typedef struct turn {
  dp_worker *worker;
  bool is_foreign;
  int most_helpers; /* 0: there is nobody to share with */
} turn;

/* Somebody waits: for how long yet? */
static void relieve(const turn *turn) {
  dp_worker *worker = turn->worker;
  bool is_urgent = worker->cheap.count > BUSY_NODES || ++worker->patience > MOST_PATIENCE;
  if (is_urgent)
    worker->patience = 0;
  if (thread.first_deferred && is_urgent)
    send_deferred_away();
  if (worker->dear.count && turn->most_helpers && (is_urgent || turn->is_foreign))
    share(worker, 0, turn->most_helpers);
}

static bool next_ready(const turn *turn, dp_ready *ready_out) {
  dp_worker *worker = turn->worker;
  bool somebody_waits = worker->dear.count || thread.first_deferred;
  if (somebody_waits && (worker->cheap.count || turn->is_foreign))
    relieve(turn);
  if (ring_pop(&worker->cheap, ready_out))
    return true;
  if (turn->is_foreign)
    return false;
  worker->patience = 0; /* nothing cheap keeps them waiting */
  if (worker->dear.count > 1 && turn->most_helpers)
    share(worker, 1, turn->most_helpers);
  if (!ring_pop(&worker->dear, ready_out) && !take_surplus(worker, ready_out))
    return false;
  if (thread.first_deferred)
    send_deferred_away();
  return true;
}

static bool is_foreign(const dp_pool *pool) {
  return pool && !dp_pool_is_current(pool) && !dp_thread_is_lent();
}

static void work(dp_worker *worker) {
  dp_run *run = worker->run;
  dp_pool *pool = run->step->pool;
  turn turn = {.worker = worker, .is_foreign = is_foreign(pool)};
  if (pool)
    turn.most_helpers = dp_pool_threads(pool) - (turn.is_foreign ? 0 : 1);
  dp_run_prepare_context(run, &worker->context, worker->outputs);
  thread.current = worker;
  int budget = turn.is_foreign ? FOREIGN_BUDGET : -1;
  for (dp_ready ready; next_ready(&turn, &ready);) {
    dp_run_node(worker, &ready);
    if (--budget == 0 && worker->cheap.count) {
      thread.current = NULL;
      dp_pool_run(pool, enter_task, worker);
      return;
    }
  }
  thread.current = NULL;
  give_back(worker);
}

void dp_executor_worker_enter(dp_worker *worker) {
  if (thread.is_working) {
    defer(worker);
    return;
  }
  thread.is_working = true;
  do
    work(worker);
  while ((worker = take_deferred()));
  thread.is_working = false;
}
