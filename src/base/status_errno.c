/* The system's error numbers as statuses. The codes are TensorFlow's, because clients see them: a
 * missing file must be NOT_FOUND, a refused connection UNAVAILABLE. No state; any thread. */
#include <errno.h>
#include <string.h>

#include "base/status.h"

/* TensorFlow's mapping; numbers that it does not know are UNKNOWN. */
static dp_code code_of_errno(int number) {
  switch (number) {
  case EINVAL:
  case ENAMETOOLONG:
  case E2BIG:
  case EDESTADDRREQ:
  case EDOM:
  case EFAULT:
  case EILSEQ:
  case ELOOP:
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

dp_status *dp_status_from_errno(int number, const char *context) {
  char text[128];
  return dp_status_create(code_of_errno(number), "%s; %s", context,
                          strerror_r(number, text, sizeof(text)));
}
