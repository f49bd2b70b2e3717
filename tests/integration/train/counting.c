/* A training whose variables count its updates: every update adds exactly 1 to `first`, on
 * parameter server 0, and to `second`, on parameter server 1. So the number of updates that were
 * applied can be compared with the global step. Used by the tests that kill, stop and cut tasks.
 *
 *   counting [--steps N] [--dir DIR] [--sync] [--save N] [--recovery SECONDS] [--pause MS]
 *
 * Each worker prints "at STEP" after its steps, and at the end "end STEP FIRST SECOND". */
#include <downpour_train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct settings {
  const char *dir;
  bool sync;
  long steps, save, pause;
  double recovery;
} settings;

static settings parse(int argc, char **argv) {
  settings to = {.steps = 1000, .save = 50, .recovery = 60};
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--sync") == 0) {
      to.sync = true;
      continue;
    }
    if (strcmp(argv[i], "--dir") == 0)
      to.dir = value;
    else if (strcmp(argv[i], "--steps") == 0)
      to.steps = atol(value);
    else if (strcmp(argv[i], "--save") == 0)
      to.save = atol(value);
    else if (strcmp(argv[i], "--pause") == 0)
      to.pause = atol(value);
    else if (strcmp(argv[i], "--recovery") == 0)
      to.recovery = atof(value);
    else
      exit(2);
    i++;
  }
  return to;
}

static int place(void *arg, const dp_new_operation *variable, int64_t bytes, int ps_count) {
  return strncmp(variable->name, "second", 6) == 0 ? ps_count - 1 : 0;
}

/* Its gradient by both variables is -1. */
static TF_Output make_loss(dp_model *model) {
  dp_scope *scope = dp_model_scope(model);
  TF_Output first = dp_model_variable(model, "first", DP_SHAPE(), dp_init_constant(0));
  TF_Output second = dp_model_variable(model, "second", DP_SHAPE(), dp_init_constant(0));
  return dp_neg(scope, dp_add_v2(scope, first, second));
}

static void train(dp_training *training, dp_model *model, const settings *with) {
  TF_Output first = dp_model_reference(model, "first"),
            second = dp_model_reference(model, "second");
  while (!dp_training_should_stop(training)) {
    if (dp_training_run(training, DP_FEEDS(), DP_OUTPUTS()))
      printf("at %lld\n", (long long)dp_training_step(training));
    fflush(stdout);
    usleep((useconds_t)(1000 * with->pause));
  }
  if (dp_training_fetch(training, DP_FEEDS(),
                        DP_OUTPUTS(dp_model_global_step(model), first, second)))
    printf("end %.0f %.0f %.0f\n", dp_training_number(training, 0), dp_training_number(training, 1),
           dp_training_number(training, 2));
  fflush(stdout);
}

int main(int argc, char **argv) {
  settings with = parse(argc, argv);
  TF_Status *status = TF_NewStatus();
  dp_job *job = dp_job_start(status);
  if (!job) {
    fprintf(stderr, "counting: %s\n", TF_Message(status));
    return 1;
  }
  TF_DeleteStatus(status);
  if (dp_job_is_ps(job))
    return dp_job_serve(job);
  dp_model *model = dp_model_create(job);
  dp_model_place(model, place, NULL);
  dp_model_minimize(model, dp_sgd(1), make_loss(model), .sync = with.sync);
  dp_training *training =
      dp_training_start(model, .checkpoint_dir = with.dir, .last_step = with.steps,
                        .save_steps = with.save, .recovery_seconds = with.recovery);
  train(training, model, &with);
  int code = dp_training_end(training);
  dp_model_destroy(model);
  dp_job_end(job);
  return code;
}
