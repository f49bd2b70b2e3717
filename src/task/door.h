/* A door: how clients in the same process reach the task of a server, by calls instead of over the
 * network.
 *
 * A server opens a door when it starts, under every address that means it, and closes it when it
 * stops. A client looks for a door by the address of its target and, for each call, enters, calls
 * the master and leaves. Doors are reference-counted and outlive their task, so that a session may
 * outlive the server: a closed door lets nobody in. All functions may be called from any thread. */
#ifndef DP_TASK_DOOR_H
#define DP_TASK_DOOR_H

#include "task/task.h"

typedef struct dp_door dp_door;

/* `addresses` ("host:port") are copied. The task must stay until the door is closed; the caller has
 * one reference. */
dp_door *dp_door_open(dp_task *task, const char *const *addresses, size_t count);
/* Takes the door off the list and lets nobody in any more. Calls under way may end until the
 * deadline, then they are cancelled with UNAVAILABLE; returns when the last caller has left. May be
 * called again. */
void dp_door_close(dp_door *door, int64_t deadline_nanos);
dp_door *dp_door_retain(dp_door *door);
void dp_door_release(dp_door *door); /* accepts NULL */

/* The open door of that address, retained; NULL when no server of this process has it. */
dp_door *dp_door_find(const char *address);

/* The task, which stays until dp_door_leave; NULL when the door is closed. */
dp_task *dp_door_enter(dp_door *door);
void dp_door_leave(dp_door *door);
/* Parent of the callers' scopes: cancelled when the server can wait no longer. Borrowed. */
dp_cancel *dp_door_life(dp_door *door);

#endif
