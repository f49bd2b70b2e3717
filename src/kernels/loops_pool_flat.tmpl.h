/* Poolings of one floating type, a row of windows at a time. The includer defines T, the type to
 * compute in, M, the type in memory, SUFFIX and LEAST; READ(from, rest) and WRITE(to, vector, rest)
 * when M is another type than T; LARGER(a, b), IF_LARGER(a, b, yes, no), the masks GREATER(a, b),
 * EQUAL(a, b) and NOT_LESS(a, b), and ADD_IF(mask, sum, yes) over vectors.
 *
 * Elements are taken a vector at a time, so that a window's result stays in a register; what is
 * left of them is a vector that is loaded and stored in part. Windows one pixel apart are taken
 * together, as one with all their elements: that makes the most of vectors when channels are few.
 * The sizes of the common windows are constants where the bodies are inlined. */
typedef T DP_PASTE(vector, SUFFIX) __attribute__((vector_size(VECTOR_BYTES)));
typedef T DP_PASTE(memory, SUFFIX)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));
#define VECTOR DP_PASTE(vector, SUFFIX)
#define MEMORY DP_PASTE(memory, SUFFIX)
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(T)))
#define INLINE static inline __attribute__((always_inline))

/* `rest` is how many lanes there are when they are not all there, else 0, a constant. */
INLINE VECTOR DP_PASTE(load, SUFFIX)(const T *from, const int64_t rest) {
  if (!rest)
    return (VECTOR) * (const MEMORY *)from;
#ifdef LOAD_PART
  return (VECTOR)LOAD_PART(from, rest);
#else
  VECTOR value = {0};
  for (int64_t i = 0; i < rest; ++i)
    value[i] = from[i];
  return value;
#endif
}

INLINE void DP_PASTE(store, SUFFIX)(T *to, VECTOR value, const int64_t rest) {
  if (!rest) {
    *(MEMORY *)to = value;
    return;
  }
#ifdef LOAD_PART
  STORE_PART(to, value, rest);
#else
  for (int64_t i = 0; i < rest; ++i)
    to[i] = value[i];
#endif
}
#define LOAD_WORK DP_PASTE(load, SUFFIX)
#define STORE_WORK DP_PASTE(store, SUFFIX)
#ifdef READ
#define LOAD READ
#define STORE WRITE
#else
#define LOAD LOAD_WORK
#define STORE STORE_WORK
#endif

/* Windows [begin, end) of a row are whole. */
INLINE void DP_PASTE(find_whole, SUFFIX)(const dp_pooling_row *row, int64_t *begin, int64_t *end) {
  int64_t space = row->in + row->before - row->size;
  *end = space < 0 ? 0 : space / row->stride + 1;
  *end = *end < row->out ? *end : row->out;
  *begin = (row->before + row->stride - 1) / row->stride;
  *begin = *begin < *end ? *begin : *end;
}

/* The pixels [first, last) that window x has inside the image; returns the first that it would have
 * without the image's edge. */
INLINE int64_t DP_PASTE(find_columns, SUFFIX)(const dp_pooling_row *row, int64_t x, int64_t *first,
                                              int64_t *last) {
  int64_t start = x * row->stride - row->before;
  *first = start < 0 ? 0 : start;
  *last = start + row->size < row->in ? start + row->size : row->in;
  return start;
}

/* ---- From windows to pixels of the output ---- */
INLINE VECTOR DP_PASTE(pool_vector, SUFFIX)(const pooling kind, const int64_t count,
                                            const int64_t columns, const int64_t rest,
                                            const dp_pooling_row *row, const M *const *rows,
                                            const M *const *others, int64_t at, T factor) {
  VECTOR best = {0}, result = {0};
  if (kind == LARGEST)
    best = (T)row->lowest - (VECTOR){0};
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
    VECTOR value = LOAD(rows[y] + at + x * row->channels, rest);
    if (kind == AVERAGE)
      best += value;
    if (kind == PICK)
      result =
          (VECTOR)IF_LARGER(value, best, LOAD(others[y] + at + x * row->channels, rest), result);
    if (kind != AVERAGE)
      best = (VECTOR)LARGER(value, best);
  }
  return kind == LARGEST ? best : kind == AVERAGE ? best * factor : result;
}

/* Stores in the work type if `is_part`. */
INLINE void DP_PASTE(put, SUFFIX)(const bool is_part, void *to, int64_t at, VECTOR value,
                                  const int64_t rest) {
  if (is_part)
    STORE_WORK((T *)to + at, value, rest);
  else
    STORE((M *)to + at, value, rest);
}

