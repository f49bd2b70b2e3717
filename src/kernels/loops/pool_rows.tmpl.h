/* Poolings of one floating type, a row of windows at a time, and their table. A .c file per type
 * includes this template; it defines T (the type to compute in), M (the type in memory) and TABLE
 * (the table's name), IS_DOUBLE when T is double, and READ(from, rest) and WRITE(to, vector, rest)
 * when M is not T.
 *
 * The inner loop takes a vector of channels through the whole window, so that the result stays in a
 * register; the last vector may be partial. With stride 1, all windows of a row are taken as one
 * long vector, which fills vectors even when there are few channels. The sizes of common windows
 * are constants where the bodies are inlined. */
#include "kernels/loops/pool.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include "kernels/loops/pool_vectors.tmpl.h"

#define DP_UNROLL _Pragma("GCC unroll 4")
#define THIN 512 /* elements of the row buffer of pool_thin */
#define WINDOWS_AT_ONCE 32

typedef enum pooling {
  LARGEST, /* of the window */
  AVERAGE,
  PICK, /* the element of another image at the place of the first largest */
} pooling;

typedef enum returning {
  TO_ALL,
  TO_PLACES,
  TO_MARKS,
  TO_EQUALS
} returning; /* which pixels of a window receive its gradient */

/* Finds the windows [begin, end) that are entirely inside the row. */
INLINE void find_whole(const dp_pooling_row *row, int64_t *begin, int64_t *end) {
  int64_t space = row->in + row->before - row->size;
  *end = space < 0 ? 0 : space / row->stride + 1;
  *end = *end < row->out ? *end : row->out;
  *begin = (row->before + row->stride - 1) / row->stride;
  *begin = *begin < *end ? *begin : *end;
}

/* Finds the pixels [first, last) of window x that are inside the image. Returns the window's first
 * pixel, which may be outside. */
INLINE int64_t find_columns(const dp_pooling_row *row, int64_t x, int64_t *first, int64_t *last) {
  int64_t start = x * row->stride - row->before;
  *first = start < 0 ? 0 : start;
  *last = start + row->size < row->in ? start + row->size : row->in;
  return start;
}

/* ---- From windows to pixels of the output ---- */
INLINE vector pool_vector(const pooling kind, const int64_t count, const int64_t columns,
                          const int64_t rest, const dp_pooling_row *row, const M *const *rows,
                          const M *const *others, int64_t at, T factor) {
  vector best = {0}, result = {0};
  if (kind == LARGEST)
    best = (T)row->lowest - (vector){0};
  if (kind == PICK) {
    best = LOAD(rows[0] + at, rest);
    result = LOAD(others[0] + at, rest);
  }
  DP_UNROLL
  for (int64_t y = 0; y < count; ++y)
    DP_UNROLL
  for (int64_t x = 0; x < columns; ++x) {
    if (kind == PICK && y + x == 0)
      continue;
    vector value = LOAD(rows[y] + at + x * row->channels, rest);
    if (kind == AVERAGE)
      best += value;
    if (kind == PICK)
      result =
          (vector)IF_LARGER(value, best, LOAD(others[y] + at + x * row->channels, rest), result);
    if (kind != AVERAGE)
      best = (vector)LARGER(value, best);
  }
  return kind == LARGEST ? best : kind == AVERAGE ? best * factor : result;
}

/* Stores a vector: parts in the work type, results in the type of memory. */
INLINE void put(const bool is_part, void *to, int64_t at, vector value, const int64_t rest) {
  if (is_part)
    store_work((T *)to + at, value, rest);
  else
    STORE((M *)to + at, value, rest);
}

/* `width` elements, from element `at` of the rows on, to element `place` of `to`. */
INLINE void pool_run(const pooling kind, const bool is_part, const int64_t count,
                     const int64_t columns, const dp_pooling_row *row, const M *const *rows,
                     const M *const *others, int64_t at, int64_t width, T factor, void *to,
                     int64_t place) {
  int64_t c = 0;
  for (; c + LANES <= width; c += LANES)
    put(is_part, to, place + c,
        pool_vector(kind, count, columns, 0, row, rows, others, at + c, factor), 0);
  int64_t rest = width - c;
  if (rest > 0)
    put(is_part, to, place + c,
        pool_vector(kind, count, columns, rest, row, rows, others, at + c, factor), rest);
}

