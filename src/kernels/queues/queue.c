/* Queues (queue_internal.h). An attempt is an enqueue, dequeue or close that may have to wait;
 * there is a line of enqueues and closes, and a line of dequeues.
 *
 * Whatever changes a queue (a new attempt, a close, a cancelled step) calls flush. It serves both
 * lines from their fronts until nothing more can be served; then it releases the lock and ends the
 * attempts that were served. */
#include "kernels/queues/queue_internal.h"

#include <string.h>
#include "base/memory.h"

typedef enum attempt_kind { ENQUEUE, DEQUEUE, CLOSE } attempt_kind;

typedef struct attempt {
  dp_waiter waiter; /* must be first */
  dp_queue *queue;
  attempt_kind kind;
  bool many; /* the tuple's rows are elements */
  bool allows_fewer;
  int64_t wanted; /* elements still to be put or taken */
  dp_queue_done_fn done;
  void *arg;
  dp_status *status;
  dp_tensor *tuple; /* enqueue: the tensors to put in */
  int64_t next_row; /* enqueue: the next row of `tuple` */
  DP_ARRAY(dp_tensor *) taken;
} attempt;

/* ---- Life ---- */
const char *dp_queue_kind_name(dp_queue_kind kind) {
  static const char *const names[] = {"FIFOQueue", "PaddingFIFOQueue", "RandomShuffleQueue",
                                      "PriorityQueue"};
  return names[kind];
}

void dp_queue_options_deinit(dp_queue_options *options) {
  dp_free(options->dtypes);
  dp_free(options->shapes);
  *options = (dp_queue_options){0};
}

static void destroy(dp_resource *resource) {
  dp_queue *queue = (dp_queue *)resource;
  while (queue->store.count > 0)
    dp_queue_destroy_element(dp_queue_take(queue), queue->options.component_count);
  dp_free(queue->store.items);
  dp_queue_options_deinit(&queue->options);
  pthread_mutex_destroy(&queue->lock);
  dp_free(queue->name);
  dp_free(queue);
}

static void describe(dp_resource *resource, dp_text *text) {
  dp_queue *queue = (dp_queue *)resource;
  pthread_mutex_lock(&queue->lock);
  dp_text_printf(text, "%s with %lld", dp_queue_kind_name(queue->options.kind),
                 (long long)queue->store.count);
  if (queue->options.capacity != DP_QUEUE_UNBOUNDED)
    dp_text_printf(text, " of %lld", (long long)queue->options.capacity);
  dp_text_add(text, " elements");
  if (queue->is_closed)
    dp_text_add(text, ", closed");
  if (queue->enqueues.count)
    dp_text_printf(text, ", %lld wait to enqueue", (long long)queue->enqueues.count);
  if (queue->dequeues.count)
    dp_text_printf(text, ", %lld wait to dequeue", (long long)queue->dequeues.count);
  pthread_mutex_unlock(&queue->lock);
}

const dp_resource_ops dp_queue_ops = {"N10tensorflow14QueueInterfaceE", destroy, describe};

static dp_status *check_options(const char *name, const dp_queue_options *options) {
  if (options->component_count == 0)
    return DP_INVALID("Empty component types for queue %s", name);
  if (options->shape_count != 0 && options->shape_count != options->component_count)
    return DP_INVALID("Different number of component types. Types: %d, Shapes: %d",
                      options->component_count, options->shape_count);
  return NULL;
}

static void leave(dp_waiter *waiter);
static void end_cancelled(dp_waiter *waiter);

dp_status *dp_queue_create(const char *name, dp_queue_options *options, dp_queue **queue_out) {
  dp_status *status = check_options(name, options);
  if (status) {
    dp_queue_options_deinit(options);
    return status;
  }
  dp_queue *queue = DP_NEW(dp_queue);
  dp_resource_init(&queue->resource, &dp_queue_ops);
  queue->name = dp_strdup(name);
  queue->options = *options;
  *options = (dp_queue_options){0};
  pthread_mutex_init(&queue->lock, NULL);
  queue->enqueues = queue->dequeues =
      (dp_waiters){.lock = &queue->lock, .leave = leave, .end = end_cancelled};
  uint64_t seed = queue->options.seed, seed2 = queue->options.seed2;
  if (seed == 0 && seed2 == 0) {
    seed = dp_random_seed();
    seed2 = dp_random_seed();
  }
  queue->random = dp_philox_seed(seed, seed2);
  *queue_out = queue;
  return NULL;
}

