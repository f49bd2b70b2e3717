/* Datasets of files, read one after the other: TFRecord (records), TextLine (lines) and
 * FixedLengthRecord (pieces of one length between a header and a footer). An iterator has at most
 * one file open. It reads on the thread that walks. */
#include <string.h>
#include "base/log.h"
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "storage/record.h"

typedef enum file_kind { RECORDS, LINES, FIXED } file_kind;

typedef struct file_dataset {
  dp_dataset base;
  file_kind kind;
  dp_io_paths paths;
  int64_t *offsets; /* RECORDS: the offset at which each file begins; NULL: 0 */
  dp_compression compression;
  size_t buffer_size;
  int64_t header, record, footer; /* FIXED */
} file_dataset;

typedef struct file_iterator {
  dp_iterator base;
  size_t next_file;
  dp_record_reader *records;
  dp_input_stream *stream;
  dp_text line;
  uint64_t left; /* FIXED: bytes of records not read yet; UINT64_MAX: not known (compressed file) */
  dp_tstring ahead; /* FIXED, compressed: bytes read ahead that may be the footer */
} file_iterator;

static void close_file(file_iterator *iterator) {
  dp_record_reader_close(iterator->records);
  dp_input_stream_close(iterator->stream);
  iterator->records = NULL;
  iterator->stream = NULL;
}

/* ---- Opening the next file ---- */
static dp_status *skip(file_iterator *iterator, uint64_t count) {
  uint64_t skipped;
  return dp_input_stream_skip(iterator->stream, count, &skipped);
}

/* Checks that the file's size is header + n * record + footer. */
static dp_status *measure_fixed(const file_dataset *dataset, const char *path,
                                file_iterator *iterator) {
  if (dataset->compression != DP_COMPRESSION_NONE) {
    iterator->left = UINT64_MAX;
    return skip(iterator, (uint64_t)dataset->header);
  }
  dp_file *file;
  uint64_t size = 0;
  DP_RETURN_IF_ERROR(dp_file_open(path, DP_FILE_READ, &file));
  dp_status *status = dp_file_size(file, &size);
  dp_file_discard(file);
  DP_RETURN_IF_ERROR(status);
  uint64_t around = (uint64_t)dataset->header + (uint64_t)dataset->footer;
  int64_t body = (int64_t)(size - around);
  if (size < around || body % dataset->record != 0)
    return DP_INVALID("Excluding the header (%lld bytes) and footer (%lld bytes), input file "
                      "\"%s\" has body length %lld bytes, which is not an exact multiple of the "
                      "record length (%lld bytes).",
                      (long long)dataset->header, (long long)dataset->footer, path, (long long)body,
                      (long long)dataset->record);
  iterator->left = size - around;
  return skip(iterator, (uint64_t)dataset->header);
}

static dp_status *open_file(file_iterator *iterator, const file_dataset *dataset) {
  size_t index = iterator->next_file;
  const char *path = dataset->paths.items[index];
  if (dataset->kind == RECORDS) {
    DP_RETURN_IF_ERROR(dp_record_reader_open(path, dataset->compression, dataset->buffer_size,
                                             &iterator->records));
    return dataset->offsets
               ? dp_record_reader_skip(iterator->records, (uint64_t)dataset->offsets[index])
               : NULL;
  }
  DP_RETURN_IF_ERROR(
      dp_input_stream_open(path, dataset->compression, dataset->buffer_size, &iterator->stream));
  if (dataset->kind == FIXED) {
    dp_status *status = measure_fixed(dataset, path, iterator);
    if (status) {
      close_file(iterator);
      return status;
    }
  }
  return NULL;
}

/* ---- Reading ---- */
/* The size of a compressed file is not known before its end. So as many bytes as the footer has are
 * always held back. */
