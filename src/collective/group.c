/* Groups. At the leader a group is a list that grows until it has its size; the other tasks get the
 * complete list from the leader. A complete group stays for later steps, because its members are
 * devices. It is begun anew when a device joins that is not a member, has restarted (has another
 * incarnation), or gives another size. A member whose step is cancelled before the group is
 * complete is removed.
 *
 * dp_collectives.lock guards all of this. A thread that takes a waiter off its group's list must
 * answer it, with no lock held. */
#include <stdlib.h>
#include "collective/collective_internal.h"
#include "wire/control.h"
#include "wire/device_name.h"

struct group_waiter {
  group_waiter *next;
  dp_collectives *collectives;
  collective_group *group; /* NULL when it is not on the list; guarded by the lock */
  char *device;
  dp_cancel *cancel;
  dp_cancel_token token;
  group_done_fn done;
  void *arg;
};

/* ---- Creating and destroying ---- */

static collective_group *make_group(int32_t key, int32_t size, const char *device_type) {
  collective_group *group = DP_NEW(collective_group);
  dp_refcount_init(&group->references);
  group->key = key;
  group->size = size;
  group->device_type = dp_strdup(device_type);
  group->instances = dp_map_create();
  group->settled = dp_map_create();
  return group;
}

static void free_member(group_member *member) {
  dp_free(member->device);
  dp_free(member->task);
}

void dp_group_release(collective_group *group) {
  if (!group || !dp_refcount_release(&group->references))
    return;
  dp_instances_destroy(group);
  for (size_t i = 0; i < group->members.count; i++)
    free_member(&group->members.items[i]);
  DP_ARRAY_FREE(&group->members);
  dp_free(group->device_type);
  dp_free(group->restarted);
  dp_free(group);
}

static collective_group *retain(collective_group *group) {
  dp_refcount_retain(&group->references);
  return group;
}

int32_t dp_group_rank(const collective_group *group, const char *device) {
  for (size_t i = 0; i < group->members.count; i++) {
    if (strcmp(group->members.items[i].device, device) == 0)
      return (int32_t)i;
  }
  return -1;
}

void dp_group_describe(const collective_group *group, dp_text *text) {
  dp_text_printf(text, "%zu of %d members of group %d are here:", group->members.count, group->size,
                 group->key);
  for (size_t i = 0; i < group->members.count; i++)
    dp_text_printf(text, " %s", group->members.items[i].device);
}

/* ---- Members ---- */

/* TensorFlow's order: tasks by their names as text, so that "task:10" comes before "task:2";
 * devices of one task by type and number. */
static int compare_members(const void *a, const void *b) {
  const group_member *x = a, *y = b;
  int by_task = strcmp(x->task, y->task);
  if (by_task != 0)
    return by_task;
  dp_device_name left = {0}, right = {0};
  dp_status_release(dp_device_name_parse(dp_view_of(x->device), &left));
  dp_status_release(dp_device_name_parse(dp_view_of(y->device), &right));
  int by_type = strcmp(left.type, right.type);
  return by_type != 0 ? by_type : (left.id > right.id) - (left.id < right.id);
}

static dp_status *check_device(const char *device, char **task_out) {
  dp_device_name name;
  DP_RETURN_IF_ERROR(dp_device_name_parse(dp_view_of(device), &name));
  if (!dp_device_name_is_complete(&name))
    return DP_INVALID("'%s' is no full name of a device", device);
  char text[DP_DEVICE_NAME_SIZE];
  dp_device_name task = dp_device_name_task(&name);
  *task_out = dp_strdup(dp_device_name_format(&task, text));
  return NULL;
}

static dp_status *push_member(collective_group *group, const group_request *request) {
  group_member member = {.incarnation = request->incarnation,
                         .memory_limit = request->memory_limit,
                         .is_ours = request->is_ours};
  DP_RETURN_IF_ERROR(check_device(request->device, &member.task));
  member.device = dp_strdup(request->device);
  DP_ARRAY_PUSH(&group->members, member);
  return NULL;
}

static void complete(collective_group *group) {
  qsort(group->members.items, group->members.count, sizeof(group_member), compare_members);
  group->task_count = 0;
  group->is_ours = true;
  for (size_t i = 0; i < group->members.count; i++) {
    group_member *member = &group->members.items[i];
    if (i == 0 || strcmp(member->task, group->members.items[i - 1].task) != 0)
      group->task_count++;
    group->is_ours &= member->is_ours;
  }
  group->is_complete = true;
}

/* ---- The table; with the lock held ---- */

static collective_group *find(dp_collectives *collectives, int32_t key) {
  return dp_map_get_n(collectives->groups, &key, sizeof(key));
}

