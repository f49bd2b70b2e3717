/* Files of all file systems. A path is plain ("/data/model") or has a scheme ("hdfs://host/model").
 * A table of functions serves each scheme; plain paths and file:// are the operating system's.
 *
 * A file that must be complete is made with dp_file_create_atomic: it is written under a temporary
 * name and renamed by dp_file_commit, so that a reader sees all of it or nothing, and a crash of
 * the process does not lose it. A thread then syncs it to the disk while its writer goes on; a
 * failure of that is logged at once and is returned by the next commit. dp_storage_sync_commits
 * changes this.
 *
 * Errors have TensorFlow's codes and the form "<path>; No such file or directory". Once roots are
 * set, every path must be under one of them; links and ".." are resolved first, as far as the path
 * exists. Many threads may read a dp_file, or write at offsets, at once; appends have one writer.
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
  DP_FILE_CREATE, /* empties an existing file */
  DP_FILE_APPEND, /* keeps the contents of an existing file */
} dp_file_mode;

typedef struct dp_file_information {
  uint64_t size;
  int64_t modified_nanos;
  uint64_t identity; /* changes when another file is renamed to the path; 0: not known */
  bool is_folder;
} dp_file_information;

typedef DP_ARRAY(char *) dp_name_list;
void dp_name_list_deinit(dp_name_list *list);

/* The functions of one scheme. `path` is what the user wrote, with the scheme. */
struct dp_file_system_ops {
  const char *scheme; /* "hdfs" */
  dp_status *(*open)(const char *path, dp_file_mode mode, dp_file **file_out);
  dp_status *(*information)(const char *path, dp_file_information *information_out);
  dp_status *(*list)(const char *path, dp_name_list *names); /* names without the folder */
  dp_status *(*make_folder)(const char *path);
  dp_status *(*remove)(const char *path);
  dp_status *(*remove_folder)(const char *path);
  dp_status *(*rename)(const char *from, const char *to); /* replaces `to` */
  /* See dp_file_read_small. When NULL, every file is opened. */
  dp_status *(*read_small)(const char *path, void *to, size_t *length_out, dp_file **file_out);
  /* Syncs the folder of `path`, so that a new name in it survives a power failure. May be NULL. */
  void (*sync_folder)(const char *path);
};

typedef struct dp_file_ops {
  /* Reads up to `length` bytes; fewer only at the end of the file. */
  dp_status *(*read)(dp_file *file, uint64_t offset, void *to, size_t length, size_t *read_out);
  dp_status *(*write)(dp_file *file, uint64_t offset, const void *data, size_t length);
  /* Tells the final size before writing; a hint. May be NULL. */
  void (*reserve)(dp_file *file, uint64_t size);
  /* See dp_file_set_direct. May be NULL. */
  bool (*set_direct)(dp_file *file);
  dp_status *(*resize)(dp_file *file, uint64_t size);
  dp_status *(*sync)(dp_file *file);
  dp_status *(*size)(dp_file *file, uint64_t *size_out);
  dp_status *(*close)(dp_file *file); /* frees the file, even when it returns an error */
  /* Syncs a renamed file and its folder; does nothing when the file was removed or replaced. When
   * NULL, files are synced and closed before they are renamed. */
  dp_status *(*settle)(dp_file *file);
} dp_file_ops;

/* The first member of the struct of every file system's files. */
struct dp_file {
  const dp_file_ops *ops;
  char *path;       /* the current path: of an atomic file the temporary one */
  char *final_path; /* of an atomic file; else NULL */
  uint64_t end;     /* where dp_file_append writes; the size of the file when it was opened */
};

/* Adds a scheme, at start-up; `ops` must live as long as the process. */
void dp_storage_register(const dp_file_system_ops *ops);
/* From now on only paths under these folders are allowed; with no folders, all paths are. The names
 * are copied. INVALID_ARGUMENT when a root does not exist. */