static dp_status *next_packed(file_iterator *iterator, const file_dataset *dataset, dp_tstring *to,
                              bool *more_out) {
  size_t wanted = (size_t)(dataset->record + dataset->footer), kept, count;
  dp_text bytes = {0};
  dp_view ahead = dp_tstring_view(&iterator->ahead);
  dp_text_append(&bytes, ahead.data, ahead.length);
  kept = bytes.length;
  char *chunk = dp_try_malloc(wanted + 1);
  dp_status *status = chunk ? dp_input_stream_read(iterator->stream, chunk, wanted - kept, &count)
                            : dp_status_out_of_memory();
  if (!status) {
    dp_text_append(&bytes, chunk, count);
    *more_out = bytes.length == wanted;
    if (*more_out) {
      status = dp_tstring_assign(to, bytes.data, (size_t)dataset->record);
      if (!status)
        status = dp_tstring_assign(&iterator->ahead, bytes.data + dataset->record,
                                   (size_t)dataset->footer);
    } else {
      dp_tstring_deinit(&iterator->ahead);
      iterator->ahead = (dp_tstring){0};
      if (bytes.length != (size_t)dataset->footer)
        status = dp_status_create(DP_DATA_LOSS,
                                  "Excpected file to have records of %lld bytes; it ends with %zu "
                                  "bytes too few",
                                  (long long)dataset->record, wanted - bytes.length);
    }
  }
  dp_free(chunk);
  dp_text_deinit(&bytes);
  return status;
}

static dp_status *next_fixed(file_iterator *iterator, const file_dataset *dataset, dp_tstring *to,
                             bool *more_out) {
  if (iterator->left == UINT64_MAX)
    return next_packed(iterator, dataset, to, more_out);
  if (iterator->left < (uint64_t)dataset->record)
    return NULL;
  char *data;
  size_t count;
  DP_RETURN_IF_ERROR(dp_tstring_resize(to, (size_t)dataset->record, &data));
  DP_RETURN_IF_ERROR(dp_input_stream_read(iterator->stream, data, (size_t)dataset->record, &count));
  if (count < (size_t)dataset->record)
    return dp_status_create(DP_DATA_LOSS, "a file became shorter while it was read");
  iterator->left -= (uint64_t)dataset->record;
  *more_out = true;
  return NULL;
}

static dp_status *next_of_file(file_iterator *iterator, const file_dataset *dataset, dp_tstring *to,
                               bool *more_out) {
  *more_out = false;
  if (dataset->kind == RECORDS)
    return dp_record_reader_next(iterator->records, to, more_out);
  if (dataset->kind == FIXED)
    return next_fixed(iterator, dataset, to, more_out);
  DP_RETURN_IF_ERROR(dp_input_stream_line(iterator->stream, &iterator->line, more_out));
  return *more_out ? dp_tstring_assign(to, dp_text_string(&iterator->line), iterator->line.length)
                   : NULL;
}

static dp_status *file_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  file_iterator *iterator = (file_iterator *)base;
  const file_dataset *dataset = (const file_dataset *)base->dataset;
  dp_shape shape = dp_shape_scalar();
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_STRING, &shape, &element[0]));
  for (;;) {
    if (!iterator->records && !iterator->stream) {
      if (iterator->next_file >= dataset->paths.count)
        return NULL;
      DP_RETURN_IF_ERROR(open_file(iterator, dataset)); /* a later call tries this file again */
      ++iterator->next_file;
    }
    dp_status *status = next_of_file(iterator, dataset, dp_tensor_strings(&element[0]), more_out);
    if (status && dataset->kind == RECORDS) /* a later call goes on with the next file */
      close_file(iterator);
    DP_RETURN_IF_ERROR(status);
    if (*more_out)
      return NULL;
    close_file(iterator);
  }
}

static void file_iterator_destroy(dp_iterator *base) {
  file_iterator *iterator = (file_iterator *)base;
  close_file(iterator);
  dp_text_deinit(&iterator->line);
  dp_tstring_deinit(&iterator->ahead);
}

static const dp_iterator_ops file_iterator_ops = {sizeof(file_iterator), file_next,
                                                  file_iterator_destroy};

static void file_destroy(dp_dataset *base) {
  dp_io_paths_deinit(&((file_dataset *)base)->paths);
  dp_free(((file_dataset *)base)->offsets);
}

static const dp_dataset_ops file_ops = {"File", &file_iterator_ops, NULL, file_destroy};

/* ---- Kernels ---- */
static dp_status *read_compression(dp_op_context *context, int32_t slot, dp_compression *out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("compression_type must be a scalar");
  dp_view text = dp_io_string(tensor, 0);
  if (!dp_compression_parse(text, out))
    return DP_INVALID("Unsupported compression_type: %.*s.", (int)text.length, text.data);
  return NULL;
}

dp_status *dp_dataset_record_compression(dp_op_context *context, int32_t slot,
                                         dp_compression *compression_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("compression_type must be a scalar");
  dp_view text = dp_io_string(tensor, 0);
  if (!dp_record_compression_parse(text, compression_out)) {
    DP_LOG(KERNELS, WARN, "Unsupported compression_type %.*s: taken for none", (int)text.length,
           text.data);
    *compression_out = DP_COMPRESSION_NONE;
  }
  return NULL;
}

