/* Executors and their runs: creation, the cache of run states, start and end.
 *
 * A run state has everything that a run needs (values, counters, runners, frames) and goes back to
 * the executor when the run is over, so that a later one allocates nothing. `active` counts who may
 * still touch the run; whoever takes it to zero ends it. */
#include "runtime/executor_internal.h"

#include <string.h>
#include "base/memory.h"

/* What an executor keeps for runs to come: at least LEAST_FREE_RUNS states. */
#define LEAST_FREE_RUNS 2
#define MOST_FREE_RUNS 16
#define MOST_FREE_BYTES ((size_t)32 << 20)

/* ---- Run states ---- */
static dp_run *create_run(dp_executor *executor) {
  dp_run *run = DP_NEW(dp_run);
  run->executor = executor;
  run->root = dp_iteration_create(&executor->frames[0]);
  run->free_frames = DP_NEW_ARRAY(dp_loop_frame *, (size_t)executor->frame_count);
  run->free_iterations = DP_NEW_ARRAY(dp_iteration *, (size_t)executor->frame_count);
  pthread_mutex_init(&run->frame_mutex, NULL);
  pthread_mutex_init(&run->mutex, NULL);
  return run;
}

static void destroy_run(dp_run *run) {
  for (int32_t i = 0; i < run->executor->frame_count; ++i) {
    for (dp_loop_frame *frame; (frame = run->free_frames[i]);) {
      run->free_frames[i] = frame->next;
      dp_loop_frame_destroy(frame);
    }
    for (dp_iteration *iteration; (iteration = run->free_iterations[i]);) {
      run->free_iterations[i] = iteration->next_free;
      dp_iteration_destroy(iteration);
    }
  }
  for (dp_runner *runner; (runner = run->all_runners);) {
    run->all_runners = runner->next_all;
    dp_executor_runner_destroy(runner);
  }
  for (dp_detached *body; (body = run->free_detached);) {
    run->free_detached = body->next;
    dp_free(body);
  }
  dp_iteration_destroy(run->root);
  dp_free(run->surplus.items);
  dp_free(run->free_frames);
  dp_free(run->free_iterations);
  pthread_mutex_destroy(&run->frame_mutex);
  pthread_mutex_destroy(&run->mutex);
  dp_free(run);
}

static dp_run *take_run(dp_executor *executor, dp_step *step) {
  pthread_mutex_lock(&executor->mutex);
  dp_run *run = executor->free_runs;
  if (run) {
    executor->free_runs = run->next;
    executor->free_run_count--;
  } else {
    run = create_run(executor);
  }
  run->step = step;
  run->previous = NULL;
  run->next = executor->active_runs;
  if (run->next)
    run->next->previous = run;
  executor->active_runs = run;
  pthread_mutex_unlock(&executor->mutex);
  return run;
}

static void give_back(dp_executor *executor, dp_run *run) {
  pthread_mutex_lock(&executor->mutex);
  if (run->previous)
    run->previous->next = run->next;
  else
    executor->active_runs = run->next;
  if (run->next)
    run->next->previous = run->previous;
  bool keep = executor->free_run_count < executor->most_free_runs;
  if (keep) {
    run->next = executor->free_runs;
    executor->free_runs = run;
    executor->free_run_count++;
  }
  pthread_mutex_unlock(&executor->mutex);
  if (!keep)
    destroy_run(run);
}

/* ---- Executors ---- */
static void destroy_executor(dp_executor *executor) {
  for (dp_run *run; (run = executor->free_runs);) {
    executor->free_runs = run->next;
    destroy_run(run);
  }
  for (int32_t i = 0; i < executor->item_count; ++i) {
    dp_kernel_instance_release(executor->items[i].instance);
    dp_free(executor->items[i].label);
  }
  for (int32_t i = 0; i < executor->frame_count; ++i)
    dp_free(executor->frames[i].counters);
  dp_free(executor->frames);
  dp_free(executor->items);
  dp_free(executor->edges);
  dp_free(executor->roots);
  pthread_mutex_destroy(&executor->mutex);
  dp_graph_destroy(executor->graph);
  dp_device_release(executor->device);
  dp_free(executor);
}

