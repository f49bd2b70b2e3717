/* An LSTM that reads MNIST's images row by row and says the digit at the end:
 *
 *   downpour launch --ps 1 --workers 2 -- build/examples/lstm --dir /tmp/lstm
 *
 * Options are in example.h. Started again with the same --dir, it goes on where it stopped. */
#include "mnist.h"

enum { UNITS = 64 };

int main(int argc, char **argv) {
  example_options options = example_parse(
      argc, argv, (example_options){.steps = 1000, .batch = 64, .data = "data/mnist"});
  dp_job *job = example_job(argv[0]);
  dp_examples *examples = mnist_load(options.data, "train");
  dp_examples_shuffle(examples, 1 + (uint64_t)dp_job_worker(job));

  dp_model *model = dp_model_create(job);
  dp_scope *scope = dp_model_scope(model);
  TF_Output x = dp_placeholder(scope, TF_FLOAT), y = dp_placeholder(scope, TF_INT32);
  dp_output_list rows = dp_unpack(scope, x, MNIST_SIDE, .axis = 1);
  TF_Output inputs[MNIST_SIDE];
  for (int i = 0; i < MNIST_SIDE; i++)
    inputs[i] = dp_output_at(rows, i);
  dp_outputs sequence = {inputs, MNIST_SIDE};
  TF_Output last = dp_layer_lstm(model, "lstm", sequence, MNIST_SIDE, UNITS);
  TF_Output logits = dp_layer_dense(model, "dense", last, UNITS, MNIST_CLASSES, DP_LINEAR);
  TF_Output loss = dp_loss_softmax(model, logits, y);
  TF_Output accuracy = dp_metric_accuracy(model, logits, y);
  dp_model_minimize(model, dp_adam(0.003), loss, .clip_norm = 5, .sync = options.sync,
                    .replicas = (int)options.replicas);
  dp_model_summary_scalar(model, "loss", loss);
  dp_model_summary_scalar(model, "accuracy", accuracy);

  dp_training *training = dp_training_start(
      model, .checkpoint_dir = options.dir, .last_step = options.steps, .save_seconds = 30,
      .metrics = DP_METRICS({"loss", loss}, {"accuracy", accuracy}));
  mnist_train(training, examples, options.batch, x, y);
  if (dp_job_is_chief(job))
    mnist_report(training, options.data, x, y, accuracy);
  int code = dp_training_end(training);
  dp_model_destroy(model);
  dp_examples_destroy(examples);
  dp_job_end(job);
  return code;
}
