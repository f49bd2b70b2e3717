/* Handles of objects that ops make and other ops use: queues, stacks, tensor arrays, tables,
 * accumulators. A handle has one of three forms, by the op's version: a resource handle, a vector
 * of two strings (container and name), or a reference to such a vector. These functions write and
 * read whichever form the node has. */
#ifndef DP_KERNELS_HANDLE_INTERNAL_H
#define DP_KERNELS_HANDLE_INTERNAL_H

#include "kernels/shared/support.h"

/* Sets output `output` to a handle of `resource`, whose container and name these are. A resource
 * handle also holds the object itself when `holds_object`: for things of one step. */
DP_MUST_USE dp_status *dp_handle_output(dp_op_context *context, int32_t output,
                                        dp_resource *resource, const char *container,
                                        const char *name, bool holds_object);
/* What most ops say of a handle in strings that is not of two; some kinds have words of their own.
 */
#define DP_HANDLE_RULE "Resource handle must have 2 elements"
/* The object behind input `slot`, retained. A handle in strings names container and object; `rule`
 * is what is said when they are not two. */
DP_MUST_USE dp_status *dp_handle_input(dp_op_context *context, int32_t slot,
                                       const dp_resource_ops *type, const char *rule,
                                       dp_resource **resource_out);
/* As dp_handle_input for what lives in the step's container under both strings joined. */
DP_MUST_USE dp_status *dp_handle_step_input(dp_op_context *context, int32_t slot,
                                            const dp_resource_ops *type, const char *rule,
                                            dp_resource **resource_out);

#endif
