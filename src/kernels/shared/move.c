/* The engine that rearranges memory; move.h says what a move is.
 *
 * First the move is simplified: dimensions that are adjacent on both sides are joined, and a run of
 * 2, 4, 8 or 16 bytes becomes one larger element. What is left has one of three forms: long runs
 * (memcpy); a transpose, where source and target are contiguous along different dimensions (square
 * tiles); or strides in the two innermost dimensions. The outer dimensions are the items of work
 * that threads share. */
#include "kernels/shared/move.h"

#include <stdlib.h>
#include "kernels/loops/move.h"

#define RUN_CHUNK ((int64_t)256 << 10) /* bytes of a long run that make one item of work */
#define TILE_ROWS 64                   /* rows of the target that a transpose takes at a time */
#define TILE_COLUMNS 64
#define SPAN_ELEMENTS 16384 /* elements per item of work of two nested strided loops */

/* A move in progress. Dimensions [0, rank) are the items of work; the inner dimensions depend on
 * the form. Strides are in bytes. */
typedef struct plan {
  char *to;
  const char *from;
  dp_dtype dtype;
  size_t size; /* bytes per element; a power of two up to 16 for plain dtypes */
  int size_log;
  int32_t rank;
  const int64_t *dims;
  int64_t from_strides[DP_MOVE_MAX_RANK], to_strides[DP_MOVE_MAX_RANK];
  /* long runs */
  int64_t run_bytes, chunks;
  /* transposes: rows run along the source, columns along the target */
  int64_t rows, columns, row_blocks;
  int64_t from_column, to_row; /* in elements */
  /* strides */
  dp_move_span span;
  int64_t span_rows, span_chunks; /* rows of the second loop per item of work; items */
  dp_move_strided_fn strided;
  dp_move_transpose_fn transpose;
} plan;

/* ---- Making a move small ---- */
static void join_dimensions(dp_move *move) {
  int32_t kept = 0;
  for (int32_t i = 1; i < move->rank; ++i) {
    if (move->from[kept] == move->from[i] * move->dims[i] &&
        move->to[kept] == move->to[i] * move->dims[i]) {
      move->dims[kept] *= move->dims[i];
    } else {
      ++kept;
      move->dims[kept] = move->dims[i];
    }
    move->from[kept] = move->from[i];
    move->to[kept] = move->to[i];
  }
  move->rank = move->rank ? kept + 1 : 0;
}

/* The target's smallest stride goes innermost: writes are in order. */
static void sort_dimensions(dp_move *move) {
  for (int32_t i = 1; i < move->rank; ++i)
    for (int32_t j = i; j > 0 && llabs(move->to[j]) > llabs(move->to[j - 1]); --j) {
      int64_t dim = move->dims[j], from = move->from[j], to = move->to[j];
      move->dims[j] = move->dims[j - 1], move->from[j] = move->from[j - 1];
      move->to[j] = move->to[j - 1];
      move->dims[j - 1] = dim, move->from[j - 1] = from, move->to[j - 1] = to;
    }
}

static bool is_run(const dp_move *move) {
  return move->rank > 0 && move->from[move->rank - 1] == 1 && move->to[move->rank - 1] == 1;
}

/* Makes a short innermost run of plain elements one larger element; returns the new size. */
static size_t widen_elements(dp_move *move, size_t size) {
  if (!is_run(move))
    return size;
  int32_t last = move->rank - 1;
  int64_t count = move->dims[last];
  if (count > 16 || size * (size_t)count > 16 || (count & (count - 1)) != 0)
    return size;
  for (int32_t i = 0; i < last; ++i)
    if (move->from[i] % count != 0 || move->to[i] % count != 0)
      return size;
  for (int32_t i = 0; i < last; ++i) {
    move->from[i] /= count;
    move->to[i] /= count;
  }
  move->rank = last;
  return size * (size_t)count;
}

/* ---- Items of work ---- */
/* The offsets of one item of work, in bytes; cursor_next moves to the next item. */
typedef struct cursor {
  int64_t index[DP_MOVE_MAX_RANK];
  int64_t from, to;
} cursor;

