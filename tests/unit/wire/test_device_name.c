/* Device names and rendezvous keys: parsing, printing and merging with the results that
 * TensorFlow's own parser has. */
#include "wire_test.h"
#include "wire/device_name.h"
#include "wire/rendezvous_key.h"

static dp_device_name parse(const char *text) {
  dp_device_name name;
  assert_ok(dp_device_name_parse(dp_view_of(text), &name));
  return name;
}

static void assert_prints(const char *text, const char *expected) {
  dp_device_name name = parse(text);
  char buffer[DP_DEVICE_NAME_SIZE];
  assert_string_equal(dp_device_name_format(&name, buffer), expected);
}

static void parses_and_prints(void **state) {
  const char *full = "/job:ps/replica:0/task:1/device:CPU:0";
  assert_prints(full, full);
  assert_prints("", "");
  assert_prints("/", "");
  assert_prints("/cpu:0", "/device:CPU:0");
  assert_prints("/GPU:3", "/device:GPU:3");
  assert_prints("/gpu:*", "/device:GPU:*");
  assert_prints("/device:CPU:*", "/device:CPU:*");
  assert_prints("/device:CPU", "/device:CPU:*");
  assert_prints("/device:cpu:0", "/device:cpu:0");
  assert_prints("/device:*", "");
  assert_prints("/device:*:2", "");
  assert_prints("/job:ps/task:1", "/job:ps/task:1");
  assert_prints("/task:1/job:ps", "/job:ps/task:1");
  assert_prints("/job:*/replica:*/task:*/device:*:*", "");
  assert_prints("/job:a/job:b_2", "/job:b_2");
  assert_prints("/task:2147483647", "/task:2147483647");
  assert_prints("/job:worker/task:3/cpu:0", "/job:worker/task:3/device:CPU:0");
}

static void refuses_malformed(void **state) {
  static const char *const bad[] = {
      "cpu:0",      "/cpu",          "/cpu:",
      "/job:",      "/job:1a",       "/job:a-b",
      "/task:x",    "/task:",        "//",
      "/job:a/",    "/replica",      "/device:",
      "/device::0", "/tpu:0",        "/task:99999999999",
      "/Job:a",     "/device:C-U:0", "/device:CPU:x",
      "/job:a b",   "/task:-1",      "/device:CPU:0extra",
  };
  dp_device_name name;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_error(DP_INVALID_ARGUMENT, "Malformed", dp_device_name_parse(dp_view_of(bad[i]), &name));
  char long_job[300] = "/job:";
  memset(long_job + 5, 'j', 200);
  assert_code(DP_INVALID_ARGUMENT, dp_device_name_parse(dp_view_of(long_job), &name));
  assert_code(DP_INVALID_ARGUMENT, dp_device_name_parse((dp_view){"/job:a\0b", 8}, &name));
}

static void compares(void **state) {
  dp_device_name full = parse("/job:ps/replica:0/task:1/device:CPU:0");
  dp_device_name job = parse("/job:ps"), cpu = parse("/cpu:*"), gpu = parse("/gpu:0");
  assert_true(dp_device_name_is_complete(&full));
  assert_false(dp_device_name_is_complete(&job));
  assert_true(dp_device_name_accepts(&job, &full));
  assert_false(dp_device_name_accepts(&full, &job));
  assert_true(dp_device_name_accepts(&cpu, &full));
  assert_false(dp_device_name_accepts(&gpu, &full));
  dp_device_name other = parse("/job:ps/replica:0/task:2/device:CPU:0");
  assert_false(dp_device_name_same_task(&full, &other));
  dp_device_name task = dp_device_name_task(&full), expected = parse("/job:ps/replica:0/task:1");
  assert_memory_equal(&task, &expected, sizeof task);
  assert_true(dp_device_name_same_task(&task, &full));
  dp_device_name empty = parse("/");
  assert_true(dp_device_name_is_empty(&empty));
}

static void merge_to(const char *a, const char *b, bool soft, const char *expected) {
  dp_device_name target = parse(a), other = parse(b);
  char buffer[DP_DEVICE_NAME_SIZE];
  assert_ok(dp_device_name_merge(&target, &other, soft));
  assert_string_equal(dp_device_name_format(&target, buffer), expected);
}

