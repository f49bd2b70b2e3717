/* Timers: a binary heap ordered by time, over a table of slots. A timer's number is its slot and
 * that slot's generation, so the number of a timer that is over never names another timer. One
 * thread, started with the first timer and never ended, calls the callbacks one after the other
 * with no lock held. Everything else is under one mutex. */
#include "base/timer.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

enum { SLOT_BITS = 24 };
static const uint32_t no_slot = UINT32_MAX;

typedef struct timer_slot {
  int64_t at;
  dp_timer_fn fn;
  void *arg;
  uint64_t generation; /* odd while the timer is in the heap */
  uint32_t place;      /* in the heap; or the next free slot */
} timer_slot;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t earlier;  /* another timer is now the first */
static pthread_cond_t finished; /* a callback returned */
static bool started;
static pthread_t timer_thread;
static dp_timer running; /* whose callback is being called */
static DP_ARRAY(timer_slot) slots;
static DP_ARRAY(uint32_t) heap;
static uint32_t free_slot = UINT32_MAX;

static dp_timer number_of(uint32_t slot) {
  return slots.items[slot].generation << SLOT_BITS | (slot + 1);
}

static bool comes_before(uint32_t a, uint32_t b) {
  return slots.items[a].at < slots.items[b].at;
}

static void place(uint32_t slot, size_t at) {
  heap.items[at] = slot;
  slots.items[slot].place = (uint32_t)at;
}

static void sift_up(uint32_t slot, size_t at) {
  while (at > 0 && comes_before(slot, heap.items[(at - 1) / 2])) {
    place(heap.items[(at - 1) / 2], at);
    at = (at - 1) / 2;
  }
  place(slot, at);
}

static void sift_down(uint32_t slot, size_t at) {
  for (;;) {
    size_t child = at * 2 + 1;
    if (child >= heap.count)
      break;
    if (child + 1 < heap.count && comes_before(heap.items[child + 1], heap.items[child]))
      child++;
    if (!comes_before(heap.items[child], slot))
      break;
    place(heap.items[child], at);
    at = child;
  }
  place(slot, at);
}

/* Takes the slot's timer out of the heap and makes its number invalid. */
static void remove_timer(uint32_t slot) {
  size_t at = slots.items[slot].place;
  uint32_t last = heap.items[--heap.count];
  if (last != slot) {
    if (at > 0 && comes_before(last, heap.items[(at - 1) / 2]))
      sift_up(last, at);
    else
      sift_down(last, at);
  }
  slots.items[slot].generation++;
  slots.items[slot].place = free_slot;
  free_slot = slot;
}

static void run_first(void) {
  uint32_t slot = heap.items[0];
  dp_timer_fn fn = slots.items[slot].fn;
  void *arg = slots.items[slot].arg;
  running = number_of(slot);
  remove_timer(slot);
  pthread_mutex_unlock(&mutex);
  fn(arg);
  pthread_mutex_lock(&mutex);
  running = 0;
  pthread_cond_broadcast(&finished);
}

static void *timer_main(void *unused) {
  (void)unused;
  pthread_mutex_lock(&mutex);
  for (;;) {
    if (heap.count == 0) {
      pthread_cond_wait(&earlier, &mutex);
      continue;
    }
    int64_t at = slots.items[heap.items[0]].at;
    if (at <= dp_clock_nanos()) {
      run_first();
    } else {
      struct timespec until = {at / 1000000000, at % 1000000000};
      pthread_cond_timedwait(&earlier, &mutex, &until);
    }
  }
  return NULL;
}

static void start_thread(void) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&earlier, &attributes);
  pthread_cond_init(&finished, NULL);
  pthread_condattr_destroy(&attributes);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&timer_thread, NULL, timer_main, NULL) != 0) {
    DP_LOG(BASE, ERROR, "cannot start the timer thread");
    abort();
  }
  pthread_setname_np(timer_thread, "timer");
  pthread_detach(timer_thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  started = true;
}

static uint32_t take_slot(void) {
  if (free_slot != no_slot) {
    uint32_t slot = free_slot;
    free_slot = slots.items[slot].place;
    return slot;
  }
  if (slots.count >= (UINT32_C(1) << SLOT_BITS) - 1) {
    DP_LOG(BASE, ERROR, "more than %zu timers at once", slots.count);
    abort();
  }
  DP_ARRAY_PUSH(&slots, (timer_slot){0});
  return (uint32_t)(slots.count - 1);
}

dp_timer dp_timer_start(int64_t at_nanos, dp_timer_fn fn, void *arg) {
  pthread_mutex_lock(&mutex);
  if (!started)
    start_thread();
  uint32_t slot = take_slot();
  timer_slot *timer = &slots.items[slot];
  timer->at = at_nanos > 0 ? at_nanos : 0;
  timer->fn = fn;
  timer->arg = arg;
  timer->generation++;
  DP_ARRAY_PUSH(&heap, slot);
  sift_up(slot, heap.count - 1);
  dp_timer number = number_of(slot);
  if (heap.items[0] == slot)
    pthread_cond_signal(&earlier);
  pthread_mutex_unlock(&mutex);
  return number;
}

bool dp_timer_cancel(dp_timer timer) {
  if (timer == 0)
    return false;
  uint32_t slot = (uint32_t)(timer & ((UINT32_C(1) << SLOT_BITS) - 1)) - 1;
  pthread_mutex_lock(&mutex);
  bool waiting = slot < slots.count && number_of(slot) == timer;
  if (waiting)
    remove_timer(slot);
  else if (running == timer && !pthread_equal(pthread_self(), timer_thread))
    while (running == timer)
      pthread_cond_wait(&finished, &mutex);
  pthread_mutex_unlock(&mutex);
  return waiting;
}
