/* Timers: one thread for the whole process calls fn(arg) at or after a time of the monotonic clock.
 * Callbacks run one after the other, so they must be short and must not block. Any thread may start
 * and cancel timers. */
#ifndef DP_BASE_TIMER_H
#define DP_BASE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t dp_timer; /* 0 is no timer */
typedef void (*dp_timer_fn)(void *arg);

dp_timer dp_timer_start(int64_t at_nanos, dp_timer_fn fn, void *arg);
/* True: the callback will never run. False: it already ran; if it is running now in another thread,
 * this waits for its end first (from inside the callback itself it does not). */
bool dp_timer_cancel(dp_timer timer);

#endif
