/* ParseExample, its second form, and ParseSingleExample: a batch of examples to sparse, dense and
 * ragged tensors. Two passes over the batch, each on many threads: the first finds, checks and
 * counts the features that are wanted, the second writes them to where the counts put them. */
#include "kernels/families_internal.h"

#include <string.h>
#include "base/map.h"
#include "kernels/example_internal.h"
#include "kernels/string_internal.h"

typedef enum feature_kind { SPARSE, DENSE, RAGGED } feature_kind;

/* A feature that is asked for. */
typedef struct wanted_feature {
  dp_view key;
  feature_kind kind;
  dp_dtype dtype;
  /* DENSE */
  const dp_partial_shape *shape; /* its first dimension may be unknown: then rows are padded */
  bool is_padded;
  int64_t stride; /* values in a row of the first dimension; of all when it is not padded */
  const dp_tensor *fallback;
} wanted_feature;

/* What the node says, read once. */
typedef struct example_state {
  int32_t sparse_count, dense_count, ragged_count;
  dp_dtype *dtypes; /* sparse, dense, ragged ones */
  dp_partial_shape *shapes;
  char **keys; /* ParseSingleExample has them as attributes: sparse, then dense; else NULL */
} example_state;

/* ---- Reading the node ---- */
static dp_status *add_types(const dp_node *node, const char *name, dp_dtype *to, int32_t *count) {
  const dp_attr *types;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_TYPE, &types));
  for (int32_t i = 0; to && i < types->count; ++i)
    to[i] = (dp_dtype)types->types[i];
  *count = types->count;
  return NULL;
}

static dp_status *read_shapes(const dp_node *node, example_state *state) {
  const dp_attr *shapes;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "dense_shapes", DP_ATTR_LIST_SHAPE, &shapes));
  if (shapes->count != state->dense_count)
    return DP_INVALID("len(dense_keys) != len(dense_shapes): %d vs. %d", state->dense_count,
                      shapes->count);
  state->shapes = DP_NEW_ARRAY(dp_partial_shape, (size_t)shapes->count + 1);
  for (int32_t i = 0; i < shapes->count; ++i) {
    const dp_partial_shape *shape = &shapes->shapes[i];
    bool is_known = shape->rank >= 0;
    for (int32_t k = 1; is_known && k < shape->rank; ++k)
      is_known = shape->dims[k] >= 0;
    if (!is_known)
      return DP_INVALID("dense_shapes[%d] has unknown rank or unknown inner dimensions: %s", i,
                        dp_partial_shape_text(shape));
    state->shapes[i] = *shape;
  }
  return NULL;
}

static dp_status *read_keys(const dp_node *node, const char *name, int32_t wanted, char **to) {
  const dp_attr *keys;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_STRING, &keys));
  if (keys->count != wanted)
    return DP_INVALID("%s must have %d elements, not %d", name, wanted, keys->count);
  for (int32_t i = 0; i < wanted; ++i)
    to[i] = dp_strndup(keys->strings[i].data, keys->strings[i].length);
  return NULL;
}

static dp_status *example_create(const dp_kernel_setup *setup, void *memory) {
  example_state *state = memory;
  const dp_node *node = setup->node;
  bool has_ragged = dp_node_attr(node, "ragged_value_types") != NULL;
  DP_RETURN_IF_ERROR(add_types(node, "sparse_types", NULL, &state->sparse_count));
  DP_RETURN_IF_ERROR(add_types(node, "Tdense", NULL, &state->dense_count));
  if (has_ragged)
    DP_RETURN_IF_ERROR(add_types(node, "ragged_value_types", NULL, &state->ragged_count));
  int32_t sparse = state->sparse_count, dense = state->dense_count, ignored;
  state->dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)(sparse + dense + state->ragged_count) + 1);
  DP_RETURN_IF_ERROR(add_types(node, "sparse_types", state->dtypes, &ignored));
  DP_RETURN_IF_ERROR(add_types(node, "Tdense", state->dtypes + sparse, &ignored));
  if (has_ragged)
    DP_RETURN_IF_ERROR(
        add_types(node, "ragged_value_types", state->dtypes + sparse + dense, &ignored));
  DP_RETURN_IF_ERROR(read_shapes(node, state));
  if (!dp_node_attr(node, "dense_keys"))
    return NULL;
  state->keys = DP_NEW_ARRAY(char *, (size_t)(sparse + dense) + 1);
  DP_RETURN_IF_ERROR(read_keys(node, "sparse_keys", sparse, state->keys));
  return read_keys(node, "dense_keys", dense, state->keys + sparse);
}

