/* How values, deadness and control travel from a finished node to its readers, and how loop frames
 * and their iterations come and go.
 *
 * A plain node's readers are in its own iteration: their counters go down, lock-free, and who finds
 * zero queues the reader. Enter, Exit and NextIteration lead elsewhere and work under the run's
 * frame lock, as does whatever ends an iteration. Why the target iteration is always alive:
 *   - a running node counts as outstanding in its own iteration;
 *   - iteration 0 of a frame stays until all its Enters have come (pending_inputs);
 *   - an iteration stays until the one before it is gone, so NextIteration finds its successor;
 *   - an iteration stays while it has child frames, so Exit finds its parent.
 * An iteration ends when nothing in it is outstanding; a frame when its last iteration has. Exits
 * that were dead in the last iteration are dead for the parent. */
#include "runtime/executor_internal.h"

#include <string.h>
#include "base/memory.h"

/* ---- Counters ---- */
static inline uint64_t counter_add(const dp_run *run, dp_counter *counter, uint64_t delta) {
  if (run->shared)
    return atomic_fetch_add_explicit(counter, delta, memory_order_acq_rel) + delta;
  uint64_t value = atomic_load_explicit(counter, memory_order_relaxed) + delta;
  atomic_store_explicit(counter, value, memory_order_relaxed);
  return value;
}

static inline int64_t outstanding_add(const dp_run *run, dp_iteration *iteration, int64_t delta) {
  if (run->shared)
    return atomic_fetch_add_explicit(&iteration->outstanding, delta, memory_order_acq_rel) + delta;
  int64_t value = atomic_load_explicit(&iteration->outstanding, memory_order_relaxed) + delta;
  atomic_store_explicit(&iteration->outstanding, value, memory_order_relaxed);
  return value;
}

static inline void lock_frames(dp_run *run) {
  if (run->shared)
    pthread_mutex_lock(&run->frame_mutex);
}
static inline void unlock_frames(dp_run *run) {
  if (run->shared)
    pthread_mutex_unlock(&run->frame_mutex);
}

/* ---- Edges ---- */
typedef struct delivery {
  dp_runner *runner;
  const dp_item *source;
  dp_iteration *iteration;
  dp_value *outputs; /* NULL: all dead */
  bool is_dead;      /* the source is */
  bool may_move;     /* the values are not wanted afterwards */
} delivery;

static inline void deliver_value(const delivery *delivery, const dp_edge *edge) {
  dp_value *slot = &delivery->iteration->values[edge->slot];
  dp_value *value = &delivery->outputs[edge->output];
  if (edge->is_last && delivery->may_move)
    dp_value_move(slot, value);
  else
    dp_value_copy(slot, value);
}

static inline bool merge_is_dead(uint64_t word, const dp_item *merge) {
  return word >> 32 >= (uint64_t)merge->input_count;
}

/* The first live value is the one that counts; it must lie in its slot before a control edge can
 * find the Merge ready, so it is claimed first and counted afterwards. */
static bool deliver_live_to_merge(const delivery *delivery, const dp_edge *edge,
                                  const dp_item *merge, dp_counter *counter) {
  uint64_t word = atomic_load_explicit(counter, memory_order_acquire);
  do {
    if ((word & DP_COUNTER_CLAIMED) || merge_is_dead(word, merge))
      return false;
  } while (!atomic_compare_exchange_weak(counter, &word, word | DP_COUNTER_CLAIMED));
  deliver_value(delivery, edge);
  word = atomic_fetch_sub(counter, 1) - 1;
  return (word & DP_COUNTER_PENDING) == 0;
}

/* A Merge is dead when all its values are; a dead Enter is enough, for nothing will ever come round
 * a loop that was never entered. */
static bool deliver_dead_to_merge(const delivery *delivery, const dp_item *merge,
                                  dp_counter *counter) {
  uint64_t dead = delivery->source->kind == DP_ITEM_ENTER ? (uint64_t)merge->input_count : 1;
  uint64_t word = atomic_load_explicit(counter, memory_order_acquire), next;
  do {
    if ((word & DP_COUNTER_CLAIMED) || merge_is_dead(word, merge))
      return false;
    next = word + dead * DP_COUNTER_DEAD;
  } while (!atomic_compare_exchange_weak(counter, &word, next));
  return merge_is_dead(next, merge) && (next & DP_COUNTER_PENDING) == 1;
}

