/* Graphs in memory: made from a GraphDef, rewritten by the planner, compiled by the executor.
 *
 * Nodes are numbered densely. A node knows its inputs (data inputs by slot, control inputs in a
 * list of their own) but not its readers: code that needs them builds a dp_fanout. The memory of
 * nodes, names and attributes is in arenas of the graph. Removing a node leaves NULL in `nodes`;
 * ids of other nodes do not change. A graph has one writer at a time; many threads may read a graph
 * that no longer changes. */
#ifndef DP_GRAPH_GRAPH_H
#define DP_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/memory.h"
#include "base/refcount.h"
#include "graph/attr.h"
#include "graph/op.h"
#include "wire/control.h"

typedef struct dp_graph dp_graph;
typedef struct dp_node dp_node;
typedef struct dp_library dp_library;

/* Output `output` of node number `node`. */
typedef struct dp_input {
  int32_t node;
  int32_t output;
} dp_input;

struct dp_node {
  const char *name;
  const dp_op *op;
  const char *device; /* as requested: "" or a device specification */
  int32_t id;
  int32_t input_count;
  int32_t control_count;
  int32_t output_count;
  int32_t attr_count;
  dp_input *inputs;
  int32_t *controls;          /* ids, sorted, each once */
  const int32_t *input_types; /* dtypes as the op expects them; may be reference types */
  const int32_t *output_types;
  dp_attr *attrs;              /* sorted by name */
  const char *assigned_device; /* full name, set by the planner; NULL before */
  const char *original_name;   /* the client's node for which a pass made this one; or NULL */
};

/* The name under which the client knows the node: errors use it. */
static inline const char *dp_node_client_name(const dp_node *node) {
  return node->original_name ? node->original_name : node->name;
}

/* A hash table from names to ids (open addressing). The names themselves are in the nodes. */
typedef struct dp_name_slot {
  uint32_t hash;
  int32_t id; /* -1: free */
} dp_name_slot;
typedef struct dp_name_index {
  dp_name_slot *slots;
  uint32_t capacity; /* a power of two, or 0 */
  uint32_t count;
} dp_name_index;

typedef DP_ARRAY(dp_tensor *) dp_tensor_array;

struct dp_graph {
  dp_arena *arena;
  dp_node **nodes; /* node_count entries; NULL where one was removed */
  int32_t node_count;
  int32_t node_capacity;
  dp_name_index names; /* ask with dp_graph_find */
  dp_library *library; /* retained; never NULL */
  int32_t producer, min_consumer;
  dp_tensor_array tensors;      /* of attributes; released with the graph */
  DP_ARRAY(dp_arena *) imports; /* one arena per import; that of a failed import is destroyed */
  /* Whether import refuses names that begin with an underscore, which are for nodes that passes
   * make. TensorFlow refuses them in a client's graph. Off unless set. */
  bool refuse_internal_names;
};

/* ---- Creating and destroying ---- */
/* `library` is retained; NULL makes an empty one. */
dp_graph *dp_graph_create(dp_library *library);
void dp_graph_destroy(dp_graph *graph);
/* A copy with the same ids; shares the library and the tensors' buffers. */
dp_graph *dp_graph_copy(const dp_graph *graph);

/* ---- GraphDef in and out ---- */
/* Adds the message's functions and nodes to the graph. Nodes may come in any order and may refer to
 * nodes that the graph has already. Checked are: ops are known; names are valid and unique;
 * attributes are complete, of the right kind and within range; inputs and control inputs exist;
 * inputs have the right dtype; every cycle goes through NextIteration. Missing attributes get the
 * op's defaults. On error the graph is as it was before, and the message names the node. */
DP_MUST_USE dp_status *dp_graph_import(dp_graph *graph, const Tensorflow__GraphDef *message);
/* The message lives in `arena` and borrows from the graph. `with_library` adds the functions. A
 * node's device is the assigned one, or the requested one when none is assigned. */
Tensorflow__GraphDef *dp_graph_export(const dp_graph *graph, dp_arena *arena, bool with_library);
/* As dp_graph_export, but without the attributes that were not given (defaults that import or
 * dp_graph_add filled in). For a genuine TensorFlow as reader: an older version refuses attributes
 * that it does not know, and fills in its own defaults. */
