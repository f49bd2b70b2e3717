/* Converts between TensorShapeProto and our own shapes. dp_shape_make and dp_partial_shape_make
 * check the sizes. Messages are made in the caller's arena. No state, any thread. */
#include "wire/shape_message.h"

#include "wire/control.h"

static dp_status *collect_dims(const Tensorflow__TensorShapeProto *message,
                               int64_t dims[DP_MAX_RANK]) {
  if (message->n_dim > DP_MAX_RANK)
    return DP_INVALID("A shape of %zu dimensions has more than the %d that are supported",
                      message->n_dim, DP_MAX_RANK);
  for (size_t i = 0; i < message->n_dim; i++)
    dims[i] = message->dim[i]->size;
  return NULL;
}

dp_status *dp_wire_partial_shape(const Tensorflow__TensorShapeProto *message,
                                 dp_partial_shape *shape_out) {
  int64_t dims[DP_MAX_RANK];
  if (!message || message->unknown_rank) {
    if (message && message->n_dim > 0)
      return DP_INVALID("An unknown shape must not have any dimensions set.");
    *shape_out = dp_partial_shape_unknown();
    return NULL;
  }
  DP_RETURN_IF_ERROR(collect_dims(message, dims));
  return dp_partial_shape_make((int64_t)message->n_dim, dims, shape_out);
}

dp_status *dp_wire_shape(const Tensorflow__TensorShapeProto *message, dp_shape *shape_out) {
  int64_t dims[DP_MAX_RANK];
  if (!message) {
    *shape_out = dp_shape_scalar();
    return NULL;
  }
  DP_RETURN_IF_ERROR(collect_dims(message, dims));
  return dp_shape_make((int64_t)message->n_dim, dims, shape_out);
}

static Tensorflow__TensorShapeProto *message_of(int rank, const int64_t *dims, dp_arena *arena) {
  Tensorflow__TensorShapeProto *message =
      dp_wire_new(arena, &tensorflow__tensor_shape_proto__descriptor);
  message->unknown_rank = rank < 0;
  if (rank <= 0)
    return message;
  message->n_dim = (size_t)rank;
  message->dim = DP_ARENA_ARRAY(arena, Tensorflow__TensorShapeProto__Dim *, rank);
  for (int i = 0; i < rank; i++) {
    message->dim[i] = dp_wire_new(arena, &tensorflow__tensor_shape_proto__dim__descriptor);
    message->dim[i]->size = dims[i];
  }
  return message;
}

Tensorflow__TensorShapeProto *dp_wire_shape_message(const dp_shape *shape, dp_arena *arena) {
  return message_of(shape->rank, shape->dims, arena);
}

Tensorflow__TensorShapeProto *dp_wire_partial_shape_message(const dp_partial_shape *shape,
                                                            dp_arena *arena) {
  return message_of(shape->rank, shape->dims, arena);
}
