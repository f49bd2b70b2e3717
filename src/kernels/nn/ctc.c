/* Connectionist temporal classification: CTCLoss, which sums the probability of a label sequence
 * over all its alignments (the forward-backward algorithm of Graves), with its gradient, and
 * CTCGreedyDecoder, which takes the best class of each step.
 *
 * Inputs are [time, batch, classes]; the last class is the blank. All is computed in double.
 * Examples of a batch are split over the pool; each takes scratch of its own. */
#include "kernels/shared/family.h"

#include <math.h>
#include <string.h>
#include "base/memory.h"
#include "kernels/nn/ctc_internal.h"
#include "kernels/shared/sparse.h"

/* ---- Shared ---- */
dp_status *dp_ctc_check(const dp_tensor *inputs, const dp_tensor *lengths, dp_code code) {
  if (inputs->shape.rank != 3)
    return DP_INVALID("inputs is not a 3-Tensor");
  if (lengths->shape.rank != 1)
    return DP_INVALID("sequence_length is not a vector");
  int64_t time = inputs->shape.dims[0], batch = inputs->shape.dims[1];
  if (time == 0)
    return DP_INVALID("Max time or first dimension of input cannot be 0.");
  if (inputs->shape.dims[2] > INT32_MAX)
    return DP_INVALID("num_classes cannot exceed max int");
  if (lengths->shape.dims[0] != batch)
    return dp_status_create(code,
                            "len(sequence_length) != batch_size.  len(sequence_length):  %lld "
                            "batch_size: %lld",
                            (long long)lengths->shape.dims[0], (long long)batch);
  for (int64_t b = 0; b < batch; ++b) {
    int64_t length = dp_tensor_int_at(lengths, b);
    if (length > time)
      return dp_status_create(code, "sequence_length(%lld) <= %lld", (long long)b, (long long)time);
  }
  return NULL;
}

/* ---- CTCLoss ---- */
typedef struct loss_state {
  bool collapses, merges, ignores_longer;
} loss_state;

static dp_status *loss_create(const dp_kernel_setup *setup, void *memory) {
  loss_state *state = memory;
  const dp_node *node = setup->node;
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "preprocess_collapse_repeated", &state->collapses));
  DP_RETURN_IF_ERROR(dp_node_get_bool(node, "ctc_merge_repeated", &state->merges));
  return dp_node_get_bool(node, "ignore_longer_outputs_than_inputs", &state->ignores_longer);
}

typedef struct loss_work {
  const loss_state *state;
  const dp_tensor *inputs, *lengths;
  const int32_t *labels;
  int64_t *starts; /* where each example's labels begin; one entry more than examples */
  dp_tensor *loss, *gradient;
  dp_status **failures; /* per example */
} loss_work;

/* One example. */
typedef struct alignment {
  const loss_work *work;
  int64_t example, time, classes;
  int64_t states; /* labels with a blank before, between and after them */
  int32_t *path;  /* the class of each state */
  double *y;      /* [time, classes]: probabilities */
  double *alpha;  /* [time, states]: log probability of reaching a state, including its emission */
  double *beta;   /* [time, states]: log probability of going on from it, excluding its emission */
} alignment;

