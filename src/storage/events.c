/* Event files (events.h): a record writer over one open file. Every call takes the writer's lock.
 * Each flush checks afterwards that the file still has its name, because users delete log folders
 * while a job runs. When it was deleted, its events are lost and a new file is begun. */
#include "storage/events.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "storage/record.h"
#include "wire/control.h"

struct dp_events_writer {
  pthread_mutex_t lock;
  char *prefix, *suffix, *path;
  dp_file *file;
  dp_record_writer *records;
  int64_t outstanding; /* since the last flush */
};

/* ---- With the lock held ---- */
static dp_status *add_bytes(dp_events_writer *writer, const void *data, size_t length) {
  DP_RETURN_IF_ERROR(dp_record_writer_add(writer->records, data, length));
  ++writer->outstanding;
  return NULL;
}

static dp_status *add_event(dp_events_writer *writer, const Tensorflow__Event *event) {
  dp_arena *arena = dp_arena_create();
  uint8_t *data;
  size_t length;
  dp_status *status = dp_wire_pack_bytes(event, arena, &data, &length);
  if (!status)
    status = add_bytes(writer, data, length);
  dp_arena_destroy(arena);
  return status;
}

static dp_status *flush(dp_events_writer *writer) {
  if (writer->outstanding == 0)
    return NULL;
  DP_RETURN_IF_ERROR(dp_record_writer_flush(writer->records));
  DP_RETURN_IF_ERROR(dp_file_sync(writer->file));
  writer->outstanding = 0;
  return NULL;
}

static dp_status *close_file(dp_events_writer *writer) {
  dp_status *status = NULL;
  if (writer->records)
    status = dp_record_writer_finish(writer->records);
  dp_status_update(&status, dp_file_close(writer->file));
  writer->records = NULL;
  writer->file = NULL;
  return status;
}

static dp_status *open_file(dp_events_writer *writer) {
  int64_t seconds = dp_clock_wall_nanos() / 1000000000;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  dp_text path = {0};
  dp_text_printf(&path, "%s.out.tfevents.%010lld.%s%s", writer->prefix, (long long)seconds, host,
                 writer->suffix);
  dp_free(writer->path);
  writer->path = dp_text_take(&path);
  dp_status *status = dp_file_open(writer->path, DP_FILE_CREATE, &writer->file);
  if (status)
    return dp_status_annotate(status, "Creating writable file %s", writer->path);
  DP_RETURN_IF_ERROR(dp_record_writer_create(writer->file, DP_COMPRESSION_NONE, &writer->records));
  Tensorflow__Event event = TENSORFLOW__EVENT__INIT;
  event.wall_time = (double)seconds;
  event.what_case = TENSORFLOW__EVENT__WHAT_FILE_VERSION;
  event.file_version = "brain.Event:2";
  DP_RETURN_IF_ERROR(add_event(writer, &event));
  return flush(writer);
}

/* Begins a new file when there is none or when it was deleted. */
static dp_status *make_sure(dp_events_writer *writer) {
  if (writer->file && dp_path_exists(writer->path))
    return NULL;
  if (writer->file && writer->outstanding > 0)
    DP_LOG(STORAGE, WARN, "events file %s has disappeared, %lld events are lost", writer->path,
           (long long)writer->outstanding);
  dp_status_release(close_file(writer));
  return open_file(writer);
}

/* ---- Public functions, which take the lock ---- */
dp_status *dp_events_writer_create(const char *prefix, const char *suffix,
                                   dp_events_writer **writer_out) {
  dp_events_writer *writer = DP_NEW(dp_events_writer);
  pthread_mutex_init(&writer->lock, NULL);
  writer->prefix = dp_strdup(prefix);
  writer->suffix = dp_strdup(suffix);
  dp_status *status = open_file(writer);
  if (status) {
    dp_status_release(dp_events_writer_destroy(writer));
    return status;
  }
  *writer_out = writer;
  return NULL;
}

dp_status *dp_events_writer_destroy(dp_events_writer *writer) {
  dp_status *status = writer->records ? flush(writer) : NULL;
  dp_status_update(&status, close_file(writer));
  pthread_mutex_destroy(&writer->lock);
  dp_free(writer->prefix);
  dp_free(writer->suffix);
  dp_free(writer->path);
  dp_free(writer);
  return status;
}

dp_status *dp_events_writer_add_bytes(dp_events_writer *writer, const void *data, size_t length) {
  pthread_mutex_lock(&writer->lock);
  dp_status *status = writer->file ? NULL : open_file(writer);
  if (!status)
    status = add_bytes(writer, data, length);
  pthread_mutex_unlock(&writer->lock);
  return status;
}

dp_status *dp_events_writer_add(dp_events_writer *writer, const Tensorflow__Event *event) {
  pthread_mutex_lock(&writer->lock);
  dp_status *status = writer->file ? NULL : open_file(writer);
  if (!status)
    status = add_event(writer, event);
  pthread_mutex_unlock(&writer->lock);
  return status;
}

dp_status *dp_events_writer_flush(dp_events_writer *writer) {
  pthread_mutex_lock(&writer->lock);
  dp_status *status = flush(writer);
  if (!status)
    status = make_sure(writer);
  pthread_mutex_unlock(&writer->lock);
  return status;
}

const char *dp_events_writer_path(const dp_events_writer *writer) {
  return writer->path;
}
