/* Failures: members that never come, die, give up or want something else. No member waits for ever,
 * and the error names the missing ones. Also tests of the board and of the step ids. */
#include "members.h"

static dp_tensor make_floats(int64_t count) {
  dp_shape shape = dp_shape_vector(count);
  dp_tensor tensor;
  assert_null(dp_tensor_create_zero(DP_FLOAT, &shape, &tensor));
  return tensor;
}

typedef struct comer {
  int task;
  int64_t count;
  double timeout;
  dp_cancel *cancel;
  dp_collective_kind kind;
  bool is_source;
  int32_t group_size; /* 0: the cluster's */
} comer;

static void come(test_cluster *cluster, const comer *who, outcome *one) {
  dp_collective_member member = cluster_member(cluster, who->task, 0, DP_FLOAT, one);
  member.kind = who->kind;
  member.is_source = who->is_source;
  member.shape = dp_shape_vector(who->count);
  member.timeout_seconds = who->timeout;
  member.cancel = who->cancel;
  if (who->group_size > 0)
    member.group_size = who->group_size;
  if (who->kind != DP_COLLECTIVE_BROADCAST || who->is_source)
    member.input = make_floats(who->count);
  dp_collective_step step = cluster_step(cluster, who->task);
  dp_collective_join(&step, &member);
}

static void expect(outcome *one, dp_code code, const char *words) {
  outcome_wait(one);
  if (!strstr(one->message, words))
    fail_msg("\"%s\" has no \"%s\"", one->message, words);
  assert_int_equal(one->code, code);
  dp_tensor_deinit(&one->result);
}

/* All members of the cluster run a collective, which must succeed. */
static void meet(test_cluster *cluster) {
  outcome members[MOST_TASKS];
  for (int i = 0; i < cluster->task_count; i++)
    come(cluster, &(comer){.task = i, .count = 10}, &members[i]);
  for (int i = 0; i < cluster->task_count; i++)
    expect(&members[i], DP_OK, "");
  cluster_next_step(cluster);
}

/* ---- Before the group is complete ---- */

static void test_a_member_that_never_comes(void **unused) {
  test_cluster *cluster = cluster_create(3, 1, 0);
  outcome members[2];
  for (int i = 0; i < 2; i++)
    come(cluster, &(comer){.task = i, .count = 10, .timeout = .1}, &members[i]);
  expect(&members[0], DP_DEADLINE_EXCEEDED, "members of group 1 are here: /job:worker");
  expect(&members[1], DP_DEADLINE_EXCEEDED, "timed out waiting for other workers");
  cluster_next_step(cluster);
  meet(cluster);
  cluster_destroy(cluster);
}

static void test_a_member_that_leaves(void **unused) {
  test_cluster *cluster = cluster_create(2, 1, 0);
  outcome one;
  for (int task = 0; task < 2; task++) {
    dp_cancel *cancel = dp_cancel_create(NULL, DP_FOREVER);
    come(cluster, &(comer){.task = task, .count = 10, .cancel = cancel}, &one);
    dp_cancel_trigger(cancel, dp_status_create(DP_ABORTED, "enough"));
    expect(&one, DP_ABORTED, "enough");
    come(cluster, &(comer){.task = task, .count = 10, .cancel = cancel}, &one);
    expect(&one, DP_ABORTED, "enough");
    dp_cancel_release(cancel);
  }
  meet(cluster);
  cluster_destroy(cluster);
}

static void test_groups_that_do_not_fit(void **unused) {
  test_cluster *cluster = cluster_create(2, 1, 0);
  outcome first, other;
  come(cluster, &(comer){.task = 0, .count = 10}, &first);
  come(cluster, &(comer){.task = 1, .count = 10, .group_size = 3}, &other);
  expect(&other, DP_INTERNAL, "is joining a group with size3, but that group has size 2");
  expect(&first, DP_INTERNAL, "is joining a group with size3");
  cluster_next_step(cluster);
  meet(cluster);
  cluster_destroy(cluster);
}

static void test_the_leader_is_dead(void **unused) {
  test_cluster *cluster = cluster_create(2, 1, 0);
  outcome one;
  cluster->tasks[0].is_dead = true;
  come(cluster, &(comer){.task = 1, .count = 10}, &one);
  expect(&one, DP_UNAVAILABLE, "task:0 is dead");
  cluster_destroy(cluster);
}

/* ---- After it ---- */

