/* The ops of TensorFlow's debugger. Copy keeps a watched value. Debug ops read the copy and write
 * it, or numbers about it, to the files of their debug URLs (storage/debug_dump.h).
 *
 * These ops also run for variables that have no value yet. Such a tensor has a dtype and a shape
 * but no memory, and may only reach ops that know of this case. There are no streams to grpc://
 * URLs here, so the gate of a gated op is never opened. */
#include <math.h>
#include <stdlib.h>
#include "kernels/shared/family.h"
#include "kernels/shared/support.h"
#include "kernels/summary/summary_internal.h"
#include "storage/debug_dump.h"

/* ---- Tensors without memory ---- */
static bool has_value(const dp_tensor *tensor) {
  return tensor->data || dp_tensor_elements(tensor) == 0;
}

/* Whether the output is read by a node that cannot handle tensors without memory. */
static bool has_plain_reader(const dp_graph *graph, const dp_node *node) {
  for (int32_t id = 0; id < graph->node_count; id++) {
    const dp_node *reader = graph->nodes[id];
    for (int32_t i = 0; reader && i < reader->input_count; i++)
      if (reader->inputs[i].node == node->id && !reader->op->allows_uninitialized_input)
        return true;
  }
  return false;
}

static dp_status *pass(dp_op_context *context, const dp_graph *graph) {
  if (!has_value(dp_op_input(context, 0)) && has_plain_reader(graph, context->node))
    return dp_status_create(DP_FAILED_PRECONDITION, "Attempting to use uninitialized value %s",
                            dp_graph_node(graph, context->node->inputs[0].node)->name);
  dp_op_pass(context, 0, 0);
  return NULL;
}

/* ---- Copies ---- */
typedef struct copy_state {
  const dp_graph *graph;
} copy_state;

static dp_status *copy_create(const dp_kernel_setup *setup, void *memory) {
  copy_state *state = memory;
  state->graph = setup->graph;
  const dp_attr *specs;
  DP_RETURN_IF_ERROR(dp_node_get_list(setup->node, "debug_ops_spec", DP_ATTR_LIST_STRING, &specs));
  for (int32_t i = 0; i < specs->count; i++) {
    dp_view spec = specs->strings[i];
    int semicolons = 0;
    for (size_t k = 0; k < spec.length; k++)
      semicolons += spec.data[k] == ';';
    if (semicolons != 2)
      return dp_status_create(DP_INTERNAL,
                              "Unexpected number of semicolons in debug_ops_spec element: %.*s",
                              (int)spec.length, spec.data);
  }
  return NULL;
}

static dp_status *copy_compute(dp_op_context *context, void *memory) {
  const copy_state *state = memory;
  const dp_tensor *from = dp_op_input(context, 0);
  if (!has_value(from) || !dp_dtype_is_plain(from->dtype))
    return pass(context, state->graph);
  dp_tensor *to;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &from->shape, &to));
  dp_tensor_copy_elements(from->dtype, to->data, from->data, dp_tensor_elements(from));
  return NULL;
}

/* ---- What the debug ops have in common ---- */
typedef struct debug_state {
  dp_arena *arena; /* owns the fields below; NULL before create */
  const dp_graph *graph;
  dp_debug_key key;
  dp_debug_urls urls;
  bool is_gated_off;
  float lower_bound, upper_bound;
  bool mute_if_healthy;
} debug_state;

static dp_status *read_text(const dp_node *node, const char *name, dp_arena *arena,
                            const char **text_out) {
  dp_view text;
  DP_RETURN_IF_ERROR(dp_node_get_string(node, name, &text));
  *text_out = dp_arena_strndup(arena, text.data, text.length);
  return NULL;
}

/* "node:slot", or "node" for slot 0. */
static dp_status *read_tensor_name(const dp_node *node, debug_state *state) {
  const char *text;
  DP_RETURN_IF_ERROR(read_text(node, "tensor_name", state->arena, &text));
  char *colon = strchr(text, ':');
  if (!*text || (colon && strchr(colon + 1, ':')))
    return DP_INVALID("Failed to parse tensor name: \"%s\"", text);
  state->key.node = text;
  if (!colon)
    return NULL;
  int64_t slot;
  if (!dp_parse_int64(dp_view_of(colon + 1), &slot) || slot != (int32_t)slot)
    return DP_INVALID("Invalid string value for output_slot: \"%s\"", colon + 1);
  state->key.slot = (int32_t)slot;
  *colon = '\0';
  return NULL;
}

