/* The executor's insides, shared by its files:
 *
 *   executor_frames.c    which loop frame each node belongs to (once, when compiled)
 *   executor_compile.c   a graph becomes items and edges
 *   executor_activate.c  values and deadness travel along edges; frames and iterations come and go
 *   executor_run.c       one node's run: inputs, body, outputs, error, timing
 *   executor_work.c      which thread runs what: rings of ready tasks, surplus, trampoline
 *   executor_async.c     bodies that end later: asynchronous and blocking kernels
 *   executor_stats.c     timing of nodes, listing of what runs
 *   executor.c           runs, their cache, the public functions
 *
 * An item is a compiled node. A run is one dp_executor_run; its values and counters lie in
 * iterations: one for the graph outside of loops, one for each live iteration of each live frame. A
 * runner is a thread's turn at a run. A run starts with one runner and touches its counters without
 * atomic instructions until a second thread may take part (`shared`). */
#ifndef DP_RUNTIME_EXECUTOR_INTERNAL_H
#define DP_RUNTIME_EXECUTOR_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "runtime/executor.h"
#include "runtime/value.h"

/* A body that takes longer on average is expensive: worth another thread. */
#define DP_EXPENSIVE_NANOS 5000

/* ---- Compiled ---- */
typedef enum dp_item_kind {
  DP_ITEM_PLAIN,
  DP_ITEM_ENTER,
  DP_ITEM_EXIT,
  DP_ITEM_NEXT_ITERATION,
} dp_item_kind;

typedef enum dp_item_flags {
  DP_ITEM_MERGE = 1,
  DP_ITEM_CONTROL_TRIGGER = 2,       /* runs alive whatever its inputs are */
  DP_ITEM_RUNS_DEAD = 4,             /* Send and Recv: the body runs when the node is dead */
  DP_ITEM_MAY_OMIT = 8,              /* Switch and Recv: an unset output is a dead one */
  DP_ITEM_REFERENCES = 16,           /* some input comes from a reference output */
  DP_ITEM_ALLOWS_UNINITIALIZED = 32, /* references to uninitialized variables are welcome */
  DP_ITEM_CONSTANT = 64,             /* an Enter whose value goes to all iterations */
  DP_ITEM_CHEAP = 128,               /* never measured, never shared */
  DP_ITEM_DETACHED = 256,            /* asynchronous or blocking: ends by dp_op_done */
  DP_ITEM_READS = 512,               /* an Identity of a reference, which passes it on */
  DP_ITEM_NOTHING = 1024,            /* no body to call; an output lies in the state */
} dp_item_flags;

typedef struct dp_edge {
  int32_t item;    /* the reader */
  int32_t counter; /* its counter */
  int32_t slot;    /* where its value goes; -1 for a control edge */
  uint32_t output : 30;
  uint32_t is_last : 1;  /* of this output: the value may be moved */
  uint32_t is_merge : 1; /* the reader is a Merge */
} dp_edge;

typedef struct dp_item {
  const dp_kernel *kernel;
  void *state;
  const dp_node *node;
  const dp_edge *edges; /* data edges by output, then control edges */
  int32_t data_edges;
  int32_t control_edges;
  int32_t first_input; /* slot in the iteration's values */
  int32_t input_count;
  int32_t output_count;
  int32_t counter; /* index in the iteration's counters */
  uint16_t flags;
  uint8_t kind;
  int32_t frame;         /* where the node runs */
  int32_t child_frame;   /* of an Enter */
  int32_t exit_index;    /* of an Exit, within its frame */
  _Atomic uint32_t cost; /* moving average of nanoseconds; UINT32_MAX before the first run */
  dp_kernel_instance *instance;
  char *label; /* for statistics; made when first wanted */
} dp_item;

/* Pending and dead counts of a node in one word: the low half counts down to 0, the high half
 * counts dead inputs. A Merge's low half counts its control inputs and one for the value; its bit
 * 31 is set when a live value has been chosen. */
typedef _Atomic uint64_t dp_counter;
#define DP_COUNTER_DEAD ((uint64_t)1 << 32)
#define DP_COUNTER_CLAIMED ((uint64_t)1 << 31)
#define DP_COUNTER_PENDING ((uint64_t)0x7fffffff)

/* What is known about a frame before anything runs. Frame 0 is the graph outside of loops. */
typedef struct dp_frame_plan {
  const char *name;
  uint64_t name_hash;
  int32_t parent;
  int32_t depth;
  int32_t parallel_iterations;
  int32_t enter_count, constant_count, exit_count, next_count;
  int32_t counter_count, value_count;
  uint64_t *counters; /* at the start of an iteration */
} dp_frame_plan;

