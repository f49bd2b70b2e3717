/* Datasets that change the size of batches. Rebatch divides each batch into one part per replica.
 * RebatchV2 makes batches of given sizes out of the rows of several batches. DenseToSparseBatch
 * gathers tensors of different shapes into one sparse tensor. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/tensor_variant.h"

/* ---- Rebatch and RebatchV2 ---- */
typedef struct rebatch_dataset {
  dp_dataset base;
  int64_t replicas; /* Rebatch */
  int64_t *sizes;   /* RebatchV2: the sizes of the batches, used in turn */
  int64_t size_count;
  bool drop_remainder;
} rebatch_dataset;

typedef struct rebatch_iterator {
  dp_iterator base;
  dp_tensor *element; /* the element that is being divided */
  int64_t row;        /* RebatchV2: the next row of `element`; -1 when none is left */
  int64_t turn;       /* the next part of the element, or the next of `sizes` */
  bool ended;
} rebatch_iterator;

static dp_status *fetch_element(rebatch_iterator *iterator, const dp_walk *walk, bool *more_out) {
  dp_element_clear(iterator->element, iterator->base.dataset->input->component_count);
  return dp_iterator_next_input(&iterator->base, walk, iterator->element, more_out);
}

static void copy_rows(const dp_tensor *from, int64_t begin, int64_t end, dp_tensor *to,
                      int64_t at) {
  int64_t row = dp_shape_product(&from->shape, 1, from->shape.rank);
  size_t size = (size_t)row * dp_dtype_size(from->dtype);
  dp_tensor_copy_elements(from->dtype, (char *)to->data + (size_t)at * size,
                          (const char *)from->data + (size_t)begin * size, (end - begin) * row);
}

static dp_status *create_rows(const dp_tensor *like, int64_t rows, dp_tensor *tensor_out) {
  dp_shape shape;
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, like->shape.dims, (size_t)like->shape.rank * sizeof(int64_t));
  dims[0] = rows;
  DP_RETURN_IF_ERROR(dp_shape_make(like->shape.rank, dims, &shape));
  return dp_tensor_create(like->dtype, &shape, tensor_out);
}

/* Components are divided one by one, because their first dimensions may differ. */
static dp_status *divided_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                               bool *more_out) {
  rebatch_iterator *iterator = (rebatch_iterator *)base;
  int64_t replicas = ((rebatch_dataset *)base->dataset)->replicas;
  int32_t components = base->dataset->component_count;
  if (iterator->turn == 0) {
    DP_RETURN_IF_ERROR(fetch_element(iterator, walk, more_out));
    if (!*more_out)
      return NULL;
    for (int32_t i = 0; i < components; ++i)
      if (iterator->element[i].shape.rank == 0)
        return DP_INVALID("Cannot rebatch dataset: All components must have at least one "
                          "dimension. Perhaps your input dataset is not batched? Component %d is "
                          "scalar.",
                          i);
  }
  for (int32_t i = 0; i < components; ++i) {
    const dp_tensor *whole = &iterator->element[i];
    int64_t rows = whole->shape.dims[0], share = rows / replicas + (rows % replicas != 0);
    int64_t end = (iterator->turn + 1) * share < rows ? (iterator->turn + 1) * share : rows;
    int64_t begin = iterator->turn * share < end ? iterator->turn * share : end;
    DP_RETURN_IF_ERROR(create_rows(whole, end - begin, &element[i]));
    copy_rows(whole, begin, end, &element[i], 0);
  }
  iterator->turn = (iterator->turn + 1) % replicas;
  *more_out = true;
  return NULL;
}

/* Rows of an element that go into the batch. */
typedef struct piece {
  dp_tensor *element; /* copies, owned */
  int64_t begin, end;
} piece;

typedef DP_ARRAY(piece) piece_list;

static void pieces_clear(piece_list *pieces, int32_t components) {
  for (size_t i = 0; i < pieces->count; ++i)
    dp_element_destroy(pieces->items[i].element, components);
  DP_ARRAY_FREE(pieces);
}

static dp_status *check_rows(const dp_tensor *element, int32_t components) {
  for (int32_t i = 0; i < components; ++i) {
    if (element[i].shape.rank == 0)
      return DP_INVALID("Input element must have a non-scalar value in each component.");
    if (element[i].shape.dims[0] != element[0].shape.dims[0])
      return DP_INVALID("Input element must have the same batch size in each component. Component "
                        "0 had size %lld but component %d had size, %lld.",
                        (long long)element[0].shape.dims[0], i,
                        (long long)element[i].shape.dims[0]);
  }
  return NULL;
}

