/* Signatures as keys of plans: what tells two apart, and plans whose hashes are the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "master/master_internal.h"

static const char *const ab[] = {"a:0", "b:0"};
static const char *const ba[] = {"b:0", "a:0"};
static const char *const joined[] = {"a:0b:0", ""};

static step_signature make(const char *const *feeds, size_t feed_count, const char *const *fetches,
                           size_t fetch_count) {
  step_signature signature = {.names = {feeds, feed_count, fetches, fetch_count}};
  signature.hash = dp_master_signature_hash(&signature);
  return signature;
}

static void assert_differs(const step_signature *a, step_signature *b) {
  b->hash = dp_master_signature_hash(b);
  assert_false(dp_master_signature_equals(a, b));
  assert_true(a->hash != b->hash);
}

static void equal_parts_make_equal_signatures(void **state) {
  char first[] = "a:0", second[] = "b:0";
  const char *const copies[] = {first, second};
  step_signature a = make(ab, 2, ab, 1), b = make(copies, 2, copies, 1);
  assert_true(dp_master_signature_equals(&a, &b));
  assert_true(a.hash == b.hash);
}

static void every_part_counts(void **state) {
  dp_planner_connection connection = {.from = "a:0", .to = "b:0"};
  step_signature a = make(ab, 2, ab, 1), b;
  b = make(ba, 2, ab, 1);
  assert_differs(&a, &b);
  b = make(joined, 2, ab, 1);
  assert_differs(&a, &b);
  b = make(ab, 1, ab, 2); /* the same names, fed and fetched in other numbers */
  assert_differs(&a, &b);
  b = make(ab, 2, ab, 1);
  b.names.targets = ab;
  b.names.target_count = 1;
  assert_differs(&a, &b);
  b = make(ab, 2, ab, 1);
  b.names.connections = &connection;
  b.names.connection_count = 1;
  assert_differs(&a, &b);
  b = make(ab, 2, ab, 1);
  b.is_partial = true;
  assert_differs(&a, &b);
  b = make(ab, 2, ab, 1);
  b.collective_key = 7;
  assert_differs(&a, &b);
}

static void watches_count_and_the_clients_step_does_not(void **state) {
  char *urls[] = {"file:///one", "file:///two"}, *ops[] = {"DebugIdentity"};
  Tensorflow__DebugTensorWatch watches[2] = {TENSORFLOW__DEBUG_TENSOR_WATCH__INIT,
                                             TENSORFLOW__DEBUG_TENSOR_WATCH__INIT};
  Tensorflow__DebugTensorWatch *lists[2][1] = {{&watches[0]}, {&watches[1]}};
  Tensorflow__DebugOptions debug[2] = {TENSORFLOW__DEBUG_OPTIONS__INIT,
                                       TENSORFLOW__DEBUG_OPTIONS__INIT};
  step_signature signatures[2];
  for (int i = 0; i < 2; i++) {
    watches[i].node_name = "sum";
    watches[i].debug_ops = ops;
    watches[i].n_debug_ops = 1;
    watches[i].debug_urls = urls;
    watches[i].n_debug_urls = 1;
    debug[i].debug_tensor_watch_opts = lists[i];
    debug[i].n_debug_tensor_watch_opts = 1;
    debug[i].global_step = i;
    signatures[i] = make(ab, 2, ab, 1);
    signatures[i].debug = &debug[i];
    signatures[i].hash = dp_master_signature_hash(&signatures[i]);
  }
  assert_true(dp_master_signature_equals(&signatures[0], &signatures[1]));
  assert_true(signatures[0].hash == signatures[1].hash);
  signatures[1].is_callable = true;
  assert_differs(&signatures[0], &signatures[1]);
  signatures[1].is_callable = false;
  watches[1].debug_urls = urls + 1;
  assert_false(dp_master_signature_equals(&signatures[0], &signatures[1]));
  signatures[1].debug = NULL;
  assert_differs(&signatures[0], &signatures[1]);
}

/* ---- The table ---- */

static void a_collision_costs_a_comparison_only(void **state) {
  plan_table table;
  dp_plan_table_init(&table);
  step_plan plans[3] = {{.signature = make(ab, 2, ab, 1)},
                        {.signature = make(ba, 2, ab, 1)},
                        {.signature = make(ab, 1, ab, 1)}};
  for (int i = 0; i < 3; i++)
    plans[i].signature.hash = 42;
  for (int i = 0; i < 3; i++) {
    assert_null(dp_plan_table_find(&table, &plans[i].signature));
    dp_plan_table_add(&table, &plans[i]);
  }
  assert_int_equal(table.count, 3);
  for (int i = 0; i < 3; i++)
    assert_ptr_equal(dp_plan_table_find(&table, &plans[i].signature), &plans[i]);
  assert_true(dp_plan_table_remove(&table, &plans[1])); /* in the middle of the chain */
  assert_false(dp_plan_table_remove(&table, &plans[1]));
  assert_null(dp_plan_table_find(&table, &plans[1].signature));
  assert_ptr_equal(dp_plan_table_find(&table, &plans[0].signature), &plans[0]);
  assert_ptr_equal(dp_plan_table_find(&table, &plans[2].signature), &plans[2]);
  assert_true(dp_plan_table_remove(&table, &plans[2])); /* its head */
  assert_ptr_equal(dp_plan_table_take(&table), &plans[0]);
  assert_null(dp_plan_table_take(&table));
  assert_int_equal(table.count, 0);
  dp_plan_table_deinit(&table);
}

static void another_plan_of_the_same_signature_stays(void **state) {
  plan_table table;
  dp_plan_table_init(&table);
  step_plan listed = {.signature = make(ab, 2, ab, 1)}, other = {.signature = listed.signature};
  dp_plan_table_add(&table, &listed);
  assert_false(dp_plan_table_remove(&table, &other));
  assert_ptr_equal(dp_plan_table_find(&table, &other.signature), &listed);
  assert_ptr_equal(dp_plan_table_take(&table), &listed);
  dp_plan_table_deinit(&table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_parts_make_equal_signatures),
      cmocka_unit_test(every_part_counts),
      cmocka_unit_test(watches_count_and_the_clients_step_does_not),
      cmocka_unit_test(a_collision_costs_a_comparison_only),
      cmocka_unit_test(another_plan_of_the_same_signature_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
