/* The ops of linear models trained by stochastic dual coordinate ascent: SdcaOptimizer (both
 * versions) passes once over a batch of examples, SdcaShrinkL1 shrinks the weights at the end,
 * SdcaFprint hashes the names of examples.
 *
 * Examples are visited in a random order. In adaptive mode they are drawn by how much there is to
 * gain from each. The random order differs from run to run, as in TensorFlow. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/checksum.h"
#include "base/memory.h"
#include "kernels/models/alias_internal.h"
#include "kernels/models/sdca_internal.h"
#include "kernels/shared/family.h"
#include "kernels/shared/io.h"
#include "kernels/shared/variable.h"

/* ---- Shrinking: towards 0 by l1 / l2, not beyond 0 ---- */
typedef struct regularization {
  float l2;
  double shrinkage;
} regularization;

static dp_status *read_regularization(const dp_node *node, regularization *regularization) {
  float l1;
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "l1", &l1));
  DP_RETURN_IF_ERROR(dp_node_get_float(node, "l2", &regularization->l2));
  regularization->shrinkage = (double)(l1 / regularization->l2);
  return NULL;
}

static double shrink(const regularization *regularization, double weight) {
  double size = fabs(weight) - regularization->shrinkage;
  return size > 0 ? copysign(size, weight) : 0;
}

static float shrink_float(const regularization *regularization, float weight) {
  float size = fabsf(weight) - (float)regularization->shrinkage;
  return (float)((weight > 0) - (weight < 0)) * (size > 0 ? size : 0);
}

/* ---- SdcaOptimizer ---- */
typedef struct optimizer_state {
  const dp_sdca_loss *loss;
  dp_sdca_counts counts;
  int64_t partitions;
  bool is_adaptive;
  regularization regularization;
} optimizer_state;

static dp_status *optimizer_create(const dp_kernel_setup *setup, void *memory) {
  optimizer_state *state = memory;
  const dp_node *node = setup->node;
  dp_view loss;
  bool is_first = dp_node_is(node, "SdcaOptimizer");
  DP_RETURN_IF_ERROR(dp_node_get_string(node, "loss_type", &loss));
  state->loss = dp_sdca_loss_find(loss);
  if (!state->loss)
    return DP_INVALID("Unsupported loss type: %.*s", (int)loss.length, loss.data);
  DP_RETURN_IF_ERROR(
      dp_node_get_bool(node, is_first ? "adaptative" : "adaptive", &state->is_adaptive));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "num_sparse_features", &state->counts.sparse));
  DP_RETURN_IF_ERROR(
      dp_kernel_get_int32(node, "num_sparse_features_with_values", &state->counts.with_values));
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "num_dense_features", &state->counts.dense));
  if (state->counts.sparse + state->counts.dense <= 0)
    return DP_INVALID("Requires at least one feature to train.");
  DP_RETURN_IF_ERROR(dp_kernel_get_int32(node, "num_loss_partitions", &state->partitions));
  return read_regularization(node, &state->regularization);
}

/* One run. */
typedef struct optimizer_call {
  const optimizer_state *state;
  dp_sdca_batch batch;
  float (*examples)[4]; /* per example: dual, primal loss, dual loss, weight */
} optimizer_call;

/* Predictions with the weights before the run (`previous`) and with the current ones. */
typedef struct predictions {
  double now, previous;
} predictions;

static void predict_sparse(const optimizer_call *call, const dp_sdca_sparse *group, int64_t example,
                           predictions *result) {
  const regularization *regularization = &call->state->regularization;
  for (int64_t i = 0; i < group->lengths[example]; ++i) {
    int64_t at = group->begin[example] + i, id = group->ids[at];
    double value = group->values ? (double)group->values[at] : 1;
    float weight = group->weights[id] + group->deltas[id] * (float)call->state->partitions;
    result->previous += value * shrink(regularization, (double)group->weights[id]);
    result->now += value * shrink(regularization, (double)weight);
  }
}

static void predict_dense(const optimizer_call *call, const dp_sdca_dense *group, int64_t example,
                          predictions *result) {
  const regularization *regularization = &call->state->regularization;
  const float *row = group->rows + example * group->width;
  float now = 0, previous = 0;
  for (int64_t i = 0; i < group->width; ++i) {
    float weight = group->weights[i] + group->deltas[i] * (float)call->state->partitions;
    previous += row[i] * shrink_float(regularization, group->weights[i]);
    now += row[i] * shrink_float(regularization, weight);
  }
  result->previous += (double)previous;
  result->now += (double)now;
}

