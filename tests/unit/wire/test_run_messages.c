/* The messages that carry tensors: encoding and decoding, from ropes in many pieces, and messages
 * that are cut short. */
#include "wire_test.h"
#include "wire/control.h"
#include "wire/run_messages.h"

static dp_arena *arena;

static int set_up(void **state) {
  arena = dp_arena_create();
  return 0;
}
static int tear_down(void **state) {
  dp_arena_destroy(arena);
  return 0;
}

static dp_named_tensor named(const char *name, float value) {
  dp_named_tensor result = {.name = name};
  assert_ok(dp_tensor_scalar_float(value, &result.tensor));
  return result;
}

static float value_of(const dp_tensor *tensor) {
  assert_int_equal(tensor->dtype, DP_FLOAT);
  return *(const float *)tensor->data;
}

static dp_run_step_request sample_request(void) {
  static const char *fetches[] = {"loss:0", "x:0", ""};
  static const char *targets[] = {"train"};
  dp_run_step_request request = {
      .session_handle = "session",
      .feeds = DP_ARENA_ARRAY(arena, dp_named_tensor, 2),
      .feed_count = 2,
      .fetches = fetches,
      .fetch_count = 3,
      .targets = targets,
      .target_count = 1,
      .options = dp_wire_new(arena, &tensorflow__run_options__descriptor),
      .partial_run_handle = "partial",
      .store_errors_in_response_body = true,
      .request_id = -5,
  };
  request.feeds[0] = named("a:0", 1);
  request.feeds[1] = named("b:0", 2);
  request.options->timeout_in_ms = 1234;
  return request;
}

static void run_step_request_both_ways(void **state) {
  dp_run_step_request request = sample_request();
  dp_rope rope = {0};
  assert_ok(dp_run_step_request_encode(&request, &rope));
  uint8_t *bytes = bytes_of(&rope);
  for (size_t piece = 1; piece < rope.length * 2; piece = piece * 2 + 1) {
    dp_rope cut = rope_of(bytes, rope.length, piece);
    dp_run_step_request back;
    assert_ok(dp_run_step_request_decode(&cut, arena, &back));
    assert_string_equal(back.session_handle, "session");
    assert_int_equal(back.feed_count, 2);
    assert_string_equal(back.feeds[1].name, "b:0");
    assert_true(value_of(&back.feeds[1].tensor) == 2);
    assert_int_equal(back.fetch_count, 3);
    assert_string_equal(back.fetches[1], "x:0");
    assert_string_equal(back.fetches[2], "");
    assert_string_equal(back.targets[0], "train");
    assert_int_equal(back.options->timeout_in_ms, 1234);
    assert_string_equal(back.partial_run_handle, "partial");
    assert_true(back.store_errors_in_response_body);
    assert_int_equal(back.request_id, -5);
    dp_run_step_request_deinit(&back);
    dp_rope_deinit(&cut);
  }
  dp_free(bytes);
  dp_rope_deinit(&rope);
  dp_run_step_request_deinit(&request);
}

static void nothing_is_written_for_defaults(void **state) {
  dp_rope rope = {0};
  dp_run_step_request request = {0}, request_back;
  assert_ok(dp_run_step_request_encode(&request, &rope));
  assert_int_equal(rope.length, 0);
  assert_ok(dp_run_step_request_decode(&rope, arena, &request_back));
  assert_string_equal(request_back.session_handle, "");
  assert_null(request_back.options);
  dp_run_step_request_deinit(&request_back);
  dp_run_graph_response response = {0};
  assert_ok(dp_run_graph_response_encode(&response, &rope));
  assert_int_equal(rope.length, 0);
}

