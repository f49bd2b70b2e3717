/* Cluster specifications in all their forms, and what is said about wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/memory.h"
#include "cluster/cluster_spec.h"

static dp_cluster_spec *parse(const char *text) {
  dp_cluster_spec *spec = NULL;
  dp_status *status = dp_cluster_spec_load(text, &spec);
  if (status != NULL)
    fail_msg("%s: %s", text, dp_status_message(status));
  return spec;
}

/* The specification is {"ps": {"0": "h1:2222"}, ...} in order; it is released. */
static void assert_prints(dp_cluster_spec *spec, const char *expected) {
  dp_text text = {0};
  for (size_t i = 0; i < spec->job_count; i++) {
    dp_text_printf(&text, "%s\"%s\": {", i > 0 ? ", " : "{", spec->jobs[i].name);
    for (size_t j = 0; j < spec->jobs[i].task_count; j++)
      dp_text_printf(&text, "%s\"%d\": \"%s\"", j > 0 ? ", " : "", spec->jobs[i].tasks[j].index,
                     spec->jobs[i].tasks[j].address);
    dp_text_add(&text, "}");
  }
  dp_text_add(&text, "}");
  assert_string_equal(dp_text_string(&text), expected);
  dp_text_deinit(&text);
  dp_cluster_spec_release(spec);
}

/* Prints as expected, and what is printed parses to the same. */
static void check_print(const char *text, const char *expected) {
  assert_prints(parse(text), expected);
  assert_prints(parse(expected), expected);
}

static void lists_and_maps(void **state) {
  check_print("{\"worker\":[\"a:1\",\"b:2\"],\"ps\":[\"c:3\"]}",
              "{\"ps\": {\"0\": \"c:3\"}, \"worker\": {\"0\": \"a:1\", \"1\": \"b:2\"}}");
  check_print("{\"ps\":{\"7\":\"h:70\",\"2\":\"h:20\"}}",
              "{\"ps\": {\"2\": \"h:20\", \"7\": \"h:70\"}}");
  check_print("{\"a\":[\"[::1]:2222\",\"grpc://host.example.org:65535\"]}",
              "{\"a\": {\"0\": \"[::1]:2222\", \"1\": \"host.example.org:65535\"}}");
  check_print("{\"local\":[\"localhost:0\"]}", "{\"local\": {\"0\": \"localhost:0\"}}");
}

