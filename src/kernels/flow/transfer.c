/* Send and Recv: the two ends of an edge that the partitioner cut, of a feed or of a fetch.
 *
 * They know only the step's rendezvous; whether the other end is in this process or another is its
 * business. The key is TensorFlow's text, made once when the kernel is created for use outside of
 * loops, and anew for each frame and iteration inside. Both run when their node is dead: a sender
 * tells its receiver so, a receiver's outputs are then dead too. */
#include "kernels/shared/family.h"

#include "base/memory.h"
#include "wire/rendezvous_key.h"

typedef struct transfer_state {
  char *send_device;
  char *receive_device;
  char *tensor_name;
  uint64_t incarnation;
  dp_text key; /* outside of loops */
} transfer_state;

static dp_status *copy_string(const dp_node *node, const char *name, char **text_out) {
  dp_view view;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, name, &view));
  *text_out = dp_strndup(view.data, view.length);
  return NULL;
}

static void print_key(const transfer_state *state, uint64_t frame_id, int64_t iteration,
                      dp_text *text) {
  dp_rendezvous_key_print(text, state->send_device, state->incarnation, state->receive_device,
                          state->tensor_name, frame_id, iteration);
}

static dp_status *create_transfer(const dp_kernel_setup *setup, void *raw) {
  transfer_state *state = raw;
  int64_t incarnation;
  DP_RETURN_IF_ERROR(copy_string(setup->node, "send_device", &state->send_device));
  DP_RETURN_IF_ERROR(copy_string(setup->node, "recv_device", &state->receive_device));
  DP_RETURN_IF_ERROR(copy_string(setup->node, "tensor_name", &state->tensor_name));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "send_device_incarnation", &incarnation));
  state->incarnation = (uint64_t)incarnation;
  print_key(state, 0, 0, &state->key);
  dp_rendezvous_key parsed; /* names that are none are refused here */
  return dp_rendezvous_key_parse((dp_view){state->key.data, state->key.length}, &parsed);
}

static void destroy_transfer(void *raw) {
  transfer_state *state = raw;
  dp_free(state->send_device);
  dp_free(state->receive_device);
  dp_free(state->tensor_name);
  dp_text_deinit(&state->key);
}

/* The key of this run; `own` is used inside loops and must be deinitialized. */
static dp_view key_of(const dp_op_context *context, const transfer_state *state, dp_text *own) {
  const dp_text *text = &state->key;
  if (context->frame_id || context->iteration) {
    print_key(state, context->frame_id, context->iteration, own);
    text = own;
  }
  return (dp_view){text->data, text->length};
}

static dp_status *check_rendezvous(const dp_op_context *context) {
  return context->step->rendezvous
             ? NULL
             : dp_status_create(DP_INTERNAL, "Op kernel context needs to provide a rendezvous.");
}

static dp_status *send(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(check_rendezvous(context));
  dp_text own = {0};
  dp_view key = key_of(context, state, &own);
  dp_tensor value = dp_tensor_take(&context->inputs[0].tensor);
  dp_status *status =
      dp_rendezvous_send(context->step->rendezvous, key, &value, context->is_input_dead);
  dp_text_deinit(&own);
  return status;
}

static void received(void *arg, dp_status *status, dp_tensor *value, bool is_dead) {
  dp_op_context *context = arg;
  if (!status && !is_dead)
    context->outputs[0].tensor = dp_tensor_take(value);
  dp_op_done(context, status);
}

static void receive(dp_op_context *context, void *state) {
  dp_status *status = check_rendezvous(context);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  dp_text own = {0};
  dp_view key = key_of(context, state, &own);
  dp_rendezvous_receive(context->step->rendezvous, key, context->step->cancel, received, context);
  dp_text_deinit(&own);
}

/* clang-format off */
#define SEND(name)                                                                                 \
  {.op = name, .flags = DP_KERNEL_CHEAP | DP_KERNEL_DEAD_INPUTS,                                   \
   .state_size = sizeof(transfer_state), .create = create_transfer, .compute = send,               \
   .destroy = destroy_transfer}
#define RECEIVE(name)                                                                              \
  {.op = name, .flags = DP_KERNEL_CHEAP | DP_KERNEL_DEAD_INPUTS,                                   \
   .state_size = sizeof(transfer_state), .create = create_transfer, .compute_async = receive,      \
   .destroy = destroy_transfer}

static const dp_kernel rows[] = {
    SEND("_Send"),
    SEND("_HostSend"),
    RECEIVE("_Recv"),
    RECEIVE("_HostRecv"),
};
/* clang-format on */

DP_KERNEL_FAMILY(transfer, rows);
