/* Saving and restoring: V2 checkpoints (SaveV2, RestoreV2, MergeV2Checkpoints), V1 checkpoints
 * (Save, SaveSlices, Restore, RestoreSlice), and the names of shards. The storage room knows the
 * formats. These kernels check the ops' inputs as TensorFlow does. They run on the blocking pool,
 * whose threads also read and write the pieces of large tensors. */
#include <stdlib.h>
#include <string.h>
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "storage/bundle.h"
#include "storage/file.h"
#include "storage/legacy.h"

/* ---- V2 ---- */
static dp_status *check_inputs(const dp_op_context *context, bool is_save) {
  const dp_tensor *prefix = dp_op_input(context, 0);
  const dp_tensor *names = dp_op_input(context, 1);
  const dp_tensor *specs = dp_op_input(context, 2);
  if (dp_tensor_elements(prefix) != 1)
    return DP_INVALID("Input prefix should have a single element, got %lld instead.",
                      (long long)dp_tensor_elements(prefix));
  if (names->shape.rank != 1 || specs->shape.rank != 1)
    return DP_INVALID("Input tensor_names and shape_and_slices should be an 1-D tensors, got %s "
                      "and %s instead.",
                      dp_shape_text(&names->shape), dp_shape_text(&specs->shape));
  if (dp_tensor_elements(names) != dp_tensor_elements(specs))
    return DP_INVALID("tensor_names and shape_and_slices have different number of elements: %lld "
                      "vs. %lld",
                      (long long)dp_tensor_elements(names), (long long)dp_tensor_elements(specs));
  if (is_save && dp_tensor_elements(names) != context->input_count - 3)
    return DP_INVALID("Got %lld tensor names but %d tensors.", (long long)dp_tensor_elements(names),
                      context->input_count - 3);
  return NULL;
}

/* Parses the slice in a specification and checks it against the tensor to save. */
static dp_status *parse_saved_slice(dp_view spec, const dp_tensor *tensor, dp_shape *whole,
                                    dp_slice *slice) {
  dp_shape part;
  DP_RETURN_IF_ERROR(dp_slice_parse(spec, whole, slice, &part));
  if (!dp_shape_equal(&part, &tensor->shape))
    return DP_INVALID("Slice in shape_and_slice specification does not match the shape of the "
                      "tensor to  save: %.*s, tensor: %s",
                      (int)spec.length, spec.data, dp_shape_text(&tensor->shape));
  return NULL;
}

static dp_status *add_saved(dp_bundle_writer *writer, dp_view name, dp_view spec,
                            const dp_tensor *tensor) {
  if (spec.length == 0)
    return dp_bundle_writer_add(writer, name, tensor);
  dp_shape whole;
  dp_slice slice;
  DP_RETURN_IF_ERROR(parse_saved_slice(spec, tensor, &whole, &slice));
  return dp_bundle_writer_add_slice(writer, name, &whole, &slice, tensor);
}

static dp_status *save_v2(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(check_inputs(context, true));
  const dp_tensor *names = dp_op_input(context, 1);
  const dp_tensor *specs = dp_op_input(context, 2);
  char *prefix;
  DP_RETURN_IF_ERROR(dp_io_path(dp_op_input(context, 0), 0, &prefix));
  dp_bundle_writer *writer = NULL;
  dp_status *status = dp_bundle_writer_create(prefix, context->device->blocking, &writer);
  for (int64_t i = 0; i < dp_tensor_elements(names) && !status; ++i)
    status = add_saved(writer, dp_io_string(names, i), dp_io_string(specs, i),
                       dp_op_input(context, (int32_t)i + 3));
  if (!status)
    status = dp_bundle_writer_finish(writer);
  dp_bundle_writer_destroy(writer);
  dp_free(prefix);
  return status;
}

typedef struct restore_state {
  const dp_attr *dtypes;
} restore_state;

static dp_status *restore_v2_create(const dp_kernel_setup *setup, void *state) {
  return dp_node_get_list(setup->node, "dtypes", DP_ATTR_LIST_TYPE,
                          &((restore_state *)state)->dtypes);
}

/* All names must exist, with the dtypes that the node declares. */
static dp_status *check_restored_types(dp_bundle_reader *reader, const dp_tensor *names,
                                       const dp_attr *dtypes, dp_shape *shapes) {
  dp_text wrong = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < dp_tensor_elements(names) && !status; ++i) {
    dp_dtype dtype;
    dp_view name = dp_io_string(names, i);
    status = dp_bundle_reader_describe(reader, name, &dtype, &shapes[i]);
    if (!status && (int)dtype != dtypes->types[i])
      dp_text_printf(&wrong,
                     "%stensor_name = %.*s; expected dtype %s does not equal original "
                     "dtype %s",
                     wrong.length ? "\n" : "", (int)name.length, name.data,
                     dp_dtype_name(dtypes->types[i]), dp_dtype_name(dtype));
  }
  if (!status && wrong.length > 0)
    status = DP_INVALID("%s", dp_text_string(&wrong));
  dp_text_deinit(&wrong);
  return status;
}

