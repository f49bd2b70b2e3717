/* CSVDataset: the records of text files, one file after the other, one component per column. Quoted
 * fields may contain delimiters and line ends, so records are read byte by byte through a buffer
 * (the window), not line by line. A record with an error is read to its end, because the next
 * record may be fine. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "kernels/text/string.h"

#define WINDOW ((size_t)64 << 10)
#define MAX_BUFFER ((int64_t)16 << 20)

typedef struct csv_dataset {
  dp_dataset base;
  dp_io_paths paths;
  dp_compression compression;
  size_t buffer_size;
  bool has_header, uses_quotes;
  char delimiter;
  bool ends_plain[256];         /* bytes that end an unquoted field, or are an error in one */
  dp_tensor missing;            /* scalar string: text that means "no value" */
  dp_tensor selected, excluded; /* vectors of int64; at most one is not empty */
  dp_tensor *defaults;          /* one per component; empty: the field is required */
} csv_dataset;

typedef struct csv_iterator {
  dp_iterator base;
  size_t next_file;
  dp_input_stream *stream;
  char *window;
  size_t at, size; /* position and size of the window */
  dp_text field;
} csv_iterator;

/* The record that is being read. */
typedef struct record {
  csv_iterator *iterator;
  const csv_dataset *dataset;
  dp_tensor *element; /* NULL: the record is skipped */
  int32_t count;      /* components stored so far */
  bool is_at_end;
  dp_status *status; /* the first error in the record */
} record;

static void note(record *record, dp_status *status) {
  if (record->status)
    dp_status_release(status);
  else
    record->status = status;
}

/* ---- Bytes ---- */
/* Whether there is a byte at the window's position. A read error counts as the end. */
static bool fill(record *record) {
  csv_iterator *iterator = record->iterator;
  if (iterator->at < iterator->size)
    return true;
  iterator->at = iterator->size = 0;
  dp_status *status =
      dp_input_stream_read(iterator->stream, iterator->window, WINDOW, &iterator->size);
  if (status) {
    iterator->size = 0;
    note(record, status);
  }
  return iterator->size > 0;
}

/* Skips the '\n' after a '\r'. */
static void skip_newline(record *record) {
  if (fill(record) && record->iterator->window[record->iterator->at] == '\n')
    ++record->iterator->at;
}

/* ---- Fields ---- */
static dp_status *store(const csv_dataset *dataset, dp_view field, int32_t column,
                        dp_tensor *component) {
  dp_shape scalar = dp_shape_scalar();
  dp_dtype dtype = dataset->base.dtypes[column];
  dp_view missing = dp_io_string(&dataset->missing, 0);
  DP_RETURN_IF_ERROR(dp_tensor_create(dtype, &scalar, component));
  if (field.length == 0 ||
      (field.length == missing.length && memcmp(field.data, missing.data, field.length) == 0)) {
    if (dataset->defaults[column].shape.elements != 1)
      return DP_INVALID("Field %d is required but missing in record!", column);
    dp_tensor_copy_elements(dtype, component->data, dataset->defaults[column].data, 1);
    return NULL;
  }
  if (dtype == DP_STRING)
    return dp_tstring_assign(dp_tensor_strings(component), field.data, field.length);
  if (!dp_string_to_number(field, dtype, component->data))
    return DP_INVALID("Field %d in record is not a valid %s: %.*s", column, dp_dtype_name(dtype),
                      (int)field.length, field.data);
  return NULL;
}

static void keep(record *record) {
  const csv_dataset *dataset = record->dataset;
  dp_view field = {dp_text_string(&record->iterator->field), record->iterator->field.length};
  if (record->count >= dataset->base.component_count) {
    note(record,
         DP_INVALID("Expect %d fields but have more in record", dataset->base.component_count));
    return;
  }
  int32_t column = record->count++;
  note(record, store(dataset, field, column, &record->element[column]));
}

