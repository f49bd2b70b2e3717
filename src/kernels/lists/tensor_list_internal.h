/* Tensor lists: values of variant type that hold a row of tensors, some of which may be unset. To
 * graphs they are immutable.
 *
 * A list that nobody else holds is changed in place, so that a loop that pushes onto its own list
 * takes constant time per iteration. Otherwise the row of pointers is copied and the tensors are
 * shared. */
#ifndef DP_KERNELS_LISTS_TENSOR_LIST_INTERNAL_H
#define DP_KERNELS_LISTS_TENSOR_LIST_INTERNAL_H

#include "base/memory.h"
#include "kernels/lists/lists.h"
#include "kernels/shared/pieces.h"

/* A tensor that several lists may hold. */
typedef struct dp_list_item {
  dp_refcount references;
  dp_tensor tensor;
} dp_list_item;

typedef struct dp_list {
  dp_dtype dtype;
  dp_partial_shape element_shape;
  int64_t limit;                  /* the most elements; -1: unlimited */
  DP_ARRAY(dp_list_item *) items; /* NULL where unset */
} dp_list;

dp_list *dp_list_create(dp_dtype dtype, const dp_partial_shape *element_shape);
dp_list *dp_list_copy(const dp_list *list);
void dp_list_destroy(dp_list *list);
static inline int64_t dp_list_size(const dp_list *list) {
  return (int64_t)list->items.count;
}
/* NULL where unset. */
static inline const dp_tensor *dp_list_at(const dp_list *list, int64_t index) {
  return list->items.items[index] ? &list->items.items[index]->tensor : NULL;
}
/* Consumes *tensor. */
void dp_list_push(dp_list *list, dp_tensor *tensor);
void dp_list_set(dp_list *list, int64_t index, dp_tensor *tensor);
/* New elements are unset. RESOURCE_EXHAUSTED for unreasonable sizes. */
DP_MUST_USE dp_status *dp_list_resize(dp_list *list, int64_t size);

/* ---- In kernels ---- */
/* The list in scalar input `slot`; borrowed. */
DP_MUST_USE dp_status *dp_list_input(const dp_op_context *context, int32_t slot,
                                     const dp_list **list_out);
/* The list of element `index` of a variant tensor, or NULL. */
const dp_list *dp_list_of_element(const dp_tensor *tensor, int64_t index);
/* As dp_list_input; also checks the op's element_dtype. */
DP_MUST_USE dp_status *dp_list_input_of(const dp_op_context *context, int32_t slot, dp_dtype dtype,
                                        const dp_list **list_out);
/* Output 0 becomes a list that may be changed: the list of input 0 itself, or a copy of it.
 * Pointers that dp_list_input gave for that input are invalid afterwards. */
DP_MUST_USE dp_status *dp_list_forward(dp_op_context *context, dp_list **list_out);
/* Sets output 0; consumes `list`, also on failure. */
DP_MUST_USE dp_status *dp_list_output(dp_op_context *context, dp_list *list);
/* Reads a shape from a tensor: a vector, or the scalar -1 for unknown rank. */
DP_MUST_USE dp_status *dp_list_read_shape(const dp_tensor *tensor, dp_partial_shape *shape_out);
/* Merges the shape in input `slot` with the list's. */
DP_MUST_USE dp_status *dp_list_element_shape(const dp_op_context *context, const dp_list *list,
                                             int32_t slot, dp_partial_shape *shape_out);

#endif
