/* Sparse tensors that wait under a number: AddSparseToTensorsMap puts one in and gives the number,
 * AddManySparseToTensorsMap each row of a batch, TakeManySparseFromTensorsMap takes several out and
 * joins them along a new first dimension. The map lives in its device's resources; nodes that share
 * its name share it. */
#include "kernels/families_internal.h"

#include <pthread.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/support_internal.h"

typedef struct sparse_entry {
  int64_t number;
  dp_tensor indices, values;
  dp_shape shape;
} sparse_entry;

typedef struct sparse_map {
  dp_resource resource;
  pthread_mutex_t lock;
  DP_ARRAY(sparse_entry) entries; /* by rising number */
  int64_t next;
} sparse_map;

/* ---- The map ---- */
static void deinit_entry(sparse_entry *entry) {
  dp_tensor_deinit(&entry->indices);
  dp_tensor_deinit(&entry->values);
}

static void map_destroy(dp_resource *resource) {
  sparse_map *map = (sparse_map *)resource;
  for (size_t i = 0; i < map->entries.count; ++i)
    deinit_entry(&map->entries.items[i]);
  DP_ARRAY_FREE(&map->entries);
  pthread_mutex_destroy(&map->lock);
  dp_free(map);
}

static void map_describe(dp_resource *resource, dp_text *text) {
  sparse_map *map = (sparse_map *)resource;
  pthread_mutex_lock(&map->lock);
  dp_text_printf(text, "%zu sparse tensors", map->entries.count);
  pthread_mutex_unlock(&map->lock);
}

static const dp_resource_ops map_ops = {"N10tensorflow16SparseTensorsMapE", map_destroy,
                                        map_describe};

static dp_status *make_map(void *arg, dp_resource **resource_out) {
  sparse_map *map = DP_NEW(sparse_map);
  dp_resource_init(&map->resource, &map_ops);
  pthread_mutex_init(&map->lock, NULL);
  *resource_out = &map->resource;
  return NULL;
}

/* Takes the entry's tensors over. */
static int64_t put(sparse_map *map, sparse_entry *entry) {
  pthread_mutex_lock(&map->lock);
  entry->number = map->next++;
  DP_ARRAY_PUSH(&map->entries, *entry);
  int64_t number = entry->number;
  pthread_mutex_unlock(&map->lock);
  return number;
}

static bool take(sparse_map *map, int64_t number, sparse_entry *entry_out) {
  pthread_mutex_lock(&map->lock);
  size_t low = 0, high = map->entries.count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (map->entries.items[middle].number < number)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < map->entries.count && map->entries.items[low].number == number;
  if (found) {
    *entry_out = map->entries.items[low];
    --map->entries.count;
    memmove(&map->entries.items[low], &map->entries.items[low + 1],
            (map->entries.count - low) * sizeof(sparse_entry));
  }
  pthread_mutex_unlock(&map->lock);
  return found;
}

/* ---- Names ---- */
static dp_status *name_create(const dp_kernel_setup *setup, void *memory) {
  return dp_resource_name_init(memory, setup, true);
}

static void name_destroy(void *memory) {
  dp_resource_name_deinit(memory);
}

static dp_status *get_map(dp_op_context *context, const dp_resource_name *name,
                          sparse_map **map_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(context->device->resources, name->container,
                                                 name->name, &map_ops, make_map, NULL, &resource));
  *map_out = (sparse_map *)resource;
  return NULL;
}

/* ---- Putting in ---- */
static dp_status *read_sparse(dp_op_context *context, dp_shape *shape_out) {
  const dp_tensor *indices = dp_op_input(context, 0), *values = dp_op_input(context, 1);
  const dp_tensor *shape = dp_op_input(context, 2);
  if (indices->shape.rank != 2)
    return DP_INVALID("Input indices should be a matrix but received shape %s",
                      dp_shape_text(&indices->shape));
  if (values->shape.rank != 1)
    return DP_INVALID("Input values should be a vector but received shape %s",
                      dp_shape_text(&values->shape));
  if (shape->shape.rank != 1)
    return DP_INVALID("Input shape should be a vector but received shape %s",
                      dp_shape_text(&shape->shape));
  if (indices->shape.dims[0] != values->shape.dims[0])
    return DP_INVALID("Number of values must match first dimension of indices. Got %lld values, "
                      "indices shape: %s",
                      (long long)values->shape.dims[0], dp_shape_text(&indices->shape));
  if (indices->shape.dims[1] != shape->shape.elements)
    return DP_INVALID("Number of dimensions must match second dimension of indices. Got %lld "
                      "dimensions, indices shape: %s",
                      (long long)shape->shape.elements, dp_shape_text(&indices->shape));
  if (shape->shape.elements == 0)
    return DP_INVALID("The shape argument requires at least one element.");
  return dp_shape_make(shape->shape.elements, shape->data, shape_out);
}

