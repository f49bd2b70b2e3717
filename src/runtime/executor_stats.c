/* What others want to know about a run: the timing of each node when the step collects statistics,
 * and at any time which bodies are still running, for status pages and stall reports. */
#include "runtime/executor_internal.h"

#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"

/* ---- Timing ---- */
static void print_inputs(const dp_graph *graph, const dp_node *node, dp_text *text) {
  const char *separator = "";
  for (int32_t i = 0; i < node->input_count; ++i, separator = ", ") {
    dp_text_printf(text, "%s%s", separator, dp_graph_node(graph, node->inputs[i].node)->name);
    if (node->inputs[i].output > 0)
      dp_text_printf(text, ":%d", node->inputs[i].output);
  }
  for (int32_t i = 0; i < node->control_count; ++i, separator = ", ")
    dp_text_printf(text, "%s^%s", separator, dp_graph_node(graph, node->controls[i])->name);
}

/* Transfers are labelled by what goes where, as TensorFlow's timelines expect. */
static char *make_label(const dp_graph *graph, const dp_node *node) {
  dp_text text = {0};
  const dp_attr *tensor = dp_node_attr(node, "tensor_name");
  const dp_attr *device = dp_node_attr(node, "recv_device");
  dp_text_printf(&text, "%s = %s(", node->name, node->op->name);
  if (tensor && device && tensor->kind == DP_ATTR_STRING && device->kind == DP_ATTR_STRING)
    dp_text_printf(&text, "%.*s @%.*s", (int)tensor->string.length, tensor->string.data,
                   (int)device->string.length, device->string.data);
  else
    print_inputs(graph, node, &text);
  dp_text_add_char(&text, ')');
  return dp_text_take(&text);
}

static const char *label_of(dp_executor *executor, dp_item *item) {
  pthread_mutex_lock(&executor->mutex);
  if (!item->label)
    item->label = make_label(executor->graph, item->node);
  const char *label = item->label;
  pthread_mutex_unlock(&executor->mutex);
  return label;
}

void dp_run_record(dp_run *run, dp_item *item, const dp_value *outputs, int64_t scheduled,
                   int64_t started) {
  static _Thread_local int32_t thread;
  if (!thread)
    thread = (int32_t)syscall(SYS_gettid);
  dp_tensor *tensors = DP_NEW_ARRAY(dp_tensor, (size_t)item->output_count + 1);
  for (int32_t i = 0; i < item->output_count; ++i)
    tensors[i] = outputs[i].tensor; /* borrowed; unset for references and dead outputs */
  dp_node_timing timing = {.node = item->node->name,
                           .op = item->node->op->name,
                           .device = run->executor->device->name,
                           .label = label_of(run->executor, item),
                           .scheduled = scheduled,
                           .started = started,
                           .ended = dp_clock_wall_nanos(),
                           .thread = thread,
                           .output_count = item->output_count,
                           .outputs = tensors};
  run->step->stats->record(run->step->stats->arg, &timing);
  dp_free(tensors);
}

/* ---- Who runs ---- */
typedef struct running {
  int64_t step;
  const dp_node *node; /* of the executor's graph */
  int64_t started;
} running;
typedef DP_ARRAY(running) running_list;

static void list_run(dp_run *run, running_list *list) {
  pthread_mutex_lock(&run->mutex);
  for (const dp_detached *body = run->in_flight; body; body = body->next)
    DP_ARRAY_PUSH(list, ((running){run->step->id, body->item->node, body->started}));
  for (const dp_runner *runner = run->all_runners; runner; runner = runner->next_all) {
    const dp_item *item = atomic_load_explicit(&runner->current, memory_order_acquire);
    if (item)
      DP_ARRAY_PUSH(list,
                    ((running){run->step->id, item->node,
                               atomic_load_explicit(&runner->started, memory_order_relaxed)}));
  }
  pthread_mutex_unlock(&run->mutex);
}

void dp_executor_visit_running(dp_executor *executor, dp_executor_visit_fn visit, void *arg) {
  running_list list = {0};
  pthread_mutex_lock(&executor->mutex);
  for (dp_run *run = executor->active_runs; run; run = run->next)
    list_run(run, &list);
  pthread_mutex_unlock(&executor->mutex);
  int64_t now = dp_clock_nanos();
  for (size_t i = 0; i < list.count; ++i)
    visit(arg, list.items[i].step, list.items[i].node, now - list.items[i].started);
  DP_ARRAY_FREE(&list);
}
