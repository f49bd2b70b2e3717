/* Training on many machines: what TensorFlow 1 calls replica_device_setter, Optimizer,
 * SyncReplicasOptimizer, MonitoredTrainingSession and Saver, on top of <downpour.h>.
 *
 *   dp_job *job = dp_job_start(status);             who am I? TF_CONFIG says
 *   if (dp_job_is_ps(job))
 *     return dp_job_serve(job);                     a parameter server ends when all workers did
 *   dp_model *model = dp_model_create(job);         variables live on the parameter servers
 *   dp_scope *scope = dp_model_scope(model);        everything else on this worker
 *   TF_Output x = dp_placeholder(scope, TF_FLOAT), y = dp_placeholder(scope, TF_FLOAT);
 *   TF_Output w = dp_model_variable(model, "w", DP_SHAPE(1), dp_init_uniform(-1, 1));
 *   TF_Output loss = ...;
 *   dp_model_minimize(model, dp_sgd(0.1), loss);
 *   dp_training *training = dp_training_start(model, .checkpoint_dir = "run", .last_step = 1000);
 *   while (!dp_training_should_stop(training))
 *     dp_training_run(training, DP_FEEDS({x, ...}, {y, ...}), DP_OUTPUTS(loss));
 *   int code = dp_training_end(training);
 *   dp_model_destroy(model);
 *   dp_job_end(job);
 *
 * Functions with optional arguments (dp_model_variable, dp_model_minimize, dp_model_apply,
 * dp_training_start) follow the scheme of <downpour_options.h>, in C and in C++. Without TF_CONFIG
 * everything happens in this one process.
 *
 * Errors stick: to the model's scope while it is built, to the training once it runs. Functions
 * that add to a model return {NULL, 0} or NULL after an error, and do nothing.
 * dp_training_should_stop becomes true, dp_training_end prints the error and returns the exit code.
 *
 * Ownership. Names, shapes and arrays that are passed in are copied, unless a comment says that
 * they must live on. Outputs, operations and tables belong to the model.
 *
 * Threads. A job, a model and a training are used by one thread; hooks and placement functions are
 * called on it. */
#ifndef DOWNPOUR_TRAIN_H
#define DOWNPOUR_TRAIN_H

#include <downpour.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The job: which task of the cluster this process is ---- */

typedef struct dp_job dp_job;

/* Reads TF_CONFIG and starts this task's server in the process. Without TF_CONFIG the job is this
 * process alone, without a server. Warnings are logged; DOWNPOUR_LOG changes that ("info",
 * "warn,rpc=debug"). NULL on failure, and the status says why. A worker ends the job with
 * dp_job_end, a parameter server with dp_job_serve. */
TF_CAPI_EXPORT extern dp_job *dp_job_start(TF_Status *status);
/* Ends a worker's job and frees it: the parameter servers learn that this worker is done. After
 * dp_training_end and dp_model_destroy. NULL is allowed. */
TF_CAPI_EXPORT extern void dp_job_end(dp_job *job);
TF_CAPI_EXPORT extern bool dp_job_is_ps(const dp_job *job);
/* Worker 0, or the job `chief` if there is one, or a process that is alone. */
TF_CAPI_EXPORT extern bool dp_job_is_chief(const dp_job *job);
/* Parameter servers; 0 when alone. */
TF_CAPI_EXPORT extern int dp_job_ps_count(const dp_job *job);
/* Workers, the chief included; 1 when alone. */
TF_CAPI_EXPORT extern int dp_job_worker_count(const dp_job *job);
/* This worker's number among them; the chief's is 0. */
TF_CAPI_EXPORT extern int dp_job_worker(const dp_job *job);
/* "/job:worker/task:1"; "" when alone. Lives as long as the job, as does the target. */
TF_CAPI_EXPORT extern const char *dp_job_device(const dp_job *job);
/* "grpc://host:port" of this task's own server; "" when alone. */
TF_CAPI_EXPORT extern const char *dp_job_target(const dp_job *job);
/* For a parameter server: serves until every worker has called dp_job_end, or until SIGTERM or
 * SIGINT comes. Then it ends the job, frees it and returns the exit code, 0. A job that is alone
 * returns at once and is not freed. Call it before the process makes threads of its own. */
