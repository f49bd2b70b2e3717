/* What the files of the master share.
 *
 *   dp_master ── sessions by handle ── plans by signature ── pieces, one per task
 *                                  ├── callables by number: a signature with its options, its plan
 *                                  ├── partial runs by handle
 *                                  └── watches: what its steps wait for
 *
 * Sessions and plans are reference-counted: a run keeps both until it ends, whatever is closed
 * meanwhile. A warm step takes locks of its own session only: of its stripe in the table of
 * sessions, of the session (its plans, callables and partial runs) and of its watches. The master's
 * lock is for the beginning and the end of sessions. A session's planning lock is held while the
 * graph is read or extended. Order of locks: master, stripe, session, watches. */
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
  atomic_bool is_used;                   /* a plan has a piece there: the task is watched */
  dp_status *lost;                       /* why it is lost; else NULL. Guarded by watch_lock, */
  int64_t lost_since;                    /* as the time */
  bool has_restarted;                    /* and whether it can come back with what it had */
} session_worker;

/* ---- What a step asks for ---- */
typedef struct step_signature {
  dp_planner_signature names;
  bool is_partial;
  int64_t collective_key;                /* that the client gives the graph; 0: none */
  const Tensorflow__DebugOptions *debug; /* what its debugger watches; NULL: nothing */
  bool is_callable;
  uint64_t hash; /* of all the above: dp_master_signature_hash */
} step_signature;

/* Plans by signature. */
typedef struct step_plan step_plan;
typedef struct plan_table {
  dp_map *by_hash; /* hash as 8 bytes -> the first plan of a chain */
  size_t count;
} plan_table;

typedef struct callable callable;
typedef struct partial_run partial_run;
typedef struct master_watch master_watch;

typedef struct master_session {
  dp_refcount references;
  struct master_session *next_live, *previous_live; /* guarded by the master's lock */
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
  dp_map *placements;             /* node -> device, of stateful nodes */
  atomic_uint_fast64_t next_step; /* what the next step's id is made of */
  atomic_int_fast64_t last_used;
  atomic_int_fast64_t lost_since; /* the client went away during its last call; 0: it did not */
  pthread_mutex_t lock;           /* guards what follows */
  plan_table plans;
  dp_map *callables; /* number as 8 bytes -> callable */
  int64_t next_callable;
  dp_map *partials; /* handle -> partial_run */
  int64_t next_partial;
  bool closed;
  pthread_mutex_t watch_lock; /* guards what follows */
  master_watch *watches;
} master_session;

/* ---- What a signature becomes ---- */
typedef struct plan_piece {
  size_t worker; /* index into the session's */
  char *graph_handle;
  atomic_bool is_registered;
} plan_piece;

typedef struct plan_waiter plan_waiter;
typedef enum plan_state { PLAN_BUILDING, PLAN_READY, PLAN_FAILED } plan_state;

struct step_plan {
  dp_refcount references;
  step_plan *next;         /* with the same hash; guarded by the session's lock */
  master_session *session; /* borrowed: whoever holds a plan holds its session */
  dp_arena *arena;         /* names and keys */
  step_signature signature;
  const char **feed_keys; /* in the order of the signature */
  const char **fetch_keys;
  const char **recv_keys; /* the same without those that stand there twice */
  size_t recv_key_count;
  plan_piece *pieces;
  size_t piece_count;
  atomic_bool has_pieces;         /* the two above are set */
  int64_t collective_key;         /* 0: there are no collectives in it */
  size_t client_piece;            /* the piece that feeds go to and fetches come from */
  atomic_int_fast64_t debug_runs; /* under a debugger */
  plan_state state;
  dp_status *failure;
  plan_waiter *waiters;
};

/* ---- table.c ---- */
enum { SESSION_STRIPES = 16 };
typedef struct session_stripe {
  pthread_mutex_t lock;
  dp_map *sessions;  /* handle -> master_session */
  char unshared[64]; /* no two stripes in one cache line */
} session_stripe;
typedef struct session_table {
  session_stripe stripes[SESSION_STRIPES];
} session_table;
void dp_session_table_init(session_table *table);
void dp_session_table_deinit(session_table *table);
/* Consumes a reference; remove hands it back. */
void dp_session_table_add_take(session_table *table, master_session *session);
bool dp_session_table_remove(session_table *table, master_session *session);
/* Retained, or NULL. */
master_session *dp_session_table_find(session_table *table, const char *handle);
/* The first session that `wants` likes (any with NULL), retained; or NULL. Called with the stripe's
 * lock held, so that nobody can find the session meanwhile. */
typedef bool (*session_pick_fn)(void *arg, master_session *session);
master_session *dp_session_table_pick(session_table *table, session_pick_fn wants, void *arg);
typedef void (*session_visit_fn)(void *arg, master_session *session);
void dp_session_table_visit(session_table *table, session_visit_fn visit, void *arg);
size_t dp_session_table_count(session_table *table);

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
/* Does nothing when it is closed already. */
void dp_master_session_close(master_session *session);
DP_MUST_USE dp_status *dp_master_session_extend(master_session *session,
                                                const Tensorflow__ExtendSessionRequest *request,
                                                int64_t *version_out);
