/* One member's way through a collective: it finds its group, tells the leader what it comes for,
 * runs the algorithm, and ends.
 *
 * Each wait is below a scope of the op's own, with its time limit. The algorithm consists of parts
 * (a chunk to fetch, one that waits for its taker, a merge); the op ends with the last of them. The
 * first error ends the scope, and with it all other parts. If the step was not cancelled anyway, it
 * also aborts the step's board, so that those who wait for our chunks hear of it. After an error a
 * member asks the leader for the group again: another one may have restarted. */
#include <inttypes.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/philox.h"
#include "collective/collective_internal.h"
#include "wire/shape_message.h"

/* ---- Life ---- */

dp_collectives *dp_collectives_create(void) {
  dp_collectives *collectives = DP_NEW(dp_collectives);
  pthread_mutex_init(&collectives->lock, NULL);
  collectives->groups = dp_map_create();
  collectives->sequences = dp_map_create();
  return collectives;
}

void dp_collectives_destroy(dp_collectives *collectives) {
  if (!collectives)
    return;
  const char *key;
  void *value;
  for (size_t at = 0; dp_map_next(collectives->groups, &at, &key, &value);)
    dp_group_release(value);
  for (size_t at = 0; dp_map_next(collectives->sequences, &at, &key, &value);)
    dp_free(value);
  dp_map_destroy(collectives->groups);
  dp_map_destroy(collectives->sequences);
  pthread_mutex_destroy(&collectives->lock);
  dp_free(collectives);
}

static void list(collective_op *op) {
  dp_collectives *collectives = op->step.collectives;
  pthread_mutex_lock(&collectives->lock);
  op->next = collectives->ops;
  if (op->next)
    op->next->previous = op;
  collectives->ops = op;
  pthread_mutex_unlock(&collectives->lock);
}

static void unlist(collective_op *op) {
  dp_collectives *collectives = op->step.collectives;
  pthread_mutex_lock(&collectives->lock);
  if (op->previous)
    op->previous->next = op->next;
  else
    collectives->ops = op->next;
  if (op->next)
    op->next->previous = op->previous;
  pthread_mutex_unlock(&collectives->lock);
}

/* A scope for what comes next. */
static void open_scope(collective_op *op) {
  double seconds = op->member.timeout_seconds;
  int64_t deadline = seconds > 0 ? dp_clock_nanos() + (int64_t)(seconds * 1e9) : DP_FOREVER;
  dp_cancel *old = op->scope;
  op->scope = dp_cancel_create(op->member.cancel, deadline);
  dp_cancel_release(old);
}

static char *print_op_key(const dp_collective_member *member) {
  dp_text text = {0};
  dp_text_printf(&text, "%d:%d:%" PRIu64 ":%" PRId64, member->group_key, member->instance_key,
                 member->frame_id, member->iteration);
  return dp_text_take(&text);
}

static collective_op *make_op(const dp_collective_step *step, dp_collective_member *member) {
  collective_op *op = DP_NEW(collective_op);
  op->step = *step;
  dp_board_retain(step->board);
  op->member = *member;
  op->member.input = dp_tensor_take(&member->input);
  op->member.cancel = member->cancel ? dp_cancel_retain(member->cancel) : NULL;
  op->key = print_op_key(member);
  op->since = dp_clock_nanos();
  op->source_rank = -1;
  pthread_mutex_init(&op->lock, NULL);
  op->arena = dp_arena_create();
  open_scope(op);
  list(op);
  return op;
}

static void free_op(collective_op *op) {
  dp_tensor_deinit(&op->member.input);
  dp_tensor_deinit(&op->result);
  dp_group_release(op->group);
  dp_board_release(op->step.board);
  dp_cancel_release(op->scope);
  dp_cancel_release(op->member.cancel);
  dp_arena_destroy(op->arena);
  pthread_mutex_destroy(&op->lock);
  dp_free(op->key);
  dp_free(op);
}

static bool leads(const collective_op *op) {
  return !op->step.peers || strcmp(op->step.leader, op->step.task) == 0;
}

/* What others need to know. */
static void spread_error(collective_op *op, const dp_status *status) {
  DP_LOG(COLLECTIVE, WARN, "%s: %s", op->member.name, dp_status_message(status));
  dp_board_abort(op->step.board,
                 dp_status_create(dp_status_code(status), "Collective ops is aborted by: %s",
                                  dp_status_message(status)));
}

