/* Barriers: elements under a key, whose components come one by one, from different ops and steps. A
 * complete element goes to the barrier's ready queue, from which TakeMany takes. Elements whose key
 * was seen first go first; all new keys of one InsertMany have the same priority.
 *
 * Any thread may enter. The lock guards the incomplete elements and the closing. The ready queue
 * has a lock of its own and is called without ours held. It is closed when the barrier is closed
 * and no element is incomplete. */
#include <pthread.h>
#include <string.h>
#include "base/map.h"
#include "base/memory.h"
#include "kernels/queues/queue_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/handle.h"

/* An element of the ready queue: its priority, its key, then the values. */
enum { PRIORITY, KEY, VALUES };

typedef struct barrier {
  dp_resource resource;
  char *name;
  dp_queue *ready; /* retained */
  int32_t component_count;
  pthread_mutex_t lock; /* guards all fields below */
  dp_map *incomplete;   /* from key to an element in the form of the ready queue */
  int64_t next_priority;
  bool is_closed;
  bool cancels_pending; /* closed, and incomplete elements are refused too */
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

typedef struct barrier_make_state {
  dp_resource_name name;
  dp_resources *resources;
  const dp_attr *types;
  dp_partial_shape *shapes; /* one for each of the types; owned */
} barrier_make_state;

/* A shape of unknown rank is a scalar's, as in TensorFlow. */
static dp_status *read_shapes(barrier_make_state *state, const dp_attr *shapes) {
  for (int32_t i = 0; i < shapes->count; ++i)
    if (shapes->shapes[i].rank >= 0 && !dp_partial_shape_is_known(&shapes->shapes[i]))
      return DP_INVALID("Shape %s is not fully defined", dp_partial_shape_text(&shapes->shapes[i]));
  if (shapes->count != state->types->count)
    return DP_INVALID("All of the component shapes must be specified");
  state->shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)shapes->count + 1);
  for (int32_t i = 0; i < shapes->count; ++i)
    if (shapes->shapes[i].rank >= 0)
      state->shapes[i] = shapes->shapes[i];
  return NULL;
}

static dp_status *make_create(const dp_kernel_setup *setup, void *memory) {
  barrier_make_state *state = memory;
  state->resources = dp_resources_retain(setup->device->resources);
  DP_RETURN_IF_ERROR(
      dp_node_get_list(setup->node, "component_types", DP_ATTR_LIST_TYPE, &state->types));
  const dp_attr *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "shapes", DP_ATTR_LIST_SHAPE, &shapes));
  DP_RETURN_IF_ERROR(read_shapes(state, shapes));
  int64_t capacity;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "capacity", &capacity));
  if (capacity != -1)
    return DP_INVALID("Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through "
                      "a queue to enforce a limited capacity.");
  return dp_resource_name_init(&state->name, setup, false);
}

static void make_destroy(void *memory) {
  barrier_make_state *state = memory;
  if (state->name.is_private)
    dp_status_release(dp_resources_remove(state->resources, state->name.container, state->name.name,
                                          barrier_ops.type_name));
  dp_resources_release(state->resources);
  dp_resource_name_deinit(&state->name);
  dp_free(state->shapes);
}

static dp_status *make_ready_queue(const barrier_make_state *state, dp_queue **queue_out) {
  int32_t count = state->types->count + VALUES;
  dp_queue_options options = {.kind = DP_QUEUE_PRIORITY, .capacity = DP_QUEUE_UNBOUNDED};
  options.component_count = count;
  options.dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)count);
  options.shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)count);
  options.shape_count = count;
  options.dtypes[PRIORITY] = DP_INT64;
  options.dtypes[KEY] = DP_STRING;
  for (int32_t i = 0; i < state->types->count; ++i) {
    options.dtypes[i + VALUES] = (dp_dtype)state->types->types[i];
    options.shapes[i + VALUES] = state->shapes[i];
  }
  return dp_queue_create(state->name.name, &options, queue_out);
}

