/* Tensor maps: values of variant type that map keys, which are tensors, to tensors. To graphs they
 * are immutable. A key is looked up by its dtype, shape and contents, written as one string of
 * bytes. A map that nobody else holds is changed in place, as tensor lists are
 * (tensor_list_internal.h); otherwise the copy shares its entries. The order of keys has no
 * meaning. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/map.h"
#include "base/memory.h"
#include "kernels/lists/lists.h"
#include "kernels/shared/pieces.h"
#include "kernels/shared/variant_math.h"

/* A key and its value; several maps may share it. */
typedef struct map_entry {
  dp_refcount references;
  dp_tensor key, value;
} map_entry;

typedef struct tensor_map {
  dp_map *entries;
} tensor_map;

/* ---- Keys ---- */
static dp_status *write_key(const dp_tensor *key, dp_text *text) {
  int64_t head[2] = {key->dtype, key->shape.rank};
  dp_text_append(text, (const char *)head, sizeof head);
  dp_text_append(text, (const char *)key->shape.dims, (size_t)key->shape.rank * sizeof(int64_t));
  if (dp_dtype_is_plain(key->dtype)) {
    dp_text_append(text, key->data, dp_tensor_bytes(key));
    return NULL;
  }
  if (key->dtype != DP_STRING)
    return DP_INVALID("A %s cannot be a key of a TensorMap", dp_dtype_name(key->dtype));
  for (int64_t i = 0; i < key->shape.elements; ++i) {
    dp_view string = dp_tstring_view(&dp_tensor_strings(key)[i]);
    dp_text_append(text, (const char *)&string.length, sizeof string.length);
    dp_text_append(text, string.data, string.length);
  }
  return NULL;
}

/* ---- Life ---- */
static map_entry *make_entry(const dp_tensor *key, const dp_tensor *value) {
  map_entry *entry = dp_malloc(sizeof *entry);
  dp_refcount_init(&entry->references);
  entry->key = dp_tensor_copy(key);
  entry->value = dp_tensor_copy(value);
  return entry;
}

static void release_entry(map_entry *entry) {
  if (entry && dp_refcount_release(&entry->references)) {
    dp_tensor_deinit(&entry->key);
    dp_tensor_deinit(&entry->value);
    dp_free(entry);
  }
}

static tensor_map *map_create(void) {
  tensor_map *map = DP_NEW(tensor_map);
  map->entries = dp_map_create();
  return map;
}

/* The next entry; NULL at the end. */
static map_entry *next_entry(const tensor_map *map, size_t *position) {
  const char *key;
  void *value;
  return dp_map_next(map->entries, position, &key, &value) ? value : NULL;
}

static void map_destroy(void *object) {
  tensor_map *map = object;
  size_t at = 0;
  for (map_entry *entry; (entry = next_entry(map, &at));)
    release_entry(entry);
  dp_map_destroy(map->entries);
  dp_free(map);
}

/* map_put adds or replaces and consumes `entry`. map_find borrows; NULL when absent. map_erase
 * removes. */
static dp_status *map_put(tensor_map *map, map_entry *entry) {
  dp_text text = {0};
  dp_status *status = write_key(&entry->key, &text);
  if (!status)
    release_entry(dp_map_put_n(map->entries, dp_text_string(&text), text.length, entry));
  else
    release_entry(entry);
  dp_text_deinit(&text);
  return status;
}

static map_entry *map_find(const tensor_map *map, const dp_tensor *key) {
  dp_text text = {0};
  map_entry *entry = NULL;
  dp_status *status = write_key(key, &text);
  if (!status)
    entry = dp_map_get_n(map->entries, dp_text_string(&text), text.length);
  dp_status_release(status);
  dp_text_deinit(&text);
  return entry;
}

static void map_erase(tensor_map *map, const dp_tensor *key) {
  dp_text text = {0};
  dp_status *status = write_key(key, &text);
  if (!status)
    release_entry(dp_map_remove_n(map->entries, dp_text_string(&text), text.length));
  dp_status_release(status);
  dp_text_deinit(&text);
}

