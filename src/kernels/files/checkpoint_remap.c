/* LoadAndRemapMatrix: reads a matrix from a V2 checkpoint with its rows and columns in another
 * order, for warm starts with another vocabulary. Cells that the checkpoint does not have are taken
 * in turn from initializing_values. Only the rows from the first to the last wanted one are read,
 * max_rows_in_memory at a time. */
#include <string.h>
#include "base/map.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "storage/bundle.h"

typedef struct remap_state {
  int64_t rows, columns, most_rows;
} remap_state;

static dp_status *remap_create(const dp_kernel_setup *setup, void *memory) {
  remap_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_rows", &state->rows));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_cols", &state->columns));
  return dp_node_get_int(setup->node, "max_rows_in_memory", &state->most_rows);
}

/* ---- Mapping old indices to new ones ---- */
typedef struct place_map {
  const int64_t *old_of_new; /* negative: none; NULL: all keep their index */
  dp_map *new_of_old;        /* old index, as 8 bytes -> &old_of_new[new index] */
} place_map;

static int64_t find_new(const place_map *map, int64_t old) {
  if (!map->old_of_new)
    return old;
  const int64_t *found = dp_map_get_n(map->new_of_old, &old, sizeof(old));
  return found ? found - map->old_of_new : -1;
}

static bool has_old(const place_map *map, int64_t place) {
  return !map->old_of_new || map->old_of_new[place] >= 0;
}

static dp_status *invert(const dp_tensor *remapping, place_map *map) {
  map->old_of_new = remapping->data;
  map->new_of_old = dp_map_create();
  for (int64_t i = 0; i < remapping->shape.elements; ++i) {
    const int64_t *old = &map->old_of_new[i];
    if (*old < 0)
      continue;
    const int64_t *before = dp_map_put_n(map->new_of_old, old, sizeof(*old), (void *)old);
    if (before)
      return dp_status_create(DP_UNIMPLEMENTED,
                              "Old ID %lld is mapped to both new ID %lld and %lld, which is not "
                              "supported.",
                              (long long)*old, (long long)(before - map->old_of_new), (long long)i);
  }
  return NULL;
}

/* ---- One run ---- */
typedef struct remap_run {
  const remap_state *state;
  place_map rows, columns;
  int64_t first, last; /* old rows to read; -1: none */
  dp_view name;        /* name of the matrix in the checkpoint */
  dp_shape old_shape;
  float *output;
} remap_run;

static dp_status *read_rows(const dp_tensor *remapping, remap_run *run) {
  if (remapping->shape.rank != 1)
    return DP_INVALID("The `row_remapping` tensor must be 1-D, got a tensor of shape %s",
                      dp_shape_text(&remapping->shape));
  if (remapping->shape.elements != run->state->rows)
    return DP_INVALID("Size of row_remapping is %lld instead of being equal to num_rows=%lld",
                      (long long)remapping->shape.elements, (long long)run->state->rows);
  DP_RETURN_IF_ERROR(invert(remapping, &run->rows));
  run->first = run->last = -1;
  for (int64_t i = 0; i < remapping->shape.elements; ++i) {
    int64_t old = run->rows.old_of_new[i];
    if (old >= 0 && (run->first < 0 || old < run->first))
      run->first = old;
    if (old > run->last)
      run->last = old;
  }
  return NULL;
}

static dp_status *read_columns(const dp_tensor *remapping, remap_run *run) {
  if (remapping->shape.rank != 1)
    return DP_INVALID("The `col_remapping` tensor must be 1-D, got a tensor of shape %s",
                      dp_shape_text(&remapping->shape));
  if (remapping->shape.elements == 0)
    return NULL;
  if (remapping->shape.elements != run->state->columns)
    return DP_INVALID("Provided col_remapping, but its size is %lld instead of being equal to "
                      "num_cols=%lld",
                      (long long)remapping->shape.elements, (long long)run->state->columns);
  return invert(remapping, &run->columns);
}

static dp_status *check_matrix(dp_bundle_reader *reader, remap_run *run) {
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_bundle_reader_describe(reader, run->name, &dtype, &run->old_shape));
  const dp_shape *shape = &run->old_shape;
  int length = (int)run->name.length;
  if (dtype != DP_FLOAT)
    return DP_INVALID("Tensor %.*s has invalid type %s instead of expected type float", length,
                      run->name.data, dp_dtype_name(dtype));
  if (shape->rank != 2)
    return DP_INVALID("Tensor %.*s has shape %s of invalid rank %d instead of expected shape of "
                      "rank 2.",
                      length, run->name.data, dp_shape_text(shape), shape->rank);
  if (!run->columns.old_of_new && run->state->columns != shape->dims[1])
    return DP_INVALID("Tensor %.*s has shape %s, where the size of its 2nd dimension is %lld "
                      "instead of being equal to num_cols=%lld",
                      length, run->name.data, dp_shape_text(shape), (long long)shape->dims[1],
                      (long long)run->state->columns);
  return NULL;
}