static void forget(collective_op *op) {
  if (leads(op))
    dp_instance_unsettle(op->step.collectives, op->group, op->member.instance_key, op->rank);
  else
    dp_group_forget(op->step.collectives, op->group);
}

/* Consumes `status`. */
static void finish(collective_op *op, dp_status *status) {
  if (op->watch)
    dp_timer_cancel(op->watch);
  unlist(op);
  if (status && !dp_cancel_is_triggered(op->member.cancel))
    spread_error(op, status);
  if (status && op->group)
    forget(op);
  dp_tensor result = {0};
  if (!status)
    result = dp_tensor_take(&op->result);
  dp_collective_done_fn done = op->member.done;
  void *arg = op->member.arg;
  free_op(op); /* before `done`, which may be what lets the step end */
  done(arg, status, &result);
  dp_tensor_deinit(&result);
}

/* ---- Parts ---- */

static void print_members(const collective_op *op, const int32_t *counts, const char *verb,
                          dp_text *text) {
  for (int32_t i = 0; i < op->group->size; i++) {
    if (counts[i] > 0)
      dp_text_printf(text, " %d %s %s", counts[i], verb, op->group->members.items[i].device);
  }
}

/* With the op's lock held: "2 chunks from /job:..." */
static void print_missing(const collective_op *op, dp_text *text) {
  print_members(op, op->awaited, "from", text);
  print_members(op, op->offered, "not taken by", text);
}

