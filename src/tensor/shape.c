/* Shapes: arithmetic on small arrays of dimensions, checked where they come from outside.
 *
 * Messages and printed forms are TensorFlow's, because clients and their tests read them. Shapes
 * are plain values; the text functions use a ring of buffers in each thread. */
#include "tensor/shape.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/memory.h"

#define TEXT_BUFFERS 4
#define TEXT_LENGTH DP_SHAPE_TEXT_LENGTH

dp_shape dp_shape_of(int rank, const int64_t *dims) {
  dp_shape shape = {.rank = rank, .elements = 1};
  for (int i = 0; i < rank; i++) {
    shape.dims[i] = dims[i];
    shape.elements *= dims[i];
  }
  return shape;
}

/* "[2,-3]" from raw numbers, for messages about numbers that make no valid shape. */
static void print_dims(int64_t rank, const int64_t *dims, char *to, size_t room) {
  size_t used = 0;
  int64_t shown = rank < DP_MAX_RANK ? rank : DP_MAX_RANK;
  used += (size_t)snprintf(to + used, room - used, "[");
  for (int64_t i = 0; i < shown; i++)
    used += (size_t)snprintf(to + used, room - used, "%s%" PRId64, i ? "," : "", dims[i]);
  snprintf(to + used, room - used, "%s]", shown < rank ? ",..." : "");
}

static dp_status *check_rank(int64_t rank) {
  if (rank < 0)
    return DP_INVALID("Shape has a negative number of dimensions: %" PRId64, rank);
  if (rank > DP_MAX_RANK)
    return DP_INVALID("Shape has %" PRId64 " dimensions, which is more than the limit of %d", rank,
                      DP_MAX_RANK);
  return NULL;
}

dp_status *dp_shape_make(int64_t rank, const int64_t *dims, dp_shape *shape_out) {
  DP_RETURN_IF_ERROR(check_rank(rank));
  dp_shape shape = {.rank = (int32_t)rank, .elements = 1};
  char text[TEXT_LENGTH];
  for (int64_t i = 0; i < rank; i++) {
    if (dims[i] < 0) {
      print_dims(rank, dims, text, sizeof text);
      return DP_INVALID("Dimension %" PRId64 " of shape %s must be >= 0, but is %" PRId64, i, text,
                        dims[i]);
    }
    shape.dims[i] = dims[i];
    /* As in TensorFlow, the product up to here may not overflow even if a later size is 0. */
    if (__builtin_mul_overflow(shape.elements, dims[i], &shape.elements)) {
      print_dims(rank, dims, text, sizeof text);
      return DP_INVALID("Encountered overflow when multiplying dimensions of shape %s at "
                        "dimension %" PRId64,
                        text, i);
    }
  }
  *shape_out = shape;
  return NULL;
}

bool dp_shape_equal(const dp_shape *a, const dp_shape *b) {
  bool is_equal = a->rank == b->rank;
  for (int i = 0; is_equal && i < a->rank; ++i)
    is_equal = a->dims[i] == b->dims[i];
  return is_equal;
}

dp_shape dp_shape_with(const dp_shape *shape, int axis, int64_t size) {
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, shape->dims, sizeof dims);
  dims[axis] = size;
  return dp_shape_of(shape->rank, dims);
}

dp_shape dp_shape_insert(const dp_shape *shape, int axis, int64_t size) {
  dp_shape result = {.rank = shape->rank + 1, .elements = shape->elements * size};
  for (int i = 0; i < axis; i++)
    result.dims[i] = shape->dims[i];
  result.dims[axis] = size;
  for (int i = axis; i < shape->rank; i++)
    result.dims[i + 1] = shape->dims[i];
  return result;
}

dp_shape dp_shape_remove(const dp_shape *shape, int axis) {
  int64_t dims[DP_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < shape->rank; i++)
    if (i != axis)
      dims[rank++] = shape->dims[i];
  return dp_shape_of(rank, dims);
}

int64_t dp_shape_product(const dp_shape *shape, int begin, int end) {
  int64_t product = 1;
  for (int i = begin; i < end; i++)
    product *= shape->dims[i];
  return product;
}

void dp_shape_print(const dp_shape *shape, dp_text *text) {
  dp_text_add_char(text, '[');
  for (int i = 0; i < shape->rank; i++)
    dp_text_printf(text, "%s%" PRId64, i ? "," : "", shape->dims[i]);
  dp_text_add_char(text, ']');
}

/* Allocated, not _Thread_local: a library with much thread-local memory cannot be loaded into a
 * running program by dlopen. */
typedef struct text_ring {
  unsigned next;
  char buffers[TEXT_BUFFERS][TEXT_LENGTH];
} text_ring;

static pthread_once_t ring_once = PTHREAD_ONCE_INIT;
static pthread_key_t ring_key;

