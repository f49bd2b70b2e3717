/* Reads the system's clocks, and sleeps. On Linux clock_gettime reads shared memory and makes no
 * system call, so callers may ask for the time once per node of a step. No state; any thread. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

static const int64_t nanos_per_second = 1000000000;

static int64_t read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * nanos_per_second + now.tv_nsec;
}

int64_t dp_clock_nanos(void) {
  return read_clock(CLOCK_MONOTONIC);
}

int64_t dp_clock_wall_nanos(void) {
  return read_clock(CLOCK_REALTIME);
}

void dp_clock_sleep(int64_t nanos) {
  if (nanos <= 0)
    return;
  struct timespec left = {nanos / nanos_per_second, nanos % nanos_per_second};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
    continue;
}

int64_t dp_clock_deadline_ms(int64_t milliseconds) {
  int64_t nanos, deadline;
  if (milliseconds <= 0 || __builtin_mul_overflow(milliseconds, INT64_C(1000000), &nanos) ||
      __builtin_add_overflow(dp_clock_nanos(), nanos, &deadline))
    return DP_FOREVER;
  return deadline;
}
