/* Tables of rows over several variables: row r is in part r % parts, so that neighbours, which are
 * often used together, are spread. A lookup gathers on each part's own server; only rows travel. In
 * checkpoints the parts are slices of one tensor, as those of TensorFlow's partitioned variables.
 */
#include <inttypes.h>

#include "train/train_internal.h"

struct dp_table {
  dp_model *model;
  int parts;
  train_variable *variables[]; /* by part */
};

static void name_slice(train_variable *variable, const char *name, int64_t rows, int64_t columns,
                       int64_t first) {
  dp_text slice = {0};
  dp_text_printf(&slice, "%" PRId64 " %" PRId64 " %" PRId64 ",%" PRId64 ":0,%" PRId64, rows,
                 columns, first, variable->shape.items[0], columns);
  dp_free(variable->slice);
  dp_free(variable->saved_name);
  variable->slice = dp_text_take(&slice);
  variable->saved_name = dp_strdup(name);
}

dp_table *dp_model_table(dp_model *model, const char *name, int64_t rows, int64_t columns,
                         int parts, dp_initializer initializer) {
  if (parts < 1 || rows < parts || columns < 1)
    dp_scope_fail(model->root, TF_INVALID_ARGUMENT,
                  "the table %s of %" PRId64 " x %" PRId64 " cannot have %d parts", name, rows,
                  columns, parts);
  size_t count = parts > 0 ? (size_t)parts : 0;
  dp_table *table = dp_calloc(1, sizeof(dp_table) + count * sizeof(train_variable *));
  table->model = model;
  table->parts = parts;
  DP_ARRAY_PUSH(&model->tables, table);
  int64_t first = 0;
  for (int i = 0; i < parts && dp_scope_ok(model->root); i++) {
    dp_text part = {0};
    dp_text_printf(&part, "%s/part_%d", name, i);
    int64_t own = (rows + parts - 1 - i) / parts;
    train_variable *variable =
        dp_train_variable_make(model, dp_text_string(&part), DP_SHAPE(own, columns), initializer,
                               (dp_model_variable_options){.dtype = TF_FLOAT}, NULL);
    dp_text_deinit(&part);
    if (!variable)
      break;
    name_slice(variable, name, rows, columns, first);
    table->variables[i] = variable;
    first += own;
  }
  return table;
}

static TF_Output gather(dp_table *table, int part, TF_Output rows) {
  const train_variable *variable = table->variables[part];
  dp_scope *there = dp_scope_named(dp_train_on(table->model, variable->device), "lookup");
  return dp_gather_v2(there, variable->value, rows, dp_const_int32(there, 0));
}

TF_Output dp_table_lookup(dp_table *table, TF_Output ids) {
  dp_scope *scope = dp_scope_named(table->model->worker, "lookup");
  if (!dp_scope_ok(scope))
    return (TF_Output){0};
  if (table->parts == 1)
    return gather(table, 0, ids);
  TF_DataType dtype = TF_OperationOutputType(ids);
  TF_Output flat = dp_reshape(scope, ids, dp_const_vector(scope, DP_INTS(-1)));
  TF_Output parts = dp_const_number(scope, dtype, table->parts);
  TF_Output part = dp_cast(scope, dp_floor_mod(scope, flat, parts), TF_INT32);
  TF_Output zero = dp_const_int32(scope, 0), one = dp_const_int32(scope, 1);
  TF_Output positions = dp_range(scope, zero, dp_size(scope, flat), one);
  dp_output_list rows =
      dp_dynamic_partition(scope, dp_floor_div(scope, flat, parts), part, table->parts);
  dp_output_list where = dp_dynamic_partition(scope, positions, part, table->parts);
  TF_Output *gathered = DP_NEW_ARRAY(TF_Output, table->parts);
  TF_Output *order = DP_NEW_ARRAY(TF_Output, table->parts);
  for (int i = 0; i < table->parts && dp_scope_ok(scope); i++) {
    gathered[i] = gather(table, i, dp_output_at(rows, i));
    order[i] = dp_output_at(where, i);
  }
  TF_Output found = dp_dynamic_stitch(scope, ((dp_outputs){order, table->parts}),
                                      ((dp_outputs){gathered, table->parts}));
  dp_free(gathered);
  dp_free(order);
  int64_t columns = dp_scope_ok(scope) ? table->variables[0]->shape.items[1] : 0;
  TF_Output shape = dp_concat_v2(
      scope, DP_OUTPUTS(dp_shape(scope, ids), dp_const_vector(scope, DP_INTS(columns))), zero);
  return dp_reshape(scope, found, shape);
}
