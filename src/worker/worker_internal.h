/* What the files of the worker share: the task's tables and who owns what.
 *
 *   dp_worker ── sessions by handle ── graphs by handle ── one executor for each device
 *            └── steps by id ── rendezvous (found or made by whoever comes first: RunGraph of our
 *                               master, or RecvTensor of a peer that is already further)
 *
 * Sessions and graphs are reference-counted, so that a step keeps what it runs on although its
 * session is closed meanwhile.
 *
 * Locks, none of which is held while something is called: `tables` guards the tables of sessions
 * and graphs; a step takes it shared, only coming and going takes it alone. Each stripe of the step
 * table has its lock (steps.c); a run and a call have theirs (run.c); a step's receives have one
 * (transfers.c). Runs under way are counted by an atomic number. */
#ifndef DP_WORKER_INTERNAL_H
#define DP_WORKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/event.h"
#include "base/map.h"
#include "base/memory.h"
#include "collective/collective.h"
#include "runtime/executor.h"
#include "runtime/function.h"
#include "runtime/session_state.h"
#include "wire/device_name.h"
#include "worker/worker.h"

typedef struct worker_session {
  dp_refcount references;
  dp_worker *worker; /* borrowed */
  char *handle;
  char *task;        /* this task's name in the session */
  char *task_prefix; /* the same and "/" */
  void *peers;       /* where it finds the other tasks */
  void *own_peers;   /* the same when they are of a cluster that the client described; else NULL */
  bool is_implied; /* made by RegisterGraph for a master that creates none; goes with its graphs */
  char *master_task; /* whose session it is; "" when the master did not say */
  uint64_t master_incarnation;
  dp_device **devices; /* the worker's, or isolated copies; retained */
  size_t device_count;
  dp_kernel_cache **kernels; /* one for each device */
  dp_pool *threads;          /* of its own, when the client's configuration wants that; else NULL */
  dp_session_state *state;   /* tensors that steps left for later ones */
  dp_map *graphs;            /* handle -> registered_graph; guarded by the worker's `tables` */
} worker_session;

/* One device's share of a registered graph. */
typedef struct graph_unit {
  dp_device *device; /* borrowed from the session */
  dp_executor *executor;
  dp_function_runtime *functions;
} graph_unit;

typedef struct registered_graph {
  dp_refcount references;
  char *handle;
  worker_session *session; /* retained */
  graph_unit *units;
  size_t unit_count;
  dp_arena *arena; /* of what follows */
  Tensorflow__GraphOptions *options;
  bool has_collectives;
  const char *leader; /* of the groups in it */
} registered_graph;

typedef struct graph_run graph_run;
typedef struct remote_receive remote_receive;

/* The rendezvous of a step, and how long it must stay. The stripe's lock guards what is below the
 * rendezvous and above the receives. */
typedef struct step_entry {
  dp_worker *worker;
  int64_t id;
  dp_rendezvous *rendezvous;
  dp_board *board;            /* chunks of collectives; NULL until there are some */
  dp_status *failure;         /* of a run of it */
  int32_t users;              /* runs and receives that are under way */
  worker_session *session;    /* a RunGraph of it came, so the step stays until CleanupGraph; else
                                 NULL. Retained */
  bool forgotten;             /* off the table, goes with its last user */
  _Atomic(dp_cancel *) scope; /* of its run, retained; NULL until there is one */
  graph_run *partial; /* retained until forgotten: later calls of a partial run find it here */
  pthread_mutex_t receive_lock; /* guards what follows */
  remote_receive *receives;     /* values asked of other tasks, a doubly linked list */
} step_entry;
typedef DP_ARRAY(step_entry *) step_list;

/* A part of the table of steps. */
enum { STEP_STRIPES = 16 };
typedef struct step_stripe {
  pthread_mutex_t lock;
  dp_map *steps; /* id as 8 bytes -> step_entry */
} step_stripe;

/* How many failed steps a task remembers, for peers that come late. */
enum { FAILED_STEPS = 64 };
typedef struct failed_step {
  int64_t id;
  dp_status *why; /* NULL: none */
} failed_step;

struct dp_worker {
  dp_worker_peer local; /* first: the local peer is the worker */
  char *task;
  dp_device **devices;
  size_t device_count;
  dp_pool *compute, *blocking;
  const dp_cluster_ops *peers;
  void *peers_arg;
  dp_refcount running; /* runs under way, and 1 until the worker is destroyed */
  dp_event idle;       /* running became 0 */
  dp_cancel *life;     /* parent of every step's scope */
  dp_collectives *collectives;
  _Atomic uint64_t next_request; /* id of the next RecvTensor */
  pthread_rwlock_t tables;       /* guards what follows, and the sessions' graphs */
  dp_map *sessions;              /* handle -> worker_session */
  uint64_t next_graph;
  uint64_t sessions_ever;
  step_stripe stripes[STEP_STRIPES];
  atomic_bool has_failed_steps;           /* there ever was one */
  pthread_mutex_t failed_lock;            /* guards what follows */
  failed_step failed_steps[FAILED_STEPS]; /* the last ones with collectives that failed here */
  size_t next_failed_step;
};

/* ---- sessions.c ---- */
DP_MUST_USE dp_status *
dp_worker_session_create(dp_worker *worker, const Tensorflow__CreateWorkerSessionRequest *request,
                         worker_session **session_out);
/* Puts a session on the table unless its handle is there already. Sessions that an earlier life of
 * the same master left behind go: nobody will ever use or delete them. */
