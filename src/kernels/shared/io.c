/* Paths and string outputs for the kernels of files (io.h). Long strings are put into pooled
 * buffers instead of memory from malloc. */
#include <string.h>
#include "kernels/shared/io.h"

dp_status *dp_io_path(const dp_tensor *tensor, int64_t index, char **path_out) {
  dp_view view = dp_io_string(tensor, index);
  if (view.length > 0 && memchr(view.data, '\0', view.length))
    return DP_INVALID("a path may not hold a zero byte");
  *path_out = dp_strndup(view.data, view.length);
  return NULL;
}

dp_status *dp_io_paths_init(dp_io_paths *paths, const dp_tensor *tensor) {
  size_t count = (size_t)dp_tensor_elements(tensor);
  *paths = (dp_io_paths){DP_NEW_ARRAY(char *, count + 1), 0};
  for (size_t i = 0; i < count; ++i) {
    dp_status *status = dp_io_path(tensor, (int64_t)i, &paths->items[i]);
    if (status) {
      dp_io_paths_deinit(paths);
      return status;
    }
    ++paths->count;
  }
  return NULL;
}

void dp_io_paths_deinit(dp_io_paths *paths) {
  for (size_t i = 0; i < paths->count; ++i)
    dp_free(paths->items[i]);
  dp_free(paths->items);
  *paths = (dp_io_paths){0};
}

dp_status *dp_io_output_string(dp_op_context *context, int32_t output, const void *data,
                               size_t length) {
  dp_shape shape = dp_shape_scalar();
  dp_tensor *tensor;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, output, &shape, &tensor));
  return dp_tstring_assign(dp_tensor_strings(tensor), data, length);
}

/* Strings from this length on live in a pooled buffer: malloc would get the memory from the system
 * and return it each time, at the price of a fault per page. */
#define POOLED_BYTES ((size_t)64 << 10)

static dp_status *output_pooled(dp_op_context *context, int32_t output, const dp_rope *rope) {
  dp_shape scalar = dp_shape_scalar();
  dp_buffer *buffer;
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_buffer_create(rope->length, &buffer));
  dp_rope_flatten(rope, buffer->data);
  DP_RETURN_IF_ERROR(dp_tensor_create_strings(&scalar, buffer, &tensor));
  dp_tstring_assign_view(dp_tensor_strings(&tensor), buffer->data, rope->length);
  dp_op_set_output(context, output, &tensor);
  return NULL;
}

dp_status *dp_io_output_rope(dp_op_context *context, int32_t output, const dp_rope *rope) {
  if (rope->length >= POOLED_BYTES)
    return output_pooled(context, output, rope);
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *tensor;
  char *data = NULL;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, output, &scalar, &tensor));
  DP_RETURN_IF_ERROR(dp_tstring_resize(dp_tensor_strings(tensor), rope->length, &data));
  dp_rope_flatten(rope, data);
  return NULL;
}
