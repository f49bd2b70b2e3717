/* Logging: one line per event, to standard error, with time, level, room and, when it is known, the
 * task. Levels are set for all rooms or for one room: dp_log_configure("info,rpc=debug"). A
 * disabled line costs one load and one compare. Any thread may log. */
#ifndef DP_BASE_LOG_H
#define DP_BASE_LOG_H

#include <stdbool.h>
#include "base/status.h"

typedef enum dp_log_level { DP_LOG_ERROR, DP_LOG_WARN, DP_LOG_INFO, DP_LOG_DEBUG } dp_log_level;

/* The rooms, each with a level of its own. A room's name in dp_log_configure is its folder. */
typedef enum dp_log_room {
  DP_ROOM_BASE,
  DP_ROOM_TENSOR,
  DP_ROOM_WIRE,
  DP_ROOM_GRAPH,
  DP_ROOM_RPC,
  DP_ROOM_STORAGE,
  DP_ROOM_RUNTIME,
  DP_ROOM_COLLECTIVE,
  DP_ROOM_KERNELS,
  DP_ROOM_CLUSTER,
  DP_ROOM_PLANNER,
  DP_ROOM_WORKER,
  DP_ROOM_MASTER,
  DP_ROOM_CLIENT,
  DP_ROOM_TRAIN,
  DP_ROOM_SERVER,
  DP_ROOM_COUNT
} dp_log_room;

DP_MUST_USE dp_status *dp_log_configure(const char *specification);
/* The task's name, printed in each line ("/job:ps/task:1"); copied. */
void dp_log_set_task(const char *name);

extern unsigned char dp_log_levels[DP_ROOM_COUNT];
void dp_log_write(dp_log_room room, dp_log_level level, const char *format, ...) DP_PRINTF(3, 4);

#define DP_LOG(room, level, ...)                                                                   \
  do {                                                                                             \
    if (__builtin_expect(__atomic_load_n(&dp_log_levels[DP_ROOM_##room], __ATOMIC_RELAXED) >=      \
                             DP_LOG_##level,                                                       \
                         0))                                                                       \
      dp_log_write(DP_ROOM_##room, DP_LOG_##level, __VA_ARGS__);                                   \
  } while (0)

#endif
