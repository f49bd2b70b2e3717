/* Gather, GatherV2 and GatherNd: rows of a tensor by index. All indices are checked in one pass
 * before anything is copied. Rows of 1, 2, 4, 8 or 16 bytes have loops of their own; longer rows
 * are prefetched. */
#include "kernels/shared/family.h"
#include "kernels/shared/indices.h"
#include "kernels/shared/move.h"

typedef struct gather_work {
  const char *from;
  char *to;
  const dp_tensor *indices;
  int64_t index_count; /* per batch */
  int64_t outer;       /* rows of a batch before the gathered dimension */
  int64_t limit;       /* size of the gathered dimension */
  size_t row_bytes;
  int64_t row_elements;
  dp_dtype dtype;
} gather_work;

typedef struct unit16 {
  uint64_t a, b;
} unit16;

#define GATHER_LOOP(unit, index)                                                                   \
  do {                                                                                             \
    const unit *rows = (const unit *)from;                                                         \
    unit *results = (unit *)to;                                                                    \
    const index *at = (const index *)indices;                                                      \
    for (int64_t i = 0; i < count; ++i)                                                            \
      results[i] = rows[at[i]];                                                                    \
    return;                                                                                        \
  } while (0)
#define GATHER_SIZES(index)                                                                        \
  switch (work->row_bytes) {                                                                       \
  case 1:                                                                                          \
    GATHER_LOOP(uint8_t, index);                                                                   \
  case 2:                                                                                          \
    GATHER_LOOP(uint16_t, index);                                                                  \
  case 4:                                                                                          \
    GATHER_LOOP(uint32_t, index);                                                                  \
  case 8:                                                                                          \
    GATHER_LOOP(uint64_t, index);                                                                  \
  case 16:                                                                                         \
    GATHER_LOOP(unit16, index);                                                                    \
  }

#define AHEAD 4
/* Copies `count` rows of one piece of the tensor, with the indices from `first` on. */
static void gather_rows(const gather_work *work, char *to, const char *from, int64_t first,
                        int64_t count) {
  dp_dtype index_type = work->indices->dtype;
  const char *indices =
      (const char *)work->indices->data + (size_t)first * dp_dtype_size(index_type);
  size_t bytes = work->row_bytes;
  if (!dp_dtype_is_plain(work->dtype)) {
    for (int64_t i = 0; i < count; ++i)
      dp_tensor_copy_elements(work->dtype, to + (size_t)i * bytes,
                              from + (size_t)dp_indices_at(index_type, indices, i) * bytes,
                              work->row_elements);
    return;
  }
  if ((((uintptr_t)from | (uintptr_t)to) & 7) == 0 || bytes < 8) {
    if (index_type == DP_INT32)
      GATHER_SIZES(int32_t)
    else if (index_type == DP_INT64)
      GATHER_SIZES(int64_t)
  }
  for (int64_t i = 0; i < count; ++i) {
    if (i + AHEAD < count)
      __builtin_prefetch(from + (size_t)dp_indices_at(index_type, indices, i + AHEAD) * bytes);
    memcpy(to + (size_t)i * bytes, from + (size_t)dp_indices_at(index_type, indices, i) * bytes,
           bytes);
  }
}

/* Items are rows of the result, counted over (batch, outer, index). */
static void gather_range(void *arg, int64_t begin, int64_t end) {
  const gather_work *work = arg;
  while (begin < end) {
    int64_t piece = begin / work->index_count, index = begin % work->index_count;
    int64_t count = work->index_count - index;
    count = count < end - begin ? count : end - begin;
    gather_rows(work, work->to + (size_t)begin * work->row_bytes,
                work->from + (size_t)piece * (size_t)work->limit * work->row_bytes,
                piece / work->outer * work->index_count + index, count);
    begin += count;
  }
}

static void run_gather(dp_op_context *context, gather_work *work, int64_t rows) {
  if (rows > 0 && work->row_bytes > 0)
    dp_op_for(context, rows, (int64_t)work->row_bytes / 10 + 2, gather_range, work);
}

/* ---- Gather, GatherV2 ---- */
static dp_status *gather_create(const dp_kernel_setup *setup, void *state) {
  const dp_attr *attr = dp_node_attr(setup->node, "batch_dims");
  *(int64_t *)state = attr && attr->kind == DP_ATTR_INT ? attr->integer : 0;
  return NULL;
}

