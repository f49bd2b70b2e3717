/* Collectives: the devices of a group meet, each with a tensor, and leave with what all of them
 * make: a sum, the tensors joined, one tensor for everybody, or a piece from each.
 *
 * A group has a key and a size, each meeting of it an instance key. Members may be devices of
 * several tasks. One task, the leader, is told of every member; when the group is complete it tells
 * them all who belongs to it, and their order is their rank. Then the tensors go round, in chunks
 * under keys (board.h): a ring for sums and joins, a tree for broadcasts. Keys, chunks and ranks
 * are those of TensorFlow, so that a genuine task can be a member.
 *
 * No network here: other tasks are reached through the peer table, which the worker fills. No
 * thread waits; every wait ends with its cancel scope, and an error ends the meeting for all who
 * can still be told. What merging means is the caller's. All functions may be called from any
 * thread. */
#ifndef DP_COLLECTIVE_COLLECTIVE_H
#define DP_COLLECTIVE_COLLECTIVE_H

#include "base/cancel.h"
#include "base/text.h"
#include "base/thread.h"
#include "collective/board.h"
#include "tensor/tensor.h"
#include "wire/worker.pb-c.h"

typedef struct dp_collectives dp_collectives;

/* The numbers are TensorFlow's, on the wire. */
typedef enum dp_collective_kind {
  DP_COLLECTIVE_REDUCTION = 0,
  DP_COLLECTIVE_BROADCAST = 1,
  DP_COLLECTIVE_GATHER = 2,
  DP_COLLECTIVE_ALL_TO_ALL = 4,
} dp_collective_kind;

/* ---- The peer table ---- */
/* `response` lives during the call; NULL with an error. */
typedef void (*dp_collective_group_fn)(void *arg, dp_status *status,
                                       const Tensorflow__CompleteGroupResponse *response);
typedef void (*dp_collective_instance_fn)(void *arg, dp_status *status, int32_t source_rank);

/* How a task asks another one; requests are borrowed for the call. */
typedef struct dp_collective_peer_ops {
  void (*complete_group)(void *peers, const char *leader,
                         const Tensorflow__CompleteGroupRequest *request, dp_cancel *cancel,
                         dp_collective_group_fn done, void *arg);
  void (*complete_instance)(void *peers, const char *leader,
                            const Tensorflow__CompleteInstanceRequest *request, dp_cancel *cancel,
                            dp_collective_instance_fn done, void *arg);
  /* Fetches request->num_bytes bytes: into `to`, or with NULL there into a tensor that the callback
   * gets. */
  void (*receive)(void *peers, const char *task, const Tensorflow__RecvBufRequest *request,
                  void *to, dp_cancel *cancel, dp_board_value_fn done, void *arg);
  /* Whether the task that has this device is there, and has not restarted since; or an error that
   * says who is missing. */
  void (*check)(void *peers, const char *task, const char *device, uint64_t incarnation,
                dp_cancel *cancel, dp_board_posted_fn done, void *arg);
} dp_collective_peer_ops;

/* What the collective ops of one step have in common. */
typedef struct dp_collective_step {
  dp_collectives *collectives;
  dp_board *board;
  const dp_collective_peer_ops *peers; /* NULL: this task is alone */
  void *peers_arg;
  const char *task;     /* this one, "/job:worker/replica:0/task:0" */
  const char *leader;   /* who completes groups; may be this task */
  int32_t most_members; /* that a group can have when there are no other tasks; 0: any number */
} dp_collective_step;

/* ---- A task's ---- */
dp_collectives *dp_collectives_create(void);
/* Nobody may be in a group any more. */
void dp_collectives_destroy(dp_collectives *collectives);

/* Who leads in a cluster of these tasks (full names) when nobody says it: the chief, else the first
 * worker, else the first task. `wanted` is what the configuration says, NULL or "" for nothing. The
 * caller's to free. */
char *dp_collective_leader(const char *wanted, const char *const *tasks, size_t count);

/* ---- One member ---- */
/* to = op(left, right), element by element; `to` may be either. */
typedef void (*dp_collective_merge_fn)(void *arg, void *to, const void *left, const void *right,
                                       int64_t count);
/* Divides by the size of the group. */
typedef void (*dp_collective_finish_fn)(void *arg, void *to, int64_t count, int32_t group_size);
/* Exactly once, with no lock held. *result is the callee's to take; unset with an error. */
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
  dp_tensor input;             /* taken; unset for one that only receives */
  int32_t max_subdivisions;    /* a device; -1: one ring, 0: as many as are good */
  const int64_t *ring_offsets; /* one for each ring; borrowed until done */
  size_t ring_offset_count;    /* 0: by max_subdivisions */
  dp_cancel *cancel;
  dp_pool *pool; /* where large chunks are merged */
  dp_collective_merge_fn merge;
  dp_collective_finish_fn finish; /* NULL: the merged value is the result */
  dp_collective_done_fn done;
  void *arg; /* for all of them */
} dp_collective_member;

void dp_collective_join(const dp_collective_step *step, dp_collective_member *member);

/* ---- What other tasks ask the leader ---- */
void dp_collectives_complete_group(dp_collectives *collectives,
                                   const Tensorflow__CompleteGroupRequest *request,
                                   dp_cancel *cancel, dp_collective_group_fn done, void *arg);
void dp_collectives_complete_instance(dp_collectives *collectives,
                                      const Tensorflow__CompleteInstanceRequest *request,
                                      dp_cancel *cancel, dp_collective_instance_fn done, void *arg);

/* ---- Step ids ---- */
/* Masters of several tasks that run one graph each, with collectives between them, must give their
 * steps the same ids. The leader's table says the next one by the graph's key; the others ask it
 * once and then count on. */
/* Whether the next id is known here; if so it counts as running until it is retired. */
bool dp_collectives_begin_step(dp_collectives *collectives, int64_t graph_key, int64_t *id_out);
/* The leader's own: makes a sequence when there is none, and begins no step. */
int64_t dp_collectives_next_step(dp_collectives *collectives, int64_t graph_key);
/* What the leader said. */
void dp_collectives_set_step(dp_collectives *collectives, int64_t graph_key, int64_t next_id);
/* A step that began has ended. `is_sure` is false when others may have counted differently: then
 * the next id must be asked for again. */
void dp_collectives_end_step(dp_collectives *collectives, int64_t graph_key, bool is_sure);

/* ---- For people ---- */
/* A line for each member that waits. */
typedef void (*dp_collective_visit_fn)(void *arg, int64_t step_id, int64_t age_nanos,
                                       const char *line);
void dp_collectives_visit(dp_collectives *collectives, dp_collective_visit_fn visit, void *arg);

#endif
