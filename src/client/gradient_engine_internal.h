/* One walk from ys to xs, and the loops it may meet: what gradient.c and gradient_loop.c share.
 *
 * The body of a loop is walked by an engine of its own, whose `outer` is the one that met the loop:
 * its xs are what the body reads (the loop's variables and what it takes from outside), its ys what
 * the next iteration gets. Its nodes go to a second loop, which runs backwards. */
#ifndef DP_CLIENT_GRADIENT_ENGINE_INTERNAL_H
#define DP_CLIENT_GRADIENT_ENGINE_INTERNAL_H

#include "client/gradient_internal.h"
#include "client/scope_internal.h"

/* What has arrived at one output so far. */
typedef DP_ARRAY(dp_gradient) gradient_list;

/* A variable of a v1 loop: Enter -> Merge -> Switch -> Exit, and around by NextIteration. */
typedef struct loop_variable {
  TF_Operation *enter, *merge, *split, *exit, *next; /* exit may be NULL */
} loop_variable;

typedef struct gradient_loop {
  const char *frame;
  int64_t parallel_iterations;
  TF_Operation *condition;         /* LoopCond */
  DP_ARRAY(TF_Operation *) enters; /* of variables and of what does not change */
  DP_ARRAY(loop_variable) variables;
  DP_ARRAY(TF_Operation *) constants; /* Enters of what does not change */
  bool *has;                          /* by node: whether it is inside; exits are */
  int32_t node_count;
  const struct gradient_loop *parent; /* the loop around it; NULL: none */
} gradient_loop;

typedef struct gradient_loops gradient_loops;

struct gradient_engine {
  dp_scope *scope;
  TF_Graph *graph;
  int32_t node_count; /* of the forward graph: new nodes have higher numbers */
  const char *source; /* of the outermost: see dp_gradient_source */
  dp_outputs xs;
  bool *is_reached;      /* by unit (a node, or a loop's condition): the xs reach it */
  bool *is_between;      /* ... and it reaches the ys */
  int32_t *pending;      /* readers that are still to be done */
  gradient_list **lists; /* by node and output; NULL: nothing arrived */
  DP_ARRAY(int32_t) ready;
  gradient_engine *outer;
  gradient_loop *loop;     /* whose body this is; NULL: none's */
  gradient_loop **loop_of; /* by node: the loop within this body that it belongs to, or NULL */
  gradient_loops *loops;
  struct loop_undo *undo; /* the loop that runs backwards; see gradient_loop.c */
};

/* `outer` and `loop` NULL: the whole graph. */
void dp_gradient_engine_init(gradient_engine *engine, dp_scope *scope, dp_outputs xs,
                             gradient_engine *outer, gradient_loop *loop);
void dp_gradient_engine_deinit(gradient_engine *engine);
void dp_gradient_walk(gradient_engine *engine, dp_outputs ys, const TF_Output *dxs,
                      dp_gradient *gradients_out);
bool dp_gradient_is_trainable(TF_Output value);
/* Whether a gradient for that value leads to one of the xs. */
bool dp_gradient_is_wanted(const gradient_engine *engine, TF_Output value);
void dp_gradient_arrive(gradient_engine *engine, TF_Output at, dp_gradient gradient);
/* Sums what arrived at each output, and keeps the sums; false when nothing did. */
bool dp_gradient_sum(gradient_engine *engine, TF_Operation *operation, dp_gradient *sums);

/* All loops of the first `node_count` nodes. */
gradient_loops *dp_gradient_loops_find(TF_Graph *graph, int32_t node_count);
void dp_gradient_loops_destroy(gradient_loops *loops);
/* Sets the engine's loop_of. */
void dp_gradient_loops_enter(gradient_engine *engine, gradient_loops *loops);
static inline bool dp_gradient_loop_has(const gradient_loop *loop, int32_t node) {
  return node < loop->node_count && loop->has[node];
}
/* Gradients from the loop's exits to what it was entered with. */
void dp_gradient_loop_undo(gradient_engine *engine, gradient_loop *loop);

#endif
