/* Diagonals: Diag, DiagPart, the MatrixDiag family in its three versions, and MatrixBandPart.
 *
 * Several diagonals of one matrix are packed as rows of equal length, the uppermost diagonal first.
 * A shorter diagonal is at the left or right end of its row, depending on attribute `align`. */
#include "kernels/shared/family.h"
#include "kernels/shared/move.h"

/* ---- Diag, DiagPart ---- */
static dp_status *diag_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  int rank = input->shape.rank;
  if (rank < 1)
    return DP_INVALID("Input must be at least rank 1, got 0");
  if (2 * rank > DP_MAX_RANK)
    return DP_INVALID("a tensor has at most %d dimensions", DP_MAX_RANK);
  int64_t dims[DP_MAX_RANK];
  for (int i = 0; i < rank; ++i)
    dims[i] = dims[i + rank] = input->shape.dims[i];
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(2 * rank, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_move_fill(context, output->dtype, output->data, NULL, shape.elements);
  dp_move move;
  dp_move_init(&move, input->dtype);
  dp_move_add(&move, input->shape.elements, 1, input->shape.elements + 1);
  dp_move_run(context, &move, output->data, input->data);
  return NULL;
}

static dp_status *diag_part_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  int rank = input->shape.rank;
  if (rank % 2 != 0)
    return DP_INVALID("The rank of the tensor should be even and positive, got shape %s",
                      dp_shape_text(&input->shape));
  for (int i = 0; i < rank / 2; ++i)
    if (input->shape.dims[i] != input->shape.dims[i + rank / 2])
      return DP_INVALID("Invalid shape %s: dimensions %d and %d do not match.",
                        dp_shape_text(&input->shape), i, i + rank / 2);
  dp_shape shape = dp_shape_of(rank / 2, input->shape.dims);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_move move;
  dp_move_init(&move, input->dtype);
  dp_move_add(&move, shape.elements, shape.elements + 1, 1);
  dp_move_run(context, &move, output->data, input->data);
  return NULL;
}

/* ---- Bands ---- */
typedef struct band_work {
  const char *from;
  char *to;
  int64_t rows, columns, lower, upper;
  size_t size;
} band_work;

static void copy_band(void *arg, int64_t begin, int64_t end) {
  const band_work *work = arg;
  for (int64_t i = begin; i < end; ++i) {
    int64_t row = i % work->rows, columns = work->columns;
    int64_t first = work->lower < 0 || row - work->lower < 0 ? 0 : row - work->lower;
    int64_t last =
        work->upper < 0 || row + work->upper + 1 > columns ? columns : row + work->upper + 1;
    first = first < columns ? first : columns;
    last = last < first ? first : last;
    size_t offset = (size_t)(i * columns) * work->size;
    char *to = work->to + offset;
    memset(to, 0, (size_t)first * work->size);
    if (work->from != work->to)
      memcpy(to + (size_t)first * work->size, work->from + offset + (size_t)first * work->size,
             (size_t)(last - first) * work->size);
    memset(to + (size_t)last * work->size, 0, (size_t)(columns - last) * work->size);
  }
}

static dp_status *band_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_tensor *lower = dp_op_input(context, 1), *upper = dp_op_input(context, 2);
  dp_shape shape = input->shape;
  if (shape.rank < 2)
    return DP_INVALID("input must be at least 2-dim, received shape: %s", dp_shape_text(&shape));
  if (lower->shape.rank != 0)
    return DP_INVALID("num_lower must be scalar, got shape %s", dp_shape_text(&lower->shape));
  if (upper->shape.rank != 0)
    return DP_INVALID("num_upper must be scalar, got shape %s", dp_shape_text(&upper->shape));
  band_work work = {.from = input->data,
                    .rows = shape.dims[shape.rank - 2],
                    .columns = shape.dims[shape.rank - 1],
                    .lower = dp_tensor_int_at(lower, 0),
                    .upper = dp_tensor_int_at(upper, 0),
                    .size = dp_dtype_size(input->dtype)};
  if (work.lower > work.rows)
    return DP_INVALID("num_lower must be negative or less or equal to number of rows (%lld) got: "
                      "%lld",
                      (long long)work.rows, (long long)work.lower);
  if (work.upper > work.columns)
    return DP_INVALID("num_upper must be negative or less or equal to number of columns (%lld) "
                      "got: %lld",
                      (long long)work.columns, (long long)work.upper);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  work.to = output->data;
  if (shape.elements > 0)
    dp_op_for(context, shape.elements / work.columns, work.columns * work.size / 8 + 5, copy_band,
              &work);
  return NULL;
}

