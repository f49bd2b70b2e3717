/* Queues: tuples of tensors that wait between steps, in the four orders of TensorFlow.
 *
 * An enqueue or dequeue is an attempt; attempts of each kind are served in the order they came. No
 * thread blocks: an attempt ends by a call of `done`, with no lock held, on the thread that made
 * its end possible. A closed queue accepts nothing more but still gives what it has. When the step
 * of an attempt is cancelled, the attempt ends with CANCELLED, and elements that it has taken go
 * back. */
#ifndef DP_KERNELS_QUEUES_QUEUE_INTERNAL_H
#define DP_KERNELS_QUEUES_QUEUE_INTERNAL_H

#include <pthread.h>
#include "base/philox.h"
#include "kernels/shared/pieces.h"
#include "kernels/shared/waiting.h"

typedef enum dp_queue_kind {
  DP_QUEUE_FIFO,
  DP_QUEUE_PADDING, /* first in, first out; batches are padded to the largest element */
  DP_QUEUE_SHUFFLE,
  DP_QUEUE_PRIORITY, /* component 0 is an int64 priority; the smallest goes first */
} dp_queue_kind;

#define DP_QUEUE_UNBOUNDED INT32_MAX

typedef struct dp_queue_options {
  dp_queue_kind kind;
  int64_t capacity; /* DP_QUEUE_UNBOUNDED: no limit */
  int32_t component_count;
  dp_dtype *dtypes;
  int32_t shape_count; /* 0, or component_count */
  dp_partial_shape *shapes;
  int64_t min_after_dequeue; /* shuffle only */
  uint64_t seed, seed2;
} dp_queue_options;

/* Elements: each is a malloc'd array of component_count tensors. Only queue_store.c knows their
 * order. */
typedef struct dp_queue_store {
  dp_tensor **items; /* a ring */
  int64_t head, count, capacity;
} dp_queue_store;

typedef struct dp_queue {
  dp_resource resource;
  char *name;
  dp_queue_options options; /* owned, with its arrays */
  pthread_mutex_t lock;     /* guards all fields below */
  bool is_closed;
  dp_queue_store store;
  dp_waiters enqueues; /* closes wait in this line too */
  dp_waiters dequeues;
  dp_philox random;
  uint32_t random_words[4];
  int random_left;
} dp_queue;

extern const dp_resource_ops dp_queue_ops; /* "N10tensorflow14QueueInterfaceE" */

/* The name of the op: "FIFOQueue" and so on. */
const char *dp_queue_kind_name(dp_queue_kind kind);
/* Takes the arrays of *options, also on failure. */
DP_MUST_USE dp_status *dp_queue_create(const char *name, dp_queue_options *options,
                                       dp_queue **queue_out);
void dp_queue_options_deinit(dp_queue_options *options);

/* Called exactly once. When a dequeue succeeds, `tuple` has component_count tensors, which the
 * callee may take; else it is NULL. */
typedef void (*dp_queue_done_fn)(void *arg, dp_status *status, dp_tensor *tuple);

/* ---- In and out ---- The caller must hold a reference to the queue until `done`. `cancel` may be
 * NULL. */
/* Takes the component_count tensors of `tuple`, which dp_queue_check must have accepted. With
 * `many`, each of their rows is an element. */
void dp_queue_enqueue(dp_queue *queue, dp_tensor *tuple, bool many, dp_cancel *cancel,
                      dp_queue_done_fn done, void *arg);
/* Takes one element. */
void dp_queue_dequeue(dp_queue *queue, dp_cancel *cancel, dp_queue_done_fn done, void *arg);
/* Takes `count` elements as one tuple with a new first dimension. With `allow_fewer`, a closed
 * queue gives what it still has. */
void dp_queue_dequeue_many(dp_queue *queue, int64_t count, bool allow_fewer, dp_cancel *cancel,
                           dp_queue_done_fn done, void *arg);
/* Closes when all earlier enqueues have ended; with `cancel_pending` at once. */
void dp_queue_close(dp_queue *queue, bool cancel_pending, dp_queue_done_fn done, void *arg);

DP_MUST_USE dp_status *dp_queue_check(const dp_queue *queue, const dp_tensor *tuple, int32_t count,
                                      bool many);
int64_t dp_queue_size(dp_queue *queue);
bool dp_queue_is_closed(dp_queue *queue);

/* ---- queue_store.c, with the lock held ---- */
void dp_queue_put(dp_queue *queue, dp_tensor *element);
dp_tensor *dp_queue_take(dp_queue *queue);
/* Undoes dp_queue_take; the element that was taken last must be put back first. */
void dp_queue_put_back(dp_queue *queue, dp_tensor *element);
void dp_queue_destroy_element(dp_tensor *element, int32_t component_count);
/* Joins elements to one tuple (component_count unset tensors). Without the lock held. */
DP_MUST_USE dp_status *dp_queue_join(const dp_queue *queue, dp_tensor *const *elements,
                                     int64_t count, dp_tensor *tuple_out);

#endif