static dp_status *read_axis(dp_op_context *context, const dp_shape *params, int *axis_out) {
  *axis_out = 0;
  if (context->input_count < 3)
    return NULL;
  const dp_tensor *axis = dp_op_input(context, 2);
  if (axis->shape.rank != 0)
    return DP_INVALID("axis must be scalar");
  if (axis->dtype != DP_INT32 && axis->dtype != DP_INT64)
    return DP_INVALID("axis must be int32 or int64.");
  int64_t wanted = dp_tensor_int_at(axis, 0);
  uint64_t least = wanted < 0 ? 0 - (uint64_t)wanted : (uint64_t)wanted + 1;
  if (!dp_kernel_normalize_axis(wanted, params->rank, axis_out))
    return DP_INVALID("Shape must be at least rank %llu but is rank %d", (unsigned long long)least,
                      params->rank);
  return NULL;
}

static dp_status *read_batch_dims(int64_t wanted, const dp_shape *params, const dp_shape *indices,
                                  int axis, int *batch_out) {
  int64_t batch = wanted < 0 ? wanted + indices->rank : wanted;
  *batch_out = (int)batch;
  if (wanted == 0)
    return NULL;
  if (batch < 0 || batch > indices->rank)
    return DP_INVALID("Expected batch_dims in the range [%d, %d], but got %lld", -indices->rank,
                      indices->rank, (long long)wanted);
  if (batch >= params->rank)
    return DP_INVALID("batch_dims (%lld) must be less than rank(params) (%d).", (long long)batch,
                      params->rank);
  if (axis < batch)
    return DP_INVALID("batch_dims (%lld) must be less than or equal to axis (%d).",
                      (long long)batch, axis);
  for (int i = 0; i < batch; ++i)
    if (params->dims[i] != indices->dims[i])
      return DP_INVALID("params.shape[%d]: %lld should be equal to indices.shape[%d]: %lld", i,
                        (long long)params->dims[i], i, (long long)indices->dims[i]);
  return NULL;
}

static dp_status *gather_shape(const dp_shape *params, const dp_shape *indices, int axis, int batch,
                               dp_shape *shape_out) {
  int64_t dims[3 * DP_MAX_RANK];
  int rank = 0;
  for (int i = 0; i < axis; ++i)
    dims[rank++] = params->dims[i];
  for (int i = batch; i < indices->rank; ++i)
    dims[rank++] = indices->dims[i];
  for (int i = axis + 1; i < params->rank; ++i)
    dims[rank++] = params->dims[i];
  return dp_shape_make(rank, dims, shape_out);
}

static dp_status *gather_compute(dp_op_context *context, void *state) {
  const dp_tensor *params = dp_op_input(context, 0), *indices = dp_op_input(context, 1);
  if (params->shape.rank < 1)
    return DP_INVALID("params must be at least 1 dimensional");
  int axis, batch;
  DP_RETURN_IF_ERROR(read_axis(context, &params->shape, &axis));
  DP_RETURN_IF_ERROR(
      read_batch_dims(*(const int64_t *)state, &params->shape, &indices->shape, axis, &batch));
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(gather_shape(&params->shape, &indices->shape, axis, batch, &shape));
  int64_t inner = dp_shape_product(&params->shape, axis + 1, params->shape.rank);
  gather_work work = {
      .from = params->data,
      .indices = indices,
      .index_count = dp_shape_product(&indices->shape, batch, indices->shape.rank),
      .outer = dp_shape_product(&params->shape, batch, axis),
      .limit = params->shape.dims[axis],
      .row_bytes = (size_t)inner * dp_dtype_size(params->dtype),
      .row_elements = inner,
      .dtype = params->dtype,
  };
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t bad = dp_indices_find_bad(indices, work.limit);
  if (bad >= 0)
    return dp_indices_error(indices, bad, work.limit);
  work.to = output->data;
  run_gather(context, &work, shape.elements / inner);
  return NULL;
}

/* ---- GatherNd ---- */
static dp_status *gather_nd_create(const dp_kernel_setup *setup, void *state) {
  return dp_indices_read_policy(setup, state);
}

typedef struct gather_nd_work {
  const dp_indices_rows *rows;
  const char *from;
  char *to;
  size_t row_bytes;
  int64_t row_elements;
  dp_dtype dtype;
  _Atomic int64_t bad; /* the number of a row that is out of bounds; -1: none */
} gather_nd_work;

/* Numbers by two coordinates, the most common case. */
static int64_t gather_pairs(const gather_nd_work *work, int64_t begin, int64_t end) {
  const int32_t *at = (const int32_t *)work->rows->indices->data + 2 * begin;
  uint32_t rows = (uint32_t)work->rows->dims[0], columns = (uint32_t)work->rows->dims[1];
  int64_t bad = -1;
  for (int64_t i = begin; i < end; ++i, at += 2) {
    bool fits = (uint32_t)at[0] < rows && (uint32_t)at[1] < columns;
    const char *from = work->from + ((size_t)at[0] * columns + (size_t)at[1]) * 4;
    if (fits)
      memcpy(work->to + (size_t)i * 4, from, 4);
    else
      memset(work->to + (size_t)i * 4, 0, 4);
    bad = fits ? bad : i;
  }
  return bad;
}

