/* Steps by id, many at once: each RecvTensor finds the rendezvous of its own step, whatever stripe
 * it is in; a clean-up ends the waits of its step alone; nothing is left over. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "base/memory.h"
#include "kernels/kernels.h"
#include "worker/worker.h"

#define TASK "/job:local/replica:0/task:0"
#define DEVICE TASK "/device:CPU:0"

enum { STEPS = 200, THREADS = 4, ROUNDS = 200 };

typedef struct fixture {
  dp_pool *compute, *blocking;
  dp_device *device;
  dp_worker *worker;
} fixture;

static int start_task(void **state) {
  dp_kernels_register();
  fixture *task = DP_NEW(fixture);
  task->compute = dp_pool_create("compute", 2);
  task->blocking = dp_pool_create("blocking", 1);
  task->device = dp_device_create(DEVICE, "CPU", task->compute, task->blocking);
  dp_worker_options options = {.task = TASK,
                               .devices = &task->device,
                               .device_count = 1,
                               .compute = task->compute,
                               .blocking = task->blocking};
  task->worker = dp_worker_create(&options);
  *state = task;
  return 0;
}

static int stop_task(void **state) {
  fixture *task = *state;
  dp_worker_destroy(task->worker);
  dp_device_release(task->device);
  dp_pool_destroy(task->compute);
  dp_pool_destroy(task->blocking);
  dp_free(task);
  return 0;
}

typedef struct answer {
  atomic_int count;
  dp_code code;
} answer;

static void received(void *arg, dp_status *status, dp_recv_tensor_response *response) {
  answer *one = arg;
  one->code = dp_status_code(status);
  dp_status_release(status);
  atomic_fetch_add(&one->count, 1);
}

static void ask(fixture *task, int64_t step, uint64_t incarnation, answer *one) {
  char key[256];
  snprintf(key, sizeof(key), DEVICE ";%016llx;" DEVICE ";edge_1_x;0:0",
           (unsigned long long)incarnation);
  dp_recv_tensor_request request = {.step_id = step, .rendezvous_key = key};
  dp_worker_receive_tensor(task->worker, &request, NULL, received, one);
}

static void ignore(void *arg, dp_status *status, const void *response) {
  assert_null(status);
}

static void clean_up(fixture *task, int64_t step) {
  Tensorflow__CleanupGraphRequest request = TENSORFLOW__CLEANUP_GRAPH_REQUEST__INIT;
  request.step_id = step;
  dp_worker_call(task->worker, DP_WORKER_CLEANUP_GRAPH, &request, NULL, ignore, NULL);
}

static size_t live_steps(fixture *task) {
  dp_worker_counts counts;
  dp_worker_get_counts(task->worker, &counts);
  return counts.steps;
}

static void a_clean_up_ends_its_own_step_alone(void **state) {
  fixture *task = *state;
  answer *answers = DP_NEW_ARRAY(answer, STEPS);
  for (int i = 0; i < STEPS; i++)
    ask(task, i * 7919, task->device->incarnation, &answers[i]);
  assert_int_equal(live_steps(task), STEPS);
  dp_text text = {0};
  dp_worker_describe(task->worker, &text);
  int lines = 0;
  for (const char *at = dp_text_string(&text); (at = strstr(at, "edge_1_x")); at++)
    lines++;
  assert_int_equal(lines, STEPS);
  dp_text_deinit(&text);
  for (int i = 0; i < STEPS; i++) {
    clean_up(task, i * 7919);
    assert_int_equal(answers[i].count, 1);
    assert_int_equal(answers[i].code, DP_ABORTED);
    if (i + 1 < STEPS)
      assert_int_equal(answers[i + 1].count, 0);
  }
  assert_int_equal(live_steps(task), 0);
  dp_free(answers);
}

static void an_old_incarnation_is_refused(void **state) {
  fixture *task = *state;
  answer one = {0};
  ask(task, 1, task->device->incarnation + 1, &one);
  assert_int_equal(one.count, 1);
  assert_int_equal(one.code, DP_ABORTED);
  assert_int_equal(live_steps(task), 0);
}

typedef struct crowd {
  fixture *task;
  int64_t first;
} crowd;

static void *come_and_go(void *arg) {
  crowd *one = arg;
  for (int round = 0; round < ROUNDS; round++) {
    answer answers[2] = {0};
    int64_t own = one->first + round, common = round; /* all threads meet at the common one */
    ask(one->task, own, one->task->device->incarnation, &answers[0]);
    ask(one->task, common, one->task->device->incarnation, &answers[1]);
    clean_up(one->task, own);
    clean_up(one->task, common);
    while (atomic_load(&answers[1].count) == 0) /* another thread's clean-up may be answering it */
      ;
    assert_int_equal(answers[0].count, 1);
  }
  return NULL;
}

static void many_threads_come_and_go(void **state) {
  crowd crowds[THREADS];
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    crowds[i] = (crowd){*state, (i + 1) * INT64_C(1000000007)};
    pthread_create(&threads[i], NULL, come_and_go, &crowds[i]);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(live_steps(*state), 0);
}

static void the_end_of_the_worker_answers_everybody(void **state) {
  start_task(state);
  answer answers[STEPS] = {0};
  for (int i = 0; i < STEPS; i++)
    ask(*state, i, ((fixture *)*state)->device->incarnation, &answers[i]);
  stop_task(state);
  for (int i = 0; i < STEPS; i++)
    assert_int_equal(answers[i].count, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_clean_up_ends_its_own_step_alone, start_task, stop_task),
      cmocka_unit_test_setup_teardown(an_old_incarnation_is_refused, start_task, stop_task),
      cmocka_unit_test_setup_teardown(many_threads_come_and_go, start_task, stop_task),
      cmocka_unit_test(the_end_of_the_worker_answers_everybody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
