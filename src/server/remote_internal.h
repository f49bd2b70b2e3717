/* A worker on the other side of the network, for the files that make it up: remote_worker.c calls
 * it, remote_reach.c waits for it, remote_pulse.c hears whether it is alive.
 *
 * Its owner and every call under way hold a reference. Its channel holds it as well, because the
 * channel's pulse tells it what it hears: without references it lets go of the channel, and goes
 * when the channel has let go of it. */
#ifndef DP_SERVER_REMOTE_INTERNAL_H
#define DP_SERVER_REMOTE_INTERNAL_H

#include <pthread.h>
#include "base/refcount.h"
#include "rpc/client.h"
#include "server/liveness_internal.h"
#include "worker/worker.h"

struct dp_remote_worker {
  dp_worker_peer peer; /* first: the peer is the remote worker */
  dp_refcount references;
  dp_rpc_channel *channel;
  char *task;
  dp_cancel *life;
  bool answers_to_any_name; /* it was started under another name than the client's cluster gives */
  dp_liveness *liveness;    /* is told what becomes of it */
  const void *table;        /* the same for all tasks of a cluster; never looked into */
  dp_remote_worker *next, *previous; /* in the list of the liveness */
  pthread_mutex_t lock;              /* guards what follows */
  uint64_t incarnation;              /* of its first device when it last answered; 0: never */
  char *other_task;                  /* who answers at its address instead; NULL: nobody else */
};
typedef dp_remote_worker remote_worker;

remote_worker *dp_remote_worker_retain(remote_worker *worker);
void dp_remote_worker_release(remote_worker *worker);
/* Retains it unless its last reference is gone already. */
bool dp_remote_worker_hold(remote_worker *worker);

/* Asks the task for its status until it answers: a task that is not there yet, or another one at
 * its address, is asked again and again. `done` gets the answer, or DEADLINE_EXCEEDED with the name
 * of the task and the reason, or UNAVAILABLE when the task was there once and is gone, or why
 * `cancel` was triggered. Without a deadline it gives up after half an hour. */
void dp_remote_reach(remote_worker *worker, int64_t deadline, dp_cancel *cancel,
                     dp_rpc_done_fn done, void *arg);
/* Whether the last attempt to connect failed. */
bool dp_remote_is_down(remote_worker *worker);

/* ---- remote_pulse.c ---- */
/* How the channel asks the worker; its argument is the worker. */
dp_rpc_pulse dp_remote_pulse(remote_worker *worker);
/* Keeps who answers; true when it is the task that was meant. A message that cannot be read counts
 * as meant: whoever asked reads it again and sees what is wrong with it. */
bool dp_remote_note_answer(remote_worker *worker, const dp_rope *response);
/* UNAVAILABLE: "TASK (address) is gone: silent for 10.2 s (reason); TASK and 2 others answer". */
dp_status *dp_remote_say_gone(remote_worker *worker, int64_t silent_nanos);

#endif
