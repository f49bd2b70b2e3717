/* The messages that carry tensors: RunStep, RunCallable, RunGraph, RecvTensor. Requests and
 * responses are both read and written, since a task is server and client of all these calls.
 *
 * Decoding: the result lives in the caller's arena, except the tensors, which own references to
 * their buffers. The message's deinit releases the tensors; it is safe on zeroed memory and not
 * needed after a decoder failed. A decoded string is never NULL. A string with a NUL byte is
 * refused, except the message of an error. Unknown fields are ignored.
 *
 * Encoding: the caller fills the struct with pointers to any memory, which the encoder borrows for
 * the call; the rope retains the buffers of large tensors. A NULL string counts as "".
 * No state, any thread. */
#ifndef DP_WIRE_RUN_MESSAGES_H
#define DP_WIRE_RUN_MESSAGES_H

#include "base/arena.h"
#include "base/status.h"
#include "tensor/rope.h"
#include "tensor/tensor.h"
#include "wire/any.pb-c.h"
#include "wire/config.pb-c.h"
#include "wire/device.pb-c.h"
#include "wire/graph.pb-c.h"
#include "wire/stats.pb-c.h"
#include "wire/worker.pb-c.h"

typedef struct dp_named_tensor {
  const char *name;
  dp_tensor tensor;
} dp_named_tensor;

/* A NamedTensorProto that is a message of its own. */
DP_MUST_USE dp_status *dp_named_tensor_decode(const dp_rope *rope, dp_arena *arena,
                                              dp_named_tensor *named_out);
DP_MUST_USE dp_status *dp_named_tensor_encode(const dp_named_tensor *named, dp_rope *rope);

/* ---- MasterService.RunStep (also for partial runs) --------------------------------------------*/
typedef struct dp_run_step_request {
  const char *session_handle;
  dp_named_tensor *feeds;
  size_t feed_count;
  const char **fetches;
  size_t fetch_count;
  const char **targets;
  size_t target_count;
  Tensorflow__RunOptions *options; /* NULL when absent */
  const char *partial_run_handle;
  bool store_errors_in_response_body;
  int64_t request_id;
} dp_run_step_request;

DP_MUST_USE dp_status *dp_run_step_request_decode(const dp_rope *rope, dp_arena *arena,
                                                  dp_run_step_request *request_out);
DP_MUST_USE dp_status *dp_run_step_request_encode(const dp_run_step_request *request,
                                                  dp_rope *rope);
void dp_run_step_request_deinit(dp_run_step_request *request);

typedef struct dp_run_step_response {
  dp_named_tensor *tensors;
  size_t tensor_count;
  Tensorflow__RunMetadata *metadata; /* NULL when absent */
  int32_t status_code;               /* a dp_code; 0 unless the error is in the body */
  const char *status_error_message;
} dp_run_step_response;

DP_MUST_USE dp_status *dp_run_step_response_decode(const dp_rope *rope, dp_arena *arena,
                                                   dp_run_step_response *response_out);
DP_MUST_USE dp_status *dp_run_step_response_encode(const dp_run_step_response *response,
                                                   dp_rope *rope);
void dp_run_step_response_deinit(dp_run_step_response *response);

/* ---- MasterService.RunCallable ----------------------------------------------------------------*/
typedef struct dp_run_callable_request {
  const char *session_handle;
  int64_t handle;
  dp_tensor *feeds; /* in the order of CallableOptions.feed */
  size_t feed_count;
  int64_t request_id;
} dp_run_callable_request;

DP_MUST_USE dp_status *dp_run_callable_request_decode(const dp_rope *rope, dp_arena *arena,
                                                      dp_run_callable_request *request_out);
DP_MUST_USE dp_status *dp_run_callable_request_encode(const dp_run_callable_request *request,
                                                      dp_rope *rope);
void dp_run_callable_request_deinit(dp_run_callable_request *request);