static void cursor_seek(cursor *at, const plan *plan, int64_t item) {
  at->from = at->to = 0;
  for (int32_t i = plan->rank - 1; i >= 0; --i) {
    at->index[i] = item % plan->dims[i];
    item /= plan->dims[i];
    at->from += at->index[i] * plan->from_strides[i];
    at->to += at->index[i] * plan->to_strides[i];
  }
}

static inline void cursor_next(cursor *at, const plan *plan) {
  for (int32_t i = plan->rank - 1; i >= 0; --i) {
    at->from += plan->from_strides[i];
    at->to += plan->to_strides[i];
    if (++at->index[i] < plan->dims[i])
      return;
    at->from -= plan->from_strides[i] * plan->dims[i];
    at->to -= plan->to_strides[i] * plan->dims[i];
    at->index[i] = 0;
  }
}

static int64_t outer_items(const plan *plan) {
  int64_t items = 1;
  for (int32_t i = 0; i < plan->rank; ++i)
    items *= plan->dims[i];
  return items;
}

/* ---- Long runs ---- */
static void copy_runs(void *arg, int64_t begin, int64_t end) {
  const plan *plan = arg;
  cursor at;
  if (plan->chunks == 1) {
    cursor_seek(&at, plan, begin);
    for (int64_t item = begin; item < end; ++item, cursor_next(&at, plan))
      memcpy(plan->to + at.to, plan->from + at.from, (size_t)plan->run_bytes);
    return;
  }
  for (int64_t item = begin; item < end; ++item) {
    cursor_seek(&at, plan, item / plan->chunks);
    int64_t start = item % plan->chunks * RUN_CHUNK;
    int64_t left = plan->run_bytes - start;
    memcpy(plan->to + at.to + start, plan->from + at.from + start,
           (size_t)(left < RUN_CHUNK ? left : RUN_CHUNK));
  }
}

static void run_copies(dp_op_context *context, plan *plan, int64_t bytes) {
  plan->run_bytes = bytes;
  plan->chunks = (bytes + RUN_CHUNK - 1) / RUN_CHUNK;
  int64_t piece = plan->chunks > 1 ? RUN_CHUNK : bytes;
  dp_op_for(context, outer_items(plan) * plan->chunks, piece / 10 + 5, copy_runs, plan);
}

/* ---- Transposes ---- */
static void copy_squares(void *arg, int64_t begin, int64_t end) {
  const plan *plan = arg;
  cursor at;
  for (int64_t item = begin; item < end; ++item) {
    cursor_seek(&at, plan, item / plan->row_blocks);
    int64_t row = item % plan->row_blocks * TILE_ROWS;
    int64_t rows = plan->rows - row < TILE_ROWS ? plan->rows - row : TILE_ROWS;
    int64_t size = (int64_t)plan->size;
    char *to = plan->to + at.to + row * plan->to_row * size;
    const char *from = plan->from + at.from + row * size;
    for (int64_t column = 0; column < plan->columns; column += TILE_COLUMNS) {
      int64_t left = plan->columns - column;
      plan->transpose(to + column * size, plan->to_row, from + column * plan->from_column * size,
                      plan->from_column, rows, left < TILE_COLUMNS ? left : TILE_COLUMNS);
    }
  }
}

static void run_squares(dp_op_context *context, plan *plan) {
  plan->row_blocks = (plan->rows + TILE_ROWS - 1) / TILE_ROWS;
  int64_t rows = plan->rows < TILE_ROWS ? plan->rows : TILE_ROWS;
  dp_op_for(context, outer_items(plan) * plan->row_blocks, rows * plan->columns / 2 + 10,
            copy_squares, plan);
}

