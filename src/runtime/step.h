/* A step: one run of a compiled graph, and everything that lives no longer than it.
 *
 * The worker (or the function runtime) fills a dp_step, starts executors on it and keeps it alive
 * until they are all done. Fields do not change while executors run, except through the objects
 * they point to. */
#ifndef DP_RUNTIME_STEP_H
#define DP_RUNTIME_STEP_H

#include "base/cancel.h"
#include "base/thread.h"
#include "runtime/device.h"
#include "runtime/rendezvous.h"

typedef struct dp_step dp_step;
typedef struct dp_step_stats dp_step_stats;
typedef struct dp_function_runtime dp_function_runtime;
typedef struct dp_session_state dp_session_state;
typedef struct dp_tensor_store dp_tensor_store;
typedef struct dp_collective_step dp_collective_step; /* the collective room's */

/* Arguments and results of a function call, for _Arg and _Retval. */
typedef struct dp_call_frame {
  int32_t argument_count, result_count;
  dp_tensor *arguments; /* borrowed from the caller; a kernel copies */
  dp_tensor *results;   /* set by _Retval */
  bool is_function;     /* the graph is the body of one, and lives as long as step->functions */
  int32_t depth;        /* of calls: 1 for a function that the graph itself calls */
} dp_call_frame;

struct dp_step {
  int64_t id;
  const char *session_handle; /* "" when there is none */
  dp_rendezvous *rendezvous;
  dp_cancel *cancel;
  dp_pool *pool;                        /* where expensive kernels run */
  dp_call_frame *frame;                 /* NULL outside functions */
  dp_function_runtime *functions;       /* NULL when the graph has none */
  dp_session_state *session_state;      /* what the session keeps between steps; NULL in datasets */
  dp_tensor_store *tensor_store;        /* what this step adds to that */
  dp_step_stats *stats;                 /* NULL unless the run wants them */
  const char *container;                /* name of the container for what dies with the step */
  const dp_collective_step *collective; /* NULL when the graph has no collectives */
};

/* ---- Statistics of a step, for RunMetadata ---- */
typedef struct dp_node_timing {
  const char *node; /* borrowed from the compiled graph */
  const char *op;
  const char *device;
  const char *label;                 /* "name = Op(inputs)" */
  int64_t scheduled, started, ended; /* wall microseconds times 1000: nanoseconds since 1970 */
  int32_t thread;
  int32_t output_count;
  const dp_tensor *outputs; /* only valid during the dp_step_stats_fn */
} dp_node_timing;
/* A collector with a lock of its own; what comes out is a StepStats message (worker). */
typedef void (*dp_step_stats_fn)(void *arg, const dp_node_timing *timing);
struct dp_step_stats {
  dp_step_stats_fn record;
  void *arg;
};

#endif