/* Whether the Merge is ready now, and dead. Control inputs are waited for, dead or alive. */
static bool deliver_to_merge(const delivery *delivery, const dp_edge *edge, const dp_item *merge,
                             bool *is_dead_out) {
  dp_counter *counter = &delivery->iteration->counters[edge->counter];
  *is_dead_out = false;
  if (edge->slot < 0) {
    uint64_t word = atomic_fetch_sub(counter, 1) - 1;
    *is_dead_out = merge_is_dead(word, merge);
    return (word & DP_COUNTER_PENDING) == (*is_dead_out ? 1u : 0u);
  }
  if (delivery->outputs && dp_value_is_set(&delivery->outputs[edge->output]))
    return deliver_live_to_merge(delivery, edge, merge, counter);
  *is_dead_out = true;
  return deliver_dead_to_merge(delivery, merge, counter);
}

/* One input of a plain reader has come; returns whether that was the last. */
static inline __attribute__((always_inline)) bool
count_down(dp_runner *runner, dp_iteration *iteration, const dp_edge *edge, bool is_live) {
  const dp_run *run = runner->run;
  uint64_t word = counter_add(run, &iteration->counters[edge->counter],
                              is_live ? (uint64_t)-1 : DP_COUNTER_DEAD - 1);
  if ((uint32_t)word != 0)
    return false;
  dp_executor_runner_add(runner, &run->executor->items[edge->item], iteration, word != 0);
  return true;
}

static bool tell_merge(const delivery *delivery, const dp_edge *edge) {
  dp_item *merge = &delivery->runner->run->executor->items[edge->item];
  bool is_dead;
  if (!deliver_to_merge(delivery, edge, merge, &is_dead))
    return false;
  dp_executor_runner_add(delivery->runner, merge, delivery->iteration, is_dead);
  return true;
}

/* Retains a value once for all plain readers that will get a copy: of the edges from `edge` to the
 * output's last, which may take the value itself. A Merge retains for itself. */
static inline void retain_for_readers(const dp_value *value, const dp_edge *edge, bool may_move) {
  int copies = 0;
  for (; !edge->is_last; ++edge)
    copies += !edge->is_merge;
  copies += !edge->is_merge && !may_move;
  if (copies)
    dp_value_retain_many(value, copies);
}

/* Tells every reader; returns how many became ready. Inlined where every node comes by, so that the
 * delivery stays in registers. */
static inline __attribute__((always_inline)) int64_t activate(const delivery *delivery) {
  const dp_edge *edge = delivery->source->edges;
  const dp_edge *controls = edge + delivery->source->data_edges;
  const dp_edge *end = controls + delivery->source->control_edges;
  int64_t ready = 0;
  bool is_first = true; /* of the edges of an output */
  for (; edge < controls; is_first = edge->is_last, ++edge) {
    dp_value *value = delivery->outputs ? &delivery->outputs[edge->output] : NULL;
    bool has_value = value && dp_value_is_set(value);
    if (has_value && is_first)
      retain_for_readers(value, edge, delivery->may_move);
    if (edge->is_merge) {
      ready += tell_merge(delivery, edge);
      continue;
    }
    if (has_value && edge->is_last && delivery->may_move)
      dp_value_move(&delivery->iteration->values[edge->slot], value);
    else if (has_value)
      dp_value_copy_fields(&delivery->iteration->values[edge->slot], value);
    ready +=
        count_down(delivery->runner, delivery->iteration, edge, has_value && !delivery->is_dead);
  }
  for (; edge < end; ++edge)
    ready += edge->is_merge
                 ? tell_merge(delivery, edge)
                 : count_down(delivery->runner, delivery->iteration, edge, !delivery->is_dead);
  return ready;
}

/* The same for a live node outside of loops that nobody reads from: no values to carry. */
static void activate_controls(dp_runner *runner, const dp_item *item, dp_iteration *iteration) {
  const dp_edge *edge = item->edges, *end = edge + item->control_edges;
  for (; edge < end; ++edge)
    if (__builtin_expect(edge->is_merge, 0))
      tell_merge(&(delivery){runner, item, iteration, NULL, false, false}, edge);
    else
      count_down(runner, iteration, edge, true);
}

static void activate_counted(const delivery *delivery) {
  int64_t ready = activate(delivery);
  if (ready && delivery->iteration->frame)
    outstanding_add(delivery->runner->run, delivery->iteration, ready);
}

/* ---- Iterations ---- */
dp_iteration *dp_iteration_create(const dp_frame_plan *plan) {
  size_t counters = sizeof(dp_counter) * (size_t)plan->counter_count;
  size_t header = (sizeof(dp_iteration) + counters + 63) & ~(size_t)63;
  char *block = dp_calloc(1, header + sizeof(dp_value) * (size_t)plan->value_count);
  dp_iteration *iteration = (dp_iteration *)block;
  iteration->counters = (dp_counter *)(block + sizeof(dp_iteration));
  iteration->values = (dp_value *)(block + header);
  return iteration;
}

