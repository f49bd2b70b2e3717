/* Puts a task together. Links to other tasks are made when first asked for and kept; the network
 * client behind them is made with the first link, so that a task that is alone has none. */
#include "server/task_internal.h"

#include <pthread.h>
#include "base/memory.h"
#include "kernels/kernels.h"
#include "server/services_internal.h"

enum { BLOCKING_THREADS = 8 };

typedef struct task_link {
  char *task;
  char *address;
  dp_worker_peer *peer; /* NULL until first used */
} task_link;

struct dp_task {
  char *name;
  dp_pool *compute, *blocking;
  dp_device **devices;
  size_t device_count;
  pthread_mutex_t lock;  /* guards the links' peers and the client */
  dp_rpc_client *client; /* NULL until first used */
  task_link *links;
  const char **link_names;
  size_t link_count;
  dp_worker *worker;
  dp_master *master;
};

/* ---- Links ---- */

/* With the lock held. */
static dp_status *open_link(dp_task *task, task_link *link) {
  if (link->peer)
    return NULL;
  if (!task->client)
    DP_RETURN_IF_ERROR(dp_rpc_client_create(0, &task->client));
  dp_rpc_channel *channel = dp_rpc_channel_create(task->client, link->address);
  link->peer = dp_remote_worker_create(channel, link->task, false);
  return NULL;
}

static dp_status *find_peer(void *arg, const char *name, dp_worker_peer **peer_out) {
  dp_task *task = arg;
  for (size_t i = 0; i < task->link_count; i++) {
    if (strcmp(task->links[i].task, name) != 0)
      continue;
    pthread_mutex_lock(&task->lock);
    dp_status *status = open_link(task, &task->links[i]);
    *peer_out = task->links[i].peer;
    pthread_mutex_unlock(&task->lock);
    return status;
  }
  return dp_status_create(DP_NOT_FOUND, "%s is no task of this cluster", name);
}

static size_t list_tasks(void *arg, const char *const **names_out) {
  dp_task *task = arg;
  *names_out = task->link_names;
  return task->link_count;
}

static const dp_worker_peers_ops peers_ops = {find_peer};
static const dp_master_cluster_ops cluster_ops = {list_tasks, find_peer};

static void copy_links(dp_task *task, const dp_task_options *options) {
  task->link_count = options->peer_count;
  task->links = DP_NEW_ARRAY(task_link, options->peer_count);
  task->link_names = DP_NEW_ARRAY(const char *, options->peer_count);
  for (size_t i = 0; i < options->peer_count; i++) {
    task->links[i].task = dp_strdup(options->peers[i].task);
    task->links[i].address = dp_strdup(options->peers[i].address);
    task->link_names[i] = task->links[i].task;
  }
}

static void destroy_links(dp_task *task) {
  for (size_t i = 0; i < task->link_count; i++) {
    if (task->links[i].peer)
      task->links[i].peer->ops->release(task->links[i].peer);
    dp_free(task->links[i].task);
    dp_free(task->links[i].address);
  }
  dp_free(task->links);
  dp_free(task->link_names);
  if (task->client)
    dp_rpc_client_destroy(task->client);
}

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
  task->name = dp_strdup(options->task);
  pthread_mutex_init(&task->lock, NULL);
  task->compute = dp_pool_create("compute", options->compute_threads);
  task->blocking = dp_pool_create("blocking", BLOCKING_THREADS);
  make_devices(task, options->cpu_devices);
  copy_links(task, options);
  dp_worker_options worker = {.task = task->name,
                              .devices = task->devices,
                              .device_count = task->device_count,
                              .compute = task->compute,
                              .blocking = task->blocking,
                              .peers = &peers_ops,
                              .peers_arg = task};
  task->worker = dp_worker_create(&worker);
  dp_master_options master = {.worker = task->worker,
                              .cluster = &cluster_ops,
                              .cluster_arg = task,
                              .blocking = task->blocking,
                              .session_idle_nanos = options->session_idle_nanos};
  task->master = dp_master_create(&master);
  *task_out = task;
  return NULL;
}

void dp_task_destroy(dp_task *task) {
  if (!task)
    return;
  dp_master_destroy(task->master);
  dp_worker_destroy(task->worker);
  destroy_links(task);
  dp_pool_destroy(task->compute);
  dp_pool_destroy(task->blocking);
  for (size_t i = 0; i < task->device_count; i++)
    dp_device_release(task->devices[i]);
  dp_free(task->devices);
  pthread_mutex_destroy(&task->lock);
  dp_free(task->name);
  dp_free(task);
}

bool dp_task_handle(dp_task *task, dp_rpc_call *call) {
  return dp_master_service_handle(task->master, task->blocking, call) ||
         dp_worker_service_handle(task->worker, task->blocking, call);
}

dp_worker *dp_task_worker(dp_task *task) {
  return task->worker;
}

dp_master *dp_task_master(dp_task *task) {
  return task->master;
}
