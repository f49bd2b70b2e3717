/* All-to-all: row i of a member's tensor goes to the member of rank i, whose result has it in the
 * row of the sender's rank. Every pair of members exchanges its rows directly; all parts begin at
 * once and end in any order and thread. */
#include <stdio.h>
#include "collective/collective_internal.h"

enum { KEY_SIZE = 128 };

static void ignore_value(void *arg, dp_tensor *value) {}

/* The key is the op's key, then both ranks without separators, as in TensorFlow. */
static void print_key(const collective_op *op, int32_t from, int32_t to, char key[KEY_SIZE]) {
  snprintf(key, KEY_SIZE, "%s%d%d", op->key, from, to);
}

static void exchange_with(collective_op *op, int32_t other) {
  int64_t row = op->member.shape.elements / op->group->size;
  size_t bytes = (size_t)row * dp_dtype_size(op->member.dtype);
  char key[KEY_SIZE];
  print_key(op, op->rank, other, key);
  dp_part_send(op, other, key, &op->member.input, row * other, row);
  print_key(op, other, op->rank, key);
  dp_part_receive(op, other, key, (char *)op->result.data + bytes * (size_t)other, bytes,
                  ignore_value, NULL);
}

void dp_exchange_start(collective_op *op) {
  const dp_shape *shape = &op->member.shape;
  dp_part_begin(op);
  dp_status *status = NULL;
  if (shape->rank == 0 || shape->dims[0] != op->group->size)
    status = DP_INVALID("input to all-to-all first dimension size (%lld) must be the same as the "
                        "group size (%d)",
                        shape->rank == 0 ? 0LL : (long long)shape->dims[0], op->group->size);
  if (!status)
    status = dp_tensor_create(op->member.dtype, shape, &op->result);
  for (int32_t i = 0; !status && i < op->group->size; i++)
    exchange_with(op, i);
  dp_part_end(op, status);
}
