/* Small ops on indices: DataFormatDimMap and DataFormatVecPermute translate dimensions and vectors
 * of sizes between layouts such as NHWC and NCHW, UnravelIndex turns flat positions into
 * coordinates. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/shared/support.h"

enum { MAX_FORMAT = 5 };

/* ---- Layouts ---- */
typedef struct layout_state {
  int size;
  int to[MAX_FORMAT];    /* where dimension i of the source is in the target */
  char from[MAX_FORMAT]; /* letters */
} layout_state;

static dp_status *layout_create(const dp_kernel_setup *setup, void *memory) {
  layout_state *state = memory;
  dp_view from, to;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "src_format", &from));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "dst_format", &to));
  if (from.length != 4 && from.length != 5)
    return DP_INVALID("Source format must be of length 4 or 5, received src_format = %.*s",
                      (int)from.length, from.data);
  if (to.length != from.length)
    return DP_INVALID("Destination format must have the length of the source's, received "
                      "dst_format = %.*s",
                      (int)to.length, to.data);
  state->size = (int)from.length;
  memcpy(state->from, from.data, from.length);
  for (int i = 0; i < state->size; ++i) {
    const char *found = memchr(to.data, from.data[i], to.length);
    if (!found || memchr(from.data, from.data[i], (size_t)i))
      return DP_INVALID("Destination and source format must determine a permutation, got %.*s and "
                        "%.*s",
                        (int)from.length, from.data, (int)to.length, to.data);
    state->to[i] = (int)(found - to.data);
  }
  return NULL;
}

static dp_status *dim_map(dp_op_context *context, void *memory) {
  const layout_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  for (int64_t i = 0; i < input->shape.elements; ++i) {
    int axis;
    if (!dp_kernel_normalize_axis(dp_tensor_int_at(input, i), state->size, &axis))
      return DP_INVALID("Dimension %lld is not in [%d, %d)", (long long)dp_tensor_int_at(input, i),
                        -state->size, state->size);
    dp_tensor_set_int(output, i, state->to[axis]);
  }
  return NULL;
}

/* Vectors with all dimensions, or only the spatial ones. */
static dp_status *vec_permute(dp_op_context *context, void *memory) {
  const layout_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_shape *shape = &input->shape;
  if (shape->rank != 1 && shape->rank != 2)
    return DP_INVALID("input must be a vector or 2D tensor, but got shape %s",
                      dp_shape_text(shape));
  int64_t count = shape->dims[0], width = shape->rank == 2 ? shape->dims[1] : 1;
  if (count != state->size && count != state->size - 2)
    return DP_INVALID("%s must be of size %d or %d, but got shape %s",
                      shape->rank == 1 ? "1D input" : "First dimension of 2D input",
                      state->size - 2, state->size, dp_shape_text(shape));
  if (shape->rank == 2 && width != 2)
    return DP_INVALID("Second dimension of 2D input must be of size 2, but got shape %s",
                      dp_shape_text(shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, shape, &output));
  bool is_spatial = count != state->size;
  for (int i = 0, row = 0; i < state->size; ++i) {
    if (is_spatial && (state->from[i] == 'N' || state->from[i] == 'C'))
      continue;
    int to = state->to[i];
    for (int j = 0; is_spatial && j < state->size; ++j)
      to -= (state->from[j] == 'N' || state->from[j] == 'C') && state->to[j] < state->to[i];
    if (row == count)
      return DP_INVALID("The layout has more than %lld spatial dimensions", (long long)count);
    for (int64_t j = 0; j < width; ++j)
      dp_tensor_set_int(output, to * width + j, dp_tensor_int_at(input, row * width + j));
    ++row;
  }
  return NULL;
}

/* ---- UnravelIndex ---- */
static dp_status *unravel(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *indices = dp_op_input(context, 0), *sizes = dp_op_input(context, 1);
  int64_t dims[DP_MAX_RANK], rank, product = 1, count = indices->shape.elements;
  if (indices->shape.rank > 1)
    return DP_INVALID("The indices can only be scalar or vector, got \"%s\"",
                      dp_shape_text(&indices->shape));
  if (sizes->shape.rank != 1)
    return DP_INVALID("The indices can only be 1-D, got \"%s\"", dp_shape_text(&sizes->shape));
  DP_RETURN_IF_ERROR(dp_kernel_read_ints(sizes, "dims", DP_MAX_RANK, dims, &rank));
  for (int64_t i = 0; i < rank; ++i) {
    if (dims[i] == 0)
      return DP_INVALID("Input dims cannot contain a dim of zero, but dims contains zero at index "
                        "%lld",
                        (long long)i);
    if (dims[i] < 0 || __builtin_mul_overflow(product, dims[i], &product))
      return DP_INVALID("Input dims product is causing integer overflow");
  }
  dp_shape shape = indices->shape.rank == 0 ? dp_shape_vector(rank) : dp_shape_matrix(rank, count);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  for (int64_t i = 0; i < count; ++i) {
    int64_t left = dp_tensor_int_at(indices, i);
    if (left >= product) /* a negative index gives negative coordinates, as in TensorFlow */
      return DP_INVALID("index is out of bound as with dims");
    for (int64_t j = rank - 1; j >= 0; --j) {
      dp_tensor_set_int(output, j * count + i, left % dims[j]);
      left /= dims[j];
    }
  }
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "DataFormatDimMap",
     .types = {{"T", DP_SET_INDEX}},
     .state_size = sizeof(layout_state),
     .create = layout_create,
     .compute = dim_map},
    {.op = "DataFormatVecPermute",
     .types = {{"T", DP_SET_INDEX}},
     .state_size = sizeof(layout_state),
     .create = layout_create,
     .compute = vec_permute},
    {.op = "UnravelIndex", .types = {{"Tidx", DP_SET_INDEX}}, .compute = unravel},
};
DP_KERNEL_FAMILY(array_layout, rows);
