/* Shape rules of elementwise arithmetic, matrix products, reductions and segments. What a rule is:
 * shape_internal.h. */
#include "client/shape_internal.h"

#include <string.h>

static dp_status *broadcast(shape_call *call) {
  dp_partial_shape a = input_shape(call, 0), b = input_shape(call, 1);
  dp_status *status = broadcast_shapes(&a, &b, &call->outputs[0]);
  /* Equal and NotEqual may be asked to give one scalar instead of an error. */
  const dp_attr *strict = dp_node_attr(call->node, "incompatible_shape_error");
  if (status && strict && !strict->boolean) {
    dp_status_release(status);
    call->outputs[0] = shape_of_rank(0);
    return NULL;
  }
  return status;
}

static dp_status *mat_mul(shape_call *call) {
  dp_partial_shape a, b;
  int64_t inner;
  DP_RETURN_IF_ERROR(input_of_rank(call, 0, 2, &a));
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 2, &b));
  bool ta = shape_flag(call, "transpose_a"), tb = shape_flag(call, "transpose_b");
  DP_RETURN_IF_ERROR(merge_dims(a.dims[!ta], b.dims[tb], &inner));
  call->outputs[0] = matrix_shape(a.dims[ta], b.dims[!tb]);
  return NULL;
}

/* BatchMatMul wants the same batch dimensions on both sides; V2 and V3 broadcast them. */
static dp_status *batch_shape(shape_call *call, const dp_partial_shape *a,
                              const dp_partial_shape *b, dp_partial_shape *batch) {
  dp_partial_shape p = part_of_shape(a, 0, a->rank - 2), q = part_of_shape(b, 0, b->rank - 2);
  if (dp_node_is(call->node, "BatchMatMul"))
    return merge_shapes(&p, &q, batch);
  return broadcast_shapes(&p, &q, batch);
}

static dp_status *batch_mat_mul(shape_call *call) {
  dp_partial_shape a = input_shape(call, 0), b = input_shape(call, 1), batch;
  int64_t inner;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&a, 2));
  DP_RETURN_IF_ERROR(expect_rank_at_least(&b, 2));
  if (a.rank < 0 || b.rank < 0)
    return NULL;
  bool ta = shape_flag(call, "adj_x"), tb = shape_flag(call, "adj_y");
  const int64_t *p = a.dims + a.rank - 2, *q = b.dims + b.rank - 2;
  DP_RETURN_IF_ERROR(batch_shape(call, &a, &b, &batch));
  DP_RETURN_IF_ERROR(merge_dims(p[!ta], q[tb], &inner));
  dp_partial_shape product = matrix_shape(p[ta], q[!tb]);
  return join_shapes(&batch, &product, &call->outputs[0]);
}

/* ---- Reductions ---- */

static dp_status *mark_axes(const known_value *axes, int rank, bool *is_reduced) {
  for (int i = 0; i < axes->count; i++) {
    int64_t axis = axes->items[i];
    if (axis < -rank || axis >= rank)
      return DP_INVALID("Invalid reduction dimension %lld for input with %d dimensions.",
                        (long long)axis, rank);
    is_reduced[axis < 0 ? axis + rank : axis] = true;
  }
  return NULL;
}

static dp_status *reduction(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), axes_shape = input_shape(call, 1);
  dp_partial_shape result = shape_of_rank(0);
  known_value axes;
  bool is_kept = shape_flag(call, "keep_dims"), is_reduced[DP_MAX_RANK] = {false};
  if (axes_shape.rank > 1)
    return DP_INVALID("Shape must be at most rank 1 but is rank %d", axes_shape.rank);
  bool is_known = constant_input(call, 1, &axes);
  if (from.rank < 0 || !is_known) {
    if (is_kept && from.rank >= 0)
      call->outputs[0] = shape_of_rank(from.rank);
    return NULL;
  }
  DP_RETURN_IF_ERROR(mark_axes(&axes, from.rank, is_reduced));
  for (int i = 0; i < from.rank; i++)
    if (!is_reduced[i] || is_kept)
      result.dims[result.rank++] = is_reduced[i] ? 1 : from.dims[i];
  call->outputs[0] = result;
  return NULL;
}

/* ArgMax and ArgMin: one axis less. */
static dp_status *index_of_extreme(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0), axis_shape;
  int64_t axis;
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 0, &axis_shape));
  if (from.rank < 0)
    return NULL;
  if (from.rank <= 1) {
    call->outputs[0] = shape_of_rank(0);
    return NULL;
  }
  call->outputs[0] = shape_of_rank(from.rank - 1);
  if (!input_number(call, 1, &axis))
    return NULL;
  if (axis < -from.rank || axis >= from.rank)
    return DP_INVALID("Dimension (%lld) must be in the range [%d, %d), where %d is the number of "
                      "dimensions in the input.",
                      (long long)axis, -from.rank, from.rank, from.rank);
  axis += axis < 0 ? from.rank : 0;
  for (int i = 0; i < from.rank - 1; i++)
    call->outputs[0].dims[i] = from.dims[i < axis ? i : i + 1];
  return NULL;
}

