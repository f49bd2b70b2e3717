/* SpaceToBatch, BatchToSpace, SpaceToDepth, DepthToSpace, and ExtractImagePatches and
 * -VolumePatches. Each consists of a few strided moves: one per offset within a block (or window),
 * over the part of the image where that offset exists. The rest, which is padding, is zero. */
#include "kernels/shared/family.h"
#include "kernels/shared/move.h"

/* ---- SpaceToBatch, BatchToSpace ---- */
typedef struct blocks {
  int count; /* spatial dimensions */
  int64_t size[DP_MAX_RANK], before[DP_MAX_RANK], after[DP_MAX_RANK];
  int64_t product;
} blocks;

static dp_status *read_blocks(const dp_shape *input, const dp_tensor *sizes, const dp_tensor *edges,
                              const char *edges_name, blocks *blocks) {
  if (sizes->shape.rank != 1)
    return DP_INVALID("block_shape rank should be 1 instead of %d", sizes->shape.rank);
  int64_t count = dp_tensor_elements(sizes);
  if (input->rank < 1 + count)
    return DP_INVALID("input rank should be >= %lld instead of %d", (long long)(1 + count),
                      input->rank);
  if (edges->shape.rank != 2 || edges->shape.dims[0] != count || edges->shape.dims[1] != 2)
    return DP_INVALID("%s should have shape [%lld, 2] instead of %s", edges_name, (long long)count,
                      dp_shape_text(&edges->shape));
  blocks->count = (int)count;
  blocks->product = 1;
  for (int i = 0; i < count; ++i) {
    blocks->size[i] = dp_tensor_int_at(sizes, i);
    if (blocks->size[i] < 1)
      return DP_INVALID("All values in block_shape must be positive, got value, %lld at index %d.",
                        (long long)blocks->size[i], i);
    if (__builtin_mul_overflow(blocks->product, blocks->size[i], &blocks->product))
      return DP_INVALID("Product of block sizes must be positive, got an overflow");
    blocks->before[i] = dp_tensor_int_at(edges, 2 * i);
    blocks->after[i] = dp_tensor_int_at(edges, 2 * i + 1);
    if (blocks->before[i] < 0 || blocks->after[i] < 0 || blocks->before[i] > INT64_MAX / 8 ||
        blocks->after[i] > INT64_MAX / 8)
      return DP_INVALID("%s must be non-negative", edges_name[0] == 'p' ? "Paddings" : "Crops");
  }
  return NULL;
}

static dp_status *read_square_block(dp_op_context *context, int64_t size, const char *edges_name,
                                    blocks *blocks) {
  const dp_tensor *input = dp_op_input(context, 0), *edges = dp_op_input(context, 1);
  if (input->shape.rank != 4)
    return DP_INVALID("Input rank should be: 4instead of: %d", input->shape.rank);
  int64_t numbers[2] = {size, size};
  dp_tensor sizes = {.dtype = DP_INT64, .data = numbers, .shape = dp_shape_vector(2)};
  return read_blocks(&input->shape, &sizes, edges, edges_name, blocks);
}

/* The part of the small (batch) image whose pixels at `offset` of a block are inside the large
 * one. */
typedef struct overlap {
  int64_t first, count;
} overlap;

static overlap find_overlap(int64_t small, int64_t large, int64_t block, int64_t offset,
                            int64_t before) {
  /* large index = small index * block + offset - before */
  int64_t shift = before - offset;
  int64_t first = shift > 0 ? (shift + block - 1) / block : 0;
  int64_t end = large + shift > 0 ? (large + shift + block - 1) / block : 0;
  end = end < small ? end : small;
  return (overlap){first, end > first ? end - first : 0};
}

