/* Collectives: each device of a group brings a tensor, and each gets a result that depends on all
 * of them: a reduction (for example the sum), a gather (the tensors concatenated), a broadcast (the
 * tensor of one member), or an all-to-all (one row from each member).
 *
 * A group has a key and a size; each collective of a group has an instance key. Members may be
 * devices of several tasks. Every member reports to one task, the leader. When the group is
 * complete, the leader sends the list of members to all of them; the order in the list is their
 * rank. Then tensors move in chunks under keys (board.h): in rings for reductions and gathers, in
 * trees for broadcasts, directly for all-to-all. Keys, chunks and ranks are TensorFlow's, so that a
 * genuine task can be a member.
 *
 * There is no network here: other tasks are reached through the peer table, which the worker fills.
 * No thread blocks; every wait ends with its cancel scope. An error ends the collective for all
 * members that can be told. The caller supplies the function that merges two chunks. All functions
 * may be called from any thread. */
#ifndef DP_COLLECTIVE_COLLECTIVE_H
#define DP_COLLECTIVE_COLLECTIVE_H

#include "base/cancel.h"
#include "base/text.h"
#include "base/thread.h"
#include "collective/board.h"
#include "tensor/tensor.h"
#include "wire/worker.pb-c.h"

typedef struct dp_collectives dp_collectives;

/* The numbers are TensorFlow's on the wire. */
typedef enum dp_collective_kind {
  DP_COLLECTIVE_REDUCTION = 0,
  DP_COLLECTIVE_BROADCAST = 1,
  DP_COLLECTIVE_GATHER = 2,
  DP_COLLECTIVE_ALL_TO_ALL = 4,
} dp_collective_kind;

/* ---- The peer table ---- */
/* `response` is valid during the call; NULL with an error. */
typedef void (*dp_collective_group_fn)(void *arg, dp_status *status,
                                       const Tensorflow__CompleteGroupResponse *response);
typedef void (*dp_collective_instance_fn)(void *arg, dp_status *status, int32_t source_rank);

/* The calls of one task to another. `peers` is dp_collective_step.peers_arg; requests are borrowed
 * for the call. */
typedef struct dp_collective_peer_ops {
  void (*complete_group)(void *peers, const char *leader,
                         const Tensorflow__CompleteGroupRequest *request, dp_cancel *cancel,
                         dp_collective_group_fn done, void *arg);
  void (*complete_instance)(void *peers, const char *leader,
                            const Tensorflow__CompleteInstanceRequest *request, dp_cancel *cancel,
                            dp_collective_instance_fn done, void *arg);
  /* Fetches request->num_bytes bytes to `to`, or, when `to` is NULL, into a tensor that the
   * callback gets. */
  void (*receive)(void *peers, const char *task, const Tensorflow__RecvBufRequest *request,
                  void *to, dp_cancel *cancel, dp_board_value_fn done, void *arg);
  /* Checks that the task of this device answers and has not restarted since it had this
   * incarnation. Otherwise the error names the task. */
  void (*check)(void *peers, const char *task, const char *device, uint64_t incarnation,
                dp_cancel *cancel, dp_board_posted_fn done, void *arg);
} dp_collective_peer_ops;

/* What the collective ops of one step have in common. Borrowed until all of them are done. */
typedef struct dp_collective_step {
  dp_collectives *collectives;
  dp_board *board;
  const dp_collective_peer_ops *peers; /* NULL: this task is alone */
  void *peers_arg;
  const char *task;     /* the name of this task, "/job:worker/replica:0/task:0" */
  const char *leader;   /* the task that completes groups; may be this task */
  int32_t most_members; /* the largest group possible without other tasks; 0: no limit */
} dp_collective_step;

/* ---- One per task ---- */
dp_collectives *dp_collectives_create(void);
/* No member may be in a collective any more. */
void dp_collectives_destroy(dp_collectives *collectives);

/* The full name of the leader in a cluster of these tasks (full names). It is `wanted`, which the
 * configuration names; when that is NULL or "", it is the chief, else worker 0, else the first
 * task. The caller frees the result. */
