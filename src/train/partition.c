/* Partitioned variables: one variable cut along an axis into parts, each placed on its own. Parts
 * have the sizes and names of TensorFlow's partitioned variables. In a checkpoint they are slices
 * of one tensor, so that TensorFlow reads our checkpoints and we read TensorFlow's, also with
 * another number of parts. The model owns the parts. */
#include <inttypes.h>

#include "tensor/shape.h"
#include "train/train_internal.h"

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t divided_up(int64_t a, int64_t b) {
  return a / b + (a % b != 0);
}

int dp_partition_count(dp_partitioner how, dp_dims shape, TF_DataType dtype) {
  if (how.axis < 0 || how.axis >= shape.count || shape.items[how.axis] < 1)
    return 1;
  int64_t size = shape.items[how.axis], total = dp_train_elements(shape);
  int64_t bytes = total * (int64_t)TF_DataTypeSize(dtype), parts = 1;
  switch (how.kind) {
  case DP_PARTITION_FIXED:
    parts = how.most;
    break;
  case DP_PARTITION_BY_BYTES: {
    int64_t slices = how.bytes / (bytes / size > 0 ? bytes / size : 1);
    parts = divided_up(size, slices > 0 ? slices : 1);
    parts = how.most > 0 ? smaller(parts, how.most) : parts;
    break;
  }
  case DP_PARTITION_MIN_MAX:
    parts = smaller(divided_up(bytes, how.bytes > 0 ? how.bytes : 1), how.most);
    break;
  }
  parts = smaller(parts, size);
  return parts < 1 ? 1 : (int)parts;
}

/* "6 4 0,3:0,4": the shape of the whole, then for each dimension where the part begins and its
 * length. */
static void name_slice(train_variable *variable, const char *name, dp_dims whole, int axis,
                       int64_t first) {
  dp_text slice = {0};
  for (int i = 0; i < whole.count; i++)
    dp_text_printf(&slice, "%" PRId64 " ", whole.items[i]);
  for (int i = 0; i < whole.count; i++)
    dp_text_printf(&slice, "%s%" PRId64 ",%" PRId64, i ? ":" : "", i == axis ? first : 0,
                   variable->shape.items[i]);
  dp_free(variable->slice);
  dp_free(variable->saved_name);
  variable->slice = dp_text_take(&slice);
  variable->saved_name = dp_strdup(name);
}

static train_variable *make_part(dp_model *model, const char *name, int number, dp_dims shape,
                                 dp_initializer initializer, TF_DataType dtype) {
  dp_text part = {0};
  dp_text_printf(&part, "%s/part_%d", name, number);
  train_variable *variable =
      dp_train_variable_make(model, dp_text_string(&part), shape, initializer,
                             (dp_model_variable_options){.dtype = dtype}, NULL);
  dp_text_deinit(&part);
  return variable;
}

void dp_train_parts_make(dp_model *model, const char *name, dp_dims shape, int axis, int parts,
                         dp_initializer initializer, TF_DataType dtype,
                         train_variable **variables) {
  int64_t first = 0, own[DP_MAX_RANK];
  initializer = dp_train_initializer(initializer, shape);
  for (int i = 0; i < shape.count; i++)
    own[i] = shape.items[i];
  for (int i = 0; i < parts && dp_scope_ok(model->root); i++) {
    /* When the size is not a multiple of the parts, the first parts are longer by one. */
    own[axis] = (shape.items[axis] + parts - 1 - i) / parts;
    variables[i] = make_part(model, name, i, (dp_dims){own, shape.count}, initializer, dtype);
    if (!variables[i])
      return;
    name_slice(variables[i], name, shape, axis, first);
    first += own[axis];
  }
}

TF_Output dp_model_partitioned(dp_model *model, const char *name, dp_dims shape,
                               dp_initializer initializer, dp_partitioner how) {
  if (shape.count < 1 || shape.count > DP_MAX_RANK || how.axis < 0 || how.axis >= shape.count)
    dp_scope_fail(model->root, TF_INVALID_ARGUMENT,
                  "the variable %s of %d dimensions cannot be cut along axis %d", name, shape.count,
                  how.axis);
  if (!dp_scope_ok(model->root))
    return (TF_Output){0};
  int parts = dp_partition_count(how, shape, TF_FLOAT);
  train_variable **variables = DP_NEW_ARRAY(train_variable *, parts);
  TF_Output *values = DP_NEW_ARRAY(TF_Output, parts), whole = {0};
  dp_train_parts_make(model, name, shape, how.axis, parts, initializer, TF_FLOAT, variables);
  for (int i = 0; i < parts && dp_scope_ok(model->root); i++)
    values[i] = variables[i]->value;
  if (dp_scope_ok(model->root)) {
    dp_scope *scope = dp_scope_named(model->worker, name);
    whole = parts == 1 ? values[0]
                       : dp_concat_v2(scope, ((dp_outputs){values, parts}),
                                      dp_const_int32(scope, how.axis), .name = "whole");
  }
  dp_free(variables);
  dp_free(values);
  return whole;
}