static double log_add(double a, double b) {
  if (a == -INFINITY)
    return b;
  if (b == -INFINITY)
    return a;
  return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

static void print_labels(const int32_t *labels, int64_t count, int64_t step, dp_text *text) {
  for (int64_t i = 0; i < count; ++i)
    dp_text_printf(text, "%s%d", i ? "," : "", labels[i * step]);
}

/* The error for a label after the end of the labels, or a negative label. The path holds the labels
 * read so far, between blanks. */
static dp_status *refuse_labels(const alignment *a, const int32_t *labels, int64_t count,
                                bool is_finished) {
  dp_text text = {0};
  if (is_finished)
    dp_text_printf(&text,
                   "Saw a non-null label (index >= num_classes - 1) following a null "
                   "label, batch: %lld num_classes: %lld labels: ",
                   (long long)a->example, (long long)a->classes);
  else
    dp_text_printf(&text, "All labels must be nonnegative integers, batch: %lld labels: ",
                   (long long)a->example);
  print_labels(labels, count, 1, &text);
  if (is_finished) {
    dp_text_printf(&text, " labels seen so far: ");
    print_labels(a->path + 1, a->states / 2, 2, &text);
  }
  dp_status *status = DP_INVALID("%s", dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

/* Turns labels into states: drops nulls at the end and puts blanks between. */
static dp_status *make_path(alignment *a) {
  const int32_t *labels = a->work->labels + a->work->starts[a->example];
  int64_t count = a->work->starts[a->example + 1] - a->work->starts[a->example];
  int32_t blank = (int32_t)a->classes - 1;
  bool is_finished = false;
  a->states = 0;
  a->path[a->states++] = blank;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0 && a->work->state->collapses && labels[i] == labels[i - 1])
      continue;
    if (labels[i] >= blank) {
      is_finished = true;
      continue;
    }
    if (is_finished || labels[i] < 0)
      return refuse_labels(a, labels, count, is_finished);
    a->path[a->states++] = labels[i];
    a->path[a->states++] = blank;
  }
  return NULL;
}

static void make_probabilities(alignment *a) {
  int64_t batch = a->work->inputs->shape.dims[1];
  for (int64_t t = 0; t < a->time; ++t) {
    int64_t from = (t * batch + a->example) * a->classes;
    double *y = a->y + t * a->classes, most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < a->classes; ++i) {
      y[i] = dp_ctc_input(a->work->inputs, from + i);
      most = fmax(most, y[i]);
    }
    for (int64_t i = 0; i < a->classes; ++i)
      sum += y[i] = exp(y[i] - most);
    for (int64_t i = 0; i < a->classes; ++i)
      y[i] /= sum;
  }
}

/* Whether a path may go from state u straight to state u + 2. */
static bool may_skip(const alignment *a, int64_t u) {
  int32_t blank = (int32_t)a->classes - 1;
  return a->path[u + 2] != blank && !(a->work->state->merges && a->path[u] == a->path[u + 2]);
}

static bool may_stay(const alignment *a, int64_t u) {
  return a->work->state->merges || a->path[u] == (int32_t)a->classes - 1;
}

static void run_forward(alignment *a) {
  int64_t states = a->states, time = a->time;
  for (int64_t i = 0; i < states * time; ++i)
    a->alpha[i] = -INFINITY;
  for (int64_t u = 0; u < 2 && u < states; ++u)
    a->alpha[u] = log(a->y[a->path[u]]);
  for (int64_t t = 1; t < time; ++t) {
    const double *before = a->alpha + (t - 1) * states;
    int64_t first = states - 2 * (time - t), end = 2 * (t + 1);
    for (int64_t u = first > 0 ? first : 0; u < states && u < end; ++u) {
      double sum = may_stay(a, u) ? before[u] : -INFINITY;
      if (u > 0)
        sum = log_add(sum, before[u - 1]);
      if (u > 1 && may_skip(a, u - 2))
        sum = log_add(sum, before[u - 2]);
      a->alpha[t * states + u] = log(a->y[t * a->classes + a->path[u]]) + sum;
    }
  }
}

static void run_backward(alignment *a) {
  int64_t states = a->states, time = a->time;
  for (int64_t i = 0; i < states * time; ++i)
    a->beta[i] = -INFINITY;
  for (int64_t u = states > 1 ? states - 2 : 0; u < states; ++u)
    a->beta[(time - 1) * states + u] = 0;
  for (int64_t t = time - 2; t >= 0; --t) {
    const double *after = a->beta + (t + 1) * states, *y = a->y + (t + 1) * a->classes;
    int64_t first = states - 2 * (time - t), end = 2 * (t + 1);
    for (int64_t u = first > 0 ? first : 0; u < states && u < end; ++u) {
      double sum = may_stay(a, u) ? after[u] + log(y[a->path[u]]) : -INFINITY;
      if (u + 1 < states)
        sum = log_add(sum, after[u + 1] + log(y[a->path[u + 1]]));
      if (u + 2 < states && may_skip(a, u))
        sum = log_add(sum, after[u + 2] + log(y[a->path[u + 2]]));
      a->beta[t * states + u] = sum;
    }
  }
}

