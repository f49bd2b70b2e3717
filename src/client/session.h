/* What rooms above need of sessions beyond TensorFlow's C API. Any thread may enter. */
#ifndef DP_CLIENT_SESSION_H
#define DP_CLIENT_SESSION_H

#include <downpour.h>
#include "base/status.h"

/* Makes the master's session now instead of at the first run, and gives up at the deadline. Later
 * runs have no deadline of their own from this. */
DP_MUST_USE dp_status *dp_client_session_open(TF_Session *session, int64_t deadline_nanos);

#endif