/* Whole windows [begin, end) of few channels with a stride above 1. Computes the result for every
 * pixel, as if the stride were 1, and keeps the windows that exist: that fills the vectors. */
INLINE void pool_thin(const pooling kind, const bool is_part, const int64_t count,
                      const int64_t columns, const dp_pooling_row *row, const M *const *rows,
                      int64_t begin, int64_t end, T factor, void *to) {
  T all[THIN + LANES];
  int64_t channels = row->channels, step = row->stride * channels;
  int64_t most = (THIN - channels) / step + 1;
  for (int64_t x = begin, next; x < end; x = next) {
    next = x + most < end ? x + most : end;
    pool_run(kind, true, count, columns, row, rows, rows, x * step - row->before * channels,
             (next - x - 1) * step + channels, factor, all, 0);
    for (int64_t i = x; i < next; ++i)
      put(is_part, to, i * channels, load_work(all + (i - x) * step, channels), channels);
  }
}

INLINE void pool_whole(const pooling kind, const bool is_part, const int64_t count,
                       const int64_t columns, const dp_pooling_row *row, const M *const *rows,
                       const M *const *others, int64_t begin, int64_t end, void *to) {
  int64_t channels = row->channels, step = row->stride * channels, taps = count * columns + 1;
  int64_t at = begin * step - row->before * channels;
  T factor = is_part ? 1 : (T)1 / (T)(count * columns);
  if (begin >= end)
    return;
  if (row->stride == 1)
    pool_run(kind, is_part, count, columns, row, rows, others, at, (end - begin) * channels, factor,
             to, begin * channels);
  else if (kind != PICK && step * taps + 2 * LANES < LANES * taps)
    pool_thin(kind, is_part, count, columns, row, rows, begin, end, factor, to);
  else
    for (int64_t x = begin; x < end; ++x, at += step)
      pool_run(kind, is_part, count, columns, row, rows, others, at, channels, factor, to,
               x * channels);
}

/* The windows outside of [begin, end), which are partly outside of the image. */
INLINE void pool_cut(const pooling kind, const bool is_part, int64_t count,
                     const dp_pooling_row *row, const M *const *rows, const M *const *others,
                     int64_t begin, int64_t end, void *to) {
  int64_t first, last;
  for (int64_t x = begin > 0 ? 0 : end; x < row->out; x = x + 1 == begin ? end : x + 1) {
    find_columns(row, x, &first, &last);
    T factor = is_part ? 1 : (T)1 / (T)(count * (last - first));
    pool_run(kind, is_part, count, last - first, row, rows, others, first * row->channels,
             row->channels, factor, to, x * row->channels);
  }
}

/* Whole windows of common sizes, one function per size: one function for all would run out of
 * registers. The array of row pointers is copied, so that the compiler knows that stores do not
 * change it. */
typedef void (*whole_fn)(const dp_pooling_row *row, const M *const *rows, const M *const *others,
                         int64_t begin, int64_t end, void *to);
#define WHOLE(name, kind, is_part, count, columns)                                                 \
  static __attribute__((noinline)) void name(const dp_pooling_row *given, const M *const *rows,    \
                                             const M *const *others, int64_t begin, int64_t end,   \
                                             void *to) {                                           \
    const dp_pooling_row row = *given;                                                             \
    const M *own[count], *own_others[count];                                                       \
    memcpy(own, rows, sizeof own);                                                                 \
    memcpy(own_others, others, sizeof own_others);                                                 \
    pool_whole(kind, is_part, count, columns, &row, own, own_others, begin, end, to);              \
  }
