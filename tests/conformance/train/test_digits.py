"""The real digits, learned by three replicas on two parameter servers, asynchronously and in step."""

import threading

import numpy as np
import pytest

from clusters import tf, tf1
from models import accuracy_of, batches, convolutional, loss_of, mnist, softmax
from replicas import ByBytes, between_graph, monitored, run_replicas

REPLICAS = 3
NEWEST = tf.__version__.startswith("2.2")
MODES = pytest.mark.parametrize("synchronous", [False, True], ids=["asynchronous", "synchronous"])


class Training:
    """What a replica builds: the model on its worker, the variables and slots on the servers."""

    def __init__(self, model, rate_at, synchronous):
        self.x = tf1.placeholder(tf.float32, [None, 784])
        self.y = tf1.placeholder(tf.int64, [None])
        logits = model(self.x)
        self.accuracy = accuracy_of(logits, self.y)
        step = tf1.train.get_or_create_global_step()
        self.optimizer = tf1.train.AdamOptimizer(rate_at(step))
        if synchronous:
            self.optimizer = tf1.train.SyncReplicasOptimizer(self.optimizer, REPLICAS, REPLICAS)
        self.train = self.optimizer.minimize(loss_of(logits, self.y), global_step=step)

    def fed(self, batch):
        return dict(zip((self.x, self.y), batch))

    def test_accuracy(self, target):
        images, labels = mnist("t10k")
        with tf1.Session(target) as session:
            return np.mean([session.run(self.accuracy, self.fed((images[i:i + 1000],
                                                                 labels[i:i + 1000])))
                            for i in range(0, len(images), 1000)])


def learn(cluster, model, synchronous, last_step, batch, rate_at, seconds=600):
    """The share of the test images that the chief's model knows at the end."""
    images, labels = mnist("train")
    ready = threading.Event()

    def replica(index):
        with tf1.device(between_graph(cluster, index, ByBytes(2))):
            tf1.set_random_seed(1)
            training = Training(model, rate_at, synchronous)
        hooks = [tf1.train.StopAtStepHook(last_step=last_step)]
        if synchronous:
            hooks.append(training.optimizer.make_session_run_hook(index == 0))
        own = batches(images, labels, batch, index)
        with monitored(cluster, index, ready, hooks) as session:
            while not session.should_stop():
                try:
                    session.run(training.train, training.fed(next(own)))
                except tf.errors.OutOfRangeError:  # the chief ended and closed the tokens
                    break
        if index == 0:
            return training.test_accuracy(cluster.target("worker", 0))
    return run_replicas(REPLICAS, replica, seconds)[0]


def decaying(rate, steps):
    return lambda step: tf1.train.polynomial_decay(rate, step, steps, 1e-5)


@MODES
def test_softmax(fresh, synchronous):
    steps = 600 if synchronous else 1800
    assert learn(fresh, softmax, synchronous, steps, 100, decaying(0.01, steps)) >= 0.92


@MODES
def test_convolutions(fresh, synchronous):
    """The longest tests: each mode with one version."""
    if synchronous != NEWEST:
        pytest.skip("the other version runs this")
    steps = 500 if synchronous else 1500
    accuracy = learn(fresh, convolutional, synchronous, steps, 64, decaying(0.003, steps), 1800)
    assert accuracy >= 0.985
