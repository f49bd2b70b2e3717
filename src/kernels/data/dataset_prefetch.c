/* Walks that run ahead of their reader: Prefetch, ParallelMap, MapAndBatch.
 *
 * A runner on a thread of its own takes elements from the input and puts them into slots. A slot is
 * ready at once (Prefetch), or when its call of the function ends (ParallelMap, several calls at a
 * time). The reader takes slots in order; where order does not matter, it takes the first slot that
 * is ready. Destroying the iterator triggers the cancel scope that the runner and its calls watch,
 * then waits for both. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

#define AUTOTUNE (-1)
#define AUTOTUNE_BUFFER 4

typedef struct ahead_dataset {
  dp_dataset base;
  int64_t buffer; /* most slots; 0: do not run ahead */
  int64_t calls;  /* most calls at a time; 0: no function */
  dp_captured function;
  bool is_ordered, preserve_cardinality;
} ahead_dataset;

typedef struct ahead ahead;
typedef struct slot {
  struct slot *next;
  ahead *owner;
  dp_tensor *element; /* component_count of the dataset */
  dp_tensor *input;   /* the arguments of the call */
  dp_status *status;
  bool is_ready, is_end;
} slot;

struct ahead {
  dp_iterator base;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  dp_cancel *cancel;
  slot *first, *last;
  int64_t slots, in_flight;
  int64_t buffer, calls;
  bool is_ordered;
  bool has_started, is_running, is_stopping;
};

static void slot_destroy(slot *slot) {
  dp_dataset *dataset = slot->owner->base.dataset;
  dp_element_destroy(slot->element, dataset->component_count);
  dp_element_destroy(slot->input, dataset->input ? dataset->input->component_count : 0);
  dp_status_release(slot->status);
  dp_free(slot);
}

/* ---- The runner ---- */
static void end_call(void *arg, dp_status *status, dp_tensor *results, int32_t count) {
  slot *slot = arg;
  ahead *ahead = slot->owner;
  const ahead_dataset *dataset = (const ahead_dataset *)ahead->base.dataset;
  if (!status && count != dataset->base.component_count)
    status = DP_INVALID("the function gave %d results for %d components", count,
                        dataset->base.component_count);
  for (int32_t i = 0; !status && i < count; ++i)
    slot->element[i] = dp_tensor_take(&results[i]);
  pthread_mutex_lock(&ahead->mutex);
  if (dp_status_code(status) == DP_OUT_OF_RANGE) {
    dp_status *changed = NULL;
    if (dataset->preserve_cardinality)
      changed =
          DP_INVALID("Function invocation produced OutOfRangeError: %s", dp_status_message(status));
    else
      slot->is_end = true;
    dp_status_release(status);
    status = changed;
  } else {
    status = dp_iterator_blame(&ahead->base, status);
  }
  slot->status = status;
  slot->is_ready = true;
  --ahead->in_flight;
  pthread_cond_broadcast(&ahead->changed);
  pthread_mutex_unlock(&ahead->mutex);
}

/* With the lock held: waits for room. False when the runner must stop. */
static bool wait_for_room(ahead *ahead, const dp_walk *walk) {
  while (!ahead->is_stopping &&
         (ahead->slots >= ahead->buffer || (ahead->calls && ahead->in_flight >= ahead->calls)))
    dp_status_release(dp_dataset_wait(&ahead->changed, &ahead->mutex, walk));
  return !ahead->is_stopping;
}

static void run(void *arg) {
  ahead *ahead = arg;
  ahead_dataset *dataset = (ahead_dataset *)ahead->base.dataset;
  dp_walk walk = {ahead->cancel};
  bool goes_on = true;
  pthread_mutex_lock(&ahead->mutex);
  while (goes_on && wait_for_room(ahead, &walk)) {
    pthread_mutex_unlock(&ahead->mutex);
    slot *slot = DP_NEW(struct slot);
    slot->owner = ahead;
    slot->element = dp_element_create(dataset->base.component_count);
    dp_tensor *to = slot->element;
    if (ahead->calls)
      to = slot->input = dp_element_create(dataset->base.input->component_count);
    bool more;
    slot->status = dp_iterator_next(ahead->base.input, &walk, to, &more);
    slot->is_end = !slot->status && !more;
    bool calls = ahead->calls && more && !slot->status;
    slot->is_ready = !calls;
    goes_on = !slot->is_end;
    pthread_mutex_lock(&ahead->mutex);
    *(ahead->last ? &ahead->last->next : &ahead->first) = slot;
    ahead->last = slot;
    ++ahead->slots;
    ahead->in_flight += calls;
    pthread_cond_broadcast(&ahead->changed);
    if (!calls)
      continue;
    pthread_mutex_unlock(&ahead->mutex);
    dp_captured_call(&dataset->function, ahead->cancel, slot->input,
                     dataset->base.input->component_count, end_call, slot);
    pthread_mutex_lock(&ahead->mutex);
  }
  ahead->is_running = false;
  pthread_cond_broadcast(&ahead->changed);
  pthread_mutex_unlock(&ahead->mutex);
}