/* `columns` holds the new index of each old column, or -1. */
static void place_rows(const remap_run *run, const int64_t *columns, int64_t first,
                       const dp_tensor *rows) {
  const float *from = rows->data;
  for (int64_t i = 0; i < rows->shape.dims[0]; ++i, from += rows->shape.dims[1]) {
    int64_t row = find_new(&run->rows, first + i);
    if (row < 0)
      continue;
    float *to = run->output + row * run->state->columns;
    for (int64_t k = 0; k < rows->shape.dims[1]; ++k)
      if (columns[k] >= 0)
        to[columns[k]] = from[k];
  }
}

static dp_status *load_rows(const remap_run *run, dp_bundle_reader *reader, dp_pool *pool) {
  int64_t *columns = DP_NEW_ARRAY(int64_t, (size_t)run->old_shape.dims[1] + 1);
  for (int64_t k = 0; k < run->old_shape.dims[1]; ++k)
    columns[k] = find_new(&run->columns, k);
  dp_status *status = NULL;
  int64_t count;
  for (int64_t at = run->first; at >= 0 && at <= run->last && !status; at += count) {
    int64_t left = run->last - at + 1, most = run->state->most_rows;
    count = most > 0 && most < left ? most : left;
    dp_slice slice = {.rank = 2, .start = {at, 0}, .length = {count, DP_SLICE_FULL}};
    dp_shape shape;
    dp_bundle_request request = {.name = run->name, .slice = &slice};
    status = dp_slice_shape(&slice, &run->old_shape, &shape);
    if (!status)
      status = dp_bundle_reader_read(reader, &request, 1, pool);
    if (!status)
      place_rows(run, columns, at, &request.tensor);
    dp_tensor_deinit(&request.tensor);
  }
  dp_free(columns);
  return status;
}

static dp_status *fill_missing(const remap_run *run, const dp_tensor *values) {
  int64_t count = values->shape.elements, used = 0;
  float *to = run->output;
  for (int64_t i = 0; i < run->state->rows; ++i)
    for (int64_t k = 0; k < run->state->columns; ++k, ++to) {
      if (has_old(&run->rows, i) && has_old(&run->columns, k))
        continue;
      if (used == count)
        return DP_INVALID("initializing_values contained %lld elements, but more missing values "
                          "remain.",
                          (long long)count);
      *to = ((const float *)values->data)[used++];
    }
  if (used < count)
    return DP_INVALID("initializing_values contained %lld elements, but only %lld elements were "
                      "used to fill in missing values.",
                      (long long)count, (long long)used);
  return NULL;
}

static dp_status *load_matrix(dp_op_context *context, const char *path, remap_run *run) {
  dp_bundle_reader *reader = NULL;
  dp_tensor *output;
  dp_shape shape;
  int64_t dims[] = {run->state->rows, run->state->columns};
  DP_RETURN_IF_ERROR(dp_shape_make(2, dims, &shape));
  dp_status *status = dp_bundle_reader_open(path, &reader);
  if (!status)
    status = check_matrix(reader, run);
  if (!status)
    status = dp_op_allocate(context, 0, &shape, &output);
  if (!status) {
    run->output = output->data;
    memset(run->output, 0, dp_tensor_bytes(output)); /* columns that the matrix does not have */
    status = load_rows(run, reader, context->device->blocking);
  }
  dp_bundle_reader_destroy(reader);
  return status;
}

static dp_status *open_and_load(dp_op_context *context, remap_run *run) {
  const dp_tensor *path_tensor = dp_op_input(context, 0), *name = dp_op_input(context, 1);
  if (path_tensor->shape.elements != 1)
    return DP_INVALID("The `ckpt_path` tensor must have exactly one element, got tensor of shape "
                      "%s",
                      dp_shape_text(&path_tensor->shape));
  if (name->shape.elements != 1)
    return DP_INVALID("The `old_tensor_name` tensor must have exactly one element, got tensor of "
                      "shape %s",
                      dp_shape_text(&name->shape));
  run->name = dp_io_string(name, 0);
  char *path;
  DP_RETURN_IF_ERROR(dp_io_path(path_tensor, 0, &path));
  dp_status *status = load_matrix(context, path, run);
  dp_free(path);
  return status;
}

static dp_status *remap_compute(dp_op_context *context, void *memory) {
  remap_run run = {.state = memory};
  dp_status *status = read_rows(dp_op_input(context, 2), &run);
  if (!status)
    status = read_columns(dp_op_input(context, 3), &run);
  if (!status)
    status = open_and_load(context, &run);
  if (!status)
    status = fill_missing(&run, dp_op_input(context, 4));
  dp_map_destroy(run.rows.new_of_old);
  dp_map_destroy(run.columns.new_of_old);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "LoadAndRemapMatrix",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(remap_state),
     .create = remap_create,
     .compute = remap_compute},
};
DP_KERNEL_FAMILY(checkpoint_remap, rows);
