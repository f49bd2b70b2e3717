/* DecodeCSV: each input string is one record of RFC 4180, each output one column. Records are split
 * into fields first, with quotes removed; then each selected field is converted to the dtype of its
 * output, or replaced by the default. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/text/string.h"

typedef struct csv_state {
  char delimiter;
  bool uses_quotes;
  bool ends_plain[256]; /* bytes that end an unquoted field, or may not be in one */
  char *missing;        /* text that means "no value" */
  size_t missing_length;
  int32_t selected_count; /* 0: all columns */
  int64_t *selected;
} csv_state;

static dp_status *read_columns(const dp_node *node, csv_state *state) {
  const dp_attr *columns, *types;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "select_cols", DP_ATTR_LIST_INT, &columns));
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "OUT_TYPE", DP_ATTR_LIST_TYPE, &types));
  if (columns->count != 0 && columns->count != types->count)
    return DP_INVALID("select_cols should match output size");
  state->selected_count = columns->count;
  state->selected = DP_NEW_ARRAY(int64_t, (size_t)columns->count + 1);
  for (int32_t i = 0; i < columns->count; ++i) {
    state->selected[i] = columns->integers[i];
    if (i > 0 && columns->integers[i] <= columns->integers[i - 1])
      return DP_INVALID("select_cols should be strictly increasing indices");
  }
  if (columns->count > 0 && columns->integers[0] < 0)
    return DP_INVALID("select_cols should be non-negative indices");
  return NULL;
}

static dp_status *csv_create(const dp_kernel_setup *setup, void *memory) {
  csv_state *state = memory;
  dp_view delimiter, missing;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "field_delim", &delimiter));
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "na_value", &missing));
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "use_quote_delim", &state->uses_quotes));
  DP_RETURN_IF_ERROR(read_columns(setup->node, state));
  if (delimiter.length != 1)
    return DP_INVALID("field_delim should be only 1 char");
  state->delimiter = delimiter.data[0];
  state->ends_plain[(uint8_t)state->delimiter] = true;
  state->ends_plain['\n'] = state->ends_plain['\r'] = true;
  state->ends_plain['"'] |= state->uses_quotes;
  state->missing = dp_malloc(missing.length + 1);
  memcpy(state->missing, missing.data, missing.length);
  state->missing_length = missing.length;
  return NULL;
}

static void csv_destroy(void *memory) {
  dp_free(((csv_state *)memory)->missing);
  dp_free(((csv_state *)memory)->selected);
}

/* ---- Fields ---- */
/* The fields of one record: views into the record, or into `space` where quotes were removed. */
typedef struct fields {
  DP_ARRAY(dp_view) views;
  DP_ARRAY(char) space; /* has room for the whole record, so that it never moves */
} fields;

static dp_status *plain_field(const csv_state *state, dp_view record, size_t *at,
                              dp_view *field_out) {
  size_t begin = *at, end = begin;
  while (end < record.length && !state->ends_plain[(uint8_t)record.data[end]])
    ++end;
  if (end < record.length && record.data[end] != state->delimiter)
    return DP_INVALID("Unquoted fields cannot have quotes/CRLFs inside");
  *field_out = (dp_view){record.data + begin, end - begin};
  *at = end + 1; /* behind the delimiter */
  return NULL;
}

static dp_status *quoted_field(const csv_state *state, dp_view record, size_t *at, fields *out,
                               dp_view *field_out) {
  const char *data = record.data;
  char *begin = out->space.items + out->space.count;
  size_t last = record.length - 1, length = 0;
  while (*at < last && (data[*at] != '"' || data[*at + 1] != state->delimiter)) {
    if (data[*at] == '"' && data[*at + 1] != '"')
      return DP_INVALID("Quote inside a string has to be escaped by another quote");
    begin[length++] = data[*at];
    *at += data[*at] == '"' ? 2 : 1;
  }
  if (*at >= record.length || data[*at] != '"' ||
      (*at != last && data[*at + 1] != state->delimiter))
    return DP_INVALID("Quoted field has to end with quote followed by delim or end");
  *at += 2;
  out->space.count += length;
  *field_out = (dp_view){begin, length};
  return NULL;
}

static bool is_wanted(const csv_state *state, size_t taken, int64_t column) {
  return state->selected_count == 0 ||
         (taken < (size_t)state->selected_count && state->selected[taken] == column);
}

