/* What the kernels that call functions share: finding the function of a run, handing the inputs
 * over as arguments, giving results to outputs. A stateful call op's kernel is shared by the graphs
 * of a session, whose function runtimes differ, so the instance is asked of the step's runtime at
 * each run. */
#ifndef DP_KERNELS_FUNCTION_INTERNAL_H
#define DP_KERNELS_FUNCTION_INTERNAL_H

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

/* How conditions are read: a scalar by its value, anything else by whether it has elements. */
DP_MUST_USE dp_status *dp_function_to_bool(const dp_tensor *tensor, bool *value_out);

#endif
