/* Gradients compared with finite differences that an in-process session computes; sparse gradients;
 * the contract of TF_AddGradients. tests/conformance/client compares many more gradients with those
 * of TensorFlow. */
#include <downpour.h>
#include <math.h>
#include "client/gradient.h"
#include "nodes.h"

typedef struct fixture {
  TF_Graph *graph;
  dp_scope *scope;
  TF_Session *session;
  TF_Status *status;
} fixture;

static int set_up(void **state) {
  fixture *f = calloc(1, sizeof(*f));
  f->graph = TF_NewGraph();
  f->scope = dp_scope_create(f->graph);
  f->status = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  f->session = TF_NewSession(f->graph, options, f->status);
  expect_ok(f->status);
  TF_DeleteSessionOptions(options);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  TF_DeleteSession(f->session, f->status);
  TF_DeleteStatus(f->status);
  dp_scope_destroy(f->scope);
  TF_DeleteGraph(f->graph);
  free(f);
  return 0;
}

static TF_Tensor *evaluate(fixture *f, TF_Output feed, TF_Tensor *value, TF_Output fetch) {
  TF_Tensor *fetched = NULL;
  TF_SessionRun(f->session, NULL, &feed, &value, value ? 1 : 0, &fetch, &fetched, 1, NULL, 0, NULL,
                f->status);
  expect_ok(f->status);
  return fetched;
}

static double total(fixture *f, TF_Output feed, TF_Tensor *value, TF_Output fetch) {
  TF_Tensor *fetched = evaluate(f, feed, value, fetch);
  double sum = 0;
  for (int64_t i = 0; i < TF_TensorElementCount(fetched); i++)
    sum += ((double *)TF_TensorData(fetched))[i];
  TF_DeleteTensor(fetched);
  return sum;
}

/* Compares the gradient with central differences, one element of x at a time, in double. */
static void expect_slope(fixture *f, TF_Output y, TF_Output x, dp_dims shape, double low) {
  assert_string_equal(dp_scope_message(f->scope), "");
  TF_Output dy;
  TF_AddGradients(f->graph, &y, 1, &x, 1, NULL, f->status, &dy);
  expect_ok(f->status);
  int64_t count = 1;
  for (int i = 0; i < shape.count; i++)
    count *= shape.items[i];
  TF_Tensor *value =
      TF_AllocateTensor(TF_DOUBLE, shape.items, shape.count, (size_t)count * sizeof(double));
  double *at = TF_TensorData(value);
  unsigned seed = 7;
  for (int64_t i = 0; i < count; i++)
    at[i] = low + (double)(seed = seed * 1103515245u + 12345u) / 4294967296.0;
  TF_Tensor *slope = evaluate(f, x, value, dy);
  assert_int_equal(TF_TensorElementCount(slope), count);
  for (int64_t i = 0; i < count; i++) {
    const double step = 1e-5, middle = at[i];
    at[i] = middle + step;
    double more = total(f, x, value, y);
    at[i] = middle - step;
    double less = total(f, x, value, y);
    at[i] = middle;
    double expected = (more - less) / (2 * step), got = ((double *)TF_TensorData(slope))[i];
    if (fabs(expected - got) > 1e-5 * (1 + fabs(expected)))
      fail_msg("element %d: %.9g instead of %.9g", (int)i, got, expected);
  }
  TF_DeleteTensor(slope);
  TF_DeleteTensor(value);
}

static TF_Output ramp(dp_scope *s, dp_dims shape) {
  double values[64];
  for (int i = 0; i < 64; i++)
    values[i] = sin(1 + i);
  return dp_const_doubles(s, shape, values);
}

