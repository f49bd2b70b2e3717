/* The ops of lookup tables: creating, filling from tensors and from text files, finding, changing,
 * exporting; and GenerateVocabRemapping. The tables themselves are in tables/lookup.h. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/tables/lookup.h"
#include "storage/stream.h"

/* ---- Making ---- */
typedef struct make_state {
  dp_resource_name name;
  dp_resources *resources;
  dp_lookup_kind kind;
  bool is_anonymous;
  dp_dtype key_dtype, value_dtype;
  dp_shape value_shape;
  int64_t buckets;
  float max_load;
} make_state;

static dp_lookup_kind kind_of(const dp_node *node) {
  const char *op = node->op->name;
  if (strstr(op, "Dense"))
    return DP_LOOKUP_DENSE;
  if (strstr(op, "OfTensors"))
    return DP_LOOKUP_TENSORS;
  return strstr(op, "Mutable") ? DP_LOOKUP_MUTABLE : DP_LOOKUP_FIXED;
}

static dp_status *read_value_shape(const dp_node *node, make_state *state) {
  const dp_partial_shape *shape;
  state->value_shape = dp_shape_scalar();
  if (!dp_node_attr(node, "value_shape"))
    return NULL;
  DP_RETURN_IF_ERROR(dp_node_get_shape(node, "value_shape", &shape));
  if (!dp_partial_shape_is_known(shape))
    return DP_INVALID("value_shape must be fully defined, got %s", dp_partial_shape_text(shape));
  DP_RETURN_IF_ERROR(dp_shape_make(shape->rank, shape->dims, &state->value_shape));
  if (state->kind == DP_LOOKUP_TENSORS && shape->rank != 1)
    return DP_INVALID("Default value must be a vector, got shape %s", dp_partial_shape_text(shape));
  return NULL;
}

static dp_status *make_create(const dp_kernel_setup *setup, void *memory) {
  make_state *state = memory;
  const dp_node *node = setup->node;
  bool share_by_node = false;
  state->kind = kind_of(node);
  state->is_anonymous = strncmp(node->op->name, "Anonymous", 9) == 0;
  state->resources = dp_resources_retain(setup->device->resources);
  DP_RETURN_IF_ERROR(dp_node_get_type(node, "key_dtype", &state->key_dtype));
  DP_RETURN_IF_ERROR(dp_node_get_type(node, "value_dtype", &state->value_dtype));
  DP_RETURN_IF_ERROR(read_value_shape(node, state));
  if (state->kind == DP_LOOKUP_DENSE) {
    DP_RETURN_IF_ERROR(dp_node_get_int(node, "initial_num_buckets", &state->buckets));
    DP_RETURN_IF_ERROR(dp_node_get_float(node, "max_load_factor", &state->max_load));
  }
  if (dp_node_attr(node, "use_node_name_sharing"))
    DP_RETURN_IF_ERROR(dp_node_get_bool(node, "use_node_name_sharing", &share_by_node));
  return dp_resource_name_init(&state->name, setup, share_by_node);
}

static void make_destroy(void *memory) {
  make_state *state = memory;
  if (state->name.is_private && !state->is_anonymous)
    dp_status_release(dp_resources_remove(state->resources, state->name.container, state->name.name,
                                          dp_lookup_ops.type_name));
  dp_resources_release(state->resources);
  dp_resource_name_deinit(&state->name);
}

typedef struct make_request {
  const make_state *state;
  const dp_op_context *context;
} make_request;

static dp_status *make_table(void *arg, dp_resource **resource_out) {
  const make_request *request = arg;
  const make_state *state = request->state;
  dp_lookup *table = dp_lookup_create(state->name.name, state->kind, state->key_dtype,
                                      state->value_dtype, &state->value_shape);
  dp_status *status = NULL;
  if (state->kind == DP_LOOKUP_DENSE && request->context->input_count < 2)
    status = DP_INVALID("Unknown input name: deleted_key"); /* the first form cannot say it */
  else if (state->kind == DP_LOOKUP_DENSE) {
    status =
        dp_lookup_dense_start(table, dp_op_input(request->context, 0),
                              dp_op_input(request->context, 1), state->buckets, state->max_load);
  }
  if (status)
    dp_resource_release(table);
  else
    *resource_out = &table->resource;
  return status;
}

