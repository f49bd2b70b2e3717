/* Reductions over any set of axes: Sum, Prod, Max, Min, Mean, All, Any, EuclideanNorm.
 *
 * Neighbouring dimensions that are all kept or all reduced are merged, so that a shape becomes
 * alternating groups. A pass removes the innermost reduced group: as rows when it is last, as
 * columns when a kept group follows. The result of a pass is dense and smaller, so nearly all work
 * is in the first pass. A pass is split over the pool by the kept elements. When few are kept, it
 * is split into pieces of the reduced group, and one more pass combines the partial results. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/loops/reduce.h"
#include "kernels/math/reduce_internal.h"
#include "kernels/shared/support.h"

#define MAX_GROUPS (DP_MAX_RANK + 1)
#define PIECE 131072 /* elements per task when few are kept */

typedef enum finish_kind { FINISH_NONE, FINISH_MEAN, FINISH_NORM } finish_kind;

typedef struct reduce_state {
  dp_reduce_fns first, later; /* the first pass; all later passes */
  dp_dtype dtype;             /* of the tensor */
  dp_dtype work;              /* of the loops: float for 16-bit floats */
  finish_kind finish;
  dp_reduce_op op;
  bool keep_dims;
} reduce_state;

typedef struct reduce_name {
  const char *op;
  dp_reduce_op loop;
  finish_kind finish;
} reduce_name;

static const reduce_name names[] = {
    {"Sum", DP_REDUCE_sum, FINISH_NONE},  {"Prod", DP_REDUCE_prod, FINISH_NONE},
    {"Max", DP_REDUCE_max, FINISH_NONE},  {"Min", DP_REDUCE_min, FINISH_NONE},
    {"Mean", DP_REDUCE_sum, FINISH_MEAN}, {"All", DP_REDUCE_min, FINISH_NONE},
    {"Any", DP_REDUCE_max, FINISH_NONE},  {"EuclideanNorm", DP_REDUCE_square_sum, FINISH_NORM},
};

static dp_status *reduce_create(const dp_kernel_setup *setup, void *memory) {
  reduce_state *state = memory;
  state->dtype = dp_dtype_base(setup->node->input_types[0]);
  state->work = dp_kernel_is_short_float(state->dtype) ? DP_FLOAT : state->dtype;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (!dp_node_is(setup->node, names[i].op))
      continue;
    const dp_reduce_loops *loops = dp_reduce_table();
    bool squares = names[i].loop == DP_REDUCE_square_sum;
    state->op = names[i].loop;
    state->finish = names[i].finish;
    state->first = loops->fn[names[i].loop][state->work];
    state->later = squares ? loops->fn[DP_REDUCE_sum][state->work] : state->first;
  }
  if (!state->first.rows)
    return dp_status_create(DP_UNIMPLEMENTED, "%s has no loop for %s", setup->node->op->name,
                            dp_dtype_name(state->dtype));
  return dp_node_get_bool(setup->node, "keep_dims", &state->keep_dims);
}

/* ---- Groups of dimensions ---- */
typedef struct groups {
  int count;
  int64_t sizes[MAX_GROUPS];
  bool reduced[MAX_GROUPS];
} groups;

static void add_group(groups *groups, int64_t size, bool reduced) {
  int last = groups->count - 1;
  if (last >= 0 && groups->reduced[last] == reduced) {
    groups->sizes[last] *= size;
    return;
  }
  groups->sizes[groups->count] = size;
  groups->reduced[groups->count++] = reduced;
}

static dp_shape group_dimensions(const dp_shape *shape, uint32_t axes, bool keep_dims,
                                 groups *groups_out) {
  int64_t dims[DP_MAX_RANK];
  int rank = 0;
  groups_out->count = 0;
  for (int axis = 0; axis < shape->rank; ++axis) {
    bool reduced = axes >> axis & 1;
    if (shape->dims[axis] != 1)
      add_group(groups_out, shape->dims[axis], reduced);
    if (!reduced)
      dims[rank++] = shape->dims[axis];
    else if (keep_dims)
      dims[rank++] = 1;
  }
  return dp_shape_of(rank, dims);
}

