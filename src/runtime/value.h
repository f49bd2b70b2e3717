/* How the values on edges are copied, moved and cleared: by the executor, and by kernels that pass
 * them on. A value is touched by one thread at a time. */
#ifndef DP_RUNTIME_VALUE_H
#define DP_RUNTIME_VALUE_H

#include <stdatomic.h>
#include <string.h>
#include "runtime/kernel.h"
#include "runtime/variable.h"

static inline bool dp_value_is_set(const dp_value *value) {
  return dp_tensor_is_set(&value->tensor) || value->reference;
}
static inline void dp_value_clear(dp_value *value) {
  dp_tensor_deinit(&value->tensor);
  if (value->reference) {
    dp_resource_release(value->reference);
    value->reference = NULL;
  }
}
/* The fields only, no reference taken. Most tensors have few dimensions: the rest of the room for
 * them is left as it is. */
static inline void dp_tensor_copy_fields(dp_tensor *to, const dp_tensor *from) {
  enum { FEW = 4 };
  to->dtype = from->dtype;
  to->buffer = from->buffer;
  to->data = from->data;
  dp_shape *shape = &to->shape;
  const dp_shape *same = &from->shape;
  shape->rank = same->rank;
  shape->elements = same->elements;
  memcpy(shape->dims, same->dims, FEW * sizeof same->dims[0]);
  if (__builtin_expect(same->rank > FEW, 0))
    memcpy(shape->dims + FEW, same->dims + FEW, (DP_MAX_RANK - FEW) * sizeof same->dims[0]);
}
static inline void dp_value_copy_fields(dp_value *to, const dp_value *from) {
  to->reference = from->reference;
  dp_tensor_copy_fields(&to->tensor, &from->tensor);
}
static inline void dp_value_move(dp_value *to, dp_value *from) {
  dp_value_copy_fields(to, from);
  from->tensor.buffer = NULL;
  from->tensor.dtype = DP_INVALID_DTYPE;
  from->reference = NULL;
}
static inline void dp_value_retain_many(const dp_value *value, int count) {
  dp_refcount *buffer = value->tensor.buffer ? &value->tensor.buffer->references : NULL;
  dp_refcount *variable = value->reference ? &value->reference->resource.references : NULL;
  if (buffer)
    atomic_fetch_add_explicit(&buffer->count, count, memory_order_relaxed);
  if (variable)
    atomic_fetch_add_explicit(&variable->count, count, memory_order_relaxed);
}
static inline void dp_value_copy(dp_value *to, const dp_value *from) {
  dp_value_copy_fields(to, from);
  dp_value_retain_many(to, 1);
}

#endif
