/* One node's turn: references become values where values are wanted, the body runs, its outputs are
 * checked and handed on, an error stops the step, and time is taken where somebody asks for it.
 * Called by runners; a node's slots and counters are touched by the one thread that runs it. */
#include "runtime/executor_internal.h"

#include <string.h>
#include "base/clock.h"
#include "base/log.h"

/* ---- Errors ---- */
/* The first node in the message is the one that clients look up in their graph. A transfer that
 * ends because the step was stopped elsewhere has no part in the error. */
static dp_status *name_node(const dp_run *run, dp_status *status, const dp_item *item) {
  dp_cancel *cancel = run->step->cancel;
  if ((item->flags & DP_ITEM_RUNS_DEAD) && cancel && dp_cancel_is_triggered(cancel))
    return status;
  bool is_named = strstr(dp_status_message(status), "{{node ") != NULL;
  return is_named
             ? dp_status_append(status, "\n\t [[%s]]", dp_node_client_name(item->node))
             : dp_status_append(status, "\n\t [[{{node %s}}]]", dp_node_client_name(item->node));
}

void dp_run_fail(dp_run *run, dp_status *status) {
  dp_step *step = run->step;
  pthread_mutex_lock(&run->mutex);
  bool is_first = run->status == NULL;
  if (is_first)
    run->status = dp_status_retain(status);
  pthread_mutex_unlock(&run->mutex);
  atomic_store(&run->stopped, true);
  if (is_first) {
    DP_LOG(RUNTIME, DEBUG, "step %lld stops: %s", (long long)step->id, dp_status_message(status));
    if (step->cancel)
      dp_cancel_trigger(step->cancel, dp_status_retain(status));
    if (step->rendezvous)
      dp_rendezvous_abort(step->rendezvous, dp_status_retain(status));
  }
  dp_status_release(status);
}

static bool is_stopped(dp_run *run) {
  if (atomic_load_explicit(&run->stopped, memory_order_relaxed))
    return true;
  if (!run->step->cancel || !dp_cancel_is_triggered(run->step->cancel))
    return false;
  dp_run_fail(run, dp_cancel_status(run->step->cancel));
  return true;
}

/* ---- Inputs ---- */
static dp_status *uninitialized(const dp_run *run, const dp_node *node, int32_t slot) {
  dp_input input = node->inputs[slot];
  const char *name = dp_graph_node(run->executor->graph, input.node)->name;
  if (input.output == 0)
    return dp_status_create(DP_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                            name);
  return dp_status_create(DP_FAILED_PRECONDITION, "Attempting to use uninitialized value %s:%d",
                          name, input.output);
}

/* What a kernel with DP_KERNEL_UNINITIALIZED gets for a variable without value; a shape that is not
 * known counts as a scalar's, as in TensorFlow. */
static dp_tensor without_value(const dp_variable *variable) {
  const dp_partial_shape *shape = &variable->shape;
  return (dp_tensor){.dtype = variable->dtype,
                     .shape = dp_partial_shape_is_known(shape)
                                  ? dp_shape_of(shape->rank, shape->dims)
                                  : dp_shape_scalar()};
}

/* A variable is read when the value is needed, not when the reading's Identity runs: TensorFlow's
 * Identity shares the variable's memory, and programs rely on what that shows.
 * SyncReplicasOptimizer makes its tokens from a reading of the global step that may run before the
 * step is counted up. */
