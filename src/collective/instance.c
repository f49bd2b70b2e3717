/* Instances, at the leader. Each member of a group says which kind of collective it runs, with
 * which dtype and shape; these must be the same for all. A reduction, gather or all-to-all is
 * answered after that check. A broadcast is answered when all members have come, because only then
 * the source is known.
 *
 * Members of ours send their step id, so that each step of a broadcast is an instance of its own.
 * Genuine TensorFlow tasks ask only once per key: when one of them is in the group, the first
 * answer stays valid. dp_collectives.lock guards all of this; waiters are answered with no lock
 * held. */
#include "collective/collective_internal.h"
#include "wire/shape_message.h"

struct instance_waiter {
  instance_waiter *next;
  dp_collectives *collectives;
  struct instance *instance; /* NULL when it is not on the list; guarded by the lock */
  dp_cancel *cancel;
  dp_cancel_token token;
  dp_collective_instance_fn done;
  void *arg;
};

typedef struct instance_key {
  int64_t tensorflow_step, running_step;
  int64_t key;
} instance_key;

typedef struct instance {
  collective_group *group; /* borrowed: the group owns the instance */
  instance_key key;
  dp_collective_kind kind;
  dp_dtype dtype;
  dp_shape shape;
  int64_t asked_in;    /* the step of the member that came first */
  int32_t source_rank; /* -1: not known yet */
  bool *is_known;      /* by rank: the member has come */
  int32_t known_count;
  instance_waiter *waiters;
} instance;

/* ---- Creating and destroying ---- */

static void free_instance(instance *one) {
  dp_free(one->is_known);
  dp_free(one);
}

/* There are no waiters: a waiter's caller holds a reference to the group. */
void dp_instances_destroy(collective_group *group) {
  const char *key;
  void *one;
  for (size_t at = 0; dp_map_next(group->instances, &at, &key, &one);)
    free_instance(one);
  for (size_t at = 0; dp_map_next(group->settled, &at, &key, &one);)
    dp_free(one);
  dp_map_destroy(group->instances);
  dp_map_destroy(group->settled);
}

static void free_waiter(instance_waiter *waiter) {
  dp_cancel_release(waiter->cancel);
  dp_free(waiter);
}

/* ---- The table; with the lock held ---- */

static instance *make_instance(collective_group *group, const instance_key *key,
                               const instance_request *request) {
  instance *one = DP_NEW(instance);
  one->group = group;
  one->key = *key;
  one->kind = request->kind;
  one->dtype = request->dtype;
  one->shape = request->shape;
  one->asked_in = request->running_step_id;
  one->source_rank = -1;
  one->is_known = DP_NEW_ARRAY(bool, (size_t)group->size);
  dp_map_put_n(group->instances, &one->key, sizeof(one->key), one);
  return one;
}

static void drop(instance *one) {
  dp_map_remove_n(one->group->instances, &one->key, sizeof(one->key));
  free_instance(one);
}

static bool is_alike(const instance *one, const instance_request *request) {
  return one->kind == request->kind && one->dtype == request->dtype &&
         dp_shape_equal(&one->shape, &request->shape);
}

/* Whether the instance is left over from another step, in which not all members came: nobody waits
 * for it, and it differs from the request. */
static bool is_old(const collective_group *group, const instance *one,
                   const instance_request *request, int32_t rank) {
  return !one->waiters && !is_alike(one, request) &&
         (one->is_known[rank] || (group->is_ours && one->asked_in != request->running_step_id));
}

/* The instance of the request; a new one when there is none or when it is old. */
static instance *choose(collective_group *group, const instance_request *request, int32_t rank) {
  bool is_broadcast = request->kind == DP_COLLECTIVE_BROADCAST;
  instance_key key = {request->step_id,
                      group->is_ours && is_broadcast ? request->running_step_id : 0, request->key};
  instance *found = dp_map_get_n(group->instances, &key, sizeof(key));
  if (found && is_old(group, found, request, rank)) {
    drop(found);
    found = NULL;
  }
  return found ? found : make_instance(group, &key, request);
}

static dp_status *check_alike(const instance *one, const instance_request *request) {
  if (one->kind != request->kind || one->dtype != request->dtype)
    return dp_status_create(DP_INTERNAL,
                            "Collective instance %d expected type %d and data_type %d but got type "
                            "%d and data_type %d",
                            request->key, one->kind, one->dtype, request->kind, request->dtype);
  if (dp_shape_equal(&one->shape, &request->shape))
    return NULL;
  dp_text wanted = {0};
  dp_shape_print(&request->shape, &wanted);
  dp_status *status = DP_INVALID(
      "Shape mismatch in the collective instance %d. Op at device %s expected shape %s but another "
      "member in the group expected shape %s. This is likely due to different input shapes at "
      "different members of the collective op.",
      request->key, request->device, dp_text_string(&wanted), dp_shape_text(&one->shape));
  dp_text_deinit(&wanted);
  return status;
}