static dp_status *make_barrier(void *arg, dp_resource **resource_out) {
  const barrier_make_state *state = arg;
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

/* ---- Checks that a shared barrier has the attributes of this node ---- */
static dp_status *differs(const barrier *self, const char *what, dp_text *has, dp_text *asked) {
  dp_status *status =
      DP_INVALID("Shared barrier '%s' has component %s %s but requested component %s were %s",
                 self->name, what, dp_text_string(has), what, dp_text_string(asked));
  dp_text_deinit(has);
  dp_text_deinit(asked);
  return status;
}

static dp_status *types_differ(const barrier *self, const barrier_make_state *state) {
  dp_text has = {0}, asked = {0};
  for (int32_t i = 0; i < self->component_count; ++i)
    dp_text_printf(&has, "%s%s", i ? ", " : "",
                   dp_dtype_name(self->ready->options.dtypes[i + VALUES]));
  for (int32_t i = 0; i < state->types->count; ++i)
    dp_text_printf(&asked, "%s%s", i ? ", " : "", dp_dtype_name((dp_dtype)state->types->types[i]));
  return differs(self, "types", &has, &asked);
}

static dp_status *shapes_differ(const barrier *self, const barrier_make_state *state) {
  dp_text has = {0}, asked = {0};
  for (int32_t i = 0; i < self->component_count; ++i) {
    dp_text_add(&has, i ? ", " : "[");
    dp_partial_shape_print(&self->ready->options.shapes[i + VALUES], &has);
    dp_text_add(&asked, i ? ", " : "[");
    dp_partial_shape_print(&state->shapes[i], &asked);
  }
  dp_text_add_char(&has, ']');
  dp_text_add_char(&asked, ']');
  return differs(self, "shapes", &has, &asked);
}

static dp_status *check_barrier(const barrier *self, const barrier_make_state *state) {
  bool same = self->component_count == state->types->count;
  for (int32_t i = 0; same && i < self->component_count; ++i)
    same = self->ready->options.dtypes[i + VALUES] == (dp_dtype)state->types->types[i];
  if (!same)
    return types_differ(self, state);
  for (int32_t i = 0; same && i < self->component_count; ++i) {
    dp_partial_shape merged;
    same = dp_partial_shape_merge(&self->ready->options.shapes[i + VALUES], &state->shapes[i],
                                  &merged);
  }
  return same ? NULL : shapes_differ(self, state);
}

static dp_status *make_compute(dp_op_context *context, void *memory) {
  barrier_make_state *state = memory;
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

/* A new element with priority and key; the values come later. */
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

/* With the lock held. An element that is complete now goes to `whole`. */
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
  dp_status *status = dp_queue_check(self->ready, element, self->component_count + VALUES, false);
  if (status)
    dp_pieces_destroy(element, self->component_count + VALUES);
  else
    DP_ARRAY_PUSH(whole, element);
  return status;
}

/* With the lock held: whether the caller must close the queue, after it released the lock. */
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

/* Shapes are checked when an element is complete, as in TensorFlow. */
static dp_status *check_insert(const barrier *self, const dp_tensor *keys, const dp_tensor *values,
                               int64_t component) {
  if (component < 0 || component >= self->component_count)
    return DP_INVALID("The component ID is out of range %lld > num_components (= %d)",
                      (long long)component, self->component_count);
  dp_dtype expected = self->ready->options.dtypes[component + VALUES];
  if (values->dtype != expected)
    return DP_INVALID("Signature mismatch, have: string_ref, string, %s-> expected: string_ref, "
                      "string, %s->",
                      dp_dtype_name(values->dtype), dp_dtype_name(expected));
  int64_t count = dp_tensor_elements(keys);
  if (count > 0 && dp_tensor_elements(values) == 0)
    return DP_INVALID("Tensors with no elements are not supported %s: received shape %s",
                      self->name, dp_shape_text(&values->shape));
  int64_t rows = values->shape.rank > 0 ? values->shape.dims[0] : 1;
  if (rows < count)
    return DP_INVALID("Expected as many values as keys: %s and %s", dp_shape_text(&values->shape),
                      dp_shape_text(&keys->shape));
  return NULL;
}

static dp_status *insert_create(const dp_kernel_setup *setup, void *memory) {
  return dp_node_get_int(setup->node, "component_index", memory);
}

static dp_status *insert(barrier *self, const dp_tensor *keys, const dp_tensor *values,
                         int32_t component) {
  elements whole = {0};
  pthread_mutex_lock(&self->lock);
  dp_status *status = insert_locked(self, keys, values, component, &whole);
  bool closes = must_close_queue(self);
  pthread_mutex_unlock(&self->lock);
  for (size_t i = 0; i < whole.count; ++i) {
    dp_queue_enqueue(self->ready, whole.items[i], false, NULL, ignore_done, NULL);
    dp_pieces_destroy(whole.items[i], self->component_count + VALUES);
  }
  DP_ARRAY_FREE(&whole);
  if (closes)
    dp_queue_close(self->ready, false, ignore_done, NULL);
  return status;
}

static dp_status *insert_compute(dp_op_context *context, void *memory) {
  const dp_tensor *keys = dp_op_input(context, 1), *values = dp_op_input(context, 2);
  int64_t component = *(int64_t *)memory;
  barrier *self;
  DP_RETURN_IF_ERROR(get_barrier(context, &self));
  dp_status *status = check_insert(self, keys, values, component);
  if (!status) {
    /* Keys may have any rank, and a scalar is a vector of one value. */
    dp_shape line = dp_shape_vector(dp_tensor_elements(keys)), single = dp_shape_vector(1);
    dp_tensor all = dp_tensor_reshaped(keys, &line);
    dp_tensor rows = dp_tensor_reshaped(values, values->shape.rank ? &values->shape : &single);
    status = insert(self, &all, &rows, (int32_t)component);
    dp_tensor_deinit(&all);
    dp_tensor_deinit(&rows);
  }
  dp_resource_release(self);
  return status;
}

/* ---- Taking ---- */
typedef struct barrier_take_run {
  dp_op_context *context;
  barrier *self; /* retained */
} barrier_take_run;

static void on_taken(void *arg, dp_status *status, dp_tensor *tuple) {
  barrier_take_run *run = arg;
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

/* How many elements to wait for. A closed barrier gives a small batch of what is ready, without
 * waiting for incomplete elements; it fails at once when it can never have enough. */
static dp_status *decide_take(barrier *self, bool allows_small, int64_t wanted,
                              int64_t *count_out) {
  pthread_mutex_lock(&self->lock);
  bool is_closed = self->is_closed;
  int64_t available = dp_queue_size(self->ready);
  if (is_closed && allows_small)
    wanted = wanted < available ? wanted : available;
  else
    available += (int64_t)dp_map_count(self->incomplete);
  pthread_mutex_unlock(&self->lock);
  if (is_closed && available < (wanted > 1 ? wanted : 1))
    return dp_status_create(DP_OUT_OF_RANGE,
                            "Barrier '%s' is closed and has insufficient elements (requested %lld, "
                            "total size %lld)",
                            self->name, (long long)wanted, (long long)available);
  *count_out = wanted;
  return NULL;
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
    status = decide_take(self, allows_small, wanted, &wanted);
  if (status) {
    dp_resource_release(self);
    dp_op_done(context, status);
    return;
  }
  barrier_take_run *run = DP_NEW(barrier_take_run);
  *run = (barrier_take_run){context, self};
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
  /* A second close may cancel what the first close left pending. */
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
    {.op = "Barrier", .flags = DP_KERNEL_CHEAP, .state_size = sizeof(barrier_make_state),
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
