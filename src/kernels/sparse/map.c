/* Sparse tensors kept under a number. AddSparseToTensorsMap stores one and returns its number;
 * AddManySparseToTensorsMap stores each row of a batch; TakeManySparseFromTensorsMap takes several
 * out and joins them along a new first dimension. The map is a resource of its device; nodes with
 * the same shared name share it. */
#include "kernels/shared/family.h"

#include <pthread.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/sparse/piece_internal.h"

typedef struct sparse_entry {
  int64_t number;
  dp_sparse_piece piece;
} sparse_entry;

typedef struct sparse_map {
  dp_resource resource;
  pthread_mutex_t lock;
  DP_ARRAY(sparse_entry) entries; /* by ascending number */
  int64_t next;
} sparse_map;

/* ---- The map ---- */
static void map_destroy(dp_resource *resource) {
  sparse_map *map = (sparse_map *)resource;
  for (size_t i = 0; i < map->entries.count; ++i)
    dp_sparse_piece_deinit(&map->entries.items[i].piece);
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

/* Stores the piece, which it consumes, and returns its number. */
static int64_t put(sparse_map *map, const dp_sparse_piece *piece) {
  pthread_mutex_lock(&map->lock);
  sparse_entry entry = {map->next++, *piece};
  DP_ARRAY_PUSH(&map->entries, entry);
  pthread_mutex_unlock(&map->lock);
  return entry.number;
}

static bool take(sparse_map *map, int64_t number, dp_sparse_piece *piece_out) {
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
    *piece_out = map->entries.items[low].piece;
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
static dp_status *add_compute(dp_op_context *context, void *memory) {
  dp_sparse_piece piece;
  sparse_map *map;
  DP_RETURN_IF_ERROR(get_map(context, memory, &map));
  dp_status *status = dp_sparse_piece_read(context, &piece);
  if (!status)
    status = dp_op_output_int64(context, 0, put(map, &piece));
  dp_resource_release(map);
  return status;
}

typedef struct add_work {
  sparse_map *map;
  int64_t *numbers;
} add_work;

static dp_status *put_row(void *arg, int64_t row, dp_sparse_piece *piece) {
  const add_work *work = arg;
  work->numbers[row] = put(work->map, piece);
  return NULL;
}

/* The checks that TensorFlow makes before it reads the batch as a sparse tensor. Wrong ranks are
 * found by dp_sparse_piece_read. */
static dp_status *check_batch(dp_op_context *context) {
  const dp_tensor *indices = dp_op_input(context, 0), *shape = dp_op_input(context, 2);
  const dp_shape *values = &dp_op_input(context, 1)->shape;
  if (indices->shape.rank != 2 || values->rank != 1 || shape->shape.rank != 1)
    return NULL;
  int64_t rank = shape->shape.elements;
  if (values->elements != indices->shape.dims[0])
    return DP_INVALID("Number of values must match first dimension of indices. Got %lld values, "
                      "indices shape: %s",
                      (long long)values->elements, dp_shape_text(&indices->shape));
  if (rank != indices->shape.dims[1])
    return DP_INVALID("Number of dimensions must match second dimension of indices. Got %lld "
                      "dimensions, indices shape: %s",
                      (long long)rank, dp_shape_text(&indices->shape));
  if (rank < 2)
    return DP_INVALID("Rank of input SparseTensor should be > 1, but saw rank: %lld",
                      (long long)rank);
  for (int64_t i = 0; i < rank; ++i)
    if (dp_tensor_int_at(shape, i) < 0)
      return DP_INVALID("Expected shape dimensions to be non-negative, got %lld",
                        (long long)dp_tensor_int_at(shape, i));
  return NULL;
}

static dp_status *add_many_compute(dp_op_context *context, void *memory) {
  dp_sparse_piece batch;
  add_work work;
  dp_tensor *numbers;
  DP_RETURN_IF_ERROR(check_batch(context));
  DP_RETURN_IF_ERROR(dp_sparse_piece_read(context, &batch));
  dp_shape rows = dp_shape_vector(batch.shape.dims[0]);
  dp_status *status = get_map(context, memory, &work.map);
  if (!status) {
    status = dp_op_allocate(context, 0, &rows, &numbers);
    if (!status) {
      work.numbers = numbers->data;
      status = dp_sparse_piece_rows(&batch, put_row, &work);
    }
    dp_resource_release(work.map);
  }
  dp_sparse_piece_deinit(&batch);
  return status;
}

/* ---- Taking out ---- */
static dp_status *take_all(sparse_map *map, const char *name, const dp_tensor *numbers,
                           dp_sparse_piece *pieces) {
  for (int64_t i = 0; i < numbers->shape.elements; ++i) {
    int64_t number = ((const int64_t *)numbers->data)[i];
    if (!take(map, number, &pieces[i]))
      return DP_INVALID("Unable to find SparseTensor: %lld in map: %s", (long long)number, name);
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
  dp_sparse_piece *pieces = DP_NEW_ARRAY(dp_sparse_piece, (size_t)count);
  dp_status *status = take_all(map, ((dp_resource_name *)memory)->name, numbers, pieces);
  dp_resource_release(map);
  if (!status)
    status = dp_sparse_piece_output(context, pieces, &numbers->shape);
  for (int64_t i = 0; i < count; ++i)
    dp_sparse_piece_deinit(&pieces[i]);
  dp_free(pieces);
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
