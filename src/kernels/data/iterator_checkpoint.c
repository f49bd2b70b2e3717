/* SerializeIterator and DeserializeIterator: the position of a walk as a variant, for checkpoints.
 *
 * A state holds the number of elements taken and the random generators as they were when the walk
 * began. Restoring begins the walk anew with these generators and skips that many elements. This is
 * exact when the user's functions are deterministic, and costs as much as making the elements.
 * TensorFlow saves the state of each of its iterators instead. Its states have the same type on the
 * wire: we can read them, but refuse to restore them. */
#include <string.h>
#include "kernels/data/data.h"
#include "kernels/data/iterator_internal.h"
#include "kernels/shared/family.h"

#define METADATA "Downpour@@position@@seeds"

/* ---- The variant ---- */
typedef struct saved_state {
  dp_text metadata;
  size_t count;
  dp_tensor tensors[];
} saved_state;

static void state_destroy(void *object) {
  saved_state *state = object;
  for (size_t i = 0; i < state->count; ++i)
    dp_tensor_deinit(&state->tensors[i]);
  dp_text_deinit(&state->metadata);
  dp_free(state);
}

static dp_status *state_encode(const void *object, dp_text *metadata, dp_tensor **tensors_out,
                               size_t *count_out) {
  const saved_state *state = object;
  dp_text_append(metadata, state->metadata.data, state->metadata.length);
  dp_tensor *tensors = DP_NEW_ARRAY(dp_tensor, state->count + 1);
  for (size_t i = 0; i < state->count; ++i)
    tensors[i] = dp_tensor_copy(&state->tensors[i]);
  *tensors_out = tensors;
  *count_out = state->count;
  return NULL;
}

static dp_status *state_decode(dp_view metadata, const dp_tensor *tensors, size_t count,
                               void **object_out) {
  saved_state *state = dp_calloc(1, sizeof *state + sizeof(dp_tensor) * count);
  dp_text_append(&state->metadata, metadata.data, metadata.length);
  for (; state->count < count; ++state->count)
    state->tensors[state->count] = dp_tensor_copy(&tensors[state->count]);
  *object_out = state;
  return NULL;
}

const dp_variant_ops dp_iterator_state_ops = {
    .type_name = "tensorflow::Iterator",
    .destroy = state_destroy,
    .encode = state_encode,
    .decode = state_decode,
};

/* ---- Saving ---- */
/* Copies position and seeds together, under the lock. */
static dp_status *copy_state(dp_iterator_resource *resource, dp_tensor *tensors) {
  dp_shape scalar = dp_shape_scalar(), vector;
  DP_RETURN_IF_ERROR(dp_tensor_create(DP_INT64, &scalar, &tensors[0]));
  pthread_mutex_lock(&resource->lock);
  vector = dp_shape_vector((int64_t)resource->seeds.numbers.count);
  dp_status *status =
      resource->iterator
          ? dp_tensor_create(DP_INT64, &vector, &tensors[1])
          : dp_status_create(DP_FAILED_PRECONDITION,
                             "Save() failed because the iterator has not been initialized. Ensure "
                             "that you have run the initializer operation for this iterator before "
                             "saving it.");
  if (!status) {
    *(int64_t *)tensors[0].data = resource->position;
    if (vector.elements > 0)
      memcpy(tensors[1].data, resource->seeds.numbers.items,
             (size_t)vector.elements * sizeof(int64_t));
  }
  pthread_mutex_unlock(&resource->lock);
  return status;
}

static dp_status *output_state(dp_op_context *context, const dp_tensor *tensors) {
  dp_shape one = dp_shape_vector(1);
  dp_tensor *output;
  void *state;
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &one, &output));
  DP_RETURN_IF_ERROR(state_decode(dp_view_of(METADATA), tensors, 2, &state));
  dp_tensor_variants(output)[0] = dp_variant_create(&dp_iterator_state_ops, state);
  return NULL;
}

static dp_status *find(dp_op_context *context, dp_iterator_resource **resource_out) {
  return dp_op_resource(context, 0, &dp_iterator_resource_ops, (dp_resource **)resource_out);
}

static dp_status *serialize(dp_op_context *context, void *memory) {
  dp_iterator_resource *resource;
  dp_tensor tensors[2] = {0};
  if (dp_op_input(context, 0)->shape.rank != 0)
    return DP_INVALID("resource_handle must be a scalar");
  DP_RETURN_IF_ERROR(find(context, &resource));
  dp_status *status = copy_state(resource, tensors);
  dp_resource_release(resource);
  if (!status)
    status = output_state(context, tensors);
  dp_element_clear(tensors, 2);
  return status;
}

static void serialize_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, serialize); /* blocks: another step may be taking an element */
}

/* ---- Restoring ---- */
static dp_status *read_state(const dp_tensor *serialized, const saved_state **state_out) {
  const dp_variant *variant =
      serialized->shape.elements > 0 ? dp_tensor_variants(serialized)[0] : NULL;
  if (serialized->shape.rank != 1 || !variant || variant->ops != &dp_iterator_state_ops)
    return DP_INVALID("`serialized` must be a vector that SerializeIterator gave");
  const saved_state *state = variant->object;
  dp_view metadata = {state->metadata.data, state->metadata.length};
  if (!dp_view_equals(metadata, METADATA) || state->count != 2 ||
      state->tensors[0].dtype != DP_INT64 || state->tensors[0].shape.elements != 1 ||
      state->tensors[1].dtype != DP_INT64)
    return DP_INVALID("The state of an iterator was saved by another program, which keeps it in "
                      "another form");
  *state_out = state;
  return NULL;
}

static dp_status *deserialize(dp_op_context *context, void *memory) {
  dp_iterator_resource *resource;
  const saved_state *state;
  dp_seed_list seeds = {0};
  dp_walk walk = {context->step->cancel};
  DP_RETURN_IF_ERROR(find(context, &resource));
  dp_status *status = read_state(dp_op_input(context, 1), &state);
  if (!status) {
    for (int64_t i = 0; i < state->tensors[1].shape.elements; ++i)
      DP_ARRAY_PUSH(&seeds.numbers, ((const int64_t *)state->tensors[1].data)[i]);
    status = dp_iterator_resource_resume(resource, &walk, *(const int64_t *)state->tensors[0].data,
                                         &seeds);
  }
  DP_ARRAY_FREE(&seeds.numbers);
  dp_resource_release(resource);
  return status;
}

static void deserialize_compute(dp_op_context *context, void *state) {
  dp_dataset_compute(context, state, deserialize);
}

static const dp_kernel rows[] = {
    {.op = "SerializeIterator", .compute_async = serialize_compute},
    {.op = "DeserializeIterator", .compute_async = deserialize_compute},
};
DP_KERNEL_FAMILY(iterator_checkpoint, rows);
