/* Rings: reduction and gather.
 *
 * Reduction. Chunk c starts at the member of rank c, which sends its part of the chunk to rank c
 * + 1. Each member merges its own part into the chunk that it receives and sends that on, until
 * rank c - 1 has the sum of all parts. In the second pass the sum goes round the ring in the same
 * direction, and every member keeps it. A member sends and receives about two tensors, however many
 * members there are.
 *
 * Gather. One pass: each member's tensor is a chunk, which goes round the ring once.
 *
 * Memory that was sent is never written again: partial sums have memory of their own, and chunks of
 * the result are sent only when they are final. So no member waits until a chunk was taken before
 * it goes on. Each chunk moves by itself; its callbacks may run in any thread. */
#include <stdio.h>
#include <string.h>
#include "collective/collective_internal.h"

typedef struct ring_run ring_run;

/* The state of one chunk at this member. */
typedef struct ring_field {
  ring_run *run;
  int32_t chunk; /* its number in its ring */
  int32_t ring;
  int32_t index; /* its number among all chunks */
  int32_t rank;  /* our rank in the ring */
  int64_t begin, count;
  dp_tensor received;
} ring_field;

struct ring_run {
  collective_op *op;
  ring_layout layout;
  dp_tensor input; /* flat; borrowed from the op */
  dp_tensor output;
  ring_field *fields;
};

enum { KEY_SIZE = 128 };

/* ---- Neighbours ---- */

static int32_t ring_size(const ring_field *field) {
  return field->run->op->group->size;
}

static int32_t member_at(const ring_field *field, int32_t rank) {
  return field->run->layout.order[field->ring * ring_size(field) + rank];
}

static int32_t before(const ring_field *field, int32_t rank) {
  return (rank + ring_size(field) - 1) % ring_size(field);
}

static bool ends_first_pass(const ring_field *field) {
  return field->rank == before(field, field->chunk);
}

static bool ends_second_pass(const ring_field *field) {
  return field->rank == before(field, before(field, field->chunk));
}

static void print_key(const ring_field *field, int pass, int32_t source, char key[KEY_SIZE]) {
  snprintf(key, KEY_SIZE, "%s:%d:%d:%d", field->run->op->key, pass, field->index, source);
}

/* ---- Moving ---- */

static size_t element_bytes(const ring_field *field) {
  return dp_dtype_size(field->run->op->member.dtype);
}

static size_t field_bytes(const ring_field *field) {
  return (size_t)field->count * element_bytes(field);
}

static void *place(const ring_field *field, const dp_tensor *tensor) {
  return (char *)tensor->data + (size_t)field->begin * element_bytes(field);
}

static void receive(ring_field *field, int pass, void *to, op_received_fn done) {
  int32_t from = before(field, field->rank);
  char key[KEY_SIZE];
  print_key(field, pass, from, key);
  dp_part_receive(field->run->op, member_at(field, from), key, to, field_bytes(field), done, field);
}

static void send(const ring_field *field, int pass, const dp_tensor *tensor, int64_t begin) {
  char key[KEY_SIZE];
  print_key(field, pass, field->rank, key);
  int32_t to = (field->rank + 1) % ring_size(field);
  dp_part_send(field->run->op, member_at(field, to), key, tensor, begin, field->count);
}

/* ---- Second pass ---- */

static void final_received(void *arg, dp_tensor *value) {
  ring_field *field = arg;
  if (!ends_second_pass(field))
    send(field, 1, &field->run->output, field->begin);
}

static void begin_second_pass(ring_field *field) {
  if (ends_first_pass(field))
    send(field, 1, &field->run->output, field->begin);
  else
    receive(field, 1, place(field, &field->run->output), final_received);
}

/* ---- First pass ---- */

static void make_final(ring_field *field) {
  const dp_collective_member *member = &field->run->op->member;
  void *to = place(field, &field->run->output);
  member->merge(member->arg, to, place(field, &field->run->input), field->received.data,
                field->count);
  if (member->finish)
    member->finish(member->arg, to, field->count, ring_size(field));
}

/* Merges our part with the received chunk: in place when no one else has a reference to it. */
static dp_status *make_partial(ring_field *field, dp_tensor *partial_out) {
  const dp_collective_member *member = &field->run->op->member;
  dp_tensor partial;
  dp_shape shape = dp_shape_vector(field->count);
  if (dp_tensor_is_unique(&field->received))
    partial = dp_tensor_copy(&field->received);
  else
    DP_RETURN_IF_ERROR(dp_tensor_create(member->dtype, &shape, &partial));
  partial.dtype = member->dtype;
  partial.shape = shape;
  member->merge(member->arg, partial.data, place(field, &field->run->input), field->received.data,
                field->count);
  *partial_out = partial;
  return NULL;
}