static int count_free_runs(const dp_executor *executor) {
  size_t bytes = 4096 + sizeof(dp_value) * (size_t)executor->frames[0].value_count;
  size_t fitting = MOST_FREE_BYTES / bytes;
  return fitting < LEAST_FREE_RUNS  ? LEAST_FREE_RUNS
         : fitting > MOST_FREE_RUNS ? MOST_FREE_RUNS
                                    : (int)fitting;
}

dp_status *dp_executor_create(dp_graph *graph, const dp_executor_options *options,
                              dp_executor **executor_out) {
  dp_executor *executor = DP_NEW(dp_executor);
  dp_refcount_init(&executor->references);
  executor->graph = graph;
  executor->device = dp_device_retain(options->device);
  pthread_mutex_init(&executor->mutex, NULL);
  dp_status *status = dp_executor_compile(executor, options);
  if (status) {
    destroy_executor(executor);
    return status;
  }
  executor->most_free_runs = count_free_runs(executor);
  *executor_out = executor;
  return NULL;
}

dp_executor *dp_executor_retain(dp_executor *executor) {
  dp_refcount_retain(&executor->references);
  return executor;
}

void dp_executor_release(dp_executor *executor) {
  if (executor && dp_refcount_release(&executor->references))
    destroy_executor(executor);
}

const dp_graph *dp_executor_graph(const dp_executor *executor) {
  return executor->graph;
}

/* ---- Start and end ---- */
void dp_executor_run(dp_executor *executor, dp_step *step, dp_executor_done_fn done, void *arg) {
  dp_run *run = take_run(dp_executor_retain(executor), step);
  run->done = done;
  run->arg = arg;
  run->shared = false;
  atomic_store_explicit(&run->stopped, false, memory_order_relaxed);
  atomic_store_explicit(&run->active, 1, memory_order_relaxed);
  dp_iteration_start(run->root, &executor->frames[0]);
  dp_runner *runner = dp_executor_runner_take(run);
  for (int32_t i = 0; i < executor->root_count; ++i)
    dp_executor_runner_add(runner, &executor->items[executor->roots[i]], run->root, false);
  dp_executor_runner_enter(runner);
}

/* What a stopped run did not run. */
static void drop_ready(dp_run *run) {
  for (dp_runner *runner = run->all_runners; runner; runner = runner->next_all)
    runner->cheap.count = runner->expensive.count = runner->patience = 0;
  run->surplus.count = 0;
  atomic_store_explicit(&run->surplus_count, 0, memory_order_relaxed);
}

/* The cancel scope is the step's. The first failure of any partition leaves its reason there;
 * failures that follow from it report the same reason, or one that only adds to it. */
static dp_status *take_status(dp_run *run) {
  dp_status *status = run->status;
  run->status = NULL;
  dp_status *reason = status && run->step->cancel ? dp_cancel_status(run->step->cancel) : NULL;
  if (!reason)
    return status;
  const char *text = dp_status_message(reason);
  bool adds = dp_status_code(reason) == dp_status_code(status) &&
              strncmp(dp_status_message(status), text, strlen(text)) == 0;
  dp_status_release(adds ? reason : status);
  return adds ? status : reason;
}

void dp_run_end(dp_run *run) {
  dp_executor *executor = run->executor;
  dp_status *status = take_status(run);
  /* Outside of loops every node of a successful run has taken its inputs. */
  if (status || executor->frame_count > 1)
    dp_run_clean(run);
  if (status)
    drop_ready(run);
  dp_executor_done_fn done = run->done;
  void *arg = run->arg;
  give_back(executor, run);
  dp_executor_release(executor);
  done(arg, status);
}
