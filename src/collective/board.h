/* The board of a step: where members of collectives leave chunks for each other under keys.
 *
 * Either side may come first. A poster hears when his value was taken: until then the step must not
 * be forgotten, because the taker may be another task whose step goes on longer. Values are shared,
 * never copied here, and immutable. An aborted board answers everybody, now and later, with the
 * reason. All functions may be called from any thread; callbacks come once, with no lock held. */
#ifndef DP_COLLECTIVE_BOARD_H
#define DP_COLLECTIVE_BOARD_H

#include "base/cancel.h"
#include "base/status.h"
#include "tensor/tensor.h"

typedef struct dp_board dp_board;

typedef void (*dp_board_posted_fn)(void *arg, dp_status *status);
/* *value is the callee's to take. */
typedef void (*dp_board_value_fn)(void *arg, dp_status *status, dp_tensor *value);

dp_board *dp_board_create(void);
dp_board *dp_board_retain(dp_board *board);
void dp_board_release(dp_board *board);

/* Consumes *value. Two values under one key are an INTERNAL error. */
void dp_board_post(dp_board *board, const char *key, dp_tensor *value, dp_cancel *cancel,
                   dp_board_posted_fn done, void *arg);
/* So are two takers. */
void dp_board_take(dp_board *board, const char *key, dp_cancel *cancel, dp_board_value_fn done,
                   void *arg);
/* Consumes `why`; the first one counts. */
void dp_board_abort(dp_board *board, dp_status *why);

#endif