void dp_worker_session_add(dp_worker *worker, worker_session *session);
void dp_worker_session_release(worker_session *session);
/* Retained. ABORTED when the master speaks of a session from before this task's restart. */
DP_MUST_USE dp_status *dp_worker_session_find(dp_worker *worker, const char *handle,
                                              worker_session **session_out);
/* Retained. For masters that never call CreateWorkerSession. */
DP_MUST_USE dp_status *dp_worker_session_imply(dp_worker *worker, const char *handle,
                                               worker_session **session_out);
/* Takes the session, its graphs and its steps off the tables; steps that run keep what they need,
 * but what waits in them is ended. */
void dp_worker_session_remove(dp_worker *worker, const char *handle);
/* The same when it was implied and has no graph left. */
void dp_worker_session_remove_if_unused(dp_worker *worker, worker_session *session);

/* ---- graphs.c ---- */
/* Consumes `graph`. */
DP_MUST_USE dp_status *dp_worker_graph_register_take(dp_worker *worker, worker_session *session,
                                                     dp_graph *graph,
                                                     const dp_worker_registration *registration,
                                                     char **handle_out);
DP_MUST_USE dp_status *dp_worker_graph_find(dp_worker *worker, worker_session *session,
                                            const char *handle, registered_graph **graph_out);
DP_MUST_USE dp_status *dp_worker_graph_remove(dp_worker *worker, worker_session *session,
                                              const char *handle);
void dp_worker_graph_release(registered_graph *graph);

/* ---- worker.c ---- */
/* A run is over; the last one lets dp_worker_destroy go on, so nothing of the worker may be touched
 * afterwards. */
void dp_worker_run_ended(dp_worker *worker);

/* ---- steps.c ---- */
void dp_worker_steps_init(dp_worker *worker);
void dp_worker_steps_deinit(dp_worker *worker);
/* The lock that guards an entry. */
pthread_mutex_t *dp_worker_step_lock(dp_worker *worker, const step_entry *step);
size_t dp_worker_steps_count(dp_worker *worker);
/* Adds all steps to the list; each counts as used until dp_worker_step_leave. */
void dp_worker_steps_list(dp_worker *worker, step_list *steps);
/* Finds or makes the entry and counts the caller as a user; `session` is the one that runs it, NULL
 * for receives. */
step_entry *dp_worker_step_enter(dp_worker *worker, int64_t id, worker_session *session);
void dp_worker_step_leave(dp_worker *worker, step_entry *step);
/* Takes the step off the table and ends what still waits in it. */
void dp_worker_step_forget(dp_worker *worker, int64_t id);
/* The same for the entry of a run, unless it is off the table already: another may have its id. */
void dp_worker_step_forget_run(dp_worker *worker, step_entry *step);
/* Forgets the steps of a session; of all with NULL. */
void dp_worker_steps_clear(dp_worker *worker, const worker_session *session);
/* So that dp_worker_end_steps_of finds it. */
void dp_worker_step_set_scope(step_entry *step, dp_cancel *scope);

/* The step's board, made if there is none; retained by the step. */
dp_board *dp_worker_step_board(dp_worker *worker, step_entry *step);
/* Why the step of that id failed here; NULL when it did not, or when it has been run again since.
 * Owned by the caller. */
dp_status *dp_worker_step_failure(dp_worker *worker, int64_t id);

/* ---- transfers.c ---- */
/* What a dp_edge_router of a session resolves; its argument is the session. */
DP_MUST_USE dp_status *dp_worker_edge_resolve(void *session, const dp_rendezvous_key *key,
                                              bool is_sender, dp_edge_route *route_out);
/* For the rendezvous of a step; its argument is the step_entry. */
extern const dp_rendezvous_remote_ops dp_worker_remote_ops;
/* Calls visit, with a lock held, for each value that another task was asked for. */
typedef void (*worker_receive_fn)(void *arg, int64_t step_id, const char *key, int64_t age_nanos);
void dp_worker_visit_receives(step_entry *step, worker_receive_fn visit, void *arg);

/* ---- collectives.c ---- */
/* Reads what a registration says about collectives. */
void dp_worker_graph_read_collectives(registered_graph *graph,
                                      const dp_worker_registration *registration);
void dp_worker_collective_step_init(dp_worker *worker, const registered_graph *graph,
                                    step_entry *step, dp_collective_step *step_out);
void dp_worker_complete_group(dp_worker *worker, const void *request, dp_cancel *cancel,
                              dp_worker_call_done_fn done, void *arg);
void dp_worker_complete_instance(dp_worker *worker, const void *request, dp_cancel *cancel,
                                 dp_worker_call_done_fn done, void *arg);
void dp_worker_get_step_sequence(dp_worker *worker, const void *request, dp_cancel *cancel,
                                 dp_worker_call_done_fn done, void *arg);
/* The device that a peer means, whatever its cluster calls this task; NULL: none. */
const dp_device *dp_worker_find_device(const dp_worker *worker, const dp_device_name *name);

/* ---- run.c ---- */
/* Ends what still runs, then releases; consumes `why`. */
void dp_worker_run_abandon(graph_run *run, dp_status *why);

/* ---- step_stats.c ---- */
typedef struct stats_collector stats_collector;
stats_collector *dp_stats_collector_create(void);
void dp_stats_collector_destroy(stats_collector *collector);
dp_step_stats *dp_stats_collector_sink(stats_collector *collector);
Tensorflow__StepStats *dp_stats_collector_message(stats_collector *collector, dp_arena *arena);

#endif