static dp_status *check_types(const dp_lookup *table, const make_state *state) {
  if (table->key_dtype == state->key_dtype && table->value_dtype == state->value_dtype)
    return NULL;
  return DP_INVALID("Conflicting key/value dtypes %s->%s with %s-%s for table %s",
                    dp_dtype_name(state->key_dtype), dp_dtype_name(state->value_dtype),
                    dp_dtype_name(table->key_dtype), dp_dtype_name(table->value_dtype),
                    state->name.name);
}

static dp_status *make_compute(dp_op_context *context, void *memory) {
  make_state *state = memory;
  make_request request = {state, context};
  dp_resource *resource;
  if (state->is_anonymous)
    DP_RETURN_IF_ERROR(make_table(&request, &resource));
  else
    DP_RETURN_IF_ERROR(dp_resources_find_or_create(
        context->device->resources, state->name.container, state->name.name, &dp_lookup_ops,
        make_table, &request, &resource));
  dp_status *status = check_types((dp_lookup *)resource, state);
  if (!status)
    status = dp_handle_output(context, 0, resource, state->name.container, state->name.name,
                              state->is_anonymous);
  dp_resource_release(resource);
  return status;
}

/* ---- Using ---- */
static dp_status *get_table(dp_op_context *context, dp_lookup **table_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_handle_input(context, 0, &dp_lookup_ops, DP_LOOKUP_HANDLE_RULE, &resource));
  *table_out = (dp_lookup *)resource;
  return NULL;
}

/* Checks that keys and values have the table's dtypes; the message prints both signatures. */
static dp_status *check_signature(const dp_op_context *context, const dp_lookup *table) {
  const dp_node *node = context->node;
  const char *handle = dp_dtype_name(node->input_types[0]);
  const char *key = dp_dtype_name(table->key_dtype), *value = dp_dtype_name(table->value_dtype);
  if (dp_op_input(context, 1)->dtype == table->key_dtype &&
      dp_op_input(context, 2)->dtype == table->value_dtype)
    return NULL;
  bool gives = node->output_count > 0;
  return DP_INVALID("Signature mismatch, have: %s, %s, %s->%s expected: %s, %s, %s->%s", handle,
                    dp_dtype_name(node->input_types[1]), dp_dtype_name(node->input_types[2]),
                    gives ? dp_dtype_name(node->output_types[0]) : "", handle, key, value,
                    gives ? value : "");
}

static dp_status *find_compute(dp_op_context *context, void *memory) {
  dp_lookup *table;
  DP_RETURN_IF_ERROR(get_table(context, &table));
  dp_status *status = check_signature(context, table);
  if (!status)
    status = dp_lookup_find(table, dp_op_input(context, 1), dp_op_input(context, 2),
                            &context->outputs[0].tensor);
  dp_resource_release(table);
  return status;
}

typedef dp_status *(*pairs_fn)(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values);

static dp_status *with_pairs(dp_op_context *context, pairs_fn run) {
  dp_lookup *table;
  DP_RETURN_IF_ERROR(get_table(context, &table));
  dp_status *status = check_signature(context, table);
  if (!status)
    status = run(table, dp_op_input(context, 1), dp_op_input(context, 2));
  dp_resource_release(table);
  return status;
}

static dp_status *insert_compute(dp_op_context *context, void *memory) {
  return with_pairs(context, dp_lookup_insert);
}

static dp_status *import_compute(dp_op_context *context, void *memory) {
  return with_pairs(context, dp_lookup_import);
}

static dp_status *remove_compute(dp_op_context *context, void *memory) {
  dp_lookup *table;
  DP_RETURN_IF_ERROR(get_table(context, &table));
  dp_status *status = dp_lookup_remove(table, dp_op_input(context, 1));
  dp_resource_release(table);
  return status;
}

static dp_status *size_compute(dp_op_context *context, void *memory) {
  dp_lookup *table;
  DP_RETURN_IF_ERROR(get_table(context, &table));
  int64_t size = dp_lookup_size(table);
  dp_resource_release(table);
  return dp_op_output_int64(context, 0, size);
}

static dp_status *export_compute(dp_op_context *context, void *memory) {
  dp_lookup *table;
  DP_RETURN_IF_ERROR(get_table(context, &table));
  dp_status *status =
      dp_lookup_export(table, &context->outputs[0].tensor, &context->outputs[1].tensor);
  dp_resource_release(table);
  return status;
}

