/* Training on many machines from C: what TensorFlow 1 calls replica_device_setter, Optimizer,
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
 *
 * Errors stick: to the model's scope while it is built, to the training once it runs. Calls after
 * an error do nothing, dp_training_should_stop becomes true, and dp_training_end says what it was
 * and returns the exit code. Without TF_CONFIG all of it happens in this one process.
 *
 * A model and a training belong to one thread; hooks are called on it. */
#ifndef DOWNPOUR_TRAIN_H
#define DOWNPOUR_TRAIN_H

#include <downpour.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The job: which task of the cluster this process is ---- */

typedef struct dp_job dp_job;

/* Reads TF_CONFIG and starts this task's server in the process. Without TF_CONFIG the job is this
 * process alone, without a server. What is logged is warnings, unless DOWNPOUR_LOG says otherwise
 * ("info", "warn,rpc=debug"). NULL on failure. */
TF_CAPI_EXPORT extern dp_job *dp_job_start(TF_Status *status);
/* A worker's end: the parameter servers learn that it is done. NULL is allowed. */
TF_CAPI_EXPORT extern void dp_job_end(dp_job *job);
TF_CAPI_EXPORT extern bool dp_job_is_ps(const dp_job *job);
/* Worker 0, or the job `chief` if there is one, or a process that is alone. */
TF_CAPI_EXPORT extern bool dp_job_is_chief(const dp_job *job);
/* Parameter servers; 0 when alone. */
TF_CAPI_EXPORT extern int dp_job_ps_count(const dp_job *job);
/* Workers, the chief included; 1 when alone. */
TF_CAPI_EXPORT extern int dp_job_worker_count(const dp_job *job);
/* This worker's number among them, from 0: the chief's. */
TF_CAPI_EXPORT extern int dp_job_worker(const dp_job *job);
/* "/job:worker/task:1"; "" when alone. */
TF_CAPI_EXPORT extern const char *dp_job_device(const dp_job *job);
/* "grpc://host:port" of this task's own server; "" when alone. */
TF_CAPI_EXPORT extern const char *dp_job_target(const dp_job *job);
/* For a parameter server: serves until every worker has called dp_job_end, or SIGTERM or SIGINT
 * comes, ends the job and returns the exit code. Call it before the process makes threads. */
TF_CAPI_EXPORT extern int dp_job_serve(dp_job *job);

/* ---- The model: a graph and its variables ---- */

typedef struct dp_model dp_model;

/* The job, which may be NULL (alone), must outlive the model. */
TF_CAPI_EXPORT extern dp_model *dp_model_create(const dp_job *job);
TF_CAPI_EXPORT extern void dp_model_destroy(dp_model *model);
TF_CAPI_EXPORT extern TF_Graph *dp_model_graph(dp_model *model);
/* Where operations are added: on this worker, variables on the parameter servers. */
TF_CAPI_EXPORT extern dp_scope *dp_model_scope(dp_model *model);
/* Makes the initial values of variables repeatable; 0, the beginning, leaves them to chance. */
TF_CAPI_EXPORT extern void dp_model_seed(dp_model *model, int64_t seed);
/* int64 scalar: how many updates there were. */
TF_CAPI_EXPORT extern TF_Output dp_model_global_step(dp_model *model);

/* On which of `ps_count` parameter servers a variable of `bytes` is to live. */
typedef int (*dp_place_fn)(void *arg, const dp_new_operation *variable, int64_t bytes,
                           int ps_count);
/* For variables made from now on. NULL: one after the other, as TensorFlow does. */
TF_CAPI_EXPORT extern void dp_model_place(dp_model *model, dp_place_fn place, void *arg);
/* Always the parameter server that has the fewest bytes. */
TF_CAPI_EXPORT extern void dp_model_place_by_bytes(dp_model *model);

typedef enum dp_initializer_kind {
  DP_INIT_CONSTANT,
  DP_INIT_UNIFORM,
  DP_INIT_NORMAL,
  DP_INIT_TRUNCATED_NORMAL,
  DP_INIT_GLOROT_UNIFORM, /* limits from the shape */
  DP_INIT_HE_NORMAL,
} dp_initializer_kind;

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
  TF_DataType dtype; /* default: TF_FLOAT */
  bool fixed;        /* not for optimizers */
  bool local;        /* on this worker, not saved */
} dp_model_variable_options;
/* A variable, by its value. The same name again is an error. */
TF_CAPI_EXPORT extern TF_Output dp_model_new_variable(dp_model *model, const char *name,
                                                      dp_dims shape, dp_initializer initializer,
                                                      dp_model_variable_options options);