static void test_perceptron(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  TF_Output x = dp_placeholder(s, TF_DOUBLE);
  TF_Output hidden =
      dp_tanh(s, dp_bias_add(s, dp_mat_mul(s, x, ramp(s, DP_SHAPE(3, 4))), ramp(s, DP_SHAPE(4))));
  TF_Output logits = dp_mat_mul(s, hidden, ramp(s, DP_SHAPE(2, 4)), .transpose_b = true);
  TF_Output labels = dp_const_int32s(s, DP_SHAPE(2), (int32_t[]){1, 0});
  TF_Output loss = dp_sparse_softmax_cross_entropy_with_logits(s, logits, labels).loss;
  expect_slope(f, dp_mean(s, loss, dp_const_int32(s, 0)), x, DP_SHAPE(2, 3), -0.5);
}

static void test_convolution(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  TF_Output x = dp_placeholder(s, TF_DOUBLE);
  TF_Output maps = dp_conv2d(s, x, ramp(s, DP_SHAPE(2, 2, 1, 3)), DP_INTS(1, 1, 1, 1), "SAME");
  TF_Output pooled =
      dp_avg_pool(s, dp_elu(s, maps), DP_INTS(1, 2, 2, 1), DP_INTS(1, 2, 2, 1), "VALID");
  expect_slope(f, dp_square(s, pooled), x, DP_SHAPE(1, 4, 4, 1), -0.5);
}

/* GatherV2 with batch dimensions, and Einsum with repeated labels and with "...". */
static void test_batches(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  TF_Output x = dp_placeholder(s, TF_DOUBLE);
  TF_Output rows = dp_const_int32s(s, DP_SHAPE(2, 2), (int32_t[]){0, 2, 1, 1});
  TF_Output y = dp_gather_v2(s, x, rows, dp_const_int32(s, 2), .batch_dims = 1);
  expect_slope(f, dp_square(s, y), x, DP_SHAPE(2, 3, 3), -0.5);
  TF_Output z = dp_placeholder(s, TF_DOUBLE);
  TF_Output traces = dp_einsum(s, DP_OUTPUTS(z, ramp(s, DP_SHAPE(3, 2))), "...aab,bc->...a");
  expect_slope(f, dp_exp(s, traces), z, DP_SHAPE(2, 2, 2, 3), -0.5);
  TF_Output w = dp_placeholder(s, TF_DOUBLE);
  TF_Output spread = dp_einsum(s, DP_OUTPUTS(w, ramp(s, DP_SHAPE(4, 2, 2))), "...ab,...bc->...ac");
  expect_slope(f, dp_square(s, spread), w, DP_SHAPE(1, 3, 2), -0.5);
}

static void test_transforms(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  for (int length = 5; length <= 6; length++) {
    TF_Output x = dp_placeholder(s, TF_DOUBLE);
    TF_Output size = dp_const_int32s(s, DP_SHAPE(1), (int32_t[]){length});
    TF_Output spectrum = dp_rfft(s, x, size, .tcomplex = TF_COMPLEX128);
    TF_Output power = dp_square(s, dp_complex_abs(s, spectrum, .tout = TF_DOUBLE));
    expect_slope(f, dp_mul(s, power, power), x, DP_SHAPE(2, length), -0.5);
    TF_Output back = dp_irfft(s, dp_square(s, spectrum), size, .treal = TF_DOUBLE);
    expect_slope(f, dp_square(s, back), x, DP_SHAPE(2, length), -0.5);
  }
}

static void test_moves(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  TF_Output x = dp_placeholder(s, TF_DOUBLE), axis = dp_const_int32(s, 1);
  dp_output_list parts = dp_split(s, axis, x, 2);
  TF_Output first = dp_mul(s, dp_output_at(parts, 0), dp_output_at(parts, 1));
  TF_Output joined = dp_concat_v2(s, DP_OUTPUTS(first, dp_exp(s, x)), axis);
  TF_Output turned = dp_transpose(s, joined, dp_const_vector(s, DP_INTS(1, 0)));
  TF_Output rows =
      dp_gather_v2(s, turned, dp_const_vector(s, DP_INTS(0, 2, 2, 5)), dp_const_int32(s, 0));
  expect_slope(f, dp_mul(s, rows, ramp(s, DP_SHAPE(4, 1))), x, DP_SHAPE(3, 4), 0.2);
}

