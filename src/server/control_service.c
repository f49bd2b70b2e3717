/* What people ask a running task: who are you and what are you waiting for (Describe), and please
 * end (Stop). A service of our own beside TensorFlow's two, on the same port; requests are empty,
 * the answer to Describe is plain text. */
#include "server/control_service_internal.h"

#include "server/server_internal.h"

static void describe(dp_server *server, dp_rpc_call *call) {
  dp_text text = {0};
  dp_rope body = {0};
  dp_server_describe(server, &text);
  dp_status *status = dp_rope_append(&body, dp_text_string(&text), text.length);
  if (status)
    dp_rpc_call_fail(call, status);
  else
    dp_rpc_call_reply(call, &body);
  dp_rope_deinit(&body);
  dp_text_deinit(&text);
}

static void stop(dp_server *server, dp_rpc_call *call) {
  if (!server->stop) {
    dp_rpc_call_fail(call,
                     dp_status_create(DP_FAILED_PRECONDITION,
                                      "%s lives inside a program: end that instead", server->name));
    return;
  }
  dp_rope body = {0};
  dp_rpc_call_reply(call, &body);
  server->stop(server->stop_arg);
}

bool dp_control_service_handle(dp_server *server, dp_rpc_call *call) {
  const char *path = dp_rpc_call_path(call);
  if (strcmp(path, DP_CONTROL_DESCRIBE) == 0)
    describe(server, call);
  else if (strcmp(path, DP_CONTROL_STOP) == 0)
    stop(server, call);
  else
    return false;
  return true;
}
