/* What the calls of both services have in common: finding the method by the path, writing the
 * answer or the error. A dp_service_call belongs to whoever has to answer it and ends with the
 * answer. See services_internal.h. */
#include "base/memory.h"
#include "server/services_internal.h"
#include "wire/control.h"

dp_service_call *dp_service_call_create(void *room, dp_rpc_call *rpc, int method_count,
                                        const char *(*path_of)(int method)) {
  int method = 0;
  while (method < method_count && strcmp(path_of(method), dp_rpc_call_path(rpc)) != 0)
    method++;
  if (method == method_count)
    return NULL;
  dp_service_call *call = DP_NEW(dp_service_call);
  *call = (dp_service_call){.room = room, .rpc = rpc, .method = method};
  return call;
}

void dp_service_call_answer(dp_service_call *call, dp_status *status, dp_rope *body) {
  if (status)
    dp_rpc_call_fail(call->rpc, status);
  else
    dp_rpc_call_reply(call->rpc, body);
  dp_rope_deinit(body);
  dp_free(call);
}

void dp_service_control_done(void *arg, dp_status *status, const void *response) {
  dp_rope body = {0};
  if (!status)
    status = dp_wire_pack(response, &body);
  dp_service_call_answer(arg, status, &body);
}
