/* The log: each event becomes one line and one write(2), so lines of several threads and several
 * processes on one terminal never mix. Control characters in a message are escaped: text that came
 * from outside cannot forge a line. Any thread may log. The levels are atomics; the task's name,
 * which is usually set once at start, is behind a read-write lock. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

static const char *const room_names[DP_ROOM_COUNT] = {
    "base",    "tensor",  "wire",    "graph",  "rpc",    "storage", "runtime", "collective",
    "kernels", "cluster", "planner", "worker", "master", "client",  "train",   "server",
};
static const char *const level_names[] = {"error", "warn", "info", "debug"};
enum { LEVEL_COUNT = 4, LONGEST_MESSAGE = 16384 };

/* The level until dp_log_configure is called: a program that only links the library sees errors
 * and warnings. */
unsigned char dp_log_levels[DP_ROOM_COUNT] = {[0 ... DP_ROOM_COUNT - 1] = DP_LOG_WARN};

static pthread_rwlock_t task_lock = PTHREAD_RWLOCK_INITIALIZER;
static char task_name[128];

static int find_name(const char *const *names, int count, dp_view wanted) {
  for (int i = 0; i < count; i++)
    if (dp_view_equals(wanted, names[i]))
      return i;
  return -1;
}

/* One "level" or "room=level" into `levels`. */
static dp_status *configure_part(dp_view part, unsigned char *levels) {
  const char *equals = memchr(part.data, '=', part.length);
  dp_view level_name = part;
  int room = -1;
  if (equals != NULL) {
    dp_view room_name = {part.data, (size_t)(equals - part.data)};
    level_name = (dp_view){equals + 1, part.length - room_name.length - 1};
    room = find_name(room_names, DP_ROOM_COUNT, room_name);
    if (room < 0)
      return DP_INVALID("log: there is no room '%.*s' (rooms are the folders of src: rpc, master, "
                        "worker, runtime, ...)",
                        (int)room_name.length, room_name.data);
  }
  int level = find_name(level_names, LEVEL_COUNT, level_name);
  if (level < 0)
    return DP_INVALID("log: '%.*s' is not a level; use error, warn, info or debug",
                      (int)level_name.length, level_name.data);
  if (room >= 0)
    levels[room] = (unsigned char)level;
  else
    memset(levels, level, DP_ROOM_COUNT);
  return NULL;
}

dp_status *dp_log_configure(const char *specification) {
  unsigned char levels[DP_ROOM_COUNT];
  for (int i = 0; i < DP_ROOM_COUNT; i++)
    levels[i] = __atomic_load_n(&dp_log_levels[i], __ATOMIC_RELAXED);
  for (const char *at = specification; *at != '\0';) {
    dp_view part = {at, strcspn(at, ",")};
    if (part.length > 0)
      DP_RETURN_IF_ERROR(configure_part(part, levels));
    at += part.length;
    at += *at == ',';
  }
  for (int i = 0; i < DP_ROOM_COUNT; i++)
    __atomic_store_n(&dp_log_levels[i], levels[i], __ATOMIC_RELAXED);
  return NULL;
}

void dp_log_set_task(const char *name) {
  pthread_rwlock_wrlock(&task_lock);
  snprintf(task_name, sizeof(task_name), "%s", name != NULL ? name : "");
  pthread_rwlock_unlock(&task_lock);
}

static void add_head(dp_text *line, dp_log_room room, dp_log_level level) {
  int64_t now = dp_clock_wall_nanos();
  time_t seconds = (time_t)(now / 1000000000);
  struct tm local = {0};
  localtime_r(&seconds, &local);
  dp_text_printf(line, "%02d:%02d:%02d.%03d %c %s: ", local.tm_hour, local.tm_min, local.tm_sec,
                 (int)(now / 1000000 % 1000), "EWID"[level], room_names[room]);
}

/* Escapes the ASCII control characters, which could move the cursor or start a line. UTF-8 is
 * written as it is. */
static void add_message(dp_text *line, const char *message, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)message[i];
    if (c == '\n')
      dp_text_add(line, "\\n");
    else if (c < 0x20 || c == 0x7f)
      dp_text_printf(line, "\\%03o", c);
    else
      dp_text_add_char(line, (char)c);
  }
}

static void add_task(dp_text *line) {
  pthread_rwlock_rdlock(&task_lock);
  if (task_name[0] != '\0')
    dp_text_printf(line, " [task %s]", task_name);
  pthread_rwlock_unlock(&task_lock);
}

static void write_whole(const char *data, size_t length) {
  while (length > 0) {
    ssize_t written = write(STDERR_FILENO, data, length);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return;
    data += written;
    length -= (size_t)written;
  }
}

void dp_log_write(dp_log_room room, dp_log_level level, const char *format, ...) {
  int saved_errno = errno; /* a log line must not disturb the caller, who may log errno next */
  dp_text line = {0};
  char message[1024];
  char *whole = message;
  va_list arguments, copy;
  va_start(arguments, format);
  va_copy(copy, arguments);
  int length = vsnprintf(message, sizeof(message), format, copy);
  va_end(copy);
  if (length >= (int)sizeof(message)) {
    length = length > LONGEST_MESSAGE ? LONGEST_MESSAGE : length;
    whole = dp_malloc((size_t)length + 1);
    vsnprintf(whole, (size_t)length + 1, format, arguments);
  }
  va_end(arguments);
  add_head(&line, room, level);
  add_message(&line, whole, length > 0 ? (size_t)length : 0);
  add_task(&line);
  dp_text_add_char(&line, '\n');
  write_whole(line.data, line.length);
  if (whole != message)
    dp_free(whole);
  dp_text_deinit(&line);
  errno = saved_errno;
}
