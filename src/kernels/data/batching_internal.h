/* Batching: calls of many steps run as one batch.
 *
 * A batcher is a resource with named queues of batches. A call brings tensors that all have the
 * same number of rows. Its rows go into the open batch, which is the last batch of a queue; when
 * calls may be split, they may go into several batches. A batch is ready when it is full, when it
 * is closed because the next call did not fit, or when its oldest call has waited long enough. At
 * most options.threads batches run at a time.
 *
 * No thread blocks. A call is an object; a batch that is ready becomes a task of the compute pool;
 * a timer makes the open batch ready. A call whose step is cancelled leaves its batches at once,
 * with one exception: the last call of a running batch stays, cancels the run and ends with it. So
 * a run never outlives all of its steps.
 *
 * Ownership: each call and each running batch holds a reference to the batcher. One lock guards
 * everything in the batcher. */
#ifndef DP_KERNELS_DATA_BATCHING_INTERNAL_H
#define DP_KERNELS_DATA_BATCHING_INTERNAL_H

#include "base/timer.h"
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/waiting.h"

typedef struct dp_batcher dp_batcher;
typedef struct dp_batch dp_batch;
typedef struct dp_batch_call dp_batch_call;
typedef struct dp_batch_queue dp_batch_queue;

typedef struct dp_batch_options {
  int64_t threads;     /* batches that run at a time */
  int64_t input_limit; /* most rows of one call */
  int64_t batch_limit; /* most rows of one batch */
  int64_t timeout_micros;
  int64_t queue_limit;       /* most waiting batches per queue, including the open one */
  bool splits;               /* whether calls may be split */
  DP_ARRAY(int64_t) allowed; /* sizes to pad to, ascending; empty: any size */
} dp_batch_options;

/* The rows of a call that are in one batch. */
typedef struct dp_batch_part {
  dp_batch_call *call;
  dp_batch *batch; /* NULL when the part has left, or the batch has ended */
  int64_t rows;
  dp_tensor *inputs;  /* until the batch takes them */
  dp_tensor *outputs; /* set when the batch has ended */
  dp_cancel
      *scope; /* the scope of a running batch that this cancelled call must cancel; else NULL */
} dp_batch_part;

struct dp_batch_call {
  dp_waiter waiter; /* must be first */
  dp_batcher *batcher;
  dp_op_context *context;
  int64_t id;
  int64_t rows;
  int32_t input_count;
  dp_tensor *inputs;
  dp_captured function; /* unset for Batch */
  int32_t part_count;
  dp_batch_part *parts;
  int32_t pending;     /* parts that have not ended, plus 1 while a cancel callback runs */
  dp_batch *discarded; /* batches that became empty when this call left them */
  dp_status *status;
};

/* A part as the run sees it; it stays valid when the call leaves. */
typedef struct dp_batch_slot {
  int64_t id;
  int64_t rows;
  int32_t input_count;
  dp_tensor *inputs;
  dp_tensor
      *outputs; /* output_count of the batch; filled in by the run; NULL once given to the part */
} dp_batch_slot;

struct dp_batch {
  dp_batcher *batcher; /* retained while the batch runs */
  dp_batch_queue *queue;
  dp_batch *next;
  int64_t rows;
  DP_ARRAY(dp_batch_part *) parts; /* NULL in place of a part that left while the batch ran */
  dp_timer timer;
  bool is_due; /* the oldest call has waited long enough */
  /* Set when the batch starts to run: */
  bool is_running;
  int64_t live; /* parts that have not left */
  dp_cancel *cancel;
  dp_device *device;
  dp_captured function; /* copied from the last call */
  int32_t output_count;
  int64_t slot_count;
  dp_batch_slot *slots;
  dp_tensor *carried; /* outputs that only the last call gets (Batch); else NULL */
};

/* Runs a batch on the device's compute pool. It must call dp_batch_end exactly once. */
typedef void (*dp_batch_run_fn)(dp_batch *batch);
/* Ends the parts of the batch and destroys it. Consumes `status`. */
void dp_batch_end(dp_batch *batch, dp_status *status);

struct dp_batcher {
  dp_resource resource;
  dp_batch_options options;
  dp_batch_run_fn run;
  pthread_mutex_t lock; /* guards all fields below */
  DP_ARRAY(dp_batch_queue *) queues;
  size_t turn;     /* the queue that is looked at first, for fairness */
  int64_t running; /* batches that run now */
  dp_waiters line; /* all calls that have not ended */
};

extern const dp_resource_ops dp_batcher_ops;          /* of Batch */
extern const dp_resource_ops dp_function_batcher_ops; /* of BatchFunction */
/* Copies the options. */
dp_batcher *dp_batcher_create(const dp_resource_ops *ops, const dp_batch_options *options,
                              dp_batch_run_fn run);

/* A call with the node's first `input_count` inputs, which have `rows` rows each. */
dp_batch_call *dp_batch_call_create(dp_op_context *context, int32_t input_count, int64_t rows);
/* Puts the call into a queue. Consumes the call and the caller's reference to the batcher. Ends the
 * node when the batch has ended, or at once with an error. */
void dp_batcher_start(dp_batcher *batcher, const char *queue, dp_batch_call *call);
/* Ends the node with the call's error, or with the outputs of its parts (batching_rows.c). Consumes
 * the call. The lock must not be held. */
void dp_batch_call_finish(dp_batch_call *call);

/* The error of a step that was cancelled while it waited. */
DP_MUST_USE dp_status *dp_batch_cancelled(void);

/* ---- Rows (batching_rows.c) ---- */
/* Concatenates the tensors (none is a scalar) along dimension 0, then appends the first row of the
 * first tensor `padding` times. Dtypes, ranks and inner dimensions must be equal. */
DP_MUST_USE dp_status *dp_rows_join(const dp_tensor *const *pieces, int64_t count, int64_t padding,
                                    dp_tensor *joined_out);
DP_MUST_USE dp_status *dp_rows_cut(const dp_tensor *tensor, int64_t begin, int64_t end,
                                   dp_tensor *rows_out);
/* Concatenates input `index` of all slots, padded to an allowed size. */
DP_MUST_USE dp_status *dp_batch_join_input(const dp_batch *batch, int32_t index,
                                           dp_tensor *joined_out);
/* Gives each slot its rows of the result `index`. */
DP_MUST_USE dp_status *dp_batch_cut_output(dp_batch *batch, int32_t index, const dp_tensor *result);
/* Divides the call's rows into `parts`: the first has at most `room` rows, the others at most
 * `limit`. */
DP_MUST_USE dp_status *dp_batch_call_split(dp_batch_call *call, int64_t room, int64_t limit);

#endif