TF_CAPI_EXPORT extern int dp_job_serve(dp_job *job);

/* ---- The model: a graph and its variables ---- */

typedef struct dp_model dp_model;

/* The job, which may be NULL (alone), must outlive the model. Never NULL; the caller destroys it.
 */
TF_CAPI_EXPORT extern dp_model *dp_model_create(const dp_job *job);
/* Ends the model with its graph and scopes, after its training has ended. NULL is allowed. */
TF_CAPI_EXPORT extern void dp_model_destroy(dp_model *model);
/* The model's own graph and scope, valid as long as the model. What is added through the scope is
 * placed on this worker, and variables on the parameter servers. */
TF_CAPI_EXPORT extern TF_Graph *dp_model_graph(dp_model *model);
TF_CAPI_EXPORT extern dp_scope *dp_model_scope(dp_model *model);
/* Makes the initial values of variables made from now on repeatable. 0, as at first, leaves them to
 * chance. */
TF_CAPI_EXPORT extern void dp_model_seed(dp_model *model, int64_t seed);
/* int64 scalar: how many updates there have been. */
TF_CAPI_EXPORT extern TF_Output dp_model_global_step(dp_model *model);

/* Returns the number, from 0, of the parameter server on which a variable of `bytes` is to live. */
typedef int (*dp_place_fn)(void *arg, const dp_new_operation *variable, int64_t bytes,
                           int ps_count);
/* Where variables made from now on are placed. `place` NULL: on one server after the other, as
 * TensorFlow does. `arg` must live as long as the model. */
TF_CAPI_EXPORT extern void dp_model_place(dp_model *model, dp_place_fn place, void *arg);
/* Each on the parameter server that has the fewest bytes so far. */
TF_CAPI_EXPORT extern void dp_model_place_by_bytes(dp_model *model);

typedef enum dp_initializer_kind {
  DP_INIT_CONSTANT,
  DP_INIT_UNIFORM,
  DP_INIT_NORMAL,
  DP_INIT_TRUNCATED_NORMAL,
  DP_INIT_GLOROT_UNIFORM, /* limits from the shape */
  DP_INIT_HE_NORMAL,
} dp_initializer_kind;

/* How a variable gets its first values. Made by the functions below. */
typedef struct dp_initializer {
  dp_initializer_kind kind;
  double a, b; /* the constant; the limits; mean and standard deviation */
} dp_initializer;

static inline dp_initializer dp_init_constant(double value) {
  dp_initializer initializer = {DP_INIT_CONSTANT, value, 0};
  return initializer;
}
static inline dp_initializer dp_init_uniform(double from, double to) {
  dp_initializer initializer = {DP_INIT_UNIFORM, from, to};
  return initializer;
}
static inline dp_initializer dp_init_normal(double mean, double deviation) {
  dp_initializer initializer = {DP_INIT_NORMAL, mean, deviation};
  return initializer;
}
/* Beyond two standard deviations values are drawn again. */
static inline dp_initializer dp_init_truncated_normal(double mean, double deviation) {
  dp_initializer initializer = {DP_INIT_TRUNCATED_NORMAL, mean, deviation};
  return initializer;
}
static inline dp_initializer dp_init_glorot(void) {
  dp_initializer initializer = {DP_INIT_GLOROT_UNIFORM, 0, 0};
  return initializer;
}
static inline dp_initializer dp_init_he(void) {
  dp_initializer initializer = {DP_INIT_HE_NORMAL, 0, 0};
  return initializer;
}

typedef struct dp_model_variable_options {
  DP_OPTIONS_SIZE(dp_model_variable);
  DP_OPTION_OR(TF_DataType, dtype, TF_FLOAT);
  DP_OPTION(bool, fixed); /* not for optimizers */
  DP_OPTION(bool, local); /* on this worker, and not saved */
} dp_model_variable_options;
/* A new variable; returns its value. The same name again is an error.
 *   dp_model_variable(model, "steps", DP_SHAPE(), dp_init_constant(0), .dtype = TF_INT64) */
