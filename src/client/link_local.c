/* A link to a master in this process: no message is packed, calls are made on the caller's thread,
 * which waits for their end.
 *
 * Without a target it is the master of a task of the link's own, as each of TensorFlow's direct
 * sessions has one. With the target of a server that runs in this process it is the server's, which
 * the link enters by its door (task/door.h) for each call. Then the session behaves as over the
 * network: feeds are copied, because a queue or a variable may keep them after the client has used
 * its memory again; fetches are copied where somebody else holds them; a server that has stopped is
 * UNAVAILABLE. The link's lock guards only which door it uses. */
#include "client/client_internal.h"

#include "base/event.h"
#include "base/thread.h"
#include "client/differentiate.h"
#include "task/door.h"

enum { MOST_DEVICES = 1024 };
static const char task_name[] = "/job:localhost/replica:0/task:0";

typedef struct local_link {
  client_link link;
  dp_task *own;         /* without a target; else NULL, and what follows is set */
  char *address;        /* of the server */
  pthread_mutex_t lock; /* guards what follows */
  dp_door *door;
  dp_cancel *scope; /* ends with the door's life */
} local_link;

/* ---- Who is called ---- */

/* A call's way in. */
typedef struct entrance {
  dp_master *master;
  dp_door *door;     /* entered; NULL for the link's own task */
  dp_cancel *cancel; /* NULL: nothing ends the call but the master */
} entrance;

/* With the lock held: the server may have been started again since. */
static void find_door(local_link *link) {
  dp_door *found = dp_door_find(link->address);
  if (!found)
    return;
  dp_door_release(link->door);
  dp_cancel_release(link->scope);
  link->door = found;
  link->scope = dp_cancel_create(dp_door_life(found), DP_FOREVER);
}

static dp_status *enter(local_link *link, int64_t deadline, entrance *entrance_out) {
  *entrance_out = (entrance){0};
  if (link->own) {
    entrance_out->master = dp_task_master(link->own);
    return NULL;
  }
  pthread_mutex_lock(&link->lock);
  dp_task *task = dp_door_enter(link->door);
  if (!task) {
    find_door(link);
    task = dp_door_enter(link->door);
  }
  if (task) {
    entrance_out->master = dp_task_master(task);
    entrance_out->door = dp_door_retain(link->door);
    entrance_out->cancel = deadline == DP_FOREVER ? dp_cancel_retain(link->scope)
                                                  : dp_cancel_create(link->scope, deadline);
  }
  pthread_mutex_unlock(&link->lock);
  return task ? NULL
              : dp_status_create(DP_UNAVAILABLE,
                                 "the server at %s, which ran in this process, has stopped",
                                 link->address);
}

static void leave(entrance *entered) {
  if (!entered->door)
    return;
  dp_cancel_release(entered->cancel);
  dp_door_leave(entered->door);
  dp_door_release(entered->door);
}

/* ---- Control calls ---- */

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
  entrance entered;
  DP_RETURN_IF_ERROR(enter((local_link *)base, deadline, &entered));
  local_call call = {.arena = arena, .response_out = response_out};
  dp_event_init(&call.ended);
  dp_master_call(entered.master, method, request, entered.cancel, call_done, &call);
  dp_status *status = wait_for(&call);
  leave(&entered);
  return status;
}

/* ---- Steps ---- */

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

/* The master keeps the deadline itself. A partial run may return before its nodes have ended, so
 * its thread is not lent to them. */
static dp_status *run_step(const entrance *entered, const dp_run_step_request *request,
                           dp_arena *arena, dp_run_step_response *response_out) {
  local_call call = {.arena = arena, .step_out = response_out};
  dp_event_init(&call.ended);
  dp_thread_lend(request->partial_run_handle[0] == '\0');
  dp_master_run_step(entered->master, request, entered->cancel, step_done, &call);
  dp_thread_lend(false);
  return wait_for(&call);
}

static void release_tensors(dp_named_tensor *tensors, size_t count) {
  for (size_t i = 0; i < count; i++)
    dp_tensor_deinit(&tensors[i].tensor);
}