/* ---- Filling from tensors ---- */
static dp_status *get_fixed(dp_op_context *context, dp_lookup **table_out) {
  DP_RETURN_IF_ERROR(get_table(context, table_out));
  if ((*table_out)->kind == DP_LOOKUP_FIXED)
    return NULL;
  dp_status *status = DP_INVALID("Table %s is not initializable", (*table_out)->name);
  dp_resource_release(*table_out);
  return status;
}

static dp_status *fill_from(dp_lookup *table, const dp_tensor *keys, const dp_tensor *values) {
  if (keys->shape.rank != 1)
    return DP_INVALID("Keys must be a vector, but received shape%s", dp_shape_text(&keys->shape));
  if (values->shape.rank != 1)
    return DP_INVALID("Values must be a vector, but received shape %s",
                      dp_shape_text(&values->shape));
  if (keys->shape.elements != values->shape.elements)
    return DP_INVALID("Keys and values must have the same size %lld vs %lld",
                      (long long)keys->shape.elements, (long long)values->shape.elements);
  return dp_lookup_fill(table, keys, values);
}

static dp_status *fill_compute(dp_op_context *context, void *memory) {
  dp_lookup *table;
  DP_RETURN_IF_ERROR(get_fixed(context, &table));
  dp_status *status = check_signature(context, table);
  if (!status)
    status = fill_from(table, dp_op_input(context, 1), dp_op_input(context, 2));
  dp_resource_release(table);
  return status;
}

/* ---- Filling from a text file ---- */
#define LINE_NUMBER (-1)
#define WHOLE_LINE (-2)

typedef struct text_state {
  int64_t key_index, value_index, vocabulary, offset;
  char delimiter;
} text_state;

static dp_status *text_create(const dp_kernel_setup *setup, void *memory) {
  text_state *state = memory;
  dp_view delimiter;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "key_index", &state->key_index));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "value_index", &state->value_index));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "vocab_size", &state->vocabulary));
  if (dp_node_attr(setup->node, "offset"))
    DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "offset", &state->offset));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "delimiter", &delimiter));
  if (delimiter.length != 1)
    return DP_INVALID("delimiter should be only 1 char");
  state->delimiter = delimiter.data[0];
  return NULL;
}

static dp_status *check_columns(const text_state *state, const dp_lookup *table) {
  if (state->key_index == LINE_NUMBER && table->key_dtype != DP_INT64)
    return DP_INVALID("Key index for line number requires table key dtype of int64, got %s",
                      dp_dtype_name(table->key_dtype));
  if (state->key_index == WHOLE_LINE && !dp_dtype_is_integer(table->key_dtype) &&
      table->key_dtype != DP_STRING)
    return DP_INVALID("Key index for whole line requires string or integer table key, got %s",
                      dp_dtype_name(table->key_dtype));
  if (state->value_index == LINE_NUMBER && table->value_dtype != DP_INT64)
    return DP_INVALID("Value index for line number requires table value dtype of int64, got %s",
                      dp_dtype_name(table->value_dtype));
  if (state->value_index == WHOLE_LINE && !dp_dtype_is_integer(table->value_dtype) &&
      table->value_dtype != DP_STRING)
    return DP_INVALID("Value index for whole line requires string or integer table value, got %s",
                      dp_dtype_name(table->value_dtype));
  return NULL;
}

/* A growing column of elements of one dtype. */
typedef struct column {
  dp_dtype dtype;
  DP_ARRAY(char *) strings;
  DP_ARRAY(double) numbers;
  DP_ARRAY(int64_t) integers;
} column;

static void column_deinit(column *held) {
  for (size_t i = 0; i < held->strings.count; ++i)
    dp_free(held->strings.items[i]);
  DP_ARRAY_FREE(&held->strings);
  DP_ARRAY_FREE(&held->numbers);
  DP_ARRAY_FREE(&held->integers);
}

static dp_view trim(dp_view text) {
  while (text.length && strchr(" \t\n\r\f\v", text.data[0])) {
    ++text.data;
    --text.length;
  }
  while (text.length && strchr(" \t\n\r\f\v", text.data[text.length - 1]))
    --text.length;
  return text;
}