static void test_a_member_dies(void **unused) {
  test_cluster *cluster = cluster_create(3, 1, 0);
  meet(cluster);
  cluster->tasks[1].is_dead = true;
  outcome members[3];
  come(cluster, &(comer){.task = 0, .count = 100}, &members[0]);
  come(cluster, &(comer){.task = 2, .count = 100}, &members[2]);
  expect(&members[2], DP_UNAVAILABLE, "task:1 is dead");
  expect(&members[0], DP_UNAVAILABLE, "aborted by");
  cluster->tasks[1].is_dead = false;
  cluster_next_step(cluster);
  meet(cluster); /* the group is made anew */
  cluster_destroy(cluster);
}

static void ignore_source(void *arg, dp_status *status, int32_t source_rank) {
  assert_null(status);
}

/* A member reports its instance to the leader, and dies before it takes its chunk. */
static void come_and_die(test_cluster *cluster, int task) {
  outcome unused;
  dp_collective_member member = cluster_member(cluster, task, 0, DP_FLOAT, &unused);
  Tensorflow__TensorShapeProto__Dim dim = TENSORFLOW__TENSOR_SHAPE_PROTO__DIM__INIT, *dims = &dim;
  Tensorflow__TensorShapeProto shape = TENSORFLOW__TENSOR_SHAPE_PROTO__INIT;
  Tensorflow__CompleteInstanceRequest request = TENSORFLOW__COMPLETE_INSTANCE_REQUEST__INIT;
  dim.size = 5;
  shape.n_dim = 1;
  shape.dim = &dims;
  request.type = DP_COLLECTIVE_BROADCAST;
  request.data_type = (Tensorflow__DataType)DP_FLOAT;
  request.shape = &shape;
  request.group_key = request.instance_key = 1;
  request.device = (char *)member.device;
  request.running_step_id = 1;
  dp_collectives_complete_instance(cluster->tasks[cluster->leader].collectives, &request, NULL,
                                   ignore_source, NULL);
  cluster->tasks[task].is_dead = true;
  dp_event_deinit(&unused.done);
}

static void test_a_taker_dies(void **unused) {
  test_cluster *cluster = cluster_create(2, 1, 0);
  meet(cluster);
  outcome one;
  come(cluster, &(comer){.task = 0, .count = 5, .kind = DP_COLLECTIVE_BROADCAST, .is_source = true},
       &one);
  come_and_die(cluster, 1);
  expect(&one, DP_UNAVAILABLE, "task:1 is dead");
  cluster_destroy(cluster);
}

static void test_a_member_is_late(void **unused) {
  test_cluster *cluster = cluster_create(2, 1, 1);
  meet(cluster);
  outcome one;
  come(cluster, &(comer){.task = 0, .count = 100, .timeout = .1}, &one);
  expect(&one, DP_DEADLINE_EXCEEDED,
         "timed out during execution. Missing chunks of node, instance 1 of group 1: 2 from "
         "/job:worker/replica:0/task:1/device:CPU:0 1 not taken by");
  cluster_next_step(cluster);
  meet(cluster);
  cluster_destroy(cluster);
}

static void test_other_shapes_and_kinds(void **unused) {
  outcome first, other;
  for (int leader = 0; leader < 2; leader++) {
    test_cluster *cluster = cluster_create(2, 1, leader);
    meet(cluster);
    come(cluster, &(comer){.task = 0, .count = 100}, &first);
    come(cluster, &(comer){.task = 1, .count = 200}, &other);
    expect(&other, DP_INVALID_ARGUMENT, "Shape mismatch in the collective instance 1");
    expect(&first, DP_INVALID_ARGUMENT, "Collective ops is aborted by");
    cluster_next_step(cluster);
    come(cluster, &(comer){.task = 0, .count = 10, .kind = DP_COLLECTIVE_GATHER}, &first);
    come(cluster, &(comer){.task = 1, .count = 10}, &other);
    expect(&other, DP_INTERNAL, "expected type 2 and data_type 1 but got type 0");
    expect(&first, DP_INTERNAL, "aborted by");
    cluster_next_step(cluster);
    meet(cluster);
    cluster_destroy(cluster);
  }
}

/* A restarted task has another incarnation and knows nothing of the group. The others must notice
 * that, fail once, and then form the group again. */
