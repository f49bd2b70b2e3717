/* Functions that the files of the graph room share: memory for attribute values, the name index,
 * validation of a node, conversion from and to messages, references in function bodies. */
#ifndef DP_GRAPH_GRAPH_INTERNAL_H
#define DP_GRAPH_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* The version of graphs that TensorFlow 2.21 writes and reads. */
#define DP_GRAPH_VERSION 2474

/* The most outputs that all nodes of one message or function body may have together. A number
 * attribute asks for many outputs in a few bytes, so the size of the message does not bound them.
 */
#define DP_GRAPH_MOST_VALUES (INT64_C(16) << 20)

/* ---- Attributes (attr.c, attr_message.c) ---- */
/* Memory for attribute values: an arena, and the list of tensors whose buffers its owner must
 * release before the arena goes. */
typedef struct dp_attr_store {
  dp_arena *arena;
  dp_tensor_array *tensors;
} dp_attr_store;

void dp_tensor_array_release(dp_tensor_array *tensors);
/* A deep copy. Tensors share their buffers. The copy points to the same name. */
dp_attr dp_attr_store_copy(const dp_attr_store *store, const dp_attr *attr);
/* Reads a message. The kind follows from the field that is set: an empty list is DP_ATTR_LIST, an
 * absent value or message (NULL) is DP_ATTR_NONE. */
DP_MUST_USE dp_status *dp_attr_from_message(const dp_attr_store *store,
                                            const Tensorflow__AttrValue *message,
                                            dp_attr *attr_out);
Tensorflow__AttrValue *dp_attr_to_message(const dp_attr *attr, dp_arena *arena);
/* Sorts by name and removes duplicates: the last attribute with a name stays, as in a protobuf map.
 * Returns how many stay. */
int32_t dp_attr_sort(dp_attr *attrs, int32_t count);
const dp_attr *dp_attr_find(const dp_attr *attrs, int32_t count, const char *name);

/* ---- Ops from messages (op_message.c) ---- */
/* Reads the signature of a function, with the checks that TensorFlow makes of op definitions. */
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
/* Splits "name:3", "name" or "^name" into the name, which is returned as a view into `text`, and
 * the output: 0 without a number, -1 for a control input. */
dp_view dp_parse_input(const char *text, int32_t *output_out);

/* ---- Validation (validate.c) ---- */
/* Completes a node whose name, op and input_count are set. Checks the given attributes (sorted,
 * each once) and corrects the kinds of empty lists in place; adds defaults; sets the types of
 * inputs and outputs; checks the number of inputs, or sets it when input_count is -1. Arrays come
 * from `arena`; the attributes' values are not copied. `values_left` may be NULL; else it is how
 * many more values may be made. It is reduced by the node's outputs, and by its inputs when
 * input_count was -1. */
DP_MUST_USE dp_status *dp_node_complete(dp_arena *arena, dp_node *node, dp_attr *given,
                                        int32_t given_count, int64_t *values_left);
/* Checks whether output `output` of `source` may be input `slot` of `node`. */
DP_MUST_USE dp_status *dp_node_check_input(const dp_node *node, int32_t slot, const dp_node *source,
                                           int32_t output);
/* Checks kind, dtype, minimum and allowed values of one attribute; corrects the kind of an empty
 * list. */
DP_MUST_USE dp_status *dp_attr_check(dp_attr *attr, const dp_op_attr *definition);
/* Checks only the kind; corrects that of an empty list. */
DP_MUST_USE dp_status *dp_attr_check_kind(dp_attr *attr, dp_attr_kind kind);
/* How many values the argument stands for, given the node's attributes. */
DP_MUST_USE dp_status *dp_arg_count(const dp_op *op, const dp_op_arg *arg, const dp_attr *attrs,
                                    int32_t attr_count, int32_t *count_out);
/* The dtype of value `index` of an argument, as a base type even when the argument is a reference.
 */
int32_t dp_arg_type(const dp_op *op, const dp_op_arg *arg, const dp_attr *attrs, int32_t attr_count,
                    int32_t index);
/* Consumes `status` and appends the node as TensorFlow does: "\n\t [[{{node name}}]]". */
dp_status *dp_node_attach(dp_status *status, const char *name);
/* Sorts the ids and removes duplicates; returns how many stay. */
int32_t dp_controls_sort(int32_t *controls, int32_t count);

/* ---- Cycles (order.c) ---- */
/* The number of nodes that are on a cycle without NextIteration, or that depend on such a cycle.
 * The nodes before `first` are known to be free of cycles. */
int32_t dp_graph_count_cyclic(const dp_graph *graph, int32_t first);

/* ---- Libraries (library.c) ---- */
typedef DP_ARRAY(const char *) dp_name_array;
/* What one call of dp_library_add_listing added, for dp_library_undo: the names of new functions,
 * and the names of functions that got a gradient. */
typedef struct dp_library_addition {
  dp_name_array functions;
  dp_name_array gradients;
} dp_library_addition;
DP_MUST_USE dp_status *dp_library_add_listing(dp_library *library,
                                              const Tensorflow__FunctionDefLibrary *message,
                                              dp_library_addition *added);
/* Removes what a failed import added. Its memory stays until the library goes, because a step may
 * have looked up a function in the meantime. */
void dp_library_undo(dp_library *library, const dp_library_addition *added);

/* Finds the entry with a key in a map of a function's definition (which is sorted); or NULL. */
void *dp_find_entry(size_t count, void *entries, const char *key);
void *dp_find_numbered_entry(size_t count, void *entries, uint32_t key);

/* ---- References inside function bodies (function_index.c) ---- */
/* The values that "x", "x:1", "node:out" or "node:out:2" in a function body stands for. There are
 * `count` of them. For an argument they are output 0 of the nodes `node`, `node` + 1 and so on;
 * else they are the outputs `output`, `output` + 1 and so on of `node`. */
typedef struct dp_body_value {
  int32_t node;
  int32_t output;
  int32_t count;
  bool is_argument;
} dp_body_value;

typedef struct dp_body_index dp_body_index;
dp_body_index *dp_body_index_create(dp_graph *graph);
void dp_body_index_destroy(dp_body_index *index);
/* The argument `name` became the nodes [first, first + count). False when the name is taken. */
bool dp_body_index_add_argument(dp_body_index *index, const char *name, int32_t first,
                                int32_t count);
/* False when the reference names neither an argument nor an output. */
bool dp_body_index_find(const dp_body_index *index, const char *reference,
                        dp_body_value *value_out);
/* A node or an argument by its bare name; -1 when there is none. */
int32_t dp_body_index_find_node(const dp_body_index *index, const char *name);

#endif