/* ---- Strides ---- */
static void copy_strided(void *arg, int64_t begin, int64_t end) {
  const plan *plan = arg;
  int64_t size = (int64_t)plan->size;
  dp_move_span span = plan->span;
  cursor at;
  cursor_seek(&at, plan, begin / plan->span_chunks);
  for (int64_t item = begin; item < end; ++item) {
    int64_t chunk = item % plan->span_chunks;
    if (chunk == 0 && item != begin)
      cursor_next(&at, plan);
    int64_t row = chunk * plan->span_rows, left = plan->span.outer - row;
    span.outer = left < plan->span_rows ? left : plan->span_rows;
    plan->strided(plan->to + at.to + row * span.to_outer * size,
                  plan->from + at.from + row * span.from_outer * size, &span);
  }
}

/* For a move of one dimension: items of work are elements. */
static void copy_line(void *arg, int64_t begin, int64_t end) {
  const plan *plan = arg;
  dp_move_span span = plan->span;
  span.inner = end - begin;
  plan->strided(plan->to + begin * span.to_inner * (int64_t)plan->size,
                plan->from + begin * span.from_inner * (int64_t)plan->size, &span);
}

static void run_strides(dp_op_context *context, plan *plan, const dp_move *move) {
  int32_t last = move->rank - 1;
  plan->span = (dp_move_span){.outer = 1,
                              .inner = move->dims[last],
                              .to_inner = move->to[last],
                              .from_inner = move->from[last]};
  if (move->rank == 1) {
    dp_kernel_for(context, move->dims[0], 500, copy_line, plan);
    return;
  }
  /* The second dimension goes inside as well, in chunks that are worth a call. */
  plan->span.outer = move->dims[last - 1];
  plan->span.to_outer = move->to[last - 1];
  plan->span.from_outer = move->from[last - 1];
  --plan->rank;
  int64_t rows = SPAN_ELEMENTS / plan->span.inner;
  plan->span_rows = rows < 1 ? 1 : rows < plan->span.outer ? rows : plan->span.outer;
  plan->span_chunks = (plan->span.outer + plan->span_rows - 1) / plan->span_rows;
  dp_op_for(context, outer_items(plan) * plan->span_chunks,
            plan->span_rows * plan->span.inner / 2 + 5, copy_strided, plan);
}

/* ---- Elements that own something ---- */
static void copy_objects(void *arg, int64_t begin, int64_t end) {
  const plan *plan = arg;
  cursor at;
  cursor_seek(&at, plan, begin);
  for (int64_t item = begin; item < end; ++item, cursor_next(&at, plan))
    dp_tensor_copy_elements(plan->dtype, plan->to + at.to, plan->from + at.from, plan->columns);
}

static void run_objects(dp_op_context *context, plan *plan, const dp_move *move) {
  plan->columns = 1;
  if (is_run(move))
    plan->columns = move->dims[--plan->rank];
  dp_op_for(context, outer_items(plan), plan->columns * 20, copy_objects, plan);
}

/* The dimension, besides the innermost, along which the source is contiguous; -1 if none. */
static int32_t find_transposed(const dp_move *move) {
  int32_t last = move->rank - 1;
  if (last < 1 || move->to[last] != 1 || move->from[last] == 0 || move->dims[last] < 4)
    return -1;
  for (int32_t i = 0; i < last; ++i)
    if (move->from[i] == 1 && move->dims[i] >= 4)
      return i;
  return -1;
}

/* Takes dimension `index` out of the move; what is left keeps its order. */
static void drop_dimension(dp_move *move, int32_t index) {
  for (int32_t i = index; i + 1 < move->rank; ++i) {
    move->dims[i] = move->dims[i + 1];
    move->from[i] = move->from[i + 1];
    move->to[i] = move->to[i + 1];
  }
  --move->rank;
}

static void set_outside(plan *plan, const dp_move *move, int32_t rank) {
  plan->rank = rank;
  plan->dims = move->dims;
  for (int32_t i = 0; i < rank; ++i) {
    plan->from_strides[i] = move->from[i] * (int64_t)plan->size;
    plan->to_strides[i] = move->to[i] * (int64_t)plan->size;
  }
}