static void run_step_response_both_ways(void **state) {
  dp_named_tensor tensors[1] = {named("loss:0", 7)};
  dp_run_step_response response = {
      .tensors = tensors,
      .tensor_count = 1,
      .metadata = dp_wire_new(arena, &tensorflow__run_metadata__descriptor),
      .status_code = DP_ABORTED,
      .status_error_message = "gone",
  };
  dp_run_step_response back;
  dp_rope rope = {0};
  assert_ok(dp_run_step_response_encode(&response, &rope));
  assert_ok(dp_run_step_response_decode(&rope, arena, &back));
  assert_true(value_of(&back.tensors[0].tensor) == 7);
  assert_non_null(back.metadata);
  assert_int_equal(back.status_code, DP_ABORTED);
  assert_string_equal(back.status_error_message, "gone");
  dp_run_step_response_deinit(&back);
  dp_tensor_deinit(&tensors[0].tensor);
  dp_rope_deinit(&rope);
}

static void messages_of_errors_arrive_whatever_they_quote(void **state) {
  dp_rope rope = rope_of("\x18\x03\x22\x04"
                         "a\0b\0",
                         8, 3);
  dp_run_step_response response;
  assert_ok(dp_run_step_response_decode(&rope, arena, &response));
  assert_string_equal(response.status_error_message, "a?b?");
  dp_run_step_response_deinit(&response);
  dp_rope_deinit(&rope);
}

static void run_callable_both_ways(void **state) {
  dp_tensor tensors[2];
  assert_ok(dp_tensor_scalar_float(1, &tensors[0]));
  assert_ok(dp_tensor_scalar_string("s", 1, &tensors[1]));
  dp_run_callable_request request = {"s", 3, tensors, 2, 4}, request_back;
  dp_rope rope = {0};
  assert_ok(dp_run_callable_request_encode(&request, &rope));
  assert_ok(dp_run_callable_request_decode(&rope, arena, &request_back));
  assert_int_equal(request_back.handle, 3);
  assert_int_equal(request_back.request_id, 4);
  assert_int_equal(request_back.feed_count, 2);
  assert_int_equal(request_back.feeds[1].dtype, DP_STRING);
  dp_run_callable_request_deinit(&request_back);
  dp_rope_deinit(&rope);
  dp_run_callable_response response = {tensors, 2, NULL}, response_back;
  assert_ok(dp_run_callable_response_encode(&response, &rope));
  assert_ok(dp_run_callable_response_decode(&rope, arena, &response_back));
  assert_int_equal(response_back.fetch_count, 2);
  assert_null(response_back.metadata);
  dp_run_callable_response_deinit(&response_back);
  dp_rope_deinit(&rope);
  dp_run_callable_response_deinit(&response);
}

static void run_graph_both_ways(void **state) {
  dp_named_tensor sends[1] = {named("key", 9)};
  const char *keys[] = {"k1", "k2"};
  dp_run_graph_request request = {
      .session_handle = "s",
      .create_worker_session_called = true,
      .graph_handle = "g",
      .step_id = 1LL << 60,
      .exec_opts = dp_wire_new(arena, &tensorflow__executor_opts__descriptor),
      .sends = sends,
      .send_count = 1,
      .recv_keys = keys,
      .recv_key_count = 2,
      .is_partial = true,
      .is_last_partial_run = true,
      .store_errors_in_response_body = true,
      .request_id = 77,
  };
  dp_run_graph_request request_back;
  request.exec_opts->record_costs = 1;
  dp_rope rope = {0};
  assert_ok(dp_run_graph_request_encode(&request, &rope));
  assert_ok(dp_run_graph_request_decode(&rope, arena, &request_back));
  assert_true(request_back.step_id == 1LL << 60);
  assert_true(request_back.create_worker_session_called && request_back.is_partial &&
              request_back.is_last_partial_run && request_back.store_errors_in_response_body);
  assert_string_equal(request_back.graph_handle, "g");
  assert_string_equal(request_back.recv_keys[1], "k2");
  assert_true(request_back.exec_opts->record_costs);
  assert_string_equal(request_back.sends[0].name, "key");
  dp_run_graph_request_deinit(&request_back);
  dp_rope_deinit(&rope);
  Tensorflow__GraphDef *graphs[2] = {dp_wire_new(arena, &tensorflow__graph_def__descriptor),
                                     dp_wire_new(arena, &tensorflow__graph_def__descriptor)};
  graphs[1]->version = 5;
  dp_run_graph_response response = {
      .recvs = sends,
      .recv_count = 1,
      .step_stats = dp_wire_new(arena, &tensorflow__step_stats__descriptor),
      .cost_graph = dp_wire_new(arena, &tensorflow__cost_graph_def__descriptor),
      .partition_graphs = graphs,
      .partition_graph_count = 2,
      .status_code = 3,
      .status_error_message = "bad",
  };
  dp_run_graph_response response_back;
  assert_ok(dp_run_graph_response_encode(&response, &rope));
  assert_ok(dp_run_graph_response_decode(&rope, arena, &response_back));
  assert_int_equal(response_back.partition_graph_count, 2);
  assert_int_equal(response_back.partition_graphs[1]->version, 5);
  assert_non_null(response_back.step_stats);
  assert_non_null(response_back.cost_graph);
  assert_int_equal(response_back.status_code, 3);
  dp_run_graph_response_deinit(&response_back);
  dp_rope_deinit(&rope);
  dp_tensor_deinit(&sends[0].tensor);
}

