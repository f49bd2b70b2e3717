/* Examples from lines of numbers (CSV) and from records (TFRecord). A line is one example: its last
 * number is y, the numbers before are x. A first line that is not numbers is taken for the columns'
 * names. A record becomes a string, which the graph parses. Errors name the file and the line. */
#include <inttypes.h>
#include <string.h>

#include "storage/record.h"
#include "storage/stream.h"
#include "train/examples_internal.h"

/* ---- CSV ---- */
typedef struct csv_reader {
  dp_examples *examples;
  int64_t line;
  DP_ARRAY(float) numbers; /* of the line that was read last */
  DP_ARRAY(float) x;
  DP_ARRAY(float) y;
} csv_reader;

/* False when a field is not a number; `wrong` is then the text of that field. */
static bool split_line(csv_reader *self, dp_view line, dp_view *wrong) {
  self->numbers.count = 0;
  for (;;) {
    const char *comma = memchr(line.data, ',', line.length);
    dp_view field = {line.data, comma ? (size_t)(comma - line.data) : line.length};
    line.data += field.length + 1;
    line.length -= field.length + (comma != NULL);
    while (field.length > 0 && field.data[0] == ' ')
      field.data++, field.length--;
    while (field.length > 0 && field.data[field.length - 1] == ' ')
      field.length--;
    double value;
    *wrong = field;
    if (!dp_parse_double(field, &value))
      return false;
    DP_ARRAY_PUSH(&self->numbers, (float)value);
    if (!comma)
      return true;
  }
}

static void keep_line(csv_reader *self) {
  size_t row = (size_t)self->examples->row;
  DP_ARRAY_RESERVE(&self->x, self->x.count + row);
  memcpy(self->x.items + self->x.count, self->numbers.items, row * sizeof(float));
  self->x.count += row;
  DP_ARRAY_PUSH(&self->y, self->numbers.items[row]);
  self->examples->count++;
}

static dp_status *take_line(csv_reader *self, dp_view line) {
  dp_examples *examples = self->examples;
  dp_view wrong;
  self->line++;
  if (line.length == 0)
    return NULL;
  if (!split_line(self, line, &wrong)) {
    if (self->line == 1)
      return NULL; /* the first line: the columns' names */
    return DP_INVALID("line %" PRId64 ": \"%.*s\" is not a number", self->line, (int)wrong.length,
                      wrong.data);
  }
  int64_t columns = (int64_t)self->numbers.count;
  if (examples->count == 0) {
    if (columns < 2)
      return DP_INVALID("line %" PRId64 ": an example needs two numbers at least", self->line);
    examples->dims[0] = examples->row = columns - 1;
  }
  if (columns != examples->row + 1)
    return DP_INVALID("line %" PRId64 " has %" PRId64 " numbers, those before have %" PRId64,
                      self->line, columns, examples->row + 1);
  keep_line(self);
  return NULL;
}

static dp_status *read_csv(csv_reader *self, const char *path) {
  dp_input_stream *stream;
  DP_RETURN_IF_ERROR(dp_input_stream_open(path, DP_COMPRESSION_NONE, DP_STREAM_BUFFER, &stream));
  dp_text line = {0};
  bool more = true;
  dp_status *status = NULL;
  while (more && !status) {
    dp_text_clear(&line);
    status = dp_input_stream_line(stream, &line, &more);
    if (!status && more)
      status = take_line(self, (dp_view){dp_text_string(&line), line.length});
  }
  dp_text_deinit(&line);
  dp_input_stream_close(stream);
  return dp_status_annotate(status, "%s", path);
}

dp_examples *dp_examples_csv(const char *path, TF_Status *status) {
  csv_reader reader = {.examples = DP_NEW(dp_examples)};
  reader.examples->y_dtype = TF_FLOAT;
  reader.examples->dim_count = 1;
  dp_status *error = read_csv(&reader, path);
  DP_ARRAY_FREE(&reader.numbers);
  reader.examples->numbers = reader.x.items;
  reader.examples->y = reader.y.items;
  return dp_train_examples_finish(reader.examples, error, status);
}

/* ---- Records ---- */
static dp_status *read_records(dp_record_reader *reader, dp_examples *examples) {
  int64_t capacity = 0;
  dp_tstring record = {0};

  bool more = true;
  dp_status *status;
  while (!(status = dp_record_reader_next(reader, &record, &more)) && more) {
    if (examples->count == capacity) {
      capacity = capacity ? 2 * capacity : 1024;
      examples->strings = dp_realloc(examples->strings, (size_t)capacity * sizeof(dp_text));
    }
    dp_text *text = &examples->strings[examples->count++];
    *text = (dp_text){0};
    dp_text_append(text, dp_tstring_data(&record), dp_tstring_size(&record));
  }
  dp_tstring_deinit(&record);
  return status;
}

dp_examples *dp_examples_records(const char *path, const char *compression, TF_Status *status) {
  dp_examples *examples = DP_NEW(dp_examples);
  examples->y_dtype = TF_INT32;
  dp_compression packed;
  dp_record_reader *reader;
  dp_status *error = NULL;
  if (!dp_compression_parse(dp_view_of(compression), &packed))
    error = DP_INVALID("compression \"%s\": give \"\", \"ZLIB\" or \"GZIP\"", compression);
  if (!error)
    error = dp_record_reader_open(path, packed, DP_STREAM_BUFFER, &reader);
  if (!error) {
    error = read_records(reader, examples);
    dp_record_reader_close(reader);
  }
  if (!error)
    examples->y = DP_NEW_ARRAY(int32_t, examples->count + 1);
  return dp_train_examples_finish(examples, dp_status_annotate(error, "%s", path), status);
}
