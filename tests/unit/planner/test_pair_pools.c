/* Max-poolings and their gradients: which are paired, and that values stay the same to the bit for
 * all kinds of windows, images and dtypes. */
#include "kernels/kernels.h"
#include "planner_test.h"
#include "runtime/kernel.h"

#define ARGS                                                                                       \
  "x = _Arg() T=float index=0\n"                                                                   \
  "g = _Arg() T=float index=1\n"
#define WINDOW "ksize={1 2 2 1} strides={1 2 2 1} padding='SAME'"
#define POOL "p = MaxPool(x) T=float " WINDOW "\n"
#define GRADIENT "d = MaxPoolGrad(x, p, g) T=float " WINDOW "\n"
#define RESULT "out = _Retval(d) T=float index=0\n"

/* Fuses with everything that can be switched off switched off. */
static void pair(dp_graph *graph) {
  Tensorflow__GraphOptions options = TENSORFLOW__GRAPH_OPTIONS__INIT;
  Tensorflow__OptimizerOptions level = TENSORFLOW__OPTIMIZER_OPTIONS__INIT;
  Tensorflow__RewriterConfig rewriter = TENSORFLOW__REWRITER_CONFIG__INIT;
  level.opt_level = TENSORFLOW__OPTIMIZER_OPTIONS__LEVEL__L0;
  rewriter.disable_meta_optimizer = true;
  options.optimizer_options = &level;
  options.rewrite_options = &rewriter;
  assert_ok(dp_planner_fuse(graph, &options));
}

static int32_t count_pairs(const char *lines) {
  dp_graph *graph = make_graph(lines);
  pair(graph);
  int32_t pools = count_nodes(graph, "_MaxPoolWithPlaces");
  int32_t count = count_nodes(graph, "_MaxPoolGradFromPlaces");
  assert_true((pools > 0) == (count > 0));
  dp_graph_destroy(graph);
  return count;
}

/* ---- Which nodes ---- */

static void pairs_what_belongs_together(void **state) {
  dp_graph *graph = make_graph(ARGS "first = NoOp()\n"
                                    "p = MaxPool(x, ^first) T=float " WINDOW "\n" GRADIENT
                                    "e = MaxPoolGrad(x, p, p) T=float " WINDOW "\n" RESULT
                                    "other = _Retval(e) T=float index=1\n"
                                    "also = _Retval(p) T=float index=2\n");
  pair(graph);
  const dp_node *pool = node_of(graph, "p"), *gradient = node_of(graph, "d");
  assert_string_equal(pool->op->name, "_MaxPoolWithPlaces");
  assert_int_equal(pool->output_count, 2);
  assert_int_equal(pool->output_types[1], DP_UINT8);
  assert_true(has_control(graph, pool, "first"));
  assert_int_equal(count_nodes(graph, "_MaxPoolGradFromPlaces"), 2);
  assert_int_equal(gradient->input_count, 4);
  assert_string_equal(input_of(graph, "d", 0), "x");
  assert_string_equal(input_of(graph, "d", 2), "g");
  assert_int_equal(gradient->inputs[3].node, pool->id);
  assert_int_equal(gradient->inputs[3].output, 1);
  assert_string_equal(input_of(graph, "also", 0), "p");
  assert_int_equal(node_of(graph, "also")->inputs[0].output, 0);
  dp_graph_destroy(graph);
}