/* The grpc:// URLs of a gated op are ignored. */
static dp_status *read_urls(const dp_node *node, debug_state *state) {
  const dp_attr *list;
  bool is_gated;
  DP_RETURN_IF_ERROR(dp_node_get_list(node, "debug_urls", DP_ATTR_LIST_STRING, &list));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "gated_grpc", &is_gated));
  const char **urls = DP_ARENA_ARRAY(state->arena, const char *, list->count + 1);
  for (int32_t i = 0; i < list->count; i++)
    if (!is_gated || !dp_view_starts_with(list->strings[i], "grpc://"))
      urls[state->urls.count++] =
          dp_arena_strndup(state->arena, list->strings[i].data, list->strings[i].length);
  state->urls.items = urls;
  state->is_gated_off = is_gated && state->urls.count == 0;
  return NULL;
}

static dp_status *debug_create(const dp_kernel_setup *setup, void *memory) {
  debug_state *state = memory;
  const dp_node *node = setup->node;
  state->arena = dp_arena_create();
  state->graph = setup->graph;
  state->key.op = node->op->name;
  state->key.io_of_node = "";
  DP_RETURN_IF_ERROR(read_urls(node, state));
  DP_RETURN_IF_ERROR(read_text(node, "device_name", state->arena, &state->key.device));
  return read_tensor_name(node, state);
}

static void debug_destroy(void *memory) {
  debug_state *state = memory;
  if (state->arena)
    dp_arena_destroy(state->arena);
}

static dp_status *publish(const dp_op_context *context, const debug_state *state,
                          const dp_tensor *tensor) {
  return dp_debug_dump_tensor(&state->key, tensor, context->step->id, state->urls);
}

/* The output of a debug op whose gate is closed. */
static dp_status *output_nothing(dp_op_context *context) {
  dp_shape none = dp_shape_vector(0);
  dp_tensor *output;
  return dp_op_allocate(context, 0, &none, &output);
}

/* ---- The value itself ---- */
static dp_status *identity_v3_create(const dp_kernel_setup *setup, void *memory) {
  debug_state *state = memory;
  DP_RETURN_IF_ERROR(debug_create(setup, state));
  dp_debug_key *key = &state->key;
  DP_RETURN_IF_ERROR(read_text(setup->node, "io_of_node", state->arena, &key->io_of_node));
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "is_input", &key->is_input));
  return dp_node_get_int(setup->node, "io_index", &key->io_index);
}

static dp_status *identity_compute(dp_op_context *context, void *memory) {
  const debug_state *state = memory;
  if (state->is_gated_off)
    return output_nothing(context);
  DP_RETURN_IF_ERROR(publish(context, state, dp_op_input(context, 0)));
  return pass(context, state->graph);
}

/* ---- Numbers about it ---- */
static dp_status *nan_count_compute(dp_op_context *context, void *memory) {
  const debug_state *state = memory;
  if (state->is_gated_off)
    return output_nothing(context);
  const dp_tensor *input = dp_op_input(context, 0);
  int64_t count = 0, elements = input->data ? dp_tensor_elements(input) : 0;
  for (int64_t i = 0; i < elements; i++) {
    double number;
    DP_RETURN_IF_ERROR(dp_summary_number(input, i, &number));
    count += isnan(number) != 0;
  }
  dp_shape one = dp_shape_vector(1);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &one, &output));
  *(int64_t *)output->data = count;
  return publish(context, state, output);
}

static dp_status *summary_create(const dp_kernel_setup *setup, void *memory) {
  debug_state *state = memory;
  DP_RETURN_IF_ERROR(debug_create(setup, state));
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "lower_bound", &state->lower_bound));
  DP_RETURN_IF_ERROR(dp_node_get_float(setup->node, "upper_bound", &state->upper_bound));
  return dp_node_get_bool(setup->node, "mute_if_healthy", &state->mute_if_healthy);
}

/* The elements of the result, in TensorFlow's order; the sizes of the dimensions follow. */
enum {
  IS_INITIALIZED,
  ELEMENTS,
  NANS,
  NEGATIVE_INFINITIES,
  NEGATIVES,
  ZEROS,
  POSITIVES,
  POSITIVE_INFINITIES,
  LEAST,
  MOST,
  MEAN,
  VARIANCE,
  DTYPE,
  RANK,
  FIRST_SIZE
};

