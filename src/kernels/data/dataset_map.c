/* Datasets that call a function of the user for each element: Map, Filter, TakeWhile and Scan; and
 * FlatMap and Interleave, whose function returns a dataset. OUT_OF_RANGE from a function ends the
 * sequence only where TensorFlow lets it (preserve_cardinality is off). ParallelMap is in
 * dataset_prefetch.c. */
#include <string.h>
#include "kernels/data/dataset_internal.h"
#include "kernels/shared/family.h"

#define AUTOTUNE (-1)

typedef struct map_dataset {
  dp_dataset base;
  dp_captured function;
  bool preserve_cardinality;
  bool is_parallel; /* Filter: errors do not name the dataset, as in TensorFlow */
  /* Interleave */
  int64_t cycle_length, block_length;
  int64_t prefetch; /* elements that each inner walk runs ahead; 0: none */
  /* Error messages number an inner walk by its turn in the cycle (counts_turns), by its element
   * modulo `workers` (TensorFlow's workers), or, when `workers` is 0, by its element. */
  bool counts_turns;
  uint64_t workers;
  /* Scan */
  dp_tensor *initial;
  int32_t state_count;
} map_dataset;

static void map_destroy(dp_dataset *base) {
  map_dataset *dataset = (map_dataset *)base;
  dp_captured_deinit(&dataset->function);
  dp_element_destroy(dataset->initial, dataset->state_count);
}

/* ---- Map ---- */
static dp_status *check_results(const dp_dataset *dataset, int32_t count) {
  if (count != dataset->component_count)
    return DP_INVALID("the function gave %d results for %d components", count,
                      dataset->component_count);
  return NULL;
}

static dp_status *map_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                           bool *more_out) {
  map_dataset *dataset = (map_dataset *)base->dataset;
  int32_t input_count = base->dataset->input->component_count;
  dp_tensor *input = dp_element_create(input_count), *results = NULL;
  int32_t count = 0;
  bool more;
  dp_status *status = dp_iterator_next_input(base, walk, input, &more);
  if (!status && more) {
    status = dp_captured_call_wait(&dataset->function, walk, input, input_count, &results, &count);
    if (dp_status_code(status) == DP_OUT_OF_RANGE) {
      if (dataset->preserve_cardinality) {
        dp_status *changed = DP_INVALID("Function invocation produced OutOfRangeError: %s",
                                        dp_status_message(status));
        dp_status_release(status);
        status = changed;
      } else {
        dp_status_release(status);
        status = NULL;
        more = false;
      }
    } else {
      status = dp_iterator_blame(base, status);
    }
    if (!status && more)
      status = check_results(base->dataset, count);
    for (int32_t i = 0; !status && more && i < count; ++i)
      element[i] = dp_tensor_take(&results[i]);
    *more_out = more;
  }
  dp_element_destroy(results, count);
  dp_element_destroy(input, input_count);
  return status;
}

static const dp_iterator_ops map_iterator_ops = {sizeof(dp_iterator), map_next, NULL};

static int64_t map_cardinality(dp_dataset *dataset) {
  return ((map_dataset *)dataset)->preserve_cardinality ? dp_dataset_cardinality(dataset->input)
                                                        : DP_CARDINALITY_UNKNOWN;
}

static const dp_dataset_ops map_ops = {"Map", &map_iterator_ops, map_cardinality, map_destroy};

/* ---- Filter, TakeWhile ---- */
/* Whether the predicate holds for the element. An error names the iterator `blamed`, unless that is
 * NULL. */
static dp_status *holds(const map_dataset *dataset, const dp_walk *walk, const dp_tensor *element,
                        const dp_iterator *blamed, bool *holds_out) {
  dp_tensor *results;
  int32_t count;
  dp_status *status = dp_captured_call_wait(&dataset->function, walk, element,
                                            dataset->base.component_count, &results, &count);
  if (status)
    return blamed ? dp_iterator_blame(blamed, status) : status;
  if (count != 1 || results[0].dtype != DP_BOOL || results[0].shape.elements != 1)
    status = DP_INVALID("Filter predicate `f` must return a scalar bool.");
  else
    *holds_out = *(const bool *)results[0].data;
  dp_element_destroy(results, count);
  return status;
}

