/* Fills summaries (summary_internal.h): histograms in TensorFlow's exponential buckets, images as
 * PNG, sounds as WAV, tensors. The limits of the buckets are computed once per process; everything
 * else has no state. */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "kernels/codecs/codec.h"
#include "kernels/shared/io.h"
#include "kernels/summary/summary_internal.h"
#include "wire/control.h"
#include "wire/tensor_codec.h"

void dp_summary_init(dp_summary *summary) {
  *summary = (dp_summary){.arena = dp_arena_create()};
}

void dp_summary_deinit(dp_summary *summary) {
  dp_arena_destroy(summary->arena);
  DP_ARRAY_FREE(&summary->values);
}

Tensorflow__Summary dp_summary_message(const dp_summary *summary) {
  Tensorflow__Summary message = TENSORFLOW__SUMMARY__INIT;
  message.n_value = summary->values.count;
  message.value = summary->values.items;
  return message;
}

dp_status *dp_summary_output(const dp_summary *summary, dp_op_context *context) {
  Tensorflow__Summary message = dp_summary_message(summary);
  uint8_t *data;
  size_t length;
  DP_RETURN_IF_ERROR(dp_wire_pack_bytes(&message, summary->arena, &data, &length));
  return dp_io_output_string(context, 0, data, length);
}

Tensorflow__Summary__Value *dp_summary_add(dp_summary *summary, dp_view tag) {
  Tensorflow__Summary__Value *value =
      dp_wire_new(summary->arena, &tensorflow__summary__value__descriptor);
  value->tag = dp_arena_strndup(summary->arena, tag.data, tag.length);
  DP_ARRAY_PUSH(&summary->values, value);
  return value;
}

dp_status *dp_summary_number(const dp_tensor *tensor, int64_t index, double *value_out) {
  switch (tensor->dtype) {
  case DP_FLOAT:
    *value_out = ((const float *)tensor->data)[index];
    return NULL;
  case DP_DOUBLE:
    *value_out = ((const double *)tensor->data)[index];
    return NULL;
  case DP_HALF:
    *value_out = dp_half_to_float(((const uint16_t *)tensor->data)[index]);
    return NULL;
  case DP_BFLOAT16:
    *value_out = dp_bfloat16_to_float(((const uint16_t *)tensor->data)[index]);
    return NULL;
  case DP_COMPLEX64:
    *value_out = ((const float *)tensor->data)[2 * index];
    return NULL;
  case DP_COMPLEX128:
    *value_out = ((const double *)tensor->data)[2 * index];
    return NULL;
  case DP_UINT64:
    *value_out = (double)((const uint64_t *)tensor->data)[index];
    return NULL;
  default:
    if (!dp_dtype_is_integer(tensor->dtype) && tensor->dtype != DP_BOOL)
      return dp_status_create(DP_UNIMPLEMENTED, "SummaryFileWriter %s not supported.",
                              dp_dtype_name(tensor->dtype));
    *value_out = (double)dp_tensor_int_at(tensor, index);
    return NULL;
  }
}

/* ---- Histograms ---- */
#define SIDE_LIMIT 800
/* The positive limits grow by a tenth from 1e-12 to 1e20; the last one is DBL_MAX. The negative
 * limits mirror them, with zero between. */
static double side[SIDE_LIMIT];
static int side_count;
#define LIMIT_COUNT (2 * side_count + 1)

static double limit_at(int index) {
  return index < side_count   ? -side[side_count - 1 - index]
         : index > side_count ? side[index - side_count - 1]
                              : 0.0;
}

/* The cell of a magnitude is its exponent and the first four bits of its mantissa. Within a cell,
 * numbers grow by less than a tenth; so a cell contains at most one limit, and one comparison finds
 * the bucket. */
#define CELL_SHIFT 48
#define FIRST_CELL ((1023 - 41) << 4) /* below 1e-12 */
#define CELLS ((67 + 41 + 1) << 4)    /* to above 1e20 */
static uint16_t limits_before[CELLS]; /* limits below the cell's least number */

static double least_of_cell(int cell) {
  uint64_t bits = (uint64_t)(cell + FIRST_CELL) << CELL_SHIFT;
  double least;
  memcpy(&least, &bits, sizeof least);
  return least;
}

