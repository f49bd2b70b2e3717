/* Pieces of a v1 while loop, for code that builds one: TF_FinishWhile (while.c), the copy of a
 * functional loop (gradient_function.c), and the loop that runs backwards (gradient_loop.c). With
 * the graph's lock held. A variable is entered, split by the condition, and closed by its next
 * value:
 *
 *   Enter -> Merge -> Switch(condition) -> Exit
 *              ^         '-> ... body ... -> NextIteration
 *              '--------------------------------'          */
#ifndef DP_CLIENT_LOOP_INTERNAL_H
#define DP_CLIENT_LOOP_INTERNAL_H

#include "client/scope_internal.h"

typedef struct loop_frame {
  dp_scope *scope; /* for the nodes of the loop itself */
  const char *name;
  int64_t parallel_iterations;
} loop_frame;

typedef struct loop_value {
  TF_Output merged; /* what the condition sees */
  TF_Output before; /* what the body gets */
  TF_Output after;  /* what the loop gives; valid after dp_loop_close */
} loop_value;

loop_value dp_loop_enter(const loop_frame *frame, TF_Output initial);
void dp_loop_split(const loop_frame *frame, loop_value *value, TF_Output condition);
/* Leads `next` back to the Merge, and makes the exit. */
void dp_loop_close(const loop_frame *frame, loop_value *value, TF_Output next);
/* A value that is the same in every iteration. */
TF_Output dp_loop_constant(const loop_frame *frame, TF_Output value);
/* A scope like `scope` in which operations without inputs run after `operation`. That puts them
 * into the frame and the iteration of `operation`. */
dp_scope *dp_loop_scope(dp_scope *scope, TF_Operation *operation);

#endif