/* ---- Packed diagonals ---- */
typedef struct diag_state {
  bool left_upper, left_lower; /* whether short diagonals are at the left end */
} diag_state;

static dp_status *diag_create(const dp_kernel_setup *setup, void *memory) {
  diag_state *state = memory;
  state->left_upper = state->left_lower = true;
  const dp_attr *align = dp_node_attr(setup->node, "align");
  if (align && align->kind == DP_ATTR_STRING) {
    state->left_upper = align->string.length > 4 && memcmp(align->string.data, "LEFT", 4) == 0;
    state->left_lower = align->string.length > 5 &&
                        memcmp(align->string.data + align->string.length - 5, "_LEFT", 5) == 0;
  }
  return NULL;
}

typedef struct diagonals {
  int64_t lower, upper, count; /* numbers of the diagonals; 0 is the main one */
  int64_t rows, columns;       /* of the matrices */
  int64_t longest;             /* length of a packed row */
  int64_t batch;
} diagonals;

static dp_status *read_diagonals(const dp_tensor *tensor, diagonals *diagonals) {
  if (tensor->shape.rank > 1)
    return DP_INVALID("diag_index must be a scalar or vector, received shape: %s",
                      dp_shape_text(&tensor->shape));
  int64_t count = dp_tensor_elements(tensor);
  if (count < 1 || count > 2)
    return DP_INVALID("diag_index must have only one or two elements, received %lld elements.",
                      (long long)count);
  diagonals->lower = dp_tensor_int_at(tensor, 0);
  diagonals->upper = dp_tensor_int_at(tensor, count - 1);
  if (diagonals->lower > diagonals->upper)
    return DP_INVALID("lower_diag_index must not be larger than upper_diag_index: %lld > %lld",
                      (long long)diagonals->lower, (long long)diagonals->upper);
  diagonals->count = diagonals->upper - diagonals->lower + 1;
  return NULL;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* The position of diagonal `index` in the matrix and in its packed row. */
typedef struct diagonal {
  int64_t length, packed_offset, row, column;
} diagonal;

static diagonal diagonal_of(const diag_state *state, const diagonals *diagonals, int64_t index) {
  diagonal one;
  one.row = most(0, -index);
  one.column = most(0, index);
  one.length = most(0, least(diagonals->rows - one.row, diagonals->columns - one.column));
  one.length = least(one.length, diagonals->longest);
  bool left = (index >= 0 && state->left_upper) || (index <= 0 && state->left_lower);
  one.packed_offset = left ? 0 : diagonals->longest - one.length;
  return one;
}

/* Copies all diagonals from matrices to packed rows (`packs`), or back. */
static void move_diagonals(dp_op_context *context, const diag_state *state,
                           const diagonals *diagonals, dp_dtype dtype, char *matrices, char *packed,
                           bool packs) {
  int64_t size = (int64_t)dp_dtype_size(dtype), area = diagonals->rows * diagonals->columns;
  for (int64_t d = 0; d < diagonals->count; ++d) {
    diagonal one = diagonal_of(state, diagonals, diagonals->upper - d);
    char *matrix = matrices + (one.row * diagonals->columns + one.column) * size;
    char *row = packed + (d * diagonals->longest + one.packed_offset) * size;
    dp_move move;
    dp_move_init(&move, dtype);
    int64_t step = diagonals->columns + 1, all = diagonals->count * diagonals->longest;
    dp_move_add(&move, diagonals->batch, packs ? area : all, packs ? all : area);
    dp_move_add(&move, one.length, packs ? step : 1, packs ? 1 : step);
    dp_move_run(context, &move, packs ? row : matrix, packs ? matrix : row);
  }
}

static dp_status *check_bounds(const diagonals *diagonals, const char *end) {
  if (!((-diagonals->rows < diagonals->lower && diagonals->lower < diagonals->columns) ||
        diagonals->lower == 0))
    return DP_INVALID("lower_diag_index is out of bound: %lld%s It must be between %lld and %lld",
                      (long long)diagonals->lower, end, (long long)-diagonals->rows,
                      (long long)diagonals->columns);
  if (!((-diagonals->rows < diagonals->upper && diagonals->upper < diagonals->columns) ||
        diagonals->upper == 0))
    return DP_INVALID("upper_diag_index is out of bound: %lld It must be between %lld and %lld",
                      (long long)diagonals->upper, (long long)-diagonals->rows,
                      (long long)diagonals->columns);
  return NULL;
}

static int64_t longest_of(const diagonals *diagonals) {
  return least(diagonals->rows + least(diagonals->upper, 0),
               diagonals->columns - most(diagonals->lower, 0));
}

/* ---- MatrixDiagPart ---- */
static dp_status *part_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_shape *from = &input->shape;
  if (from->rank < 2)
    return DP_INVALID("input must be at least 2-dim, received shape: %s", dp_shape_text(from));
  diagonals diagonals = {.count = 1,
                         .rows = from->dims[from->rank - 2],
                         .columns = from->dims[from->rank - 1],
                         .batch = dp_shape_product(from, 0, from->rank - 2)};
  const void *padding = NULL;
  if (context->input_count > 1) {
    DP_RETURN_IF_ERROR(read_diagonals(dp_op_input(context, 1), &diagonals));
    DP_RETURN_IF_ERROR(check_bounds(&diagonals, "."));
    if (dp_tensor_elements(dp_op_input(context, 2)) != 1)
      return DP_INVALID("padding_value must be a scalar, received shape: %s",
                        dp_shape_text(&dp_op_input(context, 2)->shape));
    padding = dp_op_input(context, 2)->data;
  }
  diagonals.longest = longest_of(&diagonals);
  int64_t dims[DP_MAX_RANK];
  int rank = from->rank - 2;
  memcpy(dims, from->dims, sizeof dims);
  if (diagonals.count > 1)
    dims[rank++] = diagonals.count;
  dims[rank++] = diagonals.longest;
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (diagonals.count > 1)
    dp_move_fill(context, output->dtype, output->data, padding, shape.elements);
  if (shape.elements > 0)
    move_diagonals(context, state, &diagonals, input->dtype, input->data, output->data, true);
  return NULL;
}

