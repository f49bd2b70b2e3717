/* Event files, as TensorBoard reads them: TFRecords of Event messages, the first of which says
 * "brain.Event:2". A file is named <prefix>.out.tfevents.<seconds>.<host><suffix>. When the file
 * was deleted in the meantime, a new one is started. Any thread may call; a lock orders the events.
 */
#ifndef DP_STORAGE_EVENTS_H
#define DP_STORAGE_EVENTS_H

#include "base/status.h"
#include "wire/event.pb-c.h"

typedef struct dp_events_writer dp_events_writer;
/* Opens the file at once. */
DP_MUST_USE dp_status *dp_events_writer_create(const char *prefix, const char *suffix,
                                               dp_events_writer **writer_out);
/* Flushes, closes and frees the writer, even when it returns an error. */
DP_MUST_USE dp_status *dp_events_writer_destroy(dp_events_writer *writer);
DP_MUST_USE dp_status *dp_events_writer_add(dp_events_writer *writer,
                                            const Tensorflow__Event *event);
/* As dp_events_writer_add, with a serialized Event. */
DP_MUST_USE dp_status *dp_events_writer_add_bytes(dp_events_writer *writer, const void *data,
                                                  size_t length);
/* Writes what is buffered and syncs the file. */
DP_MUST_USE dp_status *dp_events_writer_flush(dp_events_writer *writer);
const char *dp_events_writer_path(const dp_events_writer *writer);

#endif
