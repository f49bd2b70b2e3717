/* Helpers for the tests of this folder: ropes from bytes, cut into pieces as messages from a
 * network are, and checks of statuses. */
#ifndef DP_TESTS_WIRE_TEST_H
#define DP_TESTS_WIRE_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include "base/memory.h"
#include "base/status.h"
#include "tensor/rope.h"
#include "tensor/tensor.h"

#define assert_ok(expression)                                                                      \
  do {                                                                                             \
    dp_status *status_here = (expression);                                                         \
    if (status_here)                                                                               \
      fail_msg("%s: %s", #expression, dp_status_message(status_here));                             \
  } while (0)

#define assert_code(code, expression)                                                              \
  do {                                                                                             \
    dp_status *status_here = (expression);                                                         \
    assert_int_equal(dp_status_code(status_here), code);                                           \
    dp_status_release(status_here);                                                                \
  } while (0)

/* The error must mention `text`. */
#define assert_error(code, text, expression)                                                       \
  do {                                                                                             \
    dp_status *status_here = (expression);                                                         \
    assert_int_equal(dp_status_code(status_here), code);                                           \
    if (!strstr(dp_status_message(status_here), text))                                             \
      fail_msg("\"%s\" does not mention \"%s\"", dp_status_message(status_here), text);            \
    dp_status_release(status_here);                                                                \
  } while (0)

/* A rope of pieces of at most `piece` bytes, each in memory of its own. */
static inline dp_rope rope_of(const void *data, size_t length, size_t piece) {
  dp_rope rope = {0};
  for (size_t at = 0; at < length; at += piece) {
    size_t here = length - at < piece ? length - at : piece;
    dp_buffer *buffer = NULL;
    assert_ok(dp_buffer_create(here, &buffer));
    memcpy(buffer->data, (const char *)data + at, here);
    dp_rope_append_piece(&rope, buffer, buffer->data, here);
  }
  return rope;
}

/* All bytes of a rope; the caller frees. */
static inline uint8_t *bytes_of(const dp_rope *rope) {
  uint8_t *bytes = dp_malloc(rope->length + 1);
  dp_rope_flatten(rope, bytes);
  return bytes;
}

#endif
