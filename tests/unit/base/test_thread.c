/* Pools: everything queued runs once, nested and concurrent loops cover their range exactly, a pool
 * whose threads all sit in loops does not hang, destruction runs what is queued. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/thread.h"

static atomic_int counter;

static void add_one(void *arg) {
  (void)arg;
  atomic_fetch_add(&counter, 1);
}

static void destroying_runs_what_is_queued(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) {
    atomic_store(&counter, 0);
    dp_pool *pool = dp_pool_create("test", threads);
    assert_int_equal(dp_pool_threads(pool), threads);
    for (int i = 0; i < 10000; i++)
      dp_pool_run(pool, add_one, NULL);
    dp_pool_destroy(pool);
    assert_int_equal(atomic_load(&counter), 10000);
  }
}

static dp_pool *tree_pool;

static void grow_tree(void *arg) {
  intptr_t depth = (intptr_t)arg;
  atomic_fetch_add(&counter, 1);
  if (depth == 0)
    return;
  assert_true(dp_pool_is_current(tree_pool));
  dp_pool_run(tree_pool, grow_tree, (void *)(depth - 1));
  dp_pool_run(tree_pool, grow_tree, (void *)(depth - 1));
}

static void tasks_may_queue_tasks(void **state) {
  (void)state;
  atomic_store(&counter, 0);
  tree_pool = dp_pool_create("tree", 3);
  assert_false(dp_pool_is_current(tree_pool));
  dp_pool_run(tree_pool, grow_tree, (void *)(intptr_t)13);
  dp_pool_destroy(tree_pool);
  assert_int_equal(atomic_load(&counter), (1 << 14) - 1);
}

static dp_event ping_event[2000];

static void notify(void *arg) {
  dp_event_notify(arg);
}

/* A sleeping pool must wake for each single task. */
static void no_wakeup_is_lost(void **state) {
  (void)state;
  dp_pool *pool = dp_pool_create("ping", 2);
  for (int i = 0; i < 2000; i++) {
    dp_event_init(&ping_event[i]);
    if (i % 100 == 0)
      dp_clock_sleep(300000);
    dp_pool_run(pool, notify, &ping_event[i]);
    assert_true(dp_event_wait_until(&ping_event[i], dp_clock_deadline_ms(20000)));
    dp_event_deinit(&ping_event[i]);
  }
  dp_pool_destroy(pool);
}

typedef struct producer {
  dp_pool *pool;
  int count;
} producer;

static void *produce(void *arg) {
  producer *self = arg;
  for (int i = 0; i < self->count; i++)
    dp_pool_run(self->pool, add_one, NULL);
  return NULL;
}

static void many_threads_may_queue(void **state) {
  (void)state;
  atomic_store(&counter, 0);
  producer work = {dp_pool_create("many", 2), 20000};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, produce, &work);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  int64_t deadline = dp_clock_deadline_ms(20000);
  while (atomic_load(&counter) < 80000 && dp_clock_nanos() < deadline)
    dp_clock_sleep(100000);
  assert_int_equal(atomic_load(&counter), 80000);
  dp_pool_destroy(work.pool);
}

typedef struct coverage {
  unsigned char *seen;
  int64_t grain, count;
  atomic_int pieces;
} coverage;

static void cover(void *arg, int64_t begin, int64_t end) {
  coverage *work = arg;
  assert_true(begin >= 0 && begin < end && end <= work->count);
  assert_true(end - begin >= work->grain || end == work->count);
  for (int64_t i = begin; i < end; i++)
    work->seen[i]++;
  atomic_fetch_add(&work->pieces, 1);
}

static void check_cover(dp_pool *pool, int64_t count, int64_t grain) {
  coverage work = {calloc(1, (size_t)count + 1), grain, count, 0};
  dp_pool_for(pool, count, grain, cover, &work);
  dp_pool_walk(pool, count, grain, false, cover, &work);
  dp_pool_walk(pool, count, grain, true, cover, &work);
  for (int64_t i = 0; i < count; i++)
    assert_int_equal(work.seen[i], 3);
  free(work.seen);
}

static void loops_cover_their_range_once(void **state) {
  (void)state;
  for (int threads = 1; threads <= 5; threads += 2) {
    dp_pool *pool = dp_pool_create("loop", threads);
    int64_t counts[] = {0, 1, 2, 7, 64, 1000, 100003};
    int64_t grains[] = {0, 1, 3, 64, 1000000};
    for (size_t i = 0; i < 7; i++)
      for (size_t j = 0; j < 5; j++)
        check_cover(pool, counts[i], grains[j]);
    dp_pool_destroy(pool);
  }
}

static void give_thread(void *arg, int64_t begin, int64_t end) {
  assert_int_equal(begin, 0);
  assert_int_equal(end, 100);
  *(pthread_t *)arg = pthread_self();
}

static void a_small_loop_is_a_plain_call(void **state) {
  (void)state;
  dp_pool *pool = dp_pool_create("plain", 2);
  pthread_t thread = 0;
  dp_pool_for(pool, 100, 100, give_thread, &thread);
  assert_true(pthread_equal(thread, pthread_self()));
  dp_pool_destroy(pool);
  pool = dp_pool_create("one", 1);
  thread = 0;
  dp_pool_for(pool, 100, 1, give_thread, &thread);
  assert_true(pthread_equal(thread, pthread_self()));
  dp_pool_destroy(pool);
}

typedef struct walk {
  int64_t next; /* where the piece must begin, or end */
  bool backwards;
} walk;

static void follow(void *arg, int64_t begin, int64_t end) {
  walk *path = arg;
  assert_int_equal(path->backwards ? end : begin, path->next);
  path->next = path->backwards ? begin : end;
}