/* Puts the elements that a dequeue has taken back into the queue, in their old order. */
static void give_back(dp_queue *queue, attempt *served) {
  while (served->taken.count > 0)
    dp_queue_put_back(queue, served->taken.items[--served->taken.count]);
}

/* ---- Serving, with the lock held ---- */
typedef enum outcome { NO_PROGRESS, PROGRESS, COMPLETE } outcome;

static outcome fail(attempt *served, dp_status *status) {
  served->status = status;
  return COMPLETE;
}

static dp_status *cut_element(const dp_queue *queue, const dp_tensor *tuple, int64_t row,
                              dp_tensor **element_out) {
  int32_t count = queue->options.component_count;
  dp_tensor *element = dp_pieces_create(count);
  for (int32_t i = 0; i < count; ++i) {
    dp_shape shape = dp_shape_remove(&tuple[i].shape, 0);
    dp_status *status = dp_pieces_cut(&tuple[i], row, row + 1, &shape, &element[i]);
    if (status) {
      dp_pieces_destroy(element, count);
      return status;
    }
  }
  *element_out = element;
  return NULL;
}

static outcome serve_enqueue(dp_queue *queue, attempt *served) {
  if (queue->is_closed)
    return fail(served, dp_status_create(DP_CANCELLED, "%s '%s' is closed.",
                                         dp_queue_kind_name(queue->options.kind), queue->name));
  outcome result = NO_PROGRESS;
  while (queue->store.count < queue->options.capacity) {
    result = PROGRESS;
    if (!served->many) {
      dp_queue_put(queue, served->tuple);
      served->tuple = NULL;
      return COMPLETE;
    }
    dp_tensor *element;
    dp_status *status = cut_element(queue, served->tuple, served->next_row, &element);
    if (status)
      return fail(served, status);
    dp_queue_put(queue, element);
    ++served->next_row;
    if (--served->wanted == 0)
      return COMPLETE;
  }
  return result;
}

static outcome serve_close(dp_queue *queue, attempt *served) {
  if (queue->is_closed)
    return fail(served,
                dp_status_create(DP_CANCELLED, "Queue '%s' is already closed.", queue->name));
  queue->is_closed = true;
  return COMPLETE;
}

static dp_status *too_few(const dp_queue *queue, int64_t wanted, int64_t size) {
  return dp_status_create(DP_OUT_OF_RANGE,
                          "%s '%s' is closed and has insufficient elements (requested %lld, "
                          "current size %lld)",
                          dp_queue_kind_name(queue->options.kind), queue->name, (long long)wanted,
                          (long long)size);
}

/* The queue is closed and has fewer elements than are wanted. NO_PROGRESS: go on, `wanted` was
 * reduced to what there is. */
static outcome serve_rest(dp_queue *queue, attempt *served) {
  int64_t wanted = served->wanted, size = queue->store.count;
  give_back(queue, served);
  if (!served->allows_fewer || queue->store.count == 0) {
    if (served->allows_fewer && queue->enqueues.count > 0)
      return PROGRESS; /* waiting enqueues end first */
    return fail(served, too_few(queue, wanted, size));
  }
  served->wanted = queue->store.count;
  return NO_PROGRESS;
}

static outcome serve_dequeue(dp_queue *queue, attempt *served) {
  dp_queue_kind kind = queue->options.kind;
  if (queue->is_closed && queue->store.count < served->wanted) {
    outcome rest = serve_rest(queue, served);
    if (rest != NO_PROGRESS)
      return rest;
  }
  int64_t available = queue->store.count;
  if (kind == DP_QUEUE_SHUFFLE && !queue->is_closed)
    available -= queue->options.min_after_dequeue;
  /* A batch of a priority queue must take all its elements at once. */
  if (kind == DP_QUEUE_PRIORITY && available < served->wanted)
    return NO_PROGRESS;
  outcome result = NO_PROGRESS;
  for (; available > 0; --available) {
    result = PROGRESS;
    DP_ARRAY_PUSH(&served->taken, dp_queue_take(queue));
    if (--served->wanted == 0)
      return COMPLETE;
  }
  return result;
}

static outcome serve(dp_queue *queue, attempt *served) {
  switch (served->kind) {
  case ENQUEUE:
    return serve_enqueue(queue, served);
  case CLOSE:
    return serve_close(queue, served);
  default:
    return serve_dequeue(queue, served);
  }
}

/* Serves the front of a line; attempts that are complete go to `ended`. */
static bool serve_line(dp_queue *queue, dp_waiters *line, dp_waiters *ended) {
  bool progress = false;
  while (line->first) {
    attempt *served = (attempt *)line->first;
    outcome result = serve(queue, served);
    progress = progress || result != NO_PROGRESS;
    if (result != COMPLETE)
      break;
    dp_waiters_take(line, &served->waiter);
    dp_waiters_collect(ended, &served->waiter);
  }
  return progress;
}