static void make_limits(void) {
  for (double v = 1.0e-12; v < 1.0e20; v *= 1.1)
    side[side_count++] = v;
  side[side_count++] = DBL_MAX;
  for (int cell = 0, count = 0; cell < CELLS; ++cell) {
    while (side[count] < least_of_cell(cell))
      ++count;
    limits_before[cell] = (uint16_t)count;
  }
}

/* The bucket that ends with the first limit above the (finite) value. Without branches, because the
 * signs of values cannot be predicted. */
static inline int bucket_of(double value) {
  double magnitude = fabs(value);
  uint64_t bits;
  memcpy(&bits, &magnitude, sizeof bits);
  int64_t cell = (int64_t)(bits >> CELL_SHIFT) - FIRST_CELL;
  cell = cell < 0 ? 0 : cell > CELLS - 1 ? CELLS - 1 : cell;
  int before = limits_before[cell];
  int below_zero = side_count - before - (side[before] < magnitude);
  int above_zero = side_count + 1 + before + (side[before] <= magnitude);
  int bucket = value < 0 ? below_zero : above_zero;
  return bucket < LIMIT_COUNT ? bucket : LIMIT_COUNT - 1;
}

static dp_status *read_numbers(const dp_tensor *tensor, int64_t begin, int64_t count,
                               double *numbers) {
  if (tensor->dtype == DP_FLOAT) {
    const float *from = (const float *)tensor->data + begin;
    for (int64_t i = 0; i < count; ++i)
      numbers[i] = from[i];
    return NULL;
  }
  for (int64_t i = 0; i < count; ++i)
    DP_RETURN_IF_ERROR(dp_summary_number(tensor, begin + i, &numbers[i]));
  return NULL;
}

static dp_status *count_numbers(const double *numbers, int64_t count,
                                const dp_histogram_words *words,
                                Tensorflow__HistogramProto *histogram, double *buckets) {
  double least = histogram->min, most = histogram->max;
  double sum = histogram->sum, sum_squares = histogram->sum_squares;
  for (int64_t i = 0; i < count; ++i) {
    double value = numbers[i];
    if (!isfinite(value))
      return isnan(value) ? DP_INVALID("Nan in summary histogram for: %s", words->owner)
                          : DP_INVALID("Infinity in %s for: %s", words->infinity_in, words->owner);
    buckets[bucket_of(value)] += 1.0;
    least = value < least ? value : least;
    most = value > most ? value : most;
    sum += value;
    sum_squares += value * value;
  }
  histogram->min = least;
  histogram->max = most;
  histogram->sum = sum;
  histogram->sum_squares = sum_squares;
  histogram->num += (double)count;
  return NULL;
}

static dp_status *fill_histogram(const dp_tensor *values, const dp_histogram_words *words,
                                 Tensorflow__HistogramProto *histogram, double *buckets) {
  double numbers[512];
  int64_t most = sizeof numbers / sizeof *numbers, total = dp_tensor_elements(values);
  histogram->min = DBL_MAX;
  histogram->max = -DBL_MAX;
  for (int64_t begin = 0; begin < total; begin += most) {
    int64_t count = total - begin < most ? total - begin : most;
    DP_RETURN_IF_ERROR(read_numbers(values, begin, count, numbers));
    DP_RETURN_IF_ERROR(count_numbers(numbers, count, words, histogram, buckets));
  }
  return NULL;
}

/* Lists all buckets; a run of empty ones becomes one. */
static void list_buckets(const double *buckets, Tensorflow__HistogramProto *histogram) {
  size_t count = 0;
  for (int i = 0; i < LIMIT_COUNT; ++count) {
    int last = i;
    while (buckets[i] <= 0.0 && last + 1 < LIMIT_COUNT && buckets[last + 1] <= 0.0)
      ++last;
    histogram->bucket_limit[count] = limit_at(last);
    histogram->bucket[count] = buckets[i];
    i = last + 1;
  }
  histogram->n_bucket_limit = histogram->n_bucket = count;
}

dp_status *dp_summary_add_histogram(dp_summary *summary, dp_view tag, const dp_tensor *values,
                                    dp_histogram_words words) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_limits);
  size_t bytes = (size_t)LIMIT_COUNT * sizeof(double);
  double *buckets = dp_arena_allocate_zero(summary->arena, bytes);
  Tensorflow__HistogramProto *histogram =
      dp_wire_new(summary->arena, &tensorflow__histogram_proto__descriptor);
  DP_RETURN_IF_ERROR(fill_histogram(values, &words, histogram, buckets));
  histogram->bucket_limit = dp_arena_allocate(summary->arena, bytes);
  histogram->bucket = dp_arena_allocate(summary->arena, bytes);
  list_buckets(buckets, histogram);
  Tensorflow__Summary__Value *value = dp_summary_add(summary, tag);
  value->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_HISTO;
  value->histo = histogram;
  return NULL;
}

