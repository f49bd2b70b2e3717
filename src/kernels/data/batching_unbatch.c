/* Unbatch and UnbatchGrad: they give the rows of a batch that Batch made (batching_ops.c) back to
 * the steps.
 *
 * One step of a batch has the whole batch and an index of keys and rows; the other steps have only
 * their key. Unbatch gives each step its rows. Steps that come before the batch wait in a line;
 * rows whose step has not come yet are kept; both for a limited time. UnbatchGrad is the reverse:
 * each step leaves its gradient, and the step with the index waits until all gradients are there.
 *
 * No thread blocks. One lock guards a resource; tensors are cut and concatenated without it. */
#include "kernels/shared/family.h"

#include <string.h>
#include "base/memory.h"
#include "kernels/data/batching_internal.h"
#include "kernels/shared/pieces.h"

typedef struct kept_tensor {
  int64_t key;
  int64_t deadline;
  dp_tensor tensor;
} kept_tensor;

/* The resource of Unbatch and of UnbatchGrad. */
typedef struct meeting {
  dp_resource resource;
  pthread_mutex_t lock; /* guards all fields below */
  DP_ARRAY(kept_tensor) kept;
  dp_waiters line;
} meeting;

typedef struct visit {
  dp_waiter waiter; /* must be first */
  meeting *place;   /* retained */
  dp_op_context *context;
  int64_t key;
  const int64_t *index; /* entries (key, begin, end), in the node's input */
  int64_t count;
  dp_tensor
      *pieces; /* Unbatch: the batch cut by index; UnbatchGrad: set when all gradients are there */
  dp_tensor output; /* Unbatch */
  dp_status *status;
} visit;

/* ---- Kept tensors, with the lock held ---- */
static kept_tensor *find_kept(meeting *place, int64_t key) {
  for (size_t i = 0; i < place->kept.count; ++i)
    if (place->kept.items[i].key == key)
      return &place->kept.items[i];
  return NULL;
}

static dp_tensor take_kept(meeting *place, kept_tensor *found) {
  dp_tensor tensor = found->tensor;
  *found = place->kept.items[--place->kept.count];
  return tensor;
}

static void drop_expired(meeting *place) {
  int64_t now = dp_clock_nanos();
  for (size_t i = place->kept.count; i-- > 0;)
    if (place->kept.items[i].deadline < now) {
      dp_tensor tensor = take_kept(place, &place->kept.items[i]);
      dp_tensor_deinit(&tensor);
    }
}

static visit *find_waiting(meeting *place, int64_t key) {
  for (dp_waiter *waiter = place->line.first; waiter; waiter = waiter->next)
    if (((visit *)waiter)->key == key)
      return (visit *)waiter;
  return NULL;
}

/* ---- Life ---- */
static void destroy_meeting(dp_resource *resource) {
  meeting *place = (meeting *)resource;
  for (size_t i = 0; i < place->kept.count; ++i)
    dp_tensor_deinit(&place->kept.items[i].tensor);
  DP_ARRAY_FREE(&place->kept);
  pthread_mutex_destroy(&place->lock);
  dp_free(place);
}

static void describe(dp_resource *resource, dp_text *text) {
  meeting *place = (meeting *)resource;
  pthread_mutex_lock(&place->lock);
  dp_text_printf(text, "%zu tensors wait for their steps, %lld steps for their tensors",
                 place->kept.count, (long long)place->line.count);
  pthread_mutex_unlock(&place->lock);
}

static const dp_resource_ops unbatch_ops = {"UnbatchResource", destroy_meeting, describe};
static const dp_resource_ops gradient_ops = {"UnbatchGradResource", destroy_meeting, describe};

typedef struct unbatch_state {
  dp_resource_name name;
  bool is_gradient;
  int64_t timeout_micros;
} unbatch_state;

static void end_visit(visit *ended) {
  dp_op_context *context = ended->context;
  meeting *place = ended->place;
  dp_status *status = ended->status;
  dp_waiter_settle(&ended->waiter);
  if (!status)
    dp_op_set_output(context, 0, &ended->output);
  dp_tensor_deinit(&ended->output);
  if (ended->pieces)
    dp_pieces_destroy(ended->pieces, ended->count);
  dp_free(ended);
  dp_op_done(context, status);
  dp_resource_release(place);
}

