/* The hash of a pipeline. It is equal for pipelines that are written alike, in every run and
 * process. It differs when an op, an attribute, a constant or a function differs. It names the
 * folders of snapshots.
 *
 * The dataset's graph is hashed node by node, inputs first. A node counts as its op, attributes and
 * inputs; a function counts as its body. Names do not count, because functions get new names in
 * each process. Devices and the seeds of shuffling do not count either, as in TensorFlow. The
 * values are our own: TensorFlow's depend on how each release writes a pipeline, so they differ
 * between releases anyway. Do not change the values, or every snapshot is written again. */
#include <string.h>
#include "base/checksum.h"
#include "base/map.h"
#include "kernels/data/dataset_internal.h"

#define DEEPEST 64 /* levels of nested functions */

/* A function with its attributes. While it is being hashed, a second lookup means recursion. */
typedef struct known_function {
  uint64_t hash;
  bool is_done;
} known_function;

typedef struct hasher {
  dp_library *library;
  dp_map *functions; /* known_function, by name and attributes */
  dp_arena *arena;
  int32_t depth;
} hasher;

static dp_status *hash_function(hasher *hasher, const dp_func *function, uint64_t *hash_out);

static uint64_t mix(uint64_t state, uint64_t value) {
  uint64_t both[2] = {state, value};
  return dp_fingerprint64(both, sizeof both);
}

static uint64_t mix_bytes(uint64_t state, const void *data, size_t length) {
  return mix(state, dp_fingerprint64(data, length));
}

static uint64_t mix_text(uint64_t state, const char *text) {
  return mix_bytes(state, text, strlen(text));
}

/* ---- Attributes ---- */
static uint64_t mix_dims(uint64_t state, int32_t rank, const int64_t *dims) {
  state = mix(state, (uint64_t)(int64_t)rank);
  for (int32_t i = 0; i < rank; ++i)
    state = mix(state, (uint64_t)dims[i]);
  return state;
}

/* Of a handle only the kind counts; the object behind it is elsewhere. */
static uint64_t mix_tensor(uint64_t state, const dp_tensor *tensor) {
  state = mix(state, (uint64_t)tensor->dtype);
  state = mix_dims(state, tensor->shape.rank, tensor->shape.dims);
  if (dp_dtype_is_plain(tensor->dtype))
    return mix_bytes(state, tensor->data, dp_tensor_bytes(tensor));
  if (tensor->dtype == DP_STRING)
    for (int64_t i = 0; i < dp_tensor_elements(tensor); ++i) {
      dp_view view = dp_tstring_view(&dp_tensor_strings(tensor)[i]);
      state = mix_bytes(state, view.data, view.length);
    }
  return state;
}

static dp_status *mix_value(hasher *hasher, const dp_attr *value, uint64_t *state) {
  uint64_t function;
  switch ((int)value->kind) {
  case DP_ATTR_STRING:
    *state = mix_bytes(*state, value->string.data, value->string.length);
    break;
  case DP_ATTR_INT:
    *state = mix(*state, (uint64_t)value->integer);
    break;
  case DP_ATTR_FLOAT:
    *state = mix_bytes(*state, &value->number, sizeof value->number);
    break;
  case DP_ATTR_BOOL:
    *state = mix(*state, value->boolean);
    break;
  case DP_ATTR_TYPE:
    *state = mix(*state, (uint64_t)value->type);
    break;
  case DP_ATTR_SHAPE:
    *state = mix_dims(*state, value->shape->rank, value->shape->dims);
    break;
  case DP_ATTR_TENSOR:
    *state = mix_tensor(*state, value->tensor);
    break;
  case DP_ATTR_FUNC:
    DP_RETURN_IF_ERROR(hash_function(hasher, value->func, &function));
    *state = mix(*state, function);
    break;
  }
  return NULL;
}

static dp_status *mix_attr(hasher *hasher, const dp_attr *attr, uint64_t *state) {
  *state = mix(mix_text(*state, attr->name), (uint64_t)attr->kind);
  if (!(attr->kind & DP_ATTR_LIST))
    return mix_value(hasher, attr, state);
  *state = mix(*state, (uint64_t)attr->count);
  for (int32_t i = 0; i < attr->count; ++i) {
    dp_attr item = dp_attr_item(attr, i);
    DP_RETURN_IF_ERROR(mix_value(hasher, &item, state));
  }
  return NULL;
}

/* ---- Nodes ---- */
/* The hashes of a graph's nodes, indexed by node number. */
typedef struct node_hashes {
  const dp_graph *graph;
  uint64_t *values;
  bool *are_known;
  bool has_loops;
} node_hashes;

/* Only attributes that the op declares count, but not those with the default value (other releases
 * may omit them) nor the metadata that Python adds to datasets. */
static bool counts(const dp_op_attr *declared, const dp_attr *attr) {
  if (!attr || !declared->has_default)
    return attr;
  return strcmp(declared->name, "metadata") != 0 && !dp_attr_equal(attr, &declared->default_value);
}

/* The hash of a node without its inputs. */
static dp_status *hash_alone(hasher *hasher, const dp_node *node, uint64_t *hash_out) {
  if (node->op->is_function) {
    dp_func function = {node->op->name, node->attr_count, node->attrs};
    return hash_function(hasher, &function, hash_out);
  }
  *hash_out = mix_text(0, node->op->name);
  for (int32_t i = 0; i < node->op->attr_count; ++i) {
    const dp_op_attr *declared = &node->op->attrs[i];
    const dp_attr *attr = dp_node_attr(node, declared->name);
    if (counts(declared, attr))
      DP_RETURN_IF_ERROR(mix_attr(hasher, attr, hash_out));
  }
  return NULL;
}