static void merges(void **state) {
  merge_to("/job:ps", "/cpu:0", false, "/job:ps/device:CPU:0");
  merge_to("", "/job:a/task:1", false, "/job:a/task:1");
  merge_to("/gpu:0", "/job:a/cpu:1", true, "/job:a");
  merge_to("/cpu:0", "/cpu:1", true, "/device:CPU:*");
  merge_to("/gpu:*", "/cpu:0/task:2", true, "/task:2");
  dp_device_name target = parse("/gpu:0"), other = parse("/cpu:0");
  assert_error(DP_INVALID_ARGUMENT, "incompatible types: '/device:GPU:0' and '/device:CPU:0'",
               dp_device_name_merge(&target, &other, false));
  other = parse("/gpu:1");
  assert_error(DP_INVALID_ARGUMENT, "incompatible ids", dp_device_name_merge(&target, &other, 0));
  target = parse("/job:a/task:1"), other = parse("/job:b");
  assert_error(DP_INVALID_ARGUMENT, "jobs", dp_device_name_merge(&target, &other, true));
  other = parse("/task:2");
  assert_error(DP_INVALID_ARGUMENT, "tasks", dp_device_name_merge(&target, &other, true));
  target = parse("/replica:1"), other = parse("/replica:2");
  assert_error(DP_INVALID_ARGUMENT, "replicas", dp_device_name_merge(&target, &other, true));
  char buffer[DP_DEVICE_NAME_SIZE];
  target = parse("/job:a/gpu:0"), other = parse("/job:b/task:1");
  dp_device_name_override(&target, &other);
  assert_string_equal(dp_device_name_format(&target, buffer), "/job:b/task:1/device:GPU:0");
}

static void builds_and_parses_keys(void **state) {
  dp_text text = {0};
  dp_rendezvous_key_print(&text, "/job:ps/replica:0/task:0/device:CPU:0", 0xabc123,
                          "/job:w/replica:0/task:1/device:GPU:0", "edge_5_x", 0, 0);
  assert_string_equal(text.data, "/job:ps/replica:0/task:0/device:CPU:0;0000000000abc123;"
                                 "/job:w/replica:0/task:1/device:GPU:0;edge_5_x;0:0");
  dp_rendezvous_key key;
  assert_ok(dp_rendezvous_key_parse((dp_view){text.data, text.length}, &key));
  assert_int_equal(key.source_incarnation, 0xabc123);
  assert_true(dp_view_equals(key.edge_name, "edge_5_x"));
  assert_true(dp_view_equals(key.frame_and_iteration, "0:0"));
  assert_string_equal(key.destination.type, "GPU");
  assert_int_equal(key.destination.task, 1);
  for (size_t i = 0; i < text.length; i++) {
    dp_status *status = dp_rendezvous_key_parse((dp_view){text.data, i}, &key);
    if (i < text.length - 2)
      assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
    dp_status_release(status);
  }
  dp_text_add(&text, ";more");
  assert_error(DP_INVALID_ARGUMENT, "five parts",
               dp_rendezvous_key_parse((dp_view){text.data, text.length}, &key));
  assert_code(DP_INVALID_ARGUMENT,
              dp_rendezvous_key_parse(dp_view_of("/job:a;xyz;/job:b;e;0:0"), &key));
  assert_code(DP_INVALID_ARGUMENT,
              dp_rendezvous_key_parse(dp_view_of("/job:a;11112222333344445;/job:b;e;0:0"), &key));
  assert_code(DP_INVALID_ARGUMENT,
              dp_rendezvous_key_parse(dp_view_of("/job:a;1;/job:b;;0:0"), &key));
  assert_code(DP_INVALID_ARGUMENT, dp_rendezvous_key_parse(dp_view_of("a;1;/job:b;e;0:0"), &key));
  assert_ok(dp_rendezvous_key_parse(dp_view_of("/cpu:0;1;/job:b;e;0:0"), &key));
  dp_text_deinit(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parses_and_prints),
      cmocka_unit_test(refuses_malformed),
      cmocka_unit_test(compares),
      cmocka_unit_test(merges),
      cmocka_unit_test(builds_and_parses_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
