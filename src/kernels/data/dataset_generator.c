/* GeneratorDataset: functions of the user make the elements. `init_func` returns a state when a
 * walk takes its first element. `next_func` makes each element from the state, until it returns
 * OUT_OF_RANGE. `finalize_func` gets the state once: at that end, or when the walk is destroyed
 * earlier. */
#include "base/log.h"
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

typedef struct generator_dataset {
  dp_dataset base;
  dp_captured start, next, finish;
} generator_dataset;

typedef struct generator {
  dp_iterator base;
  dp_tensor *state;
  int32_t state_count;
  bool has_started, has_ended;
} generator;

/* Calls finalize_func; its results are dropped. */
static dp_status *finish(generator *generator, const dp_walk *walk) {
  const generator_dataset *dataset = (generator_dataset *)generator->base.dataset;
  dp_tensor *results;
  int32_t count;
  generator->has_ended = true;
  DP_RETURN_IF_ERROR(dp_captured_call_wait(&dataset->finish, walk, generator->state,
                                           generator->state_count, &results, &count));
  dp_element_destroy(results, count);
  return NULL;
}

static dp_status *take_results(const generator_dataset *dataset, dp_tensor *results, int32_t count,
                               dp_tensor *element) {
  int32_t wanted = dataset->base.component_count;
  for (int32_t i = 0; count == wanted && i < count; ++i)
    element[i] = dp_tensor_take(&results[i]);
  dp_element_destroy(results, count);
  return count == wanted
             ? NULL
             : DP_INVALID("the function gave %d results for %d components", count, wanted);
}

static dp_status *generator_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                                 bool *more_out) {
  generator *generator = (struct generator *)base;
  const generator_dataset *dataset = (generator_dataset *)base->dataset;
  *more_out = !generator->has_ended;
  if (generator->has_ended)
    return NULL;
  if (!generator->has_started)
    DP_RETURN_IF_ERROR(dp_captured_call_wait(&dataset->start, walk, NULL, 0, &generator->state,
                                             &generator->state_count));
  generator->has_started = true;
  dp_tensor *results;
  int32_t count;
  dp_status *status = dp_captured_call_wait(&dataset->next, walk, generator->state,
                                            generator->state_count, &results, &count);
  if (!status)
    return take_results(dataset, results, count, element);
  if (dp_status_code(status) != DP_OUT_OF_RANGE)
    return status;
  dp_status_release(status);
  *more_out = false;
  return finish(generator, walk);
}

static void generator_destroy(dp_iterator *base) {
  generator *generator = (struct generator *)base;
  dp_walk walk = {NULL};
  if (generator->has_started && !generator->has_ended) {
    dp_status *status = finish(generator, &walk);
    if (status)
      DP_LOG(KERNELS, WARN, "a generator was not finished: %s", dp_status_message(status));
    dp_status_release(status);
  }
  dp_element_destroy(generator->state, generator->state_count);
}

static const dp_iterator_ops generator_ops = {sizeof(generator), generator_next, generator_destroy};

static void generator_dataset_destroy(dp_dataset *base) {
  generator_dataset *dataset = (generator_dataset *)base;
  dp_captured_deinit(&dataset->start);
  dp_captured_deinit(&dataset->next);
  dp_captured_deinit(&dataset->finish);
}

static const dp_dataset_ops generator_dataset_ops = {"Generator", &generator_ops, NULL,
                                                     generator_dataset_destroy};

static dp_status *bind(dp_op_context *context, generator_dataset *dataset) {
  DP_RETURN_IF_ERROR(
      dp_captured_init(&dataset->start, context, "init_func", "init_func_other_args"));
  DP_RETURN_IF_ERROR(
      dp_captured_init(&dataset->next, context, "next_func", "next_func_other_args"));
  DP_RETURN_IF_ERROR(
      dp_captured_init(&dataset->finish, context, "finalize_func", "finalize_func_other_args"));
  return dp_dataset_components_from_node(&dataset->base, context->node);
}

static dp_status *generator_compute(dp_op_context *context, void *state) {
  generator_dataset *dataset =
      dp_dataset_create(&generator_dataset_ops, sizeof(generator_dataset), NULL);
  dp_status *status = bind(context, dataset);
  return dp_dataset_finish(context, &dataset->base, status);
}

static const dp_kernel rows[] = {{.op = "GeneratorDataset", .compute = generator_compute}};
DP_KERNEL_FAMILY(dataset_generator, rows);
