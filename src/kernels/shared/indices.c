/* Checks of index tensors, and the texts of their errors, which equal TensorFlow's. A vector loop
 * checks the range of all indices; only when it fails is the first bad index searched. */
#include "kernels/shared/indices.h"

#include "kernels/loops/index.h"

static bool are_in_range(const dp_tensor *indices, int64_t limit) {
  bool is_int32 = indices->dtype == DP_INT32;
  return (is_int32 || indices->dtype == DP_INT64) &&
         dp_index_loops_of(is_int32)->in_range(indices->data, dp_tensor_elements(indices), limit);
}

int64_t dp_indices_find_bad(const dp_tensor *indices, int64_t limit) {
  if (are_in_range(indices, limit))
    return -1;
  for (int64_t i = 0; i < dp_tensor_elements(indices); ++i)
    if ((uint64_t)dp_indices_at(indices->dtype, indices->data, i) >= (uint64_t)limit)
      return i;
  return -1;
}

void dp_indices_print_position(const dp_shape *shape, int rank, int64_t position, dp_text *text) {
  int64_t coordinates[DP_MAX_RANK];
  for (int i = rank - 1; i >= 0; --i) {
    coordinates[i] = position % shape->dims[i];
    position /= shape->dims[i];
  }
  for (int i = 0; i < rank; ++i)
    dp_text_printf(text, "%s%lld", i ? "," : "[", (long long)coordinates[i]);
  if (rank > 0)
    dp_text_add(text, "]");
}

dp_status *dp_indices_error(const dp_tensor *indices, int64_t position, int64_t limit) {
  dp_text where = {0};
  dp_indices_print_position(&indices->shape, indices->shape.rank, position, &where);
  dp_status *status = DP_INVALID("indices%s = %lld is not in [0, %lld)", dp_text_string(&where),
                                 (long long)dp_tensor_int_at(indices, position), (long long)limit);
  dp_text_deinit(&where);
  return status;
}

void dp_indices_rows_init(dp_indices_rows *rows, const dp_tensor *indices, const dp_shape *shape) {
  int last = indices->shape.rank - 1;
  rows->indices = indices;
  rows->depth = indices->shape.dims[last];
  rows->rows = dp_shape_product(&indices->shape, 0, last);
  int64_t stride = 1;
  for (int64_t i = rows->depth - 1; i >= 0; --i) {
    rows->dims[i] = shape->dims[i];
    rows->strides[i] = stride;
    stride *= shape->dims[i];
  }
}

dp_status *dp_indices_rows_error(const dp_indices_rows *rows, int64_t row, const char *what,
                                 const dp_shape *shape) {
  dp_text where = {0}, values = {0};
  const dp_shape *indices = &rows->indices->shape;
  dp_indices_print_position(indices, indices->rank - 1, row, &where);
  for (int64_t i = 0; i < rows->depth; ++i)
    dp_text_printf(&values, "%s%lld", i ? ", " : "",
                   (long long)dp_tensor_int_at(rows->indices, row * rows->depth + i));
  dp_status *status =
      DP_INVALID("indices%s = [%s] does not index into %s %s", dp_text_string(&where),
                 dp_text_string(&values), what, dp_shape_text(shape));
  dp_text_deinit(&where);
  dp_text_deinit(&values);
  return status;
}

dp_status *dp_indices_read_policy(const dp_kernel_setup *setup, dp_bad_indices *policy_out) {
  *policy_out = DP_BAD_INDICES_ERROR;
  const dp_attr *attr = dp_node_attr(setup->node, "bad_indices_policy");
  if (!attr || attr->kind != DP_ATTR_STRING)
    return NULL;
  if (dp_view_equals(attr->string, "IGNORE"))
    *policy_out = DP_BAD_INDICES_IGNORE;
  else if (attr->string.length != 0 && !dp_view_equals(attr->string, "ERROR") &&
           !dp_view_equals(attr->string, "DEFAULT"))
    return DP_INVALID("Unknown bad_indices_policy: %.*s", (int)attr->string.length,
                      attr->string.data);
  return NULL;
}