/* ---- The reader ---- */
/* With the lock held: takes the slot to read next off the list; NULL when none is ready. */
static slot *take_ready(ahead *ahead) {
  slot *previous = NULL, *slot = ahead->first;
  while (slot && !slot->is_ready && !ahead->is_ordered) {
    previous = slot;
    slot = slot->next;
  }
  if (slot && slot->is_end && previous) /* elements before the end are not ready yet */
    return NULL;
  if (!slot || !slot->is_ready)
    return NULL;
  *(previous ? &previous->next : &ahead->first) = slot->next;
  if (ahead->last == slot)
    ahead->last = previous;
  --ahead->slots;
  return slot;
}

static dp_status *ahead_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  ahead *ahead = (struct ahead *)base;
  slot *slot = NULL;
  dp_status *status = NULL;
  pthread_mutex_lock(&ahead->mutex);
  if (!ahead->has_started) {
    ahead->has_started = ahead->is_running = true;
    dp_dataset_run(run, ahead);
  }
  while (!(slot = take_ready(ahead)) && !status && (ahead->is_running || ahead->first))
    status = dp_dataset_wait(&ahead->changed, &ahead->mutex, walk);
  pthread_cond_broadcast(&ahead->changed);
  pthread_mutex_unlock(&ahead->mutex);
  if (!slot)
    return status;
  dp_status_release(status);
  status = slot->status;
  slot->status = NULL;
  *more_out = !slot->is_end;
  for (int32_t i = 0; !status && *more_out && i < base->dataset->component_count; ++i)
    element[i] = dp_tensor_take(&slot->element[i]);
  slot_destroy(slot);
  return status;
}

static void ahead_destroy(dp_iterator *base) {
  ahead *ahead = (struct ahead *)base;
  dp_cancel_trigger(ahead->cancel,
                    dp_status_create(DP_CANCELLED, "the iterator of a dataset is gone"));
  pthread_mutex_lock(&ahead->mutex);
  ahead->is_stopping = true;
  pthread_cond_broadcast(&ahead->changed);
  while (ahead->is_running || ahead->in_flight > 0)
    pthread_cond_wait(&ahead->changed, &ahead->mutex);
  pthread_mutex_unlock(&ahead->mutex);
  while (ahead->first) {
    slot *slot = ahead->first;
    ahead->first = slot->next;
    slot_destroy(slot);
  }
  dp_cancel_release(ahead->cancel);
  pthread_cond_destroy(&ahead->changed);
  pthread_mutex_destroy(&ahead->mutex);
}

static const dp_iterator_ops ahead_iterator_ops = {sizeof(struct ahead), ahead_next, ahead_destroy};

static ahead *ahead_create(int64_t buffer, int64_t calls, bool is_ordered) {
  ahead *ahead = dp_iterator_create(&ahead_iterator_ops);
  pthread_mutex_init(&ahead->mutex, NULL);
  pthread_cond_init(&ahead->changed, NULL);
  ahead->cancel = dp_cancel_create(NULL, DP_FOREVER);
  ahead->buffer = buffer;
  ahead->calls = calls;
  ahead->is_ordered = is_ordered;
  return ahead;
}

dp_iterator *dp_iterator_prefetch(dp_iterator *iterator, int64_t buffer) {
  ahead *ahead = ahead_create(buffer, 0, true);
  ahead->base.input = iterator;
  ahead->base.dataset = dp_dataset_retain(iterator->dataset);
  return &ahead->base;
}

/* ---- Datasets ---- */
/* A buffer of size 0: passes the input on. */
static dp_status *pass_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  return dp_iterator_next_input(base, walk, element, more_out);
}

static const dp_iterator_ops pass_iterator_ops = {sizeof(dp_iterator), pass_next, NULL};

static dp_iterator *ahead_iterate(dp_dataset *base) {
  ahead_dataset *dataset = (ahead_dataset *)base;
  if (dataset->buffer == 0)
    return dp_iterator_create(&pass_iterator_ops);
  ahead *ahead = ahead_create(dataset->buffer, dataset->calls, dataset->is_ordered);
  ahead->base.input = dp_iterator_over(&ahead->base, base->input, -1);
  return &ahead->base;
}

static int64_t ahead_cardinality(dp_dataset *base) {
  ahead_dataset *dataset = (ahead_dataset *)base;
  return dataset->calls && !dataset->preserve_cardinality ? DP_CARDINALITY_UNKNOWN
                                                          : dp_dataset_cardinality(base->input);
}

