/* What the rules of shape inference share.
 *
 * A rule gets an operation whose inputs' shapes are known as far as they can be, and sets those of
 * its outputs, which begin as unknown; or says what cannot be. Rules are rows of tables, one table
 * a family. Messages are TensorFlow's, without the part that names the node: shape.c adds it. */
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

/* ---- Values of small integer inputs, as far as the graph tells them (shape_value.c) ---- */
enum { MOST_VALUES = 64 };
typedef struct known_value {
  int rank; /* 0 or 1 */
  int count;
  int64_t items[MOST_VALUES];
  bool is_known[MOST_VALUES];
} known_value;
/* False: not even how many there are. */
bool input_value(const shape_call *call, int index, known_value *value_out);
/* The same, and every one of them. */
bool constant_input(const shape_call *call, int index, known_value *value_out);
/* One number. */
bool input_number(const shape_call *call, int index, int64_t *number_out);
/* The shape that an input spells out; -1 in it is unknown. */
DP_MUST_USE dp_status *input_as_shape(const shape_call *call, int index,
                                      dp_partial_shape *shape_out);

/* ---- Shapes ---- */
dp_partial_shape shape_of_rank(int rank);
dp_partial_shape vector_shape(int64_t size);
dp_partial_shape matrix_shape(int64_t rows, int64_t columns);
/* Dimensions begin..end of a shape, of which the rank is known. */
dp_partial_shape part_of_shape(const dp_partial_shape *shape, int begin, int end);
/* Unknown when either rank is. */
DP_MUST_USE dp_status *join_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                   dp_partial_shape *shape_out);
/* -1 when a dimension or the rank is unknown. */
int64_t shape_elements(const dp_partial_shape *shape);
/* -1 when it is unknown; nothing times anything is nothing. */
int64_t product_or_unknown(int64_t a, int64_t b);

/* ---- Checks; what is unknown passes them, and is known better afterwards ---- */
DP_MUST_USE dp_status *expect_rank(dp_partial_shape *shape, int rank);
DP_MUST_USE dp_status *expect_rank_at_least(const dp_partial_shape *shape, int rank);
DP_MUST_USE dp_status *input_of_rank(const shape_call *call, int index, int rank,
                                     dp_partial_shape *shape_out);
DP_MUST_USE dp_status *merge_dims(int64_t a, int64_t b, int64_t *dim_out);
DP_MUST_USE dp_status *merge_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                    dp_partial_shape *shape_out);
DP_MUST_USE dp_status *broadcast_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                                        dp_partial_shape *shape_out);
/* An axis of a tensor of that rank, counted from its end when it is negative. */
DP_MUST_USE dp_status *expect_axis(int64_t axis, int rank, int *axis_out);

/* ---- Rules that several families use ---- */
dp_status *rule_same(shape_call *call);
dp_status *rule_scalar(shape_call *call);
dp_status *rule_merged(shape_call *call); /* all inputs have one shape */
/* The same for ops whose inputs are a list, of which the message names one. */
DP_MUST_USE dp_status *merge_inputs(shape_call *call, dp_partial_shape *shape_out);
dp_status *rule_all_merged(shape_call *call);

#endif