/* Moves between the image (`large`) and its blocks (`small`, whose batch is larger). */
static void move_blocks(dp_op_context *context, const blocks *blocks, const dp_tensor *large,
                        const dp_tensor *small, bool to_batch) {
  int64_t large_strides[DP_MAX_RANK], small_strides[DP_MAX_RANK];
  int64_t size = (int64_t)dp_dtype_size(large->dtype), batch = large->shape.dims[0];
  dp_move_strides(&large->shape, large_strides);
  dp_move_strides(&small->shape, small_strides);
  int64_t inner = dp_shape_product(&large->shape, 1 + blocks->count, large->shape.rank);
  for (int64_t block = 0; block < blocks->product; ++block) {
    int64_t offsets[DP_MAX_RANK], rest = block, large_at = 0;
    int64_t small_at = block * batch * small_strides[0];
    for (int i = blocks->count - 1; i >= 0; --i) {
      offsets[i] = rest % blocks->size[i];
      rest /= blocks->size[i];
    }
    dp_move move;
    dp_move_init(&move, large->dtype);
    dp_move_add(&move, batch, to_batch ? large_strides[0] : small_strides[0],
                to_batch ? small_strides[0] : large_strides[0]);
    for (int i = 0; i < blocks->count; ++i) {
      overlap part = find_overlap(small->shape.dims[1 + i], large->shape.dims[1 + i],
                                  blocks->size[i], offsets[i], blocks->before[i]);
      int64_t large_step = large_strides[1 + i] * blocks->size[i];
      small_at += part.first * small_strides[1 + i];
      large_at +=
          (part.first * blocks->size[i] + offsets[i] - blocks->before[i]) * large_strides[1 + i];
      dp_move_add(&move, part.count, to_batch ? large_step : small_strides[1 + i],
                  to_batch ? small_strides[1 + i] : large_step);
    }
    dp_move_add(&move, inner, 1, 1);
    char *large_data = (char *)large->data + large_at * size;
    char *small_data = (char *)small->data + small_at * size;
    dp_move_run(context, &move, to_batch ? small_data : large_data,
                to_batch ? large_data : small_data);
  }
}

static dp_status *space_to_batch(dp_op_context *context, const blocks *blocks) {
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, input->shape.dims, sizeof dims);
  if (__builtin_mul_overflow(dims[0], blocks->product, &dims[0]))
    return DP_INVALID("The batch of the result overflows");
  bool pads = false;
  for (int i = 0; i < blocks->count; ++i) {
    int64_t padded = dims[1 + i] + blocks->before[i] + blocks->after[i];
    if (padded % blocks->size[i] != 0)
      return DP_INVALID("padded_shape[%d]=%lld is not divisible by block_shape[%d]=%lld", i,
                        (long long)padded, i, (long long)blocks->size[i]);
    pads |= padded != dims[1 + i];
    dims[1 + i] = padded / blocks->size[i];
  }
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(input->shape.rank, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (pads)
    dp_move_fill(context, output->dtype, output->data, NULL, shape.elements);
  if (shape.elements > 0)
    move_blocks(context, blocks, input, output, true);
  return NULL;
}

static dp_status *batch_to_space(dp_op_context *context, const blocks *blocks) {
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, input->shape.dims, sizeof dims);
  if (dims[0] % blocks->product != 0)
    return DP_INVALID("Input batch dimension (%lld) is not divisible by product of block sizes "
                      "(%lld)",
                      (long long)dims[0], (long long)blocks->product);
  dims[0] /= blocks->product;
  for (int i = 0; i < blocks->count; ++i) {
    int64_t whole;
    if (__builtin_mul_overflow(dims[1 + i], blocks->size[i], &whole))
      return DP_INVALID("cropped_shape[%d] overflows", i);
    dims[1 + i] = whole - blocks->before[i] - blocks->after[i];
    if (dims[1 + i] < 0)
      return DP_INVALID("cropped_shape[%d]=%lld must be non-negative", i, (long long)dims[1 + i]);
  }
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(input->shape.rank, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements > 0)
    move_blocks(context, blocks, output, input, false);
  return NULL;
}

