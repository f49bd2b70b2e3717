/* TF_Status: a dp_status that the caller owns, with the payloads that TensorFlow lets programs
 * attach to an error. A status belongs to one thread at a time. */
#include <errno.h>
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

static dp_code code_of_errno(int number) {
  switch (number) {
  case EINVAL:
  case ENAMETOOLONG:
  case E2BIG:
  case EDESTADDRREQ:
  case EDOM:
  case EFAULT:
  case EILSEQ:
  case ENOPROTOOPT:
  case ENOSTR:
  case ENOTSOCK:
  case ENOTTY:
  case EPROTOTYPE:
  case ESPIPE:
    return DP_INVALID_ARGUMENT;
  case ETIMEDOUT:
  case ETIME:
    return DP_DEADLINE_EXCEEDED;
  case ENODEV:
  case ENOENT:
  case ENXIO:
  case ESRCH:
    return DP_NOT_FOUND;
  case EEXIST:
  case EADDRNOTAVAIL:
  case EALREADY:
    return DP_ALREADY_EXISTS;
  case EPERM:
  case EACCES:
  case EROFS:
    return DP_PERMISSION_DENIED;
  case ENOTEMPTY:
  case EISDIR:
  case ENOTDIR:
  case EADDRINUSE:
  case EBADF:
  case EBUSY:
  case ECHILD:
  case EISCONN:
  case ENOTBLK:
  case ENOTCONN:
  case EPIPE:
  case ESHUTDOWN:
  case ETXTBSY:
    return DP_FAILED_PRECONDITION;
  case ENOSPC:
  case EDQUOT:
  case EMFILE:
  case EMLINK:
  case ENFILE:
  case ENOBUFS:
  case ENODATA:
  case ENOMEM:
  case ENOSR:
  case EUSERS:
    return DP_RESOURCE_EXHAUSTED;
  case EFBIG:
  case EOVERFLOW:
  case ERANGE:
    return DP_OUT_OF_RANGE;
  case ENOSYS:
  case ENOTSUP:
  case EAFNOSUPPORT:
  case EPFNOSUPPORT:
  case EPROTONOSUPPORT:
  case ESOCKTNOSUPPORT:
  case EXDEV:
    return DP_UNIMPLEMENTED;
  case EAGAIN:
  case ECONNREFUSED:
  case ECONNABORTED:
  case ECONNRESET:
  case EINTR:
  case EHOSTDOWN:
  case EHOSTUNREACH:
  case ENETDOWN:
  case ENETRESET:
  case ENETUNREACH:
  case ENOLCK:
  case ENOLINK:
  case ENONET:
    return DP_UNAVAILABLE;
  case EDEADLK:
  case ESTALE:
    return DP_ABORTED;
  case ECANCELED:
    return DP_CANCELLED;
  default:
    return DP_UNKNOWN;
  }
}

void TF_SetStatusFromIOError(TF_Status *status, int error_code, const char *context) {
  char text[128];
  dp_client_set_status(status, error_code == 0
                                   ? NULL
                                   : dp_status_create(code_of_errno(error_code), "%s; %s", context,
                                                      strerror_r(error_code, text, sizeof(text))));
}
