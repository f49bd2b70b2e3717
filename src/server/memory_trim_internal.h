/* Gives free memory back to the system now and then, also when no step runs. */
#ifndef DP_SERVER_MEMORY_TRIM_INTERNAL_H
#define DP_SERVER_MEMORY_TRIM_INTERNAL_H

#include "base/thread.h"

typedef struct dp_memory_trim dp_memory_trim;

/* `blocking` outlives it. */
dp_memory_trim *dp_memory_trim_start(dp_pool *blocking);
/* Waits for what is under way. */
void dp_memory_trim_stop(dp_memory_trim *trim);

#endif
