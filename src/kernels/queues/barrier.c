/* Barriers: elements under a key whose components come one by one, from different ops and steps. An
 * element that is whole goes to the barrier's queue of ready ones, from which TakeMany takes; first
 * go those whose key was seen first (all new keys of one InsertMany are equal in that).
 *
 * Any thread may enter. The lock guards the incomplete elements and the closing; the queue has its
 * own and is entered with none held. The queue closes when the barrier is closed and nothing is
 * incomplete any more. */
#include <pthread.h>
#include <string.h>
#include "base/map.h"
#include "base/memory.h"
#include "kernels/shared/family.h"
#include "kernels/shared/handle.h"
#include "kernels/queues/queue_internal.h"

/* Before the values, an element of the queue has its priority and its key. */
enum { PRIORITY, KEY, VALUES };

typedef struct barrier {
  dp_resource resource;
  char *name;
  dp_queue *ready; /* held */
  int32_t component_count;
  pthread_mutex_t lock; /* for all below */
  dp_map *incomplete;   /* key to an array as the queue has it */
  int64_t next_priority;
  bool is_closed;
  bool cancels_pending; /* closed for the incomplete ones too */
  bool is_queue_closed;
} barrier;

/* ---- Life ---- */
static void drop_incomplete(barrier *self) {
  const char *key;
  void *element;
  for (size_t at = 0; dp_map_next(self->incomplete, &at, &key, &element);)
    dp_pieces_destroy(element, self->component_count + VALUES);
  dp_map_destroy(self->incomplete);
  self->incomplete = dp_map_create();
}

static void barrier_destroy(dp_resource *resource) {
  barrier *self = (barrier *)resource;
  drop_incomplete(self);
  dp_map_destroy(self->incomplete);
  dp_resource_release(self->ready);
  pthread_mutex_destroy(&self->lock);
  dp_free(self->name);
  dp_free(self);
}

static void barrier_describe(dp_resource *resource, dp_text *text) {
  barrier *self = (barrier *)resource;
  pthread_mutex_lock(&self->lock);
  dp_text_printf(text, "barrier with %lld ready and %zu incomplete elements%s",
                 (long long)dp_queue_size(self->ready), dp_map_count(self->incomplete),
                 self->is_closed ? ", closed" : "");
  pthread_mutex_unlock(&self->lock);
}

static const dp_resource_ops barrier_ops = {"N10tensorflow7barrier7BarrierE", barrier_destroy,
                                            barrier_describe};

typedef struct make_state {
  dp_resource_name name;
  dp_resources *resources;
  const dp_attr *types, *shapes;
} make_state;

static dp_status *make_create(const dp_kernel_setup *setup, void *memory) {
  make_state *state = memory;
  state->resources = dp_resources_retain(setup->device->resources);
  DP_RETURN_IF_ERROR(
      dp_node_get_list(setup->node, "component_types", DP_ATTR_LIST_TYPE, &state->types));
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "shapes", DP_ATTR_LIST_SHAPE, &state->shapes));
  if (state->shapes->count != 0 && state->shapes->count != state->types->count)
    return DP_INVALID("All of the component shapes must be specified");
  for (int32_t i = 0; i < state->shapes->count; ++i)
    if (!dp_partial_shape_is_known(&state->shapes->shapes[i]))
      return DP_INVALID("All of the component shapes must be fully defined, but shape %d is %s", i,
                        dp_partial_shape_text(&state->shapes->shapes[i]));
  return dp_resource_name_init(&state->name, setup, false);
}

static void make_destroy(void *memory) {
  make_state *state = memory;
  if (state->name.is_private)
    dp_status_release(dp_resources_remove(state->resources, state->name.container, state->name.name,
                                          barrier_ops.type_name));
  dp_resources_release(state->resources);
  dp_resource_name_deinit(&state->name);
}

static dp_status *make_ready_queue(const make_state *state, dp_queue **queue_out) {
  int32_t count = state->types->count + VALUES;
  dp_queue_options options = {.kind = DP_QUEUE_PRIORITY, .capacity = DP_QUEUE_UNBOUNDED};
  options.component_count = count;
  options.dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)count);
  options.shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)count);
  options.shape_count = state->shapes->count ? count : 0;
  options.dtypes[PRIORITY] = DP_INT64;
  options.dtypes[KEY] = DP_STRING;
  for (int32_t i = 0; i < state->types->count; ++i)
    options.dtypes[i + VALUES] = (dp_dtype)state->types->types[i];
  for (int32_t i = 0; i < state->shapes->count; ++i)
    options.shapes[i + VALUES] = state->shapes->shapes[i];
  return dp_queue_create(state->name.name, &options, queue_out);
}

