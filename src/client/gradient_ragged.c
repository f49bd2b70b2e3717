/* Gradients of ragged tensors, which are row splits and values. The values have gradients, and so
 * have default values that an op fills in; row splits have none. */
#include "client/gradient_internal.h"

#include <string.h>

static TF_Output flat(dp_scope *s, TF_Output value) {
  return dp_reshape(s, value, dp_const_vector(s, DP_INTS(-1)));
}

/* Elements `begin` to `end` - 1 of a vector. An end of 0 means the vector's end. */
static TF_Output piece(dp_scope *s, TF_Output vector, int begin, int end) {
  return dp_strided_slice(s, vector, dp_const_vector(s, DP_INTS(begin)),
                          dp_const_vector(s, DP_INTS(end)), dp_const_vector(s, DP_INTS(1)),
                          .end_mask = end == 0);
}

/* fill(rows, values, row count, default): rows, values, indicator, places */
static void fill_empty_rows(gradient_call *g) {
  dp_ragged_fill_empty_rows_grad_outputs parts =
      dp_ragged_fill_empty_rows_grad(g->scope, output(g, 3), above(g, 1));
  GIVE(g, 1, parts.d_values);
  GIVE(g, 3, parts.d_default_value);
}

/* ---- As one value ---- */

/* Whether the variants are a vector, one per row, and not a scalar. If the shape is unknown they
 * are taken for a vector if the output has a ragged dimension. */
static bool is_batch(gradient_call *g) {
  dp_partial_shape shape = known_shape(g, 0);
  if (shape.rank > 1)
    dp_scope_fail(g->scope, TF_INVALID_ARGUMENT,
                  "Unable to compute gradient: RaggedTensorToVariant can currently only generate "
                  "0D or 1D output.");
  return shape.rank < 0 ? int_attr(g, "output_ragged_rank") > 0 : shape.rank == 1;
}

static void from_variant(gradient_call *g) {
  int splits = output_count(g) - 1;
  TF_Output *rows = DP_NEW_ARRAY(TF_Output, splits + 1);
  for (int i = 0; i < splits; i++)
    rows[i] = output(g, i);
  GIVE(g, 0,
       dp_ragged_tensor_to_variant(g->scope, ((dp_outputs){rows, splits}), above(g, splits),
                                   is_batch(g)));
  dp_free(rows);
}

static void to_variant(gradient_call *g) {
  dp_scope *s = g->scope;
  int last = input_count(g) - 1;
  TF_Output splits = last ? input(g, 0) : dp_const_number(s, type_attr(g, "Tsplits"), 0);
  GIVE(g, last,
       dp_ragged_tensor_to_variant_gradient(s, above(g, 0), splits, shape_of(s, input(g, last)),
                                            type_attr(g, "Tvalues")));
}

/* ---- Rows ---- */

/* gather(splits..., values, indices): each row of the outermost dimension is a range of values. */
static void gather(gradient_call *g) {
  dp_scope *s = g->scope;
  int values = input_count(g) - 2;
  TF_Output bounds = input(g, 0), chosen = flat(s, input(g, values + 1));
  if (!g->wanted[values])
    return;
  for (int i = 1; i < values; i++)
    bounds = dp_gather(s, input(g, i), bounds);
  TF_Output starts = dp_gather(s, bounds, chosen);
  TF_Output limits = dp_gather(s, piece(s, bounds, 1, 0), chosen);
  g->below[values] = (dp_gradient){
      .values = above(g, output_count(g) - 1),
      .indices = dp_ragged_range(s, starts, limits, number_like(s, starts, 1)).rt_dense_values,
      .dense_shape = shape_of(s, input(g, values))};
}

/* ---- Padded: to_tensor(shape, values, default, partitions...) ---- */

/* How many dimensions of the result the partitions describe. */
static int ragged_dimensions(gradient_call *g) {
  const dp_attr *types = attribute(g, "row_partition_types");
  int count = 1;
  for (int i = 0; i < types->count; i++)
    count += strcmp(types->strings[i].data, "FIRST_DIM_SIZE") != 0;
  return count;
}

/* For each place of the result, the number of the value that it holds; -1: the default. */
static TF_Output sources(gradient_call *g) {
  dp_scope *s = g->scope;
  const dp_attr *types = attribute(g, "row_partition_types");
  int count = input_count(g) - 3;
  TF_Output *partitions = DP_NEW_ARRAY(TF_Output, count + 1);
  const char **names = DP_NEW_ARRAY(const char *, types->count + 1);
  for (int i = 0; i < count; i++)
    partitions[i] = input(g, 3 + i);
  for (int i = 0; i < types->count; i++)
    names[i] = types->strings[i].data;
  TF_Output rows = dp_gather(s, shape_of(s, input(g, 1)), integer(s, 0));
  TF_Output result = dp_ragged_tensor_to_tensor(
      s, piece(s, shape_of(s, above(g, 0)), 0, ragged_dimensions(g)),
      dp_range(s, integer(s, 0), rows, integer(s, 1)), integer(s, -1),
      ((dp_outputs){partitions, count}), ((dp_strings){names, types->count}));
  dp_free(partitions);
  dp_free(names);
  return result;
}

/* The sparse gradient of the values: the gradients of the places that hold one. */
static dp_gradient value_rows(gradient_call *g, TF_Output from) {
  dp_scope *s = g->scope;
  TF_Output shape = shape_of(s, input(g, 1)), ids = flat(s, from);
  TF_Output row = dp_concat_v2(
      s, DP_OUTPUTS(dp_const_vector(s, DP_INTS(-1)), piece(s, shape, 1, 0)), integer(s, 0));
  TF_Output kept = flat(s, dp_where(s, dp_not_equal(s, ids, integer(s, -1))));
  return (dp_gradient){.values = dp_gather(s, dp_reshape(s, above(g, 0), row), kept),
                       .indices = dp_gather(s, ids, kept),
                       .dense_shape = shape};
}

/* The gradient of the default: the sum over the places that hold it. */
static TF_Output default_sum(gradient_call *g, TF_Output from) {
  dp_scope *s = g->scope;
  TF_Output inner = piece(s, shape_of(s, input(g, 1)), 1, 0);
  TF_Output shape =
      dp_concat_v2(s, DP_OUTPUTS(shape_of(s, from), dp_ones_like(s, inner)), integer(s, 0));
  TF_Output is_default = dp_reshape(s, dp_equal(s, from, integer(s, -1)), shape);
  TF_Output rest = dp_select_v2(s, is_default, above(g, 0), number_like(s, above(g, 0), 0));
  broadcast_pair pair = broadcast_of(s, input(g, 2), output(g, 0));
  return unbroadcast(s, &pair, 0, rest);
}

static void to_tensor(gradient_call *g) {
  TF_Output from = sources(g);
  if (g->wanted[1])
    g->below[1] = value_rows(g, from);
  GIVE(g, 2, default_sum(g, from));
}

const gradient_row dp_gradient_ragged[] = {
    {"RaggedFillEmptyRows", fill_empty_rows},  {"RaggedGather", gather},
    {"RaggedTensorFromVariant", from_variant}, {"RaggedTensorToTensor", to_tensor},
    {"RaggedTensorToVariant", to_variant},     {NULL, NULL},
};
