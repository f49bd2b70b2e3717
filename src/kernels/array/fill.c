/* Ops that make a tensor from a few values: Fill, Empty, OneHot, DeepCopy and Fingerprint. Large
 * results are filled on the pool. */
#include "base/checksum.h"
#include "kernels/loops/move.h"
#include "kernels/shared/family.h"
#include "kernels/shared/move.h"

static dp_status *fill_compute(dp_op_context *context, void *state) {
  const dp_tensor *sizes = dp_op_input(context, 0), *value = dp_op_input(context, 1);
  if (sizes->shape.rank != 1)
    return DP_INVALID("dims must represent a vector, got shape %s", dp_shape_text(&sizes->shape));
  if (value->shape.rank != 0 && !(value->shape.rank == 1 && value->shape.elements == 1))
    return DP_INVALID("value must represent a scalar, got shape %s", dp_shape_text(&value->shape));
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(sizes, "dims", &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_move_fill(context, output->dtype, output->data, value->data, shape.elements);
  return NULL;
}

/* ---- Empty ---- */
static dp_status *empty_create(const dp_kernel_setup *setup, void *state) {
  return dp_node_get_bool(setup->node, "init", state);
}

static dp_status *empty_compute(dp_op_context *context, void *state) {
  const dp_tensor *sizes = dp_op_input(context, 0);
  if (sizes->shape.rank != 1)
    return DP_INVALID("shape must be a vector of int32, got shape %s",
                      dp_shape_text(&sizes->shape));
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_kernel_read_shape(sizes, "shape", &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  /* Memory that the client did not ask to initialize could hold another client's data: zero it
   * too. */
  dp_move_fill(context, output->dtype, output->data, NULL, shape.elements);
  return NULL;
}

static dp_status *copy_compute(dp_op_context *context, void *state) {
  return dp_tensor_clone(dp_op_input(context, 0), &context->outputs[0].tensor);
}

/* ---- OneHot ---- */
static dp_status *one_hot_create(const dp_kernel_setup *setup, void *state) {
  return dp_node_get_int(setup->node, "axis", state);
}

typedef struct one_hot_work {
  const dp_tensor *indices;
  char *to;
  const void *value;
  dp_dtype dtype;
  size_t size;
  int64_t depth, suffix;
  const void *off;
  dp_move_fill_fn fill;
} one_hot_work;

/* Entries [begin, end) of the indices. Each sets at most one element. */
static void set_hot(void *arg, int64_t begin, int64_t end) {
  const one_hot_work *work = arg;
  bool plain = dp_dtype_is_plain(work->dtype);
  for (int64_t i = begin; i < end; ++i) {
    int64_t index = dp_tensor_int_at(work->indices, i);
    if (index < 0 || index >= work->depth)
      continue;
    int64_t at = work->suffix == 1
                     ? i * work->depth + index /* avoids a slow division */
                     : (i / work->suffix * work->depth + index) * work->suffix + i % work->suffix;
    char *to = work->to + at * (int64_t)work->size;
    if (plain && work->size == sizeof(float))
      memcpy(to, work->value,
             sizeof(float)); /* one instruction; the general case below is a call */
    else if (plain)
      memcpy(to, work->value, work->size);
    else
      dp_tensor_copy_elements(work->dtype, to, work->value, 1);
  }
}

/* For a new dimension that is the last one. Fills some rows and sets their elements while they are
 * in the cache. */
static void fill_rows(void *arg, int64_t begin, int64_t end) {
  const one_hot_work *work = arg;
  int64_t row_bytes = work->depth * (int64_t)work->size;
  int64_t some = (8 << 10) / row_bytes + 1;
  for (int64_t i = begin; i < end; i += some) {
    int64_t stop = end - i < some ? end : i + some;
    work->fill(work->to + i * row_bytes, work->off, (stop - i) * work->depth);
    set_hot(arg, i, stop);
  }
}

static dp_status *one_hot_shape(dp_op_context *context, int64_t wanted, dp_shape *shape_out,
                                int *axis_out) {
  static const char *const names[] = {NULL, "depth", "on_value", "off_value"};
  const dp_shape *indices = &dp_op_input(context, 0)->shape;
  if (wanted != -1 && (wanted < 0 || wanted > indices->rank))
    return DP_INVALID("Expected axis to be -1 or between [0, %d).  But received: %lld",
                      indices->rank + 1, (long long)wanted);
  for (int i = 1; i <= 3; ++i)
    if (dp_op_input(context, i)->shape.rank != 0)
      return DP_INVALID("%s must be a scalar, but got: %s", names[i],
                        dp_shape_text(&dp_op_input(context, i)->shape));
  int axis = wanted == -1 ? indices->rank : (int)wanted;
  int64_t depth = dp_tensor_int_at(dp_op_input(context, 1), 0), elements;
  if (depth < 0)
    return DP_INVALID("depth must be non-negative, got: %lld", (long long)depth);
  if (__builtin_mul_overflow(indices->elements, depth, &elements))
    return DP_INVALID(
        "OneHot result would have shape %s + [%lld], which exceeds 2**63 - 1 elements",
        dp_shape_text(indices), (long long)depth);
  if (indices->rank == DP_MAX_RANK)
    return DP_INVALID("a tensor has at most %d dimensions", DP_MAX_RANK);
  *shape_out = dp_shape_insert(indices, axis, depth);
  *axis_out = axis;
  return NULL;
}

static dp_status *one_hot_compute(dp_op_context *context, void *state) {
  dp_shape shape = {0};
  int axis = 0;
  DP_RETURN_IF_ERROR(one_hot_shape(context, *(const int64_t *)state, &shape, &axis));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  one_hot_work work = {.indices = dp_op_input(context, 0),
                       .to = output->data,
                       .value = dp_op_input(context, 2)->data,
                       .dtype = output->dtype,
                       .size = dp_dtype_size(output->dtype),
                       .depth = shape.dims[axis],
                       .suffix = dp_shape_product(&shape, axis + 1, shape.rank),
                       .off = dp_op_input(context, 3)->data};
  if (work.suffix == 1 && dp_dtype_is_plain(work.dtype)) {
    work.fill = dp_move_table()->fill[__builtin_ctzll(work.size)];
    dp_op_for(context, dp_tensor_elements(work.indices), work.depth * (int64_t)work.size / 20 + 5,
              fill_rows, &work);
    return NULL;
  }
  dp_move_fill(context, work.dtype, work.to, work.off, shape.elements);
  dp_kernel_for(context, dp_tensor_elements(work.indices), 5000, set_hot, &work);
  return NULL;
}

/* ---- Fingerprint ---- */
static dp_status *check_fingerprint(const dp_tensor *data, const dp_tensor *method) {
  if (method->shape.rank != 0)
    return DP_INVALID("`method` should be a scalar string: %s", dp_shape_text(&method->shape));
  dp_view name = dp_tstring_view(dp_tensor_strings(method));
  if (!dp_view_equals(name, "farmhash64"))
    return DP_INVALID("Unsupported fingerprint method: %.*s", (int)name.length, name.data);
  if (data->shape.rank < 1)
    return DP_INVALID("`data` should have at least one dimension: %s", dp_shape_text(&data->shape));
  return NULL;
}

/* Each string has a fingerprint; several strings of a row are combined into one. */
static uint64_t fingerprint_strings(const dp_tstring *strings, int64_t count, dp_text *joined) {
  uint64_t print = 0;
  dp_text_clear(joined);
  for (int64_t i = 0; i < count; ++i) {
    dp_view text = dp_tstring_view(&strings[i]);
    print = dp_fingerprint64(text.data, text.length);
    dp_text_append(joined, &print, sizeof print);
  }
  return count == 1 ? print : dp_fingerprint64(joined->data, joined->length);
}

static dp_status *fingerprint_compute(dp_op_context *context, void *state) {
  const dp_tensor *data = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(check_fingerprint(data, dp_op_input(context, 1)));
  int64_t count = data->shape.dims[0], row = count ? data->shape.elements / count : 0;
  dp_shape shape = dp_shape_matrix(count, 8);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  size_t bytes = (size_t)row * dp_dtype_size(data->dtype);
  dp_text joined = {0};
  for (int64_t i = 0; i < count; ++i) {
    const char *at = (const char *)data->data + (size_t)i * bytes;
    uint64_t print = data->dtype == DP_STRING
                         ? fingerprint_strings((const dp_tstring *)at, row, &joined)
                         : dp_fingerprint64(at, bytes);
    memcpy((char *)output->data + 8 * i, &print, sizeof print);
  }
  dp_text_deinit(&joined);
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "Fill", .types = {{"index_type", DP_SET_INDEX}}, .compute = fill_compute},
    {.op = "Empty", .state_size = sizeof(bool), .create = empty_create, .compute = empty_compute},
    {.op = "DeepCopy", .compute = copy_compute},
    {.op = "Fingerprint",
     .types = {{"T", DP_SET_ANY & ~(DP_SET(RESOURCE) | DP_SET(VARIANT))}},
     .compute = fingerprint_compute},
    {.op = "OneHot",
     .state_size = sizeof(int64_t),
     .create = one_hot_create,
     .compute = one_hot_compute},
};
DP_KERNEL_FAMILY(array_fill, rows);
