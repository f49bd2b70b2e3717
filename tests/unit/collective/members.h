/* A cluster in one process, for the tests of this folder: each task has its collectives and boards,
 * and a peer table that calls the other tasks' functions on a pool, as if over a network. */
#ifndef DP_TEST_COLLECTIVE_MEMBERS_H
#define DP_TEST_COLLECTIVE_MEMBERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/clock.h"
#include "base/event.h"
#include "base/memory.h"
#include "base/thread.h"
#include "collective/collective.h"

#define MOST_TASKS 5
#define MOST_DEVICES 3

typedef struct test_cluster test_cluster;

typedef struct test_task {
  test_cluster *cluster;
  char name[64];
  dp_collectives *collectives;
  dp_board *board;
  atomic_bool is_dead;  /* calls to it fail */
  uint64_t incarnation; /* increases with each start */
} test_task;

struct test_cluster {
  int task_count, device_count;
  int leader;
  dp_pool *pool;
  test_task tasks[MOST_TASKS];
};

/* The outcome of one member. */
typedef struct outcome {
  dp_dtype dtype;
  dp_event done;
  dp_code code;
  char message[512];
  dp_tensor result;
} outcome;

/* ---- The peer table: its argument is the asking task ---- */

static inline test_task *find_task(test_task *from, const char *name) {
  for (int i = 0; i < from->cluster->task_count; i++) {
    if (strcmp(from->cluster->tasks[i].name, name) == 0)
      return &from->cluster->tasks[i];
  }
  fail_msg("%s is no task", name);
  return NULL;
}

static inline dp_status *check_alive(const test_task *task) {
  return task->is_dead ? dp_status_create(DP_UNAVAILABLE, "%s is dead", task->name) : NULL;
}

static inline void complete_group(void *peers, const char *leader,
                                  const Tensorflow__CompleteGroupRequest *request,
                                  dp_cancel *cancel, dp_collective_group_fn done, void *arg) {
  test_task *task = find_task(peers, leader);
  dp_status *status = check_alive(task);
  if (status)
    done(arg, status, NULL);
  else
    dp_collectives_complete_group(task->collectives, request, cancel, done, arg);
}

static inline void complete_instance(void *peers, const char *leader,
                                     const Tensorflow__CompleteInstanceRequest *request,
                                     dp_cancel *cancel, dp_collective_instance_fn done, void *arg) {
  dp_collectives_complete_instance(find_task(peers, leader)->collectives, request, cancel, done,
                                   arg);
}

typedef struct fetch {
  void *to;
  size_t bytes;
  dp_board_value_fn done;
  void *arg;
} fetch;

static inline void fetched(void *arg, dp_status *status, dp_tensor *value) {
  fetch *one = arg;
  dp_tensor copy = {0};
  if (!status && dp_tensor_bytes(value) != one->bytes)
    status = dp_status_create(DP_INTERNAL, "%zu bytes instead of %zu", dp_tensor_bytes(value),
                              one->bytes);
  if (!status && one->to)
    memcpy(one->to, value->data, one->bytes);
  else if (!status)
    status = dp_tensor_clone(value, &copy);
  one->done(one->arg, status, &copy);
  dp_tensor_deinit(&copy);
  dp_free(one);
}

static inline void receive(void *peers, const char *name, const Tensorflow__RecvBufRequest *request,
                           void *to, dp_cancel *cancel, dp_board_value_fn done, void *arg) {
  test_task *task = find_task(peers, name);
  fetch *one = DP_NEW(fetch);
  *one = (fetch){to, (size_t)request->num_bytes, done, arg};
  dp_tensor nothing = {0};
  dp_status *status = check_alive(task);
  if (!status && request->src_incarnation != task->incarnation)
    status = dp_status_create(DP_FAILED_PRECONDITION, "%s has restarted", task->name);
  if (status)
    fetched(one, status, &nothing);
  else
    dp_board_take(task->board, request->buf_rendezvous_key, cancel, fetched, one);
}

static inline void check_peer(void *peers, const char *name, const char *device,
                              uint64_t incarnation, dp_cancel *cancel, dp_board_posted_fn done,
                              void *arg) {
  done(arg, check_alive(find_task(peers, name)));
}

static const dp_collective_peer_ops peer_ops = {complete_group, complete_instance, receive,
                                                check_peer};

/* ---- The cluster ---- */

