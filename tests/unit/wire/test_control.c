/* Control messages: unpacking and packing, malformed messages that are refused, unknown fields that
 * are kept, limits of depth and memory. */
#include "wire_test.h"
#include "wire/collections.pb-c.h"
#include "wire/config.pb-c.h"
#include "wire/control.h"
#include "wire/master.pb-c.h"
#include "wire/methods.h"
#include "wire/shape_message.h"

static dp_arena *arena;

static int set_up(void **state) {
  arena = dp_arena_create();
  return 0;
}
static int tear_down(void **state) {
  dp_arena_destroy(arena);
  return 0;
}

static Tensorflow__NodeDef *make_node(const char *name) {
  Tensorflow__NodeDef *node = dp_wire_new(arena, &tensorflow__node_def__descriptor);
  node->name = (char *)name;
  node->op = "Const";
  node->n_input = 2;
  node->input = DP_ARENA_ARRAY(arena, char *, 2);
  node->input[0] = "a:0";
  node->input[1] = "^b";
  node->n_attr = 1;
  node->attr = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef__AttrEntry *, 1);
  node->attr[0] = dp_wire_new(arena, &tensorflow__node_def__attr_entry__descriptor);
  node->attr[0]->key = "dtype";
  node->attr[0]->value = dp_wire_new(arena, &tensorflow__attr_value__descriptor);
  node->attr[0]->value->value_case = TENSORFLOW__ATTR_VALUE__VALUE_TYPE;
  node->attr[0]->value->type = TENSORFLOW__DATA_TYPE__DT_FLOAT;
  return node;
}

static Tensorflow__GraphDef *make_graph(size_t count) {
  Tensorflow__GraphDef *graph = dp_wire_new(arena, &tensorflow__graph_def__descriptor);
  graph->n_node = count;
  graph->node = DP_ARENA_ARRAY(arena, Tensorflow__NodeDef *, count);
  for (size_t i = 0; i < count; i++)
    graph->node[i] = make_node(dp_arena_printf(arena, "node_%zu", i));
  return graph;
}

static void round_trips_a_graph(void **state) {
  dp_rope rope = {0};
  assert_ok(dp_wire_pack(make_graph(50), &rope));
  uint8_t *bytes = bytes_of(&rope);
  for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
    dp_rope cut = rope_of(bytes, rope.length, piece);
    Tensorflow__GraphDef *graph = NULL;
    assert_ok(dp_wire_unpack(&tensorflow__graph_def__descriptor, &cut, arena, &graph));
    assert_int_equal(graph->n_node, 50);
    assert_string_equal(graph->node[49]->name, "node_49");
    assert_string_equal(graph->node[49]->device, "");
    assert_string_equal(graph->node[0]->input[1], "^b");
    const Tensorflow__AttrValue *value = dp_wire_node_attr(graph->node[7], "dtype");
    assert_non_null(value);
    assert_int_equal(value->type, TENSORFLOW__DATA_TYPE__DT_FLOAT);
    assert_null(dp_wire_node_attr(graph->node[7], "shape"));
    dp_rope again = {0};
    assert_ok(dp_wire_pack(graph, &again));
    uint8_t *again_bytes = bytes_of(&again);
    assert_int_equal(again.length, rope.length);
    assert_memory_equal(again_bytes, bytes, rope.length);
    dp_free(again_bytes);
    dp_rope_deinit(&again);
    dp_rope_deinit(&cut);
  }
  dp_free(bytes);
  dp_rope_deinit(&rope);
}

static void survives_truncation_and_noise(void **state) {
  dp_rope rope = {0};
  assert_ok(dp_wire_pack(make_graph(3), &rope));
  uint8_t *bytes = bytes_of(&rope);
  Tensorflow__GraphDef *graph = NULL;
  for (size_t i = 0; i < rope.length; i++)
    dp_status_release(
        dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, bytes, i, arena, &graph));
  for (size_t i = 0; i < rope.length; i++)
    for (int bit = 0; bit < 8; bit++) {
      bytes[i] ^= (uint8_t)(1 << bit);
      dp_status_release(dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, bytes, rope.length,
                                             arena, &graph));
      bytes[i] ^= (uint8_t)(1 << bit);
    }
  dp_free(bytes);
  dp_rope_deinit(&rope);
}

static dp_status *unpack_graph(const char *bytes, size_t length, Tensorflow__GraphDef **graph) {
  return dp_wire_unpack_bytes(&tensorflow__graph_def__descriptor, bytes, length, arena, graph);
}
#define UNPACK_GRAPH(text, graph) unpack_graph(text, sizeof(text) - 1, graph)