/* ---- Images ---- */
/* Rounds a number to the tensor's dtype, as arithmetic in that dtype would. */
static double in_type(dp_dtype dtype, double value) {
  return dtype == DP_HALF    ? dp_half_to_float(dp_half_from_float((float)value))
         : dtype == DP_FLOAT ? (float)value
                             : value;
}

static double value_at(const dp_tensor *tensor, int64_t index) {
  double value = 0;
  dp_status_release(dp_summary_number(tensor, index, &value));
  return value;
}

static bool is_finite_pixel(const dp_tensor *images, int64_t first, int channels) {
  for (int i = 0; i < channels; ++i)
    if (!isfinite(value_at(images, first + i)))
      return false;
  return true;
}

/* How values become bytes: [0, largest] to [0, 255], or around 128 if there are negative values. */
typedef struct byte_scale {
  double scale, offset;
} byte_scale;

static byte_scale scale_of(dp_dtype dtype, float least, float most) {
  float largest = fabsf(least) > fabsf(most) ? fabsf(least) : fabsf(most);
  bool is_signed = least < 0;
  float range = is_signed ? largest : most;
  return (byte_scale){in_type(dtype, range < 1e-6f ? 0.0f : (is_signed ? 127.0f : 255.0f) / range),
                      is_signed ? 128.0 : 0.0};
}

static bool are_finite(const float *values, int count) {
  float sum = 0;
  for (int i = 0; i < count; ++i)
    sum += values[i] * 0; /* NaN if a value is not finite */
  return sum == 0;
}

typedef struct value_range {
  float least, most;
} value_range;

static void widen(value_range *range, float value) {
  range->least = value < range->least ? value : range->least;
  range->most = value > range->most ? value : range->most;
}

#define LANES 16
/* The range of all values; false when one is not finite. Lanes let compilers vectorize it. */
static bool find_range(const float *from, int64_t count, value_range *range) {
  float least[LANES], most[LANES];
  int is_bad[LANES] = {0};
  for (int k = 0; k < LANES; ++k) {
    least[k] = INFINITY;
    most[k] = -INFINITY;
  }
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES)
    for (int k = 0; k < LANES; ++k) {
      float value = from[i + k];
      least[k] = value < least[k] ? value : least[k];
      most[k] = value > most[k] ? value : most[k];
      is_bad[k] |= !(fabsf(value) <= FLT_MAX);
    }
  int bad = !are_finite(from + i, (int)(count - i));
  for (; i < count; ++i)
    widen(range, from[i]);
  for (int k = 0; k < LANES; ++k) {
    range->least = least[k] < range->least ? least[k] : range->least;
    range->most = most[k] > range->most ? most[k] : range->most;
    bad |= is_bad[k];
  }
  return !bad;
}

static inline uint8_t to_byte(float value, float scale, float offset) {
  float moved = value * scale + offset;
  return (uint8_t)(int)(moved < 0 ? 0 : moved > 255 ? 255 : moved);
}

/* The fast path for images of floats, which nearly all are; same results as the general one
 * below. */
static void normalize_floats(const float *from, int64_t pixels, int channels,
                             const uint8_t *bad_color, uint8_t *restrict to) {
  value_range range = {INFINITY, -INFINITY};
  bool is_fine = find_range(from, pixels * channels, &range);
  if (!is_fine) {
    range = (value_range){INFINITY, -INFINITY};
    for (int64_t i = 0; i < pixels; ++i)
      for (int j = 0; are_finite(from + i * channels, channels) && j < channels; ++j)
        widen(&range, from[i * channels + j]);
  }
  byte_scale wide = scale_of(DP_FLOAT, range.least, range.most);
  float scale = (float)wide.scale, offset = (float)wide.offset;
  int64_t i = 0, count = pixels * channels;
  for (; i + LANES <= count; i += LANES)
    for (int k = 0; k < LANES; ++k)
      to[i + k] = to_byte(from[i + k], scale, offset);
  for (; i < count; ++i)
    to[i] = to_byte(from[i], scale, offset);
  for (i = 0; i < pixels && !is_fine; ++i)
    if (!are_finite(from + i * channels, channels))
      memcpy(to + i * channels, bad_color, (size_t)channels);
}

