/* Running one node at planning time: its kernel is made, run on the calling thread and destroyed.
 * There is no executor, so any thread may call this, also from within a kernel. The inputs stay the
 * caller's: no kernel writes its result into them. */
#include "base/clock.h"
#include "planner/optimize_internal.h"
#include "runtime/kernel.h"

static dp_status *check_outputs(const dp_node *node, const dp_value *outputs) {
  for (int32_t i = 0; i < node->output_count; i++)
    if (outputs[i].reference || outputs[i].tensor.dtype != dp_dtype_base(node->output_types[i]))
      return dp_status_create(DP_INTERNAL, "Node '%s' has not set its output %d", node->name, i);
  return NULL;
}

static dp_status *run_kernel(const dp_kernel_instance *instance, const dp_node *node,
                             dp_device *device, dp_value *inputs, dp_value *outputs) {
  dp_step step = {.session_handle = "", .container = ""};
  step.cancel = dp_cancel_create(NULL, DP_FOREVER);
  dp_op_context context = {.node = node,
                           .step = &step,
                           .device = device,
                           .inputs = inputs,
                           .outputs = outputs,
                           .input_count = node->input_count,
                           .output_count = node->output_count};
  dp_status *status = instance->kernel->compute(&context, instance->state);
  dp_cancel_release(step.cancel);
  return status ? status : check_outputs(node, outputs);
}

static dp_status *evaluate_on(dp_device *device, const dp_graph *graph, const dp_node *node,
                              const dp_tensor *inputs, dp_tensor *outputs) {
  dp_kernel_setup setup = {.graph = graph, .node = node, .device = device, .session_handle = ""};
  dp_kernel_instance *instance;
  DP_RETURN_IF_ERROR(dp_kernel_instance_create(&setup, &instance));
  dp_status *status = NULL;
  dp_value *values =
      DP_NEW_ARRAY(dp_value, (size_t)node->input_count + (size_t)node->output_count + 1);
  dp_value *results = values + node->input_count;
  for (int32_t i = 0; i < node->input_count; i++)
    values[i].tensor = dp_tensor_copy(&inputs[i]);
  if (!instance->kernel->compute || (instance->kernel->flags & DP_KERNEL_BLOCKING))
    status = dp_status_create(DP_UNIMPLEMENTED, "Node '%s' cannot be run here", node->name);
  else
    status = run_kernel(instance, node, device, values, results);
  for (int32_t i = 0; i < node->output_count && !status; i++)
    outputs[i] = dp_tensor_take(&results[i].tensor);
  for (int32_t i = 0; i < node->input_count + node->output_count; i++) {
    dp_tensor_deinit(&values[i].tensor);
    dp_resource_release(values[i].reference);
  }
  dp_free(values);
  dp_kernel_instance_release(instance);
  return status;
}

dp_status *dp_planner_evaluate(const dp_graph *graph, const dp_node *node, const dp_tensor *inputs,
                               dp_tensor *outputs) {
  dp_device *device =
      dp_device_create("/job:localhost/replica:0/task:0/device:CPU:0", "CPU", NULL, NULL);
  dp_status *status = evaluate_on(device, graph, node, inputs, outputs);
  dp_device_release(device);
  return status;
}