char *dp_collective_leader(const char *wanted, const char *const *tasks, size_t count);

/* ---- One member ---- */
/* to = op(left, right), element by element; `to` may be `left` or `right`. */
typedef void (*dp_collective_merge_fn)(void *arg, void *to, const void *left, const void *right,
                                       int64_t count);
/* Called on the merged value: for a mean it divides by the size of the group. */
typedef void (*dp_collective_finish_fn)(void *arg, void *to, int64_t count, int32_t group_size);
/* Called exactly once, with no lock held. The callee may take *result; it is unset with an error.
 */
typedef void (*dp_collective_done_fn)(void *arg, dp_status *status, dp_tensor *result);

typedef struct dp_collective_member {
  dp_collective_kind kind;
  const char *name;   /* of the node; borrowed until done, like the device's strings */
  const char *device; /* full name */
  const char *device_type;
  uint64_t incarnation;
  int64_t memory_limit;
  int64_t step_id;
  uint64_t frame_id; /* 0 outside loops */
  int64_t iteration;
  int32_t group_size, group_key, instance_key;
  double timeout_seconds; /* 0: none */
  bool is_source;         /* of a broadcast */
  dp_dtype dtype;
  dp_shape shape;              /* of the result */
  dp_tensor input;             /* taken; unset for a member that only receives */
  int32_t max_subdivisions;    /* rings per device of a task, at most; -1: one ring; 0: default */
  const int64_t *ring_offsets; /* one per ring; borrowed until done */
  size_t ring_offset_count;    /* 0: the rings follow from max_subdivisions */
  dp_cancel *cancel;
  dp_pool *pool; /* large chunks are merged on it; may be NULL */
  dp_collective_merge_fn merge;
  dp_collective_finish_fn finish; /* NULL: the merged value is the result */
  dp_collective_done_fn done;
  void *arg; /* of merge, finish and done */
} dp_collective_member;

/* Takes part in a collective. Returns at once; member->done gets the result. *member is copied; its
 * input is taken. */
void dp_collective_join(const dp_collective_step *step, dp_collective_member *member);

/* ---- At the leader: calls from other tasks ---- */
void dp_collectives_complete_group(dp_collectives *collectives,
                                   const Tensorflow__CompleteGroupRequest *request,
                                   dp_cancel *cancel, dp_collective_group_fn done, void *arg);
void dp_collectives_complete_instance(dp_collectives *collectives,
                                      const Tensorflow__CompleteInstanceRequest *request,
                                      dp_cancel *cancel, dp_collective_instance_fn done, void *arg);

/* ---- Step ids ---- */
/* When several tasks each have a master that runs a graph, and the graphs meet in collectives, the
 * masters must give their steps the same ids. The leader has the next id per graph key. The other
 * tasks ask it once and then count by themselves. */
/* False when the next id is not known here. Else *id_out is the next id, and the step runs until
 * dp_collectives_end_step. */
bool dp_collectives_begin_step(dp_collectives *collectives, int64_t graph_key, int64_t *id_out);
/* At the leader: the next id, for a task that asks. Makes a random one when there is none. Begins
 * no step. */
int64_t dp_collectives_next_step(dp_collectives *collectives, int64_t graph_key);
/* Stores the leader's answer, unless the next id is known. */
void dp_collectives_set_step(dp_collectives *collectives, int64_t graph_key, int64_t next_id);
/* A step that began has ended. `is_sure` is false when other tasks may have counted differently;
 * the leader must be asked for the next id then. */
void dp_collectives_end_step(dp_collectives *collectives, int64_t graph_key, bool is_sure);

/* ---- For the status page ---- */
/* Calls `visit` with one line of text per member that waits, with no lock held. */
typedef void (*dp_collective_visit_fn)(void *arg, int64_t step_id, int64_t age_nanos,
                                       const char *line);
void dp_collectives_visit(dp_collectives *collectives, dp_collective_visit_fn visit, void *arg);

#endif