/* The derivative with respect to the logits: prediction minus expectation from the labels. */
static void store_gradient(const alignment *a, double total, double *sums) {
  int64_t batch = a->work->inputs->shape.dims[1];
  for (int64_t t = 0; t < a->time; ++t) {
    for (int64_t i = 0; i < a->classes; ++i)
      sums[i] = -INFINITY;
    for (int64_t u = 0; u < a->states; ++u) {
      double *sum = sums + a->path[u];
      *sum = log_add(*sum, a->alpha[t * a->states + u] + a->beta[t * a->states + u]);
    }
    for (int64_t i = 0; i < a->classes; ++i) {
      double expected = total == -INFINITY ? 0 : exp(sums[i] - total);
      dp_ctc_store(a->work->gradient, (t * batch + a->example) * a->classes + i,
                   a->y[t * a->classes + i] - expected);
    }
  }
}

/* Allocates scratch; computes the loss and the gradient of one example. */
static dp_status *align(alignment *a) {
  int64_t count = a->work->starts[a->example + 1] - a->work->starts[a->example];
  int64_t most = 2 * count + 1, tables;
  size_t bytes;
  if (__builtin_mul_overflow(2 * most + a->classes, a->time, &tables) ||
      !dp_multiply_size((size_t)(tables + a->classes), sizeof(double), &bytes))
    return dp_status_out_of_memory();
  dp_buffer *numbers = NULL, *path = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)most * sizeof(int32_t), &path));
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create(bytes, &numbers));
  a->path = path->data;
  a->y = numbers->data;
  a->alpha = a->y + a->time * a->classes;
  a->beta = a->alpha + a->time * most;
  DP_GOTO_IF_ERROR(status, done, make_path(a));
  bool is_longer = count > a->time;
  if (is_longer && !a->work->state->ignores_longer) {
    status =
        DP_INVALID("Not enough time for target transition sequence (required: %lld, available: "
                   "%lld)%lldYou can turn this error into a warning by using the flag "
                   "ignore_longer_outputs_than_inputs",
                   (long long)count, (long long)a->time, (long long)a->example);
    goto done;
  }
  if (is_longer || a->time == 0)
    goto done;
  make_probabilities(a);
  run_forward(a);
  run_backward(a);
  double total = -INFINITY;
  for (int64_t u = 0; u < a->states; ++u)
    total = log_add(total, a->alpha[u] + a->beta[u]);
  dp_ctc_store(a->work->loss, a->example, -total);
  store_gradient(a, total, a->beta + a->time * most);
done:
  dp_buffer_release(numbers);
  dp_buffer_release(path);
  return status;
}

static void align_range(void *arg, int64_t begin, int64_t end) {
  loss_work *work = arg;
  for (int64_t b = begin; b < end; ++b) {
    alignment a = {.work = work,
                   .example = b,
                   .time = dp_tensor_int_at(work->lengths, b),
                   .classes = work->inputs->shape.dims[2]};
    work->failures[b] = align(&a);
  }
}

/* Labels are entries of a sparse matrix, sorted by row; finds where each example's labels begin. */
static dp_status *find_labels(const dp_tensor *indices, const dp_tensor *values, int64_t batch,
                              int64_t *starts) {
  const int64_t *rows = indices->data;
  int64_t rank = indices->shape.dims[1], count = values->shape.dims[0], row = 0;
  if (rank != 2)
    return DP_INVALID("label SparseTensor is not valid: it must have 2 dimensions, not %lld",
                      (long long)rank);
  dp_sparse sparse = {.indices = rows, .count = count, .rank = 2, .dims = {batch, 0}};
  for (int64_t i = 0; i < count; ++i) {
    int64_t column = rows[2 * i + 1];
    if (column >= sparse.dims[1] && column < INT64_MAX)
      sparse.dims[1] = column + 1;
  }
  dp_status *status = dp_sparse_check_order(&sparse);
  if (status)
    return dp_status_annotate(status, "label SparseTensor is not valid");
  for (int64_t b = 0; b < batch; ++b) {
    starts[b] = row;
    while (row < count && rows[row * rank] == b)
      ++row;
  }
  starts[batch] = row;
  return NULL;
}

