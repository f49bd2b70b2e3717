/* Softmax and cross entropies of one floating type. The includer defines T, SUFFIX, LANES and
 * FAST(name). Nearly all time goes into exponentials; short rows are taken many at a time, so that
 * the exponentials run over one long array. */
/* The largest of many values. Four vectors of maxima take turns, so that a comparison does not wait
 * for the one before it. */
static T DP_PASTE(largest_of_many, SUFFIX)(const T *values, int64_t count) {
  T turns[4 * LANES];
  int64_t i = 4 * LANES;
  for (int lane = 0; lane < 4 * LANES; ++lane)
    turns[lane] = values[lane];
  for (; i + 4 * LANES <= count; i += 4 * LANES)
    for (int lane = 0; lane < 4 * LANES; ++lane)
      turns[lane] = values[i + lane] > turns[lane] ? values[i + lane] : turns[lane];
  for (; i + LANES <= count; i += LANES)
    for (int lane = 0; lane < LANES; ++lane)
      turns[lane] = values[i + lane] > turns[lane] ? values[i + lane] : turns[lane];
  for (int half = 2 * LANES; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane)
      turns[lane] = turns[lane + half] > turns[lane] ? turns[lane + half] : turns[lane];
  T result = turns[0];
  for (; i < count; ++i)
    result = values[i] > result ? values[i] : result;
  return result;
}

static inline T DP_PASTE(largest, SUFFIX)(const T *values, int64_t count) {
  T lanes[LANES], result = -(T)INFINITY;
  int64_t i = 0;
  if (count >= LONG_ROW)
    return DP_PASTE(largest_of_many, SUFFIX)(values, count);
  if (count >= LANES) {
    for (int lane = 0; lane < LANES; ++lane)
      lanes[lane] = values[lane];
    for (i = LANES; i + LANES <= count; i += LANES)
      for (int lane = 0; lane < LANES; ++lane)
        lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    for (int lane = 0; lane < LANES; ++lane)
      result = lanes[lane] > result ? lanes[lane] : result;
  }
  for (; i < count; ++i)
    result = values[i] > result ? values[i] : result;
  return result;
}

static inline T DP_PASTE(total, SUFFIX)(const T *values, int64_t count) {
  T lanes[LANES] = {0}, result = 0;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int lane = 0; lane < LANES; ++lane)
      lanes[lane] += values[i + lane];
  if (i > 0)
    for (int lane = 0; lane < LANES; ++lane)
      result += lanes[lane];
  for (; i < count; ++i)
    result += values[i];
  return result;
}

/* to = from - largest of the row; from == to is fine. */
static inline void DP_PASTE(shift_row, SUFFIX)(const T *from, T *to, int64_t classes) {
  T top = DP_PASTE(largest, SUFFIX)(from, classes);
  DP_INDEPENDENT
  for (int64_t i = 0; i < classes; ++i)
    to[i] = from[i] - top;
}

static inline void DP_PASTE(exponentials, SUFFIX)(const T *from, T *to, int64_t count) {
  DP_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    to[i] = FAST(exp_below_zero)(from[i]);
}

static inline void DP_PASTE(scale, SUFFIX)(T *values, int64_t count, T factor) {
  DP_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    values[i] *= factor;
}

/* to = e^(from - shift), and the sum of that; from == to is fine. */
static inline T DP_PASTE(exponential_row, SUFFIX)(const T *from, T *to, int64_t count, T shift) {
  T lanes[LANES] = {0}, result = 0;
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    DP_INDEPENDENT
    for (int lane = 0; lane < LANES; ++lane) {
      T value = FAST(exp_below_zero)(from[i + lane] - shift);
      to[i + lane] = value;
      lanes[lane] += value;
    }
  }
  for (int lane = 0; i > 0 && lane < LANES; ++lane)
    result += lanes[lane];
  for (; i < count; ++i) {
    T value = FAST(exp_below_zero)(from[i] - shift);
    to[i] = value;
    result += value;
  }
  return result;
}

/* The sum of e^row[i] only; the terms go through a block on the stack. */
static T DP_PASTE(exponential_total, SUFFIX)(const T *row, int64_t classes) {
  T block[BLOCK], sum = 0;
  for (int64_t i = 0; i < classes; i += BLOCK) {
    int64_t count = classes - i < BLOCK ? classes - i : BLOCK;
    sum += DP_PASTE(exponential_row, SUFFIX)(row + i, block, count, 0);
  }
  return sum;
}

