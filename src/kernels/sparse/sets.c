/* Set operations: the last dimension of a tensor, dense or sparse, holds the members of one set per
 * index of the other dimensions. Union, intersection and difference of two such tensors, and
 * SetSize. The members of a set are sorted and made unique, then merged with the second operand's.
 * Sets are visited in order; sets that are empty on both sides are skipped. */
#include "kernels/shared/family.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/memory.h"
#include "kernels/shared/sparse.h"

/* A member: a number, or a string that the input keeps alive. */
typedef struct member {
  int64_t number;
  dp_view text;
} member;
typedef DP_ARRAY(member) member_list;

typedef enum set_operation { A_MINUS_B, B_MINUS_A, INTERSECTION, UNION } set_operation;
typedef enum operand_kind { DENSE, SPARSE } operand_kind;

typedef struct set_state {
  set_operation operation;
  operand_kind kinds[2];
} set_state;

/* One operand and where the walk over its groups is. */
typedef struct operand {
  operand_kind kind;
  const dp_tensor *values;
  dp_sparse sparse;
  dp_shape groups; /* all dimensions but the last */
  int64_t width;   /* size of the last dimension */
  int64_t cursor;  /* the next group (dense) or entry (sparse) */
  member_list members;
} operand;

static dp_status *set_create(const dp_kernel_setup *setup, void *memory) {
  static const char *const names[] = {"a-b", "b-a", "intersection", "union"};
  set_state *state = memory;
  dp_view name;
  DP_RETURN_IF_ERROR(dp_node_get_string(setup->node, "set_operation", &name));
  state->kinds[0] = dp_node_is(setup->node, "SparseToSparseSetOperation") ? SPARSE : DENSE;
  state->kinds[1] = dp_node_is(setup->node, "DenseToDenseSetOperation") ? DENSE : SPARSE;
  for (int i = 0; i < 4; ++i) {
    if (strlen(names[i]) == name.length && !strncasecmp(names[i], name.data, name.length)) {
      state->operation = (set_operation)i;
      return NULL;
    }
  }
  return DP_INVALID("Invalid set_operation %.*s.", (int)name.length, name.data);
}

/* ---- Operands ---- */
static dp_status *operand_open(dp_op_context *context, operand_kind kind, int32_t slot,
                               operand *operand) {
  const int64_t *dims;
  int32_t rank;
  operand->kind = kind;
  if (kind == DENSE) {
    operand->values = dp_op_input(context, slot);
    dims = operand->values->shape.dims;
    rank = operand->values->shape.rank;
  } else {
    dp_shape dense;
    DP_RETURN_IF_ERROR(dp_sparse_open(context, slot, slot + 1, slot + 2, &dp_sparse_plain_words,
                                      &operand->sparse));
    DP_RETURN_IF_ERROR(dp_sparse_dense_shape(&operand->sparse, &dense));
    DP_RETURN_IF_ERROR(dp_sparse_check_order(&operand->sparse));
    operand->values = operand->sparse.values;
    dims = operand->sparse.dims;
    rank = operand->sparse.rank;
  }
  if (rank < 2)
    return kind == DENSE ? DP_INVALID("Shape %s has rank %d < 2",
                                      dp_shape_text(&operand->values->shape), rank)
                         : DP_INVALID("Invalid rank %d.", rank);
  operand->width = dims[rank - 1];
  return dp_shape_make(rank - 1, dims, &operand->groups);
}

/* The next group that has members, or INT64_MAX. */
static int64_t operand_group(const operand *operand) {
  if (operand->kind == DENSE)
    return operand->cursor < operand->groups.elements ? operand->cursor : INT64_MAX;
  if (operand->cursor == operand->sparse.count)
    return INT64_MAX;
  const int64_t *row = operand->sparse.indices + operand->cursor * operand->sparse.rank;
  int64_t group = 0;
  for (int i = 0; i < operand->groups.rank; ++i)
    group = group * operand->groups.dims[i] + row[i];
  return group;
}

