/* Chooses the leader of a cluster: the task that all members of collectives report to. Every task
 * computes it from the same configuration, so that all tasks agree; the default is TensorFlow's, so
 * that genuine tasks agree too. No state, any thread. */
#include <string.h>
#include "base/memory.h"
#include "collective/collective.h"
#include "wire/device_name.h"

/* The full form of a task's name; a plain copy when `task` is not the name of a task. */
static char *complete_name(const char *task) {
  dp_device_name name;
  dp_status *status = dp_device_name_parse(dp_view_of(task), &name);
  bool is_task = !status && name.has_job && name.has_task;
  dp_status_release(status);
  if (!is_task)
    return dp_strdup(task);
  char text[DP_DEVICE_NAME_SIZE];
  name.has_replica = true;
  name = dp_device_name_task(&name);
  return dp_strdup(dp_device_name_format(&name, text));
}

char *dp_collective_leader(const char *wanted, const char *const *tasks, size_t count) {
  static const char *const usual[] = {"/job:chief/replica:0/task:0",
                                      "/job:worker/replica:0/task:0"};
  if (wanted && *wanted)
    return complete_name(wanted);
  for (size_t k = 0; k < sizeof(usual) / sizeof(*usual); k++) {
    for (size_t i = 0; i < count; i++) {
      if (strcmp(tasks[i], usual[k]) == 0)
        return dp_strdup(usual[k]);
    }
  }
  return dp_strdup(count > 0 ? tasks[0] : "");
}