static void DP_PASTE(softmax, SUFFIX)(const void *from_data, void *to_data, int64_t rows,
                                      int64_t classes) {
  const T *from = from_data;
  T *to = to_data;
  for (int64_t r = 0; classes >= LONG_ROW && r < rows; ++r) {
    const T *row = from + r * classes;
    T sum = DP_PASTE(exponential_row, SUFFIX)(row, to + r * classes, classes,
                                              DP_PASTE(largest, SUFFIX)(row, classes));
    DP_PASTE(scale, SUFFIX)(to + r * classes, classes, 1 / sum);
  }
  int64_t block = BLOCK / (classes > 0 ? classes : 1);
  for (int64_t begin = 0; classes < LONG_ROW && begin < rows; begin += block) {
    int64_t count = rows - begin < block ? rows - begin : block;
    T *first = to + begin * classes;
    for (int64_t r = 0; r < count; ++r)
      DP_PASTE(shift_row, SUFFIX)
    (from + (begin + r) * classes, first + r * classes, classes);
    DP_PASTE(exponentials, SUFFIX)(first, first, count * classes);
    for (int64_t r = 0; r < count; ++r)
      DP_PASTE(scale, SUFFIX)
    (first + r * classes, classes, 1 / DP_PASTE(total, SUFFIX)(first + r * classes, classes));
  }
}

static inline void DP_PASTE(lower, SUFFIX)(T *values, int64_t count, T by) {
  DP_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    values[i] -= by;
}

/* Rows that fit into a block together; 0 < classes < LONG_ROW. */
static void DP_PASTE(log_softmax_short, SUFFIX)(const T *from, T *to, int64_t rows,
                                                int64_t classes) {
  T block[BLOCK], sums[BLOCK];
  for (int64_t r = 0; r < rows; ++r)
    DP_PASTE(shift_row, SUFFIX)(from + r * classes, to + r * classes, classes);
  DP_PASTE(exponentials, SUFFIX)(to, block, rows * classes);
  for (int64_t r = 0; r < rows; ++r)
    sums[r] = DP_PASTE(total, SUFFIX)(block + r * classes, classes);
  DP_INDEPENDENT
  for (int64_t r = 0; r < rows; ++r)
    sums[r] = FAST(log)(sums[r]);
  for (int64_t r = 0; r < rows; ++r)
    DP_PASTE(lower, SUFFIX)(to + r * classes, classes, sums[r]);
}

static void DP_PASTE(log_softmax, SUFFIX)(const void *from_data, void *to_data, int64_t rows,
                                          int64_t classes) {
  const T *from = from_data;
  T *to = to_data;
  for (int64_t r = 0; classes >= LONG_ROW && r < rows; ++r) {
    T *row = to + r * classes;
    DP_PASTE(shift_row, SUFFIX)(from + r * classes, row, classes);
    DP_PASTE(lower, SUFFIX)
    (row, classes, FAST(log)(DP_PASTE(exponential_total, SUFFIX)(row, classes)));
  }
  int64_t block = BLOCK / (classes > 0 ? classes : 1);
  for (int64_t begin = 0; classes > 0 && classes < LONG_ROW && begin < rows; begin += block)
    DP_PASTE(log_softmax_short, SUFFIX)
  (from + begin * classes, to + begin * classes, rows - begin < block ? rows - begin : block,
   classes);
}

static inline T DP_PASTE(loss, SUFFIX)(const T *label, const T *row, T log_sum, int64_t classes) {
  T lanes[LANES] = {0}, result = 0;
  int64_t i = 0;
  for (; i + LANES <= classes; i += LANES)
    for (int lane = 0; lane < LANES; ++lane)
      lanes[lane] += label[i + lane] * (log_sum - row[i + lane]);
  for (int lane = 0; i > 0 && lane < LANES; ++lane)
    result += lanes[lane];
  for (; i < classes; ++i)
    result += label[i] * (log_sum - row[i]);
  return result;
}

