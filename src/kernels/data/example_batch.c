/* Batches of Examples, parsed in two passes over ranges of examples on many threads; the contract
 * is in example_batch_internal.h. Each thread writes only the slots of its own examples; the first
 * failure, by example, wins. */
#include "kernels/data/example_batch_internal.h"

#include <pthread.h>
#include <string.h>
#include "kernels/data/example_internal.h"
#include "kernels/text/string.h"

/* ---- Configs ---- */
void dp_example_config_init(dp_example_config *config, int32_t sparse_count, int32_t dense_count,
                            int32_t ragged_count) {
  int32_t count = sparse_count + dense_count + ragged_count;
  *config = (dp_example_config){sparse_count, dense_count, ragged_count, count};
  config->features = DP_NEW_ARRAY(dp_example_feature, (size_t)count + 1);
  config->by_key = dp_map_create();
  for (int32_t k = 0; k < count; ++k)
    config->features[k].kind = k < sparse_count                 ? DP_EXAMPLE_SPARSE
                               : k < sparse_count + dense_count ? DP_EXAMPLE_DENSE
                                                                : DP_EXAMPLE_RAGGED;
}

void dp_example_config_deinit(dp_example_config *config) {
  if (config->by_key)
    dp_map_destroy(config->by_key);
  dp_free(config->features);
  *config = (dp_example_config){0};
}

void dp_example_set_key(dp_example_config *config, int32_t k, dp_view key) {
  config->features[k].key = key;
  dp_map_put_n(config->by_key, key.data, key.length, &config->features[k]);
}

dp_status *dp_example_set_dense(dp_example_config *config, int32_t index,
                                const dp_partial_shape *shape, const dp_tensor *fallback) {
  dp_example_feature *wanted = &config->features[config->sparse_count + index];
  wanted->shape = shape;
  wanted->is_padded = shape->rank > 0 && shape->dims[0] < 0;
  wanted->fallback = fallback;
  wanted->stride = 1;
  for (int32_t i = wanted->is_padded; i < shape->rank; ++i)
    if (__builtin_mul_overflow(wanted->stride, shape->dims[i], &wanted->stride))
      return DP_INVALID("dense_shapes[%d] is too large: %s", index, dp_partial_shape_text(shape));
  if (wanted->is_padded) {
    if (fallback->shape.elements != 1)
      return DP_INVALID("dense_shape[%d] is a variable length shape: %s, therefore def_value[%d] "
                        "must contain a single element (the padding element).  But its shape "
                        "is: %s",
                        index, dp_partial_shape_text(shape), index,
                        dp_shape_text(&fallback->shape));
  } else if (fallback->shape.elements > 0) {
    if (!dp_partial_shape_accepts(shape, &fallback->shape))
      return DP_INVALID(
          "def_value[%d].shape() == %s is not compatible with dense_shapes_[%d] == %s", index,
          dp_shape_text(&fallback->shape), index, dp_partial_shape_text(shape));
  }
  return NULL;
}

dp_status *dp_example_read_shapes(const dp_node *node, int32_t count,
                                  dp_partial_shape **shapes_out) {
  const dp_attr *list;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "dense_shapes", DP_ATTR_LIST_SHAPE, &list));
  if (list->count != count)
    return DP_INVALID("len(dense_keys) != len(dense_shapes): %d vs. %d", count, list->count);
  for (int32_t i = 0; i < count; ++i) {
    const dp_partial_shape *shape = &list->shapes[i];
    bool is_known = shape->rank >= 0;
    for (int32_t k = 1; is_known && k < shape->rank; ++k)
      is_known = shape->dims[k] >= 0;
    if (!is_known)
      return DP_INVALID("dense_shapes[%d] has unknown rank or unknown inner dimensions: %s", i,
                        dp_partial_shape_text(shape));
  }
  dp_partial_shape *shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)count + 1);
  if (count > 0)
    memcpy(shapes, list->shapes, (size_t)count * sizeof *shapes);
  *shapes_out = shapes;
  return NULL;
}