static dp_status *filter_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                              bool *more_out) {
  const map_dataset *dataset = (map_dataset *)base->dataset;
  for (;;) {
    bool is_wanted = false;
    DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
    if (!*more_out)
      return NULL;
    DP_RETURN_IF_ERROR(
        holds(dataset, walk, element, dataset->is_parallel ? NULL : base, &is_wanted));
    if (is_wanted)
      return NULL;
    dp_element_clear(element, base->dataset->component_count);
  }
}

static const dp_iterator_ops filter_iterator_ops = {sizeof(dp_iterator), filter_next, NULL};

static const dp_dataset_ops filter_ops = {"Filter", &filter_iterator_ops, NULL, map_destroy};

typedef struct while_iterator {
  dp_iterator base;
  bool ended;
} while_iterator;

static dp_status *while_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                             bool *more_out) {
  while_iterator *iterator = (while_iterator *)base;
  if (iterator->ended)
    return NULL;
  bool goes_on = false;
  DP_RETURN_IF_ERROR(dp_iterator_next_input(base, walk, element, more_out));
  if (*more_out)
    DP_RETURN_IF_ERROR(holds((map_dataset *)base->dataset, walk, element, NULL, &goes_on));
  *more_out = *more_out && goes_on;
  iterator->ended = !*more_out;
  return NULL;
}

static const dp_iterator_ops while_iterator_ops = {sizeof(while_iterator), while_next, NULL};

static const dp_dataset_ops while_ops = {"TakeWhile", &while_iterator_ops, NULL, map_destroy};

/* ---- Scan: the function gives the next state and the element ---- */
typedef struct scan_iterator {
  dp_iterator base;
  dp_tensor *state;
} scan_iterator;

static dp_status *scan_call(scan_iterator *iterator, const dp_walk *walk, const dp_tensor *input,
                            dp_tensor *element) {
  map_dataset *dataset = (map_dataset *)iterator->base.dataset;
  int32_t states = dataset->state_count, inputs = dataset->base.input->component_count;
  dp_tensor *arguments = dp_element_create(states + inputs), *results;
  int32_t count;
  memcpy(arguments, iterator->state, (size_t)states * sizeof(dp_tensor));
  memcpy(arguments + states, input, (size_t)inputs * sizeof(dp_tensor));
  dp_status *status =
      dp_captured_call_wait(&dataset->function, walk, arguments, states + inputs, &results, &count);
  dp_free(arguments);
  DP_RETURN_IF_ERROR(status);
  status = count == states + dataset->base.component_count
               ? NULL
               : DP_INVALID("the function of a scan gave %d results", count);
  for (int32_t i = 0; !status && i < states; ++i) {
    dp_tensor_deinit(&iterator->state[i]);
    iterator->state[i] = dp_tensor_take(&results[i]);
  }
  for (int32_t i = states; !status && i < count; ++i)
    element[i - states] = dp_tensor_take(&results[i]);
  dp_element_destroy(results, count);
  return status;
}

static dp_status *scan_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                            bool *more_out) {
  scan_iterator *iterator = (scan_iterator *)base;
  map_dataset *dataset = (map_dataset *)base->dataset;
  if (!iterator->state) {
    iterator->state = dp_element_create(dataset->state_count);
    for (int32_t i = 0; i < dataset->state_count; ++i)
      iterator->state[i] = dp_tensor_copy(&dataset->initial[i]);
  }
  int32_t inputs = base->dataset->input->component_count;
  dp_tensor *input = dp_element_create(inputs);
  dp_status *status = dp_iterator_next_input(base, walk, input, more_out);
  if (!status && *more_out)
    status = scan_call(iterator, walk, input, element);
  if (dp_status_code(status) == DP_OUT_OF_RANGE && !dataset->preserve_cardinality) {
    dp_status_release(status);
    status = NULL;
    *more_out = false;
  }
  dp_element_destroy(input, inputs);
  return status;
}

static void scan_iterator_destroy(dp_iterator *base) {
  dp_element_destroy(((scan_iterator *)base)->state, ((map_dataset *)base->dataset)->state_count);
}

static const dp_iterator_ops scan_iterator_ops = {sizeof(scan_iterator), scan_next,
                                                  scan_iterator_destroy};

static const dp_dataset_ops scan_ops = {"Scan", &scan_iterator_ops, map_cardinality, map_destroy};

/* ---- FlatMap and Interleave: `cycle_length` inner datasets in turn, `block_length` elements of
 * each. FlatMap is a cycle of one. ---- */
