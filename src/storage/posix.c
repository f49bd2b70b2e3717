/* The operating system's files: the table of functions for plain paths and file://. Reads and
 * writes are at offsets (pread, pwrite), so that many threads may use one file. Errors are
 * TensorFlow's for the same errno. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "storage/file_internal.h"

typedef struct posix_file {
  dp_file base;
  int descriptor;
} posix_file;

const char *dp_posix_path(const char *path) {
  if (strncmp(path, "file://", 7) != 0)
    return path;
  const char *slash = strchr(path + 7, '/'); /* behind the host, which is ignored */
  return slash ? slash : path + 7;
}

/* ---- One file ---- */
static dp_status *posix_read(dp_file *base, uint64_t offset, void *to, size_t length,
                             size_t *read_out) {
  posix_file *file = (posix_file *)base;
  size_t done = 0;
  while (done < length) {
    ssize_t count =
        pread(file->descriptor, (char *)to + done, length - done, (off_t)(offset + done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return dp_status_from_errno(errno, base->path);
    if (count == 0)
      break;
    done += (size_t)count;
  }
  *read_out = done;
  return NULL;
}

static bool posix_set_direct(dp_file *base) {
  posix_file *file = (posix_file *)base;
  int flags = fcntl(file->descriptor, F_GETFL);
  return flags >= 0 && fcntl(file->descriptor, F_SETFL, flags | O_DIRECT) == 0;
}

/* Some file systems accept O_DIRECT and then refuse to write. This turns O_DIRECT off. */
static bool stop_direct(posix_file *file) {
  int flags = fcntl(file->descriptor, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) &&
         fcntl(file->descriptor, F_SETFL, flags & ~O_DIRECT) == 0;
}

static dp_status *posix_resize(dp_file *base, uint64_t size) {
  if (ftruncate(((posix_file *)base)->descriptor, (off_t)size) != 0)
    return dp_status_from_errno(errno, base->path);
  return NULL;
}

static dp_status *posix_write(dp_file *base, uint64_t offset, const void *data, size_t length) {
  posix_file *file = (posix_file *)base;
  size_t done = 0;
  while (done < length) {
    ssize_t count =
        pwrite(file->descriptor, (const char *)data + done, length - done, (off_t)(offset + done));
    if (count < 0 && (errno == EINTR || (errno == EINVAL && stop_direct(file))))
      continue;
    if (count < 0)
      return dp_status_from_errno(errno, base->path);
    done += (size_t)count;
  }
  return NULL;
}

static void posix_reserve(dp_file *base, uint64_t size) {
  /* Fails on some file systems; writing then extends the file. */
  if (fallocate(((posix_file *)base)->descriptor, 0, 0, (off_t)size) != 0)
    return;
}

static dp_status *posix_sync(dp_file *base) {
  if (fdatasync(((posix_file *)base)->descriptor) != 0 && errno != EINVAL && errno != EROFS)
    return dp_status_from_errno(errno, base->path);
  return NULL;
}

/* Errors are ignored: some file systems cannot sync a folder. */
static void posix_sync_folder(const char *path) {
  char *folder = dp_path_folder(dp_posix_path(path));
  int descriptor = open(folder[0] ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    fsync(descriptor);
    close(descriptor);
  }
  dp_free(folder);
}

static dp_status *posix_settle(dp_file *base) {
  struct stat information;
  if (fstat(((posix_file *)base)->descriptor, &information) == 0 && information.st_nlink == 0)
    return NULL; /* removed or replaced: no one can open it any more */
  DP_RETURN_IF_ERROR(posix_sync(base));
  posix_sync_folder(base->final_path);
  return NULL;
}

static dp_status *posix_size(dp_file *base, uint64_t *size_out) {
  struct stat information;
  if (fstat(((posix_file *)base)->descriptor, &information) != 0)
    return dp_status_from_errno(errno, base->path);
  *size_out = (uint64_t)information.st_size;
  return NULL;
}

static dp_status *posix_close(dp_file *base) {
  posix_file *file = (posix_file *)base;
  int result = close(file->descriptor);
  dp_status *status = result != 0 ? dp_status_from_errno(errno, base->path) : NULL;
  dp_free(base->path);
  dp_free(base->final_path);
  dp_free(file);
  return status;
}

static const dp_file_ops posix_file_ops = {
    .read = posix_read,
    .write = posix_write,
    .reserve = posix_reserve,
    .set_direct = posix_set_direct,
    .resize = posix_resize,
    .sync = posix_sync,
    .size = posix_size,
    .close = posix_close,
    .settle = posix_settle,
};

static dp_status *open_descriptor(const char *path, dp_file_mode mode, int *descriptor_out) {
  static const int flags[] = {[DP_FILE_READ] = O_RDONLY,
                              [DP_FILE_CREATE] = O_RDWR | O_CREAT | O_TRUNC,
                              [DP_FILE_APPEND] = O_RDWR | O_CREAT};
  int descriptor;
  do
    descriptor = open(dp_posix_path(path), flags[mode] | O_CLOEXEC, 0666);
  while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0)
    return dp_status_from_errno(errno, path);
  *descriptor_out = descriptor;
  return NULL;
}

/* Consumes the descriptor. */
static dp_status *make_file(const char *path, dp_file_mode mode, int descriptor,
                            dp_file **file_out) {
  struct stat information;
  int number = fstat(descriptor, &information) != 0 ? errno : 0;
  if (number == 0 && mode == DP_FILE_READ && S_ISDIR(information.st_mode))
    number = EISDIR;
  if (number != 0) {
    close(descriptor);
    return dp_status_from_errno(number, path);
  }
  posix_file *file = DP_NEW(posix_file);
  file->base.ops = &posix_file_ops;
  file->base.path = dp_strdup(path);
  file->base.end = (uint64_t)information.st_size;
  file->descriptor = descriptor;
  *file_out = &file->base;
  return NULL;
}

static dp_status *posix_open(const char *path, dp_file_mode mode, dp_file **file_out) {
  int descriptor = -1;
  DP_RETURN_IF_ERROR(open_descriptor(path, mode, &descriptor));
  return make_file(path, mode, descriptor, file_out);
}

/* A read with RWF_NOWAIT returns what is in the page cache. It fails when that is nothing, for
 * folders and for files whose contents the kernel makes up (such as those in /proc). When it
 * returns fewer bytes than the first page can have, that is the whole file, so its size need not be
 * asked.
 */
static dp_status *posix_read_small(const char *path, void *to, size_t *length_out,
                                   dp_file **file_out) {
  int descriptor = -1;
  DP_RETURN_IF_ERROR(open_descriptor(path, DP_FILE_READ, &descriptor));
  struct iovec place = {to, DP_FILE_SMALL_BYTES};
  ssize_t count = preadv2(descriptor, &place, 1, 0, RWF_NOWAIT);
  if (count < 0 || (size_t)count >= DP_FILE_SMALL_BYTES)
    return make_file(path, DP_FILE_READ, descriptor, file_out);
  close(descriptor);
  *length_out = (size_t)count;
  *file_out = NULL;
  return NULL;
}

/* ---- Folders and names ---- */
static dp_status *posix_information(const char *path, dp_file_information *information_out) {
  struct stat information;
  if (stat(dp_posix_path(path), &information) != 0)
    return dp_status_from_errno(errno, path);
  *information_out = (dp_file_information){
      .size = (uint64_t)information.st_size,
      .modified_nanos =
          (int64_t)information.st_mtim.tv_sec * 1000000000 + information.st_mtim.tv_nsec,
      .identity = (uint64_t)information.st_ino ^ (uint64_t)information.st_dev << 48,
      .is_folder = S_ISDIR(information.st_mode),
  };
  return NULL;
}

static dp_status *posix_list(const char *path, dp_name_list *names) {
  DIR *folder = opendir(dp_posix_path(path));
  if (!folder)
    return dp_status_from_errno(errno, path);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      DP_ARRAY_PUSH(names, dp_strdup(entry->d_name));
  }
  closedir(folder);
  return NULL;
}

static dp_status *posix_make_folder(const char *path) {
  return mkdir(dp_posix_path(path), 0755) != 0 ? dp_status_from_errno(errno, path) : NULL;
}

static dp_status *posix_remove(const char *path) {
  return unlink(dp_posix_path(path)) != 0 ? dp_status_from_errno(errno, path) : NULL;
}

static dp_status *posix_remove_folder(const char *path) {
  return rmdir(dp_posix_path(path)) != 0 ? dp_status_from_errno(errno, path) : NULL;
}

static dp_status *posix_rename(const char *from, const char *to) {
  if (rename(dp_posix_path(from), dp_posix_path(to)) != 0)
    return dp_status_from_errno(errno, from);
  return NULL;
}

const dp_file_system_ops dp_posix_file_system = {
    .scheme = "file",
    .open = posix_open,
    .read_small = posix_read_small,
    .information = posix_information,
    .list = posix_list,
    .make_folder = posix_make_folder,
    .remove = posix_remove,
    .remove_folder = posix_remove_folder,
    .rename = posix_rename,
    .sync_folder = posix_sync_folder,
};