/* ---- Ending, without the lock ---- */
static void destroy_attempt(attempt *ended, int32_t component_count) {
  if (ended->tuple)
    dp_pieces_destroy(ended->tuple, component_count);
  for (size_t i = 0; i < ended->taken.count; ++i)
    dp_queue_destroy_element(ended->taken.items[i], component_count);
  DP_ARRAY_FREE(&ended->taken);
  dp_free(ended);
}

static void end(attempt *ended) {
  dp_queue *queue = ended->queue;
  int32_t components = queue->options.component_count;
  dp_status *status = ended->status;
  dp_tensor *result = NULL, *batch = NULL;
  if (!status && ended->kind == DEQUEUE && !ended->many) {
    result = ended->taken.items[0];
  } else if (!status && ended->kind == DEQUEUE) {
    result = batch = dp_pieces_create(components);
    status = dp_queue_join(queue, ended->taken.items, (int64_t)ended->taken.count, batch);
  }
  ended->done(ended->arg, status, status ? NULL : result);
  if (batch)
    dp_pieces_destroy(batch, components);
  destroy_attempt(ended, components);
}

static void end_all(dp_waiters *line) {
  for (dp_waiter *waiter = line->first, *next; waiter; waiter = next) {
    next = waiter->next;
    dp_waiter_settle(waiter);
    end((attempt *)waiter);
  }
}

static void flush(dp_queue *queue) {
  dp_waiters ended = {0};
  dp_resource_retain(queue);
  pthread_mutex_lock(&queue->lock);
  bool progress;
  do {
    progress = serve_line(queue, &queue->enqueues, &ended);
    progress = serve_line(queue, &queue->dequeues, &ended) || progress;
  } while (progress);
  pthread_mutex_unlock(&queue->lock);
  end_all(&ended);
  dp_resource_release(queue);
}

static dp_status *cancelled(attempt_kind kind) {
  return dp_status_create(DP_CANCELLED, kind == DEQUEUE ? "Dequeue operation was cancelled"
                                                        : "Enqueue operation was cancelled");
}

/* The step of a waiting attempt was cancelled: puts back what it has taken. */
static void leave(dp_waiter *waiter) {
  attempt *gone = (attempt *)waiter;
  give_back(gone->queue, gone);
}

/* Without the lock: ends the attempt, and serves others that can go on now. */
static void end_cancelled(dp_waiter *waiter) {
  attempt *gone = (attempt *)waiter;
  dp_queue *queue = dp_resource_retain(gone->queue);
  gone->status = cancelled(gone->kind);
  end(gone);
  flush(queue);
  dp_resource_release(queue);
}

/* ---- New attempts ---- */
static attempt *make_attempt(dp_queue *queue, attempt_kind kind, dp_queue_done_fn done, void *arg) {
  attempt *made = DP_NEW(attempt);
  made->queue = queue;
  made->kind = kind;
  made->done = done;
  made->arg = arg;
  made->wanted = 1;
  return made;
}

static void start(attempt *started, dp_cancel *cancel) {
  /* Once the attempt waits, any thread may end it and release the caller's reference to the
   * queue. */
  dp_queue *queue = dp_resource_retain(started->queue);
  pthread_mutex_lock(&queue->lock);
  dp_waiters *line = started->kind == DEQUEUE ? &queue->dequeues : &queue->enqueues;
  bool is_live = dp_waiters_join(line, &started->waiter, cancel);
  pthread_mutex_unlock(&queue->lock);
  if (is_live) {
    flush(queue);
  } else {
    started->status = cancelled(started->kind);
    end(started);
  }
  dp_resource_release(queue);
}

void dp_queue_enqueue(dp_queue *queue, dp_tensor *tuple, bool many, dp_cancel *cancel,
                      dp_queue_done_fn done, void *arg) {
  attempt *made = make_attempt(queue, ENQUEUE, done, arg);
  int32_t components = queue->options.component_count;
  made->many = many;
  made->tuple = dp_pieces_create(components);
  for (int32_t i = 0; i < components; ++i)
    made->tuple[i] = dp_tensor_take(&tuple[i]);
  if (many)
    made->wanted = made->tuple[0].shape.dims[0];
  if (made->wanted == 0)
    end(made);
  else
    start(made, cancel);
}

void dp_queue_dequeue(dp_queue *queue, dp_cancel *cancel, dp_queue_done_fn done, void *arg) {
  start(make_attempt(queue, DEQUEUE, done, arg), cancel);
}

