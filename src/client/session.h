/* Sessions for the rooms above (server, train), which need one thing that TensorFlow's C API lacks:
 * opening a session at once, with a deadline. The session stays its owner's. Any thread may call.
 */
#ifndef DP_CLIENT_SESSION_H
#define DP_CLIENT_SESSION_H

#include <downpour.h>
#include "base/status.h"

/* Makes the master's session now instead of at the first run, and gives up at the deadline. Later
 * runs have no deadline of their own from this. */
DP_MUST_USE dp_status *dp_client_session_open(TF_Session *session, int64_t deadline_nanos);

#endif