static void check_error(const char *text, const char *expected) {
  dp_cluster_spec *spec = NULL;
  dp_status *status = dp_cluster_spec_load(text, &spec);
  if (status == NULL)
    fail_msg("%s was accepted", text);
  if (strstr(dp_status_message(status), expected) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", dp_status_message(status), expected);
  assert_null(spec);
  dp_status_release(status);
}

static void wrong_ones(void **state) {
  check_error("", "not JSON");
  check_error("{\"ps\":[\"a:1\"}", "line 1, column");
  check_error("[1]", "not a map from job names");
  check_error("{}", "no jobs");
  check_error("{\"ps\":[]}", "job ps has no tasks");
  check_error("{\"ps\":{}}", "job ps has no tasks");
  check_error("{\"ps\":\"a:1\"}", "job ps is neither a list");
  check_error("{\"ps\":[1]}", "ps task 0 is not a string");
  check_error("{\"ps\":[null]}", "ps task 0 is not a string");
  check_error("{\"ps\":[\"a:1\",\"b\"]}", "ps task 1, \"b\", is not of the form host:port");
  check_error("{\"ps\":[\"a:\"]}", "host:port");
  check_error("{\"ps\":[\":1\"]}", "host:port");
  check_error("{\"ps\":[\"a:x\"]}", "host:port");
  check_error("{\"ps\":[\"a:-1\"]}", "host:port");
  check_error("{\"ps\":[\"a:+1\"]}", "host:port");
  check_error("{\"ps\":[\"a:65536\"]}", "host:port");
  check_error("{\"ps\":[\"::1:1\"]}", "host:port");
  check_error("{\"ps\":[\"a b:1\"]}", "host:port");
  check_error("{\"ps\":[\"http://a:1\"]}", "host:port");
  check_error("{\"ps\":[\"a:0\",\"b:1\"]}", "ps task 0 has port 0");
  check_error("{\"1ps\":[\"a:1\"]}", "\"1ps\" cannot be the name of a job");
  check_error("{\"p-s\":[\"a:1\"]}", "cannot be the name of a job");
  check_error("{\"ps\":[\"a:1\"],\"ps\":[\"a:2\"]}", "duplicate");
  check_error("{\"ps\":{\"x\":\"a:1\"}}", "\"x\" is not a task number");
  check_error("{\"ps\":{\"-1\":\"a:1\"}}", "-1 is not a task number");
  check_error("{\"ps\":{\"2147483648\":\"a:1\"}}", "is not a task number");
  check_error("{\"ps\":{\"1\":\"a:1\",\"01\":\"b:1\"}}", "ps task 1 is there twice");
  check_error("{\"ps\":[\"a:1\"],\"worker\":[\"b:1\",\"a:1\"]}", "a:1");
  check_error("{\"ps\":[\"a:1\"],\"worker\":[\"b:1\",\"a:1\"]}", "worker task 1 has the address");
  check_error("@/no/such/file", "cannot open /no/such/file: No such file");
  check_error("{\"ps\":[\"a\\u0000b:1\"]}", "not JSON");
}

static void long_job_name(void **state) {
  char text[300] = "{\"";
  memset(text + 2, 'j', 200);
  strcpy(text + 202, "\":[\"a:1\"]}");
  check_error(text, "longer than");
}

static void from_a_file(void **state) {
  char path[] = "/tmp/dp-cluster-XXXXXX";
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  const char *json = "{\"ps\": [\"a:1\"]}\n";
  assert_int_equal(write(descriptor, json, strlen(json)), (ssize_t)strlen(json));
  char argument[64];
  snprintf(argument, sizeof(argument), "@%s", path);
  check_print(argument, "{\"ps\": {\"0\": \"a:1\"}}");
  assert_int_equal(ftruncate(descriptor, 3), 0);
  check_error(argument, path);
  close(descriptor);
  unlink(path);
}

static void finding_tasks(void **state) {
  dp_cluster_spec *spec = parse("{\"ps\":[\"a:1\"],\"worker\":{\"1\":\"b:1\",\"5\":\"c:1\"}}");
  assert_int_equal(dp_cluster_spec_task_count(spec), 3);
  assert_string_equal(dp_cluster_spec_find(spec, "worker", 5), "c:1");
  assert_null(dp_cluster_spec_find(spec, "worker", 0));
  assert_null(dp_cluster_spec_find(spec, "chief", 0));
  const char *address = NULL;
  dp_status *status = dp_cluster_spec_lookup(spec, "ps", 0, &address);
  assert_null(status);
  assert_string_equal(address, "a:1");
  status = dp_cluster_spec_lookup(spec, "wroker", 0, &address);
  assert_non_null(strstr(dp_status_message(status), "no job \"wroker\" (it has: ps, worker)"));
  dp_status_release(status);
  status = dp_cluster_spec_lookup(spec, "worker", 0, &address);
  assert_non_null(strstr(dp_status_message(status), "its 2 tasks are with gaps from 1 to 5"));
  dp_status_release(status);
  dp_cluster_spec_release(dp_cluster_spec_retain(spec));
  dp_cluster_spec_release(spec);
}

static void messages(void **state) {
  Tensorflow__JobDef__TasksEntry a = TENSORFLOW__JOB_DEF__TASKS_ENTRY__INIT, b = a, c = a;
  a.value = "a:1", b.value = "b:1", c.value = "c:1";
  b.key = 1, c.key = 5;
  Tensorflow__JobDef ps = TENSORFLOW__JOB_DEF__INIT, worker = ps;
  ps.name = "ps", ps.n_tasks = 1, ps.tasks = (Tensorflow__JobDef__TasksEntry *[]){&a};
  worker.name = "worker", worker.n_tasks = 2;
  worker.tasks = (Tensorflow__JobDef__TasksEntry *[]){&c, &b};
  Tensorflow__ClusterDef message = TENSORFLOW__CLUSTER_DEF__INIT;
  message.n_job = 2, message.job = (Tensorflow__JobDef *[]){&worker, &ps};
  dp_cluster_spec *spec;
  assert_null(dp_cluster_spec_from_message(&message, &spec));
  assert_prints(spec, "{\"ps\": {\"0\": \"a:1\"}, \"worker\": {\"1\": \"b:1\", \"5\": \"c:1\"}}");
  worker.name = "ps";
  dp_status *status = dp_cluster_spec_from_message(&message, &spec);
  assert_non_null(strstr(dp_status_message(status), "job ps is there twice"));
  dp_status_release(status);
}

static void check_config(const char *text, const char *job, int32_t index) {
  dp_cluster_spec *spec;
  char *found_job;
  int32_t found_index;
  dp_status *status = dp_cluster_parse_tf_config(text, &spec, &found_job, &found_index);
  if (status != NULL)
    fail_msg("%s", dp_status_message(status));
  assert_string_equal(found_job, job);
  assert_int_equal(found_index, index);
  dp_free(found_job);
  dp_cluster_spec_release(spec);
}

static void check_config_error(const char *text, const char *expected) {
  dp_cluster_spec *spec;
  char *job;
  int32_t index;
  dp_status *status = dp_cluster_parse_tf_config(text, &spec, &job, &index);
  if (status == NULL)
    fail_msg("%s was accepted", text);
  if (strstr(dp_status_message(status), expected) == NULL ||
      strstr(dp_status_message(status), "TF_CONFIG") == NULL)
    fail_msg("\"%s\" does not say \"%s\"", dp_status_message(status), expected);
  dp_status_release(status);
}

static void tf_config(void **state) {
#define CLUSTER "{\"cluster\":{\"chief\":[\"c:1\"],\"worker\":[\"a:1\",\"b:1\"]},"
  check_config(CLUSTER "\"task\":{\"type\":\"worker\",\"index\":1}}", "worker", 1);
  check_config(CLUSTER "\"environment\":\"cloud\",\"task\":{\"type\":\"worker\",\"index\":\"1\"}}",
               "worker", 1);
  check_config(CLUSTER "\"task\":{\"type\":\"chief\"}}", "chief", 0);
  check_config_error("x", "not JSON");
  check_config_error("[]", "no \"cluster\"");
  check_config_error("{}", "no \"cluster\"");
  check_config_error("{\"cluster\":{}}", "no jobs");
  check_config_error(CLUSTER "\"x\":1}", "\"task\" is missing");
  check_config_error(CLUSTER "\"task\":{\"index\":1}}", "no \"type\"");
  check_config_error(CLUSTER "\"task\":{\"type\":\"worker\",\"index\":1.5}}", "not a number");
  check_config_error(CLUSTER "\"task\":{\"type\":\"worker\",\"index\":-1}}", "is -1");
  check_config_error(CLUSTER "\"task\":{\"type\":\"worker\",\"index\":2}}", "no task 2");
  check_config_error(CLUSTER "\"task\":{\"type\":\"evaluator\",\"index\":0}}",
                     "no job \"evaluator\"");
#undef CLUSTER
}

static void loopback(void **state) {
  assert_true(dp_cluster_host_is_loopback(dp_view_of("localhost")));
  assert_true(dp_cluster_host_is_loopback(dp_view_of("127.0.0.2")));
  assert_true(dp_cluster_host_is_loopback(dp_view_of("::1")));
  assert_false(dp_cluster_host_is_loopback(dp_view_of("10.0.0.1")));
  assert_false(dp_cluster_host_is_loopback(dp_view_of("localhost.example.org")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_and_maps), cmocka_unit_test(wrong_ones),
      cmocka_unit_test(long_job_name),  cmocka_unit_test(from_a_file),
      cmocka_unit_test(finding_tasks),  cmocka_unit_test(messages),
      cmocka_unit_test(tf_config),      cmocka_unit_test(loopback),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
