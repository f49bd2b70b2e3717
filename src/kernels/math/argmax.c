/* ArgMax and ArgMin: the index of the largest or smallest element along one axis. The shape is seen
 * as [outer, n, inner]; outer slices are split over the pool. Among equal elements the first index
 * wins. */
#include "kernels/shared/family.h"

#include "base/memory.h"
#include "kernels/loops/argmax.h"
#include "kernels/shared/support.h"

typedef struct argmax_state {
  dp_argmax_fn find;
  size_t size;
  dp_dtype index_type;
} argmax_state;

static dp_status *argmax_create(const dp_kernel_setup *setup, void *memory) {
  argmax_state *state = memory;
  dp_dtype dtype;
  DP_RETURN_IF_ERROR(dp_node_get_type(setup->node, "T", &dtype));
  state->index_type = dp_dtype_base(setup->node->output_types[0]);
  bool smallest = dp_node_is(setup->node, "ArgMin");
  state->find = smallest ? dp_argmax_table()->smallest[dtype] : dp_argmax_table()->largest[dtype];
  state->size = dp_dtype_size(dtype);
  return NULL;
}

typedef struct argmax_work {
  const argmax_state *state;
  const char *from;
  char *to;
  int64_t n, inner;
} argmax_work;

static void store(dp_dtype dtype, char *to, const int64_t *best, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == DP_INT64)
      ((int64_t *)to)[i] = best[i];
    else if (dtype == DP_INT32)
      ((int32_t *)to)[i] = (int32_t)best[i];
    else
      ((int16_t *)to)[i] = (int16_t)best[i]; /* and uint16 */
  }
}

static void run(void *arg, int64_t begin, int64_t end) {
  const argmax_work *work = arg;
  const argmax_state *state = work->state;
  size_t index_size = dp_dtype_size(state->index_type);
  int64_t inner = work->inner, *best, space[256], at_once = inner <= 256 ? 256 / inner : 1;
  best = inner <= 256 ? space : dp_malloc(sizeof(int64_t) * (size_t)inner);
  for (int64_t i = begin; i < end; i += at_once) {
    int64_t count = end - i < at_once ? end - i : at_once;
    state->find(work->from + i * work->n * inner * state->size, best, count, work->n, inner);
    store(state->index_type, work->to + i * inner * index_size, best, count * inner);
  }
  if (best != space)
    dp_free(best);
}

static dp_status *argmax_compute(dp_op_context *context, void *memory) {
  const argmax_state *state = memory;
  const dp_tensor *input = dp_op_input(context, 0), *dimension = dp_op_input(context, 1);
  if (dimension->shape.rank != 0)
    return DP_INVALID("dim must be a scalar, but received tensor of shape: %s",
                      dp_shape_text(&dimension->shape));
  int64_t given = dp_tensor_int_at(dimension, 0);
  int rank = input->shape.rank, axis;
  if (!dp_kernel_normalize_axis(given, rank, &axis))
    return DP_INVALID("Expected dimension in the range [%d, %d), but got %lld", -rank, rank,
                      (long long)given);
  if (input->shape.dims[axis] == 0)
    return DP_INVALID("Reduction axis %lld is empty in shape %s", (long long)given,
                      dp_shape_text(&input->shape));
  dp_shape shape = dp_shape_remove(&input->shape, axis);
  dp_tensor *output;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  if (shape.elements == 0)
    return NULL;
  argmax_work work = {state, input->data, output->data, input->shape.dims[axis],
                      dp_shape_product(&input->shape, axis + 1, rank)};
  dp_op_for(context, dp_shape_product(&input->shape, 0, axis), work.n * work.inner + 5, run, &work);
  return NULL;
}

#define SET_ORDERED (DP_SET_REALS | DP_SET(BOOL))
static const dp_kernel rows[] = {
    {.op = "ArgMax",
     .types = {{"T", SET_ORDERED},
               {"Tidx", DP_SET_INDEX | DP_SET(INT16)},
               {"output_type", DP_SET_INDEX | DP_SET(INT16) | DP_SET(UINT16)}},
     .state_size = sizeof(argmax_state),
     .create = argmax_create,
     .compute = argmax_compute},
    {.op = "ArgMin",
     .types = {{"T", SET_ORDERED}, {"Tidx", DP_SET_INDEX}, {"output_type", DP_SET_INDEX}},
     .state_size = sizeof(argmax_state),
     .create = argmax_create,
     .compute = argmax_compute},
};
DP_KERNEL_FAMILY(argmax, rows);