static void example_destroy(void *memory) {
  example_state *state = memory;
  for (int32_t i = 0; state->keys && i < state->sparse_count + state->dense_count; ++i)
    dp_free(state->keys[i]);
  dp_free(state->keys);
  dp_free(state->dtypes);
  dp_free(state->shapes);
}

/* ---- One run ---- */
typedef struct batch {
  dp_op_context *context;
  const example_state *state;
  const dp_tensor *serialized;
  const dp_tensor *names; /* for messages; NULL: none */
  bool is_single;         /* a scalar: outputs without the dimension of the batch */
  int64_t size;
  int32_t count; /* of wanted features */
  wanted_feature *wanted;
  dp_map *by_key;      /* to wanted features */
  dp_feature *found;   /* size rows of count */
  int64_t *offsets;    /* count rows of size + 1: values of sparse and ragged ones before each */
  dp_tensor **outputs; /* values, for each wanted feature */
  dp_tensor **indices; /* SPARSE: indices; RAGGED: row splits */
  pthread_mutex_t lock;
  int64_t failed; /* the first example that failed, and why */
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

static dp_status *feature_error(const batch *work, int64_t example, const wanted_feature *wanted,
                                const char *what) {
  dp_view name = name_of(work, example);
  return DP_INVALID("Name: %.*s, Key: %.*s, Index: %lld.  %s", (int)name.length, name.data,
                    (int)wanted->key.length, wanted->key.data, (long long)example, what);
}

/* ---- First pass ---- */
static dp_status *check_feature(const batch *work, int64_t example, const wanted_feature *wanted,
                                const dp_feature *feature) {
  dp_text what = {0};
  if (feature->dtype == 0) {
    if (wanted->kind == DENSE && !wanted->is_padded && wanted->fallback->shape.elements == 0)
      dp_text_printf(&what, "Feature: %.*s (data type: %s) is required but could not be found.",
                     (int)wanted->key.length, wanted->key.data, dp_dtype_name(wanted->dtype));
  } else if (feature->dtype != wanted->dtype) {
    dp_text_printf(&what, "Data types don't match. Data type: %s but expected type: %s",
                   dp_dtype_name(feature->dtype), dp_dtype_name(wanted->dtype));
  } else if (wanted->kind == DENSE && !wanted->is_padded && feature->count != wanted->stride) {
    dp_text_printf(&what,
                   "Number of %s values != expected.  Values size: %lld but output shape: %s",
                   dp_dtype_name(wanted->dtype), (long long)feature->count,
                   dp_partial_shape_text(wanted->shape));
  } else if (wanted->is_padded && (wanted->stride == 0 || feature->count % wanted->stride != 0)) {
    dp_text_printf(&what,
                   "Number of %s values is not a multiple of stride length. Saw %lld values but "
                   "output shape is: %s",
                   dp_dtype_name(wanted->dtype), (long long)feature->count,
                   dp_partial_shape_text(wanted->shape));
  }
  dp_status *status =
      what.length > 0 ? feature_error(work, example, wanted, dp_text_string(&what)) : NULL;
  dp_text_deinit(&what);
  return status;
}

static dp_status *refuse_message(dp_view bytes) {
  dp_text value = {0};
  dp_text_add_escaped(&value, bytes.data, bytes.length);
  dp_status *status =
      DP_INVALID("Could not parse example input, value: '%s'", dp_text_string(&value));
  dp_text_deinit(&value);
  return status;
}

static dp_status *find_features(batch *work, int64_t example, dp_feature_entries *entries) {
  dp_view bytes = dp_string_at(work->serialized, example);
  dp_feature *found = work->found + example * work->count;
  entries->count = 0;
  if (!dp_feature_entries_parse(bytes, 1, entries))
    return refuse_message(bytes);
  for (size_t i = 0; i < entries->count; ++i) {
    dp_feature_entry entry = entries->items[i];
    wanted_feature *wanted = dp_map_get_n(work->by_key, entry.key.data, entry.key.length);
    if (wanted) /* the whole feature for now; the last one counts */
      found[wanted - work->wanted].list = entry.value;
  }
  for (int32_t k = 0; k < work->count; ++k) {
    if (found[k].list.data && !dp_feature_parse(found[k].list, &found[k]))
      return feature_error(work, example, &work->wanted[k], "Can't parse serialized Example.");
    DP_RETURN_IF_ERROR(check_feature(work, example, &work->wanted[k], &found[k]));
  }
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
  const dp_feature *feature = &work->found[example * work->count + k];
  return feature->dtype ? feature->count : 0;
}

/* Offsets of each example's values; gives the largest number of values too. */
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
  int32_t ns = work->state->sparse_count;
  int64_t largest = add_up(work, k), total = work->offsets[k * (work->size + 1) + work->size];
  dp_shape values = dp_shape_vector(total), two = dp_shape_vector(work->is_single ? 1 : 2), indices;
  int64_t dims[] = {total, work->is_single ? 1 : 2};
  dp_tensor *shape;
  DP_RETURN_IF_ERROR(dp_shape_make(2, dims, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(work->context, k, &indices, &work->indices[k]));
  DP_RETURN_IF_ERROR(dp_op_allocate(work->context, ns + k, &values, &work->outputs[k]));
  DP_RETURN_IF_ERROR(dp_op_allocate(work->context, 2 * ns + k, &two, &shape));
  int64_t *sizes = shape->data;
  if (!work->is_single)
    *sizes++ = work->size;
  *sizes = largest;
  return NULL;
}

static dp_status *allocate_dense(batch *work, int32_t k, int32_t output) {
  const wanted_feature *wanted = &work->wanted[k];
  int64_t dims[DP_MAX_RANK], largest = 0;
  int rank = 0;
  if (!work->is_single)
    dims[rank++] = work->size;
  if (wanted->shape->rank + rank > DP_MAX_RANK)
    return DP_INVALID("dense_shapes[%d] has too many dimensions", k - work->state->sparse_count);
  if (wanted->is_padded)
    largest = add_up(work, k);
  for (int32_t i = 0; i < wanted->shape->rank; ++i)
    dims[rank++] = i == 0 && wanted->is_padded ? largest / wanted->stride : wanted->shape->dims[i];
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  return dp_op_allocate(work->context, output, &shape, &work->outputs[k]);
}

/* The splits of one example alone are empty. */
static dp_status *allocate_ragged(batch *work, int32_t k, int32_t output) {
  add_up(work, k);
  dp_shape values = dp_shape_vector(work->offsets[k * (work->size + 1) + work->size]);
  dp_shape splits = dp_shape_vector(work->is_single ? 0 : work->size + 1);
  DP_RETURN_IF_ERROR(dp_op_allocate(work->context, output, &values, &work->outputs[k]));
  DP_RETURN_IF_ERROR(dp_op_allocate(work->context, output + work->state->ragged_count, &splits,
                                    &work->indices[k]));
  const int64_t *offsets = work->offsets + k * (work->size + 1);
  for (int64_t i = 0; i < splits.elements; ++i)
    if (work->indices[k]->dtype == DP_INT64)
      ((int64_t *)work->indices[k]->data)[i] = offsets[i];
    else
      ((int32_t *)work->indices[k]->data)[i] = (int32_t)offsets[i];
  return NULL;
}

static dp_status *allocate(batch *work) {
  const example_state *state = work->state;
  int32_t ns = state->sparse_count, nd = state->dense_count;
  for (int32_t k = 0; k < work->count; ++k) {
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
  const wanted_feature *wanted = &work->wanted[k];
  const dp_feature *feature = &work->found[example * work->count + k];
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
    DP_RETURN_IF_ERROR(
        dp_feature_copy(&work->found[example * work->count + k], element(work->outputs[k], begin)));
  if (work->wanted[k].kind != SPARSE)
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
    for (int32_t k = 0; k < work->count; ++k) {
      dp_status *status =
          work->wanted[k].kind == DENSE ? write_dense(work, i, k) : write_list(work, i, k);
      if (status) {
        fail(work, i, status);
        return;
      }
    }
}

/* ---- Inputs ---- */
static dp_status *set_dense(wanted_feature *wanted, const dp_partial_shape *shape,
                            const dp_tensor *fallback, int32_t index) {
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
                        "must contain a single element (\"the padding element\").  But its shape "
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

/* The keys as the op has them: attributes, a scalar each, or one vector a kind. */
static dp_status *read_key(const batch *work, int32_t k, int32_t slot, int32_t first,
                           dp_view *out) {
  if (work->state->keys) {
    *out = dp_view_of(work->state->keys[k]);
    return NULL;
  }
  bool is_vector = dp_node_attr(work->context->node, "num_sparse") != NULL;
  const dp_tensor *keys = dp_op_input(work->context, is_vector ? slot : 2 + k);
  int64_t index = is_vector ? k - first : 0;
  if (keys->shape.rank != is_vector || keys->shape.elements <= index)
    return DP_INVALID("Expected %s to be a %s with enough elements, got shape: %s",
                      slot == 2   ? "sparse_keys"
                      : slot == 3 ? "dense_keys"
                                  : "ragged_keys",
                      is_vector ? "vector" : "scalar", dp_shape_text(&keys->shape));
  *out = dp_string_at(keys, index);
  return NULL;
}

static dp_status *read_wanted(batch *work) {
  const example_state *state = work->state;
  int32_t ns = state->sparse_count, nd = state->dense_count;
  int32_t defaults = work->context->input_count - nd;
  for (int32_t k = 0; k < work->count; ++k) {
    wanted_feature *wanted = &work->wanted[k];
    wanted->kind = k < ns ? SPARSE : k < ns + nd ? DENSE : RAGGED;
    wanted->dtype = state->dtypes[k];
    int32_t first = k < ns ? 0 : k < ns + nd ? ns : ns + nd;
    DP_RETURN_IF_ERROR(read_key(work, k, 2 + (int32_t)wanted->kind, first, &wanted->key));
    if (wanted->kind == DENSE)
      DP_RETURN_IF_ERROR(set_dense(wanted, &state->shapes[k - ns],
                                   dp_op_input(work->context, defaults + k - ns), k - ns));
    dp_map_put_n(work->by_key, wanted->key.data, wanted->key.length, wanted);
  }
  return NULL;
}

static dp_status *read_inputs(batch *work) {
  bool is_op_single = work->state->keys != NULL;
  bool is_second = dp_node_attr(work->context->node, "num_sparse") && !is_op_single;
  work->serialized = dp_op_input(work->context, 0);
  const dp_shape *shape = &work->serialized->shape;
  if (is_op_single ? shape->rank != 0 : is_second ? shape->rank > 1 : shape->rank != 1)
    return DP_INVALID("Expected serialized to be a %s, got shape: %s",
                      is_op_single ? "scalar"
                      : is_second  ? "scalar or vector"
                                   : "vector",
                      dp_shape_text(shape));
  work->size = shape->elements;
  work->is_single = shape->rank == 0;
  if (is_op_single)
    return NULL;
  const dp_tensor *names = dp_op_input(work->context, 1);
  if (names->shape.elements > 0 && names->shape.elements != work->size)
    return DP_INVALID("Expected len(names) == len(serialized), but got: %lld vs. %lld",
                      (long long)names->shape.elements, (long long)work->size);
  work->names = names->shape.elements > 0 ? names : NULL;
  return NULL;
}

static dp_status *parse(batch *work) {
  size_t cells, count = (size_t)work->count + 1;
  if (!dp_multiply_size((size_t)work->size + 1, count * sizeof(dp_feature), &cells))
    return dp_status_out_of_memory();
  work->found = dp_try_malloc(cells);
  work->offsets = dp_try_malloc(((size_t)work->size + 1) * count * sizeof(int64_t));
  if (!work->found || !work->offsets)
    return dp_status_out_of_memory();
  memset(work->found, 0, cells);
  dp_op_for(work->context, work->size, 2000, find_range, work);
  if (work->failure)
    return work->failure;
  DP_RETURN_IF_ERROR(allocate(work));
  dp_op_for(work->context, work->size, 2000, write_range, work);
  return work->failure;
}

static dp_status *example_compute(dp_op_context *context, void *memory) {
  batch work = {.context = context, .state = memory};
  work.count = work.state->sparse_count + work.state->dense_count + work.state->ragged_count;
  DP_RETURN_IF_ERROR(read_inputs(&work));
  size_t count = (size_t)work.count + 1;
  work.wanted = DP_NEW_ARRAY(wanted_feature, count);
  work.outputs = DP_NEW_ARRAY(dp_tensor *, count);
  work.indices = DP_NEW_ARRAY(dp_tensor *, count);
  work.by_key = dp_map_create();
  pthread_mutex_init(&work.lock, NULL);
  dp_status *status = read_wanted(&work);
  if (!status)
    status = parse(&work);
  pthread_mutex_destroy(&work.lock);
  dp_map_destroy(work.by_key);
  dp_free(work.wanted);
  dp_free(work.outputs);
  dp_free(work.indices);
  dp_free(work.found);
  dp_free(work.offsets);
  return status;
}

/* clang-format off */
#define ROW(name)                                                                                  \
  {.op = name, .state_size = sizeof(example_state), .create = example_create,                      \
   .compute = example_compute, .destroy = example_destroy}

static const dp_kernel rows[] = {
    ROW("ParseExample"), ROW("ParseExampleV2"), ROW("ParseSingleExample"),
};
/* clang-format on */
DP_KERNEL_FAMILY(example, rows);