static dp_status *check_labels(const dp_tensor *indices, const dp_tensor *values) {
  if (indices->shape.rank != 2)
    return DP_INVALID("labels_indices is not a matrix");
  if (indices->shape.dims[1] < 2)
    return DP_INVALID("labels_indices second dimension must be >= 1. Received %lld",
                      (long long)indices->shape.dims[1]);
  if (values->shape.rank != 1)
    return DP_INVALID("labels_values is not a vector");
  if (indices->shape.dims[0] != values->shape.dims[0])
    return DP_INVALID("labels_indices and labels_values must contain the same number of rows, but "
                      "saw shapes: %s vs. %s",
                      dp_shape_text(&indices->shape), dp_shape_text(&values->shape));
  return NULL;
}

static dp_status *run_batch(dp_op_context *context, loss_work *work) {
  int64_t batch = work->inputs->shape.dims[1], time = work->inputs->shape.dims[0];
  const dp_tensor *indices = dp_op_input(context, 1), *values = dp_op_input(context, 2);
  DP_RETURN_IF_ERROR(find_labels(indices, values, batch, work->starts));
  work->labels = values->data;
  dp_op_for(context, batch, time * (work->inputs->shape.dims[2] * 30 + 500), align_range, work);
  dp_status *first = NULL;
  for (int64_t b = 0; b < batch; ++b)
    dp_status_update(&first, work->failures[b]);
  return first;
}

static dp_status *loss_compute(dp_op_context *context, void *memory) {
  loss_work work = {
      .state = memory, .inputs = dp_op_input(context, 0), .lengths = dp_op_input(context, 3)};
  DP_RETURN_IF_ERROR(dp_ctc_check(work.inputs, work.lengths, DP_INVALID_ARGUMENT));
  DP_RETURN_IF_ERROR(check_labels(dp_op_input(context, 1), dp_op_input(context, 2)));
  int64_t batch = work.inputs->shape.dims[1];
  if (batch == 0 || work.inputs->shape.dims[2] == 0)
    return DP_INVALID("batch_size and num_classes must not be 0");
  for (int64_t b = 0; b < batch; ++b) {
    if (dp_tensor_int_at(work.lengths, b) < 0)
      return DP_INVALID("seq_len(%lld) < 0", (long long)b);
  }
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &work.lengths->shape, &work.loss));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &work.inputs->shape, &work.gradient));
  memset(work.loss->data, 0, dp_tensor_bytes(work.loss));
  memset(work.gradient->data, 0, dp_tensor_bytes(work.gradient));
  dp_buffer *starts = NULL, *failures = NULL;
  dp_status *status;
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)(batch + 1) * sizeof(int64_t), &starts));
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)batch * sizeof(dp_status *), &failures));
  work.starts = starts->data;
  work.failures = failures->data;
  status = run_batch(context, &work);
done:
  dp_buffer_release(starts);
  dp_buffer_release(failures);
  return status;
}

/* ---- CTCGreedyDecoder ---- */
typedef struct greedy_state {
  bool merges;
  int64_t blank; /* negative: counted from the end */
} greedy_state;

static dp_status *greedy_create(const dp_kernel_setup *setup, void *memory) {
  greedy_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_bool(setup->node, "merge_repeated", &state->merges));
  state->blank = -1;
  return dp_node_attr(setup->node, "blank_index")
             ? dp_node_get_int(setup->node, "blank_index", &state->blank)
             : NULL;
}

/* Writes the best classes of one example to `to`. Returns how many, and in *score the negated sum
 * of their logits. */
