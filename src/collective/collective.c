/* Meetings of groups; the contract is in the header.
 *
 * One lock guards the table of meetings. A meeting is taken off the table by whoever ends it: the
 * last member, the time limit, or the last one that leaves; that one settles the timer and the
 * members' cancel callbacks, without the lock, and frees it. */
#include "collective/collective.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/map.h"
#include "base/memory.h"
#include "base/timer.h"

typedef struct meeting meeting;

/* A member that waits. */
typedef struct attendant {
  dp_collective_member member;
  dp_collectives *collectives;
  meeting *meeting; /* NULL once it is out; guarded by the lock */
  dp_cancel_token token;
} attendant;

typedef struct meeting_key {
  int64_t step_id;
  int32_t group_key, instance_key;
} meeting_key;

struct meeting {
  dp_collectives *collectives;
  meeting_key key;
  const char *kind;
  int32_t group_size;
  bool is_over; /* off the table */
  dp_timer timer;
  double timeout_seconds;
  DP_ARRAY(attendant *) present;
};

struct dp_collectives {
  char *task;
  int32_t devices;
  pthread_mutex_t lock;
  dp_map *meetings; /* by meeting_key */
};

dp_collectives *dp_collectives_create(const char *task, size_t devices) {
  dp_collectives *collectives = DP_NEW(dp_collectives);
  collectives->task = dp_strdup(task);
  collectives->devices = (int32_t)devices;
  collectives->meetings = dp_map_create();
  pthread_mutex_init(&collectives->lock, NULL);
  return collectives;
}

void dp_collectives_destroy(dp_collectives *collectives) {
  if (!collectives)
    return;
  dp_map_destroy(collectives->meetings);
  pthread_mutex_destroy(&collectives->lock);
  dp_free(collectives->task);
  dp_free(collectives);
}

/* ---- Ending ---- */
static void end_attendant(attendant *one, dp_status *status, const dp_tensor *result) {
  dp_tensor_deinit(&one->member.input);
  dp_cancel_release(one->member.cancel);
  one->member.done(one->member.arg, status, status ? NULL : result);
  dp_free(one);
}

/* With the lock held. */
static void take_off(meeting *meeting) {
  meeting->is_over = true;
  dp_map_remove_n(meeting->collectives->meetings, &meeting->key, sizeof(meeting->key));
  for (size_t i = 0; i < meeting->present.count; ++i)
    meeting->present.items[i]->meeting = NULL;
}

/* Without the lock, for a meeting that the caller took off: nobody else touches its members now. */
static void settle(meeting *meeting) {
  if (meeting->timer)
    dp_timer_cancel(meeting->timer);
  for (size_t i = 0; i < meeting->present.count; ++i) {
    attendant *one = meeting->present.items[i];
    if (one->member.cancel)
      dp_cancel_deregister(one->member.cancel, one->token);
  }
}

/* After settle. All end with `status` (consumed), or with the result. */
static void end_meeting(meeting *meeting, dp_status *status, const dp_tensor *result) {
  for (size_t i = 0; i < meeting->present.count; ++i)
    end_attendant(meeting->present.items[i], dp_status_retain(status), result);
  dp_status_release(status);
  DP_ARRAY_FREE(&meeting->present);
  dp_free(meeting);
}

static void on_timeout(void *arg) {
  meeting *meeting = arg;
  dp_collectives *collectives = meeting->collectives;
  pthread_mutex_lock(&collectives->lock);
  bool is_mine = !meeting->is_over;
  if (is_mine)
    take_off(meeting);
  pthread_mutex_unlock(&collectives->lock);
  if (!is_mine)
    return;
  meeting->timer = 0;
  settle(meeting);
  end_meeting(meeting,
              dp_status_create(DP_DEADLINE_EXCEEDED,
                               "Collective has timed out waiting for other workers: %zu of %d "
                               "members of group %d came to instance %d on %s in %g seconds",
                               meeting->present.count, meeting->group_size, meeting->key.group_key,
                               meeting->key.instance_key, collectives->task,
                               meeting->timeout_seconds),
              NULL);
}

static void leave(meeting *meeting, const attendant *one) {
  size_t at = 0;
  while (meeting->present.items[at] != one)
    ++at;
  meeting->present.items[at] = meeting->present.items[--meeting->present.count];
}

/* The attendant is still there: whoever ends it waits for this function first. */
static void on_cancel(void *arg, const dp_status *why) {
  attendant *one = arg;
  dp_collectives *collectives = one->collectives;
  pthread_mutex_lock(&collectives->lock);
  meeting *left = one->meeting, *empty = NULL;
  if (left) {
    leave(left, one);
    one->meeting = NULL;
    if (left->present.count == 0) {
      take_off(left);
      empty = left;
    }
  }
  pthread_mutex_unlock(&collectives->lock);
  if (empty) {
    settle(empty);
    end_meeting(empty, NULL, NULL);
  }
  if (left)
    end_attendant(one, dp_status_create(DP_CANCELLED, "%s", dp_status_message(why)), NULL);
}