static dp_status *to_batch_compute(dp_op_context *context, void *state) {
  blocks blocks = {0};
  DP_RETURN_IF_ERROR(read_blocks(&dp_op_input(context, 0)->shape, dp_op_input(context, 1),
                                 dp_op_input(context, 2), "paddings", &blocks));
  return space_to_batch(context, &blocks);
}

static dp_status *to_space_compute(dp_op_context *context, void *state) {
  blocks blocks = {0};
  DP_RETURN_IF_ERROR(read_blocks(&dp_op_input(context, 0)->shape, dp_op_input(context, 1),
                                 dp_op_input(context, 2), "crops", &blocks));
  return batch_to_space(context, &blocks);
}

static dp_status *square_create(const dp_kernel_setup *setup, void *memory) {
  int64_t *size = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "block_size", size));
  if (*size <= 1)
    return DP_INVALID("Block size should be > 1: %lld", (long long)*size);
  return NULL;
}

static dp_status *square_to_batch_compute(dp_op_context *context, void *state) {
  blocks blocks = {0};
  DP_RETURN_IF_ERROR(read_square_block(context, *(const int64_t *)state, "paddings", &blocks));
  return space_to_batch(context, &blocks);
}

static dp_status *square_to_space_compute(dp_op_context *context, void *state) {
  blocks blocks = {0};
  DP_RETURN_IF_ERROR(read_square_block(context, *(const int64_t *)state, "crops", &blocks));
  return batch_to_space(context, &blocks);
}

/* ---- SpaceToDepth, DepthToSpace ---- */
typedef struct depth_state {
  int64_t block;
  bool channels_first;
} depth_state;

static dp_status *depth_create(const dp_kernel_setup *setup, void *memory) {
  depth_state *state = memory;
  dp_view format;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "block_size", &state->block));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "data_format", &format));
  if (state->block <= 1)
    return DP_INVALID("Block size should be > 1, but was: %lld", (long long)state->block);
  state->channels_first = dp_view_equals(format, "NCHW");
  if (!state->channels_first && !dp_view_equals(format, "NHWC"))
    return DP_INVALID("Only NHWC and NCHW data_format supported on CPU. Got %.*s",
                      (int)format.length, format.data);
  return NULL;
}

/* Wide and deep images have the same elements:
 *   wide  [batch, height, block, width, block, depth]   (channels last)
 *   deep  [batch, height, width, block, block, depth]
 * and likewise with channels first. `height` and `width` are the deep image's, `depth` is the wide
 * image's. */
static void move_depth(dp_op_context *context, const depth_state *state, const dp_tensor *wide,
                       const dp_tensor *deep, int64_t height, int64_t width, int64_t depth,
                       bool to_depth) {
  int64_t b = state->block, batch = wide->shape.dims[0], per_image = height * width * b * b * depth;
  int64_t dims[6] = {batch, height, b, width, b, depth};
  int64_t wide_last[6] = {per_image, b * width * b * depth, width * b * depth, b * depth, depth, 1};
  int64_t deep_last[6] = {per_image, width * b * b * depth, b * depth, b * b * depth, depth, 1};
  int64_t area = height * width;
  int64_t wide_first[6] = {per_image, b * width * b, width * b, b, 1, area * b * b};
  int64_t deep_first[6] = {per_image, width, b * depth * area, 1, depth * area, area};
  const int64_t *wides = state->channels_first ? wide_first : wide_last;
  const int64_t *deeps = state->channels_first ? deep_first : deep_last;
  dp_move move;
  dp_move_init(&move, wide->dtype);
  for (int i = 0; i < 6; ++i)
    dp_move_add(&move, dims[i], to_depth ? wides[i] : deeps[i], to_depth ? deeps[i] : wides[i]);
  dp_move_run(context, &move, to_depth ? deep->data : wide->data,
              to_depth ? wide->data : deep->data);
}

