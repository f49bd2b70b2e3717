/* What the files of the master share.
 *
 *   dp_master ── sessions by handle ── plans by signature ── pieces, one a task
 *                                  ├── callables by number: a signature with its options
 *                                  └── partial runs by handle
 *
 * Sessions and plans are reference-counted: a step keeps both until it ends, whatever is closed
 * meanwhile. The master's lock guards the table of sessions; a session's lock guards its plans,
 * callables and partial runs; its planning lock is held while the graph is read or extended. */
#ifndef DP_MASTER_INTERNAL_H
#define DP_MASTER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/map.h"
#include "base/memory.h"
#include "base/timer.h"
#include "graph/graph.h"
#include "master/master.h"
#include "planner/planner.h"
#include "wire/master.pb-c.h"

/* How long a clean-up call may take: a worker that stands still must not pile them up. */
enum { CLEAN_UP_MILLISECONDS = 60000 };

/* ---- A task that a session uses ---- */
typedef struct session_worker {
  char *task;
  dp_worker_peer *peer;
  Tensorflow__GetStatusResponse *status; /* its devices; in the session's arena */
  atomic_bool has_answered;              /* to the question for them */
} session_worker;

typedef struct master_session {
  dp_refcount references;
  dp_master *master;
  char *handle;
  dp_arena *arena;
  Tensorflow__ConfigProto *config; /* never NULL */
  const char *task;                /* the master's own name in the session's cluster */
  char *leader;                    /* of collective groups: who knows the next step id */
  void *cluster;                   /* the session's */
  bool owns_cluster;               /* the client described it */
  dp_cancel *life;                 /* parent of its steps' scopes */
  session_worker *workers;
  size_t worker_count;
  dp_planner_devices devices;
  dp_planner_device *device_items;
  pthread_mutex_t planning; /* guards graph, prepared, graph_version and placements */
  dp_graph *graph;          /* the client's */
  dp_graph *prepared;       /* lowered and placed; NULL when the graph has grown since */
  int64_t graph_version;
  dp_map *placements;   /* node -> device, of stateful nodes */
  pthread_mutex_t lock; /* guards what follows */
  dp_map *plans;        /* signature -> step_plan */
  dp_map *callables;    /* number as 8 bytes -> callable */
  int64_t next_callable;
  dp_map *partials; /* handle -> partial_run */
  int64_t next_partial;
  bool closed;
  int64_t steps_running;
  int64_t last_used;
  int64_t lost_since; /* the client went away during its last call; 0: it did not */
} master_session;

/* ---- What a step asks for ---- */
typedef struct step_signature {
  dp_planner_signature names;
  bool is_partial;
  int64_t collective_key;                /* that the client gives the graph; 0: none */
  const Tensorflow__DebugOptions *debug; /* what its debugger watches; NULL: nothing */
  bool is_callable;
} step_signature;

typedef struct plan_piece {
  size_t worker; /* index into the session's */
  char *graph_handle;
  atomic_bool is_registered;
} plan_piece;

typedef struct plan_waiter plan_waiter;
typedef enum plan_state { PLAN_BUILDING, PLAN_READY, PLAN_FAILED } plan_state;

typedef struct step_plan {
  dp_refcount references;
  master_session *session; /* borrowed: whoever holds a plan holds its session */
  dp_arena *arena;         /* names and keys */
  step_signature signature;
  const char **feed_keys; /* in the order of the signature */
  const char **fetch_keys;
  plan_piece *pieces;
  size_t piece_count;
  atomic_bool has_pieces;         /* the two above are set */
  int64_t collective_key;         /* 0: there are no collectives in it */
  size_t client_piece;            /* the piece that feeds go to and fetches come from */
  atomic_int_fast64_t debug_runs; /* under a debugger */
  plan_state state;
  dp_status *failure;
  plan_waiter *waiters;
} step_plan;