TF_CAPI_EXPORT extern TF_Output
dp_model_variable_with_options(dp_model *model, const char *name, dp_dims shape,
                               dp_initializer initializer,
                               const dp_model_variable_options *options);
/* The variable's reference, for ops that update it (dp_assign, dp_scatter_sub...). */
TF_CAPI_EXPORT extern TF_Output dp_model_reference(dp_model *model, const char *name);

/* ---- Variables too large for one server ---- */

typedef enum dp_partitioner_kind {
  DP_PARTITION_FIXED,
  DP_PARTITION_BY_BYTES,
  DP_PARTITION_MIN_MAX,
} dp_partitioner_kind;

/* How a variable is cut along one axis. There are never more parts than the axis is long. */
typedef struct dp_partitioner {
  dp_partitioner_kind kind;
  int axis, most;
  int64_t bytes;
} dp_partitioner;

/* TensorFlow's fixed_size_partitioner: this number of parts. */
static inline dp_partitioner dp_partition_fixed(int parts, int axis) {
  dp_partitioner partitioner = {DP_PARTITION_FIXED, axis, parts, 0};
  return partitioner;
}
/* variable_axis_size_partitioner: as few parts as keep each within `bytes`, but at most `most` (0:
 * any number). */
static inline dp_partitioner dp_partition_by_bytes(int64_t bytes, int axis, int most) {
  dp_partitioner partitioner = {DP_PARTITION_BY_BYTES, axis, most, bytes};
  return partitioner;
}
/* min_max_variable_partitioner: at most `most` parts, each of at least `bytes`. */
static inline dp_partitioner dp_partition_min_max(int most, int axis, int64_t bytes) {
  dp_partitioner partitioner = {DP_PARTITION_MIN_MAX, axis, most, bytes};
  return partitioner;
}
/* The number of parts for a variable of this shape and type. */
TF_CAPI_EXPORT extern int dp_partition_count(dp_partitioner how, dp_dims shape, TF_DataType dtype);
/* A variable of floats in parts <name>/part_0 and so on; returns the value of the whole. In
 * checkpoints it is one tensor, which TensorFlow's partitioned variables read and write too. */
TF_CAPI_EXPORT extern TF_Output dp_model_partitioned(dp_model *model, const char *name,
                                                     dp_dims shape, dp_initializer initializer,
                                                     dp_partitioner how);

/* A matrix of rows x columns, cut into `parts` variables of neighbouring rows. In checkpoints it is
 * one tensor, which may be restored in another number of parts. The table is the
 * model's; never NULL, also after an error. */
typedef struct dp_table dp_table;
TF_CAPI_EXPORT extern dp_table *dp_model_table(dp_model *model, const char *name, int64_t rows,
                                               int64_t columns, int parts,
                                               dp_initializer initializer);
/* The rows with these numbers. `ids` is int32 or int64 of any shape; the result has the shape of
 * `ids` with one more dimension, of size `columns`. */
TF_CAPI_EXPORT extern TF_Output dp_table_lookup(dp_table *table, TF_Output ids);

/* ---- Layers ----
 * They make variables, whose names begin with `name`, and return their output. */

typedef enum dp_activation { DP_LINEAR, DP_RELU, DP_TANH, DP_SIGMOID } dp_activation;

/* x [batch, inputs] -> [batch, outputs]. Variables <name>/kernel and <name>/bias. */
TF_CAPI_EXPORT extern TF_Output dp_layer_dense(dp_model *model, const char *name, TF_Output x,
                                               int64_t inputs, int64_t outputs,
                                               dp_activation activation);
/* x [batch, height, width, inputs] -> [batch, height, width, outputs], stride 1, padded (SAME). */
TF_CAPI_EXPORT extern TF_Output dp_layer_conv2d(dp_model *model, const char *name, TF_Output x,
                                                int64_t inputs, int64_t outputs, int64_t size,
                                                dp_activation activation);
