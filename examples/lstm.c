/* An LSTM that reads MNIST's images row by row and says the digit at the end:
 *
 *   downpour launch --ps 1 --workers 2 -- build/examples/lstm --dir /tmp/lstm
 *
 * Options are in example.h, the training is in mnist.h. Started again with the same --dir, it goes
 * on where it stopped. */
#include "mnist.h"

enum { UNITS = 64 };

static TF_Output logits(dp_model *model, TF_Output images) {
  dp_output_list rows = dp_unpack(dp_model_scope(model), images, MNIST_SIDE, .axis = 1);
  TF_Output inputs[MNIST_SIDE];
  for (int i = 0; i < MNIST_SIDE; i++)
    inputs[i] = dp_output_at(rows, i);
  dp_outputs sequence = {inputs, MNIST_SIDE};
  TF_Output last = dp_layer_lstm(model, "lstm", sequence, MNIST_SIDE, UNITS);
  return dp_layer_dense(model, "dense", last, UNITS, MNIST_CLASSES, DP_LINEAR);
}

int main(int argc, char **argv) {
  return mnist_run(argc, argv,
                   &(mnist_example){.defaults = {.steps = 1000, .batch = 64},
                                    .logits = logits,
                                    .optimizer = dp_adam(0.003),
                                    .clip_norm = 5});
}
