/* The ops of KMeans: NearestNeighbors finds the nearest centers of points;
 * KmeansPlusPlusInitialization and KMC2ChainInitialization choose first centers at random.
 * Distances are squared. Half of a distance is |x|²/2 - <x, y> + |y|²/2, so that norms are computed
 * once. Random numbers are drawn as in TensorFlow. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "kernels/shared/random.h"

/* The dot product of two vectors, in eight sums that compilers can vectorize. */
static float dot(const float *a, const float *b, int64_t count) {
  float sums[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int j = 0; j < 8; ++j)
      sums[j] += a[i + j] * b[i + j];
  float sum =
      ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; i < count; ++i)
    sum += a[i] * b[i];
  return sum;
}

static void half_norms(const dp_tensor *matrix, float *to) {
  int64_t width = matrix->shape.dims[1];
  const float *rows = matrix->data;
  for (int64_t i = 0; i < matrix->shape.dims[0]; ++i)
    to[i] = 0.5f * dot(rows + i * width, rows + i * width, width);
}

/* ---- NearestNeighbors ---- */
typedef struct neighbor_call {
  const dp_tensor *points, *centers;
  const float *half_norms; /* of the centers */
  int64_t k;
  int64_t *indices;
  float *distances;
} neighbor_call;

/* Keeps the `k` least distances offered so far, in order; of equal ones the first. */
static void offer(const neighbor_call *call, int64_t *indices, float *distances, int64_t *count,
                  int64_t index, float distance) {
  if (*count == call->k && !(distance < distances[call->k - 1]))
    return;
  int64_t at = *count < call->k ? (*count)++ : call->k - 1;
  for (; at > 0 && distance < distances[at - 1]; --at) {
    distances[at] = distances[at - 1];
    indices[at] = indices[at - 1];
  }
  distances[at] = distance;
  indices[at] = index;
}

static void find_neighbors(void *arg, int64_t begin, int64_t end) {
  const neighbor_call *call = arg;
  int64_t width = call->points->shape.dims[1], centers = call->centers->shape.dims[0];
  for (int64_t i = begin; i < end; ++i) {
    const float *point = (const float *)call->points->data + i * width;
    const float *center = call->centers->data;
    int64_t *indices = call->indices + i * call->k, count = 0;
    float *distances = call->distances + i * call->k;
    for (int64_t j = 0; j < centers; ++j, center += width)
      offer(call, indices, distances, &count, j, call->half_norms[j] - dot(point, center, width));
    float half_norm = 0.5f * dot(point, point, width);
    for (int64_t j = 0; j < call->k; ++j)
      distances[j] = 2 * (half_norm + distances[j]);
  }
}

static dp_status *check_neighbors(const dp_tensor *points, const dp_tensor *centers,
                                  const dp_tensor *k) {
  if (points->shape.rank != 2)
    return DP_INVALID("Input points should be a matrix.");
  if (centers->shape.rank != 2)
    return DP_INVALID("Input centers should be a matrix.");
  if (k->shape.rank != 0)
    return DP_INVALID("Input k should be a scalar.");
  if (points->shape.dims[0] <= 0)
    return DP_INVALID("Expected points.rows() > 0.");
  if (points->shape.dims[1] != centers->shape.dims[1])
    return DP_INVALID("Expected point_dimensions == center_dimensions: %lld vs %lld.",
                      (long long)points->shape.dims[1], (long long)centers->shape.dims[1]);
  if (dp_tensor_int_at(k, 0) < 0)
    return DP_INVALID("Expected k >= 0.");
  return NULL;
}