static dp_status *column_add(column *held, dp_view token, int64_t line) {
  double number;
  int64_t integer;
  switch (held->dtype) {
  case DP_STRING:
    DP_ARRAY_PUSH(&held->strings, dp_strndup(token.data, token.length));
    return NULL;
  case DP_INT32:
  case DP_INT64:
    if (!dp_parse_int64(trim(token), &integer) ||
        (held->dtype == DP_INT32 && integer != (int32_t)integer))
      break;
    DP_ARRAY_PUSH(&held->integers, integer);
    return NULL;
  case DP_FLOAT:
  case DP_DOUBLE:
    if (!dp_parse_double(trim(token), &number))
      break;
    DP_ARRAY_PUSH(&held->numbers, number);
    return NULL;
  default:
    return DP_INVALID("Data type %s not supported.", dp_dtype_name(held->dtype));
  }
  return DP_INVALID("Field %.*s in line %lld is not a valid %s.", (int)token.length, token.data,
                    (long long)line, dp_dtype_name(held->dtype));
}

static dp_status *column_tensor(const column *held, dp_tensor *tensor_out) {
  size_t count = held->strings.count + held->numbers.count + held->integers.count;
  dp_shape shape = dp_shape_vector((int64_t)count);
  DP_RETURN_IF_ERROR(dp_tensor_create(held->dtype, &shape, tensor_out));
  dp_status *status = NULL;
  for (size_t i = 0; i < count && !status; ++i)
    switch (held->dtype) {
    case DP_STRING:
      status = dp_tstring_assign(&dp_tensor_strings(tensor_out)[i], held->strings.items[i],
                                 strlen(held->strings.items[i]));
      break;
    case DP_INT32:
      ((int32_t *)tensor_out->data)[i] = (int32_t)held->integers.items[i];
      break;
    case DP_INT64:
      ((int64_t *)tensor_out->data)[i] = held->integers.items[i];
      break;
    case DP_FLOAT:
      ((float *)tensor_out->data)[i] = (float)held->numbers.items[i];
      break;
    default:
      ((double *)tensor_out->data)[i] = held->numbers.items[i];
    }
  if (status)
    dp_tensor_deinit(tensor_out);
  return status;
}

/* Column `index` of a line; false when the line has fewer columns. */
static bool split_line(dp_view line, char delimiter, int64_t index, dp_view *token_out) {
  for (;; --index) {
    const char *end = memchr(line.data, delimiter, line.length);
    size_t length = end ? (size_t)(end - line.data) : line.length;
    if (index == 0) {
      *token_out = (dp_view){line.data, length};
      return true;
    }
    if (!end)
      return false;
    line.data += length + 1;
    line.length -= length + 1;
  }
}

static int64_t count_columns(dp_view line, char delimiter) {
  int64_t count = 1;
  for (size_t i = 0; i < line.length; ++i)
    count += line.data[i] == delimiter;
  return count;
}

static dp_status *add_field(const text_state *state, const char *path, dp_view line, int64_t index,
                            int64_t number, column *held) {
  dp_view token = line;
  if (index == LINE_NUMBER) {
    DP_ARRAY_PUSH(&held->integers, number + state->offset);
    return NULL;
  }
  if (index >= 0 && !split_line(line, state->delimiter, index, &token))
    return DP_INVALID("Invalid number of columns in %s line %lld (%.*s) : expected at least %lld "
                      "got %lld",
                      path, (long long)number, (int)line.length, line.data, (long long)index + 1,
                      (long long)count_columns(line, state->delimiter));
  return column_add(held, token, number);
}

/* A file without any line is reported as if it could not be read. */
static dp_status *no_lines(const text_state *state, const char *path, bool is_empty) {
  if (is_empty)
    return dp_status_create(DP_OUT_OF_RANGE, "Read less bytes than requested");
  return dp_status_create(DP_OUT_OF_RANGE, "Finished reading %lld of lines from %s",
                          (long long)state->vocabulary, path);
}

static dp_status *read_lines(const text_state *state, const char *path, dp_input_stream *stream,
                             column *keys, column *values) {
  dp_text text = {0};
  dp_status *status = NULL;
  int64_t number = 0;
  bool is_empty = true;
  for (; !status; ++number) {
    bool more;
    dp_text_clear(&text);
    status = dp_input_stream_line(stream, &text, &more);
    is_empty &= !more;
    if (status || !more || (state->vocabulary != -1 && number >= state->vocabulary))
      break;
    dp_view line = {dp_text_string(&text), text.length};
    if (line.length == 0)
      status = DP_INVALID("Invalid content in %s: empty line found at position %llu.", path,
                          (unsigned long long)dp_input_stream_position(stream));
    if (!status)
      status = add_field(state, path, line, state->key_index, number, keys);
    if (!status)
      status = add_field(state, path, line, state->value_index, number, values);
  }
  dp_text_deinit(&text);
  if (!status && number == 0 && state->vocabulary <= 0)
    status = no_lines(state, path, is_empty);
  if (!status && state->vocabulary != -1 && number < state->vocabulary)
    status = DP_INVALID("Invalid vocab_size in %s: expected %lld but got %lld", path,
                        (long long)state->vocabulary, (long long)number);
  return status;
}