/* ---- One run ---- */
typedef struct batch {
  const dp_example_config *config;
  const dp_tensor *serialized;
  const dp_tensor *names; /* NULL: none */
  dp_pool *pool;
  bool is_single; /* a scalar */
  int64_t size;
  dp_feature *found;  /* [size][count] */
  int64_t *offsets;   /* [count][size + 1]: number of SPARSE or RAGGED values before each example */
  dp_tensor *results; /* the caller's */
  dp_tensor **outputs; /* the values of each wanted feature */
  dp_tensor **indices; /* SPARSE: indices; RAGGED: row splits */
  pthread_mutex_t lock;
  int64_t failed; /* the first example that failed, and its error */
  dp_status *failure;
} batch;

static void fail(batch *work, int64_t example, dp_status *status) {
  pthread_mutex_lock(&work->lock);
  dp_status *dropped = status;
  if (!work->failure || example < work->failed) {
    dropped = work->failure;
    work->failure = status;
    work->failed = example;
  }
  pthread_mutex_unlock(&work->lock);
  dp_status_release(dropped);
}

static dp_view name_of(const batch *work, int64_t example) {
  return work->names ? dp_string_at(work->names, example) : (dp_view){"<unknown>", 9};
}

static dp_status *feature_error(const batch *work, int64_t example,
                                const dp_example_feature *wanted, const char *what) {
  if (work->is_single)
    return DP_INVALID("Key: %.*s.  %s", (int)wanted->key.length, wanted->key.data, what);
  dp_view name = name_of(work, example);
  return DP_INVALID("Name: %.*s, Key: %.*s, Index: %lld.  %s", (int)name.length, name.data,
                    (int)wanted->key.length, wanted->key.data, (long long)example, what);
}

/* ---- First pass ---- */
static dp_status *missing_feature(const batch *work, int64_t example,
                                  const dp_example_feature *wanted) {
  dp_view name = name_of(work, example);
  return DP_INVALID("%s%.*s%sFeature: %.*s (data type: %s) is required but could not be found.",
                    work->is_single ? "" : "Name: ", work->is_single ? 0 : (int)name.length,
                    name.data, work->is_single ? "" : ", ", (int)wanted->key.length,
                    wanted->key.data, dp_dtype_name(wanted->dtype));
}

/* The number of values does not fit the shape. TensorFlow has several wordings, depending on where
 * it notices. */
static dp_status *wrong_count(const batch *work, int64_t example, const dp_example_feature *wanted,
                              int64_t count) {
  dp_text what = {0};
  const char *list = wanted->dtype == DP_STRING ? "bytes" : dp_dtype_name(wanted->dtype);
  if (work->is_single && wanted->is_padded)
    return DP_INVALID("Error while parsing feature with key %.*s: number of elements should be "
                      "divisible by %lld, found %lld instead",
                      (int)wanted->key.length, wanted->key.data, (long long)wanted->stride,
                      (long long)count);
  if (wanted->is_padded)
    dp_text_printf(&what,
                   "Number of %s values is not a multiple of stride length. Saw %lld values but "
                   "output shape is: %s",
                   list, (long long)count, dp_partial_shape_text(wanted->shape));
  else if (wanted->dtype == DP_STRING && count > wanted->stride)
    dp_text_printf(&what, "Can't parse serialized Example%s",
                   work->is_single ? ": Parsing bytes_list failed." : ".");
  else if (work->is_single)
    dp_text_printf(&what, "Can't parse serialized Example: Some %s_list slice was not parsed.",
                   list);
  else
    dp_text_printf(&what,
                   "Number of %s values != expected.  Values size: %lld but output shape: %s", list,
                   (long long)count, dp_partial_shape_text(wanted->shape));
  dp_status *status = feature_error(work, example, wanted, dp_text_string(&what));
  dp_text_deinit(&what);
  return status;
}