DP_MUST_USE dp_status *dp_storage_set_roots(const char *const *roots, size_t count);
/* Whether there are roots. */
bool dp_storage_has_roots(void);
/* PERMISSION_DENIED when the path is not under a root. */
DP_MUST_USE dp_status *dp_storage_check_path(const char *path);
/* With `before`, a commit syncs the file before it renames it. The writer waits for the disk then,
 * but after a power failure there is the old file or the new one. To be called at start-up. */
void dp_storage_sync_commits(bool before);
/* Waits until all committed files are synced. Returns the first failure that was not returned yet.
 */
DP_MUST_USE dp_status *dp_storage_settle(void);

/* ---- Files ---- */
DP_MUST_USE dp_status *dp_file_open(const char *path, dp_file_mode mode, dp_file **file_out);
/* A new file that appears under `path` only when dp_file_commit renames it. */
DP_MUST_USE dp_status *dp_file_create_atomic(const char *path, dp_file **file_out);
/* Renames the file to its final path; it is synced and closed before or after that (see above).
 * Consumes `file`, also on failure; then the temporary file is removed. */
DP_MUST_USE dp_status *dp_file_commit(dp_file *file);
/* Closes and removes an atomic file that is not to be committed. */
void dp_file_abandon(dp_file *file);
/* Closes; accepts NULL. */
DP_MUST_USE dp_status *dp_file_close(dp_file *file);
/* Closes and ignores errors: for files that were only read. */
void dp_file_discard(dp_file *file);

DP_MUST_USE dp_status *dp_file_read(dp_file *file, uint64_t offset, void *to, size_t length,
                                    size_t *read_out);
/* OUT_OF_RANGE when there are fewer than `length` bytes. */
DP_MUST_USE dp_status *dp_file_read_exact(dp_file *file, uint64_t offset, void *to, size_t length);
DP_MUST_USE dp_status *dp_file_write(dp_file *file, uint64_t offset, const void *data,
                                     size_t length);
DP_MUST_USE dp_status *dp_file_append(dp_file *file, const void *data, size_t length);
void dp_file_reserve(dp_file *file, uint64_t size);
/* Asks that writes bypass the page cache (O_DIRECT). When it returns true, offsets, lengths and
 * addresses of writes must be multiples of DP_FILE_DIRECT_ALIGNMENT from now on. */
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
DP_MUST_USE dp_status *dp_path_make_folder(const char *path); /* ALREADY_EXISTS when it exists */
/* With all parents; no error when it exists. */
DP_MUST_USE dp_status *dp_path_make_folders(const char *path);
DP_MUST_USE dp_status *dp_path_remove(const char *path);
DP_MUST_USE dp_status *dp_path_remove_folder(const char *path); /* must be empty */
DP_MUST_USE dp_status *dp_path_rename(const char *from, const char *to);
/* Paths that match a pattern with * ? [..] in any part, sorted; no match is no error. */
DP_MUST_USE dp_status *dp_path_match(const char *pattern, dp_name_list *paths);
/* "a/b" of "a/b/c", "/" of "/c", "" of "c"; malloc'd. */
char *dp_path_folder(const char *path);

/* ---- Whole files ---- */
/* Reads a small file with few system calls. When it is smaller than DP_FILE_SMALL_BYTES and in the
 * page cache, its contents are in `to`, which has room for DP_FILE_SMALL_BYTES, and *file_out is
 * NULL. Any other file is opened for reading. */
#define DP_FILE_SMALL_BYTES ((size_t)4096)
DP_MUST_USE dp_status *dp_file_read_small(const char *path, void *to, size_t *length_out,
                                          dp_file **file_out);
/* Reads a file into malloc'd memory, followed by a NUL. RESOURCE_EXHAUSTED when it has more than
 * `limit` bytes. */
DP_MUST_USE dp_status *dp_file_read_whole(const char *path, uint64_t limit, char **data_out,
                                          size_t *length_out);
/* Writes an atomic file and commits it. */
DP_MUST_USE dp_status *dp_file_write_whole(const char *path, const void *data, size_t length);

#endif
