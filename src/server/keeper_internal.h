/* Who is still there? A task looks after the tasks that its sessions depend on: the sessions of a
 * master that died are dropped, because nobody will close them; and a server that was told to leave
 * when the job is done (--exit-when-done) leaves. */
#ifndef DP_SERVER_KEEPER_INTERNAL_H
#define DP_SERVER_KEEPER_INTERNAL_H

#include "server/links_internal.h"
#include "worker/worker.h"

typedef struct dp_keeper dp_keeper;

typedef struct dp_keeper_options {
  const char *task; /* this one */
  dp_links *links;  /* as all of this, outlives the keeper */
  dp_worker *worker;
  dp_pool *blocking;
  int64_t grace_nanos;      /* whoever was silent for that long is gone */
  void (*leave)(void *arg); /* called once, when every session has closed and no task of another job
                               was alive for the grace time; NULL: stay for ever */
  void *leave_arg;
} dp_keeper_options;

dp_keeper *dp_keeper_create(const dp_keeper_options *options);
/* Waits for questions that are under way. */
void dp_keeper_destroy(dp_keeper *keeper);

#endif