typedef struct interleave_iterator {
  dp_iterator base;
  dp_iterator **inner; /* cycle_length; NULL where none is open */
  int64_t at;          /* the turn: an index into `inner` */
  int64_t block;       /* elements given in this turn */
  int64_t open;
  uint64_t opened; /* inner walks opened so far */
  bool input_ended;
} interleave_iterator;

/* Calls the function for an element and opens an iterator over the dataset that it returns. */
static dp_status *open_inner(dp_iterator *base, const dp_walk *walk, const dp_tensor *element,
                             int64_t place, dp_iterator **inner_out) {
  map_dataset *dataset = (map_dataset *)base->dataset;
  dp_tensor *results;
  int32_t count;
  dp_status *status = dp_captured_call_wait(
      &dataset->function, walk, element, base->dataset->input->component_count, &results, &count);
  if (status)
    return dp_iterator_blame(base, status);
  dp_dataset *inner = NULL;
  if (count != 1 || results[0].dtype != DP_VARIANT || results[0].shape.rank != 0)
    status = DP_INVALID("Function must return a single scalar of dtype DT_VARIANT.");
  if (!status)
    status = dp_dataset_of_tensor(&results[0], &inner);
  if (!status)
    status = check_results(base->dataset, inner->component_count);
  if (!status) {
    *inner_out = dp_iterator_over(base, inner, place);
    if (dataset->prefetch > 0)
      *inner_out = dp_iterator_prefetch(*inner_out, dataset->prefetch);
  }
  dp_element_destroy(results, count);
  return status;
}

/* The number that error messages give to the inner walk that is opened now. */
static int64_t inner_place(interleave_iterator *iterator) {
  const map_dataset *dataset = (map_dataset *)iterator->base.dataset;
  uint64_t element = iterator->opened++;
  if (dataset->counts_turns)
    return iterator->at;
  return (int64_t)(dataset->workers ? element % dataset->workers : element);
}

/* Opens an inner dataset for the current turn from the next element of the input. */
static dp_status *fill_slot(interleave_iterator *iterator, const dp_walk *walk) {
  dp_iterator *base = &iterator->base;
  int32_t inputs = base->dataset->input->component_count;
  dp_tensor *element = dp_element_create(inputs);
  bool more;
  dp_status *status = dp_iterator_next_input(base, walk, element, &more);
  if (!status && !more)
    iterator->input_ended = true;
  if (!status && more) {
    status = open_inner(base, walk, element, inner_place(iterator), &iterator->inner[iterator->at]);
    if (!status)
      ++iterator->open;
  }
  dp_element_destroy(element, inputs);
  return status;
}

static void next_turn(interleave_iterator *iterator, int64_t cycle) {
  iterator->block = 0;
  iterator->at = (iterator->at + 1) % cycle;
}

static dp_status *interleave_next(dp_iterator *base, const dp_walk *walk, dp_tensor *element,
                                  bool *more_out) {
  interleave_iterator *iterator = (interleave_iterator *)base;
  map_dataset *dataset = (map_dataset *)base->dataset;
  if (!iterator->inner)
    iterator->inner = DP_NEW_ARRAY(dp_iterator *, (size_t)dataset->cycle_length + 1);
  while (!iterator->input_ended || iterator->open > 0) {
    dp_iterator **slot = &iterator->inner[iterator->at];
    if (!*slot && !iterator->input_ended)
      DP_RETURN_IF_ERROR(fill_slot(iterator, walk));
    if (!*slot) {
      next_turn(iterator, dataset->cycle_length);
      continue;
    }
    DP_RETURN_IF_ERROR(dp_iterator_next(*slot, walk, element, more_out));
    if (*more_out) {
      if (++iterator->block == dataset->block_length)
        next_turn(iterator, dataset->cycle_length);
      return NULL;
    }
    dp_iterator_destroy(*slot);
    *slot = NULL;
    --iterator->open;
    next_turn(iterator, dataset->cycle_length);
  }
  return NULL;
}

static void interleave_iterator_destroy(dp_iterator *base) {
  interleave_iterator *iterator = (interleave_iterator *)base;
  for (int64_t i = 0; iterator->inner && i < ((map_dataset *)base->dataset)->cycle_length; ++i)
    dp_iterator_destroy(iterator->inner[i]);
  dp_free(iterator->inner);
}

static const dp_iterator_ops interleave_iterator_ops = {
    sizeof(interleave_iterator), interleave_next, interleave_iterator_destroy};

