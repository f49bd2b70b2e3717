/* CTCBeamSearchDecoder: the most probable label sequences of each example.
 *
 * A sequence is a node of a tree: its labels are those on the path from the root. At each step
 * every node of the beam gets the probability of staying (a blank, or its last label again) and
 * tries all its children. The best `width` nodes are the next beam. Probabilities are logarithms.
 * They are rounded at each step as TensorFlow rounds them, because the order of nearly equal
 * sequences depends on it. Examples are split over the pool; the nodes of an example are in an
 * arena of its own. */
#include "kernels/shared/family.h"

#include <math.h>
#include <stdlib.h>
#include "base/arena.h"
#include "base/memory.h"
#include "kernels/nn/ctc_internal.h"

typedef struct beam_state {
  int64_t width, top;
  bool merges;
} beam_state;

static dp_status *beam_create(const dp_kernel_setup *setup, void *memory) {
  beam_state *state = memory;
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "beam_width", &state->width));
  DP_RETURN_IF_ERROR(dp_node_get_int(setup->node, "top_paths", &state->top));
  return dp_node_get_bool(setup->node, "merge_repeated", &state->merges);
}

/* Log probabilities of a sequence that ends in a blank (`blank`), in its last label (`label`), in
 * either (`total`). */
typedef struct chance {
  double total, blank, label;
} chance;
static const chance no_chance = {-INFINITY, -INFINITY, -INFINITY};

typedef struct node {
  struct node *parent, *child, *sibling; /* the first child; the next child of the parent */
  int64_t label;
  chance before, now;
} node;

typedef struct beam {
  const beam_state *state;
  dp_arena *arena;
  node **heap; /* `count` nodes, the worst first */
  int64_t count;
  node **sorted; /* scratch */
  bool is_float; /* numbers are rounded to float, else kept as double */
} beam;

static double rounded(const beam *b, double value) {
  return b->is_float ? (double)(float)value : value;
}

/* log(e^x + e^y); the logarithm is computed in float for every dtype, as in TensorFlow. */
static double log_add(const beam *b, double x, double y) {
  if (x == -INFINITY && y == -INFINITY)
    return -INFINITY;
  double more = x > y ? x : y, less = x > y ? y : x;
  return rounded(b, more + (double)log1pf(expf((float)(less - more))));
}

static bool is_active(const node *n) {
  return n->now.total != -INFINITY;
}

static node *make_node(beam *b, node *parent, int64_t label) {
  node *n = DP_ARENA_NEW(b->arena, node);
  n->parent = parent;
  n->label = label;
  n->before = n->now = no_chance;
  if (parent) {
    n->sibling = parent->child;
    parent->child = n;
  }
  return n;
}

static node *find_child(const node *n, int64_t label) {
  node *child = n->child;
  while (child && child->label != label)
    child = child->sibling;
  return child;
}

/* ---- The heap ---- */
static void sift_down(beam *b, int64_t at) {
  node *moving = b->heap[at];
  for (int64_t child; (child = 2 * at + 1) < b->count; at = child) {
    child += child + 1 < b->count && b->heap[child + 1]->now.total < b->heap[child]->now.total;
    if (!(b->heap[child]->now.total < moving->now.total))
      break;
    b->heap[at] = b->heap[child];
  }
  b->heap[at] = moving;
}

/* Adds a node; a full beam drops its worst node for it. */
static void push(beam *b, node *n) {
  if (b->count == b->state->width) {
    b->heap[0]->now = no_chance;
    b->heap[0] = n;
    sift_down(b, 0);
    return;
  }
  int64_t at = b->count++;
  for (; at > 0 && n->now.total < b->heap[(at - 1) / 2]->now.total; at = (at - 1) / 2)
    b->heap[at] = b->heap[(at - 1) / 2];
  b->heap[at] = n;
}

static bool is_candidate(const beam *b, double total) {
  return total > -INFINITY && (b->count < b->state->width || total > b->heap[0]->now.total);
}

static int compare_nodes(const void *a, const void *b) {
  double left = (*(node *const *)a)->now.total, right = (*(node *const *)b)->now.total;
  return left > right ? -1 : left < right;
}

