/* Einsum of one or two operands: sums of products over named dimensions, with "..." for leading
 * dimensions that are broadcast, repeated labels (diagonals) on either side included.
 *
 * Operands are views: a stride for each label, 0 where one is broadcast, the sum of several where a
 * label is repeated. Then it is a batch of products of matrices (gemm_internal.h), which take views
 * as they are where the rows of every matrix are evenly apart. An operand of another kind is packed
 * to [batch, free, contracted] first, summing over labels that nobody else has; a result of another
 * kind is spread over the output's labels. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/products/gemm.h"
#include "kernels/matmul_internal.h"

#define MAX_LABELS (2 * DP_MAX_RANK)
#define ELLIPSIS '.'

typedef struct subscript {
  int count, ellipsis; /* labels; position of the ellipsis among them, -1 without */
  char labels[DP_MAX_RANK + 1];
} subscript;

typedef struct einsum_state {
  dp_dtype dtype, work;
  int input_count;
  subscript inputs[2], output;
} einsum_state;

/* ---- The equation ---- */
static dp_status *read_subscript(dp_view text, subscript *subscript_out) {
  subscript found = {.ellipsis = -1};
  for (size_t i = 0; i < text.length; ++i) {
    char c = text.data[i];
    if (c == ' ')
      continue;
    if (c == '.') {
      if (found.ellipsis >= 0 || i + 2 >= text.length || text.data[i + 1] != '.' ||
          text.data[i + 2] != '.')
        return DP_INVALID("Invalid ellipsis in the subscript %.*s", (int)text.length, text.data);
      found.ellipsis = found.count;
      i += 2;
      continue;
    }
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
      return DP_INVALID("Subscripts must be letters, got %c in %.*s", c, (int)text.length,
                        text.data);
    if (found.count == DP_MAX_RANK)
      return DP_INVALID("The subscript %.*s has too many labels", (int)text.length, text.data);
    found.labels[found.count++] = c;
  }
  *subscript_out = found;
  return NULL;
}

static dp_status *check_output(const einsum_state *state) {
  const subscript *output = &state->output;
  bool has_ellipsis = false;
  for (int i = 0; i < state->input_count; ++i)
    has_ellipsis = has_ellipsis || state->inputs[i].ellipsis >= 0;
  if (output->ellipsis >= 0 && !has_ellipsis)
    return DP_INVALID("An ellipsis in the output needs one in an input");
  for (int k = 0; k < output->count; ++k) {
    bool is_known = false;
    for (int i = 0; i < state->input_count; ++i)
      is_known = is_known ||
                 memchr(state->inputs[i].labels, output->labels[k], (size_t)state->inputs[i].count);
    if (!is_known)
      return DP_INVALID("The output label %c is in no input", output->labels[k]);
  }
  return NULL;
}

static dp_status *einsum_create(const dp_kernel_setup *setup, void *memory) {
  einsum_state *state = memory;
  dp_view equation;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "equation", &equation));
  state->work = dp_gemm_work_type(state->dtype);
  state->input_count = setup->node->input_count;
  const char *end = equation.data + equation.length, *arrow = NULL;
  for (const char *p = equation.data; p + 1 < end && !arrow; ++p)
    if (p[0] == '-' && p[1] == '>')
      arrow = p;
  if (!arrow)
    return DP_INVALID("Expecting exactly one '->' in einsum equation: %.*s", (int)equation.length,
                      equation.data);
  const char *comma = memchr(equation.data, ',', (size_t)(arrow - equation.data));
  bool has_two = comma != NULL;
  if (state->input_count > 2 || state->input_count != (has_two ? 2 : 1))
    return DP_INVALID("Expected %d inputs for equation %.*s but got: %d", has_two ? 2 : 1,
                      (int)equation.length, equation.data, state->input_count);
  const char *first_end = has_two ? comma : arrow;
  DP_RETURN_IF_ERROR(read_subscript((dp_view){equation.data, (size_t)(first_end - equation.data)},
                                    &state->inputs[0]));
  if (has_two)
    DP_RETURN_IF_ERROR(
        read_subscript((dp_view){comma + 1, (size_t)(arrow - comma - 1)}, &state->inputs[1]));
  DP_RETURN_IF_ERROR(
      read_subscript((dp_view){arrow + 2, (size_t)(end - arrow - 2)}, &state->output));
  return check_output(state);
}