/* The largest of each 2 x 2: half the height and half the width. */
TF_CAPI_EXPORT extern TF_Output dp_layer_max_pool(dp_model *model, TF_Output x);
/* The same numbers in another shape; one size may be -1. */
TF_CAPI_EXPORT extern TF_Output dp_layer_reshape(dp_model *model, TF_Output x, dp_dims shape);
/* Drops each number with this probability, and scales the others up. `keep_all` is a bool scalar:
 * true for evaluation. */
TF_CAPI_EXPORT extern TF_Output dp_layer_dropout(dp_model *model, TF_Output x, double probability,
                                                 TF_Output keep_all);
/* An LSTM over `steps` inputs [batch, inputs]; returns the last output [batch, units]. Gates are in
 * TensorFlow's order (i, j, f, o) in <name>/kernel [inputs + units, 4 units] and <name>/bias; the
 * forget gate gets 1 added. */
TF_CAPI_EXPORT extern TF_Output dp_layer_lstm(dp_model *model, const char *name, dp_outputs inputs,
                                              int64_t input_size, int64_t units);

/* Mean cross entropy of softmax(logits [batch, classes]) with labels int32 or int64 [batch]. */
TF_CAPI_EXPORT extern TF_Output dp_loss_softmax(dp_model *model, TF_Output logits,
                                                TF_Output labels);
/* Mean of the squared differences. */
TF_CAPI_EXPORT extern TF_Output dp_loss_squared(dp_model *model, TF_Output x, TF_Output y);
/* The fraction of rows of the logits whose largest number is at the label: a float scalar. */
TF_CAPI_EXPORT extern TF_Output dp_metric_accuracy(dp_model *model, TF_Output logits,
                                                   TF_Output labels);

/* ---- Optimizers ---- */

typedef enum dp_optimizer_kind {
  DP_SGD,
  DP_MOMENTUM,
  DP_ADAGRAD,
  DP_ADADELTA,
  DP_ADAM,
  DP_RMSPROP,
  DP_FTRL,
} dp_optimizer_kind;

/* An optimizer and its numbers. The functions below set what TensorFlow's optimizers have by
 * default; change a field afterwards to differ: dp_optimizer adam = dp_adam(0.001); adam.beta1 =
 * 0.8; */
typedef struct dp_optimizer {
  dp_optimizer_kind kind;
  double rate;
  TF_Output rate_output; /* a schedule, used instead of `rate`; oper NULL: none */
  double momentum;       /* MOMENTUM, RMSPROP */
  bool nesterov;
  double beta1, beta2;        /* ADAM */
  double decay;               /* ADADELTA's rho, RMSPROP */
  double epsilon;             /* ADADELTA, ADAM, RMSPROP */
  double initial_accumulator; /* ADAGRAD, FTRL */
  double rate_power, l1, l2;  /* FTRL */
} dp_optimizer;