static dp_status *parse_restored_slice(dp_view name, dp_view spec, const dp_shape *stored,
                                       dp_slice *slice) {
  dp_shape whole, part;
  DP_RETURN_IF_ERROR(dp_slice_parse(spec, &whole, slice, &part));
  if (!dp_shape_equal(&whole, stored))
    return DP_INVALID("tensor_name = %.*s; shape in shape_and_slice spec %s does not match the "
                      "shape stored in checkpoint: %s",
                      (int)name.length, name.data, dp_shape_text(&whole), dp_shape_text(stored));
  return NULL;
}

static dp_status *restore_bundle(dp_op_context *context, dp_bundle_reader *reader,
                                 const dp_attr *dtypes) {
  const dp_tensor *names = dp_op_input(context, 1);
  const dp_tensor *specs = dp_op_input(context, 2);
  size_t count = (size_t)dp_tensor_elements(names);
  dp_bundle_request *requests = DP_NEW_ARRAY(dp_bundle_request, count + 1);
  dp_slice *slices = DP_NEW_ARRAY(dp_slice, count + 1);
  dp_shape *shapes = DP_NEW_ARRAY(dp_shape, count + 1);
  dp_status *status = check_restored_types(reader, names, dtypes, shapes);
  for (size_t i = 0; i < count && !status; ++i) {
    dp_view spec = dp_io_string(specs, (int64_t)i);
    requests[i].name = dp_io_string(names, (int64_t)i);
    if (spec.length > 0) {
      requests[i].slice = &slices[i];
      status = parse_restored_slice(requests[i].name, spec, &shapes[i], &slices[i]);
    }
  }
  if (!status)
    status = dp_bundle_reader_read(reader, requests, count, context->device->blocking);
  for (size_t i = 0; i < count && !status; ++i)
    dp_op_set_output(context, (int32_t)i, &requests[i].tensor);
  dp_free(requests);
  dp_free(slices);
  dp_free(shapes);
  return status;
}

static dp_status *restore_legacy_tensor(dp_op_context *context, dp_legacy_reader *reader,
                                        const char *pattern, dp_view name, dp_view spec,
                                        int32_t output);

static dp_status *restore_v2(dp_op_context *context, void *state) {
  const dp_attr *dtypes = ((restore_state *)state)->dtypes;
  const dp_tensor *names = dp_op_input(context, 1);
  if (dp_tensor_elements(names) != dtypes->count)
    return DP_INVALID("Got %lld tensor names, but %d expected dtypes.",
                      (long long)dp_tensor_elements(names), dtypes->count);
  DP_RETURN_IF_ERROR(check_inputs(context, false));
  char *prefix;
  DP_RETURN_IF_ERROR(dp_io_path(dp_op_input(context, 0), 0, &prefix));
  char *index = dp_bundle_index_path(prefix);
  dp_status *status = dp_storage_check_path(index);
  if (!status && dp_path_exists(index)) {
    dp_bundle_reader *reader = NULL;
    status = dp_bundle_reader_open(prefix, &reader);
    if (!status)
      status = restore_bundle(context, reader, dtypes);
    dp_bundle_reader_destroy(reader);
  } else if (!status) { /* maybe a V1 checkpoint */
    dp_legacy_reader *reader = NULL;
    status = dp_legacy_reader_take(prefix, &reader);
    for (int32_t i = 0; i < dtypes->count && !status; ++i)
      status = restore_legacy_tensor(context, reader, prefix, dp_io_string(names, i),
                                     dp_io_string(dp_op_input(context, 2), i), i);
    dp_legacy_reader_give(reader);
  }
  dp_free(index);
  dp_free(prefix);
  return status;
}

typedef struct merge_state {
  bool delete_old_folders;
  bool allow_missing;
} merge_state;

static dp_status *merge_create(const dp_kernel_setup *setup, void *state) {
  merge_state *merge = state;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "delete_old_dirs", &merge->delete_old_folders));
  if (!dp_node_attr(setup->node, "allow_missing_files"))
    return NULL;
  return dp_node_get_bool(setup->node, "allow_missing_files", &merge->allow_missing);
}

static void remove_folders(const dp_io_paths *prefixes, const char *merged) {
  char *merged_folder = dp_path_folder(merged);
  for (size_t i = 0; i < prefixes->count; ++i) {
    char *folder = dp_path_folder(prefixes->items[i]);
    if (folder[0] && strcmp(folder, merged_folder) != 0)
      dp_status_release(dp_path_remove_folder(folder)); /* the first one of a shared folder wins */
    dp_free(folder);
  }
  dp_free(merged_folder);
}