typedef struct dp_run_callable_response {
  dp_tensor *fetches; /* in the order of CallableOptions.fetch */
  size_t fetch_count;
  Tensorflow__RunMetadata *metadata; /* NULL when absent */
} dp_run_callable_response;

DP_MUST_USE dp_status *dp_run_callable_response_decode(const dp_rope *rope, dp_arena *arena,
                                                       dp_run_callable_response *response_out);
DP_MUST_USE dp_status *dp_run_callable_response_encode(const dp_run_callable_response *response,
                                                       dp_rope *rope);
void dp_run_callable_response_deinit(dp_run_callable_response *response);

/* ---- WorkerService.RunGraph -------------------------------------------------------------------*/
typedef struct dp_run_graph_request {
  const char *session_handle;
  bool create_worker_session_called;
  const char *graph_handle;
  int64_t step_id;
  Tensorflow__ExecutorOpts *exec_opts; /* NULL when absent */
  dp_named_tensor *sends;
  size_t send_count;
  const char **recv_keys;
  size_t recv_key_count;
  bool is_partial;
  bool is_last_partial_run;
  bool store_errors_in_response_body;
  int64_t request_id;
} dp_run_graph_request;

DP_MUST_USE dp_status *dp_run_graph_request_decode(const dp_rope *rope, dp_arena *arena,
                                                   dp_run_graph_request *request_out);
DP_MUST_USE dp_status *dp_run_graph_request_encode(const dp_run_graph_request *request,
                                                   dp_rope *rope);
void dp_run_graph_request_deinit(dp_run_graph_request *request);

typedef struct dp_run_graph_response {
  dp_named_tensor *recvs;
  size_t recv_count;
  Tensorflow__StepStats *step_stats;    /* NULL when absent */
  Tensorflow__CostGraphDef *cost_graph; /* NULL when absent */
  Tensorflow__GraphDef **partition_graphs;
  size_t partition_graph_count;
  int32_t status_code;
  const char *status_error_message;
} dp_run_graph_response;

DP_MUST_USE dp_status *dp_run_graph_response_decode(const dp_rope *rope, dp_arena *arena,
                                                    dp_run_graph_response *response_out);
DP_MUST_USE dp_status *dp_run_graph_response_encode(const dp_run_graph_response *response,
                                                    dp_rope *rope);
void dp_run_graph_response_deinit(dp_run_graph_response *response);

/* ---- WorkerService.RecvTensor -----------------------------------------------------------------*/
typedef struct dp_recv_tensor_request {
  int64_t step_id;
  const char *rendezvous_key;
  bool dma_ok;
  Tensorflow__DeviceLocality *client_locality; /* NULL when absent, like the two below */
  Tensorflow__DeviceLocality *server_locality;
  Google__Protobuf__Any *transport_options;
  int64_t request_id;
} dp_recv_tensor_request;

DP_MUST_USE dp_status *dp_recv_tensor_request_decode(const dp_rope *rope, dp_arena *arena,
                                                     dp_recv_tensor_request *request_out);
DP_MUST_USE dp_status *dp_recv_tensor_request_encode(const dp_recv_tensor_request *request,
                                                     dp_rope *rope);

typedef struct dp_recv_tensor_response {
  dp_tensor tensor; /* unset when the message had none; written as an empty float vector then */
  bool is_dead;
  int64_t send_start_micros;
  Google__Protobuf__Any *transport_options; /* NULL when absent */
  bool require_ack;
} dp_recv_tensor_response;

DP_MUST_USE dp_status *dp_recv_tensor_response_decode(const dp_rope *rope, dp_arena *arena,
                                                      dp_recv_tensor_response *response_out);
DP_MUST_USE dp_status *dp_recv_tensor_response_encode(const dp_recv_tensor_response *response,
                                                      dp_rope *rope);
void dp_recv_tensor_response_deinit(dp_recv_tensor_response *response);

#endif
