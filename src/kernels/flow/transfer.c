/* Send and Recv: the two ends of an edge that the partitioner cut, of a feed or of a fetch.
 *
 * A kernel's state is its edge, resolved when the kernel is made: the key's text and where the
 * other end is (runtime/transfer_edge.h). In a step both know only the step's rendezvous. Both run
 * when their node is dead: a sender tells its receiver so, a receiver's outputs are then dead too.
 * A sender does not read a variable that it gets by reference: that is done when its receiver asks.
 */
#include "kernels/shared/family.h"

#include "runtime/rendezvous.h"

static dp_status *create_transfer(const dp_kernel_setup *setup, bool is_sender,
                                  dp_transfer_edge *edge) {
  dp_view source, destination, name;
  int64_t incarnation;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "send_device", &source));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "recv_device", &destination));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "tensor_name", &name));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "send_device_incarnation", &incarnation));
  return dp_transfer_edge_init(edge, source, (uint64_t)incarnation, destination, name, is_sender,
                               setup->router);
}

static dp_status *create_send(const dp_kernel_setup *setup, void *edge) {
  dp_input sent = setup->node->inputs[0];
  const dp_node *source = dp_graph_node(setup->graph, sent.node);
  dp_transfer_edge *out = edge;
  DP_RETURN_IF_ERROR(create_transfer(setup, true, out));
  out->is_reference = dp_dtype_is_ref(source->output_types[sent.output]);
  return NULL;
}

static dp_status *create_receive(const dp_kernel_setup *setup, void *edge) {
  return create_transfer(setup, false, edge);
}

static void destroy_transfer(void *edge) {
  dp_transfer_edge_deinit(edge);
}

static dp_status *check_rendezvous(const dp_op_context *context) {
  return context->step->rendezvous
             ? NULL
             : dp_status_create(DP_INTERNAL, "Op kernel context needs to provide a rendezvous.");
}

static dp_status *send(dp_op_context *context, void *edge) {
  DP_RETURN_IF_ERROR(check_rendezvous(context));
  return dp_rendezvous_send_along(context->step->rendezvous, edge, context->frame_id,
                                  context->iteration, &context->inputs[0], context->is_input_dead);
}

static void received(void *arg, dp_status *status, dp_tensor *value, bool is_dead) {
  dp_op_context *context = arg;
  if (!status && !is_dead)
    context->outputs[0].tensor = dp_tensor_take(value);
  dp_op_done(context, status);
}

static void receive(dp_op_context *context, void *edge) {
  dp_status *status = check_rendezvous(context);
  if (status)
    dp_op_done(context, status);
  else
    dp_rendezvous_receive_along(context->step->rendezvous, edge, context->frame_id,
                                context->iteration, context->step->cancel, received, context);
}

/* clang-format off */
#define SEND(name)                                                                                 \
  {.op = name, .flags = DP_KERNEL_CHEAP | DP_KERNEL_DEAD_INPUTS | DP_KERNEL_KEEPS_REFERENCES,      \
   .state_size = sizeof(dp_transfer_edge), .create = create_send, .compute = send,                 \
   .destroy = destroy_transfer}
#define RECEIVE(name)                                                                              \
  {.op = name, .flags = DP_KERNEL_CHEAP | DP_KERNEL_DEAD_INPUTS,                                   \
   .state_size = sizeof(dp_transfer_edge), .create = create_receive, .compute_async = receive,     \
   .destroy = destroy_transfer}

static const dp_kernel rows[] = {
    SEND("_Send"),
    SEND("_HostSend"),
    RECEIVE("_Recv"),
    RECEIVE("_HostRecv"),
};
/* clang-format on */

DP_KERNEL_FAMILY(transfer, rows);