static dp_status *add_compute(dp_op_context *context, void *memory) {
  sparse_entry entry = {0};
  sparse_map *map;
  DP_RETURN_IF_ERROR(read_sparse(context, &entry.shape));
  DP_RETURN_IF_ERROR(get_map(context, memory, &map));
  entry.indices = dp_tensor_copy(dp_op_input(context, 0));
  entry.values = dp_tensor_copy(dp_op_input(context, 1));
  int64_t number = put(map, &entry);
  dp_resource_release(map);
  return dp_op_output_int64(context, 0, number);
}

/* Rows [begin, end) of the batch's entries as a sparse tensor without the first dimension. */
static dp_status *make_row(dp_op_context *context, int64_t begin, int64_t end,
                           const dp_shape *whole, sparse_entry *entry) {
  const dp_tensor *indices = dp_op_input(context, 0);
  int64_t rank = whole->rank, count = end - begin;
  dp_shape shape = dp_shape_matrix(count, rank - 1);
  entry->shape = dp_shape_remove(whole, 0);
  dp_tensor rows = dp_tensor_slice(dp_op_input(context, 1), begin, end);
  dp_status *status = dp_tensor_clone(&rows, &entry->values);
  dp_tensor_deinit(&rows);
  DP_RETURN_IF_ERROR(status);
  status = dp_tensor_create(DP_INT64, &shape, &entry->indices);
  if (status) {
    dp_tensor_deinit(&entry->values);
    return status;
  }
  const int64_t *from = indices->data;
  int64_t *to = entry->indices.data;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 1; k < rank; ++k)
      *to++ = from[(begin + i) * rank + k];
  return NULL;
}

/* Entries of a row stand together. As in TensorFlow, rows without any get their numbers last. */
static dp_status *add_rows(dp_op_context *context, sparse_map *map, const dp_shape *shape,
                           int64_t *numbers) {
  const int64_t *indices = dp_op_input(context, 0)->data;
  int64_t rank = shape->rank, count = dp_op_input(context, 1)->shape.elements, end;
  for (int64_t row = 0; row < shape->dims[0]; ++row)
    numbers[row] = -1;
  for (int64_t begin = 0; begin < count; begin = end) {
    int64_t row = indices[begin * rank];
    if (row < 0 || row >= shape->dims[0])
      return DP_INVALID("Received unexpected column 0 value in input SparseTensor: %lld < 0 or >= "
                        "N (= %lld)",
                        (long long)row, (long long)shape->dims[0]);
    for (end = begin + 1; end < count && indices[end * rank] == row; ++end)
      ;
    sparse_entry entry = {0};
    DP_RETURN_IF_ERROR(make_row(context, begin, end, shape, &entry));
    numbers[row] = put(map, &entry);
  }
  for (int64_t row = 0; row < shape->dims[0]; ++row) {
    sparse_entry entry = {0};
    if (numbers[row] >= 0)
      continue;
    DP_RETURN_IF_ERROR(make_row(context, 0, 0, shape, &entry));
    numbers[row] = put(map, &entry);
  }
  return NULL;
}

static dp_status *add_many_compute(dp_op_context *context, void *memory) {
  dp_shape shape;
  sparse_map *map;
  dp_tensor *numbers;
  DP_RETURN_IF_ERROR(read_sparse(context, &shape));
  if (shape.rank < 2)
    return DP_INVALID("Rank of input SparseTensor should be > 1, but saw rank: %d", shape.rank);
  dp_shape rows = dp_shape_vector(shape.dims[0]);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &rows, &numbers));
  DP_RETURN_IF_ERROR(get_map(context, memory, &map));
  dp_status *status = add_rows(context, map, &shape, numbers->data);
  dp_resource_release(map);
  return status;
}