static dp_status *neighbors_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *points = dp_op_input(context, 0), *centers = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_neighbors(points, centers, dp_op_input(context, 2)));
  int64_t k = dp_tensor_int_at(dp_op_input(context, 2), 0), count = centers->shape.dims[0];
  k = k < count ? k : count;
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){points->shape.dims[0], k}, &shape));
  dp_tensor *indices, *distances;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &distances));
  if (k == 0)
    return NULL;
  dp_buffer *norms;
  DP_RETURN_IF_ERROR(dp_buffer_create((size_t)count * sizeof(float), &norms));
  half_norms(centers, norms->data);
  neighbor_call call = {points, centers, norms->data, k, indices->data, distances->data};
  dp_op_for(context, points->shape.dims[0], count * (points->shape.dims[1] / 4 + 4), find_neighbors,
            &call);
  dp_buffer_release(norms);
  return NULL;
}

/* ---- KmeansPlusPlusInitialization ---- */
/* Draws points with a probability proportional to their distance from the points chosen so far.
 * Each time it tries several points, and takes the one that leaves the least sum of distances. */
typedef struct chooser {
  const dp_tensor *points;
  int64_t count, width, chosen;
  float *half_norms, *distances, *sums, *trial, *best; /* one per point; `sums` are running sums */
  bool *is_chosen;
  dp_random_words words;
} chooser;

/* After this many draws of points that are already chosen, only numerical noise is left. */
#define MAX_DRAWS 10000

/* The first position whose running sum is above `value`. */
static int64_t upper_bound(const float *sums, int64_t count, float value) {
  int64_t begin = 0, end = count;
  while (begin < end) {
    int64_t middle = (begin + end) / 2;
    if (value < sums[middle])
      end = middle;
    else
      begin = middle + 1;
  }
  return begin < count ? begin : count - 1;
}

static int64_t draw_point(chooser *chooser) {
  if (!chooser->chosen)
    return (int64_t)dp_random_below64(&chooser->words, (uint64_t)chooser->count);
  float total = chooser->sums[chooser->count - 1];
  int64_t index = 0, draws = 0;
  do {
    if (total > 0 && draws++ < MAX_DRAWS)
      index = upper_bound(chooser->sums, chooser->count,
                          dp_philox_float(dp_random_word(&chooser->words)) * total);
    else
      index = (int64_t)dp_random_below64(&chooser->words, (uint64_t)chooser->count);
  } while (chooser->is_chosen[index]);
  return index;
}

/* The distances if point `index` were chosen too; returns their sum. */
static float try_point(const chooser *chooser, int64_t index) {
  const float *points = chooser->points->data, *point = points + index * chooser->width;
  float sum = 0;
  for (int64_t i = 0; i < chooser->count; ++i) {
    float product = dot(points + i * chooser->width, point, chooser->width);
    float distance = chooser->half_norms[i] - product + chooser->half_norms[index];
    chooser->trial[i] = distance < chooser->distances[i] ? distance : chooser->distances[i];
    sum += chooser->trial[i];
  }
  return sum;
}

static void exchange(float **a, float **b) {
  float *other = *a;
  *a = *b;
  *b = other;
}

static int64_t choose_point(chooser *chooser, int64_t tries) {
  float least = INFINITY;
  int64_t best = 0;
  for (int64_t i = 0; i < tries; ++i) {
    int64_t index = draw_point(chooser);
    float sum = try_point(chooser, index);
    if (sum < least || tries == 1) {
      least = sum;
      best = index;
      exchange(&chooser->best, &chooser->trial);
    }
  }
  exchange(&chooser->distances, &chooser->best);
  return best;
}

static void choose_points(chooser *chooser, int64_t count, int64_t tries, float *to) {
  for (int64_t i = 0; i < chooser->count; ++i) {
    chooser->distances[i] = chooser->best[i] = INFINITY;
    chooser->is_chosen[i] = false;
  }
  half_norms(chooser->points, chooser->half_norms);
  for (; chooser->chosen < count; to += chooser->width) {
    float sum = 0;
    for (int64_t i = 0; chooser->chosen && i < chooser->count; ++i)
      chooser->sums[i] = sum += chooser->distances[i];
    int64_t next = choose_point(chooser, tries);
    memcpy(to, (const float *)chooser->points->data + next * chooser->width,
           (size_t)chooser->width * sizeof(float));
    chooser->is_chosen[next] = true;
    ++chooser->chosen;
  }
}