static void free_ring(void *ring) {
  dp_free(ring);
}

static void create_ring_key(void) {
  if (pthread_key_create(&ring_key, free_ring) != 0)
    abort();
}

char *dp_shape_text_buffer(void) {
  pthread_once(&ring_once, create_ring_key);
  text_ring *ring = pthread_getspecific(ring_key);
  if (!ring) {
    ring = DP_NEW(text_ring);
    pthread_setspecific(ring_key, ring);
  }
  return ring->buffers[ring->next++ % TEXT_BUFFERS];
}

const char *dp_shape_text(const dp_shape *shape) {
  char *to = dp_shape_text_buffer();
  print_dims(shape->rank, shape->dims, to, TEXT_LENGTH);
  return to;
}

bool dp_shape_broadcast(const dp_shape *a, const dp_shape *b, dp_shape *result_out) {
  int rank = a->rank > b->rank ? a->rank : b->rank;
  dp_shape result = {.rank = rank, .elements = 1};
  for (int i = 0; i < rank; i++) {
    int in_a = i - (rank - a->rank);
    int in_b = i - (rank - b->rank);
    int64_t size_a = in_a < 0 ? 1 : a->dims[in_a];
    int64_t size_b = in_b < 0 ? 1 : b->dims[in_b];
    if (size_a != size_b && size_a != 1 && size_b != 1)
      return false;
    result.dims[i] = size_a == 1 ? size_b : size_a;
    if (__builtin_mul_overflow(result.elements, result.dims[i], &result.elements))
      return false;
  }
  *result_out = result;
  return true;
}

dp_status *dp_partial_shape_make(int64_t rank, const int64_t *dims, dp_partial_shape *shape_out) {
  if (rank == -1) {
    *shape_out = dp_partial_shape_unknown();
    return NULL;
  }
  DP_RETURN_IF_ERROR(check_rank(rank));
  dp_partial_shape shape = {.rank = (int32_t)rank};
  int64_t known_elements = 1;
  for (int64_t i = 0; i < rank; i++) {
    char text[TEXT_LENGTH];
    shape.dims[i] = dims[i];
    if (dims[i] < -1) {
      print_dims(rank, dims, text, sizeof text);
      return DP_INVALID("Dimension %" PRId64 " of shape %s must be >= -1, but is %" PRId64, i, text,
                        dims[i]);
    }
    if (dims[i] >= 0 && __builtin_mul_overflow(known_elements, dims[i], &known_elements)) {
      print_dims(rank, dims, text, sizeof text);
      return DP_INVALID("Encountered overflow when multiplying dimensions of shape %s at "
                        "dimension %" PRId64,
                        text, i);
    }
  }
  *shape_out = shape;
  return NULL;
}

bool dp_partial_shape_is_known(const dp_partial_shape *shape) {
  for (int i = 0; i < shape->rank; i++)
    if (shape->dims[i] < 0)
      return false;
  return shape->rank >= 0;
}

bool dp_partial_shape_accepts(const dp_partial_shape *partial, const dp_shape *shape) {
  if (partial->rank < 0)
    return true;
  if (partial->rank != shape->rank)
    return false;
  for (int i = 0; i < shape->rank; i++)
    if (partial->dims[i] >= 0 && partial->dims[i] != shape->dims[i])
      return false;
  return true;
}

bool dp_partial_shape_merge(const dp_partial_shape *a, const dp_partial_shape *b,
                            dp_partial_shape *merged_out) {
  dp_partial_shape merged = a->rank < 0 ? *b : *a;
  if (a->rank >= 0 && b->rank >= 0) {
    if (a->rank != b->rank)
      return false;
    for (int i = 0; i < a->rank; i++) {
      if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i])
        return false;
      merged.dims[i] = a->dims[i] < 0 ? b->dims[i] : a->dims[i];
    }
  }
  *merged_out = merged;
  return true;
}

const char *dp_partial_shape_text(const dp_partial_shape *shape) {
  char *to = dp_shape_text_buffer();
  if (shape->rank < 0) {
    snprintf(to, TEXT_LENGTH, "<unknown>");
    return to;
  }
  size_t used = (size_t)snprintf(to, TEXT_LENGTH, "[");
  for (int i = 0; i < shape->rank; i++) {
    const char *comma = i ? "," : "";
    if (shape->dims[i] < 0)
      used += (size_t)snprintf(to + used, TEXT_LENGTH - used, "%s?", comma);
    else
      used += (size_t)snprintf(to + used, TEXT_LENGTH - used, "%s%" PRId64, comma, shape->dims[i]);
  }
  snprintf(to + used, TEXT_LENGTH - used, "]");
  return to;
}

void dp_partial_shape_print(const dp_partial_shape *shape, dp_text *text) {
  dp_text_add(text, dp_partial_shape_text(shape));
}
