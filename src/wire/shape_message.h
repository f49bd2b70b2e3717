/* Converts between TensorShapeProto and dp_shape or dp_partial_shape, with TensorFlow's checks.
 * No state, any thread. */
#ifndef DP_WIRE_SHAPE_MESSAGE_H
#define DP_WIRE_SHAPE_MESSAGE_H

#include "base/arena.h"
#include "tensor/shape.h"
#include "wire/types.pb-c.h"

/* Reads a shape that may be partly unknown. NULL is unknown rank. */
DP_MUST_USE dp_status *dp_wire_partial_shape(const Tensorflow__TensorShapeProto *message,
                                             dp_partial_shape *shape_out);
/* Reads a shape that must be fully known. NULL, an absent field, is a scalar. */
DP_MUST_USE dp_status *dp_wire_shape(const Tensorflow__TensorShapeProto *message,
                                     dp_shape *shape_out);
/* Make a message in `arena`. */
Tensorflow__TensorShapeProto *dp_wire_shape_message(const dp_shape *shape, dp_arena *arena);
Tensorflow__TensorShapeProto *dp_wire_partial_shape_message(const dp_partial_shape *shape,
                                                            dp_arena *arena);

#endif