static void keeps_unknown_fields(void **state) {
  /* Numbers 100..103 are unknown; number 3 (version) comes as bytes, number 1 (node) as a number:
   * protobuf keeps those as unknown too. A group in field 104 is skipped. */
  static const char text[] = "\xa0\x06\x05"
                             "\xa9\x06"
                             "12345678"
                             "\xb2\x06\x03"
                             "abc"
                             "\xbd\x06"
                             "1234"
                             "\x1a\x02"
                             "hi"
                             "\x08\x01"
                             "\xc3\x06\x08\x01\xc4\x06"
                             "\x18\x07";
  Tensorflow__GraphDef *graph = NULL;
  assert_ok(UNPACK_GRAPH(text, &graph));
  assert_int_equal(graph->version, 7);
  assert_int_equal(graph->base.n_unknown_fields, 6);
  uint8_t *packed = NULL;
  size_t length = 0;
  assert_ok(dp_wire_pack_bytes(graph, arena, &packed, &length));
  Tensorflow__GraphDef *again = NULL;
  assert_ok(unpack_graph((const char *)packed, length, &again));
  assert_int_equal(again->base.n_unknown_fields, 6);
  assert_int_equal(length, sizeof(text) - 1 - 6);
}

static void names_what_is_wrong(void **state) {
  Tensorflow__GraphDef *graph = NULL;
  assert_error(DP_INVALID_ARGUMENT, "tensorflow.GraphDef: truncated field",
               UNPACK_GRAPH("\x0a\x05"
                            "a",
                            &graph));
  assert_error(DP_INVALID_ARGUMENT, "tensorflow.NodeDef", UNPACK_GRAPH("\x0a\x02\x0a\x07", &graph));
  assert_error(DP_INVALID_ARGUMENT, "tensorflow.NodeDef.name has a NUL",
               UNPACK_GRAPH("\x0a\x05\x0a\x03"
                            "a\0b",
                            &graph));
  assert_error(DP_INVALID_ARGUMENT, "field number 0", UNPACK_GRAPH("\x00\x00", &graph));
  assert_error(DP_INVALID_ARGUMENT, "wire type", UNPACK_GRAPH("\x0e\x00", &graph));
  assert_error(DP_INVALID_ARGUMENT, "broken number",
               UNPACK_GRAPH("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &graph));
  assert_error(DP_INVALID_ARGUMENT, "broken group", UNPACK_GRAPH("\xc3\x06\x08\x01", &graph));
}

static void merges_what_comes_twice(void **state) {
  /* versions {producer 1}, versions {min_consumer 2}, version 5, version 6 */
  Tensorflow__GraphDef *graph = NULL;
  assert_ok(UNPACK_GRAPH("\x22\x02\x08\x01\x22\x02\x10\x02\x18\x05\x18\x06", &graph));
  assert_int_equal(graph->versions->producer, 1);
  assert_int_equal(graph->versions->min_consumer, 2);
  assert_int_equal(graph->version, 6);
  /* Packed and unpacked numbers in one field: versions.bad_consumers 1, 2, 3, 300. */
  assert_ok(UNPACK_GRAPH("\x22\x0c\x1a\x02\x01\x02\x18\x03\x1a\x02\xac\x02"
                         "\x18\x04",
                         &graph));
  assert_int_equal(graph->versions->n_bad_consumers, 5);
  assert_int_equal(graph->versions->bad_consumers[3], 300);
  /* The last member of a oneof counts, and a changed one starts afresh. */
  Tensorflow__AttrValue *value = NULL;
  assert_ok(dp_wire_unpack_bytes(&tensorflow__attr_value__descriptor,
                                 "\x12\x03"
                                 "abc"
                                 "\x3a\x02\x18\x01",
                                 9, arena, &value));
  assert_int_equal(value->value_case, TENSORFLOW__ATTR_VALUE__VALUE_SHAPE);
  assert_true(value->shape->unknown_rank);
}

static void limits_nesting(void **state) {
  /* ControlFlowContextDef { cond_ctxt { nested_contexts { cond_ctxt ... */
  for (int levels = 40; levels <= 60; levels += 20) {
    uint8_t bytes[1024];
    size_t at = sizeof bytes;
    for (int i = 0; i < levels; i++) {
      size_t inner = sizeof bytes - at;
      const uint8_t tags[] = {0x32, 0x0a};
      for (int j = 0; j < 2; j++) {
        inner = sizeof bytes - at;
        if (inner >= 0x80) {
          bytes[--at] = (uint8_t)(inner >> 7);
          bytes[--at] = (uint8_t)(inner | 0x80);
        } else {
          bytes[--at] = (uint8_t)inner;
        }
        bytes[--at] = tags[j];
      }
    }
    Tensorflow__ControlFlowContextDef *message = NULL;
    dp_status *status = dp_wire_unpack_bytes(&tensorflow__control_flow_context_def__descriptor,
                                             bytes + at, sizeof bytes - at, arena, &message);
    assert_int_equal(dp_status_code(status), levels == 40 ? DP_OK : DP_INVALID_ARGUMENT);
    dp_status_release(status);
  }
}

static void limits_memory(void **state) {
  /* Two bytes on the wire for each empty node, well over a hundred in memory. */
  size_t length = (size_t)4 << 20;
  char *bytes = dp_malloc(length);
  for (size_t i = 0; i < length; i += 2)
    memcpy(bytes + i, "\x0a\x00", 2);
  Tensorflow__GraphDef *graph = NULL;
  assert_code(DP_RESOURCE_EXHAUSTED, unpack_graph(bytes, length, &graph));
  /* A graph that comes in many pieces is merged in linear memory. */
  for (size_t i = 0; i < length; i += 4)
    memcpy(bytes + i, "\x0a\x02\x0a\x00", 4);
  Tensorflow__CreateSessionRequest *request = NULL;
  assert_ok(dp_wire_unpack_bytes(&tensorflow__create_session_request__descriptor, bytes, 1 << 18,
                                 arena, &request));
  assert_int_equal(request->graph_def->n_node, 1 << 16);
  assert_true(dp_arena_bytes(arena) < (size_t)512 << 20);
  dp_free(bytes);
}

static void copies_deeply(void **state) {
  Tensorflow__NodeDef *node = make_node("n"), *copy = NULL;
  assert_ok(dp_wire_copy(node, arena, &copy));
  assert_ptr_not_equal(copy->name, node->name);
  assert_string_equal(copy->name, "n");
  assert_int_equal(dp_wire_packed_size(copy), dp_wire_packed_size(node));
  Tensorflow__GraphDef *empty = NULL;
  assert_ok(unpack_graph("", 0, &empty));
  assert_int_equal(empty->n_node, 0);
}

static void last_map_entry_counts(void **state) {
  Tensorflow__NodeDef *node = NULL;
  static const char text[] = "\x2a\x07\x0a\x01"
                             "k\x12\x02\x18\x01"
                             "\x2a\x07\x0a\x01"
                             "k\x12\x02\x18\x02"
                             "\x2a\x03\x0a\x01"
                             "e";
  assert_ok(
      dp_wire_unpack_bytes(&tensorflow__node_def__descriptor, text, sizeof text - 1, arena, &node));
  assert_int_equal(dp_wire_node_attr(node, "k")->i, 2);
  assert_null(dp_wire_node_attr(node, "e"));
}

static void converts_shapes(void **state) {
  dp_shape shape = dp_shape_matrix(3, 4), back;
  assert_ok(dp_wire_shape(dp_wire_shape_message(&shape, arena), &back));
  assert_true(dp_shape_equal(&shape, &back));
  assert_ok(dp_wire_shape(NULL, &back));
  assert_int_equal(back.rank, 0);
  dp_partial_shape partial = {.rank = 2, .dims = {-1, 5}}, partial_back;
  Tensorflow__TensorShapeProto *message = dp_wire_partial_shape_message(&partial, arena);
  assert_ok(dp_wire_partial_shape(message, &partial_back));
  assert_int_equal(partial_back.dims[0], -1);
  assert_int_equal(partial_back.dims[1], 5);
  assert_code(DP_INVALID_ARGUMENT, dp_wire_shape(message, &back));
  partial = dp_partial_shape_unknown();
  message = dp_wire_partial_shape_message(&partial, arena);
  assert_ok(dp_wire_partial_shape(message, &partial_back));
  assert_int_equal(partial_back.rank, -1);
  assert_ok(dp_wire_partial_shape(NULL, &partial_back));
  assert_int_equal(partial_back.rank, -1);
}

static void names_methods(void **state) {
  assert_string_equal(dp_master_method_path(DP_MASTER_RUN_STEP),
                      "/tensorflow.MasterService/RunStep");
  assert_string_equal(dp_worker_method_path(DP_WORKER_COMPLETE_INSTANCE),
                      "/tensorflow.WorkerService/CompleteInstance");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(round_trips_a_graph),     TEST(survives_truncation_and_noise),
      TEST(keeps_unknown_fields),    TEST(names_what_is_wrong),
      TEST(merges_what_comes_twice), TEST(limits_nesting),
      TEST(limits_memory),           TEST(copies_deeply),
      TEST(last_map_entry_counts),   TEST(converts_shapes),
      TEST(names_methods),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