/* All other numbers 0. */
static inline dp_optimizer dp_optimizer_of(dp_optimizer_kind kind, double rate) {
  dp_optimizer optimizer;
  memset(&optimizer, 0, sizeof(optimizer));
  optimizer.kind = kind;
  optimizer.rate = rate;
  return optimizer;
}
static inline dp_optimizer dp_sgd(double rate) {
  return dp_optimizer_of(DP_SGD, rate);
}
static inline dp_optimizer dp_momentum(double rate, double momentum) {
  dp_optimizer optimizer = dp_optimizer_of(DP_MOMENTUM, rate);
  optimizer.momentum = momentum;
  return optimizer;
}
static inline dp_optimizer dp_nesterov(double rate, double momentum) {
  dp_optimizer optimizer = dp_momentum(rate, momentum);
  optimizer.nesterov = true;
  return optimizer;
}
static inline dp_optimizer dp_adagrad(double rate) {
  dp_optimizer optimizer = dp_optimizer_of(DP_ADAGRAD, rate);
  optimizer.initial_accumulator = 0.1;
  return optimizer;
}
static inline dp_optimizer dp_adadelta(double rate) {
  dp_optimizer optimizer = dp_optimizer_of(DP_ADADELTA, rate);
  optimizer.decay = 0.95;
  optimizer.epsilon = 1e-8;
  return optimizer;
}
static inline dp_optimizer dp_adam(double rate) {
  dp_optimizer optimizer = dp_optimizer_of(DP_ADAM, rate);
  optimizer.beta1 = 0.9;
  optimizer.beta2 = 0.999;
  optimizer.epsilon = 1e-8;
  return optimizer;
}
static inline dp_optimizer dp_rmsprop(double rate) {
  dp_optimizer optimizer = dp_optimizer_of(DP_RMSPROP, rate);
  optimizer.decay = 0.9;
  optimizer.epsilon = 1e-10;
  return optimizer;
}
static inline dp_optimizer dp_ftrl(double rate) {
  dp_optimizer optimizer = dp_optimizer_of(DP_FTRL, rate);
  optimizer.initial_accumulator = 0.1;
  optimizer.rate_power = -0.5;
  return optimizer;
}

/* The gradient of one variable. It is sparse if `indices` has an operation: `values` then has one
 * row for each index. */
typedef struct dp_variable_gradient {
  const char *variable; /* its name; from dp_model_gradients it is the model's */
  TF_Output values;
  TF_Output indices;
} dp_variable_gradient;

/* Adds gradients of the loss by every variable that is not fixed, writes at most `most` of them to
 * the array, and returns how many it wrote. */
TF_CAPI_EXPORT extern int dp_model_gradients(dp_model *model, TF_Output loss,
                                             dp_variable_gradient *gradients, int most);
/* Replaces gradients by clipped ones: each number within [-limit, limit]. */
TF_CAPI_EXPORT extern void dp_clip_gradients(dp_model *model, dp_variable_gradient *gradients,
                                             int count, double limit);
/* Replaces gradients by ones that are all scaled down together if their common norm is more than
 * `norm`. Returns the norm before. */
TF_CAPI_EXPORT extern TF_Output
dp_clip_gradients_by_norm(dp_model *model, dp_variable_gradient *gradients, int count, double norm);

typedef struct dp_model_minimize_options {
  DP_OPTIONS_SIZE(dp_model_minimize);
  DP_OPTION(bool, sync);            /* one update from the mean of all workers' gradients */
  DP_OPTION(int, replicas);         /* with sync: gradients per update; 0: one of each worker */
  DP_OPTION(double, clip_norm);     /* gradients are scaled down to this norm; 0: they are not */
  DP_OPTION(double, average_decay); /* keeps moving averages of the variables; 0: none */
} dp_model_minimize_options;
/* Adds the update that dp_training_run does: gradients of the loss, applied by the optimizer. A
 * model has one update; a second one is an error.
 *   dp_model_minimize(model, dp_adam(0.001), loss, .sync = true, .clip_norm = 5) */
TF_CAPI_EXPORT extern void dp_model_minimize_with_options(dp_model *model, dp_optimizer optimizer,
                                                          TF_Output loss,
                                                          const dp_model_minimize_options *options);

typedef struct dp_model_apply_options {
  DP_OPTIONS_SIZE(dp_model_apply);
  DP_OPTION(bool, sync); /* this and the others: see dp_model_minimize_options */
  DP_OPTION(int, replicas);
  DP_OPTION(double, average_decay);
} dp_model_apply_options;
/* The same update from gradients of your own.
 *   dp_model_apply(model, dp_sgd(0.1), gradients, count, .sync = true) */
TF_CAPI_EXPORT extern void dp_model_apply_with_options(dp_model *model, dp_optimizer optimizer,
                                                       const dp_variable_gradient *gradients,
                                                       int count,
                                                       const dp_model_apply_options *options);
/* The reference of a variable's moving average (option average_decay). */
TF_CAPI_EXPORT extern TF_Output dp_model_average(dp_model *model, const char *name);

