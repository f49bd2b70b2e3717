/* Gradients of graphs, for rooms above that need more than TF_AddGradients gives: gradients as
 * indexed slices where the forward pass gathers, and a device for the nodes that compute them. */
#ifndef DP_CLIENT_GRADIENT_H
#define DP_CLIENT_GRADIENT_H

#include <downpour.h>

/* The gradient of one value. Dense: `values` alone. Slices: row indices[i] of the whole, which has
 * the shape `dense_shape`, gets values[i]; an index may come several times, and its rows add up.
 * values.oper is NULL where the ys do not depend on the x. */
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

/* Adds to the scope's graph what computes, for each x, the sum over all ys of dy/dx. `dxs` are the
 * gradients that arrive at the ys; NULL, or one whose oper is NULL, stands for ones. New nodes are
 * named and placed by the scope. An x may be any output that the ys depend on: a variable's handle
 * has the gradient of its value. On error, which the scope keeps, the graph is as before. */
void dp_gradients(dp_scope *scope, dp_outputs ys, dp_outputs xs, const TF_Output *dxs,
                  dp_gradient *gradients_out);
/* The same value as one tensor. */
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
