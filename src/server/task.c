/* Puts a task together. */
#include "server/task_internal.h"

#include "base/memory.h"
#include "client/differentiate.h"
#include "kernels/kernels.h"
#include "server/housekeeping_internal.h"
#include "server/keeper_internal.h"
#include "server/links_internal.h"
#include "server/services_internal.h"

enum { BLOCKING_THREADS = 8 };

struct dp_task {
  char *name;
  dp_pool *compute, *blocking;
  dp_device **devices;
  size_t device_count;
  dp_link_client *client;
  dp_links *links;
  dp_worker *worker;
  dp_master *master;
  dp_housekeeper *housekeeper;
  dp_keeper *keeper;
};

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
  dp_differentiate_register();
  dp_task *task = DP_NEW(dp_task);
  task->name = dp_strdup(options->task);
  task->compute = dp_pool_create("compute", options->compute_threads);
  task->blocking = dp_pool_create("blocking", BLOCKING_THREADS);
  make_devices(task, options->cpu_devices);
  task->client = dp_link_client_create();
  task->links = dp_links_create(task->client, options->cluster);
  dp_worker_options worker = {.task = task->name,
                              .devices = task->devices,
                              .device_count = task->device_count,
                              .compute = task->compute,
                              .blocking = task->blocking,
                              .peers = &dp_links_peers_ops,
                              .peers_arg = task->links};
  task->worker = dp_worker_create(&worker);
  dp_master_options master = {.worker = task->worker,
                              .cluster = &dp_links_cluster_ops,
                              .cluster_arg = task->links,
                              .blocking = task->blocking,
                              .session_idle_nanos = options->session_idle_nanos,
                              .session_lost_nanos = options->session_lost_nanos};
  task->master = dp_master_create(&master);
  task->housekeeper = dp_housekeeper_start(task->blocking);
  dp_keeper_options keeper = {.task = task->name,
                              .links = task->links,
                              .worker = task->worker,
                              .blocking = task->blocking,
                              .grace_nanos = options->gone_nanos,
                              .leave = options->leave,
                              .leave_arg = options->leave_arg};
  if (options->gone_nanos > 0)
    task->keeper = dp_keeper_create(&keeper);
  *task_out = task;
  return NULL;
}

void dp_task_destroy(dp_task *task) {
  if (!task)
    return;
  dp_housekeeper_stop(task->housekeeper);
  dp_keeper_destroy(task->keeper);
  dp_master_destroy(task->master);
  dp_worker_destroy(task->worker);
  dp_links_destroy(task->links);
  dp_link_client_destroy(task->client);
  dp_kernels_settle();
  dp_pool_destroy(task->compute);
  dp_pool_destroy(task->blocking);
  for (size_t i = 0; i < task->device_count; i++)
    dp_device_release(task->devices[i]);
  dp_free(task->devices);
  dp_free(task->name);
  dp_free(task);
}

bool dp_task_handle(dp_task *task, dp_rpc_call *call) {
  return dp_master_service_handle(task->master, task->blocking, call) ||
         dp_worker_service_handle(task->worker, task->blocking, call);
}

void dp_task_describe_peers(dp_task *task, dp_text *text) {
  dp_links_describe(task->links, task->name, text);
}

dp_worker *dp_task_worker(dp_task *task) {
  return task->worker;
}

dp_master *dp_task_master(dp_task *task) {
  return task->master;
}
