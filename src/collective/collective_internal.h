/* What the files of this room share.
 *
 *   group.c      groups: the leader's lists of members, and what the leader told us
 *   instance.c   instances of a group, at the leader: do all want the same, and who is the source
 *   sequence.c   step ids
 *   op.c         one member's way: group, instance, algorithm, end
 *   layout.c     chunks and rings, numbers only
 *   ring.c       reduction, gather;  tree.c: broadcast;  exchange.c: all to all
 *
 * One lock guards groups, instances, sequences and the list of ops; nothing is called with it held.
 */
#ifndef DP_COLLECTIVE_INTERNAL_H
#define DP_COLLECTIVE_INTERNAL_H

#include <pthread.h>
#include "base/arena.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/refcount.h"
#include "base/timer.h"
#include "collective/collective.h"

/* ---- Groups ---- */
typedef struct group_member {
  char *device;
  char *task;
  uint64_t incarnation;
  int64_t memory_limit;
  bool is_ours; /* a task of Downpour's */
} group_member;

typedef struct group_waiter group_waiter;
typedef struct instance_waiter instance_waiter;

typedef struct collective_group {
  dp_refcount references;
  int32_t key, size;
  char *device_type;
  bool is_complete; /* members are in the order of their ranks and stay */
  bool is_ours;     /* all of them; known when it is complete */
  char *restarted;  /* the device because of which it was begun anew, until somebody knows; NULL */
  int32_t task_count;
  DP_ARRAY(group_member) members;
  group_waiter *waiters;
  dp_map *instances; /* the leader's, by instance_key_of */
  dp_map *settled;   /* what we told the leader last; by instance key and rank */
} collective_group;

/* A device that comes. Strings are borrowed. */
typedef struct group_request {
  int32_t key, size;
  const char *device, *device_type;
  uint64_t incarnation;
  int64_t memory_limit;
  bool is_ours;
} group_request;

/* The group is retained for the callee. */
typedef void (*group_done_fn)(void *arg, dp_status *status, collective_group *group);
/* Adds the device to the leader's list and waits until the group is complete. */
void dp_group_join(dp_collectives *collectives, const group_request *request, dp_cancel *cancel,
                   group_done_fn done, void *arg);
/* A complete group with that device in it; retained, or NULL. */
collective_group *dp_group_find(dp_collectives *collectives, const group_request *request);
/* Keeps what the leader said; *group_out is retained. */
DP_MUST_USE dp_status *dp_group_learn(dp_collectives *collectives,
                                      const Tensorflow__CompleteGroupResponse *response,
                                      collective_group **group_out);
/* At the leader: ABORTED, once, when a member has come back after a restart. The leader's own step
 * must end then, since members that have not noticed yet wait for it. */
DP_MUST_USE dp_status *dp_group_note_loss(dp_collectives *collectives, int32_t key);
/* After an error: the next op asks the leader again. */
void dp_group_forget(dp_collectives *collectives, collective_group *group);
void dp_group_release(collective_group *group);
/* -1 when the device is no member. */
int32_t dp_group_rank(const collective_group *group, const char *device);
/* "1 of 3 members of group 7 are here: /job:... " With the lock held. */
void dp_group_describe(const collective_group *group, dp_text *text);

/* ---- Instances ---- */
typedef struct instance_request {
  const char *name; /* of the node */
  dp_collective_kind kind;
  dp_dtype dtype;
  dp_shape shape;
  int32_t key;
  const char *device;
  bool is_source;
  int64_t step_id;         /* TensorFlow's own distinction, normally 0 */
  int64_t running_step_id; /* 0 when the member does not tell */
} instance_request;

void dp_instance_join(dp_collectives *collectives, collective_group *group,
                      const instance_request *request, dp_cancel *cancel,
                      dp_collective_instance_fn done, void *arg);