/* ---- Segments: (data, ids), (data, ids, count), (data, indices, ids) ---- */

static dp_status *segments(shape_call *call) {
  dp_partial_shape data = input_shape(call, 0), ids;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&data, 1));
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 1, &ids));
  if (data.rank < 0)
    return NULL;
  call->outputs[0] = data;
  call->outputs[0].dims[0] = -1;
  return NULL;
}

static dp_status *unsorted_segments(shape_call *call) {
  dp_partial_shape data = input_shape(call, 0), ids = input_shape(call, 1);
  int64_t count = -1, both;
  if (data.rank < 0 || ids.rank < 0)
    return NULL;
  if (data.rank < ids.rank)
    return DP_INVALID("Shape must be at least rank %d but is rank %d", ids.rank, data.rank);
  for (int i = 0; i < ids.rank; i++)
    DP_RETURN_IF_ERROR(merge_dims(data.dims[i], ids.dims[i], &both));
  if (!input_number(call, 2, &count))
    count = -1;
  else if (count < 0)
    return DP_INVALID("Dimension size, given by scalar input %d, must be non-negative but is %lld",
                      2, (long long)count);
  dp_partial_shape first = vector_shape(count), tail = part_of_shape(&data, ids.rank, data.rank);
  return join_shapes(&first, &tail, &call->outputs[0]);
}

static dp_status *sparse_segments(shape_call *call) {
  dp_partial_shape data = input_shape(call, 0), indices, ids, both;
  int64_t count = -1;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&data, 1));
  DP_RETURN_IF_ERROR(input_of_rank(call, 1, 1, &indices));
  DP_RETURN_IF_ERROR(input_of_rank(call, 2, 1, &ids));
  DP_RETURN_IF_ERROR(merge_shapes(&indices, &ids, &both));
  if (call->node->input_count > 3 && !input_number(call, 3, &count))
    count = -1;
  if (data.rank < 0)
    return NULL;
  call->outputs[0] = data;
  call->outputs[0].dims[0] = count;
  return NULL;
}

/* ---- Others ---- */

static dp_status *bincount(shape_call *call) {
  int64_t size;
  call->outputs[0] = vector_shape(input_number(call, 1, &size) && size >= 0 ? size : -1);
  return NULL;
}

static dp_status *linear_space(shape_call *call) {
  dp_partial_shape any;
  for (int i = 0; i < 3; i++)
    DP_RETURN_IF_ERROR(input_of_rank(call, i, 0, &any));
  int64_t count = -1;
  if (input_number(call, 2, &count) && count <= 0)
    return DP_INVALID("Requires num > 0: %lld", (long long)count);
  call->outputs[0] = vector_shape(count);
  return NULL;
}

/* ---- Square matrices ---- */

static dp_status *square(shape_call *call) {
  dp_partial_shape shape = input_shape(call, 0);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&shape, 2));
  if (shape.rank < 0)
    return NULL;
  int64_t *sides = shape.dims + shape.rank - 2;
  DP_RETURN_IF_ERROR(merge_dims(sides[0], sides[1], &sides[0]));
  sides[1] = sides[0];
  call->outputs[0] = shape;
  return NULL;
}

static dp_status *determinant(shape_call *call) {
  dp_partial_shape shape = input_shape(call, 0);
  int64_t side;
  DP_RETURN_IF_ERROR(expect_rank_at_least(&shape, 2));
  if (shape.rank >= 0)
    DP_RETURN_IF_ERROR(merge_dims(shape.dims[shape.rank - 1], shape.dims[shape.rank - 2], &side));
  for (int i = 0; shape.rank >= 0 && i < call->node->output_count; i++)
    call->outputs[i] = part_of_shape(&shape, 0, shape.rank - 2);
  return NULL;
}

#define SAME(op)                                                                                   \
  { op, rule_same }
#define BROADCAST(op)                                                                              \
  { op, broadcast }

