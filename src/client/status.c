/* TF_Status: holds a dp_status, and the payloads that TensorFlow lets programs attach to an error.
 * The caller owns it. A status belongs to one thread at a time. */
#include <string.h>

#include "client/client_internal.h"

static void clear_payloads(TF_Status *status) {
  for (size_t i = 0; i < status->payloads.count; i++)
    dp_free(status->payloads.items[i]);
  status->payloads.count = 0;
}

void dp_client_set_status(TF_Status *status, dp_status *from) {
  clear_payloads(status);
  dp_status_release(status->status);
  status->status = from;
}

TF_Status *TF_NewStatus(void) {
  return DP_NEW(TF_Status);
}

void TF_DeleteStatus(TF_Status *status) {
  if (!status)
    return;
  dp_client_set_status(status, NULL);
  DP_ARRAY_FREE(&status->payloads);
  dp_free(status);
}

void TF_SetStatus(TF_Status *status, TF_Code code, const char *message) {
  dp_client_set_status(
      status, code == TF_OK ? NULL : dp_status_create((dp_code)code, "%s", message ? message : ""));
}

TF_Code TF_GetCode(const TF_Status *status) {
  return (TF_Code)dp_status_code(status->status);
}

const char *TF_Message(const TF_Status *status) {
  return dp_status_message(status->status);
}

void TF_SetPayload(TF_Status *status, const char *key, const char *value) {
  if (!status->status)
    return;
  for (size_t i = 0; i < status->payloads.count; i += 2) {
    if (strcmp(status->payloads.items[i], key) != 0)
      continue;
    dp_free(status->payloads.items[i + 1]);
    status->payloads.items[i + 1] = dp_strdup(value);
    return;
  }
  DP_ARRAY_PUSH(&status->payloads, dp_strdup(key));
  DP_ARRAY_PUSH(&status->payloads, dp_strdup(value));
}

void TF_ForEachPayload(const TF_Status *status, TF_PayloadVisitor visitor, void *capture) {
  for (size_t i = 0; i < status->payloads.count; i += 2)
    visitor(status->payloads.items[i], status->payloads.items[i + 1], capture);
}

void TF_SetStatusFromIOError(TF_Status *status, int error_code, const char *context) {
  dp_client_set_status(status, error_code == 0 ? NULL : dp_status_from_errno(error_code, context));
}