static void test_a_member_restarts(void **unused) {
  test_cluster *cluster = cluster_create(3, 1, 0);
  meet(cluster);
  cluster_restart(cluster, 2);
  outcome members[3];
  come(cluster, &(comer){.task = 2, .count = 10}, &members[2]);
  come(cluster, &(comer){.task = 0, .count = 10}, &members[0]);
  come(cluster, &(comer){.task = 1, .count = 10}, &members[1]);
  expect(&members[0], DP_ABORTED,
         "because /job:worker/replica:0/task:2/device:CPU:0 has restarted");
  expect(&members[1], DP_ABORTED, "has restarted");
  dp_board_release(cluster->tasks[0].board);
  dp_board_release(cluster->tasks[1].board);
  cluster->tasks[0].board = dp_board_create();
  cluster->tasks[1].board = dp_board_create();
  for (int i = 0; i < 2; i++)
    come(cluster, &(comer){.task = i, .count = 10}, &members[i]);
  for (int i = 0; i < 3; i++)
    expect(&members[i], DP_OK, "");
  cluster_destroy(cluster);
}

static void test_sources_of_a_broadcast(void **unused) {
  test_cluster *cluster = cluster_create(2, 1, 0);
  outcome members[2];
  for (int round = 0; round <= 2; round++) {
    int sources = round == 2 ? 1 : 2 * round;
    for (int i = 0; i < 2; i++)
      come(cluster,
           &(comer){
               .task = i, .count = 5, .kind = DP_COLLECTIVE_BROADCAST, .is_source = i < sources},
           &members[i]);
    static const char *const words[] = {"found no source for broadcast", "",
                                        "received second claim from"};
    for (int i = 0; i < 2; i++)
      expect(&members[i], sources == 1 ? DP_OK : DP_INTERNAL, words[sources]);
    cluster_next_step(cluster);
  }
  come(cluster, &(comer){.task = 1, .count = 5, .kind = DP_COLLECTIVE_BROADCAST, .timeout = .1},
       &members[1]);
  expect(&members[1], DP_DEADLINE_EXCEEDED,
         "not at instance 1 of group 1: /job:worker/replica:0/task:0/device:CPU:0");
  cluster_destroy(cluster);
}

static void test_no_other_tasks(void **unused) {
  test_cluster *cluster = cluster_create(1, 1, 0);
  outcome one;
  dp_collective_member member = cluster_member(cluster, 0, 0, DP_FLOAT, &one);
  dp_collective_step step = cluster_step(cluster, 0);
  step.peers = NULL;
  step.most_members = 2;
  member.group_size = 3;
  dp_collective_join(&step, &member);
  expect(&one, DP_INVALID_ARGUMENT, "has 2 devices and there are no other tasks");
  member = cluster_member(cluster, 0, 0, DP_FLOAT, &one);
  member.group_size = 0;
  dp_collective_join(&step, &member);
  expect(&one, DP_INVALID_ARGUMENT, "group_size must be positive integer but got 0");
  cluster_destroy(cluster);
}

static void copy_line(void *arg, int64_t step_id, int64_t age_nanos, const char *line) {
  snprintf(arg, 300, "%s", line);
}

static void test_what_people_see(void **unused) {
  test_cluster *cluster = cluster_create(2, 1, 0);
  outcome one;
  dp_cancel *cancel = dp_cancel_create(NULL, DP_FOREVER);
  come(cluster, &(comer){.task = 0, .count = 10, .cancel = cancel}, &one);
  char seen[300] = "";
  dp_collectives_visit(cluster->tasks[0].collectives, copy_line, seen);
  assert_non_null(strstr(seen, "instance 1 of group 1: 1 of 2 members of group 1 are here: "
                               "/job:worker/replica:0/task:0/device:CPU:0"));
  dp_cancel_trigger(cancel, dp_status_create(DP_CANCELLED, "enough"));
  expect(&one, DP_CANCELLED, "enough");
  *seen = '\0';
  dp_collectives_visit(cluster->tasks[0].collectives, copy_line, seen);
  assert_string_equal(seen, "");
  dp_cancel_release(cancel);
  cluster_destroy(cluster);
}

/* ---- The board ---- */

typedef struct half {
  int calls;
  dp_code code;
} half;

static void posted(void *arg, dp_status *status) {
  half *one = arg;
  one->calls++;
  one->code = dp_status_code(status);
  dp_status_release(status);
}

static void taken(void *arg, dp_status *status, dp_tensor *value) {
  posted(arg, status);
}