typedef DP_ARRAY(dp_frame_plan) dp_frame_plans;

struct dp_executor {
  dp_refcount references;
  dp_graph *graph;
  dp_device *device;
  int32_t item_count;
  dp_item *items;
  dp_edge *edges;
  int32_t root_count;
  int32_t *roots; /* asynchronous ones first */
  int32_t frame_count;
  dp_frame_plan *frames;
  int32_t max_outputs;
  pthread_mutex_t mutex; /* of what follows, and of labels */
  struct dp_run *free_runs;
  int free_run_count, most_free_runs;
  struct dp_run *active_runs;
};

/* ---- One run ---- */
typedef struct dp_loop_frame dp_loop_frame;
typedef struct dp_run dp_run;

typedef struct dp_iteration {
  dp_loop_frame *frame; /* NULL outside of loops */
  int64_t number;
  _Atomic int64_t outstanding; /* ready or running nodes; not counted outside of loops */
  int32_t child_frames;
  dp_loop_frame *children;
  struct dp_iteration *next_free;
  dp_counter *counters;
  dp_value *values;
} dp_iteration;

typedef struct dp_held_value {
  const dp_item *item;
  dp_value value;
} dp_held_value;

/* A frame is one execution of a loop: made by the first Enter that arrives in an iteration of the
 * parent. All fields are guarded by the run's frame lock. */
struct dp_loop_frame {
  const dp_frame_plan *plan;
  dp_loop_frame *parent; /* NULL when the parent is the graph outside of loops */
  dp_iteration *parent_iteration;
  dp_loop_frame *next; /* sibling, or in the free list */
  uint64_t id;
  int64_t iteration_count; /* number of the newest iteration */
  int32_t outstanding_iterations;
  int32_t pending_inputs;
  dp_iteration **iterations; /* ring of parallel_iterations + 1 */
  int32_t ring_size;
  int32_t dead_exit_count, deferred_count, constant_count;
  const dp_item **dead_exits; /* of the newest iteration */
  dp_held_value *deferred;    /* NextIteration values that wait for room */
  dp_held_value *constants;   /* for iterations to come */
  bool *exit_delivered;
};

typedef struct dp_ready {
  dp_item *item;
  dp_iteration *iteration;
  int64_t scheduled; /* wall clock, with statistics only */
  bool is_dead;
} dp_ready;

/* A queue of ready nodes, in order. capacity is a power of two. */
typedef struct dp_ready_ring {
  dp_ready *items;
  uint32_t first, count, capacity;
} dp_ready_ring;

typedef struct dp_runner {
  dp_run *run;
  struct dp_runner *next;     /* in a free list, or among a thread's deferred ones */
  struct dp_runner *next_all; /* of the run */
  bool is_helper;
  uint32_t tick;     /* counts nodes, for sampling */
  uint32_t patience; /* nodes run while expensive ones waited */
  dp_ready_ring cheap;
  dp_ready_ring expensive;
  dp_op_context context;            /* of bodies that end at once */
  dp_value *outputs;                /* unset between nodes */
  _Atomic(const dp_item *) current; /* a expensive node that runs now, for listings */
  _Atomic int64_t started;
} dp_runner;

/* A body that has not ended yet. Kept in lists of the run; reused. */
typedef struct dp_detached {
  dp_op_context context;
  dp_run *run;
  dp_item *item;
  dp_iteration *iteration;
  bool is_dead;
  _Atomic int phase;
  dp_status *status;
  int64_t started;             /* monotonic */
  int64_t scheduled, launched; /* wall clock, with statistics only */
  struct dp_detached *next, *previous;
  dp_value outputs[];
} dp_detached;

struct dp_run {
  dp_executor *executor;
  dp_step *step;
  dp_executor_done_fn done;
  void *arg;
  dp_run *next, *previous;
  bool shared; /* more than one thread may take part; set by the only one */
  atomic_bool stopped;
  atomic_int active; /* runners and detached bodies */
  dp_iteration *root;

  pthread_mutex_t frame_mutex; /* taken when shared: frames and iterations */
  dp_loop_frame **free_frames; /* by plan */
  dp_iteration **free_iterations;

  pthread_mutex_t mutex; /* what follows */
  dp_status *status;
  dp_runner *free_runners;
  dp_runner *all_runners;
  dp_ready_ring surplus;
  atomic_int surplus_count; /* a hint, read without the lock */
  int helpers;
  dp_detached *free_detached;
  dp_detached *in_flight;
};