void dp_queue_dequeue_many(dp_queue *queue, int64_t count, bool allow_fewer, dp_cancel *cancel,
                           dp_queue_done_fn done, void *arg) {
  attempt *made = make_attempt(queue, DEQUEUE, done, arg);
  made->many = true;
  made->allows_fewer = allow_fewer;
  made->wanted = count;
  if (queue->options.shape_count == 0)
    made->status = DP_INVALID("%s's DequeueMany and DequeueUpTo require the components to have "
                              "specified shapes.",
                              dp_queue_kind_name(queue->options.kind));
  if (made->status || count == 0)
    end(made);
  else
    start(made, cancel);
}

/* `cancel_pending`: waiting enqueues end now. */
static void cancel_enqueues(dp_queue *queue) {
  dp_waiters ended = {0};
  pthread_mutex_lock(&queue->lock);
  queue->is_closed = true;
  while (queue->enqueues.first) {
    attempt *gone = (attempt *)queue->enqueues.first;
    dp_waiters_take(&queue->enqueues, &gone->waiter);
    gone->status = cancelled(ENQUEUE);
    dp_waiters_collect(&ended, &gone->waiter);
  }
  pthread_mutex_unlock(&queue->lock);
  end_all(&ended);
}

void dp_queue_close(dp_queue *queue, bool cancel_pending, dp_queue_done_fn done, void *arg) {
  if (!cancel_pending) {
    start(make_attempt(queue, CLOSE, done, arg), NULL);
    return;
  }
  cancel_enqueues(queue);
  flush(queue);
  done(arg, NULL, NULL);
}

/* ---- Questions ---- */
static dp_status *check_shape(const dp_queue *queue, int32_t index, const dp_shape *shape,
                              bool many, int64_t rows) {
  const dp_queue_options *options = &queue->options;
  if (options->shape_count == 0)
    return NULL;
  dp_partial_shape expected = options->shapes[index];
  if (many) {
    int64_t dims[DP_MAX_RANK + 1] = {rows};
    memcpy(dims + 1, expected.dims, sizeof(int64_t) * (size_t)expected.rank);
    DP_RETURN_IF_ERROR(dp_partial_shape_make(expected.rank + 1, dims, &expected));
  }
  if (dp_partial_shape_accepts(&expected, shape))
    return NULL;
  return DP_INVALID("Shape mismatch in tuple component %d. Expected %s, got %s", index,
                    dp_partial_shape_text(&expected), dp_shape_text(shape));
}

static dp_status *check_priority(const dp_tensor *tensor, bool many) {
  if (tensor->shape.rank == (many ? 1 : 0))
    return NULL;
  return DP_INVALID("Expected the priority element to be a %s, but received shape: %s",
                    many ? "vector" : "scalar", dp_shape_text(&tensor->shape));
}

dp_status *dp_queue_check(const dp_queue *queue, const dp_tensor *tuple, int32_t count, bool many) {
  const dp_queue_options *options = &queue->options;
  if (count != options->component_count)
    return DP_INVALID("Wrong number of components in tuple. Expected %d, got %d",
                      options->component_count, count);
  for (int32_t i = 0; i < count; ++i) {
    if (tuple[i].dtype != options->dtypes[i])
      return DP_INVALID("Type mismatch in tuple component %d. Expected %s, got %s", i,
                        dp_dtype_name(options->dtypes[i]), dp_dtype_name(tuple[i].dtype));
    if (many && tuple[i].shape.rank == 0)
      return DP_INVALID("Tuple component %d must have at least one dimension", i);
  }
  int64_t rows = many ? tuple[0].shape.dims[0] : 0;
  for (int32_t i = 0; i < count; ++i) {
    DP_RETURN_IF_ERROR(check_shape(queue, i, &tuple[i].shape, many, rows));
    if (many && tuple[i].shape.dims[0] != rows)
      return DP_INVALID("All input tensors must have the same size in the 0th dimension. Component "
                        "%d has %lld, and should have %lld",
                        i, (long long)tuple[i].shape.dims[0], (long long)rows);
  }
  return options->kind == DP_QUEUE_PRIORITY ? check_priority(&tuple[0], many) : NULL;
}

int64_t dp_queue_size(dp_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  int64_t size = queue->store.count;
  pthread_mutex_unlock(&queue->lock);
  return size;
}

bool dp_queue_is_closed(dp_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  bool is_closed = queue->is_closed;
  pthread_mutex_unlock(&queue->lock);
  return is_closed;
}
