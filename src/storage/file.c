/* The functions of file.h that are common to all file systems: they find the table of functions for
 * a path, check that it is under the roots, and write files that appear only when complete. The
 * roots and the list of schemes are set at start-up; a read-write lock guards them. Any thread may
 * call. */
#include "storage/file.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/philox.h"
#include "storage/file_internal.h"

#define MAX_SCHEMES 8
static struct {
  pthread_rwlock_t lock;
  const dp_file_system_ops *schemes[MAX_SCHEMES];
  size_t scheme_count;
  dp_name_list roots;
} storage = {.lock = PTHREAD_RWLOCK_INITIALIZER};

void dp_storage_register(const dp_file_system_ops *ops) {
  pthread_rwlock_wrlock(&storage.lock);
  if (storage.scheme_count < MAX_SCHEMES)
    storage.schemes[storage.scheme_count++] = ops;
  pthread_rwlock_unlock(&storage.lock);
}

void dp_name_list_deinit(dp_name_list *list) {
  for (size_t i = 0; i < list->count; ++i)
    dp_free(list->items[i]);
  DP_ARRAY_FREE(list);
}

/* ---- Roots ---- */
dp_status *dp_storage_set_roots(const char *const *roots, size_t count) {
  dp_name_list resolved = {0};
  for (size_t i = 0; i < count; ++i) {
    if (strstr(roots[i], "://") && strncmp(roots[i], "file://", 7) != 0) {
      DP_ARRAY_PUSH(&resolved, dp_strdup(roots[i]));
      continue;
    }
    char *real = realpath(dp_posix_path(roots[i]), NULL);
    if (!real) {
      dp_name_list_deinit(&resolved);
      return DP_INVALID("file root %s is not a folder that can be reached", roots[i]);
    }
    DP_ARRAY_PUSH(&resolved, dp_strdup(real));
    free(real);
  }
  pthread_rwlock_wrlock(&storage.lock);
  dp_name_list old = storage.roots;
  storage.roots = resolved;
  pthread_rwlock_unlock(&storage.lock);
  dp_name_list_deinit(&old);
  return NULL;
}

bool dp_storage_has_roots(void) {
  pthread_rwlock_rdlock(&storage.lock);
  bool has_roots = storage.roots.count > 0;
  pthread_rwlock_unlock(&storage.lock);
  return has_roots;
}

/* The path with links resolved as far as it exists; the rest, which does not exist yet, is appended
 * unchanged. NULL when the rest has a ".." in it, whose meaning is not known. */
static char *resolve(const char *path) {
  char *head = path[0] ? dp_strdup(path) : dp_strdup(".");
  dp_text rest = {0};
  char *real;
  while (!(real = realpath(head, NULL))) {
    char *slash = strrchr(head, '/');
    const char *last = slash ? slash + 1 : head;
    dp_text joined = {0};
    dp_text_printf(&joined, "/%s%s", last, dp_text_string(&rest));
    bool is_parent = strcmp(last, "..") == 0;
    dp_text_deinit(&rest);
    rest = joined;
    if (is_parent || strlen(head) > PATH_MAX) {
      dp_free(head);
      dp_text_deinit(&rest);
      return NULL;
    }
    if (!slash) {
      dp_free(head);
      head = dp_strdup(".");
    } else {
      slash[slash == head ? 1 : 0] = '\0';
    }
  }
  dp_text whole = {0};
  dp_text_add(&whole, real);
  dp_text_add(&whole, dp_text_string(&rest));
  free(real);
  dp_free(head);
  dp_text_deinit(&rest);
  return dp_text_take(&whole);
}

