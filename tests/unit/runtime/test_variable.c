/* Variables and resources: snapshots never change, updates are never torn, names find their owner.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/memory.h"
#include "runtime/variable.h"

enum { COUNT = 4096, ROUNDS = 400 };

static dp_variable *make_filled(int64_t number) {
  dp_partial_shape unknown = dp_partial_shape_unknown();
  dp_variable *variable = dp_variable_create(&dp_variable_ops, "v", DP_INT64, &unknown);
  dp_shape shape = dp_shape_vector(COUNT);
  dp_tensor value = {0};
  assert_null(dp_tensor_create(DP_INT64, &shape, &value));
  for (int i = 0; i < COUNT; i++)
    ((int64_t *)value.data)[i] = number;
  dp_variable_assign(variable, &value);
  return variable;
}

static void add_one(dp_variable *variable) {
  dp_variable_update update;
  assert_null(dp_variable_begin(variable, &update));
  const int64_t *old = update.old.data;
  int64_t *target = update.target.data;
  for (int i = 0; i < COUNT; i++)
    target[i] = old[i] + 1;
  dp_variable_end(&update, true);
}

static void unset_variables_say_their_name(void **state) {
  dp_partial_shape unknown = dp_partial_shape_unknown();
  dp_variable *variable = dp_variable_create(&dp_variable_ops, "layer/w", DP_FLOAT, &unknown);
  dp_tensor snapshot = {0};
  dp_status *status = dp_variable_read(variable, &snapshot);
  assert_int_equal(dp_status_code(status), DP_FAILED_PRECONDITION);
  assert_non_null(strstr(dp_status_message(status), "layer/w"));
  dp_status_release(status);
  assert_false(dp_variable_is_initialized(variable));
  dp_resource_release(variable);
}

static void update_is_in_place_when_nobody_looks(void **state) {
  dp_variable *variable = make_filled(1);
  const void *before = variable->tensor.data;
  add_one(variable);
  assert_ptr_equal(variable->tensor.data, before);
  assert_int_equal(((int64_t *)variable->tensor.data)[COUNT - 1], 2);
  dp_resource_release(variable);
}

static void snapshots_never_change(void **state) {
  dp_variable *variable = make_filled(1);
  dp_tensor snapshot = {0};
  assert_null(dp_variable_read(variable, &snapshot));
  add_one(variable);
  assert_int_equal(((int64_t *)snapshot.data)[0], 1);
  assert_int_equal(((int64_t *)variable->tensor.data)[0], 2);
  dp_tensor_deinit(&snapshot);
  dp_resource_release(variable);
}

static void partial_updates_keep_the_rest(void **state) {
  dp_variable *variable = make_filled(5);
  dp_tensor snapshot = {0};
  assert_null(dp_variable_read(variable, &snapshot));
  dp_variable_update update;
  assert_null(dp_variable_begin_partial(variable, &update));
  ((int64_t *)update.target.data)[3] = 9;
  dp_variable_end(&update, true);
  assert_int_equal(((int64_t *)variable->tensor.data)[3], 9);
  assert_int_equal(((int64_t *)variable->tensor.data)[4], 5);
  assert_int_equal(((int64_t *)snapshot.data)[3], 5);
  dp_tensor_deinit(&snapshot);
  dp_resource_release(variable);
}

static void failed_updates_leave_no_trace(void **state) {
  dp_variable *variable = make_filled(5);
  dp_tensor snapshot = {0};
  assert_null(dp_variable_read(variable, &snapshot));
  dp_variable_update update;
  assert_null(dp_variable_begin(variable, &update));
  ((int64_t *)update.target.data)[0] = 9;
  dp_variable_end(&update, false);
  assert_int_equal(((int64_t *)variable->tensor.data)[0], 5);
  dp_tensor_deinit(&snapshot);
  dp_resource_release(variable);
}

static void several_variables_update_together(void **state) {
  dp_variable *a = make_filled(1), *b = make_filled(10);
  dp_variable *variables[] = {b, a, b};
  dp_tensor snapshot = {0};
  assert_null(dp_variable_read(b, &snapshot));
  dp_variable_update updates[3];
  assert_null(dp_variable_begin_all(variables, 3, true, updates));
  assert_ptr_equal(updates[0].target.data, updates[2].target.data);
  ((int64_t *)updates[0].target.data)[0] = 11;
  ((int64_t *)updates[1].target.data)[0] = 2;
  dp_variable_end_all(updates, 3, true);
  assert_int_equal(((int64_t *)a->tensor.data)[0], 2);
  assert_int_equal(((int64_t *)b->tensor.data)[0], 11);
  assert_int_equal(((int64_t *)snapshot.data)[0], 10);
  dp_tensor_deinit(&snapshot);
  dp_resource_release(a);
  dp_resource_release(b);
}

static void *update_often(void *arg) {
  for (int i = 0; i < ROUNDS; i++)
    add_one(arg);
  return NULL;
}

static void *read_often(void *arg) {
  for (int i = 0; i < ROUNDS; i++) {
    dp_tensor snapshot = {0};
    assert_null(dp_variable_read(arg, &snapshot));
    const int64_t *values = snapshot.data;
    int64_t first = values[0];
    for (int k = 0; k < COUNT; k++)
      assert_int_equal(values[k], first);
    dp_tensor_deinit(&snapshot);
  }
  return NULL;
}

static void readers_never_see_a_torn_value(void **state) {
  dp_variable *variable = make_filled(0);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, i < 2 ? update_often : read_often, variable);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(((int64_t *)variable->tensor.data)[0], 2 * ROUNDS);
  dp_resource_release(variable);
}

/* ---- The manager ---- */