/* ---- executor_frames.c ---- */
/* By node id: the frame a node runs in, and the one its outputs belong to. The arrays are malloc'd,
 * also on error. */
typedef struct dp_frame_search {
  dp_frame_plans frames;
  int32_t *frame_of;
  int32_t *child_of;
} dp_frame_search;
DP_MUST_USE dp_status *dp_executor_find_frames(const dp_graph *graph, const dp_fanout *fanout,
                                               dp_frame_search *result_out);

/* ---- executor_compile.c ---- */
DP_MUST_USE dp_status *dp_executor_compile(dp_executor *executor,
                                           const dp_executor_options *options);

/* ---- executor_activate.c ---- */
/* A node is done: moves what it made to its readers, and ends its part in its iteration. */
void dp_run_propagate(dp_runner *runner, const dp_item *item, dp_iteration *iteration, bool is_dead,
                      dp_value *outputs);
dp_iteration *dp_iteration_create(const dp_frame_plan *plan);
void dp_iteration_destroy(dp_iteration *iteration);
/* Sets counters to their start; values are unset already. */
void dp_iteration_start(dp_iteration *iteration, const dp_frame_plan *plan);
/* Releases every value and frame that a run left behind. */
void dp_run_clean(dp_run *run);
void dp_loop_frame_destroy(dp_loop_frame *frame);

/* ---- executor_run.c ---- */
void dp_run_node(dp_runner *runner, const dp_ready *ready);
/* Takes what a body returned: consumes `status`, propagates or fails. */
void dp_run_finish_node(dp_runner *runner, dp_item *item, dp_iteration *iteration, bool is_dead,
                        dp_value *outputs, dp_status *status);
/* What is the same for all nodes that a runner or a detached body runs, and what is a node's. */
void dp_run_prepare_context(const dp_run *run, dp_op_context *context, dp_value *outputs);
void dp_run_fill_context(dp_op_context *context, const dp_ready *ready);
/* The first error wins and stops the step. Consumes `status`. */
void dp_run_fail(dp_run *run, dp_status *status);

/* ---- executor_stats.c ---- */
void dp_run_record(dp_run *run, dp_item *item, const dp_value *outputs, int64_t scheduled,
                   int64_t started);

/* ---- executor_work.c ---- */
void dp_ready_ring_grow(dp_ready_ring *ring);
/* Room for one more at the end. */
static inline dp_ready *dp_ready_ring_add(dp_ready_ring *ring) {
  if (__builtin_expect(ring->count == ring->capacity, 0))
    dp_ready_ring_grow(ring);
  return &ring->items[(ring->first + ring->count++) & (ring->capacity - 1)];
}
static inline bool dp_item_is_cheap(const dp_item *item) {
  return (item->flags & (DP_ITEM_CHEAP | DP_ITEM_DETACHED)) ||
         atomic_load_explicit(&item->cost, memory_order_relaxed) < DP_EXPENSIVE_NANOS;
}
/* Queues a ready node with the runner. */
static inline void dp_executor_runner_add(dp_runner *runner, dp_item *item, dp_iteration *iteration,
                                          bool is_dead) {
  dp_ready_ring *ring = is_dead || dp_item_is_cheap(item) ? &runner->cheap : &runner->expensive;
  dp_ready *ready = dp_ready_ring_add(ring);
  ready->item = item;
  ready->iteration = iteration;
  ready->is_dead = is_dead && !(item->flags & DP_ITEM_CONTROL_TRIGGER);
  ready->scheduled = 0;
  if (__builtin_expect(runner->run->step->stats != NULL, 0))
    ready->scheduled = dp_clock_wall_nanos();
}
dp_runner *dp_executor_runner_take(dp_run *run); /* takes no unit of `active` */
void dp_executor_runner_destroy(dp_runner *runner);
/* Runs what the runner has, here or later or elsewhere; gives back the runner and the unit of
 * `active` that came with it. */
void dp_executor_runner_enter(dp_runner *runner);
/* The runner that this thread runs for the run, or NULL. */
dp_runner *dp_executor_runner_current(const dp_run *run);
/* Whether nothing waits for this thread, which runs the runner. */
bool dp_executor_runner_is_idle(const dp_runner *runner);

/* ---- executor_async.c ---- */
void dp_run_detach(dp_runner *runner, const dp_ready *ready);

/* ---- executor.c ---- */
void dp_run_end(dp_run *run); /* the last unit of `active` is gone */

#endif