/* ---- Labels of one call ---- */
/* Names are letters; dimension d of the ellipses, counted from the right, is the byte 1 + d. */
typedef struct labels {
  int count;
  unsigned char names[MAX_LABELS];
  int64_t sizes[MAX_LABELS];
  int64_t strides[3][MAX_LABELS]; /* of the two inputs and the output, in elements */
  bool is_in[3][MAX_LABELS];
} labels;

static int find_label(labels *all, unsigned char name) {
  for (int i = 0; i < all->count; ++i)
    if (all->names[i] == name)
      return i;
  return -1;
}

/* The name of axis `axis` of a tensor of this rank. */
static unsigned char axis_name(const subscript *subscript, int rank, int axis) {
  int hidden = rank - subscript->count;
  if (subscript->ellipsis < 0 || axis < subscript->ellipsis)
    return (unsigned char)subscript->labels[axis];
  if (axis < subscript->ellipsis + hidden)
    return (unsigned char)(1 + (subscript->ellipsis + hidden - 1 - axis));
  return (unsigned char)subscript->labels[axis - hidden];
}

static dp_status *add_axis(labels *all, int operand, unsigned char name, int axis, int64_t stride,
                           const dp_shape *shape) {
  int64_t size = shape->dims[axis];
  int index = find_label(all, name);
  bool is_hidden = name <= DP_MAX_RANK;
  if (index < 0) {
    if (all->count == MAX_LABELS)
      return DP_INVALID("Einsum has too many dimensions");
    index = all->count++;
    all->names[index] = name;
    all->sizes[index] = size;
  }
  if (is_hidden && all->sizes[index] == 1)
    all->sizes[index] = size;
  if (size != all->sizes[index] && !(is_hidden && size == 1))
    return DP_INVALID("Expected dimension %lld at axis %d of the input shaped %s but got "
                      "dimension %lld",
                      (long long)all->sizes[index], axis, dp_shape_text(shape), (long long)size);
  all->is_in[operand][index] = true;
  all->strides[operand][index] += size == 1 ? 0 : stride;
  return NULL;
}

static dp_status *add_input(const einsum_state *state, int slot, const dp_shape *shape,
                            labels *all) {
  const subscript *subscript = &state->inputs[slot];
  if (subscript->ellipsis < 0 ? shape->rank != subscript->count : shape->rank < subscript->count)
    return DP_INVALID("Expected input %d to have rank %d but got: %d", slot, subscript->count,
                      shape->rank);
  int64_t stride = 1;
  for (int axis = shape->rank - 1; axis >= 0; --axis) {
    DP_RETURN_IF_ERROR(
        add_axis(all, slot, axis_name(subscript, shape->rank, axis), axis, stride, shape));
    stride *= shape->dims[axis];
  }
  return NULL;
}

static dp_status *add_output(const einsum_state *state, labels *all, dp_shape *shape_out) {
  const subscript *output = &state->output;
  int hidden = 0;
  for (int i = 0; i < all->count; ++i)
    hidden += all->names[i] <= DP_MAX_RANK;
  int rank = output->count + (output->ellipsis >= 0 ? hidden : 0);
  if (rank > DP_MAX_RANK)
    return DP_INVALID("Einsum's result has too many dimensions");
  int64_t dims[DP_MAX_RANK] = {0};
  int index[DP_MAX_RANK] = {0};
  for (int axis = 0; axis < rank; ++axis) {
    index[axis] = find_label(all, axis_name(output, rank, axis));
    dims[axis] = all->sizes[index[axis]];
  }
  DP_RETURN_IF_ERROR(dp_shape_make(rank, dims, shape_out));
  int64_t stride = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    all->is_in[2][index[axis]] = true;
    all->strides[2][index[axis]] += stride;
    stride *= dims[axis];
  }
  return NULL;
}

