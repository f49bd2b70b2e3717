/* MatchingFilesDataset: the names of files that match patterns, found one at a time as they are
 * asked for. One heap, sorted by name, holds the matching files found so far and the folders not
 * yet searched. So names come sorted within a pattern, and a walk that stops early has not searched
 * everything. */
#include <fnmatch.h>
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"

typedef struct matching_dataset {
  dp_dataset base;
  dp_io_paths patterns;
} matching_dataset;

typedef struct found_path {
  char *name;
  bool is_folder;
} found_path;

typedef struct matching_iterator {
  dp_iterator base;
  size_t next_pattern;
  char *pattern;        /* the pattern that is searched now */
  size_t fixed;         /* bytes before the first * ? [ */
  bool has_backslashes; /* the pattern is a Windows path; results get backslashes too */
  bool has_match;
  DP_ARRAY(found_path) heap; /* the smallest name is first */
} matching_iterator;

/* ---- The heap ---- */
static bool is_before(found_path a, found_path b) {
  int order = strcmp(a.name, b.name);
  return order ? order < 0 : !a.is_folder && b.is_folder;
}

static void push(matching_iterator *iterator, char *name, bool is_folder) {
  found_path path = {name, is_folder};
  DP_ARRAY_PUSH(&iterator->heap, path);
  found_path *items = iterator->heap.items;
  size_t at = iterator->heap.count - 1;
  for (; at > 0 && is_before(path, items[(at - 1) / 2]); at = (at - 1) / 2)
    items[at] = items[(at - 1) / 2];
  items[at] = path;
}

static found_path pop(matching_iterator *iterator) {
  found_path *items = iterator->heap.items, first = items[0];
  size_t count = --iterator->heap.count, at = 0;
  found_path last = items[count];
  for (size_t child = 1; child < count; child = 2 * at + 1) {
    child += child + 1 < count && is_before(items[child + 1], items[child]);
    if (!is_before(items[child], last))
      break;
    items[at] = items[child];
    at = child;
  }
  items[at] = last;
  return first;
}

/* ---- Searching ---- */
static size_t count_slashes(const char *text) {
  size_t count = 0;
  for (; *text; ++text)
    count += *text == '/';
  return count;
}

static char *join_path(const char *folder, const char *name) {
  size_t length = strlen(folder);
  dp_text text = {0};
  dp_text_printf(&text, "%s%s%s", folder, length > 0 && folder[length - 1] == '/' ? "" : "/", name);
  char *path = dp_strndup(dp_text_string(&text), text.length);
  dp_text_deinit(&text);
  return path;
}

static bool is_folder(const char *path) {
  dp_file_information information;
  dp_status *status = dp_path_information(path, &information);
  bool result = !status && information.is_folder;
  dp_status_release(status);
  return result;
}

/* A star does not match a slash, so folders deeper than the pattern need no search. */
static void look_at(matching_iterator *iterator, char *path) {
  bool begins_right = strncmp(path, iterator->pattern, iterator->fixed) == 0;
  if (begins_right && is_folder(path)) {
    if (count_slashes(path) < count_slashes(iterator->pattern)) {
      push(iterator, path, true);
      return;
    }
  } else if (begins_right && fnmatch(iterator->pattern, path, FNM_PATHNAME) == 0) {
    push(iterator, path, false);
    return;
  }
  dp_free(path);
}

static dp_status *look_into(matching_iterator *iterator, const char *folder) {
  dp_name_list names = {0};
  DP_RETURN_IF_ERROR(dp_path_list(folder, &names));
  for (size_t i = 0; i < names.count; ++i)
    look_at(iterator, join_path(folder, names.items[i]));
  dp_name_list_deinit(&names);
  return NULL;
}

/* Searches folders until a file comes first in the heap, or the heap is empty. A missing folder is
 * an error only when nothing was found. */
static dp_status *search(matching_iterator *iterator) {
  dp_status *missing = NULL;
  while (iterator->heap.count > 0 && iterator->heap.items[0].is_folder) {
    found_path folder = pop(iterator);
    dp_status *status = missing ? NULL : look_into(iterator, folder.name);
    dp_free(folder.name);
    if (!status)
      continue;
    if (dp_status_code(status) != DP_NOT_FOUND)
      return status;
    missing = status;
  }
  if (iterator->heap.count == 0)
    return missing;
  dp_status_release(missing);
  return NULL;
}

