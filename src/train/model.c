/* A model: the graph, the scopes that say where its operations run, and the choice of a parameter
 * server for each variable. The default is round robin, as in TensorFlow; dp_place_by_bytes chooses
 * the server with the fewest bytes so far, for variables that differ in size. The model owns the
 * graph and all that train_internal.h lists in it. One thread builds a model. */
#include <stdio.h>
#include <string.h>

#include "client/options.h"
#include "train/train_internal.h"

static int servers_of(const dp_model *model) {
  return model->job ? dp_job_ps_count(model->job) : 0;
}

/* ---- Placement ---- */
static int64_t bytes_of(const dp_new_operation *operation) {
  int64_t elements = 1;
  for (int i = 0; i < operation->shape.count; i++)
    elements *= operation->shape.items[i] > 0 ? operation->shape.items[i] : 1;
  size_t size = TF_DataTypeSize(operation->dtype);
  return elements * (int64_t)(size ? size : 1);
}

static bool is_variable(const char *op_type) {
  static const char *const types[] = {"Variable",    "VariableV2",       "AutoReloadVariable",
                                      "VarHandleOp", "MutableHashTable", "MutableHashTableV2",
                                      "HashTableV2"};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
    if (strcmp(op_type, types[i]) == 0)
      return true;
  return false;
}

static const char *choose_device(void *arg, const dp_new_operation *operation) {
  static _Thread_local char device[64];
  dp_model *model = arg;
  int servers = servers_of(model);
  if (servers == 0 || !is_variable(operation->op_type))
    return model->job ? dp_job_device(model->job) : NULL;
  int64_t bytes = bytes_of(operation);
  int chosen;
  if (model->place)
    chosen = model->place(model->place_arg, operation, bytes, servers);
  else
    chosen = model->place_next++ % servers;
  if (chosen < 0 || chosen >= servers) {
    dp_scope_fail(model->root, TF_INVALID_ARGUMENT,
                  "%s was placed on parameter server %d; there are %d, from 0", operation->name,
                  chosen, servers);
    chosen = 0;
  }
  model->place_bytes[chosen] += bytes;
  snprintf(device, sizeof(device), "/job:ps/task:%d", chosen);
  return device;
}

static int place_by_bytes(void *arg, const dp_new_operation *variable, int64_t bytes,
                          int ps_count) {
  const int64_t *loads = ((dp_model *)arg)->place_bytes;
  int best = 0;
  for (int i = 1; i < ps_count; i++)
    if (loads[i] < loads[best])
      best = i;
  return best;
}

void dp_model_place(dp_model *model, dp_place_fn place, void *arg) {
  model->place = place;
  model->place_arg = arg;
}

void dp_model_place_by_bytes(dp_model *model) {
  dp_model_place(model, place_by_bytes, model);
}

/* ---- Life ---- */
dp_model *dp_model_create(const dp_job *job) {
  dp_model *model = DP_NEW(dp_model);
  model->job = job;
  model->graph = TF_NewGraph();
  model->root = dp_scope_create(model->graph);
  model->worker = dp_scope_placed(model->root, choose_device, model);
  model->place_bytes = DP_NEW_ARRAY(int64_t, servers_of(model) + 1);
  model->global_step =
      dp_train_variable_make(model, "global_step", DP_SHAPE(), dp_init_constant(0),
                             (dp_model_variable_options){.dtype = TF_INT64, .fixed = true}, NULL);
  return model;
}

void dp_model_destroy(dp_model *model) {
  if (!model)
    return;
  for (size_t i = 0; i < model->variables.count; i++)
    dp_train_variable_destroy(model->variables.items[i]);
  for (size_t i = 0; i < model->tables.count; i++)
    dp_free(model->tables.items[i]);
  DP_ARRAY_FREE(&model->variables);
  DP_ARRAY_FREE(&model->tables);
  DP_ARRAY_FREE(&model->summaries);
  DP_ARRAY_FREE(&model->runners);
  dp_train_sync_destroy(model->sync);
  dp_free(model->place_bytes);
  dp_scope_destroy(model->root);
  TF_DeleteGraph(model->graph);
  dp_free(model);
}

TF_Graph *dp_model_graph(dp_model *model) {
  return model->graph;
}

dp_scope *dp_model_scope(dp_model *model) {
  return model->worker;
}

void dp_model_seed(dp_model *model, int64_t seed) {
  model->seed = seed;
}

TF_Output dp_model_global_step(dp_model *model) {
  return model->global_step ? model->global_step->value : (TF_Output){0};
}

dp_scope *dp_train_on(dp_model *model, const char *device) {
  return device[0] ? dp_scope_on(model->root, device) : model->root;
}

TF_Operation *dp_train_group(dp_scope *scope, TF_Operation *const *operations, int count,
                             const char *name) {
  return dp_no_op(dp_scope_after(scope, operations, count), .name = name);
}

/* ---- What else a model has ---- */
void dp_model_summary_scalar(dp_model *model, const char *tag, TF_Output value) {
  TF_Output summary = dp_scalar_summary(model->worker, dp_const_string(model->worker, tag), value);
  DP_ARRAY_PUSH(&model->summaries, summary);
}

void dp_model_summary_histogram(dp_model *model, const char *tag, TF_Output values) {
  TF_Output summary =
      dp_histogram_summary(model->worker, dp_const_string(model->worker, tag), values);
  DP_ARRAY_PUSH(&model->summaries, summary);
}

void dp_train_read_options(dp_model *model, const char *function, const void *given, void *ours,
                           size_t size) {
  dp_status *status = dp_client_options_read(function, given, ours, size);
  if (status)
    dp_scope_fail(model->root, (TF_Code)dp_status_code(status), "%s", dp_status_message(status));
  dp_status_release(status);
}

void dp_model_queue_runner(dp_model *model, TF_Operation *enqueue, TF_Operation *close,
                           TF_Operation *cancel) {
  DP_ARRAY_PUSH(&model->runners, ((train_runner){enqueue, close, cancel}));
}