static dp_status *check_choice(dp_op_context *context) {
  static const char *const names[] = {NULL, "num_to_sample", "seed", "num_retries_per_sample"};
  const dp_tensor *points = dp_op_input(context, 0);
  if (points->shape.rank != 2)
    return DP_INVALID("Input points should be a matrix.");
  for (int32_t i = 1; i < 4; ++i)
    if (dp_op_input(context, i)->shape.rank != 0)
      return DP_INVALID("Input %s should be a scalar.", names[i]);
  int64_t count = points->shape.dims[0], wanted = dp_tensor_int_at(dp_op_input(context, 1), 0);
  if (count <= 0)
    return DP_INVALID("Expected points.rows() > 0.");
  if (wanted <= 0)
    return DP_INVALID("Expected num_to_sample > 0.");
  if (wanted > count)
    return DP_INVALID("Expected num_to_sample <= points.rows(). %lld vs %lld.", (long long)wanted,
                      (long long)count);
  return NULL;
}

static dp_status *choose_compute(dp_op_context *context, void *memory) {
  (void)memory;
  DP_RETURN_IF_ERROR(check_choice(context));
  const dp_tensor *points = dp_op_input(context, 0);
  int64_t wanted = dp_tensor_int_at(dp_op_input(context, 1), 0);
  int64_t seed = dp_tensor_int_at(dp_op_input(context, 2), 0);
  int64_t retries = dp_tensor_int_at(dp_op_input(context, 3), 0);
  retries = retries >= 0 ? retries : 2 + (int64_t)log((double)wanted);
  chooser chooser = {
      .points = points, .count = points->shape.dims[0], .width = points->shape.dims[1]};
  dp_shape shape = dp_shape_matrix(wanted, chooser.width);
  dp_tensor *output;
  dp_buffer *buffer;
  size_t count = (size_t)chooser.count;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  DP_RETURN_IF_ERROR(dp_buffer_create(count * (5 * sizeof(float) + sizeof(bool)), &buffer));
  chooser.half_norms = buffer->data;
  chooser.distances = chooser.half_norms + count;
  chooser.sums = chooser.distances + count;
  chooser.trial = chooser.sums + count;
  chooser.best = chooser.trial + count;
  chooser.is_chosen = (bool *)(chooser.best + count);
  dp_philox generator = dp_philox_seed((uint64_t)seed, 0);
  chooser.words = dp_random_words_of(&generator);
  choose_points(&chooser, wanted, retries < INT32_MAX ? 1 + retries : INT32_MAX, output->data);
  dp_buffer_release(buffer);
  return NULL;
}

/* ---- KMC2ChainInitialization ---- */
static dp_status *chain_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *distances = dp_op_input(context, 0), *seed = dp_op_input(context, 1);
  if (distances->shape.rank != 1)
    return DP_INVALID("Input distances should be a vector.");
  if (seed->shape.rank != 0)
    return DP_INVALID("Input seed should be a scalar.");
  if (distances->shape.elements <= 0)
    return DP_INVALID("Expected distances_tensor.size() > 0.");
  dp_philox generator = dp_philox_seed((uint64_t)dp_tensor_int_at(seed, 0), 0);
  dp_random_words words = dp_random_words_of(&generator);
  const float *distance = distances->data;
  int64_t selected = 0;
  for (int64_t i = 1; i < distances->shape.elements; ++i)
    if (distance[i] > dp_philox_float(dp_random_word(&words)) * distance[selected])
      selected = i;
  return dp_op_output_int64(context, 0, selected);
}

static const dp_kernel rows[] = {
    {.op = "NearestNeighbors", .compute = neighbors_compute},
    {.op = "KmeansPlusPlusInitialization", .compute = choose_compute},
    {.op = "KMC2ChainInitialization", .compute = chain_compute},
};
DP_KERNEL_FAMILY(clustering, rows);