/* ---- MatrixDiag ---- */
static dp_status *read_size(dp_op_context *context, int32_t slot, const char *name,
                            int64_t *size_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (dp_tensor_elements(tensor) != 1)
    return DP_INVALID("%s must be a scalar, received shape: %s", name,
                      dp_shape_text(&tensor->shape));
  *size_out = dp_tensor_int_at(tensor, 0);
  return NULL;
}

/* Replaces sizes of -1 by the sizes that the diagonals need. */
static dp_status *fit_matrix(diagonals *diagonals) {
  int64_t rows = diagonals->longest - least(diagonals->upper, 0);
  int64_t columns = diagonals->longest + most(diagonals->lower, 0);
  if (diagonals->rows != -1 && diagonals->rows < rows)
    return DP_INVALID("The number of rows is too small.");
  if (diagonals->columns != -1 && diagonals->columns < columns)
    return DP_INVALID("The number of columns is too small.");
  if (diagonals->rows == -1 && diagonals->columns == -1)
    diagonals->rows = diagonals->columns = most(rows, columns);
  else if (diagonals->rows == -1)
    diagonals->rows = rows;
  else if (diagonals->columns == -1)
    diagonals->columns = columns;
  if (diagonals->rows != rows && diagonals->columns != columns)
    return DP_INVALID("The number of rows or columns is not consistent with the specified d_lower, "
                      "d_upper, and diagonal.");
  return NULL;
}

static dp_status *make_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0);
  const dp_shape *from = &input->shape;
  if (from->rank < 1)
    return DP_INVALID("diagonal must be at least 1-dim, received shape: %s", dp_shape_text(from));
  diagonals diagonals = {.count = 1, .rows = -1, .columns = -1};
  const void *padding = NULL;
  if (context->input_count > 1) {
    DP_RETURN_IF_ERROR(read_diagonals(dp_op_input(context, 1), &diagonals));
    DP_RETURN_IF_ERROR(read_size(context, 2, "num_rows", &diagonals.rows));
    DP_RETURN_IF_ERROR(read_size(context, 3, "num_cols", &diagonals.columns));
    if (dp_tensor_elements(dp_op_input(context, 4)) != 1)
      return DP_INVALID("padding_value must be a scalar, received shape: %s",
                        dp_shape_text(&dp_op_input(context, 4)->shape));
    padding = dp_op_input(context, 4)->data;
  }
  if (diagonals.count > 1 && (from->rank < 2 || from->dims[from->rank - 2] != diagonals.count))
    return DP_INVALID("The number of diagonals provided in the input does not match the "
                      "lower_diag_index and upper_diag_index range.");
  diagonals.longest = from->dims[from->rank - 1];
  DP_RETURN_IF_ERROR(fit_matrix(&diagonals));
  int outer = diagonals.count > 1 ? from->rank - 2 : from->rank - 1;
  int64_t dims[DP_MAX_RANK + 2];
  memcpy(dims, from->dims, sizeof from->dims);
  dims[outer] = diagonals.rows;
  dims[outer + 1] = diagonals.columns;
  dp_shape shape = {0};
  DP_RETURN_IF_ERROR(dp_shape_make(outer + 2, dims, &shape));
  diagonals.batch = dp_shape_product(&shape, 0, outer);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  dp_move_fill(context, output->dtype, output->data, padding, shape.elements);
  if (shape.elements > 0)
    move_diagonals(context, state, &diagonals, input->dtype, output->data, input->data, false);
  return NULL;
}