/* Tells a worker that something can go. Nobody waits for the answer. */
void dp_master_tell_worker(const session_worker *worker, dp_worker_method method,
                           const void *request);

/* ---- signature.c ---- */
uint64_t dp_master_signature_hash(const step_signature *signature);
/* Part by part; the hashes are not looked at. */
bool dp_master_signature_equals(const step_signature *a, const step_signature *b);
void dp_plan_table_init(plan_table *table);
void dp_plan_table_deinit(plan_table *table); /* an empty one */
step_plan *dp_plan_table_find(const plan_table *table, const step_signature *signature);
void dp_plan_table_add(plan_table *table, step_plan *plan);
bool dp_plan_table_remove(plan_table *table, step_plan *plan);
/* Removes any plan; NULL when the table is empty. */
step_plan *dp_plan_table_take(plan_table *table);

/* ---- plan.c ---- */
typedef void (*plan_done_fn)(void *arg, dp_status *status, step_plan *plan);
/* Finds the plan or makes it; `done` gets it retained. It waits no longer than until the deadline
 * or the end of `cancel` (may be NULL), whatever becomes of the plan. */
void dp_master_plan_get(master_session *session, const step_signature *signature, dp_cancel *cancel,
                        int64_t deadline, plan_done_fn done, void *arg);
void dp_master_plan_release(step_plan *plan);
void dp_master_plans_drop(master_session *session);

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

/* ---- watch.c ---- */
/* Adds one phrase: who waits for whom and why. Called with the locks of the master and of the list
 * held: short, no calls. */
typedef void (*master_watch_fn)(void *arg, dp_text *text);
struct master_watch {
  master_watch *next, *previous;
  dp_cancel *scope; /* borrowed: what ends the wait when a task is lost; NULL: it ends by itself */
  int64_t since;
  int64_t next_word; /* when the log says it again */
  master_watch_fn describe;
  void *arg;
};
void dp_master_watch_begin(master_session *session, master_watch *watch, dp_cancel *scope,
                           master_watch_fn describe, void *arg);
void dp_master_watch_end(master_session *session, master_watch *watch);
/* A line for each wait, at most `most`. */
void dp_master_watch_print(dp_master *master, int most, dp_text *text);
void dp_master_watch_start(dp_master *master);
void dp_master_watch_stop(dp_master *master);

/* ---- lost.c ---- */
/* A plan has a piece on that worker. */
void dp_master_worker_use(session_worker *worker);
/* The end of the session: it uses none of its workers any more. */
void dp_master_workers_unuse(master_session *session);
/* What the client hears. Consumes `status`. A client repeats a call by itself when it hears
 * UNAVAILABLE, and a step would be done twice; so a loss is ABORTED to it. */
dp_status *dp_master_status_for_client(const master_session *session, dp_status *status);

/* ---- run.c: one run, from the client's call to its answer ---- */
typedef struct step_run step_run;
/* Answers in the form of the run's call. Consumes `status`; may take the fetched tensors. */
typedef void (*run_answer_fn)(step_run *run, dp_status *status);

typedef struct run_piece {
  step_run *run;
  atomic_bool is_done;
} run_piece;

struct step_run {
  /* The call */
  dp_arena *arena;         /* of the run and of what it points to */
  master_session *session; /* retained */
  dp_cancel *call_scope;   /* retained; may be NULL */
  int64_t deadline;
  run_answer_fn answer;
  union {
    dp_master_step_done_fn step;
    dp_master_callable_done_fn callable;
  } done;
  void *arg;
  callable *callable;   /* retained; NULL unless it runs one */
  partial_run *partial; /* retained; NULL unless it is a call of one */
  bool is_partial, is_last_partial;
  bool wants_metadata;
  Tensorflow__ExecutorOpts executor_options;
  const Tensorflow__DebugOptions *debug; /* what a debugger watches; NULL: nothing */
  dp_named_tensor *sends;                /* what is fed, by rendezvous key */
  size_t send_count;
  dp_named_tensor *fetched; /* by the client's names; unset until they are here */
  const char *const *fetch_keys;
  size_t fetch_count;
  const char **recv_keys; /* those, each once */
  size_t recv_key_count;
  /* The plan */
  step_plan *plan; /* retained; NULL until it is known */
  /* The id */
  int64_t step_id;
  bool has_begun; /* with an id that must be retired */
  /* RunGraph */
  bool has_started; /* workers know of the step */
  run_piece *pieces;
  worker_calls calls;
  dp_cancel *scope;
  dp_cancel_token call_token;
  bool is_linked; /* the scope is linked to the call's */
  master_watch watch;
  Tensorflow__RunMetadata *metadata; /* NULL unless wanted; guarded by the lock of the calls */
};

/* Consumes the reference to `session`; the rest is borrowed. The caller sets what the form of the
 * call decides: answer, done, arg, what is fed and fetched. */
step_run *dp_master_run_create(master_session *session, const Tensorflow__RunOptions *options,
                               dp_cancel *cancel);
