/* What a gradient function may use, and the tables that hold these functions.
 *
 * The gradient of an op is one short function in the file of its family, and one row in the table
 * that ends the file. The function reads the forward pass with input() and output(), and the
 * gradients of the op's outputs with above(). It answers with one GIVE per input that has a
 * gradient. It makes nodes in `scope`, with the constructors of downpour.h. Errors stick to the
 * scope, so the function checks nothing. In the body of a loop, input() and output() give the
 * values of the iteration that is being undone. The graph's lock is held. */
#ifndef DP_CLIENT_GRADIENT_INTERNAL_H
#define DP_CLIENT_GRADIENT_INTERNAL_H

#include "client/client_internal.h"
#include "client/gradient.h"

typedef struct gradient_engine gradient_engine;

typedef struct gradient_call {
  gradient_engine *engine;
  dp_scope *scope;
  TF_Operation *operation;
  const dp_gradient *above; /* by output; some may not exist (dp_gradient_exists) */
  dp_gradient *below;       /* by input; zeroed */
  const bool *wanted;       /* by input: whether its gradient is needed */
} gradient_call;

typedef void (*gradient_fn)(gradient_call *g);
/* `compute` NULL: no gradient goes through the op, and that is no error. */
typedef struct gradient_row {
  const char *op;
  gradient_fn compute;
} gradient_row;

/* Each family's table ends with an empty row. */
extern const gradient_row dp_gradient_array[], dp_gradient_flow[], dp_gradient_function[],
    dp_gradient_math[], dp_gradient_matrix[], dp_gradient_nn[], dp_gradient_none[],
    dp_gradient_reduce[], dp_gradient_tensor_array[], dp_gradient_tensor_list[],
    dp_gradient_einsum[], dp_gradient_norm[], dp_gradient_signal[], dp_gradient_sparse[],
    dp_gradient_special[], dp_gradient_csr[], dp_gradient_ragged[], dp_gradient_image[],
    dp_gradient_decompose[], dp_gradient_banded[];
/* The row for nodes whose op is a function of the graph's library. */
extern const gradient_row dp_gradient_direct_call;

/* A value of the forward pass, as the gradient's nodes can read it: outside of loops the value
 * itself, in the body of a loop what gradient_loop.c popped from a stack. */
TF_Output dp_gradient_forward(gradient_engine *engine, TF_Output value);
/* The gradient of an output as one dense tensor; zeros if it has none. */
TF_Output dp_gradient_above(gradient_call *g, int output);

/* A name for this call of dp_gradients. It is the same for all nodes that the call adds. */
const char *dp_gradient_source(const gradient_engine *engine);

static inline TF_Output input(gradient_call *g, int index) {
  const dp_input *edge = &g->operation->node->inputs[index];
  return dp_gradient_forward(
      g->engine, (TF_Output){g->operation->graph->operations[edge->node], edge->output});
}
static inline TF_Output output(gradient_call *g, int index) {
  return dp_gradient_forward(g->engine, (TF_Output){g->operation, index});
}
static inline TF_Output above(gradient_call *g, int output) {
  return dp_gradient_above(g, output);
}
static inline int input_count(const gradient_call *g) {
  return g->operation->node->input_count;
}
static inline int output_count(const gradient_call *g) {
  return g->operation->node->output_count;
}

/* Sets the gradient of input `index`. `value` is evaluated only if that gradient is needed. */
#define GIVE(g, index, value)                                                                      \
  do {                                                                                             \
    if ((g)->wanted[index])                                                                        \
      (g)->below[index] = (dp_gradient){.values = (value)};                                        \
  } while (0)

/* ---- Attributes of the forward node. int_, float_ and type_attr: the op must declare it ---- */
static inline const dp_attr *attribute(const gradient_call *g, const char *name) {
  return dp_node_attr(g->operation->node, name);
}
static inline bool bool_attr(const gradient_call *g, const char *name) {
  const dp_attr *attr = attribute(g, name);
  return attr && attr->boolean;
}
static inline int64_t int_attr(const gradient_call *g, const char *name) {
  return attribute(g, name)->integer;
}
static inline float float_attr(const gradient_call *g, const char *name) {
  return attribute(g, name)->number;
}
static inline TF_DataType type_attr(const gradient_call *g, const char *name) {
  return (TF_DataType)attribute(g, name)->type;
}
static inline dp_ints ints_attr(const gradient_call *g, const char *name) {
  const dp_attr *attr = attribute(g, name);
  return attr ? (dp_ints){attr->integers, attr->count} : (dp_ints){0};
}
/* Strings of attributes end with a NUL. */
static inline const char *string_attr(const gradient_call *g, const char *name) {
  const dp_attr *attr = attribute(g, name);
  return attr ? attr->string.data : NULL;
}

/* ---- Small things that many families need (gradient_help.c) ---- */
static inline TF_DataType type_of(TF_Output value) {
  return value.oper ? (TF_DataType)dp_dtype_base((int)TF_OperationOutputType(value)) : 0;
}
/* The shape of an input as far as it was inferred when the graph was built. */
dp_partial_shape known_shape(gradient_call *g, int index);
/* A scalar constant of the type of `like`. */
TF_Output number_like(dp_scope *scope, TF_Output like, double value);
/* A tensor of the type and shape of `like`, filled with the number. */
TF_Output filled_like(dp_scope *scope, TF_Output like, double value);
TF_Output integer(dp_scope *scope, int32_t value);
TF_Output shape_of(dp_scope *scope, TF_Output value);
/* Conj for complex types; the value itself for others. */
TF_Output conjugate(dp_scope *scope, TF_Output value);
/* Transposes the last two dimensions and conjugates complex values. */
TF_Output adjoint(dp_scope *scope, TF_Output matrix);

/* The shapes of two operands, and the axes along which each was broadcast. */
typedef struct broadcast_pair {
  TF_Output shapes[2], axes[2];
} broadcast_pair;
broadcast_pair broadcast_of(dp_scope *scope, TF_Output a, TF_Output b);
/* Sums `value`, which has the shape of the broadcast result, to the shape of operand `side`. */
TF_Output unbroadcast(dp_scope *scope, const broadcast_pair *pair, int side, TF_Output value);

/* Takes the gradients of a copy of the op. The caller has built `outputs` from `inputs`: output i
 * of the copy has the value of output i of the op, input i of the copy the value of the op's input
 * first + i. That input is given the gradient of the copy's input i. */
void give_from_copy(gradient_call *g, int first, dp_outputs inputs, dp_outputs outputs);

#endif