/* The cancel scope of a waiting Unbatch is a child of the step's scope, with a deadline. */
static dp_status *why_not(const visit *ended) {
  if (dp_cancel_is_triggered(ended->context->step->cancel))
    return dp_batch_cancelled();
  return dp_status_create(DP_DEADLINE_EXCEEDED,
                          "Batched data did not arrive within timeout window.");
}

static void end_unserved(dp_waiter *waiter) {
  visit *ended = (visit *)waiter;
  ended->status = why_not(ended);
  end_visit(ended);
}

/* Drops the kept gradients of this batch: nobody else will take them. */
static void leave_gradients(dp_waiter *waiter) {
  visit *gone = (visit *)waiter;
  for (int64_t i = 0; i < gone->count; ++i) {
    kept_tensor *found = find_kept(gone->place, gone->index[3 * i]);
    if (!found)
      continue;
    dp_tensor tensor = take_kept(gone->place, found);
    dp_tensor_deinit(&tensor);
  }
}

static dp_status *make_meeting(void *arg, dp_resource **resource_out) {
  const unbatch_state *state = arg;
  meeting *place = DP_NEW(meeting);
  dp_resource_init(&place->resource, state->is_gradient ? &gradient_ops : &unbatch_ops);
  pthread_mutex_init(&place->lock, NULL);
  place->line = (dp_waiters){.lock = &place->lock,
                             .leave = state->is_gradient ? leave_gradients : NULL,
                             .end = end_unserved};
  *resource_out = &place->resource;
  return NULL;
}

static dp_status *create(const dp_kernel_setup *setup, void *memory) {
  unbatch_state *state = memory;
  state->is_gradient = dp_node_is(setup->node, "UnbatchGrad");
  if (!state->is_gradient)
    DP_RETURN_IF_ERROR(dp_kernel_get_int32(setup->node, "timeout_micros", &state->timeout_micros));
  return dp_resource_name_init(&state->name, setup, true);
}

static void destroy(void *memory) {
  unbatch_state *state = memory;
  dp_resource_name_deinit(&state->name);
}

/* A visit that has not waited and has no result yet. */
static dp_status *make_visit(dp_op_context *context, unbatch_state *state, int32_t key_slot,
                             visit **visit_out) {
  dp_resource *resource;
  DP_RETURN_IF_ERROR(dp_resources_find_or_create(
      context->device->resources, state->name.container, state->name.name,
      state->is_gradient ? &gradient_ops : &unbatch_ops, make_meeting, state, &resource));
  visit *made = DP_NEW(visit);
  made->place = (meeting *)resource;
  made->context = context;
  made->key = *(const int64_t *)dp_op_input(context, key_slot)->data;
  made->index = dp_op_input(context, 1)->data;
  *visit_out = made;
  return NULL;
}

static void end_served(dp_waiters *served) {
  for (dp_waiter *waiter = served->first, *next; waiter; waiter = next) {
    next = waiter->next;
    end_visit((visit *)waiter);
  }
}