static void test_branch(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  TF_Output x = dp_placeholder(s, TF_DOUBLE);
  dp_switch_outputs way = dp_switch(s, x, dp_const_bool(s, true));
  TF_Output both[] = {dp_square(s, way.output_false), dp_exp(s, way.output_true)};
  TF_Output y = dp_merge(s, ((dp_outputs){both, 2})).output;
  expect_slope(f, y, x, DP_SHAPE(3), 0);
}

/* while (i < 3) v = sin(v) * x + v, as Python would build it. */
static void test_loop(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  TF_Output x = dp_placeholder(s, TF_DOUBLE);
  TF_Output starts[] = {dp_const_int32(s, 0), x, x};
  TF_WhileParams loop = TF_NewWhile(f->graph, starts, 3, f->status);
  expect_ok(f->status);
  loop.name = "thrice";
  dp_scope *condition = dp_scope_create(loop.cond_graph);
  loop.cond_output = dp_less(condition, loop.cond_inputs[0], dp_const_int32(condition, 3));
  assert_string_equal(dp_scope_message(condition), "");
  dp_scope *body = dp_scope_create(loop.body_graph);
  const TF_Output *in = loop.body_inputs;
  loop.body_outputs[0] = dp_add(body, in[0], dp_const_int32(body, 1));
  loop.body_outputs[1] = dp_add(body, dp_mul(body, dp_sin(body, in[1]), in[2]), in[1]);
  loop.body_outputs[2] = dp_identity(body, in[2]);
  assert_string_equal(dp_scope_message(body), "");
  TF_Output ends[3];
  TF_FinishWhile(&loop, f->status, ends);
  expect_ok(f->status);
  dp_scope_destroy(condition);
  dp_scope_destroy(body);
  expect_slope(f, ends[1], x, DP_SHAPE(2), 0.2);
}

/* Adds a function of one argument to the graph: x sin(x), plus random noise if `is_noisy`. */
static void add_function(fixture *f, const char *name, bool is_noisy) {
  TF_Graph *body = TF_NewGraph();
  dp_scope *s = dp_scope_create(body);
  TF_Output x = dp_placeholder(s, TF_DOUBLE), y = dp_mul(s, x, dp_sin(s, x));
  if (is_noisy)
    y = dp_add(s, y, dp_random_uniform(s, dp_const_vector(s, DP_INTS(1)), TF_DOUBLE));
  assert_string_equal(dp_scope_message(s), "");
  TF_Function *function =
      TF_GraphToFunction(body, name, 0, -1, NULL, 1, &x, 1, &y, NULL, NULL, NULL, f->status);
  expect_ok(f->status);
  TF_GraphCopyFunction(f->graph, function, NULL, f->status);
  expect_ok(f->status);
  TF_DeleteFunction(function);
  dp_scope_destroy(s);
  TF_DeleteGraph(body);
}

static void test_functions(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  add_function(f, "wave", false);
  add_function(f, "noise", true);
  TF_Output x = dp_placeholder(s, TF_DOUBLE);
  TF_Output y = dp_output_at(dp_partitioned_call(s, DP_OUTPUTS(x), DP_TYPES(TF_DOUBLE), "wave"), 0);
  dp_output_list either =
      dp_if(s, dp_const_bool(s, true), DP_OUTPUTS(y), DP_TYPES(TF_DOUBLE), "wave", "wave");
  expect_slope(f, dp_output_at(either, 0), x, DP_SHAPE(3), 0.2);
  TF_Output noisy =
      dp_output_at(dp_stateful_partitioned_call(s, DP_OUTPUTS(x), DP_TYPES(TF_DOUBLE), "noise"), 0);
  TF_Output dy;
  TF_AddGradients(f->graph, &noisy, 1, &x, 1, NULL, f->status, &dy);
  expect_error(f->status, TF_UNIMPLEMENTED, "would run twice");
}