static dp_status *start_pattern(matching_iterator *iterator, const char *pattern) {
  dp_free(iterator->pattern);
  iterator->pattern = dp_strndup(pattern, strlen(pattern));
  iterator->has_backslashes = strchr(pattern, '\\') != NULL;
  for (char *at = iterator->pattern; (at = strchr(at, '\\'));)
    *at = '/';
  iterator->fixed = strcspn(iterator->pattern, "*?[");
  char *fixed = dp_strndup(iterator->pattern, iterator->fixed);
  char *folder = dp_path_folder(fixed);
  dp_free(fixed);
  if (!*folder) {
    dp_free(folder);
    folder = dp_strndup(".", 1);
    char *longer = join_path(folder, iterator->pattern);
    dp_free(iterator->pattern);
    iterator->pattern = longer;
    iterator->fixed += 2;
  }
  push(iterator, folder, true);
  DP_RETURN_IF_ERROR(search(iterator));
  ++iterator->next_pattern;
  return NULL;
}

static dp_status *give(matching_iterator *iterator, dp_tensor *component) {
  dp_shape scalar = dp_shape_scalar();
  found_path file = pop(iterator);
  for (char *at = file.name; iterator->has_backslashes && (at = strchr(at, '/'));)
    *at = '\\';
  dp_status *status = dp_tensor_create(DP_STRING, &scalar, component);
  if (!status)
    status = dp_tstring_assign(dp_tensor_strings(component), file.name, strlen(file.name));
  dp_free(file.name);
  iterator->has_match = true;
  return status;
}

static dp_status *matching_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                                bool *more_out) {
  matching_iterator *iterator = (matching_iterator *)base;
  const matching_dataset *dataset = (const matching_dataset *)base->dataset;
  while (iterator->heap.count == 0 || iterator->heap.items[0].is_folder) {
    if (iterator->heap.count > 0)
      DP_RETURN_IF_ERROR(search(iterator));
    else if (iterator->next_pattern < dataset->patterns.count)
      DP_RETURN_IF_ERROR(start_pattern(iterator, dataset->patterns.items[iterator->next_pattern]));
    else if (iterator->has_match)
      return NULL;
    else
      return dp_status_create(DP_NOT_FOUND, "Don't find any matched files");
  }
  *more_out = true;
  return give(iterator, &element[0]);
}

static void matching_iterator_destroy(dp_iterator *base) {
  matching_iterator *iterator = (matching_iterator *)base;
  for (size_t i = 0; i < iterator->heap.count; ++i)
    dp_free(iterator->heap.items[i].name);
  DP_ARRAY_FREE(&iterator->heap);
  dp_free(iterator->pattern);
}

static const dp_iterator_ops matching_iterator_ops = {sizeof(matching_iterator), matching_next,
                                                      matching_iterator_destroy};

static void matching_destroy(dp_dataset *base) {
  dp_io_paths_deinit(&((matching_dataset *)base)->patterns);
}

static const dp_dataset_ops matching_ops = {"MatchingFiles", &matching_iterator_ops, NULL,
                                            matching_destroy};

static dp_status *matching_compute(dp_op_context *context, void *state) {
  dp_dtype dtype = DP_STRING;
  dp_partial_shape scalar = {.rank = 0};
  matching_dataset *dataset = dp_dataset_create(&matching_ops, sizeof(matching_dataset), NULL);
  dp_dataset_set_components(&dataset->base, 1, &dtype, &scalar);
  dp_status *status = dp_io_paths_init(&dataset->patterns, dp_op_input(context, 0));
  return dp_dataset_finish(context, &dataset->base, status);
}

static const dp_kernel rows[] = {
    {.op = "MatchingFilesDataset", .flags = DP_KERNEL_CHEAP, .compute = matching_compute},
    {.op = "ExperimentalMatchingFilesDataset",
     .flags = DP_KERNEL_CHEAP,
     .compute = matching_compute},
};
DP_KERNEL_FAMILY(dataset_matching, rows);
