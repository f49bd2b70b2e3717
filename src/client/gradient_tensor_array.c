/* Gradients of tensor arrays. An array has a gradient array, with one gradient per element. The
 * gradient of a read is a write to the gradient array, and the gradient of a write is a read. The
 * flow value orders the operations of the forward pass; its gradient orders those of the gradients.
 */
#include "client/gradient_internal.h"

/* The gradient array of input 0. It is named by the source, so that all operations that one call of
 * dp_gradients adds share it. */
static dp_tensor_array_grad_v3_outputs gradient_array(gradient_call *g, TF_Output flow) {
  return dp_tensor_array_grad_v3(g->scope, input(g, 0), flow, dp_gradient_source(g->engine));
}

/* read(handle, index, flow) */
static void read(gradient_call *g) {
  dp_scope *s = g->scope;
  dp_tensor_array_grad_v3_outputs to = gradient_array(g, input(g, 2));
  GIVE(g, 2, dp_tensor_array_write_v3(s, to.grad_handle, input(g, 1), above(g, 0), to.flow_out));
}

/* write(handle, index, value, flow) */
static void write(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output flow = above(g, 0);
  dp_tensor_array_grad_v3_outputs from = gradient_array(g, flow);
  GIVE(g, 2,
       dp_tensor_array_read_v3(s, from.grad_handle, input(g, 1), from.flow_out, type_attr(g, "T")));
  GIVE(g, 3, flow);
}

/* gather(handle, indices, flow) */
static void gather(gradient_call *g) {
  dp_scope *s = g->scope;
  dp_tensor_array_grad_v3_outputs to = gradient_array(g, input(g, 2));
  GIVE(g, 2, dp_tensor_array_scatter_v3(s, to.grad_handle, input(g, 1), above(g, 0), to.flow_out));
}

/* scatter(handle, indices, value, flow) */
static void scatter(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output flow = above(g, 0);
  dp_tensor_array_grad_v3_outputs from = gradient_array(g, flow);
  GIVE(g, 2,
       dp_tensor_array_gather_v3(s, from.grad_handle, input(g, 1), from.flow_out,
                                 type_attr(g, "T")));
  GIVE(g, 3, flow);
}

/* concat(handle, flow): outputs value and lengths */
static void concat(gradient_call *g) {
  dp_scope *s = g->scope;
  dp_tensor_array_grad_v3_outputs to = gradient_array(g, input(g, 1));
  GIVE(g, 1, dp_tensor_array_split_v3(s, to.grad_handle, above(g, 0), output(g, 1), to.flow_out));
}

/* split(handle, value, lengths, flow) */
static void split(gradient_call *g) {
  dp_scope *s = g->scope;
  TF_Output flow = above(g, 0);
  dp_tensor_array_grad_v3_outputs from = gradient_array(g, flow);
  GIVE(g, 1,
       dp_tensor_array_concat_v3(s, from.grad_handle, from.flow_out, type_attr(g, "T")).value);
  GIVE(g, 3, flow);
}

const gradient_row dp_gradient_tensor_array[] = {
    {"TensorArrayConcatV3", concat},
    {"TensorArrayGatherV3", gather},
    {"TensorArrayReadV3", read},
    {"TensorArrayScatterV3", scatter},
    {"TensorArraySplitV3", split},
    {"TensorArrayWriteV3", write},
    {NULL, NULL},
};
