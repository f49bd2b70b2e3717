/* Ops on shapes: Shape, Size, Rank and the like return one; Reshape, ExpandDims, Squeeze and the
 * like give the same memory another shape. Nothing here reads elements of the data; reshaped
 * results share the input's buffer. */
#include "kernels/shared/family.h"
#include "kernels/shared/support.h"

/* ---- Asking ---- */
static dp_status *write_shape(dp_op_context *context, int32_t input, int32_t output,
                              const char *op) {
  dp_shape shape = dp_op_input(context, input)->shape, size = dp_shape_vector(shape.rank);
  dp_tensor *result;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, output, &size, &result));
  for (int i = 0; i < shape.rank; ++i) {
    if (result->dtype == DP_INT32 && shape.dims[i] > INT32_MAX)
      return DP_INVALID("%s output type is 32-bit  but dim %d is %lld", op, i,
                        (long long)shape.dims[i]);
    dp_tensor_set_int(result, i, shape.dims[i]);
  }
  return NULL;
}

static dp_status *shape_compute(dp_op_context *context, void *state) {
  return write_shape(context, 0, 0, "Shape");
}

static dp_status *shapes_compute(dp_op_context *context, void *state) {
  for (int32_t i = 0; i < context->input_count; ++i)
    DP_RETURN_IF_ERROR(write_shape(context, i, i, "ShapeN"));
  return NULL;
}

static dp_status *size_compute(dp_op_context *context, void *state) {
  int64_t size = dp_tensor_elements(dp_op_input(context, 0));
  if (dp_op_output_type(context, 0) == DP_INT64)
    return dp_op_output_int64(context, 0, size);
  if (size > INT32_MAX)
    return DP_INVALID("Number of elements was larger than representable by 32-bit output type");
  return dp_op_output_int32(context, 0, (int32_t)size);
}

static dp_status *rank_compute(dp_op_context *context, void *state) {
  return dp_op_output_int32(context, 0, dp_op_input(context, 0)->shape.rank);
}

/* ---- Giving another shape ---- */
/* Moves the input's memory to the output. The caller sets the returned shape. */
static dp_shape *pass_memory(dp_op_context *context) {
  dp_tensor *from = &context->inputs[0].tensor, *to = &context->outputs[0].tensor;
  to->dtype = from->dtype;
  to->buffer = from->buffer;
  to->data = from->data;
  from->buffer = NULL;
  from->dtype = DP_INVALID_DTYPE;
  return &to->shape;
}

static void output_reshaped(dp_op_context *context, const dp_shape *shape) {
  *pass_memory(context) = *shape;
}

/* Replaces the -1 at `unknown`. `product` is the product of the sizes that are neither -1 nor 0.
 * When the wanted sizes contain a 0, dimensions of size 0 of the input are ignored: [0] reshaped to
 * [-1, 0] is [1, 0]. */
static dp_status *infer_size(const dp_shape *from, dp_shape *shape, int unknown, int64_t product,
                             bool has_zero) {
  int64_t elements = 1;
  bool skipped = false;
  for (int i = 0; i < from->rank; ++i) {
    if (from->dims[i] == 0 && has_zero)
      skipped = true;
    else
      elements *= from->dims[i];
  }
  if (!skipped && elements % product != 0)
    return DP_INVALID("Input to reshape is a tensor with %lld values, but the requested shape "
                      "requires a multiple of %lld",
                      (long long)elements, (long long)product);
  shape->dims[unknown] = elements / product;
  return NULL;
}