static dp_status *resolve_reference(const dp_run *run, const dp_item *item, int32_t slot,
                                    dp_value *value) {
  bool wants_reference = dp_dtype_is_ref(item->node->input_types[slot]);
  if (!value->reference)
    return wants_reference && dp_value_is_set(value)
               ? DP_INVALID("%d-th input expects a ref type", slot)
               : NULL;
  if (wants_reference || (item->flags & DP_ITEM_READS) ||
      (item->kernel->flags & DP_KERNEL_KEEPS_REFERENCES)) {
    if (!(item->flags & DP_ITEM_ALLOWS_UNINITIALIZED) &&
        !dp_variable_is_initialized(value->reference))
      return uninitialized(run, item->node, slot);
    return NULL;
  }
  dp_status *status = dp_variable_read(value->reference, &value->tensor);
  if (status) {
    dp_status_release(status);
    if (!(item->kernel->flags & DP_KERNEL_UNINITIALIZED))
      return uninitialized(run, item->node, slot);
    value->tensor = without_value(value->reference);
  }
  dp_resource_release(value->reference);
  value->reference = NULL;
  if (value->tensor.dtype != (dp_dtype)item->node->input_types[slot])
    return DP_INVALID("%d-th input expects type %s but automatically dereferenced input tensor has "
                      "type %s",
                      slot, dp_dtype_name(item->node->input_types[slot]),
                      dp_dtype_name(value->tensor.dtype));
  return NULL;
}

static dp_status *resolve_references(const dp_run *run, const dp_item *item, dp_value *inputs) {
  for (int32_t i = 0; i < item->input_count; ++i) {
    dp_status *status = resolve_reference(run, item, i, &inputs[i]);
    if (status)
      return status;
  }
  return NULL;
}

static void clear_inputs(const dp_item *item, dp_iteration *iteration) {
  dp_value *inputs = iteration->values + item->first_input;
  for (int32_t i = 0; i < item->input_count; ++i)
    dp_value_clear(&inputs[i]);
}

/* ---- Outputs ---- */
static void clear_outputs(const dp_item *item, dp_value *outputs) {
  for (int32_t i = 0; i < item->output_count; ++i)
    dp_value_clear(&outputs[i]);
}

static dp_status *wrong_output(const dp_item *item, int32_t output, const dp_value *value) {
  const dp_node *node = item->node;
  if (!dp_value_is_set(value))
    return dp_status_create(DP_INTERNAL, "Missing %d-th output from {{node %s}}", output,
                            node->name);
  dp_dtype made = value->reference ? value->reference->dtype : value->tensor.dtype;
  return dp_status_create(DP_INTERNAL,
                          "Output %d of type %s%s does not match declared output type %s for node "
                          "{{node %s}}",
                          output, dp_dtype_name(made), value->reference ? "_ref" : "",
                          dp_dtype_name(node->output_types[output]), node->name);
}

static dp_status *check_outputs(const dp_item *item, const dp_value *outputs) {
  const int32_t *types = item->node->output_types;
  for (int32_t i = 0; i < item->output_count; ++i) {
    const dp_value *value = &outputs[i];
    int32_t type = value->reference ? (int32_t)value->reference->dtype + DP_REF_OFFSET
                                    : (int32_t)value->tensor.dtype;
    if (__builtin_expect(type == types[i], 1))
      continue;
    if (value->reference && (item->flags & DP_ITEM_READS))
      continue;
    if (!dp_value_is_set(value) && (item->flags & DP_ITEM_MAY_OMIT))
      continue;
    return wrong_output(item, i, value);
  }
  return NULL;
}

void dp_run_finish_node(dp_runner *runner, dp_item *item, dp_iteration *iteration, bool is_dead,
                        dp_value *outputs, dp_status *status) {
  if (!status)
    status = check_outputs(item, outputs);
  clear_inputs(item, iteration);
  if (__builtin_expect(status != NULL, 0))
    dp_run_fail(runner->run, name_node(runner->run, status, item));
  else
    dp_run_propagate(runner, item, iteration, is_dead, outputs);
  clear_outputs(item, outputs);
}

/* ---- The body ---- */
static bool has_dead_input(const dp_item *item, const dp_value *inputs) {
  for (int32_t i = 0; i < item->input_count; ++i)
    if (!dp_value_is_set(&inputs[i]))
      return true;
  return false;
}

void dp_run_prepare_context(const dp_run *run, dp_op_context *context, dp_value *outputs) {
  context->step = run->step;
  context->device = run->executor->device;
  context->outputs = outputs;
}

