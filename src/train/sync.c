/* Synchronous training, after TensorFlow's SyncReplicasOptimizer.
 *
 * Each variable has an accumulator beside it. A worker adds its gradients, marked with its stamp,
 * and waits for a token. When every accumulator has enough gradients of the present stamp, the
 * chief's thread takes their means, applies them, and puts a token into every worker's queue.
 *
 *   worker: gradients -> accumulators -> dequeue token -> read the stamp and the global step
 *   chief:  accumulators -> mean -> update -> global step, stamp -> tokens
 *
 * Unlike TensorFlow's, every worker has a queue of its own, and a stamp is not the global step: it
 * also grows when the chief sets the step up again (dp_train_sync_set_up). README.md says why this
 * survives the death of any task. The file's graph part is built by the training's thread. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "train/train_internal.h"

/* Tokens that a worker may be behind when it is spare: more would only fill the memory. */
enum { MOST_TOKENS = 16 };
static const int64_t DROP_NANOS = 5000000000;

typedef struct sync_build {
  dp_model *model;
  int replicas, workers;
  dp_scope *scope; /* beside the global step */
  TF_Output *queues;
  TF_Operation **pushes, **sets; /* by gradient */
  TF_Output *counts;
  dp_variable_gradient *means;
} sync_build;

/* ---- State ---- */
static void make_state(sync_build *self) {
  dp_model *model = self->model;
  dp_model_variable_options options = {.dtype = TF_INT64, .fixed = true};
  const char *beside = model->global_step->device;
  self->scope = dp_scope_named(dp_train_on(model, beside), "sync");
  for (int i = 0; i < self->workers; i++) {
    char name[48];
    snprintf(name, sizeof(name), "sync_token_q_%d", i);
    self->queues[i] =
        dp_fifo_queue_v2(self->scope, DP_TYPES(TF_INT64), .shapes = DP_SHAPES(DP_SHAPE()),
                         .shared_name = name, .name = "tokens");
  }
  model->sync->stamp =
      dp_train_variable_make(model, "sync_stamp", DP_SHAPE(), dp_init_constant(0), options, beside);
  options.local = true;
  model->sync->local_stamp =
      dp_train_variable_make(model, "sync_rep_local_step", DP_SHAPE(), dp_init_constant(0), options,
                             model->job ? dp_job_device(model->job) : "");
  if (model->sync->stamp)
    model->sync->stamp->passing = true;
}

/* ---- Accumulators ---- */
/* Makes the accumulator of one variable, the op that adds this worker's gradient to it, the mean
 * that the chief takes, and what the chief's set-up does to it. */
static void accumulate(sync_build *self, const dp_variable_gradient *gradient, int i) {
  dp_model *model = self->model;
  train_sync *sync = model->sync;
  train_variable *variable = dp_train_variable_find(model, gradient->variable);
  if (!variable) {
    dp_scope_fail(model->root, TF_NOT_FOUND, "there is no variable %s", gradient->variable);
    return;
  }
  dp_scope *scope = dp_scope_named(dp_train_on(model, variable->device), "sync");
  TF_Output stamp = sync->local_stamp->value, one = dp_const_int32(scope, 1), handle;
  TF_Output required = dp_const_int32(scope, self->replicas);
  dp_text shared = {0};
  dp_text_printf(&shared, "%s/grad_accum", variable->name);
  const char *name = dp_text_string(&shared);
  self->means[i] = (dp_variable_gradient){.variable = variable->name};
  if (gradient->indices.oper) {
    handle = dp_sparse_conditional_accumulator(scope, variable->dtype, variable->shape,
                                               .shared_name = name);
    TF_Output rows = dp_cast(scope, gradient->indices, TF_INT64);
    TF_Output none = dp_const_int64s(scope, DP_SHAPE(0), NULL);
    self->pushes[i] = dp_sparse_accumulator_apply_gradient(scope, handle, stamp, rows,
                                                           gradient->values, none, false);
    dp_sparse_accumulator_take_gradient_outputs taken =
        dp_sparse_accumulator_take_gradient(scope, handle, required, variable->dtype);
    self->means[i].values = taken.values;
    self->means[i].indices = taken.indices;
    sync->drops[i] =
        dp_sparse_accumulator_take_gradient(scope, handle, one, variable->dtype).values.oper;
  } else {
    handle =
        dp_conditional_accumulator(scope, variable->dtype, variable->shape, .shared_name = name);
    self->pushes[i] = dp_accumulator_apply_gradient(scope, handle, stamp, gradient->values);
    self->means[i].values = dp_accumulator_take_gradient(scope, handle, required, variable->dtype);
    sync->drops[i] = dp_accumulator_take_gradient(scope, handle, one, variable->dtype).oper;
  }
  self->sets[i] = dp_accumulator_set_global_step(scope, handle, sync->base);
  self->counts[i] = dp_accumulator_num_accumulated(scope, handle);
  dp_text_deinit(&shared);
}

/* ---- Workers ---- */
/* Waits for a token after `before`; then the local stamp becomes the stamp. Returns the stamp and
 * the global step as they are then. */
