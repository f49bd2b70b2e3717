/* Attribute values: equality, hash, text, and conversion to messages and back. */
#include "graph_test.h"

static dp_tensor_array tensors;

static dp_attr_store store(void) {
  return (dp_attr_store){arena, &tensors};
}

static const dp_tensor *tensor_of(int32_t value) {
  dp_tensor *tensor = DP_ARENA_NEW(arena, dp_tensor);
  assert_ok(dp_tensor_scalar_int32(value, tensor));
  DP_ARRAY_PUSH(&tensors, tensor);
  return tensor;
}

static const dp_tensor *string_tensor(const char *value) {
  dp_tensor *tensor = DP_ARENA_NEW(arena, dp_tensor);
  assert_ok(dp_tensor_scalar_string(value, strlen(value), tensor));
  DP_ARRAY_PUSH(&tensors, tensor);
  return tensor;
}

/* One value of every kind; `variant` makes another one. */
static size_t samples(int variant, dp_attr *out) {
  static dp_partial_shape shapes[2][2] = {{{.rank = 2, .dims = {-1, 3}}, {.rank = -1}},
                                          {{.rank = 2, .dims = {4, 3}}, {.rank = 0}}};
  static const int64_t integers_of[2][3] = {{1, -2, 3}, {1, -2, 4}};
  static const float numbers[2][2] = {{0.5f, 2}, {0.5f, 3}};
  static const bool booleans[2][2] = {{true, false}, {true, true}};
  static const int32_t types[2][2] = {{DP_FLOAT, DP_INT8}, {DP_FLOAT, DP_HALF}};
  static dp_view strings[2][2] = {{{"a\0b", 3}, {"", 0}}, {{"a\0c", 3}, {"", 0}}};
  static dp_attr bound[2] = {{.name = "T", .kind = DP_ATTR_TYPE, .type = DP_FLOAT},
                             {.name = "T", .kind = DP_ATTR_TYPE, .type = DP_INT8}};
  static dp_func funcs[2];
  funcs[variant] = (dp_func){.name = "f", .attr_count = 1, .attrs = &bound[variant]};
  const dp_attr all[] = {
      {.kind = DP_ATTR_STRING, .string = strings[variant][0]},
      {.kind = DP_ATTR_INT, .integer = 7 + variant},
      {.kind = DP_ATTR_FLOAT, .number = 0.25f + (float)variant},
      {.kind = DP_ATTR_BOOL, .boolean = variant},
      {.kind = DP_ATTR_TYPE, .type = DP_FLOAT + variant},
      {.kind = DP_ATTR_SHAPE, .shape = &shapes[variant][0]},
      {.kind = DP_ATTR_TENSOR, .tensor = tensor_of(5 + variant)},
      {.kind = DP_ATTR_TENSOR, .tensor = string_tensor(variant ? "one" : "two")},
      {.kind = DP_ATTR_FUNC, .func = &funcs[variant]},
      {.kind = DP_ATTR_PLACEHOLDER, .placeholder = variant ? "T" : "U"},
      {.kind = DP_ATTR_LIST_STRING, .count = 2, .strings = strings[variant]},
      {.kind = DP_ATTR_LIST_INT, .count = 3, .integers = integers_of[variant]},
      {.kind = DP_ATTR_LIST_FLOAT, .count = 2, .numbers = numbers[variant]},
      {.kind = DP_ATTR_LIST_BOOL, .count = 2, .booleans = booleans[variant]},
      {.kind = DP_ATTR_LIST_TYPE, .count = 2, .types = types[variant]},
      {.kind = DP_ATTR_LIST_SHAPE, .count = 2, .shapes = shapes[variant]},
      {.kind = DP_ATTR_LIST_TENSOR, .count = 1, .tensors = tensor_of(variant)},
      {.kind = DP_ATTR_LIST_FUNC, .count = 1, .funcs = &funcs[variant]},
  };
  memcpy(out, all, sizeof(all));
  return sizeof(all) / sizeof(*all);
}

static void test_equality_and_hash(void **state) {
  dp_attr left[32], same[32], other[32];
  size_t count = samples(0, left);
  samples(0, same);
  samples(1, other);
  for (size_t i = 0; i < count; i++) {
    assert_true(dp_attr_equal(&left[i], &same[i]));
    assert_int_equal(dp_attr_hash(&left[i]), dp_attr_hash(&same[i]));
    assert_false(dp_attr_equal(&left[i], &other[i]));
    assert_true(dp_attr_hash(&left[i]) != dp_attr_hash(&other[i]));
    for (size_t j = 0; j < count; j++)
      if (left[i].kind != left[j].kind)
        assert_false(dp_attr_equal(&left[i], &left[j]));
  }
}

static void test_messages_and_back(void **state) {
  dp_attr values[32];
  size_t count = samples(0, values);
  dp_attr_store to = store();
  for (size_t i = 0; i < count; i++) {
    dp_attr back = {.name = "kept"};
    Tensorflow__AttrValue *message = dp_attr_to_message(&values[i], arena), *copy;
    assert_ok(dp_wire_copy(message, arena, &copy));
    assert_ok(dp_attr_from_message(&to, copy, &back));
    assert_true(dp_attr_equal(&values[i], &back));
    assert_string_equal(back.name, "kept");
    dp_attr deep = dp_attr_store_copy(&to, &values[i]);
    assert_true(dp_attr_equal(&values[i], &deep));
  }
}

