/* Random graphs against a reference: nodes of all kinds (cheap, expensive, asynchronous, blocking),
 * random control edges, conditionals and loops, run several at a time; every node's value is
 * computed here as well, and all of them are added up at the end. Seeds are fixed, so a failure
 * repeats. */
#include "executor_test.h"

enum { NODES = 120, GRAPHS = 30, RUNS = 8 };

typedef struct builder {
  dp_graph *graph;
  uint64_t random;
  int count;
  dp_node *nodes[NODES + 8];
  int32_t slots[NODES + 8];   /* which output */
  uint32_t values[NODES + 8]; /* for argument 0 = the builder's seed value */
  int names;
} builder;

static uint32_t draw(builder *builder, uint32_t below) {
  builder->random = builder->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(builder->random >> 33) % below;
}
static const char *name(builder *builder) {
  static char text[32];
  snprintf(text, sizeof(text), "n%d", builder->names++);
  return text;
}
static dp_input source(const builder *builder, int index) {
  return out(builder->nodes[index], builder->slots[index]);
}
static void keep(builder *builder, dp_node *node, int32_t slot, uint32_t value) {
  builder->nodes[builder->count] = node;
  builder->slots[builder->count] = slot;
  builder->values[builder->count++] = value;
}

static dp_node *constant(builder *builder, int32_t value, int control) {
  dp_tensor tensor;
  assert_ok(dp_tensor_scalar_int32(value, &tensor));
  dp_attr attrs[] = {type_attr("dtype", DP_INT32),
                     {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = &tensor}};
  dp_node *node = add_node(builder->graph, name(builder), dp_op_find("Const"), 0, NULL, 2, attrs);
  dp_tensor_deinit(&tensor);
  if (control >= 0)
    dp_node_add_control(builder->graph, node, control);
  return node;
}

/* a < b ? a + 1 : a, with b a node or a constant. */
static void add_branch(builder *builder, int a, int b) {
  dp_graph *graph = builder->graph;
  dp_node *less = binary(graph, name(builder), &op_less, source(builder, a), source(builder, b));
  dp_node *choice = switch_node(graph, name(builder), source(builder, a), out(less, 0));
  static const dp_op *const bodies[] = {&op_increment, &op_pool, &op_slow, &op_now};
  dp_node *yes = unary(graph, name(builder), bodies[draw(builder, 4)], out(choice, 1));
  dp_node *merge =
      typed(graph, name(builder), "Merge", DP_INT32, 2, (dp_input[]){out(choice, 0), out(yes, 0)});
  bool is_less = (int32_t)builder->values[a] < (int32_t)builder->values[b];
  keep(builder, merge, 0, builder->values[a] + is_less);
}

/* x = a; for (i = 0; i < limit; i++) x = x + 1; the body may end elsewhere. */
static void add_loop(builder *builder, int a) {
  dp_graph *graph = builder->graph;
  char frame[32];
  snprintf(frame, sizeof(frame), "frame%d", builder->names);
  int32_t limit = (int32_t)draw(builder, 6);
  int parallel = 1 + (int)draw(builder, 4);
  dp_node *zero = constant(builder, 0, -1), *last = constant(builder, limit, -1);
  dp_node *enters[3] = {
      enter_node(graph, name(builder), frame, parallel, false, out(zero, 0)),
      enter_node(graph, name(builder), frame, parallel, true, out(last, 0)),
      enter_node(graph, name(builder), frame, parallel, false, source(builder, a))};
  dp_node *i = typed(graph, name(builder), "Merge", DP_INT32, 2,
                     (dp_input[]){out(enters[0], 0), out(enters[0], 0)});
  dp_node *x = typed(graph, name(builder), "Merge", DP_INT32, 2,
                     (dp_input[]){out(enters[2], 0), out(enters[2], 0)});
  dp_node *less = binary(graph, name(builder), &op_less, out(i, 0), out(enters[1], 0));
  dp_node *cond = add_node(graph, name(builder), dp_op_find("LoopCond"), 1,
                           (dp_input[]){out(less, 0)}, 0, NULL);
  dp_node *switch_i = switch_node(graph, name(builder), out(i, 0), out(cond, 0));
  dp_node *switch_x = switch_node(graph, name(builder), out(x, 0), out(cond, 0));
  static const dp_op *const bodies[] = {&op_increment, &op_pool, &op_block, &op_slow};
  dp_node *next_i = unary(graph, name(builder), &op_increment, out(switch_i, 1));
  dp_node *next_x = unary(graph, name(builder), bodies[draw(builder, 4)], out(switch_x, 1));
  dp_node *back_i = int_node(graph, name(builder), "NextIteration", out(next_i, 0));
  dp_node *back_x = int_node(graph, name(builder), "NextIteration", out(next_x, 0));
  dp_node_set_input(i, 1, out(back_i, 0));
  dp_node_set_input(x, 1, out(back_x, 0));
  dp_node *result = int_node(graph, name(builder), "Exit", out(switch_x, 0));
  keep(builder, result, 0, builder->values[a] + (uint32_t)limit);
}

