/* Small pieces that gradient functions of several families share: constants, conjugates, sums over
 * broadcast dimensions, gradients by way of a copy. Contracts are in gradient_internal.h. */
#include "client/gradient_internal.h"

dp_partial_shape known_shape(gradient_call *g, int index) {
  const dp_input *edge = &g->operation->node->inputs[index];
  return dp_client_shape((TF_Output){g->operation->graph->operations[edge->node], edge->output});
}

TF_Output number_like(dp_scope *scope, TF_Output like, double value) {
  return dp_const_number(scope, type_of(like), value);
}

TF_Output filled_like(dp_scope *scope, TF_Output like, double value) {
  return dp_fill(scope, shape_of(scope, like), number_like(scope, like, value));
}

TF_Output integer(dp_scope *scope, int32_t value) {
  return dp_const_int32(scope, value);
}

TF_Output shape_of(dp_scope *scope, TF_Output value) {
  return dp_shape(scope, value);
}

static bool is_complex(TF_Output value) {
  return type_of(value) == TF_COMPLEX64 || type_of(value) == TF_COMPLEX128;
}

TF_Output conjugate(dp_scope *scope, TF_Output value) {
  return is_complex(value) ? dp_conj(scope, value) : value;
}

TF_Output adjoint(dp_scope *scope, TF_Output matrix) {
  /* 0, 1, ..., rank - 1, rank - 2 */
  TF_Output rank = dp_rank(scope, matrix), one = integer(scope, 1), zero = integer(scope, 0);
  TF_Output batch = dp_range(scope, zero, dp_sub(scope, rank, integer(scope, 2)), one);
  TF_Output last =
      dp_pack(scope, DP_OUTPUTS(dp_sub(scope, rank, one), dp_sub(scope, rank, integer(scope, 2))));
  TF_Output order = dp_concat_v2(scope, DP_OUTPUTS(batch, last), zero);
  return is_complex(matrix) ? dp_conjugate_transpose(scope, matrix, order)
                            : dp_transpose(scope, matrix, order);
}

broadcast_pair broadcast_of(dp_scope *scope, TF_Output a, TF_Output b) {
  broadcast_pair pair = {.shapes = {shape_of(scope, a), shape_of(scope, b)}};
  dp_broadcast_gradient_args_outputs axes =
      dp_broadcast_gradient_args(scope, pair.shapes[0], pair.shapes[1]);
  pair.axes[0] = axes.r0;
  pair.axes[1] = axes.r1;
  return pair;
}

TF_Output unbroadcast(dp_scope *scope, const broadcast_pair *pair, int side, TF_Output value) {
  return dp_reshape(scope, dp_sum(scope, value, pair->axes[side]), pair->shapes[side]);
}

void give_from_copy(gradient_call *g, int first, dp_outputs inputs, dp_outputs outputs) {
  int y_count = 0;
  TF_Output *ys = DP_NEW_ARRAY(TF_Output, outputs.count + 1);
  TF_Output *dys = DP_NEW_ARRAY(TF_Output, outputs.count + 1);
  dp_gradient *below = DP_NEW_ARRAY(dp_gradient, inputs.count + 1);
  for (int i = 0; i < outputs.count; i++) {
    if (!dp_gradient_exists(&g->above[i]))
      continue;
    ys[y_count] = outputs.items[i];
    dys[y_count++] = above(g, i);
  }
  if (dp_scope_ok(g->scope))
    dp_gradients(g->scope, (dp_outputs){ys, y_count}, inputs, dys, below);
  for (int i = 0; i < inputs.count; i++)
    if (g->wanted[first + i])
      g->below[first + i] = below[i];
  dp_free(ys);
  dp_free(dys);
  dp_free(below);
}
