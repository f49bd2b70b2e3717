/* Which thread runs which node.
 *
 * A runner is one thread's turn at a run: it has a ring of cheap ready nodes, which it runs itself
 * in order, and one of expensive ones. Of several expensive ones it keeps one and shares the
 * others: they go to the run's surplus, and as many helpers as are useful are started on the step's
 * pool; every runner looks there when it has nothing left. A thread that is not the pool's own (a
 * caller's, a network thread) runs no expensive nodes, and after FOREIGN_BUDGET cheap ones sends
 * its runner to the pool, unless it has lent itself.
 *
 * A thread never nests runners: what becomes runnable inside a kernel or a callback (a function
 * call's run, a receive that ends in another run) is deferred and follows when the current runner
 * is through, so that the stack stays flat however runs start each other. When the current runner
 * still has much to do, deferred ones go to their pool instead. */
#include "runtime/executor_internal.h"

#include "base/memory.h"

#define FOREIGN_BUDGET 64
#define BUSY_NODES 16    /* so many cheap nodes waiting are worth another thread */
#define MOST_PATIENCE 32 /* expensive nodes wait for so many cheap ones */

static _Thread_local struct {
  bool is_working;
  dp_runner *current;
  dp_runner *first_deferred, *last_deferred;
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

/* ---- Runners ---- */
static dp_runner *create_runner(dp_run *run) {
  dp_runner *runner = DP_NEW(dp_runner);
  runner->run = run;
  runner->outputs = DP_NEW_ARRAY(dp_value, (size_t)run->executor->max_outputs + 1);
  runner->next_all = run->all_runners;
  run->all_runners = runner;
  return runner;
}

static dp_runner *take_locked(dp_run *run) {
  dp_runner *runner = run->free_runners;
  if (!runner)
    return create_runner(run);
  run->free_runners = runner->next;
  runner->next = NULL;
  return runner;
}

dp_runner *dp_executor_runner_take(dp_run *run) {
  pthread_mutex_lock(&run->mutex);
  dp_runner *runner = take_locked(run);
  pthread_mutex_unlock(&run->mutex);
  return runner;
}

void dp_executor_runner_destroy(dp_runner *runner) {
  dp_free(runner->cheap.items);
  dp_free(runner->expensive.items);
  dp_free(runner->outputs);
  dp_free(runner);
}

dp_runner *dp_executor_runner_current(const dp_run *run) {
  return thread.current && thread.current->run == run ? thread.current : NULL;
}

bool dp_executor_runner_is_idle(const dp_runner *runner) {
  return runner->cheap.count == 0 && runner->expensive.count == 0 && !thread.first_deferred;
}

static void give_back(dp_runner *runner) {
  dp_run *run = runner->run;
  pthread_mutex_lock(&run->mutex);
  runner->next = run->free_runners;
  run->free_runners = runner;
  pthread_mutex_unlock(&run->mutex);
  if (atomic_fetch_sub(&run->active, 1) == 1)
    dp_run_end(run);
}

/* ---- Sharing ---- */
static void enter_task(void *arg) {
  dp_executor_runner_enter(arg);
}

/* Moves all but `keep` expensive nodes to the surplus and starts helpers for them. */
static void share(dp_runner *runner, uint32_t keep, int most_helpers) {
  dp_run *run = runner->run;
  dp_runner *started = NULL;
  if (!run->shared)
    run->shared = true;
  pthread_mutex_lock(&run->mutex);
  int moved = 0;
  for (dp_ready ready; runner->expensive.count > keep && ring_pop(&runner->expensive, &ready);
       ++moved)
    *dp_ready_ring_add(&run->surplus) = ready;
  atomic_store_explicit(&run->surplus_count, (int)run->surplus.count, memory_order_relaxed);
  for (; moved > 0 && run->helpers < most_helpers; --moved) {
    dp_runner *helper = take_locked(run);
    helper->is_helper = true;
    helper->next = started;
    started = helper;
    run->helpers++;
    atomic_fetch_add(&run->active, 1);
  }
  pthread_mutex_unlock(&run->mutex);
  dp_pool *pool = run->step->pool;
  while (started) {
    dp_runner *helper = started;
    started = helper->next;
    helper->next = NULL;
    dp_pool_run(pool, enter_task, helper);
  }
}

/* A helper that finds nothing stops being a helper under the same lock, so that the next thread
 * with surplus nodes knows that it must start another. */
static bool take_surplus(dp_runner *runner, dp_ready *ready_out) {
  dp_run *run = runner->run;
  if (!runner->is_helper && atomic_load_explicit(&run->surplus_count, memory_order_relaxed) == 0)
    return false;
  pthread_mutex_lock(&run->mutex);
  bool found = ring_pop(&run->surplus, ready_out);
  atomic_store_explicit(&run->surplus_count, (int)run->surplus.count, memory_order_relaxed);
  if (!found && runner->is_helper) {
    runner->is_helper = false;
    run->helpers--;
  }
  pthread_mutex_unlock(&run->mutex);
  return found;
}

/* ---- Deferred runners ---- */
static void defer(dp_runner *runner) {
  runner->next = NULL;
  if (thread.last_deferred)
    thread.last_deferred->next = runner;
  else
    thread.first_deferred = runner;
  thread.last_deferred = runner;
}

static dp_runner *take_deferred(void) {
  dp_runner *runner = thread.first_deferred;
  if (!runner)
    return NULL;
  thread.first_deferred = runner->next;
  if (!thread.first_deferred)
    thread.last_deferred = NULL;
  runner->next = NULL;
  return runner;
}

static void send_deferred_away(void) {
  dp_runner *stays = NULL;
  for (dp_runner *runner; (runner = take_deferred());) {
    dp_pool *pool = runner->run->step->pool;
    if (pool) {
      dp_pool_run(pool, enter_task, runner);
    } else {
      runner->next = stays;
      stays = runner;
    }
  }
  while (stays) {
    dp_runner *runner = stays;
    stays = runner->next;
    defer(runner);
  }
}

/* ---- The loop ---- */
typedef struct turn {
  dp_runner *runner;
  bool is_foreign;
  int most_helpers; /* 0: there is nobody to share with */
} turn;

/* Somebody waits: for how long yet? */
static void relieve(const turn *turn) {
  dp_runner *runner = turn->runner;
  bool is_urgent = runner->cheap.count > BUSY_NODES || ++runner->patience > MOST_PATIENCE;
  if (is_urgent)
    runner->patience = 0;
  if (thread.first_deferred && is_urgent)
    send_deferred_away();
  if (runner->expensive.count && turn->most_helpers && (is_urgent || turn->is_foreign))
    share(runner, 0, turn->most_helpers);
}

static bool next_ready(const turn *turn, dp_ready *ready_out) {
  dp_runner *runner = turn->runner;
  bool somebody_waits = runner->expensive.count || thread.first_deferred;
  if (somebody_waits && (runner->cheap.count || turn->is_foreign))
    relieve(turn);
  if (ring_pop(&runner->cheap, ready_out))
    return true;
  if (turn->is_foreign)
    return false;
  runner->patience = 0; /* nothing cheap keeps them waiting */
  if (runner->expensive.count > 1 && turn->most_helpers)
    share(runner, 1, turn->most_helpers);
  if (!ring_pop(&runner->expensive, ready_out) && !take_surplus(runner, ready_out))
    return false;
  if (thread.first_deferred)
    send_deferred_away();
  return true;
}

static bool is_foreign(const dp_pool *pool) {
  return pool && !dp_pool_is_current(pool) && !dp_thread_is_lent();
}

static void work(dp_runner *runner) {
  dp_run *run = runner->run;
  dp_pool *pool = run->step->pool;
  turn turn = {.runner = runner, .is_foreign = is_foreign(pool)};
  if (pool)
    turn.most_helpers = dp_pool_threads(pool) - (turn.is_foreign ? 0 : 1);
  dp_run_prepare_context(run, &runner->context, runner->outputs);
  thread.current = runner;
  int budget = turn.is_foreign ? FOREIGN_BUDGET : -1;
  for (dp_ready ready; next_ready(&turn, &ready);) {
    dp_run_node(runner, &ready);
    if (--budget == 0 && runner->cheap.count) {
      thread.current = NULL;
      dp_pool_run(pool, enter_task, runner);
      return;
    }
  }
  thread.current = NULL;
  give_back(runner);
}

void dp_executor_runner_enter(dp_runner *runner) {
  if (thread.is_working) {
    defer(runner);
    return;
  }
  thread.is_working = true;
  do
    work(runner);
  while ((runner = take_deferred()));
  thread.is_working = false;
}