static void add_plain(builder *builder, int a, int b) {
  static const dp_op *const ops[] = {&op_increment, &op_increment, &op_pool,
                                     &op_now,       &op_block,     &op_slow};
  dp_graph *graph = builder->graph;
  uint32_t kind = draw(builder, 9);
  if (kind < 6) {
    keep(builder, unary(graph, name(builder), ops[kind], source(builder, a)), 0,
         builder->values[a] + 1);
  } else if (kind < 8) {
    keep(builder, binary(graph, name(builder), &op_add, source(builder, a), source(builder, b)), 0,
         builder->values[a] + builder->values[b]);
  } else {
    dp_node *two = unary(graph, name(builder), &op_two, source(builder, a));
    keep(builder, two, 1, builder->values[a] + 1);
  }
}

static void build(builder *builder, int32_t fed) {
  builder->graph = dp_graph_create(NULL);
  keep(builder, argument_node(builder->graph, "a", 0, DP_INT32), 0, (uint32_t)fed);
  while (builder->count < NODES) {
    int a = (int)draw(builder, (uint32_t)builder->count);
    int b = (int)draw(builder, (uint32_t)builder->count);
    uint32_t kind = draw(builder, 12);
    if (kind == 0)
      add_loop(builder, a);
    else if (kind < 3)
      add_branch(builder, a, b);
    else
      add_plain(builder, a, b);
    if (draw(builder, 3) == 0 && kind >= 3)
      dp_node_add_control(builder->graph, builder->nodes[builder->count - 1],
                          builder->nodes[draw(builder, (uint32_t)builder->count - 1)]->id);
  }
}

/* Adds up all values, so that none may be lost or changed; returns the expected sum. */
static int32_t add_up(builder *builder) {
  uint32_t expected = builder->values[0];
  dp_node *sum = builder->nodes[0];
  int32_t slot = builder->slots[0];
  for (int i = 1; i < builder->count; ++i) {
    sum = binary(builder->graph, name(builder), &op_add, out(sum, slot), source(builder, i));
    slot = 0;
    expected += builder->values[i];
  }
  result_node(builder->graph, "r", 0, DP_INT32, out(sum, slot));
  return (int32_t)expected;
}

static void test_random_graphs(void **state) {
  for (int seed = 0; seed < GRAPHS; ++seed) {
    builder builder = {.random = (uint64_t)seed * 7919 + 1};
    build(&builder, seed);
    int32_t expected = add_up(&builder);
    dp_executor *executor = compile(*state, builder.graph);
    trial trials[RUNS];
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < RUNS; ++i) {
        trial_init(&trials[i], *state);
        trial_feed(&trials[i], 0, seed);
        if (round && i % 4 == 3)
          trials[i].step.pool = NULL;
        trial_start(&trials[i], executor);
      }
      for (int i = 0; i < RUNS; ++i) {
        trial_wait(&trials[i]);
        assert_ok(trials[i].status);
        assert_int_equal(trial_result(&trials[i], 0), expected);
        trial_deinit(&trials[i]);
      }
    }
    dp_executor_release(executor);
  }
}

/* The same graphs, stopped at a random moment: every run ends, once, and leaves nothing behind. */
static void test_random_graphs_stopped(void **state) {
  for (int seed = 0; seed < GRAPHS; ++seed) {
    builder builder = {.random = (uint64_t)seed * 104729 + 3};
    build(&builder, seed);
    add_up(&builder);
    dp_executor *executor = compile(*state, builder.graph);
    for (int i = 0; i < RUNS; ++i) {
      trial trial;
      trial_init(&trial, *state);
      trial_feed(&trial, 0, seed);
      trial_start(&trial, executor);
      dp_clock_sleep(draw(&builder, 400) * 1000);
      dp_cancel_trigger(trial.step.cancel, dp_status_create(DP_CANCELLED, "stop"));
      trial_wait(&trial);
      if (trial.status)
        assert_string_equal(dp_status_message(trial.status), "stop");
      trial_deinit(&trial);
    }
    dp_executor_release(executor);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_graphs),
      cmocka_unit_test(test_random_graphs_stopped),
  };
  return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