/* Returns the group that was replaced; the caller releases it without the lock. */
static collective_group *put(dp_collectives *collectives, collective_group *group) {
  return dp_map_put_n(collectives->groups, &group->key, sizeof(group->key), group);
}

static bool fits(const collective_group *group, const group_request *request) {
  int32_t at = dp_group_rank(group, request->device);
  return group->size == request->size && at >= 0 &&
         group->members.items[at].incarnation == request->incarnation;
}

collective_group *dp_group_find(dp_collectives *collectives, const group_request *request) {
  pthread_mutex_lock(&collectives->lock);
  collective_group *group = find(collectives, request->key);
  bool is_good = group && group->is_complete && fits(group, request);
  if (is_good)
    retain(group);
  pthread_mutex_unlock(&collectives->lock);
  return is_good ? group : NULL;
}

void dp_group_forget(dp_collectives *collectives, collective_group *group) {
  pthread_mutex_lock(&collectives->lock);
  bool is_there = find(collectives, group->key) == group;
  if (is_there)
    dp_map_remove_n(collectives->groups, &group->key, sizeof(group->key));
  pthread_mutex_unlock(&collectives->lock);
  if (is_there)
    dp_group_release(group);
}

/* ---- Waiting ---- */

static void free_waiter(group_waiter *waiter) {
  dp_cancel_release(waiter->cancel);
  dp_free(waiter->device);
  dp_free(waiter);
}

/* With the lock held. */
static group_waiter *take_waiters(collective_group *group) {
  group_waiter *all = group->waiters;
  group->waiters = NULL;
  for (group_waiter *at = all; at; at = at->next)
    at->group = NULL;
  return all;
}

/* Without the lock. Consumes `status`. */
static void answer_waiters(group_waiter *all, dp_status *status, collective_group *group) {
  while (all) {
    group_waiter *waiter = all;
    all = waiter->next;
    if (waiter->cancel)
      dp_cancel_deregister(waiter->cancel, waiter->token);
    waiter->done(waiter->arg, dp_status_retain(status), status ? NULL : retain(group));
    free_waiter(waiter);
  }
  dp_status_release(status);
}

/* With the lock held: takes a waiter off the list. Removes its device from the members when no
 * other waiter is for that device. True when no member is left. */
static bool leave(group_waiter *waiter) {
  collective_group *group = waiter->group;
  group_waiter **at = &group->waiters;
  while (*at != waiter)
    at = &(*at)->next;
  *at = waiter->next;
  waiter->group = NULL;
  for (group_waiter *other = group->waiters; other; other = other->next) {
    if (strcmp(other->device, waiter->device) == 0)
      return false;
  }
  int32_t rank = dp_group_rank(group, waiter->device);
  if (rank >= 0) {
    free_member(&group->members.items[rank]);
    group->members.items[rank] = group->members.items[--group->members.count];
  }
  return group->members.count == 0;
}

