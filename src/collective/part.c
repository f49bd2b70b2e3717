/* The parts of a collective op: a chunk to fetch, a chunk that waits for its taker, a merge.
 *
 * The op ends with the last of its parts. The first error triggers the op's scope, which ends all
 * other parts. Chunks that are missing are counted per member, for the status page and for error
 * messages. Any thread may begin and end parts; the op's lock guards the counts and is not held
 * during callbacks. */
#include "base/clock.h"
#include "base/philox.h"
#include "collective/collective_internal.h"

static void print_members(const collective_op *op, const int32_t *counts, const char *verb,
                          dp_text *text) {
  for (int32_t i = 0; i < op->group->size; i++) {
    if (counts[i] > 0)
      dp_text_printf(text, " %d %s %s", counts[i], verb, op->group->members.items[i].device);
  }
}

void dp_part_print_missing(const collective_op *op, dp_text *text) {
  print_members(op, op->awaited, "from", text);
  print_members(op, op->offered, "not taken by", text);
}

/* When the op's time limit ended the part, makes an error that names the missing chunks. With the
 * op's lock held. Consumes `status`. */
static dp_status *say_late(const collective_op *op, dp_status *status) {
  if (dp_status_code(status) != DP_DEADLINE_EXCEEDED || dp_cancel_is_triggered(op->member.cancel))
    return status;
  dp_text text = {0};
  dp_part_print_missing(op, &text);
  dp_status_release(status);
  status = dp_status_create(DP_DEADLINE_EXCEEDED,
                            "Collective has timed out during execution. Missing chunks of %s, "
                            "instance %d of group %d:%s",
                            op->member.name, op->member.instance_key, op->member.group_key,
                            dp_text_string(&text));
  dp_text_deinit(&text);
  return status;
}

void dp_part_begin(collective_op *op) {
  pthread_mutex_lock(&op->lock);
  op->parts++;
  pthread_mutex_unlock(&op->lock);
}

/* Ends a part. `counts` is op->awaited or op->offered when the part waited for `member`, else NULL.
 * Consumes `status`. */
static void end_part(collective_op *op, int32_t *counts, int32_t member, dp_status *status) {
  dp_cancel *ended = NULL;
  pthread_mutex_lock(&op->lock);
  if (status && !op->status) {
    op->status = say_late(op, status);
    ended = dp_cancel_retain(op->scope);
  } else {
    dp_status_release(status);
  }
  if (counts)
    counts[member]--;
  dp_status *why = ended ? dp_status_retain(op->status) : NULL;
  pthread_mutex_unlock(&op->lock);
  if (ended)
    dp_cancel_trigger(ended, why);
  dp_cancel_release(ended);
  /* Not before, so that the op still exists while its scope ends the other parts. */
  pthread_mutex_lock(&op->lock);
  bool is_last = --op->parts == 0;
  dp_status *outcome = op->status;
  pthread_mutex_unlock(&op->lock);
  if (is_last)
    dp_collective_finish(op, outcome);
}

void dp_part_end(collective_op *op, dp_status *status) {
  end_part(op, NULL, -1, status);
}

/* ---- Chunks ---- */

typedef struct chunk_part {
  collective_op *op;
  int32_t member;
  void *to;
  size_t bytes;
  bool is_near;
  op_received_fn done;
  void *arg;
} chunk_part;

static chunk_part *make_part(collective_op *op, int32_t member, int32_t *counts) {
  pthread_mutex_lock(&op->lock);
  op->parts++;
  counts[member]++;
  pthread_mutex_unlock(&op->lock);
  chunk_part *part = DP_NEW(chunk_part);
  part->op = op;
  part->member = member;
  return part;
}

static dp_status *check_size(const chunk_part *part, const dp_tensor *value) {
  size_t bytes = dp_tensor_bytes(value);
  if (bytes == part->bytes)
    return NULL;
  return dp_status_create(DP_INTERNAL,
                          "Tensor Size Mismatch: %s has a chunk of %zu bytes for %s, expected: %zu",
                          part->op->group->members.items[part->member].device, bytes,
                          part->op->member.name, part->bytes);
}

static void chunk_received(void *arg, dp_status *status, dp_tensor *value) {
  chunk_part *part = arg;
  collective_op *op = part->op;
  if (!status && part->is_near)
    status = check_size(part, value);
  if (!status && part->is_near && part->to && part->bytes > 0)
    memcpy(part->to, value->data, part->bytes);
  if (!status)
    part->done(part->arg, value);
  int32_t member = part->member;
  dp_free(part);
  end_part(op, op->awaited, member, status);
}

