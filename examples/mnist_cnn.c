/* A convolutional network on MNIST: two convolutions with pooling, then two dense layers.
 *
 *   downpour launch --ps 2 --workers 3 -- build/examples/mnist_cnn --dir /tmp/cnn
 *
 * Options are in example.h. Started again with the same --dir, it goes on where it stopped. */
#include "mnist.h"

int main(int argc, char **argv) {
  example_options options = example_parse(
      argc, argv, (example_options){.steps = 1500, .batch = 64, .data = "data/mnist"});
  dp_job *job = example_job(argv[0]);
  dp_examples *examples = mnist_load(options.data, "train");
  dp_examples_shuffle(examples, 1 + (uint64_t)dp_job_worker(job));

  dp_model *model = dp_model_create(job);
  dp_model_place_by_bytes(model);
  dp_scope *scope = dp_model_scope(model);
  TF_Output x = dp_placeholder(scope, TF_FLOAT), y = dp_placeholder(scope, TF_INT32);
  TF_Output images = dp_layer_reshape(model, x, DP_SHAPE(-1, MNIST_SIDE, MNIST_SIDE, 1));
  TF_Output first = dp_layer_conv2d(model, "conv1", images, 1, 16, 5, DP_RELU);
  TF_Output second =
      dp_layer_conv2d(model, "conv2", dp_layer_max_pool(model, first), 16, 32, 5, DP_RELU);
  TF_Output flat =
      dp_layer_reshape(model, dp_layer_max_pool(model, second), DP_SHAPE(-1, 7 * 7 * 32));
  TF_Output hidden = dp_layer_dense(model, "dense1", flat, 7 * 7 * 32, 128, DP_RELU);
  TF_Output logits = dp_layer_dense(model, "dense2", hidden, 128, MNIST_CLASSES, DP_LINEAR);
  TF_Output loss = dp_loss_softmax(model, logits, y);
  TF_Output accuracy = dp_metric_accuracy(model, logits, y);
  dp_optimizer optimizer = dp_adam(0.001);
  optimizer.rate_output = dp_schedule_polynomial(model, 0.001, (double)options.steps, 0.00005, 1);
  dp_model_minimize(model, optimizer, loss, .sync = options.sync,
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
