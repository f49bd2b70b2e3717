/* Op definitions: the name of an op, its inputs and outputs, its attributes.
 *
 * TensorFlow's ops are data (src/graph/ops.def, one line per op), embedded in the program. A line
 * is parsed when its op is first asked for, so that start-up costs nothing. The signature of a
 * function in a graph's library is a dp_op too. A dp_op never changes and lives as long as its
 * owner: the process for built-in ops, the library for functions. Any thread may ask. */
#ifndef DP_GRAPH_OP_H
#define DP_GRAPH_OP_H

#include "base/status.h"
#include "graph/attr.h"
#include "tensor/dtype.h"

/* One declared input or output. The _attr members are indices into op->attrs, or -1:
 *   type_list_attr >= 0   a list of values; their dtypes are that list(type) attribute;
 *   else                  the dtype is that of the type attribute `type_attr`, or `dtype` when
 *                         type_attr is -1; with number_attr >= 0 that many values of this dtype. */
typedef struct dp_op_arg {
  const char *name;
  dp_dtype dtype;
  int16_t type_attr;
  int16_t number_attr;
  int16_t type_list_attr;
  bool is_ref;
} dp_op_arg;

typedef struct dp_op_attr {
  const char *name;
  dp_attr_kind kind;
  bool has_default;
  bool has_minimum;
  int64_t minimum;            /* of an int's value or a list's length */
  dp_dtype_set allowed_types; /* 0: any */
  int32_t allowed_type_count;
  const dp_dtype *allowed_type_list; /* allowed_types in TensorFlow's order, for messages */
  int32_t allowed_string_count;
  const char *const *allowed_strings;
  dp_attr default_value; /* name unset */
} dp_op_attr;

typedef struct dp_op {
  const char *name;
  int32_t input_count, output_count, attr_count;
  const dp_op_arg *inputs;
  const dp_op_arg *outputs;
  const dp_op_attr *attrs;
  const int16_t *attr_order;          /* indices of attrs, sorted by name */
  const char *const *control_outputs; /* functions only */
  int32_t control_output_count;
  bool is_stateful;
  bool is_commutative;
  bool is_aggregate;
  bool allows_uninitialized_input;
  bool is_function;
} dp_op;

/* NULL when TensorFlow has no such op. */
const dp_op *dp_op_find(const char *name);
/* The number of built-in ops, and op number `index` in the order of names; for listings. */
size_t dp_op_count(void);
const dp_op *dp_op_at(size_t index);

/* The index of an attribute (an input), or -1. */
int dp_op_attr_index(const dp_op *op, const char *name);
int32_t dp_op_input_index(const dp_op *op, const char *name);
/* Adds "Op<name=Abs; signature=x:T -> y:T; attr=T:type,allowed=[...]>", as TensorFlow's messages
 * show an op. */
void dp_op_print(const dp_op *op, dp_text *text);

#endif