const shape_row dp_shape_rows_math[] = {
    SAME("Abs"),
    SAME("Acos"),
    SAME("Acosh"),
    SAME("Angle"),
    SAME("Asin"),
    SAME("Asinh"),
    SAME("Atan"),
    SAME("Atanh"),
    SAME("BesselI0e"),
    SAME("BesselI1e"),
    SAME("Cast"),
    SAME("Ceil"),
    SAME("ComplexAbs"),
    SAME("Conj"),
    SAME("Cos"),
    SAME("Cosh"),
    SAME("Digamma"),
    SAME("Erf"),
    SAME("Erfc"),
    SAME("Erfinv"),
    SAME("Exp"),
    SAME("Expm1"),
    SAME("Floor"),
    SAME("Imag"),
    SAME("Inv"),
    SAME("Invert"),
    SAME("IsFinite"),
    SAME("IsInf"),
    SAME("IsNan"),
    SAME("Lgamma"),
    SAME("Log"),
    SAME("Log1p"),
    SAME("LogicalNot"),
    SAME("Ndtri"),
    SAME("Neg"),
    SAME("OnesLike"),
    SAME("Real"),
    SAME("Reciprocal"),
    SAME("Rint"),
    SAME("Round"),
    SAME("Rsqrt"),
    SAME("Sigmoid"),
    SAME("Sign"),
    SAME("Sin"),
    SAME("Sinh"),
    SAME("Sqrt"),
    SAME("Square"),
    SAME("Tan"),
    SAME("Tanh"),
    SAME("ZerosLike"),
    BROADCAST("Add"),
    BROADCAST("AddV2"),
    BROADCAST("Atan2"),
    BROADCAST("BitwiseAnd"),
    BROADCAST("BitwiseOr"),
    BROADCAST("BitwiseXor"),
    BROADCAST("Complex"),
    BROADCAST("Div"),
    BROADCAST("DivNoNan"),
    BROADCAST("Equal"),
    BROADCAST("FloorDiv"),
    BROADCAST("FloorMod"),
    BROADCAST("Greater"),
    BROADCAST("GreaterEqual"),
    BROADCAST("Igamma"),
    BROADCAST("IgammaGradA"),
    BROADCAST("Igammac"),
    BROADCAST("LeftShift"),
    BROADCAST("Less"),
    BROADCAST("LessEqual"),
    BROADCAST("LogicalAnd"),
    BROADCAST("LogicalOr"),
    BROADCAST("Maximum"),
    BROADCAST("Minimum"),
    BROADCAST("Mod"),
    BROADCAST("Mul"),
    BROADCAST("MulNoNan"),
    BROADCAST("NextAfter"),
    BROADCAST("NotEqual"),
    BROADCAST("Polygamma"),
    BROADCAST("Pow"),
    BROADCAST("RealDiv"),
    BROADCAST("RightShift"),
    BROADCAST("SquaredDifference"),
    BROADCAST("Sub"),
    BROADCAST("TruncateDiv"),
    BROADCAST("TruncateMod"),
    BROADCAST("Xdivy"),
    BROADCAST("Xlog1py"),
    BROADCAST("Xlogy"),
    BROADCAST("Zeta"),
    {"AddN", rule_all_merged},
    {"All", reduction},
    {"Any", reduction},
    {"ApproximateEqual", rule_merged},
    {"ArgMax", index_of_extreme},
    {"ArgMin", index_of_extreme},
    {"BatchMatMul", batch_mat_mul},
    {"BatchMatMulV2", batch_mat_mul},
    {"BatchMatMulV3", batch_mat_mul},
    {"Bincount", bincount},
    {"Cholesky", square},
    {"ClipByValue", rule_same},
    {"Cross", rule_merged},
    {"Cumprod", rule_same},
    {"Cumsum", rule_same},
    {"EuclideanNorm", reduction},
    {"InvGrad", rule_same},
    {"LinSpace", linear_space},
    {"MatMul", mat_mul},
    {"MatrixDeterminant", determinant},
    {"LogMatrixDeterminant", determinant},
    {"MatrixInverse", square},
    {"Max", reduction},
    {"Mean", reduction},
    {"Min", reduction},
    {"Prod", reduction},
    {"ReciprocalGrad", rule_same},
    {"RsqrtGrad", rule_same},
    {"SegmentMax", segments},
    {"SegmentMean", segments},
    {"SegmentMin", segments},
    {"SegmentProd", segments},
    {"SegmentSum", segments},
    {"SigmoidGrad", rule_same},
    {"SparseMatMul", mat_mul},
    {"SparseSegmentMean", sparse_segments},
    {"SparseSegmentMeanWithNumSegments", sparse_segments},
    {"SparseSegmentSqrtN", sparse_segments},
    {"SparseSegmentSqrtNWithNumSegments", sparse_segments},
    {"SparseSegmentSum", sparse_segments},
    {"SparseSegmentSumWithNumSegments", sparse_segments},
    {"SqrtGrad", rule_same},
    {"Sum", reduction},
    {"TanhGrad", rule_same},
    {"UnsortedSegmentMax", unsorted_segments},
    {"UnsortedSegmentMin", unsorted_segments},
    {"UnsortedSegmentProd", unsorted_segments},
    {"UnsortedSegmentSum", unsorted_segments},
    {NULL, NULL},
};