static dp_status *wrong_dtype(const batch *work, int64_t example, const dp_example_feature *wanted,
                              dp_dtype dtype) {
  dp_text what = {0};
  if (wanted->kind == DP_EXAMPLE_DENSE)
    dp_text_printf(&what, "Data types don't match. Data type: %s but expected type: %s",
                   dp_dtype_name(dtype), dp_dtype_name(wanted->dtype));
  else
    dp_text_printf(&what, "Data types don't match. Expected type: %s, Actual type: %s",
                   dp_dtype_name(wanted->dtype), dp_dtype_name(dtype));
  dp_status *status = feature_error(work, example, wanted, dp_text_string(&what));
  dp_text_deinit(&what);
  return status;
}

static bool has_right_count(const dp_example_feature *wanted, int64_t count) {
  if (wanted->is_padded)
    return wanted->stride != 0 && count % wanted->stride == 0;
  return wanted->kind != DP_EXAMPLE_DENSE || count == wanted->stride;
}

static dp_status *check_feature(const batch *work, int64_t example,
                                const dp_example_feature *wanted, const dp_feature *feature) {
  if (feature->dtype == 0) {
    bool is_required = wanted->kind == DP_EXAMPLE_DENSE && !wanted->is_padded &&
                       wanted->fallback->shape.elements == 0;
    return is_required ? missing_feature(work, example, wanted) : NULL;
  }
  if (feature->dtype != wanted->dtype)
    return wrong_dtype(work, example, wanted, feature->dtype);
  if (!has_right_count(wanted, feature->count))
    return wrong_count(work, example, wanted, feature->count);
  return NULL;
}

static dp_status *refuse_message(dp_view bytes) {
  dp_text value = {0};
  dp_text_add_escaped(&value, bytes.data, bytes.length);
  dp_status *status =
      DP_INVALID("Could not parse example input, value: '%s'", dp_text_string(&value));
  dp_text_deinit(&value);
  return status;
}

/* Entries are read from the last to the first: when a key comes twice, the last one counts, and of
 * several errors the last one is reported. An entry without values lets an earlier one count,
 * except for sparse and ragged features of a batch. */
static dp_status *find_features(batch *work, int64_t example, dp_feature_entries *entries) {
  dp_view bytes = dp_string_at(work->serialized, example);
  dp_feature *found = work->found + example * work->config->count;
  entries->count = 0;
  if (!dp_feature_entries_parse(bytes, 1, entries))
    return refuse_message(bytes);
  for (size_t i = entries->count; i-- > 0;) {
    dp_feature_entry entry = entries->items[i];
    dp_example_feature *wanted =
        dp_map_get_n(work->config->by_key, entry.key.data, entry.key.length);
    dp_feature *feature = wanted ? &found[wanted - work->config->features] : NULL;
    if (!feature || feature->dtype != 0 || feature->list.data)
      continue;
    if (!dp_feature_parse(entry.value, feature))
      return feature_error(work, example, wanted, "Can't parse serialized Example.");
    if (feature->dtype != 0)
      DP_RETURN_IF_ERROR(check_feature(work, example, wanted, feature));
    else if (!work->is_single && wanted->kind != DP_EXAMPLE_DENSE)
      feature->list = (dp_view){"", 0};
  }
  for (int32_t k = 0; k < work->config->count; ++k)
    if (found[k].dtype == 0)
      DP_RETURN_IF_ERROR(check_feature(work, example, &work->config->features[k], &found[k]));
  return NULL;
}

static void find_range(void *arg, int64_t begin, int64_t end) {
  batch *work = arg;
  dp_feature_entries entries = {0};
  for (int64_t i = begin; i < end; ++i) {
    dp_status *status = find_features(work, i, &entries);
    if (status) {
      fail(work, i, status);
      break;
    }
  }
  DP_ARRAY_FREE(&entries);
}

/* ---- Outputs ---- */
static int64_t count_of(const batch *work, int64_t example, int32_t k) {
  const dp_feature *feature = &work->found[example * work->config->count + k];
  return feature->dtype ? feature->count : 0;
}

