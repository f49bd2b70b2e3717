/* Mutexes as resources (tf.CriticalSection). MutexLock waits for its turn and outputs a lock, which
 * is a variant. When the last holder drops the lock, the next waiter gets it. ConsumeMutexLock only
 * takes a lock and drops it.
 *
 * Waiters stand in a list of the mutex. They are resumed in order, without the list's lock held.
 * Cancelling a step removes its waiter. A waiting op holds a reference to the mutex. */
#include <pthread.h>
#include "base/memory.h"
#include "kernels/shared/family.h"

typedef struct waiter {
  struct waiter *next;
  struct lock_mutex *mutex;
  dp_op_context *context;
  dp_cancel_token token;
} waiter;

typedef struct lock_mutex {
  dp_resource resource;
  pthread_mutex_t guard;
  bool is_held;
  waiter *first; /* the oldest waiter */
} lock_mutex;

static void mutex_destroy(dp_resource *resource) {
  lock_mutex *mutex = (lock_mutex *)resource;
  pthread_mutex_destroy(&mutex->guard);
  dp_free(mutex);
}

static void mutex_describe(dp_resource *resource, dp_text *text) {
  lock_mutex *mutex = (lock_mutex *)resource;
  pthread_mutex_lock(&mutex->guard);
  int waiting = 0;
  for (waiter *at = mutex->first; at; at = at->next)
    ++waiting;
  dp_text_printf(text, "%s, %d waiting", mutex->is_held ? "held" : "free", waiting);
  pthread_mutex_unlock(&mutex->guard);
}

static const dp_resource_ops mutex_ops = {"N10tensorflow12_GLOBAL__N_15MutexE", mutex_destroy,
                                          mutex_describe};

/* ---- The lock as a value ---- */
static void hand_over(lock_mutex *mutex);

static void lock_destroy(void *object) {
  lock_mutex *mutex = object;
  hand_over(mutex);
  dp_resource_release(mutex);
}
static const dp_variant_ops lock_ops = {.type_name = "tensorflow::LockReleaser",
                                        .destroy = lock_destroy};

/* The caller holds the mutex; its reference passes to the lock. */
static void finish_locked(dp_op_context *context, lock_mutex *mutex) {
  dp_variant *lock = dp_variant_create(&lock_ops, mutex);
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output;
  dp_status *status = dp_op_allocate(context, 0, &scalar, &output);
  if (status)
    dp_variant_release(lock);
  else
    dp_tensor_variants(output)[0] = lock;
  dp_op_done(context, status);
}

/* Gives the mutex to the oldest waiter that is not being cancelled, or frees it. */
static void hand_over(lock_mutex *mutex) {
  for (;;) {
    pthread_mutex_lock(&mutex->guard);
    waiter *next = mutex->first;
    if (next)
      mutex->first = next->next;
    else
      mutex->is_held = false;
    pthread_mutex_unlock(&mutex->guard);
    if (!next)
      return;
    dp_op_context *context = next->context;
    if (dp_cancel_deregister(context->step->cancel, next->token)) {
      dp_free(next);
      finish_locked(context, mutex); /* the waiter's reference becomes the lock's */
      return;
    }
    /* The waiter's cancellation has run, or is running, and found the waiter gone. */
    dp_status *why = dp_cancel_status(context->step->cancel);
    dp_free(next);
    dp_resource_release(mutex);
    dp_op_done(context, why);
  }
}

/* A waiter that is no longer in the list belongs to hand_over. */
static void cancel_wait(void *arg, const dp_status *why) {
  waiter *self = arg;
  lock_mutex *mutex = self->mutex;
  pthread_mutex_lock(&mutex->guard);
  waiter **at = &mutex->first;
  while (*at && *at != self)
    at = &(*at)->next;
  bool found = *at == self;
  if (found)
    *at = self->next;
  pthread_mutex_unlock(&mutex->guard);
  if (!found)
    return;
  dp_op_context *context = self->context;
  dp_free(self);
  dp_resource_release(mutex);
  dp_op_done(context, dp_status_retain(why));
}

static void lock_compute(dp_op_context *context, void *state) {
  dp_resource *resource;
  dp_status *status = dp_op_resource(context, 0, &mutex_ops, &resource);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  lock_mutex *mutex = (lock_mutex *)resource;
  waiter *self = DP_NEW(waiter);
  *self = (waiter){.mutex = mutex, .context = context};
  pthread_mutex_lock(&mutex->guard);
  bool is_mine = !mutex->is_held;
  bool is_cancelled = false;
  if (is_mine) {
    mutex->is_held = true;
  } else if (dp_cancel_register(context->step->cancel, cancel_wait, self, &self->token)) {
    waiter **at = &mutex->first;
    while (*at)
      at = &(*at)->next;
    *at = self;
  } else {
    is_cancelled = true;
  }
  pthread_mutex_unlock(&mutex->guard);
  if (!is_mine && !is_cancelled)
    return;
  dp_free(self);
  if (is_mine) {
    finish_locked(context, mutex);
  } else {
    dp_resource_release(mutex);
    dp_op_done(context, dp_cancel_status(context->step->cancel));
  }
}

static dp_status *consume_compute(dp_op_context *context, void *state) {
  const dp_tensor *lock = dp_op_input(context, 0);
  if (lock->shape.rank != 0 || !dp_tensor_variants(lock)[0] ||
      dp_tensor_variants(lock)[0]->ops != &lock_ops)
    return DP_INVALID("Expected input to be a mutex lock, got shape %s",
                      dp_shape_text(&lock->shape));
  return NULL;
}

/* ---- The mutex ---- */
static dp_status *name_create(const dp_kernel_setup *setup, void *state) {
  return dp_resource_name_init(state, setup, true);
}

static void name_destroy(void *state) {
  dp_resource_name_deinit(state);
}

static dp_status *make_mutex(void *arg, dp_resource **resource_out) {
  lock_mutex *mutex = DP_NEW(lock_mutex);
  dp_resource_init(&mutex->resource, &mutex_ops);
  pthread_mutex_init(&mutex->guard, NULL);
  *resource_out = &mutex->resource;
  return NULL;
}

static dp_status *mutex_compute(dp_op_context *context, void *state) {
  const dp_resource_name *name = state;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, name->container,
                                                 name->name, &mutex_ops, make_mutex, NULL,
                                                 &resource));
  dp_resource_release(resource);
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &scalar, &output));
  dp_tensor_handles(output)[0] =
      dp_resource_make_handle(context->device->name, name->container, name->name, &mutex_ops);
  return NULL;
}

/* clang-format off */
static const dp_kernel rows[] = {
    {.op = "MutexV2", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(dp_resource_name),
     .create = name_create, .compute = mutex_compute, .destroy = name_destroy},
    {.op = "MutexLock", .compute_async = lock_compute},
    {.op = "ConsumeMutexLock", .flags = DP_KERNEL_CHEAP, .compute = consume_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(mutex, rows);
