/* The messages that carry tensors, as tables of fields: one table per message, which record.c reads
 * and writes. proto/tensors.proto has the same messages in protobuf's language. Constant data, any
 * thread. */
#include "wire/run_messages.h"

#include <stddef.h>
#include "wire/record_internal.h"

#define SINGLE(number, kind, member)                                                               \
  { number, DP_RECORD_##kind, offsetof(RECORD, member), 0, NULL, #member }
#define LIST(number, kind, member, count)                                                          \
  { number, DP_RECORD_##kind, offsetof(RECORD, member), offsetof(RECORD, count), NULL, #member }
#define MESSAGE(number, type, member)                                                              \
  { number, DP_RECORD_MESSAGE, offsetof(RECORD, member), 0, &type##__descriptor, #member }
#define MESSAGES(number, type, member, count)                                                      \
  {                                                                                                \
    number, DP_RECORD_MESSAGES, offsetof(RECORD, member), offsetof(RECORD, count),                 \
        &type##__descriptor, #member                                                               \
  }
/* Defines the dp_record_type of a message and its functions that run_messages.h declares. */
#define DEFINE_RECORD(record, wire_name, fields)                                                   \
  static const dp_record_type record##_type = {wire_name, sizeof(dp_##record), fields,             \
                                               sizeof(fields) / sizeof *(fields)};                 \
  dp_status *dp_##record##_decode(const dp_rope *rope, dp_arena *arena, dp_##record *out) {        \
    return dp_record_decode(&record##_type, rope, arena, out);                                     \
  }                                                                                                \
  dp_status *dp_##record##_encode(const dp_##record *record, dp_rope *rope) {                      \
    return dp_record_encode(&record##_type, record, rope);                                         \
  }
#define DEFINE_DEINIT(record)                                                                      \
  void dp_##record##_deinit(dp_##record *record) {                                                 \
    dp_record_deinit(&record##_type, record);                                                      \
  }

#define RECORD dp_run_step_request
static const dp_record_field run_step_request_fields[] = {
    SINGLE(1, STRING, session_handle),
    LIST(2, NAMED, feeds, feed_count),
    LIST(3, STRINGS, fetches, fetch_count),
    LIST(4, STRINGS, targets, target_count),
    MESSAGE(5, tensorflow__run_options, options),
    SINGLE(6, STRING, partial_run_handle),
    SINGLE(7, BOOL, store_errors_in_response_body),
    SINGLE(8, INT64, request_id),
};
DEFINE_RECORD(run_step_request, "RunStepRequest", run_step_request_fields)
DEFINE_DEINIT(run_step_request)
#undef RECORD

#define RECORD dp_run_step_response
static const dp_record_field run_step_response_fields[] = {
    LIST(1, NAMED, tensors, tensor_count),
    MESSAGE(2, tensorflow__run_metadata, metadata),
    SINGLE(3, INT32, status_code),
    SINGLE(4, TEXT, status_error_message),
};
DEFINE_RECORD(run_step_response, "RunStepResponse", run_step_response_fields)
DEFINE_DEINIT(run_step_response)
#undef RECORD

#define RECORD dp_run_callable_request
static const dp_record_field run_callable_request_fields[] = {
    SINGLE(1, STRING, session_handle),
    SINGLE(2, INT64, handle),
    LIST(3, TENSORS, feeds, feed_count),
    SINGLE(4, INT64, request_id),
};
DEFINE_RECORD(run_callable_request, "RunCallableRequest", run_callable_request_fields)
DEFINE_DEINIT(run_callable_request)
#undef RECORD

#define RECORD dp_run_callable_response
static const dp_record_field run_callable_response_fields[] = {
    LIST(1, TENSORS, fetches, fetch_count),
    MESSAGE(2, tensorflow__run_metadata, metadata),
};
DEFINE_RECORD(run_callable_response, "RunCallableResponse", run_callable_response_fields)
DEFINE_DEINIT(run_callable_response)
#undef RECORD

#define RECORD dp_run_graph_request
static const dp_record_field run_graph_request_fields[] = {
    SINGLE(1, STRING, graph_handle),
    SINGLE(2, INT64, step_id),
    LIST(3, NAMED, sends, send_count),
    LIST(4, STRINGS, recv_keys, recv_key_count),
    MESSAGE(5, tensorflow__executor_opts, exec_opts),
    SINGLE(6, BOOL, is_partial),
    SINGLE(7, BOOL, is_last_partial_run),
    SINGLE(8, STRING, session_handle),
    SINGLE(9, BOOL, store_errors_in_response_body),
    SINGLE(10, BOOL, create_worker_session_called),
    SINGLE(11, INT64, request_id),
};
DEFINE_RECORD(run_graph_request, "RunGraphRequest", run_graph_request_fields)
DEFINE_DEINIT(run_graph_request)
#undef RECORD

#define RECORD dp_run_graph_response
static const dp_record_field run_graph_response_fields[] = {
    LIST(1, NAMED, recvs, recv_count),
    MESSAGE(2, tensorflow__step_stats, step_stats),
    MESSAGE(3, tensorflow__cost_graph_def, cost_graph),
    MESSAGES(4, tensorflow__graph_def, partition_graphs, partition_graph_count),
    SINGLE(5, INT32, status_code),
    SINGLE(6, TEXT, status_error_message),
};
DEFINE_RECORD(run_graph_response, "RunGraphResponse", run_graph_response_fields)
DEFINE_DEINIT(run_graph_response)
#undef RECORD

#define RECORD dp_recv_tensor_request
static const dp_record_field recv_tensor_request_fields[] = {
    SINGLE(1, INT64, step_id),
    SINGLE(2, STRING, rendezvous_key),
    SINGLE(3, BOOL, dma_ok),
    MESSAGE(4, tensorflow__device_locality, client_locality),
    MESSAGE(5, tensorflow__device_locality, server_locality),
    MESSAGE(6, google__protobuf__any, transport_options),
    SINGLE(7, INT64, request_id),
};
DEFINE_RECORD(recv_tensor_request, "RecvTensorRequest", recv_tensor_request_fields)
#undef RECORD

#define RECORD dp_recv_tensor_response
static const dp_record_field recv_tensor_response_fields[] = {
    SINGLE(1, TENSOR, tensor),           SINGLE(2, BOOL, is_dead),
    SINGLE(3, INT64, send_start_micros), MESSAGE(4, google__protobuf__any, transport_options),
    SINGLE(5, BOOL, require_ack),
};
DEFINE_RECORD(recv_tensor_response, "RecvTensorResponse", recv_tensor_response_fields)
DEFINE_DEINIT(recv_tensor_response)
#undef RECORD
