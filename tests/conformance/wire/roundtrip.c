/* Decodes messages and encodes them again, for test_wire_roundtrip.py beside it.
 *
 * Standard input is a sequence of {length, name, length, message}. The answer to each, on standard
 * output, is {code, length, bytes}: the message encoded again, or the text of the error. Lengths
 * and codes are 4 bytes, little-endian. The empty name asks for the known names, one per line.
 * Messages reach the decoders in pieces of 7, 100 and 100000 bytes, whose results must agree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "wire/any.pb-c.h"
#include "wire/attr.pb-c.h"
#include "wire/checkpoint.pb-c.h"
#include "wire/cluster.pb-c.h"
#include "wire/collections.pb-c.h"
#include "wire/config.pb-c.h"
#include "wire/debug.pb-c.h"
#include "wire/device.pb-c.h"
#include "wire/event.pb-c.h"
#include "wire/example.pb-c.h"
#include "wire/graph.pb-c.h"
#include "wire/kernel.pb-c.h"
#include "wire/master.pb-c.h"
#include "wire/meta_graph.pb-c.h"
#include "wire/op.pb-c.h"
#include "wire/payloads.pb-c.h"
#include "wire/rewriter.pb-c.h"
#include "wire/server.pb-c.h"
#include "wire/stats.pb-c.h"
#include "wire/types.pb-c.h"
#include "wire/worker.pb-c.h"
#include "wire/control.h"
#include "wire/run_messages.h"
#include "wire/tensor_codec.h"

static const ProtobufCMessageDescriptor *const generated[] = {
#include "message_list.inc"
};

typedef dp_status *(*again_fn)(const dp_rope *in, dp_arena *arena, dp_rope *out);

/* ---- Messages that are written by hand --------------------------------------------------------*/

static dp_status *tensor_again(const dp_rope *in, dp_arena *arena, dp_rope *out) {
  dp_rope_reader reader = dp_rope_read(in);
  dp_tensor tensor;
  DP_RETURN_IF_ERROR(dp_wire_decode_tensor(&reader, &tensor));
  dp_status *status = dp_wire_encode_tensor(&tensor, out);
  dp_tensor_deinit(&tensor);
  return status;
}

static dp_status *named_tensor_again(const dp_rope *in, dp_arena *arena, dp_rope *out) {
  dp_named_tensor named;
  DP_RETURN_IF_ERROR(dp_named_tensor_decode(in, arena, &named));
  dp_status *status = dp_named_tensor_encode(&named, out);
  dp_tensor_deinit(&named.tensor);
  return status;
}

static dp_status *recv_tensor_request_again(const dp_rope *in, dp_arena *arena, dp_rope *out) {
  dp_recv_tensor_request request;
  DP_RETURN_IF_ERROR(dp_recv_tensor_request_decode(in, arena, &request));
  return dp_recv_tensor_request_encode(&request, out);
}

#define DEFINE_AGAIN(record)                                                                       \
  static dp_status *record##_again(const dp_rope *in, dp_arena *arena, dp_rope *out) {             \
    dp_##record record;                                                                            \
    DP_RETURN_IF_ERROR(dp_##record##_decode(in, arena, &record));                                  \
    dp_status *status = dp_##record##_encode(&record, out);                                        \
    dp_##record##_deinit(&record);                                                                 \
    return status;                                                                                 \
  }
DEFINE_AGAIN(run_step_request)
DEFINE_AGAIN(run_step_response)
DEFINE_AGAIN(run_callable_request)
DEFINE_AGAIN(run_callable_response)
DEFINE_AGAIN(run_graph_request)
DEFINE_AGAIN(run_graph_response)
DEFINE_AGAIN(recv_tensor_response)

static const struct {
  const char *name;
  again_fn again;
} by_hand[] = {
    {"tensorflow.TensorProto", tensor_again},
    {"tensorflow.NamedTensorProto", named_tensor_again},
    {"tensorflow.RunStepRequest", run_step_request_again},
    {"tensorflow.RunStepResponse", run_step_response_again},
    {"tensorflow.RunCallableRequest", run_callable_request_again},
    {"tensorflow.RunCallableResponse", run_callable_response_again},
    {"tensorflow.RunGraphRequest", run_graph_request_again},
    {"tensorflow.RunGraphResponse", run_graph_response_again},
    {"tensorflow.RecvTensorRequest", recv_tensor_request_again},
    {"tensorflow.RecvTensorResponse", recv_tensor_response_again},
};

/* ---- One message ------------------------------------------------------------------------------*/

