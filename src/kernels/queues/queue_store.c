/* The elements of a queue, and the order in which they leave. FIFO queues read a ring from its
 * front; shuffle queues choose from it at random; priority queues keep a heap in it. The heap moves
 * elements as TensorFlow's does, so that equal priorities leave in the same order. Callers hold the
 * queue's lock. */
#include "kernels/queues/queue_internal.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/shared/move.h"

/* ---- The ring ---- */
static dp_tensor **slot(dp_queue_store *store, int64_t index) {
  int64_t at = store->head + index;
  return &store->items[at >= store->capacity ? at - store->capacity : at];
}

static void make_room(dp_queue_store *store) {
  if (store->count < store->capacity)
    return;
  int64_t capacity = store->capacity ? 2 * store->capacity : 16;
  dp_tensor **items = DP_NEW_ARRAY(dp_tensor *, (size_t)capacity);
  for (int64_t i = 0; i < store->count; ++i)
    items[i] = *slot(store, i);
  dp_free(store->items);
  store->items = items;
  store->head = 0;
  store->capacity = capacity;
}

static void push_back(dp_queue_store *store, dp_tensor *element) {
  make_room(store);
  *slot(store, store->count++) = element;
}

static void push_front(dp_queue_store *store, dp_tensor *element) {
  make_room(store);
  store->head = store->head == 0 ? store->capacity - 1 : store->head - 1;
  store->items[store->head] = element;
  ++store->count;
}

static dp_tensor *pop_front(dp_queue_store *store) {
  dp_tensor *element = store->items[store->head];
  store->head = store->head + 1 == store->capacity ? 0 : store->head + 1;
  --store->count;
  return element;
}

/* ---- The heap ---- */
static int64_t priority(const dp_tensor *element) {
  return *(const int64_t *)element[0].data;
}

static void sift_up(dp_queue_store *store, int64_t hole, dp_tensor *element) {
  while (hole > 0) {
    int64_t parent = (hole - 1) / 2;
    if (priority(*slot(store, parent)) <= priority(element))
      break;
    *slot(store, hole) = *slot(store, parent);
    hole = parent;
  }
  *slot(store, hole) = element;
}

static dp_tensor *pop_heap(dp_queue_store *store) {
  dp_tensor *top = *slot(store, 0), *last = *slot(store, --store->count);
  int64_t hole = 0, count = store->count;
  if (count == 0)
    return top;
  while (2 * hole + 2 < count) {
    int64_t child = 2 * hole + 2;
    if (priority(*slot(store, child)) > priority(*slot(store, child - 1)))
      --child;
    *slot(store, hole) = *slot(store, child);
    hole = child;
  }
  if (2 * hole + 2 == count) {
    *slot(store, hole) = *slot(store, 2 * hole + 1);
    hole = 2 * hole + 1;
  }
  sift_up(store, hole, last);
  return top;
}

/* ---- Random choice ---- */
static uint32_t random_word(dp_queue *queue) {
  if (queue->random_left == 0) {
    dp_philox_next(&queue->random, queue->random_words);
    queue->random_left = 4;
  }
  return queue->random_words[4 - queue->random_left--];
}

static dp_tensor *take_random(dp_queue *queue) {
  dp_queue_store *store = &queue->store;
  int64_t index = (int64_t)(random_word(queue) % (uint64_t)store->count);
  dp_tensor *element = *slot(store, index);
  *slot(store, index) = *slot(store, store->count - 1);
  --store->count;
  return element;
}

/* ---- By kind ---- */
void dp_queue_put(dp_queue *queue, dp_tensor *element) {
  push_back(&queue->store, element);
  if (queue->options.kind == DP_QUEUE_PRIORITY)
    sift_up(&queue->store, queue->store.count - 1, element);
}

dp_tensor *dp_queue_take(dp_queue *queue) {
  switch (queue->options.kind) {
  case DP_QUEUE_SHUFFLE:
    return take_random(queue);
  case DP_QUEUE_PRIORITY:
    return pop_heap(&queue->store);
  default:
    return pop_front(&queue->store);
  }
}

void dp_queue_put_back(dp_queue *queue, dp_tensor *element) {
  if (queue->options.kind == DP_QUEUE_FIFO || queue->options.kind == DP_QUEUE_PADDING)
    push_front(&queue->store, element);
  else
    dp_queue_put(queue, element);
}

