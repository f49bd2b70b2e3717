/* ParseExample, ParseExampleV2 and ParseSingleExample: they read attributes and inputs into a
 * config. The parsing is in example_batch.c. */
#include "kernels/shared/family.h"

#include "kernels/data/example_batch_internal.h"
#include "kernels/text/string.h"

/* What the node says, read once. */
typedef struct example_state {
  int32_t sparse_count, dense_count, ragged_count;
  dp_dtype *dtypes; /* sparse, dense, ragged ones */
  dp_partial_shape *shapes;
  char **keys; /* ParseSingleExample has them as attributes: sparse, then dense; else NULL */
} example_state;

/* ---- Reading the node ---- */
static dp_status *add_types(const dp_node *node, const char *name, dp_dtype *to, int32_t *count) {
  const dp_attr *types;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_TYPE, &types));
  for (int32_t i = 0; to && i < types->count; ++i)
    to[i] = (dp_dtype)types->types[i];
  *count = types->count;
  return NULL;
}

static dp_status *read_keys(const dp_node *node, const char *name, int32_t wanted, char **to) {
  const dp_attr *keys;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, name, DP_ATTR_LIST_STRING, &keys));
  if (keys->count != wanted)
    return DP_INVALID("%s must have %d elements, not %d", name, wanted, keys->count);
  for (int32_t i = 0; i < wanted; ++i)
    to[i] = dp_strndup(keys->strings[i].data, keys->strings[i].length);
  return NULL;
}

static dp_status *example_create(const dp_kernel_setup *setup, void *memory) {
  example_state *state = memory;
  const dp_node *node = setup->node;
  bool has_ragged = dp_node_attr(node, "ragged_value_types") != NULL;
  DP_RETURN_IF_ERROR(add_types(node, "sparse_types", NULL, &state->sparse_count));
  DP_RETURN_IF_ERROR(add_types(node, "Tdense", NULL, &state->dense_count));
  if (has_ragged)
    DP_RETURN_IF_ERROR(add_types(node, "ragged_value_types", NULL, &state->ragged_count));
  int32_t sparse = state->sparse_count, dense = state->dense_count, ignored;
  state->dtypes = DP_NEW_ARRAY(dp_dtype, (size_t)(sparse + dense + state->ragged_count) + 1);
  DP_RETURN_IF_ERROR(add_types(node, "sparse_types", state->dtypes, &ignored));
  DP_RETURN_IF_ERROR(add_types(node, "Tdense", state->dtypes + sparse, &ignored));
  if (has_ragged)
    DP_RETURN_IF_ERROR(
        add_types(node, "ragged_value_types", state->dtypes + sparse + dense, &ignored));
  DP_RETURN_IF_ERROR(dp_example_read_shapes(node, state->dense_count, &state->shapes));
  if (!dp_node_attr(node, "dense_keys"))
    return NULL;
  state->keys = DP_NEW_ARRAY(char *, (size_t)(sparse + dense) + 1);
  DP_RETURN_IF_ERROR(read_keys(node, "sparse_keys", sparse, state->keys));
  return read_keys(node, "dense_keys", dense, state->keys + sparse);
}

static void example_destroy(void *memory) {
  example_state *state = memory;
  for (int32_t i = 0; state->keys && i < state->sparse_count + state->dense_count; ++i)
    dp_free(state->keys[i]);
  dp_free(state->keys);
  dp_free(state->dtypes);
  dp_free(state->shapes);
}

/* ---- One run ---- */
typedef struct example_call {
  dp_op_context *context;
  const example_state *state;
  const dp_tensor *serialized, *names;
  dp_example_config config;
} example_call;

/* The key of feature k: an attribute, a scalar input, or an element of a vector input. */
static dp_status *read_key(const example_call *call, int32_t k, int32_t slot, int32_t first,
                           dp_view *out) {
  if (call->state->keys) {
    *out = dp_view_of(call->state->keys[k]);
    return NULL;
  }
  bool is_vector = dp_node_attr(call->context->node, "num_sparse") != NULL;
  const dp_tensor *keys = dp_op_input(call->context, is_vector ? slot : 2 + k);
  int64_t index = is_vector ? k - first : 0;
  if (keys->shape.rank != is_vector || keys->shape.elements <= index)
    return DP_INVALID("Expected %s to be a %s with enough elements, got shape: %s",
                      slot == 2   ? "sparse_keys"
                      : slot == 3 ? "dense_keys"
                                  : "ragged_keys",
                      is_vector ? "vector" : "scalar", dp_shape_text(&keys->shape));
  *out = dp_string_at(keys, index);
  return NULL;
}