static void pairs_windows_that_are_constants(void **state) {
#define CONSTANTS                                                                                  \
  ARGS "k = Const() dtype=int32 value=[1 3 2 1]\n"                                                 \
       "s = Const() dtype=int32 value=[1 2 2 1]\n"                                                 \
       "p = MaxPoolV2(x, k, s) T=float padding='VALID'\n"
  dp_graph *graph =
      make_graph(CONSTANTS "d = MaxPoolGradV2(x, p, g, k, s) T=float padding='VALID'\n" RESULT);
  pair(graph);
  const dp_node *pool = node_of(graph, "p"), *gradient = node_of(graph, "d");
  assert_string_equal(gradient->op->name, "_MaxPoolGradFromPlaces");
  assert_int_equal(pool->input_count, 1);
  assert_int_equal(gradient->input_count, 4);
  static const int64_t sizes[] = {1, 3, 2, 1}, strides[] = {1, 2, 2, 1};
  assert_memory_equal(dp_node_attr(pool, "ksize")->integers, sizes, sizeof(sizes));
  assert_memory_equal(dp_node_attr(gradient, "strides")->integers, strides, sizeof(strides));
  assert_int_equal(dp_node_attr(gradient, "explicit_paddings")->count, 0);
  dp_graph_destroy(graph);
  assert_int_equal(count_pairs(CONSTANTS "d = MaxPoolGrad(x, p, g) T=float padding='VALID'"
                                         " ksize={1 3 2 1} strides={1 2 2 1}\n" RESULT),
                   1);
  assert_int_equal(count_pairs(CONSTANTS "n = _Arg() T=int32 index=2\n"
                                         "d = MaxPoolGradV2(x, p, g, n, s) T=float"
                                         " padding='VALID'\n" RESULT),
                   0);
}

static void leaves_other_inputs(void **state) {
  assert_int_equal(count_pairs(ARGS POOL GRADIENT RESULT), 1);
  /* The output is fed, or has passed through something. */
  assert_int_equal(count_pairs(ARGS "p = _Arg() T=float index=2\n" GRADIENT RESULT), 0);
  assert_int_equal(count_pairs(ARGS "q = MaxPool(x) T=float " WINDOW "\n"
                                    "p = Identity(q) T=float\n" GRADIENT RESULT),
                   0);
  /* The input is another one, or a reference, whose value may have changed. */
  assert_int_equal(count_pairs(ARGS "y = Identity(x) T=float\n"
                                    "p = MaxPool(y) T=float " WINDOW "\n" GRADIENT RESULT),
                   0);
  assert_int_equal(count_pairs("x = VariableV2() dtype=float shape=(1 4 4 1)\n"
                               "g = _Arg() T=float index=0\n" POOL GRADIENT RESULT),
                   0);
}

static void leaves_other_windows(void **state) {
  static const char *const windows[] = {
      "ksize={1 3 2 1} strides={1 2 2 1} padding='SAME'",
      "ksize={1 2 2 1} strides={1 2 1 1} padding='SAME'",
      "ksize={1 2 2 1} strides={1 2 2 1} padding='VALID'",
      "ksize={1 2 2 1} strides={1 2 2 1} padding='EXPLICIT' explicit_paddings={0 0 1 1 1 1 0 0}",
      "ksize={1 2 2 1} strides={1 2 2 1} padding='SAME' data_format='NCHW'",
  };
  char lines[1024];
  for (size_t i = 0; i < sizeof(windows) / sizeof(*windows); i++) {
    snprintf(lines, sizeof(lines), ARGS POOL "d = MaxPoolGrad(x, p, g) T=float %s\n" RESULT,
             windows[i]);
    assert_int_equal(count_pairs(lines), 0);
  }
  snprintf(lines, sizeof(lines),
           ARGS "p = MaxPool(x) T=float %s\nd = MaxPoolGrad(x, p, g) T=float %s\n" RESULT,
           windows[4], windows[4]);
  assert_int_equal(count_pairs(lines), 0);
  /* 256 places fit into a byte, 272 do not. */
  for (int rows = 16; rows <= 17; rows++) {
    const char *window = rows == 16 ? "ksize={1 16 16 1} strides={1 1 1 1} padding='SAME'"
                                    : "ksize={1 17 16 1} strides={1 1 1 1} padding='SAME'";
    snprintf(lines, sizeof(lines),
             ARGS "p = MaxPool(x) T=float %s\nd = MaxPoolGrad(x, p, g) T=float %s\n" RESULT, window,
             window);
    assert_int_equal(count_pairs(lines), rows == 16);
  }
}

