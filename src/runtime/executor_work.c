/* Which thread runs which node.
 *
 * A worker is one thread's turn at a run: it has a ring of cheap ready nodes, which it runs itself
 * in order, and one of dear ones. Of several dear ones it keeps one and shares the others: they go
 * to the run's surplus, and as many helpers as are useful are started on the step's pool; every
 * worker looks there when it has nothing left. A thread that is not the pool's own (a caller's, a
 * network thread) runs no dear nodes, and after FOREIGN_BUDGET cheap ones sends its worker to the
 * pool.
 *
 * A thread never nests workers: what becomes runnable inside a kernel or a callback (a function
 * call's run, a receive that ends in another run) is deferred and follows when the current worker
 * is through, so that the stack stays flat however runs start each other. When the current worker
 * still has much to do, deferred ones go to their pool instead. */
#include "runtime/executor_internal.h"

#include "base/clock.h"
#include "base/memory.h"

#define FOREIGN_BUDGET 64
#define BUSY_NODES 16    /* so many cheap nodes waiting are worth another thread */
#define MOST_PATIENCE 32 /* dear nodes wait for so many cheap ones */

static _Thread_local struct {
  bool is_working;
  dp_worker *current;
  dp_worker *first_deferred, *last_deferred;
} thread;

/* ---- Rings ---- */
static void ring_grow(dp_ready_ring *ring) {
  uint32_t capacity = ring->capacity ? ring->capacity * 2 : 64;
  dp_ready *items = DP_NEW_ARRAY(dp_ready, capacity);
  for (uint32_t i = 0; i < ring->count; ++i)
    items[i] = ring->items[(ring->first + i) & (ring->capacity - 1)];
  dp_free(ring->items);
  *ring = (dp_ready_ring){items, 0, ring->count, capacity};
}

void dp_ready_ring_push(dp_ready_ring *ring, const dp_ready *ready) {
  if (__builtin_expect(ring->count == ring->capacity, 0))
    ring_grow(ring);
  ring->items[(ring->first + ring->count++) & (ring->capacity - 1)] = *ready;
}

static inline bool ring_pop(dp_ready_ring *ring, dp_ready *ready_out) {
  if (ring->count == 0)
    return false;
  *ready_out = ring->items[ring->first];
  ring->first = (ring->first + 1) & (ring->capacity - 1);
  ring->count--;
  return true;
}

static inline bool is_cheap(const dp_item *item) {
  return (item->flags & (DP_ITEM_CHEAP | DP_ITEM_DETACHED)) ||
         atomic_load_explicit(&item->cost, memory_order_relaxed) < DP_DEAR_NANOS;
}

void dp_executor_worker_add(dp_worker *worker, dp_item *item, dp_iteration *iteration,
                            bool is_dead) {
  dp_run *run = worker->run;
  dp_ready ready = {.item = item, .iteration = iteration, .is_dead = is_dead};
  if (is_dead && (item->flags & DP_ITEM_CONTROL_TRIGGER))
    ready.is_dead = false;
  if (__builtin_expect(run->step->stats != NULL, 0))
    ready.scheduled = dp_clock_wall_nanos();
  dp_ready_ring_push(is_dead || is_cheap(item) ? &worker->cheap : &worker->dear, &ready);
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
    dp_ready_ring_push(&run->surplus, &ready);
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
  if (worker->dear.count || thread.first_deferred)
    relieve(turn);
  if (ring_pop(&worker->cheap, ready_out))
    return true;
  if (turn->is_foreign)
    return false;
  if (worker->dear.count > 1 && turn->most_helpers)
    share(worker, 1, turn->most_helpers);
  if (!ring_pop(&worker->dear, ready_out) && !take_surplus(worker, ready_out))
    return false;
  if (thread.first_deferred)
    send_deferred_away();
  return true;
}

static void work(dp_worker *worker) {
  dp_run *run = worker->run;
  dp_pool *pool = run->step->pool;
  turn turn = {.worker = worker, .is_foreign = pool && !dp_pool_is_current(pool)};
  if (pool)
    turn.most_helpers = dp_pool_threads(pool) - (turn.is_foreign ? 0 : 1);
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