static void test_absent_and_empty(void **state) {
  dp_attr_store to = store();
  dp_attr value = {0};
  assert_ok(dp_attr_from_message(&to, NULL, &value));
  assert_int_equal(value.kind, DP_ATTR_NONE);
  Tensorflow__AttrValue *message = dp_wire_new(arena, &tensorflow__attr_value__descriptor);
  message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_LIST;
  message->list = dp_wire_new(arena, &tensorflow__attr_value__list_value__descriptor);
  assert_ok(dp_attr_from_message(&to, message, &value));
  assert_int_equal(value.kind, DP_ATTR_LIST);
  assert_ok(dp_attr_check_kind(&value, DP_ATTR_LIST_SHAPE));
  assert_int_equal(value.kind, DP_ATTR_LIST_SHAPE);
  /* Two kinds in one list. */
  int64_t number = 1;
  Tensorflow__DataType dtype = TENSORFLOW__DATA_TYPE__DT_FLOAT;
  message->list->n_i = message->list->n_type = 1;
  message->list->i = &number;
  message->list->type = &dtype;
  assert_error(dp_attr_from_message(&to, message, &value), DP_INVALID_ARGUMENT,
               "AttrValue had value with type 'list(type)' when 'list(int)' expected");
}

static void test_bad_values(void **state) {
  dp_attr_store to = store();
  dp_attr value = {0};
  Tensorflow__AttrValue *message = dp_wire_new(arena, &tensorflow__attr_value__descriptor);
  message->value_case = TENSORFLOW__ATTR_VALUE__VALUE_TENSOR;
  message->tensor = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)"\xff\xff\xff"};
  dp_status *status = dp_attr_from_message(&to, message, &value);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  dp_status_release(status);
  int64_t dims = -5;
  dp_attr shape = {.kind = DP_ATTR_SHAPE, .shape = &(dp_partial_shape){.rank = 1, .dims = {dims}}};
  status = dp_attr_from_message(&to, dp_attr_to_message(&shape, arena), &value);
  assert_int_equal(dp_status_code(status), DP_INVALID_ARGUMENT);
  dp_status_release(status);
}

static void test_print(void **state) {
  char letters[300];
  memset(letters, 'x', sizeof(letters));
  letters[0] = '"';
  dp_attr value = {.kind = DP_ATTR_STRING, .string = {letters, 40}};
  assert_int_equal(strlen(PRINTED(dp_attr_print(&value, text))), 43);
  value.string.length = 300;
  assert_string_equal(PRINTED(dp_attr_print(&value, text)), "\"\\\"xxxxxxxx...xxxxxxxxxx\"");
  size_t large = 1 << 20;
  char *million = dp_arena_allocate(arena, large);
  memset(million, '\n', large);
  value.string = (dp_view){million, large};
  assert_string_equal(PRINTED(dp_attr_print(&value, text)),
                      "\"\\n\\n\\n\\n\\n...\\n\\n\\n\\n\\n\"");
  int64_t many[40];
  for (int i = 0; i < 40; i++)
    many[i] = i;
  value = (dp_attr){.kind = DP_ATTR_LIST_INT, .count = 40, .integers = many};
  assert_string_equal(PRINTED(dp_attr_print(&value, text)),
                      "[0, 1, 2, 3, 4, ..., 35, 36, 37, 38, 39]{attr_hash=8966979926403238569}");
  value = (dp_attr){.kind = DP_ATTR_FLOAT, .number = 0.1f};
  assert_string_equal(PRINTED(dp_attr_print(&value, text)), "0.1");
  value = (dp_attr){.kind = DP_ATTR_TYPE, .type = DP_FLOAT + DP_REF_OFFSET};
  assert_string_equal(PRINTED(dp_attr_print(&value, text)), "DT_FLOAT_REF");
}

static void test_sort_keeps_the_last(void **state) {
  dp_attr few[] = {{.name = "b", .count = 1}, {.name = "a", .count = 2}, {.name = "b", .count = 3}};
  assert_int_equal(dp_attr_sort(few, 3), 2);
  assert_string_equal(few[0].name, "a");
  assert_int_equal(few[1].count, 3);
  dp_attr many[100];
  char names[100][8];
  for (int i = 0; i < 100; i++) {
    snprintf(names[i], sizeof(names[i]), "n%02d", (i * 37) % 50);
    many[i] = (dp_attr){.name = names[i], .count = i};
  }
  assert_int_equal(dp_attr_sort(many, 100), 50);
  for (int i = 0; i < 50; i++) {
    assert_true(many[i].count >= 50); /* each name came twice, the second time in the later half */
    assert_ptr_equal(dp_attr_find(many, 50, many[i].name), &many[i]);
  }
  assert_null(dp_attr_find(many, 50, "x"));
}

static int finish(void **state) {
  dp_tensor_array_release(&tensors);
  return tear_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equality_and_hash),
      cmocka_unit_test(test_messages_and_back),
      cmocka_unit_test(test_absent_and_empty),
      cmocka_unit_test(test_bad_values),
      cmocka_unit_test(test_print),
      cmocka_unit_test(test_sort_keeps_the_last),
  };
  return cmocka_run_group_tests(tests, set_up, finish);
}
