/* Shapes between TensorShapeProto and our own values, with TensorFlow's checks.
 * No state, any thread. */
#ifndef DP_WIRE_SHAPE_MESSAGE_H
#define DP_WIRE_SHAPE_MESSAGE_H

#include "base/arena.h"
#include "tensor/shape.h"
#include "wire/types.pb-c.h"

/* A shape that may be unknown in part. NULL is unknown rank. */
DP_MUST_USE dp_status *dp_wire_partial_shape(const Tensorflow__TensorShapeProto *message,
                                             dp_partial_shape *shape_out);
/* A shape that must be known. NULL is a scalar, as an absent field is. */
DP_MUST_USE dp_status *dp_wire_shape(const Tensorflow__TensorShapeProto *message,
                                     dp_shape *shape_out);
/* The other direction, into `arena`. */
Tensorflow__TensorShapeProto *dp_wire_shape_message(const dp_shape *shape, dp_arena *arena);
Tensorflow__TensorShapeProto *dp_wire_partial_shape_message(const dp_partial_shape *shape,
                                                            dp_arena *arena);

#endif