static dp_status *read_features(example_call *call) {
  const example_state *state = call->state;
  int32_t ns = state->sparse_count, nd = state->dense_count;
  int32_t defaults = call->context->input_count - nd;
  for (int32_t k = 0; k < call->config.count; ++k) {
    dp_example_feature *feature = &call->config.features[k];
    int32_t first = k < ns ? 0 : k < ns + nd ? ns : ns + nd;
    dp_view key;
    DP_RETURN_IF_ERROR(read_key(call, k, 2 + (int32_t)feature->kind, first, &key));
    dp_example_set_key(&call->config, k, key);
    feature->dtype = state->dtypes[k];
    if (feature->kind == DP_EXAMPLE_DENSE)
      DP_RETURN_IF_ERROR(dp_example_set_dense(&call->config, k - ns, &state->shapes[k - ns],
                                              dp_op_input(call->context, defaults + k - ns)));
    if (feature->kind == DP_EXAMPLE_RAGGED)
      feature->splits = dp_op_output_type(call->context, 2 * ns + k + call->config.ragged_count);
  }
  return NULL;
}

static dp_status *read_inputs(example_call *call) {
  bool is_op_single = call->state->keys != NULL;
  bool is_second = dp_node_attr(call->context->node, "num_sparse") && !is_op_single;
  call->serialized = dp_op_input(call->context, 0);
  const dp_shape *shape = &call->serialized->shape;
  if (is_op_single ? shape->rank != 0 : is_second ? shape->rank > 1 : shape->rank != 1)
    return DP_INVALID("Expected serialized to be a %s, got shape: %s",
                      is_op_single ? "scalar"
                      : is_second  ? "scalar or vector"
                                   : "vector",
                      dp_shape_text(shape));
  if (is_op_single)
    return NULL;
  const dp_tensor *names = dp_op_input(call->context, 1);
  if (names->shape.elements > 0 && names->shape.elements != shape->elements)
    return DP_INVALID("Expected names have the same shape as serialized: name.shape=%s, "
                      "serialized.shape=%s",
                      dp_shape_text(&names->shape), dp_shape_text(shape));
  call->names = names->shape.elements > 0 ? names : NULL;
  return NULL;
}

static dp_status *parse(example_call *call) {
  DP_RETURN_IF_ERROR(read_features(call));
  int32_t count = dp_example_output_count(&call->config);
  dp_tensor *outputs = DP_NEW_ARRAY(dp_tensor, (size_t)count + 1);
  dp_status *status = dp_example_parse(&call->config, call->serialized, call->names,
                                       call->context->step->pool, outputs);
  for (int32_t i = 0; i < count; ++i) {
    if (status)
      dp_tensor_deinit(&outputs[i]);
    else
      dp_op_set_output(call->context, i, &outputs[i]);
  }
  dp_free(outputs);
  return status;
}

static dp_status *example_compute(dp_op_context *context, void *memory) {
  const example_state *state = memory;
  example_call call = {.context = context, .state = state};
  DP_RETURN_IF_ERROR(read_inputs(&call));
  dp_example_config_init(&call.config, state->sparse_count, state->dense_count,
                         state->ragged_count);
  dp_status *status = parse(&call);
  dp_example_config_deinit(&call.config);
  return status;
}

/* clang-format off */
#define ROW(name)                                                                                  \
  {.op = name, .state_size = sizeof(example_state), .create = example_create,                      \
   .compute = example_compute, .destroy = example_destroy}

static const dp_kernel rows[] = {
    ROW("ParseExample"), ROW("ParseExampleV2"), ROW("ParseSingleExample"),
};
/* clang-format on */
DP_KERNEL_FAMILY(example, rows);