static void recv_tensor_both_ways(void **state) {
  dp_recv_tensor_request request = {
      .step_id = 5,
      .rendezvous_key = "a;1;b;e;0:0",
      .dma_ok = true,
      .client_locality = dp_wire_new(arena, &tensorflow__device_locality__descriptor),
      .transport_options = dp_wire_new(arena, &google__protobuf__any__descriptor),
      .request_id = 6,
  };
  dp_recv_tensor_request request_back;
  request.client_locality->bus_id = 1;
  request.transport_options->type_url = "t";
  dp_rope rope = {0};
  assert_ok(dp_recv_tensor_request_encode(&request, &rope));
  assert_ok(dp_recv_tensor_request_decode(&rope, arena, &request_back));
  assert_string_equal(request_back.rendezvous_key, "a;1;b;e;0:0");
  assert_int_equal(request_back.client_locality->bus_id, 1);
  assert_null(request_back.server_locality);
  assert_string_equal(request_back.transport_options->type_url, "t");
  dp_rope_deinit(&rope);
  dp_recv_tensor_response response = {.is_dead = true, .send_start_micros = 9, .require_ack = true};
  dp_recv_tensor_response response_back;
  assert_ok(dp_recv_tensor_response_encode(&response, &rope));
  assert_ok(dp_recv_tensor_response_decode(&rope, arena, &response_back));
  assert_true(response_back.is_dead && response_back.require_ack);
  assert_int_equal(response_back.send_start_micros, 9);
  assert_int_equal(response_back.tensor.dtype, DP_FLOAT);
  assert_int_equal(response_back.tensor.shape.elements, 0);
  dp_recv_tensor_response_deinit(&response_back);
  dp_rope_deinit(&rope);
  /* Without a tensor, and with two. */
  rope = rope_of("\x10\x01", 2, 1);
  assert_ok(dp_recv_tensor_response_decode(&rope, arena, &response_back));
  assert_false(dp_tensor_is_set(&response_back.tensor));
  dp_rope_deinit(&rope);
  rope = rope_of("\x0a\x02\x08\x01\x0a\x02\x08\x03", 8, 3);
  assert_ok(dp_recv_tensor_response_decode(&rope, arena, &response_back));
  assert_int_equal(response_back.tensor.dtype, DP_INT32);
  dp_recv_tensor_response_deinit(&response_back);
  dp_rope_deinit(&rope);
}

