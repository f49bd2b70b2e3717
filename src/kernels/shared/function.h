/* For kernels that call functions: finding the function for this step, passing the inputs as
 * arguments, setting the outputs from the results.
 *
 * The graphs of a session share the kernel object of a stateful call op, but each graph has a
 * function runtime of its own. So a kernel cannot keep the instance: it asks the step's runtime at
 * each run. */
#ifndef DP_KERNELS_SHARED_FUNCTION_H
#define DP_KERNELS_SHARED_FUNCTION_H

#include "kernels/shared/support.h"
#include "runtime/function.h"

/* The instance of `function` for this step. INTERNAL when the step has no function runtime. */
DP_MUST_USE dp_status *dp_function_of_step(dp_op_context *context, const dp_func *function,
                                           dp_function_instance **instance_out);

/* Moves the inputs from `first` on into `tensors`, which has room for them. */
void dp_function_take_inputs(dp_op_context *context, int32_t first, dp_tensor *tensors);
/* Moves `count` tensors to the outputs; INVALID_ARGUMENT when the node has another number. */
DP_MUST_USE dp_status *dp_function_set_outputs(dp_op_context *context, dp_tensor *tensors,
                                               int32_t count);
/* Calls `function` once with the inputs from `first` on, sets the outputs and ends the run. */
void dp_function_run(dp_op_context *context, dp_function_instance *instance, int32_t first);

/* Reads a condition: the value of a scalar (not zero, not empty); any other tensor is true if it
 * has elements. */
DP_MUST_USE dp_status *dp_function_to_bool(const dp_tensor *tensor, bool *value_out);

#endif
