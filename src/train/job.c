/* A job: this program is one task of a cluster, and the task's server runs in its process.
 * TF_CONFIG says which task it is; without TF_CONFIG the program is alone.
 *
 * A parameter server ends when all workers are done. A worker that ends puts a token into a queue
 * on each parameter server. A thread of the parameter server takes one token per worker, then sends
 * SIGTERM to its own process, for which dp_job_serve waits. Both sides use a session on their own
 * server. The program owns the job; dp_job_end or dp_job_serve frees it. */
#include <downpour_train.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "cluster/cluster_spec.h"
#include "server/server.h"
#include "train/train_internal.h"

enum { FAREWELL_MS = 5000 };
static const int64_t GRACE_NANOS = 1000000000;

struct dp_job {
  dp_cluster_spec *cluster; /* NULL: alone */
  char *name;
  int32_t task;
  char device[96];
  dp_server *server;
};

/* ---- Who is who ---- */
static int count_tasks(const dp_job *job, const char *name) {
  for (size_t i = 0; job->cluster && i < job->cluster->job_count; i++)
    if (strcmp(job->cluster->jobs[i].name, name) == 0)
      return (int)job->cluster->jobs[i].task_count;
  return 0;
}

bool dp_job_is_ps(const dp_job *job) {
  return job->cluster && strcmp(job->name, "ps") == 0;
}

bool dp_job_is_chief(const dp_job *job) {
  if (!job->cluster || strcmp(job->name, "chief") == 0)
    return true;
  return strcmp(job->name, "worker") == 0 && job->task == 0 && count_tasks(job, "chief") == 0;
}

int dp_job_ps_count(const dp_job *job) {
  return count_tasks(job, "ps");
}

int dp_job_worker_count(const dp_job *job) {
  return job->cluster ? count_tasks(job, "chief") + count_tasks(job, "worker") : 1;
}

int dp_job_worker(const dp_job *job) {
  if (!job->cluster || strcmp(job->name, "chief") == 0)
    return 0;
  return job->task + count_tasks(job, "chief");
}

const char *dp_train_job_address(const dp_job *job, int worker) {
  int chiefs = count_tasks(job, "chief");
  return worker < chiefs ? dp_cluster_spec_find(job->cluster, "chief", worker)
                         : dp_cluster_spec_find(job->cluster, "worker", worker - chiefs);
}

const char *dp_job_device(const dp_job *job) {
  return job->device;
}

const char *dp_job_target(const dp_job *job) {
  return job->server ? dp_server_target(job->server) : "";
}

/* ---- The end of the job, as tokens ---- */
typedef struct farewell {
  TF_Graph *graph;
  dp_scope *scope;
  TF_Session *session;
  TF_Status *status;
} farewell;

/* Opens a session on this task's own server that sees the devices of `filters` alone. A call may
 * take `limit_ms`; 0: no limit. */
static void farewell_open(farewell *self, const dp_job *job, const char *const *filters, int count,
                          int limit_ms) {
  dp_text config = {0};
  TF_SessionOptions *options = TF_NewSessionOptions();
  for (int i = 0; i < count; i++) {
    dp_text_add_char(&config, 0x22); /* ConfigProto.device_filters */
    dp_text_add_char(&config, (char)strlen(filters[i]));
    dp_text_add(&config, filters[i]);
  }
  dp_text_add_char(&config, 0x58); /* ConfigProto.operation_timeout_in_ms */
  dp_text_add_varint(&config, (uint64_t)limit_ms);
  TF_SetTarget(options, dp_job_target(job));
  TF_SetConfig(options, config.data, config.length, self->status);
  if (TF_GetCode(self->status) == TF_OK)
    self->session = TF_NewSession(self->graph, options, self->status);
  TF_DeleteSessionOptions(options);
  dp_text_deinit(&config);
}

static void farewell_init(farewell *self) {
  *self = (farewell){.graph = TF_NewGraph(), .status = TF_NewStatus()};
  self->scope = dp_scope_create(self->graph);
}

static void farewell_deinit(farewell *self) {
  if (self->session) {
    TF_CloseSession(self->session, self->status);
    TF_DeleteSession(self->session, self->status);
  }
  dp_scope_destroy(self->scope);
  TF_DeleteGraph(self->graph);
  TF_DeleteStatus(self->status);
}

static TF_Output done_queue(farewell *self, int server, dp_scope **there_out) {
  char device[64];
  snprintf(device, sizeof(device), "/job:ps/task:%d", server);
  *there_out = dp_scope_on(self->scope, device);
  return dp_fifo_queue_v2(*there_out, DP_TYPES(TF_INT32), .shared_name = "downpour_workers_done");
}

