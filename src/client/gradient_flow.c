/* Gradients of what passes values on: identities, variables, conditionals. Slices pass as slices.
 */
#include "client/gradient_internal.h"

/* One value, as it is. */
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

/* Each branch gets the gradient if it was the one that was taken. */
static void merge(gradient_call *g) {
  dp_scope *s = g->scope;
  for (int i = 0; i < input_count(g); i++) {
    TF_Output was_taken = dp_equal(s, output(g, 1), integer(s, i));
    GIVE(g, i, dp_switch(s, above(g, 0), was_taken).output_true);
  }
}

/* What comes from either branch; from one that gives nothing, zeros if it is taken. */
static void switched(gradient_call *g) {
  GIVE(g, 0, dp_merge(g->scope, DP_OUTPUTS(above(g, 0), above(g, 1))).output);
}

const gradient_row dp_gradient_flow[] = {
    {"CheckNumerics", checked},
    {"EnsureShape", passed_on},
    {"GuaranteeConst", passed_on},
    {"Identity", passed_on},
    {"IdentityN", all_passed_on},
    {"Merge", merge},
    {"PlaceholderWithDefault", passed_on},
    {"PreventGradient", prevented},
    {"Print", passed_on},
    {"ReadVariableOp", passed_on},
    {"RefIdentity", passed_on},
    {"RefMerge", merge},
    {"RefSwitch", switched},
    {"StopGradient", NULL},
    {"Switch", switched},
    {NULL, NULL},
};
