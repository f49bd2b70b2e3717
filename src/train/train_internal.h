/* What the files of the training library share: how models and trainings look inside.
 *
 *   model.c        the graph, where variables are placed
 *   variable.c     variables and their initial values       table.c     rows over several variables
 *   layers.c       layers, losses                           lstm.c      the recurrent one
 *   gradients.c    gradients of the model, clipping         schedule.c  learning rates
 *   optimizer.c    one update of one variable, a row of a table each; update.c all of a model's
 *   sync.c         updates from all workers' gradients      average.c   moving averages
 *   saver.c        the graph's part of checkpoints          checkpoints.c  their files
 *   training.c     steps                                    prepare.c   sessions that are ready
 *   marks.c        whether the servers have their values    watch.c     which workers are alive
 *   hooks.c        what happens around steps                runners.c   threads beside the steps
 *   examples*.c    data to train with                       job.c       this program as one task
 *   farewell.c     the end of the job
 *
 * The model owns its graph, scopes and variables; a training borrows the model, a model the job.
 * One thread builds and trains; runners.c, watch.c and farewell.c start threads. README.md says how
 * a training recovers. */
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
  bool fixed;                     /* not trained */
  bool local;                     /* of this worker: neither shared nor saved */
  bool passing;                   /* shared, but neither initialized with the rest nor saved */
  char *saved_name, *slice;       /* in checkpoints: the tensor, and which part of it; "": all */
  struct train_variable *average; /* its moving average; NULL: none */
} train_variable;

int64_t dp_train_elements(dp_dims shape);
/* Replaces an initializer whose range depends on the shape (Glorot, He) by one with fixed numbers.
 * So the parts of a variable get the range of the whole. */
dp_initializer dp_train_initializer(dp_initializer from, dp_dims shape);
/* Parts of one variable along an axis (partition.c); an error sticks to the model's scope. */
void dp_train_parts_make(dp_model *model, const char *name, dp_dims shape, int axis, int parts,
                         dp_initializer initializer, TF_DataType dtype, train_variable **variables);
train_variable *dp_train_variable_find(const dp_model *model, const char *name);
/* NULL, and the error in the scope, when it fails. `device` NULL: the model's placement decides. */
train_variable *dp_train_variable_make(dp_model *model, const char *name, dp_dims shape,
                                       dp_initializer initializer,
                                       dp_model_variable_options options, const char *device);
/* A variable on the device of `other`, all of whose elements start as `initial`: slots of
 * optimizers, averages. */
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

/* Options of a public function over their defaults in `ours`; an error goes to the model's scope.
 */
void dp_train_read_options(dp_model *model, const char *function, const void *given, void *ours,
                           size_t size);
/* The root scope on a device; without a device for "". */
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
/* Adds the ops that apply one gradient, on the variable's device; returns the last of them. */
TF_Operation *dp_train_optimizer_apply(dp_model *model, train_optimizer *self,
                                       train_variable *variable,
                                       const dp_variable_gradient *gradient);
/* Adds what must follow all updates, such as Adam's powers; returns `updates` if there is nothing.
 */
TF_Operation *dp_train_optimizer_finish(dp_model *model, train_optimizer *self,
                                        TF_Operation *updates);
/* update.c: applies all gradients, then increases the global step. Returns the operation of that
 * and the step as it is right after. */
TF_Operation *dp_train_apply_all(dp_model *model, dp_optimizer optimizer,
                                 const dp_variable_gradient *gradients, int count,
                                 double average_decay, TF_Output *step_after_out);
/* average.c: updates of the moving averages, after `after`. */
TF_Operation *dp_train_average_all(dp_model *model, double decay, TF_Operation *after);

/* sync.c */
struct train_sync {
  train_variable *stamp;       /* beside the global step */
  train_variable *local_stamp; /* of this worker's gradients */
  int needed;                  /* workers without which there is no update */
  /* Workers. */
  int own_pushes;         /* gradients that this worker adds to each update */
  TF_Operation *push;     /* adds gradients and waits for nothing; model->update waits too */
  TF_Output stamp_after;  /* of model->update */
  TF_Output stamp_again;  /* waits for a token alone */
  TF_Output step_again;   /* the global step beside it */
  TF_Output stamp_joined; /* takes the stamp over without waiting */
  /* The chief. */
  TF_Operation *chief_update; /* what its thread repeats */
  TF_Output base;             /* a placeholder: the stamp after a set-up */
  TF_Operation *set_steps;    /* of all accumulators, to the base */
  TF_Output counts;           /* gradients in each accumulator */
  TF_Operation **drops;       /* by accumulator: takes what it holds */
  TF_Operation *begin;        /* set_steps again, then the stamp, then a token for each worker */
  TF_Operation *close;        /* closes the token queues, so that the other workers stop */
};
void dp_train_sync_make(dp_model *model, dp_optimizer optimizer,
                        const dp_variable_gradient *gradients, int count,
                        dp_model_apply_options options);
void dp_train_sync_destroy(train_sync *sync); /* NULL is allowed */
/* On the chief, in a new session: everybody begins the present step again. */
void dp_train_sync_set_up(dp_training *self, int64_t deadline, TF_Status *status);
/* On each worker, in a new session: takes the present stamp over. */
void dp_train_sync_join(dp_training *self, int64_t deadline, TF_Status *status);
/* Waits until the stamp is above this worker's, and takes it and the global step over. */
TF_Code dp_train_sync_wait(dp_training *self, TF_Status *status);

/* ---- Checkpoints ---- */
typedef struct train_saver {
  TF_Output prefix; /* a string placeholder */
  TF_Operation *save, *restore;
} train_saver;
void dp_train_saver_make(dp_model *model, train_saver *saver);