/* ---- Taking out ---- */
/* All of one rank and dtype; the sizes are the largest. */
static dp_status *join_shapes(const dp_op_context *context, const sparse_entry *entries,
                              int64_t count, dp_shape *shape_out, int64_t *total_out) {
  dp_dtype dtype = dp_op_output_type(context, 1);
  int64_t dims[DP_MAX_RANK] = {count};
  *total_out = 0;
  for (int64_t i = 0; i < count; ++i) {
    const sparse_entry *entry = &entries[i];
    if (entry->values.dtype != dtype)
      return DP_INVALID(
          "Requested SparseTensor of type %s but SparseTensor[%lld].values.dtype() == "
          "%s",
          dp_dtype_name(dtype), (long long)i, dp_dtype_name(entry->values.dtype));
    if (entry->shape.rank != entries[0].shape.rank)
      return DP_INVALID("Inconsistent rank across SparseTensors: rank prior to SparseTensor[%lld] "
                        "was: %d but rank of SparseTensor[%lld] is: %d",
                        (long long)i, entries[0].shape.rank + 1, (long long)i,
                        entry->shape.rank + 1);
    for (int32_t k = 0; k < entry->shape.rank; ++k)
      if (entry->shape.dims[k] > dims[k + 1])
        dims[k + 1] = entry->shape.dims[k];
    *total_out += entry->values.shape.elements;
  }
  int rank = (count > 0 ? entries[0].shape.rank : 0) + 1;
  if (rank > DP_MAX_RANK)
    return DP_INVALID("a sparse tensor may have at most %d dimensions", DP_MAX_RANK);
  *shape_out = (dp_shape){.rank = rank};
  memcpy(shape_out->dims, dims, sizeof(dims));
  return NULL;
}

static dp_status *output_joined(dp_op_context *context, const sparse_entry *entries,
                                int64_t count) {
  dp_shape joined;
  int64_t total;
  dp_tensor *indices, *values, *shape;
  DP_RETURN_IF_ERROR(join_shapes(context, entries, count, &joined, &total));
  dp_shape matrix = dp_shape_matrix(total, joined.rank), vector = dp_shape_vector(total);
  dp_shape sizes = dp_shape_vector(joined.rank);
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &matrix, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &vector, &values));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 2, &sizes, &shape));
  memcpy(shape->data, joined.dims, (size_t)joined.rank * sizeof(int64_t));
  int64_t *to = indices->data, done = 0;
  size_t size = dp_dtype_size(values->dtype);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t *from = entries[i].indices.data;
    int64_t rows = entries[i].values.shape.elements;
    for (int64_t row = 0; row < rows; ++row) {
      *to++ = i;
      for (int k = 1; k < joined.rank; ++k)
        *to++ = *from++;
    }
    if (rows > 0)
      dp_tensor_copy_elements(values->dtype, (char *)values->data + (size_t)done * size,
                              entries[i].values.data, rows);
    done += rows;
  }
  return NULL;
}

static dp_status *take_all(sparse_map *map, const dp_tensor *numbers, sparse_entry *entries) {
  for (int64_t i = 0; i < numbers->shape.elements; ++i) {
    int64_t number = ((const int64_t *)numbers->data)[i];
    if (!take(map, number, &entries[i]))
      return DP_INVALID("Unable to find SparseTensor: %lld in map", (long long)number);
  }
  return NULL;
}

static dp_status *take_compute(dp_op_context *context, void *memory) {
  const dp_tensor *numbers = dp_op_input(context, 0);
  sparse_map *map;
  if (numbers->shape.rank != 1)
    return DP_INVALID("sparse_handles should be a vector but received shape %s",
                      dp_shape_text(&numbers->shape));
  int64_t count = numbers->shape.elements;
  if (count == 0)
    return DP_INVALID("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
  DP_RETURN_IF_ERROR(get_map(context, memory, &map));
  sparse_entry *entries = DP_NEW_ARRAY(sparse_entry, (size_t)count);
  dp_status *status = take_all(map, numbers, entries);
  dp_resource_release(map);
  if (!status)
    status = output_joined(context, entries, count);
  for (int64_t i = 0; i < count; ++i)
    deinit_entry(&entries[i]);
  dp_free(entries);
  return status;
}

/* clang-format off */
#define ROW(name, body)                                                                            \
  {.op = name, .state_size = sizeof(dp_resource_name), .create = name_create, .compute = body,     \
   .destroy = name_destroy}

static const dp_kernel rows[] = {
    ROW("AddSparseToTensorsMap", add_compute),
    ROW("AddManySparseToTensorsMap", add_many_compute),
    ROW("TakeManySparseFromTensorsMap", take_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(sparse_map, rows);
