/* Pieces of v1 while loops (see loop_internal.h). A loop has an edge from NextIteration back to
 * Merge, but NextIteration is made last. Until then the Merge reads the Enter twice; dp_loop_close
 * replaces the second input. */
#include "client/loop_internal.h"

loop_value dp_loop_enter(const loop_frame *frame, TF_Output initial) {
  TF_Output entered = dp_enter(frame->scope, initial, frame->name,
                               .parallel_iterations = frame->parallel_iterations);
  return (loop_value){.merged = dp_merge(frame->scope, DP_OUTPUTS(entered, entered)).output};
}

void dp_loop_split(const loop_frame *frame, loop_value *value, TF_Output condition) {
  dp_switch_outputs ways = dp_switch(frame->scope, value->merged, condition);
  value->before = ways.output_true;
  value->after = ways.output_false;
}

void dp_loop_close(const loop_frame *frame, loop_value *value, TF_Output next) {
  TF_Output around = dp_next_iteration(frame->scope, next);
  value->after = dp_exit(frame->scope, value->after);
  if (dp_scope_ok(frame->scope))
    dp_client_set_input(value->merged.oper, 1, around);
}

TF_Output dp_loop_constant(const loop_frame *frame, TF_Output value) {
  return dp_enter(frame->scope, value, frame->name, .is_constant = true,
                  .parallel_iterations = frame->parallel_iterations);
}

dp_scope *dp_loop_scope(dp_scope *scope, TF_Operation *operation) {
  dp_scope *inner = dp_scope_after(scope, NULL, 0);
  inner->source_control = operation;
  return inner;
}