/* Empties the heap into `sorted`, best first; returns the number of nodes. */
static int64_t sort_beam(beam *b) {
  int64_t count = b->count;
  memcpy(b->sorted, b->heap, (size_t)count * sizeof *b->sorted);
  qsort(b->sorted, (size_t)count, sizeof *b->sorted, compare_nodes);
  b->count = 0;
  return count;
}

/* ---- One step ---- */
/* Logits of one step of an example; the last class is the blank. */
typedef struct logits {
  const dp_tensor *inputs;
  int64_t from, blank;
  double norm; /* log of the sum of exp(logit) */
} logits;

static double chance_of(const beam *b, const logits *l, int64_t label) {
  return rounded(b, dp_ctc_input(l->inputs, l->from + label) - l->norm);
}

static void stay(const beam *b, node *n, const logits *l) {
  if (n->parent) {
    const node *parent = n->parent;
    double more = n->label == parent->label ? parent->before.blank : parent->before.total;
    if (is_active(parent))
      n->now.label = log_add(b, n->now.label, more);
    n->now.label = rounded(b, n->now.label + chance_of(b, l, n->label));
  }
  n->now.blank = rounded(b, n->before.total + dp_ctc_input(l->inputs, l->from + l->blank));
  n->now.blank = rounded(b, n->now.blank - l->norm);
  n->now.total = log_add(b, n->now.blank, n->now.label);
}

static void grow(beam *b, node *n, const logits *l) {
  if (!is_candidate(b, n->before.total))
    return;
  for (int64_t label = 0; label < l->blank; ++label) {
    node *child = find_child(n, label);
    if (child && is_active(child))
      continue;
    double previous = label == n->label ? n->before.blank : n->before.total;
    double total = rounded(b, chance_of(b, l, label) + previous);
    if (!is_candidate(b, total)) {
      if (child) /* it was dropped in this step and must not grow either */
        child->before = no_chance;
      continue;
    }
    child = child ? child : make_node(b, n, label);
    child->now = (chance){.total = total, .blank = -INFINITY, .label = total};
    push(b, child);
  }
}

static void find_norm(const beam *b, logits *l) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i <= l->blank; ++i)
    most = fmax(most, dp_ctc_input(l->inputs, l->from + i));
  for (int64_t i = 0; i <= l->blank; ++i)
    sum = rounded(b, sum + rounded(b, exp(dp_ctc_input(l->inputs, l->from + i) - most)));
  l->norm = rounded(b, most + rounded(b, log(sum)));
}

static void step(beam *b, logits *l) {
  find_norm(b, l);
  int64_t count = sort_beam(b);
  for (int64_t i = 0; i < count; ++i)
    b->sorted[i]->before = b->sorted[i]->now;
  for (int64_t i = 0; i < count; ++i) {
    stay(b, b->sorted[i], l);
    push(b, b->sorted[i]);
  }
  for (int64_t i = 0; i < count; ++i)
    grow(b, b->sorted[i], l);
}

/* ---- Examples ---- */
typedef struct decode_work {
  const beam_state *state;
  const dp_tensor *inputs, *lengths;
  dp_tensor *scores;
  int64_t *labels; /* [batch, top, time] */
  dp_ctc_path *paths;
  dp_status **failures;
} decode_work;

/* Labels from the leaf up to the root, then reversed. With `merges`, repeated labels count once. */
static int64_t write_path(const node *leaf, bool merges, int64_t *labels) {
  int64_t count = 0, last = -1;
  for (const node *n = leaf; n->parent; n = n->parent) {
    if (!merges || n->label != last)
      labels[count++] = n->label;
    last = n->label;
  }
  for (int64_t i = 0, j = count - 1; i < j; ++i, --j) {
    int64_t held = labels[i];
    labels[i] = labels[j];
    labels[j] = held;
  }
  return count;
}

