/* Readers: objects that take names of files from a queue and give the files' records, one key and
 * one value at a time. They outlive steps. One run at a time uses a reader; other runs wait in a
 * line.
 *
 * A run holds no thread while it waits for its turn or for the queue. Files are read on the
 * blocking pool. */
#ifndef DP_KERNELS_QUEUES_READER_INTERNAL_H
#define DP_KERNELS_QUEUES_READER_INTERNAL_H

#include "kernels/queues/queue_internal.h"
#include "runtime/kernel.h"
#include "storage/record.h"

typedef enum dp_reader_kind {
  DP_READER_LINES,
  DP_READER_FIXED, /* records of one length */
  DP_READER_IDENTITY,
  DP_READER_RECORDS, /* TFRecord */
  DP_READER_WHOLE,
} dp_reader_kind;

typedef struct dp_reader_options {
  dp_reader_kind kind;
  const char *op;     /* for error messages; belongs to the op's definition */
  int64_t skip_lines; /* LINES */
  int64_t header, record, footer;
  int64_t hop; /* FIXED: bytes from the beginning of a record to the beginning of the next */
  dp_compression compression;
} dp_reader_options;

/* The unit of work that is being read: a file, or for IDENTITY only its name. */
typedef struct dp_reader_file {
  dp_text work;
  dp_input_stream *stream;
  dp_record_reader *records;
  dp_status *damage; /* RECORDS: the error of the last record; NULL: none */
  dp_text ahead;     /* FIXED: bytes read but not given yet */
  int64_t number;    /* number of the last line, or of the next record */
} dp_reader_file;

/* ---- reader_files.c: one file ---- */
/* Opens the file that `file->work` names. */
DP_MUST_USE dp_status *dp_reader_open(const dp_reader_options *options, dp_reader_file *file);
/* The next record; *found_out is false at the end. Key and value are initialized strings. */
DP_MUST_USE dp_status *dp_reader_next(const dp_reader_options *options, dp_reader_file *file,
                                      dp_tstring *key, dp_tstring *value, bool *found_out);
/* Whether a unit of work has a single record. */
bool dp_reader_is_single(const dp_reader_options *options);
void dp_reader_close(dp_reader_file *file);

/* ---- reader.c: the object ---- */
typedef struct dp_reader {
  dp_resource resource;
  char *name;
  dp_reader_options options;
  dp_pool *
      blocking; /* borrowed, lives as long as the process; NULL: runs stay on the caller's thread */
  pthread_mutex_t lock; /* guards is_busy, the line and the counters */
  bool is_busy;
  dp_waiters line;
  int64_t started, finished, produced;
  dp_reader_file file; /* used only by the run that has the reader */
} dp_reader;

extern const dp_resource_ops dp_reader_ops; /* "N10tensorflow15ReaderInterfaceE" */
dp_reader *dp_reader_create(const char *name, const dp_reader_options *options, dp_pool *blocking);

typedef struct dp_reader_run dp_reader_run;
typedef DP_ARRAY(dp_tstring) dp_string_list;

/* One use of a reader by a node. */
struct dp_reader_run {
  dp_waiter waiter; /* must be first */
  dp_reader *reader;
  dp_queue *queue; /* gives the units of work; NULL for runs that do not read */
  dp_cancel *cancel;
  /* Called on the blocking pool when this run has the reader. */
  void (*body)(dp_reader_run *run);
  /* Called exactly once, with no lock held; the callee frees the run. */
  void (*done)(dp_reader_run *run, dp_status *status);
  void *arg;
  int64_t wanted; /* records to read at most */
  dp_string_list keys, values;
};

/* Waits for the reader, then calls run->body, which must end with dp_reader_leave. */
void dp_reader_enter(dp_reader_run *run);
/* Gives the reader to the next run and calls run->done. Consumes `status`. */
void dp_reader_leave(dp_reader_run *run, dp_status *status);
/* A body: reads up to `wanted` records of one unit of work, at least one. */
void dp_reader_read(dp_reader_run *run);

/* The functions below are called by the run that has the reader. */
void dp_reader_reset(dp_reader *reader);
/* Saves a ReaderBaseState. UNIMPLEMENTED for kinds that can be in the middle of a file. */
DP_MUST_USE dp_status *dp_reader_save(const dp_reader *reader, dp_text *state);
/* Restores a saved state. On failure the reader is reset. */
DP_MUST_USE dp_status *dp_reader_restore(dp_reader *reader, dp_view state);

#endif
