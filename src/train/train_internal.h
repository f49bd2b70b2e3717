/* What the files of the training library share: how models and trainings look inside.
 *
 *   model.c        the graph, where variables are placed
 *   variable.c     variables and their initial values       table.c     rows over several variables
 *   layers.c       layers, losses                           lstm.c      the recurrent one
 *   gradients.c    gradients of the model, clipping         schedule.c  learning rates
 *   optimizer.c    one update of one variable, a row of a table each; update.c all of a model's
 *   sync.c         updates from all workers' gradients      average.c   moving averages
 *   saver.c        the graph's part of checkpoints          checkpoints.c  their files
 *   training.c     steps, recovery                          prepare.c   sessions that are ready
 *   hooks.c        what happens around steps                runners.c   threads that fill queues
 *   examples*.c    data to train with
 *
 * The model owns its graph, scopes and variables; a training borrows the model. */
#ifndef DP_TRAIN_INTERNAL_H
#define DP_TRAIN_INTERNAL_H

#include <downpour_train.h>
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

/* ---- Variables (variable.c) ---- */
typedef struct train_variable {
  char *name;
  dp_dims shape; /* owns items */
  TF_DataType dtype;
  char *device; /* "/job:ps/task:1"; "": wherever */
  TF_Output reference, value;
  TF_Operation *initialize;
  bool fixed, local;
  char *saved_name, *slice;       /* in checkpoints: the tensor, and which part of it; "": all */
  struct train_variable *average; /* its moving average; NULL: none */
} train_variable;

int64_t dp_train_elements(dp_dims shape);
/* The same without limits that depend on the shape: for a part of a variable, those of the whole.
 */
dp_initializer dp_train_initializer(dp_initializer from, dp_dims shape);
/* Parts of one variable along an axis (partition.c); an error sticks to the model's scope. */
void dp_train_parts_make(dp_model *model, const char *name, dp_dims shape, int axis, int parts,
                         dp_initializer initializer, TF_DataType dtype, train_variable **variables);
train_variable *dp_train_variable_find(const dp_model *model, const char *name);
/* NULL, and the error in the scope, when it fails. `device` NULL: the model's placement decides. */
train_variable *dp_train_variable_make(dp_model *model, const char *name, dp_dims shape,
                                       dp_initializer initializer,
                                       dp_model_variable_options options, const char *device);
/* One that starts with a given value and lives beside another: slots of optimizers, averages. */
train_variable *dp_train_variable_beside(dp_model *model, const train_variable *other,
                                         const char *suffix, dp_dims shape, double initial);
void dp_train_variable_destroy(train_variable *variable);

/* ---- Models (model.c) ---- */
typedef struct train_runner {
  TF_Operation *enqueue, *close, *cancel;
} train_runner;

typedef struct train_sync train_sync;

struct dp_model {
  const dp_job *job;
  TF_Graph *graph;
  dp_scope *root;   /* without devices */
  dp_scope *worker; /* variables on the servers, the rest here */
  int64_t seed;
  int next_seed;
  dp_place_fn place;
  void *place_arg;
  int place_next;       /* round robin */
  int64_t *place_bytes; /* by server */
  DP_ARRAY(train_variable *) variables;
  train_variable *global_step;
  DP_ARRAY(TF_Output) summaries;
  DP_ARRAY(train_runner) runners;
  DP_ARRAY(struct dp_table *) tables;
  /* The update: what a step runs, and the global step as it is right after. */
  TF_Operation *update;
  TF_Output step_after;
  train_sync *sync; /* NULL: each worker by itself */
};

/* A scope like the root on a device; like the root itself for "". */
dp_scope *dp_train_on(dp_model *model, const char *device);
/* An operation that ends when all of these have. */
TF_Operation *dp_train_group(dp_scope *scope, TF_Operation *const *operations, int count,
                             const char *name);

/* ---- Updates ---- */
/* optimizer.c: an optimizer at work on a model. */
typedef struct train_optimizer {
  dp_optimizer settings;
  train_variable *beta1_power, *beta2_power; /* Adam's */
} train_optimizer;
void dp_train_optimizer_init(dp_model *model, dp_optimizer settings, train_optimizer *self);
/* Adds what applies one gradient, beside the variable; its last operation. */
TF_Operation *dp_train_optimizer_apply(dp_model *model, train_optimizer *self,
                                       train_variable *variable,
                                       const dp_variable_gradient *gradient);
/* What is to follow all updates, such as Adam's powers; `updates` itself if nothing is. */
TF_Operation *dp_train_optimizer_finish(dp_model *model, train_optimizer *self,
                                        TF_Operation *updates);
