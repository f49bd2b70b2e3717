/* Images: MNIST's IDX files, with or without gzip, and CIFAR-10's binary batches. The sizes in a
 * file are not trusted: they are checked against limits, and memory is taken only for bytes that
 * have been read. Pixels stay bytes in memory and become floats from 0 to 1 in a batch. */
#include <inttypes.h>
#include <string.h>

#include "storage/stream.h"
#include "train/examples_internal.h"

enum { IDX_BYTES = 8, CIFAR_SIDE = 32, CIFAR_ROW = CIFAR_SIDE * CIFAR_SIDE * 3 };
static const int64_t MOST_BYTES = INT64_C(8) << 30;

/* ---- IDX: 0, 0, type, number of sizes, then the sizes as big-endian, then the elements ---- */
typedef struct idx_file {
  int64_t dims[EXAMPLE_DIMS];
  int dim_count;
  int64_t elements;
  uint8_t *bytes;
} idx_file;

static dp_status *check_length(uint64_t length, size_t got) {
  return got == length
             ? NULL
             : dp_status_create(DP_DATA_LOSS, "ends %" PRIu64 " bytes too early", length - got);
}

static dp_status *read_exactly(dp_input_stream *stream, void *to, size_t length) {
  size_t got;
  DP_RETURN_IF_ERROR(dp_input_stream_read(stream, to, length, &got));
  return check_length(length, got);
}

static dp_status *read_idx_stream(dp_input_stream *stream, idx_file *file) {
  uint8_t head[4], size[4];
  DP_RETURN_IF_ERROR(read_exactly(stream, head, sizeof(head)));
  if (head[0] || head[1] || head[2] != IDX_BYTES || head[3] < 1 || head[3] > EXAMPLE_DIMS)
    return dp_status_create(DP_DATA_LOSS,
                            "is no IDX file of bytes (it begins with %02x%02x%02x%02x)", head[0],
                            head[1], head[2], head[3]);
  file->dim_count = head[3];
  file->elements = 1;
  for (int i = 0; i < file->dim_count; i++) {
    DP_RETURN_IF_ERROR(read_exactly(stream, size, sizeof(size)));
    file->dims[i] = (int64_t)size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3];
    if (__builtin_mul_overflow(file->elements, file->dims[i], &file->elements) ||
        file->elements > MOST_BYTES)
      return dp_status_create(DP_DATA_LOSS, "says that it has more than %" PRId64 " bytes",
                              MOST_BYTES);
  }
  size_t got;
  void *bytes;
  DP_RETURN_IF_ERROR(dp_input_stream_read_new(stream, (uint64_t)file->elements, &bytes, &got));
  file->bytes = bytes;
  return check_length((uint64_t)file->elements, got);
}

static dp_status *read_idx(const char *path, idx_file *file) {
  dp_input_stream *stream;
  size_t length = strlen(path);
  bool packed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
  DP_RETURN_IF_ERROR(dp_input_stream_open(path, packed ? DP_COMPRESSION_GZIP : DP_COMPRESSION_NONE,
                                          DP_STREAM_BUFFER, &stream));
  dp_status *status = read_idx_stream(stream, file);
  dp_input_stream_close(stream);
  return dp_status_annotate(status, "%s", path);
}

static dp_status *join_idx(dp_examples *examples, const char *images_path, const char *labels_path,
                           idx_file *images, idx_file *labels) {
  DP_RETURN_IF_ERROR(read_idx(images_path, images));
  DP_RETURN_IF_ERROR(read_idx(labels_path, labels));
  if (labels->dim_count != 1 || labels->dims[0] != images->dims[0])
    return DP_INVALID("%s has %" PRId64 " images, %s has %" PRId64 " labels", images_path,
                      images->dims[0], labels_path, labels->elements);
  examples->dim_count = images->dim_count - 1;
  memcpy(examples->dims, images->dims + 1, (size_t)examples->dim_count * sizeof(int64_t));
  examples->row = images->dims[0] ? images->elements / images->dims[0] : 0;
  examples->y = dp_try_malloc((size_t)labels->elements * sizeof(int32_t) + 1);
  if (!examples->y)
    return dp_status_out_of_memory();
  for (int64_t i = 0; i < labels->elements; i++)
    ((int32_t *)examples->y)[i] = labels->bytes[i];
  examples->bytes = images->bytes;
  images->bytes = NULL;
  examples->count = images->dims[0];
  return NULL;
}

dp_examples *dp_examples_idx(const char *images, const char *labels, TF_Status *status) {
  dp_examples *examples = DP_NEW(dp_examples);
  examples->y_dtype = TF_INT32;
  idx_file image_file = {0}, label_file = {0};
  dp_status *error = join_idx(examples, images, labels, &image_file, &label_file);
  dp_free(image_file.bytes);
  dp_free(label_file.bytes);
  return dp_train_examples_finish(examples, error, status);
}

/* ---- CIFAR-10: a label and 3 planes of 32 x 32, again and again ---- */
static dp_status *read_cifar(const char *path, dp_examples *examples, int64_t *capacity) {
  dp_input_stream *stream;
  DP_RETURN_IF_ERROR(dp_input_stream_open(path, DP_COMPRESSION_NONE, DP_STREAM_BUFFER, &stream));
  uint8_t record[1 + CIFAR_ROW];
  size_t got = 0;
  dp_status *status;
  while (!(status = dp_input_stream_read(stream, record, sizeof(record), &got)) &&
         got == sizeof(record)) {
    if (examples->count == *capacity) {
      *capacity = *capacity ? 2 * *capacity : 10000;
      examples->bytes = dp_realloc(examples->bytes, (size_t)*capacity * CIFAR_ROW);
      examples->y = dp_realloc(examples->y, (size_t)*capacity * sizeof(int32_t));
    }
    uint8_t *x = examples->bytes + examples->count * CIFAR_ROW;
    for (int at = 0; at < CIFAR_SIDE * CIFAR_SIDE; at++)
      for (int color = 0; color < 3; color++)
        x[at * 3 + color] = record[1 + color * CIFAR_SIDE * CIFAR_SIDE + at];
    ((int32_t *)examples->y)[examples->count++] = record[0];
  }
  dp_input_stream_close(stream);
  if (!status && got > 0)
    status = dp_status_create(DP_DATA_LOSS, "%s ends inside a record", path);
  return status;
}

dp_examples *dp_examples_cifar(dp_strings paths, TF_Status *status) {
  dp_examples *examples = DP_NEW(dp_examples);
  *examples = (dp_examples){
      .y_dtype = TF_INT32, .dims = {CIFAR_SIDE, CIFAR_SIDE, 3}, .dim_count = 3, .row = CIFAR_ROW};
  dp_status *error = NULL;
  int64_t capacity = 0;
  for (int i = 0; i < paths.count && !error; i++)
    error = read_cifar(paths.items[i], examples, &capacity);
  return dp_train_examples_finish(examples, error, status);
}