static int compare_members(const void *a, const void *b) {
  const member *left = a, *right = b;
  if (left->number != right->number)
    return left->number < right->number ? -1 : 1;
  size_t shorter = left->text.length < right->text.length ? left->text.length : right->text.length;
  int order = shorter ? memcmp(left->text.data, right->text.data, shorter) : 0;
  return order
             ? order
             : (left->text.length > right->text.length) - (left->text.length < right->text.length);
}

static void push_member(operand *operand, int64_t position) {
  member one = {0};
  if (operand->values->dtype == DP_STRING)
    one.text = dp_tstring_view(dp_tensor_strings(operand->values) + position);
  else
    one.number = dp_tensor_int_at(operand->values, position);
  DP_ARRAY_PUSH(&operand->members, one);
}

/* The members of a group, sorted and unique; none when the operand's next group is a later one. */
static void operand_load(operand *operand, int64_t group) {
  operand->members.count = 0;
  if (operand_group(operand) != group)
    return;
  if (operand->kind == DENSE) {
    for (int64_t i = 0; i < operand->width; ++i)
      push_member(operand, group * operand->width + i);
    ++operand->cursor;
  } else {
    while (operand_group(operand) == group)
      push_member(operand, operand->cursor++);
  }
  member *items = operand->members.items;
  size_t count = operand->members.count, kept = 0;
  if (count)
    qsort(items, count, sizeof *items, compare_members);
  for (size_t i = 0; i < count; ++i) {
    if (!kept || compare_members(items + kept - 1, items + i))
      items[kept++] = items[i];
  }
  operand->members.count = kept;
}

/* ---- Results ---- */
typedef struct set_results {
  member_list members;
  DP_ARRAY(int64_t) rows; /* group and position of each member */
  int64_t largest;
} set_results;

static void keep(set_results *results, int64_t group, int64_t *position, member one) {
  DP_ARRAY_PUSH(&results->members, one);
  DP_ARRAY_PUSH(&results->rows, group);
  DP_ARRAY_PUSH(&results->rows, *position);
  ++*position;
  if (*position > results->largest)
    results->largest = *position;
}

static void combine_group(set_operation operation, const operand *a, const operand *b,
                          int64_t group, set_results *results) {
  size_t i = 0, j = 0;
  int64_t position = 0;
  while (i < a->members.count || j < b->members.count) {
    int order = i == a->members.count ? 1
                : j == b->members.count
                    ? -1
                    : compare_members(a->members.items + i, b->members.items + j);
    bool wanted = operation == UNION       ? true
                  : operation == A_MINUS_B ? order < 0
                  : operation == B_MINUS_A ? order > 0
                                           : order == 0;
    if (wanted)
      keep(results, group, &position, order <= 0 ? a->members.items[i] : b->members.items[j]);
    i += order <= 0;
    j += order >= 0;
  }
}

static dp_status *output_members(dp_tensor *output, const member_list *members) {
  for (size_t i = 0; i < members->count; ++i) {
    const member *one = &members->items[i];
    if (output->dtype == DP_STRING)
      DP_RETURN_IF_ERROR(
          dp_tstring_assign(dp_tensor_strings(output) + i, one->text.data, one->text.length));
    else if (dp_dtype_size(output->dtype) == 1)
      ((uint8_t *)output->data)[i] = (uint8_t)one->number;
    else if (dp_dtype_size(output->dtype) == 2)
      ((uint16_t *)output->data)[i] = (uint16_t)one->number;
    else if (dp_dtype_size(output->dtype) == 4)
      ((uint32_t *)output->data)[i] = (uint32_t)one->number;
    else
      ((int64_t *)output->data)[i] = one->number;
  }
  return NULL;
}

