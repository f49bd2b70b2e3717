/* A message on the wire is a list of slices, a message of ours a list of pieces. Going out, a large
 * piece becomes a slice that holds a reference to the piece's buffer; coming in, a large slice
 * becomes a buffer that holds a reference to the slice. Small ones are copied: a reference costs
 * two allocations, and a few bytes that came from the socket would hold all of the 8 KiB and more
 * that were read together. No state, any thread. */
#include "rpc/slices_internal.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>

enum { COPY_LIMIT = 512 }; /* bytes; up to here a copy is cheaper */

/* A buffer goes through gRPC from the thread that sends to the one that releases. gRPC orders these
 * two; the count is touched on both sides so that tools see it, too. */
static dp_buffer *hand_over(dp_buffer *owner) {
  atomic_fetch_add_explicit(&owner->references.count, 0, memory_order_release);
  return owner;
}

static void release_owner(void *arg) {
  dp_buffer *owner = arg;
  (void)atomic_load_explicit(&owner->references.count, memory_order_acquire);
  dp_buffer_release(owner);
}

/* The slice of one piece, whose reference it takes over. */
static grpc_slice slice_of(dp_piece *piece) {
  if (piece->length > COPY_LIMIT)
    return grpc_slice_new_with_user_data((void *)piece->data, piece->length, release_owner,
                                         hand_over(piece->owner));
  grpc_slice slice = grpc_slice_from_copied_buffer((const char *)piece->data, piece->length);
  dp_buffer_release(piece->owner);
  return slice;
}

dp_status *dp_rpc_pack(dp_rope *rope, grpc_byte_buffer **body_out) {
  if (rope->length > DP_RPC_MAX_BYTES) {
    dp_status *status = dp_status_create(DP_RESOURCE_EXHAUSTED,
                                         "a message of %zu bytes is longer than gRPC can "
                                         "carry (%zu bytes)",
                                         rope->length, DP_RPC_MAX_BYTES);
    dp_rope_deinit(rope);
    return status;
  }
  grpc_slice few[8];
  size_t count = rope->pieces.count;
  grpc_slice *slices = count <= 8 ? few : DP_NEW_ARRAY(grpc_slice, count);
  for (size_t i = 0; i < count; i++)
    slices[i] = slice_of(&rope->pieces.items[i]);
  *body_out = grpc_raw_byte_buffer_create(slices, count);
  for (size_t i = 0; i < count; i++)
    grpc_slice_unref(slices[i]);
  if (slices != few)
    dp_free(slices);
  rope->pieces.count = 0; /* the references went to the slices */
  dp_rope_deinit(rope);
  return NULL;
}

/* A slice is its reference count and where its bytes are: all that is needed to give it back. */
static void release_slice(void *references, void *data, size_t size) {
  grpc_slice slice = {.refcount = references};
  slice.data.refcounted.bytes = data;
  slice.data.refcounted.length = size;
  grpc_slice_unref(slice);
}

static dp_status *append_slice(dp_rope *rope, grpc_slice slice) {
  size_t length = GRPC_SLICE_LENGTH(slice);
  if (length <= COPY_LIMIT || slice.refcount == NULL)
    return dp_rope_append(rope, GRPC_SLICE_START_PTR(slice), length);
  grpc_slice_ref(slice);
  dp_buffer *owner =
      dp_buffer_wrap(GRPC_SLICE_START_PTR(slice), length, release_slice, slice.refcount);
  dp_rope_append_piece(rope, owner, GRPC_SLICE_START_PTR(slice), length);
  return NULL;
}

dp_status *dp_rpc_unpack(grpc_byte_buffer *body, dp_rope *rope) {
  dp_status *status = NULL;
  grpc_slice_buffer *slices = &body->data.raw.slice_buffer;
  for (size_t i = 0; i < slices->count && status == NULL; i++)
    status = append_slice(rope, slices->slices[i]);
  grpc_byte_buffer_destroy(body);
  return status;
}
