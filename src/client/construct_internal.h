/* What the generated constructors (tools/make-constructors) call: one node from a scope. Each step
 * does nothing once the scope has an error; values that are not given leave the op's default. */
#ifndef DP_CLIENT_CONSTRUCT_INTERNAL_H
#define DP_CLIENT_CONSTRUCT_INTERNAL_H

#include <downpour.h>

typedef struct dp_construction {
  dp_scope *scope;
  const char *op_type;
  const char *name;                     /* what was asked for: without scope and number */
  TF_OperationDescription *description; /* NULL: the scope has an error */
} dp_construction;

/* `name` NULL: the op's own. */
dp_construction dp_construct(dp_scope *scope, const char *op_type, const char *name);
void dp_construct_input(dp_construction *node, const char *arg, TF_Output input);
void dp_construct_inputs(dp_construction *node, const char *arg, dp_outputs inputs);
void dp_construct_int(dp_construction *node, const char *attr, int64_t value);
void dp_construct_float(dp_construction *node, const char *attr, float value);
void dp_construct_bool(dp_construction *node, const char *attr, bool value);
void dp_construct_type(dp_construction *node, const char *attr, TF_DataType value);
void dp_construct_string(dp_construction *node, const char *attr, const char *value);
void dp_construct_func(dp_construction *node, const char *attr, const char *value);
void dp_construct_shape(dp_construction *node, const char *attr, dp_dims value);
void dp_construct_tensor(dp_construction *node, const char *attr, TF_Tensor *value);
void dp_construct_ints(dp_construction *node, const char *attr, dp_ints value);
void dp_construct_floats(dp_construction *node, const char *attr, dp_floats value);
void dp_construct_bools(dp_construction *node, const char *attr, dp_bools value);
void dp_construct_types(dp_construction *node, const char *attr, dp_types value);
void dp_construct_strings(dp_construction *node, const char *attr, dp_strings value);
void dp_construct_shapes(dp_construction *node, const char *attr, dp_shapes value);
void dp_construct_tensors(dp_construction *node, const char *attr, dp_tensors value);
void dp_construct_funcs(dp_construction *node, const char *attr, dp_strings value);
/* NULL, and the error in the scope, when something is wrong. */
TF_Operation *dp_construct_finish(dp_construction *node);

/* The output, or the outputs, that a declared one stands for; nothing of a NULL operation. */
TF_Output dp_construct_output(TF_Operation *operation, const char *arg);
dp_output_list dp_construct_list(TF_Operation *operation, const char *arg);

#endif
