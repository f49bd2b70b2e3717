/* The board of a step: members of collectives leave chunks for each other on it, under keys.
 *
 * The poster or the taker of a key may come first. A poster's callback is called when its value was
 * taken. Until then the step must be kept, because the taker may be another task whose step runs
 * longer. Values are shared, never copied here, and must not change. An aborted board ends all
 * calls, those that wait and later ones, with the reason. All functions may be called from any
 * thread; callbacks come once, with no lock held. */
#ifndef DP_COLLECTIVE_BOARD_H
#define DP_COLLECTIVE_BOARD_H

#include "base/cancel.h"
#include "base/status.h"
#include "tensor/tensor.h"

typedef struct dp_board dp_board;

typedef void (*dp_board_posted_fn)(void *arg, dp_status *status);
/* The callee may take *value (dp_tensor_take); it is unset with an error. */
typedef void (*dp_board_value_fn)(void *arg, dp_status *status, dp_tensor *value);

dp_board *dp_board_create(void);
dp_board *dp_board_retain(dp_board *board);
void dp_board_release(dp_board *board);

/* Consumes *value. INTERNAL when a value under that key waits already. */
void dp_board_post(dp_board *board, const char *key, dp_tensor *value, dp_cancel *cancel,
                   dp_board_posted_fn done, void *arg);
/* INTERNAL when a taker of that key waits already. */
void dp_board_take(dp_board *board, const char *key, dp_cancel *cancel, dp_board_value_fn done,
                   void *arg);
/* Consumes `why`. Later calls get the reason of the first abort. */
void dp_board_abort(dp_board *board, dp_status *why);

#endif