static dp_status *reshape_compute(dp_op_context *context, void *state) {
  const dp_tensor *sizes = dp_op_input(context, 1);
  /* A scalar is accepted in place of a vector of one element, for old graphs. */
  if (sizes->shape.rank > 1)
    return DP_INVALID("sizes input must be 1-D, not %s", dp_shape_text(&sizes->shape));
  int64_t count = dp_tensor_elements(sizes), product = 1;
  if (count > DP_MAX_RANK)
    return DP_INVALID("shape has %lld dimensions; at most %d are supported", (long long)count,
                      DP_MAX_RANK);
  dp_shape shape = {.rank = (int32_t)count};
  int unknown = -1;
  bool has_zero = false;
  for (int i = 0; i < count; ++i) {
    int64_t size = dp_tensor_int_at(sizes, i);
    shape.dims[i] = size;
    if (size == -1) {
      if (unknown >= 0)
        return DP_INVALID("Only one input size may be -1, not both %d and %d", unknown, i);
      unknown = i;
    } else if (size < 0) {
      return DP_INVALID("Size %d must be non-negative, not %lld", i, (long long)size);
    } else if (size == 0) {
      has_zero = true;
    } else if (__builtin_mul_overflow(product, size, &product)) {
      return DP_INVALID("Shape [%s] has too many elements", dp_kernel_ints_text(sizes, 0, count));
    }
  }
  const dp_shape *from = &dp_op_input(context, 0)->shape;
  if (unknown >= 0) {
    DP_RETURN_IF_ERROR(infer_size(from, &shape, unknown, product, has_zero));
    product *= shape.dims[unknown];
  }
  shape.elements = has_zero ? 0 : product;
  if (shape.elements != from->elements)
    return DP_INVALID("Input to reshape is a tensor with %lld values, but the requested shape has "
                      "%lld",
                      (long long)from->elements, (long long)shape.elements);
  output_reshaped(context, &shape);
  return NULL;
}

static dp_status *expand_compute(dp_op_context *context, void *state) {
  const dp_tensor *axis = dp_op_input(context, 1);
  const dp_shape *from = &dp_op_input(context, 0)->shape;
  int rank = from->rank;
  if (dp_tensor_elements(axis) != 1)
    return DP_INVALID("'dim' must be a tensor with a single value");
  int64_t index = dp_tensor_int_at(axis, 0);
  int at;
  if (!dp_kernel_normalize_axis(index, rank + 1, &at))
    return DP_INVALID("Tried to expand dim index %lld for tensor with %d dimensions.",
                      (long long)index, rank);
  if (rank == DP_MAX_RANK)
    return DP_INVALID("a tensor has at most %d dimensions", DP_MAX_RANK);
  dp_shape *shape = pass_memory(context);
  shape->rank = rank + 1;
  shape->elements = from->elements;
  shape->dims[at] = 1;
  for (int i = 0; i < rank; ++i)
    shape->dims[i < at ? i : i + 1] = from->dims[i];
  return NULL;
}

typedef struct squeeze_state {
  int32_t count; /* 0: every dimension of size 1 */
  int64_t axes[DP_MAX_RANK];
} squeeze_state;

static dp_status *squeeze_create(const dp_kernel_setup *setup, void *memory) {
  squeeze_state *state = memory;
  const dp_attr *axes;
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "squeeze_dims", DP_ATTR_LIST_INT, &axes));
  if (axes->count > DP_MAX_RANK)
    return DP_INVALID("squeeze_dims has %d entries; at most %d are supported", axes->count,
                      DP_MAX_RANK);
  state->count = axes->count;
  for (int32_t i = 0; i < axes->count; ++i)
    state->axes[i] = axes->integers[i];
  return NULL;
}

static dp_status *squeeze_compute(dp_op_context *context, void *memory) {
  const squeeze_state *state = memory;
  dp_shape from = dp_op_input(context, 0)->shape, shape = {.elements = from.elements};
  uint32_t bits = 0;
  for (int32_t i = 0; i < state->count; ++i) {
    int axis;
    if (!dp_kernel_normalize_axis(state->axes[i], from.rank, &axis))
      return DP_INVALID("Tried to squeeze dim index %lld for tensor with %d dimensions.",
                        (long long)state->axes[i], from.rank);
    bits |= 1u << axis;
  }
  for (int i = 0; i < from.rank; ++i) {
    bool drop = state->count ? bits >> i & 1 : from.dims[i] == 1;
    if (drop && from.dims[i] != 1)
      return DP_INVALID("Can not squeeze dim[%d], expected a dimension of 1, got %lld", i,
                        (long long)from.dims[i]);
    if (!drop)
      shape.dims[shape.rank++] = from.dims[i];
  }
  output_reshaped(context, &shape);
  return NULL;
}

