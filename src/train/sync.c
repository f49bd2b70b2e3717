/* Synchronous training, built as TensorFlow's SyncReplicasOptimizer builds it.
 *
 * Each variable has an accumulator beside it. A worker adds its gradients, stamped with its local
 * step, and waits for a token. When an accumulator has enough gradients of the present step, the
 * chief's thread takes their mean, applies it, and puts a token with the new global step into the
 * queue for each worker. A gradient that comes with an old stamp is dropped: its worker was late.
 *
 *   worker: gradients -> accumulators -> dequeue token -> local step = token
 *   chief:  accumulators -> mean -> update -> global step -> tokens
 *
 * There are no tokens at the start unless more gradients are wanted than there are workers: a
 * worker computes the next step only with the variables that the last one gave. */
#include "train/train_internal.h"

typedef struct sync_build {
  dp_model *model;
  int replicas, workers;
  TF_Output queue;
  train_variable *local_step;
  TF_Operation **pushes, **resets; /* by gradient, and one more */
  dp_variable_gradient *means;
} sync_build;

static void make_queue(sync_build *self) {
  dp_scope *scope =
      dp_scope_named(dp_train_on(self->model, self->model->global_step->device), "sync");
  self->queue = dp_fifo_queue_v2(scope, DP_TYPES(TF_INT64), .shapes = DP_SHAPES(DP_SHAPE()),
                                 .shared_name = "sync_token_q", .name = "tokens");
  self->local_step = dp_train_variable_make(
      self->model, "sync_rep_local_step", DP_SHAPE(), dp_init_constant(0),
      (dp_model_variable_options){.dtype = TF_INT64, .fixed = true, .local = true},
      self->model->job ? dp_job_device(self->model->job) : "");
}

/* The accumulator of one variable, what this worker adds to it and what the chief takes. */
static void accumulate(sync_build *self, const dp_variable_gradient *gradient, int i) {
  dp_model *model = self->model;
  train_variable *variable = dp_train_variable_find(model, gradient->variable);
  if (!variable) {
    dp_scope_fail(model->root, TF_NOT_FOUND, "there is no variable %s", gradient->variable);
    return;
  }
  dp_scope *scope = dp_scope_named(dp_train_on(model, variable->device), "sync");
  TF_Output stamp = self->local_step->value, step = model->global_step->value;
  TF_Output required = dp_const_int32(scope, self->replicas);
  dp_text shared = {0};
  dp_text_printf(&shared, "%s/grad_accum", variable->name);
  const char *name = dp_text_string(&shared);
  self->means[i] = (dp_variable_gradient){.variable = variable->name};
  if (gradient->indices.oper) {
    TF_Output handle = dp_sparse_conditional_accumulator(scope, variable->dtype, variable->shape,
                                                         .shared_name = name);
    TF_Output rows = dp_cast(scope, gradient->indices, TF_INT64);
    TF_Output none = dp_const_int64s(scope, DP_SHAPE(0), NULL);
    self->pushes[i] = dp_sparse_accumulator_apply_gradient(scope, handle, stamp, rows,
                                                           gradient->values, none, false);
    dp_sparse_accumulator_take_gradient_outputs taken =
        dp_sparse_accumulator_take_gradient(scope, handle, required, variable->dtype);
    self->means[i].values = taken.values;
    self->means[i].indices = taken.indices;
    self->resets[i] = dp_accumulator_set_global_step(scope, handle, step);
  } else {
    TF_Output handle =
        dp_conditional_accumulator(scope, variable->dtype, variable->shape, .shared_name = name);
    self->pushes[i] = dp_accumulator_apply_gradient(scope, handle, stamp, gradient->values);
    self->means[i].values = dp_accumulator_take_gradient(scope, handle, required, variable->dtype);
    self->resets[i] = dp_accumulator_set_global_step(scope, handle, step);
  }
  dp_text_deinit(&shared);
}

/* Takes what tokens a session before this one left: a worker that took one would go on with an old
 * step, and its gradients would be dropped. */
static TF_Operation *drain(sync_build *self, dp_scope *scope) {
  TF_Output left = dp_queue_size_v2(scope, self->queue);
  return dp_queue_dequeue_many_v2(scope, self->queue, left, DP_TYPES(TF_INT64)).operation;
}

static TF_Operation *enqueue_tokens(sync_build *self, dp_scope *scope, int count) {
  TF_Output step = dp_identity(scope, self->model->global_step->reference);
  TF_Output tokens = dp_fill(scope, dp_const_vector(scope, DP_INTS(count)), step);
  return dp_queue_enqueue_many_v2(scope, self->queue, DP_OUTPUTS(tokens));
}

/* What a worker does: push, wait, note the step that it goes on with. */
static void make_worker(sync_build *self, int count) {
  dp_model *model = self->model;
  dp_scope *scope = dp_scope_named(dp_train_on(model, model->global_step->device), "sync");
  dp_scope *pushed = dp_scope_after(scope, self->pushes, count);
  dp_output_list token = dp_queue_dequeue_v2(pushed, self->queue, DP_TYPES(TF_INT64));
  dp_scope *here = dp_train_on(model, self->local_step->device);
  TF_Output noted = dp_assign(here, self->local_step->reference, dp_output_at(token, 0));
  model->update = noted.oper;
  model->step_after = dp_identity(here, noted);
}

static void make_chief(sync_build *self, dp_optimizer optimizer, int count, double average_decay) {
  dp_model *model = self->model;
  train_sync *sync = model->sync;
  TF_Output step_after;
  TF_Operation *update =
      dp_train_apply_all(model, optimizer, self->means, count, average_decay, &step_after);
  if (!dp_scope_ok(model->root))
    return;
  dp_scope *scope = dp_scope_named(dp_train_on(model, model->global_step->device), "sync");
  int each = self->replicas > self->workers ? self->replicas : self->workers;
  sync->chief_update = enqueue_tokens(self, dp_scope_after(scope, &update, 1), each);
  self->resets[count] = drain(self, scope);
  dp_scope *reset = dp_scope_after(scope, self->resets, count + 1);
  sync->chief_prepare = self->replicas > self->workers
                            ? enqueue_tokens(self, reset, self->replicas - self->workers)
                            : dp_no_op(reset);
  sync->close = dp_queue_close_v2(scope, self->queue, .cancel_pending_enqueues = true);
  dp_scope *here = dp_train_on(model, self->local_step->device);
  sync->local_prepare =
      dp_assign(here, self->local_step->reference, model->global_step->value).oper;
}

void dp_train_sync_make(dp_model *model, dp_optimizer optimizer,
                        const dp_variable_gradient *gradients, int count,
                        dp_model_minimize_options options) {
  int workers = model->job ? dp_job_worker_count(model->job) : 1;
  sync_build self = {.model = model,
                     .workers = workers,
                     .replicas = options.replicas > 0 ? options.replicas : workers,
                     .pushes = DP_NEW_ARRAY(TF_Operation *, count + 1),
                     .resets = DP_NEW_ARRAY(TF_Operation *, count + 1),
                     .means = DP_NEW_ARRAY(dp_variable_gradient, count + 1)};
  model->sync = DP_NEW(train_sync);
  make_queue(&self);
  for (int i = 0; i < count && dp_scope_ok(model->root); i++)
    accumulate(&self, &gradients[i], i);
  if (dp_scope_ok(model->root))
    make_worker(&self, count);
  if (dp_scope_ok(model->root))
    make_chief(&self, optimizer, count, options.average_decay);
  dp_free(self.pushes);
  dp_free(self.resets);
  dp_free(self.means);
}