static void ahead_dataset_destroy(dp_dataset *base) {
  dp_captured_deinit(&((ahead_dataset *)base)->function);
}

static const dp_dataset_ops prefetch_ops = {"Prefetch", NULL, ahead_cardinality,
                                            ahead_dataset_destroy, .iterate = ahead_iterate};

static dp_status *prefetch_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t buffer;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "buffer_size", &buffer));
  if (buffer < 0 && buffer != AUTOTUNE)
    return DP_INVALID("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning");
  ahead_dataset *dataset = dp_dataset_create(&prefetch_ops, sizeof(ahead_dataset), input);
  dataset->buffer = buffer == AUTOTUNE ? AUTOTUNE_BUFFER : buffer;
  dataset->is_ordered = true;
  return dp_dataset_output(context, 0, &dataset->base);
}

/* ---- ParallelMap ---- */
/* Elements come in order unless the node says that they need not. */
static dp_status *read_order(const dp_node *node, bool *is_ordered_out) {
  *is_ordered_out = true;
  if (dp_node_attr(node, "sloppy")) {
    bool sloppy;
    DP_RETURN_IF_ERROR(dp_node_get_bool(node, "sloppy", &sloppy));
    *is_ordered_out = !sloppy;
  }
  if (dp_node_attr(node, "deterministic")) {
    dp_view text;
    DP_RETURN_IF_ERROR(dp_node_get_string(node, "deterministic", &text));
    *is_ordered_out = !dp_view_equals(text, "false");
  }
  return NULL;
}

static dp_status *make_parallel_map(dp_op_context *context, int64_t calls,
                                    dp_dataset **dataset_out) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  if (calls <= 0 && calls != AUTOTUNE)
    return DP_INVALID("num_parallel_calls must be greater than zero.");
  ahead_dataset *dataset = dp_dataset_create(&prefetch_ops, sizeof(ahead_dataset), input);
  dataset->calls = calls == AUTOTUNE ? dp_core_count() : calls;
  dataset->buffer = dataset->calls;
  dp_status *status = dp_captured_init(&dataset->function, context, "f", "other_arguments");
  if (!status)
    status = read_order(context->node, &dataset->is_ordered);
  if (!status)
    status =
        dp_node_get_bool(context->node, "preserve_cardinality", &dataset->preserve_cardinality);
  if (!status)
    status = dp_dataset_components_from_node(&dataset->base, context->node);
  if (status) {
    dp_dataset_release(&dataset->base);
    return status;
  }
  *dataset_out = &dataset->base;
  return NULL;
}

static dp_status *parallel_map_compute(dp_op_context *context, void *state) {
  int64_t calls;
  dp_dataset *dataset;
  DP_RETURN_IF_ERROR(
      dp_dataset_scalar(context, context->input_count - 1, "num_parallel_calls", &calls));
  DP_RETURN_IF_ERROR(make_parallel_map(context, calls, &dataset));
  return dp_dataset_output(context, 0, dataset);
}

/* ---- MapAndBatch: a parallel map, then batches ---- */
static dp_status *map_and_batch_compute(dp_op_context *context, void *state) {
  int64_t size, calls;
  bool drop;
  int32_t last = context->input_count - 1;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, last - 2, "batch_size", &size));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, last - 1, "num_parallel_calls", &calls));
  DP_RETURN_IF_ERROR(dp_dataset_bool(context, last, "drop_remainder", &drop));
  if (size <= 0)
    return DP_INVALID("batch_size must be greater than zero.");
  dp_dataset *mapped;
  DP_RETURN_IF_ERROR(make_parallel_map(context, calls, &mapped));
  /* The node declares shapes of batches; the shapes of elements lack the first dimension. */
  for (int32_t i = 0; i < mapped->component_count; ++i) {
    dp_partial_shape *shape = &mapped->shapes[i];
    if (shape->rank > 0)
      memmove(shape->dims, shape->dims + 1, (size_t)--shape->rank * sizeof(int64_t));
  }
  dp_dataset *batched = dp_dataset_batch(mapped, size, drop);
  dp_dataset_release(mapped);
  return dp_dataset_output(context, 0, batched);
}

#define ROW(name, body)                                                                            \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
static const dp_kernel rows[] = {
    ROW("PrefetchDataset", prefetch_compute),
    ROW("ParallelMapDataset", parallel_map_compute),
    ROW("ParallelMapDatasetV2", parallel_map_compute),
    ROW("MapAndBatchDataset", map_and_batch_compute),
    ROW("ExperimentalMapAndBatchDataset", map_and_batch_compute),
};
DP_KERNEL_FAMILY(dataset_prefetch, rows);
