/* The batcher (batching_internal.h): queues of batches, the order in which they run, and how calls
 * come and leave. Threads of any kind enter: kernels that start calls, the timer, pool threads that
 * run batches, and whoever cancels a step. Under the lock, batches that are ready are only put on a
 * list; they are launched after the lock is released. */
#include "kernels/data/batching_internal.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/shared/pieces.h"

/* The last batch is the open one; there is always one. */
struct dp_batch_queue {
  char *name;
  dp_batch *first, *last;
  int64_t count;
};

/* ---- Batches ---- */
static void append_open(dp_batcher *batcher, dp_batch_queue *queue) {
  dp_batch *batch = DP_NEW(dp_batch);
  batch->batcher = batcher;
  batch->queue = queue;
  if (queue->last)
    queue->last->next = batch;
  else
    queue->first = batch;
  queue->last = batch;
  ++queue->count;
}

/* Without the lock held. The batch must be out of its queue and must not run. */
static void destroy_batch(dp_batch *batch) {
  if (batch->timer)
    dp_timer_cancel(batch->timer);
  for (int64_t i = 0; i < batch->slot_count; ++i) {
    dp_pieces_destroy(batch->slots[i].inputs, batch->slots[i].input_count);
    if (batch->slots[i].outputs)
      dp_pieces_destroy(batch->slots[i].outputs, batch->output_count);
  }
  if (batch->carried)
    dp_pieces_destroy(batch->carried, batch->output_count);
  dp_free(batch->slots);
  dp_captured_deinit(&batch->function);
  dp_cancel_release(batch->cancel);
  if (batch->device)
    dp_device_release(batch->device);
  DP_ARRAY_FREE(&batch->parts);
  dp_free(batch);
}

/* Takes a batch out of its queue. If it was the last one, the queue gets a new open batch. */
static void unlink_batch(dp_batch *batch) {
  dp_batch_queue *queue = batch->queue;
  if (batch == queue->last)
    append_open(batch->batcher, queue);
  dp_batch **place = &queue->first;
  while (*place != batch)
    place = &(*place)->next;
  *place = batch->next;
  batch->next = NULL;
  --queue->count;
}

/* ---- Life ---- */
static void destroy(dp_resource *resource) {
  dp_batcher *batcher = (dp_batcher *)resource;
  for (size_t i = 0; i < batcher->queues.count; ++i) {
    dp_batch_queue *queue = batcher->queues.items[i];
    destroy_batch(queue->first); /* the open batch; it is empty because calls retain the batcher */
    dp_free(queue->name);
    dp_free(queue);
  }
  DP_ARRAY_FREE(&batcher->queues);
  DP_ARRAY_FREE(&batcher->options.allowed);
  pthread_mutex_destroy(&batcher->lock);
  dp_free(batcher);
}

static void describe(dp_resource *resource, dp_text *text) {
  dp_batcher *batcher = (dp_batcher *)resource;
  pthread_mutex_lock(&batcher->lock);
  dp_text_printf(text, "%zu queues of batches, %lld batches under way, %lld calls",
                 batcher->queues.count, (long long)batcher->running,
                 (long long)batcher->line.count);
  pthread_mutex_unlock(&batcher->lock);
}

const dp_resource_ops dp_batcher_ops = {"BatchResource", destroy, describe};
const dp_resource_ops dp_function_batcher_ops = {"BatchFunctionResource", destroy, describe};

static void leave(dp_waiter *waiter);
static void end_cancelled(dp_waiter *waiter);

dp_batcher *dp_batcher_create(const dp_resource_ops *ops, const dp_batch_options *options,
                              dp_batch_run_fn run) {
  dp_batcher *batcher = DP_NEW(dp_batcher);
  dp_resource_init(&batcher->resource, ops);
  batcher->options = *options;
  memset(&batcher->options.allowed, 0, sizeof batcher->options.allowed);
  for (size_t i = 0; i < options->allowed.count; ++i)
    DP_ARRAY_PUSH(&batcher->options.allowed, options->allowed.items[i]);
  batcher->run = run;
  pthread_mutex_init(&batcher->lock, NULL);
  batcher->line = (dp_waiters){.lock = &batcher->lock, .leave = leave, .end = end_cancelled};
  return batcher;
}