WHOLE(largest_2x2, LARGEST, false, 2, 2)
WHOLE(largest_3x3, LARGEST, false, 3, 3)
WHOLE(largest_part_1x3, LARGEST, true, 1, 3)
WHOLE(largest_part_3x3, LARGEST, true, 3, 3)
WHOLE(average_2x2, AVERAGE, false, 2, 2)
WHOLE(average_3x3, AVERAGE, false, 3, 3)
WHOLE(sum_part_1x3, AVERAGE, true, 1, 3)
WHOLE(sum_part_3x3, AVERAGE, true, 3, 3)
WHOLE(pick_2x2, PICK, false, 2, 2)
WHOLE(pick_3x3, PICK, false, 3, 3)

/* `run_small` does windows of 2 x 2 pixels (of 1 x 3 for parts), `run_3x3` windows of 3 x 3. */
INLINE void pool_row(const pooling kind, const bool is_part, whole_fn run_small, whole_fn run_3x3,
                     const dp_pooling_row *given, const void *const *row_data,
                     const void *const *other_data, int64_t count, void *to) {
  const dp_pooling_row row = *given;
  const M *const *rows = (const M *const *)row_data, *const *others = (const M *const *)other_data;
  bool is_small = is_part ? count == 1 && row.size == 3 : count == 2 && row.size == 2;
  int64_t begin, end;
  find_whole(&row, &begin, &end);
  if (is_small)
    run_small(given, rows, others, begin, end, to);
  else if (count == 3 && row.size == 3)
    run_3x3(given, rows, others, begin, end, to);
  else
    pool_whole(kind, is_part, count, row.size, &row, rows, others, begin, end, to);
  pool_cut(kind, is_part, count, &row, rows, others, begin, end, to);
}

static void row_largest(const dp_pooling_row *row, const void *const *rows, int64_t count,
                        void *to) {
  pool_row(LARGEST, false, largest_2x2, largest_3x3, row, rows, rows, count, to);
}
static void row_average(const dp_pooling_row *row, const void *const *rows, int64_t count,
                        void *to) {
  pool_row(AVERAGE, false, average_2x2, average_3x3, row, rows, rows, count, to);
}
static void row_picks(const dp_pooling_row *row, const void *const *rows, const void *const *others,
                      int64_t count, void *to) {
  pool_row(PICK, false, pick_2x2, pick_3x3, row, rows, others, count, to);
}
static void row_largest_part(const dp_pooling_row *row, const void *const *rows, int64_t count,
                             void *to) {
  pool_row(LARGEST, true, largest_part_1x3, largest_part_3x3, row, rows, rows, count, to);
}
static void row_sum_part(const dp_pooling_row *row, const void *const *rows, int64_t count,
                         void *to) {
  pool_row(AVERAGE, true, sum_part_1x3, sum_part_3x3, row, rows, rows, count, to);
}

/* ---- Parts of windows together ---- */
INLINE void join_vector(const pooling kind, const int64_t count, const int64_t rest,
                        const T *const *parts, int64_t at, T factor, M *to) {
  vector sum = load_work(parts[0] + at, rest);
  DP_UNROLL
  for (int64_t y = 1; y < count; ++y) {
    vector part = load_work(parts[y] + at, rest);
    sum = kind == LARGEST ? (vector)LARGER(part, sum) : sum + part;
  }
  STORE(to + at, kind == LARGEST ? sum : sum * factor, rest);
}

/* Elements [begin, end). */
INLINE void join_run(const pooling kind, const int64_t count, const T *const *parts, int64_t begin,
                     int64_t end, T factor, M *to) {
  int64_t at = begin;
  for (; at + LANES <= end; at += LANES)
    join_vector(kind, count, 0, parts, at, factor, to);
  if (at < end)
    join_vector(kind, count, end - at, parts, at, factor, to);
}