static void named_tensor_alone(void **state) {
  dp_named_tensor one = named("n", 4), back;
  dp_rope rope = {0};
  assert_ok(dp_named_tensor_encode(&one, &rope));
  assert_ok(dp_named_tensor_decode(&rope, arena, &back));
  assert_string_equal(back.name, "n");
  assert_true(value_of(&back.tensor) == 4);
  dp_tensor_deinit(&back.tensor);
  dp_tensor_deinit(&one.tensor);
  dp_rope_deinit(&rope);
}

static void large_tensors_go_by_reference(void **state) {
  dp_named_tensor large = {.name = "big"};
  dp_shape shape = dp_shape_vector(1 << 20);
  assert_ok(dp_tensor_create_zero(DP_FLOAT, &shape, &large.tensor));
  dp_run_step_request request = {.session_handle = "s", .feeds = &large, .feed_count = 1}, back;
  request.request_id = 1;
  dp_rope rope = {0};
  assert_ok(dp_run_step_request_encode(&request, &rope));
  bool found = false;
  for (size_t i = 0; i < rope.pieces.count; i++)
    found |= rope.pieces.items[i].data == large.tensor.data;
  assert_true(found);
  assert_ok(dp_run_step_request_decode(&rope, arena, &back));
  assert_ptr_equal(back.feeds[0].tensor.data, large.tensor.data);
  dp_rope_deinit(&rope);
  dp_run_step_request_deinit(&back);
  dp_tensor_deinit(&large.tensor);
}

static void names_what_is_wrong(void **state) {
  dp_run_step_request request;
  dp_rope rope = rope_of("\x12\x05\x0a\x01"
                         "a\x12\x00\x12\x03\x0a\x01"
                         "b",
                         12, 100);
  assert_error(DP_INVALID_ARGUMENT, "RunStepRequest: feeds[0]: \"a\"",
               dp_run_step_request_decode(&rope, arena, &request));
  dp_rope_deinit(&rope);
  rope = rope_of("\x0a\x02"
                 "a\0",
                 4, 100);
  assert_error(DP_INVALID_ARGUMENT, "session_handle",
               dp_run_step_request_decode(&rope, arena, &request));
  dp_rope_deinit(&rope);
  rope = rope_of("\x2a\x02\x0f\x00", 4, 100);
  assert_error(DP_INVALID_ARGUMENT, "tensorflow.RunOptions",
               dp_run_step_request_decode(&rope, arena, &request));
  dp_rope_deinit(&rope);
}

static void survives_noise(void **state) {
  dp_run_step_request request = sample_request(), back;
  dp_rope rope = {0};
  assert_ok(dp_run_step_request_encode(&request, &rope));
  uint8_t *bytes = bytes_of(&rope);
  for (size_t i = 0; i <= rope.length; i++) {
    dp_rope cut = rope_of(bytes, i, 7);
    dp_status *status = dp_run_step_request_decode(&cut, arena, &back);
    if (!status)
      dp_run_step_request_deinit(&back);
    dp_status_release(status);
    dp_rope_deinit(&cut);
  }
  for (size_t i = 0; i < rope.length; i++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[i] ^= (uint8_t)(1 << bit);
      dp_rope cut = rope_of(bytes, rope.length, 11);
      dp_status *status = dp_run_step_request_decode(&cut, arena, &back);
      if (!status)
        dp_run_step_request_deinit(&back);
      dp_status_release(status);
      dp_rope_deinit(&cut);
      bytes[i] ^= (uint8_t)(1 << bit);
    }
  dp_free(bytes);
  dp_rope_deinit(&rope);
  dp_run_step_request_deinit(&request);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(run_step_request_both_ways),
      TEST(nothing_is_written_for_defaults),
      TEST(run_step_response_both_ways),
      TEST(messages_of_errors_arrive_whatever_they_quote),
      TEST(run_callable_both_ways),
      TEST(run_graph_both_ways),
      TEST(recv_tensor_both_ways),
      TEST(named_tensor_alone),
      TEST(large_tensors_go_by_reference),
      TEST(names_what_is_wrong),
      TEST(survives_noise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