/* ---- Starting batches ---- */
/* With the lock held. Copies and moves what the run needs out of the calls, because a call may
 * leave at any time from now on. */
static void prepare(dp_batch *batch) {
  size_t count = batch->parts.count;
  dp_batch_call *last = batch->parts.items[count - 1]->call;
  batch->is_running = true;
  batch->live = batch->slot_count = (int64_t)count;
  batch->cancel = dp_cancel_create(NULL, DP_FOREVER);
  batch->device = dp_device_retain(last->context->device);
  batch->output_count = last->context->output_count;
  dp_captured_copy(&last->function, &batch->function);
  batch->slots = DP_NEW_ARRAY(dp_batch_slot, count);
  for (size_t i = 0; i < count; ++i) {
    dp_batch_part *part = batch->parts.items[i];
    batch->slots[i] = (dp_batch_slot){part->call->id, part->rows, part->call->input_count,
                                      part->inputs, dp_pieces_create(batch->output_count)};
    part->inputs = NULL;
  }
  dp_resource_retain(batch->batcher);
}

static bool is_ready(const dp_batcher *batcher, const dp_batch *batch) {
  return batch->next ||
         (batch->parts.count > 0 && (batch->is_due || batch->rows >= batcher->options.batch_limit));
}

/* Queues are asked in turn, for fairness. */
static dp_batch *take_ready(dp_batcher *batcher) {
  size_t count = batcher->queues.count;
  for (size_t i = 0; i < count; ++i) {
    dp_batch_queue *queue = batcher->queues.items[(batcher->turn + i) % count];
    dp_batch *batch = queue->first;
    if (!is_ready(batcher, batch))
      continue;
    batcher->turn = (batcher->turn + i + 1) % count;
    unlink_batch(batch);
    return batch;
  }
  return NULL;
}

/* With the lock held: takes the batches that may run now out of their queues, as a list for
 * launch. */
static dp_batch *start_ready(dp_batcher *batcher) {
  dp_batch *started = NULL, **place = &started;
  while (batcher->running < batcher->options.threads && (*place = take_ready(batcher))) {
    ++batcher->running;
    prepare(*place);
    place = &(*place)->next;
  }
  return started;
}

static void run_batch(void *arg) {
  dp_batch *batch = arg;
  batch->batcher->run(batch);
}

/* Without the lock held. */
static void launch(dp_batch *started) {
  for (dp_batch *next; started; started = next) {
    next = started->next;
    started->next = NULL;
    if (started->timer)
      dp_timer_cancel(started->timer);
    started->timer = 0;
    dp_pool_run(started->device->compute, run_batch, started);
  }
}

/* destroy_batch cancels the timer first, so the batch exists here; it may run already. */
static void on_time(void *arg) {
  dp_batch *batch = arg;
  dp_batcher *batcher = dp_resource_retain(batch->batcher);
  pthread_mutex_lock(&batcher->lock);
  batch->is_due = true;
  dp_batch *started = start_ready(batcher);
  pthread_mutex_unlock(&batcher->lock);
  launch(started);
  dp_resource_release(batcher);
}

/* ---- The end of a batch ---- */
/* With the lock held. */
static void end_part(dp_batch *batch, int64_t index, dp_status *status, dp_waiters *ended) {
  dp_batch_part *part = batch->parts.items[index];
  dp_batch_call *call = part->call;
  dp_batch_slot *slot = &batch->slots[index];
  part->batch = NULL;
  if (!status && call->context->output_count != batch->output_count)
    status = dp_status_create(DP_INTERNAL, "Wrong number of batched output tensors");
  else if (status)
    status = dp_status_retain(status);
  if (!status) {
    part->outputs = slot->outputs;
    slot->outputs = NULL;
  }
  if (call->status)
    dp_status_release(status);
  else
    call->status = status;
  if (--call->pending > 0)
    return;
  if (call->waiter.is_waiting)
    dp_waiters_take(&batch->batcher->line, &call->waiter);
  dp_waiters_collect(ended, &call->waiter);
}

/* The last call that has not left gets the carried outputs. */
static void give_carried(dp_batch *batch) {
  for (int64_t i = batch->slot_count; batch->carried && i-- > 0;) {
    if (!batch->parts.items[i])
      continue;
    dp_tensor *outputs = batch->slots[i].outputs;
    for (int32_t j = 0; j < batch->output_count; ++j) {
      if (!dp_tensor_is_set(&batch->carried[j]))
        continue;
      dp_tensor_deinit(&outputs[j]);
      outputs[j] = dp_tensor_take(&batch->carried[j]);
    }
    return;
  }
}

