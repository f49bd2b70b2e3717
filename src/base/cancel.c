/* Cancel scopes.
 *
 * A parent knows its children without owning them; a child owns a reference to its parent. A
 * trigger takes callbacks and children off one at a time under the scope's lock and calls them with
 * no lock held, so a callback may deregister others, release the scope or trigger another one.
 * Callbacks sit in a table of slots; a token is slot and generation, so an old token is recognized
 * as such. The deadline's timer holds no reference: the last release cancels it, or waits until its
 * callback has returned. */
#include "base/cancel.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "base/timer.h"

static const uint32_t none = UINT32_MAX;

typedef struct callback {
  dp_cancel_fn fn;
  void *arg;
  uint32_t generation;     /* odd while registered */
  uint32_t previous, next; /* in order of registration; `next` also links free slots */
} callback;

struct dp_cancel {
  atomic_int references;
  atomic_bool triggered;
  pthread_mutex_t mutex; /* guards all below, and the children's list and links */
  pthread_cond_t returned;
  dp_status *why;
  DP_ARRAY(callback) callbacks;
  uint32_t first, last, free_slot;
  dp_cancel_token running; /* the callback being called now, in running_thread */
  pthread_t running_thread;
  dp_cancel *children;
  int64_t created, deadline;
  dp_timer timer;
  /* Under the parent's mutex. */
  dp_cancel *parent;
  dp_cancel *next_sibling;
  dp_cancel **link; /* NULL: not in the parent's list */
};

/* Fails when the last reference is gone and the scope is about to be freed. */
static bool retain_if_alive(dp_cancel *scope) {
  int references = atomic_load(&scope->references);
  while (references > 0)
    if (atomic_compare_exchange_weak(&scope->references, &references, references + 1))
      return true;
  return false;
}

static void deadline_passed(void *arg) {
  dp_cancel *scope = arg;
  if (!retain_if_alive(scope))
    return;
  double seconds = (double)(scope->deadline - scope->created) / 1e9;
  dp_cancel_trigger(scope,
                    dp_status_create(DP_DEADLINE_EXCEEDED, "deadline of %.3f s exceeded", seconds));
  dp_cancel_release(scope);
}

static void unlink_child(dp_cancel *child) {
  *child->link = child->next_sibling;
  if (child->next_sibling != NULL)
    child->next_sibling->link = child->link;
  child->link = NULL;
}

/* Adds `scope` to its parent's list of children, or returns why the parent is cancelled. */
static dp_status *link_to_parent(dp_cancel *scope, dp_cancel *parent) {
  pthread_mutex_lock(&parent->mutex);
  dp_status *why = dp_status_retain(parent->why);
  if (why == NULL) {
    scope->next_sibling = parent->children;
    scope->link = &parent->children;
    if (scope->next_sibling != NULL)
      scope->next_sibling->link = &scope->next_sibling;
    parent->children = scope;
  }
  pthread_mutex_unlock(&parent->mutex);
  return why;
}

dp_cancel *dp_cancel_create(dp_cancel *parent, int64_t deadline_nanos) {
  dp_cancel *scope = DP_NEW(dp_cancel);
  atomic_init(&scope->references, 1);
  atomic_init(&scope->triggered, false);
  pthread_mutex_init(&scope->mutex, NULL);
  pthread_cond_init(&scope->returned, NULL);
  scope->first = scope->last = scope->free_slot = none;
  scope->deadline = deadline_nanos;
  if (parent != NULL) {
    scope->parent = dp_cancel_retain(parent);
    dp_status *why = link_to_parent(scope, parent);
    if (why != NULL) {
      dp_cancel_trigger(scope, why);
      return scope;
    }
  }
  if (deadline_nanos != DP_FOREVER) {
    scope->created = dp_clock_nanos();
    if (deadline_nanos <= scope->created)
      deadline_passed(scope);
    else
      scope->timer = dp_timer_start(deadline_nanos, deadline_passed, scope);
  }
  return scope;
}

dp_cancel *dp_cancel_retain(dp_cancel *scope) {
  if (scope != NULL)
    atomic_fetch_add_explicit(&scope->references, 1, memory_order_relaxed);
  return scope;
}

static void destroy(dp_cancel *scope) {
  if (scope->timer != 0)
    dp_timer_cancel(scope->timer);
  dp_cancel *parent = scope->parent;
  if (parent != NULL) {
    pthread_mutex_lock(&parent->mutex);
    if (scope->link != NULL)
      unlink_child(scope);
    pthread_mutex_unlock(&parent->mutex);
  }
  pthread_cond_destroy(&scope->returned);
  pthread_mutex_destroy(&scope->mutex);
  dp_status_release(scope->why);
  DP_ARRAY_FREE(&scope->callbacks);
  dp_free(scope);
  dp_cancel_release(parent);
}