/* Tells all parameter servers, for FAREWELL_MS at most: one of them may have gone already. */
static void say_done(const dp_job *job) {
  farewell self;
  int servers = dp_job_ps_count(job);
  TF_Operation **told = DP_NEW_ARRAY(TF_Operation *, servers + 1);
  farewell_init(&self);
  for (int i = 0; i < servers; i++) {
    dp_scope *there;
    TF_Output queue = done_queue(&self, i, &there);
    TF_Output worker = dp_const_int32(there, dp_job_worker(job));
    told[i] = dp_queue_enqueue_v2(there, queue, DP_OUTPUTS(worker));
  }
  farewell_open(&self, job, (const char *const[]){"/job:ps", job->device}, 2, FAREWELL_MS);
  if (self.session && dp_scope_ok(self.scope))
    TF_SessionRun(self.session, NULL, NULL, NULL, 0, NULL, NULL, 0,
                  (const TF_Operation *const *)told, servers, NULL, self.status);
  if (TF_GetCode(self.status) != TF_OK)
    DP_LOG(TRAIN, INFO, "a parameter server did not hear of this worker's end: %s",
           TF_Message(self.status));
  farewell_deinit(&self);
  dp_free(told);
}

/* A thread of a parameter server: takes one token per worker. */
static void *await_workers(void *arg) {
  const dp_job *job = arg;
  farewell self;
  dp_scope *there;
  farewell_init(&self);
  TF_Output queue = done_queue(&self, job->task, &there);
  dp_output_list token = dp_queue_dequeue_v2(there, queue, DP_TYPES(TF_INT32));
  farewell_open(&self, job, (const char *const[]){job->device}, 1, 0);
  int waiting = dp_job_worker_count(job);
  while (self.session && waiting > 0) {
    TF_Tensor *worker;
    TF_SessionRun(self.session, NULL, NULL, NULL, 0, (TF_Output[]){dp_output_at(token, 0)}, &worker,
                  1, NULL, 0, NULL, self.status);
    if (TF_GetCode(self.status) != TF_OK)
      break; /* the server is ending */
    DP_LOG(TRAIN, INFO, "worker %d is done", *(const int32_t *)TF_TensorData(worker));
    TF_DeleteTensor(worker);
    waiting--;
  }
  if (waiting == 0)
    kill(getpid(), SIGTERM);
  farewell_deinit(&self);
  return NULL;
}

/* ---- Life ---- */
static void end_this_process(void *arg) {
  kill(getpid(), SIGTERM);
}

static void block_signals(sigset_t *signals) {
  sigemptyset(signals);
  sigaddset(signals, SIGTERM);
  sigaddset(signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, signals, NULL);
}

static dp_status *start(dp_job *job, const char *config) {
  DP_RETURN_IF_ERROR(dp_cluster_parse_tf_config(config, &job->cluster, &job->name, &job->task));
  snprintf(job->device, sizeof(job->device), "/job:%s/task:%d", job->name, job->task);
  sigset_t signals;
  if (dp_job_is_ps(job)) /* before there are threads: all inherit it, and dp_job_serve waits */
    block_signals(&signals);
  signal(SIGPIPE, SIG_IGN);
  dp_server_options options = {.cluster = job->cluster,
                               .job = job->name,
                               .task = job->task,
                               .port = -1,
                               .stop = dp_job_is_ps(job) ? end_this_process : NULL};
  DP_RETURN_IF_ERROR(dp_server_create(&options, &job->server));
  return dp_server_start(job->server);
}

static void destroy(dp_job *job) {
  dp_server_destroy(job->server);
  dp_cluster_spec_release(job->cluster);
  dp_free(job->name);
  dp_free(job);
}

dp_job *dp_job_start(TF_Status *status) {
  dp_job *job = DP_NEW(dp_job);
  const char *config = getenv("TF_CONFIG"), *levels = getenv("DOWNPOUR_LOG");
  dp_status *error = dp_status_annotate(dp_log_configure(levels ? levels : "warn"), "DOWNPOUR_LOG");
  if (!error && config && config[0])
    error = start(job, config);
  TF_SetStatus(status, (TF_Code)dp_status_code(error), dp_status_message(error));
  dp_status_release(error);
  if (TF_GetCode(status) == TF_OK)
    return job;
  destroy(job);
  return NULL;
}

void dp_job_end(dp_job *job) {
  if (!job)
    return;
  if (job->server && !dp_job_is_ps(job) && dp_job_ps_count(job) > 0)
    say_done(job);
  destroy(job);
}

int dp_job_serve(dp_job *job) {
  sigset_t signals;
  pthread_t waiter;
  int number = 0;
  if (!job->server)
    return 0;
  block_signals(&signals);
  printf("Started server with target: %s\n", dp_job_target(job));
  fflush(stdout);
  bool waits = pthread_create(&waiter, NULL, await_workers, job) == 0;
  sigwait(&signals, &number);
  dp_server_shutdown(job->server, dp_clock_nanos() + GRACE_NANOS);
  if (waits)
    pthread_join(waiter, NULL);
  destroy(job);
  return 0;
}