/* Rows that fit into a block together, with contiguous classes. */
static void DP_PASTE(cross_entropy_short, SUFFIX)(const T *logits, int64_t logit_row,
                                                  const T *labels, int64_t label_row, T *losses,
                                                  T *gradient, int64_t rows, int64_t classes) {
  T block[BLOCK], logs[BLOCK];
  for (int64_t r = 0; r < rows; ++r)
    DP_PASTE(shift_row, SUFFIX)(logits + r * logit_row, gradient + r * classes, classes);
  DP_PASTE(exponentials, SUFFIX)(gradient, block, rows * classes);
  for (int64_t r = 0; r < rows; ++r)
    losses[r] = DP_PASTE(total, SUFFIX)(block + r * classes, classes);
  DP_INDEPENDENT
  for (int64_t r = 0; r < rows; ++r)
    logs[r] = FAST(log)(losses[r]);
  for (int64_t r = 0; r < rows; ++r) {
    const T *label = labels + r * label_row, *from = block + r * classes;
    T *row = gradient + r * classes, factor = 1 / losses[r];
    losses[r] = DP_PASTE(loss, SUFFIX)(label, row, logs[r], classes);
    DP_INDEPENDENT
    for (int64_t i = 0; i < classes; ++i)
      row[i] = from[i] * factor - label[i];
  }
}

static void DP_PASTE(cross_entropy, SUFFIX)(const dp_softmax_rows *logits,
                                            const dp_softmax_rows *labels, void *loss_data,
                                            void *gradient_data, int64_t rows, int64_t classes) {
  T *losses = loss_data, *gradient = gradient_data;
  bool is_short = classes > 0 && classes < LONG_ROW && logits->column == 1 && labels->column == 1;
  int64_t block = is_short ? BLOCK / classes : 0;
  for (int64_t r = 0; is_short && r < rows; r += block)
    DP_PASTE(cross_entropy_short, SUFFIX)
  ((const T *)logits->data + r * logits->row, logits->row,
   (const T *)labels->data + r * labels->row, labels->row, losses + r, gradient + r * classes,
   rows - r < block ? rows - r : block, classes);
  for (int64_t r = 0; !is_short && r < rows; ++r) {
    const T *logit = (const T *)logits->data + r * logits->row;
    const T *label = (const T *)labels->data + r * labels->row;
    T *row = gradient + r * classes, loss = 0;
    if (logits->column == 1) {
      DP_PASTE(shift_row, SUFFIX)(logit, row, classes);
    } else {
      for (int64_t i = 0; i < classes; ++i)
        row[i] = logit[0] - logit[0];
    }
    T sum = DP_PASTE(exponential_total, SUFFIX)(row, classes), log_sum = FAST(log)(sum);
    int64_t step = labels->column;
    for (int64_t i = 0; i < classes; ++i)
      loss += label[i * step] * (log_sum - row[i]);
    T factor = 1 / sum;
    if (step == 1) {
      DP_INDEPENDENT
      for (int64_t i = 0; i < classes; ++i)
        row[i] = FAST(exp_below_zero)(row[i]) * factor - label[i];
    } else {
      DP_INDEPENDENT
      for (int64_t i = 0; i < classes; ++i)
        row[i] = FAST(exp_below_zero)(row[i]) * factor - label[0];
    }
    losses[r] = loss;
  }
}

static void DP_PASTE(sparse_cross_entropy, SUFFIX)(const void *logit_data, const int64_t *labels,
                                                   void *loss_data, void *gradient_data,
                                                   int64_t rows, int64_t classes) {
  const T *logits = logit_data;
  T *losses = loss_data, *gradient = gradient_data;
  int64_t block = BLOCK / (classes > 0 ? classes : 1);
  block = block < 1 ? 1 : block;
  for (int64_t begin = 0; begin < rows; begin += block) {
    int64_t count = rows - begin < block ? rows - begin : block;
    T *first = gradient + begin * classes;
    for (int64_t r = 0; r < count; ++r) {
      int64_t label = labels[begin + r];
      T *row = first + r * classes;
      DP_PASTE(shift_row, SUFFIX)(logits + (begin + r) * classes, row, classes);
      losses[begin + r] = label >= 0 && label < classes ? row[label] : (T)NAN;
    }
    DP_PASTE(exponentials, SUFFIX)(first, first, count * classes);
    for (int64_t r = 0; r < count; ++r) {
      int64_t label = labels[begin + r];
      T *row = first + r * classes, sum = DP_PASTE(total, SUFFIX)(row, classes);
      losses[begin + r] = FAST(log)(sum) - losses[begin + r];
      bool is_known = label >= 0 && label < classes;
      DP_PASTE(scale, SUFFIX)(row, classes, is_known ? 1 / sum : (T)NAN);
      if (is_known)
        row[label] -= 1;
    }
  }
}