/* update.c: all gradients, then the global step; its operation, and the step right after. */
TF_Operation *dp_train_apply_all(dp_model *model, dp_optimizer optimizer,
                                 const dp_variable_gradient *gradients, int count,
                                 double average_decay, TF_Output *step_after_out);
/* average.c: updates of the moving averages, after `after`. */
TF_Operation *dp_train_average_all(dp_model *model, double decay, TF_Operation *after);

/* sync.c */
struct train_sync {
  TF_Operation *chief_update;  /* what the chief's thread repeats */
  TF_Operation *chief_prepare; /* once a session: the first tokens */
  TF_Operation *local_prepare; /* once a session, on each worker */
  TF_Operation *close;         /* the token queue: the others stop */
};
void dp_train_sync_make(dp_model *model, dp_optimizer optimizer,
                        const dp_variable_gradient *gradients, int count,
                        dp_model_minimize_options options);

/* ---- Checkpoints ---- */
typedef struct train_saver {
  TF_Output prefix; /* a string placeholder */
  TF_Operation *save, *restore;
} train_saver;
void dp_train_saver_make(dp_model *model, train_saver *saver);

/* The files of a folder (checkpoints.c): which there are, oldest first. */
typedef struct train_checkpoints {
  char *folder;
  int keep;
  DP_ARRAY(char *) prefixes;
} train_checkpoints;
/* Reads the state file, if there is one; checkpoints whose files are gone are left out. */
DP_MUST_USE dp_status *dp_train_checkpoints_open(train_checkpoints *self, const char *folder,
                                                 int keep);
void dp_train_checkpoints_close(train_checkpoints *self);
/* NULL: there is none. */
const char *dp_train_checkpoints_newest(const train_checkpoints *self);
/* "folder/model.ckpt-120"; malloc'd. */
char *dp_train_checkpoints_prefix(const train_checkpoints *self, int64_t step);
/* It was written: writes the graph beside it and the state file, removes what is too old. */
DP_MUST_USE dp_status *dp_train_checkpoints_add(train_checkpoints *self, const char *prefix,
                                                TF_Graph *graph);

/* ---- Trainings ---- */
typedef struct train_runners train_runners;

struct dp_training {
  dp_model *model;
  dp_training_options options;
  dp_metric *metrics; /* copies */
  TF_Status *status;  /* the error that sticks */
  bool stop;
  /* The session and what it needs. */
  TF_Session *session; /* NULL: none now */
  TF_Operation *initialize, *initialize_local;
  TF_Output initialized; /* bool by variable that is not local: is it? */
  train_saver saver;
  train_checkpoints checkpoints;
  TF_Output summary; /* oper NULL: none */
  train_runners *runners;
  /* Around steps. */
  DP_ARRAY(dp_hook) hooks;
  DP_ARRAY(void *) hook_states; /* of our own hooks */
  /* What the last run gave. */
  DP_ARRAY(TF_Tensor *) fetched;
  int64_t step, own_steps, staleness;
};

bool dp_train_ok(const dp_training *self);
/* Takes the status and keeps it if it is the first error. */
void dp_train_note(dp_training *self, dp_status *status);
/* One run of the session as it is; no hooks, no recovery. `values` may be NULL without fetches. */
TF_Code dp_train_session_run(dp_training *self, dp_feeds feeds, dp_outputs fetches,
                             TF_Tensor **values, TF_Operation *target, TF_Status *status);
/* prepare.c: adds to the graph what sessions need; then opens sessions that are ready. */
void dp_train_prepare_graph(dp_training *self);
bool dp_train_open_session(dp_training *self);
/* `end`: for good, so that queues are closed too and nobody waits at them. */
void dp_train_close_session(dp_training *self, bool end);
/* A lost task, which may come back. */
bool dp_train_is_loss(TF_Code code);
/* hooks.c */
void dp_train_hooks_make(dp_training *self);
void dp_train_hooks_destroy(dp_training *self);
/* runners.c: threads for the model's queues and the chief's synchronous updates. */
train_runners *dp_train_runners_start(dp_training *self);
/* Before the session is closed: they start nothing new; at the `end` of all, queues are closed. */
void dp_train_runners_stop(dp_training *self, train_runners *runners, bool end);
/* After it: joins and frees them. NULL is allowed. */
void dp_train_runners_join(train_runners *runners);
/* Whether one of them failed; its status goes to `status`. */
bool dp_train_runners_failed(train_runners *runners, TF_Status *status);

/* A string scalar. */
TF_Tensor *dp_train_string(const char *text);

#endif
