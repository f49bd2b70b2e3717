/* The executor's way into a kernel cache: an instance of a kernel for a node, shared by the
 * session's executors when the op is stateful. Asked once per node, when a graph is compiled; any
 * thread may ask. The caller owns one reference to the instance. */
#ifndef DP_RUNTIME_KERNEL_CACHE_INTERNAL_H
#define DP_RUNTIME_KERNEL_CACHE_INTERNAL_H

#include "runtime/executor.h"

/* `cache` may be NULL. The caller releases the instance. */
DP_MUST_USE dp_status *dp_kernel_cache_get(dp_kernel_cache *cache, const dp_kernel_setup *setup,
                                           dp_kernel_instance **instance_out);

#endif
