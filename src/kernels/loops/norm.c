/* Fills the table of norm.h. Sums over a plane run in several lanes, so that they vectorize and
 * lose less precision. Compiled once for each instruction set. */
#include "kernels/loops/norm.h"

#include <string.h>

#define LANES 32

/* Partial sums, so that an addition does not wait for the one before it. */
#define TURNS 4
typedef float vector __attribute__((vector_size(64)));
typedef float memory __attribute__((vector_size(64), aligned(4), may_alias));
#define WIDTH ((int64_t)(sizeof(vector) / sizeof(float)))

/* Statistics of WIDTH channels. */
static void vector_statistics(const float *x, int64_t rows, int64_t channels, float *sums,
                              float *squares) {
  vector turns[TURNS] = {{0}};
  int64_t r = 0;
  for (; r + TURNS <= rows; r += TURNS)
    for (int i = 0; i < TURNS; ++i)
      turns[i] += *(const memory *)(x + (r + i) * channels);
  for (; r < rows; ++r)
    turns[0] += *(const memory *)(x + r * channels);
  vector sum = (turns[0] + turns[1]) + (turns[2] + turns[3]), mean = sum / (float)rows;
  for (int i = 0; i < TURNS; ++i)
    turns[i] = (vector){0};
  for (r = 0; r + TURNS <= rows; r += TURNS)
    for (int i = 0; i < TURNS; ++i) {
      vector distance = *(const memory *)(x + (r + i) * channels) - mean;
      turns[i] += distance * distance;
    }
  for (; r < rows; ++r) {
    vector distance = *(const memory *)(x + r * channels) - mean;
    turns[0] += distance * distance;
  }
  *(memory *)sums = sum;
  *(memory *)squares = (turns[0] + turns[1]) + (turns[2] + turns[3]);
}

static void statistics_rows(const float *x, int64_t rows, int64_t channels, float *sums,
                            float *squares) {
  int64_t c = 0;
  for (; c + WIDTH <= channels; c += WIDTH)
    vector_statistics(x + c, rows, channels, sums + c, squares + c);
  for (; c < channels; ++c) {
    float sum = 0, square = 0;
    for (int64_t r = 0; r < rows; ++r)
      sum += x[r * channels + c];
    float mean = sum / (float)rows;
    for (int64_t r = 0; r < rows; ++r)
      square += (x[r * channels + c] - mean) * (x[r * channels + c] - mean);
    sums[c] = sum;
    squares[c] = square;
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

static void statistics_plane(const float *x, int64_t count, float *sum, float *square) {
  float sums[LANES] = {0}, squares[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int lane = 0; lane < LANES; ++lane)
      sums[lane] += x[i + lane];
  for (int lane = 0; i < count; ++i, ++lane)
    sums[lane] += x[i];
  float mean = total(sums) / (float)count;
  for (i = 0; i + LANES <= count; i += LANES)
    for (int lane = 0; lane < LANES; ++lane)
      squares[lane] += (x[i + lane] - mean) * (x[i + lane] - mean);
  for (int lane = 0; i < count; ++i, ++lane)
    squares[lane] += (x[i] - mean) * (x[i] - mean);
  *sum = total(sums);
  *square = total(squares);
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
    .statistics_rows = statistics_rows,
    .gradient_rows = gradient_rows,
    .normalize_rows = normalize_rows,
    .back_rows = back_rows,
    .statistics_plane = statistics_plane,
    .gradient_plane = gradient_plane,
    .normalize_plane = normalize_plane,
    .back_plane = back_plane,
};
