/* Fusing element-wise ops: a tree of them, in which each result has one reader, becomes one node.
 * It walks the data once, block by block, instead of once per op. All nodes of a tree are on one
 * device and of one dtype. A value that is fetched, fed or read twice ends a tree. The kernel looks
 * at the shapes when it runs.
 *
 * The fused op is our own. Its attributes hold, for each op, in the order in which they run:
 *   - the op. Of two subtrees the larger one runs first, which needs the fewest blocks;
 *   - two operands: i is input i, -1 - k is the result of op k; 0 for a second that is not there;
 *   - the name of the node that it was, for errors. */
#include <string.h>

#include "planner/optimize_internal.h"
#include "runtime/kernel.h"

enum { MOST_OPS = 32 };

typedef struct elementwise_pass {
  dp_graph_optimizer *o;
  dp_fanout fanout;
} elementwise_pass;

typedef struct elementwise_tree {
  const dp_node *root;
  dp_node *nodes[MOST_OPS];
  int32_t node_count, claimed; /* nodes added so far; those and the ones sure to be added */
  int64_t operands[2 * MOST_OPS];
  dp_input inputs[MOST_OPS + 1]; /* a tree of n nodes with two operands has n + 1 leaves */
  int32_t input_count;
} elementwise_tree;

static bool is_fusable_op(const dp_node *node) {
  static const char *const ops[] = {"Abs",
                                    "Add",
                                    "AddV2",
                                    "Ceil",
                                    "Cos",
                                    "Div",
                                    "DivNoNan",
                                    "Elu",
                                    "EluGrad",
                                    "Erf",
                                    "Exp",
                                    "Expm1",
                                    "Floor",
                                    "FloorDiv",
                                    "Inv",
                                    "InvGrad",
                                    "LeakyRelu",
                                    "LeakyReluGrad",
                                    "Log",
                                    "Log1p",
                                    "Maximum",
                                    "Minimum",
                                    "Mul",
                                    "MulNoNan",
                                    "Neg",
                                    "Pow",
                                    "RealDiv",
                                    "Reciprocal",
                                    "ReciprocalGrad",
                                    "Relu",
                                    "Relu6",
                                    "Relu6Grad",
                                    "ReluGrad",
                                    "Rint",
                                    "Round",
                                    "Rsqrt",
                                    "RsqrtGrad",
                                    "Selu",
                                    "SeluGrad",
                                    "Sigmoid",
                                    "SigmoidGrad",
                                    "Sign",
                                    "Sin",
                                    "Softplus",
                                    "SoftplusGrad",
                                    "Softsign",
                                    "SoftsignGrad",
                                    "Sqrt",
                                    "SqrtGrad",
                                    "Square",
                                    "SquaredDifference",
                                    "Sub",
                                    "Tan",
                                    "Tanh",
                                    "TanhGrad",
                                    "Xdivy",
                                    "Xlogy"};
  for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
    if (dp_node_is(node, ops[i]))
      return true;
  return false;
}

/* Whether the node may be in a tree at all. A node that reads a reference stays as it is, since the
 * value is read at the time when it runs. A NULL source has left the graph: it was fused before. */
static bool is_fusable(const dp_graph *graph, const dp_node *node) {
  dp_dtype type = node->output_count == 1 ? node->output_types[0] : DP_INVALID_DTYPE;
  if ((type != DP_FLOAT && type != DP_DOUBLE) || !is_fusable_op(node))
    return false;
  for (int32_t i = 0; i < node->input_count; i++) {
    const dp_node *from = graph->nodes[node->inputs[i].node];
    bool is_reference = from && dp_dtype_is_ref(from->output_types[node->inputs[i].output]);
    if (node->input_types[i] != type || is_reference)
      return false;
  }
  return true;
}

/* Whether `node`, which `reader` reads, can be computed inside the reader's own node. */
static bool can_join(const elementwise_pass *p, const dp_node *node, const dp_node *reader) {
  if (!node)
    return false;
  int32_t begin = p->fanout.first[node->id];
  return p->fanout.first[node->id + 1] == begin + 1 && p->fanout.edges[begin].input >= 0 &&
         !optimizer_is_end(p->o, node) && node_same_device(node, reader) &&
         node->output_types[0] == reader->output_types[0] && is_fusable(p->o->graph, node);
}

static dp_node *producer(const elementwise_pass *p, const dp_node *node, int32_t input) {
  return p->o->graph->nodes[node->inputs[input].node];
}

/* How many nodes the tree at `node` could have; counts up to about `limit`. */
static int32_t count_tree(const elementwise_pass *p, const dp_node *node, int32_t limit) {
  int32_t count = 1;
  for (int32_t i = 0; i < node->input_count && count < limit; i++)
    if (can_join(p, producer(p, node, i), node))
      count += count_tree(p, producer(p, node, i), limit - count);
  return count;
}

static int64_t add_input(elementwise_tree *tree, dp_input input) {
  for (int32_t i = 0; i < tree->input_count; i++)
    if (tree->inputs[i].node == input.node && tree->inputs[i].output == input.output)
      return i;
  tree->inputs[tree->input_count] = input;
  return tree->input_count++;
}