void dp_queue_destroy_element(dp_tensor *element, int32_t component_count) {
  dp_pieces_destroy(element, component_count);
}

/* ---- Joining to batches ---- */
/* The smallest shape of component `index` that all elements fit into; *pads_out is true when some
 * element is smaller. */
static dp_status *batch_shape(const dp_queue *queue, dp_tensor *const *elements, int64_t count,
                              int32_t index, bool *pads_out, dp_shape *shape_out) {
  const dp_shape *first = &elements[0][index].shape;
  int64_t dims[DP_MAX_RANK + 1] = {count};
  memcpy(dims + 1, first->dims, sizeof(int64_t) * (size_t)first->rank);
  *pads_out = false;
  for (int64_t i = 1; i < count; ++i) {
    const dp_shape *shape = &elements[i][index].shape;
    if (shape->rank != first->rank)
      return DP_INVALID("Mismatched ranks in tuple component %d: %s and %s", index,
                        dp_shape_text(first), dp_shape_text(shape));
    for (int32_t k = 0; k < shape->rank; ++k) {
      *pads_out = *pads_out || shape->dims[k] != dims[k + 1];
      dims[k + 1] = shape->dims[k] > dims[k + 1] ? shape->dims[k] : dims[k + 1];
    }
  }
  return dp_shape_make(first->rank + 1, dims, shape_out);
}

/* Copies an element into the corner of a larger one, in runs of the last dimension. */
static void copy_to_corner(const dp_tensor *element, const dp_shape *batch, char *to) {
  size_t size = dp_dtype_size(element->dtype);
  int32_t rank = element->shape.rank;
  int64_t run = rank ? element->shape.dims[rank - 1] : 1, runs = 1;
  for (int32_t k = 0; k + 1 < rank; ++k)
    runs *= element->shape.dims[k];
  for (int64_t r = 0; r < runs && run > 0; ++r) {
    int64_t rest = r, offset = 0, stride = rank ? batch->dims[rank] : 1;
    for (int32_t k = rank - 2; k >= 0; --k) {
      offset += rest % element->shape.dims[k] * stride;
      rest /= element->shape.dims[k];
      stride *= batch->dims[k + 1];
    }
    dp_move_elements(element->dtype, size, to + (size_t)offset * size,
                     (const char *)element->data + (size_t)(r * run) * size, run);
  }
}

static dp_status *join_component(const dp_queue *queue, dp_tensor *const *elements, int64_t count,
                                 int32_t index, dp_tensor *batch_out) {
  dp_shape shape;
  bool pads;
  DP_RETURN_IF_ERROR(batch_shape(queue, elements, count, index, &pads, &shape));
  dp_dtype dtype = queue->options.dtypes[index];
  DP_RETURN_IF_ERROR(pads ? dp_tensor_create_zero(dtype, &shape, batch_out)
                          : dp_tensor_create(dtype, &shape, batch_out));
  size_t size = dp_dtype_size(dtype), step = (size_t)(shape.elements / count) * size;
  for (int64_t i = 0; i < count; ++i) {
    const dp_tensor *element = &elements[i][index];
    char *to = (char *)batch_out->data + (size_t)i * step;
    if (pads)
      copy_to_corner(element, &shape, to);
    else
      dp_move_elements(dtype, size, to, element->data, element->shape.elements);
  }
  return NULL;
}

/* A batch without elements; unknown dimensions are 0. */
static dp_status *empty_component(const dp_queue *queue, int32_t index, dp_tensor *batch_out) {
  const dp_queue_options *options = &queue->options;
  int64_t dims[DP_MAX_RANK + 1] = {0};
  int32_t rank = options->shape_count ? options->shapes[index].rank : 0;
  for (int32_t k = 0; k < rank; ++k)
    dims[k + 1] = options->shapes[index].dims[k] < 0 ? 0 : options->shapes[index].dims[k];
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(rank + 1, dims, &shape));
  return dp_tensor_create(options->dtypes[index], &shape, batch_out);
}

dp_status *dp_queue_join(const dp_queue *queue, dp_tensor *const *elements, int64_t count,
                         dp_tensor *tuple_out) {
  for (int32_t i = 0; i < queue->options.component_count; ++i)
    DP_RETURN_IF_ERROR(count ? join_component(queue, elements, count, i, &tuple_out[i])
                             : empty_component(queue, i, &tuple_out[i]));
  return NULL;
}
