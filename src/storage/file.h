/* Files, wherever they are. A path is plain ("/data/model") or has a scheme ("hdfs://host/model");
 * each scheme is served by a table of functions, plain paths and file:// by the operating system's.
 *
 * What is written to last goes to a temporary name first and is renamed (dp_file_create_atomic): a
 * reader sees all of it or nothing, and it outlives this process. A thread then brings it to the
 * disk, so that nobody waits for that; a failure is logged at once and is the answer to the next
 * commit. Errors carry TensorFlow's codes and
 * the form "<path>; No such file or directory". Once roots are set, every path must lie under one
 * of them, links and ".." resolved.
 * A dp_file may be read (and written at offsets) by many threads at once; appends have one writer.
 * Fault points: storage.open, storage.read, storage.write, storage.sync, storage.rename. */
#ifndef DP_STORAGE_FILE_H
#define DP_STORAGE_FILE_H

#include <stdint.h>
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"

typedef struct dp_file dp_file;
typedef struct dp_file_system_ops dp_file_system_ops;

typedef enum dp_file_mode {
  DP_FILE_READ,
  DP_FILE_CREATE, /* empties what is there */
  DP_FILE_APPEND, /* keeps what is there */
} dp_file_mode;

typedef struct dp_file_information {
  uint64_t size;
  int64_t modified_nanos;
  uint64_t identity; /* another one after a rename onto the path; 0: not known */
  bool is_folder;
} dp_file_information;

typedef DP_ARRAY(char *) dp_name_list;
void dp_name_list_deinit(dp_name_list *list);

/* One scheme. `path` is what the user wrote, scheme included. */
struct dp_file_system_ops {
  const char *scheme; /* "hdfs" */
  dp_status *(*open)(const char *path, dp_file_mode mode, dp_file **file_out);
  dp_status *(*information)(const char *path, dp_file_information *information_out);
  dp_status *(*list)(const char *path, dp_name_list *names); /* names without the folder */
  dp_status *(*make_folder)(const char *path);
  dp_status *(*remove)(const char *path);
  dp_status *(*remove_folder)(const char *path);
  dp_status *(*rename)(const char *from, const char *to); /* replaces `to` */
  /* See dp_file_read_small. NULL: every file is opened. */
  dp_status *(*read_small)(const char *path, void *to, size_t *length_out, dp_file **file_out);
  /* Makes the new name in the folder of `path` last. May be NULL. */
  void (*sync_folder)(const char *path);
};

typedef struct dp_file_ops {
  /* Up to `length` bytes; less only at the end of the file. */
  dp_status *(*read)(dp_file *file, uint64_t offset, void *to, size_t length, size_t *read_out);
  dp_status *(*write)(dp_file *file, uint64_t offset, const void *data, size_t length);
  /* Tells the final size before writing; a hint. May be NULL. */
  void (*reserve)(dp_file *file, uint64_t size);
  /* See dp_file_set_direct. May be NULL. */
  bool (*set_direct)(dp_file *file);
  dp_status *(*resize)(dp_file *file, uint64_t size);
  dp_status *(*sync)(dp_file *file);
  dp_status *(*size)(dp_file *file, uint64_t *size_out);
  dp_status *(*close)(dp_file *file); /* frees it, whatever it returns */
  /* Brings a file that has got its name, and the name, to the disk, unless it has been replaced.
   * NULL: files must be synced and closed before they are renamed. */
  dp_status *(*settle)(dp_file *file);
} dp_file_ops;

/* What every file begins with. */
struct dp_file {
  const dp_file_ops *ops;
  char *path;       /* where it is now: the temporary name of an atomic file */
  char *final_path; /* of an atomic file; else NULL */
  uint64_t end;     /* where it ended when it was opened, and where dp_file_append goes on */
};

/* Adds a scheme; `ops` must live for ever. At start-up. */
void dp_storage_register(const dp_file_system_ops *ops);
/* From now on only paths under these folders (copied); none: everything is allowed.
 * INVALID_ARGUMENT when a root is not a folder. */
DP_MUST_USE dp_status *dp_storage_set_roots(const char *const *roots, size_t count);
/* Whether there are such folders. */
bool dp_storage_has_roots(void);
/* PERMISSION_DENIED when the path leaves the roots. */
DP_MUST_USE dp_status *dp_storage_check_path(const char *path);
/* Whether a commit waits until the disk has the file, which costs what the disk costs and lets a
 * file replace another one even when the machine loses its power. At start-up. */