static dp_status *make_barrier(void *arg, dp_resource **resource_out) {
  const make_state *state = arg;
  dp_queue *ready;
  DP_RETURN_IF_ERROR(make_ready_queue(state, &ready));
  barrier *self = DP_NEW(barrier);
  dp_resource_init(&self->resource, &barrier_ops);
  self->name = dp_strdup(state->name.name);
  self->ready = ready;
  self->component_count = state->types->count;
  pthread_mutex_init(&self->lock, NULL);
  self->incomplete = dp_map_create();
  self->next_priority = INT64_MIN;
  *resource_out = &self->resource;
  return NULL;
}

/* Whether a shared barrier is what this node would make. */
static dp_status *check_barrier(const barrier *self, const make_state *state) {
  bool same = self->component_count == state->types->count;
  for (int32_t i = 0; same && i < self->component_count; ++i)
    same = self->ready->options.dtypes[i + VALUES] == (dp_dtype)state->types->types[i];
  if (!same)
    return DP_INVALID("Shared barrier '%s' has other component types than this one", self->name);
  bool has_shapes = self->ready->options.shape_count > 0;
  same = has_shapes == (state->shapes->count > 0);
  for (int32_t i = 0; same && i < state->shapes->count; ++i) {
    dp_partial_shape merged;
    const dp_partial_shape *has = &self->ready->options.shapes[i + VALUES];
    same = has->rank == state->shapes->shapes[i].rank &&
           dp_partial_shape_merge(has, &state->shapes->shapes[i], &merged);
  }
  return same ? NULL
              : DP_INVALID("Shared barrier '%s' has other component shapes than this one",
                           self->name);
}

static dp_status *make_compute(dp_op_context *context, void *memory) {
  make_state *state = memory;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, state->name.container,
                                                 state->name.name, &barrier_ops, make_barrier,
                                                 state, &resource));
  dp_status *status = check_barrier((barrier *)resource, state);
  if (!status)
    status = dp_handle_output(context, 0, resource, state->name.container, state->name.name, false);
  dp_resource_release(resource);
  return status;
}

static dp_status *get_barrier(dp_op_context *context, barrier **barrier_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_handle_input(context, 0, &barrier_ops, DP_HANDLE_RULE, &resource));
  *barrier_out = (barrier *)resource;
  return NULL;
}

/* ---- Inserting ---- */
typedef DP_ARRAY(dp_tensor *) elements;

static void ignore_done(void *arg, dp_status *status, dp_tensor *tuple) {
  dp_status_release(status);
}

/* A new element has its priority and its key; the values come later. */
static dp_status *begin_element(barrier *self, const dp_tensor *keys, int64_t row,
                                dp_tensor **element_out) {
  dp_tensor *element = dp_pieces_create(self->component_count + VALUES);
  dp_shape scalar = dp_shape_scalar();
  dp_status *status = dp_tensor_create(DP_INT64, &scalar, &element[PRIORITY]);
  if (!status)
    status = dp_pieces_cut(keys, row, row + 1, &scalar, &element[KEY]);
  if (status) {
    dp_pieces_destroy(element, self->component_count + VALUES);
    return status;
  }
  *(int64_t *)element[PRIORITY].data = self->next_priority;
  *element_out = element;
  return NULL;
}

static dp_status *brand_new(const barrier *self, dp_view key, int64_t row) {
  return dp_status_create(DP_CANCELLED,
                          "Barrier %s is closed, but attempted to insert a brand new key: %.*s.  "
                          "Pending enqueues cancelled: %d.  Insertion index: %lld.  Number of "
                          "incomplete keys: %zu.",
                          self->name, (int)key.length, key.data, self->cancels_pending,
                          (long long)row, dp_map_count(self->incomplete));
}

/* With the lock held. What is whole now goes to `whole`. */
static dp_status *insert_one(barrier *self, const dp_tensor *keys, const dp_tensor *values,
                             int32_t component, int64_t row, bool *is_new, elements *whole) {
  dp_view key = dp_tstring_view(&dp_tensor_strings(keys)[row]);
  dp_tensor *element = dp_map_get_n(self->incomplete, key.data, key.length);
  if (!element) {
    if (self->is_closed)
      return brand_new(self, key, row);
    DP_RETURN_IF_ERROR(begin_element(self, keys, row, &element));
    dp_map_put_n(self->incomplete, key.data, key.length, element);
    *is_new = true;
  }
  if (dp_tensor_is_set(&element[component + VALUES]))
    return DP_INVALID("Key %.*s already has a value for component %d in barrier %s",
                      (int)key.length, key.data, component, self->name);
  dp_shape shape = dp_shape_remove(&values->shape, 0);
  DP_RETURN_IF_ERROR(dp_pieces_cut(values, row, row + 1, &shape, &element[component + VALUES]));
  for (int32_t i = 0; i < self->component_count; ++i)
    if (!dp_tensor_is_set(&element[i + VALUES]))
      return NULL;
  dp_map_remove_n(self->incomplete, key.data, key.length);
  DP_ARRAY_PUSH(whole, element);
  return NULL;
}