void dp_run_fill_context(dp_op_context *context, const dp_ready *ready) {
  const dp_item *item = ready->item;
  const dp_iteration *iteration = ready->iteration;
  context->node = item->node;
  context->inputs = iteration->values + item->first_input;
  context->input_count = item->input_count;
  context->output_count = item->output_count;
  context->is_input_dead =
      (item->flags & DP_ITEM_RUNS_DEAD) && has_dead_input(item, context->inputs);
  context->frame_id = iteration->frame ? iteration->frame->id : 0;
  context->iteration = iteration->number;
}

/* What takes at least this long counts as expensive (executor_work.c asks). */
static void learn_cost(dp_item *item, int64_t nanos) {
  uint32_t old = atomic_load_explicit(&item->cost, memory_order_relaxed);
  uint32_t taken = nanos > 1000000000 ? 1000000000u : (uint32_t)(nanos < 0 ? 0 : nanos);
  uint32_t cost = old == UINT32_MAX ? taken : old - old / 8 + taken / 8;
  atomic_store_explicit(&item->cost, cost, memory_order_relaxed);
}

static dp_status *compute_timed(dp_runner *runner, dp_item *item) {
  int64_t started = dp_clock_nanos();
  atomic_store_explicit(&runner->started, started, memory_order_relaxed);
  atomic_store_explicit(&runner->current, item, memory_order_release);
  dp_status *status = item->kernel->compute(&runner->context, item->state);
  atomic_store_explicit(&runner->current, NULL, memory_order_relaxed);
  learn_cost(item, dp_clock_nanos() - started);
  return status;
}

/* Expensive nodes are timed each time, others now and then. */
static inline bool wants_timing(dp_runner *runner, const dp_item *item) {
  if (item->flags & DP_ITEM_CHEAP)
    return false;
  return (++runner->tick & 63) == 0 ||
         atomic_load_explicit(&item->cost, memory_order_relaxed) >= DP_EXPENSIVE_NANOS;
}

static void compute(dp_runner *runner, const dp_ready *ready) {
  dp_run *run = runner->run;
  dp_item *item = ready->item;
  int64_t started = run->step->stats ? dp_clock_wall_nanos() : 0;
  dp_run_fill_context(&runner->context, ready);
  dp_status *status = wants_timing(runner, item)
                          ? compute_timed(runner, item)
                          : item->kernel->compute(&runner->context, item->state);
  if (run->step->stats)
    dp_run_record(run, item, runner->outputs, ready->scheduled, started);
  dp_run_finish_node(runner, item, ready->iteration, ready->is_dead, runner->outputs, status);
}

static __attribute__((noinline)) void run_body(dp_runner *runner, const dp_ready *ready) {
  dp_run *run = runner->run;
  dp_item *item = ready->item;
  if (__builtin_expect(is_stopped(run), 0))
    return;
  if (ready->is_dead && !(item->flags & DP_ITEM_RUNS_DEAD)) {
    clear_inputs(item, ready->iteration);
    dp_run_propagate(runner, item, ready->iteration, ready->is_dead, runner->outputs);
    return;
  }
  if (item->flags & DP_ITEM_REFERENCES) {
    dp_status *status = resolve_references(run, item, ready->iteration->values + item->first_input);
    if (status) {
      dp_run_fail(run, name_node(run, status, item));
      return;
    }
  }
  if (item->flags & DP_ITEM_DETACHED)
    dp_run_detach(runner, ready);
  else
    compute(runner, ready);
}

/* Nodes without a body need not know whether the run has been stopped: whatever they lead to
 * asks. */
void dp_run_node(dp_runner *runner, const dp_ready *ready) {
  dp_item *item = ready->item;
  if ((item->flags & DP_ITEM_NOTHING) && !ready->is_dead && !runner->run->step->stats)
    dp_run_propagate(runner, item, ready->iteration, false, item->state);
  else
    run_body(runner, ready);
}