void dp_storage_sync_commits(bool before);
/* Waits until the disk has all that was committed. */
DP_MUST_USE dp_status *dp_storage_settle(void);

/* ---- Files ---- */
DP_MUST_USE dp_status *dp_file_open(const char *path, dp_file_mode mode, dp_file **file_out);
/* A new file that appears under `path` only with dp_file_commit. */
DP_MUST_USE dp_status *dp_file_create_atomic(const char *path, dp_file **file_out);
/* Closes and renames; see above for the sync. The file is gone afterwards in any case; on failure
 * no trace is left. */
DP_MUST_USE dp_status *dp_file_commit(dp_file *file);
/* Closes and removes an atomic file that is not to be. */
void dp_file_abandon(dp_file *file);
/* Closes; accepts NULL. */
DP_MUST_USE dp_status *dp_file_close(dp_file *file);
/* For readers, whose close cannot lose anything. */
void dp_file_discard(dp_file *file);

DP_MUST_USE dp_status *dp_file_read(dp_file *file, uint64_t offset, void *to, size_t length,
                                    size_t *read_out);
/* OUT_OF_RANGE when there are fewer than `length` bytes. */
DP_MUST_USE dp_status *dp_file_read_exact(dp_file *file, uint64_t offset, void *to, size_t length);
DP_MUST_USE dp_status *dp_file_write(dp_file *file, uint64_t offset, const void *data,
                                     size_t length);
DP_MUST_USE dp_status *dp_file_append(dp_file *file, const void *data, size_t length);
void dp_file_reserve(dp_file *file, uint64_t size);
/* Asks that writes go to the disk past the system's cache: from now on offsets, lengths and
 * addresses must be multiples of DP_FILE_DIRECT_ALIGNMENT. False when that is not to be had. */
#define DP_FILE_DIRECT_ALIGNMENT 4096
bool dp_file_set_direct(dp_file *file);
DP_MUST_USE dp_status *dp_file_resize(dp_file *file, uint64_t size);
DP_MUST_USE dp_status *dp_file_sync(dp_file *file);
DP_MUST_USE dp_status *dp_file_size(dp_file *file, uint64_t *size_out);

/* ---- Paths ---- */
DP_MUST_USE dp_status *dp_path_information(const char *path, dp_file_information *information_out);
bool dp_path_exists(const char *path);
/* Names in a folder, sorted. */
DP_MUST_USE dp_status *dp_path_list(const char *path, dp_name_list *names);
DP_MUST_USE dp_status *dp_path_make_folder(const char *path); /* ALREADY_EXISTS when there */
/* With all parents; fine when there. */
DP_MUST_USE dp_status *dp_path_make_folders(const char *path);
DP_MUST_USE dp_status *dp_path_remove(const char *path);
DP_MUST_USE dp_status *dp_path_remove_folder(const char *path); /* must be empty */
DP_MUST_USE dp_status *dp_path_rename(const char *from, const char *to);
/* Paths that match a pattern with * ? [..] in any part, sorted; none is no error. */
DP_MUST_USE dp_status *dp_path_match(const char *pattern, dp_name_list *paths);
/* "a/b" of "a/b/c", "/" of "/c", "" of "c"; malloc'd. */
char *dp_path_folder(const char *path);

/* ---- Whole files ---- */
/* With the fewest calls: a file that is small and at hand goes to `to`, which has room for
 * DP_FILE_SMALL_BYTES, and *file_out is NULL. Any other file is opened for reading. */
#define DP_FILE_SMALL_BYTES ((size_t)4096)
DP_MUST_USE dp_status *dp_file_read_small(const char *path, void *to, size_t *length_out,
                                          dp_file **file_out);
/* Into malloc'd memory with a NUL behind. RESOURCE_EXHAUSTED beyond `limit`. */
DP_MUST_USE dp_status *dp_file_read_whole(const char *path, uint64_t limit, char **data_out,
                                          size_t *length_out);
/* Atomically. */
DP_MUST_USE dp_status *dp_file_write_whole(const char *path, const void *data, size_t length);

#endif