void dp_batch_end(dp_batch *batch, dp_status *status) {
  dp_batcher *batcher = batch->batcher;
  dp_waiters ended = {0};
  pthread_mutex_lock(&batcher->lock);
  give_carried(batch);
  for (int64_t i = 0; i < batch->slot_count; ++i)
    if (batch->parts.items[i])
      end_part(batch, i, status, &ended);
  --batcher->running;
  dp_batch *started = start_ready(batcher);
  pthread_mutex_unlock(&batcher->lock);
  launch(started);
  destroy_batch(batch);
  dp_status_release(status);
  for (dp_waiter *waiter = ended.first, *next; waiter; waiter = next) {
    next = waiter->next;
    dp_batch_call_finish((dp_batch_call *)waiter);
  }
  dp_resource_release(batcher);
}

/* ---- Calls that leave ---- */
static size_t place_of(const dp_batch_part *part) {
  size_t i = 0;
  while (part->batch->parts.items[i] != part)
    ++i;
  return i;
}

/* Takes a part out of its batch. An empty batch is discarded. The last part of a running batch
 * stays. */
static void leave_part(dp_batch_part *part) {
  dp_batch *batch = part->batch;
  size_t place = place_of(part);
  if (batch->is_running && batch->live == 1) {
    part->scope = dp_cancel_retain(batch->cancel);
    ++part->call->pending;
    return;
  }
  part->batch = NULL;
  if (batch->is_running) {
    batch->parts.items[place] = NULL;
    --batch->live;
    return;
  }
  --batch->parts.count;
  memmove(batch->parts.items + place, batch->parts.items + place + 1,
          sizeof(dp_batch_part *) * (batch->parts.count - place));
  batch->rows -= part->rows;
  if (batch->parts.count > 0)
    return;
  unlink_batch(batch);
  batch->next = part->call->discarded;
  part->call->discarded = batch;
}

dp_status *dp_batch_cancelled(void) {
  return dp_status_create(DP_CANCELLED, "Batching operation was cancelled");
}

static void leave(dp_waiter *waiter) {
  dp_batch_call *call = (dp_batch_call *)waiter;
  call->pending = 1; /* until end_cancelled */
  for (int32_t i = 0; i < call->part_count; ++i)
    if (call->parts[i].batch)
      leave_part(&call->parts[i]);
  if (!call->status)
    call->status = dp_batch_cancelled();
}

static void end_cancelled(dp_waiter *waiter) {
  dp_batch_call *call = (dp_batch_call *)waiter;
  for (dp_batch *batch = call->discarded, *next; batch; batch = next) {
    next = batch->next;
    destroy_batch(batch);
  }
  for (int32_t i = 0; i < call->part_count; ++i) {
    if (!call->parts[i].scope)
      continue;
    dp_cancel_trigger(call->parts[i].scope, dp_batch_cancelled());
    dp_cancel_release(call->parts[i].scope);
  }
  pthread_mutex_lock(&call->batcher->lock);
  bool is_last = --call->pending == 0;
  pthread_mutex_unlock(&call->batcher->lock);
  if (is_last)
    dp_batch_call_finish(call);
}

/* ---- Calls that come ---- */
static dp_status *check_options(const dp_batch_options *options) {
  if (options->input_limit <= 0)
    return DP_INVALID("input_batch_size_limit must be positive; was %lld",
                      (long long)options->input_limit);
  if (options->timeout_micros < 0)
    return DP_INVALID("batch_timeout_micros must be non-negative; was %lld",
                      (long long)options->timeout_micros);
  if (options->queue_limit <= 0)
    return DP_INVALID("max_enqueued_batches must be positive; was %lld",
                      (long long)options->queue_limit);
  if (options->splits && options->input_limit < options->batch_limit)
    return DP_INVALID("When enable_large_batch_splitting is true, input_batch_size_limit must be "
                      "greater than or equal to max_execution_batch_size.1%lld%lld",
                      (long long)options->input_limit, (long long)options->batch_limit);
  return NULL;
}