/* ---- session.c ---- */
void dp_master_create_session(dp_master *master, const Tensorflow__CreateSessionRequest *request,
                              dp_cancel *cancel, dp_master_call_done_fn done, void *arg);
/* Retained and marked as used. ABORTED when there is none. */
DP_MUST_USE dp_status *dp_master_session_find(dp_master *master, const char *handle,
                                              master_session **session_out);
void dp_master_session_release(master_session *session);
/* After a call that was cancelled without a deadline: the client went away. Unless it comes back,
 * the session is closed after a while. `cancel` is the call's scope, or NULL. */
void dp_master_session_note_loss(master_session *session, const dp_cancel *cancel);
void dp_master_session_close(dp_master *master, master_session *session);
DP_MUST_USE dp_status *dp_master_session_extend(master_session *session,
                                                const Tensorflow__ExtendSessionRequest *request,
                                                int64_t *version_out);

/* ---- plan.c ---- */
typedef void (*plan_done_fn)(void *arg, dp_status *status, step_plan *plan);
/* Finds the plan or makes it; `done` gets it retained. It waits no longer than until the deadline
 * or the end of `cancel` (may be NULL), whatever becomes of the plan. */
void dp_master_plan_get(master_session *session, const step_signature *signature, dp_cancel *cancel,
                        int64_t deadline, plan_done_fn done, void *arg);
void dp_master_plan_release(step_plan *plan);
void dp_master_plans_drop(master_session *session);

/* ---- step.c ---- */
typedef struct step_feed {
  size_t index; /* in the plan's signature */
  dp_tensor tensor;
} step_feed;

/* One round of RunGraph calls. */
typedef struct step_order {
  step_plan *plan; /* retained by the caller until done */
  int64_t step_id;
  const step_feed *feeds;
  size_t feed_count;
  const size_t *fetches; /* indices in the plan's signature */
  size_t fetch_count;
  const Tensorflow__RunOptions *options; /* may be NULL */
  bool is_partial, is_last_partial;
} step_order;

/* What came back: tensors in the order of `fetches`. */
typedef struct step_result {
  dp_tensor *fetches;
  size_t fetch_count;
  Tensorflow__RunMetadata *metadata; /* NULL unless asked for; lives during the callback */
} step_result;
typedef void (*step_done_fn)(void *arg, dp_status *status, step_result *result);

/* The order is borrowed for the call. A step that ends (not a partial one that goes on) is cleaned
 * up on all its workers. */
void dp_master_step_run(const step_order *order, dp_cancel *cancel, int64_t deadline,
                        step_done_fn done, void *arg);
int64_t dp_master_step_id(void);

/* ---- sequence.c ---- */
/* The id of a plan's next step. With collectives in it that is what the leader's table says, so
 * that masters of several tasks agree. Then, and only then, dp_master_step_retire must follow the
 * step, in whichever way it ended. */
typedef void (*step_id_fn)(void *arg, dp_status *status, int64_t step_id);
void dp_master_step_begin(step_plan *plan, dp_cancel *cancel, int64_t deadline, step_id_fn done,
                          void *arg);
void dp_master_step_retire(step_plan *plan, const dp_status *outcome);
int64_t dp_master_deadline(int64_t milliseconds);
/* The deadline that options or, without one there, the session's configuration set: a little before
 * the client's own, so that it hears from us whom the step was waiting for. */
int64_t dp_master_step_deadline(const master_session *session,
                                const Tensorflow__RunOptions *options);

/* ---- debug.c ---- */
/* What a debugger watches in a run; NULL when it watches nothing. UNIMPLEMENTED when it wants it in
 * a way that would be left undone in silence. */
DP_MUST_USE dp_status *dp_master_debug_read(const Tensorflow__RunOptions *options,
                                            const Tensorflow__DebugOptions **debug_out);
const Tensorflow__DebugOptions *dp_master_debug_copy(const Tensorflow__DebugOptions *debug,
                                                     dp_arena *arena);