static dp_status *check_names(dp_op_context *context) {
  const dp_tensor *names = dp_op_input(context, 0);
  if (names->shape.rank > 1)
    return DP_INVALID("`filenames` must be a scalar or a vector.");
  return NULL;
}

static dp_status *make_files(dp_op_context *context, file_dataset *settings) {
  file_dataset *dataset = dp_dataset_create(&file_ops, sizeof(file_dataset), NULL);
  settings->base = dataset->base;
  *dataset = *settings;
  dp_dtype dtype = DP_STRING;
  dp_partial_shape shape = {.rank = 0};
  dp_dataset_set_components(&dataset->base, 1, &dtype, &shape);
  dp_status *status = dp_io_paths_init(&dataset->paths, dp_op_input(context, 0));
  return dp_dataset_finish(context, &dataset->base, status);
}

static dp_status *buffer_size_of(dp_op_context *context, int32_t slot, size_t *size_out) {
  int64_t size;
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, slot, "buffer_size", &size));
  if (size < -1)
    return DP_INVALID("`buffer_size` must be >= 0 (0 == default)");
  *size_out = size <= 0 ? DP_STREAM_BUFFER : (size_t)size;
  return NULL;
}

static dp_status *record_compute(dp_op_context *context, void *state) {
  file_dataset settings = {.kind = RECORDS};
  DP_RETURN_IF_ERROR(check_names(context));
  DP_RETURN_IF_ERROR(dp_dataset_record_compression(context, 1, &settings.compression));
  DP_RETURN_IF_ERROR(buffer_size_of(context, 2, &settings.buffer_size));
  if (context->input_count > 3 && dp_tensor_elements(dp_op_input(context, 3)) > 0) {
    const dp_tensor *offsets = dp_op_input(context, 3);
    int64_t count = dp_tensor_elements(offsets);
    if (count != dp_tensor_elements(dp_op_input(context, 0)))
      return DP_INVALID("`byte_offsets` must be of same size as `filenames`");
    for (int64_t i = 0; i < count; ++i)
      if (((const int64_t *)offsets->data)[i] < 0)
        return DP_INVALID("`byte_offsets` must not be negative");
    settings.offsets = DP_NEW_ARRAY(int64_t, (size_t)count + 1);
    memcpy(settings.offsets, offsets->data, (size_t)count * sizeof(int64_t));
  }
  return make_files(context, &settings);
}

static dp_status *line_compute(dp_op_context *context, void *state) {
  file_dataset settings = {.kind = LINES};
  DP_RETURN_IF_ERROR(check_names(context));
  DP_RETURN_IF_ERROR(read_compression(context, 1, &settings.compression));
  DP_RETURN_IF_ERROR(buffer_size_of(context, 2, &settings.buffer_size));
  return make_files(context, &settings);
}

static dp_status *fixed_compute(dp_op_context *context, void *state) {
  file_dataset settings = {.kind = FIXED};
  DP_RETURN_IF_ERROR(check_names(context));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 1, "header_bytes", &settings.header));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 2, "record_bytes", &settings.record));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, 3, "footer_bytes", &settings.footer));
  if (settings.header < 0)
    return DP_INVALID("`header_bytes` must be >= 0");
  if (settings.record <= 0)
    return DP_INVALID("`record_bytes` must be > 0");
  if (settings.footer < 0)
    return DP_INVALID("`footer_bytes` must be >= 0");
  DP_RETURN_IF_ERROR(buffer_size_of(context, 4, &settings.buffer_size));
  if (context->input_count > 5)
    DP_RETURN_IF_ERROR(read_compression(context, 5, &settings.compression));
  return make_files(context, &settings);
}

static const dp_kernel rows[] = {
    {.op = "TFRecordDataset", .flags = DP_KERNEL_CHEAP, .compute = record_compute},
    {.op = "TFRecordDatasetV2", .flags = DP_KERNEL_CHEAP, .compute = record_compute},
    {.op = "TextLineDataset", .flags = DP_KERNEL_CHEAP, .compute = line_compute},
    {.op = "FixedLengthRecordDataset", .flags = DP_KERNEL_CHEAP, .compute = fixed_compute},
    {.op = "FixedLengthRecordDatasetV2", .flags = DP_KERNEL_CHEAP, .compute = fixed_compute},
};
DP_KERNEL_FAMILY(dataset_files, rows);