static TF_Output wait_for_token(sync_build *self, TF_Operation *const *before, int count,
                                TF_Output *step_out) {
  dp_model *model = self->model;
  int worker = model->job ? dp_job_worker(model->job) : 0;
  dp_scope *ready = dp_scope_after(self->scope, before, count);
  TF_Operation *taken =
      dp_queue_dequeue_v2(ready, self->queues[worker], DP_TYPES(TF_INT64)).operation;
  dp_scope *woken = dp_scope_after(self->scope, &taken, 1);
  TF_Output stamp = dp_identity(woken, model->sync->stamp->reference);
  *step_out = dp_identity(woken, model->global_step->reference);
  dp_scope *here = dp_train_on(model, model->sync->local_stamp->device);
  return dp_identity(here, dp_assign(here, model->sync->local_stamp->reference, stamp));
}

/* What a worker runs. A step that wants more gradients than there are workers takes several of each
 * worker, which waits after the last of its own. */
static void make_worker(sync_build *self, int count) {
  dp_model *model = self->model;
  train_sync *sync = model->sync;
  int worker = model->job ? dp_job_worker(model->job) : 0;
  TF_Output step;
  sync->own_pushes = self->replicas / self->workers + (worker < self->replicas % self->workers);
  if (sync->own_pushes < 1)
    sync->own_pushes = 1;
  sync->push = dp_train_group(self->scope, self->pushes, count, "push");
  sync->stamp_after = wait_for_token(self, self->pushes, count, &model->step_after);
  model->update = sync->stamp_after.oper;
  sync->stamp_again = wait_for_token(self, NULL, 0, &step);
  sync->step_again = step;
  dp_scope *here = dp_train_on(model, sync->local_stamp->device);
  sync->stamp_joined =
      dp_identity(here, dp_assign(here, sync->local_stamp->reference, sync->stamp->value));
}

/* ---- The chief ---- */
/* Puts a token into one queue, unless it has many: a spare worker that is dead takes none. */
static TF_Operation *give_if_room(dp_scope *scope, TF_Output queue, TF_Output token) {
  TF_Output room =
      dp_less(scope, dp_queue_size_v2(scope, queue), dp_const_int32(scope, MOST_TOKENS));
  dp_switch_outputs sides = dp_switch(scope, token, room);
  TF_Operation *given = dp_queue_enqueue_v2(scope, queue, DP_OUTPUTS(sides.output_true));
  TF_Output done = dp_identity(dp_scope_after(scope, &given, 1), sides.output_true);
  return dp_merge(scope, DP_OUTPUTS(sides.output_false, done)).output.oper;
}

static TF_Operation *wake(sync_build *self, dp_scope *scope, TF_Output token, bool always) {
  TF_Operation **told = DP_NEW_ARRAY(TF_Operation *, self->workers);
  for (int i = 0; i < self->workers; i++)
    told[i] = always ? dp_queue_enqueue_v2(scope, self->queues[i], DP_OUTPUTS(token))
                     : give_if_room(scope, self->queues[i], token);
  TF_Operation *all = dp_train_group(scope, told, self->workers, "wake");
  dp_free(told);
  return all;
}

static TF_Operation *close_queues(sync_build *self) {
  TF_Operation **closed = DP_NEW_ARRAY(TF_Operation *, self->workers);
  for (int i = 0; i < self->workers; i++)
    closed[i] = dp_queue_close_v2(self->scope, self->queues[i], .cancel_pending_enqueues = true);
  TF_Operation *all = dp_train_group(self->scope, closed, self->workers, "close");
  dp_free(closed);
  return all;
}

static void make_chief(sync_build *self, dp_optimizer optimizer, int count, double average_decay) {
  dp_model *model = self->model;
  train_sync *sync = model->sync;
  TF_Output step_after;
  TF_Operation *update =
      dp_train_apply_all(model, optimizer, self->means, count, average_decay, &step_after);
  if (!dp_scope_ok(model->root))
    return;
  dp_scope *applied = dp_scope_after(self->scope, &update, 1);
  TF_Output next = dp_assign_add(applied, sync->stamp->reference, dp_const_int64(self->scope, 1));
  sync->chief_update = wake(self, self->scope, next, self->replicas >= self->workers);
  sync->set_steps = dp_train_group(self->scope, self->sets, count, "set_steps");
  sync->counts = dp_pack(self->scope, ((dp_outputs){self->counts, count}));
  dp_scope *set = dp_scope_after(self->scope, &sync->set_steps, 1);
  TF_Output based = dp_assign(set, sync->stamp->reference, sync->base);
  sync->begin = wake(self, self->scope, based, true);
  sync->close = close_queues(self);
}