/* Offsets of each example's values; returns the largest number of values. */
static int64_t add_up(batch *work, int32_t k) {
  int64_t *offsets = work->offsets + k * (work->size + 1), largest = 0;
  offsets[0] = 0;
  for (int64_t i = 0; i < work->size; ++i) {
    int64_t count = count_of(work, i, k);
    offsets[i + 1] = offsets[i] + count;
    largest = count > largest ? count : largest;
  }
  return largest;
}

static dp_status *allocate_sparse(batch *work, int32_t k) {
  int32_t ns = work->config->sparse_count;
  int64_t largest = add_up(work, k), total = work->offsets[k * (work->size + 1) + work->size];
  dp_shape values = dp_shape_vector(total), two = dp_shape_vector(work->is_single ? 1 : 2), indices;
  int64_t dims[] = {total, work->is_single ? 1 : 2};
  DP_RETURN_IF_ERROR(dp_shape_make(2, dims, &indices));
  work->indices[k] = &work->results[k];
  work->outputs[k] = &work->results[ns + k];
  dp_tensor *shape = &work->results[2 * ns + k];
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &indices, work->indices[k]));
  DP_RETURN_IF_ERROR(dp_tensor_create(work->config->features[k].dtype, &values, work->outputs[k]));
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &two, shape));
  int64_t *sizes = shape->data;
  if (!work->is_single)
    *sizes++ = work->size;
  *sizes = largest;
  return NULL;
}

static dp_status *allocate_dense(batch *work, int32_t k, int32_t output) {
  const dp_example_feature *wanted = &work->config->features[k];
  int64_t dims[DP_MAX_RANK], rows = 0;
  int rank = 0;
  if (!work->is_single)
    dims[rank++] = work->size;
  if (wanted->shape->rank + rank > DP_MAX_RANK)
    return DP_INVALID("dense_shapes[%d] has too many dimensions", k - work->config->sparse_count);
  if (wanted->is_padded)
    rows = wanted->stride > 0 ? add_up(work, k) / wanted->stride : 0;
  for (int32_t i = 0; i < wanted->shape->rank; ++i)
    dims[rank++] = i == 0 && wanted->is_padded ? rows : wanted->shape->dims[i];
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  work->outputs[k] = &work->results[output];
  return dp_tensor_create(wanted->dtype, &shape, work->outputs[k]);
}

/* The row splits of a scalar are empty. */
static dp_status *allocate_ragged(batch *work, int32_t k, int32_t output) {
  add_up(work, k);
  dp_shape values = dp_shape_vector(work->offsets[k * (work->size + 1) + work->size]);
  dp_shape splits = dp_shape_vector(work->is_single ? 0 : work->size + 1);
  const dp_example_feature *wanted = &work->config->features[k];
  work->outputs[k] = &work->results[output];
  work->indices[k] = &work->results[output + work->config->ragged_count];
  DP_RETURN_IF_ERROR(dp_tensor_create(wanted->dtype, &values, work->outputs[k]));
  DP_RETURN_IF_ERROR(dp_tensor_create(wanted->splits, &splits, work->indices[k]));
  const int64_t *offsets = work->offsets + k * (work->size + 1);
  for (int64_t i = 0; i < splits.elements; ++i)
    if (work->indices[k]->dtype == DP_INT64)
      ((int64_t *)work->indices[k]->data)[i] = offsets[i];
    else
      ((int32_t *)work->indices[k]->data)[i] = (int32_t)offsets[i];
  return NULL;
}

static dp_status *allocate(batch *work) {
  int32_t ns = work->config->sparse_count, nd = work->config->dense_count;
  for (int32_t k = 0; k < work->config->count; ++k) {
    if (k < ns)
      DP_RETURN_IF_ERROR(allocate_sparse(work, k));
    else if (k < ns + nd)
      DP_RETURN_IF_ERROR(allocate_dense(work, k, 2 * ns + k));
    else
      DP_RETURN_IF_ERROR(allocate_ragged(work, k, 2 * ns + k));
  }
  return NULL;
}

/* ---- Second pass ---- */
static void *element(const dp_tensor *tensor, int64_t index) {
  return (char *)tensor->data + (size_t)index * dp_dtype_size(tensor->dtype);
}

