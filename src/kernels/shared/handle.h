/* Handles of objects that ops make and other ops use: queues, stacks, tensor arrays, tables,
 * accumulators. The op's version decides which of three forms a handle has: a resource handle, a
 * vector of two strings (container and name), or a reference to such a vector. These functions
 * write and read whichever form the node has. */
#ifndef DP_KERNELS_SHARED_HANDLE_H
#define DP_KERNELS_SHARED_HANDLE_H

#include "kernels/shared/support.h"

/* Sets output `output` to a handle of `resource`, which is registered as `name` in `container`. If
 * `holds_object`, a resource handle also retains the object itself; this is for objects of one
 * step. */
DP_MUST_USE dp_status *dp_handle_output(dp_op_context *context, int32_t output,
                                        dp_resource *resource, const char *container,
                                        const char *name, bool holds_object);
/* The usual `rule`: the start of the error message for a string handle that has not two elements.
 * Some ops pass other words, as TensorFlow does. */
#define DP_HANDLE_RULE "Resource handle must have 2 elements"
/* The object behind input `slot`, retained. The strings of a string handle are the container and
 * the name. `rule` is the start of the error message when there are not two strings. */
DP_MUST_USE dp_status *dp_handle_input(dp_op_context *context, int32_t slot,
                                       const dp_resource_ops *type, const char *rule,
                                       dp_resource **resource_out);
/* As dp_handle_input, for objects of one step: the name is both strings joined, the container is
 * the step's. */
DP_MUST_USE dp_status *dp_handle_step_input(dp_op_context *context, int32_t slot,
                                            const dp_resource_ops *type, const char *rule,
                                            dp_resource **resource_out);

#endif