INLINE void join_row(const pooling kind, const int64_t count, const dp_pooling_row *row,
                     const T *const *parts, int64_t height, M *to) {
  int64_t begin = 0, end = row->out, channels = row->channels, first, last;
  if (kind == AVERAGE)
    find_whole(row, &begin, &end);
  join_run(kind, count, parts, begin * channels, end * channels, (T)1 / (T)(height * row->size),
           to);
  for (int64_t x = begin > 0 ? 0 : end; x < row->out; x = x + 1 == begin ? end : x + 1) {
    find_columns(row, x, &first, &last);
    join_run(kind, count, parts, x * channels, (x + 1) * channels,
             (T)1 / (T)(height * (last - first)), to);
  }
}

INLINE void join(const pooling kind, const dp_pooling_row *given, const void *const *part_data,
                 int64_t count, int64_t height, void *to) {
  const dp_pooling_row row = *given;
  const T *const *parts = (const T *const *)part_data;
  const T *own[3] = {parts[0], parts[count > 1], parts[count > 2 ? 2 : 0]};
  if (count == 3)
    join_row(kind, 3, &row, own, height, to);
  else
    join_row(kind, count, &row, parts, height, to);
}

static void join_largest(const dp_pooling_row *row, const void *const *parts, int64_t count,
                         int64_t height, void *to) {
  join(LARGEST, row, parts, count, height, to);
}
static void join_average(const dp_pooling_row *row, const void *const *parts, int64_t count,
                         int64_t height, void *to) {
  join(AVERAGE, row, parts, count, height, to);
}

/* ---- What the gradients of averages give ---- */
/* Adds up to four rows of windows, elements [begin, end), to `to`; overwrites it if `is_first`. */
INLINE void share_run(const int64_t count, const dp_pooling_source *sources, int64_t columns,
                      int64_t begin, int64_t end, const bool is_first, T *to) {
  const M *from[4];
  vector factor[4];
  DP_UNROLL
  for (int64_t y = 0; y < count; ++y) {
    from[y] = sources[y].gradient;
    factor[y] = (T)1 / (T)(sources[y].rows * columns) - (vector){0};
  }
  for (int64_t at = begin; at < end; at += LANES) {
    int64_t rest = end - at < LANES ? end - at : 0;
    vector sum = is_first ? (vector){0} : load_work(to + at, rest);
    DP_UNROLL
    for (int64_t y = 0; y < count; ++y)
      sum += LOAD(from[y] + at, rest) * factor[y];
    store_work(to + at, sum, rest);
  }
}

INLINE void share_some(const dp_pooling_source *sources, int64_t count, int64_t columns,
                       int64_t begin, int64_t end, T *to) {
  for (int64_t y = 0; y < count; y += 4) {
    const dp_pooling_source *own = sources + y;
    bool is_first = y == 0;
    switch (count - y) {
    case 1:
      share_run(1, own, columns, begin, end, is_first, to);
      break;
    case 2:
      share_run(2, own, columns, begin, end, is_first, to);
      break;
    case 3:
      share_run(3, own, columns, begin, end, is_first, to);
      break;
    default:
      share_run(4, own, columns, begin, end, is_first, to);
    }
  }
}

static void row_shares(const dp_pooling_row *row, const dp_pooling_source *sources, int64_t count,
                       void *to) {
  int64_t begin, end, next, first, last, channels = row->channels;
  find_whole(row, &begin, &end);
  for (int64_t x = 0; x < row->out; x = next) {
    next = x == begin && x < end ? end : x + 1;
    find_columns(row, x, &first, &last);
    share_some(sources, count, last - first, x * channels, next * channels, to);
  }
}

#include "kernels/loops/pool_places.tmpl.h"

const dp_pooling_row_fns DP_ISA_SYMBOL(TABLE) = {
    .largest = row_largest,
    .average = row_average,
    .picks = row_picks,
    .largest_part = row_largest_part,
    .sum_part = row_sum_part,
    .join_largest = join_largest,
    .join_average = join_average,
    .places = row_places,
    .marks = row_marks,
    .shares = row_shares,
    .return_shares = return_shares,
    .return_to_places = return_to_places,
    .return_to_marks = return_to_marks,
    .return_to_equals = return_to_equals,
};
