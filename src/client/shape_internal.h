/* What the rules of shape inference share.
 *
 * A rule reads the shapes of an operation's inputs, which may be unknown in part, and sets the
 * shapes of its outputs, which are unknown before. It returns an error if the inputs do not fit.
 * Rules are rows of tables, one table per family. Their messages are TensorFlow's without the part
 * that names the node, which shape.c appends. Rules run with the graph's lock held. */
#ifndef DP_CLIENT_SHAPE_INTERNAL_H
#define DP_CLIENT_SHAPE_INTERNAL_H

#include "client/client_internal.h"

typedef struct shape_call {
  const TF_Operation *operation;
  const dp_node *node;
  dp_partial_shape *outputs;
} shape_call;

typedef dp_status *(*shape_fn)(shape_call *call);
typedef struct shape_row {
  const char *op;
  shape_fn infer;
} shape_row;

/* Each family's table ends with an empty row. */
extern const shape_row dp_shape_rows_array[], dp_shape_rows_flow[], dp_shape_rows_math[],
    dp_shape_rows_nn[], dp_shape_rows_slice[];

/* ---- Inputs and attributes ---- */
TF_Output shape_source(const shape_call *call, int index);
dp_partial_shape input_shape(const shape_call *call, int index);
bool shape_flag(const shape_call *call, const char *name);
int64_t shape_integer(const shape_call *call, const char *name, int64_t otherwise);
/* "" when there is none. */
const char *shape_text(const shape_call *call, const char *name);

/* ---- Values of small integer inputs that are known before a step (shape_value.c) ---- */
enum { MOST_VALUES = 64 };
typedef struct known_value {
  int rank; /* 0 or 1 */
  int count;
  int64_t items[MOST_VALUES];
  bool is_known[MOST_VALUES];
} known_value;
/* False: not even the number of items is known. */
bool input_value(const shape_call *call, int index, known_value *value_out);
/* False unless every item is known. */
bool constant_input(const shape_call *call, int index, known_value *value_out);
/* False unless the input is one number that is known. */
bool input_number(const shape_call *call, int index, int64_t *number_out);
/* The shape whose sizes are the items of an input; an item of -1 is an unknown size. */
DP_MUST_USE dp_status *input_as_shape(const shape_call *call, int index,
                                      dp_partial_shape *shape_out);

/* ---- Shapes ---- */
dp_partial_shape shape_of_rank(int rank);
dp_partial_shape vector_shape(int64_t size);
dp_partial_shape matrix_shape(int64_t rows, int64_t columns);
/* Dimensions begin to end - 1 of a shape of known rank. */
dp_partial_shape part_of_shape(const dp_partial_shape *shape, int begin, int end);
/* The dimensions of `a`, then those of `b`. Unknown if either rank is unknown. */
DP_MUST_USE dp_status *join_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                   dp_partial_shape *shape_out);
/* The number of elements; -1: a size or the rank is unknown. */
int64_t shape_elements(const dp_partial_shape *shape);
/* -1 stands for an unknown factor or product. 0 times an unknown factor is 0. */
int64_t product_or_unknown(int64_t a, int64_t b);

/* ---- Checks. Unknown sizes pass, and the result has what both sides know ---- */
DP_MUST_USE dp_status *expect_rank(dp_partial_shape *shape, int rank);
DP_MUST_USE dp_status *expect_rank_at_least(const dp_partial_shape *shape, int rank);
DP_MUST_USE dp_status *input_of_rank(const shape_call *call, int index, int rank,
                                     dp_partial_shape *shape_out);
DP_MUST_USE dp_status *merge_dims(int64_t a, int64_t b, int64_t *dim_out);
DP_MUST_USE dp_status *merge_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                    dp_partial_shape *shape_out);
DP_MUST_USE dp_status *broadcast_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                        dp_partial_shape *shape_out);
/* An axis of a tensor of that rank; a negative one counts from the end. */
DP_MUST_USE dp_status *expect_axis(int64_t axis, int rank, int *axis_out);

/* ---- Rules that several families use ---- */
dp_status *rule_same(shape_call *call);
dp_status *rule_scalar(shape_call *call);
dp_status *rule_merged(shape_call *call); /* all inputs have one shape */
/* As rule_merged, for ops whose inputs are a list: an error says which input does not fit. */
DP_MUST_USE dp_status *merge_inputs(shape_call *call, dp_partial_shape *shape_out);
dp_status *rule_all_merged(shape_call *call);

#endif