/* ---- One pass ---- */
/* [outer, n, inner] to [outer, inner]; rows when inner is 1. */
typedef struct pass {
  const dp_reduce_fns *fns;
  const char *from;
  char *to;
  size_t size; /* bytes per element */
  int64_t outer, n, inner;
  int64_t piece, pieces; /* elements per piece, and number of pieces, when n is split */
} pass;

static void run_outer_rows(void *arg, int64_t begin, int64_t end) {
  const pass *pass = arg;
  pass->fns->rows(pass->from + begin * pass->n * pass->size, pass->to + begin * pass->size,
                  end - begin, pass->n);
}

static void run_outer_columns(void *arg, int64_t begin, int64_t end) {
  const pass *pass = arg;
  for (int64_t i = begin; i < end; ++i)
    pass->fns->columns(pass->from + i * pass->n * pass->inner * pass->size,
                       pass->to + i * pass->inner * pass->size, pass->n, pass->inner, pass->inner);
}

/* Task i reduces piece i % pieces of outer i / pieces. */
static void run_pieces(void *arg, int64_t begin, int64_t end) {
  const pass *pass = arg;
  for (int64_t i = begin; i < end; ++i) {
    int64_t outer = i / pass->pieces, first = i % pass->pieces * pass->piece;
    int64_t count = pass->n - first < pass->piece ? pass->n - first : pass->piece;
    const char *from = pass->from + (outer * pass->n + first) * pass->inner * pass->size;
    char *to = pass->to + i * pass->inner * pass->size;
    if (pass->inner == 1)
      pass->fns->rows(from, to, 1, count);
    else
      pass->fns->columns(from, to, count, pass->inner, pass->inner);
  }
}

static int64_t piece_cost(const pass *pass, int64_t elements) {
  return elements * (int64_t)pass->size / 16 + 10;
}

static dp_status *run_split(dp_op_context *context, pass *work, const dp_reduce_fns *later) {
  char *to = work->to;
  dp_buffer *partial;
  size_t bytes = (size_t)(work->outer * work->pieces * work->inner) * work->size;
  DP_RETURN_IF_ERROR(dp_buffer_create(bytes, &partial));
  work->to = partial->data;
  dp_op_for(context, work->outer * work->pieces, piece_cost(work, work->piece * work->inner),
            run_pieces, work);
  pass join = {later, partial->data, to, work->size, work->outer, work->pieces, work->inner, 0, 0};
  if (join.inner == 1)
    run_outer_rows(&join, 0, join.outer);
  else
    run_outer_columns(&join, 0, join.outer);
  dp_buffer_release(partial);
  return NULL;
}

static dp_status *run_pass(dp_op_context *context, pass *work, const dp_reduce_fns *later) {
  int64_t rest = work->n * work->inner;
  if (work->outer < 8 && rest >= 2 * PIECE && work->n >= 16) {
    work->piece = PIECE / work->inner > 8 ? PIECE / work->inner : 8;
    work->pieces = (work->n + work->piece - 1) / work->piece;
    return run_split(context, work, later);
  }
  dp_op_for(context, work->outer, piece_cost(work, rest),
            work->inner == 1 ? run_outer_rows : run_outer_columns, work);
  return NULL;
}

/* ---- After the last pass: mean and norm ---- */
#define DIVIDE(type)                                                                               \
  static void divide_##type(void *data, int64_t count, int64_t n) {                                \
    type *values = data;                                                                           \
    type by = (type)n;                                                                             \
    for (int64_t i = 0; i < count; ++i)                                                            \
      values[i] = by == 0 ? 0 : (type)(values[i] / by);                                            \
  }
DIVIDE(int8_t)
DIVIDE(int16_t)
DIVIDE(int32_t)
DIVIDE(int64_t)
DIVIDE(uint8_t)
DIVIDE(uint16_t)
DIVIDE(uint32_t)
DIVIDE(uint64_t)
#undef DIVIDE