Tensorflow__GraphDef *dp_graph_export_given(const dp_graph *graph, dp_arena *arena,
                                            bool with_library);
/* One node as a message. */
Tensorflow__NodeDef *dp_node_export(const dp_graph *graph, const dp_node *node, dp_arena *arena);

/* ---- Walking ---- */
static inline dp_node *dp_graph_node(const dp_graph *graph, int32_t id) {
  return graph->nodes[id];
}
dp_node *dp_graph_find(const dp_graph *graph, const char *name);
/* Finds the node and output of "name:1"; the output of "name" is 0, that of "^name" is -1.
 * NOT_FOUND or INVALID_ARGUMENT, with TensorFlow's messages. */
DP_MUST_USE dp_status *dp_graph_find_output(const dp_graph *graph, const char *tensor_name,
                                            dp_node **node_out, int32_t *output_out);

/* The readers of all nodes: those of node i are edges[first[i]] up to, not including,
 * edges[first[i + 1]]. */
typedef struct dp_fanout_edge {
  int32_t node;   /* the reader */
  int32_t input;  /* its input slot, -1 for a control edge */
  int32_t output; /* of the node read, -1 for a control edge */
} dp_fanout_edge;
typedef struct dp_fanout {
  int32_t *first;
  dp_fanout_edge *edges;
} dp_fanout;
void dp_fanout_init(dp_fanout *fanout, const dp_graph *graph);
void dp_fanout_deinit(dp_fanout *fanout);
/* Writes the ids in an order in which each node follows its inputs; edges from NextIteration to
 * Merge, which close loops, do not count. Returns how many ids there are: at most node_count. */
int32_t dp_graph_order(const dp_graph *graph, int32_t *ids_out);

/* ---- Building and rewriting (planner, C API, functions) ---- */
typedef struct dp_node_builder {
  const char *name; /* copied */
  const dp_op *op;
  const char *device; /* NULL: "" */
  const dp_input *inputs;
  int32_t input_count;
  const int32_t *controls;
  int32_t control_count;
  const dp_attr *attrs; /* any order; copied to the graph's arena; defaults are filled in */
  int32_t attr_count;
  bool allows_any_name; /* for nodes of TensorFlow's debugger, whose names clients may not use */
} dp_node_builder;
/* Adds a node, with the same checks as import. */
DP_MUST_USE dp_status *dp_graph_add(dp_graph *graph, const dp_node_builder *builder,
                                    dp_node **node_out);
/* A name that starts with `prefix` and is not taken; in the graph's arena. */
const char *dp_graph_unique_name(dp_graph *graph, const char *prefix);
/* No other node may have it as an input or control input any more. */
void dp_graph_remove(dp_graph *graph, dp_node *node);
void dp_node_set_input(dp_node *node, int32_t slot, dp_input input);
void dp_node_add_control(dp_graph *graph, dp_node *node, int32_t control);
void dp_node_remove_control(dp_node *node, int32_t control);
void dp_node_set_attr(dp_graph *graph, dp_node *node, const dp_attr *attr); /* copied, replaces */
dp_attr dp_attr_copy(dp_graph *graph, const dp_attr *attr);
/* Copies a node of another graph into `to`, which has ids of its own. Inputs and controls are
 * zero-filled arrays of the same length, which the caller must set. */
dp_node *dp_graph_clone_node(dp_graph *to, const dp_node *node, const char *name);

/* ---- Attributes of a node ---- */
const dp_attr *dp_node_attr(const dp_node *node, const char *name); /* NULL when absent */
/* Typed reads for kernels and planner; a missing or wrongly typed attribute is INVALID_ARGUMENT
 * with node and attribute named. */
DP_MUST_USE dp_status *dp_node_get_int(const dp_node *node, const char *name, int64_t *value_out);
DP_MUST_USE dp_status *dp_node_get_float(const dp_node *node, const char *name, float *value_out);
DP_MUST_USE dp_status *dp_node_get_bool(const dp_node *node, const char *name, bool *value_out);
DP_MUST_USE dp_status *dp_node_get_type(const dp_node *node, const char *name, dp_dtype *value_out);
DP_MUST_USE dp_status *dp_node_get_string(const dp_node *node, const char *name,
                                          dp_view *value_out);
