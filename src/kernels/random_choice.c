/* Random choices: classes by their logits, permutations, and places of crops. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/families_internal.h"
#include "kernels/loops_unary_internal.h"
#include "kernels/random_internal.h"

static dp_status *choice_create(const dp_kernel_setup *setup, void *memory) {
  return dp_random_source_init(memory, setup);
}

static void choice_destroy(void *memory) {
  dp_random_source_deinit(memory);
}

/* ---- Classes by logits ---- */
typedef struct multinomial_work {
  dp_philox generator;
  const dp_tensor *logits;
  dp_tensor *output;
  int64_t classes, samples;
  dp_unary_fn exponentials; /* of doubles */
} multinomial_work;

static void read_logits(const dp_tensor *logits, int64_t first, int64_t count, double *to) {
  if (logits->dtype == DP_FLOAT) {
    const float *from = (const float *)logits->data + first;
    for (int64_t i = 0; i < count; ++i)
      to[i] = (double)from[i];
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    to[i] = dp_random_parameter(logits, first + i);
}

static inline double larger_finite(double best, double value) {
  double finite = value <= DBL_MAX ? value : -DBL_MAX;
  return finite > best ? finite : best;
}

/* Four at a time, so that none waits for the one before. */
static double largest_finite(const double *values, int64_t count) {
  double a = -DBL_MAX, b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    a = larger_finite(a, values[i]);
    b = larger_finite(b, values[i + 1]);
    c = larger_finite(c, values[i + 2]);
    d = larger_finite(d, values[i + 3]);
  }
  for (; i < count; ++i)
    a = larger_finite(a, values[i]);
  return fmax(fmax(a, b), fmax(c, d));
}

/* Sums of exp(logit - largest) over the finite logits so far; returns the total. */
static double cumulate(const multinomial_work *work, int64_t row, double *sums) {
  read_logits(work->logits, row * work->classes, work->classes, sums);
  double largest = largest_finite(sums, work->classes), total = 0;
  for (int64_t i = 0; i < work->classes; ++i)
    sums[i] = fabs(sums[i]) <= DBL_MAX ? sums[i] - largest : -INFINITY;
  work->exponentials(sums, sums, work->classes);
  for (int64_t i = 0; i < work->classes; ++i) {
    total += sums[i];
    sums[i] = total;
  }
  return total;
}

/* The first class whose sum is larger. */
static int64_t find_class(const double *sums, int64_t classes, double wanted) {
  int64_t low = 0, high = classes;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (wanted < sums[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* All rows read one stream, two words a sample. */
static void choose_rows(void *arg, int64_t begin, int64_t end) {
  const multinomial_work *work = arg;
  double *sums = dp_malloc((size_t)work->classes * sizeof(double));
  uint64_t first = (uint64_t)begin * (uint64_t)work->samples * 2;
  dp_philox generator = work->generator;
  dp_philox_skip(&generator, first / 4);
  dp_random_words words = dp_random_words_of(&generator);
  for (uint64_t i = 0; i < first % 4; ++i)
    dp_random_word(&words);
  for (int64_t row = begin; row < end; ++row) {
    double total = cumulate(work, row, sums);
    for (int64_t i = 0; i < work->samples; ++i) {
      int64_t found = find_class(sums, work->classes, dp_random_double(&words) * total);
      if (work->output->dtype == DP_INT32)
        ((int32_t *)work->output->data)[row * work->samples + i] = (int32_t)found;
      else
        ((int64_t *)work->output->data)[row * work->samples + i] = found;
    }
  }
  dp_free(sums);
}

static dp_status *check_multinomial(const dp_tensor *logits, const dp_tensor *count) {
  if (logits->shape.rank != 2)
    return DP_INVALID("logits should be a matrix, got shape %s", dp_shape_text(&logits->shape));
  if (count->shape.rank != 0)
    return DP_INVALID("num_samples should be a scalar, got shape %s", dp_shape_text(&count->shape));
  int64_t samples = dp_tensor_int_at(count, 0);
  if (samples < 0)
    return DP_INVALID("num_samples should be nonnegative, got %lld", (long long)samples);
  for (int i = 0; i < 2; ++i)
    if (logits->shape.dims[i] > INT32_MAX)
      return DP_INVALID("logits.shape = %s too large for int", dp_shape_text(&logits->shape));
  if (logits->shape.dims[1] == 0)
    return DP_INVALID("num_classes should be positive, got 0");
  return NULL;
}

static dp_status *multinomial_compute(dp_op_context *context, void *memory) {
  dp_random_source *source = memory;
  multinomial_work work = {.logits = dp_op_input(context, 0),
                           .exponentials = dp_unary_table()->fn[DP_UNARY_exp][DP_DOUBLE]};
  const dp_tensor *count = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(dp_random_source_check(context, source));
  DP_RETURN_IF_ERROR(check_multinomial(work.logits, count));
  int64_t rows = work.logits->shape.dims[0];
  work.classes = work.logits->shape.dims[1];
  work.samples = dp_tensor_int_at(count, 0);
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){rows, work.samples}, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &work.output));
  if (shape.elements == 0)
    return NULL;
  uint64_t reserved = (uint64_t)rows * (uint64_t)((work.samples + 3) / 4 * 4 * 2);
  DP_RETURN_IF_ERROR(
      dp_random_source_take(context, source, reserved * DP_RANDOM_RESERVED, &work.generator));
  dp_op_for(context, rows, work.classes * 10 + work.samples * 30, choose_rows, &work);
  return NULL;
}

/* ---- Permutations ---- */
typedef struct shuffle_work {
  const int32_t *order;
  const char *from;
  char *to;
  dp_dtype dtype;
  int64_t inner, bytes; /* of a row */
} shuffle_work;