static dp_status *output_image(dp_op_context *context, const depth_state *state, int64_t batch,
                               int64_t height, int64_t width, int64_t depth,
                               dp_tensor **output_out) {
  int64_t last[4] = {batch, height, width, depth}, first[4] = {batch, depth, height, width};
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(4, state->channels_first ? first : last, &shape));
  return dp_op_allocate(context, 0, &shape, output_out);
}

static dp_status *to_depth_compute(dp_op_context *context, void *memory) {
  const depth_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  const int64_t *dims = input->shape.dims;
  if (input->shape.rank != 4)
    return DP_INVALID("Input rank should be 4 instead of %d", input->shape.rank);
  int space = state->channels_first ? 2 : 1;
  int64_t height = dims[space], width = dims[space + 1];
  int64_t depth = dims[state->channels_first ? 1 : 3], b = state->block;
  if (height % b != 0 || width % b != 0)
    return DP_INVALID("Image width %lld and height %lld should be divisible by block_size: %lld",
                      (long long)width, (long long)height, (long long)b);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(
      output_image(context, state, dims[0], height / b, width / b, depth * b * b, &output));
  move_depth(context, state, input, output, height / b, width / b, depth, true);
  return NULL;
}

static dp_status *from_depth_compute(dp_op_context *context, void *memory) {
  const depth_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  const int64_t *dims = input->shape.dims;
  if (input->shape.rank != 4)
    return DP_INVALID("Input rank should be: 4 instead of: %d", input->shape.rank);
  int space = state->channels_first ? 2 : 1;
  int64_t height = dims[space], width = dims[space + 1];
  int64_t depth = dims[state->channels_first ? 1 : 3], b = state->block;
  if (depth % (b * b) != 0)
    return DP_INVALID("Input depth dimension %lld should be divisible by: %lld", (long long)depth,
                      (long long)(b * b));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(
      output_image(context, state, dims[0], height * b, width * b, depth / (b * b), &output));
  move_depth(context, state, output, input, height, width, depth / (b * b), false);
  return NULL;
}

/* ---- Patches ---- */
typedef struct patch_state {
  int count; /* spatial dimensions: 2 or 3 */
  bool same; /* padding SAME */
  int64_t size[3], stride[3], rate[3];
} patch_state;

static dp_status *read_window(const dp_kernel_setup *setup, const char *name, int count,
                              int64_t *values_out) {
  const dp_attr *attr;
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, name, DP_ATTR_LIST_INT, &attr));
  if (attr->count != count + 2 || attr->integers[0] != 1 || attr->integers[count + 1] != 1)
    return dp_status_create(DP_UNIMPLEMENTED, "Only support %s across space.", name);
  for (int i = 0; i < count; ++i) {
    values_out[i] = attr->integers[1 + i];
    if (values_out[i] < 1 || values_out[i] > INT32_MAX)
      return dp_status_create(DP_OUT_OF_RANGE, "%s is out of range.", name);
  }
  return NULL;
}

static dp_status *patch_create(const dp_kernel_setup *setup, void *memory) {
  patch_state *state = memory;
  bool volume = dp_node_is(setup->node, "ExtractVolumePatches");
  dp_view padding;
  state->count = volume ? 3 : 2;
  state->rate[0] = state->rate[1] = state->rate[2] = 1;
  DP_RETURN_IF_ERROR(read_window(setup, "ksizes", state->count, state->size));
  DP_RETURN_IF_ERROR(read_window(setup, "strides", state->count, state->stride));
  if (!volume)
    DP_RETURN_IF_ERROR(read_window(setup, "rates", state->count, state->rate));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "padding", &padding));
  state->same = dp_view_equals(padding, "SAME");
  return NULL;
}

