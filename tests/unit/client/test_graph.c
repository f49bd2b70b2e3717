/* TF_Graph and TF_OperationDescription: attributes that follow from inputs, operations that are
 * refused with the right message, and every query of operations, attributes and ops. */
#include "nodes.h"

static void test_edges(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Output a = constant(graph, "a", 1), b = placeholder(graph, "b");
  TF_OperationDescription *desc = TF_NewOperation(graph, "AddV2", "sum");
  TF_SetDevice(desc, "/cpu:0");
  TF_AddInput(desc, a);
  TF_AddInput(desc, b);
  TF_AddControlInput(desc, b.oper);
  TF_Output sum = finish(desc);
  assert_string_equal(TF_OperationName(sum.oper), "sum");
  assert_string_equal(TF_OperationOpType(sum.oper), "AddV2");
  assert_string_equal(TF_OperationDevice(sum.oper), "/cpu:0");
  assert_int_equal(TF_OperationNumInputs(sum.oper), 2);
  assert_int_equal(TF_OperationNumOutputs(sum.oper), 1);
  assert_int_equal(TF_OperationOutputType(sum), TF_FLOAT);
  assert_int_equal(TF_OperationInputType((TF_Input){sum.oper, 1}), TF_FLOAT);
  assert_ptr_equal(TF_OperationInput((TF_Input){sum.oper, 1}).oper, b.oper);
  assert_null(TF_OperationInput((TF_Input){sum.oper, 2}).oper);
  TF_Output inputs[2];
  TF_OperationAllInputs(sum.oper, inputs, 2);
  assert_ptr_equal(inputs[0].oper, a.oper);
  assert_int_equal(TF_OperationOutputNumConsumers(a), 1);
  TF_Input consumers[4];
  assert_int_equal(TF_OperationOutputConsumers(b, consumers, 4), 1);
  assert_ptr_equal(consumers[0].oper, sum.oper);
  assert_int_equal(consumers[0].index, 1);
  TF_Operation *controls[2];
  assert_int_equal(TF_OperationNumControlInputs(sum.oper), 1);
  assert_int_equal(TF_OperationGetControlInputs(sum.oper, controls, 2), 1);
  assert_ptr_equal(controls[0], b.oper);
  assert_int_equal(TF_OperationNumControlOutputs(b.oper), 1);
  assert_int_equal(TF_OperationGetControlOutputs(b.oper, controls, 2), 1);
  assert_ptr_equal(controls[0], sum.oper);
  assert_ptr_equal(TF_GraphOperationByName(graph, "sum"), sum.oper);
  assert_null(TF_GraphOperationByName(graph, "product"));
  size_t at = 0, count = 0;
  while (TF_GraphNextOperation(graph, &at))
    count++;
  assert_int_equal(count, 3);
  TF_DeleteGraph(graph);
}