static void copy_rows(void *arg, int64_t begin, int64_t end) {
  const shuffle_work *work = arg;
  bool is_plain = dp_dtype_is_plain(work->dtype);
  for (int64_t i = begin; i < end; ++i) {
    const char *from = work->from + work->order[i] * work->bytes;
    if (is_plain)
      memcpy(work->to + i * work->bytes, from, (size_t)work->bytes);
    else
      dp_tensor_copy_elements(work->dtype, work->to + i * work->bytes, from, work->inner);
  }
}

/* Exchanges each place with one at or behind it. */
static void permute(int32_t *order, int64_t count, const dp_philox *generator) {
  dp_random_words words = dp_random_words_of(generator);
  for (int64_t i = 0; i < count; ++i)
    order[i] = (int32_t)i;
  for (int64_t i = 0; i + 1 < count; ++i) {
    int64_t other = i + dp_random_word(&words) % (uint32_t)(count - i);
    int32_t held = order[i];
    order[i] = order[other];
    order[other] = held;
  }
}

static dp_status *shuffle_compute(dp_op_context *context, void *memory) {
  dp_random_source *source = memory;
  const dp_tensor *input = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(dp_random_source_check(context, source));
  int64_t count = input->shape.rank ? input->shape.dims[0] : 1;
  if (input->shape.elements <= 1 || count <= 1) {
    dp_op_pass(context, 0, 0);
    return NULL;
  }
  if (count > INT32_MAX)
    return DP_INVALID("cannot shuffle %lld rows", (long long)count);
  dp_tensor *output;
  dp_philox generator;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &input->shape, &output));
  DP_RETURN_IF_ERROR(
      dp_random_source_take(context, source, (uint64_t)(count - 1 + 3) / 4, &generator));
  int32_t *order = dp_try_malloc((size_t)count * sizeof *order);
  if (!order)
    return dp_status_out_of_memory();
  permute(order, count, &generator);
  int64_t inner = input->shape.elements / count;
  shuffle_work work = {order,        input->data, output->data,
                       input->dtype, inner,       inner * (int64_t)dp_dtype_size(input->dtype)};
  dp_op_for(context, count, 4 + work.bytes / 4, copy_rows, &work);
  dp_free(order);
  return NULL;
}

/* ---- Crops of images ---- */
static dp_status *check_crop(const dp_tensor *image, const dp_tensor *size) {
  if (image->shape.rank != 3)
    return DP_INVALID("input must be 3-dimensional%s", dp_shape_text(&image->shape));
  if (size->shape.rank != 1)
    return DP_INVALID("shape_t must be 1-dimensional%s", dp_shape_text(&size->shape));
  if (size->shape.elements != 2)
    return DP_INVALID("shape_t must have two elements%s", dp_shape_text(&size->shape));
  int64_t height = dp_tensor_int_at(size, 0), width = dp_tensor_int_at(size, 1);
  if (height < 0 || width < 0)
    return DP_INVALID("shape_t must not be negative: %lld x %lld", (long long)height,
                      (long long)width);
  if (image->shape.dims[1] < width)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "width must be >= target_width: width = %lld, target_width = %lld",
                            (long long)image->shape.dims[1], (long long)width);
  if (image->shape.dims[0] < height)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "height must be >= target_height: height = %lld, target_height = %lld",
                            (long long)image->shape.dims[0], (long long)height);
  return NULL;
}

static dp_status *crop_compute(dp_op_context *context, void *memory) {
  dp_random_source *source = memory;
  const dp_tensor *image = dp_op_input(context, 0), *size = dp_op_input(context, 1);
  DP_RETURN_IF_ERROR(check_crop(image, size));
  const int64_t *dims = image->shape.dims;
  int64_t height = dp_tensor_int_at(size, 0), width = dp_tensor_int_at(size, 1);
  dp_shape shape;
  DP_RETURN_IF_ERROR(dp_shape_make(3, (int64_t[]){height, width, dims[2]}, &shape));
  dp_tensor *output;
  dp_philox generator;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  DP_RETURN_IF_ERROR(dp_random_source_take(context, source, 1, &generator));
  dp_random_words words = dp_random_words_of(&generator);
  int64_t left = 0, top = 0;
  if (dims[1] > width)
    left = dp_random_word(&words) % (uint32_t)(dims[1] - width + 1);
  if (dims[0] > height)
    top = dp_random_word(&words) % (uint32_t)(dims[0] - height + 1);
  int64_t pixel = dims[2] * (int64_t)dp_dtype_size(image->dtype);
  for (int64_t y = 0; y < height && width * pixel > 0; ++y)
    memcpy((char *)output->data + y * width * pixel,
           (const char *)image->data + ((y + top) * dims[1] + left) * pixel,
           (size_t)(width * pixel));
  return NULL;
}

/* clang-format off */
#define CHOICE(name, attr, set, body)                                                              \
  {.op = name, .types = {{attr, set}}, .state_size = sizeof(dp_random_source),                     \
   .create = choice_create, .compute = body, .destroy = choice_destroy}

static const dp_kernel rows[] = {
    CHOICE("Multinomial", "T", DP_SET_FLOATS, multinomial_compute),
    CHOICE("StatelessMultinomial", "T", DP_SET_FLOATS, multinomial_compute),
    CHOICE("RandomShuffle", "T", DP_SET_ANY, shuffle_compute),
    CHOICE("StatelessShuffle", "T", DP_SET_ANY, shuffle_compute),
    CHOICE("RandomCrop", "T", DP_SET_REALS, crop_compute),
};
/* clang-format on */
DP_KERNEL_FAMILY(random_choice, rows);