/* `width` elements from element `at` of the rows on, to element `place` of `to`. */
INLINE void DP_PASTE(pool_run, SUFFIX)(const pooling kind, const bool is_part, const int64_t count,
                                       const int64_t columns, const dp_pooling_row *row,
                                       const M *const *rows, const M *const *others, int64_t at,
                                       int64_t width, T factor, void *to, int64_t place) {
  int64_t c = 0;
  for (; c + LANES <= width; c += LANES)
    DP_PASTE(put, SUFFIX)
  (is_part, to, place + c,
   DP_PASTE(pool_vector, SUFFIX)(kind, count, columns, 0, row, rows, others, at + c, factor), 0);
  int64_t rest = width - c;
  if (rest > 0)
    DP_PASTE(put, SUFFIX)
  (is_part, to, place + c,
   DP_PASTE(pool_vector, SUFFIX)(kind, count, columns, rest, row, rows, others, at + c, factor),
   rest);
}

/* Whole windows [begin, end) of few channels that are more than one pixel apart: what windows one
 * pixel apart would give, of which theirs is taken. */
INLINE void DP_PASTE(pool_thin, SUFFIX)(const pooling kind, const bool is_part, const int64_t count,
                                        const int64_t columns, const dp_pooling_row *row,
                                        const M *const *rows, int64_t begin, int64_t end, T factor,
                                        void *to) {
  T all[THIN + LANES];
  int64_t channels = row->channels, step = row->stride * channels;
  int64_t most = (THIN - channels) / step + 1;
  for (int64_t x = begin, next; x < end; x = next) {
    next = x + most < end ? x + most : end;
    DP_PASTE(pool_run, SUFFIX)
    (kind, true, count, columns, row, rows, rows, x * step - row->before * channels,
     (next - x - 1) * step + channels, factor, all, 0);
    for (int64_t i = x; i < next; ++i)
      DP_PASTE(put, SUFFIX)
    (is_part, to, i * channels, LOAD_WORK(all + (i - x) * step, channels), channels);
  }
}

INLINE void DP_PASTE(pool_whole,
                     SUFFIX)(const pooling kind, const bool is_part, const int64_t count,
                             const int64_t columns, const dp_pooling_row *row, const M *const *rows,
                             const M *const *others, int64_t begin, int64_t end, void *to) {
  int64_t channels = row->channels, step = row->stride * channels, taps = count * columns + 1;
  int64_t at = begin * step - row->before * channels;
  T factor = is_part ? 1 : (T)1 / (T)(count * columns);
  if (begin >= end)
    return;
  if (row->stride == 1)
    DP_PASTE(pool_run, SUFFIX)
  (kind, is_part, count, columns, row, rows, others, at, (end - begin) * channels, factor, to,
   begin * channels);
  else if (kind != PICK && step * taps + 2 * LANES < LANES * taps)
      DP_PASTE(pool_thin, SUFFIX)(kind, is_part, count, columns, row, rows, begin, end, factor, to);
  else for (int64_t x = begin; x < end; ++x, at += step) DP_PASTE(pool_run, SUFFIX)(
      kind, is_part, count, columns, row, rows, others, at, channels, factor, to, x * channels);
}

/* Windows [begin, end), whatever part of them is inside. */
INLINE void DP_PASTE(pool_cut, SUFFIX)(const pooling kind, const bool is_part, int64_t count,
                                       const dp_pooling_row *row, const M *const *rows,
                                       const M *const *others, int64_t begin, int64_t end,
                                       void *to) {
  for (int64_t x = begin, first, last; x < end; ++x) {
    DP_PASTE(find_columns, SUFFIX)(row, x, &first, &last);
    T factor = is_part ? 1 : (T)1 / (T)(count * (last - first));
    DP_PASTE(pool_run, SUFFIX)
    (kind, is_part, count, last - first, row, rows, others, first * row->channels, row->channels,
     factor, to, x * row->channels);
  }
}

