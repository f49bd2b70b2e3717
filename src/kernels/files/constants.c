/* ImmutableConst: a tensor whose contents are those of a file, as graphs for small devices keep
 * their weights. IsTensorFloat32Enabled: whether matrix products may round their factors; a
 * TensorFlow setting for other processors, which is always on here. */
#include "kernels/shared/family.h"

#include "base/memory.h"
#include "storage/file.h"

typedef struct constant_state {
  char *path;
  dp_dtype dtype;
  dp_shape shape;
} constant_state;

static dp_status *constant_create(const dp_kernel_setup *setup, void *memory) {
  constant_state *state = memory;
  const dp_partial_shape *shape;
  dp_view path;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "memory_region_name", &path));
  state->path = dp_strndup(path.data, path.length);
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "dtype", &state->dtype));
  if (state->dtype == DP_RESOURCE || state->dtype == DP_VARIANT)
    return DP_INVALID("Resource and variant dtypes are invalid for this op.");
  DP_RETURN_IF_ERROR(dp_node_get_shape(setup->node, "shape", &shape));
  if (!dp_partial_shape_is_known(shape))
    return DP_INVALID("The shape of an ImmutableConst must be known, but is %s",
                      dp_partial_shape_text(shape));
  return dp_shape_make(shape->rank, shape->dims, &state->shape);
}

static void constant_destroy(void *memory) {
  dp_free(((constant_state *)memory)->path);
}

static dp_status *read_contents(dp_file *file, dp_op_context *context,
                                const constant_state *state) {
  uint64_t bytes = (uint64_t)state->shape.elements * dp_dtype_size(state->dtype);
  size_t done;
  dp_tensor *output;
  if (bytes > file->end)
    return dp_status_create(DP_INTERNAL,
                            "Readonly memory region has wrong length (%llu) when allocating %llu",
                            (unsigned long long)file->end, (unsigned long long)bytes);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &state->shape, &output));
  DP_RETURN_IF_ERROR(dp_file_read(file, 0, output->data, bytes, &done));
  if (done < bytes)
    return dp_status_create(DP_DATA_LOSS, "%s became shorter while it was read", state->path);
  return NULL;
}

static dp_status *constant_compute(dp_op_context *context, void *memory) {
  const constant_state *state = memory;
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_open(state->path, DP_FILE_READ, &file));
  dp_status *status =
      state->dtype == DP_STRING
          ? dp_status_create(DP_UNIMPLEMENTED, "Sorry, DT_STRING is not currently supported for "
                                               "ImmutableConstOp.")
          : read_contents(file, context, state);
  dp_status_update(&status, dp_file_close(file));
  return status;
}

static dp_status *is_enabled(dp_op_context *context, void *memory) {
  (void)memory;
  return dp_op_output_bool(context, 0, true);
}

static const dp_kernel rows[] = {
    {.op = "ImmutableConst",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(constant_state),
     .create = constant_create,
     .compute = constant_compute,
     .destroy = constant_destroy},
    {.op = "IsTensorFloat32Enabled", .flags = DP_KERNEL_CHEAP, .compute = is_enabled},
};
DP_KERNEL_FAMILY(constants, rows);