#define dp_model_variable(model, name, shape, initializer, ...)                                    \
  dp_model_new_variable((model), (name), (shape), (initializer),                                   \
                        (dp_model_variable_options){.dtype = TF_FLOAT, ##__VA_ARGS__})
/* The variable's reference, for ops that update it (dp_assign, dp_scatter_sub...). */
TF_CAPI_EXPORT extern TF_Output dp_model_reference(dp_model *model, const char *name);

/* ---- Variables too large for one server ---- */

typedef enum dp_partitioner_kind {
  DP_PARTITION_FIXED,
  DP_PARTITION_BY_BYTES,
  DP_PARTITION_MIN_MAX,
} dp_partitioner_kind;

/* How a variable is cut along one axis; there are never more parts than the axis is long. */
typedef struct dp_partitioner {
  dp_partitioner_kind kind;
  int axis, most;
  int64_t bytes;
} dp_partitioner;

/* TensorFlow's fixed_size_partitioner: so many. */
static inline dp_partitioner dp_partition_fixed(int parts, int axis) {
  dp_partitioner partitioner = {DP_PARTITION_FIXED, axis, parts, 0};
  return partitioner;
}
/* variable_axis_size_partitioner: none of more bytes than this, but at most `most` (0: any). */
static inline dp_partitioner dp_partition_by_bytes(int64_t bytes, int axis, int most) {
  dp_partitioner partitioner = {DP_PARTITION_BY_BYTES, axis, most, bytes};
  return partitioner;
}
/* min_max_variable_partitioner: at most `most`, of at least so many bytes. */
static inline dp_partitioner dp_partition_min_max(int most, int axis, int64_t bytes) {
  dp_partitioner partitioner = {DP_PARTITION_MIN_MAX, axis, most, bytes};
  return partitioner;
}
/* Into how many parts. */
TF_CAPI_EXPORT extern int dp_partition_count(dp_partitioner how, dp_dims shape, TF_DataType dtype);
/* A variable of floats in parts <name>/part_0 and so on, by the value of the whole. In checkpoints
 * it is one tensor, which TensorFlow's partitioned variables read and write too. */
TF_CAPI_EXPORT extern TF_Output dp_model_partitioned(dp_model *model, const char *name,
                                                     dp_dims shape, dp_initializer initializer,
                                                     dp_partitioner how);

/* A matrix of rows x columns, cut into `parts` variables of neighbouring rows. In checkpoints it is
 * one tensor, which may be read back in another number of parts. */
typedef struct dp_table dp_table;
TF_CAPI_EXPORT extern dp_table *dp_model_table(dp_model *model, const char *name, int64_t rows,
                                               int64_t columns, int parts,
                                               dp_initializer initializer);
/* The rows with these numbers (int32 or int64, any shape): shape of `ids` + [columns]. */
TF_CAPI_EXPORT extern TF_Output dp_table_lookup(dp_table *table, TF_Output ids);

/* ---- Layers ---- */

typedef enum dp_activation { DP_LINEAR, DP_RELU, DP_TANH, DP_SIGMOID } dp_activation;

/* x [batch, inputs] -> [batch, outputs]. Variables <name>/kernel and <name>/bias. */
TF_CAPI_EXPORT extern TF_Output dp_layer_dense(dp_model *model, const char *name, TF_Output x,
                                               int64_t inputs, int64_t outputs,
                                               dp_activation activation);
/* x [batch, height, width, inputs] -> [batch, height, width, outputs], stride 1, padded (SAME). */
TF_CAPI_EXPORT extern TF_Output dp_layer_conv2d(dp_model *model, const char *name, TF_Output x,
                                                int64_t inputs, int64_t outputs, int64_t size,
                                                dp_activation activation);
/* Halves height and width: the largest of each 2 x 2. */
TF_CAPI_EXPORT extern TF_Output dp_layer_max_pool(dp_model *model, TF_Output x);
/* Another shape for the same numbers; one size may be -1. */
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
/* Which part of the logits is largest at the label; float. */
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

/* What the numbers mean and what they are without being set is TensorFlow's. */
typedef struct dp_optimizer {
  dp_optimizer_kind kind;
  double rate;
  TF_Output rate_output; /* a schedule, instead of `rate`; oper NULL: none */
  double momentum;       /* MOMENTUM, RMSPROP */
  bool nesterov;
  double beta1, beta2;        /* ADAM */
  double decay;               /* ADADELTA's rho, RMSPROP */
  double epsilon;             /* ADADELTA, ADAM, RMSPROP */
  double initial_accumulator; /* ADAGRAD, FTRL */
  double rate_power, l1, l2;  /* FTRL */
} dp_optimizer;

static inline dp_optimizer dp_sgd(double rate) {
  dp_optimizer optimizer = {.kind = DP_SGD, .rate = rate};
  return optimizer;
}
static inline dp_optimizer dp_momentum(double rate, double momentum) {
  dp_optimizer optimizer = {.kind = DP_MOMENTUM, .rate = rate, .momentum = momentum};
  return optimizer;
}
static inline dp_optimizer dp_nesterov(double rate, double momentum) {
  dp_optimizer optimizer = {
      .kind = DP_MOMENTUM, .rate = rate, .momentum = momentum, .nesterov = true};
  return optimizer;
}
static inline dp_optimizer dp_adagrad(double rate) {
  dp_optimizer optimizer = {.kind = DP_ADAGRAD, .rate = rate, .initial_accumulator = 0.1};
  return optimizer;
}
static inline dp_optimizer dp_adadelta(double rate) {
  dp_optimizer optimizer = {.kind = DP_ADADELTA, .rate = rate, .decay = 0.95, .epsilon = 1e-8};
  return optimizer;
}
static inline dp_optimizer dp_adam(double rate) {
  dp_optimizer optimizer = {
      .kind = DP_ADAM, .rate = rate, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  return optimizer;
}
static inline dp_optimizer dp_rmsprop(double rate) {
  dp_optimizer optimizer = {.kind = DP_RMSPROP, .rate = rate, .decay = 0.9, .epsilon = 1e-10};
  return optimizer;
}
static inline dp_optimizer dp_ftrl(double rate) {
  dp_optimizer optimizer = {
      .kind = DP_FTRL, .rate = rate, .rate_power = -0.5, .initial_accumulator = 0.1};
  return optimizer;
}

/* The gradient of one variable. Sparse when `indices` has an operation: `values` has a row for each
 * of them. */
typedef struct dp_variable_gradient {
  const char *variable; /* its name; the model's */
  TF_Output values;
  TF_Output indices;
} dp_variable_gradient;

/* Gradients of the loss by every variable that is not fixed, at most `most`; how many there are. */
TF_CAPI_EXPORT extern int dp_model_gradients(dp_model *model, TF_Output loss,
                                             dp_variable_gradient *gradients, int most);
/* Each number to [-limit, limit]. */
TF_CAPI_EXPORT extern void dp_clip_gradients(dp_model *model, dp_variable_gradient *gradients,
                                             int count, double limit);
/* All scaled down together if their norm is more than this. Returns the norm before. */
TF_CAPI_EXPORT extern TF_Output
dp_clip_gradients_by_norm(dp_model *model, dp_variable_gradient *gradients, int count, double norm);

typedef struct dp_model_minimize_options {
  bool sync;            /* one update from the mean of all workers' gradients (SyncReplicas) */
  int replicas;         /* gradients for an update; 0: as many as there are workers */
  double clip_norm;     /* 0: no clipping */
  double average_decay; /* keeps moving averages of the variables, if not 0 */
} dp_model_minimize_options;
/* Makes the update that dp_training_run does. Once a model. */
TF_CAPI_EXPORT extern void dp_model_new_minimize(dp_model *model, dp_optimizer optimizer,
                                                 TF_Output loss, dp_model_minimize_options options);
#define dp_model_minimize(model, optimizer, loss, ...)                                             \
  dp_model_new_minimize((model), (optimizer), (loss),                                              \
                        (dp_model_minimize_options){.sync = false, ##__VA_ARGS__})
/* The same from gradients of one's own; clip_norm is not looked at. */
TF_CAPI_EXPORT extern void dp_model_apply(dp_model *model, dp_optimizer optimizer,
                                          const dp_variable_gradient *gradients, int count,
                                          dp_model_minimize_options options);
/* A variable's moving average (average_decay); its reference. */
TF_CAPI_EXPORT extern TF_Output dp_model_average(dp_model *model, const char *name);

/* Schedules, by the global step; for dp_optimizer.rate_output. */
/* rate * decay ^ (step / steps), in whole powers when `staircase`. */
TF_CAPI_EXPORT extern TF_Output dp_schedule_exponential(dp_model *model, double rate, double steps,
                                                        double decay, bool staircase);
/* From `rate` to `end` along (1 - step / steps) ^ power, `end` afterwards. */
TF_CAPI_EXPORT extern TF_Output dp_schedule_polynomial(dp_model *model, double rate, double steps,
                                                       double end, double power);
/* From `rate` to rate * alpha along half a cosine. */
TF_CAPI_EXPORT extern TF_Output dp_schedule_cosine(dp_model *model, double rate, double steps,
                                                   double alpha);
/* rate / (1 + decay * step / steps). */
TF_CAPI_EXPORT extern TF_Output dp_schedule_inverse_time(dp_model *model, double rate, double steps,
                                                         double decay, bool staircase);
/* values[i] up to and with step boundaries[i]; one more value than boundaries. */
TF_CAPI_EXPORT extern TF_Output dp_schedule_piecewise(dp_model *model, dp_ints boundaries,
                                                      dp_floats values);

/* ---- Summaries, for TensorBoard ---- */

TF_CAPI_EXPORT extern void dp_model_summary_scalar(dp_model *model, const char *tag,
                                                   TF_Output value);
TF_CAPI_EXPORT extern void dp_model_summary_histogram(dp_model *model, const char *tag,
                                                      TF_Output values);

/* ---- Queues that threads keep full ---- */

/* While a training runs, a thread runs `enqueue` again and again; OUT_OF_RANGE ends it and closes
 * the queue, another error ends the training. `close` and `cancel` may be NULL: what closes the
 * queue, and what closes it together with who waits at it. */
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
#define DP_FEEDS(...)                                                                              \
  ((dp_feeds){(const dp_feed[]){{{0}, 0}, ##__VA_ARGS__} + 1,                                      \
              (int)(sizeof((const dp_feed[]){{{0}, 0}, ##__VA_ARGS__}) / sizeof(dp_feed)) - 1})

/* A number that is watched: scalar, float. */
typedef struct dp_metric {
  const char *name;
  TF_Output value;
} dp_metric;
typedef struct dp_metrics {
  const dp_metric *items;
  int count;
} dp_metrics;
#define DP_METRICS(...)                                                                            \
  ((dp_metrics){(const dp_metric[]){{0}, ##__VA_ARGS__} + 1,                                       \
                (int)(sizeof((const dp_metric[]){{0}, ##__VA_ARGS__}) / sizeof(dp_metric)) - 1})

/* What happens around each run. Any function may be NULL. */
typedef struct dp_hook {
  void *arg;
  /* There is a session; again after a recovery. */
  void (*session_made)(void *arg, dp_training *training);
  /* What this run is to fetch for the hook; must live until after_run. */
  dp_outputs (*before_run)(void *arg, dp_training *training);
  /* What was fetched; the training's. */
  void (*after_run)(void *arg, dp_training *training, TF_Tensor *const *values, int count);
  /* Before the session goes; not after an error. */
  void (*end)(void *arg, dp_training *training);
} dp_hook;

typedef struct dp_training_options {
  const char *checkpoint_dir; /* for checkpoints and events; NULL: none */
  int64_t last_step;          /* stops when the global step is there; 0: never */
  int64_t save_steps;         /* a checkpoint every so many steps... */
  double save_seconds;        /* ...or seconds; both 0: every 600 seconds */
  int keep;                   /* how many checkpoints; 0: 5 */
  int64_t summary_steps;      /* how often summaries are written; 0: every 100 steps */
  int64_t log_steps;          /* how often the metrics are printed; 0: never */
  dp_metrics metrics;         /* `loss` ends the training when it is not a number */
  const dp_hook *hooks;       /* more of them; copied */
  int hook_count;
  double recovery_seconds; /* how long tasks that are away are waited for; 0: 600 */
} dp_training_options;

/* Opens a session on this task's server. The chief restores the newest checkpoint or initializes
 * the variables; the other workers wait until it has. Never NULL. */
TF_CAPI_EXPORT extern dp_training *dp_training_new(dp_model *model, dp_training_options options);
#define dp_training_start(model, ...)                                                              \
  dp_training_new((model), (dp_training_options){.checkpoint_dir = NULL, ##__VA_ARGS__})
TF_CAPI_EXPORT extern bool dp_training_should_stop(const dp_training *training);
/* After an error, or when a hook asked for the end. */
TF_CAPI_EXPORT extern void dp_training_request_stop(dp_training *training);
/* One step: the model's update, and what is fetched along. When a task was lost it waits for it,
 * recovers and does the step again. False after an error. */
TF_CAPI_EXPORT extern bool dp_training_run(dp_training *training, dp_feeds feeds,
                                           dp_outputs fetches);
/* Fetches without an update and without hooks. */
TF_CAPI_EXPORT extern bool dp_training_fetch(dp_training *training, dp_feeds feeds,
                                             dp_outputs fetches);
/* What run or fetch got: the i-th tensor, the training's until the next call; NULL if there is
 * none. As a number: the first element of any numeric type, NaN if there is none. */
TF_CAPI_EXPORT extern TF_Tensor *dp_training_tensor(const dp_training *training, int i);
TF_CAPI_EXPORT extern double dp_training_number(const dp_training *training, int i);
/* The global step after the last run. */
TF_CAPI_EXPORT extern int64_t dp_training_step(const dp_training *training);
/* Steps that this worker has done, and how many updates of others came between its last two. */
TF_CAPI_EXPORT extern int64_t dp_training_own_steps(const dp_training *training);
TF_CAPI_EXPORT extern int64_t dp_training_staleness(const dp_training *training);
TF_CAPI_EXPORT extern const char *dp_training_message(const dp_training *training);
/* Ends it with an error of the caller's. */
TF_CAPI_EXPORT extern void dp_training_fail(dp_training *training, TF_Code code, const char *format,
                                            ...) __attribute__((format(printf, 3, 4)));
/* Ends hooks (the last checkpoint is written), queue runners and session. After an error the
 * message is printed to standard error. Returns 0, or 1 after an error. */
TF_CAPI_EXPORT extern int dp_training_end(dp_training *training);

/* ---- Examples to train with ---- */

/* Rows of numbers and what they mean, in memory; given out in batches, in a new order each time
 * all have been. */
typedef struct dp_examples dp_examples;

/* Images and labels in MNIST's files (IDX), which may end in .gz: x float [n, ...] in [0, 1],
 * y int32 [n]. */
TF_CAPI_EXPORT extern dp_examples *dp_examples_idx(const char *images, const char *labels,
                                                   TF_Status *status);
/* CIFAR-10's binary files: x float [n, 32, 32, 3] in [0, 1], y int32 [n]. */
TF_CAPI_EXPORT extern dp_examples *dp_examples_cifar(dp_strings paths, TF_Status *status);
/* Lines of numbers with commas between: the last is y, the others are x. A first line that is not
 * numbers is a head and passed over. x float [n, columns - 1], y float [n]. */
TF_CAPI_EXPORT extern dp_examples *dp_examples_csv(const char *path, TF_Status *status);
/* Records of a TFRecord file ("" or "GZIP" as compression); x string [n], y int32 [n] of zeros. */
TF_CAPI_EXPORT extern dp_examples *dp_examples_records(const char *path, const char *compression,
                                                       TF_Status *status);
TF_CAPI_EXPORT extern void dp_examples_destroy(dp_examples *examples);
TF_CAPI_EXPORT extern int64_t dp_examples_count(const dp_examples *examples);
/* Workers that shuffle with different seeds see different orders. 0: as in the file. */
TF_CAPI_EXPORT extern void dp_examples_shuffle(dp_examples *examples, uint64_t seed);
/* The next `size` of them; the caller deletes both tensors. */
TF_CAPI_EXPORT extern void dp_examples_batch(dp_examples *examples, int64_t size, TF_Tensor **x_out,
                                             TF_Tensor **y_out);

/* A float tensor with these values. */
TF_CAPI_EXPORT extern TF_Tensor *dp_tensor_floats(dp_dims shape, const float *values);

#ifdef __cplusplus
}
#endif

#endif