/* With the op's lock held. Consumes `status`. */
static dp_status *say_late(const collective_op *op, dp_status *status) {
  if (dp_status_code(status) != DP_DEADLINE_EXCEEDED || dp_cancel_is_triggered(op->member.cancel))
    return status;
  dp_text text = {0};
  print_missing(op, &text);
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

/* A part that waited for, or on, a member (-1: for none). Consumes `status`. */
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
  /* Only now, so that the op is there while its scope ends the other parts. */
  pthread_mutex_lock(&op->lock);
  bool is_last = --op->parts == 0;
  dp_status *outcome = op->status;
  pthread_mutex_unlock(&op->lock);
  if (is_last)
    finish(op, outcome);
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

/* ---- Looking after the takers ---- */

/* Who does not fetch a chunk may be dead, and no call of ours would tell: so they are asked. */
static const int64_t watch_nanos = INT64_C(1000000000);

static void look(void *arg);

static void checked(void *arg, dp_status *status) {
  dp_part_end(arg, status);
}

static bool is_slow_taker(const collective_op *op, int32_t member) {
  return op->offered[member] > 0 &&
         strcmp(op->group->members.items[member].task, op->step.task) != 0;
}

/* On the timer's thread; finish waits for it. */
static void look(void *arg) {
  collective_op *op = arg;
  pthread_mutex_lock(&op->lock);
  bool is_over = op->parts == 0 || op->status;
  if (!is_over) {
    op->parts++;
    op->watch = dp_timer_start(dp_clock_nanos() + watch_nanos, look, op);
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

/* ---- The algorithm ---- */

static void run(collective_op *op) {
  size_t size = (size_t)op->group->size;
  pthread_mutex_lock(&op->step.collectives->lock);
  op->awaited = DP_ARENA_ARRAY(op->arena, int32_t, size);
  op->offered = DP_ARENA_ARRAY(op->arena, int32_t, size);
  op->parts = 1;
  op->phase = OP_RUN;
  if (op->step.peers && op->group->task_count > 1)
    op->watch = dp_timer_start(dp_clock_nanos() + watch_nanos, look, op);
  pthread_mutex_unlock(&op->step.collectives->lock);
  if (op->member.kind == DP_COLLECTIVE_BROADCAST)
    dp_tree_start(op);
  else if (op->member.kind == DP_COLLECTIVE_ALL_TO_ALL)
    dp_exchange_start(op);
  else
    dp_ring_start(op);
  dp_part_end(op, NULL);
}

/* ---- The instance ---- */

static instance_request describe_instance(const collective_op *op) {
  const dp_collective_member *member = &op->member;
  return (instance_request){.name = member->name,
                            .kind = member->kind,
                            .dtype = member->dtype,
                            .shape = member->shape,
                            .key = member->instance_key,
                            .device = member->device,
                            .is_source = member->is_source,
                            .running_step_id = member->step_id};
}

/* Time ran out before everybody was there. Consumes `status`. */
static dp_status *say_unresolved(const collective_op *op, dp_status *status) {
  if (dp_status_code(status) != DP_DEADLINE_EXCEEDED || strstr(dp_status_message(status), "Collec"))
    return status;
  dp_status_release(status);
  return dp_status_create(DP_DEADLINE_EXCEEDED,
                          "Collective has timed out waiting for other workers: %s had no answer "
                          "from the leader %s, for instance %d of group %d of size %d",
                          op->member.name, op->step.leader, op->member.instance_key,
                          op->member.group_key, op->member.group_size);
}

static void instance_ready(void *arg, dp_status *status, int32_t source_rank) {
  collective_op *op = arg;
  if (status) {
    finish(op, say_unresolved(op, status));
    return;
  }
  op->source_rank = source_rank;
  if (op->member.kind == DP_COLLECTIVE_BROADCAST &&
      (source_rank < 0 || source_rank >= op->group->size ||
       op->member.is_source != (source_rank == op->rank))) {
    finish(op, dp_status_create(DP_INTERNAL,
                                "Instance %d already has source %d, received second claim from %d",
                                op->member.instance_key, source_rank, op->rank));
    return;
  }
  open_scope(op);
  run(op);
}

static void instance_told(void *arg, dp_status *status, int32_t source_rank) {
  collective_op *op = arg;
  instance_request request = describe_instance(op);
  if (!status)
    dp_instance_settle(op->step.collectives, op->group, &request);
  instance_ready(op, status, source_rank);
}

/* A genuine leader cuts its own tensor as the first who asked it did. */
static void add_ring_offsets(const dp_collective_member *member, dp_arena *arena,
                             Tensorflow__CompleteInstanceRequest *message) {
  message->n_subdiv_offset = member->ring_offset_count;
  message->subdiv_offset = DP_ARENA_ARRAY(arena, int32_t, member->ring_offset_count + 1);
  for (size_t i = 0; i < member->ring_offset_count; i++)
    message->subdiv_offset[i] = (int32_t)member->ring_offsets[i];
}

static void ask_for_instance(collective_op *op, const instance_request *request) {
  dp_arena *arena = dp_arena_create();
  Tensorflow__CompleteInstanceRequest message = TENSORFLOW__COMPLETE_INSTANCE_REQUEST__INIT;
  message.name = (char *)request->name;
  message.type = (int32_t)request->kind;
  message.data_type = (Tensorflow__DataType)request->dtype;
  message.shape = dp_wire_shape_message(&request->shape, arena);
  message.group_key = op->group->key;
  message.group_size = op->group->size;
  message.instance_key = request->key;
  message.device_type = op->group->device_type;
  message.device = (char *)request->device;
  message.is_source = request->is_source;
  add_ring_offsets(&op->member, arena, &message);
  message.running_step_id = request->running_step_id;
  op->step.peers->complete_instance(op->step.peers_arg, op->step.leader, &message, op->scope,
                                    instance_told, op);
  dp_arena_destroy(arena);
}

/* Consumes the reference to `group`. */
static void group_ready(void *arg, dp_status *status, collective_group *group) {
  collective_op *op = arg;
  if (status) {
    finish(op, say_unresolved(op, status));
    return;
  }
  pthread_mutex_lock(&op->step.collectives->lock);
  op->group = group;
  op->rank = dp_group_rank(group, op->member.device);
  op->phase = OP_INSTANCE;
  pthread_mutex_unlock(&op->step.collectives->lock);
  instance_request request = describe_instance(op);
  if (op->rank < 0)
    finish(op, dp_status_create(DP_INTERNAL, "Device %s is no member of group %d",
                                op->member.device, group->key));
  else if (dp_instance_is_settled(op->step.collectives, group, &request))
    instance_ready(op, NULL, -1);
  else if (leads(op))
    dp_instance_join(op->step.collectives, group, &request, op->scope, instance_told, op);
  else
    ask_for_instance(op, &request);
}

/* ---- The group ---- */

static void group_told(void *arg, dp_status *status,
                       const Tensorflow__CompleteGroupResponse *response) {
  collective_op *op = arg;
  collective_group *group = NULL;
  if (!status)
    status = dp_group_learn(op->step.collectives, response, &group);
  group_ready(op, status, group);
}

static void ask_for_group(collective_op *op, const group_request *request) {
  Tensorflow__DeviceAttributes device = TENSORFLOW__DEVICE_ATTRIBUTES__INIT;
  Tensorflow__DeviceLocality locality = TENSORFLOW__DEVICE_LOCALITY__INIT;
  Tensorflow__CompleteGroupRequest message = TENSORFLOW__COMPLETE_GROUP_REQUEST__INIT;
  device.name = (char *)request->device;
  device.device_type = (char *)request->device_type;
  device.memory_limit = request->memory_limit;
  device.incarnation = request->incarnation;
  device.locality = &locality;
  message.group_key = request->key;
  message.group_size = request->size;
  message.device_type = (char *)request->device_type;
  message.collective_type = (int32_t)op->member.kind;
  message.device_attributes = &device;
  message.is_downpour = true;
  op->step.peers->complete_group(op->step.peers_arg, op->step.leader, &message, op->scope,
                                 group_told, op);
}

static dp_status *check_member(const collective_op *op) {
  const dp_collective_member *member = &op->member;
  if (member->group_size <= 0)
    return DP_INVALID("group_size must be positive integer but got %d", member->group_size);
  if (op->step.most_members > 0 && member->group_size > op->step.most_members)
    return DP_INVALID("Collective group %d has %d members, but %s has %d devices and there are no "
                      "other tasks",
                      member->group_key, member->group_size, op->step.task, op->step.most_members);
  return NULL;
}

static void start(collective_op *op) {
  const dp_collective_member *member = &op->member;
  group_request request = {.key = member->group_key,
                           .size = member->group_size,
                           .device = member->device,
                           .device_type = member->device_type,
                           .incarnation = member->incarnation,
                           .memory_limit = member->memory_limit,
                           .is_ours = true};
  dp_status *status = check_member(op);
  if (status) {
    finish(op, status);
    return;
  }
  collective_group *group = dp_group_find(op->step.collectives, &request);
  if (group)
    group_ready(op, NULL, group);
  else if (leads(op) && (status = dp_group_note_loss(op->step.collectives, member->group_key)))
    finish(op, status);
  else if (leads(op))
    dp_group_join(op->step.collectives, &request, op->scope, group_ready, op);
  else
    ask_for_group(op, &request);
}

void dp_collective_join(const dp_collective_step *step, dp_collective_member *member) {
  start(make_op(step, member));
}

/* ---- For people ---- */

static void describe(dp_collectives *collectives, collective_op *op, dp_text *text) {
  const dp_collective_member *member = &op->member;
  dp_text_printf(text, "%s (%s), instance %d of group %d: ", member->name, member->device,
                 member->instance_key, member->group_key);
  if (op->phase == OP_RUN) {
    pthread_mutex_lock(&op->lock);
    dp_text_add(text, "waits for chunks,");
    print_missing(op, text);
    pthread_mutex_unlock(&op->lock);
    return;
  }
  const collective_group *group =
      dp_map_get_n(collectives->groups, &member->group_key, sizeof(member->group_key));
  if (op->phase == OP_GROUP && leads(op) && group)
    dp_group_describe(group, text);
  else if (leads(op))
    dp_text_add(text, "waits for the other members");
  else
    dp_text_printf(text, "waits for %d members, says the leader %s", member->group_size,
                   op->step.leader);
}

typedef struct op_line {
  int64_t step_id, age;
  char *line;
} op_line;

void dp_collectives_visit(dp_collectives *collectives, dp_collective_visit_fn visit, void *arg) {
  DP_ARRAY(op_line) lines = {0};
  int64_t now = dp_clock_nanos();
  pthread_mutex_lock(&collectives->lock);
  for (collective_op *op = collectives->ops; op; op = op->next) {
    dp_text text = {0};
    describe(collectives, op, &text);
    DP_ARRAY_PUSH(&lines, ((op_line){op->member.step_id, now - op->since, dp_text_take(&text)}));
  }
  pthread_mutex_unlock(&collectives->lock);
  for (size_t i = 0; i < lines.count; i++) {
    visit(arg, lines.items[i].step_id, lines.items[i].age, lines.items[i].line);
    dp_free(lines.items[i].line);
  }
  DP_ARRAY_FREE(&lines);
}
