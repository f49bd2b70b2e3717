/* Variables in parts, for the conformance tests: makes one for each line of standard input,
 * "NAME KIND AXIS MOST BYTES SIZE...", restores or initializes them in DIR, prints the sum of each,
 * adds 1 to every number, and saves.
 *
 * usage: partitions DIR < lines */
#include <downpour_train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  dp_model *model = dp_model_create(NULL);
  dp_scope *scope = dp_model_scope(model);
  TF_Output sums[MOST], loss = dp_const_float(scope, 0);
  int count = 0;
  char line[256];
  while (count < MOST && fgets(line, sizeof(line), stdin)) {
    char name[64];
    int kind, axis, most, used;
    long bytes, size;
    int64_t dims[8];
    int rank = 0;
    if (sscanf(line, "%63s %d %d %d %ld%n", name, &kind, &axis, &most, &bytes, &used) != 5)
      return 2;
    for (char *at = line + used; sscanf(at, "%ld%n", &size, &used) == 1; at += used)
      dims[rank++] = size;
    dp_partitioner how = {(dp_partitioner_kind)kind, axis, most, bytes};
    TF_Output whole =
        dp_model_partitioned(model, name, (dp_dims){dims, rank}, dp_init_normal(0, 1), how);
    TF_Output flat = dp_layer_reshape(model, whole, DP_SHAPE(-1));
    sums[count] = dp_sum(scope, flat, dp_const_int32(scope, 0));
    loss = dp_sub(scope, loss, sums[count++]);
  }
  dp_model_minimize(model, dp_sgd(1), loss);
  dp_training *training = dp_training_start(model, .checkpoint_dir = argv[1], .save_steps = 1);
  if (dp_training_fetch(training, DP_FEEDS(), ((dp_outputs){sums, count})))
    for (int i = 0; i < count; i++)
      printf("%.4f\n", dp_training_number(training, i));
  dp_training_run(training, DP_FEEDS(), DP_OUTPUTS());
  int code = dp_training_end(training);
  dp_model_destroy(model);
  return code;
}