static dp_status *merge_v2(dp_op_context *context, void *state) {
  const merge_state *merge = state;
  const dp_tensor *prefixes = dp_op_input(context, 0);
  const dp_tensor *destination = dp_op_input(context, 1);
  if (prefixes->shape.rank != 1)
    return DP_INVALID("Input checkpoint_prefixes should be an 1-D tensor, got %s instead.",
                      dp_shape_text(&prefixes->shape));
  if (destination->shape.rank != 0)
    return DP_INVALID("Input destination_prefix should be a scalar tensor, got %s instead.",
                      dp_shape_text(&destination->shape));
  dp_io_paths paths;
  char *merged;
  DP_RETURN_IF_ERROR(dp_io_path(destination, 0, &merged));
  dp_status *status = dp_io_paths_init(&paths, prefixes);
  if (!status) {
    status = dp_bundle_merge((const char *const *)paths.items, paths.count, merged,
                             merge->allow_missing);
    if (!status && merge->delete_old_folders)
      remove_folders(&paths, merged);
    dp_io_paths_deinit(&paths);
  }
  dp_free(merged);
  return status;
}

/* ---- V1 ---- */
static dp_status *check_save(const dp_op_context *context, bool has_slices) {
  int fixed = has_slices ? 3 : 2;
  int64_t count = dp_tensor_elements(dp_op_input(context, 1));
  if (dp_tensor_elements(dp_op_input(context, 0)) != 1)
    return DP_INVALID("Input 0 (filename) must be a string scalar; got a tensor of %lldelements",
                      (long long)dp_tensor_elements(dp_op_input(context, 0)));
  if (has_slices && dp_tensor_elements(dp_op_input(context, 2)) != count)
    return DP_INVALID("Expected %lld elements for the tensor shapes and slices but got %lld",
                      (long long)count, (long long)dp_tensor_elements(dp_op_input(context, 2)));
  if (context->input_count != count + fixed)
    return DP_INVALID("Expected totally %lld inputs as input #1 (which is a string tensor of saved "
                      "names) contains %lld names, but received %d inputs",
                      (long long)count + fixed, (long long)count, context->input_count);
  return NULL;
}

/* Sorts names in the order in which TensorFlow writes them. */
static int compare_names(const void *a, const void *b, void *arg) {
  const dp_tensor *names = arg;
  dp_view left = dp_io_string(names, *(const int32_t *)a);
  dp_view right = dp_io_string(names, *(const int32_t *)b);
  size_t shorter = left.length < right.length ? left.length : right.length;
  int order = shorter ? memcmp(left.data, right.data, shorter) : 0;
  return order ? order : (left.length > right.length) - (left.length < right.length);
}

static dp_status *save_tensors(dp_op_context *context, bool has_slices) {
  DP_RETURN_IF_ERROR(check_save(context, has_slices));
  const dp_tensor *names = dp_op_input(context, 1);
  int32_t fixed = has_slices ? 3 : 2, count = (int32_t)dp_tensor_elements(names);
  char *path;
  DP_RETURN_IF_ERROR(dp_io_path(dp_op_input(context, 0), 0, &path));
  int32_t *order = DP_NEW_ARRAY(int32_t, (size_t)count + 1);
  for (int32_t i = 0; i < count; ++i)
    order[i] = i;
  qsort_r(order, (size_t)count, sizeof *order, compare_names, (void *)names);
  dp_legacy_writer *writer = dp_legacy_writer_create(path);
  dp_status *status = NULL;
  for (int32_t i = 0; i < count && !status; ++i) {
    const dp_tensor *tensor = dp_op_input(context, order[i] + fixed);
    dp_shape whole = tensor->shape;
    dp_slice slice = dp_slice_full(whole.rank);
    dp_view spec = has_slices ? dp_io_string(dp_op_input(context, 2), order[i]) : dp_view_of("");
    if (spec.length > 0)
      status = parse_saved_slice(spec, tensor, &whole, &slice);
    if (!status)
      status = dp_legacy_writer_add(writer, dp_io_string(names, order[i]), &whole, &slice, tensor);
  }
  if (!status)
    status = dp_legacy_writer_finish(writer);
  dp_legacy_writer_destroy(writer);
  dp_free(order);
  dp_free(path);
  return status;
}

static dp_status *save(dp_op_context *context, void *state) {
  return save_tensors(context, false);
}

static dp_status *save_slices(dp_op_context *context, void *state) {
  return save_tensors(context, true);
}