static void one_thread_walks_in_order(void **state) {
  (void)state;
  dp_pool *pool = dp_pool_create("walk", 1);
  walk path = {0, false};
  dp_pool_walk(pool, 1003, 10, false, follow, &path);
  assert_int_equal(path.next, 1003);
  path.backwards = true;
  dp_pool_walk(pool, 1003, 10, true, follow, &path);
  assert_int_equal(path.next, 0);
  dp_pool_destroy(pool);
}

typedef struct nest {
  dp_pool *pool;
  int depth;
  atomic_llong *sum;
} nest;

static void run_nested(void *arg, int64_t begin, int64_t end) {
  nest *outer = arg;
  for (int64_t i = begin; i < end; i++) {
    if (outer->depth == 0) {
      atomic_fetch_add(outer->sum, 1);
    } else {
      nest inner = {outer->pool, outer->depth - 1, outer->sum};
      dp_pool_for(outer->pool, 8, 1, run_nested, &inner);
    }
  }
}

static void loops_nest(void **state) {
  (void)state;
  dp_pool *pool = dp_pool_create("nest", 3);
  atomic_llong sum = 0;
  nest outermost = {pool, 3, &sum};
  dp_pool_for(pool, 8, 1, run_nested, &outermost);
  assert_int_equal(atomic_load(&sum), 8 * 8 * 8 * 8);
  dp_pool_destroy(pool);
}

static dp_pool *busy_pool;
static dp_event busy_done[64];

static void loop_in_a_task(void *arg) {
  check_cover(busy_pool, 5000, 10);
  dp_event_notify(arg);
}

static void *loop_outside(void *arg) {
  for (int i = 0; i < 50; i++)
    check_cover(arg, 3000, 7);
  return NULL;
}

static void all_threads_may_loop_at_once(void **state) {
  (void)state;
  busy_pool = dp_pool_create("busy", 2);
  pthread_t outside[2];
  for (int i = 0; i < 64; i++)
    dp_event_init(&busy_done[i]);
  for (int i = 0; i < 64; i++)
    dp_pool_run(busy_pool, loop_in_a_task, &busy_done[i]);
  for (int i = 0; i < 2; i++)
    pthread_create(&outside[i], NULL, loop_outside, busy_pool);
  for (int i = 0; i < 64; i++) {
    assert_true(dp_event_wait_until(&busy_done[i], dp_clock_deadline_ms(30000)));
    dp_event_deinit(&busy_done[i]);
  }
  for (int i = 0; i < 2; i++)
    pthread_join(outside[i], NULL);
  dp_pool_destroy(busy_pool);
}

static dp_pool *fair_pool;
static atomic_bool fair_stop;

static void repost(void *arg) {
  if (!atomic_load(&fair_stop))
    dp_pool_run(fair_pool, repost, arg);
}

/* A task that queues itself for ever must not keep others out, even with one thread. */
static void nobody_starves(void **state) {
  (void)state;
  fair_pool = dp_pool_create("fair", 1);
  dp_pool_run(fair_pool, repost, NULL);
  dp_event event;
  dp_event_init(&event);
  dp_pool_run(fair_pool, notify, &event);
  bool ran = dp_event_wait_until(&event, dp_clock_deadline_ms(20000));
  atomic_store(&fair_stop, true);
  assert_true(ran);
  dp_pool_destroy(fair_pool);
  dp_event_deinit(&event);
}

static void events_keep_their_deadline(void **state) {
  (void)state;
  dp_event event;
  dp_event_init(&event);
  int64_t start = dp_clock_nanos();
  assert_false(dp_event_wait_until(&event, start + 20 * 1000000));
  assert_true(dp_clock_nanos() - start >= 20 * 1000000);
  assert_false(dp_event_wait_until(&event, -5));
  dp_event_notify(&event);
  assert_true(dp_event_wait_until(&event, 0));
  assert_true(dp_event_wait_until(&event, DP_FOREVER));
  dp_event_wait(&event);
  dp_event_deinit(&event);
}

static volatile float tiny = 1e-40f, one = 1;

static void multiply_tiny(void *arg) {
  *(float *)arg = tiny * one;
}

static void subnormal_numbers_are_zeros_in_pools_and_lent_threads(void **state) {
  (void)state;
  float product = -1;
  dp_pool *pool = dp_pool_create("tiny", 1);
  dp_pool_run(pool, multiply_tiny, &product);
  dp_pool_destroy(pool);
  assert_true(product == 0);
  assert_true(tiny * one != 0);
  assert_false(dp_thread_lend(true));
  assert_true(tiny * one == 0);
  assert_true(dp_thread_lend(false));
  assert_true(tiny * one != 0);
}

static void there_is_a_core(void **state) {
  (void)state;
  assert_true(dp_core_count() >= 1);
  dp_pool *pool = dp_pool_create("cores", 0);
  assert_int_equal(dp_pool_threads(pool), dp_core_count());
  dp_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(destroying_runs_what_is_queued),
      cmocka_unit_test(tasks_may_queue_tasks),
      cmocka_unit_test(no_wakeup_is_lost),
      cmocka_unit_test(many_threads_may_queue),
      cmocka_unit_test(loops_cover_their_range_once),
      cmocka_unit_test(a_small_loop_is_a_plain_call),
      cmocka_unit_test(one_thread_walks_in_order),
      cmocka_unit_test(loops_nest),
      cmocka_unit_test(all_threads_may_loop_at_once),
      cmocka_unit_test(nobody_starves),
      cmocka_unit_test(events_keep_their_deadline),
      cmocka_unit_test(subnormal_numbers_are_zeros_in_pools_and_lent_threads),
      cmocka_unit_test(there_is_a_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