/* Adds a node after the nodes that it reads; returns the index of its op. The node has been counted
 * in `claimed`. */
static int32_t add_node(const elementwise_pass *p, elementwise_tree *tree, dp_node *node) {
  int64_t operands[2] = {0, 0};
  bool joins[2] = {false, false};
  int32_t sizes[2] = {0, 0};
  for (int32_t i = 0; i < node->input_count; i++) {
    joins[i] = tree->claimed < MOST_OPS && can_join(p, producer(p, node, i), node);
    tree->claimed += joins[i];
    sizes[i] = joins[i] ? count_tree(p, producer(p, node, i), MOST_OPS) : 0;
  }
  int32_t first = sizes[1] > sizes[0];
  for (int32_t k = 0; k < node->input_count; k++) {
    int32_t i = node->input_count == 2 ? k ^ first : k;
    operands[i] = joins[i] ? -1 - (int64_t)add_node(p, tree, producer(p, node, i))
                           : add_input(tree, node->inputs[i]);
  }
  int32_t index = tree->node_count++;
  tree->nodes[index] = node;
  memcpy(&tree->operands[2 * index], operands, sizeof(operands));
  return index;
}

static int32_t fill_attrs(const elementwise_pass *p, elementwise_tree *tree, dp_attr *attrs) {
  int32_t count = tree->node_count;
  dp_view *ops = DP_ARENA_ARRAY(p->o->arena, dp_view, count);
  dp_view *names = DP_ARENA_ARRAY(p->o->arena, dp_view, count);
  float *alphas = DP_ARENA_ARRAY(p->o->arena, float, count);
  for (int32_t i = 0; i < count; i++) {
    const dp_node *node = tree->nodes[i];
    const dp_attr *alpha = dp_node_attr(node, "alpha");
    ops[i] = dp_view_of(node->op->name);
    names[i] = dp_view_of(dp_node_client_name(node));
    alphas[i] = alpha ? (float)alpha->number : 0;
  }
  attrs[0] = attr_int("N", tree->input_count);
  attrs[1] = attr_type("T", tree->root->output_types[0]);
  attrs[2] =
      (dp_attr){.name = "fused_ops", .kind = DP_ATTR_LIST_STRING, .count = count, .strings = ops};
  attrs[3] = (dp_attr){
      .name = "operands", .kind = DP_ATTR_LIST_INT, .count = 2 * count, .integers = tree->operands};
  attrs[4] = (dp_attr){
      .name = "node_names", .kind = DP_ATTR_LIST_STRING, .count = count, .strings = names};
  attrs[5] =
      (dp_attr){.name = "alphas", .kind = DP_ATTR_LIST_FLOAT, .count = count, .numbers = alphas};
  return 6;
}

static dp_status *fuse(elementwise_pass *p, elementwise_tree *tree) {
  dp_attr attrs[6];
  int32_t attr_count = fill_attrs(p, tree, attrs);
  for (int32_t i = 0; i < tree->input_count; i++)
    tree->inputs[i] = dp_rewrite_input(&p->o->rewrite, tree->inputs[i]);
  const char *name = dp_arena_printf(p->o->arena, "%s/fused", tree->root->name);
  dp_node *fused;
  DP_RETURN_IF_ERROR(optimizer_add(p->o, tree->root, "_FusedElementwise", name, tree->inputs,
                                   tree->input_count, attrs, attr_count, &fused));
  for (int32_t i = 0; i < tree->node_count; i++) {
    dp_rewrite_take_controls(&p->o->rewrite, fused, tree->nodes[i]);
    dp_rewrite_replace_one(&p->o->rewrite, tree->nodes[i], (dp_input){fused->id, 0}, fused->id);
  }
  p->o->changes++;
  return NULL;
}

/* Whether a tree ends at the node: no reader can take it into its own tree. */
static bool is_root(const elementwise_pass *p, const dp_node *node) {
  int32_t begin = p->fanout.first[node->id];
  if (optimizer_is_end(p->o, node) || !is_fusable(p->o->graph, node))
    return false;
  if (p->fanout.first[node->id + 1] != begin + 1 || p->fanout.edges[begin].input < 0)
    return true;
  const dp_node *reader = p->o->graph->nodes[p->fanout.edges[begin].node];
  return !reader || !is_fusable(p->o->graph, reader) || !can_join(p, node, reader);
}

dp_status *dp_optimize_elementwise(dp_graph_optimizer *o) {
  if (!dp_kernel_exists("_FusedElementwise"))
    return NULL;
  elementwise_pass p = {.o = o};
  dp_fanout_init(&p.fanout, o->graph);
  int32_t node_count = o->graph->node_count;
  dp_status *status = NULL;
  for (int32_t id = 0; id < node_count && !status; id++) {
    dp_node *node = o->graph->nodes[id];
    if (!node || !is_root(&p, node))
      continue;
    elementwise_tree tree = {.root = node, .claimed = 1};
    add_node(&p, &tree, node);
    if (tree.node_count > 1)
      status = fuse(&p, &tree);
  }
  dp_fanout_deinit(&p.fanout);
  return status;
}
