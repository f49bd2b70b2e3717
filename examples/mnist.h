/* MNIST for the examples, which say no more than their model: the files, the training, and the
 * accuracy over the test set.
 *
 *   static TF_Output logits(dp_model *model, TF_Output images) { ... }
 *   int main(int argc, char **argv) {
 *     return mnist_run(argc, argv, &(mnist_example){.logits = logits, ...});
 *   } */
#ifndef EXAMPLE_MNIST_H
#define EXAMPLE_MNIST_H

#include "example.h"

enum { MNIST_SIDE = 28, MNIST_PIXELS = MNIST_SIDE * MNIST_SIDE, MNIST_CLASSES = 10 };

/* `which` is "train" or "t10k". */
static inline dp_examples *mnist_load(const char *folder, const char *which) {
  char images[512], labels[512];
  snprintf(images, sizeof(images), "%s/%s-images-idx3-ubyte.gz", folder, which);
  snprintf(labels, sizeof(labels), "%s/%s-labels-idx1-ubyte.gz", folder, which);
  TF_Status *status = TF_NewStatus();
  dp_examples *examples = dp_examples_idx(images, labels, status);
  if (!examples) {
    fprintf(stderr, "mnist: %s (--data DIR names the folder with MNIST's four files)\n",
            TF_Message(status));
    exit(1);
  }
  TF_DeleteStatus(status);
  return examples;
}

/* Steps until the training stops. */
static inline void mnist_train(dp_training *training, dp_examples *examples, long batch,
                               TF_Output x, TF_Output y) {
  while (!dp_training_should_stop(training)) {
    TF_Tensor *images, *labels;
    dp_examples_batch(examples, batch, &images, &labels);
    dp_training_run(training, DP_FEEDS({x, images}, {y, labels}), DP_OUTPUTS());
    TF_DeleteTensor(images);
    TF_DeleteTensor(labels);
  }
}

/* Over all examples, a thousand at a time; below 0 after an error. */
static inline double mnist_test(dp_training *training, dp_examples *examples, TF_Output x,
                                TF_Output y, TF_Output accuracy) {
  double sum = 0;
  long count = dp_examples_count(examples) / 1000;
  for (long i = 0; i < count && sum >= 0; i++) {
    TF_Tensor *images, *labels;
    dp_examples_batch(examples, 1000, &images, &labels);
    if (dp_training_fetch(training, DP_FEEDS({x, images}, {y, labels}), DP_OUTPUTS(accuracy)))
      sum += dp_training_number(training, 0);
    else
      sum = -1;
    TF_DeleteTensor(images);
    TF_DeleteTensor(labels);
  }
  return sum / (double)count;
}

/* The chief's last words: the accuracy over the test set. */
static inline void mnist_report(dp_training *training, const char *folder, TF_Output x, TF_Output y,
                                TF_Output accuracy) {
  dp_examples *tests = mnist_load(folder, "t10k");
  double result = mnist_test(training, tests, x, y, accuracy);
  if (result >= 0)
    printf("test accuracy %.2f %% after %lld steps\n", 100 * result,
           (long long)dp_training_step(training));
  dp_examples_destroy(tests);
}

typedef struct mnist_example {
  example_options defaults; /* steps and batch */
  /* Images are [batch, 28, 28]; the answer [batch, 10]. */
  TF_Output (*logits)(dp_model *model, TF_Output images);
  dp_optimizer optimizer;
  double final_rate; /* the learning rate goes down to it in a line; 0: it stays as it is */
  double clip_norm;  /* of the gradients; 0: none */
} mnist_example;

static inline dp_optimizer mnist_optimizer(dp_model *model, const mnist_example *example,
                                           long steps) {
  dp_optimizer optimizer = example->optimizer;
  if (example->final_rate > 0)
    optimizer.rate_output =
        dp_schedule_polynomial(model, optimizer.rate, (double)steps, example->final_rate, 1);
  return optimizer;
}

/* The whole of main. */
static inline int mnist_run(int argc, char **argv, const mnist_example *example) {
  example_options options = example->defaults;
  options.data = "data/mnist";
  options = example_parse(argc, argv, options);
  dp_job *job = example_job(argv[0]);
  dp_examples *examples = mnist_load(options.data, "train");
  dp_examples_shuffle(examples, 1 + (uint64_t)dp_job_worker(job));

  dp_model *model = dp_model_create(job);
  dp_model_place_by_bytes(model);
  dp_scope *scope = dp_model_scope(model);
  TF_Output x = dp_placeholder(scope, TF_FLOAT), y = dp_placeholder(scope, TF_INT32);
  TF_Output logits = example->logits(model, x);
  TF_Output loss = dp_loss_softmax(model, logits, y);
  TF_Output accuracy = dp_metric_accuracy(model, logits, y);
  dp_model_minimize(model, mnist_optimizer(model, example, options.steps), loss,
                    .clip_norm = example->clip_norm, .sync = options.sync,
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

#endif
