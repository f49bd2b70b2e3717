/* MultiDeviceIterator: one walk whose elements go to several devices (shards) in turn. Shard i of n
 * gets elements i, i + n, and so on. A shard that asks for an element that is not there yet takes
 * the elements before it too, and leaves them to their shards. At most max_buffer_size elements
 * wait per shard; when a shard's buffer is full, the others wait until it takes one. A prefetch
 * runs ahead of the walk.
 *
 * MultiDeviceIteratorInit begins a new walk, an incarnation. Calls for an older incarnation are
 * refused, and calls that wait in it are cancelled. */
#include "kernels/data/iterator_internal.h"
#include "kernels/shared/family.h"

typedef struct shard_element {
  struct shard_element *next;
  dp_status *status; /* set: an error instead of the tensors */
  dp_tensor *tensors;
} shard_element;

typedef struct shard_queue {
  shard_element *first, *last;
  int64_t count;
} shard_queue;

/* One incarnation. The resource and each running call hold a reference. */
typedef struct shared_walk {
  dp_refcount references;
  int64_t incarnation, room;
  int32_t shard_count, components;
  dp_iterator *iterator; /* used only by the thread that pulls (is_pulling) */
  dp_cancel *cancel;     /* triggered at the incarnation's end */
  pthread_mutex_t lock;  /* guards the fields below */
  pthread_cond_t changed;
  int32_t turn; /* the shard that the next element is for */
  bool is_pulling, has_ended;
  shard_queue *queues;
} shared_walk;

typedef struct shared_iterator {
  dp_iterator_base base;
  int32_t shard_count;
  pthread_mutex_t lock; /* guards the pointer `walk`, not its contents */
  shared_walk *walk;    /* NULL until initialized */
  int64_t incarnation;
} shared_iterator;

/* ---- Walks ---- */
static shared_walk *walk_create(const shared_iterator *owner, dp_dataset *dataset, int64_t room,
                                int64_t incarnation) {
  shared_walk *walk = DP_NEW(shared_walk);
  dp_refcount_init(&walk->references);
  walk->incarnation = incarnation;
  walk->room = room > 0 ? room : 1;
  walk->shard_count = owner->shard_count;
  walk->components = owner->base.components.count;
  walk->iterator = dp_iterator_prefetch(dp_dataset_iterate(dataset, DP_WALKER), walk->room);
  walk->cancel = dp_cancel_create(NULL, DP_FOREVER);
  walk->queues = DP_NEW_ARRAY(shard_queue, (size_t)walk->shard_count);
  pthread_mutex_init(&walk->lock, NULL);
  pthread_cond_init(&walk->changed, NULL);
  return walk;
}

static void element_destroy(shard_element *element, int32_t components) {
  dp_element_destroy(element->tensors, components);
  dp_status_release(element->status);
  dp_free(element);
}

static void walk_release(shared_walk *walk) {
  if (!walk || !dp_refcount_release(&walk->references))
    return;
  for (int32_t i = 0; i < walk->shard_count; ++i)
    for (shard_element *element = walk->queues[i].first, *next; element; element = next) {
      next = element->next;
      element_destroy(element, walk->components);
    }
  dp_iterator_end(walk->iterator);
  dp_cancel_release(walk->cancel);
  pthread_cond_destroy(&walk->changed);
  pthread_mutex_destroy(&walk->lock);
  dp_free(walk->queues);
  dp_free(walk);
}

/* Cancels the calls that wait in it. */
static void walk_end(shared_walk *walk) {
  if (walk)
    dp_cancel_trigger(walk->cancel,
                      dp_status_create(DP_CANCELLED, "Cancelled and buffer not filled."));
  walk_release(walk);
}

static void append(shard_queue *queue, shard_element *element) {
  *(queue->last ? &queue->last->next : &queue->first) = element;
  queue->last = element;
  ++queue->count;
}

static shard_element *take_first(shard_queue *queue) {
  shard_element *element = queue->first;
  queue->first = element->next;
  queue->last = queue->first ? queue->last : NULL;
  --queue->count;
  return element;
}

static bool is_sent_away(const dp_status *status) {
  int code = dp_status_code(status);
  return code == DP_CANCELLED || code == DP_DEADLINE_EXCEEDED;
}

/* Takes the walk's next element, or its error, and gives it to the shard whose turn it is. An error
 * that concerns only the caller (it was cancelled) is returned instead. Called with the lock held,
 * and released while it waits. */
