/* The resource manager: containers, what a handle remembers, and that the end of a step disturbs
 * nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "base/memory.h"
#include "runtime/resource.h"

static int destroyed;

static void destroy(dp_resource *resource) {
  destroyed++;
  dp_free(resource);
}

static const dp_resource_ops thing_ops = {.type_name = "thing", .destroy = destroy};

static dp_resource *make_thing(void) {
  dp_resource *thing = DP_NEW(dp_resource);
  dp_resource_init(thing, &thing_ops);
  return thing;
}

static void add(dp_resources *resources, const char *container, const char *name) {
  assert_null(dp_resources_add(resources, container, name, make_thing()));
}

static bool has(dp_resources *resources, const char *container, const char *name) {
  dp_resource *found = NULL;
  dp_status *status = dp_resources_find(resources, container, name, &thing_ops, &found);
  bool is_there = status == NULL;
  dp_status_release(status);
  dp_resource_release(found);
  return is_there;
}

static dp_resource_handle *find_by_handle(dp_resources *resources, const char *container,
                                          const char *name) {
  dp_resource_handle *handle =
      dp_resource_make_handle("/job:a/replica:0/task:0/device:CPU:0", container, name, &thing_ops);
  dp_resource *found = NULL;
  assert_null(dp_resources_find_by_handle(resources, handle, &thing_ops, &found));
  dp_resource_release(found);
  return handle;
}

static bool recalls(dp_resources *resources, const dp_resource_handle *handle) {
  dp_resource *found = dp_resources_recall(resources, handle, &thing_ops);
  dp_resource_release(found);
  return found != NULL;
}

static void clearing_a_container_drops_what_is_in_it(void **state) {
  dp_resources *resources = dp_resources_create("worker");
  destroyed = 0;
  add(resources, "", "a");
  add(resources, "other", "a");
  add(resources, DP_STEP_CONTAINER_PREFIX "7", "a");
  dp_resources_clear_container(resources, "other");
  assert_int_equal(destroyed, 1);
  assert_true(has(resources, "worker", "a"));
  assert_false(has(resources, "other", "a"));
  dp_resources_clear_container(resources, DP_STEP_CONTAINER_PREFIX "7");
  assert_int_equal(destroyed, 2);
  assert_false(has(resources, DP_STEP_CONTAINER_PREFIX "7", "a"));
  dp_resources_clear_container(resources, DP_STEP_CONTAINER_PREFIX "8"); /* never used */
  dp_resources_release(resources);
  assert_int_equal(destroyed, 3);
}

/* Steps with and without something of their own end; a variable's handle is recalled throughout. */
static void the_end_of_a_step_leaves_handles_of_variables_alone(void **state) {
  dp_resources *resources = dp_resources_create("worker");
  add(resources, "", "variable");
  dp_resource_handle *variable = find_by_handle(resources, "", "variable");
  assert_true(recalls(resources, variable));
  dp_resources_clear_container(resources, DP_STEP_CONTAINER_PREFIX "1");
  assert_true(recalls(resources, variable));
  add(resources, DP_STEP_CONTAINER_PREFIX "2", "array");
  dp_resource_handle *array = find_by_handle(resources, DP_STEP_CONTAINER_PREFIX "2", "array");
  assert_true(recalls(resources, array));
  dp_resources_clear_container(resources, DP_STEP_CONTAINER_PREFIX "2");
  assert_true(recalls(resources, variable));
  assert_false(recalls(resources, array));
  dp_resources_clear_container(resources, "not there");
  assert_true(recalls(resources, variable));
  dp_resources_clear_container(resources, "");
  assert_false(recalls(resources, variable));
  dp_resource_handle_release(variable);
  dp_resource_handle_release(array);
  dp_resources_release(resources);
}

static void removing_what_is_not_there_changes_nothing(void **state) {
  dp_resources *resources = dp_resources_create("worker");
  add(resources, "", "variable");
  dp_resource_handle *variable = find_by_handle(resources, "", "variable");
  dp_status *status = dp_resources_remove(resources, "", "another", "thing");
  assert_int_equal(dp_status_code(status), DP_NOT_FOUND);
  dp_status_release(status);
  assert_true(recalls(resources, variable));
  assert_null(dp_resources_remove(resources, "", "variable", "thing"));
  assert_false(recalls(resources, variable));
  dp_resource_handle_release(variable);
  dp_resources_release(resources);
}

static void count(void *arg, const char *container, const char *name, dp_resource *resource) {
  ++*(int *)arg;
}

static void all_are_visited_and_cleared(void **state) {
  dp_resources *resources = dp_resources_create("worker");
  destroyed = 0;
  add(resources, "", "a");
  add(resources, DP_STEP_CONTAINER_PREFIX "1", "b");
  int visited = 0;
  dp_resources_visit(resources, count, &visited);
  assert_int_equal(visited, 2);
  dp_resources_clear(resources);
  assert_int_equal(destroyed, 2);
  add(resources, DP_STEP_CONTAINER_PREFIX "1", "b");
  dp_resources_clear_container(resources, DP_STEP_CONTAINER_PREFIX "1");
  assert_int_equal(destroyed, 3);
  dp_resources_release(resources);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clearing_a_container_drops_what_is_in_it),
      cmocka_unit_test(the_end_of_a_step_leaves_handles_of_variables_alone),
      cmocka_unit_test(removing_what_is_not_there_changes_nothing),
      cmocka_unit_test(all_are_visited_and_cleared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
