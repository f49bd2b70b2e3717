/* Inner loops of batch normalization; compiled once for each instruction set. Sums over a plane run
 * in several lanes, so that they vectorize and lose less. */
#include "kernels/loops_norm_internal.h"

#include <string.h>

#define LANES 32

static void square_rows(const float *x, const float *mean, int64_t rows, int64_t channels,
                        float *sums) {
  memset(sums, 0, (size_t)channels * sizeof *sums);
  for (int64_t r = 0; r < rows; ++r, x += channels) {
    DP_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c)
      sums[c] += (x[c] - mean[c]) * (x[c] - mean[c]);
  }
}

static void gradient_rows(const float *x, const float *g, const float *mean, int64_t rows,
                          int64_t channels, float *sums, float *products) {
  memset(sums, 0, (size_t)channels * sizeof *sums);
  memset(products, 0, (size_t)channels * sizeof *products);
  for (int64_t r = 0; r < rows; ++r, x += channels, g += channels) {
    DP_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += g[c];
      products[c] += g[c] * (x[c] - mean[c]);
    }
  }
}

static void normalize_rows(const float *x, const float *mean, const float *factor,
                           const float *offset, int64_t rows, int64_t channels, float *y) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    DP_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c)
      y[c] = (x[c] - mean[c]) * factor[c] + offset[c];
  }
}

static void back_rows(const float *x, const float *g, const float *mean, const float *factor,
                      const float *shift, const float *slope, int64_t rows, int64_t channels,
                      float *y) {
  for (int64_t r = 0; r < rows; ++r, x += channels, g += channels, y += channels) {
    DP_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c)
      y[c] = factor[c] * (g[c] - shift[c] - (x[c] - mean[c]) * slope[c]);
  }
}

static float total(const float *lanes) {
  float sum = 0;
  for (int i = 0; i < LANES; ++i)
    sum += lanes[i];
  return sum;
}

static float square_plane(const float *x, float mean, int64_t count) {
  float lanes[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int lane = 0; lane < LANES; ++lane)
      lanes[lane] += (x[i + lane] - mean) * (x[i + lane] - mean);
  for (int lane = 0; i < count; ++i, ++lane)
    lanes[lane] += (x[i] - mean) * (x[i] - mean);
  return total(lanes);
}

static void gradient_plane(const float *x, const float *g, float mean, int64_t count, float *sum,
                           float *product) {
  float sums[LANES] = {0}, products[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int lane = 0; lane < LANES; ++lane) {
      sums[lane] += g[i + lane];
      products[lane] += g[i + lane] * (x[i + lane] - mean);
    }
  for (int lane = 0; i < count; ++i, ++lane) {
    sums[lane] += g[i];
    products[lane] += g[i] * (x[i] - mean);
  }
  *sum = total(sums);
  *product = total(products);
}

static void normalize_plane(const float *x, float mean, float factor, float offset, int64_t count,
                            float *y) {
  DP_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    y[i] = (x[i] - mean) * factor + offset;
}

static void back_plane(const float *x, const float *g, float mean, float factor, float shift,
                       float slope, int64_t count, float *y) {
  DP_INDEPENDENT
  for (int64_t i = 0; i < count; ++i)
    y[i] = factor * (g[i] - shift - (x[i] - mean) * slope);
}

const dp_norm_loops DP_ISA_SYMBOL(dp_norm_table) = {
    .square_rows = square_rows,
    .gradient_rows = gradient_rows,
    .normalize_rows = normalize_rows,
    .back_rows = back_rows,
    .square_plane = square_plane,
    .gradient_plane = gradient_plane,
    .normalize_plane = normalize_plane,
    .back_plane = back_plane,
};