/* The checkpoints in a folder, oldest first (checkpoints.c). */
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
/* After a checkpoint was written: writes the graph beside it and the state file, and removes old
 * checkpoints. */
DP_MUST_USE dp_status *dp_train_checkpoints_add(train_checkpoints *self, const char *prefix,
                                                TF_Graph *graph);

/* ---- Marks (marks.c; README.md says what they mean) ---- */
typedef struct train_marks {
  TF_Output initialized; /* a bool per shared variable: has it a value? The last: the sync stamp */
  int counted;           /* how many of these say whether the values are kept */
  TF_Output values;      /* of all marks */
  TF_Output number;      /* a placeholder */
  TF_Operation *set;     /* sets all marks to the number */
} train_marks;
void dp_train_marks_make(dp_model *model, train_marks *marks);

/* ---- Trainings ---- */
typedef struct train_runners train_runners;
typedef struct train_watch train_watch;

struct dp_training {
  dp_model *model;
  dp_training_start_options options;
  dp_metric *metrics; /* copies */
  TF_Status *status;  /* the error that sticks */
  bool stop;
  /* The session and what it needs. */
  TF_Session *session; /* NULL: none now */
  TF_Operation *initialize, *initialize_local;
  train_marks marks;
  int64_t mark;     /* of the values as this session found or gave them */
  bool gave_values; /* this session restored or initialized them */
  bool lost;        /* a hook met a loss: the session is to be opened again */
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
  int64_t stamp; /* synchronous: of this worker's gradients */
  int pushes;    /* gradients that it has added with this stamp */
  bool at_end;   /* synchronous: the last step is done, but the chief may have to go back */
};

bool dp_train_ok(const dp_training *self);
/* Takes the status and keeps it if it is the first error. */
void dp_train_note(dp_training *self, dp_status *status);
/* One run of the session as it is; no hooks, no recovery. */
typedef struct train_run {
  dp_feeds feeds;
  dp_outputs fetches;
  TF_Operation *target; /* NULL: none */
  int64_t deadline;     /* in dp_clock_nanos; 0: none */
} train_run;
/* `values` may be NULL without fetches. If a background thread failed, its error is the answer. */
TF_Code dp_train_run(dp_training *self, const train_run *run, TF_Tensor **values,
                     TF_Status *status);
/* marks.c: whether every parameter server has its values, and for a worker also the sync state. */
bool dp_train_marks_kept(dp_training *self, bool chief, int64_t deadline, TF_Status *status);
void dp_train_marks_set(dp_training *self, int64_t number, int64_t deadline, TF_Status *status);
/* prepare.c: adds to the graph what sessions need; then opens sessions that are ready. */
void dp_train_prepare_graph(dp_training *self);
bool dp_train_open_session(dp_training *self);
/* With `end` the training is over: queues are closed too, so that nobody waits at them. */
void dp_train_close_session(dp_training *self, bool end);
/* Whether the code means a lost task, which may come back. */
bool dp_train_is_loss(TF_Code code);
bool dp_train_is_chief(const dp_training *self);
/* hooks.c */
void dp_train_hooks_make(dp_training *self);
void dp_train_hooks_destroy(dp_training *self);
/* runners.c: threads for the model's queues and the chief's synchronous updates. One that fails
 * closes the session, so that the training's thread wakes wherever it waits. */
train_runners *dp_train_runners_start(dp_training *self);
/* To be called before the session is closed: the threads start no new run. With `end`, queues are
 * closed. */
void dp_train_runners_stop(dp_training *self, train_runners *runners, bool end);
/* To be called after the session is closed: joins and frees the threads. NULL is allowed. */
void dp_train_runners_join(train_runners *runners);
/* Whether a thread failed; copies its error to `status`. */
bool dp_train_runners_failed(train_runners *runners, TF_Status *status);

/* ---- The other workers (watch.c) ---- */
/* job.c: "host:port" of a worker, by dp_job_worker's numbers; NULL: there is none. */
const char *dp_train_job_address(const dp_job *job, int worker);
int dp_train_job_task(const dp_job *job);
/* Of this process; 0: alone. */
uint64_t dp_train_job_incarnation(const dp_job *job);
/* A training failed: this worker may be started again, and does not say that it is done. */
void dp_train_job_failed(const dp_job *job);
/* Starts to ask the workers every second; `heard` is called on the watch's thread after each round.
 * NULL when there is no thread for it. */
typedef void (*train_watch_fn)(void *arg, train_watch *watch);
train_watch *dp_train_watch_start(const dp_job *job, train_watch_fn heard, void *arg);
/* How long the worker has been silent; since the watch began if it never answered. */
double dp_train_watch_silent(const train_watch *watch, int worker);
/* Of the worker's process that answered last; 0: none ever did. */
uint64_t dp_train_watch_incarnation(const train_watch *watch, int worker);
/* Joins the thread. NULL is allowed; not from `heard`. */
void dp_train_watch_stop(train_watch *watch);

/* ---- The end of the job (farewell.c) ---- */
/* A worker: tells the parameter servers that it is done, as far as they can be reached soon. */
void dp_train_say_done(const dp_job *job);
/* A parameter server: calls the roll of the workers, and `leave` once, on a thread of its own, when
 * all have ended. NULL when there is no thread for it. */
typedef struct train_roll train_roll;
train_roll *dp_train_roll_start(const dp_job *job, double restart_seconds,
                                void (*leave)(void *arg));
/* To be called before the server shuts down, and the second one after: that joins the threads.
 * NULL is allowed. */
void dp_train_roll_stop(train_roll *roll);
void dp_train_roll_join(train_roll *roll);

#endif
