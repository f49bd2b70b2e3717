/* Syncs committed files in the background, so that their writers do not wait for the disk (file.h).
 * One thread takes the renamed files, which stay open until then, and syncs each file and then its
 * folder. When too many files wait, dp_settle_has_room is false and the writers sync their files
 * themselves. A mutex guards the state; any thread may call. */
#include <pthread.h>
#include "base/fault.h"
#include "base/log.h"
#include "base/thread.h"
#include "storage/file_internal.h"

/* Each waiting file holds a descriptor. */
enum { MOST_WAITING = 64 };

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  dp_pool *pool; /* one thread, started with the first file and never ended */
  size_t waiting;
  dp_status *failure; /* the first that has not been returned yet */
  bool is_strict;
} settle = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void dp_storage_sync_commits(bool before) {
  pthread_mutex_lock(&settle.mutex);
  settle.is_strict = before;
  pthread_mutex_unlock(&settle.mutex);
}

static dp_status *bring_to_disk(dp_file *file) {
  dp_status *status = dp_fault("storage.sync");
  if (!status)
    status = file->ops->settle(file);
  status = dp_status_annotate(status, "%s was saved, but did not reach the disk", file->final_path);
  dp_status_update(&status, dp_file_close(file));
  return status;
}

static void settle_file(void *arg) {
  dp_status *status = bring_to_disk(arg);
  if (status)
    DP_LOG(STORAGE, ERROR, "%s", dp_status_message(status));
  pthread_mutex_lock(&settle.mutex);
  dp_status_update(&settle.failure, status);
  --settle.waiting;
  pthread_cond_broadcast(&settle.changed);
  pthread_mutex_unlock(&settle.mutex);
}

bool dp_settle_has_room(void) {
  pthread_mutex_lock(&settle.mutex);
  bool has_room = !settle.is_strict && settle.waiting < MOST_WAITING;
  pthread_mutex_unlock(&settle.mutex);
  return has_room;
}

void dp_settle_later(dp_file *file) {
  pthread_mutex_lock(&settle.mutex);
  if (!settle.pool)
    settle.pool = dp_pool_create("settle", 1);
  ++settle.waiting;
  pthread_mutex_unlock(&settle.mutex);
  dp_pool_run(settle.pool, settle_file, file);
}

dp_status *dp_settle_take_failure(void) {
  pthread_mutex_lock(&settle.mutex);
  dp_status *failure = settle.failure;
  settle.failure = NULL;
  pthread_mutex_unlock(&settle.mutex);
  return failure;
}

dp_status *dp_storage_settle(void) {
  pthread_mutex_lock(&settle.mutex);
  while (settle.waiting > 0)
    pthread_cond_wait(&settle.changed, &settle.mutex);
  pthread_mutex_unlock(&settle.mutex);
  return dp_settle_take_failure();
}
