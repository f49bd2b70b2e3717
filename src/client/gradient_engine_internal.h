/* The engine that walks a graph from its ys back to its xs, and the while loops that it meets: what
 * gradient.c and gradient_loop.c share.
 *
 * The body of a loop is walked by a second engine, whose `outer` is the engine that met the loop.
 * The xs of the second engine are the values that the body reads: the loop's variables and its
 * constants. Its ys are the variables' values for the next iteration. The nodes that it adds form a
 * second loop, which runs backwards. All of it happens in one call of dp_gradients, with the
 * graph's lock held. */
#ifndef DP_CLIENT_GRADIENT_ENGINE_INTERNAL_H
#define DP_CLIENT_GRADIENT_ENGINE_INTERNAL_H

#include "client/gradient_internal.h"
#include "client/scope_internal.h"

/* The gradients that have arrived at one output; their sum is the output's gradient. */
typedef DP_ARRAY(dp_gradient) gradient_list;

/* A variable of a v1 loop: Enter -> Merge -> Switch -> Exit; NextIteration leads back to Merge. */
typedef struct loop_variable {
  TF_Operation *enter, *merge, *split, *exit, *next; /* exit may be NULL */
} loop_variable;

typedef struct gradient_loop {
  const char *frame;
  int64_t parallel_iterations;
  TF_Operation *condition;         /* LoopCond */
  DP_ARRAY(TF_Operation *) enters; /* of variables and of constants */
  DP_ARRAY(loop_variable) variables;
  DP_ARRAY(TF_Operation *) constants; /* Enters of values that are the same in every iteration */
  bool *has;                          /* by node: whether it is in the loop; exits are */
  int32_t node_count;
  const struct gradient_loop *parent; /* the loop around it; NULL: none */
} gradient_loop;

typedef struct gradient_loops gradient_loops;

struct gradient_engine {
  dp_scope *scope;
  TF_Graph *graph;
  int32_t node_count; /* of the forward graph: new nodes have higher numbers */
  const char *source; /* only in the outermost engine; see dp_gradient_source */
  dp_outputs xs;
  bool *is_reached;      /* by unit (a node; for a whole loop its condition): depends on an x */
  bool *is_between;      /* by unit: depends on an x, and a y depends on it */
  int32_t *pending;      /* by unit: readers that are not done yet */
  gradient_list **lists; /* by node and output; NULL: nothing arrived */
  DP_ARRAY(int32_t) ready;
  gradient_engine *outer;
  gradient_loop *loop;     /* the loop whose body is walked; NULL: the whole graph is */
  gradient_loop **loop_of; /* by node: the loop inside this body that holds the node, or NULL */
  gradient_loops *loops;
  struct loop_undo *undo; /* the loop that runs backwards; see gradient_loop.c */
};

/* `outer` and `loop` NULL: the whole graph. */
void dp_gradient_engine_init(gradient_engine *engine, dp_scope *scope, dp_outputs xs,
                             gradient_engine *outer, gradient_loop *loop);
void dp_gradient_engine_deinit(gradient_engine *engine);
/* Adds the nodes; the arguments are those of dp_gradients, for the xs that the engine has. */
void dp_gradient_walk(gradient_engine *engine, dp_outputs ys, const TF_Output *dxs,
                      dp_gradient *gradients_out);
bool dp_gradient_is_trainable(TF_Output value);
/* Whether a gradient for that value leads to one of the xs. */
bool dp_gradient_is_wanted(const gradient_engine *engine, TF_Output value);
/* Notes one more gradient of an output. */
void dp_gradient_arrive(gradient_engine *engine, TF_Output at, dp_gradient gradient);
/* Gives, for each output, the sum of the gradients that arrived; the sum takes their place in the
 * engine. False: none arrived. */
bool dp_gradient_sum(gradient_engine *engine, TF_Operation *operation, dp_gradient *sums);

/* All loops of the first `node_count` nodes. */
gradient_loops *dp_gradient_loops_find(TF_Graph *graph, int32_t node_count);
void dp_gradient_loops_destroy(gradient_loops *loops);
/* Sets the engine's loop_of. */
void dp_gradient_loops_enter(gradient_engine *engine, gradient_loops *loops);
static inline bool dp_gradient_loop_has(const gradient_loop *loop, int32_t node) {
  return node < loop->node_count && loop->has[node];
}
/* Adds a loop that runs backwards, and takes the gradients of the loop's exits to the values that
 * the loop was entered with. */
void dp_gradient_loop_undo(gradient_engine *engine, gradient_loop *loop);

#endif