/* Rows are copied: nothing that is stored can be a part of them, then. */
INLINE void DP_PASTE(pool_row, SUFFIX)(const pooling kind, const bool is_part,
                                       const dp_pooling_row *given, const void *const *row_data,
                                       const void *const *other_data, int64_t count, void *to) {
  const dp_pooling_row row = *given;
  const M *const *rows = (const M *const *)row_data, *const *others = (const M *const *)other_data;
  int64_t begin, end;
  DP_PASTE(find_whole, SUFFIX)(&row, &begin, &end);
  DP_PASTE(pool_cut, SUFFIX)(kind, is_part, count, &row, rows, others, 0, begin, to);
  if (is_part && count == 1 && row.size == 3) {
    const M *own[] = {rows[0]};
    DP_PASTE(pool_whole, SUFFIX)(kind, is_part, 1, 3, &row, own, own, begin, end, to);
  } else if (!is_part && count == 2 && row.size == 2) {
    const M *own[] = {rows[0], rows[1]}, *own_others[] = {others[0], others[1]};
    DP_PASTE(pool_whole, SUFFIX)(kind, is_part, 2, 2, &row, own, own_others, begin, end, to);
  } else if (count == 3 && row.size == 3) {
    const M *own[] = {rows[0], rows[1], rows[2]};
    const M *own_others[] = {others[0], others[1], others[2]};
    DP_PASTE(pool_whole, SUFFIX)(kind, is_part, 3, 3, &row, own, own_others, begin, end, to);
  } else {
    DP_PASTE(pool_whole, SUFFIX)
    (kind, is_part, count, row.size, &row, rows, others, begin, end, to);
  }
  DP_PASTE(pool_cut, SUFFIX)(kind, is_part, count, &row, rows, others, end, row.out, to);
}

static void DP_PASTE(row_largest, SUFFIX)(const dp_pooling_row *row, const void *const *rows,
                                          int64_t count, void *to) {
  DP_PASTE(pool_row, SUFFIX)(LARGEST, false, row, rows, rows, count, to);
}
static void DP_PASTE(row_average, SUFFIX)(const dp_pooling_row *row, const void *const *rows,
                                          int64_t count, void *to) {
  DP_PASTE(pool_row, SUFFIX)(AVERAGE, false, row, rows, rows, count, to);
}
static void DP_PASTE(row_picks, SUFFIX)(const dp_pooling_row *row, const void *const *rows,
                                        const void *const *others, int64_t count, void *to) {
  DP_PASTE(pool_row, SUFFIX)(PICK, false, row, rows, others, count, to);
}
static void DP_PASTE(row_largest_part, SUFFIX)(const dp_pooling_row *row, const void *const *rows,
                                               int64_t count, void *to) {
  DP_PASTE(pool_row, SUFFIX)(LARGEST, true, row, rows, rows, count, to);
}
static void DP_PASTE(row_sum_part, SUFFIX)(const dp_pooling_row *row, const void *const *rows,
                                           int64_t count, void *to) {
  DP_PASTE(pool_row, SUFFIX)(AVERAGE, true, row, rows, rows, count, to);
}

/* ---- Parts of windows together ---- */
INLINE void DP_PASTE(join_vector, SUFFIX)(const pooling kind, const int64_t count,
                                          const int64_t rest, const T *const *parts, int64_t at,
                                          T factor, M *to) {
  VECTOR sum = LOAD_WORK(parts[0] + at, rest);
  DP_UNROLL
  for (int64_t y = 1; y < count; ++y) {
    VECTOR part = LOAD_WORK(parts[y] + at, rest);
    sum = kind == LARGEST ? (VECTOR)LARGER(part, sum) : sum + part;
  }
  STORE(to + at, kind == LARGEST ? sum : sum * factor, rest);
}

/* Elements [begin, end). */
INLINE void DP_PASTE(join_run, SUFFIX)(const pooling kind, const int64_t count,
                                       const T *const *parts, int64_t begin, int64_t end, T factor,
                                       M *to) {
  int64_t at = begin;
  for (; at + LANES <= end; at += LANES)
    DP_PASTE(join_vector, SUFFIX)(kind, count, 0, parts, at, factor, to);
  if (at < end)
    DP_PASTE(join_vector, SUFFIX)(kind, count, end - at, parts, at, factor, to);
}

INLINE void DP_PASTE(join_row, SUFFIX)(const pooling kind, const int64_t count,
                                       const dp_pooling_row *row, const T *const *parts,
                                       int64_t height, M *to) {
  int64_t begin = 0, end = row->out, channels = row->channels, first, last;
  if (kind == AVERAGE)
    DP_PASTE(find_whole, SUFFIX)(row, &begin, &end);
  DP_PASTE(join_run, SUFFIX)
  (kind, count, parts, begin * channels, end * channels, (T)1 / (T)(height * row->size), to);
  for (int64_t x = begin > 0 ? 0 : end; x < row->out; x = x + 1 == begin ? end : x + 1) {
    DP_PASTE(find_columns, SUFFIX)(row, x, &first, &last);
    DP_PASTE(join_run, SUFFIX)
    (kind, count, parts, x * channels, (x + 1) * channels, (T)1 / (T)(height * (last - first)), to);
  }
}

