/* Linear regression, y = 0.1 x + 0.3, asynchronously on as many workers as there are:
 *
 *   downpour launch --ps 1 --workers 2 -- build/examples/linreg --dir /tmp/linreg
 *
 * Options are in example.h. Started again with the same --dir, it goes on where it stopped. */
#include "example.h"

enum { POINTS = 100 };

int main(int argc, char **argv) {
  example_options options = example_parse(argc, argv, (example_options){.steps = 1000});
  dp_job *job = example_job(argv[0]);
  dp_model *model = dp_model_create(job);
  dp_scope *scope = dp_model_scope(model);

  TF_Output x = dp_placeholder(scope, TF_FLOAT, .shape = DP_SHAPE(POINTS));
  TF_Output y = dp_placeholder(scope, TF_FLOAT, .shape = DP_SHAPE(POINTS));
  TF_Output w = dp_model_variable(model, "W", DP_SHAPE(1), dp_init_uniform(-1, 1));
  TF_Output b = dp_model_variable(model, "b", DP_SHAPE(1), dp_init_constant(0));
  TF_Output loss = dp_loss_squared(model, dp_add_v2(scope, dp_mul(scope, w, x), b), y);
  dp_model_minimize(model, dp_sgd(0.1), loss, .sync = options.sync,
                    .replicas = (int)options.replicas);
  dp_model_summary_scalar(model, "cost", loss);

  dp_training *training =
      dp_training_start(model, .checkpoint_dir = options.dir, .last_step = options.steps,
                        .save_steps = 200, .log_steps = 100, .metrics = DP_METRICS({"loss", loss}));
  while (!dp_training_should_stop(training)) {
    float xs[POINTS], ys[POINTS];
    for (int i = 0; i < POINTS; i++) {
      xs[i] = (float)rand() / (float)RAND_MAX;
      ys[i] = xs[i] * 0.1f + 0.3f;
    }
    TF_Tensor *x_batch = dp_tensor_of_floats(DP_SHAPE(POINTS), xs);
    TF_Tensor *y_batch = dp_tensor_of_floats(DP_SHAPE(POINTS), ys);
    dp_training_run(training, DP_FEEDS({x, x_batch}, {y, y_batch}), DP_OUTPUTS(w, b));
    TF_DeleteTensor(x_batch);
    TF_DeleteTensor(y_batch);
  }
  if (dp_training_fetch(training, DP_FEEDS(), DP_OUTPUTS(w, b)))
    printf("W = %.3f, b = %.3f after %lld steps\n", dp_training_number(training, 0),
           dp_training_number(training, 1), (long long)dp_training_step(training));
  int code = dp_training_end(training);
  dp_model_destroy(model);
  dp_job_end(job);
  return code;
}