/* Reads the field to its end, and takes the delimiter or line end. */
static void read_plain(record *record) {
  csv_iterator *iterator = record->iterator;
  while (fill(record)) {
    size_t end = iterator->at;
    while (end < iterator->size && !record->dataset->ends_plain[(uint8_t)iterator->window[end]])
      ++end;
    dp_text_append(&iterator->field, iterator->window + iterator->at, end - iterator->at);
    iterator->at = end;
    if (end == iterator->size)
      continue;
    char byte = iterator->window[iterator->at++];
    if (byte == record->dataset->delimiter)
      return;
    if (byte == '\n' || byte == '\r') {
      record->is_at_end = true;
      if (byte == '\r')
        skip_newline(record);
      return;
    }
    note(record, DP_INVALID("Unquoted fields cannot have quotes inside"));
    dp_text_append(&iterator->field, &byte, 1);
  }
  record->is_at_end = true;
}

/* Reads from behind the opening quote to the closing quote, and takes the delimiter or line end.
 * False when the field is not to be stored. */
static bool read_quoted(record *record) {
  csv_iterator *iterator = record->iterator;
  bool is_sound = true;
  while (fill(record)) {
    char byte = iterator->window[iterator->at++];
    if (byte != '"') {
      dp_text_append(&iterator->field, &byte, 1);
      continue;
    }
    record->is_at_end = !fill(record); /* a quote at the end of the file ends the field */
    if (record->is_at_end)
      return is_sound;
    byte = iterator->window[iterator->at++];
    record->is_at_end = byte == '\n' || byte == '\r';
    if (byte == record->dataset->delimiter || record->is_at_end) {
      record->is_at_end = byte != record->dataset->delimiter;
      if (record->is_at_end && byte == '\r')
        skip_newline(record);
      return is_sound;
    }
    if (byte != '"') {
      is_sound = false;
      note(record, DP_INVALID("Quote inside a string has to be escaped by another quote"));
    }
    dp_text_append(&iterator->field, &byte, 1);
  }
  record->is_at_end = true;
  note(record, DP_INVALID("Reached end of file without closing quoted field in record"));
  return false;
}

static void read_field(record *record, bool is_wanted) {
  csv_iterator *iterator = record->iterator;
  dp_text_clear(&iterator->field);
  if (!fill(record)) { /* an empty field after the last delimiter */
    record->is_at_end = true;
  } else if (record->dataset->uses_quotes && iterator->window[iterator->at] == '"') {
    ++iterator->at;
    is_wanted &= read_quoted(record);
  } else {
    read_plain(record);
  }
  if (is_wanted)
    keep(record);
}

/* ---- Records ---- */
/* Whether the next number of an ascending list is `column`; if so, moves past it. */
static bool is_listed(const dp_tensor *list, int64_t *at, int64_t column) {
  if (*at >= list->shape.elements || ((const int64_t *)list->data)[*at] != column)
    return false;
  ++*at;
  return true;
}

/* Reads one record. *more_out is false when the file has no more. */
static dp_status *read_record(csv_iterator *iterator, dp_tensor *element, bool *more_out) {
  const csv_dataset *dataset = (const csv_dataset *)iterator->base.dataset;
  record record = {.iterator = iterator, .dataset = dataset, .element = element};
  int64_t selected = 0, excluded = 0;
  *more_out = fill(&record);
  for (int64_t column = 0; *more_out && !record.is_at_end; ++column) {
    bool is_wanted = is_listed(&dataset->selected, &selected, column) ||
                     (dataset->selected.shape.elements == 0 &&
                      !is_listed(&dataset->excluded, &excluded, column));
    read_field(&record, is_wanted && element);
  }
  if (!record.status && *more_out && element && record.count != dataset->base.component_count)
    return DP_INVALID("Expect %d fields but have %d in record", dataset->base.component_count,
                      record.count);
  return record.status;
}

