/* What the generated constructors (tools/make-constructors) call to add one node in a scope:
 * dp_construct, then inputs and attributes, then dp_construct_finish.
 *
 * Each call does nothing once the scope has an error, so constructors check nothing. A type of 0
 * and a NULL string, tensor or list leave the attribute at the op's default. A scope, and so a
 * construction, belongs to one thread at a time. */
#ifndef DP_CLIENT_CONSTRUCT_INTERNAL_H
#define DP_CLIENT_CONSTRUCT_INTERNAL_H

#include <downpour.h>

/* For the longest name of an attribute; the generator refuses longer ones. */
enum { DP_CONSTRUCT_ATTR_SIZE = 64 };

/* How every struct of options begins. */
typedef struct dp_options_head {
  size_t options_size; /* of the caller's struct, which may be older than ours */
  const char *name;
} dp_options_head;

typedef struct dp_construction {
  dp_scope *scope;
  const char *op_type;
  const char *name;                     /* what was asked for: without scope and number */
  TF_OperationDescription *description; /* NULL: the scope has an error */
} dp_construction;

/* `options` is a struct that begins as dp_options_head, or NULL. Without a name in it the operation
 * is called like its op. */
dp_construction dp_construct(dp_scope *scope, const char *op_type, const void *options);
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
/* The attributes that the struct has after its head. `fields` lists them in order, each as a letter
 * for its kind, a colon and its name: "b:transpose_a i:axis". tools/make-constructors has the
 * letters. Fields behind the end of the caller's struct keep the op's defaults. */
void dp_construct_options(dp_construction *node, const char *fields, const void *options);
/* NULL, and the error in the scope, when something is wrong. */
TF_Operation *dp_construct_finish(dp_construction *node);

/* The first output, or all outputs, of the declared output `arg`. Empty for a NULL operation. */
TF_Output dp_construct_output(TF_Operation *operation, const char *arg);
dp_output_list dp_construct_list(TF_Operation *operation, const char *arg);

#endif