static dp_status *create_variable(void *arg, dp_resource **resource_out) {
  ++*(int *)arg;
  *resource_out = &make_filled(3)->resource;
  return NULL;
}

static void resources_are_found_by_container_type_and_name(void **state) {
  dp_resources *resources = dp_resources_create("localhost");
  int created = 0;
  dp_resource *first = NULL, *second = NULL, *other = NULL;
  assert_null(dp_resources_find_or_create(resources, "", "v", &dp_variable_ops, create_variable,
                                          &created, &first));
  assert_null(dp_resources_find_or_create(resources, "localhost", "v", &dp_variable_ops,
                                          create_variable, &created, &second));
  assert_ptr_equal(first, second);
  assert_int_equal(created, 1);
  dp_status *status = dp_resources_find(resources, "", "v", &dp_legacy_variable_ops, &other);
  assert_int_equal(dp_status_code(status), DP_NOT_FOUND);
  assert_string_equal(dp_status_message(status),
                      "Resource localhost/v/N10tensorflow9LegacyVarE does not exist.");
  dp_status_release(status);
  status = dp_resources_find(resources, "other", "v", &dp_variable_ops, &other);
  assert_int_equal(dp_status_code(status), DP_NOT_FOUND);
  dp_status_release(status);
  dp_resource_release(first);
  dp_resource_release(second);
  dp_resources_release(resources);
}

static void clearing_a_container_spares_the_others(void **state) {
  dp_resources *resources = dp_resources_create("localhost");
  assert_null(dp_resources_add(resources, "a", "v", &make_filled(1)->resource));
  assert_null(dp_resources_add(resources, "b", "v", &make_filled(2)->resource));
  dp_status *status = dp_resources_add(resources, "a", "v", &make_filled(1)->resource);
  assert_int_equal(dp_status_code(status), DP_ALREADY_EXISTS);
  dp_status_release(status);
  dp_resources_clear_container(resources, "a");
  dp_resource *found = NULL;
  status = dp_resources_find(resources, "a", "v", &dp_variable_ops, &found);
  assert_int_equal(dp_status_code(status), DP_NOT_FOUND);
  dp_status_release(status);
  assert_null(dp_resources_find(resources, "b", "v", &dp_variable_ops, &found));
  dp_resource_release(found);
  assert_null(dp_resources_remove(resources, "b", "v", dp_variable_ops.type_name));
  status = dp_resources_remove(resources, "b", "v", dp_variable_ops.type_name);
  assert_int_equal(dp_status_code(status), DP_NOT_FOUND);
  dp_status_release(status);
  dp_resources_release(resources);
}

static void count_resource(void *arg, const char *container, const char *name,
                           dp_resource *resource) {
  dp_text text = {0};
  resource->ops->describe(resource, &text);
  assert_string_equal(dp_text_string(&text), "int64[4096]");
  dp_text_deinit(&text);
  assert_string_equal(name, "v");
  ++*(int *)arg;
}

static void resources_can_be_listed(void **state) {
  dp_resources *resources = dp_resources_create("localhost");
  assert_null(dp_resources_add(resources, "a", "v", &make_filled(1)->resource));
  assert_null(dp_resources_add(resources, "", "v", &make_filled(1)->resource));
  int seen = 0;
  dp_resources_visit(resources, count_resource, &seen);
  assert_int_equal(seen, 2);
  dp_resources_release(resources);
}

static void handles_forget_what_has_left(void **state) {
  dp_resources *here = dp_resources_create("localhost"), *there = dp_resources_create("localhost");
  dp_resource_handle *handle = dp_resource_make_handle("cpu", "", "v", &dp_variable_ops);
  dp_resource *found = NULL, *first = &make_filled(1)->resource,
              *second = &make_filled(2)->resource;
  assert_null(dp_resources_recall(here, handle, &dp_variable_ops));
  assert_null(dp_resources_add(here, "", "v", first));
  assert_null(dp_resources_find_by_handle(here, handle, &dp_variable_ops, &found));
  dp_resource_release(found);
  found = dp_resources_recall(here, handle, &dp_variable_ops);
  assert_ptr_equal(found, first);
  dp_resource_release(found);
  assert_null(dp_resources_recall(here, handle, &dp_legacy_variable_ops));
  assert_null(dp_resources_recall(there, handle, &dp_variable_ops));

  assert_null(dp_resources_remove(here, "", "v", dp_variable_ops.type_name));
  assert_null(dp_resources_recall(here, handle, &dp_variable_ops));
  assert_null(dp_resources_add(here, "", "v", second));
  assert_null(dp_resources_find_by_handle(here, handle, &dp_variable_ops, &found));
  assert_ptr_equal(found, second);
  dp_resource_release(found);
  dp_resources_clear(here);
  assert_null(dp_resources_recall(here, handle, &dp_variable_ops));
  dp_resource_handle_release(handle);
  dp_resources_release(here);
  dp_resources_release(there);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unset_variables_say_their_name),
      cmocka_unit_test(update_is_in_place_when_nobody_looks),
      cmocka_unit_test(snapshots_never_change),
      cmocka_unit_test(partial_updates_keep_the_rest),
      cmocka_unit_test(failed_updates_leave_no_trace),
      cmocka_unit_test(several_variables_update_together),
      cmocka_unit_test(readers_never_see_a_torn_value),
      cmocka_unit_test(resources_are_found_by_container_type_and_name),
      cmocka_unit_test(clearing_a_container_spares_the_others),
      cmocka_unit_test(resources_can_be_listed),
      cmocka_unit_test(handles_forget_what_has_left),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
