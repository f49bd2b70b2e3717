/* Shape rules of ops that pass values on, of control flow, and of variables and their updates. What
 * a rule is: shape_internal.h. */
#include "client/shape_internal.h"

/* ---- Passing on ---- */

static dp_status *all_same(shape_call *call) {
  for (int i = 0; i < call->node->output_count; i++)
    call->outputs[i] = input_shape(call, i);
  return NULL;
}

static dp_status *split_ways(shape_call *call) {
  call->outputs[0] = call->outputs[1] = input_shape(call, 0);
  return NULL;
}

/* The sizes on which all inputs agree. Unknown in a loop, where a variable may change its shape
 * from one iteration to the next. */
static dp_status *merge(shape_call *call) {
  dp_partial_shape merged = dp_partial_shape_unknown();
  call->outputs[1] = shape_of_rank(0);
  for (int i = 0; i < call->node->input_count; i++) {
    TF_Output source = shape_source(call, i);
    if (!source.oper || dp_node_is_enter(source.oper->node) ||
        dp_node_is_next_iteration(source.oper->node))
      return NULL;
    dp_partial_shape branch = dp_client_shape(source);
    if (i == 0)
      merged = branch;
    if (branch.rank != merged.rank)
      return NULL;
    for (int k = 0; k < merged.rank; k++)
      merged.dims[k] = merged.dims[k] == branch.dims[k] ? merged.dims[k] : -1;
  }
  call->outputs[0] = merged;
  return NULL;
}

static dp_status *enter(shape_call *call) {
  if (shape_flag(call, "is_constant"))
    call->outputs[0] = input_shape(call, 0);
  return NULL;
}

static dp_status *ensure_shape(shape_call *call) {
  dp_partial_shape from = input_shape(call, 0);
  const dp_attr *attr = dp_node_attr(call->node, "shape");
  return merge_shapes(&from, attr->shape, &call->outputs[0]);
}

/* ---- Variables ---- */

static dp_status *of_attr(shape_call *call) {
  const dp_attr *attr = dp_node_attr(call->node, "shape");
  if (attr && attr->kind == DP_ATTR_SHAPE)
    call->outputs[0] = *attr->shape;
  return NULL;
}

/* The shape of a variable's value. Known only if the input comes directly from the VarHandleOp. */
static dp_partial_shape held(shape_call *call, int index) {
  const dp_node *handle = shape_source(call, index).oper->node;
  const dp_attr *attr = dp_node_is(handle, "VarHandleOp") ? dp_node_attr(handle, "shape") : NULL;
  return attr && attr->kind == DP_ATTR_SHAPE ? *attr->shape : dp_partial_shape_unknown();
}

static dp_status *read_variable(shape_call *call) {
  call->outputs[0] = held(call, 0);
  return NULL;
}

static dp_status *variable_shape(shape_call *call) {
  call->outputs[0] = vector_shape(held(call, 0).rank);
  return NULL;
}

/* assign(variable, value) */
static dp_status *assign_variable(shape_call *call) {
  dp_partial_shape variable = held(call, 0), value = input_shape(call, 1), both;
  return merge_shapes(&variable, &value, &both);
}

static dp_status *assign(shape_call *call) {
  if (!shape_flag(call, "validate_shape")) {
    call->outputs[0] = input_shape(call, 1);
    return NULL;
  }
  return rule_merged(call);
}

static dp_status *resource_gather(shape_call *call) {
  dp_partial_shape params = held(call, 0), indices = input_shape(call, 1);
  DP_RETURN_IF_ERROR(expect_rank_at_least(&params, 1));
  if (params.rank < 0 || shape_integer(call, "batch_dims", 0))
    return NULL;
  dp_partial_shape tail = part_of_shape(&params, 1, params.rank);
  return join_shapes(&indices, &tail, &call->outputs[0]);
}

const shape_row dp_shape_rows_flow[] = {
    {"Assign", assign},
    {"AssignAdd", rule_merged},
    {"AssignAddVariableOp", assign_variable},
    {"AssignSub", rule_merged},
    {"AssignSubVariableOp", assign_variable},
    {"AssignVariableOp", assign_variable},
    {"CheckNumerics", rule_same},
    {"EnsureShape", ensure_shape},
    {"Enter", enter},
    {"Exit", rule_same},
    {"GuaranteeConst", rule_same},
    {"HistogramSummary", rule_scalar},
    {"Identity", rule_same},
    {"IdentityN", all_same},
    {"ImageSummary", rule_scalar},
    {"IsVariableInitialized", rule_scalar},
    {"LoopCond", rule_same},
    {"Merge", merge},
    {"MergeSummary", rule_scalar},
    {"NextIteration", rule_same},
    {"PreventGradient", rule_same},
    {"Print", rule_same},
    {"ReadVariableOp", read_variable},
    {"RefEnter", enter},
    {"RefExit", rule_same},
    {"RefIdentity", rule_same},
    {"RefMerge", merge},
    {"RefNextIteration", rule_same},
    {"RefSwitch", split_ways},
    {"ResourceGather", resource_gather},
    {"ScalarSummary", rule_scalar},
    {"Snapshot", rule_same},
    {"StopGradient", rule_same},
    {"Switch", split_ways},
    {"VarHandleOp", rule_scalar},
    {"VarIsInitializedOp", rule_scalar},
    {"Variable", of_attr},
    {"VariableShape", variable_shape},
    {"VariableV2", of_attr},
    {NULL, NULL},
};