static const dp_dataset_ops interleave_ops = {"Interleave", &interleave_iterator_ops, NULL,
                                              map_destroy};

/* ---- Kernels ---- */
static dp_status *make_mapped(dp_op_context *context, const dp_dataset_ops *ops, const char *attr,
                              map_dataset **dataset_out) {
  dp_dataset *input;
  DP_RETURN_IF_ERROR(dp_dataset_input(context, 0, &input));
  map_dataset *dataset = dp_dataset_create(ops, sizeof(map_dataset), input);
  dp_status *status = dp_captured_init(&dataset->function, context, attr, "other_arguments");
  if (!status)
    status = dp_dataset_components_from_node(&dataset->base, context->node);
  if (!status && dp_node_attr(context->node, "preserve_cardinality"))
    status =
        dp_node_get_bool(context->node, "preserve_cardinality", &dataset->preserve_cardinality);
  if (status) {
    dp_dataset_release(&dataset->base);
    return status;
  }
  *dataset_out = dataset;
  return NULL;
}

static dp_status *map_compute(dp_op_context *context, void *state) {
  map_dataset *dataset;
  DP_RETURN_IF_ERROR(make_mapped(context, &map_ops, "f", &dataset));
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *filter_compute(dp_op_context *context, void *state) {
  map_dataset *dataset;
  DP_RETURN_IF_ERROR(make_mapped(context, &filter_ops, "predicate", &dataset));
  return dp_dataset_output(context, 0, &dataset->base);
}

/* The order is kept, so filtering in parallel would gain nothing over a prefetch after it. */
static dp_status *parallel_filter_compute(dp_op_context *context, void *state) {
  int32_t slot, end;
  int64_t calls;
  DP_RETURN_IF_ERROR(dp_node_input_range(context->node, "num_parallel_calls", &slot, &end));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, slot, "num_parallel_calls", &calls));
  if (calls <= 0 && calls != AUTOTUNE)
    return DP_INVALID("num_parallel_calls must be greater than zero.");
  map_dataset *dataset;
  DP_RETURN_IF_ERROR(make_mapped(context, &filter_ops, "predicate", &dataset));
  dataset->is_parallel = true;
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *while_compute(dp_op_context *context, void *state) {
  map_dataset *dataset;
  DP_RETURN_IF_ERROR(make_mapped(context, &while_ops, "predicate", &dataset));
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *scan_compute(dp_op_context *context, void *state) {
  map_dataset *dataset;
  int32_t begin, end;
  DP_RETURN_IF_ERROR(dp_node_input_range(context->node, "initial_state", &begin, &end));
  DP_RETURN_IF_ERROR(make_mapped(context, &scan_ops, "f", &dataset));
  dataset->state_count = end - begin;
  dataset->initial = dp_element_create(end - begin);
  for (int32_t i = begin; i < end; ++i)
    dataset->initial[i - begin] = dp_tensor_copy(dp_op_input(context, i));
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *flat_map_compute(dp_op_context *context, void *state) {
  map_dataset *dataset;
  DP_RETURN_IF_ERROR(make_mapped(context, &interleave_ops, "f", &dataset));
  dataset->cycle_length = 1;
  dataset->block_length = INT64_MAX;
  return dp_dataset_output(context, 0, &dataset->base);
}

#define MAX_CYCLE (1 << 20)
/* Checks the two buffer sizes, which newer ops may set to AUTOTUNE. *ahead_out gets
 * prefetch_input_elements if the node has it. */
static dp_status *check_buffers(dp_op_context *context, bool may_autotune, int64_t *ahead_out) {
  static const struct {
    const char *name;
    int64_t least;
    const char *text;
  } buffers[] = {{"buffer_output_elements", 1, "> 0"}, {"prefetch_input_elements", 0, ">= 0"}};
  for (int i = 0; i < 2; ++i) {
    int32_t slot, end;
    int64_t count;
    dp_status *absent = dp_node_input_range(context->node, buffers[i].name, &slot, &end);
    if (absent) {
      dp_status_release(absent);
      return NULL;
    }
    DP_RETURN_IF_ERROR(dp_dataset_scalar(context, slot, buffers[i].name, &count));
    if (count < buffers[i].least && !(may_autotune && count == AUTOTUNE))
      return DP_INVALID("`%s` must be %s", buffers[i].name, buffers[i].text);
    *ahead_out = count;
  }
  return NULL;
}

/* Reads the numbers that follow the captured arguments. With `is_parallel`, inner walks may run
 * ahead. */
static dp_status *make_interleaved(dp_op_context *context, bool is_parallel, const char *label) {
  int32_t begin, slot;
  int64_t cycle, block;
  DP_RETURN_IF_ERROR(dp_node_input_range(context->node, "cycle_length", &slot, &begin));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, slot, "cycle_length", &cycle));
  DP_RETURN_IF_ERROR(dp_dataset_scalar(context, slot + 1, "block_length", &block));
  if (cycle == AUTOTUNE)
    cycle = is_parallel ? dp_core_count() : 1;
  int32_t calls_slot;
  dp_status *absent = dp_node_input_range(context->node, "num_parallel_calls", &calls_slot, &begin);
  bool has_calls = !absent;
  dp_status_release(absent);
  if (cycle <= 0)
    return has_calls ? DP_INVALID("`cycle_length` must be `tf.data.AUTOTUNE` or greater than 0 but "
                                  "is %lld",
                                  (long long)cycle)
                     : DP_INVALID("`cycle_length` must be > 0");
  if (cycle > MAX_CYCLE)
    return DP_INVALID("`cycle_length` must be at most %d", MAX_CYCLE);
  if (block <= 0)
    return DP_INVALID("`block_length` must be > 0");
  if (has_calls) {
    int64_t calls;
    DP_RETURN_IF_ERROR(dp_dataset_scalar(context, calls_slot, "num_parallel_calls", &calls));
    if (calls <= 0 && calls != AUTOTUNE)
      return DP_INVALID("num_parallel_calls must be greater than zero.");
    if (calls > cycle)
      return DP_INVALID("If `cycle_length` is set to a fixed value, `num_parallel_calls` must be "
                        "either `tf.data.AUTOTUNE` or a value less than or equal to "
                        "`cycle_length`. However, `num_parallel_calls` is %lld and `cycle_length` "
                        "is %lld",
                        (long long)calls, (long long)cycle);
  }
  int64_t ahead = 0;
  DP_RETURN_IF_ERROR(check_buffers(context, has_calls, &ahead));
  map_dataset *dataset;
  DP_RETURN_IF_ERROR(make_mapped(context, &interleave_ops, "f", &dataset));
  dataset->cycle_length = cycle;
  dataset->block_length = block;
  dataset->prefetch = is_parallel ? (block < 16 ? block : 16) : 0;
  dataset->counts_turns = !is_parallel;
  dataset->workers = is_parallel && !has_calls ? (uint64_t)cycle + (uint64_t)ahead : 0;
  dataset->base.label = label;
  return dp_dataset_output(context, 0, &dataset->base);
}