void dp_reduce_divide(dp_dtype dtype, void *data, int64_t count, int64_t n) {
  static void (*const integers[DP_DTYPE_END])(void *, int64_t, int64_t) = {
      [DP_INT8] = divide_int8_t,     [DP_INT16] = divide_int16_t,   [DP_INT32] = divide_int32_t,
      [DP_INT64] = divide_int64_t,   [DP_UINT8] = divide_uint8_t,   [DP_UINT16] = divide_uint16_t,
      [DP_UINT32] = divide_uint32_t, [DP_UINT64] = divide_uint64_t,
  };
  if (integers[dtype]) {
    integers[dtype](data, count, n);
  } else if (dtype == DP_FLOAT || dtype == DP_COMPLEX64) {
    float *values = data;
    for (int64_t i = 0; i < count * (dtype == DP_FLOAT ? 1 : 2); ++i)
      values[i] /= (float)n;
  } else {
    double *values = data;
    for (int64_t i = 0; i < count * (dtype == DP_DOUBLE ? 1 : 2); ++i)
      values[i] /= (double)n;
  }
}

#define ROOT(name, type)                                                                           \
  static void root_##name(void *data, int64_t count) {                                             \
    type *values = data;                                                                           \
    for (int64_t i = 0; i < count; ++i)                                                            \
      values[i] = (type)sqrt((double)values[i]);                                                   \
  }
ROOT(float, float)
ROOT(double, double)
ROOT(int8, int8_t)
ROOT(int16, int16_t)
ROOT(int32, int32_t)
ROOT(int64, int64_t)
ROOT(uint8, uint8_t)
ROOT(uint16, uint16_t)
ROOT(uint32, uint32_t)
ROOT(uint64, uint64_t)
#undef ROOT

static void root(dp_dtype dtype, void *data, int64_t count) {
  static void (*const fns[DP_DTYPE_END])(void *, int64_t) = {
      [DP_FLOAT] = root_float,
      [DP_DOUBLE] = root_double,
      [DP_INT8] = root_int8,
      [DP_INT16] = root_int16,
      [DP_INT32] = root_int32,
      [DP_INT64] = root_int64,
      [DP_UINT8] = root_uint8,
      [DP_UINT16] = root_uint16,
      [DP_UINT32] = root_uint32,
      [DP_UINT64] = root_uint64,
      /* The sums of squares are real: the imaginary parts are 0 and stay so. */
      [DP_COMPLEX64] = root_float,
      [DP_COMPLEX128] = root_double};
  fns[dtype](data, dp_dtype_is_complex(dtype) ? count * 2 : count);
}

/* The result of a reduction of no elements. */
static void fill_empty(const reduce_state *state, void *data, int64_t count) {
  if (state->dtype == DP_BOOL) {
    memset(data, state->op == DP_REDUCE_min, (size_t)count); /* All gives true, Any false */
    return;
  }
  if (state->finish != FINISH_MEAN) {
    state->first.columns(data, data, 0, count, count);
    return;
  }
  memset(data, 0, (size_t)count * dp_dtype_size(state->work));
  if (state->work == DP_FLOAT || state->work == DP_COMPLEX64)
    for (int64_t i = 0; i < count; ++i)
      ((float *)data)[state->work == DP_FLOAT ? i : 2 * i] = NAN;
  if (state->work == DP_DOUBLE || state->work == DP_COMPLEX128)
    for (int64_t i = 0; i < count; ++i)
      ((double *)data)[state->work == DP_DOUBLE ? i : 2 * i] = NAN;
}

/* ---- Compute ---- */
/* Runs the passes from `data` (dense, of the work dtype) into `to`. */
static dp_status *run_passes(dp_op_context *context, const reduce_state *state, groups *groups,
                             const void *data, void *to) {
  dp_buffer *current = NULL;
  dp_status *status = NULL;
  const dp_reduce_fns *fns = &state->first;
  for (;;) {
    int at = groups->count - 1;
    if (!groups->reduced[at])
      --at;
    pass work = {fns, data, to, dp_dtype_size(state->work), 1, groups->sizes[at], 1, 0, 0};
    for (int i = 0; i < at; ++i)
      work.outer *= groups->sizes[i];
    if (at + 1 < groups->count)
      work.inner = groups->sizes[at + 1];
    bool is_last = at < 2; /* groups alternate, so at most one kept group is before */
    dp_buffer *next = NULL;
    if (!is_last) {
      DP_GOTO_IF_ERROR(status, end,
                       dp_buffer_create((size_t)(work.outer * work.inner) * work.size, &next));
      work.to = next->data;
    }
    status = run_pass(context, &work, &state->later);
    dp_buffer_release(current);
    current = next;
    if (status || is_last)
      goto end;
    data = next->data;
    fns = &state->later;
    groups->count = at;
    if (work.inner > 1)
      add_group(groups, work.inner, false);
  }
end:
  dp_buffer_release(current);
  return status;
}

