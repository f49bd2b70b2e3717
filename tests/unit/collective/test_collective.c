/* The algorithms, with all members in one process: 2 to 5 tasks with one or several devices each,
 * chunks of all sizes, all dtypes, several rings. */
#include "members.h"

typedef struct meeting {
  test_cluster *cluster;
  dp_collective_kind kind;
  dp_dtype dtype;
  int64_t count; /* elements of each member's tensor */
  int source;
  int64_t offsets[3];
  size_t offset_count;
  int32_t max_subdivisions;
  int32_t instance_key;
  outcome members[MOST_TASKS * MOST_DEVICES];
} meeting;

static int size_of(const meeting *all) {
  return all->cluster->task_count * all->cluster->device_count;
}

static void put(dp_dtype dtype, void *data, int64_t at, int64_t value) {
  switch (dp_dtype_size(dtype)) {
  case 1:
    ((uint8_t *)data)[at] = (uint8_t)(value & 1);
    break;
  case 2:
    ((uint16_t *)data)[at] = (uint16_t)value;
    break;
  case 4:
    if (dtype == DP_FLOAT)
      ((float *)data)[at] = (float)value;
    else
      ((int32_t *)data)[at] = (int32_t)value;
    break;
  default:
    if (dtype == DP_DOUBLE)
      ((double *)data)[at] = (double)value;
    else
      ((int64_t *)data)[at] = value;
  }
}

/* Element i of the input of member `rank`. */
static int64_t value_at(int rank, int64_t i) {
  return (i % 11) * (rank + 1) + rank;
}

static dp_tensor make_input(const meeting *all, int rank) {
  dp_shape shape = dp_shape_vector(all->count);
  dp_tensor input;
  assert_null(dp_tensor_create(all->dtype, &shape, &input));
  for (int64_t i = 0; i < all->count; i++)
    put(all->dtype, input.data, i, value_at(rank, i));
  return input;
}

static void come(meeting *all, int rank) {
  int task = rank / all->cluster->device_count, device = rank % all->cluster->device_count;
  dp_collective_member member =
      cluster_member(all->cluster, task, device, all->dtype, &all->members[rank]);
  int64_t count = all->count * (all->kind == DP_COLLECTIVE_GATHER ? size_of(all) : 1);
  member.kind = all->kind;
  member.shape = dp_shape_vector(count);
  member.instance_key = all->instance_key;
  member.is_source = all->kind == DP_COLLECTIVE_BROADCAST && rank == all->source;
  member.ring_offsets = all->offsets;
  member.ring_offset_count = all->kind == DP_COLLECTIVE_REDUCTION ? all->offset_count : 0;
  member.max_subdivisions = all->max_subdivisions;
  if (all->kind == DP_COLLECTIVE_ALL_TO_ALL)
    member.shape = dp_shape_matrix(size_of(all), all->count / size_of(all));
  if (all->kind != DP_COLLECTIVE_BROADCAST || member.is_source)
    member.input = make_input(all, rank);
  dp_collective_step step = cluster_step(all->cluster, task);
  dp_collective_join(&step, &member);
}

static void come_range(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    come(arg, (int)i);
}

/* Element i of the result that every member must get. */
static int64_t expected_at(const meeting *all, int rank, int64_t i) {
  int64_t sum = 0;
  int64_t row = all->count / size_of(all);
  switch (all->kind) {
  case DP_COLLECTIVE_REDUCTION:
    for (int member = 0; member < size_of(all); member++)
      sum += value_at(member, i);
    return sum;
  case DP_COLLECTIVE_GATHER:
    return value_at((int)(i / all->count), i % all->count);
  case DP_COLLECTIVE_ALL_TO_ALL:
    return value_at((int)(i / row), rank * row + i % row);
  default:
    return value_at(all->source, i);
  }
}

static void check(meeting *all, int rank) {
  outcome *one = &all->members[rank];
  outcome_wait(one);
  assert_string_equal(one->message, "");
  int64_t count = all->count * (all->kind == DP_COLLECTIVE_GATHER ? size_of(all) : 1);
  assert_int_equal(one->result.shape.elements, count);
  char want[8], *data = one->result.data;
  size_t size = dp_dtype_size(all->dtype);
  for (int64_t i = 0; i < count; i++) {
    put(all->dtype, want, 0, expected_at(all, rank, i));
    assert_memory_equal(data + (size_t)i * size, want, size);
  }
  dp_tensor_deinit(&one->result);
}