/* With the lock held: whether the queue is to be closed now, by the caller, without it. */
static bool must_close_queue(barrier *self) {
  bool must = self->is_closed && !self->is_queue_closed && dp_map_count(self->incomplete) == 0;
  self->is_queue_closed = self->is_queue_closed || must;
  return must;
}

static dp_status *insert_locked(barrier *self, const dp_tensor *keys, const dp_tensor *values,
                                int32_t component, elements *whole) {
  int64_t count = dp_tensor_elements(keys);
  if (self->is_closed &&
      (self->cancels_pending || (count > 0 && dp_map_count(self->incomplete) == 0)))
    return dp_status_create(DP_CANCELLED,
                            "Barrier %s is closed.  Pending enqueues cancelled: %d.  Number of new "
                            "insertions: %lld.  Number of incomplete keys: %zu.",
                            self->name, self->cancels_pending, (long long)count,
                            dp_map_count(self->incomplete));
  bool is_new = false;
  dp_status *status = NULL;
  for (int64_t i = 0; i < count && !status; ++i)
    status = insert_one(self, keys, values, component, i, &is_new, whole);
  self->next_priority += is_new;
  return status;
}

static dp_status *check_insert(const barrier *self, const dp_tensor *keys, const dp_tensor *values,
                               int64_t component) {
  if (component < 0 || component >= self->component_count)
    return DP_INVALID("The component ID is out of range %lld > num_components (= %d)",
                      (long long)component, self->component_count);
  if (keys->shape.rank != 1)
    return DP_INVALID("keys must be a vector, not of shape %s", dp_shape_text(&keys->shape));
  if (values->shape.rank < 1 || values->shape.dims[0] != keys->shape.dims[0])
    return DP_INVALID("Expected as many values as keys: %s and %s", dp_shape_text(&values->shape),
                      dp_shape_text(&keys->shape));
  const dp_queue_options *options = &self->ready->options;
  if (values->dtype != options->dtypes[component + VALUES])
    return DP_INVALID("Type mismatch for component %lld: expected %s, got %s", (long long)component,
                      dp_dtype_name(options->dtypes[component + VALUES]),
                      dp_dtype_name(values->dtype));
  dp_shape shape = dp_shape_remove(&values->shape, 0);
  if (options->shape_count > 0 &&
      !dp_partial_shape_accepts(&options->shapes[component + VALUES], &shape))
    return DP_INVALID(
        "Shape mismatch for component %lld: expected %s, got %s", (long long)component,
        dp_partial_shape_text(&options->shapes[component + VALUES]), dp_shape_text(&shape));
  return NULL;
}

static dp_status *insert_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_int(setup->node, "component_index", memory);
}

static dp_status *insert_compute(dp_op_context *context, void *memory) {
  const dp_tensor *keys = dp_op_input(context, 1), *values = dp_op_input(context, 2);
  int64_t component = *(int64_t *)memory;
  barrier *self;
  DP_RETURN_IF_ERROR(get_barrier(context, &self));
  dp_status *status = check_insert(self, keys, values, component);
  elements whole = {0};
  bool closes = false;
  if (!status) {
    pthread_mutex_lock(&self->lock);
    status = insert_locked(self, keys, values, (int32_t)component, &whole);
    closes = must_close_queue(self);
    pthread_mutex_unlock(&self->lock);
  }
  for (size_t i = 0; i < whole.count; ++i) {
    dp_queue_enqueue(self->ready, whole.items[i], false, NULL, ignore_done, NULL);
    dp_pieces_destroy(whole.items[i], self->component_count + VALUES);
  }
  DP_ARRAY_FREE(&whole);
  if (closes)
    dp_queue_close(self->ready, false, ignore_done, NULL);
  dp_resource_release(self);
  return status;
}

/* ---- Taking ---- */
typedef struct take_run {
  dp_op_context *context;
  barrier *self; /* held */
} take_run;

static void on_taken(void *arg, dp_status *status, dp_tensor *tuple) {
  take_run *run = arg;
  dp_op_context *context = run->context;
  barrier *self = run->self;
  dp_free(run);
  for (int32_t i = 0; tuple && i < context->output_count; ++i)
    dp_op_set_output(context, i, &tuple[i]);
  dp_op_done(context, status);
  dp_resource_release(self);
}

typedef struct take_state {
  bool allows_small;
} take_state;

static dp_status *take_create(const dp_kernel_setup *setup, void *memory) {
  take_state *state = memory;
  int64_t timeout;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "timeout_ms", &timeout));
  if (timeout != -1)
    return DP_INVALID("Timeout not supported yet.");
  return dp_node_get_bool(setup->node, "allow_small_batch", &state->allows_small);
}

