/* The service that `downpour status` and `downpour stop` talk to. */
#ifndef DP_SERVER_CONTROL_SERVICE_INTERNAL_H
#define DP_SERVER_CONTROL_SERVICE_INTERNAL_H

#include "rpc/server.h"
#include "server/server.h"

bool dp_control_service_handle(dp_server *server, dp_rpc_call *call);

#endif
