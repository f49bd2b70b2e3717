/* Graphs in memory: what a GraphDef becomes, what the planner works on, what the executor compiles.
 *
 * Nodes are numbered densely; a node holds its inputs (data inputs by slot, control inputs apart)
 * and nothing about who reads it: whoever needs fan-outs builds a dp_fanout once. All memory of
 * nodes, names and attributes comes from the graph's arena; removing a node leaves a hole (NULL in
 * `nodes`) and no work. A graph has one writer; many may read one that no longer changes. */
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
  const int32_t *input_types; /* dtype numbers as the op expects them; references have +100 */
  const int32_t *output_types;
  dp_attr *attrs;              /* sorted by name */
  const char *assigned_device; /* full name, set by the planner; NULL before */
  const char *original_name;   /* of the node in the client's graph, when a pass made this one */
};

/* By which the client knows the node: errors name it so. */
static inline const char *dp_node_client_name(const dp_node *node) {
  return node->original_name ? node->original_name : node->name;
}

/* Names to ids: open addressing over the nodes' own names. */
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
  DP_ARRAY(dp_arena *) imports; /* each import's memory: one that fails leaves nothing behind */
  /* Names that begin with an underscore are for nodes that passes make: refuse them on import, as
   * TensorFlow does for what a client sends. Off unless set. */
  bool refuse_internal_names;
};

/* ---- Life ---- */
/* `library` is retained; NULL makes an empty one. */
dp_graph *dp_graph_create(dp_library *library);
void dp_graph_destroy(dp_graph *graph);
/* A copy with the same ids; shares the library and the tensors' buffers. */
dp_graph *dp_graph_copy(const dp_graph *graph);

/* ---- GraphDef in and out ---- */
/* Adds the message's functions and nodes to the graph. Nodes may come in any order and refer to
 * nodes that are there already. Everything is checked (op known, attributes complete, right in kind
 * and within range, inputs present and of the right dtype, no cycle but through NextIteration,
 * control inputs, unique names); attributes that the op defines a default for are filled in. On
 * error nothing was added, and the message names the node. */
DP_MUST_USE dp_status *dp_graph_import(dp_graph *graph, const Tensorflow__GraphDef *message);
/* The message lives in `arena` and borrows from the graph. With `with_library` the functions too. A
 * node's device is the assigned one, or the requested one as long as there is none. */
Tensorflow__GraphDef *dp_graph_export(const dp_graph *graph, dp_arena *arena, bool with_library);
/* The same without the attributes that nobody gave (defaults that import or dp_graph_add filled
 * in). For a genuine TensorFlow as reader: an older one refuses attributes it does not know, and
 * fills in its own defaults. */
Tensorflow__GraphDef *dp_graph_export_given(const dp_graph *graph, dp_arena *arena,
                                            bool with_library);
/* One node as a message. */
Tensorflow__NodeDef *dp_node_export(const dp_graph *graph, const dp_node *node, dp_arena *arena);

/* ---- Walking ---- */
static inline dp_node *dp_graph_node(const dp_graph *graph, int32_t id) {
  return graph->nodes[id];
}
dp_node *dp_graph_find(const dp_graph *graph, const char *name);
/* "name", "name:1" to node and slot (0 without), "^name" to slot -1. NOT_FOUND or INVALID_ARGUMENT,
 * worded as TensorFlow does. */
DP_MUST_USE dp_status *dp_graph_find_output(const dp_graph *graph, const char *tensor_name,
                                            dp_node **node_out, int32_t *output_out);

/* Who reads whom: for node i, readers first[i] .. first[i+1]. */
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
/* Ids in an order where a node follows its inputs (back edges of loops, which come from
 * NextIteration, do not count). node_count entries at most; returns how many. */
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
  bool allows_any_name; /* TensorFlow's debugger gives its nodes names that clients may not give */
} dp_node_builder;
/* Validates like import does. */
DP_MUST_USE dp_status *dp_graph_add(dp_graph *graph, const dp_node_builder *builder,
                                    dp_node **node_out);
/* A name that starts with `prefix` and is not taken; in the graph's arena. */
const char *dp_graph_unique_name(dp_graph *graph, const char *prefix);
/* The caller has made sure that nobody reads it any more. */
void dp_graph_remove(dp_graph *graph, dp_node *node);
void dp_node_set_input(dp_node *node, int32_t slot, dp_input input);
void dp_node_add_control(dp_graph *graph, dp_node *node, int32_t control);
void dp_node_remove_control(dp_node *node, int32_t control);
void dp_node_set_attr(dp_graph *graph, dp_node *node, const dp_attr *attr); /* copied, replaces */
dp_attr dp_attr_copy(dp_graph *graph, const dp_attr *attr);
/* Copies a node of one graph into another (which may have other ids): inputs and controls are the
 * caller's to set afterwards (they are zero-filled arrays of the same counts). */
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
/* Any list: checks the kind, gives the attribute (count and items). */
DP_MUST_USE dp_status *dp_node_get_list(const dp_node *node, const char *name, dp_attr_kind kind,
                                        const dp_attr **value_out);
/* Slots [begin, end) of the inputs (outputs) that the declared argument `name` covers. */
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
/* A library is shared by graph and steps: functions are only added, never changed, and adding one
 * that exists with other contents is an error. Thread-safe. */
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
/* Built-in op or function. */
const dp_op *dp_library_find_op(const dp_library *library, const char *name);
/* The gradient of a function, as SymbolicGradient calls it: the one that the library names for it,
 * or one that the differentiator makes and adds under `name`. It takes the function's arguments and
 * the gradients of its results, and gives the gradients of its arguments. */
typedef dp_status *(*dp_differentiate_fn)(dp_library *library, const dp_func *function,
                                          const char *name);
void dp_library_set_differentiator(dp_differentiate_fn differentiate); /* at start-up */
DP_MUST_USE dp_status *dp_library_find_gradient(dp_library *library, const dp_func *function,
                                                dp_func *gradient_out);
/* All functions as a message, in `arena`. */
Tensorflow__FunctionDefLibrary *dp_library_export(const dp_library *library, dp_arena *arena);

/* Writes the body of `function` with attributes bound as a graph of its own: arguments are _Arg
 * nodes (T, index), results _Retval nodes (T, index); control_ret nodes are listed apart. */
typedef struct dp_function_body {
  dp_graph *graph;
  int32_t argument_count, result_count, control_result_count;
  dp_node **arguments; /* by index; graph's arena */
  dp_node **results;
  dp_node **control_results; /* nodes that must run */
} dp_function_body;
DP_MUST_USE dp_status *dp_function_instantiate(dp_library *library, const dp_func *function,
                                               dp_function_body *body_out);

#endif