static dp_status *fill_from_file(const text_state *state, const char *path, dp_lookup *table) {
  DP_RETURN_IF_ERROR(check_columns(state, table));
  dp_input_stream *stream;
  DP_RETURN_IF_ERROR(dp_input_stream_open(path, DP_COMPRESSION_NONE, DP_STREAM_BUFFER, &stream));
  column keys = {.dtype = table->key_dtype}, values = {.dtype = table->value_dtype};
  dp_tensor key_tensor = {0}, value_tensor = {0};
  dp_status *status = read_lines(state, path, stream, &keys, &values);
  dp_input_stream_close(stream);
  if (!status)
    status = column_tensor(&keys, &key_tensor);
  if (!status)
    status = column_tensor(&values, &value_tensor);
  if (!status)
    status = dp_lookup_fill(table, &key_tensor, &value_tensor);
  dp_tensor_deinit(&key_tensor);
  dp_tensor_deinit(&value_tensor);
  column_deinit(&keys);
  column_deinit(&values);
  return status;
}

static dp_status *text_compute(dp_op_context *context, void *memory) {
  const dp_tensor *path = dp_op_input(context, 1);
  if (path->shape.elements != 1)
    return DP_INVALID("filename should be a single string, but got %s",
                      dp_shape_text(&path->shape));
  dp_view view = dp_tstring_view(dp_tensor_strings(path));
  if (view.length == 0)
    return DP_INVALID("filename cannot be empty.");
  dp_lookup *table;
  DP_RETURN_IF_ERROR(get_fixed(context, &table));
  char *name = dp_strndup(view.data, view.length);
  dp_status *status = fill_from_file(memory, name, table);
  dp_free(name);
  dp_resource_release(table);
  return status;
}

/* ---- Where the words of a new vocabulary were in the old one ---- */
typedef struct vocabulary_state {
  int64_t first, count, old_size;
} vocabulary_state;

static dp_status *vocabulary_create(const dp_kernel_setup *setup, void *memory) {
  vocabulary_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "new_vocab_offset", &state->first));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "num_new_vocab", &state->count));
  return dp_node_get_int(setup->node, "old_vocab_size", &state->old_size);
}

static dp_status *read_path(const dp_op_context *context, int32_t slot, const char *input,
                            char **path_out) {
  const dp_tensor *path = dp_op_input(context, slot);
  if (path->shape.rank != 0)
    return DP_INVALID("%s should be a single string, but got %s", input,
                      dp_shape_text(&path->shape));
  dp_view view = dp_tstring_view(dp_tensor_strings(path));
  if (view.length == 0)
    return DP_INVALID("new vocab filename cannot be empty.");
  *path_out = dp_strndup(view.data, view.length);
  return NULL;
}

static dp_status *read_new_words(const vocabulary_state *state, const char *path,
                                 dp_tensor *words_out) {
  const text_state text = {.key_index = LINE_NUMBER, .value_index = WHOLE_LINE, .vocabulary = -1};
  dp_input_stream *stream;
  DP_RETURN_IF_ERROR(dp_input_stream_open(path, DP_COMPRESSION_NONE, DP_STREAM_BUFFER, &stream));
  column lines = {.dtype = DP_INT64}, words = {.dtype = DP_STRING};
  dp_status *status = read_lines(&text, path, stream, &lines, &words);
  dp_input_stream_close(stream);
  if (!status && state->first + state->count > (int64_t)words.strings.count)
    status = DP_INVALID("lookup table size must be larger than last new vocab entry's line");
  dp_tensor all = {0};
  if (!status)
    status = column_tensor(&words, &all);
  if (!status)
    *words_out = dp_tensor_slice(&all, state->first, state->first + state->count);
  dp_tensor_deinit(&all);
  column_deinit(&lines);
  column_deinit(&words);
  return status;
}