static dp_status *not_scalar(const char *what, const dp_tensor *tensor) {
  dp_text text = {0};
  dp_tensor_summarize(tensor, 3, &text);
  dp_status *status =
      DP_INVALID("%sTensor<type: %s shape: %s values: %s>", what, dp_dtype_name(tensor->dtype),
                 dp_shape_text(&tensor->shape), dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

/* ---- Unbatch ---- */
static dp_status *check_unbatch(const dp_op_context *context) {
  const dp_tensor *data = dp_op_input(context, 0), *index = dp_op_input(context, 1);
  if (data->shape.rank == 0 || index->shape.rank != 2)
    return DP_INVALID("Wrong shape for index tensor or data: %s and %s",
                      dp_shape_text(&index->shape), dp_shape_text(&data->shape));
  if (index->shape.dims[0] > data->shape.dims[0])
    return DP_INVALID("Wrong shape for index tensor. Expected 0th dimension size to be no greater "
                      "than %lld; Got: %lld.",
                      (long long)data->shape.dims[0], (long long)index->shape.dims[0]);
  if (index->shape.dims[1] != 3)
    return DP_INVALID("Wrong shape for index tensor. Expected 1st dimension size to be 3 ; Got: "
                      "%lld.",
                      (long long)index->shape.dims[1]);
  if (dp_op_input(context, 2)->shape.rank == 0)
    return NULL;
  return not_scalar("Input id should be scalar; Got: ", dp_op_input(context, 2));
}

static dp_status *cut_batch(visit *from, const dp_tensor *data, int64_t count) {
  int64_t begin = 0, rows = data->shape.dims[0];
  from->count = count;
  from->pieces = dp_pieces_create(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t size;
    if (__builtin_sub_overflow(from->index[3 * i + 2], from->index[3 * i + 1], &size) || size < 0 ||
        size > rows - begin)
      return DP_INVALID("Sum of split sizes must not exceed dim0-size of input tensor");
    DP_RETURN_IF_ERROR(dp_rows_cut(data, begin, begin + size, &from->pieces[i]));
    begin += size;
  }
  return NULL;
}

/* Gives each piece to its step: this visit, a visit that waits, or, kept, one that will come. */
static dp_status *hand_out(visit *from, int64_t deadline, dp_waiters *served) {
  meeting *place = from->place;
  for (int64_t i = 0; i < from->count; ++i) {
    int64_t key = from->index[3 * i];
    visit *waiting = find_waiting(place, key);
    if (key == from->key && !dp_tensor_is_set(&from->output)) {
      from->output = dp_tensor_take(&from->pieces[i]);
    } else if (waiting) {
      waiting->output = dp_tensor_take(&from->pieces[i]);
      dp_waiters_take(&place->line, &waiting->waiter);
      dp_waiters_collect(served, &waiting->waiter);
    } else if (find_kept(place, key)) {
      return dp_status_create(DP_ALREADY_EXISTS, "Multiple tensors returned for same batch key.");
    } else {
      kept_tensor kept = {key, deadline, dp_tensor_take(&from->pieces[i])};
      DP_ARRAY_PUSH(&place->kept, kept);
    }
  }
  return NULL;
}

/* With the lock held. True when the visit waits, and another thread will end it. */
static bool meet(visit *made, int64_t timeout_nanos, dp_waiters *served) {
  meeting *place = made->place;
  int64_t deadline = dp_clock_nanos() + timeout_nanos;
  drop_expired(place);
  kept_tensor *found = find_kept(place, made->key);
  if (found) {
    made->output = take_kept(place, found);
    return false;
  }
  if (find_waiting(place, made->key)) {
    made->status =
        dp_status_create(DP_ALREADY_EXISTS, "Multiple session runs with the same batch key.");
    return false;
  }
  made->status = hand_out(made, deadline, served);
  if (made->status || dp_tensor_is_set(&made->output))
    return false;
  dp_cancel *scope = dp_cancel_create(made->context->step->cancel, deadline);
  bool waits = dp_waiters_join(&place->line, &made->waiter, scope);
  dp_cancel_release(scope);
  if (!waits)
    made->status = why_not(made);
  return waits;
}

static void unbatch(dp_op_context *context, void *memory) {
  unbatch_state *state = memory;
  visit *made;
  dp_status *status = check_unbatch(context);
  if (!status)
    status = make_visit(context, state, 2, &made);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  dp_waiters served = {0};
  meeting *place = dp_resource_retain(made->place);
  made->status = cut_batch(made, dp_op_input(context, 0), dp_op_input(context, 1)->shape.dims[0]);
  bool waits = false;
  if (!made->status) {
    pthread_mutex_lock(&place->lock);
    waits = meet(made, state->timeout_micros * 1000, &served);
    pthread_mutex_unlock(&place->lock);
  }
  if (!waits)
    end_visit(made);
  end_served(&served);
  dp_resource_release(place);
}

/* ---- UnbatchGrad ---- */
static dp_status *check_gradient(const dp_op_context *context) {
  const dp_tensor *data = dp_op_input(context, 0), *index = dp_op_input(context, 1);
  const dp_tensor *gradient = dp_op_input(context, 2), *key = dp_op_input(context, 3);
  if (key->shape.rank != 0)
    return not_scalar("Expected `id` to be scalar. Received ", key);
  if (gradient->shape.rank == 0)
    return DP_INVALID("grad must have at least one dimension");
  if (data->shape.elements == 0)
    return NULL;
  if (index->shape.elements == 0)
    return DP_INVALID("batch_index is empty while the tensor isn't.");
  int64_t rows = index->shape.rank > 0 ? index->shape.dims[0] : 0;
  if (index->shape.elements != rows * 3)
    return DP_INVALID("batch_index should contain %lld elements. Received %lld",
                      (long long)rows * 3, (long long)index->shape.elements);
  return NULL;
}

static bool has_all(const visit *wanting) {
  for (int64_t i = 0; i < wanting->count; ++i)
    if (!find_kept(wanting->place, wanting->index[3 * i]))
      return false;
  return true;
}

static void gather(visit *wanting) {
  wanting->pieces = dp_pieces_create(wanting->count);
  for (int64_t i = 0; i < wanting->count; ++i) {
    kept_tensor *found = find_kept(wanting->place, wanting->index[3 * i]);
    if (found)
      wanting->pieces[i] = take_kept(wanting->place, found);
    else /* the key is in the index twice */
      wanting->status = dp_status_create(DP_INTERNAL, "bad bookkeeping of available tensors.");
  }
}

/* Whether a waiting batch lacks a gradient that this batch lacks too. */
static bool is_wanted_twice(const visit *made) {
  for (dp_waiter *waiter = made->place->line.first; waiter; waiter = waiter->next) {
    const visit *other = (const visit *)waiter;
    for (int64_t i = 0; i < made->count; ++i)
      for (int64_t j = 0; j < other->count; ++j)
        if (made->index[3 * i] == other->index[3 * j] &&
            !find_kept(made->place, made->index[3 * i]))
          return true;
  }
  return false;
}

/* With the lock held. True when the visit waits, and another thread will end it. */
static bool meet_gradients(visit *made, dp_waiters *served) {
  meeting *place = made->place;
  if (find_kept(place, made->key)) {
    made->status = DP_INVALID("Two runs with the same batch key.");
    return false;
  }
  kept_tensor kept = {made->key, DP_FOREVER, dp_tensor_copy(dp_op_input(made->context, 2))};
  DP_ARRAY_PUSH(&place->kept, kept);
  for (dp_waiter *waiter = place->line.first, *next; waiter; waiter = next) {
    next = waiter->next;
    if (!has_all((visit *)waiter))
      continue;
    gather((visit *)waiter);
    dp_waiters_take(&place->line, waiter);
    dp_waiters_collect(served, waiter);
  }
  if (made->count == 0)
    return false;
  if (has_all(made)) {
    gather(made);
    return false;
  }
  if (is_wanted_twice(made)) {
    made->status = DP_INVALID("Missing tensor wanted by more than one batch.");
    return false;
  }
  if (dp_waiters_join(&place->line, &made->waiter, made->context->step->cancel))
    return true;
  made->status = dp_batch_cancelled();
  return false;
}

static void join_gradients(visit *ended) {
  if (ended->status)
    return;
  if (ended->count == 0) {
    const dp_tensor *gradient = dp_op_input(ended->context, 2);
    dp_shape shape = dp_shape_with(&gradient->shape, 0, 0);
    ended->status = dp_tensor_create(gradient->dtype, &shape, &ended->output);
    return;
  }
  const dp_tensor **pieces = DP_NEW_ARRAY(const dp_tensor *, (size_t)ended->count);
  for (int64_t i = 0; i < ended->count; ++i)
    pieces[i] = &ended->pieces[i];
  ended->status = dp_rows_join(pieces, ended->count, 0, &ended->output);
  dp_free(pieces);
}

static void unbatch_gradient(dp_op_context *context, void *memory) {
  visit *made;
  dp_status *status = check_gradient(context);
  if (!status)
    status = make_visit(context, memory, 3, &made);
  if (status) {
    dp_op_done(context, status);
    return;
  }
  if (dp_op_input(context, 0)->shape.elements > 0)
    made->count = dp_op_input(context, 1)->shape.dims[0];
  dp_waiters served = {0};
  meeting *place = dp_resource_retain(made->place);
  pthread_mutex_lock(&place->lock);
  bool waits = meet_gradients(made, &served);
  pthread_mutex_unlock(&place->lock);
  if (!waits)
    dp_waiters_collect(&served, &made->waiter);
  for (dp_waiter *waiter = served.first; waiter; waiter = waiter->next)
    join_gradients((visit *)waiter);
  end_served(&served);
  dp_resource_release(place);
}

#define STATE .state_size = sizeof(unbatch_state), .create = create, .destroy = destroy
static const dp_kernel rows[] = {
    {.op = "Unbatch", STATE, .compute_async = unbatch},
    {.op = "UnbatchGrad", STATE, .compute_async = unbatch_gradient},
};
DP_KERNEL_FAMILY(unbatching, rows);