static bool is_pairs(const gather_nd_work *work) {
  const dp_indices_rows *rows = work->rows;
  return rows->depth == 2 && rows->indices->dtype == DP_INT32 && work->row_bytes == 4 &&
         dp_dtype_is_plain(work->dtype) && rows->dims[0] <= INT32_MAX && rows->dims[1] <= INT32_MAX;
}

static void gather_nd_range(void *arg, int64_t begin, int64_t end) {
  gather_nd_work *work = arg;
  if (is_pairs(work)) {
    int64_t bad = gather_pairs(work, begin, end);
    if (bad >= 0)
      work->bad = bad;
    return;
  }
  bool plain = dp_dtype_is_plain(work->dtype);
  for (int64_t i = begin; i < end; ++i) {
    int64_t slice = dp_indices_rows_slice(work->rows, i);
    char *to = work->to + (size_t)i * work->row_bytes;
    const char *from = work->from + (size_t)slice * work->row_bytes;
    if (slice < 0) {
      work->bad = i;
      if (plain)
        memset(to, 0, work->row_bytes);
    } else if (!plain) {
      dp_tensor_copy_elements(work->dtype, to, from, work->row_elements);
    } else if (work->row_bytes == 4) {
      memcpy(to, from, 4);
    } else {
      memcpy(to, from, work->row_bytes);
    }
  }
}

static dp_status *gather_nd_shape(const dp_shape *params, const dp_shape *indices,
                                  dp_shape *shape_out) {
  if (params->rank < 1)
    return DP_INVALID("params must be at least a vector");
  if (indices->rank < 1)
    return DP_INVALID("indices must be at least a vector");
  int64_t depth = indices->dims[indices->rank - 1];
  if (depth > params->rank)
    return DP_INVALID("index innermost dimension length must be <= params rank; saw: %lld vs. %d",
                      (long long)depth, params->rank);
  int64_t dims[2 * DP_MAX_RANK];
  int rank = 0;
  for (int i = 0; i + 1 < indices->rank; ++i)
    dims[rank++] = indices->dims[i];
  for (int64_t i = depth; i < params->rank; ++i)
    dims[rank++] = params->dims[i];
  return dp_shape_make(rank, dims, shape_out);
}

static dp_status *gather_nd_compute(dp_op_context *context, void *state) {
  const dp_tensor *params = dp_op_input(context, 0), *indices = dp_op_input(context, 1);
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(gather_nd_shape(&params->shape, &indices->shape, &shape));
  dp_indices_rows rows;
  dp_indices_rows_init(&rows, indices, &params->shape);
  if (rows.rows > 0 && params->shape.elements == 0)
    return DP_INVALID("Requested more than 0 entries, but params is empty.  Params shape: %s",
                      dp_shape_text(&params->shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  int64_t elements = dp_shape_product(&params->shape, (int)rows.depth, params->shape.rank);
  gather_nd_work work = {&rows,
                         params->data,
                         output->data,
                         elements * dp_dtype_size(params->dtype),
                         elements,
                         params->dtype,
                         -1};
  dp_op_for(context, rows.rows, (int64_t)work.row_bytes / 10 + 5, gather_nd_range, &work);
  if (work.bad < 0 || *(const dp_bad_indices *)state != DP_BAD_INDICES_ERROR)
    return NULL;
  for (int64_t i = 0; i < rows.rows; ++i) /* the first bad row is reported */
    if (dp_indices_rows_slice(&rows, i) < 0)
      return dp_status_append(dp_indices_rows_error(&rows, i, "param shape", &params->shape),
                              ", node name: %s", dp_node_client_name(context->node));
  return NULL;
}

#define INDEX_TYPES (DP_SET_INDEX | DP_SET(INT16))
#define GATHER(name)                                                                               \
  {                                                                                                \
    .op = name, .types = {{"Tindices", INDEX_TYPES}}, .state_size = sizeof(int64_t),               \
    .create = gather_create, .compute = gather_compute                                             \
  }
static const dp_kernel rows[] = {
    GATHER("Gather"),
    GATHER("GatherV2"),
    {.op = "GatherNd",
     .types = {{"Tindices", INDEX_TYPES}},
     .state_size = sizeof(dp_bad_indices),
     .create = gather_nd_create,
     .compute = gather_nd_compute},
};
DP_KERNEL_FAMILY(array_gather, rows);