static dp_status *merge(ring_field *field) {
  dp_tensor partial = {0};
  if (ends_first_pass(field)) {
    make_final(field);
  } else {
    DP_RETURN_IF_ERROR(make_partial(field, &partial));
    dp_tensor_deinit(&field->received);
    send(field, 0, &partial, 0);
    dp_tensor_deinit(&partial);
  }
  return NULL;
}

static void merge_and_go_on(void *arg) {
  ring_field *field = arg;
  collective_op *op = field->run->op;
  dp_status *status = merge(field);
  dp_tensor_deinit(&field->received);
  if (!status)
    begin_second_pass(field);
  dp_part_end(op, status);
}

static void partial_received(void *arg, dp_tensor *value) {
  ring_field *field = arg;
  field->received = dp_tensor_take(value);
  dp_part_begin(field->run->op);
  dp_part_work(field->run->op, field_bytes(field), merge_and_go_on, field);
}

static void begin_reduction(ring_field *field) {
  if (field->rank == field->chunk) {
    send(field, 0, &field->run->input, field->begin);
    begin_second_pass(field);
  } else {
    receive(field, 0, NULL, partial_received);
  }
}

/* ---- Gather ---- */

static void part_received(void *arg, dp_tensor *value) {
  ring_field *field = arg;
  if (!ends_first_pass(field))
    send(field, 0, &field->run->output, field->begin);
}

static void begin_gather(ring_field *field) {
  void *to = place(field, &field->run->output);
  if (field->rank == field->chunk) {
    memcpy(to, field->run->input.data, field_bytes(field));
    send(field, 0, &field->run->output, field->begin);
  } else {
    receive(field, 0, to, part_received);
  }
}

/* ---- The start ---- */

static dp_tensor flatten(const dp_tensor *tensor) {
  dp_tensor flat = *tensor;
  flat.shape = dp_shape_vector(tensor->shape.elements);
  return flat;
}

static void make_fields(ring_run *run) {
  collective_op *op = run->op;
  bool is_aligned = op->member.kind == DP_COLLECTIVE_REDUCTION;
  int32_t count = op->group->size * run->layout.ring_count;
  int64_t elements = op->member.shape.elements;
  int64_t most =
      dp_layout_chunk_elements(elements, count, dp_dtype_size(op->member.dtype), is_aligned);
  run->fields = DP_ARENA_ARRAY(op->arena, ring_field, (size_t)count);
  for (int32_t i = 0; i < count; i++) {
    int64_t begin = most * i < elements ? most * i : elements;
    int64_t end = begin + most < elements ? begin + most : elements;
    int32_t ring = i % run->layout.ring_count;
    run->fields[i] = (ring_field){.run = run,
                                  .chunk = i / run->layout.ring_count,
                                  .ring = ring,
                                  .index = i,
                                  .rank = run->layout.rank[ring],
                                  .begin = begin,
                                  .count = end - begin};
  }
}

static dp_status *make_run(collective_op *op, ring_run **run_out) {
  ring_run *run = DP_ARENA_NEW(op->arena, ring_run);
  run->op = op;
  DP_RETURN_IF_ERROR(dp_layout_rings(op, &run->layout));
  DP_RETURN_IF_ERROR(dp_tensor_create(op->member.dtype, &op->member.shape, &op->result));
  run->input = flatten(&op->member.input);
  run->output = flatten(&op->result);
  make_fields(run);
  *run_out = run;
  return NULL;
}

void dp_ring_start(collective_op *op) {
  if (op->group->size == 1) {
    op->result = dp_tensor_copy(&op->member.input);
    return;
  }
  ring_run *run;
  dp_part_begin(op);
  dp_status *status = make_run(op, &run);
  int32_t count = status ? 0 : op->group->size * run->layout.ring_count;
  for (int32_t i = 0; i < count; i++) {
    ring_field *field = &run->fields[i];
    if (field->count == 0)
      continue;
    if (op->member.kind == DP_COLLECTIVE_GATHER)
      begin_gather(field);
    else
      begin_reduction(field);
  }
  dp_part_end(op, status);
}