static void run_plain(dp_op_context *context, plan *plan, dp_move *move) {
  plan->size = widen_elements(move, plan->size);
  plan->size_log = __builtin_ctzll(plan->size);
  if (is_run(move) || move->rank == 0) {
    int64_t count = move->rank == 0 ? 1 : move->dims[move->rank - 1];
    set_outside(plan, move, move->rank == 0 ? 0 : move->rank - 1);
    run_copies(context, plan, count * (int64_t)plan->size);
    return;
  }
  const dp_move_loops *loops = dp_move_table();
  int32_t transposed = find_transposed(move);
  if (transposed >= 0) {
    int32_t last = move->rank - 1;
    plan->rows = move->dims[transposed];
    plan->to_row = move->to[transposed];
    plan->columns = move->dims[last];
    plan->from_column = move->from[last];
    plan->transpose = loops->transpose[plan->size_log];
    drop_dimension(move, transposed);
    set_outside(plan, move, move->rank - 1);
    run_squares(context, plan);
    return;
  }
  plan->strided = loops->strided[plan->size_log];
  set_outside(plan, move, move->rank - 1);
  run_strides(context, plan, move);
}

void dp_move_run(dp_op_context *context, dp_move *move, void *to, const void *from) {
  for (int32_t i = 0; i < move->rank; ++i)
    if (move->dims[i] == 0)
      return;
  plan plan;
  plan.to = to;
  plan.from = from;
  plan.dtype = move->dtype;
  plan.size = dp_dtype_size(move->dtype);
  join_dimensions(move);
  if (dp_dtype_is_plain(move->dtype)) {
    if (move->rank > 1) {
      sort_dimensions(move);
      join_dimensions(move);
    }
    run_plain(context, &plan, move);
  } else {
    set_outside(&plan, move, move->rank);
    run_objects(context, &plan, move);
  }
}

/* ---- Filling ---- */
typedef struct fill_work {
  char *to;
  const void *value;
  dp_dtype dtype;
  size_t size;
} fill_work;

static void fill_zero(void *arg, int64_t begin, int64_t end) {
  const fill_work *work = arg;
  memset(work->to + begin * work->size, 0, (size_t)(end - begin) * work->size);
}

static void fill_plain(void *arg, int64_t begin, int64_t end) {
  const fill_work *work = arg;
  dp_move_table()->fill[__builtin_ctzll(work->size)](work->to + begin * work->size, work->value,
                                                     end - begin);
}

static void fill_objects(void *arg, int64_t begin, int64_t end) {
  const fill_work *work = arg;
  for (int64_t i = begin; i < end; ++i)
    dp_tensor_copy_elements(work->dtype, work->to + i * work->size, work->value, 1);
}

static bool is_all_zero(const void *value, size_t size) {
  static const char zeros[32];
  return size <= sizeof zeros && memcmp(value, zeros, size) == 0;
}

void dp_move_fill(dp_op_context *context, dp_dtype dtype, void *to, const void *value,
                  int64_t count) {
  fill_work work = {to, value, dtype, dp_dtype_size(dtype)};
  bool plain = dp_dtype_is_plain(dtype);
  if (!plain && !value)
    return;
  if (plain && (!value || is_all_zero(value, work.size)))
    dp_kernel_for(context, count, 50 * (int64_t)work.size, fill_zero, &work);
  else if (plain)
    dp_kernel_for(context, count, 50 * (int64_t)work.size, fill_plain, &work);
  else
    dp_kernel_for(context, count, 20000, fill_objects, &work);
}

dp_status *dp_move_first_to_output(dp_op_context *context, dp_tensor **output_out) {
  const dp_tensor *input = dp_op_input(context, 0);
  const void *from = input->data;
  dp_shape shape = input->shape;
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate_or_forward(context, 0, 0, &shape, &output));
  if (output->data != from) {
    dp_move move;
    dp_move_init(&move, output->dtype);
    dp_move_add(&move, shape.elements, 1, 1);
    dp_move_run(context, &move, output->data, from);
  }
  *output_out = output;
  return NULL;
}