static dp_status *share_entries(const tensor_map *from, tensor_map *to) {
  size_t at = 0;
  dp_map_reserve(to->entries, dp_map_count(to->entries) + dp_map_count(from->entries));
  for (map_entry *entry; (entry = next_entry(from, &at));) {
    dp_refcount_retain(&entry->references);
    DP_RETURN_IF_ERROR(map_put(to, entry));
  }
  return NULL;
}

static dp_status *finish(tensor_map *map, dp_status *status, void **object_out) {
  if (status)
    map_destroy(map);
  else
    *object_out = map;
  return status;
}

/* ---- Zeros and sums ---- */
static dp_status *map_zeros(const void *object, void **object_out) {
  (void)object;
  *object_out = map_create();
  return NULL;
}

/* Adds all entries of `from` to `to`; values of common keys are added. */
static dp_status *add_entries(const tensor_map *from, tensor_map *to) {
  size_t at = 0;
  for (const map_entry *entry; (entry = next_entry(from, &at));) {
    const map_entry *other = map_find(to, &entry->key);
    dp_tensor sum;
    DP_RETURN_IF_ERROR(dp_tensor_add_or_copy(&entry->value, other ? &other->value : NULL, &sum));
    map_entry *added = make_entry(&entry->key, &sum);
    dp_tensor_deinit(&sum);
    DP_RETURN_IF_ERROR(map_put(to, added));
  }
  return NULL;
}

static dp_status *map_add(const void *left, const void *right, void **object_out) {
  tensor_map *sum = map_create();
  dp_status *status = share_entries(left, sum);
  if (!status)
    status = add_entries(right, sum);
  return finish(sum, status, object_out);
}

/* ---- On the wire: each key, followed by its value ---- */
static dp_status *map_encode(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                             size_t *count_out) {
  (void)metadata;
  const tensor_map *map = object;
  dp_tensor *tensors = DP_NEW_ARRAY(dp_tensor, 2 * dp_map_count(map->entries) + 1);
  size_t at = 0, count = 0;
  for (const map_entry *entry; (entry = next_entry(map, &at));) {
    tensors[count++] = dp_tensor_copy(&entry->key);
    tensors[count++] = dp_tensor_copy(&entry->value);
  }
  *tensors_out = tensors;
  *count_out = count;
  return NULL;
}

static dp_status *map_decode(dp_view metadata, const dp_tensor *tensors, size_t count,
                             void **object_out) {
  (void)metadata;
  if (count % 2)
    return DP_INVALID("a TensorMap has a key without a value");
  tensor_map *map = map_create();
  dp_status *status = NULL;
  for (size_t i = 0; i < count && !status; i += 2)
    status = map_put(map, make_entry(&tensors[i], &tensors[i + 1]));
  return finish(map, status, object_out);
}

const dp_variant_ops dp_tensor_map_ops = {.type_name = "tensorflow::TensorMap",
                                          .destroy = map_destroy,
                                          .encode = map_encode,
                                          .decode = map_decode,
                                          .zeros_like = map_zeros,
                                          .add = map_add};

/* ---- In kernels ---- */
static dp_status *input_map(const dp_op_context *context, const tensor_map **map_out) {
  const dp_tensor *input = dp_op_input(context, 0);
  if (input->shape.rank != 0)
    return DP_INVALID("Input map must be a scalar. Saw: %s", dp_shape_text(&input->shape));
  const dp_variant *variant = dp_tensor_variants(input)[0];
  if (!variant || variant->ops != &dp_tensor_map_ops)
    return DP_INVALID("Input handle is not a map. Saw: '%s'",
                      variant ? variant->ops->type_name : "<unset>");
  *map_out = variant->object;
  return NULL;
}

static dp_status *output_map(dp_op_context *context, tensor_map *map) {
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output;
  dp_status *status = dp_op_allocate(context, 0, &scalar, &output);
  if (status)
    map_destroy(map);
  else
    dp_tensor_variants(output)[0] = dp_variant_create(&dp_tensor_map_ops, map);
  return status;
}

/* Output 0 becomes a map that may be changed: the map of input 0 itself, or a copy of it. */
static dp_status *forward_map(dp_op_context *context, tensor_map **map_out) {
  dp_tensor *input = &context->inputs[0].tensor;
  dp_variant *variant = dp_tensor_variants(input)[0];
  if (dp_tensor_is_unique(input) && dp_refcount_is_one(&variant->references)) {
    *map_out = variant->object;
    dp_op_set_output(context, 0, input);
    return NULL;
  }
  tensor_map *copy = map_create();
  dp_status *status = share_entries(variant->object, copy);
  if (status) {
    map_destroy(copy);
    return status;
  }
  DP_RETURN_IF_ERROR(output_map(context, copy));
  *map_out = copy;
  return NULL;
}