static dp_status *pull(shared_walk *walk, const dp_walk *caller) {
  shard_element *element = DP_NEW(shard_element);
  bool more;
  walk->is_pulling = true;
  pthread_mutex_unlock(&walk->lock);
  element->tensors = dp_element_create(walk->components);
  dp_status *status = dp_iterator_next(walk->iterator, caller, element->tensors, &more);
  pthread_mutex_lock(&walk->lock);
  walk->is_pulling = false;
  walk->has_ended = !status && !more;
  pthread_cond_broadcast(&walk->changed);
  if (walk->has_ended || is_sent_away(status)) {
    element_destroy(element, walk->components);
    return status;
  }
  element->status = status;
  append(&walk->queues[walk->turn], element);
  walk->turn = (walk->turn + 1) % walk->shard_count;
  return NULL;
}

/* The shard's next element, or NULL at the end. With the lock held. */
static dp_status *wait_for_element(shared_walk *walk, int32_t shard, const dp_walk *caller,
                                   shard_element **element_out) {
  shard_queue *queue = &walk->queues[shard];
  while (!queue->first && !walk->has_ended) {
    bool has_room = walk->turn == shard || walk->queues[walk->turn].count < walk->room;
    if (!walk->is_pulling && has_room)
      DP_RETURN_IF_ERROR(pull(walk, caller));
    else
      DP_RETURN_IF_ERROR(dp_dataset_wait(&walk->changed, &walk->lock, caller));
  }
  *element_out = queue->first ? take_first(queue) : NULL;
  pthread_cond_broadcast(&walk->changed);
  return NULL;
}

static void send_away(void *cancel, const dp_status *why) {
  dp_cancel_trigger(cancel, dp_status_retain((dp_status *)why));
}

/* Waits until the element is there, or the step or the incarnation ends. */
static dp_status *walk_next(shared_walk *walk, int32_t shard, dp_cancel *step,
                            shard_element **element_out) {
  dp_cancel *cancel = dp_cancel_create(step, DP_FOREVER);
  dp_cancel_token token;
  dp_status *status = NULL;
  if (dp_cancel_register(walk->cancel, send_away, cancel, &token)) {
    dp_walk caller = {cancel};
    pthread_mutex_lock(&walk->lock);
    status = wait_for_element(walk, shard, &caller, element_out);
    pthread_mutex_unlock(&walk->lock);
    dp_cancel_deregister(walk->cancel, token);
  } else
    status = dp_status_create(DP_CANCELLED, "Cancelled Multidevice iterator");
  dp_cancel_release(cancel);
  return status;
}

/* ---- The resource ---- */
static void shared_destroy(dp_resource *base) {
  shared_iterator *shared = (shared_iterator *)base;
  walk_end(shared->walk);
  pthread_mutex_destroy(&shared->lock);
  dp_components_deinit(&shared->base.components);
  dp_free(shared);
}

static void shared_describe(dp_resource *base, dp_text *text) {
  dp_text_printf(text, "an iterator for %d devices", ((shared_iterator *)base)->shard_count);
}

static const dp_resource_ops shared_ops = {"N10tensorflow4data12_GLOBAL__N_119MultiDeviceIteratorE",
                                           shared_destroy, shared_describe};

static dp_status *shared_create(const dp_node *node, dp_iterator_base **resource_out) {
  const dp_attr *devices;
  dp_components components;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "devices", DP_ATTR_LIST_STRING, &devices));
  DP_RETURN_IF_ERROR(dp_components_read(node, &components));
  shared_iterator *shared = DP_NEW(shared_iterator);
  dp_resource_init(&shared->base.resource, &shared_ops);
  shared->base.components = components;
  shared->shard_count = devices->count;
  pthread_mutex_init(&shared->lock, NULL);
  *resource_out = &shared->base;
  return NULL;
}

static const dp_iterator_kind shared_kind = {&shared_ops, "AnonymousMultiDeviceIterator",
                                             shared_create};

/* Begins a walk and returns its incarnation. */
static dp_status *shared_start(shared_iterator *shared, dp_dataset *dataset, int64_t room,
                               int64_t *incarnation_out) {
  DP_RETURN_IF_ERROR(dp_components_check(&shared->base.components, dataset));
  pthread_mutex_lock(&shared->lock);
  shared_walk *old = shared->walk;
  *incarnation_out = ++shared->incarnation;
  shared->walk = walk_create(shared, dataset, room, shared->incarnation);
  pthread_mutex_unlock(&shared->lock);
  walk_end(old);
  return NULL;
}