static void receive_from_task(collective_op *op, const group_member *source, const char *key,
                              chunk_part *part) {
  Tensorflow__DeviceLocality locality = TENSORFLOW__DEVICE_LOCALITY__INIT;
  Tensorflow__RecvBufRequest request = TENSORFLOW__RECV_BUF_REQUEST__INIT;
  request.step_id = op->member.step_id;
  request.buf_rendezvous_key = (char *)key;
  request.num_bytes = (int64_t)part->bytes;
  request.client_locality = &locality;
  request.server_locality = &locality;
  request.src_device = source->device;
  request.dst_device = (char *)op->member.device;
  request.request_id = (int64_t)(dp_random_seed() >> 1);
  request.src_incarnation = source->incarnation;
  op->step.peers->receive(op->step.peers_arg, source->task, &request, part->to, op->scope,
                          chunk_received, part);
}

void dp_part_receive(collective_op *op, int32_t from, const char *key, void *to, size_t bytes,
                     op_received_fn done, void *arg) {
  const group_member *source = &op->group->members.items[from];
  chunk_part *part = make_part(op, from, op->awaited);
  part->to = to;
  part->bytes = bytes;
  part->done = done;
  part->arg = arg;
  part->is_near = strcmp(source->task, op->step.task) == 0;
  if (part->is_near)
    dp_board_take(op->step.board, key, op->scope, chunk_received, part);
  else if (op->step.peers)
    receive_from_task(op, source, key, part);
  else
    chunk_received(part,
                   dp_status_create(DP_INTERNAL, "%s has no peers, but %s is a member of group %d",
                                    op->step.task, source->device, op->group->key),
                   NULL);
}

static void chunk_taken(void *arg, dp_status *status) {
  chunk_part *part = arg;
  collective_op *op = part->op;
  int32_t member = part->member;
  dp_free(part);
  end_part(op, op->offered, member, status);
}

void dp_part_send(collective_op *op, int32_t to, const char *key, const dp_tensor *tensor,
                  int64_t begin, int64_t count) {
  dp_tensor slice = dp_tensor_copy(tensor);
  slice.data = (char *)tensor->data + (size_t)begin * dp_dtype_size(tensor->dtype);
  slice.shape = dp_shape_vector(count);
  chunk_part *part = make_part(op, to, op->offered);
  dp_board_post(op->step.board, key, &slice, op->scope, chunk_taken, part);
}

void dp_part_work(collective_op *op, size_t bytes, dp_task_fn fn, void *arg) {
  static const size_t small = 64 * 1024;
  if (bytes <= small || !op->member.pool || dp_pool_is_current(op->member.pool))
    fn(arg);
  else
    dp_pool_run(op->member.pool, fn, arg);
}

/* ---- Watching the takers ---- */

/* A member that does not fetch its chunk may be dead. No call of ours to it is open that would
 * fail, so it is checked at this interval. */
static const int64_t watch_nanos = INT64_C(1000000000);

static void checked(void *arg, dp_status *status) {
  dp_part_end(arg, status);
}

static bool is_slow_taker(const collective_op *op, int32_t member) {
  return op->offered[member] > 0 &&
         strcmp(op->group->members.items[member].task, op->step.task) != 0;
}

/* Runs on the timer thread. dp_collective_finish cancels the timer, which waits for a running look,
 * unless look itself ends the op. */
static void look(void *arg) {
  collective_op *op = arg;
  pthread_mutex_lock(&op->lock);
  bool is_over = op->parts == 0 || op->status;
  if (!is_over) {
    op->parts++;
    dp_part_watch(op);
  }
  pthread_mutex_unlock(&op->lock);
  if (is_over)
    return;
  for (int32_t i = 0; i < op->group->size; i++) {
    pthread_mutex_lock(&op->lock);
    bool is_slow = is_slow_taker(op, i);
    op->parts += is_slow;
    pthread_mutex_unlock(&op->lock);
    const group_member *member = &op->group->members.items[i];
    if (is_slow)
      op->step.peers->check(op->step.peers_arg, member->task, member->device, member->incarnation,
                            op->scope, checked, op);
  }
  dp_part_end(op, NULL);
}

void dp_part_watch(collective_op *op) {
  op->watch = dp_timer_start(dp_clock_nanos() + watch_nanos, look, op);
}