static void leaves_other_types_and_devices(void **state) {
  assert_int_equal(count_pairs("x = _Arg() T=int32 index=0\n"
                               "g = _Arg() T=int32 index=1\n"
                               "p = MaxPool(x) T=int32 " WINDOW "\n"
                               "d = MaxPoolGrad(x, p, g) T=int32 " WINDOW "\n"
                               "out = _Retval(d) T=int32 index=0\n"),
                   0);
  dp_graph *graph = make_graph(ARGS POOL GRADIENT RESULT);
  node_of(graph, "p")->assigned_device = WORKER0;
  node_of(graph, "d")->assigned_device = WORKER0_1;
  pair(graph);
  assert_int_equal(count_nodes(graph, "_MaxPoolGradFromPlaces"), 0);
  dp_graph_destroy(graph);
}

/* ---- What they compute ---- */

typedef struct image_case {
  const char *image, *window;
} image_case;

/* What makes an image of numbers `r` that are normally distributed: all different, many the same,
 * not numbers among them, and minus infinities. */
static const char *const kinds[] = {
    "x = Identity(r) T=%s\n",
    "x = Round(r) T=%s\n",
    "a = Round(r) T=%s\nx = Sqrt(a) T=%s\n",
    "a = Round(r) T=%s\nb = Relu(a) T=%s\nx = Log(b) T=%s\n",
};

/* Runs pooling and gradient apart and paired; both results must be equal bit by bit. */
static void compare(const image_case *one, bool is_3d, const char *kind, const char *type) {
  const char *told = is_3d ? "_MaxPool3DGradFromMarks" : "_MaxPoolGradFromPlaces";
  const char *dimensions = is_3d ? "3D" : "";
  dp_text text = {0};
  dp_text_printf(&text,
                 "n = Const() dtype=int32 value=%s\n"
                 "seed = Const() dtype=int32 value=[3 4]\n"
                 "other = Const() dtype=int32 value=[5 6]\n"
                 "r = StatelessRandomNormal(n, seed) dtype=%s T=int32 Tseed=int32\n",
                 one->image, type);
  dp_text_printf(&text, kind, type, type, type);
  dp_text_printf(&text,
                 "p = MaxPool%s(x) T=%s %s\n"
                 "m = Shape(p) T=%s out_type=int32\n"
                 "g = StatelessRandomNormal(m, other) dtype=%s T=int32 Tseed=int32\n"
                 "d = MaxPool%sGrad(x, p, g) T=%s %s%s %s\n"
                 "out = _Retval(p) T=%s index=0\n"
                 "gradient = _Retval(d) T=%s index=1\n",
                 dimensions, type, one->window, type, type, dimensions, type,
                 is_3d ? "TInput=" : "", is_3d ? type : "", one->window, type, type);
  dp_tensor results[2][2] = {{{0}}};
  for (int is_paired = 0; is_paired < 2; is_paired++) {
    dp_graph *graph = make_graph(text.data);
    if (is_paired)
      pair(graph);
    assert_int_equal(count_nodes(graph, told), is_paired);
    assert_ok(run_graph(graph, results[is_paired], 2));
  }
  for (int i = 0; i < 2; i++) {
    assert_true(dp_shape_equal(&results[0][i].shape, &results[1][i].shape));
    assert_memory_equal(results[0][i].data, results[1][i].data, dp_tensor_bytes(&results[0][i]));
    dp_tensor_deinit(&results[0][i]);
    dp_tensor_deinit(&results[1][i]);
  }
  dp_text_deinit(&text);
}