/* Ends those who wait and frees the tables of a group that nobody uses any more. */
void dp_instances_destroy(collective_group *group);
/* Whether the leader knows of the same already, and that it does now. */
bool dp_instance_is_settled(dp_collectives *collectives, collective_group *group,
                            const instance_request *request);
void dp_instance_settle(dp_collectives *collectives, collective_group *group,
                        const instance_request *request);
void dp_instance_unsettle(dp_collectives *collectives, collective_group *group, int32_t key,
                          int32_t rank);

/* ---- One member's way ---- */
typedef enum op_phase { OP_GROUP, OP_INSTANCE, OP_RUN } op_phase;

typedef struct collective_op {
  struct collective_op *next, *previous; /* in the list of all */
  dp_collective_step step;
  dp_collective_member member;
  char *key; /* the beginning of all its chunks' keys */
  int64_t since;
  op_phase phase;
  dp_cancel *scope; /* of what is under way: below the member's, with its time limit */
  collective_group *group;
  int32_t rank;         /* in the group */
  int32_t source_rank;  /* of a broadcast */
  pthread_mutex_t lock; /* guards what follows */
  int32_t parts;        /* that are under way, and one for the start */
  dp_status *status;    /* the first error */
  int32_t *awaited;     /* by member: chunks from it */
  int32_t *offered;     /* by member: chunks for it */
  dp_timer watch;       /* looks after those who do not take their chunks */
  dp_tensor result;
  dp_arena *arena; /* of the algorithm's own */
} collective_op;

/* Gives the result, or an error (consumed), to the member and frees the op. */
void dp_collective_finish(collective_op *op, dp_status *status);

/* ---- Parts ---- */
/* A part of the op begins or ends; ends with an error stop all other parts. The op ends, and is
 * gone, with its last part. */
void dp_part_begin(collective_op *op);
void dp_part_end(collective_op *op, dp_status *status);
/* Fetches `bytes` bytes from a member: into `to`, or with NULL there as a tensor for `done`. This
 * is a part; `done` is called before it ends, unless there is an error, and not at all then. */
typedef void (*op_received_fn)(void *arg, dp_tensor *value);
void dp_part_receive(collective_op *op, int32_t from, const char *key, void *to, size_t bytes,
                     op_received_fn done, void *arg);
/* Offers elements of a tensor to a member; a part too. */
void dp_part_send(collective_op *op, int32_t to, const char *key, const dp_tensor *tensor,
                  int64_t begin, int64_t count);
/* Runs fn(arg) now, or on the pool when `bytes` are many. */
void dp_part_work(collective_op *op, size_t bytes, dp_task_fn fn, void *arg);
/* Asks after members that do not take their chunks, each second until the op ends. */
void dp_part_watch(collective_op *op);
/* " 2 from /job:... 1 not taken by /job:..." With the op's lock held. */
void dp_part_print_missing(const collective_op *op, dp_text *text);

/* ---- Algorithms: all begin their parts and return. ---- */
void dp_ring_start(collective_op *op);
void dp_tree_start(collective_op *op);
void dp_exchange_start(collective_op *op);

/* ---- Layout ---- */
typedef struct ring_layout {
  int32_t ring_count;
  int32_t *order; /* ring_count times group size: members by their rank in each ring */
  int32_t *rank;  /* ours in each ring */
} ring_layout;

/* How many elements a chunk has at most; the last ones are shorter or empty. */
int64_t dp_layout_chunk_elements(int64_t elements, int64_t chunks, size_t element_bytes,
                                 bool is_aligned);
/* Rings from offsets, or as many as the size of the tensor makes good; in the op's arena. */
DP_MUST_USE dp_status *dp_layout_rings(const collective_op *op, ring_layout *layout_out);

struct dp_collectives {
  pthread_mutex_t lock;
  dp_map *groups;    /* by key as 4 bytes */
  dp_map *sequences; /* by graph key as 8 bytes */
  collective_op *ops;
};

#endif