void dp_iteration_destroy(dp_iteration *iteration) {
  dp_free(iteration);
}

void dp_iteration_start(dp_iteration *iteration, const dp_frame_plan *plan) {
  memcpy((void *)iteration->counters, plan->counters,
         sizeof(dp_counter) * (size_t)plan->counter_count);
}

static void clear_values(dp_iteration *iteration, const dp_frame_plan *plan) {
  for (int32_t i = 0; i < plan->value_count; ++i)
    if (dp_value_is_set(&iteration->values[i]))
      dp_value_clear(&iteration->values[i]);
}

static dp_iteration **ring_slot(dp_loop_frame *frame, int64_t number) {
  return &frame->iterations[number % frame->ring_size];
}

static int32_t plan_index(const dp_run *run, const dp_loop_frame *frame) {
  return (int32_t)(frame->plan - run->executor->frames);
}

static dp_iteration *start_iteration(dp_run *run, dp_loop_frame *frame, int64_t number) {
  dp_iteration **list = &run->free_iterations[plan_index(run, frame)];
  dp_iteration *iteration = *list;
  if (iteration)
    *list = iteration->next_free;
  else
    iteration = dp_iteration_create(frame->plan);
  dp_iteration_start(iteration, frame->plan);
  iteration->frame = frame;
  iteration->number = number;
  atomic_store_explicit(&iteration->outstanding, 0, memory_order_relaxed);
  *ring_slot(frame, number) = iteration;
  frame->outstanding_iterations++;
  frame->iteration_count = number;
  return iteration;
}

static void end_iteration(dp_run *run, dp_loop_frame *frame, int64_t number) {
  dp_iteration *iteration = *ring_slot(frame, number);
  clear_values(iteration, frame->plan);
  dp_iteration **list = &run->free_iterations[plan_index(run, frame)];
  iteration->next_free = *list;
  *list = iteration;
  *ring_slot(frame, number) = NULL;
  frame->outstanding_iterations--;
}

/* Starts the next iteration with what waits for it: values that came round, and constants. */
static dp_iteration *next_iteration(dp_runner *runner, dp_loop_frame *frame) {
  dp_iteration *iteration = start_iteration(runner->run, frame, frame->iteration_count + 1);
  frame->dead_exit_count = 0;
  int32_t deferred = frame->deferred_count;
  frame->deferred_count = 0;
  for (int32_t i = 0; i < deferred; ++i) {
    dp_held_value *held = &frame->deferred[i];
    delivery delivery = {runner, held->item, iteration, &held->value, false, true};
    activate_counted(&delivery);
    dp_value_clear(&held->value);
  }
  for (int32_t i = 0; i < frame->constant_count; ++i) {
    dp_held_value *held = &frame->constants[i];
    bool is_dead = !dp_value_is_set(&held->value);
    delivery delivery = {runner, held->item, iteration, &held->value, is_dead, false};
    activate_counted(&delivery);
  }
  return iteration;
}

/* ---- Frames ---- */
static dp_loop_frame *create_frame(const dp_frame_plan *plan) {
  dp_loop_frame *frame = DP_NEW(dp_loop_frame);
  frame->plan = plan;
  frame->ring_size = plan->parallel_iterations + 1;
  frame->iterations = DP_NEW_ARRAY(dp_iteration *, (size_t)frame->ring_size);
  frame->dead_exits = DP_NEW_ARRAY(const dp_item *, (size_t)plan->exit_count + 1);
  frame->exit_delivered = DP_NEW_ARRAY(bool, (size_t)plan->exit_count + 1);
  frame->deferred = DP_NEW_ARRAY(dp_held_value, (size_t)plan->next_count + 1);
  frame->constants = DP_NEW_ARRAY(dp_held_value, (size_t)plan->constant_count + 1);
  return frame;
}

void dp_loop_frame_destroy(dp_loop_frame *frame) {
  dp_free(frame->iterations);
  dp_free(frame->dead_exits);
  dp_free(frame->exit_delivered);
  dp_free(frame->deferred);
  dp_free(frame->constants);
  dp_free(frame);
}

/* A peer that runs another part of the same loop derives the same number: TensorFlow's way. */
static uint64_t combine(uint64_t a, uint64_t b) {
  return a ^ (b + 0x9e3779b97f4a7800u + (a << 10) + (a >> 4));
}