static dp_status *copy_feeds(const dp_run_step_request *request, dp_arena *arena,
                             dp_named_tensor **feeds_out) {
  dp_named_tensor *feeds = DP_ARENA_ARRAY(arena, dp_named_tensor, request->feed_count + 1);
  for (size_t i = 0; i < request->feed_count; i++) {
    feeds[i].name = request->feeds[i].name;
    dp_status *status = dp_tensor_clone(&request->feeds[i].tensor, &feeds[i].tensor);
    if (status) {
      release_tensors(feeds, i);
      return status;
    }
  }
  *feeds_out = feeds;
  return NULL;
}

/* The client may write into what it fetched: it must be nobody else's, a variable's or a
 * constant's. */
static dp_status *own_fetches(dp_run_step_response *response) {
  for (size_t i = 0; i < response->tensor_count; i++) {
    dp_tensor *tensor = &response->tensors[i].tensor, copy;
    if (!dp_tensor_is_set(tensor) || !tensor->buffer || dp_tensor_is_unique(tensor))
      continue;
    DP_RETURN_IF_ERROR(dp_tensor_clone(tensor, &copy));
    dp_tensor_deinit(tensor);
    *tensor = copy;
  }
  return NULL;
}

static dp_status *run_step_apart(const entrance *entered, const dp_run_step_request *request,
                                 dp_arena *arena, dp_run_step_response *response_out) {
  dp_run_step_request own = *request;
  DP_RETURN_IF_ERROR(copy_feeds(request, arena, &own.feeds));
  dp_status *status = run_step(entered, &own, arena, response_out);
  release_tensors(own.feeds, own.feed_count);
  if (!status)
    status = own_fetches(response_out);
  if (status) {
    dp_run_step_response_deinit(response_out);
    *response_out = (dp_run_step_response){0};
  }
  return status;
}

static dp_status *local_run(client_link *base, const dp_run_step_request *request, int64_t deadline,
                            dp_arena *arena, dp_run_step_response *response_out) {
  entrance entered;
  DP_RETURN_IF_ERROR(enter((local_link *)base, deadline, &entered));
  dp_status *status = entered.door ? run_step_apart(&entered, request, arena, response_out)
                                   : run_step(&entered, request, arena, response_out);
  leave(&entered);
  return status;
}

/* ---- Life ---- */

static void local_destroy(client_link *base) {
  local_link *link = (local_link *)base;
  dp_task_destroy(link->own);
  dp_cancel_release(link->scope);
  dp_door_release(link->door);
  pthread_mutex_destroy(&link->lock);
  dp_free(link->address);
  dp_free(link);
}

static const client_link_ops local_ops = {
    .call = local_control, .run = local_run, .destroy = local_destroy};

static local_link *make_link(void) {
  local_link *link = DP_NEW(local_link);
  link->link.ops = &local_ops;
  pthread_mutex_init(&link->lock, NULL);
  return link;
}

static dp_status *count_devices(const Tensorflow__ConfigProto *config, int *count_out) {
  *count_out = 1;
  for (size_t i = 0; config && i < config->n_device_count; i++) {
    if (strcmp(config->device_count[i]->key, "CPU") != 0)
      continue;
    int32_t count = config->device_count[i]->value;
    if (count < 1 || count > MOST_DEVICES)
      return DP_INVALID("device_count of the ConfigProto asks for %d CPU devices; 1 to %d are "
                        "possible",
                        count, MOST_DEVICES);
    *count_out = count;
  }
  return NULL;
}

dp_status *dp_client_link_local(const Tensorflow__ConfigProto *config, client_link **link_out) {
  int device_count;
  DP_RETURN_IF_ERROR(count_devices(config, &device_count));
  dp_differentiate_register();
  local_link *link = make_link();
  dp_task_options options = {
      .name = task_name, .cpu_devices = device_count, .shares_threads = true};
  dp_status *status = dp_task_create(&options, &link->own);
  if (status) {
    local_destroy(&link->link);
    return status;
  }
  *link_out = &link->link;
  return NULL;
}

client_link *dp_client_link_door(const char *address) {
  dp_door *door = dp_door_find(address);
  if (!door)
    return NULL;
  local_link *link = make_link();
  link->address = dp_strdup(address);
  link->door = door;
  link->scope = dp_cancel_create(dp_door_life(door), DP_FOREVER);
  return &link->link;
}
