/* Shape inference: the shapes of outputs as far as they are known before a step. Programs ask for
 * them while they build a graph, and an operation whose inputs do not fit is refused.
 *
 * The shapes of an operation are inferred once, when it is added to the graph, from the shapes of
 * its inputs. Ops without a rule have unknown shapes. A shape that TF_GraphSetTensorShape sets
 * later is seen only by operations that are added after that, as in TensorFlow. Everything here
 * runs with the graph's lock held. */
#include "client/shape_internal.h"

#include <string.h>
#include "base/text.h"

/* ---- Inputs and attributes ---- */

TF_Output shape_source(const shape_call *call, int index) {
  const dp_input *edge = &call->node->inputs[index];
  return (TF_Output){call->operation->graph->operations[edge->node], edge->output};
}

dp_partial_shape dp_client_shape(TF_Output output) {
  return output.oper->shapes ? output.oper->shapes[output.index] : dp_partial_shape_unknown();
}

dp_partial_shape input_shape(const shape_call *call, int index) {
  return dp_client_shape(shape_source(call, index));
}

bool shape_flag(const shape_call *call, const char *name) {
  const dp_attr *attr = dp_node_attr(call->node, name);
  return attr && attr->kind == DP_ATTR_BOOL && attr->boolean;
}

int64_t shape_integer(const shape_call *call, const char *name, int64_t otherwise) {
  const dp_attr *attr = dp_node_attr(call->node, name);
  return attr && attr->kind == DP_ATTR_INT ? attr->integer : otherwise;
}

const char *shape_text(const shape_call *call, const char *name) {
  const dp_attr *attr = dp_node_attr(call->node, name);
  return attr && attr->kind == DP_ATTR_STRING ? attr->string.data : "";
}

/* ---- Shapes ---- */

dp_partial_shape shape_of_rank(int rank) {
  dp_partial_shape shape = {.rank = rank > DP_MAX_RANK ? -1 : rank};
  for (int i = 0; i < shape.rank; i++)
    shape.dims[i] = -1;
  return shape;
}

dp_partial_shape vector_shape(int64_t size) {
  return (dp_partial_shape){.rank = 1, .dims = {size}};
}

dp_partial_shape matrix_shape(int64_t rows, int64_t columns) {
  return (dp_partial_shape){.rank = 2, .dims = {rows, columns}};
}

dp_partial_shape part_of_shape(const dp_partial_shape *shape, int begin, int end) {
  dp_partial_shape part = {.rank = end > begin ? end - begin : 0};
  for (int i = 0; i < part.rank; i++)
    part.dims[i] = shape->dims[begin + i];
  return part;
}

dp_status *join_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                       dp_partial_shape *shape_out) {
  if (a->rank < 0 || b->rank < 0) {
    *shape_out = dp_partial_shape_unknown();
    return NULL;
  }
  if (a->rank + b->rank > DP_MAX_RANK)
    return DP_INVALID("Shapes of more than %d dimensions are not supported, but %s and %s are one",
                      DP_MAX_RANK, dp_partial_shape_text(a), dp_partial_shape_text(b));
  dp_partial_shape joined = *a;
  for (int i = 0; i < b->rank; i++)
    joined.dims[joined.rank++] = b->dims[i];
  *shape_out = joined;
  return NULL;
}