DP_MUST_USE dp_status *dp_node_get_shape(const dp_node *node, const char *name,
                                         const dp_partial_shape **value_out);
DP_MUST_USE dp_status *dp_node_get_tensor(const dp_node *node, const char *name,
                                          const dp_tensor **value_out);
DP_MUST_USE dp_status *dp_node_get_func(const dp_node *node, const char *name,
                                        const dp_func **value_out);
/* Any list: checks the kind and gives the attribute itself, with its count and items. */
DP_MUST_USE dp_status *dp_node_get_list(const dp_node *node, const char *name, dp_attr_kind kind,
                                        const dp_attr **value_out);
/* The inputs (outputs) that belong to the declared argument `name` are slots [begin, end). */
DP_MUST_USE dp_status *dp_node_input_range(const dp_node *node, const char *name,
                                           int32_t *begin_out, int32_t *end_out);
DP_MUST_USE dp_status *dp_node_output_range(const dp_node *node, const char *name,
                                            int32_t *begin_out, int32_t *end_out);
/* "{{node name}} = Op[attr=value, ...](inputs)": TensorFlow's summary for messages. */
void dp_node_print(const dp_graph *graph, const dp_node *node, dp_text *text);

static inline bool dp_node_is(const dp_node *node, const char *op) {
  return __builtin_strcmp(node->op->name, op) == 0;
}
/* Control-flow ops by name, reference forms included. */
bool dp_node_is_switch(const dp_node *node); /* Switch, RefSwitch, _SwitchN */
bool dp_node_is_merge(const dp_node *node);
bool dp_node_is_enter(const dp_node *node);
bool dp_node_is_exit(const dp_node *node);
bool dp_node_is_next_iteration(const dp_node *node);

/* ---- Functions ---- */
/* Graphs and steps share a library. Functions are only added, never changed; adding a function
 * whose name exists with other contents is an error. Thread-safe. */
typedef struct dp_function {
  dp_op signature;                           /* is_function */
  const Tensorflow__FunctionDef *definition; /* in the library's arena */
  const char *gradient;                      /* name of its gradient function, or NULL */
} dp_function;

dp_library *dp_library_create(void);
dp_library *dp_library_retain(dp_library *library);
void dp_library_release(dp_library *library);
DP_MUST_USE dp_status *dp_library_add(dp_library *library,
                                      const Tensorflow__FunctionDefLibrary *message);
const dp_function *dp_library_find(const dp_library *library, const char *name); /* or NULL */
/* A built-in op, or the signature of a function; NULL when there is neither. */
const dp_op *dp_library_find_op(const dp_library *library, const char *name);
/* A differentiator makes the gradient of `function` and adds it to the library as `name`. A
 * gradient function takes the function's arguments and the gradients of its results, and returns
 * the gradients of its arguments. A higher room sets the one differentiator of the process at
 * start-up.
 */
typedef dp_status *(*dp_differentiate_fn)(dp_library *library, const dp_func *function,
                                          const char *name);
void dp_library_set_differentiator(dp_differentiate_fn differentiate);
/* The gradient of a function, as SymbolicGradient calls it: the gradient that the library names for
 * it, or else one that the differentiator makes. */
DP_MUST_USE dp_status *dp_library_find_gradient(dp_library *library, const dp_func *function,
                                                dp_func *gradient_out);
/* All functions as a message, in `arena`. */
Tensorflow__FunctionDefLibrary *dp_library_export(const dp_library *library, dp_arena *arena);

/* The body of a function as a graph, with the attributes of one call bound. Arguments are _Arg
 * nodes and results _Retval nodes, both with the attributes T and index. The caller owns the graph.
 */
typedef struct dp_function_body {
  dp_graph *graph;
  int32_t argument_count, result_count, control_result_count;
  dp_node **arguments; /* by index; graph's arena */
  dp_node **results;
  dp_node **control_results; /* nodes that must run although no result needs them */
} dp_function_body;
DP_MUST_USE dp_status *dp_function_instantiate(dp_library *library, const dp_func *function,
                                               dp_function_body *body_out);

#endif
