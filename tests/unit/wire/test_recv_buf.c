/* RecvBufResponse: decoding gives the bytes that were encoded, from one piece or from many; a
 * response of another size, or a malformed one, is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "base/memory.h"
#include "wire/recv_buf.h"

static dp_tensor make_bytes(int64_t count) {
  dp_shape shape = dp_shape_vector(count);
  dp_tensor tensor;
  assert_null(dp_tensor_create(DP_UINT8, &shape, &tensor));
  for (int64_t i = 0; i < count; i++)
    ((uint8_t *)tensor.data)[i] = (uint8_t)(i * 7);
  return tensor;
}

static void test_there_and_back(void **unused) {
  static const int64_t counts[] = {0, 1, 100, 511, 512, 100000};
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
    dp_tensor sent = make_bytes(counts[i]);
    uint8_t *received = dp_malloc((size_t)counts[i] + 1);
    dp_rope rope = {0};
    assert_null(dp_recv_buf_response_encode(&sent, &rope));
    assert_null(dp_recv_buf_response_decode(&rope, received, (size_t)counts[i]));
    assert_memory_equal(received, sent.data, (size_t)counts[i]);
    dp_free(received);
    dp_rope_deinit(&rope);
    dp_tensor_deinit(&sent);
  }
}

/* As genuine TensorFlow sends it: several pieces of content. */
static void test_pieces(void **unused) {
  static const char message[] = "\x22\x0f"  /* transport_options */
                                "\x0a\x01x" /* type_url */
                                "\x12\x0a"  /* value */
                                "\x0a\x03"
                                "abc" /* content */
                                "\x0a\x00"
                                "\x0a\x01"
                                "d";
  dp_rope rope = {0};
  assert_null(dp_rope_append(&rope, message, sizeof(message) - 1));
  char received[4];
  assert_null(dp_recv_buf_response_decode(&rope, received, 4));
  assert_memory_equal(received, "abcd", 4);
  for (size_t room = 0; room <= 5; room++) {
    char more[5];
    dp_status *status = room == 4 ? NULL : dp_recv_buf_response_decode(&rope, more, room);
    assert_int_equal(dp_status_code(status), room == 4 ? DP_OK : DP_INTERNAL);
    dp_status_release(status);
  }
  dp_rope_deinit(&rope);
}

static void test_garbage(void **unused) {
  static const char *const garbage[] = {"\x22", "\x22\x7f", "\x22\x03\x12\x05z", "\xff\xff\xff"};
  for (size_t i = 0; i < sizeof(garbage) / sizeof(*garbage); i++) {
    dp_rope rope = {0};
    char to[1];
    assert_null(dp_rope_append(&rope, garbage[i], strlen(garbage[i])));
    dp_status *status = dp_recv_buf_response_decode(&rope, to, 1);
    assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
    dp_status_release(status);
    dp_rope_deinit(&rope);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_garbage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