int64_t product_or_unknown(int64_t a, int64_t b) {
  int64_t product;
  if (a == 0 || b == 0)
    return 0;
  return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

int64_t shape_elements(const dp_partial_shape *shape) {
  int64_t count = 1;
  if (!dp_partial_shape_is_known(shape))
    return -1;
  for (int i = 0; i < shape->rank; i++)
    count = product_or_unknown(count, shape->dims[i]);
  return count;
}

/* ---- Checks ---- */

dp_status *expect_rank(dp_partial_shape *shape, int rank) {
  if (shape->rank < 0)
    *shape = shape_of_rank(rank);
  if (shape->rank != rank)
    return DP_INVALID("Shape must be rank %d but is rank %d", rank, shape->rank);
  return NULL;
}

dp_status *expect_rank_at_least(const dp_partial_shape *shape, int rank) {
  if (shape->rank >= 0 && shape->rank < rank)
    return DP_INVALID("Shape must be at least rank %d but is rank %d", rank, shape->rank);
  return NULL;
}

dp_status *input_of_rank(const shape_call *call, int index, int rank, dp_partial_shape *shape_out) {
  *shape_out = input_shape(call, index);
  return expect_rank(shape_out, rank);
}

dp_status *merge_dims(int64_t a, int64_t b, int64_t *dim_out) {
  if (a >= 0 && b >= 0 && a != b)
    return DP_INVALID("Dimensions must be equal, but are %lld and %lld", (long long)a,
                      (long long)b);
  *dim_out = a >= 0 ? a : b;
  return NULL;
}

dp_status *merge_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                        dp_partial_shape *shape_out) {
  dp_partial_shape merged = a->rank < 0 ? *b : *a;
  if (a->rank >= 0 && b->rank >= 0 && a->rank != b->rank)
    return DP_INVALID("Shapes must be equal rank, but are %d and %d", a->rank, b->rank);
  for (int i = 0; a->rank >= 0 && i < b->rank; i++) {
    if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i])
      return DP_INVALID("Dimension %d in both shapes must be equal, but are %lld and %lld. Shapes "
                        "are %s and %s.",
                        i, (long long)a->dims[i], (long long)b->dims[i], dp_partial_shape_text(a),
                        dp_partial_shape_text(b));
    merged.dims[i] = a->dims[i] >= 0 ? a->dims[i] : b->dims[i];
  }
  *shape_out = merged;
  return NULL;
}

/* One of the two sizes is unknown. Beside a known size above 1 the result is that size; else it is
 * unknown. */
static int64_t broadcast_unknown(int64_t a, int64_t b) {
  int64_t known = a >= 0 ? a : b;
  return known > 1 ? known : -1;
}

dp_status *broadcast_shapes(const dp_partial_shape *a, const dp_partial_shape *b,
                            dp_partial_shape *shape_out) {
  *shape_out = dp_partial_shape_unknown();
  if (a->rank < 0 || b->rank < 0)
    return NULL;
  dp_partial_shape result = shape_of_rank(a->rank > b->rank ? a->rank : b->rank);
  for (int i = 1; i <= result.rank; i++) {
    int64_t p = i <= a->rank ? a->dims[a->rank - i] : 1;
    int64_t q = i <= b->rank ? b->dims[b->rank - i] : 1;
    int64_t *dim = &result.dims[result.rank - i];
    if (p < 0 || q < 0)
      *dim = broadcast_unknown(p, q);
    else if (p == 1 || q == 1)
      *dim = p == 1 ? q : p;
    else
      DP_RETURN_IF_ERROR(merge_dims(p, q, dim));
  }
  *shape_out = result;
  return NULL;
}

dp_status *expect_axis(int64_t axis, int rank, int *axis_out) {
  if (axis < -rank || axis >= rank)
    return DP_INVALID("Shape must be at least rank %lld but is rank %d",
                      (long long)(axis < 0 ? -axis : axis + 1), rank);
  *axis_out = (int)(axis < 0 ? axis + rank : axis);
  return NULL;
}

/* ---- Rules that several families use ---- */

dp_status *rule_same(shape_call *call) {
  call->outputs[0] = input_shape(call, 0);
  return NULL;
}

dp_status *rule_scalar(shape_call *call) {
  for (int i = 0; i < call->node->output_count; i++)
    call->outputs[i] = shape_of_rank(0);
  return NULL;
}

dp_status *rule_merged(shape_call *call) {
  dp_partial_shape merged = input_shape(call, 0);
  for (int i = 1; i < call->node->input_count; i++) {
    dp_partial_shape other = input_shape(call, i);
    DP_RETURN_IF_ERROR(merge_shapes(&merged, &other, &merged));
  }
  call->outputs[0] = merged;
  return NULL;
}

