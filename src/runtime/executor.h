/* The executor: runs one partition of a graph, all of whose nodes are on one device.
 *
 * dp_executor_create compiles the graph once into arrays (nodes, edges, pending counts, kernels);
 * dp_executor_run counts down and runs what is ready, cheap kernels inline and expensive ones on
 * the step's pool. Without loops it takes a path without frames. Dead values, loops with parallel
 * iterations, reference edges and control edges are as in TensorFlow. A compiled executor is
 * immutable: many steps may run on it at once; each takes a step state from a small cache, so that
 * a warm step allocates nothing of its own. */
#ifndef DP_RUNTIME_EXECUTOR_H
#define DP_RUNTIME_EXECUTOR_H

#include "runtime/kernel.h"

typedef struct dp_executor dp_executor;
typedef struct dp_kernel_cache dp_kernel_cache;

/* Stateful kernels of a session by node name, shared by its executors. Thread-safe. */
dp_kernel_cache *dp_kernel_cache_create(void);
void dp_kernel_cache_destroy(dp_kernel_cache *cache);

typedef struct dp_executor_options {
  dp_device *device;
  dp_kernel_cache *kernels;       /* NULL: every kernel is the executor's own */
  dp_function_runtime *functions; /* may be NULL */
  const char *session_handle;     /* copied */
  const dp_edge_router *router;   /* as in dp_kernel_setup; used by create alone */
} dp_executor_options;

/* Takes over the graph (destroyed with the executor, or at once on error). An op without a kernel,
 * a create that fails, or a node that no start can reach is an error that names the node. */
DP_MUST_USE dp_status *dp_executor_create(dp_graph *graph, const dp_executor_options *options,
                                          dp_executor **executor_out);
dp_executor *dp_executor_retain(dp_executor *executor);
void dp_executor_release(dp_executor *executor);
const dp_graph *dp_executor_graph(const dp_executor *executor);

typedef void (*dp_executor_done_fn)(void *arg, dp_status *status);
/* Runs all nodes. The step must stay until `done`, which is called exactly once, from any thread,
 * when nothing of the run is left anywhere. The first error cancels the step (step->cancel and
 * step->rendezvous) and is what `done` gets. */
void dp_executor_run(dp_executor *executor, dp_step *step, dp_executor_done_fn done, void *arg);
/* On which threads: cheap kernels run on the thread that calls (which may be a network thread:
 * after some tens of them the rest moves to step->pool), expensive ones on the pool; without a
 * pool, everything on the caller's thread and on those that end asynchronous kernels. Called from
 * within a kernel or a `done`, the run starts when that has returned: neither may wait for it. */

/* Which bodies run now, in all steps: asynchronous and blocking ones, and expensive ones, with
 * their age. For status pages and stall reports; the node stays valid as long as the executor. */
typedef void (*dp_executor_visit_fn)(void *arg, int64_t step_id, const dp_node *node,
                                     int64_t running_nanos);
void dp_executor_visit_running(dp_executor *executor, dp_executor_visit_fn visit, void *arg);

#endif