static dp_status *open_file(csv_iterator *iterator) {
  const csv_dataset *dataset = (const csv_dataset *)iterator->base.dataset;
  DP_RETURN_IF_ERROR(dp_input_stream_open(
      dataset->paths.items[iterator->next_file], dataset->compression, dataset->buffer_size,
      &iterator->stream)); /* a later call tries this file again */
  ++iterator->next_file;
  if (!iterator->window)
    iterator->window = dp_malloc(WINDOW);
  iterator->at = iterator->size = 0;
  if (!dataset->has_header)
    return NULL;
  bool more;
  dp_status *status = read_record(iterator, NULL, &more);
  if (!status && more)
    return NULL;
  dp_status_release(status);
  return DP_INVALID("Can't read header of file");
}

static dp_status *csv_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                           bool *more_out) {
  csv_iterator *iterator = (csv_iterator *)base;
  const csv_dataset *dataset = (const csv_dataset *)base->dataset;
  for (;;) {
    if (!iterator->stream) {
      if (iterator->next_file >= dataset->paths.count)
        return NULL;
      DP_RETURN_IF_ERROR(open_file(iterator));
    }
    DP_RETURN_IF_ERROR(read_record(iterator, element, more_out));
    if (*more_out)
      return NULL;
    dp_input_stream_close(iterator->stream);
    iterator->stream = NULL;
  }
}

static void csv_iterator_destroy(dp_iterator *base) {
  csv_iterator *iterator = (csv_iterator *)base;
  dp_input_stream_close(iterator->stream);
  dp_free(iterator->window);
  dp_text_deinit(&iterator->field);
}

static const dp_iterator_ops csv_iterator_ops = {sizeof(csv_iterator), csv_next,
                                                 csv_iterator_destroy};

static void csv_destroy(dp_dataset *base) {
  csv_dataset *dataset = (csv_dataset *)base;
  dp_io_paths_deinit(&dataset->paths);
  dp_tensor_deinit(&dataset->missing);
  dp_tensor_deinit(&dataset->selected);
  dp_tensor_deinit(&dataset->excluded);
  dp_element_destroy(dataset->defaults, base->component_count);
}

static const dp_dataset_ops csv_ops = {"CSV", &csv_iterator_ops, NULL, csv_destroy};

/* ---- Reading the inputs ---- */
enum { FILES, COMPRESSION, BUFFER, HEADER, DELIMITER, QUOTES, MISSING, SELECTED, DEFAULTS };

static dp_status *read_string(dp_op_context *context, int32_t slot, const char *name,
                              dp_view *text_out) {
  const dp_tensor *tensor = dp_op_input(context, slot);
  if (tensor->shape.rank != 0)
    return DP_INVALID("%s must be a scalar", name);
  *text_out = dp_io_string(tensor, 0);
  return NULL;
}

static dp_status *read_defaults(csv_dataset *dataset, dp_op_context *context) {
  int32_t count = dataset->base.component_count;
  dataset->defaults = dp_element_create(count);
  for (int32_t i = 0; i < count; ++i) {
    const dp_tensor *standard = dp_op_input(context, DEFAULTS + i);
    if (standard->shape.rank > 1)
      return DP_INVALID("Each record default should be at most rank 1");
    if (standard->shape.elements > 1)
      return DP_INVALID("There should only be 1 default per field but field %d has %lld", i,
                        (long long)standard->shape.elements);
    dataset->defaults[i] = dp_tensor_copy(standard);
  }
  return NULL;
}

static dp_status *check_columns(const dp_tensor *columns, const char *name) {
  const int64_t *numbers = columns->data;
  for (int64_t i = 1; i < columns->shape.elements; ++i)
    if (numbers[i] <= numbers[i - 1])
      return DP_INVALID("%s should be strictly increasing indices", name);
  if (columns->shape.elements > 0 && numbers[0] < 0)
    return DP_INVALID("%s should be non-negative indices", name);
  return NULL;
}