static bool lies_under(const char *path, const char *root) {
  size_t length = strlen(root);
  while (length > 0 && root[length - 1] == '/')
    --length;
  return strncmp(path, root, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

dp_status *dp_storage_check_path(const char *path) {
  pthread_rwlock_rdlock(&storage.lock);
  bool is_fine = storage.roots.count == 0;
  if (!is_fine) {
    bool is_remote = strstr(path, "://") && strncmp(path, "file://", 7) != 0;
    char *real =
        is_remote ? (strstr(path, "..") ? NULL : dp_strdup(path)) : resolve(dp_posix_path(path));
    for (size_t i = 0; real && !is_fine && i < storage.roots.count; ++i)
      is_fine = lies_under(real, storage.roots.items[i]);
    dp_free(real);
  }
  pthread_rwlock_unlock(&storage.lock);
  if (!is_fine)
    return dp_status_create(DP_PERMISSION_DENIED,
                            "%s is outside of the folders that this server may use", path);
  return NULL;
}

dp_status *dp_file_system_of(const char *path, const dp_file_system_ops **ops_out) {
  DP_RETURN_IF_ERROR(dp_storage_check_path(path));
  const char *mark = strstr(path, "://");
  if (!mark || strncmp(path, "file://", 7) == 0) {
    *ops_out = &dp_posix_file_system;
    return NULL;
  }
  size_t length = (size_t)(mark - path);
  const dp_file_system_ops *found = NULL;
  pthread_rwlock_rdlock(&storage.lock);
  for (size_t i = 0; i < storage.scheme_count && !found; ++i)
    if (strlen(storage.schemes[i]->scheme) == length &&
        strncmp(storage.schemes[i]->scheme, path, length) == 0)
      found = storage.schemes[i];
  pthread_rwlock_unlock(&storage.lock);
  if (!found)
    return dp_status_create(DP_UNIMPLEMENTED,
                            "File system scheme '%.*s' not implemented (file: '%s')", (int)length,
                            path, path);
  *ops_out = found;
  return NULL;
}

/* ---- Files ---- */
dp_status *dp_file_open(const char *path, dp_file_mode mode, dp_file **file_out) {
  const dp_file_system_ops *ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(path, &ops));
  DP_RETURN_IF_ERROR(dp_fault("storage.open"));
  return ops->open(path, mode, file_out);
}

dp_status *dp_file_create_atomic(const char *path, dp_file **file_out) {
  dp_text temporary = {0};
  dp_text_printf(&temporary, "%s.tempstate%llu", path, (unsigned long long)dp_random_seed());
  dp_file *file;
  dp_status *status = dp_file_open(dp_text_string(&temporary), DP_FILE_CREATE, &file);
  dp_text_deinit(&temporary);
  DP_RETURN_IF_ERROR(status);
  file->final_path = dp_strdup(path);
  *file_out = file;
  return NULL;
}

static dp_status *commit_now(dp_file *file) {
  char *from = dp_strdup(file->path), *to = dp_strdup(file->final_path);
  dp_status *status = dp_file_sync(file);
  dp_status_update(&status, dp_file_close(file));
  if (!status)
    status = dp_path_rename(from, to);
  if (status)
    dp_status_release(dp_path_remove(from));
  else
    dp_path_sync_folder(to);
  dp_free(from);
  dp_free(to);
  return status;
}

dp_status *dp_file_commit(dp_file *file) {
  dp_status *status = dp_settle_take_failure();
  if (status) {
    dp_file_abandon(file);
    return status;
  }
  if (!file->ops->settle || !dp_settle_has_room())
    return commit_now(file);
  status = dp_path_rename(file->path, file->final_path);
  if (status)
    dp_file_abandon(file);
  else
    dp_settle_later(file);
  return status;
}

void dp_file_abandon(dp_file *file) {
  char *path = dp_strdup(file->path);
  dp_status_release(dp_file_close(file));
  dp_status_release(dp_path_remove(path));
  dp_free(path);
}

dp_status *dp_file_close(dp_file *file) {
  return file ? file->ops->close(file) : NULL;
}

void dp_file_discard(dp_file *file) {
  dp_status_release(dp_file_close(file));
}

dp_status *dp_file_read(dp_file *file, uint64_t offset, void *to, size_t length, size_t *read_out) {
  if (offset > INT64_MAX)
    return dp_status_create(DP_OUT_OF_RANGE, "%s; offset beyond all files", file->path);
  DP_RETURN_IF_ERROR(dp_fault("storage.read"));
  return file->ops->read(file, offset, to, length, read_out);
}

dp_status *dp_file_read_exact(dp_file *file, uint64_t offset, void *to, size_t length) {
  size_t done = 0;
  DP_RETURN_IF_ERROR(dp_file_read(file, offset, to, length, &done));
  if (done < length)
    return dp_status_create(DP_OUT_OF_RANGE, "Read less bytes than requested");
  return NULL;
}

dp_status *dp_file_write(dp_file *file, uint64_t offset, const void *data, size_t length) {
  DP_RETURN_IF_ERROR(dp_fault("storage.write"));
  return file->ops->write(file, offset, data, length);
}

dp_status *dp_file_append(dp_file *file, const void *data, size_t length) {
  DP_RETURN_IF_ERROR(dp_file_write(file, file->end, data, length));
  file->end += length;
  return NULL;
}

void dp_file_reserve(dp_file *file, uint64_t size) {
  if (file->ops->reserve)
    file->ops->reserve(file, size);
}

bool dp_file_set_direct(dp_file *file) {
  return file->ops->set_direct && file->ops->set_direct(file);
}

dp_status *dp_file_resize(dp_file *file, uint64_t size) {
  DP_RETURN_IF_ERROR(dp_fault("storage.write"));
  return file->ops->resize(file, size);
}

dp_status *dp_file_sync(dp_file *file) {
  DP_RETURN_IF_ERROR(dp_fault("storage.sync"));
  return file->ops->sync(file);
}

dp_status *dp_file_size(dp_file *file, uint64_t *size_out) {
  return file->ops->size(file, size_out);
}

/* ---- Whole files ---- */
dp_status *dp_file_read_small(const char *path, void *to, size_t *length_out, dp_file **file_out) {
  const dp_file_system_ops *ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(path, &ops));
  DP_RETURN_IF_ERROR(dp_fault("storage.open"));
  if (!ops->read_small)
    return ops->open(path, DP_FILE_READ, file_out);
  DP_RETURN_IF_ERROR(dp_fault("storage.read"));
  return ops->read_small(path, to, length_out, file_out);
}

dp_status *dp_file_read_whole(const char *path, uint64_t limit, char **data_out,
                              size_t *length_out) {
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_open(path, DP_FILE_READ, &file));
  uint64_t size = 0;
  dp_status *status = dp_file_size(file, &size);
  char *data = NULL;
  size_t length = 0;
  if (!status && size > limit)
    status = dp_status_create(DP_RESOURCE_EXHAUSTED, "%s; %llu bytes, more than the %llu allowed",
                              path, (unsigned long long)size, (unsigned long long)limit);
  if (!status && !(data = dp_try_malloc((size_t)size + 1)))
    status = dp_status_out_of_memory();
  if (!status)
    status = dp_file_read(file, 0, data, (size_t)size, &length);
  dp_file_discard(file);
  if (status) {
    dp_free(data);
    return status;
  }
  data[length] = '\0';
  *data_out = data;
  *length_out = length;
  return NULL;
}

dp_status *dp_file_write_whole(const char *path, const void *data, size_t length) {
  dp_file *file;
  DP_RETURN_IF_ERROR(dp_file_create_atomic(path, &file));
  dp_status *status = dp_file_append(file, data, length);
  if (status) {
    dp_file_abandon(file);
    return status;
  }
  return dp_file_commit(file);
}