static void all_windows_compute_the_same(void **state) {
  static const image_case cases[] = {
      {"[2 8 8 32]", "ksize={1 2 2 1} strides={1 2 2 1} padding='SAME'"},
      {"[2 7 9 20]", "ksize={1 2 2 1} strides={1 2 2 1} padding='SAME'"},
      {"[2 7 9 16]", "ksize={1 2 2 1} strides={1 2 2 1} padding='VALID'"},
      {"[3 8 8 35]", "ksize={1 3 3 1} strides={1 2 2 1} padding='SAME'"},
      {"[2 9 7 16]", "ksize={1 3 3 1} strides={1 2 2 1} padding='SAME'"},
      {"[2 10 11 3]", "ksize={1 3 3 1} strides={1 2 2 1} padding='VALID'"},
      {"[1 12 13 33]", "ksize={1 3 3 1} strides={1 1 1 1} padding='SAME'"},
      {"[1 9 10 5]", "ksize={1 2 3 1} strides={1 1 2 1} padding='VALID'"},
      {"[1 9 10 18]", "ksize={1 2 2 1} strides={1 3 3 1} padding='SAME'"},
      {"[1 20 21 4]", "ksize={1 5 4 1} strides={1 3 2 1} padding='SAME'"},
      {"[1 20 20 2]", "ksize={1 16 16 1} strides={1 1 1 1} padding='SAME'"},
      {"[2 3 2 7]", "ksize={1 9 5 1} strides={1 4 2 1} padding='SAME'"},
      {"[2 1 1 40]", "ksize={1 2 2 1} strides={1 2 2 1} padding='SAME'"},
      {"[1 40 1 17]", "ksize={1 3 3 1} strides={1 2 2 1} padding='SAME'"},
      {"[1 6 50 1]", "ksize={1 1 1 1} strides={1 1 1 1} padding='VALID'"},
      {"[2 7 8 19]", "ksize={1 3 3 1} strides={1 2 2 1} padding='EXPLICIT'"
                     " explicit_paddings={0 0 1 2 2 1 0 0}"},
      {"[2 7 8 16]", "ksize={1 2 2 1} strides={1 2 2 1} padding='EXPLICIT'"
                     " explicit_paddings={0 0 1 1 1 0 0 0}"},
      {"[1 5 6 9]", "ksize={1 4 3 1} strides={1 2 1 1} padding='EXPLICIT'"
                    " explicit_paddings={0 0 3 3 0 2 0 0}"},
      {"[0 4 4 3]", "ksize={1 2 2 1} strides={1 2 2 1} padding='SAME'"},
      {"[2 4 4 0]", "ksize={1 2 2 1} strides={1 2 2 1} padding='SAME'"},
      {"[1 0 3 4]", "ksize={1 3 3 1} strides={1 1 1 1} padding='EXPLICIT'"
                    " explicit_paddings={0 0 2 2 1 1 0 0}"},
  };
  static const char *const types[] = {"float", "double", "half", "bfloat16"};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
      for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
        compare(&cases[i], false, kinds[k], types[t]);
}

static void all_cubes_compute_the_same(void **state) {
  static const image_case cases[] = {
      {"[2 4 8 8 32]", "ksize={1 2 2 2 1} strides={1 2 2 2 1} padding='SAME'"},
      {"[1 5 7 9 20]", "ksize={1 2 2 2 1} strides={1 2 2 2 1} padding='SAME'"},
      {"[2 5 7 9 16]", "ksize={1 2 2 2 1} strides={1 2 2 2 1} padding='VALID'"},
      {"[1 4 5 6 35]", "ksize={1 2 2 2 1} strides={1 1 1 1 1} padding='SAME'"},
      {"[1 4 5 9 3]", "ksize={1 2 2 2 1} strides={1 1 2 3 1} padding='SAME'"},
      {"[1 3 4 12 5]", "ksize={1 1 2 4 1} strides={1 1 1 2 1} padding='SAME'"},
      {"[1 9 2 3 17]", "ksize={1 8 1 1 1} strides={1 1 1 1 1} padding='SAME'"},
      {"[1 2 3 20 1]", "ksize={1 1 1 8 1} strides={1 1 1 2 1} padding='VALID'"},
      {"[2 1 1 1 40]", "ksize={1 2 2 2 1} strides={1 2 2 2 1} padding='SAME'"},
      {"[1 3 3 3 2]", "ksize={1 1 1 1 1} strides={1 2 2 2 1} padding='SAME'"},
      {"[0 4 4 4 3]", "ksize={1 2 2 2 1} strides={1 2 2 2 1} padding='SAME'"},
      {"[2 4 4 4 0]", "ksize={1 2 2 2 1} strides={1 2 2 2 1} padding='SAME'"},
  };
  static const char *const types[] = {"float", "half", "bfloat16"};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
      for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++)
        compare(&cases[i], true, kinds[k], types[t]);
}

