/* For kernels of files and records: paths from string tensors, and string outputs. A path with a
 * zero byte is INVALID_ARGUMENT. Paths are malloc'd copies; the caller frees them. */
#ifndef DP_KERNELS_SHARED_IO_H
#define DP_KERNELS_SHARED_IO_H

#include "base/memory.h"
#include "runtime/kernel.h"
#include "tensor/rope.h"

/* Element `index` of a string tensor as a path, malloc'd. */
DP_MUST_USE dp_status *dp_io_path(const dp_tensor *tensor, int64_t index, char **path_out);
/* All elements of a string tensor; an array of malloc'd strings. */
typedef struct dp_io_paths {
  char **items;
  size_t count;
} dp_io_paths;
DP_MUST_USE dp_status *dp_io_paths_init(dp_io_paths *paths, const dp_tensor *tensor);
void dp_io_paths_deinit(dp_io_paths *paths);

/* Sets a scalar string output. */
DP_MUST_USE dp_status *dp_io_output_string(dp_op_context *context, int32_t output, const void *data,
                                           size_t length);
/* The same with all bytes of a rope. */
DP_MUST_USE dp_status *dp_io_output_rope(dp_op_context *context, int32_t output,
                                         const dp_rope *rope);
/* Element `index` of a string tensor. */
static inline dp_view dp_io_string(const dp_tensor *tensor, int64_t index) {
  return dp_tstring_view(&dp_tensor_strings(tensor)[index]);
}

#endif