/* ---- Views ---- */
/* A list of labels, and the walk over them. */
typedef struct axes {
  int count;
  int64_t sizes[MAX_LABELS], strides[MAX_LABELS];
} axes;

static int64_t axes_size(const axes *axes) {
  int64_t size = 1;
  for (int i = 0; i < axes->count; ++i)
    size *= axes->sizes[i];
  return size;
}

static void axes_add(axes *axes, int64_t size, int64_t stride) {
  if (size == 1)
    return;
  int last = axes->count - 1;
  if (last >= 0 && axes->strides[last] == stride * size) {
    axes->sizes[last] *= size;
    axes->strides[last] = stride;
    return;
  }
  axes->sizes[axes->count] = size;
  axes->strides[axes->count++] = stride;
}

/* Whether these are rows and columns of a matrix, and then the elements between its rows. */
static bool axes_are_matrix(const axes *rows, const axes *columns, int64_t *row_out) {
  int64_t width = axes_size(columns), row = rows->count > 0 ? rows->strides[0] : width;
  if (rows->count > 1 || columns->count > 1 || row < width ||
      (columns->count == 1 && columns->strides[0] != 1))
    return false;
  *row_out = row;
  return true;
}

static void add_element(dp_dtype dtype, char *to, const char *from) {
  switch (dtype) {
  case DP_FLOAT:
    *(float *)to += *(const float *)from;
    return;
  case DP_DOUBLE:
    *(double *)to += *(const double *)from;
    return;
  case DP_INT32:
    *(uint32_t *)to += *(const uint32_t *)from;
    return;
  case DP_INT64:
    *(uint64_t *)to += *(const uint64_t *)from;
    return;
  case DP_COMPLEX64:
    ((float *)to)[0] += ((const float *)from)[0];
    ((float *)to)[1] += ((const float *)from)[1];
    return;
  default:
    ((double *)to)[0] += ((const double *)from)[0];
    ((double *)to)[1] += ((const double *)from)[1];
    return;
  }
}

typedef struct view_work {
  dp_dtype dtype;
  size_t size;
  const axes *kept, *summed;
  const char *view; /* strided */
  char *dense;
  bool spreads; /* dense to view instead of view to dense */
} view_work;

static int64_t offset_of(const axes *axes, int64_t index) {
  int64_t offset = 0;
  for (int i = axes->count - 1; i >= 0; --i) {
    offset += index % axes->sizes[i] * axes->strides[i];
    index /= axes->sizes[i];
  }
  return offset;
}

/* A run along the last axis. */
static void copy_run(const view_work *work, char *dense, char *view, int64_t count,
                     int64_t stride) {
  size_t size = work->size;
  if (stride == 1) {
    memcpy(work->spreads ? view : dense, work->spreads ? dense : view, (size_t)count * size);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    char *at = view + i * stride * (int64_t)size, *item = dense + (size_t)i * size;
    if (size == 4)
      *(uint32_t *)(work->spreads ? at : item) = *(const uint32_t *)(work->spreads ? item : at);
    else
      memcpy(work->spreads ? at : item, work->spreads ? item : at, size);
  }
}

static void sum_view(const view_work *work, const char *view, char *to) {
  int64_t count = axes_size(work->summed);
  memset(to, 0, work->size);
  for (int64_t i = 0; i < count; ++i)
    add_element(work->dtype, to, view + offset_of(work->summed, i) * (int64_t)work->size);
}

