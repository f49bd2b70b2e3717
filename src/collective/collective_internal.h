/* The types and functions that the files of this room share.
 *
 *   group.c      groups: the leader's lists of members, and the lists that the leader sent to us
 *   instance.c   instances of a group, at the leader: checks that all members want the same, and
 *                finds the source of a broadcast
 *   sequence.c   step ids
 *   op.c         one member in one collective: group, instance, algorithm, end
 *   part.c       the parts of an algorithm: chunks to fetch, chunks that are offered, merges
 *   layout.c     the sizes of chunks and the order of rings
 *   ring.c       reduction and gather;  tree.c: broadcast;  exchange.c: all-to-all
 *   leader.c     which task is the leader
 *
 * One lock (dp_collectives.lock) guards groups, instances, sequences and the list of ops; no
 * callback is called with it held. */
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
  bool is_ours; /* its task is Downpour, not TensorFlow */
} group_member;

typedef struct group_waiter group_waiter;
typedef struct instance_waiter instance_waiter;

typedef struct collective_group {
  dp_refcount references;
  int32_t key, size;
  char *device_type;
  bool is_complete; /* members are in the order of their ranks and do not change any more */
  bool is_ours;     /* all members are ours; valid when the group is complete */
  char
      *restarted; /* the device whose restart began this group, until dp_group_note_loss; or NULL */
  int32_t task_count;
  DP_ARRAY(group_member) members;
  group_waiter *waiters;
  dp_map *instances; /* at the leader; by instance_key (instance.c) */
  dp_map *settled;   /* what we told the leader last; by instance key and rank */
} collective_group;

/* A device that joins a group. Strings are borrowed. */
typedef struct group_request {
  int32_t key, size;
  const char *device, *device_type;
  uint64_t incarnation;
  int64_t memory_limit;
  bool is_ours;
} group_request;

/* The callee gets a reference to the group; NULL with an error. */
typedef void (*group_done_fn)(void *arg, dp_status *status, collective_group *group);
/* At the leader: adds the device to the group; `done` is called when the group is complete. */
void dp_group_join(dp_collectives *collectives, const group_request *request, dp_cancel *cancel,
                   group_done_fn done, void *arg);
/* The complete group with that key, if the device is a member with the same incarnation; retained.
 * Else NULL. */
collective_group *dp_group_find(dp_collectives *collectives, const group_request *request);
/* Stores the group that the leader sent; *group_out is retained. */
DP_MUST_USE dp_status *dp_group_learn(dp_collectives *collectives,
                                      const Tensorflow__CompleteGroupResponse *response,
                                      collective_group **group_out);
/* At the leader: ABORTED, once, when the group was begun anew because a member restarted. The
 * leader's own step must fail then, because members that have not noticed the restart wait for it.
 */
DP_MUST_USE dp_status *dp_group_note_loss(dp_collectives *collectives, int32_t key);
/* Removes the group from the table after an error, so that the next op asks the leader again. */
void dp_group_forget(dp_collectives *collectives, collective_group *group);
void dp_group_release(collective_group *group);
/* The index of the device among the members: its rank when the group is complete. -1 when it is no
 * member. */
int32_t dp_group_rank(const collective_group *group, const char *device);
/* Adds "1 of 3 members of group 7 are here: /job:... ". With the lock held. */
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
  int64_t step_id;         /* TensorFlow's field, normally 0 */
  int64_t running_step_id; /* the member's step; 0 from a member that is not ours */
} instance_request;

/* At the leader: checks that the request equals those of the other members. `done` is called at
 * once, or for a broadcast when all members have come. */
void dp_instance_join(dp_collectives *collectives, collective_group *group,
                      const instance_request *request, dp_cancel *cancel,
                      dp_collective_instance_fn done, void *arg);
/* Frees the tables of a group that nobody uses any more; no instance has waiters then. */
void dp_instances_destroy(collective_group *group);
/* A member remembers the requests that the leader has accepted, and does not repeat them:
 * is_settled asks, settle remembers, unsettle forgets. Broadcasts are never settled. */