/* Learning rates that depend on the global step, for dp_optimizer.rate_output. */
/* rate * decay ^ (step / steps), in whole powers when `staircase`. */
TF_CAPI_EXPORT extern TF_Output dp_schedule_exponential(dp_model *model, double rate, double steps,
                                                        double decay, bool staircase);
/* From `rate` to `end` along (1 - step / steps) ^ power; `end` after `steps`. */
TF_CAPI_EXPORT extern TF_Output dp_schedule_polynomial(dp_model *model, double rate, double steps,
                                                       double end, double power);
/* From `rate` to rate * alpha along half a cosine. */
TF_CAPI_EXPORT extern TF_Output dp_schedule_cosine(dp_model *model, double rate, double steps,
                                                   double alpha);
/* rate / (1 + decay * step / steps). */
TF_CAPI_EXPORT extern TF_Output dp_schedule_inverse_time(dp_model *model, double rate, double steps,
                                                         double decay, bool staircase);
/* values[i] up to and including step boundaries[i]. There is one more value than there are
 * boundaries. */
TF_CAPI_EXPORT extern TF_Output dp_schedule_piecewise(dp_model *model, dp_ints boundaries,
                                                      dp_floats values);

/* ---- Summaries, for TensorBoard: written by the chief if there is a checkpoint_dir ---- */

TF_CAPI_EXPORT extern void dp_model_summary_scalar(dp_model *model, const char *tag,
                                                   TF_Output value);
TF_CAPI_EXPORT extern void dp_model_summary_histogram(dp_model *model, const char *tag,
                                                      TF_Output values);

/* ---- Queues that threads keep full ---- */

/* While a training runs, a thread of its own runs `enqueue` again and again. OUT_OF_RANGE ends the
 * thread and runs `close`, which closes the queue. Another error runs `cancel`, which closes the
 * queue and fails those who wait at it, and ends the training. Both may be NULL. */
TF_CAPI_EXPORT extern void dp_model_queue_runner(dp_model *model, TF_Operation *enqueue,
                                                 TF_Operation *close, TF_Operation *cancel);

/* ---- Training ---- */

typedef struct dp_training dp_training;

typedef struct dp_feed {
  TF_Output to;
  TF_Tensor *value; /* stays the caller's */
} dp_feed;
typedef struct dp_feeds {
  const dp_feed *items;
  int count;
} dp_feeds;
/* DP_FEEDS({x, x_batch}, {y, y_batch}) */
#define DP_FEEDS(...) DP_LIST_OF(dp_feeds, dp_feed, {.value = 0}, __VA_ARGS__)

/* A number that is watched: a float scalar. */
typedef struct dp_metric {
  const char *name; /* must live as long as the training */
  TF_Output value;
} dp_metric;
typedef struct dp_metrics {
  const dp_metric *items;
  int count;
} dp_metrics;
/* DP_METRICS({"loss", loss}, {"accuracy", accuracy}) */
#define DP_METRICS(...) DP_LIST_OF(dp_metrics, dp_metric, {0}, __VA_ARGS__)

/* Functions that are called around each run, on the training's thread. Any of them may be NULL.
 * `arg` must live until dp_training_end has returned. */
typedef struct dp_hook {
  void *arg;
  /* There is a session; called again after a recovery. */
  void (*session_made)(void *arg, dp_training *training);
  /* Returns what this run is to fetch for the hook; the array must live until after_run. */
  dp_outputs (*before_run)(void *arg, dp_training *training);
  /* What was fetched; the tensors are the training's and valid during the call. */
  void (*after_run)(void *arg, dp_training *training, TF_Tensor *const *values, int count);
  /* Before the session is closed; not called after an error. */
  void (*end)(void *arg, dp_training *training);
} dp_hook;

