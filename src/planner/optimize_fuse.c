/* Fusing: MatMul or Conv2D, the BiasAdd behind it (or, behind Conv2D, a batch normalization whose
 * statistics are given) and an activation behind that become one node, which writes its result once
 * instead of three times. Each must be the only reader of the one before, and all must be on one
 * device. The fused ops and their attributes are those of TensorFlow's own remapper. A chain is
 * fused only when a kernel here takes the fused op. */
#include <string.h>

#include "planner/optimize_internal.h"
#include "runtime/kernel.h"

/* Of a fused node: two of the root, four of a normalization. */
enum { MOST_INPUTS = 6 };

typedef struct fuse_pass {
  dp_graph_optimizer *o;
  dp_fanout fanout;
} fuse_pass;

/* The links of a chain, in order; activation may be NULL. */
typedef struct fuse_chain {
  dp_node *root, *ending, *activation;
  bool normalizes; /* the ending is a batch normalization */
} fuse_chain;

/* The only reader of the node, if there is just one and it reads slot 0 as data; else NULL. */
static dp_node *only_reader(const fuse_pass *p, const dp_node *node) {
  int32_t begin = p->fanout.first[node->id];
  if (p->fanout.first[node->id + 1] != begin + 1 || optimizer_is_end(p->o, node))
    return NULL;
  const dp_fanout_edge *edge = &p->fanout.edges[begin];
  dp_node *reader = p->o->graph->nodes[edge->node];
  return edge->input == 0 && reader && node_same_device(node, reader) ? reader : NULL;
}

static bool is_activation(const dp_node *node) {
  static const char *const ops[] = {"Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"};
  for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
    if (dp_node_is(node, ops[i]))
      return true;
  return false;
}

static bool has_format(const dp_node *node, const char *format) {
  const dp_attr *attr = dp_node_attr(node, "data_format");
  return !attr || (attr->kind == DP_ATTR_STRING && dp_view_equals(attr->string, format));
}

/* Whether the node is a batch normalization with given statistics of which only output 0 is read.
 */
static bool is_fixed_normalization(const fuse_pass *p, const dp_node *node) {
  if (!dp_node_is(node, "FusedBatchNorm") && !dp_node_is(node, "FusedBatchNormV2") &&
      !dp_node_is(node, "FusedBatchNormV3"))
    return false;
  const dp_attr *training = dp_node_attr(node, "is_training");
  if (!training || training->boolean || !has_format(node, "NHWC") ||
      node->input_types[1] != node->input_types[0])
    return false;
  for (int32_t e = p->fanout.first[node->id]; e < p->fanout.first[node->id + 1]; e++)
    if (p->fanout.edges[e].output != 0)
      return false;
  return true;
}

static bool find_chain(const fuse_pass *p, dp_node *root, fuse_chain *chain) {
  bool is_matmul = dp_node_is(root, "MatMul");
  if (!is_matmul && !(dp_node_is(root, "Conv2D") && has_format(root, "NHWC")))
    return false;
  dp_node *ending = only_reader(p, root);
  if (!ending)
    return false;
  bool normalizes = !is_matmul && is_fixed_normalization(p, ending);
  if (!normalizes && !(dp_node_is(ending, "BiasAdd") && has_format(ending, "NHWC")))
    return false;
  dp_node *activation = only_reader(p, ending);
  if (activation && (!is_activation(activation) || optimizer_is_end(p->o, activation)))
    activation = NULL;
  *chain = (fuse_chain){root, ending, activation, normalizes};
  return activation || !optimizer_is_end(p->o, ending);
}