static predictions predict(const optimizer_call *call, int64_t example) {
  const dp_sdca_batch *batch = &call->batch;
  predictions result = {0};
  for (int64_t i = 0; i < batch->counts.sparse; ++i)
    predict_sparse(call, &batch->sparse[i], example, &result);
  for (int64_t i = 0; i < batch->counts.dense; ++i)
    predict_dense(call, &batch->dense[i], example, &result);
  return result;
}

static void change_weights(const dp_sdca_batch *batch, int64_t example, double change) {
  for (int64_t i = 0; i < batch->counts.sparse; ++i) {
    const dp_sdca_sparse *group = &batch->sparse[i];
    for (int64_t j = 0; j < group->lengths[example]; ++j) {
      int64_t at = group->begin[example] + j;
      float *delta = &group->deltas[group->ids[at]];
      *delta = (float)((double)*delta + (group->values ? (double)group->values[at] : 1) * change);
    }
  }
  for (int64_t i = 0; i < batch->counts.dense; ++i) {
    const dp_sdca_dense *group = &batch->dense[i];
    for (int64_t j = 0; j < group->width; ++j)
      group->deltas[j] += group->rows[example * group->width + j] * (float)change;
  }
}

static dp_status *train(const optimizer_call *call, int64_t example) {
  const dp_sdca_loss *loss = call->state->loss;
  const dp_sdca_batch *batch = &call->batch;
  float label = batch->labels[example], *state = call->examples[example];
  DP_RETURN_IF_ERROR(dp_sdca_convert_label(loss, &label));
  double l2 = (double)call->state->regularization.l2;
  predictions predictions = predict(call, example);
  dp_sdca_point point = {.label = (double)label,
                         .weight = (double)batch->weights[example],
                         .dual = (double)state[0],
                         .prediction = predictions.now,
                         .norm = (double)call->state->partitions * batch->norms[example] / l2};
  double dual = loss->update(&point);
  change_weights(batch, example, (dual - point.dual) * point.weight / l2);
  double dual_loss = loss->dual(point.dual, point.label);
  state[0] = (float)dual;
  state[1] = (float)(loss->primal(predictions.previous, point.label) * point.weight);
  /* An infeasible dual keeps the largest loss, whatever the weight. */
  state[2] = (float)(dual_loss == DBL_MAX ? dual_loss : dual_loss * point.weight);
  state[3] = batch->weights[example];
  return NULL;
}