static dp_status *say_why(const collective_group *group, const dp_status *why) {
  if (dp_status_code(why) != DP_DEADLINE_EXCEEDED)
    return dp_status_retain(why);
  dp_text text = {0};
  dp_group_describe(group, &text);
  dp_status *status = dp_status_create(DP_DEADLINE_EXCEEDED,
                                       "Collective has timed out waiting for other workers: %s",
                                       dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

static void on_cancel(void *arg, const dp_status *why) {
  group_waiter *waiter = arg;
  dp_collectives *collectives = waiter->collectives;
  collective_group *empty = NULL;
  pthread_mutex_lock(&collectives->lock);
  collective_group *group = waiter->group;
  dp_status *status = group ? say_why(group, why) : NULL;
  if (group && leave(waiter) && find(collectives, group->key) == group) {
    dp_map_remove_n(collectives->groups, &group->key, sizeof(group->key));
    empty = group;
  }
  pthread_mutex_unlock(&collectives->lock);
  dp_group_release(empty);
  if (!group)
    return;
  waiter->done(waiter->arg, status, NULL);
  free_waiter(waiter);
}

/* ---- Joining ---- */

/* With the lock held: the group that the device joins. A complete group that does not fit the
 * request is replaced by a new one; the old one is in *replaced_out. */
static collective_group *choose_group(dp_collectives *collectives, const group_request *request,
                                      collective_group **replaced_out) {
  collective_group *group = find(collectives, request->key);
  if (group && (!group->is_complete || fits(group, request)))
    return group;
  collective_group *old = group;
  group = make_group(request->key, request->size, request->device_type);
  *replaced_out = put(collectives, group);
  if (old && old->size == request->size && dp_group_rank(old, request->device) >= 0)
    group->restarted = dp_strdup(request->device);
  return group;
}

dp_status *dp_group_note_loss(dp_collectives *collectives, int32_t key) {
  pthread_mutex_lock(&collectives->lock);
  collective_group *group = find(collectives, key);
  char *restarted = group ? group->restarted : NULL;
  if (group)
    group->restarted = NULL;
  pthread_mutex_unlock(&collectives->lock);
  if (!restarted)
    return NULL;
  dp_status *status = dp_status_create(
      DP_ABORTED, "Collective group %d is formed anew, because %s has restarted", key, restarted);
  dp_free(restarted);
  return status;
}

static dp_status *check_request(const collective_group *group, const group_request *request) {
  if (strcmp(group->device_type, request->device_type) != 0)
    return dp_status_create(DP_INTERNAL,
                            "Device %s is joining a group with incompatible device type%s "
                            "(group_key=%d)",
                            request->device, group->device_type, group->key);
  if (group->size != request->size)
    return dp_status_create(DP_INTERNAL,
                            "Device %s is joining a group with size%d, but that group has size %d "
                            "(group_key=%d)",
                            request->device, request->size, group->size, group->key);
  return NULL;
}

static dp_status *add_member(collective_group *group, const group_request *request) {
  DP_RETURN_IF_ERROR(check_request(group, request));
  if (group->is_complete)
    return NULL;
  int32_t at = dp_group_rank(group, request->device);
  if (at >= 0) {
    group->members.items[at].incarnation = request->incarnation;
    return NULL;
  }
  DP_RETURN_IF_ERROR(push_member(group, request));
  if ((int32_t)group->members.count == group->size)
    complete(group);
  return NULL;
}

static group_waiter *make_waiter(dp_collectives *collectives, const group_request *request,
                                 dp_cancel *cancel, group_done_fn done, void *arg) {
  group_waiter *waiter = DP_NEW(group_waiter);
  waiter->collectives = collectives;
  waiter->device = dp_strdup(request->device);
  waiter->cancel = cancel ? dp_cancel_retain(cancel) : NULL;
  waiter->done = done;
  waiter->arg = arg;
  return waiter;
}

/* With the lock held: adds the device and the waiter to the group. *ended_out are the waiters to be
 * answered: all when the group is complete now, and all when there is an error, which ends a group
 * that is not complete. */
static dp_status *enter(dp_collectives *collectives, const group_request *request,
                        group_waiter *waiter, group_waiter **ended_out,
                        collective_group **group_out, collective_group **gone_out) {
  if (waiter->cancel && !dp_cancel_register(waiter->cancel, on_cancel, waiter, &waiter->token)) {
    *ended_out = waiter;
    return dp_cancel_status(waiter->cancel);
  }
  collective_group *group = choose_group(collectives, request, gone_out);
  dp_status *status = add_member(group, request);
  waiter->next = group->waiters;
  waiter->group = group;
  group->waiters = waiter;
  if (status || group->is_complete)
    *ended_out = take_waiters(group);
  if (status && !group->is_complete) {
    dp_map_remove_n(collectives->groups, &group->key, sizeof(group->key));
    *gone_out = group;
  } else {
    *group_out = retain(group);
  }
  return status;
}

void dp_group_join(dp_collectives *collectives, const group_request *request, dp_cancel *cancel,
                   group_done_fn done, void *arg) {
  if (request->size <= 0) {
    done(arg, DP_INVALID("group_size must be positive integer but got %d", request->size), NULL);
    return;
  }
  group_waiter *waiter = make_waiter(collectives, request, cancel, done, arg), *ended = NULL;
  collective_group *group = NULL, *gone = NULL;
  pthread_mutex_lock(&collectives->lock);
  dp_status *status = enter(collectives, request, waiter, &ended, &group, &gone);
  pthread_mutex_unlock(&collectives->lock);
  answer_waiters(ended, status, group);
  dp_group_release(group);
  dp_group_release(gone);
}

/* ---- The leader's answer ---- */

static dp_status *read_members(const Tensorflow__CompleteGroupResponse *response,
                               collective_group *group) {
  if (response->n_device_attributes == 0)
    return dp_status_create(DP_INTERNAL,
                            "CompleteGroupResponse device_attributes is empty. Make sure you're "
                            "running the same version of Tensorflow on all workers.");
  if ((int64_t)response->n_device_attributes != response->group_size)
    return dp_status_create(DP_INTERNAL,
                            "CompleteGroupResponse group_size doesn't match device_name list");
  for (size_t i = 0; i < response->n_device_attributes; i++) {
    const Tensorflow__DeviceAttributes *device = response->device_attributes[i];
    group_request member = {.device = device->name,
                            .incarnation = device->incarnation,
                            .memory_limit = device->memory_limit,
                            .is_ours = response->is_downpour};
    DP_RETURN_IF_ERROR(push_member(group, &member));
  }
  complete(group);
  return NULL;
}

static bool is_equal(const collective_group *a, const collective_group *b) {
  bool is_same = a->is_complete && b->is_complete && a->size == b->size;
  for (size_t i = 0; is_same && i < a->members.count; i++) {
    const group_member *x = &a->members.items[i], *y = &b->members.items[i];
    is_same = strcmp(x->device, y->device) == 0 && x->incarnation == y->incarnation;
  }
  return is_same;
}

/* With the lock held: puts `group` into the table, unless the table has an equal one, which stays.
 */
static collective_group *keep(dp_collectives *collectives, collective_group *group,
                              collective_group **replaced_out) {
  collective_group *old = find(collectives, group->key);
  if (old && is_equal(old, group)) {
    *replaced_out = group;
    return retain(old);
  }
  *replaced_out = put(collectives, retain(group));
  return group;
}

dp_status *dp_group_learn(dp_collectives *collectives,
                          const Tensorflow__CompleteGroupResponse *response,
                          collective_group **group_out) {
  collective_group *group =
      make_group(response->group_key, response->group_size, response->device_type);
  dp_status *status = read_members(response, group);
  if (status) {
    dp_group_release(group);
    return status;
  }
  pthread_mutex_lock(&collectives->lock);
  collective_group *replaced;
  group = keep(collectives, group, &replaced);
  group_waiter *ended = replaced ? take_waiters(replaced) : NULL;
  pthread_mutex_unlock(&collectives->lock);
  answer_waiters(ended, NULL, group);
  dp_group_release(replaced);
  *group_out = group;
  return NULL;
}

/* ---- Calls from other tasks ---- */

typedef struct group_call {
  dp_collective_group_fn done;
  void *arg;
} group_call;

static Tensorflow__DeviceAttributes *describe_member(const group_member *member, const char *type,
                                                     dp_arena *arena) {
  Tensorflow__DeviceAttributes *message =
      dp_wire_new(arena, &tensorflow__device_attributes__descriptor);
  message->name = member->device;
  message->device_type = (char *)type;
  message->memory_limit = member->memory_limit;
  message->incarnation = member->incarnation;
  message->locality = dp_wire_new(arena, &tensorflow__device_locality__descriptor);
  return message;
}

static void fill_response(const collective_group *group, dp_arena *arena,
                          Tensorflow__CompleteGroupResponse *response) {
  size_t count = group->members.count;
  response->group_key = group->key;
  response->group_size = group->size;
  response->device_type = group->device_type;
  response->num_tasks = group->task_count;
  response->is_downpour = group->is_ours;
  response->n_device_attributes = count;
  response->device_attributes = DP_ARENA_ARRAY(arena, Tensorflow__DeviceAttributes *, count);
  for (size_t i = 0; i < count; i++)
    response->device_attributes[i] =
        describe_member(&group->members.items[i], group->device_type, arena);
}

static void answer_call(void *arg, dp_status *status, collective_group *group) {
  group_call *call = arg;
  dp_arena *arena = dp_arena_create();
  Tensorflow__CompleteGroupResponse response = TENSORFLOW__COMPLETE_GROUP_RESPONSE__INIT;
  if (!status)
    fill_response(group, arena, &response);
  call->done(call->arg, status, status ? NULL : &response);
  dp_arena_destroy(arena);
  dp_group_release(group);
  dp_free(call);
}

void dp_collectives_complete_group(dp_collectives *collectives,
                                   const Tensorflow__CompleteGroupRequest *request,
                                   dp_cancel *cancel, dp_collective_group_fn done, void *arg) {
  const Tensorflow__DeviceAttributes *device = request->device_attributes;
  if (!device) {
    done(arg,
         dp_status_create(DP_INTERNAL,
                          "CompleteGroupRequest device_attributes is not set. Make sure you're "
                          "running the same version of Tensorflow on all workers."),
         NULL);
    return;
  }
  group_call *call = DP_NEW(group_call);
  *call = (group_call){done, arg};
  group_request join = {.key = request->group_key,
                        .size = request->group_size,
                        .device = device->name,
                        .device_type = request->device_type,
                        .incarnation = device->incarnation,
                        .memory_limit = device->memory_limit,
                        .is_ours = request->is_downpour};
  dp_group_join(collectives, &join, cancel, answer_call, call);
}