static dp_status *restore_legacy_tensor(dp_op_context *context, dp_legacy_reader *reader,
                                        const char *pattern, dp_view name, dp_view spec,
                                        int32_t output) {
  dp_dtype dtype, wanted = dp_op_output_type(context, output);
  dp_shape shape;
  if (!dp_legacy_reader_find(reader, name, &dtype, &shape))
    return dp_status_create(DP_NOT_FOUND, "Tensor name \"%.*s\" not found in checkpoint files %s",
                            (int)name.length, name.data, pattern);
  if (dtype != wanted)
    return DP_INVALID("Expected to restore a tensor of type %s, got a tensor of type %s instead: "
                      "tensor_name = %.*s",
                      dp_dtype_name(wanted), dp_dtype_name(dtype), (int)name.length, name.data);
  dp_slice slice = dp_slice_full(shape.rank);
  if (spec.length > 0) {
    dp_shape whole, part;
    DP_RETURN_IF_ERROR(dp_slice_parse(spec, &whole, &slice, &part));
    if (!dp_shape_equal(&whole, &shape))
      return DP_INVALID("Shape in shape_and_slice spec does not match the shape in the save file: "
                        "%s, save file shape: %s",
                        dp_shape_text(&whole), dp_shape_text(&shape));
  }
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_legacy_reader_read(reader, name, &slice, &tensor));
  dp_op_set_output(context, output, &tensor);
  return NULL;
}

static dp_status *restore_one(dp_op_context *context, bool has_slice) {
  for (int32_t i = 0; i < (has_slice ? 3 : 2); ++i)
    if (dp_tensor_elements(dp_op_input(context, i)) != 1)
      return DP_INVALID("Input %d (%s) must be a string scalar; got a tensor of %lld elements", i,
                        i == 0   ? "file_pattern"
                        : i == 1 ? "tensor_name"
                                 : "shape_and_slice",
                        (long long)dp_tensor_elements(dp_op_input(context, i)));
  char *pattern;
  DP_RETURN_IF_ERROR(dp_io_path(dp_op_input(context, 0), 0, &pattern));
  dp_legacy_reader *reader = NULL;
  dp_status *status = dp_legacy_reader_take(pattern, &reader);
  if (!status)
    status = restore_legacy_tensor(
        context, reader, pattern, dp_io_string(dp_op_input(context, 1), 0),
        has_slice ? dp_io_string(dp_op_input(context, 2), 0) : dp_view_of(""), 0);
  dp_legacy_reader_give(reader);
  dp_free(pattern);
  return status;
}

static dp_status *restore(dp_op_context *context, void *state) {
  return restore_one(context, false);
}

static dp_status *restore_slice(dp_op_context *context, void *state) {
  return restore_one(context, true);
}

/* ---- Names of shards ---- */
static dp_status *check_scalars(const dp_op_context *context) {
  static const char *const names[] = {"basename", "shard", "num_shards"};
  for (int32_t i = 0; i < context->input_count; ++i)
    if (dp_op_input(context, i)->shape.rank != 0)
      return DP_INVALID("%s must be a scalar, got shape %s",
                        names[context->input_count == 3 ? i : 2 * i],
                        dp_shape_text(&dp_op_input(context, i)->shape));
  return NULL;
}

static dp_status *sharded_filename(dp_op_context *context, void *state) {
  DP_RETURN_IF_ERROR(check_scalars(context));
  dp_view base = dp_io_string(dp_op_input(context, 0), 0);
  dp_text name = {0};
  dp_text_append(&name, base.data, base.length);
  if (context->input_count == 3)
    dp_text_printf(&name, "-%05d-of-%05d", *(int32_t *)dp_op_input(context, 1)->data,
                   *(int32_t *)dp_op_input(context, 2)->data);
  else
    dp_text_printf(&name, "-\?\?\?\?\?-of-%05d", *(int32_t *)dp_op_input(context, 1)->data);
  dp_status *status = dp_io_output_string(context, 0, name.data, name.length);
  dp_text_deinit(&name);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "SaveV2", .flags = DP_KERNEL_BLOCKING, .compute = save_v2},
    {.op = "RestoreV2",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(restore_state),
     .create = restore_v2_create,
     .compute = restore_v2},
    {.op = "MergeV2Checkpoints",
     .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(merge_state),
     .create = merge_create,
     .compute = merge_v2},
    {.op = "Save", .flags = DP_KERNEL_BLOCKING, .compute = save},
    {.op = "SaveSlices", .flags = DP_KERNEL_BLOCKING, .compute = save_slices},
    {.op = "Restore", .flags = DP_KERNEL_BLOCKING, .compute = restore},
    {.op = "RestoreSlice", .flags = DP_KERNEL_BLOCKING, .compute = restore_slice},
    {.op = "ShardedFilename", .flags = DP_KERNEL_CHEAP, .compute = sharded_filename},
    {.op = "ShardedFilespec", .flags = DP_KERNEL_CHEAP, .compute = sharded_filename},
};
DP_KERNEL_FAMILY(checkpoint, rows);
