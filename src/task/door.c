/* Doors, and the list of those that are open. See door.h.
 *
 * list_lock guards the list, which is read when a session is made. A call takes no lock: one atomic
 * word has the number of callers inside and a bit for "closed"; whoever leaves a closed door last
 * tells the one who closes it. */
#include "task/door.h"

#include <pthread.h>
#include <stdatomic.h>
#include "base/event.h"
#include "base/memory.h"
#include "base/refcount.h"

#define CLOSED (UINT64_C(1) << 63)

struct dp_door {
  dp_refcount references;
  dp_door *next; /* in the list; guarded by list_lock */
  char **addresses;
  size_t address_count;
  dp_task *task; /* not to be touched from outside once the door is closed */
  dp_cancel *life;
  _Atomic uint64_t state; /* callers inside, and CLOSED */
  dp_event empty;         /* closed, and nobody is inside */
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static dp_door *open_doors;

/* ---- The list ---- */

static void enlist(dp_door *door) {
  pthread_mutex_lock(&list_lock);
  door->next = open_doors;
  open_doors = door;
  pthread_mutex_unlock(&list_lock);
}

static void delist(dp_door *door) {
  pthread_mutex_lock(&list_lock);
  dp_door **at = &open_doors;
  while (*at && *at != door)
    at = &(*at)->next;
  if (*at)
    *at = door->next;
  pthread_mutex_unlock(&list_lock);
}

static bool has_address(const dp_door *door, const char *address) {
  for (size_t i = 0; i < door->address_count; i++) {
    if (strcmp(door->addresses[i], address) == 0)
      return true;
  }
  return false;
}

dp_door *dp_door_find(const char *address) {
  pthread_mutex_lock(&list_lock);
  dp_door *found = open_doors;
  while (found && !has_address(found, address))
    found = found->next;
  if (found)
    dp_door_retain(found);
  pthread_mutex_unlock(&list_lock);
  return found;
}

/* ---- Life ---- */

dp_door *dp_door_open(dp_task *task, const char *const *addresses, size_t count) {
  dp_door *door = DP_NEW(dp_door);
  dp_refcount_init(&door->references);
  door->task = task;
  door->life = dp_cancel_create(NULL, DP_FOREVER);
  dp_event_init(&door->empty);
  door->addresses = DP_NEW_ARRAY(char *, count + 1);
  for (size_t i = 0; i < count; i++)
    door->addresses[door->address_count++] = dp_strdup(addresses[i]);
  enlist(door);
  return door;
}

void dp_door_close(dp_door *door, int64_t deadline_nanos) {
  delist(door);
  if ((atomic_fetch_or(&door->state, CLOSED) & ~CLOSED) == 0)
    dp_event_notify(&door->empty);
  if (dp_event_wait_until(&door->empty, deadline_nanos))
    return;
  dp_cancel_trigger(door->life,
                    dp_status_create(DP_UNAVAILABLE, "%s is stopping", dp_task_name(door->task)));
  dp_event_wait(&door->empty);
}

dp_door *dp_door_retain(dp_door *door) {
  dp_refcount_retain(&door->references);
  return door;
}

void dp_door_release(dp_door *door) {
  if (!door || !dp_refcount_release(&door->references))
    return;
  for (size_t i = 0; i < door->address_count; i++)
    dp_free(door->addresses[i]);
  dp_free(door->addresses);
  dp_cancel_release(door->life);
  dp_event_deinit(&door->empty);
  dp_free(door);
}

/* ---- Callers ---- */

dp_task *dp_door_enter(dp_door *door) {
  if (!(atomic_fetch_add(&door->state, 1) & CLOSED))
    return door->task;
  dp_door_leave(door);
  return NULL;
}

void dp_door_leave(dp_door *door) {
  if (atomic_fetch_sub(&door->state, 1) == (CLOSED | 1))
    dp_event_notify(&door->empty);
}

dp_cancel *dp_door_life(dp_door *door) {
  return door->life;
}