typedef struct dp_training_start_options {
  DP_OPTIONS_SIZE(dp_training_start);
  DP_OPTION(const char *, checkpoint_dir);   /* for checkpoints and events; NULL: none */
  DP_OPTION(int64_t, last_step);             /* stops at this global step; 0: never */
  DP_OPTION(int64_t, save_steps);            /* a checkpoint after this number of steps... */
  DP_OPTION(double, save_seconds);           /* ...or after this time; both 0: after 600 seconds */
  DP_OPTION_OR(int, keep, 5);                /* how many checkpoints stay */
  DP_OPTION_OR(int64_t, summary_steps, 100); /* steps between two summaries */
  DP_OPTION(int64_t, log_steps);             /* steps between two lines of metrics; 0: no lines */
  DP_OPTION(dp_metrics, metrics);            /* one called `loss` ends the training if it is NaN */
  DP_OPTION(const dp_hook *, hooks);         /* an array, copied */
  DP_OPTION(int, hook_count);
  DP_OPTION_OR(double, recovery_seconds, 600); /* how long to wait for tasks that are away */
} dp_training_start_options;

/* Opens a session on this task's server. The chief restores the newest checkpoint or initializes
 * the variables; the other workers wait until it has. The model must outlive the training. Never
 * NULL, also after an error; the caller ends it with dp_training_end.
 *   dp_training_start(model, .checkpoint_dir = "run", .last_step = 1000) */
TF_CAPI_EXPORT extern dp_training *
dp_training_start_with_options(dp_model *model, const dp_training_start_options *options);
/* True after the last step, after an error, and when dp_training_request_stop was called. */
TF_CAPI_EXPORT extern bool dp_training_should_stop(const dp_training *training);
/* For programs and hooks that want to end early; not an error. */
TF_CAPI_EXPORT extern void dp_training_request_stop(dp_training *training);
/* One step: runs the model's update and fetches outputs in the same run. If a task is lost, it
 * waits for the task, recovers and does the step again. False after an error, and when there is
 * nothing more to do. */
TF_CAPI_EXPORT extern bool dp_training_run(dp_training *training, dp_feeds feeds,
                                           dp_outputs fetches);
/* Fetches without an update and without hooks. False after an error. */
TF_CAPI_EXPORT extern bool dp_training_fetch(dp_training *training, dp_feeds feeds,
                                             dp_outputs fetches);
/* The i-th output that the last run or fetch got. The tensor is the training's, valid until the
 * next run or fetch; NULL if there is none. <downpour.h> has functions that read its values. As a
 * number: the first element of any numeric type, NaN if there is none. */
TF_CAPI_EXPORT extern TF_Tensor *dp_training_tensor(const dp_training *training, int i);
TF_CAPI_EXPORT extern double dp_training_number(const dp_training *training, int i);
/* The global step after the last run. */
TF_CAPI_EXPORT extern int64_t dp_training_step(const dp_training *training);
/* Steps that this worker has done, and the number of updates by other workers between its last
 * two. */
TF_CAPI_EXPORT extern int64_t dp_training_own_steps(const dp_training *training);
TF_CAPI_EXPORT extern int64_t dp_training_staleness(const dp_training *training);
/* The error that ended it; "" if there is none. Lives as long as the training. */
TF_CAPI_EXPORT extern const char *dp_training_message(const dp_training *training);
/* For programs and hooks that find something wrong: the training stops with this error, unless it
 * has one already. */
TF_CAPI_EXPORT extern void dp_training_fail(dp_training *training, TF_Code code, const char *format,
                                            ...) __attribute__((format(printf, 3, 4)));
/* Ends hooks (the last checkpoint is written), queue runners and the session, and frees the
 * training. Returns 0, or 1 after an error, which it prints to standard error. */
TF_CAPI_EXPORT extern int dp_training_end(dp_training *training);

/* ---- Examples to train with ---- */

/* Rows of numbers and what they mean, in memory. They are given out in batches, in a new order
 * after each pass over all of them. The caller destroys them. The functions that read files return
 * NULL on failure, and the status says which file and why. */
typedef struct dp_examples dp_examples;

/* Images and labels in MNIST's files (IDX), which may end in .gz: x float [n, ...] in [0, 1],
 * y int32 [n]. */