/* ---- The order of examples ---- */
static void shuffle(int64_t *order, int64_t count, dp_random_words *words) {
  for (int64_t i = 0; i < count; ++i)
    order[i] = i;
  for (int64_t i = count - 1; i > 0; --i) {
    int64_t other = (int64_t)dp_random_below64(words, (uint64_t)i + 1), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

/* How much there is to gain from an example. */
static float gain_of(const optimizer_call *call, int64_t example) {
  const dp_sdca_loss *loss = call->state->loss;
  float label = call->batch.labels[example];
  dp_status_release(dp_sdca_convert_label(loss, &label)); /* the step reports the error */
  double slope = loss->derivative(predict(call, example).now, (double)label);
  double distance = (double)call->examples[example][0] + slope;
  double size =
      call->batch.norms[example] + (double)call->state->regularization.l2 * loss->smoothness;
  return (float)((double)call->batch.weights[example] * sqrt(size) * fabs(distance));
}

typedef struct candidate {
  int64_t example;
  float gain;
} candidate;

static int compare_gains(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  return x->gain != y->gain ? (x->gain > y->gain ? -1 : 1) : (x->example < y->example ? -1 : 1);
}

/* Draws examples by their gain. Each draw of an example makes its next draw ten times less likely.
 * After as many failures as there are examples, the examples not drawn follow, sorted by gain. */
static void draw_order(const dp_alias *alias, candidate *candidates, int64_t count, int64_t *order,
                       dp_random_words *words) {
  int64_t *drawn = DP_NEW_ARRAY(int64_t, (size_t)count + 1);
  int64_t done = 0, unseen = 0;
  for (int64_t failures = 0; done < count && failures < count;) {
    int32_t example = dp_alias_draw(alias, words);
    if (dp_random_double(words) > pow(0.1, (double)drawn[example])) {
      ++failures;
      continue;
    }
    ++drawn[example];
    order[done++] = example;
  }
  for (int64_t i = 0; i < count; ++i)
    if (drawn[i] == 0)
      candidates[unseen++] = candidates[i];
  qsort(candidates, (size_t)unseen, sizeof(candidate), compare_gains);
  for (int64_t i = 0; done < count; ++i)
    order[done++] = candidates[i].example;
  dp_free(drawn);
}

static dp_status *order_by_gain(const optimizer_call *call, int64_t *order,
                                dp_random_words *words) {
  int64_t count = call->batch.examples;
  candidate *candidates = DP_NEW_ARRAY(candidate, (size_t)count + 1);
  float *gains = DP_NEW_ARRAY(float, (size_t)count + 1);
  dp_alias alias = {0};
  for (int64_t i = 0; i < count; ++i) {
    gains[i] = gain_of(call, i);
    candidates[i] = (candidate){i, gains[i]};
  }
  dp_status *status = dp_alias_init(&alias, gains, (int32_t)count);
  if (!status && count > 0)
    draw_order(&alias, candidates, count, order, words);
  dp_alias_deinit(&alias);
  dp_free(candidates);
  dp_free(gains);
  return status;
}

static dp_status *train_all(const optimizer_call *call) {
  int64_t count = call->batch.examples;
  int64_t *order = DP_NEW_ARRAY(int64_t, (size_t)count + 1);
  dp_philox generator = dp_philox_seed(dp_random_seed(), dp_random_seed());
  dp_random_words words = dp_random_words_of(&generator);
  dp_status *status = NULL;
  if (call->state->is_adaptive)
    status = order_by_gain(call, order, &words);
  else
    shuffle(order, count, &words);
  for (int64_t i = 0; i < count && !status; ++i)
    status = train(call, order[i]);
  dp_free(order);
  return status;
}

static dp_status *copy_state(dp_op_context *context, optimizer_call *call) {
  const dp_tensor *from = dp_op_input(context, context->input_count - 1);
  dp_tensor *to;
  if (from->shape.rank != 2)
    return DP_INVALID("example_state_data must be rank 2 but is rank %d", from->shape.rank);
  if (from->shape.dims[0] != call->batch.examples || from->shape.dims[1] != 4)
    return DP_INVALID("Expected shape [%lld,4] for example_state_data, got %s",
                      (long long)call->batch.examples, dp_shape_text(&from->shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &from->shape, &to));
  memcpy(to->data, from->data, dp_tensor_bytes(from));
  call->examples = to->data;
  return NULL;
}

static dp_status *optimizer_compute(dp_op_context *context, void *memory) {
  const optimizer_state *state = memory;
  optimizer_call call = {.state = state};
  dp_status *status = dp_sdca_batch_init(&call.batch, context, &state->counts);
  if (!status)
    status = copy_state(context, &call);
  if (!status)
    status = train_all(&call);
  dp_sdca_batch_deinit(&call.batch);
  return status;
}

/* ---- SdcaShrinkL1 ---- */
static dp_status *shrink_create(const dp_kernel_setup *setup, void *memory) {
  return read_regularization(setup->node, memory);
}

static dp_status *shrink_compute(dp_op_context *context, void *memory) {
  for (int32_t i = 0; i < context->input_count; ++i) {
    dp_variable_update update;
    DP_RETURN_IF_ERROR(dp_variable_begin(dp_op_reference(context, i), &update));
    const float *from = update.old.data;
    float *to = update.target.data;
    for (int64_t j = 0; j < update.old.shape.elements; ++j)
      to[j] = shrink_float(memory, from[j]);
    dp_variable_end(&update, true);
  }
  return NULL;
}

/* ---- SdcaFprint ---- */
static dp_status *fingerprint_compute(dp_op_context *context, void *memory) {
  (void)memory;
  const dp_tensor *input = dp_op_input(context, 0);
  dp_tensor *output;
  dp_shape shape = {0};
  if (input->shape.rank != 1)
    return DP_INVALID("Input must be a vector, got shape %s", dp_shape_text(&input->shape));
  DP_RETURN_IF_ERROR(dp_shape_make(2, (int64_t[]){input->shape.dims[0], 2}, &shape));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &shape, &output));
  uint64_t *to = output->data;
  for (int64_t i = 0; i < input->shape.elements; ++i, to += 2) {
    dp_view text = dp_io_string(input, i);
    dp_fingerprint128(text.data, text.length, &to[0], &to[1]);
    if (to[0] < 2) /* 0 and 1 are reserved in tables */
      to[0] += ~UINT64_C(1);
  }
  return NULL;
}

static const dp_kernel rows[] = {
    {.op = "SdcaOptimizer",
     .state_size = sizeof(optimizer_state),
     .create = optimizer_create,
     .compute = optimizer_compute},
    {.op = "SdcaOptimizerV2",
     .state_size = sizeof(optimizer_state),
     .create = optimizer_create,
     .compute = optimizer_compute},
    {.op = "SdcaShrinkL1",
     .state_size = sizeof(regularization),
     .create = shrink_create,
     .compute = shrink_compute},
    {.op = "SdcaFprint", .compute = fingerprint_compute},
};
DP_KERNEL_FAMILY(sdca, rows);
