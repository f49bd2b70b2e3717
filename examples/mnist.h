/* MNIST for the examples: the files, a training loop over batches, the accuracy over the test set.
 */
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

#endif