/* Rows: all but the last kept axis. */
static void walk_rows(void *arg, int64_t begin, int64_t end) {
  const view_work *work = arg;
  axes outer = *work->kept;
  int64_t inner = outer.count > 0 ? outer.sizes[outer.count - 1] : 1;
  int64_t stride = outer.count > 0 ? outer.strides[outer.count - 1] : 1;
  outer.count -= outer.count > 0;
  for (int64_t row = begin; row < end; ++row) {
    char *view = (char *)work->view + offset_of(&outer, row) * (int64_t)work->size;
    char *dense = work->dense + (size_t)(row * inner) * work->size;
    if (work->summed->count == 0) {
      copy_run(work, dense, view, inner, stride);
      continue;
    }
    for (int64_t i = 0; i < inner; ++i)
      sum_view(work, view + i * stride * (int64_t)work->size, dense + (size_t)i * work->size);
  }
}

static void walk(dp_op_context *context, view_work *work) {
  int64_t count = axes_size(work->kept), summed = axes_size(work->summed);
  int64_t inner = work->kept->count > 0 ? work->kept->sizes[work->kept->count - 1] : 1;
  if (count > 0)
    dp_op_for(context, count / inner, inner * summed * (work->summed->count > 0 ? 10 : 1) + 20,
              walk_rows, work);
}

/* ---- Kinds of labels ---- */
typedef enum label_kind { KIND_BATCH, KIND_FREE, KIND_CONTRACTED, KIND_SUMMED } label_kind;

static label_kind kind_of(const einsum_state *state, const labels *all, int operand, int label) {
  bool is_shared = state->input_count == 2 && all->is_in[1 - operand][label];
  bool is_out = all->is_in[2][label];
  if (is_shared)
    return is_out ? KIND_BATCH : KIND_CONTRACTED;
  return is_out ? KIND_FREE : KIND_SUMMED;
}

/* The labels of one kind, in the order of their first use: the same for both operands. */
static void collect(const einsum_state *state, const labels *all, int operand, label_kind kind,
                    int strides_of, axes *axes) {
  for (int i = 0; i < all->count; ++i)
    if (all->is_in[operand][i] && kind_of(state, all, operand, i) == kind)
      axes_add(axes, all->sizes[i], all->strides[strides_of][i]);
}

static axes axes_of(const einsum_state *state, const labels *all, int operand, label_kind kind,
                    int strides_of) {
  axes axes = {0};
  collect(state, all, operand, kind, strides_of, &axes);
  return axes;
}

static int64_t kind_size(const einsum_state *state, const labels *all, int operand,
                         label_kind kind) {
  int64_t size = 1;
  for (int i = 0; i < all->count; ++i)
    if (all->is_in[operand][i] && kind_of(state, all, operand, i) == kind)
      size *= all->sizes[i];
  return size;
}

/* ---- Operands ---- */
/* Of every matrix the place, by the index of the batch, and the rows. */
typedef struct matrices {
  char *data;
  axes batch;
  int64_t row; /* elements between rows */
} matrices;

typedef struct operand {
  matrices matrices;
  bool contracted_first; /* rows are contracted labels, instead of free ones */
  dp_buffer *widened, *packed;
} operand;

static void operand_deinit(operand *operand) {
  dp_buffer_release(operand->widened);
  dp_buffer_release(operand->packed);
}

static matrices dense_matrices(void *data, int64_t batch, int64_t rows, int64_t columns) {
  matrices dense = {.data = data, .row = columns};
  axes_add(&dense.batch, batch, rows * columns);
  return dense;
}

/* False unless the operand is a batch of matrices as it is. */
static bool find_matrices(operand *operand, const einsum_state *state, const labels *all,
                          int slot) {
  axes own = axes_of(state, all, slot, KIND_FREE, slot);
  axes contracted = axes_of(state, all, slot, KIND_CONTRACTED, slot);
  axes summed = axes_of(state, all, slot, KIND_SUMMED, slot);
  int64_t *row = &operand->matrices.row;
  operand->contracted_first = !axes_are_matrix(&own, &contracted, row);
  if (summed.count > 0 || (operand->contracted_first && !axes_are_matrix(&contracted, &own, row)))
    return false;
  operand->matrices.batch = axes_of(state, all, slot, KIND_BATCH, slot);
  return true;
}

