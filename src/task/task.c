/* Puts a task together and takes it apart. See task.h.
 *
 * The order of the end matters: the master closes its sessions, which call workers; the worker ends
 * what runs; kernels end what they do in the background; then the threads may go. */
#include "task/task.h"

#include <pthread.h>
#include "base/memory.h"
#include "kernels/kernels.h"

enum { BLOCKING_THREADS = 8 };

struct dp_task {
  char *name;
  const char *own_name[1]; /* what a task alone lists */
  bool shares_threads;
  dp_pool *compute, *blocking;
  dp_device **devices;
  size_t device_count;
  dp_worker *worker;
  dp_master *master;
};

/* ---- Threads ---- */

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  int users;
  dp_pool *compute, *blocking;
} shared; /* by tasks that share their threads; guarded by shared_lock */

static void share_pools(dp_task *task) {
  pthread_mutex_lock(&shared_lock);
  if (shared.users++ == 0) {
    shared.compute = dp_pool_create("compute", 0);
    shared.blocking = dp_pool_create("blocking", BLOCKING_THREADS);
  }
  task->compute = shared.compute;
  task->blocking = shared.blocking;
  pthread_mutex_unlock(&shared_lock);
}

static void leave_pools(void) {
  pthread_mutex_lock(&shared_lock);
  if (--shared.users == 0) {
    dp_pool_destroy(shared.compute);
    dp_pool_destroy(shared.blocking);
  }
  pthread_mutex_unlock(&shared_lock);
}

static void make_pools(dp_task *task, const dp_task_options *options) {
  task->shares_threads = options->shares_threads;
  if (task->shares_threads) {
    share_pools(task);
    return;
  }
  task->compute = dp_pool_create("compute", options->compute_threads);
  task->blocking = dp_pool_create("blocking", BLOCKING_THREADS);
}

static void end_pools(dp_task *task) {
  if (task->shares_threads) {
    leave_pools();
    return;
  }
  dp_pool_destroy(task->compute);
  dp_pool_destroy(task->blocking);
}

/* ---- A cluster of one ---- */

static size_t list_itself(void *arg, const char *const **names_out) {
  dp_task *task = arg;
  *names_out = task->own_name;
  return 1;
}

static dp_status *find_itself(void *arg, const char *name, dp_worker_peer **peer_out) {
  dp_task *task = arg;
  *peer_out = dp_worker_local_peer(task->worker);
  return NULL;
}

static const dp_cluster_ops alone_ops = {.tasks = list_itself, .find = find_itself};

/* ---- Life ---- */

static void make_devices(dp_task *task, int count) {
  task->device_count = (size_t)count;
  task->devices = DP_NEW_ARRAY(dp_device *, task->device_count);
  dp_text name = {0};
  for (int i = 0; i < count; i++) {
    dp_text_clear(&name);
    dp_text_printf(&name, "%s/device:CPU:%d", task->name, i);
    task->devices[i] =
        dp_device_create(dp_text_string(&name), "CPU", task->compute, task->blocking);
  }
  dp_text_deinit(&name);
}

dp_status *dp_task_create(const dp_task_options *options, dp_task **task_out) {
  if (options->cpu_devices < 1)
    return DP_INVALID("a task has at least 1 CPU device, not %d", options->cpu_devices);
  dp_kernels_register();
  dp_task *task = DP_NEW(dp_task);
  task->name = dp_strdup(options->name);
  task->own_name[0] = task->name;
  make_pools(task, options);
  make_devices(task, options->cpu_devices);
  dp_worker_options worker = {.task = task->name,
                              .devices = task->devices,
                              .device_count = task->device_count,
                              .compute = task->compute,
                              .blocking = task->blocking,
                              .peers = options->cluster,
                              .peers_arg = options->cluster_arg};
  task->worker = dp_worker_create(&worker);
  dp_master_options master = {.worker = task->worker,
                              .cluster = options->cluster ? options->cluster : &alone_ops,
                              .cluster_arg = options->cluster ? options->cluster_arg : task,
                              .blocking = task->blocking,
                              .session_idle_nanos = options->session_idle_nanos,
                              .session_lost_nanos = options->session_lost_nanos};
  task->master = dp_master_create(&master);
  *task_out = task;
  return NULL;
}

void dp_task_destroy(dp_task *task) {
  if (!task)
    return;
  dp_master_destroy(task->master);
  dp_worker_destroy(task->worker);
  dp_kernels_settle();
  end_pools(task);
  for (size_t i = 0; i < task->device_count; i++)
    dp_device_release(task->devices[i]);
  dp_free(task->devices);
  dp_free(task->name);
  dp_free(task);
}

const char *dp_task_name(const dp_task *task) {
  return task->name;
}

dp_worker *dp_task_worker(dp_task *task) {
  return task->worker;
}

dp_master *dp_task_master(dp_task *task) {
  return task->master;
}

dp_pool *dp_task_blocking(dp_task *task) {
  return task->blocking;
}
