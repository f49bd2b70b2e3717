/* The service of our own that `downpour status` and `downpour stop` talk to, beside TensorFlow's
 * two. Calls come on network threads and are answered there. */
#ifndef DP_SERVER_CONTROL_SERVICE_INTERNAL_H
#define DP_SERVER_CONTROL_SERVICE_INTERNAL_H

#include "rpc/server.h"
#include "server/server.h"

bool dp_control_service_handle(dp_server *server, dp_rpc_call *call);

#endif
