/* Staging areas: tuples of tensors that one step leaves for another, in turn or under a key.
 *
 * All three kinds are one list of tuples, sorted by key; an area without keys numbers its tuples. A
 * tuple may come in parts and is kept apart until it is complete. An area may be limited in tuples
 * and in bytes. No thread blocks: a put, take or peek that cannot succeed yet waits in a line until
 * it can, or until its step is cancelled. */
#ifndef DP_KERNELS_QUEUES_STAGING_INTERNAL_H
#define DP_KERNELS_QUEUES_STAGING_INTERNAL_H

#include <pthread.h>
#include "kernels/shared/pieces.h"
#include "kernels/shared/waiting.h"

typedef enum dp_staging_kind {
  DP_STAGING_TURN, /* Stage, Unstage */
  DP_STAGING_MAP,
  DP_STAGING_ORDERED_MAP,
} dp_staging_kind;

typedef struct dp_staging_tuple {
  int64_t key;
  dp_tensor *parts; /* one per component of the area; missing ones are unset */
} dp_staging_tuple;

typedef DP_ARRAY(dp_staging_tuple) dp_staging_tuples; /* sorted by key */

typedef struct dp_staging {
  dp_resource resource;
  int64_t capacity;     /* most tuples; 0: no limit */
  int64_t memory_limit; /* most bytes; 0: no limit */
  int32_t component_count;
  pthread_mutex_t lock; /* guards all fields below */
  int64_t bytes;
  int64_t next_key;           /* for areas without keys */
  dp_staging_tuples complete; /* complete once; some parts may have been taken since */
  dp_staging_tuples incomplete;
  dp_waiters puts, takes;
} dp_staging;

dp_staging *dp_staging_create(dp_staging_kind kind, int64_t capacity, int64_t memory_limit,
                              int32_t component_count);
const dp_resource_ops *dp_staging_ops(dp_staging_kind kind);

typedef enum dp_staging_verb { DP_STAGING_PUT, DP_STAGING_TAKE, DP_STAGING_PEEK } dp_staging_verb;
/* Which tuple: the next one, the one at a position, or the one with a key. */
typedef enum dp_staging_choice {
  DP_STAGING_NEXT,
  DP_STAGING_PLACE,
  DP_STAGING_KEY
} dp_staging_choice;

/* Called exactly once. After a take or peek, `parts` has part_count tensors, which the callee may
 * take; `key` is the tuple's key. */
typedef void (*dp_staging_done_fn)(void *arg, dp_status *status, int64_t key, dp_tensor *parts);

typedef struct dp_staging_request {
  dp_staging_verb verb;
  dp_staging_choice choice;
  int64_t key; /* or the position */
  int32_t part_count;
  int32_t *indices; /* the components concerned, ascending; malloc'd, consumed */
  dp_tensor *parts; /* put: part_count tensors of dp_pieces_create, consumed */
  dp_staging_done_fn done;
  void *arg;
} dp_staging_request;

/* The caller must hold a reference to the area until `done`. `cancel` may be NULL. */
void dp_staging_start(dp_staging *area, dp_staging_request request, dp_cancel *cancel);
void dp_staging_clear(dp_staging *area);
void dp_staging_sizes(dp_staging *area, int64_t *complete_out, int64_t *incomplete_out);

#endif