TF_CAPI_EXPORT extern dp_examples *dp_examples_idx(const char *images, const char *labels,
                                                   TF_Status *status);
/* CIFAR-10's binary files: x float [n, 32, 32, 3] in [0, 1], y int32 [n]. */
TF_CAPI_EXPORT extern dp_examples *dp_examples_cifar(dp_strings paths, TF_Status *status);
/* Lines of numbers with commas between them: the last number is y, the others are x. A first line
 * that is not numbers is a head and passed over. x float [n, columns - 1], y float [n]. */
TF_CAPI_EXPORT extern dp_examples *dp_examples_csv(const char *path, TF_Status *status);
/* Records of a TFRecord file ("" or "GZIP" as compression): x string [n], y int32 [n] of zeros. */
TF_CAPI_EXPORT extern dp_examples *dp_examples_records(const char *path, const char *compression,
                                                       TF_Status *status);
/* NULL is allowed. */
TF_CAPI_EXPORT extern void dp_examples_destroy(dp_examples *examples);
TF_CAPI_EXPORT extern int64_t dp_examples_count(const dp_examples *examples);
/* Workers that shuffle with different seeds see different orders. 0: the order of the file. */
TF_CAPI_EXPORT extern void dp_examples_shuffle(dp_examples *examples, uint64_t seed);
/* The next `size` examples. The caller deletes both tensors. */
TF_CAPI_EXPORT extern void dp_examples_batch(dp_examples *examples, int64_t size, TF_Tensor **x_out,
                                             TF_Tensor **y_out);

/* ---- What programs call: functions with optional arguments ---- */

#ifdef __cplusplus
}

inline TF_Output dp_model_variable(dp_model *model, const char *name, dp_dims shape,
                                   dp_initializer initializer,
                                   const dp_model_variable_options &options = {}) {
  return dp_model_variable_with_options(model, name, shape, initializer, &options);
}
inline void dp_model_minimize(dp_model *model, dp_optimizer optimizer, TF_Output loss,
                              const dp_model_minimize_options &options = {}) {
  dp_model_minimize_with_options(model, optimizer, loss, &options);
}
inline void dp_model_apply(dp_model *model, dp_optimizer optimizer,
                           const dp_variable_gradient *gradients, int count,
                           const dp_model_apply_options &options = {}) {
  dp_model_apply_with_options(model, optimizer, gradients, count, &options);
}
inline dp_training *dp_training_start(dp_model *model,
                                      const dp_training_start_options &options = {}) {
  return dp_training_start_with_options(model, &options);
}

#else

#define DP_DEFAULTS_dp_model_variable .dtype_by_default = TF_FLOAT,
#define dp_model_variable(model, name, shape, ...)                                                 \
  dp_model_variable_with_options((model), (name), (shape), DP_LAST_REQUIRED(__VA_ARGS__),          \
                                 &DP_OPTIONS_AFTER(dp_model_variable, __VA_ARGS__))
#define DP_DEFAULTS_dp_model_minimize
#define dp_model_minimize(model, optimizer, ...)                                                   \
  dp_model_minimize_with_options((model), (optimizer), DP_LAST_REQUIRED(__VA_ARGS__),              \
                                 &DP_OPTIONS_AFTER(dp_model_minimize, __VA_ARGS__))
#define DP_DEFAULTS_dp_model_apply
#define dp_model_apply(model, optimizer, gradients, ...)                                           \
  dp_model_apply_with_options((model), (optimizer), (gradients), DP_LAST_REQUIRED(__VA_ARGS__),    \
                              &DP_OPTIONS_AFTER(dp_model_apply, __VA_ARGS__))
#define DP_DEFAULTS_dp_training_start                                                              \
  .keep_by_default = 5, .summary_steps_by_default = 100, .recovery_seconds_by_default = 600,
#define dp_training_start(...)                                                                     \
  dp_training_start_with_options(DP_LAST_REQUIRED(__VA_ARGS__),                                    \
                                 &DP_OPTIONS_AFTER(dp_training_start, __VA_ARGS__))

#endif

#endif