static dp_loop_frame *start_frame(dp_run *run, int32_t plan_number, dp_iteration *parent) {
  const dp_frame_plan *plan = &run->executor->frames[plan_number];
  dp_loop_frame *frame = run->free_frames[plan_number];
  if (frame)
    run->free_frames[plan_number] = frame->next;
  else
    frame = create_frame(plan);
  frame->parent = parent->frame;
  frame->parent_iteration = parent;
  frame->id = combine(parent->frame ? parent->frame->id : 0,
                      combine((uint64_t)parent->number, plan->name_hash));
  frame->pending_inputs = plan->enter_count;
  frame->outstanding_iterations = 0;
  frame->dead_exit_count = frame->deferred_count = frame->constant_count = 0;
  memset(frame->exit_delivered, 0, sizeof(bool) * (size_t)plan->exit_count);
  frame->next = parent->children;
  parent->children = frame;
  parent->child_frames++;
  start_iteration(run, frame, 0);
  return frame;
}

static dp_loop_frame *find_or_start_frame(dp_run *run, int32_t plan_number, dp_iteration *parent) {
  const dp_frame_plan *plan = &run->executor->frames[plan_number];
  for (dp_loop_frame *frame = parent->children; frame; frame = frame->next)
    if (frame->plan == plan)
      return frame;
  return start_frame(run, plan_number, parent);
}

static void release_frame(dp_run *run, dp_loop_frame *frame) {
  for (int32_t i = 0; i < frame->deferred_count; ++i)
    dp_value_clear(&frame->deferred[i].value);
  for (int32_t i = 0; i < frame->constant_count; ++i)
    dp_value_clear(&frame->constants[i].value);
  frame->deferred_count = frame->constant_count = 0;
  dp_loop_frame **link = &frame->parent_iteration->children;
  while (*link != frame)
    link = &(*link)->next;
  *link = frame->next;
  frame->parent_iteration->child_frames--;
  int32_t plan_number = plan_index(run, frame);
  frame->next = run->free_frames[plan_number];
  run->free_frames[plan_number] = frame;
}

static void end_frame(dp_runner *runner, dp_loop_frame *frame) {
  for (int32_t i = 0; i < frame->dead_exit_count; ++i) {
    const dp_item *exit = frame->dead_exits[i];
    delivery delivery = {runner, exit, frame->parent_iteration, NULL, true, false};
    if (!frame->exit_delivered[exit->exit_index])
      activate_counted(&delivery);
  }
  release_frame(runner->run, frame);
}

static bool iteration_is_done(dp_loop_frame *frame, int64_t number) {
  const dp_iteration *iteration = *ring_slot(frame, number);
  if (!iteration || iteration->child_frames ||
      atomic_load_explicit(&iteration->outstanding, memory_order_acquire) != 0)
    return false;
  return number == 0 ? frame->pending_inputs == 0 : *ring_slot(frame, number - 1) == NULL;
}

/* Ends the iterations from `iteration` on that are done, then the frame if it is, and so on
 * outward. */
static void clean_up(dp_runner *runner, dp_iteration *iteration) {
  while (iteration->frame) {
    dp_loop_frame *frame = iteration->frame;
    for (int64_t number = iteration->number;
         number <= frame->iteration_count && iteration_is_done(frame, number); ++number) {
      end_iteration(runner->run, frame, number);
      if (frame->deferred_count)
        next_iteration(runner, frame);
    }
    if (frame->pending_inputs || frame->outstanding_iterations)
      return;
    iteration = frame->parent_iteration;
    end_frame(runner, frame);
  }
}

/* One outstanding node less, with the frame lock held. */
static void retire_locked(dp_runner *runner, dp_iteration *iteration) {
  if (iteration->frame && outstanding_add(runner->run, iteration, -1) == 0)
    clean_up(runner, iteration);
}

/* A plain node is done and made `ready` others so. The count may fall to zero only under the lock,
 * or another thread could end the iteration before this one has looked at it. */
static void adjust_outstanding(dp_runner *runner, dp_iteration *iteration, int64_t ready) {
  dp_run *run = runner->run;
  if (ready == 1)
    return;
  if (ready > 1) {
    outstanding_add(run, iteration, ready - 1);
    return;
  }
  int64_t count = atomic_load_explicit(&iteration->outstanding, memory_order_relaxed);
  while (count > 1)
    if (atomic_compare_exchange_weak_explicit(&iteration->outstanding, &count, count - 1,
                                              memory_order_acq_rel, memory_order_relaxed))
      return;
  lock_frames(run);
  retire_locked(runner, iteration);
  unlock_frames(run);
}

