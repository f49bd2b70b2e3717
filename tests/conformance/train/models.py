"""The models and the data of the training tests."""

import gzip
import pathlib

import numpy as np

import tensorflow as tf

tf1 = tf.compat.v1
DATA = pathlib.Path(__file__).resolve().parents[3] / "data" / "mnist"


def read_idx(name, header):
    with gzip.open(DATA / name) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def mnist(part):
    """Images [n, 784] in 0 to 1 and labels [n]; `part` is "train" or "t10k"."""
    images = read_idx(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(np.float32)
    return images / 255.0, read_idx(f"{part}-labels-idx1-ubyte.gz", 8).astype(np.int64)


def batches(images, labels, size, seed):
    """Batches without end, shuffled anew each epoch."""
    random = np.random.RandomState(seed)
    while True:
        order = random.permutation(len(images))
        for begin in range(0, len(order) - size + 1, size):
            chosen = order[begin:begin + size]
            yield images[chosen], labels[chosen]


def softmax(images):
    weights = tf1.get_variable("weights", [784, 10], initializer=tf1.zeros_initializer())
    biases = tf1.get_variable("biases", [10], initializer=tf1.zeros_initializer())
    return tf.matmul(images, weights) + biases


def convolutional(images):
    """Two convolutions with pooling, two dense layers: 3.2 million multiplications an image."""
    def weights(name, shape, scale):
        return tf1.get_variable(name, shape, initializer=tf1.truncated_normal_initializer(
            stddev=scale))

    def zeros(name, count):
        return tf1.get_variable(name, [count], initializer=tf1.zeros_initializer())
    x = tf.reshape(images, [-1, 28, 28, 1])
    for layer, (inputs, outputs) in enumerate([(1, 16), (16, 32)], 1):
        kernel = weights(f"conv{layer}/kernel", [5, 5, inputs, outputs], (25 * inputs) ** -0.5)
        x = tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME")
        x = tf.nn.relu(tf.nn.bias_add(x, zeros(f"conv{layer}/bias", outputs)))
        x = tf1.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    x = tf.reshape(x, [-1, 7 * 7 * 32])
    x = tf.nn.relu(tf.matmul(x, weights("dense/kernel", [7 * 7 * 32, 128], 0.025))
                   + zeros("dense/bias", 128))
    return tf.matmul(x, weights("logits/kernel", [128, 10], 0.09)) + zeros("logits/bias", 10)


def loss_of(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits))


def accuracy_of(logits, labels):
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