static void test_slices(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  TF_Output table = dp_const_floats(s, DP_SHAPE(4, 2), (float[]){0, 1, 2, 3, 4, 5, 6, 7});
  TF_Output once = dp_gather(s, dp_identity(s, table), dp_const_vector(s, DP_INTS(1, 3, 1)));
  TF_Output again = dp_gather(s, table, dp_const_vector(s, DP_INTS(0)));
  dp_gradient gradient;
  dp_gradients(s, DP_OUTPUTS(once, again), DP_OUTPUTS(table), NULL, &gradient);
  assert_string_equal(dp_scope_message(s), "");
  assert_true(dp_gradient_is_sparse(&gradient));
  TF_Tensor *rows = evaluate(f, (TF_Output){0}, NULL, gradient.indices);
  assert_int_equal(TF_TensorElementCount(rows), 4);
  TF_DeleteTensor(rows);
  TF_Tensor *dense = evaluate(f, (TF_Output){0}, NULL, dp_gradient_dense(s, &gradient));
  const float *values = TF_TensorData(dense);
  const float expected[] = {1, 1, 2, 2, 0, 0, 1, 1};
  for (int i = 0; i < 8; i++)
    assert_true(values[i] == expected[i]);
  TF_DeleteTensor(dense);
}

static void test_contract(void **state) {
  fixture *f = *state;
  dp_scope *s = f->scope;
  TF_Output x = dp_const_float(s, 3), other = dp_const_float(s, 1), y = dp_square(s, x);
  TF_Output ys[] = {y, y}, xs[] = {x, other}, dys[2], twice = dp_const_float(s, 2);
  TF_AddGradients(f->graph, ys, 2, xs, 2, (TF_Output[]){{0}, twice}, f->status, dys);
  expect_ok(f->status);
  assert_null(dys[1].oper); /* y does not depend on it */
  assert_memory_equal(TF_OperationName(dys[0].oper), "gradients/", 10);
  TF_Tensor *value = evaluate(f, (TF_Output){0}, NULL, dys[0]);
  assert_true(float_value(value) == 18);
  TF_DeleteTensor(value);
  TF_AddGradientsWithPrefix(f->graph, "back", ys, 1, xs, 1, NULL, f->status, dys);
  expect_ok(f->status);
  assert_memory_equal(TF_OperationName(dys[0].oper), "back/", 5);
  int before = count_operations(f->graph);
  TF_AddGradientsWithPrefix(f->graph, "back", ys, 1, xs, 1, NULL, f->status, dys);
  expect_error(f->status, TF_INVALID_ARGUMENT, "prefix [back] conflicts with existing node");
  /* RandomGammaGrad has no gradient: all nodes that were added before the error are removed. */
  TF_Output odd = dp_square(s, dp_random_gamma_grad(s, x, x));
  before = count_operations(f->graph);
  TF_AddGradients(f->graph, &odd, 1, xs, 1, NULL, f->status, dys);
  expect_error(f->status, TF_NOT_FOUND, "No gradient defined for op: RandomGammaGrad");
  assert_int_equal(count_operations(f->graph), before);
  TF_AddGradients(f->graph, &(TF_Output){x.oper, 5}, 1, xs, 1, NULL, f->status, dys);
  expect_error(f->status, TF_INVALID_ARGUMENT, "y 0 of the gradients is no output of the graph");
  TF_AddGradients(f->graph, ys, 1, xs, 1, NULL, f->status, dys);
  expect_ok(f->status);
  value = evaluate(f, (TF_Output){0}, NULL, dys[0]);
  assert_true(float_value(value) == 6);
  TF_DeleteTensor(value);
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_perceptron), TEST(test_convolution), TEST(test_batches), TEST(test_transforms),
      TEST(test_moves),      TEST(test_branch),      TEST(test_loop),    TEST(test_functions),
      TEST(test_slices),     TEST(test_contract),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