static dp_status *output_results(dp_op_context *context, const dp_shape *groups,
                                 const set_results *results) {
  int64_t count = (int64_t)results->members.count, *indices, dims[DP_MAX_RANK];
  int32_t rank = groups->rank + 1;
  dp_shape shape = dp_shape_vector(count);
  dp_tensor *values;
  memcpy(dims, groups->dims, sizeof dims);
  dims[rank - 1] = results->largest;
  DP_RETURN_IF_ERROR(dp_sparse_allocate_indices(context, 0, count, rank, &indices));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 1, &shape, &values));
  DP_RETURN_IF_ERROR(dp_sparse_output_dims(context, 2, dims, rank));
  for (int64_t i = 0; i < count; ++i, indices += rank) {
    int64_t group = results->rows.items[2 * i];
    indices[rank - 1] = results->rows.items[2 * i + 1];
    for (int j = rank - 2; j >= 0; --j) {
      indices[j] = group % groups->dims[j];
      group /= groups->dims[j];
    }
  }
  return output_members(values, &results->members);
}

static dp_status *combine_sets(dp_op_context *context, const set_state *state, operand *a,
                               operand *b) {
  DP_RETURN_IF_ERROR(operand_open(context, state->kinds[0], 0, a));
  DP_RETURN_IF_ERROR(operand_open(context, state->kinds[1], state->kinds[0] == DENSE ? 1 : 3, b));
  if (!dp_shape_equal(&a->groups, &b->groups))
    return DP_INVALID("Mismatched shapes %s vs %s", dp_shape_text(&a->groups),
                      dp_shape_text(&b->groups));
  set_results results = {0};
  for (;;) {
    int64_t next_a = operand_group(a), next_b = operand_group(b);
    int64_t group = next_a < next_b ? next_a : next_b;
    if (group == INT64_MAX)
      break;
    operand_load(a, group);
    operand_load(b, group);
    combine_group(state->operation, a, b, group, &results);
  }
  dp_status *status = output_results(context, &a->groups, &results);
  DP_ARRAY_FREE(&results.members);
  DP_ARRAY_FREE(&results.rows);
  return status;
}

static dp_status *set_compute(dp_op_context *context, void *memory) {
  operand a = {0}, b = {0};
  dp_status *status = combine_sets(context, memory, &a, &b);
  DP_ARRAY_FREE(&a.members);
  DP_ARRAY_FREE(&b.members);
  return status;
}

/* ---- SetSize ---- */
static dp_status *size_compute(dp_op_context *context, void *memory) {
  (void)memory;
  operand sets = {0};
  dp_tensor *output;
  DP_RETURN_IF_ERROR(operand_open(context, SPARSE, 0, &sets));
  DP_RETURN_IF_ERROR(dp_op_allocate(context, 0, &sets.groups, &output));
  memset(output->data, 0, dp_tensor_bytes(output));
  for (int64_t group; (group = operand_group(&sets)) != INT64_MAX;) {
    operand_load(&sets, group);
    ((int32_t *)output->data)[group] = (int32_t)sets.members.count;
  }
  DP_ARRAY_FREE(&sets.members);
  return NULL;
}

#define SET_MEMBERS (DP_SET_SIGNED | DP_SET(UINT8) | DP_SET(UINT16) | DP_SET(STRING))
#define SET_OPERATION(name)                                                                        \
  {                                                                                                \
    .op = name, .types = {{"T", SET_MEMBERS}}, .state_size = sizeof(set_state),                    \
    .create = set_create, .compute = set_compute                                                   \
  }
static const dp_kernel rows[] = {
    SET_OPERATION("DenseToDenseSetOperation"),
    SET_OPERATION("DenseToSparseSetOperation"),
    SET_OPERATION("SparseToSparseSetOperation"),
    {.op = "SetSize", .types = {{"T", SET_MEMBERS}}, .compute = size_compute},
};
DP_KERNEL_FAMILY(sparse_sets, rows);