bool dp_instance_is_settled(dp_collectives *collectives, collective_group *group,
                            const instance_request *request);
void dp_instance_settle(dp_collectives *collectives, collective_group *group,
                        const instance_request *request);
void dp_instance_unsettle(dp_collectives *collectives, collective_group *group, int32_t key,
                          int32_t rank);

/* ---- One member in one collective ---- */
typedef enum op_phase { OP_GROUP, OP_INSTANCE, OP_RUN } op_phase;

typedef struct collective_op {
  struct collective_op *next, *previous; /* in dp_collectives.ops */
  dp_collective_step step;
  dp_collective_member member;
  char *key; /* the beginning of the keys of all its chunks */
  int64_t since;
  op_phase phase;
  dp_cancel *scope; /* of the current phase: a child of the member's scope, with the time limit */
  collective_group *group;
  int32_t rank;         /* in the group */
  int32_t source_rank;  /* of a broadcast */
  pthread_mutex_t lock; /* guards what follows */
  int32_t parts;        /* that have not ended, and one for the start */
  dp_status *status;    /* the first error */
  int32_t *awaited;     /* per member: chunks that we wait for */
  int32_t *offered;     /* per member: chunks that it has not taken */
  dp_timer watch;       /* checks members that do not take their chunks */
  dp_tensor result;
  dp_arena *arena; /* for the algorithm */
} collective_op;

/* Gives the result, or an error (consumed), to the member and frees the op. */
void dp_collective_finish(collective_op *op, dp_status *status);

/* ---- Parts ---- */
/* Begin and end a part of the op. A part that ends with an error (consumed) stops all other parts.
 * When the last part ends, the op is finished and freed. */
void dp_part_begin(collective_op *op);
void dp_part_end(collective_op *op, dp_status *status);
/* Fetches `bytes` bytes from a member to `to`, or, when `to` is NULL, as a tensor for `done`. This
 * is a part of the op. `done` is called before the part ends; with an error it is not called. */
typedef void (*op_received_fn)(void *arg, dp_tensor *value);
void dp_part_receive(collective_op *op, int32_t from, const char *key, void *to, size_t bytes,
                     op_received_fn done, void *arg);
/* Offers elements [begin, begin + count) of a tensor to a member. This is a part of the op, which
 * ends when the member has taken them. */
void dp_part_send(collective_op *op, int32_t to, const char *key, const dp_tensor *tensor,
                  int64_t begin, int64_t count);
/* Calls fn(arg): now, or on the member's pool when it works on many bytes. */
void dp_part_work(collective_op *op, size_t bytes, dp_task_fn fn, void *arg);
/* Checks once per second, until the op ends, that members that do not take their chunks are alive.
 */
void dp_part_watch(collective_op *op);
/* Adds " 2 from /job:... 1 not taken by /job:...". With the op's lock held. */
void dp_part_print_missing(const collective_op *op, dp_text *text);

/* ---- Algorithms: each begins its parts and returns. ---- */
void dp_ring_start(collective_op *op);
void dp_tree_start(collective_op *op);
void dp_exchange_start(collective_op *op);

/* ---- Layout ---- */
typedef struct ring_layout {
  int32_t ring_count;
  int32_t *order; /* for each ring the members in the order of their ranks in that ring */
  int32_t *rank;  /* for each ring our rank in it */
} ring_layout;

/* The number of elements of a chunk; the last chunks may be shorter or empty. */
int64_t dp_layout_chunk_elements(int64_t elements, int64_t chunks, size_t element_bytes,
                                 bool is_aligned);
/* The rings of an op, in its arena: by the member's offsets, or by the size of the tensor. */
DP_MUST_USE dp_status *dp_layout_rings(const collective_op *op, ring_layout *layout_out);

struct dp_collectives {
  pthread_mutex_t lock;
  dp_map *groups;    /* by key as 4 bytes */
  dp_map *sequences; /* by graph key as 8 bytes */
  collective_op *ops;
};

#endif