static dp_status *read_columns(csv_dataset *dataset, dp_op_context *context) {
  int32_t count = dataset->base.component_count, last = DEFAULTS + count;
  dataset->selected = dp_tensor_copy(dp_op_input(context, SELECTED));
  if (dataset->selected.shape.rank != 1)
    return DP_INVALID("`select_cols` must be a vector.");
  dp_shape none = dp_shape_vector(0);
  if (context->input_count > last)
    dataset->excluded = dp_tensor_copy(dp_op_input(context, last));
  else
    DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &none, &dataset->excluded));
  if (dataset->excluded.shape.rank != 1)
    return DP_INVALID("`exclude_cols` must be a vector");
  int64_t selected = dataset->selected.shape.elements;
  if (selected > 0 && selected != count)
    return DP_INVALID("select_cols should match output size");
  DP_RETURN_IF_ERROR(check_columns(&dataset->selected, "select_cols"));
  if (selected > 0 && dataset->excluded.shape.elements > 0)
    return DP_INVALID("Either select_cols or exclude_cols should be empty");
  return check_columns(&dataset->excluded, "exclude_cols");
}

static dp_status *read_form(csv_dataset *dataset, dp_op_context *context) {
  dp_view delimiter, missing;
  DP_RETURN_IF_ERROR(read_string(context, DELIMITER, "field_delim", &delimiter));
  if (delimiter.length != 1)
    return DP_INVALID("field_delim should be only 1 char");
  DP_RETURN_IF_ERROR(dp_dataset_bool(context, HEADER, "header", &dataset->has_header));
  DP_RETURN_IF_ERROR(dp_dataset_bool(context, QUOTES, "use_quote_delim", &dataset->uses_quotes));
  DP_RETURN_IF_ERROR(read_string(context, MISSING, "na_value", &missing));
  dataset->missing = dp_tensor_copy(dp_op_input(context, MISSING));
  dataset->delimiter = delimiter.data[0];
  dataset->ends_plain[(uint8_t)dataset->delimiter] = true;
  dataset->ends_plain['\n'] = dataset->ends_plain['\r'] = true;
  dataset->ends_plain['"'] |= dataset->uses_quotes;
  return NULL;
}

static dp_status *read_inputs(csv_dataset *dataset, dp_op_context *context) {
  int64_t buffer;
  dp_view compression;
  if (dp_op_input(context, FILES)->shape.rank > 1)
    return DP_INVALID("`filenames` must be a scalar or a vector.");
  DP_RETURN_IF_ERROR(dp_io_paths_init(&dataset->paths, dp_op_input(context, FILES)));
  DP_RETURN_IF_ERROR(read_string(context, COMPRESSION, "compression_type", &compression));
  DP_RETURN_IF_ERROR(read_defaults(dataset, context));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, BUFFER, "buffer_size", &buffer));
  if (buffer <= 0)
    return DP_INVALID("buffer_size should be positive");
  dataset->buffer_size = (size_t)(buffer < MAX_BUFFER ? buffer : MAX_BUFFER);
  DP_RETURN_IF_ERROR(read_form(dataset, context));
  if (!dp_compression_parse(compression, &dataset->compression))
    return DP_INVALID("Unsupported compression_type: %.*s.", (int)compression.length,
                      compression.data);
  return read_columns(dataset, context);
}

static dp_status *csv_compute(dp_op_context *context, void *state) {
  csv_dataset *dataset = dp_dataset_create(&csv_ops, sizeof(csv_dataset), NULL);
  dp_status *status = dp_dataset_components_from_node(&dataset->base, context->node);
  if (!status)
    status = read_inputs(dataset, context);
  return dp_dataset_finish(context, &dataset->base, status);
}

#define ROW(name)                                                                                  \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = csv_compute }
static const dp_kernel rows[] = {
    ROW("CSVDataset"),
    ROW("CSVDatasetV2"),
    ROW("ExperimentalCSVDataset"),
};
DP_KERNEL_FAMILY(dataset_csv, rows);
