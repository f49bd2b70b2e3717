/* Gradients of ops that pass values on: identities, reads of variables, optionals, and the Switch
 * and Merge of conditionals. A sparse gradient that passes through an identity stays sparse. The
 * Enter, Exit and NextIteration of while loops are handled as part of their loop (gradient_loop.c).
 */
#include "client/gradient_internal.h"

/* Passes the gradient on as it is, dense or sparse. */
static void passed_on(gradient_call *g) {
  g->below[0] = g->above[0];
}

static void all_passed_on(gradient_call *g) {
  for (int i = 0; i < input_count(g); i++)
    g->below[i] = g->above[i];
}

static void prevented(gradient_call *g) {
  dp_scope_fail(g->scope, TF_FAILED_PRECONDITION,
                "Gradient computation through '%s' is prevented: %s", g->operation->node->name,
                string_attr(g, "message"));
}

static void checked(gradient_call *g) {
  GIVE(g, 0,
       dp_check_numerics(g->scope, above(g, 0),
                         "Not a number (NaN) or infinity (Inf) values "
                         "detected in gradient."));
}

static void checked_v2(gradient_call *g) {
  GIVE(g, 0,
       dp_check_numerics_v2(g->scope, above(g, 0),
                            "Not a number (NaN) or infinity (Inf) values "
                            "detected in gradient."));
}

/* The gradient of an optional is an optional. */
static void optional_from_value(gradient_call *g) {
  int count = input_count(g);
  TF_DataType *types = DP_NEW_ARRAY(TF_DataType, count + 1);
  dp_dims *shapes = DP_NEW_ARRAY(dp_dims, count + 1);
  dp_partial_shape *known = DP_NEW_ARRAY(dp_partial_shape, count + 1);
  for (int i = 0; i < count; i++) {
    types[i] = type_of(input(g, i));
    known[i] = dp_client_shape(input(g, i));
    shapes[i] = (dp_dims){known[i].dims, known[i].rank};
  }
  dp_output_list parts = dp_optional_get_value(g->scope, above(g, 0), ((dp_types){types, count}),
                                               ((dp_shapes){shapes, count}));
  for (int i = 0; i < count; i++)
    GIVE(g, i, dp_output_at(parts, i));
  dp_free(types);
  dp_free(shapes);
  dp_free(known);
}

static void optional_get_value(gradient_call *g) {
  int count = output_count(g);
  TF_Output *parts = DP_NEW_ARRAY(TF_Output, count + 1);
  for (int i = 0; i < count; i++)
    parts[i] = above(g, i);
  GIVE(g, 0, dp_optional_from_value(g->scope, ((dp_outputs){parts, count})));
  dp_free(parts);
}

/* The gradient goes to the branch that was taken. */
static void merge(gradient_call *g) {
  dp_scope *s = g->scope;
  for (int i = 0; i < input_count(g); i++) {
    TF_Output was_taken = dp_equal(s, output(g, 1), integer(s, i));
    GIVE(g, i, dp_switch(s, above(g, 0), was_taken).output_true);
  }
}

/* The gradient comes from the branch that was taken. If that branch has none, zeros stand for it.
 */
static void switched(gradient_call *g) {
  GIVE(g, 0, dp_merge(g->scope, DP_OUTPUTS(above(g, 0), above(g, 1))).output);
}

const gradient_row dp_gradient_flow[] = {
    {"CheckNumerics", checked},
    {"CheckNumericsV2", checked_v2},
    {"EnsureShape", passed_on},
    {"Enter", passed_on},
    {"Exit", passed_on},
    {"GuaranteeConst", passed_on},
    {"Identity", passed_on},
    {"IdentityN", all_passed_on},
    {"LoopCond", NULL},
    {"Merge", merge},
    {"NextIteration", passed_on},
    {"OptionalFromValue", optional_from_value},
    {"OptionalGetValue", optional_get_value},
    {"PlaceholderWithDefault", passed_on},
    {"PreventGradient", prevented},
    {"Print", passed_on},
    {"ReadVariableOp", passed_on},
    {"RefEnter", passed_on},
    {"RefExit", passed_on},
    {"RefIdentity", passed_on},
    {"RefMerge", merge},
    {"RefNextIteration", passed_on},
    {"RefSwitch", switched},
    {"StopGradient", NULL},
    {"Switch", switched},
    {NULL, NULL},
};