static dp_status *interleave_compute(dp_op_context *context, void *state) {
  return make_interleaved(context, false, NULL);
}

static dp_status *parallel_interleave_compute(dp_op_context *context, void *state) {
  return make_interleaved(context, true, NULL);
}

static dp_status *legacy_interleave_compute(dp_op_context *context, void *state) {
  return make_interleaved(context, true, "LegacyParallelInterleave");
}

#define ROW(name, body)                                                                            \
  { .op = name, .flags = DP_KERNEL_CHEAP, .compute = body }
static const dp_kernel rows[] = {
    ROW("MapDataset", map_compute),
    ROW("ExperimentalMapDataset", map_compute),
    ROW("FilterDataset", filter_compute),
    ROW("ParallelFilterDataset", parallel_filter_compute),
    ROW("TakeWhileDataset", while_compute),
    ROW("ExperimentalTakeWhileDataset", while_compute),
    ROW("ScanDataset", scan_compute),
    ROW("ExperimentalScanDataset", scan_compute),
    ROW("FlatMapDataset", flat_map_compute),
    ROW("InterleaveDataset", interleave_compute),
    ROW("ParallelInterleaveDatasetV2", parallel_interleave_compute),
    ROW("ParallelInterleaveDatasetV3", parallel_interleave_compute),
    ROW("ParallelInterleaveDatasetV4", parallel_interleave_compute),
    ROW("LegacyParallelInterleaveDatasetV2", parallel_interleave_compute),
    ROW("ParallelInterleaveDataset", legacy_interleave_compute),
    ROW("ExperimentalParallelInterleaveDataset", legacy_interleave_compute),
};
DP_KERNEL_FAMILY(dataset_map, rows);