static dp_status *generated_again(const ProtobufCMessageDescriptor *type, const dp_rope *in,
                                  dp_arena *arena, dp_rope *out) {
  void *message = NULL, *copy = NULL;
  DP_RETURN_IF_ERROR(dp_wire_unpack(type, in, arena, &message));
  DP_RETURN_IF_ERROR(dp_wire_copy(message, arena, &copy));
  return dp_wire_pack(copy, out);
}

static dp_status *again(const char *name, const dp_rope *in, dp_arena *arena, dp_rope *out) {
  for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++)
    if (strcmp(by_hand[i].name, name) == 0)
      return by_hand[i].again(in, arena, out);
  for (size_t i = 0; i < sizeof generated / sizeof *generated; i++)
    if (strcmp(generated[i]->name, name) == 0)
      return generated_again(generated[i], in, arena, out);
  return dp_status_create(DP_NOT_FOUND, "no message %s", name);
}

static dp_status *cut(const uint8_t *data, size_t length, size_t piece, dp_rope *rope) {
  for (size_t at = 0; at < length; at += piece) {
    size_t here = length - at < piece ? length - at : piece;
    dp_buffer *buffer = NULL;
    DP_RETURN_IF_ERROR(dp_buffer_create(here, &buffer));
    memcpy(buffer->data, data + at, here);
    dp_rope_append_piece(rope, buffer, buffer->data, here);
  }
  return NULL;
}

static dp_status *again_in_pieces(const char *name, const uint8_t *data, size_t length,
                                  size_t piece, dp_text *result) {
  dp_rope in = {0}, out = {0};
  dp_arena *arena = dp_arena_create();
  dp_status *status = cut(data, length, piece, &in);
  if (!status)
    status = again(name, &in, arena, &out);
  dp_arena_destroy(arena);
  dp_rope_deinit(&in);
  dp_text_clear(result);
  for (size_t i = 0; i < out.pieces.count && !status; i++)
    dp_text_append(result, out.pieces.items[i].data, out.pieces.items[i].length);
  dp_rope_deinit(&out);
  return status;
}

/* ---- The conversation -------------------------------------------------------------------------*/

static uint8_t *read_block(size_t *length_out) {
  uint32_t length;
  if (fread(&length, 4, 1, stdin) != 1)
    return NULL;
  uint8_t *data = calloc(1, (size_t)length + 1);
  if (!data || (length && fread(data, length, 1, stdin) != 1))
    exit(1);
  *length_out = length;
  return data;
}

static void answer(uint32_t code, const char *data, size_t length) {
  uint32_t head[2] = {code, (uint32_t)length};
  fwrite(head, sizeof head, 1, stdout);
  if (length)
    fwrite(data, length, 1, stdout);
  fflush(stdout);
}

static void answer_names(void) {
  dp_text names = {0};
  for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++)
    dp_text_printf(&names, "%s\n", by_hand[i].name);
  for (size_t i = 0; i < sizeof generated / sizeof *generated; i++)
    dp_text_printf(&names, "%s\n", generated[i]->name);
  answer(0, names.data, names.length);
  dp_text_deinit(&names);
}

static void answer_message(const char *name, const uint8_t *data, size_t length) {
  static const size_t pieces[] = {7, 100, 100000};
  dp_text results[3] = {{0}};
  dp_status *statuses[3];
  for (int i = 0; i < 3; i++)
    statuses[i] = again_in_pieces(name, data, length, pieces[i], &results[i]);
  bool agree = true;
  for (int i = 1; i < 3; i++)
    agree &= dp_status_code(statuses[i]) == dp_status_code(statuses[0]) &&
             results[i].length == results[0].length &&
             (!results[0].length || !memcmp(results[i].data, results[0].data, results[0].length));
  static const char differ[] = "the results for pieces of several sizes differ";
  if (!agree)
    answer(DP_INTERNAL, differ, sizeof differ - 1);
  else if (statuses[0])
    answer(dp_status_code(statuses[0]), dp_status_message(statuses[0]),
           strlen(dp_status_message(statuses[0])));
  else
    answer(0, results[0].data, results[0].length);
  for (int i = 0; i < 3; i++) {
    dp_status_release(statuses[i]);
    dp_text_deinit(&results[i]);
  }
}

int main(void) {
  size_t name_length, length;
  for (uint8_t *name; (name = read_block(&name_length));) {
    uint8_t *data = read_block(&length);
    if (!data)
      return 1;
    if (name_length == 0)
      answer_names();
    else
      answer_message((const char *)name, data, length);
    free(name);
    free(data);
  }
  return 0;
}