static void test_lists(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output values[] = {constant(graph, "a", 1), constant(graph, "b", 2), constant(graph, "c", 3)};
  TF_OperationDescription *desc = TF_NewOperation(graph, "AddN", "all");
  TF_AddInputList(desc, values, 3);
  TF_Output all = finish(desc);
  int64_t count = 0;
  TF_OperationGetAttrInt(all.oper, "N", &count, status);
  expect_ok(status);
  assert_int_equal(count, 3);
  assert_int_equal(TF_OperationInputListLength(all.oper, "inputs", status), 3);
  assert_int_equal(TF_OperationOutputListLength(all.oper, "sum", status), 1);
  expect_ok(status);
  assert_int_equal(TF_OperationOutputListLength(all.oper, "x", status), -1);
  expect_error(status, TF_INVALID_ARGUMENT, "Output arg 'x' not found");
  desc = TF_NewOperation(graph, "IdentityN", "several");
  TF_AddInputList(desc, values, 2);
  TF_Output several = finish(desc);
  TF_DataType types[4] = {0};
  TF_OperationGetAttrTypeList(several.oper, "T", types, 4, status);
  expect_ok(status);
  assert_int_equal(types[1], TF_FLOAT);
  assert_int_equal(TF_OperationNumOutputs(several.oper), 2);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void refuse(TF_OperationDescription *desc, const char *part) {
  TF_Status *status = TF_NewStatus();
  assert_null(TF_FinishOperation(desc, status));
  expect_error(status, TF_INVALID_ARGUMENT, part);
  TF_DeleteStatus(status);
}

static void test_refused(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Output a = constant(graph, "a", 1);
  refuse(TF_NewOperation(graph, "NoSuchOp", "x"), "Op type not registered 'NoSuchOp'");
  refuse(TF_NewOperation(graph, "NoOp", "a"), "Duplicate node name in graph: 'a'");
  refuse(TF_NewOperation(graph, "Const", "x"), "NodeDef missing attr");
  refuse(TF_NewOperation(graph, "Neg", "x"), "0 inputs specified of 1 inputs in Op");
  TF_OperationDescription *desc = TF_NewOperation(graph, "Neg", "x");
  TF_AddInput(desc, a);
  TF_AddInput(desc, a);
  refuse(desc,
         "More Input() calls than the 1 input_args while building NodeDef 'x' using Op<name=");
  desc = TF_NewOperation(graph, "Neg", "x");
  TF_AddInputList(desc, &a, 1);
  refuse(desc, "List provided to input 'x' when single Tensor expected");
  desc = TF_NewOperation(graph, "AddN", "x");
  TF_AddInput(desc, a);
  refuse(desc, "Single tensor passed to 'inputs', expected list");
  desc = TF_NewOperation(graph, "Neg", "x");
  TF_SetAttrType(desc, "T", TF_INT32);
  TF_AddInput(desc, a);
  refuse(desc, "Inconsistent values for attr 'T' DT_INT32 vs. DT_FLOAT");
  desc = TF_NewOperation(graph, "Neg", "x");
  TF_AddInput(desc, (TF_Output){a.oper, 1});
  refuse(desc, "Attempt to add output 1 of a not in range [0, 1) to node with type Neg");
  desc = TF_NewOperation(graph, "LogicalNot", "x");
  TF_AddInput(desc, a);
  refuse(desc, "Input 'x' passed float expected bool");
  desc = TF_NewOperation(graph, "Assign", "x");
  TF_AddInput(desc, a);
  TF_AddInput(desc, a);
  refuse(desc, "Input 'ref' passed float expected ref type");
  size_t at = 0;
  assert_ptr_equal(TF_GraphNextOperation(graph, &at), a.oper);
  assert_null(TF_GraphNextOperation(graph, &at));
  TF_DeleteGraph(graph);
}

/* An operation with an attribute of every kind. */
static TF_Operation *add_holder(TF_Graph *graph, TF_Status *status) {
  TF_OperationDescription *desc = TF_NewOperation(graph, "NoOp", "holder");
  const void *strings[] = {"one", "three"};
  size_t lengths[] = {3, 5};
  int64_t dims[] = {2, -1};
  const int64_t *shapes[] = {dims, NULL, NULL};
  int ranks[] = {2, -1, 0};
  TF_SetAttrString(desc, "_text", "text", 4);
  TF_SetAttrStringList(desc, "_texts", strings, lengths, 2);
  TF_SetAttrInt(desc, "_int", -7);
  TF_SetAttrIntList(desc, "_ints", (int64_t[]){1, 2, 3}, 3);
  TF_SetAttrFloat(desc, "_float", 0.5f);
  TF_SetAttrFloatList(desc, "_floats", (float[]){0.5f, 2}, 2);
  TF_SetAttrBool(desc, "_bool", 1);
  TF_SetAttrBoolList(desc, "_bools", (unsigned char[]){0, 1}, 2);
  TF_SetAttrType(desc, "_type", TF_HALF);
  TF_SetAttrTypeList(desc, "_types", (TF_DataType[]){TF_HALF, TF_INT64}, 2);
  TF_SetAttrShape(desc, "_shape", dims, 2);
  TF_SetAttrShapeList(desc, "_shapes", shapes, ranks, 3);
  TF_SetAttrFuncName(desc, "_func", "f", 1);
  TF_SetAttrPlaceholder(desc, "_placeholder", "T");
  TF_SetAttrTensorShapeProto(desc, "_proto", "\x12\x02\x08\x03", 4, status);
  expect_ok(status);
  TF_SetAttrTensorShapeProto(desc, "_broken", "\xff", 1, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Unparseable TensorShapeProto");
  TF_SetAttrValueProto(desc, "_value", "\x18\x09", 2, status); /* i: 9 */
  expect_ok(status);
  TF_SetAttrValueProto(desc, "_broken", "\xff", 1, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Unparseable AttrValue proto");
  TF_Tensor *tensor = float_tensor(3);
  TF_Tensor *tensors[] = {tensor, tensor};
  TF_SetAttrTensor(desc, "_tensor", tensor, status);
  TF_SetAttrTensorList(desc, "_tensors", tensors, 2, status);
  expect_ok(status);
  *(float *)TF_TensorData(tensor) = 4; /* the attributes have copies */
  TF_DeleteTensor(tensor);
  return finish(desc).oper;
}

static void test_attributes(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Operation *oper = add_holder(graph, status);
  TF_AttrMetadata metadata = TF_OperationGetAttrMetadata(oper, "_text", status);
  expect_ok(status);
  assert_true(!metadata.is_list && metadata.type == TF_ATTR_STRING && metadata.total_size == 4 &&
              metadata.list_size == -1);
  char text[8] = {0};
  TF_OperationGetAttrString(oper, "_text", text, sizeof(text), status);
  assert_string_equal(text, "text");
  metadata = TF_OperationGetAttrMetadata(oper, "_texts", status);
  assert_true(metadata.is_list && metadata.list_size == 2 && metadata.total_size == 8);
  void *values[2];
  size_t value_lengths[2];
  char storage[8];
  TF_OperationGetAttrStringList(oper, "_texts", values, value_lengths, 2, storage, 8, status);
  expect_ok(status);
  assert_memory_equal(values[1], "three", 5);
  assert_int_equal(value_lengths[1], 5);
  TF_OperationGetAttrStringList(oper, "_texts", values, value_lengths, 2, storage, 7, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Not enough storage");
  int64_t ints[3] = {0};
  TF_OperationGetAttrInt(oper, "_int", ints, status);
  assert_int_equal(ints[0], -7);
  TF_OperationGetAttrIntList(oper, "_ints", ints, 3, status);
  assert_int_equal(ints[2], 3);
  TF_OperationGetAttrInt(oper, "_value", ints, status);
  assert_int_equal(ints[0], 9);
  float floats[2] = {0};
  TF_OperationGetAttrFloat(oper, "_float", floats, status);
  assert_true(floats[0] == 0.5f);
  TF_OperationGetAttrFloatList(oper, "_floats", floats, 2, status);
  assert_true(floats[1] == 2);
  unsigned char bools[2] = {0};
  TF_OperationGetAttrBool(oper, "_bool", bools, status);
  assert_int_equal(bools[0], 1);
  TF_OperationGetAttrBoolList(oper, "_bools", bools, 2, status);
  assert_true(bools[0] == 0 && bools[1] == 1);
  TF_DataType types[2] = {0};
  TF_OperationGetAttrType(oper, "_type", types, status);
  assert_int_equal(types[0], TF_HALF);
  TF_OperationGetAttrTypeList(oper, "_types", types, 2, status);
  assert_int_equal(types[1], TF_INT64);
  expect_ok(status);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_shapes_and_tensors(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Operation *oper = add_holder(graph, status);
  assert_int_equal(TF_OperationGetAttrMetadata(oper, "_shape", status).total_size, 2);
  int64_t ints[2];
  TF_OperationGetAttrShape(oper, "_shape", ints, 2, status);
  assert_true(ints[0] == 2 && ints[1] == -1);
  int64_t *got_dims[3], room[2];
  int got_ranks[3];
  TF_OperationGetAttrShapeList(oper, "_shapes", got_dims, got_ranks, 3, room, 2, status);
  expect_ok(status);
  assert_true(got_ranks[0] == 2 && got_ranks[1] == -1 && got_ranks[2] == 0 && got_dims[0][1] == -1);
  TF_OperationGetAttrShape(oper, "_proto", ints, 1, status);
  assert_int_equal(ints[0], 3);
  assert_int_equal(TF_OperationGetAttrMetadata(oper, "_func", status).type, TF_ATTR_FUNC);
  assert_int_equal(TF_OperationGetAttrMetadata(oper, "_placeholder", status).type,
                   TF_ATTR_PLACEHOLDER);
  TF_Tensor *tensor, *tensors[2];
  TF_OperationGetAttrTensor(oper, "_tensor", &tensor, status);
  expect_ok(status);
  assert_true(float_value(tensor) == 3);
  TF_DeleteTensor(tensor);
  TF_OperationGetAttrTensorList(oper, "_tensors", tensors, 2, status);
  expect_ok(status);
  assert_true(float_value(tensors[1]) == 3);
  TF_DeleteTensor(tensors[0]);
  TF_DeleteTensor(tensors[1]);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_attribute_messages(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Operation *oper = add_holder(graph, status);
  TF_Buffer *buffer = TF_NewBuffer();
  TF_OperationGetAttrValueProto(oper, "_value", buffer, status);
  expect_ok(status);
  assert_int_equal(buffer->length, 2);
  assert_memory_equal(buffer->data, "\x18\x09", 2);
  TF_OperationGetAttrValueProto(oper, "_value", buffer, status);
  expect_error(status, TF_INVALID_ARGUMENT, "non-empty TF_Buffer");
  TF_DeleteBuffer(buffer);
  buffer = TF_NewBuffer();
  TF_OperationGetAttrTensorShapeProto(oper, "_proto", buffer, status);
  expect_ok(status);
  assert_memory_equal(buffer->data, "\x12\x02\x08\x03", 4);
  TF_DeleteBuffer(buffer);
  TF_Buffer *buffers[3];
  TF_OperationGetAttrTensorShapeProtoList(oper, "_shapes", buffers, 3, status);
  expect_ok(status);
  for (int i = 0; i < 3; i++)
    TF_DeleteBuffer(buffers[i]);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_attribute_names(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Operation *oper = add_holder(graph, status);
  TF_OperationGetAttrMetadata(oper, "_none", status);
  expect_error(status, TF_INVALID_ARGUMENT, "Operation 'holder' has no attr named '_none'.");
  char text[1];
  int64_t ints[1];
  TF_OperationGetAttrString(oper, "_int", text, 1, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Attribute '_int' is not a string");
  TF_OperationGetAttrIntList(oper, "_int", ints, 1, status);
  expect_error(status, TF_INVALID_ARGUMENT, "is not a list");
  char name[16] = {0};
  assert_int_equal(TF_OperationGetNumAttrs(oper), 18);
  assert_int_equal(TF_OperationGetAttrNameLength(oper, 0), 5);
  TF_OperationGetAttrName(oper, 0, name, status);
  expect_ok(status);
  assert_string_equal(name, "_bool");
  TF_OperationGetAttrName(oper, 99, name, status);
  expect_error(status, TF_OUT_OF_RANGE, "99");
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_colocation(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output b = constant(graph, "b", 1), a = constant(graph, "a", 1);
  TF_OperationDescription *desc = TF_NewOperation(graph, "NoOp", "near");
  TF_ColocateWith(desc, b.oper);
  TF_ColocateWith(desc, a.oper);
  TF_ColocateWith(desc, b.oper);
  TF_Operation *oper = finish(desc).oper;
  TF_AttrMetadata metadata = TF_OperationGetAttrMetadata(oper, "_class", status);
  expect_ok(status);
  assert_int_equal(metadata.list_size, 2);
  void *values[2];
  size_t lengths[2];
  char storage[16];
  TF_OperationGetAttrStringList(oper, "_class", values, lengths, 2, storage, 16, status);
  assert_memory_equal(storage, "loc:@aloc:@b", 12);
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

static void test_shapes(void **state) {
  TF_Graph *graph = TF_NewGraph(), *other = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Output x = placeholder(graph, "x");
  int64_t dims[2] = {0};
  assert_int_equal(TF_GraphGetTensorNumDims(graph, x, status), -1);
  expect_ok(status);
  TF_GraphSetTensorShape(graph, x, (int64_t[]){-1, 3}, 2, status);
  expect_ok(status);
  TF_GraphSetTensorShape(graph, x, (int64_t[]){2, -1}, 2, status);
  expect_ok(status);
  assert_int_equal(TF_GraphGetTensorNumDims(graph, x, status), 2);
  TF_GraphGetTensorShape(graph, x, dims, 2, status);
  expect_ok(status);
  assert_true(dims[0] == 2 && dims[1] == 3);
  TF_GraphSetTensorShape(graph, x, (int64_t[]){2, 4}, 2, status);
  expect_error(status, TF_INVALID_ARGUMENT,
               "Dimension 1 in both shapes must be equal, but are 3 and 4");
  TF_GraphSetTensorShape(graph, x, dims, 1, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Shapes must be equal rank, but are 2 and 1");
  TF_GraphSetTensorShape(graph, x, NULL, -1, status);
  expect_ok(status);
  TF_GraphGetTensorShape(graph, x, dims, 1, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Expected rank is 1 but actual rank is 2");
  TF_GraphGetTensorNumDims(other, x, status);
  expect_error(status, TF_INVALID_ARGUMENT, "Node x was not found in the graph");
  TF_GraphGetTensorNumDims(graph, (TF_Output){x.oper, 1}, status);
  expect_error(status, TF_INVALID_ARGUMENT, "out of range");
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
  TF_DeleteGraph(other);
}

static void test_op_list(void **state) {
  TF_Graph *graph = TF_NewGraph();
  TF_Status *status = TF_NewStatus();
  TF_Buffer *all = TF_GetAllOpList(), *one = TF_NewBuffer();
  assert_non_null(all);
  assert_true(all->length > 100000);
  TF_GraphGetOpDef(graph, "MatMul", one, status);
  expect_ok(status);
  assert_non_null(memmem(all->data, all->length, one->data, one->length));
  assert_non_null(memmem(one->data, one->length, "transpose_a", 11));
  TF_DeleteBuffer(one);
  one = TF_NewBuffer();
  TF_GraphGetOpDef(graph, "NoSuchOp", one, status);
  expect_error(status, TF_NOT_FOUND, "NoSuchOp");
  TF_DeleteBuffer(one);
  TF_DeleteBuffer(all);
  assert_null(TF_LoadLibrary("ops.so", status));
  expect_error(status, TF_UNIMPLEMENTED, "ops.so");
  TF_DeleteStatus(status);
  TF_DeleteGraph(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_shapes_and_tensors),
      cmocka_unit_test(test_attribute_messages),
      cmocka_unit_test(test_attribute_names),
      cmocka_unit_test(test_colocation),
      cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_op_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
