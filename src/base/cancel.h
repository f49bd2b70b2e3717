/* Cancel scopes: through them a deadline, a client that went away or the first error of a step
 * reaches everything that waits for that step. Scopes form a tree; cancelling one cancels its
 * children. A scope is cancelled at most once, with the status that says why. A NULL scope is never
 * cancelled, and every function here accepts it. Any thread may call any function. */
#ifndef DP_BASE_CANCEL_H
#define DP_BASE_CANCEL_H

#include "base/clock.h"
#include "base/status.h"

typedef struct dp_cancel dp_cancel;
typedef void (*dp_cancel_fn)(void *arg, const dp_status *why);
typedef uint64_t dp_cancel_token; /* 0 is none */

/* `parent` may be NULL and is retained. At `deadline_nanos` (or DP_FOREVER) the scope cancels
 * itself with DEADLINE_EXCEEDED. */
dp_cancel *dp_cancel_create(dp_cancel *parent, int64_t deadline_nanos);
dp_cancel *dp_cancel_retain(dp_cancel *scope);
void dp_cancel_release(dp_cancel *scope);

/* Consumes `why` (not OK). The first call wins, later ones only release. Calls every registered
 * callback, in the calling thread, with no lock held. */
void dp_cancel_trigger(dp_cancel *scope, dp_status *why);
bool dp_cancel_is_triggered(const dp_cancel *scope);
/* NULL while the scope is live; else a new reference to the reason. */
DP_MUST_USE dp_status *dp_cancel_status(const dp_cancel *scope);

/* Registers fn to be called once on cancellation. When the scope is already cancelled it returns
 * false and does not call fn. */
DP_MUST_USE bool dp_cancel_register(dp_cancel *scope, dp_cancel_fn fn, void *arg,
                                    dp_cancel_token *token_out);
/* True: fn will never be called. False: it has been called; if it is running in another thread this
 * waits for its end (from inside the callback it does not). */
bool dp_cancel_deregister(dp_cancel *scope, dp_cancel_token token);

#endif
