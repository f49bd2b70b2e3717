/* Fuzzes the decoders of messages that carry tensors. The first byte chooses the message, the
 * second the size of the pieces it arrives in. A message that is accepted must encode and decode
 * again. */
#include <stdlib.h>
#include <string.h>
#include "pieces.h"
#include "wire/run_messages.h"

#define DEFINE_TRY(record, end)                                                                    \
  static void try_##record(const dp_rope *rope, dp_arena *arena) {                                 \
    dp_##record message, again;                                                                    \
    dp_status *status = dp_##record##_decode(rope, arena, &message);                               \
    if (status) {                                                                                  \
      dp_status_release(status);                                                                   \
      return;                                                                                      \
    }                                                                                              \
    dp_rope out = {0};                                                                             \
    if (dp_##record##_encode(&message, &out) || dp_##record##_decode(&out, arena, &again))         \
      abort();                                                                                     \
    end(&message);                                                                                 \
    end(&again);                                                                                   \
    dp_rope_deinit(&out);                                                                          \
  }

static void end_named_tensor(dp_named_tensor *named) {
  dp_tensor_deinit(&named->tensor);
}
static void end_recv_tensor_request(dp_recv_tensor_request *request) {
  (void)request;
}
DEFINE_TRY(named_tensor, end_named_tensor)
DEFINE_TRY(run_step_request, dp_run_step_request_deinit)
DEFINE_TRY(run_step_response, dp_run_step_response_deinit)
DEFINE_TRY(run_callable_request, dp_run_callable_request_deinit)
DEFINE_TRY(run_callable_response, dp_run_callable_response_deinit)
DEFINE_TRY(run_graph_request, dp_run_graph_request_deinit)
DEFINE_TRY(run_graph_response, dp_run_graph_response_deinit)
DEFINE_TRY(recv_tensor_request, end_recv_tensor_request)
DEFINE_TRY(recv_tensor_response, dp_recv_tensor_response_deinit)

static void (*const tries[])(const dp_rope *rope, dp_arena *arena) = {
    try_named_tensor,         try_run_step_request,      try_run_step_response,
    try_run_callable_request, try_run_callable_response, try_run_graph_request,
    try_run_graph_response,   try_recv_tensor_request,   try_recv_tensor_response,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  dp_buffer_set_limit((uint64_t)256 << 20);
  dp_rope rope = {0};
  dp_arena *arena = dp_arena_create();
  cut(data + 2, size - 2, data[1] ? data[1] : 4096, &rope);
  tries[data[0] % (sizeof tries / sizeof *tries)](&rope, arena);
  dp_arena_destroy(arena);
  dp_rope_deinit(&rope);
  return 0;
}