/* The part of a plan's key that tells what is watched. */
void dp_master_debug_print(const Tensorflow__DebugOptions *debug, dp_text *key);
/* Tells the debugger of run `index` of a plan that it watches. Whoever builds the plan does that
 * for the first run, before workers tell of their graphs; each further run for itself, where files
 * may be waited for. */
DP_MUST_USE dp_status *dp_master_debug_first(step_plan *plan);
DP_MUST_USE dp_status *dp_master_debug_next(step_plan *plan, const Tensorflow__RunOptions *options);

/* ---- callable.c ---- */
DP_MUST_USE dp_status *dp_master_callable_make(master_session *session,
                                               const Tensorflow__CallableOptions *options,
                                               int64_t *handle_out);
DP_MUST_USE dp_status *dp_master_callable_release(master_session *session, int64_t handle);
void dp_master_callables_drop(master_session *session);

/* ---- partial.c ---- */
void dp_master_partial_setup(master_session *session,
                             const Tensorflow__PartialRunSetupRequest *request, dp_cancel *cancel,
                             dp_master_call_done_fn done, void *arg);
void dp_master_partial_run(master_session *session, const dp_run_step_request *request,
                           dp_cancel *cancel, dp_master_step_done_fn done, void *arg);
void dp_master_partials_drop(master_session *session);

/* Adds ": TASK (why it does not answer)", or without the reason when nothing is known. */
void dp_master_name_worker(const session_worker *worker, dp_text *text);

/* ---- watch.c ---- */
/* Adds one phrase: who waits for whom and why. Called with the list's lock held: short, no calls.
 */
typedef void (*master_watch_fn)(void *arg, dp_text *text);
typedef struct master_watch {
  struct master_watch *next, *previous;
  int64_t since;
  int64_t next_word; /* when the log says it again */
  master_watch_fn describe;
  void *arg;
} master_watch;
void dp_master_watch_begin(dp_master *master, master_watch *watch, master_watch_fn describe,
                           void *arg);
void dp_master_watch_end(dp_master *master, master_watch *watch);
/* A line for each wait, at most `most`. */
void dp_master_watch_print(dp_master *master, int most, dp_text *text);
void dp_master_watch_start(dp_master *master);
void dp_master_watch_stop(dp_master *master);

struct dp_master {
  dp_worker *worker;
  const dp_master_cluster_ops *cluster;
  void *cluster_arg;
  dp_pool *blocking;
  int64_t session_idle_nanos, session_lost_nanos;
  dp_cancel *life;
  pthread_mutex_t lock; /* guards what follows */
  dp_map *sessions;
  int64_t live_sessions; /* open ones, and closed ones that a step or a plan still holds */
  dp_timer collector;    /* of idle sessions: the next look */
  bool is_collecting;    /* a look is under way */
  bool is_stopping;
  pthread_cond_t ended;       /* live_sessions went down, or a look is over */
  pthread_mutex_t watch_lock; /* guards what follows */
  master_watch *watches;
  dp_timer watch_timer;
  bool watch_stopped;
};

/* ---- Counting down calls to several workers ---- */
typedef struct worker_calls {
  pthread_mutex_t lock;
  size_t left;
  dp_status *status; /* the first error */
} worker_calls;
static inline void worker_calls_init(worker_calls *calls, size_t count) {
  pthread_mutex_init(&calls->lock, NULL);
  calls->left = count;
  calls->status = NULL;
}
/* Consumes `status`; true for the last one. */
static inline bool worker_calls_count(worker_calls *calls, dp_status *status) {
  pthread_mutex_lock(&calls->lock);
  dp_status_update(&calls->status, status);
  bool is_last = --calls->left == 0;
  pthread_mutex_unlock(&calls->lock);
  return is_last;
}
static inline dp_status *worker_calls_deinit(worker_calls *calls) {
  pthread_mutex_destroy(&calls->lock);
  return calls->status;
}

#endif