static dp_status *find_queue(dp_batcher *batcher, const char *name, dp_batch_queue **queue_out) {
  for (size_t i = 0; i < batcher->queues.count; ++i) {
    *queue_out = batcher->queues.items[i];
    if (strcmp((*queue_out)->name, name) == 0)
      return NULL;
  }
  DP_RETURN_IF_ERROR(check_options(&batcher->options));
  dp_batch_queue *queue = DP_NEW(dp_batch_queue);
  queue->name = dp_strdup(name);
  append_open(batcher, queue);
  DP_ARRAY_PUSH(&batcher->queues, queue);
  *queue_out = queue;
  return NULL;
}

static dp_status *check_splitting_room(const dp_batch_options *options, const dp_batch_queue *queue,
                                       int64_t rows) {
  int64_t room =
      (options->queue_limit - queue->count + 1) * options->batch_limit - queue->last->rows;
  if (rows <= room)
    return NULL;
  return dp_status_create(
      DP_UNAVAILABLE,
      "The batch scheduling queue to which this task was submitted is full; task size is %lld but "
      "scheduling capacity is only %lld (num_enqueued_batches=%lld, max_enqueued_batches=%lld, "
      "open_batch_size=%lld, max_execution_batch_size=%lld)",
      (long long)rows, (long long)room, (long long)queue->count, (long long)options->queue_limit,
      (long long)queue->last->rows, (long long)options->batch_limit);
}

static dp_status *check_room(const dp_batch_options *options, const dp_batch_queue *queue,
                             int64_t rows) {
  if (rows > options->input_limit)
    return DP_INVALID("Task size %lld is larger than maximum input batch size %lld",
                      (long long)rows, (long long)options->input_limit);
  if (options->splits)
    return check_splitting_room(options, queue, rows);
  if (queue->last->rows + rows > options->input_limit && queue->count >= options->queue_limit)
    return dp_status_create(DP_UNAVAILABLE,
                            "The batch scheduling queue to which this task was submitted is full; "
                            "currently %lld batches enqueued and max_enqueued_batches is %lld",
                            (long long)queue->count, (long long)options->queue_limit);
  return NULL;
}

static void add_part(dp_batcher *batcher, dp_batch_queue *queue, dp_batch_part *part) {
  if (queue->last->rows + part->rows > batcher->options.batch_limit)
    append_open(batcher, queue);
  dp_batch *batch = queue->last;
  if (batch->parts.count == 0) {
    int64_t timeout = batcher->options.timeout_micros * 1000;
    batch->is_due = timeout == 0;
    if (timeout > 0)
      batch->timer = dp_timer_start(dp_clock_nanos() + timeout, on_time, batch);
  }
  DP_ARRAY_PUSH(&batch->parts, part);
  batch->rows += part->rows;
  part->batch = batch;
}

/* With the lock held. After success the call waits, and any thread may end it once the lock is
 * released. */
static dp_status *enqueue(dp_batcher *batcher, const char *name, dp_batch_call *call) {
  const dp_batch_options *options = &batcher->options;
  dp_batch_queue *queue;
  DP_RETURN_IF_ERROR(find_queue(batcher, name, &queue));
  DP_RETURN_IF_ERROR(check_room(options, queue, call->rows));
  int64_t room = options->splits ? options->batch_limit - queue->last->rows : call->rows;
  DP_RETURN_IF_ERROR(dp_batch_call_split(call, room, options->batch_limit));
  if (!dp_waiters_join(&batcher->line, &call->waiter, call->context->step->cancel))
    return dp_batch_cancelled();
  call->pending = call->part_count;
  for (int32_t i = 0; i < call->part_count; ++i)
    add_part(batcher, queue, &call->parts[i]);
  return NULL;
}

void dp_batcher_start(dp_batcher *batcher, const char *queue, dp_batch_call *call) {
  dp_batch *started = NULL;
  call->batcher = batcher;
  dp_resource_retain(
      batcher); /* for this function: the call may release its reference at any time */
  pthread_mutex_lock(&batcher->lock);
  dp_status *status = enqueue(batcher, queue, call);
  if (!status)
    started = start_ready(batcher);
  pthread_mutex_unlock(&batcher->lock);
  launch(started);
  if (status) {
    call->status = status;
    dp_batch_call_finish(call);
  }
  dp_resource_release(batcher);
}