static int64_t decode(const dp_tensor *inputs, int64_t example, int64_t time, int64_t blank,
                      bool merges, int64_t *to, double *score_out) {
  int64_t batch = inputs->shape.dims[1], classes = inputs->shape.dims[2], count = 0, last = -1;
  double score = 0;
  for (int64_t t = 0; t < time; ++t) {
    int64_t from = (t * batch + example) * classes, best = 0;
    for (int64_t i = 1; i < classes; ++i) {
      if (dp_ctc_input(inputs, from + i) > dp_ctc_input(inputs, from + best))
        best = i;
    }
    score -= dp_ctc_input(inputs, from + best);
    if (best != blank && !(merges && best == last))
      to[count++] = best;
    last = best;
  }
  *score_out = score;
  return count;
}

dp_status *dp_ctc_output(dp_op_context *context, int32_t slot, int32_t stride,
                         const dp_ctc_path *paths, int64_t count, int64_t step) {
  int64_t total = 0, longest = 0, *indices;
  for (int64_t b = 0; b < count; ++b) {
    int64_t length = paths[b * step].count;
    total += length;
    longest = length > longest ? length : longest;
  }
  dp_shape shape = dp_shape_vector(total);
  dp_tensor *values;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, slot, total, 2, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, slot + stride, &shape, &values));
  DP_RETURN_IF_ERROR(
      dp_sparse_output_dims(context, slot + 2 * stride, (int64_t[]){count, longest}, 2));
  int64_t *to = values->data;
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t i = 0; i < paths[b * step].count; ++i) {
      *indices++ = b;
      *indices++ = i;
      *to++ = paths[b * step].labels[i];
    }
  }
  return NULL;
}

static dp_status *greedy_compute(dp_op_context *context, void *memory) {
  const greedy_state *state = memory;
  const dp_tensor *inputs = dp_op_input(context, 0), *lengths = dp_op_input(context, 1);
  if (inputs->shape.rank == 3 && inputs->shape.dims[0] == 0)
    return DP_INVALID("inputs must not be empty");
  DP_RETURN_IF_ERROR(dp_ctc_check(inputs, lengths, DP_FAILED_PRECONDITION));
  int64_t time = inputs->shape.dims[0], batch = inputs->shape.dims[1];
  int64_t classes = inputs->shape.dims[2];
  int64_t blank = state->blank < 0 ? classes + state->blank : state->blank;
  if (classes == 0 || blank < 0 || blank >= classes)
    return DP_INVALID("blank_index expected to be between %lld and %lld but was %lld",
                      (long long)-classes, (long long)classes - 1, (long long)state->blank);
  dp_shape shape = dp_shape_matrix(batch, 1);
  dp_tensor *scores;
  dp_buffer *decoded = NULL, *counts = NULL;
  dp_status *status;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 3, &shape, &scores));
  DP_GOTO_IF_ERROR(status, done,
                   dp_buffer_create((size_t)(batch * time) * sizeof(int64_t), &decoded));
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)batch * sizeof(dp_ctc_path), &counts));
  dp_ctc_path *paths = counts->data;
  for (int64_t b = 0; b < batch; ++b) {
    double score;
    int64_t *labels = (int64_t *)decoded->data + b * time;
    paths[b].labels = labels;
    paths[b].count =
        decode(inputs, b, dp_tensor_int_at(lengths, b), blank, state->merges, labels, &score);
    dp_ctc_store(scores, b, score);
  }
  status = dp_ctc_output(context, 0, 1, paths, batch, 1);
done:
  dp_buffer_release(decoded);
  dp_buffer_release(counts);
  return status;
}

#define SET_REAL (DP_SET(FLOAT) | DP_SET(DOUBLE))
static const dp_kernel rows[] = {
    {.op = "CTCLoss",
     .types = {{"T", SET_REAL}},
     .state_size = sizeof(loss_state),
     .create = loss_create,
     .compute = loss_compute},
    {.op = "CTCGreedyDecoder",
     .types = {{"T", SET_REAL}},
     .state_size = sizeof(greedy_state),
     .create = greedy_create,
     .compute = greedy_compute},
};
DP_KERNEL_FAMILY(ctc, rows);
