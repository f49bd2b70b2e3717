/* Einsum of one or two operands: sums of products over named dimensions (labels). "..." stands for
 * leading dimensions that are broadcast. Labels may repeat (diagonals), in inputs and output.
 *
 * An operand is a view with one stride per label: 0 where it is broadcast, the sum of the strides
 * where a label repeats. The sum is then a batch of matrix products (products/gemm.h), which take a
 * view as it is when the rows of each matrix are evenly spaced. Any other operand is first packed
 * to [batch, free, contracted], summing over labels that occur nowhere else. A result that is not
 * such a batch is spread over the output's labels. */
#include "kernels/shared/family.h"

#include <string.h>
#include "kernels/linalg/einsum_internal.h"
#include "kernels/products/gemm.h"
#include "kernels/shared/widen.h"

#define MAX_LABELS (2 * DP_MAX_RANK)

static dp_status *einsum_create(const dp_kernel_setup *setup, void *memory) {
  einsum_state *state = memory;
  dp_view equation;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &state->dtype));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "equation", &equation));
  state->work = dp_kernel_work_type(state->dtype);
  state->input_count = setup->node->input_count;
  return dp_einsum_read(equation, state);
}

/* ---- Labels of one call ---- */
/* Names are characters; dimension d of the ellipses, counted from the right, is the byte 1 + d. */
typedef struct labels {
  int count;
  unsigned char names[MAX_LABELS];
  int64_t sizes[MAX_LABELS];
  int64_t strides[3][MAX_LABELS]; /* of both inputs and the output, in elements */
  bool is_in[3][MAX_LABELS];
  bool mismatches; /* dimensions of the ellipses cannot be broadcast to each other */
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
  bool differs = size != all->sizes[index] && !(is_hidden && size == 1);
  all->mismatches = all->mismatches || (differs && is_hidden);
  if (differs && !is_hidden)
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
  bool is_exact = subscript->ellipsis < 0;
  if (is_exact ? shape->rank != subscript->count : shape->rank < subscript->count)
    return DP_INVALID("Expected input %d to have rank %s%d but got: %d", slot,
                      is_exact ? "" : "at least ", subscript->count, shape->rank);
  for (int axis = 0; axis < shape->rank; ++axis) {
    int64_t stride = dp_shape_product(shape, axis + 1, shape->rank);
    unsigned char name = axis_name(subscript, shape->rank, axis);
    DP_RETURN_IF_ERROR(add_axis(all, slot, name, axis, stride, shape));
  }
  return NULL;
}

static dp_status *add_output(const einsum_state *state, labels *all, dp_shape *shape_out) {
  const subscript *output = &state->output;
  int hidden = 0;
  for (int i = 0; i < all->count; ++i)
    hidden += all->names[i] <= DP_MAX_RANK;
  if (hidden > 0 && output->ellipsis < 0)
    return DP_INVALID("Output contains %d broadcasting dimension(s) but no ellipsis (...) was "
                      "found in the output subscripts.",
                      hidden);
  int rank = output->count + hidden;
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

/* Whether these labels are rows and columns of a matrix; if so, the elements between its rows. */
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
  bool spreads; /* copies from dense to view, instead of view to dense */
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

/* Rows are counted over all kept axes but the last. */
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

/* The labels of one kind, in the order of their first use, which is the same for both operands. */
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

/* ---- Ellipses that do not fit ---- */
/* The order in which TensorFlow's kernel sorts the dimensions of an operand. */
static int order_of(const einsum_state *state, const labels *all, int slot, unsigned char name,
                    bool swaps) {
  static const int orders[] = {
      [KIND_BATCH] = 1, [KIND_FREE] = 2, [KIND_CONTRACTED] = 3, [KIND_SUMMED] = 4};
  if (name <= DP_MAX_RANK)
    return 0;
  label_kind kind = KIND_SUMMED;
  for (int i = 0; i < all->count; ++i)
    if (all->names[i] == name)
      kind = kind_of(state, all, slot, i);
  bool is_swapped = swaps && (kind == KIND_FREE || kind == KIND_CONTRACTED);
  return is_swapped ? 5 - orders[kind] : orders[kind];
}

/* Adds the shape of an operand as TensorFlow multiplies it: the dimensions of the ellipsis and of
 * the batch, then one for all free labels and one for all contracted ones. These two change places
 * when that saves TensorFlow a transposition. */
static void print_operand(const einsum_state *state, const labels *all, int slot,
                          const dp_shape *shape, dp_text *text) {
  bool swaps = true;
  for (int axis = 0, last = 0; axis < shape->rank; ++axis) {
    unsigned char name = axis_name(&state->inputs[slot], shape->rank, axis);
    int order = order_of(state, all, slot, name, true);
    swaps = swaps && order >= last;
    last = order;
  }
  dp_text_add_char(text, '[');
  for (int order = 0; order < 2; ++order)
    for (int axis = 0; axis < shape->rank; ++axis) {
      unsigned char name = axis_name(&state->inputs[slot], shape->rank, axis);
      if (order_of(state, all, slot, name, false) == order)
        dp_text_printf(text, "%lld,", (long long)shape->dims[axis]);
    }
  int64_t own = kind_size(state, all, slot, KIND_FREE);
  int64_t contracted = kind_size(state, all, slot, KIND_CONTRACTED);
  dp_text_printf(text, "%lld,%lld]", (long long)(swaps ? contracted : own),
                 (long long)(swaps ? own : contracted));
}

static dp_status *cannot_broadcast(const einsum_state *state, const labels *all, const dp_shape *a,
                                   const dp_shape *b) {
  dp_text left = {0}, right = {0};
  print_operand(state, all, 0, a, &left);
  print_operand(state, all, 1, b, &right);
  dp_status *status = DP_INVALID("Invalid broadcasting dimensions: %s vs. %s",
                                 dp_text_string(&left), dp_text_string(&right));
  dp_text_deinit(&left);
  dp_text_deinit(&right);
  return status;
}

/* ---- Operands ---- */
/* For every matrix of the batch: where it begins; and its row distance. */
typedef struct matrices {
  char *data;
  axes batch;
  int64_t row; /* elements between rows */
} matrices;

typedef struct operand {
  matrices matrices;
  bool contracted_first; /* rows are contracted labels, else free ones */
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

/* False unless the operand is a batch of matrices without packing. */
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
  DP_RETURN_IF_ERROR(dp_kernel_widen_tensor(context, dp_op_input(context, slot), state->work, &data,
                                            &operand->widened));
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

/* Copies the result, [batch, free of the first, free of the second], to its places in `to`. */
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
  if (all.mismatches)
    return cannot_broadcast(state, &all, &dp_op_input(context, 0)->shape,
                            &dp_op_input(context, 1)->shape);
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
    dp_kernel_narrow_tensor(context, wide->data, output);
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
