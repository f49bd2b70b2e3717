/* Paths: asking about files, listing, making and removing folders, renaming, and patterns. Each
 * function checks the roots and calls the functions of the path's file system. No state, any
 * thread.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include "base/fault.h"
#include "storage/file_internal.h"

dp_status *dp_path_information(const char *path, dp_file_information *information_out) {
  const dp_file_system_ops *ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(path, &ops));
  return ops->information(path, information_out);
}

bool dp_path_exists(const char *path) {
  dp_file_information information;
  dp_status *status = dp_path_information(path, &information);
  dp_status_release(status);
  return status == NULL;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

dp_status *dp_path_list(const char *path, dp_name_list *names) {
  const dp_file_system_ops *ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(path, &ops));
  DP_RETURN_IF_ERROR(ops->list(path, names));
  if (names->count > 0)
    qsort(names->items, names->count, sizeof(char *), compare_names);
  return NULL;
}

dp_status *dp_path_make_folder(const char *path) {
  const dp_file_system_ops *ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(path, &ops));
  return ops->make_folder(path);
}

dp_status *dp_path_make_folders(const char *path) {
  const dp_file_system_ops *ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(path, &ops));
  char *copy = dp_strdup(path);
  char *start = strstr(copy, "://");
  dp_status *status = NULL;
  for (char *at = start ? start + 3 : copy + 1; copy[0] && !status; ++at) {
    char c = *at;
    if (c != '/' && c != '\0')
      continue;
    *at = '\0';
    dp_file_information information;
    dp_status *missing = ops->information(copy, &information);
    if (missing)
      status = ops->make_folder(copy);
    dp_status_release(missing);
    if (dp_status_code(status) == DP_ALREADY_EXISTS) {
      dp_status_release(status);
      status = NULL;
    }
    *at = c;
    if (c == '\0')
      break;
  }
  dp_free(copy);
  return status;
}

dp_status *dp_path_remove(const char *path) {
  const dp_file_system_ops *ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(path, &ops));
  return ops->remove(path);
}

dp_status *dp_path_remove_folder(const char *path) {
  const dp_file_system_ops *ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(path, &ops));
  return ops->remove_folder(path);
}

dp_status *dp_path_rename(const char *from, const char *to) {
  const dp_file_system_ops *from_ops, *to_ops;
  DP_RETURN_IF_ERROR(dp_file_system_of(from, &from_ops));
  DP_RETURN_IF_ERROR(dp_file_system_of(to, &to_ops));
  DP_RETURN_IF_ERROR(dp_fault("storage.rename"));
  if (from_ops != to_ops)
    return dp_status_create(DP_UNIMPLEMENTED, "Renaming %s to %s not implemented", from, to);
  return from_ops->rename(from, to);
}

void dp_path_sync_folder(const char *path) {
  const dp_file_system_ops *ops;
  dp_status *status = dp_file_system_of(path, &ops);
  if (!status && ops->sync_folder)
    ops->sync_folder(path);
  dp_status_release(status);
}

char *dp_path_folder(const char *path) {
  const char *start = strstr(path, "://");
  start = start ? start + 3 : path;
  const char *slash = strrchr(start, '/');
  if (!slash)
    return start == path ? dp_strdup("") : dp_strdup(path);
  if (slash == start)
    return dp_strndup(path, (size_t)(slash - path) + 1);
  return dp_strndup(path, (size_t)(slash - path));
}

/* ---- Patterns ---- */
/* Adds the paths below `prefix` that match `rest`, part by part. `prefix` is the part that has
 * matched so far, with its slash. */
static dp_status *match_below(const dp_file_system_ops *ops, const char *prefix, const char *rest,
                              dp_name_list *paths) {
  while (rest[0] == '/')
    ++rest;
  size_t length = strcspn(rest, "/");
  bool is_last = rest[length] == '\0';
  dp_status *status = NULL;
  if ((length == 1 && rest[0] == '.') || (length == 2 && rest[0] == '.' && rest[1] == '.'))
    return NULL; /* behind a pattern "." and ".." match nothing: no listing has them */
  if (length == 0 || strcspn(rest, "*?[\\") >= length) { /* no pattern in this part */
    dp_text path = {0};
    dp_text_printf(&path, "%s%.*s%s", prefix, (int)length, rest, is_last ? "" : "/");
    dp_file_information information;
    if (!is_last) {
      status = match_below(ops, dp_text_string(&path), rest + length, paths);
    } else {
      dp_status *missing = ops->information(dp_text_string(&path), &information);
      if (!missing)
        DP_ARRAY_PUSH(paths, dp_strdup(dp_text_string(&path)));
      dp_status_release(missing);
    }
    dp_text_deinit(&path);
    return status;
  }
  char *part = dp_strndup(rest, length);
  dp_name_list names = {0};
  dp_status_release(ops->list(prefix[0] ? prefix : ".", &names)); /* fails: nothing matches */
  for (size_t i = 0; i < names.count && !status; ++i) {
    if (fnmatch(part, names.items[i], FNM_PATHNAME) != 0)
      continue;
    dp_text path = {0};
    dp_text_printf(&path, "%s%s%s", prefix, names.items[i], is_last ? "" : "/");
    if (is_last)
      DP_ARRAY_PUSH(paths, dp_strdup(dp_text_string(&path)));
    else
      status = match_below(ops, dp_text_string(&path), rest + length, paths);
    dp_text_deinit(&path);
  }
  dp_name_list_deinit(&names);
  dp_free(part);
  return status;
}

/* The length of the part without patterns: up to the last slash before the first special character.
 */
static size_t fixed_length(const char *pattern) {
  size_t special = strcspn(pattern, "*?[\\");
  while (special > 0 && pattern[special - 1] != '/')
    --special;
  return special;
}

dp_status *dp_path_match(const char *pattern, dp_name_list *paths) {
  if (strcspn(pattern, "*?[\\") == strlen(pattern)) {
    dp_status *denied = dp_storage_check_path(pattern);
    if (denied)
      return denied;
    if (pattern[0] && dp_path_exists(pattern))
      DP_ARRAY_PUSH(paths, dp_strdup(pattern));
    return NULL;
  }
  size_t fixed = fixed_length(pattern);
  char *prefix = dp_strndup(pattern, fixed);
  const dp_file_system_ops *ops;
  dp_status *status = dp_file_system_of(prefix, &ops);
  if (!status)
    status = match_below(ops, prefix, pattern + fixed, paths);
  dp_free(prefix);
  if (!status && paths->count > 0)
    qsort(paths->items, paths->count, sizeof(char *), compare_names);
  return status;
}
