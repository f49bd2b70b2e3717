/* Limits on memory: see memory_limit.h. The limits are read once; what is used is asked of the
 * kernel again for every large request, because other parts of the process (gRPC, the C library,
 * a Python program around us) take memory as well. */
#include "base/memory_limit.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOOK_BYTES ((size_t)1 << 20)
#define NO_LIMIT ((uint64_t)1 << 60) /* version 1 says "none" with a number near 2^63 */

static pthread_once_t read_once = PTHREAD_ONCE_INIT;
static atomic_bool is_limited; /* set last, when the rest is known */
static struct {
  uint64_t address_space, data, group; /* 90 % of each; 0: none */
  char group_folder[PATH_MAX];
} limits;
static atomic_size_t unlooked_bytes; /* of small requests */

/* ---- Reading ---- */

/* The text of a small file; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  ssize_t length = read(file, text, size - 1);
  close(file);
  if (length < 0)
    return false;
  text[length] = '\0';
  return true;
}

static uint64_t read_number(const char *folder, const char *name) {
  char path[PATH_MAX + 64], text[64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return read_text(path, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

/* The value of "name 123" in lines of that form; 0 when there is none. */
static uint64_t find_number(const char *lines, const char *name) {
  size_t length = strlen(name);
  for (const char *line = lines; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, name, length) == 0 && line[length] == ' ')
      return strtoull(line + length, NULL, 10);
  }
  return 0;
}

/* ---- Control groups ---- */

static uint64_t folder_limit(const char *folder) {
  uint64_t limit = read_number(folder, "memory.max"); /* "max" reads as 0 */
  if (limit == 0)
    limit = read_number(folder, "memory.limit_in_bytes");
  return limit < NO_LIMIT ? limit : 0;
}

/* The group itself and those above it, up to the root of its hierarchy. */
static void look_up(const char *root, const char *group, size_t length, uint64_t *limit,
                    char *folder, size_t size) {
  char path[PATH_MAX];
  size_t base = strlen(root);
  if (base + length >= sizeof path)
    return;
  snprintf(path, sizeof path, "%s%.*s", root, (int)length, group);
  for (;;) {
    uint64_t found = folder_limit(path);
    if (found > 0 && (*limit == 0 || found < *limit)) {
      *limit = found;
      snprintf(folder, size, "%s", path);
    }
    char *slash = strrchr(path + base, '/');
    if (!slash)
      return;
    *slash = '\0';
  }
}

uint64_t dp_memory_group_limit(const char *root, const char *groups, char *folder, size_t size) {
  uint64_t limit = 0;
  char old_root[PATH_MAX];
  snprintf(old_root, sizeof old_root, "%s/memory", root);
  for (const char *line = groups; line && *line;) {
    const char *end = strchr(line, '\n');
    const char *first = strchr(line, ':');
    const char *second = first ? strchr(first + 1, ':') : NULL;
    size_t length = end ? (size_t)(end - line) : strlen(line);
    if (second && second < line + length) {
      const char *group = second + 1;
      size_t rest = length - (size_t)(group - line);
      if (second == first + 1)
        look_up(root, group, rest, &limit, folder, size);
      else if (second - first == 7 && strncmp(first, ":memory", 7) == 0)
        look_up(old_root, group, rest, &limit, folder, size);
    }
    line = end ? end + 1 : NULL;
  }
  return limit;
}

uint64_t dp_memory_group_usage(const char *folder) {
  char path[PATH_MAX + 64], text[8192];
  uint64_t usage = read_number(folder, "memory.current");
  bool is_old = usage == 0;
  if (is_old)
    usage = read_number(folder, "memory.usage_in_bytes");
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  if (!read_text(path, text, sizeof text))
    return usage;
  uint64_t files = find_number(text, is_old ? "total_inactive_file" : "inactive_file") +
                   find_number(text, is_old ? "total_active_file" : "active_file");
  return usage > files ? usage - files : 0;
}

/* ---- This process ---- */

static uint64_t most_of(uint64_t limit) {
  return limit / 10 * 9;
}

static uint64_t process_limit(int resource) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return 0;
  return most_of(limit.rlim_cur);
}

static void read_limits(void) {
  char groups[4096];
  limits.address_space = process_limit(RLIMIT_AS);
  limits.data = process_limit(RLIMIT_DATA);
  limits.group = 0;
  if (read_text("/proc/self/cgroup", groups, sizeof groups))
    limits.group = most_of(dp_memory_group_limit("/sys/fs/cgroup", groups, limits.group_folder,
                                                 sizeof limits.group_folder));
  atomic_store(&is_limited, limits.address_space > 0 || limits.data > 0 || limits.group > 0);
}

void dp_memory_limit_start(void) {
  pthread_once(&read_once, read_limits);
}

uint64_t dp_memory_limit(void) {
  if (!atomic_load(&is_limited))
    return 0;
  uint64_t smallest = limits.address_space;
  if (limits.data > 0 && (smallest == 0 || limits.data < smallest))
    smallest = limits.data;
  if (limits.group > 0 && (smallest == 0 || limits.group < smallest))
    smallest = limits.group;
  return smallest;
}

static bool fits(uint64_t used, size_t bytes, uint64_t limit) {
  return limit == 0 || (used <= limit && bytes <= limit - used);
}

static bool fits_now(size_t bytes) {
  char text[256];
  unsigned long long total = 0, data = 0;
  if ((limits.address_space > 0 || limits.data > 0) &&
      read_text("/proc/self/statm", text, sizeof text))
    sscanf(text, "%llu %*u %*u %*u %*u %llu", &total, &data);
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  return fits(total * page, bytes, limits.address_space) && fits(data * page, bytes, limits.data) &&
         (limits.group == 0 ||
          fits(dp_memory_group_usage(limits.group_folder), bytes, limits.group));
}

bool dp_memory_has_room(size_t bytes) {
  if (!atomic_load_explicit(&is_limited, memory_order_acquire))
    return true;
  if (bytes < LOOK_BYTES) {
    if (atomic_fetch_add_explicit(&unlooked_bytes, bytes, memory_order_relaxed) < LOOK_BYTES)
      return true;
    atomic_store_explicit(&unlooked_bytes, 0, memory_order_relaxed);
  }
  return fits_now(bytes);
}
