/* What the files of the graph room share: where attributes keep their memory, the name index,
 * validation of a node, conversion from and to messages. */
#ifndef DP_GRAPH_GRAPH_INTERNAL_H
#define DP_GRAPH_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* The version of graphs that TensorFlow 2.21 writes and reads. */
#define DP_GRAPH_VERSION 2474

/* What all nodes of one message or function body together may have as outputs. */
#define DP_GRAPH_MOST_VALUES (INT64_C(16) << 20)

/* ---- Attributes (attr.c, attr_message.c) ---- */
/* Memory for attribute values: an arena, and the list of tensors whose buffers its owner must
 * release before the arena goes. */
typedef struct dp_attr_store {
  dp_arena *arena;
  dp_tensor_array *tensors;
} dp_attr_store;

void dp_tensor_array_release(dp_tensor_array *tensors);
/* A deep copy. Tensors share their buffers. The name is not copied but taken over. */
dp_attr dp_attr_store_copy(const dp_attr_store *store, const dp_attr *attr);
/* From a message; the kind follows from what is set. An empty list has the kind DP_ATTR_LIST, an
 * absent value (NULL too) DP_ATTR_NONE. */
DP_MUST_USE dp_status *dp_attr_from_message(const dp_attr_store *store,
                                            const Tensorflow__AttrValue *message,
                                            dp_attr *attr_out);
Tensorflow__AttrValue *dp_attr_to_message(const dp_attr *attr, dp_arena *arena);
/* Sorts by name and keeps the last of several with one name, as a map would; returns how many. */
int32_t dp_attr_sort(dp_attr *attrs, int32_t count);
const dp_attr *dp_attr_find(const dp_attr *attrs, int32_t count, const char *name);

/* ---- Ops from messages (op_message.c) ---- */
/* A function's signature, checked as TensorFlow checks op definitions. */
DP_MUST_USE dp_status *dp_op_from_message(const dp_attr_store *store,
                                          const Tensorflow__OpDef *message, dp_op *op_out);
dp_status *dp_op_unknown(const char *name);

/* ---- Names (names.c) ---- */
uint32_t dp_name_hash(const char *name, size_t length);
/* An id, or -1. */
int32_t dp_names_find(const dp_graph *graph, const char *name, size_t length, uint32_t hash);
void dp_names_reserve(dp_graph *graph, uint32_t count);
/* The node must be in graph->nodes already, and its name not in the index. */
void dp_names_insert(dp_graph *graph, const dp_node *node, uint32_t hash);
void dp_names_remove(dp_graph *graph, const dp_node *node);
bool dp_name_is_valid(const char *name, bool allow_internal);
void dp_graph_reserve(dp_graph *graph, int32_t nodes);
/* "name:3", "name", "^name": the length of the name, and the slot (-1 for a control input). The
 * name of a control input starts behind the '^'. */
dp_view dp_parse_input(const char *text, int32_t *output_out);

/* ---- Validation (validate.c) ---- */
/* Completes a node whose name, op and input_count are set: checks the given attributes (sorted,
 * each once; kinds of empty lists are corrected in place), adds defaults, works out the types of
 * inputs and outputs, and compares the number of inputs. Memory comes from `arena`; values of
 * attributes are taken over as they are. An input_count of -1 is filled in instead of compared.
 * `values_left`, when not NULL, bounds how many outputs (and inputs so filled in) may still be
 * made: a number attribute makes them cheap to ask for. */
DP_MUST_USE dp_status *dp_node_complete(dp_arena *arena, dp_node *node, dp_attr *given,
                                        int32_t given_count, int64_t *values_left);
/* Whether output `input.output` of `source` may feed slot `slot` of `node`. */
DP_MUST_USE dp_status *dp_node_check_input(const dp_node *node, int32_t slot, const dp_node *source,
                                           int32_t output);
/* The kind, dtype, minimum and allowed values of one attribute; corrects the kind of an empty
 * list. */
DP_MUST_USE dp_status *dp_attr_check(dp_attr *attr, const dp_op_attr *definition);
/* Just the kind. */
DP_MUST_USE dp_status *dp_attr_check_kind(dp_attr *attr, dp_attr_kind kind);
/* How many values the argument stands for, given the node's attributes. */
DP_MUST_USE dp_status *dp_arg_count(const dp_op *op, const dp_op_arg *arg, const dp_attr *attrs,
                                    int32_t attr_count, int32_t *count_out);
/* The dtype of its value `index`, without the mark of a reference. */
int32_t dp_arg_type(const dp_op *op, const dp_op_arg *arg, const dp_attr *attrs, int32_t attr_count,
                    int32_t index);
/* Consumes `status`; adds where it happened as TensorFlow does: "\n\t [[{{node name}}]]". */
dp_status *dp_node_attach(dp_status *status, const char *name);
/* Ids sorted, each once; returns how many. */
int32_t dp_controls_sort(int32_t *controls, int32_t count);

/* ---- Cycles (order.c) ---- */
/* Number of nodes from `first` on that lie on or behind a cycle without NextIteration. */
int32_t dp_graph_count_cyclic(const dp_graph *graph, int32_t first);

/* ---- Libraries (library.c) ---- */
typedef DP_ARRAY(const char *) dp_name_array;
/* What an add brought, for dp_library_undo: names of functions, and of functions that got a
 * gradient. */
typedef struct dp_library_addition {
  dp_name_array functions;
  dp_name_array gradients;
} dp_library_addition;
DP_MUST_USE dp_status *dp_library_add_listing(dp_library *library,
                                              const Tensorflow__FunctionDefLibrary *message,
                                              dp_library_addition *added);
/* Forgets what an import added before it failed. The memory stays: a step may have looked up a
 * function in the meantime. */
void dp_library_undo(dp_library *library, const dp_library_addition *added);

/* The maps of a function's definition are sorted: the entry with that key, or NULL. */
void *dp_find_entry(size_t count, void *entries, const char *key);
void *dp_find_numbered_entry(size_t count, void *entries, uint32_t key);

/* ---- References inside function bodies (function_index.c) ---- */
/* What "x", "x:1", "node:out" or "node:out:2" in a function body stands for: `count` values, either
 * output 0 of the nodes `node`, `node` + 1... (an argument) or the outputs `output`, `output`
 * + 1... of `node`. */
typedef struct dp_body_value {
  int32_t node;
  int32_t output;
  int32_t count;
  bool is_argument;
} dp_body_value;

typedef struct dp_body_index dp_body_index;
dp_body_index *dp_body_index_create(dp_graph *graph);
void dp_body_index_destroy(dp_body_index *index);
/* The argument `name` became nodes first .. first + count. False when it is there already. */
bool dp_body_index_add_argument(dp_body_index *index, const char *name, int32_t first,
                                int32_t count);
/* False when nothing is called so. */
bool dp_body_index_find(const dp_body_index *index, const char *reference,
                        dp_body_value *value_out);
/* A node or an argument by its bare name; -1 when there is none. */
int32_t dp_body_index_find_node(const dp_body_index *index, const char *name);

#endif
