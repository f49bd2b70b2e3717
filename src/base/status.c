/* Status objects: one allocation holds the count, the code and the message. The out-of-memory
 * status is static and immortal, so that failing never needs memory. Objects are immutable after
 * creation and may be shared between threads; only the count changes. */
#include "base/status.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/refcount.h"

struct dp_status {
  dp_refcount references;
  dp_code code;
  bool immortal;
  char message[];
};

static dp_status out_of_memory = {{1}, DP_RESOURCE_EXHAUSTED, true, {"out of memory"}};

static const char *const code_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

const char *dp_code_name(dp_code code) {
  size_t index = (size_t)(int)code;
  return index < sizeof(code_names) / sizeof(code_names[0]) ? code_names[index] : "UNKNOWN";
}

dp_status *dp_status_out_of_memory(void) {
  return &out_of_memory;
}

/* A status whose message has room for `length` bytes and is still empty; NULL without memory. */
static dp_status *allocate(dp_code code, size_t length) {
  dp_status *status = dp_try_malloc(sizeof(dp_status) + length + 1);
  if (status == NULL)
    return NULL;
  dp_refcount_init(&status->references);
  status->code = code;
  status->immortal = false;
  status->message[0] = '\0';
  return status;
}

/* "<before><formatted><after>" under `code`. */
static dp_status *compose(dp_code code, const char *before, const char *after, const char *format,
                          va_list arguments) {
  va_list copy;
  va_copy(copy, arguments);
  int written = vsnprintf(NULL, 0, format, copy);
  va_end(copy);
  size_t middle = written > 0 ? (size_t)written : 0;
  size_t first = strlen(before), last = strlen(after);
  dp_status *status = allocate(code, first + middle + last);
  if (status == NULL)
    return dp_status_out_of_memory();
  memcpy(status->message, before, first);
  if (middle > 0)
    vsnprintf(status->message + first, middle + 1, format, arguments);
  memcpy(status->message + first + middle, after, last + 1);
  return status;
}

dp_status *dp_status_create_v(dp_code code, const char *format, va_list arguments) {
  assert(code != DP_OK);
  return compose(code, "", "", format, arguments);
}

dp_status *dp_status_create(dp_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  dp_status *status = dp_status_create_v(code, format, arguments);
  va_end(arguments);
  return status;
}

dp_status *dp_status_retain(const dp_status *status) {
  dp_status *shared = (dp_status *)status;
  if (shared != NULL && !shared->immortal)
    dp_refcount_retain(&shared->references);
  return shared;
}

void dp_status_release(dp_status *status) {
  if (status != NULL && !status->immortal && dp_refcount_release(&status->references))
    dp_free(status);
}

dp_code dp_status_code(const dp_status *status) {
  return status == NULL ? DP_OK : status->code;
}

const char *dp_status_message(const dp_status *status) {
  return status == NULL ? "" : status->message;
}

dp_status *dp_status_annotate(dp_status *status, const char *format, ...) {
  if (status == NULL)
    return NULL;
  va_list arguments;
  va_start(arguments, format);
  dp_status *context = compose(status->code, "", ": ", format, arguments);
  va_end(arguments);
  size_t length = strlen(context->message), rest = strlen(status->message);
  dp_status *whole = allocate(status->code, length + rest);
  if (whole != NULL) {
    memcpy(whole->message, context->message, length);
    memcpy(whole->message + length, status->message, rest + 1);
  }
  dp_status_release(context);
  if (whole == NULL)
    return status; /* without memory the plain error says more than "out of memory" */
  dp_status_release(status);
  return whole;
}

dp_status *dp_status_append(dp_status *status, const char *format, ...) {
  if (status == NULL)
    return NULL;
  va_list arguments;
  va_start(arguments, format);
  dp_status *whole = compose(status->code, status->message, "", format, arguments);
  va_end(arguments);
  if (whole == dp_status_out_of_memory())
    return status;
  dp_status_release(status);
  return whole;
}

void dp_status_update(dp_status **slot, dp_status *status) {
  if (status == NULL)
    return;
  if (*slot == NULL) {
    *slot = status;
  } else if ((*slot)->code == DP_CANCELLED && status->code != DP_CANCELLED) {
    dp_status_release(*slot);
    *slot = status;
  } else {
    dp_status_release(status);
  }
}