static dp_status *read_fields(const csv_state *state, dp_view record, fields *out) {
  out->views.count = out->space.count = 0;
  DP_ARRAY_RESERVE(&out->space, record.length);
  size_t at = 0;
  int64_t column = 0;
  while (at < record.length) {
    if (record.data[at] == '\n' || record.data[at] == '\r') {
      ++at;
      continue;
    }
    dp_view field;
    bool is_quoted = state->uses_quotes && record.data[at] == '"';
    at += is_quoted;
    DP_RETURN_IF_ERROR(is_quoted ? quoted_field(state, record, &at, out, &field)
                                 : plain_field(state, record, &at, &field));
    if (is_wanted(state, out->views.count, column++))
      DP_ARRAY_PUSH(&out->views, field);
    if (state->selected_count > 0 && out->views.count == (size_t)state->selected_count)
      return NULL;
  }
  if (record.length > 0 && record.data[record.length - 1] == state->delimiter &&
      is_wanted(state, out->views.count, column))
    DP_ARRAY_PUSH(&out->views, dp_view_of(""));
  return NULL;
}

/* ---- Values ---- */
static dp_status *store_field(dp_op_context *context, const csv_state *state, int32_t column,
                              int64_t record, dp_view field) {
  dp_tensor *output = &context->outputs[column].tensor;
  size_t size = dp_dtype_size(output->dtype);
  char *to = (char *)output->data + (size_t)record * size;
  bool is_missing = field.length == 0 || (field.length == state->missing_length &&
                                          memcmp(field.data, state->missing, field.length) == 0);
  if (is_missing) {
    const dp_tensor *standard = dp_op_input(context, column + 1);
    if (standard->shape.elements != 1)
      return DP_INVALID("Field %d is required but missing in record %lld!", column,
                        (long long)record);
    dp_tensor_copy_elements(output->dtype, to, standard->data, 1);
    return NULL;
  }
  if (output->dtype == DP_STRING)
    return dp_tstring_assign((dp_tstring *)to, field.data, field.length);
  if (!dp_string_to_number(field, output->dtype, to))
    return DP_INVALID("Field %d in record %lld is not a valid %s: %.*s", column, (long long)record,
                      dp_dtype_name(output->dtype), (int)field.length, field.data);
  return NULL;
}

static dp_status *check_defaults(const dp_op_context *context) {
  for (int32_t i = 1; i < context->input_count; ++i) {
    const dp_tensor *standard = dp_op_input(context, i);
    if (standard->shape.rank > 1)
      return DP_INVALID("Each record default should be at most rank 1");
    if (standard->shape.elements > 1)
      return DP_INVALID("There should only be 1 default per field but field %d has %lld", i - 1,
                        (long long)standard->shape.elements);
  }
  return NULL;
}

static dp_status *store_record(dp_op_context *context, const csv_state *state, int64_t record,
                               fields *space) {
  DP_RETURN_IF_ERROR(read_fields(state, dp_string_at(dp_op_input(context, 0), record), space));
  if (space->views.count != (size_t)context->output_count)
    return DP_INVALID("Expect %d fields but have %zu in record %lld", context->output_count,
                      space->views.count, (long long)record);
  for (int32_t i = 0; i < context->output_count; ++i)
    DP_RETURN_IF_ERROR(store_field(context, state, i, record, space->views.items[i]));
  return NULL;
}

static dp_status *csv_compute(dp_op_context *context, void *memory) {
  const dp_tensor *records = dp_op_input(context, 0);
  DP_RETURN_IF_ERROR(check_defaults(context));
  for (int32_t i = 0; i < context->output_count; ++i) {
    dp_tensor *output;
    DP_RETURN_IF_ERROR(dp_op_allocate(context, i, &records->shape, &output));
  }
  fields space = {0};
  dp_status *status = NULL;
  for (int64_t i = 0; i < records->shape.elements && !status; ++i)
    status = store_record(context, memory, i, &space);
  DP_ARRAY_FREE(&space.space);
  DP_ARRAY_FREE(&space.views);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "DecodeCSV",
     .state_size = sizeof(csv_state),
     .create = csv_create,
     .compute = csv_compute,
     .destroy = csv_destroy},
};
DP_KERNEL_FAMILY(decode_csv, rows);
