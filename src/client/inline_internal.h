/* Inlining: puts a copy of a function's body into a graph. Gradients are taken operation by
 * operation, so a call is replaced by such a copy before the walk backwards goes through it. The
 * caller holds the scope, and with it the graph, for itself. */
#ifndef DP_CLIENT_INLINE_INTERNAL_H
#define DP_CLIENT_INLINE_INTERNAL_H

#include "client/scope_internal.h"

/* Copies the body of a function of the graph's library into the scope. The copy reads `inputs` in
 * place of its arguments. Operations that read no other operation of the copy run after `control`,
 * if that is not NULL. `results` has room for as many values as the function has results. An error
 * sticks to the scope. */
void dp_client_inline(dp_scope *scope, const dp_func *function, dp_outputs inputs,
                      TF_Operation *control, TF_Output *results);

#endif
