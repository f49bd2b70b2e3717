/* Batching: calls of many steps that run as one.
 *
 * A batcher is a resource with named queues of batches. A call brings tensors with the same number
 * of rows; its rows go into the open batch, the last of a queue, or several batches if calls may be
 * split. A batch is ready when it is full, when it is closed because the next call did not fit, or
 * when its oldest call has waited long enough; a bounded number of batches is under way at a time.
 *
 * No thread waits: a call is an object, a batch that is ready becomes a task of the compute pool,
 * and a timer makes the open batch ready. A call whose step is cancelled leaves its batches at
 * once. Only the last call of a batch that is under way stays: it cancels the run and ends with it,
 * so a run never outlives all of its steps.
 *
 * Owners: a call and a batch under way hold the batcher; one lock guards all that is in it. */
#ifndef DP_KERNELS_BATCHING_INTERNAL_H
#define DP_KERNELS_BATCHING_INTERNAL_H

#include "base/timer.h"
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/waiting.h"

typedef struct dp_batcher dp_batcher;
typedef struct dp_batch dp_batch;
typedef struct dp_batch_call dp_batch_call;
typedef struct dp_batch_queue dp_batch_queue;

typedef struct dp_batch_options {
  int64_t threads;     /* batches under way at a time */
  int64_t input_limit; /* rows of a call */
  int64_t batch_limit; /* rows of a batch */
  int64_t timeout_micros;
  int64_t queue_limit;       /* batches of a queue that wait, with the open one */
  bool splits;               /* calls may be split */
  DP_ARRAY(int64_t) allowed; /* sizes to pad to, rising; empty for any */
} dp_batch_options;

/* The rows of a call that lie in one batch. */
typedef struct dp_batch_part {
  dp_batch_call *call;
  dp_batch *batch; /* NULL when it has left, or the batch is over */
  int64_t rows;
  dp_tensor *inputs;  /* until the batch takes them */
  dp_tensor *outputs; /* after the batch is over */
  dp_cancel *scope;   /* what a cancelled call has to cancel */
} dp_batch_part;

struct dp_batch_call {
  dp_waiter waiter; /* first */
  dp_batcher *batcher;
  dp_op_context *context;
  int64_t id;
  int64_t rows;
  int32_t input_count;
  dp_tensor *inputs;
  dp_captured function; /* unset for Batch */
  int32_t part_count;
  dp_batch_part *parts;
  int32_t pending;     /* parts that are not over, and a cancel callback in the middle of it */
  dp_batch *discarded; /* batches that the call's leaving made empty */
  dp_status *status;
};

/* What a run sees of a part. */
typedef struct dp_batch_slot {
  int64_t id;
  int64_t rows;
  int32_t input_count;
  dp_tensor *inputs;
  dp_tensor *outputs; /* output_count of the batch: filled in by the run; NULL once given */
} dp_batch_slot;

struct dp_batch {
  dp_batcher *batcher; /* held while it is under way */
  dp_batch_queue *queue;
  dp_batch *next;
  int64_t rows;
  DP_ARRAY(dp_batch_part *) parts; /* NULL for one that left while the batch was under way */
  dp_timer timer;
  bool is_due; /* the oldest call has waited long enough */
  /* Under way */
  bool is_running;
  int64_t live; /* parts that have not left */
  dp_cancel *cancel;
  dp_device *device;
  dp_captured function; /* of the last call */
  int32_t output_count;
  int64_t slot_count;
  dp_batch_slot *slots;
  dp_tensor *carried; /* outputs that only the last call gets; NULL for none */
};

/* Runs a batch, on the device's compute pool; dp_batch_end is called exactly once for it. */
typedef void (*dp_batch_run_fn)(dp_batch *batch);
/* Consumes `status`. */
void dp_batch_end(dp_batch *batch, dp_status *status);

struct dp_batcher {
  dp_resource resource;
  dp_batch_options options;
  dp_batch_run_fn run;
  pthread_mutex_t lock; /* for all below */
  DP_ARRAY(dp_batch_queue *) queues;
  size_t turn;     /* the queue that is asked first */
  int64_t running; /* batches under way */
  dp_waiters line; /* all calls */
};

extern const dp_resource_ops dp_batcher_ops;          /* of Batch */
extern const dp_resource_ops dp_function_batcher_ops; /* of BatchFunction */
/* Copies the options. */
dp_batcher *dp_batcher_create(const dp_resource_ops *ops, const dp_batch_options *options,
                              dp_batch_run_fn run);

/* A call of a node's first `input_count` inputs, which have `rows` rows each. */
dp_batch_call *dp_batch_call_create(dp_op_context *context, int32_t input_count, int64_t rows);
/* Puts the call into a queue; consumes it and the caller's hold on the batcher. Ends the node when
 * the batch is over, or at once with what is wrong. */
void dp_batcher_start(dp_batcher *batcher, const char *queue, dp_batch_call *call);
/* Ends the node with the call's status, or gives it the outputs of the parts (batching_rows.c);
 * consumes the call. Without the lock. */
void dp_batch_call_finish(dp_batch_call *call);

/* What a step that is cancelled while it waits ends with. */
DP_MUST_USE dp_status *dp_batch_cancelled(void);

/* ---- Rows (batching_rows.c) ---- */
/* One tensor (none is a scalar) behind the other, then the first row of the first `padding` times.
 * Dtypes, ranks and inner dimensions must be the same. */
DP_MUST_USE dp_status *dp_rows_join(const dp_tensor *const *pieces, int64_t count, int64_t padding,
                                    dp_tensor *joined_out);
DP_MUST_USE dp_status *dp_rows_cut(const dp_tensor *tensor, int64_t begin, int64_t end,
                                   dp_tensor *rows_out);
/* Input `index` of all slots, padded to an allowed size. */
DP_MUST_USE dp_status *dp_batch_join_input(const dp_batch *batch, int32_t index,
                                           dp_tensor *joined_out);
/* Gives each slot its rows of a result. */
DP_MUST_USE dp_status *dp_batch_cut_output(dp_batch *batch, int32_t index, const dp_tensor *result);
/* Makes `parts` of the call's rows: the first with at most `room` rows, the others with at most
 * `limit`. */
DP_MUST_USE dp_status *dp_batch_call_split(dp_batch_call *call, int64_t room, int64_t limit);

#endif