/* The walk of an incarnation, retained. */
static dp_status *shared_find(shared_iterator *shared, int64_t incarnation,
                              shared_walk **walk_out) {
  dp_status *status = NULL;
  pthread_mutex_lock(&shared->lock);
  if (!shared->walk)
    status = dp_status_create(DP_FAILED_PRECONDITION,
                              "the iterator for %d devices has not been initialized",
                              shared->shard_count);
  else if (shared->incarnation != incarnation)
    status = DP_INVALID("Invalid incarnation id. Provided: %lld; Expected: %lld",
                        (long long)incarnation, (long long)shared->incarnation);
  else {
    dp_refcount_retain(&shared->walk->references);
    *walk_out = shared->walk;
  }
  pthread_mutex_unlock(&shared->lock);
  return status;
}

/* ---- Ops ---- */
static dp_status *handle_create(const dp_kernel_setup *setup, void *state) {
  return dp_iterator_handle_init(state, setup, &shared_kind);
}

static dp_status *anonymous_compute(dp_op_context *context, void *state) {
  return dp_iterator_anonymous(context, &shared_kind);
}

static dp_status *to_string_compute(dp_op_context *context, void *state) {
  return dp_iterator_to_text(context, &shared_kind);
}

static dp_status *from_string_compute(dp_op_context *context, void *state) {
  return dp_iterator_from_text(context, &shared_kind);
}

static dp_status *delete_compute(dp_op_context *context, void *state) {
  return NULL; /* the object is destroyed with its last handle */
}

static dp_status *start(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  dp_resource *resource;
  int64_t room, incarnation;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 2, "max_buffer_size", &room));
  DP_RETURN_IF_ERROR(dp_op_resource(context, 1, &shared_ops, &resource));
  dp_status *status = shared_start((shared_iterator *)resource, dataset, room, &incarnation);
  dp_resource_release(resource);
  return status ? status : dp_op_output_int64(context, 0, incarnation);
}

static void start_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, start); /* blocks: it destroys the old walk */
}

static dp_status *next_of_shard(dp_op_context *context, shared_iterator *shared, int64_t shard,
                                int64_t incarnation) {
  if (shard < 0 || shard >= shared->shard_count)
    return DP_INVALID("shard_num %lld is not one of the iterator's %d devices", (long long)shard,
                      shared->shard_count);
  shared_walk *walk;
  shard_element *element = NULL;
  DP_RETURN_IF_ERROR(shared_find(shared, incarnation, &walk));
  dp_status *status = walk_next(walk, (int32_t)shard, context->step->cancel, &element);
  if (!status && !element)
    status = dp_status_create(DP_OUT_OF_RANGE, "End of sequence");
  if (!status && element->status)
    status = dp_status_retain(element->status);
  if (!status)
    status = dp_iterator_output_element(context, element->tensors, walk->components);
  if (element)
    element_destroy(element, walk->components);
  walk_release(walk);
  return status;
}

static dp_status *get_next(dp_op_context *context, void *state) {
  int64_t shard, incarnation;
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "shard_num", &shard));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 2, "incarnation_id", &incarnation));
  DP_RETURN_IF_ERROR(dp_op_resource(context, 0, &shared_ops, &resource));
  dp_status *status = next_of_shard(context, (shared_iterator *)resource, shard, incarnation);
  dp_resource_release(resource);
  return status;
}

static void get_next_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, get_next);
}

#define CHEAP(name, body)                                                                          \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
static const dp_kernel rows[] = {
    {.op = "MultiDeviceIterator",
     .flags = DP_KERNEL_CHEAP,
     .state_size = sizeof(dp_iterator_handle),
     .create = handle_create,
     .compute = dp_iterator_handle_compute,
     .destroy = dp_iterator_handle_deinit},
    CHEAP("AnonymousMultiDeviceIterator", anonymous_compute),
    CHEAP("AnonymousMultiDeviceIteratorV3", anonymous_compute),
    CHEAP("DeleteMultiDeviceIterator", delete_compute),
    CHEAP("MultiDeviceIteratorToStringHandle", to_string_compute),
    CHEAP("MultiDeviceIteratorFromStringHandle", from_string_compute),
    {.op = "MultiDeviceIteratorInit", .compute_async = start_compute},
    {.op = "MultiDeviceIteratorGetNextFromShard", .compute_async = get_next_compute},
};
DP_KERNEL_FAMILY(iterator_shared, rows);
