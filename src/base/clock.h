/* Time. A deadline is a time of the monotonic clock in nanoseconds; DP_FOREVER means no deadline.
 * Wall time is for what people and files see; it may jump, so nothing waits by it. */
#ifndef DP_BASE_CLOCK_H
#define DP_BASE_CLOCK_H

#include <stdint.h>

#define DP_FOREVER INT64_MAX

int64_t dp_clock_nanos(void);      /* monotonic */
int64_t dp_clock_wall_nanos(void); /* since 1970 */
void dp_clock_sleep(int64_t nanos);
/* The deadline `milliseconds` from now; DP_FOREVER when milliseconds <= 0 or on overflow. */
int64_t dp_clock_deadline_ms(int64_t milliseconds);

#endif