static dp_status *missing_key(const dp_tensor *key, const char *what) {
  dp_text text = {0};
  dp_tensor_summarize(key, 100, &text);
  dp_status *status =
      DP_INVALID("Trying to %s. Could not find key \"%s\".", what, dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

/* ---- The ops ---- */
static dp_status *empty_compute(dp_op_context *context, void *memory) {
  (void)memory;
  return output_map(context, map_create());
}

static dp_status *size_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const tensor_map *map;
  DP_RETURN_IF_ERROR(input_map(context, &map));
  return dp_op_output_int32(context, 0, (int32_t)dp_map_count(map->entries));
}

static dp_status *has_key_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const tensor_map *map;
  DP_RETURN_IF_ERROR(input_map(context, &map));
  return dp_op_output_bool(context, 0, map_find(map, dp_op_input(context, 1)) != NULL);
}

static dp_status *lookup_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const tensor_map *map;
  const dp_tensor *key = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(input_map(context, &map));
  const map_entry *entry = map_find(map, key);
  if (!entry)
    return missing_key(key, "lookup non-existent key");
  if (entry->value.dtype != dp_op_output_type(context, 0))
    return DP_INVALID("The value is a %s, not a %s", dp_dtype_name(entry->value.dtype),
                      dp_dtype_name(dp_op_output_type(context, 0)));
  context->outputs[0].tensor = dp_tensor_copy(&entry->value);
  return NULL;
}

static dp_status *insert_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const tensor_map *map;
  tensor_map *output;
  DP_RETURN_IF_ERROR(input_map(context, &map));
  DP_RETURN_IF_ERROR(forward_map(context, &output));
  return map_put(output, make_entry(dp_op_input(context, 1), dp_op_input(context, 2)));
}

static dp_status *erase_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const tensor_map *map;
  tensor_map *output;
  const dp_tensor *key = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(input_map(context, &map));
  if (!map_find(map, key))
    return missing_key(key, "erase non-existent item");
  DP_RETURN_IF_ERROR(forward_map(context, &output));
  map_erase(output, key);
  return NULL;
}

/* Collects the keys as pieces of one tensor; they must have the same dtype and shape. */
static dp_status *collect_keys(dp_op_context *context, const tensor_map *map, dp_tensor *pieces) {
  size_t at = 0, count = 0;
  for (const map_entry *entry; (entry = next_entry(map, &at)); ++count) {
    if (entry->key.dtype != dp_op_output_type(context, 0))
      return DP_INVALID("Key does not match requested dtype.");
    if (count && !dp_shape_equal(&entry->key.shape, &pieces[0].shape))
      return DP_INVALID("Keys must all have the same shape.");
    pieces[count] = dp_tensor_copy(&entry->key);
  }
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_pieces_shape((int64_t)count, &pieces[0].shape, &shape));
  return dp_pieces_output(context, 0, &shape, pieces, (int64_t)count);
}

static dp_status *stack_keys_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const tensor_map *map;
  DP_RETURN_IF_ERROR(input_map(context, &map));
  int64_t count = (int64_t)dp_map_count(map->entries);
  if (count == 0)
    return DP_INVALID("TensorMapStackKeys cannot be called on empty map.");
  dp_tensor *pieces = dp_pieces_create(count);
  dp_status *status = collect_keys(context, map, pieces);
  dp_pieces_destroy(pieces, count);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "EmptyTensorMap", .compute = empty_compute},
    {.op = "TensorMapSize", .compute = size_compute},
    {.op = "TensorMapHasKey", .compute = has_key_compute},
    {.op = "TensorMapLookup", .compute = lookup_compute},
    {.op = "TensorMapInsert", .compute = insert_compute},
    {.op = "TensorMapErase", .compute = erase_compute},
    {.op = "TensorMapStackKeys", .compute = stack_keys_compute},
};
DP_KERNEL_FAMILY(tensor_map, rows);