static void normalize(const dp_tensor *images, int64_t first, int64_t pixels, int channels,
                      const uint8_t *bad_color, uint8_t *to) {
  float least = INFINITY, most = -INFINITY;
  for (int64_t i = 0; i < pixels; ++i) {
    if (!is_finite_pixel(images, first + i * channels, channels))
      continue;
    for (int j = 0; j < channels; ++j) {
      float value = (float)value_at(images, first + i * channels + j);
      least = value < least ? value : least;
      most = value > most ? value : most;
    }
  }
  byte_scale scale = scale_of(images->dtype, least, most);
  for (int64_t i = 0; i < pixels; ++i) {
    int64_t at = first + i * channels;
    bool is_fine = is_finite_pixel(images, at, channels);
    for (int j = 0; j < channels; ++j) {
      if (!is_fine) {
        to[i * channels + j] = bad_color[j];
        continue;
      }
      double scaled = in_type(images->dtype, value_at(images, at + j) * scale.scale);
      double moved = in_type(images->dtype, scaled + scale.offset);
      to[i * channels + j] = (uint8_t)(int)(moved < 0 ? 0 : moved > 255 ? 255 : moved);
    }
  }
}

static dp_status *check_images(const dp_tensor *images, const dp_tensor *bad_color) {
  const int64_t *dims = images->shape.dims;
  if (images->shape.rank != 4 || (dims[3] != 1 && dims[3] != 3 && dims[3] != 4))
    return DP_INVALID("Tensor must be 4-D with last dim 1, 3, or 4, not %s",
                      dp_shape_text(&images->shape));
  if (dims[0] >= (1LL << 31) || dims[1] >= (1LL << 31) || dims[2] >= (1LL << 31) ||
      dims[1] * dims[2] >= (1LL << 29))
    return DP_INVALID("Tensor too large for summary %s", dp_shape_text(&images->shape));
  if (dims[1] * dims[2] == 0)
    return DP_INVALID("input tensor must have non-zero dims. Found: [%lld, %lld, %lld, %lld].",
                      (long long)dims[0], (long long)dims[1], (long long)dims[2],
                      (long long)dims[3]);
  if (images->dtype != DP_UINT8 && images->dtype != DP_HALF && images->dtype != DP_FLOAT &&
      images->dtype != DP_DOUBLE)
    return DP_INVALID("Only DT_INT8, DT_HALF, DT_DOUBLE, and DT_FLOAT images are supported. Got %s",
                      dp_dtype_name(images->dtype));
  if (images->dtype != DP_UINT8 && dp_tensor_elements(bad_color) < dims[3])
    return DP_INVALID("expected depth <= bad_color.size, got depth = %lld, bad_color.size = %lld",
                      (long long)dims[3], (long long)dp_tensor_elements(bad_color));
  return NULL;
}

/* "tag/image/3", or "tag/image" when only one was asked for. */
static Tensorflow__Summary__Value *add_numbered(dp_summary *summary, dp_view tag, const char *kind,
                                                int32_t most, int32_t index) {
  dp_text name = {0};
  dp_text_append(&name, tag.data, tag.length);
  dp_text_printf(&name, "/%s", kind);
  if (most > 1)
    dp_text_printf(&name, "/%d", index);
  Tensorflow__Summary__Value *value = dp_summary_add(summary, (dp_view){name.data, name.length});
  dp_text_deinit(&name);
  return value;
}

static void set_bytes(dp_summary *summary, const dp_text *from, ProtobufCBinaryData *to) {
  to->data = (uint8_t *)dp_arena_strndup(summary->arena, from->data, from->length);
  to->len = from->length;
}

