/* Rounding to a grid in one floating type. The includer defines REAL, REAL_MAX, NAME(x) and the
 * functions RINT, FLOOR. */

/* A grid that holds zero: values are multiples of `step` between low and high. */
typedef struct NAME(grid) {
  REAL low, high, scale, step;
} NAME(grid);

static NAME(grid) NAME(make_grid)(REAL low, REAL high, const simulate_range *range) {
  REAL lowest = (REAL)range->lowest, highest = (REAL)range->highest;
  REAL from_low = lowest * low > 0 ? lowest / low : REAL_MAX;
  REAL from_high = highest * high > 0 ? highest / high : REAL_MAX;
  NAME(grid) grid = {low, high, from_low, 0};
  if (from_low < from_high) {
    grid.step = low / lowest;
    grid.high = highest * grid.step;
  } else {
    grid.scale = from_high;
    grid.step = high / highest;
    grid.low = lowest * grid.step;
  }
  return grid;
}

static void NAME(snap)(const NAME(grid) * grid, const simulate_range *range, const REAL *from,
                       REAL *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    REAL value = from[i];
    if (range->is_given) {
      value = value < grid->high ? value : grid->high;
      value = value > grid->low ? value : grid->low;
    }
    value *= grid->scale;
    to[i] = (range->half_up ? FLOOR(value + (REAL)0.5) : RINT(value)) * grid->step;
  }
}

/* One slice of [outer, count, inner]. Without a given range, the values' own range is used. */
static void NAME(simulate)(const simulate_range *range, const simulate_slices *slices,
                           int64_t slice, const void *low, const void *high, const void *from_data,
                           void *to_data) {
  const REAL *from = from_data;
  REAL *to = to_data;
  REAL least = 0, most = 0;
  if (range->is_given) {
    least = ((const REAL *)low)[slice];
    most = ((const REAL *)high)[slice];
  } else {
    least = REAL_MAX;
    most = -REAL_MAX;
    for (int64_t outer = 0; outer < slices->outer; ++outer) {
      const REAL *row = from + (outer * slices->count + slice) * slices->inner;
      for (int64_t i = 0; i < slices->inner; ++i) {
        least = row[i] < least ? row[i] : least;
        most = row[i] > most ? row[i] : most;
      }
    }
  }
  NAME(grid) grid = NAME(make_grid)(least, most, range);
  for (int64_t outer = 0; outer < slices->outer; ++outer) {
    int64_t begin = (outer * slices->count + slice) * slices->inner;
    NAME(snap)(&grid, range, from + begin, to + begin, slices->inner);
  }
}

/* Gradients pass where the input lies within the range; the limits get none. */
static void NAME(simulate_gradient)(const simulate_slices *slices, int64_t slice,
                                    const void *low_data, const void *high_data,
                                    const void *gradient_data, const void *input_data,
                                    void *to_data) {
  const REAL *gradient = gradient_data, *input = input_data;
  REAL *to = to_data, low = ((const REAL *)low_data)[slice],
       high = ((const REAL *)high_data)[slice];
  for (int64_t outer = 0; outer < slices->outer; ++outer) {
    int64_t begin = (outer * slices->count + slice) * slices->inner;
    for (int64_t i = begin; i < begin + slices->inner; ++i)
      to[i] = input[i] >= low && input[i] <= high ? gradient[i] : 0;
  }
}