static inline test_cluster *cluster_create(int tasks, int devices, int leader) {
  test_cluster *cluster = DP_NEW(test_cluster);
  *cluster = (test_cluster){.task_count = tasks, .device_count = devices, .leader = leader};
  cluster->pool = dp_pool_create("members", 4);
  for (int i = 0; i < tasks; i++) {
    test_task *task = &cluster->tasks[i];
    task->cluster = cluster;
    snprintf(task->name, sizeof(task->name), "/job:worker/replica:0/task:%d", i);
    task->collectives = dp_collectives_create();
    task->board = dp_board_create();
    task->incarnation = 1;
  }
  return cluster;
}

/* The task forgets everything. */
static inline void cluster_restart(test_cluster *cluster, int index) {
  test_task *task = &cluster->tasks[index];
  dp_board_release(task->board);
  dp_collectives_destroy(task->collectives);
  task->collectives = dp_collectives_create();
  task->board = dp_board_create();
  task->incarnation++;
}

static inline void cluster_destroy(test_cluster *cluster) {
  dp_pool_destroy(cluster->pool);
  for (int i = 0; i < cluster->task_count; i++) {
    dp_board_release(cluster->tasks[i].board);
    dp_collectives_destroy(cluster->tasks[i].collectives);
  }
  dp_free(cluster);
}

/* Forgets the boards' contents, as the end of a step does. */
static inline void cluster_next_step(test_cluster *cluster) {
  for (int i = 0; i < cluster->task_count; i++) {
    dp_board_release(cluster->tasks[i].board);
    cluster->tasks[i].board = dp_board_create();
  }
}

static inline dp_collective_step cluster_step(test_cluster *cluster, int task) {
  test_task *own = &cluster->tasks[task];
  return (dp_collective_step){.collectives = own->collectives,
                              .board = own->board,
                              .peers = &peer_ops,
                              .peers_arg = own,
                              .task = own->name,
                              .leader = cluster->tasks[cluster->leader].name};
}

/* ---- Members ---- */

static inline void add(void *arg, void *to, const void *left, const void *right, int64_t count) {
  const outcome *one = arg;
  for (int64_t i = 0; i < count; i++) {
    if (one->dtype == DP_FLOAT)
      ((float *)to)[i] = ((const float *)left)[i] + ((const float *)right)[i];
    else if (one->dtype == DP_DOUBLE)
      ((double *)to)[i] = ((const double *)left)[i] + ((const double *)right)[i];
    else if (one->dtype == DP_INT32)
      ((int32_t *)to)[i] = ((const int32_t *)left)[i] + ((const int32_t *)right)[i];
    else if (one->dtype == DP_INT64)
      ((int64_t *)to)[i] = ((const int64_t *)left)[i] + ((const int64_t *)right)[i];
    else /* halves: adds their bits as integers, which is good enough for these tests */
      ((uint16_t *)to)[i] = (uint16_t)(((const uint16_t *)left)[i] + ((const uint16_t *)right)[i]);
  }
}

static inline void record(void *arg, dp_status *status, dp_tensor *result) {
  outcome *one = arg;
  one->code = dp_status_code(status);
  snprintf(one->message, sizeof(one->message), "%s", dp_status_message(status));
  one->result = dp_tensor_take(result);
  dp_status_release(status);
  dp_event_notify(&one->done);
}

/* A member with everything set but kind, shape and input; it merges by adding. */
static inline dp_collective_member cluster_member(test_cluster *cluster, int task, int device,
                                                  dp_dtype dtype, outcome *one) {
  static char devices[MOST_TASKS][MOST_DEVICES][80];
  snprintf(devices[task][device], sizeof(devices[task][device]), "%s/device:CPU:%d",
           cluster->tasks[task].name, device);
  one->dtype = dtype;
  one->result = (dp_tensor){0};
  dp_event_init(&one->done);
  return (dp_collective_member){.name = "node",
                                .device = devices[task][device],
                                .device_type = "CPU",
                                .incarnation = cluster->tasks[task].incarnation,
                                .step_id = 1,
                                .group_size = cluster->task_count * cluster->device_count,
                                .group_key = 1,
                                .instance_key = 1,
                                .dtype = dtype,
                                .max_subdivisions = -1,
                                .pool = cluster->pool,
                                .merge = add,
                                .done = record,
                                .arg = one};
}

static inline void outcome_wait(outcome *one) {
  assert_true(dp_event_wait_until(&one->done, dp_clock_deadline_ms(30000)));
  dp_event_deinit(&one->done);
}

#endif
