/* Softmax regression on MNIST:
 *
 *   downpour launch --ps 1 --workers 2 -- build/examples/mnist_softmax --dir /tmp/softmax
 *
 * Options are in example.h, the training is in mnist.h. Started again with the same --dir, it goes
 * on where it stopped. */
#include "mnist.h"

static TF_Output logits(dp_model *model, TF_Output images) {
  TF_Output pixels = dp_layer_reshape(model, images, DP_SHAPE(-1, MNIST_PIXELS));
  return dp_layer_dense(model, "softmax", pixels, MNIST_PIXELS, MNIST_CLASSES, DP_LINEAR);
}

int main(int argc, char **argv) {
  return mnist_run(argc, argv,
                   &(mnist_example){.defaults = {.steps = 2000, .batch = 100},
                                    .logits = logits,
                                    .optimizer = dp_sgd(0.5)});
}