/* The class of a finite number. A bound counts only if it is finite. */
static int class_of(const debug_state *state, double number) {
  if (!isinf(state->lower_bound) && number <= state->lower_bound)
    return NEGATIVE_INFINITIES;
  if (!isinf(state->upper_bound) && number >= state->upper_bound)
    return POSITIVE_INFINITIES;
  return number < 0 ? NEGATIVES : number > 0 ? POSITIVES : ZEROS;
}

static dp_status *count_classes(const debug_state *state, const dp_tensor *input, double *summary,
                                int64_t *finite_out) {
  int64_t finite = 0;
  double sum = 0, number;
  for (int64_t i = 0; i < dp_tensor_elements(input); i++) {
    DP_RETURN_IF_ERROR(dp_summary_number(input, i, &number));
    if (!isfinite(number)) {
      summary[isnan(number) ? NANS : number < 0 ? NEGATIVE_INFINITIES : POSITIVE_INFINITIES] += 1;
      continue;
    }
    summary[class_of(state, number)] += 1;
    summary[LEAST] = number < summary[LEAST] ? number : summary[LEAST];
    summary[MOST] = number > summary[MOST] ? number : summary[MOST];
    sum += number;
    finite++;
  }
  if (finite > 0)
    summary[MEAN] = sum / (double)finite;
  *finite_out = finite;
  return NULL;
}

static dp_status *summarize(const debug_state *state, const dp_tensor *input, double *summary) {
  int64_t finite;
  DP_RETURN_IF_ERROR(count_classes(state, input, summary, &finite));
  if (finite == 0)
    return NULL;
  double squares = 0, number;
  for (int64_t i = 0; i < dp_tensor_elements(input); i++) {
    DP_RETURN_IF_ERROR(dp_summary_number(input, i, &number));
    if (isfinite(number))
      squares += (number - summary[MEAN]) * (number - summary[MEAN]);
  }
  summary[VARIANCE] = squares / (double)finite;
  return NULL;
}

static dp_status *summary_compute(dp_op_context *context, void *memory) {
  const debug_state *state = memory;
  if (state->is_gated_off)
    return output_nothing(context);
  const dp_tensor *input = dp_op_input(context, 0);
  dp_shape size = dp_shape_vector(FIRST_SIZE + input->shape.rank);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &size, &output));
  double *summary = output->data;
  for (int i = 0; i < FIRST_SIZE; i++)
    summary[i] = 0;
  summary[LEAST] = INFINITY;
  summary[MOST] = -INFINITY;
  summary[MEAN] = summary[VARIANCE] = NAN;
  summary[DTYPE] = input->dtype;
  summary[RANK] = input->shape.rank;
  for (int i = 0; i < input->shape.rank; i++)
    summary[FIRST_SIZE + i] = (double)input->shape.dims[i];
  if (has_value(input)) {
    summary[IS_INITIALIZED] = 1;
    summary[ELEMENTS] = (double)dp_tensor_elements(input);
    DP_RETURN_IF_ERROR(summarize(state, input, summary));
  }
  bool is_healthy =
      summary[NANS] + summary[NEGATIVE_INFINITIES] + summary[POSITIVE_INFINITIES] == 0;
  return state->mute_if_healthy && is_healthy ? NULL : publish(context, state, output);
}

#define COPY                                                                                       \
  .flags = DP_KERNEL_UNINITIALIZED, .state_size = sizeof(copy_state), .create = copy_create,       \
  .compute = copy_compute
#define DEBUG                                                                                      \
  .flags = DP_KERNEL_UNINITIALIZED | DP_KERNEL_BLOCKING, .state_size = sizeof(debug_state),        \
  .destroy = debug_destroy
static const dp_kernel rows[] = {
    {.op = "Copy", COPY},
    {.op = "CopyHost", COPY},
    {.op = "DebugIdentity", DEBUG, .create = debug_create, .compute = identity_compute},
    {.op = "DebugIdentityV3", DEBUG, .create = identity_v3_create, .compute = identity_compute},
    {.op = "DebugNanCount",
     DEBUG,
     .types = {{"T", DP_SET_REALS}},
     .create = debug_create,
     .compute = nan_count_compute},
    {.op = "DebugNumericSummary",
     DEBUG,
     .types = {{"T", DP_SET_INTEGERS | DP_SET(BOOL) | DP_SET(FLOAT) | DP_SET(DOUBLE)}},
     .create = summary_create,
     .compute = summary_compute},
};
DP_KERNEL_FAMILY(debug, rows);
