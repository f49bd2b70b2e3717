/* Small builders that the planner's files share: a node in one call, the _Send and _Recv of a
 * transfer, constants, control inputs. The names of tensors that TensorFlow's clients write ("x:1")
 * are parsed here too. What is built belongs to the graph. One thread per graph. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "planner/planner_internal.h"

dp_status *dp_planner_add(dp_graph *graph, const char *op, const char *name, const char *device,
                          const dp_input *inputs, int32_t input_count, const dp_attr *attrs,
                          int32_t attr_count, dp_node **node_out) {
  const dp_op *definition = dp_op_find(op);
  if (!definition)
    return dp_status_create(DP_INTERNAL, "The planner needs the op '%s', which is not defined", op);
  dp_node_builder builder = {.name = name,
                             .op = definition,
                             .device = device,
                             .inputs = inputs,
                             .input_count = input_count,
                             .attrs = attrs,
                             .attr_count = attr_count};
  dp_node *node;
  DP_RETURN_IF_ERROR(dp_graph_add(graph, &builder, &node));
  if (*node->device)
    node->assigned_device = node->device;
  if (node_out)
    *node_out = node;
  return NULL;
}

static int32_t fill_transfer(const dp_transfer *transfer, dp_attr *attrs) {
  attrs[0] = attr_string("tensor_name", transfer->tensor_name);
  attrs[1] = attr_string("send_device", transfer->send_device);
  attrs[2] = attr_int("send_device_incarnation", (int64_t)transfer->send_incarnation);
  attrs[3] = attr_string("recv_device", transfer->recv_device);
  attrs[4] = attr_bool("client_terminated", transfer->client_terminated);
  return 5;
}

dp_status *dp_planner_add_send(dp_graph *graph, const char *name, const dp_transfer *transfer,
                               dp_input value, dp_node **node_out) {
  dp_attr attrs[6];
  int32_t count = fill_transfer(transfer, attrs);
  int32_t type = graph->nodes[value.node]->output_types[value.output];
  attrs[count++] = attr_type("T", dp_dtype_base(type));
  return dp_planner_add(graph, "_Send", name, transfer->send_device, &value, 1, attrs, count,
                        node_out);
}

dp_status *dp_planner_add_recv(dp_graph *graph, const char *name, const dp_transfer *transfer,
                               dp_dtype type, dp_node **node_out) {
  dp_attr attrs[6];
  int32_t count = fill_transfer(transfer, attrs);
  attrs[count++] = attr_type("tensor_type", type);
  return dp_planner_add(graph, "_Recv", name, transfer->recv_device, NULL, 0, attrs, count,
                        node_out);
}

/* A Const with this value. */
static dp_status *add_const(dp_graph *graph, const char *name, const char *device,
                            const dp_tensor *value, dp_node **node_out) {
  dp_attr attrs[] = {
      attr_type("dtype", value->dtype),
      {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = value},
  };
  return dp_planner_add(graph, "Const", name, device, NULL, 0, attrs, 2, node_out);
}

dp_status *dp_planner_add_signal(dp_graph *graph, const char *name, const char *device,
                                 dp_node **node_out) {
  dp_tensor nothing;
  dp_shape shape = dp_shape_vector(0);
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_FLOAT, &shape, &nothing));
  dp_status *status = add_const(graph, name, device, &nothing, node_out);
  dp_tensor_deinit(&nothing);
  return status;
}

const char *dp_planner_new_name(const dp_graph *graph, dp_arena *arena, const char *prefix,
                                char letter) {
  static _Atomic uint64_t next;
  for (;;) {
    uint64_t number = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
    const char *name = dp_arena_printf(arena, "%s_%c%" PRIu64, prefix, letter, number);
    if (!dp_graph_find(graph, name))
      return name;
  }
}

static int compare_ids(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

int32_t dp_planner_sort_ids(int32_t *ids, int32_t count) {
  bool is_sorted = true;
  for (int32_t i = 1; i < count && is_sorted; i++)
    is_sorted = ids[i - 1] < ids[i];
  if (is_sorted)
    return count;
  qsort(ids, (size_t)count, sizeof(*ids), compare_ids);
  int32_t kept = 1;
  for (int32_t i = 1; i < count; i++)
    if (ids[i] != ids[kept - 1])
      ids[kept++] = ids[i];
  return kept;
}

void dp_planner_add_controls(dp_graph *graph, dp_node *node, const int32_t *ids, size_t count) {
  if (count == 0)
    return;
  size_t before = (size_t)node->control_count;
  int32_t *all = dp_arena_allocate(graph->arena, sizeof(*all) * (before + count));
  if (before)
    memcpy(all, node->controls, sizeof(*all) * before);
  memcpy(all + before, ids, sizeof(*all) * count);
  node->controls = all;
  node->control_count = dp_planner_sort_ids(all, (int32_t)(before + count));
}

const char *dp_planner_parse_tensor(dp_arena *arena, const char *text, int32_t *output_out) {
  if (*text == '^') {
    *output_out = -1;
    return dp_arena_strdup(arena, text + 1);
  }
  const char *colon = strrchr(text, ':');
  int64_t output;
  *output_out = 0;
  if (!colon || colon == text || colon[1] < '0' || colon[1] > '9' ||
      !dp_parse_int64(dp_view_of(colon + 1), &output))
    return dp_arena_strdup(arena, text);
  *output_out = output > INT32_MAX ? INT32_MAX : (int32_t)output;
  return dp_arena_strndup(arena, text, (size_t)(colon - text));
}