dp_status *dp_summary_add_images(dp_summary *summary, dp_view tag, const dp_tensor *images,
                                 int32_t most, const dp_tensor *bad_color) {
  DP_RETURN_IF_ERROR(check_images(images, bad_color));
  const int64_t *dims = images->shape.dims;
  int channels = (int)dims[3];
  int64_t pixels = dims[1] * dims[2], size = pixels * channels;
  uint8_t *bytes = dp_try_malloc((size_t)size);
  if (!bytes)
    return dp_status_out_of_memory();
  dp_status *status = NULL;
  for (int32_t i = 0; i < most && i < dims[0] && !status; ++i) {
    const uint8_t *from = bytes;
    if (images->dtype == DP_UINT8)
      from = (const uint8_t *)images->data + i * size;
    else if (images->dtype == DP_FLOAT)
      normalize_floats((const float *)images->data + i * size, pixels, channels, bad_color->data,
                       bytes);
    else
      normalize(images, i * size, pixels, channels, bad_color->data, bytes);
    Tensorflow__Summary__Value *value = add_numbered(summary, tag, "image", most, i);
    value->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_IMAGE;
    value->image = dp_wire_new(summary->arena, &tensorflow__summary__image__descriptor);
    value->image->height = (int32_t)dims[1];
    value->image->width = (int32_t)dims[2];
    value->image->colorspace = channels;
    dp_text png = {0};
    status = dp_png_encode(from, dims[2], dims[1], channels, 8, DP_PNG_ANY_BYTES, &png);
    if (!status)
      set_bytes(summary, &png, &value->image->encoded_image_string);
    dp_text_deinit(&png);
  }
  dp_free(bytes);
  return status;
}

/* ---- Sounds ---- */
dp_status *dp_summary_add_audio(dp_summary *summary, dp_view tag, const dp_tensor *sounds,
                                int32_t most, float rate) {
  if (!(rate > 0.0f))
    return DP_INVALID("sample_rate must be > 0");
  int64_t frames = sounds->shape.dims[1];
  int64_t channels = sounds->shape.rank == 2 ? 1 : sounds->shape.dims[2];
  for (int32_t i = 0; i < most && i < sounds->shape.dims[0]; ++i) {
    Tensorflow__Summary__Value *value = add_numbered(summary, tag, "audio", most, i);
    value->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_AUDIO;
    value->audio = dp_wire_new(summary->arena, &tensorflow__summary__audio__descriptor);
    value->audio->sample_rate = rate;
    value->audio->num_channels = channels;
    value->audio->length_frames = frames;
    value->audio->content_type = "audio/wav";
    long rounded = lrintf(rate);
    dp_text wav = {0};
    dp_status *status = dp_wav_encode((const float *)sounds->data + i * frames * channels,
                                      rounded <= 0 ? 1 : (uint64_t)rounded, (uint64_t)channels,
                                      (uint64_t)frames, &wav);
    if (!status)
      set_bytes(summary, &wav, &value->audio->encoded_audio_string);
    dp_text_deinit(&wav);
    DP_RETURN_IF_ERROR(status);
  }
  return NULL;
}

/* ---- Tensors and other summaries ---- */
dp_status *dp_summary_add_tensor(dp_summary *summary, dp_view tag, const dp_tensor *tensor,
                                 dp_view metadata) {
  Tensorflow__Summary__Value *value = dp_summary_add(summary, tag);
  dp_rope rope = {0};
  dp_status *status = dp_wire_encode_tensor(tensor, &rope);
  if (!status) {
    value->value_case = TENSORFLOW__SUMMARY__VALUE__VALUE_TENSOR;
    value->tensor.data = dp_arena_allocate(summary->arena, rope.length + 1);
    value->tensor.len = rope.length;
    dp_rope_flatten(&rope, value->tensor.data);
  }
  dp_rope_deinit(&rope);
  DP_RETURN_IF_ERROR(status);
  if (metadata.length == 0)
    return NULL;
  /* As in TensorFlow, metadata that cannot be parsed are left out. */
  dp_status_release(dp_wire_unpack_bytes(&tensorflow__summary_metadata__descriptor, metadata.data,
                                         metadata.length, summary->arena, &value->metadata));
  return NULL;
}

dp_status *dp_summary_add_bytes(dp_summary *summary, dp_view bytes) {
  Tensorflow__Summary *message;
  dp_status *status = dp_wire_unpack_bytes(&tensorflow__summary__descriptor, bytes.data,
                                           bytes.length, summary->arena, &message);
  if (status) {
    dp_status_release(status);
    return DP_INVALID("Could not parse one of the summary inputs");
  }
  for (size_t i = 0; i < message->n_value; ++i)
    DP_ARRAY_PUSH(&summary->values, message->value[i]);
  return NULL;
}