/* Makes room for what is fed and fetched. */
void dp_master_run_reserve(step_run *run, size_t feeds, size_t fetches);
/* Starts a run that has no plan yet. The signature is borrowed for the call. */
void dp_master_run_find_plan(step_run *run, const step_signature *signature);
/* Starts a run with a plan that is ready. Consumes the reference to it. */
void dp_master_run_planned(step_run *run, step_plan *plan);
/* Answers, cleans up, and destroys the run. Consumes `status`. */
void dp_master_run_finish(step_run *run, dp_status *status);

/* ---- step.c ---- */
/* RunGraph on all tasks of the plan, then dp_master_run_finish. */
void dp_master_step_start(step_run *run);
/* A fresh id for a step without collectives. */
int64_t dp_master_step_id(master_session *session);
int64_t dp_master_deadline(int64_t milliseconds);
/* The deadline that options or, without one there, the session's configuration set: a little before
 * the client's own, so that it hears from us whom the step was waiting for. */
int64_t dp_master_step_deadline(const master_session *session,
                                const Tensorflow__RunOptions *options);

/* ---- fetch.c ---- */
/* Puts the tensors of a worker's answer where the client wants them: fetched[i] is that of keys[i].
 * Keys may stand there twice, and the answer may have any order. INTERNAL when one is missing. */
DP_MUST_USE dp_status *dp_master_fetches_take(const char *const *keys, dp_named_tensor *fetched,
                                              size_t count, dp_run_graph_response *response);

/* ---- sequence.c ---- */
/* The id of a plan's next step. With collectives in it that is what the leader's table says, so
 * that masters of several tasks agree. Then, and only then, dp_master_step_retire must follow the
 * step, in whichever way it ended. */
typedef void (*step_id_fn)(void *arg, dp_status *status, int64_t step_id);
void dp_master_step_begin(step_plan *plan, dp_cancel *cancel, int64_t deadline, step_id_fn done,
                          void *arg);
void dp_master_step_retire(step_plan *plan, const dp_status *outcome);

/* ---- debug.c ---- */
/* What a debugger watches in a run; NULL when it watches nothing. UNIMPLEMENTED when it wants it in
 * a way that would be left undone in silence. */
DP_MUST_USE dp_status *dp_master_debug_read(const Tensorflow__RunOptions *options,
                                            const Tensorflow__DebugOptions **debug_out);
const Tensorflow__DebugOptions *dp_master_debug_copy(const Tensorflow__DebugOptions *debug,
                                                     dp_arena *arena);
/* Tells the debugger of run `index` of a plan that it watches. Whoever builds the plan does that
 * for the first run, before workers tell of their graphs; each further run for itself, where files
 * may be waited for. */
DP_MUST_USE dp_status *dp_master_debug_first(step_plan *plan);
DP_MUST_USE dp_status *dp_master_debug_next(step_plan *plan, const Tensorflow__DebugOptions *debug);

/* ---- callable.c ---- */
DP_MUST_USE dp_status *dp_master_callable_make(master_session *session,
                                               const Tensorflow__CallableOptions *options,
                                               int64_t *handle_out);
DP_MUST_USE dp_status *dp_master_callable_release(master_session *session, int64_t handle);
void dp_master_callables_drop(master_session *session);
void dp_master_callable_unref(callable *made);
/* Later runs of the callable have the plan at hand. */
void dp_master_callable_keep_plan(callable *made, master_session *session, step_plan *plan);

/* ---- partial.c ---- */
void dp_master_partial_setup(master_session *session,
                             const Tensorflow__PartialRunSetupRequest *request, dp_cancel *cancel,
                             dp_master_call_done_fn done, void *arg);
/* Consumes the reference to `session`. */
void dp_master_partial_run(master_session *session, const dp_run_step_request *request,
                           dp_cancel *cancel, dp_master_step_done_fn done, void *arg);
void dp_master_partials_drop(master_session *session);
void dp_master_partial_unref(partial_run *partial);

/* ---- collect.c ---- */
void dp_master_collect_start(dp_master *master);
/* No further look begins; one that is under way may still be. */
void dp_master_collect_stop(dp_master *master);

/* Adds ": TASK (why it does not answer)", or without the reason when nothing is known. */
void dp_master_name_worker(const session_worker *worker, dp_text *text);

struct dp_master {
  dp_worker *worker;
  const dp_cluster_ops *cluster;
  void *cluster_arg;
  dp_pool *blocking;
  int64_t session_idle_nanos, session_lost_nanos;
  dp_cancel *life;
  session_table sessions; /* open ones */
  pthread_mutex_t lock;   /* guards what follows */
  master_session *live;   /* open ones, and those that a call, a run or a plan still holds */
  int64_t live_sessions;  /* not destroyed yet */
  pthread_cond_t ended;   /* live_sessions went down, or a look at unused sessions is over */
  dp_timer collector;     /* of unused sessions: the next look */
  bool is_collecting;     /* a look is under way */
  bool is_stopping;
  dp_timer watch_timer;
  bool watch_stopped;
};

#endif