/* Collects rows until there are `wanted`, or the input ends. */
static dp_status *collect(rebatch_iterator *iterator, const dp_walk *walk, int64_t wanted,
                          piece_list *pieces, int64_t *rows_out) {
  int32_t components = iterator->base.dataset->component_count;
  *rows_out = 0;
  while (*rows_out < wanted) {
    if (iterator->row < 0) {
      bool more;
      DP_RETURN_IF_ERROR(fetch_element(iterator, walk, &more));
      iterator->ended = !more;
      if (!more)
        return NULL;
      DP_RETURN_IF_ERROR(check_rows(iterator->element, components));
      iterator->row = 0;
    }
    int64_t left = iterator->element[0].shape.dims[0] - iterator->row;
    int64_t taken = left < wanted - *rows_out ? left : wanted - *rows_out;
    piece piece = {dp_element_create(components), iterator->row, iterator->row + taken};
    for (int32_t i = 0; i < components; ++i)
      piece.element[i] = dp_tensor_copy(&iterator->element[i]);
    DP_ARRAY_PUSH(pieces, piece);
    *rows_out += taken;
    iterator->row = taken == left ? -1 : piece.end;
  }
  return NULL;
}

static dp_status *join(const piece_list *pieces, int32_t component, int64_t rows,
                       dp_tensor *tensor_out) {
  const dp_tensor *first = &pieces->items[0].element[component];
  int64_t at = 0;
  DP_RETURN_IF_ERROR(create_rows(first, rows, tensor_out));
  for (size_t i = 0; i < pieces->count; ++i) {
    const piece *piece = &pieces->items[i];
    const dp_tensor *part = &piece->element[component];
    dp_shape shape = dp_shape_remove(&part->shape, 0), wanted = dp_shape_remove(&first->shape, 0);
    if (part->dtype != first->dtype || !dp_shape_equal(&shape, &wanted))
      return dp_status_create(DP_FAILED_PRECONDITION,
                              "Rows of shape %s and of shape %s cannot be in one batch.",
                              dp_shape_text(&wanted), dp_shape_text(&shape));
    copy_rows(part, piece->begin, piece->end, tensor_out, at);
    at += piece->end - piece->begin;
  }
  return NULL;
}

/* A tensor without rows, of the declared shape; unknown dimensions are 0. */
static dp_status *create_empty(const dp_dataset *dataset, int32_t component,
                               dp_tensor *tensor_out) {
  const dp_partial_shape *declared = &dataset->shapes[component];
  int64_t dims[DP_MAX_RANK] = {0};
  int rank = declared->rank < 1 ? 1 : declared->rank;
  for (int i = 1; i < rank; ++i)
    dims[i] = declared->dims[i] < 0 ? 0 : declared->dims[i];
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  return dp_tensor_create(dataset->dtypes[component], &shape, tensor_out);
}

static dp_status *sized_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  rebatch_iterator *iterator = (rebatch_iterator *)base;
  rebatch_dataset *dataset = (rebatch_dataset *)base->dataset;
  if (iterator->ended)
    return NULL;
  piece_list pieces = {0};
  int32_t components = base->dataset->component_count;
  int64_t wanted = dataset->sizes[iterator->turn], rows;
  dp_status *status = collect(iterator, walk, wanted, &pieces, &rows);
  if (!status) {
    iterator->turn = (iterator->turn + 1) % dataset->size_count;
    *more_out = wanted == 0 || (rows > 0 && !(dataset->drop_remainder && rows < wanted));
  }
  for (int32_t i = 0; *more_out && !status && i < components; ++i)
    status = wanted == 0 ? create_empty(base->dataset, i, &element[i])
                         : join(&pieces, i, rows, &element[i]);
  pieces_clear(&pieces, components);
  return status;
}

static void rebatch_iterator_destroy(dp_iterator *base) {
  dp_element_destroy(((rebatch_iterator *)base)->element, base->dataset->input->component_count);
}

static const dp_iterator_ops divided_iterator_ops = {sizeof(rebatch_iterator), divided_next,
                                                     rebatch_iterator_destroy};
static const dp_iterator_ops sized_iterator_ops = {sizeof(rebatch_iterator), sized_next,
                                                   rebatch_iterator_destroy};

static dp_iterator *rebatch_iterate(dp_dataset *base) {
  bool is_sized = ((rebatch_dataset *)base)->sizes != NULL;
  rebatch_iterator *iterator =
      dp_iterator_create(is_sized ? &sized_iterator_ops : &divided_iterator_ops);
  iterator->element = dp_element_create(base->input->component_count);
  iterator->row = -1;
  return &iterator->base;
}