static dp_status *find_old_lines(const vocabulary_state *state, const char *path,
                                 const dp_tensor *words, dp_tensor *lines_out) {
  const text_state text = {
      .key_index = WHOLE_LINE, .value_index = LINE_NUMBER, .vocabulary = state->old_size};
  dp_shape scalar = dp_shape_scalar();
  dp_lookup *table = dp_lookup_create("", DP_LOOKUP_FIXED, DP_STRING, DP_INT64, &scalar);
  dp_tensor missing = {0};
  dp_status *status = fill_from_file(&text, path, table);
  if (!status)
    status = dp_tensor_scalar_int64(-1, &missing);
  if (!status)
    status = dp_lookup_find(table, words, &missing, lines_out);
  dp_tensor_deinit(&missing);
  dp_resource_release(table);
  return status;
}

static dp_status *output_old_lines(dp_op_context *context, dp_tensor *lines) {
  int32_t present = 0;
  for (int64_t i = 0; i < lines->shape.elements; ++i)
    present += ((const int64_t *)lines->data)[i] != -1;
  dp_op_set_output(context, 0, lines);
  return dp_op_output_int32(context, 1, present);
}

static dp_status *vocabulary_compute(dp_op_context *context, void *memory) {
  const vocabulary_state *state = memory;
  char *new_path = NULL, *old_path = NULL;
  dp_tensor words = {0}, lines = {0};
  dp_status *status = read_path(context, 0, "new_vocab_file", &new_path);
  if (!status)
    status = read_new_words(state, new_path, &words);
  if (!status)
    status = read_path(context, 1, "old_vocab_file", &old_path);
  if (!status)
    status = find_old_lines(state, old_path, &words, &lines);
  if (!status)
    status = output_old_lines(context, &lines);
  dp_tensor_deinit(&words);
  dp_tensor_deinit(&lines);
  dp_free(new_path);
  dp_free(old_path);
  return status;
}

/* clang-format off */
#define KEYS (DP_SET(STRING) | DP_SET(INT32) | DP_SET(INT64))
#define VALUES                                                                                     \
  (KEYS | DP_SET(FLOAT) | DP_SET(DOUBLE) | DP_SET(BOOL) | DP_SET(VARIANT) | DP_SET(RESOURCE))
#define MAKE(name)                                                                                 \
  {.op = name, .types = {{"key_dtype", KEYS}, {"value_dtype", VALUES}},                            \
   .state_size = sizeof(make_state), .create = make_create, .compute = make_compute,               \
   .destroy = make_destroy}
#define USE(name, body) {.op = name, .compute = body}
#define TEXT(name)                                                                                 \
  {.op = name, .flags = DP_KERNEL_BLOCKING, .state_size = sizeof(text_state),                      \
   .create = text_create, .compute = text_compute}

static const dp_kernel rows[] = {
    MAKE("HashTable"), MAKE("HashTableV2"), MAKE("AnonymousHashTable"),
    MAKE("MutableHashTable"), MAKE("MutableHashTableV2"), MAKE("AnonymousMutableHashTable"),
    MAKE("MutableHashTableOfTensors"), MAKE("MutableHashTableOfTensorsV2"),
    MAKE("AnonymousMutableHashTableOfTensors"),
    MAKE("MutableDenseHashTable"), MAKE("MutableDenseHashTableV2"),
    MAKE("AnonymousMutableDenseHashTable"),
    USE("LookupTableFind", find_compute), USE("LookupTableFindV2", find_compute),
    USE("LookupTableInsert", insert_compute), USE("LookupTableInsertV2", insert_compute),
    USE("LookupTableRemoveV2", remove_compute),
    USE("LookupTableImport", import_compute), USE("LookupTableImportV2", import_compute),
    USE("LookupTableExport", export_compute), USE("LookupTableExportV2", export_compute),
    USE("LookupTableSize", size_compute), USE("LookupTableSizeV2", size_compute),
    USE("InitializeTable", fill_compute), USE("InitializeTableV2", fill_compute),
    TEXT("InitializeTableFromTextFile"), TEXT("InitializeTableFromTextFileV2"),
    {.op = "GenerateVocabRemapping", .flags = DP_KERNEL_BLOCKING,
     .state_size = sizeof(vocabulary_state), .create = vocabulary_create,
     .compute = vocabulary_compute},
};
/* clang-format on */
DP_KERNEL_FAMILY(lookup, rows);