static void post(dp_board *board, const char *key, dp_cancel *cancel, half *one) {
  dp_tensor value = make_floats(1);
  dp_board_post(board, key, &value, cancel, posted, one);
}

static void test_board(void **unused) {
  dp_board *board = dp_board_create();
  half halves[8] = {0};
  post(board, "a", NULL, &halves[0]);
  assert_int_equal(halves[0].calls, 0);
  post(board, "a", NULL, &halves[1]);
  assert_int_equal(halves[1].code, DP_INTERNAL);
  dp_board_take(board, "a", NULL, taken, &halves[2]);
  assert_int_equal(halves[0].calls + halves[2].calls, 2);
  assert_int_equal(halves[2].code, DP_OK);
  dp_board_take(board, "b", NULL, taken, &halves[3]);
  dp_cancel *cancel = dp_cancel_create(NULL, DP_FOREVER);
  post(board, "c", cancel, &halves[4]);
  dp_cancel_trigger(cancel, dp_status_create(DP_CANCELLED, "enough"));
  assert_int_equal(halves[4].code, DP_CANCELLED);
  post(board, "c", cancel, &halves[5]);
  assert_int_equal(halves[5].code, DP_CANCELLED);
  dp_cancel_release(cancel);
  dp_board_abort(board, dp_status_create(DP_ABORTED, "over"));
  dp_board_take(board, "d", NULL, taken, &halves[6]);
  assert_int_equal(halves[3].code, DP_ABORTED);
  assert_int_equal(halves[6].code, DP_ABORTED);
  for (int i = 0; i < 7; i++)
    assert_int_equal(halves[i].calls, 1);
  dp_board_release(board);
}

/* ---- Step ids ---- */

static void test_step_ids(void **unused) {
  dp_collectives *leader = dp_collectives_create(), *other = dp_collectives_create();
  int64_t id, next = dp_collectives_next_step(leader, 5);
  assert_int_equal(dp_collectives_next_step(leader, 5), next);
  assert_false(dp_collectives_begin_step(other, 5, &id));
  dp_collectives_set_step(other, 5, next);
  for (int i = 0; i < 3; i++) {
    assert_true(dp_collectives_begin_step(leader, 5, &id));
    assert_int_equal(id, next + i);
    assert_true(dp_collectives_begin_step(other, 5, &id));
    assert_int_equal(id, next + i);
    dp_collectives_end_step(leader, 5, true);
    assert_int_equal(dp_collectives_next_step(leader, 5), next + i + 1);
    dp_collectives_end_step(other, 5, i < 2);
  }
  assert_false(dp_collectives_begin_step(other, 5, &id)); /* it failed: the counts may differ */
  assert_true(dp_collectives_begin_step(leader, 5, &id));
  assert_true(dp_collectives_begin_step(leader, 5, &id)); /* two at once */
  assert_int_equal(id, next + 4);
  dp_collectives_destroy(leader);
  dp_collectives_destroy(other);
}

static void expect_leader(const char *wanted, const char *const *tasks, size_t count,
                          const char *leader) {
  char *found = dp_collective_leader(wanted, tasks, count);
  assert_string_equal(found, leader);
  dp_free(found);
}

static void test_leader(void **unused) {
  static const char *const tasks[] = {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0",
                                      "/job:chief/replica:0/task:0"};
  expect_leader(NULL, tasks, 3, tasks[2]);
  expect_leader("", tasks, 2, tasks[1]);
  expect_leader("", tasks, 1, tasks[0]);
  expect_leader("", tasks, 0, "");
  expect_leader("/job:ps/task:0", tasks, 3, tasks[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_member_that_never_comes),
      cmocka_unit_test(test_a_member_that_leaves),
      cmocka_unit_test(test_groups_that_do_not_fit),
      cmocka_unit_test(test_the_leader_is_dead),
      cmocka_unit_test(test_a_member_dies),
      cmocka_unit_test(test_a_taker_dies),
      cmocka_unit_test(test_a_member_is_late),
      cmocka_unit_test(test_a_member_restarts),
      cmocka_unit_test(test_other_shapes_and_kinds),
      cmocka_unit_test(test_sources_of_a_broadcast),
      cmocka_unit_test(test_no_other_tasks),
      cmocka_unit_test(test_what_people_see),
      cmocka_unit_test(test_board),
      cmocka_unit_test(test_step_ids),
      cmocka_unit_test(test_leader),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
