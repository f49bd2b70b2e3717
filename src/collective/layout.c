/* Chunks and rings. Every member computes them for itself, so the results must be equal in every
 * task, genuine TensorFlow tasks included.
 *
 * A tensor is cut into (members * rings) chunks. A ring visits all members, task by task. A ring
 * has an offset, which rotates the devices within each task; a negative offset also reverses their
 * order. With several rings every device sends over several links at once. Pure computation; any
 * thread. */
#include <stdlib.h>
#include "collective/collective_internal.h"

enum {
  CHUNK_ALIGNMENT = 64,
  LARGEST_CHUNK =
      4 * 1024 * 1024, /* rings are added, up to their limit, until chunks are smaller */
  USUAL_SUBDIVISIONS = 2,
};

int64_t dp_layout_chunk_elements(int64_t elements, int64_t chunks, size_t element_bytes,
                                 bool is_aligned) {
  if (!is_aligned)
    return elements / chunks;
  int64_t size = (int64_t)element_bytes;
  int64_t each = (elements + chunks - 1) / chunks;
  int64_t bytes = each * size;
  /* TensorFlow's rule: a chunk whose size is a multiple of the alignment still grows by one
   * alignment. */
  int64_t more =
      bytes < CHUNK_ALIGNMENT ? CHUNK_ALIGNMENT - bytes : CHUNK_ALIGNMENT - bytes % CHUNK_ALIGNMENT;
  return each + more / size;
}

/* How many rings to use: the fewest with chunks of at most LARGEST_CHUNK bytes, up to the limit. */
static dp_status *count_rings(const collective_op *op, int32_t *count_out) {
  const dp_collective_member *member = &op->member;
  *count_out = 1;
  if (member->max_subdivisions == -1)
    return NULL;
  if (member->shape.elements == 0)
    return dp_status_create(DP_INTERNAL, "shape in CollectiveParams should be non-empty");
  int32_t devices = op->group->size / op->group->task_count;
  int32_t most =
      devices * (member->max_subdivisions > 0 ? member->max_subdivisions : USUAL_SUBDIVISIONS);
  if (most <= 0)
    return dp_status_create(DP_INTERNAL, "Unexpected kMaxNumSubdivs %d in RingReduce", most);
  int64_t bytes = member->shape.elements * (int64_t)dp_dtype_size(member->dtype);
  while (bytes / ((int64_t)op->group->size * *count_out) > LARGEST_CHUNK && *count_out < most)
    ++*count_out;
  return NULL;
}

static int64_t ring_offset(const collective_op *op, int32_t ring, int32_t ring_count) {
  if (op->member.ring_offset_count > 0)
    return op->member.ring_offsets[ring];
  int32_t stride = op->group->size / op->group->task_count / ring_count;
  int64_t offset = (int64_t)ring * (stride > 0 ? stride : 1);
  return ring % 2 == 1 ? -offset : offset;
}

static int32_t count_devices(const collective_group *group, int32_t first) {
  int32_t count = 1;
  while (first + count < group->size &&
         strcmp(group->members.items[first + count].task, group->members.items[first].task) == 0)
    count++;
  return count;
}

static void fill_ring(const collective_op *op, int64_t offset, int32_t *order, int32_t *rank_out) {
  bool is_reversed = offset < 0;
  offset = llabs(offset);
  int32_t rank = 0;
  for (int32_t first = 0; first < op->group->size;) {
    int32_t count = count_devices(op->group, first);
    for (int32_t i = 0; i < count; i++, rank++) {
      int32_t at = (int32_t)((i + offset % count) % count);
      order[rank] = first + (is_reversed ? count - 1 - at : at);
      if (order[rank] == op->rank)
        *rank_out = rank;
    }
    first += count;
  }
}

dp_status *dp_layout_rings(const collective_op *op, ring_layout *layout_out) {
  ring_layout layout = {.ring_count = (int32_t)op->member.ring_offset_count};
  if (layout.ring_count == 0)
    DP_RETURN_IF_ERROR(count_rings(op, &layout.ring_count));
  size_t size = (size_t)op->group->size;
  layout.order = DP_ARENA_ARRAY(op->arena, int32_t, size * (size_t)layout.ring_count);
  layout.rank = DP_ARENA_ARRAY(op->arena, int32_t, (size_t)layout.ring_count);
  for (int32_t i = 0; i < layout.ring_count; i++)
    fill_ring(op, ring_offset(op, i, layout.ring_count), layout.order + size * (size_t)i,
              &layout.rank[i]);
  *layout_out = layout;
  return NULL;
}
