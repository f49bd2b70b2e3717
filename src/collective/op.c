/* One member in one collective: it finds its group, reports its instance to the leader, runs the
 * algorithm, and gives the result to the caller.
 *
 * Each phase has a cancel scope with the op's time limit. The algorithm consists of parts (part.c);
 * the op ends with the last of them. Unless the step was cancelled, an error also aborts the step's
 * board, so that members that wait for our chunks get it. After an error a member asks the leader
 * for the group again, because another member may have restarted. Any thread may run the callbacks;
 * the op frees itself at the end. */
#include <inttypes.h>
#include "base/clock.h"
#include "base/log.h"
#include "collective/collective_internal.h"
#include "wire/shape_message.h"

/* ---- Creating and destroying ---- */

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

/* Replaces the op's scope by a new one for the next phase. */
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

/* Tells an error to the members that wait for our chunks. */
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

void dp_collective_finish(collective_op *op, dp_status *status) {
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
  free_op(op); /* before `done`, after which the step may end and its objects go */
  done(arg, status, &result);
  dp_tensor_deinit(&result);
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
    dp_part_watch(op);
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

/* When the time limit ended the wait, makes an error that says what was awaited. Consumes `status`.
 */
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
    dp_collective_finish(op, say_unresolved(op, status));
    return;
  }
  op->source_rank = source_rank;
  if (op->member.kind == DP_COLLECTIVE_BROADCAST &&
      (source_rank < 0 || source_rank >= op->group->size ||
       op->member.is_source != (source_rank == op->rank))) {
    dp_collective_finish(
        op, dp_status_create(DP_INTERNAL,
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

/* A genuine leader uses the offsets of the first request for its own rings. */
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
    dp_collective_finish(op, say_unresolved(op, status));
    return;
  }
  pthread_mutex_lock(&op->step.collectives->lock);
  op->group = group;
  op->rank = dp_group_rank(group, op->member.device);
  op->phase = OP_INSTANCE;
  pthread_mutex_unlock(&op->step.collectives->lock);
  instance_request request = describe_instance(op);
  if (op->rank < 0)
    dp_collective_finish(op, dp_status_create(DP_INTERNAL, "Device %s is no member of group %d",
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
    dp_collective_finish(op, status);
    return;
  }
  collective_group *group = dp_group_find(op->step.collectives, &request);
  if (group)
    group_ready(op, NULL, group);
  else if (leads(op) && (status = dp_group_note_loss(op->step.collectives, member->group_key)))
    dp_collective_finish(op, status);
  else if (leads(op))
    dp_group_join(op->step.collectives, &request, op->scope, group_ready, op);
  else
    ask_for_group(op, &request);
}

void dp_collective_join(const dp_collective_step *step, dp_collective_member *member) {
  start(make_op(step, member));
}

/* ---- For the status page ---- */

static void describe(dp_collectives *collectives, collective_op *op, dp_text *text) {
  const dp_collective_member *member = &op->member;
  dp_text_printf(text, "%s (%s), instance %d of group %d: ", member->name, member->device,
                 member->instance_key, member->group_key);
  if (op->phase == OP_RUN) {
    pthread_mutex_lock(&op->lock);
    dp_text_add(text, "waits for chunks,");
    dp_part_print_missing(op, text);
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