static bool has_prefix(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Whether input `slot` is the seed of a shuffling op. */
static bool is_seed(const dp_node *node, int32_t slot) {
  const char *op = node->op->name;
  if (slot >= node->op->input_count ||
      (!has_prefix(op, "ShuffleDataset") && !has_prefix(op, "ShuffleAndRepeatDataset") &&
       !has_prefix(op, "AnonymousRandomSeedGenerator")))
    return false;
  return has_prefix(node->op->inputs[slot].name, "seed");
}

static uint64_t hash_of_input(node_hashes *hashes, dp_input input) {
  if (!hashes->are_known[input.node]) {
    hashes->has_loops = true;
    return 0;
  }
  return mix(hashes->values[input.node], (uint64_t)input.output);
}

static dp_status *hash_node(hasher *hasher, node_hashes *hashes, const dp_node *node) {
  uint64_t hash, controls = 0;
  DP_RETURN_IF_ERROR(hash_alone(hasher, node, &hash));
  for (int32_t i = 0; i < node->input_count; ++i)
    if (!is_seed(node, i))
      hash = mix(hash, hash_of_input(hashes, node->inputs[i]));
  for (int32_t i = 0; i < node->control_count; ++i) /* the order does not count */
    controls += hash_of_input(hashes, (dp_input){node->controls[i], -1});
  hashes->values[node->id] = mix(hash, controls);
  hashes->are_known[node->id] = true;
  return NULL;
}

static dp_status *hash_nodes(hasher *hasher, const dp_graph *graph, node_hashes *hashes) {
  size_t count = (size_t)graph->node_count;
  int32_t *order = dp_malloc(sizeof *order * (count + 1));
  dp_status *status = NULL;
  *hashes =
      (node_hashes){graph, DP_NEW_ARRAY(uint64_t, count + 1), DP_NEW_ARRAY(bool, count + 1), false};
  int32_t ordered = dp_graph_order(graph, order);
  for (int32_t i = 0; i < ordered && !status; ++i)
    status = hash_node(hasher, hashes, dp_graph_node(graph, order[i]));
  dp_free(order);
  return status;
}

static void hashes_deinit(node_hashes *hashes) {
  dp_free(hashes->values);
  dp_free(hashes->are_known);
}

/* ---- Functions ---- */
static uint64_t hash_results(const node_hashes *hashes, const dp_function_body *body) {
  uint64_t hash = mix(0, (uint64_t)body->argument_count), others = 0;
  for (int32_t i = 0; i < body->result_count; ++i)
    hash = mix(hash, hashes->values[body->results[i]->id]);
  for (int32_t i = 0; i < body->control_result_count; ++i)
    others += hashes->values[body->control_results[i]->id];
  if (hashes->has_loops) /* results may not depend on all nodes of a loop */
    for (int32_t i = 0; i < hashes->graph->node_count; ++i)
      others += hashes->values[i];
  return mix(hash, others);
}

static dp_status *hash_body(hasher *hasher, const dp_func *function, uint64_t *hash_out) {
  dp_function_body body;
  node_hashes hashes;
  if (hasher->depth == DEEPEST)
    return DP_INVALID("Functions of a dataset are nested more than %d deep", DEEPEST);
  DP_RETURN_IF_ERROR(dp_function_instantiate(hasher->library, function, &body));
  ++hasher->depth;
  dp_status *status = hash_nodes(hasher, body.graph, &hashes);
  if (!status)
    *hash_out = hash_results(&hashes, &body);
  --hasher->depth;
  hashes_deinit(&hashes);
  dp_graph_destroy(body.graph);
  return status;
}

static dp_status *hash_function(hasher *hasher, const dp_func *function, uint64_t *hash_out) {
  uint64_t attrs = 0;
  for (int32_t i = 0; i < function->attr_count; ++i)
    DP_RETURN_IF_ERROR(mix_attr(hasher, &function->attrs[i], &attrs));
  uint64_t key[2] = {dp_fingerprint64(function->name, strlen(function->name)), attrs};
  known_function *known = dp_map_get_n(hasher->functions, key, sizeof key);
  if (!known) {
    known = DP_ARENA_ARRAY(hasher->arena, known_function, 1);
    *known = (known_function){0};
    dp_map_put_n(hasher->functions, key, sizeof key, known);
    DP_RETURN_IF_ERROR(hash_body(hasher, function, &known->hash));
    known->hash = mix(known->hash, attrs);
    known->is_done = true;
  }
  *hash_out = known->is_done ? known->hash : mix_text(0, "itself");
  return NULL;
}

dp_status *dp_dataset_hash(const dp_dataset *dataset, uint64_t *hash_out) {
  dp_graph *graph;
  dp_node *node;
  node_hashes hashes;
  DP_RETURN_IF_ERROR(dp_dataset_to_graph(dataset, &graph, &node));
  hasher hasher = {graph->library, dp_map_create(), dp_arena_create(), 0};
  dp_status *status = hash_nodes(&hasher, graph, &hashes);
  if (!status)
    *hash_out = hashes.values[node->id];
  hashes_deinit(&hashes);
  dp_map_destroy(hasher.functions);
  dp_arena_destroy(hasher.arena);
  dp_graph_destroy(graph);
  return status;
}
