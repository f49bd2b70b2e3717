/* What a task does now and then by itself. */
#ifndef DP_SERVER_HOUSEKEEPING_INTERNAL_H
#define DP_SERVER_HOUSEKEEPING_INTERNAL_H

#include "base/thread.h"

typedef struct dp_housekeeper dp_housekeeper;

/* `blocking` outlives it. */
dp_housekeeper *dp_housekeeper_start(dp_pool *blocking);
/* Waits for what is under way. */
void dp_housekeeper_stop(dp_housekeeper *keeper);

#endif
