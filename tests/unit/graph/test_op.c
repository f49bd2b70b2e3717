/* The op table: every line parses, lookups find every op and nothing else, all threads get the same
 * op. */
#include <pthread.h>

#include "graph_test.h"
#include "graph/op_internal.h"

static void test_all_lines_parse(void **state) {
  assert_true(dp_op_count() > 1900);
  const char *before = "";
  for (size_t i = 0; i < dp_op_count(); i++) {
    const dp_op *op = dp_op_at(i);
    assert_true(strcmp(before, op->name) < 0);
    before = op->name;
    assert_ptr_equal(dp_op_find(op->name), op);
    for (int32_t j = 0; j < op->attr_count; j++) {
      assert_int_equal(dp_op_attr_index(op, op->attrs[j].name), j);
      if (op->attrs[j].has_default) {
        dp_attr value = op->attrs[j].default_value;
        assert_ok(dp_attr_check(&value, &op->attrs[j]));
      }
    }
  }
}

static void test_unknown_names(void **state) {
  assert_null(dp_op_find(""));
  assert_null(dp_op_find("NoSuchOp"));
  assert_null(dp_op_find("Ab"));
  assert_null(dp_op_find("Abs("));
  assert_null(dp_op_find("Abs(x:T) -> (y:T)"));
  assert_int_equal(dp_op_attr_index(dp_op_find("Abs"), "U"), -1);
}

static void test_internal_ops_are_there(void **state) {
  static const char *const names[] = {
      "_Arg",     "_Retval",      "_Send", "_Recv",        "_HostSend",           "_HostRecv",
      "_SwitchN", "_ListToArray", "_If",   "_ArrayToList", "_ParallelConcatStart"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    assert_non_null(dp_op_find(names[i]));
}

static void test_one_op_in_full(void **state) {
  const dp_op *op = dp_op_find("ApplyMomentum");
  assert_int_equal(op->input_count, 5);
  assert_true(op->inputs[0].is_ref);
  assert_false(op->inputs[2].is_ref);
  assert_int_equal(op->inputs[0].type_attr, 0);
  assert_int_equal(op->inputs[0].number_attr, -1);
  assert_string_equal(op->attrs[1].name, "use_locking");
  assert_true(op->attrs[1].has_default);
  assert_false(op->attrs[1].default_value.boolean);
  assert_true(op->attrs[0].allowed_types & DP_DTYPE_BIT(DP_HALF));
  assert_false(op->attrs[0].allowed_types & DP_DTYPE_BIT(DP_STRING));
  assert_false(op->is_stateful);
  assert_true(dp_op_find("VariableV2")->is_stateful);
  assert_true(dp_op_find("AddN")->is_commutative);
  assert_true(dp_op_find("AddN")->is_aggregate);
  assert_true(dp_op_find("Assign")->allows_uninitialized_input);
}

static void test_defaults_of_every_kind(void **state) {
  const dp_op *op = dp_op_find("DefaultAttrs");
  dp_text text = {0};
  for (int32_t i = 0; i < op->attr_count; i++) {
    dp_attr_print(&op->attrs[i].default_value, &text);
    dp_text_add(&text, ";");
  }
  assert_string_equal(dp_text_string(&text),
                      "\"abc\";[\"abc\", \"\"];123;[1, 2, 3];10;[10];true;[true, false];DT_INT32;"
                      "[DT_INT32, DT_FLOAT];[2,1];[[], [1]];"
                      "Tensor<type: int32 shape: [] values: 1>;"
                      "[Tensor<type: int32 shape: [] values: 1>];");
  dp_text_deinit(&text);
  assert_true(dp_op_find("Placeholder")->attrs[1].default_value.shape->rank == -1);
  assert_string_equal(dp_op_find("PrintV2")->attrs[1].default_value.string.data, "\n");
}

static void test_print(void **state) {
  assert_string_equal(PRINTED(dp_op_print(dp_op_find("Shape"), text)),
                      "Op<name=Shape; signature=input:T -> output:out_type; attr=T:type; "
                      "attr=out_type:type,default=DT_INT32,allowed=[DT_INT32, DT_INT64]>");
  assert_string_equal(
      PRINTED(dp_op_print(dp_op_find("_ListToArray"), text)),
      "Op<name=_ListToArray; signature=input: -> output:N*T; attr=Tin:list(type),min=1; "
      "attr=T:type; attr=N:int,min=1>");
}

static void *find_all(void *arg) {
  for (size_t i = 0; i < dp_op_count(); i++)
    if (dp_op_find(dp_op_at(i)->name) != dp_op_at(i))
      return arg;
  return NULL;
}

static void test_threads_agree(void **state) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, find_all, &threads);
  for (int i = 0; i < 4; i++) {
    void *result;
    pthread_join(threads[i], &result);
    assert_null(result);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads_agree), /* first: the ops are parsed by threads at once */
      cmocka_unit_test(test_all_lines_parse),        cmocka_unit_test(test_unknown_names),
      cmocka_unit_test(test_internal_ops_are_there), cmocka_unit_test(test_one_op_in_full),
      cmocka_unit_test(test_defaults_of_every_kind), cmocka_unit_test(test_print),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
