/* Marks: what the parameter servers know of the values that they hold. README.md has the table of
 * what they mean. There is one mark per device that has shared variables, beside them; a server
 * that was started again has none. The training's own thread comes here. */
#include <stdio.h>
#include <string.h>

#include "train/train_internal.h"

/* ---- The graph ---- */
/* The mark of the device, made if there is none yet: a model may be trained several times. */
static train_variable *mark_of(dp_model *model, const char *device, int number) {
  char name[48];
  snprintf(name, sizeof(name), "values_mark_%d", number);
  train_variable *mark = dp_train_variable_find(model, name);
  if (!mark)
    mark = dp_train_variable_make(model, name, DP_SHAPE(), dp_init_constant(0),
                                  (dp_model_variable_options){.dtype = TF_INT64, .fixed = true},
                                  device);
  if (mark)
    mark->passing = true;
  return mark;
}

static TF_Output ask_initialized(dp_model *model, const train_variable *variable) {
  dp_scope *there = dp_scope_named(dp_train_on(model, variable->device), "ready");
  return dp_is_variable_initialized(there, variable->reference);
}

typedef DP_ARRAY(train_variable *) variable_list;

/* Finds the shared variables, and makes a mark for each device that they are on. */
static void collect(dp_model *model, variable_list *shared, variable_list *marks) {
  for (size_t i = 0; i < model->variables.count; i++)
    if (!model->variables.items[i]->local && !model->variables.items[i]->passing)
      DP_ARRAY_PUSH(shared, model->variables.items[i]);
  for (size_t i = 0; i < shared->count; i++) {
    size_t at = 0;
    while (at < marks->count && strcmp(marks->items[at]->device, shared->items[i]->device) != 0)
      at++;
    train_variable *mark =
        at == marks->count ? mark_of(model, shared->items[i]->device, (int)at) : NULL;
    if (mark)
      DP_ARRAY_PUSH(marks, mark);
  }
}

static void ask_all(dp_model *model, const variable_list *shared, const variable_list *marks,
                    train_marks *to) {
  DP_ARRAY(TF_Output) answers = {0};
  for (size_t i = 0; i < shared->count; i++)
    DP_ARRAY_PUSH(&answers, ask_initialized(model, shared->items[i]));
  for (size_t i = 0; i < marks->count; i++)
    DP_ARRAY_PUSH(&answers, ask_initialized(model, marks->items[i]));
  to->counted = (int)answers.count;
  if (model->sync)
    DP_ARRAY_PUSH(&answers, ask_initialized(model, model->sync->stamp));
  to->initialized = dp_pack(model->worker, ((dp_outputs){answers.items, (int)answers.count}));
  DP_ARRAY_FREE(&answers);
}

void dp_train_marks_make(dp_model *model, train_marks *to) {
  variable_list shared = {0}, marks = {0};
  collect(model, &shared, &marks);
  TF_Output *values = DP_NEW_ARRAY(TF_Output, marks.count + 1);
  TF_Operation **sets = DP_NEW_ARRAY(TF_Operation *, marks.count + 1);
  if (dp_scope_ok(model->root)) {
    ask_all(model, &shared, &marks, to);
    to->number = dp_placeholder(model->root, TF_INT64, .shape = DP_SHAPE(), .name = "values_mark");
    for (size_t i = 0; i < marks.count; i++) {
      dp_scope *there = dp_scope_named(dp_train_on(model, marks.items[i]->device), "ready");
      values[i] = marks.items[i]->value;
      sets[i] = dp_assign(there, marks.items[i]->reference, to->number).oper;
    }
    to->values = dp_pack(model->worker, ((dp_outputs){values, (int)marks.count}));
    to->set = dp_train_group(model->worker, sets, (int)marks.count, "set_marks");
  }
  dp_free(values);
  dp_free(sets);
  DP_ARRAY_FREE(&shared);
  DP_ARRAY_FREE(&marks);
}

/* ---- Asking ---- */
/* Whether all of the first `count` elements are true. */
static bool are_initialized(dp_training *self, int count, int64_t deadline, TF_Status *status) {
  TF_Tensor *answer = NULL;
  train_run ask = {.fetches = DP_OUTPUTS(self->marks.initialized), .deadline = deadline};
  if (dp_train_run(self, &ask, &answer, status) != TF_OK)
    return false;
  bool all = true;
  for (int i = 0; i < count; i++)
    all = all && ((const uint8_t *)TF_TensorData(answer))[i];
  TF_DeleteTensor(answer);
  return all;
}

bool dp_train_marks_kept(dp_training *self, bool chief, int64_t deadline, TF_Status *status) {
  int count = self->marks.counted + (!chief && self->model->sync ? 1 : 0);
  if (!are_initialized(self, count, deadline, status))
    return false;
  TF_Tensor *values = NULL;
  train_run ask = {.fetches = DP_OUTPUTS(self->marks.values), .deadline = deadline};
  if (dp_train_run(self, &ask, &values, status) != TF_OK)
    return false;
  const int64_t *marks = TF_TensorData(values);
  bool kept = marks[0] > 0 || (marks[0] < 0 && !chief);
  self->mark = marks[0];
  for (int64_t i = 1; i < TF_TensorElementCount(values); i++)
    kept = kept && marks[i] == marks[0];
  TF_DeleteTensor(values);
  return kept;
}

void dp_train_marks_set(dp_training *self, int64_t number, int64_t deadline, TF_Status *status) {
  TF_Tensor *fed = TF_AllocateTensor(TF_INT64, NULL, 0, sizeof(number));
  memcpy(TF_TensorData(fed), &number, sizeof(number));
  train_run set = {.feeds = DP_FEEDS({self->marks.number, fed}),
                   .target = self->marks.set,
                   .deadline = deadline};
  dp_train_run(self, &set, NULL, status);
  TF_DeleteTensor(fed);
}
