/* A worker on the other side of the network, for the two files that make it up: remote_worker.c
 * calls it, remote_reach.c finds out whether it is there, and if not, why.
 *
 * Its owner and every call under way hold a reference. */
#ifndef DP_SERVER_REMOTE_INTERNAL_H
#define DP_SERVER_REMOTE_INTERNAL_H

#include <pthread.h>
#include "base/refcount.h"
#include "rpc/client.h"
#include "worker/worker.h"

typedef struct remote_worker {
  dp_worker_peer peer; /* first: the peer is the remote worker */
  dp_refcount references;
  dp_rpc_channel *channel;
  char *task;
  dp_cancel *life;
  bool answers_to_any_name; /* it was started under another name than the client's cluster gives */
  pthread_mutex_t lock;     /* guards what follows */
  uint64_t incarnation;     /* of its first device when it last answered; 0: never */
  char *other_task;         /* who answers at its address instead; NULL: nobody else */
} remote_worker;

remote_worker *dp_remote_worker_retain(remote_worker *worker);
void dp_remote_worker_release(remote_worker *worker);

/* Asks the task for its status until it answers: a task that is not there yet, or another one at
 * its address, is asked again and again. `done` gets the answer, or DEADLINE_EXCEEDED with the name
 * of the task and the reason, or why `cancel` was triggered. */
void dp_remote_reach(remote_worker *worker, int64_t deadline, dp_cancel *cancel,
                     dp_rpc_done_fn done, void *arg);
/* Whether the last attempt to connect failed. */
bool dp_remote_is_down(remote_worker *worker);

#endif