void dp_cancel_release(dp_cancel *scope) {
  if (scope != NULL && atomic_fetch_sub(&scope->references, 1) == 1)
    destroy(scope);
}

static dp_cancel_token token_of(const dp_cancel *scope, uint32_t slot) {
  return (uint64_t)scope->callbacks.items[slot].generation << 32 | (slot + 1);
}

static void remove_callback(dp_cancel *scope, uint32_t slot) {
  callback *items = scope->callbacks.items;
  callback *gone = &items[slot];
  *(gone->previous != none ? &items[gone->previous].next : &scope->first) = gone->next;
  *(gone->next != none ? &items[gone->next].previous : &scope->last) = gone->previous;
  gone->generation++;
  gone->next = scope->free_slot;
  scope->free_slot = slot;
}

/* The lock is held on entry and on return, but not during the call. */
static void call_first(dp_cancel *scope) {
  uint32_t slot = scope->first;
  dp_cancel_fn fn = scope->callbacks.items[slot].fn;
  void *arg = scope->callbacks.items[slot].arg;
  scope->running = token_of(scope, slot);
  scope->running_thread = pthread_self();
  remove_callback(scope, slot);
  pthread_mutex_unlock(&scope->mutex);
  fn(arg, scope->why);
  pthread_mutex_lock(&scope->mutex);
  scope->running = 0;
  pthread_cond_broadcast(&scope->returned);
}

static void trigger_first_child(dp_cancel *scope) {
  dp_cancel *child = scope->children;
  unlink_child(child);
  if (!retain_if_alive(child))
    return;
  pthread_mutex_unlock(&scope->mutex);
  dp_cancel_trigger(child, dp_status_retain(scope->why));
  dp_cancel_release(child);
  pthread_mutex_lock(&scope->mutex);
}

void dp_cancel_trigger(dp_cancel *scope, dp_status *why) {
  if (scope == NULL) {
    dp_status_release(why);
    return;
  }
  assert(why != NULL);
  dp_cancel_retain(scope); /* a callback may release the caller's own reference */
  pthread_mutex_lock(&scope->mutex);
  if (scope->why != NULL) {
    pthread_mutex_unlock(&scope->mutex);
    dp_status_release(why);
  } else {
    scope->why = why;
    atomic_store_explicit(&scope->triggered, true, memory_order_release);
    while (scope->first != none)
      call_first(scope);
    while (scope->children != NULL)
      trigger_first_child(scope);
    pthread_mutex_unlock(&scope->mutex);
  }
  dp_cancel_release(scope);
}

bool dp_cancel_is_triggered(const dp_cancel *scope) {
  return scope != NULL &&
         atomic_load_explicit(&((dp_cancel *)scope)->triggered, memory_order_acquire);
}

dp_status *dp_cancel_status(const dp_cancel *scope) {
  /* The reason is written before the flag and never changes again. */
  return dp_cancel_is_triggered(scope) ? dp_status_retain(scope->why) : NULL;
}

static uint32_t take_slot(dp_cancel *scope) {
  uint32_t slot = scope->free_slot;
  if (slot != none) {
    scope->free_slot = scope->callbacks.items[slot].next;
    return slot;
  }
  DP_ARRAY_PUSH(&scope->callbacks, (callback){0});
  return (uint32_t)(scope->callbacks.count - 1);
}

bool dp_cancel_register(dp_cancel *scope, dp_cancel_fn fn, void *arg, dp_cancel_token *token_out) {
  if (scope == NULL) {
    *token_out = 0;
    return true;
  }
  pthread_mutex_lock(&scope->mutex);
  bool live = scope->why == NULL;
  if (live) {
    uint32_t slot = take_slot(scope);
    callback *added = &scope->callbacks.items[slot];
    added->fn = fn;
    added->arg = arg;
    added->generation++;
    added->previous = scope->last;
    added->next = none;
    *(scope->last != none ? &scope->callbacks.items[scope->last].next : &scope->first) = slot;
    scope->last = slot;
    *token_out = token_of(scope, slot);
  }
  pthread_mutex_unlock(&scope->mutex);
  return live;
}

bool dp_cancel_deregister(dp_cancel *scope, dp_cancel_token token) {
  if (scope == NULL || token == 0)
    return true;
  uint32_t slot = (uint32_t)token - 1;
  pthread_mutex_lock(&scope->mutex);
  bool registered = slot < scope->callbacks.count && token_of(scope, slot) == token;
  if (registered)
    remove_callback(scope, slot);
  else
    while (scope->running == token && !pthread_equal(scope->running_thread, pthread_self()))
      pthread_cond_wait(&scope->returned, &scope->mutex);
  pthread_mutex_unlock(&scope->mutex);
  return registered;
}
