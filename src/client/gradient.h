/* Gradients of graphs, for higher rooms that need more than TF_AddGradients: gradients as indexed
 * slices where the forward pass gathers rows, and a device for the nodes that compute them.
 * dp_gradients takes the graph's lock; a scope belongs to one thread at a time. */
#ifndef DP_CLIENT_GRADIENT_H
#define DP_CLIENT_GRADIENT_H

#include <downpour.h>

/* The gradient of one value. A dense gradient is `values` alone. A sparse one is made of slices:
 * row indices[i] of a tensor of the shape `dense_shape` gets values[i]. An index may occur several
 * times; its rows are added. values.oper is NULL where the ys do not depend on the x. */
typedef struct dp_gradient {
  TF_Output values;
  TF_Output indices;     /* oper NULL: dense */
  TF_Output dense_shape; /* a vector of integers, for slices */
} dp_gradient;

static inline bool dp_gradient_exists(const dp_gradient *gradient) {
  return gradient->values.oper != NULL;
}
static inline bool dp_gradient_is_sparse(const dp_gradient *gradient) {
  return gradient->indices.oper != NULL;
}

/* Adds nodes to the scope's graph that compute, for each x, the sum over all ys of dy/dx. `dxs` are
 * the gradients of the ys (TensorFlow's C API calls them so); NULL, or an entry whose oper is NULL,
 * stands for ones. The scope names and places the new nodes. An x may be any output that the ys
 * depend on; the gradient of a variable's handle is the gradient of its value. On error the scope
 * keeps the error and the new nodes are removed. */
void dp_gradients(dp_scope *scope, dp_outputs ys, dp_outputs xs, const TF_Output *dxs,
                  dp_gradient *gradients_out);
/* The gradient as one dense tensor. */
TF_Output dp_gradient_dense(dp_scope *scope, const dp_gradient *gradient);

/* What is known about the gradient of an op: nothing, that none passes through it, or how to
 * compute it. */
typedef enum dp_gradient_kind {
  DP_GRADIENT_MISSING,
  DP_GRADIENT_NONE,
  DP_GRADIENT_YES
} dp_gradient_kind;
dp_gradient_kind dp_gradient_kind_of(const char *op);

#endif
