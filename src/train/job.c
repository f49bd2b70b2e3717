/* A job: this program is one task of a cluster, and the task's server runs in its process.
 * TF_CONFIG says which task it is; without TF_CONFIG the program is alone.
 *
 * A worker that ends says so to the parameter servers, which leave when no worker needs them any
 * more (farewell.c): dp_job_serve waits for SIGTERM, and that is how it is told. A worker whose
 * training failed says nothing, because it may be started again. The program owns the job;
 * dp_job_end or dp_job_serve frees it. */
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

static const double GONE_SECONDS = 10, RESTART_SECONDS = 600;
static const int64_t GRACE_NANOS = 1000000000;

struct dp_job {
  dp_cluster_spec *cluster; /* NULL: alone */
  char *name;
  int32_t task;
  char device[96];
  dp_server *server;
  double restart_seconds; /* a worker that is silent for longer does not come back */
  bool failed;            /* a training of this task */
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

int dp_train_job_task(const dp_job *job) {
  return job->task;
}

uint64_t dp_train_job_incarnation(const dp_job *job) {
  return job->server ? dp_server_incarnation(job->server) : 0;
}

void dp_train_job_failed(const dp_job *job) {
  ((dp_job *)job)->failed = true; /* models see their job as const, but no job is */
}

const char *dp_job_target(const dp_job *job) {
  return job->server ? dp_server_target(job->server) : "";
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

/* Seconds from an environment variable; `otherwise` if it is not set. */
static dp_status *read_seconds(const char *name, double otherwise, double *seconds_out) {
  const char *text = getenv(name);
  char *end = NULL;
  double seconds = text && text[0] ? strtod(text, &end) : otherwise;
  if ((end && *end) || !(seconds > 0 && seconds < 1e9))
    return DP_INVALID("%s is \"%s\"; expected a number of seconds above 0", name, text);
  *seconds_out = seconds;
  return NULL;
}

static dp_status *start(dp_job *job, const char *config) {
  double gone;
  DP_RETURN_IF_ERROR(read_seconds("DOWNPOUR_GONE_SECONDS", GONE_SECONDS, &gone));
  DP_RETURN_IF_ERROR(
      read_seconds("DOWNPOUR_RESTART_SECONDS", RESTART_SECONDS, &job->restart_seconds));
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
                               .gone_nanos = (int64_t)(gone * 1e9),
                               .session_lost_nanos = DP_SERVER_SESSION_LOST_NANOS,
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
  if (job->server && !dp_job_is_ps(job) && dp_job_ps_count(job) > 0 && !job->failed)
    dp_train_say_done(job);
  destroy(job);
}

int dp_job_serve(dp_job *job) {
  sigset_t signals;
  int number = 0;
  if (!job->server)
    return 0;
  block_signals(&signals);
  printf("Started server with target: %s\n", dp_job_target(job));
  fflush(stdout);
  train_roll *roll = dp_train_roll_start(job, job->restart_seconds, end_this_process);
  sigwait(&signals, &number);
  dp_train_roll_stop(roll);
  dp_server_shutdown(job->server, dp_clock_nanos() + GRACE_NANOS);
  dp_train_roll_join(roll);
  destroy(job);
  return 0;
}
