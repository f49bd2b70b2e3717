/* Tables: many rows, such as embeddings, over several variables (partition.c). Each part has
 * consecutive rows. A lookup sends the row numbers to the parts and gathers on the server of each
 * part, so that only the wanted rows travel. The model owns its tables. */
#include <inttypes.h>

#include "train/train_internal.h"

struct dp_table {
  dp_model *model;
  int64_t rows;
  int parts;
  train_variable *variables[]; /* by part */
};

dp_table *dp_model_table(dp_model *model, const char *name, int64_t rows, int64_t columns,
                         int parts, dp_initializer initializer) {
  if (parts < 1 || rows < parts || columns < 1)
    dp_scope_fail(model->root, TF_INVALID_ARGUMENT,
                  "the table %s of %" PRId64 " x %" PRId64 " cannot have %d parts", name, rows,
                  columns, parts);
  size_t count = parts > 0 ? (size_t)parts : 0;
  dp_table *table = dp_calloc(1, sizeof(dp_table) + count * sizeof(train_variable *));
  table->model = model;
  table->rows = rows;
  table->parts = parts;
  DP_ARRAY_PUSH(&model->tables, table);
  if (dp_scope_ok(model->root))
    dp_train_parts_make(model, name, DP_SHAPE(rows, columns), 0, parts, initializer, TF_FLOAT,
                        table->variables);
  return table;
}

static TF_Output gather(dp_table *table, int part, TF_Output rows) {
  const train_variable *variable = table->variables[part];
  dp_scope *there = dp_scope_named(dp_train_on(table->model, variable->device), "lookup");
  return dp_gather_v2(there, variable->value, rows, dp_const_int32(there, 0));
}

/* The part that each row is in, and the first row of that part. With q = rows / parts, the first
 * `extra` = rows % parts parts have q + 1 rows and the others q. A row number that is out of range
 * gives a part that does not exist, or a row after the end of the last part; the op that reads it
 * fails. */
static TF_Output part_of(dp_table *table, dp_scope *scope, TF_Output rows, TF_Output *first_out) {
  TF_DataType dtype = TF_OperationOutputType(rows);
  int64_t each = table->rows / table->parts, extra = table->rows % table->parts;
  TF_Output among_long =
      dp_floor_div(scope, rows, dp_const_number(scope, dtype, (double)(each + 1)));
  TF_Output past = dp_sub(scope, rows, dp_const_number(scope, dtype, (double)extra));
  TF_Output among_short = dp_floor_div(scope, past, dp_const_number(scope, dtype, (double)each));
  TF_Output part = dp_maximum(scope, among_long, among_short);
  TF_Output short_before = dp_minimum(scope, part, dp_const_number(scope, dtype, (double)extra));
  TF_Output before = dp_mul(scope, part, dp_const_number(scope, dtype, (double)each));
  *first_out = dp_add_v2(scope, before, short_before);
  return dp_cast(scope, part, TF_INT32);
}

TF_Output dp_table_lookup(dp_table *table, TF_Output ids) {
  dp_scope *scope = dp_scope_named(table->model->worker, "lookup");
  if (!dp_scope_ok(scope))
    return (TF_Output){0};
  if (table->parts == 1)
    return gather(table, 0, ids);
  TF_Output flat = dp_reshape(scope, ids, dp_const_vector(scope, DP_INTS(-1)));
  TF_Output first, part = part_of(table, scope, flat, &first);
  TF_Output zero = dp_const_int32(scope, 0), one = dp_const_int32(scope, 1);
  TF_Output positions = dp_range(scope, zero, dp_size(scope, flat), one);
  dp_output_list rows = dp_dynamic_partition(scope, dp_sub(scope, flat, first), part, table->parts);
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