/* ---- The three that lead elsewhere; all with the frame lock held ---- */
static void propagate_enter(delivery *delivery, dp_iteration *from) {
  dp_runner *runner = delivery->runner;
  const dp_item *item = delivery->source;
  dp_loop_frame *frame = find_or_start_frame(runner->run, item->child_frame, from);
  if (item->flags & DP_ITEM_CONSTANT) {
    dp_held_value *held = &frame->constants[frame->constant_count++];
    held->item = item;
    dp_value_move(&held->value, &delivery->outputs[0]);
    delivery->outputs = &held->value;
    delivery->may_move = false;
  }
  int64_t last = (item->flags & DP_ITEM_CONSTANT) ? frame->iteration_count : 0;
  for (int64_t number = 0; number <= last; ++number) {
    delivery->iteration = *ring_slot(frame, number);
    activate_counted(delivery);
  }
  frame->pending_inputs--;
  clean_up(runner, *ring_slot(frame, 0));
  retire_locked(runner, from);
}

/* False when the Exit has been live before, which only a malformed loop does. */
static bool propagate_exit(delivery *delivery, dp_iteration *from) {
  dp_loop_frame *frame = from->frame;
  bool *delivered = &frame->exit_delivered[delivery->source->exit_index];
  if (delivery->is_dead) {
    if (from->number == frame->iteration_count)
      frame->dead_exits[frame->dead_exit_count++] = delivery->source;
  } else if (*delivered) {
    return false;
  } else {
    *delivered = true;
    delivery->iteration = frame->parent_iteration;
    activate_counted(delivery);
  }
  retire_locked(delivery->runner, from);
  return true;
}

static void propagate_next(delivery *delivery, dp_iteration *from) {
  dp_loop_frame *frame = from->frame;
  bool is_newest = from->number == frame->iteration_count;
  if (!delivery->is_dead) {
    if (is_newest && frame->outstanding_iterations >= frame->plan->parallel_iterations) {
      dp_held_value *held = &frame->deferred[frame->deferred_count++];
      held->item = delivery->source;
      dp_value_move(&held->value, &delivery->outputs[0]);
    } else {
      delivery->iteration =
          is_newest ? next_iteration(delivery->runner, frame) : *ring_slot(frame, from->number + 1);
      activate_counted(delivery);
    }
  }
  retire_locked(delivery->runner, from);
}

static __attribute__((noinline)) void propagate_elsewhere(dp_runner *runner, const dp_item *item,
                                                          dp_iteration *iteration, bool is_dead,
                                                          dp_value *outputs) {
  delivery delivery = {runner, item, iteration, outputs, is_dead, true};
  bool is_sound = true;
  lock_frames(runner->run);
  if (item->kind == DP_ITEM_ENTER)
    propagate_enter(&delivery, iteration);
  else if (item->kind == DP_ITEM_EXIT)
    is_sound = propagate_exit(&delivery, iteration);
  else
    propagate_next(&delivery, iteration);
  unlock_frames(runner->run);
  if (!is_sound)
    dp_run_fail(runner->run, DP_INVALID("Exit {{node %s}} is live in two iterations of its loop",
                                        item->node->name));
}

static __attribute__((noinline)) void propagate_values(dp_runner *runner, const dp_item *item,
                                                       dp_iteration *iteration, bool is_dead,
                                                       dp_value *outputs) {
  const delivery delivery = {runner,  item,    iteration,
                             outputs, is_dead, !(item->flags & DP_ITEM_NOTHING)};
  int64_t ready = activate(&delivery);
  if (iteration->frame)
    adjust_outstanding(runner, iteration, ready);
}

void dp_run_propagate(dp_runner *runner, const dp_item *item, dp_iteration *iteration, bool is_dead,
                      dp_value *outputs) {
  if (item->kind != DP_ITEM_PLAIN)
    propagate_elsewhere(runner, item, iteration, is_dead, outputs);
  else if (item->data_edges || iteration->frame || is_dead)
    propagate_values(runner, item, iteration, is_dead, outputs);
  else
    activate_controls(runner, item, iteration);
}

/* ---- The end of a run ---- */
static void clean_iteration(dp_run *run, dp_iteration *iteration, const dp_frame_plan *plan) {
  while (iteration->children) {
    dp_loop_frame *frame = iteration->children;
    for (int32_t i = 0; i < frame->ring_size; ++i) {
      dp_iteration *inner = frame->iterations[i];
      if (!inner)
        continue;
      clean_iteration(run, inner, frame->plan);
      end_iteration(run, frame, inner->number);
    }
    release_frame(run, frame);
  }
  clear_values(iteration, plan);
}

void dp_run_clean(dp_run *run) {
  clean_iteration(run, run->root, &run->executor->frames[0]);
}
