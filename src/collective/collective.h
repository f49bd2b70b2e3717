/* Collectives: members of a group meet, each with a tensor, and leave with what all of them make.
 *
 * A group has a key and a size, each meeting of it an instance key; together with the step they say
 * who meets whom. Members are devices of one task: the last one to come combines the tensors, in
 * the order of the devices' names, and everybody gets the result. No thread waits; a member whose
 * step is cancelled leaves, and one that came with a time limit takes all others with it when that
 * is over. What combining means (adding, joining) is the caller's: this room only knows who is
 * there. */
#ifndef DP_COLLECTIVE_COLLECTIVE_H
#define DP_COLLECTIVE_COLLECTIVE_H

#include "base/cancel.h"
#include "tensor/tensor.h"

typedef struct dp_collectives dp_collectives;

/* `task` is named in messages; a group has at most `devices` members. */
dp_collectives *dp_collectives_create(const char *task, size_t devices);
/* Nobody may be in it any more. */
void dp_collectives_destroy(dp_collectives *collectives);

/* All inputs, one for each member, in order. *result_out goes to everyone. */
typedef dp_status *(*dp_collective_combine_fn)(void *arg, const dp_tensor *inputs, int32_t count,
                                               dp_tensor *result_out);
/* Exactly once, with no lock held. `result` is borrowed; NULL with an error. */
typedef void (*dp_collective_done_fn)(void *arg, dp_status *status, const dp_tensor *result);

typedef struct dp_collective_member {
  const char *kind;   /* "reduce", ...: all members of an instance must want the same; static */
  const char *device; /* borrowed until done */
  int64_t step_id;
  int32_t group_size, group_key, instance_key;
  double timeout_seconds; /* 0: none */
  dp_tensor input;        /* taken; unset for one that only receives */
  dp_cancel *cancel;
  dp_collective_combine_fn combine; /* the last member's is called */
  dp_collective_done_fn done;
  void *arg; /* for both */
} dp_collective_member;

void dp_collectives_join(dp_collectives *collectives, dp_collective_member *member);

#endif
