/* A convolutional network on MNIST: two convolutions with pooling, then two dense layers.
 *
 *   downpour launch --ps 2 --workers 3 -- build/examples/mnist_cnn --dir /tmp/cnn
 *
 * Options are in example.h, the training is in mnist.h. Started again with the same --dir, it goes
 * on where it stopped. */
#include "mnist.h"

static TF_Output logits(dp_model *model, TF_Output images) {
  TF_Output x = dp_layer_reshape(model, images, DP_SHAPE(-1, MNIST_SIDE, MNIST_SIDE, 1));
  x = dp_layer_max_pool(model, dp_layer_conv2d(model, "conv1", x, 1, 16, 5, DP_RELU));
  x = dp_layer_max_pool(model, dp_layer_conv2d(model, "conv2", x, 16, 32, 5, DP_RELU));
  x = dp_layer_reshape(model, x, DP_SHAPE(-1, 7 * 7 * 32));
  x = dp_layer_dense(model, "dense1", x, 7 * 7 * 32, 128, DP_RELU);
  return dp_layer_dense(model, "dense2", x, 128, MNIST_CLASSES, DP_LINEAR);
}

int main(int argc, char **argv) {
  return mnist_run(argc, argv,
                   &(mnist_example){.defaults = {.steps = 1500, .batch = 64},
                                    .logits = logits,
                                    .optimizer = dp_adam(0.001),
                                    .final_rate = 0.00005});
}