/* ---- Coming ---- */
/* By length first: devices of one task differ only in the number at the end. */
static int compare_devices(const void *a, const void *b) {
  const char *x = (*(attendant *const *)a)->member.device;
  const char *y = (*(attendant *const *)b)->member.device;
  size_t length_x = strlen(x), length_y = strlen(y);
  if (length_x != length_y)
    return length_x < length_y ? -1 : 1;
  return strcmp(x, y);
}

/* The meeting is the caller's. */
static void hold(meeting *meeting, const dp_collective_member *last) {
  size_t count = meeting->present.count;
  dp_tensor result = {0}, *inputs = DP_NEW_ARRAY(dp_tensor, count);
  settle(meeting);
  qsort(meeting->present.items, count, sizeof(attendant *), compare_devices);
  for (size_t i = 0; i < count; ++i)
    inputs[i] = dp_tensor_take(&meeting->present.items[i]->member.input);
  dp_status *status = last->combine(last->arg, inputs, (int32_t)count, &result);
  for (size_t i = 0; i < count; ++i)
    dp_tensor_deinit(&inputs[i]);
  dp_free(inputs);
  end_meeting(meeting, status, &result);
  dp_tensor_deinit(&result);
}

static dp_status *check_member(const dp_collectives *collectives,
                               const dp_collective_member *member) {
  if (member->group_size <= 0)
    return DP_INVALID("group_size must be positive integer but got %d", member->group_size);
  if (member->group_size > collectives->devices)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "Collective group %d has %d members, but %s has %d devices: groups of "
                            "several tasks are not supported",
                            member->group_key, member->group_size, collectives->task,
                            collectives->devices);
  return NULL;
}

/* Whether the member fits those that are there. */
static dp_status *check_meeting(const meeting *meeting, const dp_collective_member *member) {
  if (meeting->group_size != member->group_size)
    return DP_INVALID("Device %s is joining group %d with size %d, but that group has size %d",
                      member->device, member->group_key, member->group_size, meeting->group_size);
  if (strcmp(meeting->kind, member->kind) != 0)
    return DP_INVALID("Device %s comes to instance %d of group %d for a %s, the others for a %s",
                      member->device, member->instance_key, member->group_key, member->kind,
                      meeting->kind);
  for (size_t i = 0; i < meeting->present.count; ++i)
    if (strcmp(meeting->present.items[i]->member.device, member->device) == 0)
      return DP_INVALID("Device %s comes twice to instance %d of group %d", member->device,
                        member->instance_key, member->group_key);
  return NULL;
}

/* With the lock held: the meeting, which is made when there is none. */
static meeting *find_meeting(dp_collectives *collectives, const dp_collective_member *member) {
  meeting_key key = {member->step_id, member->group_key, member->instance_key};
  meeting *found = dp_map_get_n(collectives->meetings, &key, sizeof(key));
  if (found)
    return found;
  found = DP_NEW(meeting);
  found->collectives = collectives;
  found->key = key;
  found->kind = member->kind;
  found->group_size = member->group_size;
  dp_map_put_n(collectives->meetings, &key, sizeof(key), found);
  if (member->timeout_seconds > 0) {
    found->timeout_seconds = member->timeout_seconds;
    int64_t at = dp_clock_nanos() + (int64_t)(member->timeout_seconds * 1e9);
    found->timer = dp_timer_start(at, on_timeout, found);
  }
  return found;
}

void dp_collectives_join(dp_collectives *collectives, dp_collective_member *member) {
  attendant *one = DP_NEW(attendant);
  one->member = *member;
  one->member.input = dp_tensor_take(&member->input);
  one->member.cancel = member->cancel ? dp_cancel_retain(member->cancel) : NULL;
  one->collectives = collectives;
  meeting *complete = NULL;
  pthread_mutex_lock(&collectives->lock);
  dp_status *status = check_member(collectives, member);
  if (!status && member->cancel && !dp_cancel_register(member->cancel, on_cancel, one, &one->token))
    status = dp_cancel_status(member->cancel);
  if (!status) {
    meeting *joined = find_meeting(collectives, member);
    status = check_meeting(joined, member);
    if (!status) {
      DP_ARRAY_PUSH(&joined->present, one);
      one->meeting = joined;
      if ((int32_t)joined->present.count == joined->group_size) {
        take_off(joined);
        complete = joined;
      }
    }
  }
  pthread_mutex_unlock(&collectives->lock);
  if (complete)
    hold(complete, member);
  if (!status)
    return;
  if (one->token)
    dp_cancel_deregister(one->member.cancel, one->token);
  end_attendant(one, status, NULL);
}