static void rebatch_destroy(dp_dataset *base) {
  dp_free(((rebatch_dataset *)base)->sizes);
}

static const dp_dataset_ops rebatch_ops = {"Rebatch", NULL, NULL, rebatch_destroy,
                                           .iterate = rebatch_iterate};

static dp_status *make_rebatched(dp_op_context *context, rebatch_dataset **dataset_out) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  rebatch_dataset *dataset = dp_dataset_create(&rebatch_ops, sizeof(rebatch_dataset), input);
  dp_status *status = dp_dataset_components_from_node(&dataset->base, context->node);
  if (!status && dataset->base.component_count != input->component_count)
    status = DP_INVALID("%d components are declared for %d", dataset->base.component_count,
                        input->component_count);
  if (status) {
    dp_dataset_release(&dataset->base);
    return status;
  }
  *dataset_out = dataset;
  return NULL;
}

static dp_status *divided_compute(dp_op_context *context, void *state) {
  rebatch_dataset *dataset;
  int64_t replicas;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "num_replicas", &replicas));
  if (replicas <= 0)
    return DP_INVALID("num_replicas must be greater than zero.");
  DP_RETURN_IF_ERROR(make_rebatched(context, &dataset));
  dataset->replicas = replicas;
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *sized_compute(dp_op_context *context, void *state) {
  const dp_tensor *sizes = dp_op_input(context, 1);
  rebatch_dataset *dataset;
  bool drop;
  if (sizes->shape.rank > 1)
    return DP_INVALID("`batch_sizes` must be a scalar or a vector.");
  DP_RETURN_IF_ERROR(dp_dataset_bool(context, 2, "drop_remainder", &drop));
  if (sizes->shape.elements == 0)
    return DP_INVALID("`batch_sizes` must not be empty.");
  for (int64_t i = 0; i < sizes->shape.elements; ++i)
    if (dp_tensor_int_at(sizes, i) < 0)
      return DP_INVALID("`batch_sizes` must not be negative.");
  DP_RETURN_IF_ERROR(make_rebatched(context, &dataset));
  dataset->size_count = sizes->shape.elements;
  dataset->sizes = DP_NEW_ARRAY(int64_t, (size_t)sizes->shape.elements);
  memcpy(dataset->sizes, sizes->data, (size_t)sizes->shape.elements * sizeof(int64_t));
  dataset->drop_remainder = drop;
  return dp_dataset_output(context, 0, &dataset->base);
}

/* ---- DenseToSparseBatch ---- */
typedef struct sparse_batch_dataset {
  dp_dataset base;
  int64_t size;
  dp_partial_shape row; /* -1: as large as the largest element of the batch */
} sparse_batch_dataset;

/* Checks an element against the row's shape, and enlarges `dims` to hold it. */
static dp_status *fit_row(const dp_partial_shape *row, const dp_shape *shape, int64_t *dims) {
  if (shape->rank != row->rank)
    return DP_INVALID("Input element had shape (%s) that is incompatible with the row shape (%s).",
                      dp_shape_text(shape), dp_partial_shape_text(row));
  for (int i = 0; i < row->rank; ++i) {
    if (row->dims[i] >= 0 && shape->dims[i] > row->dims[i])
      return dp_status_create(DP_DATA_LOSS,
                              "Input element had shape (%s) that is larger than the row shape "
                              "(%s).",
                              dp_shape_text(shape), dp_partial_shape_text(row));
    if (row->dims[i] < 0 && shape->dims[i] > dims[i])
      dims[i] = shape->dims[i];
  }
  return NULL;
}

static dp_status *gather_rows(dp_iterator *base, const dp_walk *walk, dp_element_list *list,
                              int64_t *dims) {
  const sparse_batch_dataset *dataset = (const sparse_batch_dataset *)base->dataset;
  for (bool ended = false; !ended && (int64_t)list->count < dataset->size;) {
    size_t before = list->count;
    DP_RETURN_IF_ERROR(dp_iterator_gather(base, walk, (int64_t)before + 1, list, &ended));
    if (list->count > before)
      DP_RETURN_IF_ERROR(fit_row(&dataset->row, &list->items[before][0].shape, dims));
  }
  return NULL;
}

/* The index of each value: the row, then the position in the row. */
static void write_indices(int64_t row, const dp_shape *shape, int64_t *to) {
  for (int64_t i = 0; i < shape->elements; ++i) {
    int64_t rest = i;
    for (int axis = shape->rank - 1; axis >= 0; --axis) {
      to[axis + 1] = rest % shape->dims[axis];
      rest /= shape->dims[axis];
    }
    to[0] = row;
    to += shape->rank + 1;
  }
}