static dp_status *reduce_into(dp_op_context *context, const reduce_state *state, groups *groups,
                              const dp_tensor *input, const void *data, void *to, int64_t count) {
  if (input->shape.elements == 0) {
    fill_empty(state, to, count);
    if (state->finish == FINISH_NORM)
      root(state->work, to, count);
    return NULL;
  }
  DP_RETURN_IF_ERROR(run_passes(context, state, groups, data, to));
  if (state->finish == FINISH_MEAN)
    dp_reduce_divide(state->work, to, count, input->shape.elements / count);
  else if (state->finish == FINISH_NORM)
    root(state->work, to, count);
  return NULL;
}

/* 16-bit floats: widens the whole input, and rounds the result once. */
static dp_status *reduce_short(dp_op_context *context, const reduce_state *state, groups *groups,
                               const dp_tensor *input, dp_tensor *output) {
  dp_buffer *wide, *result;
  int64_t count = output->shape.elements;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)input->shape.elements * sizeof(float), &wide));
  dp_status *status = dp_buffer_create((size_t)count * sizeof(float), &result);
  if (!status) {
    dp_kernel_widen(state->dtype, input->data, wide->data, input->shape.elements);
    status = reduce_into(context, state, groups, input, wide->data, result->data, count);
    if (!status)
      dp_kernel_narrow(state->dtype, result->data, output->data, count);
    dp_buffer_release(result);
  }
  dp_buffer_release(wide);
  return status;
}

static dp_status *reduce_compute(dp_op_context *context, void *memory) {
  const reduce_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *axes = dp_op_input(context, 1);
  if (axes->shape.rank > 1)
    return DP_INVALID("Expected reduction axes to be a scalar or a vector, got shape %s",
                      dp_shape_text(&axes->shape));
  uint32_t bits;
  DP_RETURN_IF_ERROR(dp_kernel_read_axes(axes, input->shape.rank, &bits));
  groups groups;
  dp_shape shape = group_dimensions(&input->shape, bits, state->keep_dims, &groups);
  bool reduces = groups.count > 1 || (groups.count == 1 && groups.reduced[0]);
  if (!reduces && state->finish != FINISH_NORM) {
    dp_tensor same = dp_tensor_reshaped(input, &shape);
    dp_op_set_output(context, 0, &same);
    return NULL;
  }
  if (!reduces) {
    groups.sizes[groups.count] = 1;
    groups.reduced[groups.count++] = true;
  }
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  if (dp_kernel_is_short_float(state->dtype))
    return reduce_short(context, state, &groups, input, output);
  return reduce_into(context, state, &groups, input, input->data, output->data, shape.elements);
}

#define REDUCE(name, set)                                                                          \
  {                                                                                                \
    .op = #name, .types = {{"T", set}, {"Tidx", DP_SET_INDEX}},                                    \
    .state_size = sizeof(reduce_state), .create = reduce_create, .compute = reduce_compute         \
  }
#define REDUCE_BOOL(name)                                                                          \
  {                                                                                                \
    .op = #name, .types = {{"Tidx", DP_SET_INDEX}}, .state_size = sizeof(reduce_state),            \
    .create = reduce_create, .compute = reduce_compute                                             \
  }

static const dp_kernel rows[] = {
    REDUCE(Sum, DP_SET_NUMBERS),
    REDUCE(Prod, DP_SET_NUMBERS),
    REDUCE(Max, DP_SET_REALS),
    REDUCE(Min, DP_SET_REALS),
    REDUCE(Mean, DP_SET_NUMBERS),
    REDUCE(EuclideanNorm, DP_SET_NUMBERS),
    REDUCE_BOOL(All),
    REDUCE_BOOL(Any),
};
DP_KERNEL_FAMILY(reduce, rows);
