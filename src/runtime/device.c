/* Devices: a name, an incarnation and the resources behind it. Shared by reference; nothing but the
 * resources changes after creation. */
#include "runtime/device.h"

#include "base/memory.h"
#include "base/philox.h"
#include "wire/device_name.h"

static uint64_t fresh_incarnation(void) {
  uint64_t incarnation;
  do {
    incarnation = dp_random_seed();
  } while (incarnation == 0);
  return incarnation;
}

/* Consumes the reference to `resources`. */
static dp_device *make_device(const char *name, const char *type, uint64_t incarnation,
                              dp_resources *resources, dp_pool *compute, dp_pool *blocking) {
  dp_device *device = DP_NEW(dp_device);
  dp_refcount_init(&device->references);
  device->name = dp_strdup(name);
  device->type = dp_strdup(type);
  device->incarnation = incarnation;
  device->memory_limit = (int64_t)256 << 20; /* what TensorFlow's CPU devices report */
  device->resources = resources;
  device->compute = compute;
  device->blocking = blocking;
  return device;
}

/* The default container has the name of the job: "localhost" in a session of this process. */
static dp_resources *fresh_resources(const char *device_name) {
  dp_device_name name = {0};
  dp_status_release(dp_device_name_parse(dp_view_of(device_name), &name));
  return dp_resources_create(name.has_job ? name.job : "localhost");
}

dp_device *dp_device_create(const char *name, const char *type, dp_pool *compute,
                            dp_pool *blocking) {
  return make_device(name, type, fresh_incarnation(), fresh_resources(name), compute, blocking);
}

dp_device *dp_device_derive(const dp_device *device, const char *name, bool isolated) {
  dp_resources *resources =
      isolated ? fresh_resources(name) : dp_resources_retain(device->resources);
  return make_device(name, device->type, device->incarnation, resources, device->compute,
                     device->blocking);
}

dp_device *dp_device_retain(dp_device *device) {
  dp_refcount_retain(&device->references);
  return device;
}

void dp_device_release(dp_device *device) {
  if (!device || !dp_refcount_release(&device->references))
    return;
  dp_resources_release(device->resources);
  dp_free(device->name);
  dp_free(device->type);
  dp_free(device);
}
