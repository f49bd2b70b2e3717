/* Random choices: Multinomial (classes by their logits), RandomShuffle (rows in random order) and
 * RandomCrop, with the stateless versions of the first two. */
#include <string.h>
#include "base/memory.h"
#include "kernels/loops/cast.h"
#include "kernels/loops/choice.h"
#include "kernels/shared/family.h"
#include "kernels/shared/random.h"

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
} multinomial_work;

static void read_logits(const dp_tensor *logits, int64_t first, int64_t count, double *to) {
  if (logits->dtype == DP_FLOAT) {
    dp_cast_table()->fn[DP_FLOAT][DP_DOUBLE]((const float *)logits->data + first, to, count);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    to[i] = dp_random_parameter(logits, first + i);
}

/* Replaces each weight by the sum up to it; returns the total. */
static double cumulate(double *weights, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) {
    total += weights[i];
    weights[i] = total;
  }
  return total;
}

/* The first class whose sum is larger. Without branches, because the path cannot be predicted. */
static int64_t find_class(const double *sums, int64_t classes, double wanted) {
  const double *at = sums;
  for (int64_t left = classes; left > 1;) {
    int64_t half = left / 2;
    at += half & -(int64_t) !(wanted < at[half - 1]);
    left -= half;
  }
  return at - sums + !(wanted < *at);
}

/* Uniform numbers, generated many at a time. */
typedef struct uniform_stream {
  dp_philox generator;
  int64_t left; /* groups of words that will still be asked for, besides those in memory */
  int used, made;
  uint32_t words[128];
} uniform_stream;

/* Numbers [first, first + count) of the generator, two words each. */
static void open_stream(uniform_stream *stream, const dp_philox *generator, int64_t first,
                        int64_t count) {
  stream->generator = *generator;
  dp_philox_skip(&stream->generator, (uint64_t)first / 2);
  stream->left = (first + count + 1) / 2 - first / 2;
  stream->used = stream->made = 0;
}

static void refill_stream(uniform_stream *stream) {
  const int64_t most = sizeof stream->words / sizeof stream->words[0] / 4;
  int64_t groups = stream->left < most ? stream->left : most;
  dp_philox_fill(&stream->generator, stream->words, groups);
  stream->left -= groups;
  stream->made = (int)groups * 4;
  stream->used = 0;
}

static double next_uniform(uniform_stream *stream) {
  if (stream->used == stream->made)
    refill_stream(stream);
  stream->used += 2;
  return dp_philox_double(stream->words[stream->used - 2], stream->words[stream->used - 1]);
}

static void choose_row(const multinomial_work *work, int64_t row, double *weights,
                       uniform_stream *stream) {
  double total = cumulate(weights, work->classes);
  for (int64_t i = row * work->samples; i < (row + 1) * work->samples; ++i) {
    int64_t found = find_class(weights, work->classes, next_uniform(stream) * total);
    dp_tensor_set_int(work->output, i, found);
  }
}

/* All rows read one stream. Weights of short rows are computed several rows at a time. */
static void choose_rows(void *arg, int64_t begin, int64_t end) {
  const multinomial_work *work = arg;
  int64_t classes = work->classes, most = classes < 512 ? 512 / classes : 1;
  double *weights = dp_malloc((size_t)(most * classes) * sizeof(double));
  uniform_stream stream;
  open_stream(&stream, &work->generator, begin * work->samples, (end - begin) * work->samples);
  if (begin * work->samples % 2)
    next_uniform(&stream); /* skips the half of a group that belongs to the range before */
  for (int64_t row = begin; row < end; row += most) {
    int64_t rows = end - row < most ? end - row : most;
    read_logits(work->logits, row * classes, rows * classes, weights);
    dp_choice_table()->weights(weights, rows, classes);
    for (int64_t i = 0; i < rows; ++i)
      choose_row(work, row + i, weights + i * classes, &stream);
  }
  dp_free(weights);
}

static dp_status *check_multinomial(const dp_tensor *logits, const dp_tensor *count) {
  if (logits->shape.rank != 2)
    return DP_INVALID("logits should be a matrix, got shape %s", dp_shape_text(&logits->shape));
  if (count->shape.rank != 0)
    return DP_INVALID("num_samples should be a scalar, got shape %s", dp_shape_text(&count->shape));
  int64_t samples = dp_tensor_int_at(count, 0);
  if (samples < 0)
    return DP_INVALID("num_samples should be non-negative, got %lld", (long long)samples);
  for (int i = 0; i < 2; ++i)
    if (logits->shape.dims[i] > INT32_MAX)
      return DP_INVALID("logits.shape = %s too large for int", dp_shape_text(&logits->shape));
  if (logits->shape.dims[1] == 0)
    return DP_INVALID("num_classes should be positive, got 0");
  return NULL;
}

static dp_status *multinomial_compute(dp_op_context *context, void *memory) {
  dp_random_source *source = memory;
  multinomial_work work = {.logits = dp_op_input(context, 0)};
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
  int64_t inner, bytes; /* per row */
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

/* Swaps each position with a random one at or after it. */
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