/* Nine pixels do not fit into a byte of marks. */
static void leaves_large_cubes(void **state) {
  dp_graph *graph = make_graph(
      ARGS "p = MaxPool3D(x) T=float ksize={1 1 3 3 1} strides={1 1 1 1 1} padding='SAME'\n"
           "d = MaxPool3DGrad(x, p, g) T=float TInput=float ksize={1 1 3 3 1} strides={1 1 1 1 1}"
           " padding='SAME'\n" RESULT);
  pair(graph);
  assert_int_equal(count_nodes(graph, "MaxPool3D"), 1);
  assert_int_equal(count_nodes(graph, "MaxPool3DGrad"), 1);
  dp_graph_destroy(graph);
}

static void refuses_marks_of_large_cubes(void **state) {
  dp_graph *graph = make_graph("n = Const() dtype=int32 value=[1 4 4 4 2]\n"
                               "v = Const() dtype=float value=1.0\n"
                               "x = Fill(n, v) T=float\n"
                               "d = _MaxPool3DWithMarks(x) T=float padding='SAME'"
                               " ksize={1 1 3 3 1} strides={1 1 1 1 1}\n" RESULT);
  dp_tensor result = {0};
  assert_error(run_graph(graph, &result, 1), DP_INVALID_ARGUMENT, "at most 8 pixels");
}

/* What only a graph that was made up can hold. */
static void refuses_places_of_other_shapes(void **state) {
  dp_graph *graph =
      make_graph("n = Const() dtype=int32 value=[1 4 4 2]\n"
                 "m = Const() dtype=int32 value=[1 2 2 2]\n"
                 "v = Const() dtype=float value=1.0\n"
                 "b = Const() dtype=uint8 value=[]\n"
                 "x = Fill(n, v) T=float\n"
                 "g = Fill(m, v) T=float\n"
                 "d = _MaxPoolGradFromPlaces(x, g, g, b) T=float " WINDOW "\n" RESULT);
  dp_tensor result = {0};
  assert_error(run_graph(graph, &result, 1), DP_INVALID_ARGUMENT,
               "Expected places shape to be [1,2,2,2], but got [0]");
  graph = make_graph("n = Const() dtype=int32 value=[1 4 4 2]\n"
                     "v = Const() dtype=float value=1.0\n"
                     "x = Fill(n, v) T=float\n"
                     "d = _MaxPoolWithPlaces(x) T=float padding='SAME' ksize={1 17 16 1}"
                     " strides={1 1 1 1}\n" RESULT);
  assert_error(run_graph(graph, &result, 1), DP_INVALID_ARGUMENT, "at most 256 pixels");
}

static void errors_are_those_of_the_ops(void **state) {
  for (int is_paired = 0; is_paired < 2; is_paired++) {
    dp_graph *graph = make_graph("n = Const() dtype=int32 value=[1 4 4 2]\n"
                                 "v = Const() dtype=float value=1.0\n"
                                 "x = Fill(n, v) T=float\n" POOL
                                 "d = MaxPoolGrad(x, p, x) T=float " WINDOW "\n" RESULT);
    if (is_paired)
      pair(graph);
    dp_tensor result = {0};
    assert_error(run_graph(graph, &result, 1), DP_INVALID_ARGUMENT,
                 "Expected grad shape to be [1,2,2,2], but got [1,4,4,2]\n\t [[{{node d}}]]");
  }
}

int main(void) {
  dp_kernels_register();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pairs_what_belongs_together),
      cmocka_unit_test(pairs_windows_that_are_constants),
      cmocka_unit_test(leaves_other_inputs),
      cmocka_unit_test(leaves_other_windows),
      cmocka_unit_test(leaves_other_types_and_devices),
      cmocka_unit_test(all_windows_compute_the_same),
      cmocka_unit_test(all_cubes_compute_the_same),
      cmocka_unit_test(leaves_large_cubes),
      cmocka_unit_test(refuses_marks_of_large_cubes),
      cmocka_unit_test(refuses_places_of_other_shapes),
      cmocka_unit_test(errors_are_those_of_the_ops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
