/* The file system mem:// of the fuzzers (memory_files.h). It has only the functions that readers
 * call: open, size, read, and whether a path exists. One thread. */
#include "memory_files.h"

#include <stdlib.h>
#include <string.h>
#include "storage/file.h"

enum { MOST_FILES = 4 };

typedef struct memory_file {
  dp_file base;
  dp_view bytes;
} memory_file;

static struct {
  const char *paths[MOST_FILES];
  dp_view bytes[MOST_FILES];
  int count;
} files;

static int find(const char *path) {
  int i = 0;
  while (i < files.count && strcmp(files.paths[i], path) != 0)
    ++i;
  return i;
}

static dp_status *read_bytes(dp_file *file, uint64_t offset, void *to, size_t length,
                             size_t *read_out) {
  dp_view bytes = ((memory_file *)file)->bytes;
  size_t left = offset < bytes.length ? bytes.length - (size_t)offset : 0;
  *read_out = length < left ? length : left;
  if (*read_out > 0)
    memcpy(to, bytes.data + offset, *read_out);
  return NULL;
}

static dp_status *size_of(dp_file *file, uint64_t *size_out) {
  *size_out = ((memory_file *)file)->bytes.length;
  return NULL;
}

static dp_status *close_file(dp_file *file) {
  dp_free(file->path);
  dp_free(file);
  return NULL;
}

static const dp_file_ops file_ops = {.read = read_bytes, .size = size_of, .close = close_file};

static dp_status *open_file(const char *path, dp_file_mode mode, dp_file **file_out) {
  int i = find(path);
  if (i == files.count || mode != DP_FILE_READ)
    return dp_status_create(DP_NOT_FOUND, "%s", path);
  memory_file *file = DP_NEW(memory_file);
  file->base = (dp_file){.ops = &file_ops, .path = dp_strdup(path)};
  file->bytes = files.bytes[i];
  *file_out = &file->base;
  return NULL;
}

static dp_status *information(const char *path, dp_file_information *information_out) {
  int i = find(path);
  if (i == files.count)
    return dp_status_create(DP_NOT_FOUND, "%s", path);
  *information_out = (dp_file_information){.size = files.bytes[i].length};
  return NULL;
}

static const dp_file_system_ops scheme = {
    .scheme = "mem", .open = open_file, .information = information};

void memory_file_set(const char *path, dp_view bytes) {
  int i = find(path);
  if (files.count == 0)
    dp_storage_register(&scheme);
  if (i == MOST_FILES)
    abort();
  files.paths[i] = path;
  files.bytes[i] = bytes;
  files.count += i == files.count;
}
