/* Bodies that end later: asynchronous kernels, which call dp_op_done from wherever they end, and
 * blocking ones, which run on the device's blocking pool.
 *
 * Such a body has a dp_detached of its own instead of its runner's context; its inputs stay in
 * their slots, because its node counts as outstanding. Launch and end may race: whichever comes
 * second finishes the node. A body that ends before its launch has returned is finished by the
 * runner that launched it, without another stack frame. Statistics and listings see it from launch
 * to end. */
#include "runtime/executor_internal.h"

#include "base/clock.h"
#include "base/memory.h"

enum { LAUNCHING, LAUNCHED, ENDED };

static dp_detached *take_detached(dp_run *run, dp_item *item) {
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&run->mutex);
  dp_detached *body = run->free_detached;
  if (body)
    run->free_detached = body->next;
  else
    body =
        dp_calloc(1, sizeof(dp_detached) + sizeof(dp_value) * (size_t)run->executor->max_outputs);
  body->previous = NULL;
  body->next = run->in_flight;
  if (body->next)
    body->next->previous = body;
  body->run = run;
  body->item = item;
  body->started = now;
  run->in_flight = body;
  pthread_mutex_unlock(&run->mutex);
  return body;
}

static void give_back(dp_run *run, dp_detached *body) {
  pthread_mutex_lock(&run->mutex);
  if (body->previous)
    body->previous->next = body->next;
  else
    run->in_flight = body->next;
  if (body->next)
    body->next->previous = body->previous;
  body->next = run->free_detached;
  run->free_detached = body;
  pthread_mutex_unlock(&run->mutex);
}

/* The body has ended and its launch has returned: what it made goes to `runner`. */
static void finish(dp_runner *runner, dp_detached *body) {
  dp_run *run = runner->run;
  if (run->step->stats)
    dp_run_record(run, body->item, body->outputs, body->scheduled, body->launched);
  dp_run_finish_node(runner, body->item, body->iteration, body->is_dead, body->outputs,
                     body->status);
  give_back(run, body);
}

static void finish_elsewhere(dp_detached *body) {
  dp_run *run = body->run;
  dp_runner *runner = dp_executor_runner_current(run);
  if (runner) { /* this thread is at the same run already */
    finish(runner, body);
    atomic_fetch_sub(&run->active, 1);
    return;
  }
  runner = dp_executor_runner_take(run); /* takes over the body's unit of `active` */
  finish(runner, body);
  dp_executor_runner_enter(runner);
}

void dp_op_done(dp_op_context *context, dp_status *status) {
  dp_detached *body = context->executor;
  body->status = status;
  if (atomic_exchange(&body->phase, ENDED) == LAUNCHED)
    finish_elsewhere(body);
}

static void run_blocking(void *arg) {
  dp_detached *body = arg;
  const dp_item *item = body->item;
  if (item->kernel->compute)
    dp_op_done(&body->context, item->kernel->compute(&body->context, item->state));
  else
    item->kernel->compute_async(&body->context, item->state);
}

static void launch(dp_detached *body, dp_runner *runner) {
  dp_run *run = runner->run;
  const dp_item *item = body->item;
  dp_pool *blocking = run->executor->device->blocking;
  /* A lent thread that has nothing else to do may as well wait here. */
  bool may_wait = dp_thread_is_lent() && dp_executor_runner_is_idle(runner);
  if ((item->kernel->flags & DP_KERNEL_BLOCKING) && blocking && !may_wait) {
    atomic_store(&body->phase, LAUNCHED);
    dp_pool_run(blocking, run_blocking, body);
    return;
  }
  run_blocking(body);
  int expected = LAUNCHING;
  if (atomic_compare_exchange_strong(&body->phase, &expected, LAUNCHED))
    return; /* from here on the body may be gone */
  finish(runner, body);
  atomic_fetch_sub(&run->active, 1); /* never the last: the runner has one */
}

void dp_run_detach(dp_runner *runner, const dp_ready *ready) {
  dp_run *run = runner->run;
  if (!run->shared)
    run->shared = true;
  dp_detached *body = take_detached(run, ready->item);
  body->iteration = ready->iteration;
  body->is_dead = ready->is_dead;
  body->status = NULL;
  body->scheduled = ready->scheduled;
  body->launched = run->step->stats ? dp_clock_wall_nanos() : 0;
  dp_run_prepare_context(run, &body->context, body->outputs);
  dp_run_fill_context(&body->context, ready);
  body->context.executor = body;
  atomic_store(&body->phase, LAUNCHING);
  atomic_fetch_add(&run->active, 1);
  launch(body, runner);
}
