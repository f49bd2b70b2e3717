/* The function runtime: makes executors for library functions and runs them within a step.
 *
 * An instance is a function with its attributes bound, compiled for one device; instances are
 * cached by that. Kernels of call ops ask for one at create and run it in each step. Thread-safe.
 */
#ifndef DP_RUNTIME_FUNCTION_H
#define DP_RUNTIME_FUNCTION_H

#include "runtime/executor.h"

typedef struct dp_function_instance dp_function_instance;

/* `library` is retained; `kernels` as in dp_executor_options. */
dp_function_runtime *dp_function_runtime_create(dp_library *library, dp_device *device);
dp_function_runtime *dp_function_runtime_retain(dp_function_runtime *runtime);
void dp_function_runtime_release(dp_function_runtime *runtime);
dp_library *dp_function_runtime_library(dp_function_runtime *runtime);

/* The devices of the task: a function may be called on another one of them too. What runs there has
 * a runtime of its own, made when it is first asked for; all of them live as long as one is held.
 */
void dp_function_runtime_set_devices(dp_function_runtime *runtime, dp_device *const *devices,
                                     size_t count);
/* The i-th of them, NULL behind the last; with none set, the runtime's own is the only one. */
dp_device *dp_function_runtime_device(const dp_function_runtime *runtime, size_t index);
dp_function_runtime *dp_function_runtime_on(dp_function_runtime *runtime, size_t index);
/* Drops what calls left in a container, on every device where they ran. */
void dp_function_runtime_clear_container(dp_function_runtime *runtime, const char *container);

/* A hook that may rewrite a function's body before it is compiled (the planner's optimizer). That
 * may be long after the graph that brought the library is gone: `owner`, which holds what `arg`
 * points to, is released with the runtime. Both may be NULL. */
typedef dp_status *(*dp_function_rewrite_fn)(void *arg, dp_graph *graph);
void dp_function_runtime_set_rewrite(dp_function_runtime *runtime, dp_function_rewrite_fn rewrite,
                                     void *arg, dp_arena *owner);

/* The instance stays valid as long as the runtime. */
DP_MUST_USE dp_status *dp_function_get(dp_function_runtime *runtime, const dp_func *function,
                                       dp_function_instance **instance_out);
int32_t dp_function_argument_count(const dp_function_instance *instance);

/* Runs within `step` (same cancel scope and rendezvous, own call frame). `arguments` must stay
 * until done; results are handed to `done`, which takes what it wants (the rest is released after
 * it returns). */
typedef void (*dp_function_done_fn)(void *arg, dp_status *status, dp_tensor *results,
                                    int32_t result_count);
void dp_function_call(dp_function_instance *instance, dp_step *step, dp_tensor *arguments,
                      int32_t argument_count, dp_function_done_fn done, void *arg);

#endif