INLINE void DP_PASTE(join, SUFFIX)(const pooling kind, const dp_pooling_row *given,
                                   const void *const *part_data, int64_t count, int64_t height,
                                   void *to) {
  const dp_pooling_row row = *given;
  const T *const *parts = (const T *const *)part_data;
  const T *own[3] = {parts[0], parts[count > 1], parts[count > 2 ? 2 : 0]};
  if (count == 3)
    DP_PASTE(join_row, SUFFIX)(kind, 3, &row, own, height, to);
  else
    DP_PASTE(join_row, SUFFIX)(kind, count, &row, parts, height, to);
}

static void DP_PASTE(join_largest, SUFFIX)(const dp_pooling_row *row, const void *const *parts,
                                           int64_t count, int64_t height, void *to) {
  DP_PASTE(join, SUFFIX)(LARGEST, row, parts, count, height, to);
}
static void DP_PASTE(join_average, SUFFIX)(const dp_pooling_row *row, const void *const *parts,
                                           int64_t count, int64_t height, void *to) {
  DP_PASTE(join, SUFFIX)(AVERAGE, row, parts, count, height, to);
}

/* ---- What the gradients of averages give ---- */
/* Adds up to four rows of windows, elements [begin, end) of them, to those before. */
INLINE void DP_PASTE(share_run, SUFFIX)(const int64_t count, const dp_pooling_source *sources,
                                        int64_t columns, int64_t begin, int64_t end,
                                        const bool is_first, T *to) {
  const M *from[4];
  VECTOR factor[4];
  DP_UNROLL
  for (int64_t y = 0; y < count; ++y) {
    from[y] = sources[y].gradient;
    factor[y] = (T)1 / (T)(sources[y].rows * columns) - (VECTOR){0};
  }
  for (int64_t at = begin; at < end; at += LANES) {
    int64_t rest = end - at < LANES ? end - at : 0;
    VECTOR sum = is_first ? (VECTOR){0} : LOAD_WORK(to + at, rest);
    DP_UNROLL
    for (int64_t y = 0; y < count; ++y)
      sum += LOAD(from[y] + at, rest) * factor[y];
    STORE_WORK(to + at, sum, rest);
  }
}

INLINE void DP_PASTE(share_some, SUFFIX)(const dp_pooling_source *sources, int64_t count,
                                         int64_t columns, int64_t begin, int64_t end, T *to) {
  for (int64_t y = 0; y < count; y += 4) {
    const dp_pooling_source *own = sources + y;
    bool is_first = y == 0;
    switch (count - y) {
    case 1:
      DP_PASTE(share_run, SUFFIX)(1, own, columns, begin, end, is_first, to);
      break;
    case 2:
      DP_PASTE(share_run, SUFFIX)(2, own, columns, begin, end, is_first, to);
      break;
    case 3:
      DP_PASTE(share_run, SUFFIX)(3, own, columns, begin, end, is_first, to);
      break;
    default:
      DP_PASTE(share_run, SUFFIX)(4, own, columns, begin, end, is_first, to);
    }
  }
}

static void DP_PASTE(row_shares, SUFFIX)(const dp_pooling_row *row,
                                         const dp_pooling_source *sources, int64_t count,
                                         void *to) {
  int64_t begin, end, next, first, last, channels = row->channels;
  DP_PASTE(find_whole, SUFFIX)(row, &begin, &end);
  for (int64_t x = 0; x < row->out; x = next) {
    next = x == begin && x < end ? end : x + 1;
    DP_PASTE(find_columns, SUFFIX)(row, x, &first, &last);
    DP_PASTE(share_some, SUFFIX)
    (sources, count, last - first, x * channels, next * channels, to);
  }
}

#include "kernels/loops_pool_places.tmpl.h"

#undef VECTOR
#undef MEMORY
#undef LANES
#undef INLINE
#undef LOAD_WORK
#undef STORE_WORK
#undef LOAD
#undef STORE
#undef READ
#undef WRITE
#undef T
#undef M
#undef SUFFIX