static dp_status *decode(decode_work *work, int64_t example, beam *b) {
  int64_t time = work->inputs->shape.dims[0], batch = work->inputs->shape.dims[1];
  int64_t classes = work->inputs->shape.dims[2], top = work->state->top;
  node *root = make_node(b, NULL, -1);
  root->now = (chance){.total = 0, .blank = 0, .label = -INFINITY};
  push(b, root);
  for (int64_t t = 0; t < dp_tensor_int_at(work->lengths, example); ++t) {
    logits l = {work->inputs, (t * batch + example) * classes, classes - 1, 0};
    step(b, &l);
  }
  if (top > work->state->width)
    return DP_INVALID("requested more paths than the beam width.");
  if (top > b->count)
    return DP_INVALID("Less leaves in the beam search than requested.");
  sort_beam(b);
  for (int64_t i = 0; i < top; ++i) {
    int64_t at = example * top + i, *labels = work->labels + at * time;
    work->paths[at] = (dp_ctc_path){labels, write_path(b->sorted[i], work->state->merges, labels)};
    dp_ctc_store(work->scores, at, b->sorted[i]->now.total);
  }
  return NULL;
}

static void decode_range(void *arg, int64_t begin, int64_t end) {
  decode_work *work = arg;
  size_t bytes = (size_t)work->state->width * sizeof(node *);
  for (int64_t example = begin; example < end; ++example) {
    beam b = {.state = work->state,
              .arena = dp_arena_create(),
              .heap = dp_try_malloc(bytes),
              .sorted = dp_try_malloc(bytes),
              .is_float = work->inputs->dtype == DP_FLOAT};
    work->failures[example] =
        b.heap && b.sorted ? decode(work, example, &b) : dp_status_out_of_memory();
    dp_free(b.heap);
    dp_free(b.sorted);
    dp_arena_destroy(b.arena);
  }
}

static dp_status *run_batch(dp_op_context *context, decode_work *work) {
  int64_t batch = work->inputs->shape.dims[1], top = work->state->top;
  int64_t cost = work->inputs->shape.dims[0] * work->inputs->shape.dims[2] * work->state->width;
  dp_op_for(context, batch, cost * 10 + 1000, decode_range, work);
  dp_status *status = NULL;
  for (int64_t b = 0; b < batch; ++b)
    dp_status_update(&status, work->failures[b]);
  for (int64_t i = 0; i < top && !status; ++i)
    status = dp_ctc_output(context, (int32_t)i, (int32_t)top, work->paths + i, batch, top);
  return status;
}

static dp_status *beam_compute(dp_op_context *context, void *memory) {
  decode_work work = {
      .state = memory, .inputs = dp_op_input(context, 0), .lengths = dp_op_input(context, 1)};
  if (work.inputs->shape.rank == 3 && work.inputs->shape.elements == 0)
    return DP_INVALID("inputs must not be empty");
  DP_RETURN_IF_ERROR(dp_ctc_check(work.inputs, work.lengths, DP_FAILED_PRECONDITION));
  int64_t time = work.inputs->shape.dims[0], batch = work.inputs->shape.dims[1];
  int64_t top = work.state->top, count = batch * top;
  dp_shape shape = dp_shape_matrix(batch, top);
  dp_buffer *labels = NULL, *paths = NULL, *failures = NULL;
  dp_status *status;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, (int32_t)(3 * top), &shape, &work.scores));
  DP_GOTO_IF_ERROR(status, done,
                   dp_buffer_create((size_t)(count * time) * sizeof(int64_t), &labels));
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)count * sizeof(dp_ctc_path), &paths));
  DP_GOTO_IF_ERROR(status, done, dp_buffer_create((size_t)batch * sizeof(dp_status *), &failures));
  work.labels = labels->data;
  work.paths = paths->data;
  work.failures = failures->data;
  status = run_batch(context, &work);
done:
  dp_buffer_release(labels);
  dp_buffer_release(paths);
  dp_buffer_release(failures);
  return status;
}

static const dp_kernel rows[] = {
    {.op = "CTCBeamSearchDecoder",
     .types = {{"T", DP_SET(FLOAT) | DP_SET(DOUBLE)}},
     .state_size = sizeof(beam_state),
     .create = beam_create,
     .compute = beam_compute},
};
DP_KERNEL_FAMILY(ctc_beam, rows);