/* The attributes of the fused node: those of the root that the fused op has, and what is fused. */
static int32_t fill_attrs(const fuse_chain *chain, const dp_op *op, dp_view *names, int32_t *types,
                          dp_attr *attrs) {
  int32_t count = 0;
  for (int32_t i = 0; i < chain->root->attr_count; i++)
    if (dp_op_attr_index(op, chain->root->attrs[i].name) >= 0)
      attrs[count++] = chain->root->attrs[i];
  names[0] = dp_view_of(chain->normalizes ? "FusedBatchNorm" : "BiasAdd");
  if (chain->activation)
    names[1] = dp_view_of(chain->activation->op->name);
  attrs[count++] = (dp_attr){.name = "fused_ops",
                             .kind = DP_ATTR_LIST_STRING,
                             .count = chain->activation ? 2 : 1,
                             .strings = names};
  int32_t arguments = chain->ending->input_count - 1;
  attrs[count++] = attr_int("num_args", arguments);
  for (int32_t i = 0; i < arguments; i++)
    types[i] = chain->root->output_types[0];
  if (dp_op_attr_index(op, "TArgs") >= 0)
    attrs[count++] =
        (dp_attr){.name = "TArgs", .kind = DP_ATTR_LIST_TYPE, .count = arguments, .types = types};
  if (chain->normalizes)
    attrs[count++] = *dp_node_attr(chain->ending, "epsilon");
  const dp_attr *alpha = chain->activation ? dp_node_attr(chain->activation, "alpha") : NULL;
  if (alpha)
    attrs[count++] =
        (dp_attr){.name = "leakyrelu_alpha", .kind = DP_ATTR_FLOAT, .number = alpha->number};
  return count;
}

/* The fused node; NULL when no kernel here runs it. */
static dp_node *add_fused(fuse_pass *p, const fuse_chain *chain) {
  const dp_op *op = dp_op_find(dp_node_is(chain->root, "MatMul") ? "_FusedMatMul" : "_FusedConv2D");
  if (!op || !dp_kernel_exists(op->name))
    return NULL;
  const dp_node *last = chain->activation ? chain->activation : chain->ending;
  dp_view names[2];
  int32_t types[MOST_INPUTS];
  dp_attr *attrs = DP_ARENA_ARRAY(p->o->arena, dp_attr, chain->root->attr_count + 6);
  int32_t attr_count = fill_attrs(chain, op, names, types, attrs);
  dp_input inputs[MOST_INPUTS];
  int32_t input_count = 0;
  for (int32_t i = 0; i < 2; i++)
    inputs[input_count++] = dp_rewrite_input(&p->o->rewrite, chain->root->inputs[i]);
  for (int32_t i = 1; i < chain->ending->input_count; i++)
    inputs[input_count++] = dp_rewrite_input(&p->o->rewrite, chain->ending->inputs[i]);
  const char *name = dp_arena_printf(p->o->arena, "%s/fused", last->name);
  dp_node *fused = NULL;
  dp_status *status =
      optimizer_add(p->o, last, op->name, name, inputs, input_count, attrs, attr_count, &fused);
  const dp_kernel *kernel;
  if (!status)
    status = dp_kernel_find(fused, "CPU", &kernel);
  if (!status)
    return fused;
  dp_status_release(status);
  if (fused)
    dp_graph_remove(p->o->graph, fused);
  return NULL;
}

static void fuse(fuse_pass *p, const fuse_chain *chain) {
  dp_node *fused = add_fused(p, chain);
  if (!fused)
    return;
  dp_node *links[] = {chain->root, chain->ending, chain->activation};
  for (int i = 0; i < 3; i++) {
    if (!links[i])
      continue;
    /* A normalization has several outputs; only output 0 is read. */
    dp_input *outputs = DP_ARENA_ARRAY(p->o->arena, dp_input, links[i]->output_count);
    for (int32_t k = 0; k < links[i]->output_count; k++)
      outputs[k] = (dp_input){fused->id, 0};
    dp_rewrite_take_controls(&p->o->rewrite, fused, links[i]);
    dp_rewrite_replace(&p->o->rewrite, links[i], outputs, fused->id);
  }
  p->o->changes++;
}

dp_status *dp_optimize_fuse(dp_graph_optimizer *o) {
  fuse_pass p = {.o = o};
  dp_fanout_init(&p.fanout, o->graph);
  int32_t node_count = o->graph->node_count;
  for (int32_t id = 0; id < node_count; id++) {
    fuse_chain chain;
    if (o->graph->nodes[id] && find_chain(&p, o->graph->nodes[id], &chain))
      fuse(&p, &chain);
  }
  dp_fanout_deinit(&p.fanout);
  return NULL;
}
