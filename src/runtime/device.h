/* Devices: what nodes are placed on.
 *
 * A task has one or more CPU devices. Each has resources of its own and an incarnation number that
 * changes with every start, so that a peer notices a restart. Devices are reference-counted; only
 * their resources change after creation. */
#ifndef DP_RUNTIME_DEVICE_H
#define DP_RUNTIME_DEVICE_H

#include "base/thread.h"
#include "runtime/resource.h"

typedef struct dp_device {
  dp_refcount references;
  char *name;           /* "/job:ps/replica:0/task:1/device:CPU:0" */
  char *type;           /* "CPU" */
  uint64_t incarnation; /* never 0 */
  int64_t memory_limit;
  dp_resources *resources;
  dp_pool *compute;  /* borrowed: the process's */
  dp_pool *blocking; /* borrowed */
} dp_device;

/* `compute` and `blocking` must outlive the device. */
dp_device *dp_device_create(const char *name, const char *type, dp_pool *compute,
                            dp_pool *blocking);
/* The same device under another name, with resources of its own if `isolated`: for sessions that
 * share nothing, or whose client names the tasks itself. */
dp_device *dp_device_derive(const dp_device *device, const char *name, bool isolated);
dp_device *dp_device_retain(dp_device *device);
void dp_device_release(dp_device *device);

#endif