static dp_status *pack_operand(operand *operand, dp_op_context *context, const einsum_state *state,
                               const labels *all, int slot) {
  axes kept = axes_of(state, all, slot, KIND_BATCH, slot);
  int64_t batch = axes_size(&kept);
  collect(state, all, slot, KIND_FREE, slot, &kept);
  collect(state, all, slot, KIND_CONTRACTED, slot, &kept);
  axes summed = axes_of(state, all, slot, KIND_SUMMED, slot);
  view_work work = {.dtype = state->work,
                    .size = dp_dtype_size(state->work),
                    .kept = &kept,
                    .summed = &summed,
                    .view = operand->matrices.data};
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)axes_size(&kept) * work.size, &operand->packed));
  work.dense = operand->packed->data;
  walk(context, &work);
  operand->contracted_first = false;
  operand->matrices = dense_matrices(work.dense, batch, kind_size(state, all, slot, KIND_FREE),
                                     kind_size(state, all, slot, KIND_CONTRACTED));
  return NULL;
}

static dp_status *operand_init(operand *operand, dp_op_context *context, const einsum_state *state,
                               const labels *all, int slot, bool is_packed) {
  const void *data;
  DP_RETURN_IF_ERROR(
      dp_gemm_widen(context, dp_op_input(context, slot), state->work, &data, &operand->widened));
  operand->matrices.data = (char *)data;
  if (!is_packed && find_matrices(operand, state, all, slot))
    return NULL;
  return pack_operand(operand, context, state, all, slot);
}

/* ---- Products ---- */
typedef struct product {
  dp_gemm gemm;
  const matrices *a, *b, *c;
} product;

static char *matrix_at(const matrices *matrices, int64_t index, dp_dtype dtype) {
  return matrices->data + offset_of(&matrices->batch, index) * (int64_t)dp_dtype_size(dtype);
}

static dp_gemm gemm_at(const product *work, int64_t index) {
  dp_gemm gemm = work->gemm;
  gemm.a = matrix_at(work->a, index, gemm.dtype);
  gemm.b = matrix_at(work->b, index, gemm.dtype);
  gemm.c = matrix_at(work->c, index, gemm.dtype);
  return gemm;
}

static void run_products(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    dp_gemm gemm = gemm_at(arg, i);
    dp_gemm_run(&gemm);
  }
}

static void multiply(dp_op_context *context, const einsum_state *state, const labels *all,
                     const operand *operands, const matrices *result) {
  int64_t batch = kind_size(state, all, 0, KIND_BATCH);
  product work = {.gemm = {.dtype = state->work,
                           .m = kind_size(state, all, 0, KIND_FREE),
                           .n = kind_size(state, all, 1, KIND_FREE),
                           .k = kind_size(state, all, 0, KIND_CONTRACTED),
                           .a_stride = operands[0].matrices.row,
                           .b_stride = operands[1].matrices.row,
                           .c_stride = result->row,
                           .transpose_a = operands[0].contracted_first,
                           .transpose_b = !operands[1].contracted_first},
                  .a = &operands[0].matrices,
                  .b = &operands[1].matrices,
                  .c = result};
  if (batch >= 8) {
    dp_op_for(context, batch, dp_gemm_cost(&work.gemm), run_products, &work);
    return;
  }
  for (int64_t i = 0; i < batch; ++i) {
    dp_gemm gemm = gemm_at(&work, i);
    dp_gemm_run_split(context, &gemm);
  }
}

