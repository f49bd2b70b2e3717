/* A link to a master in this process: a task with CPU devices and resources of its own, as each
 * of TensorFlow's direct sessions has. Threads are shared by all such links and go with the last.
 * Calls are made on the caller's thread, which waits for their end. */
#include "client/client_internal.h"

#include "base/event.h"
#include "base/thread.h"
#include "client/differentiate.h"
#include "kernels/kernels.h"
#include "master/master.h"
#include "worker/worker.h"

enum { BLOCKING_THREADS = 8, MOST_DEVICES = 1024 };
static const char task_name[] = "/job:localhost/replica:0/task:0";

/* ---- Threads ---- */

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  int users;
  dp_pool *compute, *blocking;
} pools; /* guarded by pools_lock */

static void enter_pools(void) {
  pthread_mutex_lock(&pools_lock);
  if (pools.users++ == 0) {
    dp_kernels_register();
    dp_differentiate_register();
    pools.compute = dp_pool_create("compute", 0);
    pools.blocking = dp_pool_create("blocking", BLOCKING_THREADS);
  }
  pthread_mutex_unlock(&pools_lock);
}

static void leave_pools(void) {
  pthread_mutex_lock(&pools_lock);
  if (--pools.users == 0) {
    dp_pool_destroy(pools.compute);
    dp_pool_destroy(pools.blocking);
  }
  pthread_mutex_unlock(&pools_lock);
}

/* ---- The task ---- */

typedef struct local_link {
  client_link link;
  dp_device **devices;
  size_t device_count;
  dp_worker *worker;
  dp_master *master;
} local_link;

static size_t list_tasks(void *arg, const char *const **names_out) {
  static const char *const names[] = {task_name};
  *names_out = names;
  return 1;
}

static dp_status *find_task(void *arg, const char *task, dp_worker_peer **peer_out) {
  local_link *link = arg;
  *peer_out = dp_worker_local_peer(link->worker);
  return NULL;
}

static const dp_master_cluster_ops cluster_ops = {list_tasks, find_task, NULL, NULL};

static dp_status *count_devices(const Tensorflow__ConfigProto *config, size_t *count_out) {
  *count_out = 1;
  for (size_t i = 0; config && i < config->n_device_count; i++) {
    if (strcmp(config->device_count[i]->key, "CPU") != 0)
      continue;
    int32_t count = config->device_count[i]->value;
    if (count < 1 || count > MOST_DEVICES)
      return DP_INVALID("device_count of the ConfigProto asks for %d CPU devices; 1 to %d are "
                        "possible",
                        count, MOST_DEVICES);
    *count_out = (size_t)count;
  }
  return NULL;
}

/* ---- Calls ---- */

typedef struct local_call {
  dp_event ended;
  dp_status *status;
  dp_arena *arena;
  void *response_out; /* or NULL */
  dp_run_step_response *step_out;
} local_call;

static dp_status *wait_for(local_call *call) {
  dp_event_wait(&call->ended);
  dp_event_deinit(&call->ended);
  return call->status;
}

static void call_done(void *arg, dp_status *status, const void *response) {
  local_call *call = arg;
  if (!status && call->response_out)
    status = dp_wire_copy(response, call->arena, call->response_out);
  call->status = status;
  dp_event_notify(&call->ended);
}

static dp_status *local_control(client_link *base, dp_master_method method, const void *request,
                                int64_t deadline, dp_arena *arena, void *response_out) {
  local_link *link = (local_link *)base;
  local_call call = {.arena = arena, .response_out = response_out};
  dp_event_init(&call.ended);
  dp_master_call(link->master, method, request, NULL, call_done, &call);
  return wait_for(&call);
}

static void step_done(void *arg, dp_status *status, dp_run_step_response *response) {
  local_call *call = arg;
  dp_run_step_response *to = call->step_out;
  if (!status && response->metadata)
    status = dp_wire_copy(response->metadata, call->arena, &to->metadata);
  if (!status) {
    to->tensor_count = response->tensor_count;
    to->tensors = DP_ARENA_ARRAY(call->arena, dp_named_tensor, response->tensor_count);
    for (size_t i = 0; i < response->tensor_count; i++) {
      to->tensors[i].name = dp_arena_strdup(call->arena, response->tensors[i].name);
      to->tensors[i].tensor = dp_tensor_take(&response->tensors[i].tensor);
    }
  }
  call->status = status;
  dp_event_notify(&call->ended);
}

static dp_status *local_run(client_link *base, const dp_run_step_request *request, int64_t deadline,
                            dp_arena *arena, dp_run_step_response *response_out) {
  local_link *link = (local_link *)base;
  local_call call = {.arena = arena, .step_out = response_out};
  dp_event_init(&call.ended);
  /* The master keeps the deadline itself. A partial run may return before its nodes have ended. */
  dp_thread_lend(request->partial_run_handle[0] == '\0');
  dp_master_run_step(link->master, request, NULL, step_done, &call);
  dp_thread_lend(false);
  return wait_for(&call);
}

/* ---- Life ---- */

static void local_destroy(client_link *base) {
  local_link *link = (local_link *)base;
  dp_master_destroy(link->master);
  dp_worker_destroy(link->worker);
  dp_kernels_settle();
  for (size_t i = 0; i < link->device_count; i++)
    dp_device_release(link->devices[i]);
  dp_free(link->devices);
  leave_pools();
  dp_free(link);
}

static const client_link_ops local_ops = {local_control, local_run, local_destroy};

static void make_devices(local_link *link, size_t count) {
  link->device_count = count;
  link->devices = DP_NEW_ARRAY(dp_device *, count);
  dp_text name = {0};
  for (size_t i = 0; i < count; i++) {
    dp_text_clear(&name);
    dp_text_printf(&name, "%s/device:CPU:%zu", task_name, i);
    link->devices[i] =
        dp_device_create(dp_text_string(&name), "CPU", pools.compute, pools.blocking);
  }
  dp_text_deinit(&name);
}

dp_status *dp_client_link_local(const Tensorflow__ConfigProto *config, client_link **link_out) {
  size_t device_count;
  DP_RETURN_IF_ERROR(count_devices(config, &device_count));
  enter_pools();
  local_link *link = DP_NEW(local_link);
  link->link.ops = &local_ops;
  make_devices(link, device_count);
  dp_worker_options worker = {.task = task_name,
                              .devices = link->devices,
                              .device_count = link->device_count,
                              .compute = pools.compute,
                              .blocking = pools.blocking};
  link->worker = dp_worker_create(&worker);
  dp_master_options master = {.worker = link->worker,
                              .cluster = &cluster_ops,
                              .cluster_arg = link,
                              .blocking = pools.blocking};
  link->master = dp_master_create(&master);
  *link_out = &link->link;
  return NULL;
}