static dp_status *note_member(instance *one, const instance_request *request, int32_t rank) {
  if (one->is_known[rank] && request->is_source == (one->source_rank == rank))
    return NULL;
  if (request->is_source && one->source_rank >= 0)
    return dp_status_create(DP_INTERNAL,
                            "Instance %d already has source %d, received second claim from %d",
                            request->key, one->source_rank, rank);
  if (request->is_source)
    one->source_rank = rank;
  one->known_count += !one->is_known[rank];
  one->is_known[rank] = true;
  if (one->kind == DP_COLLECTIVE_BROADCAST && one->known_count == one->group->size &&
      one->source_rank < 0)
    return dp_status_create(DP_INTERNAL,
                            "Instance %d found no source for broadcast.  This could mean that "
                            "there were group_size=%d BcastRecvs but no BcastSend.",
                            request->key, one->known_count);
  return NULL;
}

/* ---- Waiting ---- */

static instance_waiter *take_waiters(instance *one) {
  instance_waiter *all = one->waiters;
  one->waiters = NULL;
  for (instance_waiter *at = all; at; at = at->next)
    at->instance = NULL;
  return all;
}

/* Without the lock. Consumes `status`. */
static void answer_waiters(instance_waiter *all, dp_status *status, int32_t source_rank) {
  while (all) {
    instance_waiter *waiter = all;
    all = waiter->next;
    if (waiter->cancel)
      dp_cancel_deregister(waiter->cancel, waiter->token);
    waiter->done(waiter->arg, dp_status_retain(status), source_rank);
    free_waiter(waiter);
  }
  dp_status_release(status);
}

