/* Status: how every fallible function of Downpour answers.
 *
 * A status is a pointer and NULL is OK, so success costs nothing. An error is an immutable,
 * reference-counted {code, message}; the codes are gRPC's 0..16, which are also TF_Code's, so no
 * layer translates. The caller owns the status that a function returns: it releases it, returns it
 * or passes it to a function that consumes it. All functions may be called from any thread. */
#ifndef DP_BASE_STATUS_H
#define DP_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum dp_code {
  DP_OK = 0,
  DP_CANCELLED = 1,
  DP_UNKNOWN = 2,
  DP_INVALID_ARGUMENT = 3,
  DP_DEADLINE_EXCEEDED = 4,
  DP_NOT_FOUND = 5,
  DP_ALREADY_EXISTS = 6,
  DP_PERMISSION_DENIED = 7,
  DP_RESOURCE_EXHAUSTED = 8,
  DP_FAILED_PRECONDITION = 9,
  DP_ABORTED = 10,
  DP_OUT_OF_RANGE = 11,
  DP_UNIMPLEMENTED = 12,
  DP_INTERNAL = 13,
  DP_UNAVAILABLE = 14,
  DP_DATA_LOSS = 15,
  DP_UNAUTHENTICATED = 16,
} dp_code;

typedef struct dp_status dp_status;

#define DP_MUST_USE __attribute__((warn_unused_result))
#define DP_PRINTF(format_index, first_argument)                                                    \
  __attribute__((format(printf, format_index, first_argument)))

/* Makes an error. `code` must not be DP_OK. Never returns NULL: without memory it returns the
 * static out-of-memory status. */
DP_MUST_USE dp_status *dp_status_create(dp_code code, const char *format, ...) DP_PRINTF(2, 3)
    __attribute__((returns_nonnull));
DP_MUST_USE dp_status *dp_status_create_v(dp_code code, const char *format, va_list arguments)
    __attribute__((returns_nonnull));

/* The static RESOURCE_EXHAUSTED status; needs no memory to make. */
DP_MUST_USE dp_status *dp_status_out_of_memory(void);

/* Both accept NULL. */
DP_MUST_USE dp_status *dp_status_retain(const dp_status *status);
void dp_status_release(dp_status *status);

/* An error from an errno number: the code is TensorFlow's for that number, the message is
 * "<context>; <strerror(number)>". */
DP_MUST_USE dp_status *dp_status_from_errno(int number, const char *context);

/* DP_OK and "" for NULL. The message lives as long as the status. */
dp_code dp_status_code(const dp_status *status);
const char *dp_status_message(const dp_status *status);

/* Consumes `status` and returns one with the same code and "<formatted>: <old message>".
 * NULL stays NULL. */
DP_MUST_USE dp_status *dp_status_annotate(dp_status *status, const char *format, ...)
    DP_PRINTF(2, 3);
/* As dp_status_annotate, but the new message is "<old message><formatted>". */
DP_MUST_USE dp_status *dp_status_append(dp_status *status, const char *format, ...) DP_PRINTF(2, 3);

/* Keeps the first real error: stores `status` (consumed) in *slot when *slot is OK, or when *slot
 * is CANCELLED and `status` is something else; releases it otherwise. Not thread-safe by itself. */
void dp_status_update(dp_status **slot, dp_status *status);

/* "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number outside the enum. */
const char *dp_code_name(dp_code code);

#define DP_INVALID(...) dp_status_create(DP_INVALID_ARGUMENT, __VA_ARGS__)

#define DP_RETURN_IF_ERROR(expression)                                                             \
  do {                                                                                             \
    dp_status *dp_status_here_ = (expression);                                                     \
    if (__builtin_expect(dp_status_here_ != NULL, 0))                                              \
      return dp_status_here_;                                                                      \
  } while (0)

#define DP_GOTO_IF_ERROR(status, label, expression)                                                \
  do {                                                                                             \
    (status) = (expression);                                                                       \
    if (__builtin_expect((status) != NULL, 0))                                                     \
      goto label;                                                                                  \
  } while (0)

#endif