/* `parts` are indices, values and shape. */
static dp_status *fill_sparse(const dp_element_list *list, const int64_t *dims, int rank,
                              dp_tensor parts[3]) {
  int64_t total = 0, rows = (int64_t)list->count;
  for (int64_t i = 0; i < rows; ++i)
    total += list->items[i][0].shape.elements;
  dp_shape shapes[3] = {dp_shape_matrix(total, rank + 1), dp_shape_vector(total),
                        dp_shape_vector(rank + 1)};
  dp_dtype dtype = list->items[0][0].dtype, dtypes[3] = {DP_INT64, dtype, DP_INT64};
  for (int i = 0; i < 3; ++i)
    DP_RETURN_IF_ERROR(dp_tensor_create(dtypes[i], &shapes[i], &parts[i]));
  for (int64_t i = 0, at = 0; i < rows; ++i) {
    const dp_tensor *row = &list->items[i][0];
    if (row->dtype != dtype)
      return DP_INVALID("Cannot batch tensors with different dtypes");
    write_indices(i, &row->shape, (int64_t *)parts[0].data + at * (rank + 1));
    dp_tensor_copy_elements(dtype, (char *)parts[1].data + (size_t)at * dp_dtype_size(dtype),
                            row->data, row->shape.elements);
    at += row->shape.elements;
  }
  ((int64_t *)parts[2].data)[0] = rows;
  memcpy((int64_t *)parts[2].data + 1, dims, (size_t)rank * sizeof(int64_t));
  return NULL;
}

static dp_status *sparse_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  const sparse_batch_dataset *dataset = (const sparse_batch_dataset *)base->dataset;
  int64_t dims[DP_MAX_RANK] = {0};
  for (int i = 0; i < dataset->row.rank; ++i)
    dims[i] = dataset->row.dims[i] < 0 ? 0 : dataset->row.dims[i];
  dp_element_list list = {0};
  dp_status *status = gather_rows(base, walk, &list, dims);
  if (!status && list.count > 0) {
    dp_tensor parts[3] = {{0}};
    dp_shape shape = dp_shape_vector(3);
    status = fill_sparse(&list, dims, dataset->row.rank, parts);
    if (!status)
      status = dp_tensor_create(DP_VARIANT, &shape, &element[0]);
    for (int i = 0; !status && i < 3; ++i)
      dp_tensor_variants(&element[0])[i] = dp_tensor_variant_create(&parts[i]);
    dp_element_clear(parts, 3);
    *more_out = true;
  }
  dp_element_list_clear(&list, 1);
  return status;
}

static const dp_iterator_ops sparse_iterator_ops = {sizeof(dp_iterator), sparse_next, NULL};

static int64_t sparse_cardinality(dp_dataset *base) {
  int64_t input = dp_dataset_cardinality(base->input), size = ((sparse_batch_dataset *)base)->size;
  return input < 0 ? input : input / size + (input % size != 0);
}

static const dp_dataset_ops sparse_ops = {"DenseToSparseBatch", &sparse_iterator_ops,
                                          sparse_cardinality, NULL};

static dp_status *sparse_compute(dp_op_context *context, void *state) {
  dp_dataset *input;
  int64_t size;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  if (input->component_count != 1)
    return DP_INVALID("DenseToSparseBatchDataset only supports inputs with a single component.");
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "batch_size", &size));
  if (size <= 0)
    return DP_INVALID("Batch size must be greater than zero.");
  const dp_tensor *shape = dp_op_input(context, 2);
  dp_partial_shape row;
  if (shape->shape.rank != 1)
    return DP_INVALID("row_shape must be a vector");
  DP_RETURN_IF_ERROR(dp_partial_shape_make(shape->shape.dims[0], shape->data, &row));
  sparse_batch_dataset *dataset =
      dp_dataset_create(&sparse_ops, sizeof(sparse_batch_dataset), input);
  dataset->size = size;
  dataset->row = row;
  dp_partial_shape declared = row;
  dp_dataset_add_dimension(&declared, -1);
  dp_dataset_set_components(&dataset->base, 1, &(dp_dtype){DP_VARIANT}, &declared);
  return dp_dataset_output(context, 0, &dataset->base);
}

#define ROW(name, body)                                                                            \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
static const dp_kernel rows[] = {
    ROW("RebatchDataset", divided_compute),
    ROW("ExperimentalRebatchDataset", divided_compute),
    ROW("RebatchDatasetV2", sized_compute),
    ROW("DenseToSparseBatchDataset", sparse_compute),
    ROW("ExperimentalDenseToSparseBatchDataset", sparse_compute),
};
DP_KERNEL_FAMILY(dataset_rebatch, rows);