dp_status *merge_inputs(shape_call *call, dp_partial_shape *shape_out) {
  int count = call->node->input_count;
  dp_partial_shape merged = input_shape(call, count - 1);
  for (int i = count - 2; i >= 0; i--) {
    dp_partial_shape other = input_shape(call, i);
    dp_status *status = merge_shapes(&other, &merged, &merged);
    if (status)
      return dp_status_append(status, "\n\tFrom merging shape %d with other shapes.", i);
  }
  *shape_out = merged;
  return NULL;
}

dp_status *rule_all_merged(shape_call *call) {
  return merge_inputs(call, &call->outputs[0]);
}

/* ---- The walk ---- */

static const shape_row *find_row(const char *op) {
  static const shape_row *const tables[] = {dp_shape_rows_math, dp_shape_rows_array,
                                            dp_shape_rows_slice, dp_shape_rows_nn,
                                            dp_shape_rows_flow};
  for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
    for (const shape_row *row = tables[i]; row->op; row++)
      if (strcmp(row->op, op) == 0)
        return row;
  return NULL;
}

/* "... for '{{node sum}} = AddV2(a, b)' with input shapes: [2], [3]." */
static dp_status *name_node(const shape_call *call, dp_status *status) {
  dp_text names = {0}, shapes = {0};
  for (int i = 0; i < call->node->input_count; i++) {
    TF_Output source = shape_source(call, i);
    dp_partial_shape shape = dp_client_shape(source);
    dp_text_printf(&names, "%s%s", i ? ", " : "", source.oper->node->name);
    if (source.index)
      dp_text_printf(&names, ":%d", source.index);
    dp_text_printf(&shapes, "%s%s", i ? ", " : "", dp_partial_shape_text(&shape));
  }
  status = dp_status_append(status, " for '{{node %s}} = %s(%s)' with input shapes: %s.",
                            call->node->name, call->node->op->name, dp_text_string(&names),
                            dp_text_string(&shapes));
  dp_text_deinit(&names);
  dp_text_deinit(&shapes);
  return status;
}

static dp_status *infer(TF_Operation *operation) {
  const dp_node *node = operation->node;
  const shape_row *row = node->op->is_function ? NULL : find_row(node->op->name);
  operation->shapes = DP_NEW_ARRAY(dp_partial_shape, node->output_count + 1);
  for (int i = 0; i < node->output_count; i++)
    operation->shapes[i] = dp_partial_shape_unknown();
  if (!row)
    return NULL;
  shape_call call = {operation, node, operation->shapes};
  dp_status *status = row->infer(&call);
  return status ? name_node(&call, status) : NULL;
}

/* An input whose shapes are not inferred yet, because it was added together with this operation;
 * NULL: none. Inputs of Merge are not looked at: one may be the back edge of a loop, which the rule
 * of Merge expects. */
static TF_Operation *missing_input(const TF_Operation *operation) {
  const dp_node *node = operation->node;
  for (int i = 0; i < node->input_count && !dp_node_is_merge(node); i++) {
    TF_Operation *source = operation->graph->operations[node->inputs[i].node];
    if (!source->shapes)
      return source;
  }
  return NULL;
}

/* Infers the sources of an operation before the operation, whatever their numbers are. */
dp_status *dp_client_infer_shapes(TF_Graph *graph, int32_t first) {
  DP_ARRAY(TF_Operation *) todo = {0};
  dp_status *status = NULL;
  for (int32_t i = first; i < graph->operation_count && !status; i++) {
    if (graph->operations[i] && !graph->operations[i]->shapes)
      DP_ARRAY_PUSH(&todo, graph->operations[i]);
    while (todo.count && !status) {
      TF_Operation *operation = todo.items[todo.count - 1];
      TF_Operation *source = operation->shapes ? NULL : missing_input(operation);
      if (source) {
        DP_ARRAY_PUSH(&todo, source);
        continue;
      }
      todo.count--;
      status = operation->shapes ? NULL : infer(operation);
    }
  }
  DP_ARRAY_FREE(&todo);
  return status;
}