void dp_train_sync_make(dp_model *model, dp_optimizer optimizer,
                        const dp_variable_gradient *gradients, int count,
                        dp_model_apply_options options) {
  int workers = model->job ? dp_job_worker_count(model->job) : 1;
  sync_build self = {.model = model,
                     .workers = workers,
                     .replicas = options.replicas > 0 ? options.replicas : workers,
                     .queues = DP_NEW_ARRAY(TF_Output, workers),
                     .pushes = DP_NEW_ARRAY(TF_Operation *, count + 1),
                     .sets = DP_NEW_ARRAY(TF_Operation *, count + 1),
                     .counts = DP_NEW_ARRAY(TF_Output, count + 1),
                     .means = DP_NEW_ARRAY(dp_variable_gradient, count + 1)};
  model->sync = DP_NEW(train_sync);
  model->sync->drops = DP_NEW_ARRAY(TF_Operation *, count + 1);
  model->sync->needed = self.replicas < workers ? self.replicas : workers;
  make_state(&self);
  if (dp_scope_ok(model->root))
    model->sync->base = dp_placeholder(self.scope, TF_INT64, .shape = DP_SHAPE(), .name = "base");
  for (int i = 0; i < count && dp_scope_ok(model->root); i++)
    accumulate(&self, &gradients[i], i);
  if (dp_scope_ok(model->root))
    make_worker(&self, count);
  if (dp_scope_ok(model->root))
    make_chief(&self, optimizer, count, options.average_decay);
  dp_free(self.queues);
  dp_free(self.pushes);
  dp_free(self.sets);
  dp_free(self.counts);
  dp_free(self.means);
}

void dp_train_sync_destroy(train_sync *sync) {
  if (sync)
    dp_free(sync->drops);
  dp_free(sync);
}

/* ---- Running it ---- */
/* Above every stamp that was ever given: stamps grow by one per update, the clock by a million per
 * second. The 2 is for an update that was broken off between accumulators and stamp. */
static int64_t next_base(const dp_training *self) {
  int64_t now = dp_clock_wall_nanos() / 1000;
  return now > self->stamp + 2 ? now : self->stamp + 2;
}

/* Drops what the accumulators hold. Nobody else takes from them now, so what was counted is there;
 * the limit is for the remains of another chief. */
static void drop_gradients(dp_training *self, int64_t deadline, TF_Status *status) {
  const train_sync *sync = self->model->sync;
  int64_t soon = dp_clock_nanos() + DROP_NANOS;
  TF_Tensor *counts = NULL;
  train_run ask = {.fetches = DP_OUTPUTS(sync->counts), .deadline = deadline};
  if (dp_train_run(self, &ask, &counts, status) != TF_OK)
    return;
  const int32_t *numbers = TF_TensorData(counts);
  for (int64_t i = 0; i < TF_TensorElementCount(counts) && TF_GetCode(status) == TF_OK; i++)
    if (numbers[i] > 0)
      dp_train_run(
          self,
          &(train_run){.target = sync->drops[i], .deadline = soon < deadline ? soon : deadline},
          NULL, status);
  TF_DeleteTensor(counts);
  if (TF_GetCode(status) == TF_DEADLINE_EXCEEDED)
    TF_SetStatus(status, TF_ABORTED, "somebody else took gradients while the step was set up");
}

static void run_with_base(dp_training *self, int64_t base, TF_Operation *target, int64_t deadline,
                          TF_Status *status) {
  TF_Tensor *fed = TF_AllocateTensor(TF_INT64, NULL, 0, sizeof(base));
  memcpy(TF_TensorData(fed), &base, sizeof(base));
  train_run run = {
      .feeds = DP_FEEDS({self->model->sync->base, fed}), .target = target, .deadline = deadline};
  dp_train_run(self, &run, NULL, status);
  TF_DeleteTensor(fed);
}

/* Dropping what an accumulator holds adds 1 to its step, so the base is 1 higher at the end. */
void dp_train_sync_set_up(dp_training *self, int64_t deadline, TF_Status *status) {
  const train_sync *sync = self->model->sync;
  int64_t base = next_base(self);
  run_with_base(self, base, sync->set_steps, deadline, status);
  if (TF_GetCode(status) == TF_OK)
    drop_gradients(self, deadline, status);
  if (TF_GetCode(status) == TF_OK)
    run_with_base(self, base + 1, sync->begin, deadline, status);
}

void dp_train_sync_join(dp_training *self, int64_t deadline, TF_Status *status) {
  TF_Tensor *stamp = NULL;
  train_run join = {.fetches = DP_OUTPUTS(self->model->sync->stamp_joined), .deadline = deadline};
  if (dp_train_run(self, &join, &stamp, status) != TF_OK)
    return;
  self->stamp = *(const int64_t *)TF_TensorData(stamp);
  self->pushes = 0;
  TF_DeleteTensor(stamp);
}

TF_Code dp_train_sync_wait(dp_training *self, TF_Status *status) {
  const train_sync *sync = self->model->sync;
  TF_Tensor *values[2] = {NULL, NULL};
  train_run again = {.fetches = DP_OUTPUTS(sync->stamp_again, sync->step_again)};
  int64_t stamp = self->stamp;
  while (stamp <= self->stamp && dp_train_run(self, &again, values, status) == TF_OK) {
    stamp = *(const int64_t *)TF_TensorData(values[0]);
    self->step = *(const int64_t *)TF_TensorData(values[1]);
    TF_DeleteTensor(values[0]);
    TF_DeleteTensor(values[1]);
  }
  if (TF_GetCode(status) == TF_OK)
    self->stamp = stamp;
  return TF_GetCode(status);
}
