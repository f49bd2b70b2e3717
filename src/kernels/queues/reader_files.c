/* The files that readers read: text lines, records of one length, TFRecords, whole files, or only
 * the name (identity). The contracts are in reader_internal.h. A file has one user at a time;
 * reading blocks. */
#include <inttypes.h>
#include <string.h>
#include "kernels/queues/reader_internal.h"

bool dp_reader_is_single(const dp_reader_options *options) {
  return options->kind == DP_READER_IDENTITY || options->kind == DP_READER_WHOLE;
}

void dp_reader_close(dp_reader_file *file) {
  dp_record_reader_close(file->records);
  dp_input_stream_close(file->stream);
  file->records = NULL;
  file->stream = NULL;
  dp_status_release(file->damage);
  file->damage = NULL;
  dp_text_clear(&file->ahead);
  file->number = 0;
}

/* ---- Opening ---- */
/* A file with fewer lines than must be skipped is at its end. */
static dp_status *skip_lines(const dp_reader_options *options, dp_reader_file *file) {
  bool more = true;
  for (; more && file->number < options->skip_lines; file->number += more)
    DP_RETURN_IF_ERROR(dp_input_stream_line(file->stream, &file->ahead, &more));
  return NULL;
}

static dp_status *skip_header(const dp_reader_options *options, dp_reader_file *file) {
  uint64_t skipped, header = (uint64_t)options->header;
  DP_RETURN_IF_ERROR(dp_input_stream_skip(file->stream, header, &skipped));
  if (skipped < header)
    return dp_status_create(DP_OUT_OF_RANGE, "%s",
                            options->compression == DP_COMPRESSION_NONE ? "reached end of file"
                                                                        : "EOF reached");
  return NULL;
}

static dp_status *open_stream(const dp_reader_options *options, dp_reader_file *file) {
  DP_RETURN_IF_ERROR(dp_input_stream_open(dp_text_string(&file->work), options->compression,
                                          DP_STREAM_BUFFER, &file->stream));
  return options->kind == DP_READER_LINES ? skip_lines(options, file) : skip_header(options, file);
}

dp_status *dp_reader_open(const dp_reader_options *options, dp_reader_file *file) {
  const char *path = dp_text_string(&file->work);
  dp_reader_close(file);
  if (dp_reader_is_single(options))
    return NULL;
  if (strlen(path) != file->work.length)
    return DP_INVALID("a path may not hold a zero byte");
  if (options->kind == DP_READER_RECORDS)
    return dp_record_reader_open(path, options->compression, DP_STREAM_BUFFER, &file->records);
  dp_status *status = open_stream(options, file);
  if (status)
    dp_reader_close(file);
  return status;
}

/* ---- Reading ---- */
static dp_status *assign_key(const dp_reader_file *file, uint64_t number, dp_tstring *key) {
  dp_text text = {0};
  dp_text_append(&text, dp_text_string(&file->work), file->work.length);
  dp_text_printf(&text, ":%" PRIu64, number);
  dp_status *status = dp_tstring_assign(key, text.data, text.length);
  dp_text_deinit(&text);
  return status;
}

static dp_status *next_line(dp_reader_file *file, dp_tstring *key, dp_tstring *value,
                            bool *found_out) {
  DP_RETURN_IF_ERROR(dp_input_stream_line(file->stream, &file->ahead, found_out));
  ++file->number;
  if (!*found_out)
    return NULL;
  DP_RETURN_IF_ERROR(assign_key(file, (uint64_t)file->number, key));
  return dp_tstring_assign(value, dp_text_string(&file->ahead), file->ahead.length);
}

/* Moves on by one hop: first in the bytes read ahead, then in the file. */
static dp_status *hop(const dp_reader_options *options, dp_reader_file *file, bool *found_out) {
  size_t length = file->ahead.length, distance = (size_t)options->hop;
  if (distance <= length) {
    memmove(file->ahead.data, file->ahead.data + distance, length - distance);
    file->ahead.length -= distance;
    return NULL;
  }
  uint64_t skipped;
  dp_text_clear(&file->ahead);
  DP_RETURN_IF_ERROR(dp_input_stream_skip(file->stream, distance - length, &skipped));
  *found_out = skipped == distance - length;
  return NULL;
}

/* A record counts only when at least as many bytes as the footer has follow it. */
static dp_status *next_fixed(const dp_reader_options *options, dp_reader_file *file,
                             dp_tstring *key, dp_tstring *value, bool *found_out) {
  *found_out = true;
  if (file->number > 0)
    DP_RETURN_IF_ERROR(hop(options, file, found_out));
  if (!*found_out)
    return NULL;
  size_t wanted = (size_t)(options->record + options->footer), have = file->ahead.length, count = 0;
  if (wanted > have) {
    char *chunk = dp_try_malloc(wanted - have);
    dp_status *status = chunk ? dp_input_stream_read(file->stream, chunk, wanted - have, &count)
                              : dp_status_out_of_memory();
    if (!status)
      dp_text_append(&file->ahead, chunk, count);
    dp_free(chunk);
    DP_RETURN_IF_ERROR(status);
  }
  *found_out = file->ahead.length >= wanted;
  if (!*found_out)
    return NULL;
  DP_RETURN_IF_ERROR(assign_key(file, (uint64_t)file->number++, key));
  return dp_tstring_assign(value, file->ahead.data, (size_t)options->record);
}

/* Nothing is read after a damaged record: every further call returns the same error. */
static dp_status *next_record(dp_reader_file *file, dp_tstring *key, dp_tstring *value,
                              bool *found_out) {
  if (file->damage)
    return dp_status_retain(file->damage);
  DP_RETURN_IF_ERROR(assign_key(file, dp_record_reader_position(file->records), key));
  dp_status *status = dp_record_reader_next(file->records, value, found_out);
  if (status && dp_status_code(status) == DP_DATA_LOSS)
    file->damage = dp_status_retain(status);
  return status;
}

static dp_status *read_whole(dp_reader_file *file, dp_tstring *value) {
  const char *path = dp_text_string(&file->work);
  dp_file *opened;
  uint64_t size;
  char *data;
  if (strlen(path) != file->work.length)
    return DP_INVALID("a path may not hold a zero byte");
  DP_RETURN_IF_ERROR(dp_file_open(path, DP_FILE_READ, &opened));
  dp_status *status = dp_file_size(opened, &size);
  if (!status)
    status = dp_tstring_resize(value, (size_t)size, &data);
  if (!status)
    status = dp_file_read_exact(opened, 0, data, (size_t)size);
  dp_file_discard(opened);
  return status;
}

dp_status *dp_reader_next(const dp_reader_options *options, dp_reader_file *file, dp_tstring *key,
                          dp_tstring *value, bool *found_out) {
  const char *work = dp_text_string(&file->work);
  *found_out = false;
  switch (options->kind) {
  case DP_READER_LINES:
    return next_line(file, key, value, found_out);
  case DP_READER_FIXED:
    return next_fixed(options, file, key, value, found_out);
  case DP_READER_RECORDS:
    return next_record(file, key, value, found_out);
  default:
    DP_RETURN_IF_ERROR(dp_tstring_assign(key, work, file->work.length));
    DP_RETURN_IF_ERROR(options->kind == DP_READER_WHOLE
                           ? read_whole(file, value)
                           : dp_tstring_assign(value, work, file->work.length));
    *found_out = true;
    return NULL;
  }
}