static dp_status *write_dense(const batch *work, int64_t example, int32_t k) {
  const dp_example_feature *wanted = &work->config->features[k];
  const dp_feature *feature = &work->found[example * work->config->count + k];
  dp_tensor *output = work->outputs[k];
  int64_t row = work->size > 0 ? output->shape.elements / work->size : 0, begin = example * row;
  int64_t count = count_of(work, example, k);
  if (count > 0)
    DP_RETURN_IF_ERROR(dp_feature_copy(feature, element(output, begin)));
  if (!wanted->is_padded && !feature->dtype)
    dp_tensor_copy_elements(wanted->dtype, element(output, begin), wanted->fallback->data, row);
  for (int64_t i = count; wanted->is_padded && i < row; ++i)
    dp_tensor_copy_elements(wanted->dtype, element(output, begin + i), wanted->fallback->data, 1);
  return NULL;
}

static dp_status *write_list(const batch *work, int64_t example, int32_t k) {
  int64_t begin = work->offsets[k * (work->size + 1) + example], count = count_of(work, example, k);
  if (count > 0)
    DP_RETURN_IF_ERROR(dp_feature_copy(&work->found[example * work->config->count + k],
                                       element(work->outputs[k], begin)));
  if (work->config->features[k].kind != DP_EXAMPLE_SPARSE)
    return NULL;
  int64_t *indices = work->indices[k]->data;
  for (int64_t i = 0; i < count; ++i)
    if (work->is_single) {
      indices[i] = i;
    } else {
      indices[2 * (begin + i)] = example;
      indices[2 * (begin + i) + 1] = i;
    }
  return NULL;
}

static void write_range(void *arg, int64_t begin, int64_t end) {
  batch *work = arg;
  for (int64_t i = begin; i < end; ++i)
    for (int32_t k = 0; k < work->config->count; ++k) {
      dp_status *status = work->config->features[k].kind == DP_EXAMPLE_DENSE
                              ? write_dense(work, i, k)
                              : write_list(work, i, k);
      if (status) {
        fail(work, i, status);
        return;
      }
    }
}

/* An example takes about two microseconds: this many are worth a thread. */
#define PIECE 10
static void for_examples(const batch *work, dp_range_fn fn) {
  if (!work->pool || work->size < 2 * PIECE)
    fn((void *)work, 0, work->size);
  else
    dp_pool_for(work->pool, work->size, PIECE, fn, (void *)work);
}

static dp_status *parse(batch *work) {
  size_t cells, count = (size_t)work->config->count + 1;
  if (!dp_multiply_size((size_t)work->size + 1, count * sizeof(dp_feature), &cells))
    return dp_status_out_of_memory();
  work->found = dp_try_malloc(cells);
  work->offsets = dp_try_malloc(((size_t)work->size + 1) * count * sizeof(int64_t));
  if (!work->found || !work->offsets)
    return dp_status_out_of_memory();
  memset(work->found, 0, cells);
  for_examples(work, find_range);
  if (work->failure)
    return work->failure;
  DP_RETURN_IF_ERROR(allocate(work));
  for_examples(work, write_range);
  return work->failure;
}

dp_status *dp_example_parse(const dp_example_config *config, const dp_tensor *serialized,
                            const dp_tensor *names, dp_pool *pool, dp_tensor *outputs) {
  batch work = {.config = config,
                .serialized = serialized,
                .names = names,
                .pool = pool,
                .is_single = serialized->shape.rank == 0,
                .size = serialized->shape.elements,
                .results = outputs};
  work.outputs = DP_NEW_ARRAY(dp_tensor *, (size_t)config->count + 1);
  work.indices = DP_NEW_ARRAY(dp_tensor *, (size_t)config->count + 1);
  pthread_mutex_init(&work.lock, NULL);
  dp_status *status = parse(&work);
  pthread_mutex_destroy(&work.lock);
  dp_free(work.outputs);
  dp_free(work.indices);
  dp_free(work.found);
  dp_free(work.offsets);
  return status;
}
