/* Runs graphs for the conformance tests without a server: one CPU device, one executor, driven over
 * pipes by runner.py. Every message is a little-endian 32-bit length and that many bytes.
 *
 *   'L' GraphDef          compiles the graph, which stays until the next 'L' or 'R'
 *   'S' RunStepRequest    runs it: feed i is the value of the _Arg node with index i; the reply's
 *                         tensor i is that of the _Retval node with index i (as many as fetches)
 *   'R'                   forgets graph, kernels and resources
 *
 * The reply is a RunStepResponse with code and message in the body. Ends at the end of input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/event.h"
#include "base/memory.h"
#include "client/differentiate.h"
#include "kernels/kernels.h"
#include "runtime/executor.h"
#include "runtime/function.h"
#include "wire/run_messages.h"

typedef struct session {
  dp_pool *compute, *blocking;
  dp_device *device;
  dp_executor *executor;
  dp_kernel_cache *kernels; /* stateful kernels go on from graph to graph, as in a session */
  dp_function_runtime *functions;
  int64_t steps;
} session;

/* ---- Pipes ---- */
static bool read_message(dp_rope *rope, char *kind_out) {
  uint32_t length;
  char kind;
  if (fread(&length, sizeof length, 1, stdin) != 1 || length < 1 || fread(&kind, 1, 1, stdin) != 1)
    return false;
  uint8_t *data;
  dp_status *status = dp_rope_extend(rope, length - 1, &data);
  if (status || (length > 1 && fread(data, length - 1, 1, stdin) != 1)) {
    dp_status_release(status);
    return false;
  }
  *kind_out = kind;
  return true;
}

static void write_reply(dp_run_step_response *response, dp_status *error) {
  dp_rope rope = {0};
  response->status_code = dp_status_code(error);
  response->status_error_message = dp_status_message(error);
  dp_status *status = dp_run_step_response_encode(response, &rope);
  if (status) {
    fprintf(stderr, "run_graph: cannot encode: %s\n", dp_status_message(status));
    exit(1);
  }
  uint32_t length = (uint32_t)rope.length;
  fwrite(&length, sizeof length, 1, stdout);
  for (size_t i = 0; i < rope.pieces.count; ++i)
    fwrite(rope.pieces.items[i].data, 1, rope.pieces.items[i].length, stdout);
  fflush(stdout);
  dp_rope_deinit(&rope);
  dp_status_release(error);
}

/* ---- Graphs ---- */
static void unload(session *session) {
  dp_executor_release(session->executor);
  session->executor = NULL;
  dp_function_runtime_release(session->functions);
  session->functions = NULL;
}

static dp_status *load(session *session, const dp_rope *rope) {
  unload(session);
  uint8_t *bytes = dp_malloc(rope->length + 1);
  dp_rope_flatten(rope, bytes);
  Tensorflow__GraphDef *message = tensorflow__graph_def__unpack(NULL, rope->length, bytes);
  dp_free(bytes);
  if (!message)
    return DP_INVALID("the graph cannot be parsed");
  dp_graph *graph = dp_graph_create(NULL);
  dp_status *status = dp_graph_import(graph, message);
  tensorflow__graph_def__free_unpacked(message, NULL);
  if (status) {
    dp_graph_destroy(graph);
    return status;
  }
  session->functions = dp_function_runtime_create(graph->library, session->device);
  dp_executor_options options = {
      .device = session->device, .functions = session->functions, .kernels = session->kernels};
  return dp_executor_create(graph, &options, &session->executor);
}

/* ---- Steps ---- */
typedef struct step_end {
  dp_event event;
  dp_status *status;
} step_end;

static void step_done(void *arg, dp_status *status) {
  step_end *end = arg;
  end->status = status;
  dp_event_notify(&end->event);
}

static dp_status *run(session *session, dp_call_frame *frame) {
  dp_step step = {
      .id = ++session->steps,
      .session_handle = "",
      .rendezvous = dp_rendezvous_create(session->steps, NULL, NULL),
      .cancel = dp_cancel_create(NULL, DP_FOREVER),
      .pool = session->compute,
      .frame = frame,
      .functions = session->functions,
      .container = "step",
  };
  step_end end = {0};
  dp_event_init(&end.event);
  dp_executor_run(session->executor, &step, step_done, &end);
  dp_event_wait(&end.event);
  dp_event_deinit(&end.event);
  dp_resources_clear_container(session->device->resources, step.container);
  dp_rendezvous_release(step.rendezvous);
  dp_cancel_release(step.cancel);
  return end.status;
}

static void step(session *session, const dp_rope *rope) {
  dp_arena *arena = dp_arena_create();
  dp_run_step_request request = {0};
  dp_run_step_response response = {0};
  dp_status *status = dp_run_step_request_decode(rope, arena, &request);
  if (!status && !session->executor)
    status = dp_status_create(DP_FAILED_PRECONDITION, "no graph is loaded");
  if (!status) {
    dp_call_frame frame = {(int32_t)request.feed_count, (int32_t)request.fetch_count,
                           DP_ARENA_ARRAY(arena, dp_tensor, request.feed_count + 1),
                           DP_ARENA_ARRAY(arena, dp_tensor, request.fetch_count + 1)};
    for (size_t i = 0; i < request.feed_count; ++i)
      frame.arguments[i] = dp_tensor_take(&request.feeds[i].tensor);
    status = run(session, &frame);
    response.tensors = DP_ARENA_ARRAY(arena, dp_named_tensor, request.fetch_count + 1);
    response.tensor_count = status ? 0 : request.fetch_count;
    for (size_t i = 0; i < request.fetch_count; ++i)
      response.tensors[i] = (dp_named_tensor){request.fetches[i], frame.results[i]};
    write_reply(&response, status);
    for (size_t i = 0; i < request.feed_count; ++i)
      dp_tensor_deinit(&frame.arguments[i]);
    for (size_t i = 0; i < request.fetch_count; ++i)
      dp_tensor_deinit(&frame.results[i]);
  } else {
    write_reply(&response, status);
  }
  dp_run_step_request_deinit(&request);
  dp_arena_destroy(arena);
}

/* Resources may hold functions, and these the device: as a server does, it forgets them first. */
static void release(session *session) {
  unload(session);
  dp_kernel_cache_destroy(session->kernels);
  if (session->device)
    dp_resources_clear(session->device->resources);
  dp_device_release(session->device);
}

static void reset(session *session) {
  release(session);
  session->kernels = dp_kernel_cache_create();
  session->device = dp_device_create("/job:local/replica:0/task:0/device:CPU:0", "CPU",
                                     session->compute, session->blocking);
}

int main(void) {
  dp_kernels_register();
  dp_differentiate_register();
  session session = {.compute = dp_pool_create("compute", 2),
                     .blocking = dp_pool_create("blocking", 2)};
  reset(&session);
  dp_rope rope = {0};
  char kind;
  while (read_message(&rope, &kind)) {
    if (kind == 'S') {
      step(&session, &rope);
    } else {
      dp_status *status = NULL;
      if (kind == 'L')
        status = load(&session, &rope);
      else
        reset(&session);
      write_reply(&(dp_run_step_response){0}, status);
    }
    dp_rope_deinit(&rope);
    rope = (dp_rope){0};
  }
  dp_rope_deinit(&rope);
  release(&session);
  dp_kernels_settle();
  dp_pool_destroy(session.compute);
  dp_pool_destroy(session.blocking);
  return 0;
}
