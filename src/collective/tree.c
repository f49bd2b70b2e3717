/* Broadcast, in TensorFlow's trees: one tree connects one device per task (the source, or the first
 * device of the task), and one tree per task connects its devices. In each tree members have ranks.
 *
 *   source is rank 0      rank r sends to 2r + 1 and 2r + 2
 *   source is not rank 0  rank r sends to 2r + 2 and 2r + 3, and the source also to 0 and 1; nobody
 *                         sends to the source
 *
 * A device is in at most two trees and receives in at most one of them; then it sends in both. */
#include <stdio.h>
#include <string.h>
#include "collective/collective_internal.h"

/* One tree: its members in the order of their ranks in it. */
typedef struct tree {
  int32_t number; /* in keys */
  int32_t size;
  int32_t source;   /* the rank of the source in this tree */
  int32_t rank;     /* our rank in this tree; -1 when we are not in it */
  int32_t *members; /* the members of the group by their ranks in this tree */
} tree;

typedef struct tree_run {
  collective_op *op;
  int32_t tree_count;
  tree *trees;
} tree_run;

enum { KEY_SIZE = 128 };

/* ---- Shape of the trees ---- */

static void add_to_tree(tree *one, int32_t member, const collective_op *op) {
  if (member == op->rank)
    one->rank = one->size;
  if (member == op->source_rank)
    one->source = one->size;
  one->members[one->size++] = member;
}

static int32_t task_end(const collective_group *group, int32_t first) {
  int32_t end = first + 1;
  while (end < group->size &&
         strcmp(group->members.items[end].task, group->members.items[first].task) == 0)
    end++;
  return end;
}

static tree *make_trees(collective_op *op, int32_t *count_out) {
  const collective_group *group = op->group;
  bool has_several_tasks = group->task_count > 1;
  int32_t count = group->task_count + has_several_tasks;
  tree *trees = DP_ARENA_ARRAY(op->arena, tree, (size_t)count);
  for (int32_t i = 0; i < count; i++)
    trees[i] = (tree){.number = i,
                      .rank = -1,
                      .members = DP_ARENA_ARRAY(op->arena, int32_t, (size_t)group->size)};
  int32_t task = has_several_tasks;
  for (int32_t first = 0; first < group->size; task++) {
    int32_t end = task_end(group, first);
    bool has_source = op->source_rank >= first && op->source_rank < end;
    if (has_several_tasks)
      add_to_tree(&trees[0], has_source ? op->source_rank : first, op);
    for (int32_t i = first; i < end; i++)
      add_to_tree(&trees[task], i, op);
    first = end;
  }
  *count_out = count;
  return trees;
}

static int32_t parent_of(const tree *one) {
  if (one->source == 0)
    return (one->rank - 1) / 2;
  int32_t parent = one->rank / 2 - 1;
  return parent < 0 ? one->source : parent;
}

static int children_of(const tree *one, int32_t children[4]) {
  int count = 0;
  if (one->rank == one->source && one->source != 0) {
    children[count++] = 0;
    if (one->size > 2 && one->source != 1)
      children[count++] = 1;
  }
  int32_t next = one->source == 0 ? 2 * one->rank + 1 : 2 * (one->rank + 1);
  for (int i = 0; i < 2; i++, next++) {
    if (next < one->size && next != one->source)
      children[count++] = next;
  }
  return count;
}

/* ---- Moving ---- */

static void print_key(const collective_op *op, const tree *one, int32_t from, int32_t to,
                      char key[KEY_SIZE]) {
  snprintf(key, KEY_SIZE, "%s:%d:%d:%d", op->key, one->number, from, to);
}

static void send_to_children(collective_op *op, const tree *one) {
  int32_t children[4];
  int count = one->rank >= 0 ? children_of(one, children) : 0;
  for (int i = 0; i < count; i++) {
    char key[KEY_SIZE];
    print_key(op, one, one->rank, children[i], key);
    dp_part_send(op, one->members[children[i]], key, &op->result, 0, op->result.shape.elements);
  }
}

static void send_everywhere(tree_run *run) {
  for (int32_t i = 0; i < run->tree_count; i++)
    send_to_children(run->op, &run->trees[i]);
}

static void received(void *arg, dp_tensor *value) {
  send_everywhere(arg);
}

static dp_status *receive(tree_run *run) {
  collective_op *op = run->op;
  DP_RETURN_IF_ERROR(dp_tensor_create(op->member.dtype, &op->member.shape, &op->result));
  const tree *one = run->trees;
  while (one->rank < 0 || one->rank == one->source)
    one++;
  char key[KEY_SIZE];
  int32_t from = parent_of(one);
  print_key(op, one, from, one->rank, key);
  dp_part_receive(op, one->members[from], key, op->result.data, dp_tensor_bytes(&op->result),
                  received, run);
  return NULL;
}

void dp_tree_start(collective_op *op) {
  tree_run *run = DP_ARENA_NEW(op->arena, tree_run);
  run->op = op;
  run->trees = make_trees(op, &run->tree_count);
  dp_part_begin(op);
  dp_status *status = NULL;
  if (op->rank == op->source_rank) {
    op->result = dp_tensor_copy(&op->member.input);
    send_everywhere(run);
  } else {
    status = receive(run);
  }
  dp_part_end(op, status);
}
