/* A dataset as the graph that makes it (DatasetToGraph). Python asks for it to look into a pipeline
 * or to rebuild it elsewhere.
 *
 * A dataset remembers its node and the node's inputs. The graph is written from them, inputs first;
 * every input that is not a dataset becomes a constant. A node of a graph is copied. A node of a
 * function is not, because a function may make one dataset per element (flat_map); the dataset
 * retains the function runtime instead. */
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

struct dp_dataset_origin {
  dp_graph *graph;                /* holds only a copy of the node; or NULL */
  dp_function_runtime *functions; /* with `graph` NULL: retained, because the node belongs to it */
  const dp_node *node;
  dp_tensor *inputs; /* input_count of the node */
};

static dp_library *library_of(const dp_dataset_origin *origin) {
  return origin->graph ? origin->graph->library : dp_function_runtime_library(origin->functions);
}

void dp_dataset_remember(dp_dataset *dataset, const dp_op_context *context) {
  const dp_step *step = context->step;
  if (dataset->origin)
    return;
  dp_dataset_origin *origin = DP_NEW(dp_dataset_origin);
  if (step->frame && step->frame->is_function) {
    origin->functions = dp_function_runtime_retain(step->functions);
    origin->node = context->node;
  } else {
    origin->graph =
        dp_graph_create(step->functions ? dp_function_runtime_library(step->functions) : NULL);
    origin->node = dp_graph_clone_node(origin->graph, context->node, context->node->name);
  }
  origin->inputs = dp_element_create(context->input_count);
  for (int32_t i = 0; i < context->input_count; ++i)
    origin->inputs[i] = dp_tensor_copy(dp_op_input(context, i));
  dataset->origin = origin;
}

void dp_dataset_forget(dp_dataset *dataset) {
  dp_dataset_origin *origin = dataset->origin;
  if (!origin)
    return;
  dp_element_destroy(origin->inputs, origin->node->input_count);
  if (origin->graph)
    dp_graph_destroy(origin->graph);
  else
    dp_function_runtime_release(origin->functions);
  dp_free(origin);
}

const dp_node *dp_dataset_node(const dp_dataset *dataset) {
  return dataset->origin ? dataset->origin->node : NULL;
}

/* ---- Writing ---- */
static dp_status *add_constant(dp_graph *graph, const dp_tensor *tensor, dp_input *input_out) {
  dp_attr attrs[] = {{.name = "dtype", .kind = DP_ATTR_TYPE, .type = tensor->dtype},
                     {.name = "value", .kind = DP_ATTR_TENSOR, .tensor = tensor}};
  dp_node_builder builder = {.name = dp_graph_unique_name(graph, "Const"),
                             .op = dp_op_find("Const"),
                             .attrs = attrs,
                             .attr_count = 2};
  dp_node *node;
  DP_RETURN_IF_ERROR(dp_graph_add(graph, &builder, &node));
  *input_out = (dp_input){node->id, 0};
  return NULL;
}

static dp_status *add_dataset(dp_graph *graph, const dp_dataset *dataset, dp_input *input_out);

static dp_status *add_input(dp_graph *graph, const dp_tensor *tensor, dp_input *input_out) {
  dp_dataset *dataset;
  if (tensor->dtype != DP_VARIANT)
    return add_constant(graph, tensor, input_out);
  DP_RETURN_IF_ERROR(dp_dataset_of_tensor(tensor, &dataset));
  return add_dataset(graph, dataset, input_out);
}

static dp_status *add_dataset(dp_graph *graph, const dp_dataset *dataset, dp_input *input_out) {
  const dp_dataset_origin *origin = dataset->origin;
  if (!origin)
    return dp_status_create(DP_FAILED_PRECONDITION,
                            "%s is not of an op and cannot be written as a graph",
                            dataset->ops->name);
  int32_t count = origin->node->input_count;
  dp_input *inputs = dp_arena_allocate(graph->arena, sizeof(dp_input) * ((size_t)count + 1));
  for (int32_t i = 0; i < count; ++i)
    DP_RETURN_IF_ERROR(add_input(graph, &origin->inputs[i], &inputs[i]));
  dp_node_builder builder = {.name = dp_graph_unique_name(graph, origin->node->op->name),
                             .op = origin->node->op,
                             .inputs = inputs,
                             .input_count = count,
                             .attrs = origin->node->attrs,
                             .attr_count = origin->node->attr_count};
  dp_node *node;
  DP_RETURN_IF_ERROR(dp_graph_add(graph, &builder, &node));
  *input_out = (dp_input){node->id, 0};
  return NULL;
}

/* Adds the node that marks the dataset among the nodes. */
static dp_status *add_result(dp_graph *graph, dp_input input) {
  dp_attr attrs[] = {{.name = "T", .kind = DP_ATTR_TYPE, .type = DP_VARIANT},
                     {.name = "index", .kind = DP_ATTR_INT, .integer = 0}};
  dp_node_builder builder = {.name = "dataset",
                             .op = dp_op_find("_Retval"),
                             .inputs = &input,
                             .input_count = 1,
                             .attrs = attrs,
                             .attr_count = 2};
  dp_node *node;
  return dp_graph_add(graph, &builder, &node);
}

static dp_status *write_graph(const dp_graph *graph, dp_tstring *string) {
  dp_arena *arena = dp_arena_create();
  uint8_t *bytes;
  size_t length;
  dp_status *status =
      dp_wire_pack_bytes(dp_graph_export_given(graph, arena, true), arena, &bytes, &length);
  if (!status)
    status = dp_tstring_assign(string, bytes, length);
  dp_arena_destroy(arena);
  return status;
}

dp_status *dp_dataset_to_graph(const dp_dataset *dataset, dp_graph **graph_out,
                               dp_node **node_out) {
  dp_graph *graph = dp_graph_create(dataset->origin ? library_of(dataset->origin) : NULL);
  dp_input input;
  dp_status *status = add_dataset(graph, dataset, &input);
  if (status) {
    dp_graph_destroy(graph);
    return status;
  }
  *graph_out = graph;
  *node_out = dp_graph_node(graph, input.node);
  return NULL;
}

static dp_status *to_graph_compute(dp_op_context *context, void *state) {
  dp_dataset *dataset;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &dataset));
  dp_shape scalar = dp_shape_scalar();
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &scalar, &output));
  dp_graph *graph;
  dp_node *node;
  DP_RETURN_IF_ERROR(dp_dataset_to_graph(dataset, &graph, &node));
  dp_status *status = add_result(graph, (dp_input){node->id, 0});
  if (!status)
    status = write_graph(graph, dp_tensor_strings(output));
  dp_graph_destroy(graph);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "DatasetToGraph", .compute = to_graph_compute},
    {.op = "DatasetToGraphV2", .compute = to_graph_compute},
};
DP_KERNEL_FAMILY(dataset_graph, rows);