static dp_status *patch_sizes(const patch_state *state, const dp_shape *input, int64_t *dims_out,
                              int64_t *before_out) {
  for (int i = 0; i < state->count; ++i) {
    int64_t size = input->dims[1 + i], stride = state->stride[i];
    int64_t window = (state->size[i] - 1) * state->rate[i] + 1;
    int64_t count = state->same ? (size + stride - 1) / stride : (size - window + stride) / stride;
    if (count < 0)
      return DP_INVALID("Computed output size would be negative: %lld [input_size: %lld, "
                        "effective_filter_size: %lld, stride: %lld]",
                        (long long)count, (long long)size, (long long)window, (long long)stride);
    int64_t missing = (count - 1) * stride + window - size;
    /* When windows leave gaps, volumes start in the middle of the first gap; images do not. */
    bool pads = state->same && (missing > 0 || state->count == 3);
    before_out[i] = pads ? missing / 2 : 0;
    dims_out[i] = count;
  }
  return NULL;
}

static dp_status *patch_compute(dp_op_context *context, void *memory) {
  const patch_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  int count = state->count, rank = count + 2;
  if (input->shape.rank != rank)
    return DP_INVALID("input must be %d-dimensional%s", rank, dp_shape_text(&input->shape));
  int64_t dims[5], before[3], depth = input->shape.dims[rank - 1], windows = 1;
  DP_RETURN_IF_ERROR(patch_sizes(state, &input->shape, dims + 1, before));
  for (int i = 0; i < count; ++i)
    if (__builtin_mul_overflow(windows, state->size[i], &windows))
      return DP_INVALID("the window is too large");
  dims[0] = input->shape.dims[0];
  if (__builtin_mul_overflow(windows, depth, &dims[rank - 1]))
    return DP_INVALID("the window is too large");
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  if (state->same)
    dp_move_fill(context, output->dtype, output->data, NULL, shape.elements);
  int64_t from[DP_MAX_RANK], to[DP_MAX_RANK], size = (int64_t)dp_dtype_size(input->dtype);
  dp_move_strides(&input->shape, from);
  dp_move_strides(&shape, to);
  for (int64_t window = 0; window < windows; ++window) {
    int64_t rest = window, from_at = 0, to_at = window * depth, offsets[3];
    for (int i = count - 1; i >= 0; --i) {
      offsets[i] = rest % state->size[i] * state->rate[i];
      rest /= state->size[i];
    }
    dp_move move;
    dp_move_init(&move, input->dtype);
    dp_move_add(&move, dims[0], from[0], to[0]);
    for (int i = 0; i < count; ++i) {
      overlap part = find_overlap(dims[1 + i], input->shape.dims[1 + i], state->stride[i],
                                  offsets[i], before[i]);
      from_at += (part.first * state->stride[i] + offsets[i] - before[i]) * from[1 + i];
      to_at += part.first * to[1 + i];
      dp_move_add(&move, part.count, from[1 + i] * state->stride[i], to[1 + i]);
    }
    dp_move_add(&move, depth, 1, 1);
    dp_move_run(context, &move, (char *)output->data + to_at * size,
                (const char *)input->data + from_at * size);
  }
  return NULL;
}

#define WITH(type, create_fn, body) .state_size = sizeof(type), .create = create_fn, .compute = body
static const dp_kernel rows[] = {
    {.op = "SpaceToBatchND", .compute = to_batch_compute},
    {.op = "BatchToSpaceND", .compute = to_space_compute},
    {.op = "SpaceToBatch", WITH(int64_t, square_create, square_to_batch_compute)},
    {.op = "BatchToSpace", WITH(int64_t, square_create, square_to_space_compute)},
    {.op = "SpaceToDepth", WITH(depth_state, depth_create, to_depth_compute)},
    {.op = "DepthToSpace", WITH(depth_state, depth_create, from_depth_compute)},
    {.op = "ExtractImagePatches", WITH(patch_state, patch_create, patch_compute)},
    {.op = "ExtractVolumePatches", WITH(patch_state, patch_create, patch_compute)},
};
DP_KERNEL_FAMILY(array_space, rows);