/* The result, [batch, free of the first, free of the second], to its places in `to`. */
static void spread(dp_op_context *context, const einsum_state *state, const axes *places,
                   const void *result, void *to, int64_t elements) {
  axes none = {0};
  view_work work = {.dtype = state->work,
                    .size = dp_dtype_size(state->work),
                    .kept = places,
                    .summed = &none,
                    .view = to,
                    .dense = (char *)result,
                    .spreads = true};
  if (axes_size(places) != elements)
    memset(to, 0, (size_t)elements * work.size);
  walk(context, &work);
}

static dp_status *run_two(dp_op_context *context, const einsum_state *state, const labels *all,
                          const operand *operands, const axes *places, void *to, int64_t elements,
                          dp_buffer **scratch) {
  axes rows = axes_of(state, all, 0, KIND_FREE, 2), columns = axes_of(state, all, 1, KIND_FREE, 2);
  matrices result = {.data = to};
  bool is_direct = axes_size(places) == elements && axes_are_matrix(&rows, &columns, &result.row);
  if (is_direct) {
    result.batch = axes_of(state, all, 0, KIND_BATCH, 2);
  } else {
    size_t bytes = (size_t)axes_size(places) * dp_dtype_size(state->work);
    DP_RETURN_IF_ERROR(dp_buffer_create(bytes, scratch));
    result = dense_matrices((*scratch)->data, kind_size(state, all, 0, KIND_BATCH),
                            axes_size(&rows), axes_size(&columns));
  }
  multiply(context, state, all, operands, &result);
  if (!is_direct)
    spread(context, state, places, result.data, to, elements);
  return NULL;
}

static dp_status *run(dp_op_context *context, const einsum_state *state, const labels *all,
                      operand *operands, void *to, int64_t elements, dp_buffer **scratch) {
  bool is_alone = state->input_count == 1;
  for (int i = 0; i < state->input_count; ++i)
    DP_RETURN_IF_ERROR(operand_init(&operands[i], context, state, all, i, is_alone));
  axes places = axes_of(state, all, 0, KIND_BATCH, 2);
  collect(state, all, 0, KIND_FREE, 2, &places);
  if (is_alone) {
    spread(context, state, &places, operands[0].matrices.data, to, elements);
    return NULL;
  }
  collect(state, all, 1, KIND_FREE, 2, &places);
  return run_two(context, state, all, operands, &places, to, elements, scratch);
}

static dp_status *einsum_compute(dp_op_context *context, void *memory) {
  const einsum_state *state = memory;
  labels all = {0};
  dp_shape shape;
  for (int i = 0; i < state->input_count; ++i)
    DP_RETURN_IF_ERROR(add_input(state, i, &dp_op_input(context, i)->shape, &all));
  DP_RETURN_IF_ERROR(add_output(state, &all, &shape));
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  operand operands[2] = {{.packed = NULL}};
  dp_buffer *scratch = NULL, *wide = NULL;
  void *to = output->data;
  dp_status *status = NULL;
  bool narrows = state->work != state->dtype;
  if (narrows) {
    DP_RETURN_IF_ERROR(dp_buffer_create((size_t)shape.elements * sizeof(float), &wide));
    to = wide->data;
  }
  status = run(context, state, &all, operands, to, shape.elements, &scratch);
  if (!status && narrows)
    dp_gemm_narrow(context, wide->data, output);
  operand_deinit(&operands[0]);
  operand_deinit(&operands[1]);
  dp_buffer_release(scratch);
  dp_buffer_release(wide);
  return status;
}

#define SET_EINSUM (DP_SET_FLOATS | DP_SET_COMPLEX | DP_SET(INT32) | DP_SET(INT64))
static const dp_kernel rows[] = {
    {.op = "Einsum",
     .types = {{"T", SET_EINSUM}},
     .state_size = sizeof(einsum_state),
     .create = einsum_create,
     .compute = einsum_compute},
};
DP_KERNEL_FAMILY(einsum, rows);