/* A closed barrier says at once that it never will have enough. */
static dp_status *check_take(barrier *self, bool allows_small, int64_t wanted) {
  pthread_mutex_lock(&self->lock);
  int64_t available = dp_queue_size(self->ready);
  if (allows_small)
    wanted = wanted < available ? wanted : available;
  else
    available += (int64_t)dp_map_count(self->incomplete);
  bool fails = self->is_closed && available < (wanted > 1 ? wanted : 1);
  pthread_mutex_unlock(&self->lock);
  if (!fails)
    return NULL;
  return dp_status_create(DP_OUT_OF_RANGE,
                          "Barrier '%s' is closed and has insufficient elements (requested %lld, "
                          "total size %lld)",
                          self->name, (long long)wanted, (long long)available);
}

static dp_status *check_take_inputs(const dp_op_context *context, const barrier *self) {
  const dp_tensor *count = dp_op_input(context, 1);
  if (dp_tensor_elements(count) != 1)
    return DP_INVALID("num_elements must be a scalar.");
  if (dp_tensor_int_at(count, 0) < 0)
    return DP_INVALID("num_elements must be non-negative.");
  bool fits = context->output_count == self->component_count + VALUES;
  for (int32_t i = VALUES; fits && i < context->output_count; ++i)
    fits = dp_op_output_type(context, i) == self->ready->options.dtypes[i];
  return fits ? NULL : DP_INVALID("the component types are not those of barrier %s", self->name);
}

static void take_compute(dp_op_context *context, void *memory) {
  bool allows_small = ((take_state *)memory)->allows_small;
  barrier *self;
  dp_status *status = get_barrier(context, &self);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  status = check_take_inputs(context, self);
  int64_t wanted = status ? 0 : dp_tensor_int_at(dp_op_input(context, 1), 0);
  if (!status)
    status = check_take(self, allows_small, wanted);
  if (status) {
    dp_resource_release(self);
    dp_op_done(context, status);
    return;
  }
  take_run *run = DP_NEW(take_run);
  *run = (take_run){context, self};
  dp_queue_dequeue_many(self->ready, wanted, allows_small, context->step->cancel, on_taken, run);
}

/* ---- Closing and questions ---- */
static dp_status *close_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_bool(setup->node, "cancel_pending_enqueues", memory);
}

static dp_status *close_compute(dp_op_context *context, void *memory) {
  bool cancels = *(bool *)memory;
  barrier *self;
  DP_RETURN_IF_ERROR(get_barrier(context, &self));
  pthread_mutex_lock(&self->lock);
  /* A second close may cancel what the first one left. */
  bool is_late = self->is_closed && (self->cancels_pending || !cancels);
  bool closes = false;
  if (!is_late) {
    self->is_closed = true;
    self->cancels_pending = cancels;
    if (cancels)
      drop_incomplete(self);
    closes = must_close_queue(self);
  }
  pthread_mutex_unlock(&self->lock);
  if (closes)
    dp_queue_close(self->ready, cancels, ignore_done, NULL);
  dp_status *status =
      is_late ? dp_status_create(DP_CANCELLED, "Barrier '%s' is already closed.", self->name)
              : NULL;
  dp_resource_release(self);
  return status;
}

static dp_status *ready_size_compute(dp_op_context *context, void *memory) {
  barrier *self;
  DP_RETURN_IF_ERROR(get_barrier(context, &self));
  int64_t size = dp_queue_size(self->ready);
  dp_resource_release(self);
  return dp_op_output_int32(context, 0, (int32_t)size);
}

static dp_status *incomplete_size_compute(dp_op_context *context, void *memory) {
  barrier *self;
  DP_RETURN_IF_ERROR(get_barrier(context, &self));
  pthread_mutex_lock(&self->lock);
  size_t size = dp_map_count(self->incomplete);
  pthread_mutex_unlock(&self->lock);
  dp_resource_release(self);
  return dp_op_output_int32(context, 0, (int32_t)size);
}

/* clang-format off */
static const dp_kernel rows[] = {
    {.op = "Barrier", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(make_state),
     .create = make_create, .compute = make_compute, .destroy = make_destroy},
    {.op = "BarrierInsertMany", .state_size = sizeof(int64_t), .create = insert_create,
     .compute = insert_compute},
    {.op = "BarrierTakeMany", .state_size = sizeof(take_state), .create = take_create,
     .compute_async = take_compute},
    {.op = "BarrierClose", .state_size = sizeof(bool), .create = close_create,
     .compute = close_compute},
    {.op = "BarrierReadySize", .flags = DP_KERNEL_CHEAP, .compute = ready_size_compute},
    {.op = "BarrierIncompleteSize", .flags = DP_KERNEL_CHEAP, .compute = incomplete_size_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(barrier, rows);