static dp_status *say_why(const instance *one, const dp_status *why) {
  if (dp_status_code(why) != DP_DEADLINE_EXCEEDED)
    return dp_status_retain(why);
  dp_text text = {0};
  for (int32_t i = 0; i < one->group->size; i++) {
    if (!one->is_known[i])
      dp_text_printf(&text, " %s", one->group->members.items[i].device);
  }
  dp_status *status =
      dp_status_create(DP_DEADLINE_EXCEEDED,
                       "Collective has timed out waiting for other workers: not at instance %d of "
                       "group %d:%s",
                       (int)one->key.key, one->group->key, dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

/* One member of a broadcast gives up. That ends the instance for all who wait; a member that comes
 * later begins a new one. */
static void on_cancel(void *arg, const dp_status *why) {
  instance_waiter *waiter = arg;
  instance_waiter *others = NULL;
  pthread_mutex_lock(&waiter->collectives->lock);
  instance *one = waiter->instance;
  dp_status *status = one ? say_why(one, why) : NULL;
  if (one) {
    instance_waiter **at = &one->waiters;
    while (*at != waiter)
      at = &(*at)->next;
    *at = waiter->next;
    others = take_waiters(one);
    drop(one);
  }
  pthread_mutex_unlock(&waiter->collectives->lock);
  if (!one)
    return;
  answer_waiters(
      others,
      dp_status_create(DP_ABORTED, "Collective ops is aborted by: %s", dp_status_message(status)),
      -1);
  waiter->done(waiter->arg, status, -1);
  free_waiter(waiter);
}

/* ---- Joining ---- */

static instance_waiter *make_waiter(dp_collectives *collectives, dp_cancel *cancel,
                                    dp_collective_instance_fn done, void *arg) {
  instance_waiter *waiter = DP_NEW(instance_waiter);
  waiter->collectives = collectives;
  waiter->cancel = cancel ? dp_cancel_retain(cancel) : NULL;
  waiter->done = done;
  waiter->arg = arg;
  return waiter;
}

static bool is_forgotten_when_known(const instance *one) {
  return one->kind != DP_COLLECTIVE_BROADCAST || one->key.running_step != 0;
}

/* With the lock held: adds the member to its instance. *ended_out are the waiters to be answered,
 * with *source_out and the returned status. */
static dp_status *enter(collective_group *group, const instance_request *request, int32_t rank,
                        instance_waiter *waiter, instance_waiter **ended_out, int32_t *source_out) {
  if (waiter->cancel && !dp_cancel_register(waiter->cancel, on_cancel, waiter, &waiter->token)) {
    *ended_out = waiter;
    return dp_cancel_status(waiter->cancel);
  }
  instance *one = choose(group, request, rank);
  dp_status *status = check_alike(one, request);
  if (!status)
    status = note_member(one, request, rank);
  waiter->next = one->waiters;
  waiter->instance = one;
  one->waiters = waiter;
  bool is_known = one->known_count == group->size;
  if (!status && one->kind == DP_COLLECTIVE_BROADCAST && !is_known)
    return NULL;
  *ended_out = take_waiters(one);
  *source_out = one->source_rank;
  if (status || (is_known && is_forgotten_when_known(one)))
    drop(one);
  return status;
}

void dp_instance_join(dp_collectives *collectives, collective_group *group,
                      const instance_request *request, dp_cancel *cancel,
                      dp_collective_instance_fn done, void *arg) {
  int32_t rank = dp_group_rank(group, request->device);
  if (rank < 0) {
    done(arg,
         dp_status_create(DP_INTERNAL, "Device %s is no member of group %d", request->device,
                          group->key),
         -1);
    return;
  }
  instance_waiter *waiter = make_waiter(collectives, cancel, done, arg), *ended = NULL;
  int32_t source_rank = -1;
  pthread_mutex_lock(&collectives->lock);
  dp_status *status = enter(group, request, rank, waiter, &ended, &source_rank);
  pthread_mutex_unlock(&collectives->lock);
  answer_waiters(ended, status, source_rank);
}

/* ---- Requests that a member need not repeat ---- */

typedef struct settled_key {
  int32_t instance, rank;
} settled_key;

typedef struct settled_instance {
  dp_collective_kind kind;
  dp_dtype dtype;
  dp_shape shape;
} settled_instance;

static settled_key key_of(const collective_group *group, const instance_request *request) {
  return (settled_key){request->key, dp_group_rank(group, request->device)};
}

bool dp_instance_is_settled(dp_collectives *collectives, collective_group *group,
                            const instance_request *request) {
  if (request->kind == DP_COLLECTIVE_BROADCAST)
    return false;
  settled_key key = key_of(group, request);
  pthread_mutex_lock(&collectives->lock);
  const settled_instance *one = dp_map_get_n(group->settled, &key, sizeof(key));
  bool is_settled = one && one->kind == request->kind && one->dtype == request->dtype &&
                    dp_shape_equal(&one->shape, &request->shape);
  pthread_mutex_unlock(&collectives->lock);
  return is_settled;
}

void dp_instance_settle(dp_collectives *collectives, collective_group *group,
                        const instance_request *request) {
  settled_instance *one = DP_NEW(settled_instance);
  *one = (settled_instance){request->kind, request->dtype, request->shape};
  settled_key key = key_of(group, request);
  pthread_mutex_lock(&collectives->lock);
  dp_free(dp_map_put_n(group->settled, &key, sizeof(key), one));
  pthread_mutex_unlock(&collectives->lock);
}

void dp_instance_unsettle(dp_collectives *collectives, collective_group *group, int32_t key,
                          int32_t rank) {
  settled_key settled = {key, rank};
  pthread_mutex_lock(&collectives->lock);
  dp_free(dp_map_remove_n(group->settled, &settled, sizeof(settled)));
  pthread_mutex_unlock(&collectives->lock);
}

/* ---- Calls from other tasks ---- */

typedef struct instance_call {
  collective_group *group;
  dp_collective_instance_fn done;
  void *arg;
} instance_call;

static void answer_call(void *arg, dp_status *status, int32_t source_rank) {
  instance_call *call = arg;
  call->done(call->arg, status, source_rank);
  dp_group_release(call->group);
  dp_free(call);
}

static dp_status *find_group(dp_collectives *collectives, int32_t key,
                             collective_group **group_out) {
  pthread_mutex_lock(&collectives->lock);
  collective_group *group = dp_map_get_n(collectives->groups, &key, sizeof(key));
  bool is_complete = group && group->is_complete;
  if (is_complete)
    dp_refcount_retain(&group->references);
  pthread_mutex_unlock(&collectives->lock);
  if (!is_complete)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "group %d %s. This normally means the server has restarted", key,
                            group ? "failed to resolve" : "not found");
  *group_out = group;
  return NULL;
}

static dp_status *read_request(const Tensorflow__CompleteInstanceRequest *message,
                               instance_request *request_out) {
  *request_out = (instance_request){.name = message->name,
                                    .kind = (dp_collective_kind)message->type,
                                    .dtype = (dp_dtype)message->data_type,
                                    .key = message->instance_key,
                                    .device = message->device,
                                    .is_source = message->is_source,
                                    .step_id = message->step_id,
                                    .running_step_id = message->running_step_id};
  return dp_wire_shape(message->shape, &request_out->shape);
}

void dp_collectives_complete_instance(dp_collectives *collectives,
                                      const Tensorflow__CompleteInstanceRequest *request,
                                      dp_cancel *cancel, dp_collective_instance_fn done,
                                      void *arg) {
  collective_group *group = NULL;
  instance_request join;
  dp_status *status = read_request(request, &join);
  if (!status)
    status = find_group(collectives, request->group_key, &group);
  if (status) {
    done(arg, status, -1);
    return;
  }
  instance_call *call = DP_NEW(instance_call);
  *call = (instance_call){group, done, arg};
  dp_instance_join(collectives, group, &join, cancel, answer_call, call);
}