/* ---- MatrixSetDiag ---- */
static dp_status *check_set(const dp_shape *input, const dp_shape *diagonal,
                            const diagonals *diagonals) {
  int outer = input->rank - 2;
  int64_t dims[DP_MAX_RANK];
  memcpy(dims, input->dims, sizeof dims);
  dims[outer] = diagonals->count;
  dims[outer + (diagonals->count > 1)] = diagonals->longest;
  dp_shape wanted = dp_shape_of(outer + 1 + (diagonals->count > 1), dims);
  if (dp_shape_equal(diagonal, &wanted))
    return NULL;
  return DP_INVALID("Either first dimensions of diagonal don't match input.shape[:-2], or "
                    "diagonal.shape[:-1] is not equal to the longests diagonal in range "
                    "[lower_diag_index:upper_diag_index].\n"
                    "Input shape: %s\nDiagonal shape: %s\nExpected diagonal shape: %s",
                    dp_shape_text(input), dp_shape_text(diagonal), dp_shape_text(&wanted));
}

static dp_status *set_compute(dp_op_context *context, void *state) {
  const dp_tensor *input = dp_op_input(context, 0), *diagonal = dp_op_input(context, 1);
  dp_shape shape = input->shape;
  if (shape.rank < 2)
    return DP_INVALID("input must be at least 2-dim, received shape: %s", dp_shape_text(&shape));
  if (diagonal->shape.rank < 1)
    return DP_INVALID("diagonal must be at least 1-dim, received shape: %s",
                      dp_shape_text(&diagonal->shape));
  diagonals diagonals = {.count = 1,
                         .rows = shape.dims[shape.rank - 2],
                         .columns = shape.dims[shape.rank - 1],
                         .batch = dp_shape_product(&shape, 0, shape.rank - 2)};
  if (context->input_count > 2) {
    DP_RETURN_IF_ERROR(read_diagonals(dp_op_input(context, 2), &diagonals));
    DP_RETURN_IF_ERROR(check_bounds(&diagonals, ""));
  }
  diagonals.longest = longest_of(&diagonals);
  DP_RETURN_IF_ERROR(check_set(&shape, &diagonal->shape, &diagonals));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_move_first_to_output(context, &output));
  if (shape.elements > 0)
    move_diagonals(context, state, &diagonals, output->dtype, output->data, diagonal->data, false);
  return NULL;
}

#define NUMBERS                                                                                    \
  { "T", DP_SET_NUMBERS | DP_SET(BOOL) }
#define DIAGONAL(name, body)                                                                       \
  {                                                                                                \
    .op = name, .types = {NUMBERS}, .state_size = sizeof(diag_state), .create = diag_create,       \
    .compute = body                                                                                \
  }
static const dp_kernel rows[] = {
    {.op = "Diag", .types = {NUMBERS}, .compute = diag_compute},
    {.op = "DiagPart", .types = {NUMBERS}, .compute = diag_part_compute},
    {.op = "MatrixBandPart", .types = {NUMBERS}, .compute = band_compute},
    {.op = "BatchMatrixBandPart", .types = {NUMBERS}, .compute = band_compute},
    DIAGONAL("MatrixDiag", make_compute),
    DIAGONAL("MatrixDiagV2", make_compute),
    DIAGONAL("MatrixDiagV3", make_compute),
    DIAGONAL("BatchMatrixDiag", make_compute),
    DIAGONAL("MatrixDiagPart", part_compute),
    DIAGONAL("MatrixDiagPartV2", part_compute),
    DIAGONAL("MatrixDiagPartV3", part_compute),
    DIAGONAL("BatchMatrixDiagPart", part_compute),
    DIAGONAL("MatrixSetDiag", set_compute),
    DIAGONAL("MatrixSetDiagV2", set_compute),
    DIAGONAL("MatrixSetDiagV3", set_compute),
    DIAGONAL("BatchMatrixSetDiag", set_compute),
};
DP_KERNEL_FAMILY(array_diagonal, rows);