static void hold(meeting *all) {
  dp_pool_for(all->cluster->pool, size_of(all), 1, come_range, all);
  for (int i = 0; i < size_of(all); i++)
    check(all, i);
  cluster_next_step(all->cluster);
  all->instance_key++;
}

/* Calls fn for clusters of every form. */
static void in_clusters(void (*fn)(meeting *all)) {
  static const int forms[][3] = {{1, 1, 0}, {1, 3, 0}, {2, 1, 1}, {3, 1, 0},
                                 {4, 1, 2}, {5, 1, 4}, {2, 3, 0}, {5, 2, 1}};
  for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
    meeting *all = DP_NEW(meeting);
    *all = (meeting){.cluster = cluster_create(forms[i][0], forms[i][1], forms[i][2]),
                     .dtype = DP_FLOAT,
                     .max_subdivisions = -1};
    fn(all);
    cluster_destroy(all->cluster);
    dp_free(all);
  }
}

static void reduce_any_length(meeting *all) {
  static const int64_t counts[] = {0, 1, 15, 16, 17, 31, 64, 100, 1000, 100003};
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
    all->count = counts[i];
    hold(all);
  }
}

static void reduce_any_dtype(meeting *all) {
  static const dp_dtype dtypes[] = {DP_FLOAT, DP_DOUBLE, DP_HALF, DP_BFLOAT16, DP_INT32, DP_INT64};
  all->count = 77;
  for (size_t i = 0; i < sizeof(dtypes) / sizeof(*dtypes); i++) {
    all->dtype = dtypes[i];
    hold(all);
  }
}

static void reduce_over_rings(meeting *all) {
  static const int64_t offsets[][3] = {{0, 0, 0}, {0, -1, 0}, {1, -2, 5}};
  all->count = 1001;
  for (size_t count = 1; count <= 3; count++) {
    memcpy(all->offsets, offsets[count - 1], sizeof(all->offsets));
    all->offset_count = count;
    hold(all);
  }
}

static void reduce_large(meeting *all) {
  all->count = 3 << 20;
  all->max_subdivisions = 0;
  hold(all);
}

static void gather(meeting *all) {
  static const int64_t counts[] = {0, 1, 5, 1000};
  all->kind = DP_COLLECTIVE_GATHER;
  for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
    all->count = counts[i];
    hold(all);
  }
}

static void broadcast_from_each(meeting *all) {
  all->kind = DP_COLLECTIVE_BROADCAST;
  for (all->source = 0; all->source < size_of(all); all->source++) {
    all->dtype = all->source % 2 ? DP_BOOL : DP_INT64;
    all->count = all->source * 10;
    hold(all);
  }
}

static void all_to_all(meeting *all) {
  all->kind = DP_COLLECTIVE_ALL_TO_ALL;
  for (int row = 0; row < 4; row++) {
    all->count = row * size_of(all);
    hold(all);
  }
}

/* The same keys in many steps: what is remembered of earlier steps must not disturb later ones. */
static void the_same_instance(meeting *all) {
  for (int i = 0; i < 6; i++) {
    all->kind = i % 2 ? DP_COLLECTIVE_REDUCTION : DP_COLLECTIVE_BROADCAST;
    all->source = i % size_of(all);
    all->count = 10 + i / 4;
    hold(all);
    all->instance_key = 1 + i % 2;
  }
}

#define IN_CLUSTERS(name)                                                                          \
  static void test_##name(void **unused) {                                                         \
    in_clusters(name);                                                                             \
  }
IN_CLUSTERS(reduce_any_length)
IN_CLUSTERS(reduce_any_dtype)
IN_CLUSTERS(reduce_over_rings)
IN_CLUSTERS(reduce_large)
IN_CLUSTERS(gather)
IN_CLUSTERS(broadcast_from_each)
IN_CLUSTERS(all_to_all)
IN_CLUSTERS(the_same_instance)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reduce_any_length),
      cmocka_unit_test(test_reduce_any_dtype),
      cmocka_unit_test(test_reduce_over_rings),
      cmocka_unit_test(test_reduce_large),
      cmocka_unit_test(test_gather),
      cmocka_unit_test(test_broadcast_from_each),
      cmocka_unit_test(test_all_to_all),
      cmocka_unit_test(test_the_same_instance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