typedef struct ensure_state {
  dp_partial_shape shape;
  const char *input; /* the node whose output is checked; borrowed from the graph */
} ensure_state;

static dp_status *ensure_create(const dp_kernel_setup *setup, void *memory) {
  ensure_state *state = memory;
  const dp_partial_shape *shape;
  DP_RETURN_IF_ERROR(dp_node_get_shape(setup->node, "shape", &shape));
  state->shape = *shape;
  state->input = dp_node_client_name(setup->graph->nodes[setup->node->inputs[0].node]);
  return NULL;
}

static dp_status *ensure_compute(dp_op_context *context, void *memory) {
  const ensure_state *state = memory;
  const dp_shape *shape = &dp_op_input(context, 0)->shape;
  if (!dp_partial_shape_accepts(&state->shape, shape))
    return DP_INVALID("Shape of tensor %s %s is not compatible with expected shape %s.",
                      state->input, dp_shape_text(shape), dp_partial_shape_text(&state->shape));
  output_reshaped(context, shape);
  return NULL;
}

static dp_status *pass_compute(dp_op_context *context, void *state) {
  output_reshaped(context, &dp_op_input(context, 0)->shape);
  return NULL;
}

static dp_status *guarantee_compute(dp_op_context *context, void *state) {
  if (dp_op_input(context, 0)->dtype == DP_RESOURCE)
    return DP_INVALID("Input tensor cannot be a resource variable handle.");
  return pass_compute(context, state);
}

static dp_status *pass_reference_compute(dp_op_context *context, void *state) {
  dp_op_pass_reference(context, 0, 0);
  return NULL;
}

/* ---- Quantized reshape: carries its range along ---- */
static dp_status *quantized_reshape_compute(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(reshape_compute(context, state));
  for (int32_t i = 2; i <= 3; ++i) {
    const dp_tensor *limit = dp_op_input(context, i);
    if (limit->shape.rank != 0)
      return DP_INVALID("%s must be a scalar, got shape %s", i == 2 ? "input_min" : "input_max",
                        dp_shape_text(&limit->shape));
    dp_op_pass(context, i, i - 1);
  }
  return NULL;
}

#define CHEAP .flags = DP_KERNEL_CHEAP
static const dp_kernel rows[] = {
    {.op = "Shape", CHEAP, .types = {{"out_type", DP_SET_INDEX}}, .compute = shape_compute},
    {.op = "ShapeN", CHEAP, .types = {{"out_type", DP_SET_INDEX}}, .compute = shapes_compute},
    {.op = "Size", CHEAP, .types = {{"out_type", DP_SET_INDEX}}, .compute = size_compute},
    {.op = "Rank", CHEAP, .compute = rank_compute},
    {.op = "Reshape", CHEAP, .types = {{"Tshape", DP_SET_INDEX}}, .compute = reshape_compute},
    {.op = "ExpandDims", CHEAP, .types = {{"Tdim", DP_SET_INDEX}}, .compute = expand_compute},
    {.op = "Squeeze",
     CHEAP,
     .state_size = sizeof(squeeze_state),
     .create = squeeze_create,
     .compute = squeeze_compute},
    {.op = "EnsureShape",
     CHEAP,
     .state_size = sizeof(ensure_state),
     .create = ensure_create,
     .compute = ensure_compute},
    {.op = "GuaranteeConst", CHEAP, .compute = guarantee_compute},
    {.op = "DebugGradientIdentity", CHEAP, .compute = pass_compute},
    {.op = "DebugGradientRefIdentity", CHEAP, .compute = pass_reference_compute},
    {.op = "QuantizedReshape", CHEAP, .compute = quantized_reshape_compute},
};
DP_KERNEL_FAMILY(array_shape, rows);
